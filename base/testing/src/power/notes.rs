//! The kernel's file system, with notes of all that is asked of it, and of what is changed past it.

use super::content::{Content, Id, Watched, id_of};
use os::filesystem::{FileSystem, Kernel, NameIn};
use os::replace::Existing;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Which syncs of the writer reach the disk: a test that does not notice those that do not proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// All.
    Kept,
    /// Content does not.
    OfFilesLost,
    /// Names do not.
    OfDirectoriesLost,
    /// All but the one with this number, from 0, whatever it syncs.
    Without(usize),
}

/// A name in a directory.
pub(super) type Name = (Id, OsString);

/// A change of names, or the promise that those of a directory last.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Name(Name, Id),
    /// Within one directory.
    Rename(Name, Name, Id),
    /// The old name goes, of what was moved to another directory: never without the new one being there.
    Leave(Name, Name, Id),
    /// Each takes the name of the other: one entry of a file system's journal, there as a whole or not at all.
    Exchange((Name, Id), (Name, Id)),
    Remove(Name),
    SyncDirectory(Id),
    /// Of a device.
    SyncEverything(u64),
}

impl Call {
    /// The directory whose sync makes it last; `None`: it changes no names.
    pub(super) fn directory(&self) -> Option<Id> {
        match self {
            Self::Name(name, _) | Self::Rename(_, name, _) | Self::Leave(name, _, _) | Self::Remove(name) => {
                Some(name.0)
            }
            Self::Exchange(_, (name, _)) => Some(name.0),
            Self::SyncDirectory(_) | Self::SyncEverything(_) => None,
        }
    }

    /// Does it to names.
    pub(super) fn act(&self, names: &mut BTreeMap<Name, Id>) {
        match self {
            Self::Name(name, id) => drop(names.insert(name.clone(), *id)),
            Self::Rename(from, to, id) | Self::Leave(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            Self::Exchange((one, id), (other, other_id)) => {
                names.insert(one.clone(), *other_id);
                names.insert(other.clone(), *id);
            }
            Self::Remove(name) => drop(names.remove(name)),
            Self::SyncDirectory(_) | Self::SyncEverything(_) => {}
        }
    }
}

/// What was done since the last one, and what all files are after it: as programs see them, and as the disk has them
/// for sure.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) calls: Vec<Call>,
    pub(super) seen: BTreeMap<Id, Content>,
    pub(super) synced: BTreeMap<Id, Content>,
}

/// Notes of a writer. Files and directories stay held, so that no inode number comes to mean another one.
pub(super) struct Notes {
    syncs: Syncs,
    /// How often it synced so far.
    count: Cell<usize>,
    roots: Vec<PathBuf>,
    files: RefCell<BTreeMap<Id, Watched>>,
    links: RefCell<BTreeMap<Id, File>>,
    directories: RefCell<BTreeMap<Id, File>>,
    synced: RefCell<BTreeMap<Id, Content>>,
    names: RefCell<BTreeMap<Name, Id>>,
    moments: RefCell<Vec<Moment>>,
}

