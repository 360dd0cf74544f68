//! What is read ahead of a start: a manifest made of recordings, and how one fits this machine.

use crate::{needs, target};
use model::{Bytes, Error, Exit, Result, shown};
use os::replace::Existing;
use preload::manifest::{About, Manifest};
use preload::plan::{Gap, Order, Plan};
use preload::run::Report;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// `thaw.preload-plan/1`: what `make` made.
#[derive(Debug, Serialize)]
pub struct PlanDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The manifest's file.
    pub manifest: String,
    /// Where it comes from.
    pub about: About,
    /// Files in it.
    pub files: usize,
    /// Reads in it.
    pub reads: usize,
    /// Bytes of all reads.
    pub bytes: Bytes,
    /// Of those, needed by any of the recorded starts.
    pub needed: Bytes,
    /// How many recorded starts tell what is needed.
    pub starts: usize,
    /// How long the disk takes for all of it, seconds.
    pub disk_s: f64,
    /// Files of the recording that are not in the manifest.
    pub lost: Vec<LostDocument>,
}

/// A file of the recording that is not in the manifest.
#[derive(Debug, Serialize)]
pub struct LostDocument {
    /// Its path, or that it is metadata.
    pub path: String,
    /// Why.
    #[serde(flatten)]
    pub why: preload::Stale,
}

/// `thaw.preload/1`: a manifest and how it fits.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The manifest's file.
    pub manifest: String,
    /// Where it comes from.
    pub about: About,
    /// This machine's name.
    pub host: String,
    /// Reads in it.
    pub reads: usize,
    /// What was found.
    pub report: Report,
}

/// What a manifest is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Recordings with cold, traced starts.
    pub recordings: &'a [PathBuf],
    /// Which of their programs; `None`: the first.
    pub variant: Option<&'a str>,
    /// The disk to plan for, as it is typed; `None`: as the recording says.
    pub disk: Option<&'a str>,
    /// Order of the reads; `None`: by the kind of disk.
    pub order: Option<Order>,
    /// Which gaps are read too.
    pub gap: Gap,
}

/// Writes a manifest.
///
/// # Errors
/// The recording holds no cold start, or nothing of what it needed is as it was.
pub fn make(asked: &Wanted<'_>, output: &Path, existing: Existing) -> Result<PlanDocument> {
    let mut needed = needs::of(asked.recordings, asked.variant)?;
    let absolute = |path: &PathBuf| shown(&std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let recordings: Vec<String> = asked.recordings.iter().map(absolute).collect();
    let (wanted, lost) = preload::make::look(std::mem::take(&mut needed.files));
    if wanted.is_empty() {
        let recordings = recordings.join(", ");
        return Err(Error::new(Exit::No, "nothing that this start needed is as it was recorded:", recordings)
            .hint("record it again on this machine, then `thaw preload make`"));
    }
    let disk = target::disk(asked.disk, &needed, wanted.iter().map(|file| &*file.entry.path))?;
    let order = asked.order.unwrap_or_else(|| target::order(&disk));
    let about = target::about(recordings.join(", "), needed.source, &disk);
    let starts = needed.starts;
    let Plan { manifest, needed, time } = target::plan(wanted, asked.gap, order, &disk, about);
    manifest.write(output, existing)?;
    Ok(PlanDocument {
        schema: "thaw.preload-plan/1",
        manifest: shown(output),
        files: manifest.files.len(),
        reads: manifest.reads.len(),
        bytes: manifest.bytes(),
        about: manifest.about,
        needed,
        starts,
        disk_s: time.seconds(),
        lost: lost.into_iter().map(|lost| LostDocument { path: lost.shown, why: lost.why }).collect(),
    })
}

/// How a manifest fits.
///
/// # Errors
/// It cannot be read.
pub fn status(path: &Path) -> Result<StatusDocument> {
    let manifest = Manifest::read(path)?;
    let report = preload::run::look(&manifest);
    Ok(StatusDocument {
        schema: "thaw.preload/1",
        manifest: shown(path),
        about: manifest.about,
        host: os::machine::host(),
        reads: manifest.reads.len(),
        report,
    })
}
