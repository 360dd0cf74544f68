//! preload: from a recorded start to a launcher; above all that the program always starts, and as it would have
//! without.

use crate::made;
use crate::scratch::{Mortal, Said, Scratch, alone};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Stdio;

/// FNV-1a, as manifests have it: the manifests of these tests are written by hand.
fn summed(body: &str) -> String {
    let sum =
        body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{body}sum {sum:016x}\n")
}

/// A manifest of one file of 64 pages that is on a disk.
pub fn manifest(scratch: &Scratch) -> PathBuf {
    let data = scratch.write("data", vec![7; 64 << 12]);
    std::process::Command::new("sync").arg(&data).status().unwrap();
    let meta = std::fs::metadata(&data).unwrap();
    let (seconds, nanos) =
        (std::os::unix::fs::MetadataExt::mtime(&meta), std::os::unix::fs::MetadataExt::mtime_nsec(&meta));
    let body = format!(
        "thaw preload manifest 1\nabout host elsewhere\nfile regular 1 1 {} {} - {}\nread 0 0 262144 0\n",
        meta.len(),
        seconds * 1_000_000_000 + nanos,
        data.display()
    );
    scratch.write("a.preload", summed(&body))
}

/// The manifest after its only file has changed.
fn stale(scratch: &Scratch) -> PathBuf {
    let path = manifest(scratch);
    scratch.write("data", "short");
    path
}

/// The two ways to start a program with a manifest, which shall not differ.
const WAYS: [(&str, &[&str]); 2] =
    [(env!("CARGO_BIN_EXE_thaw"), &["preload", "run"]), (env!("CARGO_BIN_EXE_thaw-preload"), &[])];

/// Runs these words through both.
fn run<'a>(scratch: &'a Scratch, words: &'a [&'a str]) -> impl Iterator<Item = Said> + 'a {
    WAYS.iter().map(move |(program, first)| {
        let mut command = scratch.command_of(program.as_ref());
        command.args(*first).args(words);
        Said::of(command)
    })
}

fn words<'a>(first: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    first.iter().chain(rest).copied().collect()
}

#[test]
fn a_recorded_start_becomes_a_manifest_that_reads_what_it_needs() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.write("app/data", vec![b'x'; 2 << 20]);
    std::process::Command::new("sync").arg(scratch.path("app/data")).status().unwrap();
    let program = scratch.path("app/reader");
    testing::copy_program("/bin/cat", &program);
    let program = program.to_str().unwrap();
    let record = ["record", "-q", "--state", "cold", "--runs", "1", "--trace-runs", "1", "--readahead", "0"];
    scratch.thaw(words(&record, &["--", program, "app/data"])).exits(0);

    let made = scratch.thaw(["preload", "make", "thaw.thaw", "-o", "a.preload", "--json"]).exits(0).json();
    assert_eq!((&made["schema"], &made["about"]["source"]), (&"thaw.preload-plan/1".into(), &"exact".into()));
    assert!(made["needed"].as_u64().unwrap() >= 2 << 20, "{made:#}");
    assert!(made["bytes"].as_u64() >= made["needed"].as_u64());
    let text =
        scratch.thaw(["preload", "make", "thaw.thaw", "-o", "a.preload", "--gap", "0", "--force"]).exits(0).out();
    assert!(text.contains("known exactly"), "{text}");

    scratch.thaw(["flush", "app"]).exits(0);
    scratch.thaw(["preload", "run", "-v", "a.preload"]).exits(0).complains("asking for 2.");
    let status = scratch.thaw(["preload", "status", "a.preload", "--json"]).exits(0).json();
    assert_eq!(status["report"]["stale"], serde_json::json!([]), "{status:#}");
    let resident = scratch.thaw(["resident", "app/data", "--json"]).exits(0).json();
    assert_eq!(resident["resident_bytes"], 2 << 20);
    let out = scratch.thaw(["preload", "run", "a.preload", "--", program, "app/data"]).exits(0).out();
    assert_eq!(out.len(), 2 << 20);
    scratch.nothing_left();
}

