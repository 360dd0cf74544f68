//! What this disk gains when a start's requests come sorted.

use super::{Start, starts};
use crate::progress::Tell;
use crate::recorded::{Loaded, SIMULATED_DISK, USED_DEV};
use crate::report::Source;
use disk::fio;
use disk::replay::{Reads, Through, Timing, device_file, device_name, time};
use disk::simulate::{Request, by_device};
use model::{BlockRow, CacheState, Error, Exit, Result, RunId, Warning, WarningKind};
use recording::{Fact, Reader};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// What is read again, and how.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// The traced start of this run; `None`: the first.
    pub run: Option<i64>,
    /// Passes in each order.
    pub runs: u32,
    /// Reads in flight at the same time.
    pub depth: u32,
    /// The device or the files; `None`: the files if the device may not be read.
    pub through: Option<Through>,
    /// Seed of the random order.
    pub seed: u64,
}

/// Reads everything again.
///
/// # Errors
/// No trace in the recording, no request in the trace; nothing that may be read.
pub fn replay(recording: &Path, asked: &Replay, progress: &mut dyn Tell) -> Result<ReplayDocument> {
    let reader = Reader::open(recording)?;
    let loaded = Loaded::of(recording, &reader)?;
    let start = starts(recording, &reader, &loaded, asked.run)?.swap_remove(0);
    let devices = requested(recording, &start)?;
    os::interrupt::install()?;
    let (device, requests) = &devices[0];
    let of_disk = |fact: &&Fact| fact.subject == SIMULATED_DISK && fact.key == USED_DEV;
    let simulated = loaded.facts.iter().find(of_disk).is_some_and(|fact| fact.value == device.to_string());
    let (reads, warnings) = open(recording, asked.through, &start, *device, requests, simulated)?;
    let passes = asked.runs * 2;
    let timing = time(&reads, asked.runs, asked.depth, asked.seed, &mut |done| {
        progress.note(&format!("pass {} of {passes}", done + 1), Duration::ZERO);
    })?;
    progress.done();
    Ok(ReplayDocument {
        schema: "thaw.io-replay/1",
        run: start.row.id,
        variant: start.variant,
        state: start.row.state,
        device: *device,
        timing,
        warnings,
        recording: loaded.source,
    })
}

/// A log for fio.
pub struct Fio {
    /// Its text.
    pub log: String,
    /// The devices in it, as it names them.
    pub devices: Vec<PathBuf>,
}

/// The requests of a start as a log for fio.
///
/// # Errors
/// No trace in the recording, no request in the trace.
pub fn export(recording: &Path, run: Option<i64>, version: fio::Version) -> Result<Fio> {
    let reader = Reader::open(recording)?;
    let loaded = Loaded::of(recording, &reader)?;
    let start = starts(recording, &reader, &loaded, run)?.swap_remove(0);
    let requests = requested(recording, &start)?;
    let devices: Vec<PathBuf> = requests.iter().map(|(dev, _)| device_name(*dev)).collect();
    let named: Vec<(&Path, &[Request])> =
        devices.iter().zip(&requests).map(|(name, (_, requests))| (name.as_path(), requests.as_slice())).collect();
    Ok(Fio { log: fio::export(version, &named)?, devices })
}

/// The program's requests by device; some.
fn requested(recording: &Path, start: &Start<'_>) -> Result<Vec<(u64, Vec<Request>)>> {
    let devices = own_requests(start);
    match devices.is_empty() {
        false => Ok(devices),
        true => Err(Error::on(Exit::Data, "the traced start made no request to a disk:", recording)
            .hint("record it as root, in the state cold")),
    }
}

/// The program's requests by device, the one with the most bytes first.
fn own_requests(start: &Start<'_>) -> Vec<(u64, Vec<Request>)> {
    let length = start.length();
    let own = start.trace.blocks.iter().filter(|block| block.pid.is_some() && block.start_ns <= length);
    by_device(&own.cloned().collect::<Vec<BlockRow>>())
}

/// The device, or the files on it where that may not be read.
fn open(
    recording: &Path,
    through: Option<Through>,
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
    let reads = match through {
        Some(Through::Device) => device()?,
        Some(Through::Files) => Reads::through_files(&start.trace, dev, start.length())?,
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
        return Err(Error::on(Exit::Machine, "nothing of the start can be read again:", recording)
            .because(why)
            .hint("replay it on the machine where it was recorded"));
    }
    Ok((reads, warnings))
}
