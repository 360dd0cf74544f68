//! The loader's share of a run, into its tables and back.

use crate::failure::Failure;
use crate::rows::{self, LoaderHead, LoaderLimit, Stored};
use crate::tables::Tables;
use crate::trace::{insert_all, numbered, of_run, once, runs_in};
use model::RunId;
use model::loader::{Cost, LoaderRun, LoaderStart};
use rusqlite::Connection;

const LEAD: [&str; 3] = ["run", "start", "position"];

/// Adds the loader's share of a run.
pub(crate) fn insert(connection: &Connection, run: RunId, loader: &LoaderRun) -> Result<(), Failure> {
    if let Some(start) = loader.starts.iter().find(|start| dangles(start)) {
        let program = model::shown(&start.program);
        return Err(Failure::Misuse(format!("an initialiser of {program} ran within one that is not before it")));
    }
    once(connection, run, "loader_runs", "the loader")?;
    insert_all(connection, run, std::slice::from_ref(&loader.cost))?;
    let heads: Vec<LoaderHead> = loader.starts.iter().map(head).collect();
    rows::insert(connection, ["run", "start"], (0..).zip(&heads).map(|(start, row)| ([run.0, start], row)))?;
    for (number, start) in (0..).zip(&loader.starts) {
        let limits: Vec<LoaderLimit> =
            start.cannot.iter().map(|cannot| LoaderLimit { cannot: cannot.clone() }).collect();
        add(connection, run, number, &limits)?;
        add(connection, run, number, &start.phases)?;
        add(connection, run, number, &start.objects)?;
        add(connection, run, number, &start.initialisers)?;
    }
    Ok(())
}

fn add<T: Stored>(connection: &Connection, run: RunId, start: i64, rows: &[T]) -> Result<(), Failure> {
    rows::insert(connection, LEAD, (0..).zip(rows).map(|(position, row)| ([run.0, start, position], row)))
}

/// An initialiser ran within one that is not there: readers index with these numbers.
fn dangles(start: &LoaderStart) -> bool {
    (0..).zip(&start.initialisers).any(|(place, row)| row.within.is_some_and(|within| within >= place))
}

fn head(start: &LoaderStart) -> LoaderHead {
    LoaderHead {
        program: start.program.clone(),
        because: start.because.clone(),
        exec: start.exec,
        before_main: start.before_main,
    }
}

/// Runs whose loader was watched, in their order.
pub(crate) fn runs(connection: &Connection) -> Result<Vec<RunId>, Failure> {
    runs_in(connection, "loader_runs", 5)
}

/// The loader's share of a run; `None`: it was not watched.
pub(crate) fn select(tables: &Tables, run: RunId) -> Result<Option<LoaderRun>, Failure> {
    let Some(cost) = of_run::<Cost>(tables, run)?.into_iter().next() else { return Ok(None) };
    let heads: Vec<LoaderHead> = numbered(tables, run, "start")?;
    let mut starts: Vec<LoaderStart> = heads
        .into_iter()
        .map(|head| LoaderStart {
            program: head.program,
            because: head.because,
            exec: head.exec,
            before_main: head.before_main,
            ..LoaderStart::default()
        })
        .collect();
    give(tables, run, &mut starts, |start, row: LoaderLimit| start.cannot.push(row.cannot))?;
    give(tables, run, &mut starts, |start, row| start.phases.push(row))?;
    give(tables, run, &mut starts, |start, row| start.objects.push(row))?;
    give(tables, run, &mut starts, |start, row| start.initialisers.push(row))?;
    match starts.iter().any(dangles) {
        true => Err(Failure::Damage(format!("an initialiser of run {} ran within one that is missing", run.0))),
        false => Ok(Some(LoaderRun { starts, cost })),
    }
}

/// Gives each start its rows of a table.
fn give<T: Stored>(
    tables: &Tables,
    run: RunId,
    starts: &mut [LoaderStart],
    put: impl Fn(&mut LoaderStart, T),
) -> Result<(), Failure> {
    let rest = "WHERE run = ?1 ORDER BY start, position";
    for ([start], row) in rows::select_led::<T, 1>(tables, ["start"], rest, [run.0])? {
        let found = usize::try_from(start).ok().and_then(|start| starts.get_mut(start));
        match found {
            Some(start) => put(start, row),
            None => {
                let what = format!("a row of table '{}' is of start {start} of run {}", T::TABLE, run.0);
                return Err(Failure::Damage(format!("{what}, which is missing")));
            }
        }
    }
    Ok(())
}
