//! The answer in three sentences: how long, where the time goes, what would help most.
//!
//! Says only what the figures carry: a ratio whose interval contains 1 is no difference, and what could be
//! gained is always "at most". Pure.

use crate::report::TraceDocument;
use crate::words::units::{self, bytes, estimate_s, nanos, percent, plural, seconds, times};
use crate::words::{harmless, width::shorten};
use bench::report::{Cell, Contrast, Report};
use io::FileReport;
use model::{CacheState, FileKind};
use stats::Estimate;

/// Below this share of a start nothing is called a cost.
const WORTH_NAMING: f64 = 0.05;

/// A ratio whose interval stays this close to 1 is called no difference.
const CLOSE: f64 = 0.1;

/// Above this share it is not worth saying that a file was read in vain.
const MOSTLY_ASKED: f64 = 0.8;

/// Up to three sentences; fewer where there are no figures for them. `disk`: the simulated one, in words.
pub fn sentences(statistics: &Report, traces: &[TraceDocument], disk: Option<&str>) -> Vec<String> {
    // Further variants have their rows in the tables; the answer is about the first.
    let cells: Vec<&Cell> = statistics.cells.iter().filter(|cell| cell.variant == 0).collect();
    let Some(slowest) = cells.iter().max_by_key(|cell| cell.state) else {
        return vec!["No timed run was finished, so there is no answer.".into()];
    };
    let fastest = cells.iter().min_by_key(|cell| cell.state).filter(|cell| cell.state != slowest.state);
    let contrast = fastest.and_then(|fast| {
        let contrasts = statistics.contrasts.iter();
        contrasts.into_iter().find(|it| {
            it.new.variant == 0 && it.new.state == slowest.state && it.old.state == fast.state && it.old.variant == 0
        })
    });
    // Only a start in the same state tells where the time of this one goes.
    let is_of = |trace: &&TraceDocument| trace.variant == slowest.variant_name && trace.state == slowest.state;
    let trace = traces.iter().find(is_of);
    let place = disk.map_or_else(String::new, |disk| format!("On a simulated {disk} "));
    let mut answer = vec![format!("{place}{}", how_long(slowest, fastest.copied(), contrast))];
    answer.push(where_it_goes(slowest, fastest.copied(), contrast, trace));
    answer.extend(match slowest.state {
        CacheState::Hot => Some(nothing_of_cold_starts()),
        _ => what_would_help(slowest, fastest.copied(), contrast, trace),
    });
    answer
}

fn how_long(slow: &Cell, fast: Option<&Cell>, contrast: Option<&Contrast>) -> String {
    let name = &slow.variant_name;
    let each = |cell: &Cell| format!("{} {}", estimate_s(&cell.median_s), in_state(cell.state));
    let Some(fast) = fast else {
        return format!("{name} starts in {} (median of {}).", each(slow), plural(slow.runs.into(), "run", "runs"));
    };
    let both = format!("{name} starts in {} and in {}", each(slow), each(fast));
    let Some(contrast) = contrast else { return format!("{both}.") };
    let pairs = plural(contrast.pairs.into(), "pair of runs", "pairs of runs");
    match difference(contrast) {
        Difference::Proven => {
            format!("{both}: {} takes {} as long{}.", slow.state, times(&contrast.ratio), in_pairs(contrast))
        }
        Difference::None => format!("{both}: that is no difference ({}, from {pairs}).", times(&contrast.ratio)),
        Difference::Unclear => {
            format!(
                "{both}: {} takes {} as long; {pairs} are too few or too unlike to be sure of that.",
                slow.state,
                times(&contrast.ratio)
            )
        }
        Difference::Unknown => format!("{both}; too few runs to compare them."),
    }
}

/// A recording of hot starts alone.
fn nothing_of_cold_starts() -> String {
    "What a cold start costs, and what would help it, is unknown: only hot starts were timed. Record both: \
     --state cold,hot (as root), or --state app,hot."
        .to_owned()
}

