//! The power fails at each moment, with any of what was not synced: what was flushed is there, and nothing was made up.

mod common;

use common::*;
use std::collections::BTreeMap;
use thaw_cookies::{Jar, Options};
use thaw_log::memory::{Medium, Memory, Random};

/// The cookies, as pairs of name and value.
type State = BTreeMap<String, String>;

fn state(jar: &Jar) -> State {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    all(jar).iter().map(|it| (format!("{} {}", it.domain, text(&it.name)), text(&it.value))).collect()
}

/// What was done, and after how many operations of the disk.
struct Mark {
    ops: usize,
    state: State,
    /// It is on the medium.
    sure: bool,
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_state_that_was_with_all_that_was_flushed() {
    let disk = empty();
    let small = || Options { compact: 900, ..options() };
    let jar = Jar::on(disk.clone(), small()).unwrap();
    let mut random = Random(11);
    let mut marks = vec![Mark { ops: 0, state: State::new(), sure: true }];
    for number in 0..60_u64 {
        let url = format!("https://h{}.example/", random.below(6));
        match random.below(12) {
            0 => {
                // It is not sure before it is done, and afterwards nothing of it may come back.
                jar.wait_for(jar.forget(&format!("h{}.example", random.below(6)))).unwrap();
            }
            1..3 => {
                set(&jar, &format!("n{}=; Max-Age=0", random.below(3)), &url, NOW + number);
                flush(&jar);
            }
            _ => {
                let value = "v".repeat(random.below(90) as usize);
                set(&jar, &format!("n{}={number}{value}; Max-Age=9999", random.below(3)), &url, NOW + number);
                flush(&jar);
            }
        }
        marks.push(Mark { ops: disk.len(), state: state(&jar), sure: true });
    }
    drop(jar);
    assert!(disk.lock().made > 4, "snapshots are among it");
    let ops = disk.lock().ops.clone();
    let mut medium = Medium::default();
    for at in 0..=ops.len() {
        // The last that is sure by then, and the first that was not begun.
        let sure = marks.iter().rposition(|mark| mark.ops <= at && mark.sure).unwrap();
        let begun = marks.iter().position(|mark| mark.ops >= at).unwrap_or(marks.len() - 1).max(sure);
        for cut in 0..25 {
            let files = match cut {
                0 => medium.all(),
                1 => medium.none(),
                _ => medium.some(&mut random),
            };
            let left = Memory::new(files);
            let jar = Jar::on(left.clone(), small()).unwrap();
            let there = state(&jar);
            let known = (sure..=begun).any(|number| marks[number].state == there);
            assert!(known, "at {at}, cut {cut}: {there:?} is none of {sure} to {begun}");
            // And it goes on.
            set(&jar, "more=1; Max-Age=9", "https://more.example/", NOW);
            flush(&jar);
            drop(jar);
            let again = state(&Jar::on(left, small()).unwrap());
            assert_eq!(again.len(), there.len() + 1, "at {at}, cut {cut}");
        }
        if let Some(op) = ops.get(at) {
            medium.apply(op);
        }
    }
}
