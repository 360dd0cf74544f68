//! `thaw why`: where does the time of a start go?

use super::record;
use crate::args::record::RecordArgs;
use crate::args::why::{OtherArgs, WhyArgs};
use crate::{export, output, plan, text};
use cpu::export::Format;
use model::{Exit, Result, RunId};
use os::replace::{self, Existing, Rights};
use std::path::{Path, PathBuf};
use work::why::WhyDocument;

/// Records traced starts, or reads some that were recorded, and prints who owns their time.
///
/// # Errors
/// As `thaw record`; data: that was not taken down.
pub fn run(args: WhyArgs, quiet: bool) -> Result<Exit> {
    let (json, most, existing) = (args.record.json, args.most as usize, Existing::forced(args.record.force));
    let before = args.compare;
    // Found out before the program is measured, not after.
    for file in args.html.iter().chain(files(&args.other).map(|(_, file)| file)) {
        replace::check(file, existing)?;
    }
    let (path, exit) = match args.from {
        Some(path) => (path, Exit::Done),
        None => {
            let wanted = args.record.export.clone();
            let plan = plan::record(RecordArgs { verb: "why", why: true, ..args.record })?;
            let path = plan.output.clone();
            let recorded = record::recorded(plan, &wanted, quiet)?;
            export::write(&recorded.document, &wanted, existing)?;
            (path, recorded.exit)
        }
    };
    if let Some(before) = before {
        let document = work::why::difference::document(&before, &path)?;
        output::answer(json, &document, || text::why::difference(&document, most, text::width::of_terminal()))?;
        return Ok(exit);
    }
    let document = work::why::read(&path)?;
    if let Some(html) = &args.html {
        output::file(html, work::why::page::page(&path, &document)?.as_bytes(), existing)?;
    }
    exports(&path, &document, &args.other, existing)?;
    output::answer(json, &document, || text::why::page(&document, most, text::width::of_terminal()))?;
    Ok(exit)
}

/// The files for other tools that were asked for.
fn files(other: &OtherArgs) -> impl Iterator<Item = (Format, &PathBuf)> {
    let OtherArgs { export_folded, export_speedscope, export_firefox, export_pprof, export_perfetto, .. } = other;
    let all = [
        (Format::Folded, export_folded),
        (Format::Speedscope, export_speedscope),
        (Format::Firefox, export_firefox),
        (Format::Pprof, export_pprof),
        (Format::Perfetto, export_perfetto),
    ];
    all.into_iter().filter_map(|(format, file)| Some((format, file.as_ref()?)))
}

fn exports(path: &Path, document: &WhyDocument, other: &OtherArgs, existing: Existing) -> Result<()> {
    if files(other).next().is_none() {
        return Ok(());
    }
    let exported = work::why::exported(path, document, other.export_run.map(RunId))?;
    if other.export_run.is_none() && document.starts.len() > 1 {
        let (run, name, state) = (exported.run.0, text::harmless(&exported.name), exported.state);
        output::complain(&format!("run {run} is exported: {name} ({state}); --export-run N exports another\n"));
    }
    for (format, file) in files(other) {
        replace::write_by(file, Rights::Usual, existing, |out| exported.write(format, out))?;
    }
    Ok(())
}
