//! Dynamic relocations: the tables that the loader works through, entry by entry; and those that the linker worked
//! through and kept. Not for those of object files.

use crate::relr::Word;
use crate::{Image, Miss, Order};
use object::ReadRef;
use object::elf::{
    DT_JMPREL, DT_PLTREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELAENT, DT_RELASZ, DT_RELENT, DT_RELR, DT_RELRSZ, DT_RELSZ,
    DynamicTag, SHT_REL, SHT_RELA, SHT_SYMTAB,
};

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// DT_RELA or DT_REL: applied when the file is loaded.
    Load,
    /// DT_JMPREL: calls to other files, applied when first used unless binding is immediate.
    Plt,
}

/// One table of relocations.
#[derive(Clone, Debug)]
pub struct Relocations<'data> {
    /// What it is for.
    pub role: Role,
    /// Where it is in memory.
    pub address: u64,
    /// The entries hold addends (RELA); otherwise the addend is in the word that is relocated (REL).
    pub with_addends: bool,
    bytes: &'data [u8],
    word: Word,
    order: Order,
    mips64el: bool,
}

/// One relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The address to relocate.
    pub offset: u64,
    /// R_X86_64_RELATIVE, ...
    pub kind: u32,
    /// Index into the dynamic symbol table; 0: none.
    pub symbol: u32,
    /// 0 in a table without addends.
    pub addend: i64,
}

impl<'data> Relocations<'data> {
    /// Bytes of one entry.
    pub fn entry_len(&self) -> u64 {
        self.word.bytes() * if self.with_addends { 3 } else { 2 }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.bytes.len() as u64 / self.entry_len()
    }

    /// All bytes.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// No relocation.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The entries, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Relocation> + use<'data> {
        entries(self.bytes, self.entry_len(), self.word, self.order, self.mips64el)
    }
}

fn entries(
    bytes: &[u8],
    entry_len: u64,
    word: Word,
    order: Order,
    mips64el: bool,
) -> impl Iterator<Item = Relocation> + use<'_> {
    bytes.chunks_exact(entry_len as usize).map(move |entry| match word {
        Word::Four => narrow(entry, order),
        Word::Eight => wide(entry, order, mips64el),
    })
}

fn narrow(entry: &[u8], order: Order) -> Relocation {
    let (words, _) = entry.as_chunks::<4>();
    let word = |index: usize| words.get(index).map_or(0, |bytes| order.word(*bytes));
    let info = word(1);
    Relocation { offset: word(0).into(), kind: info & 0xff, symbol: info >> 8, addend: i64::from(word(2) as i32) }
}

fn wide(entry: &[u8], order: Order, mips64el: bool) -> Relocation {
    let (words, _) = entry.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |bytes| order.long(*bytes));
    let info = word(1);
    let (symbol, kind) = if mips64el {
        // Little-endian MIPS has the symbol first, and the types behind it one byte each.
        (info as u32, ((info >> 32) as u32).swap_bytes())
    } else {
        ((info >> 32) as u32, info as u32)
    };
    Relocation { offset: word(0), kind, symbol, addend: word(2) as i64 }
}

