//! Four ways to make trouble for a reader of recordings; the first byte of the input chooses:
//! - 0: the rest is the file;
//! - 1: the rest changes bytes of a good recording (four bytes of place, one of value, and so on);
//! - 2: the rest is SQL that changes a good recording before it is read: views for tables, triggers, absurd values;
//! - anything else: the rest is a question in SQL to a good recording, within limits of time and rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{BlockRow, Exit, FaultRow, FillRow, Flow, ReadRow, Result};
use recording::{Header, Limits, Reader, Replace, Writer};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

/// A recording with a run and a trace in it.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("good.thaw");
    write_good(&path).expect("a good recording");
    std::fs::read(path).expect("its bytes")
});

fn write_good(path: &Path) -> Result<()> {
    let header = Header {
        thaw_version: "0".into(),
        created_unix_ns: 1,
        command_line: vec!["thaw".into()],
        cwd: "/".into(),
        environment: vec![("LANG".into(), "C".into())],
        plan: serde_json::json!({}),
        seed: 1,
    };
    let mut writer = Writer::create(path, &header, Replace::Never)?;
    let run = serde_json::json!({
        "id": 0, "variant": 0, "state": "cold", "kind": "trace", "block": 0, "attempt": 1, "accepted": true,
        "started_unix_ns": 1, "user_ns": 1, "system_ns": 1, "max_rss": 1, "minor_faults": 1, "major_faults": 1,
    });
    let trace = serde_json::json!({
        "info": {"engine": "perf", "records": 1, "lost": 0, "bytes": 1, "cannot": ["all"]},
        "files": [{"path": "/a", "kind": "regular", "owner": "app", "dev": 1, "ino": 1, "size": 4096}],
        "sections": [{"file": 0, "name": ".text", "offset": 0, "len": 4096}],
        "extents": [{"file": 0, "offset": 0, "disk": 4096, "len": 4096}],
        "fills": [{"at_ns": 1, "pid": 1, "tid": 1, "file": 0, "offset": 0, "len": 4096, "cause": "read"}],
        "reads": [{"at_ns": 1, "pid": 1, "tid": 1, "file": 0, "offset": 0, "len": 4096}],
        "faults": [{"at_ns": 1, "pid": 1, "tid": 1, "file": 0, "offset": 0, "len": 4096, "missed": true}],
        "blocks": [{"start_ns": 1, "done_ns": 2, "dev": 1, "disk": 4096, "len": 4096, "write": false,
            "served": {"file": [0, 0]}, "flags": "RA"}],
        "processes": [{"pid": 1, "parent": 0, "comm": "a", "start_ns": 0}],
        "mmaps": [{"at_ns": 1, "pid": 1, "file": 0, "offset": 0, "len": 4096, "exec": true}],
        "opens": [{"path": "/a", "count": 1}],
        "syncs": [{"at_ns": 1, "pid": 1, "file": 0}],
        "touches": [{"file": 0, "offset": 0, "len": 64, "order": 0, "at_ns": 1, "tid": 1, "engine": "function", "name": "main"}],
        "watched": [{"file": 0, "functions": 1, "len": 64, "starts": "symbols"}],
    });
    let run = serde_json::from_value(run).expect("a run");
    let id = writer.add_run(&run, &[], &[])?;
    writer.add_trace(id, &serde_json::from_value(trace).expect("a trace"))?;
    writer.finish()
}

/// Runs SQL on the file, as somebody who means harm would; what SQLite refuses is not done.
fn change(path: &Path, sql: &str) {
    let mut connection = rusqlite::Connection::open(path).expect("a good recording opens");
    let mut steps = 0;
    let enough = move || {
        steps += 1;
        steps > 1_000
    };
    connection.progress_handler(1_000, Some(enough)).expect("a handler");
    connection.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, 1 << 20).expect("a limit");
    connection.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_ATTACHED, 0).expect("a limit");
    connection.execute_batch(sql).ok();
}

/// How many rows a flow handed over, by table, each time that the table changed.
#[derive(Default)]
struct Told(Vec<(char, u64)>);

impl Told {
    fn one(&mut self, table: char) {
        match self.0.last_mut().filter(|last| last.0 == table) {
            Some(last) => last.1 += 1,
            None => self.0.push((table, 1)),
        }
    }
}

impl Flow for Told {
    fn fill(&mut self, _: &FillRow) {
        self.one('f');
    }
    fn read(&mut self, _: &ReadRow) {
        self.one('r');
    }
    fn fault(&mut self, _: &FaultRow) {
        self.one('p');
    }
    fn block(&mut self, _: &BlockRow) {
        self.one('b');
    }
}

fn ask_everything(reader: &Reader) -> Result<()> {
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
        assert!(trace.fills.iter().all(|row| (row.file.0 as usize) < trace.files.len()));
        // Row by row it is the same.
        let head = reader.trace_head(run)?;
        let (mut told, mut expected) = (Told::default(), Told::default());
        reader.flow(run, &head, &mut told)?;
        trace.flow(&mut expected);
        assert_eq!(told.0, expected.0);
    }
    for view in ["v_runs", "v_files", "v_sections"] {
        reader.query(&format!("SELECT * FROM {view}"))?;
    }
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("x.thaw");
    let bytes = match kind {
        0 => rest.to_vec(),
        1 => {
            let mut bytes = GOOD.clone();
            for change in rest.chunks_exact(5) {
                let place = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % bytes.len();
                bytes[place] = change[4];
            }
            bytes
        }
        _ => GOOD.clone(),
    };
    std::fs::write(&path, &bytes).expect("room for the file");
    if *kind == 2 {
        change(&path, &String::from_utf8_lossy(rest));
    }
    let opened = Reader::open(&path);
    if *kind > 2 {
        let reader = opened.expect("a good recording opens");
        let sql = String::from_utf8_lossy(rest);
        let limits = Limits { time: Some(Duration::from_secs(1)), rows: Some(10_000) };
        reader.query_within(&sql, &limits).ok();
        drop(reader);
        assert!(std::fs::read(&path).expect("still there") == bytes, "a question changed the recording: {sql}");
        return;
    }
    if let Err(error) = opened.and_then(|reader| ask_everything(&reader)) {
        assert!(matches!(error.exit, Exit::Data | Exit::Usage), "{error}");
    }
});
