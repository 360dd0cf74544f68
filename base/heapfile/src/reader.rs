//! Reading a recording: its processes, and the events of each in the order of time.
//!
//! ```no_run
//! use heapfile::event::What;
//! use heapfile::reader::Reader;
//! let reader = Reader::open("firefox.heap".as_ref())?;
//! for process in reader.processes() {
//!     let mut events = reader.events(process.id)?;
//!     while let Some(event) = events.next()? {
//!         if let (What::Alloc { size, .. }, Some(stack)) = (event.what, event.stack) {
//!             let caller = events.stacks().innermost(stack);
//!             println!("{} bytes at {:?} by {caller:?}", size, event.at);
//!         }
//!     }
//! }
//! # Ok::<(), model::Error>(())
//! ```
//!
//! Memory is one chunk (at most 32 KiB) for each thread, the tree of stacks, and nothing that grows with the number of
//! events.

mod follow;
mod image;

pub use follow::process_of;
pub use image::Image;

use crate::event::{Brief, Deed, Event, Origin, Process, ProcessId, SAMPLE_MAX, Stopped, ThreadId, What};
use crate::finished::{self, FinishedEvents, Known};
use crate::form::{EVENTS, Form, STREAM, SUMS, form};
use crate::module::{Module, ModuleId};
use crate::recording::{Recording, believed, unseen_warnings};
use crate::stack::{Address, Stacks};
use crate::stream::{self, Common, Frames, Lane, Taken};
use crate::sums::{self, Sums};
use crate::wire::{self, Bad, Head, Meta};
use heap_wire::{FUNCTION_BYTES, INTERPRETED, NO_PYTHON, mark, origin, stop, tier};
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use os::file::Access;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording that is being read.
#[derive(Debug)]
pub struct Reader {
    directory: PathBuf,
    recording: Recording,
    processes: Vec<Process>,
    warnings: Vec<Warning>,
}

