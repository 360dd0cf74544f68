//! The directories of one run's group in all hierarchies, and what they can do together.

use super::control::{BlockIo, Controls, CpuTime, MemoryControl};
use super::hierarchy::Hierarchy;
use super::{v1, v2};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// A thing that a run group may be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// Charge page cache to the run and evict what is charged.
    Memory,
    /// Count CPU time of the whole tree.
    Cpu,
    /// Count and throttle block I/O of the whole tree.
    Io,
    /// Kill all processes at once, also those that fork meanwhile.
    KillAtOnce,
}

impl Ability {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Io, Self::KillAtOnce];

    fn needed_for(self) -> &'static str {
        match self {
            Self::Memory => "the `app` state evicts own files one by one instead of all that the program brought in",
            Self::Cpu => "CPU time is known only of processes that are waited for",
            Self::Io => "bytes and requests read are unknown, and the disk cannot be throttled",
            Self::KillAtOnce => "processes that fork while they are killed may take several rounds",
        }
    }
}

/// One run's directories, and what they control.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) dirs: Vec<PathBuf>,
    /// The one of version 2.
    pub(super) unified: Option<PathBuf>,
    pub(super) memory: Option<Box<dyn MemoryControl>>,
    pub(super) io: Option<Box<dyn BlockIo>>,
    /// The most exact one first.
    pub(super) cpu: Vec<Box<dyn CpuTime>>,
    pub(super) missing: Vec<String>,
    /// Why something is missing, without what that means.
    reasons: BTreeMap<Ability, String>,
}

impl Groups {
    /// Makes a directory in every hierarchy that is of use. Returns why not, by controller.
    pub(super) fn make(&mut self, hierarchies: &[Hierarchy], name: &str) -> BTreeMap<String, String> {
        let mut trouble = BTreeMap::new();
        for hierarchy in hierarchies.iter().filter(|hierarchy| hierarchy.is_of_use()) {
            let mut failure = None;
            let made = hierarchy.places(name).into_iter().find(|place| match fs::create_dir(place) {
                Ok(()) => true,
                Err(cause) => {
                    failure.get_or_insert(format!("cannot create {}: {cause}", place.display()));
                    false
                }
            });
            let Some(made) = made else {
                let names = if hierarchy.unified { vec!["unified".to_owned()] } else { hierarchy.controllers.clone() };
                trouble.extend(names.into_iter().zip(std::iter::repeat(failure.unwrap_or_default())));
                continue;
            };
            self.dirs.push(made.clone());
            match hierarchy.unified {
                true => self.unified = Some(made),
                false => self.adopt(v1::controls(&made, &hierarchy.controllers)),
            }
        }
        // Last: a controller that a hierarchy of version 1 has is not in the unified one.
        if let Some(unified) = &self.unified {
            self.adopt(v2::controls(unified));
        }
        trouble
    }

    fn adopt(&mut self, controls: Controls) {
        let Controls { memory, io, cpu } = controls;
        self.memory = self.memory.take().or(memory);
        self.io = self.io.take().or(io);
        // Version 1 counts the parts in clock ticks; version 2, which comes last, exactly.
        self.cpu.splice(0..0, cpu);
    }

    pub(super) fn can(&self, ability: Ability) -> bool {
        let has = |dir: &PathBuf, file: &str| dir.join(file).exists();
        match ability {
            Ability::Memory => self.memory.is_some(),
            Ability::Io => self.io.is_some(),
            Ability::Cpu => self.cpu.iter().any(|cpu| cpu.is_there()),
            Ability::KillAtOnce => self.dirs.iter().any(|dir| has(dir, "cgroup.kill") || has(dir, "freezer.state")),
        }
    }

    /// Writes down what cannot be done, and why.
    pub(super) fn explain(&mut self, hierarchies: &[Hierarchy], trouble: &BTreeMap<String, String>) {
        let cannot: Vec<Ability> = Ability::ALL.into_iter().filter(|ability| !self.can(*ability)).collect();
        for ability in cannot {
            let (v1, v2) = match ability {
                Ability::Memory => ("memory", "memory"),
                Ability::Cpu => ("cpuacct", "cpu"),
                Ability::Io => ("blkio", "io"),
                Ability::KillAtOnce => ("freezer", "unified"),
            };
            let mounted = |name: &str| hierarchies.iter().any(|one| one.has(name));
            let reason = if let Some(reason) = trouble.get(v1).or_else(|| trouble.get("unified")) {
                reason.clone()
            } else if mounted(v1) || hierarchies.iter().any(|one| one.unified) {
                format!("the controller {v2} is not enabled for new control groups")
            } else {
                format!("no control group hierarchy with {v1} or {v2} is mounted")
            };
            self.missing.push(format!("{reason}: {}", ability.needed_for()));
            self.reasons.insert(ability, reason);
        }
    }

    pub(super) fn reason(&self, ability: Ability) -> String {
        self.reasons.get(&ability).cloned().unwrap_or_default()
    }
}
