//! The code for AArch64: as its assembler has it, and as an emulator runs it.

mod workshop;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use touch::function::aarch64::{CODE, JUMP, STUBS, armed, code, jump, stub, stub_at};
use touch::function::entries::{Entry, Head, LOG_HEAD, Log, Record};
use workshop::Workshop;

const PAGE: usize = 4096;
/// Functions of the program, each of so many bytes.
const FUNCTIONS: usize = 2 * PAGE / EACH;
const EACH: usize = 16;
/// From the text to its writable view.
const AWAY: i64 = 64 << 20;
const THREADS: usize = 4;

/// What the assembler makes of a text; `None`: it is not here.
fn assembled(text: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let [source, object, bytes] = ["code.s", "code.o", "code"].map(|name| folder.path().join(name));
    std::fs::write(&source, text).unwrap();
    let run = |tool: &str, words: &[&std::ffi::OsStr]| {
        let said = Command::new(tool).args(words).output().ok()?;
        assert!(said.status.success(), "{tool}: {}\n{text}", String::from_utf8_lossy(&said.stderr));
        Some(())
    };
    run("aarch64-linux-gnu-as", &["-o".as_ref(), object.as_ref(), source.as_ref()])?;
    run("aarch64-linux-gnu-objcopy", &["-O".as_ref(), "binary".as_ref(), object.as_ref(), bytes.as_ref()])?;
    Some(std::fs::read(bytes).unwrap())
}

#[test]
fn each_instruction_is_what_the_assembler_makes_of_it() {
    let lines: Vec<&str> = CODE.iter().map(|(text, _)| *text).collect();
    let Some(expected) = assembled(&format!(".skip 40\n{}\n.balign {STUBS}, 0\n", lines.join("\n"))) else {
        return testing::skip("needs aarch64-linux-gnu-as");
    };
    assert_eq!(code()[..], expected);

    // From a stub, what all call and the entry are so far away.
    let number = 1000;
    let at = stub_at(number) as i64;
    let to = -(96 << 20) + 4;
    let text =
        format!("stp x30, x0, [sp, #-64]!\nbl . - {}\nldp x30, x0, [sp], #64\nb . - {}\n", at + 4 - 40, at + 12 - to);
    assert_eq!(stub(number, to).unwrap()[..], assembled(&text).unwrap());

    for way in [0, 4, -4, (128 << 20) - 4, -(128 << 20)] {
        assert_eq!(jump(1 << 30, (1 << 30) + way).unwrap()[..], assembled(&format!("b . + {way}")).unwrap(), "{way}");
    }
    for way in [128 << 20, -(128 << 20) - 4, 2, i64::MAX] {
        assert_eq!(jump(0, way), None, "{way}");
    }
    assert_eq!(jump(i64::MIN, 4), None);
    assert_eq!((stub(0, (128 << 20) + at), stub(usize::MAX / 2, 0)), (None, None));

    let first = |line: &str| assembled(&format!(".arch armv8.5-a\n{line}\nret\n")).unwrap();
    for pad in ["bti", "bti c", "bti j", "bti jc", "paciasp", "pacibsp"] {
        assert_eq!(armed(&first(pad)), Some(JUMP), "{pad}");
        assert_eq!(armed(&first(pad)[..JUMP]), None, "{pad} alone");
    }
    for other in ["nop", "stp x29, x30, [sp, #-16]!", "autiasp", "b . + 8"] {
        assert_eq!(armed(&first(other)), Some(0), "{other}");
    }
    assert_eq!(armed(&[0x1f, 0x20, 0x03]), None);
}

/// What one run of the program left.
struct Ran {
    is_done: bool,
    printed: String,
    image: Vec<u8>,
}

impl Ran {
    /// Numbers behind a word at the begin of lines.
    fn numbers(&self, word: &str) -> Vec<u64> {
        self.printed.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect()
    }
}

