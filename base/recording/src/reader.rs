//! Reads a recording, and never changes it.

use crate::failure::{self, Failure, Kind, kind_of};
use crate::nouns::{Binary, Fact, Header, Table, Variant};
use crate::query::{Deadline, Limits};
use crate::rows::{self, ArgumentRow, CommandLineRow, EnvironmentRow, HeaderRow, Stored, VariantRow};
use crate::tables::Tables;
use crate::{APPLICATION_ID, OLDEST_VERSION, SCHEMA_VERSION, cpu, events, loader, query, shape, store, trace};
use model::{
    Error, EventRows, Exit, FillRow, Flow, Milestone, Nanos, ResidencyRow, Result, RunId, RunRow, TraceRows, Warning,
};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open recording. It may still be growing: each call sees what was finished when it was made.
///
/// Errors are of [`Exit::Data`] and name the file, unless said otherwise.
pub struct Reader {
    connection: Tables,
    path: PathBuf,
    deadline: Deadline,
}

impl Reader {
    /// Opens a recording.
    ///
    /// Where a writer was killed inside a transaction, its unfinished write is undone first; that alone needs write
    /// access. A file that is not a recording, or of another schema version, is refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let _span = tracing::info_span!("open").entered();
        let path = path.as_ref();
        let refuse = |cause: std::io::Error| {
            Error::on(Exit::of_unreadable(&cause), "cannot open the recording", path).because(cause)
        };
        let meta = std::fs::metadata(path).map_err(|error| {
            refuse(error).hint("make a recording with `thaw record -o FILE -- PROGRAM`, or check the name")
        })?;
        if !meta.is_file() {
            return Err(refuse(std::io::Error::other("it is not a regular file")));
        }
        // SQLite takes a relative name that begins with "file:" for a URI.
        let absolute = std::path::absolute(path).map_err(refuse)?;
        let opened = match connect(&absolute) {
            Err(failure) if failure.extended_code() == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK) => {
                refuse_foreign(path)?;
                store::roll_back(&absolute)?;
                connect(&absolute)
            }
            other => other,
        };
        match opened {
            Ok(Opened::Recording(connection, deadline)) => {
                Ok(Self { connection: Tables::of(connection), path: path.to_path_buf(), deadline })
            }
            Ok(Opened::OtherVersion(version)) => Err(failure::other_version(path, version)),
            Ok(Opened::Foreign) => {
                let kind = kind_of(path).unwrap_or(Kind::Other);
                Err(failure::foreign(path, &kind))
            }
            Err(failure) => {
                refuse_foreign(path)?;
                Err(failure::reading(path, failure))
            }
        }
    }

    /// What was known when the recording began.
    pub fn header(&self) -> Result<Header> {
        let head: HeaderRow = self
            .rows("ORDER BY rowid")?
            .into_iter()
            .next()
            .ok_or_else(|| self.explain(Failure::Damage("table 'header' has no row".to_owned())))?;
        let plan = serde_json::from_str(&head.plan).map_err(|error| {
            self.explain(Failure::Damage(format!("column 'plan' of table 'header' is not JSON: {error}")))
        })?;
        let words: Vec<CommandLineRow> = self.rows("ORDER BY position")?;
        let variables: Vec<EnvironmentRow> = self.rows("ORDER BY rowid")?;
        Ok(Header {
            thaw_version: head.thaw_version,
            created_unix_ns: head.created_unix_ns,
            command_line: words.into_iter().map(|row| row.argument).collect(),
            cwd: head.cwd,
            environment: variables.into_iter().map(|row| (row.name, row.value)).collect(),
            plan,
            seed: head.seed,
        })
    }

    /// Whether the writer said that it was done. `false`: it was interrupted or killed, its disk was full, or it is
    /// still at work.
    pub fn finished(&self) -> Result<bool> {
        self.connection
            .query_row("SELECT count(*) > 0 FROM endings", [], |row| row.get(0))
            .map_err(|error| self.explain(error.into()))
    }

    /// The programs that are compared, by index.
    pub fn variants(&self) -> Result<Vec<Variant>> {
        let mut arguments: HashMap<u32, Vec<_>> = HashMap::new();
        for row in self.rows::<ArgumentRow>("ORDER BY variant, position")? {
            arguments.entry(row.variant).or_default().push(row.argument);
        }
        let variants: Vec<VariantRow> = self.rows("ORDER BY variant")?;
        Ok(variants
            .into_iter()
            .map(|row| Variant {
                index: row.variant,
                name: row.name,
                argv: arguments.remove(&row.variant).unwrap_or_default(),
            })
            .collect())
    }

    /// What is known of the machine, in the order added.
    pub fn facts(&self) -> Result<Vec<Fact>> {
        self.rows("ORDER BY rowid")
    }

    /// Executables and libraries, in the order added.
    pub fn binaries(&self) -> Result<Vec<Binary>> {
        self.rows("ORDER BY rowid")
    }

    /// All finished runs, in the order made, with the probes that fired in each.
    pub fn runs(&self) -> Result<Vec<(RunRow, Vec<Milestone>)>> {
        let _span = tracing::info_span!("read runs").entered();
        let runs: Vec<RunRow> = self.rows("ORDER BY run")?;
        if let Some(what) = runs.iter().find_map(absurd) {
            return Err(self.explain(Failure::Damage(what)));
        }
        let mut milestones: HashMap<i64, Vec<Milestone>> = HashMap::new();
        let found = rows::select_led(&self.connection, ["run"], "ORDER BY rowid", []);
        for ([run], row) in found.map_err(|failure| self.explain(failure))? {
            milestones.entry(run).or_default().push(row);
        }
        Ok(runs
            .into_iter()
            .map(|run| {
                let fired = milestones.remove(&run.id.0).unwrap_or_default();
                (run, fired)
            })
            .collect())
    }

    /// What was resident before a run, in the order added; empty where that was not looked at.
    pub fn residency(&self, run: RunId) -> Result<Vec<ResidencyRow>> {
        self.of_run(run)
    }

    /// The runs that have a trace, in the order made.
    pub fn trace_runs(&self) -> Result<Vec<RunId>> {
        trace::runs(&self.connection).map_err(|failure| self.explain(failure))
    }

    /// The trace of a run, exactly as it was written.
    ///
    /// Every file number in it is an index into its `files`; a recording in which that does not hold is refused as
    /// damaged. Errors: `Usage` where the run has no trace.
    pub fn trace(&self, run: RunId) -> Result<TraceRows> {
        let _span = tracing::info_span!("read trace", run = run.0).entered();
        self.traced(run, trace::select(&self.connection, run))
    }

    /// The trace of a run without that of which there is most: fills, reads, faults and requests, which
    /// [`Reader::flow`] hands over.
    ///
    /// Errors: as [`Reader::trace`].
    pub fn trace_head(&self, run: RunId) -> Result<TraceRows> {
        let _span = tracing::info_span!("read trace head", run = run.0).entered();
        self.traced(run, trace::select_head(&self.connection, run))
    }

    /// Hands over the fills, reads, faults and requests of a run one by one, so that nobody needs room for all of them;
    /// `head` is what [`Reader::trace_head`] gave.
    ///
    /// Errors: as [`Reader::trace`]. What was handed over before one is part of a damaged trace.
    pub fn flow(&self, run: RunId, head: &TraceRows, into: &mut dyn Flow) -> Result<()> {
        let _span = tracing::info_span!("read flow", run = run.0).entered();
        trace::flow(&self.connection, run, head, into).map_err(|failure| self.explain(failure))
    }

    /// Hands over what came into the cache in a run, one by one; `head` is what [`Reader::trace_head`] gave.
    ///
    /// Errors: as [`Reader::flow`].
    pub fn fills(&self, run: RunId, head: &TraceRows, each: &mut dyn FnMut(&FillRow)) -> Result<()> {
        let _span = tracing::info_span!("read fills", run = run.0).entered();
        trace::fills(&self.connection, run, head, each).map_err(|failure| self.explain(failure))
    }

    fn traced(&self, run: RunId, found: std::result::Result<Option<TraceRows>, Failure>) -> Result<TraceRows> {
        let Some(trace) = found.map_err(|failure| self.explain(failure))? else {
            let traced: Vec<String> = self.trace_runs()?.iter().map(|run| run.0.to_string()).collect();
            let hint = if traced.is_empty() {
                "record with `--trace-runs 1`".to_owned()
            } else {
                format!("runs with a trace: {}", traced.join(", "))
            };
            let error = Error::on(Exit::Usage, format!("run {} has no trace in", run.0), &self.path);
            return Err(error.hint(hint));
        };
        Ok(trace)
    }

    /// How many dynamic relocations the files have whose code each traced run mapped; `None`: one of them could not be
    /// read. Of runs that mapped code only; none in recordings before schema version 5.
    pub fn relocations(&self) -> Result<Vec<(RunId, Option<u64>)>> {
        trace::relocations(&self.connection).map_err(|failure| self.explain(failure))
    }

    /// The runs that have events, in the order made; none in recordings before schema version 4.
    pub fn event_runs(&self) -> Result<Vec<RunId>> {
        events::runs(&self.connection).map_err(|failure| self.explain(failure))
    }

    /// The events of a run, exactly as they were written; every number in them points to a row that is there. `None`:
    /// it has none.
    pub fn events(&self, run: RunId) -> Result<Option<EventRows>> {
        let _span = tracing::info_span!("read events", run = run.0).entered();
        events::select(&self.connection, run).map_err(|failure| self.explain(failure))
    }

    /// The runs of which it is known where the time went, in the order made; none in recordings before schema version
    /// 5.
    pub fn cpu_runs(&self) -> Result<Vec<RunId>> {
        cpu::runs(&self.connection).map_err(|failure| self.explain(failure))
    }

    /// Who ran where and when in a run, exactly as it was written; every number in it points to a row that is there.
    /// `None`: that was not taken down.
    pub fn cpu(&self, run: RunId) -> Result<Option<model::cpu::Trace>> {
        let _span = tracing::info_span!("read cpu", run = run.0).entered();
        cpu::select(&self.connection, run).map_err(|failure| self.explain(failure))
    }

    /// The runs whose loader was watched, in the order made; none in recordings before schema version 5.
    pub fn loader_runs(&self) -> Result<Vec<RunId>> {
        loader::runs(&self.connection).map_err(|failure| self.explain(failure))
    }

    /// The loader's share of a run, exactly as it was written; `within` of its initialisers points to one before them.
    /// `None`: it was not watched.
    pub fn loader(&self, run: RunId) -> Result<Option<model::loader::LoaderRun>> {
        let _span = tracing::info_span!("read loader", run = run.0).entered();
        loader::select(&self.connection, run).map_err(|failure| self.explain(failure))
    }

    /// All warnings, in the order added.
    pub fn warnings(&self) -> Result<Vec<Warning>> {
        self.rows("ORDER BY rowid")
    }

    /// From now on reading ends with an error when this time is over. `None`: it may take as long as it takes.
    pub fn give_up_after(&self, time: Option<Duration>) {
        self.deadline.set(time);
    }

    /// Answers one SQL question. Whatever would write, attach another file or load code is refused.
    ///
    /// Errors: `Usage` with SQLite's own words and a hint that lists what can be asked for; `Data` where the file is
    /// damaged.
    pub fn query(&self, sql: &str) -> Result<Table> {
        self.query_within(sql, &Limits::default())
    }

    /// The same within limits: an answer that takes longer or has more rows is an error.
    ///
    /// Errors: as [`Reader::query`]; `Usage` where a limit is reached.
    pub fn query_within(&self, sql: &str, limits: &Limits) -> Result<Table> {
        let _span = tracing::info_span!("query").entered();
        self.deadline.set(limits.time);
        let answer = query::run(&self.connection, sql, limits);
        self.deadline.set(None);
        answer.map_err(|error| match error {
            query::Refusal::Question(error) => error,
            query::Refusal::File(failure) => self.explain(failure),
        })
    }

    fn rows<T: Stored>(&self, rest: &str) -> Result<Vec<T>> {
        rows::select(&self.connection, rest, []).map_err(|failure| self.explain(failure))
    }

    fn of_run<T: Stored>(&self, run: RunId) -> Result<Vec<T>> {
        trace::of_run(&self.connection, run).map_err(|failure| self.explain(failure))
    }

    fn explain(&self, failure: Failure) -> Error {
        failure::reading(&self.path, failure)
    }
}

