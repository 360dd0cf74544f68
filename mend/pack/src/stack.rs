//! The loader's tables at their new addresses, one on top of the other.

use crate::canvas::Fill;
use crate::draft::Moved;
use crate::image::{Image, up};
use crate::report::Reason;
use crate::slots::Neighbour;
use crate::stop::{Stop, refuse};
use crate::tables::{self, Table};

/// Tables on top of each other, from an address on.
#[derive(Default)]
pub struct Stack {
    pub cursor: u64,
    pub edits: Vec<(u64, Fill)>,
    pub moved: Vec<Moved>,
}

impl Stack {
    pub fn neighbour(&mut self, image: &Image<'_>, neighbour: &Neighbour) -> Result<(), Stop> {
        let bytes = image.at(neighbour.vaddr, neighbour.len);
        let bytes =
            bytes.ok_or_else(|| refuse(Reason::Damaged, "what lies behind its program headers is not loaded"))?;
        self.put(&neighbour.name, Some((neighbour.vaddr, neighbour.len)), bytes.to_vec(), neighbour.align);
        Ok(())
    }

    pub fn put(&mut self, name: &str, from: Option<(u64, u64)>, bytes: Vec<u8>, align: u64) -> u64 {
        let len = bytes.len() as u64;
        let to = self.reserve(len, align);
        self.edits.push((to, Fill::Bytes(bytes)));
        let (from, len_before) = from.map_or((None, 0), |(from, len)| (Some(from), len));
        self.moved.push(Moved { name: name.to_owned(), from, to, len_before, len });
        to
    }

    /// Leaves `len` bytes at an address with this alignment, and gives it.
    pub fn reserve(&mut self, len: u64, align: u64) -> u64 {
        let at = up(self.cursor, align);
        self.cursor = at + len;
        at
    }
}

/// What a table was aligned to, within reason.
pub fn alignment(image: &Image<'_>, table: &Table) -> u64 {
    let section = tables::section_at(image, table.vaddr).map_or(1, |section| section.align);
    let section = if section.is_power_of_two() { section.min(16) } else { 1 };
    table.kind.align(image.word).max(section)
}
