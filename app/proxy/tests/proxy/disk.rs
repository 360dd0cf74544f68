//! What is kept on disk: what outlives the process, what does not come back, and who may use it.

use crate::cache::{answer, ask, get};
use crate::origin::Origin;
use crate::started::{PROGRAM, Proxy};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use thaw_entrystore::{Options, Phase, Store};

/// An origin whose answers are numbered, with these fields.
fn numbered(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::new(move |seen, socket| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let language = seen.all("accept-language").join(",");
        answer(socket, "200 OK", fields, &format!("{} {language} {number}", seen.path()))
    })
}

const KEPT: &str = "Cache-Control: max-age=1000\r\nX-Own: y\r\n";

fn on(origin: &Origin, folder: &Path) -> Proxy {
    Proxy::reverse(origin.address, &["--store", folder.to_str().unwrap()])
}

/// Waits until so much was written: nobody who asks waits for that.
fn written(proxy: &Proxy, entries: i64) {
    while proxy.metric("disk_written_total") < entries {
        assert_eq!(proxy.metric("disk_dropped_total"), 0);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn what_was_kept_outlives_the_process_however_it_ends() {
    for killed in [false, true] {
        let (origin, folder) = (numbered(KEPT), tempfile::tempdir().unwrap());
        let folder = folder.path().join("made/here");
        std::fs::create_dir(folder.parent().unwrap()).unwrap();
        let mut proxy = on(&origin, &folder);
        for number in 0..5 {
            assert_eq!(ask(&proxy, "GET", &format!("/{number}"), "").1, format!("/{number}  {number}"));
        }
        if killed {
            written(&proxy, 5);
        } else {
            proxy.terminate();
            proxy.ended();
        }
        drop(proxy);
        let proxy = on(&origin, &folder);
        for number in (0..5).rev() {
            let (head, body) = ask(&proxy, "GET", &format!("/{number}"), "");
            assert!(head.contains("\r\nx-own: y\r\n") && head.contains("cache-status: thaw; hit"), "{head}");
            assert_eq!(body, format!("/{number}  {number}"));
        }
        assert_eq!((origin.seen().len(), proxy.metric("disk_entries")), (5, 5));
        assert_eq!(proxy.metric("disk_hits_total"), 5);
    }
}

#[test]
fn after_an_end_the_index_alone_tells_what_is_there() {
    const ENTRIES: u64 = 30;
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let origin = Origin::new(move |seen, socket| match seen.path() {
        "/never" => wait.lock().unwrap().recv().is_ok(),
        path => answer(socket, "200 OK", KEPT, path),
    });
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--store", folder.path().to_str().unwrap(), "--drain", "0"];
        let mut proxy = Proxy::reverse(origin.address, &arguments);
        for number in 0..ENTRIES {
            ask(&proxy, "GET", &format!("/{number}"), "");
        }
        // Also where a client still waits.
        let mut waits = proxy.connect();
        waits.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        while proxy.metric("requests_total") <= ENTRIES as i64 {
            std::thread::yield_now();
        }
        proxy.signal(signal);
        assert_eq!(proxy.ended(), Some(0));
        // What is in the segments cannot be read any more.
        for entry in folder.path().read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some() {
                let length = path.metadata().unwrap().len() as usize;
                std::fs::write(path, vec![0; length]).unwrap();
            }
        }
        let store = Store::open(Options::new(folder.path())).unwrap();
        while store.stats().phase != Phase::Serving {
            assert_ne!(store.stats().phase, Phase::Dead);
            std::thread::yield_now();
        }
        assert_eq!(store.stats().entries, ENTRIES, "after SIG{signal}");
    }
}