impl Reader {
    /// Opens a recording. One that is still being made, or whose thaw was killed, is read as far as it goes.
    ///
    /// # Errors
    /// No recording, one of another version, a file that cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        let recording = Recording::read(directory)?;
        // Where nothing was recorded, one reason is enough.
        let unseen = if recording.nothing.is_none() { &recording.unseen[..] } else { &[] };
        let mut warnings = unseen_warnings(unseen, recording.missing);
        let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
        let about = std::fs::metadata(directory).map_err(cannot)?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let Some(form) = form(&path) else { continue };
            if let Err(why) = believed(&about, &path, Access::Read) {
                warnings.push(left_out(&path, &why.to_string()));
                continue;
            }
            // Both are there if finishing was cut short before the stream was removed.
            let rewritten = |extension| path.with_extension(extension).exists();
            if form != Form::Stream || !(rewritten(EVENTS) || rewritten(SUMS)) {
                match read_head(&path, form)? {
                    Ok(head) if head.sample_bytes > SAMPLE_MAX => {
                        let why = format!("it says that samples are {} bytes apart", head.sample_bytes);
                        return Err(Error::on(Exit::Data, "the head of a stream is damaged", &path).because(why));
                    }
                    Ok(head) if form == Form::Stream && !is_named(&path, head.pid) => {
                        warnings.push(left_out(&path, &format!("it is of process {}", head.pid)));
                    }
                    Ok(head) => found.push((path, head)),
                    Err(Bad::Version(version)) => {
                        return Err(Error::on(Exit::Data, format!("a stream of version {version}"), &path)
                            .hint("record it again with this thaw"));
                    }
                    Err(Bad::NoStream) => {
                        let text = format!(
                            "{} has no beginning: its process was killed while it was set up, or the disk was full",
                            shown(&path)
                        );
                        warnings.push(Warning::new(WarningKind::LostRecords, text));
                    }
                }
            }
        }
        found.sort_by_key(|(path, head)| (head.start_ticks, path.clone()));
        let names: HashMap<Vec<u8>, usize> = found
            .iter()
            .enumerate()
            .filter_map(|(index, (path, _))| {
                Some((path.with_extension(STREAM).file_name()?.to_owned().into_vec(), index))
            })
            .collect();
        let first = recording.start_ticks.min(found.first().map_or(u64::MAX, |(_, head)| head.start_ticks));
        let rate = recording.ticks_per_second.or_else(|| rate_of(found.iter().map(|(_, head)| head))).unwrap_or(1e9);
        let recording = Recording { ticks_per_second: Some(rate), ..recording };
        let processes = found.into_iter().enumerate().map(|(index, (file, head))| {
            let parent = names.get(&head.parent).copied().filter(|_| head.origin == origin::FORK).map(ProcessId);
            let start = nanos(head.start_ticks.saturating_sub(first), rate);
            process(ProcessId(index), file, head, parent, start)
        });
        let processes: Vec<Process> = processes.collect();
        if !recording.finished {
            let running: Vec<String> = recording.running.iter().map(u32::to_string).collect();
            let text = match running.is_empty() {
                true => {
                    "the recording did not end: its thaw was killed, or still records; it is read as far as it goes"
                        .into()
                }
                false => format!(
                    "recording ended while processes were running, whose later events are not in it: {}",
                    running.join(", ")
                ),
            };
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        if processes.is_empty() {
            // Every answer says it, not only the summary: without it all of them are of 0 blocks.
            let text = recording.nothing.clone().unwrap_or_else(|| "no process was recorded".into());
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        Ok(Self { directory: directory.to_owned(), recording, processes, warnings })
    }

    /// The directory that was opened.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is known of the recording as a whole.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The process images, in the order of their beginnings.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// What is wrong with the recording as a whole.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// A warning, if blocks were chosen: figures are estimates.
    pub fn sampled(&self) -> Option<Warning> {
        let bytes = self.processes.iter().map(|process| process.sample_bytes).max().filter(|bytes| *bytes > 0)?;
        let text = format!(
            "only samples were recorded, one for about {bytes} bytes: all figures are estimates; temporary blocks, \
            realloc and growth cannot be told"
        );
        Some(Warning::new(WarningKind::Note, text))
    }

    /// The events of a process.
    ///
    /// # Errors
    /// The file cannot be read, or has sums in the place of events. What is damaged inside of a stream is a warning of
    /// [`Events`]; a damaged finished file is an error.
    pub fn events(&self, process: ProcessId) -> Result<Events> {
        if self.processes.get(process.0).is_some_and(Process::is_summed) {
            return Err(sums::no_events(&self.directory, "this needs every event"));
        }
        self.places(process)
    }

    /// As [`Reader::events`]; of a process that has sums only, its stacks and objects without any event.
    pub fn places(&self, process: ProcessId) -> Result<Events> {
        let Some(process) = self.processes.get(process.0) else {
            return Err(Error::bug(format!("the recording has no process {}", process.0)));
        };
        Events::open(process, self.rate())
    }

    /// Ticks of the time stamp counter in a second.
    pub fn rate(&self) -> f64 {
        self.recording.ticks_per_second.unwrap_or(1e9)
    }
}

/// What is said of a file that is no stream of this recording.
fn left_out(path: &Path, why: &str) -> Warning {
    Warning::new(WarningKind::LostRecords, format!("{} was left out: {why}", shown(path))).hint("look who put it there")
}

/// Whether a stream has the name that its process gave it: `PID-N`.
fn is_named(path: &Path, pid: u32) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
    name.is_some_and(|(number, _)| number.parse() == Ok(pid))
}

fn read_head(path: &Path, form: Form) -> Result<std::result::Result<Head, Bad>> {
    let page = match form {
        Form::Stream => stream::first_page(path)?,
        Form::Finished => finished::head(path)?.1,
        Form::Sums => sums::head(path)?,
    };
    Ok(wire::head(&page))
}

/// Ticks per second from the longest-lived process: good to a few millionths after a second.
fn rate_of<'a>(heads: impl Iterator<Item = &'a Head>) -> Option<f64> {
    heads
        .map(|head| {
            let (ticks, ns) = (
                head.last_ticks.saturating_sub(head.start_ticks),
                head.last_mono_ns.saturating_sub(head.start_mono_ns),
            );
            (ns, ticks as f64 * 1e9 / ns as f64)
        })
        .filter(|(ns, _)| *ns > 0)
        .max_by_key(|(ns, _)| *ns)
        .map(|(_, rate)| rate)
}

