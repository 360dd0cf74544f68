//! One file's pages: what is resident is told exactly, or not at all.

use crate::ground::{
    Locked, Mounted, Sleeper, as_nobody, cold_file, content, entry, folder, loop_disk, pages, range, resident,
    undisturbed, whole,
};
use model::{Bytes, Exit, FileOffset, PAGE};
use os::cache::{self, Grip, Method};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn exactly_the_pages_that_were_warmed_are_resident() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        let file = cold_file(&path, 64);

        let wanted = [range(8, 4), range(20, 1), range(63, 1)];
        assert_eq!(cache::warm(&path, Some(&wanted)).unwrap(), Bytes(6 * PAGE));

        let all = whole(&file);
        assert_eq!((all.pages, all.resident, all.dirty), (64, 6, 0), "read-ahead must bring nothing else");
        let map = cache::resident_pages(&file, Bytes(64 * PAGE)).unwrap();
        assert_eq!(pages(&map.ranges), [(8, 4), (20, 1), (63, 1)]);
        assert_eq!((map.method, map.destructive(), map.bytes()), (Method::Mincore, false, Bytes(6 * PAGE)));

        let part = cache::residency(&file, FileOffset(10 * PAGE + 5), Bytes(10 * PAGE)).unwrap();
        assert_eq!((part.pages, part.resident), (11, 3), "a range that begins inside a page covers it");
        let needs = cache::residency_of(&file, &wanted).unwrap();
        assert_eq!((needs.pages, needs.resident, needs.share()), (6, 6, 1.0));

        cache::evict(&file).unwrap();
        assert_eq!(whole(&file).resident, 0);
        assert_eq!(cache::warm(&path, None).unwrap(), Bytes(64 * PAGE));
        assert_eq!(whole(&file).resident, 64);
    });
}

#[test]
fn ranges_are_all_resident_where_each_of_them_is() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        let file = cold_file(&path, 64);
        // Every second page, and whole eighths: no span from the first range to the last tells by itself.
        let warm: Vec<_> = (0..16).map(|page| range(page * 2, 1)).chain([range(40, 8), range(56, 8)]).collect();
        cache::warm(&path, Some(&warm)).unwrap();
        let all = |wanted: &[(FileOffset, Bytes)]| {
            let found = cache::residency_of(&file, wanted).unwrap();
            assert_eq!(cache::all_resident(&file, wanted).unwrap(), found.resident == found.pages, "{wanted:?}");
            found.resident == found.pages
        };
        assert!(all(&warm) && all(&warm[3..9]) && all(&[range(40, 3), range(43, 5)]) && all(&[]));
        assert!(all(&[(FileOffset(40 * PAGE + 5), Bytes(1)), (FileOffset(40 * PAGE + 9), Bytes(2 * PAGE))]));
        for missing in
            (0..64).filter(|page| !warm.iter().any(|at| at.0.0 <= page * PAGE && page * PAGE < at.0.0 + at.1.0))
        {
            let mut wanted = warm.clone();
            wanted.push(range(missing, 1));
            wanted.sort_unstable();
            assert!(!all(&wanted), "page {missing} is not there");
        }
        assert!(!all(&[range(63, 2)]), "behind the file there is nothing");
    });
}

#[test]
fn the_last_page_of_a_file_counts_whole() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 2 * PAGE as usize + 1]).unwrap();
        let file = File::open(&path).unwrap();
        let found = whole(&file);
        assert_eq!((found.pages, found.resident, found.resident_bytes()), (3, 3, Bytes(3 * PAGE)));
        cache::evict(&file).unwrap();
        assert_eq!(whole(&file).resident, 0);
        assert_eq!(
            cache::warm(&path, Some(&[range(2, 1)])).unwrap(),
            Bytes(1),
            "only one byte of that page is in the file"
        );
        assert_eq!(pages(&cache::resident_pages(&file, Bytes(2 * PAGE + 1)).unwrap().ranges), [(2, 1)]);
        let nothing = cache::residency(&file, FileOffset(0), Bytes(0)).unwrap();
        assert_eq!((nothing.pages, nothing.share()), (0, 1.0));
    });
}

#[test]
fn dirty_pages_are_counted_and_reach_the_disk_before_they_are_evicted() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        // Somebody's `sync` may clean them before we look; not twenty times.
        let seen = (0..20).any(|_| {
            std::fs::write(&path, content(16)).unwrap();
            let found = whole(&File::open(&path).unwrap());
            assert_eq!(found.resident, 16);
            found.dirty == 16
        });
        assert!(seen, "sixteen pages just written are not dirty");
        let file = File::open(&path).unwrap();
        cache::evict(&file).unwrap();
        assert_eq!((whole(&file).resident, whole(&file).dirty), (0, 0));
        assert_eq!(std::fs::read(&path).unwrap(), content(16));
    });
}

