//! Who may do what with a new file: one rule for all that thaw writes.

use super::filesystem::current;
use crate::file::{attributes, set_times};
use rustix::fs::XattrFlags;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

/// Rights that a file has of its own when it is started: set-user-id, set-group-id, and the sticky bit with them.
const OWN_RIGHTS: u32 = 0o7000;
/// The attribute that holds capabilities.
const CAPABILITIES: &std::ffi::CStr = c"security.capability";

/// Whose rights a new file gets.
#[derive(Clone, Copy, Debug)]
pub enum Rights<'a> {
    /// Only its owner may read and write it.
    Private,
    /// As any program makes a file: what others may do is the umask's to say.
    Usual,
    /// As [`Rights::Usual`], and it may be started.
    Program,
    /// Owner, mode, extended attributes (access lists and capabilities among them) and times of another file.
    Like {
        /// The file.
        file: &'a File,
        /// What was known of it when it was opened: reading it may have changed its times.
        about: &'a Metadata,
        /// What if the user may not give all of this.
        strictness: Strictness,
    },
}

/// What happens if a file cannot be given all that another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It is an error.
    Exactly,
    /// What the user may give is given.
    AsAllowed,
}

/// Gives a new file its rights.
///
/// # Errors
/// What failed, and why.
pub fn grant(new: &File, rights: Rights<'_>) -> Result<(), (&'static str, io::Error)> {
    let mode = |mode| current().set_mode(new, mode).map_err(|cause| ("cannot set the mode of", cause));
    match rights {
        Rights::Private => mode(0o600),
        Rights::Usual => mode(0o666 & !umask()),
        Rights::Program => mode(0o777 & !umask()),
        Rights::Like { file, about, strictness } => like(new, file, about, strictness),
    }
}

fn like(new: &File, file: &File, about: &Metadata, strictness: Strictness) -> Result<(), (&'static str, io::Error)> {
    let bear = |result: io::Result<()>, what| match result {
        Err(cause) if strictness == Strictness::Exactly => Err((what, cause)),
        _ => Ok(()),
    };
    let owner = |file: &File| file.metadata().map(|about| (about.uid(), about.gid()));
    let wanted = (about.uid(), about.gid());
    let is = owner(new).map_err(|cause| ("cannot look at", cause))?;
    if is != wanted {
        bear(current().set_owner(new, wanted.0, wanted.1), "cannot give away")?;
    }
    let is_kept = owner(new).map_err(|cause| ("cannot look at", cause))? == wanted;
    // Rights of their own do not go to another owner. The mode comes after the owner: a change of owner takes such rights away.
    let mode = about.mode() & if is_kept { 0o7777 } else { 0o7777 & !OWN_RIGHTS };
    current().set_mode(new, mode).map_err(|cause| ("cannot set the mode of", cause))?;
    for (name, value) in attributes(file) {
        if is_kept || name.as_c_str() != CAPABILITIES {
            let set = rustix::fs::fsetxattr(new, name.as_c_str(), &value, XattrFlags::empty());
            bear(set.map_err(io::Error::from), "cannot set the extended attributes of")?;
        }
    }
    set_times(new, about).map_err(|cause| ("cannot set the times of", cause))
}

/// The process's file mode creation mask. umask(2) would change it for the other threads while it is asked.
fn umask() -> u32 {
    let mask = crate::process::status_value(std::process::id(), "Umask");
    // Where that is not known, nobody else gets anything.
    mask.and_then(|mask| u32::from_str_radix(&mask, 8).ok()).unwrap_or(0o077)
}
