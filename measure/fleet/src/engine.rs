//! Who answers a question: SQLite in this process, Spark or ClickHouse by a small Python program. All give the same
//! rows.

mod python;
mod rows;

pub use python::{Python, clickhouse, spark};
pub use rows::{Cell, Row, Rows};

use crate::store;
use model::{Error, Exit, Result};
use rusqlite::types::ValueRef;
use std::path::Path;

/// Asks a store that [`crate::import`] made.
///
/// # Errors
/// There is no such store, or SQLite says no.
pub fn sqlite(path: &Path, sql: &str) -> Result<Rows> {
    let store = store::read(path)?;
    let cannot = |cause| store::failed("SQLite cannot answer about", path, cause);
    let mut statement = store.prepare(sql).map_err(cannot)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let width = columns.len();
    let mut rows = Vec::new();
    let mut all = statement.query([]).map_err(cannot)?;
    while let Some(row) = all.next().map_err(cannot)? {
        let cells = (0..width).map(|at| match row.get_ref(at).map_err(cannot)? {
            ValueRef::Null => Ok(Cell::Null),
            ValueRef::Integer(value) => Ok(Cell::Whole(value)),
            ValueRef::Text(text) => Ok(Cell::Text(String::from_utf8_lossy(text).into_owned())),
            other => Err(Error::new(Exit::Bug, "a question has a column of type", other.data_type())),
        });
        rows.push(cells.collect::<Result<Vec<_>>>()?);
    }
    Ok(Rows::new(columns, rows))
}
