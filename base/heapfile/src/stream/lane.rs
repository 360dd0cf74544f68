//! One lane of a stream: the sequence of its records, and what they refer back to.

use super::{Frames, punch, read_at};
use crate::event::{self, Brief, Deed, ThreadId};
use crate::stack::{StackId, Stacks};
use crate::wire::{self, Body, Chunk, Fields, Meta, StackPart};
use heap_wire::{DICTIONARY, DICTIONARY_FRAMES, UNKNOWN_SLOP, USABLE_SIZES, kind, mark};
use model::{Result, Warning, WarningKind, shown};
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// What a record turned out to be.
pub(crate) enum Taken<'a> {
    Event(Brief),
    /// About the stream itself, or rare: with its ticks and thread.
    Meta(u64, ThreadId, Meta<'a>),
}

/// What all events of a stream have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    pub tells_usable: bool,
    pub sample_bytes: u64,
}

/// Kinds that are no events of the program: the end, what tells about the next one, what is unknown or rare.
const NO_EVENTS: u16 = 1 << kind::END | 1 << kind::USABLE | 1 << (kind::USABLE + 1) | 1 << kind::META;

/// What an event is, by its kind; a `realloc` may have replaced nothing.
const DEEDS: [Deed; 16] = {
    let mut deeds = [Deed::Fork; 16];
    deeds[kind::MALLOC as usize] = Deed::Malloc;
    deeds[kind::CALLOC as usize] = Deed::Calloc;
    deeds[kind::ALIGNED as usize] = Deed::Aligned;
    deeds[kind::NEW as usize] = Deed::New;
    deeds[kind::FREE as usize] = Deed::Free;
    deeds[kind::REALLOC_OLD as usize] = Deed::ReallocOld;
    deeds[kind::REALLOC_NEW as usize] = Deed::Realloc;
    deeds[kind::REALLOC_FAILED as usize] = Deed::Restored;
    deeds[kind::MAP as usize] = Deed::Map;
    deeds[kind::UNMAP as usize] = Deed::Unmap;
    deeds[kind::POOL_ALLOC as usize] = Deed::PoolAlloc;
    deeds[kind::POOL_FREE as usize] = Deed::PoolFree;
    deeds
};

/// An entry of no size.
const NO_SIZE: (u64, u32) = (u64::MAX, 0);

/// Frames that are told by the number of their entry.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    count: u8,
    ids: [u32; DICTIONARY_FRAMES],
    /// What they led to last: from which stack, of which generation of frames, which ones.
    led: Option<(Option<StackId>, u32)>,
    stacks: [StackId; DICTIONARY_FRAMES],
}

const NO_SEQUENCE: Sequence =
    Sequence { count: 0, ids: [0; DICTIONARY_FRAMES], led: None, stacks: [StackId(0); DICTIONARY_FRAMES] };

#[derive(Debug)]
pub struct Lane {
    file: Arc<File>,
    path: PathBuf,
    /// Which lane of the stream it is.
    pub number: u32,
    /// Chunks and where they are, by sequence.
    chunks: VecDeque<(Chunk, u64)>,
    /// The chunk that is read.
    chunk: usize,
    bytes: Vec<u8>,
    at: usize,
    ticks: u64,
    pointer: u64,
    tid: u32,
    /// Nodes of the last stack, outermost first; the first is its end.
    stack: Vec<StackId>,
    table: Vec<Sequence>,
    replaces: Option<u64>,
    /// What the next block has beyond its size, if that was told.
    told_slop: Option<u32>,
    /// Keys of sizes, and what the last block of each had beyond.
    slops: Vec<(u64, u32)>,
    damaged: bool,
    /// If it is still written: what becomes of what was read.
    growing: Option<AfterRead>,
}

/// What becomes of the part of a growing stream that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRead {
    /// It stays.
    Kept,
    /// It is freed on the disk.
    Freed,
}

impl Lane {
    /// A lane of a stream that is still being written. It begins with [`Lane::peek`].
    pub fn growing(file: Arc<File>, path: PathBuf, number: u32, after: AfterRead) -> Self {
        Self { growing: Some(after), ..Self::new(file, path, number) }
    }

