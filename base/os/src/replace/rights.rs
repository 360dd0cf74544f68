//! Who may do what with a new file: one rule for all that thaw writes.

use super::filesystem::current;
use crate::file::{all_attributes, set_times};
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
        Rights::Usual => mode(0o666 & !umask()?),
        Rights::Program => mode(0o777 & !umask()?),
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
    let mut attributes = Vec::new();
    bear(all_attributes(file).map(|all| attributes = all), "cannot read the extended attributes for")?;
    for (name, value) in attributes {
        if is_kept || name.as_c_str() != CAPABILITIES {
            let set = rustix::fs::fsetxattr(new, name.as_c_str(), &value, XattrFlags::empty());
            bear(set.map_err(io::Error::from), "cannot set the extended attributes of")?;
        }
    }
    set_times(new, about).map_err(|cause| ("cannot set the times of", cause))
}

/// The process's file mode creation mask. umask(2) would change it for the other threads while it is asked.
fn umask() -> Result<u32, (&'static str, io::Error)> {
    let status = std::fs::read_to_string("/proc/self/status");
    let status = status.map_err(|cause| ("cannot find out the umask (/proc/self/status) for", cause))?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    // Kernels before 4.7 do not tell it: nobody else gets anything.
    Ok(mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o077))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, fchown};

    /// The mode that a new file gets from one of root that has rights of its own; what cannot be given is an error where it must be.
    fn mode_after(old: &File, new: &File) -> u32 {
        let about = old.metadata().unwrap();
        let like = |strictness| grant(new, Rights::Like { file: old, about: &about, strictness });
        like(Strictness::AsAllowed).unwrap();
        let is_kept = new.metadata().unwrap().uid() == about.uid();
        assert_eq!(like(Strictness::Exactly).is_ok(), is_kept);
        new.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn rights_of_their_own_do_not_go_to_another_owner() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
        let new = |name: &str| File::create(home.path().join(name)).unwrap();
        let old = new("old");
        fchown(&old, Some(0), Some(0)).unwrap();
        old.set_permissions(Permissions::from_mode(0o6755)).unwrap();
        assert_eq!(mode_after(&old, &new("of-root")), 0o6755, "root may give the owner too");
        let as_other = testing::as_ordinary_user(|| mode_after(&old, &new("of-other")));
        assert_eq!(as_other, 0o755, "somebody else's program does not start with root's rights");
    }
}
