//! Real starts, traced by the real engines: what they fill, why, and from where is known exactly.
//!
//! The programs are `cat`, `sh`, and this test itself: started again with [`GUEST`] set, it plays the program.

use io::{Engine, EngineChoice, EngineOptions, Report, attribute, open_engine, report, resolve};
use model::{Bytes, Cause, FileKind, PAGE, Served, TraceRows, shown};
use os::{
    cache,
    spawn::{Launch, Stream, spawn_gated},
};
use std::{
    ffi::OsString,
    fs::File,
    io::Write,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::{Path, PathBuf},
};

/// What the guest does: `touch PATH 3,10,500`, `sync PATH`, `deleted PATH`.
const GUEST: &str = "THAW_IO_GUEST";

/// One trace at a time: exact figures do not stand neighbours' requests that the kernel merges into ours.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Waits for the other tests of this file; one that failed is no reason to stop.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A directory on a disk: `/tmp` may be memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("thaw-io-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a directory in the target directory")
}

/// A file of so many pages, on disk and not in the cache.
fn cold_file(path: &Path, pages: u64) -> u64 {
    let mut file = File::create(path).unwrap();
    for page in 0..pages {
        file.write_all(&[page as u8 | 1; PAGE as usize]).unwrap();
    }
    evicted(path);
    pages
}

/// Writes a file to disk and evicts it; proves that it is gone.
fn evicted(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    cache::evict(&file).unwrap();
    let size = file.metadata().unwrap().len();
    let left = cache::residency(&file, model::FileOffset(0), Bytes(size)).unwrap();
    assert_eq!(left.resident, 0, "{} stays in the cache", path.display());
}

/// Traces one run of a program and says what it saw.
fn trace(engine: &mut dyn Engine, argv: &[&str], guest: Option<String>) -> TraceRows {
    let mut launch = Launch::new(argv.iter().map(OsString::from));
    launch.stdout = Stream::Null;
    launch.env = vec![(GUEST.into(), guest.map(OsString::from))];
    let gated = spawn_gated(launch).expect("the program starts");
    engine.attach(gated.pid()).expect("the engine attaches");
    let mut running = gated.release().expect("exec");
    let ended = running.wait().expect("it ends");
    assert_eq!(ended.code, Some(0), "the program failed");
    let raw = engine.stop(running.t0_ns()).expect("the engine stops");
    let resolved = resolve(&raw);
    let rows = attribute(&raw, &resolved);
    assert_eq!(rows.info.lost, 0);
    rows
}

/// Starts this test again as a guest.
fn trace_guest(engine: &mut dyn Engine, task: String) -> TraceRows {
    let own = std::env::current_exe().unwrap();
    trace(engine, &[own.to_str().unwrap(), "--exact", "guest", "--nocapture"], Some(task))
}

/// The kernel engines that this machine has.
fn engines() -> Vec<Box<dyn Engine>> {
    if !testing::root_or_skip() {
        return Vec::new();
    }
    let mut engines = Vec::new();
    for choice in [EngineChoice::Perf, EngineChoice::Tracefs] {
        match open_engine(choice, &EngineOptions::default()) {
            Ok((engine, _)) => engines.push(engine),
            Err(error) => testing::skip(&format!("no {choice:?} engine: {error}")),
        }
    }
    engines
}

/// Fills of a file as (page, cause), by page.
fn fills(rows: &TraceRows, path: &Path) -> Vec<(u64, Cause)> {
    let of_file = rows.fills.iter().filter(|fill| rows.files[fill.file.0 as usize].path == path);
    let pages = |fill: &model::FillRow| {
        let (first, cause) = (fill.offset.0 / PAGE, fill.cause);
        (first..first + fill.len.0 / PAGE).map(move |page| (page, cause))
    };
    let mut pages: Vec<(u64, Cause)> = of_file.flat_map(pages).collect();
    pages.sort();
    pages
}

