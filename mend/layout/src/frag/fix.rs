//! Puts a file into one piece.
//!
//! The way of ext4: a donor of the same size is allocated beside the file, and the kernel exchanges the blocks of both
//! and copies the data, journalled (`EXT4_IOC_MOVE_EXT`, as e4defrag does). The file keeps its inode, its names and its
//! times. Elsewhere the donor is filled, compared, dressed as the original and renamed. Both hold a lease on the file,
//! which the kernel gives only while nobody else has it open, and which makes others wait until we are done; so nobody
//! changes it meanwhile. A kill or a power cut leaves the file whole, at most a donor beside it that `thaw doctor`
//! removes.

use super::holders::holders;
use super::measure::look;
use super::report::Lying;
use model::{Bytes, Error, Exit, Result, shown};
use os::extents::{Extent, ExtentKind, extents};
use os::file::{attributes, set_times};
use os::mounts::Mounts;
use os::replace::{Existing, Fresh, Rights, Strictness};
use rustix::fs::{Advice, FallocateFlags};
use serde::Serialize;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How a file was put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Its blocks were exchanged; it is the same inode.
    Moved,
    /// A copy took its name.
    Copied,
}

/// A file that was put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fixed {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Bytes of its content.
    pub size: Bytes,
    /// How many pieces it lay in before.
    pub pieces_before: u64,
    /// Pieces now; fewer.
    pub pieces_after: u64,
    /// How it was put together.
    pub way: Way,
    /// Blocks that the kernel exchanged; `None` where it was copied.
    pub blocks: Option<u64>,
}

/// Why a file is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// It lies in one piece, or the disk has no free stretch that would be better.
    NoGain,
    /// Somebody has it open, mapped or is running it.
    InUse,
    /// Its file system moves blocks by itself, or has none.
    FileSystem,
    /// It has holes, shared or unusual blocks, which rewriting would not keep.
    Unusual,
    /// It has several names, and the file system can only copy.
    HardLinks,
    /// This user may not.
    Permission,
}

/// A file that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What kind of reason.
    pub kind: Refused,
    /// The file and the reason, without a full stop.
    pub sentence: String,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It lies in fewer pieces.
    Fixed(Fixed),
    /// It is as it was.
    Refused(Refusal),
}

/// Bytes that are compared with one checksum.
const BLOCK: usize = 1 << 20;

