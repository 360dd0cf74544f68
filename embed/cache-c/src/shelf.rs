//! The rules of `thaw_httpcache` over the entries of `thaw_entrystore`, for a program that has its own HTTP client: it
//! asks before it sends, says what came, and is told what to do. No call waits for the disk; what comes later is an
//! [`Event`], fetched when a descriptor is readable.
//!
//! All variants of a key are one entry, packed as `thaw_httpcache::packed` says. What is to become of a key is done one
//! change after the other, so that none is lost.

use crate::change::{Change, Plan};
use crate::memory::Memory;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, request, response};
use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use thaw_entrystore::{Clear, Event as Came, Get, Key as Name, Options as Limits, Phase, Put, Store, Ticket, Urgency};
use thaw_httpcache::packed::{self, NUMBER, Variant};
use thaw_httpcache::{Answered, Body, Cache, Decision, Forward, Key, Options as Rules, Store as ToStore, Stored};

/// So often is looked again where what was found has gone before its body could be opened; then nothing was found.
const MOST_TRIES: u32 = 3;

/// How a cache is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory, which is made if need be. `None`: in memory alone.
    pub path: Option<PathBuf>,
    /// Bytes of what is kept, from which on what was not used goes.
    pub budget: u64,
    /// Bytes of it that are in memory as well.
    pub memory: usize,
    /// Bytes of the largest body that is kept. It is never more than an eighth of the budget, nor than half of what may
    /// wait for the disk (32 MiB): until its end a body that comes is in memory.
    pub most_body: u64,
    /// What the cache is told about itself.
    pub rules: Rules,
}

impl Options {
    /// A cache of one user in a directory, 1 GiB, bodies of up to 32 MiB. Without one: in memory, 64 MiB.
    pub fn new(path: Option<PathBuf>) -> Options {
        let (budget, memory) = if path.is_some() { (1 << 30, 16 << 20) } else { (64 << 20, 0) };
        Options { path, budget, memory, most_body: u64::MAX, rules: Rules::private("thaw") }
    }
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing yet: the disk is asked, and [`Event::Decided`] will tell.
    Wait,
    /// Answer it with [`Exchange::head`] and the stored body, which [`Exchange::read`] asks for.
    Serve,
    /// Send [`Exchange::request`], then call [`Exchange::response`] or [`Exchange::failed`].
    Forward,
    /// Answer it with [`Exchange::head`] and no body: 504, for who wants nothing but what is stored.
    Answer,
    /// Answer it with [`Exchange::head`] and the origin's body, and hand that to [`Exchange::write`] as well.
    Store,
    /// Answer it with [`Exchange::head`] and the origin's body, which is not kept.
    Pass,
    /// There is no answer.
    Fail,
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What is to be done, and with [`Action::Serve`] how many bytes of a body there are to be read.
    Decided(Action, u64),
    /// Bytes of a stored body, in order.
    Body(Bytes),
    /// All of it has come.
    End,
    /// What follows of it cannot be read; what came is right.
    Broken,
    /// What was finished is stored, and outlives the process.
    Stored,
    /// What was finished is not stored: it is too large, cut short, or the disk does not take it.
    Dropped,
    /// An invalidation, a clearing or a flush is done; `false`: the disk failed.
    Done(bool),
}

/// What goes against the order of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The exchange does not stand where this can be called.
    State,
    /// The cache is closed.
    Closed,
    /// The body is too large to be kept: it is not stored, and no more of it need be handed over.
    TooLarge,
}

/// What a cache holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that are stored.
    pub entries: u64,
    /// Bytes of files.
    pub disk: u64,
    /// Bytes of entries in memory.
    pub memory: u64,
    /// Requests that were answered from what is stored.
    pub served: u64,
    /// Those of them whose origin had said that it stands.
    pub validated: u64,
    /// Requests that were to be sent to their origin.
    pub forwarded: u64,
    /// Responses stored.
    pub stored: u64,
    /// Responses that were to be stored, and are not.
    pub dropped: u64,
    /// Entries that went for others.
    pub evicted: u64,
    /// Reads that found a record which is not right.
    pub broken: u64,
    /// Whether the directory cannot be used, or another process has it: nothing is found or kept then.
    pub dead: bool,
}

/// A read of a stored body.
struct Reading {
    ticket: Ticket,
    /// Bytes that are still to come, and those of them that nobody has asked for.
    left: u64,
    unasked: u64,
}

/// A response that is stored while its body comes.
struct Begun {
    stored: Stored,
    offset: u64,
    body: Vec<u8>,
    received: u64,
    /// What it supersedes.
    remove: Vec<Stored>,
    too_large: bool,
}

/// What was found of a key.
#[derive(Clone, Default)]
struct Found {
    number: Option<u64>,
    heads: Vec<Stored>,
}