#[test]
fn what_was_invalidated_does_not_come_back() {
    let (origin, folder) = (numbered(KEPT), tempfile::tempdir().unwrap());
    let mut proxy = on(&origin, folder.path());
    assert_eq!(get(&proxy, "").1, "/x  0");
    ask(&proxy, "POST", "/x", "Content-Length: 0\r\n");
    proxy.terminate();
    proxy.ended();
    let mut proxy = on(&origin, folder.path());
    assert_eq!(get(&proxy, "").1, "/x  2");
    proxy.terminate();
    proxy.ended();
    // Without having been asked for since the start.
    let proxy = on(&origin, folder.path());
    ask(&proxy, "POST", "/x", "Content-Length: 0\r\n");
    assert_eq!(get(&proxy, "").1, "/x  4");
}

#[test]
fn variants_come_back_together() {
    let (origin, folder) = (numbered("Cache-Control: max-age=1000\r\nVary: Accept-Language\r\n"), tempfile::tempdir());
    let folder = folder.unwrap();
    let mut proxy = on(&origin, folder.path());
    for (number, language) in ["de", "fr", "it"].into_iter().enumerate() {
        let body = get(&proxy, &format!("Accept-Language: {language}\r\n")).1;
        assert_eq!(body, format!("/x {language} {number}"));
    }
    proxy.terminate();
    proxy.ended();
    let proxy = on(&origin, folder.path());
    for (number, language) in ["de", "fr", "it"].into_iter().enumerate() {
        let body = get(&proxy, &format!("Accept-Language: {language}\r\n")).1;
        assert_eq!(body, format!("/x {language} {number}"));
    }
    assert_eq!((proxy.metric("disk_hits_total"), proxy.metric("cache_entries")), (1, 3));
}

/// An origin whose answer to `/large` stands, with another field each time that it is asked; those to other paths can
/// be kept.
fn standing(length: usize) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::new(move |seen, socket| {
        if seen.path() != "/large" {
            return answer(socket, "200 OK", KEPT, &seen.path().repeat(25_000));
        }
        let count = count.fetch_add(1, Ordering::Relaxed);
        let fields = format!("Cache-Control: no-cache\r\nETag: \"1\"\r\nX-Count: {count}\r\n");
        match seen.all("if-none-match").is_empty() {
            true => answer(socket, "200 OK", &fields, &"1234".repeat(length / 4)),
            false => answer(socket, "304 Not Modified", &fields, ""),
        }
    })
}

#[test]
fn an_answer_that_stands_is_not_written_again_and_its_fields_are() {
    const LENGTH: usize = 1_000_000;
    let (origin, folder) = (standing(LENGTH), tempfile::tempdir().unwrap());
    for round in 0..3 {
        let mut proxy = on(&origin, folder.path());
        for number in 0..20 {
            let (head, body) = ask(&proxy, "GET", "/large", "");
            assert!(head.contains(&format!("\r\nx-count: {}\r\n", round * 20 + number)), "{head}");
            assert_eq!(body.len(), LENGTH);
        }
        proxy.terminate();
        proxy.ended();
        let files = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        let bytes: u64 = files.sum();
        // Asked for again in the moment between its last byte and its way to the disk, it is written twice.
        assert!(bytes < 3 * LENGTH as u64, "{bytes} in round {round}");
    }
    assert_eq!(origin.seen().iter().filter(|seen| seen.all("if-none-match").is_empty()).count(), 1);
}

