//! The rows of an answer: whole numbers, words and nothing, by the names of their columns.

use model::{Error, Result};

/// One value. No question has fractions: engines print them in different ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// Not known.
    Null,
    /// A count, a time in µs, a size in bytes.
    Whole(i64),
    /// A word.
    Text(String),
}

/// A table, in an order that does not depend on the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// Sorts them.
    pub fn new(columns: Vec<String>, mut rows: Vec<Vec<Cell>>) -> Self {
        rows.sort();
        Self { columns, rows }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { columns: &self.columns, cells })
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [String],
    cells: &'a [Cell],
}

impl Row<'_> {
    fn cell(&self, column: &str) -> Result<&Cell> {
        let at = self.columns.iter().position(|name| name == column);
        let cell = at.and_then(|at| self.cells.get(at));
        cell.ok_or_else(|| Error::bug(format!("the answer has no column {column}")))
    }

    /// A number, or `None` where it is not known.
    ///
    /// # Errors
    /// A bug: there is no such column of numbers.
    pub fn known(&self, column: &str) -> Result<Option<i64>> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Whole(value) => Ok(Some(*value)),
            // ClickHouse writes integers of 64 bits as text.
            Cell::Text(text) => match text.parse() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(Error::bug(format!("column {column} holds '{}'", text.escape_default()))),
            },
        }
    }

    /// A number.
    ///
    /// # Errors
    /// A bug: there is none.
    pub fn whole(&self, column: &str) -> Result<i64> {
        self.known(column)?.ok_or_else(|| Error::bug(format!("column {column} is empty")))
    }

    /// A word.
    ///
    /// # Errors
    /// A bug: there is none.
    pub fn text(&self, column: &str) -> Result<String> {
        match self.cell(column)? {
            Cell::Text(text) => Ok(text.clone()),
            _ => Err(Error::bug(format!("column {column} is no text"))),
        }
    }
}
