//! Where a recording may be put, and which files are refused as recordings.

mod common;

use common::{created, example, header, names, refusal, run_row};
use model::Exit;
use recording::{Reader, Replace, Writer};
use rusqlite::Connection;
use std::os::unix::fs::symlink;
use std::path::Path;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// An SQLite file with these numbers in its header.
fn database(path: &Path, application_id: i32, user_version: i32) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "application_id", application_id).unwrap();
    connection.pragma_update(None, "user_version", user_version).unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)").unwrap();
}

fn assert_refused_to_read(path: &Path, parts: &[&str]) {
    let (exit, text) = refusal(Reader::open(path));
    assert_eq!(exit, Exit::Data, "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in: {text}");
    }
}

#[test]
fn what_is_no_recording_of_this_version_is_refused_with_a_way_out() {
    let folder = folder();
    let path = folder.path().join("x.thaw");
    let (exit, text) = refusal(Reader::open(&path));
    assert_eq!(exit, Exit::Usage, "a name that is not there is mistyped");
    assert!(text.contains("No such file") && text.contains("thaw record -o"), "{text}");
    assert_refused_to_read(folder.path(), &["not a regular file"]);

    for (content, cause) in [
        (&b""[..], "the file is empty"),
        (b"#!/bin/sh\n", "not a thaw recording"),
        (&[7; 10_000], "not a thaw recording"),
        (b"SQLite format 3\0", "an SQLite file, but not one that thaw wrote"),
    ] {
        std::fs::write(&path, content).unwrap();
        assert_refused_to_read(&path, &[cause, "thaw record -o"]);
        assert_eq!(std::fs::read(&path).unwrap(), content, "refused and left alone");
    }
    std::fs::remove_file(&path).unwrap();
    database(&path, 0, 1);
    assert_refused_to_read(&path, &["an SQLite file, but not one that thaw wrote"]);
    database(&path, recording::APPLICATION_ID, recording::SCHEMA_VERSION + 1);
    assert_refused_to_read(&path, &["it has schema version 6, and this thaw reads up to version 5", "update thaw"]);
    database(&path, recording::APPLICATION_ID, 0);
    assert_refused_to_read(&path, &["it has schema version 0", "record again"]);
    assert_eq!(names(folder.path()), ["x.thaw"]);
}

/// Makes a recording what an earlier version wrote: without the tables that came later.
fn as_version(version: i32, path: &Path) {
    let since_5 = "DROP TABLE relocations; DROP TABLE cpu_traces; DROP TABLE cpu_limits; DROP TABLE threads; DROP \
                   TABLE switches; DROP TABLE wakeups; DROP TABLE samples; DROP TABLE frames; DROP TABLE stacks; DROP \
                   TABLE loader_runs; DROP TABLE loader_starts; DROP TABLE loader_limits; DROP TABLE loader_phases; \
                   DROP TABLE loader_objects; DROP TABLE initialisers;";
    let since_4 = "DROP VIEW v_intervals; DROP TABLE wakes; DROP TABLE event_sources; DROP TABLE event_losses; DROP \
                   TABLE event_processes; DROP TABLE event_threads; DROP TABLE event_types; DROP TABLE events;";
    let since_3 = "DROP TABLE owners; DROP TABLE held; DROP TABLE direct; DROP TABLE file_systems;";
    let gone = match version {
        2 => format!("{since_5} {since_4} {since_3}"),
        3 => format!("{since_5} {since_4}"),
        _ => since_5.to_owned(),
    };
    Connection::open(path).unwrap().execute_batch(&format!("{gone} PRAGMA user_version = {version}")).unwrap();
}

#[test]
fn recordings_of_earlier_versions_are_read_and_added_to() {
    [2, 3, 4].into_iter().for_each(is_read_and_added_to);
}

