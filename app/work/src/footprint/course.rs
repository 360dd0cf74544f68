//! A memory course: versions of a program go through the steps of a scenario, over and over, and at each checkpoint is
//! looked at what memory they have. Each run leaves a watch, `DIRECTORY/VERSION/NUMBER.memory`.

use super::watching::add_trees;
use super::{page, read_watch};
use crate::facts;
use crate::rundir::RunDir;
use memory::course::{self, AtCheckpoint};
use memory::file;
use memory::log::Log;
use memory::maps;
use memory::scenario::{Scenario, Step, Version};
use memory::watch::{self, Checkpoint, Head, Sample, Watched, Whose};
use model::{Error, Exit, Result, shown};
use os::replace::{Existing, Rights, write_whole};
use os::spawn::{Launch, Stream, monotonic_ns};
use pageload::drive::{self, Browser, Caching, Kind, Setup};
use pageload::program::Program;
use serde::Serialize;
use stats::Random;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use view::CourseOf;

/// The scenario beside what came of it.
const SCENARIO: &str = "scenario.toml";
/// Where it ran, beside it: facts as `subject key` to value.
const MACHINE: &str = "machine.json";
/// How a watch's file ends.
const WATCH: &str = "memory";
/// How long a page may take to load: a busy machine is no failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long `until` tries.
const UNTIL: Duration = Duration::from_secs(300);
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(20);
/// Between two tries of `until`.
const A_MOMENT: Duration = Duration::from_millis(100);

/// `thaw.memory-course/1`: each version at each checkpoint.
#[derive(Debug, Serialize)]
pub struct CourseDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where the watches are.
    pub directory: String,
    /// The watches of each version.
    pub versions: Vec<VersionRuns>,
    /// The checkpoints, with all versions.
    pub checkpoints: Vec<AtCheckpoint>,
}

/// The runs of a version.
#[derive(Debug, Serialize)]
pub struct VersionRuns {
    /// Its name.
    pub name: String,
    /// The file of each run.
    pub files: Vec<String>,
}

/// What is told while it runs: the version, the iteration from 1, and what is done.
pub type Tell<'a> = &'a mut dyn FnMut(&str, u32, &str);

/// Runs a scenario; `random` decides in which order the versions take their turns.
///
/// # Errors
/// The directory holds something already; a program that does not start, ends early, or does not do a step. The
/// watches of the runs before are kept.
pub fn run(scenario: &(Scenario, String), directory: &Path, seed: u64, told: Tell<'_>) -> Result<()> {
    let (scenario, text) = scenario;
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    check_programs(scenario)?;
    begin(directory, text)?;
    write_whole(&directory.join(MACHINE), &machine_now()?, Rights::Usual, Existing::Keep)?;
    let mut random = Random::from_seed(seed);
    for iteration in 1..=scenario.iterations {
        let mut turns: Vec<&Version> = scenario.versions.iter().collect();
        random.shuffle(&mut turns);
        for version in turns {
            let place = directory.join(&version.name);
            std::fs::create_dir_all(&place)
                .map_err(|cause| Error::on(Exit::Machine, "cannot make", &place).because(cause))?;
            let mut say = |what: &str| told(&version.name, iteration, what);
            let file = place.join(format!("{iteration}.{WATCH}"));
            Turn::begin(scenario, version, &file)?.go(&scenario.steps, &mut say)?;
        }
    }
    Ok(())
}

/// What can be known before anything runs.
fn check_programs(scenario: &Scenario) -> Result<()> {
    for version in &scenario.versions {
        match version.command.first() {
            Some(program) => os::spawn::resolve_program(program.as_ref()).map(|_| ())?,
            None => browser_of(version).map(|_| ())?,
        }
    }
    Ok(())
}

fn browser_of(version: &Version) -> Result<(Kind, PathBuf)> {
    let kind = match version.browser.as_deref() {
        Some("chromium") => Kind::Chromium,
        _ => Kind::Firefox,
    };
    let program = match &version.program {
        Some(program) => os::spawn::resolve_program(program.as_os_str())?,
        None => kind.find()?,
    };
    Ok((kind, program))
}