fn nanos(ticks: u64, rate: f64) -> Nanos {
    Nanos((ticks as f64 * 1e9 / rate) as u64)
}

fn process(id: ProcessId, file: PathBuf, head: Head, parent: Option<ProcessId>, start: Nanos) -> Process {
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let names = [(tier::PRELOAD, "preload"), (tier::GOT, "got"), (tier::DETOUR, "detour"), (tier::POOL, "pool")];
    let finished = form(&file) == Some(Form::Finished);
    Process {
        id,
        pid: head.pid,
        ppid: head.ppid,
        file,
        origin: match head.origin {
            origin::FORK => Origin::Fork,
            origin::ATTACH => Origin::Attach,
            _ => Origin::Exec,
        },
        parent,
        exe: path(head.exe),
        cmdline: head.cmdline.into_iter().map(OsString::from_vec).collect(),
        allocator: path(head.allocator),
        start,
        depth: head.depth,
        free_stacks: head.options & heap_wire::option::FREE_STACKS != 0,
        tiers: names.into_iter().filter(|(bit, _)| head.tiers & bit != 0).map(|(_, name)| name).collect(),
        detours: head.detours,
        inside: String::from_utf8_lossy(&head.inside).split_whitespace().map(str::to_owned).collect(),
        sample_bytes: head.sample_bytes,
        lost: head.lost,
        stopped: match head.stopped {
            stop::SPACE => Some(Stopped::Space(head.errno)),
            stop::LIMIT => Some(Stopped::SizeLimit),
            stop::MAP => Some(Stopped::Map(head.errno)),
            stop::CLOSED => Some(Stopped::Closed),
            stop::LEFT => Some(Stopped::Left),
            stop::BEHIND => Some(Stopped::Behind),
            _ => None,
        },
        doubt: String::from_utf8_lossy(&head.doubt).into_owned(),
        setup: Nanos(head.setup_ns),
        tells_usable: head.version >= 2,
        resolution: if finished { finished::QUANTUM } else { Nanos(0) },
        start_ticks: head.start_ticks,
    }
}

/// Events that are read at a time where many are.
const FEW: usize = 64;

/// When a lane goes on, the number of it, its index. Lanes that go on at the same time do so by their numbers: in the
/// same order whoever reads the stream, and whenever.
type Turn = (u64, u32, usize);

/// The events of one process, in the order of time. Fork and exec begin other processes.
#[derive(Debug)]
pub struct Events {
    /// Where the events come from if the stream is finished; else from lanes.
    finished: Option<Box<FinishedEvents>>,
    lanes: Vec<Lane>,
    /// Of a stream that is still being written.
    growing: Option<follow::Growing>,
    /// Last moment to be read.
    limit: u64,
    /// When each lane goes on, but for the one that is being read.
    order: BinaryHeap<Reverse<Turn>>,
    current: Option<usize>,
    /// Time and lane of the last record that [`Events::fill`] took.
    reached: (u64, u32),
    stacks: Stacks,
    modules: Vec<Module>,
    /// The numbers of those that are objects, in their order; of functions, by their first addresses.
    objects: Vec<u32>,
    functions: HashMap<u64, u32>,
    frames: Frames,
    names: HashMap<ThreadId, String>,
    notes: Vec<String>,
    warnings: Vec<Warning>,
    start_ticks: u64,
    rate: f64,
    common: Common,
}

impl Events {
    fn open(process: &Process, rate: f64) -> Result<Self> {
        let mut events = Self::empty(process, rate);
        match form(&process.file) {
            Some(Form::Finished) => {
                events.finished = Some(Box::new(FinishedEvents::open(&process.file, process.start_ticks, rate)?));
            }
            Some(Form::Sums) => (events.stacks, events.modules) = Sums::read(&process.file)?.places(),
            _ => {
                let file = Arc::new(stream::open(&process.file)?);
                let mut lanes = BTreeMap::new();
                stream::each_chunk(&file, &process.file, |chunk, offset| {
                    let fresh = || Lane::new(Arc::clone(&file), process.file.clone(), chunk.lane);
                    lanes.entry(chunk.lane).or_insert_with(fresh).add(chunk, offset);
                })?;
                events.lanes = lanes.into_values().collect();
            }
        }
        for index in 0..events.lanes.len() {
            if let Some(ticks) = events.lanes[index].begin()? {
                let turn = events.turn(ticks, index);
                events.order.push(Reverse(turn));
            }
        }
        Ok(events)
    }

