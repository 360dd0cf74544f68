//! Where a loader begins to give libraries their addresses, in a loader without names. x86-64. Pure, and for any bytes.

use super::jumped::branches_into;
use super::starts::{Function, Hooks, Texts};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// What the function says when `LD_DEBUG=reloc` asks it to: the C library of GNU, of every version.
const SAYS: &[u8] = b"\nrelocation processing: %s%s\n\0";
/// `lea` of an address relative to the next instruction, into any register: two bytes, one for the register, four for
/// the way.
const LEA: usize = 7;
const CALL: u8 = 0xe8;

/// Offset of the function in a file that is a loader, as its hooks say; `None`: it is none, or this cannot be known.
/// `functions` are those of the file, by offset.
pub fn relocating(bytes: &[u8], hooks: &Hooks, functions: &[Function]) -> Option<u64> {
    if bytes.get(4) != Some(&2) || hooks.loader.is_none() || hooks.relocating.is_some() {
        return hooks.relocating;
    }
    let said = address_of(bytes, memchr::memmem::find(bytes, SAYS)? as u64)?;
    let texts = Texts::of(bytes);
    let mut found = None;
    for (from, len) in texts.pieces() {
        let text = bytes.get(from as usize..from.checked_add(len)? as usize)?;
        let begin = texts.address_of(from)?;
        let says = |at: usize, code: &[u8]| {
            let [0x48 | 0x4c, 0x8d, register, way @ ..] = code else { return false };
            let next = begin.wrapping_add((at + LEA) as u64);
            let way = way.first_chunk().map_or(0, |way| i32::from_le_bytes(*way));
            register & 0xc7 == 0x05 && next.checked_add_signed(way.into()) == Some(said)
        };
        for (at, _) in text.windows(LEA).enumerate().filter(|(at, code)| says(*at, code)) {
            let offset = from + at as u64;
            let function = functions[functions.partition_point(|it| it.offset <= offset).checked_sub(1)?];
            // What is only jumped to is a part of it that the compiler has put elsewhere.
            let begin = function.offset..function.offset + 1;
            let is_called = branches_into(text, from, std::slice::from_ref(&begin))
                .iter()
                .any(|(_, source)| bytes.get(*source as usize) == Some(&CALL));
            let is_it = offset - function.offset < function.len && is_called;
            if !is_it || found.replace(function.offset).is_some_and(|other| other != function.offset) {
                return None;
            }
        }
    }
    found
}

/// Where a byte of a file is mapped.
fn address_of(bytes: &[u8], offset: u64) -> Option<u64> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let inside = offset.checked_sub(segment.p_offset(endian))?;
        (inside < segment.p_filesz(endian)).then(|| segment.p_vaddr(endian).checked_add(inside)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::starts::function_starts;
    use proptest::prelude::*;

    fn found_in(bytes: &[u8]) -> Option<u64> {
        let starts = function_starts(bytes).ok()?;
        relocating(bytes, &starts.hooks, &starts.functions)
    }

    /// The loader of this machine, if it is that of GNU's C library.
    fn loader() -> Option<Vec<u8>> {
        std::fs::read("/lib64/ld-linux-x86-64.so.2").ok()
    }

    #[test]
    fn the_loader_of_this_machine_says_where_it_relocates() {
        let Some(bytes) = loader() else { return };
        let starts = function_starts(&bytes).unwrap();
        let found = found_in(&bytes).expect("the function that relocates");
        assert!(starts.functions.iter().any(|function| function.offset == found && function.len > 1000), "{found:#x}");
        assert_ne!(starts.hooks.loader, Some(found));
        // No loader has it, and one that says something else neither.
        assert_eq!(found_in(&std::fs::read(std::env::current_exe().unwrap()).unwrap()), None);
        let mut other = bytes.clone();
        other[memchr::memmem::find(&bytes, SAYS).unwrap() + 1] = b'R';
        assert_eq!(found_in(&other), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_loader_with_changed_bytes(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let Some(mut bytes) = loader() else { return Ok(()) };
            for (place, value) in changes {
                let at = place.index(4096);
                bytes[at] = value;
            }
            if let Some(found) = found_in(&bytes) {
                prop_assert!(found < bytes.len() as u64);
            }
        }
    }
}
