//! A file system of a test's own, on a loop device.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One disk at a time: between fork and exec a child of another test has the files open that this one writes, starts or
/// unmounts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A file system on a loop device; unmounted when dropped.
pub struct Disk {
    /// Where its image lies, as `image`.
    pub folder: tempfile::TempDir,
    /// Where it is mounted.
    pub point: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Disk {
    /// Its image lies in `place`. `None`, counted as skipped: that cannot be had here.
    pub fn new(place: &Path, words: &[&str], mkfs: &str, size: u64) -> Option<Self> {
        if !testing::root_or_skip() {
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("thaw-test-").tempdir_in(place).unwrap();
        let (image, point) = (folder.path().join("image"), folder.path().join("disk"));
        File::create(&image).unwrap().set_len(size).unwrap();
        fs::create_dir(&point).unwrap();
        let quiet = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let tool =
            ["/sbin", "/usr/sbin"].map(|place| Path::new(place).join(mkfs)).into_iter().find(|tool| tool.exists());
        let made = tool.is_some_and(|tool| quiet(Command::new(tool).args(words).arg(&image)));
        if !made || !quiet(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point)) {
            testing::skip(&format!("needs {mkfs}, loop devices, and the file system in the kernel"));
            return None;
        }
        Some(Self { folder, point, _alone: alone })
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

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever looks through /proc, as other tests' thaw does, holds it for a moment; then it goes when they have
        // looked.
        let umount = |words: &[&str]| Command::new("umount").args(words).arg(&self.point).status().unwrap().success();
        assert!(
            umount(&[]) || umount(&["--lazy"]) || std::thread::panicking(),
            "cannot unmount {}",
            self.folder.path().display()
        );
    }
}
