//! Which live blocks a process can still reach, looked up in its memory while it stands still.
//!
//! A process that is about to exit tells so at the desk and waits; one that runs on can be looked at at any moment. All
//! of its threads are stopped for the time that reading its stream and its memory takes. What was found is a file
//! beside the stream ([`heapfile::check`]). What is live is in `blocks`, where pointers may be that are the program's
//! in `roots`, what they lead to in `mark`, and who asks for a process that runs on in `now`. x86-64 only, as recording
//! is.

mod blocks;
mod mark;
pub mod now;
mod roots;

use crate::clock::Clock;
use blocks::Live;
use heap_wire::own::{Own, PLACES};
use heapfile::check::Check;
use heapfile::reader::Image;
use model::{Bytes, Nanos};
use os::ptrace::{self, Memory, NotStopped};
use roots::{Region, View};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So long all threads may take to stop.
const TO_STOP: Duration = Duration::from_secs(2);
const PAGE: u64 = 4096;

/// Looks at a process by its number in thaw's namespace, and writes what was found, or why nothing was, beside its
/// stream. What cannot be written is lost: nobody waits for this but the process.
pub(crate) fn check(pid: u32, stream: &Path) {
    let check = ptrace::apart(|| look(pid, stream));
    // What an earlier look found stays where this one found nothing.
    if check.is_ok() || !Check::is_there(stream) {
        let _ = check.unwrap_or_else(Check::unknown).write(stream);
    }
}

fn look(pid: u32, stream: &Path) -> Result<Check, String> {
    let began = Instant::now();
    let held = ptrace::stop(pid, &[], TO_STOP).map_err(|error| match error {
        NotStopped::Gone => "it had ended".to_owned(),
        NotStopped::Refused(cause) => format!("it could not be stopped: {cause}"),
        NotStopped::Stuck(tid) => format!("its thread {tid} could not be stopped: the kernel holds it"),
    })?;
    let ticks = Clock::now();
    let image = Image::of(stream).map_err(|error| error.to_string())?.ok_or("its stream is not there")?;
    if image.process.sample_bytes > 0 {
        return Err("only samples of its blocks are recorded".into());
    }
    if image.is_followed {
        return Err("its events are added up while it runs, and not kept (--aggregate)".into());
    }
    if image.process.stopped.is_some() || image.process.lost > 0 {
        return Err("events are missing from its stream".into());
    }
    let frozen = Frozen::of(pid).map_err(|cause| format!("its memory cannot be read: {cause}"))?;
    let live = Live::of(&image, ticks).map_err(|error| error.to_string())?;
    let blocks = live.blocks();
    let (mut words, mut threads) = (Vec::new(), Vec::new());
    for thread in &held {
        let registers = thread.registers().map_err(|_| "it was killed".to_owned())?;
        threads.push(roots::Thread { sp: registers.rsp, control: registers.fs_base });
        words.extend(words_of(&registers));
        words.extend(
            thread
                .vectors()
                .unwrap_or_default()
                .chunks_exact(8)
                .filter_map(|word| word.try_into().ok())
                .map(u64::from_le_bytes),
        );
    }
    let (own, whole) = frozen.own(image.own);
    let allocator = Some(image.process.allocator.as_path()).filter(|path| !path.as_os_str().is_empty());
    let is_glibc = allocator.is_some_and(roots::is_c_library);
    let view = View {
        regions: &frozen.regions,
        threads: &threads,
        own: &own,
        mapped: &live.mapped(),
        blocks: &blocks,
        has_others: live.has_others,
        allocator: allocator.filter(|_| !is_glibc),
        is_glibc,
        word: &|at| frozen.word(at),
        touched: &|range| frozen.touched(range),
    };
    let mut roots = roots::roots(&view);
    roots.words = words;
    roots.ranges = roots.ranges.iter().flat_map(|range| frozen.touched(range)).collect();
    let bytes = roots.ranges.iter().map(|range| range.end - range.start).sum();
    let found = mark::mark(&blocks, &roots, &frozen);
    let mut check = Check::found(ticks, blocks.iter().map(|block| block.start).zip(found));
    check.serial = live.serial;
    check.roots = Bytes(bytes);
    check.stopped_ns = Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    if !is_glibc {
        let text = "its allocator is not that of glibc: blocks that the allocator's own tables point to look reachable";
        check.doubts.push(text.into());
    }
    if live.has_others {
        let text = "blocks from before it was attached to are not known, so that all memory of the allocator is \
                    searched: blocks that old pointers in freed memory lead to look reachable";
        check.doubts.push(text.into());
    }
    if !whole {
        check.doubts.push("not all memory of the recorder itself is known: what it remembers looks reachable".into());
    }
    Ok(check)
}

