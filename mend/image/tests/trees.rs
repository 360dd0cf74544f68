//! Many random directories: written twice with the same bytes, and read alike by thaw's own reader, by the kernel and,
//! where it knows what is in them, by `fsck.erofs`. How many: `THAW_IMAGE_TREES` and `THAW_IMAGE_SMALL`;
//! `claims/image/run trees` asks for hundreds and ten thousands. `THAW_FSCK_EROFS` is another `fsck.erofs`.

mod common;

use common::{Dice, fill, make, needs};
use image::check::{Opened, differences, in_image, on_disk, whole};
use image::mount::{Way, differences_to_kernel};
use image::tree::{Detail, Tree};
use image::write::Compression;
use model::Exit;
use rustix::fs::{XattrFlags, lsetxattr};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Own reader and kernel hold the image to be the directory. Whether the kernel was asked.
fn is_the_directory(target: &Path, root: &Path, tree: &Tree, of: &str) -> bool {
    let opened = Opened::open(target).unwrap();
    let (image, contents) = opened.contents().unwrap();
    let (checked, sums) = whole(&opened, (&image, &contents)).unwrap();
    assert_eq!(checked.unused.0, 0, "{of}");
    let different = differences((tree, &mut on_disk(root, tree)), (&contents.tree, &mut in_image(&sums))).unwrap();
    assert!(different.is_empty(), "{of}: {different:?}");
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let seen = (&contents.tree, &sums);
    let kernel = differences_to_kernel(&opened, seen, root, Way::File)
        .or_else(|_| differences_to_kernel(&opened, seen, root, Way::Loop));
    match kernel {
        Ok(different) => assert!(different.is_empty(), "{of}, by the kernel: {different:?}"),
        Err(error) if error.exit == Exit::Machine => {
            testing::skip(&error.to_string());
            return false;
        }
        Err(error) => panic!("{of}: {error}"),
    }
    true
}

/// A list of rights as the kernel takes it: version 2, the owner, one more user, the group, the mask, others.
fn access_list(user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, NOBODY), (2, 4, user), (4, 4, NOBODY), (0x10, 6, NOBODY), (0x20, 0, NOBODY)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, who) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(who.to_le_bytes());
    }
    list
}

/// What each kind of tree has beside what is in all.
fn fill_more(root: &Path, seed: u64) {
    let mut dice = Dice(seed + 1);
    // Where the file system has no such lists, nor has the image.
    let listed = root.join("with a list");
    fs::write(&listed, dice.content(5000)).unwrap();
    let _ = lsetxattr(&listed, "system.posix_acl_access", &access_list(1000 + seed as u32), XattrFlags::empty());
    match seed % 20 {
        0 => {
            // More than 32 bits count, most of it a hole.
            let file = File::create(root.join("large")).unwrap();
            file.set_len((4 << 30) + dice.below(100_000)).unwrap();
            for at in [dice.below(1 << 32), (4 << 30) - 3000] {
                file.write_all_at(&dice.content(9000), at).unwrap();
            }
        }
        1 => {
            let many = root.join("names");
            fs::create_dir(&many).unwrap();
            (0..100_000).for_each(|number| drop(File::create(many.join(format!("{number:x}"))).unwrap()));
        }
        _ => {}
    }
}

#[test]
fn large_trees_are_read_alike_by_all() {
    let fsck = std::env::var("THAW_FSCK_EROFS").ok();
    let (mut by_kernel, mut clean) = (0, 0);
    // The first ones are large, and take minutes without optimization.
    let trees = std::env::var("THAW_IMAGE_TREES").map_or(2..4, |count| 0..count.parse().unwrap());
    let count = trees.end - trees.start;
    for seed in trees {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (root, one, two) = (home.path().join("root"), home.path().join("one.img"), home.path().join("two.img"));
        fs::create_dir(&root).unwrap();
        fill(&root, seed + 100);
        fill_more(&root, seed);
        let needs = needs(&Tree::walk(&root, Detail::Whole).unwrap(), seed + 100);
        let compression = [Compression::Zstd(3), Compression::Lz4][(seed / 2 % 2) as usize];
        let (tree, _) = make(&root, &needs, compression, &one);
        make(&root, &needs, compression, &two);
        let is_same = Command::new("cmp").args([&one, &two]).status().unwrap().success();
        assert!(is_same, "seed {seed}: two images differ");
        by_kernel += u64::from(is_the_directory(&one, &root, &tree, &format!("seed {seed}")));
        if let Some(fsck) = &fsck {
            let said = Command::new(fsck).arg("--extract").arg(&one).output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
            assert!(said.status.success(), "seed {seed}: {out}{err}");
            clean += 1;
        }
    }
    println!("{count} trees: written twice alike; {by_kernel} compared by the kernel; {clean} clean by fsck.erofs");
}

#[test]
fn small_trees_are_read_alike_by_all() {
    let count = std::env::var("THAW_IMAGE_SMALL").map_or(100, |count| count.parse().unwrap());
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut by_kernel = 0;
    for seed in 0..count {
        let (root, target) = (home.path().join("root"), home.path().join("a.img"));
        fs::create_dir(&root).unwrap();
        let mut dice = Dice(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15) | 1);
        for number in 0..dice.below(9) {
            let name = root.join(dice.name(number));
            // About the lengths at which a file's form changes: none, one block, behind its inode, whole clusters.
            let edge = [0, 1, 3968, 4096, 8192, 16_384, 65_536, 131_072][dice.below(8) as usize];
            let len = (edge + dice.below(5) as usize).saturating_sub(2);
            match dice.below(6) {
                0 => fs::create_dir(&name).unwrap(),
                1 => std::os::unix::fs::symlink(dice.name(number), &name).unwrap(),
                _ => fs::write(&name, dice.content(len)).unwrap(),
            }
            common::like(&name, &mut dice, rustix::process::geteuid().is_root());
        }
        let needs = needs(&Tree::walk(&root, Detail::Whole).unwrap(), seed + 1);
        let compression = [Compression::Zstd(3), Compression::Lz4][dice.below(2) as usize];
        let (tree, _) = make(&root, &needs, compression, &target);
        by_kernel += u64::from(is_the_directory(&target, &root, &tree, &format!("seed {seed}")));
        fs::remove_dir_all(&root).unwrap();
    }
    println!("{count} small trees: read alike; {by_kernel} of them by the kernel too");
}
