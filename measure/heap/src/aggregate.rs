//! Long runs: the streams are added up while the program writes them, and what was read is freed on the disk.
//!
//! What is live and what each site adds up to is kept here, in thaw; nothing grows in the recorded process. Each stream gets a file of sums beside
//! it, written anew from time to time, and goes when its process has ended.
//!
//! ```text
//! "THAWSUMS", u32 version, u32 CRC-32 of the rest; zstd of the first page of the stream and of Sums as JSON
//! ```
//!
//! Not for questions that need every event: moments, marks, threads, logs, growth.

mod late;

use crate::ledger::Totals;
use crate::modes::{Books, Held, Site, Split, Timeline, Window};
use crate::record::Clock;
use crate::report::MissingFrames;
use crate::stack::{Address, End, StackId, Stacks};
use crate::stream::{self, Event, Events, Module, ModuleId, Process, ThreadId, What};
use crate::wire;
use heap_wire::{FileHeader, PAGE};
use late::Late;
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Extension of files of sums.
pub const EXTENSION: &str = "sums";
const MAGIC: &[u8; 8] = b"THAWSUMS";
const VERSION: u32 = 1;
/// Bytes before the packed part.
const HEAD: usize = 16;
/// Most bytes that the packed part may unpack to: so many, and so many times its length.
const UNPACKED_LEAST: u64 = 64 << 20;
const UNPACKED_TIMES: u64 = 256;
/// Of zstd.
const LEVEL: i32 = 3;
/// Events younger than this may still be on their way into a stream, because their thread does not run.
const MARGIN: Duration = Duration::from_millis(500);
/// How often sums are written, if that takes no more than a [`SHARE`]th of the time.
const WRITE_EVERY: Duration = Duration::from_secs(10);
const SHARE: u32 = 20;
/// Which signal tells that somebody wants a file that is leased (`fcntl.h`).
const F_SETSIG: libc::c_int = 10;
/// How often it is looked whether anybody still writes a stream.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so many events the process is told how far it is read, if it is.
const TELL_EVERY: u64 = 4096;

/// Why a recording of sums cannot answer.
pub(crate) fn no_events(directory: &Path, why: &str) -> Error {
    Error::on(Exit::Usage, "the recording has sums in the place of events", directory)
        .because(why)
        .hint("record it without --aggregate")
}

/// What is kept of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sums {
    /// Split by size.
    pub sites: Vec<Site>,
    /// Callers' stacks and numbers of addresses, from the first that is no end on.
    nodes: Vec<(StackId, u32)>,
    /// Return addresses and numbers of objects.
    addresses: Vec<(u64, Option<u32>)>,
    objects: Vec<Object>,
    pub totals: Totals,
    pub peak: Held,
    pub peak_at: Nanos,
    pub last: Nanos,
    pub timeline: Timeline,
    /// Threads that allocated.
    pub threads: u64,
    /// Allocations whose stack is cut.
    pub cut_stacks: u64,
    /// Of these, those that are deeper than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deep_stacks: Option<u64>,
    /// Allocations with frames missing between others of their stack.
    #[serde(default)]
    pub skipped_stacks: u64,
    pub warnings: Vec<Warning>,
    /// The stream was read to its end, and nobody wrote it any more.
    #[serde(default)]
    whole: bool,
}

/// A loaded object; its path may be no text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Object {
    path: Vec<u8>,
    build_id: Vec<u8>,
    bias: u64,
    start: u64,
    end: u64,
}

impl Sums {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or of another version.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let damaged = |cause: String| Error::on(Exit::Data, "a file of sums is damaged", path).because(cause);
        let bytes = fs::read(path).map_err(|cause| Error::on(Exit::Data, "cannot read", path).because(cause))?;
        let packed = packed(&bytes, path)?;
        if bytes.get(12..HEAD) != Some(&crc32fast::hash(packed).to_le_bytes()) {
            return Err(damaged("its checksum is wrong".into()));
        }
        let mut unpacked = unpack(packed).map_err(|cause| damaged(cause.to_string()))?;
        let mut page = [0; PAGE];
        unpacked.read_exact(&mut page).map_err(|cause| damaged(cause.to_string()))?;
        let mut sums: Self =
            serde_json::from_reader(std::io::BufReader::new(unpacked)).map_err(|cause| damaged(cause.to_string()))?;
        if !sums.is_sound() {
            return Err(damaged("it names stacks that it does not have".into()));
        }
        let bytes = sums.unread(path);
        if bytes > 0 {
            let text = sums.until(path, &format!("{bytes} bytes of events were not, or not yet"));
            sums.warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        Ok(sums)
    }

