//! File systems that no directory shows, and the namespace in which the program under test sees the disk.
//!
//! thaw holds the disk's file system by a file descriptor (`fsmount(2)`), not at a path, and the program under test
//! sees it in a mount namespace of its own. So nothing appears in the machine's mount table, and nothing needs to be
//! unmounted after a crash: the kernel drops a file system when the last descriptor and the last namespace that hold it
//! are gone.

use model::{Error, Exit, Result};
use os::covers::Covers;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file system type of the disk.
pub(super) const TYPE: &CStr = c"ext4";
/// ext4 works behind a measurement's back after each mount, which a machine does once, at boot: it fills in tables that
/// mkfs left for later, and reads all block bitmaps. Kernels before 5.13 do not know the second option, nor do they
/// read bitmaps unasked.
const CALM: [&str; 2] = ["noinit_itable", "no_prefetch_block_bitmaps"];

/// Mounts the conversation with the disk's server.
pub(super) fn fuse(conversation: BorrowedFd<'_>) -> Result<OwnedFd> {
    let number = conversation.as_raw_fd().to_string();
    let parameters = [("source", "thaw"), ("fd", &number), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")];
    detached(c"fuse", &parameters, &[]).map_err(|cause| {
        Error::new(Exit::Machine, "cannot mount the simulated disk", "")
            .because(cause)
            .hint("this needs root, FUSE in the kernel, and Linux 5.2 or newer")
    })
}

/// Mounts the file system on the disk.
pub(super) fn disk(device: &Path) -> Result<OwnedFd> {
    let failed = |cause: io::Error| {
        Error::on(Exit::Machine, "cannot mount the file system of the simulated disk on", device).because(cause)
    };
    let source = device.to_str().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    detached(TYPE, &[("source", source)], calm()).map_err(failed)
}

/// Those of [`CALM`] that this kernel knows.
fn calm() -> &'static [&'static str] {
    static KNOWN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let knows = |flag: &&&str| {
            rustix::mount::fsopen(TYPE, FsOpenFlags::FSOPEN_CLOEXEC)
                .and_then(|context| rustix::mount::fsconfig_set_flag(&context, **flag))
                .is_ok()
        };
        CALM.iter().take_while(knows).count()
    });
    &CALM[..*known]
}

fn detached(kind: &CStr, parameters: &[(&str, &str)], flags: &[&str]) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in parameters {
        rustix::mount::fsconfig_set_string(&context, *key, *value)?;
    }
    for flag in flags {
        rustix::mount::fsconfig_set_flag(&context, *flag)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// What must be mounted so that a program sees the copied files in place of the originals. Everything is prepared:
/// entering is nothing but system calls, so it may be done between fork and exec.
#[derive(Clone, Debug)]
pub struct Namespace {
    device: CString,
    staging: CString,
    options: CString,
    /// The copies inside `staging` over their originals.
    covers: Covers,
}

impl Namespace {
    pub(super) fn new(device: &Path, staging: &Path, items: &[PathBuf]) -> Result<Self> {
        let text = |path: &Path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|cause| Error::on(Exit::Usage, "cannot use", path).because(cause))
        };
        let copies: Vec<PathBuf> =
            items.iter().map(|item| staging.join(item.strip_prefix("/").unwrap_or(item))).collect();
        Ok(Self {
            device: text(device)?,
            staging: text(staging)?,
            options: text(Path::new(&calm().join(",")))?,
            covers: Covers::new(copies.iter().map(PathBuf::as_path).zip(items.iter().map(PathBuf::as_path)))?,
        })
    }

    /// Where the whole disk is seen inside; below it every copy lies under its original path.
    pub fn staging(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(self.staging.as_bytes()))
    }

    /// The path that a file of the disk has for programs: [`Namespace::staging`] in front of it is taken away.
    pub fn original(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.staging()).map_or_else(|_| path.to_path_buf(), |inside| Path::new("/").join(inside))
    }

    /// Moves the calling process into a mount namespace of its own and covers the originals with the copies there.
    /// Nobody else sees any of it, and it is gone with the last process in it. Only the calling thread moves: call
    /// it before others are started.
    ///
    /// It only makes system calls on prepared memory, so a forked child may call it before exec. It needs root: call it
    /// before giving that up. The current directory stays where it was, in the uncovered original: change to it
    /// again afterwards.
    ///
    /// # Errors
    /// The error number of the first call that failed. The process is then in a namespace where not everything is
    /// covered; end it.
    pub fn enter(&self) -> std::result::Result<(), i32> {
        os::covers::leave_machine(0)?;
        self.cover()
    }

    /// Mounts everything where this process is.
    pub(super) fn cover(&self) -> std::result::Result<(), i32> {
        let (device, staging, options) = (self.device.as_ptr(), self.staging.as_ptr(), self.options.as_ptr());
        // SAFETY: all strings end with a zero and live through the call.
        match unsafe { libc::mount(device, staging, TYPE.as_ptr(), 0, options.cast()) } {
            0 => self.covers.cover(),
            // SAFETY: the address is that of this thread's errno.
            _ => Err(unsafe { *libc::__errno_location() }),
        }
    }

    /// The opposite of [`Namespace::cover`], as far as that came.
    pub(super) fn uncover(&self) {
        self.covers.uncover();
        // SAFETY: the string ends with a zero and lives through the call. Where nothing is mounted, it fails and does
        // nothing.
        unsafe { libc::umount2(self.staging.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    }
}
