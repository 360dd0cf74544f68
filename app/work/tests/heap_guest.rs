//! The guest in real programs: what it must see, what it must survive, and that its stacks are those that a debugger
//! sees.

#[path = "heap_guest/aggregate.rs"]
mod aggregate;
#[path = "heap_guest/allocators.rs"]
mod allocators;
#[path = "heap_guest/finish.rs"]
mod finish;
#[path = "heap_guest/names.rs"]
mod names;
#[path = "heap_guest/programs.rs"]
mod programs;
#[path = "heap_guest/unseen.rs"]
mod unseen;
#[path = "heap_guest/users.rs"]
mod users;

use heap::report::{ProcessReport, Report};
use heapfile::event::{Freer, Stopped, What};
use heapfile::ledger::Ledger;
use heapfile::reader::Reader;
use heapfile::stack::End;
use heaprec::record::{self, Existing, FreeStacks, Functions, Keep, LeakCheck, Output, Plan, Recording, Sample};
use model::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::TempDir;
use work::heaps::conclude::{Early, Streams, conclude};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The guest, built once; `None` (counted as skipped) on other machines.
fn agent() -> Option<&'static Path> {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    if !cfg!(target_arch = "x86_64") {
        testing::skip("the guest of thaw heap is for x86-64");
        return None;
    }
    Some(AGENT.get_or_init(|| {
        let output = Command::new(root().join("dev/agent")).env("CARGO", env!("CARGO")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        target.join("agent").join(record::AGENT)
    }))
}

/// Recording waits for all descendants of this process, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for compiled fixtures and recordings.
struct Bench {
    folder: TempDir,
    agent: &'static Path,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            testing::skip("needs a C compiler");
            return None;
        }
        let agent = agent()?;
        os::spawn::become_subreaper().unwrap();
        Some(Self { folder: tempfile::tempdir().unwrap(), agent, _alone: alone() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a fixture as it is written, without the compiler's knowledge of malloc.
    fn compile(&self, name: &str, flags: &[&str]) -> OsString {
        let program = self.path(name);
        let output = Command::new("cc")
            .args(["-O2", "-g", "-w", "-fno-builtin", "-o"])
            .arg(&program)
            .arg(root().join(format!("fixtures/heap/{name}.c")))
            .args(flags)
            .args(["-lpthread", "-ldl"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program.into()
    }

    fn plan(&self, command: Vec<OsString>) -> Plan {
        Plan {
            command,
            output: self.path("out.heap"),
            existing: Existing::Replace,
            depth: 64,
            frees: FreeStacks::Without,
            functions: Functions::Interpreted,
            sample: None,
            states: None,
            leaks: LeakCheck::Without,
            keep: Keep::Events,
            stdout: Output::Stdout,
            agent: self.agent.to_owned(),
            user: None,
        }
    }

    fn record(&self, command: &[OsString]) -> Recorded {
        Recorded::of(&self.plan(command.to_vec()))
    }
}

struct Recorded {
    recording: Recording,
    reader: Reader,
    report: Report,
}

impl Recorded {
    fn of(plan: &Plan) -> Self {
        let recording = record::run(plan, "test", &mut |_| {}).unwrap();
        let reader = Reader::open(&plan.output).unwrap();
        let report = heap::report::report(&reader).unwrap();
        Self { recording, reader, report }
    }

    #[track_caller]
    fn only(&self) -> &ProcessReport {
        assert_eq!(self.report.processes.len(), 1, "{:#?}", self.report);
        &self.report.processes[0]
    }

    /// Sizes of leaked blocks and how many, of all processes, in a range.
    fn leaks(&self, range: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
        self.leaks_of("", range)
    }

    /// Those whose stacks lead through an object of this name. A library's own blocks may be many at one place, and of
    /// a mean size that a program's block has too.
    fn leaks_of(&self, object: &str, range: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        let is_of = |leak: &&heap::report::Leak| {
            let mut modules = leak.stack.iter().filter_map(|frame| frame.module.as_deref());
            object.is_empty() || modules.any(|module| module.ends_with(object))
        };
        for leak in self.report.processes.iter().flat_map(|process| &process.leaks).filter(is_of) {
            let size = leak.bytes.0 / leak.blocks;
            if range.contains(&size) {
                *sizes.entry(size).or_default() += leak.blocks;
            }
        }
        sizes
    }

    #[track_caller]
    fn is_consistent(&self) {
        for process in &self.report.processes {
            assert_eq!((process.inconsistencies, process.lost), (0, 0), "{process:#?}");
        }
    }
}

fn words<const N: usize>(program: &OsString, more: [&str; N]) -> Vec<OsString> {
    std::iter::once(program.clone()).chain(more.map(OsString::from)).collect()
}

#[test]
fn every_function_is_seen_and_the_leaks_are_exact_however_the_process_ends() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("corrections", &[]);
    let once = [0, 20, 1003, 1004, 1005, 1006, 1008, 1009, 1011, 1012, 1024].map(|size| (size, 1));
    let expected: BTreeMap<u64, u64> = once.into_iter().chain([(1001, 2)]).collect();
    for (end, code, signal) in [
        ("exit", Some(0), None),
        ("return", Some(0), None),
        ("_exit", Some(0), None),
        ("kill", None, Some(libc::SIGKILL)),
        ("segv", None, Some(libc::SIGSEGV)),
        ("abort", None, Some(libc::SIGABRT)),
    ] {
        let recorded = bench.record(&words(&program, [end]));
        recorded.is_consistent();
        assert_eq!((recorded.recording.code, recorded.recording.signal), (code, signal), "{end}");
        assert_eq!(recorded.leaks(0..2000), expected, "{end}");
        assert_eq!(recorded.only().leaked_blocks, 13, "{end}");
    }
}

#[test]
fn racing_reallocs_give_no_inconsistency() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("race", &[]);
    // One arena for all threads: blocks go from hand to hand at once.
    let arena = ["env", "MALLOC_ARENA_MAX=1"].map(OsString::from);
    let command: Vec<OsString> = arena.into_iter().chain(words(&program, ["20000"])).collect();
    for _ in 0..20 {
        let recorded = bench.record(&command);
        recorded.is_consistent();
        let race = recorded.report.processes.last().unwrap();
        assert!(race.allocations >= 80_000 && race.threads == 5, "{race:#?}");
        let moved =
            race.leaks.iter().filter(|leak| leak.stack[0].module.as_deref().is_some_and(|name| name.ends_with("race")));
        assert_eq!(moved.count(), 0, "all blocks of the program were freed: {race:#?}");
    }
}

#[test]
fn a_block_that_another_thread_frees_at_once_is_freed_after_it_was_made() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("handed", &[]);
    let recorded = bench.record(&words(&program, ["300000"]));
    recorded.is_consistent();
    assert!(recorded.only().allocations >= 300_000);
}

