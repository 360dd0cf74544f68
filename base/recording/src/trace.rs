//! A whole trace into its tables and back.

use crate::OLDEST_VERSION;
use crate::failure::Failure;
use crate::rows::{self, FlatBlock, LimitRow, Pulled, Stored, TraceHead};
use crate::tables::{Span, Tables};
use model::{BlockRow, FaultRow, FileId, FillRow, Flow, ReadRow, RunId, Served, TraceInfo, TraceRows};
use rusqlite::{Connection, OptionalExtension};

/// All file numbers that rows of a trace point to.
fn file_numbers(trace: &TraceRows) -> impl Iterator<Item = FileId> + '_ {
    let served = trace.blocks.iter().filter_map(|row| match row.served {
        Served::File(file, _) => Some(file),
        Served::Metadata | Served::Unknown => None,
    });
    let sections = trace.sections.iter().map(|row| row.file);
    let extents = trace.extents.iter().map(|row| row.file);
    let fills = trace.fills.iter().map(|row| row.file);
    let reads = trace.reads.iter().map(|row| row.file);
    let faults = trace.faults.iter().map(|row| row.file);
    let mmaps = trace.mmaps.iter().map(|row| row.file);
    let syncs = trace.syncs.iter().map(|row| row.file);
    let touches = trace.touches.iter().map(|row| row.file);
    let watched = trace.watched.iter().map(|row| row.file);
    let about_files = trace.owners.iter().map(|row| row.file).chain(trace.held.iter().map(|row| row.file));
    let direct = trace.direct.iter().map(|row| row.file).chain(trace.relocations.iter().map(|row| row.file));
    let of_events = fills.chain(reads).chain(faults).chain(mmaps).chain(syncs).chain(touches);
    served.chain(sections).chain(extents).chain(of_events).chain(watched).chain(about_files).chain(direct)
}

/// The first row that points behind the end of `files`, if there is one: readers index with these numbers.
fn dangling(trace: &TraceRows) -> Option<FileId> {
    let count = trace.files.len();
    file_numbers(trace).find(|file| usize::try_from(file.0).is_ok_and(|index| index >= count))
}

/// Adds the trace of a run.
pub(crate) fn insert(connection: &Connection, run: RunId, trace: &TraceRows) -> Result<(), Failure> {
    if let Some(file) = dangling(trace) {
        return Err(Failure::Misuse(format!("a trace row points to file {}, which the trace does not have", file.0)));
    }
    let known: Option<bool> = connection
        .query_row("SELECT run IN (SELECT run FROM traces) FROM runs WHERE run = ?1", [run.0], |row| row.get(0))
        .optional()?;
    match known {
        None => return Err(Failure::Misuse(format!("a trace of run {}, which is not in the recording", run.0))),
        Some(true) => return Err(Failure::Misuse(format!("a second trace of run {}", run.0))),
        Some(false) => {}
    }
    let info = &trace.info;
    let head = TraceHead { engine: info.engine.clone(), records: info.records, lost: info.lost, moved: info.bytes };
    let limits: Vec<LimitRow> = info.cannot.iter().map(|cannot| LimitRow { cannot: cannot.clone() }).collect();
    let blocks: Vec<FlatBlock> = trace.blocks.iter().map(FlatBlock::spread).collect();
    insert_all(connection, run, std::slice::from_ref(&head))?;
    insert_all(connection, run, &limits)?;
    rows::insert(connection, ["run", "file"], (0..).zip(&trace.files).map(|(file, row)| ([run.0, file], row)))?;
    insert_all(connection, run, &trace.sections)?;
    insert_all(connection, run, &trace.extents)?;
    insert_all(connection, run, &trace.fills)?;
    insert_all(connection, run, &trace.reads)?;
    insert_all(connection, run, &trace.faults)?;
    insert_all(connection, run, &blocks)?;
    insert_all(connection, run, &trace.processes)?;
    insert_all(connection, run, &trace.mmaps)?;
    insert_all(connection, run, &trace.opens)?;
    insert_all(connection, run, &trace.syncs)?;
    insert_all(connection, run, &trace.touches)?;
    insert_all(connection, run, &trace.watched)?;
    insert_all(connection, run, &trace.owners)?;
    insert_all(connection, run, &trace.held)?;
    insert_all(connection, run, &trace.direct)?;
    insert_all(connection, run, &trace.file_systems)?;
    insert_all(connection, run, &trace.wakes)?;
    insert_all(connection, run, &trace.relocations)
}

