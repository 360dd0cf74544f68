//! What is written is read again, exactly.

mod common;

use common::{created, example, header, milestones, names, odd_name, residency, run_row, trace};
use model::{
    BlockRow, Bytes, CacheState, Cause, DiskOffset, ExtentRow, FaultRow, FileId, FileKind, FileOffset, FileRow,
    FillRow, Flow, Milestone, MmapRow, Nanos, OpenRow, Owner, ProcessRow, ReadRow, ResidencyRow, RunId, RunKind,
    RunRow, SectionRow, Served, StartsFrom, SyncRow, TouchEngine, TouchRow, TraceInfo, TraceRows, Warning, WarningKind,
    WatchedRow,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use recording::{Binary, Fact, Reader, Value, Variant};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

#[test]
fn a_whole_session_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    example(&path);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.header().unwrap(), header());
    assert!(reader.finished().unwrap());
    let variants = [Variant { index: 0, name: "firefox".into(), argv: vec!["firefox-esr".into(), odd_name()] }];
    assert_eq!(reader.variants().unwrap(), variants);
    assert_eq!(reader.facts().unwrap().len(), 2);
    assert_eq!(reader.binaries().unwrap()[0].build_id.as_deref(), Some("deadbeef"));

    let runs = reader.runs().unwrap();
    let ids: Vec<i64> = runs.iter().map(|(run, _)| run.id.0).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    assert_eq!(runs[1], (RunRow { id: RunId(2), ..run_row(1) }, milestones()));
    assert_eq!(runs[3].1, []);
    assert_eq!(reader.residency(RunId(2)).unwrap(), residency());
    assert_eq!(reader.residency(RunId(4)).unwrap(), []);
    assert_eq!(reader.trace_runs().unwrap(), [RunId(4)]);
    assert_eq!(reader.trace(RunId(4)).unwrap(), trace(50));

    let warnings = reader.warnings().unwrap();
    assert_eq!(warnings[0], Warning::new(WarningKind::ReadAhead, "read-ahead is 8192 KiB").hint("set it"));
    assert_eq!(warnings[1].run, Some(RunId(2)));
    drop(reader);
    assert_eq!(names(folder.path()), ["ff.thaw"], "one file is the recording");
}

#[test]
fn names_are_text_for_sql_where_they_are_utf8_and_blobs_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    example(&path);
    let reader = Reader::open(&path).unwrap();
    let table = reader.query("SELECT DISTINCT path FROM residency WHERE run = 1 ORDER BY typeof(path) DESC").unwrap();
    let odd = Value::Blob(odd_name().into_vec());
    assert_eq!(table.rows, [[Value::Text("/usr/lib/libx.so".into())], [odd]]);
}

#[test]
fn the_name_of_the_recording_itself_may_be_odd() {
    let folder = tempfile::tempdir().unwrap();
    let odd = OsString::from_vec(b"file:\xff?mode=memory&#.thaw".to_vec());
    let path = folder.path().join(odd);
    example(&path);
    assert_eq!(Reader::open(&path).unwrap().runs().unwrap().len(), 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_recording_without_an_end_is_not_finished_and_a_second_end_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    writer.add_run(&run_row(0), &[], &[]).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(!reader.finished().unwrap());
    writer.finish().unwrap();
    assert!(reader.finished().unwrap(), "a reader sees what was written since it was opened");
    let ending = reader.query("SELECT finished_unix_ns FROM endings").unwrap();
    writer.finish().unwrap();
    assert_eq!(reader.query("SELECT finished_unix_ns FROM endings").unwrap(), ending);
}

#[test]
fn nothing_of_a_refused_trace_is_kept_and_the_writer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    let id = writer.add_run(&run_row(0), &[], &[]).unwrap();
    let mut wrong = trace(10);
    wrong.fills[9].file = FileId(2);
    for (run, rows) in [(id, &wrong), (RunId(9), &trace(10))] {
        let (exit, text) = common::refusal(writer.add_trace(run, rows));
        assert_eq!(exit, model::Exit::Bug, "{text}");
    }
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.trace_runs().unwrap(), []);
    assert_eq!(reader.query("SELECT count(*) FROM files").unwrap().rows, [[Value::Integer(0)]]);
    writer.add_trace(id, &trace(10)).unwrap();
    assert_eq!(common::refusal(writer.add_trace(id, &trace(10))).0, model::Exit::Bug, "one trace for each run");
    assert_eq!(reader.trace(id).unwrap(), trace(10));
    let (exit, text) = common::refusal(reader.trace(RunId(7)));
    assert_eq!(exit, model::Exit::Usage);
    assert!(text.contains("run 7 has no trace") && text.contains("runs with a trace: 1"), "{text}");
}

