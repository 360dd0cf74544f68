//! Random directories and their images: written twice, read by thaw's own reader, by the kernel and by `fsck.erofs`.

mod common;

use common::{Dice, fill, make, needs, origin};
use image::about::Origin;
use image::check::{Difference, Of, Opened, changed_since, differences, in_image, on_disk, whole};
use image::covered::Covered;
use image::extract::extract;
use image::mount::{Way, differences_to_kernel};
use image::order::Need;
use image::read::{Image, Piece};
use image::sample::sample;
use image::tree::{Detail, Tree};
use image::write::{Compression, Source};
use model::Exit;
use std::fs;
use std::path::Path;
use std::process::Command;

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Zstd(5)];

/// How an image differs from a directory.
fn compared(path: &Path, root: &Path) -> Vec<Difference> {
    let opened = Opened::open(path).unwrap();
    let (image, contents) = opened.contents().unwrap();
    let tree = Tree::walk(root, Detail::Whole).unwrap();
    let (_, sums) = whole(&opened, (&image, &contents)).unwrap();
    differences((&tree, &mut on_disk(root, &tree)), (&contents.tree, &mut in_image(&sums))).unwrap()
}

#[test]
fn an_image_holds_what_its_directory_holds_and_is_the_same_when_it_is_made_again() {
    for seed in 1..=3 {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (root, one, two) = (home.path().join("root"), home.path().join("one.img"), home.path().join("two.img"));
        fs::create_dir(&root).unwrap();
        fill(&root, seed);
        let needs = needs(&Tree::walk(&root, Detail::Whole).unwrap(), seed);
        for compression in BOTH {
            let (_, about) = make(&root, &needs, compression, &one);
            make(&root, &needs, compression, &two);
            assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "seed {seed}: two images differ");
            let opened = Opened::open(&one).unwrap();
            let (image, contents) = opened.contents().unwrap();
            let (checked, sums) = whole(&opened, (&image, &contents)).unwrap();
            assert_eq!((checked.files, checked.content, checked.unused.0), (about.files, about.content, 0));
            assert!(about.shared.0 > 0, "seed {seed}: the copy of the largest file is shared");
            assert!(about.stored.0 > 0 && about.metadata.0 < about.by_all.0 && about.start.0 < about.image.0);
            let different = compared(&one, &root);
            assert!(different.is_empty(), "seed {seed}: {different:?}");
            assert_eq!(changed_since(&opened, &contents.tree, Of::Directory).unwrap(), None);
            if !rustix::process::geteuid().is_root() {
                testing::skip("the kernel's view of an image needs root");
                continue;
            }
            for way in [Way::File, Way::Loop] {
                match differences_to_kernel(&opened, (&contents.tree, &sums), &root, way) {
                    Ok(different) => assert!(different.is_empty(), "seed {seed}, {compression:?}: {different:?}"),
                    Err(error) if error.exit == Exit::Machine => testing::skip(&error.to_string()),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn what_is_extracted_is_the_directory() {
    if !testing::root_or_skip() {
        return;
    }
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target, again) = (home.path().join("root"), home.path().join("a.img"), home.path().join("again"));
    fs::create_dir(&root).unwrap();
    fill(&root, 11);
    make(&root, &[], Compression::Zstd(3), &target);
    let opened = Opened::open(&target).unwrap();
    let extracted = extract(&opened, &again).unwrap();
    assert_eq!((extracted.files, extracted.owned_otherwise), (opened.about.files, 0));
    assert_eq!(compared(&target, &again), []);
    let taken = extract(&opened, &again).unwrap_err();
    assert_eq!(taken.exit, Exit::Usage);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3, "nothing is left beside it");
}

/// `fsck.erofs` of Debian 12 knows lz4, and no shared clusters.
#[test]
fn erofs_utils_finds_no_fault() {
    if Command::new("fsck.erofs").arg("--help").output().is_err() {
        return testing::skip("needs fsck.erofs (erofs-utils)");
    }
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir_all(root.join("lib/deep")).unwrap();
    let mut dice = Dice(5);
    for number in 0..40_u64 {
        let len = dice.below(200_000) as usize;
        // No two pages are the same.
        let content = |page: usize| format!("{number} {page} ").repeat(4096).into_bytes()[..4096].to_vec();
        let mut bytes: Vec<u8> = (0..len / 4096 + 1).flat_map(content).collect();
        bytes.truncate(len);
        fs::write(root.join(if number % 2 == 0 { "lib" } else { "lib/deep" }).join(format!("{number}")), bytes)
            .unwrap();
    }
    let needs = needs(&Tree::walk(&root, Detail::Whole).unwrap(), 3);
    let (_, about) = make(&root, &needs, Compression::Lz4, &target);
    assert_eq!(about.shared.0, 0);
    let said = Command::new("fsck.erofs").arg("--extract").arg(&target).output().unwrap();
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Where the page of a file lies.
fn block_of(pieces: &[Piece], page: u64) -> u64 {
    let piece = pieces.iter().find(|piece| (piece.page..piece.page + piece.pages).contains(&page)).unwrap();
    piece.block + if piece.compressed.is_none() { page - piece.page } else { 0 }
}

#[test]
fn needed_pages_lie_first_in_the_order_of_first_touch() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir(&root).unwrap();
    let mut dice = Dice(9);
    for name in ["a", "b", "c"] {
        // Half noise, so that both stored and compressed clusters are among them.
        let bytes: Vec<u8> = (0..400_000).map(|at| if at % 2 == 0 { dice.below(256) as u8 } else { 7 }).collect();
        fs::write(root.join(name), bytes).unwrap();
    }
    let tree = Tree::walk(&root, Detail::Whole).unwrap();
    // Each tenth page, in a shuffled order across files, by two starts; the last ones by one of them.
    let mut pages: Vec<(usize, u64)> = (1..=3).flat_map(|file| (0..9).map(move |page| (file, page * 10))).collect();
    pages.sort_by_key(|page| (page.1 * 7919 + page.0 as u64 * 104_729) % 97);
    let mut needs = Vec::new();
    for (first, (file, page)) in (0..).zip(&pages) {
        let starts = if first < 20 { 0..2 } else { 1..2 };
        needs.extend(starts.map(|start| Need { start, file: *file, page: *page, pages: 2, first }));
    }
    let (_, about) = make(&root, &needs, Compression::Zstd(5), &target);
    let opened = Opened::open(&target).unwrap();
    let (image, contents) = opened.contents().unwrap();
    let pieces: Vec<Vec<Piece>> = (0..tree.nodes.len()).map(|node| image.pieces(&contents, node).unwrap()).collect();
    let blocks: Vec<u64> = pages.iter().map(|(file, page)| block_of(&pieces[*file], *page)).collect();
    assert!(blocks.is_sorted(), "{blocks:?}");
    assert_eq!(blocks[0] * 4096, about.metadata.0, "nothing lies before the first");
    assert!(blocks[19] * 4096 < about.by_all.0 && blocks[20] * 4096 >= about.by_all.0);
    // What nobody needs is not among them.
    let mut others = 0;
    for (file, pieces) in pieces.iter().enumerate() {
        for piece in pieces.iter().filter(|piece| piece.block * 4096 < about.start.0) {
            let is_needed = |page| pages.iter().any(|(of, at)| *of == file && (*at..*at + 2).contains(&page));
            others += (piece.page..piece.page + piece.pages).filter(|page| !is_needed(*page)).count();
        }
    }
    assert_eq!(others, 0);
}

#[test]
fn what_an_image_would_be_is_known_before_it_is_made() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir(&root).unwrap();
    let mut dice = Dice(4);
    for name in ["a", "b"] {
        let bytes: Vec<u8> = (0..3_000_000).map(|at| if at % 16 == 0 { dice.below(256) as u8 } else { 7 }).collect();
        fs::write(root.join(name), bytes).unwrap();
    }
    let needs: Vec<Need> = (0..400)
        .map(|at| Need {
            start: 0,
            file: 1 + at % 2,
            page: at as u64 / 8 * 12 + at as u64 / 2 % 4,
            pages: 1,
            first: at as u64,
        })
        .collect();
    for compression in [Compression::Lz4, Compression::Zstd(5)] {
        let tree = Tree::walk(&root, Detail::Whole).unwrap();
        let source =
            Source { covered: &Covered::directory(&root), tree: &tree, sum: tree.sum(), needs: &needs, whole: &[0] };
        let sample = sample(&source, compression).unwrap();
        let (_, about) = make(&root, &needs, compression, &target);
        assert_eq!(sample.needed.0, 400 * 4096);
        assert_eq!(sample.metadata, about.metadata);
        let (is, was) = (sample.stretch.0 as f64, about.start.0 as f64);
        assert!((is / was - 1.0).abs() < 0.1, "{sample:?} {about:?}");
        assert!(sample.unpacking().as_nanos() > 0 && sample.unpacked_in_a_second.is_some_and(|speed| speed > 1e6));
    }
}

#[test]
fn a_changed_copy_takes_the_place_of_a_file_and_the_directory_is_still_as_it_was() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target, copy) = (home.path().join("root"), home.path().join("a.img"), home.path().join("copy"));
    fs::create_dir_all(root.join("lib")).unwrap();
    fs::write(root.join("lib/file"), "content").unwrap();
    fs::write(&copy, "something longer").unwrap();
    let mut tree = Tree::walk(&root, Detail::Whole).unwrap();
    let sum = tree.sum();
    tree.replace(Path::new("lib/file"), &copy).unwrap();
    assert_eq!(tree.replace(Path::new("lib"), &copy).unwrap_err().exit, Exit::Data);
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&target).unwrap();
    let source = Source { covered: &Covered::directory(&root), tree: &tree, sum, needs: &[], whole: &[] };
    let origin = Origin { replaced: vec!["lib/file".into()], ..origin(&root) };
    image::write::write(&source, Compression::Zstd(3), origin, &file).unwrap();
    let opened = Opened::open(&target).unwrap();
    let known = opened.contents().unwrap().1.tree;
    assert_eq!(changed_since(&opened, &known, Of::Directory).unwrap(), None);
    let again = home.path().join("again");
    extract(&opened, &again).unwrap();
    assert_eq!(fs::read_to_string(again.join("lib/file")).unwrap(), "something longer");
    let different = compared(&target, &root);
    assert!(!different.is_empty() && different.iter().all(|it| it.path == "lib/file"), "{different:?}");
    assert_eq!(image::check::beside_copies(&opened.about, different), []);
}