pub(crate) fn insert_all<T: Stored>(connection: &Connection, run: RunId, rows: &[T]) -> Result<(), Failure> {
    rows::insert(connection, ["run"], rows.iter().map(|row| ([run.0], row)))
}

/// The rows of a run between two of the table. The plus keeps SQLite from an index that begins with `run`: its rows
/// would have to be sorted.
const OF_RUN: &str = "WHERE rowid BETWEEN ?2 AND ?3 AND +run = ?1 ORDER BY rowid";

/// Rows of one run in the order in which they were added.
pub(crate) fn of_run<T: Stored>(tables: &Tables, run: RunId) -> Result<Vec<T>, Failure> {
    let mut found = Vec::new();
    each_of_run(tables, run, |row| {
        found.push(row);
        Ok(())
    })?;
    Ok(found)
}

/// The same one by one.
pub(crate) fn each_of_run<T: Stored>(
    tables: &Tables,
    run: RunId,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !rows::is_there::<T>(tables)? {
        return Ok(());
    }
    let Span { first, last } = tables.span(T::TABLE, run)?;
    let mut statement = tables.prepare_cached(&rows::select_sql::<T>(&[], OF_RUN))?;
    let mut rows = Pulled { rows: statement.query([run.0, first, last])?, number: 0 };
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

/// Runs that have a trace, in their order.
pub(crate) fn runs(connection: &Connection) -> Result<Vec<RunId>, Failure> {
    runs_in(connection, "traces", OLDEST_VERSION)
}

/// The relocations of each run that mapped code; what is only in memory is no file that a loader could not read.
pub(crate) fn relocations(connection: &Connection) -> Result<Vec<(RunId, Option<u64>)>, Failure> {
    if rows::version_of(connection)? < 5 {
        return Ok(Vec::new());
    }
    let sql = "SELECT run, sum(entries), min(entries IS NOT NULL OR kind = 'memory')
        FROM (SELECT DISTINCT run, file FROM mmaps WHERE exec)
        JOIN files USING (run, file) LEFT JOIN relocations USING (run, file) GROUP BY run ORDER BY run";
    let mut statement = connection.prepare_cached(sql)?;
    let row = |row: &rusqlite::Row<'_>| {
        let (run, entries, all): (i64, Option<i64>, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let known = entries.filter(|_| all).and_then(|entries| u64::try_from(entries).ok());
        Ok((RunId(run), known))
    };
    let found = statement.query_map([], row)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Whether rows of this kind can be added to a run, once: `table` has one row for each run that has them.
pub(crate) fn once(connection: &Connection, run: RunId, table: &str, what: &str) -> Result<(), Failure> {
    let sql = format!("SELECT run IN (SELECT run FROM {table}) FROM runs WHERE run = ?1");
    match connection.query_row(&sql, [run.0], |row| row.get(0)).optional()? {
        None => Err(Failure::Misuse(format!("{what} of run {}, which is not in the recording", run.0))),
        Some(true) => Err(Failure::Misuse(format!("{what} of run {} a second time", run.0))),
        Some(false) => Ok(()),
    }
}

/// The runs of a table that has one row for each, in their order; none in recordings of earlier versions than `since`.
pub(crate) fn runs_in(connection: &Connection, table: &str, since: i32) -> Result<Vec<RunId>, Failure> {
    if rows::version_of(connection)? < since {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(&format!("SELECT run FROM {table} ORDER BY run"))?;
    let runs = statement.query_map([], |row| row.get(0).map(RunId))?.collect::<rusqlite::Result<_>>()?;
    Ok(runs)
}

/// Rows of a run that are numbered; their numbers must be their places.
pub(crate) fn numbered<T: Stored>(
    connection: &Connection,
    run: RunId,
    number: &'static str,
) -> Result<Vec<T>, Failure> {
    let found = rows::select_led(connection, [number], &format!("WHERE run = ?1 ORDER BY {number}"), [run.0])?;
    (0..)
        .zip(found)
        .map(|(place, ([found], row))| match found == place {
            true => Ok(row),
            false => Err(Failure::Damage(format!("table '{}' has no {number} {place} of run {}", T::TABLE, run.0))),
        })
        .collect()
}

/// The trace of a run; `None` if it has none.
pub(crate) fn select(tables: &Tables, run: RunId) -> Result<Option<TraceRows>, Failure> {
    let Some(mut trace) = select_head(tables, run)? else { return Ok(None) };
    let blocks: Vec<FlatBlock> = of_run(tables, run)?;
    trace.fills = of_run(tables, run)?;
    trace.reads = of_run(tables, run)?;
    trace.faults = of_run(tables, run)?;
    trace.blocks = blocks.into_iter().map(FlatBlock::gather).collect::<Result<_, _>>()?;
    match dangling(&trace) {
        Some(file) => Err(missing(run, file)),
        None => Ok(Some(trace)),
    }
}

fn missing(run: RunId, file: FileId) -> Failure {
    Failure::Damage(format!("a row of run {} points to file {}, which is missing", run.0, file.0))
}

/// The trace of a run without that of which there is most: fills, reads, faults and requests.
pub(crate) fn select_head(tables: &Tables, run: RunId) -> Result<Option<TraceRows>, Failure> {
    let heads: Vec<TraceHead> = rows::select(tables, "WHERE run = ?1", [run.0])?;
    let Some(head) = heads.into_iter().next() else { return Ok(None) };
    let limits: Vec<LimitRow> = of_run(tables, run)?;
    let trace = TraceRows {
        info: TraceInfo {
            engine: head.engine,
            records: head.records,
            lost: head.lost,
            bytes: head.moved,
            cannot: limits.into_iter().map(|row| row.cannot).collect(),
        },
        files: numbered(tables, run, "file")?,
        sections: of_run(tables, run)?,
        extents: of_run(tables, run)?,
        fills: Vec::new(),
        reads: Vec::new(),
        faults: Vec::new(),
        blocks: Vec::new(),
        processes: of_run(tables, run)?,
        mmaps: of_run(tables, run)?,
        opens: of_run(tables, run)?,
        syncs: of_run(tables, run)?,
        touches: of_run(tables, run)?,
        watched: of_run(tables, run)?,
        owners: of_run(tables, run)?,
        held: of_run(tables, run)?,
        direct: of_run(tables, run)?,
        file_systems: of_run(tables, run)?,
        wakes: of_run(tables, run)?,
        relocations: of_run(tables, run)?,
    };
    match dangling(&trace) {
        Some(file) => Err(missing(run, file)),
        None => Ok(Some(trace)),
    }
}

/// Hands over what came into the cache in a run of which `head` is known.
pub(crate) fn fills(
    tables: &Tables,
    run: RunId,
    head: &TraceRows,
    each: &mut dyn FnMut(&FillRow),
) -> Result<(), Failure> {
    each_of_run(tables, run, |row: FillRow| match (row.file.0 as usize) < head.files.len() {
        true => {
            each(&row);
            Ok(())
        }
        false => Err(missing(run, row.file)),
    })
}

/// Hands over what [`select_head`] leaves out, one by one, in the order that [`Flow`] promises.
pub(crate) fn flow(tables: &Tables, run: RunId, head: &TraceRows, into: &mut dyn Flow) -> Result<(), Failure> {
    let files = head.files.len();
    let known = |file: FileId| if (file.0 as usize) < files { Ok(()) } else { Err(missing(run, file)) };
    each_of_run(tables, run, |row: ReadRow| known(row.file).map(|()| into.read(&row)))?;
    each_of_run(tables, run, |row: FaultRow| known(row.file).map(|()| into.fault(&row)))?;
    let span = tables.span(FillRow::TABLE, run)?;
    let mut statement = tables.prepare_cached(&rows::select_sql::<FillRow>(&[], OF_RUN))?;
    let mut fills = Pulled { rows: statement.query([run.0, span.first, span.last])?, number: 0 };
    let mut next = || match fills.next::<FillRow>()? {
        Some(fill) => known(fill.file).map(|()| Some(fill)),
        None => Ok(None),
    };
    let mut fill = next()?;
    each_of_run(tables, run, |row: FlatBlock| {
        let block: BlockRow = row.gather()?;
        if let Served::File(file, _) = block.served {
            known(file)?;
        }
        while let Some(due) = fill.take_if(|fill| fill.at_ns <= block.start_ns) {
            into.fill(&due);
            fill = next()?;
        }
        into.block(&block);
        Ok(())
    })?;
    while let Some(due) = fill.take() {
        into.fill(&due);
        fill = next()?;
    }
    Ok(())
}
