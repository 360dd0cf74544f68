//! `thaw elf verify`: does a packed file still mean what its original means?

use crate::args::elf::VerifyArgs;
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use pack::verify::{self, Verdict};
use serde::Serialize;

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
}

/// Compares; [`Exit::No`] if something differs.
///
/// # Errors
/// A file that cannot be read; an original that is no library or program that can be packed.
pub fn run(args: &VerifyArgs) -> Result<Exit> {
    let read = |path: &std::path::Path| {
        std::fs::read(path).map_err(|error| Error::on(Exit::Usage, "cannot read", path).because(error))
    };
    let offline = verify::offline(&read(&args.original)?, &read(&args.packed)?).map_err(|mut error| {
        error.object = shown(&args.original);
        error
    })?;
    let live = match args.live {
        true => Some(verify::live(&args.original, &args.packed, &verify::LiveOptions::default())?),
        false => None,
    };
    let document = VerifyDocument {
        schema: "thaw.elf-verify/1",
        original: shown(&args.original),
        packed: shown(&args.packed),
        agrees: offline.agrees() && live.as_ref().is_none_or(Verdict::agrees),
        offline,
        live,
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::verify(&document, text::width::of_terminal()))?;
    }
    Ok(if document.agrees { Exit::Done } else { Exit::No })
}
