//! The oracle: whether a rewritten file still means what its original meant. Not for making such files.
//!
//! [`offline`] emulates the loader on both files, at as many bases as prove it for all (one or two), and compares every
//! byte of memory and everything that the loader and other tools read. [`live`] lets the real loader load both and
//! compares the memory of the two processes. The oracle reads ELF files with code of its own, on purpose: a
//! misunderstanding that the rewriter and its judge share would hide a fault.
//!
//! ```no_run
//! let original = std::fs::read("/usr/lib/x86_64-linux-gnu/libcrypto.so.3")?;
//! let packed = std::fs::read("libcrypto.packed")?;
//! let verdict = verify::offline(&original, &packed).expect("the original is a library");
//! assert!(verdict.agrees(), "{:#?}", verdict.differences);
//! # Ok::<(), std::io::Error>(())
//! ```

mod bytes;
mod compare;
mod damage;
mod expected;
mod file;
mod image;
mod links;
mod lint;
mod live;
mod notes;
mod sections;
mod spans;
mod spec;
mod tables;
mod trace;

pub use damage::contradiction;
pub use expected::{Allowed, Expected, Word};
pub use live::{LiveOptions, Stop, live};

use file::{Elf, Segment};
use image::{Image, Initialiser};
use links::Side;
use model::{Bytes, Error, Exit};
use serde::{Deserialize, Serialize};
use spans::Spans;
use spec::*;
use std::fmt;
use tables::{Batch, Tables};

/// What the oracle says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// How much was compared.
    pub checked: Checked,
    /// The first differences, at most [`Verdict::LISTED`].
    pub differences: Vec<Difference>,
    /// How many there are.
    pub total: u64,
}

impl Verdict {
    /// How many differences are listed.
    pub const LISTED: usize = 100;

    /// Whether nothing differs but what may.
    pub fn agrees(&self) -> bool {
        self.total == 0
    }
}

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Bytes of memory, and of sections that are not loaded.
    pub bytes: Bytes,
    /// Relative relocations: words to which the base is added, in the original.
    pub relative: u64,
    /// All other relocations.
    pub relocations: u64,
    /// Dynamic symbols.
    pub symbols: u64,
}

/// Something that the packed file does otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What sort of thing.
    pub kind: Kind,
    /// Its address in the object, where it has one.
    pub at: Option<u64>,
    /// What differs, for people.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(out, "{} at {at:#x}: {}", self.kind, self.what),
            None => write!(out, "{}: {}", self.kind, self.what),
        }
    }
}

/// Sorts of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The ELF header.
    Header,
    /// A program header.
    Segment,
    /// Access to memory.
    Protection,
    /// A byte of memory after relocation.
    Memory,
    /// A relocation.
    Relocation,
    /// The dynamic table, and the arrays that it names.
    Dynamic,
    /// A dynamic symbol.
    Symbol,
    /// A version of a symbol or library.
    Version,
    /// A hash table.
    Hash,
    /// A note.
    Note,
    /// A section header, or a section that is not loaded.
    Section,
    /// A rule that every file must keep.
    Structure,
    /// Bytes that are appended to the file.
    Payload,
    /// What was expected to change did not, or not so.
    Expected,
    /// The real loader does not load it.
    Load,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Header => "header",
            Self::Segment => "segment",
            Self::Protection => "protection",
            Self::Memory => "memory",
            Self::Relocation => "relocation",
            Self::Dynamic => "dynamic table",
            Self::Symbol => "symbol",
            Self::Version => "version",
            Self::Hash => "hash table",
            Self::Note => "note",
            Self::Section => "section",
            Self::Structure => "structure",
            Self::Payload => "payload",
            Self::Expected => "expected change",
            Self::Load => "load",
        })
    }
}

