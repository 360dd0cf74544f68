//! Where the tests stand: a folder on a real disk, a disk of their own, and a thread without rights.

use model::{Bytes, FileOffset, PAGE};
use os::cache::{self, Residency};
use os::mounts::{Backing, Mount, Mounts};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testing::LoopDisk;

/// Runs a test again if it failed while somebody dropped the caches of the whole machine, which the kernel counts.
pub fn undisturbed(test: impl Fn()) {
    let drops = || {
        let counts = std::fs::read_to_string("/proc/vmstat").unwrap();
        let dropped = counts.lines().filter(|line| line.starts_with("drop_pagecache") || line.starts_with("drop_slab"));
        dropped.map(str::to_owned).collect::<Vec<_>>()
    };
    for attempt in 1.. {
        let before = drops();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) if before != drops() && attempt < 10 => eprintln!("the machine's caches were dropped: once more"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// A folder on a disk, which everybody may enter; removed when dropped. `None` (and counted as skipped): this
/// machine has none.
pub fn folder() -> Option<tempfile::TempDir> {
    let mounts = Mounts::load().unwrap();
    for place in ["/var/tmp", env!("CARGO_TARGET_TMPDIR")] {
        let on_disk = mounts.of_path(Path::new(place)).is_some_and(|mount| mount.backing() == Backing::Disk);
        if let Ok(folder) = tempfile::Builder::new().prefix("thaw-test-").tempdir_in(place)
            && on_disk
        {
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
            return Some(folder);
        }
    }
    testing::skip("needs a folder on a disk: /var/tmp or the target folder");
    None
}

/// Bytes that differ from page to page.
pub fn content(pages: u64) -> Vec<u8> {
    (0..pages * PAGE).map(|at| ((at / PAGE) * 31 + at % 251) as u8).collect()
}

/// A file of so many pages that is on disk and not in the cache.
pub fn cold_file(path: &Path, pages: u64) -> File {
    std::fs::write(path, content(pages)).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    cache::evict(&file).unwrap();
    assert_eq!(resident(path), 0, "{} is not cold to begin with", path.display());
    file
}

/// Resident pages of a whole file, asked with all rights.
pub fn resident(path: &Path) -> u64 {
    whole(&File::open(path).unwrap()).resident
}

/// Residency of a whole file, asked with all rights.
pub fn whole(file: &File) -> Residency {
    cache::residency(file, FileOffset(0), Bytes(file.metadata().unwrap().len())).unwrap()
}

/// Ranges in pages.
pub fn pages(ranges: &[(FileOffset, Bytes)]) -> Vec<(u64, u64)> {
    ranges.iter().map(|(offset, len)| (offset.0 / PAGE, len.0 / PAGE)).collect()
}

/// A range of pages.
pub fn range(first: u64, count: u64) -> (FileOffset, Bytes) {
    (FileOffset(first * PAGE), Bytes(count * PAGE))
}

/// Runs `act` as user nobody, without groups and capabilities. Credentials belong to threads, so only the thread
/// that runs it loses its rights.
pub fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::c_long = 65534;
    std::thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            // SAFETY: the raw system calls take numbers (no list of groups) and change this thread only.
            let answers = unsafe {
                [
                    libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()),
                    libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY),
                    libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY),
                ]
            };
            assert_eq!(answers, [0; 3], "cannot become nobody");
            act()
        });
        nobody.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A small ext4 on a loop device. `None` (and counted as skipped): it cannot be had here.
pub fn loop_disk(folder: &Path) -> Option<LoopDisk> {
    LoopDisk::new(folder, "mkfs.ext4", &["-q", "-b", "4096", "-E", "lazy_itable_init=0"], 32 << 20)
}

/// Its line of the mount table.
pub fn entry(disk: &LoopDisk) -> Mount {
    Mounts::load().unwrap().of_path(&disk.point).unwrap().clone()
}

/// Mounts something at `point`; unmounted when dropped. `None`: this machine cannot.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn new(kind: &str, options: &str, point: &Path) -> Option<Self> {
        std::fs::create_dir_all(point).unwrap();
        let mounted = run(Command::new("mount").args(["-t", kind, "-o", options, kind]).arg(point));
        mounted.then(|| Self(point.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

fn run(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A process that runs a copy of `sleep`, and so maps that copy; killed when dropped.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn new(copy: &Path) -> Self {
        std::fs::copy("/bin/sleep", copy).unwrap();
        File::open(copy).unwrap().sync_all().unwrap();
        let mut child = loop {
            // Another test may fork while the copy is still open for writing, and keep it open until it executes.
            match Command::new(copy).arg("600").spawn() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                child => break child.unwrap(),
            }
        };
        // `spawn` returns once the child executes, but its loader may still be at work; wait until it sleeps.
        while os::process::stat(child.id()).is_some_and(|stat| stat.state != 'S') {
            assert!(child.try_wait().unwrap().is_none(), "the sleeper ended");
            std::thread::yield_now();
        }
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It ends for no other reason, so there is nothing to do about an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A locked mapping of a file in this very process.
pub struct Locked(*mut libc::c_void, usize);

impl Locked {
    pub fn new(file: &File, len: u64) -> Self {
        let len = len as usize;
        // SAFETY: a new shared read-only mapping at an address of the kernel's choice.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(address, libc::MAP_FAILED);
        // SAFETY: the range was just mapped.
        assert_eq!(unsafe { libc::mlock(address, len) }, 0);
        Self(address, len)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody reads it.
        unsafe { libc::munmap(self.0, self.1) };
    }
}
