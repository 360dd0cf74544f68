//! The stream that the guest of `thaw heap` writes and that `base/heapfile` reads: one file for each process image.
//!
//! ```text
//! page 0            FileHeader: who, when, how it ended, what was lost
//! 4096 ..           chunks, back to back, each a multiple of 4096 bytes: ChunkHeader, records, zeros
//! ```
//!
//! A *lane* is a sequence of chunks with one writer at a time (a thread; after its end another one). Records of a lane
//! are in the order of their time; lanes are merged by time. A record is
//!
//! ```text
//! u16   kind 0-3 | time bytes - 1: 4-6 | pointer bytes - 1: 7-9 | size bytes - 1: 10-12 | stack code: 13-15
//! time  ticks since the last record of the lane (the chunk header has the absolute time before its first record)
//! ptr   zigzag of spread(pointer) - spread(last pointer of the lane)          (not in META)
//! size  bytes                                                                 (only where Kind::has_size)
//! u8    log2 of the alignment (ALIGNED), flags (MAP)
//! stack nothing; nothing; keep u8, count u8, ids u16; the same with ids u32; keep u8, entry u8
//! ```
//!
//! USABLE has no more than header, time and, in the place of the pointer, a plain number: how many bytes more than it
//! asked for the next block of the lane has. It is written where this is not what both sides expect: what the last
//! block of this size (and alignment) in a table of [`USABLE_SIZES`] entries had, else [`expected_slop`].
//!
//! The two header bytes are written last, so that a zero header ends a chunk even when the process was killed within a
//! record.
//!
//! A stack is told by its difference to the last one of the lane: `keep` outer frames stay, new inner ones follow. Its
//! outermost element is a [`mark`]: how the walk ended. Up to [`DICTIONARY_FRAMES`] new frames are remembered by writer
//! and reader in a table of [`DICTIONARY`] entries at [`slot_of`]; a repetition is told by its entry alone.
//!
//! Not for anything that is true of one side only. No allocation, no std: half of its users live inside malloc.
#![no_std]

/// First bytes of a stream.
pub const MAGIC: [u8; 8] = *b"THAWHEAP";
/// Version of this format. A reader refuses later ones; 1 has no usable sizes, 2 no functions of interpreters.
pub const VERSION: u32 = 3;
/// Size of the file header, and what chunk sizes are a multiple of.
pub const PAGE: usize = 4096;
/// First bytes of a chunk: "CHNK".
pub const CHUNK_MAGIC: u32 = 0x4b4e_4843;
/// Largest chunk.
pub const CHUNK_MAX: usize = 32 << 10;
/// Most frames of a stack in a stream, the mark included.
pub const FRAMES_MAX: usize = 255;
/// Entries of the table of repeated frame sequences.
pub const DICTIONARY: usize = 256;
/// Longest sequence in that table.
pub const DICTIONARY_FRAMES: usize = 7;

/// Entries of the table of usable sizes.
pub const USABLE_SIZES: usize = 256;
/// The allocator does not tell usable sizes.
pub const UNKNOWN_SLOP: u32 = u32::MAX;

/// First address of what is no code of the processor: the functions of an interpreter. Each has [`FUNCTION_BYTES`]
/// addresses; its path is that of its source, a zero, its name. The line of a call is its address, less the function's
/// first, less one.
pub const INTERPRETED: u64 = 1 << 63;
/// See [`INTERPRETED`]. Lines beyond are told as 0: unknown.
pub const FUNCTION_BYTES: u64 = 1 << 24;
/// How the note begins that tells why Python's functions are not in stacks.
pub const NO_PYTHON: &str = "Python functions are not in stacks: ";

