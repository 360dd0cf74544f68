//! Probe points that a program offers (USDT, `sys/sdt.h`): notes that say where a `nop` stands and where its arguments
//! are at that moment.

use crate::Image;
use object::ReadRef;

/// One place of a probe; the compiler may have made several of one in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whose: `python`.
    pub provider: String,
    /// Which: `import__find__load__start`.
    pub name: String,
    /// Where its instruction is in the file, in bytes.
    pub offset: u64,
    /// Where the counter of those who listen is in the file, in bytes; `None`: the probe is always ready.
    pub semaphore: Option<u64>,
    /// What it tells.
    pub arguments: Vec<Argument>,
}

/// An argument of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its size: 1, 2, 4 or 8 bytes.
    pub size: u8,
    /// Whether it is a number with a sign.
    pub is_signed: bool,
    /// Where it is; `None`: in a way that is not understood.
    pub place: Option<Place>,
}

/// Where an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this register, by its name of 64 bits: `rax`.
    Register(&'static str),
    /// In memory, so many bytes from where a register points.
    Memory {
        /// The register, by its name of 64 bits.
        register: &'static str,
        /// Bytes from there.
        offset: i64,
    },
    /// Nowhere: it is always this.
    Constant(i64),
}

const SECTION: &str = ".note.stapsdt";
const BASE: &str = ".stapsdt.base";
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;

/// The probes of a file, in the order of its notes. A note that cannot be understood is left out.
pub fn probes<'data, R: ReadRef<'data>>(image: &Image<R>) -> Vec<Probe> {
    let Some(mut notes) = image.section(SECTION).and_then(|section| image.bytes_of(section)) else {
        return Vec::new();
    };
    // What was prelinked lies elsewhere than when the notes were written.
    let base = image.section(BASE).map(|section| section.address);
    let mut found = Vec::new();
    while let Some(note) = first_note(image, notes) {
        if note.kind == KIND && note.owner == OWNER {
            found.extend(probe(image, note.text, base));
        }
        notes = note.rest;
    }
    found
}

struct Note<'n> {
    kind: u32,
    owner: &'n [u8],
    text: &'n [u8],
    /// What follows it.
    rest: &'n [u8],
}

fn first_note<'n, R>(image: &Image<R>, bytes: &'n [u8]) -> Option<Note<'n>> {
    let word = |at: usize| Some(image.order.word(bytes.get(at..at + 4)?.try_into().ok()?));
    let (owner, text, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let text_at = 12_usize.checked_add(owner.checked_next_multiple_of(4)?)?;
    let end = text_at.checked_add(text)?;
    let next = end.checked_next_multiple_of(4)?.min(bytes.len());
    Some(Note { kind, owner: bytes.get(12..12 + owner)?, text: bytes.get(text_at..end)?, rest: &bytes[next..] })
}

/// Address, base, semaphore, then provider, name and arguments as texts that end with zeros.
fn probe<'data, R: ReadRef<'data>>(image: &Image<R>, text: &[u8], base: Option<u64>) -> Option<Probe> {
    let size = image.class.word().bytes() as usize;
    let address = |number: usize| image.order.address(text.get(number * size..(number + 1) * size)?);
    let (at, then, semaphore) = (address(0)?, address(1)?, address(2)?);
    let moved = |address: u64| address.wrapping_add(base.unwrap_or(then)).wrapping_sub(then);
    let mut texts = text.get(3 * size..)?.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let (provider, name, arguments) = (texts.next()?, texts.next()?, texts.next()?);
    if provider.is_empty() || name.is_empty() {
        return None;
    }
    Some(Probe {
        provider: provider.into_owned(),
        name: name.into_owned(),
        offset: image.offset_of(moved(at), 1)?,
        semaphore: if semaphore == 0 { None } else { Some(image.offset_of(moved(semaphore), 2)?) },
        arguments: split(&arguments).map(argument).collect(),
    })
}

/// At spaces, but not at those within parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ' ' && depth == 0
    })
    .filter(|word| !word.is_empty())
}

/// `-4@112(%rsp)`: four bytes with a sign, in memory. `8@%rax`: in a register. `4@$7`: always 7.
fn argument(word: &str) -> Argument {
    let (size, place) = word.split_once('@').unwrap_or(("8", word));
    let size: i8 = size.parse().unwrap_or(8);
    let place = if let Some(number) = place.strip_prefix('$') {
        number.parse().ok().map(Place::Constant)
    } else if let Some(name) = place.strip_prefix('%') {
        register(name).map(Place::Register)
    } else {
        memory(place)
    };
    Argument { size: size.unsigned_abs(), is_signed: size < 0, place }
}