enum Stop {
    Refused(Refused, String),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn refuse<T>(kind: Refused, why: impl Into<String>) -> std::result::Result<T, Stop> {
    Err(Stop::Refused(kind, why.into()))
}

/// Puts a file into fewer pieces, or leaves it alone and says why.
///
/// # Errors
/// It is not there, or no regular file; a disk that fails or is full. The file is whole in every case.
pub fn fix(path: &Path) -> Result<Outcome> {
    let real = path.canonicalize().map_err(|cause| Error::on(Exit::Usage, "cannot look at", path).because(cause))?;
    match fix_real(&real) {
        Ok(fixed) => Ok(Outcome::Fixed(fixed)),
        Err(Stop::Refused(kind, why)) => {
            Ok(Outcome::Refused(Refusal { kind, sentence: format!("{} is left as it is: {why}", shown(&real)) }))
        }
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn fix_real(path: &Path) -> std::result::Result<Fixed, Stop> {
    let failed = |what: &'static str| move |cause: io::Error| Error::on(Exit::Machine, what, path).because(cause);
    let about = path.symlink_metadata().map_err(failed("cannot look at"))?;
    if !about.is_file() {
        return Err(Error::on(Exit::Usage, "only regular files have pieces:", path).into());
    }
    let fstype = file_system(path)?;
    let file = open(path)?;
    let opened = file.metadata().map_err(failed("cannot look at"))?;
    if (opened.dev(), opened.ino()) != (about.dev(), about.ino()) {
        return refuse(Refused::InUse, "another file took its name meanwhile");
    }
    let lease = Lease::take(&file, path)?;
    // What is still in memory has no place yet.
    file.sync_all().map_err(failed("cannot write"))?;
    let before = look(&file).map_err(failed("cannot look at the extents of"))?;
    judge(&before, &opened)?;
    let size = Bytes(opened.len());
    let donor = Fresh::beside(path, Existing::Replace)?;
    let has_room = allocate(&donor, size, &before)?;
    prepare_cache(&file);
    let sums = sums(&file).map_err(failed("cannot read"))?;
    forget_cached(&file);
    let moved = match fstype.starts_with("ext") && has_room {
        true => exchange(&file, &donor, &lease, size),
        false => Exchange::Unsupported,
    };
    match moved {
        Exchange::Done(blocks) => {
            file.sync_all().map_err(failed("cannot write"))?;
            set_times(&file, &opened).map_err(failed("cannot set the times of"))?;
            forget_cached(&file);
            if self::sums(&file).map_err(failed("cannot read"))? != sums {
                let what = format!("the kernel exchanged the blocks of {} and its content changed", shown(path));
                return Err(Error::bug(what).into());
            }
            let after = look(&file).map_err(failed("cannot look at the extents of"))?;
            Ok(fixed(path, size, &before, &after, Some(blocks)))
        }
        Exchange::Failed(cause) if cause.kind() == io::ErrorKind::Interrupted => Err(Error::interrupted().into()),
        Exchange::Failed(cause) => Err(failed("cannot move the blocks of")(cause).into()),
        Exchange::Stuck { moved, blocks, cause } => {
            let after = look(&file).map_err(failed("cannot look at the extents of"))?;
            let because = format!(
                "{moved} of its {blocks} blocks were exchanged and could not be exchanged back ({cause}); its content \
                 is whole, and it lies in {} pieces now and in {} before",
                after.pieces.len(),
                before.pieces.len()
            );
            Err(Error::on(Exit::Machine, "cannot move the blocks of", path).because(because).into())
        }
        Exchange::Broken => refuse(Refused::InUse, WANTED),
        Exchange::Busy if opened.nlink() > 1 => {
            let why = format!("it has {} names, and the kernel keeps pages of it busy", opened.nlink());
            refuse(Refused::InUse, why)
        }
        Exchange::Unsupported if opened.nlink() > 1 => {
            let why = format!("it has {} names, and blocks cannot be moved on this {fstype}", opened.nlink());
            refuse(Refused::HardLinks, why)
        }
        Exchange::Unsupported | Exchange::Busy => {
            copy(&file, &donor, &sums)?;
            let after = look(donor.file()).map_err(|cause| donor.failed("cannot look at the extents of", cause))?;
            gains(after.pieces.len(), &before)?;
            donor.grant(Rights::Like { file: &file, about: &opened, strictness: Strictness::AsAllowed })?;
            if !is_alike(&file, donor.file()).map_err(|cause| donor.failed("cannot look at", cause))? {
                return refuse(Refused::Permission, "this user may not give a copy its owner and attributes");
            }
            if !lease.is_held() {
                return refuse(Refused::InUse, WANTED);
            }
            donor.place()?;
            Ok(fixed(path, size, &before, &after, None))
        }
    }
}

/// Why half-done work is given up.
const WANTED: &str = "somebody wants to open it now";

/// Whether a copy has owner, mode and extended attributes of its original.
fn is_alike(file: &File, copy: &File) -> io::Result<bool> {
    let of = |file: &File| -> io::Result<_> {
        let about = file.metadata()?;
        let mut attributes = attributes(file);
        attributes.sort();
        Ok((about.uid(), about.gid(), about.mode(), attributes))
    };
    Ok(of(file)? == of(copy)?)
}

fn fixed(path: &Path, size: Bytes, before: &Lying, after: &Lying, blocks: Option<u64>) -> Fixed {
    let count = |lying: &Lying| lying.pieces.len() as u64;
    let way = if blocks.is_some() { Way::Moved } else { Way::Copied };
    Fixed { path: path.to_owned(), size, pieces_before: count(before), pieces_after: count(after), way, blocks }
}

/// The name of a file system in which blocks can be placed.
fn file_system(path: &Path) -> std::result::Result<String, Stop> {
    let mounts = Mounts::load()?;
    let name = mounts.of_path(path).map_or("?", |mount| mount.fstype.as_str()).to_owned();
    match name.as_str() {
        "ext2" | "ext3" | "ext4" | "xfs" => Ok(name),
        "btrfs" | "bcachefs" | "zfs" => refuse(
            Refused::FileSystem,
            format!("{name} never overwrites blocks, so that pieces come back; it has tools of its own"),
        ),
        "overlay" => refuse(Refused::FileSystem, "it is on an overlay: run this on the file system below"),
        _ => refuse(Refused::FileSystem, format!("{name} does not let programs place blocks")),
    }
}

fn open(path: &Path) -> std::result::Result<File, Stop> {
    let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    open.or_else(|cause| match cause.kind() {
        io::ErrorKind::ExecutableFileBusy => refuse(Refused::InUse, in_use(path)),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            refuse(Refused::Permission, format!("this user may not write it ({cause})"))
        }
        _ => Err(Error::on(Exit::Machine, "cannot open", path).because(cause).into()),
    })
}

fn in_use(path: &Path) -> String {
    match holders(path).as_slice() {
        [] => "it is in use".into(),
        some => format!("it is in use by {}", some.join(", ")),
    }
}

/// Whether rewriting keeps all that the file is, and can be of use.
fn judge(lying: &Lying, about: &Metadata) -> std::result::Result<(), Stop> {
    let on_disk: u64 = lying.pieces.iter().map(|(_, len)| len.0).sum();
    if lying.shared {
        return refuse(Refused::Unusual, "it shares blocks with another file, and would not any more");
    }
    if lying.elsewhere.0 > 0 || lying.delayed.0 > 0 {
        return refuse(Refused::Unusual, "some of it is compressed, encrypted or inside of metadata");
    }
    if lying.unwritten.0 > 0 || on_disk < about.len() {
        return refuse(Refused::Unusual, "it has holes, or room that was never written");
    }
    if lying.pieces.len() <= 1 {
        return refuse(Refused::NoGain, "it lies in one piece");
    }
    Ok(())
}

/// Gives the donor room of the same size that is in fewer pieces; `false`: the file system allocates none in advance.
fn allocate(donor: &Fresh, size: Bytes, before: &Lying) -> std::result::Result<bool, Stop> {
    match rustix::fs::fallocate(donor.file(), FallocateFlags::empty(), 0, size.0) {
        Err(rustix::io::Errno::NOSPC) => return refuse(Refused::NoGain, "the disk has no room for a second copy"),
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(false),
        other => other.map_err(|cause| donor.failed("cannot allocate", cause))?,
    }
    donor.file().sync_all().map_err(|cause| donor.failed("cannot write", cause))?;
    let room = extents(donor.file()).map_err(|cause| donor.failed("cannot look at the extents of", cause))?;
    gains(stretches(&room), before).map(|()| true)
}

/// Refuses what would be no better.
fn gains(pieces: usize, before: &Lying) -> std::result::Result<(), Stop> {
    let now = before.pieces.len();
    if pieces < now {
        return Ok(());
    }
    refuse(Refused::NoGain, format!("the free room of the disk would put it into {pieces} pieces; it has {now}"))
}

/// In how many stretches allocated room lies, written or not.
fn stretches(extents: &[Extent]) -> usize {
    let mut end = None;
    let mut count = 0;
    for extent in extents.iter().filter(|it| matches!(it.kind, ExtentKind::Data | ExtentKind::Unwritten)) {
        let Some(disk) = extent.disk else { continue };
        if end != Some(disk.0) {
            count += 1;
        }
        end = Some(disk.0 + extent.len.0);
    }
    count
}

/// Checksums of each megabyte.
fn sums(file: &File) -> io::Result<Vec<u32>> {
    let mut sums = Vec::new();
    let mut block = vec![0_u8; BLOCK];
    let mut at = 0;
    loop {
        let mut len = 0;
        while len < BLOCK {
            match file.read_at(&mut block[len..], at + len as u64)? {
                0 => break,
                more => len += more,
            }
        }
        if len == 0 {
            return Ok(sums);
        }
        sums.push(crc32fast::hash(&block[..len]));
        at += len as u64;
    }
}

/// Leaves no large folio of the file in memory, and lets none come: the kernel exchanges no blocks below one (EBUSY).
/// What is read from now on comes page by page, not ahead.
fn prepare_cache(file: &File) {
    // Where either fails, blocks may stay busy, and the exchange says so.
    let _ = os::cache::evict(file);
    let _ = rustix::fs::fadvise(file, 0, None::<NonZeroU64>, Advice::Random);
}

/// Lets the next read come from the disk.
fn forget_cached(file: &File) {
    // Without it the comparison is with memory, which is right too.
    let _ = rustix::fs::fadvise(file, 0, None::<NonZeroU64>, Advice::DontNeed);
}

/// Fills the donor and compares it with the file.
fn copy(file: &File, donor: &Fresh, expected: &[u32]) -> std::result::Result<(), Stop> {
    let mut block = vec![0_u8; BLOCK];
    let mut at = 0;
    loop {
        os::interrupt::check()?;
        let len = file.read_at(&mut block, at).map_err(|cause| donor.failed("cannot read the original of", cause))?;
        if len == 0 {
            break;
        }
        donor.file().write_all_at(&block[..len], at).map_err(|cause| donor.failed("cannot write", cause))?;
        at += len as u64;
    }
    donor.file().sync_all().map_err(|cause| donor.failed("cannot write", cause))?;
    forget_cached(donor.file());
    if sums(donor.file()).map_err(|cause| donor.failed("cannot read", cause))? != expected {
        return Err(donor.failed("is not what was written:", io::ErrorKind::InvalidData).into());
    }
    Ok(())
}

/// Nobody else has the file open.
struct Lease<'f>(&'f File);

impl<'f> Lease<'f> {
    fn take(file: &'f File, path: &Path) -> std::result::Result<Self, Stop> {
        /// Linux: `asm-generic/fcntl.h`, the same on all architectures that thaw supports.
        const F_SETSIG: i32 = 10;
        // Who opens the file meanwhile makes the kernel tell us; the usual signal for that would end the program, this
        // one is ignored. SAFETY: F_SETSIG and F_SETLEASE take an integer and touch no memory; the descriptor is open.
        let taken = unsafe {
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) == 0
        };
        if taken {
            return Ok(Self(file));
        }
        let cause = io::Error::last_os_error();
        match cause.kind() {
            io::ErrorKind::WouldBlock => refuse(Refused::InUse, in_use(path)),
            io::ErrorKind::PermissionDenied => refuse(Refused::Permission, "it belongs to another user"),
            _ => refuse(Refused::FileSystem, format!("its file system cannot say whether it is in use ({cause})")),
        }
    }

