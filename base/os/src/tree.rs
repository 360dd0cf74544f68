//! Directory trees: copy one, make one equal to another, remove one.
//!
//! For profile directories that are put back before every run. Not a backup program: sockets and
//! device nodes are left out, and holes of sparse files may be filled.
//!
//! A tree may be another user's, who may rename, link and swap while root works on it. So every name is looked up in a
//! directory that is open, links are never followed, and owners, modes and times go to what was opened and looked at,
//! not to a name.

use model::{Bytes, Error, Exit, Result, shown};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// What [`copy`] or [`restore`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files written or shared.
    pub files: u64,
    /// How many bytes these files hold, shared ones included.
    pub bytes: Bytes,
    /// How many of the files share their blocks with the original (reflink).
    pub shared: u64,
    /// Files, links and directories that were removed because they were new or changed.
    pub removed: u64,
}

/// What a file of a tree is now, for [`restore_unless`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The number of its inode.
    pub ino: u64,
    /// When it was changed last, seconds and nanoseconds since 1970: nobody can set it back.
    pub changed: (i64, i64),
}

/// A copy is under way.
#[derive(Default)]
struct Job {
    copied: Copied,
    /// Files with several names: (device, inode) of the original to the copy's inode and where it is in the tree.
    links: HashMap<(u64, u64), (u64, PathBuf)>,
}

/// Something in a tree: a name in an open directory.
struct InTree {
    directory: Rc<OwnedFd>,
    name: OsString,
    /// From the top of the tree.
    below: PathBuf,
    /// The path by which the user knows it, for messages.
    path: PathBuf,
}

fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::on(Exit::Machine, what, path).because(cause.into())
}

fn swapped(path: &Path) -> Error {
    Error::on(Exit::Machine, "somebody changed a directory while thaw worked in it, at", path)
        .because("it is not what thaw made or saw there")
        .hint("end the programs that use it, and try again")
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory, by a path without links: each of its names is looked up in the directory before it.
///
/// # Errors
/// It is not there, or a part of the path is a link.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let path = std::path::absolute(path)?;
    let mut at = rustix::fs::open("/", DIRECTORY, Mode::empty())?;
    let mut names = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)).peekable();
    while let Some(name) = names.next() {
        // Above it, searching is enough.
        let flags = if names.peek().is_some() { LOOK | OFlags::DIRECTORY } else { DIRECTORY };
        at = rustix::fs::openat(&at, name.as_os_str(), flags, Mode::empty()).map_err(|cause| match cause {
            Errno::LOOP | Errno::NOTDIR => io::Error::other(format!(
                "'{}' is a link or no directory, and thaw follows none here",
                shown(Path::new(name.as_os_str()))
            )),
            cause => cause.into(),
        })?;
    }
    Ok(at)
}

/// A path as the kernel would walk it to an open file, whatever was renamed meanwhile.
pub fn of_descriptor(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

impl InTree {
    /// The top of a tree; the directories above are looked up without links.
    fn top(path: &Path) -> Result<Self> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::on(Exit::Usage, "not the path of a directory tree", path));
        };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let directory = open_directory(above).map_err(|cause| failed("cannot open the directory", above, cause))?;
        Ok(Self { directory: Rc::new(directory), name: name.into(), below: PathBuf::new(), path: path.into() })
    }

    fn child(&self, directory: &Rc<OwnedFd>, name: &OsStr) -> Self {
        let (below, path) = (self.below.join(name), self.path.join(name));
        Self { directory: directory.clone(), name: name.into(), below, path }
    }

    fn look(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn meta(&self) -> Result<Stat> {
        self.look().map_err(|cause| failed("cannot look at", &self.path, cause))
    }

    fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    fn enter(&self) -> Result<(Rc<OwnedFd>, Stat)> {
        let directory = self.open(DIRECTORY).map_err(|cause| failed("cannot open the directory", &self.path, cause))?;
        let meta = rustix::fs::fstat(&directory).map_err(|cause| failed("cannot look at", &self.path, cause))?;
        Ok((Rc::new(directory), meta))
    }

    fn target(&self) -> rustix::io::Result<std::ffi::CString> {
        rustix::fs::readlinkat(&self.directory, &self.name, Vec::new())
    }
}

