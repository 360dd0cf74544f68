//! The starts: `thaw record` in a process of its own, and what its recording says about each copy.

use super::build::{Ahead, Copies, PRELOAD};
use super::source::Told;
use crate::plan::Handed;
use crate::recorded::Loaded;
use crate::{needs, target};
use bench::record::Program;
use model::{CacheState, Error, Exit, Result, RunKind, shown};
use optimize::choose::Times;
use optimize::remedy::{Remedy, Set, name_of};
use os::replace::Existing;
use preload::plan::Gap;
use recording::Reader;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Learns what the starts of those sets need that read ahead and were not learnt before, and writes what they read.
///
/// # Errors
/// A start fails, or reads none of the copies.
pub fn learn(copies: &Copies<'_>, sets: &[Set], told: Told) -> Result<()> {
    let is_new = |set: &&Set| set.contains(&Remedy::Preload) && !copies.directory(set).join(PRELOAD).exists();
    let sets: Vec<&Set> = sets.iter().filter(is_new).collect();
    if sets.is_empty() {
        return Ok(());
    }
    let recording = copies.work.join("needed.thaw");
    let programs = sets.iter().map(|set| copies.program(set, Ahead::No)).collect();
    record_needs(copies, &recording, programs, told)?;
    for set in sets {
        let needed = needs::of(std::slice::from_ref(&recording), Some(&name_of(set)))?;
        let (wanted, _) = preload::make::look(needed.files);
        let covers = copies.covers(set);
        let is_copy = |path: &Path| covers.iter().any(|(copy, _)| copy == path);
        if !covers.is_empty() && !wanted.iter().any(|file| is_copy(&file.entry.path)) {
            return Err(Error::on(Exit::Target, "a start reads none of the files that were changed:", &covers[0].1)
                .because("it starts another program than when it was recorded")
                .hint("record it again: thaw record -- PROGRAM ARGS"));
        }
        let disk = &copies.plan.disk;
        let about = target::about(shown(&copies.source.recording), needed.source, disk);
        let mut reads = target::plan(wanted, Gap::Fastest, target::order(disk), disk, about).manifest;
        // When it is read the copies have the names of the originals.
        for entry in &mut reads.files {
            if let Some((_, original)) = covers.iter().find(|(copy, _)| *copy == entry.path) {
                entry.path.clone_from(original);
            }
        }
        reads.write(&copies.directory(set).join(PRELOAD), Existing::Keep)?;
    }
    Ok(())
}

/// Starts without read-ahead, on no slow disk: what comes into memory then is what is needed.
///
/// # Errors
/// See [`record`].
fn record_needs(copies: &Copies<'_>, recording: &Path, programs: Vec<Program>, told: Told) -> Result<()> {
    let mut options: Vec<OsString> = ["--runs", "1", "--trace-runs", "2", "--needed", "no"].map(Into::into).into();
    if rustix::process::geteuid().is_root() {
        options.extend(["--readahead", "0"].map(Into::into));
    }
    // Places on a simulated disk are other ones; there is no need to wait for it.
    if let Some(disk) = copies.disk.as_ref().filter(|disk| !disk.starts_with("throttle:")) {
        options.extend(["--disk".into(), format!("quick:{disk}").into()]);
        options.extend(included(copies));
    }
    record(copies, recording, options, programs, told)
}

/// The copies lie on the simulated disk, with what reads ahead; the recording must not.
fn included(copies: &Copies<'_>) -> impl Iterator<Item = OsString> {
    copies.directories().into_iter().flat_map(|directory| ["--disk-include".into(), directory.into_os_string()])
}

/// Measures the original and these sets in one round: seconds of each run that counts.
///
/// # Errors
/// See [`record`].
pub fn measure(copies: &mut Copies<'_>, sets: &[Set], runs: u32, told: Told) -> Result<BTreeMap<Set, Times>> {
    let (round, recording) = copies.next_comparison();
    let mut options: Vec<OsString> = ["--trace-runs", "1", "--needed", "no"].map(Into::into).into();
    options.extend(["--runs".into(), runs.to_string().into()]);
    if let Some(disk) = &copies.disk {
        options.extend(["--disk".into(), disk.into()]);
        if !disk.starts_with("throttle:") {
            options.extend(included(copies));
        }
    }
    if let Some(kib) = copies.read_ahead_kib {
        options.extend(["--readahead".into(), format!("{kib}K").into()]);
    }
    let programs = sets.iter().map(|set| copies.program(set, Ahead::Yes)).collect();
    record(copies, &recording, options, programs, told)?;
    let loaded = Loaded::of(&recording, &Reader::open(&recording)?)?;
    let mut times: BTreeMap<Set, Times> = sets.iter().map(|set| (set.clone(), Times::new())).collect();
    for (row, _) in loaded.runs.iter().filter(|(row, _)| row.kind == RunKind::Timed && row.accepted) {
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
    options: Vec<OsString>,
    programs: Vec<Program>,
    told: Told,
) -> Result<()> {
    let thaw =
        std::env::current_exe().map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw").because(cause))?;
    let handed = copies.work.join("programs.json");
    // The copies are the program's own, as what they lie over.
    let own = copies.source.root.iter().cloned().chain(copies.directories()).collect();
    Handed { programs, own }.write(&handed)?;
    let state = if copies.source.state == CacheState::Cold { "cold" } else { "app" };
    let mut command = Command::new(thaw);
    command.args(["record", "--force", "--state", state, "-o"]).arg(recording).args(options);
    command.arg("--programs").arg(handed);
    match &copies.source.recorded.user {
        Some(user) => command.arg("--user").arg(user.uid.to_string()),
        None => command.arg("--as-root"),
    };
    if told == Told::Quiet {
        command.arg("--quiet");
    }
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
