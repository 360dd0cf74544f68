//! A recording survives its writer, its disk and its copies: killed at every system call, on a full disk, on a
//! read-only medium, cut off, and with changed bytes.

mod common;

use common::{ask_everything, created, example, milestones, names, refusal, residency, run_row, skipped, trace};
use model::Exit;
use proptest::prelude::*;
use recording::{Reader, Writer};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use testing::steps::{Next, stand_still, steps};

/// Set in the child process that is to be killed; holds the name of its recording.
const VICTIM: &str = "THAW_TEST_VICTIM";

/// What the victim does, saying a letter on stdout after each finished run.
fn record(path: &Path, say: &mut dyn FnMut()) -> model::Result<Writer> {
    let mut writer = Writer::create(path, &common::header(), recording::Replace::Recording)?;
    for block in 0..3 {
        let id = writer.add_run(&run_row(block), &milestones(), &residency())?;
        say();
        if block == 1 {
            writer.add_trace(id, &trace(3000))?;
        }
    }
    writer.finish()?;
    Ok(writer)
}

/// Not a test of its own: the body of the process that the other tests kill.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let mut say = || {
        rustix::io::write(rustix::stdio::stderr(), b".").unwrap();
    };
    stand_still();
    drop(record(Path::new(&path), &mut say).unwrap());
}

