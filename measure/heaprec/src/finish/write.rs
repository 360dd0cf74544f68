//! Writing a finished file: the events of one process, each entered into columns, blocks of them packed.

use heap_wire::{spread, zigzag};
use heapfile::event::{Brief, Deed, ThreadId};
use heapfile::finished::columns::{
    BLOCK, COLUMNS, Column, MAGIC, Packer, VERSION, put, put_bytes, section, section_head,
};
use heapfile::finished::predict::{Ages, Bucket, Owner, Places, gone};
use heapfile::finished::{self, ENDS, Quantum, op, rest};
use heapfile::live::{Class, Effect, Fresh, Live, LiveId, Thread};
use heapfile::reader::Events;
use heapfile::stack::StackId;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// New nodes of the tree of stacks, and new texts, after which a block ends before it is full.
const NODES: usize = 1 << 20;
const TEXTS: usize = 1 << 10;

/// Of zstd: chosen by measurement.
const LEVEL: i32 = 3;

/// Begins a file: `page` is the first page of the stream, as it is in the end.
pub fn head(out: &mut dyn Write, page: &[u8], quantum: Quantum) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut head = quantum.ticks.get().to_le_bytes().to_vec();
    head.extend(zstd::bulk::compress(page, LEVEL)?);
    write_section(out, section::HEAD, &head)
}

fn write_section(out: &mut dyn Write, kind: u8, content: &[u8]) -> io::Result<()> {
    out.write_all(&section_head(kind, content))?;
    out.write_all(content)
}

/// Enters events: what follows the head of a file.
pub struct Writer<W> {
    out: W,
    packer: Packer,
    columns: [Vec<u8>; COLUMNS],
    block: Vec<u8>,
    quantum: Quantum,
    in_block: u32,
    events: u64,
    /// By thread: the block that it gave back last.
    gone: Vec<u64>,
    /// The thread that goes on.
    thread: (ThreadId, usize),
    told_threads: usize,
    /// Events of the block before it went on.
    run: u32,
    /// Quantum that is going on, and events of the block before it began.
    time: (u64, u32),
    /// Ticks at which the next one begins.
    next_quantum: u64,
    last_time: u64,
    places: Places,
    ages: Ages,
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

impl<W: Write> Writer<W> {
    /// Nothing yet.
    pub fn new(out: W, quantum: Quantum) -> io::Result<Self> {
        Ok(Self {
            out,
            packer: Packer::new(LEVEL)?,
            columns: Default::default(),
            block: Vec::new(),
            quantum,
            in_block: 0,
            events: 0,
            gone: Vec::new(),
            thread: (ThreadId(u32::MAX), usize::MAX),
            told_threads: 0,
            run: 0,
            time: (0, 0),
            next_quantum: 0,
            last_time: 0,
            places: Places::default(),
            ages: Ages::default(),
            mapping: 0,
            unknown: 0,
            nodes: ENDS,
            children: vec![0; ENDS],
            addresses: 0,
            address: 0,
            modules: 0,
            notes: 0,
        })
    }

    fn column(&mut self, column: Column) -> &mut Vec<u8> {
        &mut self.columns[column as usize]
    }

    /// Enters an event, which did this `step`, after which these blocks are `live`; `events` is what gave it.
    #[inline(always)]
    pub fn enter(&mut self, event: &Brief, step: Effect, live: &Live, events: &Events) -> io::Result<()> {
        if event.ticks >= self.next_quantum || self.in_block >= 2 * BLOCK {
            self.go_on(event.ticks, events)?;
        }
        if live.turned() != self.thread.1 {
            self.turn_to(live.thread());
        }
        let stack = event.stack();
        match (step, event.deed) {
            (Effect::Made { held, fresh, .. }, _) => self.alloc(event, live, held, fresh),
            (step, deed @ (Deed::Free | Deed::ReallocOld | Deed::PoolFree)) => {
                let (kind, owner) = match deed {
                    Deed::Free => (op::FREE, Owner::Heap),
                    Deed::ReallocOld => (op::REALLOC_OLD, Owner::Heap),
                    _ => (op::POOL_FREE, Owner::Pool),
                };
                self.op(kind, stack);
                match step {
                    Effect::Went(held) => {
                        self.goes(event.ptr, live.class_of(held).bucket.of(owner), held.serial(), live.serial())
                    }
                    _ => self.unknown(event.ptr),
                }
            }
            (Effect::Back { held, .. }, _) => {
                self.op(op::RESTORED, stack);
                self.ages.made(self.thread.1, held.serial());
            }
            (_, deed) => self.other(deed, event, events),
        }
        self.in_block += 1;
        Ok(())
    }