    fn empty(process: &Process, rate: f64) -> Self {
        Self {
            finished: None,
            lanes: Vec::new(),
            growing: None,
            limit: u64::MAX,
            order: BinaryHeap::new(),
            current: None,
            reached: (0, 0),
            stacks: Stacks::default(),
            modules: Vec::new(),
            objects: Vec::new(),
            functions: HashMap::new(),
            frames: Frames::default(),
            names: HashMap::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            start_ticks: process.start_ticks,
            rate,
            common: Common { tells_usable: process.tells_usable, sample_bytes: process.sample_bytes },
        }
    }

    /// The next event; `None` after the last.
    ///
    /// # Errors
    /// The file cannot be read, or is a finished one that is damaged.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the stacks between two events")]
    pub fn next(&mut self) -> Result<Option<Event>> {
        let Self { finished, stacks, modules, names, notes, warnings, .. } = self;
        if let Some(finished) = finished {
            return finished.next(&mut Known { stacks, modules, names, notes, warnings });
        }
        loop {
            let Some(index) = self.current.take().or_else(|| self.ready()) else {
                return Ok(None);
            };
            let event = self.take(index)?;
            match self.lanes[index].peek()? {
                // The same lane goes on as long as no other one is earlier: mostly one thread allocates at a time.
                Some(ticks)
                    if ticks <= self.limit
                        && self.order.peek().is_none_or(|Reverse(other)| self.turn(ticks, index) < *other) =>
                {
                    self.current = Some(index);
                }
                Some(ticks) => self.wait(ticks, index),
                None => self.ended(index),
            }
            if let Some(event) = event {
                return Ok(Some(event.event(self.at(event.ticks))));
            }
        }
    }

    fn turn(&self, ticks: u64, index: usize) -> Turn {
        (ticks, self.lanes[index].number, index)
    }

    /// A lane goes on at this time.
    fn wait(&mut self, ticks: u64, index: usize) {
        let turn = self.turn(ticks, index);
        self.order.push(Reverse(turn));
    }

    /// The lane that goes on first.
    fn ready(&mut self) -> Option<usize> {
        let Reverse((ticks, _, index)) = *self.order.peek()?;
        (ticks <= self.limit).then(|| {
            self.order.pop();
            index
        })
    }

