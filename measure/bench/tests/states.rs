//! The cache states are made and proven on real files, and leave other people's alone.

mod common;

use bench::base::BaseList;
use bench::conduct::{Host, Prepared, Verdict};
use bench::record::{Lab, LabOptions, Program};
use common::{actor, acts, alone, lab, part, scratch, start};
use model::{Bytes, CacheState, Exit, FileKind, FileOffset, Need, Owner, RunKind, WarningKind};
use os::cgroup::Ability;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: usize = 1 << 20;

fn make(directory: &Path, name: &str, len: usize) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, vec![b'x'; len]).unwrap();
    path
}

fn need(path: &Path, owner: Owner) -> Need {
    let len = path.metadata().unwrap().len();
    Need { path: path.to_owned(), kind: FileKind::Regular, owner, ranges: vec![(FileOffset(0), Bytes(len))] }
}

fn resident_share(path: &Path) -> f64 {
    let file = std::fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    os::cache::residency(&file, FileOffset(0), Bytes(len)).unwrap().share()
}

fn evict(path: &Path) {
    os::cache::evict(&std::fs::File::open(path).unwrap()).unwrap();
    assert_eq!(resident_share(path), 0.0);
}

fn prepare(lab: &mut Lab, state: CacheState) -> Prepared {
    lab.prepare(0, state, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn reader(files: &[&Path]) -> Program {
    let acts_of: Vec<&str> = files.iter().flat_map(|file| ["read", file.to_str().unwrap()]).collect();
    acts(&acts_of, &["exit"])
}

/// A lab with memory and I/O controllers whose program reads `own` and `system`, and knows that it needs them.
fn lab_of(own: &Path, system: &Path, options: LabOptions) -> Option<Lab> {
    lab_with(own, system, options, None)
}

fn lab_with(own: &Path, system: &Path, options: LabOptions, base_list: Option<BaseList>) -> Option<Lab> {
    if !testing::root_or_skip() {
        return None;
    }
    let program = Program { base_list, ..reader(&[own, system]) };
    let (mut lab, _) = Lab::open(vec![program], options).unwrap_or_else(|error| panic!("{error}"));
    if !lab.cgroup().is_some_and(|group| group.can(Ability::Memory) && group.can(Ability::Io)) {
        testing::skip("no memory or block I/O controller");
        return None;
    }
    lab.learn(0, vec![need(own, Owner::App), need(system, Owner::System)]);
    Some(lab)
}

/// Somebody who has a file mapped, all of it, for as long as this lives.
struct Holder(std::process::Child);

fn hold(path: &Path) -> Holder {
    let mut command = Command::new(actor());
    let mut child =
        command.arg("map").arg(path).args(["print", "mapped", "stay"]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    Holder(child)
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn cold_has_nothing_and_the_run_reads_it_all() {
    let _alone = alone();
    let place = scratch("cold");
    let (own, system) = (make(place.path(), "own", 3 * MIB), make(place.path(), "system", 2 * MIB));
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    let prepared = prepare(&mut lab, CacheState::Cold);
    assert_eq!(prepared.verdict, Verdict::InState);
    assert_eq!((prepared.own_share, prepared.system_share), (Some(0.0), Some(0.0)));
    let mut rows: Vec<_> = prepared.residency.iter().map(|row| (row.path.clone(), row.needed, row.resident)).collect();
    rows.sort();
    assert_eq!(rows, [(own, Bytes(3 << 20), Bytes(0)), (system, Bytes(2 << 20), Bytes(0))]);
    let row = start(&mut lab).row;
    assert!(row.accepted && row.read_bytes.unwrap().0 >= 5 << 20, "{row:?}");
}

#[test]
fn cold_that_cannot_be_reached_says_who_maps_what() {
    let _alone = alone();
    let place = scratch("held");
    let (own, system) = (make(place.path(), "own", 3 * MIB), make(place.path(), "system", MIB));
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    let holder = hold(&own);
    let prepared = prepare(&mut lab, CacheState::Cold);
    let pid = holder.0.id().to_string();
    drop(holder);
    let Verdict::NotInState(why) = prepared.verdict else { panic!("{prepared:?}") };
    let name = Path::new(actor()).file_name().unwrap().to_str().unwrap();
    assert!(why.contains(own.to_str().unwrap()) && why.contains(&pid) && why.contains(&name[..5]), "{why}");
    assert!(why.contains("75.0 %"), "{why}");
    // Nobody holds it any more.
    assert_eq!(prepare(&mut lab, CacheState::Cold).verdict, Verdict::InState);
}

#[test]
fn app_evicts_what_the_program_brought_in_and_nobody_elses() {
    let _alone = alone();
    let place = scratch("app");
    let (own, system) = (make(place.path(), "own", 3 * MIB), make(place.path(), "system", 2 * MIB));
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    // Somebody else's file, and one that the program reads too after somebody else did.
    let witness = make(place.path(), "witness", 2 * MIB);
    for file in [&own, &system, &witness] {
        evict(file);
    }
    assert!(Command::new(actor()).arg("read").arg(&witness).status().unwrap().success());
    assert!(start(&mut lab).row.accepted);
    assert_eq!([&own, &system, &witness].map(|file| resident_share(file)), [1.0; 3]);

    for round in 0..2 {
        let prepared = prepare(&mut lab, CacheState::App);
        assert_eq!(prepared.verdict, Verdict::InState, "round {round}");
        assert_eq!((prepared.own_share, prepared.system_share), (Some(0.0), Some(1.0)), "round {round}");
        assert_eq!([&own, &system, &witness].map(|file| resident_share(file)), [0.0, 1.0, 1.0], "round {round}");
        let read = start(&mut lab).row.read_bytes.unwrap().0 as usize;
        assert!((3 * MIB..5 * MIB).contains(&read), "round {round}: only its own is read again, {read} bytes");
    }
}

#[test]
fn app_evicts_the_metadata_of_what_the_program_brought_in() {
    let _alone = alone();
    let place = scratch("many");
    let directory = place.path().join("many");
    std::fs::create_dir(&directory).unwrap();
    for n in 0..1500 {
        make(&directory, &format!("file-{n:04}"), 4096);
    }
    // Inodes that the journal of the file system still holds stay in memory, whoever wants them out.
    rustix::fs::sync();
    if !testing::root_or_skip() {
        return;
    }
    let mounts = os::mounts::Mounts::load().unwrap();
    if mounts.of_path(place.path()).is_none_or(|mount| mount.fstype != "ext4") {
        testing::skip("how much metadata is read is known for ext4 only");
        return;
    }
    let script = format!("cat {}/* >/dev/null", directory.display());
    let mut lab = lab(vec![Program::new("sh", ["sh", "-c", &script])]);
    if !lab.cgroup().is_some_and(|group| group.can(Ability::Memory) && group.can(Ability::Io)) {
        testing::skip("no memory or block I/O controller");
        return;
    }
    let needs = std::fs::read_dir(&directory).unwrap().map(|entry| need(&entry.unwrap().path(), Owner::App)).collect();
    lab.learn(0, needs);
    assert_eq!(prepare(&mut lab, CacheState::Cold).verdict, Verdict::InState);
    start(&mut lab);
    assert_eq!(prepare(&mut lab, CacheState::App).verdict, Verdict::InState);
    let app = start(&mut lab).row.read_bytes.unwrap().0;
    // With data alone evicted, exactly the data is read. 1500 inodes of 256 bytes are metadata of 375 KiB at least.
    let data = 1500 * 4096;
    assert!(app >= data + 375 * 1024, "{app} bytes read, {data} of them data");
}

#[test]
fn what_thaw_puts_back_is_charged_to_the_run_and_evicted_with_it() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("charged");
    let live = place.path().join("live");
    std::fs::create_dir(&live).unwrap();
    let files: Vec<PathBuf> = (0..600).map(|n| make(&live, &format!("file-{n:03}"), 4096)).collect();
    let script = format!("for f in {0}/*; do echo more >> $f; done", live.display());
    let mut program = Program::new("sh", ["sh", "-c", &script]);
    program.restore = vec![live];
    let mut lab = lab(vec![program]);
    let Some(group) = lab.cgroup().filter(|group| group.can(Ability::Memory)) else {
        return testing::skip("no memory controller");
    };
    let before = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    group.reclaim().unwrap();
    lab.start(0, CacheState::Hot, RunKind::Timed, None, &mut |_| {}).unwrap();
    assert!(files[0].metadata().unwrap().len() > 4096);
    lab.cgroup().unwrap().reclaim().unwrap();
    // The restored files are new files that thaw writes.
    prepare(&mut lab, CacheState::Hot);
    assert!(files.iter().all(|file| file.metadata().unwrap().len() == 4096));
    let charged = lab.cgroup().unwrap().charged_cache().unwrap().0;
    assert!(charged >= 600 * 4096, "{charged} bytes are charged to the run");
    assert_eq!(std::fs::read_to_string("/proc/self/cgroup").unwrap(), before, "thaw is back where it was");
}

#[test]
fn app_holds_for_a_directory_that_is_put_back() {
    let _alone = alone();
    let place = scratch("profile");
    let live = place.path().join("live");
    std::fs::create_dir(&live).unwrap();
    let own = make(&live, "cookies", MIB);
    let system = make(place.path(), "system", MIB);
    if !testing::root_or_skip() {
        return;
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut program = acts(&["read", &text(&own), "append", &text(&own), "read", &text(&system)], &["exit"]);
    program.restore = vec![live.clone()];
    let mut lab = lab(vec![program]);
    lab.learn(0, vec![need(&own, Owner::App), need(&system, Owner::System)]);
    for round in 0..3 {
        let prepared = prepare(&mut lab, CacheState::App);
        assert_eq!(prepared.verdict, Verdict::InState, "round {round}");
        assert_eq!(own.metadata().unwrap().len() as usize, MIB, "round {round}");
        assert!(start(&mut lab).row.accepted);
    }
    assert!(own.metadata().unwrap().len() as usize > MIB);
    assert!(lab.close().is_empty());
    assert_eq!(own.metadata().unwrap().len() as usize, MIB);
}

#[test]
fn boot_has_the_base_list_and_nothing_of_the_program() {
    let _alone = alone();
    let place = scratch("boot");
    let (own, system) = (make(place.path(), "own", 2 * MIB), make(place.path(), "system", MIB));
    let base = make(place.path(), "base", MIB);
    let list = BaseList { file: "base.list".into(), paths: vec![base.clone()] };
    let Some(mut lab) = lab_with(&own, &system, LabOptions::default(), Some(list)) else { return };
    let prepared = prepare(&mut lab, CacheState::Boot);
    assert_eq!(prepared.verdict, Verdict::InState);
    assert_eq!([&own, &system, &base].map(|file| resident_share(file)), [0.0, 0.0, 1.0]);
    assert_eq!((prepared.own_share, prepared.system_share), (Some(0.0), Some(0.0)));
}

#[test]
fn boot_without_a_list_warms_the_systems_libraries() {
    let _alone = alone();
    let place = scratch("libraries");
    let (own, library) = (make(place.path(), "own.so", 2 * MIB), make(place.path(), "libsystem.so.1", MIB));
    let data = make(place.path(), "icons.dat", MIB);
    let Some(mut lab) = lab_of(&own, &library, LabOptions::default()) else { return };
    lab.learn(0, vec![need(&own, Owner::App), need(&library, Owner::System), need(&data, Owner::System)]);
    let prepared = prepare(&mut lab, CacheState::Boot);
    assert_eq!(prepared.verdict, Verdict::InState);
    assert_eq!([&own, &library, &data].map(|file| resident_share(file)), [0.0, 1.0, 0.0]);
    assert_eq!((prepared.own_share, prepared.system_share), (Some(0.0), Some(0.5)));
}

#[test]
fn hot_asks_for_a_warm_up_and_is_hot_after_it() {
    let _alone = alone();
    let place = scratch("hot");
    let (own, system) = (make(place.path(), "own", 2 * MIB), make(place.path(), "system", MIB));
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    evict(&own);
    let Verdict::NeedsWarmUp(why) = prepare(&mut lab, CacheState::Hot).verdict else { panic!() };
    assert!(why.contains("own 2.1 MB"), "{why}");
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    // Somebody else may drop the caches meanwhile: such a run does not count, and is repeated.
    for _ in 0..20 {
        let prepared = prepare(&mut lab, CacheState::Hot);
        if prepared.verdict == Verdict::InState {
            assert_eq!((prepared.own_share, prepared.system_share), (Some(1.0), Some(1.0)));
            let outcome = start(&mut lab);
            if outcome.disturbed.is_none() {
                assert_eq!(outcome.row.read_bytes, Some(Bytes(0)));
                return;
            }
        }
        lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    }
    panic!("no hot run was left alone");
}

#[test]
fn hot_has_also_what_only_a_colder_start_reads() {
    let _alone = alone();
    let place = scratch("first");
    let (own, system) = (make(place.path(), "own", MIB), make(place.path(), "system", MIB));
    let first = make(place.path(), "only-the-first-start-reads-this", MIB);
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    lab.learn(0, vec![need(&own, Owner::App), need(&first, Owner::App)]);
    evict(&first);
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    assert_eq!(resident_share(&first), 0.0);
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState);
    assert_eq!(resident_share(&first), 1.0);
}

#[test]
fn a_start_that_is_to_tell_what_is_needed_says_what_others_hold() {
    let _alone = alone();
    let place = scratch("learn");
    let own = make(place.path(), "own", 3 * MIB);
    if !testing::root_or_skip() {
        return;
    }
    let mut program = reader(&[&own]);
    program.dirs = vec![place.path().to_owned()];
    let mut lab = lab(vec![program]);
    let holder = hold(&own);
    let prepared = prepare(&mut lab, CacheState::Cold);
    drop(holder);
    assert_eq!(prepared.verdict, Verdict::Unproven);
    assert_eq!(prepared.warnings[0].kind, WarningKind::StaysResident);
    assert!(prepared.warnings[0].text.contains(own.to_str().unwrap()), "{:?}", prepared.warnings);
    assert!(prepare(&mut lab, CacheState::Cold).warnings.is_empty());
}

#[test]
fn nothing_is_proven_while_nothing_is_known() {
    let _alone = alone();
    let mut lab = lab(vec![acts(&["exit", "0"], &["exit"])]);
    assert!(matches!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::NeedsWarmUp(_)));
    start(&mut lab);
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::Unproven);
    assert_eq!(prepare(&mut lab, CacheState::App).verdict, Verdict::Unproven);
    assert!(matches!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::NeedsWarmUp(_)), "app emptied the caches");
}

