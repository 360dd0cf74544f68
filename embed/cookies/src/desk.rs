//! The I/O thread: what is asked for first, then the rest of the file; changes are written behind.

use crate::cookie::{Cookie, Key, site};
use crate::options::Options;
use crate::record::{self, Index, KIND, Record, hash, snapshot};
use crate::state::{Batch, News, State};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use thaw_log::bell::Bell;
use thaw_log::book::{self, Book};
use thaw_log::clerk::Desk;
use thaw_log::disk::{About, Disk};
use thaw_log::frame::{self, HEAD, Head};

/// The file.
pub const NAME: &str = "cookies";
/// Bytes of the first read: the head and the index, of a jar of usual size.
const FIRST: usize = 16_384;
/// Pages that are read in one step, when nobody waits for one of them.
const STEP: usize = 8;

/// What callers and the I/O thread share.
pub struct Shared {
    state: Mutex<State>,
    moved: Condvar,
    pub bell: Bell<News>,
}

impl Shared {
    pub fn new(options: &Options) -> io::Result<Shared> {
        Ok(Shared { state: Mutex::new(State::new(options)), moved: Condvar::new(), bell: Bell::new()? })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has moved.
    pub fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the state, and tells the news of it.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let done = work(&mut state);
        // Before those who wait can see it.
        self.bell.ring(state.take_news());
        drop(state);
        self.moved.notify_all();
        done
    }
}

/// What the thread is given to do.
pub enum Job {
    /// Looks at the file.
    Start,
    /// Brings the cookies of this site.
    Site(String),
    /// Brings the pages from this number on.
    Rest(usize),
}

/// How far the file is read.
enum Reading {
    /// Not yet.
    Not,
    /// The index is there.
    Pages(Box<Pages>),
    /// All is.
    Done(Book),
    /// It cannot be.
    Failed,
}

struct Pages {
    about: About,
    head: Head,
    index: Index,
    /// What the first read brought.
    first: Vec<u8>,
    /// Changes after the snapshot, by site, in order.
    changes: HashMap<String, Vec<Record>>,
    next: u64,
}

impl Pages {
    /// The cookies of a page; `None`: it is none, or damaged.
    fn read(&self, disk: &dyn Disk, number: usize) -> io::Result<Option<Vec<Cookie>>> {
        let place = self.index.pages[number];
        let mut bytes = vec![0; place.len as usize];
        let inside = usize::try_from(place.at).ok().and_then(|at| self.first.get(at..at + bytes.len()));
        let read = match inside {
            Some(inside) => {
                bytes.copy_from_slice(inside);
                bytes.len()
            }
            None => disk.read(NAME, place.at, &mut bytes)?,
        };
        let frame = frame::at(&bytes[..read], 0, self.head.salt).filter(|frame| frame.number == number as u64 + 2);
        Ok(frame.and_then(|frame| match Record::read(&bytes[frame.content])? {
            Record::Page(cookies) => Some(cookies),
            _ => None,
        }))
    }
}

/// The thread's own.
pub struct Writer {
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    options: Options,
    reading: Reading,
    /// Where the snapshot ends in the file; `u64::MAX`: it has to be written anew.
    snapshot: u64,
    /// It has to be, though nothing has changed.
    heals: bool,
    /// Nothing is tried before that.
    again: Option<Instant>,
}

impl Writer {
    pub fn new(disk: Arc<dyn Disk>, shared: Arc<Shared>, options: Options) -> Writer {
        Writer { disk, shared, options, reading: Reading::Not, snapshot: 0, heals: false, again: None }
    }

    fn site_of(&self, domain: &str) -> String {
        site(domain, &*self.options.suffixes).into()
    }

    fn site_of_change(&self, change: &Record) -> Option<String> {
        let domain = match change {
            Record::Put(cookie) => &cookie.domain,
            Record::Gone(key) | Record::Used(key, _) => &key.domain,
            Record::Index(_) | Record::Page(_) => return None,
        };
        Some(self.site_of(domain))
    }

