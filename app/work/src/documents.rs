//! Where the documents lie that `dev/site` makes of docs/.

use crate::own;
use model::{Error, Exit, Result};
use std::path::{Path, PathBuf};

/// From the command's directory: installed, installed as Debian names packages' directories, in a source tree.
const PLACES: [&str; 3] = ["../share/doc/thaw/site", "../share/doc/thawlab/site", "../site"];

/// Their first page.
///
/// # Errors
/// They are nowhere beside this command.
pub fn front() -> Result<PathBuf> {
    beside(own::file()?.parent().unwrap_or(Path::new("/")))
}

fn beside(directory: &Path) -> Result<PathBuf> {
    let pages = PLACES.map(|place| directory.join(place).join("index.html"));
    let found = pages.iter().find_map(|page| page.canonicalize().ok());
    found.ok_or_else(|| {
        Error::on(Exit::Machine, "the documents are not installed:", &pages[0]).hint(
            "in a source tree `make site` makes them; `thaw VERB --help` and `man thaw-VERB` say what each verb does",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_where_they_are_installed_and_where_they_are_made() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let missing = beside(&bin).unwrap_err().to_string();
        assert!(missing.contains("not installed") && missing.contains("share/doc/thaw/site/index.html"), "{missing}");
        for place in PLACES.iter().rev() {
            let site = bin.join(place);
            std::fs::create_dir_all(&site).unwrap();
            std::fs::write(site.join("index.html"), "").unwrap();
            assert_eq!(beside(&bin).unwrap(), site.join("index.html").canonicalize().unwrap());
        }
    }
}
