//! Code that a program has copied from itself, with traps of ours in it: nobody knows there of the byte that belongs in
//! their place.

use super::library::Library;
use super::module::{Module, ModuleId};
use super::space::Space;
use os::tracee::{TRAP, Tracee};

/// So many bytes of a function are compared.
const LONGEST: usize = 32;
/// A function that is shorter could be anything: what follows a trap of the program's own, too.
const SHORTEST: u64 = 4;
/// How much is compared of a function whose length nobody knows.
const UNKNOWN: usize = 16;

/// The function whose copy begins at an address where a trap was met that is none of ours: what follows the trap is
/// what follows the function's first byte in its file.
pub fn original(space: &Space, tracee: Tracee, address: u64, library: &Library) -> Option<(ModuleId, usize)> {
    let mut memory = [0; LONGEST];
    let len = (0..=LONGEST).rev().find(|len| space.memory().read(tracee, address, &mut memory[..*len]).is_ok())?;
    let memory = &memory[..len];
    library.all().find_map(|(id, module)| {
        let is_copied = |function: &usize| is_copy(module, *function, memory);
        Some((id, (0..module.functions.len()).find(is_copied)?))
    })
}

fn is_copy(module: &Module, function: usize, memory: &[u8]) -> bool {
    let function = module.functions[function];
    let len = match function.len {
        0 => UNKNOWN,
        1..SHORTEST => return false,
        len => usize::try_from(len).unwrap_or(LONGEST).min(LONGEST),
    };
    let file = module.bytes(function.offset, len);
    // Another function may begin inside of this one, and its trap was copied too.
    let same = |(at, (file, memory)): (usize, (&u8, &u8))| {
        file == memory || (*memory == TRAP && module.function_at(function.offset + at as u64).is_some())
    };
    file.len() == len && memory.len() >= len && file.iter().zip(memory).enumerate().all(same)
}
