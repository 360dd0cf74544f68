//! Pages of a trace buffer, decoded: what `per_cpu/cpuN/trace_pipe_raw` hands out.
//!
//! ```text
//! 0          8               16
//! +----------+---------------+-------------------------------------------+------ - -
//! | time, ns | commit: len+F | events, len bytes                         | garbage
//! +----------+---------------+-------------------------------------------+------ - -
//! event: 5 bits type_len, 27 bits time since the event before, then by type_len
//!   0       a word with 4 + the length, data           1..=28  4 * type_len bytes of data
//!   29      padding: to the end of the page if the time is 0, else a word with the length
//!   30      a word: the upper bits of a long time      31      a word: the upper bits of an absolute time
//! F: bit 31: events were lost before this page; bit 30: their number follows the events
//! ```
//!
//! The places of the two header fields and the size of the page are read from `events/header_page`.

/// Where the parts of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    commit_offset: usize,
    commit_size: usize,
    data_offset: usize,
    /// Size of a whole page.
    pub(super) page_size: usize,
}

impl Layout {
    /// Reads the layout from the text of `events/header_page`; `None`: it tells another one.
    pub(super) fn parse(header_page: &str) -> Option<Self> {
        let field = |name: &str| {
            let line =
                header_page.lines().find(|line| line.split(';').next().is_some_and(|decl| decl.ends_with(name)))?;
            let value = |key: &str| {
                line.split(';').find_map(|part| part.trim().strip_prefix(key)?.trim().parse::<usize>().ok())
            };
            Some((value("offset:")?, value("size:")?))
        };
        let (commit, data) = (field(" commit")?, field(" data")?);
        let fits = (commit.1 == 4 || commit.1 == 8) && commit.0 + commit.1 <= data.0;
        let timestamp = field(" timestamp")? == (0, 8);
        (fits && timestamp).then(|| Self {
            commit_offset: commit.0,
            commit_size: commit.1,
            data_offset: data.0,
            page_size: data.0 + data.1,
        })
    }

    /// The part of a page that holds something, for keeping it.
    pub(super) fn used<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        // Room for the number of lost events behind the data.
        let end = self.data_offset + self.commit(page).map_or(0, |commit| commit.len) + 8;
        &page[..end.min(page.len())]
    }

    fn commit(&self, page: &[u8]) -> Option<Commit> {
        let bytes = page.get(self.commit_offset..self.commit_offset + self.commit_size)?;
        let word = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        Some(Commit {
            len: (word & ((1 << 27) - 1)) as usize,
            missed: word & (1 << 31) != 0,
            stored: word & (1 << 30) != 0,
        })
    }
}

struct Commit {
    len: usize,
    missed: bool,
    stored: bool,
}

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Absolute times have 59 bits; the rest is as in the time before.
const TIME_STAMP_HIGH: u64 = 0xf8 << 56;

/// What is known to be lost before a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// Events that the page itself counts.
    pub(super) events: u64,
    /// `true`: more, of unknown number; or the page made no sense from some place on.
    pub(super) more: bool,
}

