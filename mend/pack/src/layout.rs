//! Memory and file: the segments of the new file, and where everything goes in it. Addresses are given; only offsets in
//! the file are decided here.

use crate::image::{Image, Segment, part, section_len, up};
use crate::report::Reason;
use crate::stop::{Stop, refuse, refuse_with_hint};
use std::ops::Range;

/// A loaded segment of the new file.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its header; the offset is decided by [`Files::place`].
    pub head: Segment,
    /// What of the original it holds; the rest of it is zero, or painted later.
    pub chunks: Vec<Chunk>,
    /// The stretch of the original file that it stands for, dropped parts included; empty for a new segment, which
    /// comes at that place in the order of the file.
    pub covers: Range<u64>,
    /// The address of the original segment whose place among the headers it takes; none for a new segment.
    pub origin: Option<u64>,
}

/// A stretch of the original.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The address of its first byte, before the load bias.
    pub vaddr: u64,
    /// Its place in the original file.
    pub from: Range<u64>,
}

impl Load {
    pub fn of(segment: &Segment) -> Self {
        let chunk = Chunk { vaddr: segment.vaddr, from: segment.file_range() };
        Self { head: segment.clone(), chunks: vec![chunk], covers: segment.file_range(), origin: Some(segment.vaddr) }
    }

    /// Cuts it in two at an address inside of it: the part from there on is returned.
    pub fn split_off(&mut self, at: u64) -> Self {
        let skip = at - self.head.vaddr;
        let mut tail = self.clone();
        tail.head.vaddr = at;
        tail.head.paddr = tail.head.paddr.wrapping_add(skip);
        tail.head.filesz -= skip;
        tail.head.memsz -= skip;
        self.truncate(at);
        tail.chunks.retain_mut(|chunk| {
            let end = chunk.vaddr + (chunk.from.end - chunk.from.start);
            if chunk.vaddr < at {
                chunk.from.start += at.min(end) - chunk.vaddr;
                chunk.vaddr = at;
            }
            chunk.from.start < chunk.from.end
        });
        let border = tail.chunks.first().map_or(tail.covers.end, |chunk| chunk.from.start);
        self.covers.end = border;
        tail.covers.start = border;
        tail
    }

    /// Drops everything from an address on.
    pub fn truncate(&mut self, end: u64) {
        self.head.filesz = end - self.head.vaddr;
        self.head.memsz = self.head.filesz;
        self.chunks.retain_mut(|chunk| {
            let len = end.saturating_sub(chunk.vaddr).min(chunk.from.end - chunk.from.start);
            chunk.from.end = chunk.from.start + len;
            len != 0
        });
    }
}

/// What is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The section with this index.
    Section(usize),
    /// The section names.
    Names,
    /// The table of section headers.
    Table,
}

/// Something with a place in the file.
#[derive(Clone, Debug)]
struct Item {
    key: u64,
    what: What,
    old: Range<u64>,
    len: u64,
    align: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Load(usize),
    Part(Part),
}

/// A part and its new place.
#[derive(Clone, Debug)]
pub struct Placed {
    pub part: Part,
    pub old: Range<u64>,
    pub at: u64,
}

/// Where everything is in the new file.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub parts: Vec<Placed>,
    /// Bytes between parts that are kept, for example the traps with which a linker fills up a page of code: from, to.
    pub fillers: Vec<(Range<u64>, u64)>,
    /// What is left of the room of the old section names, where these gave way.
    pub left: Range<u64>,
    pub len: u64,
}

impl Places {
    /// The new place of a byte that is not loaded.
    pub fn moved(&self, offset: u64) -> u64 {
        let part = self.parts.iter().filter(|part| part.old.start <= offset).max_by_key(|part| part.old.start);
        part.map_or(offset.min(self.len), |part| part.at + (offset - part.old.start).min(part.old.end - part.old.start))
    }

    pub fn of(&self, part: Part) -> Option<&Placed> {
        self.parts.iter().find(|placed| placed.part == part)
    }
}

/// Lengths of the section table and names in the new file.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub sections: usize,
    pub names: u64,
}

/// What is not loaded, in the order of the file.
fn parts(image: &Image<'_>) -> Vec<(Part, Range<u64>, u64)> {
    let mut parts = Vec::new();
    let loaded = |range: &Range<u64>| {
        image.loads().any(|load| load.offset <= range.start && range.end <= load.offset + load.filesz)
    };
    let start = image.header.shoff;
    let table = start..start + image.sections.len() as u64 * section_len(image.word);
    // Go's linker puts the table into a segment, in front of the code. What the program has there stays; the new one
    // goes to the end.
    let end = image.bytes.len() as u64;
    let table = if loaded(&table) { end..end } else { table };
    for (index, section) in image.sections.iter().enumerate() {
        // A section that is loaded moves with its segment.
        let own = section.in_file().filter(|range| !range.is_empty() && !loaded(range));
        if index == image.header.shstrndx as usize {
            parts.push((Part::Names, own.unwrap_or(table.start..table.start), 1));
        } else if let Some(range) = own {
            parts.push((Part::Section(index), range, section.align.max(1)));
        }
    }
    if !image.sections.is_empty() {
        parts.push((Part::Table, table, image.word.bytes()));
    }
    parts.sort_by_key(|part| (part.1.start, part.1.end));
    parts
}

