//! The engine that needs no rights: evict the files that the program will probably use, let it run, and
//! ask afterwards which pages are there. It knows neither order nor time nor who asked.
//!
//! What it evicts: the executable, its libraries, the files below the program's directories, what a first start that is
//! not timed was seen to open ([`super::follow`]), and what the processes were seen to use in the run before.

use super::follow::{Followed, Follower};
use super::{Engine, EngineOptions};
use crate::raw::*;
use model::{Bytes, Error, Exit, FileOffset, Nanos, PAGE, Result};
use os::{cache, mapped::Mapped, process, spawn::monotonic_ns};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::Duration,
};

/// No more files than this below the program's directories.
const MOST_FILES: usize = 50_000;
/// Pauses between looks at the processes: short at first, then longer.
const FIRST_NAP: Duration = Duration::from_millis(5);
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// Evict, run, probe.
pub(super) struct ProbeEngine {
    /// Files to evict, by path.
    candidates: BTreeSet<PathBuf>,
    /// What could not be helped in the last run.
    doubts: Vec<String>,
    /// Why nobody could follow the first start, and what that did not see.
    unseen: Vec<String>,
    /// Waits for the start that is looked at first.
    follower: Option<Follower>,
    /// The next start is that one.
    first: bool,
    running: Option<Running>,
}

/// A run that is being looked at.
struct Running {
    pid: u32,
    evicted: Vec<Evicted>,
    follower: Option<Follower>,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Seen>,
}

/// A file that was evicted before the run.
struct Evicted {
    path: PathBuf,
    inode: Inode,
    /// What stayed in the cache all the same; `None`: the kernel does not tell us.
    stayed: Option<Vec<(FileOffset, Bytes)>>,
}

/// What the sampling thread saw.
#[derive(Default)]
struct Seen {
    files: BTreeMap<PathBuf, Inode>,
    maps: Vec<RawMmap>,
    known_maps: HashSet<(u32, Inode, u64)>,
    processes: BTreeMap<u32, RawProcess>,
}

impl ProbeEngine {
    /// Gathers the files that the program will probably use.
    pub(super) fn open(options: &EngineOptions) -> Result<Self> {
        let mut candidates = BTreeSet::new();
        options.app_dirs.iter().for_each(|directory| add_files(directory, &mut candidates));
        let programs: Vec<PathBuf> =
            candidates.iter().filter(|file| is_elf(file)).chain(&options.program).cloned().collect();
        add_libraries(programs, &mut candidates);
        let mut unseen = Vec::new();
        let follower = Follower::start().map_err(|error| unseen.push(not_followed(&error))).ok();
        Ok(Self { candidates, doubts: Vec::new(), unseen, follower, first: false, running: None })
    }
}

impl Engine for ProbeEngine {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn cannot(&self) -> Vec<String> {
        let mut cannot: Vec<String> = [
            "in which order and when files were read: only what is in the cache after the run",
            "which process or thread read a page, and why: what was requested and what was read ahead look the same",
            "what was read of the file system's metadata",
            "block requests: their number, place and latency, and so seeks and the time that they took",
            "pages that another user's program keeps mapped: they stay in the cache and count as read",
            "pages that another program read during the run: they count as this program's",
            "fsyncs, and how often files were opened",
        ]
        .map(String::from)
        .into();
        cannot.extend(self.unseen.iter().chain(&self.doubts).cloned());
        cannot
    }

