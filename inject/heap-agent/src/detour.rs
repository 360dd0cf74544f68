//! Hooks inside an object: the first instructions of a function are replaced by a jump to ours.
//!
//! What was there is copied to a page nearby and goes on behind the jump; a function that is only a jump is hooked by
//! what it jumps to. Only instructions that compilers begin functions with are understood; at any other one the
//! function is left alone.

use crate::sys;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What can be done with an instruction when it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Copied as it is.
    Plain,
    /// Copied; the 32-bit offset at this position is relative to its end.
    Relative(usize),
    /// A jump, conditional on this code, to this distance from its end.
    Jump(Option<u8>, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    length: usize,
    how: Move,
}

/// Reads one instruction; `None`: not understood.
fn decode(code: &[u8]) -> Option<Instruction> {
    let mut at = 0;
    let (mut wide, mut short_immediate) = (false, false);
    loop {
        match *code.get(at)? {
            0x66 => short_immediate = true,
            // Repeat, lock-free segment prefixes; cs is padding.
            0xf2 | 0xf3 | 0x64 | 0x65 | 0x2e => {}
            _ => break,
        }
        at += 1;
        if at > 8 {
            return None;
        }
    }
    if let rex @ 0x40..=0x4f = *code.get(at)? {
        wide = rex & 8 != 0;
        at += 1;
    }
    let opcode = *code.get(at)?;
    at += 1;
    let word = if short_immediate { 2 } else { 4 };
    let near = |at: usize| {
        code.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(|bytes| i64::from(i32::from_le_bytes(bytes)))
    };
    let (operand, immediate) = match opcode {
        0x0f => {
            let second = *code.get(at)?;
            at += 1;
            match second {
                0x80..=0x8f => {
                    let distance = near(at)?;
                    return Some(Instruction { length: at + 4, how: Move::Jump(Some(second & 15), distance) });
                }
                // Moves, nops (endbr64 among them), conditional moves and sets, logic of vectors, widening.
                0x10
                | 0x11
                | 0x28
                | 0x29
                | 0x1e
                | 0x1f
                | 0x40..=0x4f
                | 0x57
                | 0x6e
                | 0x6f
                | 0x7e
                | 0x7f
                | 0x90..=0x9f
                | 0xaf
                | 0xb0
                | 0xb1
                | 0xb6
                | 0xb7
                | 0xbe
                | 0xbf
                | 0xc0
                | 0xc1
                | 0xd6
                | 0xef => (true, 0),
                _ => return None,
            }
        }
        0x50..=0x5f | 0x90 => (false, 0),
        0x00..=0x3b if opcode & 7 < 4 => (true, 0),
        0x04..=0x3c if opcode & 7 == 4 => (false, 1),
        0x05..=0x3d if opcode & 7 == 5 => (false, word),
        0x63 | 0x84..=0x8b | 0x8d | 0xd0..=0xd3 => (true, 0),
        0x68 => (false, 4),
        0x6a | 0xa8 | 0xb0..=0xb7 => (false, 1),
        0x69 | 0x81 | 0xc7 => (true, word),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => (true, 1),
        0xa9 => (false, word),
        0xb8..=0xbf => (false, if wide { 8 } else { word }),
        // test has an immediate, the others of its group have none.
        0xf6 => (true, usize::from(*code.get(at)? >> 3 & 7 < 2)),
        0xf7 => (true, if *code.get(at)? >> 3 & 7 < 2 { word } else { 0 }),
        // inc, dec, push; not calls and jumps.
        0xff if matches!(*code.get(at)? >> 3 & 7, 0 | 1 | 6) => (true, 0),
        0x70..=0x7f | 0xeb => {
            let distance = i64::from(*code.get(at)? as i8);
            let condition = (opcode != 0xeb).then_some(opcode & 15);
            return Some(Instruction { length: at + 1, how: Move::Jump(condition, distance) });
        }
        0xe9 => return Some(Instruction { length: at + 4, how: Move::Jump(None, near(at)?) }),
        _ => return None,
    };
    let mut how = Move::Plain;
    if operand {
        let form = *code.get(at)?;
        at += 1;
        let (mode, register) = (form >> 6, form & 7);
        let mut displacement = [0, 1, 4, 0][usize::from(mode)];
        if mode != 3 && register == 4 {
            let base = *code.get(at)? & 7;
            at += 1;
            if mode == 0 && base == 5 {
                displacement = 4;
            }
        } else if mode == 0 && register == 5 {
            how = Move::Relative(at);
            displacement = 4;
        }
        at += displacement;
    }
    at += immediate;
    (at <= code.len()).then_some(Instruction { length: at, how })
}

/// A page for copies and jumps, within reach of an object.
pub struct Island {
    start: usize,
    used: usize,
}

const BYTES: usize = 4096;

