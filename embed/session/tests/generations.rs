//! Which file is loaded, what is kept of those that are damaged, and who may have a session.

mod common;

use common::{Whole, fill, flush, known, loaded, open, options, titled, wait, whole};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thaw_log::disk::Folder;
use thaw_log::memory::Memory;
use thaw_session::{Event, Id, Missing, New, Options, Place, ROOT, Session, flag, kind};

fn from(session: &Session) -> Option<String> {
    wait(session, |event| if let Event::Ready { from, .. } = event { Some(from) } else { None })
}

/// A session whose one window bears this title; the other version of the application is `version`.
fn write(disk: &Arc<Memory>, version: &str, title: &str, clean: bool) {
    let session = Session::open_on(disk.clone(), &Options { version: version.into(), ..options() }).unwrap();
    loaded(&session);
    match session.children(ROOT).first() {
        Some(window) => titled(&session, *window, title),
        None => {
            let new = New { kind: kind::WINDOW, title, ..New::default() };
            session.insert(ROOT, Place::Last, &new).unwrap();
        }
    }
    flush(&session).unwrap();
    session.close(clean).unwrap();
}

fn names(disk: &Memory) -> Vec<String> {
    let mut names: Vec<String> = disk.lock().files.keys().cloned().collect();
    names.sort();
    names
}

fn damage(disk: &Memory, name: &str) {
    disk.lock().files.get_mut(name).unwrap()[..32].fill(0);
}

/// Opens it and says which file it is from and the title of its window.
fn look(disk: &Arc<Memory>) -> (Option<String>, String) {
    let session = Session::open_on(disk.clone(), &Options { version: "4".into(), ..options() }).unwrap();
    let name = from(&session);
    let title =
        session.children(ROOT).first().map_or_else(String::new, |id| session.get(*id).unwrap().title.to_string());
    loaded(&session);
    session.abandon();
    (name, title)
}

#[test]
fn each_file_is_loaded_when_those_before_it_cannot_be() {
    let disk = Memory::new(HashMap::new());
    write(&disk, "1", "of version 1", false);
    write(&disk, "2", "of version 2", false);
    write(&disk, "3", "clean", true);
    assert_eq!(names(&disk), ["clean", "upgrade-1", "upgrade-2"]);
    assert_eq!(look(&disk), (Some("clean".into()), "clean".into()));
    write(&disk, "3", "first since", false);
    write(&disk, "3", "second since", false);
    assert_eq!(names(&disk), ["clean", "current", "previous", "upgrade-1", "upgrade-2"]);
    for (name, title) in [
        ("current", "second since"),
        ("previous", "first since"),
        ("clean", "clean"),
        ("upgrade-2", "of version 2"),
        ("upgrade-1", "of version 1"),
    ] {
        let whole = disk.lock().files[name].clone();
        assert_eq!(look(&disk), (Some(name.into()), title.into()));
        damage(&disk, name);
        let damaged = disk.lock().files[name].clone();
        look(&disk);
        let aside = format!("{name}.damaged-1");
        assert_eq!(disk.lock().files[&aside], damaged, "it is kept aside, and has {} bytes", whole.len());
    }
    assert_eq!(look(&disk), (None, String::new()));
    // It goes on with nothing.
    write(&disk, "4", "anew", false);
    assert_eq!(look(&disk), (Some("current".into()), "anew".into()));
}

#[test]
fn a_clean_end_leaves_one_file_and_is_loaded_first() {
    let disk = Memory::new(HashMap::new());
    write(&disk, "1", "one", false);
    write(&disk, "1", "two", false);
    assert_eq!(names(&disk), ["current", "previous"]);
    write(&disk, "1", "three", true);
    assert_eq!(names(&disk), ["clean"]);
    write(&disk, "1", "four", false);
    assert_eq!((names(&disk), look(&disk).1), (vec!["clean".into(), "current".into()], "four".into()));
}

#[test]
fn there_is_a_file_of_each_upgrade_and_of_three_at_most() {
    let disk = Memory::new(HashMap::new());
    for version in ["1", "2", "3", "4", "5", "5", "5"] {
        write(&disk, version, &format!("of {version}"), version == "3");
    }
    let upgrades: Vec<String> = names(&disk).into_iter().filter(|name| name.starts_with("upgrade")).collect();
    assert_eq!(upgrades, ["upgrade-2", "upgrade-3", "upgrade-4"]);
}

#[test]
fn a_second_process_is_told_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let first = Session::open(folder.path(), &options()).unwrap();
    loaded(&first);
    fill(&first, 3);
    flush(&first).unwrap();
    let second = Session::open_on(Arc::new(Folder::new(folder.path())), &options()).unwrap();
    let Event::Refused(why) = wait(&second, Some) else { panic!("it was let in") };
    assert!(why.contains("another process"), "{why}");
    let repaired = thaw_session::repair(Arc::new(Folder::new(folder.path())));
    assert_eq!(repaired.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    fill(&second, 1);
    assert_eq!(flush(&second), Err(why.clone()));
    assert_eq!(second.last_durable().reason.as_deref(), Some(&*why));
    assert!(second.close(true).is_err());
    let before = known(&first);
    first.close(false).unwrap();
    let third = Session::open(folder.path(), &options()).unwrap();
    loaded(&third);
    assert_eq!(whole(&third), before);
}

#[test]
fn a_version_that_is_no_name_of_a_file_is_refused() {
    for version in ["", "../1", "a b", &"1".repeat(33)] {
        let disk = Memory::new(HashMap::new());
        assert!(Session::open_on(disk, &Options { version: version.into(), ..options() }).is_err(), "{version:?}");
    }
}

