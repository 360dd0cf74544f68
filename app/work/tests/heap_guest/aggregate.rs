//! `--aggregate`: the same sums as of a whole recording, on a disk that stays small.

use super::{Bench, Plan, Recorded, words};
use heap::modes::{Figures, Split, Window};
use heap::named::{Cut, Filter, Named, Wrappers};
use heap::slop;
use heapfile::event::{Process, Stopped};
use heapfile::reader::Reader;
use heaprec::record::{Keep, LeakCheck, Phase};
use model::{Bytes, Exit, Nanos};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use work::heaps::conclude::{Streams, conclude};

fn summed(bench: &Bench, command: &[OsString]) -> Plan {
    Plan { keep: Keep::Sums { ahead: Keep::AHEAD }, output: bench.path("sums.heap"), ..bench.plan(command.to_vec()) }
}

/// Figures of sites by the names of their functions; without times.
fn rows(reader: &Reader) -> BTreeMap<Vec<String>, Figures> {
    let named = Named::read(reader, Window::default(), Split::Stack, &Filter::default()).unwrap();
    let mut rows: BTreeMap<Vec<String>, Figures> = BTreeMap::new();
    for row in named.rows(heap::modes::Measure::Made, Cut { frames: 8, wrappers: Wrappers::Kept }, 0) {
        let mut figures = row.figures;
        figures.lifetime_ns = Nanos(0);
        figures.max = Default::default();
        rows.entry(row.frames.iter().map(|frame| frame.label()).collect()).or_default().add(&figures);
    }
    rows
}

fn is_clean(directory: &Path) {
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        assert_ne!(path.extension(), Some("stream".as_ref()), "{}", path.display());
    }
}

/// Samples that are added up: estimates with their errors, on a disk that stays small.
#[test]
fn samples_are_added_up() {
    let Some(bench) = Bench::new() else { return };
    let command = words(&bench.compile("sampled", &[]), []);
    let all = bench.record(&command);
    let (allocated, leaked) = (all.only().allocated_bytes.0 as f64, all.only().leaked_bytes.0 as f64);
    for seed in 1..=3 {
        let sample = Some(heaprec::record::Sample { bytes: 20_000, seed: Some(seed) });
        let sums = Recorded::of(&Plan { sample, ..summed(&bench, &command) });
        is_clean(sums.reader.directory());
        let process = sums.only();
        assert_eq!((process.sample_bytes, process.inconsistencies, process.lost), (Bytes(20_000), 0, 0));
        let far = |found: Bytes, error: Option<Bytes>, sum: f64| (found.0 as f64 - sum).abs() / error.unwrap().0 as f64;
        let of_all = far(process.allocated_bytes, process.allocated_error_bytes, allocated);
        let of_leaks = far(process.leaked_bytes, process.leaked_error_bytes, leaked);
        assert!(of_all < 5.0 && of_leaks < 5.0, "{of_all} {of_leaks}: {process:#?}");
        assert!(process.allocated_error_bytes.unwrap().0 > 0, "{process:#?}");
    }
}