/// Where all islands are.
static ISLANDS: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// Whether a function begins with a jump to an island already.
pub fn is_hooked(function: usize) -> bool {
    let room = 4096 - (function & 4095);
    if room < 9 {
        return false;
    }
    // SAFETY: nine bytes of code of a loaded object, on one page.
    let code = unsafe { &*(function as *const [u8; 9]) };
    let (at, code) = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { (4, &code[4..]) } else { (0, &code[..5]) };
    let [0xe9, a, b, c, d] = *code else { return false };
    let target = (function + at + 5).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize);
    ISLANDS.iter().any(|island| island.load(Relaxed) == target & !(BYTES - 1))
}

impl Island {
    /// A page within two gigabytes of `near`.
    pub fn new(near: usize) -> Option<Self> {
        let base = near & !(BYTES - 1);
        for step in 1..512usize {
            let distance = step << 21;
            for at in [base.wrapping_sub(distance), base.wrapping_add(distance)] {
                if !(1 << 16..1 << 47).contains(&at) {
                    continue;
                }
                let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED_NOREPLACE;
                if let Ok(place) = sys::mmap_at(at, BYTES, sys::PROT_RW, flags, None) {
                    if place as usize == at {
                        ISLANDS.iter().any(|island| island.compare_exchange(0, at, Relaxed, Relaxed).is_ok());
                        return Some(Self { start: at, used: 0 });
                    }
                    // Kernels before 4.17 take the address as a wish.
                    // SAFETY: just mapped, known to nobody.
                    unsafe { sys::munmap(place, BYTES) };
                }
            }
        }
        None
    }

    /// Where the next bytes go.
    fn here(&self) -> usize {
        self.start + self.used
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        if self.used + bytes.len() > BYTES {
            return None;
        }
        // SAFETY: inside the page, which is writable until it is sealed.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.here() as *mut u8, bytes.len()) };
        self.used += bytes.len();
        Some(())
    }

    /// An offset from behind an instruction that ends `length` bytes from here.
    fn offset(&self, length: usize, target: i64) -> Option<[u8; 4]> {
        let distance = target.wrapping_sub((self.here() + length) as i64);
        i32::try_from(distance).ok().map(i32::to_le_bytes)
    }

    fn jump(&mut self, condition: Option<u8>, target: i64) -> Option<()> {
        match condition {
            Some(condition) => {
                let offset = self.offset(6, target)?;
                self.put(&[0x0f, 0x80 | condition])?;
                self.put(&offset)
            }
            None => {
                let offset = self.offset(5, target)?;
                self.put(&[0xe9])?;
                self.put(&offset)
            }
        }
    }

    /// Makes a copy of the beginning of a function that goes on behind it; returns what to call and what to overwrite.
    /// The entry finds `argument` in r11, if it is not 0.
    ///
    /// # Safety
    /// `function` is code, readable for 64 bytes or to the end of its page.
    pub unsafe fn prepare(&mut self, function: usize, entry: usize, argument: usize) -> Option<Patch> {
        // To the end of the page, where the next one may not be mapped; a function that is cut by it is not understood.
        let room = (4096 - (function & 4095)).min(64);
        // SAFETY: the caller vouches.
        let code = unsafe { core::slice::from_raw_parts(function as *const u8, room) };
        // A landing pad of CET stays where it is.
        let skip = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
        let begin = function + skip;
        let mut real = self.here();
        let mut at = skip;
        let mut nearest = i64::MAX;
        while at < skip + 5 {
            let instruction = decode(code.get(at..)?)?;
            let end = function + at + instruction.length;
            match instruction.how {
                // The whole function is a jump.
                Move::Jump(None, distance) if at == skip => {
                    real = (end as i64).wrapping_add(distance) as usize;
                    at += instruction.length.max(5);
                    break;
                }
                Move::Jump(condition, distance) => {
                    let target = (end as i64).wrapping_add(distance);
                    if target >= begin as i64 {
                        nearest = nearest.min(target);
                    }
                    self.jump(condition, target)?;
                }
                Move::Plain => self.put(code.get(at..at + instruction.length)?)?,
                Move::Relative(place) => {
                    let mut bytes = [0u8; 16];
                    let copy = bytes.get_mut(..instruction.length)?;
                    copy.copy_from_slice(code.get(at..at + instruction.length)?);
                    let old: [u8; 4] = copy.get(place..place + 4)?.try_into().ok()?;
                    let target = (end as i64).wrapping_add(i64::from(i32::from_le_bytes(old)));
                    let offset = self.offset(instruction.length, target)?;
                    copy.get_mut(place..place + 4)?.copy_from_slice(&offset);
                    let length = instruction.length;
                    self.put(bytes.get(..length)?)?;
                }
            }
            at += instruction.length;
        }
        // A jump into what is overwritten would have to be followed.
        if nearest < (function + at) as i64 {
            return None;
        }
        if real == self.start + self.used || real >= self.start && real < self.start + BYTES {
            self.jump(None, (function + at) as i64)?;
        }
        let stub = self.here();
        if argument != 0 {
            // mov r11, argument.
            self.put(&[0x49, 0xbb])?;
            self.put(&(argument as u64).to_le_bytes())?;
        }
        // jmp [rip + 0]; the address.
        self.put(&[0xff, 0x25, 0, 0, 0, 0])?;
        self.put(&(entry as u64).to_le_bytes())?;
        let distance = (stub as i64).wrapping_sub(begin as i64 + 5);
        Some(Patch { at: begin, offset: i32::try_from(distance).ok()?, real })
    }

