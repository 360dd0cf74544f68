//! Runs a [`Plan`] on a [`Host`] and hands every run to a [`Sink`]. Knows nothing of processes, caches or files, so
//! that its tests take no time.

pub use crate::schedule::Plan;
use crate::schedule::{Cell, Kind, Traced};
use model::{Bytes, CacheState, Error, Exit, Milestone, Nanos, Need, ResidencyRow, Result, RunId, RunKind, RunRow};
use model::{Warning, WarningKind};
use stats::Random;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::time::{Duration, SystemTime};

/// Called at least once a second during long steps, with the time since the step began.
pub type Tick<'a> = &'a mut dyn FnMut(Duration);

/// Sees what a start does. The app brings one; this room only says when.
pub trait Tracer {
    /// Whether it wants to see a variant's very first start, which is not timed, to learn where to look. Asked just
    /// before that.
    fn looks_first(&mut self) -> bool {
        false
    }
    /// Variables for the start that it will see next, beside the program's own. Asked just before that.
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(Vec::new())
    }
    /// The program was forked and has not executed anything yet.
    fn attach(&mut self, pid: u32) -> Result<()>;
    /// The program is ready (or gave up); its processes may still be there. `t0_ns` is CLOCK_MONOTONIC just before
    /// exec.
    fn detach(&mut self, t0_ns: u64) -> Result<()>;
}

/// Whether the caches are as a state asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Proven by residency.
    InState,
    /// Nothing is known yet about what a start needs, so there is nothing to prove it with.
    Unproven,
    /// It is not, and why, with the names of those who hold pages.
    NotInState(String),
    /// For `hot`: the program has to be started once for it (a run of kind [`RunKind::Warmup`]), then this is asked
    /// again.
    NeedsWarmUp(String),
}

/// The caches before a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// What was resident of each needed file.
    pub residency: Vec<ResidencyRow>,
    /// Share (0..1) of the program's own needed bytes that were resident; `None` if it needs none of its own.
    pub own_share: Option<f64>,
    /// Share (0..1) of the system's needed bytes that were resident; `None` if it needs none.
    pub system_share: Option<f64>,
    /// Whether that is the state.
    pub verdict: Verdict,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

impl Prepared {
    /// Nothing was done, since a run would not count whatever the caches hold.
    pub(crate) fn not_in_state(why: String) -> Self {
        let verdict = Verdict::NotInState(why);
        Self { residency: Vec::new(), own_share: None, system_share: None, verdict, warnings: Vec::new() }
    }
}

/// One start.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was measured. `id`, `block`, `attempt` and the resident shares are filled in by [`conduct`];
    /// `accepted` is `false` (with its reason) if the program failed or did not get ready.
    pub row: RunRow,
    /// The probes that fired, by time.
    pub milestones: Vec<Milestone>,
    /// Why the run was not made in its state and under the recording's settings, as far as that shows only afterwards;
    /// then it is not accepted.
    pub disturbed: Option<String>,
    /// What the program printed last, for error messages.
    pub output_tail: String,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// Why a start failed, with what the program printed last.
pub fn with_tail(because: String, tail: &str) -> String {
    let tail = tail.trim_end();
    if tail.is_empty() {
        format!("{because}; it printed nothing")
    } else {
        format!("{because}; it printed last:\n{tail}")
    }
}

/// What can start programs. [`crate::record::Lab`] is the real one.
pub trait Host {
    /// What people call a variant.
    fn name(&self, variant: u32) -> String;
    /// Brings the caches into a state and proves it. May take as long as a start.
    fn prepare(&mut self, variant: u32, state: CacheState, tick: Tick<'_>) -> Result<Prepared>;
    /// Starts a program, waits until it is ready, ends it with all that it started. Follows [`Host::prepare`], unless
    /// it is a warm-up.
    ///
    /// # Errors
    /// What will not get better by trying again: unknown program, a probe that cannot work. A program that fails is an
    /// [`Outcome`] that is not accepted. Interrupted: `Exit::Interrupted`.
    fn start(
        &mut self,
        variant: u32,
        state: CacheState,
        kind: RunKind,
        tracer: Option<&mut dyn Tracer>,
        tick: Tick<'_>,
    ) -> Result<Outcome>;
    /// Takes what a start of a variant needs, and adds it to what it learned before: from then on states are proven
    /// with it.
    fn learn(&mut self, variant: u32, needs: Vec<Need>);
    /// Whether [`Host::learn`] was called for a variant.
    fn knows(&self, variant: u32) -> bool;
    /// The coldest state that this machine can reach: needs are learned in it.
    fn learning_state(&self) -> CacheState;
    /// Lets time pass, unless the user wants to stop.
    fn wait(&mut self, how_long: Duration, tick: Tick<'_>) -> Result<()>;
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
    /// Whether the user wants to stop.
    fn interrupted(&self) -> bool;
}

/// What is going on.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// To which variant.
    pub variant: u32,
    /// For which state.
    pub state: CacheState,
    /// For which kind of run.
    pub kind: RunKind,
    /// In which block, from 0.
    pub block: u32,
    /// 1 for the first try.
    pub attempt: u32,
    /// Timed runs that count so far, of all cells.
    pub done: u32,
    /// Timed runs that are planned, of all cells; with `precision` the fewest.
    pub planned: u32,
    /// Since this step began.
    pub in_step: Duration,
    /// Since the recording began.
    pub elapsed: Duration,
    /// The wall time of the run that just ended, when `step` is [`Step::Ran`].
    pub wall: Option<Nanos>,
}

/// Steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caches are being brought into the state.
    Preparing,
    /// The program runs.
    Running,
    /// It is done and stored.
    Ran,
}

