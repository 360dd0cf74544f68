//! How a start grows with a parameter: variants whose names differ in one `NAME=NUMBER` alone, as a parameter scan
//! names them, are levels of it. Pure.

use crate::report::{Cell, Sample};
use model::CacheState;
use serde::Serialize;
use stats::{Growth, Random};
use std::collections::BTreeMap;

/// A parameter that was varied, and how the starts grow with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swept {
    /// Its name.
    pub parameter: String,
    /// The names of the variants without it.
    pub of: String,
    /// The state of the starts.
    pub state: CacheState,
    /// Its values, from the least on.
    pub values: Vec<f64>,
    /// How each figure grows that all levels have.
    pub figures: Vec<Figure>,
}

/// How one figure grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name, that of the field of a sample: base units.
    pub name: &'static str,
    /// What is known.
    pub growth: Growth,
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

/// Every parameter with as many values as it takes to tell orders apart.
pub fn growths(cells: &[Cell]) -> Vec<Swept> {
    let mut scans: BTreeMap<Scan, Vec<(f64, &Cell)>> = BTreeMap::new();
    for cell in cells {
        let words: Vec<&str> = cell.variant_name.split(' ').collect();
        for (at, word) in words.iter().enumerate() {
            let Some((name, Ok(value))) = word.split_once('=').map(|(name, value)| (name, value.parse::<f64>())) else {
                continue;
            };
            if !value.is_finite() || value < 0.0 || name.is_empty() {
                continue;
            }
            let rest = [&words[..at], &words[at + 1..]].concat().join(" ");
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
            let values = levels.iter().map(|(value, _)| *value).collect();
            let figures = FIGURES.iter().filter_map(|(name, read)| figure(name, *read, &levels)).collect();
            Swept { parameter, of, state, values, figures }
        })
        .collect()
}

/// `None`: a run lacks it, or a level has none of it.
fn figure(name: &'static str, read: Read, levels: &[(f64, &Cell)]) -> Option<Figure> {
    let mut of = Vec::new();
    for (value, cell) in levels {
        of.push((*value, cell.samples.iter().map(read).collect::<Option<Vec<f64>>>()?));
    }
    let of: Vec<(f64, &[f64])> = of.iter().map(|(value, figures)| (*value, &figures[..])).collect();
    if of.iter().any(|(_, figures)| stats::quantile(figures, 0.5) <= 0.0) {
        return None;
    }
    let seeds: Vec<&[f64]> = of.iter().map(|(_, figures)| *figures).collect();
    Some(Figure { name, growth: stats::growth(&of, &mut Random::of_values(&seeds)) })
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
        let swept = growths(&analyze(&book.input()).cells);
        let told: Vec<(&str, &str, Option<Order>)> = swept
            .iter()
            .map(|one| {
                let wall = one.figures.iter().find(|figure| figure.name == "wall_s").unwrap();
                (&one.of[..], &one.parameter[..], wall.growth.order)
            })
            .collect();
        assert_eq!(told, [("app theme=a", "n", Some(Order::Linear)), ("app theme=b", "n", Some(Order::Constant))]);
        assert_eq!(swept[0].values, [1.0, 10.0, 100.0, 1000.0, 5000.0]);
    }
}
