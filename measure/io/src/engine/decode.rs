//! From tracepoint records to a [`RawTrace`]. Fields are found by the name that the kernel's `format`
//! files give them, never by fixed offsets. Records come in time order.

use super::points::{Points, Role};
use crate::{
    keyed::{NumberMap, NumberSet},
    raw::*,
};
use model::{Bytes, DiskOffset, Nanos, Result};
use os::{
    device::from_kernel_dev,
    perf::Stamp,
    tracefs::{Field, Format},
};
use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf, rc::Rc};

/// The kernel counts disk positions in sectors of this size, whatever the disk has.
const SECTOR: u64 = 512;
/// Flag of clone(2): the new task is a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;
/// ... that shares its I/O context: of threads, io_uring's workers alone.
const CLONE_IO: u64 = 0x8000_0000;
/// How io_uring's workers are called, which do what would make a program wait.
const WORKER: &[u8] = b"iou-wrk-";

/// `common_flags` of an event in an interrupt, or in what an interrupt left to be done: the thread that it names was
/// only there.
const IN_INTERRUPT: u64 = 0x18;

/// Flag of `struct kiocb`: it writes.
const IOCB_WRITE: u64 = 1 << 18;

/// Where the fields of a tracepoint lie.
enum Shape {
    Pages { role: Role, dev: Field, ino: Field, first: Field, last: Last },
    Start { dev: Field, sector: Field, comm: Option<Field> },
    Issue { dev: Field, sector: Field, sectors: Field, flags: Field, comm: Option<Field> },
    Complete { dev: Field, sector: Field, sectors: Field },
    Remap { dev: Field, sector: Field, sectors: Field, old_dev: Field, old_sector: Field },
    Direct { dev: Field, ino: Field, offset: Field, len: Field, flags: Field },
    SyncBegin { dev: Field, ino: Field },
    SyncEnd,
    CallBegin,
    CallEnd,
    Task { tid: Field, comm: Field, flags: Field },
    Exec { path: Field, old_tid: Option<Field> },
    Exit,
    Name { tid: Field, comm: Field },
    Wake { tid: Field, flags: Field },
}

/// How a tracepoint tells its last page.
enum Last {
    /// It names one page.
    First,
    /// As a power of two; kernels before 6.9 have only single pages and no such field.
    Order(Option<Field>),
    /// By its number.
    Page(Field),
}

/// Who wants a block request.
#[derive(Default)]
struct Asker {
    pid: u32,
    tid: u32,
    comm: String,
}

/// A block request on its way: index in the list, where it ends, and how much of it is still to come.
struct OnItsWay {
    index: usize,
    end: u64,
    missing: u64,
}

/// Reads records one after the other.
pub(super) struct Decoder {
    shapes: NumberMap<u16, Rc<Shape>>,
    t0: u64,
    trace: RawTrace,
    /// Requests that were made and not issued yet, by device and first sector.
    made: BTreeMap<(u64, u64), Asker>,
    /// Whether this kernel says who makes requests.
    says_who: bool,
    /// Requests that were issued, by device and first sector.
    on_their_way: BTreeMap<(u64, u64), OnItsWay>,
    /// Last sync of each thread, as index.
    syncing: NumberMap<u32, usize>,
    tasks: Tasks,
    /// Context of each request: process (0: unknown).
    issuers: Vec<u32>,
    /// Whether io_uring made threads for the tree.
    pub(super) workers: bool,
}

/// Processes of the tree and their threads.
#[derive(Default)]
struct Tasks {
    /// Process of each thread.
    process_of: NumberMap<u32, u32>,
    /// Threads that live, per process.
    alive: NumberMap<u32, u32>,
    /// Index in the list.
    rows: NumberMap<u32, usize>,
    /// Processes that executed a file whose mapping has not been seen yet.
    executing: NumberSet<u32>,
}

