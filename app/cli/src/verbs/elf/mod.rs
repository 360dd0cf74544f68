//! `thaw elf`: looks into programs and libraries, and rewrites them.

mod stat;

pub use stat::StatDocument;

use crate::args::elf::{ElfArgs, ElfVerb};
use model::{Exit, Result};

/// Does what was typed.
///
/// # Errors
/// See each verb.
pub fn run(args: &ElfArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        ElfVerb::Stat(args) => stat::run(args, quiet),
    }
}
