//! Flushing folders: everything that stays is named with its reason, and nothing else is touched.

use crate::ground::{Locked, Sleeper, as_nobody, cold_file, content, folder, loop_disk, resident, undisturbed};
use model::{Bytes, PAGE, WarningKind};
use os::cache::{self, FileSystems, FlushReport, Grip, Walk, Why, flush};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

/// Why this path stayed.
fn why<'a>(report: &'a FlushReport, path: &Path) -> Option<&'a Why> {
    report.kept.iter().find(|kept| kept.path == path).map(|kept| &kept.why)
}

fn warm_file(path: &Path, pages: u64) {
    cold_file(path, pages);
    cache::warm(path, None).unwrap();
    assert_eq!(resident(path), pages);
}

#[test]
fn a_folder_goes_but_for_what_is_mapped_and_nothing_outside_is_touched() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let at = |name: &str| folder.path().join(name);
        let top = at("top");
        std::fs::create_dir_all(top.join("deep/er")).unwrap();
        warm_file(&at("outside"), 9);
        warm_file(&top.join("one"), 5);
        warm_file(&top.join("deep/er/two"), 7);
        let strange = top.join(OsStr::from_bytes(b"not utf-8 \xff\xfe"));
        warm_file(&strange, 2);
        std::fs::hard_link(top.join("one"), top.join("deep/one again")).unwrap();
        std::os::unix::fs::symlink(at("outside"), top.join("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), top.join("link to folder")).unwrap();
        // Opening this would wait for a writer for ever.
        assert!(Command::new("mkfifo").arg(top.join("fifo")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        let sleeper = Sleeper::new(&top.join("deep/program"));
        let program_pages = resident(&top.join("deep/program"));

        let walk = Walk::default();
        let report = cache::flush_with(std::slice::from_ref(&top), &walk);

        assert_eq!((resident(&top.join("one")), resident(&top.join("deep/er/two")), resident(&strange)), (0, 0, 0));
        assert_eq!(resident(&at("outside")), 9);
        assert_eq!((report.files, walk.visited.load(Ordering::Relaxed)), (4, 4), "one, two, strange and program");
        assert_eq!(report.before, Bytes((5 + 7 + 2 + program_pages) * PAGE));
        let stayed = resident(&top.join("deep/program"));
        assert!(stayed > 0);
        assert_eq!((report.after, report.evicted()), (Bytes(stayed * PAGE), report.before - report.after));
        assert_eq!(report.kept.len(), 1, "{:?}", report.kept);
        assert_eq!(report.kept[0].resident, Some(report.after));
        let Some(Why::Mapped { holders }) = why(&report, &top.join("deep/program")) else {
            panic!("{:?}", report.kept)
        };
        assert_eq!((holders.len(), holders[0].pid, holders[0].comm.as_str()), (1, sleeper.pid(), "program"));
        assert_eq!(report.kept[0].why.to_string(), format!("mapped by {} program", sleeper.pid()));
        let skipped = &report.skipped;
        assert_eq!((skipped.symlinks, skipped.special, skipped.hard_links), (2, 2, 1));
        assert!(skipped.mount_points.is_empty() && report.warnings.is_empty() && !report.interrupted);
    });
}

#[test]
fn overlapping_and_repeated_paths_are_visited_once() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let (inner, file) = (folder.path().join("inner"), folder.path().join("inner/file"));
        std::fs::create_dir(&inner).unwrap();
        warm_file(&file, 3);
        let report = flush(&[file.clone(), inner.clone(), folder.path().to_owned(), file, inner]);
        assert_eq!((report.files, report.evicted()), (1, Bytes(3 * PAGE)));
    });
}

