//! Programs that start from an image from now on: launchers and services, and the images that are mounted for all users
//! at each boot. What is installed, whether it still fits, who uses it.

use super::start::check_now;
use super::{Order, Wanted, compared, make, start};
use crate::own;
use image::about::About;
use image::check::{self, Difference, Of, Opened};
use image::install::{self, copy_of, name_of, not_mounted, outdated};
use image::shared::{self, Shared};
use image::tree::{Detail, Tree};
use image::write::Compression;
use model::{Error, Exit, Result, shown};
use os::installed::places::Scope;
use os::installed::{By, Installation, Kept, Subject, uninstall as take_away};
use os::replace::Existing;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What was installed: the image, if it was not yet, and the launcher or service.
///
/// # Errors
/// The image or its directory is not as it was; this user may not; nobody could start from it; see
/// [`os::installed::install`]. Nothing is changed then.
pub fn install(file: &Path, subject: Option<&Subject>, scope: Scope) -> Result<Vec<Installation>> {
    if let Some(subject) = subject {
        os::installed::check_free(By::Image, subject, scope)?;
    }
    let runner = own::beside("thaw-image", "what launchers call", "thawlab")?;
    let opened = Opened::open(file)?;
    check_now(&opened, Of::Directory)?;
    let is_root = rustix::process::geteuid().is_root();
    match (scope, subject) {
        (Scope::User, None) => Err(Error::new(Exit::Usage, "nothing is named that is to start from the image", "")
            .hint(
                "name it: --desktop NAME.desktop or --unit NAME; --system alone has the image mounted for all users",
            )),
        (Scope::User, Some(subject)) => {
            let image = match is_root {
                true => fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()),
                false => mounted_like(&opened)?.ok_or_else(|| not_mounted(file))?,
            };
            Ok(vec![install::start(&image, &runner, subject, scope)?])
        }
        (Scope::System, _) if !is_root => {
            Err(Error::new(Exit::Machine, "only root installs for all users", "").hint("run it with sudo"))
        }
        (Scope::System, _) => {
            let (image, mut done) = for_all(&opened, subject.is_some())?;
            if let Some(subject) = subject {
                match install::start(&image, &runner, subject, scope) {
                    Ok(installation) => done.push(installation),
                    Err(error) => {
                        done.iter().try_for_each(|image| remove(image).map(|_| ()))?;
                        return Err(error);
                    }
                }
            }
            Ok(done)
        }
    }
}

/// An image that is mounted for all users and holds the same.
fn mounted_like(opened: &Opened) -> Result<Option<PathBuf>> {
    let same = |shared: &Shared| shared.about == opened.about && shared.is_mounted();
    Ok(shared::all()?.into_iter().find(same).map(|shared| shared.image))
}

/// Has an image mounted for all users, now and at each boot, if it is not yet: the copy that is, and what was installed
/// for it.
fn for_all(opened: &Opened, is_needed_only: bool) -> Result<(PathBuf, Vec<Installation>)> {
    let name = name_of(&opened.path)?;
    let copy = copy_of(&name)?;
    if os::installed::find(By::Image, &Subject::Image(name.clone()), Scope::System)?.is_some() {
        return match Opened::open(&copy)?.about == opened.about {
            true => Ok((copy, Vec::new())),
            false => Err(Error::new(Exit::Usage, "another image of this name is installed:", &name)
                .hint(format!("give the file another name, or first: thaw image uninstall --image {name} --system"))),
        };
    }
    // All users will start it: not only what the kernel interprets must be what it was made of.
    let (image, contents) = opened.contents()?;
    let (_, sums) = check::whole(opened, (&image, &contents))?;
    let covered = contents.tree.covered(&opened.about.origin);
    let tree = Tree::of(&covered, Detail::Whole)?;
    if let Some(Difference { path, what }) = compared((&contents.tree, &sums), covered.root(), &tree)?.first() {
        return Err(Error::on(Exit::Data, "the image does not hold what its directory holds:", &covered.whole())
            .because(format!("{path} {what}"))
            .hint("record the program again, then `thaw image make`"));
    }
    let mut installation = install::image(opened, &own::file()?, is_needed_only)?;
    let mounted =
        Opened::open(&copy).and_then(|opened| check_now(&opened, Of::Directory).and_then(|()| shared::mount(&opened)));
    match mounted {
        Ok(shared) => {
            installation.notes.insert(0, format!("mounted now at {}", shown(&shared.place())));
            Ok((copy, vec![installation]))
        }
        Err(error) => {
            let _ = remove(&installation);
            Err(error)
        }
    }
}

