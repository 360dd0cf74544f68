//! Recordings on a machine that is not there: [`MockHost`] follows a script and its starts take no time.

use super::*;
use std::collections::VecDeque;

/// What the scripted machine does at a start.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Ready after so many milliseconds.
    Ready(u64),
    /// Ends with exit code 1.
    Fails,
    /// The caches were not in the state.
    Held,
    /// They were, and somebody else dropped them during the run.
    Disturbed,
    /// The caches are not warm: a warm-up is needed.
    Lukewarm,
}

/// A machine of paper.
struct MockHost {
    /// Acts of the runs that are special, by variant and state; a start that is not in here takes 100 ms.
    script: HashMap<(u32, CacheState), VecDeque<Act>>,
    clock: Duration,
    learned: HashMap<u32, Vec<Need>>,
    log: Vec<(u32, CacheState, RunKind)>,
    interrupt_after: Option<usize>,
    waited: Vec<Duration>,
}

impl MockHost {
    fn new() -> Self {
        Self {
            script: HashMap::new(),
            clock: Duration::ZERO,
            learned: HashMap::new(),
            log: Vec::new(),
            interrupt_after: None,
            waited: Vec::new(),
        }
    }
    fn script(mut self, variant: u32, state: CacheState, acts: impl IntoIterator<Item = Act>) -> Self {
        self.script.insert((variant, state), acts.into_iter().collect());
        self
    }
    fn next(&mut self, variant: u32, state: CacheState, take: impl Fn(Act) -> bool) -> Option<Act> {
        let acts = self.script.get_mut(&(variant, state))?;
        if acts.front().is_some_and(|&act| take(act)) { acts.pop_front() } else { None }
    }
}

impl Host for MockHost {
    fn name(&self, variant: u32) -> String {
        format!("v{variant}")
    }
    fn prepare(&mut self, variant: u32, state: CacheState, tick: Tick<'_>) -> Result<Prepared> {
        tick(Duration::from_secs(1));
        self.clock += Duration::from_secs(1);
        let verdict = match self.next(variant, state, |act| matches!(act, Act::Held | Act::Lukewarm)) {
            Some(Act::Held) => Verdict::NotInState("libx.so stays: mapped by 7 (other)".to_owned()),
            Some(Act::Lukewarm) => Verdict::NeedsWarmUp("12 % resident".to_owned()),
            _ => Verdict::InState,
        };
        Ok(Prepared { residency: Vec::new(), own_share: Some(0.0), system_share: None, verdict, warnings: Vec::new() })
    }
    fn start(
        &mut self,
        variant: u32,
        state: CacheState,
        kind: RunKind,
        tracer: Option<&mut dyn Tracer>,
        tick: Tick<'_>,
    ) -> Result<Outcome> {
        assert_eq!(tracer.is_some(), kind == RunKind::Trace);
        if let Some(tracer) = tracer {
            tracer.attach(1)?;
            tracer.detach(0)?;
        }
        tick(Duration::from_secs(1));
        self.log.push((variant, state, kind));
        let act = match kind {
            RunKind::Warmup => None,
            _ => self.next(variant, state, |act| matches!(act, Act::Ready(_) | Act::Fails | Act::Disturbed)),
        };
        let mut row = blank_row(variant, state, kind, 0);
        self.clock += Duration::from_secs(1);
        match act.unwrap_or(Act::Ready(100)) {
            Act::Ready(ms) => row.wall_ns = Some(Nanos(ms * 1_000_000)),
            Act::Disturbed => {
                row.accepted = false;
                row.rejected_because = Some(format!("not {state}: somebody dropped the caches"));
            }
            _ => {
                row.accepted = false;
                row.exit_code = Some(1);
                row.rejected_because = Some("it ended with exit code 1".to_owned());
            }
        }
        Ok(Outcome {
            row,
            milestones: Vec::new(),
            disturbed: (act == Some(Act::Disturbed)).then(|| "somebody dropped the caches".to_owned()),
            output_tail: "cannot open display\n".to_owned(),
            warnings: Vec::new(),
        })
    }
    fn learn(&mut self, variant: u32, needs: Vec<Need>) {
        self.learned.insert(variant, needs);
    }
    fn knows(&self, variant: u32) -> bool {
        self.learned.contains_key(&variant)
    }
    fn learning_state(&self) -> CacheState {
        CacheState::Cold
    }
    fn wait(&mut self, how_long: Duration, _tick: Tick<'_>) -> Result<()> {
        self.clock += how_long;
        self.waited.push(how_long);
        Ok(())
    }
    fn now(&self) -> Duration {
        self.clock
    }
    fn interrupted(&self) -> bool {
        self.interrupt_after.is_some_and(|runs| self.log.len() >= runs)
    }
}

