//! The relocation table: which relative relocations can be packed, which stay, and what their words must hold.

use crate::dynamic::Dynamic;
use crate::image::{Image, Machine, Segment, symbol_len, u32_at, word_at, words_of};
use crate::report::{Kept, Reason, Refusal, Why};
use crate::stop::{Stop, refuse};
use elf::relr::Word;
use object::elf::{
    DT_JMPREL, DT_PLTREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELACOUNT, DT_RELASZ, DT_RELCOUNT, DT_RELSZ, DT_SYMTAB,
    DynamicTag, R_386_COPY, R_386_IRELATIVE, R_386_TLS_DESC, R_AARCH64_COPY, R_AARCH64_IRELATIVE, R_AARCH64_TLSDESC,
    R_ARM_COPY, R_ARM_IRELATIVE, R_ARM_TLS_DESC, R_X86_64_COPY, R_X86_64_IRELATIVE, R_X86_64_TLSDESC,
};
use std::ops::Range;

/// Whether entries carry their addend, or the word does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Rel,
    Rela,
}

impl Form {
    pub fn entry_len(self, word: Word) -> u64 {
        match self {
            Self::Rel => 2 * word.bytes(),
            Self::Rela => 3 * word.bytes(),
        }
    }
    /// DT_RELA, DT_RELASZ, DT_RELACOUNT or their likes.
    pub fn tags(self) -> [DynamicTag; 3] {
        match self {
            Self::Rel => [DT_REL, DT_RELSZ, DT_RELCOUNT],
            Self::Rela => [DT_RELA, DT_RELASZ, DT_RELACOUNT],
        }
    }
}

/// Where a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub vaddr: u64,
    pub len: u64,
    pub form: Form,
}

/// The table of all relocations but those of the PLT, and the table of the PLT.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub main: Place,
    pub plt: Option<Place>,
}

impl Places {
    pub fn of(dynamic: &Dynamic, word: Word) -> Result<Self, Stop> {
        let none = || refuse(Reason::NothingToPack, "it has no relocation table");
        let form = match (dynamic.get(DT_RELA), dynamic.get(DT_REL)) {
            (Some(_), _) => Form::Rela,
            (None, Some(_)) => Form::Rel,
            (None, None) => return Err(none()),
        };
        let [table, size, _] = form.tags();
        let (vaddr, mut len) = dynamic.get(table).zip(dynamic.get(size)).ok_or_else(none)?;
        let mut plt =
            dynamic.get(DT_JMPREL).zip(dynamic.get(DT_PLTRELSZ)).filter(|(_, len)| *len != 0).map(|(vaddr, len)| {
                let form = if dynamic.get(DT_PLTREL) == Some(DT_REL.0 as u64) { Form::Rel } else { Form::Rela };
                Place { vaddr, len, form }
            });
        // The main table may include that of the PLT at its end; the loader then leaves it out.
        if let Some(plt) = &mut plt
            && plt.vaddr >= vaddr
            && vaddr.checked_add(len).is_some_and(|end| plt.vaddr < end && plt.vaddr.checked_add(plt.len) == Some(end))
        {
            len -= plt.len;
        }
        let odd = |place: &Place| !place.len.is_multiple_of(place.form.entry_len(word));
        let main = Place { vaddr, len, form };
        if odd(&main) || plt.as_ref().is_some_and(odd) {
            return Err(refuse(Reason::Damaged, "its relocation table ends within an entry"));
        }
        if len == 0 {
            return Err(none());
        }
        Ok(Self { main, plt })
    }
}

/// One entry of a relocation table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    kind: u32,
    symbol: u64,
    /// Zero in [`Form::Rel`].
    addend: u64,
}

fn entries<'a>(image: &Image<'a>, place: &Place) -> Result<impl Iterator<Item = Entry> + use<'a>, Stop> {
    let (word, form) = (image.word, place.form);
    let raw = image.at(place.vaddr, place.len);
    let raw = raw.ok_or_else(|| refuse(Reason::Damaged, "its relocation table is not loaded"))?;
    Ok(raw.chunks_exact(form.entry_len(word) as usize).map(move |chunk| {
        let [at, info, addend] = words_of(chunk, word);
        let (symbol, kind) = match word {
            Word::Four => (info >> 8, info as u8 as u32),
            Word::Eight => (info >> 32, info as u32),
        };
        Entry { at, kind, symbol, addend }
    }))
}

