//! What `thaw pageload` is to do.

use super::USUAL_READ_AHEAD_KIB;
use crate::args::pageload::{PageloadArgs, State as TypedState};
use crate::args::values::DiskChoice;
use disk::preset::Presets;
use disk::simulated::Pace;
use model::{Error, Exit, Result};
use os::cgroup::Throttle;
use pageload::drive::Kind;
use pageload::plan::{Page, State, Via};
use pageload::site::SiteOptions;
use recording::Replace;
use work::pageloads::{Asked, LoadDisk};

/// From what was typed.
///
/// # Errors
/// What does not go together; a disk that nobody knows.
pub fn pageload(args: &PageloadArgs) -> Result<Asked> {
    let options = SiteOptions { images: args.images as usize, ..SiteOptions::default() };
    let page = match &args.url {
        Some(url) => Page::Url(url.clone()),
        None => Page::Site { options, latency: args.latency },
    };
    let mut browsers = Vec::new();
    for typed in &args.browser {
        if browsers.iter().any(|(kind, _)| *kind == typed.kind) {
            return Err(Error::new(Exit::Usage, "a browser is given twice:", typed.kind));
        }
        browsers.push((typed.kind, typed.program.clone()));
    }
    if browsers.is_empty() {
        browsers.push((Kind::Chromium, None));
    }
    let mut vias = Vec::new();
    for via in &args.via {
        if vias.contains(via) {
            return Err(Error::new(Exit::Usage, "a cache is given twice:", via));
        }
        vias.push(via.clone());
    }
    if vias.is_empty() {
        vias.push(Via::Direct);
    }
    if let Some(command) = &args.restart
        && !vias.iter().any(|via| matches!(via, Via::Proxy(_)))
    {
        return Err(Error::new(Exit::Usage, "--restart needs a proxy of yours, --via http://HOST:PORT:", command));
    }
    let states = args.state.iter().map(|state| match state {
        TypedState::First => State::First,
        TypedState::Warm => State::Warm,
        TypedState::Reload => State::Reload,
        TypedState::Cold => State::Cold,
    });
    let replace = if args.force { Replace::Recording } else { Replace::Never };
    Ok(Asked {
        page,
        browsers,
        vias,
        states: states.collect(),
        runs: args.runs,
        patience: args.timeout,
        restart: args.restart.clone(),
        disk: disk(args)?,
        seed: args.seed,
        output: args.output.clone().map(|path| (path, replace)),
        command_line: std::env::args_os().collect(),
    })
}

fn disk(args: &PageloadArgs) -> Result<LoadDisk> {
    let (name, pace) = match &args.disk {
        None => return Ok(LoadDisk::Own),
        Some(DiskChoice::Limit(limit)) if args.disks_file.is_none() => {
            return Ok(LoadDisk::Limited(Throttle { iops: limit.iops, bps: limit.bps }));
        }
        Some(DiskChoice::Limit(_)) => {
            return Err(Error::new(Exit::Usage, "a limit on the machine's own disk has no", "--disks-file"));
        }
        Some(DiskChoice::Simulated(name)) => (name, Pace::Model),
        Some(DiskChoice::Quick(name)) => (name, Pace::Recorded),
    };
    let mut presets = Presets::builtin();
    if let Some(file) = &args.disks_file {
        presets.extend_from(file)?;
    }
    let preset = Box::new(presets.get(name)?.clone());
    Ok(LoadDisk::Simulated { preset, pace, read_ahead_kib: USUAL_READ_AHEAD_KIB })
}
