//! Resident memory of a process tree over time, as JSON lines, with named checkpoints that can be compared between two
//! versions of a program.
//!
//! The first line is the [`Head`], each other line a [`Sample`]; a sample with a `mark` is a checkpoint. Amounts are in
//! bytes and come from `/proc/PID/smaps_rollup`. Writing the file is `log`'s.

use crate::file::{MemoryFile, Report};
use model::{Bytes, Error, Exit, Result};
use os::process;
use serde::{Deserialize, Serialize};
use stats::{Estimate, Random};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Name and version of the format: the value of `schema` in the first line.
pub const SCHEMA: &str = "thaw.memory-watch/1";
/// Every file begins with this.
pub const BEGINNING: &[u8] = b"{\"schema\":\"thaw.memory-watch/";

/// Whose memory is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "WatchWhose"))]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// This process and everything below.
    Program(u32),
    /// Everything below this process, but not itself: it is the watching thaw.
    ChildrenOf(u32),
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "WatchHead"))]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of thaw.
    pub thaw_version: String,
    /// What was started; empty: it ran already.
    pub command: Vec<String>,
    /// Whose memory.
    pub whose: Whose,
    /// When that process started, in clock ticks since boot: with its number that names it for good.
    pub start_ticks: u64,
    /// CLOCK_MONOTONIC at the start of the watch.
    pub began_ns: u64,
    /// Nanoseconds since 1970 at the same moment.
    pub created_unix_ns: u64,
}

/// Memory of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Resident pages.
    pub rss: Bytes,
    /// Resident pages, each divided by the number of processes that have it.
    pub pss: Bytes,
    /// Resident pages that nobody else has: what its end would give back.
    pub uss: Bytes,
    /// Swapped out.
    pub swap: Bytes,
}

/// All processes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The processes that could be looked at.
    pub processes: Vec<Resident>,
    /// Processes whose memory is not for us to see.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen: u32,
    /// Name of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// What programs with memory reporters said at the checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Sums over all processes of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "WatchTotal"))]
pub struct Total {
    /// Processes.
    pub processes: u64,
    /// Sum of the resident sizes: shared pages count more than once.
    pub rss: Bytes,
    /// Sum of the proportional sizes: what the program has of the machine's memory.
    pub pss: Bytes,
    /// Sum of the unique sizes.
    pub uss: Bytes,
    /// Swapped out.
    pub swap: Bytes,
}

impl Sample {
    /// The sums. Hostile figures stay at the largest number.
    pub fn total(&self) -> Total {
        let sum = |of: fn(&Resident) -> Bytes| {
            Bytes(self.processes.iter().fold(0, |sum: u64, one| sum.saturating_add(of(one).0)))
        };
        Total {
            processes: self.processes.len() as u64,
            rss: sum(|one| one.rss),
            pss: sum(|one| one.pss),
            uss: sum(|one| one.uss),
            swap: sum(|one| one.swap),
        }
    }
}

/// A named moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "WatchCheckpoint"))]
pub struct Checkpoint {
    /// The mark's name; the second of the same name is `NAME (2)`.
    pub name: String,
    /// Seconds since the start of the watch.
    pub at_s: f64,
    /// The sums.
    pub total: Total,
    /// What programs with memory reporters said.
    #[serde(skip)]
    pub reports: Option<MemoryFile>,
}

/// A watch that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// The first line.
    pub head: Head,
    /// All samples in the order of the file.
    pub samples: Vec<Sample>,
}

impl Watched {
    /// The marks, then the sample with the largest PSS as `peak` and the last one as `last`.
    pub fn checkpoints(&self) -> Vec<Checkpoint> {
        let checkpoint = |name: String, sample: &Sample| Checkpoint {
            name,
            at_s: sample.at_ns.saturating_sub(self.head.began_ns) as f64 / 1e9,
            total: sample.total(),
            reports: (!sample.reports.is_empty()).then(|| MemoryFile::new(sample.reports.clone())),
        };
        // These are always there; a mark of such a name is the second.
        let mut seen: BTreeMap<&str, u32> = BTreeMap::from([("peak", 1), ("last", 1)]);
        let mut checkpoints = Vec::new();
        for sample in &self.samples {
            let Some(mark) = &sample.mark else { continue };
            let times = seen.entry(mark).or_default();
            *times += 1;
            let name = if *times == 1 { mark.clone() } else { format!("{mark} ({times})") };
            checkpoints.push(checkpoint(name, sample));
        }
        let peak = self.samples.iter().max_by_key(|sample| sample.total().pss);
        // When the program has ended there is a last sample without processes.
        let last = self.samples.iter().rev().find(|sample| !sample.processes.is_empty());
        checkpoints.extend(peak.map(|sample| checkpoint("peak".into(), sample)));
        checkpoints.extend(last.map(|sample| checkpoint("last".into(), sample)));
        checkpoints
    }
}

