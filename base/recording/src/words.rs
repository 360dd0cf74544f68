//! The words that stand for enum variants in the recording, each list in one place.
//!
//! They are the names that serde gives the same variants (a test holds them together), so that SQL, JSON and the viewer
//! use one vocabulary.

use crate::cell::{Cell, Damage};
use model::cpu::Went;
use model::loader::{PhaseKind, Table};
use model::{
    CacheState, Cause, Concluded, FileKind, Form, Owner, OwnerRule, Phase, RunKind, StartsFrom, TouchEngine,
    WarningKind,
};
use rusqlite::types::{ToSqlOutput, ValueRef};

/// An enum that is stored as a word.
pub(crate) trait Word: Copy + Sized + 'static {
    /// All variants with their words.
    #[cfg(test)]
    const ALL: &'static [(Self, &'static str)];
    /// The word of this variant.
    fn word(self) -> &'static str;
    /// The variant of a word.
    fn from_word(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl Word for $name {
            #[cfg(test)]
            const ALL: &'static [(Self, &'static str)] = &[$(($name::$variant, $word)),+];
            fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
        impl Cell for $name {
            fn bind(&self) -> ToSqlOutput<'_> {
                ToSqlOutput::Borrowed(ValueRef::Text(self.word().as_bytes()))
            }
            fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
                let word = value.as_str().map_err(|_| Damage::new("is not a word"))?;
                Self::from_word(word).ok_or_else(|| Damage(format!("holds the unknown word '{word}'")))
            }
        }
    };
}

/// What a block request served, without where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedWord {
    File,
    Metadata,
    Unknown,
}

words!(ServedWord { File => "file", Metadata => "metadata", Unknown => "unknown" });
words!(Went { Preempted => "preempted", Asleep => "asleep", Held => "held", Ended => "ended" });
words!(PhaseKind {
    Bootstrap => "bootstrap",
    Map => "map",
    Prepare => "prepare",
    Relocate => "relocate",
    Finish => "finish",
    Initialise => "initialise",
    Enter => "enter",
});
words!(Table { PreInit => "pre-init", Init => "init", InitArray => "init-array" });
words!(Phase {
    Name => "name",
    Mark => "mark",
    Wait => "wait",
    Exec => "exec",
    Done => "done",
    Link => "link",
    Arg => "arg",
    Free => "free",
});
words!(Form {
    Events => "events",
    NetLog => "net-log",
    Chrome => "chrome",
    Har => "har",
    Firefox => "firefox",
    MozLog => "moz-log",
    VisualEventTracer => "visual-event-tracer",
    Perfetto => "perfetto",
    Ctf => "ctf",
});
words!(Concluded { Likely => "likely", Unknown => "unknown" });
words!(CacheState { Hot => "hot", App => "app", Boot => "boot", Cold => "cold" });
words!(RunKind { Timed => "timed", Trace => "trace", Warmup => "warmup", Touch => "touch" });
words!(TouchEngine { Page => "page", Probe => "probe", Function => "function", Byte => "byte" });
words!(StartsFrom { Symbols => "symbols", Unwind => "unwind", Exports => "exports" });
words!(Owner { App => "app", System => "system" });
words!(OwnerRule {
    Program => "program",
    Argument => "argument",
    Option => "option",
    Preset => "preset",
    Restored => "restored",
    Package => "package",
    Directory => "directory",
    Home => "home",
    Temporary => "temporary",
    Metadata => "metadata",
    Other => "other",
    Unknown => "unknown",
});
words!(FileKind { Regular => "regular", Metadata => "metadata", Memory => "memory", Unnamed => "unnamed" });
words!(Cause {
    Read => "read",
    Fault => "fault",
    ReadAhead => "readahead",
    Metadata => "metadata",
    Write => "write",
    Unknown => "unknown",
});
words!(WarningKind {
    Drift => "drift",
    Autocorrelation => "autocorrelation",
    Outlier => "outlier",
    NotInState => "not-in-state",
    BusyMachine => "busy-machine",
    ReadAhead => "read-ahead",
    TooFewRuns => "too-few-runs",
    Precision => "precision",
    LostRecords => "lost-records",
    Overhead => "overhead",
    NoControl => "no-control",
    StaysResident => "stays-resident",
    Unattributed => "unattributed",
    Engine => "engine",
    FailedRun => "failed-run",
    Leftover => "leftover",
    Note => "note",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_words_are_those_of_serde<T: Word + serde::Serialize + PartialEq + std::fmt::Debug>() {
        for &(variant, word) in T::ALL {
            assert_eq!(serde_json::to_value(variant).unwrap(), word);
            assert_eq!(T::from_word(word), Some(variant));
        }
        assert_eq!(T::from_word(""), None);
    }

    #[test]
    fn words_are_the_names_in_json() {
        assert_words_are_those_of_serde::<CacheState>();
        assert_words_are_those_of_serde::<RunKind>();
        assert_words_are_those_of_serde::<PhaseKind>();
        assert_words_are_those_of_serde::<Table>();
        assert_words_are_those_of_serde::<Owner>();
        assert_words_are_those_of_serde::<OwnerRule>();
        assert_words_are_those_of_serde::<FileKind>();
        assert_words_are_those_of_serde::<Cause>();
        assert_words_are_those_of_serde::<WarningKind>();
        assert_words_are_those_of_serde::<TouchEngine>();
        assert_words_are_those_of_serde::<StartsFrom>();
        assert_words_are_those_of_serde::<Went>();
    }

    #[test]
    fn the_schema_page_explains_every_word() {
        let page = crate::doc::Page::load();
        fn words<T: Word>() -> Vec<&'static str> {
            T::ALL.iter().map(|(_, word)| *word).collect()
        }
        page.assert_names_words("events", "phase", &words::<Phase>());
        page.assert_names_words("switches", "went", &words::<Went>());
        page.assert_names_words("event_sources", "form", &words::<Form>());
        page.assert_names_words("event_types", "concluded", &words::<Concluded>());
        page.assert_names_words("runs", "state", &words::<CacheState>());
        page.assert_names_words("runs", "kind", &words::<RunKind>());
        page.assert_names_words("loader_phases", "phase", &words::<PhaseKind>());
        page.assert_names_words("initialisers", "in_table", &words::<Table>());
        page.assert_names_words("files", "owner", &words::<Owner>());
        page.assert_names_words("owners", "rule", &words::<OwnerRule>());
        page.assert_names_words("files", "kind", &words::<FileKind>());
        page.assert_names_words("fills", "cause", &words::<Cause>());
        page.assert_names_words("warnings", "kind", &words::<WarningKind>());
        page.assert_names_words("touch", "engine", &words::<TouchEngine>());
        page.assert_names_words("watched", "starts", &words::<StartsFrom>());
        page.assert_names_words("blocks", "served", &["file", "metadata", "unknown"]);
    }
}