#[test]
fn a_changed_directory_is_noticed_and_what_changed_is_named() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir_all(root.join("lib")).unwrap();
    let file = root.join("lib/file");
    fs::write(&file, "content").unwrap();
    let (_, about) = make(&root, &[], Compression::Lz4, &target);
    let since = || {
        let opened = Opened::open(&target).unwrap();
        let known = opened.contents().unwrap().1.tree;
        changed_since(&opened, &known, Of::Directory).unwrap()
    };
    assert_eq!(since(), None);
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "CONTENT").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    // Same size, same date: only the time of change, which nobody sets, tells.
    assert_eq!(since().unwrap(), "something in it was written or renamed");
    fs::write(&file, "longer content").unwrap();
    assert!(since().unwrap().starts_with("lib/file has another "), "{:?}", since());
    fs::write(root.join("lib/new"), "").unwrap();
    assert_eq!(since().unwrap(), "lib/new is new");
    fs::remove_file(root.join("lib/new")).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(since().unwrap(), "lib/file is gone");
    assert_eq!(about.files, 1);
}

#[test]
fn an_image_that_was_cut_off_or_changed_is_refused() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir(&root).unwrap();
    fill(&root, 21);
    let (_, about) = make(&root, &[], Compression::Zstd(3), &target);
    let bytes = fs::read(&target).unwrap();
    let damaged = home.path().join("damaged.img");
    let mut dice = Dice(77);
    let judged = |bytes: &[u8]| {
        fs::write(&damaged, bytes).unwrap();
        let opened = Opened::open(&damaged)?;
        let (image, contents) = opened.contents()?;
        whole(&opened, (&image, &contents))
    };
    judged(&bytes).unwrap();
    for len in [0, 1, 4095, 4096, bytes.len() / 2, about.image.0 as usize, bytes.len() - 4096, bytes.len() - 1] {
        assert_eq!(judged(&bytes[..len]).unwrap_err().exit, Exit::Data, "{len} bytes");
    }
    judged(&[&bytes[..], &[0; 4096]].concat()).unwrap_err();
    for _ in 0..60 {
        let mut changed = bytes.clone();
        let at = dice.below(bytes.len() as u64) as usize;
        changed[at] ^= 1 << dice.below(8);
        assert_eq!(judged(&changed).unwrap_err().exit, Exit::Data, "byte {at}");
    }
    // Whatever is in it: the kernel would interpret it, so it is refused as the image is opened.
    for _ in 0..60 {
        let mut changed = bytes.clone();
        let at = dice.below(about.metadata.0) as usize;
        changed[at] ^= 1 << dice.below(8);
        fs::write(&damaged, &changed).unwrap();
        assert_eq!(Opened::open(&damaged).unwrap_err().exit, Exit::Data, "byte {at}");
    }
}

