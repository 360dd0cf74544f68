//! Rows that look like those of a real session, and ways to get into trouble.
#![allow(dead_code)]

use model::cpu::{Frame, Sample, Stacks, Switch, Thread, Trace, Wake, Waker, Went};
use model::loader::{Cost, InitialiserRow, LoaderObject, LoaderPhase, LoaderRun, LoaderStart, PhaseKind, Table};
use model::{
    BlockRow, Bytes, CacheState, Cause, Concluded, DirectRow, DiskOffset, EventProcessRow, EventRow, EventRows,
    EventSourceRow, EventThreadRow, EventTypeRow, ExtentRow, FaultRow, FileId, FileKind, FileOffset, FileRow,
    FileSystemRow, FillRow, Form, HeldRow, Lost, Milestone, MmapRow, Nanos, OpenRow, Owner, OwnerRow, OwnerRule, Phase,
    ProcessRow, ReadRow, RelocationRow, ResidencyRow, RunId, RunKind, RunRow, SectionRow, Served, SyncRow, TraceInfo,
    TraceRows, WakeRow,
};
use recording::{Header, Reader, Replace, Writer};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A name that is not UTF-8.
pub fn odd_name() -> OsString {
    OsString::from_vec(b"/home/\xff\xfe/na'me".to_vec())
}

pub fn header() -> Header {
    Header {
        thaw_version: "0.1.0".into(),
        created_unix_ns: 1_700_000_000_123_456_789,
        command_line: vec!["thaw".into(), "record".into(), "--".into(), odd_name()],
        cwd: PathBuf::from(odd_name()),
        environment: vec![("LANG".into(), "C.UTF-8".into()), ("ODD".into(), odd_name()), ("LANG".into(), "".into())],
        plan: serde_json::json!({"states": ["cold", "hot"], "runs": 10, "precision": null}),
        seed: u64::MAX - 1,
    }
}

pub fn run_row(block: u32) -> RunRow {
    RunRow {
        id: RunId(0),
        variant: 0,
        state: CacheState::Cold,
        kind: RunKind::Timed,
        block,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns: 1_700_000_001_000_000_000,
        wall_ns: Some(Nanos(1_500_000_000)),
        exit_ns: None,
        user_ns: Nanos(700_000_000),
        system_ns: Nanos(300_000_000),
        max_rss: Bytes(250_000_000),
        minor_faults: 40_000,
        major_faults: 900,
        read_bytes: Some(Bytes(120_000_000)),
        read_requests: Some(1400),
        written_bytes: Some(Bytes(0)),
        instructions: None,
        cycles: None,
        exit_code: None,
        exit_signal: Some(15),
        others_cpu_share: Some(0.0125),
        others_io_pressure: Some(0.0),
        own_resident_share: Some(0.1 + 0.2),
        system_resident_share: Some(1.0),
    }
}

pub fn milestones() -> Vec<Milestone> {
    vec![
        Milestone { name: "line:Started".into(), at_ns: Nanos(1_500_000_000) },
        Milestone { name: "exit".into(), at_ns: Nanos(1_600_000_000) },
    ]
}

pub fn residency() -> Vec<ResidencyRow> {
    vec![
        ResidencyRow { path: "/usr/lib/libx.so".into(), needed: Bytes(8192), resident: Bytes(4096) },
        ResidencyRow { path: PathBuf::from(odd_name()), needed: Bytes(4096), resident: Bytes(0) },
    ]
}

/// The recording before any run.
pub fn created(path: &Path) -> Writer {
    Writer::create(path, &header(), Replace::Never).expect("a new recording")
}

/// A small finished recording with every table filled.
pub fn example(path: &Path) {
    let mut writer = created(path);
    let variant = recording::Variant { index: 0, name: "firefox".into(), argv: vec!["firefox-esr".into(), odd_name()] };
    writer.add_variant(&variant).unwrap();
    let fact = |subject: &str, key: &str, value: &str| recording::Fact {
        subject: subject.into(),
        key: key.into(),
        value: value.into(),
    };
    writer.add_facts(&[fact("machine", "kernel", "6.18"), fact("disk:vda", "read_ahead_kb", "8192")]).unwrap();
    let binary = recording::Binary {
        path: "/usr/bin/firefox-esr".into(),
        size: Bytes(123_456),
        mtime_unix_ns: 5,
        build_id: Some("deadbeef".into()),
    };
    writer.add_binary(&binary).unwrap();
    for block in 0..3 {
        writer.add_run(&run_row(block), &milestones(), &residency()).unwrap();
    }
    let traced = RunRow { kind: RunKind::Trace, ..run_row(3) };
    let id = writer.add_run(&traced, &[], &[]).unwrap();
    writer.add_trace(id, &trace(50)).unwrap();
    writer.add_events(id, &events()).unwrap();
    writer.add_cpu(id, &cpu()).unwrap();
    writer.add_loader(id, &loader()).unwrap();
    let warning = model::Warning::new(model::WarningKind::ReadAhead, "read-ahead is 8192 KiB").hint("set it");
    writer.add_warning(&warning).unwrap();
    writer.add_warning(&model::Warning::new(model::WarningKind::Outlier, "far away").run(RunId(2))).unwrap();
    writer.finish().unwrap();
}

