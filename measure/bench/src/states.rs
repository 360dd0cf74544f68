//! Brings the caches into a state and proves it by residency. `docs/cache-states.md` defines the states.
//!
//! Looking at a file's pages needs the file open, and opening it brings its inode and the directories above it into
//! memory: a proof that is made last would spoil what it proves. So the files are opened first; then the caches are
//! emptied; then residency is read through the open descriptors; then they are closed, and the caches are emptied once
//! more of what the descriptors held.

use crate::base::BaseList;
use crate::conduct::{Prepared, Tick, Verdict};
use model::{Bytes, CacheState, Error, Exit, FileKind, FileOffset, Need, Owner, PAGE, ResidencyRow, Result, RunRow};
use model::{Warning, WarningKind};
use os::cache::Residency;
use os::cgroup::{Ability, RunCgroup};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `cold`: at most this share of all needed bytes may be resident.
pub const COLD_LIMIT: f64 = 0.05;

/// `boot`, `app`: at most this share of the program's own needed bytes may be resident.
pub const OWN_LIMIT: f64 = 0.01;

/// `boot`, `app`, `hot`: at least this share of what shall be resident must be.
pub const WARM_LIMIT: f64 = 0.99;

/// `hot`: a run that read more from the disk than this share of what a start needs was not hot, ...
pub const HOT_READ_SHARE: f64 = 0.01;

/// ... unless that is less than this: a start that writes reads some metadata of the file system.
pub const HOT_READ_FLOOR: Bytes = Bytes(256 << 10);

/// `hot`, where nobody can tell what a run read: as many faults that waited for the disk.
pub const HOT_FAULTS: u64 = 64;

/// `cold`, `boot`, `app`: a run that read less than this share of what was needed and not in memory was not cold.
pub const COLD_READ_SHARE: f64 = 0.5;

/// Below it read-ahead alone makes the difference.
const COLD_READ_FLOOR: Bytes = Bytes(1 << 20);

/// Own files that stay in memory before a start that is to tell what is needed: from here on it is worth a warning.
const WORTH_SAYING: Bytes = Bytes(1_000_000);

/// Descriptors that are left for everything else while the needs are open.
const SPARE_FILES: usize = 200;

/// Files that a message names at most.
const NAMED: usize = 5;

/// What a state is made of.
pub(crate) struct Scene<'a> {
    /// The group that all runs happen in.
    pub cgroup: Option<&'a RunCgroup>,
    /// What a start needs, if that is known.
    pub needs: Option<&'a [Need]>,
    /// The program's own directories: what to evict while the needs are not known.
    pub dirs: &'a [PathBuf],
    /// What a session has warmed; `None`: the shared libraries among the system's needs.
    pub base: Option<&'a [PathBuf]>,
    /// The last thing that happened to the caches was a start of this very program.
    pub warmed: bool,
}

/// What a run will have to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// What a start needs of files.
    pub needed: Bytes,
    /// How much of it is not in memory, of files that lie on their disk byte for byte.
    pub absent: Bytes,
}

impl Expected {
    /// By the residency that was found.
    pub fn of(prepared: &Prepared, needs: Option<&[Need]>) -> Self {
        let mounts = os::mounts::Mounts::load();
        // Where a file system packs its files, what is read from the disk is less than what comes into memory.
        let plain = |path: &Path| {
            let mount = mounts.as_ref().ok().and_then(|mounts| mounts.of_path(path));
            mount.is_some_and(|mount| matches!(mount.fstype.as_str(), "ext2" | "ext3" | "ext4" | "xfs"))
        };
        let regular = needs.unwrap_or_default().iter().filter(|need| need.kind == FileKind::Regular);
        let files: HashSet<&Path> = regular.map(|need| need.path.as_path()).collect();
        let rows = prepared.residency.iter().filter(|row| files.contains(row.path.as_path()));
        rows.fold(Self::default(), |sum, row| {
            let absent = if plain(&row.path) { row.needed - row.resident } else { Bytes(0) };
            Self { needed: sum.needed + row.needed, absent: sum.absent + absent }
        })
    }
}

