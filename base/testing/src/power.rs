//! Power cuts for tests of writers: a file system that notes all calls of a writer, and every state in which a disk may
//! be after each of them, when what was not synced is there, or is not, in many combinations.
//!
//! It sees what goes through `os::replace`; what a writer changes in other ways it does not know. Names that were not
//! synced come one by one or not at all, in any combination; of content that was not synced there is all, half, or
//! none.
//!
//! ```
//! use os::replace::{Existing, Rights, write_whole};
//! # let home = tempfile::tempdir().unwrap();
//! let file = home.path().join("report");
//! std::fs::write(&file, "the old one").unwrap();
//! let disk = testing::power::Disk::of(&[home.path()], testing::power::Syncs::Kept);
//! # // SAFETY: this example has one thread.
//! # unsafe { std::env::set_var("THAW_STATE_DIR", home.path().join("state")) };
//! disk.run(|| write_whole(&file, b"the new one", Rights::Usual, Existing::Replace)).unwrap();
//! assert!(disk.survives(&[]).unwrap() > 10);
//! ```

use os::filesystem::{self, FileSystem, Kernel, NameIn};
use os::replace::Existing;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// With more calls than this that are not synced, not all of their combinations are tried.
const ALL_SUBSETS: usize = 10;
/// So many of them are then.
const SOME_SUBSETS: u64 = 300;

/// What a file is: content and mode. A link's content is where it leads.
pub type Content = (Rc<[u8]>, u32);

/// What a path holds in one state; `None`: nothing is there.
type Held = Option<Content>;

/// Which syncs of the writer reach the disk: a test that does not notice those that do not proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// All.
    Kept,
    /// Content does not.
    OfFilesLost,
    /// Names do not.
    OfDirectoriesLost,
}

/// A change of names, or the promise that those of a directory last.
#[derive(Clone, Debug)]
enum Call {
    Directory(PathBuf),
    Name(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Remove(PathBuf),
    SyncFile,
    SyncDirectory(PathBuf),
    SyncEverything,
}

/// A call, and what all files are after it: as programs see them, and as the disk has them for sure.
#[derive(Clone, Debug)]
struct Moment {
    call: Call,
    seen: BTreeMap<u64, Content>,
    synced: BTreeMap<u64, Content>,
}

/// The kernel's file system, with notes. The files stay open, so that no inode number comes to mean another one.
struct Notes {
    syncs: Syncs,
    files: RefCell<BTreeMap<u64, (File, Option<Content>)>>,
    synced: RefCell<BTreeMap<u64, Content>>,
    moments: RefCell<Vec<Moment>>,
}

fn content(file: &File) -> Content {
    let about = file.metadata().expect("an open file");
    let mut bytes = vec![0; about.len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("a file that was written by this process");
    (bytes.into(), about.mode() & 0o7777)
}

fn link(path: &Path) -> io::Result<Content> {
    Ok((std::fs::read_link(path)?.as_os_str().as_bytes().into(), 0o777))
}

fn directory(opened: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).expect("an open directory")
}

fn path_of(at: NameIn<'_>) -> PathBuf {
    directory(at.directory).join(at.name)
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(path.symlink_metadata()?.ino())
}

impl Notes {
    fn note(&self, call: Call) {
        let mut seen = BTreeMap::new();
        for (number, (file, known)) in &mut *self.files.borrow_mut() {
            let now = content(file);
            // The same bytes again take no room.
            let same = known.take().filter(|known| *known == now);
            let now = same.unwrap_or(now);
            *known = Some(now.clone());
            seen.insert(*number, now);
        }
        self.moments.borrow_mut().push(Moment { call, seen, synced: self.synced.borrow().clone() });
    }

