//! The oracle itself is tested: it finds every planted fault, lets pass what was announced and nothing else, and takes
//! whatever bytes there are.

mod common;

use common::view::{Field, View};
use common::{Linker, Machine, Programs, Variant, Workshop, place};
use pack::{Options, Outcome, Space, Why, pack_bytes};
use proptest::prelude::*;
use std::sync::LazyLock;
use verify::{Allowed, Expected, Kind, Word, offline, offline_expecting};

/// A file, and a packed form of it that is right.
struct Pair {
    name: String,
    original: Vec<u8>,
    packed: Vec<u8>,
}

/// The same objects, linked so that the file has DT_RELR from the beginning: faults show without any packer.
const PACKED_BY_BFD: Variant =
    Variant { name: "relr", flags: &["-Wl,-z,pack-relative-relocs", "-Wl,--build-id=sha1"], linkers: &[Linker::Bfd] };
const PLAIN: Variant = Variant { name: "plain", flags: &["-Wl,--build-id=sha1"], linkers: &[Linker::Bfd] };

struct Built {
    relr: Programs,
    plain: Programs,
}

static BUILT: LazyLock<Result<Built, String>> = LazyLock::new(|| {
    let workshop = Workshop::new(Machine::X86_64, &place("oracle"))?;
    let relr = workshop.link(Linker::Bfd, &PACKED_BY_BFD)?;
    let plain = workshop.link(Linker::Bfd, &PLAIN)?;
    Ok(Built { relr, plain })
});

/// What was built; otherwise the test is skipped with the reason.
fn built() -> Option<&'static Built> {
    BUILT.as_ref().map_err(|reason| testing::skip(reason)).ok()
}

fn pairs(part: &str) -> Vec<Pair> {
    let Some(built) = built() else { return Vec::new() };
    let read = |programs: &Programs| std::fs::read(programs.path(part)).expect("a part that was linked");
    let relr = read(&built.relr);
    let mut pairs = vec![Pair { name: format!("{part} by bfd"), original: relr.clone(), packed: relr }];
    for space in [Space::Shrink, Space::Keep] {
        let original = read(&built.plain);
        let (outcome, packed) = pack_bytes(&original, &Options { space, ..Options::default() }).expect("no error");
        let packed = packed.unwrap_or_else(|| panic!("{part} is packed: {outcome:?}"));
        assert!(matches!(outcome, Outcome::Packed(_)));
        pairs.push(Pair { name: format!("{part} by thaw, {space:?}"), original, packed });
    }
    pairs
}

