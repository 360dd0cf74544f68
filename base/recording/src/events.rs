//! The events of a run into their tables and back.

use crate::failure::Failure;
use crate::rows;
use crate::tables::Tables;
use crate::trace::{insert_all, numbered, of_run, runs_in};
use model::{EventRows, Lost, RunId};
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashSet;

/// The first row that points to something that is not among the rows: readers index with these numbers.
fn dangling(rows: &EventRows) -> Option<String> {
    let missing = |count: usize, number: u32| usize::try_from(number).is_ok_and(|number| number >= count);
    let (processes, threads) = (rows.processes.len(), rows.threads.len());
    let types: HashSet<u32> = rows.types.iter().map(|row| row.type_id).collect();
    let source = rows.sources.iter().find(|row| row.process as usize > processes);
    let thread = rows.threads.iter().find(|row| missing(processes, row.process));
    let writer = rows.threads.iter().find_map(|row| row.writer.filter(|writer| missing(threads, *writer)));
    let event = rows.events.iter().find(|row| missing(threads, row.thread));
    let of_type = rows.events.iter().find_map(|row| row.type_id.filter(|id| !types.contains(id)));
    (source.map(|row| format!("process {}", row.process)))
        .or_else(|| thread.map(|row| format!("process {}", row.process)))
        .or_else(|| writer.map(|writer| format!("thread {writer}")))
        .or_else(|| event.map(|row| format!("thread {}", row.thread)))
        .or_else(|| of_type.map(|id| format!("type {id}")))
}

/// Adds the events of a run.
pub(crate) fn insert(connection: &Connection, run: RunId, events: &EventRows) -> Result<(), Failure> {
    if let Some(what) = dangling(events) {
        return Err(Failure::Misuse(format!("a row of events points to {what}, which the events do not have")));
    }
    let known: Option<bool> = connection
        .query_row(
            "SELECT run IN (SELECT run FROM event_losses) FROM (SELECT run FROM runs UNION SELECT ?2) WHERE run = ?1",
            [run.0, RunId::OF_NO_START.0],
            |row| row.get(0),
        )
        .optional()?;
    match known {
        None => return Err(Failure::Misuse(format!("events of run {}, which is not in the recording", run.0))),
        Some(true) => return Err(Failure::Misuse(format!("events of run {} a second time", run.0))),
        Some(false) => {}
    }
    insert_all(connection, run, &events.sources)?;
    insert_all(connection, run, std::slice::from_ref(&events.lost))?;
    let processes = (0..).zip(&events.processes).map(|(place, row)| ([run.0, place], row));
    rows::insert(connection, ["run", "process"], processes)?;
    let threads = (0..).zip(&events.threads).map(|(place, row)| ([run.0, place], row));
    rows::insert(connection, ["run", "thread"], threads)?;
    insert_all(connection, run, &events.types)?;
    insert_all(connection, run, &events.events)
}

/// Runs that have events, in their order.
pub(crate) fn runs(connection: &Connection) -> Result<Vec<RunId>, Failure> {
    runs_in(connection, "event_losses", 4)
}

/// The events of a run; `None` if it has none.
pub(crate) fn select(tables: &Tables, run: RunId) -> Result<Option<EventRows>, Failure> {
    let Some(lost) = of_run::<Lost>(tables, run)?.into_iter().next() else { return Ok(None) };
    let events = EventRows {
        sources: of_run(tables, run)?,
        processes: numbered(tables, run, "process")?,
        threads: numbered(tables, run, "thread")?,
        types: of_run(tables, run)?,
        events: of_run(tables, run)?,
        lost,
    };
    match dangling(&events) {
        Some(what) => Err(Failure::Damage(format!("an event of run {} points to {what}, which is missing", run.0))),
        None => Ok(Some(events)),
    }
}
