//! Who keeps a file's pages in memory.
//!
//! A page that some process has mapped cannot be evicted, whoever asks. This names the processes that map
//! a file; it does not say which of its pages each of them touched.

use crate::block::mounts::Backing;
use crate::proc::maps::{self, Mapping};
use crate::proc::process;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a process holds a file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grip {
    /// It maps the file.
    Mapped,
    /// It maps the file and locked memory of its own, this mapping included (`mlock`).
    Locked,
}

/// A process that holds a file's pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapper {
    /// The number of the process.
    pub pid: u32,
    /// The name of the process, at most 15 bytes; `?` if it ended meanwhile.
    pub comm: String,
    /// Whether it maps the file or has locked its memory too.
    pub how: Grip,
}

impl std::fmt::Display for Mapper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.how == Grip::Locked { "locked" } else { "mapped" };
        write!(out, "{how} by {} {}", self.pid, self.comm)
    }
}

/// Which processes map each of the files, by number; files that nobody maps, as far as we may see, are not in
/// the answer. One scan of `/proc/*/maps`, however many files. Symbolic links are not followed.
pub fn who_maps(paths: &[&Path]) -> HashMap<PathBuf, Vec<Mapper>> {
    let targets: Vec<Target> = paths.iter().filter_map(|path| Target::of(path)).collect();
    let (found, _) = scan(&targets);
    found.into_iter().map(|(path, holders)| (path.to_owned(), holders)).collect()
}

/// A file whose holders are asked for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) backing: Backing,
}

impl<'a> Target<'a> {
    fn of(path: &'a Path) -> Option<Self> {
        let stat = path.symlink_metadata().ok()?;
        let backing = rustix::fs::statfs(path).map_or(Backing::Disk, |found| Backing::of_magic(found.f_type as u64));
        Some(Self { path, dev: stat.dev(), ino: stat.ino(), backing })
    }
}

/// [`who_maps`], and how many processes we were not allowed to look into.
pub(super) fn scan<'a>(targets: &[Target<'a>]) -> (HashMap<&'a Path, Vec<Mapper>>, u64) {
    let wanted = Wanted::new(targets);
    let mut found: HashMap<&Path, Vec<Mapper>> = HashMap::new();
    let mut unseen = 0;
    for pid in process::all() {
        let maps = match maps::maps(pid) {
            Ok(maps) => maps,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                unseen += 1;
                continue;
            }
            // It ended meanwhile.
            Err(_) => continue,
        };
        let mut held: BTreeMap<&Path, Grip> = BTreeMap::new();
        let mut locked = None;
        for mapping in &maps {
            for path in wanted.matching(mapping) {
                let locked = locked.get_or_insert_with(|| locked_mappings(pid));
                let how = if locked.contains(&mapping.start) { Grip::Locked } else { Grip::Mapped };
                let known = held.entry(path).or_insert(how);
                *known = (*known).max(how);
            }
        }
        if !held.is_empty() {
            let comm = process::comm(pid).unwrap_or_else(|| "?".to_owned());
            for (path, how) in held {
                found.entry(path).or_default().push(Mapper { pid, comm: comm.clone(), how });
            }
        }
    }
    (found, unseen)
}

/// Start addresses of a process's locked mappings. `smaps` is slow, so it is read only for processes that
/// have locked memory at all.
fn locked_mappings(pid: u32) -> Vec<u64> {
    if process::status_value(pid, "VmLck").is_none_or(|locked| locked == "0 kB") {
        return Vec::new();
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut start = 0;
    let mut locked = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if flags.split_ascii_whitespace().any(|flag| flag == "lo") {
                locked.push(start);
            }
        } else if let Some(address) = line.split_once('-').and_then(|(low, _)| u64::from_str_radix(low, 16).ok()) {
            start = address;
        }
    }
    locked
}

/// The files that are looked for, by what a `maps` line says of a file.
struct Wanted<'a> {
    by_inode: HashMap<(u64, u64), Vec<&'a Path>>,
    /// Files whose `maps` lines show other numbers than `stat` does: btrfs (device) and overlayfs (both).
    by_path: HashMap<&'a Path, Vec<&'a Path>>,
}

impl<'a> Wanted<'a> {
    fn new(targets: &[Target<'a>]) -> Self {
        let mut wanted = Self { by_inode: HashMap::new(), by_path: HashMap::new() };
        for target in targets {
            wanted.by_inode.entry((target.dev, target.ino)).or_default().push(target.path);
            if matches!(target.backing, Backing::Stacked | Backing::Volume) {
                wanted.by_path.entry(target.path).or_default().push(target.path);
            }
        }
        wanted
    }

    fn matching(&self, mapping: &Mapping) -> impl Iterator<Item = &'a Path> {
        let by_inode = self.by_inode.get(&(mapping.dev, mapping.ino));
        let by_path = if mapping.deleted { None } else { self.by_path.get(mapping.path.as_path()) };
        by_inode.into_iter().chain(by_path).flatten().copied()
    }
}