#[test]
fn a_file_that_is_gone_is_needed_no_more() {
    let _alone = alone();
    let place = scratch("gone");
    let (own, system) = (make(place.path(), "own", MIB), make(place.path(), "system", MIB));
    let Some(mut lab) = lab_of(&own, &system, LabOptions::default()) else { return };
    let temporary = make(place.path(), "temporary", MIB);
    lab.learn(0, vec![need(&temporary, Owner::App)]);
    std::fs::remove_file(&temporary).unwrap();
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    let prepared = prepare(&mut lab, CacheState::Hot);
    assert_eq!((prepared.verdict, prepared.residency.len()), (Verdict::InState, 2), "the two that are left");
}

#[test]
fn read_ahead_and_throttle_are_set_and_put_back() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("disk");
    let Ok(disk) = os::disk::Disk::of_path(place.path()) else {
        testing::skip("the tests are on no disk");
        return;
    };
    let now = || std::fs::read_to_string(&disk.read_ahead_file).unwrap().trim().parse::<u64>().unwrap();
    let found = now();
    let options = LabOptions {
        disk_paths: vec![place.path().to_owned()],
        read_ahead_kib: Some(found / 2),
        throttle: Some(os::cgroup::Throttle { iops: Some(200), bps: None }),
        ..LabOptions::default()
    };
    let (mut lab, _) = match Lab::open(vec![acts(&["exit", "0"], &["exit"])], options) {
        Ok(opened) => opened,
        Err(error) if error.exit == Exit::Machine => return testing::skip(&error.to_string()),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(now(), found / 2);
    let limits = |lab: &Lab| -> String {
        let paths = lab.cgroup().unwrap().paths().into_iter().map(Path::to_owned).collect::<Vec<_>>();
        let files = ["blkio.throttle.read_iops_device", "io.max"];
        paths
            .iter()
            .flat_map(|path| files.map(|file| std::fs::read_to_string(path.join(file)).unwrap_or_default()))
            .collect()
    };
    start(&mut lab);
    assert!(limits(&lab).contains("200"), "a measured run is throttled: {:?}", limits(&lab));
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    assert!(!limits(&lab).contains("200"), "a warm-up is not: {:?}", limits(&lab));
    drop(lab);
    assert_eq!(now(), found);
}

