//! Writing a finished file: the events of one process, each entered into columns, blocks of them packed.

use super::columns::{BLOCK, COLUMNS, Column, MAGIC, Packer, VERSION, put, put_bytes, section, section_head};
use super::predict::{Bucket, Owner, Places, bucket, gone, taken};
use super::{Quantum, op, rest};
use crate::index::{self, Index, Key};
use crate::near::Near;
use crate::stack::StackId;
use crate::stream::{Event, Events, Freer, Maker, ThreadId, What};
use heap_wire::{spread, zigzag};
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// New nodes of the tree of stacks, and new texts, after which a block ends before it is full.
const NODES: usize = 1 << 20;
const TEXTS: usize = 1 << 10;

/// What allocations have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    size: u64,
    /// Usable size + 1; 0: unknown.
    usable: u64,
    count: u64,
    /// Stack + 1; 0: none.
    stack: u64,
}

impl Key for Class {
    fn hash(&self) -> u64 {
        index::hash(self.size ^ self.stack << 32, self.usable ^ self.count << 48)
    }
}

/// What is known of a live block, in eight bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Live(u64);

impl Live {
    fn new(serial: u64, bucket: Bucket) -> Self {
        Self(serial << 16 | u64::from(bucket.0))
    }

    fn parts(self) -> (u64, Bucket) {
        (self.0 >> 16, Bucket(self.0 as u16))
    }
}

/// What a thread did last.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// What `realloc` is about to replace.
    pending: Option<(u64, Bucket)>,
    /// The block that it gave back last.
    gone: u64,
}

/// Enters events.
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    packer: Packer,
    columns: [Vec<u8>; COLUMNS],
    block: Vec<u8>,
    quantum: Quantum,
    in_block: u32,
    events: u64,
    /// Numbers of classes, and how many there are.
    classes: Index<Class>,
    told_classes: u32,
    threads: Vec<Thread>,
    numbers: HashMap<ThreadId, usize>,
    thread: (ThreadId, usize),
    told_threads: usize,
    /// Events of this thread in a row.
    run: u64,
    /// Quantum that is going on, and events in it.
    time: (u64, u64),
    last_time: u64,
    heap: Near<Live>,
    pools: Near<Live>,
    serial: u64,
    places: Places,
    mapping: u64,
    unknown: u64,
    nodes: usize,
    /// The last child of an address.
    children: Vec<u32>,
    addresses: usize,
    address: u64,
    modules: usize,
    notes: usize,
}

impl<'a> Writer<'a> {
    /// Begins a file: `page` is the first page of the stream.
    pub fn new(out: &'a mut dyn Write, page: &[u8], quantum: Quantum, level: i32) -> io::Result<Self> {
        let mut writer = Self {
            out,
            packer: Packer::new(level)?,
            columns: Default::default(),
            block: Vec::new(),
            quantum,
            in_block: 0,
            events: 0,
            classes: Index::default(),
            told_classes: 0,
            threads: Vec::new(),
            numbers: HashMap::new(),
            thread: (ThreadId(u32::MAX), usize::MAX),
            told_threads: 0,
            run: 0,
            time: (0, 0),
            last_time: 0,
            heap: Near::new(4),
            pools: Near::new(3),
            serial: 0,
            places: Places::default(),
            mapping: 0,
            unknown: 0,
            nodes: super::ENDS,
            children: vec![0; super::ENDS],
            addresses: 0,
            address: 0,
            modules: 0,
            notes: 0,
        };
        writer.out.write_all(&MAGIC)?;
        writer.out.write_all(&VERSION.to_le_bytes())?;
        let mut head = quantum.ticks.get().to_le_bytes().to_vec();
        head.extend(zstd::bulk::compress(page, level)?);
        writer.section(section::HEAD, &head)?;
        Ok(writer)
    }

    fn section(&mut self, kind: u8, content: &[u8]) -> io::Result<()> {
        self.out.write_all(&section_head(kind, content))?;
        self.out.write_all(content)
    }

    fn column(&mut self, column: Column) -> &mut Vec<u8> {
        &mut self.columns[column as usize]
    }

