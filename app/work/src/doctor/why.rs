//! Whether `thaw why` works here: each part of it is tried as a recording would use it.

use super::{Ability, from_error, missing, works};
use cpu::loader::Attached;
use cpu::{Options, Recorder};
use model::Result;
use os::spawn::{Launch, Stream, spawn_gated};
use symbols::Kernel;

/// Its parts.
pub(super) fn abilities() -> Vec<Ability> {
    vec![time(), kernel_names(), loader()]
}

/// perf's clock and switches, and the tracepoints of the scheduler.
fn time() -> Ability {
    let (name, purpose) = ("where the time goes", "thaw why: who owns each millisecond of a start");
    match Recorder::open(&Options::default()) {
        Err(error) => from_error(name, purpose, &error),
        Ok((_, lacks)) if lacks.is_empty() => works(name, purpose, ""),
        Ok((_, lacks)) => {
            let texts: Vec<&str> = lacks.iter().map(|lack| &*lack.text).collect();
            let mut hints: Vec<String> = lacks.iter().filter_map(|lack| lack.hint.clone()).collect();
            hints.dedup();
            missing(name, purpose, format!("in part: {}", texts.join("; ")), Some(hints.join("; or ")))
        }
    }
}

fn kernel_names() -> Ability {
    let (name, purpose) = ("names of the kernel's functions", "thaw why: what a wait is for");
    match Kernel::running() {
        Ok(kernel) => works(name, purpose, format!("{} functions", kernel.functions())),
        Err(why) => {
            let hint = "run thaw as root, with `sysctl kernel.kptr_restrict=1` where it is 2";
            missing(name, purpose, why, Some(hint.to_owned()))
        }
    }
}

fn loader() -> Ability {
    let (name, purpose) = ("watching the loader", "thaw why: exec, relocations and initialisers of a start, by ptrace");
    match watch() {
        Ok(()) => works(name, purpose, ""),
        Err(error) => from_error(name, purpose, &error),
    }
}

/// Watches a program that never gets past its gate.
fn watch() -> Result<()> {
    let mut launch = Launch::new([std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into())]);
    (launch.stdout, launch.stderr) = (Stream::Null, Stream::Null);
    let gated = spawn_gated(launch)?;
    let attached = Attached::to(gated.pid())?;
    drop(gated);
    attached.finish().map(drop)
}
