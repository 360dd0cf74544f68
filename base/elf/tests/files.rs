//! Looks into files that are known byte for byte: drawn by hand for both classes and byte orders, or built from a C
//! file with directives.

use elf::{
    Class, Image, Meaning, Miss, Order, Relocation, Relocations, Role, RunPaths, Section, build_id, interpreter,
    needed, run_paths, sections,
};
use model::{Bytes, FileOffset};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes numbers as one class and byte order has them.
#[derive(Clone, Copy, Debug)]
struct Shape {
    wide: bool,
    big: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { wide: true, big: false },
    Shape { wide: false, big: false },
    Shape { wide: true, big: true },
    Shape { wide: false, big: true },
];

impl Shape {
    fn half(self, out: &mut Vec<u8>, value: u16) {
        out.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }
    fn word(self, out: &mut Vec<u8>, value: u32) {
        out.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }
    /// An address, an offset or a size.
    fn long(self, out: &mut Vec<u8>, value: u64) {
        match (self.wide, self.big) {
            (false, _) => self.word(out, u32::try_from(value).unwrap()),
            (true, false) => out.extend(value.to_le_bytes()),
            (true, true) => out.extend(value.to_be_bytes()),
        }
    }
    fn program_header(self, out: &mut Vec<u8>, kind: u32, (offset, len): (u64, u64), address: u64, align: u64) {
        self.word(out, kind);
        if self.wide {
            self.word(out, 4);
        }
        for value in [offset, address, address, len, len] {
            self.long(out, value);
        }
        if !self.wide {
            self.word(out, 4);
        }
        self.long(out, align);
    }
    fn section_header(self, out: &mut Vec<u8>, name: u32, kind: u32, (offset, len): (u64, u64)) {
        self.word(out, name);
        self.word(out, kind);
        for value in [0, 0, offset, len] {
            self.long(out, value);
        }
        self.word(out, 0);
        self.word(out, 0);
        self.long(out, 4);
        self.long(out, 0);
    }
}

/// ```text
/// 0      header, 4 program headers
/// 512    .note.gnu.build-id   ".GNU" + 4 bytes of id
/// 544    .interp              /lib/ld.so\0
/// 576    .dynstr              strings, loaded at address 0x10000 + 576
/// 704    .dynamic             NEEDED a, NEEDED b, RPATH, RUNPATH, STRTAB, STRSZ
/// 832    .shstrtab
/// 960    section headers
/// ```
/// and a .bss of a gigabyte that takes no room.
fn picture(shape: Shape) -> Vec<u8> {
    let load = 0x10000;
    let strings = b"\0liba.so.1\0libb.so\0/old:/older\0$ORIGIN/../lib\0";
    let at = |text: &str| strings.windows(text.len()).position(|part| part == text.as_bytes()).unwrap() as u64;
    let names = b"\0.bss\0.dynamic\0.dynstr\0.interp\0.note.gnu.build-id\0.shstrtab\0";
    let name = |text: &str| names.windows(text.len()).position(|part| part == text.as_bytes()).unwrap() as u32;

    let mut dynamic = Vec::new();
    let tags = [
        (1, at("liba.so.1")),
        (1, at("libb.so")),
        (15, at("/old:")),
        (29, at("$ORIGIN")),
        (5, load + 576),
        (10, strings.len() as u64),
        (0, 0),
        (1, at("/older")),
    ];
    for (tag, value) in tags {
        shape.long(&mut dynamic, tag);
        shape.long(&mut dynamic, value);
    }
    let mut note = Vec::new();
    for value in [4, 4, 3] {
        shape.word(&mut note, value);
    }
    note.extend(b"GNU\0\xde\xad\xbe\xef");
    let interpreter = b"/lib/ld.so\0";

    let mut file = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(shape.wide), 1 + u8::from(shape.big), 1];
    file.resize(16, 0);
    shape.half(&mut file, 3);
    shape.half(&mut file, 62);
    shape.word(&mut file, 1);
    let (header_len, program_len, section_len) = if shape.wide { (64, 56, 64) } else { (52, 32, 40) };
    for value in [0, header_len, 960] {
        shape.long(&mut file, value);
    }
    shape.word(&mut file, 0);
    for value in [header_len as u16, program_len, 4, section_len, 7, 6] {
        shape.half(&mut file, value);
    }
    shape.program_header(&mut file, 1, (0, 960), load, 4096);
    shape.program_header(&mut file, 3, (544, interpreter.len() as u64), load + 544, 1);
    shape.program_header(&mut file, 2, (704, dynamic.len() as u64), load + 704, 4);
    shape.program_header(&mut file, 4, (512, note.len() as u64), load + 512, 4);
    for (offset, part) in [(512, &note[..]), (544, interpreter), (576, strings), (704, &dynamic), (832, names)] {
        assert!(file.len() <= offset);
        file.resize(offset, 0);
        file.extend(part);
    }
    file.resize(960, 0);
    shape.section_header(&mut file, 0, 0, (0, 0));
    shape.section_header(&mut file, name(".bss"), 8, (576, 1 << 30));
    shape.section_header(&mut file, name(".dynamic"), 6, (704, dynamic.len() as u64));
    shape.section_header(&mut file, name(".dynstr"), 3, (576, strings.len() as u64));
    shape.section_header(&mut file, name(".interp"), 1, (544, interpreter.len() as u64));
    shape.section_header(&mut file, name(".note.gnu"), 7, (512, note.len() as u64));
    shape.section_header(&mut file, name(".shstrtab"), 3, (832, names.len() as u64));
    file
}