/// Calls `event` with the time and the data of each event of a page. Never panics; stops where the page makes no sense.
pub(super) fn decode(page: &[u8], layout: &Layout, mut event: impl FnMut(u64, &[u8])) -> Gap {
    let broken = Gap { events: 0, more: true };
    let (Some(commit), Some(time)) = (layout.commit(page), page.get(..8)) else { return broken };
    let mut time = u64::from_ne_bytes([time[0], time[1], time[2], time[3], time[4], time[5], time[6], time[7]]);
    let Some(data) = page.get(layout.data_offset..layout.data_offset + commit.len) else { return broken };
    let mut gap = Gap { events: 0, more: commit.missed };
    if commit.missed && commit.stored {
        let count = page.get(layout.data_offset + commit.len..).and_then(|rest| rest.get(..8));
        if let Some(count) = count.and_then(|count| count.try_into().ok()) {
            gap = Gap { events: u64::from_ne_bytes(count), more: false };
        }
    }
    let word = |at: usize| Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0;
    while at + 4 <= data.len() {
        let Some(header) = word(at) else { break };
        // The two bit fields share a word; which end comes first depends on the byte order.
        let (kind, delta) = match cfg!(target_endian = "little") {
            true => (header & 0x1f, u64::from(header >> 5)),
            false => (header >> 27, u64::from(header & ((1 << 27) - 1))),
        };
        let (start, len) = match kind {
            PADDING if delta == 0 => return gap,
            TIME_EXTEND | TIME_STAMP => {
                let Some(high) = word(at + 4) else { return broken };
                let long = (u64::from(high) << 27) + delta;
                time = match kind {
                    TIME_EXTEND => time.wrapping_add(long),
                    _ if long & TIME_STAMP_HIGH == 0 => long | (time & TIME_STAMP_HIGH),
                    _ => long,
                };
                at += 8;
                continue;
            }
            PADDING => {
                let Some(len) = word(at + 4) else { return broken };
                time = time.wrapping_add(delta);
                at += 4 + (len as usize).max(4);
                continue;
            }
            0 => match word(at + 4) {
                Some(len) if len >= 4 => (at + 8, (len as usize - 4).next_multiple_of(4)),
                _ => return broken,
            },
            words => (at + 4, words as usize * 4),
        };
        time = time.wrapping_add(delta);
        let Some(payload) = data.get(start..start + len) else { return broken };
        event(time, payload);
        at = start + len;
    }
    gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    fn layout() -> Layout {
        Layout::parse(HEADER).unwrap()
    }

    /// A page from pieces as the kernel writes them.
    fn page(time: u64, flags: u32, pieces: &[Vec<u8>]) -> Vec<u8> {
        let data = pieces.concat();
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((data.len() as u32 | flags).to_ne_bytes());
        page.extend([0; 4]);
        page.extend(data);
        page.resize(4096, 0xee);
        page
    }

    fn header(kind: u32, delta: u32) -> Vec<u8> {
        ((delta << 5) | kind).to_ne_bytes().to_vec()
    }

    fn short(delta: u32, payload: &[u8]) -> Vec<u8> {
        assert!(payload.len().is_multiple_of(4) && (4..=112).contains(&payload.len()));
        [header(payload.len() as u32 / 4, delta), payload.to_vec()].concat()
    }

    fn long(delta: u32, payload: &[u8]) -> Vec<u8> {
        [header(0, delta), (payload.len() as u32 + 4).to_ne_bytes().to_vec(), payload.to_vec()].concat()
    }

    fn extend(kind: u32, long: u64) -> Vec<u8> {
        [header(kind, (long & ((1 << 27) - 1)) as u32), ((long >> 27) as u32).to_ne_bytes().to_vec()].concat()
    }

    fn events(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, Gap) {
        let mut all = Vec::new();
        let gap = decode(page, &layout(), |time, data| all.push((time, data.to_vec())));
        (all, gap)
    }

    #[test]
    fn the_layout_comes_from_the_kernel() {
        assert_eq!(layout(), Layout { commit_offset: 8, commit_size: 8, data_offset: 16, page_size: 4096 });
        let small = HEADER.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
        let small = small.replace("data;\toffset:16;\tsize:4080", "data;\toffset:12;\tsize:4084");
        assert_eq!(
            Layout::parse(&small),
            Some(Layout { commit_offset: 8, commit_size: 4, data_offset: 12, page_size: 4096 })
        );
        assert_eq!(Layout::parse(""), None);
        assert_eq!(Layout::parse(&HEADER.replace("offset:16", "offset:1")), None);
    }

    #[test]
    fn short_long_and_skipped_events_with_their_times() {
        let mut skipped = header(PADDING, 3);
        skipped.extend(12u32.to_ne_bytes());
        skipped.extend([0xaa; 8]);
        let page = page(
            1000,
            0,
            &[
                short(10, b"abcd"),
                long(5, &[7; 120]),
                extend(TIME_EXTEND, 1 << 40),
                short(0, b"efgh"),
                skipped,
                short(2, b"ijkl"),
                extend(TIME_STAMP, 5000),
                short(1, b"mnop"),
                header(PADDING, 0),
                short(0, b"beyond the end! "),
            ],
        );
        let (all, gap) = events(&page);
        let late = 1015 + (1 << 40);
        let times: Vec<_> = all.iter().map(|(time, data)| (*time, data.len())).collect();
        assert_eq!(times, [(1010, 4), (1015, 120), (late, 4), (late + 5, 4), (5001, 4)]);
        assert_eq!(all[4].1, b"mnop");
        assert_eq!(gap, Gap::default());
    }

    #[test]
    fn absolute_times_keep_the_upper_bits() {
        let page = page(0xf8 << 56, 0, &[extend(TIME_STAMP, 77), short(1, b"abcd")]);
        assert_eq!(events(&page).0[0].0, (0xf8 << 56) + 78);
    }

    #[test]
    fn lost_events_are_counted() {
        let mut full = page(0, (1 << 31) | (1 << 30), &[short(1, b"abcd")]);
        full[24..32].copy_from_slice(&42u64.to_ne_bytes());
        let (all, gap) = events(&full);
        assert_eq!((all.len(), gap), (1, Gap { events: 42, more: false }));
        assert_eq!(events(&page(0, 1 << 31, &[])).1, Gap { events: 0, more: true });
    }

    #[test]
    fn only_what_is_used_is_kept() {
        let full = page(9, 0, &[short(1, b"abcd")]);
        let kept = layout().used(&full);
        assert_eq!(kept.len(), 16 + 8 + 8);
        assert_eq!(events(kept), events(&full));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            items in proptest::collection::vec((0u32..1 << 27, 1usize..40, any::<u8>()), 0..20),
        ) {
            let pieces: Vec<_> = items
                .iter()
                .map(|&(delta, words, byte)| match vec![byte; words * 4] {
                    bytes if words <= 28 => short(delta, &bytes),
                    bytes => long(delta, &bytes),
                })
                .collect();
            let (all, gap) = events(&page(7, 0, &pieces));
            let mut time = 7;
            let expected: Vec<_> = items
                .iter()
                .map(|&(delta, words, byte)| {
                    time += u64::from(delta);
                    (time, vec![byte; words * 4])
                })
                .collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(gap, Gap::default());
        }

        #[test]
        fn garbage_does_not_panic(mut page in proptest::collection::vec(any::<u8>(), 0..300), len in 0u32..300) {
            events(&page);
            if page.len() > 12 {
                page[8..12].copy_from_slice(&len.to_ne_bytes());
                events(&page);
                layout().used(&page);
            }
        }
    }
}
