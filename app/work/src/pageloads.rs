//! Page loads on a disk of the lab: makes the disk that the cache is to lie on, lends it to `pageload`, and puts the
//! document together.

mod stored;

pub use stored::read;

use crate::rundir::{self, RunDir};
use disk::preset::Preset;
use disk::simulated::{Fidelity, Image, Options, Pace, Simulated};
use model::{Error, Exit, Result, Warning, WarningKind, shown};
use os::cgroup::Throttle;
use os::mounts::{Backing, Mounts};
use pageload::conduct;
use pageload::drive::Kind;
use pageload::ground::{Dropped, Evicted, Ground};
use pageload::plan::{Page, Plan, State, Via};
use pageload::report::{self, PageLoads};
use recording::Replace;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a program that has ended may take to let go of the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The disk that the cache lies on.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadDisk {
    /// The machine's own.
    Own,
    /// The machine's own, no faster than this while a page is loaded.
    Limited(Throttle),
    /// A simulated one.
    Simulated {
        /// Its figures.
        preset: Box<Preset>,
        /// How it answers while a page is loaded.
        pace: Pace,
        /// The kernel's read-ahead on it, KiB.
        read_ahead_kib: u64,
    },
}

/// What was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The page.
    pub page: Page,
    /// Browsers, and where they are; `None`: in PATH.
    pub browsers: Vec<(Kind, Option<PathBuf>)>,
    /// Caches.
    pub vias: Vec<Via>,
    /// States.
    pub states: Vec<State>,
    /// Rounds.
    pub runs: u32,
    /// How long a load may take.
    pub patience: Duration,
    /// A command that starts another proxy anew.
    pub restart: Option<String>,
    /// The disk.
    pub disk: LoadDisk,
    /// Decides in which order browsers and caches take turns.
    pub seed: u64,
    /// The recording to write, and what it may replace.
    pub output: Option<(PathBuf, Replace)>,
    /// thaw's own command line, for the recording.
    pub command_line: Vec<OsString>,
}

/// Loads pages. `told` hears what comes next.
///
/// # Errors
/// A browser, a proxy or a disk that is not there; a page that does not load. Nothing that was started is left.
pub fn run(asked: &Asked, told: &mut dyn FnMut(&str)) -> Result<PageLoads> {
    let find = |(kind, program): &(Kind, Option<PathBuf>)| {
        let program = match program {
            Some(program) => os::spawn::resolve_program(program.as_os_str())?,
            None => kind.find()?,
        };
        Ok((*kind, program))
    };
    let browsers = asked.browsers.iter().map(find).collect::<Result<Vec<_>>>()?;
    let thaw_proxy = if asked.vias.iter().any(Via::is_thaw) { Some(proxy_program()?) } else { None };
    if let Some((path, replace)) = &asked.output {
        crate::record::check_recording(path, *replace)?;
    }
    let directory = RunDir::with(&["cache", "other"], None)?;
    let plan = Plan {
        page: asked.page.clone(),
        browsers,
        vias: asked.vias.clone(),
        states: asked.states.clone(),
        runs: asked.runs,
        patience: asked.patience,
        thaw_proxy,
        restart: asked.restart.clone(),
        cache: directory.path().join("cache"),
        other: directory.path().join("other"),
        throttle: match asked.disk {
            LoadDisk::Limited(limits) => Some(limits),
            _ => None,
        },
        seed: asked.seed,
    };
    let head = stored::Head::gather(asked.command_line.clone(), &plan.cache, asked.seed);
    let mut warnings = on_a_disk(&plan.cache)?;
    if asked.disk != LoadDisk::Own && plan.vias.iter().any(|via| matches!(via, Via::Proxy(_))) {
        let text = "--disk is not below a proxy that thaw did not start: its files lie where it keeps them";
        warnings.push(Warning::new(WarningKind::NotInState, text));
    }
    let name = match &asked.disk {
        LoadDisk::Own => None,
        LoadDisk::Limited(limits) => Some(limit_text(limits)),
        LoadDisk::Simulated { preset, pace: Pace::Model, .. } => Some(preset.model.name.clone()),
        LoadDisk::Simulated { preset, .. } => Some(format!("quick:{}", preset.model.name)),
    };
    let done = match &asked.disk {
        LoadDisk::Simulated { preset, pace, read_ahead_kib } => {
            let options = Options {
                model: preset.model.clone(),
                items: vec![plan.cache.clone()],
                image: Image::Memory,
                read_ahead_kib: *read_ahead_kib,
            };
            let (mut disk, of_disk) = Simulated::create(&options)?;
            warnings.extend(of_disk);
            disk.enter()?;
            let mut lent = Lent { disk, pace: *pace, fidelity: Fidelity::default() };
            let done = conduct::run(&plan, &mut lent, told);
            warnings.extend(lent.warnings());
            if let Err(error) = lent.disk.finish() {
                let text = error.to_string();
                warnings.push(Warning::new(WarningKind::Leftover, text).hint("run `thaw doctor`"));
            }
            done?
        }
        _ => {
            let root = rustix::process::geteuid().is_root();
            let ground: &mut dyn Ground = if root { &mut Dropped } else { &mut Evicted };
            if plan.states.contains(&State::Cold) {
                warnings.extend(ground.warnings());
            }
            conduct::run(&plan, ground, told)?
        }
    };
    let document = report::report(&plan, &done, name, warnings);
    if let Some((path, replace)) = &asked.output {
        head.write(path, *replace, &document)?;
    }
    Ok(document)
}

