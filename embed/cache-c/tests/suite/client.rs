//! `example/client.c`.

use crate::origin::{Origin, Request, response};
use crate::programs::{Client, compiled};
use std::process::Command;
use tempfile::TempDir;

const FRESH: &str = "Cache-Control: max-age=3600\r\n";

/// Answers by path: what stays fresh, what has to be validated, what varies, what breaks off.
fn answer(request: &Request, before: usize) -> Vec<u8> {
    let path = request.path.split('?').next().unwrap();
    match path {
        "/fresh" => response("200 OK", FRESH, &format!("fresh {before}")),
        "/tagged" if request.field("if-none-match") == "\"t\"" => {
            response("304 Not Modified", &format!("ETag: \"t\"\r\nX-Round: {before}\r\n"), "")
        }
        "/tagged" => {
            response("200 OK", &format!("ETag: \"t\"\r\nX-Round: {before}\r\nCache-Control: no-cache\r\n"), "tag")
        }
        "/varies" => {
            let language = request.field("accept-language");
            response("200 OK", &format!("{FRESH}Vary: Accept-Language\r\n"), &format!("in {language} {before}"))
        }
        "/large" => response("200 OK", FRESH, &"0123456789".repeat(30_000)),
        "/cut" => format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n{FRESH}\r\n0123456789").into_bytes(),
        "/unknown-length" => format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nuntil the end").into_bytes(),
        "/private" => response("200 OK", "Cache-Control: no-store\r\n", "mine"),
        "/meanwhile" => {
            let fields = "Cache-Control: max-age=0, stale-while-revalidate=1000\r\nETag: \"m\"\r\n";
            response("200 OK", fields, &format!("meanwhile {before}"))
        }
        "/fails" if before > 0 => Vec::new(),
        "/fails" => response("200 OK", "Cache-Control: max-age=0\r\nETag: \"f\"\r\n", "before"),
        _ => response("404 Not Found", "", "no"),
    }
}

/// What a test works with. `None`: skipped.
fn start(answer: impl Fn(&Request, usize) -> Vec<u8> + Send + 'static) -> Option<(TempDir, Command, Origin)> {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "example/client.c", &[])?;
    let mut command = Command::new(program);
    command.arg(folder.path().join("cache"));
    Some((folder, command, Origin::new(answer)))
}

#[test]
fn what_is_fresh_is_fetched_once_also_by_later_processes() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let get = format!("get {}", origin.url("/fresh"));
    let mut client = Client::start(&mut command);
    let missed = client.fetch(&get);
    assert_eq!(missed.brief(), (200, "origin", "fresh 0", "stored"));
    assert!(missed.fields.contains("cache-status: thaw; fwd=uri-miss; fwd-status=200; stored"), "{missed:?}");
    let hit = client.fetch(&get);
    assert_eq!(hit.brief(), (200, "store", "fresh 0", "-"));
    assert!(hit.fields.contains("age: ") && hit.fields.contains("cache-status: thaw; hit; ttl="), "{hit:?}");
    assert_eq!(client.say("stats"), "entries 1 served 1 validated 0 forwarded 1 stored 1 dropped 0 dead 0");
    client.end();
    let mut client = Client::start(&mut command);
    assert_eq!(client.fetch(&get).brief(), (200, "store", "fresh 0", "-"));
    assert_eq!(client.fetch(&get.replace("get", "head")).brief(), (200, "store", "", "-"));
    client.end();
    assert_eq!(origin.log().len(), 1);
}

#[test]
fn a_304_gives_what_is_stored_a_new_head() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let get = format!("get {}", origin.url("/tagged"));
    let mut client = Client::start(&mut command);
    assert_eq!(client.fetch(&get).brief(), (200, "origin", "tag", "stored"));
    for round in 1..3 {
        let validated = client.fetch(&get);
        assert_eq!(validated.brief(), (200, "store", "tag", "-"));
        assert!(validated.fields.contains(&format!("x-round: {round};")), "{validated:?}");
    }
    client.end();
    // The head of the last 304 is on the disk, with the body that was there before.
    let mut client = Client::start(&mut command);
    let asked = client.fetch(&format!("{get} cache-control: max-stale, only-if-cached"));
    assert_eq!(asked.status, 504, "no-cache is never served unasked");
    let mine = client.fetch(&format!("{get} if-none-match: \"t\""));
    assert_eq!(mine.brief(), (304, "store", "", "-"));
    client.end();
    let log = origin.log();
    assert!(log[1..].iter().all(|request| request.field("if-none-match") == "\"t\""), "{log:?}");
    assert_eq!(log.len(), 4);
}

