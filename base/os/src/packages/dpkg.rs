//! dpkg: `/var/lib/dpkg/status`, and a list of paths per package.

use super::Package;
use std::path::Path;

/// Installed packages, and the paths that each lists, one per line.
pub(super) fn read(root: &Path) -> Option<(Vec<Package>, Vec<Vec<u8>>)> {
    let database = root.join("var/lib/dpkg");
    let status = std::fs::read(database.join("status")).ok()?;
    let found = parse(&String::from_utf8_lossy(&status));
    let info = database.join("info");
    let list = |package: &Package, architecture: &str| {
        // Packages of which two architectures may be installed at once have theirs in the name.
        let plain = info.join(format!("{}.list", package.name));
        let of_one = || info.join(format!("{}:{architecture}.list", package.name));
        // A package that is being removed has no list any more.
        std::fs::read(plain).or_else(|_| std::fs::read(of_one())).unwrap_or_default()
    };
    let lists: Vec<Vec<u8>> = found.iter().map(|(package, architecture)| list(package, architecture)).collect();
    (!found.is_empty()).then(|| (found.into_iter().map(|(package, _)| package).collect(), lists))
}

/// Installed packages with their architectures.
fn parse(status: &str) -> Vec<(Package, String)> {
    status.split("\n\n").filter_map(paragraph).collect()
}

fn paragraph(text: &str) -> Option<(Package, String)> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default()
    };
    let name = value("Package");
    // "install ok installed", "hold ok installed"; what was removed keeps its configuration only.
    let installed = value("Status").split_ascii_whitespace().nth(2) == Some("installed");
    if name.is_empty() || !installed {
        return None;
    }
    // "contrib/libs" outside of Debian's main part.
    let section = value("Section").rsplit('/').next().unwrap_or_default();
    let source = value("Source").split_ascii_whitespace().next().unwrap_or(name);
    let wants = ["Depends", "Pre-Depends", "Recommends"].into_iter().flat_map(|field| names(value(field))).collect();
    let package = Package {
        name: name.to_owned(),
        source: source.to_owned(),
        library: matches!(section, "libs" | "oldlibs"),
        essential: value("Essential") == "yes" || value("Priority") == "required",
        wants,
        provides: names(value("Provides")).collect(),
    };
    Some((package, value("Architecture").to_owned()))
}

/// Names of a list of relations: `libc6 (>= 2.36), emacs-nox:any | emacs`.
fn names(relations: &str) -> impl Iterator<Item = String> + '_ {
    relations.split([',', '|']).filter_map(|one| {
        let name = one.split_ascii_whitespace().next()?;
        Some(name.split(':').next().unwrap_or(name).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Package: emacs-nox
Status: install ok installed
Priority: optional
Section: editors
Architecture: amd64
Source: emacs (1:28.2+1-15)
Provides: editor, emacs (= 1:28.2), info-browser
Depends: emacs-bin-common (= 1:28.2), libc6 (>= 2.34), libgccjit0:any | gcc
Description: editor
 Depends: nothing, this is text

Package: libc6
Status: install ok installed
Priority: required
Section: contrib/libs
Architecture: amd64
Source: glibc

Package: gone
Status: deinstall ok config-files
Architecture: all
";

    #[test]
    fn the_status_file_tells_source_section_and_relations() {
        let found = parse(STATUS);
        assert_eq!(found.len(), 2, "what was removed is not there");
        let (emacs, architecture) = &found[0];
        assert_eq!(
            (emacs.name.as_str(), emacs.source.as_str(), architecture.as_str()),
            ("emacs-nox", "emacs", "amd64")
        );
        assert_eq!(emacs.wants, ["emacs-bin-common", "libc6", "libgccjit0", "gcc"]);
        assert_eq!(emacs.provides, ["editor", "emacs", "info-browser"]);
        assert!(!emacs.library && !emacs.essential);
        assert!(found[1].0.library && found[1].0.essential && found[1].0.source == "glibc");
    }

    #[test]
    fn lists_lie_beside_with_or_without_the_architecture() {
        let root = tempfile::tempdir().unwrap();
        let info = root.path().join("var/lib/dpkg/info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(root.path().join("var/lib/dpkg/status"), STATUS).unwrap();
        std::fs::write(info.join("emacs-nox.list"), "/usr/bin/emacs-nox\n").unwrap();
        std::fs::write(info.join("libc6:amd64.list"), "/lib/libc.so.6\n").unwrap();
        let mut packages = super::super::Packages::load_in(root.path()).unwrap();
        // Nothing is read again: caches that are emptied between two questions cost nothing.
        std::fs::remove_dir_all(root.path()).unwrap();
        packages.look_up(["/usr/bin/emacs-nox", "/lib/libc.so.6"].map(Path::new));
        assert_eq!(packages.who_lists(Path::new("/usr/bin/emacs-nox")), [0]);
        assert_eq!(packages.who_lists(Path::new("/lib/libc.so.6")), [1]);
        assert_eq!(packages.paths_of(0), [std::path::PathBuf::from("/usr/bin/emacs-nox")]);
    }
}
