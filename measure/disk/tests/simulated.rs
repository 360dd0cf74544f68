//! A disk that can be chosen, for real: needs root, FUSE, loop devices and mkfs.ext4. Nothing here looks at a clock:
//! what the disk did is read from its own accounts.

use disk::model::{Direction, Drive, How, Kind, Model};
use disk::preset::Presets;
use disk::simulated::{Image, Options, Pace, Record, Simulated};
use model::{Bytes, Nanos};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A disk with the tests' own figures: quick enough for many tests, slow enough to tell its times from none.
fn quick() -> Model {
    let mut model = Presets::builtin().get("laptop2010").unwrap().model.clone();
    model.name = "quick".into();
    model.overhead = Nanos(model.overhead.0 / 20);
    model.zones[0].rate *= 10.0;
    if let Kind::Rotating(arm) = &mut model.kind {
        arm.half_turn = Nanos(arm.half_turn.0 / 20);
        arm.interface *= 10.0;
    }
    model
}

fn options(items: &[&Path]) -> Options {
    Options {
        model: quick(),
        items: items.iter().map(|item| item.to_path_buf()).collect(),
        image: Image::Memory,
        read_ahead_kib: 128,
    }
}

/// A read-ahead that nobody else sets.
const ODD_READ_AHEAD: u64 = 92;

/// thaw's state belongs to these tests alone.
fn own_state() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("THAW_STATE_DIR").is_none() {
            let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", std::process::id()));
            // SAFETY: every test calls this first, before it reads the environment, and std has a lock of its own.
            unsafe { std::env::set_var("THAW_STATE_DIR", state) };
        }
    });
}

/// Tests that look at what is left behind must be alone: another one's disk may get the same loop device.
static PLACE: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    PLACE.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    PLACE.write().unwrap_or_else(PoisonError::into_inner)
}

/// `None`: the test is counted as skipped.
fn make(options: &Options) -> Option<Simulated> {
    own_state();
    if !testing::root_or_skip() {
        return None;
    }
    for needed in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(needed).exists() {
            testing::skip(&format!("no {needed}"));
            return None;
        }
    }
    match Simulated::create(options) {
        Err(error) if error.object == "mkfs.ext4" => {
            testing::skip("no mkfs.ext4");
            None
        }
        made => Some(made.unwrap().0),
    }
}

/// Contents that are the same nowhere.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = stats::Random::from_seed(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_ne_bytes()).take(len).collect()
}

fn reads(records: &[Record]) -> Vec<Record> {
    records.iter().filter(|record| record.ask.direction == Direction::Read).copied().collect()
}

/// Everything of the machine that a disk could leave behind.
fn traces_of(device: &Path, server: u32) -> Vec<String> {
    let mut left = Vec::new();
    let name = device.file_name().unwrap().to_str().unwrap();
    let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
    if backing.exists() {
        left.push(format!("{} is attached to {:?}", device.display(), fs::read_to_string(backing)));
    }
    if fs::read_to_string("/proc/self/mountinfo").unwrap().contains(device.to_str().unwrap()) {
        left.push(format!("{} is mounted", device.display()));
    }
    let read_ahead = fs::read_to_string(Path::new("/sys/block").join(name).join("queue/read_ahead_kb")).unwrap();
    if read_ahead.trim() == ODD_READ_AHEAD.to_string() {
        left.push(format!("{} has our read-ahead", device.display()));
    }
    if os::process::stat(server).is_some_and(|stat| stat.comm == "thaw-disk" && stat.state != 'Z') {
        left.push(format!("the server {server} runs"));
    }
    left
}

