//! What a power cut at any moment leaves of what `os::replace` writes, on a disk that loses its power
//! (`testing::power`).

use os::filesystem::{self, NameIn};
use os::journal::{self, Undo};
use os::records::Records;
use os::replace::{self, Existing, Rights};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use testing::power::{ALL_SUBSETS, Content, Disk, Syncs, is_listed, needless_syncs};

/// Bytes, and mode.
type Expected = (Vec<u8>, u32);

/// What comes of one writer on the disk: how often it synced, how many states there were or the first wrong one.
type Judged = (usize, Result<usize, String>);

/// A directory for what is written, and one for thaw's state.
struct Ground {
    home: tempfile::TempDir,
    syncs: Syncs,
}

impl Ground {
    fn new(old: Option<&Expected>, syncs: Syncs) -> Self {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        // SAFETY: this process has one test, and no other thread that looks at the environment.
        unsafe { std::env::set_var("THAW_STATE_DIR", home.path().join("state")) };
        let ground = Self { home, syncs };
        if let Some((bytes, mode)) = old {
            std::fs::write(ground.target(), bytes).unwrap();
            std::fs::set_permissions(ground.target(), std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn target(&self) -> PathBuf {
        self.at("target")
    }

    fn disk(&self) -> Disk {
        Disk::of(&[self.home.path()], self.syncs)
    }

    /// Lets `work` write, and holds every state after every cut against what may be there: nothing but `may` under the
    /// target's name, in the end only `must`, and no hidden name without its journal entry.
    fn survives(
        &self,
        target: &Path,
        may: &[Option<Expected>],
        must: Option<&Expected>,
        work: impl FnOnce(),
    ) -> Judged {
        let disk = self.disk();
        disk.run(work);
        let plain = |content: &Content| (content.bytes.to_vec(), content.mode);
        let judged = disk.each(|state| {
            for held in state.held(target) {
                let held = held.map(plain);
                if !may.contains(&held) {
                    return Err(format!("{held:?} in {state:?}"));
                }
                if state.is_end && held.as_ref() != must {
                    return Err(format!("in the end {held:?}"));
                }
            }
            disk.hidden_are_listed(state)
        });
        assert!(disk.most_unsynced() <= ALL_SUBSETS, "too many calls are not synced to try all of their subsets");
        assert_eq!(std::fs::read_dir(self.at("state/journal")).unwrap().count(), 0);
        (disk.syncs(), judged)
    }
}

/// Every state is right, of so many at least; and each sync is needed, but for some that another one covers.
fn proven(at_least: usize, covered: &[usize], writer: impl Fn(Syncs) -> Judged) {
    let states = writer(Syncs::Kept).1.unwrap();
    assert!(states > at_least, "{states} states");
    let (needless, count) = needless_syncs(writer);
    assert!(needless == covered && count > 0, "of {count} syncs nobody misses {needless:?}");
}

fn old() -> Expected {
    (b"the old one".to_vec(), 0o640)
}

fn new() -> Expected {
    (b"the new one, longer".to_vec(), 0o600)
}

fn write(target: &Path, existing: Existing) {
    replace::write_whole(target, &new().0, Rights::Private, existing).unwrap();
}

fn what_replaces(syncs: Syncs) -> Judged {
    let ground = Ground::new(Some(&old()), syncs);
    let target = ground.target();
    ground.survives(&target, &[Some(old()), Some(new())], Some(&new()), || write(&target, Existing::Replace))
}

fn what_is_new(syncs: Syncs) -> Judged {
    let ground = Ground::new(None, syncs);
    let target = ground.target();
    ground.survives(&target, &[None, Some(new())], Some(&new()), || write(&target, Existing::Keep))
}

/// What fails half-way leaves the old one.
fn what_fails(syncs: Syncs) -> Judged {
    let ground = Ground::new(Some(&old()), syncs);
    let target = ground.target();
    ground.survives(&target, &[Some(old())], Some(&old()), || {
        let full = |out: &mut dyn Write| out.write_all(b"half").and(Err(io::ErrorKind::StorageFull.into()));
        assert!(replace::write_by(&target, Rights::Private, Existing::Replace, full).is_err());
    })
}

fn a_link(syncs: Syncs) -> Judged {
    let ground = Ground::new(None, syncs);
    let target = ground.target();
    let link = (b"elsewhere".to_vec(), 0o777);
    ground.survives(&target, &[None, Some(link.clone())], Some(&link), || {
        replace::write_link(&target, Path::new("elsewhere")).unwrap();
    })
}

/// A record of changes; its directory is new too.
fn a_record(syncs: Syncs) -> Judged {
    let ground = Ground::new(None, syncs);
    let target = ground.at("state/kind/name.json");
    let record = (b"\"what was changed\"\n".to_vec(), 0o600);
    ground.survives(&target, &[None, Some(record.clone())], Some(&record), || {
        Records::of("kind").unwrap().write("name", &"what was changed").unwrap();
    })
}

/// One that is forgotten does not come back.
fn a_forgotten_record(syncs: Syncs) -> Judged {
    let ground = Ground::new(None, syncs);
    let target = ground.at("state/kind/name.json");
    let record = (b"\"what was changed\"\n".to_vec(), 0o600);
    ground.survives(&target, &[None, Some(record)], None, || {
        let records = Records::of("kind").unwrap();
        records.write("name", &"what was changed").unwrap();
        records.forget("name").unwrap();
    })
}

/// Whatever is changed behind a guard, its entry is on the disk first. The hidden name stands for the change.
fn what_is_guarded(syncs: Syncs) -> Judged {
    let ground = Ground::new(None, syncs);
    let target = ground.target();
    ground.survives(&target, &[None], None, || {
        let change = ground.at(".change");
        let entry = journal::hold(Undo::RemoveFile { path: change.clone() }, || {
            let opened = replace::open_directory(ground.home.path()).unwrap();
            filesystem::current().create(NameIn { directory: &opened, name: ".change".as_ref() }).unwrap();
            Ok(())
        });
        entry.unwrap().undo().unwrap();
    })
}

/// A file that is moved to another directory has one of its names at every moment, and only the new one in the end.
fn what_is_moved(syncs: Syncs) -> Judged {
    let ground = Ground::new(Some(&old()), syncs);
    let (from, to) = (ground.target(), ground.at("elsewhere/target"));
    std::fs::create_dir(ground.at("elsewhere")).unwrap();
    let disk = ground.disk();
    disk.run(|| replace::move_to(&from, &to).unwrap());
    let judged = disk.each(|state| {
        let has = |path: &Path| state.held(path) != [None];
        match (has(&from), has(&to)) {
            (false, false) => Err(format!("it has no name in {state:?}")),
            (true, _) if state.is_end => Err("it may have its old name in the end".to_owned()),
            _ => Ok(()),
        }
    });
    (disk.syncs(), judged)
}

const NAMES: [&str; 3] = ["live", "pristine.partial", "pristine"];
const FILES: [&str; 2] = ["file", "other"];

/// A directory of two files in which each of them is in order, in all that it may hold.
fn is_whole(ground: &Ground, state: &testing::power::State, directory: &str) -> bool {
    let whole = |held: Option<&Content>| held.is_some_and(|content| *content.bytes == *b"precious");
    FILES.iter().all(|file| state.held(&ground.at(directory).join(file)).into_iter().all(whole))
}

fn is_there(ground: &Ground, state: &testing::power::State, directory: &str) -> bool {
    FILES.iter().any(|file| state.held(&ground.at(directory).join(file)) != [None])
}

/// A directory that a program changes: before it may, the copy is on the disk by its name.
fn a_directory_is_held(syncs: Syncs) -> (Ground, Judged, journal::Entry) {
    let ground = Ground::new(None, syncs);
    let [live, _, pristine] = NAMES.map(|name| ground.at(name));
    std::fs::create_dir(&live).unwrap();
    FILES.iter().for_each(|file| std::fs::write(live.join(file), "precious").unwrap());
    let disk = ground.disk();
    let entry = disk.run(|| journal::hold_directory(&pristine, &live).unwrap());
    let judged = disk.each(|state| {
        if !is_whole(&ground, state, "live") {
            return Err(format!("the directory itself was changed in {state:?}"));
        }
        // Half a copy under the name of a whole one would be put back.
        if is_there(&ground, state, "pristine") && !is_whole(&ground, state, "pristine") {
            return Err(format!("the copy was not on the disk in {state:?}"));
        }
        let is_begun = NAMES[1..].iter().any(|name| is_there(&ground, state, name));
        if is_begun && !is_listed(state, &pristine) {
            return Err(format!("no entry of the journal for the copy in {state:?}"));
        }
        match state.is_end && !is_whole(&ground, state, "pristine") {
            true => Err("the copy has no name that lasts when the program may begin".to_owned()),
            false => Ok(()),
        }
    });
    let judged = (disk.syncs(), judged);
    (ground, judged, entry)
}

/// The copy goes only when what was put back is on the disk; and it is there as a whole or not at all.
fn a_held_directory_goes_back(syncs: Syncs) -> Judged {
    let (ground, held, entry) = a_directory_is_held(Syncs::Kept);
    held.1.unwrap();
    let ground = Ground { syncs, ..ground };
    std::fs::write(ground.at("live/file"), "changed by the program").unwrap();
    let disk = ground.disk();
    disk.run(|| entry.undo().unwrap());
    for file in FILES {
        assert_eq!(std::fs::read(ground.at("live").join(file)).unwrap(), b"precious");
    }
    let judged = disk.each(|state| {
        if is_there(&ground, state, "pristine") && !is_whole(&ground, state, "pristine") {
            return Err(format!("the copy lost its content before its name in {state:?}"));
        }
        // The copy under the name of an unfinished one is removed and not put back.
        match is_whole(&ground, state, "live") || is_whole(&ground, state, "pristine") {
            true => Ok(()),
            false => Err(format!("what was put back was not on the disk in {state:?}")),
        }
    });
    (disk.syncs(), judged)
}

/// A directory of two files and one below takes its name: there is the earlier one, or the new one, as a whole.
fn a_directory_takes_its_name(earlier: Option<&'static [u8]>, syncs: Syncs) -> Judged {
    const INSIDE: [&str; 3] = ["file", "other", "below/file"];
    let ground = Ground::new(None, syncs);
    let (work, out) = (ground.at("work"), ground.at("out"));
    let fill = |directory: &Path, bytes: &[u8]| {
        std::fs::create_dir_all(directory.join("below")).unwrap();
        INSIDE.iter().for_each(|name| std::fs::write(directory.join(name), bytes).unwrap());
    };
    std::fs::create_dir(&work).unwrap();
    earlier.into_iter().for_each(|bytes| fill(&out, bytes));
    let disk = ground.disk();
    disk.run(|| {
        fill(&work.join("result"), b"new");
        replace::place_directory(&work.join("result"), &out).unwrap();
    });
    let whole = |state: &testing::power::State, bytes: Option<&[u8]>| {
        let is = |held: Option<&Content>| held.map(|content| &*content.bytes) == bytes;
        INSIDE.iter().all(|name| state.held(&out.join(name)).into_iter().all(is))
    };
    let judged = disk.each(|state| match (whole(state, earlier), whole(state, Some(b"new"))) {
        (_, true) => Ok(()),
        (true, false) if !state.is_end => Ok(()),
        _ => Err(format!("neither the earlier one nor the new one in {state:?}")),
    });
    (disk.syncs(), judged)
}

#[test]
fn after_a_power_cut_there_is_the_old_file_or_the_new_one() {
    for writer in [what_replaces, what_is_new, what_fails, a_link, what_is_guarded] {
        proven(10, &[], writer);
    }
    // The state directory is synced for the directory of the records, and again for the journal's before anything is
    // written.
    proven(10, &[1], a_record);
    // All of it lies in the state directory: without that, nothing comes back either.
    proven(10, &[0, 1], a_forgotten_record);
    proven(4, &[], what_is_moved);
    proven(4, &[], |syncs| a_directory_is_held(syncs).1);
    proven(4, &[], a_held_directory_goes_back);
    for earlier in [None, Some(&b"earlier"[..])] {
        proven(20, &[], |syncs| a_directory_takes_its_name(earlier, syncs));
    }
}
