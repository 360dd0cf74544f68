//! Finished recordings say what their streams said, whatever these were; they survive kills, and tell when they are
//! damaged.

use heap_wire::{CHUNK_MAGIC, MAGIC, PAGE, VERSION, kind, mark, meta, spread, zigzag};
use heapfile::event::Event;
use heapfile::ledger::Ledger;
use heapfile::reader::{Events, Reader};
use heaprec::finish::{self, QUANTUM};
use model::Exit;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testing::steps::{Next, stand_still, steps};
use work::heaps::conclude::{Early, Streams, conclude};

const HEAD: &str = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"",
    "created_unix_ns":0,"start_ticks":1000,
    "ticks_per_second":1e9,"finished":true,"code":0,"signal":null,"cpu_s":null,
    "max_rss_bytes":null,"nothing":null,"running":[]}"#;

/// A lane as the guest writes it, but for the lengths of numbers: all are of eight bytes.
struct Lane {
    number: u32,
    bytes: Vec<u8>,
    ticks: u64,
    pointer: u64,
}

impl Lane {
    fn new(number: u32, tid: u32) -> Self {
        let mut lane = Self { number, bytes: Vec::new(), ticks: 1000, pointer: 0 };
        lane.meta(0, meta::THREAD, &tid.to_le_bytes());
        lane
    }

    fn meta(&mut self, elapsed: u64, what: u8, payload: &[u8]) {
        self.header(kind::META, elapsed, 0);
        self.bytes.push(what);
        self.bytes.extend((payload.len() as u16).to_le_bytes());
        self.bytes.extend(payload);
    }

    fn header(&mut self, kind: u16, elapsed: u64, stack: u16) {
        self.bytes.extend((kind | 7 << 4 | 7 << 7 | 7 << 10 | stack << 13).to_le_bytes());
        self.bytes.extend(elapsed.to_le_bytes());
        self.ticks += elapsed;
    }

    /// An event; the stack are ids, outermost first.
    fn event(&mut self, kind: u16, elapsed: u64, ptr: u64, size: u64, stack: Option<&[u32]>) {
        self.header(kind, elapsed, stack.map_or(heap_wire::stack::NONE, |_| heap_wire::stack::WIDE));
        self.bytes.extend(zigzag(spread(ptr).wrapping_sub(self.pointer)).to_le_bytes());
        self.pointer = spread(ptr);
        if kind::has_size(kind) {
            self.bytes.extend(size.to_le_bytes());
        }
        if kind::has_extra(kind) {
            self.bytes.push(size as u8);
        }
        if let Some(stack) = stack {
            self.bytes.extend([0, stack.len() as u8 + 1]);
            self.bytes.extend(mark::ROOT.to_le_bytes());
            stack.iter().for_each(|id| self.bytes.extend(id.to_le_bytes()));
        }
    }

