//! The memory of an object after the loader is done with it: the file itself, with copies of the pages that relocations
//! touch.

use crate::bytes::Format;
use crate::file::{Elf, Reason};
use crate::tables::{Batch, Relocation, Tables};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

const PAGE: u64 = 4096;

/// Memory of an object that is loaded at a base.
pub(crate) struct Image<'a> {
    loads: Vec<Load<'a>>,
    /// Pages that differ from the file, by address (before the base is added).
    pages: Pages,
    format: Format,
    base: u64,
    /// Addresses of relocations that have no place in the image; the loader would write there anyway.
    pub(crate) misplaced: Vec<u64>,
    /// How many words the base was added to.
    relative: u64,
    /// Whether all words that relocations wrote are aligned, have memory, and were written once.
    once: bool,
    /// How many pages may be copied.
    room: usize,
}

struct Load<'a> {
    at: u64,
    bytes: &'a [u8],
    end: u64,
}

#[derive(Default)]
struct Pages {
    index: BTreeMap<u64, usize>,
    pages: Vec<Page>,
    /// The page that was written last: neighbours in the table are neighbours in memory.
    open: Open,
}

/// A copied page, and which of its words relocations wrote: a bit for each.
struct Page {
    bytes: [u8; PAGE as usize],
    /// Words to which the base was added.
    moving: [u64; 16],
    /// Words that were written otherwise.
    still: [u64; 16],
}

/// What a relocation makes of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    /// The base and a number.
    Moving,
    /// A number that does not depend on the base.
    Still,
}

impl Page {
    /// Notes that a word was written. Whether that was for the first time; a word that is not aligned never counts.
    fn mark(&mut self, start: usize, len: u64, makes: Makes) -> bool {
        let index = start >> len.trailing_zeros();
        let (group, bit) = (index / 64, 1 << (index % 64));
        let first = start as u64 & (len - 1) == 0 && (self.moving[group] | self.still[group]) & bit == 0;
        match makes {
            Makes::Moving => self.moving[group] |= bit,
            Makes::Still => self.still[group] |= bit,
        }
        first
    }
}

/// A copied page, and where words lie in it that are memory of one segment.
#[derive(Clone, Copy, Default)]
struct Open {
    slot: usize,
    /// The first such word, and how many addresses from there begin one.
    from: u64,
    starts: u64,
}

/// A stretch of memory.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many zeros.
    Zeros(u64),
    /// So many addresses without memory.
    Nothing(u64),
}

impl Piece<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) | Self::Nothing(len) => *len,
        }
    }
}

/// What becomes of the packed table that the loader does not know: the injected initialiser adds the base to the words
/// that it names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Initialiser<'a> {
    pub(crate) table: &'a [u8],
}

impl<'a> Image<'a> {
    /// Loads a file at a base and relocates it as the loader does: DT_RELR, then DT_REL, DT_RELA and DT_JMPREL, then
    /// the initialiser's table. A symbolic relocation writes a number made of all that it says, so that two images are
    /// equal only where their relocations are, also in their order.
    ///
    /// Errors: the file is damaged so much that an image cannot be made.
    pub(crate) fn relocated(
        elf: &Elf<'a>,
        tables: &Tables<'a>,
        tokens: &[u64],
        base: u64,
        initialiser: Option<Initialiser<'_>>,
    ) -> Result<Self, Reason> {
        let mut loads = Vec::new();
        for load in elf.loads() {
            let bytes = elf.in_file(load.offset, load.file_len).unwrap_or(b"");
            loads.push(Load { at: load.at, bytes, end: load.end() });
        }
        // A file can name more memory than there is; relocations that make sense lie in its bytes, and some in .bss.
        let room = elf.bytes.len() / PAGE as usize + 4096;
        let pages = Pages::default();
        let mut image =
            Self { loads, pages, format: elf.format, base, misplaced: Vec::new(), relative: 0, once: true, room };
        for at in relr_addresses(elf.format, tables.relr) {
            image.add_base(at)?;
        }
        for batch in &tables.batches {
            image.apply(elf, batch, tokens)?;
        }
        if let Some(initialiser) = initialiser {
            for at in relr_addresses(elf.format, initialiser.table) {
                image.add_base(at)?;
            }
        }
        Ok(image)
    }

