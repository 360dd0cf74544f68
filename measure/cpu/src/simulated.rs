//! A small machine for tests: threads, locks, pipes, sleeps and CPUs. It writes a trace as a recorder would, and knows
//! the truth: it does not look back, but each thread carries along whose all time until now was.

use crate::drawn::kernel_stack;
use crate::trace::{StackId, Switch, Thread, Trace, Wake, Waker, Went};
use model::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// What a thread does next. Each takes at least one nanosecond of a CPU.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Runs so long.
    Work(u64),
    /// Waits for a timer.
    Sleep(u64),
    /// Waits for a disk.
    Disk(u64),
    /// Takes a lock.
    Lock(usize),
    /// Gives it back.
    Unlock(usize),
    /// Writes a byte into a pipe.
    Send(usize),
    /// Reads one.
    Recv(usize),
    /// Makes this thread, by its number here.
    Make(usize),
}

/// What is true of a time: of the path `Cpu` is a wait for a CPU, of a state it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Runs.
    Runs,
    /// Has none.
    LacksCpu,
    /// Waits, by its letter in [`crate::drawn::WAITS`].
    Waits(char),
}

/// From when to when which thread did what.
pub type Span = (u64, u64, u32, Does);

/// Time that is behind a thread: the newest piece, and what was before.
struct Past {
    span: Span,
    before: History,
}
type History = Option<Rc<Past>>;

/// One after the other: a long past would overflow the stack.
impl Drop for Past {
    fn drop(&mut self) {
        let mut at = self.before.take();
        while let Some(past) = at {
            at = Rc::into_inner(past).and_then(|mut past| past.before.take());
        }
    }
}

fn then(before: &History, from: u64, to: u64, tid: u32, does: Does) -> History {
    if from == to {
        return before.clone();
    }
    Some(Rc::new(Past { span: (from, to, tid, does), before: before.clone() }))
}

/// By time; neighbours that say the same are one.
fn listed(history: &History) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = history;
    while let Some(past) = at {
        spans.push(past.span);
        at = &past.before;
    }
    spans.reverse();
    joined(spans)
}

