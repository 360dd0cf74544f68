//! Puts the code that applies the table into a file: where it goes, what leads to it, and what the oracle may find. The
//! layout of the rest is `crate::plan`'s.

use super::call::{CODE_ALIGN, Call, Initialiser, Spot};
use super::{Layout, assemble, may_be_read_only};
use crate::canvas::Fill;
use crate::draft::{Draft, Moves};
use crate::dynamic::{Entries, entry_len};
use crate::facts::Facts;
use crate::image::{down, push_word, up};
use crate::layout::{self, Load};
use crate::relocations::Form;
use crate::report::Reason;
use crate::room::{Room, add_segment, granule, is_free};
use crate::stop::{Stop, refuse};
use model::Error;
use object::elf::{DT_INIT, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, DynamicTag, PF_R, PF_X};
use std::ops::Range;
use verify::Allowed;

/// What the code is made of: only the addresses are open, which its length does not depend on.
fn layout(call: &Call, facts: &Facts<'_, '_>, relro: Option<&Range<u64>>) -> Layout {
    let word = facts.image.word.bytes();
    let packed = &facts.partition.packed;
    let protects = |relro: &&Range<u64>| {
        let range = may_be_read_only(facts.image.machine.into(), relro);
        let first = packed.partition_point(|at| at.saturating_add(word) <= range.start);
        packed.get(first).is_some_and(|at| *at < range.end)
    };
    let original = match call {
        Call::Library { original } => *original,
        Call::Program => None,
    };
    Layout { code: 0, table: 0..word, relro: relro.filter(protects).cloned(), original }
}

/// Bytes of the code, where the loader protects `relro`.
pub fn len(call: &Call, facts: &Facts<'_, '_>, relro: Option<&Range<u64>>) -> Result<u64, Stop> {
    Ok(assemble(facts.image.machine.into(), &layout(call, facts, relro))?.len() as u64)
}

/// Finds room for the code; may let a segment grow, or add one.
pub fn find_room(call: &Call, facts: &Facts<'_, '_>, moves: Moves, room: &mut Room) -> Result<Spot, Stop> {
    let image = facts.image;
    let len = len(call, facts, room.relro.as_ref())?;
    let run = facts.run.range();
    let is_code = |load: &Load| load.head.flags & PF_X.0 != 0 && !load.head.is_writable();
    if room.loads.iter().any(|load| is_code(load) && load.head.in_file().contains(&run.start)) {
        return Ok(Spot::Tables);
    }
    for index in 0..room.loads.len() {
        let next = room.loads.get(index + 1).map(|next| next.head.vaddr);
        let load = &mut room.loads[index];
        let file_end = load.head.in_file().end;
        let at = up(file_end, CODE_ALIGN);
        let limit = next.map_or(u64::MAX, |next| down(next, granule(image, &load.head)));
        let fits = load.head.memsz == load.head.filesz && at.checked_add(len).is_some_and(|end| end <= limit);
        if is_code(load) && fits && is_free(image, moves, file_end, at + len) {
            load.head.filesz = at + len - load.head.vaddr;
            load.head.memsz = load.head.filesz;
            return Ok(Spot::At(at));
        }
    }
    let none = |_| {
        let hemmed = moves == Moves::Not && layout::growth(image).is_none();
        let why = if hemmed {
            ": the code of the file has no free bytes behind it, and something lies behind its end"
        } else {
            ""
        };
        refuse(Reason::NoCodeRoom, format!("there is no room for the code that applies the table{why}"))
    };
    add_segment(facts, moves, room, len, PF_R.0 | PF_X.0).map(Spot::At).map_err(none)
}

/// Writes the code and everything that leads to it. Edits are to be painted in their order, the dynamic section before.
pub fn write(
    call: &Call,
    facts: &Facts<'_, '_>,
    at: u64,
    table: Range<u64>,
    relro: Option<&Range<u64>>,
    dynamic_at: u64,
    entries: &mut Entries,
) -> Result<(Initialiser, Vec<(u64, Fill)>), Stop> {
    let (image, word) = (facts.image, facts.image.word);
    let layout = Layout { code: at, table, ..layout(call, facts, relro) };
    let code = assemble(image.machine.into(), &layout)?;
    let range = at..at + code.len() as u64;
    let mut edits = vec![(at, Fill::Bytes(code))];
    let mut initialiser = Initialiser { code: range, slot: None, tags: Vec::new() };
    match call {
        Call::Library { .. } => initialiser.tags.push((DT_INIT, at)),
        Call::Program => {
            let slot = dynamic_at + entries.len() as u64 * entry_len(word);
            let main = entries.list.iter().find(|entry| entry.0 == facts.places.main.form.tags()[0]);
            let main = main.ok_or_else(|| Error::bug("the relocation of the initialiser has no table"))?.1;
            let mut relocation = Vec::new();
            push_word(&mut relocation, slot, word);
            push_word(&mut relocation, image.machine.relative().into(), word);
            if facts.places.main.form == Form::Rela {
                push_word(&mut relocation, at, word);
            }
            let mut target = Vec::new();
            push_word(&mut target, at, word);
            edits.extend([(main, Fill::Bytes(relocation)), (slot, Fill::Bytes(target))]);
            initialiser.slot = Some(slot..slot + word.bytes());
            initialiser.tags.extend([(DT_PREINIT_ARRAY, slot), (DT_PREINIT_ARRAYSZ, word.bytes())]);
        }
    }
    initialiser.tags.iter().for_each(|(tag, value)| entries.set(*tag, *value));
    Ok((initialiser, edits))
}

/// What the oracle may find different.
pub fn expected(draft: &Draft) -> Vec<Allowed> {
    let Some(initialiser) = &draft.initialiser else { return Vec::new() };
    let new = |range: &Range<u64>| Allowed::New { at: range.start, len: range.end - range.start };
    let mut allowed = vec![new(&initialiser.code)];
    allowed.push(Allowed::Initialiser { table: draft.relr.start, len: draft.relr.end - draft.relr.start });
    allowed.extend(initialiser.slot.iter().map(new));
    let tag = |(tag, value): &(DynamicTag, u64)| Allowed::Dynamic { tag: tag.0 as u64, value: Some(*value) };
    allowed.extend(initialiser.tags.iter().map(tag));
    allowed
}
