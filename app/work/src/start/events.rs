//! The events of the traced starts of a recording: where the program writes them, and what of them is this start's.

use crate::plan::EventsPlan;
use crate::rundir::RunDir;
use crate::start::stage::Stage;
use crate::timelines;
use model::{EventRows, Result, RunRow, Warning, WarningKind, shown};
use os::file::open_real;
use os::user::Account;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use timeline::{Clock, Trace};

/// The directory of a start's own events, inside a run directory.
const DIRECTORY: &str = "events";

/// What tells of a start, for who starts it and for who stores it.
pub type Shared = Rc<RefCell<Events>>;

/// Where events of starts are written.
pub struct Events {
    user: Option<Account>,
    /// Files that the program writes, placeholders filled in.
    files: Vec<PathBuf>,
    /// Of the start that was prepared last.
    directory: Option<RunDir>,
}

impl Events {
    /// As the plan says; `None`: it wants none.
    pub fn of(plan: Option<&EventsPlan>, user: Option<&Account>, stage: &Stage) -> Option<Shared> {
        let fill = |path: &PathBuf| match &stage.run_dir {
            Some(directory) => PathBuf::from(directory.fill(path.as_os_str())),
            None => path.clone(),
        };
        let files = plan?.files.iter().map(fill).collect();
        Some(Rc::new(RefCell::new(Self { user: user.cloned(), files, directory: None })))
    }

    /// A new place for the events of the next start, and the variable that tells the program of it.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn prepare(&mut self) -> Result<(OsString, OsString)> {
        let directory = RunDir::with(&[DIRECTORY], self.user.as_ref())?;
        let variable = ("THAW_EVENTS".into(), directory.path().join(DIRECTORY).into_os_string());
        self.directory = Some(directory);
        Ok(variable)
    }

    /// What was told of this start, on its clock, which was `t0_ns` (`CLOCK_MONOTONIC`) just before exec. What cannot
    /// be read is a warning: the start is one all the same.
    pub fn take(&mut self, run: &RunRow, t0_ns: u64) -> (Option<EventRows>, Vec<Warning>) {
        let mut warnings = Vec::new();
        let mut warn = |text: String, hint: &str| {
            warnings.push(Warning::new(WarningKind::Note, text).hint(hint));
        };
        let Some(directory) = self.directory.take() else { return (None, warnings) };
        let mut traces = Vec::new();
        let began = UNIX_EPOCH + Duration::from_nanos(run.started_unix_ns);
        let own = own_files(&directory.path().join(DIRECTORY));
        if own.is_empty() && self.files.is_empty() {
            warn(
                "the traced start wrote no events: the program is not linked with thaw's event library, or has another \
                 environment"
                    .into(),
                "name a file that it writes with `--events-of FILE`; docs/timeline-imports.md says which are read",
            );
        }
        for (path, is_own) in own.iter().map(|path| (path, true)).chain(self.files.iter().map(|path| (path, false))) {
            let read = match read(path, (!is_own).then_some(began)) {
                Ok(trace) => timelines::stored::on_start(trace, run, t0_ns),
                Err(why) => Err(why),
            };
            match read {
                Ok(trace) => traces.push((path.clone(), trace)),
                Err(why) => warn(
                    format!("the events in {} are not in the recording: {why}", shown(path)),
                    "read it alone: thaw timeline report",
                ),
            }
        }
        if traces.is_empty() {
            return (None, warnings);
        }
        let traces = timelines::in_order(traces);
        let paths: Vec<PathBuf> = traces.iter().map(|(path, _)| path.clone()).collect();
        match timelines::joined(traces) {
            Ok(trace) => {
                let not_understood = trace.damage.iter().chain(&trace.not_joined);
                warnings.extend(not_understood.map(|what| Warning::new(WarningKind::Note, format!("events: {what}"))));
                (Some(timelines::stored::rows(trace, &paths, t0_ns)), warnings)
            }
            Err(error) => {
                let text = format!("the events of this start are not in the recording: {error}");
                warnings.push(Warning::new(WarningKind::Note, text));
                (None, warnings)
            }
        }
    }
}

/// The files that processes of the start wrote, in the order of their names.
fn own_files(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "events")).collect();
    files.sort();
    files
}

/// Reads a file that the program wrote. Where it may be from before, it has to be younger than `since`.
fn read(path: &Path, since: Option<SystemTime>) -> std::result::Result<Trace, String> {
    // The directory may have been named through links; the file itself was put there by the program, and a link in its
    // place would have thaw read for it what it may not.
    let directory = os::file::directory_of(path).canonicalize().map_err(|error| error.to_string())?;
    let name = path.file_name().ok_or("it is not the name of a file")?;
    let mut file = open_real(&directory.join(name)).map_err(|error| error.to_string())?;
    let written = file.metadata().and_then(|meta| meta.modified()).map_err(|error| error.to_string())?;
    // File systems round times to their tick.
    if since.is_some_and(|since| written + Duration::from_millis(20) < since) {
        return Err("it is from before this start, which did not write it".into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let now = timeline::now().ok();
    let now = now.as_ref().map(|(boot, pair)| (boot.as_str(), *pair));
    timeline::read_by(&bytes, now, None).map_err(|error| error.to_string())
}

/// The clock of a start: `CLOCK_MONOTONIC` of this boot.
pub fn clock_of(run: &RunRow, t0_ns: u64) -> Clock {
    let boot = timeline::now().map(|(boot, _)| boot).unwrap_or_default();
    let (origin_ns, realtime_ns) = (t0_ns, run.started_unix_ns);
    Clock { is_monotonic: true, boot, is_calibrated: true, realtime_ns, origin_ns, ..Clock::default() }
}
