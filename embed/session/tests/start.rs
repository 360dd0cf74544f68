//! What a start reads, and what a change writes, does not grow with the number of tabs.

mod common;

use common::{done, fill, flush, known, loaded, open, options, payload, titled, wait, whole};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_log::memory::{Memory, Op};
use thaw_session::{Edit, Event, Payload, ROOT, Session, flag};

const TABS: [usize; 3] = [10, 1000, 10_000];

/// A disk with a session of so many tabs that was saved and ended without a clean end.
fn made(tabs: usize) -> (Arc<Memory>, Vec<u64>) {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, tabs);
    flush(&session).unwrap();
    session.close(false).unwrap();
    (disk, all)
}

/// Opens it with the gate closed behind what is visible; bytes that were read until then.
fn first_reads(disk: &Arc<Memory>, tab: u64) -> u64 {
    disk.lock().note_reads = true;
    disk.lock().ops.clear();
    let session = open(disk);
    let len = disk.lock().files["current"].len() as u64;
    wait(&session, |event| matches!(event, Event::Ready { .. }).then_some(()));
    // The tab is there, with its entries and their bytes.
    assert!(session.get(tab).unwrap().has(flag::VISIBLE));
    let entries = session.children(tab);
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|id| matches!(session.get(*id).unwrap().payload, Payload::Here(_))));
    loaded(&session);
    let ops = std::mem::take(&mut disk.lock().ops);
    session.abandon();
    // What is read from the file's begin and its end; the rest begins with the first record of items.
    let mut bytes = 0;
    let mut low = len;
    for op in &ops {
        let Op::Read { at, len: read, .. } = op else { continue };
        if *at == 0 && *read == 512 {
            bytes += (*read as u64).min(len);
        } else if at + *read as u64 == low {
            bytes += *read as u64;
            low = *at;
        } else {
            break;
        }
    }
    bytes
}

#[test]
fn a_start_reads_the_same_with_ten_tabs_and_ten_thousand() {
    let read = TABS.map(|tabs| {
        let (disk, all) = made(tabs);
        first_reads(&disk, all[tabs / 2])
    });
    eprintln!("bytes read until the first tab is there, {TABS:?} tabs: {read:?}");
    assert!(read[0] > 900 && read[2] * 10 <= read[0] * 12, "{read:?}");
    assert!(read[1] * 10 <= read[0] * 12, "{read:?}");
}

#[test]
fn what_was_changed_since_does_not_make_a_start_read_more_than_a_bound() {
    let (disk, all) = made(1000);
    let session = open(&disk);
    loaded(&session);
    let (mut most, mut longest) = (0, 0);
    for round in 0..3000 {
        titled(&session, all[round % 1000], &format!("{round} {}", "x".repeat(300)));
        flush(&session).unwrap();
        if round % 250 == 249 {
            longest = longest.max(disk.lock().files["current"].len() as u64);
            let copy = Memory::new(disk.lock().files.clone());
            most = most.max(first_reads(&copy, all[500]));
        }
    }
    eprintln!("{most} bytes of {longest}");
    assert!(longest > 1 << 20, "{longest}");
    // The visible once more every 32 KiB; the end is read in steps that double.
    assert!(most <= 128 << 10, "{most}");
}

#[test]
fn a_tab_that_was_selected_last_is_the_first_one() {
    let (disk, all) = made(1000);
    let session = open(&disk);
    loaded(&session);
    titled(&session, all[3], "before");
    flush(&session).unwrap();
    for (tab, flags) in [(all[500], 0), (all[7], flag::VISIBLE)] {
        session.change(tab, &Edit { flags: Some(flags), ..Edit::default() }).unwrap();
    }
    flush(&session).unwrap();
    session.abandon();
    disk.close_gate();
    let session = open(&disk);
    disk.open_gate();
    wait(&session, |event| matches!(event, Event::Ready { .. }).then_some(()));
    let tab = session.get(all[7]).unwrap();
    assert!(tab.has(flag::VISIBLE) && &*tab.title == "the title of tab 7");
    let entry = session.children(all[7])[2];
    assert_eq!(*payload(&session, entry, true).unwrap(), [7; 300]);
}

#[test]
fn a_change_writes_the_same_bytes_among_ten_tabs_and_ten_thousand() {
    let written = TABS.map(|tabs| {
        let (disk, all) = made(tabs);
        let session = open(&disk);
        loaded(&session);
        titled(&session, all[0], "a first change makes this process' own file");
        flush(&session).unwrap();
        let before = session.counts().0;
        titled(&session, all[tabs - 1], "another title");
        flush(&session).unwrap();
        let after = session.counts().0;
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
        after.written - before.written
    });
    eprintln!("bytes of one change: {written:?}");
    assert!(written[0] < 100 && written == [written[0]; 3], "{written:?}");
}

