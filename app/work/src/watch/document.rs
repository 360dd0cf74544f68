//! `thaw.touch/1`: what the touch runs of a recording say.

use crate::recorded::Loaded;
use crate::report::Source;
use model::{Error, Exit, Result, RunId, TraceRows};
use recording::Reader;
use serde::Serialize;
use std::path::Path;
use touch::Came;

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
    pub calls: Option<Vec<touch::CallReport>>,
}

/// Reads a recording.
///
/// # Errors
/// No recording; nothing in it was watched; no such file.
pub fn read(path: &Path, file: Option<&Path>) -> Result<TouchDocument> {
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let programs: Vec<ProgramDocument> =
        watched(&reader, &loaded)?.into_iter().map(|watched| program(watched, file)).collect();
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

fn program(watched: Watched, file: Option<&Path>) -> ProgramDocument {
    let input = watched.input();
    let mut report = touch::report(&input);
    let mut calls = None;
    if let Some(file) = file {
        let wanted = model::shown(file);
        let real = file.canonicalize().map(|file| model::shown(&file)).unwrap_or_default();
        report.files.retain(|line| line.path == wanted || line.path == real);
        calls = report.files.first().map(|line| touch::calls(&input, &line.path));
    }
    ProgramDocument { variant: watched.variant, runs: watched.runs, report, calls }
}