    fn apply(&mut self, elf: &Elf, batch: &Batch, tokens: &[u64]) -> Result<(), Reason> {
        for (index, relocation) in batch.relocations().enumerate() {
            let Relocation { at, kind, symbol, addend } = relocation;
            if kind == elf.machine.relative || (index as u64) < batch.trusted {
                match addend {
                    Some(addend) => {
                        self.relative += 1;
                        let value = self.base.wrapping_add(addend);
                        self.change(at, Makes::Moving, |_| value)?;
                    }
                    None => self.add_base(at)?,
                }
            } else if kind != elf.machine.none {
                let mut hasher = DefaultHasher::new();
                (kind, addend, tokens.get(symbol as usize).copied().unwrap_or(0)).hash(&mut hasher);
                if kind == elf.machine.irelative {
                    self.base.hash(&mut hasher);
                }
                let token = hasher.finish();
                // What lies there counts too: it is the addend of DT_REL and the way back into a lazy PLT.
                let words = if elf.machine.descriptor == Some(kind) { 2 } else { 1 };
                for word in 0..words {
                    let at = at.wrapping_add(word * self.format.word_len());
                    self.change(at, Makes::Still, |old| old.wrapping_add(token))?;
                }
            }
        }
        Ok(())
    }

    /// Whether what is equal in both images is so at every base: each word that a relocation wrote was written once, no
    /// two overlap, and the same ones hold the base. Then such a word is the base and a number that is the same in
    /// both, and all else does not depend on the base.
    pub(crate) fn depends_as(&self, other: &Self) -> bool {
        self.once && other.once && self.moving().eq(other.moving())
    }

    /// Pages with words that hold the base, and which those are.
    fn moving(&self) -> impl Iterator<Item = (u64, &[u64; 16])> {
        let pages = self.pages.index.iter().map(|(page, slot)| (*page, &self.pages.pages[*slot].moving));
        pages.filter(|(_, words)| **words != [0; 16])
    }

    /// Words to which the base was added.
    pub(crate) fn relative(&self) -> u64 {
        self.relative
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn wrap(&self, value: u64) -> u64 {
        self.format.wrap(value)
    }

    /// The word at an address; `None` where a part of it has no memory.
    pub(crate) fn read(&self, at: u64) -> Option<u64> {
        let len = self.format.word_len();
        let mut raw = [0; 8];
        let mut done = 0;
        while done < len {
            let from = at.checked_add(done)?;
            match self.piece(from, len - done) {
                Piece::Bytes(bytes) => {
                    raw[done as usize..][..bytes.len()].copy_from_slice(bytes);
                    done += bytes.len() as u64;
                }
                Piece::Zeros(zeros) => done += zeros,
                Piece::Nothing(_) => return None,
            }
        }
        self.format.word(&raw, 0)
    }

    fn add_base(&mut self, at: u64) -> Result<(), Reason> {
        self.relative += 1;
        let base = self.base;
        self.change(at, Makes::Moving, |word| word.wrapping_add(base))
    }

    /// Makes another word of the one at an address. One that has no memory is misplaced.
    #[inline]
    fn change(&mut self, at: u64, makes: Makes, other: impl FnOnce(u64) -> u64) -> Result<(), Reason> {
        let format = self.format;
        let Open { slot, from, starts } = self.pages.open;
        if at.wrapping_sub(from) >= starts {
            return self.change_elsewhere(at, makes, other);
        }
        let start = (at % PAGE) as usize;
        let page = &mut self.pages.pages[slot];
        let word = format.word(&page.bytes, start).unwrap_or_default();
        let _ = format.set_word(&mut page.bytes, start, other(word));
        self.once &= page.mark(start, format.word_len(), makes);
        Ok(())
    }

    /// [`Image::change`] of a word that need not lie in the page of the last one, nor in one page.
    fn change_elsewhere(&mut self, at: u64, makes: Makes, other: impl FnOnce(u64) -> u64) -> Result<(), Reason> {
        let len = self.format.word_len() as usize;
        if !self.has_memory(at, len as u64) {
            self.misplaced.push(at);
            self.once = false;
            return Ok(());
        }
        let mut raw = [0; 8];
        let value = other(self.read(at).unwrap_or_default());
        let _ = self.format.set_word(&mut raw, 0, value);
        let start = (at % PAGE) as usize;
        let first = len.min(PAGE as usize - start);
        let page = self.page(at / PAGE)?;
        page.bytes[start..start + first].copy_from_slice(&raw[..first]);
        let once = page.mark(start, len as u64, makes);
        self.once &= once;
        if first < len {
            self.page(at / PAGE + 1)?.bytes[..len - first].copy_from_slice(&raw[first..len]);
        }
        Ok(())
    }

    fn has_memory(&self, at: u64, len: u64) -> bool {
        let Some(end) = at.checked_add(len) else { return false };
        match self.load(at) {
            Some(load) if end <= load.end => true,
            // Two segments that touch: rare, and only then worth a second look.
            Some(load) => self.load(load.end).is_some_and(|next| next.at == load.end && end <= next.end),
            None => false,
        }
    }

    fn load(&self, at: u64) -> Option<&Load<'a>> {
        let next = self.loads.partition_point(|load| load.at <= at);
        self.loads[..next].last().filter(|load| at < load.end)
    }

