//! Power cuts for tests of writers: a file system that notes all calls of a writer, and every state in which a disk may
//! be after each of them, when what was not synced is there, or is not, in many combinations.
//!
//! What goes through `os::filesystem` is noted call by call. What a writer changes in other ways is found by looking at
//! the directories before each call, and in the end: as changes that nobody synced. Names that were not synced come one
//! by one or not at all, in any combination; of content that was not synced there is all, half, or none. A file is its
//! bytes, mode, owner, time of the last write and extended attributes.
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

mod content;
mod notes;
mod states;

pub use content::Content;
pub use notes::Syncs;
pub use states::{ALL_SUBSETS, State};

use content::Id;
use notes::{Name, Notes};
use os::filesystem;
use states::History;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a path holds in one state; `None`: nothing is there.
type Held<'c> = Option<&'c Content>;

/// Directories on a disk that will lose its power.
pub struct Disk {
    notes: Rc<Notes>,
    before: BTreeMap<Name, Id>,
    first: BTreeMap<PathBuf, Content>,
    most_unsynced: Cell<usize>,
}

impl Disk {
    /// What is below these directories now is on the disk for sure.
    ///
    /// # Panics
    /// They cannot be read.
    pub fn of(roots: &[&Path], syncs: Syncs) -> Self {
        let roots = roots.iter().map(|root| root.canonicalize().expect("a directory")).collect();
        let notes = Rc::new(Notes::of(roots, syncs).expect("readable directories"));
        let before = notes.names();
        let moment = notes::Moment { calls: Vec::new(), seen: BTreeMap::new(), synced: notes.synced() };
        let history = History { notes: &notes, before: &before, moments: vec![moment] };
        let mut first = BTreeMap::new();
        history
            .each(|state| {
                first.extend(state.variant(0).into_iter().map(|(path, content)| (path.clone(), content.clone())));
                Ok(())
            })
            .expect("one state");
        Self { notes, before, first, most_unsynced: Cell::new(0) }
    }