#[test]
fn sums_are_those_of_all_events() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    for threads in ["1", "4"] {
        let command = words(&program, [threads, "30000"]);
        let whole = bench.record(&command);
        let sums = Recorded::of(&summed(&bench, &command));
        whole.is_consistent();
        sums.is_consistent();
        is_clean(sums.reader.directory());
        let (a, b) = (whole.only(), sums.only());
        assert_eq!(
            (a.allocations, a.frees, a.reallocs, a.allocated_bytes, a.threads, a.leaked_blocks, a.leaked_bytes),
            (b.allocations, b.frees, b.reallocs, b.allocated_bytes, b.threads, b.leaked_blocks, b.leaked_bytes)
        );
        assert_eq!(a.leaks.iter().map(|leak| (leak.blocks, leak.bytes)).collect::<Vec<_>>(), {
            b.leaks.iter().map(|leak| (leak.blocks, leak.bytes)).collect::<Vec<_>>()
        });
        let (mut a, mut b) = (rows(&whole.reader), rows(&sums.reader));
        assert!(a.values().any(|figures| figures.temporary.blocks >= 30_000), "{a:#?}");
        if threads != "1" {
            // Which blocks are live at the peak is up to the order of threads.
            a.values_mut().chain(b.values_mut()).for_each(|figures| figures.peak = Default::default());
        }
        assert_eq!(a, b);
        let options = slop::Options { model: None, frames: 4, top: 1000 };
        let slop =
            [&whole, &sums].map(|recorded| slop::report(&recorded.reader, &options).unwrap().processes.remove(0));
        assert_eq!(slop[0].requested_bytes, slop[1].requested_bytes);
        assert_eq!(slop[0].recorded.map(|slop| slop.slop_bytes), slop[1].recorded.map(|slop| slop.slop_bytes));
    }
}

#[test]
fn what_needs_events_says_so() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    let sums = Recorded::of(&summed(&bench, &words(&program, ["1", "10"])));
    let process = &sums.reader.processes()[0];
    let until = Window { until_ns: Some(Nanos(5)), ..Window::default() };
    let errors = [
        sums.reader.events(process.id).unwrap_err(),
        heap::modes::analyze(&sums.reader, process, until, Split::Stack).unwrap_err(),
        heap::modes::analyze(&sums.reader, process, Window::default(), Split::Thread).unwrap_err(),
        heap::growth::report(&sums.reader, &heap::growth::Options { frames: 4, top: 3 }).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.exit, Exit::Usage);
        assert_eq!(error.hint.as_deref(), Some("record it without --aggregate"));
    }
    conclude(&sums.reader, Streams::Stay, &mut |_| {}).unwrap();
}

#[test]
fn a_damaged_file_of_sums_is_an_error() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    let sums = Recorded::of(&summed(&bench, &words(&program, ["1", "10"])));
    let file = &sums.reader.processes()[0].file;
    let bytes = std::fs::read(file).unwrap();
    for at in [9, 14, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut broken = bytes.clone();
        broken[at] ^= 0x55;
        std::fs::write(file, &broken).unwrap();
        let read = Reader::open(sums.reader.directory()).and_then(|reader| heap::report::report(&reader));
        assert_eq!(read.unwrap_err().exit, Exit::Data, "byte {at}");
    }
}

#[test]
fn the_disk_stays_small() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    // Slow enough for a reader that was not optimized.
    let plan = summed(&bench, &words(&program, ["2", "32000", "700"]));
    let (done, most, longest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let files = plan.output.read_dir().into_iter().flatten().flatten();
                let metas: Vec<_> =
                    files.filter_map(|entry| entry.metadata().ok()).filter(|meta| meta.is_file()).collect();
                most.fetch_max(metas.iter().map(|meta| meta.blocks() * 512).sum(), Ordering::Relaxed);
                longest.fetch_max(metas.iter().map(|meta| meta.len()).sum(), Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let recorded = Recorded::of(&plan);
        done.store(true, Ordering::Relaxed);
        recorded
    });
    recorded.is_consistent();
    let (most, longest) = (most.load(Ordering::Relaxed), longest.load(Ordering::Relaxed));
    eprintln!("at most {most} bytes on the disk, of {longest} that were written");
    assert!(longest > 4 << 20, "{longest}");
    assert!(most < longest / 2, "{most} of {longest}");
}

#[test]
fn children_are_added_up_each() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("tree", &[]);
    let sums = Recorded::of(&summed(&bench, &[program]));
    sums.is_consistent();
    is_clean(sums.reader.directory());
    let processes = &sums.report.processes;
    assert_eq!(sums.leaks(2001..3000).into_keys().collect::<Vec<_>>(), Vec::from_iter(2001..=2010));
    assert_eq!(processes.iter().map(|process| process.inherited_frees).sum::<u64>(), 1);
    let forked = processes.iter().filter(|process| process.forked_from.is_some());
    assert_eq!((processes.len(), forked.count()), (10, 5));
}

