//! Damaged files cost an answer, never the program; what is answered adds up.

use elf::Image;
use elfstat::{Depth, FileReport, analyze, survey};
use proptest::prelude::*;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;

/// A small real program, else this test itself.
static REAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    std::fs::read("/bin/true").or_else(|_| std::fs::read(std::env::current_exe()?)).expect("a real program to damage")
});

/// Looks at bytes at both depths, and checks what must hold of any answer.
fn see(bytes: &[u8]) {
    for depth in [Depth::Survey, Depth::Detail] {
        if let Ok(report) = Image::of(bytes).and_then(|image| analyze(&image, depth)) {
            adds_up(&report, bytes.len() as u64);
        }
    }
}

fn adds_up(report: &FileReport, len: u64) {
    let relocations = &report.relocations;
    assert_eq!(report.size.0, len);
    assert!(relocations.entry_bytes.0 <= 3 * len && relocations.relative <= relocations.entries);
    assert_eq!(relocations.count, relocations.entries + relocations.relr.map_or(0, |relr| relr.count));
    for groups in [&relocations.by_type, &relocations.by_table, &relocations.by_target] {
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), relocations.count, "{groups:?}");
    }
    let packing = &report.packing;
    let kept = packing.odd + packing.not_in_writable_data + packing.overlapping;
    assert_eq!(packing.packable + kept, relocations.relative);
    assert!(packing.now <= relocations.entry_bytes && report.waste.total <= report.waste.of);
    assert!(packing.addend_in_place.is_none_or(|count| count <= packing.packable));
    assert!(report.internal.load <= report.internal.of && report.internal.plt <= report.internal.of_plt);
    assert!(report.vtables.in_symbols <= relocations.count);
    assert!(relocations.by_symbol.iter().all(|group| group.name.len() < 2048));
    assert!(report.last_data_page.is_none_or(|page| page.unused.0 < 4096));
}

#[test]
fn a_list_that_claims_more_than_the_file_has_is_none() {
    let mut bytes = REAL.clone();
    let (size_at, lists) = {
        let image = Image::of(&bytes[..]).unwrap();
        let Some(dynamic) = &image.dynamic else { return testing::skip("the program is static") };
        let Some(size) = dynamic.value(object::elf::DT_INIT_ARRAYSZ) else { return testing::skip("no initialisers") };
        let list = dynamic.value(object::elf::DT_INIT_ARRAY).unwrap();
        let segment = image.segments.iter().position(|segment| segment.is_load() && segment.covers(list)).unwrap();
        let table = image.segments.iter().find(|segment| segment.kind == object::elf::PT_DYNAMIC).unwrap();
        let tag = [object::elf::DT_INIT_ARRAYSZ.0.cast_unsigned(), size].map(u64::to_le_bytes).concat();
        let entry = table.offset as usize
            + bytes[table.offset as usize..].chunks_exact(16).position(|entry| entry == tag).unwrap() * 16;
        (entry + 8, image.segments_at as usize + 56 * segment)
    };
    // Bytes in the file and in memory of the segment, and of the list: 2^50, which nobody would live to walk through.
    for at in [lists + 32, lists + 40, size_at] {
        bytes[at..at + 8].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    }
    see(&bytes);
}

fn places() -> impl Strategy<Value = usize> {
    let len = REAL.len();
    // Headers; the loader's tables behind them; the dynamic table and the section table at the end.
    prop_oneof![
        0..64_usize,
        64..1024_usize,
        1024..12_000.min(len),
        len * 3 / 4..len,
        len.saturating_sub(2400)..len,
        0..len
    ]
}

fn values() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(0xff), Just(0x7f), Just(0x80), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_real_program_with_changed_bytes(changes in prop::collection::vec((places(), values()), 1..12)) {
        let mut bytes = REAL.clone();
        for (place, value) in changes {
            bytes[place] = value;
        }
        see(&bytes);
    }

    #[test]
    fn a_header_before_noise(noise in prop::collection::vec(any::<u8>(), 0..600), ident in 0..4_usize) {
        let start: &[u8] = [&b"\x7fELF\x02\x01\x01"[..], b"\x7fELF\x01\x01\x01", b"\x7fELF\x02\x02\x01", b"\x7fELF\x01\x02\x01"][ident];
        see(&[start, &noise].concat());
    }
}

#[test]
fn a_real_program_cut_off_anywhere() {
    see(&REAL);
    for len in (0..2048).step_by(3).chain((2048..REAL.len()).step_by(97)) {
        see(&REAL[..len.min(REAL.len())]);
    }
}

#[test]
fn a_survey_says_what_it_could_not_read_and_what_it_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| std::fs::File::create(path(name)).unwrap().write_all(bytes).unwrap();
    std::fs::create_dir(path("below")).unwrap();
    write("good", &REAL);
    write("below/cut", &REAL[..100]);
    write("below/empty", b"");
    write("below/script", b"#!/bin/sh\n");
    write("below/short", b"\x7fEL");
    std::fs::hard_link(path("good"), path("same")).unwrap();
    symlink(path("good"), path("link")).unwrap();
    fifo(&path("pipe"));
    let found = survey(&[folder.path().to_owned()], &|_| {});
    let names: Vec<_> = found.files.iter().map(|file| file.path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["good"], "the second name and the link count once");
    assert_eq!(found.left_out.unreadable.len(), 1, "{:?}", found.left_out.unreadable);
    assert!(
        found.left_out.unreadable[0].path.ends_with("below/cut")
            && found.left_out.unreadable[0].reason.contains("damaged")
    );
    let skipped = found.left_out.skipped;
    assert_eq!((skipped.not_elf, skipped.hard_links, skipped.symlinks, skipped.special), (3, 1, 1, 1));
    // A link that is named is followed; a file that is named twice counts once.
    let named = survey(&[path("link"), path("good"), path("nowhere")], &|_| {});
    assert_eq!((named.files.len(), named.left_out.skipped.hard_links, named.left_out.unreadable.len()), (1, 1, 1));
}

fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
