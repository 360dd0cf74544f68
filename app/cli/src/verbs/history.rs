//! `thaw history` and `thaw bisect`.

use crate::args::history::{AddArgs, BisectArgs, BlameArgs, HistoryArgs, HistoryVerb, ListArgs, SeriesArgs, ShowArgs};
use crate::plan::FromWords;
use crate::progress::Progress;
use crate::{output, text};
use model::{Error, Exit, Result};
use serde::Serialize;
use work::bisect::{self, Search};
use work::histories::{self, Of, Wanted};

/// Does what is typed.
///
/// # Errors
/// No history, no recording, no repository, no such commit or series.
pub fn run(args: &HistoryArgs) -> Result<Exit> {
    match &args.verb {
        HistoryVerb::Add(typed) => add(typed),
        HistoryVerb::List(typed) => list(typed),
        HistoryVerb::Show(typed) => show(typed),
        HistoryVerb::Blame(typed) => blame(typed),
    }
}

fn add(args: &AddArgs) -> Result<Exit> {
    let of = match &args.commit {
        Some(commit) => Of::Commit(commit),
        None if args.by_version => Of::Versions,
        None => Of::Head,
    };
    let document = histories::add(&args.recordings, of, &args.repo, &args.file.history)?;
    answer(&document, args.json, text::history::added)
}

fn list(args: &ListArgs) -> Result<Exit> {
    answer(&histories::list(&args.file.history)?, args.json, text::history::list)
}

fn show(args: &ShowArgs) -> Result<Exit> {
    let document = histories::show(&args.file.history, &wanted(Some(args.metric.clone()), &args.series))?;
    if let Some(path) = &args.html {
        output::file(path, text::history::html(&document).as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    answer(&document, args.json, text::history::show)
}

fn blame(args: &BlameArgs) -> Result<Exit> {
    let wanted = wanted(args.metric.clone(), &args.series);
    answer(&histories::blame(&args.file.history, &wanted)?, args.json, text::history::blame)
}

fn wanted(metric: Option<String>, series: &SeriesArgs) -> Wanted {
    Wanted { metric, state: series.state.clone(), variant: series.variant.clone(), setup: series.setup }
}

fn answer<D: Serialize>(document: &D, json: bool, page: impl Fn(&D, usize) -> text::Page) -> Result<Exit> {
    output::answer(json, document, || page(document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// Bisects; [`Exit::No`] without a first bad commit.
///
/// # Errors
/// Ends that do not build or start; an interrupt. The repository is as it was found.
pub fn bisect(args: &BisectArgs, quiet: bool) -> Result<Exit> {
    let state = match args.state.0.as_slice() {
        [state] => *state,
        _ => return Err(Error::new(Exit::Usage, "a bisection is done in one cache state", "").hint("--state hot")),
    };
    let told = Progress::telling(quiet);
    let document = bisect::run(&Search {
        repo: &args.repo,
        good: &args.good,
        bad: &args.bad,
        build: args.build.as_deref(),
        program: &args.command,
        metrics: &args.metric,
        max_regression: args.max_regression,
        state,
        runs: args.runs,
        budget: args.budget,
        plans: &FromWords,
        told: &told,
    })?;
    answer(&document, args.json, text::bisect::page)?;
    Ok(if document.first_bad.is_some() { Exit::Done } else { Exit::No })
}
