//! Puts a directory (a profile) back to its first state before every run, and for good at the end.
//!
//! A copy is made once, beside the directory or where the user says, sharing blocks with it where the file system can
//! (reflink). Before every run only what differs is put back, so that untouched files stay in the page cache. A
//! file counts as untouched when its inode number and its change time are those that we left, so a program that
//! changes a file and puts its modification time back is seen through.
//! The copy is in the journal (`os::journal`): `thaw doctor` brings the directory back after `kill -9`.

use model::{Error, Exit, Result};
use os::journal::Entry;
use os::tree::{Copied, FileStamp};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The first state of a directory. Dropping it puts the directory back and removes the copy.
#[derive(Debug)]
pub struct Snapshot {
    live: PathBuf,
    pristine: PathBuf,
    entry: Entry,
    /// Files of `live` as we left them.
    left: HashMap<PathBuf, FileStamp>,
}

fn stamp_of(meta: &std::fs::Metadata) -> FileStamp {
    FileStamp { ino: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) }
}

impl Snapshot {
    /// Copies a directory that [`check`] found fit, into `place` (default: beside it).
    ///
    /// # Errors
    /// Somebody uses the directory, it has other file systems below it, or the copy failed (no space): nothing was
    /// changed.
    pub fn take(live: &Path, place: Option<&Path>) -> Result<Self> {
        refuse_mounts_below(live)?;
        refuse_in_use(live)?;
        let place = match place {
            Some(place) => place.canonicalize().map_err(|error| failed("cannot keep copies in", place, error))?,
            None => live
                .parent()
                .map(Path::to_owned)
                .ok_or_else(|| Error::bug("a directory without a parent was checked"))?,
        };
        refuse_full(live, &place)?;
        let name = live.file_name().unwrap_or_default().to_string_lossy();
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish() as u32;
        let pristine = place.join(format!(".thaw-{name}-{random:08x}"));
        let entry = os::journal::hold_directory(&pristine, live).map_err(|error| {
            let hint = "thaw keeps a copy beside the directory: it needs the room for it and the right to write there";
            if error.hint.is_some() { error } else { error.hint(hint) }
        })?;
        let mut snapshot = Self { live: live.to_owned(), pristine, entry, left: HashMap::new() };
        snapshot.remember()?;
        Ok(snapshot)
    }

    /// The directory.
    pub fn live(&self) -> &Path {
        &self.live
    }

    /// Makes the directory what it was first. What was put back is dirty in the page cache until it is synced.
    ///
    /// # Errors
    /// Something could not be read or written.
    pub fn put_back(&mut self) -> Result<Copied> {
        let left = &self.left;
        // A file that was changed and yet has the size and the modification time of the first state is put back too.
        let touched = |below: &Path, now| left.get(below).is_some_and(|stamp| *stamp != now);
        let copied = os::tree::restore_unless(&self.pristine, &self.live, &touched)?;
        if copied != Copied::default() {
            self.remember()?;
        }
        Ok(copied)
    }

    /// Somebody else made the directory what it was first, perhaps with other inodes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_as_at_first(&mut self) -> Result<()> {
        self.remember()
    }

    /// Puts the directory back for good and removes the copy.
    ///
    /// # Errors
    /// That did not work; the copy stays, and `thaw doctor` can try again.
    pub fn close(self) -> Result<()> {
        let Self { entry, .. } = self;
        entry.undo()
    }

    fn remember(&mut self) -> Result<()> {
        let mut left = HashMap::new();
        let live = &self.live;
        visit(live, &mut |path, meta| {
            if meta.is_file() {
                left.insert(path.strip_prefix(live).unwrap_or(path).to_owned(), stamp_of(meta));
            }
            Ok(())
        })?;
        self.left = left;
        Ok(())
    }
}

fn failed(what: &str, path: &Path, cause: std::io::Error) -> Error {
    Error::on(Exit::Machine, what, path).because(cause)
}

/// Calls `each` with everything below a directory; links are not followed, and what vanishes meanwhile is passed over.
fn visit(directory: &Path, each: &mut dyn FnMut(&Path, &std::fs::Metadata) -> Result<()>) -> Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("cannot list", directory, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| failed("cannot list", directory, error))?.path();
        match path.symlink_metadata() {
            Ok(meta) => {
                each(&path, &meta)?;
                if meta.is_dir() {
                    visit(&path, each)?;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("cannot look at", &path, error)),
        }
    }
    Ok(())
}

