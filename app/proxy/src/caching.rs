//! The cache between clients and origins: does what `thaw_httpcache` decides, with the [`store`](crate::store) and with
//! origins. Requests for the same thing at the same time cause one request to its origin.

use crate::again::{Again, NAME};
use crate::metrics::{Metrics, count};
use crate::origins::Origins;
use crate::store::{Hit, Memory, Variants, Writer};
use crate::upstream::{Body, Failure, Origin, empty};
use crate::urgency;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use thaw_httpcache::{
    Answered, Body as From, Cache, Decision, Flights, Forward, Joined, Key, Options, Outcome, Serve, Woken, vary_names,
};
use tokio::sync::oneshot;

/// Fields of requests that many origins and their frameworks heed, though they are not in the key: whoever sends one
/// could have an answer stored that others then get. Requests with one of them go past the cache, unless the answer
/// varies by it or the operator has put it into the key. `_` counts as `-`: CGI makes no difference.
pub const UNKEYED: [&str; 22] = [
    "forwarded",
    "front-end-https",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
    "x-url-scheme",
];

/// A request that waited so often goes to the origin itself: else those that each have to ask it would queue up.
const MOST_WAITS: u32 = 2;

/// Keys whose last answer was not stored are remembered in so many places, by their hash: nobody waits for such a one.
const PLACES: usize = 4096;

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It was answered from the store, fresh.
    Hit,
    /// It was answered from the store, stale.
    Stale,
    /// It was answered from the store after its origin said that it stands.
    Revalidated,
    /// Its origin answered.
    Miss,
    /// It went past the cache.
    Bypass,
}

impl Did {
    /// The word in the access log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }

    /// Counts it.
    pub fn count(self, metrics: &Metrics) {
        count(match self {
            Self::Hit => &metrics.cache_hits,
            Self::Stale => &metrics.cache_stale,
            Self::Revalidated => &metrics.cache_revalidated,
            Self::Miss => &metrics.cache_misses,
            Self::Bypass => &metrics.cache_bypassed,
        });
    }
}

/// Why a request that waited goes on.
enum How {
    Woken(Woken),
    /// There is no answer, for none of those who waited: all asking at once would be too much for an origin that is
    /// in trouble.
    Failed(Failure),
}

/// Who waits for whom.
#[derive(Default)]
struct Waiting {
    flights: Flights<u64>,
    seats: HashMap<u64, oneshot::Sender<How>>,
    next: u64,
}

/// The cache.
pub struct Caching {
    cache: Cache,
    store: Arc<Memory>,
    waiting: Mutex<Waiting>,
    hasher: RandomState,
    /// Hashes of keys whose last answer was not stored.
    alone: Mutex<Vec<u64>>,
    /// Fields of requests that the operator has put into the key.
    key: Vec<HeaderName>,
    /// How long a request waits for the answer to another one.
    patience: Duration,
    /// Hits that may come again.
    pub again: Again,
}

impl Caching {
    /// A cache over a store. `key`: fields of requests that are part of the key. A request waits for the answer to
    /// another one as long as `patience`, then it goes to the origin itself.
    pub fn new(store: Arc<Memory>, key: Vec<HeaderName>, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            cache: Cache::new(Options::shared(NAME)),
            again: Again::new(Arc::clone(&store)),
            store,
            waiting: Mutex::default(),
            hasher: RandomState::new(),
            alone: Mutex::new(vec![0; PLACES]),
            key,
            patience,
        })
    }

    /// Ends the disk, where there is one, when all that is kept is on it. `false`: that took longer than this.
    pub async fn close(&self, bound: Duration) -> bool {
        self.store.close(bound).await
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last answer of a key was not stored; `now` says so for the next one. Another key of the same place
    /// may say so wrongly: then one request more goes to an origin.
    fn alone(&self, key: &Key, now: Option<bool>) -> bool {
        let hash = self.hasher.hash_one(key).max(1);
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut alone[hash as usize % PLACES];
        let before = *place == hash;
        match now {
            Some(true) => *place = hash,
            Some(false) if before => *place = 0,
            _ => {}
        }
        before
    }

    fn join(self: &Arc<Self>, key: &Key) -> Result<Lead, (u64, oneshot::Receiver<How>)> {
        let mut waiting = self.waiting();
        let seat = waiting.next;
        waiting.next += 1;
        match waiting.flights.join(key, seat) {
            Joined::Lead => Ok(Lead { caching: Arc::clone(self), key: Some(key.clone()) }),
            Joined::Wait => {
                let (sender, receiver) = oneshot::channel();
                waiting.seats.insert(seat, sender);
                Err((seat, receiver))
            }
        }
    }

    fn leave(&self, key: &Key, seat: u64) {
        let mut waiting = self.waiting();
        waiting.flights.leave(key, &seat);
        waiting.seats.remove(&seat);
    }
}