impl Decoder {
    /// A decoder for these tracepoints. `root` is the process that was attached to; what came before `t0` is dropped.
    pub(super) fn new(points: &Points, root: u32, t0: u64) -> Result<Self> {
        let mut shapes = NumberMap::default();
        for source in &points.sources {
            shapes.insert(source.format.id as u16, Rc::new(shape(source.role, &source.format)?));
        }
        let mut decoder = Self {
            shapes,
            t0,
            trace: RawTrace { t0_monotonic_ns: t0, ..RawTrace::default() },
            made: BTreeMap::new(),
            says_who: points.has(Role::Start),
            on_their_way: BTreeMap::new(),
            syncing: NumberMap::default(),
            tasks: Tasks::default(),
            issuers: Vec::new(),
            workers: false,
        };
        decoder.begin(root, root, std::process::id(), Nanos(0));
        Ok(decoder)
    }

    /// Time since t0; `None` before.
    fn since(&self, stamp: Stamp) -> Option<Nanos> {
        stamp.time_ns.checked_sub(self.t0).map(Nanos)
    }

    /// A tracepoint's record. `stamp.pid` may be 0: then the process is found by the thread.
    pub(super) fn tracepoint(&mut self, mut stamp: Stamp, point: u16, raw: &[u8]) {
        self.trace.info.records += 1;
        if stamp.pid == 0 {
            stamp.pid = self.tasks.process_of.get(&stamp.tid).copied().unwrap_or_default();
        }
        if let Some(shape) = self.shapes.get(&point).map(Rc::clone) {
            // A record that is too short for its format says nothing.
            let _ = self.read(&shape, stamp, raw);
        }
    }

    fn read(&mut self, shape: &Shape, stamp: Stamp, raw: &[u8]) -> Option<()> {
        let ours = self.is_ours(stamp.pid);
        let at = self.since(stamp);
        match shape {
            Shape::Pages { role, dev, ino, first, last } => {
                let inode = Inode { dev: from_kernel_dev(dev.get(raw)? as u32), ino: ino.get(raw)? };
                let span = last.span(first.get(raw)?, raw)?;
                self.pages(*role, (at?, stamp), inode, span, ours);
            }
            Shape::Start { dev, sector, comm } => {
                let asker = Asker { pid: stamp.pid, tid: stamp.tid, comm: text(comm.as_ref(), raw) };
                self.made.insert((from_kernel_dev(dev.get(raw)? as u32), sector.get(raw)?), asker);
            }
            Shape::Issue { dev, sector, sectors, flags, comm } => {
                let here = Asker { pid: stamp.pid, tid: stamp.tid, comm: text(comm.as_ref(), raw) };
                let place = (from_kernel_dev(dev.get(raw)? as u32), sector.get(raw)?, sectors.get(raw)?);
                self.issue(at?, place, text(Some(flags), raw), here);
            }
            Shape::Complete { dev, sector, sectors } => {
                let place = (from_kernel_dev(dev.get(raw)? as u32), sector.get(raw)?, sectors.get(raw)?);
                self.complete(at?, place);
            }
            Shape::Remap { dev, sector, sectors, old_dev, old_sector } => self.trace.remaps.push(RawRemap {
                at: at?,
                dev: from_kernel_dev(dev.get(raw)? as u32),
                disk: DiskOffset(bytes_of(sector.get(raw)?)),
                len: Bytes(bytes_of(sectors.get(raw)?)),
                old_dev: from_kernel_dev(old_dev.get(raw)? as u32),
                old_disk: DiskOffset(bytes_of(old_sector.get(raw)?)),
            }),
            Shape::Direct { dev, ino, offset, len, flags } if ours => self.trace.direct.push(RawDirect {
                at: at?,
                pid: stamp.pid,
                tid: stamp.tid,
                inode: Inode { dev: from_kernel_dev(dev.get(raw)? as u32), ino: ino.get(raw)? },
                offset: offset.get(raw)?,
                len: Bytes(len.get(raw)?),
                write: flags.get(raw)? & IOCB_WRITE != 0,
            }),
            Shape::SyncBegin { dev, ino } if ours => {
                let inode = Inode { dev: from_kernel_dev(dev.get(raw)? as u32), ino: ino.get(raw)? };
                self.sync_begins(at?, stamp, Some(inode));
            }
            Shape::CallBegin if ours => self.sync_begins(at?, stamp, None),
            Shape::SyncEnd | Shape::CallEnd if ours => self.sync_ends(at?, stamp, matches!(shape, Shape::CallEnd)),
            Shape::Task { tid, comm, flags } if ours => {
                let tid = tid.get(raw)? as u32;
                let flags = flags.get(raw)?;
                let pid = if flags & CLONE_THREAD != 0 { stamp.pid } else { tid };
                self.workers |= flags & (CLONE_THREAD | CLONE_IO) == CLONE_THREAD | CLONE_IO;
                self.begin(pid, tid, stamp.pid, at.unwrap_or_default());
                self.name(pid, tid, comm.text(raw)?);
            }
            Shape::Exec { path, old_tid } => {
                // A thread that executes takes over the number of its process.
                let before = old_tid.as_ref().and_then(|field| field.get(raw)).map_or(stamp.tid, |tid| tid as u32);
                let pid = *self.tasks.process_of.get(&before)?;
                self.executes(pid, path.text(raw)?);
            }
            Shape::Exit if ours => self.exit(stamp.pid, stamp.tid, at.unwrap_or_default()),
            Shape::Name { tid, comm } if ours => self.name(stamp.pid, tid.get(raw)? as u32, comm.text(raw)?),
            Shape::Wake { tid, flags } => {
                let tid = tid.get(raw)? as u32;
                let pid = *self.tasks.process_of.get(&tid)?;
                let is_thread = flags.get(raw)? & IN_INTERRUPT == 0 && stamp.tid != 0;
                self.trace.wakes.push(RawWake { at: at?, pid, tid, by: is_thread.then_some(stamp.tid) });
            }
            _ => {}
        }
        Some(())
    }