    fn looks_first(&mut self) -> bool {
        // A program is started in its place only once: each variant's first start needs a follower of its own.
        if self.follower.is_none() {
            self.follower = Follower::start().ok();
        }
        self.first = self.follower.is_some();
        self.first
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        let evicted = evict_all(&self.candidates);
        if evicted.is_empty() {
            let what = "none of the program's files can be evicted from the page cache";
            return Err(Error::new(Exit::Machine, what, "").hint("name its directories, or run as root"));
        }
        let mut follower = self.follower.take_if(|_| std::mem::take(&mut self.first));
        if let Some(Err(error)) = follower.as_mut().map(|follower| follower.attach(pid)) {
            self.unseen.push(not_followed(&error));
            follower = None;
        }
        let (stop, told) = mpsc::channel();
        let began = monotonic_ns();
        let thread =
            std::thread::Builder::new()
                .name("thaw-sampler".into())
                .spawn(move || sample(pid, began, &told))
                .map_err(|error| Error::new(Exit::Machine, "cannot start a thread", "thaw-sampler").because(error))?;
        self.running = Some(Running { pid, evicted, follower, stop, thread });
        Ok(())
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<RawTrace> {
        let running =
            self.running.take().ok_or_else(|| Error::bug("the probe engine was stopped without being attached"))?;
        // A closed channel says the same: the thread ends.
        let _ = running.stop.send(());
        let mut seen = running.thread.join().map_err(|_| Error::bug("the sampling thread panicked"))?;
        if let Some(follower) = running.follower {
            match follower.finish() {
                Ok(followed) => self.take_in(followed, &mut seen),
                Err(error) => self.unseen.push(not_followed(&error)),
            }
        }
        let sees = Sees { asks: false, blocks: false };
        let mut raw = RawTrace { sees, t0_monotonic_ns, ..RawTrace::default() };
        let (mut gone, mut unknown) = (0, 0);
        for file in &running.evicted {
            unknown += u64::from(file.stayed.is_none());
            match probe(file) {
                Ok(ranges) => add_fills(&mut raw, running.pid, file, &ranges),
                Err(_) => gone += 1,
            }
        }
        self.doubts = doubts(gone, unknown, &seen, &running.evicted);
        self.candidates.extend(seen.files.keys().cloned());
        raw.names.extend(seen.files.into_iter().map(|(path, inode)| (inode, path)));
        raw.mmaps = seen.maps.into_iter().map(|map| RawMmap { at: since(map.at, t0_monotonic_ns), ..map }).collect();
        let started = |process: RawProcess| RawProcess { start: since(process.start, t0_monotonic_ns), ..process };
        raw.processes = seen.processes.into_values().map(started).collect();
        raw.info.engine = self.name().into();
        raw.info.records = raw.fills.len() as u64;
        raw.info.cannot = self.cannot();
        Ok(raw)
    }
}

impl ProbeEngine {
    /// What was opened, though nobody may have it open any more.
    fn take_in(&mut self, followed: Followed, seen: &mut Seen) {
        self.unseen.extend(followed.doubts);
        for path in followed.files {
            if let Some(metadata) = path.symlink_metadata().ok().filter(|metadata| metadata.is_file()) {
                seen.files.insert(path, Inode { dev: metadata.dev(), ino: metadata.ino() });
            }
        }
    }
}

/// What is missing without the first look.
fn not_followed(error: &io::Error) -> String {
    format!("files that a process has open for a moment only: it could not be followed with ptrace ({error})")
}

/// A sample's absolute time as time since the start.
fn since(at: Nanos, t0: u64) -> Nanos {
    Nanos(at.0.saturating_sub(t0))
}

/// What went wrong with this run's files, as sentences.
fn doubts(gone: u64, unknown: u64, seen: &Seen, evicted: &[Evicted]) -> Vec<String> {
    let known: HashSet<Inode> = evicted.iter().map(|file| file.inode).collect();
    let late = seen.files.values().filter(|inode| !known.contains(inode)).count();
    let mut doubts = Vec::new();
    if gone > 0 {
        doubts.push(format!("what was read of {gone} files that could not be probed after the run"));
    }
    if unknown > 0 {
        doubts.push(format!(
            "which pages of {unknown} files were in the cache before: the kernel tells only their owner"
        ));
    }
    if late > 0 {
        doubts.push(format!(
            "what was read of {late} files that the program was seen to use but that were not evicted before: \
             the next run of this recording will evict them"
        ));
    }
    doubts
}

/// Pages that came in: those that are there now without those that had stayed.
fn add_fills(raw: &mut RawTrace, pid: u32, file: &Evicted, ranges: &[(FileOffset, Bytes)]) {
    raw.names.push((file.inode, file.path.clone()));
    for (first, pages) in without(ranges, file.stayed.as_deref().unwrap_or_default()) {
        let span = Span { first, pages };
        raw.fills.push(RawFill { at: Nanos(0), pid, tid: pid, inode: file.inode, span });
    }
}

/// Page ranges (first, number) of `now` that are not in `before`; both sorted and disjoint.
fn without(now: &[(FileOffset, Bytes)], before: &[(FileOffset, Bytes)]) -> Vec<(u64, u64)> {
    let pages = |(start, len): &(FileOffset, Bytes)| (start.0 / PAGE, (start.0 + len.0).div_ceil(PAGE));
    let mut left = Vec::new();
    for (mut start, end) in now.iter().map(pages) {
        for (taken, behind) in before.iter().map(pages) {
            if taken >= end || behind <= start {
                continue;
            }
            if taken > start {
                left.push((start, taken - start));
            }
            start = start.max(behind);
        }
        if start < end {
            left.push((start, end - start));
        }
    }
    left
}

fn inode_of(file: &File) -> io::Result<(Inode, u64)> {
    let metadata = file.metadata()?;
    Ok((Inode { dev: metadata.dev(), ino: metadata.ino() }, metadata.len()))
}

/// Evicts all candidates; files that cannot be opened are left out.
fn evict_all(candidates: &BTreeSet<PathBuf>) -> Vec<Evicted> {
    let mut known = HashSet::new();
    let mut evicted = Vec::new();
    for path in candidates {
        let Ok(path) = path.canonicalize() else { continue };
        let Ok(file) = cache::open_quietly(&path) else { continue };
        let Ok((inode, size)) = inode_of(&file) else { continue };
        if size == 0 || !known.insert(inode) || cache::evict(&file).is_err() {
            continue;
        }
        evicted.push(Evicted { path, inode, stayed: stayed(&file, Bytes(size)) });
    }
    evicted
}

/// What is still in the cache. A map that would bring the file in is not made.
fn stayed(file: &File, size: Bytes) -> Option<Vec<(FileOffset, Bytes)>> {
    let residency = cache::residency(file, FileOffset(0), size).ok()?;
    if residency.resident == 0 {
        return Some(Vec::new());
    }
    let map = cache::resident_pages(file, size).ok()?;
    (!map.destructive()).then_some(map.ranges)
}

/// What is in the cache after the run; the file must still be the same one.
fn probe(file: &Evicted) -> io::Result<Vec<(FileOffset, Bytes)>> {
    let open = cache::open_quietly(&file.path)?;
    let (inode, size) = inode_of(&open)?;
    if inode != file.inode {
        return Err(io::ErrorKind::NotFound.into());
    }
    cache::probe(&open, Bytes(size))
}

/// Regular files below a directory, without following links.
fn add_files(directory: &Path, into: &mut BTreeSet<PathBuf>) {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() && into.len() < MOST_FILES => {
                    into.insert(entry.path());
                }
                _ => {}
            }
        }
    }
}