    fn watch(&self, file: File) -> io::Result<u64> {
        let number = file.metadata()?.ino();
        self.files.borrow_mut().insert(number, (file, None));
        Ok(number)
    }
}

impl FileSystem for Notes {
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        Kernel.make_directory(path, mode)?;
        self.note(Call::Directory(path.canonicalize()?));
        Ok(())
    }
    fn create(&self, at: NameIn<'_>) -> io::Result<File> {
        let file = Kernel.create(at)?;
        let number = self.watch(file.try_clone()?)?;
        self.note(Call::Name(path_of(at), number));
        Ok(file)
    }
    fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()> {
        Kernel.make_link(at, target)?;
        let number = inode(&path_of(at))?;
        self.synced.borrow_mut().insert(number, link(&path_of(at))?);
        self.note(Call::Name(path_of(at), number));
        Ok(())
    }
    fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()> {
        Kernel.add_name(file, at)?;
        self.note(Call::Name(path_of(at), file.metadata()?.ino()));
        Ok(())
    }
    fn sync_file(&self, file: &File) -> io::Result<()> {
        Kernel.sync_file(file)?;
        if self.syncs != Syncs::OfFilesLost {
            self.synced.borrow_mut().insert(file.metadata()?.ino(), content(file));
        }
        self.note(Call::SyncFile);
        Ok(())
    }
    fn sync_directory(&self, opened: &File) -> io::Result<()> {
        Kernel.sync_directory(opened)?;
        if self.syncs != Syncs::OfDirectoriesLost {
            self.note(Call::SyncDirectory(directory(opened)));
        }
        Ok(())
    }
    fn sync_everything(&self, on: &File) -> io::Result<()> {
        Kernel.sync_everything(on)?;
        if self.syncs != Syncs::OfFilesLost {
            let files = self.files.borrow();
            self.synced.borrow_mut().extend(files.iter().map(|(number, (file, _))| (*number, content(file))));
        }
        if self.syncs != Syncs::OfDirectoriesLost {
            self.note(Call::SyncEverything);
        }
        Ok(())
    }
    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()> {
        let number = inode(&path_of(from))?;
        Kernel.rename(from, to, existing)?;
        self.note(Call::Rename(path_of(from), path_of(to), number));
        Ok(())
    }
    fn remove(&self, at: NameIn<'_>) -> io::Result<()> {
        Kernel.remove(at)?;
        self.note(Call::Remove(path_of(at)));
        Ok(())
    }
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        Kernel.set_mode(file, mode)
    }
    fn set_owner(&self, file: &File, user: u32, group: u32) -> io::Result<()> {
        Kernel.set_owner(file, user, group)
    }
}

/// Directories on a disk that will lose its power.
pub struct Disk {
    notes: Rc<Notes>,
    before: BTreeMap<PathBuf, u64>,
}

impl Disk {
    /// What is below these directories now is on the disk for sure.
    ///
    /// # Panics
    /// They cannot be read.
    pub fn of(roots: &[&Path], syncs: Syncs) -> Self {
        let notes = Notes { syncs, files: RefCell::default(), synced: RefCell::default(), moments: RefCell::default() };
        let disk = Self { notes: Rc::new(notes), before: BTreeMap::new() };
        let mut before = BTreeMap::new();
        for root in roots {
            disk.know(&root.canonicalize().expect("a directory"), &mut before).expect("a readable directory");
        }
        Self { before, ..disk }
    }

    fn know(&self, path: &Path, before: &mut BTreeMap<PathBuf, u64>) -> io::Result<()> {
        let about = path.symlink_metadata()?;
        if about.is_dir() {
            return std::fs::read_dir(path)?.try_for_each(|entry| self.know(&entry?.path(), before));
        }
        before.insert(path.to_owned(), about.ino());
        if about.is_symlink() {
            self.notes.synced.borrow_mut().insert(about.ino(), link(path)?);
        } else if about.is_file() {
            let file = File::open(path)?;
            self.notes.synced.borrow_mut().insert(about.ino(), content(&file));
            self.notes.watch(file)?;
        }
        Ok(())
    }

