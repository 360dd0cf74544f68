//! What ELF files hold that costs at a start.

use super::all_there;
use elfstat::report::{LeftOut, Summary, Survey, Surveyed};
use elfstat::{Depth, look, summarize, survey};
use model::Result;
use serde::Serialize;
use std::cmp::Reverse;
use std::path::PathBuf;

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

/// What files are sorted by; most first, names from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// Bytes that packing the relative relocations would save.
    Saved,
    /// Size of the file.
    Size,
    /// Relocations, packed ones too.
    Relocations,
    /// Bytes of the relocation tables.
    Tables,
    /// Relocations that look up a symbol which the file has itself.
    Internal,
    /// Functions that run at the start.
    Initializers,
    /// Path.
    Name,
}

/// Looks at one file, or at many; of many `progress` is told how many were looked at, from several threads.
///
/// # Errors
/// A path that is not there; one file that is no ELF file, or damaged; only files that cannot be read.
pub fn run(paths: &[PathBuf], sort: SortKey, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<StatDocument> {
    all_there(paths)?;
    match paths {
        [path] if !path.is_dir() => {
            let file = Surveyed { path: path.clone(), report: look(path)? };
            Ok(document(Depth::Detail, Survey { files: vec![file], ..Survey::default() }, sort))
        }
        _ => {
            os::interrupt::install()?;
            let survey = survey(paths, &|now| progress(now.done, now.of));
            Ok(document(Depth::Survey, survey, sort))
        }
    }
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
