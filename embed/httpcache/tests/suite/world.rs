//! A cache with a store in memory, between a client and an origin that a test plays.

use http::{HeaderMap, Request, Response, StatusCode, request, response};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thaw_httpcache::{Answered, Body, Cache, Decision, Forward, Key, Options, Outcome, Reply, Stored};

/// 2026-11-25 12:00:00 UTC.
pub const START: u64 = 1_795_608_000;

pub struct World {
    pub cache: Cache,
    pub now: SystemTime,
    /// Heads and whole representations, with zeros where nothing is held.
    pub entries: Vec<(Stored, Vec<u8>)>,
    /// What the origin got.
    pub seen: Vec<request::Parts>,
    /// Sent to validate while something was served.
    pub background: Option<(request::Parts, Forward)>,
}

/// What the origin does.
pub enum Origin {
    Answers(response::Parts, &'static [u8]),
    /// It breaks off after these bytes.
    Breaks(response::Parts, &'static [u8]),
    Unreachable,
}

pub struct Got {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// How often the origin was asked for it.
    pub asked: usize,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// A GET of the one target that most tests use.
pub fn get(fields: &[(&str, &str)]) -> request::Parts {
    request("GET", "http://example.org/a", fields)
}

pub fn head(status: u16, fields: &[(&str, &str)]) -> response::Parts {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap().into_parts().0
}

/// A response with this body, framed by its end.
pub fn answers(status: u16, fields: &[(&str, &str)], body: &'static [u8]) -> Origin {
    Origin::Answers(head(status, fields), body)
}

/// A 200 with this `Cache-Control`.
pub fn ok(control: &str) -> Origin {
    answers(200, &[("cache-control", control)], b"hello")
}

/// An HTTP date so many seconds after the start.
pub fn date(after: i64) -> String {
    let at = START.checked_add_signed(after).unwrap();
    let (days, clock) = (at / 86_400, at % 86_400);
    // By counting: another way than the one that is tested.
    let (mut year, mut left) = (1970, days);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month];
    let day = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{day}, {:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT", left + 1)
}

impl World {
    pub fn new() -> World {
        World::with(Options::shared("thaw"))
    }

    pub fn with(options: Options) -> World {
        let now = UNIX_EPOCH + Duration::from_secs(START);
        World { cache: Cache::new(options), now, entries: Vec::new(), seen: Vec::new(), background: None }
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn of_key(&self, key: &Key) -> Vec<usize> {
        (0..self.entries.len()).filter(|at| self.entries[*at].0.key == *key).collect()
    }

    /// A request, and what the origin does if it is asked. It is asked again what it did if a second request is needed.
    pub fn send(&mut self, request: &request::Parts, origin: Origin) -> Got {
        self.send_twice(request, origin, || panic!("the origin is asked twice"))
    }

    pub fn send_twice(&mut self, request: &request::Parts, first: Origin, second: impl FnOnce() -> Origin) -> Got {
        let key = Key::of(&request.uri, &request.headers, "");
        let places = self.of_key(&key);
        // What is stored has been through the store: only its bytes.
        let candidates: Vec<Stored> =
            places.iter().map(|at| Stored::decode(&self.entries[*at].0.encode()).unwrap()).collect();
        let mut forward = match self.cache.lookup(request, &key, &candidates, self.now) {
            Decision::Serve(serve) => {
                if let Some(forward) = serve.revalidate {
                    self.background = Some((request.clone(), *forward));
                }
                return self.got(serve.reply, &places, b"", 0);
            }
            Decision::Answer(head) => return self.got(Reply { head: *head, body: Body::Empty }, &places, b"", 0),
            Decision::Forward(forward) => *forward,
        };
        let (mut origin, mut second, mut asked) = (first, Some(second), 0);
        loop {
            asked += 1;
            self.seen.push(forward.request.clone());
            let (head, body, complete) = match origin {
                Origin::Answers(head, body) => (head, body, true),
                Origin::Breaks(head, body) => (head, body, false),
                Origin::Unreachable => {
                    return match self.cache.on_error(request, &forward, &candidates, self.now) {
                        Some(serve) => self.got(serve.reply, &places, b"", asked),
                        None => Got { status: 502, headers: HeaderMap::new(), body: Vec::new(), asked },
                    };
                }
            };
            match self.cache.on_response(request, &forward, &candidates, head, self.now, self.now) {
                Answered::Done(outcome) => {
                    let Outcome { reply, invalidate, remove, update, store } = *outcome;
                    let got = self.got(reply, &places, body, asked);
                    self.keep(&places, body, complete, invalidate, remove, update, store);
                    return got;
                }
                Answered::Retry(again) => {
                    forward = *again;
                    origin = second.take().expect("at most two requests")();
                }
            }
        }
    }

    /// Does what a response to a validation in the background says.
    pub fn settle(&mut self, origin: Origin) {
        let (request, forward) = self.background.take().expect("nothing is validated in the background");
        let Origin::Answers(head, body) = origin else { panic!("only answers") };
        let places = self.of_key(&forward.key);
        let candidates: Vec<Stored> = places.iter().map(|at| self.entries[*at].0.clone()).collect();
        self.seen.push(forward.request.clone());
        let Answered::Done(outcome) = self.cache.on_response(&request, &forward, &candidates, head, self.now, self.now)
        else {
            panic!("no second request in the background")
        };
        self.keep(&places, body, true, outcome.invalidate, outcome.remove, outcome.update, outcome.store);
    }

    #[allow(clippy::too_many_arguments)]
    fn keep(
        &mut self,
        places: &[usize],
        body: &[u8],
        complete: bool,
        invalidate: Vec<Key>,
        remove: Vec<usize>,
        update: Vec<(usize, Stored)>,
        store: Option<thaw_httpcache::Store>,
    ) {
        let mut gone: Vec<usize> = remove.iter().map(|index| places[*index]).collect();
        gone.extend(invalidate.iter().flat_map(|key| self.of_key(key)));
        for (index, stored) in update {
            self.entries[places[index]].0 = stored;
        }
        let mut added = None;
        if let Some(mut store) = store {
            let mut bytes = store.into.map_or(Vec::new(), |index| self.entries[places[index]].1.clone());
            let end = store.offset as usize + body.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[store.offset as usize..end].copy_from_slice(body);
            gone.extend(store.into.map(|index| places[index]));
            if store.stored.finish(store.offset, body.len() as u64, complete, HeaderMap::new()) {
                added = Some((store.stored, bytes));
            }
        }
        gone.sort_unstable();
        gone.dedup();
        for at in gone.into_iter().rev() {
            self.entries.remove(at);
        }
        self.entries.extend(added);
    }

    fn got(&self, reply: Reply, places: &[usize], upstream: &[u8], asked: usize) -> Got {
        let held = |index: usize, range: &std::ops::Range<u64>| {
            let (stored, bytes) = &self.entries[places[index]];
            assert!(
                stored.held.iter().any(|of| of.start <= range.start && range.end <= of.end),
                "{stored:?} {range:?}"
            );
            bytes[range.start as usize..range.end as usize].to_vec()
        };
        let body = match &reply.body {
            Body::Empty => Vec::new(),
            Body::Upstream => upstream.to_vec(),
            Body::Stored { index, range } => held(*index, range),
            Body::StoredThenUpstream { index, range } => [held(*index, range), upstream.to_vec()].concat(),
        };
        if matches!(reply.body, Body::Stored { .. })
            && let Some(length) = reply.head.headers.get("content-length")
        {
            assert_eq!(length.to_str().unwrap(), body.len().to_string());
        }
        for name in ["connection", "transfer-encoding", "keep-alive", "upgrade", "te", "trailer"] {
            assert!(!reply.head.headers.contains_key(name), "{name} is for one connection");
        }
        Got { status: reply.head.status.as_u16(), headers: reply.head.headers, body, asked }
    }

    /// Whether a second request, right away or after some seconds, is answered without the origin.
    pub fn reuses(&mut self, request: &request::Parts, after: u64) -> bool {
        self.wait(after);
        self.send(request, ok("no-store")).asked == 0
    }

    /// Whether a first response with these fields answers a second request after three seconds.
    pub fn keeps(status: u16, fields: &[(&str, &str)]) -> bool {
        World::new().keeps_here(status, fields)
    }

    pub fn keeps_here(mut self, status: u16, fields: &[(&str, &str)]) -> bool {
        let body = if matches!(status, 204 | 304) { &b""[..] } else { b"hello" };
        let first = self.send(&get(&[]), answers(status, fields, body));
        assert_eq!((first.status, first.asked), (status, 1));
        self.wait(3);
        let second = self.send(&get(&[]), answers(599, &[("cache-control", "no-store")], b"other"));
        if second.asked == 0 {
            assert_eq!(StatusCode::from_u16(second.status).unwrap().as_u16(), status);
        }
        second.asked == 0
    }
}
