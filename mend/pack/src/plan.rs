//! Decides, and changes nothing: what of the relocation table can go, where the loader's tables, the dynamic section
//! and the program headers find their room, and which segment is split or cut. The world is one argument: the file.

use crate::canvas::Fill;
use crate::draft::{Draft, Front, Moves};
use crate::dynamic;
use crate::facts::Facts;
use crate::headers;
use crate::image::{Image, down, up};
use crate::init::call::{CODE_ALIGN, Spot};
use crate::init::code;
use crate::layout::Load;
use crate::report::{DynamicPlace, Reason, Refusal};
use crate::room::{TableAt, granule, no_room, room_for_dynamic};
use crate::slots;
use crate::stack::{Stack, alignment};
use crate::stop::{Stop, refuse};
use crate::tables::Kind;
use object::elf::DT_RELR;

/// Decides everything, with the first place for the dynamic section that works.
pub fn decide(facts: &Facts<'_, '_>, moves: Moves, front: Front) -> Result<Draft, Stop> {
    if front == Front::Wanted
        && let Ok(draft) = attempt(facts, moves, DynamicPlace::ReadOnly)
    {
        return Ok(draft);
    }
    let places: &[DynamicPlace] = if facts.dynamic_room(&facts.entries()) <= facts.dynamic.capacity {
        &[DynamicPlace::Stays]
    } else {
        // Read-only among the loader's tables, which some tools do not expect, it goes only where that is asked for.
        use DynamicPlace::{NewSegment, SegmentHead, SegmentTail};
        &[SegmentTail, SegmentHead, NewSegment]
    };
    let mut first = None;
    for place in places {
        match attempt(facts, moves, *place) {
            Ok(draft) => return Ok(draft),
            Err(Stop::Failed(error)) => return Err(Stop::Failed(error)),
            Err(stop) => {
                // That there is no room in one place is no reason while another may do.
                let is_about_room = matches!(&stop, Stop::Refused(refusal) if refusal.reason == Reason::NoDynamicSlot);
                if first.is_none() || !is_about_room {
                    first = Some(stop);
                }
            }
        }
    }
    Err(match first {
        Some(Stop::Refused(refusal)) if refusal.reason == Reason::NoDynamicSlot && !facts.is_program() => {
            let hint = "`--dynamic-first` puts it among the loader's tables, read-only".to_owned();
            Stop::Refused(Refusal { hint: Some(hint), ..refusal })
        }
        Some(stop) => stop,
        None => no_room(),
    })
}

/// Where what the loader makes read-only ends. Where that is the end of a segment that became one with the next, it has
/// to be the end of a page, or the loader leaves its last page writable; the rest of the page is nobody's.
fn sealed_to(image: &Image<'_>, loads: &[Load], end: u64) -> u64 {
    let Some(home) = image.loads().find(|load| load.in_memory().end == end) else { return end };
    if loads.iter().any(|load| load.head.in_memory().end == end) {
        return end;
    }
    let page = up(end, granule(image, home));
    let next = image.loads().map(|load| load.vaddr).filter(|start| *start >= end).min();
    if next.is_some_and(|next| page <= next) { page } else { end }
}

