//! `thaw io`: what would another disk, or another order, make of a start?

use crate::args::io::{IoArgs, IoVerb, ModelArgs, ReplayArgs};
use crate::args::values;
use crate::progress::Progress;
use crate::{output, plan, text};
use ::disk::fio;
use ::disk::replay::Through;
use model::{Exit, Result};
use work::disks::{self, Modelled, Replay};

/// Does what was asked.
///
/// # Errors
/// A file that is no recording, a recording without a trace, a disk that nobody knows or that may not be read.
pub fn run(args: &IoArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        IoVerb::Model(typed) => model(typed),
        IoVerb::Replay(typed) => replay(typed, quiet),
    }
}

/// Prints the table.
fn model(args: &ModelArgs) -> Result<Exit> {
    let asked = Modelled {
        disks: &args.disk,
        disks_file: args.disks_file.as_deref(),
        this: args.this.as_deref(),
        run: args.run,
    };
    let width = text::width::of_terminal();
    let Some(path) = args.recording.as_deref().filter(|_| !args.list) else {
        let document = disks::all(&asked)?;
        output::answer(args.json, &document, || text::io::disks(&document, width))?;
        return Ok(Exit::Done);
    };
    let told = |path: &std::path::Path| output::complain(&format!("measuring {}\n", path.display()));
    let document = disks::modelled(path, &asked, &told)?;
    output::answer(args.json, &document, || text::io::model(&document, width))?;
    Ok(Exit::Done)
}

/// Reads everything again, or writes the log for fio.
fn replay(args: &ReplayArgs, quiet: bool) -> Result<Exit> {
    if let Some(target) = &args.fio {
        let version = if args.fio_version == 2 { fio::Version::V2 } else { fio::Version::V3 };
        let fio = disks::export(&args.recording, args.run, version)?;
        output::file(target, fio.log.as_bytes(), args.force.existing())?;
        output::page(&text::io::fio(target, &fio.devices, text::width::of_terminal()))?;
        return Ok(Exit::Done);
    }
    let asked = Replay {
        run: args.run,
        runs: args.runs,
        depth: args.depth,
        through: args.through.map(|through| match through {
            values::Through::Device => Through::Device,
            values::Through::Files => Through::Files,
        }),
        seed: args.seed.unwrap_or_else(plan::seed_of_clock),
    };
    let document = disks::replay(&args.recording, &asked, &mut Progress::new(quiet))?;
    output::answer(args.json, &document, || text::io::replay(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}
