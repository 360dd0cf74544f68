//! Names that were looked up right after a recording, beside its streams: those that its summary says, and those of
//! files that are another build soon.

use ::symbols::{Found, PerfMapPlace};
use heapfile::event::{Process, ProcessId};
use heapfile::module::Module;
use heapfile::reader::Events;
use heapfile::recording::Recording;
use heapfile::stack::{Address, StackId};
use model::{Error, Exit, Result, Warning, WarningKind};
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FILE: &str = "names.json";
const SCHEMA: &str = "thaw.heap-names/1";

/// `names.json`. Texts are told once and by number.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    schema: String,
    texts: Vec<String>,
    objects: Vec<NamedObject>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NamedObject {
    path: String,
    build_id: Vec<u8>,
    /// Address; function, file and line, inlined ones first.
    frames: Vec<(u64, Vec<FrameNumbers>)>,
}

type FrameNumbers = (Option<u32>, Option<u32>, Option<u32>);

/// What is remembered, by path and build-id.
pub type Memory = HashMap<(PathBuf, Vec<u8>), HashMap<u64, Vec<Found>>>;

/// Addresses to be looked up.
#[derive(Debug, Default)]
pub struct Wanted {
    /// By object.
    objects: BTreeMap<(PathBuf, Vec<u8>), BTreeSet<u64>>,
    /// Of code that processes made themselves.
    made: Vec<Made>,
}

/// Code that a process made at run time.
#[derive(Debug)]
struct Made {
    process: ProcessId,
    /// The process's number and program.
    pid: u32,
    exe: PathBuf,
    addresses: BTreeSet<u64>,
    /// Whether its stacks have the functions of Python: then the code that Python made to show them is not told too.
    has_functions: bool,
}

/// By what name the code that a process made is remembered: no path of a file.
pub(crate) fn made_by(process: ProcessId) -> PathBuf {
    format!("made by process {}", process.0).into()
}

impl Wanted {
    /// Also those of another process, which the recording knows by this number.
    pub fn extend(&mut self, process: ProcessId, other: Self) {
        for (object, addresses) in other.objects {
            self.objects.entry(object).or_default().extend(addresses);
        }
        self.made.extend(other.made.into_iter().map(|made| Made { process, ..made }));
    }

    /// What a process has, after its last event: the stacks that will be `said` now, and all addresses of files that
    /// cannot be asked later. Nobody may ever ask for the others.
    ///
    /// Names of code that it made are in its `/tmp/perf-PID.map`, if it wrote one since the recording began.
    pub fn add(&mut self, process: &Process, events: &Events, said: impl IntoIterator<Item = StackId>) {
        let (stacks, modules) = (events.stacks(), events.modules());
        let soon_gone: Vec<bool> = modules.iter().map(is_soon_gone).collect();
        let is_soon_gone =
            |address: &Address| address.module.is_some_and(|it| soon_gone.get(it.0 as usize) == Some(&true));
        let of_gone = stacks.addresses().filter(is_soon_gone);
        for address in super::addresses_of(stacks, said).into_iter().chain(of_gone) {
            let Some(module) = address.module.and_then(|module| modules.get(module.0 as usize)) else {
                continue;
            };
            // The recording has its name.
            if module.function().is_some() {
                continue;
            }
            let object = (module.path.clone(), module.build_id.clone());
            self.objects.entry(object).or_default().insert(super::inside(address, Some(module)));
        }
        let made = stacks.addresses().filter(|address| address.module.is_none() && !address.is_gap());
        let addresses: BTreeSet<u64> = made.map(|address| super::inside(address, None)).collect();
        if !addresses.is_empty() {
            let (pid, exe) = (process.pid, process.exe.clone());
            let has_functions = modules.iter().any(|module| module.function().is_some());
            self.made.push(Made { process: process.id, pid, exe, addresses, has_functions });
        }
    }
}

/// Whether an object may be another build when somebody asks for its names, and nobody could tell or find the old one:
/// all but what packages put below `/usr`, if it has a build-id.
fn is_soon_gone(module: &Module) -> bool {
    const OF_SYSTEM: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"];
    let of_system = OF_SYSTEM.iter().any(|place| module.path.starts_with(place));
    module.build_id.is_empty() || !of_system || module.path.starts_with("/usr/local")
}

/// What was looked up.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The names.
    pub memory: Memory,
    /// How many addresses were looked up.
    pub looked_up: usize,
    /// Runtimes whose code has no names, though they could tell them.
    pub warnings: Vec<Warning>,
}