/// A request on its way.
struct Asked {
    tag: u64,
    request: request::Parts,
    key: Key,
    /// `None`: it is too long for the store.
    name: Option<Name>,
    action: Action,
    head: Option<response::Parts>,
    forward: Option<Box<Forward>>,
    refresh: Option<Box<Forward>>,
    found: Found,
    /// The read of the look-up, and what of its number has come.
    look: Option<(Ticket, Found, BytesMut)>,
    /// What is wanted of the body that is being opened.
    wanted: Range<u64>,
    reading: Option<Reading>,
    begun: Option<Begun>,
    /// What is to be changed when the body is open.
    after: Change,
    /// Nobody waits for its answer.
    behind: bool,
    /// It was invalidated: nothing of it is stored.
    void: bool,
    tries: u32,
}

/// What a read is for.
#[derive(Clone, Copy)]
enum For {
    Look(u64),
    Open(u64),
    Body(u64),
    Change,
}

/// A change on its way.
struct Job {
    number: u64,
    change: Change,
    /// The exchange that is told.
    teller: Option<u64>,
    void: bool,
    /// What has been read.
    meta: Bytes,
    parts: Vec<Bytes>,
    /// Whether bodies are read, not metadata alone.
    whole: bool,
}

#[derive(Default)]
struct Inner {
    store: Option<Store>,
    reads: HashMap<Ticket, (For, Option<Name>)>,
    asked: HashMap<u64, Asked>,
    /// Changes by the name of their key: the first of each is under way.
    jobs: HashMap<Name, VecDeque<Job>>,
    writes: HashMap<Ticket, Name>,
    /// Whom the end of a call is told.
    calls: HashMap<Ticket, u64>,
    /// Numbers of changes that are not done, and flushes that wait for all below theirs.
    undone: BTreeSet<u64>,
    flushes: Vec<(u64, u64)>,
    /// With the exchange that they are of; 0: none.
    events: VecDeque<(u64, u64, Event)>,
    next: u64,
    counts: Stats,
    /// Only [`Shelf::close`] goes on.
    closing: bool,
}

/// A cache.
pub struct Shelf {
    cache: Cache,
    most_body: u64,
    inner: Mutex<Inner>,
    /// Readable while there are events, while the store has some, and while either is.
    ready: OwnedFd,
    disk: OwnedFd,
    both: OwnedFd,
    hasher: RandomState,
}

/// A request and what comes of it. Dropped, its reads end and what is not finished is not stored; no event of it comes
/// any more.
pub struct Exchange {
    shelf: Arc<Shelf>,
    id: u64,
}

fn name(key: &Key) -> Option<Name> {
    Name::new(b"", &key.to_bytes())
}