#[test]
fn every_process_of_a_tree_has_its_stream() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("tree", &[]);
    let recorded = bench.record(&[program]);
    recorded.is_consistent();
    let sizes: BTreeSet<u64> = recorded.leaks(2001..3000).into_keys().collect();
    assert_eq!(sizes, (2001..=2010).collect());
    let processes = &recorded.report.processes;
    assert_eq!(processes.iter().map(|process| process.inherited_frees).sum::<u64>(), 1, "the block that a child freed");
    let forked: Vec<_> = processes.iter().filter(|process| process.origin == "fork").collect();
    assert_eq!((processes.len(), forked.len()), (10, 5));
    assert!(forked.iter().all(|process| process.forked_from.is_some()));
    assert!(recorded.recording.finished);
}

#[test]
fn hard_places_are_survived_and_recorded() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("hard", &[]);
    let cases =
        [("small", 3001, 8), ("threads", 3001, 2000), ("deep", 3002, 1), ("signals", 3003, 1), ("jumps", 3004, 1)];
    for (what, size, blocks) in cases.into_iter().chain([("close", 3005, 1)]) {
        let recorded = bench.record(&words(&program, [what]));
        assert_eq!(recorded.recording.code, Some(0), "{what}: {:#?}", recorded.recording);
        recorded.is_consistent();
        assert_eq!(recorded.leaks(3001..4000), [(size, blocks)].into(), "{what}");
    }
}

