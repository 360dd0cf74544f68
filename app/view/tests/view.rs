//! The page and its server from outside.

#[path = "../examples/made/document.rs"]
mod document;
#[path = "../examples/made/rows.rs"]
#[allow(dead_code, reason = "shared with the example, which makes more kinds")]
mod rows;
#[path = "../examples/made/touches.rs"]
mod touches;
#[path = "../examples/made/types.rs"]
mod types;

use model::{RunId, TraceRows};
use proptest::prelude::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use view::{Open, TouchOf, TraceOf};

fn page_of(rows: &TraceRows) -> (Value, String) {
    let document = document::document("firefox-esr", &document::runs(17.9, 3), Some(rows));
    let html = view::page(&document, &[TraceOf { run: RunId(1), rows }], &[], None).unwrap();
    (document, html)
}

/// The text that a page holds under an id.
fn text<'a>(html: &'a str, id: &str) -> &'a str {
    let begin = format!("<script type=\"application/json\" id=\"{id}\">");
    let text = &html[html.find(&begin).unwrap_or_else(|| panic!("no {id}")) + begin.len()..];
    &text[..text.find("</script>").unwrap()]
}

fn embedded(html: &str, id: &str) -> Value {
    serde_json::from_str(text(html, id)).unwrap()
}

#[test]
fn the_document_travels_as_it_is() {
    let (document, html) = page_of(&rows::rows(rows::Wish { events: 3_000, ..rows::LAPTOP }));
    let travelled = text(&html, "thaw-report").replace("\\u003c", "<");
    let wanted = document.to_string();
    assert!(travelled == wanted, "the document changed on its way into the page");
    assert!(!html.contains("id=\"thaw-comparison\""));
    assert_eq!(embedded(&html, "thaw-events")["schema"], view::EVENTS_SCHEMA);
}

#[test]
fn events_take_six_bytes_at_most() {
    let rows = rows::rows(rows::Wish { events: 60_000, ..rows::MILLION });
    let events = rows.fills.len() + rows.blocks.len() + rows.reads.len() + rows.faults.len();
    let (_, html) = page_of(&rows);
    let bytes = embedded(&html, "thaw-events").to_string().len();
    assert!(bytes <= 6 * events, "{bytes} bytes for {events} events");
}

#[test]
fn what_is_touched_travels_with_its_report() {
    let rows = rows::rows(rows::Wish { events: 6_000, ..rows::LAPTOP });
    let touched = [touches::pages(&rows), touches::functions(&rows)];
    let input = touch::Input { read: Some(&rows), touched: &touched };
    let report = touch::report(&input);
    let program = TouchOf { variant: "firefox-esr", report: &report, details: touch::details(&input) };
    let html = view::page(&document::document("firefox-esr", &[], None), &[], &[program], None).unwrap();
    let travelled = embedded(&html, "thaw-touched");
    assert_eq!(travelled["schema"], view::TOUCHED_SCHEMA);
    let program = &travelled["programs"][0];
    assert_eq!(program["report"], serde_json::to_value(&report).unwrap());
    let (pages, functions) = (&program["touched"]["page"], &program["functions"]);
    assert_eq!(pages["count"], touched[0].touches.len());
    assert_eq!(functions["count"], touched[1].touches.len());
    assert!(touched[1].touches.len() > 20_000);
    let bytes = functions.to_string().len();
    assert!(bytes <= 12 * touched[1].touches.len(), "{bytes} bytes for {} functions", touched[1].touches.len());
    let nobody = view::page(&document::document("x", &[], None), &[], &[], None).unwrap();
    assert_eq!(embedded(&nobody, "thaw-touched")["programs"], Value::Array(Vec::new()));
}

#[test]
fn a_trace_that_the_document_does_not_know_is_left_out() {
    let rows = rows::rows(rows::Wish { events: 1_000, ..rows::LAPTOP });
    let document = document::document("firefox-esr", &[], None);
    let html = view::page(&document, &[TraceOf { run: RunId(1), rows: &rows }], &[], None).unwrap();
    assert_eq!(embedded(&html, "thaw-events")["traces"], Value::Array(Vec::new()));
}

