//! Which functions are looked up when a recorded program has ended: no more than somebody will see, or could not see
//! later.

use super::{Bench, Recorded};
use std::collections::BTreeSet;
use std::ffi::OsString;
use work::heaps::conclude::{self, Streams};

/// An address of a loaded object: its path and, within the file, where the call returns to.
type CodeAddress = (String, u64);

/// All that a recording has.
fn all(recorded: &Recorded) -> BTreeSet<CodeAddress> {
    let mut places = BTreeSet::new();
    for process in recorded.reader.processes() {
        let mut events = recorded.reader.events(process.id).unwrap();
        while events.next().unwrap().is_some() {}
        for address in events.stacks().addresses() {
            let Some(module) = address.module.map(|module| &events.modules()[module.0 as usize]) else { continue };
            assert!(!module.build_id.is_empty() && module.path.is_absolute(), "{module:?}");
            places.insert((module.path.display().to_string(), address.pc - module.bias));
        }
    }
    places
}

/// Those that the summary tells.
fn said(recorded: &Recorded) -> BTreeSet<CodeAddress> {
    let leaks = recorded.report.processes.iter().flat_map(|process| &process.leaks);
    leaks.flat_map(|leak| &leak.stack).filter_map(|frame| Some((frame.module.clone()?, frame.address))).collect()
}

fn looked_up(recorded: &Recorded) -> usize {
    let done = conclude::conclude(&recorded.reader, Streams::Stay, &mut |_| {}).unwrap();
    let leaks = done.report.processes.iter().flat_map(|process| &process.leaks);
    let functions = leaks.flat_map(|leak| &leak.stack).flat_map(|frame| &frame.functions);
    assert!(functions.count() > 0, "the summary has names");
    done.looked_up
}

#[test]
fn of_the_systems_files_only_what_the_summary_says_is_looked_up() {
    let Some(bench) = Bench::new() else { return };
    let recorded = bench.record(&["/usr/bin/ls", "-l", "/"].map(OsString::from));
    let (all, said) = (all(&recorded), said(&recorded));
    assert!(all.iter().all(|(path, _)| path.starts_with("/usr/") || path.starts_with("/lib")), "{all:?}");
    assert!(said.is_subset(&all) && said.len() < all.len(), "{} of {}", said.len(), all.len());
    assert_eq!(looked_up(&recorded), said.len(), "of {}", all.len());
}

#[test]
fn of_files_that_the_next_build_replaces_everything_is_looked_up() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("modes", &["-Wl,--build-id"]);
    let path = program.to_string_lossy().into_owned();
    let recorded = bench.record(&[program]);
    let (all, said) = (all(&recorded), said(&recorded));
    let own: BTreeSet<_> = all.iter().filter(|(object, _)| *object == path).cloned().collect();
    assert!(own.difference(&said).count() > 0, "{own:?}");
    assert_eq!(looked_up(&recorded), own.union(&said).count(), "of {}", all.len());
}
