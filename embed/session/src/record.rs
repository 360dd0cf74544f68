//! The contents of records: `docs/session.md`. Pure; fuzzed.

use crate::item::{Id, Item, LONGEST_ORIGIN, LONGEST_PAYLOAD, LONGEST_TITLE, Payload, Spot};
use std::sync::Arc;

/// Which fields of an item a change bears: its first byte.
pub mod field {
    /// Parent and order.
    pub const PLACE: u8 = 1;
    /// Kind: the item is whole, and what it was before does not matter.
    pub const WHOLE: u8 = 2;
    /// Title.
    pub const TITLE: u8 = 4;
    /// Flags.
    pub const FLAGS: u8 = 8;
    /// Origin.
    pub const ORIGIN: u8 = 16;
    /// Payload: its bytes, or none.
    pub const PAYLOAD: u8 = 32;
    /// Where the payload lies.
    pub const SPOT: u8 = 64;
    /// It is gone, with all below it. There is nothing else.
    pub const GONE: u8 = 128;
    /// All that an item has but its payload.
    pub const ALL: u8 = PLACE | WHOLE | TITLE | FLAGS | ORIGIN;
}

/// No item has this number or a greater one.
const MOST_IDS: Id = 1 << 63;

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Payloads: whose, and where in the content they lie.
    Payloads(Vec<(Id, u32, u32)>),
    /// Items of a whole state.
    Items(Vec<Change>),
    /// What is loaded first.
    First(First),
    /// What was changed, and when it was saved, in milliseconds since 1970. Changes come before removals.
    Changes(u64, Vec<Change>),
}

/// What is loaded first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// Where in the file the first record of items begins.
    pub items_at: u64,
    /// The number of that record.
    pub items_number: u64,
    /// The number of the next item that is made.
    pub next: Id,
    /// The greatest order that an item has.
    pub top: u64,
    /// How many items there are.
    pub count: u32,
    /// Windows, what is visible in them, and entries of those.
    pub items: Vec<Change>,
}

/// An item, or what of it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub id: Id,
    /// Which of what follows counts: [`field`].
    pub fields: u8,
    /// When, in milliseconds since 1970.
    pub changed_ms: u64,
    /// Parent and order.
    pub place: (Id, u64),
    /// What it is.
    pub kind: u8,
    /// Flags.
    pub flags: u32,
    /// Title.
    pub title: Arc<str>,
    /// Origin.
    pub origin: Arc<str>,
    /// Payload.
    pub payload: Payload,
    /// Where in the content of this record the payload lies, if it does.
    pub inside: u32,
}

impl Default for Item {
    fn default() -> Item {
        Item {
            parent: 0,
            order: 0,
            kind: 0,
            flags: 0,
            title: "".into(),
            origin: "".into(),
            changed_ms: 0,
            payload: Payload::None,
        }
    }
}

impl Change {
    /// An item is gone.
    pub fn gone(id: Id) -> Change {
        Change { id, fields: field::GONE, ..Change::default() }
    }

    /// These fields of an item. Its payload is written with `PAYLOAD` in `fields`.
    pub fn of(id: Id, item: &Item, fields: u8) -> Change {
        let spot = fields & field::PAYLOAD != 0 && matches!(item.payload, Payload::There(_));
        let fields = if spot { fields & !field::PAYLOAD | field::SPOT } else { fields };
        let with = fields & (field::PAYLOAD | field::SPOT) != 0;
        Change {
            id,
            fields,
            changed_ms: item.changed_ms,
            place: (item.parent, item.order),
            kind: item.kind,
            flags: item.flags,
            title: item.title.clone(),
            origin: item.origin.clone(),
            payload: if with { item.payload.clone() } else { Payload::None },
            inside: 0,
        }
    }

