//! Programs with `thaw_events.h`, and what they leave: everything that the header promises.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use timeline::{Phase, Trace, files_of, intervals, parse, snapshot};

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Builds a program; `None` (counted as skipped): there is no such compiler.
fn build(home: &Path, source: &str, compiler: &[&str]) -> Option<PathBuf> {
    let name = source.replace('.', "-");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../embed/events/include");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-O2", "-g", "-pthread", "-I"]).arg(include);
    command.arg(programs().join(source)).arg("-o").arg(home.join(&name)).arg("-ldl");
    testing::compiled(&mut command).then(|| home.join(name))
}

/// A built `hard.c` and a directory for its events.
struct Scene {
    home: TempDir,
    program: PathBuf,
}

impl Scene {
    fn new() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let program = build(home.path(), "hard.c", &["cc", "-std=c11"])?;
        std::fs::create_dir(home.path().join("events")).unwrap();
        Some(Self { home, program })
    }

    fn events(&self) -> PathBuf {
        self.home.path().join("events")
    }

    fn command(&self, words: &[&str], options: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("THAW_EVENTS", format!("{}{options}", self.events().display()));
        command
    }

    /// Runs it, as it would without events.
    fn run(&self, words: &[&str], options: &str) {
        let output = self.command(words, options).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "the end\n");
        assert!(output.status.success(), "{output:?}");
    }

    fn traces(&self) -> Vec<Trace> {
        let mut paths: Vec<_> = std::fs::read_dir(self.events()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| parse(&std::fs::read(path).unwrap(), None).unwrap()).collect()
    }

    fn trace(&self) -> Trace {
        let mut traces = self.traces();
        assert_eq!(traces.len(), 1);
        assert_eq!(traces[0].damage, [""; 0]);
        traces.pop().unwrap()
    }
}

/// A program that has no end of its own.
struct Mortal(Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names(trace: &Trace) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for event in &trace.events {
        let name = event.type_id.and_then(|id| trace.types.get(&id)).map_or("", |of| &of.name);
        *names.entry(name).or_default() += 1;
    }
    names
}

#[test]
fn every_kind_of_event_is_read_as_it_was_written() {
    let Some(scene) = Scene::new() else { return };
    for compiler in [
        &["cc", "-std=c11", "-Wpedantic"][..],
        &["cc", "-std=gnu17"],
        &["c++", "-x", "c++", "-std=c++11"],
        &["c++", "-x", "c++", "-std=c++20", "-fPIC"],
        &["clang", "-std=c11"],
        &["clang++", "-x", "c++", "-std=c++17"],
    ] {
        let Some(program) = build(scene.home.path(), "all.c", compiler) else { continue };
        let output = Command::new(program).env("THAW_EVENTS", scene.events()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "the end\n", "{compiler:?}");
        let trace = scene.trace();
        let said: Vec<_> = trace
            .events
            .iter()
            .map(|event| {
                let name = event.type_id.map_or("", |id| &trace.types[&id].name);
                (event.phase, event.object, name, event.other, event.text.as_deref().unwrap_or_default())
            })
            .collect();
        use Phase::{Arg, Done, Exec, Free, Link, Mark, Name, Wait};
        assert_eq!(
            said,
            [
                (Name, 1, "", None, "http://a/"),
                (Name, 2, "", None, "db:orders \"x\"\n"),
                (Name, 3, "", None, "a name of more than fifteen bytes"),
                (Wait, 3, "a::third", None, ""),
                (Wait, 1, "net::http::transaction", None, ""),
                (Exec, 1, "net::http::transaction", None, ""),
                (Link, 9, "net::socket", Some(1), ""),
                (Arg, 1, "", None, "bytes=4096"),
                (Done, 1, "net::http::transaction", None, ""),
                (Wait, 2, "db::query", None, ""),
                (Exec, 2, "db::query", None, ""),
                (Done, 2, "db::query", None, ""),
                (Exec, 3, "a::scope", None, ""),
                (Mark, 3, "a::mark", None, ""),
                (Done, 3, "a::scope", None, ""),
                (Free, 1, "", None, ""),
            ],
            "{compiler:?}"
        );
        assert!(trace.threads.iter().any(|thread| thread.name == "main thread"), "{:?}", trace.threads);
        assert!(trace.processes[0].program.ends_with("/all-c"), "{:?}", trace.processes);
        assert_eq!((trace.lost.events, trace.lost.overwritten), (0, 0));
        // At the same time: the name and the wait, the end and the wait.
        assert_eq!(trace.events[2].at_ns, trace.events[3].at_ns);
        assert_eq!(trace.events[8].at_ns, trace.events[9].at_ns);
        for entry in std::fs::read_dir(scene.events()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn nothing_is_written_unless_it_is_asked_for() {
    let Some(scene) = Scene::new() else { return };
    let output = Command::new(&scene.program).args(["mark", "1000"]).env_remove("THAW_EVENTS").output().unwrap();
    assert!(output.status.success());
    for nowhere in ["/nonexistent/directory", "", "/dev/null", "/proc"] {
        let output = Command::new(&scene.program).args(["mark", "9"]).env("THAW_EVENTS", nowhere).output().unwrap();
        assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()), ("the end\n", Some(0)));
    }
    scene.run(&["mark", "1000"], ",off");
    assert_eq!(scene.trace().events.len(), 0);
    let with_filter = Scene::new().unwrap();
    let all = build(scene.home.path(), "all.c", &["cc"]).unwrap();
    let filter = format!("{},filter=a::*+db::query", with_filter.events().display());
    assert!(Command::new(all).env("THAW_EVENTS", filter).status().unwrap().success());
    let trace = with_filter.trace();
    assert_eq!(
        names(&trace),
        BTreeMap::from([("", 5), ("a::mark", 1), ("a::scope", 2), ("a::third", 1), ("db::query", 3)])
    );
}

#[test]
fn a_ring_keeps_the_latest_and_counts_the_rest() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["mark", "100000"], ",ring=256K");
    let trace = scene.trace();
    assert_eq!(trace.events.len() as u64 + trace.lost.overwritten + trace.lost.events, 100_000);
    assert!(trace.lost.overwritten > 80_000 && trace.lost.events == 0, "{:?}", trace.lost);
    assert!(trace.events.is_sorted_by_key(|event| event.at_ns));
}

