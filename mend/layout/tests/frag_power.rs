//! A power cut at any moment while a file is put together: its content is whole, with its owner, mode, times and
//! attributes, and nothing lies beside it but what `thaw doctor` finds.
//!
//! Where a copy takes the name, the writer is `os::replace`, and the disk is a model: every combination of what was not
//! synced. Where the kernel exchanges blocks, what a cut leaves is the file system's own doing: its image is copied at
//! every step of the exchange, with and without what is in memory being written first, and mounted elsewhere. The image
//! is what the device was told, in the order in which it was told: a device that forgets writes it has not flushed is
//! not part of it.

#[path = "common/disk.rs"]
mod disk;

use disk::{Disk, STEP, content};
use layout::frag::{Fixed, Outcome, Way, fix};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use testing::power::{Syncs, needless_syncs};
use testing::steps::{Next, stand_still, steps};

/// Set in the process that is stopped at its system calls: the file that it puts together.
const VICTIM: &str = "THAW_TEST_VICTIM";

/// Where images lie: in memory, where syncing costs nothing; the calls are the same.
fn memory() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/var/tmp") }
}

/// Gives a file what a copy could lose.
fn dress(path: &Path) {
    chown(path, Some(1234), Some(5678)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o4750)).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    let set = rustix::fs::fsetxattr(&file, "user.thaw", b"kept", rustix::fs::XattrFlags::empty());
    set.unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_007, 89)).unwrap();
    file.sync_all().unwrap();
}

fn fixed(path: &Path) -> Fixed {
    match fix(path).unwrap() {
        Outcome::Fixed(fixed) => fixed,
        other => panic!("{other:?}"),
    }
}

/// On the model, where blocks cannot be exchanged. `None`: no such disk can be had here.
fn copied(syncs: Syncs) -> Option<(usize, Result<usize, String>)> {
    let disk = Disk::new(memory(), &["-q", "-b", "4096", "-O", "^extent,^64bit"], "mkfs.ext4", 24 << 20)?;
    let state = disk.image.with_file_name("state");
    fs::create_dir(&state).unwrap();
    // SAFETY: the tests of this process that come here run one after the other, and nothing else looks at it.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    let path = disk.path("one");
    let (file, other) = (File::create(&path).unwrap(), File::create(disk.path("two")).unwrap());
    for turn in 0..4_u64 {
        for file in [&file, &other] {
            file.write_all_at(&content(turn)[..65_536], turn * 65_536).unwrap();
            file.sync_all().unwrap();
        }
    }
    drop((file, other));
    dress(&path);
    // While the lease is held, the model cannot open it; it need not, if it was not changed for a moment.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let model = testing::power::Disk::of(&[&disk.point, &state], syncs);
    let fixed = model.run(|| fixed(&path));
    assert_eq!(fixed.way, Way::Copied);
    let about = fs::metadata(&path).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o7777, about.mtime_nsec()), (1234, 0o4750, 89));
    Some((model.syncs(), model.survives(&[&path])))
}

/// The body of the process that is stopped at its system calls, and no test of its own.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    stand_still();
    assert_eq!(fixed(Path::new(&path)).way, Way::Moved);
}

/// Puts a file together in a process of its own, which stands still before and after each system call while `look`,
/// which gets the number of the call, looks.
#[expect(clippy::zombie_processes, reason = "steps reaps it")]
fn stopped(path: &Path, state: &Path, mut look: impl FnMut(i64)) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "victim", "--test-threads=1"]).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.env(VICTIM, path).env("THAW_STATE_DIR", state).stderr(Stdio::inherit()).spawn().unwrap();
    let ended = steps(&child, |who| {
        // Outside of calls the kernel says "running".
        let at = fs::read_to_string(format!("/proc/{who}/syscall")).unwrap_or_default();
        if let Some(number) = at.split(' ').next().and_then(|number| number.parse().ok()) {
            look(number);
        }
        Next::On
    });
    assert!(ended.success(), "the victim failed by itself: {ended}");
}

/// Runs a program, which must succeed.
fn ran(command: &mut Command) {
    let said = command.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{command:?}: {text}");
}

/// All that has to stay of a file: its bytes, and what is told of it.
fn all_of(path: &Path) -> (Vec<u8>, Vec<i64>, Vec<u8>) {
    let about = fs::metadata(path).unwrap();
    let numbers = [
        about.ino() as i64,
        about.uid().into(),
        about.gid().into(),
        about.mode().into(),
        about.mtime(),
        about.mtime_nsec(),
    ];
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(path, "user.thaw", &mut value).unwrap();
    (fs::read(path).unwrap(), numbers.to_vec(), value[..len].to_vec())
}