#[test]
fn a_killed_program_is_added_up_to_its_end() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("corrections", &[]);
    for end in ["kill", "segv", "_exit"] {
        let sums = Recorded::of(&summed(&bench, &words(&program, [end])));
        sums.is_consistent();
        assert_eq!(sums.only().leaked_blocks, 13, "{end}");
    }
}

#[test]
fn racing_threads_give_no_inconsistency() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("race", &[]);
    let arena = ["env", "MALLOC_ARENA_MAX=1"].map(OsString::from);
    let command: Vec<OsString> = arena.into_iter().chain(words(&program, ["200000"])).collect();
    for _ in 0..3 {
        let sums = Recorded::of(&summed(&bench, &command));
        sums.is_consistent();
        let race = sums.report.processes.last().unwrap();
        assert!(race.allocations >= 800_000 && race.threads == 5, "{race:#?}");
    }
}

#[test]
fn the_last_state_is_there_while_it_runs() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    let plan = summed(&bench, &words(&program, ["1", "10", "5", "stay"]));
    // What is on the disk when the program is killed is a whole recording, whatever became of thaw.
    let recording = heaprec::record::run(&plan, "test", &mut |phase| {
        if let Phase::Running(pid) = phase {
            let (directory, pid) = (plan.output.clone(), pid as i32);
            std::thread::spawn(move || {
                while !Reader::open(&directory)
                    .is_ok_and(|reader| reader.processes().first().is_some_and(|process| process.is_summed()))
                {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                // SAFETY: a child that was just started and is not waited for before it is killed.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            });
        }
    });
    assert_eq!(recording.unwrap().signal, Some(libc::SIGKILL));
    assert_eq!(Reader::open(&plan.output).unwrap().processes().len(), 1);
}

/// Little, so that a program is far ahead soon.
const AHEAD: u64 = 1 << 20;
/// Beyond that: what a guest allocates ahead, a chunk for each of a few threads, the first page, the files of sums.
const BESIDE: u64 = 2 << 20;

/// Bytes on the disk of the files of a directory, and how long they are.
fn size_of(directory: &Path) -> (u64, u64) {
    let files = directory.read_dir().into_iter().flatten().flatten();
    let metas = files.filter_map(|entry| entry.metadata().ok()).filter(|meta| meta.is_file());
    metas.fold((0, 0), |(blocks, length), meta| (blocks + meta.blocks() * 512, length + meta.len()))
}

/// Looks until it is so.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_program_that_is_too_fast_waits() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("churn", &[]);
    let command = words(&program, ["2", "60000", "0"]);
    let plan = Plan { keep: Keep::Sums { ahead: Bytes(AHEAD) }, ..summed(&bench, &command) };
    let (done, most, longest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let sums = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (blocks, length) = size_of(&plan.output);
                most.fetch_max(blocks, Ordering::Relaxed);
                longest.fetch_max(length, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let sums = Recorded::of(&plan);
        done.store(true, Ordering::Relaxed);
        sums
    });
    sums.is_consistent();
    let (most, longest) = (most.load(Ordering::Relaxed), longest.load(Ordering::Relaxed));
    eprintln!("at most {most} bytes on the disk, of {longest} that were written");
    assert!(longest > 2 * (AHEAD + BESIDE) && most < AHEAD + BESIDE, "{most} of {longest}");
    assert!(sums.report.warnings.iter().any(|warning| warning.text.contains("waited")), "{:#?}", sums.report.warnings);
    let whole = bench.record(&command);
    let counts = |recorded: &Recorded| {
        let process = recorded.only();
        (process.allocations, process.frees, process.allocated_bytes, process.leaked_blocks, process.leaked_bytes)
    };
    assert_eq!(counts(&whole), counts(&sums));
    assert!(!plan.output.join("recorder").exists());
}

/// Not a test of its own: a thaw that another test stops or kills.
#[test]
#[ignore = "started by other tests"]
fn a_thaw_of_its_own() {
    let [command, output, agent] =
        ["COMMAND", "OUTPUT", "AGENT"].map(|name| std::env::var_os(format!("TEST_{name}")).unwrap());
    os::spawn::become_subreaper().unwrap();
    let plan = Plan {
        command: ["sh".into(), "-c".into(), command].into(),
        output: output.into(),
        existing: heaprec::record::Existing::Keep,
        depth: 64,
        frees: heaprec::record::FreeStacks::Without,
        functions: heaprec::record::Functions::Interpreted,
        sample: None,
        keep: Keep::Sums { ahead: Bytes(AHEAD) },
        states: None,
        leaks: LeakCheck::Without,
        stdout: heaprec::record::Output::Stdout,
        agent: agent.into(),
        user: None,
    };
    heaprec::record::run(&plan, "test", &mut |_| {}).unwrap();
}

/// Starts a thaw that records a shell command, and waits until the program has written more than it may be ahead, and a
/// part of what it wrote is in sums only.
fn thaw_of_its_own(bench: &Bench, (command, code): (&str, &Path), output: &Path) -> Child {
    let thaw = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "aggregate::a_thaw_of_its_own"])
        .env("TEST_COMMAND", command)
        .env("TEST_OUTPUT", output)
        .env("TEST_AGENT", bench.agent)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| {
        // A hole alone does not say it: a thread that has its first chunk and wrote nothing yet leaves one too.
        let is_freed = |process: &Process| {
            process.exe.ends_with("churn")
                && process.is_summed()
                && heapfile::stream::is_whole(&process.file.with_extension("stream")).is_ok_and(|whole| !whole)
        };
        let freed = Reader::open(output).is_ok_and(|reader| reader.processes().iter().any(is_freed));
        code.exists() || (freed && size_of(output).1 > 2 * AHEAD)
    });
    assert!(!code.exists(), "the program has ended too soon");
    thaw
}

