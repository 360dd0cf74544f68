//! What a start used of an archive or of the files of a directory, from a recording or a list. The only place that
//! knows where in a recording that stands.

use layout::archive::{Touched, Uses, Zip, used_by_names, used_by_pages};
use model::{Cause, Error, Exit, FileRow, Nanos, Result, TouchEngine, TraceRows, Warning, WarningKind, shown};
use recording::{Reader, Starts, Told};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// How the order is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// A start without read-ahead: pages that were touched.
    Pages,
    /// A usual start: what was read, and mapped around faults.
    Asked,
    /// What was in memory after a start; its order is that of the file.
    Cached,
    /// A list of names.
    List,
}

impl From<Told> for How {
    fn from(told: Told) -> Self {
        match told {
            Told::ByPages => Self::Pages,
            Told::ByAsking => Self::Asked,
            Told::ByCache => Self::Cached,
        }
    }
}

/// Where the order comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The recording, or the list.
    pub source: String,
    /// How.
    pub how: How,
}

/// An order of use.
pub struct Order {
    /// The entries.
    pub uses: Uses,
    /// Where it comes from.
    pub seen: Seen,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// The order in which a recorded start used an archive.
///
/// # Errors
/// The archive was not read in it, or was another one.
pub fn from_recording(zip: &Zip<'_>, file: &Path, recording: &Path, variant: Option<&str>) -> Result<Order> {
    in_start(zip, file, &Start::read(recording, variant)?)
}

/// A recorded start that tells what it used.
pub struct Start {
    recording: PathBuf,
    rows: TraceRows,
    how: How,
}

impl Start {
    /// The start of a program that tells most.
    ///
    /// # Errors
    /// There is none in the recording.
    pub fn read(recording: &Path, variant: Option<&str>) -> Result<Self> {
        let (rows, how) = start(recording, variant)?;
        Ok(Self { recording: recording.to_owned(), rows, how })
    }
}

/// The order in which a start used an archive.
///
/// # Errors
/// See [`from_recording`].
pub fn in_start(zip: &Zip<'_>, file: &Path, start: &Start) -> Result<Order> {
    let Start { recording, rows, how } = start;
    let how = *how;
    let number = find(rows, file, zip.bytes.len() as u64, recording)?;
    let touched: Vec<Touched> =
        touched(rows, how).filter(|(file, _)| *file == number).map(|(_, touched)| touched).collect();
    let uses = used_by_pages(zip, &touched);
    if uses.order.is_empty() {
        return Err(Error::on(Exit::Usage, "no entry was read as a whole in the recording, of", file).hint(
            "was it in memory already? record a cold start: `thaw touch --engine page`, or `thaw record --state cold`",
        ));
    }
    let mut warnings = Vec::new();
    let redo = format!("thaw touch --engine page -o {} -- PROGRAM", shown(recording));
    match how {
        How::Asked => warnings.push(
            Warning::new(
                WarningKind::Engine,
                "the recorded start read ahead: entries beside used ones count as used where a fault mapped them too",
            )
            .hint(redo),
        ),
        How::Cached => warnings.push(
            Warning::new(
                WarningKind::Engine,
                "the recording tells what was in memory after a start, not in which order it came there: used entries \
                 keep their order",
            )
            .hint(redo),
        ),
        How::Pages | How::List => {}
    }
    Ok(Order { uses, seen: Seen { source: shown(recording), how }, warnings })
}

/// The order in a list of names.
///
/// # Errors
/// It cannot be read, or names no entry of the archive.
pub fn from_log(zip: &Zip<'_>, file: &Path, log: &Path) -> Result<Order> {
    let text = read_log(log)?;
    let lines: Vec<(Option<&str>, &str)> = text.lines().filter_map(split).collect();
    // Firefox names the archive by its path below its own directory.
    let real = file.canonicalize().ok();
    let path = shown(real.as_deref().unwrap_or(file));
    let mut archives: Vec<&str> = lines.iter().filter_map(|(archive, _)| *archive).collect();
    archives.sort_unstable_by_key(|archive| std::cmp::Reverse(archive.len()));
    let own = archives.into_iter().find(|archive| path.ends_with(&format!("/{archive}")));
    let names = lines.iter().filter(|(archive, _)| archive.is_none() || *archive == own).map(|(_, name)| *name);
    let uses = used_by_names(zip, names);
    if uses.order.is_empty() {
        return Err(Error::on(Exit::Usage, "the list names no entry of the archive:", log)
            .hint("a line is the name of an entry, or the end of the archive's path, a blank and the name"));
    }
    let mut warnings = Vec::new();
    if let Some(first) = uses.unknown.first() {
        let missing = text_of_missing(uses.unknown.len(), first);
        warnings.push(Warning::new(WarningKind::Note, missing));
    }
    Ok(Order { uses, seen: Seen { source: shown(log), how: How::List }, warnings })
}

fn text_of_missing(count: usize, first: &str) -> String {
    match count {
        1 => format!("the list names '{first}', which is not in the archive"),
        more => format!("the list names {more} entries that are not in the archive, such as '{first}'"),
    }
}

/// All names of a list, without their archives.
///
/// # Errors
/// It cannot be read.
pub fn names_in_log(log: &Path) -> Result<Vec<String>> {
    Ok(read_log(log)?.lines().filter_map(split).map(|(_, name)| name.to_owned()).collect())
}

fn read_log(log: &Path) -> Result<String> {
    let bytes =
        std::fs::read(log).map_err(|cause| Error::on(Exit::Usage, "cannot read the list", log).because(cause))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `ARCHIVE NAME` or `NAME`.
fn split(line: &str) -> Option<(Option<&str>, &str)> {
    let line = line.trim_end_matches('\r');
    let is_archive = |word: &str| [".ja", ".jar", ".zip", ".xpi", ".apk"].iter().any(|end| word.ends_with(end));
    match line.split_once(' ') {
        _ if line.is_empty() => None,
        Some((archive, name)) if is_archive(archive) => Some((Some(archive), name)),
        _ => Some((None, line)),
    }
}

/// Files below a directory in the order in which a recorded start read them first, as names of entries.
///
/// # Errors
/// None of them was read.
pub fn names_below(directory: &Path, recording: &Path, variant: Option<&str>) -> Result<(Vec<String>, Vec<Warning>)> {
    let (rows, how) = start(recording, variant)?;
    let real =
        directory.canonicalize().map_err(|cause| Error::on(Exit::Usage, "cannot look at", directory).because(cause))?;
    let mut first: HashMap<usize, u64> = HashMap::new();
    for (file, touched) in touched(&rows, how) {
        let order = first.entry(file).or_insert(touched.order);
        *order = (*order).min(touched.order);
    }
    let below = |number: usize| rows.files[number].path.strip_prefix(&real).ok().map(shown);
    let mut used: Vec<(u64, String)> =
        first.into_iter().filter_map(|(file, order)| Some((order, below(file)?))).collect();
    used.sort_unstable();
    if used.is_empty() {
        return Err(Error::on(Exit::Usage, "the recorded start read no file below", directory));
    }
    Ok((used.into_iter().map(|(_, name)| name).collect(), Vec::new()))
}

/// The start of a program that tells most, and how it tells.
fn start(recording: &Path, variant: Option<&str>) -> Result<(TraceRows, How)> {
    let reader = Reader::open(recording)?;
    let variants = reader.variants()?;
    let wanted = match variant {
        None => 0,
        Some(name) => variants.iter().find(|known| known.name == name).map(|known| known.index).ok_or_else(|| {
            let names: Vec<&str> = variants.iter().map(|known| known.name.as_str()).collect();
            Error::new(Exit::Usage, "the recording has no variant", name).hint(format!("it has: {}", names.join(", ")))
        })?,
    };
    let best = Starts::of(&reader)?.best_of_needs(&reader, wanted)?;
    let best = best.map(|start| (start.rows, How::from(start.told)));
    best.ok_or_else(|| {
        Error::on(Exit::Usage, "it holds no traced, cold start:", recording)
            .hint(format!("thaw touch --engine page -o {} -- PROGRAM", shown(recording)))
    })
}

/// What was touched, by number of the file.
fn touched(rows: &TraceRows, how: How) -> impl Iterator<Item = (usize, Touched)> {
    let piece = |file: model::FileId, offset, len, order| (file.0 as usize, Touched { offset, len, order });
    let pages = rows.touches.iter().filter(|touch| matches!(touch.engine, TouchEngine::Page | TouchEngine::Probe));
    let pages = pages.map(move |touch| piece(touch.file, touch.offset, touch.len, touch.order.unwrap_or(0).into()));
    let at = |time: Nanos| time.0;
    let asked = how == How::Asked;
    // Beside what was asked for, read-ahead brings what nobody needs; what a probe found is all there is.
    let counts = move |cause: Cause| match how {
        How::Asked => !matches!(cause, Cause::Write | Cause::ReadAhead),
        How::Cached => cause != Cause::Write,
        How::Pages | How::List => false,
    };
    let fills = rows.fills.iter().filter(move |fill| counts(fill.cause));
    let fills = fills.map(move |fill| piece(fill.file, fill.offset, fill.len, if asked { at(fill.at_ns) } else { 0 }));
    let reads = rows.reads.iter().filter(move |_| asked).map(move |it| piece(it.file, it.offset, it.len, at(it.at_ns)));
    let faults =
        rows.faults.iter().filter(move |_| asked).map(move |it| piece(it.file, it.offset, it.len, at(it.at_ns)));
    pages.chain(fills).chain(reads).chain(faults)
}

/// The archive in the recording: by its path, or a file of the same name and size somewhere else.
fn find(rows: &TraceRows, file: &Path, size: u64, recording: &Path) -> Result<usize> {
    let real: PathBuf = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let position = |wanted: &dyn Fn(&FileRow) -> bool| rows.files.iter().position(wanted);
    let same = position(&|row| row.path == real);
    if let Some(other) = same.map(|number| &rows.files[number]).filter(|row| row.size.0 != size) {
        return Err(Error::on(Exit::Data, "another archive of this name was recorded:", file)
            .because(format!("it had {} bytes, this one has {size}", other.size.0))
            .hint("record a start with this one"));
    }
    let moved = || position(&|row| row.size.0 == size && row.path.file_name() == real.file_name());
    same.or_else(moved).ok_or_else(|| {
        Error::on(Exit::Usage, format!("{} was not read in", shown(file)), recording)
            .hint("give the archive that the recorded program reads, or record that program")
    })
}
