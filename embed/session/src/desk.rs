//! The I/O thread: what is loaded first, the rest, saves, and generations.

mod repair;

pub use repair::{Repaired, repair};

use crate::counted::{Counted, pace};
use crate::files::{self, CLEAN, CURRENT, Missing, PREVIOUS};
use crate::generations::{self, Loading};
use crate::item::{Id, Item, Payload, flag};
use crate::record::{First, Record};
use crate::shared::{End, Event, Shared, Ticket, now_ms};
use crate::tree::Tree;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use thaw_log::book::{self, Book};
use thaw_log::clerk;
use thaw_log::disk::Disk;
use thaw_log::frame::Head;

/// A log is not made shorter before it has so many bytes.
const LOG: u64 = 256 << 10;
/// The visible are written again when the log has grown by so many bytes, or by four times theirs.
const AGAIN: u64 = 32 << 10;
/// The rest is read in steps of so many bytes, between which something urgent goes.
const STEP: u64 = 256 << 10;
/// A save that is longer is a new generation.
const LONGEST_SAVE: usize = 64 << 20;
/// Between two attempts when saving does not work.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// What is to be forgotten.
pub enum Forget {
    /// All of an origin.
    Origin(String),
    /// All that was changed at this moment or later, in milliseconds since 1970.
    Since(u64),
}

impl Forget {
    fn is_so(&self, item: &Item) -> bool {
        match self {
            Forget::Origin(origin) => **origin == *item.origin,
            Forget::Since(since) => item.changed_ms >= *since,
        }
    }
}

/// What the thread is given to do.
pub enum Job {
    /// Takes the lock and loads what is visible.
    Start,
    /// Loads the rest.
    Rest(Rest),
    /// Brings a payload.
    Want(Id),
    /// Saves.
    Flush(Ticket),
    /// Forgets, in all generations.
    Forget(Ticket, Forget),
}

/// The rest of a file, as far as it has been read.
pub struct Rest {
    bytes: Vec<u8>,
    first: First,
    len: u64,
}

/// The thread's own.
pub struct Desk {
    disk: Arc<Counted>,
    shared: Arc<Shared>,
    version: String,
    /// The file of this process; nothing is appended to one that another has left.
    book: Option<Book>,
    /// Which file bears the current name, as this process knows it.
    id: u64,
    /// Where payloads lie that are not in memory, and that file's salt.
    home: (String, u32),
    /// The version of the application that wrote it.
    label: String,
    /// It is to be kept aside: not all of it could be read.
    damaged: bool,
    generation: u64,
    loaded: bool,
    refused: Option<String>,
    locked: bool,
    /// What was current has become the previous.
    begun: bool,
    first: First,
    /// Bytes of the state, of what was appended, of that since the visible were written, and of those.
    lens: [u64; 4],
    /// Nothing can be appended: the next save is a new generation.
    anew: bool,
    /// Since when the log has been too long.
    grown: Option<Instant>,
    next_try: Option<Instant>,
    failures: u32,
    missing: Missing,
    /// The name under which a damaged current file is kept.
    kept: Option<String>,
}

impl Desk {
    /// A thread that has done nothing yet.
    pub fn new(disk: Arc<Counted>, shared: Arc<Shared>, version: String) -> Desk {
        Desk {
            disk,
            shared,
            version,
            book: None,
            id: 0,
            home: (String::new(), 0),
            label: String::new(),
            damaged: false,
            generation: 0,
            loaded: false,
            refused: None,
            locked: false,
            begun: false,
            first: First::default(),
            lens: [0; 4],
            anew: false,
            grown: None,
            next_try: None,
            failures: 0,
            missing: Missing::default(),
            kept: None,
        }
    }

    fn ring(&self, event: Event) {
        self.shared.bell.ring([event]);
    }

    fn start(&mut self) -> Option<Job> {
        match self.disk.lock() {
            Ok(true) => self.locked = true,
            Ok(false) => {
                let why = "another process has the session's directory: nothing is loaded or saved".to_owned();
                let mut inside = self.shared.lock();
                (inside.health.failing_since, inside.health.reason) = (Some(SystemTime::now()), Some(why.clone()));
                inside.ready = true;
                drop(inside);
                (self.refused, self.loaded) = (Some(why.clone()), true);
                self.ring(Event::Refused(why));
                return None;
            }
            Err(error) => self.fail(&error),
        }
        let loading = if self.locked { generations::load(&*self.disk) } else { Loading::default() };
        if let Some(error) = &loading.error {
            self.fail(error);
        }
        self.missing = loading.missing;
        self.generation = loading.generation;
        let Some(from) = loading.name else {
            self.ready(Tree::new(false), None, 0);
            self.finish(None);
            return None;
        };
        self.label = String::from_utf8_lossy(&loading.head.label).into_owned();
        self.home = (from.clone(), loading.head.salt);
        match loading.start {
            Some(start) => {
                self.ready(start.tree, Some(from), start.first.count);
                Some(Job::Rest(Rest { bytes: Vec::new(), first: start.first, len: start.len }))
            }
            None => {
                self.damaged = loading.damaged;
                let mut tree = loading.tree;
                self.missing.orphans = tree.adopt_orphans(now_ms());
                let count = tree.items.len() as u32;
                self.ready(tree, Some(from), count);
                self.finish(None);
                None
            }
        }
    }

