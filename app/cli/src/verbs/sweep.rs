//! `thaw sweep`: how does a start grow?

use super::record;
use crate::args::sweep::SweepArgs;
use crate::{export, output, plan, text};
use model::{Exit, Result};
use os::replace::Existing;

/// Records the sweep, or reads one that was recorded, and prints how the starts grow.
///
/// # Errors
/// As `thaw record`; data: too few values to tell anything.
pub fn run(args: SweepArgs, quiet: bool) -> Result<Exit> {
    let (json, at) = (args.record.json, args.at.clone());
    let (path, exit) = match &args.from {
        Some(path) => (path.clone(), Exit::Done),
        None => {
            let (wanted, existing) = (args.record.export.clone(), Existing::forced(args.record.force));
            let plan = plan::sweep(args)?;
            let path = plan.output.clone();
            let recorded = record::recorded(plan, &wanted, quiet)?;
            export::write(&recorded.document, &wanted, existing)?;
            (path, recorded.exit)
        }
    };
    let document = work::sweep::read(&path, &at)?;
    output::answer(json, &document, || text::sweep::page(&document, text::width::of_terminal()))?;
    Ok(exit)
}
