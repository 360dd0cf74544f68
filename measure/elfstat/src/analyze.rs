//! From the bytes of a file to what is known about it. Pure: the file is the one argument, whatever its bytes are.

mod counts;
mod identity;
mod initializers;
mod layout;
mod packing;
mod places;
mod symbols;

pub(crate) use counts::sort;

use crate::report::FileReport;
use elf::{Image, Miss, Relocation, Relocations, relr};
use model::{Bytes, Warning, WarningKind};
use object::ReadRef;
use object::elf::EM_ARM;
use serde::Serialize;

/// How closely a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Headers, relocation tables and the symbols of the loader: for thousands of files.
    Survey,
    /// Also the full symbol table, the words that are relocated, and each initializer.
    Detail,
}

/// What is known about a file.
///
/// # Errors
/// It is no ELF file, or its headers or relocation tables cannot be read.
pub fn analyze<'data, R: ReadRef<'data>>(image: &Image<R>, depth: Depth) -> Result<FileReport, Miss> {
    let facts = Facts::of(image, depth)?;
    let identity = identity::identity(&facts);
    let mut warnings = Vec::new();
    if let Some(miss) = &image.sections_damaged {
        warnings.push(Warning::new(WarningKind::Note, format!("the section table cannot be read: {miss}")));
    }
    let relocations = counts::relocations(&facts);
    if let Some(relr) = &relocations.relr
        && relr.asks_for_abi == Some(false)
    {
        let text = "it has packed relocations (DT_RELR) and does not ask for GLIBC_ABI_DT_RELR: glibc does not load it";
        warnings.push(Warning::new(WarningKind::Note, text).hint("thaw elf fix-relr FILE --in-place"));
    }
    Ok(FileReport {
        size: Bytes(image.len),
        waste: counts::waste(&facts),
        packing: packing::packing(&facts),
        vtables: symbols::vtables(&facts),
        internal: symbols::internal(&facts, identity.kind),
        initializers: initializers::initializers(&facts),
        last_data_page: layout::last_data_page(&facts),
        dynamic: layout::dynamic_place(&facts),
        identity,
        relocations,
        warnings,
    })
}

/// What several figures are made of.
struct Facts<'image, 'data, R> {
    image: &'image Image<R>,
    depth: Depth,
    tables: Vec<Relocations<'data>>,
    relr: Option<RelrTable>,
    /// The type of relative relocations.
    relative: Option<u32>,
    /// Contents of writable segments; read in detail only.
    contents: Vec<(u64, &'data [u8])>,
}

/// Words of DT_RELR that were found to make sense.
struct RelrTable {
    address: u64,
    words: Vec<u64>,
}

impl<'image, 'data, R: ReadRef<'data>> Facts<'image, 'data, R> {
    fn of(image: &'image Image<R>, depth: Depth) -> Result<Self, Miss> {
        let relr = image.relr()?.map(|(address, words)| RelrTable { address, words });
        if let Some(table) = &relr {
            relr::addresses(table.words.iter().copied(), image.class.word())
                .try_for_each(|address| address.map(drop))?;
        }
        let contents = match depth {
            Depth::Survey => Vec::new(),
            Depth::Detail => image
                .loads()
                .filter(|segment| segment.is_writable())
                .filter_map(|segment| Some((segment.address, image.at(segment.address, segment.file_len)?)))
                .collect(),
        };
        Ok(Self {
            image,
            depth,
            tables: image.relocations()?,
            relr,
            relative: elf::relative_type(image.machine),
            contents,
        })
    }

    fn is_relative(&self, relocation: &Relocation) -> bool {
        self.relative == Some(relocation.kind)
    }

    /// Addresses of the relative relocations among the entries, sorted.
    fn relative_addresses(&self) -> Vec<u64> {
        let entries = self.tables.iter().flat_map(Relocations::iter);
        let mut addresses: Vec<u64> =
            entries.filter(|relocation| self.is_relative(relocation)).map(|relocation| relocation.offset).collect();
        addresses.sort_unstable();
        addresses
    }

    /// Addresses that DT_RELR stands for.
    fn relr_addresses(&self) -> impl Iterator<Item = u64> {
        let words = self.relr.iter().flat_map(|table| table.words.iter().copied());
        relr::addresses(words, self.image.class.word()).map_while(Result::ok)
    }

    /// The word at an address of a writable segment; in detail only.
    fn content(&self, address: u64) -> Option<u64> {
        let len = self.image.class.word().bytes() as usize;
        self.contents.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            self.image.order.address(bytes.get(from..from.checked_add(len)?)?)
        })
    }

    /// Code addresses of ARM have a bit that says which instruction set is meant.
    fn code_address(&self, address: u64) -> u64 {
        if self.image.machine == EM_ARM { address & !1 } else { address }
    }
}
