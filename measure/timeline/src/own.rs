//! A file of events as a program left it, or is writing it: `docs/events-format.md`. Pure; damage is named, and what is
//! whole is kept.

pub mod clock;
pub mod control;
pub mod now;
pub mod write;

use crate::trace::{self, Event, Lost, Phase, Process, Thread, Trace, Type};
use clock::{Pair, Ticks};
use model::{Error, Exit, Result};
use std::collections::BTreeMap;

pub const MAGIC: &[u8; 8] = b"thawevt\x01";
const VERSION: u32 = 1;
const HEADER: usize = 4096;
const CHUNK_HEAD: usize = 64;
const SLOT: usize = 16;
/// Times that are not in the counter's unit but in nanoseconds.
const CLOCK_MONOTONIC: u32 = 2;
/// A type that did not fit into the tables.
const NO_TYPE: u16 = 0xffff;

fn phase(byte: u8) -> Option<Phase> {
    Some(match byte {
        1 => Phase::Name,
        2 => Phase::Mark,
        3 => Phase::Wait,
        4 => Phase::Exec,
        5 => Phase::Done,
        6 => Phase::Link,
        7 => Phase::Arg,
        8 => Phase::Free,
        _ => return None,
    })
}

const THREAD: u8 = 9;
const SHARED: u8 = 0x40;
const TEXT: u8 = 0xf0;
const MORE: u8 = 0xf1;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

fn pair_at(bytes: &[u8], at: usize) -> Pair {
    Pair {
        ticks: u64_at(bytes, at),
        monotonic_ns: u64_at(bytes, at + 8),
        boot_offset_ns: u64_at(bytes, at + 16).cast_signed(),
    }
}

