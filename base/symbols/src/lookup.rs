//! Looking up the addresses of one object.

use crate::files::{Slice, Store};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use elf::Image;
use gimli::{Dwarf, DwarfPackage, Reader as _, RunTimeEndian, SectionId};
use object::elf::{STT_FUNC, STT_GNU_IFUNC};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its name, demangled.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

impl Found {
    /// `file:line`, or the file, if debug data tell.
    pub fn source(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
    }
}

/// What an object's file says about addresses.
#[derive(Debug, Default)]
pub struct Looked {
    /// Functions by address: inlined ones first. Addresses that nothing names are left out.
    pub found: HashMap<u64, Vec<Found>>,
    /// Why the debug data are not used, where there are some: then names are those of the symbol tables.
    pub unread: Option<String>,
}

/// Looks up these addresses of an object's file.
///
/// # Errors
/// The file cannot be read or is of another build than `build_id` (empty: any).
pub fn look_up(path: &Path, build_id: &[u8], addresses: &[u64]) -> Result<Looked, String> {
    let store = Store::default();
    let image = store.open(path)?;
    let wanted: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    if !wanted.is_empty() && image.build_id.as_ref().is_some_and(|id| *id != wanted) {
        return Err("the file is another build than the one that was recorded".into());
    }
    let debug = match image.section(".debug_info") {
        Some(_) => None,
        None => store.split_off(&image, path),
    };
    let (debug_path, debug) = debug.as_ref().map_or((path, &image), |(path, image)| (path.as_path(), image));
    let context = debug.section(".debug_info").map(|_| Debug::open(&store, debug, debug_path));
    let (context, unread) = match context.transpose() {
        Ok(context) => (context, None),
        Err(why) => (None, Some(why)),
    };
    Ok(Looked { found: name_all(context.as_ref(), &Table::of([&image, debug]), addresses), unread })
}

/// Looks up these addresses of an ELF file that is in memory only, as the kernel's `[vdso]`, by its symbol tables.
///
/// # Errors
/// It is no ELF file, or a damaged one.
pub fn look_up_bytes(bytes: &[u8], addresses: &[u64]) -> Result<Looked, String> {
    let image = Image::of(bytes).map_err(|miss| miss.to_string())?;
    Ok(Looked { found: name_all(None, &Table::of([&image, &image]), addresses), unread: None })
}

fn name_all(debug: Option<&Debug<'_>>, table: &Table<'_>, addresses: &[u64]) -> HashMap<u64, Vec<Found>> {
    let mut found = HashMap::new();
    for address in addresses {
        let mut frames = debug.map_or_else(Vec::new, |debug| debug.frames(*address));
        let symbol = || table.name(*address).map(|name| demangle(name, None));
        match frames.last_mut() {
            Some(outermost) if outermost.function.is_none() => outermost.function = symbol(),
            Some(_) => {}
            None => frames.extend(symbol().map(|name| Found { function: Some(name), file: None, line: None })),
        }
        if !frames.is_empty() {
            found.insert(*address, frames);
        }
    }
    found
}

fn demangle(name: &[u8], language: Option<gimli::DwLang>) -> String {
    let text = String::from_utf8_lossy(name);
    // Without the prefix, the C function `a` would be the C++ type `signed char`.
    let mangled = ["_Z", "__Z", "_R"].iter().any(|prefix| text.starts_with(prefix));
    let name = if mangled { addr2line::demangle_auto(text, language) } else { text };
    let name = outline(&name).unwrap_or_else(|| name.into_owned());
    // Rust names end with a hash that changes with every build.
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest.to_owned(),
        _ => name,
    }
}

/// What can be told of a C++ name that the demangler does not understand (`std::make_shared`, whose type has an
/// expression in it): its first names.
fn outline(mangled: &str) -> Option<String> {
    let mut rest = mangled.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest).trim_start_matches(['r', 'V', 'K', 'R', 'O']);
    let mut names = Vec::new();
    if let Some(after) = rest.strip_prefix("St") {
        names.push("std");
        rest = after;
    }
    while let Some(digits) = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|digits| *digits > 0) {
        let (name, after) = rest[digits..].split_at_checked(rest[..digits].parse().ok()?)?;
        names.push(name);
        rest = after;
    }
    let more = if rest.starts_with('I') { "<…>" } else { "" };
    (names.last()? != &"std").then(|| format!("{}{more}(…)", names.join("::")))
}

/// Whether names and lines are in a section: decompressing is most of the work, and no one asks here where variables
/// are, or about macros.
fn is_needed(id: SectionId) -> bool {
    use SectionId::{DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro};
    !matches!(id, DebugLoc | DebugLocLists | DebugMacinfo | DebugMacro)
}

/// A section that is not there.
fn nothing<'a>() -> Slice<'a> {
    Slice::new(&[], RunTimeEndian::Little)
}

/// The debug data of an object.
struct Debug<'a> {
    store: &'a Store,
    context: Context<Slice<'a>>,
    package: Option<DwarfPackage<Slice<'a>>>,
}

