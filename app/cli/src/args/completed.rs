//! Option values that a shell can complete though they are no fixed list: the parser stays the option's own.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use model::CacheState;
use std::ffi::OsStr;

/// A parser with words to offer. It takes whatever `parser` takes, offered or not.
#[derive(Clone)]
pub struct Completed<P> {
    parser: P,
    words: fn() -> Vec<String>,
}

/// Offers `words` for what `parser` reads. They are asked for when completions are made, not when arguments are read.
pub fn completed<P: TypedValueParser>(parser: P, words: fn() -> Vec<String>) -> Completed<P> {
    Completed { parser, words }
}

impl<P: TypedValueParser> TypedValueParser for Completed<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().map(PossibleValue::new)))
    }
}

/// Each cache state, and the lists that are used most.
pub fn states() -> Vec<String> {
    let each = CacheState::ALL.iter().map(ToString::to_string);
    each.chain(["cold,hot", "cold,boot,app,hot"].map(str::to_owned)).collect()
}

/// Presets of programs: built in and the user's; none where a file of theirs cannot be read.
pub fn apps() -> Vec<String> {
    crate::preset::all(None).unwrap_or_default().into_iter().map(|preset| preset.name).collect()
}

/// Simulated disks that come with thaw, and the beginning of a limit.
pub fn disks() -> Vec<String> {
    let simulated = disk::preset::Presets::builtin();
    simulated.all().map(|disk| disk.model.name.clone()).chain(["throttle:iops=".to_owned()]).collect()
}
