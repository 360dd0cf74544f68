//! Finished files: each stream rewritten as one small file (`measure/heaprec` does it), read block by block, event by
//! event, hostile until shown otherwise.
//!
//! The recorded program writes what is quick to write. Later there is time to put the events of all threads into one
//! order and to say less: a class (size, usable size, stack) once, then its number; an address as the place where the
//! allocator mostly finds one; a block that goes by its place among the live ones. Blocks of events are stored by
//! column and packed with zstd.
//!
//! Nothing is lost but the exact times: events keep their order, and are told to be in the right [`QUANTUM`].
//!
//! ```text
//! "THAWDONE", u32 version
//! sections: u8 kind, u32 length, u32 CRC-32 of kind and content, content
//!   HEAD   u64 ticks of a quantum, the first page of the stream (zstd)
//!   BLOCK  number of events, columns: unpacked length, and if that is not 0, u8 how it is stored, length, bytes
//!   END    number of all events, warnings
//! ```
//!
//! Numbers are of seven bits a byte, the lowest first, where nothing else is said. The columns are described in
//! `columns`.

pub mod columns;
pub mod predict;

use crate::event::{Event, Freer, Maker, MapFlags, Pointer, SAMPLE_MAX, ThreadId, What};
use crate::module::{Module, ModuleId};
use crate::near::Near;
use crate::stack::{Address, StackId, Stacks};
use columns::{COLUMNS, Column, MAGIC, Numbers, SECTION_HEAD, SECTION_MAX, VERSION, checksum, section, unpack};
use heap_wire::{gather, spread, unzigzag};
use model::{Bytes, Error, Exit, Nanos, Result, Warning, WarningKind};
use predict::{Ages, Bucket, Owner, Places, Serials, bucket, gone, taken};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read};
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Times of a finished recording are right to this.
pub const QUANTUM: Nanos = Nanos(100_000);
/// The nodes of the tree of stacks that are ends.
pub const ENDS: usize = heap_wire::mark::FIRST_PC as usize;

/// What an event is: one byte.
pub mod op {
    /// `malloc`.
    pub const MALLOC: u8 = 0;
    /// `calloc`.
    pub const CALLOC: u8 = 1;
    /// A function that aligns.
    pub const ALIGNED: u8 = 2;
    /// `operator new`.
    pub const NEW: u8 = 3;
    /// Replaces what the thread was about to replace.
    pub const REALLOC_NEW: u8 = 4;
    /// Replaces nothing.
    pub const REALLOC_NULL: u8 = 5;
    /// Replaces what is told.
    pub const REALLOC_OTHER: u8 = 6;
    /// A block of a pool.
    pub const POOL_ALLOC: u8 = 7;
    /// `free`, and what does the same.
    pub const FREE: u8 = 8;
    /// The block that `realloc` is about to replace.
    pub const REALLOC_OLD: u8 = 9;
    /// A block goes back to its pool.
    pub const POOL_FREE: u8 = 10;
    /// What the thread was about to replace is still there.
    pub const RESTORED: u8 = 11;
    /// What is told is still there.
    pub const RESTORED_OTHER: u8 = 12;
    /// Memory is mapped.
    pub const MAP: u8 = 13;
    /// Memory is unmapped.
    pub const UNMAP: u8 = 14;
    /// See [`super::rest`].
    pub const RARE: u8 = 15;
    /// A stack is told, of an event that is no allocation.
    pub const WITH_STACK: u8 = 16;
}

/// Bytes of the column of what is rare.
pub mod rest {
    /// The process was forked.
    pub const FORK: u8 = 0;
    /// A thread begins.
    pub const THREAD: u8 = 1;
    /// A thread has a name, which follows.
    pub const NAME: u8 = 2;
    /// In the place of the log2 of an alignment that is no power of two.
    pub const NO_ALIGNMENT: u8 = 255;
}

/// Steps of time.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Ticks at which the first begins.
    pub start: u64,
    /// How long each is.
    pub ticks: NonZeroU64,
}