/// `112(%rsp)`, `-8(%rbp)`, `(%rax)`; not with an index, and not from the place of the code.
fn memory(place: &str) -> Option<Place> {
    let (offset, rest) = place.split_once('(')?;
    let name = rest.strip_suffix(')')?.strip_prefix('%')?;
    let offset = if offset.is_empty() { 0 } else { offset.parse().ok()? };
    Some(Place::Memory { register: register(name).filter(|name| *name != "rip")?, offset })
}

/// A register of x86-64 by any of its names, as the one of 64 bits.
fn register(name: &str) -> Option<&'static str> {
    const NAMES: [(&str, &[&str]); 17] = [
        ("rax", &["eax", "ax", "al"]),
        ("rbx", &["ebx", "bx", "bl"]),
        ("rcx", &["ecx", "cx", "cl"]),
        ("rdx", &["edx", "dx", "dl"]),
        ("rsi", &["esi", "si", "sil"]),
        ("rdi", &["edi", "di", "dil"]),
        ("rbp", &["ebp", "bp", "bpl"]),
        ("rsp", &["esp", "sp", "spl"]),
        ("r8", &["r8d", "r8w", "r8b"]),
        ("r9", &["r9d", "r9w", "r9b"]),
        ("r10", &["r10d", "r10w", "r10b"]),
        ("r11", &["r11d", "r11w", "r11b"]),
        ("r12", &["r12d", "r12w", "r12b"]),
        ("r13", &["r13d", "r13w", "r13b"]),
        ("r14", &["r14d", "r14w", "r14b"]),
        ("r15", &["r15d", "r15w", "r15b"]),
        ("rip", &[]),
    ];
    NAMES.iter().find(|(full, others)| *full == name || others.contains(&name)).map(|(full, _)| *full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn arguments_are_read_as_the_compiler_wrote_them() {
        let of = |text: &str| split(text).map(argument).collect::<Vec<_>>();
        let one = |size, is_signed, place| Argument { size, is_signed, place };
        assert_eq!(
            of("8@%rax -4@112(%rsp) 4@$-7 1@%r8b 8@(%rdi) 4@var(%rip) 8@(%rax,%rbx,8)"),
            [
                one(8, false, Some(Place::Register("rax"))),
                one(4, true, Some(Place::Memory { register: "rsp", offset: 112 })),
                one(4, false, Some(Place::Constant(-7))),
                one(1, false, Some(Place::Register("r8"))),
                one(8, false, Some(Place::Memory { register: "rdi", offset: 0 })),
                one(4, false, None),
                one(8, false, None),
            ]
        );
        assert_eq!(of(""), []);
    }

    proptest::proptest! {
        #[test]
        fn damaged_notes_cost_probes_and_nothing_else(
            noise in proptest::collection::vec((0_usize..1 << 20, 0_u8..), 1..40),
        ) {
            let Ok(mut bytes) = std::fs::read("/usr/lib/x86_64-linux-gnu/libstdc++.so.6") else { return Ok(()) };
            let at = Image::of(&bytes[..]).ok().and_then(|image| Some(image.section(SECTION)?.clone()));
            let Some(section) = at else { return Ok(()) };
            for (place, byte) in noise {
                bytes[section.offset as usize + place % section.len as usize] = byte;
            }
            let image = Image::of(&bytes[..]).unwrap();
            proptest::prop_assert!(probes(&image).len() <= section.len as usize / 12);
        }
    }

    #[test]
    fn every_place_of_a_probe_is_found_as_readelf_finds_it() {
        let libraries = ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/python3"];
        let mut seen = 0;
        for path in libraries {
            let Ok(bytes) = std::fs::read(path) else { continue };
            let Ok(image) = Image::of(&bytes[..]) else { continue };
            let found = probes(&image);
            let Ok(said) = Command::new("readelf").args(["--notes", "--wide", path]).output() else {
                return testing::skip("no readelf");
            };
            let said = String::from_utf8_lossy(&said.stdout);
            let names: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("Name: ")).collect();
            assert_eq!(found.iter().map(|probe| probe.name.as_str()).collect::<Vec<_>>(), names, "{path}");
            let is_nop = |probe: &Probe| bytes[probe.offset as usize] == 0x90;
            assert!(found.iter().all(is_nop), "{path}: {found:?}");
            seen += found.len();
        }
        if seen == 0 {
            testing::skip("no program with probes");
        }
    }
}
