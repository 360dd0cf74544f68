//! What the jar has in memory, shared by its callers and its I/O thread. Nothing here touches the disk.

use crate::cookie::{Context, Cookie, Key, Place, domain_match, site};
use crate::error::Wrong;
use crate::options::{Options, Suffixes};
use crate::record::{Record, hash};
use crate::store::{self, Kept, Limits};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Instant;

/// Names a request until its end is in the news.
pub type Ticket = u64;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The cookies for this host, which was asked for too early, are there now.
    Loaded(String),
    /// All cookies are there.
    Whole,
    /// A flush or forgetting has ended; the reason, if the disk did not do it.
    Done(Ticket, Result<(), String>),
    /// A cookie that was set before its host was loaded is ignored after all.
    Refused(Wrong),
    /// The file cannot be read or written: which one, and why. What could not be written is tried again.
    Trouble(String),
    /// Something in the file was no record, and was put aside under this name.
    Damaged(String),
}

/// A last access that is recorded is not recorded anew for so long, in microseconds: an hour.
pub const ACCESS_US: u64 = 3_600_000_000;
/// How many ends of requests are remembered for those who wait for them.
const REMEMBERED: usize = 1024;

/// A cookie that came before those of its site.
struct Later {
    cookie: Cookie,
    /// Where from; `None`: it is put as it is.
    from: Option<(Place, Context)>,
}

#[derive(Default)]
struct Site {
    loaded: bool,
    cookies: Vec<Kept>,
    later: Vec<Later>,
    /// Hosts that were asked for.
    asked: BTreeSet<String>,
}

/// What is to be written.
pub struct Batch {
    /// Changed cookies, as they are now.
    pub records: Vec<Record>,
    /// The keys of these.
    pub keys: BTreeSet<Key>,
    /// All has to be written anew, since something was forgotten.
    pub rewrite: bool,
    /// Who waits for it.
    pub tickets: Vec<Ticket>,
}

fn hashed(key: &Key) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

fn find<'s>(sites: &'s mut HashMap<String, Site>, suffixes: &Suffixes, key: &Key) -> Option<&'s mut Kept> {
    sites.get_mut(site(&key.domain, &**suffixes))?.cookies.iter_mut().find(|kept| kept.is(key))
}

/// Everything in memory.
pub struct State {
    sites: HashMap<String, Site>,
    whole: bool,
    total: usize,
    limits: Limits,
    keep_session: bool,
    suffixes: Suffixes,
    /// Changed since they were written.
    pending: BTreeSet<Key>,
    /// Used long after the last access that was written.
    used: BTreeSet<Key>,
    since: Option<Instant>,
    rewrite: bool,
    waiting: Vec<Ticket>,
    /// All made from then on is forgotten, also what is not loaded yet.
    forgotten: Option<u64>,
    /// And all of these hosts.
    forgotten_hosts: Vec<String>,
    /// Hashes of the keys that the file may hold.
    filed: HashSet<u64>,
    last_ticket: Ticket,
    ended: VecDeque<(Ticket, Result<(), String>)>,
    news: Vec<News>,
    /// The latest time that a caller has said: there is no other clock.
    now_us: u64,
    last_us: u64,
    /// Why there is no file.
    pub failed: Option<String>,
}

impl State {
    pub fn new(options: &Options) -> State {
        State {
            sites: HashMap::new(),
            whole: false,
            total: 0,
            limits: options.limits,
            keep_session: options.keep_session,
            suffixes: options.suffixes.clone(),
            pending: BTreeSet::new(),
            used: BTreeSet::new(),
            since: None,
            rewrite: false,
            waiting: Vec::new(),
            forgotten: None,
            forgotten_hosts: Vec::new(),
            filed: HashSet::new(),
            last_ticket: 0,
            ended: VecDeque::new(),
            news: Vec::new(),
            now_us: 0,
            last_us: 0,
            failed: None,
        }
    }

    pub fn site_of(&self, host: &str) -> String {
        site(host, &*self.suffixes).to_owned()
    }

    /// What a header is, by rules that need no other cookie.
    pub fn read(&mut self, header: &[u8], place: &Place, context: &Context, now_us: u64) -> Result<Cookie, Wrong> {
        self.now_us = self.now_us.max(now_us);
        let mut cookie = store::read(header, place, context, &*self.suffixes, now_us)?;
        // No two are made at the same time: so they have an order.
        self.last_us = now_us.max(self.last_us + 1);
        cookie.created_us = self.last_us;
        Ok(cookie)
    }

