//! A recording's tables with where the rows of each run lie in them.
//!
//! Tables have no index by run: one would cost every recording what few readings gain. But every trace is written in
//! one transaction, so that the rows of a run stand together, and a look at column `run` alone tells where. A table is
//! looked through once, however many runs are read from it; without that, each run would cost a pass over all of them.
//! Nothing is believed: a recording may come from anywhere, and where rows of a run stand apart, everything between
//! them is read and left out.

use crate::failure::Failure;
use model::RunId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;

/// Once runs have changed so often in a table, it was not written by thaw, and is read from end to end each time.
const MOST_CHANGES: usize = 1 << 16;

/// First and last `rowid` of the rows of a run; others may lie between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub first: i64,
    pub last: i64,
}

impl Span {
    /// Of a table of which nothing is known.
    const ALL: Self = Self { first: i64::MIN, last: i64::MAX };
    /// No row.
    const NONE: Self = Self { first: 1, last: 0 };
}

/// Where the rows of all runs lie in one table, as far as it was looked through.
#[derive(Default)]
struct Spans {
    by_run: HashMap<i64, Span>,
    /// The last row that was looked at.
    until: Option<i64>,
    changes: usize,
}

/// The connection of a reader.
pub(crate) struct Tables {
    connection: Connection,
    spans: RefCell<HashMap<&'static str, Spans>>,
    /// How often a table was asked for where runs change: what the tests count.
    looks: Cell<usize>,
}

impl Deref for Tables {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Tables {
    pub fn of(connection: Connection) -> Self {
        Self { connection, spans: RefCell::default(), looks: Cell::new(0) }
    }

    /// Where the rows of a run lie. Rows that were added since the last call are seen, too.
    pub fn span(&self, table: &'static str, run: RunId) -> Result<Span, Failure> {
        let mut tables = self.spans.borrow_mut();
        let spans = tables.entry(table).or_default();
        if spans.changes < MOST_CHANGES {
            self.look_through(table, spans)?;
        }
        if spans.changes >= MOST_CHANGES {
            return Ok(Span::ALL);
        }
        Ok(spans.by_run.get(&run.0).copied().unwrap_or(Span::NONE))
    }

    /// Looks at the rows behind those that are known.
    fn look_through(&self, table: &str, spans: &mut Spans) -> Result<(), Failure> {
        let last = format!("SELECT max(rowid) FROM {table}");
        let Some(last) = self.connection.prepare_cached(&last)?.query_row([], |row| row.get::<_, Option<i64>>(0))?
        else {
            return Ok(());
        };
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Value>(1)?));
        let sql = format!("SELECT rowid, run FROM {table} WHERE rowid > ?1 ORDER BY rowid LIMIT 1");
        let mut first = self.connection.prepare_cached(&sql)?;
        // SQLite compares the column itself: far quicker than to hand every row over. The plus keeps it from an index
        // that begins with `run`, whose rows it would have to sort.
        let sql = format!("SELECT rowid, run FROM {table} WHERE rowid > ?1 AND +run IS NOT ?2 ORDER BY rowid LIMIT 1");
        let mut next = self.connection.prepare_cached(&sql)?;
        let mut at = match spans.until {
            Some(until) if until >= last => return Ok(()),
            Some(until) => first.query_row([until], row).optional()?,
            None => first.query_row([i64::MIN], row).optional()?,
        };
        while let Some((begin, run)) = at {
            self.looks.set(self.looks.get() + 1);
            at = next.query_row((begin, &run), row).optional()?;
            let end = at.as_ref().map_or(last, |(next, _)| next - 1);
            if let Value::Integer(run) = run {
                let span = spans.by_run.entry(run).or_insert(Span { first: begin, last: end });
                span.last = span.last.max(end);
            }
            spans.until = Some(end);
            spans.changes += 1;
            if spans.changes >= MOST_CHANGES {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(runs: &[i64]) -> Tables {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE fills (run INTEGER NOT NULL, at_ns INTEGER) STRICT").unwrap();
        let tables = Tables::of(connection);
        add(&tables, runs);
        tables
    }

    fn add(tables: &Tables, runs: &[i64]) {
        for run in runs {
            tables.execute("INSERT INTO fills (run, at_ns) VALUES (?1, 0)", [run]).unwrap();
        }
    }

    fn span(tables: &Tables, run: i64) -> (i64, i64) {
        let span = tables.span("fills", RunId(run)).unwrap();
        (span.first, span.last)
    }

    #[test]
    fn a_table_is_looked_through_once_for_all_runs() {
        let tables = tables(&[1, 1, 1, 7, 7, 3]);
        assert_eq!([1, 3, 7].map(|run| span(&tables, run)), [(1, 3), (6, 6), (4, 5)]);
        assert_eq!(tables.looks.get(), 3, "one for each run, and none for a run that is asked for again");
        let (first, last) = span(&tables, 2);
        assert!(first > last, "a run without rows has none");
        assert_eq!(tables.looks.get(), 3);
    }

    #[test]
    fn rows_that_are_added_meanwhile_are_seen() {
        let tables = tables(&[1, 1]);
        assert_eq!(span(&tables, 1), (1, 2));
        add(&tables, &[1, 2, 2]);
        assert_eq!([1, 2].map(|run| span(&tables, run)), [(1, 3), (4, 5)]);
    }

    #[test]
    fn rows_of_a_run_that_stand_apart_are_all_inside() {
        let tables = tables(&[1, 2, 1, 2, 2, 1]);
        assert_eq!([1, 2].map(|run| span(&tables, run)), [(1, 6), (2, 5)]);
    }

    #[test]
    fn a_table_in_no_order_is_read_from_end_to_end() {
        let tables = tables(&[]);
        let numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 70000)";
        tables.execute(&format!("INSERT INTO fills SELECT i % 2, i FROM ({numbers} SELECT i FROM n)"), []).unwrap();
        assert_eq!(span(&tables, 1), (i64::MIN, i64::MAX));
        let looks = tables.looks.get();
        assert_eq!(span(&tables, 0), (i64::MIN, i64::MAX));
        assert_eq!((looks, tables.looks.get()), (MOST_CHANGES, MOST_CHANGES), "and not looked through again");
    }
}
