//! What this thaw consists of: the programs that it starts and the libraries that it loads, and where each is.

use crate::{collecting, own, pageloads, stores, watch};
use heaprec::guest::{self, Version};
use model::{Result, shown};
use std::path::Path;

/// A part.
#[derive(Debug)]
pub struct Part {
    /// What needs it.
    pub serves: &'static str,
    /// Where it is, and more where that counts.
    pub place: Result<String>,
}

/// All of them, whether they are here or not.
///
/// # Errors
/// thaw's own file is unknown.
pub fn all() -> Result<Vec<Part>> {
    let thaw = own::file()?;
    let part = |serves, place| Part { serves, place };
    let at = |path: &Path| shown(path);
    Ok(vec![
        part(
            "thaw heap",
            guest::place(&thaw).and_then(|path| Ok(format!("{}, guest {}", at(&path), Version::of(&path)?))),
        ),
        part("thaw touch --engine byte", watch::byte::find().map(|tool| at(tool.directory()))),
        part(
            "thaw preload, thaw optimize",
            own::beside("thaw-preload", "the launcher", "thawlab").map(|path| at(&path)),
        ),
        part("thaw image", own::beside("thaw-image", "the launcher", "thawlab").map(|path| at(&path))),
        part("thaw proxy", pageloads::proxy_program().map(|path| at(&path))),
        part("thaw store serve", stores::serve_program().map(|path| at(&path))),
        part("thaw fleet collect", collecting::program().map(|path| at(&path))),
    ])
}