#[test]
fn variants_live_side_by_side_in_one_entry() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let url = origin.url("/varies");
    let ask = |language: &str| format!("get {url} accept-language: {language}");
    let mut client = Client::start(&mut command);
    for (at, language) in ["de", "en", "fr"].into_iter().enumerate() {
        let body = format!("in {language} {at}");
        assert_eq!(client.fetch(&ask(language)).brief(), (200, "origin", &*body, "stored"));
    }
    assert!(client.say("stats").starts_with("entries 1 "));
    client.end();
    let mut client = Client::start(&mut command);
    for (at, language) in ["de", "en", "fr"].into_iter().enumerate() {
        let body = format!("in {language} {at}");
        assert_eq!(client.fetch(&ask(language)).brief(), (200, "store", &*body, "-"));
        // Parts of them, which do not lie where the entry begins.
        let part = client.fetch(&format!("{}|range: bytes=3-4", ask(language)));
        assert_eq!(part.brief(), (206, "store", language, "-"));
    }
    client.end();
    assert_eq!(origin.log().len(), 3);
}

#[test]
fn ranges_are_cut_out_of_what_is_stored_and_large_bodies_come_whole() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let get = format!("get {}", origin.url("/large"));
    let mut client = Client::start(&mut command);
    assert_eq!(client.fetch(&get).kept, "stored");
    let whole = client.fetch(&get);
    assert_eq!((whole.from.as_str(), whole.body == "0123456789".repeat(30_000)), ("store", true));
    for (range, body) in [("0-4", "01234"), ("299990-", "0123456789"), ("-3", "789"), ("270000-270002", "012")] {
        let part = client.fetch(&format!("{get} range: bytes={range}"));
        assert_eq!(part.brief(), (206, "store", body, "-"));
        assert!(part.fields.contains("content-range: bytes "), "{part:?}");
    }
    assert_eq!(client.fetch(&format!("{get} range: bytes=300000-")).brief(), (416, "store", "", "-"));
    client.end();
    assert_eq!(origin.log().len(), 1);
}

#[test]
fn only_if_cached_never_asks_the_origin() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let get = format!("get {}", origin.url("/fresh"));
    let only = format!("{get} cache-control: only-if-cached");
    let mut client = Client::start(&mut command);
    assert_eq!(client.fetch(&only).brief(), (504, "cache", "", "-"));
    assert_eq!(client.fetch(&get).kept, "stored");
    assert_eq!(client.fetch(&only).brief(), (200, "store", "fresh 0", "-"));
    client.end();
    assert_eq!(origin.log().len(), 1);
}

#[test]
fn only_whole_bodies_that_may_be_are_stored() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let mut client = Client::start(&mut command);
    let mut kept = |path| {
        let get = format!("get {}", origin.url(path));
        let first = client.fetch(&get);
        (first.kept, first.fields.contains("; stored"), client.fetch(&get).from)
    };
    assert_eq!(kept("/unknown-length"), ("stored".into(), true, "store".into()));
    assert_eq!(kept("/cut"), ("aborted".into(), true, "origin".into()));
    assert_eq!(kept("/private"), ("-".into(), false, "origin".into()));
    client.end();
}

#[test]
fn what_is_stale_is_served_where_that_is_allowed() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let mut client = Client::start(&mut command);
    let get = format!("get {}", origin.url("/meanwhile"));
    assert_eq!(client.fetch(&get).brief(), (200, "origin", "meanwhile 0", "stored"));
    // The client has the old one and fetches the new one behind it, and says so in another line.
    assert_eq!(client.fetch(&get).brief(), (200, "store", "meanwhile 0", "-"));
    let behind = client.line();
    assert!(behind.contains("meanwhile 1") && behind.ends_with("stored"), "{behind}");
    assert_eq!(client.fetch(&get).body, "meanwhile 1");
    client.line();
    client.end();
    let origin = Origin::new(answer);
    let mut client = Client::start(&mut command);
    let get = format!("get {}", origin.url("/fails"));
    assert_eq!(client.fetch(&get).brief(), (200, "origin", "before", "stored"));
    let stale = client.fetch(&get);
    assert_eq!(stale.brief(), (200, "store", "before", "-"));
    assert!(stale.fields.contains("origin-unreachable"), "{stale:?}");
    assert_eq!(client.fetch(&format!("get {}", origin.url("/fails?other"))).brief(), (502, "nowhere", "", "-"));
    client.end();
    assert_eq!(origin.log().len(), 3);
}

