//! A whole made-up recording, as a file: many timed runs with what was resident before them, traced starts, a start
//! without read-ahead, events of the program, and where its time went. Same size, same bytes (but for SQLite's own
//! counters).

use crate::{document, rows, touches};
use model::cpu::{Frame, Sample, Switch, Thread, Trace, Wake, Waker, Went};
use model::*;
use recording::{Binary, Fact, Header, Replace, Variant, Writer};
use serde_json::json;
use stats::Random;
use std::path::Path;

/// How large each part of a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// What each traced start is like, but for its seed.
    pub start: rows::Wish,
    /// Programs.
    pub variants: u32,
    /// Traced cold starts of each.
    pub traced: u32,
    /// Blocks of timed runs; each has one of every state of each program.
    pub blocks: u32,
    /// Events of each program, in its first traced start.
    pub events: u64,
    /// Switches of CPUs, in the first traced start of each program.
    pub switches: u64,
}

/// About 500 MB: three traced starts of a million block requests each.
pub const LARGE: Size =
    Size { start: rows::SMALL, variants: 1, traced: 3, blocks: 60, events: 1_200_000, switches: 400_000 };
/// About 500 MB: a dozen programs, each with three traced starts.
pub const MANY: Size = Size {
    start: rows::Wish { events: 240_000, more_files: 1_500, ..rows::SMALL },
    variants: 12,
    traced: 3,
    blocks: 8,
    events: 100_000,
    switches: 40_000,
};
/// A recording as people make them: some MB.
pub const USUAL: Size = Size {
    start: rows::Wish { events: 12_000, ..rows::LAPTOP },
    variants: 2,
    traced: 3,
    blocks: 12,
    events: 5_000,
    switches: 2_000,
};

const CREATED: u64 = 1_795_000_000_000_000_000;

/// Writes one.
///
/// # Panics
/// The file cannot be written.
pub fn write(path: &Path, size: Size) {
    let header = Header {
        thaw_version: "0.1.0".into(),
        created_unix_ns: CREATED,
        command_line: ["thaw", "record", "-o", "ff.thaw", "--app", "firefox-esr"].map(Into::into).to_vec(),
        cwd: "/home/me".into(),
        environment: vec![("LANG".into(), "C.UTF-8".into())],
        plan: json!({ "app": "firefox-esr", "states": ["cold", "boot", "app", "hot"], "runs": size.blocks,
            "ready": ["exit"], "trace_runs": size.traced, "engine": "perf" }),
        seed: 1,
    };
    let mut writer = Writer::create(path, &header, Replace::Recording).expect("the recording can be made");
    for index in 0..size.variants {
        let argv = ["firefox-esr", "--headless", "about:blank"].map(Into::into).to_vec();
        writer.add_variant(&Variant { index, name: name_of(index), argv }).expect("a variant is added");
    }
    let fact = |key: &str, value: &str| Fact { subject: "disk:vda".into(), key: key.into(), value: value.into() };
    writer.add_facts(&[fact("read_ahead_kb", "128"), fact("rotational", "0")]).expect("facts are added");
    let path = "/usr/lib/firefox-esr/firefox-esr".into();
    let binary = Binary { path, size: Bytes(1_003_210), mtime_unix_ns: CREATED, build_id: Some("9f86d081".into()) };
    writer.add_binary(&binary).expect("a binary is added");
    let mut files = Vec::new();
    for variant in 0..size.variants {
        files = traced(&mut writer, size, variant);
    }
    timed(&mut writer, size, &files);
    writer.finish().expect("the recording is finished");
}

fn name_of(variant: u32) -> String {
    if variant == 0 { "firefox-esr".into() } else { format!("firefox-esr {}", variant + 1) }
}

/// The traced starts of a program, then one that was watched to see what it touches; returns the files that it needs.
fn traced(writer: &mut Writer, size: Size, variant: u32) -> Vec<FileRow> {
    let mut files = Vec::new();
    for number in 0..size.traced {
        let seed = size.start.seed + u64::from(variant * size.traced + number);
        let mut made = rows::rows(rows::Wish { seed, ..size.start });
        made.info = TraceInfo { engine: "perf".into(), records: made.fills.len() as u64, ..TraceInfo::default() };
        maps(&mut made);
        let wall_s = 18.0 + f64::from(number);
        let (row, milestones) = document::run(0, variant, CacheState::Cold, RunKind::Trace, number, wall_s);
        let run = writer.add_run(&row, &milestones, &[]).expect("a run is added");
        writer.add_trace(run, &made).expect("a trace is added");
        if number == 0 {
            writer.add_events(run, &events(size.events)).expect("events are added");
            writer.add_cpu(run, &cpu(size.switches)).expect("switches are added");
            let (row, milestones) = document::run(0, variant, CacheState::Cold, RunKind::Touch, 0, 40.0);
            let watched = writer.add_run(&row, &milestones, &[]).expect("a run is added");
            writer.add_trace(watched, &touches::pages(&made)).expect("what is touched is added");
            files.clone_from(&made.files);
        }
    }
    files
}

