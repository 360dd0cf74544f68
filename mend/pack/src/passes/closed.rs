//! A closed set of programs and libraries, and what it proves: that the loader, asked for a symbol by the file that
//! defines it, finds that definition and no other, in every process that is made of files of the set.
//!
//! Closed means that every library that a member needs (DT_NEEDED) is a member, down to libc and the loader. What the
//! set cannot know is said where it matters: LD_PRELOAD, and programs outside of it.

use super::report::Hindrance;
use elf::{Image, Meaning, Symbol};
use model::{Error, Exit, Result};
use object::elf::{
    DT_NEEDED, DT_SONAME, ET_EXEC, SHN_ABS, STB_GNU_UNIQUE, STB_LOCAL, STB_WEAK, STT_GNU_IFUNC, STT_OBJECT, STV_HIDDEN,
    STV_INTERNAL,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

/// A file of the set.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// What it is called in reports: its path.
    pub label: String,
    /// The whole file.
    pub bytes: &'a [u8],
}

/// Whether libraries from outside the set may join a process later (dlopen).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Later {
    /// They may. They come last in every search and cannot replace anything, but they may bring type information of
    /// their own for types of the set, which counts on being merged.
    #[default]
    Anything,
    /// The set is all there ever is.
    Nothing,
}

/// The whole set. Empty: nothing is proven.
#[derive(Debug, Default)]
pub struct ClosedSet<'a> {
    members: Vec<Known<'a>>,
    later: Later,
}

#[derive(Debug)]
struct Known<'a> {
    label: String,
    bytes: &'a [u8],
    image: Image<&'a [u8]>,
    soname: Option<&'a [u8]>,
    needed: Vec<&'a [u8]>,
    is_program: bool,
}

/// Why a set is not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// Nothing was named.
    Empty,
    /// There is no program in it, so that nothing is known about what programs copy and replace.
    NoProgram,
    /// A member needs a library that is no member.
    Missing {
        /// The library's name (DT_NEEDED).
        library: String,
        /// The label of the member that needs it.
        by: String,
    },
}

impl std::fmt::Display for Open {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(out, "no closed set of programs and libraries was named"),
            Self::NoProgram => write!(out, "there is no program in the closed set"),
            Self::Missing { library, by } => {
                write!(out, "the set is not closed: '{library}', which '{by}' needs, is not in it")
            }
        }
    }
}

/// Functions that malloc replacements and tools for finding memory errors put before everyone else's by LD_PRELOAD.
pub(crate) fn is_allocator(symbol: &[u8]) -> bool {
    const NAMES: [&[u8]; 12] = [
        b"malloc",
        b"free",
        b"calloc",
        b"realloc",
        b"reallocarray",
        b"memalign",
        b"aligned_alloc",
        b"posix_memalign",
        b"valloc",
        b"pvalloc",
        b"malloc_usable_size",
        b"cfree",
    ];
    // operator new, new[], delete, delete[].
    let operators: [&[u8]; 4] = [b"_Znw", b"_Zna", b"_Zdl", b"_Zda"];
    NAMES.contains(&symbol) || operators.iter().any(|prefix| symbol.starts_with(prefix))
}