impl Quantum {
    /// The number of the one that these ticks are in.
    #[inline]
    pub fn of(self, ticks: u64) -> u64 {
        ticks.saturating_sub(self.start) / self.ticks
    }

    /// The first ticks of one.
    pub fn begin(self, quantum: u64) -> u64 {
        quantum.saturating_mul(self.ticks.get()).saturating_add(self.start)
    }
}

/// What the children of a node are told relative to: the last child of the same address.
pub fn above(stacks: &Stacks, parent: StackId) -> usize {
    match parent.0 as usize {
        end if end < ENDS => end,
        _ => ENDS + stacks.node(parent).1 as usize,
    }
}

/// What is known of a process so far: filled while its events are read.
pub(crate) struct Known<'a> {
    pub stacks: &'a mut Stacks,
    pub modules: &'a mut Vec<Module>,
    pub names: &'a mut HashMap<ThreadId, String>,
    pub notes: &'a mut Vec<String>,
    pub warnings: &'a mut Vec<Warning>,
}

/// The sections of a file.
#[derive(Debug)]
struct Sections {
    file: BufReader<File>,
    path: PathBuf,
    /// Number of the one that was read last; the first is 0.
    number: u64,
}

impl Sections {
    fn open(path: &Path) -> Result<Self> {
        let file = os::file::open_unlinked(path, os::file::Access::Read)
            .map_err(|cause| Error::on(Exit::Data, "cannot open", path).because(cause))?;
        let mut sections = Self { file: BufReader::new(file), path: path.to_owned(), number: 0 };
        let mut head = [0; MAGIC.len() + 4];
        sections.fill(&mut head)?;
        let [magic @ .., a, b, c, d] = head;
        if magic != MAGIC {
            return Err(sections.damaged("it does not begin as one"));
        }
        let version = u32::from_le_bytes([a, b, c, d]);
        if version != VERSION {
            return Err(Error::on(Exit::Data, format!("a finished stream of version {version}"), path)
                .because(format!("this thaw reads version {VERSION}"))
                .hint("record it again with this thaw"));
        }
        Ok(sections)
    }

    fn damaged(&self, why: &str) -> Error {
        let what = match self.number {
            0 => "the head of a finished stream is damaged".into(),
            block => format!("block {block} of a finished stream is damaged"),
        };
        Error::on(Exit::Data, what, &self.path).because(why).hint("record it again, or copy it again if it is a copy")
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact(buffer).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("the file ends before its end"),
            _ => Error::on(Exit::Data, "cannot read", &self.path).because(cause),
        })
    }

    /// The next section: its kind and content.
    fn next(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; SECTION_HEAD];
        self.fill(&mut head)?;
        let [kind, a, b, c, d, sum @ ..] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > SECTION_MAX {
            return Err(self.damaged("it says that it is too long"));
        }
        let mut content = Vec::new();
        let read = (&mut self.file).take(length as u64).read_to_end(&mut content);
        let read = read.map_err(|cause| Error::on(Exit::Data, "cannot read", &self.path).because(cause))?;
        if read < length {
            return Err(self.damaged("the file ends within it"));
        }
        if checksum(kind, &content) != u32::from_le_bytes(sum) {
            return Err(self.damaged("its checksum is another one"));
        }
        Ok((kind, content))
    }

    /// The quantum of time and the first page of the stream.
    fn head(&mut self) -> Result<(NonZeroU64, Vec<u8>)> {
        let (kind, content) = self.next()?;
        let page = content.split_first_chunk().filter(|_| kind == section::HEAD).and_then(|(ticks, page)| {
            let page = zstd::bulk::decompress(page, heap_wire::PAGE).ok()?;
            Some((NonZeroU64::new(u64::from_le_bytes(*ticks))?, page))
        });
        let page = page.ok_or_else(|| self.damaged("it is no head"))?;
        self.number += 1;
        Ok(page)
    }
}