/// This test program as a command that runs only `name`.
fn myself(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs the victim to the given stop (each system call has two: before and after) and kills it there. Returns how many
/// runs it had reported; `None` if it ended before.
#[expect(clippy::zombie_processes, reason = "steps reaps it")]
fn kill_at_stop(path: &Path, stop: usize) -> Option<usize> {
    // The entry that a kill leaves is not for the machine's own journal.
    let state = tempfile::tempdir().unwrap();
    let mut command = myself("victim");
    command.env(VICTIM, path).env("THAW_STATE_DIR", state.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stops = 0;
    let ended = steps(&child, |_| {
        stops += 1;
        if stops > stop { Next::Kill } else { Next::On }
    });
    if stops <= stop {
        assert!(ended.success(), "the victim failed by itself: {ended}");
        return None;
    }
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.chars().all(|letter| letter == '.'), "{said}");
    Some(said.len())
}

/// The recording after a kill: absent (or the old one), or whole up to the last run that was reported.
fn assert_holds(path: &Path, reported: usize, replaces: bool) {
    if !path.exists() {
        assert!(!replaces && reported == 0, "a recording is missing");
        return;
    }
    let reader = Reader::open(path).unwrap();
    let runs = reader.runs().unwrap();
    let old = replaces && reader.variants().unwrap().len() == 1;
    if old {
        assert_eq!((reported, runs.len()), (0, 4), "the old recording stays whole until the new one is there");
    } else {
        // The run whose transaction was done when the kill came, but not yet reported, may be there too.
        assert!((reported..=reported + 1).contains(&runs.len()), "{reported} reported, {} there", runs.len());
        for (block, (run, fired)) in (0..).zip(&runs) {
            assert_eq!(run, &model::RunRow { id: run.id, ..run_row(block) });
            assert_eq!(fired, &milestones());
            assert_eq!(reader.residency(run.id).unwrap(), residency());
        }
        for run in reader.trace_runs().unwrap() {
            assert!(reader.trace(run).unwrap() == trace(3000), "a trace is there as a whole or not at all");
        }
    }
    let check = reader.query("PRAGMA integrity_check").unwrap();
    assert_eq!(check.rows, [[recording::Value::Text("ok".into())]]);
    drop(reader);
    // What may stand beside it: the temporary file of a kill during creation, and a journal that was not begun.
    let name = path.file_name().unwrap().to_str().unwrap();
    let folder = path.parent().unwrap();
    for other in names(folder).iter().filter(|other| *other != name && !other.starts_with(&format!(".{name}."))) {
        assert_eq!(other, &format!("{name}-journal"));
        let journal = std::fs::read(folder.join(other)).unwrap();
        assert!(journal.first().is_none_or(|byte| *byte == 0), "a journal that was played back is gone");
    }
}

/// Kills the victim at every `step`th stop until it lives to its end.
fn kill_everywhere(step: usize, replaces: bool) {
    let mut ended = false;
    let mut after_each_count = [0; 4];
    // In memory, where syncing costs nothing; the system calls are the same.
    let memory = Path::new("/dev/shm");
    for stop in (0..20_000).step_by(step) {
        let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let path = folder.path().join("x.thaw");
        if replaces {
            example(&path);
        }
        let Some(reported) = kill_at_stop(&path, stop) else {
            ended = true;
            break;
        };
        after_each_count[reported] += 1;
        assert_holds(&path, reported, replaces);
    }
    assert!(ended, "the victim has fewer system calls than that");
    assert!(after_each_count.iter().all(|count| *count > 0), "kills before, between and after: {after_each_count:?}");
}

#[test]
fn a_writer_killed_at_any_system_call_leaves_all_finished_runs() {
    kill_everywhere(2, false);
}

#[test]
fn a_writer_killed_while_it_replaces_leaves_the_old_recording_or_the_new() {
    kill_everywhere(7, true);
}

#[test]
fn a_file_size_limit_is_reported_and_keeps_what_was_written() {
    const NAME: &str = "a_file_size_limit_is_reported_and_keeps_what_was_written";
    if let Some(path) = std::env::var_os(VICTIM) {
        assert_full(&PathBuf::from(path), "File too large");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = myself(NAME);
    child.env(VICTIM, folder.path().join("x.thaw"));
    // SAFETY: between fork and exec only two async-signal-safe calls are made, on values of this closure.
    unsafe {
        child.pre_exec(|| {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 400_000, rlim_max: 400_000 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            Ok(())
        });
    }
    assert!(child.status().unwrap().success());
}

/// Runs `body` in a thread of its own that sees private mounts: a tmpfs of this size at the given directory. It goes
/// with the thread.
fn on_a_small_disk(size: &'static str, body: impl FnOnce(&Path) + Send + 'static) {
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().to_path_buf();
    let outcome = std::thread::spawn(move || -> Result<(), rustix::io::Errno> {
        // SAFETY: only file system attributes are unshared; nothing else in this thread relies on them.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let options = std::ffi::CString::new(format!("size={size}")).unwrap();
        rustix::mount::mount("none", &point, "tmpfs", MountFlags::empty(), options.as_c_str())?;
        body(&point);
        rustix::mount::unmount(&point, UnmountFlags::DETACH)
    })
    .join()
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Err(error) = outcome {
        skipped(format!("cannot mount here: {error}"));
    }
}

/// Writes until the disk is full, then reads.
fn assert_full(path: &Path, cause: &str) {
    let mut writer = created(path);
    let mut written = 0;
    let error = loop {
        let added = writer.add_run(&run_row(written), &milestones(), &residency());
        let added = added.and_then(|id| if written % 2 == 0 { writer.add_trace(id, &trace(400)) } else { Ok(()) });
        match added {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "the disk never got full");
    };
    let hint = error.hint.clone().unwrap();
    assert_eq!(error.exit, Exit::Machine);
    assert!(error.to_string().contains(cause), "{error}");
    let runs = Reader::open(path).unwrap().runs().unwrap().len();
    assert!(hint.contains("make room") && hint.contains(&format!("{runs} finished runs")), "{hint}");
    assert!((written..=written + 1).contains(&(runs as u32)) && written > 2, "{written} written, {runs} there");
    let reader = Reader::open(path).unwrap();
    ask_everything(&reader).unwrap();
    assert!(!reader.finished().unwrap());
    drop(writer);
    assert_eq!(names(path.parent().unwrap()), ["x.thaw"]);
}

#[test]
fn a_full_disk_is_reported_and_keeps_what_was_written() {
    on_a_small_disk("600k", |disk| {
        let path = disk.join("x.thaw");
        assert_full(&path, "No space left on device");
        // A disk that is full from the start: nothing is left behind.
        let (exit, text) = refusal(Writer::create(disk.join("y.thaw"), &common::header(), recording::Replace::Never));
        assert_eq!(exit, Exit::Machine);
        assert!(text.contains("No space left on device") && text.contains("make room"), "{text}");
        assert_eq!(names(disk), ["x.thaw"]);
    });
}

#[test]
fn a_recording_opens_on_a_read_only_medium_and_an_unfinished_write_on_it_is_explained() {
    on_a_small_disk("10m", |disk| {
        let (good, bad) = (disk.join("good.thaw"), disk.join("bad.thaw"));
        example(&good);
        let mut stop = 0;
        // A kill that leaves a hot journal.
        while !disk.join("bad.thaw-journal").metadata().is_ok_and(|meta| meta.len() > 512) || !is_hot(&bad) {
            std::fs::remove_file(&bad).ok();
            std::fs::remove_file(disk.join("bad.thaw-journal")).ok();
            stop += 5;
            kill_at_stop(&bad, stop).expect("a kill inside a transaction");
        }
        rustix::mount::mount_remount(disk, MountFlags::RDONLY, "").unwrap();
        ask_everything(&Reader::open(&good).unwrap()).unwrap();
        let (exit, text) = refusal(Reader::open(&bad));
        assert_eq!(exit, Exit::Data);
        assert!(text.contains("unfinished write of a killed thaw"), "{text}");
        assert!(text.contains("copy") && text.contains("bad.thaw-journal"), "{text}");
        let (exit, text) = refusal(Writer::create(disk.join("new.thaw"), &common::header(), recording::Replace::Never));
        assert_eq!(exit, Exit::Usage);
        assert!(text.contains("Read-only file system") && text.contains("-o FILE"), "{text}");

        // What the hint says helps.
        rustix::mount::mount_remount(disk, MountFlags::empty(), "").unwrap();
        ask_everything(&Reader::open(&bad).unwrap()).unwrap();
    });
}

/// Whether SQLite refuses to read this without rolling back first.
fn is_hot(path: &Path) -> bool {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    rusqlite::Connection::open_with_flags(path, flags)
        .and_then(|connection| connection.pragma_query_value(None, "schema_version", |_| Ok(())))
        .is_err_and(|error| {
            error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
        })
}

#[test]
fn a_recording_that_even_root_may_not_change_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.thaw");
    example(&path);
    let file = std::fs::File::open(&path).unwrap();
    let flags = rustix::fs::ioctl_getflags(&file);
    let set = flags.and_then(|flags| rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE));
    drop(file);
    if let Err(error) = set {
        return skipped(format!("cannot make a file immutable here: {error}"));
    }
    let outcome = Reader::open(&path).and_then(|reader| ask_everything(&reader));
    let file = std::fs::File::open(&path).unwrap();
    let flags = rustix::fs::ioctl_getflags(&file).unwrap();
    rustix::fs::ioctl_setflags(&file, flags - rustix::fs::IFlags::IMMUTABLE).unwrap();
    outcome.unwrap();
}

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.thaw");
    example(&path);
    std::fs::read(path).unwrap()
});

