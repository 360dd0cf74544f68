//! Files that Chromium and Firefox have written, as they were and with damage: what is read is within itself, and
//! damage is said.

use proptest::prelude::*;
use std::path::Path;
use thaw_profiles::{Session, firefox, snss};

const FIREFOX: &str = "profiles_mozlz4/session.jsonlz4";

/// A small real file, with which a fuzz target begins too.
fn seed(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name)).unwrap()
}

fn paths(session: &Session) -> Vec<String> {
    let tabs = session.windows.iter().flat_map(|window| &window.tabs);
    tabs.map(|tab| tab.current().unwrap().url.replace("http://127.0.0.1:8765", "")).collect()
}

fn is_within_itself(session: &Session) -> bool {
    let tabs =
        |tabs: &[thaw_profiles::Tab]| tabs.iter().all(|tab| tab.selected.is_none_or(|at| at < tab.entries.len()));
    session.selected.is_none_or(|at| at < session.windows.len())
        && session.windows.iter().all(|window| window.selected.is_none_or(|at| at < window.tabs.len()))
        && session.windows.iter().all(|window| tabs(&window.tabs))
        && tabs(&session.closed)
}

#[test]
fn files_of_browsers_are_read() {
    let expected = ["about:blank", "/a/one", "/a/two", "/b/three"];
    let of_chromium = snss::session(&seed("profiles_snss/session")).unwrap();
    assert_eq!((paths(&of_chromium), of_chromium.windows[0].selected), (expected.map(str::to_owned).into(), Some(3)));
    let encrypted = snss::session(&seed("profiles_snss/encrypted")).unwrap();
    assert_eq!(Session { file: of_chromium.file.clone(), ..encrypted }, of_chromium);
    let of_firefox = firefox::session_of(&seed(FIREFOX)).unwrap();
    assert_eq!((paths(&of_firefox), of_firefox.windows[0].selected), (expected.map(str::to_owned).into(), Some(3)));
    let (closed, wrong) = snss::closed(&seed("profiles_snss/tabs")).unwrap();
    let titles: Vec<&str> = closed.iter().map(|tab| tab.current().unwrap().title.as_str()).collect();
    assert_eq!((titles, wrong), (vec!["T /b/three", "T /a/two", "T /a/one", ""], None));
}

#[test]
fn of_encrypted_commands_those_before_damage_are_kept() {
    let whole = seed("profiles_snss/encrypted");
    let all = paths(&snss::session(&whole).unwrap());
    let mut seen = std::collections::BTreeSet::new();
    for len in 8..whole.len() {
        let Ok(session) = snss::session(&whole[..len]) else { panic!("nothing is read of {len} bytes") };
        let there = paths(&session);
        assert!(there.iter().all(|path| all.contains(path)));
        assert!(session.damage.is_empty() || session.damage[0].contains("is cut off"), "{:?}", session.damage);
        seen.insert((there.len(), session.damage.is_empty()));
    }
    assert!((0..=3).all(|count| seen.contains(&(count, false))), "{seen:?}");
    let mut wrong = whole.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert!(snss::session(&wrong).unwrap().damage[0].contains("not encrypted with the usual key"));
}

proptest! {
    #[test]
    fn what_is_read_of_damaged_files_is_within_itself(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        for name in ["profiles_snss/session", "profiles_snss/encrypted", "profiles_snss/tabs", FIREFOX] {
            let mut bytes = seed(name);
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let whole = bytes.len();
            bytes.truncate(whole - cut.index(whole) / 4);
            for session in [snss::session(&bytes), firefox::session_of(&bytes)].into_iter().flatten() {
                prop_assert!(is_within_itself(&session));
            }
            if let Ok((closed, _)) = snss::closed(&bytes) {
                prop_assert!(closed.iter().all(|tab| tab.current().is_some()));
            }
        }
    }
}
