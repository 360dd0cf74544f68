//! The one integration binary: each test has a scratch folder of its own and types `thaw` as a user would.
//!
//! What needs root, tracefs or a control group runs here where it can; elsewhere it is counted as skipped.

mod answers;
mod architecture;
mod archive;
mod around;
mod bad_input;
mod cache;
mod disk;
mod elf;
mod faults;
mod files;
mod frag;
mod gate;
mod habits;
mod hard_programs;
mod heap;
mod heap_dark;
mod heap_look;
mod heap_peers;
mod heap_waste;
mod help;
mod io;
mod machine;
mod made;
mod memory;
mod memory_watch;
mod optimize;
mod optimize_archive;
mod ownership;
mod pageload;
mod pages;
mod preload;
mod proxy;
mod record;
mod scratch;
mod second_user;
mod store;
mod store_live;
mod timeline;
mod timeline_probes;
mod touch;
mod user;
mod walls;
mod words;
