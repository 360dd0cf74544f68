//! The I/O thread: takes the next job, does one step of it, and hands over what came of it. It holds no lock while the
//! disk works.

use crate::commit::Chore;
use crate::evict::{self, Evict};
use crate::key::Key;
use crate::log::{Log, Stage};
use crate::options::Options;
use crate::reading::Readers;
use crate::recover::{self, Rebuild};
use crate::shared::{Clear, Event, Job, Phase, Shared};
use crate::walk::Walk;
use crate::writing::Writers;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use thaw_log::queue::Level;

/// The job that does the next step of the commit.
const CHORE: u64 = 1;
/// The job that does the next step of eviction.
const EVICT: u64 = 2;

/// While it has work, it makes the descriptor readable at most this often: a caller is not woken for each of many
/// entries. What an urgent read found is told at once, and all before it waits.
const TOLD: Duration = Duration::from_micros(50);

/// What is next.
enum Turn {
    Job(Level, u64),
    Rebuild,
    Commit,
    Close,
}

pub(crate) struct Engine {
    log: Log,
    shared: Arc<Shared>,
    options: Options,
    rebuild: Option<Rebuild>,
    readers: Readers,
    writers: Writers,
    walks: HashMap<u64, Walk>,
    chores: VecDeque<Chore>,
    evict: Option<Evict>,
    /// Who waits for the next commit.
    waiting: Vec<u64>,
    /// When it is due.
    due: Option<Instant>,
    snapshot: Instant,
    want_snapshot: bool,
    /// A commit to free space was tried since the last write.
    tried: bool,
    /// Bytes of files when nothing could be evicted.
    stuck: Option<u64>,
    /// When it last made the descriptor readable.
    told: Instant,
    /// What it did last was urgent.
    urgent: bool,
}

/// The thread.
pub(crate) fn run(shared: &Arc<Shared>, options: &Options) {
    let mut log = Log::new(options.disk.clone(), shared.clone(), options.segment.into());
    let rebuild = match log.disk.lock() {
        Ok(true) => recover::start(&mut log).ok(),
        _ => None,
    };
    let Some(rebuild) = rebuild else { return end(shared) };
    shared.lock().seed = log.seed;
    let mut engine = Engine {
        log,
        shared: shared.clone(),
        options: options.clone(),
        rebuild: Some(rebuild),
        readers: Readers::default(),
        writers: Writers::default(),
        walks: HashMap::new(),
        chores: VecDeque::new(),
        evict: None,
        waiting: Vec::new(),
        due: None,
        snapshot: Instant::now(),
        want_snapshot: false,
        tried: false,
        stuck: None,
        told: Instant::now(),
        urgent: false,
    };
    while engine.turn() {}
    let good = !(engine.log.failed || engine.log.torn || engine.log.changed) && engine.log.owed.is_empty();
    let mut state = shared.lock();
    for id in std::mem::take(&mut state.closers) {
        shared.tell(&mut state, id, Event::Done(good));
    }
    drop(state);
    end(shared);
}

/// From now on every read is a miss and every change is dropped.
fn end(shared: &Shared) {
    let mut state = shared.lock();
    state.phase = Phase::Dead;
    for id in std::mem::take(&mut state.closers) {
        shared.tell(&mut state, id, Event::Done(false));
    }
    state.pool.retain(|_| false);
    let mut waiting: Vec<u64> = state.parked.drain(..).map(|(_, id)| id).collect();
    waiting.extend(state.reads.keys().chain(state.jobs.keys()).chain(state.streams.keys()).copied());
    waiting.into_iter().for_each(|id| shared.refuse(&mut state, id));
    shared.signal(&mut state);
}

impl Engine {
    fn turn(&mut self) -> bool {
        match self.next() {
            Turn::Job(level, id) => self.job(level, id),
            Turn::Rebuild => self.look_around(),
            Turn::Commit => self.commit(),
            Turn::Close => {
                self.close();
                return false;
            }
        }
        true
    }

