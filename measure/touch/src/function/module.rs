//! A file whose code a process maps.

use super::chosen::{Chosen, add_missing, choose, meant};
use super::jumped::jumped_into;
use super::kept::{self, Facts, Identity, Known};
use super::loader::relocating;
use super::patterns::Patterns;
use super::seen::SeenFile;
use super::starts::{Function, Hooks, function_starts, hooks};
use model::{PAGE, StartsFrom};
use os::kept::Kept;
use os::mapped::Mapped;
use os::process::Mapping;
use os::tracee::{TRAP, Tracee};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Number of a module, for as long as the library lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub u32);

/// A file with code.
#[derive(Debug)]
pub struct Module {
    /// As a process named it.
    pub path: PathBuf,
    /// What it holds; `None`: nobody could open it.
    bytes: Option<Mapped>,
    size: u64,
    /// By offset.
    pub functions: Vec<Function>,
    /// For each page of the file the first function at or behind its begin, and one more: a stop asks for one function
    /// among hundreds of thousands, and a search through all of them misses the CPU's caches at each step.
    by_page: Vec<u32>,
    from: StartsFrom,
    /// Places that the tracer watches for itself.
    pub hooks: Hooks,
    /// Code that the program copies elsewhere: it is left as it is.
    pub copied: Option<Range<u64>>,
    /// Which code was looked through for jumps into functions (offset and bytes), and into which there are.
    entered: Option<((u64, u64), Vec<usize>)>,
    /// By what name what is found out can be kept; `None`: it is kept already, or not at all.
    news: Option<Identity>,
    /// Which functions were called.
    called: Vec<bool>,
    /// Those whose calls are counted, by offset; of the others none is watched then.
    pub chosen: Vec<Chosen>,
    /// How many functions each pattern has found in it.
    pub found: Vec<u64>,
    /// A 32-bit program.
    pub is_32: bool,
    /// Its loader maps its libraries; a static program has none.
    pub has_interpreter: bool,
}

/// What is at an address of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The program begins.
    Entry,
    /// The loader has mapped or unmapped something.
    Loader,
    /// The loader has mapped all that the program names.
    Relocating,
    /// The program sets a signal handler.
    Sigaction,
}

impl Module {
    /// The function that begins at an offset.
    pub fn function_at(&self, offset: u64) -> Option<usize> {
        let page = usize::try_from(offset / PAGE).ok()?;
        let (from, to) = (*self.by_page.get(page)? as usize, *self.by_page.get(page + 1)? as usize);
        let at = self.functions[from..to].binary_search_by_key(&offset, |function| function.offset).ok()?;
        Some(from + at)
    }

    /// The functions that begin in a range of offsets, as indexes.
    pub fn functions_in(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let index = |offset| self.functions.partition_point(|function| function.offset < offset);
        index(from)..index(to).max(index(from))
    }

    /// The number of a function among those that are counted.
    pub fn chosen_at(&self, function: usize) -> Option<usize> {
        self.chosen.binary_search_by_key(&function, |chosen| chosen.function).ok()
    }

    /// Whether it is a file with code as the system's loader maps it.
    pub fn is_elf(&self) -> bool {
        self.bytes(0, 4) == b"\x7fELF"
    }

    /// Whether it was called already.
    pub fn is_called(&self, function: usize) -> bool {
        self.called[function]
    }

    /// Notes a call; `true`: it is the first one.
    pub fn call(&mut self, function: usize) -> bool {
        !std::mem::replace(&mut self.called[function], true)
    }

    /// What the tracer has to do at an offset.
    pub fn hook_at(&self, offset: u64) -> Option<Hook> {
        let Hooks { entry, loader, relocating, sigaction, .. } = self.hooks;
        let is = |hook: Option<u64>| hook == Some(offset);
        match () {
            () if is(entry) => Some(Hook::Entry),
            () if is(loader) => Some(Hook::Loader),
            () if is(relocating) => Some(Hook::Relocating),
            () if is(sigaction) => Some(Hook::Sigaction),
            () => None,
        }
    }

    /// Offsets of hooks.
    pub fn hooked(&self) -> impl Iterator<Item = u64> {
        let Hooks { entry, loader, relocating, sigaction, .. } = self.hooks;
        [entry, loader, relocating, sigaction].into_iter().flatten()
    }

