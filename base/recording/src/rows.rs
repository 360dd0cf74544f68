//! Which field of a row is which column of its table. Writing and reading share these lists, so they cannot drift
//! apart.

use crate::cell::{Cell, Damage};
use crate::failure::Failure;
use crate::words::{ServedWord, Word};
use crate::{Binary, Fact, OLDEST_VERSION};
use model::cpu::{Frame, FrameId, Sample, StackId, Switch, Thread, Wake, Waker};
use model::loader::{Cost, InitialiserRow, LoaderObject, LoaderPhase};
use model::{
    BlockRow, Bytes, DirectRow, DiskOffset, EventProcessRow, EventRow, EventSourceRow, EventThreadRow, EventTypeRow,
    ExtentRow, FaultRow, FileId, FileOffset, FileRow, FileSystemRow, FillRow, HeldRow, Lost, Milestone, MmapRow, Nanos,
    OpenRow, OwnerRow, ProcessRow, ReadRow, RelocationRow, ResidencyRow, RunRow, SectionRow, Served, SyncRow, TouchRow,
    WakeRow, Warning, WatchedRow,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row, Statement};
use std::ffi::OsString;

/// A row type with its table.
pub(crate) trait Stored: Sized {
    /// The table.
    const TABLE: &'static str;
    /// The schema version that this table came with: recordings of earlier ones have no such rows.
    const SINCE: i32 = OLDEST_VERSION;
    /// Its columns, without those that the caller leads with (`run`, `file`).
    const COLUMNS: &'static [&'static str];
    /// Binds the columns to parameters, from number `first` on.
    fn bind(&self, statement: &mut Statement<'_>, first: usize) -> rusqlite::Result<()>;
    /// Reads the columns.
    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Failure>;
}

/// The values of one row, taken from left to right.
pub(crate) struct Cells<'row, 'statement> {
    row: &'row Row<'statement>,
    table: &'static str,
    /// Which row of the question it is, from 1.
    number: u64,
    next: usize,
}

impl Cells<'_, '_> {
    /// The next value, which is that of `column`.
    pub fn take<T: Cell>(&mut self, column: &'static str) -> Result<T, Failure> {
        let value: ValueRef<'_> = self.row.get_ref(self.next)?;
        self.next += 1;
        T::read(value).map_err(|damage| self.damage(column, &damage))
    }

    fn damage(&self, column: &'static str, damage: &Damage) -> Failure {
        Failure::Damage(format!("column '{column}' of table '{}' {} (row {})", self.table, damage.0, self.number))
    }
}

/// `insert into fills (run, at_ns, ...) values (?, ?, ...)`
fn insert_sql<T: Stored>(lead: &[&str]) -> String {
    let columns: Vec<&str> = lead.iter().chain(T::COLUMNS).copied().collect();
    let marks = vec!["?"; columns.len()].join(", ");
    format!("INSERT INTO {} ({}) VALUES ({marks})", T::TABLE, columns.join(", "))
}

