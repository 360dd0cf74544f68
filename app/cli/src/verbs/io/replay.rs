//! `thaw io replay`: what does this disk gain when a start's requests come sorted?

use super::{Start, starts};
use crate::args::io::ReplayArgs;
use crate::args::values;
use crate::progress::Progress;
use crate::{output, plan, text};
use disk::fio;
use disk::replay::{Reads, Through, Timing, device_file, device_name, time};
use disk::simulate::{Request, by_device};
use model::{BlockRow, CacheState, Error, Exit, Result, RunId, Warning, WarningKind};
use recording::{Fact, Reader};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use work::progress::Tell;
use work::recorded::{Loaded, SIMULATED_DISK, USED_DEV};
use work::report::Source;

/// `thaw.io-replay/1`
#[derive(Serialize)]
pub struct ReplayDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where the requests come from.
    pub recording: Source,
    /// The run.
    pub run: RunId,
    /// The program.
    pub variant: String,
    /// The state that it started in.
    pub state: CacheState,
    /// The device that the requests were for, packed by `makedev`.
    pub device: u64,
    /// Both orders; times in seconds.
    pub timing: Timing,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// Reads everything again, or writes the log for fio.
///
/// # Errors
/// No trace in the recording, no request in the trace; nothing that may be read.
pub fn run(args: &ReplayArgs, quiet: bool) -> Result<Exit> {
    let reader = Reader::open(&args.recording)?;
    let loaded = Loaded::of(&args.recording, &reader)?;
    let start = starts(&args.recording, &reader, &loaded, args.run)?.swap_remove(0);
    let devices = own_requests(&start);
    if devices.is_empty() {
        return Err(Error::on(Exit::Data, "the traced start made no request to a disk:", &args.recording)
            .hint("record it as root, in the state cold"));
    }
    if let Some(target) = &args.fio {
        return export(args, &devices, target);
    }
    os::interrupt::install()?;
    let (device, requests) = &devices[0];
    let of_disk = |fact: &&Fact| fact.subject == SIMULATED_DISK && fact.key == USED_DEV;
    let simulated = loaded.facts.iter().find(of_disk).is_some_and(|fact| fact.value == device.to_string());
    let (reads, warnings) = open(args, &start, *device, requests, simulated)?;
    let mut progress = Progress::new(quiet);
    let passes = args.runs * 2;
    let seed = args.seed.unwrap_or_else(plan::seed_of_clock);
    let timing = time(&reads, args.runs, args.depth, seed, &mut |done| {
        progress.note(&format!("pass {} of {passes}", done + 1), Duration::ZERO);
    })?;
    progress.done();
    let document = ReplayDocument {
        schema: "thaw.io-replay/1",
        run: start.row.id,
        variant: start.variant,
        state: start.row.state,
        device: *device,
        timing,
        warnings,
        recording: loaded.source,
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::io::replay(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// The program's requests by device, the one with the most bytes first.
fn own_requests(start: &Start<'_>) -> Vec<(u64, Vec<Request>)> {
    let length = start.length();
    let own = start.trace.blocks.iter().filter(|block| block.pid.is_some() && block.start_ns <= length);
    by_device(&own.cloned().collect::<Vec<BlockRow>>())
}

/// The device, or the files on it where that may not be read.
fn open(
    args: &ReplayArgs,
    start: &Start<'_>,
    dev: u64,
    requests: &[Request],
    simulated: bool,
) -> Result<(Reads, Vec<Warning>)> {
    let device = || {
        if simulated {
            return Err(Error::new(Exit::Usage, "the simulated disk of the recording is gone", "")
                .hint("read its files where they really lie: --through files"));
        }
        Reads::through_device(&device_file(dev)?, requests)
    };
    let mut warnings = Vec::new();
    let reads = match args.through {
        Some(values::Through::Device) => device()?,
        Some(values::Through::Files) => Reads::through_files(&start.trace, dev, start.length())?,
        None => match device() {
            Ok(reads) => reads,
            Err(error) => {
                let text = format!("the device was not read ({error}); the ranges were read through their files");
                warnings.push(Warning::new(WarningKind::Note, text));
                Reads::through_files(&start.trace, dev, start.length())?
            }
        },
    };
    if reads.is_empty() {
        let why = match reads.through {
            Through::Files => "none of the files is here as it was recorded",
            Through::Device => "it read nothing, or the device is smaller now",
        };
        return Err(Error::on(Exit::Machine, "nothing of the start can be read again:", &args.recording)
            .because(why)
            .hint("replay it on the machine where it was recorded"));
    }
    Ok((reads, warnings))
}

/// Writes the log and prints how to use it.
fn export(args: &ReplayArgs, devices: &[(u64, Vec<Request>)], target: &Path) -> Result<Exit> {
    let version = if args.fio_version == 2 { fio::Version::V2 } else { fio::Version::V3 };
    let names: Vec<PathBuf> = devices.iter().map(|(dev, _)| device_name(*dev)).collect();
    let named: Vec<(&Path, &[Request])> =
        names.iter().zip(devices).map(|(name, (_, requests))| (name.as_path(), requests.as_slice())).collect();
    output::file(target, fio::export(version, &named)?.as_bytes(), args.force.existing())?;
    output::page(&text::io::fio(target, &names, text::width::of_terminal()))?;
    Ok(Exit::Done)
}
