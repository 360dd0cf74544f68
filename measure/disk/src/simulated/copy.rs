//! Copying programs and profiles onto the disk, so that they look the same there and lie in one piece each.
//!
//! Kept: modes, owners, times, links (soft and hard), extended attributes, holes. Left out and reported: device nodes
//! and sockets. What is copied lies under its own absolute path, and the directories above it are made as they are.

use model::{Bytes, Error, Exit, Result};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files with content.
    pub files: u64,
    /// Their bytes without holes.
    pub bytes: Bytes,
    /// Device nodes and sockets, which were not.
    pub left_out: Vec<PathBuf>,
}

struct Copier<'a> {
    target: &'a Path,
    /// Files with several names: (device, inode) to their first copy.
    links: HashMap<(u64, u64), PathBuf>,
    copied: Copied,
    buffer: Vec<u8>,
}

fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    let full = cause.kind() == io::ErrorKind::StorageFull;
    let error = Error::on(Exit::Machine, what, path).because(cause);
    if full {
        error.hint("the chosen disk is too small for what is copied to it: copy less, or choose a larger disk")
    } else {
        error
    }
}

/// Copies `items` (absolute paths without links) below `target`.
///
/// # Errors
/// The first path that could not be read or written.
pub(super) fn copy(items: &[PathBuf], target: &Path) -> Result<Copied> {
    let mut copier = Copier { target, links: HashMap::new(), copied: Copied::default(), buffer: vec![0; 1 << 20] };
    for item in items {
        copier.parents(item)?;
        copier.any(item)?;
    }
    Ok(copier.copied)
}

/// Bytes on disk of everything below the items.
pub(super) fn size(items: &[PathBuf]) -> Result<Bytes> {
    let mut bytes = 0;
    let mut open: Vec<PathBuf> = items.to_vec();
    while let Some(path) = open.pop() {
        let meta = look(&path)?;
        bytes += meta.blocks() * 512;
        if meta.is_dir() {
            open.extend(names(&path)?.into_iter().map(|name| path.join(name)));
        }
    }
    Ok(Bytes(bytes))
}

fn look(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(|cause| failed("cannot look at", path, cause))
}

/// In a fixed order, so that the layout of the disk is the same each time.
fn names(directory: &Path) -> Result<Vec<OsString>> {
    let names = fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let mut names: Vec<_> = names.map_err(|cause: io::Error| failed("cannot list", directory, cause))?;
    names.sort();
    Ok(names)
}