    /// The next events, in the place of those that are in `batch`; `false`: there are none. The stacks, objects and
    /// names are those after the last of them; it is the only one that may change a name.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub fn next_few(&mut self, batch: &mut Vec<Brief>) -> Result<bool> {
        batch.clear();
        self.fill(batch)?;
        Ok(!batch.is_empty())
    }

    /// Adds the next events to those in `batch`, until it is as full as [`Events::next_few`] makes it; `false`: it is
    /// not, because there are no more of them, or none so far. Who enters none but full ones, and the rest in the end,
    /// enters the same ones whenever they were read.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub fn fill(&mut self, batch: &mut Vec<Brief>) -> Result<bool> {
        if self.finished.is_some() {
            while batch.len() < FEW {
                let Some(event) = self.next()? else { return Ok(false) };
                batch.push(Brief::of(&event));
                if event.what == What::ThreadNamed {
                    break;
                }
            }
            return Ok(true);
        }
        while let Some(index) = self.current.take().or_else(|| self.ready()) {
            // Until when none of the others goes on.
            let last = match self.order.peek() {
                Some(Reverse((ticks, other, _))) if self.lanes[index].number < *other => *ticks,
                Some(Reverse((ticks, ..))) => ticks.saturating_sub(1),
                None => u64::MAX,
            };
            let (last, mut full) = (last.min(self.limit), false);
            loop {
                if !full {
                    self.lanes[index].take_many(last, FEW, batch, self.common, &mut self.stacks, &mut self.frames);
                    full = batch.len() >= FEW;
                }
                self.reached = (self.lanes[index].ticks(), self.lanes[index].number);
                match self.lanes[index].peek()? {
                    Some(ticks) if ticks <= last && full => self.current = Some(index),
                    Some(ticks) if ticks <= last => {
                        let event = self.take(index)?;
                        batch.extend(event);
                        full = event.is_some_and(|event| event.deed == Deed::ThreadNamed);
                        continue;
                    }
                    Some(ticks) => self.wait(ticks, index),
                    None => self.ended(index),
                }
                break;
            }
            if full {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// When an event was, by its ticks.
    pub fn at(&self, ticks: u64) -> Nanos {
        nanos(ticks.saturating_sub(self.start_ticks), self.rate)
    }

    /// Takes the next record of a lane; `None`: it was one about the stream itself.
    fn take(&mut self, index: usize) -> Result<Option<Brief>> {
        let Some(taken) = self.lanes[index].take(self.common, &mut self.stacks, &mut self.frames) else {
            return Ok(None);
        };
        let (ticks, thread, meta) = match taken {
            Taken::Event(event) => return Ok(Some(event)),
            Taken::Meta(ticks, thread, meta) => (ticks, thread, meta),
        };
        let rare = |deed, thread| Ok(Some(Brief::rare(deed, ticks, thread)));
        match meta {
            Meta::Thread(_) => rare(Deed::ThreadBegins, thread),
            Meta::Fork => rare(Deed::Fork, thread),
            Meta::Name(tid, name) => {
                self.names.insert(ThreadId(tid), String::from_utf8_lossy(name).into_owned());
                rare(Deed::ThreadNamed, ThreadId(tid))
            }
            Meta::Pc(id, mark::RUNS) => {
                self.frames.insert(id, None);
                Ok(None)
            }
            Meta::Pc(id, pc) => {
                let module = self.module_of(pc.wrapping_sub(1));
                let number = self.stacks.address(Address { pc, module });
                self.frames.insert(id, Some(number));
                Ok(None)
            }
            Meta::Module { bias, start, end, build_id, path } => {
                let path = PathBuf::from(OsString::from_vec(path.to_vec()));
                let module = Module { path, build_id: build_id.to_vec(), bias, start, end };
                if self.modules.last() != Some(&module) {
                    let number = self.modules.len() as u32;
                    match start {
                        INTERPRETED.. => _ = self.functions.insert(start, number),
                        _ => self.objects.push(number),
                    }
                    self.modules.push(module);
                }
                Ok(None)
            }
            Meta::Note(text) => {
                self.notes.push(String::from_utf8_lossy(text).into_owned());
                Ok(None)
            }
            Meta::Reset => Ok(None),
        }
    }

    /// What was loaded last where this address is.
    fn module_of(&self, inside: u64) -> Option<ModuleId> {
        let number = match inside {
            INTERPRETED.. => self.functions.get(&(inside - inside % FUNCTION_BYTES)),
            _ => self.objects.iter().rfind(|number| {
                let module = self.modules.get(**number as usize);
                module.is_some_and(|module| (module.start..module.end).contains(&inside))
            }),
        };
        number.copied().map(ModuleId)
    }

    /// The stacks of the events so far.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The loaded objects so far, and the functions of interpreters. One that was unloaded stays; an address is in the
    /// object that was there at its time.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// A thread's last name.
    pub fn thread_name(&self, thread: ThreadId) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// What the recorder noted.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the recorder noted of how it reads the stacks of this process.
    pub fn remarks(&self, process: &Process) -> impl Iterator<Item = Warning> {
        let mut of_stacks: Vec<&String> = self.notes.iter().filter(|note| note.starts_with(NO_PYTHON)).collect();
        of_stacks.dedup();
        let who = format!("process {} ({})", process.pid, shown(&process.exe));
        of_stacks.into_iter().map(move |note| Warning::new(WarningKind::Note, format!("{who}: {note}")))
    }

    /// Damage that was met so far.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The stacks and objects, after the last event.
    pub fn into_parts(self) -> (Stacks, Vec<Module>) {
        (self.stacks, self.modules)
    }
}
