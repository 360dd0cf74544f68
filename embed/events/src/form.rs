//! The format, as docs/events-format.md has it, and as `include/thaw_events.h` writes it too.

use std::sync::atomic::{AtomicU32, AtomicU64};
use thaw_clock::counter::Pair;

pub const VERSION: u32 = 1;
pub const HEADER: usize = 4096;
pub const META: usize = 1 << 20;
pub const CHUNK: usize = 65_536;
pub const CHUNK_HEAD: usize = 64;
/// Longer texts are cut, in bytes.
pub const TEXT_MOST: usize = 16_384;
/// The number of types that did not fit.
pub const NO_TYPE: u32 = 0xffff;

pub const NAME: u8 = 1;
#[doc(hidden)]
pub const MARK: u8 = 2;
#[doc(hidden)]
pub const WAIT: u8 = 3;
#[doc(hidden)]
pub const EXEC: u8 = 4;
#[doc(hidden)]
pub const DONE: u8 = 5;
pub const LINK: u8 = 6;
pub const ARG: u8 = 7;
pub const FREE: u8 = 8;
pub const THREAD: u8 = 9;
#[doc(hidden)]
pub const SHARED: u8 = 0x40;
pub const TEXT: u8 = 0xf0;
pub const MORE: u8 = 0xf1;

pub const META_TYPE: u32 = 1;
pub const META_THREAD: u32 = 2;

/// State of a chunk: a thread writes it.
pub const WRITTEN: u32 = 1;
/// State of a chunk: its thread has left it, full or not.
pub const LEFT: u32 = 2;

/// The first page of a file. What several threads change stands on cache lines of its own.
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    pub version: u32,
    pub header_size: u32,
    pub pid: u32,
    pub chunk_size: u32,
    pub chunks: u32,
    pub meta_size: u32,
    pub realtime_ns: u64,
    pub clock: u32,
    pub flags: u32,
    pub start: Pair,
    pub end: Pair,
    pub boot: [u8; 32],
    pub control: AtomicU32,
    pub padding: [u32; 15],
    pub next: AtomicU64,
    pub padding1: [u64; 7],
    pub lost: AtomicU64,
    pub overwritten: AtomicU64,
    pub types_lost: AtomicU64,
    pub texts_cut: AtomicU64,
    pub padding2: [u64; 4],
    pub meta_used: AtomicU64,
    pub next_type: AtomicU32,
    pub generation: u32,
    pub padding3: [u64; 22],
    pub filter: [u8; 1024],
    pub program: [u8; 2560],
}

const _: () = {
    assert!(size_of::<Header>() == HEADER);
    assert!(std::mem::offset_of!(Header, control) == 128);
    assert!(std::mem::offset_of!(Header, next) == 192);
    assert!(std::mem::offset_of!(Header, lost) == 256);
    assert!(std::mem::offset_of!(Header, meta_used) == 320);
    assert!(std::mem::offset_of!(Header, filter) == 512);
    assert!(std::mem::offset_of!(Header, program) == 1536);
    assert!(size_of::<Chunk>() == CHUNK_HEAD);
};

/// The head of a chunk.
#[repr(C)]
pub struct Chunk {
    pub state: AtomicU32,
    pub tid: u32,
    pub sequence: AtomicU64,
    pub pair: Pair,
    pub used: u32,
    pub events: u32,
    pub padding: [u64; 2],
}

/// A type at one place of the source: a name with namespaces.
pub struct Type {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    /// Its number in the file.
    pub(crate) id: AtomicU32,
    /// The control word under which it is written.
    pub(crate) passes: AtomicU32,
    /// The control word under which it is not.
    pub(crate) fails: AtomicU32,
}

impl Type {
    /// For the macros.
    #[doc(hidden)]
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        let (id, passes, fails) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Self { name, file, line, id, passes, fails }
    }
}
