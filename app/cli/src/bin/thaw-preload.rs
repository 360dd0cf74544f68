//! `thaw-preload MANIFEST [-- PROGRAM ARGS]`: what launchers, units and optimized programs call. It does what `thaw
//! preload run` does, and is so small that a cold, slow disk brings it in a few requests: `thaw` itself takes fifty,
//! before the first one of ours.
//!
//! It knows the usual case alone. What has options, another user or something to explain it leaves to the `thaw` beside
//! it.

use model::shown;
use preload::exec::{self, Program, complain};
use preload::manifest::Manifest;
use preload::run::{Engine, Window, prepare};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    manifest: PathBuf,
    command: Vec<OsString>,
}

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let typed = typed(&words).filter(|_| !is_for_somebody_else());
    // Even a bug of ours must not keep the program from starting: `thaw` is the next to try it.
    if let Some(typed) = &typed {
        let _ = std::panic::catch_unwind(|| run(typed));
    }
    hand_over(&words, typed.as_ref());
}

fn typed(words: &[OsString]) -> Option<Typed> {
    let (manifest, rest) = words.split_first()?;
    // Nothing behind `--` is a mistake.
    let is_usual =
        !manifest.to_string_lossy().starts_with('-') && rest.first().is_none_or(|word| word == "--" && rest.len() > 1);
    is_usual.then(|| Typed { manifest: manifest.into(), command: rest.iter().skip(1).cloned().collect() })
}

/// Under sudo the program is the caller's.
fn is_for_somebody_else() -> bool {
    rustix::process::geteuid().is_root() && std::env::var_os("SUDO_UID").is_some()
}

/// Reads, and becomes the program or ends; returns where `thaw` has something to say.
fn run(typed: &Typed) {
    let Ok(manifest) = Manifest::read(&typed.manifest) else { return };
    let program = match typed.command.is_empty() {
        true => None,
        false => match Program::find(&typed.command) {
            Ok(program) => Some(program),
            Err(_) => return,
        },
    };
    let window = Window::usual(manifest.about.order, program.is_some());
    let mut prepared = prepare(&manifest, Engine::ReadAhead, window);
    if prepared.report.nothing_fits() {
        return;
    }
    if let Some((what, hint)) = prepared.report.misfit(&manifest.about, &typed.manifest) {
        complain(&format!("warning: {what}\nhint: {hint}"));
    }
    let Some(program) = program else {
        let _ = prepared.ask();
        std::process::exit(0)
    };
    // It may be a script, or of another machine: `thaw` says so.
    let _ = program.start(|| {
        let _ = prepared.ask();
    });
}

/// Becomes `thaw preload run`; without a `thaw` the program starts all the same.
fn hand_over(words: &[OsString], typed: Option<&Typed>) -> ! {
    let (thaw, failed) = exec::hand_over(&["preload", "run"], words);
    let no_thaw = format!("cannot start '{}', which knows the rest: {}", shown(&thaw), failed.cause);
    let Some(typed) = typed.filter(|typed| !typed.command.is_empty()) else {
        complain(&format!("thaw-preload: {no_thaw}\nhint: thaw-preload MANIFEST [-- PROGRAM ARGS]"));
        std::process::exit(failed.exit_code.into())
    };
    complain(&format!("warning: '{}' is not read: {no_thaw}", shown(&typed.manifest)));
    let failed = exec::become_it(&typed.command);
    complain(&format!("thaw-preload: cannot start '{}': {}", shown(Path::new(&typed.command[0])), failed.cause));
    std::process::exit(failed.exit_code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<Typed> {
        typed(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn only_the_usual_case_is_understood() {
        let command = |words: &[&str]| words.iter().map(OsString::from).collect();
        assert_eq!(of(&["m"]), Some(Typed { manifest: "m".into(), command: Vec::new() }));
        let all = of(&["m", "--", "prog", "-v", "--", "--engine", "x"]).unwrap();
        assert_eq!(all, Typed { manifest: "m".into(), command: command(&["prog", "-v", "--", "--engine", "x"]) });
        for words in [&[][..], &["m", "n"], &["m", "--"], &["-v", "m"], &["--help"], &["m", "-v"], &["--", "prog"]] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