    /// Reads where the pages are, and what has changed since they were written. `Ok(None)`: not all of it is right, or
    /// the sites are others now.
    fn look(&mut self, about: About) -> io::Result<Option<Pages>> {
        let mut first = vec![0; FIRST.min(about.len as usize)];
        let read = self.disk.read(NAME, 0, &mut first)?;
        first.truncate(read);
        let Some(head) = frame::at(&first, 0, 0).filter(|frame| frame.number == 0) else { return Ok(None) };
        let from = head.content.end;
        let Some(head) = Head::read(&first[head.content]).filter(|head| head.kind == KIND) else { return Ok(None) };
        if head.label != self.options.suffixes_name.as_bytes() {
            return Ok(None);
        }
        // The index of a jar that is larger than usual.
        let length = first.get(from + 4..from + 8).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
        let Some(length) = length else { return Ok(None) };
        let whole = from + HEAD + length as usize;
        if whole > first.len() && whole as u64 <= about.len {
            first.resize(whole, 0);
            let read = self.disk.read(NAME, read as u64, &mut first[read..])? + read;
            first.truncate(read);
        }
        let Some(frame) = frame::at(&first, from, head.salt).filter(|frame| frame.number == 1) else { return Ok(None) };
        let Some(Record::Index(index)) = Record::read(&first[frame.content.clone()]) else { return Ok(None) };
        let mut end = frame.content.end as u64;
        for page in &index.pages {
            if page.at != end {
                return Ok(None);
            }
            end += u64::from(page.len);
        }
        let Some(rest) = about.len.checked_sub(end) else { return Ok(None) };
        let mut tail = vec![0; rest as usize];
        match usize::try_from(end).ok().and_then(|end| first.get(end..end + tail.len())) {
            Some(inside) => tail.copy_from_slice(inside),
            None if tail.is_empty() => {}
            None => {
                let read = self.disk.read(NAME, end, &mut tail)?;
                tail.truncate(read);
            }
        }
        let found = frame::scan(&tail, 0, index.pages.len() as u64 + 2, head.salt);
        if (found.len as u64) < rest {
            return Ok(None);
        }
        let mut changes: HashMap<String, Vec<Record>> = HashMap::new();
        for frame in &found.frames {
            let Some(change) = Record::read(&tail[frame.content.clone()]) else { return Ok(None) };
            let Some(site) = self.site_of_change(&change) else { return Ok(None) };
            changes.entry(site).or_default().push(change);
        }
        self.snapshot = end;
        let next = (index.pages.len() + 2 + found.frames.len()) as u64;
        Ok(Some(Pages { about, head, index, first, changes, next }))
    }

    fn start(&mut self) -> io::Result<()> {
        if !self.disk.lock()? {
            return Err(io::Error::other("another process uses it"));
        }
        let Some(about) = self.disk.about(NAME)? else {
            self.reading = Reading::Done(Book::new(NAME));
            self.whole(Vec::new());
            return Ok(());
        };
        match self.look(about)? {
            Some(pages) => {
                self.reading = Reading::Pages(Box::new(pages));
                Ok(())
            }
            None => self.salvage(),
        }
    }

    /// Reads the file from end to end, keeping what is readable of it.
    fn salvage(&mut self) -> io::Result<()> {
        let Some((mut book, loaded)) = Book::load(&*self.disk, NAME, true)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let ours = loaded.head.as_ref().is_some_and(|head| head.kind == KIND);
        let mut cookies = BTreeMap::new();
        let mut lost = !ours && !loaded.bytes.is_empty();
        let frames = loaded.found.frames.iter().skip(1).filter(|_| ours);
        for frame in frames {
            match Record::read(&loaded.bytes[frame.content.clone()]) {
                Some(change) => record::apply(&mut cookies, change),
                None => lost = true,
            }
        }
        if let Some(aside) = loaded.aside {
            self.heal(aside);
        } else if lost {
            // A file of records, and some are none of ours: it is kept, not written over.
            let aside = book::move_aside(&*self.disk, NAME)?;
            book = Book::new(NAME);
            self.heal(aside);
        }
        // What was appended may have been cut, or the sites be others: the file is written anew before it is added to.
        self.snapshot = u64::MAX;
        self.reading = Reading::Done(book);
        self.whole(cookies.into_values());
        Ok(())
    }

