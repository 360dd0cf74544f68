//! What the tests share: waiting for events, what a session holds, a session of many tabs.
#![allow(dead_code, reason = "each test takes what it needs")]

use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thaw_log::disk::Disk;
use thaw_session::{Edit, Event, Id, Missing, New, Options, Payload, Place, ROOT, Session, flag, kind};

/// One that saves when it is told to.
pub fn options() -> Options {
    Options { delay: Duration::from_secs(3600), ..Options::default() }
}

pub fn open(disk: &Arc<impl Disk + 'static>) -> Session {
    Session::open_on(disk.clone(), &options()).unwrap()
}

/// Waits for an event; those before it are dropped, and those behind it stay.
pub fn wait<T>(session: &Session, mut found: impl FnMut(Event) -> Option<T>) -> T {
    loop {
        poll(&mut [PollFd::new(session, PollFlags::IN)], None).unwrap();
        if let Some(told) = session.next_event().and_then(&mut found) {
            return told;
        }
    }
}

pub fn loaded(session: &Session) -> Missing {
    wait(session, |event| if let Event::Loaded(missing) = event { Some(missing) } else { None })
}

pub fn done(session: &Session, ticket: u64) -> Result<(), String> {
    wait(session, |event| match event {
        Event::Done(of, done) if of == ticket => Some(done),
        _ => None,
    })
}

pub fn flush(session: &Session) -> Result<(), String> {
    done(session, session.flush())
}

pub fn payload(session: &Session, id: Id, urgent: bool) -> Result<Arc<[u8]>, String> {
    session.want(id, urgent).unwrap();
    wait(session, |event| match event {
        Event::Payload(of, told) if of == id => Some(told),
        _ => None,
    })
}

/// An item with its payload: parent, order, kind, flags, title, origin, bytes.
pub type Whole = (Id, u64, u8, u32, String, String, Vec<u8>);

/// All that a session holds, without what is on the disk alone.
pub fn known(session: &Session) -> BTreeMap<Id, Whole> {
    let mut all = BTreeMap::new();
    let mut left = vec![ROOT];
    while let Some(parent) = left.pop() {
        for id in session.children(parent) {
            let item = session.get(id).unwrap();
            let bytes = if let Payload::Here(bytes) = &item.payload { bytes.to_vec() } else { Vec::new() };
            let texts = (item.title.to_string(), item.origin.to_string());
            all.insert(id, (item.parent, item.order, item.kind, item.flags, texts.0, texts.1, bytes));
            left.push(id);
        }
    }
    all
}

/// All that a session holds.
pub fn whole(session: &Session) -> BTreeMap<Id, Whole> {
    for id in known(session).into_keys() {
        payload(session, id, false).unwrap();
    }
    known(session)
}

/// A window with so many tabs of three entries each; the one in the middle is visible. Each entry has 300 bytes.
pub fn fill(session: &Session, tabs: usize) -> Vec<Id> {
    let new = New { kind: kind::WINDOW, title: "window", ..New::default() };
    let window = session.insert(ROOT, Place::Last, &new).unwrap();
    let mut all = Vec::new();
    for number in 0..tabs {
        let title = format!("the title of tab {number}");
        let flags = if number == tabs / 2 { flag::VISIBLE } else { 0 };
        let new = New { kind: kind::TAB, title: &title, flags, origin: "https://a.example", ..New::default() };
        let tab = session.insert(window, Place::Last, &new).unwrap();
        for entry in 0..3 {
            let (title, payload) = (format!("entry {entry} of {number}"), [number as u8; 300]);
            let new = New { kind: kind::ENTRY, title: &title, payload: &payload, ..New::default() };
            session.insert(tab, Place::Last, &new).unwrap();
        }
        all.push(tab);
    }
    all
}

pub fn titled(session: &Session, id: Id, title: &str) {
    session.change(id, &Edit { title: Some(title), ..Edit::default() }).unwrap();
}
