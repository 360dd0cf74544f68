//! What is going on, in a few words. Pure; `progress.rs` decides when it is said.

use super::units;
use bench::conduct::{Progress, Step};
use model::{CacheState, RunKind};
use std::time::Duration;

/// `cold start of firefox-esr`, with the variant's name only where there are several.
pub fn step(progress: &Progress, names: &[String]) -> String {
    let what = match progress.kind {
        RunKind::Timed => format!("{} start", progress.state),
        RunKind::Trace => format!("traced {} start", progress.state),
        RunKind::Warmup => "unmeasured start".to_owned(),
        RunKind::Touch => format!("{} start to see what is touched", progress.state),
    };
    let of = match names {
        [_, _, ..] => names.get(progress.variant as usize).map(|name| format!(" of {name}")).unwrap_or_default(),
        _ => String::new(),
    };
    let again = if progress.attempt > 1 { format!(", try {}", progress.attempt) } else { String::new() };
    match progress.step {
        Step::Preparing => format!("{}{of}{again}", preparing(progress.state)),
        Step::Running => format!("{what}{of}{again}"),
        Step::Ran => {
            let wall = progress.wall.map_or_else(|| "not ready".to_owned(), units::nanos);
            format!("{what}{of}{again}: {wall}")
        }
    }
}

/// `12 s`, `3 min 20 s`
pub fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn preparing(state: CacheState) -> &'static str {
    match state {
        CacheState::Hot => "warming the caches",
        CacheState::App => "evicting the program's own files",
        CacheState::Boot => "emptying the caches and warming the base system",
        CacheState::Cold => "emptying the caches",
    }
}
