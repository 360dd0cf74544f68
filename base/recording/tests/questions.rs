//! What people ask in SQL, and what the views answer.

mod common;

use common::{created, example, refusal, run_row};
use model::{BlockRow, Bytes, Cause, DiskOffset, Exit, FileId, FileKind, FileOffset, FillRow, Nanos, RunId, Served};
use recording::{Reader, Value};

fn reader() -> (tempfile::TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    example(&path);
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

#[test]
fn answers_have_types() {
    let (_folder, reader) = reader();
    let table = reader.query("select 1, 2.5 as half, 'x', x'ff00', null, cast(x'fe' as text)").unwrap();
    assert_eq!(table.columns[1], "half");
    let expected = [
        Value::Integer(1),
        Value::Real(2.5),
        Value::Text("x".into()),
        Value::Blob(vec![0xff, 0]),
        Value::Null,
        Value::Blob(vec![0xfe]),
    ];
    assert_eq!(table.rows, [expected]);
    let json = serde_json::to_value(&table).unwrap();
    assert_eq!(json["rows"][0][3]["hex"], "ff00");
    let schema = reader.query("select name from pragma_table_info('milestones')").unwrap();
    assert_eq!(schema.rows.len(), 3);
    assert_eq!(reader.query("PRAGMA user_version").unwrap().rows, [[Value::Integer(5)]]);
    assert_eq!(reader.query("-- counts\nSELECT count(*) FROM runs; -- all").unwrap().rows, [[Value::Integer(4)]]);
    let recursive = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 4) select sum(x) from n";
    assert_eq!(reader.query(recursive).unwrap().rows, [[Value::Integer(10)]]);
    assert_eq!(reader.query("PRAGMA integrity_check").unwrap().rows, [[Value::Text("ok".into())]]);
}

#[test]
fn whatever_would_change_something_is_refused() {
    let (folder, reader) = reader();
    let before = std::fs::read(folder.path().join("ff.thaw")).unwrap();
    let other = folder.path().join("other.db");
    let attach = format!("ATTACH '{}' AS other", other.display());
    let vacuum = format!("VACUUM INTO '{}'", other.display());
    let refused = [
        "DELETE FROM runs",
        "UPDATE runs SET wall_ns = 1",
        "INSERT INTO endings VALUES (1)",
        "DROP TABLE runs",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE t USING fts5(x)",
        "ALTER TABLE runs ADD COLUMN x",
        "WITH x AS (SELECT 1) DELETE FROM runs",
        "REINDEX",
        "ANALYZE",
        "VACUUM",
        &vacuum,
        &attach,
        "DETACH main",
        "PRAGMA query_only = 0",
        "PRAGMA user_version = 9",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = WAL",
        "PRAGMA wal_checkpoint",
        "PRAGMA temp_store_directory = '/'",
        "BEGIN EXCLUSIVE",
        "COMMIT",
        "SAVEPOINT s",
        "EXPLAIN DELETE FROM runs",
    ];
    for sql in refused {
        let (exit, text) = refusal(reader.query(sql));
        assert_eq!(exit, Exit::Usage, "{sql}: {text}");
        assert!(text.contains("only questions (SELECT) are allowed"), "{sql}: {text}");
    }
    assert_eq!(std::fs::read(folder.path().join("ff.thaw")).unwrap(), before);
    assert_eq!(common::names(folder.path()), ["ff.thaw"]);
}

#[test]
fn a_wrong_question_is_explained() {
    let (_folder, reader) = reader();
    let cases = [
        ("select 1; select 2", "several statements", "one question at a time"),
        ("select 1; delete from runs", "only questions", ""),
        ("", "asks for nothing", "v_files"),
        ("-- nothing", "asks for nothing", "v_files"),
        ("selec 1", "near \"selec\": syntax error", "v_files"),
        ("select * from rums", "no such table: rums", "v_runs, v_files, v_sections, v_intervals, header"),
        ("select wall from Runs", "no such column: wall", "runs has run, variant, state"),
        ("select nonsense", "no such column: nonsense", "v_files"),
        ("select sum(x'00' || )", "syntax error", "v_files"),
        ("select abs(-9223372036854775808)", "integer overflow", "v_files"),
        ("select load_extension('x')", "not authorized to use function: load_extension", ""),
        ("select 'a\0b'", "", ""),
    ];
    for (sql, cause, hint) in cases {
        let (exit, text) = refusal(reader.query(sql));
        assert_eq!(exit, Exit::Usage, "{sql}: {text}");
        assert!(text.contains(cause) && text.contains(hint), "{sql}: {text}");
    }
}

