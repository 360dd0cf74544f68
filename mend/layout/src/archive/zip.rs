//! Reading a zip archive's structure. Every byte may be hostile. What this refuses to understand is an error; what it
//! understands and will not rewrite is an [`Obstacle`], so that `stat` can still show the archive.

use super::form::{DirectoryPlace, Method, Signed};
use model::{Error, Exit, Result};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

pub(super) const LOCAL: u32 = 0x0403_4b50;
pub(super) const CENTRAL: u32 = 0x0201_4b50;
pub(super) const END: u32 = 0x0605_4b50;
const END64_LOCATOR: u32 = 0x0706_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;

/// Length of a local header without its name and extra field.
pub(super) const LOCAL_LEN: usize = 30;
/// Length of a directory record without name, extra field and comment.
pub(super) const CENTRAL_LEN: usize = 46;
/// Length of the end record without the comment.
pub(super) const END_LEN: usize = 22;
/// Where the directory begins if it is in front.
pub(super) const FRONT: u64 = 4;

/// Bits of the general purpose flags.
pub(super) const FLAG_ENCRYPTED: u16 = 1;
pub(super) const FLAG_DESCRIPTOR: u16 = 1 << 3;
const FLAG_PATCH: u16 = 1 << 5;
const FLAG_STRONG: u16 = 1 << 6;
const FLAG_MASKED: u16 = 1 << 13;
const ZIP64_EXTRA: u16 = 1;

/// Number of an entry in the order of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct EntryId(pub usize);

/// One entry, as the directory describes it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its name, as it stands in the directory.
    pub name: &'a [u8],
    /// How it is compressed.
    pub method: Method,
    /// The general purpose flags, as they stand in the directory.
    pub flags: u16,
    /// CRC-32 of its content.
    pub crc: u32,
    /// Bytes in the archive.
    pub compressed: u32,
    /// Bytes of its content.
    pub size: u32,
    /// The record in the directory.
    pub(super) central: &'a [u8],
    /// Header, data and descriptor in the file.
    pub span: Range<u64>,
    /// The data alone; empty if the header makes no sense (there is an obstacle then).
    pub data: Range<u64>,
}

impl Entry<'_> {
    /// Its name as text.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.name.ends_with(b"/")
    }

    /// Unix mode, if the program that made it told one.
    pub(super) fn unix_mode(&self) -> Option<u32> {
        const UNIX: u8 = 3;
        let mode = u32_at(self.central, 38).map(|attributes| attributes >> 16).filter(|mode| *mode != 0);
        mode.filter(|_| self.central.get(5) == Some(&UNIX))
    }
}

/// Why an archive is not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObstacleKind {
    /// An entry is encrypted.
    Encrypted,
    /// An entry has 64-bit sizes.
    Zip64,
    /// A compression method other than stored and deflated.
    Method,
    /// Two entries have the same name.
    Duplicate,
    /// A name that leads out of the directory, or is none.
    Name,
    /// Entries share bytes, or lie outside of the file.
    Overlap,
    /// The entry's own header says other than the directory.
    Disagrees,
    /// Bytes that belong to no entry: a program in front, a signing block.
    Foreign,
    /// The archive is signed.
    Signed,
    /// The directory in front says other than the one at the end.
    TwoDirectories,
}

/// Why an archive is not rewritten, and because of which entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// What kind of reason.
    pub kind: ObstacleKind,
    /// A sentence without a full stop.
    pub text: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// An archive that was read, and what keeps it from being rewritten.
#[derive(Debug)]
pub struct Zip<'a> {
    /// All of its bytes.
    pub bytes: &'a [u8],
    /// Its entries in the order of the directory.
    pub entries: Vec<Entry<'a>>,
    /// The directory that tools other than Firefox use.
    pub directory: Range<u64>,
    /// Where its directories are.
    pub place: DirectoryPlace,
    /// The read-ahead hint, if there is a directory in front.
    pub hint: Option<u32>,
    /// The archive's comment.
    pub comment: &'a [u8],
    /// Why it will not be rewritten.
    pub obstacles: Vec<Obstacle>,
}