    /// Whether the cookies of a host's site are there.
    pub fn is_loaded(&self, host: &str) -> bool {
        self.sites.get(&self.site_of(host)).map_or(self.whole, |site| site.loaded)
    }

    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// A host whose site is asked for; `tell`: the news have to say when it is there. Whether that is new.
    pub fn ask(&mut self, host: &str, tell: bool) -> bool {
        let site = self.sites.entry(self.site_of(host)).or_default();
        if tell { site.asked.insert(host.into()) } else { site.asked.is_empty() && site.later.is_empty() }
    }

    /// Stores a cookie, or keeps it until its site is there. `Ok(false)`: later.
    pub fn insert(&mut self, cookie: Cookie, from: Option<(Place, Context)>) -> Result<bool, Wrong> {
        let whole = self.whole;
        let name = self.site_of(&cookie.domain);
        let limits = self.limits;
        let site = self.sites.entry(name).or_insert_with(|| Site { loaded: whole, ..Site::default() });
        if !site.loaded {
            site.later.push(Later { cookie, from });
            return Ok(false);
        }
        let before = site.cookies.len();
        let changed = match from {
            Some((place, context)) => store::insert(&mut site.cookies, cookie, &place, &context, limits)?,
            None => store::replace(&mut site.cookies, cookie, self.now_us, limits),
        };
        self.total = self.total + site.cookies.len() - before;
        self.changed(changed);
        if self.whole && self.total > limits.total {
            self.shrink();
        }
        Ok(true)
    }

    fn changed(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.pending.extend(keys);
        if !self.pending.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Gives up a tenth of the cookies, so that it is not done for each one.
    fn shrink(&mut self) {
        let all: Vec<&Cookie> = self.sites.values().flat_map(|site| &site.cookies).map(|kept| &kept.cookie).collect();
        let limit = self.limits.total - self.limits.total / 10;
        let gone: BTreeSet<Key> = store::excess(&all, limit, self.limits.per_domain, self.now_us).into_iter().collect();
        self.remove(|cookie| gone.contains(&cookie.key()));
        self.changed(gone);
    }

    fn remove(&mut self, which: impl Fn(&Cookie) -> bool) {
        for site in self.sites.values_mut() {
            let before = site.cookies.len();
            site.cookies.retain(|kept| !which(kept));
            self.total -= before - site.cookies.len();
        }
    }

    /// The cookies that go to a place whose site is loaded.
    pub fn going(&mut self, place: &Place, context: &Context, now_us: u64) -> Vec<Cookie> {
        self.now_us = self.now_us.max(now_us);
        let name = self.site_of(&place.host);
        let Some(site) = self.sites.get_mut(&name) else { return Vec::new() };
        let before = site.cookies.len();
        site.cookies.retain(|kept| !kept.is_expired(now_us));
        self.total -= before - site.cookies.len();
        let mut going = Vec::new();
        for kept in &mut site.cookies {
            if !store::goes(kept, place, context, now_us) {
                continue;
            }
            kept.cookie.accessed_us = kept.accessed_us.max(now_us);
            if now_us >= kept.recorded_us.saturating_add(ACCESS_US) {
                self.used.insert(kept.key());
            }
            going.push(kept.cookie.clone());
        }
        store::sort(&mut going);
        going
    }

    /// All cookies that have not expired.
    pub fn all(&self) -> Vec<Cookie> {
        let all = self.sites.values().flat_map(|site| &site.cookies);
        let mut all: Vec<Cookie> =
            { all }.filter(|kept| !kept.is_expired(self.now_us)).map(|kept| kept.cookie.clone()).collect();
        all.sort();
        all
    }

    /// Forgets the cookies of a host and those below it; `rewrite` is due.
    pub fn forget(&mut self, host: &str) -> Ticket {
        let of_host = |cookie: &Cookie| domain_match(&cookie.domain, host);
        self.remove(of_host);
        for site in self.sites.values_mut() {
            site.later.retain(|later| !of_host(&later.cookie));
        }
        if !self.whole {
            self.forgotten_hosts.push(host.into());
        }
        self.rewritten()
    }

    /// Forgets the cookies that were made at this time or later.
    pub fn forget_since(&mut self, since_us: u64) -> Ticket {
        self.remove(|cookie| cookie.created_us >= since_us);
        for site in self.sites.values_mut() {
            site.later.retain(|later| later.cookie.created_us < since_us);
        }
        if !self.whole {
            self.forgotten = Some(self.forgotten.map_or(since_us, |other| other.min(since_us)));
        }
        self.rewritten()
    }

    fn rewritten(&mut self) -> Ticket {
        self.rewrite = true;
        self.ticket()
    }

    /// A request that ends when all that is pending is written.
    pub fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.waiting.push(self.last_ticket);
        self.last_ticket
    }

