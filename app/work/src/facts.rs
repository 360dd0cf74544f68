//! What is known of the machine, its disks and file systems, for the recording.

use os::disk::Disk;
use os::mounts::Mounts;
use recording::{Binary, Fact};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Variables that change how programs start, by the beginning of their names. Others are not recorded: they may be
/// secrets.
const TELLING_VARIABLES: [&str; 21] = [
    "DBUS_",
    "DISPLAY",
    "FONTCONFIG_",
    "GDK_",
    "GIO_",
    "GLIBC_TUNABLES",
    "GTK_",
    "HOME",
    "LANG",
    "LC_",
    "LD_",
    "LIBGL_",
    "MALLOC_",
    "MESA_",
    "MOZ_",
    "PATH",
    "QT_",
    "TMPDIR",
    "WAYLAND_DISPLAY",
    "XDG_",
    "TERM",
];

/// Facts about the machine and the disks and file systems that hold these paths.
pub fn gather(paths: &[PathBuf]) -> Vec<Fact> {
    let mut facts = os::machine::facts();
    facts.extend(os::cpu::facts());
    for disk in disks(paths) {
        facts.extend(disk.facts());
    }
    if let Ok(mounts) = Mounts::load() {
        let mut seen = Vec::new();
        for mount in paths.iter().filter_map(|path| mounts.of_path(path)) {
            if seen.contains(&mount.point) {
                continue;
            }
            seen.push(mount.point.clone());
            let subject = format!("filesystem:{}", mount.point.display());
            let fact = |key: &str, value: String| (subject.clone(), key.to_owned(), value);
            facts.push(fact("type", mount.fstype.clone()));
            facts.push(fact("source", mount.source.display().to_string()));
            facts.push(fact("options", mount.options.clone()));
        }
    }
    // A fact has one value; the last one told wins.
    let unique: BTreeMap<(String, String), String> =
        facts.into_iter().map(|(subject, key, value)| ((subject, key), value)).collect();
    unique.into_iter().map(|((subject, key), value)| Fact { subject, key, value }).collect()
}

/// The facts as they are while the runs are made: read-ahead is what it is held at.
pub fn set_read_ahead(facts: &mut [Fact], disks: &[Disk]) {
    for disk in disks {
        let subject = format!("disk:{}", disk.name);
        let told = facts.iter_mut().filter(|fact| fact.subject == subject && fact.key == "read_ahead_kb");
        told.for_each(|fact| fact.value = disk.read_ahead_kb.to_string());
    }
}

/// The disks under these paths, each once; paths in memory have none.
pub fn disks(paths: &[PathBuf]) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for disk in paths.iter().filter_map(|path| Disk::of_path(path).ok()) {
        if !disks.iter().any(|known| known.dev == disk.dev) {
            disks.push(disk);
        }
    }
    disks
}

/// The environment of the program as far as it is recorded: what matters of thaw's own, and all that was asked for.
pub fn environment(changes: &[(OsString, Option<OsString>)]) -> Vec<(OsString, OsString)> {
    let telling = |name: &OsString| {
        let name = name.to_string_lossy();
        TELLING_VARIABLES.iter().any(|beginning| name.starts_with(beginning))
    };
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().filter(|(name, _)| telling(name)).collect();
    for (name, value) in changes {
        match value {
            Some(value) => variables.insert(name.clone(), value.clone()),
            None => variables.remove(name),
        };
    }
    variables.into_iter().collect()
}

/// A binary that ran, as it is now; `None`: it is gone.
pub fn binary(path: &Path, build_id: Option<String>) -> Option<Binary> {
    let metadata = std::fs::metadata(path).ok()?;
    let seconds = u64::try_from(metadata.mtime()).ok()?;
    let mtime_unix_ns = seconds * 1_000_000_000 + u64::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Some(Binary { path: path.to_owned(), size: model::Bytes(metadata.len()), mtime_unix_ns, build_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_ahead_of_the_runs_is_the_one_that_is_recorded() {
        let fact = |value: &str| Fact { subject: "disk:vda".into(), key: "read_ahead_kb".into(), value: value.into() };
        let Ok(disk) = Disk::of_path(Path::new("/")) else { return testing::skip("/ is on no disk") };
        let other = Disk { name: "other".into(), read_ahead_kb: 64, ..disk.clone() };
        let mut facts = vec![fact("8192")];
        set_read_ahead(&mut facts, &[Disk { name: "vda".into(), read_ahead_kb: 128, ..disk }, other]);
        assert_eq!(facts, [fact("128")]);
    }

    #[test]
    fn what_was_asked_for_is_recorded_and_secrets_are_not() {
        let changes = [("MY_TOKEN_ASKED".into(), Some("1".into())), ("PATH".into(), None)];
        let environment = environment(&changes);
        assert!(environment.contains(&("MY_TOKEN_ASKED".into(), "1".into())));
        assert!(!environment.iter().any(|(name, _)| name == "PATH"), "removed for the program");
        assert!(!environment.iter().any(|(name, _)| name.to_string_lossy().starts_with("CARGO_")));
    }
}