/// The program that `thaw proxy` becomes; it lies beside thaw.
///
/// # Errors
/// It does not.
pub fn proxy_program() -> Result<PathBuf> {
    crate::own::beside("thaw-proxy", "the proxy", "thawlab-proxy")
}

/// The HTML page is about starts, and would call loads so.
///
/// # Errors
/// The recording is of page loads.
pub fn refuse_page(recording: &Path) -> Result<()> {
    match read(recording)? {
        None => Ok(()),
        Some(_) => {
            let again = format!("thaw report {}", shown(recording));
            Err(Error::on(Exit::Usage, "page loads are text or JSON, and no HTML page:", recording).hint(again))
        }
    }
}

/// A warning if the cache lies in memory, where nothing is ever cold.
fn on_a_disk(cache: &Path) -> Result<Vec<Warning>> {
    let is_memory = Mounts::load()?.of_path(cache).is_some_and(|mount| mount.backing() == Backing::Memory);
    let text = || format!("{} is in memory: no load is cold", rundir::base().display());
    let hint = "set THAW_RUN_DIR to a directory on a disk";
    Ok(is_memory.then(|| Warning::new(WarningKind::StaysResident, text()).hint(hint)).into_iter().collect())
}

fn limit_text(limits: &Throttle) -> String {
    let parts = [limits.iops.map(|iops| format!("iops={iops}")), limits.bps.map(|bps| format!("bps={}", bps.0))];
    format!("throttle:{}", parts.into_iter().flatten().collect::<Vec<_>>().join(","))
}

/// A simulated disk that a cache lies on.
#[derive(Debug)]
struct Lent {
    disk: Simulated,
    pace: Pace,
    fidelity: Fidelity,
}

impl Ground for Lent {
    fn cool(&mut self, _: &Path) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.disk.cool() {
                Err(_) if Instant::now() < until => os::interrupt::check()?,
                done => return done,
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn loading(&mut self, begins: bool) -> Result<()> {
        if begins {
            self.disk.forget_log()?;
            return self.disk.pace(self.pace);
        }
        self.disk.pace(Pace::Free)?;
        self.fidelity.add(&self.disk.log()?);
        Ok(())
    }

    fn warnings(&self) -> Vec<Warning> {
        self.fidelity.warning().into_iter().collect()
    }
}
