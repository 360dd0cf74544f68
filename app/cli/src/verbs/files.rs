//! `thaw flush` and `thaw resident`: files and the page cache, without a program.

use crate::args::files::{FlushArgs, ResidentArgs};
use crate::{output, text};
use model::{Error, Exit, Result};
use os::cache::{FlushReport, ResidentReport};
use serde::Serialize;
use std::path::PathBuf;

/// `thaw.flush/1`
#[derive(Serialize)]
struct FlushDocument<'a> {
    schema: &'static str,
    evicted_bytes: u64,
    #[serde(flatten)]
    report: &'a FlushReport,
}

/// `thaw.resident/1`
#[derive(Serialize)]
struct ResidentDocument<'a> {
    schema: &'static str,
    resident_bytes: u64,
    #[serde(flatten)]
    report: &'a ResidentReport,
}

/// Evicts; [`Exit::No`] if something stayed.
///
/// # Errors
/// A path that is not there.
pub fn flush(args: &FlushArgs) -> Result<Exit> {
    must_exist(&args.paths)?;
    os::interrupt::install()?;
    let report = os::cache::flush(&args.paths);
    if args.json {
        let evicted_bytes = report.evicted().0;
        output::json(&FlushDocument { schema: "thaw.flush/1", evicted_bytes, report: &report })?;
    } else {
        output::page(&text::files::flush(&report, text::width::of_terminal()))?;
    }
    Ok(match (report.interrupted, report.kept.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::No,
    })
}

/// Lists what is resident.
///
/// # Errors
/// A path that is not there.
pub fn resident(args: &ResidentArgs) -> Result<Exit> {
    must_exist(&args.paths)?;
    os::interrupt::install()?;
    let report = os::cache::list_resident(&args.paths);
    if args.json {
        let resident_bytes = report.files.iter().map(|file| file.resident.0).sum();
        output::json(&ResidentDocument { schema: "thaw.resident/1", resident_bytes, report: &report })?;
    } else {
        output::bytes(&bench::base::listed(&report))?;
    }
    if report.unknown > 0 {
        let files = text::units::plural(report.unknown, "file", "files");
        let warning = format!("this user may not look into {files}; they are not in the list");
        output::complain(&text::errors::warning_line(&warning, Some("run it as root for a whole list")));
    }
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Done })
}

/// A path that was typed and is not there is a mistake, not an empty answer.
fn must_exist(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        std::fs::symlink_metadata(path)
            .map_err(|error| Error::on(Exit::Usage, "cannot look at", path).because(error))?;
    }
    Ok(())
}
