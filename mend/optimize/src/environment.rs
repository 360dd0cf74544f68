//! Which variables of the environment a remedy sets, and for which programs that can do anything. Pure.

use crate::remedy::{Remedy, Set};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};

/// Where glibc's tunables stand, all in one variable.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// So many functions must be bound at their first calls: to look up fewer takes less than a millisecond.
pub const LEAST_CALLS: u64 = 1_000;
/// So many pages must be given to the process: fewer take less than some milliseconds.
pub const LEAST_FAULTS: u64 = 10_000;

/// A variable that a remedy sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value; of `GLIBC_TUNABLES` what is added to the user's own.
    pub value: String,
}

impl Variable {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }

    /// Whether it is one that remedies set, with a value that stays on a line.
    pub fn is_sound(&self) -> bool {
        let known = [TUNABLES, "LD_BIND_NOW", "MALLOC_ARENA_MAX"].contains(&&*self.name);
        known && !self.value.is_empty() && self.value.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

/// What a remedy sets; `None`: nothing.
pub fn of_remedy(remedy: Remedy) -> Option<Variable> {
    // 32 MiB is the largest threshold that glibc takes.
    let keep =
        "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456:glibc.malloc.top_pad=4194304";
    match remedy {
        Remedy::BindNow => Some(Variable::new("LD_BIND_NOW", "1")),
        Remedy::OneArena => Some(Variable::new("MALLOC_ARENA_MAX", "1")),
        Remedy::KeepHeap => Some(Variable::new(TUNABLES, keep)),
        Remedy::HugeHeap => Some(Variable::new(TUNABLES, "glibc.malloc.hugetlb=1")),
        Remedy::Pack | Remedy::Archive | Remedy::Caches | Remedy::Image | Remedy::Preload => None,
    }
}

/// What a set sets: each variable once.
pub fn of_set(set: &Set) -> Vec<Variable> {
    let mut variables: Vec<Variable> = Vec::new();
    for one in set.iter().filter_map(|remedy| of_remedy(*remedy)) {
        match variables.iter_mut().find(|variable| variable.name == one.name) {
            Some(same) => same.value = format!("{}:{}", same.value, one.value),
            None => variables.push(one),
        }
    }
    variables
}

/// What these variables become where the user has set some: tunables are added to the user's, which stay where both
/// set the same one; of others the user's stay.
pub fn with_users(variables: &[Variable], user: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let joined = |variable: &Variable| {
        let ours = OsString::from(&variable.value);
        let value = match user(&variable.name).filter(|value| !value.is_empty()) {
            None => ours,
            // The last one counts.
            Some(theirs) if variable.name == TUNABLES => [ours, theirs].join(OsStr::new(":")),
            Some(_) => return None,
        };
        Some((OsString::from(&variable.name), value))
    };
    variables.iter().filter_map(joined).collect()
}

/// What is known of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// A loader starts it: it is not static.
    pub is_dynamic: bool,
    /// It runs with rights of its own: the loader ignores what others set.
    pub is_privileged: bool,
    /// Its memory comes from glibc's allocator; else who has one of its own.
    pub allocator: Allocator,
    /// Functions that are bound at their first calls, in its files.
    pub lazy_calls: u64,
    /// It, or a process that it starts, has more threads than one.
    pub has_threads: bool,
    /// Pages that a start is given without reading.
    pub faults: u64,
    /// Anonymous memory gets huge pages where it is asked for them, and not else.
    pub huge_when_asked: bool,
    /// Names of variables that are set where it was recorded.
    pub set: Vec<String>,
}

/// Whose allocator a program uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allocator {
    /// That of glibc.
    #[default]
    Glibc,
    /// That in this file.
    Other(String),
    /// There is no glibc.
    NoGlibc,
}

/// What is worth a try, by what is known of the program alone; and why something is not that a recording spoke for.
pub fn candidates(about: &About) -> (Vec<Remedy>, Vec<String>) {
    let wanted = [
        (Remedy::BindNow, about.lazy_calls >= LEAST_CALLS),
        (Remedy::OneArena, about.has_threads && about.faults >= LEAST_FAULTS),
        (Remedy::KeepHeap, about.faults >= LEAST_FAULTS),
        (Remedy::HugeHeap, about.faults >= LEAST_FAULTS && about.huge_when_asked),
    ];
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for remedy in wanted.into_iter().filter_map(|(remedy, is_wanted)| is_wanted.then_some(remedy)) {
        match obstacle(about, remedy) {
            None => found.push(remedy),
            Some(why) => notes.push(format!("not tried ({why}): {remedy}")),
        }
    }
    (found, notes)
}

