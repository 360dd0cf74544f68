//! The I/O thread: it loads areas, gives what has changed to their files in time, syncs these, and sees what other
//! processes do. One step at a time, so that an urgent load waits for the one under way alone.

use crate::cell::{Cell, Stage};
use crate::feed::News;
use crate::map::{Bytes, Map};
use crate::pending::Pending;
use crate::shared::Shared;
use crate::sheet::{Sheet, Written};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use thaw_log::clerk::Desk;

/// How long a disk that fails is left alone at most.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long changes of others are gathered.
const LOOK: Duration = Duration::from_millis(10);

/// What it is given to do.
pub enum Job {
    /// An area is to be read.
    Load(Arc<Cell>),
    /// An area has changes.
    Dirty(u64),
    /// All changes are to be on the medium.
    Flush(Ticket),
    /// Nobody holds an area any more.
    Loose(u64),
    /// It takes time to let go of this.
    LetGo(Map<Bytes>, Pending),
}

/// Who wants to know of a flush.
pub enum Ticket {
    /// The program, by the news.
    News(u64),
    /// A thread that waits.
    Thread(Sender<()>),
}

/// Times of the thread.
pub struct Times {
    /// A change is given to the kernel after this.
    pub write: Duration,
    /// And is on the medium after this.
    pub sync: Duration,
    /// The first wait after a failure.
    pub retry: Duration,
    /// Bytes of areas that may stay in memory though nobody holds them.
    pub memory: u64,
}

/// The thread's own.
pub struct Engine {
    shared: Arc<Shared>,
    times: Times,
    sheets: BTreeMap<u64, Sheet>,
    /// Those with something to do at some time.
    timed: BTreeSet<u64>,
    again: Vec<(Instant, Duration, Arc<Cell>)>,
    flushes: BTreeMap<u64, (Ticket, HashSet<u64>)>,
    last_flush: u64,
    last_loose: u64,
    watch: Option<OwnedFd>,
    look_at: Option<Instant>,
    looked: Instant,
    to_look: VecDeque<u64>,
    to_compact: VecDeque<u64>,
}

impl Engine {
    /// One without areas.
    pub fn new(shared: Arc<Shared>, times: Times) -> Engine {
        Engine {
            shared,
            times,
            sheets: BTreeMap::new(),
            timed: BTreeSet::new(),
            again: Vec::new(),
            flushes: BTreeMap::new(),
            last_flush: 0,
            last_loose: 0,
            watch: None,
            look_at: None,
            looked: Instant::now(),
            to_look: VecDeque::new(),
            to_compact: VecDeque::new(),
        }
    }

    fn watch(&mut self) {
        // Without one, changes of others are seen with the next of ours.
        self.watch = self.shared.disk.watch().ok().flatten();
        // What has changed in between.
        self.look_at = Some(Instant::now());
    }

    fn load(&mut self, cell: Arc<Cell>, wait: Duration) {
        if self.watch.is_none() {
            // Before it is read: what changes then is seen. The turn makes the directory.
            drop(self.shared.disk.turn());
            self.watch();
        }
        match Sheet::load(&self.shared, cell.clone()) {
            Ok((mut sheet, map)) => {
                sheet.write_at = sheet.rewrite.then(Instant::now);
                self.sync_for_others(&mut sheet);
                cell.fill(map);
                self.shared.count(|counts| &counts.loaded, 1);
                self.shared.feed.ring([News::Loaded(cell.place.clone())]);
                self.timed.extend(sheet.write_at.or(sheet.sync_at).map(|_| cell.id));
                if cell.handles.load(Ordering::SeqCst) == 0 {
                    self.last_loose += 1;
                    sheet.loose = Some(self.last_loose);
                }
                self.sheets.insert(cell.id, sheet);
                self.unload();
            }
            Err(error) => {
                let what = format!("cannot read storage of {}: {error}", cell.place);
                if wait.is_zero() {
                    self.shared.feed.ring([News::Unreadable(cell.place.clone(), what)]);
                }
                cell.enter(Stage::Failed(error.to_string()));
                let wait = longer(wait, self.times.retry);
                self.again.push((Instant::now() + wait, wait, cell));
            }
        }
    }

    /// What others have written is synced as what was written here is: who wrote it may be dead.
    fn sync_for_others(&self, sheet: &mut Sheet) {
        if sheet.of_others {
            sheet.sync_at.get_or_insert_with(|| Instant::now() + self.times.sync);
        }
    }

    fn flush(&mut self, ticket: Ticket) {
        self.last_flush += 1;
        let mut left = HashSet::new();
        for (id, sheet) in &mut self.sheets {
            if !sheet.is_clean() {
                sheet.write_at = Some(Instant::now());
                sheet.flushing.push(self.last_flush);
                left.insert(*id);
            }
        }
        self.timed.extend(&left);
        self.flushes.insert(self.last_flush, (ticket, left));
        self.flushed(None, vec![self.last_flush]);
    }