    /// Lets a writer write on it, in this thread.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        filesystem::with(self.notes.clone(), work)
    }

    /// Looks at every state after every cut. Each name that is not hidden must hold what it held before or what it
    /// holds in the end, in the last states only that; what `precious` files held before must be on the disk
    /// somewhere, as a whole; and a hidden name is there only with an entry in thaw's journal. Returns how many
    /// states there were.
    ///
    /// # Errors
    /// The first state in which that is not so.
    ///
    /// # Panics
    /// The writer has written nothing.
    pub fn survives(&self, precious: &[&Path]) -> Result<usize, String> {
        let moments = self.notes.moments.borrow();
        let last = moments.last().expect("a writer that writes something");
        let end = names(&self.before, moments.iter().map(|moment| &moment.call), &moments);
        let held_in_the_end =
            |path: &Path| end.get(path).and_then(|number| last.seen.get(number).or(last.synced.get(number)));
        let synced = self.first_synced();
        let held_before = |path: &Path| self.before.get(path).and_then(|number| synced.get(number));
        let precious: Vec<(PathBuf, Content)> = precious
            .iter()
            .map(|path| {
                let path = path
                    .parent()
                    .and_then(|above| above.canonicalize().ok())
                    .map_or(path.to_path_buf(), |above| above.join(path.file_name().unwrap_or_default()));
                let content = held_before(&path).expect("a file that was there").clone();
                (path, content)
            })
            .collect();
        let all: BTreeSet<&PathBuf> = self.before.keys().chain(end.keys()).collect();
        self.states(&moments, |disk, is_end| {
            for path in all.iter().filter(|path| !is_hidden(path) && !is_of_journal(path)) {
                let may: [Held; 2] = [held_before(path).cloned(), held_in_the_end(path).cloned()];
                for held in held_by(disk, path) {
                    if !may.contains(&held) {
                        return Err(format!("{} holds {} in {disk:?}", path.display(), shown(&held)));
                    }
                    if is_end && held != may[1] {
                        return Err(format!("in the end {} may still hold {}", path.display(), shown(&held)));
                    }
                }
            }
            for path in disk.keys().filter(|path| is_hidden(path)) {
                if !self.before.contains_key(path) && !has_entry(disk, path) {
                    return Err(format!("no entry of the journal for {} in {disk:?}", path.display()));
                }
            }
            for (path, content) in &precious {
                let whole = |contents: &Vec<Content>| contents.iter().all(|held| held.0 == content.0);
                if !disk.values().any(whole) {
                    return Err(format!("what {} held is nowhere in {disk:?}", path.display()));
                }
            }
            Ok(())
        })
    }

    /// Looks at every state after every cut by a check of the caller: what each path may hold, bytes and mode, and
    /// whether it is a last state. Returns how many states there were.
    ///
    /// # Errors
    /// What the check says of the first state that it refuses.
    pub fn each_state(
        &self,
        check: impl FnMut(&BTreeMap<PathBuf, Vec<Content>>, bool) -> Result<(), String>,
    ) -> Result<usize, String> {
        self.states(&self.notes.moments.borrow(), check)
    }

    /// What was on the disk at first.
    fn first_synced(&self) -> BTreeMap<u64, Content> {
        let moments = self.notes.moments.borrow();
        // The first call of a writer is one that syncs nothing of what was there.
        moments.first().map(|moment| moment.synced.clone()).unwrap_or_default()
    }

    fn states(
        &self,
        moments: &[Moment],
        mut check: impl FnMut(&BTreeMap<PathBuf, Vec<Content>>, bool) -> Result<(), String>,
    ) -> Result<usize, String> {
        let mut states = 0;
        for end in 1..=moments.len() {
            let done = &moments[..end];
            let is_synced = |index: usize, above: &Path| {
                done[index..].iter().any(|moment| match &moment.call {
                    Call::SyncDirectory(path) => path == above,
                    call => matches!(call, Call::SyncEverything),
                })
            };
            let open: Vec<usize> = (0..end)
                .filter(|index| lasts_with(&done[*index].call).is_some_and(|above| !is_synced(*index, above)))
                .collect();
            for kept in subsets(open.len()) {
                let is_lost = |index: &usize| open.binary_search(index).is_ok_and(|place| !kept[place]);
                let calls = (0..end).filter(|index| !is_lost(index)).map(|index| &done[index].call);
                let now = &done[end - 1];
                let names = names(&self.before, calls, done);
                let disk = names.into_iter().map(|(path, number)| (path, may_hold(now, number))).collect();
                check(&disk, end == moments.len())?;
                states += 1;
            }
        }
        Ok(states)
    }
}

/// Which of so many calls reached the disk: all combinations, or of many calls every prefix, each one alone, all but
/// each one, and some more.
fn subsets(count: usize) -> Vec<Vec<bool>> {
    if count <= ALL_SUBSETS {
        return (0..1_usize << count).map(|bits| (0..count).map(|place| bits >> place & 1 == 1).collect()).collect();
    }
    let of = |is_kept: &dyn Fn(usize) -> bool| (0..count).map(is_kept).collect::<Vec<bool>>();
    let mut all: Vec<Vec<bool>> = (0..=count).map(|len| of(&|place| place < len)).collect();
    all.extend((0..count).flat_map(|one| [of(&|place| place == one), of(&|place| place != one)]));
    // Numbers that scatter, the same ones each time.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..SOME_SUBSETS {
        all.push(
            (0..count)
                .map(|_| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    seed & 1 == 1
                })
                .collect(),
        );
    }
    all
}

