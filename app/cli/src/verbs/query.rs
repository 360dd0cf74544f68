//! `thaw query`: SQL on a recording.

use crate::args::query::QueryArgs;
use crate::{output, text};
use model::{Exit, Result};
use recording::{Limits, Reader, Value};
use serde::Serialize;
use serde_json::json;

/// `thaw.query/1`: a path that is not UTF-8 is `{"hex": "..."}`.
#[derive(Serialize)]
struct QueryDocument {
    schema: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<serde_json::Value>>,
}

/// Prints the rows.
///
/// # Errors
/// A file that is no recording; SQL that is wrong or would change something.
pub fn run(args: &QueryArgs) -> Result<Exit> {
    let limits = Limits { time: Some(args.time_limit), rows: Some(args.max_rows) };
    let table = Reader::open(&args.recording)?.query_within(&args.sql, &limits)?;
    if args.json {
        let rows = table.rows.iter().map(|row| row.iter().map(as_json).collect()).collect();
        output::json(&QueryDocument { schema: "thaw.query/1", columns: table.columns, rows })?;
    } else if args.csv {
        output::bytes(text::query::csv(&table).as_bytes())?;
    } else {
        output::page(&text::query::page(&table, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => json!(number),
        Value::Real(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}
