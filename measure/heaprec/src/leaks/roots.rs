//! Which memory of a process is the program's own beside its blocks, and which is the allocator's: in what the
//! allocator keeps free, old pointers are left.

use super::mark::{Block, Roots};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A stretch of memory that can be read and written, or none, as `/proc/PID/maps` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its addresses.
    pub range: Range<u64>,
    /// `rw-p`.
    pub permissions: String,
    /// The file, by its path.
    pub file: Option<PathBuf>,
    /// `[heap]`, `[stack]`, `/dev/zero (deleted)` and the like.
    pub name: Vec<u8>,
}

/// A thread that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its stack pointer.
    pub sp: u64,
    /// Where its control block is.
    pub control: u64,
}

/// All that tells what is whose.
pub struct View<'a> {
    /// All regions, in the order of their addresses.
    pub regions: &'a [Region],
    /// All threads.
    pub threads: &'a [Thread],
    /// Mappings of the guest, its data among them.
    pub own: &'a [Range<u64>],
    /// Mappings that the program made itself.
    pub mapped: &'a [Range<u64>],
    /// Live blocks, in the order of their addresses.
    pub blocks: &'a [Block],
    /// Whether there are blocks that are not known: then what the allocator has taken may be the program's too.
    pub has_others: bool,
    /// The library that the allocator is; `None`: the program, or the C library.
    pub allocator: Option<&'a Path>,
    /// Whether the allocator is that of glibc.
    pub is_glibc: bool,
    /// Reads a word.
    pub word: &'a dyn Fn(u64) -> Option<u64>,
    /// What of a range was ever written to.
    pub touched: &'a dyn Fn(&Range<u64>) -> Vec<Range<u64>>,
}

/// What the System V ABI lets a function use below its stack pointer.
const RED_ZONE: u64 = 128;
/// Arenas of glibc but the main one lie in stretches of so many bytes, at multiples of it (`HEAP_MAX_SIZE`).
const ARENA: u64 = 64 << 20;
/// Other allocators take at least about so much at a time.
const EXTENT: u64 = 2 << 20;
/// Glibc's control block of a thread lies at the top of its stack: at most so far below the end.
const CONTROL: u64 = 4096;
const PAGE: u64 = 4096;

/// What is to be searched for pointers, and blocks that the C library keeps in its own way.
pub fn roots(view: &View<'_>) -> Roots {
    let mut found = Found::default();
    let mut before: Option<&Region> = None;
    for region in view.regions {
        if region.permissions.starts_with("rw") {
            let guarded =
                before.is_some_and(|it| it.range.end == region.range.start && it.permissions.starts_with("---"));
            of_region(view, region, guarded, &mut found);
        }
        before = Some(region);
    }
    let alive = view.threads.iter().map(|thread| thread.control);
    let begins = alive.chain(found.kept).filter_map(|control| dynamic_variables(control, view.word)).collect();
    let (own, blocks) = (view.own.to_vec(), view.blocks.iter().map(|block| block.start..block.end()).collect());
    Roots { ranges: without(without(found.ranges, own), blocks), begins, words: Vec::new() }
}

/// What regions have brought.
#[derive(Default)]
struct Found {
    ranges: Vec<Range<u64>>,
    /// Control blocks of threads that have ended: the C library keeps their stacks for new ones.
    kept: Vec<u64>,
}

/// The block with the table of a thread's variables: it is kept by its second entry, in the second word of the
/// thread's control block.
fn dynamic_variables(control: u64, word: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    word(control.checked_add(8)?)?.checked_sub(16)
}