/// A fault: its name, and what plants it.
type Fault = (&'static str, fn(&mut View));

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RELASZ: u64 = 8;
const DT_RELR: u64 = 36;
const DT_RELRSZ: u64 = 35;
const DT_RELRENT: u64 = 37;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const R_64: u32 = 1;
const R_GLOB_DAT: u32 = 6;
const R_RELATIVE: u32 = 8;
const PT_TLS: u32 = 7;
const PT_RELRO: u32 = 0x6474_e552;
const PT_STACK: u32 = 0x6474_e551;
const PT_EH_FRAME: u32 = 0x6474_e550;

/// Faults that every object can have.
const FAULTS: &[Fault] = &[
    // Memory.
    ("a byte of the code", |file| file.flip(file.section(".text").offset + 20)),
    ("a byte of the constants", |file| file.flip(file.section(".rodata").offset + 3)),
    ("the last byte of the unwind table", |file| {
        let section = file.section(".eh_frame");
        // The terminator's last byte.
        file.flip(section.offset + section.len - 1);
    }),
    ("an addend under DT_RELR", |file| file.add(file.section(".data.rel.ro").offset, 8)),
    ("an addend under DT_RELR, to another page", |file| file.add(file.section(".data.rel.ro").offset + 800, 4096)),
    ("a byte of the thread-local template", |file| file.flip(file.section(".tdata").offset)),
    ("an initialiser", |file| file.add(file.section(".init_array").offset, 16)),
    ("two initialisers exchanged", |file| {
        let at = file.section(".init_array").offset;
        file.swap(at, at + 8, 8);
    }),
    ("a slot of the lazy PLT", |file| file.add(file.section(".got.plt").offset + 32, 1)),
    // DT_RELR.
    ("a RELR word lost", |file| {
        let place = file.value_place(DT_RELRSZ);
        file.add(place, 8_u64.wrapping_neg());
    }),
    ("a RELR word too many", |file| {
        let place = file.value_place(DT_RELRSZ);
        file.add(place, 8);
    }),
    ("a bit of a RELR bitmap cleared", |file| {
        let place = bitmap(file);
        let word = file.u64(place);
        file.set_u64(place, word & !(1 << (63 - word.leading_zeros())));
    }),
    ("a bit of a RELR bitmap moved", |file| {
        let place = bitmap(file);
        let word = file.u64(place);
        file.set_u64(place, (word >> 1) | 1);
    }),
    ("the first RELR address", |file| file.add(file.table(DT_RELR), 8)),
    ("a RELR address in the code", |file| {
        let code = file.section(".text").address & !7;
        file.set_u64(file.table(DT_RELR), code);
    }),
    ("a RELR address outside", |file| file.set_u64(file.table(DT_RELR), 1 << 40)),
    ("the RELR table begins with a bitmap", |file| file.set_u64(file.table(DT_RELR), 3)),
    ("an address that is right at the first base alone", |file| {
        let (place, address) = bitmap_at(file);
        let word = file.u64(place);
        let highest = 63 - word.leading_zeros();
        file.set_u64(place, word & !(1 << highest));
        let at = file.offset(address + 8 * u64::from(highest - 1));
        file.add(at, FIRST_BASE);
    }),
    ("DT_RELRENT", |file| file.set_u64(file.value_place(DT_RELRENT), 24)),
    ("DT_RELR elsewhere", |file| {
        let place = file.value_place(DT_RELR);
        file.add(place, 8);
    }),
    ("DT_RELR gone", |file| file.set_u64(file.tag(DT_RELR).unwrap(), 0x6000_0001)),
    // Other relocations.
    ("the last symbolic relocation lost", |file| {
        let place = file.value_place(DT_RELASZ);
        file.add(place, 24_u64.wrapping_neg());
    }),
    ("an addend of a symbolic relocation", |file| file.add(file.relocations(R_64)[0] + 16, 1)),
    ("the symbol of a relocation", |file| {
        let place = file.relocations(R_GLOB_DAT)[0] + 12;
        file.set_u32(place, file.u32(place) + 1);
    }),
    ("the type of a relocation", |file| file.set_u32(file.relocations(R_GLOB_DAT)[0] + 8, R_64)),
    ("the place of a relocation", |file| file.add(file.relocations(R_GLOB_DAT)[0], 8)),
    ("a symbolic relocation made relative", |file| file.set_u64(file.relocations(R_64)[0] + 8, 8)),
    ("two relocations of the PLT exchanged", |file| {
        let at = file.table(DT_JMPREL);
        file.swap(at, at + 24, 24);
    }),
    ("a relocation of the PLT lost", |file| file.add(file.value_place(2), 24_u64.wrapping_neg())),
    ("DT_RELACOUNT too large", |file| append(file, 0x6fff_fff9, 1000)),
    ("DT_RELAENT", |file| file.set_u64(file.value_place(9), 16)),
    // Symbols, versions, hash tables.
    ("the value of a symbol", |file| file.add(file.symbol_place("corpus_note") + 8, 4)),
    ("the size of a symbol", |file| file.add(file.symbol_place("corpus_note") + 16, 1)),
    ("the name of a symbol", |file| {
        let place = file.symbol_place("corpus_note");
        file.set_u32(place, file.u32(place) + 1);
    }),
    ("a letter of the name of a symbol that no relocation names", |file| {
        let at = file.table(DT_STRTAB) + file.u32(unnamed_symbol(file)) as usize;
        file.bytes[at + 1] = b'0';
    }),
    ("the binding of a symbol", |file| file.flip(file.symbol_place("corpus_note") + 4)),
    ("the visibility of a symbol", |file| file.xor(file.symbol_place("corpus_note") + 5, 2)),
    ("the section of a symbol", |file| file.xor(file.symbol_place("corpus_note") + 6, 1)),
    ("the version of a symbol", |file| {
        let place = file.table(DT_VERSYM) + 2 * file.symbol("strlen");
        file.set_u16(place, 1);
    }),
    ("the hash of a version", |file| file.flip(file.version_need("GLIBC_ABI_DT_RELR"))),
    ("the name of a version", |file| {
        let at = file.table(DT_STRTAB) + file.u32(file.version_need("GLIBC_ABI_DT_RELR") + 8) as usize;
        file.bytes[at + 6] = b'_';
    }),
    ("GLIBC_ABI_DT_RELR replaced by another version", |file| {
        let (to, from) = (file.version_need("GLIBC_ABI_DT_RELR"), file.version_need("GLIBC_2."));
        file.set_u32(to, file.u32(from));
        file.set_u32(to + 8, file.u32(from + 8));
    }),
    ("a version index twice", |file| {
        let (to, from) = (file.version_need("GLIBC_ABI_DT_RELR"), file.version_need("GLIBC_2."));
        file.set_u16(to + 6, file.u16(from + 6));
    }),
    ("a bucket of the hash table", |file| {
        let table = file.table(DT_GNU_HASH);
        let start = table + 16 + 8 * file.u32(table + 8) as usize;
        let used = (start..start + 4 * file.u32(table) as usize).step_by(4).find(|at| file.u32(*at) != 0);
        file.set_u32(used.expect("a bucket in use"), 0);
    }),
    ("a value of the hash table", |file| {
        let table = file.table(DT_GNU_HASH);
        let (buckets, bloom) = (file.u32(table) as usize, file.u32(table + 8) as usize);
        file.flip(table + 16 + 8 * bloom + 4 * buckets + 1);
    }),
    ("the filter of the hash table", |file| {
        let at = file.table(DT_GNU_HASH) + 16;
        file.bytes[at..at + 8].fill(0);
    }),
    // The dynamic table.
    ("a needed library lost", |file| file.set_u64(file.tag(DT_NEEDED).unwrap(), 0x6000_0001)),
    ("two needed libraries exchanged", |file| {
        let needed: Vec<usize> = file.dynamic().into_iter().filter(|at| file.u64(*at) == DT_NEEDED).collect();
        file.swap(needed[0], needed[1], 16);
    }),
    ("DT_INIT", |file| file.add(file.value_place(12), 4)),
    ("DT_FINI_ARRAYSZ", |file| file.add(file.value_place(28), 8)),
    ("DT_PLTGOT", |file| file.add(file.value_place(3), 8)),
    ("an entry that was not there", |file| append(file, 30, 8)),
    ("no end of the dynamic table", |file| {
        let entries = file.dynamic().len() as u64 - 1;
        let segment = file.segment(2);
        file.set_u64(file.field(segment, Field::FileLen), 16 * entries);
        file.set_u64(file.field(segment, Field::MemLen), 16 * entries);
    }),
    ("the string table cut", |file| file.add(file.value_place(10), 1_u64.wrapping_neg())),
    // Program headers.
    ("writable code", |file| file.set_u32(file.load(5) + 4, 7)),
    ("data that is not writable", |file| file.set_u32(file.load(6) + 4, 4)),
    ("executable data", |file| file.set_u32(file.load(6) + 4, 7)),
    ("less .bss", |file| file.add(file.field(file.load(6), Field::MemLen), 8_u64.wrapping_neg())),
    ("more .bss in the file", |file| file.add(file.field(file.load(6), Field::FileLen), 8)),
    ("a PT_LOAD from elsewhere in the file", |file| file.add(file.field(file.load(5), Field::Offset), 4096)),
    ("offset and address differ modulo the page", |file| file.add(file.field(file.load(5), Field::Offset), 8)),
    ("an alignment that is no power of two", |file| file.set_u64(file.field(file.load(5), Field::Align), 4095)),
    ("two PT_LOADs exchanged", |file| {
        let (one, other) = (file.load(5), file.load(6));
        file.swap(one, other, 56);
    }),
    ("RELRO gone", |file| file.set_u32(file.segment(PT_RELRO), 0)),
    ("RELRO a page shorter", |file| {
        file.add(file.field(file.segment(PT_RELRO), Field::MemLen), 4096_u64.wrapping_neg());
    }),
    ("RELRO over the data", |file| file.add(file.field(file.segment(PT_RELRO), Field::MemLen), 4096)),
    ("an executable stack", |file| file.set_u32(file.segment(PT_STACK) + 4, 7)),
    ("more thread-local memory", |file| file.add(file.field(file.segment(PT_TLS), Field::MemLen), 16)),
    ("thread-local memory aligned otherwise", |file| file.set_u64(file.field(file.segment(PT_TLS), Field::Align), 64)),
    ("the unwind table's index elsewhere", |file| {
        file.add(file.field(file.segment(PT_EH_FRAME), Field::Address), 4);
    }),
    ("the build-id", |file| {
        let section = file.section(".note.gnu.build-id");
        file.flip(section.offset + section.len - 1);
    }),
    ("a note lost", |file| {
        let segment = *file.segments(4).last().unwrap();
        file.set_u32(segment, 0);
    }),
    // The header.
    ("the entry", |file| file.add(24, 16)),
    ("the processor's flags", |file| file.set_u32(48, 1)),
    ("the machine", |file| file.set_u16(18, 3)),
    ("the ABI", |file| file.xor(7, 1)),
    ("the program headers elsewhere", |file| file.add(32, 56)),
    // Sections, and what is not loaded.
    ("the address of a section", |file| file.add(file.section(".text").header + 16, 16)),
    ("the size of a section", |file| file.add(file.section(".text").header + 32, 16)),
    ("the offset of a section", |file| file.add(file.section(".rodata").header + 24, 16)),
    ("the size of the RELR section", |file| file.add(file.section(".relr.dyn").header + 32, 8_u64.wrapping_neg())),
    ("the section of the symbols", |file| file.add(file.section(".dynsym").header + 32, 24_u64.wrapping_neg())),
    ("the type of a section", |file| file.set_u32(file.section(".data").header + 4, 8)),
    ("the link of a section", |file| file.set_u32(file.section(".rela.plt").header + 40, 2)),
    ("the name of a section", |file| {
        let header = file.section(".data").header;
        file.set_u32(header, file.u32(header) + 1);
    }),
    ("no section headers", |file| {
        file.set_u64(40, 0);
        file.set_u16(60, 0);
    }),
    ("a byte of the debug data", |file| file.flip(file.section(".debug_info").offset + 100)),
    ("a symbol of .symtab", |file| {
        let section = file.section(".symtab");
        file.add(section.offset + section.len - 16, 8);
    }),
    ("a name of .symtab", |file| {
        let section = file.section(".strtab");
        file.flip(section.offset + section.len / 2);
    }),
    ("a byte appended", |file| file.bytes.push(1)),
    ("the end of the file lost", |file| {
        let len = file.bytes.len();
        file.bytes.truncate(len - 64);
    }),
];

/// Faults that only programs can have.
const PROGRAM_FAULTS: &[Fault] = &[
    ("the interpreter", |file| file.flip(file.section(".interp").offset + 5)),
    ("the run path", |file| {
        let at = file.table(DT_STRTAB) + file.value(29) as usize;
        file.bytes[at + 1] = b'o';
    }),
    ("no PT_PHDR", |file| file.set_u32(file.segment(6), 0)),
    ("PT_PHDR elsewhere", |file| file.add(file.field(file.segment(6), Field::Address), 56)),
    ("the property note", |file| {
        let section = file.section(".note.gnu.property");
        file.flip(section.offset + section.len - 8);
    }),
    ("the ABI tag", |file| {
        let section = file.section(".note.ABI-tag");
        file.flip(section.offset + section.len - 4);
    }),
    ("a COPY relocation lost", |file| {
        let place = *file.relocations(5).last().unwrap();
        file.set_u64(place + 8, 0);
    }),
    ("the pre-initialiser", |file| file.add(file.section(".preinit_array").offset, 16)),
    ("DT_FLAGS_1", |file| file.add(file.value_place(0x6fff_fffb), 1)),
];

/// Where the oracle loads both files first.
const FIRST_BASE: u64 = 0x5555_5555_4000;

/// A RELR bitmap with some bits.
fn bitmap(file: &View) -> usize {
    bitmap_at(file).0
}

/// A RELR bitmap with some bits, and the address that its first bit stands for.
fn bitmap_at(file: &View) -> (usize, u64) {
    let table = file.table(DT_RELR);
    let mut address = 0;
    for place in (table..table + file.value(DT_RELRSZ) as usize).step_by(8) {
        match file.u64(place) {
            word if word & 1 == 0 => address = word + 8,
            word if word.count_ones() > 2 => return (place, address),
            _ => address += 63 * 8,
        }
    }
    panic!("no bitmap");
}

/// A defined symbol that only its name leads to.
fn unnamed_symbol(file: &View) -> usize {
    let table = file.section(".dynsym");
    let kinds = [R_64, 5, R_GLOB_DAT, 7, 16, 17, 18];
    let named: Vec<u32> =
        kinds.into_iter().flat_map(|kind| file.relocations(kind)).map(|place| file.u32(place + 12)).collect();
    let entries = (table.offset..table.offset + table.len).step_by(24).enumerate();
    let is_unnamed = |(index, at): &(usize, usize)| file.u16(at + 6) != 0 && !named.contains(&(*index as u32));
    entries.skip(1).find(is_unnamed).expect("a symbol that nobody names").1
}

/// Writes an entry over the terminator; linkers leave spare ones behind it.
fn append(file: &mut View, tag: u64, value: u64) {
    let end = *file.dynamic().last().unwrap();
    assert_eq!(file.u64(end + 16), 0, "a spare entry");
    file.set_u64(end, tag);
    file.set_u64(end + 8, value);
}

fn plant(pair: &Pair, faults: &[Fault]) {
    let clean = offline(&pair.original, &pair.packed).expect("a usable original");
    assert!(clean.agrees(), "{}: {:#?}", pair.name, clean.differences);
    assert!(clean.checked.relative > 4000 && clean.checked.symbols > 20, "{:?}", clean.checked);
    let mut missed = Vec::new();
    for (name, fault) in faults {
        let mut file = View::new(&pair.packed);
        fault(&mut file);
        assert_ne!(file.bytes, pair.packed, "{name} changes the file");
        let verdict = offline(&pair.original, &file.bytes).expect("a usable original");
        if verdict.agrees() {
            missed.push(*name);
        }
        assert_eq!(verdict.differences.is_empty(), verdict.agrees());
    }
    assert!(missed.is_empty(), "{}: faults that the oracle does not see: {missed:#?}", pair.name);
}

#[test]
fn every_planted_fault_of_a_library_is_found() {
    for pair in pairs("libcorpus.so") {
        plant(&pair, FAULTS);
    }
}

#[test]
fn every_planted_fault_of_a_program_is_found() {
    for pair in pairs("program") {
        plant(&pair, PROGRAM_FAULTS);
    }
}

#[test]
fn words_that_two_relocations_change_stay_in_the_table() {
    let Some(built) = built() else { return };
    let mut file = View::new(&std::fs::read(built.plain.path("libcorpus.so")).expect("a library that was linked"));
    let places = file.relocations(R_RELATIVE);
    let side_by_side = |run: &&[usize]| run.windows(2).all(|pair| file.u64(pair[0]) + 8 == file.u64(pair[1]));
    let places = places.windows(12).find(side_by_side).expect("words side by side").to_vec();
    // The same word twice, and one that lies in two others.
    file.set_u64(places[2], file.u64(places[3]));
    file.set_u64(places[6], file.u64(places[7]) + 4);
    let (outcome, packed) = pack_bytes(&file.bytes, &Options::default()).expect("no error");
    let Outcome::Packed(report) = outcome else { panic!("{outcome:?}") };
    let kept: Vec<_> = report.relocations.kept.iter().map(|kept| (kept.why, kept.count)).collect();
    assert_eq!(kept, [(Why::Overlap, 5)]);
    assert_eq!(report.relocations.packed + 5, report.relocations.relative);
    let verdict = offline(&file.bytes, &packed.expect("bytes")).expect("a usable original");
    assert!(verdict.agrees(), "{:#?}", verdict.differences);
}

#[test]
fn an_appended_payload_must_stay_as_it_is() {
    for pair in pairs("libcorpus.so") {
        let with = |bytes: &[u8], payload: &[u8]| [bytes, payload].concat();
        let original = with(&pair.original, b"payload");
        let agrees = |packed: &[u8]| offline(&original, packed).expect("a usable original").agrees();
        assert!(agrees(&with(&pair.packed, b"payload")), "{}", pair.name);
        assert!(!agrees(&pair.packed) && !agrees(&with(&pair.packed, b"Payload")), "{}", pair.name);
    }
}

#[test]
fn a_file_is_not_blamed_for_what_its_original_does_too() {
    for pair in pairs("libcorpus.so") {
        let loose = |bytes: &[u8]| {
            let mut file = View::new(bytes);
            file.set_u64(file.field(file.load(5), Field::Align), 2048);
            file.bytes
        };
        let verdict = offline(&loose(&pair.original), &loose(&pair.packed)).expect("a usable original");
        assert!(verdict.agrees(), "{:#?}", verdict.differences);
        assert!(!offline(&pair.original, &loose(&pair.packed)).expect("a usable original").agrees());
    }
}

#[test]
fn an_initialiser_that_applies_the_table_is_as_good_as_the_loader() {
    for pair in pairs("libcorpus.so") {
        let mut file = View::new(&pair.packed);
        let (table, len) = (file.value(DT_RELR), file.value(DT_RELRSZ));
        // Tags that no loader knows: what remains is a table for code that knows where it lies.
        let (relr, size, entry) = (0x6000_0024, 0x6000_0023, 0x6000_0025);
        for (tag, other) in [(DT_RELR, relr), (DT_RELRSZ, size), (DT_RELRENT, entry)] {
            file.set_u64(file.tag(tag).unwrap(), other);
        }
        // The original of bfd has DT_RELR itself, of which only the packed file then has to be rid.
        let dynamic = [(relr, Some(table)), (size, Some(len)), (entry, Some(8))];
        let dynamic = dynamic.map(|(tag, value)| Allowed::Dynamic { tag, value });
        let mut expected = Expected { allowed: dynamic.to_vec() };
        let before = offline_expecting(&pair.original, &file.bytes, &expected).expect("a usable original");
        assert!(before.differences.iter().any(|difference| difference.kind == Kind::Memory), "{}", pair.name);
        expected.allowed.push(Allowed::Initialiser { table, len });
        // The version need of DT_RELR is not one that such a file should have.
        let others = |file: &View| {
            let verdict = offline_expecting(&pair.original, &file.bytes, &expected).expect("a usable original");
            verdict.differences.into_iter().filter(|difference| difference.kind != Kind::Version).collect::<Vec<_>>()
        };
        assert_eq!(others(&file), [], "{}", pair.name);
        let bit = bitmap(&View::new(&pair.packed));
        file.xor(bit, 4);
        assert_ne!(others(&file), []);
    }
}

#[test]
fn a_symbolic_relocation_may_become_relative_only_to_what_it_meant() {
    for pair in pairs("libcorpus.so") {
        let mut file = View::new(&pair.packed);
        let symbols = file.section(".dynsym").offset;
        let defined = |at: &usize| {
            let symbol = symbols + 24 * file.u32(at + 12) as usize;
            file.u16(symbol + 6) != 0 && file.bytes[symbol + 4] & 0xf <= 2
        };
        let place = file.relocations(R_64).into_iter().find(defined).expect("a symbol of the library itself");
        let at = file.u64(place);
        let value = file.u64(symbols + 24 * file.u32(place + 12) as usize + 8) + file.u64(place + 16);
        file.set_u64(place + 8, 8);
        file.set_u64(place + 16, value);
        let expecting = |value: u64, bytes: &[u8]| {
            let expected = Expected { allowed: vec![Allowed::Relative { at, value }] };
            offline_expecting(&pair.original, bytes, &expected).expect("a usable original")
        };
        let verdict = expecting(value, &file.bytes);
        assert!(verdict.agrees(), "{}: {:#?}", pair.name, verdict.differences);
        assert!(!offline(&pair.original, &file.bytes).expect("a usable original").agrees());
        // What is announced must be right, and must be so.
        assert!(!expecting(value, &pair.packed).agrees());
        file.set_u64(place + 16, value + 8);
        assert!(!expecting(value, &file.bytes).agrees() && !expecting(value + 8, &file.bytes).agrees());
    }
}

#[test]
fn changed_words_and_new_bytes_must_be_those_that_were_announced() {
    for pair in pairs("libcorpus.so") {
        let mut file = View::new(&pair.packed);
        let (code, data) = (file.section(".text"), file.section(".data.rel.ro"));
        let address = data.address + 800;
        file.flip(code.offset + 32);
        file.add(data.offset + 800, 16);
        let was = file.u64(data.offset + 800);
        let verdict = |word: Word| {
            let allowed =
                vec![Allowed::New { at: code.address + 32, len: 1 }, Allowed::Word { at: address, value: word }];
            offline_expecting(&pair.original, &file.bytes, &Expected { allowed }).expect("a usable original")
        };
        let right = verdict(Word::Address(was));
        assert!(right.agrees(), "{}: {:#?}", pair.name, right.differences);
        for wrong in [Word::Address(was + 8), Word::Plain(was)] {
            let wrong = verdict(wrong);
            assert!(wrong.differences.iter().all(|difference| difference.kind == Kind::Expected) && !wrong.agrees());
        }
    }
}

#[test]
fn another_build_id_only_where_it_is_wanted() {
    for pair in pairs("libcorpus.so") {
        let mut file = View::new(&pair.packed);
        let section = file.section(".note.gnu.build-id");
        file.flip(section.offset + section.len - 3);
        let expected = Expected { allowed: vec![Allowed::BuildId] };
        let verdict = offline_expecting(&pair.original, &file.bytes, &expected).expect("a usable original");
        assert!(verdict.agrees(), "{:#?}", verdict.differences);
        assert!(!offline(&pair.original, &file.bytes).expect("a usable original").agrees());
    }
}

#[test]
fn a_verdict_names_what_it_found() {
    let Some(pair) = pairs("libcorpus.so").into_iter().next() else { return };
    let mut file = View::new(&pair.packed);
    let section = file.section(".rodata");
    file.flip(section.offset + 3);
    let verdict = offline(&pair.original, &file.bytes).expect("a usable original");
    assert_eq!(verdict.total, 1);
    assert_eq!((verdict.differences[0].kind, verdict.differences[0].at), (Kind::Memory, Some(section.address + 3)));
    // More differences than are listed are still counted.
    for index in 0..400 {
        file.flip(section.offset + 2 * index);
    }
    let verdict = offline(&pair.original, &file.bytes).expect("a usable original");
    assert!(verdict.total > 300 && verdict.differences.len() < 300, "{}", verdict.total);
}

#[test]
fn an_original_that_is_none_is_an_error_and_a_packed_file_that_is_none_a_difference() {
    let Some(pair) = pairs("libcorpus.so").into_iter().next() else { return };
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &pair.original[..5000]] {
        assert_eq!(offline(bytes, &pair.packed).unwrap_err().exit, model::Exit::Data);
        assert!(!offline(&pair.original, bytes).expect("a usable original").agrees());
    }
}

