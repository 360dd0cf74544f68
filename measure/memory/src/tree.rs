//! The trees of about:memory: paths become trees, chains are merged, small things are put together, what nobody
//! reported gets a name.
//!
//! Pure; its result is what the text and the JSON document show.

use crate::file::{Kind, MemoryFile, Presence, Report, Units};
use model::{Warning, WarningKind};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What has less than this share of its tree, in per cent, is tiny.
const SIGNIFICANT_PERCENT: i128 = 1;
const FAKE_CHILD: &str = "(fake child)";
/// Names of the process that shows the report begin so.
const MAIN: &str = "Main Process";
/// Bytes in all blocks of the heap.
pub(crate) const HEAP_ALLOCATED: &str = "heap-allocated";
const UNCLASSIFIED_PATH: &str = "explicit/heap-unclassified";
const HEAP_UNCLASSIFIED: &str = "Memory of the heap that no reporter measured. It holds what the allocator rounds up \
    if reporters do not measure by usable size.";

/// Which nodes are shown one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Those with at least 1 % of their tree; the others are put together as `(N tiny)`.
    Significant,
    /// All.
    All,
}

/// What the figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Amounts.
    State,
    /// Changes from one file to another: sorted by the largest change below, negative amounts are right.
    Difference,
}

/// How trees are made.
pub struct Options<'a> {
    /// Which nodes are shown.
    pub detail: Detail,
    /// What the figures are.
    pub meaning: Meaning,
    /// Whether a process is wanted, by its name as shown.
    pub process: &'a dyn Fn(&str) -> bool,
    /// Whether a path is wanted.
    pub path: &'a dyn Fn(&str) -> bool,
}

/// What lies below a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Below {
    /// Shown.
    Open,
    /// There, but tiny: not shown unless asked for.
    Folded,
}

/// A node of a tree: a figure, or the sum of what is below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "MemoryNode"))]
pub struct Node {
    /// Its name; names of a merged chain joined by `/`. `\` in it stands for a slash.
    pub name: String,
    /// In the unit of the tree.
    pub amount: i64,
    /// Unit of the tree.
    pub units: Units,
    /// What it is.
    pub description: String,
    /// Reports of this path that were added up.
    pub reports: usize,
    /// In differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub presence: Option<Presence>,
    /// Whether the kids are shown.
    pub below: Below,
    /// Largest amount of this node and all below, without their signs.
    #[serde(skip)]
    pub largest: u64,
    /// What it is the sum of, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "ts", ts(optional, as = "Option<Vec<Node>>"))]
    pub kids: Vec<Node>,
}

/// What one process says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "MemoryProcess"))]
pub struct Process {
    /// Its name.
    pub name: String,
    /// The explicit tree first, then the others by name.
    pub trees: Vec<Node>,
    /// Single figures, by name.
    pub others: Vec<Node>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// The processes of a file: the main one first, then by resident memory.
pub fn build(file: &MemoryFile, options: &Options<'_>) -> Vec<Process> {
    let mut by_name: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
    for report in &file.reports {
        by_name.entry(process_name(report)).or_default().push(report);
    }
    let mut processes: Vec<_> = by_name.into_iter().filter(|(name, _)| (options.process)(name)).collect();
    processes.sort_by_cached_key(|(name, reports)| {
        let resident = reports.iter().find(|report| report.path == "resident" && report.amount != 0);
        let resident = resident.map_or(-1, |report| report.amount);
        (!name.starts_with(MAIN), Reverse(resident), *name)
    });
    let made = processes.into_iter().map(|(name, reports)| process(name, &reports, file.has_usable_size, options));
    made.filter(|process| !process.trees.is_empty() || !process.others.is_empty()).collect()
}

/// Resident memory of all processes: that of the main one, and what each of the others has alone, or all if it does not
/// say that.
pub fn resident(file: &MemoryFile) -> Option<i64> {
    let mut by_process: BTreeMap<&str, [Option<i64>; 2]> = BTreeMap::new();
    for report in file.reports.iter().filter(|report| report.units == Units::Bytes) {
        let [all, unique] = by_process.entry(process_name(report)).or_default();
        match report.path.as_str() {
            "resident" => *all = Some(report.amount),
            "resident-unique" => *unique = Some(report.amount),
            _ => {}
        }
    }
    let of_each = by_process.into_iter().filter_map(|(name, [all, unique])| match name.starts_with(MAIN) {
        true => all,
        false => unique.or(all),
    });
    of_each.reduce(i64::saturating_add)
}

fn process_name(report: &Report) -> &str {
    if report.process.is_empty() { MAIN } else { &report.process }
}

/// A node while its kids are still being found.
struct Sprout {
    units: Units,
    leaf: Option<Node>,
    kids: BTreeMap<String, Sprout>,
}

impl Sprout {
    fn new(units: Units) -> Self {
        Self { units, leaf: None, kids: BTreeMap::new() }
    }

