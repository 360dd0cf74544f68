//! The decisions: what to do with a request, and with the response to what was forwarded.

use crate::directives::{self, Directives, Seconds};
use crate::freshness::{self, Lifetime};
use crate::key::Key;
use crate::options::Options;
use crate::range::{self, Asked};
use crate::stored::Stored;
use crate::{date, fields, validator, vary};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request, response};
use std::ops::Range;
use std::time::SystemTime;

/// So many ranges of one representation are kept apart; with more of them it begins anew.
const MOST_RANGES: usize = 256;

/// A cache: its options; what it knows is handed over with each call.
#[derive(Clone, Debug)]
pub struct Cache {
    options: Options,
}

/// What to do with a request.
#[derive(Debug)]
pub enum Decision {
    /// Answer it from the store.
    Serve(Box<Serve>),
    /// Ask the origin, then call [`Cache::on_response`] or [`Cache::on_error`].
    Forward(Box<Forward>),
    /// Answer it with this head and no body: 504, for a client that wants nothing but what is stored.
    Answer(Box<response::Parts>),
}

/// An answer from the store.
#[derive(Debug)]
pub struct Serve {
    /// What to send.
    pub reply: Reply,
    /// Which candidate it is.
    pub index: usize,
    /// Whether it is fresh; a stale one is served where a directive or a failing origin allows it.
    pub fresh: bool,
    /// Seconds for which it stays so; 0 where it is stale.
    pub ttl: u64,
    /// To be sent to the origin meanwhile (RFC 5861); its response goes to [`Cache::on_response`] with the same request
    /// and candidates, of which only what is to be stored, updated, removed counts.
    pub revalidate: Option<Box<Forward>>,
}

/// Head and body for the client.
#[derive(Debug)]
pub struct Reply {
    /// The head, without fields of the hop; `Content-Length` is there where the length is known.
    pub head: response::Parts,
    /// Where the body is.
    pub body: Body,
}

/// Where the bytes of a body are. Ranges are bytes of the whole representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    Empty,
    /// What the origin sends.
    Upstream,
    /// These bytes of a candidate.
    Stored {
        /// Which candidate.
        index: usize,
        /// Which bytes of it.
        range: Range<u64>,
    },
    /// These bytes of a candidate, then what the origin sends.
    StoredThenUpstream {
        /// Which candidate.
        index: usize,
        /// Which bytes of it.
        range: Range<u64>,
    },
}

/// A request for the origin.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Its head: conditional or with a range where that helps; without fields of the hop.
    pub request: request::Parts,
    /// Where the answer would be stored.
    pub key: Key,
    reason: &'static str,
    plan: Plan,
    /// A candidate that may help where the origin fails.
    stale: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Plain,
    /// Ask whether this candidate still stands.
    Validate(usize),
    /// Ask for what is missing at the end of this candidate.
    Complete(usize),
}

/// What came of a response.
#[derive(Debug)]
pub enum Answered {
    /// This is to be done.
    Done(Box<Outcome>),
    /// The response does not answer the client: its body is dropped and this is sent instead.
    Retry(Box<Forward>),
}

/// What to do with a response, in this order: invalidate, remove, update, then store.
#[derive(Debug)]
pub struct Outcome {
    /// What to send to the client.
    pub reply: Reply,
    /// Keys of which nothing may be used any more.
    pub invalidate: Vec<Key>,
    /// Candidates that are superseded.
    pub remove: Vec<usize>,
    /// Candidates that have a new head.
    pub update: Vec<(usize, Stored)>,
    /// What to keep of the origin's body.
    pub store: Option<Store>,
}

/// A response to be stored while its body comes. It may be used when [`Stored::finish`] has said so.
#[derive(Debug)]
pub struct Store {
    /// Its head; its key says where.
    pub stored: Stored,
    /// The candidate whose bytes are kept and added to; otherwise it is a new one.
    pub into: Option<usize>,
    /// Where in the whole representation the first byte from the origin belongs.
    pub offset: u64,
}

