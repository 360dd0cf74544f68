//! What is in a file of records, as values.

use super::Stores;
use model::{Error, Exit, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use thaw_cookies::record::{Record, apply};
use thaw_cookies::{Cookie, Key, SameSite};
use thaw_log::book::{Book, Loaded};
use thaw_log::disk::Disk;
use thaw_session::files;
use thaw_session::item::{Id, Payload, ROOT, flag, kind};
use thaw_session::tree::Tree;
use thaw_webstorage::place::Place;
use thaw_webstorage::{Text, record};

/// What `thaw store show` and `export` tell of a file.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// `thaw.store-contents/1`.
    pub schema: &'static str,
    /// Inside its directory.
    pub name: String,
    /// What is in it.
    #[serde(flatten)]
    pub holds: Holds,
    /// Records that are none of the version that thaw knows, and bytes that are none. A store would say so too.
    pub unread: u64,
}

/// What is in a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// Keys and values of an origin, in their order.
    WebStorage(Area),
    /// Items, each before what is in it.
    Session(Vec<Item>),
    /// In the order of their domains, paths and names.
    Cookies(Vec<CookieRow>),
}

/// An area of web storage, or a table of bytes.
#[derive(Debug, Serialize)]
pub struct Area {
    /// The site at the top; may be empty.
    pub partition: String,
    /// The origin; of a table, its name.
    pub origin: String,
    /// It is a table of bytes.
    pub is_table: bool,
    /// Keys and values.
    pub pairs: Vec<(Said, Said)>,
}

/// A text, or what is none: nothing is made up for a letter that is not one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Said {
    /// A text.
    Text(String),
    /// UTF-16 units that are no text.
    Units {
        /// The units.
        utf16: Vec<u16>,
    },
    /// Bytes that are no UTF-8.
    Bytes {
        /// Two digits for each.
        hex: String,
    },
}

impl Said {
    fn bytes(bytes: &[u8]) -> Self {
        let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        std::str::from_utf8(bytes).map_or_else(|_| Self::Bytes { hex: hex() }, |text| Self::Text(text.to_owned()))
    }

    fn units(text: &Text) -> Self {
        text.as_string().map_or_else(|| Self::Units { utf16: text.to_units() }, Self::Text)
    }

    /// For people: what is no letter is a replacement character.
    pub fn lossy(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Units { utf16 } => String::from_utf16_lossy(utf16),
            Self::Bytes { hex } => format!("0x{hex}"),
        }
    }
}

/// An item of a session.
#[derive(Debug, Serialize)]
pub struct Item {
    /// Its number.
    pub id: u64,
    /// That of the item that it is in; 0: none.
    pub parent: u64,
    /// How many items it is in.
    pub depth: u32,
    /// `window`, `tab`, `entry`, or the number that an application gave it.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// Whose it is; empty: nobody's.
    pub origin: String,
    /// It is seen.
    pub visible: bool,
    /// It is gone after a clean end.
    pub crash_only: bool,
    /// When it was changed last, milliseconds since 1970.
    pub changed_unix_ms: u64,
    /// The application's bytes; `None`: there are none, or they cannot be read.
    pub payload: Option<Said>,
}

/// A cookie.
#[derive(Debug, Serialize)]
pub struct CookieRow {
    /// Its name.
    pub name: Said,
    /// Its value.
    pub value: Said,
    /// The host, or the domain.
    pub domain: String,
    /// It goes to that host alone.
    pub host_only: bool,
    /// Where it goes on the host.
    pub path: Said,
    /// By secure connections alone.
    pub secure: bool,
    /// Not for scripts.
    pub http_only: bool,
    /// `default`, `none`, `lax` or `strict`.
    pub same_site: &'static str,
    /// When it ends, microseconds since 1970; `None`: with the session.
    pub expires_unix_us: Option<u64>,
    /// When it was made first, microseconds since 1970.
    pub created_unix_us: u64,
    /// The top-level site that it is kept for alone.
    pub partition: Option<String>,
}