#[test]
fn what_is_read_takes_as_long_as_the_model_says() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("library.so");
    fs::write(&file, noise(1, 6 << 20)).unwrap();
    let Some(mut disk) = make(&options(&[home.path()])) else { return };
    disk.forget_log().unwrap();
    disk.pace(Pace::Model).unwrap();
    let copy = disk.root().join(file.strip_prefix("/").unwrap());
    assert_eq!(fs::read(copy).unwrap(), fs::read(&file).unwrap(), "the contents are the same");
    disk.pace(Pace::Free).unwrap();

    let records = disk.log().unwrap();
    let bytes: Bytes = reads(&records).iter().map(|record| record.ask.len).sum();
    assert!(bytes >= Bytes(6 << 20), "{bytes}");
    // The same requests on the same model, from outside.
    let mut drive = Drive::new(quick(), Bytes(0));
    let mut arrived = records.clone();
    arrived.sort_by_key(|record| record.service.unwrap().start);
    for record in &arrived {
        let service = drive.serve(record.arrival, &record.ask);
        assert_eq!(record.service, Some(service));
        assert!(record.replied >= service.done, "answered before its time");
    }
    let busy: Nanos = records.iter().map(|record| record.service.unwrap().took()).sum();
    let at_least = 6.0 * 1048576.0 / 300e6;
    assert!(busy.seconds() > at_least, "{busy} for 6 MiB at 300 MB/s");
    disk.finish().unwrap();
}

#[test]
fn the_kernels_read_ahead_is_the_chosen_one() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("library.so");
    fs::write(&file, noise(2, 8 << 20)).unwrap();
    for (read_ahead_kib, least, most) in [(0u64, 4, 4), (128, 64, 128), (1024, 512, 1024)] {
        let Some(mut disk) = make(&Options { read_ahead_kib, ..options(&[home.path()]) }) else { return };
        disk.forget_log().unwrap();
        disk.pace(Pace::Recorded).unwrap();
        let copy = disk.root().join(file.strip_prefix("/").unwrap());
        let place = places(&copy).remove(0);
        let copy = fs::File::open(copy).unwrap();
        let mut page = [0; 4096];
        for at in 0..1024u64 {
            std::os::unix::fs::FileExt::read_exact_at(&copy, &mut page, at * 4096).unwrap();
        }
        drop(copy);
        // Not the inode tables: ext4 has a read-ahead of its own for them.
        let records = reads(&disk.log().unwrap());
        let data = records.iter().filter(|record| place.contains(&record.ask.disk.0));
        let largest = data.map(|record| record.ask.len.0 >> 10).max().unwrap();
        assert!((least..=most).contains(&largest), "{largest} KiB at once with {read_ahead_kib} KiB of read-ahead");
        disk.finish().unwrap();
    }
}

#[test]
fn cooling_makes_files_and_their_metadata_cold_again() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("deep/er/file");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, noise(3, 100_000)).unwrap();
    let Some(mut disk) = make(&options(&[home.path()])) else { return };
    let copy = Path::new(file.strip_prefix("/").unwrap());
    let asked = |disk: &mut Simulated| {
        disk.forget_log().unwrap();
        disk.pace(Pace::Recorded).unwrap();
        fs::read(disk.root().join(copy)).unwrap();
        reads(&disk.log().unwrap()).iter().map(|record| (record.ask.disk, record.ask.len)).collect::<Vec<_>>()
    };
    let cold = asked(&mut disk);
    assert!(cold.len() > 4, "directories, inodes and data: {cold:?}");
    assert_eq!(asked(&mut disk), [], "everything is in the cache now");
    disk.cool().unwrap();
    assert_eq!(asked(&mut disk), cold);
}

#[test]
fn what_somebody_still_uses_is_not_called_cold() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "x").unwrap();
    let Some(mut disk) = make(&options(&[home.path()])) else { return };
    use std::os::unix::process::CommandExt;
    let namespace = disk.namespace().unwrap();
    let mut command = std::process::Command::new("sleep");
    command.arg("infinity");
    // SAFETY: `enter` makes system calls on prepared memory only.
    unsafe { command.pre_exec(move || namespace.enter().map_err(std::io::Error::from_raw_os_error)) };
    let mut sleeper = command.spawn().unwrap();
    let error = disk.restore().unwrap_err();
    assert!(error.object.contains(&sleeper.id().to_string()), "{error}");
    assert!(disk.root().join(home.path().strip_prefix("/").unwrap()).join("file").exists(), "it can still be used");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    disk.restore().unwrap();
}