fn is_elf(path: &Path) -> bool {
    use std::os::unix::fs::FileExt;
    let mut magic = [0_u8; 4];
    File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0)).is_ok() && magic == *b"\x7fELF"
}

/// These programs and libraries, their interpreters, and all libraries that they name.
fn add_libraries(mut waiting: Vec<PathBuf>, into: &mut BTreeSet<PathBuf>) {
    let directories = library_directories();
    let mut seen = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let Ok(path) = path.canonicalize() else { continue };
        let Some(bytes) = File::open(&path).ok().and_then(|file| Mapped::of(&file)) else { continue };
        if !seen.insert(path.clone()) {
            continue;
        }
        into.insert(path.clone());
        waiting.extend(script_interpreter(&bytes));
        waiting.extend(elf::interpreter(&bytes));
        let paths = elf::run_paths(&bytes);
        let own = paths.rpath.iter().chain(&paths.runpath).map(|directory| origin(directory, &path));
        let places: Vec<PathBuf> = own.chain(directories.iter().cloned()).collect();
        for name in elf::needed(&bytes) {
            let fits = |place: &PathBuf| Some(place.join(&name)).filter(|library| same_machine(library, &bytes));
            waiting.extend(places.iter().find_map(fits));
        }
    }
}

/// `#!/bin/sh -e` is `/bin/sh`.
fn script_interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_whitespace().next().map(PathBuf::from)
}