    fn ready(&mut self, tree: Tree, from: Option<String>, count: u32) {
        let mut inside = self.shared.lock();
        inside.dirty = (!tree.marks.is_empty()).then(Instant::now);
        (inside.tree, inside.ready) = (tree, true);
        drop(inside);
        self.ring(Event::Ready { from, count });
        // Whoever waits for that may have been woken on this processor: the rest is not read before it has run.
        std::thread::yield_now();
    }

    fn rest(&mut self, mut rest: Rest) -> Option<Job> {
        let (at, name) = (rest.first.items_at + rest.bytes.len() as u64, &self.home.0);
        let step = STEP.min(rest.len.saturating_sub(at));
        let from = rest.bytes.len();
        rest.bytes.resize(from + step as usize, 0);
        let read = self.disk.read(name, at, &mut rest.bytes[from..]);
        if step > 0 && matches!(read, Ok(read) if read as u64 == step) && at + step < rest.len {
            return Some(Job::Rest(rest));
        }
        let whole = read.is_ok_and(|read| read as u64 == step);
        let tree = whole.then(|| files::rest(&rest.bytes, &rest.first, self.home.1)).flatten();
        if tree.is_none() {
            self.damaged = true;
        }
        let tree = tree.or_else(|| match files::salvage(&*self.disk, &self.home.0) {
            Ok(salvaged) => salvaged.map(|(_, tree, missing)| {
                let files = std::mem::take(&mut self.missing.files);
                self.missing = Missing { files, ..missing };
                tree
            }),
            Err(error) => {
                self.missing.files.push(self.home.0.clone());
                self.fail(&error);
                None
            }
        });
        self.finish(tree);
        None
    }

    /// All is there that there is.
    fn finish(&mut self, tree: Option<Tree>) {
        let mut inside = self.shared.lock();
        let mut tree = tree.unwrap_or_else(|| Tree::new(false));
        if self.damaged {
            tree.next = tree.next.max(inside.tree.next);
            self.missing.orphans += tree.adopt_orphans(now_ms());
        }
        let new = inside.tree.merge(tree);
        if !inside.tree.marks.is_empty() && inside.dirty.is_none() {
            inside.dirty = Some(Instant::now());
        }
        drop(inside);
        let more = new.chunks(512).map(|ids| Event::More(ids.to_vec()));
        self.shared.bell.ring(more.chain([Event::Loaded(self.missing.clone())]));
        self.loaded = true;
    }

    fn want(&self, id: Id) {
        let payload = self.shared.lock().tree.items.get(&id).map(|item| item.payload.clone());
        let told = match payload {
            None => Err(format!("item {id} is gone")),
            Some(Payload::None) => Ok(Vec::new().into()),
            Some(Payload::Here(bytes)) => Ok(bytes),
            Some(Payload::There(spot)) => match files::payload(&*self.disk, &self.home.0, self.home.1, spot) {
                Ok(Some(bytes)) => {
                    let bytes: Arc<[u8]> = bytes.into();
                    if let Some(item) = self.shared.lock().tree.items.get_mut(&id)
                        && item.payload == Payload::There(spot)
                    {
                        item.payload = Payload::Here(bytes.clone());
                    }
                    Ok(bytes)
                }
                Ok(None) => Err(format!("the payload of item {id} in {} is damaged", self.home.0)),
                Err(error) => Err(format!("the payload of item {id} in {}: {error}", self.home.0)),
            },
        };
        self.ring(Event::Payload(id, told));
    }

    fn fail(&mut self, error: &io::Error) {
        self.failures += 1;
        let mut inside = self.shared.lock();
        let wait = inside.delay.max(Duration::from_millis(10)) * (1 << self.failures.min(16));
        self.next_try = Some(Instant::now() + wait.min(MOST_WAIT));
        if inside.health.failing_since.is_none() {
            let reason = error.to_string();
            (inside.health.failing_since, inside.health.reason) = (Some(SystemTime::now()), Some(reason.clone()));
            drop(inside);
            self.ring(Event::Failing(reason));
        }
    }