/// Opens these bytes as a recording and asks for everything. Any answer is fine, but the refusal must be one for a
/// file.
fn look(bytes: &[u8]) -> Result<(), model::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.thaw");
    std::fs::write(&path, bytes).unwrap();
    let outcome = Reader::open(&path).and_then(|reader| ask_everything(&reader));
    if let Err(error) = &outcome {
        assert!(matches!(error.exit, Exit::Data | Exit::Usage), "{error}");
    }
    outcome
}

#[test]
fn a_recording_cut_off_anywhere_is_refused() {
    for len in (0..200).chain((200..GOOD.len()).step_by(509)) {
        let error = look(&GOOD[..len]).expect_err("a part is no recording");
        assert_eq!(error.exit, Exit::Data, "{len}: {error}");
        assert!(error.hint.is_some(), "{len}: {error}");
    }
    look(&GOOD).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_recording_with_changed_bytes_never_does_worse_than_an_error(
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..20),
        header in prop::collection::vec((16..100_usize, any::<u8>()), 0..2),
    ) {
        let mut bytes = GOOD.clone();
        for (place, value) in changes {
            let place = (place * bytes.len() as f64) as usize;
            bytes[place] = value;
        }
        for (place, value) in header {
            bytes[place] = value;
        }
        look(&bytes).ok();
    }
}