    /// Lets a writer write on it, in this thread.
    ///
    /// # Panics
    /// The directories cannot be read afterwards.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = filesystem::with(self.notes.clone(), work);
        self.notes.discover().expect("readable directories");
        done
    }

    fn history(&self) -> History<'_> {
        History { notes: &self.notes, before: &self.before, moments: self.notes.moments() }
    }

    /// How often the writer synced something: each of these can be left out ([`Syncs::Without`]).
    pub fn syncs(&self) -> usize {
        self.notes.count()
    }

    /// How many changes of names at most could be lost at a time, when all states were looked at. Up to
    /// [`ALL_SUBSETS`], all of their combinations were tried.
    pub fn most_unsynced(&self) -> usize {
        self.most_unsynced.get()
    }

    /// What a file held before the writer wrote.
    pub fn before(&self, path: &Path) -> Option<&Content> {
        self.first.get(path)
    }

    /// Calls `check` with every state after every cut. Returns how many there were.
    ///
    /// # Errors
    /// What `check` said first.
    ///
    /// # Panics
    /// The writer has written nothing.
    pub fn each(&self, check: impl FnMut(&State) -> Result<(), String>) -> Result<usize, String> {
        let history = self.history();
        assert!(!history.moments.is_empty(), "a writer that writes something");
        let (states, most) = history.each(check)?;
        self.most_unsynced.set(most);
        Ok(states)
    }

    /// Makes the directories as they are in a state, with one of the [`State::variants`] of its files. What the disk
    /// notes is over then.
    ///
    /// # Panics
    /// That cannot be done.
    pub fn lay_out(&self, state: &State, variant: usize) {
        state.lay_out(self.notes.roots(), variant).expect("directories that can be written");
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
    /// The writer has written nothing; a precious file was not there.
    pub fn survives(&self, precious: &[&Path]) -> Result<usize, String> {
        self.survives_but(precious, &|_, _| false)
    }

    /// The same, where some files may hold what `between` says on the way from one content to the other.
    ///
    /// # Errors
    /// The first state in which that is not so.
    ///
    /// # Panics
    /// As [`Self::survives`].
    pub fn survives_but(&self, precious: &[&Path], between: &dyn Fn(&Path, &Content) -> bool) -> Result<usize, String> {
        let end = self.history().end();
        let precious: Vec<(PathBuf, &Content)> = precious
            .iter()
            .map(|path| {
                let above = path.parent().and_then(|above| above.canonicalize().ok());
                let path = above.map_or(path.to_path_buf(), |above| above.join(path.file_name().unwrap_or_default()));
                let content = self.before(&path).expect("a file that was there");
                (path, content)
            })
            .collect();
        let all: BTreeSet<&PathBuf> = self.first.keys().chain(end.keys()).collect();
        let all: Vec<&PathBuf> = all.into_iter().filter(|path| !self.is_hidden(path) && !is_of_journal(path)).collect();
        self.each(|state| {
            for path in &all {
                let may: [Held<'_>; 2] = [self.first.get(*path), end.get(*path)];
                for held in state.held(path) {
                    let is_between = held.is_some_and(|held| between(path, held));
                    if !may.contains(&held) && !is_between {
                        return Err(format!("{} holds {held:?} in {state:?}", path.display()));
                    }
                    if state.is_end && held != may[1] {
                        return Err(format!("in the end {} may still hold {held:?}", path.display()));
                    }
                }
            }
            self.hidden_are_listed(state)?;
            for (path, content) in &precious {
                let whole = |contents: &[Content]| contents.iter().all(|held| held.bytes == content.bytes);
                if !state.files().any(|(_, contents)| whole(contents)) {
                    return Err(format!("what {} held is nowhere in {state:?}", path.display()));
                }
            }
            Ok(())
        })
    }

    /// Whether each hidden name that was not there before has an entry in thaw's journal, whole for sure.
    ///
    /// # Errors
    /// The first one that has none.
    pub fn hidden_are_listed(&self, state: &State) -> Result<(), String> {
        for path in state.paths().filter(|path| !self.first.contains_key(*path)) {
            let Some(hidden) = self.hidden(path) else { continue };
            if !is_listed(state, &hidden) {
                return Err(format!("no entry of the journal for {} in {state:?}", hidden.display()));
            }
        }
        Ok(())
    }

    /// The part of a path, below its root, that ends with the first hidden name.
    fn hidden(&self, path: &Path) -> Option<PathBuf> {
        let root = self.notes.roots().iter().find(|root| path.starts_with(root))?;
        let mut part = root.clone();
        for name in path.strip_prefix(root).ok()? {
            part.push(name);
            if name.as_bytes().starts_with(b".") {
                return Some(part);
            }
        }
        None
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden(path).is_some()
    }
}

/// What each sync of a writer is worth: takes them out, one after the other. Gets for each way to sync how many syncs
/// there were and what the test says. Returns the numbers of those that no state missed, and how many there were.
///
/// # Panics
/// With all of them, the test fails.
pub fn needless_syncs(mut test: impl FnMut(Syncs) -> (usize, Result<usize, String>)) -> (Vec<usize>, usize) {
    let (count, states) = test(Syncs::Kept);
    states.expect("a writer that survives");
    let is_needless = |number: &usize| test(Syncs::Without(*number)).1.is_ok();
    ((0..count).filter(is_needless).collect(), count)
}

/// Entries come and go.
fn is_of_journal(path: &Path) -> bool {
    path.parent().is_some_and(|above| above.file_name() == Some("journal".as_ref()))
}

/// Whether an entry of thaw's journal, whole for sure, names a path.
pub fn is_listed(state: &State, path: &Path) -> bool {
    let name = [b"\"", path.as_os_str().as_bytes(), b"\""].concat();
    state.files().filter(|(path, _)| is_of_journal(path)).any(|(path, contents)| {
        let is_entry = path.extension().is_some_and(|ending| ending == "json");
        let tells = |held: &Content| held.bytes.ends_with(b"}\n") || held.bytes.ends_with(b"}");
        let names = |held: &Content| held.bytes.windows(name.len()).any(|part| part == name);
        is_entry && !contents.is_empty() && contents.iter().all(|content| tells(content) && names(content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::replace::{Existing, Rights, write_whole};

    fn survives(syncs: Syncs, old: Option<&str>) -> (usize, Result<usize, String>) {
        let home = tempfile::tempdir().unwrap();
        // SAFETY: this process has one test, and no other thread that looks at the environment.
        unsafe { std::env::set_var("THAW_STATE_DIR", home.path().join("state")) };
        let file = home.path().join("report");
        if let Some(old) = old {
            std::fs::write(&file, old).unwrap();
        }
        let disk = Disk::of(&[home.path()], syncs);
        disk.run(|| write_whole(&file, b"the new one", Rights::Usual, Existing::Replace)).unwrap();
        (disk.syncs(), disk.survives(&[]))
    }

    #[test]
    fn a_report_is_the_old_one_or_the_new_one_and_no_sync_is_too_much() {
        for old in [None, Some("the old one")] {
            assert!(survives(Syncs::Kept, old).1.unwrap() > 5);
            survives(Syncs::OfFilesLost, old).1.unwrap_err();
            survives(Syncs::OfDirectoriesLost, old).1.unwrap_err();
            let (needless, count) = needless_syncs(|syncs| survives(syncs, old));
            assert!(needless.is_empty() && count > 3, "{needless:?} of {count}");
        }
        what_goes_past_the_file_system_is_noticed();
        a_state_can_be_laid_out();
    }

    /// Whatever a writer does by itself is not synced, and lost in some states.
    fn what_goes_past_the_file_system_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("gone"), "gone").unwrap();
        std::fs::create_dir(at("old")).unwrap();
        std::fs::write(at("old/inside"), "inside").unwrap();
        let disk = Disk::of(&[home.path()], Syncs::Kept);
        disk.run(|| {
            std::fs::create_dir(at("made")).unwrap();
            std::fs::write(at("made/file"), "all of it").unwrap();
            std::fs::remove_file(at("gone")).unwrap();
            std::fs::rename(at("old"), at("new")).unwrap();
        });
        let mut seen: BTreeMap<&str, BTreeSet<Option<Vec<u8>>>> = BTreeMap::new();
        let names = ["made/file", "gone", "old/inside", "new/inside"];
        disk.each(|state| {
            for name in names {
                let held = state.held(&at(name)).into_iter().map(|held| held.map(|content| content.bytes.to_vec()));
                seen.entry(name).or_default().extend(held);
            }
            Ok(())
        })
        .unwrap();
        let some = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(seen["made/file"], BTreeSet::from([None, some(""), some("all "), some("all of it")]));
        assert_eq!(seen["gone"], BTreeSet::from([None, some("gone")]));
        assert_eq!(
            (&seen["old/inside"], &seen["new/inside"]),
            (&seen["new/inside"], &BTreeSet::from([None, some("inside")]))
        );
    }

    fn a_state_can_be_laid_out() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("directory/file"), "the old one").unwrap();
        std::fs::hard_link(at("directory/file"), at("other")).unwrap();
        std::os::unix::fs::symlink("directory", at("link")).unwrap();
        let before = std::fs::metadata(at("other")).unwrap();
        let disk = Disk::of(&[home.path()], Syncs::Kept);
        disk.run(|| std::fs::remove_file(at("other")).and_then(|()| std::fs::remove_file(at("link")))).unwrap();
        let mut is_first = true;
        disk.each(|state| {
            // The first is the one in which nothing that was done is on the disk.
            if std::mem::take(&mut is_first) {
                disk.lay_out(state, 0);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(std::fs::read(at("link/file")).unwrap(), b"the old one");
        let after = std::fs::metadata(at("other")).unwrap();
        let about = |about: &std::fs::Metadata| (about.nlink(), about.mode(), about.mtime(), about.mtime_nsec());
        assert_eq!(about(&after), about(&before));
        assert_eq!(after.ino(), std::fs::metadata(at("directory/file")).unwrap().ino());
    }
}