/// A session of 60 tabs, its file, and all that is in it.
fn sixty() -> (Vec<u8>, BTreeMap<Id, Whole>) {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 60);
    flush(&session).unwrap();
    for tab in &all[..20] {
        titled(&session, *tab, &format!("again {tab}"));
        flush(&session).unwrap();
    }
    let before = whole(&session);
    session.abandon();
    let file = disk.lock().files["current"].clone();
    (file, before)
}

#[test]
fn damage_anywhere_costs_one_record_and_all_else_is_there() {
    let (file, before) = sixty();
    let mut recovered = 0;
    for at in (80..file.len()).step_by(97) {
        let mut wrong = file.clone();
        wrong[at] ^= 0x10;
        let disk = Memory::new(HashMap::from([("current".to_owned(), wrong.clone())]));
        let session = open(&disk);
        let missing = loaded(&session);
        let now = known(&session);
        for (id, item) in &now {
            let Some(was) = before.get(id) else {
                assert!(item.3 & flag::RECOVERED != 0, "{item:?}");
                recovered += 1;
                continue;
            };
            // An old title is that of the state before; a parent may be the window of what was recovered.
            assert!(item.4 == was.4 || item.4.starts_with("the title of"), "{item:?} was {was:?}");
        }
        // 4 KiB of items are some forty of them.
        assert!(now.len() >= 180, "{} at {at}: {missing:?}", now.len());
        let whole = before.keys().all(|id| now.contains_key(id)) && missing.bytes == 0 && missing.orphans == 0;
        let titles = before.iter().all(|(id, item)| now.get(id).is_some_and(|now| now.4 == item.4));
        assert!(whole || missing.bytes > 0 || missing.orphans > 0 || !titles, "at {at}: {missing:?}");
        // The next save sets the damaged file aside, all of it.
        let window = session.children(ROOT)[0];
        titled(&session, window, "on");
        flush(&session).unwrap();
        let files = disk.lock().files.clone();
        let kept = files.iter().find(|(_, bytes)| **bytes == wrong).map(|(name, _)| name.clone()).unwrap();
        let torn = at >= file.len() - 110;
        assert!(kept.starts_with("current.damaged-") || torn && kept == "previous", "{kept} at {at}");
        session.abandon();
    }
    assert!(recovered > 0);
}

#[test]
fn a_repair_leaves_what_opening_would_and_keeps_the_damaged_file() {
    let (file, before) = sixty();
    for name in ["current", "previous", "clean"] {
        for at in (80..file.len() - 110).step_by(997) {
            let mut wrong = file.clone();
            wrong[at] ^= 0x10;
            let disk = || Memory::new(HashMap::from([(name.to_owned(), wrong.clone())]));
            let (opened, repaired) = (disk(), disk());
            let session = open(&opened);
            let missing = loaded(&session);
            let told = thaw_session::repair(repaired.clone()).unwrap().unwrap();
            assert_eq!((&told.name[..], &told.missing), (name, &missing), "at {at}");
            assert_eq!(repaired.lock().files[&told.aside], wrong, "no byte is lost");
            let again = open(&repaired);
            assert_eq!(loaded(&again), Missing::default(), "at {at}");
            let bare = |session: &Session| -> Vec<_> {
                known(session).into_iter().map(|(id, item)| (id, item.0, item.2, item.3, item.4, item.5)).collect()
            };
            assert_eq!(bare(&again), bare(&session), "at {at}");
            again.abandon();
            session.abandon();
            assert_eq!(thaw_session::repair(repaired).unwrap(), None, "once is enough");
        }
    }
    let disk = Memory::new(HashMap::from([("current".to_owned(), file.clone())]));
    assert_eq!(thaw_session::repair(disk.clone()).unwrap(), None);
    assert_eq!(disk.lock().files["current"], file, "what is whole is not touched");
    assert!(before.len() > 200);
}

#[test]
fn a_payload_that_is_damaged_is_told_and_no_wrong_bytes_are_handed_over() {
    let (mut file, before) = sixty();
    file[200..4000].fill(0x55);
    let disk = Memory::new(HashMap::from([("current".to_owned(), file)]));
    let session = open(&disk);
    loaded(&session);
    let (mut good, mut bad) = (0, 0);
    for (id, item) in before.iter().filter(|(_, item)| item.2 == kind::ENTRY) {
        match common::payload(&session, *id, false) {
            Ok(bytes) => {
                assert_eq!(bytes.to_vec(), item.6);
                good += 1;
            }
            Err(why) => {
                assert!(why.contains("damaged"), "{why}");
                bad += 1;
            }
        }
    }
    assert!(bad > 10 && good > 50, "{bad} {good}");
}

#[test]
fn a_torn_end_costs_what_was_not_whole_and_is_no_damage() {
    let (file, before) = sixty();
    let last = before.iter().filter(|(_, item)| item.4.starts_with("again")).map(|(id, _)| *id).max().unwrap();
    for cut in 1..60 {
        let disk = Memory::new(HashMap::from([("current".to_owned(), file[..file.len() - cut].to_vec())]));
        let session = open(&disk);
        assert_eq!(loaded(&session), Default::default());
        let mut expected = before.clone();
        expected.get_mut(&last).unwrap().4 = "the title of tab 19".into();
        assert_eq!(whole(&session), expected);
        session.abandon();
    }
}