/// One file and its metadata, four requests:
///
/// ```text
/// ns        0    100   200   300   400   500   600
/// file A    |--- read ---|         |-- read --|
/// file A         |--- read ---|
/// file A         |--------------- write ---------------|
/// metadata            |--- read ---|
/// unknown                          |- read ... (its end was not seen)
/// ```
#[test]
fn views_add_up_fills_requests_and_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    let id = writer.add_run(&run_row(0), &[], &[]).unwrap();
    let file = |offset: u64| Served::File(FileId(0), FileOffset(offset));
    let block = |start: u64, done: Option<u64>, len: u64, write: bool, served| BlockRow {
        start_ns: Nanos(start),
        done_ns: done.map(Nanos),
        pid: None,
        dev: 0xfe01,
        disk: DiskOffset(0),
        len: Bytes(len),
        write,
        served,
        flags: String::new(),
    };
    let fill = |at: u64, file: u32, offset: u64, len: u64, cause| FillRow {
        at_ns: Nanos(at),
        pid: 1,
        tid: 1,
        file: FileId(file),
        offset: FileOffset(offset),
        len: Bytes(len),
        cause,
    };
    let mut trace = common::trace(0);
    trace.sections[0].len = Bytes(8192);
    trace.sections[1].offset = FileOffset(4096 + 8192);
    trace.blocks = vec![
        block(0, Some(200), 8192, false, file(0)),
        block(100, Some(300), 4096, false, file(8192)),
        block(400, Some(500), 4096, false, file(12288)),
        block(100, Some(600), 65536, true, file(0)),
        block(150, Some(350), 4096, false, Served::Metadata),
        block(400, None, 512, false, Served::Unknown),
    ];
    trace.fills = vec![
        fill(210, 0, 0, 8192, Cause::Fault),
        fill(310, 0, 8192, 4096, Cause::ReadAhead),
        fill(510, 0, 12288, 4096, Cause::Read),
        fill(50, 0, 16384, 4096, Cause::Write),
        fill(360, 1, 0, 4096, Cause::Metadata),
    ];
    writer.add_trace(id, &trace).unwrap();
    let reader = Reader::open(&path).unwrap();

    let columns = "kind, first_fill_ns, filled_bytes, requests, request_bytes, waiting_ns";
    let files = reader.query(&format!("SELECT {columns} FROM v_files ORDER BY file IS NULL, file")).unwrap();
    let int = Value::Integer;
    let kind = |kind: &str| Value::Text(kind.into());
    assert_eq!(
        files.rows,
        [
            [kind("regular"), int(210), int(16384), int(3), int(16384), int(400)],
            [kind("metadata"), int(360), int(4096), int(1), int(4096), int(200)],
            [kind("unattributed"), Value::Null, int(0), int(1), int(512), int(0)],
        ]
    );
    assert_eq!(trace.files[1].kind, FileKind::Metadata);

    let columns = "section, first_fill_ns, filled_bytes, requests, waiting_ns";
    let sections = reader.query(&format!("SELECT {columns} FROM v_sections ORDER BY offset_bytes")).unwrap();
    let name = |name: &str| Value::Text(name.into());
    assert_eq!(
        sections.rows,
        [
            [name(".text"), int(210), int(8192), int(2), int(300)],
            [name(".data"), int(510), int(4096), int(1), int(100)],
        ]
    );
    let runs = reader.query("SELECT wall_s, traced, read_mb FROM v_runs").unwrap();
    assert_eq!(runs.rows, [[Value::Real(1.5), int(1), Value::Real(120.0)]]);
}

#[test]
fn metadata_requests_go_to_the_metadata_of_their_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    let id = writer.add_run(&run_row(0), &[], &[]).unwrap();
    let mut trace = common::trace(0);
    let mut other = trace.files[1].clone();
    (other.path, other.dev) = ("/dev/vdb".into(), 0xfe10);
    trace.files.push(other);
    trace.blocks.retain(|block| block.served == Served::Metadata);
    trace.blocks[0].dev = 0xfe10;
    writer.add_trace(id, &trace).unwrap();
    let reader = Reader::open(&path).unwrap();
    let table = reader.query("SELECT path FROM v_files WHERE requests > 0").unwrap();
    assert_eq!(table.rows, [[Value::Text("/dev/vdb".into())]]);
}

/// The rows of one run must not mix with those of another.
#[test]
fn views_keep_runs_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    for _ in 0..3 {
        let id = writer.add_run(&run_row(0), &[], &[]).unwrap();
        writer.add_trace(id, &common::trace(8)).unwrap();
    }
    let reader = Reader::open(&path).unwrap();
    for view in ["v_files", "v_sections"] {
        let sql = format!("SELECT run, sum(filled_bytes), sum(requests), sum(waiting_ns) FROM {view} GROUP BY run");
        let rows = reader.query(&sql).unwrap().rows;
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row[1..] == rows[0][1..]), "{view}: {rows:?}");
        assert_ne!(rows[0][1], Value::Integer(0));
    }
    assert_eq!(reader.trace(RunId(2)).unwrap(), common::trace(8));
}

/// Of an object that is worked on by two threads at once each thread's events belong together.
#[test]
fn intervals_end_with_what_their_object_does_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.thaw");
    common::example(&path);
    let reader = Reader::open(&path).unwrap();
    let sql = "SELECT type, name, state, pid, tid, from_s, took_s FROM v_intervals ORDER BY from_s";
    let rows = reader.query(sql).unwrap().rows;
    let text = format!("{rows:?}");
    assert_eq!(rows.len(), 3, "{text}");
    let waited = rows[0].iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>().join(" ");
    assert!(waited.contains("net::transaction") && waited.contains("wait") && waited.contains("4e-9"), "{waited}");
    // What has not ended has no end.
    assert!(format!("{:?}", rows[2][6]).contains("Null"), "{text}");
}