/// Keeps everything.
#[derive(Default)]
struct Book {
    runs: Vec<RunRow>,
    traced: Vec<RunId>,
    warnings: Vec<Warning>,
    progress: Vec<Progress>,
    full_after: Option<usize>,
    /// The trace does not tell what a start needs.
    blind: bool,
}

impl Sink for Book {
    fn run(&mut self, run: &RunRow, _: &[Milestone], _: &[ResidencyRow]) -> Result<RunId> {
        if self.full_after.is_some_and(|full| self.runs.len() >= full) {
            return Err(Error::new(Exit::Data, "no space left for the recording", "x.thaw"));
        }
        let id = RunId(self.runs.len() as i64 + 1);
        self.runs.push(RunRow { id, ..run.clone() });
        Ok(id)
    }
    fn traced(&mut self, run: RunId, _: &RunRow) -> Result<Option<Vec<Need>>> {
        self.traced.push(run);
        Ok((!self.blind).then(Vec::new))
    }
    fn warning(&mut self, warning: Warning) -> Result<()> {
        self.warnings.push(warning);
        Ok(())
    }
    fn progress(&mut self, progress: &Progress) {
        self.progress.push(progress.clone());
    }
}

impl Book {
    fn of(&self, kind: RunKind, state: CacheState) -> Vec<&RunRow> {
        self.runs.iter().filter(|run| run.kind == kind && run.state == state).collect()
    }
    fn kinds(&self) -> Vec<WarningKind> {
        self.warnings.iter().map(|warning| warning.kind).collect()
    }
}

struct NoEyes;
impl Tracer for NoEyes {
    fn attach(&mut self, _: u32) -> Result<()> {
        Ok(())
    }
    fn detach(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

fn plan(states: &[CacheState], blocks: u32) -> Plan {
    Plan { states: states.to_vec(), blocks, ..Plan::default() }
}

const BOTH: [CacheState; 2] = [CacheState::Hot, CacheState::Cold];

#[test]
fn every_block_has_every_cell_and_the_first_blocks_the_traced_runs() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    let plan = Plan { variants: 2, trace_runs: 3, ..plan(&BOTH, 4) };
    let summary = conduct(&plan, &mut host, &mut book, Some(&mut NoEyes)).unwrap();
    assert_eq!((summary.end, summary.blocks, summary.timed, summary.traced), (End::Done, 4, 16, 6));
    for block in 0..4 {
        let timed: Vec<_> = book.runs.iter().filter(|r| r.kind == RunKind::Timed && r.block == block).collect();
        assert_eq!(timed.len(), 4, "block {block}");
    }
    // Per variant: a first start, one to learn (traced and cold, so it is one of the three), and two more in blocks 0
    // and 1.
    assert_eq!(book.of(RunKind::Warmup, CacheState::Hot).len(), 2);
    let traced = book.of(RunKind::Trace, CacheState::Cold);
    assert_eq!(traced.iter().map(|r| r.block).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1]);
    assert_eq!(book.traced.len(), 6);
    assert!(book.warnings.is_empty(), "{:?}", book.warnings);
}

#[test]
fn what_is_learned_in_another_state_than_the_plans_is_not_one_of_the_traced_runs() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    conduct(&plan(&[CacheState::Hot], 2), &mut host, &mut book, Some(&mut NoEyes)).unwrap();
    assert_eq!(book.of(RunKind::Trace, CacheState::Cold).len(), 1);
    assert_eq!(book.of(RunKind::Trace, CacheState::Hot).len(), 1);
}

