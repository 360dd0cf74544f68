//! Names for the addresses of a recording: functions, inlined ones too, sources and lines.
//!
//! `base/symbols` looks them up. Where a file is another build by then, what was looked up right after the recording is
//! used ([`recall`]). All addresses of an object are looked up together, so that one object at a time is in memory.

mod memory;

pub(crate) use memory::made_by;
pub use memory::{Memory, Remembered, Wanted, recall, remember};

use crate::modes::Heap;
use ::symbols::{Found, Looked, look_up};
use heapfile::event::ProcessId;
use heapfile::module::{Function, Module, ModuleId};
use heapfile::stack::{Address, StackId, Stacks};
use model::{Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A named frame: index into [`Names::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "HeapFrame"))]
pub struct Frame {
    /// The function, demangled; `None`: nothing names it.
    pub function: Option<String>,
    /// The object's path; of a function of an interpreter its source; empty: code made at run time.
    pub module: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// Whether the compiler put the function into its caller.
    pub inlined: bool,
    /// Return address minus one, as an address of the object's file; 0 for named frames, whose address means nothing
    /// to another build.
    pub address: u64,
}

impl Frame {
    /// The object's file name.
    pub fn object(&self) -> &str {
        match self.module.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ => "(no file)",
        }
    }

    /// The function, or object and address.
    pub fn label(&self) -> String {
        match &self.function {
            Some(function) => function.clone(),
            None => format!("{}+{:#x}", self.object(), self.address),
        }
    }

    /// `file:line`, if debug data tell.
    pub fn source(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
    }

    /// The source, or the object's file name.
    pub fn place(&self) -> String {
        self.source().unwrap_or_else(|| self.object().to_owned())
    }

    /// Whether it is a function that only hands on what was asked for, such as `operator new`: it says nothing about
    /// who wanted the memory. A name of another language or program that has `malloc`, `calloc`, `realloc` or
    /// `memalign` in its last part is one too, as in `dmd.py`.
    pub fn allocates(&self) -> bool {
        self.function.as_deref().is_some_and(allocates)
    }

    /// What stays the same when lines shift, addresses are random, or the compiler splits a function: object and
    /// function.
    pub fn description(&self) -> String {
        let label = self.label();
        let end = [".isra.", ".constprop.", ".part.", ".cold", ".llvm.", ".lto_priv."]
            .iter()
            .filter_map(|suffix| label.find(suffix).filter(|at| *at > 0))
            .min()
            .unwrap_or(label.len());
        format!("{} ({})", &label[..end], self.object())
    }
}

/// Whether a function only hands on what was asked for: [`Frame::allocates`].
pub fn allocates(function: &str) -> bool {
    const BEGINNINGS: [&str; 15] = [
        "operator new(",
        "operator new[](",
        "g_slice_alloc",
        "alloc::alloc::",
        "<alloc::alloc::Global",
        "alloc::boxed::box_new",
        "alloc::raw_vec::",
        "<alloc::raw_vec::",
        "__rustc::__rust_alloc",
        "__rustc::__rust_realloc",
        "__rust_alloc",
        "__rust_realloc",
        "__rdl_alloc",
        "__rdl_realloc",
        "std::alloc::",
    ];
    if is_rust_library(function) {
        return true;
    }
    // The allocator that a Rust program chose.
    let chosen = function.starts_with('<') && function.contains("GlobalAlloc>::");
    if chosen || BEGINNINGS.iter().any(|beginning| function.starts_with(beginning)) {
        return true;
    }
    let plain = plain(function);
    let of_library =
        ["std::allocator", "std::__new_allocator", "__gnu_cxx::new_allocator", "__gnu_cxx::__alloc_traits"];
    let last = plain.rsplit("::").next().unwrap_or(&plain).to_ascii_lowercase();
    if of_library.iter().any(|class| plain.starts_with(class)) {
        return ["allocate", "_s_allocate"].contains(&last.as_str());
    }
    ["malloc", "calloc", "realloc", "memalign"].iter().any(|part| last.contains(part))
}

/// Whether it is a function of Rust's library that makes room for what its caller keeps: collections, strings, boxes,
/// iterators. What a program implements of the library's traits for its own types is not.
fn is_rust_library(function: &str) -> bool {
    const CRATES: [&str; 4] = ["alloc::", "core::", "hashbrown::", "std::collections::"];
    let of_library = |path: &str| CRATES.iter().any(|name| path.starts_with(name));
    let Some(inner) = function.strip_prefix('<') else { return of_library(function) };
    // `<Type>::f`, `<Type as Trait>::f`: whose the type is; one that has no path is a parameter or of the language.
    let kind = inner.trim_start_matches(['&', '[', '(', '*']).trim_start_matches("mut ").trim_start_matches("const ");
    let end = kind.find([' ', '<', '>', ']', ')', ',']).unwrap_or(kind.len());
    let name = &kind[..end];
    let trait_of = inner.split_once(" as ").map(|(_, name)| name.trim_start_matches(['<', '[']));
    match name.contains("::") {
        true => of_library(name),
        false => trait_of.is_none_or(|name| of_library(name) || !name.contains("::") || name.starts_with('_')),
    }
}

/// A function's name without parameters and what is in templates, which may name anything.
fn plain(function: &str) -> String {
    let (mut plain, mut depth) = (String::new(), 0usize);
    for letter in function.strip_prefix("(anonymous namespace)::").unwrap_or(function).chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// The names of all addresses of a recording.
#[derive(Debug, Default)]
pub struct Names {
    frames: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    by_address: HashMap<(ProcessId, Address), Vec<FrameId>>,
    /// Objects whose debug data or file cannot be used.
    pub warnings: Vec<Warning>,
}

/// An object: the same file in all processes.
type Build = (PathBuf, Vec<u8>);

impl Names {
    /// Names the addresses of all sites.
    pub fn of(heaps: &[Heap], memory: &Memory) -> Self {
        Self::with(heaps, std::iter::empty(), memory)
    }

    /// The same, and more addresses.
    pub(crate) fn with<'a>(
        heaps: &'a [Heap],
        more: impl Iterator<Item = (ProcessId, &'a [Module], Address)>,
        memory: &Memory,
    ) -> Self {
        let each = heaps.iter().flat_map(|heap| addresses(heap).into_iter().map(move |address| (heap, address)));
        let each = each.map(|(heap, address)| (heap.process, heap.modules.as_slice(), address));
        Self::name(each.chain(more), memory)
    }

    /// Names addresses of processes, each told with the objects of its process. What cannot be read is looked for in
    /// `memory`; what is not there either is a warning, and its addresses stay numbers.
    pub fn name<'a>(addresses: impl IntoIterator<Item = (ProcessId, &'a [Module], Address)>, memory: &Memory) -> Self {
        let mut names = Self::default();
        // By object: file address, and who asks for it.
        let mut asked: BTreeMap<Build, BTreeMap<u64, Vec<(ProcessId, Address)>>> = BTreeMap::new();
        for (process, modules, address) in addresses {
            let module = address.module.and_then(|ModuleId(module)| modules.get(module as usize));
            let object = match module {
                Some(module) => (module.path.clone(), module.build_id.clone()),
                None if address.is_gap() => Default::default(),
                None => (memory::made_by(process), Vec::new()),
            };
            asked.entry(object).or_default().entry(inside(address, module)).or_default().push((process, address));
        }
        for ((path, build_id), wanted) in asked {
            if let Some(function) = heapfile::module::function(&path) {
                for (inside, askers) in wanted {
                    let frame = names.number(interpreted(function, inside));
                    names.by_address.extend(askers.into_iter().map(|asker| (asker, vec![frame])));
                }
                continue;
            }
            let addresses: Vec<u64> = wanted.keys().copied().collect();
            // Code that a process made is in no file.
            let is_made = wanted.values().flatten().all(|(_, address)| address.module.is_none());
            let remembered = || memory.get(&(path.clone(), build_id.clone())).cloned();
            // Without a build-id nobody can tell whether the file is still the same.
            let known = if build_id.is_empty() { remembered() } else { None };
            let with = |found| Looked { found, unread: None };
            let looked = match known {
                Some(found) => Ok(with(found)),
                None if path.is_absolute() => {
                    look_up(&path, &build_id, &addresses).or_else(|why| remembered().map(with).ok_or(why))
                }
                None => Ok(Looked::default()),
            };
            let mut note = |text| names.warnings.push(Warning::new(WarningKind::Note, text));
            let Looked { found, unread } = looked.unwrap_or_else(|why| {
                note(format!("{} addresses of {} have no names: {why}", addresses.len(), shown(&path)));
                Looked::default()
            });
            if let Some(why) = unread {
                note(format!("names of {} have no lines and no inlined functions: {why}", shown(&path)));
            }
            for (inside, askers) in wanted {
                let file = if is_made { Path::new("") } else { &path };
                // Code that only shows a function which is in the stack itself.
                let is_told = is_made && found.get(&inside).is_some_and(Vec::is_empty);
                let frames = if is_told { Vec::new() } else { names.intern(file, inside, found.get(&inside)) };
                for asker in askers {
                    names.by_address.insert(asker, frames.clone());
                }
            }
        }
        names
    }

    fn intern(&mut self, path: &Path, address: u64, found: Option<&Vec<Found>>) -> Vec<FrameId> {
        let module = shown(path);
        let frames = match found.filter(|found| !found.is_empty()) {
            // The addresses of gaps, inside of the call as all are.
            None if path.as_os_str().is_empty() && address + 1 == heap_wire::mark::SKIPPED => {
                let function = Some(heapfile::stack::GAP.to_owned());
                vec![Frame { function, module, file: None, line: None, inlined: false, address: 0 }]
            }
            None => vec![Frame { function: None, module, file: None, line: None, inlined: false, address }],
            Some(found) => found
                .iter()
                .enumerate()
                .map(|(index, one)| Frame {
                    function: one.function.clone(),
                    module: module.clone(),
                    file: one.file.clone(),
                    line: one.line,
                    inlined: index + 1 < found.len(),
                    address: if one.function.is_some() { 0 } else { address },
                })
                .collect(),
        };
        frames.into_iter().map(|frame| self.number(frame)).collect()
    }

    fn number(&mut self, frame: Frame) -> FrameId {
        if let Some(number) = self.numbers.get(&frame) {
            return FrameId(*number);
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.numbers.insert(frame, number);
        FrameId(number)
    }

    /// A frame.
    pub fn frame(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    /// All different frames.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames of an address: what was inlined first, the function that holds it last.
    pub fn at(&self, process: ProcessId, address: Address) -> &[FrameId] {
        self.by_address.get(&(process, address)).map_or(&[], Vec::as_slice)
    }

    /// A stack without the allocation functions at its inner end, and without what has no name between them; all of it,
    /// if there is nothing else.
    pub fn wanting<'a>(&self, stack: &'a [FrameId]) -> &'a [FrameId] {
        let frames = stack.iter().map(|frame| self.frame(*frame));
        let inner = frames.take_while(|frame| frame.function.is_none() || frame.allocates()).enumerate();
        let allocating = inner.filter(|(_, frame)| frame.allocates()).map(|(index, _)| index + 1).last().unwrap_or(0);
        if allocating == stack.len() { stack } else { &stack[allocating..] }
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, heap: &Heap, stack: Option<StackId>) -> Vec<FrameId> {
        let Some(stack) = stack else { return Vec::new() };
        heap.stacks.frames(stack).flat_map(|address| self.at(heap.process, address)).copied().collect()
    }
}

/// A function of an interpreter, at a line.
fn interpreted(function: Function<'_>, inside: u64) -> Frame {
    let file = shown(function.file);
    Frame {
        function: Some(function.name.to_string_lossy().into_owned()),
        module: file.clone(),
        file: Some(file),
        line: Function::line(inside),
        inlined: false,
        address: 0,
    }
}

/// An address of the object's file, inside of the call.
fn inside(address: Address, module: Option<&Module>) -> u64 {
    address.pc.wrapping_sub(module.map_or(0, |module| module.bias)).wrapping_sub(1)
}

/// The addresses of a process's sites, each once.
fn addresses(heap: &Heap) -> HashSet<Address> {
    addresses_of(&heap.stacks, heap.sites.iter().filter_map(|site| site.stack))
}

/// The addresses of stacks, each once.
fn addresses_of(stacks: &Stacks, of: impl IntoIterator<Item = StackId>) -> HashSet<Address> {
    let mut seen = vec![false; stacks.len()];
    let mut addresses = HashSet::new();
    for stack in of {
        let mut at = Some(stack);
        // A stack that was seen had its callers seen too.
        while let Some(stack) = at
            && let Some(seen) = seen.get_mut(stack.0 as usize).filter(|seen| !**seen)
        {
            *seen = true;
            addresses.extend(stacks.innermost(stack));
            at = stacks.caller(stack);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_survives_what_a_compiler_does_to_names() {
        let frame = |function: Option<&str>| Frame {
            function: function.map(Into::into),
            module: "/usr/lib/libx.so.1".into(),
            file: Some("x.c".into()),
            line: Some(7),
            inlined: false,
            address: 0x10,
        };
        assert_eq!(frame(Some("grow.constprop.0.isra.3")).description(), "grow (libx.so.1)");
        assert_eq!(frame(Some("grow")).description(), "grow (libx.so.1)");
        assert_eq!(frame(None).description(), "libx.so.1+0x10 (libx.so.1)");
        assert_eq!(frame(None).source().as_deref(), Some("x.c:7"));
    }

    #[test]
    fn who_wanted_the_memory_is_behind_the_functions_that_hand_it_on() {
        let mut names = Names::default();
        let mut stack = |functions: &[&str]| -> Vec<FrameId> {
            let frame = |(address, function): (u64, &&str)| Frame {
                function: Some((*function).to_owned()).filter(|name| !name.is_empty()),
                module: "/lib/x.so".into(),
                file: None,
                line: None,
                inlined: false,
                address,
            };
            (0..).zip(functions).map(|each| names.number(frame(each))).collect()
        };
        let stacks = [
            stack(&[
                "operator new(unsigned long)",
                "std::__new_allocator<int>::allocate(unsigned long, void const*)",
                "main",
            ]),
            stack(&["", "sqlite3Malloc", "sqlite3Step", "xrealloc"]),
            stack(&["", "grow"]),
            stack(&["llvm::SmallVectorBase<unsigned int>::mallocForGrow(unsigned long)", "f(malloc_t)"]),
            stack(&["g_malloc"]),
            stack(&["alloc::alloc::alloc_zeroed", "alloc::raw_vec::RawVec<T>::grow", "alloc::vec::Vec<T>::push", "f"]),
            stack(&[
                "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
                "__rustc::__rust_alloc",
                "alloc::alloc::Global::alloc_impl_runtime",
                "<alloc::raw_vec::RawVecInner>::finish_grow",
                "alloc::boxed::box_new_uninit",
                "alloc::boxed::Box<T>::new",
                "app::main",
            ]),
            stack(&[
                "alloc::raw_vec::RawVec<T>::grow",
                "alloc::vec::Vec<T,A>::with_capacity_in",
                "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
                "<[u8]>::to_vec_in::<alloc::alloc::Global>",
                "<alloc::string::String as core::clone::Clone>::clone",
                "<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
                "<app::Words as core::clone::Clone>::clone",
            ]),
        ];
        let left = stacks.each_ref().map(|stack| stack.len() - names.wanting(stack).len());
        assert_eq!(left, [2, 2, 0, 1, 0, 3, 6, 6]);
    }
}
