//! Power cuts and kills at every moment: only what is younger than the last commit may be missing, and no byte is
//! wrong.

mod common;

use common::{Medium, Memory, Op, Random, body, key, open, open_with, plain};
use std::collections::HashMap;
use std::sync::Arc;
use thaw_entrystore::{Blocking, Clear, Options, Put};

/// What a key held: nothing, or metadata and body of a version.
type Held = Option<(u64, u64, usize)>;

/// What became of a key: `from` is the length of the disk's list when it was asked for, `to` when it was done.
struct Step {
    key: u64,
    from: usize,
    to: usize,
    held: Held,
}

struct Story {
    disk: Arc<Memory>,
    store: Blocking,
    steps: Vec<Step>,
    /// Commits: how many steps they hold, and the length of the list when they were done.
    commits: Vec<(usize, usize)>,
    now: HashMap<u64, Held>,
    keys: u64,
    /// What the disk held at first.
    first: HashMap<String, Vec<u8>>,
}

impl Story {
    fn new(keys: u64, set: impl FnOnce(&mut Options)) -> Story {
        Story::on(HashMap::new(), keys, set)
    }

    /// Goes on where another one ended: what is there now is committed.
    fn on(first: HashMap<String, Vec<u8>>, keys: u64, set: impl FnOnce(&mut Options)) -> Story {
        let disk = Memory::new(first.clone());
        let store = open_with(&disk, set);
        let (steps, now) = (Vec::new(), HashMap::new());
        let mut story = Story { disk, store, steps, commits: vec![(0, 0)], now, keys, first };
        for key in 0..keys {
            let held = Story::read(&mut story.store, key);
            story.now.insert(key, held);
            story.steps.push(Step { key, from: 0, to: 0, held });
        }
        story.commits.push((keys as usize, 0));
        story
    }

    fn step(&mut self, key: u64, held: Held, work: impl FnOnce(&mut Blocking) -> bool) {
        let from = self.disk.len();
        if work(&mut self.store) {
            self.steps.push(Step { key, from, to: self.disk.len(), held });
            self.now.insert(key, held);
        }
    }

    fn put(&mut self, number: u64, version: u64, len: usize) {
        let put = Put { meta: version.to_string().into(), ..Put::default() };
        self.step(number, Some((version, version, len)), |store| {
            store.put(&key(number), put, body(number, version, len))
        });
    }

    fn meta(&mut self, number: u64, meta: u64) {
        let Some(Some((_, version, len))) = self.now.get(&number).copied() else { return };
        self.step(number, Some((meta, version, len)), |store| store.update_meta(&key(number), meta.to_string().into()));
    }

    fn remove(&mut self, number: u64) {
        self.step(number, None, |store| store.remove(&key(number)));
    }

    fn flush(&mut self) {
        let steps = self.steps.len();
        assert!(self.store.flush());
        self.commits.push((steps, self.disk.len()));
    }

    /// Puts, overwrites, updates and removals at random, with commits between them.
    fn tell(&mut self, steps: u64, random: &mut Random, largest: usize) {
        for version in 0..steps {
            let number = random.below(self.keys);
            match random.below(12) {
                0 => self.remove(number),
                1 | 2 => self.meta(number, 1_000_000 + version),
                3 => self.flush(),
                4 => self.put(number, version, largest),
                _ => self.put(number, version, 20 + random.below(3000) as usize),
            }
        }
    }

    fn read(store: &mut Blocking, number: u64) -> Held {
        let (meta, bytes) = store.get(&key(number))?;
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(bytes, body(number, version, bytes.len()), "a wrong byte");
        Some((std::str::from_utf8(&meta).unwrap().parse().unwrap(), version, bytes.len()))
    }

