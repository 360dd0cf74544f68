//! Logs of events: heaptrack's and LogAlloc's. The events are read again while the log is written, so that its length
//! costs no memory.

use super::{Export, command};
use crate::modes::{Heap, Window};
use crate::symbols::{FrameId, Names};
use heapfile::event::{Event, Freer, Maker, Pointer, Process, ThreadId, What};
use heapfile::ledger::{Block, Change, Inconsistency, Ledger};
use heapfile::reader::Events;
use heapfile::stack::{StackId, Stacks};
use model::{Nanos, Warning, WarningKind, shown};
use std::collections::HashMap;
use std::io::{self, Write};

/// The events of a process within a window, with the books.
struct Log {
    events: Events,
    ledger: Ledger,
    since: Nanos,
    until: Option<Nanos>,
}

/// An event and what it did.
struct Logged {
    event: Event,
    /// The block that went, or was covered by a new one.
    went: Option<Block>,
    came: Option<Block>,
}

impl Log {
    fn open(export: &Export, process: &Process) -> io::Result<Self> {
        let Window { since_ns, until_ns } = export.window;
        Ok(Self {
            events: export.reader.events(process.id).map_err(io::Error::other)?,
            ledger: Ledger::new(process.origin),
            since: since_ns - process.start,
            until: until_ns.map(|until| until - process.start),
        })
    }

    fn next(&mut self) -> io::Result<Option<Logged>> {
        let Some(event) = self.events.next().map_err(io::Error::other)? else { return Ok(None) };
        if self.until.is_some_and(|until| event.at > until) {
            return Ok(None);
        }
        let covered = self.ledger.covered_by(&event);
        let (went, came) = match (self.ledger.enter(&event), event.what) {
            (Change::Came(_, block), _) => (covered, Some(block)),
            (Change::Went(_, block), _) => (Some(block), None),
            (Change::Wrong(Inconsistency::AllocOverLive), _) => (covered, Block::made_by(&event)),
            _ => (None, None),
        };
        let wanted = |block: &Block| block.at >= self.since;
        Ok(Some(Logged { event, went: went.filter(wanted), came: came.filter(wanted) }))
    }
}

/// heaptrack's text: numbers are hexadecimal, tables grow as they are needed, indices begin with 1 (blocks: with 0).
struct Tables<'a> {
    names: &'a Names,
    process: &'a Process,
    texts: HashMap<String, usize>,
    instructions: HashMap<heapfile::stack::Address, usize>,
    traces: HashMap<StackId, usize>,
    blocks: HashMap<(u64, usize), usize>,
}

impl Tables<'_> {
    fn text(&mut self, text: &str, out: &mut dyn Write) -> io::Result<usize> {
        if let Some(number) = self.texts.get(text) {
            return Ok(*number);
        }
        let text = text.replace('\n', " ");
        writeln!(out, "s {:x} {text}", text.len())?;
        let number = self.texts.len() + 1;
        self.texts.insert(text, number);
        Ok(number)
    }

    fn instruction(&mut self, address: heapfile::stack::Address, out: &mut dyn Write) -> io::Result<usize> {
        if let Some(number) = self.instructions.get(&address) {
            return Ok(*number);
        }
        let frames: Vec<FrameId> = self.names.at(self.process.id, address).to_vec();
        let names = self.names;
        let module = frames.first().map_or("", |frame| &names.frame(*frame).module);
        let mut line = format!("i {:x} {:x}", address.pc, self.text(module, out)?);
        // The innermost one first, then those that it was inlined into.
        for frame in frames.iter().map(|frame| names.frame(*frame)).filter(|frame| frame.function.is_some()) {
            let function = self.text(&frame.label(), out)?;
            let file = self.text(frame.file.as_deref().unwrap_or("??"), out)?;
            line += &format!(" {function:x} {file:x} {:x}", frame.line.unwrap_or(0));
        }
        writeln!(out, "{line}")?;
        let number = self.instructions.len() + 1;
        self.instructions.insert(address, number);
        Ok(number)
    }

    fn trace(&mut self, stacks: &Stacks, stack: Option<StackId>, out: &mut dyn Write) -> io::Result<usize> {
        // From the outermost one that is not yet told, in.
        let mut missing = Vec::new();
        let mut at = stack;
        let mut number = 0;
        while let Some(stack) = at {
            if let Some(known) = self.traces.get(&stack) {
                number = *known;
                break;
            }
            missing.push(stack);
            at = stacks.caller(stack);
        }
        for stack in missing.into_iter().rev() {
            // The ends of stacks have no address: number 0 is the root.
            let Some(address) = stacks.innermost(stack) else { continue };
            let instruction = self.instruction(address, out)?;
            writeln!(out, "t {instruction:x} {number:x}")?;
            number = self.traces.len() + 1;
            self.traces.insert(stack, number);
        }
        Ok(number)
    }

    fn block(&mut self, stacks: &Stacks, block: &Block, out: &mut dyn Write) -> io::Result<usize> {
        let trace = self.trace(stacks, block.stack, out)?;
        if let Some(number) = self.blocks.get(&(block.size, trace)) {
            return Ok(*number);
        }
        writeln!(out, "a {:x} {trace:x}", block.size)?;
        let number = self.blocks.len();
        self.blocks.insert((block.size, trace), number);
        Ok(number)
    }
}

