//! Order files for linkers, and lists of functions, from the first calls in recordings.

use model::{Error, Exit, FileRow, Result, TouchEngine, TraceRows};
use os::mapped::Mapped;
use recording::{Reader, Starts};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use touch::function::{Names, Units, function_starts};
use touch::order::{self, Entry, Placed};

/// `thaw.order/1`
#[derive(Debug, Serialize)]
pub struct OrderDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The file whose functions these are.
    pub file: String,
    /// The workloads: recordings; a recording of several programs is several.
    pub workloads: Vec<String>,
    /// What was called, in the order for the linker.
    pub order: Vec<FunctionDocument>,
    /// What nobody called; `None`: the file is not here, so that nobody knows what else it has.
    pub never: Option<Vec<FunctionDocument>>,
    /// With `--list objects`: in the order of the first call into each, those that nobody calls last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<Vec<ObjectDocument>>,
    /// Called functions whose name others have too: not each linker can tell them apart.
    pub shared: u64,
    /// Called functions without a name: no linker can be told of them.
    pub unnamed: u64,
    /// Pages that the called functions lie on now.
    pub pages: u64,
    /// Pages that they would take side by side.
    pub packed_pages: u64,
}

/// One function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionDocument {
    /// Its name in the symbol table.
    pub name: Option<String>,
    /// The source of its object file, if other functions have its name too and its symbol table tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length in bytes; 0: not known.
    pub bytes: u64,
    /// How many of the workloads call it.
    pub workloads: u32,
}

/// What was linked from one object file.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectDocument {
    /// The source that it was compiled from; `None`: functions without debug data.
    pub source: Option<String>,
    /// Functions.
    pub functions: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of them, called by some workload.
    pub called: u64,
    /// Their bytes.
    pub called_bytes: u64,
}

/// The order file must not take the place of what it is made from.
///
/// # Errors
/// It would.
pub fn check_is_no_source(target: &Path, wanted: &Wanted<'_>, document: &OrderDocument) -> Result<()> {
    let Ok(target) = target.canonicalize() else { return Ok(()) };
    let sources = wanted.recordings.iter().map(PathBuf::as_path).chain(wanted.symbols);
    match sources.chain([Path::new(&document.file)]).any(|source| source.canonicalize().is_ok_and(|it| it == target)) {
        false => Ok(()),
        true => Err(Error::on(Exit::Usage, "the order file would replace what it is made from:", &target)
            .hint("choose another name with -o")),
    }
}

/// The functions in their order, each once.
///
/// # Errors
/// None of them has a name.
pub fn entries(document: &OrderDocument) -> Result<Vec<Entry>> {
    let mut seen = HashSet::new();
    let entry =
        |function: &FunctionDocument| Some(Entry { name: function.name.clone()?, source: function.source.clone() });
    let entries: Vec<Entry> =
        document.order.iter().filter_map(entry).filter(|entry| seen.insert(entry.clone())).collect();
    if entries.is_empty() {
        return Err(Error::new(Exit::Data, "no called function has a name in", &document.file)
            .hint("it is stripped: give the file with its symbols, --symbols FILE"));
    }
    Ok(entries)
}

/// One recording's calls of the file.
struct Workload {
    recording: String,
    /// The file, as it was when it ran.
    file: FileRow,
    /// Offset, length and name by the order of first call.
    calls: Vec<(u64, u64, Option<String>)>,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Recordings with calls; each is a workload.
    pub recordings: &'a [PathBuf],
    /// The file to order; `None`: the program that was started.
    pub file: Option<&'a Path>,
    /// Where its symbols are, if it is stripped.
    pub symbols: Option<&'a Path>,
    /// Whether to tell of object files.
    pub objects: Objects,
}

/// Whether object files are told of: the debug data of a browser take a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// They are.
    Listed,
    /// They are not.
    LeftOut,
}