    /// Puts it into an item.
    pub fn apply(&self, item: &mut Item) {
        item.changed_ms = self.changed_ms;
        if self.fields & field::PLACE != 0 {
            (item.parent, item.order) = self.place;
        }
        if self.fields & field::WHOLE != 0 {
            item.kind = self.kind;
        }
        if self.fields & field::TITLE != 0 {
            item.title = self.title.clone();
        }
        if self.fields & field::FLAGS != 0 {
            item.flags = self.flags;
        }
        if self.fields & field::ORIGIN != 0 {
            item.origin = self.origin.clone();
        }
        if self.fields & (field::PAYLOAD | field::SPOT) != 0 {
            item.payload = self.payload.clone();
        }
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.fields);
        out.extend(self.id.to_le_bytes());
        if self.fields & field::GONE != 0 {
            return;
        }
        out.extend(self.changed_ms.to_le_bytes());
        if self.fields & field::PLACE != 0 {
            out.extend(self.place.0.to_le_bytes());
            out.extend(self.place.1.to_le_bytes());
        }
        if self.fields & field::WHOLE != 0 {
            out.push(self.kind);
        }
        if self.fields & field::TITLE != 0 {
            long(out, self.title.as_bytes());
        }
        if self.fields & field::FLAGS != 0 {
            out.extend(self.flags.to_le_bytes());
        }
        if self.fields & field::ORIGIN != 0 {
            long(out, self.origin.as_bytes());
        }
        match &self.payload {
            Payload::There(spot) if self.fields & field::SPOT != 0 => {
                out.extend(spot.record.to_le_bytes());
                [spot.content, spot.from, spot.len].iter().for_each(|number| out.extend(number.to_le_bytes()));
            }
            Payload::Here(bytes) if self.fields & field::PAYLOAD != 0 => long(out, bytes),
            _ if self.fields & field::PAYLOAD != 0 => long(out, &[]),
            _ => {}
        }
    }
}

fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

impl Record {
    /// Its bytes. Of payloads there are none: [`payloads`] writes those.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Record::Payloads(_) => out.push(1),
            Record::Items(items) => {
                out.push(2);
                items.iter().for_each(|item| item.write(&mut out));
            }
            Record::First(first) => {
                out.push(3);
                let numbers = [first.items_at, first.items_number, first.next, first.top];
                numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
                out.extend(first.count.to_le_bytes());
                first.items.iter().for_each(|item| item.write(&mut out));
            }
            Record::Changes(when, changes) => {
                out.push(4);
                out.extend(when.to_le_bytes());
                changes.iter().for_each(|change| change.write(&mut out));
            }
        }
        out
    }
}

/// Appends a payload to a record of payloads, which begins with the byte 1; says where it lies.
pub fn add_payload(out: &mut Vec<u8>, id: Id, bytes: &[u8]) -> u32 {
    if out.is_empty() {
        out.push(1);
    }
    out.extend(id.to_le_bytes());
    long(out, bytes);
    (out.len() - bytes.len()) as u32
}

/// Bytes that are read from the front.
struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.all.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn long(&mut self, most: usize) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > most { None } else { self.take(len) }
    }

    fn text(&mut self, most: usize) -> Option<Arc<str>> {
        Some(std::str::from_utf8(self.long(most)?).ok()?.into())
    }

    fn change(&mut self) -> Option<Change> {
        let mut change = Change { fields: self.byte()?, id: self.u64()?, ..Change::default() };
        let has = |field: u8| change.fields & field != 0;
        let whole = change.fields & field::ALL;
        if change.id == 0 || change.id >= MOST_IDS || has(field::GONE) && change.fields != field::GONE {
            return None;
        }
        if has(field::GONE) {
            return Some(change);
        }
        if has(field::WHOLE) && whole != field::ALL || has(field::SPOT) && has(field::PAYLOAD) {
            return None;
        }
        change.changed_ms = self.u64()?;
        if has(field::PLACE) {
            change.place = (self.u64()?, self.u64()?);
        }
        let has = |field: u8| change.fields & field != 0;
        if has(field::WHOLE) {
            change.kind = self.byte()?;
        }
        if change.fields & field::TITLE != 0 {
            change.title = self.text(LONGEST_TITLE)?;
        }
        if change.fields & field::FLAGS != 0 {
            change.flags = self.u32()?;
        }
        if change.fields & field::ORIGIN != 0 {
            change.origin = self.text(LONGEST_ORIGIN)?;
        }
        if change.fields & field::SPOT != 0 {
            let (record, content, from, len) = (self.u64()?, self.u32()?, self.u32()?, self.u32()?);
            change.payload = Payload::There(Spot { record, content, from, len });
        }
        if change.fields & field::PAYLOAD != 0 {
            let bytes = self.long(LONGEST_PAYLOAD)?;
            change.inside = (self.at - bytes.len()) as u32;
            change.payload = if bytes.is_empty() { Payload::None } else { Payload::Here(bytes.into()) };
        }
        Some(change)
    }

    fn changes(&mut self) -> Option<Vec<Change>> {
        let mut all = Vec::new();
        while self.at < self.all.len() {
            all.push(self.change()?);
        }
        Some(all)
    }
}