impl Stores {
    /// What is in the file; of a directory, in each that holds something that thaw knows.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn contents(&self) -> Result<Vec<Contents>> {
        let mut all = Vec::new();
        for name in &self.names {
            all.extend(self.holds(name)?.map(|(holds, unread)| Contents {
                schema: "thaw.store-contents/1",
                name: name.clone(),
                holds,
                unread,
            }));
        }
        Ok(all)
    }

    fn holds(&self, name: &str) -> Result<Option<(Holds, u64)>> {
        let Some((_, loaded)) = self.done(name, Book::load(&self.disk, name, false))? else { return Ok(None) };
        let Some(head) = loaded.head.clone() else { return Ok(None) };
        Ok(match head.kind {
            record::KIND => Place::of_label(&head.label).map(|place| area(place, &loaded)),
            files::KIND => self.done(name, session(&self.disk, name))?,
            thaw_cookies::record::KIND => Some(cookies(&loaded)),
            _ => None,
        })
    }

    /// Cookies of the file in Netscape's format, and how many cannot be told in it.
    ///
    /// # Errors
    /// It holds no cookies, or cannot be read.
    pub fn netscape(&self) -> Result<(Vec<u8>, usize)> {
        let mut all = Vec::new();
        for name in &self.names {
            let Some((_, loaded)) = self.done(name, Book::load(&self.disk, name, false))? else { continue };
            if loaded.head.as_ref().is_some_and(|head| head.kind == thaw_cookies::record::KIND) {
                all.extend(replayed(&loaded).0.into_values());
            }
        }
        if all.is_empty() {
            return Err(Error::on(Exit::Usage, "cannot export", &self.path).because("there are no cookies in it"));
        }
        let (text, left) = thaw_cookies::netscape::write(&all);
        Ok((text, left.len()))
    }
}

fn area(place: Place, loaded: &Loaded) -> (Holds, u64) {
    let (pairs, unread) = record::replayed(loaded.contents(), place.table);
    let said = |text: &Text| if place.table { Said::bytes(text.bytes()) } else { Said::units(text) };
    let pairs = pairs.iter().map(|(key, value)| (said(key), said(value))).collect();
    (Holds::WebStorage(Area { partition: place.partition, origin: place.origin, is_table: place.table, pairs }), unread)
}

fn session(disk: &dyn Disk, name: &str) -> io::Result<Option<(Holds, u64)>> {
    let Some((head, mut tree, missing)) = files::salvage(disk, name)? else { return Ok(None) };
    tree.adopt_orphans(0);
    Ok(Some((Holds::Session(items(disk, name, head.salt, &tree)?), missing.bytes + missing.payloads as u64)))
}

/// Each before what is in it.
fn items(disk: &dyn Disk, name: &str, salt: u32, tree: &Tree) -> io::Result<Vec<Item>> {
    let (mut all, mut open) = (Vec::new(), vec![(ROOT, 0)]);
    while let Some((id, depth)) = open.pop() {
        let below: Vec<Id> = tree.children(id).collect();
        open.extend(below.into_iter().rev().map(|id| (id, depth + 1)));
        let Some(item) = tree.items.get(&id) else { continue };
        let bytes = match &item.payload {
            Payload::None => None,
            Payload::Here(bytes) => Some(bytes.to_vec()),
            Payload::There(spot) => files::payload(disk, name, salt, *spot)?,
        };
        all.push(Item {
            id,
            parent: item.parent,
            depth: depth - 1,
            kind: match item.kind {
                kind::WINDOW => "window".into(),
                kind::TAB => "tab".into(),
                kind::ENTRY => "entry".into(),
                own => own.to_string(),
            },
            title: tree.title(id).to_string(),
            origin: item.origin.to_string(),
            visible: item.has(flag::VISIBLE),
            crash_only: item.has(flag::CRASH_ONLY),
            changed_unix_ms: item.changed_ms,
            payload: bytes.map(|bytes| Said::bytes(&bytes)),
        });
    }
    Ok(all)
}

fn replayed(loaded: &Loaded) -> (BTreeMap<Key, Cookie>, u64) {
    let (mut jar, mut unread) = (BTreeMap::new(), 0);
    for content in loaded.contents() {
        match Record::read(content) {
            Some(record) => apply(&mut jar, record),
            None => unread += 1,
        }
    }
    (jar, unread)
}

fn cookies(loaded: &Loaded) -> (Holds, u64) {
    let (jar, unread) = replayed(loaded);
    let rows = jar.into_values().map(|cookie| CookieRow {
        name: Said::bytes(&cookie.name),
        value: Said::bytes(&cookie.value),
        domain: cookie.domain,
        host_only: cookie.host_only,
        path: Said::bytes(&cookie.path),
        secure: cookie.secure,
        http_only: cookie.http_only,
        same_site: match cookie.same_site {
            SameSite::Default => "default",
            SameSite::None => "none",
            SameSite::Lax => "lax",
            SameSite::Strict => "strict",
        },
        expires_unix_us: cookie.expires_us,
        created_unix_us: cookie.created_us,
        partition: cookie.partition,
    });
    (Holds::Cookies(rows.collect()), unread)
}