    /// Allocations whose stacks lack frames. Sums of older versions do not tell why.
    pub(crate) fn missing(&self) -> MissingFrames {
        let cut = self.cut_stacks;
        MissingFrames { cut, deep: self.deep_stacks.unwrap_or(cut).min(cut), skipped: self.skipped_stacks }
    }

    /// Bytes of the stream beside the sums: thaw has not read it to its end.
    fn unread(&self, path: &Path) -> u64 {
        let stream = fs::metadata(path.with_extension(crate::finish::STREAM));
        stream.map_or(0, |meta| if self.whole { 0 } else { meta.blocks() * 512 })
    }

    fn until(&self, path: &Path, what: &str) -> String {
        let (file, last) = (shown(path), self.last.seconds());
        format!("{file} has what was added up until {last:.1} s after its process began; {what}")
    }

    /// Whether all numbers lead somewhere.
    fn is_sound(&self) -> bool {
        let first = heap_wire::mark::FIRST_PC as usize;
        let nodes = self.nodes.iter().enumerate().all(|(index, (caller, address))| {
            (caller.0 as usize) < first + index && (*address as usize) < self.addresses.len()
        });
        let known = |stack: StackId| (stack.0 as usize) < first + self.nodes.len();
        let few = |count: u64| count < 1 << 62;
        let made = self.sites.iter().try_fold(0u64, |sum, site| sum.checked_add(site.figures.made.blocks));
        let of_made = |site: &Site| {
            let figures = &site.figures;
            [figures.end, figures.peak, figures.max].iter().all(|part| part.blocks <= figures.made.blocks)
        };
        let objects = self.addresses.iter().filter_map(|(_, object)| *object);
        nodes
            && self.sites.iter().filter_map(|site| site.stack).all(known)
            && objects.into_iter().all(|object| (object as usize) < self.objects.len())
            && made.is_some_and(few)
            && self.sites.iter().all(of_made)
            && few(self.totals.allocs_over_live)
            && few(self.totals.frees_of_unknown)
            && self.timeline.is_sound()
    }

    /// Writes a file of them and of the first page of their stream.
    fn write(&self, target: &Path, page: &[u8]) -> Result<()> {
        let packed =
            pack(page, self).map_err(|cause| Error::on(Exit::Machine, "cannot write", target).because(cause))?;
        os::replace::write_by(target, Rights::Private, Existing::Replace, |out| {
            out.write_all(MAGIC)?;
            out.write_all(&VERSION.to_le_bytes())?;
            out.write_all(&crc32fast::hash(&packed).to_le_bytes())?;
            out.write_all(&packed)
        })
    }

    /// Its stacks and objects.
    pub(crate) fn places(&self) -> (Stacks, Vec<Module>) {
        let mut stacks = Stacks::default();
        for (pc, module) in &self.addresses {
            stacks.append_address(Address { pc: *pc, module: module.map(ModuleId) });
        }
        for (caller, address) in &self.nodes {
            stacks.append(*caller, *address);
        }
        let modules = self.objects.iter().map(|object| Module {
            path: PathBuf::from(OsString::from_vec(object.path.clone())),
            build_id: object.build_id.clone(),
            bias: object.bias,
            start: object.start,
            end: object.end,
        });
        (stacks, modules.collect())
    }
}

/// What finishing did with sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// Bytes of the stream that were not added up, and cannot be any more: which blocks were live before them is not known.
    pub left_out: u64,
    /// Whether the sums have all events of the process.
    pub whole: bool,
}

