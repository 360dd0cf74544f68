//! doctor: what this machine can do, and what a killed run left behind.

use crate::scratch::{Mortal, Said, Scratch, alone};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[test]
fn doctor_says_what_works_and_what_it_is_for() {
    let _machine = alone();
    let scratch = Scratch::new();
    let said = scratch.thaw(["doctor"]).exits(0);
    said.says("dropping the caches").says("trace engine perf").says("What killed runs left").says("nothing");
    let json = scratch.thaw(["doctor", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.doctor/1");
    for ability in json["abilities"].as_array().unwrap() {
        let explained = ability["works"] == true || !ability["detail"].as_str().unwrap().is_empty();
        assert!(explained, "what does not work has a reason: {ability}");
    }
    scratch.nothing_left();
}

#[test]
fn doctor_names_what_is_kept_between_runs_and_empties_it() {
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.thaw(["doctor"]).exits(0).says_not("kept between runs");
    scratch.write("cache/touch/one.kept", "something that can be found out anew");
    scratch.thaw(["doctor"]).exits(0).says("What is kept between runs").says("thaw doctor --empty");
    let json = scratch.thaw(["doctor", "--json"]).exits(0).json();
    assert_eq!((&json["kept"]["files"], &json["kept"]["bytes"]), (&1.into(), &36.into()), "{}", json["kept"]);
    scratch.thaw(["doctor", "--empty"]).exits(0).says_not("kept between runs");
    assert!(!scratch.path("cache/touch/one.kept").exists());
}

#[test]
fn doctor_tells_another_user_what_root_could_do() {
    let scratch = Scratch::new();
    let Some(said) = scratch.thaw_as_nobody(["doctor"]) else { return };
    said.exits(0).says("missing").says("hint: run thaw as root");
}

/// thaw, recording a program that is just now running; the program's process number is in the file `started`.
fn in_the_middle_of_a_run(scratch: &Scratch, options: &[&str]) -> Mortal {
    scratch.write("profile/first", "as it was");
    let body = "echo changed > profile/first; echo more > profile/second; echo $$ > started.new; mv started.new \
        started; sleep 600; :";
    let program = scratch.script("program", body);
    let mut command = scratch.command();
    command
        .args(["record", "-o", "killed.thaw", "--state", "app,hot", "--restore", "profile", "--timeout", "500s"])
        .stdout(Stdio::null());
    command.args(options).arg("--").arg(program);
    until(scratch, command, "started")
}

/// Starts thaw and waits until the program has made a file.
pub fn until(scratch: &Scratch, mut command: Command, file: &str) -> Mortal {
    let mut child = Mortal(command.spawn().unwrap());
    while !scratch.path(file).exists() {
        if let Some(status) = child.0.try_wait().unwrap() {
            panic!("thaw ended before the program made {file}: {status}");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child
}

/// What doctor says of the disks' read-ahead.
fn read_ahead(scratch: &Scratch) -> String {
    let json = scratch.thaw(["doctor", "--json"]).json();
    let abilities = json["abilities"].as_array().unwrap();
    let told = abilities.iter().filter(|ability| ability["name"] == "read-ahead");
    told.map(|ability| ability["detail"].as_str().unwrap()).collect::<Vec<_>>().join(", ")
}

/// Whether a process runs.
pub fn runs(pid: &str) -> bool {
    // A zombie that nobody waits for does not run any more.
    let stat = pid.trim().parse().ok().and_then(os::process::stat);
    stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

#[test]
fn doctor_mends_what_kill_9_left() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let before = read_ahead(&scratch);
    let mut thaw = in_the_middle_of_a_run(&scratch, &["--readahead", "256K"]);
    thaw.0.kill().unwrap();
    thaw.0.wait().unwrap();

    let found = scratch.thaw(["doctor"]).exits(1);
    assert!(found.out().contains("control group"), "{}", found.framed());
    found.says("profile").says("hint: thaw doctor --mend");
    assert!(read_ahead(&scratch).contains("256 KiB"), "the disk still has what the killed run set");
    scratch.thaw(["doctor", "--mend"]).exits(0).says("mended");

    scratch.thaw(["doctor"]).exits(0).says("nothing");
    assert_eq!(read_ahead(&scratch), before);
    assert_eq!(scratch.names("profile"), ["first"], "the directory is as it was");
    assert_eq!(std::fs::read_to_string(scratch.path("profile/first")).unwrap(), "as it was");
    let pid = std::fs::read_to_string(scratch.path("started")).unwrap();
    assert!(!runs(&pid), "the program is gone");
    scratch.nothing_left();
    if scratch.path("killed.thaw").exists() {
        scratch.thaw(["report", "killed.thaw"]).exits(0).says("the recording was interrupted");
    }
}

#[test]
fn ctrl_c_puts_the_machine_back() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let mut thaw = in_the_middle_of_a_run(&scratch, &[]);
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names("profile"), ["first"]);
    let pid = std::fs::read_to_string(scratch.path("started")).unwrap();
    assert!(!runs(&pid), "no child is left");
    scratch.nothing_left();
    scratch.thaw(["doctor"]).exits(0);
}

#[test]
fn ctrl_c_keeps_the_runs_that_were_finished() {
    let _machine = alone();
    let scratch = Scratch::new();
    // The first starts are quick; then one that is in the middle when Ctrl-C comes.
    let body =
        "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; [ $n -lt 6 ] || { : > long; sleep 600; }; :";
    let program = scratch.script("program", body);
    let state = if rustix::process::geteuid().is_root() { "app,hot" } else { "hot" };
    let mut command = scratch.command();
    command.args(["record", "-o", "half.thaw", "--state", state, "--runs", "50", "--quiet", "--"]).arg(program);
    let answer = std::fs::File::create(scratch.path("answer")).unwrap();
    command.stdout(answer);
    let mut thaw = until(&scratch, command, "long");
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    let answer = std::fs::read_to_string(scratch.path("answer")).unwrap();
    assert!(answer.contains("the recording was interrupted"), "{answer}");
    let json = scratch.thaw(["report", "half.thaw", "--json"]).exits(0).json();
    assert_eq!(json["recording"]["finished"], false);
    let counted: u64 =
        json["statistics"]["cells"].as_array().unwrap().iter().map(|cell| cell["runs"].as_u64().unwrap()).sum();
    assert!(counted >= 1, "{json}");
    scratch.nothing_left();
}

/// Ctrl-C, as a terminal sends it.
pub fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Samples a setting of the machine until it is dropped: when it was read, and what it was.
struct Sampler {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(u64, String)>>,
}

impl Sampler {
    fn of(path: PathBuf) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let over = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut samples = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let value = std::fs::read_to_string(&path).unwrap().trim().to_owned();
                samples.push((os::machine::now_unix_ns(), value));
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            samples
        });
        Self { stop, thread }
    }

    fn end(self) -> Vec<(u64, String)> {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Runs that count of a recording: from when to when, in nanoseconds since 1970.
fn counted(scratch: &Scratch, recording: &str) -> Vec<(u64, u64)> {
    let reader = recording::Reader::open(scratch.path(recording)).unwrap();
    let rows = reader.runs().unwrap().into_iter().map(|(row, _)| row);
    let measured = rows.filter(|row| row.accepted && matches!(row.kind.name(), "timed" | "trace"));
    measured.map(|row| (row.started_unix_ns, row.started_unix_ns + row.wall_ns.unwrap().0)).collect()
}

/// thaw, told to record a program that reads a file, under a read-ahead. Its options come before the program.
fn recording_at(scratch: &Scratch, kib: u64, options: &[&str]) -> Command {
    scratch.write("data", vec![b'x'; 4 << 20]);
    let program = scratch.script("program", ": > started; cat data > /dev/null; sleep 0.1");
    let mut command = scratch.command();
    command.args(["record", "-o", "one.thaw", "--quiet", "--needed", "no", "--trace-runs", "1"]);
    command.args(["--readahead", &format!("{kib}K")]).args(options).arg("--").arg(program);
    command.stdout(Stdio::null());
    command
}

#[test]
fn three_recordings_at_once_are_each_measured_under_their_own_settings() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let (one, same, other) = (Scratch::new(), Scratch::new(), Scratch::new());
    let Ok(disk) = os::disk::Disk::of_path(&one.path("")) else { return testing::skip("/var/tmp is on no disk") };
    let now = || std::fs::read_to_string(&disk.read_ahead_file).unwrap().trim().to_owned();
    let before = now();
    let sampler = Sampler::of(disk.read_ahead_file.clone());
    // The first two agree; the third needs another value, and the second is killed.
    let mut first = until(&one, recording_at(&one, 64, &["--state", "cold,hot", "--runs", "4"]), "started");
    let mut killed = until(&same, recording_at(&same, 64, &["--state", "hot", "--runs", "2000"]), "started");
    assert_eq!(now(), "64");
    let refused = other.thaw(["record", "--readahead", "256K", "--wait", "0", "--", "/bin/true"]).exits(3);
    refused.complains(&format!("process {}", first.0.id())).complains("at 64").hints("--wait");
    let mut third = Mortal(recording_at(&other, 256, &["--state", "cold,hot", "--runs", "3"]).spawn().unwrap());
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert!(first.0.wait().unwrap().success());
    assert!(third.0.wait().unwrap().success(), "its turn came");
    // Nobody needs a value any more.
    assert_eq!(now(), before);
    let samples = sampler.end();
    let mut checked = 0;
    for (scratch, value) in [(&one, "64"), (&other, "256")] {
        let runs = counted(scratch, "one.thaw");
        assert!(runs.len() >= 6, "{} runs", runs.len());
        for (from, to) in runs {
            let during = samples.iter().filter(|(at, _)| (from..=to).contains(at));
            let values: std::collections::BTreeSet<&str> = during.map(|(_, value)| value.as_str()).collect();
            assert!(values.iter().all(|found| *found == value), "a run at {value} met {values:?}");
            checked += usize::from(!values.is_empty());
        }
    }
    assert!(checked >= 12, "{checked} runs were sampled");
    for scratch in [&one, &same, &other] {
        scratch.thaw(["doctor", "--mend"]).exits(0);
        scratch.nothing_left();
    }
    assert_eq!(now(), before);
}

