//! Text of a file in memory that all processes of a tree map in place of the file's own, in which the entry of each
//! function that nobody has called yet is a jump to a few instructions that note the call and put the entry back: see
//! [`super::stub`]. No process stops for it, and what one has called is put back for all.
//!
//! In the memory lie, page by page: the text; the code of the entries; the number of the address space, of which each
//! process has a page of its own; a table of the entries; the log. A process maps it twice, the text where the file's
//! was, and all of it, writable, at a distance from there that is the same in each process.

use super::displaced::{self, HEAD};
use super::entries::{Entry, Head, LOG_HEAD, Log, Record};
use super::jumped::is_apart;
use super::module::Module;
use super::shared::{Clock, MOST, REACH, Shared, away, clock_is_constant, is_free, memory_file, write, writes_text};
use super::stub::{self, JUMP, STUB};
use object::Endianness;
use object::elf::{ET_DYN, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use os::process::Mapping;
use os::tracee::TRAP;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const PAGE: u64 = model::PAGE;
/// Of fewer functions, or of fewer that are left, breakpoints cost less than the mappings.
const LEAST: usize = 1000;
/// So many bytes of text for each function cost more to copy than the stops of those that are called.
const SPARSE: u64 = 4096;
/// A replacement of eight bytes, and where it may begin in a cache line: it is seen at once or not at all.
const WINDOW: u64 = 8;
const LINE: u64 = 64;
/// So much text is made at once: it stays in the processor's cache.
const PIECE: usize = 256 << 10;
/// `cmp edi, SIGTRAP; jne +1; int3`
const GUARD: [u8; 6] = [0x83, 0xff, libc::SIGTRAP as u8, 0x75, 1, TRAP];
/// Where in it the trap is.
const GUARD_TRAP: u64 = 5;

/// Where the writable view of an image is to be.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Where it fits in a process that has its text here, and these mappings.
    Of(u64, &'a [Mapping]),
    /// So far below the text that others have room between: no process has it yet.
    Below(u64),
}

/// Where everything lies in the memory: offsets, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    text: u64,
    code: u64,
    space: u64,
    table: u64,
    log: u64,
    end: u64,
}

impl Parts {
    fn of(text: u64, entries: u64) -> Self {
        let pages = |bytes: u64| bytes.next_multiple_of(PAGE);
        let code = pages(text);
        let space = code + pages(guard_begin(entries as usize) as u64 + (GUARD.len() + displaced::MOST) as u64);
        let table = space + PAGE;
        let log = table + pages(entries * size_of::<Entry>() as u64);
        let end = log + pages(LOG_HEAD as u64 + entries * size_of::<Record>() as u64);
        Self { text, code, space, table, log, end }
    }
}

/// Where in the code the first stub begins.
fn stubs_begin() -> usize {
    stub::code().0.len().next_multiple_of(LINE as usize)
}

/// Where in the code the guard begins.
fn guard_begin(entries: usize) -> usize {
    stubs_begin() + entries * STUB
}

/// A first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Index of the function in its module.
    pub function: usize,
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The number that the address space was given.
    pub space: u32,
    /// What the thread's FS register held.
    pub base: u64,
}

/// The memory, mapped here too.
#[derive(Debug)]
pub struct Image {
    file: File,
    inode: (u64, u64),
    memory: Shared,
    /// Offset of the text in the file.
    from: u64,
    parts: Parts,
    /// From the text to the writable view.
    away: i64,
    /// Which function of the module each entry is.
    functions: Vec<usize>,
    /// Pages of the text that are mapped from here.
    runs: Vec<Range<u64>>,
    /// The C library's `sigaction`, if it is in the text: when its first call is noted, its entry becomes a jump to the
    /// guard, which stops for SIGTRAP and goes on with the function for all other signals. A breakpoint would stop for
    /// each, and programs set hundreds.
    guarded: Option<usize>,
    clock: Clock,
}