/// Rows that no writer of ours writes, but a person with another tool can.
#[test]
fn a_row_that_makes_no_sense_is_named() {
    let cases = [
        ("UPDATE runs SET state = 'warm'", "column 'state' of table 'runs' holds the unknown word 'warm'"),
        ("UPDATE runs SET variant = -1", "column 'variant' of table 'runs' is out of range: -1"),
        ("UPDATE runs SET accepted = 2", "should be 0 or 1 but is 2"),
        ("UPDATE fills SET file = 9", "points to file 9, which is missing"),
        ("UPDATE blocks SET file = 7 WHERE served = 'file'", "points to file 7, which is missing"),
        ("UPDATE blocks SET file = NULL", "says 'file' served"),
        ("UPDATE files SET file = 5 WHERE file = 1", "has no file 1"),
        ("DELETE FROM files", "which is missing"),
        ("UPDATE files SET path = 3", "column 'path' of table 'files' should be a name but is Integer"),
        ("UPDATE header SET plan = '{'", "is not JSON"),
        ("DELETE FROM header", "table 'header' has no row"),
        ("UPDATE events SET thread = 2", "points to thread 2, which is missing"),
        ("UPDATE events SET thread = -1", "column 'thread' of table 'events' is out of range: -1"),
        ("UPDATE events SET type = 4", "points to type 4, which is missing"),
        ("UPDATE events SET phase = 'waits'", "holds the unknown word 'waits'"),
        ("UPDATE event_threads SET process = 1", "points to process 1, which is missing"),
        ("UPDATE event_threads SET writer = 7", "points to thread 7, which is missing"),
        ("UPDATE event_sources SET process = 2", "points to process 2, which is missing"),
        ("DELETE FROM event_threads WHERE thread = 0", "table 'event_threads' has no thread 0"),
        ("DROP TABLE facts", "the table 'facts' is missing"),
    ];
    for (sql, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.thaw");
        std::fs::write(&path, &*GOOD).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let (exit, text) = refusal(Reader::open(&path).and_then(|reader| ask_everything(&reader)));
        assert_eq!(exit, Exit::Data, "{sql}: {text}");
        assert!(text.contains(expected), "{sql}: {text}");
    }
}

