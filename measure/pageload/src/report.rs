//! What came of it: a row for each browser, cache and state. Pure: samples in, figures out.

use crate::conduct::{Done, Sample};
use crate::drive::Kind;
use crate::origin::Counts;
use crate::plan::{Page, Plan, State, Via};
use crate::program::Reads;
use model::{Nanos, Warning, WarningKind};
use serde::{Deserialize, Serialize};
use stats::{Estimate, Random};

/// Fewest loads for an interval.
const FEWEST: u32 = 3;

/// Name and version of the document.
pub const SCHEMA: &str = "thaw.pageload/1";

/// The document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageLoads {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was loaded.
    pub page: PageFacts,
    /// The disk that the cache lay on, if it was a simulated one.
    pub disk: Option<String>,
    /// Rounds that were asked for.
    pub runs: u32,
    /// Ctrl-C came before all were done.
    pub interrupted: bool,
    /// By browser, cache and state.
    pub rows: Vec<Row>,
    /// Each load, in the order in which they were made.
    pub loads: Vec<Load>,
    /// What is to be known of the figures.
    pub warnings: Vec<Warning>,
}

/// What was loaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageFacts {
    /// Its address; `None`: our own page, which has another one in each round.
    pub url: Option<String>,
    /// Images of our own page.
    pub images: Option<u64>,
    /// Answers that our own page needs, itself included.
    pub answers: Option<u64>,
    /// Bytes of their bodies.
    pub bytes: Option<u64>,
    /// How long our origin took for each.
    pub latency_ns: Option<Nanos>,
}

/// The loads of one browser through one cache in one state. Figures are medians; times are in seconds, from the start
/// of the navigation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The browser.
    pub browser: Kind,
    /// The cache: `direct`, `thaw`, `thaw-h2`, or the proxy's address.
    pub via: String,
    /// How it was.
    pub state: State,
    /// How many loads; 0: none, for the reason in `missing`.
    pub loads: u64,
    /// Until the page's load event was over.
    pub load_s: Option<Estimate>,
    /// Until something was seen.
    pub first_paint_s: Option<Estimate>,
    /// Until the largest thing was seen.
    pub largest_paint_s: Option<Estimate>,
    /// What the page needed, as the browser tells it. What it still had as decoded images may be missing in it.
    pub requests: Option<f64>,
    /// Of these, from the browser's own cache.
    pub from_cache: Option<f64>,
    /// Bytes that came to the browser.
    pub bytes: Option<f64>,
    /// Requests that reached our origin.
    pub origin_requests: Option<f64>,
    /// Of these, answered with 304.
    pub origin_not_modified: Option<f64>,
    /// Bytes that our origin sent.
    pub origin_bytes: Option<f64>,
    /// Requests to the disk that the cache lies on, by its owner.
    pub reads: Option<f64>,
    /// Bytes of these.
    pub read_bytes: Option<f64>,
    /// Why the reads are not known.
    pub reads_unknown: Option<String>,
    /// Why there is no load.
    pub missing: Option<String>,
}

/// One load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The browser.
    pub browser: Kind,
    /// The cache.
    pub via: String,
    /// How it was.
    pub state: State,
    /// In which round, from 0.
    pub round: u32,
    /// When it began, nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Until the load event was over.
    pub load_ns: Nanos,
    /// Until something was seen.
    pub first_paint_ns: Option<Nanos>,
    /// Until the largest thing was seen.
    pub largest_paint_ns: Option<Nanos>,
    /// What the page needed.
    pub requests: u64,
    /// Of these, from the browser's own cache.
    pub from_cache: u64,
    /// Bytes that came to the browser.
    pub bytes: u64,
    /// How the page itself came to the browser: `http/1.1`, `h2`. Empty: not told, as in recordings from before.
    #[serde(default)]
    pub protocol: String,
    /// What reached our origin.
    pub origin: Option<OriginCounts>,
    /// What the owner of the cache read.
    pub reads: Option<Reads>,
}

/// What our origin did for a load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OriginCounts {
    /// Requests.
    pub requests: u64,
    /// Of these, answered with 304.
    pub not_modified: u64,
    /// Bytes of answers.
    pub bytes: u64,
}

impl From<Counts> for OriginCounts {
    fn from(counts: Counts) -> Self {
        Self { requests: counts.requests, not_modified: counts.not_modified, bytes: counts.bytes }
    }
}

