//! From a recorded start to a faster one: plan, build, measure, keep what helped.
//!
//! The original is only read. Everything is built in a directory beside DIR that is in the journal, and becomes DIR by
//! one rename at the end: a run that is ended early leaves nothing, and a killed one leaves what `thaw doctor --mend`
//! removes. The starts are measured by a `thaw record` of its own, because a simulated disk takes hold of the whole
//! process.

pub mod apply;
mod archives;
mod build;
mod caches;
mod cost;
mod environment;
mod image;
mod measure;
mod owners;
mod plan;
pub mod run;
pub mod source;

pub use build::PRELOAD;

use crate::plan::Plans;
use build::{Ahead, Copies};
use model::{Error, Exit, Result};
use optimize::choose::{Measured, verdict};
use optimize::files;
use optimize::manifest::{Manifest, NAME, SCHEMA, Tried, this_machine};
use optimize::remedy::{Remedy, Set, name_of};
use os::replace::Existing;
use plan::Plan;
use source::{Source, Wishes};
use stats::Estimate;
use std::path::{Path, PathBuf};

/// What is planned for a program.
pub struct Job {
    /// What is tried, with what is predicted; after [`Job::run`] with what was measured and kept.
    pub manifest: Manifest,
    source: Source,
    plan: Plan,
    out: Option<PathBuf>,
    wishes: Wishes,
}

impl Job {
    /// Plans. This process is where the recording was made from now on. `out`: where the result is to go, if there is
    /// to be one.
    ///
    /// # Errors
    /// No program or no traced start in the recording; a place that makes no sense; a disk that is not known.
    pub fn plan(recording: &Path, out: Option<PathBuf>, wishes: Wishes, plans: &dyn Plans) -> Result<Self> {
        let source = Source::read(recording, &wishes, plans)?;
        out.iter().try_for_each(|out| check_place(&source, out, wishes.existing))?;
        let mut plan = Plan::of(&source, &wishes)?;
        if out.is_some() && !rustix::process::geteuid().is_root() {
            plan.without_changed_files("putting copies over files for a measurement needs root");
        }
        let manifest = manifest(&source, &plan, &wishes);
        Ok(Self { manifest, source, plan, out, wishes })
    }

    /// Whether there is nothing to try.
    pub fn is_nothing(&self) -> bool {
        self.plan.remedies.is_empty()
    }

    /// Builds, measures, keeps what helped.
    ///
    /// # Errors
    /// No place for the result; no room; a program that does not start; the program was changed meanwhile.
    pub fn run(&mut self, plans: &dyn Plans) -> Result<()> {
        let Self { manifest, source, plan, out, wishes } = self;
        let out = out.as_deref().ok_or_else(|| Error::bug("there is no place for the result"))?;
        optimize(source, plan, manifest, out, wishes, plans)
    }
}

/// Builds, measures, keeps.
fn optimize(
    source: &Source,
    plan: &Plan,
    manifest: &mut Manifest,
    out: &Path,
    wishes: &Wishes,
    plans: &dyn Plans,
) -> Result<()> {
    let mut copies = Copies::begin(source, plan, out, wishes)?;
    manifest.notes.extend(copies.take_notes());
    let remedies = copies.remedies();
    let mut measured = Measured::default();
    let mut hot = Measured::default();
    loop {
        let mut sets = measured.next(&remedies);
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
        copies.check(&sets, wishes.check.as_deref(), Ahead::No)?;
        measure::learn(&copies, &sets, wishes.runs_told, plans)?;
        let from_images = |set: &&Set| set.is_empty() || set.contains(&Remedy::Image);
        let from_images: Vec<Set> = sets.iter().filter(from_images).cloned().collect();
        if from_images.len() > 1 {
            copies.check(&from_images, wishes.check.as_deref(), Ahead::Yes)?;
        }
        let (recording, page) = copies.next_files();
        let round = measure::measure(&mut copies, &sets, wishes.runs, wishes.runs_told, plans)?;
        for (all, times) in [(&mut measured, round.times), (&mut hot, round.hot)] {
            times.into_iter().for_each(|(set, times)| all.times.entry(set).or_default().extend(times));
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
    manifest.runs = wishes.runs;
    if manifest.tried.iter().any(|tried| tried.measured.is_none_or(|ratio| ratio.interval.is_none())) {
        let why = "where a ratio has no interval there were too few runs that count, and nothing is proven; take \
         more: --runs";
        manifest.notes.push(why.into());
    }
    manifest.kept = measured.best();
    manifest.kept_s = measured.seconds(&manifest.kept);
    manifest.environment = optimize::environment::of_set(&manifest.kept);
    cost::of_image(&copies, manifest, &hot)?;
    copies.finish(manifest, out)
}

/// A copy none of whose runs counted has no ratio.
fn has_value(ratio: Estimate) -> Option<Estimate> {
    ratio.value.is_finite().then_some(ratio)
}

fn manifest(source: &Source, plan: &Plan, wishes: &Wishes) -> Manifest {
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
        disk_because: source.disk_because(wishes).into(),
        runs: 0,
        limit: plan.limit,
        kept_s: None,
        tried: plan.tried(source),
        kept: Set::new(),
        files: Vec::new(),
        directories: Vec::new(),
        environment: Vec::new(),
        image: plan.imaged(),
        advice: plan.advice.clone(),
        notes: plan.notes.clone(),
    }
}

/// Everything that can be refused before anything is written.
fn check_place(source: &Source, out: &Path, existing: Existing) -> Result<()> {
    crate::start::head::check_states(&[source.state])?;
    if let Some(root) = &source.root {
        files::check_apart(root, out)?;
    }
    if let Ok(entries) = std::fs::read_dir(out) {
        let is_empty = entries.count() == 0;
        match (is_empty, out.join(NAME).exists(), existing == Existing::Replace) {
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
