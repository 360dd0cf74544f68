//! What the oracle says of a library of this system against itself, and of forms of it that differ in one place.

use model::Exit;
use verify::{Allowed, Expected, Kind, Word, offline, offline_expecting};

const PT_NULL: u32 = 0;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// A small library that this test has loaded itself. `None`, and the reason said, where everything is linked into it,
/// or where files are not of 64 bits, least significant byte first.
fn library() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let found = paths.find(|path| path.contains("libgcc_s")).and_then(|path| std::fs::read(path).ok());
    let usable = found.filter(|bytes| bytes[4..6] == [2, 1]);
    if usable.is_none() {
        eprintln!("SKIPPED: this test has not loaded a libgcc_s of 64 bits");
    }
    usable
}

/// Where the program header of this type begins in the file.
fn header_of(file: &[u8], kind: u32) -> usize {
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let first = u64::from_le_bytes(file[32..40].try_into().expect("eight bytes")) as usize;
    let mut headers = (0..half(56)).map(|number| first + number * half(54));
    headers.find(|at| file[*at..*at + 4] == kind.to_le_bytes()).expect("a program header of this type")
}

/// The sorts of what differs after a change of the file.
fn sorts(original: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<Kind> {
    let mut packed = original.to_vec();
    change(&mut packed);
    let verdict = offline(original, &packed).expect("a library of the system is an original");
    verdict.differences.iter().map(|difference| difference.kind).collect()
}

#[test]
fn a_library_means_what_it_means() {
    let Some(original) = library() else { return };
    let verdict = offline(&original, &original).expect("a library of the system is an original");
    assert!(verdict.agrees(), "{:#?}", verdict.differences);
    let checked = verdict.checked;
    assert!(checked.bytes.0 > 10_000 && checked.relative > 0 && checked.symbols > 20, "{checked:?}");
}

#[test]
fn what_is_no_library_is_no_original_and_no_packed_file() {
    let refused = |original: &[u8]| offline(original, original).expect_err("nothing to compare with").exit;
    assert_eq!((refused(b""), refused(&[0; 4096])), (Exit::Data, Exit::Data));
    let Some(original) = library() else { return };
    assert_eq!(sorts(&original, |file| file.clear()), [Kind::Structure]);
    assert_eq!(sorts(&original, |file| file.truncate(100)), [Kind::Structure]);
}

#[test]
fn every_part_of_the_header_counts_and_nothing_else_is_said_of_another_machine() {
    let Some(original) = library() else { return };
    // e_machine of another processor with the same width and order of bytes.
    assert_eq!(sorts(&original, |file| file[18..20].copy_from_slice(&[243, 0])), [Kind::Header]);
    for (name, at) in [("ABI", 7), ("entry", 24), ("flags", 48)] {
        assert!(sorts(&original, |file| file[at] ^= 0x10).contains(&Kind::Header), "{name}");
    }
}

#[test]
fn program_headers_may_neither_go_nor_come_nor_change() {
    let Some(original) = library() else { return };
    let stack = header_of(&original, PT_GNU_STACK);
    let gone = sorts(&original, |file| file[stack..stack + 4].copy_from_slice(&PT_NULL.to_le_bytes()));
    assert_eq!(gone, [Kind::Segment]);
    // The stack becomes executable: the header that was is gone, and another one is new.
    let changed = sorts(&original, |file| file[stack + 4] ^= 1);
    assert_eq!(changed.iter().filter(|kind| **kind == Kind::Segment).count(), 2, "{changed:?}");
    // Where its bytes would be in the file says nothing.
    assert_eq!(sorts(&original, |file| file[stack + 8] ^= 0x40), []);
    let relro = header_of(&original, PT_GNU_RELRO);
    let gone = sorts(&original, |file| file[relro..relro + 4].copy_from_slice(&PT_NULL.to_le_bytes()));
    assert!(gone.contains(&Kind::Segment), "{gone:?}");
}

#[test]
fn a_program_keeps_the_header_by_which_the_loader_learns_its_base() {
    let Some(original) = std::fs::read("/bin/true").ok().filter(|bytes| bytes[4..6] == [2, 1] && bytes[16] == 3) else {
        eprintln!("SKIPPED: no position-independent /bin/true of 64 bits");
        return;
    };
    assert_eq!(sorts(&original, |_| ()), []);
    let base = header_of(&original, PT_PHDR);
    let gone = sorts(&original, |file| file[base..base + 4].copy_from_slice(&PT_NULL.to_le_bytes()));
    assert!(gone.contains(&Kind::Segment), "{gone:?}");
}

#[test]
fn a_table_of_an_initialiser_must_lie_in_the_file() {
    let Some(original) = library() else { return };
    let expected = Expected { allowed: vec![Allowed::Initialiser { table: u64::MAX - 64, len: 16 }] };
    let verdict = offline_expecting(&original, &original, &expected).expect("an original");
    let told =
        verdict.differences.iter().any(|difference| difference.what.contains("initialiser's table lies outside"));
    assert!(told, "{:#?}", verdict.differences);
}

#[test]
fn any_changed_byte_of_the_code_is_found() {
    let Some(original) = library() else { return };
    // The program header of what is mapped for executing: where its bytes are, and how many.
    let half = |at: usize| usize::from(u16::from_le_bytes([original[at], original[at + 1]]));
    let long = |at: usize| u64::from_le_bytes(original[at..at + 8].try_into().expect("eight bytes")) as usize;
    let mut headers = (0..half(56)).map(|number| long(32) + number * half(54));
    let code = headers.find(|at| original[*at] == 1 && original[*at + 4] & 1 == 1).expect("code");
    let (offset, len) = (long(code + 8), long(code + 32));
    for at in (offset..offset + len).step_by(len / 40) {
        assert_eq!(sorts(&original, |file| file[at] ^= 1), [Kind::Memory], "at {at:#x}");
    }
}

/// Where the program headers of what is mapped begin in the file.
fn loads(file: &[u8]) -> Vec<usize> {
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let first = u64::from_le_bytes(file[32..40].try_into().expect("eight bytes")) as usize;
    let headers = (0..half(56)).map(|number| first + number * half(54));
    headers.filter(|at| file[*at..*at + 4] == [1, 0, 0, 0]).collect()
}

fn long(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"))
}

fn set(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn access_to_memory_stays_as_it_was() {
    let Some(original) = library() else { return };
    for load in loads(&original) {
        for flag in [1, 2] {
            let found = sorts(&original, |file| file[load + 4] ^= flag);
            assert!(found.contains(&Kind::Protection), "flag {flag} of {load:#x}: {found:?}");
        }
    }
    // Less is sealed.
    let relro = header_of(&original, PT_GNU_RELRO);
    let sealed = long(&original, relro + 40);
    let found = sorts(&original, |file| set(file, relro + 40, sealed - sealed.min(4096)));
    assert!(found.contains(&Kind::Protection), "{found:?}");
}

#[test]
fn memory_may_neither_go_nor_lose_its_bytes() {
    let Some(original) = library() else { return };
    let last = *loads(&original).last().expect("what is mapped");
    let (in_file, in_memory) = (long(&original, last + 32), long(&original, last + 40));
    assert!(sorts(&original, |file| set(file, last + 40, in_file)).contains(&Kind::Memory), "{in_file} {in_memory}");
    assert!(sorts(&original, |file| set(file, last + 32, in_file / 2)).contains(&Kind::Memory));
    // More memory without bytes is nothing new.
    assert!(!sorts(&original, |file| set(file, last + 40, in_memory + 64)).contains(&Kind::Memory));
}

/// What holds at the base that is looked at first need not hold at another.
#[test]
fn a_number_that_looks_like_an_address_at_the_first_base_is_found_at_the_second() {
    const RELATIVE: u64 = 8;
    const DT_RELACOUNT: u64 = 0x6fff_fff9;
    const FIRST_BASE: u64 = 0x5555_5555_4000;
    let Some(original) = library().filter(|file| file[18..20] == [62, 0]) else { return };
    let last = *loads(&original).last().expect("what is mapped");
    let (offset, start) = (long(&original, last + 8), long(&original, last + 16));
    let end = start + long(&original, last + 32);
    let is_relative = |at: &usize| {
        long(&original, at + 8) == RELATIVE
            && (start..end).contains(&long(&original, *at))
            && (1..end).contains(&long(&original, at + 16))
    };
    let entry = (0..original.len() - 24).step_by(8).find(is_relative).expect("a relative relocation");
    let (at, addend) = (long(&original, entry), long(&original, entry + 16));
    // The first so many entries are not looked at.
    let count = (0..original.len() - 16).step_by(8).find(|at| long(&original, *at) == DT_RELACOUNT).expect("a count");
    let kinds = sorts(&original, |file| {
        set(file, count + 8, 0);
        set(file, entry + 8, 0);
        set(file, (at - start + offset) as usize, FIRST_BASE + addend);
    });
    assert!(kinds.contains(&Kind::Memory), "{kinds:?}");
}

#[test]
fn a_word_holds_what_was_announced() {
    let Some(original) = library() else { return };
    // The first word of the file is in memory, too.
    let kinds = |value: Word| {
        let expected = Expected { allowed: vec![Allowed::Word { at: 0, value }] };
        let verdict = offline_expecting(&original, &original, &expected).expect("an original");
        verdict.differences.iter().map(|difference| difference.kind).collect::<Vec<_>>()
    };
    let first = long(&original, 0);
    assert_eq!(kinds(Word::Plain(first)), []);
    assert_eq!(kinds(Word::Plain(first + 1)), [Kind::Expected, Kind::Expected], "at both bases");
    assert_eq!(kinds(Word::Address(first)), [Kind::Expected, Kind::Expected]);
}
