//! Where the collector of a fleet's pings is: a program of its own, so that no other verb brings code of HTTP along.

use model::{Error, Exit, Result};
use std::path::PathBuf;

/// The program `thaw-fleet`, which lies beside this one.
///
/// # Errors
/// It does not.
pub fn program() -> Result<PathBuf> {
    let beside = std::env::current_exe().map(|own| own.with_file_name("thaw-fleet"));
    let program = beside.map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw-fleet").because(cause))?;
    if !program.is_file() {
        return Err(Error::on(Exit::Machine, "the collector of pings is not beside thaw:", &program).hint(
            "install both programs in the same directory; in a source tree: cargo build --release -p thawlab-fleet",
        ));
    }
    Ok(program)
}
