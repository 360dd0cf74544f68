//! What the resident memory (RSS) of a recorded process consists of at this moment, by who made it: live blocks and
//! mappings by their stacks, page by page, and the rest by the kernel's account ([`account`]).
//!
//! A page that is not there takes no memory, whatever was requested of it: so a block counts with those of its bytes
//! that lie on pages that are. The process is not stopped for it: what it does meanwhile is off by as much.

mod account;

pub use account::Account;

use crate::maps::Maps;
use crate::modes::Heap;
use crate::named::Cut;
use crate::symbols::{self, Frame, Names};
use account::Region;
use heapfile::event::Process;
use heapfile::ledger::Ledger;
use heapfile::reader::Reader;
use heapfile::stack::StackId;
use heapfile::sums;
use model::{Bytes, Error, Exit, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What resident memory is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Live blocks, as many bytes as were requested.
    Blocks,
    /// What the allocator keeps beside them: freed, rounded up, its tables.
    Allocator,
    /// Memory without a file that the program mapped itself.
    Mapped,
    /// Files: programs, libraries, data; and their variables.
    Files,
    /// Memory that is shared with others: memfd, /dev/shm, System V.
    Shared,
    /// Devices: of graphics cards, for one.
    Devices,
    /// Stacks of threads.
    Stacks,
    /// What the kernel maps.
    Kernel,
    /// The recorder's own.
    Recorder,
    /// Memory without a file that nobody was seen to map.
    Unknown,
}

/// What of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Of which kind.
    pub kind: Kind,
    /// How much is resident.
    pub bytes: Bytes,
    /// What it is of, most first: places for blocks and mappings, files and names for the others.
    pub of: Vec<Of>,
}

/// A part of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Of {
    /// How much is resident.
    pub bytes: Bytes,
    /// The file or name; empty: `frames` tell.
    pub name: String,
    /// Who made it, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

/// What a process's resident memory consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resident {
    /// The number of the process.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// Resident memory, as the kernel counts it.
    pub rss_bytes: Bytes,
    /// What of it is of a known kind.
    pub explained_bytes: Bytes,
    /// By kind, most first.
    pub parts: Vec<Part>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Asks about a process that runs and is recorded.
///
/// # Errors
/// It does not run, is not recorded, or may not be looked at; the recording has samples or sums only.
pub fn ask(reader: &Reader, process: &Process, cut: Cut) -> Result<Resident> {
    if process.is_summed() {
        return Err(sums::no_events(reader.directory(), "which memory a block lies in is not known"));
    }
    if process.sample_bytes > 0 {
        return Err(Error::on(Exit::Usage, "only samples of its blocks are recorded", reader.directory())
            .hint("record it without --sample"));
    }
    let account = Account::of(process)?;
    let (mut events, mut ledger, mut maps) = (reader.events(process.id)?, Ledger::new(process.origin), Maps::default());
    while let Some(event) = events.next()? {
        ledger.enter(&event);
        maps.enter(&event);
    }
    let mut warnings = events.warnings().to_vec();
    if process.lost > 0 || ledger.inherits() {
        let text = format!(
            "process {}: blocks from before it was recorded are not known: they count as the allocator's",
            process.pid
        );
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    let mut blocks: Vec<(Range<u64>, Option<StackId>)> =
        ledger.live().map(|(ptr, block)| (ptr.0..ptr.0.saturating_add(block.size), block.stack)).collect();
    blocks.sort_unstable_by_key(|(range, _)| range.start);
    let mapped: Vec<(Range<u64>, Option<StackId>)> =
        maps.ranges().map(|(range, mapping)| (range, mapping.stack)).collect();
    let shares = shares(&account, &blocks, &mapped);
    let (stacks, modules) = events.into_parts();
    let used = shares.by_stack.keys().map(|(_, stack)| *stack);
    let heap = Heap::of_stacks(process.id, stacks, modules, used);
    let mut names = Names::of(std::slice::from_ref(&heap), &symbols::recall(reader.directory())?);
    warnings.append(&mut names.warnings);
    let rss = account.regions.iter().map(|region| region.rss).sum();
    let parts = parts(shares, &heap, &names, cut);
    let unknown: u64 = parts.iter().filter(|part| part.kind == Kind::Unknown).map(|part| part.bytes.0).sum();
    Ok(Resident {
        pid: process.pid,
        exe: shown(&process.exe),
        rss_bytes: Bytes(rss),
        explained_bytes: Bytes(rss - unknown.min(rss)),
        parts,
        warnings,
    })
}

/// Bytes by what they are of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shares {
    by_stack: HashMap<(Kind, Option<StackId>), u64>,
    by_name: BTreeMap<(Kind, String), u64>,
}

impl Shares {
    fn stack(&mut self, kind: Kind, stack: Option<StackId>, bytes: u64) {
        *self.by_stack.entry((kind, stack)).or_default() += bytes;
    }

    fn name(&mut self, kind: Kind, name: &str, bytes: u64) {
        if bytes > 0 {
            *self.by_name.entry((kind, name.to_owned())).or_default() += bytes;
        }
    }
}

/// Arenas of glibc but the main one lie in stretches of so many bytes, at multiples of it (`HEAP_MAX_SIZE`).
const ARENA: u64 = 64 << 20;

/// What is said of the recorder's.
const OWN: &str = "its library, streams and tables";