/// Whether the loader calls functions of the object to relocate it (R_*_IRELATIVE).
pub fn has_indirect(image: &Image<'_>, places: &Places) -> Result<bool, Stop> {
    let indirect = match image.machine {
        Machine::X86_64 => R_X86_64_IRELATIVE.0,
        Machine::I386 => R_386_IRELATIVE.0,
        Machine::Aarch64 => R_AARCH64_IRELATIVE.0,
        Machine::Arm => R_ARM_IRELATIVE.0,
    };
    for place in std::iter::once(&places.main).chain(&places.plt) {
        if entries(image, place)?.any(|entry| entry.kind == indirect) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The main table, divided.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// Addresses of relative relocations to pack, rising.
    pub packed: Vec<u64>,
    /// What the word at each of these must hold: the address it means, before the load bias.
    pub addends: Vec<u64>,
    /// The entries that stay, in their order.
    pub rest: Vec<u8>,
    /// How many entries at the front of the rest the loader may take for relative ones unseen (DT_RELACOUNT).
    pub rest_leading: u64,
    /// How many relative entries the table held before.
    pub relative: u64,
    /// Of these, kept.
    pub kept: Vec<Kept>,
    /// The relative relocations that stay point here; with `addends`, these are all pointers that the file holds.
    pub kept_targets: Vec<u64>,
    /// Start and length of everything that the other relocations change, by address.
    pub touched: Vec<(u64, u64)>,
}

impl Partition {
    /// Names the option that would pack more, where that is why.
    pub fn name_copies(&self, stop: Stop) -> Stop {
        let may_be_copied = self.kept.iter().any(|kept| kept.why == Why::MayBeCopied && kept.count > 0);
        match stop {
            Stop::Refused(refusal) if may_be_copied => {
                let hint = "`--no-copies` packs exported data too, if no program copies it (R_*_COPY)".to_owned();
                Stop::Refused(Refusal { hint: Some(hint), ..refusal })
            }
            other => other,
        }
    }
}

/// Divides the main table. `early` are addresses, rising and apart, whose words are needed before the packed table is
/// applied.
pub fn partition(
    image: &Image<'_>,
    dynamic: &Dynamic,
    places: &Places,
    early: &[(Range<u64>, Why)],
) -> Result<Partition, Stop> {
    let mut result = divide(image, dynamic, places, early, &[])?;
    let word_len = image.word.bytes();
    if touch(&result.packed, &result.touched, word_len) {
        // Rare: what shares bytes with something else is found first, and stays.
        let mut all: Vec<(u64, u64)> = result.packed.iter().map(|at| (*at, word_len)).collect();
        all.append(&mut result.touched);
        all.sort_unstable();
        result = divide(image, dynamic, places, early, &overlapping(&all))?;
    }
    Ok(result)
}

/// Divides the main table where it is known whose words, rising, overlap with something else.
fn divide(
    image: &Image<'_>,
    dynamic: &Dynamic,
    places: &Places,
    early: &[(Range<u64>, Why)],
    overlapping: &[u64],
) -> Result<Partition, Stop> {
    let word = image.word;
    let relative = image.machine.relative();
    let count = (places.main.len / places.main.form.entry_len(word)) as usize;
    let leading = dynamic.get(places.main.form.tags()[2]).unwrap_or(0);
    let mut result =
        Partition { packed: Vec::with_capacity(count), addends: Vec::with_capacity(count), ..Partition::default() };
    let mut kept = std::collections::BTreeMap::new();
    let loads: Vec<&Segment> = image.loads().collect();
    let mut load = None;
    let raw = image.at(places.main.vaddr, places.main.len).unwrap_or_default();
    let entry_len = places.main.form.entry_len(word) as usize;
    let mut sorted = true;
    for (index, (entry, raw)) in entries(image, &places.main)?.zip(raw.chunks_exact(entry_len)).enumerate() {
        let is_relative = entry.kind == relative;
        result.relative += u64::from(is_relative);
        if is_relative {
            // Neighbours are mostly in the same segment.
            if !load.is_some_and(|load: &Segment| load.in_memory().contains(&entry.at)) {
                load = loads.iter().copied().find(|load| load.in_memory().contains(&entry.at));
            }
            let needed = early.get(early.partition_point(|(range, _)| range.end <= entry.at));
            let needed = needed.filter(|(range, _)| range.start < entry.at.saturating_add(word.bytes()));
            let why = why_not(&entry, load, overlapping, word).or(needed.map(|(_, why)| *why));
            let in_place = || word_at(image.bytes, image.offset_of(entry.at)?, word);
            let target = match places.main.form {
                Form::Rela => Some(entry.addend),
                Form::Rel => in_place(),
            };
            match (why, target) {
                (None, Some(target)) => {
                    sorted &= result.packed.last().is_none_or(|last| *last < entry.at);
                    result.packed.push(entry.at);
                    result.addends.push(target);
                    continue;
                }
                (why, target) => {
                    *kept.entry(why.unwrap_or(Why::NotInFile)).or_insert(0) += 1;
                    result.kept_targets.extend(target);
                }
            }
        }
        result.touched.push((entry.at, width(image, dynamic, &entry)));
        result.rest.extend_from_slice(raw);
        result.rest_leading += u64::from((index as u64) < leading);
    }
    if let Some(plt) = &places.plt {
        result.touched.extend(entries(image, plt)?.map(|entry| (entry.at, width(image, dynamic, &entry))));
    }
    result.touched.sort_unstable();
    if !sorted {
        let mut both: Vec<_> = result.packed.iter().copied().zip(result.addends.iter().copied()).collect();
        both.sort_unstable();
        (result.packed, result.addends) = both.into_iter().unzip();
    }
    result.kept = kept.into_iter().map(|(why, count)| Kept { why, count }).collect();
    Ok(result)
}

/// Whether words, rising, share bytes with each other or with one of `others`.
fn touch(words: &[u64], others: &[(u64, u64)], len: u64) -> bool {
    !words.is_sorted_by(|one, next| next.checked_sub(*one).is_some_and(|gap| gap >= len))
        || others.iter().any(|(start, width)| {
            let next = words.partition_point(|at| at.saturating_add(len) <= *start);
            *width != 0 && words.get(next).is_some_and(|at| *at < start.saturating_add(*width))
        })
}

fn why_not(entry: &Entry, load: Option<&Segment>, overlapping: &[u64], word: Word) -> Option<Why> {
    let in_file = |load: &&Segment| {
        entry.at.checked_add(word.bytes()).is_some_and(|end| end <= load.in_file().end && entry.at >= load.vaddr)
    };
    match load.filter(in_file) {
        _ if entry.symbol != 0 => Some(Why::Symbol),
        _ if !entry.at.is_multiple_of(2) => Some(Why::OddAddress),
        None => Some(Why::NotInFile),
        Some(load) if !load.is_writable() => Some(Why::ReadOnly),
        Some(_) if overlapping.binary_search(&entry.at).is_ok() => Some(Why::Overlap),
        Some(_) => None,
    }
}

/// Addresses, rising, of what touches a byte that something else touches too.
fn overlapping(touched: &[(u64, u64)]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut end_before = 0;
    for (index, &(start, len)) in touched.iter().enumerate() {
        let end = start.saturating_add(len);
        let next = touched.get(index + 1).map_or(u64::MAX, |next| next.0);
        if len != 0 && (start < end_before || next < end) {
            found.push(start);
        }
        end_before = end_before.max(end);
    }
    found.dedup();
    found
}

/// How many bytes a relocation changes.
fn width(image: &Image<'_>, dynamic: &Dynamic, entry: &Entry) -> u64 {
    let (copy, descriptor) = match image.machine {
        Machine::X86_64 => (R_X86_64_COPY.0, R_X86_64_TLSDESC.0),
        Machine::I386 => (R_386_COPY.0, R_386_TLS_DESC.0),
        Machine::Aarch64 => (R_AARCH64_COPY.0, R_AARCH64_TLSDESC.0),
        Machine::Arm => (R_ARM_COPY.0, R_ARM_TLS_DESC.0),
    };
    let word = image.word;
    match entry.kind {
        // R_*_NONE is zero everywhere.
        0 => 0,
        kind if kind == copy => {
            let at = dynamic.get(DT_SYMTAB).and_then(|table| table.checked_add(entry.symbol * symbol_len(word)));
            let symbol = at.and_then(|at| image.at(at, symbol_len(word)));
            let size = symbol.and_then(|raw| match word {
                Word::Four => u32_at(raw, 8).map(u64::from),
                Word::Eight => word_at(raw, 16, word),
            });
            size.unwrap_or(word.bytes())
        }
        kind if kind == descriptor => 2 * word.bytes(),
        _ => word.bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::{overlapping, touch};

    #[test]
    fn words_touch_where_they_share_a_byte_with_each_other_or_with_something_else() {
        assert!(!touch(&[8, 16, 40], &[(0, 8), (24, 16), (44, 0), (48, 8)], 8));
        assert!(touch(&[8, 15], &[], 8) && touch(&[8, 8], &[], 8) && touch(&[16, 8], &[], 8));
        for other in [(1, 8), (15, 1), (0, 100), (16, 1), (23, 8)] {
            assert!(touch(&[8, 16, 40], &[(0, 8), other], 8), "{other:?}");
        }
        assert!(!touch(&[u64::MAX - 7], &[(0, 8)], 8));
    }

    #[test]
    fn what_overlaps_is_named_once() {
        assert_eq!(overlapping(&[(0, 8), (8, 8), (20, 0), (24, 8), (28, 8), (28, 8), (40, 8)]), [24, 28]);
        assert_eq!(overlapping(&[(0, 100), (8, 8), (50, 8), (100, 8)]), [0, 8, 50]);
    }
}