#[test]
fn a_cut_stack_has_its_innermost_frames() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("hard", &[]);
    let recorded = bench.record(&words(&program, ["deep"]));
    let process = recorded.only();
    assert!(process.cut_stacks >= 99, "{process:#?}");
    let leak = process.leaks.iter().find(|leak| leak.bytes.0 == 3002).unwrap();
    assert!((64..=128).contains(&leak.stack.len()), "{}", leak.stack.len());
    let places: BTreeSet<u64> = leak.stack.iter().map(|frame| frame.address).collect();
    assert!(places.len() <= 4, "one function calls itself: {:#?}", leak.stack);
    let warnings = &recorded.report.warnings;
    assert!(warnings.iter().any(|warning| warning.text.contains("lack their outer frames")), "{warnings:#?}");
}

#[test]
fn a_library_that_is_bound_past_us_is_recorded() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("late", &[]);
    let plugin = bench.compile("plugin", &["-shared", "-fPIC"]);
    let recorded = bench.record(&[program, plugin]);
    recorded.is_consistent();
    assert_eq!(recorded.leaks(4001..4010), [(4001, 1), (4002, 1), (4003, 1)].into());
    assert!(recorded.only().tiers.contains(&"got"));
}

#[test]
fn an_allocator_inside_of_the_program_is_hooked() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("own", &["-rdynamic"]);
    let recorded = bench.record(&[program]);
    recorded.is_consistent();
    let process = recorded.only();
    assert!(process.tiers.contains(&"detour"), "{:#?}", recorded.report);
    // Five of 6000 to 6008, of one stack: their mean.
    assert_eq!(recorded.leaks(5000..8000), [(6004, 5), (7000, 1)].into());
    assert_eq!((process.allocations, process.reallocs), (21, 10));
}

/// What [`inner.c`](../../../fixtures/heap/inner.c) leaves behind.
#[track_caller]
fn has_inner_leaks(recorded: &Recorded, hooked: &[&str]) {
    recorded.is_consistent();
    let process = recorded.only();
    assert_eq!(recorded.recording.code, Some(0));
    assert!(process.tiers.contains(&"detour"), "{:#?}", recorded.report);
    for name in hooked {
        assert!(process.inside.iter().any(|inside| inside == name), "{name} is not in {:?}", process.inside);
    }
    assert_eq!(recorded.leaks(5000..10_000), [(6001, 5), (7002, 1), (8003, 1), (9004, 1)].into());
    // C++ libraries make and free blocks of their own.
    assert!(process.allocations - process.leaked_blocks >= 121, "{process:#?}");
    assert_eq!(process.reallocs, 31);
}

#[test]
fn allocators_under_other_names_are_hooked() {
    let Some(bench) = Bench::new() else { return };
    for (prefix, usable) in
        [("_rjem_", "malloc_usable_size"), ("je_", ""), ("mi_", "usable_size"), ("tc_", "malloc_size")]
    {
        // Position-independent and not, exported and not.
        for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-rdynamic", "-s"]] {
            let (name, usable) = (format!("-DPREFIX={prefix}"), format!("-DUSABLE={usable}"));
            let own = ["-DBRING", &name];
            let usable = if usable.ends_with('=') { &[][..] } else { &[usable.as_str()] };
            let program = bench.compile("inner", &[&own[..], usable, flags].concat());
            let recorded = bench.record(&[program]);
            let functions =
                ["malloc", "free", "calloc", "realloc", "posix_memalign"].map(|name| format!("{prefix}{name}"));
            has_inner_leaks(&recorded, &functions.each_ref().map(String::as_str));
            let process = &recorded.reader.processes()[0];
            let (mut events, mut seen) = (recorded.reader.events(process.id).unwrap(), 0);
            while let Some(event) = events.next().unwrap() {
                if let What::Alloc { size: size @ (6001 | 7002 | 8003), usable: told, .. } = event.what {
                    assert_eq!(told, (!usable.is_empty()).then(|| Bytes(size.next_multiple_of(32))));
                    seen += 1;
                }
            }
            assert_eq!(seen, 7);
        }
    }
}

/// A static library of Debian's, its names with another prefix.
fn renamed(bench: &Bench, library: &str, prefix: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
    let renamed = bench.path(library);
    let mut objcopy = Command::new("objcopy");
    for name in ["malloc", "free", "calloc", "realloc", "posix_memalign", "memalign", "aligned_alloc", "valloc"] {
        objcopy.arg("--redefine-sym").arg(format!("{name}={prefix}{name}"));
    }
    for name in ["malloc_usable_size", "mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx", "mallctl"] {
        objcopy.arg("--redefine-sym").arg(format!("{name}={prefix}{name}"));
    }
    let done = path.exists() && objcopy.arg(path).arg(&renamed).status().is_ok_and(|status| status.success());
    done.then_some(renamed)
}