/// Kinds of records.
pub mod kind {
    /// Zeros: the end of the chunk.
    pub const END: u16 = 0;
    /// `malloc`.
    pub const MALLOC: u16 = 1;
    /// `calloc`; the size is the product.
    pub const CALLOC: u16 = 2;
    /// `memalign` and its family; the log2 of the alignment follows the size.
    pub const ALIGNED: u16 = 3;
    /// `operator new` of an allocator that does not go through `malloc`.
    pub const NEW: u16 = 4;
    /// `free` and `operator delete`, before the block is given back.
    pub const FREE: u16 = 5;
    /// `realloc` is about to be called on this block.
    pub const REALLOC_OLD: u16 = 6;
    /// `realloc` returned this block; the old one, if any, is that of the last `REALLOC_OLD` of the lane.
    pub const REALLOC_NEW: u16 = 7;
    /// `realloc` failed: the block of the last `REALLOC_OLD` is still there.
    pub const REALLOC_FAILED: u16 = 8;
    /// `mmap`, the new place of `mremap`, a growing break: memory that is no heap. Flags follow the size: see
    /// [`super::map`].
    pub const MAP: u16 = 9;
    /// `munmap`, the old place of `mremap`, a shrinking break.
    pub const UNMAP: u16 = 10;
    /// A block of a pool or an arena, told by the program.
    pub const POOL_ALLOC: u16 = 11;
    /// A block of a pool given back.
    pub const POOL_FREE: u16 = 12;
    /// How much larger than asked for the next block of the lane is.
    pub const USABLE: u16 = 13;
    /// All else: u8 [`super::meta`], u16 length, payload.
    pub const META: u16 = 15;

    /// Whether a size follows the pointer.
    pub const fn has_size(kind: u16) -> bool {
        matches!(kind, MALLOC | CALLOC | ALIGNED | NEW | REALLOC_NEW | MAP | UNMAP | POOL_ALLOC)
    }
    /// Whether it makes a block of the allocator, which has a usable size.
    pub const fn makes_block(kind: u16) -> bool {
        matches!(kind, MALLOC | CALLOC | ALIGNED | NEW | REALLOC_NEW)
    }
    /// Whether a byte follows the size.
    pub const fn has_extra(kind: u16) -> bool {
        matches!(kind, ALIGNED | MAP)
    }
}

/// Flags of `MAP`: `prot` in bits 0-2.
pub mod map {
    /// No file behind it.
    pub const ANONYMOUS: u8 = 8;
    /// Shared with other processes.
    pub const SHARED: u8 = 16;
    /// It moved or grew by `mremap`.
    pub const REMAP: u8 = 32;
    /// The break grew.
    pub const BREAK: u8 = 64;
}

/// Kinds of META records; numbers are little endian.
pub mod meta {
    /// From here on the lane is this thread's: u32 tid. The reader forgets the lane's stack.
    pub const THREAD: u8 = 1;
    /// A thread's name: u32 tid, text.
    pub const NAME: u8 = 2;
    /// A return address: u32 id, u64 address.
    pub const PC: u8 = 3;
    /// A loaded object: u64 load bias, u64 start, u64 end, u8 length of the build-id, build-id, path. Addresses that
    /// are told later in it are its. From [`super::INTERPRETED`] on: a function of an interpreter, see there.
    pub const MODULE: u8 = 4;
    /// Writer and reader forget stack, table and last pointer of the lane: something was left by a jump.
    pub const RESET: u8 = 5;
    /// Something to tell the user: text.
    pub const NOTE: u8 = 6;
    /// fork is about to happen.
    pub const FORK: u8 = 7;
}

/// How the bytes of a stack are laid out.
pub mod stack {
    /// No stack was taken.
    pub const NONE: u16 = 0;
    /// The last one of the lane again.
    pub const SAME: u16 = 1;
    /// keep, count, ids of two bytes.
    pub const NARROW: u16 = 2;
    /// keep, count, ids of four bytes.
    pub const WIDE: u16 = 3;
    /// keep, entry of the table.
    pub const KNOWN: u16 = 4;
}