/// A tree as text.
fn picture(root: &Path) -> Vec<String> {
    fn walk(root: &Path, at: &Path, out: &mut Vec<String>) {
        let meta = fs::symlink_metadata(at).unwrap();
        let kind = meta.file_type();
        let what = match () {
            () if kind.is_symlink() => format!("-> {}", fs::read_link(at).unwrap().display()),
            () if kind.is_file() => {
                let bytes = fs::read(at).unwrap();
                let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                format!("{} bytes {sum:x} links {}", bytes.len(), meta.nlink())
            }
            () => "other".into(),
        };
        let mut attribute = [0; 64];
        let len = rustix::fs::lgetxattr(at, "user.thaw", &mut attribute[..]).unwrap_or(0);
        out.push(format!(
            "{} {what} {:o} {}:{} {}.{:09} {:?}",
            at.strip_prefix(root).unwrap().display(),
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            &attribute[..len],
        ));
        if kind.is_dir() {
            let mut names: Vec<PathBuf> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.sort();
            names.iter().for_each(|name| walk(root, name, out));
        }
    }
    let mut out = Vec::new();
    walk(root, root, &mut out);
    out
}

#[test]
fn copies_look_like_their_originals_and_lie_in_one_piece() {
    let _place = among_others();
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let app = home.path().join("app");
    fs::create_dir_all(app.join("lib/deep")).unwrap();
    fs::write(app.join("lib/big.so"), noise(4, 20 << 20)).unwrap();
    fs::write(app.join("lib/deep/small"), "x").unwrap();
    fs::hard_link(app.join("lib/deep/small"), app.join("same")).unwrap();
    std::os::unix::fs::symlink("lib/big.so", app.join("link")).unwrap();
    fs::set_permissions(app.join("lib/deep/small"), fs::Permissions::from_mode(0o4751)).unwrap();
    std::os::unix::fs::chown(app.join("lib/deep"), Some(65534), Some(7)).unwrap();
    let with_attributes =
        rustix::fs::lsetxattr(app.join("same"), "user.thaw", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let holes = fs::File::create(app.join("holes")).unwrap();
    holes.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, &noise(5, 8192), 32 << 20).unwrap();
    let single = home.path().join("single");
    fs::write(&single, "a file on its own").unwrap();

    let Some(disk) = make(&options(&[&app, &single, &app.join("lib")])) else { return };
    let below = |path: &Path| disk.root().join(path.strip_prefix("/").unwrap());
    assert_eq!(picture(&app), picture(&below(&app)));
    assert_eq!(
        with_attributes,
        picture(&app)[1..].iter().any(|line| line.contains("107")),
        "the attribute was looked at"
    );
    assert_eq!(fs::read(below(&single)).unwrap(), b"a file on its own");
    assert!(fs::metadata(below(&app.join("holes"))).unwrap().blocks() * 512 < 1 << 20, "the hole is a hole");
    assert_eq!(disk.copied().files, 4);
    assert_eq!(places(&below(&app.join("lib/big.so"))).len(), 1);
}

/// Where on the disk a file lies (FIEMAP): ranges that do not touch.
fn places(path: &Path) -> Vec<std::ops::Range<u64>> {
    let file = fs::File::open(path).unwrap();
    let mut places: Vec<std::ops::Range<u64>> = Vec::new();
    for extent in os::extents::extents(&file).unwrap() {
        let start = extent.disk.unwrap().0;
        match places.last_mut() {
            Some(last) if last.end == start => last.end += extent.len.0,
            _ => places.push(start..start + extent.len.0),
        }
    }
    places
}