#[test]
fn a_static_jemalloc_is_hooked() {
    let Some(bench) = Bench::new() else { return };
    for prefix in ["_rjem_", "je_"] {
        let Some(library) = renamed(&bench, "libjemalloc.a", prefix) else {
            return testing::skip("needs libjemalloc-dev and objcopy");
        };
        let name = format!("-DPREFIX={prefix}");
        let program = bench.compile("inner", &[&name, library.to_str().unwrap(), "-lm", "-lstdc++"]);
        let recorded = bench.record(&[program]);
        has_inner_leaks(&recorded, &[&format!("{prefix}malloc"), &format!("{prefix}free")]);
    }
}

#[test]
fn a_static_tcmalloc_is_hooked() {
    let Some(bench) = Bench::new() else { return };
    if !Path::new("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a").exists() {
        return testing::skip("needs libgoogle-perftools-dev");
    }
    let program = bench.compile("inner", &["-DPREFIX=tc_", "-l:libtcmalloc_minimal.a", "-lstdc++", "-lm"]);
    // It is the program's malloc too, so the names of both may be of the same functions.
    has_inner_leaks(&bench.record(&[program]), &[]);
}

#[test]
fn what_the_allocator_gave_is_told() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("usable", &[]);
    let mut allocators = vec![None];
    for name in ["libjemalloc.so.2", "libmimalloc.so.2", "libmimalloc.so.2.0", "libtcmalloc_minimal.so.4"] {
        let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        allocators.extend(path.exists().then_some(Some(path)));
    }
    for allocator in allocators {
        let list = bench.path("list");
        let mut command: Vec<OsString> = Vec::new();
        if let Some(allocator) = &allocator {
            let preload = format!("LD_PRELOAD={}:{}", bench.agent.display(), allocator.display());
            command.extend(["env".into(), preload.into()]);
        }
        command.extend([program.clone(), list.clone().into()]);
        let recorded = bench.record(&command);
        recorded.is_consistent();
        let process = recorded.reader.processes().last().unwrap();
        let (mut events, mut ledger) = (recorded.reader.events(process.id).unwrap(), Ledger::new(process.origin));
        while let Some(event) = events.next().unwrap() {
            ledger.enter(&event);
        }
        let live: BTreeMap<u64, Option<Bytes>> = ledger.live().map(|(ptr, block)| (ptr.0, block.usable)).collect();
        let text = std::fs::read_to_string(&list).unwrap();
        let mut lines = 0;
        for line in text.lines() {
            let (address, usable) = line.split_once(' ').unwrap();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            assert_eq!(live.get(&address), Some(&Some(Bytes(usable.parse().unwrap()))), "{allocator:?}: {line}");
            lines += 1;
        }
        assert!(lines > 4000, "{lines}");
    }
}

