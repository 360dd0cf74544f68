//! The byte engine on programs whose touches are known to the byte.

use model::TraceRows;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use touch::Trace;
use touch::byte::{Access, Tool, Written};

const PAGE: u64 = model::PAGE;

/// Valgrind with our tool, built where needed; `None`: this machine cannot.
fn tool() -> Option<Tool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = Command::new(root.join("dev/icegrind")).output().unwrap();
    if said.status.code() == Some(3) {
        testing::skip("needs valgrind with its headers");
        return None;
    }
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Some(Tool::find(&[target.join("icegrind")]).unwrap())
}

/// A folder with the tool and compiled programs.
struct Workshop {
    folder: tempfile::TempDir,
    tool: Tool,
}

impl Workshop {
    fn open() -> Option<Self> {
        // On a disk: what lies in memory is no file of the report.
        Some(Self { tool: tool()?, folder: tempfile::tempdir_in("/var/tmp").unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, compiler: &[&str]) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let program = self.path(name);
        let built = Command::new(compiler[0]).args(&compiler[1..]).arg(source).arg("-o").arg(&program).output();
        if !built.as_ref().is_ok_and(|said| said.status.success()) {
            testing::skip(&format!("needs the compiler {}", compiler.join(" ")));
            return None;
        }
        Some(program)
    }

    fn watch(&self, words: &[&Path]) -> Watched {
        let directory = tempfile::tempdir_in(self.folder.path()).unwrap();
        let argv: Vec<OsString> = words.iter().map(|word| OsString::from(*word)).collect();
        let command = self.tool.command(directory.path(), words[0], &argv).unwrap();
        let mut engine = Written::new(&self.tool, directory.path());
        let environment = self.tool.environment().into_iter().filter_map(|(name, value)| Some((name, value?)));
        let status = Command::new(&command[0])
            .args(&command[1..])
            .envs(environment)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        Watched { rows: engine.stop(0).unwrap(), status }
    }
}

struct Watched {
    rows: TraceRows,
    status: ExitStatus,
}

impl Watched {
    /// Bytes of a file in the order of their first touch, and how each was touched.
    fn bytes(&self, path: &Path) -> Vec<(u64, &str)> {
        let of_file = |touch: &&model::TouchRow| self.rows.files[touch.file.0 as usize].path == path;
        let rows = self.rows.touches.iter().filter(of_file);
        rows.flat_map(|touch| {
            let how = touch.name.as_deref().unwrap_or("?");
            (touch.offset.0..touch.offset.0 + touch.len.0).map(move |at| (at, how))
        })
        .collect()
    }

    fn offsets(&self, path: &Path) -> Vec<u64> {
        self.bytes(path).into_iter().map(|(at, _)| at).collect()
    }

