//! The series in a history: the figures of each commit in the order of the commits, and where their level changed.
//! Pure.

use crate::store::{Commit, Figure, Row};
use serde::Serialize;
use stats::{Changes, Estimate, Random};
use std::collections::BTreeMap;

/// A commit in a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Which.
    pub commit: Commit,
    /// Median of its runs, in the metric's base unit.
    pub median: f64,
    /// Its runs, of all recordings of the commit, in base units.
    pub values: Vec<f64>,
}

/// A step between two commits of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The commit that most probably made it: the first of the new level.
    pub commit: Commit,
    /// Index of that commit in the series.
    pub at: usize,
    /// With 95 % probability it is one of these commits: from, to, ends included.
    pub between: (usize, usize),
    /// Probability that it is `commit`, if there is a step.
    pub place_probability: f64,
    /// Level after over level before, with its 95 % interval; `None`: the level before is 0.
    pub ratio: Option<Estimate>,
    /// Chance of such a step where there is none.
    pub p: f64,
}

/// One metric of a variant in a state, on one machine and set-up, by commit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Number of the machine and set-up.
    pub setup: i64,
    /// The repository, by its first commit.
    pub repository: String,
    /// Name of the variant.
    pub variant: String,
    /// Cache state.
    pub state: String,
    /// Which figure.
    pub metric: String,
    /// Commits, in their order.
    pub points: Vec<Point>,
    /// Where the level changed.
    pub steps: Vec<Step>,
    /// Commits resemble their neighbours more than chance explains: steps may be the machine's.
    pub drifts: bool,
    /// Recordings that are left out because they are of no commit: the tree had changes.
    pub dirty: usize,
}

/// All series, with their steps. Recordings of trees with changes are counted, and are no points.
pub fn series(rows: &[Row], figures: &[(i64, Figure)], wanted: impl Fn(&Figure) -> bool) -> Vec<Series> {
    let rows: BTreeMap<i64, &Row> = rows.iter().map(|row| (row.recording, row)).collect();
    let mut all: BTreeMap<(String, i64, String, String, String), Series> = BTreeMap::new();
    for (recording, figure) in figures {
        let Some(row) = rows.get(recording).filter(|_| wanted(figure) && !figure.values.is_empty()) else { continue };
        let key = (
            row.commit.repository.clone(),
            row.setup,
            figure.metric.clone(),
            figure.state.clone(),
            figure.variant.clone(),
        );
        let series = all.entry(key).or_insert_with(|| Series {
            setup: row.setup,
            repository: row.commit.repository.clone(),
            variant: figure.variant.clone(),
            state: figure.state.clone(),
            metric: figure.metric.clone(),
            points: Vec::new(),
            steps: Vec::new(),
            drifts: false,
            dirty: 0,
        });
        if row.dirty {
            series.dirty += 1;
            continue;
        }
        match series.points.iter_mut().find(|point| point.commit.id == row.commit.id) {
            Some(point) => point.values.extend(&figure.values),
            None => {
                let values = figure.values.clone();
                series.points.push(Point { commit: row.commit.clone(), median: 0.0, values });
            }
        }
    }
    all.into_values().map(with_steps).collect()
}

fn with_steps(mut series: Series) -> Series {
    series.points.sort_by(|one, two| order(&one.commit).cmp(&order(&two.commit)));
    for point in &mut series.points {
        point.median = stats::quantile(&point.values, 0.5);
    }
    let medians: Vec<f64> = series.points.iter().map(|point| point.median).collect();
    let Changes { steps, drifts } = stats::changes(&medians, &mut Random::of_values(&[&medians]));
    series.drifts = drifts;
    series.steps = steps
        .into_iter()
        .map(|step| Step {
            commit: series.points[step.at].commit.clone(),
            at: step.at,
            between: step.between,
            place_probability: step.place_probability,
            ratio: step.ratio.value.is_finite().then_some(step.ratio),
            p: step.p,
        })
        .collect();
    series
}

/// A commit stands after all its ancestors; of two that do not know each other the older one stands first.
fn order(commit: &Commit) -> (u64, i64, &str) {
    (commit.ancestors, commit.committed_unix_s, &commit.id)
}

/// The points since the last step: what a new recording is to be compared with. From the last commit on that may be
/// the first of the new level.
pub fn since(series: &Series) -> &[Point] {
    let from = series.steps.last().map_or(0, |step| step.between.1.min(series.points.len().saturating_sub(1)));
    &series.points[from..]
}

#[cfg(test)]
mod tests;