/// Reads a watch. A last line that is cut is left out: the watch was killed, or still writes.
///
/// # Errors
/// Another line is not what it should be, or the text cannot be read.
pub fn parse(mut text: impl BufRead, name: &str) -> Result<Watched> {
    let mut line = Vec::new();
    let mut number = 0;
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        number += 1;
        let read = text.read_until(b'\n', line);
        read.map_err(|cause| Error::new(Exit::Machine, "cannot read", name).because(cause)).map(|_| number)
    };
    let wrong = |number: usize, cause: serde_json::Error| {
        Error::new(Exit::Data, format!("line {number} of this memory watch is damaged:"), name).because(cause)
    };
    let first = next(&mut line)?;
    if line.is_empty() {
        return Err(Error::new(Exit::Data, "this memory watch is empty:", name));
    }
    let head: Head = serde_json::from_slice(&line).map_err(|cause| wrong(first, cause))?;
    if head.schema != SCHEMA {
        return Err(Error::new(Exit::Data, format!("this is not {SCHEMA}, but {}:", head.schema), name));
    }
    let mut samples = Vec::new();
    loop {
        let number = next(&mut line)?;
        if !line.ends_with(b"\n") {
            return Ok(Watched { head, samples });
        }
        samples.push(serde_json::from_slice(&line).map_err(|cause| wrong(number, cause))?);
    }
}

/// The processes now, parents first. Those that ended meanwhile are left out.
pub fn processes(whose: Whose) -> Vec<u32> {
    match whose {
        Whose::Program(pid) => std::iter::once(pid).chain(process::descendants(pid)).collect(),
        Whose::ChildrenOf(pid) => process::descendants(pid),
    }
}

/// Looks at all processes.
pub fn sample(whose: Whose, at_ns: u64) -> Sample {
    sample_of(processes(whose), at_ns)
}

/// Looks at these processes.
pub fn sample_of(processes: Vec<u32>, at_ns: u64) -> Sample {
    let mut sample = Sample { at_ns, ..Sample::default() };
    for pid in processes {
        match std::fs::read(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => sample.processes.extend(rollup(&text).map(|resident| Resident {
                pid,
                name: process::comm(pid).unwrap_or_default(),
                ..resident
            })),
            Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => sample.unseen += 1,
            // It ended, or has ended and waits to be reaped.
            Err(_) => {}
        }
    }
    sample
}

/// Parses `smaps_rollup`; `None`: there is nothing in it.
pub fn rollup(text: &[u8]) -> Option<Resident> {
    let text = String::from_utf8_lossy(text);
    let value = |key: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let private = ["Private_Clean", "Private_Dirty", "Private_Hugetlb"].map(|key| value(key).unwrap_or(0));
    Some(Resident {
        rss: Bytes(value("Rss")?),
        pss: Bytes(value("Pss")?),
        uss: Bytes(private.iter().fold(0, |sum: u64, part| sum.saturating_add(*part))),
        swap: Bytes(value("Swap").unwrap_or(0)),
        ..Resident::default()
    })
}

/// One checkpoint in two watches.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "WatchPair"))]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// In the first.
    pub first: Option<Total>,
    /// In the second.
    pub second: Option<Total>,
}

/// The checkpoints of two watches side by side, in the order of the first; those that only the second has at the end.
pub fn pairs(first: &[Checkpoint], second: &[Checkpoint]) -> Vec<Pair> {
    let find = |among: &[Checkpoint], name: &str| among.iter().find(|it| it.name == name).map(|it| it.total);
    let only_second = second.iter().filter(|it| find(first, &it.name).is_none());
    first
        .iter()
        .chain(only_second)
        .map(|it| Pair { name: it.name.clone(), first: find(first, &it.name), second: find(second, &it.name) })
        .collect()
}

/// One checkpoint in several runs of two versions of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Sum of the resident sizes.
    pub rss: Runs,
    /// Sum of the proportional sizes.
    pub pss: Runs,
    /// Sum of the unique sizes.
    pub uss: Runs,
}

/// A figure in all runs that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// In the runs of the first version.
    pub before: Vec<Bytes>,
    /// In those of the second.
    pub after: Vec<Bytes>,
    /// Median of the first.
    pub before_median: Option<f64>,
    /// Median of the second.
    pub after_median: Option<f64>,
    /// One by the other, with its interval from three runs of each on.
    pub ratio: Option<Estimate>,
}

impl Runs {
    fn new(before: Vec<Bytes>, after: Vec<Bytes>, random: &mut Random) -> Self {
        let [first, second] = [&before, &after].map(|runs| runs.iter().map(|bytes| bytes.0 as f64).collect::<Vec<_>>());
        let median = |runs: &[f64]| (!runs.is_empty()).then(|| stats::quantile(runs, 0.5));
        let (before_median, after_median) = (median(&first), median(&second));
        let comparable = before_median.is_some_and(|median| median > 0.0) && after_median.is_some();
        let ratio = comparable.then(|| stats::ratio_of_medians(&second, &first, random));
        Self { before, after, before_median, after_median, ratio }
    }
}