fn signal(process: &Child, signal: i32) {
    // SAFETY: a child that is not waited for yet.
    assert_eq!(unsafe { libc::kill(process.id() as i32, signal) }, 0);
}

/// A command that leaves the program's exit code in a file.
fn long_churn(bench: &Bench) -> (String, PathBuf) {
    let (program, code) = (bench.compile("churn", &[]), bench.path("code"));
    (
        format!(
            "{} 2 300000 0; echo $? > {}.new; mv {}.new {}",
            program.display(),
            code.display(),
            code.display(),
            code.display()
        ),
        code,
    )
}

#[test]
fn a_killed_thaw_leaves_a_program_that_ends_and_a_recording_that_says_so() {
    let Some(bench) = Bench::new() else { return };
    let ((command, code), output) = (long_churn(&bench), bench.path("killed.heap"));
    let mut thaw = thaw_of_its_own(&bench, (&command, &code), &output);
    signal(&thaw, libc::SIGKILL);
    thaw.wait().unwrap();
    until(|| code.exists());
    assert_eq!(std::fs::read_to_string(&code).unwrap(), "0\n");
    until(|| {
        os::spawn::reap_all();
        os::process::descendants(std::process::id()).is_empty()
    });
    let (most, longest) = size_of(&output);
    eprintln!("{most} bytes on the disk, of {longest}");
    assert!(most < AHEAD + 2 * BESIDE, "{most} of {longest}");
    let reader = Reader::open(&output).unwrap();
    let churn = reader.processes().iter().find(|process| process.exe.ends_with("churn")).unwrap();
    assert_eq!(churn.stopped, Some(Stopped::Left));
    assert!(churn.lost > 1000 && churn.is_summed(), "{churn:#?}");
    let report = heap::report::report(&reader).unwrap();
    for said in ["its thaw was killed", "lost", "bytes of events were not"] {
        assert!(report.warnings.iter().any(|warning| warning.text.contains(said)), "{said}: {:#?}", report.warnings);
    }
    // What is in the stream cannot be added any more: the sums say so, and have what it said.
    let blocks = |report: &heap::report::Report| {
        let churn = report.processes.iter().find(|process| process.exe.ends_with("churn"));
        churn.map(|churn| churn.allocations)
    };
    let done = heaprec::finish::finish(&output, &mut |_| {}).unwrap();
    assert!(done.sums > 0 && done.cut > 0 && done.left_out > 0, "{done:?}");
    let is_stream = |path: &Path| path.extension().is_some_and(|extension| extension == "stream");
    assert!(!output.read_dir().unwrap().any(|entry| is_stream(&entry.unwrap().path())));
    for _ in 0..2 {
        let finished = heap::report::report(&Reader::open(&output).unwrap()).unwrap();
        assert_eq!(blocks(&finished), blocks(&report));
        for said in ["its thaw was killed", "lost", "bytes of events were not before its thaw was killed"] {
            assert!(finished.warnings.iter().any(|it| it.text.contains(said)), "{said}: {:#?}", finished.warnings);
        }
        let again = heaprec::finish::finish(&output, &mut |_| {}).unwrap();
        assert_eq!((again.sums, again.cut, again.left_out, again.streams), (done.sums, done.cut, 0, 0));
    }
}

