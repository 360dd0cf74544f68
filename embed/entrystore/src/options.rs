//! How a store is opened: where its files lie, and its limits.

use crate::disk::{Disk, Folder};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// Where its files lie.
    pub disk: Arc<dyn Disk>,
    /// Bytes of files, from which on it evicts. 1 GiB.
    pub budget: u64,
    /// Bytes of entries in memory. 50 MB.
    pub memory: usize,
    /// Bytes of changes that may wait for the disk; what comes beyond is dropped. 64 MiB.
    pub pending: usize,
    /// Bytes at which a segment of the log is sealed; a body of more than an eighth of that has one for itself. 8 MiB.
    pub segment: u32,
    /// How long after a change it is on the medium at the latest, if the disk is fast enough. 5 s.
    pub commit: Duration,
    /// How old the snapshot of the index becomes while entries change. 60 s.
    pub snapshot: Duration,
}

impl Options {
    /// A store in a directory, which is made if need be.
    pub fn new(path: &Path) -> Options {
        Options::on(Arc::new(Folder::new(path)))
    }

    /// A store on a disk.
    pub fn on(disk: Arc<dyn Disk>) -> Options {
        Options {
            disk,
            budget: 1 << 30,
            memory: 50_000_000,
            pending: 64 << 20,
            segment: 8 << 20,
            commit: Duration::from_secs(5),
            snapshot: Duration::from_secs(60),
        }
    }
}