fn kind(meta: &Stat) -> FileType {
    FileType::from_raw_mode(meta.st_mode)
}

fn changed(meta: &Stat) -> (i64, i64) {
    (meta.st_ctime, meta.st_ctime_nsec as i64)
}

fn modified(meta: &Stat) -> (i64, i64) {
    (meta.st_mtime, meta.st_mtime_nsec as i64)
}

fn owner(meta: &Stat) -> (u32, u32) {
    (meta.st_uid, meta.st_gid)
}

/// Whether this is what thaw has just made: others may have put a file of theirs, or a further name of another file, in
/// its place.
fn is_fresh(meta: &Stat, wanted: FileType) -> bool {
    let alone = wanted == FileType::Directory || meta.st_nlink == 1;
    kind(meta) == wanted && alone && meta.st_uid == rustix::process::geteuid().as_raw()
}

/// Copies a tree to a path that does not exist yet: files (reflinked where the file system can),
/// directories, symlinks, hard links, FIFOs, modes, owners, times, extended attributes.
///
/// # Errors
/// The first path that could not be read or written; what was copied until then stays.
pub fn copy(from: &Path, to: &Path) -> Result<Copied> {
    let mut job = Job::default();
    // Whoever calls may name directories through links; below them there are none.
    let (from, to) = (InTree::top(&real_parent(from)?)?, InTree::top(&real_parent(to)?)?);
    copy_any(&from, &to, &mut job)?;
    Ok(job.copied)
}

/// The path with the real one of the directory that its last name is in.
fn real_parent(path: &Path) -> Result<PathBuf> {
    let cannot = |cause: io::Error| failed("cannot look at", path, cause);
    let Some(name) = path.file_name() else { return path.canonicalize().map_err(cannot) };
    let above = crate::file::directory_of(path).canonicalize().map_err(cannot)?;
    Ok(above.join(name))
}

fn copy_any(from: &InTree, to: &InTree, job: &mut Job) -> Result<()> {
    let meta = from.meta()?;
    match kind(&meta) {
        FileType::Directory => copy_directory(from, to, job),
        FileType::Symlink => copy_link(from, &meta, to),
        FileType::RegularFile => copy_file(from, to, job),
        FileType::Fifo => copy_fifo(&meta, to),
        _ => Ok(()),
    }
}

fn copy_directory(from: &InTree, to: &InTree, job: &mut Job) -> Result<()> {
    let (source, meta) = from.enter()?;
    rustix::fs::mkdirat(&to.directory, &to.name, Mode::RWXU)
        .map_err(|cause| failed("cannot create the directory", &to.path, cause))?;
    let (target, fresh) = to.enter()?;
    if !is_fresh(&fresh, FileType::Directory) {
        return Err(swapped(&to.path));
    }
    for name in names(&source, &from.path)? {
        copy_any(&from.child(&source, &name), &to.child(&target, &name), job)?;
    }
    dress(source.as_fd(), &meta, target.as_fd(), &to.path)
}

fn copy_link(from: &InTree, meta: &Stat, to: &InTree) -> Result<()> {
    let target = from.target().map_err(|cause| failed("cannot read the link", &from.path, cause))?;
    rustix::fs::symlinkat(target.as_c_str(), &to.directory, &to.name)
        .map_err(|cause| failed("cannot create the link", &to.path, cause))?;
    dress_by_look(FileType::Symlink, meta, to)
}

fn copy_fifo(meta: &Stat, to: &InTree) -> Result<()> {
    rustix::fs::mknodat(&to.directory, &to.name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|cause| failed("cannot create the FIFO", &to.path, cause))?;
    dress_by_look(FileType::Fifo, meta, to)
}