/// Frame ids that are no addresses: the outermost element of every stack.
pub mod mark {
    /// The walk reached the first function of the thread.
    pub const ROOT: u32 = 0;
    /// The walk ended at the depth limit.
    pub const DEPTH: u32 = 1;
    /// The outermost address has no usable unwind rule.
    pub const RULE: u32 = 2;
    /// A rule led out of the stack.
    pub const BOUNDS: u32 = 3;
    /// First id of an address.
    pub const FIRST_PC: u32 = 4;
    /// A return address that is none, between two frames of a stack: the inner one has no unwind data and no frame
    /// pointer of its own, so that its caller, and maybe more, is not there. No code lies in the first page.
    pub const SKIPPED: u64 = 2;
    /// A return address that is none: an interpreter's own frame, in the place of which stand the functions that it
    /// runs. They follow outwards; it is counted as an element of the stack, and not shown.
    pub const RUNS: u64 = 3;
}

/// How the process came to be.
pub mod origin {
    /// exec.
    pub const EXEC: u32 = 0;
    /// fork: the blocks of the parent are there too.
    pub const FORK: u32 = 1;
    /// The recorder came later.
    pub const ATTACH: u32 = 2;
}

/// Why a process stopped recording.
pub mod stop {
    /// It did not.
    pub const NO: u32 = 0;
    /// The file could not grow: the error number says why.
    pub const SPACE: u32 = 1;
    /// The file would grow beyond RLIMIT_FSIZE.
    pub const LIMIT: u32 = 2;
    /// The file could not be mapped.
    pub const MAP: u32 = 3;
    /// The program closed the file and it could not be opened again.
    pub const CLOSED: u32 = 4;
    /// The recorder is gone: nobody would read or end it.
    pub const LEFT: u32 = 5;
    /// The recorder stood still, and the file was as far ahead of it as it may be.
    pub const BEHIND: u32 = 6;
}

/// Hook tiers, as bits.
pub mod tier {
    /// The dynamic linker chose our functions (LD_PRELOAD).
    pub const PRELOAD: u32 = 1;
    /// Tables of addresses of loaded objects were changed.
    pub const GOT: u32 = 2;
    /// The first instructions of an allocator were replaced.
    pub const DETOUR: u32 = 4;
    /// The program tells about its pools.
    pub const POOL: u32 = 8;
}

/// Option bits.
pub mod option {
    /// Stacks of frees too.
    pub const FREE_STACKS: u32 = 1;
    /// No functions of interpreters in stacks.
    pub const NATIVE_ONLY: u32 = 2;
}

/// The first page of a stream. All numbers are little endian, as the machines that write it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// [`origin`].
    pub origin: u32,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// Ticks when recording began; for a fork, when it was called.
    pub start_ticks: u64,
    /// CLOCK_MONOTONIC at the same time.
    pub start_mono_ns: u64,
    /// Ticks at the last new chunk.
    pub last_ticks: u64,
    /// CLOCK_MONOTONIC at the same time.
    pub last_mono_ns: u64,
    /// Events that were not written.
    pub lost: u64,
    /// Calls of allocators from inside allocators and from signal handlers within them: not recorded.
    pub nested: u64,
    /// [`stop`].
    pub stopped: u32,
    /// Error number of that.
    pub errno: u32,
    /// [`tier`] bits in use.
    pub tiers: u32,
    /// [`option`] bits.
    pub options: u32,
    /// Depth limit.
    pub depth: u32,
    /// Functions that were hooked inside objects.
    pub detours: u32,
    /// Bytes between sampled allocations; 0: all are recorded.
    pub sample_bytes: u64,
    /// Nanoseconds that setting up took.
    pub setup_ns: u64,
    /// Name of the parent's stream, zero-terminated; for forks.
    pub parent: [u8; 64],
    /// /proc/self/exe, zero-terminated.
    pub exe: [u8; 1024],
    /// The object that holds the real malloc, zero-terminated.
    pub allocator: [u8; 512],
    /// Why nothing may be seen here: zero-terminated text, empty if all is well.
    pub doubt: [u8; 512],
    /// The command line, words separated by zeros; may be cut.
    pub cmdline: [u8; 1024],
    /// Functions of allocators inside of the program that were hooked, words separated by blanks, zero-terminated; may
    /// be cut.
    pub inside: [u8; 512],
    /// How many bytes of chunks may be there that were not read; 0: nobody reads while this is written.
    pub ahead: u64,
    /// thaw: bytes of the file that are read, or that it need not read.
    pub consumed: u64,
    /// Pauses of [`follow::PAUSE_NS`] that threads made until thaw had read on.
    pub pauses: u64,
    /// Error number, if they could not pause: then the file grew.
    pub restless: u32,
    /// Zero.
    pub reserved: u32,
    /// Where in the process's memory its [`own::Own`] is; 0: it has none.
    pub own: u64,
    /// thaw: 1 when it has looked for leaks in a process that is about to exit ([`desk::LEAVES`]).
    pub looked: u64,
}

