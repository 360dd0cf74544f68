//! What the code of armed entries finds and leaves in memory: the same on each processor. `super::stub` is that code
//! on x86-64, [`super::aarch64`] on AArch64.

/// Of a program: distances from the begin of the code to everything else. The code follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// To the writable view of the text.
    pub alias: i64,
    /// To the first [`Entry`].
    pub table: i64,
    /// To the [`Log`].
    pub log: i64,
    /// To the text as it is run.
    pub text: i64,
    /// To the number of the address space, which each has for itself.
    pub space: i64,
}

/// An armed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Where in the text.
    pub offset: u32,
    /// 1: somebody notes the call, or has.
    pub claimed: u32,
    /// The bytes that belong there, as the low ones: five on x86-64, four on AArch64.
    pub original: u64,
}

/// The head of the log; records follow at [`LOG_HEAD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Log {
    /// How many records were begun.
    pub begun: u64,
    /// For how many there is room.
    pub room: u64,
}

/// A first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Time stamp counter (CNTVCT_EL0 on AArch64); 0: it is not written yet.
    pub at: u64,
    /// Of the entry.
    pub entry: u32,
    /// The address space.
    pub space: u32,
    /// What the thread's FS register (TPIDR_EL0 on AArch64) holds: it tells threads of an address space apart.
    pub base: u64,
    /// To a power of two.
    pub unused: u64,
}

/// Bytes from the begin of the log to its first record.
pub const LOG_HEAD: usize = 64;