/// A script that executes a program of which something is known.
pub fn loader() -> LoaderRun {
    let phase = |phase, from, took| LoaderPhase { phase, from: Nanos(from), took: Nanos(took) };
    let object = LoaderObject {
        path: PathBuf::from(odd_name()),
        is_object: true,
        mapped: Some(Nanos(7)),
        relocated: Some(Nanos(5)),
        protected: Some(Nanos(1)),
        relative: 1,
        symbolic: 2,
        calls: 3,
        irelative: 4,
        thread_local: 5,
        copies: 6,
        bound_at_once: true,
    };
    let initialiser = |place, within| InitialiserRow {
        object: "/usr/lib/libx.so".into(),
        address: u64::MAX,
        table: Table::InitArray,
        place,
        function: Some("set_up()".into()).filter(|_| place == 0),
        source: Some("a.cc:7".into()).filter(|_| place == 0),
        tid: 100,
        began: Nanos(12),
        took: Nanos(3),
        cpu: Some(Nanos(2)).filter(|_| place == 0),
        within,
        returned: place == 0,
    };
    let unknown =
        LoaderStart { program: "/bin/script".into(), because: Some("it is static".into()), ..LoaderStart::default() };
    let known = LoaderStart {
        program: "/usr/bin/x".into(),
        because: None,
        exec: Some(Nanos(4)),
        before_main: Some(Nanos(20)),
        phases: vec![phase(PhaseKind::Map, 4, 7), phase(PhaseKind::Relocate, 11, 5)],
        objects: vec![LoaderObject { path: "/etc/ld.so.cache".into(), ..LoaderObject::default() }, object],
        initialisers: vec![initialiser(0, None), initialiser(1, Some(0))],
        cannot: vec!["what one stop cost".into(), "another".into()],
    };
    let cost = Cost {
        stops: 9,
        stopped: Nanos(8),
        subtracted: Nanos(7),
        waited: Nanos(6),
        first: true,
        breakpoint: Nanos(5),
        call: Nanos(4),
    };
    LoaderRun { starts: vec![unknown, known], cost }
}

/// What a program with two threads told: one waits, the other releases it.
pub fn cpu() -> Trace {
    let mut stacks = Stacks::default();
    let named = |name: &str, object: &str| Frame {
        function: Some(name.into()),
        object: object.into(),
        source: Some("a.c:7".into()),
        inlined: true,
        address: 0,
    };
    let nameless = Frame { object: "/usr/lib/\u{fffd}.so".into(), address: u64::MAX, ..Frame::default() };
    let frames = [named("futex_wait", Frame::KERNEL), named("main", "/usr/bin/x"), nameless].map(|it| stacks.frame(it));
    let stack = stacks.stack(&frames);
    let thread = |tid, of_tree| Thread {
        tid,
        pid: 100,
        name: "a 'thread'".into(),
        of_tree,
        made_by: Some(100).filter(|_| of_tree),
        start: Nanos(5),
        end: Some(Nanos(9)),
    };
    let wake = |by, new| Wake { at: Nanos(7), by, woken: 101, new, stack };
    Trace {
        root: 100,
        ready: Nanos(9),
        ready_by: Some(101),
        cpus: 2,
        threads: vec![thread(101, true), thread(4, false)],
        switches: vec![Switch { at: Nanos(6), cpu: 1, from: 101, went: Went::Held, to: 0, stack }],
        wakes: vec![wake(Waker::Interrupt, false), wake(Waker::Thread(4), true)],
        samples: vec![Sample { at: Nanos(8), tid: 101, in_kernel: true, stack: None }],
        stacks,
        tick: Nanos(1_000_000),
        lost: 3,
        lost_switches: 4,
        own: Nanos(5),
        cannot: vec!["who holds a lock".into()],
    }
}