impl Shelf {
    /// Opens a cache. A directory that cannot be used, or that another process uses, is no error: nothing is found and
    /// nothing kept then ([`Stats::dead`]).
    ///
    /// # Errors
    /// The process has no file descriptor or no thread left.
    pub fn open(options: Options) -> io::Result<Arc<Shelf>> {
        let Options { path, budget, memory, most_body, rules } = options;
        let mut limits = match &path {
            Some(path) => Limits::new(path),
            None => Limits::on(Arc::new(Memory::default())),
        };
        // Small budgets need small segments: what goes, goes by segments.
        let segment = (budget / 8).clamp(64 << 10, limits.segment.into());
        (limits.budget, limits.memory, limits.segment) = (budget, memory, segment as u32);
        let fits = (budget / 8).min(limits.pending as u64 / 2).saturating_sub(NUMBER as u64);
        let most_body = most_body.min(fits);
        let store = Store::open(limits)?;
        let ready = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let disk = store.fd().try_clone_to_owned()?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in [store.fd(), ready.as_fd()] {
            epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let inner = Inner { store: Some(store), next: 1, ..Inner::default() };
        let (cache, hasher) = (Cache::new(rules), RandomState::new());
        Ok(Arc::new(Shelf { cache, most_body, inner: Mutex::new(inner), ready, disk, both, hasher }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, as long as the cache is open.
    fn entered(&self) -> Result<MutexGuard<'_, Inner>, Misuse> {
        let inner = self.inner();
        if inner.closing { Err(Misuse::Closed) } else { Ok(inner) }
    }

    /// Readable while events wait. The same for the whole life of the cache.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }

    /// The next event, with the tag of the call that it comes of. `None`: there is none now.
    pub fn next(&self) -> Option<(u64, Event)> {
        let mut inner = self.entered().ok()?;
        if inner.events.is_empty() {
            self.turn(&mut inner);
        }
        let (_, tag, event) = inner.events.pop_front()?;
        self.settle(&inner);
        Some((tag, event))
    }

    /// Makes the descriptor tell what is true.
    fn settle(&self, inner: &Inner) {
        // Neither blocks, and a full counter is as readable as another.
        if inner.events.is_empty() {
            let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        } else {
            let _ = rustix::io::write(&self.ready, &1_u64.to_ne_bytes());
        }
    }

    fn tell(&self, inner: &mut Inner, id: u64, tag: u64, event: Event) {
        inner.events.push_back((id, tag, event));
        if inner.events.len() == 1 {
            self.settle(inner);
        }
    }

    /// Tells an exchange, if it is still there.
    fn tell_asked(&self, inner: &mut Inner, id: u64, event: Event) {
        if let Some(tag) = inner.asked.get(&id).map(|asked| asked.tag) {
            self.tell(inner, id, tag, event);
        }
    }

    /// Takes what the store has to tell.
    fn turn(&self, inner: &mut Inner) {
        let Some(store) = &inner.store else { return };
        for (ticket, event) in store.completions() {
            if let Came::Done(done) = event {
                if let Some(name) = inner.writes.remove(&ticket) {
                    self.changed(inner, &name, done);
                } else if let Some(tag) = inner.calls.remove(&ticket) {
                    self.tell(inner, 0, tag, Event::Done(done));
                }
                continue;
            }
            let Some((purpose, name)) = inner.reads.get(&ticket).cloned() else { continue };
            if matches!(event, Came::End | Came::Miss | Came::Aborted) {
                inner.reads.remove(&ticket);
            }
            match (purpose, name) {
                (For::Look(id), _) => self.looked(inner, id, ticket, event),
                (For::Open(id), _) => self.opened(inner, id, ticket, event),
                (For::Body(id), _) => self.body(inner, id, ticket, event),
                (For::Change, Some(name)) => self.loaded(inner, &name, event),
                (For::Change, None) => {}
            }
        }
    }

    /// Asks what to do with a request. Its URI is absolute, or it has a field `Host`. `partition` keeps apart what must
    /// not be shared; it has no NUL. [`Event::Decided`] with this tag tells.
    ///
    /// # Errors
    /// The cache is closed.
    pub fn ask(self: &Arc<Self>, request: request::Parts, partition: &str, tag: u64) -> Result<Exchange, Misuse> {
        let mut inner = self.entered()?;
        let key = Key::of(&request.uri, &request.headers, partition);
        let name = name(&key);
        let id = inner.begin(Asked::new(tag, request, key, name));
        self.look(&mut inner, id);
        Ok(Exchange { shelf: Arc::clone(self), id })
    }

    /// Looks what is stored.
    fn look(&self, inner: &mut Inner, id: u64) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        (asked.action, asked.void, asked.found) = (Action::Wait, false, Found::default());
        let safe = asked.request.method == Method::GET || asked.request.method == Method::HEAD;
        match (&asked.name, &inner.store) {
            // What is stored answers nothing else.
            (Some(name), Some(store)) if safe && asked.tries < MOST_TRIES => {
                let credit = NUMBER as u64;
                let ticket = store.get_with(name, Get { urgency: Urgency::Urgent, credit, ..Get::default() });
                asked.look = Some((ticket, Found::default(), BytesMut::new()));
                inner.reads.insert(ticket, (For::Look(id), None));
            }
            _ => self.decide(inner, id),
        }
    }

    fn looked(&self, inner: &mut Inner, id: u64, ticket: Ticket, event: Came) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        let Some((_, found, number)) = &mut asked.look else { return };
        let sound = match event {
            Came::Open { meta, .. } => {
                let heads = packed::heads(meta.clone()).unwrap_or_default();
                found.number = packed::number(&meta);
                let sound = !heads.is_empty() && heads.iter().all(|stored| stored.key == asked.key);
                found.heads = heads;
                sound
            }
            Came::Chunk { bytes, .. } => {
                number.extend_from_slice(&bytes);
                if number.len() < NUMBER {
                    return;
                }
                if packed::number(number) == found.number {
                    asked.found = std::mem::take(found);
                    return self.decide(inner, id);
                }
                false
            }
            Came::Miss => {
                asked.look = None;
                return self.decide(inner, id);
            }
            // It ended before its number, or is none that can be read.
            _ => false,
        };
        if !sound {
            asked.look = None;
            inner.cancel(ticket);
            let name = inner.asked.get(&id).and_then(|asked| asked.name.clone());
            if let (Some(name), Some(store)) = (name, &inner.store) {
                store.remove(&name);
            }
            self.decide(inner, id);
        }
    }

    fn decide(&self, inner: &mut Inner, id: u64) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        let now = SystemTime::now();
        match self.cache.lookup(&asked.request, &asked.key, &asked.found.heads, now) {
            Decision::Serve(serve) => {
                asked.refresh = serve.revalidate;
                self.serve(inner, id, serve.reply.head, &serve.reply.body);
            }
            Decision::Forward(forward) => {
                asked.forward = Some(forward);
                self.decided(inner, id, Action::Forward, 0);
            }
            Decision::Answer(head) => {
                asked.head = Some(*head);
                self.decided(inner, id, Action::Answer, 0);
            }
        }
    }

