//! A disk that is full, fails, cannot be written, is gone: the application goes on, is told once, and saving resumes.

mod common;

use common::{fill, flush, known, loaded, open, options, titled, wait, whole};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_log::memory::{Inside, Memory};
use thaw_session::{Event, Session};

/// Killed now, it comes back as it is.
fn is_all_on(disk: &Arc<Memory>, session: Session) {
    let now = whole(&session);
    session.abandon();
    let session = open(disk);
    loaded(&session);
    assert_eq!(whole(&session), now);
}

/// A session that was saved; how the disk is broken and mended again.
fn broken_and_mended(break_it: fn(&mut Inside), mend: fn(&mut Inside), words: &str) {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 5);
    flush(&session).unwrap();
    let saved = whole(&session);
    let durable = session.last_durable().durable;
    break_it(&mut disk.lock());
    let mut told = Vec::new();
    for tab in all {
        titled(&session, tab, &format!("while it fails {tab}"));
        let ticket = session.flush();
        let why = wait(&session, |event| match event {
            Event::Done(of, done) if of == ticket => Some(done.unwrap_err()),
            Event::Failing(why) => {
                told.push(why);
                None
            }
            other => panic!("{other:?}"),
        });
        assert!(why.to_lowercase().contains(words), "{why}");
    }
    assert_eq!(told.len(), 1, "{told:?}");
    let health = session.last_durable();
    assert!(health.failing_since.is_some() && health.unsaved_since.is_some() && health.durable == durable);
    assert_eq!(health.reason.as_ref(), told.first());
    // What is on the disk is what was there.
    {
        let left = Memory::new(disk.lock().files.clone());
        let other = open(&left);
        loaded(&other);
        assert_eq!(whole(&other), saved);
        other.abandon();
    }
    mend(&mut disk.lock());
    flush(&session).unwrap();
    let health = session.last_durable();
    assert!(health.failing_since.is_none() && health.reason.is_none() && health.unsaved_since.is_none());
    assert!(health.durable > durable);
    let now = whole(&session);
    session.abandon();
    let session = open(&disk);
    assert_eq!(loaded(&session), Default::default());
    assert_eq!(whole(&session), now);
}

/// Waits until it is loaded; what it said before of why nothing could be.
fn failing_and_loaded(session: &Session) -> String {
    let mut why = None;
    wait(session, |event| match event {
        Event::Failing(told) => {
            assert!(why.replace(told).is_none(), "it is told once");
            None
        }
        event => matches!(event, Event::Loaded(_)).then_some(()),
    });
    why.unwrap()
}

#[test]
fn a_full_disk() {
    broken_and_mended(|disk| disk.space = Some(0), |disk| disk.space = None, "no storage space");
}

#[test]
fn writes_that_fail() {
    broken_and_mended(|disk| disk.fail_writes = true, |disk| disk.fail_writes = false, "input/output error");
}

/// After a sync that failed nobody knows what is on the medium: the file is written anew.
#[test]
fn syncs_that_fail() {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 5);
    flush(&session).unwrap();
    disk.lock().fail_syncs = true;
    titled(&session, all[0], "one");
    assert!(flush(&session).is_err());
    disk.lock().fail_syncs = false;
    let renames = disk.lock().made;
    flush(&session).unwrap();
    assert_eq!(disk.lock().made, renames + 1);
    is_all_on(&disk, session);
}

/// It is tried again by itself, ever more rarely.
#[test]
fn saving_resumes_by_itself_and_says_so() {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 5);
    flush(&session).unwrap();
    session.set_delay(std::time::Duration::ZERO);
    disk.lock().fail_writes = true;
    titled(&session, all[0], "one");
    wait(&session, |event| matches!(event, Event::Failing(_)).then_some(()));
    disk.lock().fail_writes = false;
    wait(&session, |event| matches!(event, Event::Resumed).then_some(()));
    is_all_on(&disk, session);
}

#[test]
fn a_disk_that_cannot_be_read_sets_nothing_back() {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    fill(&session, 5);
    flush(&session).unwrap();
    let before = disk.lock().files["current"].clone();
    session.abandon();
    disk.lock().fail_reads = true;
    let session = open(&disk);
    assert!(failing_and_loaded(&session).contains("error"));
    fill(&session, 1);
    disk.lock().fail_reads = false;
    flush(&session).unwrap();
    // What was there is aside, all of it.
    assert_eq!(disk.lock().files["current.damaged-1"], before);
    assert_eq!(known(&session).len(), 5);
}

#[test]
fn a_directory_that_is_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let session = Session::open(&path, &options()).unwrap();
    loaded(&session);
    let all = fill(&session, 5);
    flush(&session).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    titled(&session, all[0], "after it was removed");
    flush(&session).unwrap();
    let now = whole(&session);
    let other = Session::open(&path, &options()).unwrap();
    wait(&other, |event| matches!(event, Event::Refused(_)).then_some(()));
    session.abandon();
    let session = Session::open(&path, &options()).unwrap();
    loaded(&session);
    assert_eq!(whole(&session), now);
}

#[test]
fn a_file_that_somebody_removes_is_written_again() {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 5);
    flush(&session).unwrap();
    disk.lock().files.remove("current");
    titled(&session, all[0], "after it was removed");
    flush(&session).unwrap();
    is_all_on(&disk, session);
}

#[test]
fn a_directory_that_cannot_be_written_is_told_and_used_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    // A file stands where the directory should be: this holds for root too.
    let path = folder.path().join("session");
    std::fs::write(&path, "").unwrap();
    let session = Session::open(&path, &options()).unwrap();
    failing_and_loaded(&session);
    fill(&session, 2);
    assert!(flush(&session).is_err());
    std::fs::remove_file(&path).unwrap();
    flush(&session).unwrap();
    let now = whole(&session);
    session.close(true).unwrap();
    let session = Session::open(&path, &options()).unwrap();
    loaded(&session);
    assert_eq!(whole(&session), now);
}

#[test]
fn a_read_only_directory_is_told_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let read_only = |on: bool| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(if on { 0o555 } else { 0o777 })).unwrap();
    };
    read_only(false);
    testing::as_ordinary_user(|| {
        let session = Session::open(&path, &options()).unwrap();
        loaded(&session);
        fill(&session, 2);
        flush(&session).unwrap();
        session.close(false).unwrap();
    });
    read_only(true);
    // Its thread is one of that user.
    let session = testing::as_ordinary_user(|| Session::open(&path, &options()).unwrap());
    loaded(&session);
    titled(&session, 1, "in a directory that is read-only");
    let why = flush(&session).unwrap_err();
    assert!(why.contains("denied"), "{why}");
    read_only(false);
    flush(&session).unwrap();
    let now = whole(&session);
    session.abandon();
    testing::as_ordinary_user(|| {
        let session = Session::open(&path, &options()).unwrap();
        loaded(&session);
        assert_eq!(whole(&session), now);
    });
}

#[test]
fn what_cannot_be_saved_at_the_end_is_told() {
    let disk: Arc<Memory> = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    fill(&session, 1);
    disk.lock().space = Some(10);
    let told = session.close(true).unwrap_err().to_string();
    assert!(told.contains("not saved"), "{told}");
}