#[test]
fn a_program_sees_the_copies_in_its_own_namespace_and_nobody_else_does() {
    let _place = alone();
    use std::os::unix::process::CommandExt;
    let home = tempfile::tempdir().unwrap();
    let app = home.path().join("app");
    fs::create_dir(&app).unwrap();
    fs::write(app.join("file"), "original").unwrap();
    let Some(mut disk) = make(&Options { read_ahead_kib: ODD_READ_AHEAD, ..options(&[&app]) }) else { return };
    fs::write(app.join("file"), "changed since").unwrap();
    let before = fs::read("/proc/self/mountinfo").unwrap();
    let namespace = disk.namespace().unwrap();
    disk.pace(Pace::Recorded).unwrap();
    disk.forget_log().unwrap();
    let mut command = std::process::Command::new("cat");
    command.arg(app.join("file"));
    let inside = namespace.clone();
    // SAFETY: `enter` makes system calls on prepared memory only.
    unsafe { command.pre_exec(move || inside.enter().map_err(std::io::Error::from_raw_os_error)) };
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "original");
    assert!(!reads(&disk.log().unwrap()).is_empty(), "it came from the disk");
    assert_eq!(before, fs::read("/proc/self/mountinfo").unwrap());
    assert_eq!(fs::read_to_string(app.join("file")).unwrap(), "changed since");
    assert_eq!(fs::read_dir(namespace.staging()).unwrap().count(), 0, "what is mounted there is seen inside only");
    let (device, server) = (disk.device().to_path_buf(), disk.server_pid());
    disk.finish().unwrap();
    assert_eq!(traces_of(&device, server), [""; 0]);
}