    /// Says what is to be done. The read of the look-up has done its work.
    fn decided(&self, inner: &mut Inner, id: u64, action: Action, length: u64) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        asked.action = action;
        let look = asked.look.take();
        if let Some((ticket, ..)) = look {
            inner.cancel(ticket);
        }
        inner.count(action);
        self.tell_asked(inner, id, Event::Decided(action, length));
        if action == Action::Serve && length == 0 {
            self.tell_asked(inner, id, Event::End);
        }
    }

    /// Opens the body of an answer; then it is said.
    fn serve(&self, inner: &mut Inner, id: u64, head: response::Parts, body: &Body) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        asked.head = Some(head);
        let Body::Stored { index, range } = body else { return self.decided(inner, id, Action::Serve, 0) };
        let before: u64 = asked.found.heads[..*index].iter().filter_map(|stored| stored.length).sum();
        let at = NUMBER as u64 + before;
        asked.wanted = at + range.start..at + range.end;
        let length = range.end - range.start;
        if at + range.start == NUMBER as u64
            && let Some((ticket, ..)) = asked.look.take()
        {
            // The read of the look-up stands where the body begins.
            asked.reading = Some(Reading { ticket, left: length, unasked: length });
            inner.reads.insert(ticket, (For::Body(id), None));
            return self.decided(inner, id, Action::Serve, length);
        }
        let look = asked.look.take();
        let get = Get { urgency: Urgency::Urgent, range: asked.wanted.clone(), credit: 0 };
        if let (Some(name), Some(store)) = (&asked.name, &inner.store) {
            let ticket = store.get_with(name, get);
            asked.reading = Some(Reading { ticket, left: length, unasked: length });
            inner.reads.insert(ticket, (For::Open(id), None));
        }
        if let Some((ticket, ..)) = look {
            inner.cancel(ticket);
        }
    }

    fn opened(&self, inner: &mut Inner, id: u64, ticket: Ticket, event: Came) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        let change = std::mem::take(&mut asked.after);
        let same = match event {
            Came::Open { meta, .. } => packed::number(&meta) == asked.found.number,
            _ => false,
        };
        if same {
            inner.reads.insert(ticket, (For::Body(id), None));
            let length = asked.wanted.end - asked.wanted.start;
            self.decided(inner, id, Action::Serve, length);
        } else {
            // What was found has gone, or is another.
            asked.reading = None;
            asked.tries += 1;
            inner.cancel(ticket);
        }
        self.change(inner, id, change, false);
        if !same {
            self.look(inner, id);
        }
    }

    fn body(&self, inner: &mut Inner, id: u64, ticket: Ticket, event: Came) {
        let Some(asked) = inner.asked.get_mut(&id) else { return };
        let Some(reading) = &mut asked.reading else { return };
        match event {
            Came::Chunk { bytes, .. } => {
                reading.left = reading.left.saturating_sub(bytes.len() as u64);
                let end = reading.left == 0;
                if end {
                    asked.reading = None;
                    inner.cancel(ticket);
                }
                self.tell_asked(inner, id, Event::Body(bytes));
                if end {
                    self.tell_asked(inner, id, Event::End);
                }
            }
            Came::End | Came::Miss | Came::Aborted => {
                asked.reading = None;
                self.tell_asked(inner, id, Event::Broken);
            }
            _ => {}
        }
    }

    /// Begins a change of the key of an exchange, behind those that are under way.
    fn change(&self, inner: &mut Inner, id: u64, change: Change, tell: bool) {
        let Some(asked) = inner.asked.get(&id) else { return };
        let teller = tell.then_some(id);
        let (Some(name), false, true) = (asked.name.clone(), asked.void, inner.store.is_some()) else {
            if tell {
                self.dropped(inner, id);
            }
            return;
        };
        if change.is_empty() {
            return;
        }
        let number = inner.next;
        inner.next += 1;
        inner.undone.insert(number);
        let (meta, parts) = (Bytes::new(), Vec::new());
        let jobs = inner.jobs.entry(name.clone()).or_default();
        jobs.push_back(Job { number, change, teller, void: false, meta, parts, whole: false });
        if jobs.len() == 1 {
            inner.load(&name, false);
        }
    }

    fn dropped(&self, inner: &mut Inner, id: u64) {
        inner.counts.dropped += 1;
        self.tell_asked(inner, id, Event::Dropped);
    }

    /// What there is of a key whose change is under way.
    fn loaded(&self, inner: &mut Inner, name: &Name, event: Came) {
        let Some(job) = inner.jobs.get_mut(name).and_then(VecDeque::front_mut) else { return };
        let (found, whole) = match event {
            Came::Open { meta, .. } => {
                job.meta = meta;
                return;
            }
            Came::Chunk { bytes, .. } => {
                job.parts.push(bytes);
                return;
            }
            Came::End => (true, job.whole),
            Came::Miss | Came::Aborted => (false, job.whole),
            _ => return,
        };
        let meta = if found { std::mem::take(&mut job.meta) } else { Bytes::new() };
        let parts = std::mem::take(&mut job.parts);
        if job.void {
            return self.changed(inner, name, false);
        }
        let heads = packed::heads(meta.clone()).unwrap_or_default();
        let plan = job.change.plan(&heads, self.most_body);
        let moves = job.change.add.is_some() || plan.kept.len() != heads.len();
        if moves && !whole && !plan.kept.is_empty() {
            // Those that stay have to be written beside it.
            job.whole = true;
            return inner.load(name, true);
        }
        let variants = if whole { packed::unpack(meta.clone(), parts) } else { Some(Vec::new()) };
        // What cannot be read is not kept.
        let plan = if variants.is_some() { plan } else { Plan { kept: Vec::new(), updated: false } };
        let ticket = inner.write(name, &meta, plan, variants.unwrap_or_default(), moves, &self.hasher);
        match ticket {
            Some(ticket) => _ = inner.writes.insert(ticket, name.clone()),
            None => self.changed(inner, name, true),
        }
    }

    /// The change of a key that was under way is done.
    fn changed(&self, inner: &mut Inner, name: &Name, done: bool) {
        let Some(jobs) = inner.jobs.get_mut(name) else { return };
        let job = jobs.pop_front();
        let more = !jobs.is_empty();
        if !more {
            inner.jobs.remove(name);
        }
        if let Some(job) = job {
            inner.undone.remove(&job.number);
            match job.teller {
                Some(id) if done && !job.void => {
                    inner.counts.stored += 1;
                    self.tell_asked(inner, id, Event::Stored);
                }
                Some(id) => self.dropped(inner, id),
                None => {}
            }
        }
        if more {
            inner.load(name, false);
        }
        inner.flush();
    }

    /// Nothing of these keys may be used any more, also not what still comes. `except`: the exchange that says so.
    fn forget(&self, inner: &mut Inner, of: impl Fn(&[u8]) -> bool, except: u64) {
        let names = inner.jobs.iter_mut().filter(|(name, _)| of(name.name()));
        names.flat_map(|(_, jobs)| jobs).for_each(|job| job.void = true);
        let all = inner.asked.iter_mut().filter(|(id, _)| **id != except);
        for (_, asked) in all.filter(|(_, asked)| asked.name.as_ref().is_some_and(|name| of(name.name()))) {
            asked.void = true;
        }
    }

    fn forget_key(&self, inner: &mut Inner, key: &Key, except: u64) -> Option<Ticket> {
        let gone = name(key)?;
        self.forget(inner, |name| name == gone.name(), except);
        inner.store.as_ref().map(|store| store.remove(&gone))
    }

    /// Takes all variants of a URL away, also what still comes. [`Event::Done`] tells.
    ///
    /// # Errors
    /// The cache is closed.
    pub fn invalidate(&self, uri: &Uri, partition: &str, tag: u64) -> Result<(), Misuse> {
        let mut inner = self.entered()?;
        let key = Key::of(uri, &HeaderMap::new(), partition);
        match self.forget_key(&mut inner, &key, 0) {
            Some(ticket) => _ = inner.calls.insert(ticket, tag),
            // What is too long for the store was never in it.
            None => self.tell(&mut inner, 0, tag, Event::Done(true)),
        }
        Ok(())
    }

    /// Takes away all, all of a partition, or what of it has a URL in normal form (see [`Key`]) that begins so; also
    /// what still comes. Requests miss it from now on. [`Event::Done`]: it cannot come back.
    ///
    /// # Errors
    /// The cache is closed.
    pub fn clear(&self, of: Option<(&str, &str)>, tag: u64) -> Result<(), Misuse> {
        let mut inner = self.entered()?;
        let what = match of {
            None => Clear::All,
            Some((partition, prefix)) => Clear::Prefix(format!("{partition}\0{prefix}").into_bytes()),
        };
        let begins = |name: &[u8]| matches!(&what, Clear::Prefix(prefix) if !name.starts_with(prefix));
        self.forget(&mut inner, |name| !begins(name), 0);
        let Some(store) = &inner.store else { return Err(Misuse::Closed) };
        let ticket = store.clear(what.clone());
        inner.calls.insert(ticket, tag);
        Ok(())
    }

    /// [`Event::Done`] when all that was finished before is on the medium.
    ///
    /// # Errors
    /// The cache is closed.
    pub fn flush(&self, tag: u64) -> Result<(), Misuse> {
        let mut inner = self.entered()?;
        let below = inner.next;
        inner.flushes.push((below, tag));
        inner.flush();
        Ok(())
    }

    /// What it holds and has done.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        let Some(store) = &inner.store else { return Stats { dead: true, ..inner.counts } };
        let of = store.stats();
        Stats {
            entries: of.entries,
            disk: of.counts.disk,
            memory: of.memory,
            evicted: of.counts.evicted,
            broken: of.counts.broken,
            dead: of.phase == Phase::Dead,
            ..inner.counts
        }
    }

    /// Writes what was finished, and waits for that: the one call that does. What is still open has ended then: its
    /// calls say that the cache is closed.
    pub fn close(&self) {
        loop {
            let mut inner = self.inner();
            inner.closing = true;
            self.turn(&mut inner);
            if inner.undone.is_empty() {
                let store = inner.store.take();
                drop(inner);
                // It writes and commits; nobody is kept from a call meanwhile.
                return drop(store);
            }
            drop(inner);
            // An interrupted wait is one turn more.
            let _ = rustix::event::poll(&mut [PollFd::new(&self.disk, PollFlags::IN)], None);
        }
    }
}

