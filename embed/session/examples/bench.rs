//! One change among 10, 1,000 and 10,000 tabs, saved by itself and by writing all anew (text, LZ4, write, fsync,
//! rename, as browsers do), in the same run; and a start until the payload of the first tab's entry is in the caller's
//! hand.
//!
//! ```sh
//! cargo run --release -p thawlab-session --example bench [DIRECTORY]
//! ```

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use thaw_session::{Edit, Event, New, Options, Payload, Place, ROOT, Session, flag, kind};

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

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// All of it as text: what is written when a change writes everything.
fn text(titles: &[String]) -> String {
    let tab = |title: &String| {
        let entry = format!("{{\"url\":\"https://a.example/{title}\",\"title\":\"{title}\",\"scroll\":\"0,100\"}}");
        format!("{{\"title\":\"{title}\",\"entries\":[{entry},{entry},{entry}]}}")
    };
    format!("{{\"windows\":[{{\"tabs\":[{}]}}]}}", titles.iter().map(tab).collect::<Vec<_>>().join(","))
}

fn main() {
    let place = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    for tabs in [10, 1000, 10_000] {
        let folder = tempfile::tempdir_in(&place).unwrap();
        let path = folder.path().join("session");
        let session = open(&path);
        wait(&session, |event| matches!(event, Event::Loaded(_)));
        let mut titles: Vec<String> = (0..tabs).map(|number| format!("the title of tab {number}")).collect();
        let window = New { kind: kind::WINDOW, ..New::default() };
        let window = session.insert(ROOT, Place::Last, &window).unwrap();
        let mut ids = Vec::new();
        for (number, title) in titles.iter().enumerate() {
            let flags = if number == tabs / 2 { flag::VISIBLE } else { 0 };
            let tab = New { kind: kind::TAB, title, flags, ..New::default() };
            let tab = session.insert(window, Place::Last, &tab).unwrap();
            for _ in 0..3 {
                let entry = New { kind: kind::ENTRY, title, payload: b"https://a.example 0,100", ..New::default() };
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
            let edit = Edit { title: Some(&title), ..Edit::default() };
            session.change(ids[round % tabs], &edit).unwrap();
            flush(&session);
            ours.push(from.elapsed());
            let from = Instant::now();
            titles[round % tabs] = title;
            let all = lz4_flex::compress_prepend_size(text(&titles).as_bytes());
            let beside = folder.path().join("all.tmp");
            let mut file = File::create(&beside).unwrap();
            file.write_all(&all).and_then(|()| file.sync_all()).unwrap();
            std::fs::rename(&beside, folder.path().join("all")).unwrap();
            anew.push(from.elapsed());
            bytes = all.len();
        }
        let written = (session.counts().0.written - before.written) / ROUNDS as u64;
        session.close(false).unwrap();
        let starts = (0..ROUNDS).map(|_| {
            let from = Instant::now();
            let session = open(&path);
            wait(&session, |event| matches!(event, Event::Ready { .. }));
            let entries = session.children(ids[tabs / 2]);
            let first = session.get(entries[0]).unwrap().payload;
            let took = from.elapsed();
            assert_eq!(entries.len(), 3);
            assert_eq!(first, Payload::Here(b"https://a.example 0,100".as_slice().into()));
            session.abandon();
            took
        });
        let mut starts: Vec<Duration> = starts.collect();
        starts.sort();
        let (start, least, most) = (starts[ROUNDS / 2], starts[0], starts[ROUNDS - 1]);
        let (ours, anew) = (median(ours), median(anew));
        println!(
            "{tabs:6} tabs: one change {ours:?}, {written} bytes; all anew {anew:?}, {bytes} bytes; \
             first tab {start:?} ({least:?} to {most:?})"
        );
    }
}
