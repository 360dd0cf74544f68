//! The page of events: for `thaw timeline report --html` and `thaw view`.

pub mod stored;

use model::{Error, Exit, Result, shown};
use std::path::PathBuf;
use timeline::{Ends, Form, Step, Trace, Via};
use view::{PathStep, TimelineOf};

/// What was read of these files, as one trace. A `MOZ_LOG` tells the wall clock's time only, and is put on the clock of
/// the others by that.
///
/// # Errors
/// Their times cannot be held against each other.
pub fn joined(files: Vec<(PathBuf, Trace)>) -> Result<Trace> {
    let mut files = in_order(files).into_iter();
    let Some((first, mut trace)) = files.next() else { return Err(Error::bug("events of no file were asked for")) };
    for (path, mut other) in files {
        let is_put = other.form == Form::MozLog && other.put_on(&trace.clock);
        let [a, b] = [&trace.clock, &other.clock];
        let is_one = a.is_monotonic && b.is_monotonic && a.boot == b.boot && a.is_calibrated == b.is_calibrated;
        if !(is_put || is_one) {
            return Err(Error::on(Exit::Usage, "cannot show on one time axis", &path)
                .because(format!("its clock is not that of {}", shown(&first)))
                .hint("name one file, or files of one boot"));
        }
        trace.join(other);
    }
    timeline::tie(&mut trace);
    Ok(trace)
}

/// The files in the order in which [`joined`] has their sources.
pub fn in_order(mut files: Vec<(PathBuf, Trace)>) -> Vec<(PathBuf, Trace)> {
    files.sort_by_key(|(_, trace)| trace.form == Form::MozLog);
    files
}

/// The page of what was read of these files, all on one time axis, with the critical path where there is one.
///
/// # Errors
/// Their times cannot be held against each other.
pub fn page(files: Vec<(PathBuf, Trace)>) -> Result<String> {
    let name = match files.as_slice() {
        [(path, _)] => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        several => format!("{} files", several.len()),
    };
    let trace = joined(files)?;
    // Marks alone have no path.
    let path = timeline::path(&trace, Ends { from: None, to: None }).ok();
    let steps: Option<Vec<PathStep>> =
        path.map(|path| path.steps.iter().map(|step| shown_step(step, &trace)).collect());
    view::timeline_page(&TimelineOf { name: &name, trace: &trace, path: steps.as_deref() })
}

fn shown_step(step: &Step, trace: &Trace) -> PathStep {
    let from_ns = trace.clock.origin_ns.saturating_add(step.at_ns);
    let through = if step.through.is_empty() { String::new() } else { format!(": {}", step.through) };
    let why = format!("{}{through}", evidence(step.via));
    PathStep { from_ns, to_ns: from_ns.saturating_add(step.ns), object: Some(step.whose), class: step.class, why }
}

/// What leads from the step behind it to this one.
fn evidence(via: Via) -> &'static str {
    match via {
        Via::End => "the path ends with it",
        Via::Nested => "done in the midst of what follows, on its thread",
        Via::Posted => "what follows was posted in the midst of it",
        Via::Same => "the same object, around what follows",
        Via::Linked => "a link to what follows",
        Via::Resource => "it held what follows waited for",
        Via::Queue => "its thread ran this before what follows",
        Via::Kernel => "the kernel says that it woke what follows",
        Via::Heuristic => "by order and place alone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Builder, Clock, Phase};

    fn of(boot: &str, is_monotonic: bool) -> (PathBuf, Trace) {
        let clock = Clock { is_monotonic, boot: boot.into(), is_calibrated: true, ..Clock::default() };
        let mut builder = Builder::new(Form::Events, clock);
        builder.says(Phase::Mark, 5, 0, 1, None);
        ("a.events".into(), builder.build())
    }

    #[test]
    fn a_log_of_the_wall_clock_is_put_on_the_clock_of_a_profile() {
        let of = |form, at, clock| {
            let mut builder = Builder::new(form, clock);
            builder.says(Phase::Mark, at, 0, 1, None);
            (PathBuf::from("a"), builder.build())
        };
        let profile = Clock { is_monotonic: true, is_calibrated: true, realtime_ns: 5_000_000, ..Clock::default() };
        let log = Clock { is_calibrated: true, realtime_ns: 5_000_300, ..Clock::default() };
        let both = || [of(Form::MozLog, 5_000_300, log.clone()), of(Form::Firefox, 1000, profile.clone())];
        let trace = joined(both().into()).unwrap();
        let order = in_order(both().into());
        assert!(order.iter().map(|(_, trace)| trace.form).eq(trace.sources.iter().map(|source| source.form)));
        assert_eq!(trace.events.iter().map(|event| event.at_ns).collect::<Vec<_>>(), [1000, 1300]);
        assert!(trace.clock.is_monotonic && trace.clock.origin_ns == 1000 && trace.form == Form::Firefox);
        let [(path, log), (_, mut profile)] = both();
        profile.clock.realtime_ns = 0;
        assert_eq!(joined(vec![(path, log), ("b".into(), profile)]).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn files_of_one_clock_make_one_page_and_others_none() {
        assert!(page(vec![of("b", true), of("b", true)]).unwrap().contains("2 files"));
        for (one, two) in [(of("b", true), of("c", true)), (of("b", false), of("b", false))] {
            assert_eq!(page(vec![one, two]).unwrap_err().exit, Exit::Usage);
        }
    }
}
