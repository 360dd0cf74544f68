//! Launchers and systemd units that start a program with its manifest: what is written. How it is written, recorded and
//! taken away again is [`os::installed`]'s.

use crate::exec::runner;
use crate::manifest::Manifest;
use model::{Error, Result};
use os::installed::places::{Places, Scope, one_line, only_root_changes};
use os::installed::unit::{unit_path, unit_word};
use os::installed::{By, Content, Installation, Plan, Subject, check_free};
use std::path::{Path, PathBuf};

/// What is installed under this name; `None`: nothing.
///
/// # Errors
/// This is no name for it; the record cannot be read.
pub fn find(subject: &Subject, scope: Scope) -> Result<Option<Installation>> {
    os::installed::find(By::Preload, subject, scope)
}

/// Sees that nobody else can change what is read for all users.
///
/// # Errors
/// Somebody else than root can change the manifest.
pub fn check_manifest(path: &Path, scope: Scope) -> Result<()> {
    match scope {
        Scope::System => only_root_changes(path, "copy it to a directory of root's"),
        Scope::User => Ok(()),
    }
}

/// Lets a launcher or service start with a manifest from now on.
///
/// # Errors
/// There is no such desktop entry or it starts no program; it is installed already; a file cannot be written. Nothing
/// is changed then.
pub fn install(manifest: &Manifest, subject: &Subject, scope: Scope) -> Result<Installation> {
    check_free(By::Preload, subject, scope)?;
    let places = Places::of(scope)?;
    let runner = runner()?;
    places.check(scope, &runner)?;
    let copy = places.kept.join("preload").join(format!("{}.preload", subject.name()));
    let (runner, copy_text) = (one_line(&runner)?, one_line(&copy)?);
    let mut notes = Vec::new();
    let mut files: Vec<(PathBuf, Content)> = vec![(copy.clone(), Content::Bytes(manifest.to_bytes()))];
    match subject {
        Subject::Launcher(name) => {
            let wrapped = places.wrapped(name, &[runner, copy_text])?;
            notes.extend(wrapped.note());
            files.push((places.applications.join(name), Content::Text(wrapped.text)));
        }
        Subject::Image(name) => return Err(Error::bug(format!("preload has no images, as {name} was to be"))),
        Subject::Unit(name) => {
            let unit = format!("thaw-preload-{name}.service");
            let wants = places.units.join(format!("{}.wants", places.target)).join(&unit);
            let path = places.units.join(&unit);
            files.push((path, Content::Text(unit_text(name, runner, copy_text, places.target))));
            files.push((wants, Content::Link(Path::new("..").join(&unit))));
            let user = if scope == Scope::User { "--user " } else { "" };
            notes
                .push(format!("it works from the next start of {}; now: systemctl {user}daemon-reload", places.target));
        }
    }
    let (by, subject) = (By::Preload, subject.clone());
    os::installed::install(Plan { by, subject, scope, from: None, is_needed_only: false, files, notes })
}

fn unit_text(name: &str, runner: &str, manifest: &str, target: &str) -> String {
    format!(
        "[Unit]\n\
         Description=Read what {name} needs at its start\n\
         ConditionPathExists={}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={} {}\n\
         Nice=19\n\
         IOSchedulingClass=idle\n\
         \n\
         [Install]\n\
         WantedBy={target}\n",
        unit_path(manifest),
        unit_word(runner),
        unit_word(manifest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_any_path() {
        let text = unit_text("ff", "/usr/bin/thaw-preload", "/m%.preload", "default.target");
        assert!(text.contains("ExecStart=\"/usr/bin/thaw-preload\" \"/m%%.preload\"\n"), "{text}");
        assert!(text.contains("ConditionPathExists=/m%%.preload\n"), "{text}");
    }
}