#[test]
fn samples_give_the_sums_on_average() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("sampled", &[]);
    let small: u64 = 4 * (0..40_000).map(|index| 8 + index % 800).sum::<u64>();
    let kept: u64 = 4 * (0..40_000).filter(|index| index % 50 == 0).map(|index| 8 + index % 800).sum::<u64>();
    let (allocated, leaked) = (small + 40 * 1_000_000 + 2_500_000, kept + 20 * 1_000_000);
    let mut sum_of_z = 0.0;
    const SEEDS: u64 = 8;
    for seed in 1..=SEEDS {
        let sample = Some(Sample { bytes: 20_000, seed: Some(seed) });
        let recorded = Recorded::of(&Plan { sample, ..bench.plan(words(&program, [])) });
        recorded.is_consistent();
        let process = recorded.only();
        assert_eq!(process.sample_bytes, Bytes(20_000));
        assert!(recorded.report.warnings.iter().any(|warning| warning.text.contains("samples")));
        let z = |found: Bytes, error: Option<Bytes>, sum: u64| (found.0 as f64 - sum as f64) / error.unwrap().0 as f64;
        // The C library's own blocks are not in the sums: a few KB.
        let of_all = z(process.allocated_bytes, process.allocated_error_bytes, allocated);
        let of_leaks = z(process.leaked_bytes, process.leaked_error_bytes, leaked);
        assert!(of_all.abs() < 5.0 && of_leaks.abs() < 5.0, "{of_all} {of_leaks}: {process:#?}");
        sum_of_z += of_all;
        assert!(process.allocated_error_bytes.unwrap().0 < allocated / 20, "the error is small: {process:#?}");
        // Every leak is one: small ones are kept by all threads, large ones are seen each (all but certainly).
        let sizes = recorded.leaks(900_000..1_100_000);
        assert_eq!(sizes, [(1_000_000, 20)].into());
        assert_eq!(recorded.leaks(400_000..600_000), [].into(), "a failed realloc, then one that moved");
        let (mut events, mut count) = (recorded.reader.events(recorded.reader.processes()[0].id).unwrap(), 0);
        while events.next().unwrap().is_some() {
            count += 1;
        }
        assert!((1000..20_000).contains(&count), "{count} events of 320,000 are recorded");
    }
    // Independent estimates: their mean is nearer to the truth.
    assert!((sum_of_z / SEEDS as f64).abs() < 5.0 / (SEEDS as f64).sqrt(), "{sum_of_z}");
}

#[test]
fn a_pool_that_tells_is_recorded_apart() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("pool", &["-I", root().join("inject/heap-agent/include").to_str().unwrap()]);
    let alone = Command::new(&program).status().unwrap();
    assert!(alone.success(), "without the guest the calls do nothing");
    let recorded = bench.record(&[program]);
    recorded.is_consistent();
    assert!(recorded.only().tiers.contains(&"pool"));
    assert_eq!(recorded.leaks(5000..6000), [(5120, 1)].into(), "the slab alone");
    let process = &recorded.reader.processes()[0];
    let (mut events, mut ledger) = (recorded.reader.events(process.id).unwrap(), Ledger::new(process.origin));
    while let Some(event) = events.next().unwrap() {
        ledger.enter(&event);
    }
    let mut sizes: Vec<u64> = ledger.pooled().map(|(_, block)| block.size).collect();
    sizes.sort_unstable();
    assert_eq!((sizes, ledger.totals().pool_allocations), (vec![500, 502, 504, 506, 508], 10));
}

#[test]
fn a_static_program_is_no_empty_profile() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.path("static");
    let source = root().join("fixtures/heap/corrections.c");
    let built = Command::new("cc").args(["-w", "-static", "-o"]).arg(&program).arg(source).status().unwrap();
    if !built.success() {
        return testing::skip("needs a static C library");
    }
    let recorded = bench.record(&[program.into()]);
    assert!(recorded.report.processes.is_empty());
    let said = recorded.report.warnings.iter().any(|warning| warning.text.contains("statically linked"));
    assert!(said, "{:#?}", recorded.report.warnings);
}

#[test]
fn another_c_library_is_no_empty_profile() {
    let Some(bench) = Bench::new() else { return };
    let build = |name: &str, flags: &[&str]| {
        let (program, source) = (bench.path(name), root().join("fixtures/heap/race.c"));
        let built = Command::new("musl-gcc").args(["-w", "-O1", "-o"]).arg(&program).arg(source).args(flags).status();
        built.is_ok_and(|status| status.success()).then_some(OsString::from(program))
    };
    let (Some(fixed), Some(shared)) = (build("fixed", &["-static"]), build("shared", &[])) else {
        return testing::skip("needs musl-gcc");
    };
    let recorded = bench.record(&words(&fixed, ["100"]));
    assert_eq!((recorded.recording.code, recorded.report.processes.len()), (Some(0), 0));
    let said = recorded.report.warnings.iter().any(|warning| warning.text.contains("statically linked"));
    assert!(said, "{:#?}", recorded.report.warnings);
    let recorded = bench.record(&words(&shared, ["2000"]));
    recorded.is_consistent();
    assert_eq!(recorded.recording.code, Some(0));
    assert!(recorded.only().allocations >= 8000, "{:#?}", recorded.report);
    // The same leaks as with glibc, but that `realloc` to nothing leaves a block, and that there is no valloc.
    let exact = bench.path("exact");
    let built = Command::new("musl-gcc")
        .args(["-w", "-fno-builtin", "-Dvalloc=malloc", "-Dpvalloc=malloc", "-o"])
        .arg(&exact)
        .arg(root().join("fixtures/heap/corrections.c"))
        .status();
    assert!(built.unwrap().success());
    let once = [20, 1003, 1004, 1005, 1006, 1008, 1009, 1011, 1012, 1024].map(|size| (size, 1));
    let expected: BTreeMap<u64, u64> = once.into_iter().chain([(0, 2), (1001, 2)]).collect();
    for end in ["exit", "kill", "segv"] {
        let recorded = bench.record(&words(&exact.clone().into(), [end]));
        recorded.is_consistent();
        assert_eq!(recorded.leaks(0..2000), expected, "{end}");
    }
}

