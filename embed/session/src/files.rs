//! The files of a session: what is read of one first, the rest, all that is readable of a damaged one; a whole state as
//! the contents of records. `docs/session.md`.

use crate::item::{Id, Payload, ROOT, Spot};
use crate::record::{self, Change, First, Record, field};
use crate::tree::Tree;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use thaw_log::book;
use thaw_log::disk::Disk;
use thaw_log::frame::{self, Frame, Head};

/// Whose files they are.
pub const KIND: [u8; 4] = *b"SESS";
/// The bytes that are read of a file's end first; twice as many each time that is not enough.
const END: u64 = 4096;
/// A record of payloads is ended when it is longer: so much is read for one.
const PAGE: usize = 16 << 10;
/// A record of items is ended when it is longer: so much is lost when one is damaged.
const ITEMS: usize = 4 << 10;
/// Longer payloads of what is loaded first are not in the record of that.
const LARGE: usize = 32 << 10;

/// The current file.
pub const CURRENT: &str = "current";
/// What it was when this process began.
pub const PREVIOUS: &str = "previous";
/// The session as it was at the last clean end.
pub const CLEAN: &str = "clean";
/// What the names of files begin with that another version of the application has written.
pub const UPGRADE: &str = "upgrade-";

/// What is read first.
pub struct Start {
    /// The file's head.
    pub head: Head,
    /// Where its readable part ends.
    pub len: u64,
    /// What is visible.
    pub tree: Tree,
    /// How many items there were when that was written; where the rest lies.
    pub first: First,
}