/// Why a run cannot have been in the state that it was prepared for, by what it read. `None`: nothing speaks against
/// it.
pub(crate) fn contradiction(state: CacheState, expected: Expected, row: &RunRow) -> Option<String> {
    if expected.needed == Bytes(0) {
        return None;
    }
    if state != CacheState::Hot {
        let least = Bytes((expected.absent.0 as f64 * COLD_READ_SHARE) as u64);
        let read = row.read_bytes.filter(|read| *read < least && least > COLD_READ_FLOOR)?;
        let absent = expected.absent;
        return Some(format!(
            "{absent} that a start needs were not in memory, and it read only {read}: somebody else read them meanwhile"
        ));
    }
    let most = HOT_READ_FLOOR.max(Bytes((expected.needed.0 as f64 * HOT_READ_SHARE) as u64));
    match row.read_bytes {
        Some(read) => (read > most).then(|| {
            let faults = row.major_faults;
            format!(
                "it read {read} from the disk with {faults} page faults that waited for it; a hot start may read {most}"
            )
        }),
        None => (row.major_faults > HOT_FAULTS).then(|| {
            format!("{} page faults waited for the disk; a hot start may have {HOT_FAULTS}", row.major_faults)
        }),
    }
}

/// Says now and then how long a step takes, and notices that the user wants to stop.
pub(crate) struct Beat<'a> {
    since: Instant,
    last: Instant,
    tick: Tick<'a>,
    listens: bool,
}

/// How often [`Beat`] passes a tick on.
const TICK: Duration = Duration::from_millis(500);

impl<'a> Beat<'a> {
    pub fn new(tick: Tick<'a>) -> Self {
        Self { since: Instant::now(), last: Instant::now(), tick, listens: true }
    }

    /// Of what must be done though Ctrl-C was typed.
    pub fn to_the_end(tick: Tick<'a>) -> Self {
        Self { listens: false, ..Self::new(tick) }
    }

    /// Whether Ctrl-C is heard.
    pub fn listens(&self) -> bool {
        self.listens
    }

    pub fn beat(&mut self) -> Result<()> {
        if self.last.elapsed() >= TICK {
            self.last = Instant::now();
            (self.tick)(self.since.elapsed());
        }
        if self.listens { os::interrupt::check() } else { Ok(()) }
    }
}

/// Brings the caches into a state.
pub(crate) fn prepare(
    scene: &Scene<'_>,
    files: OpenNeeds<'_>,
    state: CacheState,
    beat: &mut Beat<'_>,
) -> Result<Prepared> {
    beat.beat()?;
    match state {
        CacheState::Cold => cold(scene, files),
        CacheState::Boot => boot(scene, files, beat),
        CacheState::App => app(scene, files, beat),
        CacheState::Hot => hot(scene, files, beat),
    }
}

fn cold(scene: &Scene<'_>, files: OpenNeeds<'_>) -> Result<Prepared> {
    let rows = drop_everything(files)?;
    if scene.needs.is_none() {
        let warnings = what_will_not_be_learned(scene.dirs)?;
        return Ok(Prepared { warnings, ..prepared(rows, Verdict::Unproven) });
    }
    let verdict = match share(&rows, |_| true).unwrap_or(0.0) {
        share if share <= COLD_LIMIT => Verdict::InState,
        _ => Verdict::NotInState(stays(&rows, |_| true, COLD_LIMIT)),
    };
    let mut prepared = prepared(rows, verdict);
    prepared.warnings.extend(remainder(&prepared.residency));
    Ok(prepared)
}

