//! Packing as a whole, on bytes: facts, decisions, the new file, and the report of it.

use crate::apply::{self, Built};
use crate::debug;
use crate::draft::{Draft, Front, Moves};
use crate::facts::Facts;
use crate::image::Image;
use crate::options::{Backend, BuildId, Options, Space};
use crate::passes::{self, ClosedSet, Member, Outcome, Pass, Report, dynamic_first};
use crate::plan;
use crate::refuse;
use crate::report::{BlobMove, DynamicPlace, Loader, Packed, Plan, Reason, Relocations, SegmentMove, VersionNeed};
use crate::stop::{Stop, refuse};
use model::{Bytes, Error, Exit, FileOffset, PAGE};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use verify::Expected;

/// A file after its further passes, and what they have to say.
pub struct Prepared<'a> {
    bytes: Cow<'a, [u8]>,
    reports: Vec<Report>,
    expected: Expected,
}

/// Does the further passes.
pub fn prepare<'a>(bytes: &'a [u8], options: &Options) -> Result<Prepared<'a>, Stop> {
    let passes = &options.passes;
    if passes.wanted.is_empty() {
        return Ok(Prepared { bytes: Cow::Borrowed(bytes), reports: Vec::new(), expected: Expected::default() });
    }
    // What is refused is refused for its own reason.
    refuse::judge(&Image::parse(bytes)?)?;
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
        Ok((model::shown(path), bytes))
    };
    let files = passes.closed_set.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    let members = files.iter().map(|(label, bytes)| Member { label: label.clone(), bytes });
    let set = ClosedSet::new(members.collect(), passes.later)?;
    let edited = passes::run(bytes, &passes.wanted, &set)?;
    Ok(Prepared { bytes: Cow::Owned(edited.bytes), reports: edited.reports, expected: edited.expected })
}

impl Prepared<'_> {
    /// Packs, and gives the parts of the new file, and its debug file if there is one.
    pub fn pack(&self, options: &Options, debug: Option<(&Path, &[u8])>) -> Result<(Packed, Built<'_>), Stop> {
        let to_front =
            |report: &Report| report.pass == Pass::DynamicFirst && matches!(report.outcome, Outcome::Done { .. });
        let front = if self.reports.iter().any(to_front) { Front::Wanted } else { Front::NotWanted };
        let (mut packed, mut built) = pack(&self.bytes, options, front, debug)?;
        packed.passes = self.reports.clone();
        if packed.plan.dynamic_place != DynamicPlace::ReadOnly {
            packed
                .passes
                .iter_mut()
                .filter(|report| to_front(report))
                .for_each(|report| *report = dynamic_first::no_room());
        }
        built.expected.allowed.extend(self.expected.allowed.iter().cloned());
        Ok((packed, built))
    }
}

fn pack<'a>(
    bytes: &'a [u8],
    options: &Options,
    front: Front,
    debug: Option<(&Path, &[u8])>,
) -> Result<(Packed, Built<'a>), Stop> {
    let image = Image::parse(bytes)?;
    let facts = Facts::of(&image, options)?;
    let moves = if options.space == Space::Shrink { Moves::Up } else { Moves::Not };
    let damaged = |part| refuse(Reason::Damaged, format!("it is a damaged ELF file ({part})"));
    let original = verify::Original::read(bytes).map_err(damaged)?;
    let mut draft = plan::decide(&facts, moves, front)?;
    let built =
        Built { original: Some(Box::new(original)), ..apply::build(&facts, &mut draft, moves, options, debug)? };
    let (before, after) = (bytes.len() as u64, built.canvas.len());
    if options.space == Space::Shrink && after + PAGE > before {
        return Err(facts.partition.name_copies(refuse(Reason::NoGain, "it would not get smaller by a page")));
    }
    let packed = report(&facts, &draft, options, after, built.freed.end - built.freed.start);
    Ok((packed, built))
}

fn report(facts: &Facts<'_, '_>, draft: &Draft, options: &Options, after: u64, freed: u64) -> Packed {
    let partition = &facts.partition;
    let mut notes = Vec::new();
    if options.backend == Backend::Relr && facts.version_need() == VersionNeed::NotNeeded {
        let older = match facts.loader {
            Loader::Glibc => "it needs no version of libc, so that a glibc older than 2.36 loads it and crashes",
            Loader::Musl => "musl has no version needs, so that one older than 1.2.4 loads it and crashes",
            Loader::Either => {
                "it needs no C library, so that a glibc older than 2.36 or a musl older than 1.2.4 loads it and crashes"
            }
        };
        notes.push(older.to_owned());
    }
    let moves = options.space == Space::Shrink && options.build_id == BuildId::Keep;
    if moves && debug::own_id(facts.image).is_some() {
        let stale = "its build ID is still the original's: what keeps files by build ID (perf, debuginfod) may show \
                     names of the original's offsets; `perf buildid-cache --purge FILE` drops that, `--new-build-id` \
                     gives it one of its own";
        notes.push(stale.to_owned());
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
        plan: plan_of(draft),
        passes: Vec::new(),
        notes,
    }
}

/// What moves, for people.
pub fn plan_of(draft: &Draft) -> Plan {
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
