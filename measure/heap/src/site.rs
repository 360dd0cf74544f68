//! Places that allocate: the innermost frames of a stack, from the first one on that is not the C++ run-time library's.
//!
//! Not for source lines, inlined functions and readable names of C++: [`Names`] knows what the symbol tables of the files say.

use crate::stack::{Address, Quick, StackId, Stacks};
use crate::stream::Module;
use elf::Image;
use model::shown;
use serde::Serialize;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::path::{Path, PathBuf};

/// A place: index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// The places of a process.
#[derive(Debug)]
pub struct Sites {
    depth: usize,
    of_stack: HashMap<u32, SiteId, BuildHasherDefault<Quick>>,
    numbers: HashMap<Vec<Address>, SiteId>,
    frames: Vec<Vec<Address>>,
}

/// A frame of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteFrame {
    /// The object; `None`: code made at run time.
    pub module: Option<String>,
    /// Return address, as an address of the object's file.
    pub address: u64,
    /// The symbol that it is in, as the file spells it.
    pub symbol: Option<String>,
}

/// Without a stack.
const NOWHERE: u32 = u32::MAX;

impl Sites {
    /// Places are told apart by this many frames.
    pub fn new(depth: usize) -> Self {
        Self { depth, of_stack: HashMap::default(), numbers: HashMap::new(), frames: Vec::new() }
    }

    /// The place of a stack.
    pub fn of(&mut self, stack: Option<StackId>, stacks: &Stacks, modules: &[Module]) -> SiteId {
        let key = stack.map_or(NOWHERE, |stack| stack.0);
        if let Some(site) = self.of_stack.get(&key) {
            return *site;
        }
        let frames: Vec<Address> = stack.map_or_else(Vec::new, |stack| stacks.frames(stack).collect());
        let of_runtime = |address: &Address| {
            let module = address.module.and_then(|module| modules.get(module.0 as usize));
            module.is_some_and(|module| is_runtime(&module.path))
        };
        let inner = frames.iter().take_while(|address| of_runtime(address)).count();
        let from = if inner == frames.len() { 0 } else { inner };
        let frames: Vec<Address> = frames.into_iter().skip(from).take(self.depth).collect();
        let fresh = SiteId(self.frames.len() as u32);
        let site = *self.numbers.entry(frames.clone()).or_insert(fresh);
        if site == fresh {
            self.frames.push(frames);
        }
        self.of_stack.insert(key, site);
        site
    }

    /// Its frames, innermost first, with names.
    pub fn describe(&self, site: SiteId, modules: &[Module], names: &mut Names) -> Vec<SiteFrame> {
        let frames = self.frames.get(site.0 as usize).map_or(&[][..], Vec::as_slice);
        let frame = |address: &Address| {
            let module = address.module.and_then(|module| modules.get(module.0 as usize));
            let in_file = address.pc.wrapping_sub(module.map_or(0, |module| module.bias));
            SiteFrame {
                module: module.map(|module| shown(&module.path)),
                address: in_file,
                symbol: module.and_then(|module| names.name(&module.path, &module.build_id, in_file)),
            }
        };
        frames.iter().map(frame).collect()
    }
}

/// `operator new` and what `std::string` does are of the program that asked for them.
fn is_runtime(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("libstdc++.so") || name.starts_with("libc++.so") || name.starts_with("libc++abi.so")
}

/// Names of functions, from the symbol tables of the files as they are now. A file that was replaced since has none.
#[derive(Debug, Default)]
pub struct Names {
    files: HashMap<PathBuf, Vec<Function>>,
}

#[derive(Debug)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

impl Names {
    fn name(&mut self, path: &Path, build_id: &[u8], return_address: u64) -> Option<String> {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), functions(path, build_id).unwrap_or_default());
        }
        let functions = self.files.get(path)?;
        // A return address may be behind the function that never returns.
        let call = return_address.checked_sub(1)?;
        let at = functions.partition_point(|function| function.start <= call).checked_sub(1)?;
        functions.get(at).filter(|function| call < function.end).map(|function| function.name.clone())
    }
}

fn functions(path: &Path, build_id: &[u8]) -> Option<Vec<Function>> {
    let bytes = std::fs::read(path).ok()?;
    let now = elf::build_id(&bytes).unwrap_or_default();
    let then: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    if now != then {
        return None;
    }
    let image = Image::of(bytes.as_slice()).ok()?;
    let tables = [image.all_symbols(), image.dynamic_symbols()];
    let symbols = tables.into_iter().flatten().flat_map(|table| table.iter());
    let mut functions: Vec<Function> = symbols
        .filter(|symbol| symbol.is_defined() && symbol.len > 0)
        .map(|symbol| Function {
            start: symbol.address,
            end: symbol.address.saturating_add(symbol.len),
            name: String::from_utf8_lossy(symbol.name).into_owned(),
        })
        .collect();
    functions.sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
    functions.dedup_by_key(|function| function.start);
    Some(functions)
}