/// Has the duty to wake those who wait for the answer to its request.
struct Lead {
    caching: Arc<Caching>,
    key: Option<Key>,
}

impl Lead {
    /// Whether the answer was stored.
    fn done(mut self, stored: bool) {
        if let (false, Some(key)) = (stored, &self.key) {
            self.caching.alone(key, Some(true));
        }
        self.wake(stored, None);
    }

    /// Those who wait have this for an answer.
    fn failed(mut self, failure: &Failure) {
        self.wake(false, Some(failure));
    }

    fn wake(&mut self, stored: bool, failure: Option<&Failure>) {
        let Some(key) = self.key.take() else { return };
        let mut waiting = self.caching.waiting();
        for (seat, how) in waiting.flights.done(&key, stored) {
            if let Some(seat) = waiting.seats.remove(&seat) {
                let _ = seat.send(failure.map_or(How::Woken(how), |failure| How::Failed(failure.shared())));
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.wake(false, None);
    }
}

/// Gives a seat back where its client is gone.
struct Seat<'a> {
    caching: &'a Caching,
    key: &'a Key,
    seat: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.caching.leave(self.key, self.seat);
    }
}

/// A client's request on its way.
struct Asked {
    origins: Arc<Origins>,
    caching: Arc<Caching>,
    origin: Origin,
    parts: Parts,
    key: Key,
    /// Fields of it that may change the answer and are not in the key.
    unkeyed: Vec<HeaderName>,
}

/// Answers a request, with the origin's help where that is needed. `parts` is as [`ask`] wants it.
///
/// # Errors
/// The origin was needed, and there is no answer of it that can be trusted.
pub async fn answer(
    origins: &Arc<Origins>,
    caching: &Arc<Caching>,
    origin: Origin,
    parts: Parts,
    body: Option<Body>,
) -> Result<Response<Body>, Failure> {
    if body.is_some() && (parts.method == Method::GET || parts.method == Method::HEAD) {
        // What such a body means is not defined, so that it is in no key; origins heed it all the same.
        return origins.ask(&origin, parts, body).await.map(past);
    }
    let asked = Asked {
        key: key(&origin, &parts, &caching.key),
        unkeyed: unkeyed(&parts.headers, &caching.key),
        origins: Arc::clone(origins),
        caching: Arc::clone(caching),
        origin,
        parts,
    };
    Arc::new(asked).answer(body).await
}

/// The key of a request: its target, and its values of the operator's fields.
fn key(origin: &Origin, parts: &Parts, fields: &[HeaderName]) -> Key {
    let mut partition = String::new();
    for name in fields {
        for value in parts.headers.get_all(name) {
            partition.push_str(&format!("{name}: {}\n", value.as_bytes().escape_ascii()));
        }
    }
    let scheme = if origin.tls { "https" } else { "http" };
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or(&origin.host);
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let uri = http::Uri::builder().scheme(scheme).authority(host).path_and_query(target).build();
    Key::of(uri.as_ref().unwrap_or(&parts.uri), &parts.headers, &partition)
}

