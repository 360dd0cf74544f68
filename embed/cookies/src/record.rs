//! What is in the records of the jar's file: changes, and the pages and index of a snapshot. Pure; fuzzed. The bytes:
//! `docs/cookies.md`.

use crate::cookie::{Cookie, Key, SameSite};
use std::collections::BTreeMap;

/// Whose files they are.
pub const KIND: [u8; 4] = *b"COOK";
/// Bytes after which a page ends, if a site does.
pub const PAGE: usize = 16_384;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Where the pages of the snapshot are.
    Index(Index),
    /// Cookies of the snapshot.
    Page(Vec<Cookie>),
    /// A cookie is new, or has changed.
    Put(Cookie),
    /// A cookie is gone.
    Gone(Key),
    /// When a cookie was asked for last, in microseconds since 1970.
    Used(Key, u64),
}

/// Does to the cookies of a jar what a record says.
pub fn apply(jar: &mut BTreeMap<Key, Cookie>, record: Record) {
    match record {
        Record::Index(_) => {}
        Record::Page(cookies) => jar.extend(cookies.into_iter().map(|cookie| (cookie.key(), cookie))),
        Record::Put(cookie) => drop(jar.insert(cookie.key(), cookie)),
        Record::Gone(key) => drop(jar.remove(&key)),
        Record::Used(key, at_us) => jar.get_mut(&key).into_iter().for_each(|cookie| cookie.accessed_us = at_us),
    }
}

/// A page, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The hash of its first site; all sites of a hash are in one page.
    pub first: u64,
    /// Where its record begins in the file.
    pub at: u64,
    /// How long that record is, with its head.
    pub len: u32,
}

/// Where the pages of a snapshot are, in the order of the hashes of their sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The pages.
    pub pages: Vec<Place>,
}

impl Index {
    /// The number of the page that holds the sites of a hash, if one does.
    pub fn find(&self, hash: u64) -> Option<usize> {
        self.pages.partition_point(|page| page.first <= hash).checked_sub(1)
    }

    /// Bytes of its record's content.
    pub fn len_of(pages: usize) -> usize {
        5 + pages * 20
    }
}

/// The hash of a site: FNV-1a, 64 bits. It only spreads sites over pages.
pub fn hash(site: &str) -> u64 {
    site.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

const INDEX: u8 = 1;
const COOKIES: u8 = 2;
const PUT: u8 = 3;
const GONE: u8 = 4;
const USED: u8 = 5;

const HOST_ONLY: u8 = 1;
const SECURE: u8 = 2;
const HTTP_ONLY: u8 = 4;
const EXPIRES: u8 = 8;
const PARTITION: u8 = 16;
/// Where the two bits of `SameSite` begin.
const SAME_SITE: u8 = 5;

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text);
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    out.push((u8::from(key.host_only) * HOST_ONLY) | (u8::from(key.partition.is_some()) * PARTITION));
    for text in [&key.name[..], key.domain.as_bytes(), &key.path] {
        put_text(out, text);
    }
    if let Some(partition) = &key.partition {
        put_text(out, partition.as_bytes());
    }
}

fn put_cookie(out: &mut Vec<u8>, cookie: &Cookie) {
    let same_site = match cookie.same_site {
        SameSite::Default => 0,
        SameSite::None => 1,
        SameSite::Lax => 2,
        SameSite::Strict => 3,
    };
    let flag = |set: bool, bit: u8| u8::from(set) * bit;
    out.push(
        flag(cookie.host_only, HOST_ONLY)
            | flag(cookie.secure, SECURE)
            | flag(cookie.http_only, HTTP_ONLY)
            | flag(cookie.expires_us.is_some(), EXPIRES)
            | flag(cookie.partition.is_some(), PARTITION)
            | same_site << SAME_SITE,
    );
    out.extend(cookie.created_us.to_le_bytes());
    out.extend(cookie.accessed_us.to_le_bytes());
    if let Some(expires) = cookie.expires_us {
        out.extend(expires.to_le_bytes());
    }
    for text in [&cookie.name[..], &cookie.value, cookie.domain.as_bytes(), &cookie.path] {
        put_text(out, text);
    }
    if let Some(partition) = &cookie.partition {
        put_text(out, partition.as_bytes());
    }
}

