//! Where the functions of an ELF file begin: from `.symtab` or Go's own table of functions, else from `.eh_frame`, else
//! from `.dynsym`. Pure, and for any bytes: what is damaged ends the list, not the program.
//!
//! Everything is in offsets of the file, not in addresses: that is what a mapping and a page have.

use super::{go_table, unwind};
use elf::Miss;
use model::StartsFrom;
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PF_X, PT_LOAD, SHF_EXECINSTR, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB};
use object::elf::{PT_GNU_EH_FRAME, STB_LOCAL, STB_WEAK, STT_FILE, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// A function, or a part of one that the compiler put elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is; 0: not known.
    pub len: u64,
}

/// The functions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starts {
    /// Where most of them were taken from.
    pub from: StartsFrom,
    /// By offset, each offset once.
    pub functions: Vec<Function>,
    /// Places that the tracer watches for its own purposes.
    pub hooks: Hooks,
    /// Code that the program copies elsewhere and runs there: what is changed in it runs where it does not belong.
    pub copied: Option<Range<u64>>,
}

/// Places of a file by their names; offsets in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Where the program begins, of files that can be one.
    pub entry: Option<u64>,
    /// `_dl_debug_state`: the loader calls it when it has mapped or unmapped libraries.
    pub loader: Option<u64>,
    /// `_dl_relocate_object`: when the loader first calls it, all is mapped that the program names, and none of it has
    /// run.
    pub relocating: Option<u64>,
    /// `sigaction` of the C library: what others put in front of it calls it.
    pub sigaction: Option<u64>,
    /// `ptrace`
    pub ptrace: Option<u64>,
}

/// Functions of an ELF file, by offset.
///
/// # Errors
/// It is not an ELF file, or its headers are damaged.
pub fn function_starts(bytes: &[u8]) -> Result<Starts, Miss> {
    match bytes.get(4) {
        Some(1) => starts::<FileHeader32<Endianness>>(bytes),
        _ => starts::<FileHeader64<Endianness>>(bytes),
    }
}

/// Places that the tracer watches for its own purposes, alone.
///
/// # Errors
/// It is not an ELF file, or its headers are damaged.
pub fn hooks(bytes: &[u8]) -> Result<Hooks, Miss> {
    match bytes.get(4) {
        Some(1) => open::<FileHeader32<Endianness>>(bytes).map(|opened| opened.hooks()),
        _ => open::<FileHeader64<Endianness>>(bytes).map(|opened| opened.hooks()),
    }
}

/// A function by one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Where.
    pub function: Function,
    /// As the linker knows it, without a version.
    pub symbol: &'a [u8],
    /// The loader calls it to choose the function that others call by that name.
    pub chooses: bool,
}

/// Calls `each` with the functions of an ELF file by each of their names: those of its symbol tables, and of Go's own
/// where these have none.
pub fn each_named<'a>(bytes: &'a [u8], mut each: impl FnMut(Named<'a>)) {
    let _ = match bytes.get(4) {
        Some(1) => open::<FileHeader32<Endianness>>(bytes).map(|opened| opened.each_named(&mut each)),
        _ => open::<FileHeader64<Endianness>>(bytes).map(|opened| opened.each_named(&mut each)),
    };
}

/// Names of functions by offset in the file, as the linker knows them.
#[derive(Debug, Default)]
pub struct Names<'a> {
    /// By address: the binding's rank and the name.
    best: HashMap<u64, (u8, &'a [u8])>,
    /// By address of a static function: the source of its object file.
    sources: HashMap<u64, &'a [u8]>,
    /// How many places have each name.
    places: HashMap<&'a [u8], u32>,
    texts: Texts,
}