fn of_region(view: &View<'_>, region: &Region, guarded: bool, found: &mut Found) {
    let range = region.range.clone();
    if region.permissions.ends_with('s') {
        // Devices and files are somebody else's too; memory that is shared is the program's.
        let is_memory = [&b"/memfd:"[..], b"/dev/zero", b"/dev/shm/", b"/SYSV"];
        found.ranges.extend(is_memory.iter().any(|name| region.name.starts_with(name)).then_some(range));
        return;
    }
    if let Some(file) = &region.file {
        let is_allocators = view.allocator == Some(file);
        match is_c_library(file).then(|| main_arena(&range, view.word)).flatten() {
            Some(arena) if view.is_glibc => found.ranges.extend(without(vec![range], vec![arena])),
            _ if is_allocators => {}
            _ => found.ranges.push(range),
        }
        return;
    }
    if region.name == b"[heap]" && view.is_glibc && !view.has_others {
        return;
    }
    let mut not = Vec::new();
    let is_stack = region.name == b"[stack]";
    // What the program mapped is its own, whatever the kernel put beside it.
    let is_mapped = |at: u64| view.mapped.iter().any(|mapped| mapped.contains(&at));
    let sps = view.threads.iter().map(|thread| thread.sp).filter(|sp| range.contains(sp) && !is_mapped(*sp));
    match sps.min() {
        Some(sp) if guarded || is_stack => not.push(range.start..sp.saturating_sub(RED_ZONE)),
        Some(_) => {}
        None => {
            let control = if guarded { left_behind(view, &range) } else { None };
            not.extend(control.map(|at| range.start..(at + CONTROL / 2).next_multiple_of(PAGE).min(range.end)));
            found.kept.extend(control);
        }
    }
    if !view.has_others {
        not.extend(taken(view, &range));
    }
    let mapped: Vec<Range<u64>> = view.mapped.iter().filter_map(|mapped| common(mapped, &range)).collect();
    found.ranges.extend(without(vec![range], without(not, mapped)));
}

/// The stack of a thread that has ended, which the C library keeps for the next one: its control block, which has its
/// own address in its first and third word, belongs to no thread.
fn left_behind(view: &View<'_>, range: &Range<u64>) -> Option<u64> {
    // Other memory may lie behind the stack without a gap.
    let places =
        (view.touched)(range).into_iter().flat_map(|part| (part.start.next_multiple_of(64)..part.end).step_by(64));
    let control = places.into_iter().find(|at| [*at, at + 16].iter().all(|place| (view.word)(*place) == Some(*at)))?;
    view.threads.iter().all(|thread| thread.control != control).then_some(control)
}

/// Whether a file is glibc's library.
pub fn is_c_library(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == "libc.so.6" || name.starts_with("libc-2.")
}

/// What of a region the allocator has taken for blocks, live or not.
fn taken(view: &View<'_>, range: &Range<u64>) -> Vec<Range<u64>> {
    let first = view.blocks.partition_point(|block| block.start < range.start);
    let mut taken: Vec<Range<u64>> = Vec::new();
    for block in view.blocks[first..].iter().take_while(|block| block.start < range.end) {
        if taken.last().is_some_and(|last| last.contains(&block.start)) {
            continue;
        }
        let around = |bytes: u64| block.start & !(bytes - 1)..(block.start & !(bytes - 1)).saturating_add(bytes);
        let extent = match view.is_glibc {
            true => glibc(block.start, view.word).unwrap_or_else(|| range.clone()),
            false => around(EXTENT).start..around(EXTENT).end.max(block.end().next_multiple_of(EXTENT)),
        };
        taken.extend(common(&extent, range));
    }
    // A thread's control block and variables may lie beside, without a gap.
    let controls = view.threads.iter().map(|thread| thread.control).filter(|control| *control != 0);
    let near = controls.map(|control| control.saturating_sub(CONTROL)..control.saturating_add(CONTROL));
    if view.is_glibc { taken } else { without(taken, near.collect()) }
}

/// What glibc has taken together with a block, told by the flags in the word before it: one of its mappings is of the
/// block alone; an arena's is a whole stretch. `None`: the main arena's, which has all of its region.
fn glibc(block: u64, word: &dyn Fn(u64) -> Option<u64>) -> Option<Range<u64>> {
    const MAPPED: u64 = 2;
    const NOT_MAIN: u64 = 4;
    let chunk = block.checked_sub(16)?;
    let size = word(chunk + 8)?;
    if size & MAPPED != 0 {
        // What an alignment left before it is told by the first word.
        let before = word(chunk)?;
        return Some(chunk.checked_sub(before)?..chunk.checked_add(size & !7)?);
    }
    (size & NOT_MAIN != 0).then(|| block & !(ARENA - 1)..(block & !(ARENA - 1)) + ARENA)
}

