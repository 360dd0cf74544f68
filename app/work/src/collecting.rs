//! Where the collector of a fleet's pings is: a program of its own, so that no other verb brings code of HTTP along.

use model::Result;
use std::path::PathBuf;

/// The program `thaw-fleet`, which lies beside this one.
///
/// # Errors
/// It does not.
pub fn program() -> Result<PathBuf> {
    crate::own::beside("thaw-fleet", "the collector of pings", "thawlab-fleet")
}
