//! Functions by the table that every Go program has of its own (`.gopclntab`, from Go 1.18 on): its runtime needs it,
//! so that it stays in stripped programs too. Pure, and for any bytes: what is damaged ends the list.

use object::Endianness;
use object::elf::{PT_LOAD, SHF_ALLOC, SHT_RELA};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader};

/// The first word of the table, by version of its format.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Words of the header: how many functions, and where in the table names and functions lie.
const FUNCTIONS: usize = 0;
const NAMES: usize = 3;
const ENTRIES: usize = 7;
/// In the runtime's description of the program (`moduledata`), which begins with the table's address: the word that
/// says where Go's code begins.
const TEXT: u64 = 22;

/// Names that are longer are those of a damaged table, which must not take forever.
const LONGEST_NAME: usize = 1 << 14;

/// A function of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoFunction<'a> {
    /// Where it is at run time, as in a symbol table.
    pub address: u64,
    /// How long it is, with what fills the room up to the next function.
    pub len: u64,
    /// As the linker knows it.
    pub name: &'a [u8],
}

/// All functions of the table; none: there is no such table, or nobody says where Go's code begins.
pub fn functions<'a, Elf: FileHeader<Endian = Endianness>>(header: &'a Elf, bytes: &'a [u8]) -> Vec<GoFunction<'a>> {
    let look = || -> Option<Vec<GoFunction<'a>>> {
        let file = File { header, endian: header.endian().ok()?, bytes };
        let (address, data) = file.table()?;
        let table = Table::of(data, file.endian)?;
        let text = file.text(address, &table)?;
        Some(
            table.functions().map(|(at, len, name)| GoFunction { address: text.wrapping_add(at), len, name }).collect(),
        )
    };
    look().unwrap_or_default()
}

/// The table.
struct Table<'a> {
    data: &'a [u8],
    big: bool,
    /// Bytes of an address.
    width: usize,
}

impl<'a> Table<'a> {
    fn of(data: &'a [u8], endian: Endianness) -> Option<Self> {
        let big = endian == Endianness::Big;
        let table = Self { data, big, width: usize::from(*data.get(7)?) };
        let is_known = MAGICS.contains(&table.word(0)?) && data.get(4..6)? == [0, 0] && matches!(table.width, 4 | 8);
        is_known.then_some(table)
    }

    fn word(&self, at: usize) -> Option<u32> {
        number(self.data, at, 4, self.big).and_then(|word| u32::try_from(word).ok())
    }

    fn header(&self, word: usize) -> Option<usize> {
        number(self.data, 8 + word * self.width, self.width, self.big).and_then(|word| usize::try_from(word).ok())
    }

    /// Place behind the begin of Go's code, length, name.
    fn functions(&self) -> impl Iterator<Item = (u64, u64, &'a [u8])> {
        let places = (self.header(FUNCTIONS), self.header(NAMES), self.header(ENTRIES));
        let (count, names, entries) = match places {
            (Some(count), Some(names), Some(entries)) => (count, names, entries),
            _ => (0, 0, 0),
        };
        // Pairs of a place and where its function is described; behind the last one, where the code ends.
        (0..count).map_while(move |index| {
            let entry = entries.checked_add(index.checked_mul(8)?)?;
            let (at, described, next) =
                (self.word(entry)?, self.word(entry.checked_add(4)?)?, self.word(entry.checked_add(8)?)?);
            let described = entries.checked_add(usize::try_from(described).ok()?)?;
            let name = names.checked_add(usize::try_from(self.word(described.checked_add(4)?)?).ok()?)?;
            let rest = self.data.get(name..)?;
            let name = rest[..rest.len().min(LONGEST_NAME)].split(|byte| *byte == 0).next()?;
            Some((u64::from(at), u64::from(next.checked_sub(at)?), name))
        })
    }
}

/// The program around the table.
struct File<'a, Elf> {
    header: &'a Elf,
    endian: Endianness,
    bytes: &'a [u8],
}

impl<'a, Elf: FileHeader<Endian = Endianness>> File<'a, Elf> {
    fn table(&self) -> Option<(u64, &'a [u8])> {
        let sections = self.header.sections(self.endian, self.bytes).ok()?;
        let section = sections.iter().find(|section| {
            let name = sections.section_name(self.endian, section).unwrap_or_default();
            name == b".gopclntab" || name == b".data.rel.ro.gopclntab"
        })?;
        Some((section.sh_addr(self.endian).into(), section.data(self.endian, self.bytes).ok()?))
    }

