//! Applies packed relative relocations from inside the object, for loaders that do not know DT_RELR (glibc before 2.36,
//! musl before 1.2.4): Mozilla's elfhack of 2010, with today's table.
//!
//! The object carries the table (the words of DT_RELR, in a section of our own that no dynamic tag names) and a piece
//! of code, assembled here, that the loader calls before any other initialiser of the object. It adds the base address
//! to every word that the table speaks of and goes on to the initialiser that stood in its place. Not for objects whose
//! loader knows DT_RELR: there the loader does the same earlier and without any of the hazards below.
//!
//! # How the code is called
//!
//! * A library through DT_INIT: the loader calls it before the first entry of DT_INIT_ARRAY and before every library
//!   that depends on it. The DT_INIT that stood there is called afterwards, with the same arguments.
//! * A position-independent program through the first entry of DT_PREINIT_ARRAY: the loader calls it before any
//!   initialiser of any library, as libraries may call into the program (an `operator new` that it replaces). DT_INIT
//!   would not do: the loader leaves the program's own to its start-up code, and that, up to glibc 2.33, is linked into
//!   the program and calls `_init` by its symbol.
//! * A position-independent program of musl, whose loader knows no DT_PREINIT_ARRAY, through DT_INIT: the loader calls
//!   it after those of the libraries. Where it needs others than libc, it must export nothing that they could use.
//!
//! Either runs exactly once per load, and a `dlclose` followed by a `dlopen` loads anew, so no flag is kept.
//!
//! # Read-only after relocation
//!
//! The loader has made the PT_GNU_RELRO range read-only by then. The code makes the same range writable, applies the
//! table, and makes it read-only again, by the `mprotect` system call itself: no symbol, no dependency, no PLT. The
//! same range means the loader's rounding: both ends down to a page of the running kernel. On x86 a page is 4 KiB. On
//! AArch64 and ARM it may be 4, 16 or 64 KiB, and nothing tells: `sysconf` is a symbol, the auxiliary vector lies
//! behind `envp`, which glibc passes to initialisers and musl does not. So the code asks the kernel with
//! `mprotect(size, 0, PROT_NONE)`, which first checks that the address `size` begins a page (EINVAL if not), then sees
//! the length 0 and touches nothing: any other answer for 4096 means 4 KiB pages, and so on up to 64 KiB. (Linux
//! answers 0; qemu's user mode (7.2) answers ENOMEM, after the same check.) If making the range writable or read-only
//! fails, the code stops the program by a trap instruction: neither half-relocated data nor data that silently stays
//! writable goes unnoticed. (A kernel with sealed mappings would refuse; a glibc that seals knows DT_RELR.)
//!
//! # What must not be packed
//!
//! The words are wrong from relocation until the code runs. The plan (not this module) therefore keeps, or refuses:
//!
//! * objects with IRELATIVE relocations or STT_GNU_IFUNC symbols: resolvers run during relocation and may read
//!   anything;
//! * words inside the PT_TLS template: the loader copies the template to the main thread's block before initialisers;
//! * words inside exported objects of a library (STT_OBJECT with a size): a program may copy them (R_*_COPY) during
//!   relocation, and the copy is never repaired. Only who knows all programs that link the library can waive this;
//! * the entries of DT_PREINIT_ARRAY: our own is read before the code runs;
//! * objects that define the allocator (`malloc`, `operator new` and theirs): initialisers of libraries that do not
//!   depend on it call it before its own initialiser; so do the loader and libc;
//! * objects that are library and program at once (an interpreter but not DF_1_PIE): neither way is always called.
//!
//! Known hazards that the object alone does not show: two libraries that depend on each other (one is initialised while
//! the other's words are still wrong), and LD_AUDIT modules that read the object's data in `la_objopen`.
//!
//! # What the code does not have
//!
//! No unwind information: it calls nothing that could throw, and a profiler that stops in it sees one frame without a
//! caller. It keeps the landing pads of the object's control-flow protection (`endbr64`, `bti c`; 32-bit x86 has no
//! user-mode indirect-branch tracking in Linux, and its `endbr32` is an undefined instruction before the Pentium Pro).
//! It changes only registers that the ABI lets a function change, and leaves the stack as it found it for the
//! initialiser after it, which it jumps to rather than calls.

mod aarch64;
mod arm;
mod assembler;
pub(crate) mod call;
pub(crate) mod code;
#[cfg(test)]
mod peer;
mod x86;

use assembler::Assembled;
use model::{Error, Exit, Result};
use std::fmt;
use std::ops::Range;

