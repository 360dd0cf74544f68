//! The bytes of a stream, hostile until shown otherwise: header, list of chunks, records of a lane.

use heap_wire::{CHUNK_MAGIC, ChunkHeader, FileHeader, MAGIC, PAGE, VERSION, kind, meta, stack};
use std::mem::offset_of;

/// A part of a buffer, or `None` beyond its end.
fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    part(bytes, at).map(u64::from_le_bytes)
}

/// What the first page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub version: u32,
    pub origin: u32,
    pub pid: u32,
    pub ppid: u32,
    pub start_ticks: u64,
    pub start_mono_ns: u64,
    pub last_ticks: u64,
    pub last_mono_ns: u64,
    pub lost: u64,
    pub nested: u64,
    pub stopped: u32,
    pub errno: u32,
    pub tiers: u32,
    pub options: u32,
    pub depth: u32,
    pub detours: u32,
    pub sample_bytes: u64,
    pub setup_ns: u64,
    pub parent: Vec<u8>,
    pub exe: Vec<u8>,
    pub allocator: Vec<u8>,
    pub doubt: Vec<u8>,
    pub cmdline: Vec<Vec<u8>>,
    pub inside: Vec<u8>,
    pub pauses: u64,
    pub restless: u32,
    pub own: u64,
    pub ahead: u64,
}

/// Why a first page is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It does not begin as one.
    NoStream,
    /// Another version.
    Version(u32),
}

/// Reads the first page.
pub fn head(page: &[u8]) -> Result<Head, Bad> {
    if part(page, 0) != Some(MAGIC) {
        return Err(Bad::NoStream);
    }
    let page: &[u8; size_of::<FileHeader>()] =
        page.get(..size_of::<FileHeader>()).and_then(|page| page.try_into().ok()).ok_or(Bad::NoStream)?;
    let small = |at: usize| u32_at(page, at).unwrap_or(0);
    let large = |at: usize| u64_at(page, at).unwrap_or(0);
    let text = |at: usize, bytes: usize| until_zero(page.get(at..at + bytes).unwrap_or(&[]));
    if !(1..=VERSION).contains(&small(offset_of!(FileHeader, version))) {
        return Err(Bad::Version(small(offset_of!(FileHeader, version))));
    }
    let cmdline = page.get(offset_of!(FileHeader, cmdline)..offset_of!(FileHeader, inside)).unwrap_or(&[]);
    let used = cmdline.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let words = cmdline.get(..used).unwrap_or(&[]).split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    Ok(Head {
        version: small(offset_of!(FileHeader, version)),
        origin: small(offset_of!(FileHeader, origin)),
        pid: small(offset_of!(FileHeader, pid)),
        ppid: small(offset_of!(FileHeader, ppid)),
        start_ticks: large(offset_of!(FileHeader, start_ticks)),
        start_mono_ns: large(offset_of!(FileHeader, start_mono_ns)),
        last_ticks: large(offset_of!(FileHeader, last_ticks)),
        last_mono_ns: large(offset_of!(FileHeader, last_mono_ns)),
        lost: large(offset_of!(FileHeader, lost)),
        nested: large(offset_of!(FileHeader, nested)),
        stopped: small(offset_of!(FileHeader, stopped)),
        errno: small(offset_of!(FileHeader, errno)),
        tiers: small(offset_of!(FileHeader, tiers)),
        options: small(offset_of!(FileHeader, options)),
        depth: small(offset_of!(FileHeader, depth)),
        detours: small(offset_of!(FileHeader, detours)),
        sample_bytes: large(offset_of!(FileHeader, sample_bytes)),
        setup_ns: large(offset_of!(FileHeader, setup_ns)),
        parent: text(offset_of!(FileHeader, parent), 64),
        exe: text(offset_of!(FileHeader, exe), 1024),
        allocator: text(offset_of!(FileHeader, allocator), 512),
        doubt: text(offset_of!(FileHeader, doubt), 512),
        inside: text(offset_of!(FileHeader, inside), 512),
        pauses: large(offset_of!(FileHeader, pauses)),
        restless: small(offset_of!(FileHeader, restless)),
        own: large(offset_of!(FileHeader, own)),
        ahead: large(offset_of!(FileHeader, ahead)),
        cmdline: if used == 0 { Vec::new() } else { words },
    })
}

