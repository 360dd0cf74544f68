//! What a session is made of: items in a tree.

use std::sync::Arc;

/// The number of an item, given by the store. No other item of the session ever has it.
pub type Id = u64;
/// The parent of the items at the top.
pub const ROOT: Id = 0;
/// The longest title, in bytes.
pub const LONGEST_TITLE: usize = 65_536;
/// The longest origin, in bytes.
pub const LONGEST_ORIGIN: usize = 4096;
/// The longest payload, in bytes.
pub const LONGEST_PAYLOAD: usize = 16 << 20;

/// What an item is.
pub mod kind {
    /// A window.
    pub const WINDOW: u8 = 1;
    /// A tab.
    pub const TAB: u8 = 2;
    /// An entry of a tab's history, or what else belongs to its parent: it is loaded together with it.
    pub const ENTRY: u8 = 3;
    /// From here on an application has kinds of its own.
    pub const OWN: u8 = 16;
}

/// What is true of an item.
pub mod flag {
    /// It is seen: a selected tab. It is loaded first, if its parent is.
    pub const VISIBLE: u32 = 1;
    /// It is for the case of a crash: after a clean end it is gone, with all below.
    pub const CRASH_ONLY: u32 = 2;
    /// A window that the store has made: what is in it was in something that could not be read.
    pub const RECOVERED: u32 = 4;
    /// From here on an application has flags of its own.
    pub const OWN: u32 = 1 << 16;
}

/// Where a payload lies in the file: within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Where the record begins in the file.
    pub record: u64,
    /// Bytes of its content.
    pub content: u32,
    /// Where in the content the payload begins.
    pub from: u32,
    /// Its bytes.
    pub len: u32,
}

/// The bytes that an application keeps with an item: scroll positions, texts of forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// There are none.
    #[default]
    None,
    /// They are in memory.
    Here(Arc<[u8]>),
    /// They are on the disk alone: `want` brings them.
    There(Spot),
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The item that it is in, or [`ROOT`].
    pub parent: Id,
    /// Its place among its siblings: they are in the order of these numbers, and of their own where these are equal.
    pub order: u64,
    /// What it is: [`kind`].
    pub kind: u8,
    /// What is true of it: [`flag`].
    pub flags: u32,
    /// Its title.
    pub title: Arc<str>,
    /// Whose it is, as `forget` is told; empty: nobody's.
    pub origin: Arc<str>,
    /// When it was changed last, in milliseconds since 1970.
    pub changed_ms: u64,
    /// The application's bytes.
    pub payload: Payload,
}

impl Item {
    /// The flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