// Any row at all, also those that no machine would ever yield.

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(1 << 63), 0..1_000_000_u64]
}
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just(String::new()), Just("1e3".to_owned()), Just("a\0b'\"".to_owned())]
}
fn os_text() -> impl Strategy<Value = OsString> {
    prop_oneof![vec(any::<u8>(), 0..20).prop_map(OsString::from_vec), text().prop_map(OsString::from)]
}
fn path() -> impl Strategy<Value = PathBuf> {
    os_text().prop_map(PathBuf::from)
}
fn share() -> impl Strategy<Value = Option<f64>> {
    let other = any::<f64>().prop_filter("a share is finite", |value| value.is_finite()).prop_map(f64::abs);
    of(prop_oneof![0.0..=1.0_f64, other, Just(-0.0)])
}
/// What a recording takes for a time or a size.
fn amount() -> impl Strategy<Value = u64> {
    number().prop_map(|number| number & i64::MAX.cast_unsigned())
}
fn bytes() -> impl Strategy<Value = Bytes> {
    amount().prop_map(Bytes)
}
fn nanos() -> impl Strategy<Value = Nanos> {
    amount().prop_map(Nanos)
}
/// What a run can have taken.
fn run_nanos() -> impl Strategy<Value = Nanos> {
    (0..365 * 86_400 * 1_000_000_000_u64).prop_map(Nanos)
}
fn offset() -> impl Strategy<Value = FileOffset> {
    number().prop_map(FileOffset)
}

fn any_file() -> impl Strategy<Value = FileRow> {
    use FileKind::{Memory, Metadata, Regular, Unnamed};
    let kind = prop::sample::select(vec![Regular, Metadata, Memory, Unnamed]);
    let owner = prop::sample::select(vec![Owner::App, Owner::System]);
    (path(), kind, owner, number(), number(), bytes(), of(any::<u32>()), of(text())).prop_map(
        |(path, kind, owner, dev, ino, size, extents, build_id)| FileRow {
            path,
            kind,
            owner,
            dev,
            ino,
            size,
            extents,
            build_id,
        },
    )
}

fn any_block(file: impl Strategy<Value = FileId>) -> impl Strategy<Value = BlockRow> {
    let served = prop_oneof![
        (file, offset()).prop_map(|(file, offset)| Served::File(file, offset)),
        Just(Served::Metadata),
        Just(Served::Unknown)
    ];
    (nanos(), of(nanos()), of(any::<u32>()), number(), number(), bytes(), any::<bool>(), served, text()).prop_map(
        |(start_ns, done_ns, pid, dev, disk, len, write, served, flags)| BlockRow {
            start_ns,
            done_ns,
            pid,
            dev,
            disk: DiskOffset(disk),
            len,
            write,
            served,
            flags,
        },
    )
}

/// Rows that need no file, by group, so that tuples stay short.
fn any_info() -> impl Strategy<Value = (TraceInfo, Vec<ProcessRow>, Vec<OpenRow>)> {
    let info = (text(), number(), number(), bytes(), vec(text(), 0..3))
        .prop_map(|(engine, records, lost, bytes, cannot)| TraceInfo { engine, records, lost, bytes, cannot });
    let process = (any::<u32>(), any::<u32>(), text(), of(path()), nanos(), of(nanos()))
        .prop_map(|(pid, parent, comm, exe, start_ns, end_ns)| ProcessRow { pid, parent, comm, exe, start_ns, end_ns });
    let open = (path(), number()).prop_map(|(path, count)| OpenRow { path, count });
    (info, vec(process, 0..4), vec(open, 0..4))
}

fn any_touch(file: impl Strategy<Value = FileId>) -> impl Strategy<Value = TouchRow> {
    use TouchEngine::{Byte, Function, Page, Probe};
    let engine = prop::sample::select(vec![Page, Probe, Function, Byte]);
    let when = (of(any::<u32>()), of(nanos()), of(any::<u32>()));
    (file, offset(), bytes(), when, engine, of(text())).prop_map(|(file, offset, len, when, engine, name)| TouchRow {
        file,
        offset,
        len,
        order: when.0,
        at_ns: when.1,
        tid: when.2,
        engine,
        name,
    })
}