fn words_of(registers: &ptrace::Registers) -> [u64; 15] {
    let it = registers;
    [
        it.rax, it.rbx, it.rcx, it.rdx, it.rsi, it.rdi, it.rbp, it.r8, it.r9, it.r10, it.r11, it.r12, it.r13, it.r14,
        it.r15,
    ]
}

/// The memory of a process that stands still.
struct Frozen {
    memory: Memory,
    /// Which pages were ever touched.
    pages: File,
    regions: Vec<Region>,
    /// Read-only data of objects, and data that the dynamic linker has made so; sorted.
    constant: Vec<Range<u64>>,
    /// Pages that were read last, each at a place of its own.
    near: RefCell<Vec<Page>>,
}

/// A page that was read: its first address, and its words as far as there is memory.
#[derive(Clone, Default)]
struct Page {
    at: u64,
    words: Vec<u64>,
}

/// Words of a page.
const WORDS: usize = PAGE as usize / 8;
/// Pages that are remembered: neighbours mostly point to neighbours.
const NEAR: usize = 256;

impl Frozen {
    fn of(pid: u32) -> io::Result<Self> {
        let text = std::fs::read(format!("/proc/{pid}/maps"))?;
        let regions: Vec<Region> = os::process::regions(&text)
            .map(|region| Region {
                range: region.start..region.end,
                permissions: region.permissions.into(),
                file: (region.ino != 0 && region.name.starts_with(b"/"))
                    .then(|| PathBuf::from(std::ffi::OsString::from_vec(region.name.to_vec()))),
                name: region.name.to_vec(),
            })
            .collect();
        let constant = regions.iter().filter(|region| region.file.is_some() && region.permissions.starts_with("r-"));
        Ok(Self {
            memory: Memory::of(pid)?,
            pages: File::open(format!("/proc/{pid}/pagemap"))?,
            constant: constant.map(|region| region.range.clone()).collect(),
            regions,
            near: RefCell::new(vec![Page::default(); NEAR]),
        })
    }

    /// A word at a multiple of eight.
    fn word(&self, at: u64) -> Option<u64> {
        let mut word = [0];
        (at.is_multiple_of(8) && self.near(at, &mut word) == 1).then_some(word[0])
    }

    /// Words of pages that may be remembered; how many.
    fn near(&self, at: u64, words: &mut [u64]) -> usize {
        let mut pages = self.near.borrow_mut();
        let mut done = 0;
        while done < words.len() {
            let at = at + 8 * done as u64;
            let page = &mut pages[(at / PAGE) as usize % NEAR];
            if page.at != at & !(PAGE - 1) || page.words.is_empty() {
                page.at = at & !(PAGE - 1);
                page.words.resize(WORDS, 0);
                let read = self.fill(page.at, &mut page.words);
                page.words.truncate(read);
            }
            let from = (at % PAGE) as usize / 8;
            let there = page.words.get(from..).unwrap_or_default();
            let some = there.len().min(words.len() - done);
            words[done..done + some].copy_from_slice(&there[..some]);
            done += some;
            if some == 0 {
                break;
            }
        }
        done
    }

