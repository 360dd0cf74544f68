//! The records that the kernel writes into a ring, parsed: a pure function on bytes.
//!
//! ```text
//! +---------+------+------+------ - - --+----------------------------------------------+
//! | type u32| misc | size |    body     | pid tid  | time u64 | cpu, 0 | identifier u64 |  all but samples
//! +---------+------+------+------ - - --+----------------------------------------------+
//! | type u32| misc | size | identifier u64 | pid tid | time u64 | cpu, 0 | len u32, raw |  samples
//! +---------+------+------+----------------------------------------------------------- +
//! ```
//!
//! This is so because all events are opened with [`SAMPLE_TYPE`] and `sample_id_all`.

pub(super) mod stack;

use super::sys;

/// What each record says beside its body.
pub(super) const SAMPLE_TYPE: u64 =
    sys::SAMPLE_IDENTIFIER | sys::SAMPLE_TID | sys::SAMPLE_TIME | sys::SAMPLE_CPU | sys::SAMPLE_RAW;

const HEADER: usize = 8;
/// Length of the part that follows the body of a record that is not a sample.
const TRAILER: usize = 32;
const MISC_COMM_EXEC: u16 = 1 << 13;

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;

/// Who, when and where: common to all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// When, nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The number of the process that it happened in.
    pub pid: u32,
    /// The number of the thread that it happened in.
    pub tid: u32,
    /// The number of the CPU that it happened on.
    pub cpu: u32,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// In which thread, when, and on which CPU it happened.
    pub stamp: Stamp,
    /// What happened.
    pub body: Body<'a>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A tracepoint was hit; read `raw` with [`crate::tracefs::Format`].
    Sample {
        /// Id of the tracepoint (its `common_type`).
        point: u16,
        /// The fields of the tracepoint, as its format lays them out.
        raw: &'a [u8],
    },
    /// A file was mapped (or anonymous memory).
    Mmap2 {
        /// The first address that is mapped.
        address: u64,
        /// How much is mapped, bytes.
        len: u64,
        /// From where in the file, bytes.
        offset: u64,
        /// Device, packed by `makedev`.
        dev: u64,
        /// Inode number; 0: no file.
        ino: u64,
        /// What may be done with it: PROT_* bits of mmap(2).
        prot: u32,
        /// How it is mapped: MAP_* bits of mmap(2).
        flags: u32,
        /// Path as the process sees it.
        path: &'a [u8],
    },
    /// A thread got a name.
    Comm {
        /// The number of the process that is called so.
        pid: u32,
        /// The number of the thread that is called so.
        tid: u32,
        /// The new name, at most 15 bytes.
        comm: &'a [u8],
        /// Whether it began another program, which is where the name comes from.
        exec: bool,
    },
    /// A process or thread began.
    Fork {
        /// Its process (the same as `parent` for a thread).
        pid: u32,
        /// The number of the new thread.
        tid: u32,
        /// The process that made it.
        parent: u32,
        /// The thread of that which did.
        parent_tid: u32,
    },
    /// A thread ended; with the last one, its process.
    Exit {
        /// The number of its process.
        pid: u32,
        /// The number of the thread.
        tid: u32,
    },
    /// RecordReader were lost here (already counted in [`super::Log::lost`]).
    Lost {
        /// How many records the kernel had no room for.
        count: u64,
    },
    /// Anything else, by its type number.
    Other(u32),
}

/// Bytes that are read from front to back.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
    /// Up to the first NUL.
    fn text(&self) -> &'a [u8] {
        &self.0[..self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len())]
    }
}

/// Reads records one after the other; ends at the end, or at the first that makes no sense.
#[derive(Clone, Debug)]
pub struct RecordReader<'a> {
    rest: &'a [u8],
}

/// The records in what a ring held; never panics.
pub fn parse(bytes: &[u8]) -> RecordReader<'_> {
    RecordReader { rest: bytes }
}

impl RecordReader<'_> {
    /// Bytes that are not read yet; after the last record, those that make no sense.
    pub fn unread(&self) -> usize {
        self.rest.len()
    }

    /// Steps over all records without looking into them; returns what [`RecordReader::unread`] would say at the end.
    pub(super) fn skip_all(mut self) -> usize {
        while let Some((record, rest)) = split(self.rest) {
            debug_assert!(!record.is_empty());
            self.rest = rest;
        }
        self.rest.len()
    }
}

