//! Real browsers load the page of our own origin; what they say is compared with what the origin counted.

use model::Exit;
use pageload::conduct::{self, Done, Sample};
use pageload::drive::{self, Caching, Kind, Setup, Visit};
use pageload::ground::Evicted;
use pageload::plan::{Page, Plan, State, Via};
use pageload::report;
use pageload::site::{Site, SiteOptions};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A load that takes longer has failed: nothing here is judged by it.
const PATIENCE: Duration = Duration::from_secs(600);

const SITE: SiteOptions = SiteOptions { images: 300, seed: 5 };

/// Where the browser is; `None`, and the test is counted as skipped: there is none.
fn browser(kind: Kind) -> Option<PathBuf> {
    kind.find().inspect_err(|_| testing::skip(&format!("no {kind} in PATH"))).ok()
}

/// The processes whose command lines name this directory.
fn who_names(directory: &Path) -> Vec<u32> {
    let name = directory.display().to_string();
    let names = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&name))
    };
    os::process::all().into_iter().filter(names).collect()
}

fn plan(kind: Kind, program: PathBuf, directory: &Path) -> Plan {
    Plan {
        page: Page::Site { options: SITE, latency: Duration::from_millis(2) },
        browsers: vec![(kind, program)],
        vias: vec![Via::Direct],
        states: State::ALL.to_vec(),
        runs: 2,
        patience: PATIENCE,
        thaw_proxy: None,
        restart: None,
        throttle: None,
        cache: directory.join("cache"),
        other: directory.join("other"),
        seed: 1,
    }
}

fn of_state(done: &Done, state: State) -> Vec<&Sample> {
    done.samples.iter().filter(|sample| sample.state == state).collect()
}

/// In each state what must reach the origin does, and nothing else.
fn own_cache(kind: Kind) {
    let Some(program) = browser(kind) else { return };
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(kind, program, directory.path());
    let mut told = Vec::new();
    let done = conduct::run(&plan, &mut Evicted, &mut |what| told.push(what.to_owned())).unwrap();
    assert_eq!(told.len(), 8, "{told:?}");
    let site = Site::new(SITE);
    let answers = site.resources().len() as u64;
    assert_eq!(done.page, Some((answers, site.bytes())));
    for state in State::ALL {
        let samples = of_state(&done, state);
        assert_eq!(samples.len(), 2);
        for sample in samples {
            let (loaded, origin) = (&sample.loaded, sample.origin.unwrap());
            assert!(loaded.load_ms > 0.0, "{loaded:?}");
            assert!(loaded.first_paint_ms.is_some_and(|first| loaded.largest_paint_ms >= Some(first)), "{loaded:?}");
            match state {
                State::First => {
                    assert_eq!((origin.requests, origin.not_modified), (answers, 0));
                    assert_eq!((loaded.requests, loaded.from_cache), (answers, 0));
                    assert!(loaded.bytes > site.bytes() && origin.bytes > site.bytes());
                }
                State::Warm => assert_eq!((origin.requests, loaded.bytes), (0, 0), "{loaded:?}"),
                State::Reload => {
                    assert_eq!(origin.requests, origin.not_modified, "what is there is not sent again");
                    assert!(origin.requests >= 1, "the page itself is asked about");
                }
                State::Cold => {
                    assert_eq!((origin.requests, loaded.bytes), (0, 0), "{loaded:?}");
                    assert_eq!((loaded.requests, loaded.from_cache), (answers, answers));
                }
            }
        }
    }
    assert_eq!(who_names(directory.path()), [0; 0]);
    let report = report::report(&plan, &done, None, Vec::new());
    assert_eq!((report.rows.len(), report.loads.len()), (4, 8));
    assert!(report.rows.iter().all(|row| row.loads == 2 && row.missing.is_none()));
    assert_eq!(report.rows[3].origin_requests, Some(0.0));
}

#[test]
fn chromiums_own_cache_in_each_state() {
    own_cache(Kind::Chromium);
}

#[test]
fn firefoxes_own_cache_in_each_state() {
    own_cache(Kind::Firefox);
}

