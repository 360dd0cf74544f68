//! `thaw frag`: in how many pieces files lie, and putting them together.

use crate::args::frag::FragArgs;
use crate::progress::Progress;
use crate::{output, text};
use model::{Exit, Result};
use std::sync::Mutex;
use work::progress::Tell;
use work::scattered::{self, Pieces};

/// Looks, mends if asked, and says what was found.
///
/// # Errors
/// A path that is not there; an unknown disk.
pub fn run(args: &FragArgs, quiet: bool) -> Result<Exit> {
    let progress = Mutex::new(Progress::new(quiet));
    let show = |done, of, what| progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).files(done, of, what);
    let pieces = if args.fix { Pieces::Joined } else { Pieces::Counted };
    let (document, exit) = scattered::run(&args.paths, &args.disk, pieces, &show)?;
    progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).done();
    output::answer(args.json, &document, || text::frag::page(&document, args.rows.most(), text::width::of_terminal()))?;
    Ok(exit)
}
