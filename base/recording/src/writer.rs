//! Writes a recording: every call is one transaction, so what a call returned for is in the file.

use crate::failure::{self, Failure};
use crate::nouns::{Binary, Fact, Header, Replace, Variant};
use crate::rows::{self, ArgumentRow, CommandLineRow, EndingRow, EnvironmentRow, HeaderRow, VariantRow};
use crate::store::{self, Claim, Place};
use crate::{APPLICATION_ID, OLDEST_VERSION, SCHEMA_VERSION, cpu, events, loader, shape, statements, trace};
use model::{Error, EventRows, Exit, Milestone, ResidencyRow, Result, RunId, RunRow, TraceRows, Warning};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A recording that is being made. Dropping it loses nothing that a call returned for.
///
/// All errors are of [`model::Exit::Machine`] (disk full, no permission) unless said otherwise; after one, nothing of
/// that call is in the file, and the writer can be used on.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    // Dropped after the connection: closing this descriptor ends the locks that SQLite holds for the process.
    _claim: Option<Claim>,
}

impl Writer {
    /// Makes a recording at `path`, with its header and nothing else. It appears there in one step.
    ///
    /// Errors: `Usage` where something is there that may not be replaced, where another thaw writes to it, or where the
    /// directory cannot be written.
    pub fn create(path: impl AsRef<Path>, header: &Header, replace: Replace) -> Result<Self> {
        let _span = tracing::info_span!("create").entered();
        let place = Place::take(path.as_ref(), replace)?;
        let target = place.target().to_path_buf();
        let explain = |failure| failure::writing(&target, "cannot create the recording", failure, 0, None);
        let fresh = place.fresh()?;
        write_head(fresh.path(), header).map_err(|(failure, os_error)| {
            failure::writing(&target, "cannot create the recording", failure, os_error, None)
        })?;
        let claim = Claim::take(fresh.path())
            .map_err(|error| Error::on(Exit::Usage, "cannot create the recording", &target).because(error))?;
        fresh.place()?;
        // From here on the old recording is gone.
        drop(place);
        let connection = store::connect_to_write(&target).map_err(explain)?;
        Ok(Self { connection, path: target, _claim: claim })
    }

    /// Opens a recording to add to it. What it says about itself (header, variants, whether it was finished) stays.
    ///
    /// Errors: `Usage` where no recording is there, or another thaw writes to it; `Data` where it has another schema
    /// version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (target, claim) = store::claim(path.as_ref())?;
        let explain = |failure| failure::reading(&target, failure);
        let mut connection = store::connect_to_write(&target).map_err(explain)?;
        let version = rows::version_of(&connection).map_err(|error| explain(error.into()))?;
        if !(OLDEST_VERSION..=SCHEMA_VERSION).contains(&version) {
            return Err(failure::other_version(&target, version));
        }
        shape::check(&connection, version).map_err(explain)?;
        if version < SCHEMA_VERSION {
            upgrade(&mut connection, version).map_err(explain)?;
        }
        Ok(Self { connection, path: target, _claim: Some(claim) })
    }

    /// Where the recording is: absolute, symbolic links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a program. Its index must be new.
    pub fn add_variant(&mut self, variant: &Variant) -> Result<()> {
        let row = VariantRow { variant: variant.index, name: variant.name.clone() };
        let arguments: Vec<ArgumentRow> = (0..)
            .zip(&variant.argv)
            .map(|(position, argument)| ArgumentRow { variant: variant.index, position, argument: argument.clone() })
            .collect();
        self.transact(|transaction| {
            rows::insert(transaction, [], [([], &row)])?;
            rows::insert(transaction, [], arguments.iter().map(|row| ([], row)))
        })
    }

    /// Adds what is known of the machine.
    pub fn add_facts(&mut self, facts: &[Fact]) -> Result<()> {
        self.transact(|transaction| rows::insert(transaction, [], facts.iter().map(|row| ([], row))))
    }

    /// Adds an executable or a library.
    pub fn add_binary(&mut self, binary: &Binary) -> Result<()> {
        self.transact(|transaction| rows::insert(transaction, [], [([], binary)]))
    }

    /// Adds a finished run with all that belongs to it, or nothing of it. `run.id` is ignored; the run's number is
    /// returned, and counts from 1.
    pub fn add_run(&mut self, run: &RunRow, milestones: &[Milestone], residency: &[ResidencyRow]) -> Result<RunId> {
        self.transact(|transaction| {
            let last: i64 = transaction.query_row("SELECT coalesce(max(run), 0) FROM runs", [], |row| row.get(0))?;
            let id = RunId(last + 1);
            let run = RunRow { id, ..run.clone() };
            rows::insert(transaction, [], [([], &run)])?;
            rows::insert(transaction, ["run"], milestones.iter().map(|row| ([id.0], row)))?;
            rows::insert(transaction, ["run"], residency.iter().map(|row| ([id.0], row)))?;
            Ok(id)
        })
    }

    /// Adds the trace of a run, or nothing of it. A run has at most one trace.
    ///
    /// Errors: `Bug` where the run does not exist or has a trace, or a row points to a file that `trace.files` does not
    /// have.
    pub fn add_trace(&mut self, run: RunId, trace: &TraceRows) -> Result<()> {
        let _span = tracing::info_span!("write trace", run = run.0).entered();
        self.transact(|transaction| trace::insert(transaction, run, trace))
    }

    /// Adds the events of a run, or nothing of them. A run has them once.
    ///
    /// Errors: `Bug` where the run does not exist or has events, or a row points to a process, a thread or a type that
    /// the rows do not have.
    pub fn add_events(&mut self, run: RunId, rows: &EventRows) -> Result<()> {
        let _span = tracing::info_span!("write events", run = run.0).entered();
        self.transact(|transaction| events::insert(transaction, run, rows))
    }

    /// Adds where the time of a run went, or nothing of it. A run has that once.
    ///
    /// Errors: `Bug` where the run does not exist or has it, or a row points to a stack that is not there.
    pub fn add_cpu(&mut self, run: RunId, trace: &model::cpu::Trace) -> Result<()> {
        let _span = tracing::info_span!("write cpu", run = run.0).entered();
        self.transact(|transaction| cpu::insert(transaction, run, trace))
    }

    /// Adds the loader's share of a run, or nothing of it. A run has that once.
    ///
    /// Errors: `Bug` where the run does not exist or has it, or an initialiser ran within one that is not before it.
    pub fn add_loader(&mut self, run: RunId, rows: &model::loader::LoaderRun) -> Result<()> {
        let _span = tracing::info_span!("write loader", run = run.0).entered();
        self.transact(|transaction| loader::insert(transaction, run, rows))
    }

    /// Adds a warning.
    pub fn add_warning(&mut self, warning: &Warning) -> Result<()> {
        self.transact(|transaction| rows::insert(transaction, [], [([], warning)]))
    }

    /// Marks the recording as finished: it holds all that was planned. Again does no harm.
    pub fn finish(&mut self) -> Result<()> {
        let _span = tracing::info_span!("finish").entered();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ending = EndingRow { finished_unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX) };
        self.transact(|transaction| {
            let already: bool = transaction.query_row("SELECT count(*) > 0 FROM endings", [], |row| row.get(0))?;
            if already { Ok(()) } else { rows::insert(transaction, [], [([], &ending)]) }
        })
    }

    /// Runs `work` in one transaction: all of it is in the file, or nothing.
    fn transact<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> std::result::Result<T, Failure>) -> Result<T> {
        let attempt = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        attempt(&mut self.connection).map_err(|failure| self.explain(failure))
    }

    /// Why a transaction failed, and how many runs are safe all the same.
    fn explain(&self, failure: Failure) -> Error {
        // SAFETY: the handle belongs to an open connection, which this thread alone uses (`Writer` is not `Sync`), and
        // the call only reads a number from it.
        let os_error = unsafe { rusqlite::ffi::sqlite3_system_errno(self.connection.handle()) };
        let runs: Option<i64> = self.connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).ok();
        let runs = runs.map(i64::cast_unsigned);
        failure::writing(&self.path, "cannot write to the recording", failure, os_error, runs)
    }
}

