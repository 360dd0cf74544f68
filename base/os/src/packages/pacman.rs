//! pacman: a directory per package below `/var/lib/pacman/local`, with the files `desc` and `files`.

use super::{Listed, Package, PackageId};
use std::path::Path;

/// Installed packages and the paths that they list.
pub(super) fn read(root: &Path) -> Option<Listed> {
    let entries = std::fs::read_dir(root.join("var/lib/pacman/local")).ok()?;
    let (mut all, mut lists) = (Vec::new(), Vec::new());
    for directory in entries.flatten().map(|entry| entry.path()) {
        let Ok(about) = std::fs::read(directory.join("desc")) else { continue };
        let Some(package) = package(&String::from_utf8_lossy(&about)) else { continue };
        let files = std::fs::read(directory.join("files")).unwrap_or_default();
        let files = String::from_utf8_lossy(&files);
        let number = all.len() as PackageId;
        lists.extend(values(&files, "FILES").map(|path| (Path::new("/").join(path), number)));
        all.push(package);
    }
    (!all.is_empty()).then_some((all, lists))
}

fn package(about: &str) -> Option<Package> {
    let name = values(about, "NAME").next()?.to_owned();
    let plain = |relation: &str| relation.split(['<', '>', '=', ':']).next().unwrap_or_default().to_owned();
    Some(Package {
        source: values(about, "BASE").next().unwrap_or(&name).to_owned(),
        // pacman has no sections: a library is told by who wants it.
        library: false,
        essential: name == "glibc" || name == "filesystem",
        wants: values(about, "DEPENDS").map(plain).collect(),
        provides: values(about, "PROVIDES").map(plain).collect(),
        name,
    })
}

/// The lines below `%NAME%`, up to an empty one.
fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("%{name}%");
    text.lines().skip_while(move |line| *line != head).skip(1).take_while(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_two_packages() {
        let root = tempfile::tempdir().unwrap();
        let entry = |name: &str, about: &str, files: &str| {
            let directory = root.path().join("var/lib/pacman/local").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("desc"), about).unwrap();
            std::fs::write(directory.join("files"), files).unwrap();
        };
        entry(
            "vim-9.1-1",
            "%NAME%\nvim\n\n%BASE%\nvim\n\n%DEPENDS%\nvim-runtime=9.1\nglibc>=2.38\n",
            "%FILES%\nusr/\nusr/bin/\nusr/bin/vim\n\n%BACKUP%\netc/vimrc\t1\n",
        );
        entry("vim-runtime-9.1-1", "%NAME%\nvim-runtime\n\n%BASE%\nvim\n", "%FILES%\nusr/share/vim/defaults.vim\n");
        let mut packages = super::super::Packages::load_in(root.path()).unwrap();
        assert_eq!(packages.manager, "pacman");
        let vim = packages.find("vim").unwrap();
        assert_eq!(packages.all[vim as usize].wants, ["vim-runtime", "glibc"]);
        packages.look_up([Path::new("/usr/bin/vim"), Path::new("/etc/vimrc")]);
        assert_eq!(packages.who_lists(Path::new("/usr/bin/vim")), [vim]);
        assert!(packages.who_lists(Path::new("/etc/vimrc")).is_empty());
        assert_eq!(packages.all[packages.find("vim-runtime").unwrap() as usize].source, "vim");
    }
}