    fn fill(&self, at: u64, words: &mut [u64]) -> usize {
        let bytes = words.len() * 8;
        // SAFETY: words are eight bytes each, without gaps, and every byte is valid for them.
        let place = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), bytes) };
        self.memory.read_mapped(at, place) / 8
    }

    /// What of a range has pages of its own: the rest is zeros, or as it is in the file.
    fn touched(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        /// Present, or swapped out.
        const THERE: u64 = 3 << 62;
        const PAGES: usize = 8192;
        let mut found: Vec<Range<u64>> = Vec::new();
        let (mut page, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        let mut buffer = vec![0; 8 * PAGES];
        while page < end {
            let count = usize::try_from(end - page).unwrap_or(PAGES).min(PAGES);
            let read = self.pages.read_at(&mut buffer[..8 * count], page * 8).unwrap_or(0);
            if read < 8 {
                // Not known: all of it.
                found.push((page * PAGE).max(range.start)..range.end);
                break;
            }
            for entry in buffer[..read].chunks_exact(8) {
                let there = entry.try_into().is_ok_and(|entry| u64::from_le_bytes(entry) & THERE != 0);
                let part = (page * PAGE).max(range.start)..((page + 1) * PAGE).min(range.end);
                match found.last_mut() {
                    Some(last) if there && last.end == part.start => last.end = part.end,
                    _ if there => found.push(part),
                    _ => {}
                }
                page += 1;
            }
        }
        found
    }

    /// The guest's own memory, and whether that is all of it.
    fn own(&self, list: u64) -> (Vec<Range<u64>>, bool) {
        let Some(object) = self.regions.iter().position(|region| region.range.contains(&list)) else {
            return (Vec::new(), list == 0);
        };
        let mut words = [0; size_of::<Own>() / 8];
        let read = self.fill(list, &mut words);
        let (head, places) = words.split_at(2);
        let places = places.chunks_exact(2).map(|place| place[0]..place[0].saturating_add(place[1]));
        let mut own: Vec<Range<u64>> = places.filter(|place| place.start < place.end).collect();
        own.extend(self.object(object));
        (own, read == words.len() && head[0] <= PLACES as u64)
    }

    /// Everything of the object that a region is of, by its own headers: behind its data the kernel may have put
    /// somebody else's memory without a gap.
    fn object(&self, region: usize) -> Option<Range<u64>> {
        let mut first = self.regions[..=region].iter().rev().skip_while(|region| region.file.is_none());
        let file = first.next()?.file.clone();
        let of_it = |region: &&Region| region.file == file || region.file.is_none();
        let start =
            self.regions[..=region].iter().rev().take_while(of_it).filter(|it| it.file == file).last()?.range.start;
        let half = |at: u64| Some(self.word(at & !7)? >> (8 * (at & 7)) & 0xffff);
        // Program headers: where, how long each, how many.
        let (table, length, count) = (self.word(start + 32)?, half(start + 54)?, half(start + 56)?);
        let headers = (0..count).map(|number| start + table + number * length);
        let loads = headers.filter(|at| self.word(*at).is_some_and(|word| word & 0xffff_ffff == 1));
        let end = loads.filter_map(|at| self.word(at + 16)?.checked_add(self.word(at + 40)?)).max()?;
        Some(start..start.checked_add(end)?.next_multiple_of(PAGE))
    }
}

impl mark::Memory for Frozen {
    fn read(&self, at: u64, words: &mut [u64]) -> usize {
        if words.len() < WORDS { self.near(at, words) } else { self.fill(at, words) }
    }

    fn is_vtable(&self, address: u64) -> bool {
        let index = self.constant.partition_point(|range| range.end <= address);
        address.is_multiple_of(8) && self.constant.get(index).is_some_and(|range| range.contains(&address))
    }
}