#[test]
fn nothing_is_written_when_nothing_has_changed() {
    let (disk, all) = made(10);
    let before = disk.lock().files.clone();
    let session = open(&disk);
    loaded(&session);
    flush(&session).unwrap();
    titled(&session, all[1], "the title of tab 1");
    flush(&session).unwrap();
    assert_eq!(session.counts().0.writes, 0);
    session.close(false).unwrap();
    assert_eq!(disk.lock().files, before);
}

#[test]
fn changes_wait_together_and_are_one_write() {
    let disk = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    let all = fill(&session, 50);
    flush(&session).unwrap();
    let before = session.counts().0;
    for round in 0..1000 {
        titled(&session, all[round % 50], &format!("title {round}"));
    }
    assert_eq!(session.counts().0, before);
    session.set_delay(std::time::Duration::from_millis(1));
    while session.last_durable().unsaved_since.is_some() {
        std::thread::yield_now();
    }
    flush(&session).unwrap();
    let after = session.counts().0;
    assert_eq!(after.writes - before.writes, 1);
    assert!(after.written - before.written < 50 * 60, "{after:?} {before:?}");
}

#[test]
fn no_call_waits_for_a_disk_that_does_not_answer() {
    let (disk, all) = made(10);
    let session = open(&disk);
    loaded(&session);
    disk.close_gate();
    let ticket = session.flush();
    titled(&session, all[2], "while the disk does not answer");
    let second = session.flush();
    disk.wait_held();
    for round in 0..100 {
        titled(&session, all[3], &format!("{round}"));
        session.want(session.children(all[4])[0], true).unwrap();
        session.forget("https://nobody.example");
    }
    session.remove(all[5]).unwrap();
    assert!(session.last_durable().durable.is_none());
    disk.open_gate();
    done(&session, ticket).unwrap();
    flush(&session).unwrap();
    assert!(second > ticket && session.last_durable().unsaved_since.is_none());
}

#[test]
fn calls_before_it_is_loaded_are_told_so() {
    let (disk, all) = made(10);
    disk.close_gate();
    let session = open(&disk);
    assert_eq!(session.remove(all[0]), Err(thaw_session::Error::NotReady));
    disk.open_gate();
    loaded(&session);
    assert!(session.remove(all[0]).is_ok());
}

#[test]
fn the_rest_comes_in_pages_and_payloads_when_they_are_wanted() {
    let (disk, all) = made(1000);
    let session = Session::open_on(disk.clone(), &options()).unwrap();
    let (mut more, mut pages) = (Vec::new(), 0);
    wait(&session, |event| {
        if let Event::More(ids) = &event {
            assert!(ids.len() <= 512);
            more.extend(ids.clone());
            pages += 1;
        }
        matches!(event, Event::Loaded(_)).then_some(())
    });
    // All but the window, a tab and its entries.
    assert_eq!((more.len(), pages), (4001 - 5, 8));
    let far = session.children(all[900])[0];
    assert!(matches!(session.get(far).unwrap().payload, Payload::There(_)));
    let before = session.counts().0.read;
    assert_eq!(*payload(&session, far, true).unwrap(), [900_usize as u8; 300]);
    let read = session.counts().0.read - before;
    assert!(read > 300 && read <= 32 << 10, "{read}");
    assert_eq!(session.children(ROOT).len(), 1);
}

#[test]
fn what_happens_before_the_rest_is_loaded_holds() {
    let (disk, all) = made(1000);
    let expected = {
        let session = open(&disk);
        loaded(&session);
        let mut all_of_it = known(&session);
        all_of_it.remove(&all[500]);
        all_of_it.len() - 3
    };
    // The first read of the rest stands at the gate: it is the first behind the head that is not at the end.
    let session = open(&disk);
    wait(&session, |event| matches!(event, Event::Ready { .. }).then_some(()));
    session.remove(all[500]).unwrap();
    let window = session.children(ROOT)[0];
    titled(&session, window, "renamed");
    flush(&session).unwrap();
    assert_eq!(known(&session).len(), expected);
    session.abandon();
    let session = open(&disk);
    loaded(&session);
    let now = whole(&session);
    assert_eq!(now.len(), expected);
    assert!(!now.contains_key(&all[500]) && now[&window].4 == "renamed");
    assert_eq!(now[&session.children(all[499])[1]].6, [499_usize as u8; 300]);
}

#[test]
fn a_log_that_has_grown_to_twice_the_state_becomes_a_new_generation() {
    let (disk, all) = made(10);
    let session = open(&disk);
    loaded(&session);
    let long = "y".repeat(4000);
    let mut longest = 0;
    for round in 0..400 {
        titled(&session, all[round % 10], &format!("{round} {long}"));
        flush(&session).unwrap();
        longest = longest.max(disk.lock().files["current"].len());
    }
    // It waits for its time, but no longer than until there is twice as much.
    assert!(longest > 500 << 10 && longest < 600 << 10, "{longest}");
    session.set_delay(std::time::Duration::ZERO);
    for round in 0..200 {
        titled(&session, all[round % 10], &format!("{round} {long}"));
        flush(&session).unwrap();
    }
    let now = disk.lock().files["current"].len();
    assert!(now < 330 << 10, "{now} of {longest}");
}
