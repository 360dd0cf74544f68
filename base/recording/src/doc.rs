//! Reads `docs/recording.md`, so that tests can hold it against the schema. Only for tests.

use crate::{SCHEMA_VERSION, statements};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A line of a table on the page.
#[derive(Debug, PartialEq, Eq)]
struct Column {
    name: String,
    /// As on the page, `TEXT` or `TEXT, NULL`; empty for views.
    kind: String,
    meaning: String,
}

/// The page: tables and views with their columns, and the example queries.
pub(crate) struct Page {
    text: String,
    tables: BTreeMap<String, Vec<Column>>,
}

impl Page {
    /// Reads the page.
    pub fn load() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recording.md");
        let text = std::fs::read_to_string(path).expect("docs/recording.md belongs to this crate");
        let mut tables: BTreeMap<String, Vec<Column>> = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                let name = heading.trim_matches('`').to_owned();
                assert!(tables.insert(name.clone(), Vec::new()).is_none(), "'{name}' is described twice");
                current = Some(name);
            }
            let (Some(current), Some(line)) = (&current, line.strip_prefix("| `")) else { continue };
            let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").map(str::trim).collect();
            let view = current.starts_with("v_");
            tables.get_mut(current).unwrap().push(Column {
                name: cells[0].trim_end_matches('`').to_owned(),
                kind: if view { String::new() } else { cells[1].to_owned() },
                meaning: (*cells.last().unwrap()).to_owned(),
            });
        }
        Self { text, tables }
    }

    /// Fails unless the meaning of this column names every word that it can hold.
    pub fn assert_names_words(&self, table: &str, column: &str, words: &[&str]) {
        let column = self.tables[table].iter().find(|other| other.name == column).expect("a described column");
        for word in words {
            let quoted = format!("`{word}`");
            assert!(column.meaning.contains(&quoted), "{table}.{} does not explain {quoted}", column.name);
        }
    }

    fn examples(&self) -> Vec<&str> {
        self.text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    }
}

fn empty() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    statements(0, SCHEMA_VERSION).for_each(|sql| connection.execute_batch(sql).unwrap());
    connection
}

/// Tables and views as SQLite knows them, in the shape of the page.
fn schema(connection: &Connection) -> BTreeMap<String, Vec<(String, String)>> {
    let mut tables = BTreeMap::new();
    let mut statement =
        connection.prepare("SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view')").unwrap();
    let names: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    for (name, kind) in names {
        let mut statement =
            connection.prepare("SELECT name, type, \"notnull\" OR pk > 0 FROM pragma_table_info(?1)").unwrap();
        let columns = statement
            .query_map([&name], |row| {
                let (column, declared, never_null): (String, String, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let declared = match (kind.as_str(), never_null) {
                    ("view", _) => String::new(),
                    (_, true) => declared,
                    (_, false) => format!("{declared}, NULL"),
                };
                Ok((column, declared))
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        tables.insert(name, columns);
    }
    tables
}

#[test]
fn the_page_describes_the_schema_column_by_column() {
    let page = Page::load();
    let schema = schema(&empty());
    let described: Vec<&String> = page.tables.keys().collect();
    let existing: Vec<&String> = schema.keys().collect();
    assert_eq!(described, existing, "tables and views on the page, and in the schema");
    for (table, columns) in &page.tables {
        let described: Vec<(String, String)> =
            columns.iter().map(|column| (column.name.clone(), column.kind.clone())).collect();
        assert_eq!(described, schema[table], "columns of '{table}' on the page, and in the schema");
        for column in columns {
            assert!(!column.meaning.is_empty(), "{table}.{} has no meaning", column.name);
        }
    }
    assert!(page.text.contains(&format!("schema version {SCHEMA_VERSION},")));
    assert!(page.text.contains(&format!("{:#x}", crate::APPLICATION_ID)));
}

#[test]
fn every_view_has_an_example_and_every_example_works() {
    let page = Page::load();
    let connection = empty();
    let examples = page.examples();
    for example in &examples {
        connection.prepare(example).and_then(|mut statement| statement.query([])?.next().map(drop)).expect(example);
    }
    for view in page.tables.keys().filter(|name| name.starts_with("v_")) {
        assert!(examples.iter().any(|example| example.contains(&format!("FROM {view} "))), "no example of {view}");
    }
}