impl<'a> Zip<'a> {
    /// An entry by its number.
    pub fn entry(&self, id: EntryId) -> &Entry<'a> {
        &self.entries[id.0]
    }

    /// Numbers of all entries.
    pub fn ids(&self) -> impl Iterator<Item = EntryId> + use<> {
        (0..self.entries.len()).map(EntryId)
    }

    /// The first obstacle as an error; signatures only where they are not accepted.
    pub(super) fn must_be_plain(&self, signed: Signed) -> Result<()> {
        let accepted = |it: &&Obstacle| it.kind == ObstacleKind::Signed && signed == Signed::Accept;
        let Some(first) = self.obstacles.iter().find(|it| !accepted(it)) else { return Ok(()) };
        let more = self.obstacles.len() - 1;
        let rest = if more > 0 { format!(" (and {more} more reasons)") } else { String::new() };
        let error = Error::new(Exit::Data, format!("the archive is left as it is: {first}{rest}"), "");
        Err(match first.kind {
            ObstacleKind::Signed => error.hint("signatures of single entries stay valid; `--signed` rewrites it"),
            ObstacleKind::Foreign => error.hint("unpack it and pack it again if these bytes are not needed"),
            _ => error,
        })
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A part of the file.
pub(super) fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

fn bad(why: impl Into<String>) -> Error {
    Error::new(Exit::Data, format!("this is no zip archive that thaw can read: {}", why.into()), "")
}

/// The end record.
struct End<'a> {
    at: usize,
    count: u16,
    size: u32,
    offset: u32,
    comment: &'a [u8],
}

impl<'a> End<'a> {
    /// The last end record whose comment ends with the file.
    fn find(bytes: &'a [u8]) -> Result<Self> {
        let first = bytes.len().saturating_sub(END_LEN + usize::from(u16::MAX));
        let last = bytes.len().checked_sub(END_LEN).ok_or_else(|| bad("it is too short"))?;
        let candidates = (first..=last).rev().filter(|at| u32_at(bytes, *at) == Some(END));
        let mut candidates = candidates.filter_map(|at| {
            let comment = usize::from(u16_at(bytes, at + 20)?);
            (at + END_LEN + comment == bytes.len()).then_some(at)
        });
        let missing =
            || bad("there is no end record").hint("the file is cut off, or something was written behind its end");
        let at = candidates.next().ok_or_else(missing)?;
        let field = |offset| u16_at(bytes, at + offset).unwrap_or_default();
        let wide = |offset| u32_at(bytes, at + offset).unwrap_or_default();
        let end = Self { at, count: field(10), size: wide(12), offset: wide(16), comment: &bytes[at + END_LEN..] };
        let zip64 = at.checked_sub(20).is_some_and(|at| u32_at(bytes, at) == Some(END64_LOCATOR))
            || end.count == u16::MAX
            || end.size == u32::MAX
            || end.offset == u32::MAX;
        if zip64 {
            return Err(bad("it is a zip64 archive (over 65,534 entries or 4 GiB)"));
        }
        if field(4) != 0 || field(6) != 0 || field(8) != end.count {
            return Err(bad("it is one volume of several"));
        }
        Ok(end)
    }

    /// The directory that it points to.
    fn directory(&self, bytes: &[u8]) -> Result<Range<u64>> {
        let start = u64::from(self.offset);
        let range = start..start + u64::from(self.size);
        let is_record = |at: u64| usize::try_from(at).ok().and_then(|at| u32_at(bytes, at)) == Some(CENTRAL);
        let found = range.end <= self.at as u64 && (self.count == 0 || is_record(range.start));
        if found {
            return Ok(range);
        }
        let behind = (self.at as u64).checked_sub(u64::from(self.size));
        if behind.is_some_and(|at| at > start && is_record(at)) {
            return Err(bad("something lies in front of it, such as a program that unpacks it"));
        }
        Err(bad("its directory is not where the end record says").hint("the file may be cut off"))
    }
}