    /// A copy of a page to write to.
    fn page(&mut self, page: u64) -> Result<&mut Page, Reason> {
        let slot = match self.pages.index.get(&page) {
            Some(slot) => *slot,
            None => {
                if self.pages.pages.len() >= self.room {
                    return Err("its relocations touch more pages than it has".to_owned());
                }
                let copy = self.copy(page);
                self.pages.pages.push(copy);
                self.pages.index.insert(page, self.pages.pages.len() - 1);
                self.pages.pages.len() - 1
            }
        };
        let (start, end) = (page * PAGE, (page * PAGE).saturating_add(PAGE));
        let load = self.loads.get(self.loads.partition_point(|load| load.end <= start)).filter(|load| load.at < end);
        self.pages.open = load.map_or(Open::default(), |load| {
            let (from, end) = (load.at.max(start), load.end.min(end));
            Open { slot, from, starts: (end - from + 1).saturating_sub(self.format.word_len()) }
        });
        Ok(&mut self.pages.pages[slot])
    }

    fn copy(&self, page: u64) -> Page {
        let start = page * PAGE;
        let end = start.saturating_add(PAGE);
        let first = self.loads.partition_point(|load| load.end <= start);
        let whole = self.loads.get(first).and_then(|load| load.bytes.get(start.checked_sub(load.at)? as usize..));
        if let Some(bytes) = whole.and_then(<[u8]>::first_chunk) {
            return Page { bytes: *bytes, moving: [0; 16], still: [0; 16] };
        }
        let mut copy = Page { bytes: [0; PAGE as usize], moving: [0; 16], still: [0; 16] };
        for load in &self.loads[first..] {
            if load.at >= end {
                break;
            }
            let from = load.at.max(start);
            let to = (load.at + load.bytes.len() as u64).min(end);
            if from < to {
                let bytes = &load.bytes[(from - load.at) as usize..(to - load.at) as usize];
                copy.bytes[(from - start) as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        copy
    }

    /// The longest stretch of one sort at an address, at most `limit` (not 0) long.
    pub(crate) fn piece(&self, at: u64, limit: u64) -> Piece<'_> {
        let Some(load) = self.load(at) else {
            let next = self.loads.partition_point(|load| load.at <= at);
            let end = self.loads.get(next).map_or(u64::MAX, |load| load.at);
            return Piece::Nothing(limit.min(end - at).max(1));
        };
        let limit = limit.min(load.end - at);
        let page = at / PAGE;
        if let Some(bytes) = self.copied(page) {
            let start = (at % PAGE) as usize;
            let len = limit.min(PAGE - start as u64) as usize;
            return Piece::Bytes(&bytes[start..start + len]);
        }
        let next = self.pages.index.range(page..).next().map_or(u64::MAX, |(next, _)| next.saturating_mul(PAGE));
        let limit = limit.min(next.saturating_sub(at).max(1));
        let skipped = at - load.at;
        match load.bytes.get(skipped as usize..) {
            Some(bytes) if !bytes.is_empty() => Piece::Bytes(&bytes[..bytes.len().min(limit as usize)]),
            _ => Piece::Zeros(limit),
        }
    }

    fn copied(&self, page: u64) -> Option<&[u8; PAGE as usize]> {
        Some(&self.pages.pages[*self.pages.index.get(&page)?].bytes)
    }

    /// Ranges that have memory, as start and end.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (u64, u64)> {
        self.loads.iter().map(|load| (load.at, load.end))
    }

    /// Start and length of the pages that relocations touch.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pages.index.keys().map(|page| (page * PAGE, PAGE))
    }
}

