//! Damaged files: whatever the bytes, packing answers, and it gives nothing away that the oracle does not accept.

use pack::{Options, Outcome, Space, fix_relr_bytes, rewrite, verify};
use proptest::prelude::*;
use std::process::Command;
use std::sync::OnceLock;

/// Small libraries as the linkers here make them, with and without section headers.
fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("sample.c");
        let words: String = (0..900).map(|number| format!("\"w{number}\",")).collect();
        std::fs::write(
            &source,
            format!("#include <stdio.h>\nconst char *words[] = {{{words}}};\nint say(void) {{ return puts(words[7]); }}\nint main(void) {{ return say(); }}\n"),
        )
        .unwrap();
        let mut samples = Vec::new();
        for linker in ["bfd", "gold", "lld", "mold"] {
            for kind in ["-shared", "-pie"] {
                let path = home.path().join("sample");
                let mut command = Command::new("gcc");
                command.args(["-fPIC", kind, &format!("-fuse-ld={linker}"), "-o"]).arg(&path).arg(&source);
                if command.output().unwrap().status.success() {
                    let bytes = std::fs::read(&path).unwrap();
                    samples.extend([without_sections(&bytes), bytes]);
                }
            }
        }
        assert!(!samples.is_empty());
        samples
    })
}

/// Ends with its last segment.
fn without_sections(bytes: &[u8]) -> Vec<u8> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let headers = bytes[56];
    let loads = (0..usize::from(headers)).map(|index| 64 + index * 56).filter(|at| bytes[*at..*at + 4] == [1, 0, 0, 0]);
    let end = loads.map(|at| long(at + 8) + long(at + 32)).max().unwrap();
    let mut bare = bytes[..end as usize].to_vec();
    // e_shoff, e_shnum, e_shstrndx.
    bare[40..48].fill(0);
    bare[60..64].fill(0);
    bare
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    for space in [Space::Shrink, Space::Keep] {
        let (outcome, rewritten) = match rewrite(bytes, &Options { space, ..Options::default() }) {
            Ok(done) => done,
            Err(error) => return Err(TestCaseError::fail(format!("{space:?}: {error}"))),
        };
        prop_assert_eq!(matches!(outcome, Outcome::Packed(_)), rewritten.is_some());
        let Some(rewritten) = rewritten else { continue };
        let verdict = verify::offline_expecting(bytes, &rewritten.bytes, &rewritten.expected).unwrap();
        prop_assert!(verdict.agrees(), "{:?}: {:#?}", space, verdict.differences);
    }
    if let Ok((_, Some(fixed))) = fix_relr_bytes(bytes) {
        prop_assert!(!fixed.is_empty());
    }
    Ok(())
}

#[test]
fn the_samples_themselves_are_packed() {
    for sample in samples() {
        let (outcome, rewritten) = rewrite(sample, &Options { space: Space::Keep, ..Options::default() }).unwrap();
        assert!(rewritten.is_some(), "{outcome:?}");
        check(sample).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_packed_rightly_or_not_at_all(
        which in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((0..6u8, any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let samples = samples();
        let mut bytes = which.get(samples).clone();
        for (place, index, value) in flips {
            // Headers, tables of the loader, the dynamic section and section headers are where damage matters.
            let at = match place {
                0 => index.index(64),
                1 => 64 + index.index(700),
                2 | 3 => index.index(4096.min(bytes.len())),
                4 => bytes.len() - 1 - index.index(3000.min(bytes.len())),
                _ => index.index(bytes.len()),
            };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes)?;
    }
}