#[test]
fn paths_that_are_no_files_are_named_with_what_they_are() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let at = |name: &str| folder.path().join(name);
        warm_file(&at("target"), 3);
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let kind = |path: &Path| match flush(&[path.to_owned()]).kept.remove(0).why {
            Why::NotAFile { kind } => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(&at("link")), "symbolic link");
        assert_eq!(kind(&at("fifo")), "FIFO");
        assert_eq!(kind(Path::new("/dev/null")), "device");
        assert_eq!(kind(Path::new("/proc/self")), "file of the kernel");
        assert_eq!(kind(Path::new("/proc/version")), "file of the kernel");
        assert_eq!(resident(&at("target")), 3);
        let report = flush(&[at("never existed"), at("target/below a file")]);
        assert_eq!(why(&report, &at("never existed")), Some(&Why::Vanished));
        assert!(matches!(why(&report, &at("target/below a file")), Some(Why::Failed { .. })));
    });
}

#[test]
fn a_user_without_rights_evicts_but_is_never_told_that_it_worked() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let at = |name: &str| folder.path().join(name);
        warm_file(&at("readable"), 8);
        warm_file(&at("secret"), 8);
        std::fs::create_dir(at("closed")).unwrap();
        warm_file(&at("closed/file"), 8);
        std::fs::set_permissions(at("secret"), PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::set_permissions(at("closed"), PermissionsExt::from_mode(0o700)).unwrap();

        let report = as_nobody(|| flush(&[folder.path().to_owned()]));
        assert_eq!(resident(&at("readable")), 0, "no right is needed to have it forgotten");
        assert_eq!((resident(&at("secret")), resident(&at("closed/file"))), (8, 8));
        assert_eq!(why(&report, &at("secret")), Some(&Why::NoPermission));
        assert_eq!(why(&report, &at("closed")), Some(&Why::NoPermission));
        match why(&report, &at("readable")) {
            Some(Why::Unverified) => assert_eq!((report.before, report.evicted()), (Bytes(0), Bytes(0))),
            // Kernels from 6.5 to 6.12 tell everybody.
            None => assert_eq!(report.evicted(), Bytes(8 * PAGE)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_user_is_not_told_the_secret_that_others_map_his_file() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let path = folder.path().join("program");
        let _sleeper = Sleeper::new(&path);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let report = as_nobody(|| flush(std::slice::from_ref(&path)));
        let Some(Why::InUse { unseen_processes }) = why(&report, &path) else { panic!("{report:?}") };
        assert!(*unseen_processes > 0);
        assert!(report.after > Bytes(0));
    });
}

#[test]
fn a_user_without_rights_still_learns_of_mappings_that_he_may_see() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let path = folder.path().join("file of root");
        let file = cold_file(&path, 3);
        let _locked = Locked::new(&file, 3 * PAGE);
        let report = as_nobody(|| flush(std::slice::from_ref(&path)));
        let Some(Why::Mapped { holders }) = why(&report, &path) else { panic!("{report:?}") };
        assert_eq!((holders[0].pid, holders[0].how), (std::process::id(), Grip::Locked));
    });
}

#[test]
fn memory_file_systems_cannot_be_evicted_and_say_so_once() {
    undisturbed(|| {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        for name in ["a", "b"] {
            std::fs::write(memory.path().join(name), content(3)).unwrap();
        }
        let report = flush(&[memory.path().to_owned()]);
        assert_eq!((report.files, report.evicted(), report.after), (2, Bytes(0), Bytes(6 * PAGE)));
        let kind = Why::MemoryFileSystem { kind: "tmpfs".to_owned() };
        assert_eq!(report.kept.iter().map(|kept| &kept.why).collect::<Vec<_>>(), [&kind, &kind]);
        assert_eq!(report.warnings.len(), 1);
        assert_eq!(report.warnings[0].kind, WarningKind::StaysResident);
        assert!(report.warnings[0].text.contains("tmpfs"), "{}", report.warnings[0].text);
    });
}

#[test]
fn pages_that_nobody_maps_can_be_in_use_by_the_kernel() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        warm_file(&path, 4);
        let file = File::open(&path).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        // SAFETY: both descriptors are open; no offsets are passed.
        let moved = unsafe {
            let nowhere = std::ptr::null_mut();
            libc::splice(file.as_raw_fd(), nowhere, writer.as_raw_fd(), nowhere, 2 * PAGE as usize, 0)
        };
        assert_eq!(moved, 2 * PAGE as isize, "two pages of the file now wait in a pipe");
        let report = flush(std::slice::from_ref(&path));
        let Some(Why::InUse { .. }) = why(&report, &path) else { panic!("{report:?}") };
        assert!(report.after >= Bytes(2 * PAGE));
    });
}

