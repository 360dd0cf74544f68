//! The file: rows are added and read, and never changed.

use crate::{APPLICATION_ID, SCHEMA, SCHEMA_VERSION};
use model::{Error, Exit, Result, shown};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another thaw that is adding to the same history.
const PATIENCE: Duration = Duration::from_secs(60);

/// A commit, as git knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commit {
    /// Its whole name.
    pub id: String,
    /// The first commit of its repository: series of two repositories are never mixed.
    pub repository: String,
    /// How many commits lead to it, itself among them: a commit has more than each of its ancestors.
    pub ancestors: u64,
    /// When it was committed, Unix seconds.
    pub committed_unix_s: i64,
    /// When it was written, Unix seconds.
    pub authored_unix_s: i64,
    /// First line of its message.
    pub subject: String,
}

/// The runs of a variant in a state, by one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the variant.
    pub variant: String,
    /// Cache state.
    pub state: String,
    /// Which figure.
    pub metric: String,
    /// Of each run where it is known, in base units.
    pub values: Vec<f64>,
}

/// A recording to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Tells a recording from all others, whatever was added to it later.
    pub source: String,
    /// Tells what is in it.
    pub content: String,
    /// Its file, for people.
    pub file: String,
    /// When it was made, Unix nanoseconds.
    pub created_unix_ns: u64,
    /// When it is added, Unix nanoseconds.
    pub added_unix_ns: u64,
    /// The thaw that made it.
    pub thaw_version: String,
    /// Of what.
    pub commit: Commit,
    /// The tree had changes that are in no commit.
    pub dirty: bool,
    /// Machine, program and set-up, as text that the caller understands.
    pub identity: String,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// What adding did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Added {
    /// It was not there.
    New,
    /// It was there, with fewer runs; from now on this one counts.
    Grown,
    /// It is there already; nothing was written.
    Already,
}

/// A recording in a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its number.
    pub recording: i64,
    /// Its file when it was added.
    pub file: String,
    /// When it was made, Unix nanoseconds.
    pub created_unix_ns: u64,
    /// The thaw that made it.
    pub thaw_version: String,
    /// Of what.
    pub commit: Commit,
    /// The tree had changes that are in no commit.
    pub dirty: bool,
    /// Number of its machine and set-up.
    pub setup: i64,
    /// Timed runs.
    pub runs: u64,
    /// What tells it from other recordings.
    #[serde(skip)]
    pub source: String,
}

/// What a history is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It must be there.
    Read,
    /// It is made if it is not there.
    Append,
}