/// Whose each resident byte is. Blocks and mappings are in the order of their addresses.
fn shares(
    account: &Account,
    blocks: &[(Range<u64>, Option<StackId>)],
    mapped: &[(Range<u64>, Option<StackId>)],
) -> Shares {
    let mut shares = Shares::default();
    let mut before: Option<&Region> = None;
    // The file whose variables may go on in memory without a file.
    let mut file: Option<&Region> = None;
    for region in &account.regions {
        let adjacent = before.filter(|before| before.range.end == region.range.start);
        if region.name.starts_with('/') {
            file = Some(region);
        } else if adjacent.is_none() {
            file = None;
        }
        let place =
            Place { region, guarded: adjacent.is_some_and(|before| before.permissions.starts_with("---")), file };
        before = Some(region);
        if region.rss > 0 {
            of_region(account, &place, blocks, mapped, &mut shares);
        }
    }
    shares
}

/// A region, with what its neighbours tell of it.
struct Place<'a> {
    region: &'a Region,
    /// Behind memory that nobody may touch: as stacks are.
    guarded: bool,
    /// Right behind a file's data, which may go on here (`.bss`).
    file: Option<&'a Region>,
}

fn of_region(
    account: &Account,
    place: &Place<'_>,
    blocks: &[(Range<u64>, Option<StackId>)],
    mapped: &[(Range<u64>, Option<StackId>)],
    shares: &mut Shares,
) {
    let region = place.region;
    let plain = region.name.trim_end_matches(" (deleted)");
    if region.is_recorders {
        return shares.name(Kind::Recorder, OWN, region.rss);
    }
    let is_memory = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV"].iter().any(|name| region.name.starts_with(name));
    if region.name.starts_with("/dev/") && !is_memory {
        return shares.name(Kind::Devices, plain, region.rss);
    }
    if region.name.starts_with('/') && !is_memory {
        return shares.name(Kind::Files, plain, region.rss);
    }
    if region.name.starts_with("[v") {
        return shares.name(Kind::Kernel, plain, region.rss);
    }
    let inside = |all: &[(Range<u64>, Option<StackId>)]| -> Range<usize> {
        // What began before may reach into it.
        let from = all.partition_point(|(range, _)| range.end <= region.range.start);
        let to = all.partition_point(|(range, _)| range.start < region.range.end);
        from..to.max(from)
    };
    let mut left = region.rss;
    let mut take = |range: &Range<u64>| {
        let bytes = region.resident(range).min(left);
        left -= bytes;
        bytes
    };
    for range in &account.own {
        let bytes = take(range);
        shares.name(Kind::Recorder, OWN, bytes);
    }
    let of_blocks = &blocks[inside(blocks)];
    for (range, stack) in of_blocks {
        let bytes = take(range);
        shares.stack(Kind::Blocks, *stack, bytes);
    }
    for (range, stack) in &mapped[inside(mapped)] {
        let first = of_blocks.partition_point(|(block, _)| block.end <= range.start);
        if of_blocks.get(first).is_some_and(|(block, _)| block.start < range.end) {
            // An allocator mapped it, and what is no block of it is the allocator's.
            continue;
        }
        let bytes = take(range);
        shares.stack(if is_memory { Kind::Shared } else { Kind::Mapped }, *stack, bytes);
    }
    let arena = region.range.start & !(ARENA - 1)..(region.range.start & !(ARENA - 1)) + ARENA;
    let first = blocks.partition_point(|(block, _)| block.start < arena.start);
    let is_arena = !place.guarded && blocks.get(first).is_some_and(|(block, _)| block.start < arena.end);
    let (kind, name) = match plain {
        "[heap]" => (Kind::Allocator, "its free memory, headers and rounding"),
        _ if !of_blocks.is_empty() => (Kind::Allocator, "its free memory, headers and rounding"),
        "[stack]" => (Kind::Stacks, "the first thread's"),
        _ if is_memory => (Kind::Shared, plain),
        _ if place.guarded => (Kind::Stacks, "other threads'"),
        _ if is_arena => (Kind::Allocator, "its free memory, headers and rounding"),
        "" => match place.file {
            Some(file) if file.is_recorders => (Kind::Recorder, OWN),
            Some(file) => (Kind::Files, file.name.trim_end_matches(" (deleted)")),
            None => (Kind::Unknown, "without a name"),
        },
        name => (Kind::Unknown, name),
    };
    shares.name(kind, name, left);
}

/// By kind, each with what it is of; those of one place are one.
fn parts(shares: Shares, heap: &Heap, names: &Names, cut: Cut) -> Vec<Part> {
    let mut all: BTreeMap<Kind, Vec<Of>> = BTreeMap::new();
    for ((kind, name), bytes) in shares.by_name {
        all.entry(kind).or_default().push(Of { bytes: Bytes(bytes), name, frames: Vec::new() });
    }
    let mut places: HashMap<(Kind, Vec<_>), u64> = HashMap::new();
    for ((kind, stack), bytes) in shares.by_stack {
        let frames = names.stack(heap, stack);
        *places.entry((kind, cut.of(names, &frames).to_vec())).or_default() += bytes;
    }
    for ((kind, frames), bytes) in places.into_iter().filter(|(_, bytes)| *bytes > 0) {
        let frames = frames.iter().map(|frame| names.frame(*frame).clone()).collect();
        all.entry(kind).or_default().push(Of { bytes: Bytes(bytes), name: String::new(), frames });
    }
    let key = |of: &Of| {
        (std::cmp::Reverse(of.bytes), of.name.clone(), of.frames.iter().map(Frame::label).collect::<Vec<_>>())
    };
    let part = |(kind, mut of): (Kind, Vec<Of>)| {
        of.sort_by_cached_key(key);
        Part { kind, bytes: of.iter().fold(Bytes(0), |sum, of| Bytes(sum.0 + of.bytes.0)), of }
    };
    let mut parts: Vec<Part> = all.into_iter().map(part).filter(|part| part.bytes.0 > 0).collect();
    parts.sort_by_key(|part| (std::cmp::Reverse(part.bytes), part.kind));
    parts
}
