//! The trait over a directory.

use http::{Request, Response, request};
use http_cache::{CacheManager, CacheMode, HttpCache, HttpCacheOptions, HttpResponse, HttpVersion, Middleware, Result};
use http_cache_semantics::{CacheOptions, CachePolicy};
use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use thaw_entrystore::{Blocking, Key, Options, Put, Store};
use thaw_http_cache_manager::Manager;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// No runtime at all.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn open(path: &Path) -> Manager {
    Manager::open(path, 1 << 30).unwrap()
}

fn parts(url: &str) -> request::Parts {
    Request::get(url).body(()).unwrap().into_parts().0
}

fn response(url: &str, cache_control: &str, body: &[u8]) -> HttpResponse {
    let headers = HashMap::from([("cache-control".to_owned(), cache_control.to_owned())]);
    HttpResponse { body: body.to_vec(), headers, status: 200, url: url.parse().unwrap(), version: HttpVersion::Http11 }
}

fn policy(response: &HttpResponse) -> CachePolicy {
    let head = Response::from_parts(response.parts().unwrap(), ());
    let request = Request::from_parts(parts(response.url.as_str()), ());
    CachePolicy::new(&request, &head)
}

fn put(manager: &Manager, name: &str, body: &[u8]) {
    let response = response("http://example.org/a", "max-age=60", body);
    let policy = policy(&response);
    assert_eq!(run(manager.put(name.into(), response, policy)).unwrap().body, body);
}

fn body(manager: &Manager, name: &str) -> Option<Vec<u8>> {
    run(manager.get(name)).unwrap().map(|(response, _)| response.body)
}

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let manager = open(folder.path());
    assert_eq!(body(&manager, "GET:a"), None);
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    for content in [&b"one"[..], b"", &large, b"two"] {
        put(&manager, "GET:a", content);
        put(&manager, "GET:b", b"other");
        run(manager.flush()).unwrap();
        assert!(body(&manager, "GET:a").as_deref() == Some(content), "{} bytes", content.len());
    }
    let (got, policy) = run(manager.get("GET:a")).unwrap().unwrap();
    assert_eq!((got.status, got.url.as_str(), got.version), (200, "http://example.org/a", HttpVersion::Http11));
    assert_eq!(got.headers["cache-control"], "max-age=60");
    assert!(!policy.is_stale(std::time::SystemTime::now()) && policy.is_storable());
    run(manager.delete("GET:a")).unwrap();
    run(manager.delete("GET:nothing")).unwrap();
    assert_eq!((body(&manager, "GET:a"), body(&manager, "GET:b").as_deref()), (None, Some(&b"other"[..])));
    run(manager.clear()).unwrap();
    assert_eq!(body(&manager, "GET:b"), None);
}

#[test]
fn what_is_put_survives_an_end_without_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let manager = open(folder.path());
    let other = manager.clone();
    (0..50).for_each(|at| put(&manager, &format!("GET:{at}"), at.to_string().as_bytes()));
    drop(manager);
    put(&other, "GET:50", b"50");
    drop(other);
    let manager = open(folder.path());
    assert!((0..51).all(|at| body(&manager, &format!("GET:{at}")) == Some(at.to_string().into_bytes())));
    assert!(!manager.is_dead());
}

#[test]
fn a_damaged_entry_is_a_miss_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let name = Key::new(b"http-cache", b"GET:a").unwrap();
    let manager = open(folder.path());
    put(&manager, "GET:a", b"body");
    drop(manager);
    let mut store = Blocking::new(Store::open(Options::new(folder.path())).unwrap());
    let (meta, content) = store.get(&name).unwrap();
    let text = String::from_utf8(meta.to_vec()).unwrap();
    drop(store);
    let newer = text.replace("\"version\":1", "\"version\":2");
    assert_ne!(newer, text);
    for (meta, kept) in [(text.clone(), true), (newer, false), (text[1..].to_owned(), false), (String::new(), false)] {
        let mut store = Blocking::new(Store::open(Options::new(folder.path())).unwrap());
        assert!(store.put(&name, Put { meta: meta.into(), ..Put::default() }, content.clone()));
        drop(store);
        let manager = open(folder.path());
        assert_eq!(body(&manager, "GET:a").is_some(), kept);
        drop(manager);
        let mut store = Blocking::new(Store::open(Options::new(folder.path())).unwrap());
        assert_eq!(store.get(&name).is_some(), kept);
    }
    // A byte that is another in the file, whichever it is, is never handed over.
    let manager = open(folder.path());
    put(&manager, "GET:a", b"a body that is easily found");
    drop(manager);
    let mut changed = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(12).rposition(|window| window == b"easily found") {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    assert_eq!(body(&open(folder.path()), "GET:a"), None);
}

