//! Which run of a recording tells what: the one place that chooses among its runs.
//!
//! Timed runs that count tell how long a start takes. What it reads is told by runs that count and whose trace is
//! stored; of several traced starts of a state the *median* one speaks for them: no two starts are alike, and the
//! first, or the oddest, must not become the answer. What a start needs is told by those that were made to see it, else
//! by traced ones.

use crate::Reader;
use model::{CacheState, Result, RunId, RunKind, RunRow, TouchEngine, TraceRows};

/// The engine of a trace that only looked at the page cache after the run.
const PROBE: &str = "probe";

/// The runs of a recording, by what they tell.
#[derive(Clone, Debug)]
pub struct Starts {
    /// All of them, in the order made.
    rows: Vec<RunRow>,
    /// Those of which a trace is stored.
    traced: Vec<RunId>,
}

/// How a start tells what it needs, from the best to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// Without read-ahead: the pages that came are those that it needs.
    ByPages,
    /// By what it asked for, with read-ahead around it.
    ByAsking,
    /// By what was in memory after it.
    ByCache,
}

/// A start that tells what it needs.
#[derive(Clone, Debug)]
pub struct Telling {
    /// The run.
    pub run: RunId,
    /// How it tells.
    pub told: Told,
    /// What was seen.
    pub rows: TraceRows,
}

impl Starts {
    /// Looks them up.
    ///
    /// # Errors
    /// As [`Reader::runs`].
    pub fn of(reader: &Reader) -> Result<Self> {
        let traced = reader.trace_runs()?;
        Ok(Self::among(reader.runs()?.into_iter().map(|(row, _)| row), &traced))
    }

    /// Of these runs, when traces of those with the numbers `traced` are stored.
    pub fn among(runs: impl IntoIterator<Item = RunRow>, traced: &[RunId]) -> Self {
        Self { rows: runs.into_iter().collect(), traced: traced.to_vec() }
    }

    /// The timed runs that count, of all variants and states, in the order made.
    pub fn timed(&self) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.rows.iter().filter(|row| row.kind == RunKind::Timed && row.accepted)
    }

    /// The states of timed runs that count, the fastest first.
    pub fn timed_states(&self) -> Vec<CacheState> {
        let mut states: Vec<CacheState> = self.timed().map(|row| row.state).collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// The number of the block that comes behind those of all timed runs, counted or not.
    pub fn next_block(&self) -> u32 {
        let timed = self.rows.iter().filter(|row| row.kind == RunKind::Timed);
        timed.map(|row| row.block.saturating_add(1)).max().unwrap_or(0)
    }

    /// Traced starts of a variant, in any state.
    pub fn traced(&self, variant: u32) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.of_kind(RunKind::Trace).filter(move |row| row.variant == variant)
    }

    /// Traced starts of all variants.
    pub fn all_traced(&self) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.of_kind(RunKind::Trace)
    }

    /// Starts of a variant that were watched to see what they touch: without read-ahead, function by function.
    pub fn watched(&self, variant: u32) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.of_kind(RunKind::Touch).filter(move |row| row.variant == variant)
    }

    /// Whether a start that was watched has left what it touched, also one that failed.
    pub fn has_touches(&self) -> bool {
        self.rows.iter().any(|row| row.kind == RunKind::Touch && self.traced.contains(&row.id))
    }

    /// Starts that read from the disk what they need: traced ones that were not hot, and watched ones.
    pub fn that_read(&self, variant: u32) -> impl Iterator<Item = &RunRow> {
        let reads = |row: &&RunRow| row.kind == RunKind::Touch || row.state != CacheState::Hot;
        self.telling().filter(move |row| row.variant == variant && row.kind != RunKind::Warmup).filter(reads)
    }

    /// The traced start that speaks for a state: the median by time until ready, of an even number the lower one of the
    /// two in the middle. Starts that were never ready come last.
    pub fn median(&self, variant: u32, state: CacheState) -> Option<&RunRow> {
        let mut rows: Vec<&RunRow> = self.traced(variant).filter(|row| row.state == state).collect();
        rows.sort_by_key(|row| (row.wall_ns.is_none(), row.wall_ns, row.id));
        rows.get(rows.len().checked_sub(1)? / 2).copied()
    }

    /// The traced start that tells most of what a variant reads: the median one of its coldest traced state.
    pub fn coldest(&self, variant: u32) -> Option<&RunRow> {
        self.median(variant, self.traced(variant).map(|row| row.state).max()?)
    }

    /// The same, if that one read from the disk: not a hot one.
    pub fn coldest_that_read(&self, variant: u32) -> Option<&RunRow> {
        self.coldest(variant).filter(|row| row.state != CacheState::Hot)
    }

    /// The traced start that explains a variant's answer: of its slowest timed state, of which the answer speaks, or
    /// else of the coldest traced one.
    pub fn of_answer(&self, variant: u32) -> Option<&RunRow> {
        let slowest = self.timed().filter(|row| row.variant == variant).map(|row| row.state).max();
        slowest.and_then(|state| self.median(variant, state)).or_else(|| self.coldest(variant))
    }

    /// What the last watched start of a variant saw that satisfies this: the last one, so that a better one can be
    /// added. Without its fills, reads, faults and requests: what a start touches is not in them.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn last_watched(
        &self,
        reader: &Reader,
        variant: u32,
        wanted: impl Fn(&TraceRows) -> bool,
    ) -> Result<Option<TraceRows>> {
        for run in self.watched(variant).rev() {
            let rows = reader.trace_head(run.id)?;
            if wanted(&rows) {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The pages that a start of a variant needs, as the last run without read-ahead tells them.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn needed_pages(&self, reader: &Reader, variant: u32) -> Result<Option<TraceRows>> {
        self.last_watched(reader, variant, |rows| has(rows, TouchEngine::Page))
    }

    /// All starts of a variant that tell what it needs, in the order made: not those of which only first calls are
    /// known, or that ran inside Valgrind.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn telling_needs(&self, reader: &Reader, variant: u32) -> Result<Vec<Telling>> {
        let found = self.each_telling(reader, variant).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The first of those that tell it best.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn best_of_needs(&self, reader: &Reader, variant: u32) -> Result<Option<Telling>> {
        let mut best: Option<Telling> = None;
        for telling in self.each_telling(reader, variant) {
            let better = |telling: &Telling| best.as_ref().is_none_or(|known| telling.told < known.told);
            best = telling?.filter(better).or(best);
        }
        Ok(best)
    }

    /// One by one, because traces are large; `None`: this start does not tell.
    fn each_telling(&self, reader: &Reader, variant: u32) -> impl Iterator<Item = Result<Option<Telling>>> {
        self.that_read(variant).map(|run| {
            let rows = reader.trace(run.id)?;
            Ok(how_told(run.kind, &rows).map(|told| Telling { run: run.id, told, rows }))
        })
    }

    /// Runs that count and whose trace is stored.
    fn telling(&self) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.rows.iter().filter(|row| row.accepted && self.traced.contains(&row.id))
    }

    fn of_kind(&self, kind: RunKind) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.telling().filter(move |row| row.kind == kind)
    }
}