/// Machines that the code exists for; all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// x86-64, 64-bit pointers.
    X86_64,
    /// 32-bit x86.
    I386,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM, EABI. The code is A32 whatever the program is; the loader's `blx` switches to it.
    Arm,
}

impl Machine {
    /// Every machine.
    pub const ALL: [Self; 4] = [Self::X86_64, Self::I386, Self::Aarch64, Self::Arm];

    /// Bytes of a pointer, which is also the step of the table.
    pub fn word(self) -> u64 {
        match self {
            Self::X86_64 | Self::Aarch64 => 8,
            Self::I386 | Self::Arm => 4,
        }
    }

    /// The smallest page that a kernel of the machine may have.
    fn smallest_page(self) -> u64 {
        4096
    }

    /// The largest one.
    fn largest_page(self) -> u64 {
        match self {
            Self::X86_64 | Self::I386 => 4096,
            Self::Aarch64 | Self::Arm => 65_536,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::X86_64 => "x86-64",
            Self::I386 => "i386",
            Self::Aarch64 => "AArch64",
            Self::Arm => "ARM",
        })
    }
}

/// Where everything lies, in addresses of the object as linked (the loader adds the base to all of them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first byte of the code; a multiple of 4.
    pub code: u64,
    /// The table: words as in DT_RELR. Not empty.
    pub table: Range<u64>,
    /// PT_GNU_RELRO as the program header has it, where a word of the table lies in [`may_be_read_only`].
    pub relro: Option<Range<u64>>,
    /// The initialiser that stood where the code is called now; on ARM, bit 0 set means Thumb.
    pub original: Option<u64>,
}

/// An upper bound on the bytes that [`assemble`] returns, whatever the layout.
pub fn size_limit(machine: Machine) -> usize {
    match machine {
        Machine::X86_64 => 160,
        Machine::I386 => 144,
        Machine::Aarch64 => 256,
        Machine::Arm => 288,
    }
}

/// The addresses that the loader may have made read-only because of this PT_GNU_RELRO, on any kernel of the machine.
pub fn may_be_read_only(machine: Machine, relro: &Range<u64>) -> Range<u64> {
    // Both ends go down to a page: the start furthest with the largest page, the end least with the smallest.
    down(relro.start, machine.largest_page())..down(relro.end, machine.smallest_page())
}

/// The code for this place.
///
/// Errors: the parts lie further apart than the machine's instructions reach (2 GiB on x86, 4 GiB on AArch64).
pub fn assemble(machine: Machine, layout: &Layout) -> Result<Vec<u8>> {
    program(machine, layout)?.bytes()
}

/// The same code as text for the GNU assembler (`.intel_syntax noprefix` on x86), with the places outside as undefined
/// symbols: `image` (0), `table`, `table_end`, `relro`, `relro_end`, `original`. For reading, and for checking
/// [`assemble`] against an assembler that is not ours.
pub fn listing(machine: Machine, layout: &Layout) -> Result<String> {
    Ok(program(machine, layout)?.listing())
}

fn program(machine: Machine, layout: &Layout) -> Result<Box<dyn Assembled>> {
    let word = machine.word();
    if !layout.code.is_multiple_of(4) {
        return Err(Error::bug(format!(
            "the initialiser is placed at {:#x}, which is not a multiple of 4",
            layout.code
        )));
    }
    let sound = |range: &Range<u64>| range.start < range.end;
    if !sound(&layout.table) || !layout.table.start.is_multiple_of(word) || !layout.table.end.is_multiple_of(word) {
        return Err(Error::bug(format!("the table at {:#x?} is not one of whole words", layout.table)));
    }
    if layout.relro.as_ref().is_some_and(|relro| !sound(relro)) {
        return Err(Error::new(Exit::Data, "the read-only range after relocation is damaged", ""));
    }
    let mut layout = layout.clone();
    if machine.smallest_page() == machine.largest_page() {
        layout.relro = layout.relro.map(|relro| may_be_read_only(machine, &relro)).filter(|relro| !relro.is_empty());
    }
    Ok(match machine {
        Machine::X86_64 => Box::new(x86::initialiser(x86::Mode::Long, layout)),
        Machine::I386 => Box::new(x86::initialiser(x86::Mode::Protected, layout)),
        Machine::Aarch64 => Box::new(aarch64::initialiser(layout)),
        Machine::Arm => Box::new(arm::initialiser(layout)),
    })
}

fn down(address: u64, page: u64) -> u64 {
    address - address % page
}
