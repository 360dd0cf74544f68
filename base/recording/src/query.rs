//! SQL questions from people: read-only, one at a time, with errors that help.

use crate::failure::Failure;
use crate::nouns::{Table, Value};
use model::{Error, Exit};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Why there is no answer.
pub(crate) enum Refusal {
    /// The question is wrong.
    Question(Error),
    /// The file is.
    File(Failure),
}

/// How much a question may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time until the whole answer is there; `None`: any.
    pub time: Option<Duration>,
    /// Rows of the answer; `None`: any.
    pub rows: Option<u64>,
}

/// When SQLite gives up, in nanoseconds since `start`; [`NEVER`] if it does not.
pub(crate) struct Deadline {
    start: Instant,
    at_ns: Arc<AtomicU64>,
}

const NEVER: u64 = u64::MAX;
/// So many steps of SQLite's machine lie between two looks at the clock.
const STEPS: i32 = 10_000;
/// The longest text or blob of an answer, bytes.
const LONGEST_VALUE: i32 = 64 << 20;
/// The longest question, bytes.
const LONGEST_QUESTION: i32 = 1 << 20;

impl Deadline {
    pub(crate) fn set(&self, time: Option<Duration>) {
        let at = time.map_or(NEVER, |time| u64::try_from((self.start.elapsed() + time).as_nanos()).unwrap_or(NEVER));
        self.at_ns.store(at, Ordering::Relaxed);
    }
}

/// Pragmas that only describe the file.
const HARMLESS: [&str; 9] = [
    "table_list",
    "table_info",
    "table_xinfo",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "integrity_check",
    "quick_check",
];

/// Pragmas that tell a number when asked, and change it when told.
const HARMLESS_WITHOUT_VALUE: [&str; 5] =
    ["application_id", "user_version", "page_count", "page_size", "freelist_count"];

/// From now on this connection prepares nothing but questions: SQLite asks here before it compiles any other action.
/// What comes back says when it gives up.
pub(crate) fn allow_reading_only(connection: &mut Connection) -> rusqlite::Result<Deadline> {
    connection.pragma_update(None, "query_only", true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_QUESTION)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    let deadline = Deadline { start: Instant::now(), at_ns: Arc::new(AtomicU64::new(NEVER)) };
    let (start, at_ns) = (deadline.start, deadline.at_ns.clone());
    let is_over = move || match at_ns.load(Ordering::Relaxed) {
        NEVER => false,
        at => start.elapsed().as_nanos() > u128::from(at),
    };
    connection.progress_handler(STEPS, Some(is_over))?;
    connection.authorizer(Some(authorize))?;
    Ok(deadline)
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !function_name.eq_ignore_ascii_case("load_extension"),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let is = |name: &&str| pragma_name.eq_ignore_ascii_case(name);
            HARMLESS.iter().any(is) || (pragma_value.is_none() && HARMLESS_WITHOUT_VALUE.iter().any(is))
        }
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Answers one question.
pub(crate) fn run(connection: &Connection, sql: &str, limits: &Limits) -> Result<Table, Refusal> {
    let explain = |error| explain(connection, sql, limits, error);
    let mut statement = connection.prepare(sql).map_err(explain)?;
    if !statement.readonly() {
        // VACUUM alone is compiled without asking the authorizer.
        return Err(Refusal::Question(only_questions(sql)));
    }
    if statement.column_count() == 0 {
        return Err(Refusal::Question(refuse(sql, "it asks for nothing", tables_hint(connection))));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Table { columns, rows: Vec::new() };
    let mut rows = statement.query([]).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        if let Some(most) = limits.rows.filter(|most| answer.rows.len() as u64 >= *most) {
            let hint = "ask for fewer (limit N, count(*)), or allow more with --max-rows".to_owned();
            return Err(Refusal::Question(refuse(sql, format!("the answer has more than {most} rows"), hint)));
        }
        let values = (0..answer.columns.len()).map(|index| row.get_ref(index).map(value)).collect::<Result<_, _>>();
        answer.rows.push(values.map_err(explain)?);
    }
    Ok(answer)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn refuse(sql: &str, cause: impl Into<String>, hint: String) -> Error {
    Error::new(Exit::Usage, "cannot answer", sql.trim()).because(cause.into()).hint(hint)
}

fn only_questions(sql: &str) -> Error {
    let hint = "to change data, copy it first: sqlite3 FILE '.backup copy.db'".to_owned();
    refuse(sql, "only questions (SELECT) are allowed: a recording is never changed", hint)
}

/// Tells a wrong question from a damaged file.
fn explain(connection: &Connection, sql: &str, limits: &Limits, error: rusqlite::Error) -> Refusal {
    if matches!(error, rusqlite::Error::MultipleStatement) {
        let cause = "it holds several statements";
        return Refusal::Question(refuse(sql, cause, "ask one question at a time".to_owned()));
    }
    let message = match &error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => Refusal::Question(only_questions(sql)),
        Some(ErrorCode::OperationInterrupted) => {
            let time = limits.time.unwrap_or_default().as_secs_f64();
            let hint = "ask for less, or allow more with --time-limit".to_owned();
            Refusal::Question(refuse(sql, format!("it was not answered within {time} s"), hint))
        }
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked,
        ) => Refusal::File(Failure::Sql(error)),
        _ if message.starts_with("no such column") => {
            let hint = columns_hint(connection, sql).unwrap_or_else(|| tables_hint(connection));
            Refusal::Question(refuse(sql, message, hint))
        }
        _ => Refusal::Question(refuse(sql, message, tables_hint(connection))),
    }
}

/// Names of tables and views, in the order of the schema.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY type = 'table', rowid";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

fn tables_hint(connection: &Connection) -> String {
    match tables(connection) {
        Ok(names) if !names.is_empty() => {
            format!("views and tables, explained in docs/recording.md: {}", names.join(", "))
        }
        _ => "the tables are explained in docs/recording.md".to_owned(),
    }
}

/// The columns of the tables that the question names.
fn columns_hint(connection: &Connection, sql: &str) -> Option<String> {
    let sql = sql.to_ascii_lowercase();
    let words: Vec<&str> = sql.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).collect();
    let mut parts = Vec::new();
    for table in tables(connection).ok()?.iter().filter(|table| words.contains(&table.as_str())) {
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)").ok()?;
        let columns: Vec<String> =
            statement.query_map([table], |row| row.get(0)).ok()?.collect::<rusqlite::Result<_>>().ok()?;
        parts.push(format!("{table} has {}", columns.join(", ")));
    }
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}
