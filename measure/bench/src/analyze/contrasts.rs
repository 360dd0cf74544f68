//! Ratios and differences between cells of one recording, the noise floor, and the tracer's own cost.
//!
//! Runs of one recording are taken in random blocks that hold every cell once, so runs of the same block are pairs:
//! what slowed down that part of the recording slowed down both.

use super::{Group, Input, cpu_s, difference_of_differences, groups, permutation_p, ratio_of_medians, wall_s};
use crate::report::{CellName, Contrast, Difference, Method, NoiseFloor, NoiseState, Overhead};
use model::{CacheState, RunKind, RunRow};
use stats::{Estimate, Pairing};
use std::collections::BTreeMap;

/// Fewest pairs for a paired ratio.
const FEWEST_PAIRS: usize = 3;

/// States of one variant against its fastest state, and variants of one state against the first variant.
/// With `--aa` variants do not differ: their ratios are the noise floor.
pub(super) fn contrasts(input: &Input, timed: &[Group]) -> Vec<Contrast> {
    let several = timed.iter().any(|group| group.variant != timed[0].variant);
    let mut contrasts = Vec::new();
    for (at, new) in timed.iter().enumerate() {
        let fastest = timed.iter().position(|group| group.variant == new.variant).filter(|&fastest| fastest < at);
        if let Some(fastest) = fastest {
            let of = if several { format!(" ({})", new.variant_name) } else { String::new() };
            let what = format!("{} / {}{of}", new.state, timed[fastest].state);
            contrasts.extend(contrast(what, new, &timed[fastest]));
        }
    }
    for (old, new) in pairs_of_variants(input, timed) {
        let what = format!("{} / {} ({})", new.variant_name, old.variant_name, new.state);
        contrasts.extend(contrast(what, new, old));
    }
    contrasts
}

/// (old, new) cells in the same state: every further variant beside the first one that has the state.
fn pairs_of_variants<'a, 'b>(input: &Input, timed: &'a [Group<'b>]) -> Vec<(&'a Group<'b>, &'a Group<'b>)> {
    if input.options.same_program {
        return Vec::new();
    }
    all_pairs_of_variants(timed)
}

fn all_pairs_of_variants<'a, 'b>(timed: &'a [Group<'b>]) -> Vec<(&'a Group<'b>, &'a Group<'b>)> {
    let first = |state: CacheState| timed.iter().find(|group| group.state == state);
    let mut pairs: Vec<_> = timed
        .iter()
        .filter_map(|new| first(new.state).map(|old| (old, new)))
        .filter(|(old, new)| old.variant != new.variant)
        .collect();
    pairs.sort_by_key(|(_, new)| (new.state, new.variant));
    pairs
}

/// `None` if a time is 0, so that there is no ratio.
fn contrast(what: String, new: &Group, old: &Group) -> Option<Contrast> {
    let (new_wall, old_wall) = (new.wall(), old.wall());
    let ratio = ratio_of_medians(&new_wall, &old_wall);
    if !(ratio.value.is_finite() && ratio.value > 0.0) {
        return None;
    }
    let (new_paired, old_paired) = paired(new, old, wall_s);
    let pairs = new_paired.len();
    let in_pairs = Some(stats::paired_ratio(&new_paired, &old_paired))
        .filter(|ratio| pairs >= FEWEST_PAIRS && ratio.value.is_finite());
    let p = match in_pairs {
        Some(_) => permutation_p(&new_paired, &old_paired, Pairing::Paired),
        None => permutation_p(&new_wall, &old_wall, Pairing::Independent),
    };
    let method = Method::RatioOfMedians;
    Some(Contrast { what, new: name(new), old: name(old), ratio, in_pairs, p, method, pairs: pairs as u32 })
}

fn name(group: &Group) -> CellName {
    CellName { variant: group.variant, variant_name: group.variant_name.clone(), state: group.state }
}