fn start_in(lab: &mut Lab, state: CacheState) -> bench::conduct::Outcome {
    lab.start(0, state, RunKind::Timed, None, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_during_which_somebody_drops_the_caches_does_not_count() {
    let _alone = alone();
    let place = scratch("dropped");
    let own = make(place.path(), "own", 3 * MIB);
    if !testing::root_or_skip() {
        return;
    }
    // The somebody is the program itself.
    let script = format!("cat {} >/dev/null; echo 1 > /proc/sys/vm/drop_caches", own.display());
    let mut lab = common::lab(vec![Program::new("sh", ["sh", "-c", &script])]);
    lab.learn(0, vec![need(&own, Owner::App)]);
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    // What is dropped by others before the run is found by the residency.
    assert!(matches!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState | Verdict::NeedsWarmUp(_)));
    std::fs::read(&own).unwrap();
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState);
    let outcome = start(&mut lab);
    assert!(!outcome.row.accepted, "{outcome:?}");
    assert!(outcome.disturbed.unwrap().contains("dropped the machine's caches during the run"));
    assert!(outcome.row.rejected_because.unwrap().starts_with("not hot: somebody dropped"));
}

#[test]
fn a_hot_run_that_reads_from_the_disk_does_not_count() {
    let _alone = alone();
    let place = scratch("reads");
    // Much more than the shell and its libraries, which a cold start reads too.
    let (own, other) = (make(place.path(), "own", 24 * MIB), make(place.path(), "other", 2 * MIB));
    if !testing::root_or_skip() {
        return;
    }
    // Past the page cache, so in every run.
    let script = format!("cat {} >/dev/null; dd if={} of=/dev/null bs=1M iflag=direct", own.display(), other.display());
    let mut lab = common::lab(vec![Program::new("sh", ["sh", "-c", &script])]);
    if !lab.cgroup().is_some_and(|group| group.can(Ability::Io)) {
        return testing::skip("no block I/O controller");
    }
    lab.learn(0, vec![need(&own, Owner::App)]);
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState);
    let why = start_in(&mut lab, CacheState::Hot).disturbed.unwrap();
    assert!(why.contains("it read 2.1 MB from the disk"), "{why}");
    // Cold, it may read as much as it likes, and must read at least half of what it needs.
    assert_eq!(prepare(&mut lab, CacheState::Cold).verdict, Verdict::InState);
    assert_eq!(start_in(&mut lab, CacheState::Cold).disturbed, None);
    assert_eq!(prepare(&mut lab, CacheState::Cold).verdict, Verdict::InState);
    // Somebody else reads it before the program can, and the program reads nothing else.
    std::fs::read(&own).unwrap();
    std::fs::write(&other, "").unwrap();
    let why = start_in(&mut lab, CacheState::Cold).disturbed.unwrap();
    assert!(why.contains("25.2 MB that a start needs were not in memory"), "{why}");
}

