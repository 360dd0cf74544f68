//! One more start of each variant, hot, in which its loader is watched: it is traced from exec on, so that none of its
//! times are those of the start, and the loader's are on a clock of their own.

use crate::plan::RecordPlan;
use crate::start::sink::Recorder;
use crate::start::watch::{Place, prepare};
use bench::conduct::{Host, Sink, Tracer};
use bench::record::Lab;
use cpu::loader::Attached;
use model::loader::{InitialiserRow, LoaderRun};
use model::{CacheState, Error, Exit, Result, RunKind, Warning, WarningKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use symbols::{Looked, look_up};

/// How the warning begins that says why there are no figures.
pub const UNKNOWN: &str = "the loader's share is not known of";

/// Lends a watch of the loader to the room `bench`.
#[derive(Default)]
struct Watching(Option<Attached>);

impl Tracer for Watching {
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.0 = Some(Attached::to(pid)?);
        Ok(())
    }

    /// The program goes on under watch: it is asked to end, and ends, as in every run.
    fn detach(&mut self, _t0_ns: u64) -> Result<()> {
        self.0.as_ref().map(Attached::enough);
        Ok(())
    }
}

/// Takes the runs, where they are wanted. What goes wrong is a warning in the recording: the loader is not what the
/// recording is made for.
///
/// # Errors
/// Interrupted, disk full.
pub fn take(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder) -> Result<()> {
    if !plan.loader {
        return Ok(());
    }
    for variant in 0..plan.programs.len() as u32 {
        if lab.interrupted() {
            return Ok(());
        }
        match watched(plan, lab, recorder, variant) {
            Err(error) if !matches!(error.exit, Exit::Interrupted | Exit::Bug) => {
                let text = format!("{UNKNOWN} {}: {error}", lab.name(variant));
                let warning = Warning::new(WarningKind::Note, text);
                let hint = error.hint.unwrap_or_else(|| "`--no-loader` leaves it out".to_owned());
                recorder.warning(warning.hint(hint))?;
            }
            other => other?,
        }
    }
    Ok(())
}

fn watched(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder, variant: u32) -> Result<()> {
    let (state, kind) = (CacheState::Hot, RunKind::Touch);
    let prepared = prepare(plan, lab, recorder, Place { program: variant, inside: None, variant, state, kind })?;
    let mut watching = Watching::default();
    let outcome = {
        let mut tick = |time| recorder.note("a start to watch the loader", time);
        tick(Duration::ZERO);
        lab.start(variant, state, kind, Some(&mut watching), &mut tick)?
    };
    let mut row = outcome.row;
    (row.own_resident_share, row.system_resident_share) = (prepared.own_share, prepared.system_share);
    row.id = recorder.run(&row, &outcome.milestones, &prepared.residency)?;
    let seen = watching.0.map(Attached::finish).transpose()?;
    if !row.accepted {
        let because = row.rejected_because.unwrap_or_else(|| "it failed".into());
        return Err(Error::new(
            Exit::Target,
            "the start whose loader was watched did not get ready:",
            lab.name(variant),
        )
        .because(bench::conduct::with_tail(because, &outcome.output_tail))
        .hint("if it only takes longer: --timeout; if it cannot be traced: --no-loader"));
    }
    let Some(seen) = seen else { return Err(Error::bug("a start was watched, and nobody began to")) };
    let mut rows = seen.kept();
    recorder.note("giving names to initialisers", Duration::ZERO);
    name(&mut rows);
    recorder.loaded(row.id, rows)
}

/// Gives names to initialisers, one look at each object.
fn name(rows: &mut LoaderRun) {
    let mut wanted: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
    for row in initialisers(rows) {
        wanted.entry(row.object.clone()).or_default().push(row.address);
    }
    let found: BTreeMap<PathBuf, std::result::Result<Looked, String>> = wanted
        .into_iter()
        .map(|(path, addresses)| {
            let looked = look_up(&path, &[], &addresses);
            (path, looked)
        })
        .collect();
    for row in initialisers(rows) {
        let Some(Ok(looked)) = found.get(&row.object) else { continue };
        // The outermost: what was inlined into it is not what the table lists.
        let Some(found) = looked.found.get(&row.address).and_then(|all| all.last()) else { continue };
        row.function.clone_from(&found.function);
        row.source = found.source();
    }
    for start in &mut rows.starts {
        let unread = start.initialisers.iter().map(|row| &row.object).collect::<BTreeSet<_>>();
        let why = unread.into_iter().filter_map(|path| match found.get(path) {
            Some(Err(why)) => Some(format!("the names of initialisers of {}: {why}", model::shown(path))),
            _ => None,
        });
        let why: Vec<String> = why.collect();
        start.cannot.extend(why);
    }
}

fn initialisers(rows: &mut LoaderRun) -> impl Iterator<Item = &mut InitialiserRow> {
    rows.starts.iter_mut().flat_map(|start| &mut start.initialisers)
}
