//! An image of a whole set: a directory, and of others what starts need. It holds just that, notices what of it is
//! changed, and is laid over all of them for one thread alone.

mod common;

use common::origin;
use image::about::{About, Origin};
use image::check::{Of, Opened, changed_since, differences, in_image, on_disk, whole};
use image::covered::Covered;
use image::mount::{Trust, Way, differences_to_kernel, over, uncover_all};
use image::tree::{Detail, Tree};
use image::write::{Compression, Source, write};
use model::Exit;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program in `lib/app`, which lies in the tree `lib`; another tree is `data`.
struct Set {
    home: tempfile::TempDir,
}

impl Set {
    fn new() -> Self {
        // What an overlay's options end with is in all paths.
        let home = tempfile::Builder::new().prefix("set,of:a\\b").tempdir_in("/var/tmp").unwrap();
        let set = Self { home };
        for directory in ["lib/app/deep", "lib/x86", "lib/other", "data", "state"] {
            fs::create_dir_all(set.at(directory)).unwrap();
        }
        for file in [
            "lib/app/program",
            "lib/app/deep/part",
            "lib/x86/libx.so.1.2",
            "lib/x86/unused",
            "lib/other/file",
            "data/font",
            "data/more",
        ] {
            fs::write(set.at(file), format!("the content of {file} ").repeat(900)).unwrap();
        }
        symlink("libx.so.1.2", set.at("lib/x86/libx.so.1")).unwrap();
        set
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn trees(&self) -> [PathBuf; 2] {
        ["data", "lib"].map(|name| self.at(name))
    }

    fn make(&self) -> (Opened, About) {
        let target = self.at("a.img");
        let files = [self.at("lib/x86/libx.so.1.2"), self.at("data/font")];
        let (covered, trees) =
            Covered::needed(&self.at("lib/app"), &self.trees(), files.iter().map(PathBuf::as_path)).unwrap();
        let tree = Tree::of(&covered, Detail::Whole).unwrap();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&target).unwrap();
        let trees = trees.iter().map(|tree| tree.to_string_lossy().into_owned()).collect();
        let origin = Origin { trees, ..origin(&self.at("lib/app")) };
        let source = Source { covered: &covered, tree: &tree, sum: tree.sum(), needs: &[], whole: &[] };
        let about = write(&source, Compression::Lz4, origin, &file).unwrap();
        (Opened::open(&target).unwrap(), about)
    }
}