/// Compares a packed file with its original: nothing but the form of the relative relocations may differ.
///
/// Errors: the original is not an ELF file of type ET_DYN with a dynamic table, or is damaged ([`Exit::Data`]). A
/// packed file that is damaged is not an error but a difference.
pub fn offline(original: &[u8], packed: &[u8]) -> model::Result<Verdict> {
    offline_expecting(original, packed, &Expected::default())
}

/// [`offline`] where the rewriter says what else it changed.
///
/// Errors: as [`offline`].
pub fn offline_expecting(original: &[u8], packed: &[u8], expected: &Expected) -> model::Result<Verdict> {
    Original::read(original).map_err(unusable)?.offline_expecting(packed, expected)
}

fn unusable(reason: String) -> Error {
    Error::new(Exit::Data, "cannot take as the original", "").because(reason)
}

/// A file that others can be compared with: its tables are read once for several questions.
pub struct Original<'a> {
    elf: Elf<'a>,
    tables: Tables<'a>,
}

impl<'a> Original<'a> {
    /// Reads its headers and tables. Errors: why the loader could not use the file.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let elf = Elf::parse(bytes)?;
        let tables = Tables::read(&elf)?;
        tables.batches.iter().try_for_each(Batch::check_trusted)?;
        Ok(Self { elf, tables })
    }

    /// The bytes that it was read from.
    pub fn bytes(&self) -> &'a [u8] {
        self.elf.bytes
    }

    /// [`offline_expecting`] with this file as the original.
    ///
    /// Errors: its image cannot be made ([`Exit::Data`]).
    pub fn offline_expecting(&self, packed: &[u8], expected: &Expected) -> model::Result<Verdict> {
        compare_with(self, packed, expected)
    }
}

fn compare_with(original: &Original, packed: &[u8], expected: &Expected) -> model::Result<Verdict> {
    let Original { elf: old, tables: old_tables } = original;
    let mut findings = Findings::default();
    let damaged = |reason: String, mut findings: Findings| {
        findings.add(Kind::Structure, None, || reason);
        Ok(findings.verdict)
    };
    let new = match Elf::parse(packed) {
        Ok(new) => new,
        Err(reason) => return damaged(reason, findings),
    };
    let new_tables = match Tables::read(&new) {
        Ok(tables) => tables,
        Err(reason) => return damaged(reason, findings),
    };
    headers(old, &new, &mut findings);
    if old.format != new.format || old.machine_number != new.machine_number {
        return Ok(findings.verdict);
    }
    segments(old, &new, &mut findings);

    let (old_tokens, new_tokens) = (image::symbol_tokens(old_tables), image::symbol_tokens(&new_tables));
    let before = Side { elf: old, tables: old_tables, tokens: &old_tokens };
    let after = Side { elf: &new, tables: &new_tables, tokens: &new_tokens };
    links::dynamic(&before, &after, expected, &mut findings);
    links::symbols(&before, &after, &mut findings);
    links::versions(&before, &after, &mut findings);
    links::hashes(&before, &after, &mut findings);
    links::relocations(&before, &after, expected, &mut findings);

    let movable = compare::movable(old, old_tables, &new);
    compare::interpreter_and_notes(old, &new, expected, &mut findings);
    sections::sections(old, &new, &movable, expected, &mut findings);
    lint::lint((old, old_tables), (&new, &new_tables), expected, &mut findings);

    let skipped = skipped(old, &movable, expected);
    compare::protections(old, &new, &skipped, &mut findings);
    let initialiser = match expected.initialiser() {
        None => None,
        Some((at, len)) => match new.slice(at, len) {
            Some(table) => Some(Initialiser { table }),
            None => return damaged("the initialiser's table lies outside the file".to_owned(), findings),
        },
    };
    for (round, base) in bases(old).into_iter().enumerate() {
        let (before, after) = both(
            packed.len(),
            || Image::relocated(old, old_tables, &old_tokens, base, None),
            || Image::relocated(&new, &new_tables, &new_tokens, base, initialiser),
        );
        let before = before.map_err(unusable)?;
        let after = match after {
            Ok(image) => image,
            Err(reason) => return damaged(reason, findings),
        };
        compare::expected_words(&after, expected, &mut findings);
        if round == 0 {
            findings.verdict.checked.relative = before.relative();
            compare::memory(&before, &after, &skipped, &mut findings);
            compare::additions(&before, &after, &new, &new_tables, expected, &mut findings);
            compare::misplaced(&before, &after, &mut findings);
        } else {
            compare::touched_memory(&before, &after, &skipped, &mut findings);
        }
        links::arrays(old, &before, &new, &after, &mut findings);
        // What was found by now holds at every base: the second one would cost as much as the first.
        if expected.allowed.is_empty() && links::same_arrays(old, &new) && before.depends_as(&after) {
            break;
        }
    }
    Ok(findings.verdict)
}