/// The addresses that RELR words name, in order: an even word is an address, an odd one a bitmap of the words after.
pub(crate) fn relr_addresses(format: Format, table: &[u8]) -> impl Iterator<Item = u64> {
    let len = format.word_len();
    let (mut next, mut bits, mut from) = (0_u64, 0_u64, 0_u64);
    let mut words = table.chunks_exact(len as usize).filter_map(move |raw| format.word(raw, 0));
    std::iter::from_fn(move || {
        loop {
            if bits != 0 {
                let bit = u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                return Some(format.wrap(from.wrapping_add(bit * len)));
            }
            let word = words.next()?;
            if word & 1 == 0 {
                next = word.wrapping_add(len);
                return Some(word);
            }
            bits = word >> 1;
            from = next;
            next = next.wrapping_add((8 * len - 1) * len);
        }
    })
}

/// One number for each symbol that a relocation names: equal for equal name, version, binding and kind.
pub(crate) fn symbol_tokens(tables: &Tables) -> Vec<u64> {
    let token = |index: usize| {
        let symbol = &tables.symbols[index];
        let mut hasher = DefaultHasher::new();
        (tables.name(symbol), symbol.info, symbol.is_defined()).hash(&mut hasher);
        if let Ok((Some(version), hidden)) = tables.version(index) {
            (version.library, version.name, hidden).hash(&mut hasher);
        }
        hasher.finish()
    };
    let mut tokens = vec![None; tables.symbols.len()];
    for relocation in tables.batches.iter().flat_map(Batch::others) {
        let index = relocation.symbol as usize;
        if let Some(known) = tokens.get_mut(index) {
            known.get_or_insert_with(|| token(index));
        }
    }
    tokens.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Class, Order};

    const WIDE: Format = Format { class: Class::Elf64, order: Order::Little };
    const NARROW: Format = Format { class: Class::Elf32, order: Order::Big };

    #[test]
    fn addresses_and_bitmaps() {
        let words = [0x1000_u64, 0b1011, 1 | 1 << 63, 0x2000, 1, 0b11];
        let table: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let after = 0x1008 + 63 * 8;
        let found: Vec<u64> = relr_addresses(WIDE, &table).collect();
        assert_eq!(found, [0x1000, 0x1008, 0x1018, after + 62 * 8, 0x2000, 0x2008 + 63 * 8]);
    }

    #[test]
    fn a_word_is_marked_once_and_one_that_is_not_aligned_never() {
        for (len, last) in [(8, 4088), (4, 4092)] {
            let mut page = Page { bytes: [0; PAGE as usize], moving: [0; 16], still: [0; 16] };
            assert!(page.mark(0, len, Makes::Moving) && page.mark(last, len, Makes::Still));
            assert!(!page.mark(0, len, Makes::Still) && !page.mark(last, len, Makes::Still));
            assert!(!page.mark(2, len, Makes::Moving) && !page.mark(last + 1, len, Makes::Moving));
            assert!(page.mark(16, len, Makes::Moving));
            let marks = |words: &[u64; 16]| words.iter().map(|group| group.count_ones()).sum::<u32>();
            assert!(marks(&page.moving) >= 2 && marks(&page.still) == 2, "{len}");
        }
    }

    #[test]
    fn narrow_words() {
        let table: Vec<u8> = [0x1000_u32, 0x8000_0001, 3].iter().flat_map(|word| word.to_be_bytes()).collect();
        let found: Vec<u64> = relr_addresses(NARROW, &table).collect();
        assert_eq!(found, [0x1000, 0x1004 + 30 * 4, 0x1004 + 31 * 4]);
    }
}