#[test]
fn the_first_requests_to_a_limited_disk_come_at_its_rate() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    for number in 0..60 {
        scratch.write(&format!("many/{number}"), vec![b'x'; 4096]);
    }
    let program = scratch.script("program", "cat many/* > /dev/null");
    let words = ["record", "-o", "slow.thaw", "--state", "cold", "--runs", "1", "--trace-runs", "3", "--needed", "no"];
    let mut command = scratch.command();
    command.args(words).args(["--disk", "throttle:iops=100", "--quiet", "--"]).arg(program);
    let said = Said::of(command);
    if said.err().contains("cannot slow the disk down") || said.out().contains("lets the first requests") {
        return testing::skip("the disk cannot be limited without a burst here");
    }
    let said = said.exits(0);
    let query = "select r.run, (select count(*) from blocks b where b.run = r.run and write = 0 and start_ns between \
        0 and 300000000
        and pid in (select pid from processes p where p.run = r.run)) as early,
        (select count(*) from blocks b where b.run = r.run and write = 0) as all_of_it
        from runs r where kind = 'trace' and accepted = 1";
    let table = scratch.thaw(["query", "slow.thaw", query]).exits(0).out();
    let rows: Vec<Vec<u64>> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().map(|word| word.replace(',', "").parse().unwrap()).collect())
        .collect();
    assert!(rows.len() >= 2, "{table}{}", said.framed());
    for row in rows {
        assert!(row[2] > 60, "every file is a request: {table}");
        // 30 in 0.3 s at 100 a second; the kernel's slices are not all equally long.
        assert!(row[1] <= 33, "{} requests in the first 0.3 s of run {}\n{table}", row[1], row[0]);
    }
}

