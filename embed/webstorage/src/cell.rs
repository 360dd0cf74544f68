//! What an area has in memory: callers change it, the I/O thread takes the changes away. Nothing here knows a disk.

use crate::error::Error;
use crate::map::{Bytes, Map};
use crate::pending::{Op, Pending};
use crate::place::Place;
use crate::record::{Change, LONGEST, size};
use crate::text::cost;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A change that somebody else made, with what was there before.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed {
    /// The key.
    pub key: Bytes,
    /// What it had.
    pub old: Option<Bytes>,
    /// What it has.
    pub new: Option<Bytes>,
}

/// Whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits to be read, by this job.
    Waits(u64),
    /// It is in memory.
    Ready,
    /// It cannot be read now.
    Failed(String),
    /// No change is taken any more.
    Closed,
}

/// What is in memory.
pub struct State {
    /// Whether it can be used.
    pub stage: Stage,
    /// The content.
    pub map: Map<Bytes>,
    /// What the file does not have.
    pub pending: Pending,
    /// Bytes by the rule of quotas.
    pub used: u64,
    /// Bytes that all of it takes in a file.
    pub live: u64,
    /// The I/O thread knows that something is pending, or nobody has to.
    pub told: bool,
}

/// An area.
pub struct Cell {
    /// Whose it is.
    pub place: Arc<Place>,
    /// Its number.
    pub id: u64,
    /// Bytes that may be used.
    pub quota: u64,
    /// Who holds it.
    pub handles: AtomicUsize,
    /// It is in memory alone.
    pub volatile: bool,
    /// Bytes of changes that the I/O thread has taken and not written yet.
    #[cfg(feature = "memreport")]
    pub taken: std::sync::atomic::AtomicU64,
    state: Mutex<State>,
    ready: Condvar,
}

impl Cell {
    /// An empty one.
    pub fn new(place: Arc<Place>, id: u64, quota: u64, volatile: bool) -> Cell {
        let stage = if volatile { Stage::Ready } else { Stage::Waits(0) };
        let (map, pending) = (Map::default(), Pending::default());
        let state = Mutex::new(State { stage, map, pending, used: 0, live: 0, told: volatile });
        Cell {
            place,
            id,
            quota,
            handles: AtomicUsize::new(1),
            volatile,
            #[cfg(feature = "memreport")]
            taken: Default::default(),
            state,
            ready: Condvar::new(),
        }
    }

    /// Its content.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its content, if it is there.
    ///
    /// # Errors
    /// It is not.
    pub fn ready(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock();
        match &state.stage {
            Stage::Ready => Ok(state),
            stage => Err(self.refusal(stage)),
        }
    }

    fn refusal(&self, stage: &Stage) -> Error {
        match stage {
            Stage::Failed(why) => Error::Unreadable(self.place.clone(), why.clone()),
            Stage::Closed => Error::Closed(self.place.clone()),
            Stage::Waits(_) | Stage::Ready => Error::NotLoaded(self.place.clone()),
        }
    }

    /// It is in memory now, with this content; who waits for it is told.
    pub fn fill(&self, map: Map<Bytes>) {
        let sums = map.iter().map(|(key, value)| (cost(key) + cost(value), size(key, value)));
        let (used, live) = sums.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let mut state = self.lock();
        (state.map, state.used, state.live, state.stage) = (map, used, live, Stage::Ready);
        drop(state);
        self.ready.notify_all();
    }

    /// Another stage; who waits for one is told.
    pub fn enter(&self, stage: Stage) {
        self.lock().stage = stage;
        self.ready.notify_all();
    }

    /// Waits until it was read, or could not be.
    ///
    /// # Errors
    /// It could not be, or the storage is closed.
    pub fn wait(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            match &state.stage {
                Stage::Ready => return Ok(()),
                Stage::Waits(_) => state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner),
                stage => return Err(self.refusal(stage)),
            }
        }
    }

    /// Gives a key a value. `true`: the I/O thread has to be told.
    ///
    /// # Errors
    /// It is not loaded, the quota, a length.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        if key.len() > LONGEST || value.len() > LONGEST {
            return Err(Error::TooLong(self.place.clone()));
        }
        let new: Bytes = value.into();
        let mut state = self.ready()?;
        let State { map, pending, used, live, .. } = &mut *state;
        let old;
        if let Some((key, held)) = map.entry_mut(key) {
            if **held == *new {
                return Ok(false);
            }
            let wanted = *used - cost(held) + cost(&new);
            self.allow(*used, wanted)?;
            (*used, *live) = (wanted, *live - held.len() as u64 + new.len() as u64);
            old = Some(std::mem::replace(held, new.clone()));
            if !self.volatile {
                pending.set(key, new, false);
            }
        } else {
            let wanted = *used + cost(key) + cost(&new);
            self.allow(*used, wanted)?;
            (*used, *live, old) = (wanted, *live + size(key, &new), None);
            let key: Bytes = key.into();
            map.set(&key, new.clone());
            if !self.volatile {
                pending.set(&key, new, true);
            }
        }
        let tell = !std::mem::replace(&mut state.told, true);
        // Nobody waits while the old value is let go.
        drop(state);
        drop(old);
        Ok(tell)
    }

    fn allow(&self, used: u64, wanted: u64) -> Result<(), Error> {
        if wanted > self.quota && wanted > used {
            return Err(Error::Quota { place: self.place.clone(), used, limit: self.quota, wanted });
        }
        Ok(())
    }

    /// Removes a key. `true`: the I/O thread has to be told.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        let mut state = self.ready()?;
        let Some(old) = state.take(key) else { return Ok(false) };
        if !self.volatile {
            state.pending.remove(&old.0);
        }
        let tell = !std::mem::replace(&mut state.told, true);
        drop(state);
        drop(old);
        Ok(tell)
    }

    /// Removes all keys. What was there is returned, to be let go of elsewhere; `true`: the I/O thread has to be told.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn clear(&self) -> Result<(bool, Map<Bytes>, Pending), Error> {
        let mut state = self.ready()?;
        if state.map.is_empty() {
            return Ok((false, Map::default(), Pending::default()));
        }
        let map = std::mem::take(&mut state.map);
        (state.used, state.live) = (0, 0);
        let pending = if self.volatile { Pending::default() } else { state.pending.clear() };
        let tell = !std::mem::replace(&mut state.told, true);
        Ok((tell, map, pending))
    }
}