#[test]
fn what_is_invalidated_or_cleared_is_gone() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let url = |path: &str| origin.url(path);
    let mut client = Client::start(&mut command);
    let stored = |client: &mut Client, path: &str| {
        client.fetch(&format!("get {} cache-control: only-if-cached", url(path))).status == 200
    };
    let paths = ["/fresh?1", "/fresh?2", "/fresh?3", "/varies"];
    let fill = |client: &mut Client| {
        for path in paths {
            client.fetch(&format!("get {}", url(path)));
        }
    };
    fill(&mut client);
    assert_eq!(client.say(&format!("invalidate {}", url("/fresh?1"))), "done 1");
    assert_eq!(paths.map(|path| stored(&mut client, path)), [false, true, true, true]);
    // What changes something at the origin takes it away too (RFC 9111 section 4.4).
    let changing = Origin::new(|_, _| response("200 OK", FRESH, "one"));
    let get = format!("get {}", changing.url("/"));
    assert_eq!((client.fetch(&get).from, client.fetch(&get).from), ("origin".into(), "store".into()));
    assert_eq!(client.fetch(&get.replace("get", "post")).from, "origin");
    assert_eq!(client.fetch(&get).from, "origin");
    assert_eq!(changing.log().into_iter().map(|request| request.method).collect::<Vec<_>>(), ["GET", "POST", "GET"]);
    assert_eq!(client.say(&format!("prefix {}", url("/fresh?"))), "done 1");
    assert_eq!(paths.map(|path| stored(&mut client, path)), [false, false, false, true]);
    fill(&mut client);
    assert_eq!(client.say("clear"), "done 1");
    client.end();
    let mut client = Client::start(&mut command);
    assert_eq!(paths.map(|path| stored(&mut client, path)), [false; 4]);
    client.end();
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let Some((_folder, mut command, origin)) = start(answer) else { return };
    let mut acknowledged = 0;
    for round in 0..5 {
        let mut client = Client::start(&mut command);
        for at in 0..=round * 3 {
            assert_eq!(client.fetch(&format!("get {}", origin.url(&format!("/fresh?{round}-{at}")))).kept, "stored");
            acknowledged += 1;
        }
        // It is killed in the middle of something, too.
        client.send(&format!("get {}", origin.url("/large")));
        client.kill();
    }
    let mut client = Client::start(&mut command);
    let mut found = 0;
    for round in 0..5 {
        for at in 0..=round * 3 {
            let url = origin.url(&format!("/fresh?{round}-{at}"));
            let hit = client.fetch(&format!("get {url} cache-control: only-if-cached"));
            found += u32::from(hit.status == 200 && hit.body.starts_with("fresh "));
        }
    }
    client.end();
    assert_eq!(found, acknowledged);
}

#[test]
fn a_directory_that_another_process_has_is_no_error() {
    let Some((folder, mut command, origin)) = start(answer) else { return };
    let get = format!("get {}", origin.url("/fresh"));
    let mut first = Client::start(&mut command);
    assert_eq!(first.fetch(&get).kept, "stored");
    let mut second = Client::start(&mut command);
    assert_eq!(second.fetch(&get).brief(), (200, "origin", "fresh 1", "dropped"));
    assert!(second.say("stats").ends_with("dead 1"));
    second.end();
    first.end();
    assert!(folder.path().join("cache").exists());
}

#[test]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(&folder, "example/client.c", &[]) else { return };
    let Some(mut command) = testing::valgrind(&program) else { return };
    command.arg(folder.path().join("cache"));
    let origin = Origin::new(answer);
    for round in 0..2 {
        let mut client = Client::start(&mut command);
        for path in ["/fresh", "/tagged", "/varies", "/large", "/cut", "/private", "/fails"] {
            let get = format!("get {}", origin.url(path));
            client.fetch(&get);
            client.fetch(&format!("{get} range: bytes=1-2"));
        }
        assert_eq!(client.say("flush"), "done 1");
        assert_eq!(client.say(if round == 0 { "stats" } else { "clear" }).contains("entries"), round == 0);
        client.end();
    }
}
