//! Packs what four linkers make in a dozen layouts, and runs it: constructors, exceptions, thread-local data, IFUNC, COPY
//! relocations, weak symbols, notes and `_DYNAMIC` must be as before. Then lets other tools rewrite what was packed.

mod fixture;

use fixture::{Linked, Machine, Objects, complaints, have, must};
use pack::{Options, Outcome, Packed, Reason, SectionType, Space, Target, pack_file};
use std::path::Path;
use std::process::Command;

/// Flags by name of the layout.
const VARIANTS: [(&str, &[&str]); 9] = [
    ("lazy", &["-Wl,-z,lazy"]),
    ("now", &["-Wl,-z,now"]),
    ("norelro", &["-Wl,-z,norelro"]),
    ("stripped", &["-s"]),
    ("sysv", &["-Wl,--hash-style=sysv"]),
    ("both", &["-Wl,--hash-style=both"]),
    ("page64k", &["-Wl,-z,max-page-size=0x10000"]),
    ("page2m", &["-Wl,-z,max-page-size=0x200000"]),
    ("relocs", &["-Wl,--emit-relocs"]),
];

fn packed(from: &Path, to: &Path, options: &Options) -> Option<Packed> {
    match pack_file(from, &Target::Copy(to.to_path_buf()), options).unwrap() {
        Outcome::Packed(packed) => Some(*packed),
        Outcome::Refused(refusal) => {
            assert_eq!(refusal.reason, Reason::NoGain, "{refusal}");
            std::fs::copy(from, to).unwrap();
            None
        }
    }
}

/// Packs both files in every way; everything must run as before. Returns how many were packed.
fn check(linked: &Linked, name: &str) -> usize {
    let before = linked.output();
    let mut count = 0;
    for space in [Space::Shrink, Space::Keep, Space::Punch] {
        for section_type in [SectionType::Relr, SectionType::Progbits] {
            let options = Options { space, section_type, ..Options::default() };
            let home = tempfile::tempdir().unwrap();
            let new = linked.in_directory(home.path());
            for (from, to) in linked.files().into_iter().zip(new.files()) {
                let Some(packed) = packed(from, to, &options) else { continue };
                let name = format!("{name}, {space:?}, {}", from.display());
                count += 1;
                assert_eq!(packed.relocations.packed, packed.relocations.relative, "{name}: {packed:#?}");
                assert_eq!(std::fs::metadata(to).unwrap().len(), packed.size_after.0);
                assert_eq!(complaints(to), complaints(from), "{name}");
                if space == Space::Shrink {
                    // What becomes free, but for what a page cannot give, and the new section header.
                    let free = packed.relocations.table_before.0
                        - packed.relocations.table_after.0
                        - packed.relocations.relr.0;
                    let page = if name.starts_with("page2m") { 0 } else { 64 << 10 };
                    let saved = packed.size_before.0 - packed.size_after.0;
                    assert!(saved + page + 512 >= free || page == 0, "{name}: {free} bytes are free, {saved} saved");
                }
            }
            assert_eq!(new.output(), before, "{name}, {space:?}");
        }
    }
    count
}

fn all_variants(linker: &str, more: &[(&str, &[&str])]) {
    if !have(&format!("ld.{linker}")) {
        return testing::skip(&format!("needs ld.{linker}"));
    }
    let objects = Objects::compile(Machine::Native);
    let use_linker = format!("-fuse-ld={linker}");
    for (name, flags) in VARIANTS.iter().chain(more) {
        // Not every linker has every flag.
        let unknown = matches!((linker, *name), ("gold", "page2m"));
        if unknown {
            continue;
        }
        let linked = objects.link(name, &[&[use_linker.as_str()], *flags].concat());
        let count = check(&linked, &format!("{linker} {name}"));
        assert!(count >= 8, "{linker} {name}: only {count} packed");
    }
}

#[test]
fn what_bfd_links_runs_packed() {
    all_variants("bfd", &[("noseparate", &["-Wl,-z,noseparate-code"])]);
}

#[test]
fn what_gold_links_runs_packed() {
    all_variants("gold", &[("rosegment", &["-Wl,--rosegment"])]);
}

#[test]
fn what_lld_links_runs_packed() {
    all_variants("lld", &[("norosegment", &["-Wl,--no-rosegment"]), ("separate", &["-Wl,-z,separate-code"])]);
}

#[test]
fn what_mold_links_runs_packed() {
    all_variants("mold", &[("noseparate", &["-Wl,-z,noseparate-code"])]);
}

#[test]
fn files_without_section_headers_are_packed() {
    if !have("llvm-strip-14") {
        return testing::skip("needs llvm-strip-14");
    }
    let objects = Objects::compile(Machine::Native);
    for linker in ["bfd", "gold", "lld", "mold"].into_iter().filter(|linker| have(&format!("ld.{linker}"))) {
        let linked = objects.link(linker, &[&format!("-fuse-ld={linker}")]);
        for file in linked.files() {
            must(Command::new("llvm-strip-14").arg("--strip-sections").arg(file));
        }
        assert!(check(&linked, &format!("{linker} without sections")) >= 8);
    }
}

