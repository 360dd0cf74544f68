//! A stream that is finished while it grows gives the same bytes as one that is finished in the end, whichever thread
//! writes when; also if one writes an event later than all were waited for.

use heap_wire::{
    CHUNK_MAGIC, ChunkHeader, FileHeader, MAGIC, PAGE, VERSION, bytes_of, kind, mark, meta, spread, stack,
};
use heap_wire::{expected_slop, zigzag};
use heapfile::recording::Recording;
use heapfile::summary::Summary;
use heaprec::finish::{Ahead, Finished, Following, finish, finish_ahead};
use proptest::prelude::*;
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

/// Ticks of a second.
const RATE: f64 = 1e9;

/// A stream as a guest writes it: records that are stamped, and written now or later.
struct Stream {
    file: File,
    pid: u32,
    end: u64,
    lanes: Vec<Lane>,
}

#[derive(Default)]
struct Lane {
    /// Where the chunk begins, what of it is used, and how many there were.
    chunk: u64,
    used: usize,
    count: u32,
    /// So many places called from it.
    places: u32,
    /// Of the last record that was stamped.
    ticks: u64,
    pointer: u64,
    live: Vec<u64>,
    /// Records that are stamped and not written: ticks before each, its time, its bytes.
    waiting: Vec<(u64, u64, Vec<u8>)>,
}

/// A record without its stack.
fn record(kind: u16, elapsed: u64, pointer: Option<u64>, size: Option<u64>, code: u16) -> Vec<u8> {
    let log = |number: u64| bytes_of(number) as u16 - 1;
    let header = kind | log(elapsed) << 4 | pointer.map_or(0, log) << 7 | size.map_or(0, log) << 10 | code << 13;
    let mut bytes = header.to_le_bytes().to_vec();
    for number in [Some(elapsed), pointer, size].into_iter().flatten() {
        bytes.extend_from_slice(&number.to_le_bytes()[..bytes_of(number)]);
    }
    bytes
}

impl Stream {
    fn begin(directory: &Path, pid: u32, lanes: usize) -> Self {
        let file = File::create_new(directory.join(format!("{pid}-0.stream"))).unwrap();
        let mut page = vec![0; PAGE];
        page[..8].copy_from_slice(&MAGIC);
        page[offset_of!(FileHeader, version)..][..4].copy_from_slice(&VERSION.to_le_bytes());
        page[offset_of!(FileHeader, pid)..][..4].copy_from_slice(&pid.to_le_bytes());
        page[offset_of!(FileHeader, start_ticks)..][..8].copy_from_slice(&1u64.to_le_bytes());
        file.write_all_at(&page, 0).unwrap();
        let lane = || Lane { used: PAGE, ticks: 1, ..Lane::default() };
        Self { file, pid, end: PAGE as u64, lanes: std::iter::repeat_with(lane).take(lanes).collect() }
    }

    /// Stamps what a thread does now: it makes a block, or gives one back.
    fn stamp(&mut self, number: usize, now: u64, free: bool) {
        let lane = &mut self.lanes[number];
        let stamp = |lane: &mut Lane, kind, pointer: Option<u64>, size, code, rest: &[u8]| {
            let before = std::mem::replace(&mut lane.ticks, now);
            let difference = pointer.map(|pointer| {
                let last = std::mem::replace(&mut lane.pointer, spread(pointer));
                zigzag(lane.pointer.wrapping_sub(last))
            });
            let bytes = [record(kind, now - before, difference, size, code), rest.to_vec()].concat();
            lane.waiting.push((before, now, bytes));
        };
        let meta = |what, payload: &[u8]| [&[what][..], &(payload.len() as u16).to_le_bytes(), payload].concat();
        if lane.ticks == 1 {
            let thread = meta(meta::THREAD, &(100 * self.pid + number as u32).to_le_bytes());
            stamp(lane, kind::META, None, None, stack::NONE, &thread);
        }
        let last_frame = |places: u32| mark::FIRST_PC + number as u32 + THREADS as u32 * (places - 1);
        if lane.places == 0 || now.is_multiple_of(16) && last_frame(lane.places + 1) <= u16::MAX.into() {
            lane.places += 1;
            let frame = last_frame(lane.places);
            let pc = [&frame.to_le_bytes()[..], &(0x1000 + u64::from(frame)).to_le_bytes()].concat();
            stamp(lane, kind::META, None, None, stack::NONE, &meta(meta::PC, &pc));
        }
        if free && let Some(pointer) = lane.live.pop() {
            return stamp(lane, kind::FREE, Some(pointer), None, stack::NONE, &[]);
        }
        // Where the allocator rounds up as expected, no usable size is told.
        let size = 24 + 16 * (now % 3);
        assert_eq!(expected_slop(size), 0);
        let pointer = (number as u64 + 1) << 32 | (lane.live.len() as u64) << 6;
        lane.live.push(pointer);
        let frame = last_frame(lane.places);
        let ids = [[0, 2].to_vec(), [mark::ROOT as u16, frame as u16].map(u16::to_le_bytes).concat()].concat();
        stamp(lane, kind::MALLOC, Some(pointer), Some(size), stack::NARROW, &ids);
    }

