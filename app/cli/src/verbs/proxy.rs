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
    let program = work::pageloads::proxy_program()?;
    let cause = Command::new(&program).args(&args.options).exec();
    Err(Error::on(Exit::Machine, "cannot start", &program).because(cause))
}
