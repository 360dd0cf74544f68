//! What this machine can measure, and what killed runs left behind.
//!
//! Tries things instead of reading versions: what works here is what was seen to work. Nothing that it tries stays.

mod why;

use crate::{facts, images, rundir};
use io::{EngineChoice, EngineOptions};
use model::{Error, Result};
use os::cgroup;
use os::journal;
use os::perf::{Count, Counter};
use serde::Serialize;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// `thaw.doctor/1`
#[derive(Debug, Serialize)]
pub struct DoctorDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// What was tried.
    pub abilities: Vec<Ability>,
    /// What killed runs left; mended ones too.
    pub leftovers: Vec<Leftover>,
    /// Settings of the machine that recordings hold just now.
    pub held: Vec<os::settings::Holder>,
    /// Journals and entries that are not obeyed, since others than this user can have written them.
    pub refused: Vec<Refused>,
    /// What was installed on purpose, and stays until it is taken away.
    pub installed: Vec<Installed>,
    /// What `thaw elf pack --in-place` packed; wanted, so `--mend` leaves it.
    pub packed: Vec<pack::Installed>,
    /// What `thaw optimize --apply` changed.
    pub optimized: Vec<optimize::applied::Applied>,
    /// What is kept between runs, and can be made anew; `None`: there is no place for it.
    pub kept: Option<KeptDirectory>,
    /// Records of what is installed or applied that cannot be read, and why: so it cannot be taken away by thaw.
    pub unreadable: Vec<String>,
}

/// A journal, or an entry of one, that is not obeyed.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// The directory or file.
    pub path: String,
    /// Why not.
    pub why: String,
    /// What to type.
    pub hint: String,
}

/// A directory of what thaw keeps between runs.
#[derive(Clone, Debug, Serialize)]
pub struct KeptDirectory {
    /// Where it is.
    pub directory: String,
    /// How many files are in it.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: u64,
}

/// What `thaw preload install` or `thaw image install` installed.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    /// Its files.
    pub files: Vec<String>,
    /// What to type to take it away.
    pub undo: String,
}

/// One thing that a recording may need.
#[derive(Clone, Debug, Serialize)]
pub struct Ability {
    /// Its name.
    pub name: String,
    /// What it is good for.
    pub purpose: String,
    /// Whether it works here.
    pub works: bool,
    /// What was found, or why it does not work.
    pub detail: String,
    /// What to type to change that.
    pub hint: Option<String>,
}

/// What a killed run left.
#[derive(Clone, Debug, Serialize)]
pub struct Leftover {
    /// What mending does, in words.
    pub what: String,
    /// The process that left it.
    pub pid: u32,
    /// When it was made, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// It was put back just now.
    pub mended: bool,
    /// Why it could not be.
    pub problem: Option<String>,
}

/// What becomes of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They are listed.
    Listed,
    /// They are put back.
    Mended,
}

impl DoctorDocument {
    /// Whether nothing is left, and everybody knows what there is.
    pub fn is_well(&self) -> bool {
        let mended = self.leftovers.iter().all(|leftover| leftover.mended);
        mended && self.refused.is_empty() && self.unreadable.is_empty()
    }
}

/// Tries what works, and looks at what is left.
///
/// # Errors
/// The journal or the list of packed files cannot be read.
pub fn examine(wanted: Leftovers) -> Result<DoctorDocument> {
    // Leftovers first: what the survey makes and removes again is not among them.
    let (mut leftovers, refused) = leftovers(wanted)?;
    leftovers.extend(half_installed(wanted)?);
    let (installations, mut unreadable) = os::installed::list()?;
    let (optimized, more) = optimize::applied::list()?;
    unreadable.extend(more);
    Ok(DoctorDocument {
        schema: "thaw.doctor/1",
        abilities: abilities(),
        leftovers,
        // Of a journal that is not obeyed nobody knows who holds what; it is among the refused.
        held: os::settings::holders().unwrap_or_default(),
        refused,
        installed: installations.iter().filter(|it| it.doing.is_none()).map(installed).collect(),
        packed: pack::installed()?,
        optimized,
        kept: os::kept::directory().map(|directory| kept(&directory)),
        unreadable: unreadable.iter().map(Error::to_string).collect(),
    })
}

fn kept(directory: &Path) -> KeptDirectory {
    let os::kept::Amount { files, bytes } = os::kept::amount(directory);
    KeptDirectory { directory: model::shown(directory), files, bytes: bytes.0 }
}

/// Throws away what is kept between runs.
///
/// # Errors
/// A file cannot be removed.
pub fn empty_kept() -> Result<()> {
    os::kept::directory().map_or(Ok(()), |directory| os::kept::empty(&directory))
}