#[test]
fn without_a_tracer_nothing_is_traced_and_the_states_are_called_unproven() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    conduct(&plan(&BOTH, 2), &mut host, &mut book, None).unwrap();
    assert!(book.runs.iter().all(|run| run.kind != RunKind::Trace));
    assert_eq!(book.kinds(), [WarningKind::Note]);
    let (mut host, mut book) = (MockHost::new(), Book { blind: true, ..Book::default() });
    conduct(&plan(&BOTH, 2), &mut host, &mut book, Some(&mut NoEyes)).unwrap();
    assert_eq!(book.kinds(), [WarningKind::Note], "a tracer that cannot tell is no better");
}

#[test]
fn blocks_that_are_added_have_numbers_of_their_own() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    let plan = Plan { first_block: 7, trace_runs: 0, ..plan(&BOTH, 2) };
    let summary = conduct(&plan, &mut host, &mut book, Some(&mut NoEyes)).unwrap();
    assert_eq!(summary.blocks, 2);
    let mut blocks: Vec<u32> = book.of(RunKind::Timed, CacheState::Cold).iter().map(|run| run.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [7, 8]);
}

#[test]
fn a_run_that_was_not_in_its_state_is_repeated_in_its_block_and_all_attempts_are_kept() {
    let mut host = MockHost::new().script(0, CacheState::Cold, [Act::Ready(5), Act::Held, Act::Held, Act::Ready(7)]);
    let mut book = Book::default();
    let summary = conduct(&plan(&BOTH, 2), &mut host, &mut book, Some(&mut NoEyes)).unwrap();
    let cold = book.of(RunKind::Timed, CacheState::Cold);
    assert_eq!(
        cold.iter().map(|r| (r.block, r.attempt, r.accepted)).collect::<Vec<_>>(),
        [(0, 1, false), (0, 2, false), (0, 3, true), (1, 1, true)]
    );
    assert_eq!(cold[2].wall_ns, Some(Nanos(7_000_000)));
    assert_eq!(cold[0].wall_ns, None, "a start that would not count is not made");
    assert!(cold[0].rejected_because.as_deref().unwrap().contains("libx.so"));
    assert_eq!((summary.timed, summary.rejected), (4, 2));
    // The same words twice are one warning.
    assert_eq!(book.kinds(), [WarningKind::NotInState]);
    assert_eq!(book.warnings[0].run, Some(cold[0].id));
}

#[test]
fn others_get_longer_and_longer_to_let_go_of_what_they_hold() {
    let mut host = MockHost::new().script(0, CacheState::Cold, [Act::Ready(5), Act::Held, Act::Held, Act::Ready(7)]);
    let patient = Plan { patience: Duration::from_secs(2), ..plan(&BOTH, 2) };
    conduct(&patient, &mut host, &mut Book::default(), Some(&mut NoEyes)).unwrap();
    assert_eq!(host.waited, [Duration::from_secs(2), Duration::from_secs(6)]);
    // A program that fails does not get better by waiting, and after the last attempt there is nothing to wait for.
    let mut host = MockHost::new().script(0, CacheState::Cold, [Act::Ready(5), Act::Fails, Act::Held, Act::Held]);
    let patient = Plan { patience: Duration::from_secs(2), ..plan(&BOTH, 2) };
    let ended = conduct(&patient, &mut host, &mut Book::default(), Some(&mut NoEyes));
    let unreached = ended.unwrap().unreached.len();
    assert_eq!((unreached, host.waited), (1, vec![Duration::from_secs(6)]));
}

#[test]
fn hot_is_made_by_a_warm_up_which_is_recorded() {
    let mut host = MockHost::new().script(0, CacheState::Hot, [Act::Lukewarm]);
    let mut book = Book::default();
    conduct(&plan(&[CacheState::Hot], 1), &mut host, &mut book, None).unwrap();
    let kinds: Vec<_> = book.runs.iter().map(|run| run.kind).collect();
    assert_eq!(kinds, [RunKind::Warmup, RunKind::Warmup, RunKind::Timed]);
    // Still lukewarm after the warm-up: that attempt does not count.
    let mut host = MockHost::new().script(0, CacheState::Hot, [Act::Lukewarm, Act::Lukewarm]);
    let mut book = Book::default();
    conduct(&plan(&[CacheState::Hot], 1), &mut host, &mut book, None).unwrap();
    let timed = book.of(RunKind::Timed, CacheState::Hot);
    assert_eq!(timed.iter().map(|r| (r.attempt, r.accepted)).collect::<Vec<_>>(), [(1, false), (2, true)]);
}

