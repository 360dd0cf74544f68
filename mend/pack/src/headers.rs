//! The new program headers, in the order of the old ones. Offsets are filled in when the file is laid out.

use crate::draft::Draft;
use crate::facts::Facts;
use crate::image::Segment;
use crate::report::{DynamicPlace, HeaderSlot, Reason};
use crate::slots::Neighbour;
use crate::stop::{Stop, refuse};
use object::elf::{PF_W, PT_DYNAMIC, PT_GNU_RELRO, PT_NULL, PT_PHDR};

/// Makes the headers that a draft asks for.
///
/// # Errors
/// A segment holds a part of what moves, and something else.
pub fn renew(facts: &Facts<'_, '_>, draft: &Draft, neighbours: &[Neighbour]) -> Result<Vec<Segment>, Stop> {
    let mut headers: Vec<Segment> = Vec::new();
    for segment in &facts.image.segments {
        let mut segment = segment.clone();
        match segment.kind {
            kind if kind == PT_NULL.0 && draft.slots.contains(&HeaderSlot::Unused) => continue,
            kind if kind == PT_PHDR.0 && draft.slots.contains(&HeaderSlot::DropsPhdr) => continue,
            kind if kind == PT_DYNAMIC.0 => {
                shift(&mut segment, draft.dynamic.start);
                segment.filesz = draft.dynamic.end - draft.dynamic.start;
                segment.memsz = segment.filesz;
                if draft.dynamic_place == DynamicPlace::ReadOnly {
                    segment.flags &= !PF_W.0;
                }
            }
            kind if kind == PT_GNU_RELRO.0 => {
                if let Some(relro) = draft.relro.clone().filter(|relro| *relro != segment.in_memory()) {
                    let load = draft.loads.iter().find(|load| load.head.in_memory().contains(&relro.start));
                    let bytes = load.map_or(0, |load| load.head.in_file().end.saturating_sub(relro.start));
                    shift(&mut segment, relro.start);
                    segment.memsz = relro.end - relro.start;
                    segment.filesz = segment.memsz.min(bytes);
                }
            }
            _ if segment.is_load() => {
                let of_this = draft.loads.iter().filter(|load| load.origin == Some(segment.vaddr));
                headers.extend(of_this.map(|load| load.head.clone()));
                continue;
            }
            _ if segment.filesz != 0 => follow(&mut segment, draft, neighbours)?,
            _ => {}
        }
        headers.push(segment);
    }
    let last = headers.iter().rposition(Segment::is_load).map_or(headers.len(), |last| last + 1);
    let new = draft.loads.iter().filter(|load| load.origin.is_none()).map(|load| load.head.clone());
    headers.splice(last..last, new);
    let len = headers.len() as u64 * crate::image::segment_len(facts.image.word);
    for segment in headers.iter_mut().filter(|segment| segment.kind == PT_PHDR.0) {
        segment.filesz = len;
        segment.memsz = len;
    }
    Ok(headers)
}

fn shift(segment: &mut Segment, vaddr: u64) {
    segment.paddr = segment.paddr.wrapping_add(vaddr.wrapping_sub(segment.vaddr));
    segment.vaddr = vaddr;
}

/// Lets PT_INTERP, PT_NOTE and their like follow what moved away from behind the table.
fn follow(segment: &mut Segment, draft: &Draft, neighbours: &[Neighbour]) -> Result<(), Stop> {
    let file = segment.in_file();
    let inside: Vec<&Neighbour> = neighbours.iter().filter(|moved| file.contains(&moved.vaddr)).collect();
    let (Some(first), Some(last)) =
        (inside.iter().min_by_key(|moved| moved.vaddr), inside.iter().max_by_key(|moved| moved.vaddr))
    else {
        return Ok(());
    };
    if segment.kind == PT_PHDR.0 {
        return Ok(());
    }
    let inside_end = last.vaddr + last.len;
    let places = inside.iter().filter_map(|moved| {
        let to = draft.moved.iter().find(|known| known.from == Some(moved.vaddr))?.to;
        Some((to, to + moved.len))
    });
    let (start, end) = places.fold((u64::MAX, 0), |(start, end), place| (start.min(place.0), end.max(place.1)));
    let joins = end - start == inside_end - first.vaddr;
    if first.vaddr == file.start && inside_end >= file.end && joins {
        shift(segment, start);
    } else if first.vaddr == file.start && start == file.end && joins {
        // The rest stays, and what moved follows it.
        shift(segment, inside_end);
    } else {
        return Err(refuse(Reason::NoHeaderSlot, "its notes would be torn apart by one more program header"));
    }
    Ok(())
}