pub fn events() -> EventRows {
    let thread = |tid, name: &str, writer| EventThreadRow { process: 0, tid, name: name.into(), writer };
    let of = |type_id, name: &str, concluded| EventTypeRow {
        type_id,
        name: name.into(),
        file: "a.cpp".into(),
        line: 7,
        concluded,
    };
    let event = |at_ns, thread, phase, object| EventRow {
        at_ns: Nanos(at_ns),
        thread,
        phase,
        is_shared: false,
        object,
        type_id: Some(3),
        other: None,
        text: None,
    };
    let text = |row: EventRow, text: &str| EventRow { type_id: None, text: Some(text.into()), ..row };
    let high = u64::MAX - 5;
    EventRows {
        sources: vec![EventSourceRow {
            path: "/var/tmp/x/events/100.events".into(),
            form: Form::Events,
            process: 0,
            step_ns: 1,
            is_ordered: true,
            command_line: String::new(),
        }],
        processes: vec![EventProcessRow { pid: 100, program: "/usr/bin/x".into(), filter: String::new() }],
        threads: vec![thread(100, "main", None), thread(101, "", Some(0))],
        types: vec![of(3, "net::transaction", None), of(9, "sampled", Some(Concluded::Likely))],
        events: vec![
            text(event(5, 0, Phase::Name, high), "a 'name' \0 with \u{fffd}"),
            event(5, 0, Phase::Wait, high),
            EventRow { other: Some(high), ..event(8, 1, Phase::Link, 7) },
            event(9, 0, Phase::Exec, high),
            text(event(10, 0, Phase::Arg, high), "key=value"),
            EventRow { is_shared: true, ..event(11, 1, Phase::Exec, 7) },
            event(12, 0, Phase::Done, high),
            event(13, 0, Phase::Free, high),
            event(14, 1, Phase::Mark, 8),
        ],
        lost: Lost { events: 1, overwritten: 2, types: 3, texts_cut: 4 },
    }
}

/// A plausible trace with this many fills.
pub fn trace(fills: u32) -> TraceRows {
    let file = |path: &str, kind, owner| FileRow {
        path: path.into(),
        kind,
        owner,
        dev: 0xfe00,
        ino: 1 << 63,
        size: Bytes(150_000_000),
        extents: Some(3),
        build_id: Some("0123abcd".into()),
    };
    TraceRows {
        info: TraceInfo {
            engine: "perf".into(),
            records: u64::from(fills) * 3,
            lost: 0,
            bytes: Bytes(1_000_000),
            cannot: vec!["who asked for metadata".into(), "anything else".into()],
        },
        files: vec![
            file("/usr/lib/libxul.so", FileKind::Regular, Owner::App),
            file("/dev/vda", FileKind::Metadata, Owner::System),
        ],
        sections: vec![
            SectionRow { file: FileId(0), name: ".text".into(), offset: FileOffset(4096), len: Bytes(90_000_000) },
            SectionRow { file: FileId(0), name: ".data".into(), offset: FileOffset(90_004_096), len: Bytes(9000) },
        ],
        extents: vec![ExtentRow {
            file: FileId(0),
            offset: FileOffset(0),
            disk: DiskOffset(1 << 36),
            len: Bytes(150_000_000),
        }],
        fills: (0..fills)
            .map(|number| FillRow {
                at_ns: Nanos(u64::from(number) * 5000),
                pid: 100,
                tid: 100 + number % 7,
                file: FileId(number % 2),
                offset: FileOffset(u64::from(number) * 4096),
                len: Bytes(4096),
                cause: if number % 2 == 0 { Cause::ReadAhead } else { Cause::Metadata },
            })
            .collect(),
        reads: vec![ReadRow {
            at_ns: Nanos(7),
            pid: 100,
            tid: 101,
            file: FileId(0),
            offset: FileOffset(0),
            len: Bytes(4096),
        }],
        faults: vec![FaultRow {
            at_ns: Nanos(9),
            pid: 100,
            tid: 101,
            file: FileId(0),
            offset: FileOffset(65536),
            len: Bytes(65536),
            missed: false,
        }],
        blocks: vec![
            BlockRow {
                start_ns: Nanos(10),
                done_ns: Some(Nanos(100_010)),
                pid: Some(100),
                dev: 0xfe00,
                disk: DiskOffset(1 << 36),
                len: Bytes(131_072),
                write: false,
                served: Served::File(FileId(0), FileOffset(0)),
                flags: "RA".into(),
            },
            BlockRow {
                start_ns: Nanos(20),
                done_ns: None,
                pid: None,
                dev: 0xfe00,
                disk: DiskOffset(0),
                len: Bytes(4096),
                write: false,
                served: Served::Metadata,
                flags: "RM".into(),
            },
        ],
        processes: vec![ProcessRow {
            pid: 100,
            parent: 1,
            comm: "firefox-esr".into(),
            exe: Some("/usr/bin/firefox-esr".into()),
            start_ns: Nanos(0),
            end_ns: None,
        }],
        mmaps: vec![MmapRow {
            at_ns: Nanos(3),
            pid: 100,
            file: FileId(0),
            offset: FileOffset(0),
            len: Bytes(150_000_000),
            exec: true,
        }],
        opens: vec![OpenRow { path: PathBuf::from(odd_name()), count: 12 }],
        syncs: vec![SyncRow { at_ns: Nanos(4), pid: 100, file: FileId(0), took_ns: Some(Nanos(1)) }],
        owners: vec![
            OwnerRow {
                file: FileId(0),
                rule: OwnerRule::Package,
                what: Some("firefox-esr".into()),
                because: Some("the program is in it".into()),
            },
            OwnerRow { file: FileId(1), rule: OwnerRule::Metadata, what: None, because: None },
        ],
        held: vec![HeldRow { file: FileId(0), processes: 3, example: "1 systemd".into() }],
        direct: vec![DirectRow {
            at_ns: Nanos(5),
            pid: 100,
            tid: 101,
            file: FileId(0),
            offset: FileOffset(512),
            len: Bytes(1024),
            write: true,
        }],
        file_systems: vec![FileSystemRow {
            dev: 0xfe00,
            kind: "ext4".into(),
            point: "/".into(),
            source: "/dev/vda".into(),
            on_disk: true,
        }],
        wakes: vec![
            WakeRow { at_ns: Nanos(3), pid: 100, tid: 101, by_tid: Some(100) },
            WakeRow { at_ns: Nanos(4), pid: 100, tid: 100, by_tid: None },
        ],
        relocations: vec![RelocationRow { file: FileId(0), entries: 12_345 }],
        ..TraceRows::default()
    }
}