#[test]
fn a_mapped_file_stays_and_its_process_is_named() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let (program, other) = (folder.path().join("mapped program"), folder.path().join("other"));
        let sleeper = Sleeper::new(&program);
        let idle = cold_file(&other, 4);

        let file = File::open(&program).unwrap();
        cache::evict(&file).unwrap();
        assert!(whole(&file).resident > 0, "the pages that a process runs from cannot go");

        let holders = cache::who_maps(&[&program, &other, Path::new("/nowhere")]);
        assert_eq!(holders.len(), 1, "{holders:?}");
        let holder = &holders[&program][0];
        assert_eq!((holder.pid, holder.comm.as_str(), holder.how), (sleeper.pid(), "mapped program", Grip::Mapped));
        assert_eq!(holders[&program].len(), 1);

        drop(sleeper);
        assert!(cache::who_maps(&[&program]).is_empty());
        cache::evict(&file).unwrap();
        assert_eq!(whole(&file).resident, 0, "with its process, the reason to stay is gone");
        drop(idle);
    });
}

#[test]
fn a_locked_file_is_told_from_a_mapped_one() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        let file = cold_file(&path, 8);
        let lock = Locked::new(&file, 8 * PAGE);
        let holders = cache::who_maps(&[&path]);
        // A test beside this one may be starting a program: until it is executed, the new process maps the file too.
        let mine = holders[&path].iter().filter(|holder| holder.pid == std::process::id());
        assert_eq!(mine.map(|holder| holder.how).collect::<Vec<_>>(), [Grip::Locked]);
        cache::evict(&file).unwrap();
        assert_eq!(whole(&file).resident, 8);
        drop(lock);
        assert!((0..1000).any(|_| cache::who_maps(&[&path]).is_empty()), "nobody maps it any longer");
        cache::evict(&file).unwrap();
        assert_eq!(whole(&file).resident, 0);
    });
}

#[test]
fn a_user_without_rights_gets_the_exact_pages_or_a_refusal_never_all() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let path = folder.path().join("file of root");
        let file = cold_file(&path, 256);
        cache::warm(&path, Some(&[range(0, 3), range(100, 17), range(255, 1)])).unwrap();
        let truth = cache::resident_pages(&file, Bytes(256 * PAGE)).unwrap();
        assert_eq!(pages(&truth.ranges), [(0, 3), (100, 17), (255, 1)]);

        as_nobody(|| {
            let file = cache::open_quietly(&path).unwrap();
            let refusal = cache::residency(&file, FileOffset(0), Bytes(256 * PAGE));
            match refusal {
                Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
                // Kernels from 6.5 to 6.12 tell everybody, and truly.
                Ok(found) => assert_eq!(found.resident, 21),
            }
            let map = cache::resident_pages(&file, Bytes(256 * PAGE)).unwrap();
            assert_eq!(map.ranges, truth.ranges);
            assert!(map.destructive());
        });
    });
}

#[test]
fn a_user_without_rights_is_not_misled_by_read_ahead_marks() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let path = folder.path().join("file of root");
        let file = cold_file(&path, 8192);
        // An ordinary reader: the kernel reads ahead of it and marks a page where it will read ahead once more.
        let mut buffer = vec![0; 16 * PAGE as usize];
        file.read_exact_at(&mut buffer, 0).unwrap();
        // Read-ahead still under way counts as resident here, but not as readable: wait for it.
        let len = Bytes(8192 * PAGE);
        let truth = loop {
            let map = cache::resident_pages(&file, len).unwrap();
            if map.bytes() == whole(&file).resident_bytes() {
                break map;
            }
        };
        assert!(truth.bytes() < len, "the file is larger than what is read ahead at once");
        as_nobody(|| {
            let file = cache::open_quietly(&path).unwrap();
            assert_eq!(cache::probe(&file, len).unwrap(), truth.ranges);
        });
    });
}

#[test]
fn holes_are_not_taken_for_resident_pages() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(64 * PAGE).unwrap();
        file.write_all_at(&content(4), 16 * PAGE).unwrap();
        file.sync_all().unwrap();
        cache::evict(&file).unwrap();
        cache::warm(&path, Some(&[range(18, 2)])).unwrap();
        as_nobody(|| {
            let file = cache::open_quietly(&path).unwrap();
            assert_eq!(pages(&cache::probe(&file, Bytes(64 * PAGE)).unwrap()), [(18, 2)]);
        });
    });
}

