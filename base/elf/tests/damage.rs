//! Damaged files cost an answer, never the program.

use elf::{Image, build_id, interpreter, needed, run_paths, sections};
use proptest::prelude::*;
use std::sync::LazyLock;

/// A small real program, else this test itself.
static REAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    std::fs::read("/bin/true").or_else(|_| std::fs::read(std::env::current_exe()?)).expect("a real program to damage")
});

/// Asks everything, and checks what must hold of any answer.
fn look(bytes: &[u8]) {
    if let Ok(found) = sections(bytes) {
        assert!(found.is_sorted_by_key(|section| section.offset));
        for section in found {
            assert!(section.len.0 > 0 && section.offset.0 + section.len.0 <= bytes.len() as u64, "{section:?}");
            assert!(!section.name.is_empty() && section.name.chars().count() <= 255);
        }
    }
    assert!(build_id(bytes).is_none_or(|id| !id.is_empty() && id.len() <= 128));
    assert!(needed(bytes).iter().all(|name| !name.is_empty()));
    assert!(interpreter(bytes).is_none_or(|path| !path.as_os_str().is_empty()));
    run_paths(bytes);
    if let Ok(image) = Image::of(bytes) {
        image.needed_versions();
        for table in image.relocations().into_iter().flatten() {
            assert_eq!(table.iter().count() as u64, table.count());
        }
        for section in 0..image.sections.len() {
            assert!(image.kept_relocations(section).is_none_or(|kept| kept.count() * 8 <= bytes.len()));
        }
        for table in image.dynamic_symbols().into_iter().chain(image.all_symbols()) {
            assert!(table.iter().count() < table.count().max(1));
        }
        if let Ok(Some((_, words))) = image.relr() {
            assert!(words.len() * 4 <= bytes.len());
        }
    }
}

/// Where a change does the most harm: the file header, the program headers, and the section table at the end.
fn places() -> impl Strategy<Value = usize> {
    let len = REAL.len();
    prop_oneof![0..64_usize, 64..1024_usize, len.saturating_sub(2400)..len, 0..len]
}

fn values() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(0xff), Just(0x7f), Just(0x80), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_real_program_with_changed_bytes(changes in prop::collection::vec((places(), values()), 1..12)) {
        let mut bytes = REAL.clone();
        for (place, value) in changes {
            bytes[place] = value;
        }
        look(&bytes);
    }

    #[test]
    fn a_header_before_noise(noise in prop::collection::vec(any::<u8>(), 0..600), ident in 0..4_usize) {
        let start: &[u8] = [&b"\x7fELF\x02\x01\x01"[..], b"\x7fELF\x01\x01\x01", b"\x7fELF\x02\x02\x01", b"\x7fELF\x01\x02\x01"][ident];
        look(&[start, &noise].concat());
    }
}

#[test]
fn a_real_program_cut_off_anywhere() {
    for len in (0..2048).chain((2048..REAL.len()).step_by(37)) {
        look(&REAL[..len.min(REAL.len())]);
    }
}

/// A million section names, each a view into one long text, must not become a million long names.
#[test]
fn a_small_file_does_not_ask_for_much_memory() {
    const COUNT: usize = 60_000;
    let mut file = vec![0; 64 + 64 * COUNT];
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file[20] = 1;
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    file[52..54].copy_from_slice(&64_u16.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&(COUNT as u16).to_le_bytes());
    file[62..64].copy_from_slice(&1_u16.to_le_bytes());
    let text_at = file.len() as u64;
    file.resize(file.len() + (1 << 20), b'x');
    for index in 1..COUNT {
        let header = &mut file[64 + 64 * index..][..64];
        header[4] = 3;
        header[24..32].copy_from_slice(&text_at.to_le_bytes());
        header[32..40].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    }
    let found = sections(&file).unwrap();
    assert_eq!(found.len(), COUNT - 1);
    assert!(found.iter().all(|section| section.name.len() == 255));
}
