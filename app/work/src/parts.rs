//! What this thaw consists of: the programs that it starts and the libraries that it loads, and where each is.

use crate::{collecting, pageloads, stores, watch};
use heaprec::guest::{self, Version};
use model::{Error, Exit, Result, shown};
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
    let thaw = std::env::current_exe()
        .map_err(|cause| Error::new(Exit::Machine, "cannot find thaw's own file", "/proc/self/exe").because(cause))?;
    let part = |serves, place| Part { serves, place };
    let at = |path: &Path| shown(path);
    let launcher = thaw.with_file_name("thaw-preload");
    let launcher = match launcher.is_file() {
        true => Ok(at(&launcher)),
        false => Err(Error::on(Exit::Machine, "the launcher is not beside thaw:", &launcher)),
    };
    Ok(vec![
        part(
            "thaw heap",
            guest::place(&thaw).and_then(|path| Ok(format!("{}, guest {}", at(&path), Version::of(&path)?))),
        ),
        part("thaw touch --engine byte", watch::byte::find().map(|tool| at(tool.directory()))),
        part("thaw preload, thaw optimize", launcher),
        part("thaw proxy", pageloads::proxy_program().map(|path| at(&path))),
        part("thaw store serve", stores::serve_program().map(|path| at(&path))),
        part("thaw fleet collect", collecting::program().map(|path| at(&path))),
    ])
}