fn unkeyed(fields: &HeaderMap, key: &[HeaderName]) -> Vec<HeaderName> {
    let is = |name: &HeaderName| UNKEYED.contains(&name.as_str().replace('_', "-").as_str()) && !key.contains(name);
    fields.keys().filter(|name| is(name)).cloned().collect()
}

/// Marks an answer that had nothing to do with the cache.
fn past(mut answer: Response<Body>) -> Response<Body> {
    let status = answer.status().as_u16();
    if let Ok(told) = HeaderValue::from_str(&format!("{NAME}; fwd=bypass; fwd-status={status}")) {
        answer.headers_mut().append("cache-status", told);
    }
    answer.extensions_mut().insert(Did::Bypass);
    answer
}

/// What may be stored and is not: it is too large, or too much is on its way. Only our line says so, the last one.
fn is_not_stored(fields: &mut HeaderMap) {
    let name = HeaderName::from_static("cache-status");
    let mut lines: Vec<HeaderValue> = fields.get_all(&name).iter().cloned().collect();
    let Some(ours) = lines.last_mut().filter(|ours| ours.as_bytes().ends_with(b"; stored")) else { return };
    let Ok(told) = HeaderValue::from_bytes(&[ours.as_bytes(), b"=?0"].concat()) else { return };
    *ours = told;
    fields.remove(&name);
    lines.into_iter().for_each(|line| _ = fields.append(&name, line));
}

fn reply(head: response::Parts, body: Body, did: Did) -> Response<Body> {
    let mut answer = Response::from_parts(head, body);
    answer.extensions_mut().insert(did);
    answer
}

impl Asked {
    async fn answer(self: Arc<Self>, body: Option<Body>) -> Result<Response<Body>, Failure> {
        let caching = &self.caching;
        let mut lead = None;
        let mut waits = 0;
        loop {
            let variants = self.variants().await;
            let now = SystemTime::now();
            let forward = match caching.cache.lookup(&self.parts, &self.key, &variants.stored, now) {
                Decision::Serve(serve) => {
                    if let Some(lead) = lead {
                        Lead::done(lead, true);
                    }
                    return Ok(self.serve(*serve, &variants));
                }
                Decision::Answer(head) => return Ok(reply(*head, empty(), Did::Miss)),
                Decision::Forward(forward) => forward,
            };
            let goes_alone = waits >= MOST_WAITS || !self.unkeyed.is_empty() || !forward.may_wait();
            if lead.is_some() || goes_alone || caching.alone(&self.key, None) {
                let Some(lead) = lead else { return self.fetch(*forward, variants, body, None, true).await };
                // Others wait for it: it goes on where its client is gone.
                let fetching = tokio::spawn(self.fetch(*forward, variants, body, Some(lead), true));
                return fetching.await.unwrap_or_else(|error| Err(Failure::Unreachable(io::Error::other(error))));
            }
            match caching.join(&self.key) {
                // The answer that it would have waited for may have come since the look-up.
                Ok(leads) => lead = Some(leads),
                Err((seat, woken)) => {
                    count(&self.origins.metrics.cache_collapsed);
                    let seat = Seat { caching, key: &self.key, seat };
                    let how = tokio::time::timeout(caching.patience, woken).await;
                    drop(seat);
                    waits = match how {
                        Ok(Ok(How::Failed(failure))) => return self.stale(&forward, &variants, failure),
                        Ok(Ok(How::Woken(Woken::LookAgain))) => waits + 1,
                        _ => MOST_WAITS,
                    };
                }
            }
        }
    }

    /// What is stored of its key and may be looked at: where it has fields that are not in the key, only what varies by
    /// them.
    async fn variants(&self) -> Arc<Variants> {
        let all = self.caching.store.get(&self.key, || urgency::of(&self.parts.headers)).await;
        match self.unkeyed.is_empty() {
            true => all,
            false => Arc::new(all.filter(|stored| {
                self.unkeyed.iter().all(|name| stored.selecting.iter().any(|(selecting, _)| selecting == name))
            })),
        }
    }

