//! A loop device on an open file, gone by itself when nobody uses it any more.

use model::{Error, Exit, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// `linux/loop.h`
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
/// `linux/fs.h`
const BLKFLSBUF: libc::Ioctl = 0x1261;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config` with its `struct loop_info64`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Config>() == 304);

/// A loop device that we hold open.
#[derive(Debug)]
pub struct LoopDevice {
    file: File,
    /// Where it is.
    pub path: PathBuf,
    /// Its number.
    pub dev: u64,
    /// Settings as they were before we came.
    pub before: Vec<(&'static str, String)>,
}

/// Whether the page cache of the file below it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nothing is cached below the device.
    Direct,
    /// What is in memory of the file is not read again.
    Cached,
}

/// Settings that a use of the device changes; they outlive it.
const SETTINGS: [&str; 3] = ["rotational", "scheduler", "read_ahead_kb"];

impl LoopDevice {
    /// Puts a free loop device on `backing`; one that is open for reading alone is not written. The kernel detaches it
    /// when its last user closes it, also a user that was killed: there is nothing to undo.
    ///
    /// # Errors
    /// No permission, no loop devices, or the kernel cannot do direct I/O on this file.
    pub fn attach(backing: BorrowedFd<'_>, label: &str, below: Below) -> Result<Self> {
        let control = Path::new("/dev/loop-control");
        let open = OpenOptions::new().read(true).write(true).open(control);
        let open = open.map_err(|cause| {
            Error::on(Exit::Machine, "cannot open", control)
                .because(cause)
                .hint("this needs root and the kernel's loop devices (modprobe loop)")
        })?;
        loop {
            // SAFETY: takes no argument and touches no memory of ours.
            let number = unsafe { libc::ioctl(open.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(
                    Error::new(Exit::Machine, "cannot get a free loop device", "").because(io::Error::last_os_error())
                );
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            // Configuring it computes some of them anew.
            let before = SETTINGS.map(|name| (name, setting(&path, name))).into();
            match configure(&path, backing, label, below) {
                // Somebody else was quicker.
                Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {}
                Err(cause) => {
                    return Err(Error::on(Exit::Machine, "cannot use the loop device", &path)
                        .because(cause)
                        .hint("this needs Linux 5.8 or newer, and permission to use loop devices"));
                }
                Ok((file, dev)) => return Ok(Self { file, path, dev, before }),
            }
        }
    }

    /// Whether a file system is mounted from it.
    pub fn in_use(&self) -> bool {
        // For a block device: only if nobody has claimed it.
        let flags = libc::O_EXCL | libc::O_CLOEXEC;
        let claim = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        claim.is_err_and(|cause| cause.raw_os_error() == Some(libc::EBUSY))
    }

    /// Drops what the page cache holds of the device itself.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn flush(&self) -> io::Result<()> {
        // SAFETY: takes no argument and touches no memory of ours.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), BLKFLSBUF) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The file of a setting.
    pub fn setting_file(&self, name: &str) -> PathBuf {
        setting_file(&self.path, name)
    }

    /// A setting now.
    pub fn setting(&self, name: &str) -> String {
        setting(&self.path, name)
    }
}

fn setting_file(device: &Path, name: &str) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("queue").join(name)
}

/// A setting's value, the word in brackets where the file lists all that there are; empty where the kernel has no such
/// setting.
fn setting(device: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(setting_file(device, name)).unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text.as_str(), |(word, _)| word).trim().to_owned()
}

fn configure(path: &Path, backing: BorrowedFd<'_>, label: &str, below: Below) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)?;
    let dev = file.metadata()?.st_rdev();
    let mut file_name = [0; 64];
    let len = label.len().min(63);
    file_name[..len].copy_from_slice(&label.as_bytes()[..len]);
    let config = Config {
        fd: backing.as_raw_fd() as u32,
        block_size: 512,
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR | if below == Below::Direct { LO_FLAGS_DIRECT_IO } else { 0 },
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads a struct of this layout (its size is asserted above) and keeps no pointer to it.
    match unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok((file, dev)),
        _ => Err(io::Error::last_os_error()),
    }
}
