//! A disk in memory for tests: it notes what is done to it, can be held, can fail, can be full; and what may be left of
//! it when the power fails.

use crate::disk::{About, Disk};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What was done to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Bytes of a file.
    Read {
        /// The file.
        name: String,
        /// From where.
        at: u64,
        /// How many were asked for.
        len: usize,
    },
    /// Bytes into a file.
    Write {
        /// The file.
        name: String,
        /// To where.
        at: u64,
        /// Which.
        bytes: Vec<u8>,
    },
    /// A file was synced.
    Sync(String),
    /// The directory was.
    Names,
    /// A file has another name.
    Rename(String, String),
    /// A file is gone.
    Unlink(String),
    /// A file was cut.
    Truncate(String, u64),
}

/// The state of the disk.
#[derive(Default)]
pub struct Inside {
    /// Names and bytes.
    pub files: HashMap<String, Vec<u8>>,
    /// What was done, in order.
    pub ops: Vec<Op>,
    /// Nothing returns while it is closed.
    pub closed: bool,
    /// Calls that wait at the closed gate, or did.
    pub held: usize,
    /// One waits now.
    pub waits: bool,
    /// Bytes that fit.
    pub space: Option<u64>,
    /// Reads are EIO.
    pub fail_reads: bool,
    /// Writes are EIO.
    pub fail_writes: bool,
    /// Syncs are EIO.
    pub fail_syncs: bool,
    /// The directory cannot be read.
    pub fail_list: bool,
    /// Another process has the lock.
    pub locked: bool,
    /// The gate closes before the next sync.
    pub stop_at_sync: bool,
    /// Reads are not noted otherwise.
    pub note_reads: bool,
    /// The gate closes behind a read of any file that is not this one, nor a snapshot.
    pub stop_after: Option<String>,
    /// The pages of files that are in memory, if it matters.
    pub cached: Option<BTreeSet<(String, u64)>>,
    /// Requests that the device had for the others.
    pub requests: usize,
    /// Numbers of files that were made; all others have the number 1.
    pub ids: HashMap<String, u64>,
    /// How many were.
    pub made: u64,
    /// Called once, by the next that reads what is in memory.
    pub meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

impl Inside {
    fn pages(&self, name: &str, at: u64, len: u64) -> std::ops::Range<u64> {
        let end = (at + len).min(self.files.get(name).map_or(0, |file| file.len() as u64));
        at / 4096..end.div_ceil(4096)
    }