    /// The cookies of a site as the file has them. Those that came meanwhile are stored among them.
    pub fn arrive(&mut self, name: &str, cookies: Vec<Cookie>) {
        let site = self.sites.entry(name.into()).or_default();
        if std::mem::replace(&mut site.loaded, true) {
            return;
        }
        self.filed.extend(cookies.iter().map(|cookie| hashed(&cookie.key())));
        let is_forgotten = |cookie: &Cookie| {
            self.forgotten_hosts.iter().any(|host| domain_match(&cookie.domain, host))
                || self.forgotten.is_some_and(|since| cookie.created_us >= since)
        };
        let kept = { cookies.into_iter() }
            .filter(|cookie| (self.keep_session || cookie.expires_us.is_some()) && !is_forgotten(cookie));
        site.cookies = kept.map(Kept::new).collect();
        self.total += site.cookies.len();
        self.last_us = { site.cookies.iter() }.map(|kept| kept.created_us).fold(self.last_us, u64::max);
        let later = std::mem::take(&mut site.later);
        let asked = std::mem::take(&mut site.asked);
        for Later { cookie, from } in later {
            if let Err(wrong) = self.insert(cookie, from) {
                self.news.push(News::Refused(wrong));
            }
        }
        self.news.extend(asked.into_iter().map(News::Loaded));
    }

    /// Sites that were asked for and are not there.
    pub fn missing(&self) -> Vec<String> {
        self.sites.iter().filter(|site| !site.1.loaded).map(|site| site.0.clone()).collect()
    }

    /// All is there.
    pub fn end_loading(&mut self) {
        self.whole = true;
        (self.forgotten, self.forgotten_hosts) = (None, Vec::new());
        if self.total > self.limits.total {
            self.shrink();
        }
        self.news.push(News::Whole);
    }

    pub fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The end of a request.
    pub fn end(&mut self, tickets: Vec<Ticket>, how: &Result<(), String>) {
        for ticket in tickets {
            self.news.push(News::Done(ticket, how.clone()));
            self.ended.push_back((ticket, how.clone()));
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
    }

    pub fn ended(&mut self, ticket: Ticket) -> Option<Result<(), String>> {
        let at = self.ended.iter().position(|ended| ended.0 == ticket)?;
        self.ended.remove(at).map(|ended| ended.1)
    }

    /// Since when a change waits, and whether somebody waits for it.
    pub fn due(&self) -> (Option<Instant>, bool) {
        (self.since, !self.waiting.is_empty())
    }

    /// What has to be written, which is no longer pending then. Accesses go with it, for which
    /// alone nothing is written.
    pub fn take(&mut self) -> Batch {
        let (keys, used) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.used));
        let (keep_session, now_us) = (self.keep_session, self.now_us);
        let mut records = Vec::with_capacity(keys.len() + used.len());
        for key in &keys {
            match find(&mut self.sites, &self.suffixes, key) {
                Some(kept) if keep_session || kept.expires_us.is_some() => {
                    kept.recorded_us = kept.accessed_us;
                    records.push(Record::Put(kept.cookie.clone()));
                    self.filed.insert(hashed(key));
                }
                // What was never written needs no word of its end.
                _ if self.filed.remove(&hashed(key)) => records.push(Record::Gone(key.clone())),
                _ => {}
            }
        }
        for key in used.iter().filter(|key| !keys.contains(key)) {
            let Some(kept) = find(&mut self.sites, &self.suffixes, key) else { continue };
            if (keep_session || kept.expires_us.is_some()) && !kept.is_expired(now_us) {
                kept.recorded_us = kept.accessed_us;
                records.push(Record::Used(key.clone(), kept.accessed_us));
            }
        }
        // Those that are older go first: their order is that of their times.
        records.sort_by_key(|record| if let Record::Put(cookie) = record { cookie.created_us } else { 0 });
        self.since = None;
        let (rewrite, tickets) = (std::mem::take(&mut self.rewrite), std::mem::take(&mut self.waiting));
        Batch { records, keys, rewrite, tickets }
    }

    /// Whether there are accesses to be written.
    pub fn has_used(&self) -> bool {
        !self.used.is_empty()
    }

    /// Something has to be written, though no cookie has changed.
    pub fn hurry(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// It could not be written.
    pub fn put_back(&mut self, batch: Batch) {
        self.rewrite |= batch.rewrite;
        self.filed.extend(batch.keys.iter().map(hashed));
        self.changed(batch.keys);
    }

    /// What a snapshot holds: the cookies of each site with its hash.
    pub fn groups(&self) -> Vec<(u64, Vec<Cookie>)> {
        let goes = |kept: &&Kept| !kept.is_expired(self.now_us) && (self.keep_session || kept.expires_us.is_some());
        let of = |site: &Site| site.cookies.iter().filter(goes).map(|kept| kept.cookie.clone()).collect::<Vec<_>>();
        let all = self.sites.iter().map(|(name, site)| (hash(name), of(site)));
        all.filter(|group| !group.1.is_empty()).collect()
    }
}