const _: () = assert!(size_of::<FileHeader>() <= PAGE);

/// Begins every chunk.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    /// [`CHUNK_MAGIC`]; written last.
    pub magic: u32,
    /// The lane.
    pub lane: u32,
    /// Which chunk of the lane this is, from 0.
    pub sequence: u32,
    /// Its size with this header.
    pub bytes: u32,
    /// Ticks that its first record counts from.
    pub ticks: u64,
    /// Zero.
    pub reserved: u64,
}

/// What processes executed, in the recording's directory: notes back to back, each written at once. `PID TICKS PATH`
/// and a zero, numbers in decimal. TICKS 0: what this process noted last failed. A name without a slash is one that
/// PATH tells where to find.
pub mod execs {
    /// The file's name. thaw makes it.
    pub const FILE: &[u8] = b"executed";
}

/// Where a process asks for what it may not or cannot open itself, because it has another user than the recording's
/// directory or another root directory: a datagram socket in it that thaw reads while it records. Guests connect to it
/// when they begin and keep the connection, so that forked children can ask wherever they are; whoever has lost it
/// connects anew. It is connected to thaw, not to one process: who asks is what the kernel says of each datagram
/// (`SCM_CREDENTIALS`).
///
/// A request is u8 kind, u32 number of the process in its own namespace, u32 number of its stream, text, and beside it
/// (`SCM_RIGHTS`) a socket that the answer comes to: u32 error number, u32 number of the stream, and the stream's
/// descriptor beside it. Numbers are little endian.
pub mod desk {
    /// The socket's name.
    pub const SOCKET: &[u8] = b"desk";
    /// A new stream is wanted.
    pub const STREAM: u8 = 1;
    /// The same stream once more: the program has closed it.
    pub const AGAIN: u8 = 2;
    /// The text is a note for [`super::execs::FILE`].
    pub const NOTE: u8 = 3;
    /// The table of [`super::missed`] for processes of this user; the answer has its descriptor.
    pub const TABLE: u8 = 4;
    /// Nothing is wanted, and nothing answered: that it can be sent says that thaw is there.
    pub const NOTHING: u8 = 5;
    /// The process is about to exit: thaw may look for leaks in its memory. No socket is beside it, because a sandbox
    /// may allow no new one: the answer is [`super::FileHeader::looked`].
    pub const LEAVES: u8 = 6;
    /// Another thaw of the same user wants this process to be looked at now: its number in its own namespace. The
    /// answer comes when it was.
    pub const CHECK: u8 = 7;
}

/// Which memory of a process is the guest's: what it remembers of stacks and blocks would look like pointers of the
/// program.
pub mod own {
    /// Most mappings.
    pub const PLACES: usize = 255;

    /// What the guest has mapped for itself, its own data apart.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Own {
        /// Mappings that were made: there may be more than [`PLACES`].
        pub count: u64,
        /// Zero.
        pub reserved: u64,
        /// First addresses and lengths; length 0: given back.
        pub places: [[u64; 2]; PLACES],
    }
}

/// Process images without a stream, told by themselves: a table in the recording's directory that thaw makes and that
/// guests map when they begin. Forked children inherit the mapping, so that one in a sandbox, which reaches no file any
/// more, can still tell.
pub mod missed {
    /// The file's name.
    pub const FILE: &[u8] = b"missed";
    /// Entries of the table.
    pub const ENTRIES: usize = 127;
    /// Its size.
    pub const BYTES: usize = size_of::<Table>();