#[test]
fn a_stopped_thaw_holds_no_program_for_ever() {
    let Some(bench) = Bench::new() else { return };
    let ((command, code), output) = (long_churn(&bench), bench.path("stopped.heap"));
    let mut thaw = thaw_of_its_own(&bench, (&command, &code), &output);
    signal(&thaw, libc::SIGSTOP);
    until(|| code.exists());
    assert_eq!(std::fs::read_to_string(&code).unwrap(), "0\n");
    let (most, longest) = size_of(&output);
    eprintln!("{most} bytes on the disk, of {longest}");
    assert!(most < AHEAD + 2 * BESIDE, "{most} of {longest}");
    signal(&thaw, libc::SIGCONT);
    assert!(thaw.wait().unwrap().success());
    is_clean(&output);
    let reader = Reader::open(&output).unwrap();
    let churn = reader.processes().iter().find(|process| process.exe.ends_with("churn")).unwrap();
    assert_eq!(churn.stopped, Some(Stopped::Behind));
    assert!(churn.lost > 1000, "{churn:#?}");
    let report = heap::report::report(&reader).unwrap();
    assert!(report.warnings.iter().any(|warning| warning.text.contains("stood still")), "{:#?}", report.warnings);
}

/// A process that is recorded, is not for a while, and is again: the second time it has a stream of its own.
#[test]
fn a_process_that_is_recorded_again_after_a_while_is_added_up_too() {
    let Some(bench) = Bench::new() else { return };
    let (rests, churn) = (bench.compile("rests", &["-static"]), bench.compile("churn", &[]));
    let script = format!("exec {} {} 1 1000", rests.display(), churn.display());
    let summed = Recorded::of(&summed(&bench, &["sh".into(), "-c".into(), script.into()]));
    is_clean(summed.reader.directory());
    let processes = summed.reader.processes();
    let exes: Vec<_> = processes.iter().map(|process| process.exe.file_name().unwrap().to_owned()).collect();
    assert_eq!(exes.last().unwrap(), "churn", "{exes:?}");
    assert_eq!(processes[0].pid, processes.last().unwrap().pid);
    let report = &summed.report.processes;
    assert!(report.last().unwrap().allocations > 1000 && report.last().unwrap().lost == 0, "{report:#?}");
}