#[test]
fn what_has_no_cold_start_or_is_gone_makes_no_manifest() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("gone.thaw"), &[900], &[300]);
    let said = scratch.thaw(["preload", "make", "gone.thaw", "-o", "a.preload"]).exits(1);
    said.complains("nothing that this start needed is as it was recorded").hints("record it again");
    let said = scratch.thaw(["preload", "make", "gone.thaw", "-o", "a.preload", "--variant", "other"]).exits(2);
    said.complains("no variant 'other'").hints("app");
    scratch.thaw(["preload", "make", "missing.thaw", "-o", "a.preload"]).exits(2).complains("missing.thaw");
    for (option, value, part) in [("--gap", "wide", "auto"), ("--order", "random", "first-use")] {
        let said = scratch.thaw(["preload", "make", "gone.thaw", "-o", "a.preload", option, value]).exits(2);
        said.complains(part);
    }
    assert!(!scratch.path("a.preload").exists());
}

#[test]
fn the_program_is_started_whatever_the_manifest_is() {
    let scratch = Scratch::new();
    let good = manifest(&scratch);
    let bytes = std::fs::read(&good).unwrap();
    scratch.write("cut", &bytes[..bytes.len() - 9]);
    scratch.write("letter", "dear diary");
    scratch.write("newer", "thaw preload manifest 9\nsum 0\n");
    std::fs::create_dir(scratch.path("folder")).unwrap();
    for (file, part) in [
        ("missing", "No such file"),
        ("cut", "cut off"),
        ("letter", "not a preload manifest"),
        ("newer", "version 9"),
        ("folder", "not a preload manifest"),
        ("/dev/null", "not a preload manifest"),
    ] {
        for said in run(&scratch, &[file, "--", "sh", "-c", "echo started; exit 42"]) {
            let said = said.exits(42).says("started").complains("warning: cannot read the preload manifest");
            said.complains(part).hints("thaw preload make");
        }
        // A name that is not there was typed wrong.
        let code = if file == "missing" { 2 } else { 5 };
        run(&scratch, &[file]).for_each(|said| _ = said.exits(code).complains(part));
        scratch.thaw(["preload", "status", file]).exits(code).complains(part);
    }
    for said in run(&scratch, &["a.preload", "--", "sh", "-c", "echo started"]) {
        assert_eq!(said.exits(0).says("started").err(), "");
    }
}

#[test]
fn a_manifest_of_another_machine_says_so() {
    let scratch = Scratch::new();
    stale(&scratch);
    for said in run(&scratch, &["a.preload", "--", "echo", "started"]) {
        let said = said.exits(0).says("started");
        said.complains("the manifest was made on elsewhere").hints("record the start again");
    }
    run(&scratch, &["a.preload"]).for_each(|said| _ = said.exits(1).complains("no file of it is as it was"));
    let said = scratch.thaw(["preload", "status", "a.preload"]).exits(1);
    said.says("made on elsewhere").says("its size was 262.1 kB and is 5 B");
    let json = scratch.thaw(["preload", "status", "a.preload", "--json"]).exits(1).json();
    assert_eq!(json["schema"], "thaw.preload/1");
    assert_eq!(json["report"]["stale"][0]["why"], "size");
}

#[test]
fn a_program_that_cannot_be_started_is_as_for_env() {
    let scratch = Scratch::new();
    manifest(&scratch);
    scratch.write("plain", "text");
    // A script without a first line is the shell's.
    testing::write_script(scratch.path("script"), "echo shell $1\n");
    for (manifest, program, code, part) in [
        ("a.preload", "no-such-program-at-all", 127, "cannot start 'no-such-program-at-all': No such file"),
        ("a.preload", "./nothing", 127, ""),
        ("a.preload", "", 127, ""),
        ("a.preload", "./plain", 126, "ermission denied"),
        ("a.preload", "/", 126, ""),
        ("a.preload", "./script", 0, ""),
        // The same where the manifest is none.
        ("missing", "no-such-program-at-all", 127, ""),
    ] {
        for said in run(&scratch, &[manifest, "--", program, "one"]) {
            let said = said.exits(code).complains(part);
            assert_eq!(said.out().contains("shell one"), code == 0, "{}", said.framed());
        }
    }
}