#[test]
fn what_starts_need_of_trees_is_in_it_and_nothing_else() {
    let set = Set::new();
    let (opened, about) = set.make();
    assert_eq!(about.files, 4, "two of the directory, two of trees");
    let (image, contents) = opened.contents().unwrap();
    let (_, sums) = whole(&opened, (&image, &contents)).unwrap();
    let covered = contents.tree.covered(&about.origin);
    let tree = Tree::of(&covered, Detail::Whole).unwrap();
    let different =
        differences((&tree, &mut on_disk(covered.root(), &tree)), (&contents.tree, &mut in_image(&sums))).unwrap();
    assert!(different.is_empty(), "{different:?}");
    let inside = |name: &str| set.at(name).strip_prefix("/").unwrap().to_owned();
    let names = contents.tree.by_name();
    for (name, is_there) in [
        ("lib/app/deep/part", true),
        ("lib/x86/libx.so.1", true),
        ("data/font", true),
        ("lib/x86/unused", false),
        ("lib/other", false),
        ("state", false),
    ] {
        assert_eq!(names.contains_key(&inside(name)), is_there, "{name}");
    }
    // Made again it is the same, though the directory above all has another time now.
    fs::write(set.at("beside"), "").unwrap();
    let before = fs::read(&opened.path).unwrap();
    set.make();
    assert!(fs::read(&opened.path).unwrap() == before);
    if rustix::process::geteuid().is_root() {
        for way in [Way::File, Way::Loop] {
            match differences_to_kernel(&opened, (&contents.tree, &sums), &set.at("lib/app"), way) {
                Ok(different) => assert!(different.is_empty(), "{different:?}"),
                Err(error) if error.exit == Exit::Machine => testing::skip(&error.to_string()),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn what_is_seen_of_it_must_be_as_it_was() {
    type Change<'a> = (&'a str, bool, &'a dyn Fn(&Set));
    let changes: [Change<'_>; 9] = [
        ("nothing", false, &|_| ()),
        ("something above", false, &|set| fs::write(set.at("beside"), "").unwrap()),
        ("something deep in a tree that no start needs", false, &|set| fs::write(set.at("lib/other/new"), "").unwrap()),
        ("a needed file", true, &|set| fs::write(set.at("data/font"), "another").unwrap()),
        ("a needed file gone", true, &|set| fs::remove_file(set.at("lib/x86/libx.so.1.2")).unwrap()),
        ("where a link points", true, &|set| {
            fs::remove_file(set.at("lib/x86/libx.so.1")).unwrap();
            symlink("unused", set.at("lib/x86/libx.so.1")).unwrap();
        }),
        // Its time is seen, and programs go by it.
        ("a new name beside needed files", true, &|set| fs::write(set.at("lib/x86/new"), "").unwrap()),
        ("the directory itself", true, &|set| fs::write(set.at("lib/app/deep/new"), "").unwrap()),
        ("a tree gone", true, &|set| fs::rename(set.at("data"), set.at("gone")).unwrap()),
    ];
    for (what, is_changed, change) in changes {
        let set = Set::new();
        let (opened, _) = set.make();
        let known = opened.contents().unwrap().1.tree;
        change(&set);
        for of in [Of::Directory, Of::Copy] {
            let told = changed_since(&opened, &known, of).unwrap();
            assert_eq!(told.is_some(), is_changed, "{what}, {of:?}: {told:?}");
        }
    }
}

#[test]
fn it_is_laid_over_all_directories_for_one_thread() {
    if !testing::root_or_skip() {
        return;
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    if !["\terofs\n", "\toverlay\n"].iter().all(|name| known.contains(name)) {
        return testing::skip("needs a kernel with EROFS and overlayfs");
    }
    let set = Set::new();
    // SAFETY: the other tests of this process look at no variable.
    unsafe { std::env::set_var("THAW_STATE_DIR", set.at("state")) };
    let (opened, about) = set.make();
    let needed = ["lib/app/program", "lib/x86/libx.so.1.2", "lib/x86/libx.so.1", "data/font"];
    let old: Vec<String> = needed.iter().map(|name| fs::read_to_string(set.at(name)).unwrap()).collect();
    // What is seen can be told from what is there.
    let written = ["lib/app/program", "lib/x86/libx.so.1.2", "data/font"];
    written.iter().for_each(|name| fs::write(set.at(name), "new").unwrap());
    let seen = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| fs::read_to_string(set.at(name)).unwrap_or_default()).collect()
    };
    for way in [Way::File, Way::Loop] {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let _around = match over(&opened, Trust::Root, &[way]) {
                    Ok(around) => around,
                    // Not every kernel mounts files; what is laid over what is the same by both ways.
                    Err(error) if way == Way::File && error.to_string().contains("cannot mount") => {
                        return testing::skip(&format!("{way:?}: {error}"));
                    }
                    Err(error) => panic!("{way:?}: {error}"),
                };
                assert_eq!(seen(&needed), old, "{way:?}");
                let others = seen(&["lib/x86/unused", "lib/other/file", "data/more"]);
                assert!(others.iter().all(|text| text.starts_with("the content of")), "{others:?}");
                let listed = |name: &str| fs::read_dir(set.at(name)).unwrap().count();
                assert_eq!((listed("lib"), listed("lib/x86"), listed("lib/app"), listed("data")), (3, 3, 2, 2));
                for name in ["lib/new", "lib/app/new", "lib/x86/unused", "data/font"] {
                    assert!(fs::write(set.at(name), "").is_err(), "{name}");
                }
                // Programs in there see it as well.
                let said = Command::new("cat").arg(set.at("data/font")).output().unwrap();
                assert!(said.stdout == old[3].as_bytes());
                uncover_all(&about.origin);
                assert_eq!(seen(&written), ["new"; 3], "{way:?}: nothing is covered any more");
            });
            inside.join().unwrap();
        });
        assert_eq!(seen(&written), ["new"; 3], "{way:?}: nobody else sees it");
    }
}

#[test]
fn what_is_mounted_in_a_tree_is_not_hidden() {
    if !testing::root_or_skip() {
        return;
    }
    let set = Set::new();
    let point = set.at("lib/other");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "thaw-test"]).arg(&point).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return testing::skip("needs to mount a tmpfs");
    }
    let refused = Covered::needed(&set.at("lib/app"), &set.trees(), [Path::new("/nothing")]);
    let _ = Command::new("umount").arg(&point).status();
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("another file system is mounted") && why.contains("lib/other"), "{why}");
}

#[test]
fn links_to_what_is_needed_are_taken_along() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| home.path().join(name);
    for directory in ["app", "lib/deep", "other"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for file in ["app/a", "lib/libx.so.1.2", "lib/liby.so.3", "lib/deep/d", "other/o"] {
        fs::write(at(file), file).unwrap();
    }
    for (target, link) in [
        ("libx.so.1.2", "lib/libx.so.1"),
        ("libx.so.1", "lib/libx.so"),
        ("liby.so.3", "lib/liby.so"),
        ("nowhere", "lib/broken"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    let files = [at("lib/libx.so.1.2"), at("lib/libx.so"), at("lib/gone"), at("other/o"), at("app/a")];
    let files = || files.iter().map(PathBuf::as_path);
    let trees = [at("lib/deep"), at("lib")];
    let (covered, known) = Covered::needed(&at("app"), &trees, files()).unwrap();
    assert_eq!(known, [at("lib")], "the one is in the other");
    let tree = Tree::of(&covered, Detail::Whole).unwrap();
    let below = home.path().strip_prefix("/").unwrap().to_owned();
    let names: BTreeSet<PathBuf> =
        tree.names().filter_map(|(path, _)| Some(path.strip_prefix(&below).ok()?.to_owned())).collect();
    let expected = ["", "app", "app/a", "lib", "lib/libx.so", "lib/libx.so.1", "lib/libx.so.1.2"];
    assert_eq!(names, expected.iter().map(PathBuf::from).collect());
    for (tree, why) in [
        (at("app"), "in the image anyway"),
        (at("app/a"), "no directory"),
        (PathBuf::from("/proc"), "another file system"),
    ] {
        let refused = Covered::needed(&at("app"), &[tree], files()).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert!(Covered::needed(&at("app"), &[at("missing")], files()).is_err());
}