impl State {
    /// Gives a key a value, whatever the quota says.
    pub fn put(&mut self, key: &[u8], value: Bytes) -> Option<Bytes> {
        (self.used, self.live) = (self.used + cost(&value), self.live + value.len() as u64);
        if let Some(held) = self.map.get_mut(key) {
            (self.used, self.live) = (self.used - cost(held), self.live - held.len() as u64);
            return Some(std::mem::replace(held, value));
        }
        (self.used, self.live) = (self.used + cost(key), self.live + size(key, &[]));
        self.map.set(&key.into(), value)
    }

    /// Takes a key out.
    pub fn take(&mut self, key: &[u8]) -> Option<(Bytes, Bytes)> {
        let (key, old) = self.map.remove(key)?;
        (self.used, self.live) = (self.used - cost(&key) - cost(&old), self.live - size(&key, &old));
        Some((key, old))
    }

    /// Takes over a change that somebody else has put into the file, unless the key has changes of ours (here or
    /// `inflight`): these will be later in the file, and win there too. [`State::settle`] has to follow.
    pub fn take_over(&mut self, inflight: &mut Pending, change: Change<'_>, changed: &mut Vec<Changed>) {
        if self.pending.cleared || inflight.cleared {
            return;
        }
        match change {
            Change::Clear => {
                let all = std::mem::take(&mut self.map);
                (self.used, self.live) = (0, 0);
                for (key, old) in all {
                    match own(inflight, &mut self.pending, &key) {
                        Some(op) => {
                            gone(op);
                            drop(self.put(&key, old));
                        }
                        None => changed.push(Changed { key, old: Some(old), new: None }),
                    }
                }
            }
            Change::Set(key, value) => match own(inflight, &mut self.pending, key) {
                Some(op) => op.based = true,
                None => self.change(key, value, changed),
            },
            Change::Anew(key, value) => match own(inflight, &mut self.pending, key) {
                Some(op) => {
                    gone(op);
                    op.based = true;
                }
                None => {
                    self.change(key, value, changed);
                    self.map.move_to_end(key);
                }
            },
            Change::Remove(key) => match own(inflight, &mut self.pending, key) {
                Some(op) => gone(op),
                None => {
                    let taken = self.take(key);
                    changed.extend(taken.map(|(key, old)| Changed { key, old: Some(old), new: None }));
                }
            },
        }
    }

    fn change(&mut self, key: &[u8], value: &[u8], changed: &mut Vec<Changed>) {
        if self.map.get(key).is_some_and(|held| **held == *value) {
            return;
        }
        let new: Bytes = value.into();
        let old = self.put(key, new.clone());
        changed.push(Changed { key: key.into(), old, new: Some(new) });
    }

    /// Keys of ours that are new in the file come behind those that somebody else has put there.
    pub fn settle(&mut self, inflight: &Pending) {
        for pending in [inflight, &self.pending] {
            for (key, op) in pending.ops.iter() {
                if op.fresh && op.value.is_some() {
                    self.map.move_to_end(key);
                }
            }
        }
    }

    /// A key has changes of ours.
    pub fn is_own(&self, inflight: &Pending, key: &[u8]) -> bool {
        inflight.ops.contains(key) || self.pending.ops.contains(key)
    }
}

fn own<'a>(inflight: &'a mut Pending, pending: &'a mut Pending, key: &[u8]) -> Option<&'a mut Op> {
    inflight.ops.get_mut(key).or_else(|| pending.ops.get_mut(key))
}

/// The file has its key no more, or elsewhere.
fn gone(op: &mut Op) {
    op.based = false;
    op.fresh = op.value.is_some();
}
