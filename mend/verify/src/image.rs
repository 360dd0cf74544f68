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
    /// Addresses of words to which the base was added, and of words that relocations wrote otherwise.
    moving: Vec<u64>,
    still: Vec<u64>,
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
    pages: Vec<Box<[u8; PAGE as usize]>>,
    /// The page that was written last: neighbours in the table are neighbours in memory.
    last: Option<Open>,
}

/// A copied page, and what of it is memory of one segment.
#[derive(Clone, Copy)]
struct Open {
    page: u64,
    slot: usize,
    from: u64,
    end: u64,
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
        let mut image = Self {
            loads,
            pages,
            format: elf.format,
            base,
            misplaced: Vec::new(),
            moving: Vec::new(),
            still: Vec::new(),
            room,
        };
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
                        self.moving.push(at);
                        self.write(at, self.base.wrapping_add(addend))?;
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
                    match self.read(at) {
                        Some(old) => {
                            self.still.push(at);
                            self.write(at, old.wrapping_add(token))?;
                        }
                        None => self.misplaced.push(at),
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether what is equal in both images is so at every base: each word that a relocation wrote was written once, no
    /// two overlap, and the same ones hold the base. Then such a word is the base and a number that is the same in
    /// both, and all else does not depend on the base.
    pub(crate) fn depends_as(&mut self, other: &mut Self) -> bool {
        self.is_written_once() && other.is_written_once() && self.moving == other.moving
    }

    fn is_written_once(&mut self) -> bool {
        let len = self.format.word_len();
        let are_apart = |one: &u64, next: &u64| next.checked_sub(*one).is_some_and(|gap| gap >= len);
        let (moving, still) = (&mut self.moving, &mut self.still);
        for words in [&mut *moving, &mut *still] {
            words.sort_unstable();
            if !words.is_sorted_by(are_apart) {
                return false;
            }
        }
        still.iter().all(|at| {
            let next = moving.partition_point(|moving| moving < at);
            let before = next.checked_sub(1).map(|index| &moving[index]);
            before.is_none_or(|one| are_apart(one, at)) && moving.get(next).is_none_or(|one| are_apart(at, one))
        })
    }

    /// Words to which the base was added.
    pub(crate) fn relative(&self) -> u64 {
        self.moving.len() as u64
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
        if let Some((slot, start)) = self.last_written(at, len) {
            return self.format.word(&self.pages.pages[slot][start..start + len as usize], 0);
        }
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
        self.moving.push(at);
        match self.read(at) {
            Some(word) => self.write(at, word.wrapping_add(self.base)),
            None => {
                self.misplaced.push(at);
                Ok(())
            }
        }
    }

    fn write(&mut self, at: u64, value: u64) -> Result<(), Reason> {
        let len = self.format.word_len();
        let raw = self.format.word_bytes(value);
        let raw = &raw[..len as usize];
        if let Some((slot, start)) = self.last_written(at, len) {
            self.pages.pages[slot][start..start + raw.len()].copy_from_slice(raw);
            return Ok(());
        }
        if !self.has_memory(at, len) {
            self.misplaced.push(at);
            return Ok(());
        }
        let start = (at % PAGE) as usize;
        let first = raw.len().min(PAGE as usize - start);
        self.page(at / PAGE)?[start..start + first].copy_from_slice(&raw[..first]);
        if first < raw.len() {
            let rest = &raw[first..];
            self.page(at / PAGE + 1)?[..rest.len()].copy_from_slice(rest);
        }
        Ok(())
    }

    /// The copied page, and the place in it, if a word lies where the last one was written.
    fn last_written(&self, at: u64, len: u64) -> Option<(usize, usize)> {
        let open = self.pages.last.filter(|open| open.from <= at && at <= open.end && len <= open.end - at)?;
        Some((open.slot, (at - open.page * PAGE) as usize))
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
    fn page(&mut self, page: u64) -> Result<&mut [u8; PAGE as usize], Reason> {
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
        self.pages.last = load.map(|load| Open { page, slot, from: load.at.max(start), end: load.end.min(end) });
        Ok(&mut self.pages.pages[slot])
    }

    fn copy(&self, page: u64) -> Box<[u8; PAGE as usize]> {
        let mut copy = Box::new([0; PAGE as usize]);
        let start = page * PAGE;
        let end = start.saturating_add(PAGE);
        let first = self.loads.partition_point(|load| load.end <= start);
        for load in &self.loads[first..] {
            if load.at >= end {
                break;
            }
            let from = load.at.max(start);
            let to = (load.at + load.bytes.len() as u64).min(end);
            if from < to {
                let bytes = &load.bytes[(from - load.at) as usize..(to - load.at) as usize];
                copy[(from - start) as usize..][..bytes.len()].copy_from_slice(bytes);
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
        Some(&self.pages.pages[*self.pages.index.get(&page)?])
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
        (symbol.name, symbol.info, symbol.is_defined()).hash(&mut hasher);
        if let Ok((Some(version), hidden)) = tables.version(index) {
            (version.library, version.name, hidden).hash(&mut hasher);
        }
        hasher.finish()
    };
    let mut tokens = vec![None; tables.symbols.len()];
    for relocation in tables.batches.iter().flat_map(Batch::relocations) {
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
    fn narrow_words() {
        let table: Vec<u8> = [0x1000_u32, 0x8000_0001, 3].iter().flat_map(|word| word.to_be_bytes()).collect();
        let found: Vec<u64> = relr_addresses(NARROW, &table).collect();
        assert_eq!(found, [0x1000, 0x1004 + 30 * 4, 0x1004 + 31 * 4]);
    }
}