#[test]
fn the_small_program_leaves_what_is_unusual_to_thaw_and_starts_the_program_without_it() {
    let scratch = Scratch::new();
    manifest(&scratch);
    let [_, (small, _)] = WAYS;
    let said = |program: &std::path::Path, words: &[&str]| {
        let mut command = scratch.command_of(program);
        command.args(words);
        Said::of(command)
    };
    said(small.as_ref(), &["-v", "a.preload", "--", "echo", "started"])
        .exits(0)
        .says("started")
        .complains("asking for");
    said(small.as_ref(), &["--help"]).exits(0).says("thaw preload run");
    said(small.as_ref(), &[]).exits(2);
    // Alone in a directory, as in what somebody copied.
    let alone = scratch.path("alone");
    testing::copy_program(small, &alone);
    said(&alone, &["a.preload", "--", "echo", "started"]).exits(0).says("started");
    let lonely = said(&alone, &["missing", "--", "echo", "started"]).exits(0).says("started");
    lonely.complains("warning: 'missing' is not read");
    said(&alone, &["--help"]).exits(127).hints("thaw-preload MANIFEST");
}

#[test]
fn the_program_takes_the_process_its_input_and_its_files() {
    let scratch = Scratch::new();
    manifest(&scratch);
    let script = "echo $$ $PPID; ls /proc/$$/fd; ulimit -n; cat; kill -TERM $$";
    let command = |way: Option<(&str, &[&str])>| {
        let mut command = match way {
            Some((program, first)) => {
                let mut command = scratch.command_of(program.as_ref());
                command.args(first).args(["a.preload", "--", "sh"]);
                command
            }
            None => {
                let mut command = std::process::Command::new("sh");
                command.current_dir(scratch.path(""));
                command
            }
        };
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // So low that thaw raises it for itself.
        // SAFETY: setrlimit is a plain system call.
        unsafe { command.pre_exec(|| limit_open_files(40)) };
        command
    };
    let run = |way| {
        let mut child = command(way).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"from stdin").unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(15), "{out}");
        let mut lines = out.lines();
        let pids = lines.next().unwrap();
        assert_eq!(pids, format!("{} {}", child.id(), std::process::id()), "it is the very process that was started");
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // No more open files, the same limit, the same input.
    for way in WAYS {
        assert_eq!(run(Some(way)), run(None));
    }
}

fn limit_open_files(most: u64) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

