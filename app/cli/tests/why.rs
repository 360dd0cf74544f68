//! `thaw why` on programs whose owners are known: each says by its own clocks how long it ran, waited and lacked a CPU,
//! so that what is compared is the same start, however busy the machine is.

use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

/// A scratch folder, if a start can be taken down here as a whole.
pub fn scene() -> Option<Scratch> {
    if !testing::root_or_skip() {
        return None;
    }
    let missing = cpu::Recorder::open(&cpu::Options::default()).map(|(_, warnings)| warnings);
    match missing {
        Ok(warnings) if warnings.is_empty() => Some(Scratch::new()),
        Ok(warnings) => {
            testing::skip(&warnings[0].text);
            None
        }
        Err(error) => {
            testing::skip(&error.to_string());
            None
        }
    }
}

pub fn fixture(name: &str) -> PathBuf {
    root().join("fixtures/why").join(name)
}

/// Compiles a fixture into the scratch folder; `None`, counted as skipped: no such compiler.
pub fn built(scratch: &Scratch, compiler: &str, source: &str, program: &str, options: &[&str]) -> Option<PathBuf> {
    let path = scratch.path(program);
    let mut command = Command::new(compiler);
    command.current_dir(scratch.path("")).arg("-g").arg("-o").arg(&path).arg(fixture(source)).args(options);
    testing::compiled(&mut command).then_some(path)
}

pub fn planted(scratch: &Scratch) -> Option<PathBuf> {
    built(scratch, "cc", "planted.c", "planted", &["-O1", "-pthread", "-ldl"])
}

/// What a thread says of a part of its work, in milliseconds.
#[derive(Clone, Debug)]
pub struct Truth {
    pub pid: u64,
    pub tid: u64,
    pub part: String,
    pub wall: f64,
    pub cpu: f64,
    pub delay: f64,
}

impl Truth {
    fn of(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, tid, part, wall, cpu, delay] = words[..] else { panic!("no truth: {line:?}") };
        let number = |word: &str| word.parse::<f64>().unwrap();
        Self {
            pid: pid.parse().unwrap(),
            tid: tid.parse().unwrap(),
            part: part.to_owned(),
            wall: number(wall),
            cpu: number(cpu),
            delay: number(delay),
        }
    }

    /// How long it waited.
    pub fn waited(&self) -> f64 {
        self.wall - self.cpu - self.delay
    }

    /// How long it had a CPU, of a part in which it does not wait: what a host takes away is in it.
    pub fn had_cpu(&self) -> f64 {
        self.wall - self.delay
    }
}

/// A traced start, and what the program itself says of it.
pub struct Start {
    pub report: Value,
    truths: Vec<Truth>,
}

impl Start {
    /// Traces a start of a program that says `ready`.
    pub fn of(scratch: &Scratch, command: &[impl AsRef<OsStr>]) -> Self {
        Self::with(scratch, &[], command)
    }

    /// The same with more options. Where the kernel has lost switches, and the report says so, the program is started
    /// again: it cannot tell who had the CPU then.
    pub fn with(scratch: &Scratch, options: &[&str], command: &[impl AsRef<OsStr>]) -> Self {
        let mut starts = (0..3).map(|_| Self::once(scratch, options, command));
        let first = starts.next().unwrap();
        let is_whole = |start: &Self| start.report["lost_switches"] == 0;
        if is_whole(&first) { first } else { starts.find(is_whole).unwrap_or(first) }
    }

    fn once(scratch: &Scratch, options: &[&str], command: &[impl AsRef<OsStr>]) -> Self {
        let truth = scratch.path("truth");
        let mut words: Vec<OsString> =
            ["why", "--json", "--force", "-o", "why.thaw", "--runs", "1", "--trace-runs", "1", "--ready"]
                .map(OsString::from)
                .to_vec();
        let mut variable = OsString::from("PLANTED_TRUTH=");
        variable.push(&truth);
        words.extend(["line:^ready".into(), "--env".into(), variable]);
        words.extend(options.iter().map(OsString::from));
        words.push("--".into());
        words.extend(command.iter().map(|word| word.as_ref().to_owned()));
        let said = scratch.thaw(words).exits(0);
        let document = said.json();
        assert_eq!(document["schema"], "thaw.why/1");
        let hot = document["starts"].as_array().unwrap().iter().find(|start| start["state"] == "hot");
        let report = hot.unwrap_or_else(|| panic!("no hot start\n{}", said.framed()))["report"].clone();
        let lanes = report["threads"].as_array().unwrap();
        let of_tree: Vec<u64> = lanes
            .iter()
            .filter(|lane| lane["of_tree"] == true)
            .map(|lane| lane["thread"]["pid"].as_u64().unwrap())
            .collect();
        let text = std::fs::read_to_string(truth).unwrap_or_default();
        // Other starts wrote into the same file.
        let truths = text.lines().map(Truth::of).filter(|truth| of_tree.contains(&truth.pid)).collect();
        let start = Self { report, truths };
        start.is_sound();
        start
    }

