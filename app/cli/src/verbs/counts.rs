//! `thaw counts`: the concordance of a text.

use crate::args::counts::CountsArgs;
use crate::output;
use counts::{Concordance, Erase, Weight};
use model::{Error, Exit, Result, shown};
use std::fs::File;

/// Counts and prints.
///
/// # Errors
/// A file that cannot be read; a weight that is none.
pub fn run(args: &CountsArgs) -> Result<Exit> {
    let weight = match (args.integral, args.fractional) {
        (true, _) => Weight::Integral,
        (_, true) => Weight::Fractional,
        _ => Weight::Unit,
    };
    let mut lines = Concordance::new(weight, if args.erase { Erase::Numbers } else { Erase::Nothing });
    // All are opened before the first is read: a mistyped name is said at once.
    let open = |path| File::open(path).map_err(|cause| Error::on(Exit::Usage, "cannot open", path).because(cause));
    let files = args.files.iter().map(|path| Ok((path, open(path)?))).collect::<Result<Vec<_>>>()?;
    for (path, mut file) in files {
        lines.read(&shown(path), &mut file)?;
    }
    if args.files.is_empty() {
        lines.read("stdin", &mut std::io::stdin().lock())?;
    }
    output::stream(|out| lines.write(out))?;
    Ok(Exit::Done)
}