impl Image {
    /// Of the code of a module, so many bytes from an offset of its file on. `None`: there is not enough in it, or it
    /// is not safe.
    ///
    /// # Errors
    /// No memory.
    pub fn of(module: &mut Module, (from, len): (u64, u64), place: Place<'_>) -> io::Result<Option<Self>> {
        if !is_worthwhile(module, from, len) || !clock_is_constant() || writes_text(module.bytes(0, usize::MAX)) {
            return Ok(None);
        }
        module.bring(from, len);
        module.find_entered((from, len));
        let module = &*module;
        let text = module.bytes(from, len as usize);
        let plan = |guarded: Option<usize>| {
            let runs = runs(module, from, text.len() as u64, guarded);
            let functions = armed(module, from, text, &runs);
            (runs, functions, guarded)
        };
        let has_guarded = |(_, functions, guarded): &(_, Vec<usize>, Option<usize>)| {
            guarded.is_none_or(|guarded| functions.binary_search(&guarded).is_ok())
        };
        let (runs, functions, guarded) =
            Some(plan(guardable(module, from, text))).filter(has_guarded).unwrap_or_else(|| plan(None));
        let parts = Parts::of(text.len() as u64, functions.len() as u64);
        // The table's numbers and offsets have 32 bits.
        if functions.len() < LEAST || parts.end > MOST {
            return Ok(None);
        }
        let away = match place {
            Place::Of(start, maps) => away(start, parts.end, maps),
            Place::Below(way) => Some(-(way + parts.end).next_multiple_of(PAGE).cast_signed()),
        };
        let Some(away) = away.filter(|away| away.unsigned_abs() < REACH) else { return Ok(None) };
        let (fd, inode) = memory_file("thaw-text", parts.end)?;
        let memory = Shared::of(&fd, parts.end as usize)?;
        let clock = Clock::now();
        let file = File::from(fd);
        let image = Self { file, inode, memory, from, parts, away, functions, runs, guarded, clock };
        image.fill(module, text)?;
        Ok(Some(image))
    }

    /// Writes text, code, table and the head of the log. In pieces that stay in the processor's cache, and by system
    /// calls: a page that is first met through a mapping costs a fault, and is emptied before it is filled.
    fn fill(&self, module: &Module, text: &[u8]) -> io::Result<()> {
        let too_far = || io::Error::other("a text does not fit");
        let (parts, away, from) = (self.parts, self.away, self.from);
        let (code, common) = stub::code();
        let from_code = |part: u64| part.cast_signed() - parts.code.cast_signed();
        let head = Head {
            alias: from_code(0),
            table: from_code(parts.table),
            log: from_code(parts.log),
            text: from_code(0) - away,
            space: from_code(parts.space),
        };
        let guard_at = guard_begin(self.functions.len());
        let mut stubs = vec![0; guard_at];
        stubs[..code.len()].copy_from_slice(code);
        write(&mut stubs, 0, head);
        let mut table = vec![0; self.functions.len() * size_of::<Entry>()];
        let mut armed = self.functions.iter().copied().enumerate().peekable();
        let mut piece = Vec::new();
        let pieces = self.runs.iter().flat_map(|run| {
            let end = run.end.min(text.len() as u64);
            (run.start..end).step_by(PIECE).map(move |begin| begin as usize..(begin as usize + PIECE).min(end as usize))
        });
        for range in pieces {
            piece.clear();
            piece.extend_from_slice(&text[range.clone()]);
            for index in module.functions_in(from + range.start as u64, from + range.end as u64) {
                let in_text = (module.functions[index].offset - from) as usize;
                let at = in_text - range.start;
                let Some((number, _)) = armed.next_if(|(_, armed)| *armed == index) else {
                    if !module.is_called(index) {
                        piece[at] = TRAP;
                    }
                    continue;
                };
                let stub_at = stubs_begin() + number * STUB;
                let stub = stub::stub(number, stub_at, common).ok_or_else(too_far)?;
                stubs[stub_at..stub_at + STUB].copy_from_slice(&stub);
                let mut original = [0; 8];
                original[..JUMP].copy_from_slice(&text[in_text..in_text + JUMP]);
                if self.guarded == Some(index) {
                    let way = away + (parts.code as usize + guard_at) as i64 - in_text as i64;
                    let guard = guard(&text[in_text..], way).ok_or_else(too_far)?;
                    original[..JUMP].copy_from_slice(&stub::jump(0, way).ok_or_else(too_far)?);
                    stubs.splice(guard_at.., guard);
                }
                let entry = Entry { offset: in_text as u32, claimed: 0, original: u64::from_le_bytes(original) };
                write(&mut table, number * size_of::<Entry>(), entry);
                let jump = stub::jump(in_text as i64, away + (parts.code as usize + stub_at) as i64);
                // It lies in one cache line, so in one piece.
                piece[at..at + JUMP].copy_from_slice(&jump.ok_or_else(too_far)?);
            }
            self.file.write_all_at(&piece, range.start as u64)?;
        }
        let mut log = [0; size_of::<Log>()];
        write(&mut log, 0, Log { begun: 0, room: self.functions.len() as u64 });
        for (bytes, at) in [(&stubs[..], parts.code), (&table, parts.table), (&log, parts.log)] {
            self.file.write_all_at(bytes, at)?;
        }
        Ok(())
    }

