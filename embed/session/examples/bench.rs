//! One change among 10 to 10,000 tabs, saved by itself and by writing all anew (JSON, LZ4, write, fsync, rename, as
//! browsers do), in the same run; and a start in a new process until the payload of the first tab's entry is in the
//! caller's hand, beside reading all of the other. A tab has three entries with the fields that Firefox keeps.
//!
//! ```sh
//! cargo run --release -p thawlab-session --example bench [DIRECTORY]
//! ```
//! One line of CSV each: tabs, median microseconds and bytes of both saves, median microseconds of both starts.

use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use thaw_session::{Edit, Event, Id, New, Options, Payload, Place, ROOT, Session, flag, kind};

const ROUNDS: usize = 31;

fn wait(session: &Session, found: impl Fn(&Event) -> bool) {
    loop {
        poll(&mut [PollFd::new(session, PollFlags::IN)], None).unwrap();
        if session.next_event().is_some_and(|event| found(&event)) {
            return;
        }
    }
}

fn open(path: &Path) -> Session {
    let options = Options { delay: Duration::from_secs(3600), ..Options::default() };
    Session::open(path, &options).unwrap()
}

fn flush(session: &Session) {
    let ticket = session.flush();
    wait(session, |event| *event == Event::Done(ticket, Ok(())));
}

/// Words of titles and addresses.
const WORDS: [&str; 64] = [
    "about", "account", "archive", "article", "blog", "board", "book", "browse", "build", "calendar", "cart", "case",
    "chart", "check", "city", "class", "code", "data", "design", "detail", "docs", "edit", "event", "film", "forum",
    "game", "guide", "help", "history", "home", "image", "index", "issue", "item", "job", "key", "language", "learn",
    "library", "list", "mail", "map", "market", "media", "music", "news", "note", "office", "order", "page", "photo",
    "price", "profile", "project", "question", "review", "search", "shop", "show", "sport", "story", "team", "travel",
    "video",
];

/// Numbers that look random and are always the same (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn words(&mut self, count: usize, between: &str) -> String {
        (0..count).map(|_| WORDS[(self.next() % 64) as usize]).collect::<Vec<_>>().join(between)
    }
}

/// A tab: its title and the text of its entries.
struct Tab {
    title: String,
    entries: [String; 3],
}

impl Tab {
    fn new(numbers: &mut Numbers) -> Tab {
        let [one, two] = [numbers.next(), numbers.next()];
        let entries = std::array::from_fn(|_| {
            let (site, path, title) = (numbers.words(2, "-"), numbers.words(3, "/"), numbers.words(6, " "));
            let number = numbers.next();
            format!(
                "{{\"url\":\"https://{site}.example/{path}/{}\",\"title\":\"{title}\",\"cacheKey\":0,\"ID\":{},\
                 \"docshellUUID\":\"{{{one:016x}{two:016x}}}\",\"resultPrincipalURI\":null,\
                 \"hasUserInteraction\":true,\"triggeringPrincipal_base64\":\"{{\\\"3\\\":{{}}}}\",\
                 \"docIdentifier\":{},\"scroll\":\"0,{}\",\"persist\":true}}",
                number % 1_000_000,
                number % 4_000_000_000,
                number % 100_000,
                number % 9000
            )
        });
        Tab { title: numbers.words(6, " "), entries }
    }
}

/// All of it as text: what is written when a change writes everything.
fn text(tabs: &[Tab]) -> String {
    let tab = |tab: &Tab| {
        format!("{{\"title\":\"{}\",\"entries\":[{}],\"index\":3,\"hidden\":false}}", tab.title, tab.entries.join(","))
    };
    format!("{{\"windows\":[{{\"tabs\":[{}]}}]}}", tabs.iter().map(tab).collect::<Vec<_>>().join(","))
}

/// In a process of its own, as a start is: until the first tab's entry is there; nothing was read before.
fn start(path: &Path, tab: Id) {
    let from = Instant::now();
    let session = open(path);
    wait(&session, |event| matches!(event, Event::Ready { .. }));
    let entries = session.children(tab);
    let first = session.get(entries[0]).unwrap().payload;
    let took = from.elapsed();
    assert!(entries.len() == 3 && matches!(first, Payload::Here(bytes) if bytes.starts_with(b"{\"url\":")));
    session.abandon();
    println!("{}", took.as_nanos());
}

/// The same of all as text.
fn start_of_text(path: &Path) {
    let from = Instant::now();
    let text = lz4_flex::decompress_size_prepended(&std::fs::read(path).unwrap()).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let tabs = all["windows"][0]["tabs"].as_array().unwrap();
    let first = tabs[tabs.len() / 2]["entries"][0]["url"].as_str().unwrap();
    let took = from.elapsed();
    assert!(first.starts_with("https://"));
    println!("{}", took.as_nanos());
}