/// Holds what has this name, without opening it.
fn hold(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

fn place(at: NameIn<'_>) -> io::Result<Name> {
    Ok((id_of(&at.directory.metadata()?), at.name.to_owned()))
}

fn path_of(at: NameIn<'_>) -> PathBuf {
    os::tree::of_descriptor(at.directory).join(at.name)
}

fn id_at(path: &Path) -> io::Result<Id> {
    Ok(id_of(&path.symlink_metadata()?))
}

impl Notes {
    /// What is below these directories now is on the disk for sure.
    pub(super) fn of(roots: Vec<PathBuf>, syncs: Syncs) -> io::Result<Self> {
        let notes = Self {
            syncs,
            count: Cell::new(0),
            roots,
            files: RefCell::default(),
            links: RefCell::default(),
            directories: RefCell::default(),
            synced: RefCell::default(),
            names: RefCell::default(),
            moments: RefCell::default(),
        };
        for root in &notes.roots {
            notes.directories.borrow_mut().insert(id_at(root)?, hold(root)?);
        }
        let found = notes.walk()?;
        notes.synced.borrow_mut().extend(notes.seen()?);
        *notes.names.borrow_mut() = found;
        Ok(notes)
    }

    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The roots, and which inodes they are.
    pub(super) fn root_ids(&self) -> Vec<(PathBuf, Id)> {
        let of = |root: &PathBuf| id_at(root).ok().map(|id| (root.clone(), id));
        self.roots.iter().filter_map(of).collect()
    }

    pub(super) fn names(&self) -> BTreeMap<Name, Id> {
        self.names.borrow().clone()
    }

    pub(super) fn synced(&self) -> BTreeMap<Id, Content> {
        self.synced.borrow().clone()
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.moments.borrow().clone()
    }

    /// How often the writer synced something.
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    /// Mode of a directory that was seen; `None`: it is none.
    pub(super) fn directory_mode(&self, id: Id) -> Option<u32> {
        self.directories.borrow().get(&id).map(|held| held.metadata().map_or(0o755, |about| about.mode() & 0o7777))
    }

    /// All names below the roots. What is met for the first time is held from now on.
    fn walk(&self) -> io::Result<BTreeMap<Name, Id>> {
        let mut names = BTreeMap::new();
        let mut todo = self.roots.clone();
        while let Some(directory) = todo.pop() {
            let above = id_at(&directory)?;
            for entry in std::fs::read_dir(&directory)? {
                let entry = entry?;
                let path = entry.path();
                let about = path.symlink_metadata()?;
                let id = id_of(&about);
                names.insert((above, entry.file_name()), id);
                if about.is_dir() {
                    self.directories.borrow_mut().entry(id).or_insert(hold(&path)?);
                    todo.push(path);
                } else if about.is_file() {
                    self.files.borrow_mut().entry(id).or_insert(Watched::new(hold(&path)?));
                } else if about.is_symlink() && !self.links.borrow().contains_key(&id) {
                    self.know_link(&path, id)?;
                }
            }
        }
        Ok(names)
    }

    /// Where a link leads comes with its name.
    fn know_link(&self, path: &Path, id: Id) -> io::Result<()> {
        self.links.borrow_mut().insert(id, hold(path)?);
        self.synced.borrow_mut().insert(id, Content::of_link(path)?);
        Ok(())
    }

    fn seen(&self) -> io::Result<BTreeMap<Id, Content>> {
        self.files.borrow_mut().iter_mut().map(|(id, file)| Ok((*id, file.content()?))).collect()
    }

    fn note(&self, calls: Vec<Call>) -> io::Result<()> {
        calls.iter().for_each(|call| call.act(&mut self.names.borrow_mut()));
        let moment = Moment { calls, seen: self.seen()?, synced: self.synced() };
        self.moments.borrow_mut().push(moment);
        Ok(())
    }

    /// Notes a change of a name, unless it is in a directory that is none of these.
    fn note_ours(&self, calls: Vec<Call>) -> io::Result<()> {
        let is_ours = |call: &Call| call.directory().is_some_and(|id| self.directories.borrow().contains_key(&id));
        let ours: Vec<Call> = calls.into_iter().filter(is_ours).collect();
        if ours.is_empty() { Ok(()) } else { self.note(ours) }
    }

    /// Notes what was changed past this file system since the last time.
    pub(super) fn discover(&self) -> io::Result<()> {
        let (before, now) = (self.names(), self.walk()?);
        let added = now.iter().filter(|(name, id)| before.get(name) != Some(id));
        let mut calls: Vec<Call> = added.map(|(name, id)| Call::Name(name.clone(), *id)).collect();
        calls.extend(before.into_keys().filter(|name| !now.contains_key(name)).map(Call::Remove));
        if calls.is_empty() { Ok(()) } else { self.note(calls) }
    }

    /// Counts a sync. What of it reaches the disk: content, names.
    fn sync(&self) -> (bool, bool) {
        let number = self.count.replace(self.count.get() + 1);
        match self.syncs {
            Syncs::Kept => (true, true),
            Syncs::OfFilesLost => (false, true),
            Syncs::OfDirectoriesLost => (true, false),
            Syncs::Without(lost) => (number != lost, number != lost),
        }
    }
}

impl FileSystem for Notes {
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.discover()?;
        Kernel.make_directory(path, mode)?;
        let above = os::replace::open_directory(os::file::directory_of(path))?;
        let name = place(NameIn { directory: &above, name: path.file_name().unwrap_or_default() })?;
        let id = id_at(path)?;
        let is_ours = self.directories.borrow().contains_key(&name.0);
        if is_ours {
            self.directories.borrow_mut().insert(id, hold(path)?);
        }
        self.note_ours(vec![Call::Name(name, id)])
    }
    fn create(&self, at: NameIn<'_>) -> io::Result<File> {
        self.discover()?;
        let file = Kernel.create(at)?;
        let id = id_of(&file.metadata()?);
        self.files.borrow_mut().insert(id, Watched::new(hold(&path_of(at))?));
        self.note_ours(vec![Call::Name(place(at)?, id)])?;
        Ok(file)
    }
    fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()> {
        self.discover()?;
        Kernel.make_link(at, target)?;
        let id = id_at(&path_of(at))?;
        self.know_link(&path_of(at), id)?;
        self.note_ours(vec![Call::Name(place(at)?, id)])
    }
    fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()> {
        self.discover()?;
        Kernel.add_name(file, at)?;
        let id = id_of(&file.metadata()?);
        self.files.borrow_mut().entry(id).or_insert(Watched::new(hold(&path_of(at))?));
        self.note_ours(vec![Call::Name(place(at)?, id)])
    }
    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.discover()?;
        Kernel.sync_file(file)?;
        let id = id_of(&file.metadata()?);
        let now = self.files.borrow_mut().get_mut(&id).map(Watched::content).transpose()?;
        if self.sync().0 {
            self.synced.borrow_mut().extend(now.map(|now| (id, now)));
        }
        self.note(Vec::new())
    }
    fn sync_directory(&self, opened: &File) -> io::Result<()> {
        self.discover()?;
        Kernel.sync_directory(opened)?;
        let calls = if self.sync().1 { vec![Call::SyncDirectory(id_of(&opened.metadata()?))] } else { Vec::new() };
        self.note(calls)
    }
    fn sync_everything(&self, on: &File) -> io::Result<()> {
        self.discover()?;
        Kernel.sync_everything(on)?;
        let device = on.metadata()?.dev();
        let (content, names) = self.sync();
        if content {
            self.synced.borrow_mut().extend(self.seen()?.into_iter().filter(|(id, _)| id.0 == device));
        }
        self.note(if names { vec![Call::SyncEverything(device)] } else { Vec::new() })
    }
    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()> {
        self.discover()?;
        let id = id_at(&path_of(from))?;
        Kernel.rename(from, to, existing)?;
        let (old, new) = (place(from)?, place(to)?);
        if old.0 == new.0 {
            return self.note_ours(vec![Call::Rename(old, new, id)]);
        }
        self.note_ours(vec![Call::Name(new.clone(), id)])?;
        self.note_ours(vec![Call::Leave(old, new, id)])
    }
    fn exchange(&self, one: NameIn<'_>, other: NameIn<'_>) -> io::Result<()> {
        self.discover()?;
        let ids = (id_at(&path_of(one))?, id_at(&path_of(other))?);
        Kernel.exchange(one, other)?;
        self.note_ours(vec![Call::Exchange((place(one)?, ids.0), (place(other)?, ids.1))])
    }
    fn remove(&self, at: NameIn<'_>) -> io::Result<()> {
        self.discover()?;
        Kernel.remove(at)?;
        self.note_ours(vec![Call::Remove(place(at)?)])
    }
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        Kernel.set_mode(file, mode)
    }
    fn set_owner(&self, file: &File, user: u32, group: u32) -> io::Result<()> {
        Kernel.set_owner(file, user, group)
    }
}