impl Forward {
    /// Why nothing stored answers, as in `Cache-Status` (RFC 9211 section 2.2): `bypass`, `method`, `uri-miss`,
    /// `vary-miss`, `request`, `stale`, `partial`.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Whether it may wait for the answer to another request of its key (see [`Flights`](crate::Flights)).
    pub fn may_wait(&self) -> bool {
        let headers = &self.request.headers;
        self.request.method == Method::GET
            && self.reason != "bypass"
            && ![header::RANGE, header::AUTHORIZATION].iter().any(|name| headers.contains_key(name))
            && !Directives::of(headers).has("no-store")
    }
}

/// Whether a stored response may be used, and how.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Now,
    /// Now, while it is validated.
    Meanwhile,
    Validated(&'static str),
}

impl Cache {
    /// A cache with these options.
    pub fn new(options: Options) -> Cache {
        Cache { options }
    }

    /// What to do with a request, given all stored responses of its key (RFC 9111 section 4).
    pub fn lookup(&self, request: &request::Parts, key: &Key, candidates: &[Stored], now: SystemTime) -> Decision {
        let decision = self.decide(request, key, candidates, now);
        if matches!(decision, Decision::Forward(_)) && directives::of_request(&request.headers).has("only-if-cached") {
            let mut head = head_of(StatusCode::GATEWAY_TIMEOUT, HeaderMap::new());
            head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
            self.tell(&mut head.headers, "fwd=request");
            return Decision::Answer(Box::new(head));
        }
        decision
    }

