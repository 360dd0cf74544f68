//! Recordings made by hand: for tests of what is said about figures that are known.

use model::{
    BlockRow, Bytes, CacheState, Cause, DiskOffset, FileId, FileKind, FileOffset, FileRow, FillRow, Milestone, Nanos,
    Owner, ProcessRow, ReadRow, RunId, RunKind, RunRow, Served, TraceInfo, TraceRows,
};
use recording::{Fact, Header, Replace, Variant, Writer};
use std::path::Path;

/// Writes a finished recording of `app` with these wall times in milliseconds, in random-block order.
pub fn recording(path: &Path, cold_ms: &[u64], hot_ms: &[u64]) {
    with_trace(path, cold_ms, hot_ms, Some(&trace()));
}

/// What a recording is of, and the cold starts in it.
pub struct Of<'a> {
    pub argv: &'a [&'a str],
    pub plan: serde_json::Value,
    pub facts: &'a [(&'a str, &'a str, &'a str)],
    /// Names of the variants with their wall times in milliseconds, block by block.
    pub cold_ms: &'a [(&'a str, &'a [u64])],
}

/// Writes a finished recording of it, without a trace.
pub fn of(path: &Path, of: &Of<'_>) {
    at(path, of, header().created_unix_ns);
}

/// The same, made at another time.
pub fn at(path: &Path, of: &Of<'_>, created_unix_ns: u64) {
    let header = Header { plan: of.plan.clone(), created_unix_ns, ..header() };
    let mut writer = Writer::create(path, &header, Replace::Never).unwrap();
    for (index, (name, times)) in (0..).zip(of.cold_ms) {
        let argv = of.argv.iter().map(Into::into).collect();
        writer.add_variant(&Variant { index, name: (*name).into(), argv }).unwrap();
        for (block, ms) in (0..).zip(*times) {
            let row = RunRow { variant: index, ..run(CacheState::Cold, block, *ms) };
            writer.add_run(&row, &milestone(&row), &[]).unwrap();
        }
    }
    let facts: Vec<Fact> = of
        .facts
        .iter()
        .map(|(subject, key, value)| Fact { subject: (*subject).into(), key: (*key).into(), value: (*value).into() })
        .collect();
    writer.add_facts(&facts).unwrap();
    writer.finish().unwrap();
}

/// The same with another trace, or none.
pub fn with_trace(path: &Path, cold_ms: &[u64], hot_ms: &[u64], trace: Option<&TraceRows>) {
    let wall = cold_ms.first().map_or(1000, |ms| ms + 10);
    let traces: Vec<(u64, &TraceRows)> = trace.into_iter().map(|trace| (wall, trace)).collect();
    with_traces(path, cold_ms, hot_ms, &traces);
}

/// The same with several traced cold starts, each with its wall time.
pub fn with_traces(path: &Path, cold_ms: &[u64], hot_ms: &[u64], traces: &[(u64, &TraceRows)]) {
    let mut writer = Writer::create(path, &header(), Replace::Never).unwrap();
    writer.add_variant(&Variant { index: 0, name: "app".into(), argv: vec!["app".into(), "--fast".into()] }).unwrap();
    let fact =
        |subject: &str, key: &str, value: &str| Fact { subject: subject.into(), key: key.into(), value: value.into() };
    writer.add_facts(&[fact("machine", "kernel", "6.1"), fact("disk:vda", "read_ahead_kb", "128")]).unwrap();
    for (wall_ms, trace) in traces {
        let traced = RunRow { kind: RunKind::Trace, ..run(CacheState::Cold, 0, *wall_ms) };
        let id = writer.add_run(&traced, &milestone(&traced), &[]).unwrap();
        writer.add_trace(id, trace).unwrap();
    }
    for block in 0..cold_ms.len().max(hot_ms.len()) {
        for (state, times) in [(CacheState::Cold, cold_ms), (CacheState::Hot, hot_ms)] {
            if let Some(ms) = times.get(block) {
                let row = run(state, block as u32, *ms);
                writer.add_run(&row, &milestone(&row), &[]).unwrap();
            }
        }
    }
    writer.finish().unwrap();
}