    fn add(&mut self, name: &str, report: &Report) {
        let node = self.leaf.get_or_insert_with(|| Node {
            name: name.to_owned(),
            amount: 0,
            units: report.units,
            description: report.description.clone(),
            reports: 0,
            presence: report.presence,
            below: Below::Open,
            largest: 0,
            kids: Vec::new(),
        });
        node.amount = node.amount.saturating_add(report.amount);
        node.reports += 1;
        node.largest = node.amount.unsigned_abs();
    }

    /// The tree; `merge`: whether it may join its only kid.
    fn grow(mut self, name: String, merge: Merge, wrong: &mut Vec<String>) -> Node {
        if let Some(leaf) = self.leaf.take() {
            if self.kids.is_empty() {
                return leaf;
            }
            // A path that is a leaf here and a tree there: in two files that is a difference, in one file a mistake.
            wrong.push(name.clone());
            let mut fake = Sprout::new(self.units);
            fake.leaf = Some(Node { name: FAKE_CHILD.into(), presence: Some(Presence::Added), ..leaf });
            self.kids.insert(FAKE_CHILD.into(), fake);
        }
        let mut kids: Vec<Node> = self.kids.into_iter().map(|(name, kid)| kid.grow(name, Merge::Yes, wrong)).collect();
        if merge == Merge::Yes && kids.len() == 1 {
            let kid = kids.remove(0);
            return Node { name: format!("{name}/{}", kid.name), ..kid };
        }
        let amount = kids.iter().fold(0i64, |sum, kid| sum.saturating_add(kid.amount));
        let largest = kids.iter().map(|kid| kid.largest).fold(amount.unsigned_abs(), u64::max);
        Node {
            name,
            amount,
            units: self.units,
            description: "The sum of all entries below this one.".into(),
            reports: 1,
            presence: None,
            below: Below::Open,
            largest,
            kids,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Merge {
    Yes,
    No,
}

fn process(name: &str, reports: &[&Report], has_usable_size: bool, options: &Options<'_>) -> Process {
    let mut warnings = Vec::new();
    let mut trees: BTreeMap<&str, Sprout> = BTreeMap::new();
    let mut others: BTreeMap<&str, Sprout> = BTreeMap::new();
    let unclassified = unclassified(reports, has_usable_size, options.meaning, &mut warnings);
    for report in reports.iter().copied().chain(&unclassified).filter(|report| (options.path)(&report.path)) {
        // There to say that it is known, and has not changed.
        if options.meaning == Meaning::Difference && report.path == HEAP_ALLOCATED && report.amount == 0 {
            continue;
        }
        let mut names = report.path.split('/');
        let root = names.next().unwrap_or_default();
        if !report.path.contains('/') {
            others.entry(root).or_insert_with(|| Sprout::new(report.units)).add(root, report);
            continue;
        }
        let mut sprout = trees.entry(root).or_insert_with(|| Sprout::new(report.units));
        if sprout.units != report.units {
            let text = format!("{name}: '{}' has another unit than its tree and is left out", report.path);
            warnings.push(Warning::new(WarningKind::Note, text));
            continue;
        }
        let mut last = root;
        for name in names {
            sprout = sprout.kids.entry(name.to_owned()).or_insert_with(|| Sprout::new(report.units));
            last = name;
        }
        sprout.add(last, report);
    }
    let mut wrong = Vec::new();
    let mut grown: Vec<Node> =
        trees.into_iter().map(|(name, tree)| tree.grow(name.to_owned(), Merge::No, &mut wrong)).collect();
    if options.meaning == Meaning::State && !wrong.is_empty() {
        let text =
            format!("{name}: only leaves may carry reports, but these have others below them: {}", wrong.join(", "));
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    grown.sort_by(|a, b| (a.name != "explicit").cmp(&(b.name != "explicit")).then_with(|| a.name.cmp(&b.name)));
    for tree in &mut grown {
        arrange(tree, tree.amount.saturating_abs(), options);
        if options.meaning == Meaning::State {
            unfold(tree, tree.amount);
        }
    }
    let others = others.into_iter().map(|(name, leaf)| leaf.grow(name.to_owned(), Merge::No, &mut wrong)).collect();
    Process { name: name.to_owned(), trees: grown, others, warnings }
}

/// `heap-allocated` without what is reported as heap below `explicit/`.
fn unclassified(
    reports: &[&Report],
    has_usable_size: bool,
    meaning: Meaning,
    warnings: &mut Vec<Warning>,
) -> Option<Report> {
    // Reports that were exported by areweslimyet.com have it already.
    if reports.iter().any(|report| report.path == UNCLASSIFIED_PATH) {
        return None;
    }
    let heap = |report: &&&Report| report.path.starts_with("explicit/") && report.kind == Kind::Heap;
    let reported = reports.iter().filter(heap).fold(0i64, |sum, report| sum.saturating_add(report.amount));
    let explicit = reports.iter().find(|report| report.path.starts_with("explicit/"))?;
    let Some(allocated) = reports.iter().find(|report| report.path == HEAP_ALLOCATED && report.units == Units::Bytes)
    else {
        let text = format!(
            "{}: 'heap-allocated' is not reported, so 'heap-unclassified' is not known and the explicit tree is too \
                small",
            explicit.process
        );
        warnings.push(Warning::new(WarningKind::Note, text));
        return None;
    };
    let allocated = allocated.amount;
    let amount = allocated.saturating_sub(reported);
    if meaning == Meaning::Difference && amount == 0 {
        return None;
    }
    if meaning == Meaning::State && amount < 0 {
        let text = format!(
            "the reporters say {reported} bytes of heap, but only {allocated} are allocated: something is reported \
                twice or was freed"
        );
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    if !has_usable_size {
        let text = "blocks were not measured by usable size: 'heap-unclassified' holds what the allocator rounds up";
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    Some(Report {
        process: String::new(),
        path: UNCLASSIFIED_PATH.into(),
        kind: Kind::Heap,
        units: Units::Bytes,
        amount,
        description: HEAP_UNCLASSIFIED.into(),
        presence: None,
    })
}

/// Whether an amount cannot be right: it is negative, or more than its whole tree. Changes may be either.
pub fn is_doubtful(amount: i64, total: i64) -> bool {
    !(0..=total).contains(&amount)
}

/// Opens what is folded if there is something doubtful in it; whether there is.
fn unfold(node: &mut Node, total: i64) -> bool {
    let mut found = is_doubtful(node.amount, total);
    for kid in &mut node.kids {
        found |= unfold(kid, total);
    }
    if found {
        node.below = Below::Open;
    }
    found
}

/// What decides on the order and on being tiny.
fn weight(node: &Node, meaning: Meaning) -> i64 {
    match meaning {
        Meaning::State => node.amount,
        Meaning::Difference => i64::try_from(node.largest).unwrap_or(i64::MAX),
    }
}

/// Sorts the kids and puts the tiny ones together.
fn arrange(node: &mut Node, total: i64, options: &Options<'_>) {
    let tiny = |kid: &Node| {
        let weight = i128::from(weight(kid, options.meaning));
        options.detail == Detail::Significant && total > 0 && weight * 100 < SIGNIFICANT_PERCENT * i128::from(total)
    };
    let key = |kid: &Node| (Reverse(weight(kid, options.meaning)), kid.name.clone());
    for kid in &mut node.kids {
        arrange(kid, total, options);
    }
    node.kids.sort_by_cached_key(key);
    let Some(first) = node.kids.iter().position(tiny) else { return };
    if first == 0 {
        node.below = Below::Folded;
    } else if node.kids.len() - first > 1 {
        let kids = node.kids.split_off(first);
        let amount: i64 = kids.iter().fold(0, |sum, kid| sum.saturating_add(kid.amount));
        node.kids.push(Node {
            name: format!("({} tiny)", kids.len()),
            amount,
            units: node.units,
            description: format!("{} sub-trees that have less than {SIGNIFICANT_PERCENT} % of their tree.", kids.len()),
            reports: 1,
            presence: None,
            below: Below::Folded,
            largest: kids.iter().map(|kid| kid.largest).fold(amount.unsigned_abs(), u64::max),
            kids,
        });
        node.kids.sort_by_cached_key(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: &str, kind: Kind, amount: i64) -> Report {
        Report {
            process: String::new(),
            path: path.into(),
            kind,
            units: Units::Bytes,
            amount,
            description: "A.".into(),
            presence: None,
        }
    }

    fn trees(reports: Vec<Report>, detail: Detail) -> Vec<Process> {
        let options = Options { detail, meaning: Meaning::State, process: &|_| true, path: &|_| true };
        build(&MemoryFile::new(reports), &options)
    }

    /// `name=amount[kids]`, `*` where they are folded.
    fn drawn(node: &Node) -> String {
        let kids: Vec<String> = node.kids.iter().map(drawn).collect();
        let times = if node.reports > 1 { format!("x{}", node.reports) } else { String::new() };
        let fold = if node.below == Below::Folded { "*" } else { "" };
        let kids = if kids.is_empty() { String::new() } else { format!("{fold}[{}]", kids.join(" ")) };
        format!("{}={}{times}{kids}", node.name, node.amount)
    }

    #[test]
    fn small_nodes_are_put_together_and_chains_are_merged() {
        let reports = || {
            vec![
                report("explicit/a/b/c", Kind::Heap, 500),
                report("explicit/d/x", Kind::Heap, 300),
                report("explicit/d/y", Kind::Heap, 5),
                report("explicit/d/z", Kind::Heap, 4),
                report("explicit/e", Kind::NonHeap, 50),
                report("explicit/e", Kind::NonHeap, 51),
                report("explicit/f/s", Kind::NonHeap, 4),
                report("explicit/f/t", Kind::NonHeap, 3),
                report("heap-allocated", Kind::Other, 889),
            ]
        };
        let shown = trees(reports(), Detail::Significant);
        assert_eq!(
            drawn(&shown[0].trees[0]),
            "explicit=997[a/b/c=500 d=309[x=300 (2 tiny)=9*[y=5 z=4]] e=101x2 heap-unclassified=80 f=7*[s=4 t=3]]"
        );
        let all = trees(reports(), Detail::All);
        assert_eq!(
            drawn(&all[0].trees[0]),
            "explicit=997[a/b/c=500 d=309[x=300 y=5 z=4] e=101x2 heap-unclassified=80 f=7[s=4 t=3]]"
        );
        assert_eq!(drawn(&all[0].others[0]), "heap-allocated=889");
    }

    #[test]
    fn what_cannot_be_is_warned_of() {
        let shown =
            trees(vec![report("explicit/a", Kind::Heap, 10), report("explicit/a/b", Kind::Heap, 5)], Detail::All);
        assert_eq!(drawn(&shown[0].trees[0]), "explicit=15[a=15[(fake child)=10 b=5]]");
        let texts: Vec<&str> = shown[0].warnings.iter().map(|warning| warning.text.as_str()).collect();
        assert!(texts[0].contains("'heap-allocated' is not reported") && texts[1].contains("only leaves"), "{texts:?}");
        let twice =
            trees(vec![report("explicit/a", Kind::Heap, 10), report("heap-allocated", Kind::Other, 6)], Detail::All);
        assert!(twice[0].warnings[0].text.contains("reported twice"));
        assert_eq!(drawn(&twice[0].trees[0]), "explicit=6[a=10 heap-unclassified=-4]");
    }

    #[test]
    fn what_is_unclassified_must_be_known() {
        // Exported by areweslimyet.com: it is there already.
        let reports = ["explicit/a", "explicit/heap-unclassified"].map(|path| report(path, Kind::Heap, 10));
        let shown = trees([&reports[..], &[report(HEAP_ALLOCATED, Kind::Other, 99)]].concat(), Detail::All);
        assert_eq!(drawn(&shown[0].trees[0]), "explicit=20[a=10 heap-unclassified=10]");
        // Nothing explicit: there is no tree.
        assert!(trees(vec![report(HEAP_ALLOCATED, Kind::Other, 99)], Detail::All)[0].trees.is_empty());
        // In a difference: a heap of the same size, and one of which nothing is said.
        let file = |amount, heap: Option<i64>| {
            let heap = heap.map(|amount| report(HEAP_ALLOCATED, Kind::Other, amount));
            MemoryFile::new(std::iter::once(report("explicit/a", Kind::Heap, amount)).chain(heap).collect())
        };
        let all = Options { detail: Detail::All, meaning: Meaning::Difference, process: &|_| true, path: &|_| true };
        let of = |heap| build(&crate::diff::diff(&file(10, heap), &file(14, heap)), &all).remove(0);
        let known = of(Some(50));
        assert_eq!(drawn(&known.trees[0]), "explicit=0[a=4 heap-unclassified=-4]");
        assert!(known.others.is_empty() && known.warnings.is_empty(), "{known:?}");
        let unknown = of(None);
        assert_eq!((drawn(&unknown.trees[0]).as_str(), unknown.warnings.len()), ("explicit=4[a=4]", 1));
    }

    #[test]
    fn the_main_process_is_first_and_the_others_stand_by_size() {
        let of = |process: &str, amount| Report { process: process.into(), ..report("resident", Kind::Other, amount) };
        let shown =
            trees(vec![of("small", 1), of("big", 9), of("Main Process (pid 7)", 2), of("also small", 1)], Detail::All);
        let names: Vec<&str> = shown.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(names, ["Main Process (pid 7)", "big", "also small", "small"]);
    }

    #[test]
    fn a_hundredth_is_shown_and_one_tiny_node_alone_stays() {
        let of = |amounts: &[(&str, i64)]| {
            let reports = amounts.iter().map(|(path, amount)| report(path, Kind::Other, *amount)).collect();
            drawn(&trees(reports, Detail::Significant)[0].trees[0])
        };
        assert_eq!(of(&[("t/a", 980), ("t/b", 10), ("t/c", 10)]), "t=1000[a=980 b=10 c=10]", "1 % is not tiny");
        assert_eq!(of(&[("t/a", 982), ("t/b", 9), ("t/c", 9)]), "t=1000[a=982 (2 tiny)=18*[b=9 c=9]]");
        assert_eq!(of(&[("t/a", 991), ("t/b", 9)]), "t=1000[a=991 b=9]", "one is not put together with itself");
        assert_eq!(of(&[("t/a", 0), ("t/b", 0)]), "t=0[a=0 b=0]", "of nothing nothing is tiny");
    }

    #[test]
    fn doubtful_is_what_is_below_nothing_or_above_all() {
        let doubtful = [-1, 0, 10, 11].map(|amount| is_doubtful(amount, 10));
        assert_eq!(doubtful, [true, false, false, true]);
    }

    #[test]
    fn resident_memory_of_all_counts_what_each_has_alone() {
        let of =
            |process: &str, path: &str, amount| Report { process: process.into(), ..report(path, Kind::Other, amount) };
        let all = resident(&MemoryFile::new(vec![
            of("", "resident", 100),
            of("", "resident-unique", 70),
            of("web", "resident", 50),
            of("web", "resident-unique", 20),
            of("other", "resident", 5),
            Report { units: Units::Count, ..of("other", "resident-unique", 1) },
        ]));
        assert_eq!(all, Some(125), "all of the main one, what the others have alone or else all of it, bytes only");
        assert_eq!(resident(&MemoryFile::new(vec![report("explicit/a", Kind::Heap, 1)])), None);
    }

    #[test]
    fn amounts_at_the_edge_do_not_overflow() {
        let reports = vec![
            report("a/b", Kind::Other, i64::MAX),
            report("a/c", Kind::Other, i64::MAX),
            report("a/d", Kind::Other, i64::MIN),
        ];
        let tree = &trees(reports, Detail::Significant)[0].trees[0];
        assert_eq!((tree.amount, tree.kids.len()), (-1, 3), "of what is negative nothing is tiny");
    }
}
