//! The difference of two reports, with what is of one run only taken out of the names first: process and thread
//! numbers, addresses, window ids, UUIDs of null principals, segment counts, where Firefox is installed.
//!
//! The list is that of about:memory, so that both say the same of the same files.

use crate::file::{MemoryFile, Presence, Report};
use crate::tree::HEAP_ALLOCATED;
use model::{Warning, WarningKind};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Which path a rule is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    All,
    AddressSpace,
}

struct Rule {
    found: Regex,
    instead: &'static str,
    times: usize,
    on: Where,
}

/// Any number of times.
const ALL: usize = 0;

static PIDS: LazyLock<Regex> = LazyLock::new(|| regex(r"pid([ =]|: )[0-9]+"));

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    [
        (r"\(tid=[0-9]+\)", "(tid=NNN)", 1, Where::All),
        (r"#[0-9]+ \(tid=NNN\)", "#N (tid=NNN)", 1, Where::All),
        (r"zone\(0x[0-9A-Fa-f]+\)/", "zone(0xNNN)/", 1, Where::All),
        (r"/worker\((.+), 0x[0-9A-Fa-f]+\)/", "/worker(${1}, 0xNNN)/", 1, Where::All),
        (r"^((?:explicit|event-counts)/window-objects/top\(.*, id=)[0-9]+\)", "${1}NNN)", 1, Where::All),
        (
            r"moz-nullprincipal:\{.{8}-.{4}-.{4}-.{4}-.{12}\}",
            "moz-nullprincipal:{NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN}",
            ALL,
            Where::All,
        ),
        (r"\(segments=[0-9]+\)", "(segments=NNNN)", ALL, Where::AddressSpace),
        (r"jar:file:\\\\\\(.+)\\omni.ja!", r"jar:file:\\\...\omni.ja!", 1, Where::All),
        (r"source\(scripts=([0-9]+), ", "source(scripts=NNN, ", 1, Where::All),
    ]
    .into_iter()
    .map(|(found, instead, times, on)| Rule { found: regex(found), instead, times, on })
    .collect()
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns in this file are right")
}

/// A process name without its number.
pub fn without_pid(name: &str) -> Cow<'_, str> {
    PIDS.replace_all(name, "pid${1}NNN")
}

/// A path without what is of one run only.
pub fn normalized(path: &str) -> String {
    let mut path = without_pid(path).into_owned();
    for rule in RULES.iter() {
        if (rule.on == Where::All || path.starts_with("address-space"))
            && let Cow::Owned(changed) = rule.found.replacen(&path, rule.times, rule.instead)
        {
            path = changed;
        }
    }
    path
}

/// Names of content processes for one site begin so.
const ISOLATED: &str = "webIsolated";
/// Name of content processes for all sites.
const SHARED: &str = "web (pid NNN)";

/// All reports of one path of one process.
struct Sum {
    report: Report,
    reports: usize,
}

/// Whether content processes are one for each site, or shared by all.
fn is_isolated(file: &MemoryFile) -> bool {
    file.reports.iter().any(|report| report.process.starts_with(ISOLATED))
}

/// Compares a browser with site isolation and one without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolation {
    Kept,
    Forgotten,
}

fn sums(file: &MemoryFile, isolation: Isolation) -> BTreeMap<(String, String), Sum> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for report in &file.reports {
        let process = match isolation {
            Isolation::Forgotten if report.process.starts_with(ISOLATED) => SHARED.to_owned(),
            _ => without_pid(&report.process).into_owned(),
        };
        let key = (process, normalized(&report.path));
        let sum = sums.entry(key.clone()).or_insert_with(|| Sum {
            report: Report { process: key.0, path: key.1, amount: 0, ..report.clone() },
            reports: 0,
        });
        sum.report.amount = sum.report.amount.saturating_add(report.amount);
        sum.reports += 1;
    }
    sums
}

