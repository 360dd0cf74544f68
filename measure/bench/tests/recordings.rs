//! Whole recordings of a real, small program: the lab conducted through random blocks of all four states.

mod common;

use bench::conduct::{End, Host, Plan, Progress, Sink, Tracer, conduct};
use bench::record::{Lab, LabOptions};
use bench::states::{OWN_LIMIT, WARM_LIMIT};
use common::{acts, alone, lab, scratch, start};
use model::{Bytes, CacheState, FileKind, FileOffset, Milestone, Need, Owner, ResidencyRow, Result};
use model::{RunId, RunKind, RunRow, Warning};
use os::cgroup::Ability;
use std::path::Path;

/// Keeps everything, and knows what the program needs as if a trace had told.
#[derive(Default)]
struct Book {
    needs: Vec<Need>,
    runs: Vec<(RunRow, Vec<ResidencyRow>)>,
    warnings: Vec<Warning>,
}

impl Sink for Book {
    fn run(&mut self, run: &RunRow, _: &[Milestone], residency: &[ResidencyRow]) -> Result<RunId> {
        self.runs.push((run.clone(), residency.to_vec()));
        Ok(RunId(self.runs.len() as i64))
    }
    fn traced(&mut self, _: RunId, _: &RunRow) -> Result<Option<Vec<Need>>> {
        Ok(Some(self.needs.clone()))
    }
    fn warning(&mut self, warning: Warning) -> Result<()> {
        self.warnings.push(warning);
        Ok(())
    }
    fn progress(&mut self, _: &Progress) {}
}

/// Writes down what it is told, and whether the program had done anything by then.
struct Spy<'a> {
    trail: &'a Path,
    log: Vec<(&'static str, u32, bool)>,
}

impl Tracer for Spy<'_> {
    fn attach(&mut self, pid: u32) -> Result<()> {
        assert!(os::process::stat(pid).is_some());
        self.log.push(("attach", pid, self.trail.exists()));
        Ok(())
    }
    fn detach(&mut self, t0_ns: u64) -> Result<()> {
        assert!(t0_ns > 0 && t0_ns <= os::spawn::monotonic_ns());
        self.log.push(("detach", 0, self.trail.exists()));
        Ok(())
    }
}

fn need(path: &Path, owner: Owner) -> Need {
    let len = path.metadata().unwrap().len();
    Need { path: path.to_owned(), kind: FileKind::Regular, owner, ranges: vec![(FileOffset(0), Bytes(len))] }
}

#[test]
fn a_tracer_sees_the_program_from_before_exec_until_it_is_ready() {
    let _alone = alone();
    let place = scratch("tracer");
    let trail = place.path().join("trail");
    let name = trail.to_str().unwrap();
    let mut lab = lab(vec![acts(&["make", name, "print", "up", "stay"], &["line:up"])]);
    let mut spy = Spy { trail: &trail, log: Vec::new() };
    let outcome = lab.start(0, CacheState::Hot, RunKind::Trace, Some(&mut spy), &mut |_| {}).unwrap();
    assert!(outcome.row.accepted);
    let steps: Vec<_> = spy.log.iter().map(|(step, _, had_run)| (*step, *had_run)).collect();
    assert_eq!(steps, [("attach", false), ("detach", true)]);
}

#[test]
fn four_states_in_random_blocks_are_all_proven() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("four");
    let (own, system) = (place.path().join("own"), place.path().join("libsystem.so.1"));
    std::fs::write(&own, vec![b'x'; 4 << 20]).unwrap();
    std::fs::write(&system, vec![b'x'; 2 << 20]).unwrap();
    let program = acts(&["read", own.to_str().unwrap(), "read", system.to_str().unwrap()], &["exit"]);
    let (mut lab, _) = Lab::open(vec![program], LabOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    if !lab.cgroup().is_some_and(|group| group.can(Ability::Memory) && group.can(Ability::Io)) {
        return testing::skip("no memory or block I/O controller");
    }
    let mut book = Book { needs: vec![need(&own, Owner::App), need(&system, Owner::System)], ..Book::default() };
    let mut spy = Spy { trail: place.path(), log: Vec::new() };
    let plan = Plan { states: CacheState::ALL.to_vec(), blocks: 2, trace_runs: 1, ..Plan::default() };
    let summary = conduct(&plan, &mut lab, &mut book, Some(&mut spy)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((summary.end, summary.blocks, summary.timed, summary.traced), (End::Done, 2, 8, 1));
    for (run, residency) in book.runs.iter().filter(|(run, _)| run.kind == RunKind::Timed && run.accepted) {
        let (own, system) = (run.own_resident_share.unwrap(), run.system_resident_share.unwrap());
        // Within the states' own limits: a machine that is short of memory takes single pages at any time.
        let (gone, there) = (0.0..=OWN_LIMIT, WARM_LIMIT..=1.0);
        let (own_is, system_is) = match run.state {
            CacheState::Cold => (&gone, &gone),
            CacheState::Boot | CacheState::App => (&gone, &there),
            CacheState::Hot => (&there, &there),
        };
        assert!(own_is.contains(&own) && system_is.contains(&system), "{run:?}");
        assert_eq!(residency.len(), 2);
        let read = run.read_bytes.unwrap().0;
        let least =
            [0, 4 << 20, 4 << 20, 6 << 20][CacheState::ALL.iter().position(|state| *state == run.state).unwrap()];
        assert!(read as f64 >= (1.0 - OWN_LIMIT) * f64::from(least), "{} read {read} bytes", run.state);
    }
}

#[test]
fn a_program_that_leaves_more_every_time_is_the_same_again_with_restore() {
    let _alone = alone();
    let place = scratch("leak");
    let live = place.path().join("live");
    std::fs::create_dir(&live).unwrap();
    let script = format!("touch {0}/tab-$$; ls {0} | wc -l", live.display());
    let counts = |restore: bool| {
        let mut program = bench::record::Program::new("leak", ["sh", "-c", &script]);
        program.restore = restore.then(|| live.clone()).into_iter().collect();
        let mut lab = lab(vec![program]);
        let mut counts = Vec::new();
        for _ in 0..3 {
            lab.prepare(0, CacheState::Hot, &mut |_| {}).unwrap();
            counts.push(start(&mut lab).output_tail.trim().parse::<u32>().unwrap());
        }
        counts
    };
    assert_eq!(counts(true), [1, 1, 1]);
    assert_eq!(counts(false), [1, 2, 3]);
}