#[test]
fn what_is_read_past_the_cache_belongs_to_its_file() {
    let _machine = alone();
    for mut engine in engines() {
        let directory = on_disk();
        let path = directory.path().join("table");
        cold_file(&path, 64);
        let input = format!("if={}", path.display());
        let rows = trace(engine.as_mut(), &["dd", &input, "of=/dev/null", "bs=64k", "iflag=direct"], None);
        if rows.info.cannot.iter().any(|sentence| sentence.contains("O_DIRECT")) {
            testing::skip("this kernel does not tell of reads past the cache");
            continue;
        }
        let report = report(&rows);
        let table = line(&report, &path);
        assert_eq!((table.direct, table.filled), (Bytes(64 * PAGE), Bytes(0)), "{}", rows.info.engine);
        assert_eq!(table.bytes_from_disk, Bytes(64 * PAGE), "its requests are its own");
        assert!(rows.direct.iter().all(|direct| !direct.write && direct.len == Bytes(16 * PAGE)), "{:?}", rows.direct);
    }
}

/// The line of a file.
fn line<'a>(report: &'a Report, path: &Path) -> &'a io::FileReport {
    report.files.iter().find(|file| file.path == shown(path)).unwrap_or_else(|| {
        panic!("{} is not among {:?}", path.display(), report.files.iter().map(|file| &file.path).collect::<Vec<_>>())
    })
}

#[test]
fn cat_reads_every_page_of_an_evicted_file() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let pages = cold_file(&path, 25);
        let rows = trace(engine.as_mut(), &["cat", path.to_str().unwrap()], None);
        let expected: Vec<_> = (0..pages).map(|page| (page, Cause::Read)).collect();
        assert_eq!(fills(&rows, &path), expected, "{}", engine.name());
        let answer = report(&rows);
        let file = line(&answer, &path);
        assert_eq!(file.bytes_from_disk, Bytes(pages * PAGE));
        assert_eq!((file.asked, file.filled), (Bytes(pages * PAGE), Bytes(pages * PAGE)));
        assert_eq!((file.kind, file.extents.is_some()), (FileKind::Regular, true));
        assert!(file.requests > 0 && file.waiting.0 > 0, "{file:?}");
        assert!(file.opens.is_none_or(|opens| opens >= 1));
        assert_eq!(answer.totals.unattributed_requests, 0);
        assert_eq!(answer.processes[0].comm, "cat");
    }
}

#[test]
fn a_large_file_is_read_ahead_but_never_twice() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let pages = cold_file(&path, 3000);
        let rows = trace(engine.as_mut(), &["cat", path.to_str().unwrap()], None);
        let found = fills(&rows, &path);
        let expected: Vec<u64> = (0..pages).collect();
        let wrong = found.iter().map(|(page, _)| *page).zip(&expected).find(|(found, expected)| found != *expected);
        assert_eq!((wrong, found.len() as u64), (None, pages), "{}", engine.name());
        assert!(found.iter().all(|(_, cause)| matches!(cause, Cause::Read | Cause::ReadAhead)));
        assert_eq!(found[0].1, Cause::Read);
        assert_eq!(line(&report(&rows), &path).bytes_from_disk, Bytes(pages * PAGE));
    }
}

#[test]
fn a_program_that_touches_pages_at_random_faults_on_exactly_these() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        cold_file(&path, 600);
        let rows = trace_guest(engine.as_mut(), format!("touch {} 3,500,10", path.display()));
        let expected = [3, 10, 500].map(|page| (page, Cause::Fault));
        assert_eq!(fills(&rows, &path), expected, "{}", engine.name());
        let id = rows.files.iter().position(|file| file.path == path).unwrap() as u32;
        let missed: Vec<u64> = rows
            .faults
            .iter()
            .filter(|fault| fault.file.0 == id && fault.missed)
            .map(|fault| fault.offset.0 / PAGE)
            .collect();
        assert_eq!(missed, [3, 500, 10], "in the order of the touches");
        assert_eq!(line(&report(&rows), &path).requests, 3);
        let needs = io::needs(&rows);
        let need = needs.iter().find(|need| need.path == path).unwrap();
        assert_eq!(
            need.ranges.iter().map(|(start, len)| (start.0 / PAGE, len.0)).collect::<Vec<_>>(),
            [(3, PAGE), (10, PAGE), (500, PAGE)]
        );
    }
}