fn is_read_and_added_to(version: i32) {
    let folder = folder();
    let path = folder.path().join("old.thaw");
    example(&path);
    let run = Reader::open(&path).unwrap().trace_runs().unwrap()[0];
    let whole = Reader::open(&path).unwrap().trace(run).unwrap();
    assert!(!whole.owners.is_empty() && !whole.held.is_empty());
    as_version(version, &path);
    let old = Reader::open(&path).unwrap().trace(run).unwrap();
    assert_eq!(old.files, whole.files);
    let since_3 = [old.owners.is_empty(), old.held.is_empty(), old.direct.is_empty(), old.file_systems.is_empty()];
    assert_eq!(since_3, [version < 3; 4]);
    assert_eq!(old.wakes.is_empty(), version < 4);
    assert!(old.relocations.is_empty() && Reader::open(&path).unwrap().cpu_runs().unwrap().is_empty());
    assert_eq!(Reader::open(&path).unwrap().cpu(run).unwrap(), None);
    assert!(Reader::open(&path).unwrap().loader_runs().unwrap().is_empty());
    assert_eq!(Reader::open(&path).unwrap().loader(run).unwrap(), None);
    if version < 4 {
        assert!(Reader::open(&path).unwrap().event_runs().unwrap().is_empty());
        assert_eq!(Reader::open(&path).unwrap().events(run).unwrap(), None);
    }
    // Adding to it makes it one of this version, and keeps what is there.
    let mut writer = Writer::open(&path).unwrap();
    let added = writer.add_run(&run_row(9), &[], &[]).unwrap();
    writer.add_trace(added, &common::trace(3)).unwrap();
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.trace(run).unwrap().fills, whole.fills);
    assert_eq!(reader.trace(added).unwrap(), common::trace(3));
    drop(reader);
    let mut writer = Writer::open(&path).unwrap();
    writer.add_events(added, &common::events()).unwrap();
    assert_eq!(Reader::open(&path).unwrap().events(added).unwrap(), Some(common::events()));
    writer.add_cpu(added, &common::cpu()).unwrap();
    assert_eq!(Reader::open(&path).unwrap().cpu(added).unwrap(), Some(common::cpu()));
    writer.add_loader(added, &common::loader()).unwrap();
    assert_eq!(Reader::open(&path).unwrap().loader(added).unwrap(), Some(common::loader()));
    assert_eq!(Reader::open(&path).unwrap().loader_runs().unwrap(), [added]);
    let mut within = common::loader();
    within.starts[1].initialisers[1].within = Some(1);
    for (run, rows, why) in [
        (added, common::loader(), "second time"),
        (model::RunId(99), common::loader(), "not in"),
        (run, within, "not before it"),
    ] {
        let (exit, text) = refusal(writer.add_loader(run, &rows));
        assert!(exit == Exit::Bug && text.contains(why), "{text}");
    }
    let mut nowhere = common::cpu();
    nowhere.samples[0].stack = Some(model::cpu::StackId(3));
    for (run, trace, why) in
        [(added, common::cpu(), "second time"), (model::RunId(99), common::cpu(), "not in"), (run, nowhere, "stack 3")]
    {
        let (exit, text) = refusal(writer.add_cpu(run, &trace));
        assert!(exit == Exit::Bug && text.contains(why), "{text}");
    }
    let mut wrong = common::events();
    wrong.events[2].thread = 2;
    for (run, rows, why) in [
        (added, common::events(), "second time"),
        (model::RunId(99), common::events(), "not in"),
        (run, wrong, "thread 2"),
    ] {
        let (exit, text) = refusal(writer.add_events(run, &rows));
        assert!(exit == Exit::Bug && text.contains(why), "{text}");
    }
}

#[test]
fn a_named_pipe_does_not_hang_anybody() {
    let folder = folder();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_refused_to_read(&path, &["not a regular file"]);
    for replace in [Replace::Never, Replace::Recording] {
        let (exit, text) = refusal(Writer::create(&path, &header(), replace));
        assert_eq!(exit, Exit::Usage);
        assert!(text.contains("not a regular file"), "{text}");
    }
}

