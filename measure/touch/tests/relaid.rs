//! Which functions of linked programs may be moved, and whether the linker then needs the pages that were predicted.

mod workshop;

use elf::Image;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use touch::function::{Names, function_starts};
use touch::{Relaid, Staying, Stays, relaid};
use workshop::Workshop;

/// Offsets and lengths of functions by name, in this order.
fn places(bytes: &[u8], names: &[&str]) -> Vec<(u64, u64)> {
    let (known, starts) = (Names::of(bytes), function_starts(bytes).unwrap().functions);
    let place = |name: &&str| {
        let mut found = starts.iter().filter(|start| known.get(start.offset).as_deref() == Some(name));
        let start = found.next().unwrap_or_else(|| panic!("no {name}"));
        (start.offset, start.len)
    };
    names.iter().map(place).collect()
}

fn pages(places: &[(u64, u64)]) -> u64 {
    let pages = places.iter().flat_map(|(start, len)| start / 4096..(start + len).div_ceil(4096));
    pages.collect::<BTreeSet<_>>().len() as u64
}

/// Why a function has to stay; `None`: it may be moved.
fn stays(bytes: &[u8], name: &str) -> Option<Stays> {
    let said = relaid(bytes, &places(bytes, &[name]), None).unwrap();
    assert_eq!((said.called, said.movable <= said.functions), (1, true));
    let reasons: Vec<Stays> = said.stay.iter().filter(|it| it.called > 0).map(|it| it.why).collect();
    assert_eq!(said.called_movable + reasons.len() as u64, 1, "{name}: {said:?}");
    assert_eq!(said.pages_then.is_some(), reasons.is_empty());
    reasons.first().copied()
}

const KEPT: [&str; 4] = ["-O1", "-ffunction-sections", "-fno-toplevel-reorder", "-Wl,--emit-relocs"];

#[test]
fn each_reason_to_stay_is_found_and_what_compilers_make_may_be_moved() {
    let Some(workshop) = Workshop::new() else { return };
    for (name, flags) in [
        ("bfd", &["-fuse-ld=bfd"][..]),
        ("gold", &["-fuse-ld=gold"]),
        ("lld", &["-fuse-ld=lld"]),
        ("fixed", &["-no-pie", "-fuse-ld=bfd"]),
        ("optimised", &["-O2", "-fno-reorder-blocks-and-partition"]),
    ] {
        let flags = [&KEPT[..], flags].concat();
        let Some(program) = workshop.compile("stays.c", name, &flags) else { continue };
        let bytes = std::fs::read(program).unwrap();
        for function in ["plain", "loops", "aborts", "switches", "by_pointer", "last", "main"] {
            assert_eq!(stays(&bytes, function), None, "{name}: {function}");
        }
        for (function, why) in [
            ("runs", Stays::RunsOn),
            ("into", Stays::RunsOn),
            ("bare", Stays::NoUnwindData),
            ("target", Stays::Unknown),
            ("two", Stays::Entrance),
            ("data", Stays::Data),
            ("behind", Stays::RunsOn),
            ("longer", Stays::Borders),
            ("caller", Stays::Uncovered),
            ("callee", Stays::Uncovered),
            ("tabled", Stays::Table),
            ("own", Stays::Section),
            ("may_run_on", Stays::RunsOn),
            ("after", Stays::RunsOn),
        ] {
            assert_eq!(stays(&bytes, function), Some(why), "{name}: {function}");
        }
    }
}

#[test]
fn tables_of_jumps_and_landing_pads_move_with_their_functions() {
    let Some(workshop) = Workshop::new() else { return };
    let kept = ["-O2", "-ffunction-sections", "-Wl,--emit-relocs"];
    for compiler in [&["g++"][..], &["clang++"]] {
        let Some(program) = workshop.compile_with(&[compiler], "thrown.cpp", compiler[0], &kept) else { continue };
        let bytes = std::fs::read(program).unwrap();
        for function in ["_ZN1q6throwsEi", "_ZN1q7throughEi", "_ZN1q5firstEv", "_ZN1q2ofIiEET_S1_", "main"] {
            assert_eq!(stays(&bytes, function), None, "{compiler:?}: {function}");
        }
    }
    let clang = ["-O1", "-ffunction-sections", "-Wl,--emit-relocs"];
    if let Some(program) = workshop.compile_with(&[&["clang"]], "stays.c", "clang", &clang) {
        let bytes = std::fs::read(program).unwrap();
        assert_eq!(["switches", "loops", "plain"].map(|name| stays(&bytes, name)), [None; 3]);
    }
}

