//! Small back-tests on series whose truth is known; the large ones are `claims/history/run`.

use super::*;
use crate::test_data::normal;

fn noise(n: usize, spread: f64, random: &mut Random) -> Vec<f64> {
    (0..n).map(|_| 1.0 + spread * normal(random)).collect()
}

/// Pure noise of three shapes: 0.6 % of 300 series are 1.8; 7 or more come once in three hundred such tests.
#[test]
fn pure_noise_has_a_step_less_than_once_in_a_hundred_series() {
    let mut random = Random::from_seed(31);
    let mut alarms = 0;
    for series in 0..300 {
        let mut values = noise(100, 0.01, &mut random);
        match series % 3 {
            0 => {}
            1 => values.iter_mut().for_each(|value| *value = (*value * 100.0 - 100.0).exp()),
            _ => values.iter_mut().step_by(17).for_each(|value| *value *= 2.0),
        }
        alarms += usize::from(!changes(&values, &mut random).steps.is_empty());
    }
    assert!(alarms < 7, "{alarms} of 300");
}

#[test]
fn a_step_of_3_percent_is_found_within_5_commits_at_a_noise_of_1_percent() {
    let mut random = Random::from_seed(32);
    let (mut found, mut size) = (0, 0);
    for _ in 0..60 {
        let mut values = noise(55, 0.01, &mut random);
        values[50..].iter_mut().for_each(|value| *value *= 1.03);
        let steps = changes(&values, &mut random).steps;
        let step = steps.iter().find(|step| step.between.0 <= 50 && 50 <= step.between.1);
        found += usize::from(step.is_some());
        size += usize::from(step.is_some_and(|it| it.ratio.interval.is_some_and(|interval| interval.contains(1.03))));
    }
    assert!(found >= 54, "{found} of 60");
    assert!(size >= 45, "{size} of 60 intervals hold the size");
}

#[test]
fn several_steps_are_found_each_in_its_place() {
    let mut random = Random::from_seed(33);
    let mut values = noise(120, 0.01, &mut random);
    values[30..].iter_mut().for_each(|value| *value *= 1.10);
    // Taken back after ten commits.
    values[60..70].iter_mut().for_each(|value| *value *= 1.30);
    values[100..].iter_mut().for_each(|value| *value *= 0.90);
    let steps = changes(&values, &mut random).steps;
    let places: Vec<usize> = steps.iter().map(|step| step.at).collect();
    assert_eq!(places, [30, 60, 70, 100], "{steps:?}");
    assert!(steps.iter().all(|step| step.place_probability > 0.5 && step.p <= FALSE_STEP));
    assert!((steps[0].ratio.value - 1.1).abs() < 0.02 && (steps[3].ratio.value - 0.9).abs() < 0.02);
}

#[test]
fn counts_that_never_scatter_have_steps_too() {
    let mut values = vec![5_000.0; 40];
    values[30..].fill(5_001.0);
    let steps = changes(&values, &mut Random::from_seed(34)).steps;
    assert_eq!(steps.iter().map(|step| (step.at, step.between)).collect::<Vec<_>>(), [(30, (30, 30))]);
    // From nothing to something: no ratio.
    values[..30].fill(0.0);
    let steps = changes(&values, &mut Random::from_seed(34)).steps;
    assert!(steps.len() == 1 && !steps[0].ratio.value.is_finite(), "{steps:?}");
    assert_eq!(changes(&[3.0; 50], &mut Random::from_seed(1)).steps, []);
}

#[test]
fn few_commits_and_single_wild_ones_have_no_step() {
    let mut random = Random::from_seed(35);
    for n in 0..6 {
        assert_eq!(changes(&noise(n, 0.01, &mut random), &mut random).steps, []);
    }
    let mut values = noise(40, 0.01, &mut random);
    values[20] = 5.0;
    values[39] = 9.0;
    assert_eq!(changes(&values, &mut random).steps, []);
}

#[test]
fn a_drift_is_named() {
    let mut random = Random::from_seed(36);
    let mut state = 0.0;
    let values: Vec<f64> = (0..100)
        .map(|_| {
            state = 0.8 * state + normal(&mut random);
            1.0 + 0.01 * state
        })
        .collect();
    assert!(changes(&values, &mut random).drifts);
    assert!(!changes(&noise(100, 0.01, &mut random), &mut random).drifts);
}

#[test]
fn of_a_long_series_the_last_commits_are_searched() {
    let mut random = Random::from_seed(37);
    let mut values = noise(MOST_COMMITS + 50, 0.01, &mut random);
    values[..40].fill(9.0);
    values[MOST_COMMITS..].iter_mut().for_each(|value| *value *= 1.1);
    let places: Vec<usize> = changes(&values, &mut random).steps.iter().map(|step| step.at).collect();
    assert_eq!(places, [MOST_COMMITS]);
}

#[test]
fn seeded_intervals_cover_both_ends_and_are_long_enough() {
    for n in 6..200 {
        let intervals = seeded(n);
        assert!(intervals.contains(&(0, n)));
        assert!(intervals.iter().all(|(from, to)| to - from >= 2 * FEWEST_COMMITS && *to <= n));
        let least = intervals.iter().map(|(from, to)| to - from).min().unwrap();
        assert!(intervals.contains(&(n - least, n)) && intervals.contains(&(0, least)), "{n}");
    }
}

#[test]
fn a_wild_commit_hides_no_step() {
    let mut random = Random::from_seed(38);
    let mut values = noise(60, 0.01, &mut random);
    values[40..].iter_mut().for_each(|value| *value *= 1.04);
    values[7] = 5.0;
    let places: Vec<usize> = changes(&values, &mut random).steps.iter().map(|step| step.at).collect();
    assert_eq!(places, [40]);
}
