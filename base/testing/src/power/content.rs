//! What a file is: all that a power cut may change of it.

use std::ffi::CString;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// Which inode: its device and its number.
pub type Id = (u64, u64);

/// The inode of this.
pub fn id_of(about: &Metadata) -> Id {
    (about.dev(), about.ino())
}

/// Files that were changed as long ago are not read again for that: within a tick of the clock two changes look like
/// one.
const TICKS: Duration = Duration::from_millis(50);

/// What a file or a link is.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// Bytes of the file; of a link, where it leads.
    pub bytes: Rc<[u8]>,
    /// Permissions, without the kind.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// When it was written last: seconds and nanoseconds since 1970. Of a link zero.
    pub modified: (i64, i64),
    /// Extended attributes by name, access lists and capabilities among them.
    pub attributes: Rc<[(CString, Vec<u8>)]>,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

impl fmt::Debug for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, mode, owner, modified, attributes, is_link } = self;
        write!(out, "{} bytes, mode {mode:o}, of {owner:?}, written at {modified:?}", bytes.len())?;
        if !attributes.is_empty() {
            write!(out, ", {} attributes", attributes.len())?;
        }
        if *is_link { write!(out, ", a link") } else { Ok(()) }
    }
}

impl Content {
    /// Of a link that is there.
    pub(super) fn of_link(path: &Path) -> io::Result<Self> {
        let (about, target) = (path.symlink_metadata()?, std::fs::read_link(path)?);
        Ok(Self {
            bytes: target.as_os_str().as_bytes().into(),
            mode: 0o777,
            owner: (about.uid(), about.gid()),
            modified: (0, 0),
            attributes: Rc::new([]),
            is_link: true,
        })
    }

    fn of_file(file: &File, about: &Metadata) -> io::Result<Self> {
        let mut bytes = vec![0; about.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let mut attributes = os::file::all_attributes(file).unwrap_or_default();
        attributes.sort();
        Ok(Self {
            bytes: bytes.into(),
            mode: about.mode() & 0o7777,
            owner: (about.uid(), about.gid()),
            modified: (about.mtime(), about.mtime_nsec()),
            attributes: attributes.into(),
            is_link: false,
        })
    }

    /// All that may be on a disk of a file that is being written: all, half of it, or a file that is just made.
    pub(super) fn unsure(&self) -> [Self; 3] {
        let half = self.bytes[..self.bytes.len() / 2].into();
        let fresh = Self { bytes: Rc::new([]), mode: 0o600, attributes: Rc::new([]), ..self.clone() };
        [self.clone(), Self { bytes: half, ..self.clone() }, fresh]
    }

    /// Makes such a file, or such a link.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        if self.is_link {
            return std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&self.bytes), path);
        }
        let file = File::create_new(path)?;
        file.write_all_at(&self.bytes, 0)?;
        fchown(&file, Some(self.owner.0), Some(self.owner.1))?;
        file.set_permissions(std::fs::Permissions::from_mode(self.mode))?;
        for (name, value) in self.attributes.iter() {
            // SAFETY: name and value live through the call, which reads no more than it is told of them.
            let set =
                unsafe { libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
            if set != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let (seconds, nanoseconds) = self.modified;
        let since = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0));
        file.set_modified(SystemTime::UNIX_EPOCH + since)
    }
}

/// A file that stays the same inode as long as this lives. It is held by its place alone: nobody who asks whether it is
/// open is told of it.
pub(super) struct Watched {
    held: File,
    known: Option<Content>,
    /// Length and time of the last change when it was read.
    stamp: (u64, (i64, i64)),
}

impl Watched {
    /// A file that is opened for nothing (`O_PATH`), or for anything.
    pub(super) fn new(held: File) -> Self {
        Self { held, known: None, stamp: (0, (0, 0)) }
    }

    /// What it is now.
    pub(super) fn content(&mut self) -> io::Result<Content> {
        let about = self.held.metadata()?;
        let stamp = (about.len(), (about.ctime(), about.ctime_nsec()));
        let changed = SystemTime::UNIX_EPOCH + Duration::new(about.ctime().max(0) as u64, about.ctime_nsec() as u32);
        let is_long_ago = changed.elapsed().is_ok_and(|age| age > TICKS);
        // What has no name any more is as it was when it lost it.
        let is_same = about.nlink() == 0 || is_long_ago && stamp == self.stamp;
        if let Some(known) = self.known.as_ref().filter(|_| is_same) {
            return Ok(known.clone());
        }
        let file = File::open(format!("/proc/self/fd/{}", self.held.as_raw_fd()))?;
        let now = Content::of_file(&file, &about)?;
        // The same bytes again take no room.
        let same = self.known.take().filter(|known| *known == now);
        let now = same.unwrap_or(now);
        (self.known, self.stamp) = (Some(now.clone()), stamp);
        Ok(now)
    }
}