enum Opened {
    Recording(Connection, Deadline),
    OtherVersion(i32),
    Foreign,
}

/// Opens a file for reading and looks at who wrote it.
fn connect(path: &Path) -> std::result::Result<Opened, Failure> {
    let mut connection = store::connect_to_read(path)?;
    // A recording may come from anywhere: its schema gets no powers, and damaged pages are looked for.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // Sorting for a query must not need room on a disk that may be full.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    if number("application_id")? != APPLICATION_ID {
        return Ok(Opened::Foreign);
    }
    let version = number("user_version")?;
    if !(OLDEST_VERSION..=SCHEMA_VERSION).contains(&version) {
        return Ok(Opened::OtherVersion(version));
    }
    // SQLite reads the missing end of a last page as zeros. A file that is longer is being written to.
    let pages = i64::from(number("page_count")?) * i64::from(number("page_size")?);
    let len = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
    if len < pages.cast_unsigned() {
        return Err(Failure::Damage(format!("{} bytes are missing at its end", pages.cast_unsigned() - len)));
    }
    shape::check(&connection, version)?;
    let deadline = query::allow_reading_only(&mut connection)?;
    Ok(Opened::Recording(connection, deadline))
}

/// No start takes longer than this: a year.
const LONGEST: Nanos = Nanos(365 * 86_400 * 1_000_000_000);

