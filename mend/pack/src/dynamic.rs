//! The dynamic section: its entries in order, where the loader keeps them, and edits to them.

use crate::image::{Image, push_word, text_at};
use crate::report::{DynamicEdit, Reason};
use crate::stop::{Stop, refuse};
use elf::relr::Word;
use object::elf::{
    DT_DEBUG, DT_GNU_HASH, DT_HASH, DT_INIT, DT_JMPREL, DT_NEEDED, DT_PLTREL, DT_PLTRELSZ, DT_PREINIT_ARRAY,
    DT_PREINIT_ARRAYSZ, DT_REL, DT_RELA, DT_RELACOUNT, DT_RELAENT, DT_RELASZ, DT_RELCOUNT, DT_RELENT, DT_RELR,
    DT_RELRENT, DT_RELRSZ, DT_RELSZ, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERNEED, DT_VERNEEDNUM,
    DT_VERSYM, DynamicTag, PT_DYNAMIC,
};

/// The dynamic section of a file.
#[derive(Clone, Debug)]
pub struct Dynamic {
    /// Where the loader finds it.
    pub vaddr: u64,
    /// Entries that there is room for, the last DT_NULL included.
    pub capacity: usize,
    /// Up to the first DT_NULL.
    pub entries: Vec<(DynamicTag, u64)>,
    /// DT_NEEDED: name, and its place in the string table.
    pub needed: Vec<(Vec<u8>, u64)>,
    /// The name by which others need it (DT_SONAME), without its final zero; none for most programs.
    pub soname: Option<Vec<u8>>,
}

/// Length of an entry.
pub fn entry_len(word: Word) -> u64 {
    word.bytes() * 2
}

impl Dynamic {
    pub fn parse(image: &Image<'_>) -> Result<Self, Stop> {
        let damaged = |why: &str| refuse(Reason::Damaged, format!("its dynamic section {why}"));
        let segment = image.segment(PT_DYNAMIC).ok_or_else(|| damaged("is missing"))?;
        let raw = image.at(segment.vaddr, segment.filesz).ok_or_else(|| damaged("is not loaded"))?;
        if image.offset_of(segment.vaddr) != Some(segment.offset) {
            return Err(damaged("is at two places"));
        }
        let capacity = raw.len() / entry_len(image.word) as usize;
        let entries = image.dynamic.as_ref().map(|found| found.entries.clone()).unwrap_or_default();
        if entries.len() >= capacity {
            return Err(damaged("has no end"));
        }
        let mut dynamic = Self { vaddr: segment.vaddr, capacity, entries, needed: Vec::new(), soname: None };
        let strings = dynamic.get(DT_STRTAB).zip(dynamic.get(DT_STRSZ)).and_then(|(at, len)| image.at(at, len));
        let strings = strings.ok_or_else(|| damaged("names no string table"))?;
        let text = |at| text_at(strings, at).map(<[u8]>::to_vec);
        dynamic.needed = dynamic.all(DT_NEEDED).filter_map(|at| Some((text(at)?, at))).collect();
        dynamic.soname = dynamic.get(DT_SONAME).and_then(text);
        Ok(dynamic)
    }

    /// The value of a tag; the loader keeps the last one.
    pub fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.entries.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    pub fn all(&self, tag: DynamicTag) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(move |entry| entry.0 == tag).map(|entry| entry.1)
    }
}

/// A new list of entries, made from an old one.
#[derive(Clone, Debug)]
pub struct Entries {
    pub list: Vec<(DynamicTag, u64)>,
    pub edits: Vec<DynamicEdit>,
}

impl Entries {
    pub fn of(dynamic: &Dynamic) -> Self {
        Self { list: dynamic.entries.clone(), edits: Vec::new() }
    }

    /// Gives a tag a value, at its old place or at the end.
    pub fn set(&mut self, tag: DynamicTag, value: u64) {
        let from = self.list.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1);
        if from == Some(value) {
            return;
        }
        match from {
            Some(_) => self.list.iter_mut().filter(|entry| entry.0 == tag).for_each(|entry| entry.1 = value),
            None => self.list.push((tag, value)),
        }
        // A value that was only to keep the place is no edit of its own.
        match self.edits.iter_mut().find(|edit| edit.tag == tag.0 as u64) {
            Some(edit) => edit.to = Some(value),
            None => self.edits.push(DynamicEdit { tag: tag.0 as u64, name: tag_name(tag), from, to: Some(value) }),
        }
    }

    pub fn remove(&mut self, tag: DynamicTag) {
        let from = self.list.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1);
        if from.is_some() {
            self.list.retain(|entry| entry.0 != tag);
            self.edits.push(DynamicEdit { tag: tag.0 as u64, name: tag_name(tag), from, to: None });
        }
    }

    /// Entries whose tags an older table has too: what there is room for in its place.
    pub fn known_to(&self, older: &Dynamic) -> Vec<(DynamicTag, u64)> {
        self.list.iter().copied().filter(|entry| older.get(entry.0).is_some()).collect()
    }

    /// Entries needed, the last DT_NULL included.
    pub fn len(&self) -> usize {
        self.list.len() + 1
    }
}

/// The bytes of a list of entries, filled up with DT_NULL.
pub fn encode(list: &[(DynamicTag, u64)], capacity: usize, word: Word) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tag, value) in list {
        push_word(&mut bytes, tag.0 as u64, word);
        push_word(&mut bytes, *value, word);
    }
    bytes.resize(bytes.len().max(capacity * entry_len(word) as usize), 0);
    bytes
}

fn tag_name(tag: DynamicTag) -> String {
    let names = [
        (DT_DEBUG, "DT_DEBUG"),
        (DT_GNU_HASH, "DT_GNU_HASH"),
        (DT_HASH, "DT_HASH"),
        (DT_INIT, "DT_INIT"),
        (DT_JMPREL, "DT_JMPREL"),
        (DT_PLTREL, "DT_PLTREL"),
        (DT_PLTRELSZ, "DT_PLTRELSZ"),
        (DT_PREINIT_ARRAY, "DT_PREINIT_ARRAY"),
        (DT_PREINIT_ARRAYSZ, "DT_PREINIT_ARRAYSZ"),
        (DT_REL, "DT_REL"),
        (DT_RELA, "DT_RELA"),
        (DT_RELACOUNT, "DT_RELACOUNT"),
        (DT_RELAENT, "DT_RELAENT"),
        (DT_RELASZ, "DT_RELASZ"),
        (DT_RELCOUNT, "DT_RELCOUNT"),
        (DT_RELENT, "DT_RELENT"),
        (DT_RELR, "DT_RELR"),
        (DT_RELRENT, "DT_RELRENT"),
        (DT_RELRSZ, "DT_RELRSZ"),
        (DT_RELSZ, "DT_RELSZ"),
        (DT_STRSZ, "DT_STRSZ"),
        (DT_STRTAB, "DT_STRTAB"),
        (DT_SYMTAB, "DT_SYMTAB"),
        (DT_VERDEF, "DT_VERDEF"),
        (DT_VERNEED, "DT_VERNEED"),
        (DT_VERNEEDNUM, "DT_VERNEEDNUM"),
        (DT_VERSYM, "DT_VERSYM"),
    ];
    names.iter().find(|known| known.0 == tag).map_or_else(|| format!("{:#x}", tag.0), |known| known.1.to_owned())
}