fn begin(directory: &Path, scenario: &str) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Machine, "cannot make", directory).because(cause);
    std::fs::create_dir_all(directory).map_err(cannot)?;
    if std::fs::read_dir(directory).map_err(cannot)?.next().is_some() {
        return Err(Error::on(Exit::Usage, "this directory is not empty:", directory)
            .hint("-o names another; what is there is never replaced"));
    }
    write_whole(&directory.join(SCENARIO), scenario.as_bytes(), Rights::Usual, Existing::Keep)
}

/// The machine as it is now, without its disks: what memory a program has does not depend on them.
fn machine_now() -> Result<Vec<u8>> {
    let facts = facts::gather(&[]).into_iter().map(|fact| (format!("{} {}", fact.subject, fact.key), fact.value));
    serde_json::to_vec_pretty(&facts.collect::<BTreeMap<_, _>>()).map_err(|error| Error::bug(error.to_string()))
}

/// A version that runs.
enum Subject {
    Browser(Box<dyn Browser>),
    Other(Box<Program>),
}

impl Subject {
    fn start(version: &Version, directories: &RunDir) -> Result<Self> {
        let temporary = directories.path().join("tmp");
        if version.browser.is_none() {
            let mut launch = Launch::new(version.command.iter().map(OsString::from));
            launch.env.push(("TMPDIR".into(), Some(temporary.into_os_string())));
            launch.stdout = Stream::Null;
            return Program::start(&version.name, launch).map(Box::new).map(Self::Other);
        }
        let (kind, program) = browser_of(version)?;
        let profile = directories.path().join("profile");
        let setup = Setup { program, profile, temporary, caching: Caching::Own, patience: PATIENCE };
        drive::start(kind, &setup).map(Self::Browser)
    }

    fn program(&self) -> &Program {
        match self {
            Self::Browser(browser) => browser.program(),
            Self::Other(program) => program,
        }
    }

    /// Of a browser its protocol says so.
    fn has_ended(&mut self) -> Result<bool> {
        match self {
            Self::Browser(browser) => Ok(browser.program().processes().is_empty()),
            Self::Other(program) => program.has_ended(),
        }
    }

    fn end(self) -> Result<()> {
        match self {
            Self::Browser(browser) => browser.close(),
            Self::Other(program) => program.stop(GRACE),
        }
    }
}

/// One run of one version.
struct Turn<'a> {
    version: &'a Version,
    interval: Duration,
    subject: Subject,
    log: Log,
    /// Behind the program that uses them.
    _directories: RunDir,
}

impl<'a> Turn<'a> {
    fn begin(scenario: &Scenario, version: &'a Version, file: &Path) -> Result<Self> {
        let directories = RunDir::with(&["profile", "tmp"], None)?;
        let began_ns = monotonic_ns();
        let subject = Subject::start(version, &directories)?;
        let root = subject.program().processes().first().copied().unwrap_or(0);
        let head = Head {
            schema: watch::SCHEMA.into(),
            thaw_version: env!("CARGO_PKG_VERSION").into(),
            command: match &version.browser {
                Some(browser) => vec![browser.clone()],
                None => version.command.clone(),
            },
            whose: Whose::Program(root),
            start_ticks: os::process::start_ticks(root).unwrap_or(0),
            began_ns,
            created_unix_ns: os::machine::now_unix_ns(),
        };
        let log = Log::create(file, &head)?;
        Ok(Self { version, interval: scenario.interval(), subject, log, _directories: directories })
    }