impl<'data, R: ReadRef<'data>> Image<R> {
    /// The tables of relocations, those to apply at load time first. A part that two tags name is in the first table
    /// only.
    ///
    /// # Errors
    /// [`Miss::Damaged`]: a table is not in the file, or its entries have another size than this class has.
    pub fn relocations(&self) -> Result<Vec<Relocations<'data>>, Miss> {
        let Some(dynamic) = &self.dynamic else { return Ok(Vec::new()) };
        let plt_has_addends = match dynamic.value(DT_PLTREL) {
            Some(tag) => tag == DT_RELA.0 as u64,
            None => dynamic.value(DT_RELA).is_some(),
        };
        let tables = [
            (Role::Load, DT_RELA, DT_RELASZ, Some(DT_RELAENT), true),
            (Role::Load, DT_REL, DT_RELSZ, Some(DT_RELENT), false),
            (Role::Plt, DT_JMPREL, DT_PLTRELSZ, None, plt_has_addends),
        ];
        let mut found: Vec<Relocations> = Vec::new();
        for (role, tag, len_tag, entry_tag, with_addends) in tables {
            let (Some(mut address), Some(mut len)) = (dynamic.value(tag), dynamic.value(len_tag)) else { continue };
            // Some linkers count the PLT's relocations among the others too.
            if let Some(whole) = found
                .iter()
                .find(|table| role == Role::Plt && address >= table.address && address - table.address < table.len())
            {
                let known = (whole.len() - (address - whole.address)).min(len);
                (address, len) = (address.saturating_add(known), len - known);
            }
            if len == 0 {
                continue;
            }
            let bytes = self.at(address, len).ok_or_else(|| outside(tag))?;
            let table = Relocations {
                role,
                address,
                with_addends,
                bytes,
                word: self.class.word(),
                order: self.order,
                mips64el: self.is_mips64el(),
            };
            let entry_len = entry_tag.and_then(|tag| dynamic.value(tag)).unwrap_or(table.entry_len());
            if entry_len != table.entry_len() || !len.is_multiple_of(entry_len) {
                return Err(Miss::Damaged(format!("{} has entries of an unknown size", tag_name(tag))));
            }
            found.push(table);
        }
        Ok(found)
    }

    /// The relocations of a section that the linker has worked through and kept (`--emit-relocs`): offsets are
    /// addresses, symbols are those of [`Self::all_symbols`]. `None`: it kept none, or the symbols were taken out.
    pub fn kept_relocations(&self, section: usize) -> Option<impl Iterator<Item = Relocation> + use<'data, R>> {
        let table = self.sections.iter().find(|table| {
            let of_symbols = |link: &crate::SectionHead| link.kind == SHT_SYMTAB;
            matches!(table.kind, SHT_RELA | SHT_REL)
                && !table.is_loaded()
                && usize::try_from(table.info) == Ok(section)
                && self.sections.get(table.link as usize).is_some_and(of_symbols)
        })?;
        let entry_len = self.class.word().bytes() * if table.kind == SHT_RELA { 3 } else { 2 };
        Some(entries(self.bytes_of(table)?, entry_len, self.class.word(), self.order, self.is_mips64el()))
    }

    /// How many relocations the loader works through, or may have to: the entries of all tables, and the words that a
    /// packed one stands for.
    ///
    /// # Errors
    /// [`Miss::Damaged`], as for [`Self::relocations`] and [`Self::relr`].
    pub fn relocation_count(&self) -> Result<u64, Miss> {
        let entries: u64 = self.relocations()?.iter().map(Relocations::count).sum();
        let Some((_, words)) = self.relr()? else { return Ok(entries) };
        let mut packed = 0;
        for address in crate::relr::addresses(words, self.class.word()) {
            address?;
            packed += 1;
        }
        Ok(entries + packed)
    }

    /// The words of the RELR table (DT_RELR) and where it is in memory; [`crate::relr::addresses`] says what they stand
    /// for.
    ///
    /// # Errors
    /// [`Miss::Damaged`]: it is not in the file.
    pub fn relr(&self) -> Result<Option<(u64, Vec<u64>)>, Miss> {
        let Some(dynamic) = &self.dynamic else { return Ok(None) };
        let (Some(address), Some(len)) = (dynamic.value(DT_RELR), dynamic.value(DT_RELRSZ)) else { return Ok(None) };
        let bytes = self.at(address, len).ok_or_else(|| outside(DT_RELR))?;
        let words = bytes.chunks_exact(self.class.word().bytes() as usize).filter_map(|word| self.order.address(word));
        Ok(Some((address, words.collect())))
    }
}

fn outside(tag: DynamicTag) -> Miss {
    Miss::Damaged(format!("{} points outside the file", tag_name(tag)))
}

fn tag_name(tag: DynamicTag) -> &'static str {
    object::elf::names().dt.name(tag).unwrap_or("a table of relocations")
}