    /// Where Go's code begins: the runtime's description of the program says it. Only that is always true: a linker
    /// puts the code of C beside Go's, and the table itself does not say it any more since Go 1.26.
    fn text(&self, table: u64, functions: &Table<'_>) -> Option<u64> {
        let width = functions.width as u64;
        let first = functions.functions().next()?.0;
        // The two words in front of it are the first and the last place of its code.
        let is_text = |text: &u64, least: u64| *text > 0 && text.wrapping_add(first) == least;
        let relocated = self.relocated();
        let by_relocation = relocated.iter().filter(|(_, value)| *value == table).find_map(|(at, _)| {
            let word = |index: u64| {
                let place = at.checked_add(index * width)?;
                let found = relocated.binary_search_by_key(&place, |(place, _)| *place).ok()?;
                Some(relocated[found].1)
            };
            let least = word(TEXT - 2)?;
            word(TEXT).filter(|text| is_text(text, least))
        });
        by_relocation.or_else(|| {
            let segments = self.header.program_headers(self.endian, self.bytes).ok()?;
            let loaded = segments.iter().filter(|segment| segment.p_type(self.endian) == PT_LOAD);
            loaded.filter_map(|segment| segment.data(self.endian, self.bytes).ok()).find_map(|data| {
                (0..data.len()).step_by(functions.width).find_map(|at| {
                    let word = |index: u64| {
                        number(data, at.checked_add((index * width) as usize)?, functions.width, functions.big)
                    };
                    let least = (word(0)? == table).then(|| word(TEXT - 2))??;
                    word(TEXT).filter(|text| is_text(text, least))
                })
            })
        })
    }

    /// Words that the loader fills with an address of the program, and which, by place.
    fn relocated(&self) -> Vec<(u64, u64)> {
        let Ok(sections) = self.header.sections(self.endian, self.bytes) else { return Vec::new() };
        let mut words = Vec::new();
        for section in sections.iter().filter(|section| {
            section.sh_type(self.endian) == SHT_RELA && section.sh_flags(self.endian).0 & SHF_ALLOC.0 != 0
        }) {
            let Ok(Some((relocations, _))) = section.rela(self.endian, self.bytes) else { continue };
            words.extend(relocations.iter().map(|relocation| {
                let addend: i64 = relocation.r_addend(self.endian).into();
                (relocation.r_offset(self.endian).into(), addend.cast_unsigned())
            }));
        }
        words.sort_unstable();
        words
    }
}

fn number(data: &[u8], at: usize, width: usize, big: bool) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(width)?)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(if big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A table of two functions, `a` and `bb`, with the code's end at 48.
    fn table() -> Vec<u8> {
        let mut data = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8].to_vec();
        for word in [2_u64, 0, 0, 72, 0, 0, 0, 80] {
            data.extend(word.to_le_bytes());
        }
        data.extend(b"a\0bb\0\0\0\0");
        // Two pairs, the end, and what describes each: its place and its name's.
        for word in [0_u32, 20, 16, 28, 48, 0, 0, 16, 2] {
            data.extend(word.to_le_bytes());
        }
        data
    }

    #[test]
    fn a_table_tells_places_lengths_and_names() {
        let data = table();
        let functions: Vec<_> = Table::of(&data, Endianness::Little).unwrap().functions().collect();
        assert_eq!(functions, [(0, 16, &b"a"[..]), (16, 32, b"bb")]);
        assert!(Table::of(&data, Endianness::Big).is_none());
    }

    #[test]
    fn a_table_that_is_cut_off_ends_early() {
        let data = table();
        for len in 0..data.len() {
            let functions = Table::of(&data[..len], Endianness::Little).map_or(0, |table| table.functions().count());
            assert!(functions <= 1, "{len}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_table_is_read_without_harm(changes in prop::collection::vec((7..124_usize, any::<u8>()), 1..9)) {
            let mut data = table();
            for (place, value) in changes {
                data[place.min(115)] = value;
            }
            for endian in [Endianness::Little, Endianness::Big] {
                let Some(table) = Table::of(&data, endian) else { continue };
                prop_assert!(table.functions().take(1000).count() < 1000);
            }
        }
    }
}
