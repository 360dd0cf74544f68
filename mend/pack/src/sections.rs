//! Keeps the section table in step: new addresses and lengths of the loader's tables, a section for the packed one, and
//! the symbols that name a section that moved. Loaders need none of this; strip, debuggers and readers of ELF do.

use crate::canvas::Canvas;
use crate::draft::{Draft, Moves};
use crate::dynamic::entry_len;
use crate::facts::Facts;
use crate::image::{Image, Section, part, push_section, push_word, symbol_len, text_at, u16_at, word_at};
use crate::init::call::CODE_ALIGN;
use crate::layout::{self, Load, Part, Places, Tables};
use crate::options::SectionType;
use elf::relr::Word;
use object::elf::{
    SHF_ALLOC, SHF_EXECINSTR, SHT_DYNAMIC, SHT_GNU_VERNEED, SHT_PROGBITS, SHT_RELR, SHT_STRTAB, SHT_SYMTAB,
};

/// The section table of the new file; offsets are open until [`Renewed::settle`].
pub struct Renewed {
    pub sections: Vec<Section>,
    /// The section names, each ended by a zero.
    pub names: Vec<u8>,
    /// Old address and distance to the new one, by index of the old table.
    shifts: Vec<(usize, u64, i64)>,
    /// The section with the names, if they cannot stay where they were.
    pub own_names: Option<usize>,
}

impl Renewed {
    /// The table as it is.
    pub fn plain(image: &Image<'_>) -> Self {
        let names = image.sections.get(image.header.shstrndx as usize);
        let names = names.filter(|names| names.kind == SHT_STRTAB.0);
        let names = names.and_then(|names| part(image.bytes, names.offset, names.size)).unwrap_or_default();
        Self { sections: image.sections.clone(), names: names.to_vec(), shifts: Vec::new(), own_names: None }
    }

    /// The table that a draft asks for.
    pub fn of(facts: &Facts<'_, '_>, draft: &Draft, moves: Moves, kind: SectionType) -> Self {
        let image = facts.image;
        let mut renewed = Self::plain(image);
        if image.sections.is_empty() {
            return renewed;
        }
        let old_dynamic = facts.dynamic.vaddr;
        let (mut old_flags, mut shifts) = (0, Vec::new());
        for (index, section) in renewed.sections.iter_mut().enumerate().filter(|(_, section)| section.is_loaded()) {
            let old = section.addr;
            if section.size == 0 && section.has_bytes() && draft.freed.contains(&old) {
                section.addr = draft.freed.start;
                continue;
            }
            if section.size == 0 {
                continue;
            }
            if let Some(moved) = draft.moved.iter().find(|moved| moved.from == Some(old)) {
                section.addr = moved.to;
                // The room up to the next table is not the section's.
                section.size = if moved.len == moved.len_before { section.size } else { moved.len };
                if section.kind == SHT_GNU_VERNEED.0
                    && let crate::versions::Needs::Lacks(need) = &facts.needs
                {
                    section.info = need.records as u32;
                }
            } else if old == old_dynamic && section.kind == SHT_DYNAMIC.0 {
                old_flags = section.flags;
                section.addr = draft.dynamic.start;
                section.size = draft.dynamic.end - draft.dynamic.start;
                if draft.dynamic_place == crate::report::DynamicPlace::ReadOnly {
                    section.flags = SHF_ALLOC.0;
                }
            }
            shifts.push((index, old, section.addr));
        }
        shifts.into_iter().for_each(|(index, old, new)| renewed.shift(index, old, new));
        let relr = Section {
            name_at: 0,
            kind: if kind == SectionType::Relr { SHT_RELR.0 } else { SHT_PROGBITS.0 },
            flags: SHF_ALLOC.0,
            addr: draft.relr.start,
            offset: 0,
            size: draft.relr.end - draft.relr.start,
            link: 0,
            info: 0,
            align: image.word.bytes(),
            entsize: image.word.bytes(),
        };
        if !draft.relr.is_empty() {
            let (name, kind) = match draft.initialiser {
                None => (&b".relr.dyn"[..], relr.kind),
                Some(_) => (&b".thaw.relr"[..], SHT_PROGBITS.0),
            };
            renewed.add(Section { kind, ..relr.clone() }, name);
        }
        if let Some(initialiser) = &draft.initialiser {
            let (addr, size) = (initialiser.code.start, initialiser.code.end - initialiser.code.start);
            let (kind, flags) = (SHT_PROGBITS.0, (SHF_ALLOC | SHF_EXECINSTR).0);
            let code = Section { kind, flags, addr, size, entsize: 0, align: CODE_ALIGN, ..relr.clone() };
            renewed.add(code, b".thaw.init");
        }
        if draft.dynamic.start != old_dynamic {
            // So that tools which copy sections keep what readers of `_DYNAMIC` find there.
            let size = facts.dynamic.capacity as u64 * entry_len(image.word);
            let kind = SHT_PROGBITS.0;
            let left = Section { kind, flags: old_flags, addr: old_dynamic, size, entsize: 0, ..relr.clone() };
            renewed.add(left, b".thaw.dynamic");
        }
        if moves == Moves::Not && layout::growth(image).is_none() {
            renewed.own_names = Some(renewed.sections.len());
            let flags = SHF_ALLOC.0;
            let own = Section { kind: SHT_STRTAB.0, flags, addr: 0, size: 0, align: 1, entsize: 0, ..relr };
            renewed.add(own, b".thaw.names");
        }
        renewed
    }