fn has(rows: &TraceRows, engine: TouchEngine) -> bool {
    rows.touches.iter().any(|touch| touch.engine == engine)
}

/// How a start that read tells what it needs; `None`: it does not.
fn how_told(kind: RunKind, rows: &TraceRows) -> Option<Told> {
    match kind {
        _ if has(rows, TouchEngine::Page) => Some(Told::ByPages),
        _ if has(rows, TouchEngine::Probe) || rows.info.engine == PROBE => Some(Told::ByCache),
        RunKind::Trace => Some(Told::ByAsking),
        RunKind::Timed | RunKind::Warmup | RunKind::Touch => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, Nanos};

    fn row(id: i64, kind: RunKind, state: CacheState, wall_ms: Option<u64>) -> RunRow {
        RunRow {
            id: RunId(id),
            variant: 0,
            state,
            kind,
            block: 0,
            attempt: 1,
            accepted: true,
            rejected_because: None,
            started_unix_ns: 0,
            wall_ns: wall_ms.map(|ms| Nanos(ms * 1_000_000)),
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

    fn starts(rows: &[RunRow]) -> Starts {
        let traced: Vec<RunId> = rows.iter().map(|row| row.id).collect();
        Starts::among(rows.to_vec(), &traced)
    }

    #[test]
    fn the_median_start_speaks_for_its_state() {
        use CacheState::{Cold, Hot};
        let cold = |id, ms| row(id, RunKind::Trace, Cold, ms);
        let of = |rows: &[RunRow]| starts(rows).median(0, Cold).map(|row| row.id.0);
        assert_eq!(of(&[cold(1, Some(72)), cold(2, Some(9)), cold(3, Some(8))]), Some(2));
        assert_eq!(of(&[cold(1, Some(72)), cold(2, Some(9))]), Some(2), "of two the faster one");
        assert_eq!(of(&[cold(1, None), cold(2, Some(9)), cold(3, Some(10))]), Some(3));
        assert_eq!(of(&[row(1, RunKind::Trace, Hot, Some(1))]), None, "a hot start does not speak for cold ones");
        assert_eq!(of(&[row(1, RunKind::Touch, Cold, Some(1))]), None, "a watched start has no time of its own");
    }

    #[test]
    fn a_start_counts_if_it_was_accepted_and_its_trace_is_there() {
        let rows =
            [row(1, RunKind::Trace, CacheState::Cold, Some(1)), row(2, RunKind::Trace, CacheState::Hot, Some(2))];
        let coldest = |starts: Starts| starts.coldest(0).map(|row| row.id.0);
        assert_eq!(coldest(starts(&rows)), Some(1));
        assert_eq!(coldest(Starts::among(rows.to_vec(), &[RunId(2)])), Some(2));
        let [mut cold, hot] = rows;
        cold.accepted = false;
        assert_eq!(coldest(starts(&[cold, hot])), Some(2));
    }

    #[test]
    fn what_a_start_reads_is_told_by_those_that_are_not_hot() {
        let rows = [
            row(1, RunKind::Trace, CacheState::Hot, Some(1)),
            row(2, RunKind::Trace, CacheState::Cold, Some(1)),
            row(3, RunKind::Touch, CacheState::Hot, Some(1)),
            row(4, RunKind::Warmup, CacheState::Cold, Some(1)),
        ];
        let reads: Vec<i64> = starts(&rows).that_read(0).map(|row| row.id.0).collect();
        assert_eq!(reads, [2, 3]);
        assert_eq!(starts(&rows).watched(0).count(), 1);
    }

    #[test]
    fn timed_runs_that_count_say_which_states_there_are_and_which_start_explains_them() {
        use CacheState::{App, Cold, Hot};
        let mut rows = vec![
            row(1, RunKind::Timed, Hot, Some(1)),
            row(2, RunKind::Timed, App, Some(2)),
            row(3, RunKind::Timed, Cold, Some(3)),
            row(4, RunKind::Trace, Cold, Some(4)),
            row(5, RunKind::Trace, App, Some(5)),
            row(6, RunKind::Trace, Hot, Some(6)),
        ];
        let answer = |rows: &[RunRow]| starts(rows).of_answer(0).map(|row| row.id.0);
        assert_eq!((starts(&rows).timed_states(), answer(&rows)), (vec![Hot, App, Cold], Some(4)));
        rows[2].accepted = false;
        (rows[2].block, rows[1].block) = (7, 5);
        assert_eq!((starts(&rows).timed_states(), answer(&rows)), (vec![Hot, App], Some(5)));
        assert_eq!(starts(&rows).timed().map(|row| row.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(starts(&rows).next_block(), 8, "behind a block whose run does not count, too");
        // Nothing is timed: the coldest traced one.
        assert_eq!(answer(&rows[3..]), Some(4));
        assert_eq!((starts(&rows[3..]).next_block(), answer(&rows[..3])), (0, None));
        assert_eq!(starts(&rows).all_traced().count(), 3);
        assert_eq!(starts(&rows).coldest_that_read(0).map(|row| row.id.0), Some(4));
        assert!(starts(&rows[5..]).coldest(0).is_some() && starts(&rows[5..]).coldest_that_read(0).is_none());
    }

    #[test]
    fn what_a_failed_start_has_touched_is_there() {
        let mut failed = row(1, RunKind::Touch, CacheState::Hot, None);
        failed.accepted = false;
        assert!(starts(std::slice::from_ref(&failed)).has_touches());
        assert_eq!(starts(std::slice::from_ref(&failed)).watched(0).count(), 0);
        assert!(!Starts::among([failed], &[]).has_touches());
        assert!(!starts(&[row(1, RunKind::Trace, CacheState::Hot, None)]).has_touches());
    }

    #[test]
    fn a_start_tells_what_it_needs_by_pages_by_what_it_asked_for_or_by_what_is_cached() {
        let rows = |engine: &str, touched: &[TouchEngine]| {
            let mut rows = TraceRows::default();
            rows.info.engine = engine.to_owned();
            rows.touches = touched.iter().map(|engine| touch(*engine)).collect();
            rows
        };
        let told = |kind, engine, touched| how_told(kind, &rows(engine, touched));
        use RunKind::{Touch, Trace};
        use TouchEngine::{Byte, Function, Page, Probe};
        assert_eq!(told(Trace, "perf", &[]), Some(Told::ByAsking));
        assert_eq!(told(Trace, "probe", &[]), Some(Told::ByCache));
        assert_eq!(told(Touch, "perf", &[Page]), Some(Told::ByPages));
        assert_eq!(told(Touch, "probe", &[Probe]), Some(Told::ByCache));
        assert_eq!(told(Touch, "ptrace", &[Function]), None);
        assert_eq!(told(Touch, "valgrind", &[Byte]), None);
        assert!(Told::ByPages < Told::ByAsking && Told::ByAsking < Told::ByCache);
    }

    fn touch(engine: TouchEngine) -> model::TouchRow {
        model::TouchRow {
            engine,
            file: model::FileId(0),
            offset: model::FileOffset(0),
            len: Bytes(4096),
            order: None,
            at_ns: None,
            tid: None,
            name: None,
        }
    }
}