/// Not a test: makes a disk, says where, and waits to be killed. With a second item it runs a program from the disk.
#[test]
#[ignore = "started by other tests"]
fn owner() {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    let Some(items) = std::env::var_os("THAW_TEST_ITEM") else { return };
    let item = PathBuf::from(items);
    let disk = make(&Options { read_ahead_kib: ODD_READ_AHEAD, ..options(&[&item]) }).unwrap();
    let namespace = disk.namespace().unwrap();
    let mut program = std::process::Command::new("sleep");
    program.arg("infinity").current_dir(&item).stdin(std::process::Stdio::null());
    let inside = std::ffi::CString::new(item.to_str().unwrap()).unwrap();
    // SAFETY: `enter` and `chdir` are system calls on prepared memory.
    unsafe {
        program.pre_exec(move || {
            namespace.enter().map_err(std::io::Error::from_raw_os_error)?;
            libc::chdir(inside.as_ptr());
            Ok(())
        })
    };
    let survivor = match std::env::var_os("THAW_TEST_SURVIVOR") {
        Some(_) => program.spawn().unwrap().id(),
        None => 0,
    };
    // On a line of its own: the harness prints as well.
    println!("\ndisk {} {} {survivor}", disk.device().display(), disk.server_pid());
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

struct Killed {
    device: PathBuf,
    server: u32,
    server_pidfd: std::os::fd::OwnedFd,
    survivor: u32,
    state: tempfile::TempDir,
    _item: tempfile::TempDir,
}

fn pidfd(pid: u32) -> std::os::fd::OwnedFd {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

/// Waits without limit: what never ends is to be seen.
fn wait_for_end(process: &std::os::fd::OwnedFd) {
    let mut polled = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    while rustix::event::poll(&mut polled, None).is_err() {}
}

/// Has another process make a disk, and kills it.
fn kill_an_owner(survivor: bool) -> Option<Killed> {
    use std::io::BufRead;
    drop(make(&options(&[]))?);
    let (item, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(item.path().join("file"), noise(8, 100_000)).unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "owner", "--nocapture"]);
    command.env("THAW_TEST_ITEM", item.path()).env("THAW_STATE_DIR", state.path());
    if survivor {
        command.env("THAW_TEST_SURVIVOR", "yes");
    }
    let mut owner = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufReader::new(owner.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("disk ").map(str::to_owned)).unwrap();
    let words: Vec<_> = said.split(' ').collect();
    let (device, server) = (PathBuf::from(words[0]), words[1].parse().unwrap());
    assert!(!traces_of(&device, server).is_empty(), "there is a disk");
    let server_pidfd = pidfd(server);
    owner.kill().unwrap();
    owner.wait().unwrap();
    Some(Killed { device, server, server_pidfd, survivor: words[2].parse().unwrap(), state, _item: item })
}

#[test]
fn a_killed_thaw_leaves_nothing_that_is_not_mended() {
    let _place = alone();
    let Some(killed) = kill_an_owner(false) else { return };
    // Nobody has the disk any more, so it goes by itself.
    wait_for_end(&killed.server_pidfd);
    let journal = os::journal::Journal::at(killed.state.path());
    let leftovers = journal.leftovers().unwrap();
    assert!(leftovers.len() >= 3, "the settings and the server: {leftovers:?}");
    for leftover in &leftovers {
        os::journal::mend(leftover).unwrap();
    }
    assert_eq!(traces_of(&killed.device, killed.server), [""; 0]);
    assert_eq!(journal.leftovers().unwrap(), []);
}

#[test]
fn a_program_that_survives_thaw_keeps_the_disk_until_it_is_mended() {
    let _place = alone();
    let Some(killed) = kill_an_owner(true) else { return };
    let survivor = pidfd(killed.survivor);
    let served = fs::read_to_string(format!("/proc/{}/mountinfo", killed.survivor)).unwrap();
    assert!(served.contains(killed.device.to_str().unwrap()), "it still has the disk");
    let journal = os::journal::Journal::at(killed.state.path());
    for leftover in journal.leftovers().unwrap() {
        os::journal::mend(&leftover).unwrap();
    }
    wait_for_end(&killed.server_pidfd);
    // In the product its control group is killed as well; here it is up to us.
    rustix::process::pidfd_send_signal(&survivor, rustix::process::Signal::KILL).unwrap();
    wait_for_end(&survivor);
    // The kernel closes the last file system behind the back of the dying process.
    while !traces_of(&killed.device, killed.server).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(journal.leftovers().unwrap(), []);
}

/// Not a test by itself: started by the next one, in a process of its own.
#[test]
#[ignore = "started by another test"]
fn inside() {
    let Some(item) = std::env::var_os("THAW_TEST_ITEM").map(PathBuf::from) else { return };
    // The harness has a second thread, which only waits; a forked child has none.
    // SAFETY: the other thread waits for this test, it holds no lock that the child needs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(|| enter_and_leave(&item));
        // SAFETY: ends the child without the harness's farewell, which is the parent's.
        unsafe { libc::_exit(done.is_err().into()) };
    }
    let mut status = 0;
    // SAFETY: a child of ours; writes into a local variable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

fn enter_and_leave(item: &Path) {
    std::env::set_current_dir(item).unwrap();
    let mut disk = make(&options(&[item])).unwrap();
    fs::write(item.join("file"), "changed since").unwrap();
    disk.enter().unwrap();
    let mut seen = vec![fs::read_to_string(item.join("file")).unwrap(), fs::read_to_string("file").unwrap()];
    fs::write(item.join("file"), "written by the program").unwrap();
    disk.restore().unwrap();
    seen.push(fs::read_to_string(item.join("file")).unwrap());
    seen.push(fs::read_to_string("file").unwrap());
    let staged = disk.namespace().unwrap();
    let path = staged.staging().join(item.join("file").strip_prefix("/").unwrap());
    assert!(path.exists());
    assert_eq!(staged.original(&path), item.join("file"));
    let (device, server) = (disk.device().to_path_buf(), disk.server_pid());
    disk.finish().unwrap();
    // The current directory went along, there and back.
    seen.push(fs::read_to_string("file").unwrap());
    assert_eq!(seen, ["original", "original", "original", "original", "changed since"]);
    assert_eq!(traces_of(&device, server), [""; 0]);
}

#[test]
fn thaw_itself_can_enter_and_leave() {
    let _place = alone();
    if make(&options(&[])).is_none() {
        return;
    }
    let item = tempfile::tempdir().unwrap();
    fs::write(item.path().join("file"), "original").unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "inside", "--nocapture"]).env("THAW_TEST_ITEM", item.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(item.path().join("file")).unwrap(), "changed since");
    let mut disk = make(&options(&[])).unwrap();
    assert!(disk.enter().unwrap_err().what.contains("threads"), "the tests have several");
}

