//! Launchers and systemd units that start a program with its manifest, and how they are taken away again.
//!
//! What will be written, and what was there before, is on disk before anything is changed. So an installation that was
//! cut short can be taken away like a whole one, and `thaw doctor` can list them all.

use crate::desktop;
use crate::exec::runner;
use crate::manifest::Manifest;
use model::{Error, Exit, Result, shown};
use os::records::{self, Records};
use os::replace::{Existing, Rights, write_link, write_whole};
use os::user::who_else_changes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose launchers and services start so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This user.
    User,
    /// All users.
    System,
}

/// A launcher or service that starts with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "lowercase")]
pub enum Subject {
    /// A desktop entry: `firefox-esr.desktop`.
    Launcher(String),
    /// A systemd unit: `thaw-preload-NAME.service`.
    Unit(String),
}

/// What was changed, and how to change it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// The launcher or service.
    pub subject: Subject,
    /// Whose launchers and services start so.
    pub scope: Scope,
    /// Files, in the order in which they were written.
    changes: Vec<Change>,
    /// Directories that were made for them.
    made: Vec<PathBuf>,
    /// What else there is to know or to do.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    path: PathBuf,
    after: Content,
    /// `None`: there was nothing.
    before: Option<Content>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Text(String),
    /// What a manifest holds may be no text.
    Bytes(Vec<u8>),
    Link(PathBuf),
}

/// A file that was not taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// Why it was left, in a few words.
    pub why: String,
}

/// The directories that a scope means.
struct Places {
    applications: PathBuf,
    units: PathBuf,
    target: &'static str,
    manifests: PathBuf,
    /// Where desktop entries are looked for, the first one wins.
    entries: Vec<PathBuf>,
}

impl Places {
    fn of(scope: Scope) -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let shared = variable("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
        let shared = std::env::split_paths(&shared).map(|directory| directory.join("applications"));
        if scope == Scope::System {
            return Ok(Self {
                applications: "/usr/local/share/applications".into(),
                units: "/etc/systemd/system".into(),
                target: "multi-user.target",
                manifests: "/var/lib/thaw/preload".into(),
                entries: shared.collect(),
            });
        }
        let home = |variable_name: &str, below: &str| {
            variable(variable_name).or_else(|| Some(variable("HOME")?.join(below))).filter(|path| path.is_absolute())
        };
        let (Some(data), Some(config)) = (home("XDG_DATA_HOME", ".local/share"), home("XDG_CONFIG_HOME", ".config"))
        else {
            return Err(Error::new(Exit::Machine, "this user has no home: HOME is not set", "").hint("set HOME"));
        };
        // sudo may leave HOME as it was: its owner could neither change what root writes there nor be kept from leading
        // root elsewhere.
        if rustix::process::geteuid().is_root()
            && let Some(theirs) = [&data, &config].into_iter().find(|path| who_else_changes(path).is_some())
        {
            return Err(Error::on(Exit::Usage, "root does not install for another user:", theirs)
                .hint("run it as that user, or for all users with --system"));
        }
        let applications = data.join("applications");
        Ok(Self {
            entries: std::iter::once(applications.clone()).chain(shared).collect(),
            applications,
            units: config.join("systemd/user"),
            target: "default.target",
            manifests: data.join("thaw/preload"),
        })
    }
}

impl Subject {
    /// Its name, as it was typed.
    pub fn name(&self) -> &str {
        match self {
            Self::Launcher(name) | Self::Unit(name) => name,
        }
    }

    fn check(&self) -> Result<()> {
        let plain = |name: &str| {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.:@".contains(letter);
            !name.is_empty() && name.chars().all(letter) && !name.starts_with('.')
        };
        let (good, hint) = match self {
            Self::Launcher(name) => (plain(name) && name.ends_with(".desktop"), "--desktop firefox-esr.desktop"),
            Self::Unit(name) => (plain(name) && !name.contains('@'), "--unit firefox"),
        };
        match good {
            true => Ok(()),
            false => Err(Error::new(Exit::Usage, "this is no name for it:", self.name()).hint(hint)),
        }
    }
}

impl Installation {
    /// The files that were written.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.changes.iter().map(|change| &change.path)
    }

    /// What to type to get rid of it.
    pub fn undo_command(&self) -> String {
        let what = match &self.subject {
            Subject::Launcher(name) => format!("--desktop {name}"),
            Subject::Unit(name) => format!("--unit {name}"),
        };
        let scope = if self.scope == Scope::System { " --system" } else { "" };
        format!("thaw preload uninstall {what}{scope}")
    }
}

fn records() -> Result<Records> {
    Records::of("installed")
}

