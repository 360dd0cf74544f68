//! Settings of the machine that are held for the runs are given back.

use crate::ground::{folder, loop_disk};
use model::WarningKind;
use os::cpu::{self, SteadyGuard};
use os::disk::{Disk, read_ahead_text};
use os::settings::{Hold, Share, Turn, Wait, holders};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Keeps the journal of these tests away from the machine's own.
fn own_journal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("journal");
        std::fs::create_dir_all(&folder).unwrap();
        // SAFETY: only the standard library reads the environment in this process, and it locks it.
        unsafe {
            std::env::set_var("THAW_MACHINE_DIR", folder.join("machine"));
            std::env::set_var("THAW_STATE_DIR", folder);
        }
    });
}

#[test]
fn read_ahead_is_given_back() {
    let Some(folder) = folder() else { return };
    let Some(disk) = loop_disk(folder.path()) else { return };
    own_journal();
    let disk = Disk::of_path(&disk.point).unwrap();
    let now = || std::fs::read_to_string(&disk.read_ahead_file).unwrap().trim().parse::<u64>().unwrap();
    let before = now();
    assert_eq!(disk.read_ahead_kb, before);
    let other = if before == 64 { 32 } else { 64 };

    let set = |kib| Hold::take(&disk.read_ahead_file, Some(&read_ahead_text(kib)), REFUSE);
    let guard = set(other).unwrap();
    assert_eq!(now(), other);
    drop(guard);
    assert_eq!(now(), before);

    let guard = set(18).unwrap();
    assert_eq!(now(), 16, "whole pages");
    guard.undo().unwrap();
    assert_eq!(now(), before);

    drop(set(before).unwrap());
    assert_eq!(now(), before);
    let error = Hold::take(&folder.path().join("nothing"), Some("64"), REFUSE).unwrap_err();
    assert!(error.to_string().contains("nothing"));
}

const REFUSE: Wait = Wait { limit: Duration::ZERO, say: |_| {} };
/// A process that another test forks has copies of our locks until its exec.
const PATIENT: Wait = Wait { limit: Duration::from_secs(600), say: |_| {} };

/// A setting of nobody's machine.
fn setting(value: &str) -> (tempfile::TempDir, PathBuf) {
    own_journal();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("read_ahead_kb");
    std::fs::write(&path, format!("{value}\n")).unwrap();
    (home, path)
}

fn value_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Another process that holds a setting until it is killed.
struct Other(Child);

impl Other {
    fn holds(path: &Path, value: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "settings::part_holds_until_it_is_killed", "--ignored", "--nocapture"])
            .env("THAW_TEST_SETTING", path)
            .env("THAW_TEST_VALUE", value)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("holding")), "it holds it");
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "started by other tests"]
fn part_holds_until_it_is_killed() {
    let Some(path) = std::env::var_os("THAW_TEST_SETTING") else { return };
    let value = std::env::var("THAW_TEST_VALUE").unwrap();
    own_journal();
    let _hold = Hold::take(Path::new(&path), Some(&value), REFUSE).unwrap();
    println!("\nholding");
    loop {
        std::thread::park();
    }
}

#[test]
fn who_needs_the_same_value_shares_it_and_the_last_puts_it_back() {
    let (_home, path) = setting("8192");
    let mut other = Other::holds(&path, "64");
    assert_eq!(value_of(&path), "64");
    let ours = Hold::take(&path, Some("64"), REFUSE).unwrap();
    let found = Hold::take(&path, None, REFUSE).unwrap();
    assert_eq!(found.value(), "64", "as it is found");
    drop(found);
    // What the killed one leaves is mended without taking anything from the others.
    other.kill();
    let machine = os::journal::Journal::at(&os::journal::machine_dir());
    let left: Vec<_> = machine.leftovers().unwrap().into_iter().filter(|left| left.pid == other.0.id()).collect();
    assert_eq!(left.len(), 1);
    os::journal::mend(&left[0]).unwrap();
    assert_eq!(value_of(&path), "64", "somebody still needs it");
    drop(ours);
    assert_eq!(value_of(&path), "8192", "what was there before the first");
}

#[test]
fn who_needs_another_value_waits_or_is_told_who_is_in_the_way() {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    let (_home, path) = setting("8192");
    let mut other = Other::holds(&path, "64");
    let refused = Hold::take(&path, Some("256"), REFUSE).unwrap_err().to_string();
    assert!(refused.contains(&other.0.id().to_string()) && refused.contains("64"), "{refused}");
    assert_eq!(value_of(&path), "64");
    assert!(holders().unwrap().iter().any(|held| held.pid == other.0.id() && held.value == "64"));
    let pid = other.0.id();
    let ender = std::thread::spawn(move || {
        // Not before the wait was said.
        while SAID.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        other.kill();
    });
    let say = |text: &str| {
        assert!(text.contains("wait"), "{text}");
        SAID.fetch_add(1, Ordering::Relaxed);
    };
    let ours = Hold::take(&path, Some("256"), Wait { limit: Duration::from_secs(600), say }).unwrap();
    ender.join().unwrap();
    assert_eq!((value_of(&path).as_str(), SAID.load(Ordering::Relaxed)), ("256", 2));
    drop(ours);
    assert_eq!(value_of(&path), "8192");
    let machine = os::journal::Journal::at(&os::journal::machine_dir());
    assert!(machine.leftovers().unwrap().iter().all(|left| left.pid != pid), "nothing is left to mend");
}