/// A history that is open.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens a history.
    ///
    /// # Errors
    /// It is not there, is none, or is of another version; its directory cannot be written.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let cannot = || Error::on(Exit::Data, "cannot open the history", path);
        match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => {
                return Err(cannot().because("it is no regular file").hint("name a file with --history FILE"));
            }
            Err(error) if access == Access::Read || error.kind() != std::io::ErrorKind::NotFound => {
                let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::Usage } else { Exit::Data };
                return Err(Error { exit, ..cannot() }.because(error).hint("make one: thaw history add RECORDING"));
            }
            _ => {}
        }
        let flags = match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Append => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        // To read a history whose writer was killed is to undo what that one did not finish, which is a write; where
        // nothing can be written, there is nobody to undo for.
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| failed("cannot open the history", path, &error))?;
        let mut store = Self { path: path.to_owned(), connection };
        store.prepare(access)?;
        Ok(store)
    }

    fn prepare(&mut self, access: Access) -> Result<()> {
        let path = self.path.clone();
        let wrong = |error: rusqlite::Error| failed("cannot open the history", &path, &error);
        self.connection.busy_timeout(PATIENCE).map_err(wrong)?;
        if access == Access::Append {
            // One file is left, and what was acknowledged is on the disk, its directory entry too.
            self.connection.pragma_update(None, "journal_mode", "DELETE").map_err(wrong)?;
            self.connection.pragma_update(None, "synchronous", "EXTRA").map_err(wrong)?;
        }
        self.connection.pragma_update(None, "foreign_keys", true).map_err(wrong)?;
        let head = self.head().map_err(wrong)?;
        match head {
            (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(()),
            (0, 0, 0) if access == Access::Append => self.make().map_err(wrong),
            (APPLICATION_ID, version, _) => Err(Error::on(Exit::Data, "cannot open the history", &path)
                .because(format!("it has version {version}, and this thaw reads version {SCHEMA_VERSION}"))
                .hint("use the thaw that wrote it")),
            // New, or its first writer was killed.
            (0, 0, 0) => Err(Error::on(Exit::Usage, "nothing was added yet to the history", &path)
                .hint("thaw history add RECORDING")),
            _ => Err(Error::on(Exit::Data, "this is no history of thaw:", &path)
                .because("it is another database")
                .hint("name another file with --history FILE")),
        }
    }

    /// Application id, version, number of tables.
    fn head(&self) -> rusqlite::Result<(i32, i32, i64)> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get(0));
        let tables = self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((pragma("application_id")?, pragma("user_version")?, tables))
    }

    /// Makes the tables, unless another process did meanwhile.
    fn make(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == 0 {
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        transaction.commit()
    }

    /// Adds a recording, in one transaction. `same` says whether figures of a set-up that is known may stand beside
    /// those of the recording.
    ///
    /// # Errors
    /// The recording is there under another commit; the file cannot be written.
    pub fn add(&mut self, entry: &Entry, same: &dyn Fn(&str) -> bool) -> Result<Added> {
        let path = self.path.clone();
        let wrong = |error: rusqlite::Error| failed("cannot add to the history", &path, &error);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
        let known = known(&transaction, &entry.source).map_err(wrong)?;
        if let Some((_, commit)) = known.iter().find(|(_, commit)| *commit != entry.commit.id) {
            return Err(Error::new(Exit::Usage, "the recording is of another commit already:", &entry.file)
                .because(format!("the history has it as {commit}, and now it would be {}", entry.commit.id))
                .hint(format!("name that commit: --commit {commit}")));
        }
        if known.iter().any(|(content, _)| *content == entry.content) {
            return Ok(Added::Already);
        }
        insert(&transaction, entry, same).map_err(wrong)?;
        transaction.commit().map_err(wrong)?;
        Ok(if known.is_empty() { Added::New } else { Added::Grown })
    }

    /// The recordings that count, in the order in which they were added: of one that grew, the last.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn rows(&self) -> Result<Vec<Row>> {
        self.read(
            "SELECT r.recording, r.file, r.created_unix_ns, r.thaw_version, r.dirty, r.setup, c.commit_id,
                    c.repository, c.ancestors, c.committed_unix_s, c.authored_unix_s, c.subject,
                    (SELECT count(DISTINCT variant || char(0) || state || char(0) || run) FROM figures f
                     WHERE f.recording = r.recording), r.source
             FROM recordings r JOIN commits c USING (commit_id)
             WHERE r.recording IN (SELECT max(recording) FROM recordings GROUP BY source) ORDER BY r.recording",
            |row| {
                Ok(Row {
                    recording: row.get(0)?,
                    file: row.get(1)?,
                    created_unix_ns: row.get::<_, i64>(2)?.max(0) as u64,
                    thaw_version: row.get(3)?,
                    dirty: row.get(4)?,
                    setup: row.get(5)?,
                    commit: Commit {
                        id: row.get(6)?,
                        repository: row.get(7)?,
                        ancestors: row.get::<_, i64>(8)?.max(0) as u64,
                        committed_unix_s: row.get(9)?,
                        authored_unix_s: row.get(10)?,
                        subject: row.get(11)?,
                    },
                    runs: row.get::<_, i64>(12)?.max(0) as u64,
                    source: row.get(13)?,
                })
            },
        )
    }

    /// All figures, each with the number of its recording.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn figures(&self) -> Result<Vec<(i64, Figure)>> {
        let flat = self.read(
            "SELECT recording, variant, state, metric, value FROM figures
             ORDER BY recording, variant, state, metric, run",
            |row| {
                let values = vec![row.get(4)?];
                Ok((row.get(0)?, Figure { variant: row.get(1)?, state: row.get(2)?, metric: row.get(3)?, values }))
            },
        )?;
        let mut all: Vec<(i64, Figure)> = Vec::new();
        for (recording, figure) in flat {
            let same = |of: &(i64, Figure)| {
                let known = (&of.1.variant, &of.1.state, &of.1.metric);
                of.0 == recording && known == (&figure.variant, &figure.state, &figure.metric)
            };
            match all.last_mut() {
                Some(last) if same(last) => last.1.values.extend(figure.values),
                _ => all.push((recording, figure)),
            }
        }
        Ok(all)
    }

    /// Machines and set-ups by number, as they were handed over.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn setups(&self) -> Result<Vec<(i64, String)>> {
        self.read("SELECT setup, identity FROM setups ORDER BY setup", |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn read<T>(&self, sql: &str, each: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| each(row))?;
            rows.collect()
        };
        rows().map_err(|error| failed("cannot read the history", &self.path, &error))
    }
}