/// What was taken away, and what was not.
pub type Removed = (Installation, Vec<Kept>);

/// Takes it away, and the image with its last launcher, if it was installed for those.
///
/// # Errors
/// It is not installed; launchers or services of the system start from the image; see [`os::installed::uninstall`].
pub fn uninstall(subject: &Subject, scope: Scope) -> Result<Vec<Removed>> {
    let installation = os::installed::expect(By::Image, subject, scope)?;
    let others: Vec<Installation> = os::installed::list()?.0;
    let uses = |other: &&Installation| {
        other.by == By::Image && other.from == installation.from && other.subject != installation.subject
    };
    if matches!(subject, Subject::Image(_)) {
        if let Some(user) = others.iter().find(uses) {
            return Err(Error::new(Exit::Usage, "something starts from this image:", user.subject.name())
                .hint(format!("first: {}", user.undo_command())));
        }
        return Ok(vec![remove(&installation)?]);
    }
    let mut removed = vec![remove(&installation)?];
    let users: Vec<&Installation> = others.iter().filter(uses).collect();
    if let [image] = users[..]
        && image.is_needed_only
        && matches!(image.subject, Subject::Image(_))
    {
        removed.push(remove(image)?);
    }
    Ok(removed)
}

/// Takes away what is installed, or half of it.
///
/// # Errors
/// See [`os::installed::uninstall`]; an image cannot be unmounted.
pub fn remove(installation: &Installation) -> Result<Removed> {
    if let (By::Image, Subject::Image(_), Some(image)) = (installation.by, &installation.subject, &installation.from)
        && let Some(shared) = shared::all()?.iter().find(|shared| shared.image == *image)
    {
        shared::unmount(shared)?;
    }
    Ok((installation.clone(), take_away(installation)?))
}

/// Mounts an image for all users, until it is unmounted or the machine ends. `remakes`, as the unit of an installed one
/// does: where its directory was changed, it is made anew before, in the order of the old one.
///
/// # Errors
/// It, or its directory, is not as it was; this is not root; see [`shared::mount`]. What was mounted stays then, if it
/// is not the kernel that refuses the new one.
pub fn mount(image: &Path, remakes: bool) -> Result<Shared> {
    let mut opened = Opened::open(image)?;
    if let Err(error) = check_now(&opened, Of::Directory) {
        if !remakes || !is_changed(&opened)? {
            return Err(error);
        }
        opened = remade(&opened)?;
        check_now(&opened, Of::Directory)?;
        if let Some(older) = shared::of(image)? {
            shared::unmount(&older)?;
        }
    }
    shared::mount(&opened)
}

fn is_changed(opened: &Opened) -> Result<bool> {
    let (_, contents) = opened.contents()?;
    Ok(check::changed_since(opened, &contents.tree, Of::Directory)?.is_some())
}

/// The image again, of its directory as it is now, in the place of the old one.
fn remade(older: &Opened) -> Result<Opened> {
    shared::check_open_to_all(older)?;
    let About { origin, compression, .. } = &older.about;
    let unknown = || Error::on(Exit::Data, "another version compressed the image:", &older.path);
    let compression = Compression::of_name(compression).ok_or_else(unknown)?;
    let order = Order::Like(&older.path);
    let wanted = Wanted { directory: Path::new(&origin.directory), trees: &[], order, compression };
    make(&wanted, &older.path, Existing::Replace)?;
    Opened::open(&older.path)
}

/// Unmounts it; who runs a program in it keeps it until that ends.
///
/// # Errors
/// It is not mounted; this is not root.
pub fn unmount(image: &Path) -> Result<Shared> {
    let path = fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let found = shared::all()?.into_iter().find(|shared| shared.image == path).ok_or_else(|| {
        Error::on(Exit::Usage, "it is not mounted for all users:", image)
            .hint("`thaw image status` lists what is; what is mounted for one program ends with that")
    })?;
    shared::unmount(&found)?;
    Ok(found)
}

/// `thaw.image-status/1`: which images there are, what starts from them, and whether it still fits.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// By image.
    pub images: Vec<Status>,
    /// Records of what is installed that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// An image that is mounted, or that something starts from.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The file.
    pub image: String,
    /// Its directory; `None`: the image cannot be read.
    pub directory: Option<String>,
    /// Why no program starts from it now; `None`: one would.
    pub problem: Option<String>,
    /// Where it is mounted for all users; `None`: it is not.
    pub mounted: Option<String>,
    /// What is installed of it.
    pub installed: Vec<Installed>,
    /// Processes that have it over its directory now, as far as this user may see.
    pub processes: Vec<Process>,
}