fn until_zero(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[]).to_vec()
}

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub lane: u32,
    pub sequence: u32,
    pub bytes: u32,
    pub ticks: u64,
}

/// Reads a chunk's header; `None`: there is no chunk here.
pub fn chunk(bytes: &[u8]) -> Option<Chunk> {
    let small = |at: usize| u32_at(bytes, at);
    let size = small(offset_of!(ChunkHeader, bytes))?;
    let sane = small(offset_of!(ChunkHeader, magic))? == CHUNK_MAGIC
        && size as usize >= PAGE
        && (size as usize).is_multiple_of(PAGE)
        && size <= 1 << 24;
    sane.then_some(Chunk {
        lane: small(offset_of!(ChunkHeader, lane))?,
        sequence: small(offset_of!(ChunkHeader, sequence))?,
        bytes: size,
        ticks: u64_at(bytes, offset_of!(ChunkHeader, ticks))?,
    })
}

/// How a record tells its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackPart<'a> {
    None,
    Same,
    /// This many elements stay, these ids follow (of two or four bytes).
    Narrow(u8, &'a [u8]),
    Wide(u8, &'a [u8]),
    /// This many stay, the entry of the table follows.
    Known(u8, u8),
}

/// What a record is about.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// An event, and its stack.
    Event(Fields, StackPart<'a>),
    /// The next block has so many bytes more than it asked for.
    Usable(u64),
    /// META: what, payload.
    Meta(u8, &'a [u8]),
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Ticks since the last one.
    pub elapsed: u64,
    pub body: Body<'a>,
    /// Where the next one begins.
    pub next: usize,
}

/// Bytes of a record's fixed part at most, and of the last number as it is read.
const WINDOW: usize = 40;

/// What a record says before its stack or payload: numbers alone, so that all of it is in registers.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    pub kind: u16,
    pub elapsed: u64,
    pub difference: u64,
    pub size: u64,
    pub extra: u8,
    /// [`stack`].
    pub code: u16,
    /// Where the stack or the payload begins.
    pub next: usize,
}

/// Reads the fields of the record at `at`; `None`: it reaches beyond the end.
#[inline(always)]
pub fn fields(chunk: &[u8], at: usize) -> Option<Fields> {
    let rest = chunk.get(at..)?;
    let padded;
    let window = match rest.first_chunk::<WINDOW>() {
        Some(window) => window,
        None => {
            padded = pad(rest);
            &padded
        }
    };
    let header = u16::from_le_bytes([window[0], window[1]]);
    let kind = header & 15;
    let length = |shift: u16| usize::from(header >> shift & 7) + 1;
    let elapsed = number(window, 2, length(4))?;
    let mut here = 2 + length(4);
    let (mut difference, mut size, mut extra) = (0, 0, 0);
    if kind != kind::META && kind != kind::END {
        difference = number(window, here, length(7))?;
        here += length(7);
        let bytes = if kind::has_size(kind) { length(10) } else { 0 };
        size = number(window, here, bytes)?;
        here += bytes;
        if kind::has_extra(kind) {
            extra = *window.get(here)?;
            here += 1;
        }
    }
    let next = at + here;
    (next <= chunk.len()).then_some(Fields { kind, elapsed, difference, size, extra, code: header >> 13, next })
}

#[cold]
fn pad(rest: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    window.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    window
}

/// A number of 0 to 8 bytes.
#[inline(always)]
fn number(window: &[u8; WINDOW], at: usize, length: usize) -> Option<u64> {
    const MASKS: [u64; 9] = [
        0,
        0xff,
        0xffff,
        0xff_ffff,
        0xffff_ffff,
        0xff << 32 | 0xffff_ffff,
        0xffff << 32 | 0xffff_ffff,
        u64::MAX >> 8,
        u64::MAX,
    ];
    let eight = u64::from_le_bytes(*window.get(at..at + 8)?.first_chunk()?);
    Some(eight & MASKS.get(length)?)
}

/// The ticks until the record at `at`, even if it reaches beyond the end; `None`: the chunk ends here.
pub fn elapsed(chunk: &[u8], at: usize) -> Option<u64> {
    let header = u16::from_le_bytes(part(chunk, at)?);
    let time = chunk.get(at + 2..at + 3 + usize::from(header >> 4 & 7))?;
    (header & 15 != kind::END).then(|| time.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// The stack of an event whose fields these are, and where it ends; `None`: it reaches beyond the end.
#[inline(always)]
pub fn stack<'a>(chunk: &'a [u8], fields: &Fields) -> Option<(StackPart<'a>, usize)> {
    let at = fields.next;
    Some(match fields.code {
        stack::NONE => (StackPart::None, at),
        stack::SAME => (StackPart::Same, at),
        stack::NARROW | stack::WIDE => {
            let [keep, count] = part(chunk, at)?;
            let width = if fields.code == stack::NARROW { 2 } else { 4 };
            let ids = chunk.get(at + 2..at + 2 + width * usize::from(count))?;
            let next = at + 2 + ids.len();
            (if width == 2 { StackPart::Narrow(keep, ids) } else { StackPart::Wide(keep, ids) }, next)
        }
        stack::KNOWN => {
            let [keep, entry] = part(chunk, at)?;
            (StackPart::Known(keep, entry), at + 2)
        }
        _ => return None,
    })
}

/// Reads the record at `at`; `None`: it is damaged.
pub fn record(chunk: &[u8], at: usize) -> Option<Record<'_>> {
    let fields = fields(chunk, at)?;
    let Fields { kind, elapsed, difference, next: at, .. } = fields;
    let (body, next) = match kind {
        kind::META => {
            let what = *chunk.get(at)?;
            let bytes = usize::from(u16::from_le_bytes(part(chunk, at + 1)?));
            (Body::Meta(what, chunk.get(at + 3..at + 3 + bytes)?), at + 3 + bytes)
        }
        kind::USABLE => (Body::Usable(difference), at),
        kind if kind == kind::END || kind > kind::USABLE => return None,
        _ => {
            let (stack, next) = stack(chunk, &fields)?;
            (Body::Event(fields, stack), next)
        }
    };
    Some(Record { elapsed, body, next })
}

/// What a META record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta<'a> {
    Thread(u32),
    Name(u32, &'a [u8]),
    Pc(u32, u64),
    Module { bias: u64, start: u64, end: u64, build_id: &'a [u8], path: &'a [u8] },
    Reset,
    Note(&'a [u8]),
    Fork,
}

/// Reads the payload of a META record; `None`: unknown or damaged.
pub fn meta(what: u8, payload: &[u8]) -> Option<Meta<'_>> {
    Some(match what {
        meta::THREAD => Meta::Thread(u32_at(payload, 0)?),
        meta::NAME => Meta::Name(u32_at(payload, 0)?, payload.get(4..)?),
        meta::PC => Meta::Pc(u32_at(payload, 0)?, u64_at(payload, 4)?),
        meta::MODULE => {
            let id = usize::from(*payload.get(24)?);
            Meta::Module {
                bias: u64_at(payload, 0)?,
                start: u64_at(payload, 8)?,
                end: u64_at(payload, 16)?,
                build_id: payload.get(25..25 + id)?,
                path: payload.get(25 + id..)?,
            }
        }
        meta::RESET => Meta::Reset,
        meta::NOTE => Meta::Note(payload),
        meta::FORK => Meta::Fork,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..310) {
            let _ = (head(&bytes), chunk(&bytes), elapsed(&bytes, at));
            if let Some(record) = record(&bytes, at) {
                prop_assert!(record.next > at && record.next <= bytes.len());
                if let Body::Meta(what, payload) = record.body {
                    let _ = meta(what, payload);
                }
            }
        }
    }

    #[test]
    fn numbers_at_the_end_of_a_chunk_are_read() {
        let header = (kind::FREE | 1 << 4 | 2 << 7).to_le_bytes();
        let free = [header[0], header[1], 1, 2, 3, 4, 5];
        let fields = fields(&free, 0).unwrap();
        assert_eq!((fields.elapsed, fields.difference, fields.size, fields.next), (0x0201, 0x05_0403, 0, 7));
        // What is cut is damage, not the end.
        assert_eq!((super::fields(&free[..6], 0).is_none(), elapsed(&free[..6], 0)), (true, Some(0x0201)));
        assert_eq!(elapsed(&[0, 0, 0, 0], 0), None);
    }
}
