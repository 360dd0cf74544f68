//! The critical path: from the moment of readiness back to exec, on which every moment has one owner. Pure.
//!
//! While a thread runs, it owns the time. While it is ready and has no CPU, the wait for a CPU does. When it was woken
//! by a thread, the path goes over to that one at the moment of the wake, and whatever that one did until then owns the
//! time; threads outside of the tree only as far back as the wait began, for what they did before was not asked for.
//! When an interrupt ended the wait, or somebody outside of the tree brought the end of I/O, the wait itself owns the
//! time.
//! A new thread leads to its maker. What cannot be known is [`Whose::Unexplained`].

use crate::states::{Life, Piece, Since, State, States, Turn};
use crate::trace::{StackId, Trace, Waker, Went};
use crate::waits::{self, Interrupt, Kind, Waits};
use model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Who had the CPU that a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// This thread.
    Thread(u32),
    /// Nobody: the CPU was waking up, or the thread lay with another CPU.
    Idle,
    /// Not known.
    Unknown,
}

/// What a thread outside of the tree did whom the path waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It ran.
    Runs,
    /// It was ready and had no CPU.
    LacksCpu,
    /// It waited for what is not a thread.
    Waits,
}

/// Whose a piece of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The thread's, which runs.
    Running,
    /// The wait for a CPU.
    Cpu {
        /// Who ran there instead.
        ran: Ran,
        /// Whether it is known which CPU the thread waited for: the one that was taken from it and that it got again.
        is_sure: bool,
    },
    /// A wait's.
    Waits {
        /// What for.
        kind: Kind,
        /// Where the thread was when it left its CPU.
        stack: Option<StackId>,
        /// Whether an interrupt is known to have ended it that fits the kind; else it is concluded.
        is_sure: bool,
    },
    /// Another program's, or a thread of the kernel's.
    Other(Doing),
    /// Nobody's that is known, for this reason.
    Unexplained(&'static str),
}

/// Why the path went over to another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What the woken thread waited for.
    pub kind: Kind,
    /// The thread that waited: the path comes from it.
    pub woken: u32,
    /// The thread that woke it.
    pub waker: u32,
    /// Since when it waited.
    pub since: Nanos,
    /// When it was woken.
    pub at: Nanos,
    /// Where it was when it began to wait.
    pub waits_in: Option<StackId>,
    /// Where the waker was.
    pub wakes_in: Option<StackId>,
}

/// A piece of the path, with one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From then on.
    pub from: Nanos,
    /// Until then.
    pub to: Nanos,
    /// Whose thread it lies on.
    pub thread: u32,
    /// Who owns it.
    pub whose: Whose,
    /// What leads from here to the step behind it; `None`: it is the same thread, which did one after the other, or one
    /// that began to wait here.
    pub link: Option<Link>,
}

/// The critical path: its steps lie side by side, by time, and fill what lies between exec and ready.
pub fn path(trace: &Trace, states: &States) -> Vec<Step> {
    let last = trace.ready_by.unwrap_or(trace.root);
    let mut walker = Walker::new(trace, states);
    match states.life_at(last, trace.ready) {
        Some(life) => walker.walk(life),
        None => walker.own_as(last, Nanos(0), Whose::Unexplained("nothing is known of the thread that made it ready")),
    }
    walker.steps.reverse();
    walker.steps
}

/// The moment of readiness is when thaw saw it: on a busy machine the thread may have ended meanwhile.
const READ_LATE: &str = "the thread had ended before thaw saw that it was ready";

/// Beginnings of the names of the kernel's threads.
const KERNEL_THREADS: &[&str] = &[
    "kworker/",
    "ksoftirqd/",
    "jbd2/",
    "irq/",
    "kswapd",
    "xfs-",
    "xfsaild",
    "btrfs-",
    "scsi_",
    "dmcrypt",
    "kcryptd",
    "kcompactd",
    "khugepaged",
    "ext4-",
    "f2fs",
    "txg_",
    "migration/",
    "rcu",
    "kthreadd",
    "kauditd",
    "napi/",
];

/// Whether a thread outside of the tree has a name that the kernel gives to its own.
pub fn is_kernel_thread(name: &str) -> bool {
    KERNEL_THREADS.iter().any(|begins| name.starts_with(begins))
}

/// A thread outside of the tree is not followed past a moment.
#[derive(Clone, Copy)]
struct Limit {
    at: Nanos,
    /// Who began to wait then: the path goes on there.
    life: usize,
}