    fn next(&mut self) -> Turn {
        let mut state = self.shared.lock();
        loop {
            if !state.touched.is_empty() {
                let touched = std::mem::take(&mut state.touched);
                let worth = crate::index::worth(crate::log::now());
                let mut index = self.shared.index_mut();
                touched.into_iter().for_each(|hash| index.touch(hash, worth));
            }
            let now = Instant::now();
            if self.chores.is_empty() && self.due.is_some_and(|due| due <= now) {
                return Turn::Commit;
            }
            if state.untold && (self.urgent || now.duration_since(self.told) >= TOLD) {
                self.told = now;
                self.shared.signal(&mut state);
            }
            if let Some((level, id)) = state.queue.pop() {
                self.urgent = matches!(level, Level::UrgentRead | Level::UrgentWrite);
                if !matches!(level, Level::Read | Level::Write) {
                    // What comes may take long.
                    self.shared.signal(&mut state);
                }
                return Turn::Job(level, id);
            }
            self.shared.signal(&mut state);
            if self.rebuild.is_some() {
                return Turn::Rebuild;
            }
            if state.closing {
                // Nothing new is taken from now on.
                state.phase = Phase::Dead;
                return Turn::Close;
            }
            let wake = &self.shared.wake;
            state = match self.due {
                Some(due) => wake.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0,
                None => wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A step of the start.
    fn look_around(&mut self) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let done = rebuild.step(&mut self.log);
        let settled = rebuild.is_settled();
        let mut state = self.shared.lock();
        state.counts.disk = self.log.bytes;
        if !done {
            if settled && state.phase == Phase::Starting {
                state.phase = Phase::Rebuilding;
            }
            return;
        }
        self.rebuild = None;
        state.phase = Phase::Serving;
        let waiting = std::mem::take(&mut state.parked);
        for (level, id) in waiting {
            if state.reads.contains_key(&id) {
                self.shared.look(&mut state, id);
            } else {
                self.shared.line(&mut state, level, id);
            }
        }
        drop(state);
        self.soon();
    }

    fn job(&mut self, level: Level, id: u64) {
        match id {
            CHORE => return self.chore(level),
            EVICT => {
                self.evict_step(level);
                return;
            }
            _ => {}
        }
        let state = self.shared.lock();
        if state.reads.contains_key(&id) {
            drop(state);
            if let Some(key) = self.readers.step(&mut self.log, id) {
                // Nothing of it will be read again.
                self.remove(&key);
            }
            return;
        }
        let changes = state.streams.contains_key(&id) || matches!(state.jobs.get(&id), Some(Job::Change(_)));
        let clear = state.clears.iter().map(|(clear, _)| *clear).find(|clear| *clear < id);
        drop(state);
        if changes {
            // What was cleared before it was written is not what is written now.
            if let Some(clear) = clear {
                self.manage(clear);
                return self.again(level, id);
            }
            if self.is_short() && self.make_room() {
                return self.again(level, id);
            }
            let out = self.log.bytes > self.options.budget + self.log.full;
            self.writers.step(&mut self.log, level, id, out);
            self.tried = false;
            return self.soon();
        }
        if !self.manage(id) {
            self.readers.let_go(&mut self.log, id);
        }
    }

    fn again(&self, level: Level, id: u64) {
        self.shared.lock().queue.again(level, id);
    }

    /// A step of clearing, visiting, flushing. `false`: it is none of these, any more.
    fn manage(&mut self, id: u64) -> bool {
        let state = self.shared.lock();
        match state.jobs.get(&id) {
            Some(Job::Flush) => {
                drop(state);
                self.flush(id);
            }
            Some(Job::Clear(clear)) => {
                let clear = clear.clone();
                drop(state);
                self.clear(id, &clear);
            }
            Some(Job::Visit { wanted, from, most }) => {
                let (wanted, from, most) = (wanted.clone(), *from, *most);
                drop(state);
                let walk = self.walks.remove(&id).unwrap_or_else(|| Walk::new(&self.log, &wanted, from, most));
                self.walk(id, walk, &wanted);
            }
            _ => return false,
        }
        true
    }

    fn walk(&mut self, id: u64, mut walk: Walk, wanted: &Clear) {
        if !walk.step(&self.log, wanted) {
            self.walks.insert(id, walk);
            return self.again(Level::Manage, id);
        }
        let mut state = self.shared.lock();
        state.jobs.remove(&id);
        self.shared.tell(&mut state, id, walk.page());
    }

    fn flush(&mut self, id: u64) {
        for level in [Level::UrgentWrite, Level::Write] {
            let mut state = self.shared.lock();
            let Some(first) = state.queue.first(level) else { continue };
            if first < id {
                state.queue.again(Level::Manage, id);
                drop(state);
                return self.job(level, first);
            }
            state.queue.again(level, first);
        }
        self.shared.lock().jobs.remove(&id);
        self.waiting.push(id);
        self.soon();
        if self.chores.is_empty() {
            self.commit();
        }
    }

    fn clear(&mut self, id: u64, clear: &Clear) {
        if *clear == Clear::All {
            // The snapshot without entries is what makes it last; the files go after it, also if it fails.
            while let Some(chore) = self.chores.pop_front() {
                self.do_chore(&chore);
            }
            self.evict = None;
            self.log.forget_all();
            self.want_snapshot = true;
        } else {
            let mut walk = self.walks.remove(&id).unwrap_or_else(|| Walk::new(&self.log, clear, 0, usize::MAX));
            let done = walk.step(&self.log, clear);
            for key in walk.keys() {
                self.remove(&key);
            }
            if !done {
                self.walks.insert(id, walk);
                return self.again(Level::Manage, id);
            }
        }
        let mut state = self.shared.lock();
        state.jobs.remove(&id);
        state.clears.retain(|(clear, _)| *clear != id);
        state.counts.disk = self.log.bytes;
        drop(state);
        self.waiting.push(id);
        if self.chores.is_empty() {
            self.commit();
        }
    }

    /// Takes an entry out for good: with a removal in the log, now or before the next record.
    fn remove(&mut self, key: &Key) -> bool {
        if self.log.shared.index().get(key.hash(self.log.seed)).is_none() {
            return true;
        }
        let stored = self.log.append(vec![crate::log::Draft::removal(key.clone())]) == [true];
        if !stored {
            self.log.lose(key);
        }
        self.soon();
        stored
    }

    /// Sees to a commit within the time that is asked for, and to eviction when it is time.
    fn soon(&mut self) {
        let dirty = self.log.segments.values().any(|one| one.dirty || one.wants_footer());
        let now = Instant::now();
        if dirty {
            self.due.get_or_insert(now + self.options.commit);
        } else if self.log.changed {
            self.due.get_or_insert(now.max(self.snapshot + self.options.snapshot));
        }
        if self.evict.is_none() && self.is_crowded() {
            self.begin_evict();
        }
        self.shared.lock().counts.disk = self.log.bytes;
    }

    fn is_crowded(&self) -> bool {
        self.log.held() > self.options.budget / 20 * 19 || self.log.no_space
    }

    fn is_short(&self) -> bool {
        self.log.bytes > self.options.budget || self.log.no_space
    }

    /// Does a step towards room for a write. `false`: there is none to do.
    fn make_room(&mut self) -> bool {
        if let Some(chore) = self.chores.pop_front() {
            self.do_chore(&chore);
            return true;
        }
        if self.evict.is_some() {
            return self.evict_step(Level::Evict);
        }
        if self.is_crowded() && self.begin_evict() {
            return true;
        }
        let freed = self.log.segments.values().any(|one| one.stage >= Stage::Freed && one.readers == 0);
        if freed && !self.tried {
            self.tried = true;
            self.commit();
            return true;
        }
        self.log.no_space = false;
        false
    }

    fn begin_evict(&mut self) -> bool {
        if self.stuck == Some(self.log.held()) {
            return false;
        }
        let full = if self.log.no_space { self.log.held().min(self.options.budget) } else { self.options.budget };
        self.evict = evict::begin(&mut self.log, full / 10 * 9);
        self.stuck = if self.evict.is_none() { Some(self.log.held()) } else { None };
        if self.evict.is_some() {
            self.shared.lock().queue.line(Level::Evict, EVICT);
        }
        self.evict.is_some()
    }

    fn evict_step(&mut self, level: Level) -> bool {
        let Some(mut evict) = self.evict.take() else { return false };
        let did = evict.step(&mut self.log);
        let mut state = self.shared.lock();
        state.counts.evicted += did.evicted;
        state.counts.evacuated += did.moved;
        drop(state);
        if !did.done {
            self.evict = Some(evict);
            if level == Level::Evict {
                self.shared.lock().queue.line(Level::Evict, EVICT);
            }
            return true;
        }
        let more = self.log.held() > self.options.budget / 10 * 9 && !self.log.no_space;
        if !more || !self.begin_evict() {
            self.due = Some(Instant::now());
        }
        true
    }

    /// Begins a commit of all that is written now.
    fn commit(&mut self) {
        let old = self.snapshot.elapsed() >= self.options.snapshot || self.log.is_old();
        let snapshot = std::mem::take(&mut self.want_snapshot) || self.log.changed && old;
        if snapshot {
            self.snapshot = Instant::now();
        }
        self.due = None;
        // Removals that are still owed.
        self.log.append(Vec::new());
        self.chores = self.log.commit(snapshot);
        let waiting = std::mem::take(&mut self.waiting);
        let level = if waiting.is_empty() { Level::Index } else { Level::Manage };
        self.chores.push_back(Chore::Tell(waiting));
        self.shared.lock().queue.line(level, CHORE);
    }

    fn chore(&mut self, level: Level) {
        let Some(chore) = self.chores.pop_front() else { return };
        self.do_chore(&chore);
        if !self.chores.is_empty() {
            let urgent = if self.waiting.is_empty() { level } else { Level::Manage };
            self.again(urgent, CHORE);
        }
    }

    fn do_chore(&mut self, chore: &Chore) {
        // What is owed is not on the medium, and may never be.
        let good = self.log.chore(chore) && self.log.owed.is_empty();
        let Chore::Tell(waiting) = chore else { return };
        let mut state = self.shared.lock();
        state.counts.commits += 1;
        for id in waiting {
            self.shared.tell(&mut state, *id, Event::Done(good));
        }
        drop(state);
        if self.waiting.is_empty() {
            self.soon();
        } else {
            self.commit();
        }
    }

    /// All that is written lasts, and the next start reads one file.
    fn close(&mut self) {
        self.writers.close(&self.log);
        while let Some(chore) = self.chores.pop_front() {
            self.do_chore(&chore);
        }
        self.log.append(Vec::new());
        self.log.close_open();
        for snapshot in [false, true] {
            let dirty =
                self.log.segments.values().any(|one| one.dirty || one.stage != Stage::Sealed && one.unread == 0);
            if dirty || self.log.changed {
                for chore in self.log.commit(snapshot) {
                    self.log.chore(&chore);
                }
            }
        }
    }
}
