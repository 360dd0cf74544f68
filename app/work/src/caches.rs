//! The directory of a cache (`thaw proxy --store`): what is in it, whether it can be read, and taking things out.

use model::{Bytes, Error, Exit, Result};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thaw_entrystore::{Blocking, Clear, Event, Get, Key, Options, Phase, Store, Visited};
use thaw_httpcache::{Cache, Options as Rules, Stored, packed};

/// Entries asked for at once.
const PAGE: usize = 256;
/// Nothing is written but what is taken out: a store of this budget evicts nothing.
const UNLIMITED: u64 = 1 << 62;

/// A stored answer.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// What it answers.
    pub url: String,
    /// Values of the fields that the operator has put into the key; empty: none.
    pub partition: String,
    /// Fields that it varies by, with the values it is for.
    pub selecting: Vec<(String, Option<String>)>,
    /// Its status.
    pub status: u16,
    /// Of its body.
    pub bytes: Bytes,
    /// When it came from its origin, seconds since 1970.
    pub stored_unix_s: u64,
    /// Seconds for which it is fresh; negative: for which it has been stale.
    pub fresh_for_s: i64,
    /// Its fields, names in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

/// What `thaw cache ls`, `show` and `stat` tell.
#[derive(Debug, Serialize)]
pub struct CacheDocument {
    /// `thaw.cache/1`.
    pub schema: &'static str,
    /// Answers by URL; of `stat` none.
    pub answers: Vec<Answer>,
    /// How many there are.
    pub count: u64,
    /// How many of them are fresh.
    pub fresh: u64,
    /// Of all bodies.
    pub body_bytes: Bytes,
    /// Of the files.
    pub file_bytes: Bytes,
    /// Entries that are not of `thaw proxy`.
    pub unknown: u64,
}

/// What `thaw cache verify` found.
#[derive(Debug, Serialize)]
pub struct VerifyDocument {
    /// `thaw.cache-verify/1`.
    pub schema: &'static str,
    /// Entries that were read, to the last byte.
    pub entries: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Names of entries that cannot be read, or are not what they say.
    pub broken: Vec<String>,
}

/// Refuses the directory of another user. `what` cannot be done by `command`.
///
/// # Errors
/// It is one, or cannot be looked at.
pub(crate) fn is_own(path: &Path, what: &str, command: &str) -> Result<()> {
    let unread = |cause: std::io::Error| Error::on(Exit::of_unreadable(&cause), what, path).because(cause);
    let owner = path.metadata().map_err(unread)?.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let hint = format!("ask as its owner: sudo -u '#{owner}' {command} …");
    Err(Error::on(Exit::Usage, what, path).because("it is another user's").hint(hint))
}

/// A directory that nobody else uses meanwhile.
pub struct CacheDirectory {
    store: Blocking,
}