/// Where the kernel exchanges blocks. How many cuts there were, and after how many the file lay in other pieces than
/// before and than in the end.
fn moved() -> Option<(usize, usize)> {
    /// In pieces of this size, between which another file has a block.
    const PIECE: u64 = 1 << 20;
    // More than the exchange does at a time, which is 16 MiB.
    const PIECES: u64 = 20;
    let disk = Disk::new(
        memory(),
        &["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        "mkfs.ext4",
        72 << 20,
    )?;
    // What the kernel writes by itself would come while the image is copied.
    ran(Command::new("mount").args(["-o", "remount,commit=600"]).arg(&disk.point));
    let folder = tempfile::tempdir_in(memory()).unwrap();
    let folder = folder.path();
    let (state, after, copy) = (folder.join("state"), folder.join("after"), folder.join("cut"));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&after).unwrap();
    let path = disk.path("one");
    let (file, other) = (File::create(&path).unwrap(), File::create(disk.path("two")).unwrap());
    for turn in 0..PIECES {
        for (file, len) in [(&file, PIECE), (&other, 4096)] {
            let at = file.metadata().unwrap().len();
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), at, len).unwrap();
            let bytes: Vec<u8> =
                (0..len / STEP + 1).flat_map(|part| content(turn * 5 + part)).take(len as usize).collect();
            file.write_all_at(&bytes, at).unwrap();
            file.sync_all().unwrap();
        }
    }
    drop((file, other));
    dress(&path);
    rustix::fs::syncfs(File::open(&disk.point).unwrap()).unwrap();
    let before = all_of(&path);
    let pieces = |path: &Path| layout::frag::look(&File::open(path).unwrap()).unwrap().pieces.len();
    let (first, mut seen, mut cuts) = (pieces(&path), Vec::new(), 0);
    let writing = [
        libc::SYS_ioctl,
        libc::SYS_fsync,
        libc::SYS_fallocate,
        libc::SYS_unlinkat,
        libc::SYS_utimensat,
        libc::SYS_openat,
    ];
    stopped(&path, &state, |call| {
        let is_begun = fs::read_dir(&disk.point).unwrap().count() > 3;
        if !writing.contains(&call) || !is_begun && call != libc::SYS_unlinkat {
            return;
        }
        for is_written in [false, true] {
            if is_written {
                // As the kernel may at any time.
                rustix::fs::syncfs(File::open(&disk.point).unwrap()).unwrap();
            }
            fs::copy(&disk.image, &copy).unwrap();
            let mounted = testing::LoopDisk::of(&copy, &after).expect("the copy mounts");
            let found = after.join("one");
            assert!(all_of(&found) == before, "cut {cuts}, at the system call {call}: the file is not what it was");
            seen.push(pieces(&found));
            for entry in fs::read_dir(&after).unwrap() {
                let name = entry.unwrap().file_name();
                let hidden = disk.path(name.to_str().unwrap());
                if !["one", "two", "lost+found"].map(Into::into).contains(&name) {
                    let entries = fs::read_dir(state.join("journal")).unwrap();
                    let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
                    assert!(texts.into_iter().any(|text| text.contains(hidden.to_str().unwrap())), "{hidden:?}");
                }
            }
            drop(mounted);
            ran(Command::new("e2fsck").args(["-f", "-n"]).arg(&copy));
            cuts += 1;
        }
    });
    let last = pieces(&path);
    assert!(last < first && all_of(&path) == before);
    let between = seen.iter().filter(|pieces| ![first, last].contains(pieces)).count();
    Some((cuts, between))
}

#[test]
fn a_power_cut_while_a_file_is_put_together_leaves_it_whole() {
    let Some((_, states)) = copied(Syncs::Kept) else { return };
    let states = states.unwrap();
    assert!(states > 20, "{states} states");
    let (needless, count) = needless_syncs(|syncs| copied(syncs).unwrap());
    assert!(needless.is_empty(), "of {count} syncs nobody misses {needless:?}");
    let (cuts, between) = moved().unwrap();
    assert!(cuts > 20 && between > 0, "{cuts} cuts, after {between} of them some blocks were exchanged");
}