#[test]
fn signals_are_as_they_were() {
    let scratch = Scratch::new();
    manifest(&scratch);
    for (ignored, (program, first)) in [false, true].into_iter().flat_map(|ignored| WAYS.map(|way| (ignored, way))) {
        let mut command = scratch.command_of(program.as_ref());
        command.args(first).args(["a.preload", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        let mut plain = std::process::Command::new("grep");
        plain.args(["-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        for command in [&mut command, &mut plain] {
            // SAFETY: between fork and exec only calls that are allowed there: signal and sigprocmask.
            unsafe {
                command.pre_exec(move || {
                    use rustix::process::Signal;
                    block(Signal::USR1);
                    // SIGINT too: a shell without job control lets what it runs in the background ignore it.
                    dispose(libc::SIGPIPE, ignored);
                    dispose(libc::SIGINT, ignored);
                    Ok(())
                });
            }
        }
        let (through, plain) = (Said::of(command), Said::of(plain));
        assert_eq!(through.out(), plain.out(), "ignored: {ignored}\n{}", through.framed());
        assert!(plain.out().contains("SigBlk"), "{}", plain.framed());
    }
}

/// Blocks a signal in this process.
fn block(signal: rustix::process::Signal) {
    // SAFETY: `set` is a signal set that sigemptyset made; the call changes this thread's mask only.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal.as_raw());
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// What happens on a signal in this process.
fn dispose(signal: i32, ignored: bool) {
    // SAFETY: both are dispositions that every program may have.
    unsafe {
        libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
}

#[test]
fn the_rest_is_read_by_a_process_that_nobody_waits_for() {
    let scratch = Scratch::new();
    let path = manifest(&scratch);
    // Two reads: the second one is the rest.
    let text = std::fs::read_to_string(&path).unwrap();
    let body = text.replace("read 0 0 262144 0\n", "read 0 0 4096 0\nread 0 8192 4096 1\n");
    let body = &body[..body.rfind("sum ").unwrap()];
    scratch.write("a.preload", summed(body));
    let _machine = alone();
    scratch.thaw(["flush", "data"]).exits(0);
    let run = ["preload", "run", "a.preload", "--window", "4K", "--"];
    // A shell that waits for all its children finds none; the rest comes while it runs; a pipe that the other process
    // held open would not end.
    let shell = "wait; ls /proc/self/task/*/children | xargs cat; \
        until \"$0\" resident data --json | grep -q '\"resident_bytes\": 8192'; do :; done; echo end";
    let said = scratch.thaw(words(&run, &["sh", "-c", shell, env!("CARGO_BIN_EXE_thaw")]));
    assert_eq!(said.exits(0).out().lines().last(), Some("end"));
}

#[test]
fn every_engine_starts_the_program() {
    let scratch = Scratch::new();
    manifest(&scratch);
    for engine in ["auto", "readahead", "fadvise", "io_uring"] {
        let _machine = alone();
        scratch.thaw(["flush", "data"]);
        let said = scratch.thaw(["preload", "run", "-v", "--engine", engine, "a.preload", "--", "echo", "started"]);
        said.exits(0).says("started").complains("asking for 262.1 kB in 1 read");
    }
}

const ENTRY: &str = "[Desktop Entry]\nType=Application\nName=Tool\nExec=tool --new \
    %u\nTryExec=sh\nActions=a;\n\n[Desktop Action a]\nName=A\nExec=tool --a\n";

/// thaw with a home of its own.
fn at_home(scratch: &Scratch, words: &[&str]) -> Said {
    let mut command = scratch.command();
    command
        .args(words)
        .env("HOME", scratch.path("home"))
        .env_remove("XDG_DATA_HOME")
        .env("XDG_CONFIG_HOME", scratch.path("home/.config"))
        .env("XDG_DATA_DIRS", scratch.path("share"));
    Said::of(command)
}

#[test]
fn a_launcher_is_installed_listed_and_taken_away() {
    let scratch = Scratch::new();
    manifest(&scratch);
    scratch.write("share/applications/tool.desktop", ENTRY);
    let install = ["preload", "install", "a.preload", "--desktop", "tool.desktop"];
    at_home(&scratch, &install).exits(0).says("thaw preload uninstall --desktop tool.desktop");
    let entry = std::fs::read_to_string(scratch.path("home/.local/share/applications/tool.desktop")).unwrap();
    let kept = scratch.path("home/.local/share/thaw/preload/tool.desktop.preload");
    let prefix = format!("Exec={} {} --", env!("CARGO_BIN_EXE_thaw-preload"), kept.display());
    assert!(entry.contains(&format!("{prefix} tool --new %u\n")), "{entry}");
    assert!(entry.contains(&format!("{prefix} tool --a\n")) && entry.contains("TryExec=sh\n"), "{entry}");
    let copy = std::fs::read_to_string(&kept).unwrap();
    let original = std::fs::read_to_string(scratch.path("a.preload")).unwrap();
    let reads =
        |text: &str| text.lines().filter(|line| line.starts_with("read ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(reads(&copy), reads(&original));
    if std::path::Path::new("/usr/bin/desktop-file-validate").exists() {
        let path = scratch.path("home/.local/share/applications/tool.desktop");
        assert!(std::process::Command::new("desktop-file-validate").arg(path).status().unwrap().success());
    }
    at_home(&scratch, &install).exits(2).complains("installed already");
    at_home(&scratch, &["doctor"])
        .says("What was installed")
        .says("undo: thaw preload uninstall --desktop tool.desktop");
    let json = at_home(&scratch, &["doctor", "--json"]).json();
    assert_eq!(json["installed"][0]["files"].as_array().unwrap().len(), 2);
    // A record that cannot be read is no reason to forget what it stands for.
    scratch.write("state/installed/preload-user-unit-other.json", "{");
    at_home(&scratch, &["doctor"]).exits(1).says("undo: thaw preload").says("preload-user-unit-other.json");
    at_home(&scratch, &["preload", "uninstall", "--unit", "other"]).exits(5).complains("damaged");
    std::fs::remove_file(scratch.path("state/installed/preload-user-unit-other.json")).unwrap();

    let uninstall = ["preload", "uninstall", "--desktop", "tool.desktop"];
    at_home(&scratch, &uninstall).exits(0);
    assert!(!scratch.path("home").exists(), "directories that were made for it go too");
    assert_eq!(scratch.names("state/installed"), Vec::<String>::new());
    at_home(&scratch, &uninstall).exits(2).complains("has not installed 'tool.desktop'").hints("thaw doctor");
}

#[test]
fn an_entry_of_the_users_own_is_put_back() {
    let scratch = Scratch::new();
    manifest(&scratch);
    let own = ENTRY.replace("tool --new", "tool --mine");
    let path = scratch.write("home/.local/share/applications/tool.desktop", &own);
    scratch.write("share/applications/tool.desktop", ENTRY);
    let install = ["preload", "install", "a.preload", "--desktop", "tool.desktop"];
    let uninstall = ["preload", "uninstall", "--desktop", "tool.desktop"];
    at_home(&scratch, &install).exits(0);
    assert!(
        std::fs::read_to_string(&path).unwrap().contains(" -- tool --mine %u\n"),
        "the desktop takes the user's one"
    );
    at_home(&scratch, &uninstall).exits(0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
    // What the user changed after that is the user's again.
    at_home(&scratch, &install).exits(0);
    std::fs::write(&path, "changed").unwrap();
    at_home(&scratch, &uninstall).exits(1).says("kept: ").says("changed since").says("the manifest is gone");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed");
    assert!(!scratch.path("home/.local/share/thaw").exists());
}

#[test]
fn what_cannot_be_installed_changes_nothing() {
    let scratch = Scratch::new();
    manifest(&scratch);
    scratch.write("share/applications/link.desktop", "[Desktop Entry]\nType=Link\nURL=x\n");
    scratch.write("share/applications/tool.desktop", ENTRY);
    let install = |name: &str| at_home(&scratch, &["preload", "install", "a.preload", "--desktop", name]);
    install("other.desktop").exits(2).complains("no desktop entry 'other.desktop'").hints("share/applications");
    install("link.desktop").exits(2).complains("of type Link");
    install("../tool.desktop").exits(2).complains("no name");
    at_home(&scratch, &["preload", "install", "missing", "--desktop", "tool.desktop"]).exits(2);
    at_home(&scratch, &["preload", "install", "a.preload"]).exits(2).complains("--desktop");
    if rustix::process::geteuid().is_root() {
        // As sudo leaves it: the home of another user.
        std::fs::create_dir(scratch.path("home")).unwrap();
        std::os::unix::fs::chown(scratch.path("home"), Some(65_534), None).unwrap();
        install("tool.desktop").exits(2).complains("another user").hints("--system");
        assert_eq!(scratch.names("home"), Vec::<String>::new());
        std::fs::remove_dir(scratch.path("home")).unwrap();
    }
    // A file where a directory has to be made.
    scratch.write("home/.local/share", "in the way");
    install("tool.desktop").exits(3).complains("cannot write");
    assert_eq!(scratch.names("home/.local"), ["share"]);
    let left = scratch.path("state/installed");
    assert!(!left.exists() || scratch.names("state/installed").is_empty(), "the record is taken back");
}

#[test]
fn a_unit_reads_at_login() {
    let scratch = Scratch::new();
    manifest(&scratch);
    at_home(&scratch, &["preload", "install", "a.preload", "--unit", "tool"]).exits(0).says("daemon-reload");
    let unit = scratch.path("home/.config/systemd/user/thaw-preload-tool.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains("Type=oneshot\n") && text.contains("thaw-preload"), "{text}");
    let wants = scratch.path("home/.config/systemd/user/default.target.wants/thaw-preload-tool.service");
    assert_eq!(wants.canonicalize().unwrap(), unit);
    at_home(&scratch, &["preload", "uninstall", "--unit", "tool"]).exits(0);
    assert!(!scratch.path("home").exists());
}

#[test]
fn the_program_outlives_the_terminal_of_thaw_and_dies_of_its_own_signal() {
    let scratch = Scratch::new();
    manifest(&scratch);
    let child = scratch.command().args(["preload", "run", "a.preload", "--", "sleep", "600"]).spawn().unwrap();
    let mut child = Mortal(child);
    let pid = child.0.id();
    while std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() != "sleep") {
        std::thread::yield_now();
    }
    child.0.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(9));
}