/// A page that is never answered, and one whose server is not there.
fn no_page(kind: Kind) {
    let Some(program) = browser(kind) else { return };
    let directory = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let never = format!("http://{}/never", silent.local_addr().unwrap());
    let mut plan = plan(kind, program, directory.path());
    plan.page = Page::Url(never.clone());
    plan.patience = Duration::from_secs(2);
    let error = conduct::run(&plan, &mut Evicted, &mut |_| {}).unwrap_err();
    assert_eq!((error.exit, error.object.as_str()), (Exit::Target, never.as_str()), "{error}");
    assert!(error.what.contains("did not load in 2 s"), "{error}");
    assert_eq!(who_names(directory.path()), [0; 0]);
    drop(silent);
    let error = conduct::run(&plan, &mut Evicted, &mut |_| {}).unwrap_err();
    assert_eq!((error.exit, error.object.as_str()), (Exit::Target, never.as_str()), "{error}");
    assert_eq!(who_names(directory.path()), [0; 0]);
}

#[test]
fn chromium_names_the_page_that_does_not_load() {
    no_page(Kind::Chromium);
}

#[test]
fn firefox_names_the_page_that_does_not_load() {
    no_page(Kind::Firefox);
}

#[test]
fn a_browser_that_does_not_start_is_named_with_what_it_said() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("browser");
    testing::write_script(&program, "#!/bin/sh\necho 'no display' >&2\nexit 1");
    for kind in [Kind::Chromium, Kind::Firefox] {
        let profile = directory.path().join("profile");
        let temporary = directory.path().to_owned();
        let setup = Setup { program: program.clone(), profile, temporary, caching: Caching::Own, patience: PATIENCE };
        let error = drive::start(kind, &setup).unwrap_err();
        assert_eq!(error.object, program.display().to_string());
        assert!(error.to_string().contains("no display"), "{error}");
    }
}

/// A proxy that hears of all requests and answers them itself.
fn through_a_proxy(kind: Kind) {
    let Some(program) = browser(kind) else { return };
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let body = format!("<link rel=icon href=data:,><pre>{}", head.lines().next().unwrap_or_default());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=9999\r\nContent-Type: text/html\r\n\
                 Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    let caching = Caching::Proxy(address);
    let temporary = directory.path().to_owned();
    let setup = Setup { program, profile: directory.path().join("profile"), temporary, caching, patience: PATIENCE };
    let mut browser = drive::start(kind, &setup).unwrap();
    for visit in [Visit::Navigate, Visit::Navigate, Visit::Reload] {
        let loaded = browser.load("http://127.0.0.1:8123/page", visit).unwrap();
        assert_eq!((loaded.requests, loaded.from_cache), (1, 0), "it keeps nothing: {loaded:?}");
        assert!(loaded.bytes > 0);
    }
    browser.close().unwrap();
    assert_eq!(who_names(directory.path()), [0; 0]);
}

/// A page with a text at once, and an image that comes half a second later.
fn a_late_image(kind: Kind) {
    let Some(program) = browser(kind) else { return };
    let directory = tempfile::tempdir().unwrap();
    let image = Site::new(SITE).get("image-0000.png").unwrap().body.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // It ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let image = image.clone();
            std::thread::spawn(move || {
                let mut line = [0; 10];
                let is_image = stream.read_exact(&mut line).is_ok() && line.starts_with(b"GET /late");
                let page = b"<link rel=icon href=data:,><h1>text</h1><img src=late width=640 height=390>".to_vec();
                let (kind, body) = if is_image { ("image/png", image) } else { ("text/html", page) };
                if is_image {
                    std::thread::sleep(Duration::from_millis(500));
                }
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
                let _ = std::io::Write::write_all(&mut stream, &[head.as_bytes(), &body].concat());
                // Until the browser has it all: closing with unread bytes would reset the connection.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    let temporary = directory.path().to_owned();
    let setup = Setup {
        program,
        profile: directory.path().join("profile"),
        temporary,
        caching: Caching::Own,
        patience: PATIENCE,
    };
    let mut browser = drive::start(kind, &setup).unwrap();
    let loaded = browser.load(&url, Visit::Navigate).unwrap();
    assert_eq!(loaded.requests, 2, "{loaded:?}");
    assert!(loaded.load_ms >= 500.0 && loaded.largest_paint_ms >= Some(500.0), "{loaded:?}");
    assert!(loaded.first_paint_ms <= loaded.largest_paint_ms, "{loaded:?}");
    browser.close().unwrap();
}

#[test]
fn chromiums_largest_paint_is_that_of_the_image() {
    a_late_image(Kind::Chromium);
}

#[test]
fn firefoxes_largest_paint_is_that_of_the_image() {
    a_late_image(Kind::Firefox);
}

#[test]
fn chromium_goes_through_a_proxy_and_keeps_nothing() {
    through_a_proxy(Kind::Chromium);
}

#[test]
fn firefox_goes_through_a_proxy_and_keeps_nothing() {
    through_a_proxy(Kind::Firefox);
}