impl Record {
    /// The content of a record.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Record::Index(index) => {
                out.push(INDEX);
                out.extend((index.pages.len() as u32).to_le_bytes());
                for page in &index.pages {
                    out.extend(page.first.to_le_bytes());
                    out.extend(page.at.to_le_bytes());
                    out.extend(page.len.to_le_bytes());
                }
            }
            Record::Page(cookies) => {
                out.push(COOKIES);
                out.extend((cookies.len() as u32).to_le_bytes());
                cookies.iter().for_each(|cookie| put_cookie(&mut out, cookie));
            }
            Record::Put(cookie) => {
                out.push(PUT);
                put_cookie(&mut out, cookie);
            }
            Record::Gone(key) => {
                out.push(GONE);
                put_key(&mut out, key);
            }
            Record::Used(key, at_us) => {
                out.push(USED);
                out.extend(at_us.to_le_bytes());
                put_key(&mut out, key);
            }
        }
        out
    }

    /// Reads that. `None`: it is no record of this version, or has too few or too many bytes.
    pub fn read(bytes: &[u8]) -> Option<Record> {
        let mut from = Reader(bytes);
        let record = match from.byte()? {
            INDEX => {
                let count = from.word()? as usize;
                if from.0.len() != count.checked_mul(20)? {
                    return None;
                }
                let one =
                    |from: &mut Reader<'_>| Some(Place { first: from.long()?, at: from.long()?, len: from.word()? });
                let pages: Vec<Place> = (0..count).map(|_| one(&mut from)).collect::<Option<_>>()?;
                pages.windows(2).all(|pair| pair[0].first < pair[1].first).then_some(())?;
                Record::Index(Index { pages })
            }
            COOKIES => {
                let count = from.word()?;
                // Not reserved by what it says: it may say anything.
                Record::Page((0..count).map(|_| from.cookie()).collect::<Option<_>>()?)
            }
            PUT => Record::Put(from.cookie()?),
            GONE => Record::Gone(from.key()?),
            USED => {
                let at_us = from.long()?;
                Record::Used(from.key()?, at_us)
            }
            _ => return None,
        };
        from.0.is_empty().then_some(record)
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let len = self.word()? as usize;
        Some(self.take(len)?.to_vec())
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?).ok()
    }

    fn key(&mut self) -> Option<Key> {
        let flags = self.byte()?;
        (flags & !(HOST_ONLY | PARTITION) == 0).then_some(())?;
        let (name, domain, path) = (self.text()?, self.string()?, self.text()?);
        let partition = if flags & PARTITION != 0 { Some(self.string()?) } else { None };
        Some(Key { domain, host_only: flags & HOST_ONLY != 0, path, name, partition })
    }

    fn cookie(&mut self) -> Option<Cookie> {
        let flags = self.byte()?;
        (flags & 0x80 == 0).then_some(())?;
        let (created_us, accessed_us) = (self.long()?, self.long()?);
        let expires_us = if flags & EXPIRES != 0 { Some(self.long()?) } else { None };
        let (name, value, domain, path) = (self.text()?, self.text()?, self.string()?, self.text()?);
        let partition = if flags & PARTITION != 0 { Some(self.string()?) } else { None };
        let same_site = match flags >> SAME_SITE & 3 {
            0 => SameSite::Default,
            1 => SameSite::None,
            2 => SameSite::Lax,
            _ => SameSite::Strict,
        };
        Some(Cookie {
            name,
            value,
            domain,
            host_only: flags & HOST_ONLY != 0,
            path,
            secure: flags & SECURE != 0,
            http_only: flags & HTTP_ONLY != 0,
            same_site,
            expires_us,
            created_us,
            accessed_us,
            partition,
        })
    }
}

