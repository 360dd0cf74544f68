//! What an image costs beside what it gains: room on the disk, hot starts, page cache.

use super::build::{Ahead, Copies};
use super::image;
use ::image::check::Opened;
use bench::conduct::Host;
use bench::record::{Lab, LabOptions, Program};
use model::{CacheState, Error, Exit, Result, RunKind};
use optimize::choose::Measured;
use optimize::manifest::{Cost, Manifest};
use optimize::remedy::{Remedy, Set};

/// Takes down what the image of the directory as it is costs, if one was built. `hot`: hot starts.
///
/// # Errors
/// The image is damaged; interrupted.
pub fn of_image(copies: &Copies<'_>, manifest: &mut Manifest, hot: &Measured) -> Result<()> {
    let (none, alone) = (Set::new(), Set::from([Remedy::Image]));
    let Some(path) = copies.image(&alone).filter(|path| path.exists()) else { return Ok(()) };
    let Some(about) = &mut manifest.image else { return Ok(()) };
    let opened = Opened::open(&path)?;
    let size = opened.file.metadata().map_err(|cause| Error::on(Exit::Machine, "cannot look at", &path).because(cause));
    let mut cost = Cost {
        size: model::Bytes(size?.len()),
        stretch: opened.about.start,
        hot_without_s: hot.seconds(&none),
        hot_with_s: hot.seconds(&alone),
        memory_without: None,
        memory_files: None,
        memory_image: None,
    };
    let mut program = copies.checked(&none, None, Ahead::No)?;
    program.covers.clear();
    let start = || started(&program);
    let looked = image::memory(&about.directory, None, &start)
        .and_then(|without| Ok((without, image::memory(&about.directory, Some(&path), &start)?)));
    match looked {
        Ok((without, with)) => {
            cost.memory_without = Some(without.files);
            (cost.memory_files, cost.memory_image) = (Some(with.files), Some(with.image));
        }
        Err(error) if error.exit == Exit::Interrupted => return Err(error),
        Err(error) => manifest.notes.push(format!("what the image takes of the page cache is unknown: {error}")),
    }
    about.cost = Some(cost);
    Ok(())
}

/// Starts the program once, in the mount namespace of this thread.
fn started(program: &Program) -> Result<()> {
    let options = LabOptions { snapshot_dir: Some(os::journal::state_dir()?), ..LabOptions::default() };
    let (mut lab, _) = Lab::open(vec![program.clone()], options)?;
    let outcome = lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {})?;
    lab.close();
    match outcome.row.accepted {
        true => Ok(()),
        false => Err(Error::new(Exit::Target, "the program does not start:", &program.name)
            .because(outcome.row.rejected_because.unwrap_or_else(|| "it failed".into()))),
    }
}