    pub fn new(file: Arc<File>, path: PathBuf, number: u32) -> Self {
        Self {
            file,
            path,
            number,
            chunks: VecDeque::new(),
            chunk: 0,
            bytes: Vec::new(),
            at: 0,
            ticks: 0,
            pointer: 0,
            tid: 0,
            stack: vec![Stacks::end(mark::ROOT)],
            table: vec![NO_SEQUENCE; DICTIONARY],
            replaces: None,
            told_slop: None,
            slops: vec![NO_SIZE; USABLE_SIZES],
            damaged: false,
            growing: None,
        }
    }

    pub fn add(&mut self, chunk: Chunk, offset: u64) {
        // Mostly they come in order.
        let later = self.chunks.iter().rev().take_while(|(other, _)| other.sequence > chunk.sequence).count();
        self.chunks.insert(self.chunks.len() - later, (chunk, offset));
    }

    /// Cuts off the chunks that follow a hole, reads the first; the ticks of the first record.
    pub fn begin(&mut self) -> Result<Option<u64>> {
        let whole = self.chunks.iter().zip(0u32..).take_while(|((chunk, _), number)| chunk.sequence == *number).count();
        self.damaged = whole < self.chunks.len();
        self.chunks.truncate(whole);
        if whole == 0 {
            return Ok(None);
        }
        self.load()?;
        self.peek()
    }

    fn load(&mut self) -> Result<()> {
        let (chunk, offset) = self.chunks[self.chunk];
        self.bytes.resize(chunk.bytes as usize, 0);
        let read = read_at(&self.file, &self.path, &mut self.bytes, offset)?;
        self.bytes.truncate(read);
        self.at = size_of::<heap_wire::ChunkHeader>();
        self.ticks = chunk.ticks;
        Ok(())
    }