    /// What an entry is of.
    pub mod kind {
        /// None, or not complete yet.
        pub const NONE: u32 = 0;
        /// A process image that could not make its stream.
        pub const IMAGE: u32 = 1;
        /// An exec that could not be noted in [`super::super::execs::FILE`].
        pub const EXEC: u32 = 2;
        /// One that failed.
        pub const TAKEN_BACK: u32 = 3;
    }

    /// One of them; numbers of processes are those of their own namespace.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Entry {
        /// [`kind`]; written last.
        pub kind: u32,
        /// Error number of the call that failed.
        pub errno: u32,
        /// The process.
        pub pid: u32,
        /// Zero.
        pub reserved: u32,
        /// When.
        pub ticks: u64,
        /// Name of the stream of the process that it was forked from, zero-terminated; empty where the guest came by
        /// exec.
        pub parent: [u8; 64],
        /// What it executes, zero-terminated; may be cut.
        pub path: [u8; 424],
    }

    /// The file.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Table {
        /// Process images in which the guest began, with a stream or without.
        pub images: u64,
        /// Entries that were wanted: there may be more than [`ENTRIES`].
        pub count: u64,
        /// Zero.
        pub reserved: [u64; 62],
        /// The entries.
        pub entries: [Entry; ENTRIES],
    }

    const _: () = assert!(BYTES == 64 << 10);
}

/// How a guest waits for a thaw that reads its stream meanwhile.
pub mod follow {
    /// The first eight bytes of [`super::attach::LOCK`] are a number that changes so often while the recorder runs.
    pub const BEAT_NS: u64 = 100_000_000;
    /// How long a thread sleeps before it looks again.
    pub const PAUSE_NS: u64 = 2_000_000;
    /// So many times at most for one piece of the file: 10 s.
    pub const PAUSES: u32 = 5000;
}

/// Of which thaw the guest is: a note of its ELF file, which thaw reads before it has the guest loaded anywhere.
pub mod identity {
    /// The section that holds [`NOTE`] and nothing else. Linkers keep notes, `strip` too.
    pub const SECTION: &str = ".note.thaw.heap";

    /// The note.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Note {
        /// Bytes of the name that count.
        pub name_bytes: u32,
        /// Bytes behind the name.
        pub bytes: u32,
        /// 1: what follows.
        pub kind: u32,
        /// "thaw", zeros.
        pub name: [u8; 8],
        /// [`crate::VERSION`].
        pub stream: u32,
        /// [`crate::attach::VERSION`].
        pub attach: u32,
        /// Version of thaw, zeros.
        pub version: [u8; 24],
    }

    /// That of this build.
    pub const NOTE: Note = Note {
        name_bytes: 5,
        bytes: 32,
        kind: 1,
        name: *b"thaw\0\0\0\0",
        stream: crate::VERSION,
        attach: crate::attach::VERSION,
        version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
    };

    const fn padded(text: &[u8]) -> [u8; 24] {
        let mut padded = [0; 24];
        let (head, _) = padded.split_at_mut(text.len());
        head.copy_from_slice(text);
        padded
    }
}

/// What thaw and the guest tell each other where the guest comes into a running program: the guest's exported
/// `THAW_HEAP_ATTACH`.
pub mod attach {
    /// Version of this agreement.
    pub const VERSION: u32 = 3;
    /// Most places of code: the C library's, and those of allocators inside of the program.
    pub const PLACES: usize = 160;
    /// In the recording's directory, locked as long as its recorder lives.
    pub const LOCK: &[u8] = b"recorder";

    /// What the guest answers.
    pub mod answer {
        /// Nothing yet.
        pub const NONE: u32 = 0;
        /// It is ready: when the places are written, it records.
        pub const READY: u32 = 1;
        /// It records already.
        pub const BUSY: u32 = 2;
        /// The beginning of an allocator's function is not understood.
        pub const CODE: u32 = 3;
        /// No executable page near the allocator could be made.
        pub const PAGE: u32 = 4;
        /// The stream could not be made: the error number says why.
        pub const FILE: u32 = 5;
        /// No allocator was found.
        pub const ALLOCATOR: u32 = 6;
    }

