//! Who may do what with a new file: one rule for all that thaw writes.

use crate::file::{all_attributes, set_times};
use crate::filesystem::current;
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
        /// The file whose rights the new one gets.
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
    // Rights of their own do not go to another owner. The mode comes after the owner: a change of owner takes such
    // rights away.
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
    use crate::filesystem::{self, Existing, FileSystem, Kernel, NameIn};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, fchown};
    use std::path::Path;
    use std::rc::Rc;

    /// The mode that a new file gets from one of root that has rights of its own; what cannot be given is an error
    /// where it must be.
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

    /// A file system where nobody can be given a file, as some of other machines.
    struct NothingIsGivenAway;

    impl FileSystem for NothingIsGivenAway {
        fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
            Kernel.make_directory(path, mode)
        }
        fn create(&self, at: NameIn<'_>) -> io::Result<File> {
            Kernel.create(at)
        }
        fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()> {
            Kernel.make_link(at, target)
        }
        fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()> {
            Kernel.add_name(file, at)
        }
        fn sync_file(&self, file: &File) -> io::Result<()> {
            Kernel.sync_file(file)
        }
        fn sync_directory(&self, directory: &File) -> io::Result<()> {
            Kernel.sync_directory(directory)
        }
        fn sync_everything(&self, on: &File) -> io::Result<()> {
            Kernel.sync_everything(on)
        }
        fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()> {
            Kernel.rename(from, to, existing)
        }
        fn exchange(&self, one: NameIn<'_>, other: NameIn<'_>) -> io::Result<()> {
            Kernel.exchange(one, other)
        }
        fn remove(&self, at: NameIn<'_>) -> io::Result<()> {
            Kernel.remove(at)
        }
        fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
            Kernel.set_mode(file, mode)
        }
        fn set_owner(&self, _file: &File, _user: u32, _group: u32) -> io::Result<()> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    #[test]
    fn capabilities_do_not_go_to_another_owner_either() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let new = |name: &str| File::create(home.path().join(name)).unwrap();
        let old = new("old");
        fchown(&old, Some(65534), Some(65534)).unwrap();
        old.set_permissions(Permissions::from_mode(0o4755)).unwrap();
        // struct vfs_cap_data of linux/capability.h, revision 2, in force: the right to open raw sockets.
        let mut raw_sockets = [0_u8; 20];
        raw_sockets[..4].copy_from_slice(&0x0200_0001_u32.to_le_bytes());
        raw_sockets[4..8].copy_from_slice(&(1_u32 << 13).to_le_bytes());
        if rustix::fs::fsetxattr(&old, CAPABILITIES, &raw_sockets, XattrFlags::empty()).is_err() {
            return testing::skip("needs a file system that keeps capabilities");
        }
        let has = |file: &File| all_attributes(file).unwrap().iter().any(|(name, _)| name.as_c_str() == CAPABILITIES);
        let (kept, given) = (new("kept"), new("given"));
        assert_eq!((mode_after(&old, &given), has(&given)), (0o4755, true), "root may give the owner too");
        filesystem::with(Rc::new(NothingIsGivenAway), || {
            assert_eq!((mode_after(&old, &kept), has(&kept)), (0o755, false));
        });
    }
}