/// heaptrack's interpreted events, version 3, of one process; resident sizes are not recorded.
pub fn heaptrack(export: &Export, (process, _): (&Process, &Heap), out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "v 10400 3\nX {}\nI 1000 {:x}", command(process), memory_pages())?;
    let mut tables = Tables {
        names: &export.named.names,
        process,
        texts: HashMap::new(),
        instructions: HashMap::new(),
        traces: HashMap::new(),
        blocks: HashMap::new(),
    };
    tables.text(&shown(&process.exe), out)?;
    let mut log = Log::open(export, process)?;
    let mut told_ms = 0;
    while let Some(Logged { event, went, came }) = log.next()? {
        let ms = event.at.0 / 1_000_000;
        if ms > told_ms {
            writeln!(out, "c {ms:x}")?;
            told_ms = ms;
        }
        for (sign, block) in [("-", went), ("+", came)] {
            if let Some(block) = block {
                let number = tables.block(log.events.stacks(), &block, out)?;
                writeln!(out, "{sign} {number:x}")?;
            }
        }
    }
    writeln!(out, "c {:x}", told_ms + 1)
}

/// Pages of 4096 bytes of this machine: heaptrack shows it only.
fn memory_pages() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) / 4096
}

/// LogAlloc's lines: `PID TID malloc(32)=0x7f..`. A `realloc` whose two halves have events of other threads between
/// them is told as `free` and `malloc`, which is what a replay can follow. Streams have the bytes of all elements of a
/// `calloc` together: these are told as one element, so that a replay takes as much memory, zeroed; a warning says so.
pub fn logalloc(export: &Export, out: &mut dyn Write) -> io::Result<Option<Warning>> {
    let mut callocs = 0u64;
    for process in &export.named.processes {
        let mut log = Log::open(export, process)?;
        // The block that a realloc is about to replace, as long as nothing else happened.
        let mut replaced: Option<(ThreadId, Pointer)> = None;
        while let Some(Logged { event, went, came }) = log.next()? {
            let (pid, thread) = (process.pid, event.thread);
            if went.is_none() && came.is_none() {
                continue;
            }
            let pending = replaced.take();
            let line = match event.what {
                What::Alloc { ptr, size, maker: Maker::Realloc(Some(old)), .. } if pending == Some((thread, old)) => {
                    writeln!(out, "{pid} {} realloc({:#x},{size})={:#x}", thread.0, old.0, ptr.0)?;
                    continue;
                }
                What::Restored { ptr } if pending == Some((thread, ptr)) => continue,
                What::Free { ptr, by: Freer::Realloc } => {
                    replaced = Some((thread, ptr));
                    None
                }
                What::Free { ptr, .. } => Some(format!("free({:#x})", ptr.0)),
                What::Alloc { ptr, size, maker, .. } => Some(match maker {
                    Maker::Calloc => {
                        callocs += 1;
                        format!("calloc(1,{size})={:#x}", ptr.0)
                    }
                    Maker::Aligned(alignment) => format!("memalign({alignment},{size})={:#x}", ptr.0),
                    Maker::Realloc(None) => format!("realloc(0x0,{size})={:#x}", ptr.0),
                    _ => format!("malloc({size})={:#x}", ptr.0),
                }),
                What::Restored { ptr } => came.map(|block| format!("malloc({})={:#x}", block.size, ptr.0)),
                _ => None,
            };
            if let Some((thread, old)) = pending {
                writeln!(out, "{pid} {} free({:#x})", thread.0, old.0)?;
            }
            if let Some(line) = line {
                writeln!(out, "{pid} {} {line}", thread.0)?;
            }
        }
        if let Some((thread, old)) = replaced {
            writeln!(out, "{} {} free({:#x})", process.pid, thread.0, old.0)?;
        }
    }
    let (calls, are) = if callocs == 1 { ("call", "is") } else { ("calls", "are") };
    let text = format!(
        "{callocs} {calls} of calloc {are} written as calloc(1,BYTES): a recording has the bytes of all elements \
        together, \
         not how many there were"
    );
    Ok((callocs > 0).then(|| Warning::new(WarningKind::Note, text)))
}