    fn go(mut self, steps: &[Step], say: &mut dyn FnMut(&str)) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            let what = words(step);
            say(&what);
            let done = self.step(step).and_then(|()| self.is_there());
            done.map_err(|error| match error.exit {
                Exit::Interrupted => error,
                _ => Error {
                    what: format!("{}, step {} ({what}): {}", self.version.name, index + 1, error.what),
                    ..error
                },
            })?;
        }
        self.subject.end()
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Mark(name) => self.mark(name),
            Step::Wait(seconds) => self.wait(Duration::from_secs_f64(*seconds)),
            Step::Load(pages) => pages.all().iter().try_for_each(|page| self.browser()?.open_tab(page)),
            Step::Close(_) => self.browser()?.close_tabs(),
            Step::Minimise(false) => Ok(()),
            Step::Minimise(true) => match &mut self.subject {
                Subject::Browser(browser) => browser.minimise(),
                Subject::Other(program) => minimise(&program.processes(), &self.version.name),
            },
            Step::Shell(line) => match self.shell(line)? {
                true => Ok(()),
                false => Err(Error::new(Exit::Target, "this command failed:", line)),
            },
            Step::Until(line) => {
                let began = Instant::now();
                while !self.shell(line)? {
                    self.is_there()?;
                    if began.elapsed() >= UNTIL {
                        return Err(Error::new(Exit::Target, "this command did not succeed in five minutes:", line));
                    }
                    os::interrupt::check()?;
                    std::thread::sleep(A_MOMENT);
                }
                Ok(())
            }
        }
    }

    fn browser(&mut self) -> Result<&mut dyn Browser> {
        match &mut self.subject {
            Subject::Browser(browser) => Ok(&mut **browser),
            Subject::Other(_) => Err(Error::bug("a scenario was not checked")),
        }
    }

    /// # Errors
    /// It has ended.
    fn is_there(&mut self) -> Result<()> {
        match self.subject.has_ended()? {
            true => Err(Error::new(Exit::Target, "the program has ended:", &self.version.name)),
            false => Ok(()),
        }
    }

    /// Whether it succeeded.
    fn shell(&self, line: &str) -> Result<bool> {
        let mut launch = Launch::new(["/bin/sh", "-c", line].map(OsString::from));
        let pid = self.subject.program().processes().first().copied().unwrap_or(0);
        launch.env.push(("THAW_PID".into(), Some(pid.to_string().into())));
        launch.stdout = Stream::Null;
        let mut running = os::spawn::spawn_gated(launch).and_then(os::spawn::Gated::release)?;
        Ok(running.wait()?.code == Some(0))
    }

    fn look(&self) -> Sample {
        watch::sample_of(self.subject.program().processes(), monotonic_ns())
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        let until = Instant::now() + how_long;
        loop {
            self.log.add(&self.look())?;
            self.is_there()?;
            os::interrupt::check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(self.interval));
        }
    }

    /// The memory first, then what takes memory itself: the program's own report.
    fn mark(&mut self, name: &str) -> Result<()> {
        let mut sample = self.look();
        sample.mark = Some(name.to_owned());
        for process in &sample.processes {
            // One that has ended meanwhile is in the sums all the same.
            if let Ok(text) = std::fs::read(format!("/proc/{}/smaps", process.pid)) {
                sample.reports.extend(maps::reports(&text, &format!("{} (pid {})", process.name, process.pid)));
            }
        }
        match &mut self.subject {
            Subject::Browser(browser) => {
                if let Some(report) = browser.memory_report()? {
                    let bytes = std::fs::read(&report)
                        .map_err(|cause| Error::on(Exit::Machine, "cannot read", &report).because(cause))?;
                    sample.reports.extend(file::parse(&bytes, &shown(&report))?.reports);
                }
            }
            Subject::Other(program) => {
                let mut failed = None;
                add_trees(&mut sample, &program.processes(), &mut |error| failed = Some(error));
                if let Some(error) = failed {
                    return Err(error);
                }
            }
        }
        self.log.add(&sample)
    }
}

/// Asks every process that has `thaw_memreport` in it.
fn minimise(processes: &[u32], name: &str) -> Result<()> {
    use memory::ask::{Detail, First, ask, socket};
    let able: Vec<u32> = processes.iter().copied().filter(|pid| socket(*pid).is_some()).collect();
    if able.is_empty() {
        return Err(Error::new(Exit::Target, "nothing tells this program to give memory back:", name)
            .hint("it has no thaw_memreport in it (docs/memory.md): use `shell` with what it understands"));
    }
    able.into_iter().try_for_each(|pid| ask(pid, First::Minimize, Detail::Figures).map(|_| ()))
}

fn words(step: &Step) -> String {
    match step {
        Step::Mark(name) => format!("mark {name}"),
        Step::Wait(seconds) => format!("wait {seconds} s"),
        Step::Load(pages) => format!("load {}", pages.all().join(" ")),
        Step::Close(_) => "close tabs".to_owned(),
        Step::Minimise(_) => "minimise".to_owned(),
        Step::Shell(line) => format!("shell {line}"),
        Step::Until(line) => format!("until {line}"),
    }
}

/// A course that was run.
pub struct Course {
    directory: PathBuf,
    scenario: Scenario,
    /// The watches of each version, by their files.
    runs: Vec<Vec<(PathBuf, Watched)>>,
}

