//! Chromium's allocator shim: functions beside `free` that the program calls and that no symbol table names.
//!
//! Each is the same few instructions: load the address of the table of functions, load one of them, zero the arguments
//! that follow the caller's, jump. So they are told by the table (that of `free`), by the place in it, and by how many
//! arguments they pass on. Only the layout that was looked at is accepted: `free` in place 0x40 of it. Found in
//! Chromium 15x, where blocks that came from these were freed by `free`, and blocks that `malloc` made were moved by
//! these: 97 events of 1.1 million could not be.

use crate::detour::{Island, Patch};
use crate::inner::{Own, Shape, Told, enter_own};
use crate::symbols::{self, Which};
use crate::{module, real, sys};

/// Place in the table, arguments that are passed on, what it does, its name in the sources.
const FUNCTIONS: [(u32, usize, Shape, &[u8]); 5] = [
    (0x18, 2, Shape::Count, b"UncheckedCalloc"),
    (0x38, 2, Shape::Realloc, b"UncheckedRealloc"),
    (0x98, 2, Shape::SizeAlign, b"UncheckedAlignedAlloc"),
    (0xa8, 3, Shape::Realloc, b"UncheckedAlignedRealloc"),
    (0xb0, 1, Shape::Free, b"UncheckedAlignedFree"),
];
/// Place of `free`.
const FREE: u32 = 0x40;
/// How far from `free` they are.
const AROUND: usize = 256;
/// Longest of them.
const LONGEST: usize = 32;

/// A function of the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stub {
    /// Address of the table's address.
    head: u64,
    place: u32,
    /// Arguments that it passes on.
    arguments: usize,
}

/// Reads the function at `at`.
fn read(code: &[u8; LONGEST], at: u64) -> Option<Stub> {
    // push rbp; mov rbp, rsp; mov rax, [rip + head].
    let rest = code.strip_prefix(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05])?;
    let (distance, rest) = rest.split_first_chunk::<4>()?;
    let head = at.wrapping_add(11).wrapping_add_signed(i32::from_le_bytes(*distance).into());
    // mov rax, [rax + place].
    let (place, rest) = match rest {
        [0x48, 0x8b, 0x40, place, rest @ ..] => (u32::from(*place), rest),
        [0x48, 0x8b, 0x80, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), rest),
        _ => return None,
    };
    // xor esi, esi and so on; pop rbp; jmp rax.
    let arguments = [
        (1, &[0x31, 0xf6, 0x5d, 0xff, 0xe0][..]),
        (1, &[0x31, 0xf6, 0x31, 0xd2, 0x5d, 0xff, 0xe0]),
        (2, &[0x31, 0xd2, 0x31, 0xc9, 0x5d, 0xff, 0xe0]),
        (3, &[0x31, 0xc9, 0x45, 0x31, 0xc0, 0x5d, 0xff, 0xe0]),
    ];
    let (arguments, _) = arguments.into_iter().find(|(_, end)| rest.starts_with(end))?;
    Some(Stub { head, place, arguments })
}

/// Hooks what is there. To be called before `free` itself is changed, and before other threads exist.
pub fn take_over() {
    let mut told = Told::new();
    // SAFETY: this runs before other threads exist.
    prepare(Which::First, &mut told, &mut |patch| unsafe { patch.apply() });
    told.note();
}

/// Makes jumps to all that is there; `put` says whether it takes one. `which` functions are the program's.
pub fn prepare(which: Which, told: &mut Told, put: &mut dyn FnMut(&Patch) -> bool) {
    let free = symbols::find(c"free", which);
    let malloc = symbols::find(c"malloc", which);
    if free == 0 || module::range_of(free as u64) != module::range_of(malloc as u64) {
        return;
    }
    // Code of one object: all pages between two of its functions are there.
    let pages = (free.min(malloc) & !4095)..(free.max(malloc) | 4095);
    let at = |address: usize| {
        let inside = pages.start <= address && address + LONGEST <= pages.end;
        // SAFETY: code of a loaded object.
        inside.then(|| unsafe { *(address as *const [u8; LONGEST]) }).and_then(|code| read(&code, address as u64))
    };
    let Some(Stub { head, place: FREE, arguments: 1 }) = at(free) else { return };
    let bytes = FUNCTIONS.len() * size_of::<Own>();
    let place = sys::mmap(bytes, sys::PROT_RW, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, None);
    let (Some(mut island), Ok(place)) = (Island::new(free), place) else { return };
    let owns = place.cast::<Own>();
    let mut patches: [Option<Patch>; FUNCTIONS.len()] = [None; FUNCTIONS.len()];
    for address in ((free & !15).saturating_sub(AROUND)..free + AROUND).step_by(16) {
        let Some(stub) = at(address).filter(|stub| stub.head == head) else { continue };
        let known =
            FUNCTIONS.iter().position(|(place, arguments, ..)| (*place, *arguments) == (stub.place, stub.arguments));
        let Some(index) = known.filter(|index| patches[*index].is_none()) else { continue };
        // SAFETY: a place of the mapping, which stays; a function of the program.
        patches[index] = unsafe {
            owns.add(index).write(Own::new(FUNCTIONS[index].2, &real::USABLE));
            island.prepare(address, enter_own as *const () as usize, owns.add(index) as usize)
        };
    }
    if !island.seal() {
        return;
    }
    for (index, patch) in patches.iter().enumerate() {
        let Some(patch) = patch else { continue };
        // SAFETY: written above.
        unsafe { (*owns.add(index)).set_real(patch.real) };
        if put(patch) {
            told.hooked(b"", FUNCTIONS[index].3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> [u8; LONGEST] {
        let mut code = [0xcc; LONGEST];
        code[..bytes.len()].copy_from_slice(bytes);
        code
    }

    #[test]
    fn stubs_are_told_by_their_code() {
        // As in a Chromium of Debian.
        let free = [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05, 0x95, 0x73, 0xd6, 7, 0x48, 0x8b, 0x40, 0x40, 0x31, 0xf6, 0x5d,
            0xff, 0xe0,
        ];
        assert_eq!(read(&code(&free), 0x9cd_bcb0), Some(Stub { head: 0x11a4_3050, place: 0x40, arguments: 1 }));
        let realloc = [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05, 0x35, 0x73, 0xd6, 7, 0x48, 0x8b, 0x80, 0xa8, 0, 0, 0, 0x31, 0xc9,
            0x45, 0x31, 0xc0, 0x5d, 0xff, 0xe0,
        ];
        assert_eq!(read(&code(&realloc), 0x9cd_bcf0), Some(Stub { head: 0x11a4_3030, place: 0xa8, arguments: 3 }));
        assert_eq!(read(&code(&realloc[..20]), 0), None);
        assert_eq!(read(&code(&[0x55]), 0), None);
    }
}