/// Makes a recording of an older version one of this version, in one transaction: what was added are tables.
fn upgrade(connection: &mut Connection, version: i32) -> std::result::Result<(), Failure> {
    let transaction = connection.transaction()?;
    statements(version, SCHEMA_VERSION).try_for_each(|sql| transaction.execute_batch(sql))?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Makes the schema and the header in an empty file. A failure comes with what the system said to SQLite, 0 if that is
/// nothing.
fn write_head(path: &Path, header: &Header) -> std::result::Result<(), (Failure, i32)> {
    let mut connection = store::connect_to_write(path).map_err(|failure| (failure, 0))?;
    fill_head(&mut connection, header).map_err(|failure| {
        // SAFETY: the handle belongs to an open connection of this function, and the call only reads a number from it.
        (failure, unsafe { rusqlite::ffi::sqlite3_system_errno(connection.handle()) })
    })?;
    connection.close().map_err(|(_, error)| (Failure::Sql(error), 0))
}

fn fill_head(connection: &mut Connection, header: &Header) -> std::result::Result<(), Failure> {
    // Nobody else knows the file: a journal beside it would only be one more thing that a kill leaves.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    let transaction = connection.transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    statements(0, SCHEMA_VERSION).try_for_each(|sql| transaction.execute_batch(sql))?;
    let row = HeaderRow {
        thaw_version: header.thaw_version.clone(),
        created_unix_ns: header.created_unix_ns,
        cwd: header.cwd.clone(),
        plan: header.plan.to_string(),
        seed: header.seed,
    };
    rows::insert(&transaction, [], [([], &row)])?;
    let words: Vec<CommandLineRow> = (0..)
        .zip(&header.command_line)
        .map(|(position, argument)| CommandLineRow { position, argument: argument.clone() })
        .collect();
    rows::insert(&transaction, [], words.iter().map(|row| ([], row)))?;
    let variables: Vec<EnvironmentRow> = header
        .environment
        .iter()
        .map(|(name, value)| EnvironmentRow { name: name.clone(), value: value.clone() })
        .collect();
    rows::insert(&transaction, [], variables.iter().map(|row| ([], row)))?;
    transaction.commit()?;
    Ok(())
}