    /// Finds out into which functions code of others jumps, in so much code from an offset on, if it is not known.
    pub fn find_entered(&mut self, code: (u64, u64)) {
        if self.entered.as_ref().is_none_or(|(known, _)| *known != code) {
            let entered = jumped_into(self.bytes(code.0, code.1 as usize), code.0, &self.functions);
            self.entered = Some((code, entered));
        }
    }

    /// Whether code of others jumps into a function; so it is, as long as nobody has looked.
    pub fn is_entered(&self, function: usize) -> bool {
        self.entered.as_ref().is_none_or(|(_, entered)| entered.binary_search(&function).is_ok())
    }

    /// Keeps what was found out for runs to come, once, if it was much.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, kept: &Kept) -> model::Result<()> {
        let Some((code, entered)) = &self.entered else { return Ok(()) };
        let Some(identity) = self.news.take() else { return Ok(()) };
        let facts = Facts { from: self.from, hooks: self.hooks, copied: self.copied.clone(), code: *code };
        kept::store(kept, &identity, &Known { facts, functions: self.functions.clone(), entered: entered.clone() })
    }

    /// The byte that belongs at an offset.
    pub fn byte(&self, offset: u64) -> Option<u8> {
        self.bytes.as_ref()?.get(usize::try_from(offset).ok()?).copied()
    }

    /// The bytes that belong to a range; shorter at the end of the file.
    pub fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        let Some(bytes) = &self.bytes else { return &[] };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        &bytes[from..from.saturating_add(len).min(bytes.len())]
    }

    /// Brings a range into memory at once: all of it will be read, and each page by itself would wait for the disk.
    pub fn bring(&self, offset: u64, len: u64) {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(bytes) = &self.bytes {
            bytes.bring(at(offset)..at(offset.saturating_add(len)).min(bytes.len()));
        }
    }

    /// As it is reported.
    pub fn seen(&self, (dev, ino): (u64, u64)) -> SeenFile {
        SeenFile {
            path: self.path.clone().into(),
            dev,
            ino,
            size: self.size,
            functions: self.functions.len() as u64,
            bytes: self.functions.iter().map(|function| function.len).sum(),
            from: self.from,
        }
    }
}

fn unknown(path: &Path) -> Module {
    Module {
        path: path.to_owned(),
        bytes: None,
        size: 0,
        functions: Vec::new(),
        by_page: Vec::new(),
        from: StartsFrom::Unwind,
        hooks: Hooks::default(),
        copied: None,
        entered: None,
        news: None,
        called: Vec::new(),
        chosen: Vec::new(),
        found: Vec::new(),
        is_32: false,
        has_interpreter: false,
    }
}

/// What a file holds of the functions that are to be counted; what of it cannot be known goes into the notes. Of the
/// others nothing is known if there is none.
pub fn look_for(path: &Path, file: Option<File>, patterns: &Patterns, notes: &mut Vec<String>) -> Module {
    let mut module = unknown(path);
    module.found = vec![0; patterns.typed().len()];
    let Some(file) = file else {
        notes.push(format!("functions of {}: the mapped file cannot be opened", model::shown(path)));
        return module;
    };
    module.size = file.metadata().map_or(0, |metadata| metadata.len());
    module.bytes = Mapped::of(&file);
    let Some(bytes) = &module.bytes else { return module };
    let Ok(hooks) = hooks(bytes) else { return module };
    module.hooks = hooks;
    if hooks.loader.is_some()
        && let Ok(starts) = function_starts(bytes)
    {
        module.hooks.relocating = relocating(bytes, &hooks, &starts.functions);
    }
    module.is_32 = bytes.get(4) == Some(&1);
    module.has_interpreter = elf::interpreter(bytes).is_some();
    let (mut meant, found) = meant(bytes, patterns);
    if meant.is_empty() {
        return module;
    }
    module.found = found;
    if let Ok(starts) = function_starts(bytes) {
        (module.functions, module.from) = (starts.functions, starts.from);
        if let Some(copied) = starts.copied {
            let before = meant.len();
            meant.retain(|offset, _| !copied.contains(offset));
            if meant.len() < before {
                notes.push(format!("calls of functions of {} {}", model::shown(path), about_copied(&copied)));
            }
        }
    }
    add_missing(&mut module.functions, &meant);
    for (offset, name) in &meant {
        if bytes.get(*offset as usize) == Some(&TRAP) {
            notes.push(format!("calls of {name} in {}: it begins with a breakpoint of its own", model::shown(path)));
        }
    }
    module.functions.retain(|function| bytes.get(function.offset as usize).is_some_and(|byte| *byte != TRAP));
    module.chosen = choose(bytes, &module.functions, &module.hooks, meant);
    module.by_page = by_page(&module.functions, module.size);
    module.called = vec![true; module.functions.len()];
    module
}