fn installed(it: &os::installed::Installation) -> Installed {
    Installed { files: it.paths().map(|path| model::shown(path)).collect(), undo: it.undo_command() }
}

/// What a killed run left half installed or half taken away: it is taken away.
fn half_installed(wanted: Leftovers) -> Result<Vec<Leftover>> {
    let half_done = os::installed::half_done()?;
    let left = half_done.iter().filter_map(|it| {
        let doing = it.doing?;
        let outcome = (wanted == Leftovers::Mended).then(|| images::installing::remove(it));
        Some(Leftover {
            what: format!("take away what was half installed: {}", it.undo_command()),
            pid: doing.pid,
            created_unix_ns: doing.since_unix_ns,
            mended: matches!(outcome, Some(Ok(_))),
            problem: outcome.and_then(|outcome| outcome.err()).map(|error| error.to_string()),
        })
    });
    Ok(left.collect())
}

fn leftovers(wanted: Leftovers) -> Result<(Vec<Leftover>, Vec<Refused>)> {
    let mut found = Vec::new();
    let (leftovers, refused) = journal::survey()?;
    for leftover in leftovers {
        let outcome = (wanted == Leftovers::Mended).then(|| journal::mend(&leftover));
        found.push(Leftover {
            what: describe(&leftover),
            pid: leftover.pid,
            created_unix_ns: leftover.created_unix_ns,
            mended: matches!(outcome, Some(Ok(()))),
            problem: outcome.and_then(|outcome| outcome.err()).map(|error| error.to_string()),
        });
    }
    let refused = refused.into_iter().map(|it| Refused { path: model::shown(&it.path), why: it.why, hint: it.hint });
    Ok((found, refused.collect()))
}

/// What mending would do: `remove /var/tmp/thaw-…`.
fn describe(leftover: &journal::Leftover) -> String {
    let text = leftover.undo.to_string();
    if leftover.forgotten_by_reboot {
        format!("{text} (gone since the reboot; only the note of it is left)")
    } else {
        text
    }
}

fn abilities() -> Vec<Ability> {
    let mut abilities = vec![drop_caches()];
    abilities.extend(groups());
    abilities.extend(engines());
    abilities.extend(why::abilities());
    abilities.push(counters());
    abilities.push(file_names());
    abilities.extend(disks());
    abilities.push(simulated_disk());
    abilities.push(writable(
        "steady idle states",
        "--cpu steady keeps the CPUs out of deep sleep",
        Path::new("/dev/cpu_dma_latency"),
    ));
    abilities.push(governor());
    abilities.push(pressure());
    abilities.push(run_directory());
    abilities
}

fn works(name: &str, purpose: &str, detail: impl Into<String>) -> Ability {
    Ability { name: name.into(), purpose: purpose.into(), works: true, detail: detail.into(), hint: None }
}

fn missing(name: &str, purpose: &str, why: impl Into<String>, hint: Option<String>) -> Ability {
    Ability { name: name.into(), purpose: purpose.into(), works: false, detail: why.into(), hint }
}

/// Opens a file for writing and writes nothing.
fn writable(name: &str, purpose: &str, path: &Path) -> Ability {
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => works(name, purpose, ""),
        Err(error) => {
            let hint = (error.kind() == std::io::ErrorKind::PermissionDenied).then(|| "run thaw as root".to_owned());
            missing(name, purpose, format!("{}: {error}", path.display()), hint)
        }
    }
}

fn drop_caches() -> Ability {
    writable("dropping the caches", "the states cold and boot", Path::new("/proc/sys/vm/drop_caches"))
}

fn groups() -> Vec<Ability> {
    let (can, why_not) = cgroup::survey();
    // Each reason names its controller's files; one that names none is about all of them.
    let wanted = [
        (
            cgroup::Ability::Memory,
            "memory",
            "memory control group",
            "the state app evicts data and metadata of the program alone",
        ),
        (
            cgroup::Ability::Cpu,
            "cpu",
            "CPU control group",
            "CPU time of all processes of a run, also of those that nobody waits for",
        ),
        (cgroup::Ability::Io, "io", "I/O control group", "bytes and requests of a run, and --disk throttle"),
    ];
    let reasons: Vec<&str> = why_not.iter().flat_map(|why| why.split("; ")).collect();
    let reason = |controller: &str| {
        let about = reasons
            .iter()
            .find(|reason| reason.contains(&format!("/{controller}")) || reason.contains(&format!("/blk{controller}")));
        about.or(reasons.first()).map_or_else(String::new, |reason| (*reason).to_owned())
    };
    let hint = "run thaw as root, on a system that delegates these controllers";
    wanted
        .into_iter()
        .map(|(ability, controller, name, purpose)| match can.contains(&ability) {
            true => works(name, purpose, ""),
            false => missing(name, purpose, reason(controller), Some(hint.into())),
        })
        .collect()
}