impl<'a> Debug<'a> {
    fn open(store: &'a Store, image: &Image<&'a [u8]>, path: &Path) -> Result<Self, String> {
        let section = |image: &Image<&'a [u8]>, id: SectionId| match is_needed(id) {
            true => store.section(image, id.name()),
            false => Ok(nothing()),
        };
        let mut dwarf = Dwarf::load(|id| section(image, id))?;
        if let Some(common) = store.common(image, path) {
            dwarf.load_sup(|id| section(&common, id))?;
        }
        let context = Context::from_dwarf(dwarf).map_err(|error| error.to_string())?;
        let mut name = path.as_os_str().to_owned();
        name.push(".dwp");
        let package = store.open(Path::new(&name)).ok().and_then(|image| {
            let load = |id: SectionId| {
                // What cannot be read is as if it were not there.
                let name = id.dwo_name().filter(|_| is_needed(id));
                Ok(store.section(&image, name.unwrap_or("(none)")).unwrap_or(nothing()))
            };
            DwarfPackage::load::<_, gimli::Error>(load, nothing()).ok()
        });
        Ok(Self { store, context, package })
    }

    fn frames(&self, address: u64) -> Vec<Found> {
        // addr2line counts to the one behind it, which the last of all has not.
        if address == u64::MAX {
            return Vec::new();
        }
        let mut result = self.context.find_frames(address);
        let found = loop {
            match result {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    let part = self.split(&load);
                    result = continuation.resume(part);
                }
            }
        };
        let mut frames = Vec::new();
        // What is damaged names nothing.
        let Ok(mut iterator) = found else { return frames };
        while let Ok(Some(frame)) = iterator.next() {
            let function = frame.function.map(|function| {
                let name = function.name.to_slice().unwrap_or_default();
                demangle(&name, function.language)
            });
            let (file, line) = frame
                .location
                .map_or((None, None), |it| (it.file.map(str::to_owned), it.line.filter(|line| *line > 0)));
            frames.push(Found { function, file, line });
        }
        frames.retain(|frame| frame.function.is_some() || frame.file.is_some());
        frames
    }

    /// The part of split debug data that is asked for.
    fn split(&self, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let part = |name: &Slice<'a>| PathBuf::from(OsStr::from_bytes(name.slice()));
        let path = load.comp_dir.as_ref().map(part).unwrap_or_default().join(load.path.as_ref().map(part)?);
        let image = self.store.open(&path).ok()?;
        let section =
            |id: SectionId| self.store.section(&image, id.dwo_name().filter(|_| is_needed(id)).unwrap_or("(none)"));
        let mut dwarf = Dwarf::load(section).ok()?;
        let head = dwarf.units().next().ok()??;
        let unit = dwarf.unit(head).ok()?;
        if unit.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        Some(Arc::new(dwarf))
    }
}

/// Functions of symbol tables, by address.
struct Table<'a>(Vec<(u64, u64, &'a [u8])>);

impl<'a> Table<'a> {
    fn of(images: [&Image<&'a [u8]>; 2]) -> Self {
        let tables = images.into_iter().flat_map(|image| [image.all_symbols(), image.dynamic_symbols()]).flatten();
        let mut symbols: Vec<(u64, u64, &[u8])> = tables
            .flat_map(|table| table.iter())
            .filter(|symbol| symbol.is_defined() && matches!(symbol.kind, STT_FUNC | STT_GNU_IFUNC))
            .filter(|symbol| !symbol.name.is_empty())
            .map(|symbol| (symbol.address, symbol.len, symbol.name))
            .collect();
        // Of several names for one address the first one by length and alphabet: the same in every run.
        symbols.sort_unstable_by_key(|(address, _, name)| (*address, name.len(), *name));
        symbols.dedup_by_key(|(address, _, _)| *address);
        Self(symbols)
    }

    fn name(&self, address: u64) -> Option<&'a [u8]> {
        let behind = self.0.partition_point(|(start, _, _)| *start <= address);
        let (start, len, name) = *self.0.get(behind.checked_sub(1)?)?;
        (len == 0 || address - start < len).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_mangled_is_demangled() {
        for (name, expected) in [
            ("a", "a"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            (
                "_ZSt11make_sharedIiJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES2_E4typeEEDpOT0_",
                "std::make_shared<…>(…)",
            ),
            ("_ZNK3foo3barXX", "foo::bar(…)"),
            ("_Z99", "_Z99"),
            ("_ZL", "_ZL"),
        ] {
            assert_eq!(demangle(name.as_bytes(), None), expected);
        }
        assert_eq!(demangle(b"i", Some(gimli::DW_LANG_C)), "i");
    }

    #[test]
    fn the_last_address_of_all_is_looked_up_too() {
        let own = std::env::current_exe().unwrap();
        assert!(look_up(&own, &[], &[u64::MAX]).is_ok());
    }
}