/// The first record and what is behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    if size < HEADER {
        return None;
    }
    bytes.split_at_checked(size)
}

impl<'a> Iterator for RecordReader<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (bytes, rest) = split(self.rest)?;
        let record = record(bytes)?;
        self.rest = rest;
        Some(record)
    }
}

fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let mut header = Front(bytes);
    let (kind, misc, _size) = (header.u32()?, header.u16()?, header.u16()?);
    let mut body = header;
    if kind == SAMPLE {
        let _identifier = body.u64()?;
        let (pid, tid, time_ns, cpu, _) = (body.u32()?, body.u32()?, body.u64()?, body.u32()?, body.u32()?);
        let len = body.u32()? as usize;
        let raw = body.take(len)?;
        let point = Front(raw).u16()?;
        return Some(Record { stamp: Stamp { time_ns, pid, tid, cpu }, body: Body::Sample { point, raw } });
    }
    let (front, trailer) = body.0.split_at_checked(body.0.len().checked_sub(TRAILER)?)?;
    let mut trailer = Front(trailer);
    let (pid, tid, time_ns, cpu) = (trailer.u32()?, trailer.u32()?, trailer.u64()?, trailer.u32()?);
    let body = other(kind, misc, Front(front))?;
    Some(Record { stamp: Stamp { time_ns, pid, tid, cpu }, body })
}