    fn saved(&mut self, upto: SystemTime) {
        (self.failures, self.next_try) = (0, None);
        let mut inside = self.shared.lock();
        inside.health.durable = Some(upto);
        if inside.health.failing_since.take().is_some() {
            inside.health.reason = None;
            drop(inside);
            self.ring(Event::Resumed);
        }
    }

    /// Saves what has changed. Nothing is written if nothing has.
    fn save(&mut self) -> Result<(), String> {
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        if self.shared.lock().dirty.is_none() && !self.anew && self.grown.is_none() {
            return Ok(());
        }
        let mut done = self.write();
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) || !self.locked {
            // The directory is gone, or never was there.
            self.locked = false;
            done = match self.disk.lock() {
                Ok(true) => {
                    self.locked = true;
                    self.write()
                }
                Ok(false) => Err(io::Error::other("another process has the session's directory")),
                Err(error) => Err(error),
            };
        }
        done.map_err(|error| {
            self.fail(&error);
            error.to_string()
        })
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.locked {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Whoever removed the file meanwhile has it written anew.
        let there = self.disk.about(CURRENT)?.map(|about| about.id);
        let sound = self.book.as_ref().is_some_and(|book| book.is_sound() && there == Some(self.id));
        let late = self.lens[1] > 2 * LOG.max(2 * self.lens[0]);
        if !sound || self.anew || late || self.grown.is_some_and(|since| since + self.pace() <= Instant::now()) {
            return self.rewrite();
        }
        let upto = SystemTime::now();
        let mut inside = self.shared.lock();
        let (dirty, since) = (inside.dirty.take(), inside.health.unsaved_since.take());
        let (changes, marks) = inside.tree.take_changes();
        if changes.is_empty() {
            return Ok(());
        }
        let mut contents = vec![Record::Changes(now_ms(), changes).write()];
        let [_, _, since_first, first_len] = self.lens;
        let grown = since_first + contents[0].len() as u64 > AGAIN.max(4 * first_len);
        if grown {
            contents.push(files::again(&inside.tree, &self.first));
        }
        drop(inside);
        let parts: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
        let book = self.book.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let done = if contents.iter().any(|content| content.len() > LONGEST_SAVE) {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            book.append(&*self.disk, &parts).and_then(|bytes| book.sync(&*self.disk).map(|()| bytes))
        };
        match done {
            Ok(bytes) => {
                self.lens[1] += bytes;
                self.lens[2] += bytes;
                if grown {
                    (self.lens[2], self.lens[3]) = (0, contents[1].len() as u64);
                }
                if self.lens[1] > LOG.max(2 * self.lens[0]) && self.grown.is_none() {
                    self.grown = Some(Instant::now());
                }
                self.saved(upto);
                Ok(())
            }
            Err(error) => {
                let mut inside = self.shared.lock();
                inside.tree.give_back(marks);
                (inside.dirty, inside.health.unsaved_since) = (dirty.or(inside.dirty), since);
                drop(inside);
                if error.kind() == io::ErrorKind::FileTooLarge { self.rewrite() } else { Err(error) }
            }
        }
    }

    /// Writes a new generation.
    fn rewrite(&mut self) -> io::Result<()> {
        let upto = SystemTime::now();
        let mut inside = self.shared.lock();
        let (dirty, since) = (inside.dirty.take(), inside.health.unsaved_since.take());
        inside.tree.marks.clear();
        let tree = inside.tree.clone();
        drop(inside);
        self.anew = true;
        match self.write_generation(&tree) {
            Ok(()) => {
                (self.anew, self.grown) = (false, None);
                self.saved(upto);
                Ok(())
            }
            Err(error) => {
                let mut inside = self.shared.lock();
                (inside.dirty, inside.health.unsaved_since) = (dirty.or(inside.dirty), since);
                Err(error)
            }
        }
    }

    fn write_generation(&mut self, tree: &Tree) -> io::Result<()> {
        let head = Head {
            kind: files::KIND,
            generation: self.generation + 1,
            made_ms: 0,
            salt: 0,
            label: self.version.clone().into_bytes(),
        };
        let (disk, home, salt, mut lost) = (&*self.disk, &self.home.0, self.home.1, false);
        let state = files::state(tree, &head, &mut |spot| {
            let bytes = files::payload(disk, home, salt, spot)?;
            lost |= bytes.is_none();
            Ok(bytes)
        })?;
        self.damaged |= lost;
        if !self.begun {
            self.begin()?;
        } else if lost {
            // What of it cannot be read stays aside.
            self.home.0 = book::move_aside(&*self.disk, CURRENT)?;
        }
        self.damaged = false;
        let mut book = Book::new(CURRENT);
        let parts: Vec<&[u8]> = state.contents.iter().map(|content| &content[..]).collect();
        let len = book.replace(&*self.disk, head, &parts)?;
        self.generation += 1;
        self.id = self.disk.about(CURRENT)?.ok_or(io::ErrorKind::NotFound)?.id;
        self.home = (CURRENT.into(), book.salt());
        self.lens = [len, 0, 0, parts.last().map_or(0, |first| first.len() as u64)];
        (self.book, self.first, self.label) = (Some(book), state.first, self.version.clone());
        let mut inside = self.shared.lock();
        for (id, item) in &mut inside.tree.items {
            if let Payload::There(_) = item.payload {
                item.payload = state.spots.get(id).map_or(Payload::None, |spot| Payload::There(*spot));
            }
        }
        Ok(())
    }