    /// When the next record was made; `None`: there is none.
    pub(crate) fn peek(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some(elapsed) = wire::elapsed(&self.bytes, self.at) {
                return Ok(Some(self.ticks.saturating_add(elapsed)));
            }
            if let Some(after) = self.growing {
                if !self.grow(after)? {
                    return Ok(None);
                }
                continue;
            }
            if self.chunk + 1 >= self.chunks.len() {
                return Ok(None);
            }
            self.chunk += 1;
            self.load()?;
        }
    }

    /// Reads what was written since; `false`: nothing, so far.
    ///
    /// A chunk that is followed by another one was complete before the other began, so what is there now is all of it.
    fn grow(&mut self, after: AfterRead) -> Result<bool> {
        let Some((chunk, offset)) = self.chunks.front().copied().filter(|_| !self.damaged) else { return Ok(false) };
        if self.bytes.is_empty() {
            // The first one may be told after later ones.
            if chunk.sequence == 0 {
                self.load()?;
            }
            return Ok(chunk.sequence == 0);
        }
        let mut header = [0; 2];
        let there = read_at(&self.file, &self.path, &mut header, offset + self.at as u64)?;
        if self.at + header.len() <= self.bytes.len() && there == header.len() && header != [0; 2] {
            read_at(&self.file, &self.path, &mut self.bytes[self.at..], offset + self.at as u64)?;
            return Ok(wire::elapsed(&self.bytes, self.at).is_some());
        }
        let next = chunk.sequence.wrapping_add(1);
        if self.chunks.get(1).is_none_or(|(chunk, _)| chunk.sequence != next) {
            return Ok(false);
        }
        if after == AfterRead::Freed {
            punch(&self.file, &self.path, offset, u64::from(chunk.bytes))?;
        }
        self.chunks.pop_front();
        self.load()?;
        Ok(true)
    }

    /// When the record before the next one was made.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Whether nothing that is known of it was left unread.
    pub fn is_read(&self) -> bool {
        !self.damaged && self.chunks.len() == 1 && !self.bytes.is_empty()
    }

    /// Bytes of chunks that are complete and not read to their end: the last one is still written. Of a damaged lane
    /// nothing more is read.
    pub fn waiting(&self) -> u64 {
        let complete = if self.damaged { 0 } else { self.chunks.len().saturating_sub(1) };
        self.chunks.iter().take(complete).map(|(chunk, _)| u64::from(chunk.bytes)).sum()
    }

    /// A warning, if the lane ended in damage.
    pub fn damage(&self) -> Option<Warning> {
        self.damaged.then(|| self.missing())
    }

    /// A warning that something is missing.
    pub fn missing(&self) -> Warning {
        let text = format!("{} is damaged: events of thread {} are missing", shown(&self.path), self.tid);
        Warning::new(WarningKind::LostRecords, text)
    }

    /// Takes the events that follow, up to `last` ticks and to the next record that is none: so many that `batch` has
    /// `full`.
    pub(crate) fn take_many(
        &mut self,
        last: u64,
        full: usize,
        batch: &mut Vec<Brief>,
        common: Common,
        stacks: &mut Stacks,
        frames: &mut Frames,
    ) {
        // The records borrow the chunk while the lane changes: the chunk is put back right after.
        let bytes = std::mem::take(&mut self.bytes);
        let mut whole = true;
        while batch.len() < full
            && let Some(fields) = wire::fields(&bytes, self.at)
        {
            let ticks = self.ticks.saturating_add(fields.elapsed);
            if ticks > last {
                break;
            }
            if NO_EVENTS >> fields.kind & 1 != 0 {
                if fields.kind != kind::USABLE {
                    break;
                }
                self.usable(fields.difference);
                (self.at, self.ticks) = (fields.next, ticks);
                continue;
            }
            let event = wire::stack(&bytes, &fields)
                .and_then(|(stack, next)| Some((self.event(ticks, &fields, stack, common, stacks, frames)?, next)));
            let Some((event, next)) = event else {
                whole = false;
                break;
            };
            batch.push(event);
            (self.at, self.ticks) = (next, ticks);
        }
        self.bytes = bytes;
        if !whole {
            self.end();
        }
    }

    /// Takes the next record; `None`: it is damaged (the lane ends), of a kind that this version does not know, or only
    /// says what the next one means.
    pub fn take(&mut self, common: Common, stacks: &mut Stacks, frames: &mut Frames) -> Option<Taken<'_>> {
        let bytes = std::mem::take(&mut self.bytes);
        let Some(record) = wire::record(&bytes, self.at) else {
            self.end();
            return None;
        };
        let start = self.at;
        (self.at, self.ticks) = (record.next, self.ticks.saturating_add(record.elapsed));
        let taken = match record.body {
            Body::Event(fields, stack) => {
                let event = self.event(self.ticks, &fields, stack, common, stacks, frames);
                self.bytes = bytes;
                if event.is_none() {
                    self.end();
                }
                return event.map(Taken::Event);
            }
            Body::Usable(slop) => {
                self.usable(slop);
                None
            }
            Body::Meta(what, payload) => {
                match wire::meta(what, payload) {
                    Some(Meta::Thread(tid)) => {
                        self.tid = tid;
                        self.forget();
                    }
                    Some(Meta::Reset) => self.forget(),
                    _ => {}
                }
                Some(start)
            }
        };
        self.bytes = bytes;
        match wire::record(&self.bytes, taken?)?.body {
            Body::Meta(what, payload) => Some(Taken::Meta(self.ticks, ThreadId(self.tid), wire::meta(what, payload)?)),
            Body::Event { .. } | Body::Usable(_) => None,
        }
    }

    /// What follows is damaged.
    #[cold]
    fn end(&mut self) {
        self.damaged = true;
        self.bytes.clear();
        self.chunk = self.chunks.len();
    }

    fn usable(&mut self, slop: u64) {
        self.told_slop = Some(u32::try_from(slop).unwrap_or(UNKNOWN_SLOP));
    }

    /// An event; `None`: it is damaged.
    #[inline(always)]
    fn event(
        &mut self,
        ticks: u64,
        fields: &Fields,
        stack: StackPart<'_>,
        common: Common,
        stacks: &mut Stacks,
        frames: &mut Frames,
    ) -> Option<Brief> {
        let Fields { kind, difference, size, extra, .. } = *fields;
        self.pointer = self.pointer.wrapping_add(heap_wire::unzigzag(difference));
        let ptr = heap_wire::gather(self.pointer);
        let stack = self.follow(stack, stacks, frames)?;
        // `realloc(p, 0)` that freed is followed by neither of those that take it.
        let before = std::mem::take(&mut self.replaces);
        let deed = match DEEDS[usize::from(kind & 15)] {
            Deed::Realloc if before.is_none() => Deed::ReallocNull,
            Deed::ReallocOld => {
                self.replaces = Some(ptr);
                Deed::ReallocOld
            }
            deed => deed,
        };
        let (mut usable, mut count) = (0, 1);
        if kind::makes_block(kind) {
            let slop = self.slop(size, extra);
            if common.tells_usable
                && let Some(slop) = slop
            {
                // 0 if there is no such number.
                usable = size.saturating_add(slop.into()).wrapping_add(1);
            }
            count = event::count(size, common.sample_bytes, ticks ^ ptr);
        }
        let (thread, replaces) = (ThreadId(self.tid), before.unwrap_or(0));
        // There are never as many stacks as numbers.
        let stack = stack.map_or(0, |stack| stack.0.saturating_add(1));
        Some(Brief { ticks, ptr, size, usable, replaces, count, thread, stack, deed, extra })
    }

    /// What a new block has beyond its size.
    fn slop(&mut self, size: u64, alignment: u8) -> Option<u32> {
        let key = heap_wire::usable_key(size, alignment);
        let entry = self.slops.get_mut(heap_wire::usable_slot(key))?;
        let slop = match self.told_slop.take() {
            Some(slop) => {
                *entry = (key, slop);
                slop
            }
            None if entry.0 == key => entry.1,
            None => heap_wire::expected_slop(size),
        };
        (slop != UNKNOWN_SLOP).then_some(slop)
    }

    fn forget(&mut self) {
        self.stack.clear();
        self.stack.push(Stacks::end(mark::ROOT));
        self.table.fill(NO_SEQUENCE);
        self.pointer = 0;
        self.replaces = None;
        self.told_slop = None;
        self.slops.fill(NO_SIZE);
    }

    /// The stack of a record; the outer `None`: damage.
    #[inline(always)]
    fn follow(&mut self, part: StackPart<'_>, stacks: &mut Stacks, frames: &mut Frames) -> Option<Option<StackId>> {
        // Most records have none of their own, and need no space for them.
        match part {
            StackPart::None => Some(None),
            StackPart::Same => Some(self.stack.last().copied()),
            _ => self.follow_frames(part, stacks, frames),
        }
    }

    fn follow_frames(
        &mut self,
        part: StackPart<'_>,
        stacks: &mut Stacks,
        frames: &mut Frames,
    ) -> Option<Option<StackId>> {
        let (keep, ids, width) = match part {
            StackPart::None | StackPart::Same => return None,
            StackPart::Narrow(keep, ids) => (keep, ids, 2),
            StackPart::Wide(keep, ids) => (keep, ids, 4),
            StackPart::Known(keep, entry) => return self.go_on_known(keep, entry, stacks, frames),
        };
        let each = ids.chunks_exact(width);
        self.remember(each.map(|id| id.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))))?;
        self.keep(keep)?;
        frames.follow(ids, width, &mut self.stack, stacks)?;
        self.stack.last().map(|stack| Some(*stack))
    }

    /// Remembers new frames, if they are few.
    fn remember(&mut self, ids: impl ExactSizeIterator<Item = u32> + Clone) -> Option<()> {
        let count = ids.len();
        if (1..=DICTIONARY_FRAMES).contains(&count) {
            let entry = self.table.get_mut(heap_wire::slot_of(ids.clone().fold(0, heap_wire::mix)))?;
            (entry.count, entry.led) = (count as u8, None);
            entry.ids.iter_mut().zip(ids).for_each(|(place, id)| *place = id);
        }
        Some(())
    }

    /// Of the last stack, `keep` elements stay.
    fn keep(&mut self, keep: u8) -> Option<()> {
        let keep = usize::from(keep);
        (keep <= self.stack.len()).then(|| self.stack.truncate(keep))
    }

    /// Of the last stack, `keep` elements stay, and those of an entry follow.
    fn go_on_known(&mut self, keep: u8, entry: u8, stacks: &mut Stacks, frames: &Frames) -> Option<Option<StackId>> {
        self.keep(keep)?;
        let entry = self.table.get_mut(usize::from(entry)).filter(|entry| entry.count > 0)?;
        let count = usize::from(entry.count);
        let (from, led) = (self.stack.len(), Some((self.stack.last().copied(), frames.generation)));
        if entry.led == led {
            self.stack.extend_from_slice(entry.stacks.get(..count)?);
        } else {
            frames.push(entry.ids.get(..count)?.iter().copied(), &mut self.stack, stacks)?;
            entry.stacks.get_mut(..count)?.copy_from_slice(&self.stack[from..]);
            entry.led = led;
        }
        self.stack.last().map(|stack| Some(*stack))
    }
}