    /// How far below the text the next image has to begin that any process may map together with this one.
    pub fn below(&self) -> u64 {
        self.away.unsigned_abs()
    }

    /// Where a process stops for `sigaction` of SIGTRAP that has the text's byte at an offset of the file here; what
    /// follows goes on with the function. `None`: a breakpoint does it, or nothing.
    pub fn guard(&self, address: u64, offset_in_file: u64) -> Option<u64> {
        self.guarded?;
        let trap = self.parts.code + guard_begin(self.functions.len()) as u64 + GUARD_TRAP;
        Some(address.wrapping_sub(offset_in_file - self.from).wrapping_add_signed(self.away).wrapping_add(trap))
    }

    /// The memory as `/proc/PID/maps` names it.
    pub fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// The file's offset of a place of the memory; `None`: it is not the text.
    pub fn offset_in_file(&self, offset: u64) -> Option<u64> {
        (offset < self.parts.code).then_some(self.from + offset)
    }

    /// Whether code of the file, so many bytes from an offset on, is this text.
    pub fn is_of(&self, offset: u64, len: u64) -> bool {
        offset == self.from && len == self.parts.text
    }

    /// Which mappings a process has to make whose text begins at `start`, in this order; the first is of all of it, the
    /// writable one. `None`: something else is there.
    pub fn mappings(&self, start: u64, maps: &[Mapping]) -> Option<Vec<Wanted>> {
        let view = start.checked_add_signed(self.away)?;
        if !is_free(view, self.parts.end, maps) {
            return None;
        }
        let Parts { code, space, end, .. } = self.parts;
        let first = Wanted { address: view, len: end, what: What::View, offset: 0 };
        let of_code = Wanted { address: view + code, len: space - code, what: What::Code, offset: code };
        let own = Wanted { address: view + space, len: PAGE, what: What::Own, offset: 0 };
        let text = self.runs.iter().map(|run| Wanted {
            address: start + run.start,
            len: run.end - run.start,
            what: What::Code,
            offset: run.start,
        });
        Some([first, of_code, own].into_iter().chain(text).collect())
    }

    /// Ranges of the file that processes map from here.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|run| run.start + self.from..run.end + self.from)
    }

    /// A path by which a process of the same user can open it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Puts a byte of the text back, or plants a trap, for all processes.
    pub fn set_byte(&self, offset_in_file: u64, byte: u8) {
        if let Ok(at) = usize::try_from(offset_in_file - self.from) {
            self.memory.set(at, byte);
        }
    }

    /// What was noted until now, and how many calls were claimed and not noted: their process was ended in the middle.
    pub fn noted(&self) -> (Vec<Noted>, usize) {
        let ns = self.clock.to_ns();
        let log: Log = self.memory.read(self.parts.log as usize);
        let count = usize::try_from(log.begun).unwrap_or(usize::MAX).min(self.functions.len());
        let records = (0..count).filter_map(|number| {
            let place = self.parts.log as usize + LOG_HEAD + number * size_of::<Record>();
            let record: Record = self.memory.read(place);
            let function = *self.functions.get(record.entry as usize)?;
            let Record { at, space, base, .. } = record;
            (at != 0).then(|| Noted { function, at_ns: ns(at), space, base })
        });
        let noted: Vec<_> = records.collect();
        let claimed = (0..self.functions.len())
            .filter(|number| {
                let entry: Entry = self.memory.read(self.parts.table as usize + number * size_of::<Entry>());
                entry.claimed != 0
            })
            .count();
        let lost = claimed.saturating_sub(noted.len());
        (noted, lost)
    }
}

/// A mapping that a process has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// What it is for.
    pub what: What,
    /// Of the memory.
    pub offset: u64,
}

/// What a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All of it, to write: nothing may be there.
    View,
    /// To run, and never to write: it is shared.
    Code,
    /// To run, and each process's own.
    Copy,
    /// The process's own number.
    Own,
}

