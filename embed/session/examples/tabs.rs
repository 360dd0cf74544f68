//! A small editor with many tabs: makes them, saves, kills itself, starts again, and says when the first tab was there.
//!
//! ```sh
//! cargo run --release -p thawlab-session --example tabs [TABS] [DIRECTORY]
//! ```

use rustix::event::{PollFd, PollFlags, poll};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use thaw_session::{Event, New, Options, Place, ROOT, Session, flag, kind};

fn wait(session: &Session, found: impl Fn(&Event) -> bool) {
    loop {
        poll(&mut [PollFd::new(session, PollFlags::IN)], None).unwrap();
        while let Some(event) = session.next_event() {
            if found(&event) {
                return;
            }
        }
    }
}

/// Makes the tabs, saves, and is killed.
fn make(path: &Path, tabs: usize) {
    let session = Session::open(path, &Options::default()).unwrap();
    wait(&session, |event| matches!(event, Event::Loaded(_)));
    let window = New { kind: kind::WINDOW, title: "editor", ..New::default() };
    let window = session.insert(ROOT, Place::Last, &window).unwrap();
    for number in 0..tabs {
        let title = format!("file-{number}.rs");
        let flags = if number == tabs / 2 { flag::VISIBLE } else { 0 };
        let tab = New { kind: kind::TAB, title: &title, flags, payload: b"line 7, column 3", ..New::default() };
        session.insert(window, Place::Last, &tab).unwrap();
    }
    let ticket = session.flush();
    wait(&session, |event| *event == Event::Done(ticket, Ok(())));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

fn restore(path: &Path) {
    let from = Instant::now();
    let session = Session::open(path, &Options::default()).unwrap();
    wait(&session, |event| matches!(event, Event::Ready { .. }));
    let window = session.children(ROOT)[0];
    let tabs = session.children(window);
    let first = session.get(tabs[0]).unwrap();
    println!("{:?}: the first tab is there, {:?}", from.elapsed(), first.title);
    wait(&session, |event| matches!(event, Event::Loaded(_)));
    println!("{:?}: all {} tabs are there", from.elapsed(), session.children(window).len());
    session.close(true).unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tabs = arguments.first().map_or(10_000, |tabs| tabs.parse().expect("TABS is a number"));
    if let [_, path, made] = &arguments[..]
        && made == "make"
    {
        return make(Path::new(path), tabs);
    }
    let place = arguments.get(1).map_or("/var/tmp", String::as_str);
    let folder = tempfile::tempdir_in(place).unwrap();
    let path = folder.path().join("session");
    let myself = std::env::current_exe().unwrap();
    let killed = Command::new(myself).arg(tabs.to_string()).arg(&path).arg("make").status().unwrap();
    println!("the editor with {tabs} tabs ended: {killed}");
    restore(&path);
}
