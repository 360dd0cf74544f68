//! `thaw view`: the page that people look at.

use crate::args::view::ViewArgs;
use crate::output;
use crate::progress::Progress;
use model::{Exit, Result};
use os::kind::{self, Kind};
use view::Open;
use work::heaps::page::whole;
use work::{footprint, page, recorded};

/// Serves the page until Ctrl-C.
///
/// # Errors
/// A file that is no recording, or a port that is taken.
pub fn run(args: &ViewArgs) -> Result<Exit> {
    let since = args.since.as_deref();
    let page = match kind::of(&args.recording) {
        Some(Kind::Heap) => whole(&args.recording, since, &Progress::telling(true))?,
        Some(Kind::MemoryReport | Kind::MemoryWatch) => footprint::whole_page(&args.recording, since)?,
        _ => page::of_recording(&args.recording, &recorded::report(&args.recording)?, since)?,
    };
    let open = if args.no_browser { Open::Nothing } else { Open::Browser };
    view::serve(page, args.port, open, &mut |url| output::complain(&format!("{url} shows it; Ctrl-C ends it\n")))?;
    Ok(Exit::Done)
}
