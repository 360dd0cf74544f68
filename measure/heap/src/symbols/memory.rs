//! Names that were looked up right after a recording, beside its streams: those that its summary says, and those of
//! files that are another build soon.

use ::symbols::{Found, Looked};
use heapfile::module::Module;
use heapfile::reader::Events;
use heapfile::stack::{Address, StackId};
use model::{Error, Exit, Result};
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

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

/// Addresses to be looked up, by object.
#[derive(Debug, Default)]
pub struct Wanted(BTreeMap<(PathBuf, Vec<u8>), BTreeSet<u64>>);

impl Wanted {
    /// What a process has, after its last event: the stacks that will be `said` now, and all addresses of files that
    /// cannot be asked later. Nobody may ever ask for the others.
    pub fn add(&mut self, events: &Events, said: impl IntoIterator<Item = StackId>) {
        let (stacks, modules) = (events.stacks(), events.modules());
        let soon_gone: Vec<bool> = modules.iter().map(is_soon_gone).collect();
        let is_soon_gone =
            |address: &Address| address.module.is_some_and(|it| soon_gone.get(it.0 as usize) == Some(&true));
        let of_gone = stacks.addresses().filter(is_soon_gone);
        for address in super::addresses_of(stacks, said).into_iter().chain(of_gone) {
            let Some(module) = address.module.and_then(|module| modules.get(module.0 as usize)) else {
                continue;
            };
            let object = (module.path.clone(), module.build_id.clone());
            self.0.entry(object).or_default().insert(super::inside(address, Some(module)));
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
}

/// Looks addresses up and writes what was found beside the recording; returns it too.
///
/// # Errors
/// The file cannot be written. Objects that cannot be read are left out.
pub fn remember(directory: &Path, Wanted(wanted): Wanted) -> Result<Remembered> {
    let (mut texts, mut objects) = (Texts::default(), Vec::new());
    let mut remembered = Remembered::default();
    for ((path, build_id), addresses) in wanted {
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let (Some(name), true) = (path.to_str(), path.is_absolute()) else { continue };
        remembered.looked_up += addresses.len();
        let Ok(Looked { found, .. }) = super::look_up(&path, &build_id, &addresses) else { continue };
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
    let document = Document { schema: SCHEMA.into(), texts: texts.texts, objects };
    os::replace::write_by(&directory.join(FILE), Rights::Private, Existing::Replace, |out| {
        serde_json::to_writer(out, &document).map_err(Into::into)
    })?;
    Ok(remembered)
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
