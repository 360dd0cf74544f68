//! store: what files of records tell, and what a repair does to a damaged one.

use crate::scratch::Scratch;
use std::path::Path;
use thaw_log::book::Book;
use thaw_log::disk::{Disk, Folder};
use thaw_log::frame::Head;

const KIND: [u8; 4] = *b"WEBS";

fn fill(folder: &Path, name: &str, contents: &[&[u8]]) {
    std::fs::create_dir_all(folder).unwrap();
    let (disk, mut book) = (Folder::new(folder), Book::new(name));
    let head = Head { kind: KIND, generation: 4, made_ms: 0, salt: 0, label: b"\0https://a.example".to_vec() };
    book.replace(&disk, head, &contents[..1]).unwrap();
    book.append(&disk, &contents[1..]).unwrap();
}

/// Changes a byte of the second of three records.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(6).position(|at| at == b"second").unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

const THREE: [&[u8]; 3] = [b"first", b"second", b"third"];

#[test]
fn what_is_there_is_told_and_what_is_damaged_is_named_and_repaired() {
    let scratch = Scratch::new();
    let folder = scratch.path("storage");
    fill(&folder, "one", &THREE);
    fill(&folder, "two", &THREE);
    let listed = scratch.thaw(["store", "ls", "storage"]).exits(0);
    listed.says("web storage").says("https://a.example").says_not("damaged");
    let json = scratch.thaw(["store", "ls", "storage/one", "--json"]).exits(0).json();
    let file = &json["files"][0];
    assert_eq!(
        (&json["schema"], &file["generation"], &file["records"]),
        (&"thaw.store/1".into(), &4.into(), &3.into())
    );
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 files with 6 records read; 0 damaged");
    damage(&folder.join("one"));
    let before = std::fs::read(folder.join("one")).unwrap();
    let said = scratch.thaw(["store", "verify", "storage"]).exits(5).says("1 damaged");
    said.says("one: bytes").says("1 record before that can be read, 1 record behind");
    assert_eq!(std::fs::read(folder.join("one")).unwrap(), before, "looking changes nothing");
    scratch.thaw(["store", "repair", "storage"]).exits(0).says("kept in one.damaged-1");
    let kept = [std::fs::read(folder.join("one")).unwrap(), std::fs::read(folder.join("one.damaged-1")).unwrap()];
    assert_eq!(kept.concat(), before, "no byte is lost");
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 files with 4 records read; 0 damaged");
    scratch.thaw(["store", "ls", "storage"]).exits(0).says("kept by a repair");
    scratch.thaw(["store", "repair", "storage"]).exits(0).says("Nothing was damaged");
}

#[test]
fn a_write_that_did_not_end_is_no_damage() {
    let scratch = Scratch::new();
    let folder = scratch.path("storage");
    fill(&folder, "one", &THREE);
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("one")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    scratch.thaw(["store", "verify", "storage"]).exits(0).says("2 records").says("1 file ends with a write");
    scratch.thaw(["store", "ls", "storage"]).exits(0).says("did not end");
    scratch.thaw(["store", "repair", "storage/one"]).exits(0).says("28 B cut off, of a write that did not end");
    scratch.thaw(["store", "verify", "storage"]).exits(0).says_not("ends with a write");
}