    /// Compares a store with what may be in it when the first `at` operations were done. `evicts`: anything may be
    /// gone.
    fn check(&self, files: HashMap<String, Vec<u8>>, at: usize, killed: bool, evicts: bool) {
        let mut store = open(&Memory::new(files));
        for number in 0..self.keys {
            let held = Story::read(&mut store, number);
            let mine: Vec<&Step> = self.steps.iter().filter(|step| step.key == number).collect();
            let begun = mine.iter().take_while(|step| step.from <= at).count();
            let steps = self.commits.iter().rfind(|commit| commit.1 <= at).map_or(0, |commit| commit.0);
            let committed = self.steps[..steps].iter().filter(|step| step.key == number).count();
            let acknowledged = mine.iter().take_while(|step| step.to <= at).count();
            let sure = if killed { acknowledged } else { committed };
            let last = sure.checked_sub(1).map(|last| mine[last].held);
            let mut may: Vec<Held> = mine[sure.min(begun)..begun].iter().map(|step| step.held).collect();
            may.push(last.flatten());
            if evicts || !killed && begun > sure {
                may.push(None);
            }
            assert!(may.contains(&held), "{number} is {held:?} at {at}, killed: {killed}; may be {may:?}");
        }
    }

    /// Every prefix of what was done, as a kill leaves it and as a power cut may.
    fn cut(&self, random: &mut Random, subsets: usize, evicts: bool) {
        let ops: Vec<Op> = self.disk.lock().ops.clone();
        let mut medium = Medium::of(&self.first);
        for at in 0..=ops.len() {
            self.check(medium.all(), at, true, evicts);
            for _ in 0..subsets {
                self.check(medium.some(random), at, false, evicts);
            }
            if let Some(op) = ops.get(at) {
                medium.apply(op);
            }
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_only_what_no_commit_holds() {
    let mut random = Random(11);
    for snapshot in [std::time::Duration::ZERO, std::time::Duration::from_secs(100_000)] {
        let mut story = Story::new(12, |options| options.snapshot = snapshot);
        story.tell(120, &mut random, 5000);
        story.flush();
        story.cut(&mut random, 12, false);
    }
}

#[test]
fn a_power_cut_while_segments_are_sealed_and_large_bodies_written() {
    let mut random = Random(5);
    let mut story = Story::new(6, |options| {
        options.segment = 32 << 10;
        options.snapshot = std::time::Duration::ZERO;
    });
    for version in 0..40 {
        story.put(version % 5, version, 3500);
        if version % 4 == 1 {
            story.put(5, 100 + version, 5000);
            story.meta(5, 100 + version);
        }
        if version % 5 == 3 {
            story.flush();
        }
    }
    story.flush();
    story.cut(&mut random, 12, false);
}

#[test]
fn a_power_cut_while_it_evicts_brings_nothing_old_back() {
    let mut random = Random(3);
    for snapshot in [std::time::Duration::ZERO, std::time::Duration::from_secs(100_000)] {
        let mut story = Story::new(40, |options| {
            (options.budget, options.segment, options.snapshot) = (100 << 10, 32 << 10, snapshot);
        });
        for version in 0..120 {
            story.put(random.below(40), version, 500 + random.below(4200) as usize);
            for _ in 0..2 {
                Story::read(&mut story.store, 3);
            }
            match random.below(8) {
                0 => story.remove(random.below(40)),
                1 => story.meta(random.below(40), version),
                2 => story.flush(),
                _ => {}
            }
        }
        story.flush();
        assert!(story.store.store().stats().counts.evicted > 0);
        let unlinked = |op: &Op| matches!(op, Op::Unlink(name) if name.ends_with(".seg"));
        assert!(story.disk.lock().ops.iter().filter(|op| unlinked(op)).count() > 3);
        story.cut(&mut random, 2, true);
    }
}

#[test]
fn power_cut_after_power_cut_it_goes_on() {
    let mut random = Random(21);
    let mut files = HashMap::new();
    for round in 0..12 {
        let mut story = Story::on(files, 10, |options| {
            options.segment = 16 << 10;
            options.snapshot = std::time::Duration::from_secs(if round % 2 == 0 { 0 } else { 100_000 });
        });
        story.tell(40, &mut random, 5000);
        let ops: Vec<Op> = story.disk.lock().ops.clone();
        let mut medium = Medium::of(&story.first);
        let upto = random.below(ops.len() as u64) as usize;
        ops[..upto].iter().for_each(|op| medium.apply(op));
        files = medium.some(&mut random);
        story.check(files.clone(), upto, false, false);
        story.cut(&mut random, 1, false);
    }
}

#[test]
fn a_kill_while_the_disk_is_full_brings_nothing_old_back() {
    let mut random = Random(4);
    let mut story = Story::new(30, |options| options.segment = 16 << 10);
    story.disk.lock().space = Some(60 << 10);
    for version in 0..250 {
        story.put(random.below(30), version, 1500);
        // Some are used more: the oldest is not what would go otherwise.
        for _ in 0..3 {
            let number = random.below(8) * random.below(5);
            Story::read(&mut story.store, number);
        }
    }
    let stats = story.store.store().stats();
    assert!(stats.counts.evicted > 50 && stats.entries > 10, "{stats:?}");
    story.cut(&mut random, 0, true);
}

#[test]
fn what_was_evicted_does_not_come_back_as_what_it_was_before() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| (options.segment, options.budget) = (64 << 10, 512 << 10));
    store.put(&key(0), plain(), body(0, 1, 500));
    // The first segment stays, with the old one in it.
    for number in 1..16 {
        store.put(&key(number), Put { pinned: true, ..plain() }, body(number, 1, 4000));
    }
    store.put(&key(0), plain(), body(0, 2, 4000));
    // All of these are used more than that one.
    for number in 100..600 {
        store.put(&key(number), plain(), body(number, 1, 4000));
        for _ in 0..4 {
            store.get(&key(number));
        }
    }
    assert_eq!(store.get(&key(0)), None);
    let files = disk.lock().files.clone();
    assert!(files.contains_key("00000001.seg") && !files.contains_key("00000002.seg"));
    let mut store = open(&Memory::new(files));
    assert_eq!(store.get(&key(0)), None);
    assert_eq!(store.get(&key(1)).unwrap().1, body(1, 1, 4000));
}

#[test]
fn what_was_cleared_stays_cleared() {
    let mut random = Random(9);
    for clear in [Clear::All, Clear::Partition(b"https://site.example".to_vec())] {
        let mut story = Story::new(10, |options| options.segment = 16 << 10);
        story.tell(40, &mut random, 5000);
        story.flush();
        let before = story.disk.len();
        assert!(story.store.clear(clear));
        let (steps, after) = (story.steps.len(), story.disk.len());
        for number in 0..10 {
            story.steps.push(common_step(number, before, after));
        }
        story.commits.push((steps + 10, after));
        story.tell(20, &mut random, 5000);
        story.flush();
        story.cut(&mut random, 8, false);
    }
}

fn common_step(key: u64, from: usize, to: usize) -> Step {
    Step { key, from, to, held: None }
}

#[test]
fn what_a_killed_process_had_not_synced_the_next_one_syncs() {
    let disk = Memory::new(HashMap::new());
    let now = std::time::Duration::ZERO;
    let mut store = open_with(&disk, |options| (options.snapshot, options.commit) = (now, now));
    // The commit stands at its sync; what comes now is written after that, and the commit's snapshot knows it.
    disk.lock().stop_at_sync = true;
    assert!(store.put(&key(1), plain(), body(1, 1, 500)));
    disk.wait_held();
    disk.lock().stop_at_sync = true;
    let put = |number| store.store().put(&key(number), plain(), body(number, 1, 3000));
    let tickets: Vec<_> = (2..20).map(put).collect();
    disk.open_gate();
    assert!(tickets.into_iter().all(|ticket| store.done(ticket)));
    // It has come to the sync of its snapshot, and one more: that of the next commit.
    for _ in 0..2 {
        disk.wait_closed();
        disk.lock().stop_at_sync = true;
        if disk.lock().files.contains_key("index") {
            break;
        }
        disk.open_gate();
    }
    let mut ops = disk.lock().ops.clone();
    let killed = disk.lock().files.clone();
    let (last, disk) = (disk, Memory::new(killed.clone()));
    let mut store = open(&disk);
    assert!(store.flush());
    ops.extend(disk.lock().ops.iter().cloned());
    let mut medium = Medium::of(&HashMap::new());
    ops.iter().for_each(|op| medium.apply(op));
    let mut store = open(&Memory::new(medium.none()));
    let there = (1..20).filter(|number| store.get(&key(*number)).is_some_and(|(_, bytes)| bytes[0] == 1)).count();
    last.lock().stop_at_sync = false;
    last.open_gate();
    assert!(killed.contains_key("index"), "{:?}", killed.keys());
    assert_eq!(there, 19);
}

#[test]
fn a_power_cut_while_it_evicts_what_an_earlier_process_left_brings_nothing_old_back() {
    let mut random = Random(8);
    let set = |options: &mut Options| {
        (options.budget, options.segment, options.snapshot) = (100 << 10, 32 << 10, std::time::Duration::ZERO);
    };
    let mut files = HashMap::new();
    for round in 0..4 {
        let mut story = Story::on(files, 40, set);
        for version in 0..50 {
            story.put(random.below(40), 1000 * round + version, 500 + random.below(4200) as usize);
            Story::read(&mut story.store, 3);
            match random.below(8) {
                0 => story.remove(random.below(40)),
                1 => story.meta(random.below(40), version),
                2 => story.flush(),
                _ => {}
            }
        }
        story.flush();
        assert!(round == 0 || story.store.store().stats().counts.evicted > 0);
        story.cut(&mut random, 2, true);
        // Killed: a segment is not sealed.
        files = story.disk.lock().files.clone();
    }
}

#[test]
fn a_torn_record_is_ignored_wherever_it_is_torn() {
    let disk = Memory::new(HashMap::new());
    let mut store = open(&disk);
    store.put(&key(1), plain(), body(1, 1, 500));
    let first = disk.lock().files["00000001.seg"].len();
    store.put(&key(1), plain(), body(1, 2, 300));
    let files = disk.lock().files.clone();
    for len in first..files["00000001.seg"].len() {
        let mut files = files.clone();
        files.get_mut("00000001.seg").unwrap().truncate(len);
        let mut store = open(&Memory::new(files));
        assert_eq!(store.get(&key(1)).unwrap().1, body(1, 1, 500));
        assert!(store.put(&key(3), plain(), "new".into()) && store.get(&key(3)).is_some());
    }
}

#[test]
fn a_footer_is_written_after_its_segment_was_synced_and_names_come_after_that() {
    let disk = Memory::new(HashMap::new());
    let mut store = open_with(&disk, |options| options.snapshot = std::time::Duration::ZERO);
    for number in 0..30 {
        store.put(&key(number), plain(), body(number, 1, 500_000));
        if number % 7 == 0 {
            store.flush();
        }
    }
    store.flush();
    let ops = disk.lock().ops.clone();
    let mut footers = 0;
    let (mut dirty, mut index_synced) = (std::collections::HashSet::new(), false);
    for op in &ops {
        match op {
            Op::Write { name, bytes, .. } if bytes.len() > 24 && bytes[bytes.len() - 24..].starts_with(b"TFTR") => {
                assert!(!dirty.contains(name), "{name} has its footer before its data is synced");
                footers += 1;
                dirty.insert(name.clone());
            }
            Op::Write { name, .. } => {
                index_synced &= name != "index.new";
                dirty.insert(name.clone());
            }
            Op::Sync(name) => {
                index_synced |= name == "index.new";
                dirty.remove(name);
            }
            Op::Rename(..) => assert!(index_synced),
            _ => {}
        }
    }
    assert!(footers >= 1);
}
