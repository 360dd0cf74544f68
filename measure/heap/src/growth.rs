//! How buffers grow: chains of `realloc`, and chains of allocating a larger block, copying and freeing; those that grow
//! too slowly, and those that become smaller and larger by turns, by place.
//!
//! Not proof: the second kind is seen from the order of events alone. The bytes of the blocks are not compared.

mod chain;
mod follow;

pub use chain::{Chain, LEAST_STEPS, Shape, Step};

use crate::site::{self, Answer, Placed, SiteId, Sites};
use crate::slop::Model;
use crate::symbols::Frame;
use follow::{Follower, Grown, Over, Turning};
use heapfile::event::{Event, Process, What};
use heapfile::reader::{Events, Reader};
use heapfile::sums;
use model::{Bytes, Result, Warning, shown};
use serde::Serialize;
use std::collections::BTreeMap;

/// How much is said of a recording's growth.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Frames that tell places apart.
    pub frames: usize,
    /// Places to describe for each process.
    pub top: usize,
}

/// Growth in a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "GrowthReport"))]
pub struct Report {
    /// Each process that allocated.
    pub processes: Vec<ProcessGrowth>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Growth in a process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct ProcessGrowth {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// Bytes asked for, all blocks.
    pub allocated_bytes: Bytes,
    /// Buffers that grew in [`LEAST_STEPS`] steps or more.
    pub grown_buffers: u64,
    /// Places that grow buffers too slowly, the costliest first; as many as were asked for.
    pub findings: Vec<Finding>,
    /// Places that make buffers smaller and larger by turns, most bytes first; as many as were asked for.
    pub swings: Vec<Swing>,
}

/// How growth was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "GrowthHow"))]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// `realloc` said which block became which: certain.
    Realloc,
    /// A larger block was made at the same place and the old one freed soon after by the same thread: probable.
    CopyAndFree,
}

/// A place that grows buffers too slowly.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Finding {
    /// By which events growth was seen.
    pub how: How,
    /// By which rule they grow.
    pub shape: Shape,
    /// Bytes that a step adds (linear), or the factor of a step (exponential): of the largest buffer.
    pub typical_step: f64,
    /// Number of buffers.
    pub buffers: u64,
    /// Steps in which these buffers grew.
    pub steps: u64,
    /// Sum of all their sizes.
    pub allocated_bytes: Bytes,
    /// Sum of the blocks that the allocator made of it, by its model; a growth within a block needs no new one.
    pub rounded_bytes: Bytes,
    /// What doubling would not have allocated.
    pub avoidable_bytes: Bytes,
    /// What was copied: old sizes of the steps that left their place.
    pub copied_bytes: Bytes,
    /// Calls that doubling would not have made.
    pub avoidable_calls: u64,
    /// Smallest last size.
    pub least_last_bytes: Bytes,
    /// Largest last size.
    pub most_last_bytes: Bytes,
    /// All buffers end within 10 % of each other, and they are 20 or more: this size could be reserved at once.
    pub predictable: bool,
    /// The first sizes of the largest buffer.
    pub example: Vec<u64>,
    /// Where the last growth was asked for, innermost first.
    pub site: Vec<Frame>,
}

/// A place whose buffers become smaller and larger again, by `realloc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Swing {
    /// Number of buffers.
    pub buffers: u64,
    /// Times that one grew after it had become smaller.
    pub turns: u64,
    /// Calls of `realloc` from the first time on that a buffer became smaller.
    pub calls: u64,
    /// Bytes that these asked for.
    pub allocated_bytes: Bytes,
    /// What was copied: what both sizes have, of the calls that left their place.
    pub copied_bytes: Bytes,
    /// Smallest size.
    pub least_bytes: Bytes,
    /// Largest size.
    pub most_bytes: Bytes,
    /// Where the last growth was asked for, innermost first.
    pub site: Vec<Frame>,
}