#[test]
fn children_of_children_and_scripts_belong_to_the_tree() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let pages = cold_file(&path, 5);
        let script = directory.path().join(format!("{}.sh", engine.name()));
        testing::write_script(&script, &format!("#!/bin/sh\nsh -c 'cat {}; true'\ntrue\n", path.display()));
        let rows = trace(engine.as_mut(), &[script.to_str().unwrap()], None);
        assert_eq!(fills(&rows, &path).len() as u64, pages);
        let names: Vec<&str> = rows.processes.iter().map(|process| process.comm.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[2], "cat");
        assert_eq!(rows.processes[1].parent, rows.processes[0].pid);
        assert_eq!(rows.processes[2].parent, rows.processes[1].pid);
        assert!(rows.processes.iter().all(|process| process.end_ns.is_some()), "{:?}", rows.processes);
        let executed = rows.processes[2].exe.as_deref().and_then(Path::file_name);
        assert_eq!(executed, Some("cat".as_ref()));
        let fill = rows.fills.iter().find(|fill| rows.files[fill.file.0 as usize].path == path).unwrap();
        assert_eq!(fill.pid, rows.processes[2].pid);
    }
}

#[test]
fn holes_come_into_the_cache_without_the_disk() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let file = File::create(&path).unwrap();
        file.set_len(20 * PAGE).unwrap();
        file.write_all_at(&[1; 2 * PAGE as usize], 4 * PAGE).unwrap();
        evicted(&path);
        let rows = trace(engine.as_mut(), &["cat", path.to_str().unwrap()], None);
        assert_eq!(fills(&rows, &path).len(), 20);
        let answer = report(&rows);
        let file = line(&answer, &path);
        assert_eq!((file.filled, file.bytes_from_disk), (Bytes(20 * PAGE), Bytes(2 * PAGE)));
        assert_eq!(file.extents, Some(1));
    }
}

#[test]
fn what_a_program_writes_and_syncs_is_no_read() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let rows = trace_guest(engine.as_mut(), format!("sync {}", path.display()));
        assert_eq!(fills(&rows, &path), (0..8).map(|page| (page, Cause::Write)).collect::<Vec<_>>());
        let answer = report(&rows);
        let file = line(&answer, &path);
        assert_eq!((file.syncs, file.requests, file.filled), (2, 0, Bytes(8 * PAGE)));
        let synced = answer.synced.iter().find(|file| file.path == shown(&path)).unwrap();
        assert!(synced.took.0 > 0);
        assert!(answer.totals.written >= Bytes(8 * PAGE), "{:?}", answer.totals);
        assert!(io::needs(&rows).iter().all(|need| need.path != path));
        let id = rows.files.iter().position(|file| file.path == path).unwrap() as u32;
        let written = rows.blocks.iter().filter(|block| {
            block.write && block.pid.is_some() && matches!(block.served, Served::File(file, _) if file.0 == id)
        });
        // The kernel may merge a neighbour's pages into the same request.
        assert!(written.map(|block| block.len).sum::<Bytes>() >= Bytes(8 * PAGE));
    }
}

#[test]
fn a_deleted_file_has_no_place_but_its_requests_are_known() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let path = directory.path().join(engine.name());
        let rows = trace_guest(engine.as_mut(), format!("deleted {}", path.display()));
        let file = rows.files.iter().position(|file| file.path == path);
        let Some(id) = file else {
            testing::skip("no fanotify: a deleted file has no name");
            continue;
        };
        assert_eq!(rows.files[id].kind, FileKind::Unnamed);
        let causes: Vec<Cause> = fills(&rows, &path).into_iter().map(|(_, cause)| cause).collect();
        assert_eq!(causes.iter().filter(|cause| **cause == Cause::Write).count(), 4, "{causes:?}");
        assert_eq!(causes.iter().filter(|cause| **cause == Cause::Read).count(), 4, "{causes:?}");
        let answer = report(&rows);
        assert_eq!(answer.totals.unattributed_requests, 0);
        assert_eq!(answer.files[id].bytes_from_disk, Bytes(4 * PAGE));
        assert!(io::needs(&rows).iter().all(|need| need.path != path));
    }
}