impl CacheDirectory {
    /// Opens one that is there.
    ///
    /// # Errors
    /// There is none, it is somebody else's, or a proxy uses it.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = |why: &str| Error::on(Exit::Usage, "cannot look into", path).because(why);
        let unread =
            |cause: std::io::Error| Error::on(Exit::of_unreadable(&cause), "cannot look into", path).because(cause);
        let entries = path.read_dir().map_err(unread)?;
        let is_file = |name: &str| name == "index" || name.ends_with(".seg") || name.ends_with(".big");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        if !names.into_iter().any(|name| is_file(&name)) {
            return Err(cannot("it is not the directory of a cache").hint("name that of thaw proxy --store"));
        }
        // A file that we leave there would keep its owner's proxy out.
        is_own(path, "cannot look into", "thaw cache")?;
        let options = Options { memory: 0, budget: UNLIMITED, ..Options::new(path) };
        let machine = |cause| Error::on(Exit::Machine, "cannot look into", path).because(cause);
        let mut store = Blocking::new(Store::open(options).map_err(machine)?);
        store.flush();
        if store.store().stats().phase == Phase::Dead {
            return Err(cannot("another process uses it, or it cannot be written")
                .hint("end the proxy first; a running one tells of itself: thaw proxy --admin"));
        }
        Ok(Self { store })
    }

    fn each(&mut self, mut tell: impl FnMut(Visited)) {
        let mut from = Some(0);
        while let Some(at) = from {
            let ticket = self.store.store().visit(Clear::All, at, PAGE);
            from = match self.store.wait(ticket) {
                Event::Visited { entries, next } => {
                    entries.into_iter().for_each(&mut tell);
                    next
                }
                _ => None,
            };
        }
    }

    /// Answers whose URL begins so, with their fields or without.
    pub fn answers(&mut self, prefix: &str, with_fields: bool) -> CacheDocument {
        let (rules, now) = (Cache::new(Rules::shared("thaw")), SystemTime::now());
        let file_bytes = Bytes(self.store.store().stats().counts.disk);
        let mut document = CacheDocument {
            schema: "thaw.cache/1",
            answers: Vec::new(),
            count: 0,
            fresh: 0,
            body_bytes: Bytes(0),
            file_bytes,
            unknown: 0,
        };
        self.each(|entry| {
            let Some(heads) = packed::heads(entry.meta) else {
                document.unknown += 1;
                return;
            };
            for stored in heads {
                let url = stored.key.to_string();
                if url.starts_with(prefix) {
                    document.answers.push(answer(&stored, url, &rules, now, with_fields));
                }
            }
        });
        document.answers.sort_by(|a, b| (&a.url, &a.selecting).cmp(&(&b.url, &b.selecting)));
        document.count = document.answers.len() as u64;
        document.fresh = document.answers.iter().filter(|answer| answer.fresh_for_s > 0).count() as u64;
        document.body_bytes = Bytes(document.answers.iter().map(|answer| answer.bytes.0).sum());
        document
    }

    /// The bytes of the answer to this URL; of several, the one that came last. `None`: there is none.
    pub fn body(&mut self, url: &str) -> Option<Vec<u8>> {
        let mut keys = Vec::new();
        self.each(|entry| {
            let named = |stored: &Stored| stored.key.to_string() == url;
            if packed::heads(entry.meta).is_some_and(|heads| heads.iter().any(named)) {
                keys.push(entry.key);
            }
        });
        let entries = keys.iter().filter_map(|key| self.read(key));
        let variants = entries.filter_map(|(meta, body)| packed::unpack(meta, vec![body])).flatten();
        let latest = variants.max_by_key(|(stored, _)| stored.response_time)?;
        Some(latest.1.concat())
    }

    fn read(&mut self, key: &Key) -> Option<(bytes::Bytes, bytes::Bytes)> {
        self.store.get_with(key, Get::default())
    }

    /// Reads all of it.
    pub fn verify(&mut self) -> VerifyDocument {
        let mut keys = Vec::new();
        self.each(|entry| keys.push((entry.key, entry.body)));
        let mut document =
            VerifyDocument { schema: "thaw.cache-verify/1", entries: 0, bytes: Bytes(0), broken: Vec::new() };
        for (key, length) in keys {
            let whole = self.read(&key).filter(|(meta, body)| {
                body.len() as u64 == length && packed::unpack(meta.clone(), vec![body.clone()]).is_some()
            });
            document.entries += 1;
            match whole {
                Some((meta, body)) => document.bytes.0 += (meta.len() + body.len()) as u64,
                None => document.broken.push(name(&key)),
            }
        }
        document
    }

    /// Takes out what was stored for URLs that begin so; how many entries that were.
    pub fn clear(&mut self, prefix: &str) -> u64 {
        let mut keys = Vec::new();
        self.each(|entry| {
            let url = || packed::heads(entry.meta.clone())?.first().map(|stored| stored.key.to_string());
            if prefix.is_empty() || url().is_some_and(|url| url.starts_with(prefix)) {
                keys.push(entry.key);
            }
        });
        for key in &keys {
            self.store.remove(key);
        }
        self.store.flush();
        keys.len() as u64
    }
}

/// As the proxy names its entries: partition, NUL, URL.
fn name(key: &Key) -> String {
    String::from_utf8_lossy(key.name()).trim_start_matches('\0').replace('\0', " ")
}

fn answer(stored: &Stored, url: String, rules: &Cache, now: SystemTime, with_fields: bool) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| (name.to_string(), text(value.as_bytes()));
    let of_key = stored.key.to_bytes();
    let partition = of_key.split(|byte| *byte == 0).next().map(text).unwrap_or_default();
    Answer {
        url,
        partition,
        selecting: (stored.selecting.iter())
            .map(|(name, value)| (name.to_string(), value.as_deref().map(text)))
            .collect(),
        status: stored.status.as_u16(),
        bytes: Bytes(stored.length.unwrap_or_default()),
        stored_unix_s: stored.response_time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs(),
        fresh_for_s: rules.ttl(stored, now),
        fields: if with_fields { stored.headers.iter().map(field).collect() } else { Vec::new() },
    }
}
