//! One file per verb: each turns what was typed into values, asks a room or `work`, and hands the document to `text` or
//! `export`.

pub mod ablate;
pub mod archive;
pub mod cache;
pub mod compare;
pub mod counts;
pub mod docs;
pub mod doctor;
pub mod elf;
pub mod files;
pub mod fleet;
pub mod frag;
pub mod gate;
pub mod heap;
pub mod history;
pub mod image;
pub mod io;
pub mod memory;
pub mod optimize;
pub mod order;
pub mod packaging;
pub mod pageload;
pub mod ping;
pub mod preload;
pub mod presets;
pub mod proxy;
pub mod query;
pub mod record;
pub mod report;
pub mod store;
pub mod sweep;
pub mod timeline;
pub mod touch;
pub mod view;
pub mod why;
