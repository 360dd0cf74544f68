//! The net-log of a real Chromium: a page of a hundred resources over six connections, alone, joined with the trace of
//! the same start, and of a browser that is killed.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use timeline::{Class, Ends, Form, Path as Critical, Phase, Trace, form_of, intervals, path, read, tie};

const RESOURCES: usize = 100;
/// What docs/timeline-imports.md says to record.
const CATEGORIES: &str =
    "devtools.timeline,disabled-by-default-devtools.timeline,blink.user_timing,loading,navigation,toplevel";

/// Serves the page on the loopback until the test ends; its port, and how many requests were answered.
fn serve() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            // A browser that is killed closes in the middle.
            std::thread::spawn(move || drop(answer(stream, &count)));
        }
    });
    (port, answered)
}

fn answer(mut stream: TcpStream, answered: &AtomicUsize) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut request = String::new();
        if lines.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        while lines.read_line(&mut header)? > 2 {
            header.clear();
        }
        let (kind, body) = if request.starts_with("GET / ") {
            let images = (0..RESOURCES).map(|number| format!("<img src=/i{number}.svg>"));
            ("text/html", images.collect::<String>())
        } else {
            // Connections are what the others wait for.
            std::thread::sleep(std::time::Duration::from_millis(5));
            ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>".to_owned())
        };
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")?;
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn chromium(directory: &Path, port: u16, more: &[String]) -> Option<Child> {
    let child = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("user").display()))
        .arg(format!("--log-net-log={}", directory.join("net-log.json").display()))
        .args(more)
        .arg(format!("http://127.0.0.1:{port}/"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    child.inspect_err(|error| testing::skip(&format!("needs chromium: {error}"))).ok()
}

#[test]
fn every_request_of_a_page_is_there_and_every_pool_wait_ends_with_a_hand_over() {
    let directory = tempfile::tempdir().unwrap();
    let (port, _) = serve();
    let Some(mut browser) = chromium(directory.path(), port, &[]) else { return };
    assert!(browser.wait().unwrap().success());
    let bytes = std::fs::read(directory.path().join("net-log.json")).unwrap();
    assert_eq!(form_of(&bytes), Some(Form::NetLog));
    let trace = read(&bytes, None).unwrap();
    assert_eq!(trace.damage, [] as [&str; 0]);
    assert!(trace.clock.is_monotonic && trace.clock.realtime_ns > 0);
    let (objects, all) = intervals(&trace);
    let of_type = |name: &str| all.iter().filter(|one| trace.type_name(one.type_id) == name).collect::<Vec<_>>();
    let page = format!("http://127.0.0.1:{port}/");
    let requests = of_type("net::url_request::REQUEST_ALIVE");
    let of_page = requests.iter().filter(|one| objects.name(one.object).is_some_and(|url| url.starts_with(&page)));
    assert!(of_page.count() > RESOURCES, "the page and what it shows");
    let waits: Vec<_> =
        of_type("net::socket_pool").into_iter().filter(|one| one.waited(u64::MAX) > 10_000_000).collect();
    assert!(waits.len() > RESOURCES / 2, "{} of {RESOURCES} waited for one of six connections", waits.len());
    let uses = of_type("net::socket::SOCKET_IN_USE");
    for wait in waits {
        let (begin, end, job) = (wait.begin(), wait.exec.unwrap().0, objects.address(wait.object));
        let is_socket = |object: u64| uses.iter().any(|one| objects.address(one.object) == object);
        let handed = trace.events.iter().any(|event| {
            let is_then = (begin..=end).contains(&event.at_ns);
            event.phase == Phase::Link && is_then && event.other == Some(job) && is_socket(event.object)
        });
        let is_of_page = objects.name(wait.object).is_some_and(|name| name.starts_with(page.trim_end_matches('/')));
        assert!(handed || !is_of_page, "nobody hands a socket over to {job} until {end}");
    }
    let mut state = 7_u64;
    for _ in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = 100.max((state >> 33) as usize % bytes.len());
        let cut = read(&bytes[..at], None).unwrap();
        let lines = bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        assert!(cut.events.len() + 3 >= lines, "{} events of {lines} lines", cut.events.len());
    }
}