#[test]
fn others_do_not_count() {
    let _alone = alone();
    let directory = on_disk();
    for mut engine in engines() {
        let (own, other) = (directory.path().join("own"), directory.path().join("other"));
        cold_file(&own, 10);
        cold_file(&other, 2000);
        let gate = directory.path().join(engine.name());
        // While the program waits for the gate file, this test reads another file.
        let script = format!("until [ -e {} ]; do sleep 0.01; done; cat {}", gate.display(), own.display());
        let reader = std::thread::spawn({
            let (other, gate) = (other.clone(), gate.clone());
            move || {
                assert_eq!(std::fs::read(other).unwrap().len() as u64, 2000 * PAGE);
                File::create(gate).unwrap();
            }
        });
        let rows = trace(engine.as_mut(), &["sh", "-c", &script], None);
        reader.join().unwrap();
        assert!(rows.files.iter().all(|file| file.path != other));
        let own = line(&report(&rows), &own).bytes_from_disk;
        assert_eq!(own, Bytes(10 * PAGE));
        let totals = report(&rows).totals;
        assert!(totals.read_from_disk < Bytes(1000 * PAGE), "{totals:?}");
    }
}

#[test]
fn the_probe_engine_finds_the_pages() {
    let _alone = alone();
    let directory = on_disk();
    let path = directory.path().join("file");
    cold_file(&path, 600);
    probe_without_rights(path);
}

#[test]
fn the_probe_engine_works_for_nobody() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let directory = on_disk();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (path, program) = (directory.path().join("file"), directory.path().join("program"));
    cold_file(&path, 600);
    testing::copy_program(std::env::current_exe().unwrap(), &program);
    const NOBODY: u32 = 65534;
    let mut command = std::process::Command::new(&program);
    command.args(["--exact", "guest", "--nocapture"]).env(GUEST, format!("probe {}", path.display()));
    match command.uid(NOBODY).gid(NOBODY).output() {
        Err(error) => testing::skip(&format!("nobody cannot run programs of the target directory: {error}")),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Not a test of its own: the programs that the tests above start.
#[test]
fn guest() {
    let Ok(task) = std::env::var(GUEST) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    match words[..] {
        ["touch", path, pages] => touch(path.into(), pages),
        ["sync", path] => write_and_sync(path.into()),
        ["deleted", path] => write_delete_and_read(path.into()),
        ["probe", path] => probe_without_rights(path.into()),
        _ => panic!("no such task: {task}"),
    }
}

/// Maps a file without read-ahead and touches pages in this order.
fn touch(path: PathBuf, pages: &str) {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len() as usize;
    // SAFETY: a new mapping at an address of the kernel's choice; it lives until the process ends.
    let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap() };
    // SAFETY: the range was just mapped.
    unsafe { madvise(start, len, Advice::Random).unwrap() };
    for page in pages.split(',') {
        let page: usize = page.parse().unwrap();
        // SAFETY: the page lies inside the mapping; the file is not changed meanwhile.
        let byte = unsafe { start.cast::<u8>().add(page * PAGE as usize).read_volatile() };
        assert_eq!(byte, page as u8 | 1);
    }
}

/// Evicts, runs a program that touches three pages, and probes.
fn probe_without_rights(path: PathBuf) {
    let directory = path.parent().expect("the file is in a directory of its own").to_owned();
    let options =
        EngineOptions { program: Some(std::env::current_exe().unwrap()), app_dirs: vec![directory], wakes: false };
    let (mut engine, _) = open_engine(EngineChoice::Probe, &options).unwrap();
    let rows = trace_guest(engine.as_mut(), format!("touch {} 3,500,10", path.display()));
    assert_eq!(fills(&rows, &path), [3, 10, 500].map(|page| (page, Cause::Unknown)));
    assert_eq!(rows.blocks, []);
    assert!(rows.info.cannot.iter().any(|sentence| sentence.contains("order")), "{:?}", rows.info.cannot);
    assert_eq!(report(&rows).totals.attributed_share, 1.0);
}

fn write_and_sync(path: PathBuf) {
    let mut file = File::create(path).unwrap();
    file.write_all(&[7; 4 * PAGE as usize]).unwrap();
    file.sync_all().unwrap();
    file.write_all(&[8; 4 * PAGE as usize]).unwrap();
    file.sync_data().unwrap();
}

fn write_delete_and_read(path: PathBuf) {
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(&[7; 4 * PAGE as usize]).unwrap();
    std::fs::remove_file(path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: the descriptor is open; advice has no effect on memory.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let mut bytes = [0; 4 * PAGE as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7; 4 * PAGE as usize]);
}

