//! A process that is killed while it changes a session: what was flushed is there.

mod common;

use common::{fill, loaded, titled};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use thaw_log::memory::Random;
use thaw_session::{Event, Options, Session};

const FOLDER: &str = "SESSION_TEST_KILLED_IN";
const ROUND: &str = "SESSION_TEST_ROUND";
const TABS: u64 = 50;

/// The part of the process that is killed: says what it changes before, and what is flushed after.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let options = Options { delay: Duration::from_millis(1), ..Options::default() };
    let session = Session::open(Path::new(&folder), &options).unwrap();
    loaded(&session);
    if session.is_empty() {
        fill(&session, TABS as usize);
    }
    let window = session.children(0)[0];
    let tabs = session.children(window);
    let (mut out, mut random) = (std::io::stdout().lock(), Random(round * 77 + 5));
    let mut tickets = HashMap::new();
    for number in 0_u64.. {
        let tab = tabs[random.below(TABS) as usize];
        let version = round * 1_000_000 + number;
        writeln!(out, "\nset {tab} {version}").unwrap();
        titled(&session, tab, &version.to_string());
        if number % 16 == 0 {
            tickets.insert(session.flush(), version);
        }
        // It never gets far ahead of the disk.
        loop {
            for event in session.events() {
                if let Event::Done(ticket, done) = event {
                    done.unwrap();
                    writeln!(out, "\nflushed {}", tickets.remove(&ticket).unwrap()).unwrap();
                }
            }
            if tickets.len() < 4 {
                break;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn killed_at_any_moment_it_has_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(std::process::id().into());
    let (mut set, mut flushes): (Vec<(u64, u64)>, usize) = (Vec::new(), 0);
    let mut sure: HashMap<u64, u64> = HashMap::new();
    for round in 1..=20 {
        let (upto, number) = (20 + random.below(300), round.to_string());
        testing::killed(&[(FOLDER, folder.path().as_os_str()), (ROUND, number.as_ref())], upto, |words| {
            match words[..] {
                ["set", tab, version] => {
                    let (Ok(tab), Ok(version)) = (tab.parse(), version.parse()) else { return false };
                    set.push((tab, version));
                    true
                }
                ["flushed", version] => {
                    // A line that the kill has cut is of a smaller number.
                    let Ok(version) = version.parse::<u64>() else { return false };
                    if !set.iter().any(|set| set.1 == version) {
                        return false;
                    }
                    // What an earlier process set and had not flushed went with it.
                    let flushed = |set: &&(u64, u64)| set.1 <= version && set.1 / 1_000_000 == round;
                    for (tab, at) in set.iter().filter(flushed) {
                        sure.insert(*tab, *at);
                    }
                    flushes += 1;
                    true
                }
                _ => false,
            }
        });
        let session = Session::open(folder.path(), &common::options()).unwrap();
        assert_eq!(loaded(&session), Default::default(), "round {round}");
        for (tab, least) in &sure {
            let title = session.get(*tab).unwrap().title;
            let version: u64 = title.parse().unwrap();
            assert!(version >= *least, "round {round}: {tab} has {version}, not {least}");
            assert!(set.contains(&(*tab, version)), "round {round}: {tab} has {version}");
        }
        session.abandon();
    }
    assert!(flushes > 50, "{flushes}");
}