/// Removes the stream beside the sums of a process that has ended. What it says of losses, and what was not read of it, is kept with the sums.
///
/// # Errors
/// The sums cannot be read or written, the stream cannot be removed.
pub(crate) fn finish(process: &Process) -> Result<Finished> {
    let (path, stream) = (&process.file, process.file.with_extension(crate::finish::STREAM));
    let mut sums = Sums::read(path)?;
    let left_out = sums.unread(path);
    if left_out > 0 {
        sums.warnings.pop();
        let text = sums.until(path, &format!("{left_out} bytes of events were not before its thaw was killed"));
        sums.warnings.push(Warning::new(WarningKind::LostRecords, text));
    }
    if stream.exists() {
        sums.write(path, &head(path)?)?;
        fs::remove_file(&stream).map_err(|cause| Error::on(Exit::Machine, "cannot remove", &stream).because(cause))?;
    }
    let lost = |warning: &Warning| warning.kind == WarningKind::LostRecords;
    Ok(Finished { left_out, whole: process.lost == 0 && !sums.warnings.iter().any(lost) })
}

/// The first page of the stream that a file of sums was made from: as it is now, if it is still there.
pub(crate) fn head(path: &Path) -> Result<Vec<u8>> {
    let stream = path.with_extension(crate::finish::STREAM);
    if let Ok(page) = stream::first_page(&stream)
        && wire::head(&page).is_ok()
    {
        return Ok(page);
    }
    let cannot = |cause| Error::on(Exit::Data, "cannot read", path).because(cause);
    let bytes = fs::read(path).map_err(cannot)?;
    let mut page = vec![0; PAGE];
    unpack(packed(&bytes, path)?).and_then(|mut unpacked| unpacked.read_exact(&mut page)).map_err(cannot)?;
    Ok(page)
}

fn packed<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a [u8]> {
    let (Some(magic), Some(version), Some(packed)) = (bytes.get(..8), bytes.get(8..12), bytes.get(HEAD..)) else {
        return Err(Error::on(Exit::Data, "a file of sums is cut off", path));
    };
    if magic != MAGIC || version != VERSION.to_le_bytes() {
        return Err(Error::on(Exit::Data, "no file of sums, or of another version", path)
            .hint("record it again with this thaw"));
    }
    Ok(packed)
}

fn unpack(packed: &[u8]) -> std::io::Result<impl Read> {
    Ok(zstd::Decoder::new(packed)?.take(UNPACKED_LEAST + UNPACKED_TIMES * packed.len() as u64))
}

/// Adds up all streams of a recording while they grow.
pub(crate) struct Aggregator {
    directory: PathBuf,
    first_ticks: u64,
    /// Streams that were seen.
    known: HashSet<OsString>,
    open: Vec<Stream>,
}

impl Aggregator {
    /// Finds out first whether the file system can free parts of files.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn new(directory: &Path, first_ticks: u64) -> Result<Self> {
        let path = os::file::name_beside(&directory.join("hole"));
        let cannot = |cause| Error::on(Exit::Machine, "cannot write", &path).because(cause);
        let file = File::create_new(&path).map_err(cannot)?;
        let holes =
            file.set_len(PAGE as u64).map_err(cannot).and_then(|()| stream::punch(&file, &path, 0, PAGE as u64));
        fs::remove_file(&path).map_err(cannot)?;
        holes.map_err(|error| Error { object: shown(directory), ..error })?;
        Ok(Self { directory: directory.to_owned(), first_ticks, known: HashSet::new(), open: Vec::new() })
    }

    /// Takes what there is, but for the youngest events.
    ///
    /// # Errors
    /// A stream cannot be read, sums cannot be written.
    pub(crate) fn poll(&mut self, clock: &Clock) -> Result<()> {
        let rate = clock.rate();
        let limit = Clock::now().saturating_sub((MARGIN.as_secs_f64() * rate) as u64);
        self.discover(rate)?;
        let mut index = 0;
        while let Some(stream) = self.open.get_mut(index) {
            if stream.advance(limit)? {
                index += 1;
            } else {
                self.open.swap_remove(index).end()?;
            }
        }
        Ok(())
    }

    /// Takes all that there is; how many streams there were. Those that are still being written, by processes that run (`running`), stay: what
    /// comes is not looked at any more.
    ///
    /// # Errors
    /// As [`Aggregator::poll`].
    pub(crate) fn end(mut self, clock: &Clock, running: &[u32]) -> Result<usize> {
        self.discover(clock.rate())?;
        for stream in self.open {
            // Asked first: what nobody writes any more is complete.
            if !running.is_empty() && stream.is_written() {
                stream.take_rest(Whole::No)?;
            } else {
                stream.end()?;
            }
        }
        Ok(self.known.len())
    }

    fn discover(&mut self, rate: f64) -> Result<()> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot read the recording", &self.directory).because(cause);
        let about = fs::metadata(&self.directory).map_err(cannot)?;
        for entry in fs::read_dir(&self.directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().unwrap_or_default();
            if path.extension() != Some(OsStr::new(crate::finish::STREAM)) || self.known.contains(name) {
                continue;
            }
            // Readers of the recording say that it was left out.
            if crate::record::believed(&about, &path, os::file::Access::Write).is_err() {
                continue;
            }
            if let Some(process) = stream::process_of(&path, self.first_ticks, rate)? {
                self.known.insert(name.to_owned());
                self.open.push(Stream::open(process, rate)?);
            }
        }
        Ok(())
    }
}