#[test]
fn a_run_under_another_read_ahead_does_not_count_and_the_next_has_the_right_one() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("changed");
    let Ok(disk) = os::disk::Disk::of_path(place.path()) else { return testing::skip("the tests are on no disk") };
    let found = disk.read_ahead_kb;
    let script = format!("echo {} > {}", found / 2, disk.read_ahead_file.display());
    let disk_paths = vec![place.path().to_owned()];
    let options = LabOptions { disk_paths, keep_read_ahead: true, ..LabOptions::default() };
    let (mut lab, _) = Lab::open(vec![Program::new("sh", ["sh", "-c", &script])], options).unwrap();
    lab.start(0, CacheState::Hot, RunKind::Warmup, None, &mut |_| {}).unwrap();
    lab.learn(0, vec![need(Path::new("/bin/sh"), Owner::System)]);
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState);
    let now = || std::fs::read_to_string(&disk.read_ahead_file).unwrap().trim().parse::<u64>().unwrap();
    assert_eq!(now(), found, "what the warm-up changed was set again");
    let why = start(&mut lab).disturbed;
    prepare(&mut lab, CacheState::Hot);
    assert_eq!(now(), found);
    let why = why.unwrap();
    assert!(why.contains("the read-ahead of") && why.contains(&format!("made at '{found}'")), "{why}");
}

