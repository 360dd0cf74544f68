//! Whose a file is: the program's own, or the system's. It decides what the `app` and `boot` states keep.
//! `docs/ownership.md` has the rules.
//!
//! [`Ownership`] is what is known before a trace: paths that are the program's, each with the rule that says so.
//! [`Ownership::assign`] gives each file of a trace its owner and the reason; it asks the package database who lists
//! which path, and looks at nothing else.

mod argv;
mod kin;

pub use argv::{launched, named_paths};

use kin::Kin;
use model::{FileId, FileKind, Owner, OwnerRow, OwnerRule, TraceRows};
use os::install;
use os::packages::{PackageId, Packages};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is known to be the program's before it is traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Directories and files with everything below them, by rule.
    roots: Vec<(PathBuf, OwnerRule)>,
    /// Files whose packages are the program's: the program, and what its arguments name.
    programs: Vec<PathBuf>,
}

impl Ownership {
    /// From the program's file: as found, and with its symbolic links followed.
    pub fn of_program(program: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ownership = Self::default();
        program.into_iter().for_each(|path| ownership.add_program(path));
        ownership
    }

    /// One more file that is the program: what a launcher such as `xvfb-run` starts.
    pub fn add_program(&mut self, path: PathBuf) {
        if let Some(directory) = install::directory_of(&path) {
            self.add(directory, OwnerRule::Directory);
        }
        self.add(path.clone(), OwnerRule::Program);
        self.programs.push(path);
    }

    /// A path that the program's arguments name: a script, an archive of classes, a directory of data.
    pub fn add_argument(&mut self, path: PathBuf) {
        self.programs.push(path.clone());
        self.add(path, OwnerRule::Argument);
    }

    /// A directory or file that is the program's by this rule. What many programs share is never one's own: a home of
    /// `/` (user nobody) would make the whole machine the program's.
    pub fn add(&mut self, root: PathBuf, rule: OwnerRule) {
        let sensible = root.is_absolute() && !install::is_shared(&root);
        if sensible && !self.roots.iter().any(|(known, _)| *known == root) {
            self.roots.push((root, rule));
        }
    }

    /// What is the program's and small enough to be looked through: not the whole home, not all of `/tmp`, not data
    /// that an argument names.
    pub fn directories(&self) -> Vec<PathBuf> {
        let small = |rule: OwnerRule| !matches!(rule, OwnerRule::Home | OwnerRule::Temporary | OwnerRule::Argument);
        self.roots.iter().filter(|(_, rule)| small(*rule)).map(|(path, _)| path.clone()).collect()
    }

    /// Files that the program's packages list.
    pub fn packaged(&self, packages: &mut Packages) -> Vec<PathBuf> {
        let kin = self.kin(packages);
        kin.packages().flat_map(|package| packages.paths_of(package)).collect()
    }

    /// Gives each file of a trace its owner and the reason, now that the executed binaries are known.
    pub fn assign(&self, rows: &mut TraceRows, packages: Option<&mut Packages>) {
        let mut all = self.clone();
        for exe in rows.processes.iter().filter_map(|process| process.exe.as_deref()) {
            if let Some(directory) = install::directory_of(exe) {
                all.add(directory, OwnerRule::Directory);
            }
        }
        let judge = match packages {
            Some(packages) => {
                let kin = all.kin(packages);
                packages.look_up(rows.files.iter().map(|file| file.path.as_path()));
                Judge { ownership: &all, packages: Some((packages, kin)) }
            }
            None => Judge { ownership: &all, packages: None },
        };
        rows.owners.clear();
        for (number, file) in (0..).zip(&mut rows.files) {
            let verdict = match file.kind {
                FileKind::Metadata => Verdict::system(OwnerRule::Metadata),
                _ => judge.of(&file.path),
            };
            file.owner = verdict.owner;
            let Verdict { rule, what, because, .. } = verdict;
            rows.owners.push(OwnerRow { file: FileId(number), rule, what, because });
        }
    }

    /// The packages that are the program's.
    fn kin(&self, packages: &mut Packages) -> Kin {
        packages.look_up(self.programs.iter().map(PathBuf::as_path));
        let own: BTreeSet<PackageId> = self
            .programs
            .iter()
            // A directory is listed by all packages that have files in it.
            .filter_map(|path| Some(packages.who_lists(path)).filter(|listed| listed.len() == 1))
            .flatten()
            .copied()
            .collect();
        Kin::of(&packages.all, &own)
    }

    /// The rule by which a path is the program's, if there is one; the first that was given. Explicit ones come before
    /// those that make whole parts of the machine its own.
    fn rule_of(&self, path: &Path, wide: bool) -> Option<(&Path, OwnerRule)> {
        let is_wide = |rule| matches!(rule, OwnerRule::Home | OwnerRule::Temporary);
        let below = |(root, rule): &&(PathBuf, OwnerRule)| is_wide(*rule) == wide && path.starts_with(root);
        self.roots.iter().find(below).map(|(root, rule)| (root.as_path(), *rule))
    }
}

/// Whose a file is, and how that is known.
struct Verdict {
    owner: Owner,
    rule: OwnerRule,
    what: Option<String>,
    because: Option<String>,
}

impl Verdict {
    fn system(rule: OwnerRule) -> Self {
        Self { owner: Owner::System, rule, what: None, because: None }
    }
}

/// All that the rules ask.
struct Judge<'a> {
    ownership: &'a Ownership,
    packages: Option<(&'a Packages, Kin)>,
}

impl Judge<'_> {
    fn of(&self, path: &Path) -> Verdict {
        if !path.is_absolute() {
            return Verdict::system(OwnerRule::Unknown);
        }
        let by_root = |(root, rule): (&Path, OwnerRule)| Verdict {
            owner: Owner::App,
            rule,
            what: (root != path).then(|| model::shown(root)),
            because: None,
        };
        let narrow = self.ownership.rule_of(path, false);
        if let Some(found) = narrow.filter(|(_, rule)| *rule != OwnerRule::Directory) {
            return by_root(found);
        }
        let package = self.by_package(path);
        if let Some(own) = package.as_ref().filter(|package| package.owner == Owner::App) {
            return Verdict { what: own.what.clone(), because: own.because.clone(), ..*own };
        }
        let found = narrow.or_else(|| self.ownership.rule_of(path, true));
        found.map(by_root).or(package).unwrap_or_else(|| Verdict::system(OwnerRule::Other))
    }

    /// By who lists the file, or, of a file that was made after the installation, by who alone has the directory that
    /// it is in.
    fn by_package(&self, path: &Path) -> Option<Verdict> {
        let (packages, kin) = self.packages.as_ref()?;
        let name = |package: PackageId| packages.all[package as usize].name.clone();
        if let [first, ..] = packages.who_lists(path) {
            let because = kin.why(*first);
            return Some(Verdict {
                owner: if because.is_some() { Owner::App } else { Owner::System },
                rule: OwnerRule::Package,
                what: Some(name(*first)),
                because: because.map(str::to_owned),
            });
        }
        let above =
            path.ancestors().skip(1).map(|above| packages.who_lists(above)).find(|listed| !listed.is_empty())?;
        let own = above.iter().all(|package| kin.why(*package).is_some());
        let first = above.first().copied().filter(|_| own)?;
        Some(Verdict {
            owner: Owner::App,
            rule: OwnerRule::Package,
            what: Some(name(first)),
            because: Some("no list names it, but it lies in this package's directory".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