/// The code of libraries is mapped, and each has relocations.
fn maps(made: &mut TraceRows) {
    for (number, file) in (0_u32..).zip(&made.files).filter(|(_, file)| file.path.to_string_lossy().contains(".so")) {
        made.mmaps.push(MmapRow {
            at_ns: Nanos(u64::from(number) * 40_000),
            pid: 4100,
            file: FileId(number),
            offset: FileOffset(0),
            len: file.size,
            exec: true,
        });
        made.relocations.push(RelocationRow { file: FileId(number), entries: u64::from(number) * 11 });
    }
}

/// Timed runs of all states, each with what was resident of the files before it.
fn timed(writer: &mut Writer, size: Size, files: &[FileRow]) {
    let mut random = Random::from_seed(3);
    for block in 0..size.blocks {
        let all = (0..size.variants).flat_map(|variant| CacheState::ALL.map(|state| (variant, state)));
        let mut cells: Vec<(u32, CacheState)> = all.collect();
        random.shuffle(&mut cells);
        for (variant, state) in cells {
            let base = match state {
                CacheState::Hot => 1.9,
                CacheState::App => 9.8,
                CacheState::Boot => 13.2,
                CacheState::Cold => 17.9,
            };
            let noise = (0..12).map(|_| random.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
            let (row, milestones) =
                document::run(0, variant, state, RunKind::Timed, block, base * (1.0 + 0.018 * noise));
            let resident = |file: &FileRow| ResidencyRow {
                path: file.path.clone(),
                needed: file.size,
                resident: if state == CacheState::Hot { file.size } else { Bytes(0) },
            };
            let residency: Vec<ResidencyRow> = files.iter().take(1_500).map(resident).collect();
            writer.add_run(&row, &milestones, &residency).expect("a run is added");
        }
    }
}

/// Events of one busy process.
fn events(count: u64) -> EventRows {
    let mut random = Random::from_seed(5);
    let types = (0..60).map(|number| EventTypeRow {
        type_id: number,
        name: format!("net::part{}::job{number}", number % 7),
        file: "a.cc".into(),
        line: number,
        concluded: None,
    });
    let thread = |tid: u32| EventThreadRow { process: 0, tid, name: "worker".into(), writer: None };
    let phases = [Phase::Name, Phase::Wait, Phase::Exec, Phase::Done];
    let event = |number: u64| {
        let phase = phases[number as usize % 4];
        EventRow {
            at_ns: Nanos(number * 11_000),
            thread: random.below(8) as u32,
            phase,
            is_shared: false,
            object: 1 + number / 4,
            type_id: (phase != Phase::Name).then(|| random.below(60) as u32),
            other: None,
            text: (phase == Phase::Name).then(|| format!("https://example.org/asset/{}.js", number % 900).into()),
        }
    };
    EventRows {
        sources: vec![EventSourceRow {
            path: "/tmp/events-7".into(),
            form: Form::Events,
            process: 0,
            step_ns: 1,
            is_ordered: true,
            command_line: String::new(),
        }],
        processes: vec![EventProcessRow { pid: 4100, program: "/usr/bin/busy".into(), filter: String::new() }],
        threads: (0..8).map(|number| thread(4100 + number)).collect(),
        types: types.collect(),
        events: (0..count).map(event).collect(),
        lost: Lost::default(),
    }
}

/// Two threads that take turns on a CPU.
fn cpu(switches: u64) -> Trace {
    let mut trace =
        Trace { root: 4100, ready: Nanos(18_000_000_000), cpus: 2, tick: Nanos(1_000_000), ..Trace::default() };
    for (tid, name) in [(4100, "firefox-esr"), (4101, "worker")] {
        trace.threads.push(Thread {
            tid,
            pid: 4100,
            name: name.into(),
            of_tree: true,
            made_by: (tid != 4100).then_some(4100),
            start: Nanos(0),
            end: None,
        });
    }
    let numbers: Vec<_> = (0..300)
        .map(|number| Frame {
            function: Some(format!("mozilla::part{}::step{number}(int)", number % 9)),
            object: "/usr/lib/firefox-esr/libxul.so".into(),
            ..Frame::default()
        })
        .map(|frame| trace.stacks.frame(frame))
        .collect();
    let mut random = Random::from_seed(9);
    for number in 0..switches {
        let frames: Vec<_> = (0..3).map(|_| numbers[random.below(numbers.len())]).collect();
        let (at, stack) = (Nanos(number * 40_000), trace.stacks.stack(&frames));
        let (from, to) = if number % 2 == 0 { (4100, 4101) } else { (4101, 4100) };
        trace.switches.push(Switch { at, cpu: 0, from, went: Went::Asleep, to, stack });
        trace.wakes.push(Wake { at, by: Waker::Thread(to), woken: from, new: false, stack });
        trace.samples.push(Sample { at, tid: to, in_kernel: number % 5 == 0, stack });
    }
    trace
}