/// The contents of a snapshot's records: the index, then the pages. `groups` are the cookies of each site with its
/// hash; `from`: where the index's record begins in the file; `head`: bytes before each record's content.
pub fn snapshot(mut groups: Vec<(u64, Vec<Cookie>)>, from: u64, head: usize) -> Vec<Vec<u8>> {
    // Stable: sites of one hash stay in the order they came, cookies in theirs.
    groups.sort_by_key(|group| group.0);
    let mut pages: Vec<(u64, Vec<Cookie>)> = Vec::new();
    let (mut size, mut last) = (0, None);
    for (hash, cookies) in groups {
        if pages.is_empty() || (size >= PAGE && last != Some(hash)) {
            pages.push((hash, Vec::new()));
            size = 0;
        }
        last = Some(hash);
        let lengths = |it: &Cookie| 64 + it.name.len() + it.value.len() + it.domain.len() + it.path.len();
        size += cookies.iter().map(lengths).sum::<usize>();
        if let Some(page) = pages.last_mut() {
            page.1.extend(cookies);
        }
    }
    let mut at = from + (head + Index::len_of(pages.len())) as u64;
    let mut index = Index::default();
    let mut contents = vec![Vec::new()];
    for (first, cookies) in pages {
        let content = Record::Page(cookies).bytes();
        let len = (head + content.len()) as u32;
        index.pages.push(Place { first, at, len });
        at += u64::from(len);
        contents.push(content);
    }
    contents[0] = Record::Index(index).bytes();
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(number: usize) -> Cookie {
        Cookie {
            name: format!("n{number}").into(),
            value: vec![0xFF; number * 37 % 900],
            domain: format!("h{}.example", number / 3),
            host_only: number.is_multiple_of(2),
            path: b"/".to_vec(),
            secure: number.is_multiple_of(3),
            http_only: number.is_multiple_of(5),
            same_site: [SameSite::Default, SameSite::None, SameSite::Lax, SameSite::Strict][number % 4],
            expires_us: (!number.is_multiple_of(7)).then_some(number as u64),
            created_us: 1 << 50,
            accessed_us: u64::MAX,
            partition: number.is_multiple_of(4).then(|| "https://top.example".into()),
        }
    }

    #[test]
    fn records_are_read_back_and_no_part_of_one_is() {
        let cookies: Vec<Cookie> = (0..9).map(cookie).collect();
        let place = Place { first: 7, at: 8, len: 9 };
        let all = [
            Record::Index(Index { pages: vec![place, Place { first: 8, ..place }] }),
            Record::Page(cookies.clone()),
            Record::Put(cookies[4].clone()),
            Record::Gone(cookies[4].key()),
            Record::Used(cookies[3].key(), 12),
        ];
        for record in all {
            let bytes = record.bytes();
            assert_eq!(Record::read(&bytes), Some(record));
            assert!((0..bytes.len()).all(|len| Record::read(&bytes[..len]).is_none()));
            assert_eq!(Record::read(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Record::read(&[9]), None);
        let huge = [&[COOKIES][..], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(Record::read(&huge), None, "what it says of its length is not believed");
    }

    #[test]
    fn the_cookies_of_a_site_are_in_the_page_that_the_index_names() {
        let sites: Vec<String> = (0..300).map(|number| format!("h{number}.example")).collect();
        let of = |site: usize| (site * 3..site * 3 + 3).map(cookie).collect::<Vec<_>>();
        let groups = sites.iter().enumerate().map(|(at, site)| (hash(site), of(at))).collect();
        let contents = snapshot(groups, 60, 24);
        let Some(Record::Index(index)) = Record::read(&contents[0]) else { panic!("no index") };
        assert!(index.pages.len() > 10 && index.pages.len() == contents.len() - 1);
        assert_eq!(contents[0].len(), Index::len_of(index.pages.len()));
        let mut at = 60 + 24 + contents[0].len() as u64;
        for (page, content) in index.pages.iter().zip(&contents[1..]) {
            assert_eq!((page.at, page.len as usize), (at, 24 + content.len()));
            at += u64::from(page.len);
        }
        for (number, site) in sites.iter().enumerate() {
            let page = &contents[1 + index.find(hash(site)).unwrap()];
            let Some(Record::Page(cookies)) = Record::read(page) else { panic!("no page") };
            assert_eq!(cookies.into_iter().filter(|it| it.domain == *site).collect::<Vec<_>>(), of(number));
        }
        assert_eq!(index.find(index.pages[0].first - 1), None);
    }
}