/// Looks at an archive.
///
/// # Errors
/// It is none, is cut off, has zip64 records or several volumes, or something in front of it.
pub fn parse(bytes: &[u8]) -> Result<Zip<'_>> {
    let end = End::find(bytes)?;
    let directory = end.directory(bytes)?;
    let mut obstacles = Vec::new();
    let mut add = |kind, text: String| obstacles.push(Obstacle { kind, text });
    let (place, hint) = front(bytes, &directory, &mut add);
    let records = slice(bytes, &directory).ok_or_else(|| bad("its directory is cut off"))?;
    let mut entries = Vec::with_capacity(usize::from(end.count));
    let mut rest = records;
    for number in 0..end.count {
        let (entry, after) = record(bytes, rest, &mut add)
            .ok_or_else(|| bad(format!("its directory is damaged at entry {number} of {}", end.count)))?;
        entries.push(entry);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(bad(format!("{} bytes of its directory belong to no entry", rest.len())));
    }
    names(&entries, &mut add);
    let head = match place {
        DirectoryPlace::End => 0,
        DirectoryPlace::Front | DirectoryPlace::Both => {
            let behind = FRONT + (directory.end - directory.start);
            let has_end = usize::try_from(behind).ok().and_then(|at| u32_at(bytes, at)) == Some(END);
            behind + if has_end { END_LEN as u64 } else { 0 }
        }
    };
    let tail = if place == DirectoryPlace::Front { end.at as u64 } else { directory.start };
    gaps(bytes, &entries, head..tail, &mut add);
    if place != DirectoryPlace::Front && directory.end != end.at as u64 {
        foreign(bytes, &(directory.end..end.at as u64), &mut add);
    }
    let comment = end.comment;
    Ok(Zip { bytes, entries, directory, place, hint, comment, obstacles })
}

/// Whether there is a directory in front, and its hint.
fn front(
    bytes: &[u8],
    directory: &Range<u64>,
    add: &mut impl FnMut(ObstacleKind, String),
) -> (DirectoryPlace, Option<u32>) {
    if u32_at(bytes, FRONT as usize) != Some(CENTRAL) {
        return (DirectoryPlace::End, None);
    }
    let hint = u32_at(bytes, 0);
    if directory.start == FRONT {
        return (DirectoryPlace::Front, hint);
    }
    // Firefox believes the one in front, everybody else the one at the end.
    let same = slice(bytes, &(FRONT..FRONT + (directory.end - directory.start))) == slice(bytes, directory);
    if !same {
        add(ObstacleKind::TwoDirectories, "the directory in front says other than the one at the end".into());
    }
    (DirectoryPlace::Both, hint)
}

/// Reads one record of the directory, and the header that it points to; `None`: the directory is damaged.
fn record<'a>(
    bytes: &'a [u8],
    records: &'a [u8],
    add: &mut impl FnMut(ObstacleKind, String),
) -> Option<(Entry<'a>, &'a [u8])> {
    (u32_at(records, 0)? == CENTRAL).then_some(())?;
    let (name_len, extra_len) = (usize::from(u16_at(records, 28)?), usize::from(u16_at(records, 30)?));
    let len = CENTRAL_LEN + name_len + extra_len + usize::from(u16_at(records, 32)?);
    let (central, after) = records.split_at_checked(len)?;
    let name = central.get(CENTRAL_LEN..CENTRAL_LEN + name_len)?;
    let extra = central.get(CENTRAL_LEN + name_len..CENTRAL_LEN + name_len + extra_len)?;
    let mut entry = Entry {
        name,
        method: Method::of(u16_at(central, 10)?),
        flags: u16_at(central, 8)?,
        crc: u32_at(central, 16)?,
        compressed: u32_at(central, 20)?,
        size: u32_at(central, 24)?,
        central,
        span: 0..0,
        data: 0..0,
    };
    let offset = u32_at(central, 42)?;
    let shown = entry.shown();
    if entry.flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED) != 0 {
        add(ObstacleKind::Encrypted, format!("the entry '{shown}' is encrypted"));
    }
    if let Method::Other(number) = entry.method {
        add(ObstacleKind::Method, format!("the entry '{shown}' is compressed with method {number}"));
    }
    if entry.flags & FLAG_PATCH != 0 {
        add(ObstacleKind::Method, format!("the entry '{shown}' is a patch of another file"));
    }
    let wide = [entry.compressed, entry.size, offset].contains(&u32::MAX);
    if wide || fields(extra).any(|(id, _)| id == ZIP64_EXTRA) {
        add(ObstacleKind::Zip64, format!("the entry '{shown}' has 64-bit sizes (zip64)"));
        return Some((entry, after));
    }
    match header(bytes, &entry, u64::from(offset)) {
        Ok((span, data)) => (entry.span, entry.data) = (span, data),
        Err((kind, why)) => add(kind, format!("the entry '{shown}' {why}")),
    }
    Some((entry, after))
}