/// Decides everything but the offsets, for one place of the dynamic section.
fn attempt(facts: &Facts<'_, '_>, moves: Moves, place: DynamicPlace) -> Result<Draft, Stop> {
    let image = facts.image;
    let word = image.word;
    let damaged = || refuse(Reason::Damaged, "the loader's tables are not all there");
    let mut entries = facts.entries();
    let capacity = if place == DynamicPlace::Stays { facts.dynamic.capacity } else { facts.dynamic_room(&entries) };
    let dynamic_len = capacity as u64 * dynamic::entry_len(word);
    let mut room = room_for_dynamic(facts, moves, place, dynamic_len)?;
    let spot = facts.call.as_ref().map(|call| code::find_room(call, facts, moves, &mut room)).transpose()?;
    let run = facts.run.range();

    // Does the segment of the run end with it, or is it to be split?
    let home = image.loads().find(|load| load.in_file().contains(&run.start)).ok_or_else(damaged)?.clone();
    let home_end = home.in_file().end;
    let behind = |start: u64| (run.end..home_end).contains(&start);
    let next_section = image.sections.iter().filter(|section| section.is_loaded() && section.size != 0);
    let next_section = next_section.map(|section| section.addr).filter(|addr| behind(*addr)).min();
    let ends = next_section.is_none()
        && image.at(run.end, home_end - run.end).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
        && home.memsz == home.filesz
        && !image.segments.iter().any(|other| !other.is_load() && other.filesz != 0 && behind(other.vaddr));
    let splits = moves == Moves::Up && !ends;
    let mut loads = room.loads;
    let slots = slots::find(facts, moves, &mut loads, room.new_segments + usize::from(splits))?;
    if let Some(relro) = &mut room.relro {
        relro.end = sealed_to(image, &loads, relro.end);
    }

    // The loader's tables, from the first one that changes on.
    let mut stack = Stack::default();
    let mut first = facts.run.tables.iter().position(|table| facts.changes(table.kind)).unwrap_or(0);
    stack.cursor = facts.run.tables[first].vaddr;
    if let Some(start) = slots.neighbours_to {
        // What made room for the program headers comes in front, and all tables behind it.
        (first, stack.cursor) = (0, start);
    }
    let start = stack.cursor;
    let mut left = Vec::new();
    for neighbour in &slots.neighbours {
        left.push(neighbour.zero());
        stack.neighbour(image, neighbour)?;
    }
    // Tables that change and lie elsewhere come to the others.
    let elsewhere = facts.tables.iter().filter(|table| !facts.run.has(table.kind) && facts.changes(table.kind));
    let mut relr = 0..0;
    for table in facts.run.tables[first..].iter().chain(elsewhere) {
        let bytes = match facts.changes(table.kind) {
            true => facts.new_content(table.kind).ok_or_else(damaged)?,
            false => image.at(table.vaddr, table.len).ok_or_else(damaged)?.to_vec(),
        };
        if !facts.run.has(table.kind) {
            left.push(table.zero());
        }
        let is_gone = bytes.is_empty();
        let name = table.kind.name(&facts.places);
        let to = stack.put(name, Some((table.vaddr, table.len)), bytes, alignment(image, table));
        if !is_gone {
            entries.set(table.kind.tag(&facts.places), to);
        }
        if table.kind == Kind::Relocations {
            let name = if facts.call.is_some() { ".thaw.relr" } else { ".relr.dyn" };
            let at = stack.put(name, None, facts.relr.clone(), word.bytes());
            relr = at..stack.cursor;
            if facts.call.is_none() {
                entries.set(DT_RELR, at);
            }
        }
    }
    let dynamic_at = match room.table {
        TableAt::Address(table) => table,
        TableAt::Tables => stack.reserve(dynamic_len, word.bytes()),
        TableAt::Mapped { load, above } => {
            let offset = home.offset + (stack.reserve(dynamic_len, word.bytes()) - home.vaddr);
            let head = &mut loads[load].head;
            head.offset = offset;
            head.vaddr = above + offset % head.align;
            head.paddr = head.vaddr;
            head.vaddr
        }
    };
    let code_at = match (&facts.call, spot) {
        (Some(call), Some(Spot::Tables)) => stack.reserve(code::len(call, facts, room.relro.as_ref())?, CODE_ALIGN),
        (_, Some(Spot::At(at))) => at,
        _ => 0,
    };
    let Stack { cursor: end, mut edits, moved } = stack;
    if end > run.end {
        let sentence = "the packed table and what comes with it take more room than becomes free";
        return Err(refuse(Reason::NoGain, sentence));
    }
    let mut initialiser = None;
    let mut last_edits = Vec::new();
    if let Some(call) = &facts.call {
        let (written, edits) =
            code::write(call, facts, code_at, relr.clone(), room.relro.as_ref(), dynamic_at, &mut entries)?;
        initialiser = Some(written);
        last_edits = edits;
    }
    if dynamic_at != facts.dynamic.vaddr {
        // Readers of the table's own address (`_DYNAMIC`) find everything but the packed table at the old place.
        let old = dynamic::encode(&entries.known_to(&facts.dynamic), facts.dynamic.capacity, word);
        edits.push((facts.dynamic.vaddr, Fill::Bytes(old)));
    }
    edits.push((dynamic_at, Fill::Bytes(dynamic::encode(&entries.list, capacity, word))));
    edits.append(&mut last_edits);

    // The segment of the run.
    let index = loads.iter().position(|load| load.head.in_file().contains(&run.start)).ok_or_else(damaged)?;
    let mut freed = end..run.end;
    match moves {
        Moves::Not => {}
        Moves::Up if ends => {
            loads[index].truncate(end);
            freed.end = home_end;
        }
        Moves::Up => {
            // The first byte behind need not begin a page; both parts only must not share one in memory.
            let grain = granule(image, &loads[index].head);
            if down(run.end, grain) < up(end, grain) {
                return Err(refuse(Reason::NoGain, "the room that becomes free is less than a page"));
            }
            let tail = loads[index].split_off(run.end);
            loads[index].truncate(end);
            loads.insert(index + 1, tail);
        }
    }
    // Nothing of the old tables shows through, not even between the new ones.
    let old_end = if moves == Moves::Not { run.end } else { end };
    edits.insert(0, (start, Fill::Zero(old_end - start)));
    edits.splice(0..0, left);
    let mut draft = Draft {
        loads,
        headers: Vec::new(),
        slots: slots.used,
        edits,
        moved,
        relr,
        dynamic_place: place,
        dynamic: dynamic_at..dynamic_at + dynamic_len,
        entries,
        freed,
        relro: room.relro,
        initialiser,
    };
    draft.headers = headers::renew(facts, &draft, &slots.neighbours)?;
    Ok(draft)
}
