//! Packing as a whole, on bytes: facts, decisions, the new file, and the report of it.

use crate::apply::{self, Built};
use crate::image::Image;
use crate::options::{Backend, Options, Space};
use crate::plan::{Draft, Facts, Moves};
use crate::refuse::{Stop, refuse};
use crate::report::{BlobMove, Packed, Plan, Reason, Relocations, SegmentMove};
use model::{Bytes, Error, Exit, FileOffset, PAGE};

/// Packs, and gives the parts of the new file.
pub fn pack<'a>(bytes: &'a [u8], options: &Options) -> Result<(Packed, Built<'a>), Stop> {
    if options.backend == Backend::Init {
        let error = Error::new(Exit::Usage, "cannot pack for loaders without DT_RELR", "--backend init");
        return Err(error.hint("this version of thaw has the back-end 'relr' only").into());
    }
    let image = Image::parse(bytes)?;
    let facts = Facts::of(&image)?;
    let moves = if options.space == Space::Shrink { Moves::Up } else { Moves::Not };
    let mut draft = crate::plan::decide(&facts, moves)?;
    let built = apply::build(&facts, &mut draft, moves, options.section_type)?;
    let (before, after) = (bytes.len() as u64, built.canvas.len());
    if options.space == Space::Shrink && after + PAGE > before {
        return Err(refuse(Reason::NoGain, "it would not get smaller by a page"));
    }
    let packed = report(&facts, &draft, options, after, built.freed.end - built.freed.start);
    Ok((packed, built))
}

fn report(facts: &Facts<'_, '_>, draft: &Draft, options: &Options, after: u64, freed: u64) -> Packed {
    let partition = &facts.partition;
    let mut notes = Vec::new();
    if facts.version_need() == crate::report::VersionNeed::NotNeeded && facts.loader != crate::report::Loader::Musl {
        notes.push("it needs no version of libc, so that a glibc older than 2.36 loads it and crashes".to_owned());
    }
    Packed {
        backend: options.backend,
        space: options.space,
        size_before: Bytes(facts.image.bytes.len() as u64),
        size_after: Bytes(after),
        freed: Bytes(freed),
        loader: facts.loader,
        version_need: facts.version_need(),
        relocations: Relocations {
            relative: partition.relative,
            packed: partition.packed.len() as u64,
            kept: partition.kept.clone(),
            table_before: Bytes(facts.places.main.len),
            table_after: Bytes(partition.rest.len() as u64),
            relr: Bytes(facts.relr.len() as u64),
        },
        plan: plan(draft),
        notes,
    }
}

/// What moves, for people.
pub fn plan(draft: &Draft) -> Plan {
    Plan {
        blobs: draft
            .moved
            .iter()
            .map(|moved| BlobMove {
                name: moved.name.clone(),
                from: moved.from,
                to: moved.to,
                len_before: Bytes(moved.len_before),
                len_after: Bytes(moved.len),
            })
            .collect(),
        segments: draft
            .loads
            .iter()
            .map(|load| SegmentMove {
                address: load.head.vaddr,
                from: load.chunks.first().map(|chunk| FileOffset(chunk.from.start)),
                to: FileOffset(load.head.offset),
                len: Bytes(load.head.filesz),
            })
            .collect(),
        header_slots: draft.slots.clone(),
        dynamic_place: draft.dynamic_place,
        dynamic: draft.entries.edits.clone(),
    }
}