    fn pages(&mut self, role: Role, (at, stamp): (Nanos, Stamp), inode: Inode, span: Span, ours: bool) {
        let Stamp { pid, tid, .. } = stamp;
        match role {
            _ if !ours => {}
            Role::Fill => self.trace.fills.push(RawFill { at, pid, tid, inode, span }),
            Role::Read => self.trace.reads.push(RawRead { at, pid, tid, inode, span }),
            Role::Fault | Role::Around => {
                let around = role == Role::Around;
                self.trace.faults.push(RawFault { at, pid, tid, inode, span, around });
            }
            _ => {}
        }
    }

    /// A request goes to the device. Whoever runs the queue issues also what others wait for; so it belongs to
    /// who made it, or to who made the first of those that were merged into it.
    fn issue(&mut self, at: Nanos, place: (u64, u64, u64), flags: String, here: Asker) {
        let (dev, sector, sectors) = place;
        let moves_data = flags.trim_start_matches('F').starts_with(['R', 'W']);
        if sectors == 0 || !moves_data {
            return;
        }
        let merged: Vec<u64> =
            self.made.range((dev, sector)..(dev, sector.saturating_add(sectors))).map(|(key, _)| key.1).collect();
        let askers: Vec<Asker> = merged.into_iter().filter_map(|first| self.made.remove(&(dev, first))).collect();
        let unknown = if self.says_who { Asker::default() } else { here };
        let asker = askers.into_iter().next().unwrap_or(unknown);
        if let Some(known) = self.on_their_way.get_mut(&(dev, sector)) {
            // The device had no room, and the request is issued again; more may have been merged into it.
            known.end = sector.saturating_add(sectors);
            known.missing = sectors;
            self.trace.blocks[known.index].len = Bytes(bytes_of(sectors));
            return;
        }
        let index = self.trace.blocks.len();
        self.on_their_way
            .insert((dev, sector), OnItsWay { index, end: sector.saturating_add(sectors), missing: sectors });
        self.issuers.push(asker.pid);
        self.trace.blocks.push(RawBlock {
            start: at,
            done: None,
            pid: None,
            tid: asker.tid,
            comm: asker.comm,
            dev,
            disk: DiskOffset(bytes_of(sector)),
            len: Bytes(bytes_of(sectors)),
            flags,
        });
    }

