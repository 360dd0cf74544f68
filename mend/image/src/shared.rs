//! Images that are mounted for all users, each at a place of its own below `/run/thaw/images`, where nothing is
//! covered. A start moves one over its directory in a mount namespace of its own, which an ordinary user may make
//! ([`os::covers`]).
//!
//! Beside each mounted image lies a note that everybody may read: what it is of, and what its directory was like. It is
//! written by root after all that the kernel interprets was checked, so who believes it has nothing of the image to
//! check, and nothing to read from the disk.

use crate::about::About;
use crate::check::Opened;
use crate::mount::{Way, for_all};
use model::{Error, Exit, Result, shown};
use os::installed::places::only_root_changes;
use os::journal::{self, Undo, machine_dir};
use os::replace::{Existing, Rights, make_directory, write_whole};
use os::user::who_else_changes;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// An image that is mounted for all users: its note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Where the image is, without links on the way.
    pub image: PathBuf,
    /// Which file that was.
    pub identity: Identity,
    /// What is known of it.
    pub about: About,
    /// A setting that outlives the image, and what it was.
    setting: Option<(PathBuf, String)>,
}

/// Which file an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    changed: (i64, i64),
}

impl Identity {
    /// Of a file.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        let changed = (about.ctime(), about.ctime_nsec());
        Ok(Self { dev: about.dev(), ino: about.ino(), size: about.size(), changed })
    }
}

/// Where they are.
fn home() -> PathBuf {
    machine_dir().join("images")
}

/// The name of an image: that of its file, without the ending.
fn name_of(image: &Path) -> &OsStr {
    image.file_stem().unwrap_or_default()
}

impl Shared {
    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        home().join(name_of(&self.image))
    }

    fn note(&self) -> PathBuf {
        note_at(&self.place())
    }

    /// Whether the kernel still has it there: an image, and none of another file system.
    pub fn is_mounted(&self) -> bool {
        let place = self.place();
        let above = fs::metadata(home()).map(|about| about.dev());
        let is_apart = fs::metadata(&place).is_ok_and(|about| above.is_ok_and(|above| above != about.dev()));
        is_apart && rustix::fs::statfs(&place).is_ok_and(|about| about.f_type as u64 & 0xffff_ffff == EROFS)
    }

    fn undo(&self) -> Undo {
        Undo::Unmount { path: self.place(), note: self.note() }
    }
}

/// `linux/magic.h`
const EROFS: u64 = 0xe0f5_e1e2;

/// `NAME.json` beside `NAME`, whatever dots that has.
fn note_at(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    place.with_file_name(name)
}

/// One at a time mounts and unmounts.
fn lock() -> Result<File> {
    let home = home();
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot mount images in", &home).because(cause);
    make_directory(&home, 0o755).map_err(cannot)?;
    // Whatever the umask says: users look for images here.
    for path in [home.parent().unwrap_or(&home), &home] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
    }
    if let Some((part, who)) = who_else_changes(&home) {
        return Err(cannot(io::Error::other(format!("{}: {who}", shown(&part)))));
    }
    let directory = File::open(&home).map_err(cannot)?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive).map_err(|cause| cannot(cause.into()))?;
    Ok(directory)
}