    /// `false`: somebody waits until he may open it.
    fn is_held(&self) -> bool {
        // SAFETY: F_GETLEASE takes nothing and touches no memory; the descriptor is open.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `take`. If it fails the lease ends with the descriptor.
        let _ = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

/// `struct move_extent` of fs/ext4/ext4.h; lengths in blocks.
#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    len: u64,
    moved: u64,
}

enum Exchange {
    /// So many blocks were exchanged.
    Done(u64),
    /// Nothing was moved: the file system cannot.
    Unsupported,
    /// Nothing was moved: the kernel keeps pages busy.
    Busy,
    /// Somebody wants the file; nothing was moved.
    Broken,
    /// Nothing was moved.
    Failed(io::Error),
    /// Some blocks are elsewhere now, and cannot go back.
    Stuck { moved: u64, blocks: u64, cause: io::Error },
}

/// Exchanges the blocks of file and donor, a stretch at a time; all of them, or in the end none.
fn exchange(file: &File, donor: &Fresh, lease: &Lease<'_>, size: Bytes) -> Exchange {
    /// 16 MiB in blocks of 4 KiB: so long somebody who opens the file may have to wait.
    const STRETCH: u64 = 4096;
    let block = match rustix::fs::fstatvfs(file) {
        Ok(found) if found.f_bsize > 0 => found.f_bsize,
        Ok(_) => return Exchange::Unsupported,
        Err(cause) => return Exchange::Failed(cause.into()),
    };
    let blocks = size.0.div_ceil(block);
    let mut done = 0;
    let trouble = loop {
        if done >= blocks {
            return Exchange::Done(done);
        }
        if !lease.is_held() {
            break Exchange::Broken;
        }
        if os::interrupt::requested() {
            break Exchange::Failed(io::ErrorKind::Interrupted.into());
        }
        match swap(file, donor, done, (blocks - done).min(STRETCH)) {
            Ok(moved) => done += moved,
            Err(cause) => match cause.raw_os_error() {
                // Files without extents (ext3), and journals of data.
                Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL) => break Exchange::Unsupported,
                Some(libc::EBUSY) => break Exchange::Busy,
                _ => break Exchange::Failed(cause),
            },
        }
    };
    // Half of the way might be in more pieces than before. If going back fails, the file is whole where it is.
    let mut back = 0;
    while back < done {
        match swap(file, donor, back, done - back) {
            Ok(moved) => back += moved,
            Err(cause) => return Exchange::Stuck { moved: done - back, blocks, cause },
        }
    }
    trouble
}