    /// Enters an event; `events` is what gave it.
    pub fn enter(&mut self, event: &Event, events: &Events) -> io::Result<()> {
        // Blocks end between two quanta, unless one is very long.
        if self.in_block >= 2 * BLOCK || self.in_block >= BLOCK && self.quantum.of(event.ticks) > self.time.0 {
            self.end_block(events)?;
        }
        self.time(event.ticks);
        self.thread(event.thread);
        let number = self.thread.1;
        let pending = self.threads[number].pending.take();
        match event.what {
            What::Alloc { ptr, size, maker, usable, count } => {
                let usable = usable.map(|usable| usable.0);
                self.alloc(event.stack, ptr.0, size, maker, usable, count, pending);
            }
            What::Free { ptr, by } => {
                let kind = match by {
                    Freer::Free => op::FREE,
                    Freer::Realloc => op::REALLOC_OLD,
                    Freer::Pool => op::POOL_FREE,
                };
                let bucket = self.goes(ptr.0, number, if by == Freer::Pool { Owner::Pool } else { Owner::Heap });
                if by == Freer::Realloc {
                    self.threads[number].pending = Some((ptr.0, bucket));
                }
                self.op(kind, event.stack);
            }
            What::Restored { ptr } => {
                let expected = pending.filter(|(old, _)| *old == ptr.0);
                self.op(if expected.is_some() { op::RESTORED } else { op::RESTORED_OTHER }, event.stack);
                if expected.is_none() {
                    put(self.column(Column::Rest), ptr.0);
                }
                let bucket = expected.map(|(_, bucket)| bucket).unwrap_or_default();
                self.came(ptr.0, bucket, Owner::Heap);
            }
            What::Map { at, size, flags } => {
                self.op(op::MAP, event.stack);
                self.mapping(at.0, size);
                self.column(Column::Rest).push(flags.0);
            }
            What::Unmap { at, size } => {
                self.op(op::UNMAP, event.stack);
                self.mapping(at.0, size);
            }
            What::Fork => self.rare(pending, event.stack, rest::FORK),
            What::ThreadBegins => self.rare(pending, event.stack, rest::THREAD),
            What::ThreadNamed => {
                self.rare(pending, event.stack, rest::NAME);
                put_bytes(self.column(Column::Rest), events.thread_name(event.thread).unwrap_or_default().as_bytes());
            }
        }
        self.in_block += 1;
        self.events += 1;
        let texts = events.modules().len() - self.modules + events.notes().len() - self.notes;
        if events.stacks().len() - self.nodes >= NODES || texts >= TEXTS {
            self.end_block(events)?;
        }
        Ok(())
    }

    /// What is no event of the heap, and leaves a `realloc` as it is.
    fn rare(&mut self, pending: Option<(u64, Bucket)>, stack: Option<StackId>, what: u8) {
        self.threads[self.thread.1].pending = pending;
        self.op(op::RARE, stack);
        self.column(Column::Rest).push(what);
    }