/// A start that is to tell what is needed does not read what somebody else holds in memory: that is not learned, and
/// what is not learned is not proven. Looking at the program's directories brings their metadata into memory, so it is
/// dropped again.
fn what_will_not_be_learned(dirs: &[PathBuf]) -> Result<Vec<Warning>> {
    let held = os::cache::list_resident(dirs).files;
    let rows =
        held.into_iter().map(|file| ResidencyRow { path: file.path, needed: file.size, resident: file.resident });
    let rows: Vec<ResidencyRow> = rows.collect();
    let resident: Bytes = rows.iter().map(|row| row.resident).sum();
    let mut warnings = Vec::new();
    if resident >= WORTH_SAYING {
        let named = name_holders(&rows.iter().collect::<Vec<_>>());
        let text = format!("{resident} of the program's own files stay in memory when everything is dropped: {named}");
        let hint =
            "end the programs that map them and record again: what a start needs of these files cannot be learned";
        warnings.push(Warning::new(WarningKind::StaysResident, text).hint(hint));
    }
    if !dirs.is_empty() {
        os::cache::drop_all()?;
    }
    Ok(warnings)
}

fn boot(scene: &Scene<'_>, files: OpenNeeds<'_>, beat: &mut Beat<'_>) -> Result<Prepared> {
    let mut rows = drop_everything(files)?;
    let own: HashSet<&Path> = needs_of(scene.needs, Owner::App).map(|need| need.path.as_path()).collect();
    let default: Vec<PathBuf>;
    let base = match scene.base {
        Some(list) => list,
        None => {
            let libraries = needs_of(scene.needs, Owner::System).map(|need| &need.path);
            default = libraries.filter(|path| is_library(path)).cloned().collect();
            &default
        }
    };
    let base: Vec<&PathBuf> = base.iter().filter(|path| !own.contains(path.as_path())).collect();
    for path in &base {
        beat.beat()?;
        // What cannot be read is found missing below.
        let _ = os::cache::warm(path, None);
    }
    let (mut warm, mut all) = (0, 0);
    for path in &base {
        beat.beat()?;
        let whole = whole_file(path);
        warm += whole.resident;
        all += whole.pages;
    }
    let warmed: HashSet<&Path> = base.iter().map(|path| path.as_path()).collect();
    for row in rows.iter_mut().filter(|row| warmed.contains(row.row.path.as_path())) {
        row.look_again();
    }
    let base_share = if all == 0 { 1.0 } else { warm as f64 / all as f64 };
    let verdict = match scene.needs {
        None => Verdict::Unproven,
        Some(_) if share(&rows, Row::is_own).unwrap_or(0.0) > OWN_LIMIT => {
            Verdict::NotInState(stays(&rows, Row::is_own, OWN_LIMIT))
        }
        Some(_) if base_share < WARM_LIMIT => {
            let resident = percent(base_share);
            Verdict::NotInState(format!("only {resident} of the {} files of the base list are in memory", base.len()))
        }
        Some(_) => Verdict::InState,
    };
    Ok(prepared(rows, verdict))
}