#[test]
fn probing_leaves_the_callers_file_as_it_was() {
    undisturbed(|| {
        use std::io::{Read, Seek, SeekFrom};
        let Some(folder) = folder() else { return };
        let path = folder.path().join("file");
        let mut file = cold_file(&path, 4);
        file.seek(SeekFrom::Start(5)).unwrap();
        cache::probe(&file, Bytes(4 * PAGE)).unwrap();
        let mut next = [0];
        file.read_exact(&mut next).unwrap();
        assert_eq!(next[0], content(1)[5]);
    });
}

#[test]
fn memory_and_links_and_pipes_are_no_files_of_a_disk() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert_eq!(cache::open_quietly(&link).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let mut memory = tempfile::tempfile_in("/dev/shm").unwrap();
        memory.write_all(&content(3)).unwrap();
        cache::evict(&memory).unwrap();
        assert_eq!(whole(&memory).resident, 3, "a tmpfs has no disk to read it from again");
        assert_eq!(cache::probe(&memory, Bytes(3 * PAGE)).unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn overlayfs_does_not_make_resident_files_look_cold() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let at = |name: &str| folder.path().join(name);
        for name in ["lower", "upper", "work"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        cold_file(&at("lower/file"), 32);
        let shown = |name: &str| at(name).display().to_string();
        let options = format!("lowerdir={},upperdir={},workdir={}", shown("lower"), shown("upper"), shown("work"));
        let Some(_overlay) = Mounted::new("overlay", &options, &at("merged")) else {
            return testing::skip("needs overlayfs");
        };
        let path = at("merged/file");
        let file = File::open(&path).unwrap();
        assert_eq!(whole(&file).resident, 0);
        cache::warm(&path, Some(&[range(4, 6)])).unwrap();
        assert_eq!(whole(&file).resident, 6);
        assert!(cache::all_resident(&file, &[range(4, 1), range(7, 3)]).unwrap());
        assert!(!cache::all_resident(&file, &[range(4, 1), range(9, 2)]).unwrap());
        assert_eq!(pages(&cache::resident_pages(&file, Bytes(32 * PAGE)).unwrap().ranges), [(4, 6)]);
        cache::evict(&file).unwrap();
        assert_eq!((whole(&file).resident, resident(&at("lower/file"))), (0, 0));
        as_nobody(|| {
            let file = cache::open_quietly(&path).unwrap();
            let refusal = cache::residency(&file, FileOffset(0), Bytes(PAGE)).unwrap_err();
            assert_eq!(refusal.kind(), ErrorKind::PermissionDenied);
            assert!(cache::all_resident(&file, &[range(0, 1)]).is_err());
            assert!(cache::resident_pages(&file, Bytes(PAGE)).is_err(), "no way is left to tell it truly");
        });
        // A program on an overlay has other numbers in its maps than `stat` shows.
        let program = at("merged/program");
        let sleeper = Sleeper::new(&program);
        assert_eq!(cache::who_maps(&[&program])[&program][0].pid, sleeper.pid());
    });
}

#[test]
fn a_block_device_has_pages_too() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let device = entry(&disk).source;
        let file = File::open(&device).unwrap();
        cache::evict(&file).unwrap();
        cache::warm(&device, Some(&[range(1000, 3)])).unwrap();
        let found = cache::residency(&file, FileOffset(1000 * PAGE), Bytes(3 * PAGE)).unwrap();
        assert_eq!((found.pages, found.resident), (3, 3));
        let around = cache::residency(&file, FileOffset(1003 * PAGE), Bytes(4 * PAGE)).unwrap();
        assert_eq!(around.resident, 0);
    });
}

#[test]
fn a_directory_is_warmed_by_listing_it() {
    undisturbed(|| {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", folder.path().join("broken link")).unwrap();
        assert_eq!(cache::warm_directory(folder.path()).unwrap(), 4);
        assert_eq!(cache::warm_directory(&folder.path().join("a")).unwrap_err().kind(), ErrorKind::NotADirectory);
    });
}

#[test]
fn only_root_drops_everything() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        if !testing::root_or_skip() {
            return;
        }
        let refusal = as_nobody(cache::drop_all).unwrap_err();
        assert_eq!(refusal.exit, Exit::Machine);
        assert!(refusal.hint.is_some_and(|hint| hint.contains("root")));

        let path = folder.path().join("file");
        cold_file(&path, 8);
        cache::warm(&path, None).unwrap();
        assert_eq!(resident(&path), 8);
        cache::drop_all().unwrap();
        assert_eq!(resident(&path), 0);
    });
}