    fn cannot(&self) -> String {
        self.rows.info.cannot.join("\n")
    }
}

/// What a script touches, byte by byte.
#[derive(Default)]
struct Expected {
    size: u64,
    seen: BTreeSet<u64>,
    bytes: Vec<(u64, &'static str)>,
    script: String,
    /// Ranges that were read and not mapped.
    reads: Vec<(u64, u64)>,
}

impl Expected {
    fn of(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    fn touch(&mut self, at: i64, how: Access) {
        let Ok(at) = u64::try_from(at) else { return };
        if at < self.size && self.seen.insert(at) {
            self.bytes.push((at, how.name()));
        }
    }

    /// Adds an operation of `accesses.c`.
    fn add(&mut self, operation: char, at: i64, count: i64) {
        self.script += &format!("{operation} {at} {count}\n");
        let how = if matches!(operation, 's' | 'f' | 'r') { Access::Write } else { Access::Read };
        let places: Vec<i64> = match operation {
            'd' => (at..at + count).rev().collect(),
            'b' => vec![at + count.div_euclid(8)],
            'k' => (at + 4..at + 8).chain(at + 12..at + 16).collect(),
            'p' => {
                self.reads.push((at as u64, count as u64));
                Vec::new()
            }
            _ => (at..at + count).collect(),
        };
        places.into_iter().for_each(|at| self.touch(at, how));
    }
}

/// The same numbers for the same seed: xorshift64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end) as i64
    }
}

/// A random script; many accesses are near the borders of pages, of the file and of its mapping.
fn random_script(seed: u64, size: u64, operations: usize) -> Expected {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut expected = Expected::of(size);
    for _ in 0..operations {
        let sizes: &[i64] = &[1, 2, 4, 8, 10, 16, 32];
        let kind = b"lllsssavmdfbkwrp"[numbers.below(16) as usize] as char;
        let count = match kind {
            'l' | 's' => sizes[numbers.below(7) as usize],
            'a' => [1, 2, 4, 8, 16][numbers.below(5) as usize],
            'v' => [1, 4, 8, 16][numbers.below(4) as usize],
            'k' => 0,
            // From 64 bytes before to 64 behind.
            'b' => numbers.below(1024) - 512,
            _ => 1 + numbers.below(300),
        };
        let mut at = match numbers.below(3) {
            0 => numbers.below(size / PAGE + 2) * PAGE as i64 + numbers.below(64) - 32,
            1 => size as i64 - 64 + numbers.below(128),
            _ => numbers.below(size),
        };
        if (kind, count) == ('a', 16) {
            at &= -16;
        }
        if kind == 'p' {
            at = at.clamp(0, size as i64 - count);
        }
        if kind == 'r' || kind == 'w' {
            // System calls of which only a part is the file's would be answered otherwise.
            at = at.clamp(0, size as i64);
        }
        expected.add(kind, at, count);
    }
    expected
}

#[test]
fn every_kind_of_access_is_seen_to_the_byte_in_its_order() {
    let Some(shop) = Workshop::open() else { return };
    let Some(program) = shop.compile("accesses", &["cc", "-O1"]) else { return };
    let size = 5 * PAGE + 1234;
    let (data, script) = (shop.path("data"), shop.path("script"));
    std::fs::write(&data, vec![b'x'; size as usize]).unwrap();
    let run = |name: &str, expected: &Expected| {
        std::fs::write(&script, &expected.script).unwrap();
        let seen = shop.watch(&[&program, &data, &script]);
        assert!(seen.status.success(), "{name}: {}", seen.status);
        let bytes = seen.bytes(&data);
        let at = bytes.iter().zip(&expected.bytes).position(|(seen, wanted)| seen != wanted);
        let context = at.map(|at| {
            (at, &bytes[at..(at + 4).min(bytes.len())], &expected.bytes[at..(at + 4).min(expected.bytes.len())])
        });
        assert!(
            at.is_none() && bytes.len() == expected.bytes.len(),
            "{name}: {context:?} of {} and {}",
            bytes.len(),
            expected.bytes.len()
        );
        let reads: Vec<(u64, u64)> = seen
            .rows
            .reads
            .iter()
            .filter(|read| seen.rows.files[read.file.0 as usize].path == data)
            .map(|read| (read.offset.0, read.len.0))
            .collect();
        let pages = |(at, len): &(u64, u64)| (at / PAGE * PAGE, (at + len).next_multiple_of(PAGE) - at / PAGE * PAGE);
        assert_eq!(reads, expected.reads.iter().map(pages).collect::<Vec<_>>(), "{name}");
    };
    // One of each, apart from each other, and over the border of two pages.
    let mut each = Expected::of(size);
    for (at, operation) in (0..).zip([
        ('l', 1),
        ('l', 2),
        ('l', 4),
        ('l', 8),
        ('l', 10),
        ('l', 16),
        ('l', 32),
        ('s', 1),
        ('s', 2),
        ('s', 4),
        ('s', 8),
        ('s', 10),
        ('s', 16),
        ('s', 32),
        ('v', 1),
        ('v', 4),
        ('v', 8),
        ('v', 16),
        ('a', 1),
        ('a', 2),
        ('a', 4),
        ('a', 8),
        ('m', 100),
        ('d', 100),
        ('f', 100),
        ('b', 77),
        ('k', 0),
        ('w', 100),
        ('r', 100),
        ('p', 5000),
    ]) {
        each.add(operation.0, at * 133 + 3, operation.1);
        each.add(operation.0, (at % 5) * PAGE as i64 - 1 + at % 3, operation.1);
    }
    each.add('a', 2 * PAGE as i64 + 16, 16);
    each.add('l', -1, 1);
    each.add('l', size as i64, 8);
    run("each", &each);
    // What was touched does not count again.
    let mut twice = Expected::of(size);
    (0..2).for_each(|_| twice.add('m', 5000, 9000));
    twice.add('l', 4999, 8);
    twice.add('s', 13_999, 8);
    run("twice", &twice);
    for seed in 1..=8 {
        run(&format!("seed {seed}"), &random_script(seed, size, 1_000));
    }
}

#[test]
fn strings_for_the_kernel_count_to_their_end_and_copies_whole() {
    let Some(shop) = Workshop::open() else { return };
    let Some(program) = shop.compile("accesses", &["cc", "-O1"]) else { return };
    let (data, script) = (shop.path("data"), shop.path("script"));
    let mut text = vec![b'x'; 3 * PAGE as usize];
    text[4200] = 0;
    std::fs::write(&data, &text).unwrap();
    std::fs::write(&script, "o 4000 0\nc 8500 700\n").unwrap();
    let seen = shop.watch(&[&program, &data, &script]);
    assert!(seen.status.success());
    let bytes: BTreeSet<u64> = seen.offsets(&data).into_iter().collect();
    assert_eq!(bytes, (4000..=4200).chain(8500..9200).collect());
    assert_eq!(seen.offsets(&data).len(), bytes.len(), "each once");
}

#[test]
fn code_counts_to_the_byte() {
    let Some(shop) = Workshop::open() else { return };
    let Some(program) = shop.compile("code", &["cc", "-O1"]) else { return };
    let seen = shop.watch(&[&program]);
    assert!(seen.status.success());
    let file = std::fs::read(&program).unwrap();
    let elf = object::File::parse(&*file).unwrap();
    let text =
        elf.segments().find(|segment| segment.data().is_ok_and(|data| !data.is_empty()) && segment.address() > 0);
    let labels: BTreeMap<u64, String> = elf
        .symbols()
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .filter(|(_, name)| ["yes_", "no_", "end_of_block"].iter().any(|part| name.starts_with(part)))
        .collect();
    assert!(text.is_some() && labels.len() == 11, "{labels:?}");
    let in_file = |address: u64| {
        let segment =
            elf.segments().find(|part| (part.address()..part.address() + part.size()).contains(&address)).unwrap();
        address - segment.address() + segment.file_range().0
    };
    let places: Vec<(u64, &String)> = labels.iter().map(|(address, name)| (in_file(*address), name)).collect();
    let mut wanted = BTreeSet::new();
    for pair in places.windows(2) {
        if pair[0].1.starts_with("yes_") {
            wanted.extend(pair[0].0..pair[1].0);
        }
    }
    let (first, last) = (places[0].0, places[10].0);
    let executed: Vec<u64> =
        seen.bytes(&program).into_iter().filter(|(_, how)| *how == "execute").map(|(at, _)| at).collect();
    let inside: Vec<u64> = executed.into_iter().filter(|at| (first..last).contains(at)).collect();
    assert_eq!(inside.iter().copied().collect::<BTreeSet<u64>>(), wanted);
    assert_eq!(inside.len(), wanted.len(), "each once");
}

/// What `remapped.c` touches of its two files until it forks, in its order.
const OF_ONE: [u64; 9] = [100, 8199, 16384, 45057, 101, 200, 300, 900, 301];
const OF_TWO: [u64; 2] = [12295, 20479];

#[test]
fn bytes_belong_to_the_file_that_is_mapped_at_that_moment_in_every_process_and_thread() {
    let Some(shop) = Workshop::open() else { return };
    let (one, two) = (shop.path("one"), shop.path("two"));
    for path in [&one, &two] {
        std::fs::write(path, vec![b'x'; 16 * PAGE as usize]).unwrap();
    }
    // Debian has the cross compiler and the multilib of the compiler only one without the other.
    let narrow: &[&str] = match Command::new("i686-linux-gnu-gcc").output() {
        Ok(_) => &["i686-linux-gnu-gcc", "-O1", "-pthread", "-static"],
        Err(_) => &["cc", "-m32", "-O1", "-pthread", "-static"],
    };
    for compiler in [&["cc", "-O1", "-pthread"][..], &["cc", "-O1", "-pthread", "-static"], narrow] {
        let Some(program) = shop.compile("remapped", compiler) else { continue };
        for (how, signal) in [("", None), ("killed", Some(9)), ("abort", Some(6)), ("fault", Some(11))] {
            let seen = shop.watch(&[&program, &one, &two, Path::new(how)]);
            let name = format!("{compiler:?} {how}");
            assert_eq!(seen.status.signal(), signal, "{name}");
            assert_eq!(seen.offsets(&one), OF_ONE, "{name}");
            assert_eq!(seen.offsets(&two), OF_TWO, "{name}");
            assert_eq!(seen.rows.processes.len(), if how == "killed" { 3 } else { 2 }, "{name}");
            assert_eq!(seen.cannot().contains("killed"), how == "killed", "{name}: {}", seen.cannot());
            // A byte of a thread is the thread's, one of the child the child's.
            let tid = |offset: u64| {
                let touch = seen
                    .rows
                    .touches
                    .iter()
                    .find(|touch| touch.offset.0 == offset && seen.rows.files[touch.file.0 as usize].path == one);
                touch.unwrap().tid.unwrap()
            };
            let (parent, child) = (seen.rows.processes[0].pid, seen.rows.processes[1].pid);
            assert_eq!([100, 300, 301].map(tid), [parent, child, parent], "{name}");
            assert!(![parent, child].contains(&tid(200)), "{name}");
            // Where a run ended or two began, times still go on.
            assert!(seen.rows.touches.is_sorted_by_key(|touch| touch.at_ns));
            assert!(seen.rows.touches.iter().zip(0..).all(|(touch, order)| touch.order == Some(order)));
        }
    }
}

#[test]
fn real_programs_run_as_without() {
    let Some(shop) = Workshop::open() else { return };
    let script = "x=$(ls / | wc -l); (exec true); test \"$x\" -gt 2 && exit 7";
    let words = ["/bin/sh", "-c", script].map(Path::new);
    let seen = shop.watch(&words);
    assert_eq!(seen.status.code(), Some(7));
    let executed: BTreeSet<String> =
        seen.rows.processes.iter().filter_map(|process| process.exe.as_deref()).map(model::shown).collect();
    assert!(["ls", "wc", "true"].iter().all(|name| executed.iter().any(|path| path.ends_with(name))), "{executed:?}");
    assert!(seen.rows.files.iter().all(|file| !model::shown(&file.path).contains("vgpreload")));
    // Each byte of each file once.
    let mut once = BTreeSet::new();
    for touch in &seen.rows.touches {
        let bytes = touch.offset.0..touch.offset.0 + touch.len.0;
        assert!(bytes.end <= seen.rows.files[touch.file.0 as usize].size.0);
        assert!(bytes.into_iter().all(|at| once.insert((touch.file, at))), "{touch:?}");
    }
    assert!(once.len() > 50_000, "{}", once.len());
}

#[test]
fn what_valgrind_does_not_start_is_refused_or_said() {
    let Some(shop) = Workshop::open() else { return };
    let argv = [OsString::from("x")];
    let directory = shop.folder.path();
    let copy = shop.path("with-rights");
    testing::copy_program("/bin/true", &copy);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&copy, mode).unwrap();
    let refused = shop.tool.command(directory, &copy, &argv).unwrap_err();
    assert_eq!(refused.exit, model::Exit::Machine);
    let words = ["/bin/sh".as_ref(), "-c".as_ref(), "\"$0\"; exit 0".as_ref(), copy.as_path()];
    let seen = shop.watch(&words);
    assert!(seen.status.success());
    assert!(seen.cannot().contains("set-user-ID"), "{}", seen.cannot());
    // Nothing ran.
    let mut nothing = Written::new(&shop.tool, tempfile::tempdir_in(directory).unwrap().keep().as_path());
    assert_eq!(nothing.stop(0).unwrap_err().exit, model::Exit::Target);
    let missing = Tool::find(&[directory.to_owned()]).unwrap_err();
    assert_eq!(missing.exit, model::Exit::Machine);
    assert!(missing.hint.is_some_and(|hint| hint.contains("make icegrind")));
}
