//! `thaw optimize`: plan, build, measure, keep what helped.
//!
//! The original is only read. Everything is built in a directory beside DIR that is in the journal, and becomes DIR by one rename at the end: a
//! run that is ended early leaves nothing, and a killed one leaves what `thaw doctor --mend` removes. The starts are measured by a `thaw record` of its own,
//! because a simulated disk takes hold of the whole process.

pub mod apply;
mod archives;
mod build;
mod measure;
mod plan;
mod run;
pub mod source;

use crate::args::optimize::OptimizeArgs;
use crate::{output, text};
use build::Copies;
use model::{Error, Exit, Result};
use optimize::choose::{Measured, verdict};
use optimize::files;
use optimize::manifest::{Manifest, NAME, SCHEMA, Tried, this_machine};
use optimize::remedy::{Set, name_of};
use plan::Plan;
use source::Source;
use stats::Estimate;
use std::path::{Path, PathBuf};

/// Plans, builds, measures; or applies, or undoes, or starts a program with what helped. [`Exit::No`]: nothing helped.
///
/// # Errors
/// No program or no traced start in the recording; a place that makes no sense; no room; a program that does not start.
pub fn optimize_or_apply(args: &OptimizeArgs, quiet: bool) -> Result<Exit> {
    if let Some(directory) = &args.run {
        return run::start(directory, &args.words);
    }
    os::interrupt::install()?;
    if let Some(directory) = &args.apply {
        return apply::apply(args, directory);
    }
    if let Some(directory) = &args.undo {
        return apply::undo(args, directory);
    }
    let recording = args.recording.as_deref().ok_or_else(|| Error::bug("the arguments need a recording"))?;
    let out = args.output.as_deref().map(files::absolute).transpose()?;
    let source = Source::read(recording, args)?;
    let out = out.filter(|_| !args.plan);
    out.iter().try_for_each(|out| check_place(&source, out, args))?;
    let mut plan = Plan::of(&source, args)?;
    if out.is_some() && !rustix::process::geteuid().is_root() {
        plan.without_changed_files("putting copies over files for a measurement needs root");
    }
    let mut manifest = manifest(&source, &plan, args);
    let Some(out) = out else {
        match args.json {
            true => output::json(&manifest)?,
            false => output::page(&text::optimize::plan_alone(&manifest, text::width::of_terminal()))?,
        }
        return Ok(Exit::Done);
    };
    let is_nothing = plan.remedies.is_empty();
    if is_nothing || !args.json {
        say(&manifest, None, args.json)?;
    }
    if is_nothing {
        return Ok(Exit::No);
    }
    optimize(&source, &plan, &mut manifest, &out, args, quiet)
}

/// Builds, measures, keeps.
fn optimize(
    source: &Source,
    plan: &Plan,
    manifest: &mut Manifest,
    out: &Path,
    args: &OptimizeArgs,
    quiet: bool,
) -> Result<Exit> {
    let mut copies = Copies::begin(source, plan, out, args)?;
    let mut measured = Measured::default();
    loop {
        let mut sets = measured.next(&plan.remedies);
        if sets.is_empty() {
            break;
        }
        // Only runs of one round are pairs: what new sets are compared with is measured again beside them.
        for set in [measured.best(), Set::new()] {
            if !sets.contains(&set) {
                sets.insert(0, set);
            }
        }
        for set in &sets {
            copies.add(set)?;
        }
        copies.check(&sets, args.check.as_deref())?;
        copies.learn(&sets, quiet)?;
        let (recording, page) = copies.next_files();
        for (set, times) in measure::measure(&mut copies, &sets, args.runs, quiet)? {
            measured.times.entry(set).or_default().extend(times);
        }
        if copies.rounds() > 1 {
            let names: Vec<String> = sets.iter().filter(|set| !set.is_empty()).map(name_of).collect();
            manifest.notes.push(format!("measured in a further round: {} ({recording}, {page})", names.join(", ")));
        }
    }
    copies.check_untouched()?;
    for set in measured.times.keys().filter(|set| !set.is_empty()) {
        let ratio = measured.ratio(set).unwrap_or(Estimate { value: f64::NAN, interval: None });
        let at = manifest.tried.iter().position(|tried| tried.set == *set).unwrap_or_else(|| {
            manifest.tried.push(Tried { predicted: plan.predict(source, set), ..Tried::of(set.clone()) });
            manifest.tried.len() - 1
        });
        manifest.tried[at].verdict = Some(verdict(&ratio));
        manifest.tried[at].measured = has_value(ratio);
    }
    manifest.runs = args.runs;
    if manifest.tried.iter().any(|tried| tried.measured.is_none_or(|ratio| ratio.interval.is_none())) {
        let why = "where a ratio has no interval there were too few runs that count, and nothing is proven; take more: --runs";
        manifest.notes.push(why.into());
    }
    manifest.kept = measured.best();
    copies.finish(manifest, out)?;
    say(manifest, Some(out), args.json)?;
    Ok(if manifest.kept.is_empty() { Exit::No } else { Exit::Done })
}

/// A copy none of whose runs counted has no ratio.
fn has_value(ratio: Estimate) -> Option<Estimate> {
    ratio.value.is_finite().then_some(ratio)
}

fn say(manifest: &Manifest, out: Option<&Path>, json: bool) -> Result<()> {
    match (json, out) {
        (true, _) => output::json(manifest),
        (false, None) => output::page(&text::optimize::plan(manifest, text::width::of_terminal())),
        (false, Some(out)) => output::page(&text::optimize::result(manifest, out, text::width::of_terminal())),
    }
}

fn manifest(source: &Source, plan: &Plan, args: &OptimizeArgs) -> Manifest {
    Manifest {
        schema: SCHEMA.into(),
        thaw: env!("CARGO_PKG_VERSION").into(),
        made_unix_ns: os::machine::now_unix_ns(),
        machine: this_machine(),
        host: os::machine::host(),
        recording: source.recording.clone(),
        root: source.directory().to_owned(),
        program: source.program.strip_prefix(source.directory()).unwrap_or(&source.program).to_owned(),
        start: Some(source.start.clone()),
        state: source.state,
        disk: plan.disk.name.clone(),
        disk_because: source.disk_because(args).into(),
        runs: 0,
        tried: plan.tried(source),
        kept: Set::new(),
        files: Vec::new(),
        advice: plan.advice.clone(),
        notes: plan.notes.clone(),
    }
}

/// Everything that can be refused before anything is written.
fn check_place(source: &Source, out: &Path, args: &OptimizeArgs) -> Result<()> {
    work::start::head::check_states(&[source.state])?;
    if let Some(root) = &source.root {
        files::check_apart(root, out)?;
    }
    if let Ok(entries) = std::fs::read_dir(out) {
        let is_empty = entries.count() == 0;
        match (is_empty, out.join(NAME).exists(), args.force) {
            (true, ..) | (_, true, true) => {}
            (_, true, false) => {
                return Err(
                    Error::on(Exit::Usage, "an earlier result is already there:", out).hint("--force replaces it")
                );
            }
            (_, false, _) => {
                return Err(Error::on(Exit::Usage, "this directory holds something else:", out)
                    .hint("-o DIR names a new or empty directory, or with --force an earlier result"));
            }
        }
    } else if std::fs::symlink_metadata(out).is_ok() {
        return Err(Error::on(Exit::Usage, "this is no directory:", out).hint("-o DIR names a new or empty directory"));
    }
    Ok(())
}

/// The name of a set as a part of a path.
fn folder(set: &Set) -> PathBuf {
    name_of(set).into()
}