/// By which mapping the text is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// By one of its own, as the engine of x86-64 has it.
    Other,
    /// By the one that is run: what is put back is seen at once by an emulator that does not heed `ic ivau`.
    Same,
}

/// The program, and the memory that it maps.
struct Stage {
    workshop: Workshop,
    program: PathBuf,
    text: Vec<u8>,
}

const TABLE: usize = CODE_AT + 4 * PAGE;
const CODE_AT: usize = FUNCTIONS * EACH;
const SPACE: usize = CODE_AT + 3 * PAGE;
const LOG: usize = TABLE + FUNCTIONS * size_of::<Entry>();
const END: usize = (LOG + LOG_HEAD + FUNCTIONS * size_of::<Record>()).next_multiple_of(PAGE);

impl Stage {
    fn new() -> Option<Self> {
        let workshop = Workshop::new()?;
        if Command::new("qemu-aarch64").arg("--version").output().is_err() {
            testing::skip("needs qemu-aarch64");
            return None;
        }
        let program = workshop.compile_with(&[&["aarch64-linux-gnu-gcc"]], "aarch64.c", "aarch64", &["-static"])?;
        let bytes = std::fs::read(&program).unwrap();
        let section = elf::sections(&bytes).unwrap().into_iter().find(|section| section.name == "armed").unwrap();
        let text = bytes[section.offset.0 as usize..][..section.len.0 as usize].to_vec();
        assert_eq!(text.len(), CODE_AT);
        Some(Self { workshop, program, text })
    }