fn app(scene: &Scene<'_>, files: OpenNeeds<'_>, beat: &mut Beat<'_>) -> Result<Prepared> {
    let mut warnings = Vec::new();
    let reclaims = scene.cgroup.filter(|group| group.can(Ability::Memory));
    if let Some(group) = reclaims {
        group.reclaim()?;
    } else {
        warnings.push(
            Warning::new(
                WarningKind::Note,
                "without a memory control group, the state app evicts the data of the program's files but not their \
                    metadata",
            )
            .hint("run thaw as root"),
        );
    }
    if scene.needs.is_none() {
        os::cache::flush(scene.dirs);
    }
    beat.beat()?;
    let (own, system): (Vec<_>, Vec<_>) = files.0.into_iter().partition(|open| open.need.owner == Owner::App);
    let mut rows = Vec::new();
    for open in own {
        // Pages that were charged to somebody else, like those of a directory that thaw has put back.
        if open.look().is_some_and(|residency| residency.resident > 0) && open.need.kind == FileKind::Regular {
            let _ = os::cache::evict(&open.file);
        }
        rows.extend(open.row());
    }
    // The descriptors are closed by now: what they held goes too.
    if let Some(group) = reclaims.filter(|_| !rows.is_empty()) {
        group.reclaim()?;
    }
    rows.extend(warm_system(system, beat)?);
    let verdict = match scene.needs {
        None => Verdict::Unproven,
        Some(_) if share(&rows, Row::is_own).unwrap_or(0.0) > OWN_LIMIT => {
            Verdict::NotInState(stays(&rows, Row::is_own, OWN_LIMIT))
        }
        Some(_) if share(&rows, Row::is_systems).unwrap_or(1.0) < WARM_LIMIT => {
            Verdict::NotInState(lacks(&rows, Row::is_systems))
        }
        Some(_) => Verdict::InState,
    };
    Ok(Prepared { warnings, ..prepared(rows, verdict) })
}

/// Reads what is missing of the system's files, whole, and lists the directories that they are in, on thaw's own
/// account: as other programs have them in memory.
fn warm_system(files: Vec<OpenNeed<'_>>, beat: &mut Beat<'_>) -> Result<Vec<Row>> {
    let _span = tracing::info_span!("warm system").entered();
    let mut rows = Vec::new();
    let mut directories = BTreeSet::new();
    for open in files {
        beat.beat()?;
        if open.need.kind == FileKind::Regular {
            directories.extend(open.need.path.parent().map(Path::to_owned));
            if open.look().is_none_or(|residency| residency.resident < residency.pages) {
                let _ = os::cache::warm(&open.need.path, None);
            }
        }
        rows.extend(open.row());
    }
    for directory in directories {
        beat.beat()?;
        let _ = os::cache::warm_directory(&directory);
    }
    Ok(rows)
}

fn hot(scene: &Scene<'_>, files: OpenNeeds<'_>, beat: &mut Beat<'_>) -> Result<Prepared> {
    if scene.needs.is_none() {
        let verdict = match scene.warmed {
            true => Verdict::Unproven,
            false => Verdict::NeedsWarmUp("the program was not started since the caches were emptied".to_owned()),
        };
        return Ok(prepared(Vec::new(), verdict));
    }
    let mut rows: Vec<Row> = files.0.iter().filter_map(OpenNeed::row).collect();
    let is_hot = |rows: &[Row]| share(rows, Row::is_file).unwrap_or(1.0) >= WARM_LIMIT;
    let all = |rows: &[Row]| share(rows, Row::is_file).unwrap_or(1.0) >= 1.0;
    if !all(&rows) && (scene.warmed || is_hot(&rows)) {
        // What only a colder start reads, and the little that was evicted since: a start does not bring back the one
        // and waits for the other, and with a large read-ahead a single page that is missing costs megabytes.
        for open in files.0.iter().filter(|open| open.need.kind == FileKind::Regular) {
            beat.beat()?;
            let _ = os::cache::warm(&open.need.path, Some(&open.need.ranges));
        }
        rows = files.0.iter().filter_map(OpenNeed::row).collect();
    }
    let verdict = match (is_hot(&rows), scene.warmed) {
        (true, _) => Verdict::InState,
        (false, false) => Verdict::NeedsWarmUp(lacks(&rows, Row::is_file)),
        (false, true) => Verdict::NotInState(lacks(&rows, Row::is_file)),
    };
    Ok(prepared(rows, verdict))
}

/// Empties all caches of the machine and looks at what stayed.
fn drop_everything(files: OpenNeeds<'_>) -> Result<Vec<Row>> {
    let _span = tracing::info_span!("drop caches").entered();
    os::cache::drop_all()?;
    let (metadata, data): (Vec<_>, Vec<_>) = files.0.into_iter().partition(|open| open.need.kind == FileKind::Metadata);
    let mut rows: Vec<Row> = data.iter().filter_map(OpenNeed::row).collect();
    drop(data);
    if !rows.is_empty() {
        os::cache::drop_all()?;
    }
    rows.extend(metadata.iter().filter_map(OpenNeed::row));
    Ok(rows)
}