/// Content and commit of the recordings of a source.
fn known(transaction: &Transaction<'_>, source: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = transaction.prepare("SELECT content, commit_id FROM recordings WHERE source = ?1")?;
    let rows = statement.query_map([source], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn insert(transaction: &Transaction<'_>, entry: &Entry, same: &dyn Fn(&str) -> bool) -> rusqlite::Result<()> {
    let commit = &entry.commit;
    transaction.execute(
        "INSERT INTO commits VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![
            commit.id,
            commit.repository,
            whole(commit.ancestors),
            commit.committed_unix_s,
            commit.authored_unix_s,
            commit.subject
        ],
    )?;
    let setups: Vec<(i64, String)> = {
        let mut statement = transaction.prepare("SELECT setup, identity FROM setups ORDER BY setup")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    let setup = match setups.iter().find(|(_, identity)| same(identity)) {
        Some((setup, _)) => *setup,
        None => {
            transaction.execute("INSERT INTO setups (identity) VALUES (?1)", [&entry.identity])?;
            transaction.last_insert_rowid()
        }
    };
    transaction.execute(
        "INSERT INTO recordings
         (source, content, file, created_unix_ns, added_unix_ns, thaw_version, commit_id, dirty, setup)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            entry.source,
            entry.content,
            entry.file,
            whole(entry.created_unix_ns),
            whole(entry.added_unix_ns),
            entry.thaw_version,
            commit.id,
            entry.dirty,
            setup
        ],
    )?;
    let recording = transaction.last_insert_rowid();
    let mut statement = transaction.prepare("INSERT INTO figures VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for figure in &entry.figures {
        for (run, value) in (0_i64..).zip(&figure.values) {
            statement.execute(params![recording, figure.variant, figure.state, figure.metric, run, value])?;
        }
    }
    Ok(())
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What SQLite says, with the file and what to do.
fn failed(what: &str, path: &Path, error: &rusqlite::Error) -> Error {
    let name = shown(path);
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::on(Exit::Machine, what, path)
            .because("another program holds a lock on it")
            .hint("try again when that one has ended"),
        Some(ErrorCode::DiskFull) => Error::on(Exit::Machine, what, path)
            .because("no space is left on its disk")
            .hint("make room; what is in it already is safe"),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            Error::on(Exit::Machine, what, path)
                .because(error.to_string())
                .hint("check the permissions of the file and of its directory")
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::on(Exit::Data, what, path)
            .because(error.to_string())
            .hint(format!("it is damaged, or no history: restore it, or try `sqlite3 '{name}' .recover`")),
        _ => Error::on(Exit::Data, what, path).because(error.to_string()).hint("check its disk and its directory"),
    }
}