/// What starts from an image, or has it mounted at each boot.
#[derive(Debug, Serialize)]
pub struct Installed {
    /// The launcher, the service, or the image.
    #[serde(flatten)]
    pub subject: Subject,
    /// For whom.
    pub scope: Scope,
    /// What to type to take it away.
    pub undo: String,
    /// It was begun and not finished, or starts another command now.
    pub problem: Option<String>,
}

/// A process that sees an image.
#[derive(Debug, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl StatusDocument {
    /// Whether everything that is installed starts from its image.
    pub fn is_well(&self) -> bool {
        let well = |status: &Status| status.problem.is_none() && status.installed.iter().all(|it| it.problem.is_none());
        self.unreadable.is_empty() && self.images.iter().all(well)
    }
}

/// All images that this user can know of.
///
/// # Errors
/// Records or notes are there and cannot be listed.
pub fn status() -> Result<StatusDocument> {
    let (installations, unreadable) = os::installed::list()?;
    let mut by_image: BTreeMap<PathBuf, Vec<Installation>> = BTreeMap::new();
    for installation in installations.into_iter().filter(|it| it.by == By::Image) {
        let image = installation.from.clone().unwrap_or_default();
        by_image.entry(image).or_default().push(installation);
    }
    let shared = shared::all()?;
    shared.iter().for_each(|shared| _ = by_image.entry(shared.image.clone()).or_default());
    let covered = covered();
    let images = by_image.into_iter().map(|(image, installed)| {
        let shared = shared.iter().find(|shared| shared.image == image && shared.is_mounted());
        status_of(&image, &installed, shared, &covered)
    });
    let unreadable = unreadable.iter().map(Error::to_string).collect();
    Ok(StatusDocument { schema: "thaw.image-status/1", images: images.collect(), unreadable })
}

fn status_of(
    image: &Path,
    installed: &[Installation],
    shared: Option<&Shared>,
    covered: &BTreeMap<PathBuf, Vec<Process>>,
) -> Status {
    let opened = Opened::open(image);
    // Who may not read the image may read what was mounted of it.
    let about = shared.map(|shared| &shared.about).or(opened.as_ref().map(|opened| &opened.about).ok());
    let directory = about.map(|about| PathBuf::from(&about.origin.directory));
    let is_root = rustix::process::geteuid().is_root();
    let is_for_all = installed.iter().any(|it| matches!(it.subject, Subject::Image(_)) || it.scope == Scope::System);
    let problem = match shared {
        Some(_) => start::refused(image),
        None => opened
            .and_then(|opened| check_now(&opened, Of::Directory))
            .err()
            .or_else(|| (is_for_all || !is_root).then(|| not_mounted(image))),
    };
    let processes = directory.as_ref().and_then(|directory| covered.get(directory)).map_or(Vec::new(), |all| {
        all.iter().map(|process| Process { pid: process.pid, name: process.name.clone() }).collect()
    });
    let installed = installed.iter().map(|it| Installed {
        subject: it.subject.clone(),
        scope: it.scope,
        undo: it.undo_command(),
        problem: match it.doing {
            Some(doing) => Some(format!("process {} began it and did not finish", doing.pid)),
            None => outdated(it),
        },
    });
    Status {
        image: shown(image),
        directory: directory.map(|directory| shown(&directory)),
        problem: problem.map(|error| error.to_string()),
        mounted: shared.map(|shared| shown(&shared.place())),
        installed: installed.collect(),
        processes,
    }
}

/// By directory: the processes that see an image there, the first of each mount namespace.
fn covered() -> BTreeMap<PathBuf, Vec<Process>> {
    let mut covered: BTreeMap<PathBuf, Vec<Process>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for pid in os::process::all() {
        let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).map(|about| about.ino());
        if !namespace.is_ok_and(|namespace| known.insert(namespace)) {
            continue;
        }
        let mounts = os::mounts::Mounts::of_process(pid).unwrap_or_default().0.into_iter();
        // Of a set it is mounted twice there, the one over the other.
        let points: BTreeSet<PathBuf> =
            mounts.filter(|mount| mount.fstype == "erofs").map(|mount| mount.point).collect();
        for point in points {
            let name = os::process::comm(pid).unwrap_or_default();
            covered.entry(point).or_default().push(Process { pid, name });
        }
    }
    covered
}
