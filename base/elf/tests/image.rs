//! What a segment, a section and a dynamic table say of addresses, at their borders.

use elf::{Class, Dynamic, Image, Order, SectionHead, Segment};
use object::elf::*;

fn segment() -> Segment {
    Segment {
        kind: PT_LOAD,
        flags: PF_R,
        offset: 0x200,
        address: 0x1000,
        physical: 0,
        file_len: 0x100,
        memory_len: 0x180,
        align: 4096,
    }
}

fn section() -> SectionHead {
    SectionHead {
        name: ".data".into(),
        name_at: 1,
        kind: SHT_PROGBITS,
        flags: SHF_ALLOC,
        address: 0x1000,
        offset: 0x200,
        len: 0x100,
        link: 0,
        info: 0,
        align: 8,
        entry_len: 0,
    }
}

#[test]
fn a_segment_covers_its_memory_and_backs_its_bytes_in_the_file() {
    let segment = segment();
    assert!(!segment.covers(0xfff) && segment.covers(0x1000) && segment.covers(0x117f) && !segment.covers(0x1180));
    assert!(segment.backs(0x1000, 0x100) && segment.backs(0x10ff, 1) && segment.backs(0x1100, 0));
    assert!(!segment.backs(0xfff, 1) && !segment.backs(0x1001, 0x100) && !segment.backs(0x1000, 0x101));
    assert!(!segment.backs(0x1001, u64::MAX), "a length that runs over");
}

#[test]
fn what_may_be_done_with_a_segment_is_what_its_flags_say() {
    let with = |flags| Segment { flags, ..segment() };
    assert!(!with(PF_R).is_writable() && !with(PF_R).is_executable());
    assert!(with(PF_R | PF_W).is_writable() && !with(PF_R | PF_W).is_executable());
    assert!(!with(PF_R | PF_X).is_writable() && with(PF_R | PF_X).is_executable());
    assert!(segment().is_load() && !Segment { kind: PT_NOTE, ..segment() }.is_load());
}

#[test]
fn a_section_covers_its_bytes_and_says_what_it_is() {
    let plain = section();
    assert!(!plain.covers(0xfff) && plain.covers(0x1000) && plain.covers(0x10ff) && !plain.covers(0x1100));
    assert!(plain.in_file() && plain.is_loaded() && !plain.is_writable() && !plain.is_thread_local());
    assert!(!SectionHead { kind: SHT_NOBITS, ..section() }.in_file());
    let with = |flags| SectionHead { flags, ..section() };
    assert!(!with(SHF_WRITE).is_loaded() && with(SHF_WRITE).is_writable());
    assert!(with(SHF_ALLOC | SHF_TLS).is_thread_local() && !with(SHF_ALLOC | SHF_TLS).is_writable());
}

#[test]
fn the_last_value_of_a_tag_counts_and_all_are_listed() {
    let entries = vec![(DT_NEEDED, 1), (DT_FLAGS, 5), (DT_NEEDED, 2), (DT_FLAGS, 6)];
    let dynamic = Dynamic { offset: 0, address: 0, len: 80, entries, spare: 0 };
    assert_eq!((dynamic.value(DT_FLAGS), dynamic.value(DT_HASH)), (Some(6), None));
    assert_eq!(dynamic.values(DT_NEEDED).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn numbers_are_read_in_the_order_of_the_file() {
    let (little, big) = (Order::Little, Order::Big);
    assert_eq!((little.half([1, 2]), big.half([1, 2])), (0x201, 0x102));
    assert_eq!((little.word([1, 2, 3, 4]), big.word([1, 2, 3, 4])), (0x0403_0201, 0x0102_0304));
    let eight = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!((little.long(eight), big.long(eight)), (0x0807_0605_0403_0201, 0x0102_0304_0506_0708));
    assert_eq!((big.address(&eight), big.address(&eight[..4])), (Some(0x0102_0304_0506_0708), Some(0x0102_0304)));
    assert_eq!((little.address(&eight[..4]), little.address(&eight[..3])), (Some(0x0403_0201), None));
}

/// A file of one segment with these sections.
fn image(data: &[u8], sections: Vec<SectionHead>) -> Image<&[u8]> {
    Image {
        data,
        len: data.len() as u64,
        class: Class::Elf64,
        order: Order::Little,
        machine: EM_X86_64,
        kind: ET_DYN,
        segments_at: 64,
        sections_at: 0,
        names_index: 0,
        segments: vec![Segment { offset: 0, ..segment() }],
        sections,
        sections_damaged: None,
        dynamic: None,
        build_id: None,
        interpreter: None,
    }
}

#[test]
fn debug_data_have_code_without_bytes_or_a_dynamic_table_that_was_taken_out() {
    let of = |kind, flags| image(&[], vec![SectionHead { kind, flags, ..section() }]).is_debug_data();
    assert!(of(SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR));
    assert!(!of(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR), "a program");
    assert!(!of(SHT_NOBITS, SHF_ALLOC | SHF_WRITE), "that is .bss");
    assert!(!of(SHT_NOBITS, SHF_EXECINSTR), "what is not loaded was not taken out");
    let mut taken = image(&[], vec![section()]);
    taken.segments.push(Segment { kind: PT_DYNAMIC, ..segment() });
    assert!(taken.is_debug_data());
    taken.dynamic = Some(Dynamic { offset: 0, address: 0, len: 0, entries: Vec::new(), spare: 0 });
    assert!(!taken.is_debug_data());
    assert!(!image(&[], vec![section()]).is_debug_data(), "a static program has no dynamic table");
}

#[test]
fn a_template_without_bytes_takes_no_room_in_memory() {
    let with = |name: &str, kind, flags| SectionHead { name: name.into(), kind, flags, ..section() };
    let image = image(
        &[],
        vec![
            with(".tbss", SHT_NOBITS, SHF_ALLOC | SHF_TLS),
            with(".comment", SHT_PROGBITS, SHF_MERGE),
            with(".tdata", SHT_PROGBITS, SHF_ALLOC | SHF_TLS),
            with(".bss", SHT_NOBITS, SHF_ALLOC),
            with(".data", SHT_PROGBITS, SHF_ALLOC),
        ],
    );
    let loaded: Vec<&str> = image.loaded_sections().map(|section| section.name.as_str()).collect();
    assert_eq!(loaded, [".tdata", ".bss", ".data"]);
    assert_eq!(image.section_at(0x1000).map(|section| section.name.as_str()), Some(".tdata"));
    assert_eq!(image.section_at(0x2000), None);
}

#[test]
fn the_word_at_an_address_is_that_of_the_file() {
    let data: Vec<u8> = (0..=255).collect();
    let mut image = image(&data, Vec::new());
    assert_eq!(image.word_at(0x1002), Some(0x0908_0706_0504_0302));
    assert_eq!(image.word_at(0x10fc), None, "its end is not in the file");
    image.order = Order::Big;
    assert_eq!(image.word_at(0x1002), Some(0x0203_0405_0607_0809));
    image.class = Class::Elf32;
    assert_eq!(image.word_at(0x1002), Some(0x0203_0405));
}