/// The first page of the stream that a file was made from, and the ticks of a quantum.
///
/// # Errors
/// It is no finished file, or damaged.
pub fn head(path: &Path) -> Result<(NonZeroU64, Vec<u8>)> {
    Sections::open(path)?.head()
}

/// What allocations have in common.
#[derive(Clone, Copy, Debug)]
struct BlockClass {
    size: u64,
    usable: Option<u64>,
    count: u64,
    stack: Option<StackId>,
}

/// A live block.
#[derive(Clone, Copy, Debug, Default)]
struct LiveAt {
    ptr: u64,
    bucket: Bucket,
}

/// What a thread did last.
#[derive(Clone, Copy, Debug)]
struct ThreadSoFar {
    id: ThreadId,
    /// What it called `realloc` with last.
    pending: Option<u64>,
    /// The same, if it was a block, until that came back.
    replaced: Option<LiveAt>,
    gone: u64,
}

/// The quantum that goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    quantum: u64,
    /// Events in it, and how many of them were read.
    events: u64,
    read: u64,
    last: u64,
}

/// The events of a file.
#[derive(Debug)]
pub(crate) struct FinishedEvents {
    sections: Sections,
    quantum: Quantum,
    rate: f64,
    columns: [Numbers; COLUMNS],
    /// Events of the block that are not read yet.
    left: u64,
    events: u64,
    classes: Vec<BlockClass>,
    threads: Vec<ThreadSoFar>,
    thread: usize,
    run: u64,
    time: Time,
    heap: Near<LiveAt>,
    pools: Near<LiveAt>,
    serial: u64,
    places: Places,
    ages: Ages,
    serials: Serials,
    mapping: u64,
    unknown: u64,
    children: Vec<u32>,
    addresses: u32,
    address: u64,
    ended: bool,
}

impl FinishedEvents {
    /// Opens a file, for a process that began at `start` ticks, `rate` of which are a second.
    ///
    /// # Errors
    /// It is damaged.
    pub fn open(path: &Path, start: u64, rate: f64) -> Result<Self> {
        let mut sections = Sections::open(path)?;
        let (ticks, _) = sections.head()?;
        Ok(Self {
            sections,
            quantum: Quantum { start, ticks },
            rate,
            columns: Default::default(),
            left: 0,
            events: 0,
            classes: Vec::new(),
            threads: Vec::new(),
            thread: 0,
            run: 0,
            time: Time::default(),
            heap: Near::new(0),
            pools: Near::new(0),
            serial: 0,
            places: Places::default(),
            ages: Ages::default(),
            serials: Serials::default(),
            mapping: 0,
            unknown: 0,
            children: vec![0; ENDS],
            addresses: 0,
            address: 0,
            ended: false,
        })
    }