impl<'a> ClosedSet<'a> {
    /// Looks at every member. Files without a dynamic section, in which nothing is ever looked up, are left out.
    ///
    /// # Errors
    /// A member is not an ELF file, or is damaged ([`Exit::Data`]).
    pub fn new(members: Vec<Member<'a>>, later: Later) -> Result<Self> {
        let known = |Member { label, bytes }: Member<'a>| {
            let unusable = |miss: elf::Miss| Error::new(Exit::Data, "cannot read", &label).because(miss.to_string());
            let image = Image::of(bytes).map_err(unusable)?;
            let Some(dynamic) = &image.dynamic else { return Ok(None) };
            let soname = dynamic.value(DT_SONAME).and_then(|at| image.string(at));
            let needed = dynamic.values(DT_NEEDED).filter_map(|at| image.string(at)).collect();
            let is_program = image.kind == ET_EXEC || (image.interpreter.is_some() && soname.is_none());
            Ok(Some(Known { label, bytes, soname, needed, is_program, image }))
        };
        let members = members.into_iter().map(known).collect::<Result<Vec<_>>>()?;
        Ok(Self { members: members.into_iter().flatten().collect(), later })
    }

    /// Members for the processor of the file; others never meet it in a process.
    fn fellows(&self, file: &Image<&[u8]>) -> Vec<&Known<'a>> {
        let kind = (file.machine, file.class);
        self.members.iter().filter(|member| (member.image.machine, member.image.class) == kind).collect()
    }

    /// Whether the set, with the file itself, is closed.
    fn check(members: &[&Known<'_>], own: &Own<'_>) -> std::result::Result<(), Open> {
        if members.is_empty() {
            return Err(Open::Empty);
        }
        if !members.iter().any(|member| member.is_program) {
            return Err(Open::NoProgram);
        }
        let named = |name: &[u8]| {
            own.soname == Some(name)
                || members.iter().any(|member| {
                    // Without a name of its own, a library goes by that of its file.
                    let file = || Path::new(&member.label).file_name().map(std::ffi::OsStr::as_encoded_bytes);
                    member.soname.or_else(file) == Some(name)
                })
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for name in &own.needed {
            if !named(name) {
                return Err(Open::Missing { library: text(name), by: "the file itself".to_owned() });
            }
        }
        for member in members {
            if let Some(library) = member.needed.iter().find(|name| !named(name)) {
                return Err(Open::Missing { library: text(library), by: member.label.clone() });
            }
        }
        Ok(())
    }

    /// For each symbol that `file` defines, by index: whether the loader must find this definition, and if not, why
    /// not. `None` for symbols that the file does not define.
    pub(super) fn prove<'f>(&self, file: &'f Image<&'f [u8]>) -> std::result::Result<Proof<'f>, Open> {
        let own = Own::of(file);
        let members = self.fellows(file);
        Self::check(&members, &own)?;
        let mut proof = Proof { by_name: HashMap::new() };
        for symbol in file.dynamic_symbols().iter().flat_map(elf::SymbolTable::iter).filter(Symbol::is_defined) {
            let verdict = Verdict { hindrance: own_hindrance(&symbol, self.later), file: None };
            let known =
                proof.by_name.entry(symbol.name).and_modify(|known| known.hindrance = Some(Hindrance::SeveralVersions));
            known.or_insert(verdict);
        }
        for member in members.into_iter().filter(|member| !own.is(member)) {
            let mut hold = |name: &[u8], hindrance: Hindrance| {
                if let Some(verdict) = proof.by_name.get_mut(name) {
                    // What a copy says about the symbol is more than that the program has it.
                    if verdict.hindrance.is_none() || hindrance == Hindrance::Copied {
                        *verdict = Verdict { hindrance: Some(hindrance), file: Some(member.label.clone()) };
                    }
                }
            };
            let Some(symbols) = member.image.dynamic_symbols() else { continue };
            for symbol in symbols.iter() {
                let visible = symbol.bind != STB_LOCAL && !matches!(symbol.visibility, STV_HIDDEN | STV_INTERNAL);
                if visible && symbol.is_defined() {
                    hold(symbol.name, Hindrance::DefinedElsewhere);
                } else if visible && symbol.address != 0 {
                    hold(symbol.name, Hindrance::AddressInProgram);
                }
            }
            // Tables that cannot be read say nothing: the member's own loader would not load it either.
            for relocation in member.image.relocations().iter().flatten().flat_map(|table| table.iter()) {
                if elf::meaning(member.image.machine, relocation.kind) == Meaning::Copy
                    && let Some(symbol) = symbols.get(relocation.symbol as usize)
                {
                    hold(symbol.name, Hindrance::Copied);
                }
            }
        }
        Ok(proof)
    }
}

/// The file that the proof is about.
struct Own<'f> {
    bytes: &'f [u8],
    soname: Option<&'f [u8]>,
    needed: Vec<&'f [u8]>,
}

impl<'f> Own<'f> {
    fn of(file: &Image<&'f [u8]>) -> Self {
        let dynamic = file.dynamic.as_ref();
        let soname = dynamic.and_then(|dynamic| dynamic.value(DT_SONAME)).and_then(|at| file.string(at));
        let needed = dynamic.into_iter().flat_map(|dynamic| dynamic.values(DT_NEEDED));
        Self { bytes: file.data, soname, needed: needed.filter_map(|at| file.string(at)).collect() }
    }

    /// A process holds one library of a name: this one, packed or not.
    fn is(&self, member: &Known<'_>) -> bool {
        match self.soname {
            Some(name) => member.soname == Some(name),
            None => member.bytes == self.bytes,
        }
    }
}

/// What is known about the symbols that a file defines.
pub(super) struct Proof<'f> {
    by_name: HashMap<&'f [u8], Verdict>,
}

struct Verdict {
    hindrance: Option<Hindrance>,
    file: Option<String>,
}

impl Proof<'_> {
    /// Why the loader may find another definition of this symbol, and because of which file.
    pub(super) fn hindrance(&self, symbol: &Symbol<'_>) -> Option<(Hindrance, Option<&str>)> {
        let verdict = self.by_name.get(symbol.name)?;
        Some((verdict.hindrance?, verdict.file.as_deref()))
    }
}

/// What the symbol itself says.
fn own_hindrance(symbol: &Symbol<'_>, later: Later) -> Option<Hindrance> {
    // typeinfo, its name, and guards of inline variables: every library that uses the type may have one.
    let vague = [&b"_ZTI"[..], b"_ZTS", b"_ZGV"].iter().any(|prefix| symbol.name.starts_with(prefix));
    match () {
        () if symbol.bind == STB_GNU_UNIQUE => Some(Hindrance::Unique),
        () if symbol.kind == STT_GNU_IFUNC => Some(Hindrance::Indirect),
        () if symbol.section == SHN_ABS.0 => Some(Hindrance::Absolute),
        // The loader does not find symbols at address 0.
        () if symbol.address == 0 => Some(Hindrance::NotInFile),
        () if is_allocator(symbol.name) => Some(Hindrance::Allocator),
        () if vague && symbol.bind == STB_WEAK && symbol.kind == STT_OBJECT && later == Later::Anything => {
            Some(Hindrance::TypeInformation)
        }
        () => None,
    }
}
