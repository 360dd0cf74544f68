//! `thaw ping`: becomes a program, while a process beside it looks at the start and keeps a ping of it. Nothing is
//! measured where the user has not agreed; and whatever goes wrong, the program starts.

use bench::natural::{Before, Eyes, Natural, Variables};
use bench::ready::Ready;
use model::{Error, Result};
use os::disk::Disk;
use ping::spool::{self, Spool};
use ping::{Cpus, Day, Memory, Ping, Remedy, State};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is told of a program's starts.
pub struct Wanted {
    /// Where its pings lie.
    pub spool: Spool,
    /// Its name in pings.
    pub app: String,
    /// Its version.
    pub version: String,
    /// When has it started? The first stops the clock.
    pub ready: Vec<Ready>,
    /// What was done to it beforehand.
    pub remedies: Vec<Remedy>,
    /// A start that is not ready by then is not told of.
    pub timeout: Duration,
    /// The program's file.
    pub program: PathBuf,
}

/// A start that will be looked at.
pub struct Looked {
    wanted: Wanted,
    token: String,
    eyes: Eyes,
}

/// What the program is to have in its environment, and what looks at it; `None`: the user has not agreed.
///
/// # Errors
/// Probes that do not fit; no program must wait for that.
pub fn prepare(wanted: Wanted) -> Result<Option<(Looked, Variables)>> {
    let Some(token) = wanted.spool.token() else { return Ok(None) };
    if wanted.ready.is_empty() {
        return Err(Error::new(model::Exit::Usage, "no probe says when the program has started", "")
            .hint("--ready notify, listen:PORT, http:URL, file:PATH or x11"));
    }
    let (eyes, variables) = Eyes::open(&wanted.ready)?;
    Ok(Some((Looked { wanted, token, eyes }, variables)))
}

impl Looked {
    /// Leaves a process behind that looks at this one, which is about to become the program.
    ///
    /// # Errors
    /// There can be no such process.
    pub fn look_from_beside(self) -> Result<()> {
        let main = (std::process::id(), Before::of_this_process());
        // The clock begins here: what is left is the exec.
        let t0_ns = os::spawn::monotonic_ns();
        let Self { wanted, token, eyes } = self;
        os::aside::aside(move || {
            // Nobody is there to be told of an error; the start is then missing.
            let Ok(Some(natural)) = eyes.until_ready(main, t0_ns, wanted.timeout) else { return };
            if let Ok(ping) = ping_of(&wanted, token, &natural) {
                let _ = wanted.spool.keep(&ping);
            }
        })
    }
}

/// The ping of a start.
fn ping_of(wanted: &Wanted, token: String, natural: &Natural) -> Result<Ping> {
    let micros = |nanos: model::Nanos| nanos.0 / 1000;
    let facts: BTreeMap<String, String> =
        os::machine::facts().into_iter().map(|(_, key, value)| (key, value)).collect();
    let memory = facts.get("memory_bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let kernel = facts.get("kernel").map(String::as_str).unwrap_or_default();
    let kernel: Vec<&str> = kernel.split(['.', '-']).take(2).collect();
    let ping = Ping {
        schema: ping::SCHEMA.to_owned(),
        id: spool::by_chance()?,
        machine: token,
        app: wanted.app.clone(),
        version: wanted.version.clone(),
        day: Day::today().to_string(),
        state: State::of(natural.read.map(|read| read.0), natural.major_faults, natural.max_rss.0),
        ready: kind(&wanted.ready[0]),
        wall_us: micros(natural.wall),
        user_us: micros(natural.user),
        system_us: micros(natural.system),
        minor_faults: natural.minor_faults,
        major_faults: natural.major_faults,
        read_bytes: natural.read.map(|read| read.0),
        max_rss_bytes: natural.max_rss.0,
        milestones: milestones(&wanted.ready, natural),
        cpus: Cpus::of(std::thread::available_parallelism().map_or(1, usize::from)),
        memory: Memory::of(memory),
        disk: disk_of(&wanted.program, facts.get("virtualisation").map(String::as_str)),
        kernel: kernel.join("."),
        distribution: os::machine::distribution_id().unwrap_or_else(|| "unknown".to_owned()),
        remedies: wanted.remedies.clone(),
    };
    // What the collector would refuse is not kept.
    ping.check(Day::today()).map_err(|refused| Error::bug(refused.to_string()))?;
    Ok(ping)
}

/// The kind of a probe, never its argument.
fn kind(ready: &Ready) -> ping::Ready {
    match ready {
        Ready::Exit => ping::Ready::Exit,
        Ready::Line(_) => ping::Ready::Line,
        Ready::Notify => ping::Ready::Notify,
        Ready::Listen(_) => ping::Ready::Listen,
        Ready::Http(_) => ping::Ready::Http,
        Ready::File(_) => ping::Ready::File,
        Ready::Fd => ping::Ready::Fd,
        Ready::X11 => ping::Ready::X11,
        Ready::Beacon(_) => ping::Ready::Beacon,
        Ready::Settled => ping::Ready::Settled,
    }
}

/// The probes behind the first, by their kind and place: `file_2`.
fn milestones(ready: &[Ready], natural: &Natural) -> BTreeMap<String, u64> {
    ready
        .iter()
        .enumerate()
        .skip(1)
        .take(ping::MOST_MILESTONES)
        .filter_map(|(index, way)| {
            let name = way.to_string();
            let fired = natural.milestones.iter().find(|milestone| milestone.name == name)?;
            Some((format!("{}_{}", kind(way).as_str(), index + 1), fired.at_ns.0 / 1000))
        })
        .collect()
}

/// The kind of the disk that holds the program.
fn disk_of(program: &Path, virtualisation: Option<&str>) -> ping::Disk {
    let Ok(disk) = Disk::of_path(program) else { return ping::Disk::Unknown };
    let is_virtual = ["vd", "xvd"].iter().any(|prefix| disk.name.starts_with(prefix));
    match disk.name {
        _ if is_virtual => ping::Disk::Virtual,
        name if name.starts_with("nvme") => ping::Disk::Nvme,
        // A guest sees a disk of the host's invention.
        _ if virtualisation.is_some_and(|sign| sign != "none") => ping::Disk::Virtual,
        _ if disk.rotational => ping::Disk::Hdd,
        name if name.starts_with("sd") || name.starts_with("mmcblk") => ping::Disk::Ssd,
        _ => ping::Disk::Unknown,
    }
}