#[test]
fn an_empty_trace_makes_a_page() {
    let (_, html) = page_of(&TraceRows::default());
    assert_eq!(embedded(&html, "thaw-events")["traces"][0]["requests"]["count"], 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rows that contradict each other still make a page: times that run backwards, offsets at the end of what a number
    /// can hold, files that are not there.
    #[test]
    fn odd_rows_never_panic(
        cuts in prop::collection::vec((0_usize..400, any::<u64>(), any::<u64>(), any::<u32>()), 0..40),
    ) {
        let mut rows = rows::rows(rows::Wish { events: 1_500, ..rows::LAPTOP });
        for (at, a, b, pid) in cuts {
            if let Some(block) = rows.blocks.get_mut(at) {
                block.start_ns = model::Nanos(a);
                block.disk = model::DiskOffset(b >> 8);
                block.pid = Some(pid);
            }
            if let Some(fill) = rows.fills.get_mut(at) {
                fill.at_ns = model::Nanos(b);
                fill.offset = model::FileOffset(a >> 2);
            }
            if let Some(process) = rows.processes.get_mut(at) {
                process.start_ns = model::Nanos(a);
                process.pid = pid;
            }
        }
        let document = document::document("x", &[], None);
        let mut known = document.clone();
        known["traces"] = serde_json::json!([{ "run": 1, "report": { "files": [{}, { "path": 7 }] } }]);
        for document in [document, known] {
            view::page(&document, &[TraceOf { run: RunId(1), rows: &rows }], &[], None).unwrap();
        }
    }
}

fn viewer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("viewer")
}

#[test]
fn the_committed_bundle_is_what_its_sources_build() {
    if !Command::new("node").arg("--version").output().is_ok_and(|node| node.status.success()) {
        return testing::skip("needs node to build the viewer");
    }
    if !viewer().join("node_modules/esbuild").exists() {
        return testing::skip("needs the viewer's packages: cd viewer && npm ci");
    }
    let fresh = tempfile::tempdir().unwrap();
    let built = Command::new("node").arg(viewer().join("build.mjs")).arg("--check").arg(fresh.path()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in ["viewer.js", "viewer.css", "hashes.txt"] {
        let (committed, built) =
            (std::fs::read(viewer().join("dist").join(name)), std::fs::read(fresh.path().join(name)));
        assert!(
            committed.unwrap() == built.unwrap(),
            "viewer/dist/{name} is not what viewer/src builds: run `cd viewer && npm run build`"
        );
    }
}

#[test]
fn the_committed_types_are_those_of_the_reports() {
    let committed = std::fs::read_to_string(viewer().join("src/types/generated.ts")).unwrap();
    assert!(
        committed == types::typescript(),
        "viewer/src/types/generated.ts is not made of the report types: run `cargo run -p view --example types > \
         viewer/src/types/generated.ts`, then `cd viewer && npm run check`"
    );
}

/// Asks a server in plain words; the whole answer.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_server_gives_the_page_to_this_machine_until_it_is_interrupted() {
    let (send, receive) = mpsc::channel();
    let server = std::thread::spawn(move || {
        view::serve(Box::new(Arc::<str>::from("<!doctype html>ä")), 0, Open::Nothing, &mut |url| {
            send.send(url.to_owned()).unwrap()
        })
    });
    let url = receive.recv().unwrap();
    let (address, target) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let address = address.to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{url}");
    // A browser opens connections ahead and says nothing on them: others must not wait for these.
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // More than may wait: some that drip must not keep anybody out.
    let mut dripping: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for drip in &mut dripping {
        let _ = drip.write_all(b"G");
    }
    let stranger = ask(&address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(stranger.starts_with("HTTP/1.1 403 ") && !stranger.contains("doctype"), "{stranger}");
    let answer = ask(&address, &format!("GET /{target} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n<!doctype html>ä"), "{answer}");
    assert!(
        answer.contains("Content-Length: 17\r\n") && answer.contains("Content-Security-Policy: default-src 'none'"),
        "{answer}"
    );
    let cookie = answer.split("Set-Cookie: ").nth(1).unwrap().split("\r\n").next().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let head = ask(&address, &format!("HEAD / HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"));
    assert!(head.contains("Content-Length: 17\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let elsewhere = ask(&address, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 403 ") && !elsewhere.contains("doctype"), "{elsewhere}");
    drop((silent, dripping));
    os::interrupt::request();
    server.join().unwrap().unwrap();
    assert!(TcpStream::connect(&address).is_err(), "the server still listens");
}

#[test]
fn a_taken_port_is_an_error_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = view::serve(Box::new(Arc::<str>::from("")), port, Open::Nothing, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")) && error.hint.is_some(), "{error}");
}
