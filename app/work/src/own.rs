//! thaw's own file, and the programs that lie beside it.

use model::{Error, Exit, Result};
use std::path::PathBuf;

/// thaw's own file.
///
/// # Errors
/// The kernel does not tell it.
pub fn file() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|cause| Error::new(Exit::Machine, "cannot find thaw's own file", "/proc/self/exe").because(cause))
}

/// A program of thaw's that lies in the same directory. `what` it is called in messages; `package` makes it in a source
/// tree.
///
/// # Errors
/// It does not.
pub fn beside(program: &str, what: &str, package: &str) -> Result<PathBuf> {
    let program = file()?.with_file_name(program);
    if !program.is_file() {
        let hint = format!(
            "install both programs in the same directory; in a source tree: cargo build --release -p {package}"
        );
        return Err(Error::on(Exit::Machine, format!("{what} is not beside thaw:"), &program).hint(hint));
    }
    Ok(program)
}
