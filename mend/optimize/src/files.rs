//! The files of a program: where it is installed, which of those that its start read may be changed, whether they stay
//! as they are. The originals are only read.

use model::{Bytes, Cause, Error, Exit, FileId, FileKind, Owner, Result, TraceRows};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that the recorded start read and that a remedy may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number in the trace.
    pub id: FileId,
    /// Where it is.
    pub path: PathBuf,
    /// It is the program's own: below its directory, or the recording says so and it does not lie in a directory that
    /// many programs share. Other programs may use the rest too.
    pub is_own: bool,
}

/// The files of a trace that may be changed: regular ones, but for those that the start wrote or that lie in
/// directories that are put back before each run.
pub fn candidates(rows: &TraceRows, root: Option<&Path>, put_back: &[PathBuf]) -> Vec<Candidate> {
    let written: BTreeSet<FileId> =
        rows.fills.iter().filter(|fill| fill.cause == Cause::Write).map(|fill| fill.file).collect();
    let mut seen = BTreeSet::new();
    let mut candidates = Vec::new();
    for (id, file) in (0..).map(FileId).zip(&rows.files) {
        let is_left = written.contains(&id) || put_back.iter().any(|directory| file.path.starts_with(directory));
        if file.kind != FileKind::Regular || !file.path.is_absolute() || is_left || !seen.insert(&file.path) {
            continue;
        }
        // An executable among those of others belongs to everybody, also where the recording takes it for the
        // program's.
        let is_apart = file.owner == Owner::App && os::install::directory_of(&file.path).is_some();
        let is_own = is_apart || root.is_some_and(|root| file.path.starts_with(root));
        candidates.push(Candidate { id, path: file.path.clone(), is_own });
    }
    candidates
}

/// A file as it was seen: equal if nobody has changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    mode: u32,
    dev: u64,
    ino: u64,
    /// Its length.
    pub size: Bytes,
    /// Date of its last change, nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl Seen {
    /// As it is now; links are not followed.
    ///
    /// # Errors
    /// It is gone.
    pub fn of(path: &Path) -> Result<Self> {
        let meta = fs::symlink_metadata(path).map_err(|cause| failed("cannot look at", path, cause))?;
        let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Ok(Self { mode: meta.mode(), dev: meta.dev(), ino: meta.ino(), size: Bytes(meta.len()), mtime_ns })
    }

    /// It is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// A file that runs with rights of its own: a copy would give them to whoever made it.
    pub fn is_privileged(&self, path: &Path) -> bool {
        let mut value = [0_u8; 64];
        self.mode & 0o6000 != 0 || rustix::fs::lgetxattr(path, "security.capability", &mut value[..]).is_ok()
    }
}

fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::on(Exit::Machine, what, path).because(cause.into())
}

/// The directory of a program: the one that was typed, or the one that it was installed into. `None`: it shares its
/// directory with others.
///
/// # Errors
/// There is no such directory.
pub fn root_of(program: &Path, typed: Option<&Path>) -> Result<Option<PathBuf>> {
    let Some(typed) = typed else { return Ok(os::install::directory_of(program)) };
    let root = typed
        .canonicalize()
        .map_err(|cause| Error::on(Exit::Usage, "cannot find the directory", typed).because(cause))?;
    match root.is_dir() {
        true => Ok(Some(root)),
        false => Err(Error::on(Exit::Usage, "this is no directory:", typed)),
    }
}

/// The absolute path of a place that need not be there yet, its parent's links followed.
///
/// # Errors
/// Its parent is not there.
pub fn absolute(place: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(place).map_err(|cause| failed("cannot find", place, cause))?;
    if let Ok(real) = absolute.canonicalize() {
        return Ok(real);
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::on(Exit::Usage, "this is no place for a directory:", place));
    };
    let parent = parent.canonicalize().map_err(|cause| {
        Error::on(Exit::Usage, "cannot find the directory", parent)
            .because(cause)
            .hint("make it first, or choose another place")
    })?;
    Ok(parent.join(name))
}

/// Neither lies in the other.
///
/// # Errors
/// One does.
pub fn check_apart(root: &Path, out: &Path) -> Result<()> {
    let what = match (out.starts_with(root), root.starts_with(out)) {
        (true, _) => "the result would lie inside of the program's directory:",
        (_, true) => "the program's directory lies inside of the place for the result:",
        _ => return Ok(()),
    };
    Err(Error::on(Exit::Usage, what, out).hint("choose a directory elsewhere: -o DIR"))
}

