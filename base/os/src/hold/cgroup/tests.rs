//! Groups of real processes. They need root and control groups.

use super::hierarchy::Hierarchy;
use super::members::remove;
use super::*;
use crate::spawn::{Launch, Running, Stream, spawn_gated};
use model::Nanos;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// A group, or the reason why this test cannot run.
fn group(name: &str, needed: &[Ability]) -> Option<RunCgroup> {
    if !testing::root_or_skip() {
        return None;
    }
    let group = match RunCgroup::create(name) {
        Ok(group) => group,
        Err(error) => {
            testing::skip(&error.to_string());
            return None;
        }
    };
    if let Some(missing) = needed.iter().find(|ability| !group.can(**ability)) {
        testing::skip(&format!("control groups without {missing:?}: {:?}", group.missing()));
        return None;
    }
    Some(group)
}

fn start(group: &RunCgroup, script: &str, argument: &Path) -> (Running, io::PipeReader) {
    let (read, write) = io::pipe().unwrap();
    let mut launch = Launch::new(["sh", "-c", script]);
    launch.argv.push(argument.into());
    launch.stdout = Stream::Fd(write.into());
    launch.cgroups = group.enter_fds().unwrap();
    (spawn_gated(launch).unwrap().release().unwrap(), read)
}

fn say(pipe: &mut io::PipeReader) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn names_are_checked() {
    for name in ["", "a/b", "..\n", "a b"] {
        assert_eq!(RunCgroup::create(name).unwrap_err().exit, Exit::Usage, "{name:?}");
    }
}

