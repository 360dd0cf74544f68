//! A file system of a test's own, in a file.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in a file, mounted by a loop device, which goes with the mount. Unmounted when dropped.
#[derive(Debug)]
pub struct LoopDisk {
    /// The file.
    pub image: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
}

impl LoopDisk {
    /// A new one: the file is `disk.img` in a folder, and it is mounted at `disk` beside that, where everybody may
    /// look. `mkfs` is the tool, `words` its options. `None`, counted as skipped: that cannot be had here.
    ///
    /// # Panics
    /// The file cannot be made.
    pub fn new(folder: &Path, mkfs: &str, words: &[&str], bytes: u64) -> Option<Self> {
        if !super::root_or_skip() {
            return None;
        }
        let (image, point) = (folder.join("disk.img"), folder.join("disk"));
        File::create(&image).and_then(|file| file.set_len(bytes)).expect("a test can make a file");
        let tool =
            ["/sbin", "/usr/sbin"].map(|place| Path::new(place).join(mkfs)).into_iter().find(|tool| tool.exists());
        if !tool.is_some_and(|tool| quiet(Command::new(tool).args(words).arg(&image))) {
            super::skip(&format!("needs {mkfs}"));
            return None;
        }
        let disk = Self::of(&image, &point)?;
        fs::set_permissions(&point, PermissionsExt::from_mode(0o755)).expect("the root of a new file system is ours");
        Some(disk)
    }

    /// A file system that is in a file already, mounted at a place. `None`, counted as skipped: that cannot be had
    /// here.
    pub fn of(image: &Path, point: &Path) -> Option<Self> {
        let is_there = point.is_dir() || fs::create_dir(point).is_ok();
        if !is_there || !mount(image, point, "loop") {
            super::skip("needs root, loop devices, and the file system in the kernel");
            return None;
        }
        Some(Self { image: image.to_owned(), point: point.to_owned() })
    }

    /// Unmounts it and mounts it again, with these options of mount(8): all its caches are empty then.
    ///
    /// # Panics
    /// Somebody uses it.
    pub fn remount(&self, options: &str) {
        assert!(quiet(Command::new("umount").arg(&self.point)), "cannot unmount {}", self.point.display());
        assert!(mount(&self.image, &self.point, options), "cannot mount {} again", self.image.display());
    }

    /// The number of its device.
    ///
    /// # Panics
    /// It is gone.
    pub fn dev(&self) -> u64 {
        fs::metadata(&self.point).expect("a mounted file system").dev()
    }

    /// What the kernel counts of its device, in the order of `Documentation/block/stat.rst`: the first is requests that
    /// read.
    ///
    /// # Panics
    /// It is gone.
    pub fn counts(&self) -> Vec<u64> {
        let dev = self.dev();
        let path = format!("/sys/dev/block/{}:{}/stat", libc::major(dev), libc::minor(dev));
        let text = fs::read_to_string(path).expect("a device has counts");
        text.split_whitespace().map(|word| word.parse().expect("counts are numbers")).collect()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Whoever looks through /proc, as other tests' thaw does, holds it for a moment: it goes when they have looked.
        let is_gone = quiet(Command::new("umount").arg(&self.point))
            || quiet(Command::new("umount").arg("--lazy").arg(&self.point));
        assert!(is_gone || std::thread::panicking(), "cannot unmount {}", self.point.display());
    }
}

fn mount(image: &Path, point: &Path, options: &str) -> bool {
    quiet(Command::new("mount").args(["-o", options]).arg(image).arg(point))
}

fn quiet(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
