//! All states that a disk may be in after a power cut.

use super::content::{Content, Id};
use super::notes::{Call, Moment, Name, Notes};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// With more calls than this that are not synced, not all of their combinations are tried.
pub const ALL_SUBSETS: usize = 12;
/// So many of them are then, beside every prefix, each one alone, and all but each one.
const SOME_SUBSETS: u64 = 300;

/// A path, the file that has it, and all that this may hold.
type Held = BTreeMap<PathBuf, (Id, Vec<Content>)>;

/// What a disk may be after a power cut.
#[derive(Debug)]
pub struct State {
    files: Held,
    directories: BTreeMap<PathBuf, u32>,
    /// How many of the writer's steps were done before the cut, from 1.
    pub steps: usize,
    /// Whether the writer was done.
    pub is_end: bool,
}

impl State {
    /// What a path may hold; `None`: nothing is there.
    pub fn held(&self, path: &Path) -> Vec<Option<&Content>> {
        self.files.get(path).map_or_else(|| vec![None], |(_, contents)| contents.iter().map(Some).collect())
    }

    /// All files and links.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// All files and links with what they may hold.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &[Content])> {
        self.files.iter().map(|(path, (_, contents))| (path, contents.as_slice()))
    }

    /// Among how many contents the least certain file may be found.
    pub fn variants(&self) -> usize {
        self.files.values().map(|(_, contents)| contents.len()).max().unwrap_or(1)
    }

    /// What all files hold in one of the variants, by path.
    pub fn variant(&self, number: usize) -> BTreeMap<&PathBuf, &Content> {
        let chosen = |(_, contents): &'_ &(Id, Vec<Content>)| number.min(contents.len() - 1);
        self.files.iter().map(|(path, held)| (path, &held.1[chosen(&held)])).collect()
    }

    /// Makes the directories look as after this power cut: one file per inode, with all its names.
    pub(super) fn lay_out(&self, roots: &[PathBuf], number: usize) -> io::Result<()> {
        for root in roots {
            for entry in std::fs::read_dir(root)? {
                let path = entry?.path();
                match path.symlink_metadata()?.is_dir() {
                    true => std::fs::remove_dir_all(path)?,
                    false => std::fs::remove_file(path)?,
                }
            }
        }
        for path in self.directories.keys() {
            std::fs::create_dir(path)?;
        }
        let mut first: BTreeMap<Id, &PathBuf> = BTreeMap::new();
        for (path, content) in self.variant(number) {
            let id = self.files[path].0;
            match first.get(&id) {
                Some(other) => std::fs::hard_link(other, path)?,
                None => content.write(path)?,
            }
            first.entry(id).or_insert(path);
        }
        // Innermost first: one that nobody may write to can be filled no more.
        for (path, mode) in self.directories.iter().rev() {
            std::fs::set_permissions(path, Permissions::from_mode(*mode))?;
        }
        Ok(())
    }
}

/// What a disk held at first, and what was done since.
pub(super) struct History<'n> {
    pub(super) notes: &'n Notes,
    pub(super) before: &'n BTreeMap<Name, Id>,
    pub(super) moments: Vec<Moment>,
}

impl History<'_> {
    /// Calls `check` with every state; how many there were, and how many calls at most were not synced at a time.
    pub(super) fn each(&self, mut check: impl FnMut(&State) -> Result<(), String>) -> Result<(usize, usize), String> {
        let (mut states, mut most) = (0, 0);
        for end in 1..=self.moments.len() {
            let calls: Vec<&Call> = self.moments[..end].iter().flat_map(|moment| &moment.calls).collect();
            let open: Vec<usize> = (0..calls.len()).filter(|index| is_open(&calls, *index)).collect();
            most = most.max(open.len());
            for kept in subsets(open.len()) {
                let mut names = self.before.clone();
                for (index, call) in calls.iter().enumerate() {
                    match (open.binary_search(&index), call) {
                        (Ok(place), _) if !kept[place] => {}
                        // Writing one directory promises nothing of the other: it may be all of the move that is on
                        // the disk.
                        (Err(_), Call::Leave(from, _, _)) => Call::Remove(from.clone()).act(&mut names),
                        _ => call.act(&mut names),
                    }
                }
                check(&self.state(&names, end))?;
                states += 1;
            }
        }
        Ok((states, most))
    }

    /// What all paths hold in the end, as programs see it.
    pub(super) fn end(&self) -> BTreeMap<PathBuf, Content> {
        let Some(last) = self.moments.last() else { return BTreeMap::new() };
        let (files, _) = self.resolve(&self.notes.names(), last);
        let seen = |id: &Id| last.seen.get(id).or(last.synced.get(id)).cloned();
        files.into_iter().filter_map(|(path, (id, _))| Some((path, seen(&id)?))).collect()
    }

    /// What has which path, by these names, after so many moments.
    fn state(&self, names: &BTreeMap<Name, Id>, end: usize) -> State {
        let (files, directories) = self.resolve(names, &self.moments[end - 1]);
        State { files, directories, steps: end, is_end: end == self.moments.len() }
    }

    fn resolve(&self, names: &BTreeMap<Name, Id>, now: &Moment) -> (Held, BTreeMap<PathBuf, u32>) {
        let (mut files, mut directories) = (BTreeMap::new(), BTreeMap::new());
        let mut todo: Vec<(PathBuf, Id)> = self.notes.root_ids();
        while let Some((path, id)) = todo.pop() {
            let inside = names.range((id, OsString::new())..).take_while(|((above, _), _)| *above == id);
            for ((_, name), id) in inside {
                let (path, may) = (path.join(name), may_hold(now, *id));
                if let Some(mode) = self.notes.directory_mode(*id) {
                    directories.insert(path.clone(), mode);
                    todo.push((path, *id));
                } else if !may.is_empty() {
                    files.insert(path, (*id, may));
                }
            }
        }
        (files, directories)
    }
}

/// Whether a change of names may still be lost.
fn is_open(calls: &[&Call], index: usize) -> bool {
    let lasts = |directory: Id| {
        calls[index..].iter().any(|call| match call {
            Call::SyncDirectory(id) => *id == directory,
            Call::SyncEverything(device) => *device == directory.0,
            _ => false,
        })
    };
    calls[index].directory().is_some_and(|directory| !lasts(directory))
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

/// What is synced is certain; what was written since may be there in part.
fn may_hold(now: &Moment, id: Id) -> Vec<Content> {
    let (synced, seen) = (now.synced.get(&id), now.seen.get(&id));
    let mut may: Vec<Content> = synced.cloned().into_iter().collect();
    if let Some(seen) = seen.filter(|seen| synced != Some(seen)) {
        may.extend(seen.unsure());
    }
    may
}