/// The header and data of an entry: where they are.
fn header(
    bytes: &[u8],
    entry: &Entry<'_>,
    offset: u64,
) -> std::result::Result<(Range<u64>, Range<u64>), (ObstacleKind, String)> {
    let outside = || (ObstacleKind::Overlap, "lies outside of the file, or the file is cut off".to_owned());
    let differs =
        |what: &str| (ObstacleKind::Disagrees, format!("has a header that disagrees with the directory: {what}"));
    let local = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).ok_or_else(outside)?;
    if u32_at(local, 0) != Some(LOCAL) {
        return Err(differs("there is none"));
    }
    let field = |at| u16_at(local, at).ok_or_else(outside);
    let wide = |at| u32_at(local, at).ok_or_else(outside);
    let (name_len, extra_len) = (usize::from(field(26)?), usize::from(field(28)?));
    let name = local.get(LOCAL_LEN..LOCAL_LEN + name_len).ok_or_else(outside)?;
    if name != entry.name {
        return Err(differs("the name"));
    }
    if Method::of(field(8)?) != entry.method {
        return Err(differs("the compression"));
    }
    let flags = field(6)?;
    if (flags ^ entry.flags) & (FLAG_DESCRIPTOR | FLAG_ENCRYPTED) != 0 {
        return Err(differs("the flags"));
    }
    let extra = local.get(LOCAL_LEN + name_len..LOCAL_LEN + name_len + extra_len).ok_or_else(outside)?;
    if fields(extra).any(|(id, _)| id == ZIP64_EXTRA) {
        // The directory has 32-bit sizes, or this would not be asked.
        let stream = "was written as a stream (as by `zip -`): its sizes stand behind its data, in 64 bits";
        let why = if flags & FLAG_DESCRIPTOR != 0 { stream } else { "has a header with 64-bit sizes (zip64)" };
        return Err((ObstacleKind::Zip64, why.into()));
    }
    let told = (wide(14)?, wide(18)?, wide(22)?);
    let right = (entry.crc, entry.compressed, entry.size);
    let has_descriptor = flags & FLAG_DESCRIPTOR != 0;
    // With a descriptor, each of them may stand behind the data only.
    let agrees = told == right
        || has_descriptor
            && [(told.0, right.0), (told.1, right.1), (told.2, right.2)]
                .iter()
                .all(|(it, right)| *it == 0 || it == right);
    if !agrees {
        return Err(differs("the checksum or the sizes"));
    }
    if entry.method == Method::Stored && entry.compressed != entry.size {
        return Err(differs("it is stored, with two sizes"));
    }
    let start = LOCAL_LEN + name_len + extra_len;
    let end = start + entry.compressed as usize;
    local.get(start..end).ok_or_else(outside)?;
    let descriptor = if has_descriptor {
        descriptor(&local[end..], right).ok_or_else(|| differs("its data descriptor"))?
    } else {
        0
    };
    let at = |inside: usize| offset + inside as u64;
    Ok((offset..at(end + descriptor), at(start)..at(end)))
}

