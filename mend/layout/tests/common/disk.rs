//! A file system of a test's own, on a loop device.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One disk at a time: between fork and exec a child of another test has the files open that this one writes, starts or
/// unmounts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A file system on a loop device.
pub struct Disk {
    // Unmounted before its folder is removed.
    disk: testing::LoopDisk,
    _folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Disk {
    type Target = testing::LoopDisk;

    fn deref(&self) -> &testing::LoopDisk {
        &self.disk
    }
}

impl Disk {
    /// Its image lies in `place`. `None`, counted as skipped: that cannot be had here.
    pub fn new(place: &Path, words: &[&str], mkfs: &str, size: u64) -> Option<Self> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("thaw-test-").tempdir_in(place).unwrap();
        let disk = testing::LoopDisk::new(folder.path(), mkfs, words, size)?;
        Some(Self { disk, _folder: folder, _alone: alone })
    }

    /// What has this name on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }
}

/// Bytes of a piece.
pub const STEP: u64 = 256 << 10;

/// Those of a piece, by its number.
pub fn content(seed: u64) -> Vec<u8> {
    (0..STEP).map(|at| (at * 7 + at / 251 + seed * 13) as u8).collect()
}