    fn chunk(&self) -> Vec<u8> {
        let length = (32 + self.bytes.len() + 2).next_multiple_of(PAGE);
        let mut chunk = vec![0; length];
        chunk[..4].copy_from_slice(&CHUNK_MAGIC.to_le_bytes());
        chunk[4..8].copy_from_slice(&self.number.to_le_bytes());
        chunk[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        chunk[16..24].copy_from_slice(&1000u64.to_le_bytes());
        chunk[32..32 + self.bytes.len()].copy_from_slice(&self.bytes);
        chunk
    }
}

/// Makes a recording of one process with these lanes.
fn recording(directory: &Path, lanes: &[Lane]) {
    let mut file = vec![0; PAGE];
    file[..8].copy_from_slice(&MAGIC);
    file[8..12].copy_from_slice(&VERSION.to_le_bytes());
    file[16..20].copy_from_slice(&7u32.to_le_bytes());
    file[24..32].copy_from_slice(&1000u64.to_le_bytes());
    lanes.iter().for_each(|lane| file.extend(lane.chunk()));
    fs::write(directory.join("recording.json"), HEAD).unwrap();
    fs::write(directory.join("7-0.stream"), file).unwrap();
}

/// What a recording says of its first process.
#[derive(Debug, PartialEq)]
struct Said {
    events: Vec<Event>,
    rest: String,
}

fn rest(events: &Events, said: &[Event]) -> String {
    let stacks = events.stacks();
    let frames =
        |event: &Event| event.stack.map(|stack| (stacks.frames(stack).collect::<Vec<_>>(), stacks.ended(stack)));
    let frames: Vec<_> = said.iter().map(frames).collect();
    let names: Vec<_> = said.iter().map(|event| events.thread_name(event.thread)).collect();
    format!("{frames:?} {names:?} {:?} {:?} {:?} {}", events.modules(), events.notes(), events.warnings(), stacks.len())
}

fn said(directory: &Path) -> Said {
    let reader = Reader::open(directory).unwrap();
    let mut events = reader.events(reader.processes()[0].id).unwrap();
    let mut said = Vec::new();
    while let Some(event) = events.next().unwrap() {
        said.push(event);
    }
    Said { rest: rest(&events, &said), events: said }
}

/// Both say the same, to the resolution of times.
fn assert_same(exact: &Said, mut finished: Said) {
    assert_eq!(exact.events.len(), finished.events.len());
    let mut last = 0;
    for (exact, finished) in exact.events.iter().zip(&mut finished.events) {
        assert!(exact.at.0.abs_diff(finished.at.0) <= QUANTUM.0, "{exact:?} {finished:?}");
        assert!(finished.ticks >= last, "time goes on");
        last = finished.ticks;
        (finished.at, finished.ticks) = (exact.at, exact.ticks);
    }
    assert_eq!(exact, &finished);
}

/// The summary has the sums of the books.
fn assert_summed(directory: &Path) {
    let reader = Reader::open(directory).unwrap();
    let mut events = reader.events(reader.processes()[0].id).unwrap();
    let mut ledger = Ledger::new(reader.processes()[0].origin);
    while let Some(event) = events.next().unwrap() {
        ledger.enter(&event);
    }
    let (totals, report) = (ledger.totals(), &heap::report::report(&reader).unwrap().processes[0]);
    assert_eq!(
        (report.allocations, report.frees, report.reallocs, report.allocated_bytes, report.inherited_frees),
        (totals.allocations, totals.frees, totals.reallocs, totals.allocated, totals.inherited_frees)
    );
    assert_eq!(
        (report.peak_bytes, report.peak_at_ns, report.leaked_blocks, report.leaked_bytes, report.inconsistencies),
        (totals.peak, totals.peak_at, totals.live_blocks, totals.live, totals.inconsistencies())
    );
    assert_eq!((report.maps, report.mapped_bytes), (totals.maps, totals.mapped));
    let leaked: u64 = ledger.live().map(|(_, block)| block.count).sum();
    assert_eq!(report.leaks.iter().map(|leak| leak.blocks).sum::<u64>(), leaked);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a lane does: kind, time, pointer, size, stack.
type Step = (u16, u64, u64, u64, Option<Vec<u32>>);

/// Anything that a guest may write, sensible or not: few pointers and sizes, so that blocks are freed, and made over
/// live ones.
fn step() -> impl Strategy<Value = Step> {
    let pointer = prop_oneof![8 => (0u64..30).prop_map(|at| 0x5000 + at * 32), 1 => 0u64..20, 1 => any::<u64>()];
    let size = prop_oneof![8 => 0u64..60, 1 => any::<u64>()];
    let time = prop_oneof![8 => 0u64..100, 1 => 0u64..2_000_000];
    let stack = prop::option::of(prop::collection::vec(4u32..12, 0..6));
    let what = prop_oneof![3 => Just(kind::FREE), 3 => Just(kind::MALLOC), 2 => 1u16..=12, 1 => Just(kind::META)];
    (what, time, pointer, size, stack)
}

fn lane(number: u32, steps: &[Step]) -> Lane {
    let mut lane = Lane::new(number, 100 + number);
    for id in 4u32..12 {
        if id == 8 {
            let numbers = [0x40_0000u64, 0x1000, 0x1004].map(u64::to_le_bytes).concat();
            lane.meta(0, meta::MODULE, &[numbers, vec![2, 0xab, 0xcd], b"/lib/x.so".to_vec()].concat());
        }
        lane.meta(0, meta::PC, &[&id.to_le_bytes()[..], &(0x1000 + u64::from(id % 5)).to_le_bytes()[..]].concat());
    }
    for (kind, time, ptr, size, stack) in steps {
        match (*kind, size % 5) {
            (kind::META, 0) => lane.meta(*time, meta::FORK, &[]),
            (kind::META, 1) => lane.meta(*time, meta::NOTE, b"a note"),
            (kind::META, 2) => lane.meta(*time, meta::NAME, b"\x64\0\0\0worker"),
            (kind::META, 3) => lane.meta(*time, meta::NAME, format!("\x65\0\0\0{ptr}").as_bytes()),
            (kind::META, _) => lane.meta(*time, meta::THREAD, &(100 + (*ptr as u32 & 1)).to_le_bytes()),
            (kind, _) => lane.event(kind, *time, *ptr, *size, stack.as_deref()),
        }
    }
    lane
}

proptest! {
    #[test]
    fn a_finished_recording_says_the_same(lanes in prop::collection::vec(prop::collection::vec(step(), 0..200), 1..4)) {
        let home = tempfile::tempdir().unwrap();
        let lanes: Vec<Lane> = (0..).zip(&lanes).map(|(number, steps)| lane(number, steps)).collect();
        recording(home.path(), &lanes);
        let exact = said(home.path());
        assert_summed(home.path());
        let done = finish::finish(home.path(), &mut |_| {}).unwrap();
        prop_assert_eq!((done.streams, done.events), (1, exact.events.len() as u64));
        prop_assert_eq!(names(home.path()), ["7-0.events", "recording.json"]);
        assert_same(&exact, said(home.path()));
        assert_summed(home.path());
        prop_assert_eq!(finish::finish(home.path(), &mut |_| {}).unwrap().streams, 0);
    }
}

/// A recording with several blocks' worth of sensible events.
fn long(directory: &Path, events: u64) {
    let mut lanes = [lane(0, &[]), lane(1, &[])];
    let mut random = 1u64;
    let mut live = Vec::new();
    for number in 0..events {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let elapsed = lanes[0].ticks.max(lanes[1].ticks) + (random >> 60);
        let lane = &mut lanes[(random >> 40 & 1) as usize];
        let elapsed = elapsed - lane.ticks;
        if random >> 63 == 0 || live.is_empty() {
            let stack = [4 + (random >> 50) as u32 % 8, 4 + (random >> 53) as u32 % 8];
            lane.event(kind::MALLOC, elapsed, number * 48, random >> 45 & 127, Some(&stack));
            live.push(number * 48);
        } else {
            let ptr = live.swap_remove((random >> 20) as usize % live.len());
            lane.event(kind::FREE, elapsed, ptr, 0, None);
        }
    }
    recording(directory, &lanes);
}

#[test]
fn blocks_follow_each_other() {
    let home = tempfile::tempdir().unwrap();
    long(home.path(), 600_000);
    let exact = said(home.path());
    let mut told = 0;
    let done = finish::finish(home.path(), &mut |events| told = events).unwrap();
    assert_eq!((done.events, told), (exact.events.len() as u64, exact.events.len() as u64));
    assert_summed(home.path());
    assert!(done.after * 4 < done.before, "{done:?}");
    assert_same(&exact, said(home.path()));
}

#[test]
fn the_summary_that_is_made_on_the_way_is_that_of_the_streams() {
    let home = tempfile::tempdir().unwrap();
    long(home.path(), 20_000);
    let reader = Reader::open(home.path()).unwrap();
    let exact = serde_json::to_value(heap::report::report(&reader).unwrap()).unwrap();
    let done = conclude(&reader, Streams::Finish(Early::default()), &mut |_| {}).unwrap();
    assert_eq!((serde_json::to_value(done.report).unwrap(), done.finished.unwrap().streams), (exact, 1));
    assert_eq!(names(home.path()), ["7-0.events", "names.json", "recording.json"]);
}

#[test]
fn damage_is_an_error_that_names_file_and_block() {
    let home = tempfile::tempdir().unwrap();
    long(home.path(), 300_000);
    finish::finish(home.path(), &mut |_| {}).unwrap();
    let path = home.path().join("7-0.events");
    let whole = fs::read(&path).unwrap();
    let fails = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let read = || -> model::Result<()> {
            let reader = Reader::open(home.path())?;
            let mut events = reader.events(reader.processes()[0].id)?;
            while events.next()?.is_some() {}
            Ok(())
        };
        let error = read().expect_err("damage is seen");
        assert_eq!(error.exit, Exit::Data);
        let text = format!("{error:?}");
        assert!(text.contains("7-0.events"), "{text}");
        text
    };
    for place in [0, 9, 12, 20, 40, whole.len() / 3, whole.len() / 2, whole.len() - 200, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[place] ^= 4;
        fails(&bytes);
        fails(&whole[..place]);
    }
    let mut bytes = whole.clone();
    bytes[8] = 1;
    let text = fails(&bytes);
    assert!(text.contains("version 1") && text.contains("reads version 2"), "{text}");
    let mut bytes = whole.clone();
    let last = whole.len() * 9 / 10;
    bytes[last] ^= 128;
    assert!(fails(&bytes).contains("block 2"));
    fs::write(&path, &whole).unwrap();
    said(home.path());
}

#[test]
fn a_recording_that_is_being_written_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    recording(home.path(), &[lane(0, &[])]);
    fs::write(home.path().join("recording.json"), HEAD.replace("\"finished\":true", "\"finished\":false")).unwrap();
    let open = fs::File::open(home.path().join("7-0.stream")).unwrap();
    assert_eq!(finish::finish(home.path(), &mut |_| {}).unwrap_err().exit, Exit::Usage);
    assert_eq!(names(home.path()), ["7-0.stream", "recording.json"]);
    drop(open);
    assert_eq!(finish::finish(home.path(), &mut |_| {}).unwrap().streams, 1);
}