/// Takes what was measured.
pub trait Sink {
    /// A run, counted or not; `run.id` is to be ignored. Its number in the recording comes back.
    fn run(&mut self, run: &RunRow, milestones: &[Milestone], residency: &[ResidencyRow]) -> Result<RunId>;
    /// Follows [`Sink::run`] of a traced run that counts, while the caches are still as the run left them: what the
    /// tracer saw is to be resolved and stored now. What a start needs comes back, if the trace tells.
    fn traced(&mut self, run: RunId, row: &RunRow) -> Result<Option<Vec<Need>>>;
    /// A doubt.
    fn warning(&mut self, warning: Warning) -> Result<()>;
    /// What is going on; at least once a second.
    fn progress(&mut self, progress: &Progress);
}

/// Why [`conduct`] came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All planned blocks were run.
    Done,
    /// Every cell got as precise as was asked.
    Precise,
    /// The budget was over first.
    BudgetOver,
    /// The user stopped it.
    Interrupted,
}

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Why it ended.
    pub end: End,
    /// Complete blocks.
    pub blocks: u32,
    /// Timed runs that count.
    pub timed: u32,
    /// Traced runs that count.
    pub traced: u32,
    /// Runs that do not count.
    pub rejected: u32,
    /// States that no run reached any more, with the variant, and why; each is a warning of the recording, too.
    pub unreached: Vec<(u32, CacheState, String)>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs the plan. Before the first block each variant is started once to see that it works and to let it make what
/// a first start makes (a warm-up), and with a tracer once more, traced, in the coldest state, to learn what a start
/// needs. Without a tracer there are no traced runs, nothing is learned, and states are prepared but not proven.
///
/// # Errors
/// A program that cannot be started or always fails (`Exit::Target`, with what it printed last), a state that cannot be
/// reached (`Exit::Machine`, naming who holds pages), and errors of the sink. All finished runs are in the sink by
/// then. An interrupt is not an error: [`End::Interrupted`].
pub fn conduct(
    plan: &Plan,
    host: &mut dyn Host,
    sink: &mut dyn Sink,
    tracer: Option<&mut dyn Tracer>,
) -> Result<Summary> {
    if plan.variants == 0 || plan.states.is_empty() || plan.max_attempts == 0 {
        return Err(Error::bug("a plan without variants, states or attempts"));
    }
    let mut session = Session::new(plan, host, sink, tracer);
    let end = match session.run() {
        Ok(end) => end,
        Err(error) if error.exit == Exit::Interrupted => End::Interrupted,
        Err(error) => return Err(error),
    };
    Ok(Summary { end, elapsed: session.host.now() - session.began, ..session.summary })
}

/// Blocks in a row in which a cell may get no run that counts, once it has had one.
const EMPTY_BLOCKS: u32 = 2;

/// Where and as what a run is made.
#[derive(Clone, Copy)]
struct Place {
    variant: u32,
    state: CacheState,
    kind: RunKind,
    block: u32,
    attempt: u32,
}

/// Why an attempt does not count.
enum Rejection {
    NotInState(String),
    /// It was in its state before the run and not during it.
    Disturbed(String),
    Failed {
        because: String,
        tail: String,
        /// With which code it ended, if it did by itself.
        code: Option<i32>,
    },
}