    /// These flushes have nothing more to wait for in an area.
    fn flushed(&mut self, area: Option<u64>, flushes: Vec<u64>) {
        for flush in flushes {
            let Some((_, left)) = self.flushes.get_mut(&flush) else { continue };
            if let Some(area) = area {
                left.remove(&area);
            }
            if left.is_empty() {
                match self.flushes.remove(&flush) {
                    Some((Ticket::News(ticket), _)) => self.shared.feed.ring([News::Flushed(ticket)]),
                    // It may have stopped waiting.
                    Some((Ticket::Thread(who), _)) => drop(who.send(())),
                    None => {}
                }
            }
        }
    }

    /// What an area has to do now, which `sheet` is.
    fn step(&mut self, id: u64, sheet: &mut Sheet) {
        let now = Instant::now();
        let sound = !sheet.rewrite;
        let done = if sheet.write_at.is_some_and(|at| at <= now) {
            let flushing = std::mem::take(&mut sheet.flushing);
            match sheet.write(&self.shared) {
                Ok(written) => {
                    sheet.write_at = None;
                    sheet.to_sync.extend(flushing);
                    if written == Written::Medium {
                        sheet.sync_at = None;
                        if std::mem::take(&mut sheet.gone) {
                            // The directory may be another.
                            self.watch();
                        }
                    } else if written == Written::Kernel {
                        let at = now + self.times.sync.saturating_sub(self.times.write);
                        sheet.sync_at = Some(sheet.sync_at.map_or(at, |before| before.min(at)));
                    }
                    self.sync_for_others(sheet);
                    if !sheet.to_sync.is_empty() && sheet.sync_at.is_some() {
                        sheet.sync_at = Some(now);
                    }
                    Ok(sheet.sync_at.is_none())
                }
                Err(error) => {
                    sheet.flushing = flushing;
                    Err(error)
                }
            }
        } else {
            sheet.sync_at = None;
            sheet.sync(&self.shared).map(|()| true)
        };
        match done {
            Ok(durable) => {
                if durable {
                    let flushes = std::mem::take(&mut sheet.to_sync);
                    self.flushed(Some(id), flushes);
                    self.works(sheet);
                }
                if sheet.is_long() && !self.to_compact.contains(&id) {
                    self.to_compact.push_back(id);
                }
                if sound && sheet.rewrite {
                    sheet.write_at = Some(now);
                }
            }
            Err(error) => self.fails(sheet, &error),
        }
    }

    fn fails(&mut self, sheet: &mut Sheet, error: &io::Error) {
        let waits = std::mem::take(&mut sheet.to_sync);
        sheet.flushing.extend(waits);
        sheet.wait = longer(sheet.wait, self.times.retry);
        (sheet.write_at, sheet.sync_at) = (Some(Instant::now() + sheet.wait), None);
        if !std::mem::replace(&mut sheet.troubled, true) {
            let place = &sheet.cell.place;
            let what = format!("cannot write storage of {place} to {}: {error}", sheet.name);
            self.shared.feed.ring([News::Trouble(place.clone(), what)]);
        }
    }

    fn works(&mut self, sheet: &mut Sheet) {
        sheet.wait = Duration::ZERO;
        if std::mem::replace(&mut sheet.troubled, false) {
            self.shared.feed.ring([News::Recovered(sheet.cell.place.clone())]);
            self.watch();
        }
    }

    /// Areas that nobody holds go, the longest unused first, until the rest is within the budget.
    fn unload(&mut self) {
        let mut total: u64 = self.sheets.values().map(|sheet| sheet.cell.lock().live).sum();
        if total <= self.times.memory {
            return;
        }
        let mut loose: Vec<(u64, u64)> =
            self.sheets.iter().filter_map(|(id, sheet)| Some((sheet.loose?, *id))).collect();
        loose.sort_unstable();
        for (_, id) in loose {
            if total <= self.times.memory {
                break;
            }
            let Some(sheet) = self.sheets.get_mut(&id) else { continue };
            if sheet.of_others && sheet.write_at.is_none() {
                // It goes when that is on the medium, which is soon.
                sheet.sync_at = Some(Instant::now());
            }
            // Whoever asks for it meanwhile waits here, and gets it or another one.
            let mut cells = self.shared.cells();
            if sheet.cell.handles.load(Ordering::SeqCst) > 0 || !sheet.is_clean() {
                continue;
            }
            cells.remove(&sheet.cell.place);
            drop(cells);
            total -= sheet.cell.lock().live;
            self.shared.disk.forget(&sheet.name);
            self.shared.count(|counts| &counts.unloaded, 1);
            self.sheets.remove(&id);
            self.timed.remove(&id);
        }
    }