    /// What makes no block and gives none back.
    #[cold]
    fn other(&mut self, deed: Deed, event: &Brief, events: &Events) {
        let stack = event.stack();
        match deed {
            Deed::Map => {
                self.op(op::MAP, stack);
                self.mapping(event.ptr, event.size);
                self.column(Column::Rest).push(event.extra);
            }
            Deed::Unmap => {
                self.op(op::UNMAP, stack);
                self.mapping(event.ptr, event.size);
            }
            Deed::Fork => self.rare(stack, rest::FORK),
            Deed::ThreadBegins => self.rare(stack, rest::THREAD),
            Deed::ThreadNamed => {
                self.rare(stack, rest::NAME);
                let name = events.thread_name(event.thread).unwrap_or_default();
                put_bytes(self.column(Column::Rest), name.as_bytes());
            }
            // A block that came back although nobody was about to replace it.
            _ => {
                self.op(op::RESTORED_OTHER, stack);
                put(self.column(Column::Rest), event.ptr);
            }
        }
    }

    /// Between two batches of events, the last of which `events` gave: a block with many new stacks or texts ends.
    pub fn between(&mut self, events: &Events) -> io::Result<()> {
        let texts = events.modules().len() - self.modules + events.notes().len() - self.notes;
        if events.stacks().len() - self.nodes >= NODES || texts >= TEXTS {
            self.end_block(events)?;
        }
        Ok(())
    }