#[test]
fn doctor_obeys_no_journal_that_others_can_write() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let bait = scratch.write("bait/precious", "text");
    let text = serde_json::json!({
        "boot_id": "b", "pid": 1, "pid_start_ticks": 1, "created_unix_ns": 7,
        "undo": { "kind": "remove-tree", "path": scratch.path("bait") },
    });
    let entry = scratch.write("state/journal/00000000000000000007-000000-1.json", text.to_string());
    let refused = |why: &str| {
        scratch.thaw(["doctor"]).exits(1).says("refused");
        let told = scratch.thaw(["doctor", "--mend", "--json"]).exits(1).json()["refused"].to_string();
        assert!(told.contains(why), "{why}: {told}");
        assert!(bait.exists(), "{why}");
    };
    let mode = |path: &std::path::Path, mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let owner = |path: &std::path::Path, uid| std::os::unix::fs::chown(path, Some(uid), None).unwrap();
    let journal = scratch.path("state/journal");
    mode(&journal, 0o755);
    mode(&entry, 0o666);
    refused("others than its owner may write to it");
    mode(&entry, 0o600);
    owner(&entry, 65534);
    refused("belongs to nobody");
    owner(&entry, 0);
    owner(&journal, 65534);
    refused("sudo -u");
    owner(&journal, 0);
    scratch.thaw(["doctor", "--mend"]).exits(0).says("mended");
    assert!(!bait.exists(), "an entry of its own is obeyed");
}

#[test]
fn thaw_itself_starts_with_little_work() {
    let valgrind = std::path::Path::new("/usr/bin/valgrind");
    if !valgrind.exists() {
        testing::skip("needs valgrind");
        return;
    }
    let scratch = Scratch::new();
    let mut command = scratch.command_of(valgrind);
    command.args(["--tool=none", "--version"]);
    Said::of(command).exits(0);
    let mut command = scratch.command_of(valgrind);
    command.args([
        "--tool=lackey",
        "--basic-counts=yes",
        "--log-file=counts",
        env!("CARGO_BIN_EXE_thaw"),
        "presets",
        "--help",
    ]);
    Said::of(command).exits(0);
    let counts = std::fs::read_to_string(scratch.path("counts")).unwrap();
    let line = counts.lines().find(|line| line.contains("guest instrs:")).unwrap_or_else(|| panic!("{counts}"));
    let instructions: u64 = line.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
    // An unoptimised build of the parser takes most of it; 20 ms are about 40 million instructions.
    assert!(instructions < 40_000_000, "{instructions} instructions before the verb");
}
