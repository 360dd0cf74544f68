//! What is to be forgotten is in no file any more.

mod common;

use common::{done, flush, loaded, options};
use std::path::Path;
use thaw_session::{Edit, New, Options, Place, ROOT, Session, flag, kind};

fn open(path: &Path, version: &str) -> Session {
    let session = Session::open(path, &Options { version: version.into(), ..options() }).unwrap();
    loaded(&session);
    session
}

/// The files in which these bytes are.
fn files_with(path: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

fn tab<'a>(title: &'a str, origin: &'a str, payload: &'a str) -> New<'a> {
    New { kind: kind::TAB, title, origin, payload: payload.as_bytes(), ..New::default() }
}

/// A session in all generations: with a secret of one origin in the title, the payload, and in an older state.
fn everywhere(path: &Path) {
    for version in ["1", "2"] {
        let session = open(path, version);
        if session.is_empty() {
            let window = session.insert(ROOT, Place::Last, &New { kind: kind::WINDOW, ..New::default() }).unwrap();
            session.insert(window, Place::Last, &tab("SECRET title", "https://secret.example", "SECRET form")).unwrap();
            session.insert(window, Place::Last, &tab("other title", "https://other.example", "other form")).unwrap();
        } else {
            session.change(1, &Edit { title: Some(version), ..Edit::default() }).unwrap();
        }
        flush(&session).unwrap();
        session.close(version == "1").unwrap();
    }
    std::fs::write(path.join("current.damaged-1"), "SECRET and what else was there").unwrap();
    let session = open(path, "2");
    session.change(2, &Edit { title: Some("SECRET once more"), ..Edit::default() }).unwrap();
    flush(&session).unwrap();
    let all = ["clean", "current", "current.damaged-1", "previous", "upgrade-1"];
    assert_eq!(files_with(path, "SECRET"), all);
    session.close(false).unwrap();
}

#[test]
fn what_is_forgotten_by_its_origin_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(folder.path());
    let session = open(folder.path(), "2");
    done(&session, session.forget("https://secret.example")).unwrap();
    assert_eq!(files_with(folder.path(), "SECRET"), [""; 0]);
    assert_eq!(files_with(folder.path(), "secret.example"), [""; 0]);
    assert_eq!(files_with(folder.path(), "other form"), ["clean", "current", "previous", "upgrade-1"]);
    assert_eq!(session.len(), 2);
    session.abandon();
    // Each of them is still one that can be loaded.
    for name in ["current", "previous", "clean", "upgrade-1"] {
        let session = open(folder.path(), "2");
        assert_eq!((session.len(), common::payload(&session, 3, true).unwrap().to_vec()), (2, b"other form".to_vec()));
        session.abandon();
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
}

#[test]
fn what_was_changed_since_a_moment_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(folder.path());
    let session = open(folder.path(), "2");
    let (secret, other) = (session.get(2).unwrap().changed_ms, session.get(3).unwrap().changed_ms);
    if secret == other {
        return testing::skip("both were made and changed in the same millisecond");
    }
    done(&session, session.forget_since(secret.min(session.get(1).unwrap().changed_ms).max(other + 1))).unwrap();
    assert_eq!(files_with(folder.path(), "SECRET once more"), [""; 0]);
    assert!(session.get(2).is_none());
}

#[test]
fn what_is_for_crashes_is_there_after_one_and_gone_after_a_clean_end() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(folder.path());
    let session = open(folder.path(), "3");
    let new = New { flags: flag::CRASH_ONLY, ..tab("PASSING title", "", "PASSING form") };
    let passing = session.insert(1, Place::Last, &new).unwrap();
    flush(&session).unwrap();
    session.close(false).unwrap();
    let session = open(folder.path(), "4");
    assert_eq!(&*session.get(passing).unwrap().title, "PASSING title");
    session.change(1, &Edit { title: Some("4"), ..Edit::default() }).unwrap();
    flush(&session).unwrap();
    assert_eq!(files_with(folder.path(), "PASSING"), ["current", "previous", "upgrade-3"]);
    session.close(true).unwrap();
    assert_eq!(files_with(folder.path(), "PASSING"), [""; 0]);
    let session = open(folder.path(), "4");
    assert!(session.get(passing).is_none() && session.len() == 3);
    // It was removed before the end, and its bytes are in the log.
    let passing = session.insert(1, Place::Last, &new).unwrap();
    flush(&session).unwrap();
    session.remove(passing).unwrap();
    flush(&session).unwrap();
    assert_eq!(files_with(folder.path(), "PASSING"), ["current"]);
    session.close(true).unwrap();
    assert_eq!(files_with(folder.path(), "PASSING"), [""; 0]);
}

#[test]
fn what_is_forgotten_before_anything_was_saved_is_gone_from_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(folder.path());
    let session = Session::open(folder.path(), &Options { version: "9".into(), ..options() }).unwrap();
    // Nothing is loaded yet.
    let ticket = session.forget("https://secret.example");
    done(&session, ticket).unwrap();
    assert_eq!(files_with(folder.path(), "SECRET"), [""; 0]);
    assert!(files_with(folder.path(), "other form").contains(&"upgrade-2".to_owned()));
}
