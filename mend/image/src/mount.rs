//! An image over its directory, for one process and what it starts: in a mount namespace of its own. Nobody else sees
//! it, and it is gone with the last process in there, whatever ends that: there is nothing to put back, but for a
//! setting of the loop device where the kernel cannot mount files. [`for_all`] is the other case: [`crate::shared`].

use crate::about::Origin;
use crate::check::{Difference, Opened, Sums, differences, in_image, on_disk};
use crate::covered::covers;
use crate::tree::{Detail, Tree};
use model::{Error, Exit, Result};
use os::covers::{forbidden, leave_machine};
use os::journal::{self, Entry, Undo};
use os::loopdev::{Below, LoopDevice};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the kernel shows how much is read ahead, by file system.
const SETTINGS: &str = "/sys/class/bdi";
/// A start is over after this, as far as reading around faults goes.
const SETTLED: Duration = Duration::from_secs(30);

/// Whom an image's files are trusted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Only root can change the image: what has rights of its own in it (setuid, devices) has them.
    Root,
    /// Somebody else can: nothing in it has rights of its own.
    Other,
}

/// What the kernel mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The image's file; Linux 6.12.
    File,
    /// A loop device on it.
    Loop,
}

/// How much the kernel reads around a fault, on one mounted image.
#[derive(Debug)]
pub struct ReadAround {
    path: PathBuf,
    file: File,
    before: String,
    /// Of a loop device, which outlives the image.
    entry: Option<Entry>,
}

impl ReadAround {
    /// None: neighbours in a file lie elsewhere in an ordered image, so that each would cost a request.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn off(&mut self) -> io::Result<()> {
        self.file.write_all(b"0")
    }

    /// It stays as it is now; the setting, and what to write into it when the image is unmounted: `None` where it goes
    /// with the image.
    ///
    /// # Errors
    /// The journal still says that it is to be put back.
    pub fn keep(self) -> Result<Option<(PathBuf, String)>> {
        let Some(entry) = self.entry else { return Ok(None) };
        entry.forget()?;
        Ok(Some((self.path, self.before)))
    }

    /// As it was, when the start is over, or the program: what no start needs lies in the order of the files. To be
    /// called in a process of its own.
    pub fn back_after(mut self, program: BorrowedFd<'_>) {
        let mut poll = libc::pollfd { fd: program.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one `pollfd` is read and written.
        unsafe { libc::poll(&mut poll, 1, SETTLED.as_millis() as libc::c_int) };
        match self.entry.take() {
            Some(entry) => drop(entry),
            // Gone with the image, if that is.
            None => _ = self.file.write_all(self.before.as_bytes()),
        }
    }
}

/// Moves this thread into a mount namespace of its own and mounts the image over its directory there, or directories,
/// in the first of these ways that the kernel has.
///
/// # Errors
/// This is not root; the kernel cannot mount it; it cannot be told how much is read around faults on it. The thread may
/// be in a namespace of its own then, in which nothing is covered.
pub fn over(opened: &Opened, trust: Trust, ways: &[Way]) -> Result<ReadAround> {
    leave(opened)?;
    let origin = &opened.about.origin;
    let directory = Path::new(&origin.directory);
    let read_around = at(opened, directory, flags(opened, directory, trust)?, ways)?;
    if origin.trees.is_empty() {
        return Ok(read_around);
    }
    // Of a set it is not to be seen here, but parts of it, here and elsewhere. A tree may hold this directory, and what
    // is laid over the tree hides it: the image is found by what is open.
    let lay = || {
        let image = rustix::fs::open(directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|cause| cannot(opened, cause.into()))?;
        let covers = covers(origin, Path::new(&format!("/proc/self/fd/{}", image.as_raw_fd())))?;
        covers.cover().map_err(|number| {
            covers.uncover();
            let cause = io::Error::from_raw_os_error(number);
            Error::on(Exit::Machine, "the kernel cannot lay the image over its directories:", &opened.path)
                .because(cause)
                .hint("this needs overlayfs (CONFIG_OVERLAY_FS), and not too many file systems above each other")
        })
    };
    lay().map(|()| read_around).inspect_err(|_| uncover(directory))
}

/// Takes the image away again, where this thread is.
pub fn uncover_all(origin: &Origin) {
    let whole = Path::new(&origin.directory);
    if !origin.trees.is_empty() {
        uncover(whole);
        origin.trees.iter().rev().for_each(|tree| uncover(Path::new(tree)));
    }
    uncover(whole);
}

/// Mounts the image at this place, for all who see it: with the rights of where its directory lies, and nothing in it
/// has rights of its own.
///
/// # Errors
/// As [`over`]; nothing is mounted then.
pub fn for_all(opened: &Opened, place: &Path, ways: &[Way]) -> Result<ReadAround> {
    let flags = flags(opened, Path::new(&opened.about.origin.directory), Trust::Other)?;
    at(opened, place, flags, ways)
}

fn at(opened: &Opened, place: &Path, flags: libc::c_ulong, ways: &[Way]) -> Result<ReadAround> {
    let mut tried = ways.iter().map(|way| mount_by(*way, opened, place, flags));
    let first = tried.next().unwrap_or_else(|| Err(Error::bug("no way to mount an image")));
    let mounted = match first {
        Err(error) if is_no_file(&error) => tried.next().unwrap_or(Err(error)),
        first => first,
    };
    read_around(mounted?).map_err(|cause| {
        uncover(place);
        Error::on(Exit::Machine, "cannot tell how much is read around faults on the image", &opened.path)
            .because(cause)
            .hint("another program mounted something at the same moment? then start it again")
    })
}