#[test]
fn a_killed_holder_alone_is_mended() {
    let (_home, path) = setting("8192");
    let mut other = Other::holds(&path, "64");
    other.kill();
    assert_eq!(value_of(&path), "64");
    let machine = os::journal::Journal::at(&os::journal::machine_dir());
    let left: Vec<_> = machine.leftovers().unwrap().into_iter().filter(|left| left.pid == other.0.id()).collect();
    os::journal::mend(&left[0]).unwrap();
    assert_eq!(value_of(&path), "8192");
}

#[test]
fn turns_are_taken_together_or_one_by_one() {
    own_journal();
    let Some(beside) = Turn::take(Share::Beside, PATIENT).unwrap() else { return testing::skip("needs a journal") };
    let also = Turn::take(Share::Beside, PATIENT).unwrap().unwrap();
    assert!(Turn::take(Share::Alone, REFUSE).is_err());
    drop((beside, also));
    let alone = Turn::take(Share::Alone, PATIENT).unwrap().unwrap();
    assert!(Turn::take(Share::Beside, REFUSE).is_err() && Turn::take(Share::Alone, REFUSE).is_err());
    let (_home, path) = setting("128");
    let held = Hold::take(&path, Some("64"), REFUSE).unwrap();
    let for_a_run = Hold::for_a_run(&path, "0", &alone).unwrap();
    assert_ne!(os::settings::lasting(&path).as_deref(), Some("0"), "what is watched is not one run's own value");
    assert_eq!(value_of(&path), "0");
    drop(for_a_run);
    assert_eq!(value_of(&path), "64", "what is held for the recording");
    drop(held);
    assert_eq!(value_of(&path), "128");
}

#[test]
fn a_setting_that_somebody_changed_is_set_again() {
    let (_home, path) = setting("128");
    let held = Hold::take(&path, Some("64"), REFUSE).unwrap();
    assert!(!held.renew().unwrap());
    std::fs::write(&path, "4096").unwrap();
    assert!(held.renew().unwrap());
    assert_eq!(value_of(&path), "64");
}

/// A machine with two CPUs of these governors.
fn machine(governors: [&str; 2]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (number, governor) in governors.iter().enumerate() {
        let directory = root.path().join(format!("sys/devices/system/cpu/cpu{number}/cpufreq"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("scaling_governor"), format!("{governor}\n")).unwrap();
    }
    std::fs::create_dir(root.path().join("dev")).unwrap();
    let idle = root.path().join("sys/devices/system/cpu/cpuidle");
    std::fs::create_dir(&idle).unwrap();
    std::fs::write(idle.join("current_driver"), "intel_idle\n").unwrap();
    root
}

fn governor(root: &Path, cpu: u32) -> String {
    let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[test]
fn the_governor_is_held_and_given_back() {
    own_journal();
    let machine = machine(["powersave", "performance"]);
    let latency = machine.path().join("dev/cpu_dma_latency");
    std::fs::write(&latency, "").unwrap();

    let (guard, warnings) = SteadyGuard::hold_in(machine.path(), REFUSE).unwrap();
    assert_eq!(
        (governor(machine.path(), 0).as_str(), governor(machine.path(), 1).as_str()),
        ("performance", "performance")
    );
    assert_eq!(std::fs::read(&latency).unwrap(), [0; 4], "a request for zero microseconds");
    assert_eq!((guard.held(), warnings.len()), (vec!["governor", "latency"], 0), "{warnings:?}");
    drop(guard);
    assert_eq!(
        (governor(machine.path(), 0).as_str(), governor(machine.path(), 1).as_str()),
        ("powersave", "performance")
    );
}

#[test]
fn what_cannot_be_held_is_a_warning_with_a_hint() {
    own_journal();
    let bare = tempfile::tempdir().unwrap();
    let (guard, warnings) = SteadyGuard::hold_in(bare.path(), REFUSE).unwrap();
    assert!(guard.held().is_empty());
    assert_eq!(warnings.len(), 2);
    assert!(warnings.iter().all(|warning| warning.kind == WarningKind::NoControl && warning.hint.is_some()));
}

#[test]
fn this_machine_is_held_or_says_why_not() {
    if !testing::root_or_skip() {
        return;
    }
    own_journal();
    let (guard, warnings) = SteadyGuard::hold(REFUSE).unwrap();
    assert!(!guard.held().is_empty() || !warnings.is_empty());
    let facts = cpu::facts();
    assert!(facts.iter().all(|fact| fact.0 == "cpu" && !fact.2.is_empty()));
    assert!(facts.iter().any(|fact| fact.1 == "online"));
}
