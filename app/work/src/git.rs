//! What git says of a repository, by its own program.

use model::{Error, Exit, Result, shown};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A work tree.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Its top directory.
    pub top: PathBuf,
}

impl Repository {
    /// The repository that a directory is in.
    ///
    /// # Errors
    /// There is no git, or the directory is in no repository.
    pub fn of(directory: &Path) -> Result<Self> {
        let asked = Self { top: directory.to_owned() };
        let top = asked
            .says(["rev-parse", "--show-toplevel"])
            .map_err(|error| error.hint("name a directory of the repository: --repo DIRECTORY"))?;
        Ok(Self { top: PathBuf::from(top) })
    }

    /// git, about to be run in it, with messages that do not depend on the language.
    pub fn git(&self) -> Command {
        let mut command = Command::new("git");
        // A hook of git's has these set, and they would lead to another tree.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
            command.env_remove(name);
        }
        command.arg("-C").arg(&self.top).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs git to its end, however it ends.
    ///
    /// # Errors
    /// There is no git.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Result<Output> {
        self.git()
            .args(words)
            .output()
            .map_err(|cause| Error::new(Exit::Machine, "cannot run", "git").because(cause).hint("install git"))
    }

    /// What git prints, without the end of its last line.
    ///
    /// # Errors
    /// There is no git; git fails.
    pub fn says<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Result<String> {
        let output = self.run(words)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::new(Exit::Usage, "git cannot answer in", shown(&self.top)).because(said));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// A commit by any of its names.
    ///
    /// # Errors
    /// There is none of that name; a shallow clone, in which the order of commits is not known.
    pub fn commit(&self, name: &str) -> Result<history::Commit> {
        let unknown = || Error::new(Exit::Usage, "this is no commit:", name);
        if name.starts_with('-') {
            return Err(unknown().hint("name a commit as git does: HEAD~3, a branch, a tag, a hash"));
        }
        let id = self
            .says(["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
            .map_err(|_| unknown().because(format!("{} does not have it", shown(&self.top))))?;
        if self.says(["rev-parse", "--is-shallow-repository"])? == "true" {
            return Err(Error::new(Exit::Usage, "the order of the commits is not known in", shown(&self.top))
                .because("it is a shallow clone")
                .hint("get the rest: git fetch --unshallow (on GitHub: fetch-depth: 0, on GitLab: GIT_DEPTH: 0)"));
        }
        let about = self.says(["log", "-1", "--format=%ct%x00%at%x00%s", &id, "--"])?;
        let mut parts = about.splitn(3, '\0');
        let mut number = || parts.next().and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
        let (committed_unix_s, authored_unix_s) = (number(), number());
        let subject = parts.next().unwrap_or_default().to_owned();
        let ancestors = self.says(["rev-list", "--count", &id])?.parse().unwrap_or_default();
        // Of several roots the same one whichever commit is looked at: the one that git tells last.
        let roots = self.says(["rev-list", "--max-parents=0", &id])?;
        let repository = roots.lines().last().unwrap_or_default().to_owned();
        Ok(history::Commit { id, repository, ancestors, committed_unix_s, authored_unix_s, subject })
    }

    /// Whether files that git knows have changes that are in no commit.
    ///
    /// # Errors
    /// git fails.
    pub fn is_dirty(&self) -> Result<bool> {
        Ok(!self.says(["status", "--porcelain", "--untracked-files=no"])?.is_empty())
    }
}
