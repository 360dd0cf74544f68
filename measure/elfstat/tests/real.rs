//! Real files of this machine, held against what `readelf` counts.

use elfstat::{Depth, analyze, look, survey};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many files are compared.
const FILES: usize = 12;
/// `readelf` prints a line per relocation: large files would take long and show nothing else.
const SIZE_LIMIT: u64 = 8 << 20;

/// Relocations by type, as `readelf -rW` lists them.
fn counted(path: &Path) -> Option<BTreeMap<String, u64>> {
    let output = Command::new("readelf").args(["-rW"]).arg(path).env("LC_ALL", "C").output().ok()?;
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // `0000000000003d88  0000000000000008 R_X86_64_RELATIVE  1130`; offsets that RELR stands for are one number
        // alone.
        let mut words = line.split_whitespace();
        let is_number = |word: &str| word.len() >= 8 && word.chars().all(|digit| digit.is_ascii_hexdigit());
        let Some(_) = words.next().filter(|word| is_number(word)) else { continue };
        match (words.next(), words.next()) {
            (Some(info), Some(kind)) if is_number(info) && kind.starts_with("R_") => {
                *counts.entry(kind.to_owned()).or_insert(0) += 1
            }
            (None, None) => *counts.entry("RELR".to_owned()).or_insert(0) += 1,
            _ => {}
        }
    }
    Some(counts)
}

#[test]
fn readelf_counts_the_same() {
    if Command::new("readelf").arg("--version").output().is_err() {
        testing::skip("needs readelf");
        return;
    }
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/bin", "/lib", "/usr/lib/firefox-esr"];
    let (mut compared, mut with_relr) = (0, 0);
    for folder in folders.iter().filter(|folder| Path::new(folder).is_dir()) {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .collect();
        // The largest of each folder: these have the most relocations of the most types.
        paths.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() < SIZE_LIMIT));
        paths.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |metadata| metadata.len())));
        for path in paths
            .into_iter()
            .filter(|path| look(path).is_ok_and(|report| report.identity.kind.is_dynamic()))
            .take(FILES / 2)
        {
            let report = look(&path).unwrap();
            let ours: BTreeMap<String, u64> =
                report.relocations.by_type.iter().map(|group| (group.name.clone(), group.count)).collect();
            let mut theirs = counted(&path).unwrap();
            // Other names for the same types.
            for (name, other) in [("R_X86_64_JUMP_SLO", "R_X86_64_JUMP_SLOT"), ("R_386_JUMP_SLOT", "R_386_JMP_SLOT")] {
                if let Some(count) = theirs.remove(name) {
                    theirs.insert(other.to_owned(), count);
                }
            }
            assert_eq!(ours, theirs, "{}", path.display());
            compared += 1;
            with_relr += usize::from(report.relocations.relr.is_some());
        }
    }
    println!("{compared} files compared, {with_relr} with RELR");
    if compared < FILES {
        testing::skip(&format!("only {compared} files of this machine were compared with readelf"));
    }
}

/// What a survey reads piece by piece is what one look at all bytes sees.
#[test]
fn piece_by_piece_is_the_same_as_all_at_once() {
    let found = survey(&[PathBuf::from("/usr/lib/gcc"), PathBuf::from("/usr/sbin")], &|_| {});
    if found.files.is_empty() {
        testing::skip("no ELF file in /usr/lib/gcc or /usr/sbin");
        return;
    }
    for file in found.files.iter().take(60) {
        let bytes = std::fs::read(&file.path).unwrap();
        let whole = analyze(&elf::Image::of(&bytes[..]).unwrap(), Depth::Survey).unwrap();
        assert_eq!(format!("{whole:?}"), format!("{:?}", file.report), "{}", file.path.display());
    }
    assert!(found.left_out.unreadable.is_empty() && !found.left_out.interrupted, "{:?}", found.left_out.unreadable);
}