    fn serve(self: &Arc<Self>, serve: Serve, variants: &Arc<Variants>) -> Response<Body> {
        let Serve { reply: answer, index, fresh, ttl, revalidate } = serve;
        self.caching.store.touch(variants, index);
        let hit = self.hit(&answer.body, variants, index).filter(|_| fresh && revalidate.is_none());
        if let Some(forward) = revalidate {
            self.refresh(*forward, variants);
        }
        let body = match answer.body {
            From::Stored { index, range } => variants.body(index, range),
            _ => empty(),
        };
        let mut answer = reply(answer.head, body, if fresh { Did::Hit } else { Did::Stale });
        if let Some((pieces, at)) = hit {
            let (key, variants) = (self.key.clone(), Arc::downgrade(variants));
            answer.extensions_mut().insert(Hit { key, variants, index, pieces, ttl, at });
        }
        answer
    }

    /// The bytes of an answer that may be given again, and when it was made.
    fn hit(&self, body: &From, variants: &Variants, index: usize) -> Option<(Vec<Bytes>, SystemTime)> {
        if !variants.stored[index].trailers.is_empty() {
            return None;
        }
        let pieces = match body {
            From::Empty => Vec::new(),
            From::Stored { index, range } => variants.pieces(*index, range.clone())?,
            _ => return None,
        };
        Some((pieces, SystemTime::now()))
    }

    /// Asks the origin behind a client that has its answer, unless somebody does already.
    fn refresh(self: &Arc<Self>, forward: Forward, variants: &Arc<Variants>) {
        let lead = match forward.may_wait().then(|| self.caching.join(&self.key)) {
            Some(Ok(lead)) => Some(lead),
            Some(Err((seat, _))) => return self.caching.leave(&self.key, seat),
            None => None,
        };
        let fetching = Arc::clone(self).fetch(forward, Arc::clone(variants), None, lead, false);
        tokio::spawn(async move {
            // Where it fails, the next client that finds it stale asks again.
            let _ = fetching.await;
        });
    }

    /// Asks the origin, and does what is to be done with its answer. `waits`: whether a client does.
    async fn fetch(
        self: Arc<Self>,
        mut forward: Forward,
        variants: Arc<Variants>,
        mut body: Option<Body>,
        lead: Option<Lead>,
        waits: bool,
    ) -> Result<Response<Body>, Failure> {
        let cache = &self.caching.cache;
        loop {
            let asked = SystemTime::now();
            let answer = self.origins.ask(&self.origin, forward.request.clone(), body.take()).await;
            let now = SystemTime::now();
            let answer = match answer {
                Ok(answer) => answer,
                Err(failure) => {
                    if let Some(lead) = lead {
                        lead.failed(&failure);
                    }
                    return self.stale(&forward, &variants, failure);
                }
            };
            let names = vary_names(answer.headers()).unwrap_or_default();
            let covered = self.unkeyed.iter().all(|name| names.contains(name));
            if !covered && self.parts.method.is_safe() {
                return Ok(past(answer));
            }
            let (head, upstream) = answer.into_parts();
            match cache.on_response(&self.parts, &forward, &variants.stored, head, asked, now) {
                Answered::Retry(again) => forward = *again,
                Answered::Done(mut outcome) => {
                    outcome.store = outcome.store.filter(|_| covered);
                    return Ok(self.heed(*outcome, &forward, &variants, upstream, lead, waits));
                }
            }
        }
    }

    /// What is stored, where the origin has no answer and nothing forbids it.
    fn stale(
        self: &Arc<Self>,
        forward: &Forward,
        variants: &Arc<Variants>,
        failure: Failure,
    ) -> Result<Response<Body>, Failure> {
        let stale = self.caching.cache.on_error(&self.parts, forward, &variants.stored, SystemTime::now());
        stale.map(|serve| self.serve(serve, variants)).ok_or(failure)
    }