/// The names in an open directory.
fn names(directory: &OwnedFd, path: &Path) -> Result<Vec<OsString>> {
    let read = || -> rustix::io::Result<Vec<OsString>> {
        rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(1 << 15);
        let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_bytes().to_vec();
            if !matches!(name.as_slice(), b"." | b"..") {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    };
    read().map_err(|cause| failed("cannot list", path, cause))
}

fn copy_file(from: &InTree, to: &InTree, job: &mut Job) -> Result<()> {
    // What became a pipe since it was looked at is not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(from.open(flags).map_err(|cause| failed("cannot open", &from.path, cause))?);
    let meta = rustix::fs::fstat(&source).map_err(|cause| failed("cannot look at", &from.path, cause))?;
    if kind(&meta) != FileType::RegularFile {
        return Err(swapped(&from.path));
    }
    let identity = (meta.st_dev, meta.st_ino);
    if meta.st_nlink > 1
        && let Some((ino, first)) = job.links.get(&identity)
    {
        return link_again(*ino, first, to);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(&to.directory, &to.name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|cause| failed("cannot create", &to.path, cause))?;
    let mut target = File::from(target);
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        job.copied.shared += 1;
    } else {
        io::copy(&mut source, &mut target).map_err(|cause| failed("cannot copy to", &to.path, cause))?;
    }
    job.copied.files += 1;
    job.copied.bytes += Bytes(u64::try_from(meta.st_size).unwrap_or(0));
    if meta.st_nlink > 1 {
        let made = rustix::fs::fstat(&target).map_err(|cause| failed("cannot look at", &to.path, cause))?;
        job.links.insert(identity, (made.st_ino, to.below.clone()));
    }
    dress(source.as_fd(), &meta, target.as_fd(), &to.path)
}

/// Gives a file of the copy one more name.
fn link_again(ino: u64, first: &Path, to: &InTree) -> Result<()> {
    let cannot = |cause: Errno| failed("cannot create the hard link", &to.path, cause);
    // From the top of the tree again, name by name: a descriptor for each would be too many.
    let up = to.below.components().count().saturating_sub(1);
    let mut at = rustix::io::dup(&*to.directory).map_err(cannot)?;
    for _ in 0..up {
        at = rustix::fs::openat(&at, "..", LOOK | OFlags::DIRECTORY, Mode::empty()).map_err(cannot)?;
    }
    let mut names = first.components().peekable();
    while let Some(name) = names.next() {
        let flags = if names.peek().is_some() { LOOK | OFlags::DIRECTORY } else { LOOK };
        at = rustix::fs::openat(&at, name.as_os_str(), flags, Mode::empty()).map_err(cannot)?;
    }
    let meta = rustix::fs::fstat(&at).map_err(cannot)?;
    if kind(&meta) != FileType::RegularFile || meta.st_ino != ino {
        return Err(swapped(&to.path));
    }
    rustix::fs::linkat(rustix::fs::CWD, of_descriptor(&at), &to.directory, &to.name, AtFlags::SYMLINK_FOLLOW)
        .map_err(cannot)
}

/// Gives an open copy the owner, mode, extended attributes and times of the original. What the user may not give away
/// (owners, attributes of the system) is left: a copy of an own directory does not need it. Rights of the owner's own
/// (setuid, setgid) do not go to another owner.
fn dress(from: BorrowedFd<'_>, meta: &Stat, to: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let user = rustix::fs::Uid::from_raw(meta.st_uid);
    let group = rustix::fs::Gid::from_raw(meta.st_gid);
    let _ = rustix::fs::fchown(to, Some(user), Some(group));
    copy_xattrs(from, to);
    let now = rustix::fs::fstat(to).map_err(|cause| failed("cannot look at", path, cause))?;
    let all = if owner(&now) == owner(meta) { 0o7777 } else { 0o1777 };
    rustix::fs::fchmod(to, Mode::from_raw_mode(meta.st_mode & all))
        .map_err(|cause| failed("cannot set the mode of", path, cause))?;
    rustix::fs::futimens(to, &times(meta)).map_err(|cause| failed("cannot set the times of", path, cause))
}

/// The same for what cannot be opened: the name is looked at once more, by a descriptor that everything then goes to.
fn dress_by_look(wanted: FileType, meta: &Stat, to: &InTree) -> Result<()> {
    let cannot = |cause: Errno| failed("cannot set the owner, mode and times of", &to.path, cause);
    let fd = to.open(LOOK).map_err(cannot)?;
    if !is_fresh(&rustix::fs::fstat(&fd).map_err(cannot)?, wanted) {
        return Err(swapped(&to.path));
    }
    let user = rustix::fs::Uid::from_raw(meta.st_uid);
    let group = rustix::fs::Gid::from_raw(meta.st_gid);
    let _ = rustix::fs::chownat(&fd, "", Some(user), Some(group), AtFlags::EMPTY_PATH);
    if wanted != FileType::Symlink {
        rustix::fs::chmod(of_descriptor(&fd), Mode::from_raw_mode(meta.st_mode & 0o1777)).map_err(cannot)?;
    }
    match rustix::fs::utimensat(&fd, "", &times(meta), AtFlags::EMPTY_PATH) {
        // Before Linux 5.8 only the name would do.
        Err(Errno::INVAL) => Ok(()),
        done => done.map_err(cannot),
    }
}

fn times(meta: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: meta.st_atime as _, tv_nsec: meta.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: meta.st_mtime as _, tv_nsec: meta.st_mtime_nsec as _ },
    }
}

fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    for (name, value) in crate::file::attributes(from) {
        let _ = rustix::fs::fsetxattr(to, name.as_c_str(), &value, XattrFlags::empty());
    }
}

/// Makes `live` equal to `pristine`: what was changed, added or removed there is put back. Files that are as
/// they were (same size, modification time, mode and owner) are not touched, so that they stay in the page cache.
///
/// Neither path may lead through links.
///
/// # Errors
/// The first path that could not be read or written; calling it again goes on.
pub fn restore(pristine: &Path, live: &Path) -> Result<Copied> {
    restore_unless(pristine, live, &|_, _| false)
}

/// As [`restore`], and what `touched` says of a file (by its path below `live`) is put back even if it looks as it was.
///
/// # Errors
/// As [`restore`].
pub fn restore_unless(pristine: &Path, live: &Path, touched: &dyn Fn(&Path, FileStamp) -> bool) -> Result<Copied> {
    let mut job = Job::default();
    let (pristine, live) = (InTree::top(pristine)?, InTree::top(live)?);
    if let Ok(have) = live.look() {
        still_theirs(&pristine.meta()?, &have, &live.path)?;
    }
    restore_any(&pristine, &live, touched, &mut job)?;
    Ok(job.copied)
}

/// A user who may rename what lies beside the directory can put another user's into its place.
fn still_theirs(was: &Stat, is: &Stat, path: &Path) -> Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if was.st_uid == ours || was.st_uid == is.st_uid {
        return Ok(());
    }
    Err(Error::on(Exit::Machine, "cannot restore the directory", path)
        .because(format!("it was user {}'s and is user {}'s now", was.st_uid, is.st_uid))
        .hint("look who put another directory there"))
}

fn restore_any(
    pristine: &InTree,
    live: &InTree,
    touched: &dyn Fn(&Path, FileStamp) -> bool,
    job: &mut Job,
) -> Result<()> {
    let want = pristine.meta()?;
    let have = match live.look() {
        Ok(have) => have,
        Err(Errno::NOENT) => return copy_any(pristine, live, job),
        Err(cause) => return Err(failed("cannot look at", &live.path, cause)),
    };
    if kind(&want) == FileType::Directory && kind(&have) == FileType::Directory {
        return restore_directory(pristine, live, touched, job);
    }
    let stamp = FileStamp { ino: have.st_ino, changed: changed(&have) };
    let is_file = kind(&have) == FileType::RegularFile;
    if same(pristine, &want, live, &have) && !(is_file && touched(&live.below, stamp)) {
        if want.st_nlink > 1 && is_file {
            job.links.insert((want.st_dev, want.st_ino), (have.st_ino, live.below.clone()));
        }
        return Ok(());
    }
    remove_at(live)?;
    job.copied.removed += 1;
    copy_any(pristine, live, job)
}