impl Finding {
    /// What it costs, roughly: 50 ns for a call, 10 bytes copied in a nanosecond. For the order of findings, no
    /// measurement.
    pub fn cost_ns(&self) -> u64 {
        self.copied_bytes.0 / 10 + self.steps.saturating_mul(50)
    }

    /// With what can be told when all buffers are in it.
    fn judged(self) -> Self {
        let spread = self.most_last_bytes.0 - self.least_last_bytes.0;
        Self { predictable: self.buffers >= 20 && spread <= self.most_last_bytes.0 / 10, ..self }
    }
}

/// Steps that a chain of allocating and freeing must have: by chance, six sizes in a row ascend once in 720 times, nine
/// once in 362,880.
const LEAST_PROBABLE_STEPS: u64 = 8;
/// A place must avoid so much to be worth a line,
const WORTH: u64 = 64 << 10;
/// or a hundredth of all bytes of the process, if that is so much.
const WORTH_IN_SMALL: u64 = 4096;

/// Reads a recording.
///
/// # Errors
/// A file that cannot be read.
pub fn report(reader: &Reader, options: &Options) -> Result<Report> {
    let (processes, warnings) = site::by_process(reader, options.frames, |process, events, sites| {
        if process.is_summed() {
            return Err(sums::no_events(reader.directory(), "growth is seen in the order of events"));
        }
        of_process(process, events, sites, options)
    })?;
    Ok(Report { processes, warnings })
}

impl Placed for ProcessGrowth {
    fn places(&mut self) -> impl Iterator<Item = &mut Vec<Frame>> {
        let findings = self.findings.iter_mut().map(|finding| &mut finding.site);
        findings.chain(self.swings.iter_mut().map(|swing| &mut swing.site))
    }
}

fn of_process(
    process: &Process,
    events: &mut Events,
    sites: &mut Sites,
    options: &Options,
) -> Result<Answer<ProcessGrowth>> {
    let mut growing = Growing::new(process);
    while let Some(event) = events.next()? {
        let site = match event.what {
            What::Alloc { .. } => sites.of(event.stack, events.stacks(), events.modules()),
            _ => ELSEWHERE,
        };
        growing.enter(&event, site);
    }
    Ok(growing.ended(process, options))
}

/// The place of an event that makes no block: nobody looks at it.
pub(crate) const ELSEWHERE: SiteId = SiteId(u32::MAX);

/// Growth while events come in.
pub(crate) struct Growing {
    follower: Follower,
    groups: Groups,
}

impl Growing {
    pub(crate) fn new(process: &Process) -> Self {
        // Rounding is told beside the sums, it decides nothing: an unknown allocator may be taken for the plainest.
        let model = Model::of(&process.allocator, &process.exe).unwrap_or(Model::Glibc);
        Self { follower: Follower::new(model), groups: Groups::default() }
    }

    /// Enters an event; `site` is where, for those that make blocks.
    pub(crate) fn enter(&mut self, event: &Event, site: SiteId) {
        self.follower.enter(event, site, &mut |over| self.groups.add(&over));
    }