/// Whether so much of a module has functions enough.
pub fn is_worthwhile(module: &Module, from: u64, len: u64) -> bool {
    let count = module.functions_in(from, from.saturating_add(len)).len();
    let is_there = usize::try_from(len).is_ok_and(|len| module.bytes(from, len).len() == len);
    !module.is_32 && count >= LEAST && len <= SPARSE * count as u64 && is_there
}

/// Pages of the text without places that the tracer watches for itself, whose traps are set again and again, and each
/// process has its own; and without code that the program copies, which it may map again from its file.
fn runs(module: &Module, from: u64, len: u64, guarded: Option<usize>) -> Vec<Range<u64>> {
    let end = len.next_multiple_of(PAGE);
    let guarded = guarded.map(|index| module.functions[index].offset);
    let mut hooked: Vec<u64> = module
        .hooked()
        .filter(|offset| Some(*offset) != guarded)
        .filter_map(|offset| offset.checked_sub(from))
        .filter(|at| *at < end)
        .map(|at| at / PAGE * PAGE)
        .collect();
    if let Some(copied) = &module.copied {
        let (begin, behind) = (copied.start.max(from), copied.end.min(from + end));
        hooked.extend((begin..behind).map(|offset| (offset - from) / PAGE * PAGE).step_by(PAGE as usize));
        hooked.extend(behind.checked_sub(from + 1).filter(|_| begin < behind).map(|at| at / PAGE * PAGE));
    }
    hooked.sort_unstable();
    hooked.dedup();
    let begins = std::iter::once(0).chain(hooked.iter().map(|page| page + PAGE));
    let ends = hooked.iter().copied().chain([end]);
    begins.zip(ends).map(|(begin, end)| begin..end).filter(|run| !run.is_empty()).collect()
}

/// The C library's `sigaction`, if a guard can stand in front of it: see [`Image::guarded`].
fn guardable(module: &Module, from: u64, text: &[u8]) -> Option<usize> {
    let index = module.function_at(module.hooks.sigaction?)?;
    let at = usize::try_from(module.functions[index].offset.checked_sub(from)?).ok()?;
    guard(text.get(at..)?, 0).map(|_| index)
}

/// The guard in front of a function that begins with `code`, so far behind its begin. Its first instructions must not
/// care where they are, nor what flags they find.
fn guard(code: &[u8], way: i64) -> Option<Vec<u8>> {
    const ANYWHERE: u64 = 1 << 46;
    let code = &code[..code.len().min(HEAD)];
    let piece = displaced::for_jump_at_begin(code, 0, u64::MAX).ok().filter(|piece| !piece.calls(code))?;
    let to = ANYWHERE.checked_add_signed(way)?.checked_add(GUARD.len() as u64)?;
    Some([&GUARD[..], &displaced::moved(&piece, code, ANYWHERE, to)?].concat())
}

/// Which functions can begin with a jump. The others keep a breakpoint.
fn armed(module: &Module, from: u64, text: &[u8], runs: &[Range<u64>]) -> Vec<usize> {
    let all = &module.functions;
    let is_whole = |index: &usize| {
        let function = all[*index];
        let at = function.offset - from;
        let is_long = function.len == 0 || function.len >= JUMP as u64;
        let fits = at % LINE <= LINE - WINDOW && at + WINDOW <= text.len() as u64;
        is_long && is_apart(all, *index) && fits && runs.iter().any(|run| run.contains(&at) && at + WINDOW <= run.end)
    };
    module
        .functions_in(from, from + text.len() as u64)
        .filter(is_whole)
        .filter(|index| !module.is_called(*index) && module.hooks.ptrace != Some(all[*index].offset))
        .filter(|index| !module.is_entered(*index))
        .collect()
}

/// The largest piece of code of a file as its loader maps it: offset and bytes, in whole pages. `None`: it has none, or
/// lies at a place of its own, so low that nothing fits below.
pub fn code(bytes: &[u8]) -> Option<(u64, u64)> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    if header.e_type(endian) != ET_DYN {
        return None;
    }
    let headers = header.program_headers(endian, bytes).ok()?.iter();
    let loads = headers.filter(|it| it.p_type(endian) == PT_LOAD && it.p_flags(endian).0 & PF_X.0 != 0);
    let pages = loads.filter_map(|load| {
        let (offset, address) = (load.p_offset(endian), load.p_vaddr(endian));
        let end = address.checked_add(load.p_filesz(endian))?.checked_next_multiple_of(PAGE)?;
        Some((offset / PAGE * PAGE, end - address / PAGE * PAGE))
    });
    pages.max_by_key(|(_, len)| *len)
}