impl Asked {
    fn new(tag: u64, request: request::Parts, key: Key, name: Option<Name>) -> Asked {
        Asked {
            tag,
            request,
            key,
            name,
            action: Action::Wait,
            head: None,
            forward: None,
            refresh: None,
            found: Found::default(),
            look: None,
            wanted: 0..0,
            reading: None,
            begun: None,
            after: Change::default(),
            behind: false,
            void: false,
            tries: 0,
        }
    }
}

impl Inner {
    fn begin(&mut self, asked: Asked) -> u64 {
        let id = self.next;
        self.next += 1;
        self.asked.insert(id, asked);
        id
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.reads.remove(&ticket);
        if let Some(store) = &self.store {
            store.cancel(ticket);
        }
    }

    fn count(&mut self, action: Action) {
        match action {
            Action::Serve => self.counts.served += 1,
            Action::Forward => self.counts.forwarded += 1,
            _ => {}
        }
    }

    /// Reads what there is of a key that is to be changed: its metadata, or all.
    fn load(&mut self, name: &Name, whole: bool) {
        let Some(store) = &self.store else { return };
        let range = if whole { 0..u64::MAX } else { 0..0 };
        let ticket = store.get_with(name, Get { range, ..Get::default() });
        self.reads.insert(ticket, (For::Change, Some(name.clone())));
    }