/// Whether sums have all events of their stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

/// One stream that is being added up.
struct Stream {
    process: Process,
    file: Rc<File>,
    events: Events,
    books: Books,
    late: Late,
    threads: HashSet<ThreadId>,
    /// How a stack ended, and whether frames are missing in it.
    ends: HashMap<StackId, (End, bool)>,
    missing: MissingFrames,
    /// What the process was told that is read.
    consumed: u64,
    /// When sums are written next, and when it is looked next whether anybody writes.
    write_at: Instant,
    look_at: Instant,
}

impl Stream {
    /// Its sums are there before anything of it is freed.
    fn open(process: Process, rate: f64) -> Result<Self> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot open", &process.file).because(cause);
        let file = os::file::open_unlinked(&process.file, os::file::Access::Write).map_err(cannot)?;
        let file = Rc::new(file);
        let now = Instant::now();
        let mut stream = Self {
            events: Events::follow(&process, Rc::clone(&file), rate),
            books: Books::new(process.origin, Nanos(0), Window::default(), Split::Size),
            late: Late::default(),
            threads: HashSet::new(),
            ends: HashMap::new(),
            missing: MissingFrames::default(),
            consumed: 0,
            write_at: now,
            look_at: now + LOOK_EVERY,
            process,
            file,
        };
        stream.books.sampled = stream.process.sample_bytes > 0;
        stream.write(Whole::No)?;
        Ok(stream)
    }

    /// Takes the events up to this moment; `false`: nobody writes it any more.
    fn advance(&mut self, limit: u64) -> Result<bool> {
        self.events.advance(limit)?;
        self.tell()?;
        let mut count = 0u64;
        while let Some(event) = self.events.next()? {
            count += 1;
            self.enter(&event);
            if count.is_multiple_of(TELL_EVERY) {
                self.tell()?;
            }
        }
        self.tell()?;
        let now = Instant::now();
        if now >= self.write_at {
            self.late.settle(limit, &mut self.books);
            self.write(Whole::No)?;
        }
        if count > 0 || now < self.look_at {
            return Ok(true);
        }
        self.look_at = now + LOOK_EVERY;
        Ok(self.is_written())
    }

    /// Tells the process how far its stream is read, if it was read on.
    fn tell(&mut self) -> Result<()> {
        let consumed = self.events.consumed();
        if consumed > self.consumed {
            self.consumed = consumed;
            let place = offset_of!(FileHeader, consumed) as u64;
            self.file
                .write_all_at(&consumed.to_le_bytes(), place)
                .map_err(|cause| Error::on(Exit::Machine, "cannot write", &self.process.file).because(cause))?;
        }
        Ok(())
    }

    fn enter(&mut self, event: &Event) {
        if let What::Alloc { count, .. } = event.what {
            self.threads.insert(event.thread);
            if let Some(stack) = event.stack {
                let stacks = self.events.stacks();
                let look = || (stacks.ended(stack), stacks.skips(stack));
                let (end, skips) = *self.ends.entry(stack).or_insert_with(look);
                self.missing.add(end, skips, count);
            }
        }
        self.late.enter(event, &mut self.books);
    }

    /// Whether another process has it open or mapped: only what nobody else has can be leased for writing.
    fn is_written(&self) -> bool {
        let fd = self.file.as_raw_fd();
        // Who opens it meanwhile makes the kernel tell us: by a signal that does nothing.
        // SAFETY: an open descriptor; the commands take a number.
        let leased = unsafe {
            libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
        };
        if leased {
            // SAFETY: as above.
            unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        }
        !leased
    }

    /// Takes the rest of what nobody writes any more, and removes it.
    fn end(self) -> Result<()> {
        let path = self.take_rest(Whole::Yes)?;
        fs::remove_file(&path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", &path).because(cause))
    }

    /// Takes all that is there; which file it is.
    fn take_rest(mut self, whole: Whole) -> Result<PathBuf> {
        self.events.advance(u64::MAX)?;
        while let Some(event) = self.events.next()? {
            self.enter(&event);
        }
        self.events.close();
        self.late.settle(u64::MAX, &mut self.books);
        self.write(whole)?;
        Ok(self.process.file)
    }

    /// Whether thaw was too slow for the process.
    fn held_back(&self, page: &[u8]) -> Option<Warning> {
        let head = wire::head(page).ok()?;
        let who = format!("process {}", self.process.pid);
        if head.restless != 0 {
            let why = std::io::Error::from_raw_os_error(head.restless as i32);
            let text = format!("{who} may not wait for thaw ({why}): its stream grew where thaw was too slow");
            return Some(Warning::new(WarningKind::Note, text));
        }
        let waited = Duration::from_nanos(head.pauses.saturating_mul(heap_wire::follow::PAUSE_NS));
        (head.pauses > 0).then(|| {
            let text =
                format!("the threads of {who} waited {waited:.1?} in all, because thaw read its events more slowly");
            Warning::new(WarningKind::Note, text)
        })
    }

    fn write(&mut self, whole: Whole) -> Result<()> {
        let began = Instant::now();
        let (stacks, modules) = (self.events.stacks(), self.events.modules());
        let mut warnings = self.events.warnings().to_vec();
        if self.late.count > 0 {
            let text = format!(
                "process {}: {} events came out of order and were put right",
                self.process.pid, self.late.count
            );
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        // What it says of losses may have changed.
        let page = stream::first_page(&self.process.file)?;
        warnings.extend(self.held_back(&page));
        let object = |module: &Module| Object {
            path: module.path.as_os_str().as_bytes().to_vec(),
            build_id: module.build_id.clone(),
            bias: module.bias,
            start: module.start,
            end: module.end,
        };
        let sums = Sums {
            sites: self.books.sites(),
            nodes: (heap_wire::mark::FIRST_PC..stacks.len() as u32).map(|node| stacks.node(StackId(node))).collect(),
            addresses: stacks.addresses().map(|it| (it.pc, it.module.map(|module| module.0))).collect(),
            objects: modules.iter().map(object).collect(),
            totals: *self.books.ledger.totals(),
            peak: self.books.peak,
            peak_at: self.books.peak_at,
            last: self.books.last,
            timeline: self.books.timeline.clone(),
            threads: self.threads.len() as u64,
            cut_stacks: self.missing.cut,
            deep_stacks: Some(self.missing.deep),
            skipped_stacks: self.missing.skipped,
            warnings,
            whole: whole == Whole::Yes,
        };
        sums.write(&self.process.file.with_extension(EXTENSION), &page)?;
        self.write_at = Instant::now() + WRITE_EVERY.max(began.elapsed() * SHARE);
        Ok(())
    }
}

fn pack(page: &[u8], sums: &Sums) -> std::io::Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(Vec::new(), LEVEL)?;
    std::io::Write::write_all(&mut packer, page)?;
    let mut packer = std::io::BufWriter::new(packer);
    serde_json::to_writer(&mut packer, sums)?;
    packer.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// A file whose packed part are the first page of a stream and this text.
    fn file_of(text: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; PAGE];
        raw[..8].copy_from_slice(&heap_wire::MAGIC);
        raw[8] = heap_wire::VERSION as u8;
        raw.extend(text);
        let packed = zstd::encode_all(&raw[..], LEVEL).unwrap();
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &crc32fast::hash(&packed).to_le_bytes()].concat();
        bytes.extend(packed);
        bytes
    }

    fn written(sums: &Value) -> Result<Sums> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.sums");
        fs::write(&path, file_of(&serde_json::to_vec(sums).unwrap())).unwrap();
        Sums::read(&path)
    }

    /// Sums with one site.
    fn sound() -> Value {
        let held = json!({"bytes": 8, "blocks": 1});
        let names = ["made", "end", "peak", "max", "temporary", "handed_over"];
        let mut figures: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), held.clone())).collect();
        figures.insert("lifetime_ns".into(), 0.into());
        json!({
            "sites": [{"stack": 4, "part": 8, "usable": 24, "figures": figures}],
            "nodes": [[0, 0]],
            "addresses": [[4096, 0]],
            "objects": [{"path": [47], "build_id": [], "bias": 0, "start": 0, "end": 8192}],
            "totals": Totals::default(), "peak": held, "peak_at": 0, "last": 0, "timeline": Timeline::default(),
            "threads": 1, "cut_stacks": 0, "warnings": []
        })
    }

    #[test]
    fn numbers_that_lead_nowhere_are_damage() {
        let sound = sound();
        let sums = written(&sound).unwrap();
        assert_eq!(sums.places().0.innermost(StackId(4)).unwrap().pc, 4096);
        for (place, value) in [
            ("/sites/0/stack", json!(5)),
            ("/nodes/0", json!([4, 0])),
            ("/nodes/0", json!([0, 1])),
            ("/addresses/0", json!([4096, 1])),
            ("/sites/0/figures/end/blocks", json!(2)),
            ("/sites/0/figures/made/blocks", json!(u64::MAX)),
            ("/totals/frees_of_unknown", json!(u64::MAX)),
            ("/timeline/step_ns", json!(0)),
            ("/sites", json!(null)),
        ] {
            let mut damaged = sound.clone();
            *damaged.pointer_mut(place).unwrap() = value;
            assert_eq!(written(&damaged).unwrap_err().exit, Exit::Data, "{place}");
        }
    }

    /// All that is made of a file of sums.
    fn answers(file: &[u8]) -> Result<crate::report::Report> {
        let folder = tempfile::tempdir().unwrap();
        let head = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"","created_unix_ns":0,"start_ticks":0,
            "ticks_per_second":1e9,"finished":true,"code":0,"signal":null,"cpu_s":null,"max_rss_bytes":null,"nothing":null,"running":[]}"#;
        fs::write(folder.path().join("recording.json"), head).unwrap();
        fs::write(folder.path().join("1-0.sums"), file).unwrap();
        let reader = stream::Reader::open(folder.path())?;
        crate::slop::report(&reader, &crate::slop::Options { model: None, frames: 4, top: 10 })?;
        for split in [Split::Stack, Split::Size] {
            for process in reader.processes() {
                crate::modes::analyze(&reader, process, Window::default(), split)?;
            }
        }
        crate::report::report(&reader)
    }

    #[test]
    fn little_does_not_become_much() {
        assert_eq!(answers(&file_of(&serde_json::to_vec(&sound()).unwrap())).unwrap().processes[0].leaked_blocks, 0);
        // A few kilobytes that unpack to more than a hundred megabytes.
        let mut text = br#"{"nodes": ["#.to_vec();
        text.extend(b"[0,0],".repeat(20 << 20));
        let file = file_of(&text);
        assert!(file.len() < 1 << 20, "{}", file.len());
        assert_eq!(answers(&file).unwrap_err().exit, Exit::Data);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..400, number: u64) {
            let _ = answers(&bytes);
            let _ = answers(&[&MAGIC[..], &VERSION.to_le_bytes(), &crc32fast::hash(&bytes).to_le_bytes(), &bytes].concat());
            let _ = answers(&file_of(&bytes));
            // Any number in the place of one of those that are there.
            let text = serde_json::to_string(&sound()).unwrap();
            let digits: Vec<usize> = text.char_indices().filter(|(_, letter)| letter.is_ascii_digit()).map(|(at, _)| at).collect();
            let at = digits[which % digits.len()];
            let changed = format!("{}{number}{}", &text[..at], &text[at + 1..]);
            let _ = answers(&file_of(changed.as_bytes()));
        }
    }
}
