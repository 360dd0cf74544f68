//! Which files there are, in which order they are loaded, and what is done to those that are not current.

use crate::files::{self, CLEAN, CURRENT, Missing, PREVIOUS, Start, UPGRADE};
use crate::item::Item;
use crate::shared::now_ms;
use crate::tree::Tree;
use std::io;
use thaw_log::book::{self, Book, DAMAGED};
use thaw_log::disk::Disk;
use thaw_log::frame::Head;

/// So many files of other versions of the application are kept.
const UPGRADES: usize = 3;
/// At the end of the name of what is being written.
const NEW: &str = ".new";

/// What was loaded, and what could not be.
pub struct Loading {
    /// The file.
    pub name: Option<String>,
    /// Its head.
    pub head: Head,
    /// What is visible of it; `None`: `tree` is all that is readable.
    pub start: Option<Start>,
    /// All of it.
    pub tree: Tree,
    /// Not all of it could be read.
    pub damaged: bool,
    /// What is missing.
    pub missing: Missing,
    /// The greatest generation that was seen.
    pub generation: u64,
    /// The first error of the disk.
    pub error: Option<io::Error>,
}

impl Default for Loading {
    fn default() -> Loading {
        let head = Head { kind: files::KIND, generation: 0, made_ms: 0, salt: 0, label: Vec::new() };
        Loading {
            name: None,
            head,
            start: None,
            tree: Tree::new(false),
            damaged: false,
            missing: Missing::default(),
            generation: 0,
            error: None,
        }
    }
}

fn upgrades(disk: &dyn Disk, files: &[(String, u64)]) -> io::Result<Vec<(u64, String)>> {
    let mut all = Vec::new();
    let names = files.iter().map(|file| &file.0);
    for name in names.filter(|name| name.starts_with(UPGRADE) && !name.ends_with(NEW) && !name.contains(DAMAGED)) {
        // One that cannot be read is looked at first, and set aside.
        all.push((files::head(disk, name)?.map_or(u64::MAX, |head| head.generation), name.clone()));
    }
    all.sort();
    all.reverse();
    Ok(all)
}

/// Loads the first that can be: current, previous, clean, the files of other versions by their age. After a clean end
/// there is no current and no previous one.
pub fn load(disk: &dyn Disk) -> Loading {
    let mut loading = Loading::default();
    if let Err(error) = try_load(disk, &mut loading) {
        loading.error.get_or_insert(error);
    }
    loading
}

fn try_load(disk: &dyn Disk, loading: &mut Loading) -> io::Result<()> {
    let files = disk.list()?;
    for (name, _) in files.iter().filter(|(name, _)| name.ends_with(NEW)) {
        // Half-written by a process that was killed.
        disk.unlink(name)?;
    }
    let there = |name: &str| files.iter().find(|file| file.0 == name);
    for name in [CURRENT, PREVIOUS, CLEAN] {
        if let Some((name, len)) = there(name)
            && try_file(disk, name, *len, loading)?
        {
            return Ok(());
        }
    }
    for (_, name) in upgrades(disk, &files)? {
        if let Some((name, len)) = there(&name)
            && try_file(disk, name, *len, loading)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// What could be read of a file.
enum Read {
    First(Start),
    Parts(Head, Tree, Missing),
    Nothing,
}

/// `true`: it is loaded.
fn try_file(disk: &dyn Disk, name: &str, len: u64, loading: &mut Loading) -> io::Result<bool> {
    let read = || match files::first(disk, name, len)? {
        Some(start) => Ok(Read::First(start)),
        None => Ok(files::salvage(disk, name)?.map_or(Read::Nothing, |(head, tree, missing)| {
            if tree.items.is_empty() { Read::Nothing } else { Read::Parts(head, tree, missing) }
        })),
    };
    let read = read().unwrap_or_else(|error: io::Error| {
        loading.error.get_or_insert(error);
        Read::Nothing
    });
    match read {
        Read::First(start) => {
            loading.head = start.head.clone();
            loading.start = Some(start);
        }
        Read::Parts(head, tree, missing) => {
            (loading.head, loading.tree, loading.damaged) = (head, tree, true);
            let files = std::mem::take(&mut loading.missing.files);
            loading.missing = Missing { files, ..missing };
        }
        Read::Nothing => {
            loading.missing.files.push(book::move_aside(disk, name)?);
            return Ok(false);
        }
    }
    loading.generation = loading.generation.max(loading.head.generation);
    loading.name = Some(name.into());
    Ok(true)
}

/// Keeps a copy of a file that another version of the application has written, and no more than three.
///
/// # Errors
/// The disk.
pub fn keep_upgrade(disk: &dyn Disk, name: &str, version: &str) -> io::Result<()> {
    let (to, beside) = (format!("{UPGRADE}{version}"), format!("{UPGRADE}{version}{NEW}"));
    if to == name {
        return Ok(());
    }
    let len = disk.about(name)?.map_or(0, |about| about.len);
    let mut bytes = vec![0; len as usize];
    let read = disk.read(name, 0, &mut bytes)?;
    let write = || -> io::Result<()> {
        disk.write(&beside, 0, &[&bytes[..read]])?;
        disk.sync(&beside)?;
        disk.rename(&beside, &to)?;
        disk.sync_names()
    };
    write().inspect_err(|_| drop(disk.unlink(&beside)))?;
    for (_, old) in upgrades(disk, &disk.list()?)?.into_iter().skip(UPGRADES) {
        disk.unlink(&old)?;
    }
    disk.sync_names()
}

/// Takes items out of all files but the current one: they are written anew. One of which nothing is readable goes.
///
/// # Errors
/// The disk.
pub fn purge(disk: &dyn Disk, is_so: &dyn Fn(&Item) -> bool) -> io::Result<()> {
    for (name, _) in disk.list()? {
        let upgrade = name.starts_with(UPGRADE) && !name.contains(DAMAGED);
        if !upgrade && name != PREVIOUS && name != CLEAN {
            continue;
        }
        let Some((mut head, mut tree, _)) = files::salvage(disk, &name)? else {
            disk.unlink(&name)?;
            continue;
        };
        tree.adopt_orphans(now_ms());
        tree.remove_all(is_so);
        let salt = std::mem::take(&mut head.salt);
        let state = files::state(&tree, &head, &mut |spot| files::payload(disk, &name, salt, spot))?;
        let parts: Vec<&[u8]> = state.contents.iter().map(|content| &content[..]).collect();
        Book::new(&name).replace(disk, head, &parts)?;
    }
    disk.sync_names()
}

/// Removes what was set aside: nobody knows what is in it.
///
/// # Errors
/// The disk.
pub fn drop_damaged(disk: &dyn Disk) -> io::Result<()> {
    for (name, _) in disk.list()?.iter().filter(|(name, _)| name.contains(DAMAGED)) {
        disk.unlink(name)?;
    }
    disk.sync_names()
}