/// Does two things side by side, where so many bytes are worth a thread.
fn both<A, B: Send>(len: usize, one: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    const WORTH: usize = 1 << 22;
    if len < WORTH {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Two bases that no pair of different addends can make look alike: their difference is odd in pages.
fn bases(elf: &Elf) -> [u64; 2] {
    elf.format.pick([0x4000_0000, 0xb7e1_3000], [0x5555_5555_4000, 0x7f12_3456_7000])
}

/// What of the original's memory is not compared byte by byte.
fn skipped(old: &Elf, movable: &Spans, expected: &Expected) -> Spans {
    let word = old.format.word_len();
    let mut ranges: Vec<(u64, u64)> = movable.ranges().iter().map(|(start, end)| (*start, end - start)).collect();
    ranges.extend(expected.new_ranges());
    ranges.extend(expected.words().map(|(at, _)| (at, word)));
    if expected.allows(&Allowed::BuildId) {
        ranges.extend(notes::notes(old).iter().filter_map(notes::Note::build_id));
    }
    Spans::new(ranges)
}

fn headers(old: &Elf, new: &Elf, findings: &mut Findings) {
    let fields = |elf: &Elf| (elf.ident, elf.kind, elf.machine_number, elf.flags, elf.header_len, elf.entry);
    if fields(old) != fields(new) {
        let named = |elf: &Elf| format!("{} with entry {:#x} and flags {:#x}", elf.machine.name, elf.entry, elf.flags);
        findings.add(Kind::Header, None, || format!("was {} and is {}, or e_ident differs", named(old), named(new)));
    }
}

/// Program headers other than PT_LOAD, whose effect is compared instead.
fn segments(old: &Elf, new: &Elf, findings: &mut Findings) {
    // Their content is compared by meaning.
    let by_meaning = [PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR, PT_GNU_PROPERTY, PT_GNU_RELRO];
    let others = |elf: &Elf| -> Vec<Segment> {
        let kept = elf.segments.iter().filter(|segment| !by_meaning.contains(&segment.kind) && segment.kind != 0);
        // An offset follows the file's layout; that it fits to the address is the lint's business.
        kept.map(|segment| Segment { offset: 0, ..*segment }).collect()
    };
    let (before, mut after) = (others(old), others(new));
    for segment in before {
        match after.iter().position(|other| *other == segment) {
            Some(index) => drop(after.remove(index)),
            None => findings.add(Kind::Segment, Some(segment.at), || {
                format!("program header type {:#x} is gone or changed", segment.kind)
            }),
        }
    }
    for segment in after {
        findings.add(Kind::Segment, Some(segment.at), || format!("program header type {:#x} is new", segment.kind));
    }
    // The loader learns a program's base from PT_PHDR; for a library it is not used.
    if old.segment(PT_INTERP).is_some() && old.segment(PT_PHDR).is_some() && new.segment(PT_PHDR).is_none() {
        findings.add(Kind::Segment, None, || "a program lost its PT_PHDR".to_owned());
    }
    if old.segment(PT_GNU_RELRO).is_some() != new.segment(PT_GNU_RELRO).is_some() {
        findings.add(Kind::Segment, None, || "PT_GNU_RELRO is gone or new".to_owned());
    }
}

/// Where differences are counted while a file is compared.
#[derive(Default)]
struct Findings {
    verdict: Verdict,
}

impl Findings {
    /// Counts a difference; its text is made only where it is listed.
    fn add(&mut self, kind: Kind, at: Option<u64>, what: impl FnOnce() -> String) {
        self.verdict.total += 1;
        if self.verdict.differences.len() < Verdict::LISTED {
            self.verdict.differences.push(Difference { kind, at, what: what() });
        }
    }

    /// Adds what was found elsewhere, behind what is there.
    fn append(&mut self, later: Self) {
        let Verdict { checked, differences, total } = later.verdict;
        let room = Verdict::LISTED.saturating_sub(self.verdict.differences.len());
        self.verdict.differences.extend(differences.into_iter().take(room));
        self.verdict.total += total;
        self.checked_bytes(checked.bytes.0);
    }

    fn checked_bytes(&mut self, len: u64) {
        self.verdict.checked.bytes = Bytes(self.verdict.checked.bytes.0.saturating_add(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_says_its_sort_its_place_and_what_it_is() {
        let mut difference = Difference { kind: Kind::Memory, at: Some(0x1f40), what: "was 1 and is 2".to_owned() };
        assert_eq!(difference.to_string(), "memory at 0x1f40: was 1 and is 2");
        (difference.kind, difference.at) = (Kind::Dynamic, None);
        assert_eq!(difference.to_string(), "dynamic table: was 1 and is 2");
    }

    #[test]
    fn two_bases_are_compared_that_no_addend_can_make_alike() {
        let program = std::fs::read("/proc/self/exe").expect("this test");
        let mut elf = Elf::parse(&program).expect("a program of this machine");
        for class in [bytes::Class::Elf32, bytes::Class::Elf64] {
            elf.format.class = class;
            let [one, other] = bases(&elf);
            assert_eq!((one % 4096, other % 4096), (0, 0), "pages");
            assert_eq!(one.abs_diff(other) / 4096 % 2, 1, "{one:#x} and {other:#x}");
            assert!(class == bytes::Class::Elf64 || one.max(other) < 1 << 32);
        }
    }

    #[test]
    fn all_differences_are_counted_and_the_first_hundred_listed() {
        let mut findings = Findings::default();
        assert!(findings.verdict.agrees());
        for at in 0..150 {
            findings.add(Kind::Memory, Some(at), || "differs".to_owned());
        }
        let verdict = findings.verdict;
        assert_eq!((verdict.total, verdict.differences.len()), (150, Verdict::LISTED));
        assert_eq!(verdict.differences.last().and_then(|difference| difference.at), Some(99));
        assert!(!verdict.agrees());
    }

    #[test]
    fn what_two_threads_found_is_one_list_in_order() {
        let found = |from: u64, to: u64| {
            let mut findings = Findings::default();
            (from..to).for_each(|at| findings.add(Kind::Memory, Some(at), || "differs".to_owned()));
            findings.checked_bytes(to - from);
            findings
        };
        let mut all = found(0, 70);
        all.append(found(70, 150));
        assert_eq!(
            all.verdict,
            Verdict { checked: Checked { bytes: Bytes(150), ..Checked::default() }, ..found(0, 150).verdict }
        );
    }

    #[test]
    fn what_was_compared_is_added_up_without_running_over() {
        let mut findings = Findings::default();
        findings.checked_bytes(5);
        findings.checked_bytes(7);
        assert_eq!(findings.verdict.checked.bytes, Bytes(12));
        findings.checked_bytes(u64::MAX);
        assert_eq!(findings.verdict.checked.bytes, Bytes(u64::MAX));
    }
}
