//! `thaw.calls/1`: how often chosen functions are called during one start. No recording has them: they answer a
//! question of the moment, and to a recording they would look as if nothing else was touched.

use super::own_files;
use crate::plan::RecordPlan;
use crate::progress::Tell;
use crate::shell::command_line;
use crate::start::head::warm_up;
use crate::start::stage::Stage;
use crate::start::watch::{Place, Watching, prepare_telling};
use bench::conduct::{Host, with_tail};
use bench::record::Lab;
use model::{CacheState, Error, Exit, Nanos, Result, RunKind};
use serde::Serialize;
use std::time::Duration;
use touch::Trace;
use touch::function::{Counts, Functions, Helper};

/// The document.
#[derive(Debug, Serialize)]
pub struct CallsDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// What was started.
    pub command: String,
    /// When it was ready, since just before exec; `None`: it never was.
    pub ready_ns: Option<Nanos>,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Starts the program once, hot, and counts the calls of the functions whose names match. The second is what is wrong
/// with the answer: the program has failed, or a pattern says nothing.
///
/// # Errors
/// A program that does not start; another processor than x86-64; interrupted.
pub fn count(
    plan: &RecordPlan,
    patterns: &[String],
    helper: &dyn Fn() -> Result<Helper>,
    mut progress: Box<dyn Tell>,
) -> Result<(CallsDocument, Option<Error>)> {
    let stage = Stage::set(plan)?;
    warm_up(&stage, &mut *progress)?;
    let (mut lab, _) = Lab::open(stage.programs.clone(), stage.lab.clone())?;
    let counted = counted(plan, patterns, helper, &mut *progress, &stage, &mut lab);
    progress.done();
    let stays = lab.close();
    let (document, trouble) = counted?;
    let leftover = stays.into_iter().next().map(|stays| {
        let error = Error::new(Exit::Machine, stays.text, "");
        stays.hint.into_iter().fold(error, Error::hint)
    });
    let trouble = trouble.or_else(|| unmatched(&document.counts)).or(leftover);
    Ok((document, trouble))
}

fn counted(
    plan: &RecordPlan,
    patterns: &[String],
    helper: &dyn Fn() -> Result<Helper>,
    progress: &mut dyn Tell,
    stage: &Stage,
    lab: &mut Lab,
) -> Result<(CallsDocument, Option<Error>)> {
    let (state, kind) = (CacheState::Hot, RunKind::Touch);
    let place = Place { program: 0, inside: None, variant: 0, state, kind };
    prepare_telling(plan, lab, &mut |what, time| progress.note(what, time), place)?;
    let mut engine = Functions::new(&helper()?)?;
    engine.count(patterns.to_vec())?;
    engine.prepare(own_files(stage))?;
    let mut watching = Watching { trace: &mut engine, rows: None };
    let outcome = {
        let mut tick = |time| progress.note("a hot start, calls counted", time);
        tick(Duration::ZERO);
        lab.start(0, state, kind, Some(&mut watching), &mut tick)?
    };
    let row = outcome.row;
    let doubt = engine.doubt().filter(|_| !row.accepted);
    let failed = doubt.map(|doubt| {
        let because = row.rejected_because.clone().unwrap_or_else(|| "it failed".into());
        let because = doubt.because.iter().fold(because, |said, seen| format!("{said}; {seen}"));
        Error::new(Exit::Target, "the watched start did not get ready:", lab.name(0))
            .because(with_tail(because, &outcome.output_tail))
            .hint(doubt.hint)
    });
    let Some(counts) = engine.counts() else {
        return Err(failed.unwrap_or_else(|| Error::bug("a start was watched and nobody looked")));
    };
    let command = stage.programs.first().map(|program| command_line(&program.argv)).unwrap_or_default();
    let ready_ns = row.wall_ns.filter(|_| row.accepted);
    Ok((CallsDocument { schema: "thaw.calls/1", command, ready_ns, counts }, failed))
}

/// A pattern that no function matches may be mistyped: that is not the same as a function without calls.
fn unmatched(counts: &Counts) -> Option<Error> {
    let none: Vec<String> = counts
        .patterns
        .iter()
        .filter(|pattern| pattern.functions == 0)
        .map(|pattern| pattern.pattern.clone())
        .collect();
    let what = match counts.files {
        1 => "no function of the one program or library that was mapped matches".to_owned(),
        files => format!("no function of the {files} programs and libraries that were mapped matches"),
    };
    (!none.is_empty()).then(|| {
        Error::new(Exit::Usage, what, none.join("' or '")).hint(
            "a name is a whole one, with its namespaces and without parameters, or a symbol; `*` stands for anything. \
             Of stripped files only exported functions have names: `nm -D -C FILE` lists them",
        )
    })
}
