//! `thaw.touch/1`: what the touch runs of a recording say.

use crate::order::as_recorded;
use crate::recorded::Loaded;
use crate::report::Source;
use model::{Error, Exit, Result, RunId, TraceRows};
use recording::{Fact, Reader};
use serde::Serialize;
use std::path::Path;
use touch::{CallReport, Came, Detail};

/// The document.
#[derive(Debug, Serialize)]
pub struct TouchDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where it comes from.
    pub recording: Source,
    /// The programs that were watched.
    pub programs: Vec<ProgramDocument>,
}

/// One program.
#[derive(Debug, Serialize)]
pub struct ProgramDocument {
    /// Its name.
    pub variant: String,
    /// The runs that the figures are of: the traced one with read-ahead, then those that were watched.
    pub runs: Vec<RunId>,
    /// What they say; with `--file`, of this file alone.
    pub report: touch::Report,
    /// With `--file`: its functions in the order of their first call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<CallReport>>,
    /// What laying the called functions of each file together would bring, and whether that can be done without its
    /// linker; in the order of the files.
    pub laid: Vec<LaidDocument>,
}

/// The called functions of one file, laid together.
#[derive(Debug, Serialize)]
pub struct LaidDocument {
    /// Its path.
    pub file: String,
    /// What they are like.
    #[serde(flatten)]
    pub laid: Laid,
}

/// What can be said of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Laid {
    /// All.
    Known(touch::Relaid),
    /// Nothing.
    Unknown {
        /// Why.
        unknown: String,
    },
}

/// Reads a recording.
///
/// # Errors
/// No recording; nothing in it was watched; no such file.
pub fn read(path: &Path, file: Option<&Path>) -> Result<TouchDocument> {
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let programs: Vec<ProgramDocument> = watched(&reader, &loaded)?
        .into_iter()
        .map(|watched| program(watched, file, read_ahead(&loaded.facts)))
        .collect();
    if programs.is_empty() {
        return Err(Error::on(Exit::Usage, "no run says what a start touches in the recording", path)
            .hint(format!("add one: thaw touch -o {} -- PROGRAM", model::shown(path))));
    }
    if let Some(file) = file
        && programs.iter().all(|program| program.report.files.is_empty())
    {
        return Err(Error::on(Exit::Usage, "no watched start has touched", file)
            .hint(format!("thaw touch {} lists the files", model::shown(path))));
    }
    Ok(TouchDocument { schema: "thaw.touch/1", recording: loaded.source, programs })
}

/// What a recording has of one program whose starts were watched.
pub struct Watched {
    /// Its name.
    pub variant: String,
    runs: Vec<RunId>,
    read: Option<TraceRows>,
    touched: Vec<TraceRows>,
}

impl Watched {
    /// As the room `touch` wants it.
    pub fn input(&self) -> touch::Input<'_> {
        touch::Input { read: self.read.as_ref(), touched: &self.touched }
    }
}

/// The watched programs of a recording; none is no error.
///
/// # Errors
/// What [`Reader`] says.
pub fn watched(reader: &Reader, loaded: &Loaded) -> Result<Vec<Watched>> {
    let each = (0..loaded.names.len() as u32).map(|variant| watched_of(reader, loaded, variant));
    Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What was seen of one variant; `None`: it was not watched.
///
/// # Errors
/// What [`Reader`] says.
pub(crate) fn watched_of(reader: &Reader, loaded: &Loaded, variant: u32) -> Result<Option<Watched>> {
    let starts = &loaded.starts;
    let watched: Vec<RunId> = starts.watched(variant).map(|row| row.id).collect();
    if watched.is_empty() {
        return Ok(None);
    }
    let touched = watched.iter().map(|run| reader.trace_head(*run)).collect::<Result<Vec<TraceRows>>>()?;
    let usual = starts.coldest(variant).map(|row| row.id);
    // Of what was read with the usual read-ahead, the fills tell.
    let of_usual = |run| {
        let head = reader.trace_head(run)?;
        let mut came = Came::of(head.files.len());
        reader.fills(run, &head, &mut |fill| came.add(fill))?;
        Ok(TraceRows { fills: came.fills(), ..head })
    };
    let read = usual.map(of_usual).transpose()?;
    let runs = usual.into_iter().chain(watched).collect();
    Ok(Some(Watched { variant: loaded.names[variant as usize].clone(), runs, read, touched }))
}

fn program(watched: Watched, file: Option<&Path>, read_ahead: Option<u64>) -> ProgramDocument {
    let input = watched.input();
    let (mut report, details) = touch::report_with_details(&input);
    let wanted = file.map(|file| [Some(model::shown(file)), file.canonicalize().ok().map(|file| model::shown(&file))]);
    let is_wanted = |path: &str| wanted.as_ref().is_none_or(|paths| paths.iter().flatten().any(|it| it == path));
    let called = |detail: &&Detail<'_>| !detail.calls.is_empty() && is_wanted(&report.files[detail.line].path);
    let laid = details
        .iter()
        .filter(called)
        .map(|detail| laid(&watched, &report.files[detail.line].path, &detail.calls, read_ahead))
        .collect();
    report.files.retain(|line| is_wanted(&line.path));
    let calls = file.and_then(|_| report.files.first()).map(|line| touch::calls(&input, &line.path));
    ProgramDocument { variant: watched.variant, runs: watched.runs, report, calls, laid }
}

/// What can be said of the called functions of a file.
fn laid(watched: &Watched, path: &str, calls: &[CallReport], read_ahead: Option<u64>) -> LaidDocument {
    let mut rows = watched.touched.iter().flat_map(|rows| &rows.files);
    let bytes = rows.find(|row| model::shown(&row.path) == path).and_then(as_recorded);
    let calls: Vec<(u64, u64)> = calls.iter().map(|call| (call.offset, call.len.0)).collect();
    let unknown = |why: &str| Laid::Unknown { unknown: why.to_owned() };
    let laid = match bytes.map(|bytes| touch::relaid(&bytes, &calls, read_ahead)) {
        Some(Ok(relaid)) => Laid::Known(relaid),
        Some(Err(miss)) => unknown(&miss.to_string()),
        None => unknown("the file that was recorded is not here"),
    };
    LaidDocument { file: path.to_owned(), laid }
}

/// How much the disks of the recording read ahead, in bytes, if it is known and the same for all.
fn read_ahead(facts: &[Fact]) -> Option<u64> {
    let told = facts.iter().filter(|fact| fact.subject.starts_with("disk:") && fact.key == "read_ahead_kb");
    let mut sizes = told.map(|fact| fact.value.parse::<u64>().ok());
    let first = sizes.next()??;
    sizes.all(|other| other == Some(first)).then(|| first.saturating_mul(1024))
}