/// The order, and what is not called.
///
/// # Errors
/// Recordings without calls, or of different builds; symbols of another build; with objects: no debug data.
pub fn document(asked: &Wanted<'_>) -> Result<OrderDocument> {
    let mut workloads = Vec::new();
    let mut wanted = asked.file.map(Path::to_path_buf);
    for recording in asked.recordings {
        for rows in function_runs(recording)? {
            let workload = workload(recording, &rows, wanted.as_deref())?;
            wanted.get_or_insert_with(|| workload.file.path.clone());
            workloads.push(workload);
        }
    }
    let first = workloads.first().ok_or_else(|| Error::bug("no workload"))?;
    for other in &workloads {
        if (&other.file.build_id, other.file.size) != (&first.file.build_id, first.file.size) {
            return Err(Error::on(Exit::Data, "the recordings are of different builds of", &first.file.path)
                .hint("record all workloads again with one build"));
        }
    }
    let program = Program::open(&first.file, asked.symbols)?;
    let known = program.names();
    let mut lengths: HashMap<u64, (u64, Option<String>)> = HashMap::new();
    for (offset, len, name) in workloads.iter().flat_map(|workload| &workload.calls) {
        let name = || known.get(*offset).or_else(|| name.clone());
        lengths.entry(*offset).or_insert_with(|| (*len, name()));
    }
    let calls: Vec<order::Calls> =
        workloads.iter().map(|workload| workload.calls.iter().map(|(offset, ..)| *offset).collect()).collect();
    let line = |placed: Placed| {
        let (bytes, name) = lengths.get(&placed.offset).cloned().unwrap_or_default();
        let source = if known.is_shared(placed.offset) { known.source(placed.offset) } else { None };
        FunctionDocument { name, source, offset: placed.offset, bytes, workloads: placed.workloads }
    };
    let order: Vec<FunctionDocument> = order::balanced(&calls).into_iter().map(line).collect();
    let pages: HashSet<u64> = order.iter().flat_map(|function| pages_of(function.offset, function.bytes)).collect();
    let never = program.never(&order, &known);
    // Who wants an order file need not have debug data.
    let objects = (asked.objects == Objects::Listed).then(|| program.objects(&order, never.as_deref())).transpose()?;
    let bytes: u64 = order.iter().fold(0, |sum: u64, function| sum.saturating_add(function.bytes));
    Ok(OrderDocument {
        schema: "thaw.order/1",
        file: model::shown(&first.file.path),
        workloads: workloads.iter().map(|workload| workload.recording.clone()).collect(),
        never,
        objects,
        shared: order.iter().filter(|function| function.source.is_some()).count() as u64,
        unnamed: order.iter().filter(|function| function.name.is_none()).count() as u64,
        pages: pages.len() as u64,
        packed_pages: bytes.div_ceil(model::PAGE),
        order,
    })
}

/// Longer functions are those of a damaged recording.
const LONGEST_FUNCTION: u64 = 1 << 26;

fn pages_of(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    let end = offset.saturating_add(bytes.clamp(1, LONGEST_FUNCTION));
    offset / model::PAGE..end.div_ceil(model::PAGE)
}

/// The last run of each program of a recording that saw functions.
fn function_runs(recording: &Path) -> Result<Vec<TraceRows>> {
    let reader = Reader::open(recording)?;
    let starts = Starts::of(&reader)?;
    let mut programs = Vec::new();
    for variant in reader.variants()? {
        let saw_functions = |rows: &TraceRows| touch::engine_of(rows) == Some(TouchEngine::Function);
        programs.extend(starts.last_watched(&reader, variant.index, saw_functions)?);
    }
    if programs.is_empty() {
        return Err(Error::on(Exit::Usage, "no run tells which functions are called in the recording", recording)
            .hint(format!("add one: thaw touch --engine function -o {} -- PROGRAM", model::shown(recording))));
    }
    Ok(programs)
}

fn workload(recording: &Path, rows: &TraceRows, wanted: Option<&Path>) -> Result<Workload> {
    let real = wanted.and_then(|path| path.canonicalize().ok());
    let is_wanted = |file: &FileRow| match wanted {
        Some(path) => file.path == path || Some(&file.path) == real.as_ref(),
        None => rows.processes.first().is_some_and(|process| process.exe.as_ref() == Some(&file.path)),
    };
    let Some(number) = rows.files.iter().position(is_wanted) else {
        let what = match wanted {
            Some(path) => format!("{} was not run in", model::shown(path)),
            None => "the program itself was not watched in".to_owned(),
        };
        return Err(Error::on(Exit::Usage, what, recording)
            .hint(format!("thaw touch {} lists the files; choose one with --file PATH", model::shown(recording))));
    };
    let of_file = rows.touches.iter().filter(|touch| touch.file.0 as usize == number);
    let calls = of_file.map(|touch| (touch.offset.0, touch.len.0, touch.name.clone())).collect();
    Ok(Workload { recording: model::shown(recording), file: rows.files[number].clone(), calls })
}

/// The file and its symbols, as far as they are here and of the build that ran.
struct Program {
    path: PathBuf,
    bytes: Option<Mapped>,
    symbols: Option<(PathBuf, Mapped)>,
}

