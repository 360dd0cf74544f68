//! What a memory course says: each version of a program at each checkpoint, over several runs. Pure.

use crate::watch::{Checkpoint, Total};
use model::Bytes;
use serde::Serialize;
use stats::{Estimate, Random};

/// The runs of one version: its name, and the checkpoints of each run.
pub type Runs<'a> = (&'a str, &'a [Vec<Checkpoint>]);

/// One checkpoint of all versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "CourseCheckpoint"))]
pub struct AtCheckpoint {
    /// Its name.
    pub name: String,
    /// The versions, in the order of the scenario.
    pub versions: Vec<OfVersion>,
}

/// One version at a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "CourseVersion"))]
pub struct OfVersion {
    /// Its name.
    pub version: String,
    /// Median of the seconds since the start.
    pub at_s: Option<f64>,
    /// Sum of the proportional sizes.
    pub pss: Figure,
    /// Sum of the unique sizes.
    pub uss: Figure,
    /// Sum of the resident sizes.
    pub rss: Figure,
    /// Number of processes.
    pub processes: Figure,
}

/// Names of the sizes.
pub const SIZES: [&str; 3] = ["pss", "uss", "rss"];

impl OfVersion {
    /// The sizes, as [`SIZES`] names them.
    pub fn sizes(&self) -> [(&'static str, &Figure); 3] {
        let [pss, uss, rss] = SIZES;
        [(pss, &self.pss), (uss, &self.uss), (rss, &self.rss)]
    }
}

/// A figure in all runs that came to the checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "CourseFigure"))]
pub struct Figure {
    /// Each run.
    pub runs: Vec<f64>,
    /// Their median with its interval; `None`: no run came there.
    pub median: Option<Estimate>,
    /// The median by that of the first version; `None`: it is that one, or one of both is not known.
    pub to_first: Option<Estimate>,
}

/// What all runs say, checkpoint by checkpoint, in the order of the first run that has them.
pub fn checkpoints(versions: &[Runs<'_>]) -> Vec<AtCheckpoint> {
    let mut names: Vec<&str> = Vec::new();
    for checkpoint in versions.iter().flat_map(|(_, runs)| runs.iter()).flatten() {
        if !names.contains(&checkpoint.name.as_str()) {
            names.push(&checkpoint.name);
        }
    }
    let at = |name: &str| AtCheckpoint { name: name.to_owned(), versions: of_versions(versions, name) };
    names.into_iter().map(at).collect()
}

fn of_versions(versions: &[Runs<'_>], name: &str) -> Vec<OfVersion> {
    let there = |runs: &[Vec<Checkpoint>]| -> Vec<Checkpoint> {
        runs.iter().filter_map(|run| run.iter().find(|it| it.name == name).cloned()).collect()
    };
    let first = versions.first().map(|(_, runs)| there(runs)).unwrap_or_default();
    versions
        .iter()
        .enumerate()
        .map(|(index, (version, runs))| {
            let runs = there(runs);
            let figure = |of: &dyn Fn(&Total) -> f64| {
                let values = |runs: &[Checkpoint]| runs.iter().map(|it| of(&it.total)).collect::<Vec<f64>>();
                Figure::new(values(&runs), (index > 0).then(|| values(&first)))
            };
            let bytes = |bytes: Bytes| bytes.0 as f64;
            let seconds: Vec<f64> = runs.iter().map(|it| it.at_s).collect();
            OfVersion {
                version: (*version).to_owned(),
                at_s: (!seconds.is_empty()).then(|| stats::quantile(&seconds, 0.5)),
                pss: figure(&|total| bytes(total.pss)),
                uss: figure(&|total| bytes(total.uss)),
                rss: figure(&|total| bytes(total.rss)),
                processes: figure(&|total| total.processes as f64),
            }
        })
        .collect()
}

impl Figure {
    fn new(runs: Vec<f64>, first: Option<Vec<f64>>) -> Self {
        let median = (!runs.is_empty()).then(|| stats::median(&runs, &mut Random::of_values(&[&runs])));
        let comparable =
            first.filter(|first| !runs.is_empty() && !first.is_empty() && stats::quantile(first, 0.5) > 0.0);
        let to_first =
            comparable.map(|first| stats::ratio_of_medians(&runs, &first, &mut Random::of_values(&[&runs, &first])));
        Self { runs, median, to_first }
    }
}

/// Which run lies in the middle at a checkpoint, by its PSS: whose trees stand for all. `None`: no run came there.
pub fn middle(runs: &[Vec<Checkpoint>], name: &str) -> Option<usize> {
    let mut there: Vec<(Bytes, usize)> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| Some((run.iter().find(|it| it.name == name)?.total.pss, index)))
        .collect();
    there.sort();
    there.get(there.len().saturating_sub(1) / 2).map(|(_, index)| *index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pss: u64, names: &[&str]) -> Vec<Checkpoint> {
        let at = |(at, name): (usize, &&str)| Checkpoint {
            name: (*name).to_owned(),
            at_s: at as f64,
            total: Total { processes: 2, pss: Bytes(pss + at as u64), rss: Bytes(2 * pss), ..Total::default() },
            reports: None,
        };
        names.iter().enumerate().map(at).collect()
    }

    #[test]
    fn versions_are_compared_at_each_checkpoint() {
        let old: Vec<_> = [100, 104, 96].map(|pss| run(pss, &["start", "loaded"])).into();
        let new = vec![run(150, &["start", "loaded", "closed"]), run(160, &["start"]), run(158, &["start"])];
        let told = checkpoints(&[("1", &old), ("2", &new)]);
        let names: Vec<&str> = told.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["start", "loaded", "closed"]);
        let [first, second] = &told[0].versions[..] else { panic!("{told:?}") };
        assert_eq!((first.pss.median.unwrap().value, second.pss.median.unwrap().value), (100.0, 158.0));
        assert_eq!((first.pss.to_first, second.pss.to_first.unwrap().value), (None, 1.58));
        assert!(second.pss.to_first.unwrap().interval.is_some());
        let [first, second] = &told[2].versions[..] else { panic!("{told:?}") };
        assert_eq!((first.pss.median, second.pss.to_first), (None, None));
        assert_eq!(told[1].versions[1].at_s, Some(1.0));
    }

    #[test]
    fn the_run_in_the_middle_stands_for_all() {
        let runs: Vec<_> = [130, 100, 110, 500, 90].map(|pss| run(pss, &["start"])).into();
        assert_eq!((middle(&runs, "start"), middle(&runs, "never")), (Some(2), None));
        assert_eq!(middle(&runs[..2], "start"), Some(1), "of an even number the lower of both");
    }
}