#[test]
fn other_file_systems_are_entered_only_when_asked() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let (here, there) = (folder.path().join("here"), disk.point.join("there"));
        warm_file(&here, 3);
        warm_file(&there, 4);

        let report = flush(&[folder.path().to_owned()]);
        assert_eq!(report.skipped.mount_points, std::slice::from_ref(&disk.point));
        assert_eq!((resident(&here), resident(&there)), (0, 4));
        let report = cache::list_resident(&[folder.path().to_owned()]);
        assert!(report.files.iter().all(|file| file.path != there));

        let all = Walk { file_systems: FileSystems::All, ..Walk::default() };
        let report = cache::flush_with(&[folder.path().to_owned()], &all);
        assert!(report.skipped.mount_points.is_empty());
        assert_eq!(resident(&there), 0);
    });
}

#[test]
fn a_read_only_file_system_is_evicted_like_any_other() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let path = disk.point.join("file");
        warm_file(&path, 6);
        disk.remount("loop,ro");
        cache::warm(&path, None).unwrap();
        let report = flush(std::slice::from_ref(&disk.point));
        assert_eq!((report.evicted(), resident(&path)), (Bytes(6 * PAGE), 0));
        assert!(report.kept.is_empty(), "{:?}", report.kept);

        cache::warm(&path, None).unwrap();
        as_nobody(|| flush(std::slice::from_ref(&disk.point)));
        assert_eq!(resident(&path), 0);
    });
}

#[test]
fn lists_what_is_resident_and_nothing_else() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("z")).unwrap();
        warm_file(&at("z/whole"), 5);
        cold_file(&at("cold"), 5);
        cold_file(&at("part"), 50);
        cache::warm(&at("part"), Some(&[crate::ground::range(7, 2)])).unwrap();
        std::fs::write(at("empty"), "").unwrap();
        std::fs::hard_link(at("z/whole"), at("z/whole again")).unwrap();

        let report = cache::list_resident(&[folder.path().to_owned()]);
        let found: Vec<(PathBuf, u64, u64)> =
            report.files.iter().map(|file| (file.path.clone(), file.size.0 / PAGE, file.resident.0 / PAGE)).collect();
        let shown = found.iter().find(|file| file.0.starts_with(at("z"))).unwrap().0.clone();
        assert!(shown == at("z/whole") || shown == at("z/whole again"), "a file has one name here, whichever");
        assert_eq!(found, [(at("part"), 50, 2), (shown, 5, 5)]);
        assert_eq!((report.looked_at, report.unknown, report.interrupted), (4, 0, false));
    });
}

#[test]
fn a_user_without_rights_learns_how_much_is_unknown() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        warm_file(&folder.path().join("file"), 5);
        let report = as_nobody(|| cache::list_resident(&[folder.path().to_owned()]));
        assert_eq!(report.files.len() as u64 + report.unknown, 1, "{report:?}");
    });
}

#[test]
fn many_files_in_many_folders_are_all_found_once() {
    undisturbed(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut expected = Vec::new();
        for outer in 0..20 {
            for inner in 0..5 {
                let directory = folder.path().join(format!("{outer}/{inner}"));
                std::fs::create_dir_all(&directory).unwrap();
                for file in 0..30 {
                    let path = directory.join(file.to_string());
                    std::fs::write(&path, "x").unwrap();
                    expected.push(path);
                }
            }
        }
        expected.sort();
        let report = cache::list_resident(&[folder.path().to_owned()]);
        assert_eq!(report.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), expected);
    });
}

#[test]
fn the_report_is_the_same_after_json() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("program");
        let _sleeper = Sleeper::new(&path);
        let report = flush(&[path, folder.path().join("nothing")]);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""reason":"mapped""#) && json.contains(r#""reason":"vanished""#), "{json}");
        assert_eq!(serde_json::from_str::<FlushReport>(&json).unwrap(), report);
    });
}