struct Session<'a, 't> {
    plan: &'a Plan,
    host: &'a mut dyn Host,
    sink: &'a mut dyn Sink,
    tracer: Option<&'t mut (dyn Tracer + 't)>,
    random: Random,
    began: Duration,
    summary: Summary,
    traced: Traced,
    /// Wall times in seconds of runs that count, by cell.
    times: BTreeMap<Cell, Vec<f64>>,
    /// Cells whose last block brought no run that counts, and how many blocks in a row.
    empty: HashMap<Cell, u32>,
    /// Variants that were started at least once.
    met: HashSet<u32>,
    /// Warnings that were given already.
    said: HashSet<String>,
}

impl<'a, 't> Session<'a, 't> {
    fn new(
        plan: &'a Plan,
        host: &'a mut dyn Host,
        sink: &'a mut dyn Sink,
        tracer: Option<&'t mut (dyn Tracer + 't)>,
    ) -> Self {
        let began = host.now();
        Self {
            plan,
            host,
            sink,
            tracer,
            random: Random::from_seed(plan.seed),
            began,
            summary: Summary {
                end: End::Done,
                blocks: 0,
                timed: 0,
                traced: 0,
                rejected: 0,
                unreached: Vec::new(),
                elapsed: Duration::ZERO,
            },
            traced: Traced::new(),
            times: BTreeMap::new(),
            empty: HashMap::new(),
            met: HashSet::new(),
            said: HashSet::new(),
        }
    }

    fn run(&mut self) -> Result<End> {
        for variant in 0..self.plan.variants {
            self.first_start(variant)?;
            self.learn(variant)?;
        }
        for block in 0..self.plan.last_block() {
            if self.plan.budget.is_some_and(|budget| self.host.now() - self.began >= budget) {
                self.say_over_budget()?;
                return Ok(End::BudgetOver);
            }
            let traced = self.tracer.is_some().then_some(&self.traced);
            for cell in self.plan.block(traced, &mut self.random) {
                if !self.is_given_up(cell.variant, cell.state) {
                    self.cell(self.plan.first_block + block, cell)?;
                }
            }
            self.summary.blocks = block + 1;
            if block + 1 >= self.plan.fewest_blocks() && self.is_precise() {
                return Ok(End::Precise);
            }
        }
        if let Some(goal) = self.plan.precision {
            self.say_imprecise(goal, &format!("after {} blocks", self.plan.last_block()), "raise the number of runs")?;
        }
        Ok(End::Done)
    }

    /// The very first start: tells at once whether the program works.
    fn first_start(&mut self, variant: u32) -> Result<()> {
        let place = Place { variant, state: CacheState::Hot, kind: RunKind::Warmup, block: 0, attempt: 1 };
        match self.warm_up(place)? {
            Ok(()) => Ok(()),
            Err(rejection) => Err(self.give_up(variant, place.state, rejection)),
        }
    }

    /// Starts that do not count, for what they leave in memory.
    fn warm_up(&mut self, place: Place) -> Result<std::result::Result<(), Rejection>> {
        for _ in 0..self.plan.warm_ups.max(1) {
            if let Err(rejection) = self.start(place, None)? {
                return Ok(Err(rejection));
            }
        }
        Ok(Ok(()))
    }

    /// One traced start in the coldest state, which tells what a start needs.
    fn learn(&mut self, variant: u32) -> Result<()> {
        if self.host.knows(variant) {
            return Ok(());
        }
        if self.tracer.is_none() {
            return self.say_unproven();
        }
        let state = self.host.learning_state();
        self.attempts(Place { variant, state, kind: RunKind::Trace, block: 0, attempt: 1 })?
            .map_err(|rejection| self.give_up(variant, state, rejection))?;
        if self.host.knows(variant) { Ok(()) } else { self.say_unproven() }
    }

    fn say_unproven(&mut self) -> Result<()> {
        let text = "the cache states of the runs are prepared but not proven: no traced run told what a start needs";
        self.warn(Warning::new(WarningKind::Note, text), None)
    }

    /// One cell of a block.
    fn cell(&mut self, block: u32, cell: Cell) -> Result<()> {
        let Cell { variant, state, kind } = cell;
        let Err(rejection) = self.attempts(Place { variant, state, kind: kind.into(), block, attempt: 1 })? else {
            self.empty.remove(&cell);
            return Ok(());
        };
        let had_one = self.times.contains_key(&cell) || kind == Kind::Trace;
        let empty = self.empty.entry(cell).or_default();
        *empty += 1;
        if had_one && *empty < EMPTY_BLOCKS {
            return Ok(());
        }
        match rejection {
            Rejection::NotInState(why) | Rejection::Disturbed(why) if self.others_can_go_on(variant, state) => {
                self.leave_out(variant, state, why)
            }
            rejection => Err(self.give_up(variant, state, rejection)),
        }
    }

    fn is_given_up(&self, variant: u32, state: CacheState) -> bool {
        self.summary.unreached.iter().any(|(gone, what, _)| (*gone, *what) == (variant, state))
    }

    /// Whether anything else is left to measure.
    fn others_can_go_on(&self, variant: u32, state: CacheState) -> bool {
        let mut all = (0..self.plan.variants).flat_map(|one| self.plan.states.iter().map(move |what| (one, *what)));
        all.any(|(one, what)| (one, what) != (variant, state) && !self.is_given_up(one, what))
    }

    /// A state that cannot be reached is said to be so, and the others are measured.
    fn leave_out(&mut self, variant: u32, state: CacheState, why: String) -> Result<()> {
        let text = format!("the cache state {state} of {} was not reached: {why}", self.host.name(variant));
        let hint = "end the programs that hold these files or empty the caches, and record this state again";
        self.warn(Warning::new(WarningKind::NotInState, text).hint(hint), None)?;
        self.summary.unreached.push((variant, state, why));
        Ok(())
    }

    /// Tries until a run counts, at most as often as the plan says; then the last reason comes back.
    fn attempts(&mut self, place: Place) -> Result<std::result::Result<(), Rejection>> {
        let mut last = Ok(());
        for attempt in 1..=self.plan.max_attempts {
            last = self.attempt(Place { attempt, ..place })?;
            match last {
                Ok(()) => break,
                Err(Rejection::NotInState(_)) if attempt < self.plan.max_attempts => self.wait(place, attempt)?,
                Err(_) => {}
            }
        }
        Ok(last)
    }

    /// Gives whoever holds the pages the time to end: three times as long after each attempt.
    fn wait(&mut self, place: Place, attempt: u32) -> Result<()> {
        let _span = tracing::info_span!("wait", state = %place.state).entered();
        let how_long = self.plan.patience * 3u32.saturating_pow(attempt - 1);
        let shown = self.progress_of(Place { attempt, ..place }, Step::Preparing);
        let sink = &mut *self.sink;
        let mut tick =
            |in_step| sink.progress(&Progress { in_step, elapsed: shown.elapsed + in_step, ..shown.clone() });
        self.host.wait(how_long, &mut tick)
    }

    fn attempt(&mut self, place: Place) -> Result<std::result::Result<(), Rejection>> {
        let mut prepared = self.prepare(place)?;
        if matches!(prepared.verdict, Verdict::NeedsWarmUp(_)) {
            let warm_up = Place { kind: RunKind::Warmup, ..place };
            if let Err(rejection) = self.warm_up(warm_up)? {
                return Ok(Err(rejection));
            }
            prepared = self.prepare(place)?;
        }
        match &prepared.verdict {
            Verdict::InState | Verdict::Unproven => self.start(place, Some(&prepared)),
            Verdict::NotInState(why) | Verdict::NeedsWarmUp(why) => {
                let why = why.clone();
                let row = self.row_of_no_start(place, &prepared, &why);
                let run = self.sink.run(&row, &[], &prepared.residency)?;
                self.summary.rejected += 1;
                self.warn_not_in_state(place, &why, run)?;
                self.warn_of_state(place, prepared.warnings, run)?;
                Ok(Err(Rejection::NotInState(why)))
            }
        }
    }

    fn warn_not_in_state(&mut self, place: Place, why: &str, run: RunId) -> Result<()> {
        let text = format!("a run of {} was not {}: {why}", self.host.name(place.variant), place.state);
        self.warn(Warning::new(WarningKind::NotInState, text), Some(run))
    }

    fn prepare(&mut self, place: Place) -> Result<Prepared> {
        let _span = tracing::info_span!("prepare", state = %place.state).entered();
        self.stop_if_interrupted()?;
        let shown = self.progress_of(place, Step::Preparing);
        let sink = &mut *self.sink;
        sink.progress(&shown);
        let mut tick =
            |in_step| sink.progress(&Progress { in_step, elapsed: shown.elapsed + in_step, ..shown.clone() });
        self.host.prepare(place.variant, place.state, &mut tick)
    }

    /// Starts the program and stores the run.
    fn start(&mut self, place: Place, prepared: Option<&Prepared>) -> Result<std::result::Result<(), Rejection>> {
        let _span = tracing::info_span!("start", kind = place.kind.name()).entered();
        self.stop_if_interrupted()?;
        let shown = self.progress_of(place, Step::Running);
        self.sink.progress(&shown);
        let sink = &mut *self.sink;
        let mut tick =
            |in_step| sink.progress(&Progress { in_step, elapsed: shown.elapsed + in_step, ..shown.clone() });
        let is_first = self.met.insert(place.variant);
        let tracer: Option<&mut dyn Tracer> = match (&mut self.tracer, place.kind) {
            (Some(tracer), RunKind::Trace) => Some(&mut **tracer),
            (Some(tracer), RunKind::Warmup) if is_first => tracer.looks_first().then_some(&mut **tracer),
            _ => None,
        };
        let outcome = self.host.start(place.variant, place.state, place.kind, tracer, &mut tick)?;
        self.store(place, prepared, outcome)
    }

    fn store(
        &mut self,
        place: Place,
        prepared: Option<&Prepared>,
        outcome: Outcome,
    ) -> Result<std::result::Result<(), Rejection>> {
        let _span = tracing::info_span!("store").entered();
        let Outcome { mut row, milestones, disturbed, output_tail: tail, warnings } = outcome;
        row.block = place.block;
        row.attempt = place.attempt;
        row.own_resident_share = prepared.and_then(|prepared| prepared.own_share);
        row.system_resident_share = prepared.and_then(|prepared| prepared.system_share);
        let residency = prepared.map_or(&[][..], |prepared| &prepared.residency);
        let run = self.sink.run(&row, &milestones, residency)?;
        row.id = run;
        if let Some(prepared) = prepared {
            self.warn_of_state(place, prepared.warnings.clone(), run)?;
        }
        for warning in warnings {
            self.warn(warning, Some(run))?;
        }
        if row.accepted {
            self.count(place, &row)?;
        }
        self.sink.progress(&Progress { wall: row.wall_ns, ..self.progress_of(place, Step::Ran) });
        if row.accepted {
            return Ok(Ok(()));
        }
        self.summary.rejected += 1;
        if let Some(why) = disturbed {
            self.warn_not_in_state(place, &why, run)?;
            return Ok(Err(Rejection::Disturbed(why)));
        }
        let because = row.rejected_because.unwrap_or_else(|| "it failed".to_owned());
        let text = format!(
            "{} {} run of {} does not count: {because}",
            place.state.article(),
            place.state,
            self.host.name(place.variant)
        );
        self.warn(Warning::new(WarningKind::FailedRun, text), Some(run))?;
        Ok(Err(Rejection::Failed { because, tail, code: row.exit_code }))
    }

    /// Takes a run that counts into account.
    fn count(&mut self, place: Place, row: &RunRow) -> Result<()> {
        let Place { variant, state, kind, .. } = place;
        match (kind, row.wall_ns) {
            (RunKind::Timed, Some(wall)) => {
                self.summary.timed += 1;
                self.times.entry(Cell { variant, state, kind: Kind::Timed }).or_default().push(wall.seconds());
            }
            (RunKind::Trace, _) => {
                self.summary.traced += 1;
                *self.traced.entry((variant, state)).or_default() += 1;
                // Before anything else is started: names and caches are still as the run left them.
                // Every trace adds to it: in one of them somebody else may have held some files in memory.
                if let Some(needs) = self.sink.traced(row.id, row)? {
                    self.host.learn(variant, needs);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_precise(&mut self) -> bool {
        let Some(goal) = self.plan.precision else { return false };
        self.times.values().all(|times| {
            let median = crate::analyze::median(times);
            stats::relative_half_width(&median).is_some_and(|width| width < goal)
        })
    }

    fn say_over_budget(&mut self) -> Result<()> {
        if let Some(goal) = self.plan.precision {
            return self.say_imprecise(goal, "when the budget was over", "give it more time");
        }
        let (blocks, planned) = (self.summary.blocks, self.plan.blocks);
        let text = format!("the budget was over after {blocks} of {planned} complete blocks of runs");
        self.warn(Warning::new(WarningKind::TooFewRuns, text).hint("give it more time, or fewer states"), None)
    }

    fn say_imprecise(&mut self, goal: f64, when: &str, hint: &str) -> Result<()> {
        for ((variant, state), times) in cells_of(&self.times) {
            let median = crate::analyze::median(&times);
            let width = stats::relative_half_width(&median);
            if width.is_some_and(|width| width < goal) {
                continue;
            }
            let is = width.map_or("no interval yet".to_owned(), |width| format!("±{:.1} %", width * 100.0));
            let name = self.host.name(variant);
            let text = format!("the median of {name}, {state}, has {is} {when}; ±{:.1} % was asked", goal * 100.0);
            self.warn(Warning::new(WarningKind::Precision, text).hint(hint), None)?;
        }
        Ok(())
    }

    fn give_up(&mut self, variant: u32, state: CacheState, rejection: Rejection) -> Error {
        let name = self.host.name(variant);
        match rejection {
            Rejection::NotInState(why) | Rejection::Disturbed(why) => {
                Error::new(Exit::Machine, format!("the cache state {state} cannot be reached for"), name)
                    .because(why)
                    .hint("end the programs that hold these files, or measure other states: --state app,hot")
            }
            Rejection::Failed { because, tail, code } => {
                let printed = match last_lines(&tail) {
                    lines if lines.is_empty() => "it printed nothing".to_owned(),
                    lines => format!("the last that it printed:\n{lines}"),
                };
                let by_hand =
                    "run the same command by hand; if it only takes longer, raise --timeout; if it works, see --ready";
                let hint = match code {
                    Some(_) => format!("{by_hand}\nif that exit code is fine: --ok-exit 0,CODE"),
                    None => by_hand.to_owned(),
                };
                Error::new(Exit::Target, "no start worked of", name).because(format!("{because}; {printed}")).hint(hint)
            }
        }
    }

    fn row_of_no_start(&self, place: Place, prepared: &Prepared, why: &str) -> RunRow {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        RunRow {
            block: place.block,
            attempt: place.attempt,
            accepted: false,
            rejected_because: Some(format!("not {}: {why}", place.state)),
            own_resident_share: prepared.own_share,
            system_resident_share: prepared.system_share,
            ..blank_row(place.variant, place.state, place.kind, now.as_nanos() as u64)
        }
    }

    fn progress_of(&self, place: Place, step: Step) -> Progress {
        Progress {
            step,
            variant: place.variant,
            state: place.state,
            kind: place.kind,
            block: place.block,
            attempt: place.attempt,
            done: self.summary.timed,
            planned: self.plan.planned_runs(),
            in_step: Duration::ZERO,
            elapsed: self.host.now() - self.began,
            wall: None,
        }
    }

    fn stop_if_interrupted(&self) -> Result<()> {
        if self.host.interrupted() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Passes on what a preparation doubts, once per state and kind of doubt: the figures in it change from run to run.
    fn warn_of_state(&mut self, place: Place, warnings: Vec<Warning>, run: RunId) -> Result<()> {
        for warning in warnings {
            if self.said.insert(format!("{:?} {} {}", warning.kind, place.variant, place.state)) {
                self.sink.warning(Warning { run: warning.run.or(Some(run)), ..warning })?;
            }
        }
        Ok(())
    }

    /// Passes a warning on, once: what is the same for every run is said with the first.
    fn warn(&mut self, mut warning: Warning, run: Option<RunId>) -> Result<()> {
        if !self.said.insert(warning.text.clone()) {
            return Ok(());
        }
        warning.run = warning.run.or(run);
        self.sink.warning(warning)
    }
}

fn cells_of(times: &BTreeMap<Cell, Vec<f64>>) -> Vec<((u32, CacheState), Vec<f64>)> {
    times.iter().map(|(cell, times)| ((cell.variant, cell.state), times.clone())).collect()
}

/// The end of what a program printed, indented: enough to see what it complained about.
fn last_lines(tail: &str) -> String {
    const LINES: usize = 10;
    let lines: Vec<&str> = tail.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LINES);
    lines[from..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// A run of which nothing was measured.
pub(crate) fn blank_row(variant: u32, state: CacheState, kind: RunKind, started_unix_ns: u64) -> RunRow {
    RunRow {
        id: RunId(0),
        variant,
        state,
        kind,
        block: 0,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns,
        wall_ns: None,
        exit_ns: None,
        user_ns: Nanos(0),
        system_ns: Nanos(0),
        max_rss: Bytes(0),
        minor_faults: 0,
        major_faults: 0,
        read_bytes: None,
        read_requests: None,
        written_bytes: None,
        instructions: None,
        cycles: None,
        exit_code: None,
        exit_signal: None,
        others_cpu_share: None,
        others_io_pressure: None,
        own_resident_share: None,
        system_resident_share: None,
    }
}

#[cfg(test)]
mod tests;
