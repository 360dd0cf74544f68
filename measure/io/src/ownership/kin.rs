//! Which packages are a program's own. Pure: relations between packages, no file.

use os::packages::{Package, PackageId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A package that packages of this many other sources want is everybody's, whatever it was built from.
const MANY: usize = 3;

/// The packages that are a program's, with the reason.
pub(super) struct Kin(BTreeMap<PackageId, String>);

impl Kin {
    /// From the packages that hold the program and what its arguments name.
    pub(super) fn of(all: &[Package], own: &BTreeSet<PackageId>) -> Self {
        let mut kin = BTreeMap::new();
        for package in own {
            kin.insert(*package, "the program is in it".to_owned());
        }
        let wanted_by = wanted_by(all);
        for (package, why) in relatives(all, own) {
            let others: BTreeSet<&str> = wanted_by[package as usize]
                .iter()
                .map(|other| all[*other as usize].source.as_str())
                .filter(|source| own.iter().all(|own| all[*own as usize].source != *source))
                .collect();
            if others.len() < MANY {
                kin.entry(package).or_insert(why);
            }
        }
        add_dependents_of_nobody_else(all, &wanted_by, &mut kin);
        Self(kin)
    }

    /// Why a package is the program's; `None`: it is not.
    pub(super) fn why(&self, package: PackageId) -> Option<&str> {
        self.0.get(&package).map(String::as_str)
    }

    /// All of them.
    pub(super) fn packages(&self) -> impl Iterator<Item = PackageId> + '_ {
        self.0.keys().copied()
    }
}

/// Packages that were built from the same source as one of the program's, or are named after it.
fn relatives(all: &[Package], own: &BTreeSet<PackageId>) -> Vec<(PackageId, String)> {
    let mut found = Vec::new();
    for (number, package) in (0..).zip(all) {
        for head in own.iter().map(|own| &all[*own as usize]) {
            let named = |after: &str| package.name.strip_prefix(after).is_some_and(|rest| rest.starts_with('-'));
            if package.source == head.source {
                found.push((number, format!("built from {}, as {} is", head.source, head.name)));
            } else if named(&head.name) || named(&head.source) {
                found.push((number, format!("named after {}", head.name)));
            }
        }
    }
    found
}

/// Who wants each package, by its name or by what it provides.
fn wanted_by(all: &[Package]) -> Vec<BTreeSet<PackageId>> {
    let mut by_name: HashMap<&str, Vec<PackageId>> = HashMap::new();
    for (number, package) in (0..).zip(all) {
        for name in package.provides.iter().chain([&package.name]) {
            by_name.entry(name).or_default().push(number);
        }
    }
    let mut wanted_by = vec![BTreeSet::new(); all.len()];
    for (number, package) in (0..).zip(all) {
        for wanted in package.wants.iter().filter_map(|name| by_name.get(name.as_str())).flatten() {
            if *wanted != number {
                wanted_by[*wanted as usize].insert(number);
            }
        }
    }
    wanted_by
}

/// Packages that only the program's packages want, and what only those want, and so on. Not libraries: on a machine
/// with a single desktop program, the whole desktop's libraries would be its own, and on the next machine not.
fn add_dependents_of_nobody_else(
    all: &[Package],
    wanted_by: &[BTreeSet<PackageId>],
    kin: &mut BTreeMap<PackageId, String>,
) {
    loop {
        let more: Vec<(PackageId, String)> = (0..)
            .zip(all.iter().zip(wanted_by))
            .filter(|(number, (package, wanted_by))| {
                let free = !package.library && !package.essential && !kin.contains_key(number);
                free && !wanted_by.is_empty() && wanted_by.iter().all(|other| kin.contains_key(other))
            })
            .filter_map(|(number, (_, wanted_by))| {
                let first = wanted_by.first()?;
                Some((number, format!("only {} needs it here", all[*first as usize].name)))
            })
            .collect();
        if more.is_empty() {
            return;
        }
        kin.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `emacs-nox/emacs: emacs-common libc6`; a source that ends in `!` is a library's.
    fn packages(lines: &[&str]) -> Vec<Package> {
        let one = |line: &&str| {
            let (head, wants) = line.split_once(':').unwrap_or((line, ""));
            let (name, source) = head.split_once('/').unwrap_or((head, head));
            Package {
                name: name.trim_end_matches('!').to_owned(),
                source: source.trim_end_matches('!').to_owned(),
                library: head.ends_with('!'),
                wants: wants.split_whitespace().map(str::to_owned).collect(),
                ..Package::default()
            }
        };
        lines.iter().map(one).collect()
    }

    /// Names of the packages that are the program's; it is in the first.
    fn own(lines: &[&str]) -> Vec<String> {
        let all = packages(lines);
        let kin = Kin::of(&all, &BTreeSet::from([0]));
        kin.packages().map(|package| all[package as usize].name.clone()).collect()
    }

    #[test]
    fn one_source_makes_one_program() {
        let found = own(&["emacs-nox/emacs: emacs-common libc6", "emacs-common/emacs", "libc6/glibc!", "vim"]);
        assert_eq!(found, ["emacs-nox", "emacs-common"]);
    }

    #[test]
    fn a_library_of_the_same_source_that_many_use_is_the_systems() {
        let examples = ["gtk-examples/gtk: libgtk", "libgtk/gtk!", "a: libgtk", "b: libgtk"];
        assert_eq!(own(&examples), ["gtk-examples", "libgtk"], "two others are not many");
        let many: Vec<&str> = examples.into_iter().chain(["c: libgtk"]).collect();
        assert_eq!(own(&many), ["gtk-examples"]);
    }

    #[test]
    fn what_nobody_else_needs_is_its_own_but_no_library() {
        let found = own(&["npm: node-a libuv", "node-a: node-b node-c", "node-b: ", "node-c", "libuv!", "x: node-c"]);
        assert_eq!(found, ["npm", "node-a", "node-b"], "node-c is wanted by another one, libuv is a library");
    }

    #[test]
    fn a_package_named_after_it_is_a_part_of_it() {
        assert_eq!(own(&["bash", "bash-completion", "bashdb"]), ["bash", "bash-completion"]);
        let editor = ["mg/mg-src", "mg-src-data/other", "x: mg-src-data", "y: mg-src-data", "z: mg-src-data"];
        assert_eq!(own(&editor), ["mg"], "everybody uses it");
    }
}