#[test]
fn other_tools_rewrite_what_was_packed() {
    let tools: [(&str, &[&str]); 7] = [
        ("strip", &["-g"]),
        ("strip", &["-s"]),
        ("objcopy", &[]),
        ("llvm-strip-14", &["-g"]),
        ("llvm-strip-14", &["-s"]),
        ("eu-strip", &[]),
        ("patchelf", &["--set-rpath", "/nowhere/at/all"]),
    ];
    let objects = Objects::compile(Machine::Native);
    for linker in ["bfd", "gold", "lld", "mold"].into_iter().filter(|linker| have(&format!("ld.{linker}"))) {
        let linked = objects.link(linker, &[&format!("-fuse-ld={linker}")]);
        let before = linked.output();
        for space in [Space::Shrink, Space::Keep] {
            let home = tempfile::tempdir().unwrap();
            let new = linked.in_directory(&home.path().join("packed"));
            for (from, to) in linked.files().into_iter().zip(new.files()) {
                packed(from, to, &Options { space, ..Options::default() });
            }
            for (number, (tool, flags)) in tools.iter().enumerate() {
                if !have(tool) {
                    testing::skip(&format!("needs {tool}"));
                    continue;
                }
                // After packing.
                let after = new.in_directory(&home.path().join(number.to_string()));
                for (from, to) in new.files().into_iter().zip(after.files()) {
                    std::fs::copy(from, to).unwrap();
                    must(Command::new(tool).args(*flags).arg(to));
                }
                assert_eq!(after.output(), before, "{linker}, {space:?}, then {tool} {flags:?}");
                // And before it.
                let mut packed_after = 0;
                for (from, to) in linked.files().into_iter().zip(after.files()) {
                    let between = to.with_extension("between");
                    std::fs::copy(from, &between).unwrap();
                    must(Command::new(tool).args(*flags).arg(&between));
                    packed_after +=
                        usize::from(packed(&between, to, &Options { space, ..Options::default() }).is_some());
                }
                assert!(packed_after > 0, "{linker}, {tool}");
                assert_eq!(after.output(), before, "{linker}, {tool} {flags:?}, then {space:?}");
            }
        }
    }
}

#[test]
fn other_machines_run_packed() {
    for machine in [Machine::I386, Machine::Aarch64, Machine::Arm] {
        let (emulator, kind) = match machine {
            Machine::Aarch64 => ("qemu-aarch64", "AArch64"),
            Machine::Arm => ("qemu-arm", "ARM"),
            _ => ("true", "i386"),
        };
        if !have(machine.compiler()) || !have(emulator) {
            testing::skip(&format!("needs {} and {emulator}", machine.compiler()));
            continue;
        }
        let objects = Objects::compile(machine);
        for (name, flags) in VARIANTS {
            let linked = objects.link(name, flags);
            assert!(check(&linked, &format!("{kind} {name}")) >= 4, "{kind} {name}");
        }
    }
}

#[test]
fn packed_files_are_not_packed_again() {
    let objects = Objects::compile(Machine::Native);
    let linked = objects.link("twice", &[]);
    let once = linked.library.with_extension("once");
    assert!(packed(&linked.library, &once, &Options::default()).is_some());
    let Outcome::Refused(refusal) = pack_file(&once, &Target::PlanOnly, &Options::default()).unwrap() else {
        panic!("packed twice")
    };
    assert_eq!(refusal.reason, Reason::AlreadyRelr);
}

#[test]
fn packing_gives_what_a_linker_would_have_given() {
    let objects = Objects::compile(Machine::Native);
    let plain = objects.link("plain", &["-fuse-ld=bfd"]);
    let relr = objects.link("relr", &["-fuse-ld=bfd", "-Wl,-z,pack-relative-relocs"]);
    let addresses = |path: &Path| {
        let output = must(Command::new("readelf").arg("-rW").arg(path));
        let text = String::from_utf8(output.stdout).unwrap();
        // The count, then one address a line; addresses of data differ by layout, their number and gaps do not.
        let lines = text.lines().skip_while(|line| !line.contains(".relr.dyn")).skip(1);
        lines
            .take_while(|line| !line.is_empty())
            .filter_map(|line| u64::from_str_radix(line.trim(), 16).ok())
            .collect::<Vec<_>>()
    };
    let to = plain.library.with_extension("packed");
    packed(&plain.library, &to, &Options::default()).unwrap();
    let (ours, theirs) = (addresses(&to), addresses(&relr.library));
    assert!(ours.len() > 1000, "{}", ours.len());
    assert_eq!(ours.len(), theirs.len());
}