/// Glibc's main arena in the data of the C library: its lists of free blocks have pointers to what is before these,
/// which look like pointers into the block there. Empty lists point at themselves, and the last ones are empty nearly
/// always.
fn main_arena(range: &Range<u64>, word: &dyn Fn(u64) -> Option<u64>) -> Option<Range<u64>> {
    /// Lists, as pairs of words.
    const BINS: u64 = 127;
    /// What is before them in `malloc_state`.
    const HEAD: u64 = 112;
    /// So many empty ones in a row are no chance.
    const ENOUGH: u32 = 8;
    let is_empty = |at: u64| [at, at + 8].iter().all(|place| word(*place) == Some(at.wrapping_sub(16)));
    let (mut at, mut row, mut last) = (range.start.next_multiple_of(16), 0, None);
    while at + 16 <= range.end {
        row = if is_empty(at) { row + 1 } else { 0 };
        if row >= ENOUGH {
            last = Some(at);
        }
        at += 16;
    }
    let end = last? + 16;
    Some(end.saturating_sub(16 * BINS + HEAD)..end)
}

/// What two ranges share.
fn common(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (both.start < both.end).then_some(both)
}

/// Ranges without others, in the order of their addresses.
fn without(mut ranges: Vec<Range<u64>>, mut not: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    not.retain(|range| range.start < range.end);
    not.sort_by_key(|range| range.start);
    let mut left = Vec::new();
    let mut first = 0;
    for range in ranges {
        let mut at = range.start;
        while not.get(first).is_some_and(|not| not.end <= range.start) {
            first += 1;
        }
        for hole in not[first..].iter().take_while(|hole| hole.start < range.end) {
            if hole.start > at {
                left.push(at..hole.start);
            }
            at = at.max(hole.end);
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "ranges are what is searched")]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn region(range: Range<u64>, permissions: &str, name: &str) -> Region {
        let file = name.starts_with("/lib").then(|| name.into());
        Region { range, permissions: permissions.into(), file, name: name.into() }
    }

    struct Process {
        regions: Vec<Region>,
        threads: Vec<Thread>,
        blocks: Vec<Block>,
        mapped: Vec<Range<u64>>,
        words: HashMap<u64, u64>,
    }

    impl Process {
        fn of(regions: Vec<Region>) -> Self {
            Self { regions, threads: Vec::new(), blocks: Vec::new(), mapped: Vec::new(), words: HashMap::new() }
        }

        fn block(mut self, start: u64, size: u64, head: u64) -> Self {
            self.blocks.push(Block { start, size });
            self.words.insert(start - 8, head);
            self.words.insert(start - 16, 0);
            self
        }

        fn ranges(&self, is_glibc: bool) -> Vec<Range<u64>> {
            self.roots(is_glibc).ranges
        }

        fn roots(&self, is_glibc: bool) -> Roots {
            roots(&View {
                regions: &self.regions,
                threads: &self.threads,
                own: &[0x9000..0xa000],
                mapped: &self.mapped,
                blocks: &self.blocks,
                has_others: false,
                allocator: Some("/lib/liballoc.so".as_ref()),
                is_glibc,
                word: &|at| self.words.get(&at).copied(),
                touched: &|range| vec![range.clone()],
            })
        }
    }

    #[test]
    fn data_of_objects_is_searched_and_files_devices_and_the_allocators_data_are_not() {
        let process = Process::of(vec![
            region(0x1000..0x2000, "r--p", "/lib/a.so"),
            region(0x2000..0x3000, "rw-p", "/lib/a.so"),
            region(0x3000..0x4000, "rw-p", ""),
            region(0x5000..0x6000, "rw-p", "/lib/liballoc.so"),
            region(0x6000..0x7000, "rw-s", "/dev/nvidia0"),
            region(0x7000..0x8000, "rw-s", "/memfd:shared (deleted)"),
            region(0x8000..0xb000, "rw-p", ""),
            region(0x20000..0x30000, "rw-p", "[heap]"),
        ]);
        let expected = [0x2000..0x3000, 0x3000..0x4000, 0x7000..0x8000, 0x8000..0x9000, 0xa000..0xb000];
        assert_eq!(process.ranges(true), expected);
    }

    #[test]
    fn of_a_stack_what_is_in_use_is_searched_and_nothing_of_stacks_of_ended_threads() {
        let mut process = Process::of(vec![
            region(0x10_0000..0x10_1000, "---p", ""),
            region(0x10_1000..0x11_0000, "rw-p", ""),
            region(0x20_0000..0x20_1000, "---p", ""),
            region(0x20_1000..0x21_0000, "rw-p", ""),
            region(0x30_0000..0x40_0000, "rw-p", "[stack]"),
        ]);
        process.threads = vec![Thread { sp: 0x10_8000, control: 0x10_f700 }, Thread { sp: 0x3f_0000, control: 0x7000 }];
        for place in [0x20_e700, 0x20_e710] {
            process.words.insert(place, 0x20_e700);
        }
        process.words.extend([(0x20_e708, 0x5010), (0x10_f708, 0x6010)]);
        assert_eq!(process.ranges(true), [0x10_7f80..0x11_0000, 0x20_f000..0x21_0000, 0x3e_ff80..0x40_0000]);
        assert_eq!(process.roots(true).begins, [0x6000, 0x5000], "tables of variables");
        // The thread of the second is alive, on another stack at the moment.
        process.threads.push(Thread { sp: 0x3f_8000, control: 0x20_e700 });
        assert!(process.ranges(true).contains(&(0x20_1000..0x21_0000)));
    }

    #[test]
    fn what_lies_beside_the_allocators_memory_without_a_gap_is_searched() {
        // A mapping of one block, and variables of the first thread behind it.
        let beside = || Process::of(vec![region(0x100_0000..0x110_0000, "rw-p", "")]);
        let process = beside().block(0x100_0010, 0x1_0000, 0x1_1000 | 2);
        assert_eq!(process.ranges(true), [0x101_1000..0x110_0000]);
        // An arena is taken to its end.
        let process =
            Process::of(vec![region(ARENA..ARENA + 0x10_0000, "rw-p", "")]).block(ARENA + 0x900, 32, 0x30 | 5);
        assert_eq!(process.ranges(true), []);
        // Another allocator: no flags; what is near a thread's control block is searched all the same.
        let mut process = beside().block(0x100_0040, 32, 0);
        process.threads = vec![Thread { sp: 0, control: 0x108_0000 }];
        assert_eq!(process.ranges(false), [0x107_f000..0x108_1000]);
        // What the program mapped is its own, but for blocks in it.
        let mut process = beside().block(0x100_0040, 32, 0x30);
        process.mapped = vec![0x102_0000..0x103_0000];
        assert_eq!(process.ranges(true), [0x102_0000..0x103_0000]);
    }

    #[test]
    fn the_main_arena_is_no_root() {
        let mut process = Process::of(vec![region(0x1000..0x4000, "rw-p", "/lib/libc.so.6")]);
        let lists = 0x2000 + 112;
        for list in (0..127).map(|number| lists + 16 * number).filter(|list| *list != lists + 64) {
            process.words.extend([(list, list - 16), (list + 8, list - 16)]);
        }
        assert_eq!(process.ranges(true), [0x1000..0x2000, lists + 16 * 127..0x4000]);
    }

    #[test]
    fn ranges_without_others() {
        let left = without(vec![0..100, 200..300], vec![50..60, 10..20, 90..210, 250..250]);
        assert_eq!(left, [0..10, 20..50, 60..90, 210..300]);
        assert_eq!(without(vec![0..10], vec![0..10, 3..5]), []);
    }
}
