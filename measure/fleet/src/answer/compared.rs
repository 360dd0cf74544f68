//! Two versions class by class, and starts with a remedy against those without it.

use super::cells::{Class, Percentile};
use crate::engine::{Row, Rows};
use crate::hidden::{Counted, Hidden, hide};
use crate::questions::About;
use model::Result;
use serde::Serialize;
use stats::{
    Interval, Ratio, difference_of_estimates, holm, pooled_ratio, ratio_of_estimates, ratio_of_grouped_means,
    ratio_of_replicated,
};
use std::collections::BTreeMap;

/// Chance of one false word among all.
const LEVEL: f64 = 0.05;

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Number of starts.
    pub starts: i64,
    /// Distinct machines.
    pub machines: i64,
    /// Median of the times until ready.
    pub median: Percentile,
}

impl Side {
    fn of(row: Row<'_>) -> Result<Self> {
        let median = Percentile::of(row, 500)?;
        Ok(Self { starts: row.whole("n")?, machines: row.whole("machines")?, median })
    }
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The new version starts more slowly.
    Slower,
    /// The new version starts faster.
    Faster,
    /// No difference that chance could not make.
    Unclear,
}

/// How a figure moved between the versions.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// `user_us`, `system_us`, `read_bytes`, `major_faults`, `cold_share`.
    pub figure: &'static str,
    /// Mean of the old version, in the figure's unit; `None`: not known.
    pub old: Option<f64>,
    /// Mean of the new version, in the figure's unit; `None`: not known.
    pub new: Option<f64>,
    /// New over old; `None`: one of them is 0 or not known.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub interval: Option<Interval>,
    /// Chance of such a change if nothing moved, corrected for the figures of this class.
    pub p: f64,
}

/// A class of hardware with both versions.
#[derive(Clone, Debug, Serialize)]
pub struct Regression {
    /// Which application.
    pub app: String,
    /// Class of hardware.
    pub class: Class,
    /// The version that was compared with.
    pub old: Side,
    /// The version that is judged.
    pub new: Side,
    /// New less old median, in µs.
    pub difference_us: f64,
    /// Interval of the difference.
    pub difference_interval: Option<Interval>,
    /// New over old median.
    pub ratio: f64,
    /// Interval of the ratio.
    pub interval: Option<Interval>,
    /// Chance of such a ratio if nothing differs, corrected for the number of classes (Holm 1979).
    pub p: f64,
    /// What that means at 5 %.
    pub verdict: Verdict,
    /// The figure that moved most with a class that became slower; `None`: it did not, or none moved clearly.
    pub moved_most: Option<&'static str>,
    /// How the figures moved.
    pub moved: Vec<Moved>,
}

/// A class of one version, as far as the rule for small cells looks at it.
struct Half {
    app: String,
    version: String,
    class: Class,
    side: Side,
    parts: Vec<Part>,
    /// Median of each part.
    medians: Vec<f64>,
}

impl Counted for Half {
    fn machines(&self) -> u64 {
        self.side.machines as u64
    }

    fn total(&self) -> Option<String> {
        Some(format!("{} {}", self.app, self.version))
    }
}

/// Sums of a random group of machines: each figure's, with the number of starts that tell it.
type Part = [(f64, f64); FIGURES.len()];

const FIGURES: [&str; 5] = ["user_us", "system_us", "read_bytes", "major_faults", "cold_share"];

fn part(row: Row<'_>) -> Result<Part> {
    let pair = |sum: &str, count: &str| Ok::<_, model::Error>((row.whole(sum)? as f64, row.whole(count)? as f64));
    Ok([
        pair("sum_user_us", "starts")?,
        pair("sum_system_us", "starts")?,
        pair("sum_read_bytes", "starts_with_bytes")?,
        pair("sum_major_faults", "starts")?,
        pair("cold", "told")?,
    ])
}

pub(super) fn regressions(about: &About, rows: &Rows, k: u64) -> Result<(Vec<Regression>, Hidden)> {
    let mut halves: BTreeMap<(String, Class, String), Half> = BTreeMap::new();
    for row in rows.iter() {
        let (app, version, class) = (row.text("app")?, row.text("version")?, Class::of(row)?);
        let key = (app.clone(), class.clone(), version.clone());
        let side = Side::of(row)?;
        let new = || Half { app, version, class, side, parts: Vec::new(), medians: Vec::new() };
        let half = halves.entry(key).or_insert_with(new);
        half.parts.push(part(row)?);
        half.medians.push(row.whole("part_p50")? as f64);
    }
    // Each version is hidden as `classes` hides it.
    let (shown, hidden) = hide(halves.into_values().collect(), k);
    let mut pairs: BTreeMap<(String, Class), (Option<Half>, Option<Half>)> = BTreeMap::new();
    for half in shown {
        let pair = pairs.entry((half.app.clone(), half.class.clone())).or_default();
        match Some(&half.version) == about.old.as_ref() {
            true => pair.0 = Some(half),
            false => pair.1 = Some(half),
        }
    }
    let both = pairs.into_values().filter_map(|(old, new)| old.zip(new));
    let mut compared: Vec<Regression> = both.map(|(old, new)| compare(old, new)).collect();
    let adjusted = holm(&compared.iter().map(|one| one.p).collect::<Vec<_>>());
    for (one, p) in compared.iter_mut().zip(adjusted) {
        one.p = p;
        one.verdict = match p <= LEVEL {
            true if one.ratio > 1.0 => Verdict::Slower,
            true => Verdict::Faster,
            false => Verdict::Unclear,
        };
        if one.verdict == Verdict::Slower {
            let clear =
                one.moved.iter().filter(|moved| moved.p <= LEVEL && moved.ratio.is_some_and(|ratio| ratio > 1.0));
            let most = clear.max_by(|a, b| f64::total_cmp(&a.ratio.unwrap_or(0.0), &b.ratio.unwrap_or(0.0)));
            one.moved_most = most.map(|moved| moved.figure);
        }
    }
    Ok((compared, hidden))
}