#[test]
fn what_is_in_use_is_not_repaired_and_what_is_no_store_is_left_as_it_is() {
    let scratch = Scratch::new();
    let folder = scratch.path("session");
    fill(&folder, "current", &THREE);
    let disk = Folder::new(&folder);
    assert!(disk.lock().unwrap());
    damage(&folder.join("current"));
    scratch.thaw(["store", "repair", "session"]).exits(2).complains("a program uses it");
    scratch.thaw(["store", "verify", "session"]).exits(5);
    drop(disk);
    scratch.thaw(["store", "repair", "session"]).exits(0).says("current.damaged-1");

    scratch.thaw(["store", "ls", "nowhere"]).exits(2).complains("nowhere");
    scratch.write("diary/today.txt", "dear diary");
    for verb in ["ls", "verify", "repair"] {
        scratch.thaw(["store", verb, "diary"]).exits(2).complains("no file of records is in it");
        scratch.thaw(["store", verb, "diary/today.txt"]).exits(2).complains("it is no file of records");
    }
    assert_eq!(std::fs::read_dir(scratch.path("diary")).unwrap().count(), 1);
    std::os::unix::fs::symlink(folder.join("current"), scratch.path("link")).unwrap();
    scratch.thaw(["store", "repair", "link"]).exits(2).complains("neither a directory nor a file");
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

#[test]
fn keys_and_values_of_an_origin_are_shown_as_they_are() {
    use thaw_webstorage::{Options, Storage, Urgency};
    let scratch = Scratch::new();
    let storage = Storage::open(&scratch.path("storage"), Options::default()).unwrap();
    let area = storage.area("https://top.example", "https://a.example", Urgency::Urgent).unwrap();
    area.wait().unwrap();
    area.set(&units("second"), &units("gr\u{fc}n \u{9b}31m")).unwrap();
    area.set(&units("first"), &[0xD800, 0x61]).unwrap();
    area.set(&units("gone"), &units("x")).unwrap();
    area.remove(&units("gone")).unwrap();
    let table = storage.table("", "settings", Urgency::Urgent).unwrap();
    table.wait().unwrap();
    table.set(b"\xff", b"text").unwrap();
    assert!(storage.flush_and_wait());
    // While its program runs.
    let shown = scratch.thaw(["store", "show", "storage"]).exits(0);
    let shown = shown.says("2 keys of https://a.example in https://top.example").says("gr\u{fc}n").says("0xff");
    assert!(!shown.out().contains('\u{9b}'), "what a page stored moves no cursor");
    let json = scratch.thaw(["store", "export", "storage"]).exits(0).json();
    let of = |origin: &str| {
        let all = json.as_array().unwrap().iter().map(|file| &file["web_storage"]);
        all.into_iter().find(|area| area["origin"] == origin).unwrap().clone()
    };
    let pairs = serde_json::json!([["second", "gr\u{fc}n \u{9b}31m"], ["first", { "utf16": [0xD800, 0x61] }]]);
    assert_eq!(of("https://a.example")["pairs"], pairs);
    assert_eq!(of("settings")["pairs"], serde_json::json!([[{ "hex": "ff" }, "text"]]));
    storage.close().unwrap();
}

#[test]
fn a_session_is_shown_as_a_tree() {
    use thaw_session::{New, Options, Place, ROOT, Session, flag, kind};
    let scratch = Scratch::new();
    let session = Session::open(&scratch.path("session"), &Options::default()).unwrap();
    let window = loop {
        let new = New { kind: kind::WINDOW, title: "a window", ..New::default() };
        match session.insert(ROOT, Place::Last, &new) {
            Ok(window) => break window,
            Err(thaw_session::Error::NotReady) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    for number in 0..30 {
        let title = format!("tab {number}");
        let flags = if number == 3 { flag::VISIBLE } else { 0 };
        let new = New { kind: kind::TAB, flags, title: &title, origin: "https://a.example", payload: b"\xfe" };
        session.insert(window, Place::Last, &new).unwrap();
    }
    session.close(true).unwrap();
    let shown = scratch.thaw(["store", "show", "session"]).exits(0);
    shown.says("31 items").says("  tab").says("visible").says("tab 3").says("11 more: --all shows them");
    let json = scratch.thaw(["store", "show", "session", "--json"]).exits(0).json();
    let items = json["session"].as_array().unwrap();
    assert_eq!((items.len(), &items[4]["title"]), (31, &"tab 3".into()));
    assert_eq!((&items[4]["depth"], &items[4]["payload"]), (&1.into(), &serde_json::json!({ "hex": "fe" })));

    // Damage in the first record, of payloads: all that lies behind it is read.
    let file = scratch.path("session/clean");
    let mut wrong = std::fs::read(&file).unwrap();
    wrong[110] ^= 1;
    std::fs::write(&file, &wrong).unwrap();
    scratch.thaw(["store", "verify", "session"]).exits(5).says("clean");
    scratch.thaw(["store", "repair", "session"]).exits(0).says("made anew").says("kept as it was in clean.damaged-1");
    assert_eq!(std::fs::read(scratch.path("session/clean.damaged-1")).unwrap(), wrong, "no byte is lost");
    scratch.thaw(["store", "verify", "session"]).exits(0);
    let json = scratch.thaw(["store", "show", "session/current", "--json"]).exits(0).json();
    assert_eq!(json["session"].as_array().unwrap().len(), 31);
    scratch.thaw(["store", "repair", "session"]).exits(0).says("Nothing was damaged");
}

#[test]
fn cookies_are_shown_and_exported_for_other_programs() {
    use thaw_cookies::{Context, Jar, Options};
    let scratch = Scratch::new();
    let jar = Jar::open(Options::new(scratch.path("cookies"))).unwrap();
    jar.wait_whole();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    for header in ["a=1; Max-Age=1000; Secure; HttpOnly", "b=\"two\"; Max-Age=1000; Domain=a.example; Path=/sub"] {
        jar.set(header.as_bytes(), "https://www.a.example/sub/page", now, &Context::default()).unwrap();
    }
    jar.wait_for(jar.flush()).unwrap();
    scratch.thaw(["store", "show", "cookies"]).exits(0).says("2 cookies").says("host only, secure, HTTP only");
    let text = scratch.thaw(["store", "export", "cookies", "--form", "netscape"]).exits(0);
    text.says("#HttpOnly_www.a.example\tFALSE\t/sub\tTRUE\t").says(".a.example\tTRUE\t/sub\tFALSE\t");
    scratch.thaw(["store", "export", "cookies", "-o", "jar.json"]).exits(0);
    scratch.thaw(["store", "export", "cookies", "-o", "jar.json"]).exits(2).complains("jar.json");

    // Damage in one change: the other, behind it, is read.
    jar.set(b"c=3; Max-Age=1000", "https://c.example/", now, &Context::default()).unwrap();
    jar.wait_for(jar.flush()).unwrap();
    let file = scratch.path("cookies/cookies");
    let mut wrong = std::fs::read(&file).unwrap();
    let at = wrong.windows(3).position(|at| at == b"two").unwrap();
    wrong[at] ^= 1;
    std::fs::write(&file, &wrong).unwrap();
    scratch.thaw(["store", "repair", "cookies"]).exits(2).complains("a program uses it");
    drop(jar);
    scratch.thaw(["store", "verify", "cookies"]).exits(5);
    scratch.thaw(["store", "repair", "cookies"]).exits(0).says("made anew").says(".damaged-1");
    scratch.thaw(["store", "verify", "cookies"]).exits(0);
    scratch.thaw(["store", "show", "cookies"]).exits(0).says("c.example");
    scratch.thaw(["store", "repair", "cookies"]).exits(0).says("Nothing was damaged");
}

/// As Firefox packs its session: LZ4, here without a match.
fn packed(json: &str) -> Vec<u8> {
    let mut out = [b"mozLz40\0", &(json.len() as u32).to_le_bytes()[..], &[0xF0]].concat();
    let mut left = json.len() - 15;
    while left >= 255 {
        out.push(255);
        left -= 255;
    }
    out.push(left as u8);
    [&out, json.as_bytes()].concat()
}

/// What is in a profile of Firefox, as far as it is read.
fn profile(scratch: &Scratch) {
    let page = |url: &str, title: &str| serde_json::json!({ "url": url, "title": title });
    let json = serde_json::json!({
        "version": ["sessionrestore", 1],
        "selectedWindow": 1,
        "windows": [{ "selected": 2, "tabs": [
            { "index": 1, "pinned": true, "entries": [page("https://a.example/", "pinned")] },
            { "index": 2, "entries": [page("https://b.example/1", "before"), page("https://b.example/2?x", "seen")] },
        ] }],
    });
    scratch.write("profile/sessionstore.jsonlz4", packed(&json.to_string()));
    let base = rusqlite::Connection::open(scratch.path("profile/cookies.sqlite")).unwrap();
    base.execute_batch(
        "PRAGMA user_version = 15;
         CREATE TABLE moz_cookies (id INTEGER PRIMARY KEY, originAttributes TEXT NOT NULL DEFAULT '', name TEXT,
           value TEXT, host TEXT, path TEXT, expiry INTEGER, lastAccessed INTEGER, creationTime INTEGER,
           isSecure INTEGER, isHttpOnly INTEGER, inBrowserElement INTEGER DEFAULT 0, sameSite INTEGER DEFAULT 0);
         INSERT INTO moz_cookies (name, value, host, path, expiry, lastAccessed, creationTime, isSecure, isHttpOnly)
           VALUES ('id', 'seven', '.a.example', '/', 4000000000, 5, 5, 1, 0);
         INSERT INTO moz_cookies (originAttributes, name, value, host, path, expiry, lastAccessed, creationTime,
           isSecure, isHttpOnly) VALUES ('^userContextId=2', 'id', 'x', '.a.example', '/', 4000000000, 5, 5, 1, 0);",
    )
    .unwrap();
}

#[test]
fn what_a_browser_has_is_taken_over_and_its_profile_stays_as_it_is() {
    let scratch = Scratch::new();
    profile(&scratch);
    let files = || -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let all = std::fs::read_dir(scratch.path("profile")).unwrap().map(|file| file.unwrap());
        let mut all: Vec<_> = all.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect();
        all.sort();
        all
    };
    let before = files();
    let said = scratch.thaw(["store", "import", "profile", "-o", "taken"]).exits(0);
    said.says("1 window with 2 tabs and 3 pages of history, and 1 cookie").says("it is one container's");
    assert_eq!(files(), before);
    scratch.thaw(["store", "ls", "taken"]).exits(2).hints("such as taken/cookies");
    let json = scratch.thaw(["store", "show", "taken/session", "--json"]).exits(0).json();
    let items = json["session"].as_array().unwrap();
    let told: Vec<String> = items.iter().map(|item| format!("{} {}", item["title"], item["visible"])).collect();
    let tree =
        ["\"\" true", "\"pinned\" false", "\"pinned\" true", "\"seen\" true", "\"before\" false", "\"seen\" true"];
    assert_eq!(told, tree);
    assert_eq!(
        (&items[5]["payload"], &items[5]["origin"]),
        (&"https://b.example/2?x".into(), &"https://b.example".into())
    );
    scratch.thaw(["store", "show", "taken/cookies"]).exits(0).says("a.example").says("seven");
    scratch.thaw(["store", "verify", "taken/session"]).exits(0);
    // What is there stays.
    scratch.thaw(["store", "import", "profile", "-o", "taken"]).exits(2).complains("taken").hints("not there yet");
    scratch.thaw(["store", "show", "taken/cookies"]).exits(0).says("seven");
}

#[test]
fn of_a_damaged_profile_what_can_be_read_is_taken_over() {
    let scratch = Scratch::new();
    profile(&scratch);
    scratch.write("profile/sessionstore.jsonlz4", b"mozLz40\0\x10\0\0\0\xF0");
    let said = scratch.thaw(["store", "import", "profile", "-o", "taken"]).exits(0);
    said.says("0 windows").says("1 cookie taken over").says("left out: ").says("sessionstore.jsonlz4");
    scratch.write("profile/cookies.sqlite", "no database");
    scratch.thaw(["store", "import", "profile", "-o", "other"]).exits(5).complains("cookies.sqlite");
    assert!(!scratch.path("other").exists());
    scratch.write("diary/today.txt", "dear diary");
    scratch.thaw(["store", "import", "diary", "-o", "other"]).exits(2).complains("it is no profile");
    scratch.write("chromium/Default/Cookies", "");
    scratch.thaw(["store", "import", "chromium", "-o", "other"]).exits(2).hints("chromium/Default");
    scratch.thaw(["store", "import", "nowhere", "-o", "other"]).exits(2).complains("nowhere");
}