    /// Makes the copies executable. `false`: this system does not allow it.
    pub fn seal(&self) -> bool {
        // SAFETY: own page.
        unsafe { sys::mprotect(self.start, BYTES, sys::PROT_RX) }.is_ok()
    }
}

/// A jump that is to be written.
#[derive(Clone, Copy)]
pub struct Patch {
    at: usize,
    offset: i32,
    /// What to call instead of the function.
    pub real: usize,
}

impl Patch {
    /// Where it is to be written, and what.
    pub fn code(&self) -> (usize, [u8; 5]) {
        let [a, b, c, d] = self.offset.to_le_bytes();
        (self.at, [0xe9, a, b, c, d])
    }

    /// Writes it.
    ///
    /// # Safety
    /// No thread executes the five bytes; the island is sealed.
    pub unsafe fn apply(&self) -> bool {
        let page = self.at & !4095;
        let length = if (self.at + 4) & !4095 == page { 4096 } else { 8192 };
        const PROT_ALL: usize = 7;
        // SAFETY: the pages are code of a loaded object; they stay executable while they are written.
        unsafe {
            if sys::mprotect(page, length, PROT_ALL).is_err() {
                return false;
            }
            core::ptr::copy_nonoverlapping(self.code().1.as_ptr(), self.at as *mut u8, 5);
            let _ = sys::mprotect(page, length, sys::PROT_RX);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(code: &[u8]) -> Option<usize> {
        let mut padded = code.to_vec();
        padded.resize(32, 0xcc);
        decode(&padded).map(|instruction| instruction.length)
    }

    #[test]
    fn beginnings_of_functions_are_measured() {
        let known: [&[u8]; 20] = [
            &[0x55],
            &[0x41, 0x57],
            &[0x48, 0x89, 0xe5],
            &[0x48, 0x83, 0xec, 0x18],
            &[0x48, 0x81, 0xec, 0, 1, 0, 0],
            &[0x4c, 0x8b, 0x35, 1, 2, 3, 4],
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
            &[0xb8, 0x16, 0, 0, 0],
            &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x48, 0x83, 0xfe, 0x08],
            &[0x0f, 0xb6, 0x05, 1, 2, 3, 4],
            &[0x31, 0xf6],
            &[0x48, 0x8d, 0x44, 0x24, 0x10],
            &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x80, 0x3d, 1, 2, 3, 4, 5],
            &[0xf6, 0x05, 1, 2, 3, 4, 5],
            &[0xf7, 0xd8],
            &[0x66, 0x0f, 0xef, 0xc0],
            &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0xc7, 0x07, 1, 2],
        ];
        for code in known {
            assert_eq!(length(code), Some(code.len()), "{code:x?}");
        }
        for unknown in [&[0xe8, 0, 0, 0, 0][..], &[0xff, 0xe0], &[0xc3], &[0xcc], &[0x0f, 0x05], &[0xc4, 0xe2, 0x7d]] {
            assert_eq!(length(unknown), None, "{unknown:x?}");
        }
    }

    #[test]
    fn relative_parts_are_found() {
        assert_eq!(decode(&[0x48, 0x8b, 0x05, 4, 0, 0, 0, 0xcc]).unwrap().how, Move::Relative(3));
        assert_eq!(decode(&[0x74, 0xfe, 0xcc]).unwrap().how, Move::Jump(Some(4), -2));
        assert_eq!(decode(&[0xe9, 1, 0, 0, 0]).unwrap().how, Move::Jump(None, 1));
        assert_eq!(decode(&[0x0f, 0x85, 1, 0]), None, "cut");
    }

    #[test]
    fn a_moved_beginning_still_works() {
        extern "C" fn ours(value: u64) -> u64 {
            value + 1000
        }
        // mov rax, [rip + 9]; add rax, rdi; ret; nops; the number 5 at 16.
        let mut code = vec![0x48, 0x8b, 0x05, 9, 0, 0, 0, 0x48, 0x01, 0xf8, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];
        code.extend_from_slice(&5u64.to_le_bytes());
        let page = sys::mmap(4096, sys::PROT_RW, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, None).unwrap();
        // SAFETY: own page with the code above; both functions take and return a number.
        unsafe {
            core::ptr::copy_nonoverlapping(code.as_ptr(), page, code.len());
            sys::mprotect(page as usize, 4096, sys::PROT_RX).unwrap();
            let function: extern "C" fn(u64) -> u64 = core::mem::transmute(page);
            assert_eq!(function(3), 8);
            let mut island = Island::new(page as usize).unwrap();
            let patch = island.prepare(page as usize, ours as *const () as usize, 0).unwrap();
            assert!(island.seal() && patch.apply());
            let real: extern "C" fn(u64) -> u64 = core::mem::transmute(patch.real);
            assert_eq!((function(3), real(3)), (1003, 8));
        }
    }
}