    /// The thread goes on: what it has stamped is written.
    fn write(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        for (before, _, bytes) in std::mem::take(&mut lane.waiting) {
            if lane.used + bytes.len() > PAGE {
                (lane.chunk, lane.used) = (self.end, size_of::<ChunkHeader>());
                self.end += PAGE as u64;
                let mut header = Vec::new();
                for word in [CHUNK_MAGIC, number as u32, lane.count, PAGE as u32] {
                    header.extend(word.to_le_bytes());
                }
                header.extend(before.to_le_bytes());
                self.file.write_all_at(&[0; 8], self.end - 8).unwrap();
                self.file.write_all_at(&header, lane.chunk).unwrap();
                lane.count += 1;
            }
            self.file.write_all_at(&bytes[2..], lane.chunk + lane.used as u64 + 2).unwrap();
            self.file.write_all_at(&bytes[..2], lane.chunk + lane.used as u64).unwrap();
            lane.used += bytes.len();
        }
    }

    /// The earliest event that is not written.
    fn oldest(&self) -> Option<u64> {
        self.lanes.iter().filter_map(|lane| lane.waiting.first()).map(|(_, now, _)| *now).min()
    }
}

/// A recording's directory, without streams.
fn begin(directory: &Path) {
    fs::create_dir(directory).unwrap();
    let mut recording = Recording::begin("test", Vec::new(), String::new(), 1);
    (recording.finished, recording.ticks_per_second) = (true, Some(RATE));
    recording.write(directory).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("events".as_ref()) {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Names and bytes of the finished files; there is nothing else of a process.
fn finished(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    let mut files: Vec<_> = named.filter(|(name, _)| name != "recording.json").collect();
    files.sort();
    assert!(files.iter().all(|(name, _)| name.ends_with(".events")), "{:?}", files.iter().map(|(name, _)| name));
    files
}

/// What a thread does next: which one, of which process; how long after the last event; whether it frees; whether it
/// writes at once.
type Step = (usize, usize, u64, bool, bool);

const PROCESSES: usize = 2;
const THREADS: usize = 3;

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    // Often at the same moment.
    let step = (0..PROCESSES, 0..THREADS, prop_oneof![Just(0), 1u64..300_000], any::<bool>(), any::<bool>());
    prop::collection::vec(step, 0..most)
}

/// Follows two processes while they take these steps, reading on after every so many of them: to `margin` ticks before
/// now, or to the earliest event that is not written yet. Compares with finishing in the end; what was counted, and
/// whether an event came too late.
fn followed(steps: &[Step], every: usize, margin: Option<u64>) -> (Finished, bool) {
    let home = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| home.path().join(name));
    begin(&here);
    let mut streams: Vec<Stream> = (0..PROCESSES).map(|pid| Stream::begin(&here, 1 + pid as u32, THREADS)).collect();
    let (mut now, mut reached, mut late) = (10, 0, false);
    let (told, said) = mpsc::channel();
    let ahead = Ahead::new(Box::new(move |process, summary: Summary, _| {
        told.send((process.pid, summary.totals().allocations)).unwrap();
    }));
    let (mut following, stop) = (Following::new(&here, 1, ahead), AtomicBool::new(false));
    for (count, (process, thread, elapsed, free, writes)) in steps.iter().enumerate() {
        now += elapsed;
        streams[*process].stamp(*thread, now, *free);
        if *writes {
            let first = streams[*process].lanes[*thread].waiting.first();
            late |= first.is_some_and(|(_, ticks, _)| *ticks <= reached);
            streams[*process].write(*thread);
        }
        if count % every == 0 {
            let oldest = streams.iter().filter_map(Stream::oldest).min();
            // Nothing that is to come may be before it, nor at the same time.
            let safe = oldest.unwrap_or(now).min(now) - 1;
            reached = margin.map_or(safe, |margin| now.saturating_sub(margin));
            following.poll(reached, RATE, &stop);
        }
    }
    for stream in &mut streams {
        for thread in 0..THREADS {
            let first = stream.lanes[thread].waiting.first();
            late |= first.is_some_and(|(_, ticks, _)| *ticks <= reached);
            stream.write(thread);
        }
    }
    drop(streams);
    copy(&here, &there);
    finish(&there, &mut |_| {}).unwrap();
    let done = finish_ahead(&here, following.stop(), &mut |_| {}).unwrap();
    assert!(said.try_iter().next().is_none(), "no process had ended");
    assert_eq!(finished(&here), finished(&there));
    (done, late)
}