/// Neighbours that say the same made one.
pub fn joined(spans: Vec<Span>) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for (from, to, tid, does) in spans {
        match found.last_mut() {
            Some(last) if (last.1, last.2, last.3) == (from, tid, does) => last.1 = to,
            _ => found.push((from, to, tid, does)),
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unborn,
    Runs(usize),
    Ready,
    Waits(char),
    Ended,
}

struct Actor {
    tid: u32,
    of_tree: bool,
    program: Vec<Op>,
    at: usize,
    left: u64,
    state: State,
    since: u64,
    history: History,
    /// What it did, all its life.
    life: Vec<Span>,
    start: u64,
    made_by: Option<u32>,
}

/// What the machine did.
pub struct Outcome {
    /// As a recorder would have it.
    pub trace: Trace,
    /// Whose all time until ready is, looked at from its first thread.
    pub path: Vec<Span>,
    /// What each thread did, by time.
    pub lives: Vec<(u32, Vec<Span>)>,
}

struct Machine {
    now: u64,
    quantum: u64,
    actors: Vec<Actor>,
    cpus: Vec<Option<usize>>,
    /// A CPU's plans are void when it goes over to another thread.
    epochs: Vec<u64>,
    ready: VecDeque<usize>,
    plans: BinaryHeap<Reverse<(u64, u64, Plan)>>,
    count: u64,
    locks: Vec<(Option<usize>, VecDeque<usize>)>,
    pipes: Vec<(u64, VecDeque<usize>)>,
    trace: Trace,
    stacks: Vec<(char, Option<StackId>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Plan {
    Cpu(usize, u64),
    Timer(usize),
}

const TID: u32 = 10;

/// Runs programs until the first one ends, nothing goes on, or the time is up. Those of `outside` are other programs'
/// and there from the beginning; the others begin when they are made.
pub fn run(cpus: usize, quantum: u64, tree: &[Vec<Op>], outside: &[Vec<Op>], most: u64) -> Outcome {
    let all = tree.iter().map(|program| (true, program)).chain(outside.iter().map(|program| (false, program)));
    let actor = |(index, (of_tree, program)): (usize, (bool, &Vec<Op>))| {
        let (tid, state) = (TID + index as u32, if of_tree && index > 0 { State::Unborn } else { State::Ready });
        let (program, history, life) = (program.clone(), None, Vec::new());
        Actor { tid, of_tree, program, at: 0, left: 0, state, since: 0, history, life, start: 0, made_by: None }
    };
    let mut machine = Machine {
        now: 0,
        quantum,
        actors: all.enumerate().map(actor).collect(),
        cpus: vec![None; cpus],
        epochs: vec![0; cpus],
        ready: VecDeque::new(),
        plans: BinaryHeap::new(),
        count: 0,
        locks: (0..4).map(|_| (None, VecDeque::new())).collect(),
        pipes: (0..4).map(|_| (0, VecDeque::new())).collect(),
        trace: Trace { root: TID, ready_by: Some(TID), cpus: cpus as u32, ..Trace::default() },
        stacks: Vec::new(),
    };
    for (letter, functions, _) in crate::drawn::WAITS {
        let stack = kernel_stack(&mut machine.trace, functions);
        machine.stacks.push((*letter, stack));
    }
    machine.ready.extend((0..machine.actors.len()).filter(|index| machine.actors[*index].state == State::Ready));
    machine.go(most)
}

impl Machine {
    fn go(mut self, most: u64) -> Outcome {
        self.fill();
        while self.actors[0].state != State::Ended {
            let Some(Reverse((at, _, plan))) = self.plans.pop().filter(|Reverse((at, ..))| *at <= most) else { break };
            self.now = at;
            match plan {
                Plan::Cpu(cpu, epoch) if self.epochs[cpu] == epoch => self.ticks(cpu),
                Plan::Cpu(..) => {}
                Plan::Timer(who) => self.wake(who, None),
            }
            self.fill();
        }
        self.ended()
    }

    fn plan(&mut self, at: u64, plan: Plan) {
        self.count += 1;
        self.plans.push(Reverse((at, self.count, plan)));
    }

    /// Gives idle CPUs to those that are ready.
    fn fill(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].is_none()
                && let Some(next) = self.ready.pop_front()
            {
                self.switch(cpu, Went::Preempted, Some(next), None);
            }
        }
    }

    fn set(&mut self, who: usize, state: State) {
        let now = self.now;
        let actor = &mut self.actors[who];
        let (since, tid) = (actor.since, actor.tid);
        let does = match actor.state {
            State::Runs(_) => Some(Does::Runs),
            State::Ready => Some(Does::LacksCpu),
            State::Waits(letter) => Some(Does::Waits(letter)),
            State::Unborn | State::Ended => None,
        };
        if let Some(does) = does.filter(|_| since < now) {
            actor.life.push((since, now, tid, does));
            // A wait's owner is known when it ends.
            if !matches!(does, Does::Waits(_)) {
                actor.history = then(&actor.history, since, now, tid, does);
            }
        }
        (actor.state, actor.since) = (state, now);
    }

    fn switch(&mut self, cpu: usize, went: Went, next: Option<usize>, stack: Option<StackId>) {
        let tid = |who: Option<usize>| who.map_or(0, |who| self.actors[who].tid);
        let (from, to) = (tid(self.cpus[cpu]), tid(next));
        if self.now > 0 || from != 0 {
            self.trace.switches.push(Switch { at: Nanos(self.now), cpu: cpu as u32, from, went, to, stack });
        }
        self.cpus[cpu] = next;
        self.epochs[cpu] += 1;
        if let Some(next) = next {
            self.set(next, State::Runs(cpu));
            self.runs_on(cpu, next);
        }
    }

    fn cost(&self, who: usize) -> Option<u64> {
        let actor = &self.actors[who];
        match actor.program.get(actor.at)? {
            Op::Work(ns) => Some((*ns).max(1)),
            _ => Some(1),
        }
    }

    fn runs_on(&mut self, cpu: usize, who: usize) {
        if self.actors[who].left == 0 {
            // Who has nothing more to do needs a moment to end.
            self.actors[who].left = self.cost(who).unwrap_or(1);
        }
        let slice = self.actors[who].left.min(self.quantum);
        self.actors[who].left -= slice;
        self.plan(self.now + slice, Plan::Cpu(cpu, self.epochs[cpu]));
    }

    /// An operation has had its time, or a thread its turn.
    fn ticks(&mut self, cpu: usize) {
        let who = self.cpus[cpu].expect("only busy CPUs have plans");
        if self.actors[who].left == 0 {
            let op = self.actors[who].program.get(self.actors[who].at).copied();
            self.actors[who].at += 1;
            match op.map(|op| self.does(who, op)) {
                None => return self.leaves(cpu, who, State::Ended, Went::Ended),
                Some(Some(letter)) => {
                    let went = if letter == 'd' { Went::Held } else { Went::Asleep };
                    return self.leaves(cpu, who, State::Waits(letter), went);
                }
                Some(None) => {}
            }
        }
        match self.ready.pop_front() {
            Some(next) => {
                self.set(who, State::Ready);
                self.ready.push_back(who);
                self.switch(cpu, Went::Preempted, Some(next), None);
            }
            None => self.runs_on(cpu, who),
        }
    }

    fn leaves(&mut self, cpu: usize, who: usize, state: State, went: Went) {
        self.set(who, state);
        let stack = match state {
            State::Waits(letter) if self.actors[who].of_tree => self.stacks.iter().find(|(of, _)| *of == letter),
            _ => None,
        };
        let stack = stack.and_then(|(_, stack)| *stack);
        let next = self.ready.pop_front();
        self.switch(cpu, went, next, stack);
    }

    /// The letter of the wait that an operation begins; `None`: it needs none.
    fn does(&mut self, who: usize, op: Op) -> Option<char> {
        match op {
            Op::Work(_) => None,
            Op::Sleep(ns) | Op::Disk(ns) => {
                self.plan(self.now + ns.max(1), Plan::Timer(who));
                Some(if matches!(op, Op::Sleep(_)) { 'z' } else { 'd' })
            }
            Op::Lock(lock) => {
                let (holder, queue) = &mut self.locks[lock];
                if holder.is_none() {
                    *holder = Some(who);
                    return None;
                }
                queue.push_back(who);
                Some('L')
            }
            Op::Unlock(lock) => {
                let (holder, queue) = &mut self.locks[lock];
                if *holder == Some(who) {
                    *holder = queue.pop_front();
                    if let Some(next) = *holder {
                        self.wake(next, Some(who));
                    }
                }
                None
            }
            Op::Send(pipe) => {
                let (bytes, queue) = &mut self.pipes[pipe];
                match queue.pop_front() {
                    Some(reader) => self.wake(reader, Some(who)),
                    None => *bytes += 1,
                }
                None
            }
            Op::Recv(pipe) => {
                let (bytes, queue) = &mut self.pipes[pipe];
                if *bytes > 0 {
                    *bytes -= 1;
                    return None;
                }
                queue.push_back(who);
                Some('p')
            }
            Op::Make(new) => {
                // Other programs make no threads of the tree.
                if self.actors[who].of_tree && self.actors.get(new).is_some_and(|new| new.state == State::Unborn) {
                    self.make(new, who);
                }
                None
            }
        }
    }

    /// All time until now, looked at from a thread that runs.
    fn past(&self, who: usize) -> History {
        let actor = &self.actors[who];
        then(&actor.history, actor.since, self.now, actor.tid, Does::Runs)
    }

    fn make(&mut self, new: usize, maker: usize) {
        let (history, made_by) = (self.past(maker), Some(self.actors[maker].tid));
        let now = self.now;
        let actor = &mut self.actors[new];
        (actor.state, actor.since, actor.start) = (State::Ready, now, now);
        (actor.history, actor.made_by) = (history, made_by);
        self.wakes(new, Some(maker), true);
        self.ready.push_back(new);
    }

    fn wakes(&mut self, woken: usize, by: Option<usize>, new: bool) {
        let by = by.map_or(Waker::Interrupt, |by| Waker::Thread(self.actors[by].tid));
        let woken = self.actors[woken].tid;
        self.trace.wakes.push(Wake { at: Nanos(self.now), by, woken, new, stack: None });
    }

    fn wake(&mut self, who: usize, by: Option<usize>) {
        let State::Waits(letter) = self.actors[who].state else { panic!("only who waits is woken") };
        let (since, own) = (self.actors[who].since, self.actors[who].history.clone());
        let now = self.now;
        let history = match by {
            _ if since == now => own,
            None => then(&own, since, now, self.actors[who].tid, Does::Waits(letter)),
            Some(by) if self.actors[by].of_tree => self.past(by),
            Some(by) => self.after_outsider(&own, since, &self.past(by)),
        };
        self.wakes(who, by, false);
        self.set(who, State::Ready);
        self.actors[who].history = history;
        self.ready.push_back(who);
    }

    /// What an outsider did since the wait began, unless the tree had a part in that: then all of it.
    fn after_outsider(&self, own: &History, since: u64, past: &History) -> History {
        let mut recent = Vec::new();
        let mut at = past;
        while let Some(piece) = at.as_ref().filter(|piece| piece.span.1 > since) {
            if self.actors[(piece.span.2 - TID) as usize].of_tree {
                return past.clone();
            }
            recent.push(piece.span);
            at = &piece.before;
        }
        let mut history = own.clone();
        for (from, to, tid, does) in recent.into_iter().rev() {
            history = then(&history, from.max(since), to, tid, does);
        }
        history
    }

    fn ended(mut self) -> Outcome {
        for who in 0..self.actors.len() {
            let was = self.actors[who].state;
            let (since, tid) = (self.actors[who].since, self.actors[who].tid);
            self.set(who, was);
            if let State::Waits(letter) = was {
                let history = then(&self.actors[who].history, since, self.now, tid, Does::Waits(letter));
                self.actors[who].history = history;
            }
        }
        self.trace.ready = Nanos(self.now);
        for actor in self.actors.iter().filter(|actor| actor.state != State::Unborn) {
            let Actor { tid, of_tree, made_by, start, .. } = *actor;
            let end = (actor.state == State::Ended).then_some(Nanos(actor.since));
            let (name, start) = (format!("t{tid}"), Nanos(start));
            self.trace.threads.push(Thread { tid, pid: tid, name, of_tree, made_by, start, end });
        }
        let path = listed(&self.actors[0].history);
        let lives = self.actors.into_iter().map(|actor| (actor.tid, joined(actor.life))).collect();
        Outcome { trace: self.trace, path, lives }
    }
}