impl Program {
    fn open(row: &FileRow, symbols: Option<&Path>) -> Result<Self> {
        let bytes = as_recorded(row);
        let program = Self { path: row.path.clone(), bytes, symbols: None };
        let Some(path) = symbols else { return Ok(program) };
        let cannot = || Error::on(Exit::Usage, "cannot read the symbols in", path);
        let file = File::open(path).map_err(|cause| cannot().because(cause))?;
        let file = Mapped::of(&file).ok_or_else(|| cannot().because("it is no regular file, or empty"))?;
        let other = elf::build_id(&file).filter(|id| row.build_id.as_ref().is_some_and(|ours| ours != id));
        if let Some(other) = other {
            return Err(Error::on(Exit::Data, "these are symbols of another build:", path).because(format!(
                "build-id {other}, and the recording has {}",
                row.build_id.clone().unwrap_or_default()
            )));
        }
        if Names::of(&file).count() == 0 {
            return Err(Error::on(Exit::Data, "there are no symbols of functions in", path));
        }
        Ok(Self { symbols: Some((path.to_owned(), file)), ..program })
    }

    /// The file that says most of the functions, its path, and the one that says where they lie.
    fn described(&self) -> Option<(&Path, &[u8], &[u8])> {
        let bytes = self.bytes.as_deref().map(|bytes| (&*self.path, bytes));
        let symbols = self.symbols.as_ref().map(|(path, symbols)| (&**path, &**symbols));
        let (path, best) = symbols.or(bytes)?;
        Some((path, best, bytes.map_or(best, |(_, bytes)| bytes)))
    }

    fn names(&self) -> Names<'_> {
        self.described().map_or_else(Names::default, |(_, best, bytes)| Names::of_symbols(best, bytes))
    }

    /// All functions without those that were called.
    fn never(&self, order: &[FunctionDocument], names: &Names<'_>) -> Option<Vec<FunctionDocument>> {
        let (_, _, bytes) = self.described()?;
        let starts = function_starts(bytes).ok()?;
        let called: HashSet<u64> = order.iter().map(|function| function.offset).collect();
        let never = starts.functions.into_iter().filter(|function| !called.contains(&function.offset));
        let line = |function: touch::function::Function| FunctionDocument {
            name: names.get(function.offset),
            source: None,
            offset: function.offset,
            bytes: function.len,
            workloads: 0,
        };
        Some(never.map(line).collect())
    }

    /// What each object file has of them.
    fn objects(&self, order: &[FunctionDocument], never: Option<&[FunctionDocument]>) -> Result<Vec<ObjectDocument>> {
        let unknown = |why: String| {
            Error::on(Exit::Data, "nobody knows which object files there are in", &self.path)
                .because(why)
                .hint("compile it with -g, or give its unstripped copy with --symbols")
        };
        let (Some((path, best, bytes)), Some(never)) = (self.described(), never) else {
            return Err(unknown(NOT_HERE.into()));
        };
        let units = Units::of(best, path, bytes).map_err(unknown)?;
        let units = units.ok_or_else(|| unknown("it has no debug data".into()))?;
        let mut places: HashMap<Option<&Path>, usize> = HashMap::new();
        let mut objects: Vec<ObjectDocument> = Vec::new();
        for function in order.iter().chain(never) {
            let source = units.get(function.offset);
            let place = *places.entry(source).or_insert_with(|| {
                let source = source.map(model::shown);
                objects.push(ObjectDocument { source, functions: 0, bytes: 0, called: 0, called_bytes: 0 });
                objects.len() - 1
            });
            let object = &mut objects[place];
            object.functions += 1;
            object.bytes = object.bytes.saturating_add(function.bytes);
            if function.workloads > 0 {
                object.called += 1;
                object.called_bytes = object.called_bytes.saturating_add(function.bytes);
            }
        }
        Ok(objects)
    }
}

/// A file of a recording, if it is here and of the build that ran.
pub(crate) fn as_recorded(row: &FileRow) -> Option<Mapped> {
    let bytes = File::open(&row.path).ok().and_then(|file| Mapped::of(&file))?;
    (bytes.len() as u64 == row.size.0 && elf::build_id(&bytes) == row.build_id).then_some(bytes)
}

/// Why what nobody called is not known.
const NOT_HERE: &str = "the file that was recorded is not here";

/// The functions that nobody calls.
///
/// # Errors
/// The file itself is not here.
pub fn never(document: &OrderDocument) -> Result<&[FunctionDocument]> {
    document.never.as_deref().ok_or_else(|| {
        Error::new(Exit::Data, "nobody knows which other functions there are in", &document.file)
            .because(NOT_HERE)
            .hint("run this where the program is, or give its unstripped copy with --symbols")
    })
}