/// Something that is mounted until this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// `None`, counted as skipped: it cannot be mounted here.
    fn by(command: &mut std::process::Command, at: &Path) -> Option<Self> {
        match command.output() {
            Ok(output) if output.status.success() => return Some(Self(at.to_owned())),
            Ok(output) => testing::skip(&format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => testing::skip(&format!("{command:?}: {error}")),
        }
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = std::process::Command::new("umount").arg(&self.0).status();
        assert!(ended.is_ok_and(|status| status.success()) || std::thread::panicking(), "it stays mounted");
    }
}

/// Names of the files of a trace that lie below a directory, or have no name.
fn names_of(rows: &TraceRows, directory: &Path) -> Vec<String> {
    let wanted = |file: &&model::FileRow| file.path.starts_with(directory) || file.kind == FileKind::Unnamed;
    let mut names: Vec<String> = rows.files.iter().filter(wanted).map(|file| shown(&file.path)).collect();
    names.sort();
    names
}

#[test]
fn a_file_of_an_overlay_is_one_file_with_the_name_that_the_program_sees() {
    let _alone = alone();
    for mut engine in engines() {
        let directory = on_disk();
        let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        cold_file(&lower.join("below"), 7);
        cold_file(&upper.join("above"), 9);
        std::fs::copy("/bin/cat", lower.join("cat")).unwrap();
        evicted(&lower.join("cat"));
        let options = format!("lowerdir={},upperdir={},workdir={}", shown(&lower), shown(&upper), shown(&work));
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "overlay", "thaw-test", "-o", &options]).arg(&merged);
        let Some(_mounted) = Mounted::by(&mut mount, &merged) else { return };
        let seen = |name: &str| shown(&merged.join(name));
        let rows = trace(engine.as_mut(), &[&seen("cat"), &seen("below"), &seen("above")], None);
        assert_eq!(names_of(&rows, directory.path()), ["above", "below", "cat"].map(seen), "{}", engine.name());
        let answer = report(&rows);
        for (name, pages) in [("below", 7), ("above", 9)] {
            let file = line(&answer, &merged.join(name));
            let read = (file.filled, file.bytes_from_disk);
            assert_eq!(read, (Bytes(pages * PAGE), Bytes(pages * PAGE)), "{name}, {}", engine.name());
        }
        let is_mapped = rows.mmaps.iter().any(|map| rows.files[map.file.0 as usize].path == merged.join("cat"));
        assert!(is_mapped || engine.name() == "tracefs", "mappings are those of the same file");
    }
}

#[test]
fn files_of_another_process_are_named_even_if_they_are_only_read() {
    let _alone = alone();
    for mut engine in engines() {
        let directory = on_disk();
        let [source, mounted] = ["source", "mounted"].map(|name| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        std::fs::create_dir(source.join("deep")).unwrap();
        cold_file(&source.join("deep/data"), 5);
        let mut mount = std::process::Command::new("bindfs");
        mount.arg(&source).arg(&mounted);
        let Some(_mounted) = Mounted::by(&mut mount, &mounted) else { return };
        let path = mounted.join("deep/data");
        let rows = trace(engine.as_mut(), &["cat", &shown(&path)], None);
        assert_eq!(names_of(&rows, &mounted), [shown(&path)], "{}", engine.name());
        let file = rows.files.iter().find(|file| file.path == path).unwrap();
        assert_eq!((file.kind, file.size), (FileKind::Regular, Bytes(5 * PAGE)));
        let of_it = rows.file_systems.iter().find(|system| system.dev == file.dev).unwrap();
        assert!(of_it.kind.starts_with("fuse") && of_it.point == mounted && !of_it.on_disk, "{of_it:?}");
        // Gone before it could be named: the number alone would tell nobody anything.
        let script = format!("cat {0} >/dev/null; rm {0}", shown(&path));
        let rows = trace(engine.as_mut(), &["sh", "-c", &script], None);
        let names = names_of(&rows, &mounted);
        let (start, end) = ("(unknown file ", " names there that were looked at)");
        let told = |name: &String| name.starts_with(start) && name.contains(&shown(&mounted)) && name.ends_with(end);
        assert!(!names.is_empty() && names.iter().all(told), "{names:?}");
    }
}