/// The needs as open files; made before the caches are emptied.
#[derive(Default)]
pub(crate) struct OpenNeeds<'a>(Vec<OpenNeed<'a>>);

struct OpenNeed<'a> {
    need: &'a Need,
    file: File,
    ranges: Vec<(FileOffset, Bytes)>,
}

impl<'a> OpenNeeds<'a> {
    /// Opens what is still there of one owner's. Temporary files of the learning run are not, and nobody needs them any
    /// more. If there are more than this process may have open, the largest tell of all.
    ///
    /// # Errors
    /// Interrupted.
    pub fn open(&mut self, needs: &'a [Need], owner: Owner, beat: &mut Beat<'_>) -> Result<()> {
        let _span = tracing::info_span!("open needs").entered();
        let wanted = needs.iter().filter(|need| matches!(need.kind, FileKind::Regular | FileKind::Metadata));
        let mut wanted: Vec<&Need> = wanted.filter(|need| need.owner == owner).collect();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let room = limit.map_or(usize::MAX, |limit| (limit as usize).saturating_sub(SPARE_FILES + self.0.len()));
        if wanted.len() > room {
            wanted.sort_by_cached_key(|need| std::cmp::Reverse(need.bytes()));
            wanted.truncate(room);
        }
        for need in wanted {
            beat.beat()?;
            self.0.extend(OpenNeed::open(need));
        }
        Ok(())
    }
}

impl<'a> OpenNeed<'a> {
    fn open(need: &'a Need) -> Option<Self> {
        let file = os::cache::open_quietly(&need.path).ok()?;
        let mut ranges = need.ranges.clone();
        if need.kind == FileKind::Regular {
            clip(&mut ranges, file.metadata().ok()?.len());
        }
        Some(Self { need, file, ranges })
    }

    /// `None`: the kernel does not tell.
    fn look(&self) -> Option<Residency> {
        os::cache::residency_of(&self.file, &self.ranges).ok()
    }

    fn row(&self) -> Option<Row> {
        let residency = self.look()?;
        let row = ResidencyRow {
            path: self.need.path.clone(),
            needed: Bytes(residency.pages * PAGE),
            resident: residency.resident_bytes(),
        };
        Some(Row { row, owner: self.need.owner, kind: self.need.kind, ranges: self.ranges.clone() })
    }
}

/// Cuts ranges off at the end of a file that became shorter.
fn clip(ranges: &mut Vec<(FileOffset, Bytes)>, size: u64) {
    ranges.retain_mut(|(offset, len)| {
        len.0 = len.0.min(size.saturating_sub(offset.0));
        len.0 > 0
    });
}

/// Two lists of needs as one. A start may need tens of thousands of files.
pub(crate) fn joined(mut known: Vec<Need>, more: Vec<Need>) -> Vec<Need> {
    let mut places: HashMap<PathBuf, usize> =
        known.iter().enumerate().map(|(place, need)| (need.path.clone(), place)).collect();
    for need in more {
        match places.get(&need.path) {
            Some(place) => known[*place].ranges = union(&known[*place].ranges, &need.ranges),
            None => {
                places.insert(need.path.clone(), known.len());
                known.push(need);
            }
        }
    }
    known
}

/// Ranges that are in either list, sorted and disjoint.
fn union(one: &[(FileOffset, Bytes)], other: &[(FileOffset, Bytes)]) -> Vec<(FileOffset, Bytes)> {
    let mut all: Vec<(FileOffset, Bytes)> = one.iter().chain(other).copied().collect();
    all.sort();
    let mut merged: Vec<(FileOffset, Bytes)> = Vec::new();
    for (offset, len) in all {
        match merged.last_mut() {
            Some((start, length)) if offset.0 <= start.0 + length.0 => {
                length.0 = length.0.max(offset.0 + len.0 - start.0);
            }
            _ => merged.push((offset, len)),
        }
    }
    merged
}