/// Exchanges blocks and says how many. Pages that a transaction of the file system still holds are free when it is on
/// the disk.
fn swap(file: &File, donor: &Fresh, start: u64, len: u64) -> io::Result<u64> {
    const PATIENCE: u32 = 8;
    for _ in 0..PATIENCE {
        match swap_once(file, donor, start, len) {
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                file.sync_all()?;
                donor.file().sync_all()?;
                forget_cached(file);
                forget_cached(donor.file());
            }
            other => return other,
        }
    }
    swap_once(file, donor, start, len)
}

fn swap_once(file: &File, donor: &Fresh, start: u64, len: u64) -> io::Result<u64> {
    /// `_IOWR('f', 15, struct move_extent)`
    const EXT4_IOC_MOVE_EXT: libc::Ioctl = 0xC028_660F_u32 as libc::Ioctl;
    let donor = donor.file().as_raw_fd() as u32;
    let mut request = MoveExtent { reserved: 0, donor, start, donor_start: start, len, moved: 0 };
    // SAFETY: `request` has the layout of `struct move_extent`, which the kernel reads and whose last field it writes.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &mut request as *mut MoveExtent) };
    let cause = io::Error::last_os_error();
    match answer {
        // What was exchanged before an error stays exchanged, and is told with it.
        _ if request.moved > 0 => Ok(request.moved),
        0 => Err(io::Error::other("the kernel moved nothing")),
        _ => Err(cause),
    }
}