proptest! {
    #[test]
    fn events_that_are_waited_for_are_entered_as_in_the_end(steps in steps(400), every in 1usize..40) {
        let (done, _) = followed(&steps, every, None);
        let followed = if steps.is_empty() { 0 } else { PROCESSES as u64 };
        prop_assert_eq!((done.streams, done.ahead, done.again), (PROCESSES as u64, followed, 0));
    }

    #[test]
    fn an_event_that_comes_too_late_lets_all_of_its_process_be_read_again(
        steps in steps(400), every in 1usize..40, margin in 0u64..400_000,
    ) {
        let (done, late) = followed(&steps, every, Some(margin));
        prop_assert!(done.again == 0 || late, "{:?}", done);
        let followed = if steps.is_empty() { 0 } else { PROCESSES as u64 };
        prop_assert_eq!((done.streams, done.ahead + done.again), (PROCESSES as u64, followed));
    }
}

/// Many blocks of the finished file, and chunks.
#[test]
fn blocks_end_where_they_end_otherwise() {
    let steps: Vec<Step> = (0..600_000u64).map(|at| (0, at as usize % 2, at % 900, at % 5 > 2, at % 3 > 0)).collect();
    let (done, _) = followed(&steps, 1000, None);
    assert_eq!((done.streams, done.ahead, done.again), (2, 2, 0));
}

#[test]
fn a_process_that_ends_first_is_finished_while_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| home.path().join(name));
    begin(&here);
    let mut streams = [1, 2].map(|pid| Stream::begin(&here, pid, 1));
    let (told, said) = mpsc::channel();
    let ahead = Ahead::new(Box::new(move |process, summary: Summary, events| {
        told.send((process.pid, summary.totals().allocations, events.stacks().len())).unwrap();
    }));
    let (mut following, stop) = (Following::new(&here, 1, ahead), AtomicBool::new(false));
    for stream in &mut streams {
        for now in 10..500 {
            stream.stamp(0, now, false);
        }
        stream.write(0);
    }
    following.poll(100, RATE, &stop);
    let [first, mut second] = streams;
    drop(first);
    // Read on to its end; then nothing comes, and nobody has it.
    while !here.join("1-0.events").exists() {
        following.poll(1000, RATE, &stop);
    }
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [(1, 490, 36)]);
    assert!(here.join("1-0.stream").exists(), "its name is taken until the program ends");
    second.stamp(0, 2000, false);
    second.write(0);
    copy(&here, &there);
    finish(&there, &mut |_| {}).unwrap();
    let done = finish_ahead(&here, following.stop(), &mut |_| {}).unwrap();
    assert_eq!((done.streams, done.ahead, done.again, done.events), (2, 2, 0, 2 * 491 + 1));
    assert_eq!(finished(&here), finished(&there));
}
