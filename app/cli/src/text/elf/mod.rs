//! `thaw elf` as text, one file per verb.

mod stat;

pub use stat::stat;