/// Adds rows in their order, each led by values for the `lead` columns.
pub(crate) fn insert<'a, T: Stored + 'a, const N: usize>(
    connection: &Connection,
    lead: [&str; N],
    rows: impl IntoIterator<Item = ([i64; N], &'a T)>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&insert_sql::<T>(&lead))?;
    for (values, row) in rows {
        for (index, value) in values.into_iter().enumerate() {
            statement.raw_bind_parameter(index + 1, value)?;
        }
        row.bind(&mut statement, N + 1)?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Reads rows with the values of their `lead` columns; `rest` is what stands behind the FROM clause.
pub(crate) fn select_led<T: Stored, const N: usize>(
    connection: &Connection,
    lead: [&'static str; N],
    rest: &str,
    parameters: impl Params,
) -> Result<Vec<([i64; N], T)>, Failure> {
    let mut found = Vec::new();
    if is_there::<T>(connection)? {
        let mut statement = connection.prepare_cached(&select_sql::<T>(&lead, rest))?;
        let mut rows = Pulled { rows: statement.query(parameters)?, number: 0 };
        while let Some(row) = rows.next_led(lead)? {
            found.push(row);
        }
    }
    Ok(found)
}

/// Whether recordings of this version have the table.
pub(crate) fn is_there<T: Stored>(connection: &Connection) -> Result<bool, Failure> {
    Ok(T::SINCE <= OLDEST_VERSION || version_of(connection)? >= T::SINCE)
}

/// `select run, at_ns, ... from fills ...`
pub(crate) fn select_sql<T: Stored>(lead: &[&str], rest: &str) -> String {
    let columns: Vec<&str> = lead.iter().chain(T::COLUMNS).copied().collect();
    format!("SELECT {} FROM {} {rest}", columns.join(", "), T::TABLE)
}

/// Rows that are read one by one.
pub(crate) struct Pulled<'statement> {
    pub rows: rusqlite::Rows<'statement>,
    /// Rows so far.
    pub number: u64,
}

impl Pulled<'_> {
    /// The next row; `None`: there are no more.
    pub fn next<T: Stored>(&mut self) -> Result<Option<T>, Failure> {
        Ok(self.next_led([])?.map(|([], row)| row))
    }

    fn next_led<T: Stored, const N: usize>(
        &mut self,
        lead: [&'static str; N],
    ) -> Result<Option<([i64; N], T)>, Failure> {
        let Some(row) = self.rows.next()? else { return Ok(None) };
        self.number += 1;
        let mut cells = Cells { row, table: T::TABLE, number: self.number, next: 0 };
        let mut values = [0; N];
        for (value, column) in values.iter_mut().zip(lead) {
            *value = cells.take(column)?;
        }
        Ok(Some((values, T::read(&mut cells)?)))
    }
}

/// The schema version of a recording.
pub(crate) fn version_of(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Reads rows; `rest` is what stands behind the FROM clause.
pub(crate) fn select<T: Stored>(
    connection: &Connection,
    rest: &str,
    parameters: impl Params,
) -> Result<Vec<T>, Failure> {
    Ok(select_led(connection, [], rest, parameters)?.into_iter().map(|([], row)| row).collect())
}

macro_rules! stored {
    ($name:ident in $table:literal $(since $since:literal)? { $($field:ident => $column:literal),+ $(,)? }) => {
        impl Stored for $name {
            const TABLE: &'static str = $table;
            $(const SINCE: i32 = $since;)?
            const COLUMNS: &'static [&'static str] = &[$($column),+];
            fn bind(&self, statement: &mut Statement<'_>, first: usize) -> rusqlite::Result<()> {
                let mut index = first;
                $(
                    statement.raw_bind_parameter(index, Cell::bind(&self.$field))?;
                    index += 1;
                )+
                let _ = index;
                Ok(())
            }
            fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Failure> {
                Ok(Self { $($field: cells.take($column)?),+ })
            }
        }
    };
}

/// The single row of `header`.
pub(crate) struct HeaderRow {
    pub thaw_version: String,
    pub created_unix_ns: u64,
    pub cwd: std::path::PathBuf,
    pub plan: String,
    pub seed: u64,
}
stored!(HeaderRow in "header" {
    thaw_version => "thaw_version", created_unix_ns => "created_unix_ns", cwd => "cwd", plan => "plan", seed => "seed",
});

/// One word of thaw's own command line.
pub(crate) struct CommandLineRow {
    pub position: u32,
    pub argument: OsString,
}
stored!(CommandLineRow in "command_line" { position => "position", argument => "argument" });

/// One variable.
pub(crate) struct EnvironmentRow {
    pub name: OsString,
    pub value: OsString,
}
stored!(EnvironmentRow in "environment" { name => "name", value => "value" });

/// The end of the recording.
pub(crate) struct EndingRow {
    pub finished_unix_ns: u64,
}
stored!(EndingRow in "endings" { finished_unix_ns => "finished_unix_ns" });

/// A variant without its arguments.
pub(crate) struct VariantRow {
    pub variant: u32,
    pub name: String,
}
stored!(VariantRow in "variants" { variant => "variant", name => "name" });

/// One word of a variant's command line.
pub(crate) struct ArgumentRow {
    pub variant: u32,
    pub position: u32,
    pub argument: OsString,
}
stored!(ArgumentRow in "arguments" { variant => "variant", position => "position", argument => "argument" });

/// How a trace was taken, without its sentences.
pub(crate) struct TraceHead {
    pub engine: String,
    pub records: u64,
    pub lost: u64,
    pub moved: Bytes,
}
stored!(TraceHead in "traces" {
    engine => "engine", records => "records", lost => "lost", moved => "moved_bytes",
});

/// What the engine of a trace cannot know.
pub(crate) struct LimitRow {
    pub cannot: String,
}
stored!(LimitRow in "trace_limits" { cannot => "cannot" });

stored!(Fact in "facts" { subject => "subject", key => "key", value => "value" });
stored!(Binary in "binaries" {
    path => "path", size => "size_bytes", mtime_unix_ns => "mtime_unix_ns", build_id => "build_id",
});
stored!(Warning in "warnings" { kind => "kind", text => "text", hint => "hint", run => "run" });
stored!(RunRow in "runs" {
    id => "run",
    variant => "variant",
    state => "state",
    kind => "kind",
    block => "block",
    attempt => "attempt",
    accepted => "accepted",
    rejected_because => "rejected_because",
    started_unix_ns => "started_unix_ns",
    wall_ns => "wall_ns",
    exit_ns => "exit_ns",
    user_ns => "user_ns",
    system_ns => "system_ns",
    max_rss => "max_rss_bytes",
    minor_faults => "minor_faults",
    major_faults => "major_faults",
    read_bytes => "read_bytes",
    read_requests => "read_requests",
    written_bytes => "written_bytes",
    instructions => "instructions",
    cycles => "cycles",
    exit_code => "exit_code",
    exit_signal => "exit_signal",
    others_cpu_share => "others_cpu_share",
    others_io_pressure => "others_io_pressure",
    own_resident_share => "own_resident_share",
    system_resident_share => "system_resident_share",
});
stored!(Milestone in "milestones" { name => "name", at_ns => "at_ns" });
stored!(ResidencyRow in "residency" { path => "path", needed => "needed_bytes", resident => "resident_bytes" });
stored!(FileRow in "files" {
    path => "path",
    kind => "kind",
    owner => "owner",
    dev => "dev",
    ino => "ino",
    size => "size_bytes",
    extents => "extents",
    build_id => "build_id",
});
stored!(SectionRow in "sections" {
    file => "file", name => "name", offset => "offset_bytes", len => "length_bytes",
});
stored!(ExtentRow in "extents" {
    file => "file", offset => "offset_bytes", disk => "disk_offset_bytes", len => "length_bytes",
});
stored!(FillRow in "fills" {
    at_ns => "at_ns",
    pid => "pid",
    tid => "tid",
    file => "file",
    offset => "offset_bytes",
    len => "length_bytes",
    cause => "cause",
});
stored!(ReadRow in "reads" {
    at_ns => "at_ns", pid => "pid", tid => "tid", file => "file", offset => "offset_bytes", len => "length_bytes",
});
stored!(FaultRow in "faults" {
    at_ns => "at_ns",
    pid => "pid",
    tid => "tid",
    file => "file",
    offset => "offset_bytes",
    len => "length_bytes",
    missed => "missed",
});
stored!(ProcessRow in "processes" {
    pid => "pid", parent => "parent", comm => "comm", exe => "exe", start_ns => "start_ns", end_ns => "end_ns",
});
stored!(MmapRow in "mmaps" {
    at_ns => "at_ns", pid => "pid", file => "file", offset => "offset_bytes", len => "length_bytes", exec => "exec",
});
stored!(OpenRow in "opens" { path => "path", count => "count" });
stored!(TouchRow in "touch" {
    file => "file",
    offset => "offset_bytes",
    len => "length_bytes",
    order => "position",
    at_ns => "at_ns",
    tid => "tid",
    engine => "engine",
    name => "name",
});
stored!(WatchedRow in "watched" {
    file => "file", functions => "functions", len => "length_bytes", starts => "starts",
});
stored!(OwnerRow in "owners" since 3 {
    file => "file", rule => "rule", what => "what", because => "because",
});
stored!(HeldRow in "held" since 3 { file => "file", processes => "processes", example => "example" });
stored!(DirectRow in "direct" since 3 {
    at_ns => "at_ns",
    pid => "pid",
    tid => "tid",
    file => "file",
    offset => "offset_bytes",
    len => "length_bytes",
    write => "write",
});
stored!(FileSystemRow in "file_systems" since 3 {
    dev => "dev", kind => "type", point => "point", source => "source", on_disk => "on_disk",
});
stored!(WakeRow in "wakes" since 4 { at_ns => "at_ns", pid => "pid", tid => "tid", by_tid => "by_tid" });
stored!(EventSourceRow in "event_sources" since 4 {
    path => "path",
    form => "form",
    process => "process",
    step_ns => "step_ns",
    is_ordered => "is_ordered",
    command_line => "command_line",
});
stored!(Lost in "event_losses" since 4 {
    events => "lost", overwritten => "overwritten", types => "types", texts_cut => "texts_cut",
});
stored!(EventProcessRow in "event_processes" since 4 { pid => "pid", program => "program", filter => "filter" });
stored!(EventThreadRow in "event_threads" since 4 {
    process => "process", tid => "tid", name => "name", writer => "writer",
});
stored!(EventTypeRow in "event_types" since 4 {
    type_id => "type", name => "name", file => "file", line => "line", concluded => "concluded",
});
stored!(EventRow in "events" since 4 {
    at_ns => "at_ns",
    thread => "thread",
    phase => "phase",
    is_shared => "is_shared",
    object => "object",
    type_id => "type",
    other => "other",
    text => "text",
});
stored!(SyncRow in "syncs" { at_ns => "at_ns", pid => "pid", file => "file", took_ns => "took_ns" });

/// A block request as it is stored: what it served is spread over three columns.
pub(crate) struct FlatBlock {
    start_ns: Nanos,
    done_ns: Option<Nanos>,
    pid: Option<u32>,
    dev: u64,
    disk: DiskOffset,
    len: Bytes,
    write: bool,
    served: ServedWord,
    file: Option<FileId>,
    offset: Option<FileOffset>,
    flags: String,
}
stored!(FlatBlock in "blocks" {
    start_ns => "start_ns",
    done_ns => "done_ns",
    pid => "pid",
    dev => "dev",
    disk => "disk_offset_bytes",
    len => "length_bytes",
    write => "write",
    served => "served",
    file => "file",
    offset => "offset_bytes",
    flags => "flags",
});

impl FlatBlock {
    /// A request, spread.
    pub fn spread(block: &BlockRow) -> Self {
        let (served, file, offset) = match &block.served {
            Served::File(file, offset) => (ServedWord::File, Some(*file), Some(*offset)),
            Served::Metadata => (ServedWord::Metadata, None, None),
            Served::Unknown => (ServedWord::Unknown, None, None),
        };
        Self {
            start_ns: block.start_ns,
            done_ns: block.done_ns,
            pid: block.pid,
            dev: block.dev,
            disk: block.disk,
            len: block.len,
            write: block.write,
            served,
            file,
            offset,
            flags: block.flags.clone(),
        }
    }

    /// The request again.
    pub fn gather(self) -> Result<BlockRow, Failure> {
        let served = match (self.served, self.file, self.offset) {
            (ServedWord::File, Some(file), Some(offset)) => Served::File(file, offset),
            (ServedWord::Metadata, None, None) => Served::Metadata,
            (ServedWord::Unknown, None, None) => Served::Unknown,
            (word, ..) => {
                let what = format!(
                    "a row of table 'blocks' says '{}' served, which its file and offset do not fit",
                    word.word()
                );
                return Err(Failure::Damage(what));
            }
        };
        Ok(BlockRow {
            start_ns: self.start_ns,
            done_ns: self.done_ns,
            pid: self.pid,
            dev: self.dev,
            disk: self.disk,
            len: self.len,
            write: self.write,
            served,
            flags: self.flags,
        })
    }
}

stored!(RelocationRow in "relocations" since 5 { file => "file", entries => "entries" });

/// What is said once of a run's time.
pub(crate) struct CpuHead {
    pub root: u32,
    pub ready: Nanos,
    pub ready_by: Option<u32>,
    pub cpus: u32,
    pub tick: Nanos,
    pub lost: u64,
    pub lost_switches: u64,
    pub own: Nanos,
}
stored!(CpuHead in "cpu_traces" since 5 {
    root => "root",
    ready => "ready_ns",
    ready_by => "ready_by",
    cpus => "cpus",
    tick => "tick_ns",
    lost => "lost",
    lost_switches => "lost_switches",
    own => "own_ns",
});

/// What cannot be known of it.
pub(crate) struct CpuLimit {
    pub cannot: String,
}
stored!(CpuLimit in "cpu_limits" since 5 { cannot => "cannot" });
stored!(Thread in "threads" since 5 {
    tid => "tid",
    pid => "pid",
    name => "name",
    of_tree => "of_tree",
    made_by => "made_by",
    start => "start_ns",
    end => "end_ns",
});
stored!(Switch in "switches" since 5 {
    at => "at_ns", cpu => "cpu", from => "from_tid", went => "went", to => "to_tid", stack => "stack",
});

/// A wake-up; no thread: an interrupt did it.
pub(crate) struct WakeupRow {
    pub at: Nanos,
    pub by: Option<u32>,
    pub woken: u32,
    pub new: bool,
    pub stack: Option<StackId>,
}
stored!(WakeupRow in "wakeups" since 5 {
    at => "at_ns", by => "by_tid", woken => "woken_tid", new => "is_new", stack => "stack",
});

impl WakeupRow {
    pub(crate) fn of(wake: &Wake) -> Self {
        let by = match wake.by {
            Waker::Thread(tid) => Some(tid),
            Waker::Interrupt => None,
        };
        Self { at: wake.at, by, woken: wake.woken, new: wake.new, stack: wake.stack }
    }

    pub(crate) fn wake(self) -> Wake {
        let by = self.by.map_or(Waker::Interrupt, Waker::Thread);
        Wake { at: self.at, by, woken: self.woken, new: self.new, stack: self.stack }
    }
}
stored!(Sample in "samples" since 5 { at => "at_ns", tid => "tid", in_kernel => "in_kernel", stack => "stack" });
stored!(Frame in "frames" since 5 {
    function => "function", object => "object", source => "source", inlined => "inlined", address => "address",
});

/// A stack: its caller's, and its innermost frame.
pub(crate) struct StackRow {
    pub caller: Option<StackId>,
    pub frame: FrameId,
}
stored!(StackRow in "stacks" since 5 { caller => "caller", frame => "frame" });

stored!(Cost in "loader_runs" since 5 {
    stops => "stops",
    stopped => "stopped_ns",
    subtracted => "subtracted_ns",
    waited => "waited_ns",
    first => "first",
    breakpoint => "breakpoint_ns",
    call => "call_ns",
});

/// What is said once of a program whose loader was watched.
pub(crate) struct LoaderHead {
    pub program: std::path::PathBuf,
    pub because: Option<String>,
    pub exec: Option<Nanos>,
    pub before_main: Option<Nanos>,
}
stored!(LoaderHead in "loader_starts" since 5 {
    program => "program", because => "because", exec => "exec_ns", before_main => "before_main_ns",
});

/// What cannot be known of it.
pub(crate) struct LoaderLimit {
    pub cannot: String,
}
stored!(LoaderLimit in "loader_limits" since 5 { cannot => "cannot" });
stored!(LoaderPhase in "loader_phases" since 5 { phase => "phase", from => "from_ns", took => "took_ns" });
stored!(LoaderObject in "loader_objects" since 5 {
    path => "path",
    is_object => "is_object",
    mapped => "mapped_ns",
    relocated => "relocated_ns",
    protected => "protected_ns",
    relative => "relative",
    symbolic => "symbolic",
    calls => "calls",
    irelative => "irelative",
    thread_local => "thread_local",
    copies => "copies",
    bound_at_once => "bound_at_once",
});
stored!(InitialiserRow in "initialisers" since 5 {
    object => "object",
    address => "address",
    table => "in_table",
    place => "place",
    function => "function",
    source => "source",
    tid => "tid",
    began => "began_ns",
    took => "took_ns",
    cpu => "cpu_ns",
    within => "within",
    returned => "returned",
});