fn record_of(subject: &Subject, scope: Scope) -> String {
    let kind = if matches!(subject, Subject::Launcher(_)) { "launcher" } else { "unit" };
    let scope = if scope == Scope::System { "system" } else { "user" };
    format!("preload-{scope}-{kind}-{}", subject.name())
}

/// Everything that is installed, and an error for each record of it that cannot be read.
///
/// # Errors
/// The records are there and cannot be listed.
pub fn list() -> Result<(Vec<Installation>, Vec<Error>)> {
    records()?.list()
}

/// What is installed under this name; `None`: nothing.
///
/// # Errors
/// This is no name for it; the record cannot be read.
pub fn find(subject: &Subject, scope: Scope) -> Result<Option<Installation>> {
    subject.check()?;
    records()?.read(&record_of(subject, scope))
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
    subject.check()?;
    let (records, record) = (records()?, record_of(subject, scope));
    if records.has(&record) {
        return Err(Error::new(Exit::Usage, "it is installed already:", subject.name())
            .hint("`thaw preload uninstall` it first; `thaw doctor` lists what is installed"));
    }
    let places = Places::of(scope)?;
    let runner = runner()?;
    let copy = places.manifests.join(format!("{}.preload", subject.name()));
    if scope == Scope::System {
        only_root_changes(&runner, "install thaw first, say to /usr/local/bin, and run that one")?;
        for directory in [&places.manifests, &places.applications, &places.units] {
            only_root_changes(directory, "take the right to write it from others: chmod go-w, chown root")?;
        }
    }
    let (Some(runner), Some(copy_text)) = (one_line(&runner), one_line(&copy)) else {
        return Err(Error::on(
            Exit::Machine,
            "launchers and units can only name paths in UTF-8 on one line, not",
            &copy,
        ));
    };
    let mut notes = Vec::new();
    let mut changes = vec![(copy.clone(), Content::Bytes(manifest.to_bytes()))];
    match subject {
        Subject::Launcher(name) => {
            let wrapped = wrapped(name, &places, &[runner, copy_text])?;
            if wrapped.was_dbus {
                notes.push(
                    "this program was started through D-Bus; from its launcher it is now started by its command".into(),
                );
            }
            changes.push((places.applications.join(name), Content::Text(wrapped.text)));
        }
        Subject::Unit(name) => {
            let unit = format!("thaw-preload-{name}.service");
            let wants = places.units.join(format!("{}.wants", places.target)).join(&unit);
            let path = places.units.join(&unit);
            changes.push((path, Content::Text(unit_text(name, runner, copy_text, places.target))));
            changes.push((wants, Content::Link(Path::new("..").join(&unit))));
            let user = if scope == Scope::User { "--user " } else { "" };
            notes
                .push(format!("it works from the next start of {}; now: systemctl {user}daemon-reload", places.target));
        }
    }
    let changes: Vec<Change> = changes
        .into_iter()
        .map(|(path, after)| Ok(Change { before: content(&path)?, path, after }))
        .collect::<io::Result<_>>()
        .map_err(|cause| Error::new(Exit::Machine, "cannot look at what is there", subject.name()).because(cause))?;
    let made = changes.iter().filter_map(|change| change.path.parent()).flat_map(missing).collect();
    let mut installation = Installation { subject: subject.clone(), scope, changes, made, notes };
    records.write(&record, &installation)?;
    for change in &installation.changes {
        if let Err(error) = put(&change.path, &change.after) {
            // Its own error says more than one of the way back, and the record stays if that fails.
            let _ = uninstall(&installation);
            let hint = if scope == Scope::System { "run as root" } else { "is it a directory of this user?" };
            return Err(error.hint(hint));
        }
    }
    installation.notes.extend(verified(&installation));
    Ok(installation)
}

/// Takes an installation away: what was there before is put back. A file that was changed since is kept.
///
/// # Errors
/// A file cannot be written or removed; what is left can be taken away by calling it again.
pub fn uninstall(installation: &Installation) -> Result<Vec<Kept>> {
    let cannot = |path: &Path, cause: io::Error| Error::on(Exit::Machine, "cannot put back", path).because(cause);
    let mut kept = Vec::new();
    for Change { path, after, before } in installation.changes.iter().rev() {
        let now = content(path).map_err(|cause| cannot(path, cause))?;
        if now == *before {
            continue;
        }
        if now.as_ref().is_some_and(|now| now != after) {
            kept.push(Kept { path: path.clone(), why: "it was changed since".into() });
            continue;
        }
        match before {
            Some(before) => put(path, before)?,
            None => records::remove(path)?,
        }
    }
    for directory in installation.made.iter().rev() {
        // One that somebody else uses by now stays.
        let _ = fs::remove_dir(directory);
    }
    records()?.forget(&record_of(&installation.subject, installation.scope))?;
    Ok(kept)
}

fn one_line(path: &Path) -> Option<&str> {
    path.to_str().filter(|path| !path.contains(char::is_control))
}