    /// What holds of every start.
    fn is_sound(&self) {
        let ready = self.report["ready_ns"].as_u64().unwrap();
        let sum: u64 = self.owners().iter().map(|owner| owner["ns"].as_u64().unwrap()).sum();
        assert_eq!(sum, ready, "every moment has one owner");
        let (mut at, steps) = (0, self.report["steps"].as_array().unwrap());
        for step in steps {
            assert_eq!(step["from_ns"].as_u64().unwrap(), at, "steps lie side by side");
            at = step["to_ns"].as_u64().unwrap();
        }
        assert_eq!(at, ready);
        assert!(self.report["own_ns"].as_u64().unwrap() > 0, "thaw's own threads read nothing");
        // What the kernel did not tell may be anything; and a start of milliseconds has ended before thaw gets a CPU to
        // see that it is ready.
        if self.report["lost_switches"] == 0 {
            let late = |row: &&Value| row["why"] == "the thread had ended before thaw saw that it was ready";
            let unexplained = self.report["unexplained"].as_array().unwrap();
            let late: u64 = unexplained.iter().filter(late).map(|row| row["ns"].as_u64().unwrap()).sum();
            let explained = self.report["explained_share"].as_f64().unwrap() + late as f64 / ready as f64;
            assert!(explained >= 0.97, "{unexplained:?}");
        }
    }

    pub fn owners(&self) -> &Vec<Value> {
        self.report["owners"].as_array().unwrap()
    }

    #[track_caller]
    pub fn truth(&self, part: &str) -> &Truth {
        let found = self.truths.iter().find(|truth| truth.part == part);
        found.unwrap_or_else(|| panic!("the program said nothing of {part}: {:?}", self.truths))
    }

    /// The time of these owners, in milliseconds.
    pub fn time(&self, is: impl Fn(&Value) -> bool) -> f64 {
        let found = self.owners().iter().filter(|owner| is(owner));
        found.map(|owner| owner["ns"].as_f64().unwrap()).sum::<f64>() / 1e6
    }

    /// For how long this thread does that.
    pub fn does(&self, tid: u64, is: impl Fn(&Value) -> bool) -> f64 {
        self.time(|owner| owner["thread"]["tid"] == tid && is(&owner["what"]))
    }

    pub fn rows(&self, table: &str, is: impl Fn(&Value) -> bool) -> Vec<&Value> {
        self.report[table].as_array().unwrap().iter().filter(|row| is(row)).collect()
    }

    #[track_caller]
    pub fn near(&self, what: &str, found: f64, truth: f64) {
        let apart = (found - truth).abs();
        println!("{what}: {found:.3} ms, and the program says {truth:.3} ms");
        let allowed = (truth * 0.05).max(1.0) + self.untold();
        assert!(apart <= allowed, "{what}: {found} ms, and it was {truth}: {}", self.told());
    }

    /// What a busy kernel did not tell, and thaw says so, in milliseconds: it may be anybody's.
    pub fn untold(&self) -> f64 {
        if self.report["lost_switches"] == 0 {
            return 0.0;
        }
        self.time(|owner| owner["what"]["does"] == "unexplained")
    }

    /// It ran in this function for so long, whose samples stand for a millisecond each.
    #[track_caller]
    pub fn ran_in(&self, tid: u64, function: &str, truth: f64) {
        let (ran, unasked) = (self.does(tid, |what| runs_in(what, function)), self.does(tid, is_unasked));
        println!("{function}: {ran:.3} ms and {unasked:.3} ms of interrupts; the program says {truth:.3} ms");
        let allowed = truth * 0.05 + 2.0;
        assert!(ran <= truth + allowed, "{function}: {ran} ms, and it was {truth}: {}", self.told());
        let least = truth - allowed - self.untold();
        assert!(ran + unasked >= least, "{function}: {ran} ms, and it was {truth}: {}", self.told());
    }

    /// For the message of a test that fails.
    pub fn told(&self) -> String {
        let owners = self.owners().iter().take(25).map(|owner| format!("{} {}", owner["thread"], owner["text"]));
        let owners: Vec<String> = owners.collect();
        format!("\n{}\n{}\n{:#?}", owners.join("\n"), self.report["cannot"], self.truths)
    }
}

/// It runs, whatever.
pub fn runs(what: &Value) -> bool {
    matches!(what["does"].as_str(), Some("user" | "kernel" | "runs"))
}