    /// Writes what a change makes of a key. `None`: there is nothing to write.
    fn write(
        &mut self,
        name: &Name,
        meta: &[u8],
        plan: Plan,
        variants: Vec<Variant>,
        moves: bool,
        hasher: &RandomState,
    ) -> Option<Ticket> {
        let job = self.jobs.get_mut(name)?.front_mut()?;
        let store = self.store.as_ref()?;
        if !moves {
            let heads = plan.kept.iter().map(|(_, stored)| stored);
            return plan.updated.then(|| packed::meta(packed::number(meta)?, heads))?.map(|meta| {
                // The number stands at the beginning of the body that is there.
                store.update_meta(name, meta)
            });
        }
        let all = std::mem::take(&mut job.change).carry_out(plan, variants);
        if all.is_empty() {
            return Some(store.remove(name));
        }
        let (meta, body) = packed::pack(hasher.hash_one(job.number), &all);
        Some(store.put(name, Put { meta, ..Put::default() }, body))
    }

    /// Begins the flushes that wait for nothing any more.
    fn flush(&mut self) {
        let first = self.undone.first().copied().unwrap_or(u64::MAX);
        let Some(store) = &self.store else { return };
        let calls = &mut self.calls;
        self.flushes.retain(|(below, tag)| {
            let waits = first < *below;
            if !waits {
                calls.insert(store.flush(), *tag);
            }
            waits
        });
    }
}

/// Whether a response can become a whole one, and is small enough.
fn may_become_whole(store: &ToStore, most: u64) -> bool {
    let stored = &store.stored;
    let unknown = stored.length.is_none() && stored.held.is_empty();
    store.into.is_none() && (unknown || (stored.is_whole() && stored.length.is_some_and(|length| length <= most)))
}

/// Takes back what `Cache-Status` says of storing.
fn is_not_stored(headers: &mut HeaderMap) {
    let name = HeaderName::from_static("cache-status");
    let mut lines: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
    let plain = lines.last().and_then(|last| HeaderValue::from_bytes(last.as_bytes().strip_suffix(b"; stored")?).ok());
    if let (Some(plain), Some(last)) = (plain, lines.last_mut()) {
        *last = plain;
        headers.remove(&name);
        lines.into_iter().for_each(|line| _ = headers.append(&name, line));
    }
}