/// Each engine is opened as a recording would open it.
fn engines() -> Vec<Ability> {
    let wanted = [
        (EngineChoice::Perf, "trace engine perf", "which file and which request, with hardly any cost"),
        (EngineChoice::Tracefs, "trace engine tracefs", "the same where perf events are not allowed"),
        (EngineChoice::Probe, "trace engine probe", "which pages a start brings in, without any rights"),
    ];
    wanted
        .into_iter()
        .map(|(choice, name, purpose)| {
            let options = EngineOptions { program: std::env::current_exe().ok(), app_dirs: Vec::new(), wakes: false };
            match io::open_engine(choice, &options) {
                Ok(_) => works(name, purpose, ""),
                Err(error) => from_error(name, purpose, &error),
            }
        })
        .collect()
}

fn from_error(name: &str, purpose: &str, error: &Error) -> Ability {
    missing(name, purpose, error.to_string(), error.hint.clone())
}

fn counters() -> Ability {
    let (name, purpose) =
        ("hardware counters", "instructions and cycles of each run: they hold still on a busy machine");
    match Counter::open(Count::Instructions, std::process::id()) {
        Ok(Some(_)) => works(name, purpose, ""),
        Ok(None) => missing(name, purpose, "this (virtual) machine has none", None),
        Err(error) => from_error(name, purpose, &error),
    }
}

/// The root directory of a file system is the one inode whose number is known (2 on ext4).
fn file_names() -> Ability {
    let (name, purpose) = ("names of inodes", "a trace tells numbers; the kernel tells the names");
    const CAP_DAC_READ_SEARCH: u32 = 2;
    let capabilities = os::process::status_value(std::process::id(), "CapEff");
    let held = capabilities.and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0);
    if held & (1 << CAP_DAC_READ_SEARCH) != 0 {
        works(name, purpose, "")
    } else {
        missing(name, purpose, "no CAP_DAC_READ_SEARCH", Some("run thaw as root".into()))
    }
}

fn disks() -> Vec<Ability> {
    let paths = [PathBuf::from("/"), PathBuf::from("/usr"), PathBuf::from("/var/tmp")];
    let disks = facts::disks(&paths);
    if disks.is_empty() {
        return vec![missing("read-ahead", "--readahead", "no disk is under /, /usr or /var/tmp", None)];
    }
    disks
        .into_iter()
        .map(|disk| {
            let mut ability = writable("read-ahead", "--readahead", &disk.read_ahead_file);
            let found = format!("{} reads {} KiB ahead", disk.name, disk.read_ahead_kb);
            ability.detail = if ability.works { found } else { format!("{found}; {}", ability.detail) };
            ability
        })
        .collect()
}

fn simulated_disk() -> Ability {
    let (name, purpose) = ("simulated disk", "record --disk laptop2010: starts from a slow disk");
    let mut needed =
        ["/dev/fuse", "/dev/loop-control"].into_iter().map(|path| writable(name, purpose, Path::new(path)));
    if let Some(missing) = needed.find(|ability| !ability.works) {
        return missing;
    }
    if !rustix::process::geteuid().is_root() {
        return missing(name, purpose, "this user may not mount", Some("run thaw as root".into()));
    }
    if !disk::simulated::has_mkfs() {
        return missing(name, purpose, "there is no mkfs.ext4", Some("apt-get install e2fsprogs".into()));
    }
    works(name, purpose, "")
}

fn governor() -> Ability {
    let (name, purpose) = ("steady CPU speed", "--cpu steady holds the governor");
    let path = Path::new("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match std::fs::read_to_string(path) {
        Ok(governor) => Ability { detail: format!("governor {}", governor.trim()), ..writable(name, purpose, path) },
        Err(_) => {
            missing(name, purpose, "this machine has no control over it (virtual machines usually have none)", None)
        }
    }
}

fn pressure() -> Ability {
    let (name, purpose) = ("pressure stall information", "runs taken while others kept the machine busy are flagged");
    let found = os::pressure::machine();
    if found.io.is_some() && found.cpu.is_some() {
        works(name, purpose, "")
    } else {
        missing(name, purpose, "/proc/pressure is not there", Some("boot with psi=1".into()))
    }
}

/// A profile that lies in memory would never be cold.
fn run_directory() -> Ability {
    let (name, purpose) = ("directory for profiles", "fresh profiles of presets lie on a disk");
    let path = rundir::base();
    match os::disk::Disk::of_path(&path) {
        Ok(disk) => works(name, purpose, format!("{} on {}", path.display(), disk.name)),
        Err(error) => {
            missing(name, purpose, error.to_string(), Some("set THAW_RUN_DIR to a directory on a disk".into()))
        }
    }
}
