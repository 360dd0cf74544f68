//! The starts: `thaw record` in a process of its own, and what its recording says about each copy.

use super::build::{Ahead, Copies};
use crate::args::record::{Needed, RecordArgs, States};
use crate::args::values::{DiskChoice, disk_choice};
use crate::document::Loaded;
use crate::plan::stored::{Errand, Progress};
use crate::plan::{self, Handed};
use bench::record::Program;
use model::{Bytes, CacheState, Error, Exit, Result};
use optimize::choose::Times;
use optimize::remedy::{Set, name_of};
use recording::Reader;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts without read-ahead, on no slow disk: what comes into memory then is what is needed.
///
/// # Errors
/// See [`record`].
pub fn learn(copies: &Copies<'_>, recording: &Path, programs: Vec<Program>, quiet: bool) -> Result<()> {
    let mut args = RecordArgs { runs: 1, trace_runs: 2, needed: Needed::No, ..RecordArgs::usual()? };
    if rustix::process::geteuid().is_root() {
        args.readahead = Some(Bytes(0));
    }
    // Places on a simulated disk are other ones; there is no need to wait for it.
    if let Some(DiskChoice::Simulated(name) | DiskChoice::Quick(name)) = disk(copies)? {
        args.disk = Some(DiskChoice::Quick(name));
        args.disk_include = copies.directories();
    }
    record(copies, recording, args, programs, quiet)
}

fn disk(copies: &Copies<'_>) -> Result<Option<DiskChoice>> {
    let chosen = copies.disk.as_deref().map(disk_choice).transpose();
    chosen.map_err(|cause| {
        Error::new(Exit::Usage, "this is no disk:", copies.disk.as_deref().unwrap_or("")).because(cause)
    })
}

/// Measures the original and these sets in one round: seconds of each run that counts.
///
/// # Errors
/// See [`record`].
pub fn measure(copies: &mut Copies<'_>, sets: &[Set], runs: u32, quiet: bool) -> Result<BTreeMap<Set, Times>> {
    let (round, recording) = copies.next_comparison();
    let mut args = RecordArgs { runs, trace_runs: 1, needed: Needed::No, ..RecordArgs::usual()? };
    args.disk = disk(copies)?;
    // The copies lie on the simulated disk, with what reads ahead; the recording must not.
    if let Some(DiskChoice::Simulated(_) | DiskChoice::Quick(_)) = args.disk {
        args.disk_include = copies.directories();
    }
    args.readahead = copies.read_ahead_kib.map(|kib| Bytes(kib * 1024));
    let programs = sets.iter().map(|set| copies.program(set, Ahead::Yes)).collect();
    record(copies, &recording, args, programs, quiet)?;
    let loaded = Loaded::of(&recording, &Reader::open(&recording)?)?;
    let mut times: BTreeMap<Set, Times> = sets.iter().map(|set| (set.clone(), Times::new())).collect();
    for row in loaded.starts.timed() {
        let name = &loaded.names[row.variant as usize];
        let set = sets.iter().find(|set| name_of(set) == *name);
        if let Some((set, wall)) = set.zip(row.wall_ns) {
            times.entry(set.clone()).or_default().insert((round, row.block), wall.seconds());
        }
    }
    Ok(times)
}

/// Records these programs in the state of the source.
///
/// # Errors
/// What the other process ended with; its message is printed already.
fn record(
    copies: &Copies<'_>,
    recording: &Path,
    mut args: RecordArgs,
    programs: Vec<Program>,
    quiet: bool,
) -> Result<()> {
    let thaw =
        std::env::current_exe().map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw").because(cause))?;
    args.output = recording.to_owned();
    args.state = States(vec![if copies.source.state == CacheState::Cold { CacheState::Cold } else { CacheState::App }]);
    match &copies.source.recorded.user {
        Some(user) => args.run_as.user = Some(user.uid.to_string()),
        None => args.run_as.as_root = true,
    }
    // The copies are the program's own, as what they lie over.
    let own = copies.source.root.iter().cloned().chain(copies.directories()).collect();
    let plan = plan::record_these(args, Handed { programs, own })?;
    let errand = copies.work.join("plan.json");
    Errand::of(&plan, if quiet { Progress::Quiet } else { Progress::Shown }).write(&errand)?;
    let mut command = Command::new(thaw);
    command.arg(crate::args::RECORDER).arg(errand);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |cause: std::io::Error| Error::new(Exit::Machine, "cannot start", "thaw record").because(cause);
    let mut child = command.spawn().map_err(failed)?;
    hand_on_signals(child.id());
    let status = child.wait().map_err(failed)?;
    if os::interrupt::requested() {
        return Err(Error::interrupted());
    }
    let exit = match status.code() {
        Some(0) => return Ok(()),
        Some(1) => Exit::No,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Target,
        Some(5) => Exit::Data,
        Some(130) => return Err(Error::interrupted()),
        Some(3) => Exit::Machine,
        _ => Exit::Bug,
    };
    Err(Error::new(exit, "the starts of the copies could not be recorded", "")
        .because(format!("thaw record: {status}; its message stands above")))
}

/// Waits until a process ends; a signal that only we got is handed on, because it has the machine in hand.
fn hand_on_signals(pid: u32) {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // Without these two, waiting for it is all that can be done.
    let (Ok(process), Some(bell)) = (rustix::process::pidfd_open(process, PidfdFlags::empty()), os::interrupt::fd())
    else {
        return;
    };
    loop {
        let mut polled = [PollFd::new(&process, PollFlags::IN), PollFd::new(&bell, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            _ if !polled[0].revents().is_empty() || polled[1].revents().is_empty() => return,
            _ => {
                // A second Ctrl-C from the keyboard would end it at once; it may have had the first one.
                let _ = rustix::process::pidfd_send_signal(&process, Signal::TERM);
                return;
            }
        }
    }
}
