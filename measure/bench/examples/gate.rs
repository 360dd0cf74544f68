//! How often the gate is wrong, and how often it sees what is there: simulated recordings through the gate itself,
//! beside a one-sided t test. `cargo run --release -p bench --example gate -- 2000` prints the tables of
//! docs/statistics.md.

use bench::gate::{Baseline, Bound, Identity, LEVEL, Metric, Outcome, Rule, Series, Wanted, outcome};
use model::CacheState;
use stats::{Pairing, Random};
use std::collections::BTreeMap;

/// What start times look like.
#[derive(Clone, Copy)]
enum Noise {
    /// Log-normal with a spread of 5 %.
    Quiet,
    /// The same, and one start in ten takes up to three times as long.
    Outliers,
    /// The same, and each recording begins 10 % slower than it ends.
    Drift,
}

const SHAPES: [(Noise, &str); 3] =
    [(Noise::Quiet, "log-normal"), (Noise::Outliers, "outliers"), (Noise::Drift, "drift")];
const SPREAD: f64 = 0.05;

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

fn uniform(random: &mut Random) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn times(noise: Noise, runs: usize, center: f64, random: &mut Random) -> Vec<f64> {
    let start = |run: usize, random: &mut Random| {
        let time = center * (SPREAD * normal(random)).exp();
        match noise {
            Noise::Quiet => time,
            Noise::Outliers if random.below(10) == 0 => time * (1.0 + 2.0 * uniform(random)),
            Noise::Outliers => time,
            Noise::Drift => time * (1.0 + 0.1 * (runs - 1 - run) as f64 / runs as f64),
        }
    };
    (0..runs).map(|run| start(run, random)).collect()
}

/// A recording with these times in as many states.
fn recording(states: &[Vec<f64>]) -> Baseline {
    let series = states.iter().zip(CacheState::ALL).map(|(times, state)| Series {
        variant: 0,
        variant_name: "program".to_owned(),
        state,
        blocks: (0..times.len() as u32).collect(),
        figures: BTreeMap::from([(Metric::Time, times.iter().map(|time| Some(*time)).collect())]),
    });
    Baseline { schema: String::new(), identity: Identity::default(), series: series.collect() }
}

/// Shares of the trials that failed, passed, and were undecided.
#[derive(Default)]
struct Shares([u32; 3]);

impl Shares {
    fn count(&mut self, found: Outcome) {
        let place = match found {
            Outcome::Fail => 0,
            Outcome::Pass => 1,
            Outcome::Undecided => 2,
        };
        self.0[place] += 1;
    }

    fn percent(&self, place: usize) -> f64 {
        100.0 * f64::from(self.0[place]) / f64::from(self.0.iter().sum::<u32>())
    }
}

fn wanted(limit: f64, level: f64) -> Wanted {
    Wanted { rules: vec![Rule::of(Metric::Time, Bound::Growth(limit))], level }
}

