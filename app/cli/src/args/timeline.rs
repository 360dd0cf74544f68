//! `thaw timeline`: what was typed.

use super::RowsArgs;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw timeline`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: TimelineVerb,
}

/// What to do with events.
#[derive(Debug, Subcommand)]
pub enum TimelineVerb {
    /// What waited longest, and which types of objects wait most?
    #[command(long_about = REPORT_ABOUT, after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// What has to be faster for the whole to be faster? (the critical path)
    #[command(long_about = PATH_ABOUT, after_help = PATH_EXAMPLES)]
    Path(PathArgs),
    /// What is waited for, all waits added up?
    #[command(long_about = WAITS_ABOUT, after_help = WAITS_EXAMPLES)]
    Waits(ReportArgs),
    /// What would it bring? (more of a resource, something faster, something gone)
    #[command(name = "whatif", long_about = WHATIF_ABOUT, after_help = WHATIF_EXAMPLES)]
    WhatIf(WhatIfArgs),
    /// What has changed on the critical path from one trace to another?
    #[command(long_about = COMPARE_ABOUT, after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Switch events of running programs on
    #[command(long_about = START_ABOUT, after_help = START_EXAMPLES)]
    Start(SwitchArgs),
    /// Switch events of running programs off; their files stay
    #[command(long_about = STOP_ABOUT, after_help = STOP_EXAMPLES)]
    Stop(SwitchArgs),
}

/// Arguments of `thaw timeline report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of events, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Between which moments.
#[derive(Debug, Args)]
pub struct EndsArgs {
    /// Where the path begins: a time from the beginning (12.5ms), an object's name or a type [default: the first event]
    #[arg(long, value_name = "TIME|NAME|TYPE")]
    pub from: Option<String>,
    /// Where it ends: a time, an object's name or a type [default: what ended last]
    #[arg(long, value_name = "TIME|NAME|TYPE")]
    pub to: Option<String>,
}

/// Arguments of `thaw timeline path`.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub ends: EndsArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline whatif`.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// So many can have this resource at once; without any change, the resources are listed
    #[arg(long, value_name = "NAME=N", value_parser = resource)]
    pub resource: Vec<(String, usize)>,
    /// Work and unexplained waits of this type (a::* is all of a namespace) are so many times as fast
    #[arg(long, value_name = "TYPE=FACTOR", value_parser = faster)]
    pub faster: Vec<(String, f64)>,
    /// This object, or all of this type, is not there
    #[arg(long, value_name = "OBJECT|TYPE")]
    pub without: Vec<String>,
    #[command(flatten)]
    pub ends: EndsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The file of events, or the directory with such files, from before
    #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
    pub before: PathBuf,
    /// The one from after
    #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
    pub after: PathBuf,
    #[command(flatten)]
    pub ends: EndsArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// A name and what follows its last equals sign.
fn named(word: &str) -> Result<(String, &str), String> {
    let (name, value) = word.rsplit_once('=').ok_or("there is no =")?;
    if name.is_empty() { Err("there is no name before the =".into()) } else { Ok((name.to_owned(), value)) }
}

fn resource(word: &str) -> Result<(String, usize), String> {
    let (name, count) = named(word)?;
    let count = count.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    Ok((name, count.ok_or("the count is a whole number from 1 to 1000000")?))
}

fn faster(word: &str) -> Result<(String, f64), String> {
    let (name, factor) = named(word)?;
    let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    Ok((name, factor.ok_or("the factor is a number above 0")?))
}

/// Arguments of `thaw timeline start` and `stop`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Files that running programs write, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

pub(super) const LONG_ABOUT: &str = "\
What waits for what, by the events that a program writes?

A program that includes thaw_events.h, or uses the crate thawlab-events, says when an object begins to wait, is \
worked on and is done. It does so when the environment variable THAW_EVENTS names a directory: each process makes one \
file there, which outlives it.";

const EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline path /tmp/events
  thaw timeline stop /tmp/events";

const REPORT_ABOUT: &str = "\
What waited longest, and which types of objects wait most?

Puts the events of each process together: from the moment an object begins to wait, or is worked on, until it is \
done. Says what the file lost.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline report /tmp/events/4711.events --all
  thaw timeline report /tmp/events --json";

const PATH_ABOUT: &str = "\
What has to be faster for the whole to be faster?

Walks back in time from what ended last (or from --to), from hand-over to hand-over: at the end of each wait it looks \
for a link, then for who held the resource before, then for what the thread ran meanwhile. Every nanosecond has one \
owner and a class that says how it is known; what nothing tells is unexplained.";

const PATH_EXAMPLES: &str = "\
Examples:
  thaw timeline path /tmp/events
  thaw timeline path /tmp/events --from net::open --to 'first paint'
  thaw timeline path /tmp/events --to 350ms --json";

const WAITS_ABOUT: &str = "\
What is waited for, all waits added up?

By type, by object, and by what was waited for: who released it, who held the resource, what its thread ran.";

const WAITS_EXAMPLES: &str = "\
Examples:
  thaw timeline waits /tmp/events
  thaw timeline waits /tmp/events --top 5 --json";

const WHATIF_ABOUT: &str = "\
What would it bring to have more of a resource, something faster, or something gone?

Goes through all intervals again by what had to happen before what, with the changes and with so many of each \
resource. It first replays the trace unchanged: how far that is from what was measured is the error, which is printed \
with the answer.";

const WHATIF_EXAMPLES: &str = "\
Examples:
  thaw timeline whatif /tmp/events --resource pool::in_use=12
  thaw timeline whatif /tmp/events --faster 'disk::*=4' --without http://localhost/slow.js
  thaw timeline whatif /tmp/events";

const COMPARE_ABOUT: &str = "\
What has changed on the critical path from one trace to another?

Steps of the same object and type are laid side by side in their order; the others are new or gone. Objects are known \
by their names.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  thaw timeline compare before/ after/
  thaw timeline compare before.events after.events --to 'first paint' --json";

const START_ABOUT: &str = "\
Which running programs shall write events from now on?

Switches on those that were started with THAW_EVENTS=DIR,off, or were stopped; each obeys at its next event.";

const START_EXAMPLES: &str = "\
Examples:
  thaw timeline start /tmp/events
  thaw timeline start /tmp/events/4711.events";

const STOP_ABOUT: &str = "\
Which running programs shall write no more events?

What they wrote stays; `thaw timeline start` lets them go on.";

const STOP_EXAMPLES: &str = "\
Examples:
  thaw timeline stop /tmp/events
  thaw timeline stop /tmp/events/4711.events";