#[test]
fn without_relocations_nothing_is_proven_and_without_sections_little() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(kept) = workshop.compile("stays.c", "kept", &KEPT) else { return };
    let Some(usual) = workshop.compile("stays.c", "usual", &KEPT[..3]) else { return };
    let stripped = workshop.strip(&kept, "stripped");
    for program in [&usual, &stripped] {
        let bytes = std::fs::read(program).unwrap();
        let starts = function_starts(&bytes).unwrap().functions;
        let calls: Vec<(u64, u64)> = starts[..3].iter().map(|start| (start.offset, start.len)).collect();
        let said = relaid(&bytes, &calls, Some(128 << 10)).unwrap();
        let all = starts.len() as u64;
        let stay = [Staying { why: Stays::NoRelocations, functions: all, called: 3 }];
        assert_eq!((said.functions, said.movable, &said.stay[..]), (all, 0, &stay[..]));
        assert_eq!((said.pages_then, said.requests_then, said.requests.is_some()), (None, None, true));
    }
    // Functions of one section call each other without relocations.
    let source = (0..20).fold("volatile int sink;\n".to_owned(), |mut text, number| {
        let before = if number == 0 { "sink".to_owned() } else { format!("f{}(x)", number - 1) };
        writeln!(text, "static __attribute__((noinline, noipa)) int f{number}(int x) {{ return {before} + 1; }}")
            .unwrap();
        text
    });
    let source = source + "int main(void) { return f19(1) == 0; }\n";
    let Some(one) = compiled(&workshop, &source, "one", &["-O1", "-Wl,--emit-relocs"]) else { return };
    let Some(many) = compiled(&workshop, &source, "many", &["-O1", "-ffunction-sections", "-Wl,--emit-relocs"]) else {
        return;
    };
    let [one, many] = [one, many].map(|program| std::fs::read(program).unwrap());
    assert_eq!((stays(&one, "f7"), stays(&many, "f7")), (Some(Stays::Uncovered), None));
    // Code of another processor is not read.
    if let Some(other) = workshop.compile_with(&[&["aarch64-linux-gnu-gcc"]], "plain.c", "other", &["-static"]) {
        let said = relaid(&std::fs::read(other).unwrap(), &[], None).unwrap();
        assert_eq!((said.stay.len(), said.stay[0].why, said.stay[0].functions), (1, Stays::Processor, said.functions));
    }
    assert!(relaid(b"no file", &[], None).is_err());
}

/// Compiles a text.
fn compiled(workshop: &Workshop, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let path = workshop.path(&format!("{name}.c"));
    std::fs::write(&path, source).unwrap();
    let output = workshop.path(name);
    let said = Command::new("cc").args(flags).arg(&path).arg("-o").arg(&output).output().unwrap();
    if !said.status.success() {
        testing::skip(&format!(
            "{flags:?}: {}",
            String::from_utf8_lossy(&said.stderr).lines().next().unwrap_or_default()
        ));
        return None;
    }
    Some(output)
}

/// 400 functions of a few hundred bytes with tables of jumps, of which `main` calls each ninth. Prints what they did.
fn program() -> (String, Vec<String>) {
    let mut text = "#include <stdio.h>\nvolatile int sink;\n".to_owned();
    for number in 0..400 {
        let cases = (0..8).fold(String::new(), |mut cases, case| {
            write!(cases, "case {case}: sink += x * {}; sink ^= {case}; break; ", number * 8 + case).unwrap();
            cases
        });
        let steps = "sink = sink * 5 + x; ".repeat(1 + number % 7);
        writeln!(
            text,
            "__attribute__((noinline)) int f{number}(int x) {{ {steps} switch (x) {{ {cases} }} return sink; }}"
        )
        .unwrap();
    }
    let called: Vec<String> = (0..400).step_by(9).map(|number| format!("f{}", number * 7 % 400)).collect();
    let calls =
        called.iter().enumerate().fold(String::new(), |calls, (at, name)| calls + &format!("{name}(n + {at} % 9); "));
    let main =
        format!("int main(int n, char **words) {{ (void)words; {calls} return printf(\"%d\\n\", sink) < 0; }}\n");
    (text + &main, called)
}

#[test]
fn the_linker_then_needs_the_pages_that_were_predicted() {
    let Some(workshop) = Workshop::new() else { return };
    let (source, functions) = program();
    let called: Vec<&str> = ["main"].into_iter().chain(functions.iter().map(String::as_str)).collect();
    let flags = ["-O1", "-ffunction-sections", "-Wl,--emit-relocs"];
    let Some(plain) = compiled(&workshop, &source, "plain", &flags) else { return };
    let bytes = std::fs::read(&plain).unwrap();
    let calls = places(&bytes, &called);
    let said = relaid(&bytes, &calls, Some(16 << 10)).unwrap();
    assert_eq!(
        (said.called, said.called_movable, said.pages),
        (called.len() as u64, called.len() as u64, pages(&calls))
    );
    let then = said.pages_then.unwrap();
    assert!(then * 3 < said.pages, "{said:?}");
    assert!(said.requests_then.unwrap() < said.requests.unwrap(), "{said:?}");
    let order = workshop.path("order");
    let entries: Vec<touch::order::Entry> =
        called.iter().map(|name| touch::order::Entry { name: (*name).to_owned(), source: None }).collect();
    for (linker, option, format) in
        [("lld", "symbol", touch::order::Linker::Lld), ("gold", "section", touch::order::Linker::Gold)]
    {
        std::fs::write(&order, touch::order::order_file(&entries, format)).unwrap();
        let flags = [
            "-O1",
            "-ffunction-sections",
            &format!("-fuse-ld={linker}"),
            &format!("-Wl,--{option}-ordering-file={}", order.display()),
        ];
        let Some(ordered) = compiled(&workshop, &source, linker, &flags) else { continue };
        assert_eq!(printed(&ordered), printed(&plain));
        let counted = pages(&places(&std::fs::read(&ordered).unwrap(), &called));
        // Theirs need not begin with a page.
        assert!((then..=then + 1).contains(&counted), "{linker}: {counted} pages, {then} predicted");
    }
}

