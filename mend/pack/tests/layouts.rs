//! Packs what four linkers make, in every way, and runs it: constructors, exceptions, thread-local data, IFUNC, COPY
//! relocations, weak symbols, notes and `_DYNAMIC` must be as before. Then lets other tools rewrite what was packed,
//! and packs what they rewrote.

mod fixture;

use fixture::{Linked, Objects, complaints, have, must};
use pack::{DynamicPlace, HeaderSlot, Options, Outcome, Packed, Reason, SectionType, Space, Target, pack_file};
use std::path::Path;
use std::process::Command;

fn packed(from: &Path, to: &Path, options: &Options) -> Option<Packed> {
    match pack_file(from, &Target::CopyOver(to.to_path_buf()), options).unwrap() {
        Outcome::Packed(packed) => Some(*packed),
        Outcome::Refused(refusal) => {
            // patchelf leaves no room for program headers.
            assert_eq!(refusal.reason, Reason::NoHeaderSlot, "{refusal}");
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
            let new = Linked::at(home.path());
            for (from, to) in linked.files().into_iter().zip(new.files()) {
                let Some(packed) = packed(from, to, &options) else { continue };
                let name = format!("{name}, {space:?}, {}", from.display());
                count += 1;
                assert_eq!(packed.relocations.packed, packed.relocations.relative, "{name}: {packed:#?}");
                assert_eq!(std::fs::metadata(to).unwrap().len(), packed.size_after.0);
                assert_eq!(complaints(to), complaints(from), "{name}");
                if space == Space::Shrink {
                    let free = packed.relocations.table_before.0
                        - packed.relocations.table_after.0
                        - packed.relocations.relr.0;
                    let saved = packed.size_before.0 - packed.size_after.0;
                    // One page for the split, one where the dynamic section moves, what lay between merged segments,
                    // and the new section headers.
                    let moves = packed.plan.dynamic_place != DynamicPlace::Stays;
                    let merges = packed.plan.header_slots.contains(&HeaderSlot::MergesSegments);
                    let lost = 4096 * (1 + u64::from(moves) + 2 * u64::from(merges)) + 512;
                    assert!(saved + lost >= free, "{name}: {free} bytes are free, {saved} saved");
                }
            }
            assert_eq!(new.output(), before, "{name}, {space:?}");
        }
    }
    count
}

fn linkers() -> impl Iterator<Item = (&'static str, String)> {
    ["bfd", "gold", "lld", "mold"].into_iter().filter_map(|linker| {
        if !have(&format!("ld.{linker}")) {
            testing::skip(&format!("needs ld.{linker}"));
            return None;
        }
        Some((linker, format!("-fuse-ld={linker}")))
    })
}

#[test]
fn every_way_to_pack_runs() {
    let objects = Objects::compile();
    for (linker, flag) in linkers() {
        for (name, more) in [("plain", ""), ("relocs", "-Wl,--emit-relocs"), ("both", "-Wl,--hash-style=both")] {
            let linked = objects.link(&format!("{linker}-{name}"), &[flag.as_str(), more]);
            assert_eq!(check(&linked, &format!("{linker} {name}")), 12);
        }
    }
}

#[test]
fn files_without_section_headers_are_packed() {
    if !have("llvm-strip-14") {
        return testing::skip("needs llvm-strip-14");
    }
    let objects = Objects::compile();
    for (linker, flag) in linkers() {
        let linked = objects.link(linker, &[&flag]);
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
    let objects = Objects::compile();
    for (linker, flag) in linkers() {
        let linked = objects.link(linker, &[&flag]);
        let home = tempfile::tempdir().unwrap();
        let rewritten: Vec<_> = tools
            .iter()
            .enumerate()
            .filter_map(|(number, (tool, flags))| {
                if !have(tool) {
                    testing::skip(&format!("needs {tool}"));
                    return None;
                }
                let copy = Linked::at(&home.path().join(number.to_string()));
                apply(tool, flags, &linked, &copy);
                let expected = common(copy.output());
                Some((tool, flags, copy, expected))
            })
            .collect();
        for space in [Space::Shrink, Space::Keep] {
            let options = Options { space, ..Options::default() };
            let new = Linked::at(&home.path().join(format!("{space:?}")));
            for (from, to) in linked.files().into_iter().zip(new.files()) {
                packed(from, to, &options);
            }
            for (tool, flags, copy, expected) in &rewritten {
                let after = Linked::at(&home.path().join("after"));
                apply(tool, flags, &new, &after);
                assert_eq!(&common(after.output()), expected, "{linker}, {space:?}, then {tool} {flags:?}");

                let mut count = 0;
                for (from, to) in copy.files().into_iter().zip(after.files()) {
                    count += usize::from(packed(from, to, &options).is_some());
                }
                assert!(count > 0, "{linker}, {tool}");
                assert_eq!(&common(after.output()), expected, "{linker}, {tool} {flags:?}, then {space:?}");
            }
        }
    }
}

/// What a tool must leave: patchelf moves the dynamic section away from `_DYNAMIC`, unless packing had to move it
/// before and left the old one in place.
fn common(output: String) -> String {
    output.replace("dynamic 0", "dynamic 1")
}

/// Lets a tool rewrite copies.
fn apply(tool: &str, flags: &[&str], from: &Linked, to: &Linked) {
    for (from, to) in from.files().into_iter().zip(to.files()) {
        std::fs::copy(from, to).unwrap();
        must(Command::new(tool).args(flags).arg(to));
    }
}

#[test]
fn packed_files_are_not_packed_again() {
    let objects = Objects::compile();
    let linked = objects.link("twice", &[]);
    let once = linked.library.with_extension("once");
    assert!(packed(&linked.library, &once, &Options::default()).is_some());
    let Outcome::Refused(refusal) = pack_file(&once, &Target::PlanOnly, &Options::default()).unwrap() else {
        panic!("packed twice")
    };
    assert_eq!(refusal.reason, Reason::AlreadyRelr);
}