fn section(name: &str, offset: u64, len: u64) -> Section {
    Section { name: name.into(), offset: FileOffset(offset), len: Bytes(len) }
}

#[test]
fn a_drawn_file_says_the_same_in_every_class_and_byte_order() {
    for shape in SHAPES {
        let file = picture(shape);
        let entry = if shape.wide { 16 } else { 8 };
        let expected = [
            section(".note.gnu.build-id", 512, 20),
            section(".interp", 544, 11),
            section(".dynstr", 576, 46),
            section(".dynamic", 704, 8 * entry),
            section(".shstrtab", 832, 60),
        ];
        assert_eq!(sections(&file).unwrap(), expected, "{shape:?}");
        assert_eq!(build_id(&file).as_deref(), Some("deadbeef"), "{shape:?}");
        assert_eq!(interpreter(&file), Some(PathBuf::from("/lib/ld.so")), "{shape:?}");
        assert_eq!(needed(&file), ["liba.so.1", "libb.so"], "what stands behind DT_NULL is no entry; {shape:?}");
        let paths = RunPaths { rpath: vec!["/old".into(), "/older".into()], runpath: vec!["$ORIGIN/../lib".into()] };
        assert_eq!(run_paths(&file), paths, "{shape:?}");
    }
}

#[test]
fn bytes_may_lie_at_an_odd_address() {
    for shape in SHAPES {
        let mut shifted = vec![0];
        shifted.extend(picture(shape));
        assert_eq!(sections(&shifted[1..]).unwrap().len(), 5);
        assert_eq!(needed(&shifted[1..]).len(), 2);
    }
}

#[test]
fn without_a_section_table_the_loader_s_view_remains() {
    for shape in SHAPES {
        let mut file = picture(shape);
        file.truncate(960);
        let (start, end) = if shape.wide { (40, 48) } else { (32, 36) };
        assert!(matches!(sections(&file), Err(Miss::Damaged(_))), "the header points behind the end");
        file[start..end].fill(0);
        assert_eq!(sections(&file), Ok(vec![]), "no table is allowed");
        assert_eq!(build_id(&file).as_deref(), Some("deadbeef"));
        assert_eq!(needed(&file), ["liba.so.1", "libb.so"]);
    }
}