    /// The next event.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn next(&mut self, known: &mut Known<'_>) -> Result<Option<Event>> {
        while self.left == 0 {
            if self.ended {
                return Ok(None);
            }
            self.next_block(known)?;
        }
        self.left -= 1;
        self.events += 1;
        let event = self.event(known).ok_or_else(|| self.sections.damaged("its events cannot be"))?;
        if self.left == 0 {
            if !self.columns.iter().all(Numbers::is_empty) || self.run > 0 || self.time.read < self.time.events {
                return Err(self.sections.damaged("it says more than its events need"));
            }
            self.sections.number += 1;
        }
        Ok(Some(event))
    }

    fn next_block(&mut self, known: &mut Known<'_>) -> Result<()> {
        let (kind, content) = self.sections.next()?;
        let mut content = Numbers::new(content);
        match kind {
            section::BLOCK => {
                let block = |content: &mut Numbers| Some((content.number()?, unpack(content)?));
                let (events, columns) =
                    block(&mut content).ok_or_else(|| self.sections.damaged("its columns cannot be unpacked"))?;
                self.left = events;
                self.columns = columns;
                self.tree(known).ok_or_else(|| self.sections.damaged("its stacks cannot be"))?;
                self.new_classes(known.stacks).ok_or_else(|| self.sections.damaged("its sizes cannot be"))?;
                self.sections.number += u64::from(events == 0);
            }
            section::END => {
                self.end(&mut content, known)
                    .ok_or_else(|| self.sections.damaged("the number of events is another one"))?;
                self.ended = true;
            }
            _ => return Err(self.sections.damaged("it is of an unknown kind")),
        }
        Ok(())
    }

    fn end(&self, content: &mut Numbers, known: &mut Known<'_>) -> Option<()> {
        if content.number()? != self.events {
            return None;
        }
        for _ in 0..content.number()? {
            let text = String::from_utf8_lossy(content.text()?).into_owned();
            known.warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        Some(())
    }

    fn number(&mut self, column: Column) -> Option<u64> {
        self.columns[column as usize].number()
    }

    fn byte(&mut self, column: Column) -> Option<u8> {
        self.columns[column as usize].byte()
    }

    /// New objects, notes, addresses, stacks.
    fn tree(&mut self, known: &mut Known<'_>) -> Option<()> {
        let texts = &mut self.columns[Column::Texts as usize];
        for _ in 0..texts.number()? {
            let (bias, start, end) = (texts.number()?, texts.number()?, texts.number()?);
            let build_id = texts.text()?.to_vec();
            let path = PathBuf::from(OsString::from_vec(texts.text()?.to_vec()));
            known.modules.push(Module { path, build_id, bias, start, end });
        }
        for _ in 0..texts.number()? {
            known.notes.push(String::from_utf8_lossy(texts.text()?).into_owned());
        }
        let addresses = &mut self.columns[Column::Addresses as usize];
        while !addresses.is_empty() {
            self.address = self.address.wrapping_add(unzigzag(addresses.number()?));
            let module = match u32::try_from(addresses.number()?).ok()?.checked_sub(1) {
                Some(module) if (module as usize) < known.modules.len() => Some(ModuleId(module)),
                Some(_) => return None,
                None => None,
            };
            known.stacks.append_address(Address { pc: self.address, module });
            self.addresses = self.addresses.checked_add(1)?;
            self.children.push(0);
        }
        while !self.columns[Column::Parents as usize].is_empty() {
            let up = self.number(Column::Parents)?;
            let index = known.stacks.len();
            let parent = if up < ENDS as u64 { up } else { (index as u64).checked_sub(up - (ENDS as u64 - 1))? };
            let parent = StackId(u32::try_from(parent).ok()?);
            let difference = unzigzag(self.number(Column::Children)?);
            let expected = self.children.get_mut(above(known.stacks, parent))?;
            let address = u32::try_from(u64::from(*expected).wrapping_add(difference)).ok()?;
            if address >= self.addresses {
                return None;
            }
            *expected = address;
            known.stacks.append(parent, address);
        }
        Some(())
    }

    fn new_classes(&mut self, stacks: &Stacks) -> Option<()> {
        while !self.columns[Column::NewClasses as usize].is_empty() {
            let size = self.number(Column::NewClasses)?;
            let count = self.number(Column::NewClasses).filter(|count| *count <= SAMPLE_MAX + 1)?;
            let more = self.number(Column::NewClasses)?;
            let usable = match more.checked_sub(1) {
                Some(more) => Some(size.wrapping_add(unzigzag(more)).checked_sub(1)?),
                None => None,
            };
            let stack = stack(self.number(Column::NewClasses)?, stacks)?;
            self.classes.push(BlockClass { size, usable, count, stack });
        }
        Some(())
    }

    fn event(&mut self, known: &mut Known<'_>) -> Option<Event> {
        let ticks = self.ticks()?;
        let thread = self.thread()?;
        let pending = self.threads.get(thread)?.pending;
        let ops = self.byte(Column::Ops)?;
        let kind = ops & !op::WITH_STACK;
        let mut told = None;
        if ops & op::WITH_STACK != 0 {
            let word = self.columns[Column::Stacks as usize].word()?;
            told = Some(StackId(word)).filter(|stack| (stack.0 as usize) < known.stacks.len());
            told?;
        }
        let (what, told) = match kind {
            op::FREE | op::REALLOC_OLD | op::POOL_FREE => {
                let (by, owner) = match kind {
                    op::FREE => (Freer::Free, Owner::Heap),
                    op::REALLOC_OLD => (Freer::Realloc, Owner::Heap),
                    _ => (Freer::Pool, Owner::Pool),
                };
                let (ptr, block) = self.goes(thread, owner)?;
                if by == Freer::Realloc {
                    let thread = &mut self.threads[thread];
                    thread.pending = Some(ptr);
                    thread.replaced = block.or(thread.replaced);
                }
                (What::Free { ptr: Pointer(ptr), by }, told)
            }
            op::RESTORED => {
                let LiveAt { ptr, bucket } = self.threads[thread].replaced.take()?;
                self.came(ptr, bucket, Owner::Heap);
                (What::Restored { ptr: Pointer(ptr) }, told)
            }
            op::RESTORED_OTHER => {
                self.threads[thread].replaced = None;
                (What::Restored { ptr: Pointer(self.number(Column::Rest)?) }, told)
            }
            op::MAP => {
                let (at, size) = self.mapping()?;
                (What::Map { at, size, flags: MapFlags(self.byte(Column::Rest)?) }, told)
            }
            op::UNMAP => {
                let (at, size) = self.mapping()?;
                (What::Unmap { at, size }, told)
            }
            op::RARE => {
                let what = match self.byte(Column::Rest)? {
                    rest::FORK => What::Fork,
                    rest::THREAD => What::ThreadBegins,
                    rest::NAME => {
                        let name = self.columns[Column::Rest as usize].text()?;
                        known.names.insert(self.threads[thread].id, String::from_utf8_lossy(name).into_owned());
                        What::ThreadNamed
                    }
                    _ => return None,
                };
                (what, told)
            }
            _ => self.alloc(kind, pending)?,
        };
        let since = ticks.saturating_sub(self.quantum.start);
        let at = Nanos((since as f64 * 1e9 / self.rate) as u64);
        Some(Event { at, ticks, thread: self.threads[thread].id, stack: told, what })
    }

    fn alloc(&mut self, kind: u8, replaced: Option<u64>) -> Option<(What, Option<StackId>)> {
        let maker = match kind {
            op::MALLOC => Maker::Malloc,
            op::CALLOC => Maker::Calloc,
            op::NEW => Maker::New,
            op::POOL_ALLOC => Maker::Pool,
            op::REALLOC_NULL => Maker::Realloc(None),
            op::REALLOC_NEW => Maker::Realloc(Some(Pointer(replaced?))),
            op::REALLOC_OTHER => Maker::Realloc(Some(Pointer(self.number(Column::Rest)?))),
            op::ALIGNED => Maker::Aligned(1u64.checked_shl(self.byte(Column::Rest)?.into()).unwrap_or(0)),
            _ => return None,
        };
        let class = *self.classes.get(self.columns[Column::Classes as usize].word()? as usize)?;
        let owner = if maker == Maker::Pool { Owner::Pool } else { Owner::Heap };
        let taken = taken(class.size, class.usable);
        let bucket = bucket(taken).of(owner);
        let replaced = replaced.filter(|_| kind == op::REALLOC_NEW);
        let how = self.byte(Column::Told)?;
        let differences = &mut self.columns[Column::Differences as usize];
        let ptr = self.places.find(self.thread, how, || differences.number(), bucket, taken, replaced)?;
        self.came(ptr, bucket, owner);
        let BlockClass { size, usable, count, stack } = class;
        Some((What::Alloc { ptr: Pointer(ptr), size, maker, usable: usable.map(Bytes), count }, stack))
    }

    fn blocks(&mut self, owner: Owner) -> &mut Near<LiveAt> {
        match owner {
            Owner::Heap => &mut self.heap,
            Owner::Pool => &mut self.pools,
        }
    }

    fn came(&mut self, ptr: u64, bucket: Bucket, owner: Owner) {
        self.serial += 1;
        let serial = self.serial;
        let number = self.ages.made(self.thread, serial);
        self.serials.made(self.thread, number, serial);
        self.blocks(owner).insert(serial, LiveAt { ptr, bucket });
    }

    /// Where the block is that goes, and the block if it is known.
    fn goes(&mut self, thread: usize, owner: Owner) -> Option<(u64, Option<LiveAt>)> {
        let how = self.byte(Column::Gone)?;
        let serial = match how {
            gone::UNKNOWN => {
                let difference = unzigzag(self.number(Column::GoneFar)?);
                self.unknown = gather(spread(self.unknown).wrapping_add(difference));
                return Some((self.unknown, None));
            }
            gone::FAR => self.serial.checked_sub(self.number(Column::GoneFar)?)?,
            gone::RANK => {
                let rank = u32::try_from(self.number(Column::GoneFar)?).ok()?.checked_add(gone::RANKS.into())?;
                self.serials.of(thread, self.ages.find(thread, rank)?)
            }
            rank if rank < gone::RANKS => self.serials.of(thread, self.ages.find(thread, rank.into())?),
            near => self.threads[thread].gone.checked_add_signed(i64::from(near) - gone::SAME)?,
        };
        self.threads[thread].gone = serial;
        self.ages.gone(thread, serial, self.serial.checked_sub(serial)?);
        let block = self.blocks(owner).remove(serial)?;
        self.places.freed(thread, block.ptr, block.bucket);
        Some((block.ptr, Some(block)))
    }

    fn mapping(&mut self) -> Option<(Pointer, u64)> {
        let difference = unzigzag(self.number(Column::Rest)?);
        self.mapping = gather(spread(self.mapping).wrapping_add(difference));
        Some((Pointer(self.mapping), self.number(Column::Rest)?))
    }

    /// When the next event was: those of a quantum are put at equal distances.
    fn ticks(&mut self) -> Option<u64> {
        if self.time.read == self.time.events {
            let number = self.number(Column::Times)?;
            let ahead = if number & 1 == 1 { self.number(Column::Times)? } else { 1 };
            self.time.quantum = self.time.quantum.checked_add(ahead)?;
            (self.time.events, self.time.read) = ((number >> 1).max(1), 0);
        }
        let Time { quantum, events, read, last } = self.time;
        let part = u128::from(self.quantum.ticks.get()) * (2 * u128::from(read) + 1) / (2 * u128::from(events));
        self.time.read += 1;
        let begin = self.quantum.start.checked_add(quantum.checked_mul(self.quantum.ticks.get())?)?;
        self.time.last = begin.saturating_add(part as u64).max(last);
        Some(self.time.last)
    }

    fn thread(&mut self) -> Option<usize> {
        if self.run == 0 {
            self.run = self.number(Column::Runs)?;
            self.thread = usize::try_from(self.number(Column::Threads)?).ok()?;
            if self.thread == self.threads.len() {
                let id = ThreadId(u32::try_from(self.number(Column::Threads)?).ok()?);
                self.places.add_thread();
                self.ages.add_thread();
                self.threads.push(ThreadSoFar { id, pending: None, replaced: None, gone: 0 });
            }
        }
        self.run = self.run.checked_sub(1)?;
        Some(self.thread)
    }
}

/// A stack by its number + 1.
fn stack(number: u64, stacks: &Stacks) -> Option<Option<StackId>> {
    let Some(index) = number.checked_sub(1) else { return Some(None) };
    let index = u32::try_from(index).ok().filter(|index| (*index as usize) < stacks.len())?;
    Some(Some(StackId(index)))
}
