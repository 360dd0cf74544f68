//! Files may say anything about how their functions are left: no panic, no walk without end, and nothing that the stack
//! does not hold.

mod stopped;

use cpu::{RawMapping, Unwinder, UserState};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use stopped::{Stopped, built, code_of, stopped};
use tempfile::NamedTempFile;

const C: [&str; 6] =
    ["cc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,-z,lazy", "-fcf-protection=none"];

/// What a program that stood deep in calls looked like, and its file's bytes; `None`: that was skipped.
static DEEP: LazyLock<Option<Deep>> = LazyLock::new(|| {
    let home = tempfile::tempdir().unwrap();
    let program = built(&C, "deep.c", home.path())?;
    let mut stopped = stopped(&program, &[])?;
    stopped.end();
    let bytes = std::fs::read(&program).unwrap();
    Some(Deep { program, stopped, bytes })
});

struct Deep {
    program: PathBuf,
    stopped: Stopped,
    bytes: Vec<u8>,
}

impl Deep {
    /// Where a section is in the file.
    fn section(&self, name: &str) -> std::ops::Range<usize> {
        let image = elf::Image::of(&self.bytes[..]).unwrap();
        let section = image.section(name).unwrap();
        section.offset as usize..(section.offset + section.len) as usize
    }

    /// A file with these bytes, and the program's mappings as if they were of it.
    fn mapped_from(&self, bytes: &[u8]) -> (NamedTempFile, Vec<RawMapping>) {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let about = std::fs::metadata(file.path()).unwrap();
        let mut mappings = self.stopped.mappings.clone();
        for mapping in mappings.iter_mut().filter(|mapping| mapping.path == self.program) {
            (mapping.path, mapping.dev, mapping.ino) = (file.path().to_owned(), about.dev(), about.ino());
        }
        (file, mappings)
    }

    fn walked(&self, bytes: &[u8], state: &UserState, stack: &[u8]) -> usize {
        let (_file, mappings) = self.mapped_from(bytes);
        let mut unwinder = Unwinder::new(Path::new("/"));
        mappings.iter().for_each(|mapping| unwinder.map(mapping));
        unwinder.unwind(self.stopped.pid, state, stack).places.len()
    }
}

#[test]
fn an_expression_without_end_ends() {
    let Some(deep) = DEEP.as_ref() else { return };
    let frames = deep.section(".eh_frame");
    // What linkers write about the PLT: rsp + 8, and 8 more behind the instruction that pushes.
    let known = [0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let at = deep.bytes[frames.clone()].windows(known.len()).position(|bytes| bytes == known);
    let Some(at) = at.map(|at| frames.start + at + 2) else { return testing::skip("needs GNU ld's PLT") };
    let image = elf::Image::of(&deep.bytes[..]).unwrap();
    let (intact, _) = deep.mapped_from(&deep.bytes);
    let (mapping, bias) = code_of(intact.path(), 7, 0x5555_0000_0000);
    let plt = bias + image.section(".plt").unwrap().address + 16;
    let back = bias + image.section(".text").unwrap().address + 0x40;
    let stack: Vec<u8> = [back, 3, 4].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let state = UserState { ip: plt, sp: 0x7fff_0000, bp: 0, bx: 0, stack: 0..stack.len() };
    let mut places = Vec::new();
    // DW_OP_skip to itself; DW_OP_dup and back; DW_OP_deref of what is not on the stack; a CFA of 1.
    for code in [&known[2..], &[0x2f, 0xfd, 0xff], &[0x12, 0x2f, 0xfc, 0xff], &[0x31, 0x06, 0x96], &[0x31, 0x2f, 7, 0]]
    {
        let mut bytes = deep.bytes.clone();
        bytes[at..at + code.len()].copy_from_slice(code);
        let (file, _) = deep.mapped_from(&bytes);
        let about = std::fs::metadata(file.path()).unwrap();
        let mapping =
            RawMapping { path: file.path().to_owned(), dev: about.dev(), ino: about.ino(), ..mapping.clone() };
        let mut unwinder = Unwinder::new(Path::new("/"));
        unwinder.map(&mapping);
        places.push(unwinder.unwind(7, &state, &stack).places.len());
    }
    assert!(places[0] > 1);
    assert_eq!(places[1..], [1; 4]);
}

/// Bytes to write over what is there: in which part, how far into it (of 10,000), what.
fn changes() -> impl Strategy<Value = Vec<(u8, usize, u8)>> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x80), Just(0x7f)];
    prop::collection::vec((0_u8..8, 0_usize..10_000, byte), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_damaged_file_costs_frames_and_nothing_else(changes in changes()) {
        let Some(deep) = DEEP.as_ref() else { return Ok(()) };
        let (frames, index) = (deep.section(".eh_frame"), deep.section(".eh_frame_hdr"));
        let mut bytes = deep.bytes.clone();
        for (part, far, byte) in changes {
            let part = match part {
                0..5 => frames.clone(),
                5 | 6 => index.clone(),
                // Headers, and all between.
                _ => 0..bytes.len().min(1 << 14),
            };
            bytes[part.start + far * part.len() / 10_000] = byte;
        }
        let stack = &deep.stopped.stack;
        let found = deep.walked(&bytes, &deep.stopped.state, stack);
        prop_assert!(found >= 1 && found <= stack.len() + 1);
    }

    #[test]
    fn any_registers_and_any_stack_end(
        ip in any::<u64>(), sp in any::<u64>(), bp in any::<u64>(), near in any::<[bool; 3]>(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..64),
    ) {
        let Some(deep) = DEEP.as_ref() else { return Ok(()) };
        let known = &deep.stopped.state;
        let pick = |near: bool, known: u64, any: u64| if near { known.wrapping_add(any % 256) } else { any };
        let (ip, sp, bp) = (pick(near[0], known.ip, ip), pick(near[1], known.sp, sp), pick(near[2], known.sp, bp));
        let mut stack = deep.stopped.stack.clone();
        for (at, byte) in noise {
            let at = at.index(stack.len());
            stack[at] = byte;
        }
        let state = UserState { ip, sp, bp, bx: bp, stack: 0..stack.len() };
        let found = deep.walked(&deep.bytes, &state, &stack);
        prop_assert!(found >= 1 && found <= stack.len() + 1);
    }
}
