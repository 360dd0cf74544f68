//! What a recording is of: the program, how it was started, on which machine; and where two recordings differ in it.

use super::{Baseline, matching};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What was measured, how and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The words of each variant, by index.
    pub programs: BTreeMap<u32, Vec<String>>,
    /// What was asked of the recording, as far as it changes what a figure means: states, readiness, disk, user.
    pub setup: BTreeMap<String, String>,
    /// Facts about the machine that do not change from one moment to the next.
    pub machine: BTreeMap<String, String>,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Another program, or other arguments. Another build of the same one in another directory is the same program.
    Program,
    /// The runs were made in another way.
    Setup,
    /// They were made on another machine, or its software changed.
    Machine,
}

impl Kind {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Setup => "setup",
            Self::Machine => "machine",
        }
    }
}

/// Something that makes figures incomparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which part of the identity.
    pub kind: Kind,
    /// What it is called: `argv`, `ready`, `cpu model`.
    pub name: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// Where two recordings differ in what was measured.
pub fn differences(before: &Baseline, after: &Baseline) -> Vec<Difference> {
    let mut found = programs(before, after);
    let (old, new) = (&before.identity, &after.identity);
    found.extend(unlike(Kind::Setup, &old.setup, &new.setup, true));
    // Another version of thaw may know more of a machine, which is no difference; another disk is one.
    found.extend(unlike(Kind::Machine, &old.machine, &new.machine, false));
    let disks = |machine: &BTreeMap<String, String>| {
        let names = machine.keys().filter_map(|name| name.strip_prefix("disk:")?.split(' ').next());
        names.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let (old, new) = (disks(&old.machine), disks(&new.machine));
    if old != new {
        found.push(Difference { kind: Kind::Machine, name: "disks".to_owned(), before: old, after: new });
    }
    found
}

fn programs(before: &Baseline, after: &Baseline) -> Vec<Difference> {
    let pairs: BTreeSet<(u32, u32)> =
        matching(before, after).iter().map(|(old, new)| (old.variant, new.variant)).collect();
    let words = |side: &Baseline, variant: u32| side.identity.programs.get(&variant).cloned().unwrap_or_default();
    pairs
        .into_iter()
        .map(|(old, new)| (words(before, old), words(after, new)))
        .filter(|(old, new)| of_program(old) != of_program(new))
        .map(|(old, new)| Difference {
            kind: Kind::Program,
            name: "program".to_owned(),
            before: old.join(" "),
            after: new.join(" "),
        })
        .collect()
}

/// The program's file name and its arguments: another build lies in another directory.
fn of_program(argv: &[String]) -> (Option<String>, Option<&[String]>) {
    let name = argv.first().map(|first| {
        Path::new(first).file_name().map_or_else(|| first.clone(), |name| name.to_string_lossy().into_owned())
    });
    (name, argv.get(1..))
}

/// Entries that differ; those of one side only, if asked for.
fn unlike(
    kind: Kind,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    one_sided: bool,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let shown = |value: Option<&String>| value.cloned().unwrap_or_else(|| "none".to_owned());
    names
        .into_iter()
        .map(|name| (name, before.get(name), after.get(name)))
        .filter(|(_, old, new)| old != new && (one_sided || old.is_some() && new.is_some()))
        .map(|(name, old, new)| Difference { kind, name: name.clone(), before: shown(old), after: shown(new) })
        .collect()
}
