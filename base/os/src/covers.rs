//! Files that lie over others for one program alone: bind mounts, and directories laid over others (overlayfs), in a
//! mount namespace of its own.
//!
//! Nobody else sees any of it, nothing appears in the machine's mount table, and it is gone with the last process in
//! the namespace: there is nothing to put back. Everything is prepared before, so that a forked child may enter between
//! fork and exec.

use model::{Error, Exit, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null;

/// What lies over what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covers {
    all: Vec<Cover>,
}

/// One thing over another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cover {
    place: CString,
    seen: Seen,
}

/// What is seen at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// This file, or directory, alone.
    Instead(CString),
    /// What a directory holds, and what it does not hold as it is there: options and flags of an overlay.
    Before(CString, libc::c_ulong),
}

impl Covers {
    /// Of pairs of files or of directories: what is seen, and where.
    ///
    /// # Errors
    /// A path holds a zero byte.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a Path, &'a Path)>) -> Result<Self> {
        pairs.into_iter().try_fold(Self::default(), Self::and)
    }

    /// And, after all others, this.
    ///
    /// # Errors
    /// A path holds a zero byte.
    pub fn and(mut self, (seen, place): (&Path, &Path)) -> Result<Self> {
        self.all.push(Cover { place: text(place)?, seen: Seen::Instead(text(seen)?) });
        Ok(self)
    }

    /// Of pairs of directories, what the first holds is seen in the second, and else what that holds itself. Nothing
    /// can be written there, and what is forbidden in one of the two (`nosuid`, `nodev`, `noexec`) is forbidden.
    ///
    /// # Errors
    /// A directory is not there; a path holds a zero byte.
    pub fn merged<'a>(pairs: impl IntoIterator<Item = (&'a Path, &'a Path)>) -> Result<Self> {
        let mut covers = Self::default();
        for (seen, place) in pairs {
            let flags = [seen, place].iter().try_fold(libc::MS_RDONLY, |flags, path| {
                let more =
                    forbidden(path).map_err(|cause| Error::on(Exit::Machine, "cannot look at", path).because(cause));
                more.map(|more| flags | more)
            })?;
            let mut options = b"lowerdir=".to_vec();
            options.extend(escaped(seen));
            options.push(b':');
            options.extend(escaped(place));
            let options = CString::new(options).map_err(|cause| unusable(seen).because(cause))?;
            covers.all.push(Cover { place: text(place)?, seen: Seen::Before(options, flags) });
        }
        Ok(covers)
    }

    /// Nothing lies over anything.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Moves the calling thread into a mount namespace of its own and covers the files there. It makes system calls on
    /// prepared memory only. It needs root: call it before giving that up. A current directory that is covered stays
    /// the one below.
    ///
    /// # Errors
    /// The error number of the first call that failed. The thread is then where not everything is covered; end it.
    pub fn enter(&self) -> std::result::Result<(), i32> {
        leave_machine(0)?;
        self.cover()
    }

    /// The same as an ordinary user, whose namespaces of users the kernel must allow: the program then runs as this
    /// user and group, and no other ones are known to it.
    ///
    /// # Errors
    /// The kernel does not allow it, or a file cannot be covered. The process is where it was then, as a rule: where
    /// only the second attempt failed it is in a namespace of its own, where nothing may be covered. It has more than
    /// one thread.
    pub fn enter_as_user(&self) -> io::Result<()> {
        // Some systems let everybody have a namespace of users, and nobody do anything in it. A program that was moved
        // into one all the same would lack what it needs one of its own for, its sandbox: so another process tries.
        tried(|| self.move_as_user())?;
        self.move_as_user()
    }

    /// As root, or as an ordinary user, whichever this is.
    ///
    /// # Errors
    /// As the one or the other.
    pub fn enter_as_caller(&self) -> io::Result<()> {
        match rustix::process::geteuid().is_root() {
            true => self.enter().map_err(io::Error::from_raw_os_error),
            false => self.enter_as_user(),
        }
    }

    fn move_as_user(&self) -> io::Result<()> {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        leave_machine(libc::CLONE_NEWUSER).map_err(io::Error::from_raw_os_error)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        self.cover().map_err(io::Error::from_raw_os_error)
    }

    /// Covers the files where this process is.
    ///
    /// # Errors
    /// The error number of the first call that failed.
    pub fn cover(&self) -> std::result::Result<(), i32> {
        for Cover { place, seen } in &self.all {
            let place = place.as_ptr();
            // SAFETY: the strings end with a zero and live through the call; a bind takes neither type nor options.
            check(unsafe {
                match seen {
                    Seen::Instead(seen) => libc::mount(seen.as_ptr(), place, null(), libc::MS_BIND, null()),
                    Seen::Before(options, flags) => {
                        libc::mount(OVERLAY.as_ptr(), place, OVERLAY.as_ptr(), *flags, options.as_ptr().cast())
                    }
                }
            })?;
        }
        Ok(())
    }

    /// The opposite of [`Covers::cover`], as far as that came.
    pub fn uncover(&self) {
        for Cover { place, .. } in self.all.iter().rev() {
            // SAFETY: the string ends with a zero and lives through the call. Where nothing is mounted, it fails and
            // does nothing.
            unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
        }
    }
}