pub fn waits_for(what: &Value, kind: &str) -> bool {
    what["does"] == "waits" && what["kind"] == kind
}

/// It runs this function, or what the C library and the kernel do for it.
pub fn runs_in(what: &Value, function: &str) -> bool {
    let named = |name: &Value| name.as_str().is_some_and(|name| name.contains(function));
    runs(what) && (named(&what["function"]) || named(&what["caller"]["function"]))
}

/// An interrupt, or a page that was to be mapped: of nobody's wish.
pub fn is_unasked(what: &Value) -> bool {
    what["does"] == "runs" || what["does"] == "kernel" && what["request"] == "interrupt"
}

#[test]
fn a_sleep_is_as_long_as_it_was() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "sleep".as_ref()]);
    let truth = start.truth("sleep");
    start.near("sleep", start.does(truth.tid, |what| waits_for(what, "sleep")), truth.waited());
    let longest = start.rows("owners", |owner| waits_for(&owner["what"], "sleep"));
    assert_eq!(longest[0]["what"]["call"], "clock_nanosleep");
    let callers = longest[0]["what"]["callers"].to_string();
    assert!(callers.contains("nap") && callers.contains("planted.c:"), "{callers}");
    assert_eq!(longest[0]["confidence"], "measured");
}

#[test]
fn a_lock_belongs_to_who_holds_it() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "lock".as_ref()]);
    let (holder, lock) = (start.truth("holder"), start.truth("lock"));
    start.near("holder", start.does(holder.tid, runs), holder.had_cpu());
    assert!(
        start.does(holder.tid, |what| runs_in(what, "planted_spin")) > 0.9 * holder.cpu.min(60.0),
        "{}",
        start.told()
    );
    let links = start.rows("links", |link| link["kind"] == "lock" && link["waker"]["tid"] == holder.tid);
    let linked = links.iter().map(|link| link["ns"].as_f64().unwrap()).sum::<f64>() / 1e6;
    start.near("linked", linked, lock.waited());
    // The first thread's own account.
    let waits = start.rows("blocked", |row| row["is_first"] == true && row["ended"]["name"] == "holder");
    let longest = waits.iter().max_by_key(|row| row["ns"].as_u64()).expect("it waited for the holder");
    assert_eq!((&longest["kind"], longest["thread"]["tid"].as_u64()), (&"lock".into(), Some(lock.tid)), "{longest}");
    start.near("lock", longest["ns"].as_f64().unwrap() / 1e6, lock.waited());
    let lacked = longest["lacked_cpu_ns"].as_f64().unwrap() / 1e6;
    assert!(lacked <= holder.delay * 1.05 + 1.0, "the holder lacked a CPU for {} ms: {longest}", holder.delay);
}

#[test]
fn a_pipe_leads_to_the_child_that_sleeps() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "pipe".as_ref()]);
    let (napper, pipe) = (start.truth("napper"), start.truth("pipe"));
    assert_ne!(napper.pid, pipe.pid);
    start.near("nap", start.does(napper.tid, |what| waits_for(what, "sleep")), napper.waited());
    let links = start.rows("links", |link| link["kind"] == "pipe" && link["waker"]["tid"] == napper.tid);
    assert_eq!(links.len(), 1, "{}{}", start.report["links"], start.told());
    assert_eq!(links[0]["woken"]["tid"].as_u64(), Some(pipe.tid));
    start.near("pipe", links[0]["ns"].as_f64().unwrap() / 1e6, pipe.waited());
}

#[test]
fn an_fsync_is_the_disk() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "sync".as_ref()]);
    let truth = start.truth("sync");
    // Another program's lock of the file system is waited for in the same call.
    let in_call = |what: &Value| what["does"] == "waits" && what["call"] == "fsync";
    let others = start.time(|owner| owner["what"]["does"] == "other");
    let (call, sync) = (start.does(truth.tid, in_call), start.does(truth.tid, |what| waits_for(what, "fsync")));
    println!("fsync {sync} ms of {call} ms in the call, other programs {others} ms");
    start.near("fsync and whom it waits for", (call + others).min(truth.waited().max(call)), truth.waited());
    assert!(sync > 0.0 || truth.waited() < 1.0, "{}", start.told());
}