#[test]
fn a_run_that_was_disturbed_is_repeated_at_once() {
    let acts = [Act::Disturbed, Act::Disturbed, Act::Ready(7)];
    let (mut host, mut book) = (MockHost::new().script(0, CacheState::Hot, acts), Book::default());
    let patient = Plan { patience: Duration::from_secs(2), ..plan(&[CacheState::Hot], 1) };
    let summary = conduct(&patient, &mut host, &mut book, None).unwrap();
    let hot = book.of(RunKind::Timed, CacheState::Hot);
    assert_eq!(hot.iter().map(|r| r.accepted).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((summary.timed, summary.rejected, host.waited.len()), (1, 2, 0));
    assert!(book.kinds().contains(&WarningKind::NotInState) && !book.kinds().contains(&WarningKind::FailedRun));
}

#[test]
fn a_state_that_is_never_reached_is_said_and_the_others_are_measured() {
    let (mut host, mut book) = (MockHost::new().script(0, CacheState::Hot, [Act::Disturbed; 9]), Book::default());
    let summary = conduct(&plan(&BOTH, 4), &mut host, &mut book, None).unwrap();
    assert_eq!((summary.end, summary.timed), (End::Done, 4), "the cold ones");
    assert_eq!(summary.unreached, [(0, CacheState::Hot, "somebody dropped the caches".to_owned())]);
    assert_eq!(book.of(RunKind::Timed, CacheState::Hot).len(), 3, "and it is not tried again");
    let said = book.warnings.iter().find(|said| said.text.contains("hot of v0 was not reached")).unwrap();
    assert!(said.kind == WarningKind::NotInState && said.run.is_none() && said.text.contains("dropped the caches"));
}

#[test]
fn a_state_that_cannot_be_reached_is_an_error_that_names_who_holds_what() {
    let mut host = MockHost::new().script(0, CacheState::Cold, [Act::Held; 9]);
    let mut book = Book::default();
    let error = conduct(&plan(&[CacheState::Cold], 2), &mut host, &mut book, None).unwrap_err();
    assert_eq!(error.exit, Exit::Machine);
    let text = error.to_string();
    assert!(text.contains("cold cannot be reached") && text.contains("mapped by 7 (other)"), "{text}");
    assert_eq!(book.of(RunKind::Timed, CacheState::Cold).len(), 3, "all attempts are kept");
}

#[test]
fn a_cell_that_worked_before_may_miss_one_block_but_not_two_in_a_row() {
    let acts = |missed: usize| [vec![Act::Ready(5)], vec![Act::Held; missed], vec![Act::Ready(5)]].concat();
    let only_cold = |missed: usize| {
        let mut host = MockHost::new().script(0, CacheState::Cold, acts(missed));
        let mut book = Book::default();
        (conduct(&plan(&[CacheState::Cold], 3), &mut host, &mut book, None), book)
    };
    let (summary, book) = only_cold(3);
    assert_eq!(summary.unwrap().timed, 2);
    assert_eq!(book.kinds(), [WarningKind::Note, WarningKind::NotInState]);
    let (error, book) = only_cold(6);
    assert_eq!(error.unwrap_err().exit, Exit::Machine);
    assert_eq!(book.runs.iter().filter(|run| run.kind == RunKind::Timed && run.accepted).count(), 1);
}

#[test]
fn a_program_that_always_fails_is_an_error_with_what_it_printed() {
    let mut host = MockHost::new().script(0, CacheState::Hot, [Act::Fails; 9]);
    let mut book = Book::default();
    let error = conduct(&plan(&[CacheState::Hot], 5), &mut host, &mut book, None).unwrap_err();
    assert_eq!(error.exit, Exit::Target);
    let text = error.to_string();
    assert!(text.contains("'v0'") && text.contains("exit code 1") && text.contains("cannot open display"), "{text}");
    assert!(error.hint.unwrap().contains("--ok-exit"));
    assert_eq!(book.of(RunKind::Timed, CacheState::Hot).len(), 3);
    assert!(book.kinds().contains(&WarningKind::FailedRun));
}

#[test]
fn an_interrupt_leaves_all_finished_runs() {
    let mut host = MockHost { interrupt_after: Some(6), ..MockHost::new() };
    let mut book = Book::default();
    let summary = conduct(&plan(&BOTH, 100), &mut host, &mut book, None).unwrap();
    assert_eq!(summary.end, End::Interrupted);
    assert_eq!(book.runs.len(), 6);
    assert_eq!((summary.timed, summary.blocks), (5, 2));
}

#[test]
fn the_budget_stops_between_blocks() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    // A run takes 2 s with its preparation, the first start 1 s: the third block begins after 9 s.
    let plan = Plan { budget: Some(Duration::from_secs(10)), ..plan(&BOTH, 100) };
    let summary = conduct(&plan, &mut host, &mut book, None).unwrap();
    assert_eq!((summary.end, summary.timed, summary.blocks), (End::BudgetOver, 6, 3));
    assert!(book.kinds().contains(&WarningKind::TooFewRuns));
}

