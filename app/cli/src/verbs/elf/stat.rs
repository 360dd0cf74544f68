//! `thaw elf stat`: what ELF files hold that costs at a start.

use crate::args::elf::{SortKey, StatArgs};
use crate::progress::Progress;
use crate::{output, text};
use elfstat::report::{LeftOut, Summary, Survey, Surveyed};
use elfstat::{Depth, look, summarize, survey};
use model::{Error, Exit, Result};
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Mutex;
use work::progress::Tell;

/// `thaw.elf-stat/1`: one file in detail, or many.
#[derive(Serialize)]
pub struct StatDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// How closely each file was looked at.
    pub depth: Depth,
    /// Sums over all files.
    pub summary: Summary,
    /// ELF files, sorted as asked.
    pub files: Vec<Surveyed>,
    /// What was not seen.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

/// Looks, and says what was found.
///
/// # Errors
/// A path that is not there; one file that is no ELF file, or damaged; only files that cannot be read.
pub fn run(args: &StatArgs, quiet: bool) -> Result<Exit> {
    for path in &args.paths {
        path.metadata().map_err(|error| Error::on(Exit::Usage, "cannot look at", path).because(error))?;
    }
    let document = match args.paths.as_slice() {
        [path] if !path.is_dir() => {
            let file = Surveyed { path: path.clone(), report: look(path)? };
            document(Depth::Detail, Survey { files: vec![file], ..Survey::default() }, args.sort)
        }
        _ => {
            os::interrupt::install()?;
            let progress = Mutex::new(Progress::new(quiet));
            let survey = survey(&args.paths, &|now| {
                progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).files(now.done, now.of, "looked at");
            });
            document(Depth::Survey, survey, args.sort)
        }
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::stat(&document, args.rows.most(), text::width::of_terminal()))?;
    }
    Ok(if document.left_out.interrupted { Exit::Interrupted } else { Exit::Done })
}

fn document(depth: Depth, survey: Survey, sort: SortKey) -> StatDocument {
    let Survey { mut files, left_out } = survey;
    // Sorting keeps the order of the paths where the key is the same.
    match sort {
        SortKey::Saved => files.sort_by_key(|file| Reverse(file.report.packing.saves())),
        SortKey::Size => files.sort_by_key(|file| Reverse(file.report.size)),
        SortKey::Relocations => files.sort_by_key(|file| Reverse(file.report.relocations.count)),
        SortKey::Tables => files.sort_by_key(|file| Reverse(file.report.relocations.bytes)),
        SortKey::Internal => files.sort_by_key(|file| Reverse(file.report.internal.load)),
        SortKey::Initializers => files.sort_by_key(|file| Reverse(file.report.initializers.count)),
        SortKey::Name => files.sort_by(|left, right| left.path.cmp(&right.path)),
    }
    let summary = summarize(&files);
    StatDocument { schema: "thaw.elf-stat/1", depth, summary, files, left_out }
}