    fn decide(&self, request: &request::Parts, key: &Key, candidates: &[Stored], now: SystemTime) -> Decision {
        let plain = |reason| Decision::Forward(Box::new(forward(request, key, reason)));
        let headers = &request.headers;
        if request.method != Method::GET && request.method != Method::HEAD {
            return plain("method");
        }
        // Conditions for the origin alone (RFC 9111 section 4.3.2), and what is to become another protocol.
        let upgrades = fields::has_word(headers, &header::CONNECTION, "upgrade");
        if upgrades || headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_UNMODIFIED_SINCE) {
            return plain("bypass");
        }
        let selected = select(request, candidates);
        let Some(&newest) = selected.first() else {
            return plain(if candidates.is_empty() { "uri-miss" } else { "vary-miss" });
        };
        let Some(&index) = selected.iter().find(|index| part(request, &candidates[**index], now).is_some()) else {
            return Decision::Forward(Box::new(complete(request, key, newest, &candidates[newest], now)));
        };
        let stored = &candidates[index];
        match self.usable(headers, stored, now) {
            Use::Validated(reason) => {
                let mut forward = forward(request, key, reason);
                forward.stale = Some(index);
                validate(&mut forward, index, stored);
                Decision::Forward(Box::new(forward))
            }
            how => {
                let ttl = self.ttl(stored, now);
                let reply = self.reply(request, index, stored, now, &format!("hit; ttl={ttl}"));
                let revalidate = (how == Use::Meanwhile).then(|| {
                    let mut forward = forward(request, key, "stale");
                    forward.request.method = Method::GET;
                    for name in [header::RANGE, header::IF_RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
                        forward.request.headers.remove(name);
                    }
                    validate(&mut forward, index, stored);
                    Box::new(forward)
                });
                Decision::Serve(Box::new(Serve {
                    reply,
                    index,
                    fresh: ttl > 0,
                    ttl: u64::try_from(ttl).unwrap_or(0),
                    revalidate,
                }))
            }
        }
    }

    /// What to do where the origin could not be reached or its answer not be read, before anything of it was passed on:
    /// a stale response, where nothing forbids it (RFC 9111 section 4.2.4). `None`: the client gets an error, 502 or
    /// 504.
    pub fn on_error(
        &self,
        request: &request::Parts,
        forward: &Forward,
        candidates: &[Stored],
        now: SystemTime,
    ) -> Option<Serve> {
        let index = forward.stale?;
        self.may_be_stale(request, candidates.get(index)?, now, self.options.stale_when_disconnected).then(|| {
            let reply = self.reply(request, index, &candidates[index], now, "hit; detail=origin-unreachable");
            Serve { reply, index, fresh: false, ttl: 0, revalidate: None }
        })
    }

    /// What to do with the final response to a forwarded request: `request` is the client's, `candidates` those of the
    /// look-up. `request_time` is when it was sent, `now` when the response's head came.
    pub fn on_response(
        &self,
        request: &request::Parts,
        forward: &Forward,
        candidates: &[Stored],
        response: response::Parts,
        request_time: SystemTime,
        now: SystemTime,
    ) -> Answered {
        let times = (request_time, now);
        match (forward.plan, response.status) {
            (Plan::Validate(index), StatusCode::NOT_MODIFIED) => {
                return self.validated(request, forward, candidates, &response, index, times);
            }
            (Plan::Complete(index), StatusCode::PARTIAL_CONTENT) => {
                return self.completed(request, forward, candidates, &response, index, times);
            }
            (Plan::Complete(_), StatusCode::RANGE_NOT_SATISFIABLE) => return retry(request, forward),
            _ => {}
        }
        if let (500 | 502..=504, Some(index)) = (response.status.as_u16(), forward.stale)
            && candidates.get(index).is_some_and(|stored| self.may_be_stale(request, stored, now, false))
        {
            let told = format!("hit; fwd=stale; fwd-status={}", response.status.as_u16());
            let reply = self.reply(request, index, &candidates[index], now, &told);
            return Answered::Done(Box::new(outcome(reply)));
        }
        let mut outcome = outcome(Reply { head: response, body: Body::Upstream });
        let head = &outcome.reply.head;
        let sent = &forward.request.method;
        if !sent.is_safe() && (head.status.is_success() || head.status.is_redirection()) {
            outcome.invalidate.push(forward.key.clone());
            for name in [header::LOCATION, header::CONTENT_LOCATION] {
                let reference = head.headers.get(name).and_then(|value| value.to_str().ok());
                outcome.invalidate.extend(reference.and_then(|reference| forward.key.same_origin(reference)));
            }
            outcome.invalidate.sort();
            outcome.invalidate.dedup();
        } else if sent == Method::HEAD && head.status == StatusCode::OK {
            for index in select(request, candidates) {
                match self.by_head(request, &candidates[index], &head.headers, times) {
                    Some(stored) => outcome.update.push((index, stored)),
                    None => outcome.remove.push(index),
                }
            }
        }
        // What had a condition for the origin alone, or became another protocol, is nobody else's.
        if forward.reason != "bypass" && self.may_store(&forward.request, &forward.key, head, now) {
            self.store(request, forward, candidates, &mut outcome, times);
        }
        let stored = if outcome.store.is_some() { "; stored" } else { "" };
        let told = format!("fwd={}; fwd-status={}{stored}", forward.reason, outcome.reply.head.status.as_u16());
        fields::strip_hop(&mut outcome.reply.head.headers, true);
        self.tell(&mut outcome.reply.head.headers, &told);
        Answered::Done(Box::new(outcome))
    }

    /// A 304 to our own condition (RFC 9111 sections 3.2 and 4.3.4).
    fn validated(
        &self,
        request: &request::Parts,
        forward: &Forward,
        candidates: &[Stored],
        response: &response::Parts,
        index: usize,
        times: (SystemTime, SystemTime),
    ) -> Answered {
        let now = times.1;
        let confirmed: Vec<usize> = match validator::strong_tag(&response.headers) {
            Some(tag) => select(request, candidates)
                .into_iter()
                .filter(|at| validator::strong_tag(&candidates[*at].headers) == Some(tag))
                .collect(),
            None => Vec::new(),
        };
        let stands = candidates.get(index).is_some_and(|of| validator::confirms(&response.headers, &of.headers, now));
        let serve = if stands { Some(index) } else { confirmed.first().copied() };
        let Some(serve) = serve.filter(|at| part(request, &candidates[*at], now).is_some()) else {
            // It is about something that is not here.
            return retry(request, forward);
        };
        let mut fresh = candidates[serve].clone();
        self.update(&mut fresh, request, &response.headers, times);
        let reply = self.reply(request, serve, &fresh, now, "hit; fwd=stale; fwd-status=304");
        let mut outcome = outcome(reply);
        for at in confirmed.into_iter().filter(|at| *at != serve) {
            let mut other = candidates[at].clone();
            self.update(&mut other, request, &response.headers, times);
            outcome.update.push((at, other));
        }
        // What the 304 says may forbid to keep it.
        let head = head_of(fresh.status, fresh.headers.clone());
        if vary::names(&fresh.headers).is_some() && self.may_keep(&forward.request.headers, &head) {
            outcome.update.push((serve, fresh));
        } else {
            outcome.remove.push(serve);
        }
        Answered::Done(Box::new(outcome))
    }

    /// The missing end of a stored part (RFC 9111 section 3.4).
    fn completed(
        &self,
        request: &request::Parts,
        forward: &Forward,
        candidates: &[Stored],
        response: &response::Parts,
        index: usize,
        times: (SystemTime, SystemTime),
    ) -> Answered {
        let now = times.1;
        let Some(old) = candidates.get(index) else { return retry(request, forward) };
        let held = old.held.first().map_or(0..0, Range::clone);
        let (Some((range, length)), true) =
            (range::content_range(&response.headers), validator::same_strong(&response.headers, &old.headers, now))
        else {
            return retry(request, forward);
        };
        let length = length.or(old.length);
        if range.start != held.end || length != Some(range.end) || old.length.is_some_and(|of| Some(of) != length) {
            return retry(request, forward);
        }
        let mut stored = old.clone();
        self.update(&mut stored, request, &response.headers, times);
        stored.length = length;
        stored.held.push(range.clone());
        let mut reply = self.reply(request, index, &stored, now, "fwd=partial; fwd-status=206; stored");
        if reply.body != Body::Empty {
            reply.body = Body::StoredThenUpstream { index, range: held };
        }
        let mut outcome = outcome(reply);
        let head = head_of(stored.status, stored.headers.clone());
        if self.may_keep(&forward.request.headers, &head) {
            outcome.store = Some(Store { stored, into: Some(index), offset: range.start });
        } else {
            outcome.remove.push(index);
        }
        Answered::Done(Box::new(outcome))
    }

    /// What a 200 to HEAD says about a stored response: its new head, or `None` where it is another (section 4.3.5).
    fn by_head(
        &self,
        request: &request::Parts,
        stored: &Stored,
        headers: &HeaderMap,
        times: (SystemTime, SystemTime),
    ) -> Option<Stored> {
        let differs = |name: HeaderName| {
            let (new, old) = (headers.get(&name), stored.headers.get(&name));
            new.is_some() && old.is_some() && new != old
        };
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let other_length = matches!((length, stored.length), (Some(new), Some(old)) if new != old);
        if differs(header::ETAG) || differs(header::LAST_MODIFIED) || other_length || stored.status != StatusCode::OK {
            return None;
        }
        let mut stored = stored.clone();
        self.update(&mut stored, request, headers, times);
        Some(stored)
    }

    /// Puts new fields in the place of stored ones (section 3.2).
    fn update(
        &self,
        stored: &mut Stored,
        request: &request::Parts,
        headers: &HeaderMap,
        times: (SystemTime, SystemTime),
    ) {
        let mut new = self.kept_fields(headers, times.1);
        // They describe the message that brought them, or how the stored bytes are to be read: with those of a 304 what
        // is stored would say of itself what is not true.
        for name in ["content-length", "content-range", "content-encoding", "content-md5", "content-digest"] {
            new.remove(name);
        }
        // An age is that of the response that tells it.
        stored.headers.remove(header::AGE);
        for name in new.keys() {
            stored.headers.remove(name);
        }
        stored.headers.extend(new);
        (stored.request_time, stored.response_time) = times;
        if let Some(names) = vary::names(&stored.headers) {
            stored.selecting = selecting(names, request);
        }
    }

    /// The fields of a response that may be stored (section 3.1).
    fn kept_fields(&self, headers: &HeaderMap, now: SystemTime) -> HeaderMap {
        let mut kept = headers.clone();
        let (directives, _) = freshness::directives_of(&self.options, headers);
        let private = if self.options.shared { directives.names("private") } else { Vec::new() };
        for name in directives.names("no-cache").into_iter().chain(private) {
            kept.remove(name);
        }
        fields::strip_hop(&mut kept, false);
        if !kept.contains_key(header::DATE)
            && let Ok(date) = HeaderValue::from_str(&date::format(date::seconds(now)))
        {
            kept.insert(header::DATE, date);
        }
        kept
    }

    /// Whether a response to a request may be stored (section 3).
    fn may_store(&self, request: &request::Parts, key: &Key, response: &response::Parts, now: SystemTime) -> bool {
        let lifetime = freshness::lifetime(&self.options, response.status, &response.headers, now);
        let method = match request.method {
            Method::GET => true,
            // RFC 9110 section 9.3.3: it is then what a GET would bring.
            Method::POST => {
                let location = response.headers.get(header::CONTENT_LOCATION).and_then(|value| value.to_str().ok());
                let same = location.and_then(|location| key.same_origin(location)).as_ref() == Some(key);
                same && response.status == StatusCode::OK && matches!(lifetime, Lifetime::Told(1..))
            }
            _ => false,
        };
        let status = match response.status {
            StatusCode::NOT_MODIFIED => false,
            StatusCode::PARTIAL_CONTENT => range::content_range(&response.headers).is_some(),
            status => !status.is_informational(),
        };
        let (directives, _) = freshness::directives_of(&self.options, &response.headers);
        let explicit = directives.has("public")
            || lifetime != Lifetime::Unknown
            || freshness::is_heuristic(response.status)
            || (!self.options.shared && directives.has("private"));
        // Without a lifetime, a validator or leave to be stale it could never be used.
        let useful = lifetime.seconds() > 0
            || validator::has_any(&response.headers)
            || directives.has("stale-while-revalidate")
            || directives.has("stale-if-error");
        method
            && status
            && explicit
            && useful
            && vary::names(&response.headers).is_some()
            && self.may_keep(&request.headers, response)
    }

    /// The rules for storing that a 304 may change.
    fn may_keep(&self, request: &HeaderMap, response: &response::Parts) -> bool {
        let (directives, _) = freshness::directives_of(&self.options, &response.headers);
        let understood = directives.has("must-understand");
        let no_store = directives.has("no-store") && !understood;
        let private = self.options.shared && directives.unqualified("private");
        let authorized = !self.options.shared
            || !request.contains_key(header::AUTHORIZATION)
            || ["public", "must-revalidate", "s-maxage"].iter().any(|name| directives.has(name));
        let known = !understood || is_understood(response.status);
        !no_store && !private && authorized && known && !Directives::of(request).has("no-store")
    }

    fn store(
        &self,
        request: &request::Parts,
        forward: &Forward,
        candidates: &[Stored],
        outcome: &mut Outcome,
        times: (SystemTime, SystemTime),
    ) {
        let now = times.1;
        let head = &outcome.reply.head;
        let same_variant = select(request, candidates);
        let partial =
            (head.status == StatusCode::PARTIAL_CONTENT).then(|| range::content_range(&head.headers)).flatten();
        let mut stored = Stored {
            key: forward.key.clone(),
            status: if partial.is_some() { StatusCode::OK } else { head.status },
            headers: self.kept_fields(&head.headers, now),
            trailers: HeaderMap::new(),
            selecting: selecting(vary::names(&head.headers).unwrap_or_default(), request),
            request_time: times.0,
            response_time: now,
            length: content_length(head),
            held: Vec::new(),
        };
        let Some((range, length)) = partial else {
            stored.held.extend(stored.length.filter(|length| *length > 0).map(|length| 0..length));
            if request.method != Method::POST {
                outcome.remove = same_variant;
            }
            outcome.store = Some(Store { stored, into: None, offset: 0 });
            return;
        };
        stored.length = length;
        stored.headers.remove(header::CONTENT_LENGTH);
        stored.headers.remove(header::CONTENT_RANGE);
        let like = same_variant.iter().copied().find(|index| {
            let old = &candidates[*index];
            let same_length = length.is_none() || old.length.is_none() || length == old.length;
            let has_room = old.held.len() < MOST_RANGES;
            same_length && has_room && validator::same_strong(&old.headers, &head.headers, now)
        });
        match like {
            Some(index) if candidates[index].is_whole() => {
                let mut whole = candidates[index].clone();
                self.update(&mut whole, request, &head.headers, times);
                outcome.update.push((index, whole));
            }
            Some(index) => {
                let mut grown = candidates[index].clone();
                self.update(&mut grown, request, &head.headers, times);
                grown.length = length.or(grown.length);
                grown.held.push(range.clone());
                outcome.store = Some(Store { stored: grown, into: Some(index), offset: range.start });
            }
            None => {
                stored.held.push(range.clone());
                let other = |index: &usize| {
                    let old = &candidates[*index];
                    !old.is_whole() || old.headers.get(header::ETAG) != stored.headers.get(header::ETAG)
                };
                outcome.remove = same_variant.into_iter().filter(other).collect();
                outcome.store = Some(Store { stored, into: None, offset: range.start });
            }
        }
    }

    /// Seconds for which a stored response is fresh; negative: for which it has been stale.
    pub fn ttl(&self, stored: &Stored, now: SystemTime) -> i64 {
        let lifetime = freshness::lifetime(&self.options, stored.status, &stored.headers, stored.response_time);
        let age = freshness::age(&stored.headers, stored.request_time, stored.response_time, now);
        lifetime.seconds() as i64 - i64::try_from(age).unwrap_or(i64::MAX)
    }

    /// Whether a stored response answers a request without the origin (sections 4.2 and 5.2.1).
    fn usable(&self, request: &HeaderMap, stored: &Stored, now: SystemTime) -> Use {
        let asked = directives::of_request(request);
        let (directives, _) = freshness::directives_of(&self.options, &stored.headers);
        let ttl = self.ttl(stored, now);
        let age = freshness::age(&stored.headers, stored.request_time, stored.response_time, now);
        if asked.has("no-cache") {
            return Use::Validated("request");
        }
        if directives.unqualified("no-cache") {
            return Use::Validated("stale");
        }
        // RFC 8246: what is immutable does not change while it is fresh, so that a reload learns nothing.
        let limit = match asked.seconds("max-age") {
            _ if directives.has("immutable") && ttl > 0 => None,
            Seconds::Of(seconds) => Some(seconds),
            Seconds::Invalid => Some(0),
            Seconds::Absent => None,
        };
        if limit.is_some_and(|limit| limit == 0 || age > limit) {
            return Use::Validated("request");
        }
        if matches!(asked.seconds("min-fresh"), Seconds::Of(seconds) if ttl < seconds as i64) {
            return Use::Validated("request");
        }
        if ttl > 0 {
            return Use::Now;
        }
        if self.forbids_stale(&directives) {
            return Use::Validated("stale");
        }
        let within = |of: Seconds| matches!(of, Seconds::Of(seconds) if -ttl <= seconds as i64);
        if asked.has("max-stale") && (asked.value("max-stale").is_none() || within(asked.seconds("max-stale"))) {
            return Use::Now;
        }
        if within(directives.seconds("stale-while-revalidate")) { Use::Meanwhile } else { Use::Validated("stale") }
    }

    fn forbids_stale(&self, directives: &Directives) -> bool {
        directives.has("must-revalidate")
            || directives.unqualified("no-cache")
            || (self.options.shared && (directives.has("proxy-revalidate") || directives.has("s-maxage")))
    }

    fn may_be_stale(&self, request: &request::Parts, stored: &Stored, now: SystemTime, otherwise: bool) -> bool {
        let asked = directives::of_request(&request.headers);
        let (directives, _) = freshness::directives_of(&self.options, &stored.headers);
        let ttl = self.ttl(stored, now);
        let within = |of: &Directives| match of.seconds("stale-if-error") {
            Seconds::Of(seconds) => -ttl <= seconds as i64,
            _ => false,
        };
        !asked.has("no-cache")
            && !self.forbids_stale(&directives)
            && part(request, stored, now).is_some()
            && (otherwise || within(&directives) || within(&asked))
    }

    /// The answer to a request from a stored response that can give it (sections 4 and 4.3.2).
    fn reply(&self, request: &request::Parts, index: usize, stored: &Stored, now: SystemTime, told: &str) -> Reply {
        let mut headers = stored.headers.clone();
        let age = freshness::age(&stored.headers, stored.request_time, stored.response_time, now);
        headers.insert(header::AGE, HeaderValue::from(age));
        self.tell(&mut headers, told);
        let unmodified = stored.status == StatusCode::OK
            && validator::not_modified(&request.headers, &stored.headers, stored.response_time, now) == Some(true);
        if unmodified {
            for name in ["content-length", "content-type", "content-encoding", "content-language", "content-range"] {
                headers.remove(name);
            }
            return Reply { head: head_of(StatusCode::NOT_MODIFIED, headers), body: Body::Empty };
        }
        let (status, range) = match part(request, stored, now) {
            Some(Part::Some(range)) => {
                let length = stored.length.map_or("*".into(), |length| length.to_string());
                insert(
                    &mut headers,
                    header::CONTENT_RANGE,
                    format!("bytes {}-{}/{length}", range.start, range.end - 1),
                );
                (StatusCode::PARTIAL_CONTENT, range)
            }
            Some(Part::Nothing(length)) => {
                insert(&mut headers, header::CONTENT_RANGE, format!("bytes */{length}"));
                (StatusCode::RANGE_NOT_SATISFIABLE, 0..0)
            }
            Some(Part::All) | None => (stored.status, 0..stored.length.unwrap_or(0)),
        };
        // A 204 has no length (RFC 9110 section 8.6); that of a part, for HEAD, may not be known.
        if status != StatusCode::NO_CONTENT && stored.length.is_some() {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
        }
        let empty = request.method == Method::HEAD || range.is_empty();
        let body = if empty { Body::Empty } else { Body::Stored { index, range } };
        Reply { head: head_of(status, headers), body }
    }

    /// Adds what this cache did to `Cache-Status` (RFC 9211).
    fn tell(&self, headers: &mut HeaderMap, what: &str) {
        if let Ok(value) = HeaderValue::from_str(&format!("{}; {what}", self.options.name)) {
            headers.append(HeaderName::from_static("cache-status"), value);
        }
    }
}

