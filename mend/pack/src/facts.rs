//! All that is known about a file before anything is decided. The world is one argument: the file.

use crate::dynamic::{self, Dynamic, Entries};
use crate::image::{Image, push_word};
use crate::init::call::Call;
use crate::options::{Backend, Options};
use crate::refuse;
use crate::relocations::{Partition, Places, partition};
use crate::report::{Loader, Reason, VersionNeed};
use crate::stop::{Stop, refuse};
use crate::tables::{self, Kind, Run, Table};
use crate::versions::{self, Needs};
use object::elf::{DT_RELAENT, DT_RELENT, DT_RELR, DT_RELRENT, DT_RELRSZ, DT_STRSZ, DT_VERNEEDNUM, PT_INTERP};
use std::ops::Range;

/// All that is known about a file before anything is decided.
pub struct Facts<'i, 'a> {
    pub image: &'i Image<'a>,
    pub dynamic: Dynamic,
    pub places: Places,
    pub loader: Loader,
    pub partition: Partition,
    /// The packed table as it is written: words of the file's class, little endian.
    pub relr: Vec<u8>,
    pub needs: Needs,
    /// How the code that applies the table is called; none where the loader applies it.
    pub call: Option<Call>,
    pub tables: Vec<Table>,
    pub run: Run,
}

impl<'i, 'a> Facts<'i, 'a> {
    pub fn of(image: &'i Image<'a>, options: &Options) -> Result<Self, Stop> {
        let dynamic = refuse::judge(image)?;
        let loader = refuse::loader(image, &dynamic)?;
        let places = Places::of(&dynamic, image.word)?;
        let tables = tables::all(image, &dynamic, &places)?;
        let run = Run::around(image, &tables, Kind::Relocations)?;
        let call = match options.backend {
            Backend::Relr => None,
            Backend::Init => Some(Call::of(image, &dynamic, loader, &places, &tables)?),
        };
        let early = call.as_ref().map(|call| call.early(image, options.copies, &tables)).unwrap_or_default();
        let mut partition = partition(image, &dynamic, &places, &early)?;
        if partition.packed.is_empty() {
            let stop = refuse(Reason::NothingToPack, "it has no relative relocation that could be packed");
            return Err(partition.name_copies(stop));
        }
        let mut relr = Vec::new();
        for entry in elf::relr::encode(&partition.packed, image.word) {
            push_word(&mut relr, entry, image.word);
        }
        let needs = match loader {
            _ if call.is_some() => Needs::NotAsked,
            Loader::Musl => Needs::NotAsked,
            Loader::Glibc | Loader::Either => versions::needs(image, &dynamic)?,
        };
        if let Some(call) = &call {
            call.make_room(&mut partition, &places, image.word);
        }
        let facts = Self { image, dynamic, places, loader, partition, relr, needs, call, tables, run };
        facts.nothing_else_reaches_the_tables()?;
        Ok(facts)
    }

    /// No relocation writes to what is laid out anew, and no pointer leads there.
    fn nothing_else_reaches_the_tables(&self) -> Result<(), Stop> {
        let run = self.run.range();
        let pointers = self.partition.addends.iter().chain(&self.partition.kept_targets);
        if let Some(pointer) = pointers.copied().find(|pointer| run.contains(pointer)) {
            let sentence = format!("a pointer in its data leads to {pointer:#x}, into the loader's tables");
            return Err(refuse(Reason::PointerIntoTables, sentence));
        }
        let table = self.dynamic.vaddr..self.dynamic.vaddr + self.dynamic_len();
        let meets =
            |range: &Range<u64>, start: u64, len: u64| start < range.end && start.saturating_add(len) > range.start;
        let word = self.image.word.bytes();
        let packed = |range: &Range<u64>| {
            let first = self.partition.packed.partition_point(|at| at.saturating_add(word) <= range.start);
            self.partition.packed.get(first).copied().filter(|at| *at < range.end)
        };
        let other = |range: &Range<u64>| {
            let touched = self.partition.touched.iter().find(|(at, len)| meets(range, *at, *len));
            touched.map(|(at, _)| *at)
        };
        let ranges = [&run, &table];
        if let Some(at) = ranges.iter().find_map(|range| packed(range).or_else(|| other(range))) {
            let sentence = format!("a relocation changes {at:#x}, in the loader's tables");
            return Err(refuse(Reason::RelocationLayout, sentence));
        }
        Ok(())
    }

    /// Bytes of the dynamic section.
    pub fn dynamic_len(&self) -> u64 {
        self.dynamic.capacity as u64 * dynamic::entry_len(self.image.word)
    }

    pub fn is_program(&self) -> bool {
        self.image.segment(PT_INTERP).is_some()
    }

    pub fn version_need(&self) -> VersionNeed {
        match &self.needs {
            Needs::Lacks(need) if need.new_record => VersionNeed::AddedRecord,
            Needs::Lacks(_) => VersionNeed::Added,
            Needs::Has | Needs::NotAsked => VersionNeed::NotNeeded,
        }
    }

    /// Entries of the dynamic section with the lengths of the tables of versions.
    pub fn version_entries(&self) -> Entries {
        let mut entries = Entries::of(&self.dynamic);
        if let Needs::Lacks(need) = &self.needs {
            entries.set(DT_VERNEEDNUM, need.records);
            let len = self.dynamic.get(DT_STRSZ).unwrap_or(0) + need.strings.len() as u64;
            entries.set(DT_STRSZ, len);
        }
        entries
    }

    /// The new entries of the dynamic section; addresses of tables that move are still the old ones.
    pub fn entries(&self) -> Entries {
        let mut entries = self.version_entries();
        let [table, size, count] = self.places.main.form.tags();
        if self.partition.rest.is_empty() {
            [table, size, count, DT_RELAENT, DT_RELENT].into_iter().for_each(|tag| entries.remove(tag));
        } else {
            entries.set(size, self.partition.rest.len() as u64);
            match self.partition.rest_leading {
                0 => entries.remove(count),
                leading => entries.set(count, leading),
            }
        }
        match &self.call {
            Some(call) => call.enter(&mut entries, self.image.word),
            None => {
                entries.set(DT_RELR, 0);
                entries.set(DT_RELRSZ, self.relr.len() as u64);
                entries.set(DT_RELRENT, self.image.word.bytes());
            }
        }
        entries
    }

    /// Entries of the dynamic section that there must be room for.
    pub fn dynamic_room(&self, entries: &Entries) -> usize {
        entries.len() + self.call.as_ref().map_or(0, Call::entries_behind)
    }

    /// Whether the bytes of a table change.
    pub fn changes(&self, kind: Kind) -> bool {
        let lacks = matches!(self.needs, Needs::Lacks(_));
        kind == Kind::Relocations || (lacks && matches!(kind, Kind::Needs | Kind::Strings))
    }

    /// The bytes of a table that changes.
    pub fn new_content(&self, kind: Kind) -> Option<Vec<u8>> {
        match (&self.needs, kind) {
            (_, Kind::Relocations) => Some(self.partition.rest.clone()),
            (Needs::Lacks(need), Kind::Needs) => Some(need.table.clone()),
            (Needs::Lacks(need), Kind::Strings) => {
                let table = self.tables.iter().find(|table| table.kind == kind)?;
                let old = self.image.at(table.vaddr, self.dynamic.get(DT_STRSZ)?)?;
                Some([old, &need.strings].concat())
            }
            _ => None,
        }
    }
}