impl Course {
    /// Reads the directory of one.
    ///
    /// # Errors
    /// It is none; a watch that is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let none = |error: Error| error.hint("thaw memory course SCENARIO -o DIRECTORY makes one");
        let (scenario, _) = memory::scenario::read(&directory.join(SCENARIO)).map_err(none)?;
        let mut all = Vec::new();
        for version in &scenario.versions {
            let files =
                (1..=scenario.iterations).map(|number| directory.join(&version.name).join(format!("{number}.{WATCH}")));
            // A course that was interrupted has fewer.
            let runs = files.filter(|file| file.exists()).map(|file| Ok((file.clone(), read_watch(&file)?)));
            all.push(runs.collect::<Result<Vec<_>>>()?);
        }
        if all.iter().all(Vec::is_empty) {
            return Err(Error::on(Exit::Data, "no run has been made in", directory));
        }
        Ok(Self { directory: directory.to_owned(), scenario, runs: all })
    }

    /// Its versions with their watches, by their files.
    pub fn versions(&self) -> impl Iterator<Item = (&Version, &[(PathBuf, Watched)])> {
        self.scenario.versions.iter().zip(self.runs.iter().map(Vec::as_slice))
    }

    /// What is done with each version, in words.
    pub fn steps(&self) -> String {
        self.scenario.steps.iter().map(words).collect::<Vec<_>>().join("; ")
    }

    /// Facts about the machine that it was run on, as `subject key` to value.
    ///
    /// # Errors
    /// It does not say.
    pub fn machine(&self) -> Result<BTreeMap<String, String>> {
        let path = self.directory.join(MACHINE);
        let unknown =
            || Error::on(Exit::Data, "it is not known on which machine this course was run:", &self.directory);
        let text = std::fs::read(&path).map_err(|cause| {
            unknown()
                .because(format!("{}: {cause}", shown(&path)))
                .hint("run it again: an older thaw wrote no such file")
        })?;
        serde_json::from_slice(&text).map_err(|cause| {
            unknown().because(format!("{}: {cause}", shown(&path))).hint("the file is damaged: run the course again")
        })
    }

    fn checkpoints(&self) -> Vec<(&str, Vec<Vec<Checkpoint>>)> {
        let of_runs = |runs: &[(PathBuf, Watched)]| runs.iter().map(|(_, watched)| watched.checkpoints()).collect();
        self.versions().map(|(version, runs)| (version.name.as_str(), of_runs(runs))).collect()
    }

    /// What it says.
    pub fn document(&self) -> CourseDocument {
        let checkpoints = self.checkpoints();
        let runs: Vec<course::Runs<'_>> = checkpoints.iter().map(|(name, runs)| (*name, &runs[..])).collect();
        CourseDocument {
            schema: "thaw.memory-course/1",
            directory: shown(&self.directory),
            versions: self
                .versions()
                .map(|(version, runs)| VersionRuns {
                    name: version.name.clone(),
                    files: runs.iter().map(|(file, _)| shown(file)).collect(),
                })
                .collect(),
            checkpoints: course::checkpoints(&runs),
        }
    }

    /// The page: memory by version, and of each version and checkpoint the trees of the run in the middle.
    ///
    /// # Errors
    /// The page is too large for its format: a bug.
    pub fn page(&self) -> Result<String> {
        let runs = self.checkpoints();
        let middle: Vec<(&str, &Watched)> = self
            .runs
            .iter()
            .zip(&runs)
            .filter_map(|(watches, (name, runs))| Some((*name, &watches[course::middle(runs, "peak")?].1)))
            .collect();
        let checkpoints = self.document().checkpoints;
        let mut reports = Vec::new();
        let mut trees = Vec::new();
        for AtCheckpoint { name, .. } in &checkpoints {
            let of_versions = runs.iter().map(|(version, runs)| {
                let run = &runs[course::middle(runs, name).filter(|_| page::is_mark(name))?];
                let report = run.iter().find(|it| it.name == *name)?.reports.as_ref()?;
                reports.push((format!("{version} at {name}"), report));
                Some(reports.len() - 1)
            });
            trees.push(of_versions.collect());
        }
        let course = CourseOf { checkpoints: &checkpoints, trees: &trees };
        page::of_course(&shown(&self.directory), course, &reports, &middle)
    }
}