#[test]
fn a_file_that_is_there_is_replaced_only_if_that_was_said_and_it_is_a_recording() {
    let folder = folder();
    let path = folder.path().join("x.thaw");
    example(&path);
    let old = std::fs::read(&path).unwrap();
    let (exit, text) = refusal(Writer::create(&path, &header(), Replace::Never));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("the file exists") && text.contains("--force") && text.contains("-o FILE"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), old);

    let before = Reader::open(&path).unwrap();
    let mut writer = Writer::create(&path, &header(), Replace::Recording).unwrap();
    writer.add_run(&run_row(0), &[], &[]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().runs().unwrap().len(), 1);
    assert_eq!(before.runs().unwrap().len(), 4, "who had the old one open still has it");
    drop(writer);

    database(&folder.path().join("newer.thaw"), recording::APPLICATION_ID, 99);
    Writer::create(folder.path().join("newer.thaw"), &header(), Replace::Recording)
        .map(drop)
        .expect("a recording of any version may be replaced");

    let foreign = folder.path().join("foreign");
    for content in [&b""[..], b"my thesis", b"SQLite format 3\0 but short"] {
        std::fs::write(&foreign, content).unwrap();
        let (_, text) = refusal(Writer::create(&foreign, &header(), Replace::Never));
        assert!(text.contains("the file exists") && !text.contains("--force"), "no hint that would not help: {text}");
        let (exit, text) = refusal(Writer::create(&foreign, &header(), Replace::Recording));
        assert_eq!(exit, Exit::Usage);
        assert!(text.contains("will not replace") && text.contains("not a thaw recording"), "{text}");
        assert_eq!(std::fs::read(&foreign).unwrap(), content);
    }
    std::fs::remove_file(&foreign).unwrap();
    database(&foreign, 0x1234, 1);
    refusal(Writer::create(&foreign, &header(), Replace::Recording));
    assert_eq!(names(folder.path()), ["foreign", "newer.thaw", "x.thaw"]);
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let folder = folder();
    let (real, link) = (folder.path().join("real.thaw"), folder.path().join("link.thaw"));
    example(&real);
    symlink("real.thaw", &link).unwrap();
    assert_eq!(Reader::open(&link).unwrap().runs().unwrap().len(), 4);
    drop(Writer::create(&link, &header(), Replace::Recording).unwrap());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(Reader::open(&real).unwrap().runs().unwrap().len(), 0);

    std::fs::remove_file(&real).unwrap();
    let (exit, text) = refusal(Writer::create(&link, &header(), Replace::Recording));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("leads nowhere"), "{text}");
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let folder = folder();
    let path = folder.path().join("no/such/x.thaw");
    let (exit, text) = refusal(Writer::create(&path, &header(), Replace::Never));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("mkdir -p") && text.contains("no/such'"), "{text}");
}

#[test]
fn two_writers_never_share_a_recording() {
    let folder = folder();
    let path = folder.path().join("x.thaw");
    let mut first = created(&path);
    let (exit, text) = refusal(Writer::create(&path, &header(), Replace::Recording));
    assert_eq!(exit, Exit::Usage);
    assert!(text.contains("another `thaw record` is writing to it"), "{text}");
    first.add_run(&run_row(0), &[], &[]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().runs().unwrap().len(), 1);
    drop(first);
    drop(Writer::create(&path, &header(), Replace::Recording).unwrap());
    assert_eq!(names(folder.path()), ["x.thaw"]);
}

/// SQLite would play such a journal into whatever file gets its name.
#[test]
fn a_journal_without_its_recording_does_not_get_into_a_new_one() {
    let folder = folder();
    let (path, journal) = (folder.path().join("x.thaw"), folder.path().join("x.thaw-journal"));
    common_hot_journal(&path);
    assert!(journal.exists());
    std::fs::remove_file(&path).unwrap();
    drop(created(&path));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.header().unwrap(), header());
    common::ask_everything(&reader).unwrap();
    drop(reader);

    std::fs::remove_file(&path).unwrap();
    for name in ["x.thaw-journal", "x.thaw-wal"] {
        let sidecar = folder.path().join(name);
        std::fs::write(&sidecar, "a diary, say").unwrap();
        let (exit, text) = refusal(Writer::create(&path, &header(), Replace::Never));
        assert_eq!(exit, Exit::Usage);
        assert!(text.contains(name) && text.contains("in the way"), "{text}");
        assert_eq!(std::fs::read(&sidecar).unwrap(), b"a diary, say");
        std::fs::remove_file(&sidecar).unwrap();
    }
}

#[test]
fn a_hot_journal_is_rolled_back_by_the_next_reader_and_by_the_next_writer() {
    let folder = folder();
    let path = folder.path().join("x.thaw");
    common_hot_journal(&path);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 4, "the deleted rows are back");
    common::ask_everything(&reader).unwrap();
    drop(reader);
    assert_eq!(names(folder.path()), ["x.thaw"]);

    std::fs::remove_file(&path).unwrap();
    common_hot_journal(&path);
    let mut writer = Writer::create(&path, &header(), Replace::Recording).unwrap();
    writer.add_run(&run_row(0), &[], &[]).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1);
    common::ask_everything(&reader).unwrap();
}