impl<'a> Names<'a> {
    /// From `.symtab`; where there is none, from `.dynsym` and Go's table of functions. Of several names for one place
    /// a global one counts, then the shortest, then the first by alphabet.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self::of_symbols(bytes, bytes)
    }

    /// The same for a stripped program whose symbols are in a file of their own (an unstripped copy, or a `.debug`
    /// file).
    pub fn of_symbols(symbols: &'a [u8], program: &[u8]) -> Self {
        let mut names = Self { texts: Texts::of(program), ..Self::default() };
        match symbols.get(4) {
            Some(1) => names.take::<FileHeader32<Endianness>>(symbols),
            _ => names.take::<FileHeader64<Endianness>>(symbols),
        }
        for (_, name) in names.best.values() {
            *names.places.entry(name).or_default() += 1;
        }
        names
    }

    fn take<Elf: FileHeader<Endian = Endianness>>(&mut self, bytes: &'a [u8]) {
        let Ok(opened) = open::<Elf>(bytes) else { return };
        self.sources = opened.sources();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            opened.each_symbol(kind, |address, symbol, name| {
                let rank = match symbol.st_bind() {
                    STB_LOCAL => 2,
                    STB_WEAK => 1,
                    _ => 0,
                };
                // `memcpy@@GLIBC_2.14`: the version is not part of the name.
                let name = name.split(|byte| *byte == b'@').next().unwrap_or_default();
                let better = |known: &(u8, &[u8])| (rank, name.len(), name) < (known.0, known.1.len(), known.1);
                if !name.is_empty() && self.best.get(&address).is_none_or(better) {
                    self.best.insert(address, (rank, name));
                }
            });
            if !self.best.is_empty() && kind == SHT_SYMTAB {
                return;
            }
        }
        for function in go_table::functions(opened.header, bytes) {
            self.best.entry(function.address).or_insert((0, function.name));
        }
    }

    /// The name of the function that begins at an offset. Bytes that are not UTF-8 become U+FFFD.
    pub fn get(&self, offset: u64) -> Option<String> {
        let (_, name) = self.best.get(&self.texts.address_of(offset)?)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Whether other functions have the name of this one too, as static functions may.
    pub fn is_shared(&self, offset: u64) -> bool {
        let place = self.texts.address_of(offset).and_then(|address| self.best.get(&address));
        place.is_some_and(|(_, name)| self.places.get(name).is_some_and(|places| *places > 1))
    }

    /// The source of the object file that a static function is from, as its compiler was told of it.
    pub fn source(&self, offset: u64) -> Option<String> {
        let source = self.sources.get(&self.texts.address_of(offset)?)?;
        Some(String::from_utf8_lossy(source).into_owned())
    }

    /// How many functions have a name.
    pub fn count(&self) -> usize {
        self.best.len()
    }
}

/// An executable segment: address, offset in the file, bytes in the file.
#[derive(Clone, Copy, Debug)]
struct Text {
    address: u64,
    offset: u64,
    len: u64,
}

/// What lies in the file at which address, of executable segments only.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<Text>);

impl Texts {
    /// Of an ELF file; nothing of anything else.
    pub(super) fn of(program: &[u8]) -> Self {
        let texts = match program.get(4) {
            Some(1) => open::<FileHeader32<Endianness>>(program).map(|opened| opened.texts),
            _ => open::<FileHeader64<Endianness>>(program).map(|opened| opened.texts),
        };
        texts.unwrap_or_default()
    }

    /// Offset in the file and bytes of each piece of code.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|text| (text.offset, text.len))
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        self.0.iter().find_map(|text| {
            let inside = address.checked_sub(text.address)?;
            (inside < text.len).then(|| text.offset.checked_add(inside)).flatten()
        })
    }

    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        self.0.iter().find_map(|text| {
            let inside = offset.checked_sub(text.offset)?;
            (inside < text.len).then(|| text.address.checked_add(inside)).flatten()
        })
    }
}

/// What Go's linker fills the room between functions with, on x86: `int3`.
const FILLER: u8 = 0xcc;

/// The ELF file, opened far enough for both questions.
struct Opened<'a, Elf: FileHeader<Endian = Endianness>> {
    header: &'a Elf,
    endian: Endianness,
    texts: Texts,
    bytes: &'a [u8],
}