    /// A request may be done in parts.
    fn complete(&mut self, at: Nanos, (dev, sector, sectors): (u64, u64, u64)) {
        let Some((key, request)) = self.on_their_way.range_mut(..=(dev, sector)).next_back() else { return };
        if key.0 != dev || sector >= request.end {
            return;
        }
        request.missing = request.missing.saturating_sub(sectors);
        if request.missing == 0 {
            let key = *key;
            self.trace.blocks[request.index].done = Some(at);
            self.on_their_way.remove(&key);
        }
    }

    /// A system call that syncs, or the file system's part of it, begins. If both are seen, they are one sync.
    fn sync_begins(&mut self, at: Nanos, stamp: Stamp, inode: Option<Inode>) {
        if let (Some(open), Some(inode)) = (self.syncing.get(&stamp.tid), inode) {
            let open = &mut self.trace.syncs[*open];
            if open.done.is_none() && open.inode.is_none() {
                open.inode = Some(inode);
                return;
            }
        }
        self.syncing.insert(stamp.tid, self.trace.syncs.len());
        self.trace.syncs.push(RawSync { at, done: None, pid: stamp.pid, tid: stamp.tid, inode });
    }

    fn sync_ends(&mut self, at: Nanos, stamp: Stamp, call: bool) {
        if let Some(open) = self.syncing.get(&stamp.tid) {
            self.trace.syncs[*open].done = Some(at);
            if call {
                self.syncing.remove(&stamp.tid);
            }
        }
    }

    /// The process is, or was, one of the tree.
    pub(super) fn is_ours(&self, pid: u32) -> bool {
        self.tasks.rows.contains_key(&pid)
    }

    /// A thread begins; with it a process, if it is new.
    pub(super) fn begin(&mut self, pid: u32, tid: u32, parent: u32, at: Nanos) {
        self.tasks.process_of.insert(tid, pid);
        *self.tasks.alive.entry(pid).or_insert(0) += 1;
        if self.tasks.rows.contains_key(&pid) {
            return;
        }
        self.tasks.rows.insert(pid, self.trace.processes.len());
        let inherited = self.tasks.rows.get(&parent).map(|row| &self.trace.processes[*row]);
        let (comm, exe) = inherited.map_or((String::new(), None), |row| (row.comm.clone(), row.exe.clone()));
        self.trace.processes.push(RawProcess { pid, parent, comm, exe, start: at, end: None });
    }

    /// A thread ends; its process ends with the last one.
    pub(super) fn exit(&mut self, pid: u32, tid: u32, at: Nanos) {
        self.tasks.process_of.remove(&tid);
        let Some(alive) = self.tasks.alive.get_mut(&pid) else { return };
        *alive = alive.saturating_sub(1);
        if *alive == 0
            && let Some(row) = self.tasks.rows.get(&pid)
        {
            self.trace.processes[*row].end = Some(at);
        }
    }

    /// A thread gets a name; the process is called as its first thread.
    pub(super) fn name(&mut self, pid: u32, tid: u32, comm: &[u8]) {
        self.workers |= comm.starts_with(WORKER);
        if let (true, Some(row)) = (pid == tid, self.tasks.rows.get(&pid)) {
            self.trace.processes[*row].comm = String::from_utf8_lossy(comm).into_owned();
        }
    }

    /// A process executes a file: the next executable mapping says which (perf), or the path is known (tracefs).
    pub(super) fn executes(&mut self, pid: u32, path: &[u8]) {
        // All other threads are gone, also those whose end was not seen.
        self.tasks.alive.insert(pid, 1);
        self.tasks.process_of.insert(pid, pid);
        match path.is_empty() {
            true => {
                self.tasks.executing.insert(pid);
            }
            false => {
                if let Some(row) = self.tasks.rows.get(&pid) {
                    self.trace.processes[*row].exe = Some(PathBuf::from(OsStr::from_bytes(path)));
                }
            }
        }
    }

