//! Who ran where and when, into its tables and back.

use crate::failure::Failure;
use crate::rows::{self, CpuHead, CpuLimit, StackRow, WakeupRow};
use crate::tables::Tables;
use crate::trace::{insert_all, numbered, of_run, once, runs_in};
use model::RunId;
use model::cpu::{Frame, Stacks, Trace};
use rusqlite::Connection;

/// The first stack that a row points to and that is not there: readers index with these numbers.
fn dangling(trace: &Trace) -> Option<u32> {
    let count = trace.stacks.nodes().len();
    let of_switches = trace.switches.iter().filter_map(|row| row.stack);
    let of_wakes = trace.wakes.iter().filter_map(|row| row.stack);
    let of_samples = trace.samples.iter().filter_map(|row| row.stack);
    of_switches.chain(of_wakes).chain(of_samples).map(|stack| stack.0).find(|stack| *stack as usize >= count)
}

/// Adds what is known of a run's time.
pub(crate) fn insert(connection: &Connection, run: RunId, trace: &Trace) -> Result<(), Failure> {
    if let Some(stack) = dangling(trace) {
        return Err(Failure::Misuse(format!("a row points to stack {stack}, which the trace does not have")));
    }
    once(connection, run, "cpu_traces", "the time")?;
    let head = CpuHead {
        root: trace.root,
        ready: trace.ready,
        ready_by: trace.ready_by,
        cpus: trace.cpus,
        tick: trace.tick,
        lost: trace.lost,
        lost_switches: trace.lost_switches,
        own: trace.own,
    };
    let limits: Vec<CpuLimit> = trace.cannot.iter().map(|cannot| CpuLimit { cannot: cannot.clone() }).collect();
    let wakes: Vec<WakeupRow> = trace.wakes.iter().map(WakeupRow::of).collect();
    let stacks: Vec<StackRow> =
        trace.stacks.nodes().iter().map(|(caller, frame)| StackRow { caller: *caller, frame: *frame }).collect();
    insert_all(connection, run, std::slice::from_ref(&head))?;
    insert_all(connection, run, &limits)?;
    insert_all(connection, run, &trace.threads)?;
    insert_all(connection, run, &trace.switches)?;
    insert_all(connection, run, &wakes)?;
    insert_all(connection, run, &trace.samples)?;
    let frames = (0..).zip(trace.stacks.frames()).map(|(place, row)| ([run.0, place], row));
    rows::insert(connection, ["run", "frame"], frames)?;
    rows::insert(connection, ["run", "stack"], (0..).zip(&stacks).map(|(place, row)| ([run.0, place], row)))
}

/// Runs whose time is known, in their order.
pub(crate) fn runs(connection: &Connection) -> Result<Vec<RunId>, Failure> {
    runs_in(connection, "cpu_traces", 5)
}

/// What is known of a run's time; `None`: nothing.
pub(crate) fn select(tables: &Tables, run: RunId) -> Result<Option<Trace>, Failure> {
    let Some(head) = of_run::<CpuHead>(tables, run)?.into_iter().next() else { return Ok(None) };
    let frames: Vec<Frame> = numbered(tables, run, "frame")?;
    let stacks: Vec<StackRow> = numbered(tables, run, "stack")?;
    let stacks = Stacks::stored(frames, stacks.into_iter().map(|row| (row.caller, row.frame)).collect())
        .map_err(|why| Failure::Damage(format!("{why} (run {})", run.0)))?;
    let wakes: Vec<WakeupRow> = of_run(tables, run)?;
    let limits: Vec<CpuLimit> = of_run(tables, run)?;
    let trace = Trace {
        root: head.root,
        ready: head.ready,
        ready_by: head.ready_by,
        cpus: head.cpus,
        threads: of_run(tables, run)?,
        switches: of_run(tables, run)?,
        wakes: wakes.into_iter().map(WakeupRow::wake).collect(),
        samples: of_run(tables, run)?,
        stacks,
        tick: head.tick,
        lost: head.lost,
        lost_switches: head.lost_switches,
        own: head.own,
        cannot: limits.into_iter().map(|limit| limit.cannot).collect(),
    };
    match dangling(&trace) {
        Some(stack) => {
            Err(Failure::Damage(format!("a row of run {} points to stack {stack}, which is missing", run.0)))
        }
        None => Ok(Some(trace)),
    }
}