/// There is room for this many more bytes where a path lies.
///
/// # Errors
/// There is not.
pub fn check_room(beside: &Path, wanted: Bytes) -> Result<()> {
    let about =
        rustix::fs::statvfs(beside).map_err(|cause| failed("cannot look at the file system of", beside, cause))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free >= wanted.0 {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let because =
        format!("the copies take {} MiB while they are measured, and {} MiB are free", mib(wanted.0), mib(free));
    Err(Error::on(Exit::Machine, "there is not enough room beside", beside)
        .because(because)
        .hint("choose a directory on another file system: -o DIR"))
}

/// The same path with a directory's place exchanged, if it begins with it.
pub fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FileOffset, FileRow, FillRow, Nanos};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_of_any_directory_may_be_changed_but_not_those_that_the_program_writes() {
        let file = |path: &str, kind, owner| FileRow {
            path: path.into(),
            kind,
            owner,
            dev: 1,
            ino: 1,
            size: Bytes(1),
            extents: None,
            build_id: None,
        };
        let files = vec![
            file("/usr/bin/node", FileKind::Regular, Owner::App),
            file("/usr/lib/libnode.so", FileKind::Regular, Owner::System),
            file("/home/u/app/index.js", FileKind::Regular, Owner::App),
            file("/home/u/app/log", FileKind::Regular, Owner::App),
            file("/home/u/profile/x", FileKind::Regular, Owner::App),
            file("/dev/vda", FileKind::Metadata, Owner::System),
            file("/usr/bin/node", FileKind::Regular, Owner::System),
        ];
        let (offset, len) = (FileOffset(0), Bytes(1));
        let fills =
            vec![FillRow { at_ns: Nanos(0), pid: 1, tid: 1, file: FileId(3), offset, len, cause: Cause::Write }];
        let rows = TraceRows { files, fills, ..TraceRows::default() };
        let of = |root: Option<&str>| {
            let found = candidates(&rows, root.map(Path::new), &["/home/u/profile".into()]);
            found.iter().map(|it| (it.id.0, it.is_own)).collect::<Vec<_>>()
        };
        assert_eq!(of(None), [(0, false), (1, false), (2, true)]);
        assert_eq!(of(Some("/usr/bin")), [(0, true), (1, false), (2, true)]);
    }

    #[test]
    fn a_file_that_was_changed_is_another_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tool");
        fs::write(&path, "tool").unwrap();
        let before = Seen::of(&path).unwrap();
        assert_eq!(Seen::of(&path).unwrap(), before);
        assert!(!before.is_privileged(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(Seen::of(&path).unwrap().is_privileged(&path));
        fs::write(&path, "TOOLS").unwrap();
        assert_ne!(Seen::of(&path).unwrap(), before);
        assert!(Seen::of(&home.path().join("gone")).is_err());
    }

    #[test]
    fn places_that_make_no_sense_are_refused() {
        let wrong = |root: &str, out: &str| check_apart(Path::new(root), Path::new(out)).unwrap_err();
        assert!(wrong("/opt/app", "/opt/app/fast").to_string().contains("inside of the program"));
        assert!(wrong("/opt/app", "/opt").to_string().contains("lies inside of the place"));
        assert!(wrong("/opt/app", "/opt/app").exit == Exit::Usage);
        assert!(check_apart(Path::new("/opt/app"), Path::new("/opt/app2")).is_ok());
        assert_eq!(root_of(Path::new("/usr/bin/python3"), None).unwrap(), None, "it shares its directory");
        assert_eq!(root_of(Path::new("/opt/app/bin/app"), None).unwrap().unwrap(), Path::new("/opt/app"));
        assert_eq!(root_of(Path::new("/x/y"), Some(Path::new("/dev/null"))).unwrap_err().exit, Exit::Usage);
        let full = check_room(Path::new("/"), Bytes(u64::MAX)).unwrap_err();
        assert_eq!(full.exit, Exit::Machine);
        check_room(Path::new("/"), Bytes(0)).unwrap();
    }

    #[test]
    fn paths_move_with_their_directory() {
        let path = |path: &str| moved(Path::new(path), Path::new("/opt/app"), Path::new("/new"));
        assert_eq!(path("/opt/app/bin/x"), Path::new("/new/bin/x"));
        assert_eq!(path("/opt/app"), Path::new("/new"));
        assert_eq!(path("/opt/apple"), Path::new("/opt/apple"));
    }
}