/// What a program prints.
fn printed(program: &Path) -> String {
    let said = Command::new(program).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

/// What is said to be known is enough: functions change places with others of their length, what relocations tell is
/// changed with them, and the program does what it did.
#[test]
fn functions_that_may_be_moved_can_be() {
    let Some(workshop) = Workshop::new() else { return };
    let (source, _) = program();
    // Tables hold addresses then, and nobody relocates at the start.
    let flags = ["-O1", "-ffunction-sections", "-fno-pie", "-no-pie", "-Wl,--emit-relocs"];
    let Some(plain) = compiled(&workshop, &source, "plain", &flags) else { return };
    let bytes = std::fs::read(&plain).unwrap();
    let names: Vec<String> = (0..400).map(|number| format!("f{number}")).collect();
    let functions = places(&bytes, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(relaid(&bytes, &functions, None).unwrap().called_movable, 400);
    let image = Image::of(&bytes[..]).unwrap();
    let text = image.section(".text").unwrap();
    let mut by_len: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    functions
        .iter()
        .for_each(|(offset, len)| by_len.entry(*len).or_default().push(offset - text.offset + text.address));
    // By address of each function: its length, and its new address.
    let mut moves: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (len, places) in &by_len {
        moves.extend(places.iter().zip(places.iter().cycle().skip(1)).map(|(from, to)| (*from, (*len, *to))));
    }
    assert!(moves.iter().filter(|(from, (_, to))| *from != to).count() > 300);
    let moved = |at: u64| match moves.range(..=at).next_back() {
        Some((from, (len, to))) if at - from < *len => at - from + to,
        _ => at,
    };
    let offset = |at: u64| image.offset_of(at, 1).unwrap() as usize;
    let mut changed = bytes.clone();
    for (from, (len, to)) in &moves {
        changed[offset(*to)..][..*len as usize].copy_from_slice(image.at(*from, *len).unwrap());
    }
    let symbols = image.all_symbols().unwrap();
    let of_text = |section: u16| image.sections.get(usize::from(section)).is_some_and(|it| it.name == ".text");
    let loaded = (0..image.sections.len())
        .filter(|number| image.sections[*number].is_loaded() && !image.sections[*number].name.starts_with(".eh_frame"));
    for relocation in loaded.filter_map(|number| image.kept_relocations(number)).flatten() {
        let at = relocation.offset;
        let symbol = symbols.get(relocation.symbol as usize).unwrap();
        let place = offset(moved(at));
        // What counts from data may begin far before them, among code.
        let led = |target: u64| if of_text(symbol.section) { moved(target) } else { target };
        let (len, value) = match relocation.kind {
            // An address.
            1 => (8, led(symbol.address.wrapping_add_signed(relocation.addend))),
            10 | 11 => (4, led(symbol.address.wrapping_add_signed(relocation.addend))),
            // A distance from behind the four bytes.
            _ => {
                let way = i32::from_le_bytes(image.at(at, 4).unwrap().try_into().unwrap());
                let target = led((at + 4).wrapping_add_signed(way.into()));
                (4, target.wrapping_sub(moved(at) + 4))
            }
        };
        changed[place..place + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }
    assert_ne!(changed, bytes);
    let other = workshop.path("moved");
    std::fs::copy(&plain, &other).unwrap();
    std::fs::write(&other, changed).unwrap();
    assert_eq!(printed(&other), printed(&plain));
}

/// A program with all that is looked at.
static REAL: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
    let workshop = Workshop::new()?;
    Some(std::fs::read(workshop.compile("stays.c", "real", &KEPT)?).unwrap())
});

fn look(bytes: &[u8], calls: &[(u64, u64)]) {
    let Ok(said) = relaid(bytes, calls, Some(1 << 20)) else { return };
    let Relaid { functions, called, movable, called_movable, stay, .. } = said;
    let sum = |count: fn(&Staying) -> u64| stay.iter().map(count).sum::<u64>();
    assert_eq!((functions, called), (movable + sum(|it| it.functions), called_movable + sum(|it| it.called)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_costs_an_answer_alone(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_usize), 1..16),
        calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..4),
    ) {
        if let Some(real) = &*REAL {
            let mut bytes = real.clone();
            let len = bytes.len();
            for (index, value, part) in changes {
                let at = match part {
                    0 => index.index(512),
                    1 => len - 1 - index.index(4096),
                    _ => index.index(len),
                };
                bytes[at] = value;
            }
            look(&bytes, &calls);
        }
    }
}