#[test]
fn what_does_not_fit_is_said_and_the_program_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("hard", &[]);
    let script = format!("ulimit -f 2048; exec {} many 500000", program.to_string_lossy());
    let limited = bench.record(&["sh".into(), "-c".into(), script.into()]);
    assert_eq!(limited.recording.code, Some(0));
    let last = limited.reader.processes().last().unwrap();
    assert_eq!(last.stopped, Some(Stopped::SizeLimit));
    let seen = limited.report.processes.last().unwrap().allocations;
    assert!(last.lost > 100_000 && seen > 10_000, "{seen} of {last:#?}");

    let locked = bench.record(&words(&program, ["locked"]));
    assert_eq!(locked.recording.code, Some(0), "{:#?}", locked.report);
    let process = &locked.reader.processes()[0];
    assert_eq!(process.stopped, Some(Stopped::Space(libc::EPERM as u32)));
    assert!(process.lost > 0);
    assert!(locked.report.warnings.iter().any(|warning| warning.text.contains("not recorded to its end")));
}

#[test]
fn a_directory_that_cannot_be_written_leaves_the_program_alone() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("corrections", &[]);
    let file = bench.path("file");
    std::fs::write(&file, "").unwrap();
    // Nobody makes files in the first one, root neither.
    for directory in [PathBuf::from("/proc/self"), file, bench.path("nowhere")] {
        let mut command = Command::new(&program);
        command.arg("exit").env("LD_PRELOAD", bench.agent).env("THAW_HEAP", format!("dir={}", directory.display()));
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", directory.display());
    }
}