impl Copier<'_> {
    fn place(&self, path: &Path) -> PathBuf {
        self.target.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The directories above an item, as they are.
    fn parents(&self, item: &Path) -> Result<()> {
        let mut path = PathBuf::from("/");
        for part in item.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = part else { continue };
            path.push(name);
            let place = self.place(&path);
            match fs::create_dir(&place) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(failed("cannot create the directory", &place, cause)),
                Ok(()) => dress(&path, &look(&path)?, &place)?,
            }
        }
        Ok(())
    }

    fn any(&mut self, from: &Path) -> Result<()> {
        os::interrupt::check()?;
        let meta = look(from)?;
        let to = self.place(from);
        let kind = meta.file_type();
        if kind.is_dir() {
            fs::create_dir(&to).map_err(|cause| failed("cannot create the directory", &to, cause))?;
            for name in names(from)? {
                self.any(&from.join(name))?;
            }
        } else if kind.is_file() {
            if meta.nlink() > 1 {
                if let Some(first) = self.links.get(&(meta.dev(), meta.ino())) {
                    return fs::hard_link(first, &to)
                        .map_err(|cause| failed("cannot create the hard link", &to, cause));
                }
                self.links.insert((meta.dev(), meta.ino()), to.clone());
            }
            self.file(from, &to, meta.len())?;
        } else if kind.is_symlink() {
            let link = fs::read_link(from).map_err(|cause| failed("cannot read the link", from, cause))?;
            std::os::unix::fs::symlink(link, &to).map_err(|cause| failed("cannot create the link", &to, cause))?;
        } else if kind.is_fifo() {
            let mode = rustix::fs::Mode::from_raw_mode(meta.mode() & 0o7777);
            rustix::fs::mknodat(rustix::fs::CWD, &to, rustix::fs::FileType::Fifo, mode, 0)
                .map_err(|cause| failed("cannot create the FIFO", &to, cause))?;
        } else {
            self.copied.left_out.push(from.to_path_buf());
            return Ok(());
        }
        dress(from, &meta, &to)
    }

    fn file(&mut self, from: &Path, to: &Path, len: u64) -> Result<()> {
        let source = File::open(from).map_err(|cause| failed("cannot open", from, cause))?;
        let target = File::create_new(to).map_err(|cause| failed("cannot create", to, cause))?;
        target.set_len(len).map_err(|cause| failed("cannot make room for", to, cause))?;
        let pieces = data(&source, len).map_err(|cause| failed("cannot look into", from, cause))?;
        for (start, end) in &pieces {
            // All room at once, so that the file system gives one piece of the disk.
            rustix::fs::fallocate(&target, rustix::fs::FallocateFlags::KEEP_SIZE, *start, end - start)
                .map_err(|cause| failed("cannot make room for", to, cause))?;
        }
        for (start, end) in pieces {
            self.bytes(&source, from, &target, to, start..end)?;
        }
        self.copied.files += 1;
        Ok(())
    }

    fn bytes(
        &mut self,
        source: &File,
        from: &Path,
        target: &File,
        to: &Path,
        range: std::ops::Range<u64>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let room = self.buffer.len().min((range.end - at) as usize);
            let read =
                source.read_at(&mut self.buffer[..room], at).map_err(|cause| failed("cannot read", from, cause))?;
            if read == 0 {
                // It became shorter meanwhile; its copy keeps the length with zeros.
                break;
            }
            target.write_all_at(&self.buffer[..read], at).map_err(|cause| failed("cannot write", to, cause))?;
            at += read as u64;
            self.copied.bytes += Bytes(read as u64);
        }
        Ok(())
    }
}

/// Ranges of a file that are not holes.
fn data(file: &File, len: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            // A hole until the end.
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that does not know its holes.
            Err(rustix::io::Errno::INVAL) if at == 0 => return Ok(vec![(0, len)]),
            Err(cause) => return Err(cause.into()),
        };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?.min(len);
        if end <= start {
            break;
        }
        pieces.push((start, end));
        at = end;
    }
    Ok(pieces)
}

/// Owner, mode, extended attributes, times.
fn dress(from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
    std::os::unix::fs::lchown(to, Some(meta.uid()), Some(meta.gid()))
        .map_err(|cause| failed("cannot give away", to, cause))?;
    attributes(from, to)?;
    if !meta.file_type().is_symlink() {
        fs::set_permissions(to, Permissions::from_mode(meta.mode() & 0o7777))
            .map_err(|cause| failed("cannot set the mode of", to, cause))?;
    }
    let time = |seconds, nanoseconds: i64| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
    let times = rustix::fs::Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    rustix::fs::utimensat(rustix::fs::CWD, to, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|cause| failed("cannot set the times of", to, cause))
}

/// Extended attributes; those that the disk's file system does not know at all (of another security module) are left.
fn attributes(from: &Path, to: &Path) -> Result<()> {
    use rustix::io::Errno;
    let mut list = vec![0u8; 64 << 10];
    let len = match rustix::fs::llistxattr(from, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        len => len.map_err(|cause| failed("cannot list the attributes of", from, cause))?,
    };
    let mut value = vec![0u8; 64 << 10];
    for name in list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let len = match rustix::fs::lgetxattr(from, name, &mut value[..]) {
            Err(Errno::NODATA) => continue,
            len => len.map_err(|cause| failed("cannot read an attribute of", from, cause))?,
        };
        match rustix::fs::lsetxattr(to, name, &value[..len], rustix::fs::XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(cause) => return Err(failed("cannot set an attribute of", to, cause)),
        }
    }
    Ok(())
}