/// What was found of a need.
#[derive(Clone, Debug)]
struct Row {
    row: ResidencyRow,
    owner: Owner,
    kind: FileKind,
    ranges: Vec<(FileOffset, Bytes)>,
}

impl Row {
    fn is_file(&self) -> bool {
        self.kind == FileKind::Regular
    }
    fn is_own(&self) -> bool {
        self.is_file() && self.owner == Owner::App
    }
    fn is_systems(&self) -> bool {
        self.is_file() && self.owner == Owner::System
    }
    fn look_again(&mut self) {
        let again = os::cache::open_quietly(&self.row.path);
        if let Ok(residency) = again.and_then(|file| os::cache::residency_of(&file, &self.ranges)) {
            self.row.resident = residency.resident_bytes();
        }
    }
}

/// Resident share of some rows; `None`: they need nothing.
fn share(rows: &[Row], which: impl Fn(&Row) -> bool) -> Option<f64> {
    let (mut needed, mut resident) = (0, 0);
    for row in rows.iter().filter(|row| which(row)) {
        needed += row.row.needed.0;
        resident += row.row.resident.0;
    }
    (needed > 0).then(|| resident as f64 / needed as f64)
}

fn prepared(rows: Vec<Row>, verdict: Verdict) -> Prepared {
    Prepared {
        own_share: share(&rows, Row::is_own),
        system_share: share(&rows, Row::is_systems),
        residency: rows.into_iter().map(|row| row.row).collect(),
        verdict,
        warnings: Vec::new(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What stays in memory although it should not, and who keeps it there.
fn stays(rows: &[Row], which: impl Fn(&Row) -> bool, limit: f64) -> String {
    let share = share(rows, &which).unwrap_or(0.0);
    let rows: Vec<&ResidencyRow> = rows.iter().filter(|row| which(row)).map(|row| &row.row).collect();
    let needed: Bytes = rows.iter().map(|row| row.needed).sum();
    let named = name_holders(&rows);
    format!(
        "{} of the {needed} that a start needs stay in memory, at most {} may: {named}",
        percent(share),
        percent(limit)
    )
}

/// The largest of what stays, with who maps it: `libxul.so 12.0 MB (mapped by 123 firefox)`.
fn name_holders(rows: &[&ResidencyRow]) -> String {
    let mut largest: Vec<&&ResidencyRow> = rows.iter().filter(|row| row.resident.0 > 0).collect();
    largest.sort_by_key(|row| (std::cmp::Reverse(row.resident), &row.path));
    largest.truncate(NAMED);
    let paths: Vec<&Path> = largest.iter().map(|row| row.path.as_path()).collect();
    let holders = os::cache::who_maps(&paths);
    let names = largest.iter().map(|row| {
        let held = match holders.get(&row.path).map(Vec::as_slice) {
            None | Some([]) => "nobody maps it".to_owned(),
            Some([one]) => one.to_string(),
            Some([one, others @ ..]) => format!("{one} and {} more", others.len()),
        };
        format!("{} {} ({held})", model::shown(&row.path), row.resident)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// What is missing although it should be in memory.
fn lacks(rows: &[Row], which: impl Fn(&Row) -> bool) -> String {
    let share = share(rows, &which).unwrap_or(1.0);
    let missing = |row: &ResidencyRow| row.needed - row.resident;
    let mut rows: Vec<&ResidencyRow> = rows.iter().filter(|row| which(row)).map(|row| &row.row).collect();
    rows.retain(|row| missing(row).0 > 0);
    rows.sort_by_key(|row| (std::cmp::Reverse(missing(row)), &row.path));
    let names = rows.iter().take(NAMED).map(|row| format!("{} {}", model::shown(&row.path), missing(row)));
    let names = names.collect::<Vec<_>>().join(", ");
    format!(
        "only {} of what a start needs are in memory, {} must be; missing: {names}",
        percent(share),
        percent(WARM_LIMIT)
    )
}

/// The warning about what stays in a state that was reached nevertheless.
fn remainder(rows: &[ResidencyRow]) -> Option<Warning> {
    let (needed, resident): (Bytes, Bytes) =
        (rows.iter().map(|row| row.needed).sum(), rows.iter().map(|row| row.resident).sum());
    // Below a hundredth it changes nothing that could be measured, and finding out who it is takes time.
    if resident.0 * 100 <= needed.0 {
        return None;
    }
    let named = name_holders(&rows.iter().collect::<Vec<_>>());
    let text = format!("{resident} of the {needed} that a cold start needs stay in memory: {named}");
    Some(Warning::new(WarningKind::StaysResident, text).hint("end the programs that map them for a colder start"))
}

fn needs_of(needs: Option<&[Need]>, owner: Owner) -> impl Iterator<Item = &Need> {
    needs.unwrap_or_default().iter().filter(move |need| need.owner == owner && need.kind == FileKind::Regular)
}

/// `libc.so.6`, `ld-linux-x86-64.so.2`, `libnss.so`.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered = name.split(".so.").nth(1).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.ends_with(".so") || numbered
}

fn whole_file(path: &Path) -> Residency {
    let look = || {
        // A base list may name links.
        let file = os::cache::open_quietly(&path.canonicalize()?)?;
        let len = file.metadata()?.len();
        os::cache::residency(&file, FileOffset(0), Bytes(len))
    };
    look().unwrap_or_else(|_: std::io::Error| Residency { pages: 1, ..Residency::default() })
}

/// Whether this machine lets us empty all caches.
pub(crate) fn can_drop_caches() -> bool {
    rustix::process::geteuid().is_root()
        && rustix::fs::access("/proc/sys/vm/drop_caches", rustix::fs::Access::WRITE_OK).is_ok()
}

/// Lets this process have as many files open as it may, for as long as the guard lives: a start may need thousands. The
/// program under test must not inherit that.
pub(crate) struct ManyFiles(rustix::process::Rlimit);

impl ManyFiles {
    pub fn allow() -> Self {
        let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let set = |most| {
            let limit = rustix::process::Rlimit { current: most, maximum: most };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)
        };
        // Root may go as far as the kernel does.
        let most =
            std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse::<u64>().ok());
        let most = most.filter(|most| before.maximum.is_some_and(|maximum| maximum < *most));
        if most.is_none_or(|most| set(Some(most)).is_err()) {
            let _ = set(before.maximum);
        }
        Self(before)
    }
}

impl Drop for ManyFiles {
    fn drop(&mut self) {
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, self.0);
    }
}

/// Checks a base list.
///
/// # Errors
/// None of its files can be read.
pub(crate) fn check_base(list: &BaseList) -> Result<Vec<Warning>> {
    let missing: Vec<&PathBuf> = list.paths.iter().filter(|path| !path.is_file()).collect();
    if missing.len() == list.paths.len() {
        return Err(Error::on(Exit::Usage, "no file is there of the base list", &list.file)
            .hint("make one in a session without the program: thaw resident /usr /lib /etc > base.list"));
    }
    let Some(first) = missing.first() else { return Ok(Vec::new()) };
    let text = format!(
        "{} of the {} files of the base list {} are not there, like {}",
        missing.len(),
        list.paths.len(),
        model::shown(&list.file),
        model::shown(first)
    );
    Ok(vec![Warning::new(WarningKind::Note, text).hint("make a new base list")])
}

#[cfg(test)]
mod tests;