/// Reads all that a reader takes of these bytes; how many files, if it takes the directories.
fn read(bytes: &[u8], metadata: u64) -> Option<u64> {
    let image = Image::open(&bytes).ok()?;
    let contents = image.contents().ok()?;
    let _ = image.unused(&contents, metadata);
    let mut whole = 0;
    for (number, node) in contents.tree.nodes.iter().enumerate().filter(|(_, node)| node.is_file()) {
        let mut len = 0;
        let mut count = |piece: &[u8]| {
            len += piece.len() as u64;
            Ok(())
        };
        if image.read(&contents, number, &mut count).is_ok() {
            assert_eq!(len, node.size);
            whole += 1;
        }
    }
    Some(whole)
}

/// Without sums in front of it, the reader itself refuses or reads; it never panics, nor is a file longer than it says.
#[test]
fn whatever_is_in_the_metadata_the_reader_comes_to_an_end() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let (root, target) = (home.path().join("root"), home.path().join("a.img"));
    fs::create_dir_all(root.join("lib")).unwrap();
    let mut dice = Dice(31);
    for number in 0..20 {
        let len = dice.below(40_000) as usize;
        let content = dice.content(len);
        fs::write(root.join(if number % 2 == 0 { "lib" } else { "" }).join(format!("{number}")), content).unwrap();
    }
    for compression in BOTH {
        let (_, about) = make(&root, &[], compression, &target);
        let bytes = fs::read(&target).unwrap();
        assert_eq!(read(&bytes, about.metadata.0), Some(20));
        let mut refused = 0;
        for _ in 0..400 {
            let mut changed = bytes.clone();
            // The first block has a checksum of its own; what is read first stands behind it.
            for _ in 0..1 + dice.below(3) {
                let at = 4096 + dice.below(about.metadata.0 - 4096) as usize;
                changed[at] = dice.below(256) as u8;
            }
            refused += u64::from(read(&changed, about.metadata.0) != Some(20));
        }
        assert!(refused > 20, "{refused} of 400 were noticed");
        for at in (4096..about.metadata.0 as usize).step_by(8) {
            let mut changed = bytes.clone();
            changed[at..at + 8].fill(0xff);
            read(&changed, about.metadata.0);
        }
    }
}

#[test]
fn what_an_image_cannot_hold_is_refused_by_name() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(Tree::walk(&file, Detail::Whole).unwrap_err().exit, Exit::Usage);
    let missing = Tree::walk(&home.path().join("missing"), Detail::Whole).unwrap_err();
    assert_eq!(missing.exit, Exit::Usage);
    if !Path::new("/dev/shm").is_dir() {
        return testing::skip("needs a second file system");
    }
    let mounted = Tree::walk(Path::new("/dev"), Detail::Names).unwrap_err();
    assert!(mounted.to_string().contains("another file system is mounted"), "{mounted}");
}