/// The kernel's name of overlayfs.
const OVERLAY: &std::ffi::CStr = c"overlay";

/// What is forbidden where a path lies, as flags of a mount.
///
/// # Errors
/// As statvfs(3).
pub fn forbidden(path: &Path) -> io::Result<libc::c_ulong> {
    let is = statvfs(path)?.f_flag;
    let known = [
        (StatVfsMountFlags::NOSUID, libc::MS_NOSUID),
        (StatVfsMountFlags::NODEV, libc::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, libc::MS_NOEXEC),
    ];
    Ok(known.into_iter().filter(|(known, _)| is.contains(*known)).fold(0, |flags, (_, flag)| flags | flag))
}

fn unusable(path: &Path) -> Error {
    Error::on(Exit::Usage, "cannot use", path)
}

fn text(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|cause| unusable(path).because(cause))
}

/// A path among an overlay's options, whose commas and colons end one.
fn escaped(path: &Path) -> Vec<u8> {
    let escaped = |byte: &u8| match byte {
        b',' | b':' | b'\\' => vec![b'\\', *byte],
        byte => vec![*byte],
    };
    path.as_os_str().as_bytes().iter().flat_map(escaped).collect()
}

/// Files that lie over others, as pairs: what is seen, and where.
pub type Pairs = Vec<(PathBuf, PathBuf)>;

/// Moves the calling thread into a mount namespace of its own, from which nothing spreads. Only system calls on
/// prepared memory.
///
/// # Errors
/// The error number of the call that failed.
pub fn leave_machine(with: libc::c_int) -> std::result::Result<(), i32> {
    // SAFETY: changes this thread's view of the file systems (and of users) only; takes a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS | with) })?;
    // SAFETY: the strings are constants or null where the call takes none.
    check(unsafe { libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_PRIVATE, null()) })
}

/// What becomes of something in a process that does nothing else.
fn tried(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: a namespace of users is for processes of one thread; of one that has more, `work` fails. So everything
    // that this process holds is whole in the other one, which ends without what this one has registered for its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let failed = work().err().map_or(0, |cause| cause.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: as above.
        unsafe { libc::_exit(failed.min(255)) }
    }
    let mut status = 0;
    // SAFETY: the address is that of a variable of ours.
    while child > 0 && unsafe { libc::waitpid(child, &mut status, 0) } < 0 {
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
    match child {
        -1 => Err(io::Error::last_os_error()),
        _ if !libc::WIFEXITED(status) => Err(io::Error::other("the process that tried it was ended")),
        _ if libc::WEXITSTATUS(status) == 0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))),
    }
}

fn check(result: libc::c_int) -> std::result::Result<(), i32> {
    match result {
        0 => Ok(()),
        // SAFETY: the address is that of this thread's errno.
        _ => Err(unsafe { *libc::__errno_location() }),
    }
}