#[test]
fn a_section_is_cut_off_at_the_end_of_the_file_and_named_by_its_number_without_a_name() {
    let mut file = picture(SHAPES[0]);
    let table = 960;
    let (dynstr, interp) = (table + 3 * 64, table + 4 * 64);
    file[dynstr + 32..dynstr + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    file[interp..interp + 4].copy_from_slice(&9999_u32.to_le_bytes());
    let found = sections(&file).unwrap();
    assert_eq!(found[2], section(".dynstr", 576, file.len() as u64 - 576));
    assert_eq!(found[1], section("[4]", 544, 11));
}

#[test]
fn what_is_no_elf_file_is_a_miss() {
    for bytes in [&b""[..], b"\x7fEL", b"#!/bin/sh\n", &[0; 4096]] {
        assert_eq!(sections(bytes), Err(Miss::NotElf));
        assert_eq!(build_id(bytes), None);
        assert_eq!(needed(bytes), [""; 0]);
        assert_eq!(run_paths(bytes), RunPaths::default());
        assert_eq!(interpreter(bytes), None);
    }
    assert!(matches!(sections(b"\x7fELF\x09"), Err(Miss::Damaged(_))));
    assert!(matches!(sections(b"\x7fELF\x02\x01\x01"), Err(Miss::Damaged(_))));
}

/// Builds a C file with the compiler options of its first line; `None` (and a word why) where there is no compiler.
fn built(folder: &Path, source: &str) -> Option<Vec<u8>> {
    let options = source.lines().next().unwrap().strip_prefix("// cc: ").unwrap().split_whitespace();
    std::fs::write(folder.join("source.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder).args(options).args(["-o", "out", "source.c"]);
    match compiler.output() {
        Err(error) => {
            eprintln!("SKIPPED: no C compiler: {error}");
            None
        }
        Ok(output) if output.status.success() => Some(std::fs::read(folder.join("out")).unwrap()),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_linked_program_says_what_its_linker_was_told() {
    let source = "\
// cc: -O0 -Wl,--build-id=0x0123456789abcdef -Wl,--enable-new-dtags,-rpath,$ORIGIN/lib:/opt/x -Wl,--no-as-needed -lm
char planted[70000] __attribute__((section(\".planted\"), used)) = \"here it is\";
char nothing[1 << 20];
int main(void) { return nothing[0]; }
";
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = built(folder.path(), source) else { return };
    assert_eq!(build_id(&file).as_deref(), Some("0123456789abcdef"));
    assert_eq!(run_paths(&file).runpath, ["$ORIGIN/lib", "/opt/x"]);
    assert_eq!(run_paths(&file).rpath, [""; 0]);
    let libraries = needed(&file);
    assert!(libraries.iter().any(|name| name.starts_with("libm.so")), "{libraries:?}");
    assert!(libraries.iter().any(|name| name.starts_with("libc.so")), "{libraries:?}");
    assert!(interpreter(&file).is_some_and(|path| path.exists()));

    let found = sections(&file).unwrap();
    let planted = found.iter().find(|section| section.name == ".planted").expect("the planted section");
    assert_eq!(planted.len, Bytes(70000));
    assert!(file[planted.offset.0 as usize..].starts_with(b"here it is"));
    assert!(found.iter().all(|section| section.name != ".bss"), ".bss takes no room");
    assert!(found.iter().any(|section| section.name == ".comment"), "sections that are not loaded count too");
    assert!(found.is_sorted_by_key(|section| section.offset));
}

#[test]
fn an_object_file_has_sections_and_a_build_id_in_them_but_asks_for_nothing() {
    let source = "\
// cc: -c
__asm__(\".section .note.gnu.build-id,\\\"a\\\",@note\\n.long 4,2,3\\n.ascii \\\"GNU\\\\0\\\"\\n.byte \
1,2,0,0\\n.text\");
int answer(void) { return 42; }
";
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = built(folder.path(), source) else { return };
    assert!(sections(&file).unwrap().iter().any(|section| section.name == ".text"));
    assert_eq!(build_id(&file).as_deref(), Some("0102"));
    assert_eq!(needed(&file), [""; 0]);
    assert_eq!(interpreter(&file), None);
}

#[test]
fn an_image_shows_what_the_loader_sees() {
    for shape in SHAPES {
        let file = picture(shape);
        let image = Image::of(&file[..]).unwrap();
        let (class, order) =
            (if shape.wide { Class::Elf64 } else { Class::Elf32 }, if shape.big { Order::Big } else { Order::Little });
        assert_eq!((image.class, image.order, image.len), (class, order, file.len() as u64));
        assert_eq!((image.segments.len(), image.loads().count(), image.sections.len()), (4, 1, 7), "{shape:?}");
        assert_eq!(image.interpreter.as_deref(), Some("/lib/ld.so"));
        assert_eq!(image.build_id.as_deref(), Some("deadbeef"));
        let dynamic = image.dynamic.as_ref().unwrap();
        assert_eq!((dynamic.entries.len(), dynamic.spare), (6, 0), "what stands behind DT_NULL is no entry");
        assert_eq!(dynamic.values(object::elf::DT_NEEDED).count(), 2);
        assert_eq!(image.string(1), Some(&b"liba.so.1"[..]));
        assert_eq!(image.offset_of(0x10000 + 576, 10), Some(576));
        assert_eq!(image.at(0x10000 + 544, 11), Some(&b"/lib/ld.so\0"[..]));
        assert_eq!((image.at(0x10000 + 950, 11), image.at(0xffff, 1), image.at(u64::MAX, 2)), (None, None, None));
        assert_eq!(image.section(".dynstr").unwrap().address, 0, "the drawn sections have no addresses");
        assert!(image.relocations().unwrap().is_empty() && image.relr().unwrap().is_none());
        assert!(
            image.dynamic_symbols().is_none() && image.all_symbols().is_none() && image.needed_versions().is_empty()
        );
    }
}

const LIBRARY: &str = "\
// cc: -shared -fPIC -nostdlib -ffreestanding -O1 -Wl,--hash-style=HASH
extern int other;
int mine = 1;
__attribute__((visibility(\"protected\"))) int guarded = 2;
__attribute__((weak)) int weak = 3;
static int hidden = 4;
int *all[5] = { &other, &mine, &guarded, &weak, &hidden };
int call(void);
int use(void) { return call(); }
";

#[test]
fn relocations_and_symbols_are_read_with_and_without_a_section_table() {
    for hash in ["sysv", "gnu"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut file) = built(folder.path(), &LIBRARY.replace("HASH", hash)) else { return };
        let with = Image::of(&file[..]).unwrap();
        let symbols = with.dynamic_symbols().expect("a symbol table");
        let listed: Vec<_> = symbols.iter().collect();
        assert_eq!(symbols.count(), listed.len() + 1);
        let named = |name: &str| *listed.iter().find(|symbol| symbol.name == name.as_bytes()).unwrap();
        assert!(!named("other").is_defined() && named("other").is_preemptible());
        assert!(named("mine").is_defined() && named("mine").is_preemptible() && named("mine").len == 4);
        assert!(named("guarded").is_defined() && !named("guarded").is_preemptible());
        assert!(named("weak").is_preemptible());
        assert_eq!(with.word_at(named("mine").address).map(|word| word as u32), Some(1));
        assert_eq!(with.section_at(named("mine").address).unwrap().name, ".data");
        assert!(with.all_symbols().unwrap().iter().any(|symbol| symbol.name == b"hidden"));

        let tables = with.relocations().unwrap();
        let named_by = |index: u32| symbols.get(index as usize).unwrap().name;
        let load: Vec<Relocation> =
            tables.iter().filter(|table| table.role == Role::Load).flat_map(Relocations::iter).collect();
        let plt: Vec<Relocation> =
            tables.iter().filter(|table| table.role == Role::Plt).flat_map(Relocations::iter).collect();
        assert_eq!(
            load.iter()
                .filter(|relocation| relocation.symbol != 0)
                .map(|relocation| named_by(relocation.symbol))
                .collect::<std::collections::BTreeSet<_>>(),
            [&b"guarded"[..], b"mine", b"other", b"weak"].into()
        );
        assert_eq!(plt.iter().map(|relocation| named_by(relocation.symbol)).collect::<Vec<_>>(), [b"call"]);
        let relative = elf::relative_type(with.machine).expect("this machine has one");
        let plain: Vec<_> = load.iter().filter(|relocation| relocation.kind == relative).collect();
        assert_eq!(plain.len(), 1, "the hidden one");
        for relocation in &load {
            let symbolic = elf::meaning(with.machine, relocation.kind) == Meaning::Symbolic;
            assert_eq!(symbolic, relocation.symbol != 0, "{}", elf::relocation_name(with.machine, relocation.kind));
        }

        let count = symbols.count();
        let defined = listed.iter().filter(|symbol| symbol.is_defined()).count();
        // Where the section table begins, and how many entries it has.
        file[40..48].fill(0);
        file[60..62].fill(0);
        let without = Image::of(&file[..]).unwrap();
        assert!(without.sections.is_empty() && without.sections_damaged.is_none());
        let table = without.dynamic_symbols().expect("the hash table says how long it is");
        assert_eq!((table.count(), table.iter().filter(elf::Symbol::is_defined).count()), (count, defined), "{hash}");
        assert_eq!(
            without.relocations().unwrap().iter().map(Relocations::count).sum::<u64>(),
            (load.len() + plt.len()) as u64
        );
    }
}

#[test]
fn versions_of_other_files_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let source = "// cc: -O0\n#include <stdio.h>\nint main(void) { return puts(\"\"); }\n";
    let Some(file) = built(folder.path(), source) else { return };
    let image = Image::of(&file[..]).unwrap();
    let versions = image.needed_versions();
    let from_libc = |version: &[u8]| version.starts_with(b"GLIBC_2.");
    assert!(versions.iter().any(|(file, version)| file.starts_with(b"libc.so") && from_libc(version)), "{versions:?}");
}

/// 64-bit little-endian MIPS: symbol first, then one byte for each of three types.
#[test]
fn the_odd_order_of_mips_is_known() {
    let mut file = vec![0; 64 + 2 * 56];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16..20].copy_from_slice(&[3, 0, 8, 0]);
    file[20] = 1;
    file[32..40].copy_from_slice(&64_u64.to_le_bytes());
    file[52..60].copy_from_slice(&[64, 0, 56, 0, 2, 0, 64, 0]);
    let dynamic: Vec<u8> = [7_u64, 512, 8, 24, 9, 24, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut shaped = Vec::new();
    SHAPES[0].program_header(&mut shaped, 1, (0, 536), 0, 4096);
    SHAPES[0].program_header(&mut shaped, 2, (256, dynamic.len() as u64), 256, 8);
    file[64..].copy_from_slice(&shaped);
    file.resize(256, 0);
    file.extend(&dynamic);
    file.resize(512, 0);
    file.extend(0x1000_u64.to_le_bytes());
    file.extend([5, 0, 0, 0, 0, 0, 18, 3]);
    file.extend((-8_i64).to_le_bytes());
    let tables = Image::of(&file[..]).unwrap().relocations().unwrap();
    let found: Vec<Relocation> = tables.iter().flat_map(Relocations::iter).collect();
    assert_eq!(found, [Relocation { offset: 0x1000, kind: 0x1203, symbol: 5, addend: -8 }]);
}

#[test]
fn compressed_debug_data_are_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let source = (0..200).map(|i| format!("int function_{i}(int a) {{ return a + {i}; }}\n")).collect::<String>();
    std::fs::write(folder.path().join("many.c"), source).unwrap();
    let mut cc = Command::new("cc");
    if !testing::compiled(cc.args(["-g", "-c", "-o", "many.o", "many.c"]).current_dir(folder.path())) {
        return;
    }
    for kind in ["zlib", "zstd"] {
        let mut objcopy = Command::new("objcopy");
        objcopy.arg(format!("--compress-debug-sections={kind}")).args(["many.o", kind]).current_dir(folder.path());
        if !objcopy.output().is_ok_and(|done| done.status.success()) {
            testing::skip(&format!("needs an objcopy that compresses with {kind}"));
            continue;
        }
        let (plain, mut packed) = (folder.path().join("many.o"), std::fs::read(folder.path().join(kind)).unwrap());
        let plain = std::fs::read(plain).unwrap();
        let (plain, image) = (Image::of(&plain[..]).unwrap(), Image::of(&packed[..]).unwrap());
        let section = image.section(".debug_info").unwrap().clone();
        assert!(image.compressed(&section).is_some());
        let wanted = elf::debug::section(&plain, ".debug_info").unwrap();
        assert_eq!(elf::debug::section(&image, ".debug_info").unwrap(), wanted, "{kind}");

        // `Elf64_Chdr`: kind and padding, then the length of what was packed.
        let (at, len) = (usize::try_from(section.offset).unwrap(), usize::try_from(section.len).unwrap());
        let claims = |packed: &mut Vec<u8>, claimed: u64| {
            packed[at + 8..at + 16].copy_from_slice(&claimed.to_le_bytes());
            elf::debug::section(&Image::of(&packed[..]).unwrap(), ".debug_info").map(|bytes| bytes.len())
        };
        assert!(claims(&mut packed, u64::MAX).unwrap_err().contains("claims to be larger"), "{kind}");
        assert!(claims(&mut packed, wanted.len() as u64 + 1).unwrap_err().contains("cannot be decompressed"), "{kind}");
        for place in at + 24..at + len {
            let was = packed[place];
            packed[place] ^= 0x55;
            // An error, or other bytes: never more than it says.
            if let Ok(read) = claims(&mut packed, wanted.len() as u64) {
                assert_eq!(read, wanted.len());
            }
            packed[place] = was;
        }
        packed[at + 24..at + 28].fill(0);
        assert!(claims(&mut packed, wanted.len() as u64).is_err(), "{kind}");
    }
}

/// A section of a few bytes that says it is, and is, a gigabyte: more than debug data ever were.
#[test]
fn little_does_not_become_much() {
    let packed = {
        // One block of a repeated byte after the other, each of 128 kB in four bytes.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
        (0..8192).for_each(|block| {
            frame.extend(
                &(u32::from(block == 8191) | 1 << 1 | 0x2_0000 << 3).to_le_bytes()[..3]
                    .iter()
                    .copied()
                    .chain([7])
                    .collect::<Vec<u8>>(),
            )
        });
        frame
    };
    let mut section = [2_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
    section.extend((1_u64 << 30).to_le_bytes());
    section.extend(1_u64.to_le_bytes());
    section.extend(packed);
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let names = b"\0.debug_info\0.shstrtab\0";
    let (section_at, names_at) = (64, 64 + section.len());
    let table_at = names_at + names.len();
    file[16..24].copy_from_slice(&[1, 0, 62, 0, 1, 0, 0, 0]);
    file[40..48].copy_from_slice(&(table_at as u64).to_le_bytes());
    file[52..64].copy_from_slice(&[64, 0, 0, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    file.extend(&section);
    file.extend(names);
    file.extend([0; 64]);
    let mut compressed = Vec::new();
    SHAPES[0].section_header(&mut compressed, 1, 1, (section_at as u64, section.len() as u64));
    compressed[8..16].copy_from_slice(&0x800_u64.to_le_bytes());
    file.extend(compressed);
    SHAPES[0].section_header(&mut file, 13, 3, (names_at as u64, names.len() as u64));
    let image = Image::of(&file[..]).unwrap();
    assert!(image.compressed(image.section(".debug_info").unwrap()).is_some());
    assert!(elf::debug::section(&image, ".debug_info").unwrap_err().contains("claims to be larger"));
}
