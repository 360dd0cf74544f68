//! pprof's protocol buffer, gzipped: all blocks made, and those live at the moment that was asked for.

use super::Export;
use crate::modes::{Heap, Measure};
use flate2::Compression;
use flate2::write::GzEncoder;
use heapfile::event::Process;
use model::shown;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use wire::pprof::{About, Frame, Profile};

/// Values of a sample and their units.
const VALUES: [(&str, &str); 4] =
    [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];

pub fn write(export: &Export, (main, _): (&Process, &Heap), out: &mut dyn Write) -> io::Result<()> {
    let mut profile = Profile::new(GzEncoder::new(out, Compression::default()), &VALUES)?;
    let live = if export.measure == Measure::Peak { Measure::Peak } else { Measure::End };
    for (_, site, stack) in export.named.sites() {
        let (made, live) = (site.figures.made, live.of(&site.figures));
        let frames = stack.iter().map(|frame| u64::from(frame.0) + 1);
        profile.sample(frames, [made.blocks, made.bytes, live.blocks, live.bytes], &[])?;
    }
    let frames = export.named.names.frames();
    // pprof takes the first object for the program.
    let exe = shown(&main.exe);
    let modules: BTreeSet<(bool, &str)> =
        frames.iter().map(|frame| (frame.module != exe, frame.module.as_str())).collect();
    let mut numbers = HashMap::new();
    for ((_, module), number) in modules.into_iter().zip(1..) {
        // Addresses are those of files, so that all mappings begin at 0.
        profile.mapping(number, module)?;
        numbers.insert(module, number);
    }
    for (frame, number) in frames.iter().zip(1..) {
        profile.frame(&Frame {
            number,
            mapping: numbers.get(frame.module.as_str()).copied().unwrap_or(0),
            address: frame.address,
            line: u64::from(frame.line.unwrap_or(0)),
            function: &frame.label(),
            file: frame.file.as_deref().unwrap_or_default(),
        })?;
    }
    let about = About {
        started_unix_ns: export.reader.recording().created_unix_ns,
        duration_ns: export.named.heaps.iter().map(|heap| heap.last.0).max().unwrap_or(0),
        period: None,
        default: match export.measure {
            Measure::Made | Measure::Temporary => "alloc_space",
            Measure::End | Measure::Peak | Measure::Reached(_) => "inuse_space",
        },
    };
    profile.finish(&about)?.finish()?;
    Ok(())
}
