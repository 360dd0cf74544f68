//! A power cut as a file system sees it: an image of ext4 is copied while a store fills it, and the copy is mounted as
//! after a cut, with its journal replayed. What a flush had acknowledged before the copy began is there.

mod common;

use common::{Random, body, key};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use thaw_entrystore::disk::{Disk, Folder};
use thaw_entrystore::{Blocking, Clear, Event, Options, Put, Store};

const KEYS: u64 = 300;
const CUTS: u64 = 6;

fn ran(program: &str, args: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// A mounted image, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path) -> Option<Mounted> {
        std::fs::create_dir(at).ok()?;
        let image = image.to_str()?;
        // The loop device goes with the mount.
        ran("mount", &["-o", "loop", image], at).then(|| Mounted(at.into()))
    }
}

impl Mounted {
    /// Writes that the loop device has been asked for, and those under way.
    fn writes(&self) -> String {
        let output = Command::new("findmnt").args(["-no", "SOURCE"]).arg(&self.0).output().unwrap();
        let device = String::from_utf8(output.stdout).unwrap();
        let name = device.trim().rsplit('/').next().unwrap().to_owned();
        let all = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        let words: Vec<&str> = all.split_whitespace().collect();
        [words[4], words[8]].join(" ")
    }

    /// Copies the image as it is at one moment: the store stands still, and if the kernel wrote meanwhile, again.
    fn copy(&self, image: &Path, to: &Path, gate: &Mutex<()>) {
        let _gate = gate.lock().unwrap();
        loop {
            let before = self.writes();
            assert!(ran("cp", &["--reflink=never", "--sparse=always", image.to_str().unwrap()], to));
            if before == self.writes() && before.ends_with(" 0") {
                return;
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !ran("umount", &[], &self.0) {
            ran("umount", &["-l"], &self.0);
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
    if !testing::root_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
    if !ran("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], &image) {
        return testing::skip("no mkfs.ext4");
    }
    let Some(mounted) = Mounted::new(&image, &folder.path().join("now")) else {
        return testing::skip("cannot mount a loop image");
    };
    let gate = Arc::new(Mutex::new(()));
    let mut store = store(&mounted.0.join("store"), &gate);
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
                mounted.copy(&image, &folder.path().join("cut"), &gate);
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
    mounted.copy(&image, &folder.path().join("cut"), &gate);
    check(folder.path(), CUTS, &HashMap::new(), &HashMap::new(), &removed);
    drop(store);
    drop(mounted);
}

/// Mounts the copy, and compares the store in it with what has to be there.
fn check(
    folder: &Path,
    cut: u64,
    flushed: &HashMap<u64, u64>,
    asked: &HashMap<u64, Vec<u64>>,
    removed: &HashMap<u64, u64>,
) {
    let mounted = Mounted::new(&folder.join("cut"), &folder.join(format!("cut-{cut}"))).expect("the copy mounts");
    let mut store = store(&mounted.0.join("store"), &Arc::default());
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
    drop(mounted);
}
