//! Series of rows made by hand.

use super::*;

fn commit(ancestors: u64) -> Commit {
    Commit {
        id: format!("{ancestors:040x}"),
        repository: "r".into(),
        ancestors,
        committed_unix_s: 1_000 - ancestors as i64,
        authored_unix_s: 0,
        subject: format!("change {ancestors}"),
    }
}

fn row(recording: i64, ancestors: u64, setup: i64, dirty: bool) -> Row {
    Row {
        recording,
        file: String::new(),
        created_unix_ns: 0,
        thaw_version: String::new(),
        commit: commit(ancestors),
        dirty,
        setup,
        runs: 2,
        source: String::new(),
    }
}

fn figure(values: &[f64]) -> Figure {
    Figure { variant: "app".into(), state: "cold".into(), metric: "time".into(), values: values.to_vec() }
}

#[test]
fn commits_stand_in_their_order_and_runs_of_one_are_put_together() {
    // Added in another order, with clocks that go backwards.
    let rows = [row(1, 9, 1, false), row(2, 3, 1, false), row(3, 9, 1, false), row(4, 5, 1, true)];
    let figures = [(1, figure(&[9.0, 10.0])), (2, figure(&[3.0])), (3, figure(&[11.0])), (4, figure(&[5.0]))];
    let found = series(&rows, &figures, |_| true);
    assert_eq!(found.len(), 1);
    let medians: Vec<(u64, f64)> = found[0].points.iter().map(|it| (it.commit.ancestors, it.median)).collect();
    assert_eq!((medians, found[0].dirty), (vec![(3, 3.0), (9, 10.0)], 1));
}

#[test]
fn machines_and_set_ups_are_never_mixed() {
    let rows = [row(1, 1, 1, false), row(2, 2, 2, false)];
    let found = series(&rows, &[(1, figure(&[1.0])), (2, figure(&[2.0]))], |_| true);
    assert_eq!(found.iter().map(|it| (it.setup, it.points.len())).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    assert!(series(&rows, &[(1, figure(&[1.0]))], |figure| figure.metric == "cpu").is_empty());
}

#[test]
fn the_runs_since_the_last_step_are_those_of_the_new_level() {
    let rows: Vec<Row> = (1..=40).map(|n| row(n, n as u64, 1, false)).collect();
    let level = |n: i64| if n < 21 { 1.0 } else { 1.5 };
    let figures: Vec<(i64, Figure)> = (1..=40).map(|n| (n, figure(&[level(n) + 0.001 * (n * 7 % 5) as f64]))).collect();
    let found = series(&rows, &figures, |_| true);
    let step = &found[0].steps[0];
    assert_eq!((found[0].steps.len(), step.commit.subject.as_str(), step.between), (1, "change 21", (20, 20)));
    assert!((step.ratio.unwrap().value - 1.5).abs() < 0.01);
    assert_eq!(since(&found[0]).len(), 20);
    assert!(since(&found[0]).iter().all(|point| point.median > 1.4));
}
