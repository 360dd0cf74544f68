//! What has to be known of a program right after its exec, and of its objects once they are loaded.

use super::objects::Object;
use elf::{Class, Image, SymbolTable};
use object::elf::EM_X86_64;
use os::mapped::Mapped;
use os::ptrace::Memory;
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Entries of the auxiliary vector.
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SECURE: u64 = 23;

/// More objects than a program can have: a list that goes in a circle ends.
const MOST_OBJECTS: usize = 1 << 16;

/// A program that glibc's loader starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The file.
    pub path: PathBuf,
    /// The loader's first instruction.
    pub loader_entry: u64,
    /// `_dl_debug_state`, which the loader calls before and after it maps.
    pub debug_state: u64,
    /// `_r_debug`: the list of objects, and whether it is whole.
    pub debug: u64,
    /// The loader in memory.
    pub loader: Range<u64>,
    /// An instruction `syscall` in the loader.
    pub syscall: Option<u64>,
    /// The program's first instruction.
    pub entry: u64,
}

/// An object that is new, as it lies in memory.
pub(super) struct Found {
    /// What its file says.
    pub object: Object,
    /// Where `__libc_start_main` and `execve` are, if it is the C library.
    pub start_main: Option<u64>,
    pub execve: Option<u64>,
}

/// Which file a process executes; empty: it is gone.
pub(super) fn executed(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// Looks at a process that has just executed something.
///
/// # Errors
/// It cannot be watched this way; a sentence.
pub(super) fn look(pid: u32) -> Result<Program, String> {
    let path = executed(pid);
    let bytes = open(Path::new(&format!("/proc/{pid}/exe")))?;
    let image = Image::of(&*bytes).map_err(|miss| miss.to_string())?;
    if image.class != Class::Elf64 || image.machine != EM_X86_64 {
        return Err(format!("it is a program for {}, not for x86-64", machine(&image)));
    }
    let Some(interpreter) = &image.interpreter else {
        return Err("it is static: no loader maps, relocates or initialises anything for it".into());
    };
    let auxiliary = auxiliary(pid).ok_or("the kernel does not show its auxiliary vector")?;
    let value = |kind| auxiliary.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    if value(AT_SECURE) != Some(0) {
        return Err("it runs with other rights than its caller's (setuid, setgid or capabilities)".into());
    }
    let (Some(base), Some(entry)) = (value(AT_BASE).filter(|base| *base != 0), value(AT_ENTRY)) else {
        return Err("the kernel does not say where its loader is".into());
    };
    let bytes = open(&within(pid, Path::new(interpreter)))?;
    let loader = Image::of(&*bytes).map_err(|miss| format!("its loader {interpreter}: {miss}"))?;
    let symbol = |name: &str| Some(base.wrapping_add(defined(loader.dynamic_symbols()?, name)?));
    let (Some(debug_state), Some(debug), Some(_)) =
        (symbol("_dl_debug_state"), symbol("_r_debug"), symbol("_rtld_global"))
    else {
        return Err(format!("its loader {interpreter} is not glibc's"));
    };
    let start = loader.order.address(bytes.get(24..32).unwrap_or_default()).ok_or("its loader is damaged")?;
    let end = loader.loads().map(|load| load.address.saturating_add(load.memory_len)).max().unwrap_or(0);
    Ok(Program {
        path,
        loader_entry: base.wrapping_add(start),
        debug_state,
        debug,
        loader: base..base.wrapping_add(end),
        syscall: system_call(&loader).map(|address| base.wrapping_add(address)),
        entry,
    })
}

fn machine<R>(image: &Image<R>) -> String {
    let bits = if image.class == Class::Elf64 { "64" } else { "32" };
    format!("{} of {bits} bits", elf::machine_name(image.machine))
}

fn open(path: &Path) -> Result<Mapped, String> {
    let file = File::open(path).map_err(|error| format!("{} cannot be opened: {error}", model::shown(path)))?;
    Mapped::of(&file).ok_or_else(|| format!("{} cannot be mapped", model::shown(path)))
}

/// A path as the process sees it.
fn within(pid: u32, path: &Path) -> PathBuf {
    Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(path))
}

fn auxiliary(pid: u32) -> Option<Vec<(u64, u64)>> {
    let bytes = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let (pairs, _) = bytes.as_chunks::<16>();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    Some(pairs.iter().map(|pair| (number(&pair[..8]), number(&pair[8..]))).collect())
}

fn defined(symbols: SymbolTable<'_>, name: &str) -> Option<u64> {
    symbols.iter().find(|symbol| symbol.is_defined() && symbol.name == name.as_bytes()).map(|symbol| symbol.address)
}

/// The address in the file of an instruction `syscall`: it stands behind `mov $number, %eax`.
fn system_call(loader: &Image<&[u8]>) -> Option<u64> {
    loader.loads().filter(|load| load.is_executable()).find_map(|load| {
        let code = loader.at(load.address, load.file_len)?;
        let is = |bytes: &[u8]| bytes[0] == 0xb8 && bytes[2..5] == [0, 0, 0] && bytes[5..7] == [0x0f, 0x05];
        let place = code.windows(7).position(is)?;
        Some(load.address + place as u64 + 5)
    })
}

/// Objects in the loader's list that are not in `known`, which then has them: new ones, in the order of the list. What
/// cannot be read of them is a sentence.
pub(super) fn objects(
    pid: u32,
    memory: &Memory,
    program: &Program,
    known: &mut HashSet<u64>,
    cannot: &mut Vec<String>,
) -> Vec<Found> {
    let mut found = Vec::new();
    let Ok(mappings) = os::process::maps(pid) else { return found };
    let mut entry = memory.word(program.debug + 8).unwrap_or(0);
    for _ in 0..MOST_OBJECTS {
        if entry == 0 {
            break;
        }
        // struct link_map: bias, name, dynamic table, next.
        let [Ok(bias), Ok(dynamic), Ok(next)] = [0, 16, 24].map(|place| memory.word(entry + place)) else {
            cannot.push("which objects there are: the loader's list cannot be read".into());
            break;
        };
        entry = next;
        if !known.insert(dynamic) {
            continue;
        }
        // What the kernel gives (the vdso) is no file.
        let covers = |mapping: &&os::process::Mapping| (mapping.start..mapping.end).contains(&dynamic);
        let Some(mapping) = mappings.iter().find(covers) else { continue };
        match object(pid, &mapping.path, bias) {
            Ok(object) => found.push(object),
            Err(why) => cannot.push(format!("what {} lists: {why}", model::shown(&mapping.path))),
        }
    }
    found
}

fn object(pid: u32, path: &Path, bias: u64) -> Result<Found, String> {
    let bytes = open(&within(pid, path))?;
    let image = Image::of(&*bytes).map_err(|miss| miss.to_string())?;
    let object = Object::of(path.to_owned(), &image, bias)?;
    let symbol = |name: &str| Some(object.bias.wrapping_add(defined(image.dynamic_symbols()?, name)?));
    let (start_main, execve) = match symbol("__libc_start_main") {
        Some(found) => (Some(found), symbol("execve")),
        None => (None, None),
    };
    Ok(Found { start_main, execve, object })
}
