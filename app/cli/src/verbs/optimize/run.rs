//! `thaw optimize --run`: becomes a program, with the copies of its files that were measured to help over the originals and with what it needs read before.
//!
//! Nothing keeps the program from starting: what cannot be done is said, and it starts without.

use super::build::PRELOAD;
use crate::args::preload::{EngineChoice, RunArgs, WindowChoice};
use crate::args::user::UserArgs;
use crate::verbs::preload;
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use optimize::files;
use optimize::manifest::{Manifest, this_machine};
use optimize::remedy::Remedy;
use os::covers::Covers;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Starts the program of a result with these arguments. Returns only where there is none.
///
/// # Errors
/// The result is damaged, so that nobody knows the program.
pub fn start(directory: &Path, words: &[OsString]) -> Result<Exit> {
    let directory = files::absolute(directory)?;
    let manifest = Manifest::read(&directory)?;
    let program = manifest.start.clone().unwrap_or_else(|| manifest.root.join(&manifest.program));
    if let Err(why) = cover(&manifest, &directory) {
        let text = format!("{} starts without the changed copies of its files: {why}", shown(&program));
        let hint = "without root this needs user namespaces; after an upgrade: record it again, then `thaw optimize`";
        output::complain(&text::errors::warning_line(&text, Some(hint)));
    }
    let command = std::iter::once(program.into_os_string()).chain(words.iter().cloned()).collect();
    if !manifest.kept.contains(&Remedy::Preload) {
        preload::become_program(command);
    }
    let (manifest, engine, window) = (directory.join(PRELOAD), EngineChoice::Auto, WindowChoice::Auto);
    preload::start(&RunArgs { manifest, command, engine, window, verbose: false, run_as: UserArgs::default() })
}

/// Puts the copies over the originals, for this process and what it becomes.
fn cover(manifest: &Manifest, directory: &Path) -> std::result::Result<(), String> {
    if manifest.files.is_empty() {
        return Ok(());
    }
    if manifest.machine != this_machine() {
        return Err(format!("they were measured on another machine ({})", manifest.host));
    }
    // Files of two versions of a program must not be mixed.
    if let Some(file) = manifest.files.iter().find(|file| !file.is_as_seen(manifest)) {
        return Err(format!("{} was changed since they were made", shown(&file.path)));
    }
    let pairs: Vec<(PathBuf, PathBuf)> =
        manifest.files.iter().map(|file| (file.copy(directory), file.original(manifest))).collect();
    let covers = Covers::new(pairs.iter().map(|(copy, original)| (&**copy, &**original)));
    let covers = covers.map_err(|error: Error| error.to_string())?;
    let entered = match rustix::process::geteuid().is_root() {
        true => covers.enter().map_err(std::io::Error::from_raw_os_error),
        false => covers.enter_as_user(),
    };
    entered.map_err(|cause| {
        covers.uncover();
        cause.to_string()
    })
}