/// A run path with `$ORIGIN` replaced by the directory of the file that has it.
fn origin(directory: &str, file: &Path) -> PathBuf {
    let own = file.parent().map(model::shown).unwrap_or_default();
    PathBuf::from(directory.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
}

/// Whether both are ELF files of the same class and machine.
fn same_machine(library: &Path, bytes: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let mut head = [0_u8; 20];
    let read = File::open(library).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && bytes.len() >= 20 && head[..5] == bytes[..5] && head[18..20] == bytes[18..20]
}

/// Where the dynamic linker looks: `/etc/ld.so.conf` and its parts, then the usual directories.
fn library_directories() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    let parts = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(parts);
    let mut directories: Vec<PathBuf> = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().map(str::trim).map(String::from).collect::<Vec<_>>())
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
        .collect();
    directories.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    directories
}

/// Looks at the processes again and again until told to stop.
fn sample(root: u32, began: u64, stop: &mpsc::Receiver<()>) -> Seen {
    let mut seen = Seen::default();
    seen.processes.insert(root, RawProcess { pid: root, start: Nanos(began), ..RawProcess::default() });
    let mut nap = FIRST_NAP;
    loop {
        let stopping = !matches!(stop.recv_timeout(nap), Err(RecvTimeoutError::Timeout));
        nap = (nap * 2).min(LONGEST_NAP);
        for pid in std::iter::once(root).chain(process::descendants(root)) {
            look_at(pid, &mut seen);
        }
        if stopping {
            return seen;
        }
    }
}

/// One look at one process: its name, what it maps, what it holds open.
fn look_at(pid: u32, seen: &mut Seen) {
    let now = Nanos(monotonic_ns());
    let Some(stat) = process::stat(pid) else { return };
    let row = seen.processes.entry(pid).or_insert_with(|| RawProcess { pid, start: now, ..RawProcess::default() });
    row.parent = stat.parent;
    row.comm = stat.comm;
    if let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) {
        row.exe = Some(exe);
    }
    for map in process::maps(pid).unwrap_or_default() {
        let inode = Inode { dev: map.dev, ino: map.ino };
        if map.deleted || !map.path.is_absolute() || !seen.known_maps.insert((pid, inode, map.offset)) {
            continue;
        }
        seen.maps.push(RawMmap {
            at: now,
            pid,
            inode,
            path: map.path.clone(),
            offset: map.offset,
            len: Bytes(map.end - map.start),
            exec: map.permissions.contains('x'),
        });
        seen.files.insert(map.path, inode);
    }
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        if let (Ok(path), Ok(metadata)) = (std::fs::read_link(entry.path()), std::fs::metadata(entry.path()))
            && metadata.is_file()
            && path.is_absolute()
        {
            seen.files.insert(path, Inode { dev: metadata.dev(), ino: metadata.ino() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages drawn as `#` as byte ranges.
    fn ranges(picture: &str) -> Vec<(FileOffset, Bytes)> {
        let mut found: Vec<(FileOffset, Bytes)> = Vec::new();
        for (page, _) in picture.char_indices().filter(|(_, mark)| *mark == '#') {
            let start = page as u64 * PAGE;
            match found.last_mut() {
                Some((first, len)) if first.0 + len.0 == start => len.0 += PAGE,
                _ => found.push((FileOffset(start), Bytes(PAGE))),
            }
        }
        found
    }

    fn left(now: &str, before: &str) -> String {
        let mut picture = vec![' '; now.len()];
        for (first, pages) in without(&ranges(now), &ranges(before)) {
            picture[first as usize..(first + pages) as usize].fill('#');
        }
        picture.into_iter().collect()
    }

    #[test]
    fn what_had_stayed_in_the_cache_does_not_count() {
        assert_eq!(left("#### ###", "        "), "#### ###");
        assert_eq!(left("########", "  ##    "), "##  ####");
        assert_eq!(left("### ####", "#  #  # "), " ## ## #");
        assert_eq!(left("   ##   ", "########"), "        ");
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(script_interpreter(b"#!/bin/sh -e\ntrue\n"), Some("/bin/sh".into()));
        assert_eq!(script_interpreter(b"#! /usr/bin/env python3"), Some("/usr/bin/env".into()));
        assert_eq!(script_interpreter(b"\x7fELF"), None);
        assert_eq!(script_interpreter(b"#!\n"), None);
    }

    #[test]
    fn run_paths_may_start_at_the_file() {
        assert_eq!(origin("$ORIGIN/../lib", Path::new("/opt/app/bin/app")), Path::new("/opt/app/bin/../lib"));
        assert_eq!(origin("${ORIGIN}", Path::new("/opt/app/app")), Path::new("/opt/app"));
    }
}
