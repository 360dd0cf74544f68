//! `thaw ping`: what was typed.

use super::values;
use clap::{ArgGroup, Args, ValueHint};
use ping::Remedy;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `thaw ping`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "enable", "forget", "show"]))]
pub struct PingArgs {
    /// The program's name in pings: small letters, digits and ._-
    #[arg(long, value_name = "NAME")]
    pub app: String,
    /// The program's version
    #[arg(long, value_name = "VERSION", default_value = "unknown")]
    pub app_version: String,
    /// When has it started? notify, listen:PORT, http:URL, file:PATH, x11; the first one given stops the clock, the
    /// others are milestones
    #[arg(long, value_name = "PROBE")]
    pub ready: Vec<String>,
    /// What was done to its files, so that its effect shows in the field: preload, packed, ordered, archive
    #[arg(long, value_name = "REMEDY", value_delimiter = ',', value_parser = remedy)]
    pub remedy: Vec<Remedy>,
    /// A start that is not ready by then is not told of
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = values::duration)]
    pub timeout: Duration,
    /// Where pings lie until they are sent [default: $XDG_STATE_HOME/thaw/pings]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spool: Option<PathBuf>,
    /// Agree: from now on starts of this program are measured here. Before, it is only started
    #[arg(long)]
    pub enable: bool,
    /// Do not agree any more: throw away the machine's token and what was not sent
    #[arg(long)]
    pub forget: bool,
    /// Print what would be sent
    #[arg(long)]
    pub show: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

fn remedy(word: &str) -> Result<Remedy, String> {
    Remedy::ALL.iter().copied().find(|remedy| remedy.as_str() == word).ok_or_else(|| {
        let words: Vec<&str> = Remedy::ALL.iter().map(|remedy| remedy.as_str()).collect();
        format!("'{word}' is no remedy; they are {}", words.join(", "))
    })
}

pub(super) const LONG_ABOUT: &str = "\
How long do starts of my program take on this machine, if its user agrees to tell?

Becomes the program, which has the same process number, terminal and streams as without thaw; a process beside it \
looks at the start without any rights, keeps one line of figures, and ends. Nothing is measured before --enable. \
A ping has no paths, names, words or hosts in it, and no time finer than a day: docs/ping.schema.json has every field \
and why it is there. Whatever goes wrong, the program starts.";

const USAGE: &str = "\
thaw ping --app NAME [--app-version V] --ready PROBE -- PROGRAM ARGS...
       thaw ping --app NAME --enable | --show | --forget";

const EXAMPLES: &str = "\
Examples:
  thaw ping --app editor --enable
  thaw ping --app editor --app-version 1.2 --ready x11 -- /usr/lib/editor/editor
  thaw ping --app editor --show";