/// Names the recording in the process that is to be killed.
const VICTIM: &str = "THAW_TEST_VICTIM";

/// Not a test of its own: the body of the process that the next test kills.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(VICTIM) else { return };
    stand_still();
    finish::finish(directory.as_ref(), &mut |_| {}).unwrap();
}

/// Runs the victim to the given stop (each system call has two) and kills it there; `false`: it ended before.
#[expect(clippy::zombie_processes, reason = "steps reaps it")]
fn killed_at(directory: &Path, stop: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // The entry that a kill leaves is not for the machine's own journal.
    let state = tempfile::tempdir().unwrap();
    command.args(["--exact", "victim", "--nocapture", "--test-threads=1"]).env(VICTIM, directory);
    command.env("THAW_STATE_DIR", state.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stops = 0;
    let ended = steps(&child, |_| {
        stops += 1;
        if stops > stop { Next::Kill } else { Next::On }
    });
    assert!(stops > stop || ended.success(), "the victim failed by itself");
    stops > stop
}

#[test]
fn a_finisher_killed_at_any_system_call_leaves_the_stream_or_the_finished_file() {
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (original, copy) = (home.path().join("original"), home.path().join("copy"));
    fs::create_dir(&original).unwrap();
    long(&original, 3000);
    let exact = said(&original);
    let (mut seen, mut ended) = ([false; 3], false);
    for stop in 0..2000 {
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for name in names(&original) {
            fs::copy(original.join(&name), copy.join(&name)).unwrap();
        }
        if !killed_at(&copy, stop) {
            ended = true;
            break;
        }
        let there = names(&copy);
        let has = |name: &str| there.iter().any(|other| other == name);
        seen[usize::from(has("7-0.events")) + usize::from(!has("7-0.stream"))] = true;
        assert_same(&exact, said(&copy));
        finish::finish(&copy, &mut |_| {}).unwrap();
        assert_eq!(names(&copy), ["7-0.events", "recording.json"]);
        assert_same(&exact, said(&copy));
    }
    assert!(ended, "the victim has fewer system calls than that");
    assert_eq!(seen, [true; 3], "kills before the file, between file and removal, after");
}

#[test]
fn a_stream_of_which_nothing_was_freed_has_more_than_the_sums_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut lane = Lane::new(0, 7);
    (1..=5).for_each(|index| lane.event(kind::MALLOC, 10, 4096 * index, 16, None));
    recording(folder.path(), &[lane]);
    let stream = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let stream = stream.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "stream"));
    fs::write(stream.unwrap().with_extension("sums"), "of nothing").unwrap();
    assert!(Reader::open(folder.path()).unwrap().processes()[0].is_summed());
    let done = finish::finish(folder.path(), &mut |_| {}).unwrap();
    assert_eq!((done.streams, done.sums, done.left_out), (1, 0, 0));
    let reader = Reader::open(folder.path()).unwrap();
    assert!(!reader.processes()[0].is_summed());
    assert_eq!(heap::report::report(&reader).unwrap().processes[0].allocations, 5);
}