/// A text up to its first zero.
fn text_at(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads a file of events. `now`: both clocks of this machine on boot `now.0`, where it can be asked; that is the best
/// second moment for the rate of a program that was killed.
///
/// # Errors
/// It is no such file, or of another version.
pub fn parse(bytes: &[u8], now: Option<(&str, Pair)>) -> Result<Trace> {
    let wrong = |what: String| Error::new(Exit::Data, "cannot read events", what);
    if bytes.get(..8) != Some(MAGIC) {
        return Err(wrong("they are not a file of events, or its program ended before it was one".into()));
    }
    let (version, header, chunk_size) = (u32_at(bytes, 8), u32_at(bytes, 12) as usize, u32_at(bytes, 20) as usize);
    if version != VERSION {
        return Err(wrong(format!("version {version}; this thaw knows version {VERSION}")));
    }
    let meta_size = u32_at(bytes, 28) as usize;
    if header != HEADER || bytes.len() < HEADER || !(4096..=1 << 24).contains(&chunk_size) || meta_size > 1 << 28 {
        return Err(wrong("the header is damaged".into()));
    }
    let mut damage = Vec::new();
    let (types, mut names) = tables(bytes, meta_size, &mut damage);
    let first = HEADER + meta_size;
    let mut chunks: Vec<&[u8]> = bytes.get(first..).unwrap_or_default().chunks_exact(chunk_size).collect();
    chunks.retain(|chunk| u32_at(chunk, 0) != 0 && u64_at(chunk, 8) != 0);
    chunks.sort_by_key(|chunk| u64_at(chunk, 8));

    let boot = text_at(&bytes[96..128]);
    let mut pairs = vec![pair_at(bytes, 48), pair_at(bytes, 72)];
    pairs.extend(chunks.iter().map(|chunk| pair_at(chunk, 16)));
    pairs.extend(now.filter(|(of, _)| *of == boot).map(|(_, pair)| pair));
    let clock = Ticks::new(pairs);
    let is_plain = u32_at(bytes, 40) == CLOCK_MONOTONIC;
    let time = |ticks: u64| if is_plain { ticks } else { clock.nanoseconds(ticks) };

    let mut read = Records { threads: Vec::new(), places: BTreeMap::new(), events: Vec::new(), damage };
    for chunk in &chunks {
        read.chunk(chunk, &time);
    }
    let Records { mut threads, mut events, damage, .. } = read;
    threads.iter_mut().for_each(|thread| thread.name = names.remove(&thread.tid).unwrap_or_default());
    // Stable: what one thread wrote at one time stays in its order.
    events.sort_by_key(|event| event.at_ns);
    let clock = trace::Clock {
        is_monotonic: is_plain || clock.is_known(),
        boot,
        is_calibrated: is_plain || clock.is_known(),
        realtime_ns: u64_at(bytes, 32),
        origin_ns: pair_at(bytes, 48).monotonic_ns,
        step_ns: 1,
        is_ordered: false,
    };
    let process =
        Process { pid: u32_at(bytes, 16), program: text_at(&bytes[1536..HEADER]), filter: text_at(&bytes[512..1536]) };
    let lost = Lost {
        events: u64_at(bytes, 256),
        overwritten: u64_at(bytes, 264),
        types: u64_at(bytes, 272),
        texts_cut: u64_at(bytes, 280),
    };
    let processes = vec![process];
    Ok(Trace { clock, processes, threads, types, events, lost, damage, ..Trace::default() })
}

/// Types and names of threads.
fn tables(bytes: &[u8], size: usize, damage: &mut Vec<String>) -> (BTreeMap<u32, Type>, BTreeMap<u32, String>) {
    let (mut types, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let table = bytes.get(HEADER..(HEADER + size).min(bytes.len())).unwrap_or_default();
    let used = usize::try_from(u64_at(bytes, 320)).unwrap_or(usize::MAX).min(table.len());
    let mut at = 0;
    while at + 16 <= used {
        let length = u32_at(table, at) as usize;
        if length == 0 {
            // Reserved, and its program was killed before it was written; how long it would be is not known.
            damage.push(format!("the tables end at byte {at} of {used}"));
            break;
        }
        if length < 24 || at + length > used {
            damage.push(format!("entry of {length} bytes at byte {at} of the tables"));
            break;
        }
        let entry = &table[at..at + length];
        let first = text_at(&entry[16..]);
        let second = text_at(entry.get(16 + first.len() + 1..).unwrap_or_default());
        match (u32_at(entry, 4), u32_at(entry, 8)) {
            (1, id) if id < u32::from(NO_TYPE) => {
                types.insert(id, Type { name: first, file: second, line: u32_at(entry, 12) });
            }
            (2, tid) => {
                threads.insert(tid, first);
            }
            (kind, _) => damage.push(format!("entry of kind {kind} at byte {at} of the tables")),
        }
        at += length;
    }
    (types, threads)
}

/// What was read of the chunks so far.
struct Records {
    threads: Vec<Thread>,
    places: BTreeMap<u32, u32>,
    events: Vec<Event>,
    damage: Vec<String>,
}

impl Records {
    fn thread(&mut self, tid: u32) -> u32 {
        *self.places.entry(tid).or_insert_with(|| {
            self.threads.push(Thread { tid, name: String::new(), process: 0 });
            self.threads.len() as u32 - 1
        })
    }

    /// The records of a chunk up to its first one that is not whole.
    fn chunk(&mut self, chunk: &[u8], time: &impl Fn(u64) -> u64) {
        let (mut tid, sequence) = (u32_at(chunk, 4), u64_at(chunk, 8));
        // The low 56 bits are in the record; the chunk's own time has all.
        let base = u64_at(chunk, 16);
        let full = |low: u64| {
            let wrapped = if low < (base & (u64::MAX >> 8)) / 2 { 1 << 56 } else { 0 };
            (base & !(u64::MAX >> 8)).wrapping_add(low).wrapping_add(wrapped)
        };
        let mut at = CHUNK_HEAD;
        while at + SLOT <= chunk.len() {
            let (head, body) = (u64_at(chunk, at), u64_at(chunk, at + 8));
            if head == 0 {
                break;
            }
            let (byte, object, type_id) = ((head & 0xff) as u8, body >> 16, (body & 0xffff) as u32);
            at += SLOT;
            if byte == THREAD {
                tid = object as u32;
                continue;
            }
            let Some(phase) = phase(byte & !SHARED) else {
                self.damage.push(format!("record of kind {byte:#x} in chunk {sequence}"));
                break;
            };
            let (mut other, mut text) = (None, None);
            match phase {
                Phase::Link if (u64_at(chunk, at) & 0xff) as u8 == MORE => {
                    other = Some(u64_at(chunk, at + 8) >> 16);
                    at += SLOT;
                }
                Phase::Name | Phase::Arg => {
                    let mut said = Vec::new();
                    while at + SLOT <= chunk.len() && chunk[at] == TEXT {
                        said.extend_from_slice(&chunk[at + 1..at + SLOT]);
                        at += SLOT;
                    }
                    text = Some(text_at(&said).into());
                }
                _ => {}
            }
            let type_id = (type_id != 0).then_some(type_id);
            let is_shared = byte & SHARED != 0;
            let (at_ns, thread) = (time(full(head >> 8)), self.thread(tid));
            self.events.push(Event { at_ns, thread, phase, is_shared, object, type_id, other, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(chunks: &[&[(u64, u64)]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + 4096];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, word) in [(8, VERSION), (12, 4096), (16, 77), (20, 4096), (28, 4096), (40, 2)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (number, records) in chunks.iter().enumerate() {
            let mut chunk = vec![0; 4096];
            chunk[0] = 1;
            chunk[4] = 5;
            chunk[8] = number as u8 + 1;
            for (index, (head, body)) in records.iter().enumerate() {
                let at = CHUNK_HEAD + SLOT * index;
                chunk[at..at + 8].copy_from_slice(&head.to_le_bytes());
                chunk[at + 8..at + 16].copy_from_slice(&body.to_le_bytes());
            }
            bytes.extend(chunk);
        }
        bytes
    }

    fn text(bytes: &[u8; 15]) -> (u64, u64) {
        let mut slot = [TEXT; 16];
        slot[1..].copy_from_slice(bytes);
        (u64_at(&slot, 0), u64_at(&slot, 8))
    }

    #[test]
    fn records_are_read_up_to_the_first_that_is_not_whole() {
        let name = [(10 << 8 | 1, 0xab_0000), text(b"fifteen letters"), text(b"more\0\0\0\0\0\0\0\0\0\0\0")];
        let rest = [(20 << 8 | 3, 0xab_0001), (30 << 8 | 6, 0xab_0001), (u64::from(MORE), 0xcd_0000)];
        let gone = [(40 << 8 | u64::from(THREAD), 9 << 16), (50 << 8 | 5, 0xab_0001), (0, 1), (60 << 8 | 2, 1)];
        let all: Vec<_> = name.into_iter().chain(rest).chain(gone).collect();
        let trace = parse(&file(&[&all]), None).unwrap();
        let seen: Vec<_> = trace
            .events
            .iter()
            .map(|event| {
                (
                    event.at_ns,
                    trace.threads[event.thread as usize].tid,
                    event.phase,
                    event.object,
                    event.other,
                    event.text.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (10, 5, Phase::Name, 0xab, None, Some("fifteen lettersmore")),
                (20, 5, Phase::Wait, 0xab, None, None),
                (30, 5, Phase::Link, 0xab, Some(0xcd), None),
                (50, 9, Phase::Done, 0xab, None, None),
            ]
        );
        assert_eq!((trace.processes[0].pid, trace.damage.len()), (77, 0));
    }

    #[test]
    fn chunks_come_in_the_order_of_time() {
        let trace = parse(&file(&[&[(30 << 8 | 2, 1 << 16)], &[(20 << 8 | 2, 2 << 16)]]), None).unwrap();
        assert_eq!(trace.events.iter().map(|event| event.object).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn what_is_none_says_so() {
        assert!(parse(b"", None).unwrap_err().to_string().contains("not a file of events"));
        let mut newer = file(&[]);
        newer[8] = 9;
        assert!(parse(&newer, None).unwrap_err().to_string().contains("version 9"));
        let mut damaged = file(&[&[(1 << 8 | 0x3f, 0)]]);
        assert_eq!(parse(&damaged, None).unwrap().damage, ["record of kind 0x3f in chunk 1"]);
        damaged[20..24].copy_from_slice(&7_u32.to_le_bytes());
        assert!(parse(&damaged, None).unwrap_err().to_string().contains("header is damaged"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(noise in proptest::collection::vec(any::<u8>(), 0..9000), at in 0_usize..12_000) {
            let mut bytes = file(&[&[(10 << 8 | 1, 0xab_0000), text(b"fifteen letters")]]);
            for (place, byte) in bytes.iter_mut().skip(at.max(8)).zip(&noise) {
                *place ^= byte;
            }
            for bytes in [&bytes[..], &bytes[..at.min(bytes.len())]] {
                if let Ok(trace) = parse(bytes, None) {
                    crate::report::report(&trace, 3);
                }
            }
        }
    }
}