fn open<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Opened<'_, Elf>, Miss> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Miss::NotElf);
    }
    let damaged = |error: object::Error| Miss::Damaged(error.to_string());
    let header = Elf::parse(bytes).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let segments = header.program_headers(endian, bytes).map_err(damaged)?;
    let executable = segments.iter().filter(|it| it.p_type(endian) == PT_LOAD && it.p_flags(endian).0 & PF_X.0 != 0);
    let texts = executable.map(|segment| {
        let offset: u64 = segment.p_offset(endian).into();
        let len: u64 = segment.p_filesz(endian).into();
        Text {
            address: segment.p_vaddr(endian).into(),
            offset,
            len: len.min((bytes.len() as u64).saturating_sub(offset)),
        }
    });
    Ok(Opened { header, endian, texts: Texts(texts.collect()), bytes })
}

fn starts<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Starts, Miss> {
    let opened = open::<Elf>(bytes)?;
    let mut functions = opened.symbols(SHT_SYMTAB);
    if functions.is_empty() {
        functions = opened.of_go();
    }
    let mut from = StartsFrom::Symbols;
    let unwound = opened.unwound();
    if functions.is_empty() {
        from = StartsFrom::Unwind;
        functions = unwound;
        if functions.is_empty() {
            from = StartsFrom::Exports;
            functions = opened.symbols(SHT_DYNSYM);
        }
    } else {
        // Code in assembly often has unwind tables but no symbols with a type.
        let known = merged(functions);
        let inside = |function: &Function| {
            let next = known.partition_point(|other| other.offset <= function.offset);
            next.checked_sub(1).is_some_and(|last| {
                let known: &Function = &known[last];
                function.offset == known.offset || function.offset - known.offset < known.len
            })
        };
        let more: Vec<Function> = unwound.into_iter().filter(|function| !inside(function)).collect();
        functions = known;
        functions.extend(more);
    }
    Ok(Starts { from, functions: merged(functions), hooks: opened.hooks(), copied: opened.builtins() })
}

/// Sorted; of several functions at one place, the longest.
fn merged(mut functions: Vec<Function>) -> Vec<Function> {
    functions.sort_unstable_by_key(|function| (function.offset, std::cmp::Reverse(function.len)));
    functions.dedup_by_key(|function| function.offset);
    functions
}