/// Which bytes of a stored response answer a request.
enum Part {
    All,
    Some(Range<u64>),
    /// None: it is only this long.
    Nothing(u64),
}

/// `None`: what is held does not answer it.
fn part(request: &request::Parts, stored: &Stored, now: SystemTime) -> Option<Part> {
    // Ranges are for GET alone (RFC 9110 section 14.2), and for what is there.
    if request.method == Method::HEAD {
        return Some(Part::All);
    }
    let asked = (stored.status == StatusCode::OK && validator::range_holds(&request.headers, &stored.headers, now))
        .then(|| range::asked(&request.headers))
        .flatten();
    let whole = stored.is_whole().then_some(Part::All);
    // Several ranges are answered with the whole: a server may do so, and nobody has to put multipart together.
    let Some([asked]) = asked.as_deref() else { return whole };
    let range = match (asked, stored.length) {
        (asked, Some(length)) => match asked.within(length) {
            Some(range) => range,
            None => return Some(Part::Nothing(length)),
        },
        (Asked::From(start, Some(last)), None) => *start..last + 1,
        _ => return None,
    };
    stored.held.iter().any(|held| held.start <= range.start && range.end <= held.end).then_some(Part::Some(range))
}

/// Candidates that a request selects, the newest first (RFC 9111 section 4.1).
fn select(request: &request::Parts, candidates: &[Stored]) -> Vec<usize> {
    let mut selected: Vec<usize> = (0..candidates.len())
        .filter(|at| vary::selects(&request.headers, &candidates[*at].selecting, &candidates[*at].headers))
        .collect();
    selected.sort_by_cached_key(|at| {
        let stored = &candidates[*at];
        let date = validator::date_of(&stored.headers, &header::DATE, stored.response_time);
        std::cmp::Reverse((date, stored.response_time))
    });
    selected
}