/// Looks addresses up and writes what was found beside the recording; returns it too.
///
/// # Errors
/// The file cannot be written. Objects that cannot be read are left out.
pub fn remember(directory: &Path, recording: &Recording, wanted: Wanted) -> Result<Remembered> {
    let since = SystemTime::UNIX_EPOCH + Duration::from_nanos(recording.created_unix_ns);
    let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
    let user = std::fs::metadata(directory).map_err(cannot)?.uid();
    let (mut texts, mut objects) = (Texts::default(), Vec::new());
    let mut remembered = Remembered::default();
    let of_objects = wanted.objects.into_iter().filter_map(|((path, build_id), addresses)| {
        let addresses: Vec<u64> = addresses.into_iter().collect();
        if path.to_str().is_none() || !path.is_absolute() {
            return None;
        }
        let looked = super::look_up(&path, &build_id, &addresses);
        Some((path, build_id, addresses, looked.ok().map(|looked| looked.found)))
    });
    let mut warnings = Vec::new();
    let of_made = wanted.made.into_iter().map(|made| {
        let read = PerfMapPlace::of_ended(made.pid, user, since).and_then(|place| place.read());
        if let Err(why) = &read {
            warnings.push(Warning::new(WarningKind::Note, format!("code that process {} made: {why}", made.pid)));
        } else if let (Ok(None), Some(how)) = (&read, names_of_runtime(&made.exe)) {
            let text = format!(
                "process {} ({}): {} addresses of code that it made have no names",
                made.pid,
                model::shown(&made.exe),
                made.addresses.len()
            );
            warnings.push(Warning::new(WarningKind::Note, text).hint(format!("it tells them: {how}")));
        }
        let map = read.ok().flatten().unwrap_or_default();
        let named = made.addresses.iter().filter_map(|at| {
            let name = map.name(*at)?;
            let is_told = made.has_functions && name.starts_with(PYTHON);
            Some((*at, if is_told { Vec::new() } else { vec![of_runtime(name)] }))
        });
        let found = Some(named.collect()).filter(|found: &HashMap<_, _>| !found.is_empty());
        (made_by(made.process), Vec::new(), made.addresses.into_iter().collect(), found)
    });
    for (path, build_id, addresses, found) in of_objects.chain(of_made) {
        remembered.looked_up += addresses.len();
        let (Some(found), Some(name)) = (found, path.to_str()) else { continue };
        let mut named = |found: &Found| {
            let mut number = |text: &Option<String>| text.as_ref().map(|text| texts.number(text));
            (number(&found.function), number(&found.file), found.line)
        };
        let frames = addresses.iter().filter_map(|address| {
            let found = found.get(address)?;
            Some((*address, found.iter().map(&mut named).collect()))
        });
        objects.push(NamedObject { path: name.to_owned(), build_id: build_id.clone(), frames: frames.collect() });
        remembered.memory.insert((path, build_id), found);
    }
    remembered.warnings = warnings;
    let document = Document { schema: SCHEMA.into(), texts: texts.texts, objects };
    os::replace::write_by(&directory.join(FILE), Rights::Private, Existing::Replace, |out| {
        serde_json::to_writer(out, &document).map_err(Into::into)
    })?;
    Ok(remembered)
}

/// How Python's names of functions begin.
const PYTHON: &str = "py::";

/// What a runtime calls a function. Python tells its file too, `py::name:file`; V8 how it was compiled, file, line and
/// column, `JS:*name file:1:2` (`LazyCompile:` and others before version 10).
fn of_runtime(name: &str) -> Found {
    let found = |function: &str, file: Option<&str>, line| Found {
        function: Some(if function.is_empty() { "(anonymous)" } else { function }.to_owned()),
        file: file.map(str::to_owned),
        line,
    };
    if let Some((function, file)) = name.strip_prefix(PYTHON).and_then(|rest| rest.split_once(':')) {
        return found(function, Some(file), None);
    }
    const KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    let script = KINDS.iter().find_map(|kind| name.strip_prefix(kind)?.strip_prefix(['*', '~', '^', '+']));
    let Some((function, place)) = script.and_then(|script| script.rsplit_once(' ')) else {
        return found(name, None, None);
    };
    let line = place.rsplit_once(':').and_then(|(rest, _column)| rest.rsplit_once(':'));
    match line.map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => found(function, Some(file), Some(line)),
        _ => found(function, Some(place), None),
    }
}

/// How a runtime is told to name the code that it makes.
fn names_of_runtime(exe: &Path) -> Option<&'static str> {
    let name = exe.file_name()?.to_str()?;
    match name {
        "node" => Some("node --perf-basic-prof --interpreted-frames-native-stack"),
        "java" => {
            Some("java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer (17 or newer)")
        }
        _ => None,
    }
}

#[derive(Default)]
struct Texts {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// What is remembered beside a recording; nothing if there is no such file.
///
/// # Errors
/// The file is damaged.
pub fn recall(directory: &Path) -> Result<Memory> {
    let path = directory.join(FILE);
    let Ok(bytes) = std::fs::read(&path) else { return Ok(Memory::new()) };
    let bad = |cause: String| {
        let hint = format!("functions are named without it: rm {}", model::shown(&path));
        Error::on(Exit::Data, "the names of a heap recording are damaged", &path).because(cause).hint(hint)
    };
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    if document.schema != SCHEMA {
        return Err(bad(format!("it is {}, this thaw reads {SCHEMA}", document.schema)));
    }
    let text = |number: Option<u32>| document.texts.get(number? as usize).cloned();
    let found = |named: &FrameNumbers| Found { function: text(named.0), file: text(named.1), line: named.2 };
    let objects = document.objects.iter().map(|object| {
        let frames = object.frames.iter().map(|(address, frames)| (*address, frames.iter().map(found).collect()));
        ((PathBuf::from(&object.path), object.build_id.clone()), frames.collect())
    });
    Ok(objects.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes_are_taken_apart() {
        let told = |name: &str| {
            let Found { function, file, line } = of_runtime(name);
            (function.unwrap(), file.unwrap_or_default(), line)
        };
        for (name, function, file, line) in [
            ("py::outer:/app/p.py", "outer", "/app/p.py", None),
            ("JS:*make buffers /app/n.js:12:36", "make buffers", "/app/n.js", Some(12)),
            ("JS:~ node:internal/main:1:1", "(anonymous)", "node:internal/main", Some(1)),
            ("LazyCompile:~load file", "load", "file", None),
            ("void J.alloc(int)", "void J.alloc(int)", "", None),
            ("Interpreter", "Interpreter", "", None),
            ("", "(anonymous)", "", None),
        ] {
            assert_eq!(told(name), (function.to_owned(), file.to_owned(), line), "{name}");
        }
    }
}