fn any_watched(file: impl Strategy<Value = FileId>) -> impl Strategy<Value = WatchedRow> {
    let starts = prop::sample::select(vec![StartsFrom::Symbols, StartsFrom::Unwind, StartsFrom::Exports]);
    (file, number(), bytes(), starts).prop_map(|(file, functions, len, starts)| WatchedRow {
        file,
        functions,
        len,
        starts,
    })
}

fn any_trace() -> impl Strategy<Value = TraceRows> {
    use Cause::{Fault, Metadata, Read, ReadAhead, Unknown, Write};
    (any_info(), vec(any_file(), 1..5)).prop_flat_map(|((info, processes, opens), files)| {
        let count = u32::try_from(files.len()).unwrap();
        let file = move || (0..count).prop_map(FileId);
        let ids = move || (nanos(), any::<u32>(), any::<u32>(), file(), offset(), bytes());
        let cause = prop::sample::select(vec![Fault, Metadata, Read, ReadAhead, Unknown, Write]);
        let section = (file(), text(), offset(), bytes()).prop_map(|(file, name, offset, len)| SectionRow {
            file,
            name,
            offset,
            len,
        });
        let extent = (file(), offset(), number(), bytes()).prop_map(|(file, offset, disk, len)| ExtentRow {
            file,
            offset,
            disk: DiskOffset(disk),
            len,
        });
        let fill = (ids(), cause).prop_map(|((at_ns, pid, tid, file, offset, len), cause)| FillRow {
            at_ns,
            pid,
            tid,
            file,
            offset,
            len,
            cause,
        });
        let read =
            ids().prop_map(|(at_ns, pid, tid, file, offset, len)| ReadRow { at_ns, pid, tid, file, offset, len });
        let fault = (ids(), any::<bool>()).prop_map(|((at_ns, pid, tid, file, offset, len), missed)| FaultRow {
            at_ns,
            pid,
            tid,
            file,
            offset,
            len,
            missed,
        });
        let mmap = (ids(), any::<bool>()).prop_map(|((at_ns, pid, _, file, offset, len), exec)| MmapRow {
            at_ns,
            pid,
            file,
            offset,
            len,
            exec,
        });
        let sync = (nanos(), any::<u32>(), file(), of(nanos())).prop_map(|(at_ns, pid, file, took_ns)| SyncRow {
            at_ns,
            pid,
            file,
            took_ns,
        });
        let touch = any_touch(file());
        let watched = any_watched(file());
        (
            vec(section, 0..4),
            vec(extent, 0..4),
            vec(fill, 0..6),
            vec(read, 0..4),
            vec(fault, 0..4),
            vec(any_block(file()), 0..6),
            vec(mmap, 0..4),
            vec(sync, 0..4),
            (vec(touch, 0..4), vec(watched, 0..3)),
        )
            .prop_map(move |(sections, extents, fills, reads, faults, blocks, mmaps, syncs, touched)| {
                TraceRows {
                    info: info.clone(),
                    files: files.clone(),
                    sections,
                    extents,
                    fills,
                    reads,
                    faults,
                    blocks,
                    processes: processes.clone(),
                    mmaps,
                    opens: opens.clone(),
                    syncs,
                    touches: touched.0,
                    watched: touched.1,
                    ..TraceRows::default()
                }
            })
    })
}