/// Damage: to the packed file, the original, or both.
fn damage(original: &mut [u8], packed: &mut [u8], changes: &[(u32, u8, u8)]) {
    for (place, value, which) in changes {
        // Half of all places are in the headers and tables at the front, where damage does the most harm.
        let place = |len: usize| if place % 2 == 0 { *place as usize % 4096 % len } else { *place as usize % len };
        if which & 1 == 0 {
            let at = place(packed.len());
            packed[at] = *value;
        }
        if which & 2 == 0 {
            let at = place(original.len());
            original[at] = *value;
        }
    }
}

static LIBRARY: LazyLock<Vec<Pair>> = LazyLock::new(|| pairs("libcorpus.so"));

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes are, there is an answer.
    #[test]
    fn damaged_files_get_an_answer(
        changes in prop::collection::vec((any::<u32>(), prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..4_u8), 1..10),
        which in any::<prop::sample::Index>(),
        cut in prop_oneof![9 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    ) {
        if LIBRARY.is_empty() {
            return Ok(());
        }
        let pair = which.get(&LIBRARY);
        let (mut original, mut packed) = (pair.original.clone(), pair.packed.clone());
        damage(&mut original, &mut packed, &changes);
        if let Some(cut) = cut {
            packed.truncate(cut.index(packed.len()));
        }
        let _ = offline(&original, &packed);
    }

    /// A bit that is not as it was, in any section that the loader maps and no table of its own holds.
    #[test]
    fn any_changed_bit_of_code_or_data_is_found(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        if LIBRARY.is_empty() {
            return Ok(());
        }
        let pair = which.get(&LIBRARY);
        let mut file = View::new(&pair.packed);
        let names = [".init", ".plt", ".text", ".fini", ".rodata", ".eh_frame_hdr", ".eh_frame", ".gcc_except_table",
            ".tdata", ".init_array", ".fini_array", ".data.rel.ro", ".got", ".got.plt", ".data", ".debug_info",
            ".debug_line"];
        let sections: Vec<_> = names.iter().map(|name| file.section(name)).collect();
        let mut at = place.index(sections.iter().map(|section| section.len).sum());
        for section in &sections {
            if at < section.len {
                file.xor(section.offset + at, 1 << bit);
                break;
            }
            at -= section.len;
        }
        prop_assert!(!offline(&pair.original, &file.bytes).expect("a usable original").agrees());
    }
}
