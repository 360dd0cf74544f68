//! Two paths side by side: which steps they share, which are new, which are gone. Pure.

use crate::path::{Owner, Path, Step};
use serde::Serialize;
use std::collections::BTreeMap;

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On both paths.
    Both,
    /// On the first path alone.
    Gone,
    /// On the second path alone.
    New,
}

/// Steps of one object and type on the one path and on the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// On which path.
    pub place: Place,
    /// The object.
    pub object: String,
    /// The type.
    pub name: String,
    /// How long on the first path, in nanoseconds.
    pub before_ns: u64,
    /// How long on the second path, in nanoseconds.
    pub after_ns: u64,
}

/// Two paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// How long the first path is, in nanoseconds.
    pub before_ns: u64,
    /// How long the second path is, in nanoseconds.
    pub after_ns: u64,
    /// In the order of the paths.
    pub steps: Vec<Beside>,
    /// By object and type, whatever the order; greatest difference first.
    pub owners: Vec<Beside>,
    /// By type; greatest difference first. Their objects are empty.
    pub types: Vec<Beside>,
    /// Whether the steps were too many to be aligned one by one beyond what both paths begin and end with.
    pub is_coarse: bool,
}

/// `thaw.timeline-compare/1`
#[derive(Serialize)]
pub struct ComparisonDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The files of the first path.
    pub before: Vec<String>,
    /// The files of the second path.
    pub after: Vec<String>,
    /// Both.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// A table of so many cells is made to align steps.
const CELLS: usize = 25_000_000;

/// Compares two paths.
pub fn compare(before: &Path, after: &Path) -> Comparison {
    let (a, b) = (runs(&before.steps), runs(&after.steps));
    let (steps, is_coarse) = aligned(&a, &b);
    Comparison {
        before_ns: before.span_ns,
        after_ns: after.span_ns,
        steps,
        owners: sums(&before.owners, &after.owners),
        types: sums(&before.types, &after.types),
        is_coarse,
    }
}

/// An object, a type, and how long.
type Run<'p> = (&'p str, &'p str, u64);

/// Steps that follow one another and have one owner are one.
fn runs(steps: &[Step]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run> = Vec::new();
    for step in steps {
        match runs.last_mut() {
            Some((object, name, ns)) if (*object, *name) == (&step.object, &step.name) => *ns += step.ns,
            _ => runs.push((&step.object, &step.name, step.ns)),
        }
    }
    runs
}

fn same(a: &Run, b: &Run) -> bool {
    (a.0, a.1) == (b.0, b.1)
}

fn pair(place: Place, run: &Run, before_ns: u64, after_ns: u64) -> Beside {
    Beside { place, object: run.0.to_owned(), name: run.1.to_owned(), before_ns, after_ns }
}

