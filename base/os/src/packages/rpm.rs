//! rpm: its database is a format of its own, so `rpm` itself is asked, once for everything.

use super::{Listed, Package, PackageId};
use std::path::Path;
use std::process::{Command, Stdio};

/// One line per fact: package, file, wanted, provided.
const FORMAT: &str =
    "P %{NAME} %{SOURCERPM}\\n[F %{FILENAMES}\\n][W %{REQUIRENAME}\\n][R %{RECOMMENDNAME}\\n][V %{PROVIDENAME}\\n]";

/// Installed packages and the paths that they list.
pub(super) fn read(root: &Path) -> Option<Listed> {
    // Where dpkg rules, rpm may be installed as a tool, with an empty database or none.
    let has_database = ["var/lib/rpm", "usr/lib/sysimage/rpm"].iter().any(|path| root.join(path).is_dir());
    if !has_database {
        return None;
    }
    let asked = Command::new("rpm")
        .arg("--root")
        .arg(root)
        .args(["-qa", "--qf", FORMAT])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = asked.ok().filter(|asked| asked.status.success())?.stdout;
    let found = parse(&String::from_utf8_lossy(&text));
    (!found.0.is_empty()).then_some(found)
}

fn parse(text: &str) -> Listed {
    let (mut all, mut lists): Listed = (Vec::new(), Vec::new());
    for line in text.lines() {
        let Some((kind, rest)) = line.split_once(' ') else { continue };
        let number = all.len().saturating_sub(1) as PackageId;
        match (kind, all.last_mut()) {
            ("P", _) => {
                let (name, source) = rest.split_once(' ').unwrap_or((rest, "(none)"));
                all.push(Package {
                    name: name.to_owned(),
                    source: source_name(source).unwrap_or(name).to_owned(),
                    // rpm's groups are free text: a library is told by who wants it.
                    library: false,
                    essential: matches!(name, "glibc" | "filesystem" | "setup"),
                    ..Package::default()
                });
            }
            ("F", Some(_)) => lists.push((rest.into(), number)),
            ("W" | "R", Some(package)) => package.wants.push(rest.to_owned()),
            ("V", Some(package)) => package.provides.push(rest.to_owned()),
            _ => {}
        }
    }
    (all, lists)
}

/// The name in the name of a source package: `emacs` of `emacs-29.4-3.fc40.src.rpm`.
fn source_name(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(".rpm")?;
    stem.rsplitn(3, '-').nth(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_belong_to_the_package_before_them() {
        let text = "\
P emacs emacs-29.4-3.fc40.src.rpm
F /usr/bin/emacs-29.4
W emacs-common
W libgtk-3.so.0()(64bit)
V emacs
P gtk3 gtk3-3.24.43-1.fc40.src.rpm
F /usr/lib64/libgtk-3.so.0
V libgtk-3.so.0()(64bit)
P gpg-pubkey (none)
";
        let (all, lists) = parse(text);
        assert_eq!(all.iter().map(|it| it.source.as_str()).collect::<Vec<_>>(), ["emacs", "gtk3", "gpg-pubkey"]);
        assert_eq!(all[0].wants, ["emacs-common", "libgtk-3.so.0()(64bit)"]);
        assert_eq!(all[1].provides, ["libgtk-3.so.0()(64bit)"]);
        assert_eq!(lists, [("/usr/bin/emacs-29.4".into(), 0), ("/usr/lib64/libgtk-3.so.0".into(), 1)]);
    }
}