fn part(disk: &dyn Disk, name: &str, from: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = disk.read(name, from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The head of a file. `None`: it is no file of ours.
///
/// # Errors
/// The disk.
pub fn head(disk: &dyn Disk, name: &str) -> io::Result<Option<Head>> {
    Ok(book::head(disk, name)?.filter(|head| head.kind == KIND))
}

/// Reads what is visible: the head, and the end from the last record of the visible on. What is read does not depend on
/// how much else there is. `None`: it cannot be had so, and [`salvage`] reads what there is.
///
/// # Errors
/// The disk.
pub fn first(disk: &dyn Disk, name: &str, len: u64) -> io::Result<Option<Start>> {
    let Some(head) = head(disk, name)? else { return Ok(None) };
    let (mut from, mut end) = (len, Vec::new());
    while from > 0 {
        let more = (end.len() as u64).max(END).min(from);
        from -= more;
        let mut bytes = part(disk, name, from, more as usize)?;
        if bytes.len() as u64 != more {
            return Ok(None);
        }
        bytes.append(&mut end);
        end = bytes;
        if let Some(start) = last_first(&end, from, &head) {
            return Ok(start);
        }
    }
    Ok(None)
}

/// The last record of the visible among the bytes of an end. `Some(None)`: there is damage.
fn last_first(end: &[u8], from: u64, head: &Head) -> Option<Option<Start>> {
    let magic = frame::MAGIC.to_le_bytes();
    let begins = { 0..end.len() }.filter(|at| end[*at..].starts_with(&magic));
    let whole = { begins }.find_map(|at| frame::at(end, at, head.salt))?;
    let found = frame::scan(end, whole.from(), whole.number, head.salt);
    if !found.damage.is_empty() {
        return Some(None);
    }
    let read = |frame: &Frame| record::parse(&end[frame.content.clone()]);
    let at = found.frames.iter().rposition(|frame| end[frame.content.clone()].first() == Some(&3))?;
    let Some(Record::First(first)) = read(&found.frames[at]) else { return Some(None) };
    let mut tree = Tree::new(true);
    (tree.next, tree.top) = (first.next, first.top);
    first.items.iter().for_each(|item| tree.replay(item));
    for frame in &found.frames[at + 1..] {
        match read(frame) {
            Some(Record::Changes(_, changes)) => changes.iter().for_each(|change| tree.replay(change)),
            _ => return Some(None),
        }
    }
    tree.drop_orphans();
    Some(Some(Start { head: head.clone(), len: from + found.len as u64, tree, first }))
}

/// Puts a record into a tree; payloads that lie in it stay on the disk.
fn replay(tree: &mut Tree, record: Record, at: u64, content: u32) {
    let (Record::Items(changes) | Record::Changes(_, changes) | Record::First(First { items: changes, .. })) = record
    else {
        return;
    };
    for mut change in changes {
        if let Payload::Here(bytes) = &change.payload {
            let (from, len) = (change.inside, bytes.len() as u32);
            change.payload = Payload::There(Spot { record: at, content, from, len });
        }
        tree.replay(&change);
    }
}

/// All items, out of the bytes of a file from its first record of items on. `None`: there is damage among them.
pub fn rest(bytes: &[u8], start: &First, salt: u32) -> Option<Tree> {
    let found = frame::scan(bytes, 0, start.items_number, salt);
    if !found.damage.is_empty() || found.prefix != found.frames.len() || found.len != bytes.len() {
        return None;
    }
    let mut tree = Tree::new(false);
    for frame in &found.frames {
        let record = record::parse(&bytes[frame.content.clone()])?;
        replay(&mut tree, record, start.items_at + frame.from() as u64, frame.content.len() as u32);
    }
    (tree.next, tree.top) = (tree.next.max(start.next), tree.top.max(start.top));
    // Of what is whole no parent is missing.
    (tree.under(ROOT).len() == tree.items.len() + 1).then_some(tree)
}

/// What is missing of a session that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Bytes that are no records, though records lie behind them, or whose records are none of this version.
    pub bytes: u64,
    /// Items whose parent is gone: they are in a window with the flag `RECOVERED`.
    pub orphans: usize,
    /// Payloads that are gone.
    pub payloads: usize,
    /// Files of which nothing could be read.
    pub files: Vec<String>,
}

/// Reads all that is readable of a file; orphans are not adopted yet. `None`: nothing is.
///
/// # Errors
/// The disk.
pub fn salvage(disk: &dyn Disk, name: &str) -> io::Result<Option<(Head, Tree, Missing)>> {
    let len = disk.about(name)?.map_or(0, |about| about.len);
    let bytes = part(disk, name, 0, usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?)?;
    let Some((head, found)) = frame::open(&bytes).filter(|(head, _)| head.kind == KIND) else { return Ok(None) };
    let mut missing = Missing { bytes: found.damage.iter().map(|gap| gap.len() as u64).sum(), ..Missing::default() };
    let (mut tree, mut payloads, mut frames) = (Tree::new(false), HashMap::new(), HashSet::new());
    for frame in &found.frames[1..] {
        let (at, content) = (frame.from() as u64, frame.content.len() as u32);
        frames.insert((at, content));
        match record::parse(&bytes[frame.content.clone()]) {
            Some(Record::Payloads(all)) => payloads
                .extend(all.iter().map(|(id, from, len)| (*id, Spot { record: at, content, from: *from, len: *len }))),
            Some(record) => {
                if let Record::First(first) = &record {
                    (tree.next, tree.top) = (tree.next.max(first.next), tree.top.max(first.top));
                }
                replay(&mut tree, record, at, content);
            }
            None => missing.bytes += u64::from(content),
        }
    }
    for (id, item) in &mut tree.items {
        if let Payload::There(spot) = item.payload
            && !frames.contains(&(spot.record, spot.content))
        {
            missing.payloads += usize::from(!payloads.contains_key(id));
            item.payload = payloads.get(id).map_or(Payload::None, |spot| Payload::There(*spot));
        }
    }
    Ok(Some((head, tree, missing)))
}

/// Reads a payload. `None`: its bytes are not what was written.
///
/// # Errors
/// The disk.
pub fn payload(disk: &dyn Disk, name: &str, salt: u32, spot: Spot) -> io::Result<Option<Vec<u8>>> {
    let bytes = part(disk, name, spot.record, frame::HEAD + spot.content as usize)?;
    let (from, len) = (spot.from as usize, spot.len as usize);
    let inside = frame::at(&bytes, 0, salt).filter(|frame| frame.content.len() == spot.content as usize);
    Ok(inside.and_then(|frame| Some(bytes[frame.content].get(from..from.checked_add(len)?)?.to_vec())))
}

/// A whole state, as the contents of records.
#[derive(Default)]
pub struct State {
    /// The contents behind the head.
    pub contents: Vec<Vec<u8>>,
    /// Where each payload will lie.
    pub spots: HashMap<Id, Spot>,
    /// What was written first.
    pub first: First,
    at: u64,
}

impl State {
    fn add(&mut self, content: Vec<u8>) {
        self.at += (frame::HEAD + content.len()) as u64;
        self.contents.push(content);
    }

    fn add_payloads(&mut self, page: &mut Vec<u8>, ids: &mut BTreeMap<Id, (u32, u32)>) {
        let (record, content) = (self.at, page.len() as u32);
        for (id, (from, len)) in std::mem::take(ids) {
            self.spots.insert(id, Spot { record, content, from, len });
        }
        if !page.is_empty() {
            self.add(std::mem::take(page));
        }
    }
}

/// Writes a state as records: payloads, items, the visible. `read` brings payloads that are not in memory; one that it
/// does not bring is gone.
///
/// # Errors
/// `read` failed.
pub fn state(tree: &Tree, head: &Head, read: &mut dyn FnMut(Spot) -> io::Result<Option<Vec<u8>>>) -> io::Result<State> {
    let mut state = State { at: (frame::HEAD + head.bytes().len()) as u64, ..State::default() };
    let all = &tree.under(ROOT)[1..];
    let visible = tree.first();
    let firsts: HashSet<Id> = visible.iter().copied().collect();
    let (mut page, mut ids, mut inline) = (Vec::new(), BTreeMap::new(), HashMap::new());
    for id in visible.iter().chain(all.iter().filter(|id| !firsts.contains(id))) {
        let bytes = match &tree.items[id].payload {
            Payload::None => continue,
            Payload::Here(bytes) => bytes.to_vec(),
            Payload::There(spot) => match read(*spot)? {
                Some(bytes) => bytes,
                None => continue,
            },
        };
        let from = record::add_payload(&mut page, *id, &bytes);
        ids.insert(*id, (from, bytes.len() as u32));
        if page.len() > PAGE {
            state.add_payloads(&mut page, &mut ids);
        }
        if firsts.contains(id) && bytes.len() <= LARGE {
            inline.insert(*id, bytes);
        }
    }
    state.add_payloads(&mut page, &mut ids);
    let (items_at, items_number) = (state.at, state.contents.len() as u64 + 1);
    let (mut items, mut len) = (Vec::new(), 0);
    for id in all {
        let mut item = tree.items[id].clone();
        item.payload = state.spots.get(id).map_or(Payload::None, |spot| Payload::There(*spot));
        len += 64 + item.title.len() + item.origin.len();
        items.push(Change::of(*id, &item, field::ALL | field::PAYLOAD));
        if len > ITEMS {
            state.add(Record::Items(std::mem::take(&mut items)).write());
            len = 0;
        }
    }
    state.add(Record::Items(items).write());
    let (next, top, count) = (tree.next, tree.top, all.len() as u32);
    state.first = First { items_at, items_number, next, top, count, items: Vec::new() };
    let visible = visible.iter().map(|id| {
        let mut item = tree.items[id].clone();
        item.payload = match inline.remove(id) {
            Some(bytes) => Payload::Here(bytes.into()),
            None => state.spots.get(id).map_or(Payload::None, |spot| Payload::There(*spot)),
        };
        Change::of(*id, &item, field::ALL | field::PAYLOAD)
    });
    let first = First { items: visible.collect(), ..state.first };
    state.add(Record::First(first).write());
    Ok(state)
}

/// The visible once more, for the end of a log that has grown.
pub fn again(tree: &Tree, first: &First) -> Vec<u8> {
    let items = tree.first().into_iter().map(|id| {
        let item = &tree.items[&id];
        Change::of(id, item, field::ALL | field::PAYLOAD)
    });
    let items = items.collect();
    let count = tree.items.len() as u32;
    let (items_at, items_number) = (first.items_at, first.items_number);
    Record::First(First { items_at, items_number, next: tree.next, top: tree.top, count, items }).write()
}