#[test]
fn a_file_that_grows_has_all_and_takes_room_as_it_needs_it() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["mark", "200000"], ",grow=1G");
    let trace = scene.trace();
    assert_eq!((trace.events.len(), trace.lost.overwritten, trace.lost.events), (200_000, 0, 0));
    let path = std::fs::read_dir(scene.events()).unwrap().next().unwrap().unwrap().path();
    assert!(path.metadata().unwrap().len() < 8 << 20, "{}", path.metadata().unwrap().len());
}

#[test]
fn a_killed_program_leaves_all_but_what_was_being_written() {
    let Some(scene) = Scene::new() else { return };
    let written = scene.home.path().join("written");
    for round in 0..100_u64 {
        std::fs::write(&written, [0; 4096]).unwrap();
        let mut child = scene.command(&["busy", written.to_str().unwrap()], ",grow=512M").spawn().unwrap();
        let path = scene.events().join(format!("{}.events", child.id()));
        let truth = || -> Vec<u64> {
            let bytes = std::fs::read(&written).unwrap();
            (1..5).map(|thread| u64::from_le_bytes(bytes[8 * thread..8 * thread + 8].try_into().unwrap())).collect()
        };
        while truth().iter().any(|events| *events < 5000 + 617 * round) {}
        child.kill().unwrap();
        child.wait().unwrap();
        let trace = parse(&std::fs::read(&path).unwrap(), None).unwrap();
        assert_eq!((trace.damage.as_slice(), trace.lost.events), ([].as_slice(), 0));
        let mut last = [0_u64; 4];
        for event in &trace.events {
            assert_eq!((event.phase, &*trace.types[&event.type_id.unwrap()].name), (Phase::Mark, "test::busy"));
            let (thread, number) = ((event.object >> 40) as usize - 1, event.object & 0xff_ffff_ffff);
            assert_eq!(number, last[thread] + 1, "none is missing, none is torn");
            last[thread] = number;
        }
        // What was written is there, and at most one that was about to be said so.
        for (last, truth) in last.into_iter().zip(truth()) {
            assert!(last == truth || last == truth + 1, "{last} {truth}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_snapshot_of_a_ring_that_is_written_has_all_between_its_first_and_its_last() {
    let Some(scene) = Scene::new() else { return };
    let written = scene.home.path().join("written");
    std::fs::write(&written, [0; 4096]).unwrap();
    let mut busy = Mortal(scene.command(&["busy", written.to_str().unwrap()], ",ring=1M").spawn().unwrap());
    let child = &mut busy.0;
    let events = || std::fs::read(&written).unwrap()[8..16].iter().any(|byte| *byte != 0);
    while !events() {}
    let files = files_of(child.id()).unwrap();
    assert_eq!(files, [scene.events().join(format!("{}.events", child.id()))]);
    let mut overwritten = 0;
    for _ in 0..100 {
        let trace = parse(&snapshot(&files[0]).unwrap(), None).unwrap();
        assert_eq!((trace.damage.as_slice(), trace.lost.events), ([].as_slice(), 0));
        let mut last = BTreeMap::new();
        for event in &trace.events {
            assert_eq!(&*trace.types[&event.type_id.unwrap()].name, "test::busy");
            let (thread, number) = (event.object >> 40, event.object & 0xff_ffff_ffff);
            let before = last.insert(thread, number);
            assert!(before.is_none_or(|before| number == before + 1), "thread {thread}: {before:?}, {number}");
        }
        overwritten = trace.lost.overwritten.max(overwritten);
    }
    assert!(overwritten > 0, "the ring went round");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(files_of(child.id()).is_err());
    assert!(files_of(std::process::id()).unwrap_err().to_string().contains("no events are written"));
}

#[test]
fn threads_that_end_leave_their_chunks_to_others_and_many_at_once_are_served_or_counted() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["threads", "2000"], ",ring=64M");
    let trace = scene.trace();
    assert_eq!(trace.events.len() as u64 + trace.lost.events + trace.lost.overwritten, 8000, "{:?}", trace.lost);
    assert_eq!(trace.lost.overwritten, 0);
    let (_, all) = intervals(&trace);
    // Each interval ends on the thread that began it.
    let of_one = all.iter().filter(|one| one.done.is_some()).count() as u64;
    assert!(of_one * 2 + trace.lost.events >= 8000, "{of_one} {:?}", trace.lost);
}

#[test]
fn what_was_handed_over_is_never_before_its_hand_over() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["handover", "1000000"], ",grow=1G");
    let trace = scene.trace();
    let (_, all) = intervals(&trace);
    assert_eq!(all.len(), 1_000_000);
    let wrong = all.iter().filter(|one| one.wait.is_none() || one.exec.is_none() || one.exec < one.wait).count();
    assert_eq!(wrong, 0);
}