    /// The process is over; `None`: it allocated nothing.
    pub(crate) fn ended(self, process: &Process, options: &Options) -> Answer<ProcessGrowth> {
        let Self { follower, mut groups } = self;
        let allocated = follower.allocated();
        if allocated == 0 {
            return None;
        }
        follower.end(&mut |over| groups.add(&over));
        let worth = WORTH.min((allocated / 100).max(WORTH_IN_SMALL));
        let mut findings: Vec<(SiteId, Finding)> =
            groups.slow.into_iter().map(|((site, ..), finding)| (site, finding)).collect();
        findings.retain(|(_, finding)| finding.avoidable_bytes.0 >= worth);
        findings.sort_by_key(|(site, finding)| (std::cmp::Reverse(finding.cost_ns()), *site));
        findings.truncate(options.top);
        let mut swings: Vec<(SiteId, Swing)> = groups.swings.into_iter().collect();
        swings.retain(|(_, swing)| swing.allocated_bytes.0 >= worth);
        swings.sort_by_key(|(site, swing)| (std::cmp::Reverse(swing.allocated_bytes), *site));
        swings.truncate(options.top);
        let places = findings.iter().map(|(site, _)| *site).chain(swings.iter().map(|(site, _)| *site)).collect();
        let answer = ProcessGrowth {
            pid: process.pid,
            exe: shown(&process.exe),
            allocated_bytes: Bytes(allocated),
            grown_buffers: groups.grown,
            findings: findings.into_iter().map(|(_, finding)| finding.judged()).collect(),
            swings: swings.into_iter().map(|(_, swing)| swing).collect(),
        };
        Some((answer, places))
    }
}

#[derive(Default)]
struct Groups {
    grown: u64,
    slow: BTreeMap<(SiteId, How, Shape), Finding>,
    swings: BTreeMap<SiteId, Swing>,
}

impl Groups {
    fn add(&mut self, over: &Over) {
        match over {
            Over::Grown(grown) => self.grew(grown),
            Over::Turned(turning) => self.turned(turning),
        }
    }

    fn turned(&mut self, turning: &Turning) {
        if turning.turns < LEAST_STEPS {
            return;
        }
        let swing = self.swings.entry(turning.site).or_insert_with(|| Swing {
            buffers: 0,
            turns: 0,
            calls: 0,
            allocated_bytes: Bytes(0),
            copied_bytes: Bytes(0),
            least_bytes: Bytes(u64::MAX),
            most_bytes: Bytes(0),
            site: Vec::new(),
        });
        swing.buffers += 1;
        swing.turns += turning.turns;
        swing.calls += turning.calls;
        add(&mut swing.allocated_bytes, turning.allocated);
        add(&mut swing.copied_bytes, turning.copied);
        swing.least_bytes = swing.least_bytes.min(Bytes(turning.least));
        swing.most_bytes = swing.most_bytes.max(Bytes(turning.most));
    }

    fn grew(&mut self, grown: &Grown) {
        let Grown { chain, site, how } = grown;
        let least = if *how == How::CopyAndFree { LEAST_PROBABLE_STEPS } else { LEAST_STEPS };
        if chain.steps() < least {
            return;
        }
        self.grown += 1;
        if !chain.is_bad() {
            return;
        }
        let shape = chain.shape();
        let finding = self.slow.entry((*site, *how, shape)).or_insert_with(|| Finding {
            how: *how,
            shape,
            typical_step: 0.0,
            buffers: 0,
            steps: 0,
            allocated_bytes: Bytes(0),
            rounded_bytes: Bytes(0),
            avoidable_bytes: Bytes(0),
            copied_bytes: Bytes(0),
            avoidable_calls: 0,
            least_last_bytes: Bytes(u64::MAX),
            most_last_bytes: Bytes(0),
            predictable: false,
            example: Vec::new(),
            site: Vec::new(),
        });
        finding.buffers += 1;
        finding.steps += chain.steps();
        add(&mut finding.allocated_bytes, chain.allocated());
        add(&mut finding.rounded_bytes, chain.rounded());
        add(&mut finding.avoidable_bytes, chain.avoidable());
        add(&mut finding.copied_bytes, chain.copied());
        finding.avoidable_calls += chain.avoidable_calls();
        if chain.last() > finding.most_last_bytes.0 {
            finding.typical_step = chain.typical();
            finding.example = chain.head().to_vec();
        }
        finding.least_last_bytes = finding.least_last_bytes.min(Bytes(chain.last()));
        finding.most_last_bytes = finding.most_last_bytes.max(Bytes(chain.last()));
    }
}

fn add(sum: &mut Bytes, more: u64) {
    sum.0 = sum.0.saturating_add(more);
}