impl<'a, Elf: FileHeader<Endian = Endianness>> Opened<'a, Elf> {
    /// Calls `each` with the defined functions of a symbol table that lie in the file: offset in it, symbol, name.
    fn each_function(&self, kind: object::elf::SectionType, mut each: impl FnMut(u64, &Elf::Sym, &'a [u8])) {
        self.each_symbol(kind, |address, symbol, name| {
            if let Some(offset) = self.texts.offset_of(address) {
                each(offset, symbol, name);
            }
        });
    }

    fn each_named(&self, each: &mut impl FnMut(Named<'a>)) {
        let mut has_symbols = false;
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            self.each_function(kind, |offset, symbol, name| {
                has_symbols |= kind == SHT_SYMTAB;
                let function = Function { offset, len: symbol.st_size(self.endian).into() };
                // `memcpy@@GLIBC_2.14`: the version is not part of the name.
                let symbol_name = name.split(|byte| *byte == b'@').next().unwrap_or_default();
                each(Named { function, symbol: symbol_name, chooses: symbol.st_type() == STT_GNU_IFUNC });
            });
        }
        if has_symbols {
            return;
        }
        for function in go_table::functions(self.header, self.bytes) {
            if let Some(offset) = self.texts.offset_of(function.address) {
                let place = Function { offset, len: function.len };
                each(Named { function: place, symbol: function.name, chooses: false });
            }
        }
    }

    /// Calls `each` with the defined functions of a symbol table: address, symbol, name.
    fn each_symbol(&self, kind: object::elf::SectionType, mut each: impl FnMut(u64, &Elf::Sym, &'a [u8])) {
        let Ok(sections) = self.header.sections(self.endian, self.bytes) else { return };
        let Ok(symbols) = sections.symbols(self.endian, self.bytes, kind) else { return };
        for symbol in symbols.iter() {
            let function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
            if !function || symbol.st_shndx(self.endian) == SHN_UNDEF {
                continue;
            }
            let name = symbol.name(self.endian, symbols.strings()).unwrap_or_default();
            each(symbol.st_value(self.endian).into(), symbol, name);
        }
    }

    /// By address of a local function: the name of the file that was compiled, which stands in front of the local
    /// symbols of its object file.
    fn sources(&self) -> HashMap<u64, &'a [u8]> {
        let mut sources = HashMap::new();
        let Ok(sections) = self.header.sections(self.endian, self.bytes) else { return sources };
        let Ok(symbols) = sections.symbols(self.endian, self.bytes, SHT_SYMTAB) else { return sources };
        let mut source = None;
        for symbol in symbols.iter().filter(|symbol| symbol.st_bind() == STB_LOCAL) {
            match symbol.st_type() {
                STT_FILE => source = symbol.name(self.endian, symbols.strings()).ok().filter(|name| !name.is_empty()),
                STT_FUNC | STT_GNU_IFUNC => {
                    if let Some(source) = source {
                        sources.insert(symbol.st_value(self.endian).into(), source);
                    }
                }
                _ => {}
            }
        }
        sources
    }

    fn symbols(&self, kind: object::elf::SectionType) -> Vec<Function> {
        let mut functions = Vec::new();
        self.each_function(kind, |offset, symbol, _| {
            functions.push(Function { offset, len: symbol.st_size(self.endian).into() });
        });
        functions
    }

    /// The functions that a Go program knows of itself.
    fn of_go(&self) -> Vec<Function> {
        let functions = go_table::functions(self.header, self.bytes).into_iter();
        let function = |function: go_table::GoFunction<'_>| {
            let offset = self.texts.offset_of(function.address)?;
            let end = usize::try_from(offset.checked_add(function.len)?).ok()?;
            let code = self.bytes.get(usize::try_from(offset).ok()?..end)?;
            // What fills up to the next function is no part of it. One of a byte or none marks a place.
            let len = code.iter().rposition(|byte| *byte != FILLER).map_or(0, |last| last + 1);
            (len > 0).then_some(Function { offset, len: len as u64 })
        };
        functions.filter_map(function).collect()
    }

    fn hooks(&self) -> Hooks {
        // Libraries have no entry, which is 0, and that may be the address of their first byte.
        let entry = Some(self.header.e_entry(self.endian).into()).filter(|entry| *entry != 0);
        let mut hooks = Hooks { entry: entry.and_then(|entry| self.texts.offset_of(entry)), ..Hooks::default() };
        let mut is_c_library = false;
        for kind in [SHT_DYNSYM, SHT_SYMTAB] {
            self.each_function(kind, |offset, _, name| match name {
                b"_dl_debug_state" => hooks.loader = hooks.loader.or(Some(offset)),
                b"_dl_relocate_object" => hooks.relocating = hooks.relocating.or(Some(offset)),
                b"sigaction" => hooks.sigaction = hooks.sigaction.or(Some(offset)),
                b"ptrace" => hooks.ptrace = hooks.ptrace.or(Some(offset)),
                b"__libc_start_main" => is_c_library = true,
                _ => {}
            });
        }
        hooks.sigaction = hooks.sigaction.filter(|_| is_c_library);
        hooks
    }