/// `second` minus `first`, report by report. What did not change is left out, but for `heap-allocated`.
pub fn diff(first: &MemoryFile, second: &MemoryFile) -> MemoryFile {
    let mut warnings = Vec::new();
    let isolation = if is_isolated(first) == is_isolated(second) { Isolation::Kept } else { Isolation::Forgotten };
    let mut after = sums(second, isolation);
    let mut changes = Vec::new();
    // The sum is in the first report of a path; the others are there to be counted. That the heap is as large as it was
    // tells what is unclassified.
    let mut add = |report: Report, reports: usize| {
        if report.amount != 0 || report.path == HEAP_ALLOCATED {
            let others = std::iter::repeat_n(Report { amount: 0, ..report.clone() }, reports - 1);
            changes.extend(std::iter::once(report).chain(others));
        }
    };
    for (key, before) in sums(first, isolation) {
        match after.remove(&key) {
            Some(now) => {
                if (now.report.kind, now.report.units) != (before.report.kind, before.report.units) {
                    let text = format!(
                        "'{}' of '{}' has another kind or unit in the second file and is left out",
                        key.1, key.0
                    );
                    warnings.push(Warning::new(WarningKind::Note, text));
                    continue;
                }
                let amount = now.report.amount.saturating_sub(before.report.amount);
                add(Report { amount, ..now.report }, now.reports.max(before.reports));
            }
            None => {
                let amount = before.report.amount.saturating_neg();
                add(Report { amount, presence: Some(Presence::FirstOnly), ..before.report }, before.reports);
            }
        }
    }
    for now in after.into_values() {
        add(Report { presence: Some(Presence::SecondOnly), ..now.report }, now.reports);
    }
    let mut file = MemoryFile::new(Vec::new());
    file.has_usable_size = first.has_usable_size && second.has_usable_size;
    file.reports = changes;
    file.warnings = warnings;
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Kind, Units};

    #[test]
    fn what_is_of_one_run_only_is_taken_out() {
        for (path, expected) in [
            ("explicit/a/pid 12/pid=7/pid: 9", "explicit/a/pid NNN/pid=NNN/pid: NNN"),
            ("explicit/threads/Pool #12 (tid=99)", "explicit/threads/Pool #N (tid=NNN)"),
            ("explicit/js-zone(0x7f00Ab)/strings", "explicit/js-zone(0xNNN)/strings"),
            ("explicit/workers/worker(http:\\\\x, 0x7f)/y", "explicit/workers/worker(http:\\\\x, 0xNNN)/y"),
            ("explicit/window-objects/top(about:blank, id=12)/x", "explicit/window-objects/top(about:blank, id=NNN)/x"),
            ("other/window-objects/top(about:blank, id=12)/x", "other/window-objects/top(about:blank, id=12)/x"),
            (
                "a/moz-nullprincipal:{85e250f3-57ae-46c4-a11e-4176dd39d9c5}",
                "a/moz-nullprincipal:{NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN}",
            ),
            ("a/{85e250f3-57ae-46c4-a11e-4176dd39d9c5}", "a/{85e250f3-57ae-46c4-a11e-4176dd39d9c5}"),
            ("address-space/heap/rw-p(segments=3)", "address-space/heap/rw-p(segments=NNNN)"),
            ("size/heap/rw-p(segments=3)", "size/heap/rw-p(segments=3)"),
            ("a/jar:file:\\\\\\usr\\lib\\ff\\omni.ja!\\x", "a/jar:file:\\\\\\...\\omni.ja!\\x"),
            ("a/source(scripts=12, b)", "a/source(scripts=NNN, b)"),
        ] {
            assert_eq!(normalized(path), expected);
        }
        assert_eq!(without_pid("web (pid 123)"), "web (pid NNN)");
    }

    #[test]
    fn changes_and_what_only_one_file_has() {
        let report = |process: &str, path: &str, amount| Report {
            process: process.into(),
            path: path.into(),
            kind: Kind::Other,
            units: Units::Bytes,
            amount,
            description: String::new(),
            presence: None,
        };
        let first = MemoryFile::new(vec![
            report("web (pid 1)", "a/x", 10),
            report("web (pid 2)", "a/x", 5),
            report("web (pid 2)", "a/same", 5),
            report("", "gone", 3),
        ]);
        let second = MemoryFile::new(vec![
            report("web (pid 8)", "a/x", 18),
            report("web (pid 8)", "a/same", 5),
            report("", "new", 4),
        ]);
        let change = diff(&first, &second);
        let seen: Vec<_> = change
            .reports
            .iter()
            .map(|report| (report.process.as_str(), report.path.as_str(), report.amount, report.presence))
            .collect();
        assert_eq!(
            seen,
            [
                ("", "gone", -3, Some(Presence::FirstOnly)),
                ("web (pid NNN)", "a/x", 3, None),
                // So that the tree counts two reports of this path.
                ("web (pid NNN)", "a/x", 0, None),
                ("", "new", 4, Some(Presence::SecondOnly)),
            ]
        );
        assert!(diff(&first, &first).reports.is_empty());
        // A browser whose sites have processes of their own, and one whose sites share them.
        let alone = MemoryFile::new(vec![report("webIsolated=https://a (pid 9)", "a/x", 15), report("", "gone", 3)]);
        let names = |change: &MemoryFile| change.reports.iter().map(|one| one.process.clone()).collect::<Vec<_>>();
        assert_eq!(names(&diff(&first, &alone)), ["web (pid NNN)"], "of the same sum of a/x nothing is left");
        let two = MemoryFile::new(vec![report("webIsolated=https://a (pid 2)", "a/x", 16), report("", "gone", 3)]);
        assert_eq!(names(&diff(&alone, &two)), ["webIsolated=https://a (pid NNN)"]);
    }
}