#[test]
fn without_rights_hot_and_app_work_and_cold_says_what_it_needs() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("nobody");
    let nobody = 65534;
    std::os::unix::fs::chown(place.path(), Some(nobody), Some(nobody)).unwrap();
    let told = part("part_without_rights")
        .env("THAW_TEST_ACTOR", actor())
        .env("PLACE", place.path())
        .env("THAW_STATE_DIR", place.path().join("state"))
        .env("HOME", place.path())
        .uid(nobody)
        .gid(nobody)
        .output();
    match told {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            testing::skip("nobody cannot execute the tests where they are built");
        }
        told => {
            let told = told.unwrap();
            assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        }
    }
}

#[test]
#[ignore = "a part of another test: it is run by a user without rights"]
fn part_without_rights() {
    let _alone = alone();
    let place = PathBuf::from(std::env::var_os("PLACE").unwrap());
    let own = make(&place, "own", MIB);
    let (mut lab, warnings) = Lab::open(vec![reader(&[&own])], LabOptions::default()).unwrap();
    assert!(warnings.iter().any(|warning| warning.kind == WarningKind::NoControl), "{warnings:?}");
    assert_eq!(lab.learning_state(), CacheState::App);
    lab.learn(0, vec![need(&own, Owner::App), need(Path::new("/bin/sh"), Owner::System)]);
    let prepared = prepare(&mut lab, CacheState::App);
    assert_eq!((&prepared.verdict, prepared.own_share), (&Verdict::InState, Some(0.0)));
    assert!(prepared.warnings.iter().any(|warning| warning.text.contains("not their metadata")));
    let row = start(&mut lab).row;
    assert!(row.accepted && row.max_rss.0 > 0, "{row:?}");
    assert_eq!(prepare(&mut lab, CacheState::Hot).verdict, Verdict::InState);
    let error = lab.prepare(0, CacheState::Cold, &mut |_| {}).unwrap_err();
    assert!(error.exit == Exit::Machine && error.hint.is_some(), "{error}");

    // Nobody survives without a control group either.
    let pidfile = place.join("pid");
    let name = pidfile.to_str().unwrap();
    let mut program = acts(&["daemon", name], &[&format!("file:{name}")]);
    program.grace = std::time::Duration::from_millis(50);
    let outcome = start(&mut common::lab(vec![program]));
    assert!(outcome.row.accepted, "{outcome:?}");
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert!(!common::is_alive(&pid), "process {pid} is still there");
}
