//! Mistakes on a command line that the parser cannot name: what was probably meant, as a hint. Changes nothing.

use super::Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use std::ffi::{OsStr, OsString};
use work::shell::command_line;

/// What to type in the place of `typed` (the program's name first); `None`: the parser's own words are enough.
pub fn hint(error: &Error, typed: &[OsString]) -> Option<String> {
    let said = match error.kind() {
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        // A program in the place of a process's number.
        ErrorKind::ValueValidation => error.get(ContextKind::InvalidValue),
        _ => None,
    };
    match said {
        Some(ContextValue::String(word)) => forgotten_dashes(word, typed),
        _ => None,
    }
}

/// `thaw record firefox`: the verb starts a program, and the program's name, this word, came without `--`.
pub fn forgotten_dashes(word: &str, typed: &[OsString]) -> Option<String> {
    if word.starts_with('-') {
        return None;
    }
    let (verb, words) = verb_of(typed);
    verb.get_positionals().find(|positional| positional.is_last_set())?;
    let dashes = typed.iter().position(|given| given == "--").unwrap_or(typed.len());
    let at = words + typed.get(words..dashes)?.iter().position(|given| given == word)?;
    let (before, program) = typed.split_at(at);
    let line = |words: &[OsString]| command_line(words);
    let right = format!("thaw {} -- {}", line(&before[1..]), line(program));
    Some(format!("the program comes after --: {right}"))
}

/// The verb that was typed, and how many words name it (`thaw` among them).
fn verb_of(typed: &[OsString]) -> (Command, usize) {
    let (mut verb, mut words) = (Args::command(), 1);
    while let Some(inner) = typed.get(words).and_then(|word| named(&verb, word)) {
        verb = inner;
        words += 1;
    }
    (verb, words)
}

fn named(command: &Command, word: &OsStr) -> Option<Command> {
    command.find_subcommand(word).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn hint_for(line: &str) -> Option<String> {
        let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        hint(&Args::try_parse_from(&typed).unwrap_err(), &typed)
    }

    #[test]
    fn a_program_without_dashes_is_shown_with_them() {
        for (typed, meant) in [
            ("thaw record firefox", "thaw record -- firefox"),
            ("thaw record -o x.thaw firefox --headless", "thaw record -o x.thaw -- firefox --headless"),
            ("thaw heap run python3 -c 1", "thaw heap run -- python3 -c 1"),
            ("thaw memory watch firefox", "thaw memory watch -- firefox"),
        ] {
            let hint = hint_for(typed).unwrap_or_else(|| panic!("no hint for {typed}"));
            assert!(hint.ends_with(&format!(": {meant}")), "{hint}");
        }
    }

    #[test]
    fn other_mistakes_are_the_parsers_to_tell() {
        assert_eq!(hint_for("thaw record --hedless -- firefox"), None);
        assert_eq!(hint_for("thaw report one two"), None);
        assert_eq!(hint_for("thaw recrod"), None);
    }
}