    /// What was current becomes the previous, and is kept if another version of the application wrote it.
    fn begin(&mut self) -> io::Result<()> {
        if !self.home.0.is_empty() && self.label != self.version {
            generations::keep_upgrade(&*self.disk, &self.home.0, &self.label)?;
        }
        if self.home.0 == CURRENT {
            if self.damaged {
                self.home.0 = book::move_aside(&*self.disk, CURRENT)?;
                self.kept = Some(self.home.0.clone());
            } else {
                self.disk.rename(CURRENT, PREVIOUS)?;
                self.home.0 = PREVIOUS.into();
            }
            self.disk.sync_names()?;
        } else if self.home.0 == CLEAN && self.disk.about(PREVIOUS)?.is_some() {
            self.disk.unlink(PREVIOUS)?;
            self.disk.sync_names()?;
        }
        self.begun = true;
        Ok(())
    }

    fn pace(&self) -> Duration {
        let inside = self.shared.lock();
        pace(inside.delay, inside.battery, self.disk.sync_time())
    }

    fn forget(&mut self, what: &Forget) -> Result<(), String> {
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        self.shared.lock().tree.remove_all(|item| what.is_so(item));
        self.anew = true;
        self.save()?;
        let others = generations::purge(&*self.disk, &|item| what.is_so(item));
        let others = others.and_then(|()| generations::drop_damaged(&*self.disk));
        others.map_err(|error| error.to_string())
    }

    fn end_clean(&mut self) -> Result<(), String> {
        let mut inside = self.shared.lock();
        let for_crashes = inside.tree.remove_all(|item| item.has(flag::CRASH_ONLY)) > 0 || inside.tree.crash_only;
        drop(inside);
        if for_crashes {
            self.anew = true;
        }
        self.save()?;
        let clean = || -> io::Result<()> {
            if for_crashes {
                generations::purge(&*self.disk, &|item| item.has(flag::CRASH_ONLY))?;
            }
            if self.home.0 == CURRENT {
                if self.disk.about(PREVIOUS)?.is_some() {
                    self.disk.unlink(PREVIOUS)?;
                    self.disk.sync_names()?;
                }
                self.disk.rename(CURRENT, CLEAN)?;
                self.disk.sync_names()?;
            }
            Ok(())
        };
        clean().map_err(|error| error.to_string())
    }
}

impl clerk::Desk for Desk {
    type Job = Job;

    fn work(&mut self, job: Job) -> Option<Job> {
        match job {
            Job::Start => return self.start(),
            Job::Rest(rest) => return self.rest(rest),
            Job::Want(id) => self.want(id),
            // What is not loaded yet would be lost in a new generation.
            job if !self.loaded => return Some(job),
            Job::Flush(ticket) => {
                let done = self.save();
                self.ring(Event::Done(ticket, done));
            }
            Job::Forget(ticket, what) => {
                let done = self.forget(&what);
                self.ring(Event::Done(ticket, done));
            }
        }
        None
    }

    fn due(&mut self, now: Instant) -> Option<Instant> {
        if !self.loaded || self.refused.is_some() {
            return None;
        }
        let due = |desk: &Desk| {
            let dirty = desk.shared.lock().dirty;
            let changed = dirty.map(|since| since + desk.pace());
            let grown = desk.grown.map(|since| since + desk.pace());
            let first = changed.into_iter().chain(grown).chain(desk.anew.then_some(now)).min()?;
            Some(desk.next_try.map_or(first, |at| at.max(first)))
        };
        if due(self).is_some_and(|at| at <= now) {
            // It has told whoever has to know.
            let _ = self.save();
        }
        due(self)
    }

    fn end(&mut self) {
        let end = self.shared.lock().end;
        let done = match end {
            End::Abandon => Ok(()),
            End::Crash => self.save(),
            End::Clean => self.end_clean(),
        };
        self.shared.lock().ended = done;
    }
}