/// Why a remedy can do nothing for this program.
pub fn obstacle(about: &About, remedy: Remedy) -> Option<String> {
    let variable = of_remedy(remedy)?;
    if about.is_privileged {
        return Some("the program runs with rights of its own, so that the loader ignores such variables".into());
    }
    if !about.is_dynamic {
        return Some("the program is static".into());
    }
    if variable.name != TUNABLES && about.set.contains(&variable.name) {
        return Some(format!("{} is set already", variable.name));
    }
    match &about.allocator {
        _ if remedy == Remedy::BindNow => None,
        Allocator::Glibc => None,
        Allocator::Other(file) => Some(format!("it has an allocator of its own, in {file}")),
        Allocator::NoGlibc => Some("its C library is not glibc".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> About {
        About {
            is_dynamic: true,
            lazy_calls: LEAST_CALLS,
            has_threads: true,
            faults: LEAST_FAULTS,
            huge_when_asked: true,
            ..About::default()
        }
    }

    #[test]
    fn each_remedy_is_for_programs_that_it_can_do_something_for() {
        let all = [Remedy::BindNow, Remedy::OneArena, Remedy::KeepHeap, Remedy::HugeHeap];
        assert_eq!(candidates(&busy()), (all.to_vec(), Vec::new()));
        let tried = |about: About| candidates(&about).0;
        assert_eq!(tried(About { lazy_calls: LEAST_CALLS - 1, ..busy() }), all[1..]);
        assert_eq!(tried(About { has_threads: false, ..busy() }), [all[0], all[2], all[3]]);
        assert_eq!(tried(About { huge_when_asked: false, ..busy() }), all[..3]);
        assert_eq!(tried(About { faults: LEAST_FAULTS - 1, ..busy() }), all[..1]);
        let own = About { allocator: Allocator::Other("/opt/app".into()), ..busy() };
        let (found, notes) = candidates(&own);
        assert_eq!(found, all[..1], "whose functions are bound is nothing to the allocator");
        assert!(notes.len() == 3 && notes.iter().all(|note| note.contains("in /opt/app")), "{notes:?}");
        let musl = About { allocator: Allocator::NoGlibc, ..busy() };
        assert_eq!(tried(musl), all[..1]);
        assert_eq!(tried(About { is_dynamic: false, ..busy() }), []);
        assert_eq!(tried(About { is_privileged: true, ..busy() }), []);
        assert_eq!(tried(About { set: vec!["LD_BIND_NOW".into(), TUNABLES.into()], ..busy() }), all[1..]);
        assert_eq!(
            candidates(&About::default()),
            (Vec::new(), Vec::new()),
            "nothing speaks for it, and nothing is said"
        );
    }

    #[test]
    fn a_set_sets_each_variable_once_and_the_users_own_stay() {
        let both = Set::from([Remedy::KeepHeap, Remedy::HugeHeap, Remedy::BindNow, Remedy::Pack]);
        let variables = of_set(&both);
        assert_eq!(variables.len(), 2);
        assert!(variables[1].value.contains("top_pad=4194304:glibc.malloc.hugetlb=1"), "{variables:?}");
        assert!(variables.iter().all(Variable::is_sound));
        assert_eq!(of_set(&Set::from([Remedy::Preload])), []);
        let user = |name: &str| match name {
            TUNABLES => Some("glibc.malloc.hugetlb=2".into()),
            _ => Some("0".into()),
        };
        let [(name, value)] = &with_users(&variables, user)[..] else { panic!("LD_BIND_NOW is the user's") };
        assert_eq!(name, TUNABLES);
        assert!(value.to_str().unwrap().ends_with(":glibc.malloc.hugetlb=2"), "the last one counts: {value:?}");
        assert_eq!(with_users(&variables, |_| None)[0], ("LD_BIND_NOW".into(), "1".into()));
        for (name, value) in [("LD_PRELOAD", "/x.so"), ("LD_BIND_NOW", ""), ("LD_BIND_NOW", "1\nLD_PRELOAD=x")] {
            assert!(!Variable::new(name, value).is_sound());
        }
    }
}
