//! The page cache: what is resident, who keeps it there, and how to evict or fill it.
//!
//! Four questions, one file each: `look` (which pages of a file are resident), `change` (evict and
//! fill), `holders` (who keeps a file in memory), `walk` and `flush` (the same for whole directories,
//! with a reason for everything that stays).
//!
//! Not for the caches of directories and inodes: only [`drop_all`] (the whole machine) and a memory
//! cgroup's reclaim ([`crate::cgroup`]) empty those.

mod change;
mod flush;
mod holders;
mod look;
mod walk;

pub use change::{drop_all, drops, evict, warm, warm_directory};
pub use flush::{FlushReport, Kept, Skipped, Why, flush, flush_with};
pub use holders::{Grip, Mapper, who_maps};
pub use look::{
    Method, PageMap, Residency, all_resident, open_quietly, probe, residency, residency_of, resident_pages,
};
pub use walk::{FileSystems, ResidentFile, ResidentReport, Walk, list_resident, list_resident_with};