    /// The builtins of V8 (Node, Electron, Chromium), which it copies to where its compiled code lies: from the symbol
    /// in front of them to the end of the last one.
    fn builtins(&self) -> Option<Range<u64>> {
        let mut end = None;
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            self.each_function(kind, |offset, symbol, name| {
                if name.starts_with(b"Builtins_") {
                    end = end.max(Some(offset.saturating_add(symbol.st_size(self.endian).into())));
                }
            });
        }
        let end = end?;
        let sections = self.header.sections(self.endian, self.bytes).ok()?;
        [SHT_SYMTAB, SHT_DYNSYM].into_iter().find_map(|kind| {
            let symbols = sections.symbols(self.endian, self.bytes, kind).ok()?;
            let begins = symbols.iter().find(|symbol| {
                let name = symbol.name(self.endian, symbols.strings()).unwrap_or_default();
                name.starts_with(b"v8_") && name.ends_with(b"_embedded_blob_code_")
            })?;
            Some(self.texts.offset_of(begins.st_value(self.endian).into())?..end)
        })
    }

    /// Functions that can be unwound. The entries of `.plt` can, but nobody wrote them.
    fn unwound(&self) -> Vec<Function> {
        let Some((address, table)) = self.eh_frame() else { return Vec::new() };
        let stubs = self.stubs();
        let is_stub = |offset: u64| stubs.iter().any(|(start, len)| offset >= *start && offset - start < *len);
        let is_64 = self.header.is_type_64();
        let functions = unwind::functions(table, address, self.endian, is_64);
        functions
            .filter_map(|(address, len)| Some(Function { offset: self.texts.offset_of(address)?, len }))
            .filter(|function| !is_stub(function.offset))
            .collect()
    }

    /// `.eh_frame` and its address: by the section's name, else by what `.eh_frame_hdr` points to.
    fn eh_frame(&self) -> Option<(u64, &'a [u8])> {
        self.eh_frame_of_sections().or_else(|| self.eh_frame_of_header())
    }

    fn eh_frame_of_sections(&self) -> Option<(u64, &'a [u8])> {
        let sections = self.header.sections(self.endian, self.bytes).ok()?;
        let named = |section: &&Elf::SectionHeader| {
            sections.section_name(self.endian, section).is_ok_and(|name| name == b".eh_frame")
        };
        let section = sections.iter().find(named)?;
        let data = section.data(self.endian, self.bytes).ok().filter(|data| !data.is_empty())?;
        Some((section.sh_addr(self.endian).into(), data))
    }

    fn eh_frame_of_header(&self) -> Option<(u64, &'a [u8])> {
        let segments = self.header.program_headers(self.endian, self.bytes).ok()?;
        let header = segments.iter().find(|segment| segment.p_type(self.endian) == PT_GNU_EH_FRAME)?;
        let data = header.data(self.endian, self.bytes).ok()?;
        let is_64 = self.header.is_type_64();
        let address = unwind::eh_frame_address(data, header.p_vaddr(self.endian).into(), self.endian, is_64)?;
        segments.iter().filter(|segment| segment.p_type(self.endian) == PT_LOAD).find_map(|segment| {
            let skip = address.checked_sub(segment.p_vaddr(self.endian).into())?;
            let data = segment.data(self.endian, self.bytes).ok()?.get(usize::try_from(skip).ok()?..)?;
            (!data.is_empty()).then_some((address, data))
        })
    }

    /// The sections of linkage stubs.
    fn stubs(&self) -> Vec<(u64, u64)> {
        let Ok(sections) = self.header.sections(self.endian, self.bytes) else { return Vec::new() };
        let stub = |section: &&Elf::SectionHeader| {
            section.sh_flags(self.endian).0 & SHF_EXECINSTR.0 != 0
                && sections.section_name(self.endian, section).is_ok_and(|name| name.starts_with(b".plt"))
        };
        let range =
            |section: &Elf::SectionHeader| (section.sh_offset(self.endian).into(), section.sh_size(self.endian).into());
        sections.iter().filter(stub).map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// A program with symbols, unwind tables and several executable sections: this test.
    static REAL: LazyLock<Vec<u8>> =
        LazyLock::new(|| std::fs::read(std::env::current_exe().unwrap()).expect("this test's own file"));

    fn look(bytes: &[u8]) {
        Names::of(bytes);
        if let Ok(starts) = function_starts(bytes) {
            assert!(starts.functions.is_sorted_by(|one, next| one.offset < next.offset), "each place once");
            assert!(starts.functions.iter().all(|function| function.offset < bytes.len() as u64));
        }
    }

    #[test]
    fn a_program_with_symbols_has_all_its_functions_with_names() {
        let starts = function_starts(&REAL).unwrap();
        assert_eq!(starts.from, StartsFrom::Symbols);
        let names = Names::of(&REAL);
        let named = starts.functions.iter().filter(|function| names.get(function.offset).is_some()).count();
        assert!(named > 1000 && named * 10 > starts.functions.len() * 9, "{named} of {}", starts.functions.len());
        assert!(starts.hooks.entry.is_some());
    }

    #[test]
    fn unwind_tables_say_the_same_as_symbols() {
        let opened = open::<FileHeader64<Endianness>>(&REAL).unwrap();
        let by_symbols = merged(opened.symbols(SHT_SYMTAB));
        let by_unwind = merged(opened.unwound());
        let compiled = by_symbols.iter().filter(|function| function.len > 0);
        let (mut both, mut all) = (0, 0);
        for function in compiled {
            all += 1;
            both += usize::from(by_unwind.binary_search(function).is_ok());
        }
        assert!(both * 100 > all * 95, "{both} of {all} functions have the same place and length in both");
    }

    #[test]
    fn the_header_finds_the_table_that_the_section_names() {
        let opened = open::<FileHeader64<Endianness>>(&REAL).unwrap();
        let (by_section, by_header) = (opened.eh_frame_of_sections().unwrap(), opened.eh_frame_of_header().unwrap());
        assert_eq!(by_section.0, by_header.0);
        assert!(by_header.1.starts_with(by_section.1), "what follows the section follows its terminator");
        let count = |(address, table)| unwind::functions(table, address, Endianness::Little, true).count();
        assert_eq!(count(by_section), count(by_header));
    }

    /// What another reader of the same format finds.
    #[test]
    fn the_walk_finds_what_gimli_finds() {
        use gimli::UnwindSection;
        let opened = open::<FileHeader64<Endianness>>(&REAL).unwrap();
        let (address, table) = opened.eh_frame().unwrap();
        let frame = gimli::EhFrame::new(table, gimli::LittleEndian);
        let bases = gimli::BaseAddresses::default().set_eh_frame(address);
        let mut entries = frame.entries(&bases);
        let mut expected = Vec::new();
        while let Some(entry) = entries.next().unwrap() {
            if let gimli::CieOrFde::Fde(partial) = entry {
                let fde = partial.parse(gimli::EhFrame::cie_from_offset).unwrap();
                if !fde.is_signal_trampoline() {
                    expected.push((fde.initial_address(), fde.len()));
                }
            }
        }
        let found: Vec<_> = unwind::functions(table, address, Endianness::Little, true).collect();
        assert!(found.len() > 1000);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_real_program_cut_off_anywhere() {
        let len = REAL.len();
        for cut in (0..2048).step_by(7).chain((0..24).map(|part| len / 24 * part)) {
            look(&REAL[..cut]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_real_program_with_changed_bytes(changes in prop::collection::vec((0..4096_usize, any::<u8>()), 1..12), at_end: bool) {
            let mut bytes = REAL.clone();
            let len = bytes.len();
            for (place, value) in changes {
                bytes[if at_end { len - 1 - place } else { place }] = value;
            }
            look(&bytes);
        }

        #[test]
        fn tables_of_noise(noise in prop::collection::vec(any::<u8>(), 0..400), is_64: bool, address: u64) {
            let end = if is_64 { Endianness::Little } else { Endianness::Big };
            unwind::functions(&noise, address, end, is_64).for_each(drop);
            unwind::eh_frame_address(&noise, address, end, is_64);
        }
    }
}
