//! The one integration binary: each test has a scratch folder of its own and types `thaw` as a user would.
//!
//! What needs root, tracefs or a control group runs here where it can; elsewhere it is counted as skipped.

mod answers;
mod architecture;
mod bad_input;
mod disk;
mod elf;
mod files;
mod heap;
mod help;
mod io;
mod machine;
mod made;
mod preload;
mod record;
mod scratch;
mod touch;
