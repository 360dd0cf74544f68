//! `thaw view`: what was typed.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw view`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ViewArgs {
    /// A recording of starts, a heap recording (a directory), a memory report, a memory watch, or a file of events (or
    /// a directory with such files)
    #[arg(value_name = "RECORDING", value_hint = ValueHint::AnyPath)]
    pub recording: PathBuf,
    /// Show also what changed since this one, of the same kind
    #[arg(long, value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    pub since: Option<PathBuf>,
    /// Of a recording of `thaw why`, or of `thaw record --why`: show where the time went
    #[arg(long, conflicts_with = "since")]
    pub why: bool,
    /// Of a heap recording: go on while it is written, and serve its figures as OpenMetrics' text at /metrics
    #[arg(long, conflicts_with_all = ["since", "why"])]
    pub live: bool,
    /// Port on 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Only serve it: open no browser
    #[arg(long)]
    pub no_browser: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What does a recording look like?

Serves the report as a page on 127.0.0.1, for this machine alone, and opens the browser: the answer, the runs in the \
order taken, disk offset against time, each file's pages, all files and processes. Of a heap recording: memory over \
time, trees, flame graph, slop, growth; of memory reports and watches: trees, their differences, and resident memory \
over time; of events: a tape for each object; with --why, where the time of starts went. With --live a heap recording \
is shown as it grows. Ctrl-C ends it. `thaw \
report -o FILE.html`, and --html FILE of `thaw heap report`, `thaw memory show`, `thaw timeline report` and `thaw \
why`, write the same pages.";

const EXAMPLES: &str = "\
Examples:
  thaw view after.thaw --since before.thaw
  thaw view why.thaw --why
  thaw view ff.heap --live --no-browser --port 8000";