    /// Part of the file is under another name now: what was read of it is written back soon.
    fn heal(&mut self, aside: String) {
        self.heals = true;
        let mut state = self.shared.lock();
        state.tell(News::Damaged(aside));
        state.hurry();
    }

    /// These are all that were not there yet.
    fn whole(&mut self, cookies: impl IntoIterator<Item = Cookie>) {
        let mut sites: HashMap<String, Vec<Cookie>> = HashMap::new();
        for cookie in cookies {
            sites.entry(self.site_of(&cookie.domain)).or_default().push(cookie);
        }
        self.shared.with(|state| {
            sites.into_iter().for_each(|(site, cookies)| state.arrive(&site, cookies));
            state.missing().iter().for_each(|site| state.arrive(site, Vec::new()));
            state.end_loading();
        });
    }

    /// The cookies of some pages, with what has changed since, go into memory. `also`: a site that may have none there.
    fn bring(&mut self, numbers: std::ops::Range<usize>, also: Option<&str>) -> io::Result<bool> {
        let Reading::Pages(pages) = &mut self.reading else { return Ok(true) };
        let mut sites: HashMap<String, BTreeMap<Key, Cookie>> =
            also.map(|site| (site.into(), BTreeMap::new())).into_iter().collect();
        for number in numbers {
            let Some(cookies) = pages.read(&*self.disk, number)? else { return Ok(false) };
            for cookie in cookies {
                let site = site(&cookie.domain, &*self.options.suffixes);
                sites.entry(site.into()).or_default().insert(cookie.key(), cookie);
            }
        }
        for (site, cookies) in &mut sites {
            for change in pages.changes.remove(site).unwrap_or_default() {
                record::apply(cookies, change);
            }
        }
        self.shared.with(|state| {
            sites.into_iter().for_each(|(site, cookies)| state.arrive(&site, cookies.into_values().collect()))
        });
        Ok(true)
    }

    fn read(&mut self, job: Job) -> io::Result<Option<Job>> {
        let (numbers, also, next) = match (job, &self.reading) {
            (Job::Start, _) => return self.start().map(|()| None),
            (Job::Site(site), Reading::Pages(pages)) => {
                if self.shared.lock().is_loaded(&site) {
                    return Ok(None);
                }
                let number = pages.index.find(hash(&site));
                (number.map_or(0..0, |number| number..number + 1), Some(site), None)
            }
            (Job::Rest(from), Reading::Pages(pages)) => {
                let to = (from + STEP).min(pages.index.pages.len());
                (from..to, None, Some(to))
            }
            _ => return Ok(None),
        };
        if !self.bring(numbers, also.as_deref())? {
            return self.salvage().map(|()| None);
        }
        let Reading::Pages(pages) = &mut self.reading else { return Ok(None) };
        if next.is_none_or(|next| next < pages.index.pages.len()) {
            return Ok(next.map(Job::Rest));
        }
        let mut cookies = BTreeMap::new();
        let changes = std::mem::take(&mut pages.changes).into_values().flatten();
        changes.for_each(|change| record::apply(&mut cookies, change));
        self.reading = Reading::Done(Book::resume(NAME, pages.about, &pages.head, pages.next));
        self.whole(cookies.into_values());
        Ok(None)
    }

    fn fail(&mut self, error: &io::Error) {
        self.reading = Reading::Failed;
        let why = format!("{} cannot be read, its cookies are not there and none is kept: {error}", self.file());
        self.shared.with(|state| {
            state.failed = Some(why.clone());
            state.tell(News::Trouble(why));
        });
        self.whole(Vec::new());
    }

