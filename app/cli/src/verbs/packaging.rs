//! `thaw completions` and `thaw man`, for packagers; `thaw --version --verbose`.

use crate::args::Args;
use crate::args::packaging::{CompletionsArgs, ManArgs};
use crate::{output, text};
use clap::CommandFactory;
use model::{Error, Exit, Result};

/// Prints the completions of a shell.
///
/// # Errors
/// stdout cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "thaw", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Done)
}

/// Writes `thaw.1` and one page per verb.
///
/// # Errors
/// The directory cannot be written.
pub fn man(args: &ManArgs) -> Result<Exit> {
    let cannot = |error| Error::on(Exit::Machine, "cannot write the man pages into", &args.dir).because(error);
    std::fs::create_dir_all(&args.dir).map_err(cannot)?;
    clap_mangen::generate_to(Args::command(), &args.dir).map_err(cannot)?;
    Ok(Exit::Done)
}

/// Says what this thaw is and where its parts are.
///
/// # Errors
/// thaw's own file is unknown; stdout cannot be written.
pub fn version() -> Result<Exit> {
    let parts = work::parts::all()?;
    output::page(&text::version::page(&parts, option_env!("THAW_COMMIT"), text::width::of_terminal()))?;
    Ok(Exit::Done)
}
