//! Damaged files: whatever the bytes, packing answers, and it gives nothing away that the oracle does not accept.

use pack::{Options, Outcome, Reason, Space, fix_relr_bytes, rewrite};
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
            format!(
                "#include <stdio.h>\nconst char *words[] = {{{words}}};\nint say(void) {{ return puts(words[7]); }}\n\
                 int main(void) {{ return say(); }}\n"
            ),
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

/// A section without bytes in the file, as `.bss`, may say of its offset what it likes.
#[test]
fn sections_without_bytes_lie_anywhere() {
    const NOBITS: [u8; 4] = 8_u32.to_le_bytes();
    let mut changed = 0;
    for sample in samples() {
        let image = elf::Image::of(sample.as_slice()).unwrap();
        let mut bytes = sample.clone();
        for head in (0..image.sections.len()).map(|index| image.sections_at as usize + index * 64) {
            if bytes[head + 4..head + 8] == NOBITS {
                bytes[head + 24..head + 32].fill(0xff);
                changed += 1;
            }
        }
        check(&bytes).unwrap();
    }
    assert_ne!(changed, 0);
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

/// A generator with a seed, so that a failure can be made again.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// What tables say of themselves is where damage tells: headers, the dynamic table, the loader's tables.
fn mutated(sample: &[u8], random: &mut Seeded) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    let image = elf::Image::of(sample).unwrap();
    let dynamic = image.dynamic.as_ref().unwrap();
    let headers = 64 + image.segments.len() * 56;
    let first = image.loads().next().unwrap();
    for _ in 0..=random.below(3) {
        let at = match random.below(6) {
            0 => random.below(64),
            1 => 64 + random.below(headers - 64),
            2 => dynamic.offset as usize + random.below(dynamic.len as usize),
            // Symbols, names, versions, relocations.
            3 => headers + random.below((first.file_len as usize).saturating_sub(headers)),
            4 if image.sections_at != 0 => image.sections_at as usize + random.below(image.sections.len() * 64),
            _ => random.below(bytes.len()),
        };
        let at = at.min(bytes.len() - 1);
        match random.below(4) {
            0 => bytes[at] = 0,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] = random.below(256) as u8,
        }
    }
    if random.below(20) == 0 {
        bytes.truncate(random.below(sample.len()));
    }
    bytes
}

/// What is wrong with a file is said of the file: nothing asks its user to report a bug.
#[test]
fn damage_is_named_and_is_nobodys_bug() {
    let mut random = Seeded(2026);
    let (mut refused, mut packed) = (std::collections::BTreeMap::<_, u64>::new(), 0);
    let mut wrong = Vec::new();
    for round in 0..4000 {
        let sample = &samples()[random.below(samples().len())];
        let bytes = mutated(sample, &mut random);
        for space in [Space::Shrink, Space::Keep] {
            match rewrite(&bytes, &Options { space, ..Options::default() }) {
                Err(error) => wrong.push(format!("{round}: {error}")),
                Ok((Outcome::Refused(refusal), _)) => {
                    if refusal.reason == Reason::NotProven {
                        wrong.push(format!("{round}: {refusal}"));
                    }
                    *refused.entry(refusal.reason).or_default() += 1;
                }
                Ok((Outcome::Packed(_), _)) => packed += 1,
            }
        }
    }
    println!("{packed} packed, refused: {refused:?}");
    wrong.iter().take(20).for_each(|wrong| println!("{wrong}"));
    assert!(wrong.is_empty(), "{} of 8000", wrong.len());
}