#[test]
fn children_and_programs_that_follow_have_files_of_their_own() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["fork"], "");
    let traces = scene.traces();
    let mut seen: Vec<_> = traces.iter().map(|trace| names(trace).into_iter().collect::<Vec<_>>()).collect();
    seen.sort();
    assert_eq!(seen, [vec![("test::child", 1)], vec![("test::child", 1)], vec![("test::parent", 2)]]);
    let again = Scene::new().unwrap();
    again.run(&["exec"], "");
    let names: Vec<_> = again.traces().iter().map(|trace| trace.events.len()).collect();
    assert_eq!(names.iter().sum::<usize>(), 8, "before, and after under the same number");
    assert_eq!(names.len(), 2);
}

#[test]
fn events_of_signals_in_the_middle_of_others_are_written_or_counted() {
    let Some(scene) = Scene::new() else { return };
    scene.run(&["signals", "20000000"], ",ring=1M");
    let trace = scene.trace();
    let in_file = trace.events.len() as u64;
    let sum = in_file + trace.lost.overwritten + trace.lost.events;
    assert!(sum > 20_000_000 && (sum - 20_000_000).is_multiple_of(3), "three for each signal: {sum} {:?}", trace.lost);
}

#[test]
fn a_file_that_is_cut_or_deleted_stops_nothing() {
    let Some(scene) = Scene::new() else { return };
    type Harm = fn(&Path);
    let harms: [Harm; 4] = [
        |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap(),
        |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(5000).unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
        |path| std::fs::write(path, "something else").unwrap(),
    ];
    for options in [",ring=1M", ",grow=64M"] {
        for harm in harms {
            let mut child =
                scene.command(&["cut", "50000"], options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut out = child.stdout.take().unwrap();
            let mut line = [0; 8];
            out.read_exact(&mut line).unwrap();
            let path = scene.events().join(format!("{}.events", child.id()));
            harm(&path);
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            let status = child.wait().unwrap();
            assert_eq!((rest.as_str(), status.code(), status.signal()), ("the end\n", Some(0), None), "{options}");
            let _ = std::fs::remove_file(path);
        }
    }
}

#[test]
fn a_limit_on_file_sizes_costs_events_and_nothing_else() {
    let Some(scene) = Scene::new() else { return };
    for (options, most) in [(",ring=16M", 1 << 20), (",grow=64M", 4 << 20)] {
        let mut command = scene.command(&["mark", "500000"], options);
        // SAFETY: setrlimit is a plain system call.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
                Ok(())
            });
        }
        let output = command.output().unwrap();
        assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()), ("the end\n", Some(0)));
    }
    // The one that could begin is a ring of what it has.
    let trace = scene.trace();
    assert_eq!(trace.events.len() as u64 + trace.lost.overwritten + trace.lost.events, 500_000);
    assert!(trace.events.len() > 100_000, "{:?}", trace.lost);
}

/// Eight megabytes in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mounted(at: PathBuf) -> Self {
        std::fs::create_dir(&at).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=8M", "tmpfs"];
        assert!(Command::new("mount").args(mount).arg(&at).status().unwrap().success());
        Self(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_events_and_nothing_else() {
    if !testing::root_or_skip() {
        return;
    }
    let Some(scene) = Scene::new() else { return };
    let disk = SmallDisk::mounted(scene.home.path().join("disk"));
    for options in [",ring=16M", ",grow=64M"] {
        let mut command = Command::new(&scene.program);
        command.args(["mark", "1000000"]).env("THAW_EVENTS", format!("{}{options}", disk.0.display()));
        let output = command.output().unwrap();
        assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()), ("the end\n", Some(0)));
    }
}

#[test]
fn a_second_copy_in_a_library_that_comes_and_goes_has_files_of_its_own() {
    let Some(scene) = Scene::new() else { return };
    let home = scene.home.path();
    let Some(program) = build(home, "loads.c", &["cc", "-std=c11"]) else { return };
    let Some(library) = build(home, "late.c", &["cc", "-std=c11", "-fPIC", "-shared"]) else { return };
    let output = Command::new(program).arg(library).env("THAW_EVENTS", scene.events()).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()), ("the end\n", Some(0)));
    let mut seen: Vec<_> = scene.traces().iter().map(|trace| trace.events.len()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 1, 1, 2]);
}
