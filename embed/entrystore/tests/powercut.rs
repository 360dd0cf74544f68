//! A power cut as a file system sees it: an image of ext4 is copied while a store fills it, and the copy is mounted as
//! after a cut, with its journal replayed. What a flush had acknowledged before the copy began is there.

mod common;

use common::{Random, body, key};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use testing::LoopDisk;
use thaw_entrystore::disk::{Disk, Folder};
use thaw_entrystore::{Blocking, Clear, Event, Options, Put, Store};

const KEYS: u64 = 300;
const CUTS: u64 = 6;

fn ran(program: &str, args: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// Copies the image as it is at one moment: the store stands still, and if the kernel wrote meanwhile, again.
fn copy(disk: &LoopDisk, to: &Path, gate: &Mutex<()>) {
    // Writes that the loop device has been asked for, and those under way.
    let writes = || {
        let counts = disk.counts();
        [counts[4], counts[8]]
    };
    let _gate = gate.lock().unwrap();
    loop {
        let before = writes();
        assert!(ran("cp", &["--reflink=never", "--sparse=always", disk.image.to_str().unwrap()], to));
        if before == writes() && before[1] == 0 {
            return;
        }
    }
}

/// A directory that stands still while somebody holds the gate: between two operations, whatever comes next.
struct Gated(Folder, Arc<Mutex<()>>);

impl Disk for Gated {
    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.list()
    }

    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(name, at, buffer)
    }

    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.write(name, at, parts)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.sync(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.sync_names()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.unlink(name)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let _gate = self.1.lock().unwrap();
        self.0.truncate(name, len)
    }
}

fn store(path: &Path, gate: &Arc<Mutex<()>>) -> Blocking {
    let mut options = Options::on(Arc::new(Gated(Folder::new(path), gate.clone())));
    (options.memory, options.segment, options.commit) = (0, 1 << 20, std::time::Duration::from_millis(30));
    options.snapshot = std::time::Duration::from_millis(90);
    Blocking::new(Store::open(options).unwrap())
}

fn version(number: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, body(number, version, bytes.len()), "a wrong byte of {number}");
    version
}

#[test]
fn a_copy_of_the_image_taken_while_it_fills_holds_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let Some(disk) = LoopDisk::new(folder.path(), "mkfs.ext4", &words, 96 << 20) else { return };
    let gate = Arc::new(Mutex::new(()));
    let mut store = store(&disk.point.join("store"), &gate);
    let mut random = Random(17);
    // The latest version that is acknowledged; those that were asked for, in order; those of the last flush.
    let (mut asked, mut flushed): (HashMap<u64, Vec<u64>>, HashMap<u64, u64>) = Default::default();
    let mut next = 1;
    let mut removed: HashMap<u64, u64> = HashMap::new();
    for cut in 0..CUTS {
        for round in 0..4 {
            let (mut tickets, mut now) = (Vec::new(), flushed.clone());
            for _ in 0..120 {
                let number = random.below(KEYS);
                next += 1;
                if random.below(10) == 0 {
                    tickets.push(store.store().remove(&key(number)));
                    now.insert(number, next);
                    removed.insert(next, number);
                    asked.entry(number).or_default().push(next);
                    continue;
                }
                let bytes = body(number, next, 200 + random.below(if number == 7 { 400_000 } else { 20_000 }) as usize);
                tickets.push(store.store().put(&key(number), Put::default(), bytes));
                asked.entry(number).or_default().push(next);
                now.insert(number, next);
            }
            if round == 3 {
                // What is under way while the copy is made may be there or not.
                copy(&disk, &folder.path().join("cut"), &gate);
            }
            assert!(tickets.into_iter().all(|ticket| store.done(ticket)));
            if round == 3 {
                check(folder.path(), cut, &flushed, &asked, &removed);
            }
            assert!(store.flush());
            flushed = now;
        }
    }
    assert!(store.store().stats().counts.commits > 20);
    // Another flush, and what was cleared stays so.
    let clear = store.store().clear(Clear::All);
    assert_eq!(store.wait(clear), Event::Done(true));
    copy(&disk, &folder.path().join("cut"), &gate);
    check(folder.path(), CUTS, &HashMap::new(), &HashMap::new(), &removed);
    drop(store);
    drop(disk);
}

/// Mounts the copy, and compares the store in it with what has to be there.
fn check(
    folder: &Path,
    cut: u64,
    flushed: &HashMap<u64, u64>,
    asked: &HashMap<u64, Vec<u64>>,
    removed: &HashMap<u64, u64>,
) {
    let disk = LoopDisk::of(&folder.join("cut"), &folder.join(format!("cut-{cut}"))).expect("the copy mounts");
    let mut store = store(&disk.point.join("store"), &Arc::default());
    for number in 0..KEYS {
        let none = Vec::new();
        let asked = asked.get(&number).unwrap_or(&none);
        let sure = flushed.get(&number).copied().unwrap_or(0);
        let later = asked.iter().any(|version| *version > sure);
        match store.get(&key(number)) {
            Some((_, bytes)) => {
                let version = version(number, &bytes);
                assert!(version >= sure && asked.contains(&version), "cut {cut}: {number} is {version}, not {sure}");
            }
            // One that was overwritten or removed meanwhile may be gone.
            None => assert!(sure == 0 || later || removed.contains_key(&sure), "cut {cut}: {number} of {sure} is lost"),
        }
    }
    drop(store);
    drop(disk);
}
