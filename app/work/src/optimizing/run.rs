//! What lies over what for a start with a result.

use crate::images::start::Besides;
use model::{Error, shown};
use optimize::manifest::{Manifest, this_machine};
use os::covers::Covers;
use std::path::{Path, PathBuf};

/// The image in the directory of a result, if it is kept and of this machine.
pub fn image(manifest: &Manifest, directory: &Path) -> Option<PathBuf> {
    let kept = manifest.image.as_ref()?.kept.as_ref()?;
    (manifest.machine == this_machine()).then(|| directory.join(kept))
}

/// The copies that lie over the originals, with the image and without it.
///
/// # Errors
/// Why none may lie there: they are of another machine, or an original was changed.
pub fn besides(manifest: &Manifest, directory: &Path) -> Result<Besides, String> {
    let has_copies = !manifest.files.is_empty() || !manifest.directories.is_empty();
    if has_copies && manifest.machine != this_machine() {
        return Err(format!("they were measured on another machine ({})", manifest.host));
    }
    let in_image = |path: &Path| {
        let image = manifest.image.as_ref().filter(|image| image.kept.is_some());
        image.is_some_and(|image| path.starts_with(&image.directory))
    };
    // Files of two versions of a program must not be mixed.
    if let Some(file) = manifest.files.iter().find(|file| !file.is_as_seen(manifest)) {
        return Err(format!("{} was changed since they were made", shown(&file.path)));
    }
    if let Some(of) = manifest.directories.iter().find(|of| !of.is_as_seen()) {
        return Err(format!("{} was changed since they were made", shown(&of.path)));
    }
    let files = manifest.files.iter().map(|file| (file.copy(directory), file.original(manifest)));
    let caches = manifest.directories.iter().map(|of| (directory.join(&of.copy), of.path.clone()));
    let pairs: Vec<(PathBuf, PathBuf)> = files.chain(caches).collect();
    let covers = |is_covered: &dyn Fn(&Path) -> bool| {
        let pairs = pairs.iter().filter(|(_, original)| is_covered(original));
        Covers::new(pairs.map(|(copy, original)| (&**copy, &**original))).map_err(|error: Error| error.to_string())
    };
    Ok(Besides { with_image: covers(&|path| !in_image(path))?, without: covers(&|_| true)? })
}
