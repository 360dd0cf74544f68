//! The starts: `thaw record` in a process of its own, and what its recording says about each copy.

use super::build::Copies;
use crate::document;
use crate::shell::command_line;
use model::{CacheState, Error, Exit, Result};
use optimize::remedy::{Set, name_of};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use stats::Estimate;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts without read-ahead, on no slow disk: what comes into memory then is what is needed.
///
/// # Errors
/// See [`record`].
pub fn learn(copies: &Copies<'_>, recording: &Path, commands: &[(String, Vec<OsString>)], quiet: bool) -> Result<()> {
    let mut options: Vec<OsString> = ["--runs", "1", "--trace-runs", "2", "--needed", "no"].map(Into::into).into();
    if rustix::process::geteuid().is_root() {
        options.extend(["--readahead", "0"].map(Into::into));
    }
    // Places on a simulated disk are other ones; there is no need to wait for it.
    if let Some(disk) = copies.disk.as_ref().filter(|disk| !disk.starts_with("throttle:")) {
        options.extend(["--disk".into(), format!("quick:{disk}").into()]);
        options.extend(included(copies));
    }
    record(copies, recording, options, commands, quiet)
}

/// The copies lie on the simulated disk, with what reads ahead; the recording must not.
fn included(copies: &Copies<'_>) -> impl Iterator<Item = OsString> {
    copies.all().iter().flat_map(|copy| ["--disk-include".into(), copy.directory.clone().into_os_string()])
}

/// Measures these copies against that of the original: time over its time. A copy that could not be measured has no interval.
///
/// # Errors
/// See [`record`].
pub fn measure(copies: &mut Copies<'_>, sets: &[Set], runs: u32, quiet: bool) -> Result<Vec<(Set, Estimate)>> {
    let recording = copies.next_comparison();
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
    let chosen = copies.all().iter().filter(|copy| copy.set.is_empty() || sets.contains(&copy.set));
    let commands: Vec<_> = chosen.map(|copy| (name_of(&copy.set), copies.command(copy))).collect();
    record(copies, &recording, options, &commands, quiet)?;
    let report = document::report(&recording)?;
    let ratio = |set: &Set| {
        let name = name_of(set);
        let is = |contrast: &&bench::report::Contrast| {
            contrast.new.variant_name == name && contrast.old.variant == 0 && contrast.new.state == contrast.old.state
        };
        let contrast = report.statistics.contrasts.iter().find(is);
        contrast.map_or(Estimate { value: f64::NAN, interval: None }, |contrast| {
            contrast.in_pairs.unwrap_or(contrast.ratio)
        })
    };
    Ok(sets.iter().map(|set| (set.clone(), ratio(set))).collect())
}

/// Records these commands in the world and the state of the source.
///
/// # Errors
/// What the other process ended with; its message is printed already.
fn record(
    copies: &Copies<'_>,
    recording: &Path,
    options: Vec<OsString>,
    commands: &[(String, Vec<OsString>)],
    quiet: bool,
) -> Result<()> {
    let thaw =
        std::env::current_exe().map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw").because(cause))?;
    let state = if copies.source.state == CacheState::Cold { "cold" } else { "app" };
    let mut command = Command::new(thaw);
    command.args(["record", "--force", "--state", state, "-o"]).arg(recording).args(options).args(copies.world());
    if quiet {
        command.arg("--quiet");
    }
    for (name, words) in commands {
        command.arg("--variant").arg(format!("{name}={}", command_line(words)));
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
