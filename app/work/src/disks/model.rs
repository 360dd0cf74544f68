//! What a start would have cost on another disk, as its requests came and sorted.

use super::{Start, starts};
use crate::recorded::Loaded;
use crate::report::Source;
use disk::fit::{self, Fitted};
use disk::model::Model;
use disk::preset::{Preset, Presets};
use disk::replay::device_file;
use disk::report::{Report, report};
use model::{CacheState, Error, Exit, Result, RunId};
use recording::Reader;
use serde::Serialize;
use std::path::{Path, PathBuf};

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
pub struct DisksDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The disks, with the source of every figure.
    pub disks: Vec<Preset>,
}

/// Which disks, and which start.
#[derive(Clone, Copy, Debug)]
pub struct Modelled<'a> {
    /// Names of disks; none: all.
    pub disks: &'a [String],
    /// A file with more disks.
    pub disks_file: Option<&'a Path>,
    /// What to measure for the disk `this`.
    pub this: Option<&'a Path>,
    /// The traced start of this run; `None`: the one of each program that tells most.
    pub run: Option<i64>,
}

impl Modelled<'_> {
    fn presets(&self) -> Result<Presets> {
        let mut presets = Presets::builtin();
        if let Some(file) = self.disks_file {
            presets.extend_from(file)?;
        }
        Ok(presets)
    }

    fn wants_this(&self) -> bool {
        self.this.is_some() || self.disks.iter().any(|name| name == THIS)
    }
}

/// The disks that are known.
///
/// # Errors
/// A file that has none; an unknown name.
pub fn all(asked: &Modelled<'_>) -> Result<DisksDocument> {
    let presets = asked.presets()?;
    let disks = chosen(asked, &presets)?.into_iter().cloned().collect();
    Ok(DisksDocument { schema: "thaw.disks/1", disks })
}

/// The starts of a recording on other disks. `told`: what is measured, before it is.
///
/// # Errors
/// No trace in the recording; an unknown disk; `this` may not be measured.
pub fn modelled(path: &Path, asked: &Modelled<'_>, told: &dyn Fn(&Path)) -> Result<ModelDocument> {
    let presets = asked.presets()?;
    let chosen = chosen(asked, &presets)?;
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let starts = starts(path, &reader, &loaded, asked.run)?;
    let this = asked.wants_this().then(|| measured(asked.this, &starts, told)).transpose()?;
    let models: Vec<&Model> =
        chosen.iter().map(|preset| &preset.model).chain(this.as_ref().map(|fitted| &fitted.model)).collect();
    let modelled = |start: &Start<'_>| ModelledStart {
        run: start.row.id,
        variant: start.variant.clone(),
        state: start.row.state,
        model: report(&start.trace.blocks, start.length(), &models),
    };
    let starts = starts.iter().map(modelled).collect();
    Ok(ModelDocument { schema: "thaw.io-model/1", recording: loaded.source, starts, this })
}

/// The presets that were named, each once, or all.
fn chosen<'a>(asked: &Modelled<'_>, presets: &'a Presets) -> Result<Vec<&'a Preset>> {
    if asked.disks.is_empty() {
        return Ok(presets.all().collect());
    }
    let mut chosen: Vec<&Preset> = Vec::new();
    for name in asked.disks.iter().filter(|name| *name != THIS) {
        let preset = presets.get(name)?;
        if !chosen.iter().any(|known| known.model.name == preset.model.name) {
            chosen.push(preset);
        }
    }
    Ok(chosen)
}

/// Measures what was named, or the device that the first start read from.
fn measured(named: Option<&Path>, starts: &[Start<'_>], told: &dyn Fn(&Path)) -> Result<Fitted> {
    if let Some(path) = named {
        return measure(path, told);
    }
    // A device that is closed to us, or elsewhere, has files that are not.
    device_of(starts).and_then(|device| measure(&device, told)).map_err(|mut error| {
        let hints = [error.hint.take(), Some("name it, or a file of a few GiB on it: --this PATH".into())];
        error.hint(hints.into_iter().flatten().collect::<Vec<String>>().join("\n"))
    })
}

fn measure(path: &Path, told: &dyn Fn(&Path)) -> Result<Fitted> {
    told(path);
    fit::fit(&fit::measure(path, 1)?)
}

fn device_of(starts: &[Start<'_>]) -> Result<PathBuf> {
    let report = starts.iter().find_map(|start| report(&start.trace.blocks, start.length(), &[]));
    match report {
        Some(report) => device_file(report.device),
        None => Err(Error::new(Exit::Data, "the start made no request, so nobody knows which disk is meant by", THIS)),
    }
}
