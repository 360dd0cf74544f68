//! Damaged files: the back-end, the passes and the oracle return an answer and do not panic, and nothing is packed that
//! the oracle rejects.

use pack::passes::{Later, Pass};
use pack::{Backend, Options, Passes, Space, rewrite};
use std::path::Path;
use std::process::Command;

/// A small generator of numbers (xorshift), so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Libraries of both classes and their interesting stretches: headers, tables of the loader, dynamic section, sections.
fn originals() -> Vec<(Vec<u8>, Vec<std::ops::Range<usize>>)> {
    let room = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes/own.cpp");
    let mut found = Vec::new();
    for compiler in ["x86_64-linux-gnu-g++", "i686-linux-gnu-g++", "aarch64-linux-gnu-g++", "arm-linux-gnueabihf-g++"] {
        let library = room.path().join("library.so");
        // Without IFUNC, which would be refused at once.
        let text = std::fs::read_to_string(&source).unwrap().replace("__attribute__((ifunc(\"choose\")))", "");
        let copy = room.path().join("own.cpp");
        std::fs::write(&copy, text.replace("malloc_usable_size", "not_malloc")).unwrap();
        let args = ["-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic-functions", "-o"];
        match Command::new(compiler).args(args).args([&library, &copy]).output() {
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
            Err(_) => {
                testing::skip(&format!("needs {compiler}"));
                continue;
            }
        }
        let bytes = std::fs::read(&library).unwrap();
        let image = elf::Image::of(&bytes[..]).unwrap();
        let dynamic = image.dynamic.as_ref().unwrap();
        let headers = bytes.len() - 40 * image.sections.len()..bytes.len();
        let stretches =
            vec![0..0x400, 0x400..0xc00, dynamic.offset as usize..(dynamic.offset + dynamic.len) as usize, headers];
        found.push((bytes.clone(), stretches));
    }
    found
}

#[test]
fn damaged_files_end_in_an_answer() {
    let mut dice = Dice(0x7468_6177);
    let wanted = [Pass::AlignBss, Pass::DynamicFirst, Pass::Ctors, Pass::PureVirtual, Pass::Symbolic];
    let (mut packed, mut refused, mut failed) = (0, 0, 0);
    for (original, stretches) in originals() {
        for round in 0..4000 {
            let mut bytes = original.clone();
            for _ in 0..=dice.roll(6) {
                let stretch = &stretches[dice.roll(stretches.len())];
                let at = stretch.start + dice.roll(stretch.len());
                let interesting = [0, 1, 7, 8, 0x7f, 0x80, 0xfe, 0xff];
                bytes[at] = match dice.roll(3) {
                    0 => interesting[dice.roll(interesting.len())],
                    1 => bytes[at] ^ 1 << dice.roll(8),
                    _ => dice.roll(256) as u8,
                };
            }
            let passes = match round % 3 {
                0 => Passes::default(),
                _ => Passes { wanted: wanted.into(), closed_set: Vec::new(), later: Later::Nothing },
            };
            let space = if round % 2 == 0 { Space::Keep } else { Space::Shrink };
            let options = Options { backend: Backend::Init, space, passes, ..Options::default() };
            match rewrite(&bytes, &options) {
                Ok((_, Some(new))) => {
                    packed += 1;
                    let verdict = verify::offline_expecting(&bytes, &new.bytes, &new.expected).unwrap();
                    assert!(verdict.agrees(), "round {round}: {:#?}", verdict.differences);
                }
                Ok((_, None)) => refused += 1,
                Err(_) => failed += 1,
            }
        }
    }
    eprintln!("{packed} packed, {refused} refused, {failed} errors");
    // Some damage is in bytes that do not matter, so that every path was taken.
    assert!((packed > 0 && refused > 0) || packed + refused + failed == 0);
}