#[test]
fn an_answer_that_stands_is_written_again_where_the_disk_has_it_no_more() {
    let (origin, folder) = (standing(8_000), tempfile::tempdir().unwrap());
    let arguments = ["--store", folder.path().to_str().unwrap(), "--store-size", "16M"];
    let mut proxy = Proxy::reverse(origin.address, &arguments);
    ask(&proxy, "GET", "/large", "");
    // What comes while the disk makes room may be dropped.
    let done = || proxy.metric("disk_written_total") + proxy.metric("disk_dropped_total");
    let wait = |changes| {
        while done() < changes {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    for number in 100..700 {
        ask(&proxy, "GET", &format!("/{number}"), "");
        wait(number - 98);
    }
    assert!(proxy.metric("disk_entries") < 500, "evicted");
    assert!(ask(&proxy, "GET", "/large", "").0.contains("x-count: 1"));
    wait(602);
    proxy.terminate();
    proxy.ended();
    let proxy = Proxy::reverse(origin.address, &arguments);
    assert!(ask(&proxy, "GET", "/large", "").0.contains("x-count: 2"));
    assert_eq!(proxy.metric("disk_hits_total"), 1);
    assert_eq!(origin.seen().iter().filter(|seen| seen.path() == "/large").count(), 3);
}

#[test]
fn what_memory_has_no_room_for_is_on_disk() {
    const LENGTH: usize = 100_000;
    let origin = Origin::new(|seen, socket| answer(socket, "200 OK", KEPT, &seen.path().repeat(LENGTH / 4)));
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--store", folder.path().to_str().unwrap(), "--size", "1M"];
    let proxy = Proxy::reverse(origin.address, &arguments);
    for _ in 0..3 {
        for number in 100..150 {
            let path = format!("/{number}");
            assert!(ask(&proxy, "GET", &path, "").1 == path.repeat(LENGTH / 4), "{path}");
        }
    }
    assert_eq!(origin.seen().len(), 50);
    assert!(proxy.metric("cache_entries") < 20 && proxy.metric("disk_entries") == 50);
}

#[test]
fn a_second_proxy_on_a_directory_serves_and_says_that_it_keeps_nothing_there() {
    let (origin, folder) = (numbered(KEPT), tempfile::tempdir().unwrap());
    let first = on(&origin, folder.path());
    assert_eq!(get(&first, "").1, "/x  0");
    written(&first, 1);
    let mut command = Command::new(PROGRAM);
    let reverse = format!("http://{}", origin.address);
    command.args(["--admin", "127.0.0.1:0", "--reverse", &reverse, "--store"]).arg(folder.path());
    let errors = folder.path().join("errors");
    command.stderr(Stdio::from(std::fs::File::create(&errors).unwrap()));
    let second = Proxy::run(command);
    assert_eq!([(); 2].map(|()| get(&second, "").1), ["/x  1", "/x  1"]);
    loop {
        let said = std::fs::read_to_string(&errors).unwrap();
        if said.contains("nothing is kept in") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(get(&first, "").1, "/x  0");
}

#[test]
fn damaged_files_are_misses() {
    let (origin, folder) = (numbered(KEPT), tempfile::tempdir().unwrap());
    let mut proxy = on(&origin, folder.path());
    for number in 0..20 {
        ask(&proxy, "GET", &format!("/{number}"), "");
    }
    proxy.terminate();
    proxy.ended();
    for entry in folder.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        for at in (100..bytes.len()).step_by(611) {
            bytes[at] ^= 0x40;
        }
        std::fs::write(&path, bytes).unwrap();
    }
    let proxy = on(&origin, folder.path());
    for number in 0..20 {
        let path = format!("/{number}");
        assert!(ask(&proxy, "GET", &path, "").1.starts_with(&format!("{path}  ")), "{path}");
    }
    assert!(origin.seen().len() > 20, "something was damaged");
}

#[test]
fn what_a_request_says_of_its_urgency_reaches_the_disk() {
    let (origin, folder) = (numbered(KEPT), tempfile::tempdir().unwrap());
    let proxy = on(&origin, folder.path());
    let says = ["Priority: u=0, i", "Priority: u=5", "Sec-Fetch-Dest: image", "Sec-Fetch-Dest: style", "Accept: */*"];
    let mut urgent = Vec::new();
    for (field, number) in says.iter().zip(0..) {
        ask(&proxy, "GET", &format!("/{number}"), &format!("{field}\r\n"));
        urgent.push(proxy.metric("disk_urgent_total"));
    }
    // Each is looked for twice: before, and after nobody else was found to ask for it.
    assert_eq!(urgent, [2, 2, 2, 4, 6]);
}
