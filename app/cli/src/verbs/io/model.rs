//! `thaw io model`: what would the start have cost on another disk, as its requests came and sorted?

use super::{Start, starts};
use crate::args::io::ModelArgs;
use crate::{output, text};
use disk::fit::{self, Fitted};
use disk::model::Model;
use disk::preset::{Preset, Presets};
use disk::replay::device_file;
use disk::report::{Report, report};
use model::{CacheState, Error, Exit, Result, RunId};
use recording::Reader;
use serde::Serialize;
use std::path::{Path, PathBuf};
use work::recorded::Loaded;
use work::report::Source;

/// The disk of this machine, measured.
const THIS: &str = "this";

/// `thaw.io-model/1`
#[derive(Serialize)]
pub struct ModelDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where the requests come from.
    pub recording: Source,
    /// One start of each program, or the one that was asked for.
    pub starts: Vec<ModelledStart>,
    /// How the disk `this` was measured, and how well the model fits.
    pub this: Option<Fitted>,
}

/// A start on other disks.
#[derive(Serialize)]
pub struct ModelledStart {
    /// Its run.
    pub run: RunId,
    /// The program.
    pub variant: String,
    /// The state that it started in.
    pub state: CacheState,
    /// What it would have cost. `None`: it made no request.
    pub model: Option<Report>,
}

/// `thaw.disks/1`
#[derive(Serialize)]
pub struct DisksDocument<'a> {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The disks, with the source of every figure.
    pub disks: Vec<&'a Preset>,
}

/// Prints the table.
///
/// # Errors
/// No trace in the recording; an unknown disk; `this` may not be measured.
pub fn run(args: &ModelArgs) -> Result<Exit> {
    let mut presets = Presets::builtin();
    if let Some(file) = &args.disks_file {
        presets.extend_from(file)?;
    }
    let chosen = chosen(args, &presets)?;
    let width = text::width::of_terminal();
    let Some(path) = args.recording.as_deref().filter(|_| !args.list) else {
        let document = DisksDocument { schema: "thaw.disks/1", disks: chosen };
        if args.json {
            output::json(&document)?
        } else {
            output::page(&text::io::disks(&document, width))?
        }
        return Ok(Exit::Done);
    };
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let starts = starts(path, &reader, &loaded, args.run)?;
    let this = wants_this(args).then(|| measured(args, &starts)).transpose()?;
    let models: Vec<&Model> =
        chosen.iter().map(|preset| &preset.model).chain(this.as_ref().map(|fitted| &fitted.model)).collect();
    let modelled = |start: &Start<'_>| ModelledStart {
        run: start.row.id,
        variant: start.variant.clone(),
        state: start.row.state,
        model: report(&start.trace.blocks, start.length(), &models),
    };
    let starts = starts.iter().map(modelled).collect();
    let document = ModelDocument { schema: "thaw.io-model/1", recording: loaded.source, starts, this };
    if args.json {
        output::json(&document)?
    } else {
        output::page(&text::io::model(&document, width))?
    }
    Ok(Exit::Done)
}

fn wants_this(args: &ModelArgs) -> bool {
    args.this.is_some() || args.disk.iter().any(|name| name == THIS)
}

/// The presets that were named, each once, or all.
fn chosen<'a>(args: &ModelArgs, presets: &'a Presets) -> Result<Vec<&'a Preset>> {
    if args.disk.is_empty() {
        return Ok(presets.all().collect());
    }
    let mut chosen: Vec<&Preset> = Vec::new();
    for name in args.disk.iter().filter(|name| *name != THIS) {
        let preset = presets.get(name)?;
        if !chosen.iter().any(|known| known.model.name == preset.model.name) {
            chosen.push(preset);
        }
    }
    Ok(chosen)
}

/// Measures what was named, or the device that the first start read from.
fn measured(args: &ModelArgs, starts: &[Start<'_>]) -> Result<Fitted> {
    if let Some(path) = &args.this {
        return measure(path);
    }
    // A device that is closed to us, or elsewhere, has files that are not.
    device_of(starts).and_then(|device| measure(&device)).map_err(|mut error| {
        let hints = [error.hint.take(), Some("name it, or a file of a few GiB on it: --this PATH".into())];
        error.hint(hints.into_iter().flatten().collect::<Vec<String>>().join("\n"))
    })
}

fn measure(path: &Path) -> Result<Fitted> {
    output::complain(&format!("measuring {}\n", path.display()));
    fit::fit(&fit::measure(path, 1)?)
}

fn device_of(starts: &[Start<'_>]) -> Result<PathBuf> {
    let report = starts.iter().find_map(|start| report(&start.trace.blocks, start.length(), &[]));
    match report {
        Some(report) => device_file(report.device),
        None => Err(Error::new(Exit::Data, "the start made no request, so nobody knows which disk is meant by", THIS)),
    }
}
