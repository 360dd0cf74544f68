//! Facts of the processor, and holding its speed steady for the runs.
//!
//! Two things make the same start fast now and slow then: the frequency governor, and idle states that take time
//! to wake from. A fixed frequency was worth 10-20 % of a cold start on the machines where that was measured first;
//! in a virtual machine neither may exist, and then that is said.

use crate::hold::settings::{Hold, Wait};
use crate::machine::{Fact, Facts};
use crate::proc::value::read_value;
use model::{Result, Warning, WarningKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How many CPUs are online; 1 where the system does not say.
pub fn online() -> u32 {
    // SAFETY: takes a number, gives one.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// Facts for the recording, subject `cpu`. What this machine does not have is left out.
pub fn facts() -> Vec<Fact> {
    facts_in(Path::new("/"))
}

fn facts_in(root: &Path) -> Vec<Fact> {
    let mut facts = Facts::new("cpu");
    let cpuinfo = read_value(&root.join("proc/cpuinfo")).unwrap_or_default();
    let line = |key: &str| {
        let value = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key);
        value.map(|(_, value)| value.trim().to_owned())
    };
    let cpus = root.join("sys/devices/system/cpu");
    let cpu = |name: &str| read_value(&cpus.join(name));
    facts.add("model", line("model name").or_else(|| line("Model")).or_else(|| line("CPU part")));
    facts.add("mhz", line("cpu MHz"));
    facts.add("microcode", line("microcode"));
    facts.add("online", cpu("online"));
    facts.add("smt", cpu("smt/control"));
    facts.add("scaling_driver", cpu("cpu0/cpufreq/scaling_driver"));
    facts.add("governor", governors(&cpus));
    facts.add("min_khz", cpu("cpu0/cpufreq/scaling_min_freq"));
    facts.add("max_khz", cpu("cpu0/cpufreq/scaling_max_freq"));
    facts.add("energy_preference", cpu("cpu0/cpufreq/energy_performance_preference"));
    facts.add("boost", boost(&cpus));
    facts.add("idle_driver", cpu("cpuidle/current_driver"));
    facts.add("idle_governor", cpu("cpuidle/current_governor").or_else(|| cpu("cpuidle/current_governor_ro")));
    facts.add("idle_states", idle_states(&cpus));
    let clock = read_value(&root.join("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    facts.add("clocksource", clock);
    facts.done()
}

/// `powersave`, or `performance (2), powersave (6)` when CPUs differ.
fn governors(cpus: &Path) -> Option<String> {
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for file in governor_files(cpus) {
        *count.entry(read_value(&file)?).or_default() += 1;
    }
    match count.len() {
        0 => None,
        1 => count.into_keys().next(),
        _ => Some(count.iter().map(|(name, cpus)| format!("{name} ({cpus})")).collect::<Vec<_>>().join(", ")),
    }
}

/// The governor file of each CPU that has one, by CPU number.
fn governor_files(cpus: &Path) -> Vec<PathBuf> {
    let mut files: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(cpus).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        let file = entry.path().join("cpufreq/scaling_governor");
        if let Some(number) = number
            && file.exists()
        {
            files.push((number, file));
        }
    }
    files.sort();
    files.into_iter().map(|(_, file)| file).collect()
}

fn boost(cpus: &Path) -> Option<String> {
    let word = |on: bool| Some(if on { "on" } else { "off" }.to_owned());
    if let Some(off) = read_value(&cpus.join("intel_pstate/no_turbo")) {
        return word(off == "0");
    }
    word(read_value(&cpus.join("cpufreq/boost"))? == "1")
}

/// Names of the idle states of the first CPU, shallow ones first: `POLL C1 C6`.
fn idle_states(cpus: &Path) -> Option<String> {
    let names: Vec<_> =
        (0..).map_while(|state| read_value(&cpus.join(format!("cpu0/cpuidle/state{state}/name")))).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Holds governor and idle states; gives them back when dropped, the governor through the journal also after
/// `kill -9` (the kernel itself forgets the latency request with its descriptor).
#[derive(Debug)]
pub struct SteadyGuard {
    governors: Vec<Hold>,
    latency: Option<File>,
}

impl SteadyGuard {
    /// Sets the governor of every CPU to `performance` and asks for wake-ups without delay. What this machine does
    /// not offer, or not to this user, is a warning; nothing of it is an error.
    pub fn hold(wait: Wait) -> Result<(Self, Vec<Warning>)> {
        Self::hold_in(Path::new("/"), wait)
    }

    /// [`SteadyGuard::hold`] under another root, for tests and containers.
    pub fn hold_in(root: &Path, wait: Wait) -> Result<(Self, Vec<Warning>)> {
        let mut warnings = Vec::new();
        let governors = hold_governors(&root.join("sys/devices/system/cpu"), wait, &mut warnings);
        let latency = hold_latency(root, &mut warnings);
        Ok((Self { governors, latency }, warnings))
    }

    /// The governors that are held.
    pub fn governors(&self) -> &[Hold] {
        &self.governors
    }

    /// What is held, for the recording: `governor` and `latency`.
    pub fn held(&self) -> Vec<&'static str> {
        let governor = (!self.governors.is_empty()).then_some("governor");
        governor.into_iter().chain(self.latency.as_ref().map(|_| "latency")).collect()
    }
}

const AS_ROOT: &str = "run as root to hold it; until then compare only runs of one interleaved recording";

fn hold_governors(cpus: &Path, wait: Wait, warnings: &mut Vec<Warning>) -> Vec<Hold> {
    let files = governor_files(cpus);
    if files.is_empty() {
        let text = "no frequency control here: this machine shows no cpufreq governor";
        let hint = "in a virtual machine the host decides; compare only runs of one interleaved recording";
        warnings.push(Warning::new(WarningKind::NoControl, text).hint(hint));
    }
    let mut held = Vec::new();
    for path in files {
        let before = read_value(&path).unwrap_or_default();
        let change = Hold::take(&path, Some("performance"), wait);
        match change {
            Ok(hold) => held.push(hold),
            Err(error) => {
                // What one CPU refuses, all do; one warning is enough.
                let text = format!("the frequency governor stays '{before}': {error}");
                warnings.push(Warning::new(WarningKind::NoControl, text).hint(AS_ROOT));
                break;
            }
        }
    }
    held
}

/// The kernel honours a request for as long as the file stays open.
fn hold_latency(root: &Path, warnings: &mut Vec<Warning>) -> Option<File> {
    let device = root.join("dev/cpu_dma_latency");
    let request = File::options().write(true).open(&device).and_then(|mut file| {
        file.write_all(&0i32.to_ne_bytes())?;
        Ok(file)
    });
    match request {
        Ok(file) => {
            let driver = read_value(&root.join("sys/devices/system/cpu/cpuidle/current_driver"));
            if driver.as_deref().is_none_or(|driver| driver == "none") {
                let text = "idle states are not controlled by this kernel: it has no idle driver";
                let hint = "in a virtual machine the host decides; compare only runs of one interleaved recording";
                warnings.push(Warning::new(WarningKind::NoControl, text).hint(hint));
            }
            Some(file)
        }
        Err(error) => {
            let text = format!("idle states cannot be held off: '{}': {error}", model::shown(&device));
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let hint = if missing { "this kernel has no such control; nothing to be done" } else { AS_ROOT };
            warnings.push(Warning::new(WarningKind::NoControl, text).hint(hint));
            None
        }
    }
}