struct Walker<'a> {
    trace: &'a Trace,
    states: &'a States,
    waits: Waits<'a>,
    now: Nanos,
    life: usize,
    /// The nearest last; each later than the one before.
    limits: Vec<Limit>,
    link: Option<Link>,
    /// Who was asked at this moment already.
    asked: HashSet<usize>,
    /// The last first.
    steps: Vec<Step>,
}

impl<'a> Walker<'a> {
    fn new(trace: &'a Trace, states: &'a States) -> Self {
        let (limits, asked, steps) = (Vec::new(), HashSet::new(), Vec::new());
        let waits = Waits::of(&trace.stacks);
        Self { trace, states, waits, now: trace.ready, life: 0, limits, link: None, asked, steps }
    }

    fn walk(&mut self, last: usize) {
        self.life = last;
        while self.now > Nanos(0) {
            match self.limits.last() {
                Some(limit) if self.now <= limit.at => {
                    self.life = limit.life;
                    self.link = None;
                    self.limits.pop();
                }
                _ => self.step(),
            }
        }
    }

    /// The moment that the present thread is followed back to at most.
    fn floor(&self) -> Nanos {
        self.limits.last().map_or(Nanos(0), |limit| limit.at)
    }

    fn own_as(&mut self, thread: u32, from: Nanos, whose: Whose) {
        let from = from.max(self.floor());
        if from < self.now {
            self.steps.push(Step { from, to: self.now, thread, whose, link: self.link.take() });
            self.now = from;
            self.asked.clear();
        }
    }

    fn own(&mut self, from: Nanos, whose: Whose) {
        let thread = &self.states.lives[self.life].thread;
        let whose = match whose {
            Whose::Running if !thread.of_tree => Whose::Other(Doing::Runs),
            Whose::Waits { .. } if !thread.of_tree => Whose::Other(Doing::Waits),
            Whose::Cpu { .. } if !thread.of_tree => Whose::Other(Doing::LacksCpu),
            whose => whose,
        };
        self.own_as(thread.tid, from, whose);
    }

    fn step(&mut self) {
        let states = self.states;
        let life = &states.lives[self.life];
        let Some(index) = life.before(self.now) else {
            return if self.now > life.to {
                // Without the switches of CPUs there is only what the kernel shows a user of his own.
                let why = match self.trace.switches.is_empty() {
                    true => {
                        "the thread had ended, or it runs with other rights than its caller's, which root alone may see"
                    }
                    false if self.now == self.trace.ready => READ_LATE,
                    false => "the thread had ended",
                };
                self.own(life.to, Whose::Unexplained(why));
            } else {
                self.began(life);
            };
        };
        let piece = life.pieces[index];
        match piece.state {
            State::Running { .. } => self.own(piece.from, Whose::Running),
            State::Runnable { since, got } => self.lacked_cpu(piece, since, got),
            State::Waiting { .. } => self.waited(piece),
            State::Unknown(why) => self.own(piece.from, Whose::Unexplained(why)),
        }
    }

    /// It did not exist before: its maker did.
    fn began(&mut self, life: &'a Life) {
        let maker = life.thread.made_by.and_then(|tid| self.states.life_at(tid, self.now));
        match maker {
            Some(maker)
                if self.states.lives[maker].thread.of_tree && !self.asked.contains(&maker) && maker != self.life =>
            {
                let link = self.linked(maker, Kind::New, self.now);
                self.goes(maker, self.now, link);
            }
            _ => self.own(self.floor(), Whose::Unexplained("who made the thread was not seen")),
        }
    }

    fn linked(&self, waker: usize, kind: Kind, since: Nanos) -> Link {
        let tid = |life: usize| self.states.lives[life].thread.tid;
        let (woken, waker) = (tid(self.life), tid(waker));
        Link { kind, woken, waker, since, at: self.now, waits_in: None, wakes_in: None }
    }

    fn goes(&mut self, to: usize, since: Nanos, link: Link) {
        if self.states.lives[to].thread.of_tree {
            self.limits.clear();
        } else if since > self.floor() {
            self.limits.push(Limit { at: since, life: self.life });
        }
        self.asked.insert(self.life);
        self.link.get_or_insert(link);
        self.life = to;
    }

