//! Histories on the disk: what is added stays, once, by many writers at a time.

use history::{Access, Added, Commit, Entry, Figure, Store, series};
use model::Exit;
use std::path::Path;

fn entry(number: u64) -> Entry {
    Entry {
        source: format!("s{number}"),
        content: "1".into(),
        file: "a.thaw".into(),
        created_unix_ns: number,
        added_unix_ns: 1,
        thaw_version: "1".into(),
        commit: Commit {
            id: format!("c{number}"),
            repository: "r".into(),
            ancestors: number,
            committed_unix_s: 1,
            authored_unix_s: 1,
            subject: "s".into(),
        },
        dirty: false,
        identity: "machine".into(),
        figures: vec![Figure {
            variant: "app".into(),
            state: "hot".into(),
            metric: "time".into(),
            values: vec![1.0, 2.0, number as f64],
        }],
    }
}

fn add(path: &Path, entry: &Entry) -> model::Result<Added> {
    Store::open(path, Access::Append)?.add(entry, &|identity| identity == entry.identity)
}

#[test]
fn a_recording_is_added_once_and_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.thawdb");
    assert_eq!(Store::open(&path, Access::Read).unwrap_err().exit, Exit::Usage);
    assert!(!path.exists(), "reading makes no file");
    assert_eq!(add(&path, &entry(1)).unwrap(), Added::New);
    assert_eq!(add(&path, &entry(1)).unwrap(), Added::Already);
    let mut grown = entry(1);
    grown.content = "2".into();
    grown.figures[0].values.push(9.0);
    assert_eq!(add(&path, &grown).unwrap(), Added::Grown);
    let store = Store::open(&path, Access::Read).unwrap();
    let rows = store.rows().unwrap();
    assert_eq!((rows.len(), rows[0].runs), (1, 4));
    let all = series(&rows, &store.figures().unwrap(), |_| true);
    assert_eq!(all[0].points[0].values, [1.0, 2.0, 1.0, 9.0], "the smaller one counts no more");
    let other = Entry { commit: entry(2).commit, ..entry(1) };
    let error = add(&path, &other).unwrap_err();
    assert!(error.cause.unwrap().to_string().contains("as c1, and now it would be c2"));
}

#[test]
fn other_machines_are_other_set_ups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.thawdb");
    add(&path, &entry(1)).unwrap();
    add(&path, &Entry { identity: "another".into(), ..entry(2) }).unwrap();
    add(&path, &entry(3)).unwrap();
    let rows = Store::open(&path, Access::Read).unwrap().rows().unwrap();
    assert_eq!(rows.iter().map(|row| row.setup).collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn nothing_in_it_can_be_changed_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.thawdb");
    add(&path, &entry(1)).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    for (table, column) in
        [("setups", "identity"), ("commits", "subject"), ("recordings", "file"), ("figures", "metric")]
    {
        for sql in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET {column} = 'x'")] {
            let error = connection.execute(&sql, []).unwrap_err().to_string();
            assert!(error.contains("only added to"), "{sql}: {error}");
        }
    }
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.thawdb");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope
                .spawn(move || (0..5).for_each(|n| assert_eq!(add(path, &entry(writer * 5 + n)).unwrap(), Added::New)));
        }
    });
    let store = Store::open(&path, Access::Read).unwrap();
    assert_eq!((store.rows().unwrap().len(), store.figures().unwrap().len()), (40, 40));
    assert_eq!(store.setups().unwrap().len(), 1);
}

#[test]
fn what_is_no_history_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no database at all, but long enough to be looked at as one").unwrap();
    let before = std::fs::read(&text).unwrap();
    assert_eq!(add(&text, &entry(1)).unwrap_err().exit, Exit::Data);
    assert_eq!(std::fs::read(&text).unwrap(), before);
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    assert!(add(&other, &entry(1)).unwrap_err().cause.unwrap().to_string().contains("another database"));
    // What a first writer leaves that was killed while it made the tables.
    let empty = folder.path().join("empty.thawdb");
    std::fs::write(&empty, "").unwrap();
    let error = Store::open(&empty, Access::Read).unwrap_err();
    assert!(error.exit == Exit::Usage && error.what.contains("nothing was added yet"), "{error}");
    add(&empty, &entry(1)).unwrap();
    let newer = folder.path().join("newer.db");
    add(&newer, &entry(1)).unwrap();
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 9).unwrap();
    assert!(add(&newer, &entry(2)).unwrap_err().cause.unwrap().to_string().contains("version 9"));
    assert_eq!(add(folder.path(), &entry(1)).unwrap_err().exit, Exit::Data);
}
