//! Whether a recording has the tables that its version claims: a file may come from anywhere, and names of columns
//! alone say nothing. A table that is a view in truth computes without end; a trigger, a generated column or a virtual
//! table does what nobody asked for.

use crate::failure::Failure;
use crate::statements;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// Kind and statement of everything in a schema, by name.
type Objects = BTreeMap<String, (String, String)>;

/// Compares the schema of a file with the one of its version, which this thaw can read.
///
/// # Errors
/// Damage that names the object, and what SQLite says.
pub(crate) fn check(connection: &Connection, version: i32) -> Result<(), Failure> {
    let found = objects(connection)?;
    let model = Connection::open_in_memory()?;
    statements(0, version).try_for_each(|sql| model.execute_batch(sql))?;
    let expected = objects(&model)?;
    for (name, (kind, sql)) in &expected {
        match found.get(name) {
            None => return Err(Failure::Damage(format!("the {kind} '{name}' is missing"))),
            Some((other, _)) if other != kind => {
                return Err(Failure::Damage(format!("'{name}' should be a {kind} and is a {other}")));
            }
            Some((_, other)) if other != sql => {
                return Err(Failure::Damage(format!("the {kind} '{name}' is not the one of this schema version")));
            }
            Some(_) => {}
        }
    }
    match found.iter().find(|(name, _)| !expected.contains_key(*name)) {
        Some((name, (kind, _))) => Err(Failure::Damage(format!("it has a {kind} '{name}', which no thaw made"))),
        None => whole(connection),
    }
}

/// All objects but those that SQLite makes by itself (indexes of primary keys).
fn objects(connection: &Connection) -> Result<Objects, Failure> {
    let mut statement = connection.prepare("SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut objects = Objects::new();
    while let Some(row) = rows.next()? {
        let sql: String = row.get(2)?;
        objects.insert(row.get(0)?, (row.get(1)?, plain(&sql)));
    }
    Ok(objects)
}

/// A statement without its comments, and with one blank between words: how it is laid out says nothing.
fn plain(sql: &str) -> String {
    let without_comments = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    without_comments.flat_map(str::split_ascii_whitespace).collect::<Vec<_>>().join(" ")
}

/// Two objects of one name would be one entry above.
fn whole(connection: &Connection) -> Result<(), Failure> {
    let twice = "SELECT name FROM sqlite_schema GROUP BY name HAVING count(*) > 1";
    let twice: Option<String> = connection.query_row(twice, [], |row| row.get(0)).optional()?;
    match twice {
        Some(name) => Err(Failure::Damage(format!("it has two objects '{name}'"))),
        None => Ok(()),
    }
}
