//! The starts: `thaw record` in a process of its own, and what its recording says about each copy.

use super::build::{Ahead, Copies, PRELOAD};
use super::source::Told;
use crate::images::start::try_out;
use crate::plan::stored::{Errand, Progress, RECORDER};
use crate::plan::{Handed, Plans, Wanted};
use crate::recorded::Loaded;
use crate::{needs, own, target};
use bench::record::Program;
use model::{Bytes, CacheState, Error, Exit, Result, shown};
use optimize::choose::Times;
use optimize::files::moved;
use optimize::remedy::{Remedy, Set, name_of};
use os::replace::Existing;
use preload::plan::Gap;
use recording::Reader;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// Learns what the starts of those sets need that read ahead and were not learnt before, and writes what they read.
///
/// # Errors
/// A start fails, or reads none of the copies.
pub fn learn(copies: &Copies<'_>, sets: &[Set], told: Told, plans: &dyn Plans) -> Result<()> {
    let is_new = |set: &&Set| {
        let lacks_reads = set.contains(&Remedy::Preload) && !copies.directory(set).join(PRELOAD).exists();
        lacks_reads || copies.image(set).is_some_and(|image| !image.exists())
    };
    let sets: Vec<&Set> = sets.iter().filter(is_new).collect();
    if sets.is_empty() {
        return Ok(());
    }
    let recording = copies.work.join("needed.thaw");
    let programs = sets.iter().map(|set| copies.program(set, Ahead::No)).collect();
    record_needs(copies, &recording, programs, told, plans)?;
    for set in sets {
        let recordings = std::slice::from_ref(&recording);
        copies.build_image(set, needs::by_start(recordings, Some(&name_of(set)))?)?;
        let needed = needs::of(recordings, Some(&name_of(set)))?;
        let (wanted, _) = preload::make::look(needed.files);
        let covers = copies.covers(set, Ahead::No);
        let is_copy = |path: &Path| covers.iter().any(|(copy, _)| path.starts_with(copy));
        // With a cache, what else is in its directory need not be read.
        let has_files = covers.iter().any(|(copy, _)| copy.is_file());
        if has_files && !wanted.iter().any(|file| is_copy(&file.entry.path)) {
            return Err(Error::on(Exit::Target, "a start reads none of the files that were changed:", &covers[0].1)
                .because("it starts another program than when it was recorded")
                .hint("record it again: thaw record -- PROGRAM ARGS"));
        }
        if !set.contains(&Remedy::Preload) {
            continue;
        }
        let disk = &copies.plan.disk;
        let about = target::about(shown(&copies.source.recording), needed.source, disk);
        let mut reads = target::plan(wanted, Gap::Fastest, target::order(disk), disk, about).manifest;
        // When it is read the copies have the names of the originals.
        for entry in &mut reads.files {
            if let Some((copy, original)) = covers.iter().find(|(copy, _)| entry.path.starts_with(copy)) {
                entry.path = moved(&entry.path, copy, original);
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
fn record_needs(
    copies: &Copies<'_>,
    recording: &Path,
    programs: Vec<Program>,
    told: Told,
    plans: &dyn Plans,
) -> Result<()> {
    let mut wanted = Wanted { runs: 1, trace_runs: 2, ..wanted(copies, recording, programs) };
    if rustix::process::geteuid().is_root() {
        wanted.read_ahead = Some(Bytes(0));
    }
    // Places on a simulated disk are other ones; there is no need to wait for it.
    if let Some(disk) = copies.simulated() {
        wanted.disk = Some(format!("quick:{}", disk.strip_prefix("quick:").unwrap_or(disk)));
        wanted.include = copies.directories();
    }
    record(copies, wanted, told, plans)
}

/// The state to measure in.
fn state(copies: &Copies<'_>) -> CacheState {
    if copies.source.state == CacheState::Cold { CacheState::Cold } else { CacheState::App }
}

/// What all recordings have in common.
fn wanted(copies: &Copies<'_>, recording: &Path, programs: Vec<Program>) -> Wanted {
    // The copies are the program's own, as what they lie over.
    let own = copies.source.root.iter().cloned().chain(copies.directories()).collect();
    Wanted {
        output: recording.to_owned(),
        states: vec![state(copies)],
        runs: 1,
        trace_runs: 1,
        read_ahead: None,
        disk: None,
        include: Vec::new(),
        user: copies.source.recorded.user.as_ref().map(|user| user.uid),
        handed: Handed { programs, own },
    }
}

/// Seconds of the runs that count, of each set.
#[derive(Default)]
pub struct Round {
    /// In the state to measure in.
    pub times: BTreeMap<Set, Times>,
    /// Hot ones, where there are images among the sets: unpacked anew for each start.
    pub hot: BTreeMap<Set, Times>,
}

/// Measures the original and these sets in one round.
///
/// # Errors
/// See [`record`].
pub fn measure(copies: &mut Copies<'_>, sets: &[Set], runs: u32, told: Told, plans: &dyn Plans) -> Result<Round> {
    let (round, recording) = copies.next_comparison();
    let programs = sets.iter().map(|set| copies.program(set, Ahead::Yes)).collect();
    let mut wanted = Wanted { runs, ..wanted(copies, &recording, programs) };
    if sets.iter().any(|set| set.contains(&Remedy::Image)) {
        wanted.states.push(CacheState::Hot);
    }
    wanted.disk = copies.disk.clone();
    // The copies lie on the simulated disk, with what reads ahead; the recording must not.
    if copies.simulated().is_some() {
        wanted.include = copies.directories();
    }
    wanted.read_ahead = copies.read_ahead_kib.map(|kib| Bytes(kib * 1024));
    record(copies, wanted, told, plans)?;
    // A start without its image would have been measured as one with it.
    for image in sets.iter().filter_map(|set| copies.image(set)).collect::<BTreeSet<_>>() {
        try_out(&image, &copies.user())?;
    }
    let loaded = Loaded::of(&recording, &Reader::open(&recording)?)?;
    let none = || sets.iter().map(|set| (set.clone(), Times::new())).collect();
    let mut found = Round { times: none(), hot: none() };
    for row in loaded.starts.timed() {
        let name = &loaded.names[row.variant as usize];
        let set = sets.iter().find(|set| name_of(set) == *name);
        if let Some((set, wall)) = set.zip(row.wall_ns) {
            let of_state = if row.state == CacheState::Hot { &mut found.hot } else { &mut found.times };
            of_state.entry(set.clone()).or_default().insert((round, row.block), wall.seconds());
        }
    }
    Ok(found)
}

/// Records these programs in the state of the source.
///
/// # Errors
/// What the other process ended with; its message is printed already.
fn record(copies: &Copies<'_>, wanted: Wanted, told: Told, plans: &dyn Plans) -> Result<()> {
    let thaw = own::file()?;
    let plan = plans.of_copies(wanted)?;
    let errand = copies.work.join("plan.json");
    let progress = if told == Told::Quiet { Progress::Quiet } else { Progress::Shown };
    Errand::of(&plan, progress).write(&errand)?;
    let mut command = Command::new(thaw);
    command.arg(RECORDER).arg(errand);
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
