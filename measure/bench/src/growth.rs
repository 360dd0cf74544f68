//! How a start grows with a parameter: variants whose names differ in one `NAME=NUMBER` alone, as a parameter scan
//! names them, are levels of it. And how it grows with each start, where nothing was put back between them. Pure.

use crate::analyze::Run;
use crate::report::{Cell, Sample};
use model::{CacheState, RunId};
use serde::Serialize;
use stats::{Estimate, Growth, Random};
use std::collections::BTreeMap;

/// The name of the parameter where starts of the same program follow each other: how many there were, with this one.
pub const CYCLE: &str = "cycle";
/// Starts that follow each other and make one level of a cycle. As many as give a median that is worth something.
const CYCLES_IN_A_LEVEL: usize = 8;
/// Most levels of a cycle.
const MOST_LEVELS: usize = 20;

/// A parameter that was varied, and how the starts grow with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swept {
    /// Its name; [`CYCLE`]: the number of the start.
    pub parameter: String,
    /// The names of the variants without it.
    pub of: String,
    /// The state of the starts.
    pub state: CacheState,
    /// Its values, from the least on. Of cycles: the mean of those that are one level.
    pub values: Vec<f64>,
    /// How each figure grows that all levels have.
    pub figures: Vec<Figure>,
}

/// How one figure grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name, that of the field of a sample: base units.
    pub name: &'static str,
    /// The median at each value.
    pub medians: Vec<f64>,
    /// What is known.
    pub growth: Growth,
    /// What its order foretells elsewhere, where that was wanted; none if its order cannot be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foretold: Vec<Foretold>,
}

/// What is foretold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Foretold {
    /// The parameter's value.
    pub at: f64,
    /// The figure there. The interval is for the noise of the runs, not for a growth that goes on otherwise.
    pub value: Estimate,
    /// It lies beyond the values that were measured: an extrapolation.
    pub extrapolated: bool,
}

/// What variants have in common: their names without the parameter, the parameter, the state.
type Scan = (String, String, CacheState);

type Read = fn(&Sample) -> Option<f64>;

/// What is looked at of each run.
const FIGURES: [(&str, Read); 6] = [
    ("wall_s", |sample| Some(sample.wall_s)),
    ("cpu_s", |sample| Some(sample.user_s + sample.system_s)),
    ("read_bytes", |sample| sample.read_bytes.map(|bytes| bytes as f64)),
    ("read_requests", |sample| sample.read_requests.map(|count| count as f64)),
    ("max_rss_bytes", |sample| Some(sample.max_rss_bytes as f64)),
    ("instructions", |sample| sample.instructions.map(|count| count as f64)),
];

/// Every parameter with as many values as it takes to tell orders apart, and what that foretells `at` other values.
pub fn growths(cells: &[Cell], at: &[f64]) -> Vec<Swept> {
    let mut scans: BTreeMap<Scan, Vec<(f64, &Cell)>> = BTreeMap::new();
    for cell in cells {
        let words: Vec<&str> = cell.variant_name.split(' ').collect();
        for (place, word) in words.iter().enumerate() {
            let Some((name, Ok(value))) = word.split_once('=').map(|(name, value)| (name, value.parse::<f64>())) else {
                continue;
            };
            if !value.is_finite() || value < 0.0 || name.is_empty() {
                continue;
            }
            let rest = [&words[..place], &words[place + 1..]].concat().join(" ");
            let levels = scans.entry((rest, name.to_owned(), cell.state)).or_default();
            if levels.iter().all(|(other, _)| *other != value) {
                levels.push((value, cell));
            }
        }
    }
    let swept = scans.into_iter().filter(|(_, levels)| levels.len() >= stats::LEVELS);
    swept
        .map(|((of, parameter, state), mut levels)| {
            levels.sort_by(|one, two| one.0.total_cmp(&two.0));
            let levels: Vec<(f64, &[Sample])> = levels.iter().map(|(n, cell)| (*n, &cell.samples[..])).collect();
            swept_of(parameter, of, state, &levels, at)
        })
        .collect()
}

/// How the starts grow with their number, where nothing was put back between them. Every start of a program counts,
/// also one that is no sample. Cells with too few samples are left out.
pub fn cycles(cells: &[Cell], runs: &[Run], at: &[f64]) -> Vec<Swept> {
    let enough = |cell: &&Cell| cell.samples.len() >= stats::LEVELS * stats::VALUES;
    cells
        .iter()
        .filter(enough)
        .map(|cell| {
            let mut started: Vec<RunId> = runs
                .iter()
                // A row of a start that was not made has no process's memory.
                .filter(|(row, _)| row.variant == cell.variant && row.max_rss.0 > 0)
                .map(|(row, _)| row.id)
                .collect();
            started.sort();
            let number = |sample: &Sample| started.partition_point(|id| *id <= sample.run) as f64;
            let mut samples = cell.samples.clone();
            samples.sort_by_key(|sample| sample.run);
            let count = (samples.len() / CYCLES_IN_A_LEVEL).clamp(stats::LEVELS, MOST_LEVELS);
            let levels: Vec<(f64, &[Sample])> = (0..count)
                .map(|level| &samples[level * samples.len() / count..(level + 1) * samples.len() / count])
                .map(|part| (part.iter().map(number).sum::<f64>() / part.len() as f64, part))
                .collect();
            swept_of(CYCLE.to_owned(), cell.variant_name.clone(), cell.state, &levels, at)
        })
        .collect()
}