    /// Five bytes of code that are to be replaced while no thread is inside of them.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Place {
        /// Where.
        pub at: u64,
        /// What is there.
        pub was: [u8; 8],
        /// What is to be there: a jump to the guest.
        pub is: [u8; 8],
    }

    /// Bytes of a place that count.
    pub const BYTES: usize = 5;

    /// Both sides' words.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Attach {
        /// [`VERSION`].
        pub version: u32,
        /// thaw: 1 while the places are written.
        pub active: u32,
        /// thaw: depth limit.
        pub depth: u32,
        /// thaw: [`super::option`] bits.
        pub options: u32,
        /// guest: [`answer`].
        pub answer: u32,
        /// guest: error number of that.
        pub errno: u32,
        /// guest: how many places.
        pub count: u32,
        /// Zero.
        pub reserved: u32,
        /// thaw: mean bytes between sampled blocks; 0: all are recorded.
        pub sample: u64,
        /// thaw: what random numbers begin with; 0: with the time.
        pub seed: u64,
        /// thaw: how many bytes of chunks may wait to be read; 0: nobody reads while this is written.
        pub ahead: u64,
        /// thaw: the recording's directory, zero-terminated.
        pub directory: [u8; 1024],
        /// guest: the places.
        pub places: [Place; PLACES],
    }
}

/// A pointer with its always-zero bits turned to the top, so that differences are short.
pub const fn spread(pointer: u64) -> u64 {
    pointer.rotate_right(3)
}

/// Undoes [`spread`].
pub const fn gather(spread: u64) -> u64 {
    spread.rotate_left(3)
}

/// A signed difference as a small unsigned number.
pub const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// Undoes [`zigzag`].
pub const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Bytes that a number needs: 1 to 8.
pub const fn bytes_of(value: u64) -> usize {
    (71 - (value | 1).leading_zeros() as usize) >> 3
}

/// Mixes one more id into the hash of a frame sequence; begin with 0.
pub const fn mix(hash: u32, id: u32) -> u32 {
    (hash ^ id).wrapping_mul(0x9e37_79b1).rotate_left(13)
}

/// The table entry of a sequence with this hash.
pub const fn slot_of(hash: u32) -> usize {
    (hash.wrapping_mul(0x85eb_ca6b) >> 24) as usize
}

/// What the table of usable sizes is searched for: a size with the log2 of its alignment (0: none).
pub const fn usable_key(size: u64, alignment: u8) -> u64 {
    size ^ (alignment as u64) << 56
}

/// The table entry of such a key.
pub const fn usable_slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// What a block has beyond its size if nothing else is known: the rule of glibc for blocks that are no mappings,
/// 16-byte steps with a word of their own.
pub const fn expected_slop(size: u64) -> u32 {
    let usable = (size.wrapping_add(23) & !15).wrapping_sub(8);
    if size < 24 { 24 - size as u32 } else { usable.wrapping_sub(size) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 0xff, 0x100, 0x7fff_ffff_ffff, 1 << 63, u64::MAX] {
            assert_eq!(gather(spread(value)), value);
            assert_eq!(unzigzag(zigzag(value)), value);
            let bytes = bytes_of(value);
            assert!((1..=8).contains(&bytes));
            assert!(bytes == 8 || value >> (8 * bytes) == 0, "{value:#x} does not fit into {bytes}");
            assert!(bytes == 1 || value >> (8 * (bytes - 1)) != 0, "{value:#x} fits into fewer than {bytes}");
        }
        assert_eq!(zigzag(1u64.wrapping_neg()), 1);
    }

    #[test]
    fn the_rule_of_glibc() {
        for (size, usable) in [(0, 24), (1, 24), (24, 24), (25, 40), (40, 40), (1032, 1032), (1033, 1048)] {
            assert_eq!(size + u64::from(expected_slop(size)), usable);
        }
        assert!((0..10_000).all(|size| usable_slot(usable_key(size, size as u8 & 31)) < USABLE_SIZES));
    }

    #[test]
    fn entries_are_in_the_table() {
        assert!((0..10_000).all(|id| slot_of(mix(0, id)) < DICTIONARY));
    }
}
