//! Everything that a recording needs to know before its first run: programs with their directories in place, whose
//! files are whose, which disks are concerned.

use crate::facts;
use crate::plan::RecordPlan;
use crate::rundir::RunDir;
use bench::record::{LabOptions, Program};
use io::Ownership;
use model::{OwnerRule, Result};
use os::packages::Packages;
use recording::Fact;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The scene, set. Dropping it removes the run directory.
pub struct Stage {
    /// The programs, placeholders filled in.
    pub programs: Vec<Program>,
    /// The file of each program.
    pub program_files: Vec<PathBuf>,
    /// Whose files are whose, by variant.
    pub ownership: Vec<Ownership>,
    /// Who lists which file; none where there is no database that thaw reads.
    pub packages: Option<Rc<RefCell<Packages>>>,
    /// How the machine is set up.
    pub lab: LabOptions,
    /// The machine as it is.
    pub facts: Vec<Fact>,
    /// Directories that thaw made for this recording.
    pub run_dir: Option<RunDir>,
}

impl Stage {
    /// Finds the programs, makes the run directory if the plan needs one.
    ///
    /// # Errors
    /// An unknown program; a run directory that cannot be made.
    pub fn set(plan: &RecordPlan) -> Result<Self> {
        let program_files = plan.programs.iter().map(program_file).collect::<Result<Vec<_>>>()?;
        let run_dir = plan.needs_run_dir.then(|| RunDir::create(plan.user.as_ref())).transpose()?;
        let fill = |word: &OsStr| run_dir.as_ref().map_or_else(|| word.to_owned(), |directory| directory.fill(word));
        let own: Vec<(PathBuf, OwnerRule)> =
            plan.own.iter().map(|(word, rule)| (absolute(Path::new(&fill(word))), *rule)).collect();
        let both = plan.programs.iter().zip(&program_files);
        let mut programs: Vec<Program> = both.map(|(program, file)| placed(program, file, &fill)).collect();
        let ownership: Vec<Ownership> =
            programs.iter().zip(&program_files).map(|(program, file)| ownership(program, file, &own)).collect();
        for (program, ownership) in programs.iter_mut().zip(&ownership) {
            program.dirs = ownership.directories();
        }
        let paths = disk_paths(&programs, &program_files, run_dir.as_ref());
        let on_disks = paths.iter().filter(|path| os::disk::Disk::of_path(path).is_ok()).cloned().collect();
        let lab = LabOptions { disk_paths: on_disks, ..plan.lab.clone() };
        let facts = facts::gather(&paths);
        let packages = Packages::load().map(|packages| Rc::new(RefCell::new(packages)));
        Ok(Self { facts, programs, program_files, ownership, packages, lab, run_dir })
    }

    /// Directories of all variants' programs.
    pub fn app_dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self.programs.iter().flat_map(|program| program.dirs.iter().cloned()).collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }
}

/// The program's file; a relative one is looked for where the program will start.
fn program_file(program: &Program) -> Result<PathBuf> {
    let typed = program.argv.first().map(OsString::as_os_str).unwrap_or_default();
    match program.cwd.as_deref().filter(|_| is_relative_path(typed)) {
        Some(cwd) => os::spawn::resolve_program(cwd.join(typed).as_os_str()),
        None => os::spawn::resolve_program(typed),
    }
}

/// `./x`, `bin/x`: not a name to be found by PATH.
fn is_relative_path(typed: &OsStr) -> bool {
    Path::new(typed).is_relative() && typed.as_encoded_bytes().contains(&b'/')
}

/// The program with its directories in place. A relative program is looked for in `--cwd`, as `env -C` does.
fn placed(program: &Program, file: &Path, fill: &impl Fn(&OsStr) -> OsString) -> Program {
    let mut argv: Vec<OsString> = program.argv.iter().map(|word| fill(word)).collect();
    if let Some(first) = argv.first_mut().filter(|first| program.cwd.is_some() && is_relative_path(first)) {
        *first = std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).into_os_string();
    }
    let mut around = program.around.clone();
    around.lines().for_each(|line| *line = fill(line));
    Program {
        argv,
        around,
        env: program.env.iter().map(|(name, value)| (name.clone(), value.as_deref().map(fill))).collect(),
        restore: program.restore.iter().map(|path| fill(path.as_os_str()).into()).collect(),
        ..program.clone()
    }
}

/// What of a program's files is known to be its own before it runs.
fn ownership(program: &Program, file: &Path, own: &[(PathBuf, OwnerRule)]) -> Ownership {
    let mut ownership = Ownership::of_program(both_names(file));
    let cwd = program.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    for file in io::launched(&program.argv) {
        both_names(&file).into_iter().for_each(|path| ownership.add_program(path));
    }
    own.iter().for_each(|(path, rule)| ownership.add(path.clone(), *rule));
    program.restore.iter().for_each(|path| ownership.add(absolute(path), OwnerRule::Restored));
    io::named_paths(&program.argv, &cwd).into_iter().for_each(|path| ownership.add_argument(path));
    let variable = |name: &str| {
        let asked = program.env.iter().rev().find(|(asked, _)| asked == name);
        asked.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone()).map(PathBuf::from)
    };
    let below = |names: &[&str]| names.iter().filter_map(|name| variable(name)).collect::<Vec<_>>();
    for path in below(&["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]) {
        ownership.add(path, OwnerRule::Home);
    }
    for path in below(&["TMPDIR", "XDG_RUNTIME_DIR"]).into_iter().chain(["/tmp", "/var/tmp"].map(PathBuf::from)) {
        ownership.add(path, OwnerRule::Temporary);
    }
    ownership
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A file's name as found, and the one behind its symbolic links.
fn both_names(file: &Path) -> [PathBuf; 2] {
    let absolute = absolute(file);
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| absolute.clone());
    [absolute, real]
}

/// Paths whose disks the program reads: its file, the system, its directories, where it starts.
fn disk_paths(programs: &[Program], files: &[PathBuf], run_dir: Option<&RunDir>) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/"), PathBuf::from("/usr")];
    paths.extend(files.iter().cloned());
    for program in programs {
        paths.extend(program.restore.iter().cloned());
        paths.extend(program.cwd.clone());
    }
    paths.extend(run_dir.map(|directory| directory.path().to_owned()));
    paths.extend(std::env::current_dir());
    paths
}
