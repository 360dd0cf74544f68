//! Files that somebody made to do harm, or that a disk damaged: an error that names the place, never a figure, never
//! without end.

mod common;

use common::{example, refusal};
use model::{Exit, RunId};
use recording::{Limits, Reader, Writer};
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;

/// A good recording on which these statements were run.
fn changed(sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    example(&path);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

/// The message with which such a file is refused when it is opened.
fn refused(sql: &str) -> String {
    let (_folder, path) = changed(sql);
    let (exit, text) = refusal(Reader::open(&path));
    assert_eq!(exit, Exit::Data, "{text}");
    // Adding to it would run what it holds.
    assert_eq!(refusal(Writer::open(&path)).0, Exit::Data);
    text
}

#[test]
fn a_table_must_be_the_table_that_it_claims_to_be() {
    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i";
    let view = format!(
        "DROP TABLE warnings; CREATE VIEW warnings AS {ENDLESS} AS kind, 'a' AS text, NULL AS hint, NULL AS run FROM n"
    );
    assert!(refused(&view).contains("'warnings' should be a table and is a view"));
    let replaced = format!("DROP VIEW v_runs; CREATE VIEW v_runs AS {ENDLESS} AS run FROM n");
    assert!(refused(&replaced).contains("the view 'v_runs' is not the one of this schema version"));
    let generated = "DROP TABLE endings; CREATE TABLE endings (a, finished_unix_ns INTEGER AS (length(zeroblob(1e9))))";
    assert!(refused(generated).contains("the table 'endings' is not the one"));
    let trigger = "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END";
    assert!(refused(trigger).contains("it has a trigger 't', which no thaw made"));
    assert!(refused("CREATE VIRTUAL TABLE x USING fts5(a)").contains("which no thaw made"));
    assert!(refused("DROP TABLE extents").contains("the table 'extents' is missing"));
    assert!(refused("CREATE INDEX i ON runs (state)").contains("it has a index 'i'"));
}

#[test]
fn how_a_statement_is_laid_out_says_nothing() {
    let statement = "CREATE TABLE endings (\n  finished_unix_ns    INTEGER NOT NULL -- when\n) STRICT";
    let (_folder, path) = changed(&format!("DROP TABLE endings; {statement}"));
    assert!(!Reader::open(&path).unwrap().finished().unwrap());
}

#[test]
fn what_cannot_be_is_damage_and_no_figure() {
    let because = |sql: &str| {
        let (_folder, path) = changed(sql);
        let (exit, text) = refusal(Reader::open(&path).unwrap().runs());
        assert_eq!(exit, Exit::Data, "{text}");
        text
    };
    assert!(
        because("UPDATE runs SET wall_ns = -1 WHERE run = 2")
            .contains("'wall_ns' of table 'runs' is negative: -1 (row 2)")
    );
    assert!(because("UPDATE runs SET max_rss_bytes = -4096").contains("'max_rss_bytes' of table 'runs' is negative"));
    let long = because("UPDATE runs SET user_ns = 1 << 62 WHERE run = 3");
    assert!(long.contains("'user_ns' of table 'runs' says 4611686018427387904 of run 3, which cannot be"), "{long}");
    assert!(
        because("UPDATE runs SET minor_faults = -7 WHERE run = 1")
            .contains("'minor_faults' of table 'runs' says -7 of run 1")
    );
    assert!(because("UPDATE runs SET others_cpu_share = -0.5").contains("says -0.5 of run 1"));
    assert!(
        because("UPDATE milestones SET at_ns = -5").contains("'at_ns' of table 'milestones' is negative: -5 (row 1)")
    );
    let (_folder, path) = changed("UPDATE fills SET length_bytes = -1");
    let reader = Reader::open(&path).unwrap();
    let run = reader.trace_runs().unwrap()[0];
    assert!(refusal(reader.trace(RunId(run.0))).1.contains("of table 'fills' is negative: -1 (row 1)"));
}

#[test]
fn a_question_has_limits() {
    let (_folder, path) = changed("SELECT 1");
    let reader = Reader::open(&path).unwrap();
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select";
    let limits = Limits { time: Some(Duration::from_millis(200)), rows: Some(1_000) };
    let (exit, text) = refusal(reader.query_within(&format!("{endless} count(*) from n"), &limits));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("was not answered within 0.2 s") && text.contains("--time-limit"), "{text}");
    let (exit, text) = refusal(reader.query_within(&format!("{endless} i from n"), &limits));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("more than 1000 rows") && text.contains("--max-rows"), "{text}");
    let (_, text) = refusal(reader.query_within("select zeroblob(1000000000)", &limits));
    assert!(text.contains("too big"), "{text}");
    // The next question has its own time.
    assert_eq!(reader.query("select 1").unwrap().rows.len(), 1);
    reader.give_up_after(Some(Duration::ZERO));
    let count = format!("{endless} i from n limit 1000000");
    assert!(reader.query(&count).is_ok(), "a question without limits has none");
}
