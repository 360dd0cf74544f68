//! Everything that a recording needs to know before its first run: programs with their directories in place, whose files are
//! whose, which disks are concerned.

use crate::facts;
use crate::ownership::Ownership;
use crate::plan::RecordPlan;
use crate::rundir::RunDir;
use bench::record::{LabOptions, Program};
use model::Result;
use recording::Fact;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The scene, set. Dropping it removes the run directory.
pub struct Stage {
    /// The programs, placeholders filled in.
    pub programs: Vec<Program>,
    /// The file of each program.
    pub program_files: Vec<PathBuf>,
    /// Whose files are whose, by variant.
    pub ownership: Vec<Ownership>,
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
        let run_dir = plan.needs_run_dir.then(RunDir::create).transpose()?;
        let fill = |word: &OsStr| run_dir.as_ref().map_or_else(|| word.to_owned(), |directory| directory.fill(word));
        let own: Vec<PathBuf> = plan.own.iter().map(|word| fill(word).into()).collect();
        let both = plan.programs.iter().zip(&program_files);
        let mut programs: Vec<Program> = both.map(|(program, file)| placed(program, file, &fill)).collect();
        let ownership: Vec<Ownership> =
            programs.iter().zip(&program_files).map(|(program, file)| ownership(program, file, &own)).collect();
        for (program, ownership) in programs.iter_mut().zip(&ownership) {
            program.dirs = install_and_profile(ownership);
        }
        let paths = disk_paths(&programs, &program_files, run_dir.as_ref());
        let on_disks = paths.iter().filter(|path| os::disk::Disk::of_path(path).is_ok()).cloned().collect();
        let lab = LabOptions { disk_paths: on_disks, ..plan.lab.clone() };
        let facts = facts::gather(&paths);
        Ok(Self { facts, programs, program_files, ownership, lab, run_dir })
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
    Program {
        argv,
        env: program.env.iter().map(|(name, value)| (name.clone(), value.as_deref().map(fill))).collect(),
        restore: program.restore.iter().map(|path| fill(path.as_os_str()).into()).collect(),
        ..program.clone()
    }
}

fn ownership(program: &Program, file: &Path, own: &[PathBuf]) -> Ownership {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| absolute.clone());
    let variable = |name: &str| {
        let asked = program.env.iter().rev().find(|(asked, _)| asked == name);
        asked.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone()).map(PathBuf::from)
    };
    let mut decreed: Vec<PathBuf> = own.to_vec();
    decreed.extend(program.restore.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())));
    decreed.extend(
        ["HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]
            .into_iter()
            .filter_map(variable),
    );
    decreed.extend(["/tmp", "/var/tmp"].map(PathBuf::from));
    Ownership::new(&[absolute, real], decreed)
}

/// What is the program's and small enough to be looked through: not the whole $HOME, not all of /tmp.
fn install_and_profile(ownership: &Ownership) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let shared = |path: &&PathBuf| {
        ["/tmp", "/var/tmp"].iter().any(|shared| path.as_path() == Path::new(shared)) || home.as_ref() == Some(*path)
    };
    ownership.roots().iter().filter(|path| !shared(path)).cloned().collect()
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
