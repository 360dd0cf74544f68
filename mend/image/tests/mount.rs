//! An image over its directory, from its file and from a loop device: seen by one thread alone, and what is read around
//! faults is put back.

mod common;

use common::make;
use image::check::Opened;
use image::mount::{Trust, Way, over};
use image::write::Compression;
use model::Exit;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

/// What is read ahead, by setting.
fn read_ahead() -> BTreeMap<PathBuf, String> {
    let all = fs::read_dir("/sys/class/bdi").unwrap().map(|entry| entry.unwrap().path().join("read_ahead_kb"));
    all.filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?.trim().to_owned()))).collect()
}

#[test]
fn an_image_is_seen_by_one_thread_and_reading_around_faults_is_put_back() {
    if !testing::root_or_skip() {
        return;
    }
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target, state) = (home.path().join("root"), home.path().join("a.img"), home.path().join("state"));
    for directory in [&root, &state] {
        fs::create_dir(directory).unwrap();
    }
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    fs::write(root.join("file"), "content ".repeat(5000)).unwrap();
    make(&root, &[], Compression::Lz4, &target);
    fs::write(root.join("file"), "changed").unwrap();
    for way in [Way::File, Way::Loop] {
        let opened = Opened::open(&target).unwrap();
        let before = read_ahead();
        let (mounted, seen) = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let mut around = over(&opened, Trust::Other, &[way])?;
                around.off().unwrap();
                let while_it_starts = read_ahead();
                let mut ended = Command::new("true").spawn().unwrap();
                let program = pidfd_open(Pid::from_child(&ended), PidfdFlags::empty()).unwrap();
                ended.wait().unwrap();
                let seen = fs::read_to_string(root.join("file")).unwrap();
                around.back_after(program.as_fd());
                let zeros = |settings: &BTreeMap<PathBuf, String>| settings.values().filter(|it| *it == "0").count();
                assert_eq!(zeros(&while_it_starts), zeros(&before) + 1, "{while_it_starts:?}");
                assert_eq!(zeros(&read_ahead()), zeros(&before));
                Ok(seen)
            });
            match inside.join().unwrap() {
                Ok(seen) => (true, seen),
                Err(error) => {
                    let error: model::Error = error;
                    assert_eq!(error.exit, Exit::Machine);
                    testing::skip(&format!("{way:?}: {error}"));
                    (false, String::new())
                }
            }
        });
        assert!(!mounted || seen == "content ".repeat(5000), "{way:?}");
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "changed", "nobody else sees it");
        let journal = state.join("journal");
        assert!(!journal.exists() || fs::read_dir(journal).unwrap().next().is_none());
    }
}