fn restore_directory(
    pristine: &InTree,
    live: &InTree,
    touched: &dyn Fn(&Path, FileStamp) -> bool,
    job: &mut Job,
) -> Result<()> {
    let ((source, want), (target, have)) = (pristine.enter()?, live.enter()?);
    let wanted: HashSet<OsString> = names(&source, &pristine.path)?.into_iter().collect();
    for name in names(&target, &live.path)?.into_iter().filter(|name| !wanted.contains(name)) {
        remove_at(&live.child(&target, &name))?;
        job.copied.removed += 1;
    }
    for name in &wanted {
        restore_any(&pristine.child(&source, name), &live.child(&target, name), touched, job)?;
    }
    if (want.st_mode, owner(&want)) != (have.st_mode, owner(&have)) {
        return dress(source.as_fd(), &want, target.as_fd(), &live.path);
    }
    let now = rustix::fs::fstat(&target).map_err(|cause| failed("cannot look at", &live.path, cause))?;
    if modified(&want) != modified(&now) {
        rustix::fs::futimens(&target, &times(&want))
            .map_err(|cause| failed("cannot set the times of", &live.path, cause))?;
    }
    Ok(())
}

fn same(pristine: &InTree, want: &Stat, live: &InTree, have: &Stat) -> bool {
    if kind(want) != kind(have) || owner(want) != owner(have) {
        return false;
    }
    if kind(want) == FileType::Symlink {
        return matches!((pristine.target(), live.target()), (Ok(want), Ok(have)) if want == have);
    }
    want.st_mode == have.st_mode
        && want.st_size == have.st_size
        && modified(want) == modified(have)
        && want.st_nlink == have.st_nlink
}

