//! Back-test of the change points on synthetic series (`claims/history/run`): false alarms, steps found, their places
//! and sizes. Arguments: number of series of each kind.

use stats::{Random, changes};

/// Commits of a series of pure noise.
const COMMITS: usize = 100;

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let uniform = |random: &mut Random| ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let (radius, angle) = (uniform(random), uniform(random));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The noise of a series of commits, as a share of the level; `spread` is that of a commit.
type Noise = fn(&mut Random, usize, f64) -> Vec<f64>;

fn gaussian(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    (0..n).map(|_| 1.0 + spread * normal(random)).collect()
}

fn log_normal(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    // Skewed: a heavy tail upwards.
    (0..n).map(|_| 1.0 + spread * ((normal(random)).exp() - 1.65) / 2.16).collect()
}

fn outliers(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    let one = |random: &mut Random| {
        let slow = if random.below(20) == 0 { 1.0 + random.below(1_000) as f64 / 1_000.0 } else { 1.0 };
        (1.0 + spread * normal(random)) * slow
    };
    (0..n).map(|_| one(random)).collect()
}

fn medians(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    // One run in ten takes up to three times as long. A median of 5 has 1/1.87 of the spread of the runs.
    let mut commit = || {
        let mut runs: Vec<f64> = (0..5)
            .map(|_| {
                let slow = if random.below(10) == 0 { 1.0 + 2.0 * random.below(1_000) as f64 / 1_000.0 } else { 1.0 };
                (1.0 + spread * 1.87 * normal(random)) * slow
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        runs[2]
    };
    (0..n).map(|_| commit()).collect()
}

fn autocorrelated(random: &mut Random, n: usize, spread: f64, memory: f64) -> Vec<f64> {
    let mut state = normal(random);
    let mut next = || {
        state = memory * state + (1.0 - memory * memory).sqrt() * normal(random);
        1.0 + spread * state
    };
    (0..n).map(|_| next()).collect()
}

fn little_memory(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    autocorrelated(random, n, spread, 0.3)
}

fn much_memory(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    autocorrelated(random, n, spread, 0.7)
}

fn drift(random: &mut Random, n: usize, spread: f64) -> Vec<f64> {
    // 3 % over the whole series.
    (0..n).map(|at| 1.0 + 0.03 * at as f64 / n as f64 + spread * normal(random)).collect()
}

const NOISES: [(&str, Noise); 4] = [
    ("normal", gaussian),
    ("log-normal, skewed", log_normal),
    ("normal, one commit in 20 up to twice as slow", outliers),
    ("medians of 5 runs, one run in 10 up to three times as slow", medians),
];
const DEPENDENT: [(&str, Noise); 3] = [
    ("autocorrelated, 0.3", little_memory),
    ("autocorrelated, 0.7", much_memory),
    ("drift of 3 % over 100 commits", drift),
];

fn main() {
    let series: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(200);
    let mut random = Random::from_seed(1);
    let percent = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;

    println!(
        "False alarms: {series} series of {COMMITS} commits without a step, noise of 1 %, looked at once; \
            with a step, in %:\n"
    );
    println!("| noise | a step | of these with the warning that neighbours resemble each other |\n|:---|---:|---:|");
    for (name, noise) in NOISES.into_iter().chain(DEPENDENT) {
        let (mut alarms, mut warned) = (0, 0);
        for _ in 0..series {
            let found = changes(&noise(&mut random, COMMITS, 0.01), &mut random);
            alarms += usize::from(!found.steps.is_empty());
            warned += usize::from(!found.steps.is_empty() && found.drifts);
        }
        println!("| {name} | {:.2} | {:.1} |", percent(alarms, series), percent(warned, alarms));
    }

    let looked = (series / 20).max(10);
    println!(
        "\nLooked at anew with each commit from 10 to {COMMITS}, {looked} series: any false step in any of \
            the looks, in %:\n"
    );
    println!("| noise | ever a step |\n|:---|---:|");
    for (name, noise) in NOISES {
        let alarms = (0..looked)
            .filter(|_| {
                let values = noise(&mut random, COMMITS, 0.01);
                (10..=COMMITS).any(|n| !changes(&values[..n], &mut random).steps.is_empty())
            })
            .count();
        println!("| {name} | {:.1} |", percent(alarms, looked));
    }

    let steps = (series / 4).max(20);
    println!(
        "\nA step of 3 % after 50 commits at a noise of 1 %, found when k commits have followed it, {steps} \
            series, in %:\n"
    );
    println!("| noise | k = 3 | 4 | 5 | 7 | 10 |\n|:---|---:|---:|---:|---:|---:|");
    for (name, noise) in NOISES {
        let cells: Vec<String> = [3, 4, 5, 7, 10]
            .into_iter()
            .map(|after| {
                let found = (0..steps).filter(|_| {
                    let mut values = noise(&mut random, 50 + after, 0.01);
                    values[50..].iter_mut().for_each(|value| *value *= 1.03);
                    changes(&values, &mut random).steps.iter().any(|step| step.at.abs_diff(50) <= 5)
                });
                format!("{:.1}", percent(found.count(), steps))
            })
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    }

    println!("\nOf steps that were found among {COMMITS} commits (at commit 60), {steps} series of each kind, in %:\n");
    println!(
        "| noise | step | found | place in its interval | commits in the interval, mean | size in its \
            interval | more steps than one |"
    );
    println!("|:---|---:|---:|---:|---:|---:|---:|");
    for (name, noise) in NOISES {
        for size in [1.01, 1.015, 1.03, 1.10] {
            let (mut found, mut placed, mut wide, mut sized, mut more) = (0, 0, 0, 0, 0);
            for _ in 0..steps {
                let mut values = noise(&mut random, COMMITS, 0.01);
                values[60..].iter_mut().for_each(|value| *value *= size);
                let all = changes(&values, &mut random).steps;
                more += usize::from(all.len() > 1);
                let Some(step) = all.iter().min_by_key(|step| step.at.abs_diff(60)) else { continue };
                found += 1;
                placed += usize::from(step.between.0 <= 60 && 60 <= step.between.1);
                wide += step.between.1 - step.between.0 + 1;
                sized += usize::from(step.ratio.interval.is_some_and(|interval| interval.contains(size)));
            }
            println!(
                "| {name} | +{:.1} % | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                100.0 * (size - 1.0),
                percent(found, steps),
                percent(placed, found),
                wide as f64 / found.max(1) as f64,
                percent(sized, found),
                percent(more, steps)
            );
        }
    }
}