#[test]
fn writes_reach_the_disk_and_stay_there() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("profile"), "old").unwrap();
    let Some(mut disk) = make(&options(&[home.path()])) else { return };
    disk.pace(Pace::Model).unwrap();
    disk.forget_log().unwrap();
    let place = disk.root().join(home.path().strip_prefix("/").unwrap());
    let content = noise(6, 3 << 20);
    fs::write(place.join("profile"), &content).unwrap();
    fs::File::open(place.join("profile")).unwrap().sync_all().unwrap();
    let written: Bytes = disk
        .log()
        .unwrap()
        .iter()
        .filter(|record| record.ask.direction == Direction::Write)
        .map(|record| record.ask.len)
        .sum();
    assert!(written >= Bytes(3 << 20), "{written}");
    disk.cool().unwrap();
    let place = disk.root().join(home.path().strip_prefix("/").unwrap());
    assert_eq!(fs::read(place.join("profile")).unwrap(), content);
}

#[test]
fn every_run_can_find_the_same_disk() {
    let _place = among_others();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("profile"), noise(9, 1 << 20)).unwrap();
    let Some(mut disk) = make(&options(&[home.path()])) else { return };
    let below = |disk: &Simulated| disk.root().join(home.path().strip_prefix("/").unwrap());
    let sectors = |disk: &Simulated| {
        // Past the file system: places and contents of everything that it keeps, without where it notes when it was
        // mounted.
        let mut asked = Vec::new();
        for name in ["profile", "grown"] {
            let path = below(disk).join(name);
            asked.push((fs::read(&path).ok(), path.exists().then(|| places(&path))));
        }
        asked
    };
    let before = sectors(&disk);
    for round in 0..2 {
        fs::write(below(&disk).join("profile"), noise(10 + round, 3 << 20)).unwrap();
        fs::write(below(&disk).join("grown"), noise(20 + round, 5 << 20)).unwrap();
        disk.cool().unwrap();
        assert_ne!(sectors(&disk), before, "cooling keeps what was written");
        disk.restore().unwrap();
        assert_eq!(sectors(&disk), before);
    }
}

#[test]
fn flash_is_a_disk_too_and_a_file_an_image() {
    let _place = among_others();
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(home.path().join("file"), noise(7, 1 << 20)).unwrap();
    let model = Presets::builtin().get("microsd").unwrap().model.clone();
    let image = Image::File(env!("CARGO_TARGET_TMPDIR").into());
    let Some(mut disk) = make(&Options { model, image, ..options(&[home.path()]) }) else { return };
    disk.pace(Pace::Model).unwrap();
    fs::read(disk.root().join(home.path().strip_prefix("/").unwrap()).join("file")).unwrap();
    let records = disk.log().unwrap();
    assert!(records.iter().all(|record| record.service.unwrap().how == How::Flash));
    assert!(records.iter().all(|record| record.replied >= record.service.unwrap().done));
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_made() {
    let _place = among_others();
    if !testing::root_or_skip() {
        return;
    }
    let refused = |items: &[&Path]| Simulated::create(&options(items)).unwrap_err();
    assert!(refused(&[Path::new("/")]).to_string().contains("cannot cover"));
    assert!(refused(&[Path::new("/no/such/program")]).to_string().contains("/no/such/program"));
    let mut small = options(&[Path::new("/usr/bin")]);
    small.model.capacity = Bytes(1 << 20);
    assert!(Simulated::create(&small).unwrap_err().hint.unwrap().contains("larger disk"));
}