/// The longest common subsequence, weighed by nothing: what both share in the same order.
fn aligned(a: &[Run], b: &[Run]) -> (Vec<Beside>, bool) {
    let both = |a: &Run, b: &Run| pair(Place::Both, a, a.2, b.2);
    let head = a.iter().zip(b).take_while(|(a, b)| same(a, b)).count();
    let (left_a, left_b) = (&a[head..], &b[head..]);
    let tail = left_a.iter().rev().zip(left_b.iter().rev()).take_while(|(a, b)| same(a, b)).count();
    let (mid_a, mid_b) = (&left_a[..left_a.len() - tail], &left_b[..left_b.len() - tail]);
    let mut all: Vec<Beside> = a[..head].iter().zip(b).map(|(a, b)| both(a, b)).collect();
    let columns = mid_b.len() + 1;
    let is_coarse = (mid_a.len() + 1).saturating_mul(columns) > CELLS;
    if is_coarse {
        all.extend(mid_a.iter().map(|run| pair(Place::Gone, run, run.2, 0)));
        all.extend(mid_b.iter().map(|run| pair(Place::New, run, 0, run.2)));
    } else {
        // How many both share from here on.
        let mut shared = vec![0_u32; (mid_a.len() + 1) * columns];
        for x in (0..mid_a.len()).rev() {
            for y in (0..mid_b.len()).rev() {
                shared[x * columns + y] = match same(&mid_a[x], &mid_b[y]) {
                    true => shared[(x + 1) * columns + y + 1] + 1,
                    false => shared[(x + 1) * columns + y].max(shared[x * columns + y + 1]),
                };
            }
        }
        let (mut x, mut y) = (0, 0);
        while x < mid_a.len() || y < mid_b.len() {
            if x < mid_a.len() && y < mid_b.len() && same(&mid_a[x], &mid_b[y]) {
                all.push(both(&mid_a[x], &mid_b[y]));
                (x, y) = (x + 1, y + 1);
            } else if y == mid_b.len()
                || (x < mid_a.len() && shared[(x + 1) * columns + y] >= shared[x * columns + y + 1])
            {
                all.push(pair(Place::Gone, &mid_a[x], mid_a[x].2, 0));
                x += 1;
            } else {
                all.push(pair(Place::New, &mid_b[y], 0, mid_b[y].2));
                y += 1;
            }
        }
    }
    all.extend(left_a[mid_a.len()..].iter().zip(&left_b[mid_b.len()..]).map(|(a, b)| both(a, b)));
    (all, is_coarse)
}

/// How long on each path, if it is there.
type Times = (Option<u64>, Option<u64>);

fn sums(before: &[Owner], after: &[Owner]) -> Vec<Beside> {
    let mut all: BTreeMap<(&str, &str), Times> = BTreeMap::new();
    let sum = |owner: &Owner| Some(owner.work_ns + owner.wait_ns);
    before.iter().for_each(|owner| all.entry((&owner.object, &owner.name)).or_default().0 = sum(owner));
    after.iter().for_each(|owner| all.entry((&owner.object, &owner.name)).or_default().1 = sum(owner));
    let row = |((object, name), (before, after)): ((&str, &str), Times)| {
        let place = match (before, after) {
            (Some(_), None) => Place::Gone,
            (None, _) => Place::New,
            _ => Place::Both,
        };
        pair(place, &(object, name, 0), before.unwrap_or(0), after.unwrap_or(0))
    };
    let mut all: Vec<Beside> = all.into_iter().map(row).collect();
    all.sort_by_key(|pair| std::cmp::Reverse(pair.before_ns.abs_diff(pair.after_ns)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(a: &[(&str, u64)], b: &[(&str, u64)]) -> Vec<(Place, String, u64, u64)> {
        let runs = |all: &[(&'static str, u64)]| all.iter().map(|(name, ns)| (*name, "", *ns)).collect::<Vec<Run>>();
        let leak = |all: &[(&str, u64)]| {
            let all: Vec<(&'static str, u64)> =
                all.iter().map(|(name, ns)| (&*Box::leak((*name).to_owned().into_boxed_str()), *ns)).collect();
            runs(&all)
        };
        let (pairs, _) = aligned(&leak(a), &leak(b));
        pairs.into_iter().map(|pair| (pair.place, pair.object, pair.before_ns, pair.after_ns)).collect()
    }

    #[test]
    fn steps_that_both_paths_have_in_one_order_are_side_by_side() {
        use Place::{Both, Gone, New};
        let of = |place, name: &str, before, after| (place, name.to_owned(), before, after);
        assert_eq!(
            seen(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)], &[("a", 5), ("c", 6), ("x", 7), ("d", 8)]),
            [of(Both, "a", 1, 5), of(Gone, "b", 2, 0), of(Both, "c", 3, 6), of(New, "x", 0, 7), of(Both, "d", 4, 8)]
        );
        assert_eq!(seen(&[("a", 1)], &[]), [of(Gone, "a", 1, 0)]);
        assert_eq!(seen(&[], &[("a", 1)]), [of(New, "a", 0, 1)]);
        assert_eq!(seen(&[("a", 1), ("b", 1)], &[("b", 2), ("a", 2)]).iter().filter(|step| step.0 == Both).count(), 1);
    }
}
