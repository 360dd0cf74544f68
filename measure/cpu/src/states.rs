//! What each thread did when: it ran, it was ready and had no CPU, it waited. Pure.
//!
//! What records do not tell is [`State::Unknown`] with a reason. A CPU whose records do not join (it leaves a thread
//! that it did not go over to) lost some: no thread is said to run across that. Where more are lost than show in this
//! way, what lies before a CPU's first record and behind its last one is not known either. Records
//! that are lost so that the others still join cannot be noticed here: [`Trace::lost_switches`] counts them.

use crate::trace::{StackId, Switch, Thread, Trace, Wake, Went};
use model::Nanos;
use std::collections::{HashMap, HashSet};

/// Why a thread is ready to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It was so when the records begin.
    Before,
    /// Another one was to run, on this CPU.
    Preempted(u32),
    /// It was woken, or it is new: this one of [`Trace::wakes`].
    Woken(usize),
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running {
        /// On this CPU; `None`: no record says on which.
        cpu: Option<u32>,
    },
    /// It could run, and has no CPU.
    Runnable {
        /// Since what.
        since: Since,
        /// The CPU that it ran on afterwards; `None`: it did not.
        got: Option<u32>,
    },
    /// It waits; a new thread also until its maker lets it run.
    Waiting {
        /// How it left its CPU; `None`: that was before the records begin.
        went: Option<Went>,
        /// Where it was then.
        stack: Option<StackId>,
        /// What ended the wait, of [`Trace::wakes`]; `None`: nothing did.
        wake: Option<usize>,
    },
    /// Not known, for this reason.
    Unknown(&'static str),
}

/// A thread did one thing from when to when; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From then on.
    pub from: Nanos,
    /// Until then.
    pub to: Nanos,
    /// What it did.
    pub state: State,
}

/// A thread's life until ready: its pieces lie side by side and fill it.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Who.
    pub thread: Thread,
    /// Its beginning.
    pub from: Nanos,
    /// Its end, at most the moment of readiness.
    pub to: Nanos,
    /// What it did, by time.
    pub pieces: Vec<Piece>,
}

impl Life {
    /// What it did just before a moment: the index of the piece that holds it or ends with it.
    pub fn before(&self, at: Nanos) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.to < at);
        self.pieces.get(index).filter(|piece| piece.from < at).map(|_| index)
    }
}

/// What a CPU did from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// From then on.
    pub from: Nanos,
    /// Until then.
    pub to: Nanos,
    /// It ran this thread, 0 for none; `None`: records are lost.
    pub tid: Option<u32>,
}

/// All threads and CPUs of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// Threads in the order of [`Trace::threads`], then those that only records name. Without the idle ones.
    pub lives: Vec<Life>,
    by_tid: HashMap<u32, Vec<usize>>,
    turns: HashMap<u32, Vec<Turn>>,
}

/// A wake can be written down while its thread is still on the way from its CPU, by at most this.
const RACE: Nanos = Nanos(100_000);

const NO_SWITCHES: &str = "which thread ran when was not recorded";
const NOT_SEEN: &str = "no record speaks of the thread in this time";
const NO_WAKE: &str = "who woke the thread was not seen";
const LOST: &str = "records of the CPU's changes are lost";

impl States {
    /// What the records say.
    pub fn of(trace: &Trace) -> Self {
        let links = Links::of(trace);
        let (threads, mut records) = sorted_records(trace);
        let mut states = Self { turns: turns(trace, &links), ..Self::default() };
        for thread in threads {
            states.by_tid.entry(thread.tid).or_default().push(states.lives.len());
            let of_tid = records.entry(thread.tid).or_default();
            let own = of_tid.remove(&states.by_tid[&thread.tid].len()).unwrap_or_default();
            states.lives.push(Reader::new(trace, &links, thread).read(own));
        }
        states
    }

    /// The life of a thread at a moment; of numbers that were given twice the last that had begun.
    pub fn life_at(&self, tid: u32, at: Nanos) -> Option<usize> {
        let lives = self.by_tid.get(&tid)?;
        lives.iter().rev().copied().find(|index| self.lives[*index].from <= at).or_else(|| lives.first().copied())
    }

