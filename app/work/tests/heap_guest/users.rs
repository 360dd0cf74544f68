//! Processes of other users than the recorder's: recorded ones get their streams, all others get nowhere.

use super::{Bench, Recorded};
use heapfile::reader::Reader;
use heaprec::record::{self, Keep, Phase, Plan};
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix};
use rustix::net::{SocketFlags, SocketType};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use testing::{Rival, SECOND_USER};

/// A bench whose folder, with a copy of the guest, other users reach; `None` (counted as skipped): not root.
fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    fs::set_permissions(bench.folder.path(), Permissions::from_mode(0o755)).unwrap();
    testing::copy_program(bench.agent, bench.path(record::AGENT));
    testing::root_or_skip().then_some(bench)
}

fn plan(bench: &Bench, script: &str) -> Plan {
    let mut plan = bench.plan(["sh", "-c", script].map(OsString::from).to_vec());
    plan.agent = bench.path(record::AGENT);
    plan
}

/// A root-only file: path, content, mode, owner and links must stay.
struct Canary(PathBuf);

impl Canary {
    const TEXT: &str = "root's";

    fn new(bench: &Bench) -> Self {
        let path = bench.path("canary");
        fs::write(&path, Self::TEXT).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self(path)
    }

    #[track_caller]
    fn is_whole(&self) {
        let about = self.0.metadata().unwrap();
        assert_eq!(fs::read_to_string(&self.0).unwrap(), Self::TEXT);
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (0, 0, 0o600));
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Runs `id` as the second user, after a shell that is root.
const GIVES_UP_ROOT: &str =
    "setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '(id; id) >/dev/null; id -u'; true";

#[test]
fn children_that_give_up_root_are_recorded_in_a_directory_that_nobody_else_may_write() {
    let Some(bench) = bench() else { return };
    let plan = plan(&bench, GIVES_UP_ROOT);
    let mut during = 0;
    let recording = record::run(&plan, "test", &mut |phase| {
        if matches!(phase, Phase::Running(_)) {
            during = mode(&plan.output);
        }
    });
    recording.unwrap();
    assert_eq!((during, mode(&plan.output)), (0o711, 0o700));
    let reader = Reader::open(&plan.output).unwrap();
    let ids = reader.processes().iter().filter(|process| process.exe.ends_with("id")).count();
    assert_eq!(ids, 3, "{:?} {:?}", reader.processes(), reader.warnings());
    assert!(reader.warnings().is_empty() && reader.recording().unseen.is_empty(), "{:?}", reader.warnings());
    for process in reader.processes() {
        assert_eq!((process.file.metadata().unwrap().uid(), mode(&process.file)), (0, 0o600));
    }
}

#[test]
fn sums_of_children_that_give_up_root_are_made_too() {
    let Some(bench) = bench() else { return };
    let plan = Plan { keep: Keep::Sums { ahead: Keep::AHEAD }, ..plan(&bench, GIVES_UP_ROOT) };
    let recorded = Recorded::of(&plan);
    let ids = recorded.reader.processes().iter().filter(|process| process.exe.ends_with("id")).count();
    assert_eq!(ids, 3, "{:?}", recorded.reader.warnings());
}

/// Asks for a stream of process 1. `None`: there is no desk, or it is closed meanwhile.
fn ask_desk(path: &Path) -> Option<[u8; 8]> {
    let desk = net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    net::connect(&desk, &SocketAddrUnix::new(path).unwrap()).ok()?;
    let (ours, theirs) =
        net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let files = [theirs.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
    let request = IoSlice::new(&[1, 1, 0, 0, 0, 0, 0, 0, 0]);
    net::sendmsg(&desk, &[request], &mut beside, SendFlags::NOSIGNAL).ok()?;
    drop(theirs);
    let mut answer = [0; 8];
    (rustix::io::read(&ours, &mut answer) == Ok(8)).then_some(answer)
}

#[test]
fn a_user_beside_a_recording_plants_nothing_in_it() {
    let Some(bench) = bench() else { return };
    let canary = Canary::new(&bench);
    let plan = plan(&bench, "for i in 1 2 3 4 5 6 7 8; do sleep 0.1; sort /etc/passwd >/dev/null; done");
    let (output, secret) = (plan.output.clone(), canary.0.clone());
    let mut number = 1;
    let refused = Arc::new(AtomicU32::new(0));
    let counted = refused.clone();
    let rival = Rival::new(SECOND_USER, move || {
        let at = |name: &str| output.join(name);
        let _ = std::os::unix::fs::symlink(&secret, at(&format!("{number}-0.stream")));
        let _ = fs::hard_link(&secret, at(&format!("{number}-1.stream")));
        let _ = fs::create_dir(at(&format!("{number}-2.stream")));
        let _ = fs::write(at("executed"), "1 1 /bin/planted\0");
        let _ = fs::rename(at("recording.json"), at("other"));
        // The desk answers only those whom thaw recorded.
        if let Some(answer) = ask_desk(&at("desk")) {
            assert_eq!(answer[0], 13, "the desk gave {answer:?}");
            counted.fetch_add(1, Relaxed);
        }
        number += 1;
    });
    let recorded = Recorded::of(&plan);
    assert!(rival.end() > 0 && refused.load(Relaxed) > 0);
    canary.is_whole();
    assert!(recorded.reader.warnings().is_empty(), "{:?}", recorded.reader.warnings());
    let sorts = recorded.reader.processes().iter().filter(|process| process.exe.ends_with("sort")).count();
    assert_eq!(sorts, 8);
}

#[test]
fn what_was_planted_is_left_out_with_the_reason() {
    let Some(bench) = bench() else { return };
    let canary = Canary::new(&bench);
    let mut plan = plan(&bench, "true");
    plan.keep = Keep::Events;
    record::run(&plan, "test", &mut |_| {}).unwrap();
    let at = |name: &str| plan.output.join(name);
    let whole = Reader::open(&plan.output).unwrap().processes().len();
    let stream = Reader::open(&plan.output).unwrap().processes()[0].file.clone();
    std::os::unix::fs::symlink(&canary.0, at("1-0.stream")).unwrap();
    fs::hard_link(&canary.0, at("1-1.stream")).unwrap();
    fs::create_dir(at("1-2.stream")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("1-3.stream"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::copy(&stream, at("1-4.stream")).unwrap();
    fs::copy(&stream, at("1-5.stream")).unwrap();
    std::os::unix::fs::chown(at("1-5.stream"), Some(SECOND_USER), None).unwrap();
    let reader = Reader::open(&plan.output).unwrap();
    assert_eq!(reader.processes().len(), whole);
    let said: Vec<&str> = reader.warnings().iter().map(|warning| warning.text.as_str()).collect();
    for (name, why) in [
        ("1-0", "symbolic link"),
        ("1-1", "2 names"),
        ("1-2", "is a directory"),
        ("1-3", "no regular file"),
        ("1-4", "it is of process"),
        ("1-5", "belongs to user 65534"),
    ] {
        let found = said.iter().any(|text| text.contains(name) && text.contains(why));
        assert!(found, "{name}: {why} is not in {said:#?}");
    }
    canary.is_whole();
}

#[test]
fn root_does_not_rewrite_a_recording_of_another_user() {
    let Some(bench) = bench() else { return };
    let plan = plan(&bench, "true");
    record::run(&plan, "test", &mut |_| {}).unwrap();
    std::os::unix::fs::chown(&plan.output, Some(SECOND_USER), None).unwrap();
    let error = heaprec::finish::finish(&plan.output, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    std::os::unix::fs::chown(&plan.output, Some(0), None).unwrap();
    fs::set_permissions(&plan.output, Permissions::from_mode(0o777)).unwrap();
    let error = heaprec::finish::finish(&plan.output, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("others may write"), "{error}");
    fs::set_permissions(&plan.output, Permissions::from_mode(0o700)).unwrap();
    assert!(heaprec::finish::finish(&plan.output, &mut |_| {}).unwrap().streams > 0);
}
