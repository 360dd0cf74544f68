//! Where two things lie that are read early: the end of the data, and the dynamic table.

use super::Facts;
use crate::report::{DynamicPlace, LastDataPage};
use elf::Relocations;
use model::{Bytes, FileOffset, PAGE};
use object::ReadRef;

pub(super) fn last_data_page<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Option<LastDataPage> {
    let has_bss = |segment: &&elf::Segment| segment.is_writable() && segment.memory_len > segment.file_len;
    let segment = facts.image.loads().filter(has_bss).last().filter(|segment| segment.file_len > 0)?;
    let address = segment.address.checked_add(segment.file_len)?;
    let page = (address - 1) / PAGE * PAGE;
    let in_page = |offset: u64| offset >= page && offset < address;
    let relocated = facts.tables.iter().flat_map(Relocations::iter).any(|relocation| in_page(relocation.offset))
        || facts.relr_addresses().any(in_page);
    Some(LastDataPage { address, unused: Bytes(page.saturating_add(PAGE) - address), relocated })
}

pub(super) fn dynamic_place<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Option<DynamicPlace> {
    let dynamic = facts.image.dynamic.as_ref()?;
    Some(DynamicPlace {
        offset: FileOffset(dynamic.offset),
        address: dynamic.address,
        entries: dynamic.entries.len() as u64,
        spare: dynamic.spare,
        writable: facts.image.loads().any(|segment| segment.is_writable() && segment.covers(dynamic.address)),
    })
}