/// A reader that is open when the writer is killed must not go on with half a write.
#[test]
fn a_reader_of_a_killed_writer_is_told_to_open_again() {
    let folder = folder();
    let path = folder.path().join("x.thaw");
    example(&path);
    let reader = Reader::open(&path).unwrap();
    reader.runs().unwrap();
    make_hot(&path);
    let (exit, text) = refusal(reader.runs());
    assert_eq!(exit, Exit::Data);
    assert!(text.contains("was killed") && text.contains("open it again"), "{text}");
    assert_eq!(Reader::open(&path).unwrap().runs().unwrap().len(), 4);
    assert_eq!(reader.runs().unwrap().len(), 4);
}

#[test]
fn a_foreign_database_with_a_hot_journal_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("foreign.db");
    database(&path, 5, 5);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE runs (x); INSERT INTO runs VALUES (1)").unwrap();
    make_hot(&path);
    let before = std::fs::read(&path).unwrap();
    let (exit, text) = refusal(Reader::open(&path));
    assert_eq!(exit, Exit::Data);
    assert!(text.contains("not one that thaw wrote"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(folder.path()), ["foreign.db", "foreign.db-journal"]);
}

/// An example recording with a journal as a killed writer leaves it.
fn common_hot_journal(path: &Path) {
    example(path);
    make_hot(path);
}

/// Leaves the files as they are in the middle of a transaction that has begun to change the database: the writer's own
/// files are copied away while it is inside, and put in place when it has ended.
fn make_hot(path: &Path) {
    let journal = path.with_file_name(format!("{}-journal", path.file_name().unwrap().to_str().unwrap()));
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "cache_size", 1).unwrap();
    connection.pragma_update(None, "cache_spill", 1).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE; DELETE FROM runs; CREATE TABLE spill (x)").unwrap();
    connection
        .execute_batch(
            "INSERT INTO spill WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500)
             SELECT randomblob(1000) FROM n",
        )
        .unwrap();
    // Copies by another process: closing a descriptor of the file in this one would end SQLite's locks on it.
    let copy = |from: &Path| {
        let to = from.with_extension("copy");
        assert!(std::process::Command::new("cp").arg(from).arg(&to).status().unwrap().success());
        to
    };
    let (database_copy, journal_copy) = (copy(path), {
        let to = path.with_extension("copy2");
        assert!(std::process::Command::new("cp").arg(&journal).arg(&to).status().unwrap().success());
        to
    });
    connection.execute_batch("ROLLBACK").unwrap();
    drop(connection);
    // Into the same inode, so that readers that have it open see it.
    std::fs::write(path, std::fs::read(&database_copy).unwrap()).unwrap();
    std::fs::rename(journal_copy, &journal).unwrap();
    std::fs::remove_file(database_copy).unwrap();
    let magic = std::fs::read(&journal).unwrap();
    assert!(magic.starts_with(&[0xd9, 0xd5, 0x05, 0xf9]), "the journal is hot");
}

#[test]
fn a_recording_can_be_added_to_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ff.thaw");
    common::example(&path);
    let before = Reader::open(&path).unwrap().runs().unwrap().len();
    let mut writer = Writer::open(&path).unwrap();
    let (exit, text) = common::refusal(Writer::open(&path));
    assert!(exit == model::Exit::Usage && text.contains("another `thaw record`"), "{text}");
    writer.add_run(&common::run_row(9), &[], &[]).unwrap();
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.runs().unwrap().len(), before + 1);
    assert!(reader.finished().unwrap());
    let (exit, text) = common::refusal(Writer::open(folder.path().join("none.thaw")));
    assert!(exit == model::Exit::Usage && text.contains("it is not there"), "{text}");
    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, "text").unwrap();
    let (exit, text) = common::refusal(Writer::open(&foreign));
    assert!(exit == model::Exit::Usage && text.contains("cannot add to the recording"), "{text}");
    assert_eq!(std::fs::read(&foreign).unwrap(), b"text");
    let older = folder.path().join("older.thaw");
    database(&older, recording::APPLICATION_ID, 1);
    let (exit, text) = common::refusal(Writer::open(&older));
    assert!(exit == model::Exit::Data && text.contains("schema version 1"), "{text}");
}