/// Removes a tree or a file; nothing there is fine. Links are removed, not followed.
///
/// # Errors
/// What could not be removed.
pub fn remove(path: &Path) -> Result<()> {
    if matches!(path.symlink_metadata(), Err(cause) if cause.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    remove_at(&InTree::top(&real_parent(path)?)?)
}

fn remove_at(place: &InTree) -> Result<()> {
    let cannot = |cause: Errno| failed("cannot remove", &place.path, cause);
    match rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(cause) => return Err(cannot(cause)),
    }
    let directory = match place.open(DIRECTORY) {
        Ok(directory) => Rc::new(directory),
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR) => return Err(cannot(Errno::PERM)),
        Err(cause) => return Err(cannot(cause)),
    };
    for name in names(&directory, &place.path)? {
        remove_at(&place.child(&directory, &name))?;
    }
    match rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(cause) => Err(cannot(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    use std::process::Command;

    /// A tree as text: `path type mode content-or-target`, sorted.
    fn picture(root: &Path) -> Vec<String> {
        fn walk(root: &Path, at: &Path, out: &mut Vec<String>) {
            let meta = fs::symlink_metadata(at).unwrap();
            let what = if meta.is_dir() {
                "dir".to_owned()
            } else if meta.file_type().is_symlink() {
                format!("-> {}", fs::read_link(at).unwrap().display())
            } else if meta.file_type().is_fifo() {
                "fifo".to_owned()
            } else {
                format!("{:?} links {}", String::from_utf8_lossy(&fs::read(at).unwrap()), meta.nlink())
            };
            out.push(format!(
                "{} {what} {:o} {}.{:09}",
                at.strip_prefix(root).unwrap().display(),
                meta.mode(),
                meta.mtime(),
                meta.mtime_nsec()
            ));
            if meta.is_dir() {
                let mut names: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                for name in names {
                    walk(root, &at.join(name), out);
                }
            }
        }
        let mut out = Vec::new();
        walk(root, root, &mut out);
        out
    }

    fn profile(root: &Path) {
        fs::create_dir_all(root.join("cache/deep")).unwrap();
        fs::write(root.join("prefs.js"), "user_pref(1)").unwrap();
        fs::write(root.join("cache/deep/entry"), "old").unwrap();
        fs::write(root.join("cookies"), "c").unwrap();
        fs::hard_link(root.join("cookies"), root.join("cookies-too")).unwrap();
        fs::set_permissions(root.join("prefs.js"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("127.0.1.1:+4711", root.join("lock")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        use std::os::unix::ffi::OsStrExt;
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"not\xffutf8")), "x").unwrap();
    }

    #[test]
    fn a_copy_looks_like_its_original() {
        let home = tempfile::tempdir().unwrap();
        let live = home.path().join("live");
        profile(&live);
        let copied = copy(&live, &home.path().join("pristine")).unwrap();
        assert_eq!(picture(&live), picture(&home.path().join("pristine")));
        assert_eq!(copied.files, 4);
    }

    #[test]
    fn restore_undoes_what_a_program_did() {
        let home = tempfile::tempdir().unwrap();
        let (live, pristine) = (home.path().join("live"), home.path().join("pristine"));
        profile(&live);
        copy(&live, &pristine).unwrap();
        let before = picture(&live);
        let untouched = fs::metadata(live.join("prefs.js")).unwrap().ino();

        fs::write(live.join("cache/deep/entry"), "new and longer").unwrap();
        fs::write(live.join("leak-1"), "one more tab").unwrap();
        fs::remove_file(live.join("lock")).unwrap();
        std::os::unix::fs::symlink("127.0.1.1:+9999", live.join("lock")).unwrap();
        fs::remove_file(live.join("cookies-too")).unwrap();
        fs::create_dir(live.join("cookies-too")).unwrap();
        fs::remove_dir_all(live.join("cache")).unwrap();
        assert_ne!(before, picture(&live));

        restore(&pristine, &live).unwrap();
        assert_eq!(before, picture(&live));
        assert_eq!(untouched, fs::metadata(live.join("prefs.js")).unwrap().ino(), "an unchanged file was rewritten");
        assert_eq!(restore(&pristine, &live).unwrap(), Copied::default(), "there was nothing left to do");
    }

    #[test]
    fn restore_makes_a_directory_that_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let (live, pristine) = (home.path().join("live"), home.path().join("pristine"));
        profile(&live);
        copy(&live, &pristine).unwrap();
        let before = picture(&live);
        fs::remove_dir_all(&live).unwrap();
        restore(&pristine, &live).unwrap();
        assert_eq!(before, picture(&live));
    }

    #[test]
    fn extended_attributes_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        fs::write(&file, "a").unwrap();
        if rustix::fs::lsetxattr(&file, "user.thaw", b"kept", rustix::fs::XattrFlags::empty()).is_err() {
            testing::skip("no extended attributes on this file system");
            return;
        }
        copy(&file, &home.path().join("b")).unwrap();
        let mut value = [0u8; 16];
        let len = rustix::fs::lgetxattr(home.path().join("b"), "user.thaw", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"kept");
    }

    #[test]
    fn remove_does_not_follow_links() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("kept")).unwrap();
        fs::create_dir(home.path().join("gone")).unwrap();
        std::os::unix::fs::symlink(home.path().join("kept"), home.path().join("gone/link")).unwrap();
        remove(&home.path().join("gone")).unwrap();
        assert!(home.path().join("kept").exists() && !home.path().join("gone").exists());
        remove(&home.path().join("never was")).unwrap();
    }

    #[test]
    fn rights_of_their_own_do_not_go_to_another_owner() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::write(&from, "x").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o4755)).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o7777, 0o4755, "the owner is the same");
        if !testing::root_or_skip() {
            return;
        }
        let other = home.path().join("other");
        testing::as_user(testing::SECOND_USER, || copy(&from, &other).map(|_| ())).unwrap();
        let made = fs::metadata(&other).unwrap();
        assert_eq!((made.uid(), made.mode() & 0o7777), (testing::SECOND_USER, 0o755));
    }

    #[test]
    fn a_path_through_a_link_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join("real")).unwrap();
        profile(&home.join("real/live"));
        copy(&home.join("real/live"), &home.join("pristine")).unwrap();
        std::os::unix::fs::symlink("real", home.join("link")).unwrap();
        let error = restore(&home.join("pristine"), &home.join("link/live")).unwrap_err();
        assert!(error.to_string().contains("'link' is a link"), "{error}");
    }

    /// A user's directory, its first state, and what only root may read and nobody may change.
    struct Scene {
        home: tempfile::TempDir,
        live: PathBuf,
        pristine: PathBuf,
        canary: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
            let (theirs, secret) = (home.path().join("theirs"), home.path().join("secret"));
            let (live, pristine, canary) = (theirs.join("live"), theirs.join("pristine"), secret.join("file-0"));
            fs::create_dir_all(live.join("deep")).unwrap();
            for number in 0..40 {
                fs::write(live.join(format!("deep/file-{number}")), "first").unwrap();
                fs::set_permissions(live.join(format!("deep/file-{number}")), fs::Permissions::from_mode(0o666))
                    .unwrap();
            }
            assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(&theirs).status().unwrap().success());
            copy(&live, &pristine).unwrap();
            fs::create_dir(&secret).unwrap();
            for number in 0..40 {
                fs::write(secret.join(format!("file-{number}")), "root's").unwrap();
                fs::set_permissions(secret.join(format!("file-{number}")), fs::Permissions::from_mode(0o600)).unwrap();
            }
            Self { home, live, pristine, canary }
        }

        fn secret(&self) -> Vec<String> {
            // Further names that the other user gives to root's files, where the kernel lets everybody, are not our
            // doing.
            let without_links = |line: String| match line.split_once(" links ") {
                Some((file, rest)) => {
                    format!("{file}{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
                }
                None => line,
            };
            let files = picture(&self.home.path().join("secret")).into_iter().map(without_links);
            files.chain([self.owner()]).collect()
        }

        fn owner(&self) -> String {
            format!("{:?}", fs::metadata(&self.canary).map(|meta| (meta.uid(), meta.gid())).unwrap())
        }
    }

    #[test]
    fn a_user_who_swaps_names_gets_nothing_changed_outside() {
        if !testing::root_or_skip() {
            return;
        }
        let scene = Scene::new();
        let before = scene.secret();
        let (live, secret) = (scene.live.clone(), scene.home.path().join("secret"));
        let mut round = 0_usize;
        let rival = testing::Rival::new(testing::SECOND_USER, move || {
            // A file becomes a link (or a further name) of root's file, the directory a link to root's, and back.
            let file = live.join(format!("deep/file-{}", round % 40));
            let _ = fs::remove_file(&file);
            let _ = match round % 3 {
                0 => std::os::unix::fs::symlink(secret.join("file-0"), &file),
                1 => fs::hard_link(secret.join("file-0"), &file),
                _ => fs::write(&file, "changed"),
            };
            let (deep, aside) = (live.join("deep"), live.join("aside"));
            if fs::rename(&deep, &aside).is_ok() {
                let _ = std::os::unix::fs::symlink(&secret, &deep);
                let _ = fs::remove_file(&deep);
                let _ = fs::rename(&aside, &deep);
            }
            round += 1;
        });
        let mut went_through = 0;
        for _ in 0..400 {
            // What a user does to the own directory meanwhile is an error, or restored the next time.
            went_through += usize::from(restore(&scene.pristine, &scene.live).is_ok());
            assert_eq!(scene.secret(), before);
        }
        assert!(rival.end() > 0, "the other user did nothing");
        let _ = remove(&scene.live);
        restore(&scene.pristine, &scene.live).unwrap();
        assert_eq!(picture(&scene.live).len(), 42, "{went_through} of 400 went through");
        assert_eq!(scene.secret(), before);
    }

    #[test]
    fn another_users_directory_in_its_place_is_not_touched() {
        if !testing::root_or_skip() {
            return;
        }
        let scene = Scene::new();
        let before = scene.secret();
        fs::rename(&scene.live, scene.home.path().join("theirs/aside")).unwrap();
        fs::rename(scene.home.path().join("secret"), &scene.live).unwrap();
        let error = restore(&scene.pristine, &scene.live).unwrap_err();
        assert!(error.to_string().contains("is user 0's now"), "{error}");
        fs::rename(&scene.live, scene.home.path().join("secret")).unwrap();
        assert_eq!(scene.secret(), before);
    }
}