    /// What is no event of the heap.
    fn rare(&mut self, stack: Option<StackId>, what: u8) {
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

    fn alloc(&mut self, event: &Brief, live: &Live, held: LiveId, fresh: Fresh) {
        let class = live.class_of(held);
        let again = event.deed == Deed::Realloc && live.thread().1.pending == Some(event.replaces);
        let kind = match event.deed {
            Deed::Calloc => op::CALLOC,
            Deed::Aligned => op::ALIGNED,
            Deed::New => op::NEW,
            Deed::PoolAlloc => op::POOL_ALLOC,
            Deed::ReallocNull => op::REALLOC_NULL,
            Deed::Realloc if again => op::REALLOC_NEW,
            Deed::Realloc => op::REALLOC_OTHER,
            _ => op::MALLOC,
        };
        self.column(Column::Ops).push(kind);
        if kind == op::ALIGNED {
            let log = if event.extra < 64 { event.extra } else { rest::NO_ALIGNMENT };
            self.column(Column::Rest).push(log);
        } else if kind == op::REALLOC_OTHER {
            put(self.column(Column::Rest), event.replaces);
        }
        if fresh == Fresh::New {
            let Class { size, usable, count, .. } = *class;
            let more = if usable == 0 { 0 } else { zigzag(usable.wrapping_sub(size)).wrapping_add(1) };
            let stack = class.stack().map_or(0, |stack| u64::from(stack.0) + 1);
            let column = self.column(Column::NewClasses);
            [size, count, more, stack].into_iter().for_each(|value| put(column, value));
        }
        self.column(Column::Classes).extend_from_slice(&held.class().to_le_bytes());
        let owner = if event.deed == Deed::PoolAlloc { Owner::Pool } else { Owner::Heap };
        let replaced = again.then_some(event.replaces);
        let (how, difference) =
            self.places.tell(self.thread.1, event.ptr, class.bucket.of(owner), class.taken, replaced);
        self.column(Column::Told).push(how);
        if let Some(difference) = difference {
            put(self.column(Column::Differences), difference);
        }
        self.ages.made(self.thread.1, held.serial());
    }

    /// A block goes; so many were `made`.
    fn goes(&mut self, ptr: u64, bucket: Bucket, serial: u64, made: u64) {
        let (thread, after) = (self.thread.1, made - serial);
        let last = std::mem::replace(&mut self.gone[thread], serial);
        let later = serial.wrapping_sub(last) as i64;
        match self.ages.gone(thread, serial, after) {
            Some(rank) if rank < gone::LAST => self.column(Column::Gone).push(rank as u8),
            Some(_) if gone::NEXT.contains(&later) => self.column(Column::Gone).push((gone::SAME + later) as u8),
            Some(rank) if rank < gone::RANKS.into() => self.column(Column::Gone).push(rank as u8),
            Some(rank) => {
                self.column(Column::Gone).push(gone::RANK);
                put(self.column(Column::GoneFar), (rank - u32::from(gone::RANKS)).into());
            }
            None if gone::NEAR.contains(&later) => self.column(Column::Gone).push((gone::SAME + later) as u8),
            None => {
                self.column(Column::Gone).push(gone::FAR);
                put(self.column(Column::GoneFar), after);
            }
        }
        self.places.freed(thread, ptr, bucket);
    }

    /// A block goes that nobody made.
    fn unknown(&mut self, ptr: u64) {
        self.column(Column::Gone).push(gone::UNKNOWN);
        let difference = zigzag(spread(ptr).wrapping_sub(spread(self.unknown)));
        put(self.column(Column::GoneFar), difference);
        self.unknown = ptr;
    }

    fn mapping(&mut self, at: u64, size: u64) {
        let difference = zigzag(spread(at).wrapping_sub(spread(self.mapping)));
        self.mapping = at;
        let column = self.column(Column::Rest);
        put(column, difference);
        put(column, size);
    }

    /// A quantum or a block ends.
    #[inline(never)]
    fn go_on(&mut self, ticks: u64, events: &Events) -> io::Result<()> {
        if ticks < self.next_quantum {
            return self.end_block(events);
        }
        let now = self.quantum.of(ticks);
        // Blocks end between two quanta, unless one is very long.
        if self.in_block >= BLOCK {
            self.end_block(events)?;
        }
        self.end_quantum();
        self.time = (now, self.in_block);
        self.next_quantum = self.quantum.begin(now.saturating_add(1));
        Ok(())
    }

    fn end_quantum(&mut self) {
        let (now, before) = self.time;
        let events = u64::from(self.in_block - before);
        if events > 0 {
            let ahead = now - self.last_time;
            let column = &mut self.columns[Column::Times as usize];
            put(column, events << 1 | u64::from(ahead != 1));
            if ahead != 1 {
                put(column, ahead);
            }
            self.last_time = now;
        }
    }

    /// Another thread goes on.
    #[inline(never)]
    fn turn_to(&mut self, (number, thread): (usize, &Thread)) {
        self.end_run();
        if number == self.gone.len() {
            self.gone.push(0);
            self.places.add_thread();
            self.ages.add_thread();
        }
        (self.thread, self.run) = ((thread.id, number), self.in_block);
    }

    fn end_run(&mut self) {
        if self.in_block > self.run {
            let (ThreadId(tid), number) = self.thread;
            let known = self.told_threads;
            put(&mut self.columns[Column::Runs as usize], (self.in_block - self.run).into());
            let column = &mut self.columns[Column::Threads as usize];
            put(column, number as u64);
            if number == known {
                put(column, tid.into());
                self.told_threads += 1;
            }
        }
    }

    fn end_block(&mut self, events: &Events) -> io::Result<()> {
        self.end_quantum();
        self.end_run();
        self.tree(events);
        self.block.clear();
        put(&mut self.block, self.in_block.into());
        self.events += u64::from(self.in_block);
        self.packer.pack(&mut self.columns, &mut self.block)?;
        write_section(&mut self.out, section::BLOCK, &self.block)?;
        (self.in_block, self.run, self.time.1) = (0, 0, 0);
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
            let above = finished::above(events.stacks(), parent);
            let up = if parent.0 < ENDS as u32 {
                u64::from(parent.0)
            } else {
                (index + ENDS) as u64 - 1 - u64::from(parent.0)
            };
            put(&mut self.columns[Column::Parents as usize], up);
            let expected = std::mem::replace(&mut self.children[above], address);
            put(&mut self.columns[Column::Children as usize], zigzag(u64::from(address).wrapping_sub(expected.into())));
        }
        self.nodes = events.stacks().len();
    }

    /// Writes the last block and the end of the file; the number of events, and what was written to.
    pub fn end(mut self, events: &Events) -> io::Result<(u64, W)> {
        self.end_block(events)?;
        let mut end = Vec::new();
        put(&mut end, self.events);
        put(&mut end, events.warnings().len() as u64);
        events.warnings().iter().for_each(|warning| put_bytes(&mut end, warning.text.as_bytes()));
        write_section(&mut self.out, section::END, &end)?;
        Ok((self.events, self.out))
    }
}