    /// Symbols of a section follow it.
    pub fn shift(&mut self, index: usize, old: u64, new: u64) {
        if new != old {
            self.shifts.push((index, old, new.wrapping_sub(old) as i64));
        }
    }

    /// Sections that the original does not have, with their names.
    pub fn added(&self, image: &Image<'_>) -> impl Iterator<Item = (&Section, &[u8])> {
        let added = self.sections.get(image.sections.len()..).unwrap_or_default();
        added.iter().map(|section| (section, text_at(&self.names, u64::from(section.name_at)).unwrap_or_default()))
    }

    pub fn add(&mut self, mut section: Section, name: &[u8]) {
        if !self.names.is_empty() {
            section.name_at = self.names.len() as u32;
            self.names.extend_from_slice(name);
            self.names.push(0);
        }
        self.sections.push(section);
    }

    /// What the file has to hold of it.
    pub fn lens(&self) -> Tables {
        Tables { sections: self.sections.len(), names: self.names.len() as u64 }
    }

    /// Gives every section its offset.
    pub fn settle(&mut self, image: &Image<'_>, loads: &[Load], places: &Places) {
        for (index, section) in self.sections.iter_mut().enumerate().skip(1) {
            if Some(index) == self.own_names {
                continue;
            }
            if section.is_loaded() {
                let load = loads.iter().map(|load| &load.head).find(|load| {
                    let end = if section.has_bytes() { load.in_file().end } else { load.in_memory().end };
                    (load.vaddr..=end).contains(&section.addr) && section.addr + section.size <= end.max(section.addr)
                });
                // Zeros have an offset that nobody reads; it stays beside what is before them.
                section.offset = match load {
                    Some(load) => load.offset + (section.addr - load.vaddr).min(load.filesz),
                    None => places.moved(section.offset),
                };
            } else if index == image.header.shstrndx as usize {
                section.offset = places.of(Part::Names).map_or(section.offset, |placed| placed.at);
                section.size = self.names.len() as u64;
            } else {
                section.offset = places.moved(section.offset);
            }
        }
        if let (Some(names), Some(placed)) = (self.own_names, places.of(Part::Names)) {
            // What is left of the old names is nothing to rely on.
            let old = &mut self.sections[image.header.shstrndx as usize];
            (old.offset, old.size) = (places.left.start, places.left.end - places.left.start);
            let mut heads = loads.iter().map(|load| &load.head);
            let load = heads.find(|load| load.file_range().contains(&placed.at));
            let names = &mut self.sections[names];
            names.addr = load.map_or(0, |load| load.vaddr + (placed.at - load.offset));
            names.offset = placed.at;
            names.size = self.names.len() as u64;
        }
    }

    /// New values of symbols in moved sections: offset in the old file, and bytes.
    pub fn symbols(&self, image: &Image<'_>) -> Vec<(u64, Vec<u8>)> {
        let mut edits = Vec::new();
        if self.shifts.is_empty() {
            return edits;
        }
        let word = image.word;
        let (index_at, value_at) = match word {
            Word::Four => (14, 4),
            Word::Eight => (6, 8),
        };
        for table in image.sections.iter().filter(|section| section.kind == SHT_SYMTAB.0) {
            let raw = part(image.bytes, table.offset, table.size).unwrap_or_default();
            for (number, symbol) in raw.chunks_exact(symbol_len(word) as usize).enumerate() {
                let index = usize::from(u16_at(symbol, index_at).unwrap_or(0));
                let Some((_, old, shift)) = self.shifts.iter().find(|shift| shift.0 == index) else { continue };
                let value = word_at(symbol, value_at, word).unwrap_or(0);
                let size = image.sections[index].size;
                if (*old..=old + size).contains(&value) {
                    let new = value.wrapping_add_signed(*shift);
                    let at = table.offset + number as u64 * symbol_len(word) + value_at;
                    edits.push((at, new.to_le_bytes()[..word.bytes() as usize].to_vec()));
                }
            }
        }
        edits
    }
}

/// Writes the table, and what the header says about it.
pub fn write_table(word: Word, renewed: &mut Renewed, at: u64, canvas: &mut Canvas<'_>) {
    // Counts that do not fit the header are in the first section.
    let count = renewed.sections.len();
    let in_header = if count < 0xff00 { count as u16 } else { 0 };
    if in_header == 0 {
        renewed.sections[0].size = count as u64;
    }
    let mut table = Vec::new();
    renewed.sections.iter().for_each(|section| push_section(&mut table, section, word));
    canvas.paint(at, table);
    let mut place = Vec::new();
    push_word(&mut place, at, word);
    canvas.paint(if word == Word::Four { 32 } else { 40 }, place);
    canvas.paint(if word == Word::Four { 48 } else { 60 }, in_header.to_le_bytes().to_vec());
    if let Some(names) = renewed.own_names {
        // Such a table has less than 0xff00 sections, or it would have had no room for one more.
        canvas.paint(if word == Word::Four { 50 } else { 62 }, (names as u16).to_le_bytes().to_vec());
    }
}