    /// The memory: all functions armed, a log with so much room.
    fn image(&self, room: usize, view: View) -> Vec<u8> {
        let mut image = vec![0; END];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.text);
        put(CODE_AT, &code());
        let from_code = |part: usize| part as i64 - CODE_AT as i64;
        let text = from_code(0) - AWAY;
        let head = Head {
            alias: if view == View::Same { text } else { from_code(0) },
            table: from_code(TABLE),
            log: from_code(LOG),
            text,
            space: from_code(SPACE),
        };
        for (word, at) in [head.alias, head.table, head.log, head.text, head.space].iter().zip((CODE_AT..).step_by(8)) {
            put(at, &word.to_le_bytes());
        }
        put(LOG + std::mem::offset_of!(Log, room), &room.to_le_bytes());
        for number in 0..FUNCTIONS {
            let at = number * EACH;
            let at = at + armed(&self.text[at..at + EACH]).unwrap();
            put(CODE_AT + stub_at(number), &stub(number, at as i64 - CODE_AT as i64 - AWAY).unwrap());
            put(at, &jump(at as i64, AWAY + (CODE_AT + stub_at(number)) as i64).unwrap());
            let entry = TABLE + number * size_of::<Entry>();
            put(entry, &(at as u32).to_le_bytes());
            put(entry + std::mem::offset_of!(Entry, original), &self.text[at..at + JUMP]);
        }
        assert!(stub_at(FUNCTIONS) <= SPACE - CODE_AT && LOG.is_multiple_of(64));
        image
    }

    fn run(&self, image: &[u8], view: View) -> Ran {
        let path = self.workshop.path("image");
        std::fs::write(&path, image).unwrap();
        let mut command = Command::new("qemu-aarch64");
        command.arg(&self.program).arg(&path).arg(THREADS.to_string()).arg(AWAY.to_string());
        command.args([CODE_AT, SPACE, END, usize::from(view == View::Same)].map(|number| number.to_string()));
        let said = command.output().unwrap();
        let printed = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        let is_done = said.status.success() && printed.ends_with("done\n");
        Ran { is_done, printed, image: std::fs::read(&path).unwrap() }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Number of the entry, of the space, base, time of each record that was written.
fn records(image: &[u8]) -> Vec<(u32, u32, u64, u64)> {
    let records = image[LOG + LOG_HEAD..].chunks_exact(size_of::<Record>());
    let record = |record: &[u8]| {
        let both = word(record, std::mem::offset_of!(Record, entry));
        (both as u32, (both >> 32) as u32, word(record, 16), word(record, 0))
    };
    records.map(record).filter(|(.., at)| *at != 0).collect()
}

#[test]
fn armed_functions_see_what_their_caller_gave_and_are_noted_once() {
    let Some(stage) = Stage::new() else { return };
    for view in [View::Same, View::Other] {
        noted_once(&stage, view);
    }
}

fn noted_once(stage: &Stage, view: View) {
    let ran = stage.run(&stage.image(FUNCTIONS, view), view);
    assert!(ran.is_done && ran.printed.starts_with("guarded\n"), "{}", ran.printed);
    assert_eq!(ran.image[..CODE_AT], stage.text, "all entries are put back");
    let noted = records(&ran.image);
    let functions: BTreeSet<u32> = noted.iter().map(|(function, ..)| *function).collect();
    assert_eq!((noted.len(), functions.len()), (FUNCTIONS, FUNCTIONS), "each function once");
    assert_eq!(word(&ran.image, LOG), FUNCTIONS as u64);
    assert!(functions.iter().copied().eq(0..FUNCTIONS as u32));
    let threads = ran.numbers("thread ");
    assert_eq!(threads.len(), THREADS);
    let span = ran.numbers("from ")[0]..=ran.numbers("to ")[0];
    for (_, space, base, at) in noted {
        assert!(space == 7 && threads.contains(&base) && span.contains(&at), "{space} {base} {at}: {}", ran.printed);
    }
}

#[test]
fn a_full_log_counts_what_it_loses_and_entries_are_put_back_all_the_same() {
    let Some(stage) = Stage::new() else { return };
    let ran = stage.run(&stage.image(100, View::Other), View::Other);
    assert!(ran.is_done, "{}", ran.printed);
    assert_eq!(ran.image[..CODE_AT], stage.text);
    assert_eq!((records(&ran.image).len(), word(&ran.image, LOG)), (100, FUNCTIONS as u64));
}

/// Without it, the tests above could be of a program that looks at nothing.
#[test]
fn a_register_that_is_not_saved_is_noticed() {
    let Some(stage) = Stage::new() else { return };
    let whole = stage.image(FUNCTIONS, View::Same);
    let with = |at: usize, word: u32| {
        let mut image = whole.clone();
        image[at..at + 4].copy_from_slice(&word.to_le_bytes());
        stage.run(&image, View::Same)
    };
    const NOP: u32 = 0xd503_201f;
    let common = CODE_AT + size_of::<Head>();
    let mut tried = 0;
    for (number, (text, _)) in CODE.iter().enumerate().filter(|(_, (text, _))| text.contains("[sp")) {
        let ran = with(common + number * 4, NOP);
        assert!(!ran.is_done && ran.printed.contains(": register "), "without {text}: {}", ran.printed);
        tried += 1;
    }
    assert_eq!(tried, 6, "three are saved, three restored");
    // In the place of the last barrier: what writes the flags, and a vector register. In the last stub: x0 is lost.
    // (Without x30 a function would return into its stub for ever.)
    let barrier = common + 4 * CODE.iter().position(|(text, _)| *text == "isb").unwrap();
    let stub = CODE_AT + stub_at(FUNCTIONS - 1);
    for (what, at, word) in [
        ("subs x3, x3, x3", barrier, 0xeb03_0063_u32),
        ("movi v31.16b, #1", barrier, 0x4f00_e43f),
        ("ldp x30, xzr, [sp], #64", stub + 8, 0xa8c4_7ffe),
    ] {
        assert_eq!(assembled(what).unwrap(), word.to_le_bytes(), "{what}");
        let ran = with(at, word);
        assert!(!ran.is_done && ran.printed.contains(": register "), "{what}: {}", ran.printed);
    }
}
