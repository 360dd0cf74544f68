//! `thaw sweep`: what was typed.

use super::record::RecordArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw sweep`: those of `thaw record`, and what is varied.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(mut_arg("state", |arg| arg.default_value("hot")), mut_arg("needed", |arg| arg.default_value("no")))]
#[command(mut_arg("trace_runs", |arg| arg.default_value("1")))]
#[command(mut_arg("parameter", |arg| arg.visible_alias("sweep")))]
pub struct SweepArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub record: RecordArgs,
    /// Start the program so many times, one start after the other, and put nothing back between them: does it grow with
    /// each start?
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12..=100_000))]
    #[arg(conflicts_with_all = ["parameter", "aa", "precision", "restore", "runs"], help_heading = "What to record")]
    pub cycles: Option<u32>,
    /// What would it be at these values of the parameter, or after so many starts? Beyond those that were measured
    /// that is an extrapolation, and is called so
    #[arg(long, value_name = "VALUES", value_delimiter = ',', value_parser = not_negative, help_heading = "The answer")]
    pub at: Vec<f64>,
    /// Record nothing: answer from this recording of `thaw sweep`, or of `thaw record --parameter`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    #[arg(conflicts_with_all = ["cycles", "parameter", "command", "app", "variant", "output"])]
    pub from: Option<PathBuf>,
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("'{text}' is no number from 0 on"))
}

pub(super) const LONG_ABOUT: &str = "\
How does the start grow: with the number of tabs, of files, of plug-ins, or with each restart?

Starts the program with each value of a parameter, in random blocks, or many times in a row with nothing put back. \
Tells of time, CPU, bytes, requests and memory whether they stay, or grow as log n, n, n log n or n², how sure that \
is, and what the curve says of other values. Where the runs cannot tell it says so. At least four values; the further \
apart the better. Takes all options of `thaw record`.";

const USAGE: &str = "\
thaw sweep [OPTIONS] --sweep NAME=VALUES -- PROGRAM {NAME}...
       thaw sweep [OPTIONS] --cycles N --app NAME
       thaw sweep --from FILE [--at VALUES]";

const EXAMPLES: &str = "\
Examples:
  thaw sweep --sweep n=1,10,100,1000 --at 10000 -- ./app --plug-ins {n}
      Does it take longer with more plug-ins, and how long with 10,000?
  thaw sweep --app firefox-esr --sweep tabs=1,20,100,500 --prepare './make-session {tabs} {profile}'
      A session of so many tabs is made in the fresh profile before each start.
  thaw sweep --cycles 200 --app firefox-esr
      Two hundred starts of one profile: does it get slower with each?";