#[test]
fn a_thread_that_nobody_waits_for_owns_nothing() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "aside".as_ref(), "cpu".as_ref()]);
    let (aside, cpu) = (start.truth("aside"), start.truth("cpu"));
    assert_eq!(start.time(|owner| owner["thread"]["name"] == "aside"), 0.0, "{}", start.told());
    let beside = start.rows("off_path", |row| row["thread"]["name"] == "aside");
    let [beside] = beside[..] else { panic!("{}{}", start.report["off_path"], start.told()) };
    let ran = beside["ran_ns"].as_f64().unwrap() / 1e6;
    println!("aside ran {ran} ms, and its clock said {} ms just before ready", aside.cpu);
    assert!(ran > aside.cpu * 0.95 - 1.0 - start.untold() && ran < 200.0 * 1.05 + 1.0, "{beside}");
    start.ran_in(cpu.tid, "planted_spin", cpu.had_cpu());
    let lacked = start.does(cpu.tid, |what| matches!(what["does"].as_str(), Some("cpu" | "cpu_of_others")));
    assert!(
        lacked >= cpu.delay * 0.95 - 1.0 - start.untold(),
        "waits for a CPU: {lacked} ms, and it was {}: {}",
        cpu.delay,
        start.told()
    );
}

#[test]
fn who_takes_the_cpu_is_named() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let start = Start::of(&scratch, &[program.as_os_str(), "competitor".as_ref()]);
    let (competitor, competed) = (start.truth("competitor"), start.truth("competed"));
    let takes = |what: &Value| what["does"] == "cpu" && what["name"] == "competitor";
    start.near("taken", start.does(competed.tid, takes), competitor.wall);
    let beside = start.rows("off_path", |row| row["thread"]["tid"] == competitor.tid);
    let taken = beside.iter().map(|row| row["competes_ns"].as_f64().unwrap()).sum::<f64>() / 1e6;
    start.near("told beside the path", taken, competitor.wall);
    let all = start.does(competed.tid, |what| matches!(what["does"].as_str(), Some("cpu" | "cpu_of_others")));
    assert!(
        all >= competed.delay * 0.95 - 1.0 - start.untold(),
        "{all} ms, and it was {}: {}",
        competed.delay,
        start.told()
    );
}

/// A program that has these libraries of the scratch folder.
fn linked(scratch: &Scratch, program: &str, libraries: &[&str]) -> Option<PathBuf> {
    let here = format!("-Wl,-rpath,{}", scratch.path("").canonicalize().unwrap().display());
    let options = [&["-O1", "-pthread", "-Wl,--no-as-needed", &here], libraries].concat();
    built(scratch, "cc", "planted.c", program, &options)
}

#[test]
fn an_initialiser_of_a_library_is_found_with_who_called() {
    let Some(scratch) = scene() else { return };
    let options = ["-O1", "-pthread", "-shared", "-fPIC", "-DINITIALISER"];
    let Some(library) = built(&scratch, "cc", "planted.c", "libplanted.so", &options) else { return };
    let Some(program) = linked(&scratch, "initialised", &[library.to_str().unwrap()]) else { return };
    let start = Start::of(&scratch, &[program.as_os_str()]);
    let truth = start.truth("initialiser");
    start.ran_in(truth.tid, "planted_spin", truth.had_cpu());
    let longest = start.rows("owners", |owner| runs_in(&owner["what"], "planted_spin"))[0];
    assert_eq!(longest["what"]["function"], "planted_spin");
    assert!(longest["what"]["object"].as_str().unwrap().ends_with("libplanted.so"), "{longest}");
    assert_eq!(longest["phase"]["phase"], "initialisers", "{longest}");
    assert_eq!(longest["phase"]["object"], "libplanted.so", "{longest}");
    // Each sample of the function lies under the initialiser.
    let under = "WITH RECURSIVE up(sample, stack) AS (
            SELECT s.rowid, s.stack FROM samples s JOIN stacks k ON k.run = s.run AND k.stack = s.stack
                JOIN frames f ON f.run = k.run AND f.frame = k.frame
                JOIN runs r ON r.run = s.run
                WHERE f.function = 'planted_spin' AND r.state = 'hot' AND s.in_kernel = 0
            UNION SELECT up.sample, k.caller FROM up JOIN stacks k ON k.stack = up.stack
                WHERE k.run = (SELECT t.run FROM cpu_traces t JOIN runs r ON r.run = t.run WHERE r.state = 'hot')
                AND k.caller IS NOT NULL)
        SELECT count(DISTINCT sample) AS samples, count(DISTINCT CASE WHEN f.function = 'planted_initialiser'
            THEN sample END) AS under FROM up
        JOIN stacks k ON k.stack = up.stack JOIN frames f ON f.frame = k.frame AND f.run = k.run
        WHERE k.run = (SELECT t.run FROM cpu_traces t JOIN runs r ON r.run = t.run WHERE r.state = 'hot')";
    let said = scratch.thaw(["query", "why.thaw", under, "--json"]).exits(0).json();
    let row = &said["rows"][0];
    assert!(row[0].as_u64().unwrap() > 20 && row[0] == row[1], "{said}");
}