/// The path from the page to whichever of its images came last.
fn load(trace: &Trace, page: &str) -> Critical {
    let (objects, all) = intervals(trace);
    let is_image = |name: &str| name.starts_with(page) && name.ends_with(".svg");
    let ends = all.iter().filter_map(|one| Some((one.done?, objects.name(one.object).filter(|name| is_image(name))?)));
    let (_, last) = ends.max().expect("images were loaded");
    let load = path(trace, Ends { from: Some(page), to: Some(last) }).unwrap();
    let mut at = load.from_ns;
    for step in &load.steps {
        assert_eq!(step.at_ns, at, "every nanosecond has one owner");
        at += step.ns;
    }
    assert_eq!((at, load.to_ns), (load.to_ns, load.from_ns + load.span_ns));
    load
}

fn of_class(load: &Critical, class: Class) -> u64 {
    load.classes.iter().find(|row| row.class == class).map_or(0, |row| row.ns)
}

/// A page is loaded with both traces; how much of its path is not explained, in twentieths of it. `None`: skipped.
fn unexplained_twentieths() -> Option<u64> {
    let directory = tempfile::tempdir().unwrap();
    let (port, _) = serve();
    let traced = [
        format!("--trace-startup={CATEGORIES}"),
        format!("--trace-startup-file={}", directory.path().join("trace.json").display()),
        "--trace-startup-format=json".to_owned(),
        "--trace-startup-duration=0".to_owned(),
    ];
    let mut browser = chromium(directory.path(), port, &traced)?;
    assert!(browser.wait().unwrap().success());
    let of = |name: &str| read(&std::fs::read(directory.path().join(name)).unwrap(), None).unwrap();
    let mut trace = of("net-log.json");
    trace.join(of("trace.json"));
    tie(&mut trace);
    assert!(!trace.not_joined.iter().any(|reason| !reason.starts_with("requests")), "{:?}", trace.not_joined);
    let page = format!("http://127.0.0.1:{port}/");
    let load = load(&trace, &page);
    println!("{} ns: {:?}", load.span_ns, load.classes);
    let is_in = |part: &str| load.owners.iter().any(|owner| owner.object.contains(part) && owner.work_ns > 0);
    assert!(is_in("CrRendererMain") && is_in(&page), "the path leads through the page and the network");
    let pool = load.steps.iter().filter(|step| step.name == "net::socket_pool" && step.ns > 1_000_000);
    assert!(pool.clone().all(|step| step.class != Class::Unexplained), "{:?}", pool.collect::<Vec<_>>());
    Some(of_class(&load, Class::Unexplained) * 20 / load.span_ns)
}

#[test]
fn the_path_of_a_load_is_explained_by_the_net_log_and_the_trace_together() {
    // A thread that the machine lets wait writes nothing meanwhile: on a busy machine one load can have a gap.
    let mut loads = (0..3).map_while(|_| unexplained_twentieths()).peekable();
    assert!(loads.peek().is_none() || loads.any(|unexplained| unexplained == 0), "more than 5 % is not explained");
}

#[test]
fn the_log_of_a_killed_browser_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (port, answered) = serve();
    let Some(mut browser) = chromium(directory.path(), port, &[]) else { return };
    while answered.load(Ordering::SeqCst) < RESOURCES / 2 && browser.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let group = rustix::process::Pid::from_child(&browser);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    browser.wait().unwrap();
    let bytes = std::fs::read(directory.path().join("net-log.json")).unwrap();
    let trace = read(&bytes, None).unwrap();
    assert!(
        !trace.events.is_empty() && trace.damage.iter().any(|damage| damage.contains("killed")),
        "{:?}",
        trace.damage
    );
}