    /// The number of the page that it is of: what is read together lies together on a disk.
    fn group(&self) -> u64 {
        let page = self.parts.headers.get(http::header::REFERER).map_or(&b""[..], HeaderValue::as_bytes);
        match page.is_empty() {
            true => self.caching.hasher.hash_one(self.key.to_string().as_bytes()),
            false => self.caching.hasher.hash_one(page),
        }
    }

    /// Brings the store up to date, and makes the client's answer.
    fn heed(
        &self,
        outcome: Outcome,
        forward: &Forward,
        variants: &Variants,
        upstream: Body,
        lead: Option<Lead>,
        waits: bool,
    ) -> Response<Body> {
        let Outcome { reply: mut answer, invalidate, remove, update, store } = outcome;
        let memory = &self.caching.store;
        for key in &invalidate {
            memory.invalidate(key);
        }
        for index in remove {
            memory.remove(variants, index);
        }
        let updated = !update.is_empty();
        for (index, stored) in update {
            memory.update(variants, index, stored);
        }
        let did = match (&answer.body, forward.reason()) {
            (From::Upstream | From::StoredThenUpstream { .. }, "bypass" | "method") => Did::Bypass,
            (From::Upstream | From::StoredThenUpstream { .. }, _) => Did::Miss,
            _ if updated => Did::Revalidated,
            _ => Did::Stale,
        };
        let kept = store.and_then(|store| memory.begin(store, variants, self.group()));
        if updated || kept.is_some() {
            self.caching.alone(&self.key, Some(false));
        }
        let Some(writer) = kept else {
            is_not_stored(&mut answer.head.headers);
            if let Some(lead) = lead {
                lead.done(updated);
            }
            let body = match answer.body {
                From::Empty => empty(),
                From::Upstream => upstream,
                From::Stored { index, range } => variants.body(index, range),
                From::StoredThenUpstream { index, range } => {
                    Chain(variants.body(index, range), upstream).boxed_unsync()
                }
            };
            return reply(answer.head, body, did);
        };
        let body = match answer.body {
            _ if !waits => empty(),
            From::Empty => empty(),
            From::Upstream if upstream.is_end_stream() => empty(),
            From::Upstream => writer.tail(writer.offset()).boxed_unsync(),
            From::Stored { index, range } => variants.body(index, range),
            From::StoredThenUpstream { range, .. } => writer.tail(range.start).boxed_unsync(),
        };
        if upstream.is_end_stream() {
            let kept = writer.finish(true, &[], None);
            if let Some(lead) = lead {
                lead.done(kept);
            }
            return reply(answer.head, body, did);
        }
        let lead = match (lead, writer.is_visible()) {
            (Some(lead), true) => {
                lead.done(true);
                None
            }
            (lead, _) => lead,
        };
        tokio::spawn(take(upstream, writer, lead));
        reply(answer.head, body, did)
    }
}

/// Takes a body from its origin into the store, whether its client reads or not. Where the length is not known and the
/// client is gone, nobody knows how long that would be: it is given up.
async fn take(mut upstream: Body, mut writer: Writer, lead: Option<Lead>) {
    let mut trailers = None;
    let kept = loop {
        let frame = tokio::select! {
            frame = upstream.frame() => frame,
            () = writer.left(), if !writer.knows_length() => return,
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            None => break writer.finish(true, &[], trailers),
            Some(Err(_)) => break writer.finish(false, &[], trailers),
            Some(Ok(Ok(data))) if writer.knows_length() && upstream.is_end_stream() => {
                break writer.finish(true, &data, trailers);
            }
            Some(Ok(Ok(data))) if writer.push(&data) => {}
            Some(Ok(Ok(_))) => return writer.hand_over(upstream),
            Some(Ok(Err(frame))) => trailers = frame.into_trailers().ok(),
        }
    };
    if let Some(lead) = lead {
        lead.done(kept);
    }
}

/// One body behind the other.
struct Chain(Body, Body);

impl http_body::Body for Chain {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self(first, second) = self.get_mut();
        match ready!(Pin::new(first).poll_frame(context)) {
            None => Pin::new(second).poll_frame(context),
            frame => Poll::Ready(frame),
        }
    }
}