/// Length of the data descriptor, if it says what the directory says. Its signature is optional.
fn descriptor(bytes: &[u8], right: (u32, u32, u32)) -> Option<usize> {
    let at = |start| Some((u32_at(bytes, start)?, u32_at(bytes, start + 4)?, u32_at(bytes, start + 8)?));
    if u32_at(bytes, 0) == Some(DESCRIPTOR) && at(4) == Some(right) {
        return Some(16);
    }
    (at(0) == Some(right)).then_some(12)
}

/// The fields of an extra field, as far as they make sense: number and content.
pub(super) fn fields(extra: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = extra;
    std::iter::from_fn(move || {
        let (id, len) = (u16_at(rest, 0)?, usize::from(u16_at(rest, 2)?));
        let content = rest.get(4..4 + len)?;
        rest = &rest[4 + len..];
        Some((id, content))
    })
}

/// Names that lead elsewhere, stand twice, or belong to a signature.
fn names(entries: &[Entry<'_>], add: &mut impl FnMut(ObstacleKind, String)) {
    let mut seen = HashSet::new();
    for entry in entries {
        let shown = entry.shown();
        if !seen.insert(entry.name) {
            add(ObstacleKind::Duplicate, format!("there are two entries '{shown}'"));
        }
        if let Some(why) = wrong_name(entry.name) {
            add(ObstacleKind::Name, format!("the name of the entry '{shown}' {why}"));
        }
        if let Some(name) = shown.to_ascii_uppercase().strip_prefix("META-INF/")
            && [".SF", ".RSA", ".DSA", ".EC", "COSE.SIG"].iter().any(|end| name.ends_with(end))
        {
            add(ObstacleKind::Signed, format!("it is signed ('{shown}')"));
        }
    }
}

/// Why a name may not be written below a directory.
pub(super) fn wrong_name(name: &[u8]) -> Option<&'static str> {
    let mut parts = name.split(|byte| *byte == b'/' || *byte == b'\\');
    let drive = name.get(1) == Some(&b':') && name[0].is_ascii_alphabetic();
    if name.is_empty() {
        Some("is empty")
    } else if name.contains(&0) {
        Some("holds a zero byte")
    } else if name[0] == b'/' || name[0] == b'\\' || drive {
        Some("is an absolute path")
    } else if parts.any(|part| part == b"..") {
        Some("leads out of the archive with '..'")
    } else {
        None
    }
}

/// Entries that share bytes, and bytes between them that somebody may need.
fn gaps(bytes: &[u8], entries: &[Entry<'_>], within: Range<u64>, add: &mut impl FnMut(ObstacleKind, String)) {
    let mut spans: Vec<&Entry<'_>> = entries.iter().filter(|entry| !entry.span.is_empty()).collect();
    if spans.len() < entries.len() {
        // What a broken entry covers is not known; its own obstacle stands already.
        return;
    }
    spans.sort_by_key(|entry| entry.span.start);
    let mut at = within.start;
    for entry in spans {
        if entry.span.start < at || entry.span.end > within.end {
            add(ObstacleKind::Overlap, format!("the entry '{}' shares bytes with something else", entry.shown()));
            return;
        }
        foreign(bytes, &(at..entry.span.start), add);
        at = entry.span.end;
    }
    foreign(bytes, &(at..within.end), add);
}

/// Bytes of no entry, unless they are zeros.
fn foreign(bytes: &[u8], range: &Range<u64>, add: &mut impl FnMut(ObstacleKind, String)) {
    let zeros = slice(bytes, range).is_none_or(|gap| gap.iter().all(|byte| *byte == 0));
    if !zeros {
        let len = range.end - range.start;
        add(ObstacleKind::Foreign, format!("{len} bytes at offset {} belong to no entry", range.start));
    }
}