fn swept_of(parameter: String, of: String, state: CacheState, levels: &[(f64, &[Sample])], at: &[f64]) -> Swept {
    let values = levels.iter().map(|(value, _)| *value).collect();
    let figures = FIGURES.iter().filter_map(|(name, read)| figure(name, *read, levels, at)).collect();
    Swept { parameter, of, state, values, figures }
}

/// `None`: a run lacks it, or a level has none of it.
fn figure(name: &'static str, read: Read, levels: &[(f64, &[Sample])], at: &[f64]) -> Option<Figure> {
    let mut of = Vec::new();
    for (value, samples) in levels {
        of.push((*value, samples.iter().map(read).collect::<Option<Vec<f64>>>()?));
    }
    let of: Vec<(f64, &[f64])> = of.iter().map(|(value, figures)| (*value, &figures[..])).collect();
    let medians: Vec<f64> = of.iter().map(|(_, figures)| stats::quantile(figures, 0.5)).collect();
    if medians.iter().any(|median| *median <= 0.0) {
        return None;
    }
    let seeds: Vec<&[f64]> = of.iter().map(|(_, figures)| *figures).collect();
    let mut random = Random::of_values(&seeds);
    let growth = stats::growth(&of, &mut random);
    let told = growth.order.map(|order| stats::foretold(&of, order, at, &mut random)).unwrap_or_default();
    let (first, last) = (of.first()?.0, of.last()?.0);
    let foretold = at
        .iter()
        .zip(told)
        .map(|(at, value)| Foretold { at: *at, value, extrapolated: *at < first || *at > last })
        .collect();
    Some(Figure { name, medians, growth, foretold })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::{analyze, book::Book};
    use stats::Order;

    #[test]
    fn variants_that_differ_in_one_number_are_levels() {
        let names: Vec<String> = ["a", "b"]
            .iter()
            .flat_map(|theme| [1, 10, 100, 1000, 5000].map(|n| format!("app n={n} theme={theme}")))
            .chain(["app".to_owned(), "app n=x theme=a".to_owned()])
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut book = Book::of(&names);
        for round in 0..8_u32 {
            for (variant, name) in (0..).zip(&names) {
                let n = name.split(['=', ' ']).nth(2).and_then(|n| n.parse::<f64>().ok()).unwrap_or(1.0);
                let grows = if name.ends_with("theme=a") { n } else { 0.0 };
                let noise = 1.0 + 0.01 * f64::from(round * 7 % 5) - 0.02;
                book.run(variant, CacheState::Hot, round, (0.1 + 0.001 * grows) * noise);
            }
        }
        let swept = growths(&analyze(&book.input()).cells, &[500.0, 10_000.0]);
        let told: Vec<(&str, &str, Option<Order>)> = swept
            .iter()
            .map(|one| {
                let wall = one.figures.iter().find(|figure| figure.name == "wall_s").unwrap();
                (&one.of[..], &one.parameter[..], wall.growth.order)
            })
            .collect();
        assert_eq!(told, [("app theme=a", "n", Some(Order::Linear)), ("app theme=b", "n", Some(Order::Constant))]);
        assert_eq!(swept[0].values, [1.0, 10.0, 100.0, 1000.0, 5000.0]);
        let wall = &swept[0].figures[0];
        let [inside, beyond] = wall.foretold[..] else { panic!("{:?}", wall.foretold) };
        assert_eq!((inside.extrapolated, beyond.extrapolated), (false, true));
        assert!((beyond.value.value - 10.1).abs() < 0.2 && (inside.value.value - 0.6).abs() < 0.02, "{beyond:?}");
    }

    #[test]
    fn starts_that_follow_each_other_are_counted_with_those_that_are_no_samples() {
        let mut book = Book::of(&["grows", "stays"]);
        for round in 0..200_u32 {
            let noise = 1.0 + 0.01 * f64::from(round * 7 % 5) - 0.02;
            // A start that does not count makes the next one slower, too; one that was not made does not.
            if round % 10 == 9 {
                let row = book.run(0, CacheState::Hot, round, 0.5);
                row.accepted = false;
                let row = book.run(0, CacheState::Hot, round, 0.5);
                (row.accepted, row.max_rss) = (false, model::Bytes(0));
            }
            let before = f64::from(round + 1 + (round + 1) / 10);
            book.run(0, CacheState::Hot, round, (0.1 + 0.001 * before) * noise);
            book.run(1, CacheState::Hot, round, 0.1 * noise);
        }
        let swept = cycles(&analyze(&book.input()).cells, &book.runs, &[1000.0]);
        let [grows, stays] = &swept[..] else { panic!("{swept:?}") };
        assert_eq!((&grows.parameter[..], &grows.of[..], grows.values.len()), (CYCLE, "grows", 20));
        // Ten starts from the first on, and one that did not count before the tenth sample.
        assert_eq!(grows.values[0], 56.0 / 10.0);
        let order = |swept: &Swept| swept.figures.iter().find(|figure| figure.name == "wall_s").unwrap().growth.order;
        assert_eq!((order(grows), order(stays)), (Some(Order::Linear), Some(Order::Constant)));
        let far = grows.figures[0].foretold[0];
        assert!(far.extrapolated && (far.value.value - 1.1).abs() < 0.03, "{far:?}");
        let few = Book::of(&["few"]).cell(0, CacheState::Hot, &[0.1; 11]);
        assert!(cycles(&analyze(&few.input()).cells, &few.runs, &[]).is_empty());
    }
}