/// The real path of a directory that may be restored.
///
/// # Errors
/// It is not a directory, or it holds what must not be put back: the system, a home directory, the recording, thaw's
/// state, the copies.
pub fn check(directory: &Path, recording: Option<&Path>, place: Option<&Path>) -> Result<PathBuf> {
    let refuse = |why: &str, hint: &str| {
        Err(Error::on(Exit::Usage, "--restore cannot have the directory", directory).because(why).hint(hint))
    };
    let real = match directory.canonicalize() {
        Ok(real) => real,
        Err(error) => return Err(failed("cannot restore the directory", directory, error).hint("make it first")),
    };
    if !real.is_dir() {
        return refuse("it is a file", "name the directory that it is in");
    }
    let narrow = "name the directory of the program's profile";
    if real.parent().is_none() {
        return refuse("it is the whole system", narrow);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    if home.is_some_and(|home| home.starts_with(&real)) {
        return refuse("it holds your home directory", narrow);
    }
    let holds = |path: &Path| real_of_future(path).is_some_and(|path| path.starts_with(&real));
    if recording.is_some_and(holds) {
        return refuse(
            "it holds the recording, which would be removed with every run",
            "write the recording elsewhere with -o",
        );
    }
    if place.is_some_and(holds) {
        return refuse("it holds the place of its own copy", "keep the copies elsewhere");
    }
    if os::journal::state_dir().is_ok_and(|state| holds(&state)) {
        return refuse("it holds thaw's own state", narrow);
    }
    Ok(real)
}

/// Root puts back no directory for a user that is another one's: a link may have led there.
///
/// # Errors
/// It belongs to somebody else.
pub fn is_theirs(real: &Path, uid: u32) -> Result<()> {
    let owner = real.symlink_metadata().map_err(|error| failed("cannot look at", real, error))?.uid();
    if owner == uid {
        return Ok(());
    }
    Err(Error::on(Exit::Usage, "--restore cannot have the directory", real)
        .because(format!("it belongs to user {owner}, and the program runs as user {uid}"))
        .hint("name a directory of that user, or run the program as its owner: --user"))
}

/// The real path of something that may not exist yet.
fn real_of_future(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|above| {
        let real = above.canonicalize().ok()?;
        Some(real.join(path.strip_prefix(above).ok()?))
    })
}

/// Of two directories that contain each other only one can be put back.
///
/// # Errors
/// Names the two.
pub fn refuse_nested(directories: &[PathBuf]) -> Result<()> {
    for (index, inner) in directories.iter().enumerate() {
        if let Some((_, outer)) =
            directories.iter().enumerate().find(|&(i, outer)| i != index && inner.starts_with(outer))
        {
            return Err(Error::on(Exit::Usage, "--restore was given twice for the directory", inner)
                .because(format!("'{}' holds it", outer.display()))
                .hint("give only the outer one"));
        }
    }
    Ok(())
}

fn refuse_mounts_below(live: &Path) -> Result<()> {
    let mounts = os::mounts::Mounts::load()?;
    match mounts.0.iter().find(|mount| mount.point.starts_with(live) && mount.point != live) {
        None => Ok(()),
        Some(mount) => Err(Error::on(Exit::Usage, "--restore cannot have the directory", live)
            .because(format!("another file system is mounted below it, on '{}'", mount.point.display()))
            .hint("unmount it, or name a directory beside it")),
    }
}

/// A program that has the directory in use would find its files gone.
fn refuse_in_use(live: &Path) -> Result<()> {
    for pid in os::process::all() {
        if pid == std::process::id() {
            continue;
        }
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let user = descriptors.map(|descriptor| descriptor.path()).find_map(|link| {
            let target = std::fs::read_link(link).ok()?;
            // Directories are held open by shells and file managers, which do not mind.
            (target.starts_with(live) && target.is_file()).then_some(target)
        });
        if let Some(file) = user {
            let comm = os::process::comm(pid).unwrap_or_default();
            return Err(Error::on(Exit::Usage, "--restore cannot have the directory", live)
                .because(format!("process {pid} ({comm}) has '{}' open", file.display()))
                .hint("end that program first: it would find its files changed under it"));
        }
    }
    Ok(())
}

fn refuse_full(live: &Path, place: &Path) -> Result<()> {
    let mut need = 0;
    visit(live, &mut |_, meta| {
        need += meta.blocks() * 512;
        Ok(())
    })?;
    let space = rustix::fs::statvfs(place).map_err(|error| failed("cannot look at", place, error.into()))?;
    let free = space.f_bavail * space.f_frsize;
    // A file system that shares blocks needs next to nothing; it says so only when it is tried.
    if need <= free || shares_blocks(live, place) {
        return Ok(());
    }
    let (need, free) = (model::Bytes(need), model::Bytes(free));
    Err(Error::on(Exit::Machine, "no space for the copy of the directory", live)
        .because(format!("it needs {need}, and {free} are free in '{}'", place.display()))
        .hint("thaw keeps a copy of it while it records: make room"))
}

fn shares_blocks(live: &Path, place: &Path) -> bool {
    let dev = |path: &Path| path.metadata().map(|meta| meta.dev()).ok();
    let Ok(mounts) = os::mounts::Mounts::load() else { return false };
    let fstype = mounts.of_path(live).map(|mount| mount.fstype.as_str());
    dev(live) == dev(place) && matches!(fstype, Some("btrfs" | "xfs" | "bcachefs"))
}
