//! Options for commands around the starts, under the names that hyperfine gave them.

use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of verbs that start programs many times.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Commands around the starts")]
pub struct AroundArgs {
    /// Run this command once, before the first start of each program
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub setup: Vec<OsString>,
    /// Run this command before each start, and before the caches are brought into their state; given once for all
    /// programs or once for each
    #[arg(long, short = 'p', value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub prepare: Vec<OsString>,
    /// Run this command after each start; given once for all programs or once for each
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub conclude: Vec<OsString>,
    /// Run this command once, after the last start, also after Ctrl-C
    #[arg(long, short = 'c', value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub cleanup: Vec<OsString>,
    /// The shell of these commands (usually /bin/sh); the program itself is then one line for it too, and the shell's
    /// own start is measured with it
    #[arg(long, short = 'S', value_name = "SHELL", value_hint = ValueHint::ExecutablePath)]
    pub shell: Option<PathBuf>,
}
