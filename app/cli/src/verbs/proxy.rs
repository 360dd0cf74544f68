//! `thaw proxy`: becomes `thaw-proxy`, which lies beside thaw. It is a program of its own, so that no other verb brings
//! the code of HTTP along.

use crate::args::proxy::ProxyArgs;
use model::{Error, Exit, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the proxy.
///
/// # Errors
/// It is not there, or cannot be started.
pub fn run(args: &ProxyArgs) -> Result<Exit> {
    let beside = std::env::current_exe().map(|own| own.with_file_name("thaw-proxy"));
    let program = beside.map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw-proxy").because(cause))?;
    if !program.is_file() {
        return Err(Error::on(Exit::Machine, "the proxy is not beside thaw:", &program).hint(
            "install both programs in the same directory; in a source tree: cargo build --release -p thawlab-proxy",
        ));
    }
    let cause = Command::new(&program).args(&args.options).exec();
    Err(Error::on(Exit::Machine, "cannot start", &program).because(cause))
}