/// The ratio block by block, where it says something else than the ratio of the medians.
fn in_pairs(contrast: &Contrast) -> String {
    let of_medians = contrast.ratio.interval;
    let unlike = |pairs: &Estimate| of_medians.is_none_or(|it| !it.contains(pairs.value) || it.contains(1.0));
    match contrast.in_pairs.filter(unlike) {
        None => String::new(),
        Some(pairs) => {
            format!(" (the ratio of the medians; the geometric mean of the ratios block by block is {})", times(&pairs))
        }
    }
}

/// CPU, disk, and the rest.
fn where_it_goes(
    slow: &Cell,
    fast: Option<&Cell>,
    contrast: Option<&Contrast>,
    trace: Option<&TraceDocument>,
) -> String {
    let cpu = slow.user_s.value + slow.system_s.value;
    let mut parts = vec![format!(
        "{} uses {} of CPU ({} of them in the kernel)",
        a_start(slow.state),
        seconds(cpu),
        percent(if cpu > 0.0 { slow.system_s.value / cpu } else { 0.0 })
    )];
    if let Some(reads) = disk_reads(slow) {
        parts.push(reads);
    }
    if let (Some(fast), Some(_)) = (fast, contrast.filter(|contrast| difference(contrast) == Difference::Proven)) {
        let more = slow.median_s.value - fast.median_s.value;
        if more > 0.0 {
            parts.push(format!("spends {} that {} does not", seconds(more), a_start(fast.state)));
        }
    }
    let mut sentence = join(&parts);
    let waited = trace.filter(|trace| trace.report.totals.waiting.0 > 0);
    if let Some(trace) = waited {
        let totals = &trace.report.totals;
        let of_it = match trace.wall_s {
            Some(wall) if totals.waiting.seconds() <= wall => format!(" of its {}", seconds(wall)),
            Some(_) => " (also after it was ready)".to_owned(),
            None => String::new(),
        };
        sentence.push_str(&format!("; a traced one waited for the disk for {}{of_it}", nanos(totals.waiting)));
        if let Some(top) =
            costliest(trace).filter(|top| top.waiting.seconds() > WORTH_NAMING * totals.waiting.seconds())
        {
            let part = top.waiting.seconds() / totals.waiting.seconds();
            sentence.push_str(&format!(", {} of that for {}", percent(part), name_of(top)));
        }
        sentence.push_str(&oddness(trace, slow));
    }
    sentence.push('.');
    sentence
}

/// Where the traced start was not like those that were timed, which it is to speak for.
fn oddness(trace: &TraceDocument, timed: &Cell) -> String {
    let Some(wall) = trace.wall_s.filter(|wall| *wall < timed.min_s || *wall > timed.max_s) else {
        return String::new();
    };
    let way = if wall > timed.max_s { "longer" } else { "less time" };
    let range = format!("{} to {}", seconds(timed.min_s), seconds(timed.max_s));
    format!(
        " (it took {way} than every untraced one, {} against {range}: its disk waits are not theirs)",
        seconds(wall)
    )
}

fn disk_reads(cell: &Cell) -> Option<String> {
    let read = cell.read_bytes.filter(|read| *read > 0.0)?;
    let requests = cell.read_requests.map(|requests| format!(" in {} requests", units::count_f(requests)));
    Some(format!("reads {}{}", units::bytes_f(read), requests.unwrap_or_default()))
}

/// The largest lever, with what it can gain at most.
fn what_would_help(
    slow: &Cell,
    fast: Option<&Cell>,
    contrast: Option<&Contrast>,
    trace: Option<&TraceDocument>,
) -> Option<String> {
    let total = slow.median_s.value;
    let Some(fast) = fast else { return lever_of_reading(trace?, total) };
    match difference(contrast?) {
        Difference::Unknown => None,
        Difference::Unclear => Some(format!(
            "Whether reading less would help is not known yet: reading from the disk adds at most {}; record more \
             runs.",
            seconds(total * (1.0 - 1.0 / largest(&contrast?.ratio)).max(0.0))
        )),
        Difference::None => Some(format!(
            "What is in memory makes no difference ({} against {}), so reading less would not help; less work would.",
            slow.state, fast.state
        )),
        Difference::Proven => {
            let cache = (total - fast.median_s.value).max(0.0);
            if fast.median_s.value <= cache {
                return lever_of_reading(trace?, cache);
            }
            Some(format!(
                "What would help most is less work, not less reading: {} of the {} remain when everything is in \
                 memory{}.",
                percent(fast.median_s.value / total),
                seconds(total),
                gain_from_reading(cache)
            ))
        }
    }
}