/// Ratio of a figure, paired by block where at least [`FEWEST_PAIRS`] blocks hold both; else of medians. With it, how
/// it was made and the number of pairs.
fn ratio(new: &Group, old: &Group, figure: impl Fn(&RunRow) -> f64 + Copy) -> Option<(Estimate, Method, u32)> {
    let (new_paired, old_paired) = paired(new, old, figure);
    let pairs = new_paired.len();
    let (ratio, method) = if pairs >= FEWEST_PAIRS {
        (stats::paired_ratio(&new_paired, &old_paired), Method::PairedLogRatio)
    } else {
        (ratio_of_medians(&new.of(figure), &old.of(figure)), Method::RatioOfMedians)
    };
    (ratio.value.is_finite() && ratio.value > 0.0).then_some((ratio, method, pairs as u32))
}

/// A figure of the runs that share a block, block by block. A cell has one run that counts in a block; should
/// there be more, the last one is taken.
pub(crate) fn paired(new: &Group, old: &Group, figure: impl Fn(&RunRow) -> f64) -> (Vec<f64>, Vec<f64>) {
    let by_block =
        |group: &Group| -> BTreeMap<u32, f64> { group.runs.iter().map(|(row, _)| (row.block, figure(row))).collect() };
    let old = by_block(old);
    by_block(new).into_iter().filter_map(|(block, new)| old.get(&block).map(|&old| (new, old))).unzip()
}

/// By how much the cost of every colder state differs between the first variant and each further one.
pub(super) fn differences(input: &Input, timed: &[Group]) -> Vec<Difference> {
    let cell = |variant: u32, state| timed.iter().find(|group| (group.variant, group.state) == (variant, state));
    let mut differences = Vec::new();
    for (old, new) in pairs_of_variants(input, timed) {
        let hot = CacheState::Hot;
        let (Some(old_hot), Some(new_hot)) = (cell(old.variant, hot), cell(new.variant, hot)) else { continue };
        if new.state == hot {
            continue;
        }
        let slow = new.state;
        let what = format!("({slow}-hot) of {} minus ({slow}-hot) of {}", new.variant_name, old.variant_name);
        let difference_s = difference_of_differences([&new.wall(), &new_hot.wall(), &old.wall(), &old_hot.wall()]);
        let (old, new) = (old.variant_name.clone(), new.variant_name.clone());
        differences.push(Difference { what, slow, fast: hot, old, new, difference_s });
    }
    differences
}

/// The program against itself, in each state. `None` without `--aa` or with a single variant.
pub(super) fn noise_floor(input: &Input, timed: &[Group]) -> Option<NoiseFloor> {
    if !input.options.same_program {
        return None;
    }
    let states: Vec<NoiseState> = all_pairs_of_variants(timed)
        .into_iter()
        .filter_map(|(old, new)| {
            let what = format!("{} / {} ({})", new.variant_name, old.variant_name, new.state);
            let contrast = contrast(what, new, old)?;
            let (new_wall, old_wall) = paired(new, old, wall_s);
            Some(NoiseState {
                state: new.state,
                pairs: contrast.pairs,
                ratio: contrast.in_pairs.unwrap_or(contrast.ratio),
                p: contrast.p,
                smallest_change: stats::detectable_change(&new_wall, &old_wall),
            })
        })
        .collect();
    (!states.is_empty()).then_some(NoiseFloor { states })
}

/// Traced runs over timed runs of the same variant and state.
pub(super) fn overhead(input: &Input, timed: &[Group]) -> Vec<Overhead> {
    let with_timed = |traced: Group| {
        let timed = timed.iter().find(|group| (group.variant, group.state) == (traced.variant, traced.state))?;
        // The traced run that learns what a start needs is made before the first block, not in it; the method is
        // that of the wall time, which is never 0.
        let (wall_ratio, method, _) = ratio(&traced, timed, wall_s)?;
        let cpu_ratio = ratio(&traced, timed, cpu_s).map(|(ratio, ..)| ratio);
        Some(Overhead {
            variant_name: traced.variant_name.clone(),
            state: traced.state,
            cpu_ratio,
            wall_ratio: Some(wall_ratio),
            traced_runs: traced.runs.len() as u32,
            timed_runs: timed.runs.len() as u32,
            method,
        })
    };
    groups(input, RunKind::Trace).into_iter().filter_map(with_timed).collect()
}