/// Places everything one after the other, as near to the beginning as alignment allows.
///
/// # Errors
/// The file holds bytes that no header names; they may be looked for at their offset.
pub fn shrink(image: &Image<'_>, loads: &mut [Load], tables: Tables) -> Result<Places, Stop> {
    let mut items: Vec<Item> = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        let (old, len) = (load.covers.clone(), load.head.filesz);
        items.push(Item { key: old.start, what: What::Load(index), old, len, align: load.head.align });
    }
    let table_len = tables.sections as u64 * section_len(image.word);
    for (part, old, align) in parts(image) {
        let len = match part {
            Part::Section(_) => old.end - old.start,
            Part::Names => tables.names,
            Part::Table => table_len,
        };
        items.push(Item { key: old.start, what: What::Part(part), old, len, align });
    }
    // What is empty comes first, so that it does not end up behind its equal.
    items.sort_by_key(|item| (item.key, item.len));
    let hidden = |range: Range<u64>| {
        let len = range.end - range.start;
        refuse_with_hint(
            Reason::Payload,
            format!(
                "{len} bytes at offset {} of it belong to no section or segment: something may look for them there",
                range.start
            ),
            "`--no-shrink` leaves every byte at its offset",
        )
    };

    let mut places = Places::default();
    let mut cursor = 0_u64;
    let mut old_end = 0_u64;
    let mut filler: Option<(u64, u64, u64)> = None;
    for item in &items {
        if item.old.start < old_end && item.old.start < item.old.end {
            return Err(refuse(Reason::RelocationLayout, "parts of it overlap in the file"));
        }
        let gap = old_end.min(item.old.start)..item.old.start;
        let is_new = matches!(item.what, What::Load(index) if loads[index].chunks.is_empty());
        let at = match item.what {
            What::Load(index) => congruent(cursor, loads[index].head.vaddr, item.align),
            What::Part(_) if item.align.is_power_of_two() && item.align <= 1 << 16 => up(cursor, item.align),
            What::Part(_) => cursor,
        };
        if !is_new {
            let bytes = part(image.bytes, gap.start, gap.end - gap.start).unwrap_or_default();
            if bytes.iter().any(|byte| *byte != 0) {
                match filler.take() {
                    // What follows a segment in its last page is the linker's, and so is one word over and over up to
                    // its alignment; more than that is not.
                    Some((from, to, align))
                        if from == gap.start
                            && (bytes.len() < model::PAGE as usize
                                || (bytes.len() as u64) < align && is_one_word(bytes)) =>
                    {
                        let len = (gap.end - gap.start).min(at.saturating_sub(to));
                        places.fillers.push((from..from + len, to));
                    }
                    _ => return Err(hidden(gap)),
                }
            }
            old_end = old_end.max(item.old.end);
        }
        filler = None;
        match item.what {
            What::Load(index) => {
                let load = &mut loads[index];
                load.head.offset = at;
                let is_whole = load.chunks.last().is_some_and(|last| last.from.end == load.covers.end);
                filler = is_whole.then_some((item.old.end, at + item.len, item.align));
            }
            What::Part(part) => places.parts.push(Placed { part, old: item.old.clone(), at }),
        }
        if item.len != 0 {
            cursor = at + item.len;
        }
    }
    let rest = part(image.bytes, old_end, (image.bytes.len() as u64).saturating_sub(old_end));
    let rest = rest.unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) || rest.len() as u64 >= model::PAGE {
        return Err(hidden(old_end..image.bytes.len() as u64));
    }
    places.len = cursor + rest.len() as u64;
    Ok(places)
}

/// Traps with which linkers fill up code.
fn is_one_word(bytes: &[u8]) -> bool {
    // The first word may be cut, the pattern goes on.
    bytes.iter().zip(bytes.iter().skip(4)).all(|(byte, next)| byte == next)
}

/// The lowest offset from `from` on that can be mapped to an address.
fn congruent(from: u64, vaddr: u64, align: u64) -> u64 {
    let align = align.max(1);
    let want = vaddr % align;
    let have = from % align;
    from + if want >= have { want - have } else { align - have + want }
}