    fn file(&self) -> String {
        self.options.path.join(NAME).display().to_string()
    }

    fn rewrite(&mut self, forget: bool) -> io::Result<()> {
        let Reading::Done(book) = &mut self.reading else { return Ok(()) };
        let groups = self.shared.lock().groups();
        let label = self.options.suffixes_name.as_bytes().to_vec();
        let from = (HEAD + frame::FIXED + label.len()) as u64;
        let contents = snapshot(groups, from, HEAD);
        let contents: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
        let head = Head { kind: KIND, generation: 0, made_ms: 0, salt: 0, label };
        book.replace(&*self.disk, head, &contents)?;
        (self.snapshot, self.heals) = (book.len(), false);
        if forget {
            // What was put aside may hold what is to be forgotten.
            let aside: Vec<String> = { self.disk.list()?.into_iter() }
                .map(|file| file.0)
                .filter(|name| name.starts_with(&format!("{NAME}{}", book::DAMAGED)))
                .collect();
            aside.iter().try_for_each(|name| self.disk.unlink(name))?;
            if !aside.is_empty() {
                self.disk.sync_names()?;
            }
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let Reading::Done(book) = &mut self.reading else { return Err(io::Error::other("it cannot be read")) };
        if !batch.rewrite && batch.records.is_empty() && !self.heals {
            return Ok(());
        }
        let changes = book.len().saturating_sub(self.snapshot);
        let much = changes > self.options.compact && changes > self.snapshot;
        if batch.rewrite || self.heals || much || !book.is_sound() || self.snapshot == u64::MAX {
            return self.rewrite(batch.rewrite);
        }
        let contents: Vec<Vec<u8>> = batch.records.iter().map(Record::bytes).collect();
        let contents: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
        book.append(&*self.disk, &contents)?;
        book.sync(&*self.disk)
    }

    fn settle(&mut self) {
        let mut batch = self.shared.lock().take();
        let done = self.write(&batch);
        let failed = self.shared.lock().failed.clone();
        let how = match (&done, failed) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(why)) => Err(why),
            (Err(error), None) => Err(format!("{} cannot be written: {error}", self.file())),
        };
        self.again = (how.is_err()).then(|| Instant::now() + self.options.retry);
        let tickets = std::mem::take(&mut batch.tickets);
        let lasts = !matches!(self.reading, Reading::Failed);
        self.shared.with(|state| {
            if let (Err(why), true) = (&how, lasts) {
                state.put_back(batch);
                state.hurry();
                state.tell(News::Trouble(why.clone()));
            }
            state.end(tickets, &how);
        });
    }
}

impl Desk for Writer {
    type Job = Job;

    fn work(&mut self, job: Job) -> Option<Job> {
        self.read(job).unwrap_or_else(|error| {
            self.fail(&error);
            None
        })
    }

    fn due(&mut self, now: Instant) -> Option<Instant> {
        if matches!(self.reading, Reading::Not | Reading::Pages(_)) {
            return None;
        }
        let (since, waited) = self.shared.lock().due();
        let waits = since.map(|since| since + self.options.delay);
        let at = match (waited, waits, self.again) {
            // Somebody waits: what fails then is told at once.
            (true, _, _) => now,
            (false, None, _) => return None,
            (false, Some(at), None) => at,
            (false, Some(at), Some(again)) => at.max(again),
        };
        if at > now {
            return Some(at);
        }
        self.settle();
        let (since, _) = self.shared.lock().due();
        since.map(|since| (since + self.options.delay).max(self.again.unwrap_or(now)))
    }

    fn end(&mut self) {
        let state = self.shared.lock();
        let (since, waited) = state.due();
        let left = since.is_some() || waited || state.has_used();
        drop(state);
        if left {
            self.settle();
        }
    }
}