#[test]
fn a_directory_that_cannot_be_used_is_one_of_misses() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    put(&first, "GET:a", b"body");
    run(first.flush()).unwrap();
    let second = open(folder.path());
    assert_eq!(body(&second, "GET:a"), None);
    assert!(second.is_dead() && run(second.flush()).is_err());
    put(&second, "GET:a", b"other");
    assert_eq!(body(&first, "GET:a").as_deref(), Some(&b"body"[..]));
    // A key longer than the store's.
    let long = "x".repeat(70_000);
    put(&first, &long, b"body");
    assert_eq!(body(&first, &long), None);
    run(first.delete(&long)).unwrap();
}

#[test]
fn one_that_is_dropped_while_it_waits_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let manager = open(folder.path());
    for _ in 0..100 {
        put(&manager, "GET:a", b"body");
        let mut flush = Box::pin(manager.flush());
        let _ = flush.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(body(&manager, "GET:a").as_deref(), Some(&b"body"[..]));
}

/// What `http-cache` asks an HTTP client for.
struct Client<'a> {
    parts: request::Parts,
    fetched: &'a AtomicUsize,
}

#[async_trait::async_trait]
impl Middleware for Client<'_> {
    fn is_method_get_head(&self) -> bool {
        true
    }

    fn policy(&self, response: &HttpResponse) -> Result<CachePolicy> {
        self.policy_with_options(response, CacheOptions::default())
    }

    fn policy_with_options(&self, response: &HttpResponse, options: CacheOptions) -> Result<CachePolicy> {
        let now = std::time::SystemTime::now();
        Ok(CachePolicy::new_options(&self.parts()?, &response.parts()?, now, options))
    }

    fn update_headers(&mut self, parts: &request::Parts) -> Result<()> {
        self.parts.headers = parts.headers.clone();
        Ok(())
    }

    fn force_no_cache(&mut self) -> Result<()> {
        self.parts.headers.insert("cache-control", "no-cache".parse()?);
        Ok(())
    }

    fn parts(&self) -> Result<request::Parts> {
        Ok(self.parts.clone())
    }

    fn url(&self) -> Result<url::Url> {
        Ok(self.parts.uri.to_string().parse()?)
    }

    fn method(&self) -> Result<String> {
        Ok("GET".into())
    }

    async fn remote_fetch(&mut self) -> Result<HttpResponse> {
        let count = self.fetched.fetch_add(1, Ordering::Relaxed);
        let url = self.parts.uri.to_string();
        let cache_control = if url.ends_with("/fresh") { "max-age=60" } else { "no-store" };
        Ok(response(&url, cache_control, format!("fetched {count}").as_bytes()))
    }
}

#[test]
fn http_cache_itself_works_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let fetched = AtomicUsize::new(0);
    for round in 0..2 {
        let manager = open(folder.path());
        let cache = HttpCache { mode: CacheMode::Default, manager, options: HttpCacheOptions::default() };
        let get = |url: &str| {
            let got = run(cache.run(Client { parts: parts(url), fetched: &fetched })).unwrap();
            (String::from_utf8(got.body).unwrap(), got.headers["x-cache"].clone())
        };
        let first = get("http://example.org/fresh");
        assert_eq!(first, ("fetched 0".into(), if round == 0 { "MISS" } else { "HIT" }.into()));
        assert_eq!(get("http://example.org/fresh"), ("fetched 0".into(), "HIT".into()));
        assert_eq!(get("http://example.org/other").1, "MISS");
    }
    assert_eq!(fetched.load(Ordering::Relaxed), 3);
}