/// What all users start, and what tells it what to read, must be root's down from `/`.
fn only_root_changes(path: &Path, hint: &str) -> Result<()> {
    let Some((part, who)) = who_else_changes(path) else { return Ok(()) };
    Err(Error::on(Exit::Usage, "what all users start must be a file that only root can change, not", path)
        .because(format!("{}: {who}", shown(&part)))
        .hint(hint))
}

/// Directories that are not there yet, the outermost first.
fn missing(directory: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        directory.ancestors().take_while(|ancestor| !ancestor.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

fn content(path: &Path) -> io::Result<Option<Content>> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if is_not_there(&error) => {
            return Ok(None);
        }
        meta => meta?,
    };
    if meta.is_symlink() {
        return fs::read_link(path).map(|target| Some(Content::Link(target)));
    }
    let bytes = fs::read(path)?;
    // A manifest is kept as bytes whatever is in it, so that it compares equal.
    let manifest = path.extension().is_some_and(|extension| extension == "preload");
    Ok(Some(match String::from_utf8(bytes) {
        Ok(text) if !manifest => Content::Text(text),
        Ok(text) => Content::Bytes(text.into_bytes()),
        Err(error) => Content::Bytes(error.into_bytes()),
    }))
}

fn put(path: &Path, content: &Content) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot write", path).because(cause);
    os::replace::make_directory(os::file::directory_of(path), 0o755).map_err(cannot)?;
    match content {
        Content::Text(text) => write_whole(path, text.as_bytes(), Rights::Usual, Existing::Replace),
        Content::Bytes(bytes) => write_whole(path, bytes, Rights::Usual, Existing::Replace),
        Content::Link(target) => write_link(path, target),
    }
}

/// The desktop entry that the desktop would take, with its commands changed.
fn wrapped(name: &str, places: &Places, before: &[&str]) -> Result<desktop::Wrapped> {
    let mut found = None;
    for path in places.entries.iter().map(|directory| directory.join(name)) {
        // An entry that cannot be looked at may be the one that counts: another one in its place would start another
        // program.
        match fs::metadata(&path) {
            Ok(about) if about.is_file() => {
                found = Some(path);
                break;
            }
            Err(cause) if !is_not_there(&cause) => {
                return Err(Error::on(Exit::Machine, "cannot look at the desktop entry", &path).because(cause));
            }
            _ => {}
        }
    }
    let path = found.ok_or_else(|| {
        let looked = places.entries.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
        Error::new(Exit::Usage, "there is no desktop entry", name).hint(format!("looked for in {looked}"))
    })?;
    let refuse = |why: Box<dyn std::error::Error + Send + Sync>| {
        Error::on(Exit::Usage, "cannot use the desktop entry", &path).because(why)
    };
    let text = fs::read_to_string(&path).map_err(|cause| refuse(cause.into()))?;
    desktop::wrap(&text, before).map_err(|why| refuse(why.into()))
}

fn is_not_there(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
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
        manifest.replace('%', "%%"),
        unit_word(runner),
        unit_word(manifest)
    )
}

/// A word of a command line in a unit: systemd.service(5), "Command lines".
fn unit_word(word: &str) -> String {
    let mut out = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '%' | '$' => out.extend([letter, letter]),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// What systemd says of the units, if it is here.
fn verified(installation: &Installation) -> Option<String> {
    let unit = installation.paths().find(|path| path.extension().is_some_and(|extension| extension == "service"))?;
    let scope = if installation.scope == Scope::User { "--user" } else { "--system" };
    let output = Command::new("systemd-analyze").args([scope, "verify"]).arg(unit).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (!output.status.success()).then(|| format!("systemd-analyze verify: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_any_path() {
        assert_eq!(unit_word("/a b/50%$x\"\\"), r#""/a b/50%%$$x\"\\""#);
        let text = unit_text("ff", "/usr/bin/thaw-preload", "/m%.preload", "default.target");
        assert!(text.contains("ExecStart=\"/usr/bin/thaw-preload\" \"/m%%.preload\"\n"), "{text}");
        assert!(text.contains("ConditionPathExists=/m%%.preload\n"), "{text}");
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in ["../x.desktop", ".desktop", "", "x", "a/b.desktop", "a b.desktop", "a\n.desktop"] {
            assert_eq!(Subject::Launcher(name.into()).check().unwrap_err().exit, Exit::Usage, "{name:?}");
        }
        for name in ["../x", "", "a b", "a@b", ".x"] {
            assert!(Subject::Unit(name.into()).check().is_err(), "{name:?}");
        }
        Subject::Launcher("org.gnome.Epiphany.desktop".into()).check().unwrap();
        Subject::Unit("firefox-esr".into()).check().unwrap();
    }
}
