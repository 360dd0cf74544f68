//! Where debug data that were split off are looked for, which of them are believed, and what compressed ones hold: held
//! against files that objcopy splits and compresses.

use elf::{Image, debug};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "int chosen(int n) { return n + 1; } int main(void) { return chosen(-1); }";

/// A directory with a program that has debug data.
struct Ground {
    home: tempfile::TempDir,
}

impl Ground {
    /// `None`, counted as skipped: there is no compiler.
    fn new(flags: &[&str]) -> Option<Self> {
        let ground = Self { home: tempfile::tempdir().unwrap() };
        std::fs::write(ground.at("program.c"), SOURCE).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O0", "-o"]).arg(ground.at("program")).args(flags).arg(ground.at("program.c"));
        testing::compiled(&mut cc).then_some(ground)
    }

    /// Of a path without links, as answers have it.
    fn at(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    fn objcopy(&self, words: &[&str]) {
        let done = Command::new("objcopy").args(words).current_dir(self.home.path()).output().unwrap();
        assert!(done.status.success(), "objcopy {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Splits the debug data of the program off.
    fn split(&self) {
        self.objcopy(&["--only-keep-debug", "program", "program.debug"]);
        self.objcopy(&["--strip-debug", "--add-gnu-debuglink=program.debug", "program"]);
    }

    /// The units that the debug data tell of; `None`: there are none.
    fn units(&self) -> Result<Option<usize>, String> {
        let bytes = std::fs::read(self.at("program")).unwrap();
        let image = Image::of(&bytes[..]).unwrap();
        debug::with_dwarf(&image, &self.at("program"), |dwarf| {
            let (mut units, mut count) = (dwarf.units(), 0);
            while let Some(header) = units.next()? {
                let unit = dwarf.unit(header)?;
                let name = unit.name.map(|name| String::from_utf8_lossy(name.slice()).into_owned());
                count += usize::from(name.is_some_and(|name| name.ends_with("program.c")));
            }
            Ok(count)
        })
    }

    /// Where split-off data were looked for, in this order, if none of it fits.
    fn places(&self) -> Vec<PathBuf> {
        let bytes = std::fs::read(self.at("program")).unwrap();
        let (image, asked) = (Image::of(&bytes[..]).unwrap(), RefCell::new(Vec::new()));
        let found = debug::split_off(&image, &self.at("program"), |path| {
            asked.borrow_mut().push(path.to_owned());
            None::<((), Option<String>)>
        });
        assert!(found.is_none());
        asked.into_inner()
    }
}

#[test]
fn debug_data_are_found_in_the_file_beside_it_and_below() {
    for flags in [&["-Wl,--build-id=none"][..], &["-Wl,--build-id=sha1"]] {
        let Some(ground) = Ground::new(flags) else { return };
        assert_eq!(ground.units(), Ok(Some(1)), "its own");
        ground.split();
        assert_eq!(ground.units(), Ok(Some(1)), "beside it");
        std::fs::create_dir(ground.at(".debug")).unwrap();
        std::fs::rename(ground.at("program.debug"), ground.at(".debug/program.debug")).unwrap();
        assert_eq!(ground.units(), Ok(Some(1)), "in .debug");
        std::fs::remove_file(ground.at(".debug/program.debug")).unwrap();
        assert_eq!(ground.units(), Ok(None), "nowhere");
        // A pipe of that name is not waited for.
        assert!(Command::new("mkfifo").arg(ground.at("program.debug")).status().unwrap().success());
        assert_eq!(ground.units(), Ok(None), "a pipe");
    }
}

#[test]
fn those_of_another_build_are_not_believed() {
    for flags in [&["-Wl,--build-id=none"][..], &["-Wl,--build-id=sha1"]] {
        let (Some(ground), Some(other)) = (Ground::new(flags), Ground::new(&[flags, &["-DOTHER=1", "-O1"]].concat()))
        else {
            return;
        };
        for ground in [&ground, &other] {
            ground.split();
        }
        std::fs::copy(other.at("program.debug"), ground.at("program.debug")).unwrap();
        assert_eq!(ground.units(), Ok(None), "{flags:?}");
    }
}

#[test]
fn places_are_asked_in_order() {
    let Some(ground) = Ground::new(&["-Wl,--build-id=0x00c0ffee"]) else { return };
    let by_id = PathBuf::from("/usr/lib/debug/.build-id/00/c0ffee.debug");
    assert_eq!(ground.places(), std::slice::from_ref(&by_id), "there is no link");
    ground.split();
    let below = Path::new("/usr/lib/debug").join(ground.at("program.debug").strip_prefix("/").unwrap());
    assert_eq!(ground.places(), [by_id, ground.at("program.debug"), ground.at(".debug/program.debug"), below]);
    // A link to the file itself would be endless.
    std::fs::rename(ground.at("program"), ground.at("program.debug")).unwrap();
    let bytes = std::fs::read(ground.at("program.debug")).unwrap();
    let mut asked = Vec::new();
    debug::split_off(&Image::of(&bytes[..]).unwrap(), &ground.at("program.debug"), |path| {
        asked.push(path.to_owned());
        None::<((), Option<String>)>
    });
    assert!(!asked.contains(&ground.at("program.debug")), "{asked:?}");
}

#[test]
fn what_several_have_in_common_is_beside_or_by_its_build_id() {
    let Some(ground) = Ground::new(&[]) else { return };
    let asked_of = |link: &[u8]| {
        std::fs::write(ground.at("link"), link).unwrap();
        ground.objcopy(&["--add-section=.gnu_debugaltlink=link", "program", "linked"]);
        let bytes = std::fs::read(ground.at("linked")).unwrap();
        let mut asked = Vec::new();
        let found = debug::common(&Image::of(&bytes[..]).unwrap(), &ground.at("linked"), |path| {
            asked.push(path.to_owned());
            (asked.len() == 2).then(|| path.to_owned())
        });
        (found, asked)
    };
    let by_id = PathBuf::from("/usr/lib/debug/.build-id/ab/cdef.debug");
    let (found, asked) = asked_of(b"common.dwz\0\xab\xcd\xef");
    assert_eq!((found, asked), (Some(by_id.clone()), vec![ground.at("common.dwz"), by_id]));
    // Without a name, without an end, or longer than any: no link.
    for broken in [&b"\0\xab\xcd\xef"[..], b"endless", &[b'x'; 5000]] {
        assert_eq!(asked_of(broken), (None, Vec::new()));
    }
    let longest = [&[b'n'; 4000][..], b"\0\xab\xcd"].concat();
    assert_eq!(asked_of(&longest).1.len(), 2);
}

#[test]
fn compressed_sections_hold_what_plain_ones_do() {
    let Some(ground) = Ground::new(&[]) else { return };
    let section = |file: &str| {
        let bytes = std::fs::read(ground.at(file)).unwrap();
        let found = debug::section(&Image::of(&bytes[..]).unwrap(), ".debug_info");
        found.map(|bytes| bytes.into_owned())
    };
    let plain = section("program").unwrap();
    assert!(plain.len() > 50);
    for kind in ["zlib", "zstd"] {
        ground.objcopy(&[&format!("--compress-debug-sections={kind}"), "program", kind]);
        assert_eq!(section(kind).as_ref(), Ok(&plain), "{kind}");
        // The length that the section claims stands 8 bytes behind its begin.
        let mut bytes = std::fs::read(ground.at(kind)).unwrap();
        let image = Image::of(&bytes[..]).unwrap();
        let claim = image.section(".debug_info").unwrap().offset as usize + 8;
        for (claimed, why) in [(plain.len() as u64 + 1, "decompressed"), (u64::MAX, "larger than it can be")] {
            bytes[claim..claim + 8].copy_from_slice(&claimed.to_le_bytes());
            std::fs::write(ground.at("lies"), &bytes).unwrap();
            assert!(section("lies").unwrap_err().contains(why), "{kind} {claimed}");
        }
    }
    assert_eq!(section("program").map(|it| it.is_empty()), Ok(false));
    let bytes = std::fs::read(ground.at("program")).unwrap();
    assert_eq!(debug::section(&Image::of(&bytes[..]).unwrap(), ".none").unwrap().len(), 0);
}
