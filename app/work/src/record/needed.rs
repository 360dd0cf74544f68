//! One more traced cold start of each variant, without read-ahead: what comes into memory then is what a start needs.

use crate::plan::{Needed, RecordPlan};
use crate::start::sink::{EngineTracer, Recorder};
use crate::start::watch::{FillTracer, Place, exact_pages};
use bench::conduct::{Host, Sink};
use bench::record::Lab;
use model::{CacheState, Error, Exit, Result, RunKind, Warning, WarningKind};

/// Takes the needed runs, where they are wanted and can be had. With `auto`, what goes wrong is a warning in the
/// recording.
///
/// # Errors
/// With `--needed yes`: this machine cannot, or the program failed. In both cases: interrupted, disk full.
pub fn take(plan: &RecordPlan, lab: &mut Lab, recorder: &mut Recorder, tracer: &mut EngineTracer) -> Result<()> {
    if plan.needed == Needed::No || lab.interrupted() {
        return Ok(());
    }
    if let Some(why) = cannot(lab, tracer) {
        let error = Error::new(Exit::Machine, "cannot tell which of the pages read a start needs", "").because(why);
        return if plan.needed == Needed::Yes { Err(error.hint("leave `--needed yes` out")) } else { Ok(()) };
    }
    for variant in 0..plan.programs.len() as u32 {
        let name = lab.name(variant);
        let fills = FillTracer::new(tracer.engine());
        let place = Place { program: variant, inside: None, variant, state: CacheState::Cold, kind: RunKind::Touch };
        match exact_pages(plan, lab, recorder, place, fills) {
            Err(error) if plan.needed == Needed::Auto && !matches!(error.exit, Exit::Interrupted | Exit::Bug) => {
                let text = format!("no run without read-ahead told what {name} needs: {error}");
                recorder.warning(Warning::new(WarningKind::Note, text).hint("`--needed no` leaves it out"))?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// Why nobody can know here.
fn cannot(lab: &Lab, tracer: &mut EngineTracer) -> Option<String> {
    if tracer.engine().name() == "probe" {
        return Some("the probe engine cannot tell what is touched from what is read ahead".to_owned());
    }
    if lab.learning_state() != CacheState::Cold {
        return Some("this user cannot empty the caches".to_owned());
    }
    lab.disks().is_empty().then(|| "the program and its files are on no block device".to_owned())
}
