//! `thaw elf verify`: does a packed file still mean what its original means?

use crate::args::elf::VerifyArgs;
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use pack::{Backend, Options, Outcome};
use serde::Serialize;
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

/// Compares; [`Exit::No`] if something differs.
///
/// # Errors
/// A file that cannot be read; an original that is no library or program that can be packed, or not with these options.
pub fn run(args: &VerifyArgs) -> Result<Exit> {
    let read = |path: &std::path::Path| {
        std::fs::read(path).map_err(|error| Error::on(Exit::Usage, "cannot read", path).because(error))
    };
    let (original, packed) = (read(&args.original)?, read(&args.packed)?);
    let on_original = |mut error: Error| {
        error.object = shown(&args.original);
        error
    };
    let options = super::options(&args.rewrite)?;
    let expected = expected(&original, &options).map_err(on_original)?;
    let offline = verify::offline_expecting(&original, &packed, &expected).map_err(on_original)?;
    let live = match args.live {
        true => {
            // An injected initialiser has to run first.
            let stop = if options.backend == Backend::Init { Stop::Entry } else { Stop::Relocated };
            let options = LiveOptions { stop, expected, ..LiveOptions::default() };
            Some(verify::live(&args.original, &args.packed, &options)?)
        }
        false => None,
    };
    let agrees = offline.agrees() && live.as_ref().is_none_or(Verdict::agrees);
    let hint = "if it was packed with --backend, --new-build-id or passes, give the same options here";
    let document = VerifyDocument {
        schema: "thaw.elf-verify/1",
        original: shown(&args.original),
        packed: shown(&args.packed),
        agrees,
        offline,
        live,
        hint: (!agrees && options == Options::default()).then_some(hint),
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::verify(&document, text::width::of_terminal()))?;
    }
    Ok(if document.agrees { Exit::Done } else { Exit::No })
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