    fn lacked_cpu(&mut self, piece: Piece, since: Since, got: Option<u32>) {
        let from = piece.from.max(self.floor());
        let lost = match since {
            Since::Preempted(cpu) => Some(cpu),
            Since::Before | Since::Woken(_) => None,
        };
        // Whom a CPU is taken from lies with it until another CPU takes him.
        let is_sure = lost.is_some() && lost == got;
        let Some(cpu) = lost.or(got) else {
            return self.own(from, Whose::Cpu { ran: Ran::Unknown, is_sure });
        };
        for turn in self.states.turns(cpu, from, self.now).iter().rev() {
            let ran = match *turn {
                Turn { tid: Some(0), .. } => Ran::Idle,
                Turn { tid: Some(tid), .. } => Ran::Thread(tid),
                Turn { tid: None, .. } => Ran::Unknown,
            };
            self.own(turn.from, Whose::Cpu { ran, is_sure });
        }
    }

    fn waited(&mut self, piece: Piece) {
        let State::Waiting { went, stack, wake } = piece.state else { return };
        let found = self.waits.wait(stack);
        let owns = |kind, is_sure| Whose::Waits { kind, stack, is_sure: is_sure && found.is_sure };
        // Of a thread that has ended no stacks are taken down any more, and the kernel still works at its end.
        let end = self.states.lives[self.life].thread.end;
        let is_end = found.kind == Kind::Unknown && end.is_some_and(|end| end <= piece.from);
        let kind = if is_end { Kind::Exit } else { found.kind };
        // A wake behind this moment is not why the path is here.
        let Some(wake) = wake.map(|wake| &self.trace.wakes[wake]).filter(|wake| wake.at <= self.now) else {
            return self.own(piece.from, owns(kind, true));
        };
        let Waker::Thread(tid) = wake.by else {
            return self.interrupted(piece, kind, wake.stack);
        };
        // What the idle task does in its own name it does for an interrupt.
        if tid == 0 {
            return self.interrupted(piece, kind, wake.stack);
        }
        let Some(waker) = self.states.life_at(tid, wake.at) else {
            return self.own(piece.from, Whose::Unexplained("nothing is known of the thread that woke it"));
        };
        if self.is_io(kind, went, waker) {
            return self.own(piece.from, owns(kind, true));
        }
        if waker == self.life || self.asked.contains(&waker) {
            return self.own(piece.from, Whose::Unexplained("threads wake each other at the same moment"));
        }
        let kind = if wake.new { Kind::New } else { kind };
        let link = Link { waits_in: stack, wakes_in: wake.stack, ..self.linked(waker, kind, piece.from) };
        self.goes(waker, piece.from, link);
    }

    /// Whether the waker only brought the end of I/O, or of an end: the kernel's thread did, or another program's that
    /// had asked for the same page. A thread of the tree that did so is followed: it is known what it did.
    fn is_io(&self, kind: Kind, went: Option<Went>, waker: usize) -> bool {
        let thread = &self.states.lives[waker].thread;
        let is_unnamed = kind == Kind::Unknown && went == Some(Went::Held) && is_kernel_thread(&thread.name);
        !thread.of_tree && (kind.is_device() || kind == Kind::Exit || is_unnamed)
    }

    /// An interrupt ended the wait.
    fn interrupted(&mut self, piece: Piece, kind: Kind, waker: Option<StackId>) {
        let State::Waiting { stack, .. } = piece.state else { return };
        let is_known = self.waits.wait(stack).is_sure;
        let (kind, is_sure) = ended_by(kind, waits::interrupt(&self.trace.stacks, waker));
        self.own(piece.from, Whose::Waits { kind, stack, is_sure: is_sure && is_known });
    }
}

/// What a wait was for that an interrupt ended, and whether that is sure.
pub fn ended_by(kind: Kind, interrupt: Interrupt) -> (Kind, bool) {
    match (interrupt, kind) {
        // Of these nothing else is the end.
        (_, Kind::Sleep | Kind::DiskRead | Kind::PageFault | Kind::DiskWrite | Kind::Fsync | Kind::Memory) => {
            (kind, true)
        }
        (Interrupt::Timer, _) => (Kind::Sleep, true),
        (Interrupt::Network, Kind::Poll | Kind::Network | Kind::Unknown | Kind::Other) => (Kind::Network, true),
        (Interrupt::Disk, Kind::Unknown | Kind::Other) => (Kind::DiskRead, false),
        // No thread released it: only its time can have been up, or a signal of a timer's came.
        (_, Kind::Lock) => (Kind::Sleep, false),
        (_, Kind::Network) => (kind, true),
        (_, kind) => (kind, false),
    }
}

#[cfg(test)]
mod tests;