#[test]
fn precision_stops_as_soon_as_every_cell_is_narrow_enough() {
    // Cold alternates by 20 % at first, then is steady: the interval of its median narrows with time.
    let acts: Vec<_> = [100, 120, 100, 120, 100, 120].iter().map(|&ms| Act::Ready(ms)).collect();
    let mut host = MockHost::new().script(0, CacheState::Cold, acts);
    let mut book = Book::default();
    let plan = Plan { precision: Some(0.01), ..plan(&BOTH, 2) };
    let summary = conduct(&plan, &mut host, &mut book, None).unwrap();
    assert_eq!(summary.end, End::Precise);
    assert!(summary.blocks > 6 && summary.blocks < 60, "{} blocks", summary.blocks);
}

#[test]
fn steady_runs_stop_at_the_fewest_blocks_that_can_give_an_interval() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    let plan = Plan { precision: Some(0.01), ..plan(&BOTH, 2) };
    let summary = conduct(&plan, &mut host, &mut book, None).unwrap();
    assert_eq!((summary.end, summary.blocks), (End::Precise, crate::schedule::FEWEST_FOR_PRECISION));
}

#[test]
fn precision_that_is_not_reached_is_warned_about() {
    let wild = (0..200).map(|i| Act::Ready(if i % 2 == 0 { 100 } else { 300 }));
    let mut host = MockHost::new().script(0, CacheState::Cold, wild);
    let mut book = Book::default();
    let plan = Plan { precision: Some(0.01), budget: Some(Duration::from_secs(60)), ..plan(&BOTH, 2) };
    assert_eq!(conduct(&plan, &mut host, &mut book, None).unwrap().end, End::BudgetOver);
    let warning = book.warnings.iter().find(|warning| warning.kind == WarningKind::Precision).unwrap();
    assert!(warning.text.contains("cold") && warning.text.contains("±1.0 %"), "{}", warning.text);
    assert_eq!(book.kinds().iter().filter(|&&kind| kind == WarningKind::Precision).count(), 1, "hot is precise");
}

#[test]
fn a_full_disk_ends_the_recording_with_the_sinks_error() {
    let (mut host, mut book) = (MockHost::new(), Book { full_after: Some(3), ..Book::default() });
    let error = conduct(&plan(&BOTH, 5), &mut host, &mut book, None).unwrap_err();
    assert_eq!(error.exit, Exit::Data);
    assert_eq!(book.runs.len(), 3);
}

#[test]
fn progress_counts_runs_and_goes_on_inside_long_steps() {
    let (mut host, mut book) = (MockHost::new(), Book::default());
    conduct(&plan(&BOTH, 2), &mut host, &mut book, None).unwrap();
    assert!(book.progress.iter().any(|p| p.step == Step::Preparing && p.in_step == Duration::from_secs(1)));
    assert!(book.progress.iter().any(|p| p.step == Step::Running && p.in_step == Duration::from_secs(1)));
    let last = book.progress.last().unwrap();
    assert_eq!((last.step, last.done, last.planned, last.wall), (Step::Ran, 4, 4, Some(Nanos(100_000_000))));
    assert!(book.progress.windows(2).all(|pair| pair[0].elapsed <= pair[1].elapsed));
}