/// Puts it together. `disk`: the name of the simulated disk; `warnings`: what is known already.
pub fn report(plan: &Plan, done: &Done, disk: Option<String>, mut warnings: Vec<Warning>) -> PageLoads {
    let mut rows = Vec::new();
    for (browser, _) in &plan.browsers {
        for via in &plan.vias {
            let states = State::ALL.into_iter().filter(|state| plan.states.contains(state));
            rows.extend(states.map(|state| row(plan, done, *browser, via, state)));
        }
    }
    if plan.runs < FEWEST {
        let text = format!("{} of each load: too few for an interval", plan.runs);
        warnings.push(Warning::new(WarningKind::TooFewRuns, text).hint("--runs 10"));
    }
    let untold: u64 = done.samples.iter().map(|sample| sample.loaded.untold).max().unwrap_or(0);
    if untold > 0 {
        let text = format!(
            "of up to {untold} answers of a load the browser tells no size: other origins do not allow it, or they \
             were empty; they count as requests, not in bytes and not as cached"
        );
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    let foreign = plan.vias.iter().any(|via| matches!(via, Via::Proxy(_)));
    if foreign && matches!(plan.page, Page::Url(_)) && plan.states.contains(&State::First) {
        let text =
            "first: whether the other proxy had the page already is not known; --site is new to it in each round";
        warnings.push(Warning::new(WarningKind::NotInState, text));
    }
    let (url, images, latency_ns) = match &plan.page {
        Page::Url(url) => (Some(url.clone()), None, None),
        Page::Site { options, latency } => (None, Some(options.images as u64), Some(Nanos(latency.as_nanos() as u64))),
    };
    let (answers, bytes) = done.page.unzip();
    PageLoads {
        schema: SCHEMA.to_owned(),
        page: PageFacts { url, images, answers, bytes, latency_ns },
        disk,
        runs: plan.runs,
        interrupted: done.interrupted,
        rows,
        loads: done.samples.iter().map(load).collect(),
        warnings,
    }
}

fn row(plan: &Plan, done: &Done, browser: Kind, via: &Via, state: State) -> Row {
    let is_its = |sample: &&Sample| sample.browser == browser && sample.via == *via && sample.state == state;
    let samples: Vec<&Sample> = done.samples.iter().filter(is_its).collect();
    let missing = match via {
        _ if !samples.is_empty() => None,
        Via::Proxy(_) if state == State::Cold && plan.restart.is_none() => {
            Some("thaw did not start this proxy and cannot restart it; --restart COMMAND does")
        }
        _ => Some("interrupted before"),
    };
    let reads_unknown = match via {
        _ if samples.is_empty() => None,
        Via::Proxy(_) => Some("thaw did not start this proxy"),
        _ if samples.iter().all(|sample| sample.reads.is_none()) => Some("the kernel does not tell"),
        _ if samples.iter().all(|sample| sample.reads.is_some_and(|reads| reads.requests.is_none())) => {
            Some("bytes only: there is no control group to count requests; run thaw as root")
        }
        _ => None,
    };
    let median = |of: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| of(sample)).collect();
        (!values.is_empty()).then(|| stats::median(&values, &mut Random::of_values(&[&values])))
    };
    let middle = |of: &dyn Fn(&Sample) -> Option<u64>| {
        median(&|sample| of(sample).map(|value| value as f64)).map(|estimate| estimate.value)
    };
    Row {
        browser,
        via: via.to_string(),
        state,
        loads: samples.len() as u64,
        load_s: median(&|sample| Some(sample.loaded.load_ms / 1e3)),
        first_paint_s: median(&|sample| sample.loaded.first_paint_ms.map(|ms| ms / 1e3)),
        largest_paint_s: median(&|sample| sample.loaded.largest_paint_ms.map(|ms| ms / 1e3)),
        requests: middle(&|sample| Some(sample.loaded.requests)),
        from_cache: middle(&|sample| Some(sample.loaded.from_cache)),
        bytes: middle(&|sample| Some(sample.loaded.bytes)),
        origin_requests: middle(&|sample| sample.origin.map(|counts| counts.requests)),
        origin_not_modified: middle(&|sample| sample.origin.map(|counts| counts.not_modified)),
        origin_bytes: middle(&|sample| sample.origin.map(|counts| counts.bytes)),
        reads: middle(&|sample| sample.reads.and_then(|reads| reads.requests)),
        read_bytes: middle(&|sample| sample.reads.map(|reads| reads.bytes.0)),
        reads_unknown: reads_unknown.map(str::to_owned),
        missing: missing.map(str::to_owned),
    }
}

fn load(sample: &Sample) -> Load {
    let nanos = |ms: f64| Nanos((ms * 1e6).max(0.0) as u64);
    Load {
        browser: sample.browser,
        via: sample.via.to_string(),
        state: sample.state,
        round: sample.round,
        started_unix_ns: sample.started_unix_ns,
        load_ns: nanos(sample.loaded.load_ms),
        first_paint_ns: sample.loaded.first_paint_ms.map(nanos),
        largest_paint_ns: sample.loaded.largest_paint_ms.map(nanos),
        requests: sample.loaded.requests,
        from_cache: sample.loaded.from_cache,
        bytes: sample.loaded.bytes,
        protocol: sample.loaded.protocol.clone(),
        origin: sample.origin.map(OriginCounts::from),
        reads: sample.reads,
    }
}