/// Asks a reader for everything it has. Errors are welcome; panics are not.
pub fn ask_everything(reader: &Reader) -> Result<(), model::Error> {
    reader.header()?;
    reader.finished()?;
    reader.variants()?;
    reader.facts()?;
    reader.binaries()?;
    for (run, _) in reader.runs()? {
        reader.residency(run.id)?;
    }
    reader.warnings()?;
    for run in reader.trace_runs()? {
        let trace = reader.trace(run)?;
        let count = trace.files.len();
        assert!(trace.fills.iter().all(|row| (row.file.0 as usize) < count), "numbers of files can be used as indexes");
    }
    for run in reader.event_runs()? {
        let Some(rows) = reader.events(run)? else { continue };
        let numbers = rows.events.iter().map(|row| row.thread as usize);
        assert!(
            numbers.max().is_none_or(|most| most < rows.threads.len()),
            "numbers of threads can be used as indexes"
        );
    }
    for run in reader.cpu_runs()? {
        let Some(trace) = reader.cpu(run)? else { continue };
        // Walking every stack ends, and finds every frame.
        trace.samples.iter().for_each(|sample| assert!(trace.stacks.walk(sample.stack).count() < usize::MAX));
    }
    for run in reader.loader_runs()? {
        let Some(loader) = reader.loader(run)? else { continue };
        for (place, row) in loader.starts.iter().flat_map(|start| start.initialisers.iter().enumerate()) {
            assert!(row.within.is_none_or(|within| (within as usize) < place), "numbers can be used as indexes");
        }
    }
    for view in ["v_runs", "v_files", "v_sections", "v_intervals"] {
        reader.query(&format!("SELECT * FROM {view}"))?;
    }
    Ok(())
}

/// The files of a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The one way to skip a test.
pub fn skipped(reason: impl std::fmt::Display) {
    eprintln!("SKIPPED: {reason}");
}

/// The error of a call that should fail, with the whole sentence and the hint as one text.
pub fn refusal<T>(result: model::Result<T>) -> (model::Exit, String) {
    let Err(error) = result else { panic!("should have been refused") };
    let hint = error.hint.clone().unwrap_or_default();
    (error.exit, format!("{error}; {hint}"))
}