#[test]
fn a_program_is_in_its_group_from_its_first_instruction_and_the_group_goes_away() {
    let Some(group) = group("join", &[]) else { return };
    let (mut running, mut out) = start(&group, "cat /proc/self/cgroup; (cat /proc/self/cgroup &)", Path::new(""));
    running.wait().unwrap();
    let text = say(&mut out);
    let paths: Vec<PathBuf> = group.paths().iter().map(|path| path.to_path_buf()).collect();
    let name = paths[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(text.matches(&name).count(), 2 * paths.len(), "{text}");
    drop(group);
    assert!(paths.iter().all(|path| !path.exists()));
}

/// A tree that is hard to kill: sleepers, some deaf to SIGTERM, and comets, processes that end at once
/// after they started the next one, so that a list of processes is old before it is used.
const HYDRA: &str = "
    comet() { [ -e \"$0\" ] && comet & }
    comet; comet
    sleep 1000 & (setsid sleep 1000 &) ; (trap '' TERM; sleep 1000 & sleep 1000) &
    echo ready; exec >&-; sleep 1000";

#[test]
fn a_tree_that_forks_while_it_is_killed_is_emptied() {
    let Some(group) = group("hydra", &[Ability::KillAtOnce]) else { return };
    let all = group.groups.dirs.clone();
    let frozen_only: Vec<PathBuf> = all.iter().filter(|dir| dir.join("freezer.state").exists()).cloned().collect();
    for dirs in [&all, &frozen_only] {
        if dirs.is_empty() {
            testing::skip("no v1 freezer: only cgroup.kill was tested");
            continue;
        }
        // The comets end when this file is gone, whatever becomes of the test.
        let alive = tempfile::NamedTempFile::new().unwrap();
        let (mut running, mut out) = start(&group, HYDRA, alive.path());
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        assert!(group.procs().unwrap().len() >= 5);
        assert!(kill_everything(dirs).unwrap() >= 5);
        assert!(group.procs().unwrap().is_empty());
        assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
    }
}

#[test]
fn those_who_listen_to_sigterm_are_not_killed() {
    let Some(group) = group("polite", &[]) else { return };
    let (mut running, mut out) =
        start(&group, "trap 'exit 5' TERM; echo ready; exec >&-; while :; do sleep 0.01; done", Path::new(""));
    assert_eq!(say(&mut out), "ready\n");
    assert_eq!(group.kill_all(Duration::from_secs(600)).unwrap(), 0);
    assert_eq!(running.wait().unwrap().code, Some(5));
}

#[test]
fn those_who_do_not_are() {
    let Some(group) = group("deaf", &[]) else { return };
    let (mut running, mut out) =
        start(&group, "trap '' TERM; echo ready; exec >&-; while :; do sleep 1000; done", Path::new(""));
    assert_eq!(say(&mut out), "ready\n");
    assert!(group.kill_all(Duration::from_millis(10)).unwrap() >= 1);
    assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
    assert_eq!(group.kill_all(Duration::ZERO).unwrap(), 0, "nobody is left");
}

#[test]
fn groups_that_the_program_made_go_too() {
    let Some(group) = group("nested", &[]) else { return };
    let below = group.paths()[0].join("below");
    let script = "mkdir \"$0\"; echo 0 > \"$0/cgroup.procs\"; sleep 1000 >&- & echo ready; exec >&-; wait";
    let (running, mut out) = start(&group, script, &below);
    assert_eq!(say(&mut out), "ready\n");
    assert!(group.procs().unwrap().contains(&running.pid()));
    drop(group);
    assert!(!below.exists());
}

#[test]
fn what_a_killed_thaw_left_is_mended() {
    let Some(group) = group("left", &[]) else { return };
    let paths: Vec<PathBuf> = group.paths().iter().map(|path| path.to_path_buf()).collect();
    let (mut running, mut out) = start(&group, "sleep 1000 >&- & echo ready; exec >&-; wait", Path::new(""));
    assert_eq!(say(&mut out), "ready\n");
    // What `thaw doctor` does with the entry, here while its owner lives.
    remove(&paths).unwrap();
    assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
    assert!(paths.iter().all(|path| !path.exists()));
    remove(&paths).unwrap();
}

#[test]
fn other_peoples_groups_and_directories_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("thaw-not-a-group");
    fs::create_dir(&path).unwrap();
    assert!(remove(std::slice::from_ref(&path)).is_err());
    assert!(path.exists());
    if let Some(own) = hierarchies().unwrap().into_iter().find_map(|one| one.own) {
        assert!(remove(&[own]).is_err());
    }
}

#[test]
fn cpu_time_of_the_whole_tree_is_counted() {
    let Some(group) = group("burn", &[Ability::Cpu]) else { return };
    let script = "(i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done) & wait";
    let (mut running, _out) = start(&group, script, Path::new(""));
    running.wait().unwrap();
    let times = group.cpu().unwrap().unwrap();
    assert!(times.total > Nanos(0));
    assert!(times.user.0.abs_diff(times.total.0 - times.system.0) <= 2000, "{times:?}");
}

/// A file of 8 MiB on a disk, written out and evicted.
fn cold_file(dir: &Path) -> Option<fs::File> {
    let path = dir.join("data");
    fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    if !Path::new(&format!("/sys/dev/block/{}", dev_text(file.metadata().unwrap().dev()))).exists() {
        testing::skip("the temporary directory is not on a disk");
        return None;
    }
    evict(&file);
    Some(file)
}

fn evict(file: &fs::File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

fn resident(path: &Path) -> usize {
    // SAFETY: a private read-only mapping of a file that nobody truncates; mincore fills one byte per page.
    unsafe {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let len = file.metadata().unwrap().len() as usize;
        let map = rustix::mm::mmap(
            std::ptr::null_mut(),
            len,
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::PRIVATE,
            &file,
            0,
        )
        .unwrap();
        let mut pages = vec![0u8; len.div_ceil(4096)];
        assert_eq!(libc::mincore(map, len, pages.as_mut_ptr()), 0);
        rustix::mm::munmap(map, len).unwrap();
        pages.iter().filter(|page| **page & 1 == 1).count()
    }
}

#[test]
fn block_io_of_the_tree_is_counted() {
    let Some(group) = group("io", &[Ability::Io]) else { return };
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(_file) = cold_file(home.path()) else { return };
    let (mut running, _out) = start(&group, "cat \"$0\" >/dev/null", &home.path().join("data"));
    running.wait().unwrap();
    let io = group.io().unwrap().unwrap();
    let read: Bytes = io.iter().map(|io| io.read_bytes).sum();
    assert!(read >= Bytes(8 << 20), "{io:?}");
    assert!(io.iter().any(|io| io.read_requests > 0));
}

#[test]
fn limits_are_set_and_taken_away() {
    let Some(group) = group("throttle", &[Ability::Io]) else { return };
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let dev = fs::metadata(home.path()).unwrap().dev();
    let limits = Throttle { iops: Some(200), bps: Some(Bytes(30_000_000)) };
    if let Err(error) = group.throttle(dev, &limits) {
        return testing::skip(&error.to_string());
    }
    let disk = dev_text(whole_disk(dev));
    let shows = |file: &str| {
        fs::read_to_string(group.paths().iter().find(|dir| dir.join(file).exists()).unwrap().join(file)).unwrap()
    };
    match group.paths().iter().any(|dir| dir.join("blkio.throttle.read_iops_device").exists()) {
        true => {
            assert_eq!(shows("blkio.throttle.read_iops_device"), format!("{disk} 200\n"));
            assert_eq!(shows("blkio.throttle.read_bps_device"), format!("{disk} 30000000\n"));
            group.unthrottle(dev).unwrap();
            assert_eq!(shows("blkio.throttle.read_iops_device") + &shows("blkio.throttle.read_bps_device"), "");
        }
        false => {
            assert!(shows("io.max").contains("rbps=30000000") && shows("io.max").contains("riops=200"));
            group.unthrottle(dev).unwrap();
            assert_eq!(shows("io.max"), "");
        }
    }
    assert!(group.throttle(rustix::fs::makedev(0, 1), &limits).unwrap_err().hint.is_some(), "not a disk");
}

#[test]
fn reclaim_evicts_what_the_program_read_and_nothing_else() {
    let Some(group) = group("reclaim", &[Ability::Memory]) else { return };
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(theirs) = cold_file(home.path()) else { return };
    let (their_path, our_path) = (home.path().join("data"), home.path().join("ours"));
    fs::write(&our_path, vec![b'y'; 4 << 20]).unwrap();
    let ours = fs::File::open(&our_path).unwrap();
    ours.sync_all().unwrap();
    evict(&theirs);
    let (mut running, _out) = start(&group, "cat \"$0\" >/dev/null", &their_path);
    running.wait().unwrap();
    assert_eq!((resident(&their_path), resident(&our_path)), (2048, 1024));
    assert!(group.charged_cache().unwrap() >= Bytes(8 << 20));

    let done = group.reclaim().unwrap();
    assert!(done.before >= Bytes(8 << 20) && done.after < done.before, "{done:?}");
    assert_eq!((resident(&their_path), resident(&our_path)), (0, 1024));
}

#[test]
fn the_survey_leaves_nothing() {
    if !testing::root_or_skip() {
        return;
    }
    let (can, missing) = survey();
    assert!(!can.is_empty() || !missing.is_empty());
    let left = |one: Hierarchy| fs::read_dir(one.mount).into_iter().flatten().flatten();
    let mine = format!("{PREFIX}survey-{}-", std::process::id());
    assert!(
        !hierarchies()
            .unwrap()
            .into_iter()
            .flat_map(left)
            .any(|entry| entry.file_name().to_string_lossy().starts_with(&mine))
    );
}
