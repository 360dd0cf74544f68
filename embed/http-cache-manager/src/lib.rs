//! A `CacheManager` of the crate `http-cache` over `thaw_entrystore`: responses in a log with a budget, whose writes
//! nobody waits for. It runs under any runtime: a thread of its own wakes whoever waits.
//!
//! ```
//! use http_cache::{CacheMode, HttpCache, HttpCacheOptions};
//! use thaw_http_cache_manager::Manager;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let manager = Manager::open(folder.path(), 1 << 30).unwrap();
//! let cache = HttpCache { mode: CacheMode::Default, manager, options: HttpCacheOptions::default() };
//! # drop(cache);
//! ```

mod ticket;

use bytes::Bytes;
use http_cache::{BoxError, CacheManager, HttpResponse, Result};
use http_cache_semantics::CachePolicy;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use thaw_entrystore::{Clear, Get, Key, Options, Phase, Put, Store, Urgency};
use ticket::Tickets;

/// Where the entries lie in their store.
const PARTITION: &[u8] = b"http-cache";

/// The form of the metadata.
const VERSION: u32 = 1;

/// What of an entry is not its body.
#[derive(Deserialize, Serialize)]
struct Meta {
    version: u32,
    response: HttpResponse,
    policy: CachePolicy,
}

/// Responses in a directory. Clones share it; the last one to go writes what is left and waits for that.
#[derive(Clone)]
pub struct Manager {
    tickets: Arc<Tickets>,
}

impl fmt::Debug for Manager {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Manager").finish_non_exhaustive()
    }
}

fn key(name: &str) -> Option<Key> {
    Key::new(PARTITION, name.as_bytes())
}

impl Manager {
    /// Responses in this directory, which is made if need be, within so many bytes.
    ///
    /// # Errors
    /// The process has no file descriptor or no thread left. A directory that cannot be used is no error, see
    /// [`Manager::is_dead`].
    pub fn open(path: &Path, budget: u64) -> io::Result<Manager> {
        Manager::with(Options { budget, ..Options::new(path) })
    }

    /// Responses in a store with these options.
    ///
    /// # Errors
    /// As with [`Manager::open`].
    pub fn with(options: Options) -> io::Result<Manager> {
        Ok(Manager { tickets: Arc::new(Tickets::new(Store::open(options)?)?) })
    }

    /// Whether it is known that the directory cannot be used, or that another process has it: nothing is found then,
    /// and nothing kept.
    pub fn is_dead(&self) -> bool {
        self.tickets.store().stats().phase == Phase::Dead
    }

    /// Waits until all that was put is on the medium.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn flush(&self) -> Result<()> {
        done(self.tickets.done(Store::flush).await)
    }

    /// Takes all responses away.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn clear(&self) -> Result<()> {
        done(self.tickets.done(|store| store.clear(Clear::Partition(PARTITION.into()))).await)
    }
}

fn done(done: bool) -> Result<()> {
    if done { Ok(()) } else { Err(BoxError::from("the disk of the cache failed")) }
}

#[async_trait::async_trait]
impl CacheManager for Manager {
    async fn get(&self, name: &str) -> Result<Option<(HttpResponse, CachePolicy)>> {
        let Some(key) = key(name) else { return Ok(None) };
        let get = Get { urgency: Urgency::Urgent, ..Get::default() };
        let Some((meta, parts)) = self.tickets.read(&key, get).await else { return Ok(None) };
        let meta = serde_json::from_slice(&meta).ok().filter(|meta: &Meta| meta.version == VERSION);
        let Some(Meta { mut response, policy, .. }) = meta else {
            // What cannot be read is not there.
            self.tickets.store().remove(&key);
            return Ok(None);
        };
        response.body = parts.concat();
        Ok(Some((response, policy)))
    }

    /// A response that is too large for the store is not kept; that is no error.
    async fn put(&self, name: String, mut response: HttpResponse, policy: CachePolicy) -> Result<HttpResponse> {
        let Some(key) = key(&name) else { return Ok(response) };
        let body = Bytes::from(std::mem::take(&mut response.body));
        let meta = Meta { version: VERSION, response, policy };
        let written = Bytes::from(serde_json::to_vec(&meta)?);
        let mut response = meta.response;
        response.body = body.to_vec();
        self.tickets.store().put(&key, Put { meta: written, ..Put::default() }, body);
        Ok(response)
    }

    async fn delete(&self, name: &str) -> Result<()> {
        if let Some(key) = key(name) {
            self.tickets.store().remove(&key);
        }
        Ok(())
    }
}