/// What a file holds; what of it cannot be watched goes into the notes. What is kept of it is not looked for again.
pub fn look_into(path: &Path, file: Option<File>, kept: Option<&Kept>, notes: &mut Vec<String>) -> Module {
    let shown = model::shown(path);
    let mut module = unknown(path);
    let Some(file) = file else {
        notes.push(format!("functions of {shown}: the mapped file cannot be opened"));
        return module;
    };
    let about = file.metadata().ok();
    module.size = about.as_ref().map_or(0, std::fs::Metadata::len);
    module.bytes = Mapped::of(&file);
    let Some(bytes) = &module.bytes else { return module };
    let identity = kept.and_then(|_| Identity::of(&about?, bytes));
    let known = kept.zip(identity.as_ref()).and_then(|(kept, identity)| {
        kept::load(kept, identity).unwrap_or_else(|why| {
            notes.push(format!("what an earlier run has kept about {shown} ({why}): it was found out anew"));
            None
        })
    });
    match known {
        Some(Known { facts, functions, entered }) => {
            (module.from, module.hooks, module.copied) = (facts.from, facts.hooks, facts.copied);
            module.entered = Some((facts.code, entered));
            module.functions = functions;
        }
        None => {
            // Code that is no ELF file, as of a virtual machine's archive, has no functions that we could know.
            let Ok(starts) = function_starts(bytes) else { return module };
            (module.from, module.copied) = (starts.from, starts.copied);
            let relocating = relocating(bytes, &starts.hooks, &starts.functions);
            module.hooks = Hooks { relocating, ..starts.hooks };
            // A function that begins with a trap of its own cannot be told from ours; one behind the file's end is
            // none.
            let copied = &module.copied;
            let can_be_watched = |function: &Function| {
                bytes.get(function.offset as usize).is_some_and(|byte| *byte != TRAP)
                    && copied.as_ref().is_none_or(|copied| !copied.contains(&function.offset))
            };
            module.functions = starts.functions;
            module.functions.retain(can_be_watched);
            module.news = identity;
        }
    }
    module.is_32 = bytes.get(4) == Some(&1);
    module.has_interpreter = elf::interpreter(bytes).is_some();
    module.by_page = by_page(&module.functions, module.size);
    module.called = vec![false; module.functions.len()];
    if let Some(copied) = &module.copied {
        notes.push(format!("functions of {shown} {}", about_copied(copied)));
    }
    match module.from {
        _ if module.functions.is_empty() => {
            notes.push(format!(
                "functions of {shown}: it has no symbols and no unwind tables that say where they begin"
            ));
        }
        StartsFrom::Exports => notes
            .push(format!("functions of {shown} that it does not export: it has neither symbols nor unwind tables")),
        StartsFrom::Symbols | StartsFrom::Unwind => {}
    }
    module
}

fn about_copied(copied: &Range<u64>) -> String {
    let Range { start, end } = copied;
    format!(
        "from {start:#x} to {end:#x}: V8's builtins, which it copies elsewhere and runs there, are left as they are"
    )
}

/// See [`Module::by_page`].
fn by_page(functions: &[Function], size: u64) -> Vec<u32> {
    let mut firsts = Vec::with_capacity(size.div_ceil(PAGE) as usize + 1);
    let mut at = 0;
    for page in 0..=size.div_ceil(PAGE) {
        at += functions[at..].iter().take_while(|function| function.offset < page * PAGE).count();
        firsts.push(at as u32);
    }
    firsts
}

/// The file behind a mapping: by the mapping itself, else by its path as the process sees it.
pub fn open(tracee: Tracee, mapping: &Mapping) -> Option<File> {
    let by_mapping = format!("/proc/{}/map_files/{:x}-{:x}", tracee.0, mapping.start, mapping.end);
    let by_path = || {
        let mut path = std::ffi::OsString::from(format!("/proc/{}/root", tracee.0));
        path.push(&mapping.path);
        let file = os::cache::open_quietly(std::path::Path::new(&path)).ok()?;
        (file.metadata().ok()?.ino() == mapping.ino).then_some(file)
    };
    File::open(by_mapping).ok().or_else(by_path)
}
