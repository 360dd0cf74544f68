//! Whether a packed file still means what its original means.

use model::{Error, Exit, Result, shown};
use pack::{Backend, Options, Outcome};
use serde::Serialize;
use std::path::Path;
use verify::{self, Expected, LiveOptions, Stop, Verdict};

/// `thaw.elf-verify/1`
#[derive(Serialize)]
pub struct VerifyDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The file as it was.
    pub original: String,
    /// The file as it is.
    pub packed: String,
    /// Both mean the same.
    pub agrees: bool,
    /// Compared in memory, by thaw.
    pub offline: Verdict,
    /// Loaded by this machine's loader; with `--live` only.
    pub live: Option<Verdict>,
    /// What to try where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

/// How two files are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In memory, by thaw.
    Offline,
    /// Also loaded by this machine's loader.
    Live,
}

/// Compares.
///
/// # Errors
/// A file that cannot be read; an original that is no library or program that can be packed, or not with these options.
pub fn run(before: &Path, after: &Path, options: &Options, how: How) -> Result<VerifyDocument> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| Error::on(Exit::Usage, "cannot read", path).because(error));
    let (original, packed) = (read(before)?, read(after)?);
    let on_original = |mut error: Error| {
        error.object = shown(before);
        error
    };
    let expected = expected(&original, options).map_err(on_original)?;
    let offline = verify::offline_expecting(&original, &packed, &expected).map_err(on_original)?;
    let live = match how {
        How::Live => {
            // An injected initialiser has to run first.
            let stop = if options.backend == Backend::Init { Stop::Entry } else { Stop::Relocated };
            Some(verify::live(before, after, &LiveOptions { stop, expected, ..LiveOptions::default() })?)
        }
        How::Offline => None,
    };
    let agrees = offline.agrees() && live.as_ref().is_none_or(Verdict::agrees);
    let hint = "if it was packed with --backend, --new-build-id or passes, give the same options here";
    Ok(VerifyDocument {
        schema: "thaw.elf-verify/1",
        original: shown(before),
        packed: shown(after),
        agrees,
        offline,
        live,
        hint: (!agrees && *options == Options::default()).then_some(hint),
    })
}

/// What packing with these options changes on purpose, besides the form of relocations: found out by packing once more,
/// which gives the same file each time.
fn expected(original: &[u8], options: &Options) -> Result<Expected> {
    if *options == Options::default() {
        return Ok(Expected::default());
    }
    match pack::rewrite(original, options)? {
        (_, Some(rewritten)) => Ok(rewritten.expected),
        (Outcome::Refused(refusal), None) => Err(Error::new(Exit::Usage, "cannot be packed with these options:", "")
            .because(refusal.sentence)
            .hint("name the options that it was packed with, or none")),
        (Outcome::Packed(_), None) => Err(Error::bug("packing once more said that it packed, and gave no file")),
    }
}