    fn op(&mut self, kind: u8, stack: Option<StackId>) {
        let with = stack.map_or(0, |_| op::WITH_STACK);
        self.column(Column::Ops).push(kind | with);
        if let Some(stack) = stack {
            self.column(Column::Stacks).extend_from_slice(&stack.0.to_le_bytes());
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an event")]
    fn alloc(
        &mut self,
        stack: Option<StackId>,
        ptr: u64,
        size: u64,
        maker: Maker,
        usable: Option<u64>,
        count: u64,
        pending: Option<(u64, Bucket)>,
    ) {
        let replaced = pending.map(|(old, _)| old);
        let kind = match maker {
            Maker::Malloc => op::MALLOC,
            Maker::Calloc => op::CALLOC,
            Maker::New => op::NEW,
            Maker::Pool => op::POOL_ALLOC,
            Maker::Realloc(None) => op::REALLOC_NULL,
            Maker::Realloc(old) if old.map(|old| old.0) == replaced => op::REALLOC_NEW,
            Maker::Realloc(_) => op::REALLOC_OTHER,
            Maker::Aligned(_) => op::ALIGNED,
        };
        self.column(Column::Ops).push(kind);
        match maker {
            Maker::Aligned(alignment) => {
                let log = if alignment == 0 { rest::NO_ALIGNMENT } else { alignment.trailing_zeros() as u8 };
                self.column(Column::Rest).push(log);
            }
            Maker::Realloc(Some(old)) if kind == op::REALLOC_OTHER => put(self.column(Column::Rest), old.0),
            _ => {}
        }
        let class = Class {
            size,
            usable: usable.map_or(0, |usable| usable.saturating_add(1)),
            count,
            stack: stack.map_or(0, |stack| u64::from(stack.0) + 1),
        };
        let number = self.classes.find_or(class, self.told_classes);
        if number == self.told_classes {
            self.told_classes += 1;
            let more = if class.usable == 0 { 0 } else { zigzag(class.usable.wrapping_sub(size)).wrapping_add(1) };
            let column = self.column(Column::NewClasses);
            [size, count, more, class.stack].into_iter().for_each(|value| put(column, value));
        }
        self.column(Column::Classes).extend_from_slice(&number.to_le_bytes());
        let owner = if maker == Maker::Pool { Owner::Pool } else { Owner::Heap };
        let taken = taken(size, usable);
        let bucket = bucket(taken, owner);
        let (how, difference) = self.places.tell(ptr, bucket, taken, replaced);
        self.column(Column::Told).push(how);
        if let Some(difference) = difference {
            put(self.column(Column::Differences), difference);
        }
        self.came(ptr, bucket, owner);
    }

    fn blocks(&mut self, owner: Owner) -> &mut Near<Live> {
        match owner {
            Owner::Heap => &mut self.heap,
            Owner::Pool => &mut self.pools,
        }
    }

    fn came(&mut self, ptr: u64, bucket: Bucket, owner: Owner) {
        self.serial += 1;
        let live = Live::new(self.serial, bucket);
        self.blocks(owner).insert(ptr, live);
    }

    /// A block goes; its bucket.
    fn goes(&mut self, ptr: u64, thread: usize, owner: Owner) -> Bucket {
        let Some(block) = self.blocks(owner).remove(ptr) else {
            self.column(Column::Gone).push(gone::UNKNOWN);
            let difference = zigzag(spread(ptr).wrapping_sub(spread(self.unknown)));
            put(self.column(Column::GoneFar), difference);
            self.unknown = ptr;
            return Bucket::default();
        };
        let (serial, bucket) = block.parts();
        let after = self.serial - serial;
        let later = serial.wrapping_sub(self.threads[thread].gone) as i64;
        self.threads[thread].gone = serial;
        if after < u64::from(gone::RECENT) {
            self.column(Column::Gone).push(after as u8);
        } else if gone::NEAR.contains(&later) {
            self.column(Column::Gone).push((gone::SAME + later) as u8);
        } else {
            self.column(Column::Gone).push(gone::FAR);
            put(self.column(Column::GoneFar), after);
        }
        self.places.freed(ptr, bucket);
        bucket
    }

    fn mapping(&mut self, at: u64, size: u64) {
        let difference = zigzag(spread(at).wrapping_sub(spread(self.mapping)));
        self.mapping = at;
        let column = self.column(Column::Rest);
        put(column, difference);
        put(column, size);
    }

    fn time(&mut self, ticks: u64) {
        let now = self.quantum.of(ticks).max(self.time.0);
        if now != self.time.0 {
            self.end_quantum();
            self.time.0 = now;
        }
        self.time.1 += 1;
    }

    fn end_quantum(&mut self) {
        let (now, events) = self.time;
        if events > 0 {
            let ahead = now - self.last_time;
            let column = &mut self.columns[Column::Times as usize];
            put(column, events << 1 | u64::from(ahead != 1));
            if ahead != 1 {
                put(column, ahead);
            }
            self.last_time = now;
        }
        self.time.1 = 0;
    }

    fn thread(&mut self, thread: ThreadId) {
        if thread != self.thread.0 || self.run == 0 {
            self.end_run();
            let fresh = self.threads.len();
            let number = *self.numbers.entry(thread).or_insert(fresh);
            if number == fresh {
                self.threads.push(Thread::default());
            }
            self.thread = (thread, number);
        }
        self.run += 1;
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            let (ThreadId(tid), number) = self.thread;
            let known = self.told_threads;
            let column = &mut self.columns[Column::Threads as usize];
            put(column, self.run);
            put(column, number as u64);
            if number == known {
                put(column, tid.into());
                self.told_threads += 1;
            }
            self.run = 0;
        }
    }

    fn end_block(&mut self, events: &Events) -> io::Result<()> {
        self.end_quantum();
        self.end_run();
        self.tree(events);
        self.block.clear();
        put(&mut self.block, self.in_block.into());
        self.packer.pack(&mut self.columns, &mut self.block)?;
        let block = std::mem::take(&mut self.block);
        self.section(section::BLOCK, &block)?;
        self.block = block;
        self.in_block = 0;
        Ok(())
    }

    /// Objects, addresses and stacks that came in this block.
    fn tree(&mut self, events: &Events) {
        let texts = &mut self.columns[Column::Texts as usize];
        put(texts, (events.modules().len() - self.modules) as u64);
        for module in &events.modules()[self.modules..] {
            [module.bias, module.start, module.end].into_iter().for_each(|value| put(texts, value));
            put_bytes(texts, &module.build_id);
            put_bytes(texts, module.path.as_os_str().as_bytes());
        }
        self.modules = events.modules().len();
        put(texts, (events.notes().len() - self.notes) as u64);
        events.notes()[self.notes..].iter().for_each(|note| put_bytes(texts, note.as_bytes()));
        self.notes = events.notes().len();
        for address in events.stacks().addresses().skip(self.addresses) {
            let column = &mut self.columns[Column::Addresses as usize];
            put(column, zigzag(address.pc.wrapping_sub(self.address)));
            put(column, address.module.map_or(0, |module| u64::from(module.0) + 1));
            self.address = address.pc;
            self.addresses += 1;
            self.children.push(0);
        }
        for index in self.nodes..events.stacks().len() {
            let (parent, address) = events.stacks().node(StackId(index as u32));
            let above = super::above(events.stacks(), parent);
            let up = if parent.0 < super::ENDS as u32 {
                u64::from(parent.0)
            } else {
                (index + super::ENDS) as u64 - 1 - u64::from(parent.0)
            };
            put(&mut self.columns[Column::Parents as usize], up);
            let expected = std::mem::replace(&mut self.children[above], address);
            put(&mut self.columns[Column::Children as usize], zigzag(u64::from(address).wrapping_sub(expected.into())));
        }
        self.nodes = events.stacks().len();
    }

    /// Writes the last block and the end of the file; returns the number of events.
    pub fn end(mut self, events: &Events) -> io::Result<u64> {
        self.end_block(events)?;
        let mut end = Vec::new();
        put(&mut end, self.events);
        put(&mut end, events.warnings().len() as u64);
        events.warnings().iter().for_each(|warning| put_bytes(&mut end, warning.text.as_bytes()));
        self.section(section::END, &end)?;
        Ok(self.events)
    }
}