fn other(kind: u32, misc: u16, mut body: Front<'_>) -> Option<Body<'_>> {
    Some(match kind {
        LOST => {
            let _identifier = body.u64()?;
            Body::Lost { count: body.u64()? }
        }
        LOST_SAMPLES => Body::Lost { count: body.u64()? },
        COMM => {
            let (pid, tid) = (body.u32()?, body.u32()?);
            Body::Comm { pid, tid, comm: body.text(), exec: misc & MISC_COMM_EXEC != 0 }
        }
        FORK | EXIT => {
            let (pid, parent, tid, parent_tid) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
            if kind == FORK { Body::Fork { pid, tid, parent, parent_tid } } else { Body::Exit { pid, tid } }
        }
        MMAP2 => {
            let (_pid, _tid) = (body.u32()?, body.u32()?);
            let (address, len, offset) = (body.u64()?, body.u64()?, body.u64()?);
            let dev = rustix::fs::makedev(body.u32()?, body.u32()?);
            let (ino, _generation, prot, flags) = (body.u64()?, body.u64()?, body.u32()?, body.u32()?);
            Body::Mmap2 { address, len, offset, dev, ino, prot, flags, path: body.text() }
        }
        _ => Body::Other(kind),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { time_ns: 123_456_789, pid: 7, tid: 8, cpu: 1 };

    /// A record as the kernel writes it.
    fn bytes(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let who = [&STAMP.pid.to_ne_bytes()[..], &STAMP.tid.to_ne_bytes(), &STAMP.time_ns.to_ne_bytes()].concat();
        let cpu = [STAMP.cpu.to_ne_bytes(), [0; 4]].concat();
        let id = 99u64.to_ne_bytes();
        let mut body = body.to_vec();
        let inner = if kind == SAMPLE {
            let mut raw = (body.len() as u32).to_ne_bytes().to_vec();
            raw.append(&mut body);
            raw.resize(raw.len().next_multiple_of(8), 0);
            [&id[..], &who, &cpu, &raw].concat()
        } else {
            body.resize(body.len().next_multiple_of(8), 0);
            [&body[..], &who, &cpu, &id].concat()
        };
        let size = (HEADER + inner.len()) as u16;
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), &inner].concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn mmap(path: &[u8]) -> Vec<u8> {
        let longs = [0x7f00_0000u64, 8192, 4096].iter().flat_map(|long| long.to_ne_bytes()).collect::<Vec<_>>();
        let ino = [1234u64, 5].iter().flat_map(|long| long.to_ne_bytes()).collect::<Vec<_>>();
        [&words(&[7, 8])[..], &longs, &words(&[254, 1]), &ino, &words(&[5, 2]), path, b"\0"].concat()
    }

    #[test]
    fn each_kind_is_understood() {
        let raw = [&600u16.to_ne_bytes()[..], b"fields"].concat();
        let all = [
            bytes(SAMPLE, 0, &raw),
            bytes(MMAP2, 0, &mmap(b"/usr/lib/libxul.so")),
            bytes(COMM, MISC_COMM_EXEC, &[&words(&[7, 8])[..], b"firefox\0"].concat()),
            bytes(COMM, 0, &[&words(&[7, 9])[..], b"Compositor\0"].concat()),
            bytes(FORK, 0, &words(&[20, 7, 21, 8, 0, 0])),
            bytes(EXIT, 0, &words(&[20, 7, 21, 8, 0, 0])),
            bytes(LOST, 0, &[99u64.to_ne_bytes(), 17u64.to_ne_bytes()].concat()),
            bytes(LOST_SAMPLES, 0, &3u64.to_ne_bytes()),
            bytes(5, 0, &[0; 24]),
        ]
        .concat();
        let mut records = parse(&all);
        let bodies: Vec<_> =
            records.by_ref().inspect(|record| assert_eq!(record.stamp, STAMP)).map(|record| record.body).collect();
        assert_eq!(
            bodies,
            [
                Body::Sample { point: 600, raw: &raw },
                Body::Mmap2 {
                    address: 0x7f00_0000,
                    len: 8192,
                    offset: 4096,
                    dev: rustix::fs::makedev(254, 1),
                    ino: 1234,
                    prot: 5,
                    flags: 2,
                    path: b"/usr/lib/libxul.so"
                },
                Body::Comm { pid: 7, tid: 8, comm: b"firefox", exec: true },
                Body::Comm { pid: 7, tid: 9, comm: b"Compositor", exec: false },
                Body::Fork { pid: 20, tid: 21, parent: 7, parent_tid: 8 },
                Body::Exit { pid: 20, tid: 21 },
                Body::Lost { count: 17 },
                Body::Lost { count: 3 },
                Body::Other(5),
            ]
        );
        assert_eq!((records.unread(), parse(&all).skip_all()), (0, 0));
    }

    #[test]
    fn a_torn_record_ends_the_log_and_is_told() {
        let whole = bytes(COMM, 0, &[&words(&[7, 9])[..], b"a\0"].concat());
        let mut torn = [&whole[..], &whole[..20]].concat();
        let mut records = parse(&torn);
        assert_eq!(records.by_ref().count(), 1);
        assert_eq!((records.unread(), parse(&torn).skip_all()), (20, 20));
        // A record that says it is empty must not be read for ever.
        torn[whole.len() + 6..whole.len() + 8].copy_from_slice(&0u16.to_ne_bytes());
        assert_eq!(parse(&torn).count(), 1);
    }

    proptest! {
        #[test]
        fn samples_of_all_sizes_come_back(
            raws in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 2..200), 0..30),
        ) {
            let log: Vec<u8> = raws.iter().flat_map(|raw| bytes(SAMPLE, 0, raw)).collect();
            let back: Vec<Vec<u8>> = parse(&log)
                .map(|record| match record.body {
                    Body::Sample { raw, .. } => raw.to_vec(),
                    other => panic!("{other:?}"),
                })
                .collect();
            prop_assert_eq!(back, raws);
            prop_assert_eq!(parse(&log).skip_all(), 0);
        }

        #[test]
        fn garbage_does_not_panic(
            garbage in proptest::collection::vec(any::<u8>(), 0..500),
            kind in 0u32..16,
            size in 0u16..200,
        ) {
            parse(&garbage).for_each(drop);
            let mut plausible = garbage;
            if plausible.len() >= 8 {
                plausible[..4].copy_from_slice(&kind.to_ne_bytes());
                plausible[6..8].copy_from_slice(&size.to_ne_bytes());
                let mut records = parse(&plausible);
                records.by_ref().for_each(drop);
                prop_assert!(records.unread() <= plausible.len());
                parse(&plausible).skip_all();
            }
        }

        #[test]
        fn damaged_records_do_not_panic(
            at in 0usize..100,
            byte in any::<u8>(),
            path in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let fork = bytes(FORK, 0, &words(&[1; 6]));
            let mut log = [bytes(MMAP2, 0, &mmap(&path)), bytes(SAMPLE, 0, &path), fork].concat();
            let at = at % log.len();
            log[at] = byte;
            parse(&log).for_each(drop);
        }
    }
}