/// The file that was waited for longest. `most`: what can be gained at all, in seconds, as the timed starts say.
fn lever_of_reading(trace: &TraceDocument, most: f64) -> Option<String> {
    let all = trace.report.totals.waiting.seconds();
    let top = costliest(trace).filter(|top| top.waiting.seconds() > WORTH_NAMING * all)?;
    let gain = seconds(top.waiting.seconds().min(most));
    if top.kind == FileKind::Metadata {
        return Some(format!(
            "What would help most is needing less of the file system's metadata, that is fewer files and directories: \
             that can gain at most {gain}."
        ));
    }
    let asked = asked_share(top, &trace.report).filter(|asked| *asked < MOSTLY_ASKED);
    let unasked = asked.map_or_else(String::new, |asked| {
        format!(
            ", or reading it in order: only {} of the {} that came into memory are known to have been requested",
            percent(asked),
            bytes(top.filled)
        )
    });
    Some(format!("What would help most is reading less of {}{unasked}; that can gain at most {gain}.", name_of(top)))
}

fn gain_from_reading(cache: f64) -> String {
    if cache > 0.0 { format!(" (reading less can gain at most {})", seconds(cache)) } else { String::new() }
}

/// The file that was waited for longest.
fn costliest(trace: &TraceDocument) -> Option<&FileReport> {
    trace.report.files.iter().max_by_key(|file| file.waiting).filter(|file| file.waiting.0 > 0)
}

/// How much of what came into memory was asked for; `None` where nobody can know.
pub fn asked_share(file: &FileReport, report: &io::Report) -> Option<f64> {
    let known = report.files.iter().any(|file| file.asked.0 > 0);
    let share = (file.asked.0 as f64 / file.filled.0.max(1) as f64).min(1.0);
    (known && file.filled.0 > 0 && file.kind != FileKind::Metadata).then_some(share)
}

/// What the runs say about two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// The whole interval lies on one side of 1.
    Proven,
    /// The whole interval lies close to 1.
    None,
    /// The interval is too wide to say.
    Unclear,
    /// There is no interval.
    Unknown,
}

fn difference(contrast: &Contrast) -> Difference {
    // Pairs tell more than the medians do: what slows a block slows both.
    let Some(interval) = contrast.in_pairs.unwrap_or(contrast.ratio).interval else { return Difference::Unknown };
    if interval.low > 1.0 || interval.high < 1.0 {
        Difference::Proven
    } else if interval.high < 1.0 + CLOSE && interval.low > 1.0 / (1.0 + CLOSE) {
        Difference::None
    } else {
        Difference::Unclear
    }
}

/// The upper end of a ratio, at least 1.
fn largest(ratio: &Estimate) -> f64 {
    ratio.interval.map_or(ratio.value, |interval| interval.high).max(1.0)
}

fn name_of(file: &FileReport) -> String {
    match file.kind {
        FileKind::Metadata => format!("the file system's metadata ({})", file.path),
        _ => shorten(&harmless(&file.path), 60),
    }
}

fn in_state(state: CacheState) -> &'static str {
    match state {
        CacheState::Hot => "hot",
        CacheState::App => "with only its own files cold",
        CacheState::Boot => "as after boot",
        CacheState::Cold => "cold",
    }
}

fn a_start(state: CacheState) -> &'static str {
    match state {
        CacheState::Hot => "a hot start",
        CacheState::App => "an app-cold start",
        CacheState::Boot => "a start as after boot",
        CacheState::Cold => "a cold start",
    }
}

fn join(parts: &[String]) -> String {
    let mut sentence = match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    if let Some(first) = sentence.get(..1) {
        sentence = format!("{}{}", first.to_uppercase(), &sentence[1..]);
    }
    sentence
}
