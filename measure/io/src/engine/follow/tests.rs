//! Followed programs, as an ordinary user.

use super::*;
use os::spawn::{Launch, spawn_gated};

/// Runs a shell script and says what was seen, and its exit code.
fn follow(script: &str) -> (Followed, Option<i32>) {
    // SAFETY: numbers only. A thread that became another user made this process one that its users may not trace;
    // started by a user, it would be theirs.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    let mut follower = Follower::start().unwrap();
    let gated = spawn_gated(Launch::new(["/bin/sh", "-c", script])).unwrap();
    follower.attach(gated.pid()).unwrap();
    let ended = gated.release().unwrap().wait().unwrap();
    (follower.finish().unwrap(), ended.code)
}

#[test]
fn files_that_are_closed_again_at_once_are_seen_in_all_processes() {
    testing::as_ordinary_user(|| {
        let (seen, code) = follow("cat /etc/hostname; (read line < /etc/passwd; env true & wait); exit 7");
        assert_eq!(code, Some(7));
        for path in ["/etc/hostname", "/etc/passwd"] {
            assert!(seen.files.contains(Path::new(path)), "{path} {:?}", seen.files);
        }
        let names: Vec<_> = seen.files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert!(["libc.so.6", "env", "true", "cat"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(seen.doubts.is_empty(), "{:?}", seen.doubts);
    });
}

#[test]
fn a_program_with_rights_of_its_own_keeps_them() {
    let Ok(found) = std::fs::metadata("/usr/bin/su") else { return testing::skip("no su") };
    if found.mode() & libc::S_ISUID == 0 || !testing::root_or_skip() {
        return testing::skip("su has no rights of its own, or this is not root");
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let own = directory.path().join("id");
    std::fs::copy("/usr/bin/id", &own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    testing::as_ordinary_user(|| {
        let (seen, code) = follow(&format!("test \"$({} -u)\" = 0", own.display()));
        assert_eq!(code, Some(0), "it has its owner's rights");
        assert!(seen.doubts.iter().any(|doubt| doubt.contains("rights of its own")), "{:?}", seen.doubts);
    });
}

#[test]
fn a_program_that_traces_others_still_can() {
    if std::process::Command::new("strace").arg("-V").output().is_err() {
        return testing::skip("no strace");
    }
    testing::as_ordinary_user(|| {
        let script = "strace -o /dev/null cat /etc/hostname && (sleep 3 & strace -o /dev/null -p $! && wait)";
        let (seen, code) = follow(script);
        assert_eq!(code, Some(0), "{:?}", seen.doubts);
        assert!(seen.doubts.iter().any(|doubt| doubt.contains("traces it")), "{:?}", seen.doubts);
        assert!(seen.files.iter().any(|path| path.ends_with("strace")), "{:?}", seen.files);
    });
}

#[test]
fn a_follower_that_is_not_used_ends() {
    let follower = Follower::start().unwrap();
    let pid = follower.pid;
    drop(follower);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}