#[test]
fn a_full_disk_is_survived() {
    let Some(bench) = Bench::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let program = bench.compile("hard", &[]);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "none"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return testing::skip("needs to mount a tmpfs");
    }
    let plan = Plan { output: disk.join("out.heap"), ..bench.plan(words(&program, ["many"])) };
    let outcome = std::panic::catch_unwind(|| {
        let full = Recorded::of(&plan);
        assert_eq!(full.recording.code, Some(0));
        let process = &full.reader.processes()[0];
        assert_eq!(process.stopped, Some(Stopped::Space(libc::ENOSPC as u32)));
        assert!(process.lost > 100_000 && full.only().allocations > 10_000, "{process:#?}");
        assert!(Recording::read(&plan.output).unwrap().finished);
        // What is finished meanwhile takes room, too, and gives it back; the stream or its finished file is there.
        let mut early = Early::new();
        record::run_ahead(&plan, "test", Some(&mut early.ahead), &mut |_| {}).unwrap();
        let reader = Reader::open(&plan.output).unwrap();
        let said = heap::report::report(&reader).unwrap().processes[0].allocations;
        if let Ok(done) = conclude(&reader, Streams::Finish(early), &mut |_| {}) {
            assert_eq!(done.report.processes[0].allocations, said);
        }
        let reader = Reader::open(&plan.output).unwrap();
        let report = heap::report::report(&reader).unwrap();
        assert!(said > 10_000 && report.processes[0].allocations == said, "{report:#?}");
        let hidden = std::fs::read_dir(&plan.output).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(hidden.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn events_are_in_order_and_their_places_are_known() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("race", &[]);
    let recorded = bench.record(&words(&program, ["2000"]));
    let process = &recorded.reader.processes()[0];
    let mut events = recorded.reader.events(process.id).unwrap();
    let (mut last, mut ledger, mut allocations) = (0, Ledger::new(process.origin), 0);
    while let Some(event) = events.next().unwrap() {
        assert!(event.ticks >= last);
        last = event.ticks;
        ledger.enter(&event);
        if let (What::Alloc { .. }, Some(stack)) = (event.what, event.stack) {
            allocations += 1;
            let frames: Vec<_> = events.stacks().frames(stack).collect();
            assert!(!frames.is_empty() && frames.iter().all(|frame| frame.module.is_some()), "{frames:x?}");
        }
    }
    assert_eq!(ledger.totals().allocations, allocations);
    let modules =
        events.modules().iter().filter_map(|module| Some(module.path.file_name()?.to_string_lossy().into_owned()));
    let names: BTreeSet<String> = modules.collect();
    assert!(names.contains("race") && names.iter().any(|name| name.starts_with("libc")), "{names:?}");
}

#[test]
fn frees_have_stacks_if_asked_for() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("race", &[]);
    let plan = Plan { frees: FreeStacks::With, ..bench.plan(words(&program, ["500"])) };
    let recorded = Recorded::of(&plan);
    recorded.is_consistent();
    let process = &recorded.reader.processes()[0];
    assert!(process.free_stacks);
    let mut events = recorded.reader.events(process.id).unwrap();
    let mut frees = 0;
    while let Some(event) = events.next().unwrap() {
        if let What::Free { by: Freer::Free, .. } = event.what {
            assert!(event.stack.is_some());
            frees += 1;
        }
    }
    assert!(frees > 0);
}

/// What gdb prints at each stop: return addresses from the caller of `allocate` outwards.
const GDB: &str = r#"
import gdb
class Stop(gdb.Breakpoint):
    def stop(self):
        frame, pcs, one_more = gdb.newest_frame().older().older(), [], 0
        while frame is not None:
            # Not frames of the stack but of the debug information.
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                pcs.append('%x' % (frame.pc() + one_more))
            one_more = 1 if frame.type() == gdb.SIGTRAMP_FRAME else 0
            frame = frame.older()
        out.write(' '.join(pcs) + '\n')
        return False
gdb.execute('set pagination off')
gdb.execute('set confirm off')
gdb.execute('set backtrace past-main on')
gdb.execute('set backtrace past-entry on')
gdb.execute('handle SIGUSR1 nostop noprint pass')
Stop('stop_here')
gdb.execute('run')
out.close()
"#;

/// The head of a recording that thaw did not start.
const HEAD: &str = r#"{"schema":"thaw.heap/1","thaw_version":"test","command":[],"cwd":"",
    "created_unix_ns":0,"start_ticks":0,
    "ticks_per_second":null,"finished":true,"code":0,"signal":null,"cpu_s":null,
    "max_rss_bytes":null,"nothing":null,"running":[]}"#;

