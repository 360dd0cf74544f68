//! The ways of looking at a start, behind one trait.

mod decode;
mod follow;
mod opens;
mod perf;
mod points;
mod probe;
mod tracefs;

use crate::raw::RawTrace;
use model::{Error, Exit, Result, Warning, WarningKind};
use std::{path::PathBuf, str::FromStr};

/// Which engine the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineChoice {
    /// The best one that this machine allows.
    #[default]
    Auto,
    /// perf events: tracepoints in one ring per CPU.
    Perf,
    /// A tracefs instance with the same tracepoints.
    Tracefs,
    /// No rights needed: evict, run, probe the page cache.
    Probe,
}

impl EngineChoice {
    /// All words that [`EngineChoice::from_str`] knows.
    pub const WORDS: [&'static str; 4] = ["auto", "perf", "tracefs", "probe"];
}

impl FromStr for EngineChoice {
    type Err = String;
    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            "perf" => Ok(Self::Perf),
            "tracefs" => Ok(Self::Tracefs),
            "probe" => Ok(Self::Probe),
            _ => Err(format!("'{word}' is not an engine; they are {}", Self::WORDS.join(", "))),
        }
    }
}

/// What engines need to know of the run before it starts.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// The program that will be started, as a path.
    pub program: Option<PathBuf>,
    /// Directories of the program: install directory, profile. The probe engine looks at all files below.
    pub app_dirs: Vec<PathBuf>,
    /// Look at who wakes whom, too: many events of the whole machine.
    pub wakes: bool,
}

/// A way of looking at one start after the other.
pub trait Engine {
    /// `perf`, `tracefs` or `probe`.
    fn name(&self) -> &'static str;
    /// What it cannot know, one sentence each.
    fn cannot(&self) -> Vec<String>;
    /// Whether it learns where to look from a start that is not timed; the next start that it is attached to is that
    /// one.
    fn looks_first(&mut self) -> bool {
        false
    }
    /// Starts looking at `pid` and everything that it will start. Call it after fork and before exec.
    fn attach(&mut self, pid: u32) -> Result<()>;
    /// Stops looking. `t0_monotonic_ns` is the moment just before exec; what came before is dropped.
    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<RawTrace>;
}

/// Opens an engine. With [`EngineChoice::Auto`]: perf, else tracefs, else probe; each step down is a warning.
///
/// # Errors
/// [`Exit::Machine`] if this machine does not allow the chosen engine; the hint says what would still work.
pub fn open_engine(choice: EngineChoice, options: &EngineOptions) -> Result<(Box<dyn Engine>, Vec<Warning>)> {
    let perf = || perf::PerfEngine::open(options).map(|engine| Box::new(engine) as Box<dyn Engine>);
    let tracefs = || tracefs::TracefsEngine::open(options).map(|engine| Box::new(engine) as Box<dyn Engine>);
    let probe = || probe::ProbeEngine::open(options).map(|engine| Box::new(engine) as Box<dyn Engine>);
    let mut warnings = Vec::new();
    let engine = match choice {
        EngineChoice::Perf => perf()?,
        EngineChoice::Tracefs => tracefs()?,
        EngineChoice::Probe => probe()?,
        EngineChoice::Auto => perf()
            .or_else(|error| {
                warnings.push(step_down("perf", "tracefs", &error));
                tracefs()
            })
            .or_else(|error| {
                warnings.push(step_down("tracefs", "probe", &error));
                probe()
            })?,
    };
    Ok((engine, warnings))
}

/// Says that a better engine was not to be had.
fn step_down(from: &str, to: &str, error: &Error) -> Warning {
    let warning = Warning::new(WarningKind::Engine, format!("no {from} engine ({error}); looking with {to}"));
    match (&error.hint, error.exit) {
        (Some(hint), Exit::Machine) => warning.hint(hint.clone()),
        _ => warning.hint("run as root to see more"),
    }
}