/// The checkpoints of several watches of each version, in the order of the first watch that has them.
pub fn compare(first: &[Vec<Checkpoint>], second: &[Vec<Checkpoint>]) -> Vec<Compared> {
    let mut names: Vec<&str> = Vec::new();
    for checkpoint in first.iter().chain(second).flatten() {
        if !names.contains(&checkpoint.name.as_str()) {
            names.push(&checkpoint.name);
        }
    }
    let random = &mut Random::from_seed(1);
    let mut compared = Vec::new();
    for name in names {
        let in_runs = |runs: &[Vec<Checkpoint>], of: fn(&Total) -> Bytes| -> Vec<Bytes> {
            runs.iter().filter_map(|run| run.iter().find(|it| it.name == name)).map(|it| of(&it.total)).collect()
        };
        let mut runs = |of| Runs::new(in_runs(first, of), in_runs(second, of), random);
        compared.push(Compared {
            name: name.to_owned(),
            rss: runs(|total| total.rss),
            pss: runs(|total| total.pss),
            uss: runs(|total| total.uss),
        });
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &[u8] = b"55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:       3 kB\nPss:       2 kB\nPss_Dirty: \
        9 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 4 kB\nSwap: 5 kB\nSwapPss: 6 kB\n";

    fn head() -> Head {
        Head {
            schema: SCHEMA.into(),
            thaw_version: String::new(),
            command: Vec::new(),
            whose: Whose::Program(1),
            start_ticks: 0,
            began_ns: 1_000_000_000,
            created_unix_ns: 0,
        }
    }

    fn taken(at_s: u64, pss: u64, mark: Option<&str>) -> Sample {
        let processes = vec![Resident { pss: Bytes(pss), ..Resident::default() }];
        Sample { at_ns: (at_s + 1) * 1_000_000_000, processes, mark: mark.map(Into::into), ..Sample::default() }
    }

    #[test]
    fn the_kernels_text_is_read() {
        let resident = rollup(ROLLUP).unwrap();
        assert_eq!(
            (resident.rss, resident.pss, resident.uss, resident.swap),
            (Bytes(3072), Bytes(2048), Bytes(5120), Bytes(5120))
        );
        assert!(rollup(b"").is_none());
        let own = sample(Whose::Program(std::process::id()), 7);
        assert!(own.processes[0].rss >= own.processes[0].pss && own.processes[0].uss.0 > 0, "{own:?}");
    }

    #[test]
    fn checkpoints_are_named_and_paired() {
        let watched = |pss: [u64; 3]| Watched {
            head: head(),
            samples: vec![
                taken(0, 1, None),
                taken(1, pss[0], Some("load")),
                taken(2, pss[1], Some("load")),
                taken(3, pss[2], None),
            ],
        };
        let (first, second) = (watched([10, 30, 20]), watched([12, 31, 22]));
        let checkpoints = first.checkpoints();
        let names: Vec<_> = checkpoints.iter().map(|it| (it.name.as_str(), it.at_s, it.total.pss.0)).collect();
        assert_eq!(names, [("load", 1.0, 10), ("load (2)", 2.0, 30), ("peak", 2.0, 30), ("last", 3.0, 20)]);
        let marked = Watched { head: head(), samples: vec![taken(0, 7, Some("peak"))] };
        let names: Vec<_> = marked.checkpoints().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["peak (2)", "peak", "last"]);
        let pairs = pairs(&checkpoints[1..], &second.checkpoints());
        assert_eq!(pairs[0].second.unwrap().pss, Bytes(31));
        assert_eq!((pairs[3].name.as_str(), pairs[3].first), ("load", None));
    }

    #[test]
    fn runs_of_two_versions_are_compared_by_their_medians() {
        let run = |pss: u64| {
            Watched { head: head(), samples: vec![taken(1, pss, Some("load")), taken(2, pss / 2, None)] }.checkpoints()
        };
        let first: Vec<_> = [100, 104, 98, 101, 250].map(run).into();
        let second: Vec<_> = [121, 119, 120, 122, 118].map(run).into();
        let compared = compare(&first, &second);
        assert_eq!(compared.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["load", "peak", "last"]);
        let pss = &compared[0].pss;
        assert_eq!((pss.before_median, pss.after_median, pss.before[4]), (Some(101.0), Some(120.0), Bytes(250)));
        let ratio = pss.ratio.unwrap();
        assert!(
            (ratio.value - 120.0 / 101.0).abs() < 1e-9 && ratio.interval.unwrap().contains(ratio.value),
            "{ratio:?}"
        );
        // A mark that one version has not, and too few runs.
        let bare = Watched { head: head(), samples: vec![taken(1, 7, None)] }.checkpoints();
        let compared = super::compare(&first[..2], &[bare]);
        assert_eq!((compared[0].pss.after_median, compared[0].pss.ratio), (None, None));
        assert_eq!(compared[1].pss.ratio.unwrap().interval, None);
    }
}