/// Runs the victim to its end and calls `look` at every `step`th stop with how many runs it had reported; it stands
/// still meanwhile. Returns how often.
#[expect(clippy::zombie_processes, reason = "steps reaps it")]
fn look_at_stops(path: &Path, step: usize, mut look: impl FnMut(usize)) -> usize {
    let state = tempfile::tempdir().unwrap();
    let mut command = myself("victim");
    command.env(VICTIM, path).env("THAW_STATE_DIR", state.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    rustix::io::ioctl_fionbio(&said, true).unwrap();
    let (mut stops, mut reported) = (0, 0);
    let ended = steps(&child, |_| {
        let mut letters = [0; 16];
        reported += std::io::Read::read(&mut said, &mut letters).unwrap_or(0);
        stops += 1;
        if stops % step == 0 {
            look(reported);
        }
        Next::On
    });
    assert!(ended.success(), "the victim failed by itself: {ended}");
    stops / step
}

/// Runs a program, which must succeed; `false` where there is none.
fn ran(program: &str, words: &[&std::ffi::OsStr]) -> bool {
    match Command::new(program).args(words).output() {
        Ok(said) if said.status.success() => true,
        Ok(said) => {
            skipped(format!("{program}: {}", String::from_utf8_lossy(&said.stderr).trim()));
            false
        }
        Err(error) => {
            skipped(format!("needs {program}: {error}"));
            false
        }
    }
}

/// Mounts a file system in a file; `false` where that cannot be.
fn mounted(image: &Path, point: &Path) -> bool {
    // What the kernel writes by itself would come while the image is copied.
    ran(
        "mount",
        &["-t".as_ref(), "ext4".as_ref(), "-o".as_ref(), "loop,commit=600".as_ref(), image.as_ref(), point.as_ref()],
    )
}

/// Has the kernel write what it has of a file, as it may at any time; its names and its length stay as unsure as they
/// are.
fn write_out(path: &Path) {
    use std::os::fd::AsRawFd;
    let Ok(file) = std::fs::File::open(path) else { return };
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes an open descriptor and numbers.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
}

/// Somebody who looks at all mounts may hold it for a moment.
fn unmount(at: &Path) {
    let mut last = Ok(());
    for _ in 0..2000 {
        last = rustix::mount::unmount(at, UnmountFlags::empty());
        if last != Err(rustix::io::Errno::BUSY) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    last.unwrap();
}

#[test]
fn a_power_cut_at_any_moment_leaves_all_runs_that_were_reported() {
    /// A power cut at every so many stops: there are two for each system call.
    const STEP: usize = 9;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (image, copy) = (folder.path().join("disk"), folder.path().join("cut"));
    let (disk, after) = (folder.path().join("before"), folder.path().join("after"));
    std::fs::create_dir(&disk).unwrap();
    std::fs::create_dir(&after).unwrap();
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let lazy = "lazy_itable_init=0,lazy_journal_init=0";
    let made = ["-q", "-F", "-b", "1024", "-E", lazy].map(std::ffi::OsStr::new);
    if !ran("mkfs.ext4", &[&made[..], &[image.as_os_str()]].concat()) {
        return;
    }
    let work = move || -> Result<(), rustix::io::Errno> {
        // SAFETY: only file system attributes are unshared; nothing else in this thread relies on them.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        if !mounted(&image, &disk) {
            return Ok(());
        }
        let path = disk.join("d/x.thaw");
        std::fs::create_dir(disk.join("d")).unwrap();
        rustix::fs::syncfs(std::fs::File::open(&disk).unwrap()).unwrap();
        let (mut cuts, mut after_each_count, mut hot) = (0, [0; 4], 0);
        let looks = look_at_stops(&path, STEP, |reported| {
            // What was not synced is on the disk in part: nothing of it, the recording's, or its journal's.
            match cuts % 4 {
                1 => write_out(&path),
                3 => write_out(&disk.join("d/x.thaw-journal")),
                _ => {}
            }
            cuts += 1;
            after_each_count[reported] += 1;
            std::fs::copy(&image, &copy).unwrap();
            assert!(mounted(&copy, &after), "the file system itself is lost");
            let found = after.join("d/x.thaw");
            hot += usize::from(is_hot(&found));
            assert_holds(&found, reported, false);
            unmount(&after);
        });
        assert_eq!(looks, cuts);
        assert!(
            after_each_count.iter().all(|count| *count > 0),
            "cuts before, between and after: {after_each_count:?}"
        );
        assert!(hot > 0, "some cuts leave a write half done");
        rustix::mount::unmount(&disk, UnmountFlags::DETACH)
    };
    // The mounts go with the thread.
    match std::thread::spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Ok(()) => {}
        Err(error) => skipped(format!("cannot mount here: {error}")),
    }
}