    /// What a CPU did in a time, cut to it. Times that no record speaks of are `None`.
    pub fn turns(&self, cpu: u32, from: Nanos, to: Nanos) -> Vec<Turn> {
        let all = self.turns.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|turn| turn.to <= from);
        let mut found: Vec<Turn> = Vec::new();
        let mut now = from;
        for turn in all[first..].iter().take_while(|turn| turn.from < to) {
            let cut = Turn { from: turn.from.max(from), to: turn.to.min(to), tid: turn.tid };
            now = cut.to;
            found.push(cut);
        }
        if now < to {
            found.push(Turn { from: now, to, tid: None });
        }
        found
    }
}

/// How the records of a CPU join.
struct Links {
    /// The index of the next switch of the same CPU.
    next: Vec<Option<usize>>,
    /// The index of the one before.
    previous: Vec<Option<usize>>,
    /// The first switch of each CPU.
    first: Vec<usize>,
    /// Threads whose way from a CPU is missing.
    silent: HashSet<u32>,
    /// Whether each switch that is missing shows by what does not join: then none is missing at the ends.
    all_show: bool,
}

impl Links {
    fn of(trace: &Trace) -> Self {
        let count = trace.switches.len();
        let (next, previous) = (vec![None; count], vec![None; count]);
        let mut links = Self { next, previous, first: Vec::new(), silent: HashSet::new(), all_show: false };
        let mut gaps = 0;
        let mut last: HashMap<u32, usize> = HashMap::new();
        for (index, switch) in trace.switches.iter().enumerate() {
            match last.insert(switch.cpu, index) {
                Some(before) => {
                    (links.next[before], links.previous[index]) = (Some(index), Some(before));
                    let went_to = trace.switches[before].to;
                    if went_to != switch.from {
                        gaps += 1;
                        links.silent.insert(went_to);
                    }
                }
                None => links.first.push(index),
            }
        }
        links.all_show = trace.lost_switches <= gaps;
        links
    }
}

fn turns(trace: &Trace, links: &Links) -> HashMap<u32, Vec<Turn>> {
    let mut turns: HashMap<u32, Vec<Turn>> = HashMap::new();
    for first in &links.first {
        let switch = &trace.switches[*first];
        let of_cpu = turns.entry(switch.cpu).or_default();
        let mut push = |from: Nanos, to: Nanos, tid| {
            let to = to.min(trace.ready);
            if from < to {
                of_cpu.push(Turn { from, to, tid });
            }
        };
        // Where some are lost, a CPU's first and last records need not be the first and last changes.
        let is_whole = trace.lost_switches == 0;
        push(Nanos(0), switch.at, is_whole.then_some(switch.from));
        let mut at = *first;
        while let Some(next) = links.next[at] {
            let (this, that) = (&trace.switches[at], &trace.switches[next]);
            push(this.at, that.at, (this.to == that.from).then_some(this.to));
            at = next;
        }
        let last = &trace.switches[at];
        push(last.at, trace.ready, is_whole.then_some(last.to));
    }
    turns
}

/// A record that speaks of one thread; the number is its index in the trace.
#[derive(Clone, Copy, Debug)]
enum Record {
    Out(usize),
    Woken(usize),
    In(usize),
}

impl Record {
    fn at(self, trace: &Trace) -> Nanos {
        match self {
            Self::Out(index) | Self::In(index) => trace.switches[index].at,
            Self::Woken(index) => trace.wakes[index].at,
        }
    }
}

/// Records of a thread's number by which of the threads of that number they belong to, counted from 1.
type ByLife = HashMap<usize, Vec<Record>>;

/// All threads but the idle ones, and the records of each by time.
fn sorted_records(trace: &Trace) -> (Vec<Thread>, HashMap<u32, ByLife>) {
    let mut all: Vec<(Nanos, u32, Record)> = Vec::with_capacity(trace.switches.len() * 2 + trace.wakes.len());
    for (index, switch) in trace.switches.iter().enumerate() {
        all.push((switch.at, switch.from, Record::Out(index)));
        all.push((switch.at, switch.to, Record::In(index)));
    }
    all.extend(trace.wakes.iter().enumerate().map(|(index, wake)| (wake.at, wake.woken, Record::Woken(index))));
    all.retain(|(at, tid, _)| *at <= trace.ready && *tid != 0);
    all.sort_by_key(|(at, _, _)| *at);
    let mut threads: Vec<Thread> =
        trace.threads.iter().filter(|thread| thread.tid != 0 && thread.start <= trace.ready).cloned().collect();
    let mut starts: HashMap<u32, Vec<Nanos>> = HashMap::new();
    for thread in &threads {
        starts.entry(thread.tid).or_default().push(thread.start);
    }
    let mut records: HashMap<u32, ByLife> = HashMap::new();
    for (at, tid, record) in all {
        let starts = starts.entry(tid).or_insert_with(|| {
            threads.push(unnamed(tid));
            vec![Nanos(0)]
        });
        let life = starts.partition_point(|start| *start <= at).max(1);
        records.entry(tid).or_default().entry(life).or_default().push(record);
    }
    (threads, records)
}

