//! Which start of a recording tells what: the one place that chooses among its runs.
//!
//! Only runs that count and whose trace is stored are looked at. Of several traced starts of a state the *median* one
//! speaks for them: no two starts are alike, and the first, or the oddest, must not become the answer.

use crate::Reader;
use model::{CacheState, Result, RunId, RunKind, RunRow};

/// The starts of a recording that have a trace and count, in the order made.
#[derive(Clone, Debug)]
pub struct Starts(Vec<RunRow>);

impl Starts {
    /// Looks them up.
    ///
    /// # Errors
    /// As [`Reader::runs`].
    pub fn of(reader: &Reader) -> Result<Self> {
        let traced = reader.trace_runs()?;
        Ok(Self::among(reader.runs()?.into_iter().map(|(row, _)| row), &traced))
    }

    /// Those among these runs whose numbers are among `traced`.
    pub fn among(runs: impl IntoIterator<Item = RunRow>, traced: &[RunId]) -> Self {
        let tells = |row: &RunRow| row.accepted && traced.contains(&row.id);
        Self(runs.into_iter().filter(tells).collect())
    }

    /// Traced starts of a variant, in any state.
    pub fn traced(&self, variant: u32) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.of_kind(variant, RunKind::Trace)
    }

    /// Starts of a variant that were watched to see what they touch: without read-ahead, function by function.
    pub fn watched(&self, variant: u32) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.of_kind(variant, RunKind::Touch)
    }

    /// Starts that read from the disk what they need: traced ones that were not hot, and watched ones.
    pub fn that_read(&self, variant: u32) -> impl Iterator<Item = &RunRow> {
        let reads = |row: &&RunRow| row.kind == RunKind::Touch || row.state != CacheState::Hot;
        self.0.iter().filter(move |row| row.variant == variant && row.kind != RunKind::Warmup).filter(reads)
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

    fn of_kind(&self, variant: u32, kind: RunKind) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.0.iter().filter(move |row| row.variant == variant && row.kind == kind)
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
}
