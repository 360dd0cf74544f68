//! `thaw doctor`: what was typed.

use clap::Args;

/// Arguments of `thaw doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Put back what killed runs left: read-ahead, governor, cgroups, directories, tracing instances
    #[arg(long)]
    pub mend: bool,
    /// Throw away what thaw keeps between runs because it takes long to find out; it is found out anew
    #[arg(long)]
    pub empty: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What can this machine measure, and what did a killed run leave behind?

Tries each thing that a recording may need and says what works, what does not, and what to type to change that. Then \
lists what runs that were killed (kill -9, power cut) left behind. Exit code 1 if something is left.";

const EXAMPLES: &str = "\
Examples:
  thaw doctor
  thaw doctor --mend
  thaw doctor --json | jq '.abilities[] | select(.works | not)'";
