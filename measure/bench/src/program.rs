//! What is started: a program, and the commands around its starts.

use crate::base::BaseList;
use crate::ready::Ready;
use os::covers::Pairs;
use os::spawn::User;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where the program's output goes. It is always read, so that the program never waits for us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Two pipes.
    #[default]
    Pipe,
    /// One terminal of 80 columns.
    Pty,
}

/// Exit codes that mean that a run went well. They matter only when the program ends by itself before thaw ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Success {
    /// One of these.
    Codes(Vec<i32>),
    /// Whatever; also a signal.
    Any,
}

/// A program under test. As JSON, one process of thaw hands it to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// What people call it.
    pub name: String,
    /// Program and arguments. `{beacon}` in an argument is replaced by the URL of the beacon's page.
    pub argv: Vec<OsString>,
    /// Overrides on thaw's own environment; `None` removes the variable.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Where to start; `None`: where thaw is.
    pub cwd: Option<PathBuf>,
    /// Whom to run as; `None`: as thaw.
    pub user: Option<User>,
    /// When has it started? The first stops the clock; not empty.
    pub ready: Vec<Ready>,
    /// Directories to put back before every run.
    pub restore: Vec<PathBuf>,
    /// Directories that belong to the program (where it is installed, its profile): what to evict while the
    /// needs are not known.
    pub dirs: Vec<PathBuf>,
    /// A run that is not ready by then has failed.
    pub timeout: Duration,
    /// How long a program may take to end after SIGTERM.
    pub grace: Duration,
    /// Where its output goes.
    pub output: Output,
    /// Which exit codes are fine.
    pub success: Success,
    /// Files that lie over others for the program alone: what is seen, and where. Needs root.
    pub covers: Pairs,
    /// What is run before and after its starts.
    #[serde(default)]
    pub around: Around,
    /// What a session has read before it is started (state `boot`); `None`: the system's libraries among its needs.
    #[serde(default)]
    pub base_list: Option<BaseList>,
}

impl Program {
    /// A program that has started when it has ended; 60 s timeout, 5 s grace.
    pub fn new(name: impl Into<String>, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            name: name.into(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: None,
            ready: vec![Ready::Exit],
            restore: Vec::new(),
            dirs: Vec::new(),
            timeout: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            output: Output::Pipe,
            success: Success::Codes(vec![0]),
            covers: Pairs::new(),
            around: Around::default(),
            base_list: None,
        }
    }
}

/// Lines for a shell; `None`: nothing is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    /// The shell that runs them; `None`: `/bin/sh`.
    pub shell: Option<PathBuf>,
    /// Once, before the program's first start.
    pub setup: Option<OsString>,
    /// Before each start: before the caches are brought into their state.
    pub prepare: Option<OsString>,
    /// After each start, when its processes are gone.
    pub conclude: Option<OsString>,
    /// Once, after the last start, whatever happened.
    pub cleanup: Option<OsString>,
}

impl Around {
    /// All lines that there are.
    pub fn lines(&mut self) -> impl Iterator<Item = &mut OsString> {
        [&mut self.setup, &mut self.prepare, &mut self.conclude, &mut self.cleanup].into_iter().flatten()
    }
}
