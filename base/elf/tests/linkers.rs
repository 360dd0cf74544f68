//! What is read of files of every linker, held against readelf, which shares no code with us.

use elf::Image;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Words that are relocated, a thread-local block with or without bytes, calls of another library.
const SOURCE: &str = "
    #include <stdio.h>
    const char *words[100] = { [0 ... 99] = \"word\" };
    #ifdef TLS_EMPTY
    __thread int counter;
    #elif defined(TLS_FULL)
    __thread int counter = 7, zero;
    #else
    int counter;
    #endif
    int main(void) { counter += 1; return puts(words[counter]) < 0; }
";

/// Program headers as `readelf -lW` prints them: offset, address, physical address, file and memory length, alignment.
fn program_headers(text: &str) -> Vec<[u64; 6]> {
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("Type ")).skip(1);
    let rows = table.take_while(|line| !line.trim().is_empty()).filter(|line| !line.contains("[Requesting"));
    rows.map(|line| {
        // The flags, one to three words of one letter, stand between the lengths and the alignment; no alignment is a
        // bare 0.
        let bare = if line.ends_with(" 0") { Some(0) } else { None };
        let numbers: Vec<u64> = line.split_whitespace().filter_map(hexadecimal).chain(bare).collect();
        numbers.try_into().unwrap_or_else(|numbers| panic!("{line}: {numbers:?}"))
    })
    .collect()
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Sections as `readelf -SW` prints them: name, address, offset, length, length of an entry.
fn section_headers(text: &str) -> Vec<(String, [u64; 4])> {
    let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix('[')?.split_once(']'));
    let rows = rows.filter(|(number, _)| number.trim().parse::<u64>().is_ok_and(|number| number > 0));
    rows.map(|(_, rest)| {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| u64::from_str_radix(words[index], 16).unwrap();
        (words[0].to_owned(), [number(2), number(3), number(4), number(5)])
    })
    .collect()
}

/// Tags of the dynamic table as `readelf -dW` prints them, up to the first NULL.
fn tags(text: &str) -> Vec<u64> {
    let tags = text.lines().filter_map(|line| hexadecimal(line.split_whitespace().next()?));
    tags.take_while(|tag| *tag != 0).collect()
}

/// How many relocations of each type number `readelf -rW` prints.
fn relocations(text: &str) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains(" R_X86_64_")) {
        let info = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        *counts.entry(info as u32).or_default() += 1;
    }
    counts
}

fn readelf(option: &str, file: &Path) -> String {
    let said = Command::new("readelf").args([option, "-W"]).arg(file).output().expect("binutils");
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

fn check(file: &Path, what: &str) {
    let bytes = std::fs::read(file).unwrap();
    let image = Image::of(bytes.as_slice()).unwrap_or_else(|miss| panic!("{what}: {miss}"));
    let ours: Vec<[u64; 6]> = image
        .segments
        .iter()
        .map(|segment| {
            let [offset, address, physical] = [segment.offset, segment.address, segment.physical];
            [offset, address, physical, segment.file_len, segment.memory_len, segment.align]
        })
        .collect();
    assert_eq!(ours, program_headers(&readelf("-l", file)), "{what}");
    let ours: Vec<(String, [u64; 4])> = image
        .sections
        .iter()
        .skip(1)
        .map(|section| (section.name.clone(), [section.address, section.offset, section.len, section.entry_len]))
        .collect();
    assert_eq!(ours, section_headers(&readelf("-S", file)), "{what}");
    let dynamic = image.dynamic.as_ref().unwrap_or_else(|| panic!("{what}: its dynamic table is not found"));
    let ours: Vec<u64> = dynamic.entries.iter().map(|(tag, _)| tag.0 as u64).collect();
    assert_eq!(ours, tags(&readelf("-d", file)), "{what}");
    let mut ours = BTreeMap::new();
    let kept = (0..image.sections.len()).filter_map(|section| image.kept_relocations(section)).flatten();
    for relocation in image.relocations().unwrap().iter().flat_map(elf::Relocations::iter).chain(kept) {
        *ours.entry(relocation.kind).or_default() += 1;
    }
    assert_eq!(ours, relocations(&readelf("-r", file)), "{what}");
    assert!(!image.is_debug_data(), "{what}");
}

#[test]
fn files_of_every_linker_are_read_as_readelf_reads_them() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source.c");
    std::fs::write(&source, SOURCE).unwrap();
    let file = home.path().join("file");
    let mut checked = 0;
    for linker in ["bfd", "gold", "lld", "mold"] {
        for thread_local in ["-UTLS", "-DTLS_EMPTY", "-DTLS_FULL"] {
            for kind in [&["-fPIE", "-pie"][..], &["-fPIC", "-shared"]] {
                for binding in ["-Wl,-z,lazy", "-Wl,-z,now", "-Wl,--emit-relocs"] {
                    let what = format!("{linker} {thread_local} {kind:?} {binding}");
                    let linker = format!("-fuse-ld={linker}");
                    let mut command = Command::new("gcc");
                    command.args(["-O1", &linker, thread_local, binding, "-o"]).arg(&file).args(kind).arg(&source);
                    if !testing::compiled(&mut command) {
                        continue;
                    }
                    check(&file, &what);
                    let stripped = Command::new("strip").arg(&file).status().expect("binutils");
                    assert!(stripped.success(), "{what}");
                    check(&file, &format!("{what}, stripped"));
                    checked += 2;
                }
            }
        }
    }
    assert!(checked > 0, "no linker works here");
    println!("{checked} files");
}

/// Where the code was taken out, it is said, and nothing is read of a dynamic table that is not there.
#[test]
fn debug_data_of_another_file_is_told() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source.c");
    std::fs::write(&source, SOURCE).unwrap();
    for linker in ["bfd", "gold", "lld", "mold"] {
        for thread_local in ["-UTLS", "-DTLS_EMPTY"] {
            let (file, debug) = (home.path().join("file"), home.path().join("file.debug"));
            let linker = format!("-fuse-ld={linker}");
            let mut command = Command::new("gcc");
            command.args(["-g", "-fPIE", "-pie", &linker, thread_local, "-o"]).arg(&file).arg(&source);
            if !testing::compiled(&mut command) {
                continue;
            }
            let split = Command::new("objcopy").arg("--only-keep-debug").arg(&file).arg(&debug).status();
            assert!(split.expect("binutils").success(), "{linker}");
            let bytes = std::fs::read(&debug).unwrap();
            let image = Image::of(bytes.as_slice()).unwrap();
            assert!(image.is_debug_data() && image.dynamic.is_none(), "{linker} {thread_local}");
        }
    }
}
