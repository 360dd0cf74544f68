//! `thaw-image IMAGE -- PROGRAM ARGS`: what launchers and services call that start from an image. It does what `thaw
//! image run` does, by the same code, and is small: `thaw` itself would be read from a cold disk before the image is.
//!
//! It knows the usual case alone, and what `thaw optimize` measures: `--copied`, `--unchanged`, `--preload MANIFEST`,
//! and `--as UID` for a user whose variables are set already. What has other options it leaves to the `thaw` beside it.

use image::check::Of;
use model::{Error, shown};
use os::user::Choice;
use preload::exec::{self, NoProgram, complain};
use std::ffi::OsString;
use std::path::Path;
use work::images::start::{Besides, Start, start};

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(typed) = typed(&words) {
        let command = typed.command;
        // Even a bug of ours must not keep the program from starting.
        if let Ok(failed) = std::panic::catch_unwind(|| run(&typed)) {
            end(command, failed);
        }
        end(command, exec::become_it(command));
    }
    let (thaw, failed) = exec::hand_over(&["image", "run"], &words);
    complain(&format!(
        "thaw-image: cannot start '{}', which knows the rest: {}\nhint: thaw-image IMAGE -- PROGRAM ARGS",
        shown(&thaw),
        failed.cause
    ));
    std::process::exit(failed.exit_code.into())
}

/// What was typed.
#[derive(Debug, PartialEq)]
struct Typed<'a> {
    image: &'a Path,
    of: Of,
    preload: Option<&'a Path>,
    /// A user's number.
    user: Option<&'a str>,
    command: &'a [OsString],
}

fn typed(words: &[OsString]) -> Option<Typed<'_>> {
    let [image, rest @ ..] = words else { return None };
    let mut typed = Typed { image: Path::new(image), of: Of::Directory, preload: None, user: None, command: &[] };
    let mut rest = rest;
    loop {
        match rest {
            [dashes, command @ ..] if dashes == "--" => {
                typed.command = command;
                break;
            }
            [option, more @ ..] if option == "--copied" => (typed.of, rest) = (Of::Copy, more),
            [option, more @ ..] if option == "--unchanged" => (typed.of, rest) = (Of::Unchanged, more),
            [option, value, more @ ..] if option == "--preload" => {
                (typed.preload, rest) = (Some(Path::new(value)), more)
            }
            [option, value, more @ ..] if option == "--as" => (typed.user, rest) = (Some(value.to_str()?), more),
            _ => return None,
        }
    }
    let is_usual = !image.to_string_lossy().starts_with('-') && !typed.command.is_empty();
    is_usual.then_some(typed)
}

/// Becomes the program; returns if there is none.
fn run(typed: &Typed<'_>) -> NoProgram {
    let asked = Start {
        image: typed.image,
        command: typed.command,
        user: typed.user.map_or(Choice::Caller, |user| Choice::Named(user.to_owned())),
        check_all: false,
        of: typed.of,
        keeps_environment: typed.user.is_some(),
        also: typed.preload,
        besides: Besides::default(),
    };
    let without = |error: &Error| {
        let hint = error.hint.as_deref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        complain(&format!("warning: the program starts from its directory, not from the image: {error}{hint}"));
    };
    start(&asked, &without).unwrap_or_else(|error| {
        // It must not run as another user.
        complain(&format!("thaw-image: {error}"));
        std::process::exit(126)
    })
}

fn end(command: &[OsString], failed: NoProgram) -> ! {
    complain(&format!("thaw-image: cannot start '{}': {}", shown(Path::new(&command[0])), failed.cause));
    std::process::exit(failed.exit_code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_case_is_understood() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let all = words(&["i", "--", "prog", "-v", "--", "--check"]);
        let usual = Typed { image: Path::new("i"), of: Of::Directory, preload: None, user: None, command: &all[2..] };
        assert_eq!(typed(&all), Some(usual));
        let measured = words(&["i", "--copied", "--preload", "m", "--as", "7", "--", "prog"]);
        let (preload, user, command) = (Some(Path::new("m")), Some("7"), &measured[7..]);
        assert_eq!(typed(&measured), Some(Typed { image: Path::new("i"), of: Of::Copy, preload, user, command }));
        let words = |option: &str| words(&["i", option, "--", "prog"]);
        assert_eq!(typed(&words("--unchanged")).unwrap().of, Of::Unchanged);
        for other in [
            &[][..],
            &["i"],
            &["i", "--"],
            &["i", "prog"],
            &["-v", "--", "a"],
            &["--", "a"],
            &["i", "-v", "--", "a"],
            &["i", "--preload", "--", "a"],
        ] {
            let other: Vec<_> = other.iter().map(OsString::from).collect();
            assert_eq!(typed(&other), None, "{other:?}");
        }
    }
}