/// Directory whose sync makes a call last; `None`: it changes no names.
fn lasts_with(call: &Call) -> Option<&Path> {
    match call {
        Call::Directory(path) | Call::Name(path, _) | Call::Remove(path) | Call::Rename(_, path, _) => path.parent(),
        Call::SyncFile | Call::SyncDirectory(_) | Call::SyncEverything => None,
    }
}

fn names<'c>(
    before: &BTreeMap<PathBuf, u64>,
    calls: impl Iterator<Item = &'c Call>,
    done: &[Moment],
) -> BTreeMap<PathBuf, u64> {
    let made = |call: &Call| if let Call::Directory(path) = call { Some(path.clone()) } else { None };
    let mut missing: BTreeSet<PathBuf> = done.iter().filter_map(|moment| made(&moment.call)).collect();
    let mut names = before.clone();
    for call in calls {
        match call {
            Call::Directory(path) => drop(missing.remove(path)),
            Call::Name(path, number) => drop(names.insert(path.clone(), *number)),
            Call::Rename(from, to, number) => {
                names.remove(from);
                names.insert(to.clone(), *number);
            }
            Call::Remove(path) => drop(names.remove(path)),
            Call::SyncFile | Call::SyncDirectory(_) | Call::SyncEverything => {}
        }
    }
    names.retain(|path, _| !path.ancestors().any(|above| missing.contains(above)));
    names
}

/// What is synced is certain; what was written since may be there in part.
fn may_hold(now: &Moment, number: u64) -> Vec<Content> {
    let (synced, seen) = (now.synced.get(&number), now.seen.get(&number));
    let mut may: Vec<Content> = synced.cloned().into_iter().collect();
    if let Some((bytes, mode)) = seen.filter(|seen| synced != Some(seen)) {
        may.push((bytes.clone(), *mode));
        may.push((bytes[..bytes.len() / 2].into(), *mode));
        may.push((Rc::new([]), 0o600));
    }
    may
}

fn held_by(disk: &BTreeMap<PathBuf, Vec<Content>>, path: &Path) -> Vec<Held> {
    disk.get(path).map_or_else(|| vec![None], |contents| contents.iter().cloned().map(Some).collect())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// Entries come and go.
fn is_of_journal(path: &Path) -> bool {
    path.parent().is_some_and(|above| above.file_name() == Some("journal".as_ref()))
}

/// Whether an entry of the journal, whole for sure, names a path.
fn has_entry(disk: &BTreeMap<PathBuf, Vec<Content>>, hidden: &Path) -> bool {
    let name = hidden.as_os_str().as_bytes();
    disk.iter().filter(|(path, _)| is_of_journal(path)).any(|(_, contents)| {
        let tells = |(text, _): &Content| text.ends_with(b"}\n") || text.ends_with(b"}");
        let names = |(text, _): &Content| text.windows(name.len()).any(|part| part == name);
        !contents.is_empty() && contents.iter().all(|content| tells(content) && names(content))
    })
}

fn shown(held: &Held) -> String {
    match held {
        None => "nothing".to_owned(),
        Some((bytes, mode)) => format!("{} bytes, mode {mode:o}", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::replace::{Rights, write_whole};

    fn survives(syncs: Syncs, old: Option<&str>) -> Result<usize, String> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("report");
        if let Some(old) = old {
            std::fs::write(&file, old).unwrap();
        }
        let disk = Disk::of(&[home.path()], syncs);
        disk.run(|| write_whole(&file, b"the new one", Rights::Usual, Existing::Replace)).unwrap();
        disk.survives(&[])
    }

    #[test]
    fn a_report_is_the_old_one_or_the_new_one_and_no_sync_is_too_much() {
        let state = tempfile::tempdir().unwrap();
        // SAFETY: this process has one test, and no other thread that looks at the environment.
        unsafe { std::env::set_var("THAW_STATE_DIR", state.path()) };
        for old in [None, Some("the old one")] {
            assert!(survives(Syncs::Kept, old).unwrap() > 5);
            survives(Syncs::OfFilesLost, old).unwrap_err();
            survives(Syncs::OfDirectoriesLost, old).unwrap_err();
        }
    }
}