fn compare(old: Half, new: Half) -> Regression {
    let (old_median, new_median) = (old.side.median.estimate(), new.side.median.estimate());
    // Of medians that stand in the answer, but as sure as the random groups of machines agree: the intervals of the
    // medians themselves take each machine as one start, and are wider.
    let ratio = ratio_of_replicated(new_median.value, &new.medians, old_median.value, &old.medians);
    let difference = difference_of_estimates(new_median, old_median);
    Regression {
        app: new.app,
        class: new.class,
        difference_us: difference.value,
        difference_interval: difference.interval,
        ratio: ratio.estimate.value,
        interval: ratio.estimate.interval,
        p: ratio.p,
        verdict: Verdict::Unclear,
        moved_most: None,
        moved: moved(&new.parts, &old.parts),
        old: old.side,
        new: new.side,
    }
}

fn moved(new: &[Part], old: &[Part]) -> Vec<Moved> {
    let one = |at: usize| {
        let column = |parts: &[Part]| parts.iter().map(|part| part[at]).collect::<Vec<_>>();
        let (new, old) = (column(new), column(old));
        let mean = |groups: &[(f64, f64)]| {
            let (sum, count) = groups.iter().fold((0.0, 0.0), |all, group| (all.0 + group.0, all.1 + group.1));
            (count > 0.0).then(|| sum / count)
        };
        let ratio = ratio_of_grouped_means(&new, &old);
        Moved {
            figure: FIGURES[at],
            old: mean(&old),
            new: mean(&new),
            ratio: Some(ratio.estimate.value).filter(|value| value.is_finite()),
            interval: ratio.estimate.interval,
            p: ratio.p,
        }
    };
    let mut all: Vec<Moved> = (0..FIGURES.len()).map(one).collect();
    let adjusted = holm(&all.iter().map(|moved| moved.p).collect::<Vec<_>>());
    all.iter_mut().zip(adjusted).for_each(|(moved, p)| moved.p = p);
    all
}

/// What a remedy does in the field.
#[derive(Clone, Debug, Serialize)]
pub struct RemedyEffect {
    /// Which application.
    pub app: String,
    /// `preload` or `packed`.
    pub remedy: String,
    /// Groups of the same version, class and use of the other remedy, with and without this one.
    pub strata: u64,
    /// Starts with the remedy in these groups.
    pub starts_with: i64,
    /// Starts without it in these groups.
    pub starts_without: i64,
    /// With over without: of medians, weighted over the groups by how sure each is; `None`: not known.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub interval: Option<Interval>,
    /// Chance of such a ratio if the remedy did nothing.
    pub p: f64,
}

struct Arm {
    stratum: (String, String, String, Class, i64),
    has: bool,
    side: Side,
}

impl Counted for Arm {
    fn machines(&self) -> u64 {
        self.side.machines as u64
    }

    fn total(&self) -> Option<String> {
        let (remedy, app, version, class, _) = &self.stratum;
        Some(format!("{remedy} {app} {version} {} {} {}", class.cpus, class.memory, class.disk))
    }
}

pub(super) fn remedies(rows: &Rows, k: u64) -> Result<(Vec<RemedyEffect>, Hidden)> {
    let arm = |row: Row<'_>| {
        Ok(Arm {
            stratum: (
                row.text("remedy")?,
                row.text("app")?,
                row.text("version")?,
                Class::of(row)?,
                row.whole("other")?,
            ),
            has: row.whole("has")? == 1,
            side: Side::of(row)?,
        })
    };
    let (shown, hidden) = hide(rows.iter().map(arm).collect::<Result<_>>()?, k);
    let mut pairs: BTreeMap<_, (Option<Side>, Option<Side>)> = BTreeMap::new();
    for arm in shown {
        let pair = pairs.entry(arm.stratum).or_default();
        *(if arm.has { &mut pair.0 } else { &mut pair.1 }) = Some(arm.side);
    }
    let mut effects: BTreeMap<(String, String), (Vec<Ratio>, i64, i64)> = BTreeMap::new();
    for ((remedy, app, ..), pair) in pairs {
        let Some((with, without)) = pair.0.zip(pair.1) else { continue };
        let effect = effects.entry((app, remedy)).or_default();
        effect.0.push(ratio_of_estimates(with.median.estimate(), without.median.estimate()));
        effect.1 += with.starts;
        effect.2 += without.starts;
    }
    let effect = |((app, remedy), (ratios, starts_with, starts_without)): (_, (Vec<Ratio>, _, _))| {
        let pooled = pooled_ratio(&ratios);
        RemedyEffect {
            app,
            remedy,
            strata: ratios.len() as u64,
            starts_with,
            starts_without,
            ratio: Some(pooled.estimate.value).filter(|value| value.is_finite()),
            interval: pooled.estimate.interval,
            p: pooled.p,
        }
    };
    Ok((effects.into_iter().map(|((app, remedy), rest)| effect(((app, remedy), rest))).collect(), hidden))
}