/// Where a file can grow when nothing moves.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Behind its last part, or where the section table begins that ends it.
    pub at: u64,
    /// Zeros that end the file, and shall go on to do so.
    zeros: u64,
}

/// Where a file can grow when nothing moves. `None` where something lies behind the ELF file, which may be looked for
/// from the end.
pub fn growth(image: &Image<'_>) -> Option<Growth> {
    let parts = parts(image);
    let len = image.bytes.len() as u64;
    let end = image.loads().map(|load| load.offset + load.filesz).chain(parts.iter().map(|part| part.1.end)).max()?;
    let rest = part(image.bytes, end, len.checked_sub(end)?)?;
    if rest.len() as u64 >= model::PAGE || rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    let zeros = rest.len() as u64;
    // The table and its names are written anew anyway.
    Some(match own_tail(image) {
        Some(own) if own.end == end => Growth { at: own.start, zeros },
        _ => Growth { at: end, zeros },
    })
}

/// The section table and its names, if they are the last parts of the file.
fn own_tail(image: &Image<'_>) -> Option<Range<u64>> {
    let parts = parts(image);
    let first = parts.iter().rev().take_while(|part| !matches!(part.0, Part::Section(_))).last()?;
    Some(first.1.start..parts.last()?.1.end)
}

/// The end of a file whose section table gets longer where it is: the names before it, if nothing else reads them, give
/// way, and what lies between them and the table moves up into their place.
struct Tail {
    /// The new places of what lies between, by index.
    between: Vec<(usize, u64)>,
    /// What is left of the room of the names, before the table.
    left: Range<u64>,
}

/// The tail of the file, for a table of `len` bytes. `None`: the table does not end the file, or there is no room.
fn tail(image: &Image<'_>, len: u64) -> Option<Tail> {
    let parts = parts(image);
    let names = parts.iter().position(|part| part.0 == Part::Names)?;
    let (last, between) = parts[names + 1..].split_last().filter(|(last, _)| last.0 == Part::Table)?;
    let is_shared = image.sections.iter().any(|section| section.link == image.header.shstrndx && section.link != 0);
    let is_small = image.sections.len() < 0xff00 - 16;
    if is_shared || !is_small {
        return None;
    }
    let mut cursor = parts[names].1.start;
    let mut places = Vec::new();
    for (part, old, align) in between {
        let Part::Section(index) = part else { return None };
        let at = if align.is_power_of_two() { up(cursor, *align) } else { old.start };
        (at <= old.start).then(|| places.push((*index, at)))?;
        cursor = at + (old.end - old.start);
    }
    let at = last.1.end.checked_sub(len).filter(|at| *at >= cursor)?;
    Some(Tail { between: places, left: cursor..at })
}

fn hemmed_in() -> Stop {
    let sentence = "something behind its end is in the way of its section table, which gets longer, and the section \
                    names before the table are shared or too short to make room for it";
    refuse(Reason::Payload, sentence)
}

/// Leaves everything at its offset. The section table and its names grow where the file does, or else in `room`.
///
/// # Errors
/// There is no place for them.
pub fn keep(image: &Image<'_>, loads: &[Load], tables: Tables, room: &mut Range<u64>) -> Result<Places, Stop> {
    let len = image.bytes.len() as u64;
    let ends = loads.iter().map(|load| load.head.offset + load.head.filesz);
    let mut places = Places { len: ends.max().unwrap_or(0).max(len), ..Places::default() };
    if image.sections.is_empty() {
        return Ok(places);
    }
    let table_len = tables.sections as u64 * section_len(image.word);
    let new_end = loads.iter().filter(|load| load.origin.is_none()).map(|load| load.head.file_range().end).max();
    let grows = growth(image);
    let (mut names_at, mut between) = (None, Vec::new());
    let at = match grows {
        Some(Growth { at, .. }) => up(at.max(new_end.unwrap_or(0)), image.word.bytes()),
        // The end of the file stays where it is: the names give way, into the free room.
        None => {
            let tail = tail(image, table_len).ok_or_else(hemmed_in)?;
            let end = room.start.checked_add(tables.names).filter(|end| *end <= room.end).ok_or_else(hemmed_in)?;
            names_at = Some(std::mem::replace(&mut room.start, end));
            places.left = tail.left.clone();
            between = tail.between;
            tail.left.end
        }
    };
    for (part, old, _) in parts(image) {
        let at = match part {
            Part::Section(index) => between.iter().find(|moved| moved.0 == index).map_or(old.start, |moved| moved.1),
            Part::Table => at,
            Part::Names => names_at.unwrap_or(at + table_len),
        };
        places.parts.push(Placed { part, old, at });
    }
    if let Some(growth) = grows {
        places.len = at + table_len + tables.names + growth.zeros;
    }
    Ok(places)
}