    fn bring(&mut self, name: &str, at: u64, len: u64) {
        let pages = self.pages(name, at, len);
        let Some(cached) = &mut self.cached else { return };
        let mut there = true;
        for page in pages {
            let new = cached.insert((name.into(), page));
            self.requests += usize::from(new && there);
            there = !new;
        }
    }
}

/// The disk.
#[derive(Default)]
pub struct Memory {
    inside: Mutex<Inside>,
    gate: Condvar,
}

fn failed() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl Memory {
    /// One that holds these files.
    pub fn new(files: HashMap<String, Vec<u8>>) -> Arc<Memory> {
        Arc::new(Memory { inside: Mutex::new(Inside { files, ..Inside::default() }), gate: Condvar::new() })
    }

    /// What it holds, to look at and to change.
    pub fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on no call returns.
    pub fn close_gate(&self) {
        self.lock().closed = true;
    }

    /// All calls go on.
    pub fn open_gate(&self) {
        self.lock().closed = false;
        self.gate.notify_all();
    }

    /// Returns when a call stands at the gate.
    pub fn wait_held(&self) {
        let mut inside = self.lock();
        while inside.held == 0 {
            inside = self.gate.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns when a call stands at the gate that was closed last.
    pub fn wait_closed(&self) {
        let mut inside = self.lock();
        while !(inside.closed && inside.waits) {
            inside = self.gate.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pass(&self) -> MutexGuard<'_, Inside> {
        let mut inside = self.lock();
        while inside.closed {
            (inside.held, inside.waits) = (inside.held + 1, true);
            self.gate.notify_all();
            inside = self.gate.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.waits = false;
        inside
    }

    /// How much was done to it.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.lock().ops.len()
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.lock().files.values().map(|file| file.len() as u64).sum()
    }
}

impl Disk for Memory {
    fn lock(&self) -> io::Result<bool> {
        Ok(!self.pass().locked)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let inside = self.pass();
        if inside.fail_list {
            return Err(failed());
        }
        Ok(inside.files.iter().map(|(name, file)| (name.clone(), file.len() as u64)).collect())
    }

    fn read(&self, name: &str, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inside = self.pass();
        if inside.note_reads {
            inside.ops.push(Op::Read { name: name.into(), at, len: buffer.len() });
        }
        if inside.fail_reads {
            return Err(failed());
        }
        if inside.stop_after.as_ref().is_some_and(|newest| name != newest && name != "index" && at > 0) {
            (inside.stop_after, inside.closed) = (None, true);
        }
        inside.bring(name, at, buffer.len() as u64);
        let file = inside.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let from = file.get((at as usize).min(file.len())..).unwrap();
        let len = from.len().min(buffer.len());
        buffer[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn read_resident(&self, name: &str, at: u64, buffer: &mut [u8]) -> bool {
        let meanwhile = self.lock().meanwhile.take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let inside = self.lock();
        let (Some(cached), Some(file)) = (&inside.cached, inside.files.get(name)) else { return false };
        if !inside.pages(name, at, buffer.len() as u64).all(|page| cached.contains(&(name.into(), page))) {
            return false;
        }
        let Some(from) = file.get(at as usize..at as usize + buffer.len()) else { return false };
        buffer.copy_from_slice(from);
        true
    }

    fn will_need(&self, name: &str, at: u64, len: u64) {
        self.pass().bring(name, at, len);
    }

    fn write(&self, name: &str, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut inside = self.pass();
        if inside.fail_writes {
            return Err(failed());
        }
        let bytes = parts.concat();
        let end = at as usize + bytes.len();
        let used: u64 = inside.files.values().map(|file| file.len() as u64).sum();
        let have = inside.files.get(name).map_or(0, Vec::len);
        if inside.space.is_some_and(|space| used + end.saturating_sub(have) as u64 > space) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !inside.files.contains_key(name) {
            inside.made += 1;
            let id = inside.made + 1;
            inside.ids.insert(name.into(), id);
        }
        let file = inside.files.entry(name.into()).or_default();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at as usize..end].copy_from_slice(&bytes);
        inside.ops.push(Op::Write { name: name.into(), at, bytes });
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        {
            let mut inside = self.lock();
            inside.closed |= std::mem::take(&mut inside.stop_at_sync);
        }
        let mut inside = self.pass();
        if inside.fail_syncs {
            return Err(failed());
        }
        inside.ops.push(Op::Sync(name.into()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut inside = self.pass();
        if inside.fail_syncs {
            return Err(failed());
        }
        inside.ops.push(Op::Names);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inside = self.pass();
        let file = inside.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inside.files.insert(to.into(), file);
        let id = inside.ids.remove(from).unwrap_or(1);
        inside.ids.insert(to.into(), id);
        inside.ops.push(Op::Rename(from.into(), to.into()));
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let mut inside = self.pass();
        inside.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
        inside.ops.push(Op::Unlink(name.into()));
        Ok(())
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let mut inside = self.pass();
        inside.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?.resize(len as usize, 0);
        inside.ops.push(Op::Truncate(name.into(), len));
        Ok(())
    }

    fn about(&self, name: &str) -> io::Result<Option<About>> {
        let inside = self.pass();
        let id = inside.ids.get(name).copied().unwrap_or(1);
        Ok(inside.files.get(name).map(|file| About { id, len: file.len() as u64 }))
    }
}

/// Numbers that only look random.
pub struct Random(pub u64);

impl Random {
    /// The next one, less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// A file with what of it was not synced.
#[derive(Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    unsynced: Vec<Op>,
}

fn change(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write { at, bytes: new, .. } => {
            let end = *at as usize + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at as usize..end].copy_from_slice(new);
        }
        Op::Truncate(_, len) => bytes.resize(*len as usize, 0),
        _ => {}
    }
}

enum Naming {
    Make(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

/// A disk on which operations have been done: what is on its medium, and what may be.
#[derive(Default)]
pub struct Medium {
    inodes: Vec<Inode>,
    names: HashMap<String, usize>,
    durable: HashMap<String, usize>,
    unsynced: Vec<Naming>,
}

impl Medium {
    /// One that holds these files.
    pub fn of(files: &HashMap<String, Vec<u8>>) -> Medium {
        let mut medium = Medium::default();
        for (name, bytes) in files {
            medium.durable.insert(name.clone(), medium.inodes.len());
            medium.inodes.push(Inode { bytes: bytes.clone(), unsynced: Vec::new() });
        }
        medium.names = medium.durable.clone();
        medium
    }

    /// Does it.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Read { .. } => {}
            Op::Write { name, .. } | Op::Truncate(name, _) => {
                let inode = *self.names.entry(name.clone()).or_insert_with(|| {
                    self.inodes.push(Inode::default());
                    self.unsynced.push(Naming::Make(name.clone(), self.inodes.len() - 1));
                    self.inodes.len() - 1
                });
                self.inodes[inode].unsynced.push(op.clone());
            }
            Op::Sync(name) => {
                let inode = &mut self.inodes[self.names[name]];
                for op in std::mem::take(&mut inode.unsynced) {
                    change(&mut inode.bytes, &op);
                }
            }
            Op::Names => {
                self.durable = self.names.clone();
                self.unsynced.clear();
            }
            Op::Rename(from, to) => {
                let inode = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), inode);
                self.unsynced.push(Naming::Rename(from.clone(), to.clone(), inode));
            }
            Op::Unlink(name) => {
                self.names.remove(name).unwrap();
                self.unsynced.push(Naming::Unlink(name.clone()));
            }
        }
    }

    /// All is there: the process died, the machine did not.
    pub fn all(&self) -> HashMap<String, Vec<u8>> {
        self.left(&mut |_| true, &mut |_| None)
    }

    /// Nothing is there but what was synced.
    pub fn none(&self) -> HashMap<String, Vec<u8>> {
        self.left(&mut |()| false, &mut |_| None)
    }

    /// What was not synced is there, or is not, or half of it is.
    pub fn some(&self, random: &mut Random) -> HashMap<String, Vec<u8>> {
        let likely = 1 + random.below(9);
        let mut other = Random(random.below(u64::MAX) | 1);
        self.left(&mut |_| random.below(10) < likely, &mut |len| {
            (other.below(4) == 0).then(|| other.below(len as u64 + 1) as usize)
        })
    }

    fn left(
        &self,
        keep: &mut dyn FnMut(()) -> bool,
        cut: &mut dyn FnMut(usize) -> Option<usize>,
    ) -> HashMap<String, Vec<u8>> {
        let mut names = self.durable.clone();
        for naming in &self.unsynced {
            if !keep(()) {
                continue;
            }
            match naming {
                Naming::Make(name, inode) => drop(names.insert(name.clone(), *inode)),
                Naming::Unlink(name) => drop(names.remove(name)),
                Naming::Rename(from, to, inode) => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
        }
        let mut files = HashMap::new();
        for (name, inode) in names {
            let inode = &self.inodes[inode];
            let mut bytes = inode.bytes.clone();
            for op in &inode.unsynced {
                if !keep(()) {
                    continue;
                }
                let mut op = op.clone();
                if let Op::Write { bytes, .. } = &mut op
                    && let Some(len) = cut(bytes.len())
                {
                    // The length is on the medium, the rest is not.
                    bytes[len..].fill(0);
                }
                change(&mut bytes, &op);
            }
            files.insert(name, bytes);
        }
        files
    }
}