/// The same program against itself, at a limit of 0 %: every failure is a false one.
fn false_alarms(trials: u32, random: &mut Random) {
    println!("False alarms: {trials} comparisons of a program with itself at a limit of 0 %; failed, in %\n");
    println!("| noise | states | 3 runs | 4 | 5 | 7 | 10 | 15 | 20 | 3 to 20, ten times as many |");
    println!("|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut all = Shares::default();
    for (noise, name) in SHAPES {
        for states in [1, 4] {
            // 0: any number of runs from 3 to 20.
            let row = [3, 4, 5, 7, 10, 15, 20, 0].map(|runs| {
                let mut shares = Shares::default();
                for _ in 0..if runs == 0 { 10 * trials } else { trials } {
                    let runs = if runs == 0 { 3 + random.below(18) } else { runs };
                    let mut side =
                        || recording(&(0..states).map(|_| times(noise, runs, 1.0, random)).collect::<Vec<_>>());
                    let (before, after) = (side(), side());
                    shares.count(outcome(&before, &after, &wanted(0.0, LEVEL), Pairing::Independent));
                }
                (0..3).for_each(|place| all.0[place] += shares.0[place]);
                format!("{:.1}", shares.percent(0))
            });
            println!("| {name} | {states} | {} |", row.join(" | "));
        }
    }
    println!("\nAll {} comparisons together: {:.2} %.", all.0.iter().sum::<u32>(), all.percent(0));
    let error = 196.0 * (LEVEL * (1.0 - LEVEL) / f64::from(trials)).sqrt();
    println!("A test whose error is 5 % shows 5 ± {error:.1} % in {trials} comparisons.");
}

/// A true change against a limit of 5 %: how often the gate fails, beside a t test, and how often it passes.
fn power(trials: u32, change: f64, random: &mut Random) {
    println!(
        "\nPower: a true change of {:+.0} % at a limit of 5 %, one state, {trials} comparisons, in %\n",
        change * 100.0
    );
    println!("| noise | runs | fails | one-sided t | passes | undecided |");
    println!("|:---|---:|---:|---:|---:|---:|");
    for (noise, name) in SHAPES {
        for runs in [3, 5, 7, 10, 15, 20] {
            let (mut shares, mut student) = (Shares::default(), 0);
            for _ in 0..trials {
                let old = times(noise, runs, 1.0, random);
                let new = times(noise, runs, 1.0 + change, random);
                student += u32::from(stats::t_above_limit(&new, &old, 1.05) <= LEVEL);
                let (before, after) = (recording(&[old]), recording(&[new]));
                shares.count(outcome(&before, &after, &wanted(0.05, LEVEL), Pairing::Independent));
            }
            let student = 100.0 * f64::from(student) / f64::from(trials);
            let [fails, passes, undecided] = [0, 1, 2].map(|place| shares.percent(place));
            println!("| {name} | {runs} | {fails:.1} | {student:.1} | {passes:.1} | {undecided:.1} |");
        }
    }
}

/// Pairs of variants whose blocks share a weather of 30 %.
fn pairs(trials: u32, random: &mut Random) {
    println!(
        "\nVariants of one recording, blocks with a common weather of 30 %, limit 5 %, {trials} comparisons; failed, \
            in %\n"
    );
    println!("| true change | 5 pairs | 7 | 10 | 15 | 20 |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for change in [0.05, 0.10] {
        let row = [5, 7, 10, 15, 20].map(|runs| {
            let mut shares = Shares::default();
            for _ in 0..trials {
                let weather: Vec<f64> = (0..runs).map(|_| (0.3 * normal(random)).exp()).collect();
                let mut side = |center: f64| {
                    let times = times(Noise::Outliers, runs, center, random);
                    recording(&[times.iter().zip(&weather).map(|(time, weather)| time * weather).collect()])
                };
                let (before, after) = (side(1.0), side(1.0 + change));
                shares.count(outcome(&before, &after, &wanted(0.05, LEVEL), Pairing::Paired));
            }
            format!("{:.1}", shares.percent(0))
        });
        println!("| {:+.0} % | {} |", change * 100.0, row.join(" | "));
    }
}

/// Looking again and again at growing data, as `--until-decided` does: 5 pairs first, half as many more each time.
fn looks(trials: u32, random: &mut Random) {
    println!(
        "\nUntil decided: from 5 runs of each to at most 60, {trials} comparisons, limit 5 %, noise with outliers, in \
            %\n"
    );
    println!("| true change | fails | passes | undecided | runs, mean |");
    println!("|---:|---:|---:|---:|---:|");
    for change in [0.0, 0.05, 0.10, 0.15] {
        let (mut shares, mut runs_made) = (Shares::default(), 0);
        for _ in 0..trials {
            let old = times(Noise::Outliers, 60, 1.0, random);
            let new = times(Noise::Outliers, 60, 1.0 + change, random);
            let (mut runs, mut look) = (5, 1);
            let found = loop {
                let (before, after) = (recording(&[old[..runs].to_vec()]), recording(&[new[..runs].to_vec()]));
                let level = stats::spend(LEVEL, look);
                let found = outcome(&before, &after, &wanted(0.05, level), Pairing::Independent);
                if found != Outcome::Undecided || runs == 60 {
                    break found;
                }
                (runs, look) = ((runs + runs.div_ceil(2)).min(60), look + 1);
            };
            shares.count(found);
            runs_made += runs;
        }
        let [fails, passes, undecided] = [0, 1, 2].map(|place| shares.percent(place));
        let mean = runs_made as f64 / f64::from(trials);
        println!("| {:+.0} % | {fails:.1} | {passes:.1} | {undecided:.1} | {mean:.1} |", change * 100.0);
    }
}

fn main() {
    let trials = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(200);
    let random = &mut Random::from_seed(2_026);
    false_alarms(trials, random);
    power(trials, 0.10, random);
    power(trials, 0.05, random);
    power(trials, 0.0, random);
    pairs(trials, random);
    looks(trials, random);
}