fn selecting(names: Vec<HeaderName>, request: &request::Parts) -> Vec<(HeaderName, Option<Vec<u8>>)> {
    names.into_iter().map(|name| (name.clone(), vary::normal(&request.headers, &name))).collect()
}

fn forward(request: &request::Parts, key: &Key, reason: &'static str) -> Forward {
    let mut request = request.clone();
    fields::strip_hop(&mut request.headers, true);
    Forward { request, key: key.clone(), reason, plan: Plan::Plain, stale: None }
}

/// Makes a request ask whether a stored response stands (section 4.3.1).
fn validate(forward: &mut Forward, index: usize, stored: &Stored) {
    let headers = &mut forward.request.headers;
    if !validator::has_any(&stored.headers) {
        return;
    }
    forward.plan = Plan::Validate(index);
    for (name, from) in [(header::IF_NONE_MATCH, header::ETAG), (header::IF_MODIFIED_SINCE, header::LAST_MODIFIED)] {
        headers.remove(&name);
        if let Some(value) = stored.headers.get(from) {
            headers.insert(name, value.clone());
        }
    }
}

/// Asks for the end of what is held from its beginning, if what comes can be put to it; else for all that the client
/// asked for.
fn complete(request: &request::Parts, key: &Key, index: usize, stored: &Stored, now: SystemTime) -> Forward {
    let mut forward = forward(request, key, "partial");
    let whole_wanted = request.method == Method::GET
        && [header::RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE]
            .iter()
            .all(|name| !request.headers.contains_key(name));
    let held = match &stored.held[..] {
        [one] if one.start == 0 => one.end,
        _ => return forward,
    };
    if let (true, Some(condition)) = (whole_wanted, validator::for_if_range(&stored.headers, now)) {
        forward.plan = Plan::Complete(index);
        forward.request.headers.insert(header::IF_RANGE, condition.clone());
        insert(&mut forward.request.headers, header::RANGE, format!("bytes={held}-"));
    }
    forward
}

fn retry(request: &request::Parts, failed: &Forward) -> Answered {
    let mut forward = forward(request, &failed.key, failed.reason);
    for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
        forward.request.headers.remove(name);
    }
    Answered::Retry(Box::new(forward))
}

fn outcome(reply: Reply) -> Outcome {
    Outcome { reply, invalidate: Vec::new(), remove: Vec::new(), update: Vec::new(), store: None }
}

fn head_of(status: StatusCode, headers: HeaderMap) -> response::Parts {
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status = status;
    head.headers = headers;
    head
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(name, value);
    }
}

/// The length that a head announces; `None` where it says none that is one.
fn content_length(head: &response::Parts) -> Option<u64> {
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        return Some(0);
    }
    // With a transfer coding it says nothing (RFC 9112 section 6.3).
    if head.headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let text = fields::single(&head.headers, &header::CONTENT_LENGTH)?.to_str().ok()?;
    (text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Status codes whose requirements for caches are met here (section 5.2.2.3).
fn is_understood(status: StatusCode) -> bool {
    matches!(status.as_u16(),
        200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505 | 511)
}