/// What no run can have been; `None`: it may be true.
fn absurd(row: &RunRow) -> Option<String> {
    let times = [("wall_ns", row.wall_ns), ("exit_ns", row.exit_ns)];
    let times = times.into_iter().filter_map(|(column, time)| Some((column, time?)));
    let cpu = [("user_ns", row.user_ns), ("system_ns", row.system_ns)];
    let shares = [
        ("others_cpu_share", row.others_cpu_share),
        ("others_io_pressure", row.others_io_pressure),
        ("own_resident_share", row.own_resident_share),
        ("system_resident_share", row.system_resident_share),
    ];
    let counts = [
        ("minor_faults", Some(row.minor_faults)),
        ("major_faults", Some(row.major_faults)),
        ("read_requests", row.read_requests),
        ("instructions", row.instructions),
        ("cycles", row.cycles),
    ];
    let said = |column: &str, value: String| {
        format!("column '{column}' of table 'runs' says {value} of run {}, which cannot be", row.id.0)
    };
    let long =
        times.chain(cpu).find(|(_, time)| *time > LONGEST).map(|(column, time)| said(column, time.0.to_string()));
    let share = |(column, share): (&str, Option<f64>)| {
        share.filter(|share| !share.is_finite() || *share < 0.0).map(|share| said(column, share.to_string()))
    };
    // A negative number is read as one of 2^63 and more.
    let count = |(column, count): (&str, Option<u64>)| {
        count.map(u64::cast_signed).filter(|count| *count < 0).map(|count| said(column, count.to_string()))
    };
    long.or_else(|| counts.into_iter().find_map(count)).or_else(|| shares.into_iter().find_map(share))
}

/// An error if the file is not a recording; where it cannot be looked at, the caller's own error says more.
fn refuse_foreign(path: &Path) -> Result<()> {
    match kind_of(path) {
        Ok(Kind::Recording) | Err(_) => Ok(()),
        Ok(kind) => Err(failure::foreign(path, &kind)),
    }
}