/// Takes away what lies over a directory, where this thread is.
fn uncover(directory: &Path) {
    if let Ok(place) = CString::new(directory.as_os_str().as_bytes()) {
        // SAFETY: the string ends with a zero and lives through the call.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    }
}

/// What was mounted.
enum Mounted {
    /// The file; these settings came with it.
    File(Vec<OsString>),
    /// This device.
    Loop(LoopDevice),
}

fn read_around(mounted: Mounted) -> io::Result<ReadAround> {
    let (path, before, entry) = match mounted {
        Mounted::File(new) => {
            let [name] = &new[..] else { return Err(io::Error::other(format!("{} settings are new", new.len()))) };
            let path = Path::new(SETTINGS).join(name).join("read_ahead_kb");
            let before = fs::read_to_string(&path)?.trim().to_owned();
            (path, before, None)
        }
        Mounted::Loop(device) => {
            let path = device.setting_file("read_ahead_kb");
            let known = device.before.iter().find(|(name, _)| *name == "read_ahead_kb");
            let before = known.map(|(_, before)| before.clone()).filter(|before| !before.is_empty());
            let before = before.ok_or_else(|| io::Error::other("the loop device does not say it"))?;
            let undo = Undo::WriteFile { path: path.clone(), text: before.clone() };
            (path, before, Some(journal::hold(undo, || Ok(())).map_err(io::Error::other)?))
        }
    };
    Ok(ReadAround { file: fs::OpenOptions::new().write(true).open(&path)?, path, before, entry })
}

/// Whether the running kernel has EROFS, or a module for it; `None`: nobody can tell.
pub fn is_in_kernel() -> Option<bool> {
    if fs::read_to_string("/proc/filesystems").ok()?.lines().any(|line| line.ends_with("\terofs")) {
        return Some(true);
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = fs::read_to_string(Path::new("/lib/modules").join(release).join("modules.dep")).ok()?;
    Some(modules.contains("/erofs.ko"))
}

fn leave(opened: &Opened) -> Result<()> {
    leave_machine(0).map_err(|number| cannot(opened, io::Error::from_raw_os_error(number)))
}

/// The kernel wants a block device in the place of a file.
fn is_no_file(error: &Error) -> bool {
    let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.raw_os_error() == Some(libc::ENOTBLK))
}

fn cannot(opened: &Opened, cause: io::Error) -> Error {
    let hint = match cause.raw_os_error() {
        Some(libc::EPERM) => "only root can mount: run it with sudo; the program still runs as you",
        Some(libc::ENOTBLK) => "this needs Linux 6.12 or newer with CONFIG_EROFS_FS_BACKED_BY_FILE",
        Some(libc::ENODEV) => "this kernel has no EROFS (CONFIG_EROFS_FS)",
        _ => "the kernel says more in its log (dmesg); zstd needs Linux 6.10, `--compression lz4` less",
    };
    Error::on(Exit::Machine, "the kernel cannot mount the image", &opened.path).because(cause).hint(hint)
}

/// Mounts it in the namespace where this thread is.
fn mount_by(way: Way, opened: &Opened, place: &Path, flags: libc::c_ulong) -> Result<Mounted> {
    let cannot = |cause| cannot(opened, cause);
    if way == Way::Loop {
        let device = LoopDevice::attach(opened.file.as_fd(), "thaw image", Below::Cached)?;
        mount(&device.path, place, flags).map_err(cannot)?;
        return Ok(Mounted::Loop(device));
    }
    // Which setting is new is known as long as nobody else mounts: other ones of thaw wait.
    let settings = File::open(SETTINGS).map_err(cannot)?;
    rustix::fs::flock(&settings, FlockOperation::LockExclusive).map_err(|cause| cannot(cause.into()))?;
    let before = names().map_err(cannot)?;
    // The open file, not its name: what is mounted is what was checked.
    let source = PathBuf::from(format!("/proc/thread-self/fd/{}", opened.file.as_raw_fd()));
    mount(&source, place, flags).map_err(cannot)?;
    Ok(Mounted::File(names().map_err(cannot)?.difference(&before).cloned().collect()))
}

fn mount(source: &Path, directory: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let (source, place) = (text(source)?, text(directory)?);
    // SAFETY: the strings end with a zero and live through the call, which takes no data.
    match unsafe { libc::mount(source.as_ptr(), place.as_ptr(), c"erofs".as_ptr(), flags, std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn names() -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(SETTINGS)?.map(|one| one.map(|one| one.file_name())).collect()
}

/// What is forbidden where the directory lies is forbidden in the image.
fn flags(opened: &Opened, directory: &Path, trust: Trust) -> Result<libc::c_ulong> {
    let flags = libc::MS_RDONLY | forbidden(directory).map_err(|cause| cannot(opened, cause))?;
    Ok(match trust {
        Trust::Root => flags,
        Trust::Other => flags | libc::MS_NOSUID | libc::MS_NODEV,
    })
}

/// What the kernel sees otherwise in an image than thaw's reader (its tree and sums), mounted for this question alone.
///
/// # Errors
/// This is not root; the kernel cannot mount it so; the image is damaged.
pub fn differences_to_kernel(
    opened: &Opened,
    (tree, sums): (&Tree, &Sums),
    directory: &Path,
    way: Way,
) -> Result<Vec<Difference>> {
    let asked = || {
        leave(opened)?;
        let _mounted = mount_by(way, opened, directory, flags(opened, directory, Trust::Other)?)?;
        let seen: Tree = Tree::walk(directory, Detail::Whole)?;
        differences((tree, &mut in_image(sums)), (&seen, &mut on_disk(directory, &seen)))
    };
    // The namespace is that thread's, and ends with it.
    let thread = std::thread::scope(|scope| scope.spawn(asked).join());
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