/// Mounts an image for all users, until it is unmounted or the machine ends. It must have been checked. Nothing is read
/// around faults on it for as long. One that is mounted already stays so.
///
/// # Errors
/// This is not root; the kernel cannot mount it; another image of this name is mounted. Nothing is left then.
pub fn mount(opened: &Opened) -> Result<Shared> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot mount the image", &opened.path).because(cause);
    let image = fs::canonicalize(&opened.path).map_err(cannot)?;
    let identity = Identity::of(&opened.file).map_err(cannot)?;
    let mut shared = Shared { image, identity, about: opened.about.clone(), setting: None };
    check_open_to_all(opened)?;
    let _lock = lock()?;
    let (place, note) = (shared.place(), shared.note());
    if let Some(known) = read(&note)?.filter(Shared::is_mounted) {
        return match known.image == shared.image && known.identity == shared.identity {
            true => Ok(known),
            false => Err(Error::on(Exit::Usage, "another image of this name is mounted:", &known.image)
                .hint(format!("thaw image unmount {}", shown(&known.image)))),
        };
    }
    let entry = journal::hold(shared.undo(), || {
        make_directory(&place, 0o755).map_err(cannot)?;
        let mut read_around = for_all(opened, &place, &[Way::File, Way::Loop])?;
        read_around.off().map_err(cannot)?;
        shared.setting = read_around.keep()?;
        let text = serde_json::to_vec(&shared).map_err(|cause| cannot(cause.into()))?;
        write_whole(&note, &text, Rights::Usual, Existing::Replace)?;
        fs::set_permissions(&note, fs::Permissions::from_mode(0o644)).map_err(cannot)
    })?;
    entry.forget()?;
    Ok(shared)
}

/// Sees that nobody but root changes the image, and that everybody gets to its directory: the place where it is mounted
/// is open to all, whatever the way to the directory is.
///
/// # Errors
/// Who else changes it; which directory is closed.
pub fn check_open_to_all(opened: &Opened) -> Result<()> {
    only_root_changes(&opened.path, "copy it to a directory of root's")?;
    let origin = &opened.about.origin;
    let is_closed = |path: &&Path| fs::metadata(path).is_ok_and(|about| about.mode() & 0o001 == 0);
    match origin.places().flat_map(|place| place.ancestors().skip(1)).find(is_closed) {
        Some(closed) => Err(Error::on(
            Exit::Usage,
            "an image of what not everybody can reach is not mounted for all:",
            Path::new(&origin.directory),
        )
        .because(format!("{} is closed to others", shown(closed)))
        .hint("start the program with `sudo thaw image run`, which mounts it for that program alone")),
        None => Ok(()),
    }
}

/// Takes it away again. Who runs a program in it keeps it until that ends.
///
/// # Errors
/// This is not root; the kernel refuses.
pub fn unmount(shared: &Shared) -> Result<()> {
    let _lock = lock()?;
    journal::hold(shared.undo(), || Ok(()))?.undo()?;
    match &shared.setting {
        Some((path, before)) => fs::write(path, before)
            .map_err(|cause| Error::on(Exit::Machine, "cannot put back", path).because(cause).hint("run it as root")),
        None => Ok(()),
    }
}

/// The note of a place; `None`: there is none.
fn read(note: &Path) -> Result<Option<Shared>> {
    let cannot = |cause: io::Error| Error::on(Exit::Data, "cannot read what is mounted from", note).because(cause);
    match fs::read(note) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cannot(cause)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|cause| cannot(cause.into())),
    }
}

/// All that have a note, whether they are still mounted or not.
///
/// # Errors
/// A note cannot be read.
pub fn all() -> Result<Vec<Shared>> {
    let entries = fs::read_dir(home()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut notes: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    notes.sort();
    Ok(notes.iter().map(|note| read(note)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The image of this path as it is mounted for all users; `None`: it is not.
///
/// # Errors
/// What is mounted, or the note of it, can be changed by somebody else than root; it is not the file that is mounted.
pub fn of(image: &Path) -> Result<Option<Shared>> {
    let Ok(image) = fs::canonicalize(image) else { return Ok(None) };
    let note = note_at(&home().join(name_of(&image)));
    let Some(shared) = read(&note)?.filter(|shared| shared.image == image && shared.is_mounted()) else {
        return Ok(None);
    };
    match who_else_changes(&note) {
        Some((part, who)) => {
            Err(Error::on(Exit::Data, "somebody else than root can change what is mounted of", &image)
                .because(format!("{}: {who}", shown(&part))))
        }
        None => Ok(Some(shared)),
    }
}