/// Starts in a new process.
fn started(words: &[&OsStr]) -> Duration {
    let output = Command::new(std::env::current_exe().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Duration::from_nanos(String::from_utf8_lossy(&output.stdout).trim().parse().unwrap())
}

/// The median, in microseconds.
fn micros(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_nanos() as f64 / 1e3
}

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match &words[..] {
        [what, path, tab] if what == "start" => start(path.as_ref(), tab.to_str().unwrap().parse().unwrap()),
        [what, path] if what == "start-of-text" => start_of_text(path.as_ref()),
        [place] => bench(place.as_ref()),
        _ => bench("/var/tmp".as_ref()),
    }
}

fn bench(place: &Path) {
    let all = [10, 100, 1000, 10_000].map(|count| saves(place, count));
    // In turns: what the machine does meanwhile falls on all sizes alike. Reading a large text leaves nothing in the
    // processor's caches, so that comes apart.
    let mut starts = [const { (Vec::new(), Vec::new()) }; 4];
    for _ in 0..ROUNDS {
        for (saved, (ours, _)) in all.iter().zip(&mut starts) {
            let path = saved.folder.path().join("session");
            ours.push(started(&["start".as_ref(), path.as_ref(), saved.visible.to_string().as_ref()]));
        }
    }
    for _ in 0..ROUNDS {
        for (saved, (_, text)) in all.iter().zip(&mut starts) {
            text.push(started(&["start-of-text".as_ref(), saved.folder.path().join("all").as_ref()]));
        }
    }
    println!("tabs,save_us,save_bytes,save_all_us,save_all_bytes,start_us,start_of_all_us");
    for (saved, (ours, text)) in all.into_iter().zip(starts) {
        println!("{},{:.1},{:.1}", saved.row, micros(ours), micros(text));
    }
}

/// What was saved: where, the tab that is visible, and its part of a line.
struct Saved {
    folder: tempfile::TempDir,
    visible: Id,
    row: String,
}

fn saves(place: &Path, count: usize) -> Saved {
    let folder = tempfile::tempdir_in(place).unwrap();
    let (path, all) = (folder.path().join("session"), folder.path().join("all"));
    let session = open(&path);
    wait(&session, |event| matches!(event, Event::Loaded(_)));
    let mut numbers = Numbers(7);
    let mut tabs: Vec<Tab> = (0..count).map(|_| Tab::new(&mut numbers)).collect();
    let window = New { kind: kind::WINDOW, ..New::default() };
    let window = session.insert(ROOT, Place::Last, &window).unwrap();
    let mut ids = Vec::new();
    for (number, Tab { title, entries }) in tabs.iter().enumerate() {
        let flags = if number == count / 2 { flag::VISIBLE } else { 0 };
        let tab =
            session.insert(window, Place::Last, &New { kind: kind::TAB, title, flags, ..New::default() }).unwrap();
        for entry in entries {
            let entry = New { kind: kind::ENTRY, payload: entry.as_bytes(), ..New::default() };
            session.insert(tab, Place::Last, &entry).unwrap();
        }
        ids.push(tab);
    }
    flush(&session);
    let (mut ours, mut anew) = (Vec::new(), Vec::new());
    let (before, mut bytes) = (session.counts().0, 0);
    for round in 0..ROUNDS {
        let title = format!("another title {round:02}");
        let from = Instant::now();
        session.change(ids[round % count], &Edit { title: Some(&title), ..Edit::default() }).unwrap();
        flush(&session);
        ours.push(from.elapsed());
    }
    let written = (session.counts().0.written - before.written) / ROUNDS as u64;
    for round in 0..ROUNDS {
        let title = format!("another title {round:02}");
        let from = Instant::now();
        tabs[round % count].title = title;
        let packed = lz4_flex::compress_prepend_size(text(&tabs).as_bytes());
        let beside = folder.path().join("all.tmp");
        let mut file = File::create(&beside).unwrap();
        file.write_all(&packed).and_then(|()| file.sync_all()).unwrap();
        std::fs::rename(&beside, &all).unwrap();
        anew.push(from.elapsed());
        bytes = packed.len();
    }
    session.close(false).unwrap();
    let (ours, anew) = (micros(ours), micros(anew));
    let row = format!("{count},{ours:.1},{written},{anew:.1},{bytes}");
    Saved { folder, visible: ids[count / 2], row }
}