    /// Does one thing that is due. `false`: nothing is.
    fn one(&mut self, now: Instant) -> bool {
        if let Some(at) = self.again.iter().position(|(at, ..)| *at <= now) {
            let (_, wait, cell) = self.again.swap_remove(at);
            self.load(cell, wait);
            return true;
        }
        let first = self.timed.iter().copied().find(|id| {
            let sheet = &self.sheets[id];
            sheet.write_at.is_some_and(|at| at <= now) || sheet.sync_at.is_some_and(|at| at <= now)
        });
        if let Some(id) = first
            && let Some(mut sheet) = self.sheets.remove(&id)
        {
            self.step(id, &mut sheet);
            if sheet.write_at.is_none() && sheet.sync_at.is_none() {
                self.timed.remove(&id);
            }
            let clean = sheet.loose.is_some();
            self.sheets.insert(id, sheet);
            if clean {
                self.unload();
            }
            return true;
        }
        if self.look_at.is_some_and(|at| at <= now) {
            (self.look_at, self.looked) = (None, now);
            self.shared.count(|counts| &counts.looks, 1);
            self.to_look = self.sheets.keys().copied().collect();
        }
        if let Some(id) = self.to_look.pop_front() {
            if let Some(mut sheet) = self.sheets.remove(&id) {
                // What cannot be read now is seen with our next change, which tells.
                if sheet.others(&self.shared).is_ok() && sheet.rewrite {
                    sheet.write_at.get_or_insert(now);
                }
                self.sync_for_others(&mut sheet);
                self.timed.extend(sheet.write_at.or(sheet.sync_at).map(|_| id));
                self.sheets.insert(id, sheet);
            }
            return true;
        }
        if let Some(id) = self.to_compact.pop_front()
            && let Some(mut sheet) = self.sheets.remove(&id)
        {
            if let Err(error) = sheet.compact(&self.shared) {
                self.fails(&mut sheet, &error);
            } else if sheet.rewrite {
                sheet.write_at.get_or_insert(now);
            }
            self.sync_for_others(&mut sheet);
            self.timed.extend(sheet.write_at.or(sheet.sync_at).map(|_| id));
            self.sheets.insert(id, sheet);
            return true;
        }
        false
    }
}

fn longer(wait: Duration, first: Duration) -> Duration {
    (2 * wait).clamp(first.min(LONGEST_WAIT), LONGEST_WAIT)
}

impl Desk for Engine {
    type Job = Job;

    fn work(&mut self, job: Job) -> Option<Job> {
        match job {
            Job::Load(cell) => self.load(cell, Duration::ZERO),
            Job::Dirty(id) => {
                if let Some(sheet) = self.sheets.get_mut(&id) {
                    sheet.write_at.get_or_insert(Instant::now() + self.times.write);
                    self.timed.insert(id);
                }
            }
            Job::Flush(ticket) => self.flush(ticket),
            Job::Loose(id) => {
                if let Some(sheet) = self.sheets.get_mut(&id) {
                    self.last_loose += 1;
                    sheet.loose = Some(self.last_loose);
                    self.unload();
                }
            }
            Job::LetGo(map, pending) => drop((map, pending)),
        }
        None
    }

    fn due(&mut self, now: Instant) -> Option<Instant> {
        if self.one(now) {
            return Some(now);
        }
        let timed = self.timed.iter().flat_map(|id| [self.sheets[id].write_at, self.sheets[id].sync_at]).flatten();
        timed.chain(self.again.iter().map(|(at, ..)| *at)).chain(self.look_at).min()
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    fn noticed(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [0; 4096];
        while matches!(rustix::io::read(watch, &mut buffer), Ok(1..)) {}
        // Our own writes wake us too: some are looked at together, and looking changes nothing.
        self.look_at.get_or_insert(Instant::now().max(self.looked + LOOK));
    }

    fn end(&mut self) {
        let cells: Vec<Arc<Cell>> = self.shared.cells().values().cloned().collect();
        cells.iter().for_each(|cell| cell.enter(Stage::Closed));
        let mut unsaved = Vec::new();
        for (id, mut sheet) in std::mem::take(&mut self.sheets) {
            if sheet.is_clean() {
                continue;
            }
            let shared = self.shared.clone();
            let done = sheet.write(&shared).and_then(|written| {
                // What could not be synced is written anew, once.
                if written == Written::Medium || sheet.sync(&shared).is_ok() {
                    Ok(written)
                } else {
                    sheet.write(&shared)
                }
            });
            match done {
                Ok(_) => {
                    let flushes = [std::mem::take(&mut sheet.to_sync), std::mem::take(&mut sheet.flushing)].concat();
                    self.flushed(Some(id), flushes);
                }
                Err(error) => unsaved.push((sheet.cell.place.clone(), error.to_string())),
            }
        }
        *self.shared.unsaved.lock().unwrap_or_else(PoisonError::into_inner) = unsaved;
    }
}
