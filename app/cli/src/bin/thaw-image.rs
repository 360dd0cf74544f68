//! `thaw-image IMAGE -- PROGRAM ARGS`: what launchers and services call that start from an image. It does what `thaw
//! image run` does, by the same code, and is small: `thaw` itself would be read from a cold disk before the image is.
//!
//! It knows the usual case alone; what has options it leaves to the `thaw` beside it.

use image::check::Of;
use model::{Error, shown};
use os::user::Choice;
use preload::exec::{self, NoProgram};
use std::ffi::OsString;
use std::path::Path;
use work::images::start::{Start, start};

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((image, command)) = typed(&words) {
        // Even a bug of ours must not keep the program from starting.
        if let Ok(failed) = std::panic::catch_unwind(|| run(image, command)) {
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

fn typed(words: &[OsString]) -> Option<(&Path, &[OsString])> {
    let [image, dashes, command @ ..] = words else { return None };
    let is_usual = !image.to_string_lossy().starts_with('-') && dashes == "--" && !command.is_empty();
    is_usual.then_some((Path::new(image), command))
}

/// Becomes the program; returns if there is none.
fn run(image: &Path, command: &[OsString]) -> NoProgram {
    let asked = Start { image, command, user: Choice::Caller, check_all: false, of: Of::Directory };
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

fn complain(text: &str) {
    let is_harmless = |letter: char| letter == '\n' || !letter.is_control();
    let text: String = text.chars().map(|letter| if is_harmless(letter) { letter } else { '\u{fffd}' }).collect();
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_case_is_understood() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let all = words(&["i", "--", "prog", "-v", "--", "--check"]);
        assert_eq!(typed(&all), Some((Path::new("i"), &all[2..])));
        for other in
            [&[][..], &["i"], &["i", "--"], &["i", "prog"], &["-v", "--", "a"], &["--", "a"], &["i", "-v", "--", "a"]]
        {
            assert_eq!(typed(&words(other)), None, "{other:?}");
        }
    }
}