    /// A file is mapped.
    pub(super) fn mmap(&mut self, stamp: Stamp, map: RawMmap) {
        let Some(at) = self.since(stamp) else { return };
        if map.inode.ino == 0 || !self.is_ours(map.pid) {
            return;
        }
        if map.exec
            && self.tasks.executing.remove(&map.pid)
            && let Some(row) = self.tasks.rows.get(&map.pid)
        {
            self.trace.processes[*row].exe = Some(map.path.clone());
        }
        self.trace.names.push((map.inode, map.path.clone()));
        self.trace.mmaps.push(RawMmap { at, ..map });
    }

    /// Time since t0, or 0.
    pub(super) fn at(&self, stamp: Stamp) -> Nanos {
        self.since(stamp).unwrap_or_default()
    }

    /// One more record that is not a tracepoint's.
    pub(super) fn count(&mut self) {
        self.trace.info.records += 1;
    }

    /// All of it.
    pub(super) fn finish(mut self) -> RawTrace {
        for (block, pid) in self.trace.blocks.iter_mut().zip(&self.issuers) {
            block.pid = self.tasks.rows.contains_key(pid).then_some(*pid);
        }
        self.trace
    }
}

impl Last {
    fn span(&self, first: u64, raw: &[u8]) -> Option<Span> {
        Some(match self {
            Self::First | Self::Order(None) => Span { first, pages: 1 },
            Self::Order(Some(order)) => Span { first, pages: 1 << order.get(raw)?.min(40) },
            Self::Page(last) => Span::to_last(first, last.get(raw)?),
        })
    }
}

/// Sectors in bytes.
fn bytes_of(sectors: u64) -> u64 {
    sectors.saturating_mul(SECTOR)
}

/// A field's text; empty if there is none.
fn text(field: Option<&Field>, raw: &[u8]) -> String {
    let text = field.and_then(|field| field.text(raw));
    text.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
}

/// Looks the fields of a tracepoint up.
fn shape(role: Role, format: &Format) -> Result<Shape> {
    let field = |name: &str| format.field(name).cloned();
    let optional = |name: &str| format.fields.get(name).cloned();
    let pages = |last: Last| -> Result<Shape> {
        Ok(Shape::Pages { role, dev: field("s_dev")?, ino: field("i_ino")?, first: field("index")?, last })
    };
    Ok(match role {
        Role::Fill => pages(Last::Order(optional("order")))?,
        Role::Fault => pages(Last::First)?,
        Role::Read | Role::Around => pages(Last::Page(field("last_index")?))?,
        Role::Start => Shape::Start { dev: field("dev")?, sector: field("sector")?, comm: optional("comm") },
        Role::Issue => Shape::Issue {
            dev: field("dev")?,
            sector: field("sector")?,
            sectors: field("nr_sector")?,
            flags: field("rwbs")?,
            comm: optional("comm"),
        },
        Role::Complete => {
            Shape::Complete { dev: field("dev")?, sector: field("sector")?, sectors: field("nr_sector")? }
        }
        Role::Remap => Shape::Remap {
            dev: field("dev")?,
            sector: field("sector")?,
            sectors: field("nr_sector")?,
            old_dev: field("old_dev")?,
            old_sector: field("old_sector")?,
        },
        Role::Direct => Shape::Direct {
            dev: field("dev")?,
            ino: field("ino")?,
            offset: field("pos")?,
            len: field("count")?,
            flags: field("ki_flags")?,
        },
        Role::SyncBegin => match (optional("dev"), optional("ino")) {
            (Some(dev), Some(ino)) => Shape::SyncBegin { dev, ino },
            _ => Shape::CallBegin,
        },
        Role::SyncEnd => Shape::SyncEnd,
        Role::CallBegin => Shape::CallBegin,
        Role::CallEnd => Shape::CallEnd,
        Role::Task => Shape::Task { tid: field("pid")?, comm: field("comm")?, flags: field("clone_flags")? },
        Role::Exec => Shape::Exec { path: field("filename")?, old_tid: optional("old_pid") },
        Role::Exit => Shape::Exit,
        Role::Name => Shape::Name { tid: field("pid")?, comm: field("newcomm")? },
        Role::Wake => Shape::Wake { tid: field("pid")?, flags: field("common_flags")? },
    })
}

#[cfg(test)]
mod tests;
