//! Pairs of recordings with planted changes, and what the comparison and the gate say.

use super::*;
use crate::analyze::book::{Book, times};
use model::CacheState::*;

/// 20 runs hot and cold; cold takes `cold` seconds.
fn recording(cold: f64, spread: f64, seed: u64) -> Book {
    Book::of(&["firefox"]).cell(0, Hot, &times(20, 1.0, spread, seed)).cell(0, Cold, &times(20, cold, spread, seed + 1))
}

#[test]
fn a_planted_change_is_found_where_it_is() {
    let comparison = compare(&recording(4.0, 0.01, 1).input(), &recording(4.4, 0.01, 3).input());
    let [hot, cold] = &comparison.states[..] else { panic!("two states") };
    assert_eq!((hot.state, cold.state, cold.before_runs, cold.after_runs), (Hot, Cold, 20, 20));
    assert!(hot.ratio.interval.unwrap().contains(1.0) && hot.p > 0.01, "{hot:?}");
    assert!(cold.ratio.interval.unwrap().contains(1.1) && cold.p < 0.001, "{cold:?}");
    let difference = &comparison.differences[0];
    assert_eq!(difference.what, "(cold-hot) of firefox after minus before");
    assert!(difference.difference_s.interval.unwrap().contains(0.4), "{difference:?}");
    assert_eq!(comparison.warnings, []);
}

#[test]
fn figures_beside_the_time_are_compared_too() {
    let (mut before, mut after) = (recording(4.0, 0.01, 1), recording(4.0, 0.01, 3));
    before.runs.iter_mut().for_each(|(row, _)| (row.instructions, row.read_requests) = (Some(100), Some(0)));
    after.runs.iter_mut().for_each(|(row, _)| (row.instructions, row.cycles) = (Some(150), Some(1)));
    let comparison = compare(&before.input(), &after.input());
    let metric = |name: &str| comparison.states[0].metrics.iter().find(|change| change.metric == name);
    assert_eq!(metric("instructions").unwrap().ratio, Some(1.5));
    assert_eq!(metric("cycles"), None, "only one of the recordings has them");
    assert_eq!(metric("read_requests").unwrap().ratio, None, "there is no multiple of 0");
    assert!(metric("cpu_s").is_some());
}

#[test]
fn variants_are_matched_by_name() {
    let cells = |names: &[&str], first: f64, second: f64| {
        Book::of(names).cell(0, Cold, &times(10, first, 0.01, 1)).cell(1, Cold, &times(10, second, 0.01, 2))
    };
    let before = cells(&["firefox", "chromium"], 1.0, 2.0);
    let swapped = cells(&["chromium", "firefox"], 2.0, 1.0);
    for state in compare(&before.input(), &swapped.input()).states {
        assert_eq!(state.before_name, state.after_name);
        assert!((state.ratio.value - 1.0).abs() < 0.05, "{state:?}");
    }
    // Another build has another name: then the order counts.
    let rebuilt = cells(&["firefox-new", "chromium-new"], 1.0, 2.0);
    let states = compare(&before.input(), &rebuilt.input()).states;
    assert_eq!(states[0].before_name, "firefox");
    assert_eq!(states[0].after_name, "firefox-new");
    assert_eq!(states.len(), 2);
}

fn texts(comparison: &Comparison, kind: WarningKind) -> Vec<&str> {
    let warnings = comparison.warnings.iter().filter(|warning| warning.kind == kind);
    warnings.map(|warning| warning.text.as_str()).collect()
}

#[test]
fn another_machine_is_warned_about() {
    let on = |read_ahead: &str, model: &str, mhz: &str| {
        recording(4.0, 0.01, 1)
            .fact("disk:vda read_ahead_kb", read_ahead)
            .fact("cpu model", model)
            .fact("cpu mhz", mhz)
            .fact("machine kernel", "6.1")
    };
    let same = compare(&on("128", "A", "2000").input(), &on("128", "A", "3000").input());
    assert_eq!(same.warnings, [], "a clock rate of the moment is no other machine");
    assert_eq!(same.changed.len(), 1);
    let other = compare(&on("128", "A", "2000").input(), &on("8192", "B", "2000").input());
    let read_ahead = texts(&other, WarningKind::ReadAhead);
    assert!(read_ahead[0].contains("disk:vda read_ahead_kb: 128 before, 8192 after"), "{read_ahead:?}");
    let machine = texts(&other, WarningKind::Note);
    assert!(machine[0].contains("cpu model: A before, B after"), "{machine:?}");
    assert_eq!(machine.len(), 1);
}

#[test]
fn variants_of_one_recording_are_compared_in_pairs() {
    let mut book = Book::of(&["old", "new"]);
    for (block, noise) in times(12, 1.0, 0.002, 9).into_iter().enumerate() {
        let slow = 1.0 + 0.2 * block as f64;
        book.run(0, Cold, block as u32, slow);
        book.run(1, Cold, block as u32, slow * 1.1 * noise);
    }
    let comparison = variants(&book.input(), "old", "new").unwrap();
    let [state] = &comparison.states[..] else { panic!("one state") };
    assert_eq!((state.before_name.as_str(), state.after_name.as_str()), ("old", "new"));
    assert!(state.p < 0.001, "what slows a block slows both: {state:?}");
    assert_eq!(variants(&book.input(), "old", "other"), None);
}

#[test]
fn the_same_times_have_the_same_interval_everywhere() {
    let book = recording(4.0, 0.2, 1);
    let report = crate::analyze::analyze(&book.input());
    let comparison = compare(&book.input(), &recording(4.1, 0.2, 7).input());
    for (cell, compared) in report.cells.iter().zip(&comparison.states) {
        assert_eq!(cell.median_s, compared.before_s);
        assert_eq!(cell.median_s, cell.milestones[0].median_s);
    }
    let again = crate::analyze::analyze(&book.asked(|options| options.runs = 99).input());
    assert_eq!(report.cells[0].median_s, again.cells[0].median_s);
}

#[test]
fn doubts_of_either_recording_are_doubts_of_the_comparison() {
    let mut drifting = times(20, 1.0, 0.01, 3);
    drifting.iter_mut().enumerate().for_each(|(run, time)| *time *= 1.0 + 0.02 * run as f64);
    let after = Book::of(&["firefox"]).cell(0, Cold, &drifting);
    let comparison = compare(&recording(1.0, 0.01, 1).input(), &after.input());
    let drift = texts(&comparison, WarningKind::Drift);
    assert!(drift.len() == 1 && drift[0].starts_with("after: cold: the runs get slower"), "{drift:?}");
}

#[test]
fn recordings_without_a_common_state_say_so() {
    let hot = Book::of(&["firefox"]).cell(0, Hot, &times(10, 1.0, 0.01, 1));
    let cold = Book::of(&["firefox"]).cell(0, Cold, &times(10, 1.0, 0.01, 1));
    let comparison = compare(&hot.input(), &cold.input());
    assert!(comparison.states.is_empty());
    let notes = texts(&comparison, WarningKind::Note);
    assert!(notes[0].contains("the states with runs that count are hot before and cold after"), "{notes:?}");
}