impl Exchange {
    /// What is to be done now.
    pub fn action(&self) -> Action {
        self.shelf.inner().asked.get(&self.id).map_or(Action::Fail, |asked| asked.action)
    }

    /// The head of the answer, where there is one. Fields of the hop are not in it.
    pub fn head(&self) -> Option<response::Parts> {
        self.shelf.inner().asked.get(&self.id)?.head.clone()
    }

    /// The request for the origin: with validators where that helps, without fields of the hop.
    pub fn request(&self) -> Option<request::Parts> {
        Some(self.shelf.inner().asked.get(&self.id)?.forward.as_ref()?.request.clone())
    }

    /// Why nothing stored answers, as in `Cache-Status` (RFC 9211 section 2.2).
    pub fn reason(&self) -> Option<&'static str> {
        Some(self.shelf.inner().asked.get(&self.id)?.forward.as_ref()?.reason())
    }

    /// Whether a stale answer was served which is to be validated meanwhile, see [`Exchange::refresh`].
    pub fn wants_refresh(&self) -> bool {
        self.shelf.inner().asked.get(&self.id).is_some_and(|asked| asked.refresh.is_some())
    }

    /// An exchange of its own that validates a stale answer behind whoever has it (RFC 5861): it begins with
    /// [`Action::Forward`], and there is nobody to answer. `None`: there is nothing to validate.
    pub fn refresh(&self, tag: u64) -> Option<Exchange> {
        let mut inner = self.shelf.inner();
        let asked = inner.asked.get_mut(&self.id)?;
        let forward = asked.refresh.take()?;
        let new = Asked {
            action: Action::Forward,
            forward: Some(forward),
            found: asked.found.clone(),
            void: asked.void,
            behind: true,
            ..Asked::new(tag, asked.request.clone(), asked.key.clone(), asked.name.clone())
        };
        inner.count(Action::Forward);
        let id = inner.begin(new);
        Some(Exchange { shelf: Arc::clone(&self.shelf), id })
    }

    /// The head of the origin's final response; `sent` is when the request was. What to do now.
    ///
    /// # Errors
    /// Nothing was forwarded, or the cache is closed.
    pub fn response(&self, head: response::Parts, sent: SystemTime) -> Result<Action, Misuse> {
        let (shelf, id) = (&*self.shelf, self.id);
        let mut inner = shelf.entered()?;
        let asked = inner.asked.get_mut(&id).filter(|asked| asked.action == Action::Forward).ok_or(Misuse::State)?;
        let forward = asked.forward.take().ok_or(Misuse::State)?;
        let now = SystemTime::now();
        let status = head.status;
        let outcome = match shelf.cache.on_response(&asked.request, &forward, &asked.found.heads, head, sent, now) {
            Answered::Retry(again) => {
                asked.forward = Some(again);
                inner.count(Action::Forward);
                return Ok(Action::Forward);
            }
            Answered::Done(outcome) => *outcome,
        };
        let found = |index: &usize| asked.found.heads[*index].clone();
        let remove: Vec<Stored> = outcome.remove.iter().map(found).collect();
        let update = outcome.update.into_iter().map(|(index, new)| (found(&index), new)).collect();
        for key in &outcome.invalidate {
            shelf.forget_key(&mut inner, key, id);
        }
        let asked = inner.asked.get_mut(&id).ok_or(Misuse::State)?;
        let mut head = outcome.reply.head;
        if outcome.reply.body == Body::Upstream {
            let storable = asked.name.is_some() && !asked.void;
            let told = outcome.store.is_some();
            let store = outcome.store.filter(|store| storable && may_become_whole(store, shelf.most_body));
            if told && store.is_none() {
                is_not_stored(&mut head.headers);
            }
            asked.head = Some(head);
            asked.action = if store.is_some() { Action::Store } else { Action::Pass };
            let (action, mut superseded) = (asked.action, remove);
            if let Some(ToStore { stored, offset, .. }) = store {
                let remove = std::mem::take(&mut superseded);
                asked.begun = Some(Begun { stored, offset, body: Vec::new(), received: 0, remove, too_large: false });
            }
            shelf.change(&mut inner, id, Change { remove: superseded, update, add: None }, false);
            return Ok(action);
        }
        let change = Change { remove, update, add: None };
        if status == StatusCode::NOT_MODIFIED {
            inner.counts.validated += 1;
        }
        let asked = inner.asked.get_mut(&id).ok_or(Misuse::State)?;
        let Body::Stored { .. } = outcome.reply.body else {
            shelf.change(&mut inner, id, change, false);
            let asked = inner.asked.get_mut(&id).ok_or(Misuse::State)?;
            (asked.head, asked.action) = (Some(head), Action::Serve);
            inner.count(Action::Serve);
            shelf.tell_asked(&mut inner, id, Event::End);
            return Ok(Action::Serve);
        };
        if asked.behind {
            (asked.head, asked.action) = (Some(head), Action::Serve);
            shelf.change(&mut inner, id, change, false);
            shelf.tell_asked(&mut inner, id, Event::End);
            return Ok(Action::Serve);
        }
        (asked.action, asked.after) = (Action::Wait, change);
        shelf.serve(&mut inner, id, head, &outcome.reply.body);
        Ok(Action::Wait)
    }

    /// The origin could not be reached, or its answer not be read, before anything of it was passed on. What to do now:
    /// [`Action::Wait`] where something stale may be served, else [`Action::Fail`].
    ///
    /// # Errors
    /// Nothing was forwarded, or the cache is closed.
    pub fn failed(&self) -> Result<Action, Misuse> {
        let mut inner = self.shelf.entered()?;
        let asked = inner.asked.get_mut(&self.id).filter(|asked| asked.action == Action::Forward);
        let asked = asked.ok_or(Misuse::State)?;
        let forward = asked.forward.take().ok_or(Misuse::State)?;
        let stale = self.shelf.cache.on_error(&asked.request, &forward, &asked.found.heads, SystemTime::now());
        asked.action = Action::Fail;
        let Some(serve) = stale.filter(|_| !asked.behind) else { return Ok(Action::Fail) };
        asked.action = Action::Wait;
        self.shelf.serve(&mut inner, self.id, serve.reply.head, &serve.reply.body);
        Ok(Action::Wait)
    }

    /// Asks for so many bytes more of a stored body.
    ///
    /// # Errors
    /// Nothing is served, or the cache is closed.
    pub fn read(&self, bytes: u64) -> Result<(), Misuse> {
        let mut inner = self.shelf.entered()?;
        let inner: &mut Inner = &mut inner;
        let Some(store) = &inner.store else { return Err(Misuse::Closed) };
        let asked = inner.asked.get_mut(&self.id).filter(|asked| asked.action == Action::Serve);
        // What has come to its end has nothing more to give.
        if let Some(reading) = &mut asked.ok_or(Misuse::State)?.reading {
            let bytes = bytes.min(reading.unasked);
            reading.unasked -= bytes;
            store.more(reading.ticket, bytes);
        }
        Ok(())
    }

    /// Bytes of the origin's body, as they come.
    ///
    /// # Errors
    /// Nothing is stored, or it is too large.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Misuse> {
        let mut inner = self.shelf.entered()?;
        let begun = inner.asked.get_mut(&self.id).and_then(|asked| asked.begun.as_mut()).ok_or(Misuse::State)?;
        begun.received += bytes.len() as u64;
        begun.too_large |= begun.received > self.shelf.most_body;
        if begun.too_large {
            begun.body = Vec::new();
            return Err(Misuse::TooLarge);
        }
        begun.body.extend_from_slice(bytes);
        Ok(())
    }

    /// The body has ended as its framing says. [`Event::Stored`] or [`Event::Dropped`] tells.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn finish(&self, trailers: HeaderMap) -> Result<(), Misuse> {
        let mut inner = self.shelf.entered()?;
        let asked = inner.asked.get_mut(&self.id).ok_or(Misuse::State)?;
        let begun = asked.begun.take().ok_or(Misuse::State)?;
        let Begun { mut stored, offset, body, received, remove, too_large } = begun;
        let whole = !too_large && stored.finish(offset, received, true, trailers) && stored.is_whole();
        let add = whole.then(|| (stored, vec![Bytes::from(body)]));
        self.shelf.change(&mut inner, self.id, Change { remove, update: Vec::new(), add }, whole);
        if !whole {
            self.shelf.dropped(&mut inner, self.id);
        }
        Ok(())
    }

    /// The body broke off: it is not stored, and what it was to supersede goes.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn abort(&self) -> Result<(), Misuse> {
        let mut inner = self.shelf.entered()?;
        let asked = inner.asked.get_mut(&self.id).ok_or(Misuse::State)?;
        let Begun { remove, .. } = asked.begun.take().ok_or(Misuse::State)?;
        inner.counts.dropped += 1;
        self.shelf.change(&mut inner, self.id, Change { remove, ..Change::default() }, false);
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // What is not stored of it supersedes all the same.
        let _ = self.abort();
        let mut inner = self.shelf.inner();
        let Some(asked) = inner.asked.get_mut(&self.id) else { return };
        let after = std::mem::take(&mut asked.after);
        let tickets = [asked.look.take().map(|(ticket, ..)| ticket), asked.reading.take().map(|of| of.ticket)];
        tickets.into_iter().flatten().for_each(|ticket| inner.cancel(ticket));
        self.shelf.change(&mut inner, self.id, after, false);
        inner.asked.remove(&self.id);
        inner.events.retain(|(id, ..)| *id != self.id);
        self.shelf.settle(&inner);
    }
}