/// A thread that only records name.
fn unnamed(tid: u32) -> Thread {
    let name = format!("thread {tid}");
    Thread { tid, pid: tid, name, of_tree: false, made_by: None, start: Nanos(0), end: None }
}

/// What is known of a thread at the record that was read last.
#[derive(Clone, Copy, Debug)]
enum Now {
    /// No record was read.
    Before,
    /// It runs since this switch; `None`: since before.
    On(u32, Option<usize>),
    Ready(Since),
    /// It left its CPU by this switch.
    Off(usize),
    Ended,
}

/// Reads the records of one thread.
struct Reader<'a> {
    trace: &'a Trace,
    links: &'a Links,
    life: Life,
    now: Now,
    since: Nanos,
    /// A wake that was seen while it ran.
    early: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(trace: &'a Trace, links: &'a Links, thread: Thread) -> Self {
        let from = thread.start;
        let life = Life { thread, from, to: from, pieces: Vec::new() };
        Self { trace, links, life, now: Now::Before, since: from, early: None }
    }

    fn read(mut self, records: Vec<Record>) -> Life {
        // Who began before, by what is known of it, and is new later: it began then.
        if let Some(Record::Woken(index)) = records.first().copied() {
            let wake = &self.trace.wakes[index];
            if wake.new && (self.since > wake.at || self.since == Nanos(0)) {
                self.since = wake.at;
                self.life.from = wake.at;
            }
        } else if let Some(first) = records.first() {
            self.since = self.since.min(first.at(self.trace));
            self.life.from = self.since;
        }
        // Who leaves a CPU first has run since before: the first record of a CPU says whom it ran until then.
        let first = records.iter().find(|record| !matches!(record, Record::Woken(_)));
        if let Some(Record::Out(index)) = first.filter(|_| self.life.from == Nanos(0)) {
            self.now = Now::On(self.trace.switches[*index].cpu, None);
        }
        let mut rest = &records[..];
        while let Some(first) = rest.first() {
            let at = first.at(self.trace);
            let together = rest.iter().take_while(|record| record.at(self.trace) == at).count();
            self.read_together(&rest[..together]);
            rest = &rest[together..];
        }
        self.finish()
    }

    /// Records of one moment: each CPU's are in order, but not one CPU's after another's.
    fn read_together(&mut self, records: &[Record]) {
        /// More at one moment are no real ones.
        const MOST: usize = 16;
        if records.len() > MOST {
            return records.iter().for_each(|record| self.read_one(*record));
        }
        let mut left = records.to_vec();
        while !left.is_empty() {
            let fits = |record: &Record| match (self.now, record) {
                (Now::On(..), Record::Out(index)) => self.joins(*index),
                (Now::Ready(_), Record::In(_)) | (Now::Off(_) | Now::Before, Record::Woken(_)) => true,
                _ => false,
            };
            let next = left.iter().position(fits).unwrap_or(0);
            self.read_one(left.remove(next));
        }
    }

    fn read_one(&mut self, record: Record) {
        match record {
            Record::In(index) => self.goes_on(index),
            Record::Out(index) => self.leaves(index),
            Record::Woken(index) => self.woken(index),
        }
    }

    fn push(&mut self, to: Nanos, state: State) {
        if self.since < to {
            self.life.pieces.push(Piece { from: self.since, to, state });
        }
        self.since = self.since.max(to);
    }

    /// Whether the CPU that it runs on leaves it by this switch, and did nothing in between.
    fn joins(&self, out: usize) -> bool {
        match self.now {
            Now::On(_, Some(index)) => self.links.next[index] == Some(out),
            Now::On(cpu, None) => {
                let is_first = self.links.previous[out].is_none() && self.ran_before();
                is_first && self.trace.switches[out].cpu == cpu
            }
            _ => false,
        }
    }

    /// Whether a thread whose first record is that it leaves a CPU has run until then: where the kernel is silent of
    /// some threads, of others it is only known that they were there, but the first thread ran when it called exec.
    fn ran_before(&self) -> bool {
        let trace = self.trace;
        trace.lost_switches == 0 || (self.links.all_show && self.life.thread.tid == trace.root)
    }

    fn before(&self, needs_wakes: bool) -> Option<&'static str> {
        let trace = self.trace;
        if self.life.thread.start > Nanos(0) || (needs_wakes && trace.wakes.is_empty()) {
            Some(NO_WAKE)
        } else {
            (trace.lost_switches > 0).then_some(LOST)
        }
    }

    fn goes_on(&mut self, index: usize) {
        let Switch { at, cpu, .. } = self.trace.switches[index];
        match self.now {
            Now::Ready(since) => self.push(at, State::Runnable { since, got: Some(cpu) }),
            Now::Before => match self.before(true) {
                Some(why) => self.push(at, State::Unknown(why)),
                None => self.push(at, State::Runnable { since: Since::Before, got: Some(cpu) }),
            },
            Now::Off(out) => match self.early.filter(|wake| self.is_race(*wake, out)) {
                Some(wake) => self.push(at, State::Runnable { since: Since::Woken(wake), got: Some(cpu) }),
                None => self.push(at, State::Unknown(NO_WAKE)),
            },
            Now::On(..) | Now::Ended => self.push(at, State::Unknown(LOST)),
        }
        (self.now, self.early) = (Now::On(cpu, Some(index)), None);
    }

    fn is_race(&self, wake: usize, out: usize) -> bool {
        self.trace.switches[out].at - self.trace.wakes[wake].at <= RACE
    }

    fn leaves(&mut self, index: usize) {
        let Switch { at, cpu, went, .. } = self.trace.switches[index];
        let state = if self.joins(index) { State::Running { cpu: Some(cpu) } } else { State::Unknown(LOST) };
        self.push(at, state);
        self.now = match went {
            Went::Preempted => Now::Ready(Since::Preempted(cpu)),
            Went::Asleep | Went::Held => Now::Off(index),
            Went::Ended => Now::Ended,
        };
    }

    fn woken(&mut self, index: usize) {
        let Wake { at, new, .. } = self.trace.wakes[index];
        match self.now {
            // It was on the way to a wait, or is woken a second time.
            Now::On(..) => return self.early = Some(index),
            Now::Ready(_) => return,
            Now::Off(out) => {
                let switch = &self.trace.switches[out];
                let (went, stack) = (Some(switch.went), switch.stack);
                self.push(at, State::Waiting { went, stack, wake: Some(index) });
            }
            Now::Before if new || self.before(true).is_none() => {
                self.push(at, State::Waiting { went: None, stack: None, wake: Some(index) });
            }
            Now::Before => self.push(at, State::Unknown(NO_WAKE)),
            Now::Ended => self.push(at, State::Unknown(LOST)),
        }
        self.now = Now::Ready(Since::Woken(index));
    }

    fn finish(mut self) -> Life {
        let trace = self.trace;
        let end = self.life.thread.end.unwrap_or(trace.ready).min(trace.ready);
        match self.now {
            Now::Ended => {}
            Now::On(cpu, index) => {
                let goes_on = match index.and_then(|index| self.links.next[index]) {
                    Some(next) => trace.switches[next].from == self.life.thread.tid,
                    None => self.links.all_show && !self.links.silent.contains(&self.life.thread.tid),
                };
                self.push(end, if goes_on { State::Running { cpu: Some(cpu) } } else { State::Unknown(LOST) });
            }
            Now::Ready(since) => self.push(end, State::Runnable { since, got: None }),
            Now::Off(out) => {
                let Switch { went, stack, .. } = trace.switches[out];
                self.push(end, State::Waiting { went: Some(went), stack, wake: None });
            }
            // Who calls exec runs then, and no CPU has left it since.
            Now::Before if !trace.switches.is_empty() && self.life.thread.tid == trace.root && self.links.all_show => {
                self.push(end, State::Running { cpu: None });
            }
            Now::Before => {
                self.push(end, State::Unknown(if trace.switches.is_empty() { NO_SWITCHES } else { NOT_SEEN }));
            }
        }
        self.life.to = self.since;
        self.life
    }
}

#[cfg(test)]
mod tests;
