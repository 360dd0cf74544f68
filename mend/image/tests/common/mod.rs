//! Directories of all that a file system holds, the same for a seed, and images of them.
#![allow(dead_code)]

use image::about::{About, Origin};
use image::check::Opened;
use image::covered::Covered;
use image::order::Need;
use image::tree::{Detail, Tree};
use image::write::{Compression, Source, write};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Numbers that are the same for a seed.
pub struct Dice(pub u64);

impl Dice {
    /// One below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % end
    }

    /// Content: text that becomes smaller, noise that does not, or both in turn.
    pub fn content(&mut self, len: usize) -> Vec<u8> {
        let kind = self.below(3);
        (0..len)
            .map(|at| match kind {
                0 => b"the quick brown fox "[(at + at / 997) % 20],
                1 => self.below(256) as u8,
                _ if at / 9000 % 2 == 0 => self.below(256) as u8,
                _ => (at / 64) as u8,
            })
            .collect()
    }

    /// Any bytes.
    pub fn name(&mut self, number: u64) -> OsString {
        let mut name = format!("{number}").into_bytes();
        for _ in 0..self.below(12) {
            name.push([b' ', 0xff, b'\n', b'.', 0x80, b'a', b'~', 0xc3][self.below(8) as usize]);
        }
        OsString::from_vec(name)
    }
}

/// Fills a directory. As root with owners and devices.
pub fn fill(root: &Path, seed: u64) {
    let mut dice = Dice(seed);
    let is_root = rustix::process::geteuid().is_root();
    let mut directories = vec![root.to_path_buf()];
    let mut files: Vec<PathBuf> = Vec::new();
    for number in 0..60 {
        let above = directories[dice.below(directories.len() as u64) as usize].clone();
        let path = above.join(dice.name(number));
        match dice.below(10) {
            0 | 1 => {
                fs::create_dir(&path).unwrap();
                directories.push(path.clone());
            }
            2 => symlink(OsString::from_vec(vec![b'x'; 1 + dice.below(300) as usize]), &path).unwrap(),
            3 => rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            4 if !files.is_empty() => {
                fs::hard_link(&files[dice.below(files.len() as u64) as usize], &path).unwrap();
                continue;
            }
            5 if is_root => {
                let device = rustix::fs::makedev(dice.below(1 << 12) as u32, dice.below(1 << 20) as u32);
                let kind = [FileType::CharacterDevice, FileType::BlockDevice][dice.below(2) as usize];
                rustix::fs::mknodat(CWD, &path, kind, Mode::RUSR, device).unwrap();
            }
            6 => {
                // Holes, and something behind them.
                let file = File::create(&path).unwrap();
                file.set_len(dice.below(900_000)).unwrap();
                file.write_all_at(&dice.content(5000), dice.below(600_000)).unwrap();
                files.push(path.clone());
            }
            _ => {
                let len = [0, 1, 3000, 4032, 4033, 4096, 4097, 60_000, 300_000][dice.below(9) as usize];
                let len = len + dice.below(3) as usize;
                fs::write(&path, dice.content(len)).unwrap();
                files.push(path.clone());
            }
        }
        like(&path, &mut dice, is_root);
    }
    // The same content again: its clusters are shared.
    if let Some(file) = files.iter().max_by_key(|file| fs::metadata(file).unwrap().len()) {
        fs::copy(file, root.join("again")).unwrap();
    }
    // A directory of several blocks.
    let many = root.join("many");
    fs::create_dir(&many).unwrap();
    (0..600).for_each(|number| fs::write(many.join(format!("{number:0>40}")), [number as u8]).unwrap());
    symlink(OsString::from_vec(vec![b'y'; 4050]), root.join("long link")).unwrap();
}

/// Owner, mode, attributes and times of any kind.
pub fn like(path: &Path, dice: &mut Dice, is_root: bool) {
    let about = fs::symlink_metadata(path).unwrap();
    if is_root && dice.below(2) == 0 {
        let (user, group) = (dice.below(70_000) as u32, dice.below(70_000) as u32);
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    if !about.is_symlink() {
        let mode = 0o400 | dice.below(0o10_000) as u32 | if about.is_dir() { 0o700 } else { 0 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let time = Timespec { tv_sec: dice.below(1 << 33) as i64 - (1 << 31), tv_nsec: dice.below(1_000_000_000) as i64 };
    if (about.is_file() || about.is_dir()) && dice.below(2) == 0 {
        for number in 0..dice.below(3) {
            // Where the file system has none, the tree has none.
            let len = 1 + dice.below(40) as usize;
            let value = dice.content(len);
            let _ = rustix::fs::lsetxattr(path, format!("user.thaw{number}"), &value, XattrFlags::empty());
            if is_root {
                let _ = rustix::fs::lsetxattr(path, "trusted.thaw", &value, XattrFlags::empty());
            }
        }
    }
    let times = Timestamps { last_access: time, last_modification: time };
    // Not every file system has such times; then it has others, and the image these.
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Needs of some files, by two starts.
pub fn needs(tree: &Tree, seed: u64) -> Vec<Need> {
    let mut dice = Dice(seed);
    let files = tree.nodes.iter().enumerate().filter(|(_, node)| node.is_file() && node.size > 0);
    let mut needs = Vec::new();
    for (file, node) in files {
        let pages = node.size.div_ceil(4096);
        for _ in 0..dice.below(4) {
            let (start, page, first) = (dice.below(2) as u32, dice.below(pages), dice.below(1000));
            needs.push(Need { start, file, page, pages: 1 + dice.below(20), first });
        }
    }
    needs
}

/// Where an image of a test comes from.
pub fn origin(root: &Path) -> Origin {
    Origin {
        directory: root.to_string_lossy().into_owned(),
        recordings: vec!["a.thaw".into()],
        source: "exact".into(),
        starts: 2,
        trees: Vec::new(),
        replaced: Vec::new(),
    }
}

/// Makes an image.
pub fn make(root: &Path, needs: &[Need], compression: Compression, target: &Path) -> (Tree, About) {
    let tree = Tree::walk(root, Detail::Whole).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(target).unwrap();
    let source = Source { covered: &Covered::directory(root), tree: &tree, sum: tree.sum(), needs, whole: &[0, 1] };
    let about = write(&source, compression, origin(root), &file).unwrap();
    assert_eq!(Opened::open(target).unwrap().about, about);
    (tree, about)
}
