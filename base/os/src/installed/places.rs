//! The directories of launchers and units: of this user, or of all; and who may change what all users start.

use super::desktop;
use crate::file::{of_user, of_variable};
use crate::user::who_else_changes;
use model::{Error, Exit, Result, shown};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Whose launchers and services start otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This user.
    User,
    /// All users.
    System,
}

/// The directories that a scope means.
#[derive(Debug)]
pub struct Places {
    /// Where its desktop entries go.
    pub applications: PathBuf,
    /// Where its units go.
    pub units: PathBuf,
    /// What starts its services.
    pub target: &'static str,
    /// What thaw keeps for them: a directory for each verb.
    pub kept: PathBuf,
    /// Where desktop entries are looked for, the first one wins.
    entries: Vec<PathBuf>,
}

impl Places {
    /// Of a scope.
    ///
    /// # Errors
    /// The user has no home, or it is not root's where this is root.
    pub fn of(scope: Scope) -> Result<Self> {
        let shared = of_variable("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
        let shared = std::env::split_paths(&shared).map(|directory| directory.join("applications"));
        if scope == Scope::System {
            return Ok(Self {
                applications: "/usr/local/share/applications".into(),
                units: "/etc/systemd/system".into(),
                target: "multi-user.target",
                kept: "/var/lib/thaw".into(),
                entries: shared.collect(),
            });
        }
        let home = |variable: &str, below: &str| of_user(variable, below).filter(|path| path.is_absolute());
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
            kept: data.join("thaw"),
        })
    }

    /// Sees that only root can change what all users start, and where that is written; `program` is what they call.
    ///
    /// # Errors
    /// Somebody else can.
    pub fn check(&self, scope: Scope, program: &Path) -> Result<()> {
        if scope == Scope::User {
            return Ok(());
        }
        only_root_changes(program, "install thaw first, say to /usr/local/bin, and run that one")?;
        for directory in [&self.kept, &self.applications, &self.units] {
            only_root_changes(directory, "take the right to write it from others: chmod go-w, chown root")?;
        }
        Ok(())
    }

    /// The desktop entry that the desktop would take, with these words before its commands.
    ///
    /// # Errors
    /// There is none, or it starts no program.
    pub fn wrapped(&self, name: &str, before: &[&str]) -> Result<desktop::Wrapped> {
        let mut found = None;
        for path in self.entries.iter().map(|directory| directory.join(name)) {
            // An entry that cannot be looked at may be the one that counts: another one in its place would start
            // another program.
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
            let looked = self.entries.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
            Error::new(Exit::Usage, "there is no desktop entry", name).hint(format!("looked for in {looked}"))
        })?;
        let refuse = |why: Box<dyn std::error::Error + Send + Sync>| {
            Error::on(Exit::Usage, "cannot use the desktop entry", &path).because(why)
        };
        let text = fs::read_to_string(&path).map_err(|cause| refuse(cause.into()))?;
        desktop::wrap(&text, before).map_err(|why| refuse(why.into()))
    }
}

/// What all users start, and what tells it what to do, must be root's down from `/`.
///
/// # Errors
/// Somebody else than root can change it.
pub fn only_root_changes(path: &Path, hint: &str) -> Result<()> {
    let Some((part, who)) = who_else_changes(path) else { return Ok(()) };
    Err(Error::on(Exit::Usage, "what all users start must be a file that only root can change, not", path)
        .because(format!("{}: {who}", shown(&part)))
        .hint(hint))
}

/// A path as launchers and units can name it.
///
/// # Errors
/// They cannot.
pub fn one_line(path: &Path) -> Result<&str> {
    path.to_str().filter(|path| !path.contains(char::is_control)).ok_or_else(|| {
        Error::on(Exit::Machine, "launchers and units can only name paths in UTF-8 on one line, not", path)
    })
}

pub(super) fn is_not_there(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
