//! One start of a recording for other tools.

use super::WhyDocument;
use cpu::export::{About, Format, export};
use model::{CacheState, Error, Exit, Result, RunId};
use recording::Reader;
use std::io::{self, Write};
use std::path::Path;

/// A start that can be written in other formats.
#[derive(Debug)]
pub struct Exported {
    /// The run.
    pub run: RunId,
    /// Its program's name.
    pub name: String,
    /// Its cache state.
    pub state: CacheState,
    started_unix_ns: u64,
    trace: cpu::Trace,
}

/// This run of a recording; `None`: the drawn one of the first program and state. `document` is what [`super::read`]
/// made of the recording.
///
/// # Errors
/// Usage: there is no such run, or it was not taken down where its time went.
pub fn exported(path: &Path, document: &WhyDocument, wanted: Option<RunId>) -> Result<Exported> {
    let reader = Reader::open(path)?;
    let of = |run: RunId| document.starts.iter().find(|start| start.runs.contains(&run));
    let run = wanted.or_else(|| document.starts.first().map(|start| start.run));
    let Some((run, start)) = run.and_then(|run| Some((run, of(run)?))) else {
        let runs = document.starts.iter().flat_map(|start| &start.runs);
        let runs: Vec<String> = runs.map(|run| run.0.to_string()).collect();
        let number = wanted.map_or(String::new(), |run| run.0.to_string());
        return Err(Error::new(Exit::Usage, "it was not taken down where the time went in run", number)
            .hint(format!("--export-run names one of: {}", runs.join(", "))));
    };
    let started = reader.runs()?.into_iter().find(|(row, _)| row.id == run).map(|(row, _)| row.started_unix_ns);
    Ok(Exported {
        run,
        name: start.variant_name.clone(),
        state: start.state,
        started_unix_ns: started.unwrap_or(0),
        trace: reader.cpu(run)?.unwrap_or_default(),
    })
}

impl Exported {
    /// Writes it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        let about = About { name: &self.name, started_unix_ns: self.started_unix_ns };
        export(&self.trace, &about, format, out)
    }
}