fn any_run() -> impl Strategy<Value = RunRow> {
    let what = (
        any::<u32>(),
        prop::sample::select(CacheState::ALL.to_vec()),
        prop::sample::select(vec![RunKind::Timed, RunKind::Trace, RunKind::Warmup, RunKind::Touch]),
        any::<(u32, u32, bool)>(),
        of(text()),
    );
    let times = (number(), of(run_nanos()), of(run_nanos()), run_nanos(), run_nanos());
    let counts = (bytes(), amount(), amount(), of(bytes()), of(amount()), of(bytes()), of(amount()), of(amount()));
    let end = (of(any::<i32>()), of(any::<i32>()), share(), share(), share(), share());
    (what, times, counts, end).prop_map(|(what, times, counts, end)| RunRow {
        id: RunId(0),
        variant: what.0,
        state: what.1,
        kind: what.2,
        block: what.3.0,
        attempt: what.3.1,
        accepted: what.3.2,
        rejected_because: what.4,
        started_unix_ns: times.0,
        wall_ns: times.1,
        exit_ns: times.2,
        user_ns: times.3,
        system_ns: times.4,
        max_rss: counts.0,
        minor_faults: counts.1,
        major_faults: counts.2,
        read_bytes: counts.3,
        read_requests: counts.4,
        written_bytes: counts.5,
        instructions: counts.6,
        cycles: counts.7,
        exit_code: end.0,
        exit_signal: end.1,
        others_cpu_share: end.2,
        others_io_pressure: end.3,
        own_resident_share: end.4,
        system_resident_share: end.5,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_come_back_as_they_were(
        runs in vec((any_run(), vec((text(), nanos()), 0..3), vec((path(), bytes(), bytes()), 0..3)), 1..4),
        trace in any_trace(),
        facts in vec((text(), text(), text()), 0..3),
        binary in (path(), bytes(), number(), of(text())),
        argv in vec(os_text(), 0..4),
        other_argv in vec(os_text(), 0..2),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.thaw");
        let header = recording::Header { seed, ..header() };
        let mut writer = recording::Writer::create(&path, &header, recording::Replace::Never).unwrap();
        let variants = [
            Variant { index: 0, name: "one".into(), argv },
            Variant { index: u32::MAX, name: String::new(), argv: other_argv },
        ];
        for variant in &variants {
            writer.add_variant(variant).unwrap();
        }
        let facts: Vec<Fact> =
            facts.into_iter().map(|(subject, key, value)| Fact { subject, key, value }).collect();
        writer.add_facts(&facts).unwrap();
        let binary = Binary { path: binary.0, size: binary.1, mtime_unix_ns: binary.2, build_id: binary.3 };
        writer.add_binary(&binary).unwrap();
        let mut expected = Vec::new();
        for (run, milestones, residency) in runs {
            let milestones: Vec<Milestone> =
                milestones.into_iter().map(|(name, at_ns)| Milestone { name, at_ns }).collect();
            let residency: Vec<ResidencyRow> = residency
                .into_iter()
                .map(|(path, needed, resident)| ResidencyRow { path, needed, resident })
                .collect();
            let id = writer.add_run(&run, &milestones, &residency).unwrap();
            expected.push((RunRow { id, ..run }, milestones, residency));
        }
        let last = expected.last().unwrap().0.id;
        writer.add_trace(last, &trace).unwrap();

        let reader = Reader::open(&path).unwrap();
        prop_assert_eq!(reader.header().unwrap(), header);
        prop_assert_eq!(reader.variants().unwrap(), variants);
        prop_assert_eq!(reader.facts().unwrap(), facts);
        prop_assert_eq!(reader.binaries().unwrap(), [binary]);
        for ((run, milestones), expected) in reader.runs().unwrap().into_iter().zip(&expected) {
            prop_assert_eq!(&reader.residency(run.id).unwrap(), &expected.2);
            prop_assert_eq!((run, milestones), (expected.0.clone(), expected.1.clone()));
        }
        // The same row by row, in the order that a flow promises.
        let (mut told, mut expected) = (Told::default(), Told::default());
        let head = reader.trace_head(last).unwrap();
        reader.flow(last, &head, &mut told).unwrap();
        trace.flow(&mut expected);
        prop_assert_eq!(told.0, expected.0);
        let mut fills = Vec::new();
        reader.fills(last, &head, &mut |fill| fills.push(fill.clone())).unwrap();
        prop_assert_eq!(&fills, &trace.fills);
        let none = TraceRows { fills: vec![], reads: vec![], faults: vec![], blocks: vec![], ..trace.clone() };
        prop_assert_eq!(head, none);
        prop_assert_eq!(reader.trace(last).unwrap(), trace);
    }
}

/// What a flow handed over, in its order.
#[derive(Default)]
struct Told(Vec<String>);

impl Flow for Told {
    fn fill(&mut self, fill: &FillRow) {
        self.0.push(format!("{fill:?}"));
    }
    fn read(&mut self, read: &ReadRow) {
        self.0.push(format!("{read:?}"));
    }
    fn fault(&mut self, fault: &FaultRow) {
        self.0.push(format!("{fault:?}"));
    }
    fn block(&mut self, block: &BlockRow) {
        self.0.push(format!("{block:?}"));
    }
}