/// Reads the content of a record. `None`: it is none of this version; nothing of it counts.
pub fn parse(content: &[u8]) -> Option<Record> {
    let mut reader = Reader { all: content, at: 0 };
    Some(match reader.byte()? {
        1 => {
            let mut all = Vec::new();
            while reader.at < content.len() {
                let id = reader.u64()?;
                let len = reader.long(LONGEST_PAYLOAD)?.len();
                all.push((id, (reader.at - len) as u32, len as u32));
            }
            Record::Payloads(all)
        }
        2 => Record::Items(reader.changes()?),
        3 => Record::First(First {
            items_at: reader.u64()?,
            items_number: reader.u64()?,
            next: reader.u64().filter(|next| *next <= MOST_IDS)?,
            top: reader.u64()?,
            count: reader.u32()?,
            items: reader.changes()?,
        }),
        4 => Record::Changes(reader.u64()?, reader.changes()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Item {
        let payload = Payload::Here([1, 2, 3][..].into());
        let (title, origin) = ("a títle".into(), "https://a.example".into());
        Item { parent: 7, order: 1 << 33, kind: 2, flags: 1, title, origin, changed_ms: 1 << 41, payload }
    }

    fn back(record: &Record) -> Record {
        let mut read = parse(&record.write()).unwrap();
        if let Record::Changes(_, changes) | Record::Items(changes) | Record::First(First { items: changes, .. }) =
            &mut read
        {
            changes.iter_mut().for_each(|change| change.inside = 0);
        }
        read
    }

    #[test]
    fn every_set_of_fields_comes_back_and_every_cut_is_refused() {
        let there = Item { payload: Payload::There(Spot { record: 9, content: 80, from: 20, len: 3 }), ..item() };
        let mut changes = vec![Change::gone(3), Change::of(4, &there, field::ALL | field::PAYLOAD)];
        for fields in (0..64).filter(|fields| fields & field::WHOLE == 0) {
            let mut change = Change::default();
            let all = Change::of(5, &item(), fields);
            (change.id, change.fields, change.changed_ms) = (5, fields, all.changed_ms);
            let mut only = Item::default();
            all.apply(&mut only);
            let mut of = Change::of(5, &only, fields);
            (of.changed_ms, of.kind) = (all.changed_ms, 0);
            changes.push(of);
        }
        let changes: Vec<Change> = changes;
        let record = Record::Changes(77, changes.clone());
        assert_eq!(back(&record), record);
        let first = First { items_at: 1, items_number: 2, next: 3, top: 4, count: 5, items: changes[..2].to_vec() };
        for record in [Record::Items(changes[..2].to_vec()), Record::First(first)] {
            assert_eq!(back(&record), record);
        }
        let one = Record::Changes(1, vec![Change::of(4, &item(), field::ALL | field::PAYLOAD)]).write();
        for len in 0..one.len() {
            // Behind the time there may be no change at all.
            assert_eq!(parse(&one[..len]).is_some(), len == 9, "{len}");
        }
    }

    #[test]
    fn payloads_say_where_they_lie() {
        let mut page = Vec::new();
        let at = [add_payload(&mut page, 1, b"one"), add_payload(&mut page, 2, b"two!")];
        assert_eq!(parse(&page), Some(Record::Payloads(vec![(1, at[0], 3), (2, at[1], 4)])));
        assert_eq!(&page[at[1] as usize..], b"two!");
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let change = |title: &[u8]| {
            let mut bytes = [&[4][..], &[0; 8], &[field::TITLE], &[1; 8], &[0; 8]].concat();
            long(&mut bytes, title);
            parse(&bytes)
        };
        assert!(change(b"fine").is_some() && change(b"\xff").is_none());
        assert!(change(&vec![b'a'; LONGEST_TITLE]).is_some() && change(&vec![b'a'; LONGEST_TITLE + 1]).is_none());
    }
}