#[test]
fn a_thousand_stacks_are_those_that_gdb_sees() {
    let Some(bench) = Bench::new() else { return };
    if Command::new("gdb").arg("--version").output().is_err() {
        return testing::skip("needs gdb");
    }
    let program = bench.compile("stacks", &[]);
    let (script, listed, streams) = (bench.path("stop.py"), bench.path("listed"), bench.path("streams"));
    std::fs::write(&script, format!("out = open({:?}, 'w')\n{GDB}", listed.to_string_lossy())).unwrap();
    std::fs::create_dir(&streams).unwrap();
    // The program is to be the host, not gdb: gdb sets the environment for it.
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx", "-ex", "set startup-with-shell off", "-ex"]);
    gdb.arg(format!("set environment LD_PRELOAD {}", bench.agent.display())).arg("-ex");
    gdb.arg(format!("set environment THAW_HEAP depth=64;dir={}", streams.display()));
    gdb.arg("-x").arg(&script).arg("--args").arg(&program).arg("1000");
    let output = gdb.output().unwrap();
    let seen = std::fs::read_to_string(&listed).unwrap();
    assert_eq!(seen.lines().count(), 1000, "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(streams.join("recording.json"), HEAD).unwrap();
    let reader = Reader::open(&streams).unwrap();
    let mut events = reader.events(reader.processes()[0].id).unwrap();
    let mut lines = seen.lines();
    let (mut equal, mut cut) = (0, 0);
    while let Some(event) = events.next().unwrap() {
        let What::Alloc { size: 7001..=8000, .. } = event.what else { continue };
        let stack = event.stack.unwrap();
        let ours: Vec<String> = events.stacks().frames(stack).skip(1).map(|frame| format!("{:x}", frame.pc)).collect();
        let theirs: Vec<String> = lines.next().unwrap().split(' ').map(str::to_owned).collect();
        if events.stacks().ended(stack) == End::Root {
            assert_eq!(ours, theirs, "stack {}", equal + cut);
            equal += 1;
        } else {
            assert!(theirs.starts_with(&ours), "{ours:?} is no part of {theirs:?}");
            cut += 1;
        }
    }
    assert_eq!(equal + cut, 1000);
    assert!(cut < 10, "{cut} of 1000 stacks are cut");
}

/// A library is closed and another one is loaded where it was: stacks are those of the new one from its first call on.
#[test]
fn names_are_those_of_the_library_that_is_loaded_now() {
    const ROUNDS: usize = 50;
    let Some(bench) = Bench::new() else { return };
    let library = |name: &str, size: u32| -> OsString {
        let path = bench.path(&format!("lib{name}.so"));
        let source = format!(
            "#include <stdlib.h>\n__attribute__((noinline)) static void *{name}(void) {{ return malloc({size}); }}\n\
             void *entry(void) {{ void *volatile block = {name}(); return block; }}\n"
        );
        std::fs::write(path.with_extension("c"), source).unwrap();
        let mut cc = Command::new("cc");
        // Both ask for the same address, which is free when the other one is closed.
        cc.args([
            "-O1",
            "-g",
            "-shared",
            "-fPIC",
            "-fno-optimize-sibling-calls",
            "-Wl,-Ttext-segment=0x610000000000",
            "-o",
        ]);
        cc.arg(&path);
        assert!(cc.arg(path.with_extension("c")).status().unwrap().success());
        path.into()
    };
    let program = bench.compile("reload", &[]);
    let mut words = vec![program, ROUNDS.to_string().into(), library("former", 7001), library("latter", 7002)];
    for threads in [false, true] {
        if threads {
            words.push("threads".into());
        }
        let recorded = bench.record(&words);
        let mut events = recorded.reader.events(heapfile::event::ProcessId(0)).unwrap();
        let mut of_libraries = BTreeMap::new();
        while let Some(event) = events.next().unwrap() {
            let What::Alloc { size: size @ 7001..=7002, .. } = event.what else { continue };
            let module = events.stacks().innermost(event.stack.unwrap()).and_then(|address| address.module);
            let object = module.map(|module| events.modules()[module.0 as usize].path.display().to_string());
            let right = if size == 7001 { "libformer.so" } else { "liblatter.so" };
            assert!(object.as_ref().is_some_and(|object| object.ends_with(right)), "{size}: {object:?}");
            *of_libraries.entry(size).or_insert(0) += 1;
        }
        assert_eq!(of_libraries, BTreeMap::from([(7001, ROUNDS), (7002, ROUNDS)]));
    }
}

/// Code without unwind data and without a frame pointer hides its caller: the stack says that frames are missing there,
/// and the summary counts it.
#[test]
fn a_skipped_frame_is_marked() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("skipping", &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-no-pie"]);
    let recorded = bench.record(&[program]);
    let mut events = recorded.reader.events(heapfile::event::ProcessId(0)).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().unwrap() {
        if let What::Alloc { size: size @ 7001..=7002, .. } = event.what {
            let gaps = events.stacks().frames(event.stack.unwrap()).map(heapfile::stack::Address::is_gap);
            seen.push((size, gaps.enumerate().filter(|(_, gap)| *gap).map(|(index, _)| index).collect::<Vec<_>>()));
        }
    }
    assert_eq!(seen, [(7001, vec![1]), (7002, vec![]), (7001, vec![1])]);
    assert_eq!(recorded.only().skipped_stacks, 2);
    let said = |text: &str| text.contains("2 of ") && text.contains(heapfile::stack::GAP);
    assert!(recorded.report.warnings.iter().any(|warning| said(&warning.text)), "{:#?}", recorded.report.warnings);
    let leaks = recorded.only().leaks.iter().flat_map(|leak| &leak.stack).flat_map(|frame| &frame.functions);
    assert!(leaks.into_iter().any(|function| function == heapfile::stack::GAP));
}