fn header() -> Header {
    Header {
        thaw_version: "0.0.1".into(),
        created_unix_ns: 1_700_000_000_000_000_000,
        command_line: vec!["thaw".into(), "record".into(), "--".into(), "app".into()],
        cwd: "/".into(),
        environment: Vec::new(),
        plan: serde_json::json!({ "runs": 10, "states": ["cold", "hot"] }),
        seed: 7,
    }
}

/// A run whose figures can be recognised.
pub fn run(state: CacheState, block: u32, wall_ms: u64) -> RunRow {
    let wall = Nanos(wall_ms * 1_000_000);
    let cold = state == CacheState::Cold;
    RunRow {
        id: RunId(0),
        variant: 0,
        state,
        kind: RunKind::Timed,
        block,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns: 1_700_000_000_000_000_000 + u64::from(block) * 10_000_000_000,
        wall_ns: Some(wall),
        exit_ns: Some(wall),
        user_ns: Nanos(200_000_000),
        system_ns: Nanos(100_000_000),
        max_rss: Bytes(50_000_000),
        minor_faults: 1_000,
        major_faults: if cold { 70 } else { 0 },
        read_bytes: Some(Bytes(if cold { 135_200_000 } else { 0 })),
        read_requests: Some(if cold { 1_894 } else { 0 }),
        written_bytes: Some(Bytes(0)),
        instructions: None,
        cycles: None,
        exit_code: Some(0),
        exit_signal: None,
        others_cpu_share: Some(0.0),
        others_io_pressure: Some(0.0),
        own_resident_share: Some(if cold { 0.0 } else { 1.0 }),
        system_resident_share: Some(if cold { 0.0 } else { 1.0 }),
    }
}

fn milestone(row: &RunRow) -> Vec<Milestone> {
    vec![Milestone { name: "exit".into(), at_ns: row.wall_ns.unwrap_or_default() }]
}

/// A trace in which one library costs most: 40 requests of 1 MB, 10 ms each, of which a quarter was asked for.
pub fn trace() -> TraceRows {
    trace_of(40)
}

/// The same with another number of requests.
pub fn trace_of(requests: u64) -> TraceRows {
    let file = |path: &str, owner| FileRow {
        path: path.into(),
        kind: FileKind::Regular,
        owner,
        dev: 1,
        ino: 1,
        size: Bytes(100_000_000),
        extents: Some(9),
        build_id: None,
    };
    let mut rows = TraceRows {
        info: TraceInfo { engine: "perf".into(), records: 40, lost: 0, bytes: Bytes(4_000), cannot: Vec::new() },
        files: vec![file("/opt/app/libbig.so", Owner::App), file("/usr/lib/libsmall.so", Owner::System)],
        processes: vec![ProcessRow {
            pid: 100,
            parent: 1,
            comm: "app".into(),
            exe: Some("/opt/app/app".into()),
            start_ns: Nanos(0),
            end_ns: None,
        }],
        ..TraceRows::default()
    };
    for index in 0..requests {
        let at_ns = Nanos(index * 20_000_000);
        let offset = FileOffset(index * 1_048_576);
        let pages = |offset, len, cause| FillRow { at_ns, pid: 100, tid: 100, file: FileId(0), offset, len, cause };
        rows.reads.push(ReadRow { at_ns, pid: 100, tid: 100, file: FileId(0), offset, len: Bytes(262_144) });
        rows.fills.push(pages(offset, Bytes(262_144), Cause::Read));
        rows.fills.push(pages(FileOffset(offset.0 + 262_144), Bytes(786_432), Cause::ReadAhead));
        rows.blocks.push(BlockRow {
            start_ns: at_ns,
            done_ns: Some(Nanos(at_ns.0 + 10_000_000)),
            pid: Some(100),
            dev: 1,
            disk: DiskOffset(offset.0),
            len: Bytes(1_048_576),
            write: false,
            served: Served::File(FileId(0), offset),
            flags: "RA".into(),
        });
    }
    rows
}
