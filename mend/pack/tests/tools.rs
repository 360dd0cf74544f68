//! Other people's tools on packed files, before and after packing: each of them still does its work, and the programs
//! still run. `cargo test` runs them on the layouts of bfd and lld; `THAW_MATRIX=all` on all linkers and in both modes.

mod common;

use common::{
    LINE, Linker, Machine, PARTS, Programs, VARIANTS, Workshop, find, is_there, pack_parts, place, run, whole_matrix,
};
use pack::{Options, Reason, Space};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// A tool that writes a file anew.
struct Rewriter {
    name: &'static str,
    /// One of these is used; several names for one tool.
    commands: &'static [&'static str],
    arguments: &'static [&'static str],
}

const REWRITERS: &[Rewriter] = &[
    Rewriter { name: "strip -g", commands: &["strip"], arguments: &["-g"] },
    Rewriter { name: "strip -s", commands: &["strip"], arguments: &["-s"] },
    Rewriter { name: "objcopy", commands: &["objcopy"], arguments: &[] },
    Rewriter { name: "eu-strip", commands: &["eu-strip"], arguments: &[] },
    Rewriter { name: "llvm-strip -g", commands: LLVM_STRIP, arguments: &["-g"] },
    Rewriter { name: "llvm-strip -s", commands: LLVM_STRIP, arguments: &["-s"] },
    Rewriter { name: "llvm-objcopy", commands: LLVM_OBJCOPY, arguments: &[] },
    Rewriter { name: "patchelf", commands: &["patchelf"], arguments: &["--force-rpath", "--set-rpath", LONG_PATH] },
];

const LLVM_STRIP: &[&str] = &["llvm-strip", "llvm-strip-14", "llvm-strip-15", "llvm-strip-16", "llvm-strip-19"];
const LLVM_OBJCOPY: &[&str] =
    &["llvm-objcopy", "llvm-objcopy-14", "llvm-objcopy-15", "llvm-objcopy-16", "llvm-objcopy-19"];
/// Longer than what the file has, so that the strings must move.
const LONG_PATH: &str = "$ORIGIN:$ORIGIN/a/directory/that/is/not/there/and/has/a/long/name:$ORIGIN/another/one";

impl Rewriter {
    fn command(&self) -> Option<&'static str> {
        self.commands.iter().copied().find(|command| is_there(command))
    }

    /// Rewrites all parts in place.
    fn rewrite(&self, programs: &Programs) -> Result<(), String> {
        let command = self.command().ok_or("not installed")?;
        for part in PARTS {
            run(Command::new(command).args(self.arguments).arg(programs.path(part)))?;
        }
        Ok(())
    }
}

struct Cell {
    name: String,
    original: Programs,
    packed: Programs,
    options: Options,
}

/// Files that a mode cannot pack are of no interest here: the matrix counts them.
const MAY_REFUSE: &[Reason] = &[];

/// Programs of each linker, and their packed forms.
static CELLS: LazyLock<Result<Vec<Cell>, String>> = LazyLock::new(|| {
    let workshop = Workshop::new(Machine::X86_64, &place("tools"))?;
    let mut cells = Vec::new();
    for linker in Linker::ALL {
        if !workshop.has(linker) || !whole_matrix() && ![Linker::Bfd, Linker::Lld].contains(&linker) {
            continue;
        }
        for (mode, space) in [("shrink", Space::Shrink), ("keep", Space::Keep)] {
            // One layout in which everything moves, one in which nothing does.
            if !whole_matrix() && (linker, space) == (Linker::Bfd, Space::Keep) {
                continue;
            }
            let original = workshop.link(linker, &VARIANTS[0])?;
            let packed = original.beside(mode);
            let options = Options { space, ..Options::default() };
            pack_parts(&original, &packed, &options, MAY_REFUSE)?;
            cells.push(Cell { name: format!("{} {mode}", linker.name()), original, packed, options });
        }
    }
    Ok(cells)
});

fn cells() -> &'static [Cell] {
    match &*CELLS {
        Ok(cells) => cells,
        Err(reason) => {
            testing::skip(reason);
            &[]
        }
    }
}

fn copy(from: &Programs, name: &str) -> Programs {
    let to = from.beside(name);
    for part in PARTS {
        to.write(part, &std::fs::read(from.path(part)).expect("a part"));
    }
    to
}

/// The tool is there; otherwise the test is counted as skipped.
fn installed(command: &str) -> bool {
    let there = is_there(command);
    if !there {
        testing::skip(&format!("{command} is not installed"));
    }
    there
}

#[test]
fn tools_that_write_files_anew_after_packing() {
    for (number, tool) in REWRITERS.iter().enumerate() {
        if tool.command().is_none() {
            testing::skip(&format!("{} is not installed", tool.name));
            continue;
        }
        for cell in cells() {
            let programs = copy(&cell.packed, &format!("after{number}"));
            tool.rewrite(&programs).unwrap_or_else(|error| panic!("{} of {}: {error}", tool.name, cell.name));
            assert_eq!(programs.line().as_deref(), Ok(LINE), "{} of {}", tool.name, cell.name);
        }
    }
}

#[test]
fn tools_that_write_files_anew_before_packing() {
    for (number, tool) in REWRITERS.iter().enumerate() {
        if tool.command().is_none() {
            testing::skip(&format!("{} is not installed", tool.name));
            continue;
        }
        for cell in cells() {
            let programs = copy(&cell.original, &format!("before{number}"));
            tool.rewrite(&programs).unwrap_or_else(|error| panic!("{} of {}: {error}", tool.name, cell.name));
            let packed = programs.beside("packed");
            // A tool may leave no room for one more program header.
            pack_parts(&programs, &packed, &cell.options, &[Reason::NoHeaderSlot])
                .unwrap_or_else(|error| panic!("{} of {}: {error}", tool.name, cell.name));
            assert_eq!(packed.line().as_deref(), Ok(LINE), "{} of {}", tool.name, cell.name);
        }
    }
}

#[test]
fn one_tool_after_another() {
    let tools: Vec<&Rewriter> = REWRITERS.iter().filter(|tool| tool.command().is_some()).collect();
    let pairs = tools.iter().enumerate().flat_map(|one| tools.iter().enumerate().map(move |two| (one, two)));
    for ((one, first), (two, second)) in pairs.filter(|(one, two)| one.0 != two.0) {
        // The one that moves most is in every pair of the smaller selection.
        if !whole_matrix() && ![first.name, second.name].contains(&"patchelf") {
            continue;
        }
        // The manual of patchelf says it: strip(1) and objcopy(1) of binutils may break what patchelf has written.
        // Whether they do depends on where patchelf puts its segment, which is elsewhere in a packed file.
        let is_of_binutils = ["strip", "objcopy"].iter().any(|name| second.name.starts_with(name));
        if first.name == "patchelf" && is_of_binutils {
            continue;
        }
        for cell in if whole_matrix() { cells() } else { &cells()[..cells().len().min(1)] } {
            let name = format!("{} and {} of {}", first.name, second.name, cell.name);
            let both = |programs: &Programs| first.rewrite(programs).and_then(|()| second.rewrite(programs));
            // Some pairs fail on the original too; those say nothing about packing.
            let plain = copy(&cell.original, &format!("plain{one}{two}"));
            if both(&plain).and_then(|()| plain.line()).as_deref() != Ok(LINE) {
                println!("{name}: fails on the original as well");
                continue;
            }
            let programs = copy(&cell.packed, &format!("pair{one}{two}"));
            both(&programs).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(programs.line().as_deref(), Ok(LINE), "{name}");
        }
    }
}

#[test]
fn debug_data_in_a_file_of_its_own() {
    for cell in cells() {
        let programs = copy(&cell.packed, "split");
        for part in PARTS {
            let (path, debug) = (programs.path(part), programs.path(&format!("{part}.debug")));
            let objcopy = |arguments: &[&str], from: &Path, to: Option<&Path>| {
                run(Command::new("objcopy").args(arguments).arg(from).args(to)).expect("objcopy works")
            };
            objcopy(&["--only-keep-debug"], &path, Some(&debug));
            objcopy(&["--strip-debug"], &path, None);
            let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
            link.push(&debug);
            run(Command::new("objcopy").arg(link).arg(&path)).expect("objcopy works");
        }
        assert_eq!(programs.line().as_deref(), Ok(LINE), "{}", cell.name);
        if is_there("gdb") {
            debugged(&programs, &cell.name);
        }
    }
}

#[test]
fn gdb() {
    if !installed("gdb") {
        return;
    }
    for cell in cells() {
        debugged(&cell.packed, &cell.name);
    }
}

/// gdb stops in the library, names the frames with their lines, and prints a variable of the program.
fn debugged(programs: &Programs, name: &str) {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set breakpoint pending on"]);
    // A function that is called through a table only: gdb takes an entry of the PLT for the function where there is
    // one.
    for command in ["break DeepTrouble::code", "run", "bt", "up", "print corpus_text[2]"] {
        gdb.args(["-ex", command]);
    }
    let output = gdb.arg(programs.path("program")).output().expect("gdb starts");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for wanted in ["#0  DeepTrouble::code (this=", "library.cpp:", "main (", "program.cpp:", "\"two\""] {
        assert!(said.contains(wanted), "{name}: gdb does not say {wanted:?}:\n{said}");
    }
}

#[test]
fn valgrind() {
    if !installed("valgrind") {
        return;
    }
    for cell in cells() {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9"]).arg(cell.packed.path("program"));
        let output = run(&mut command).unwrap_or_else(|error| panic!("{}: {error}", cell.name));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), LINE, "{}", cell.name);
    }
}

#[test]
fn perf_names_the_function() {
    if !installed("perf") {
        return;
    }
    for cell in cells() {
        let data = cell.packed.path("perf.data");
        let mut record = Command::new("perf");
        record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o"]).arg(&data);
        if let Err(reason) = run(record.arg("--").arg(cell.packed.path("program")).arg("4000")) {
            return testing::skip(&format!("perf may not record here: {reason}"));
        }
        let mut report = Command::new("perf");
        // Its cache of binaries, by build-id, may hold the file as it was before packing.
        report.args(["--buildid-dir", "/dev/null", "report", "--stdio", "--sort", "symbol", "-i"]).arg(&data);
        let output = run(&mut report).unwrap_or_else(|error| panic!("{}: {error}", cell.name));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("corpus_sum"), "{}: perf does not name corpus_sum:\n{said}", cell.name);
    }
}

/// Readers find no more fault with a packed file than with its original.
#[test]
fn readers_warn_of_nothing() {
    let readers: [(&str, &[&str], &[&str]); 3] = [
        ("readelf", &["readelf"], &["-aW"]),
        ("eu-elflint", &["eu-elflint"], &["--gnu-ld"]),
        ("llvm-readelf", &["llvm-readelf", "llvm-readelf-14"], &["-a"]),
    ];
    for (name, commands, arguments) in readers {
        let Some(command) = commands.iter().find(|command| is_there(command)) else {
            testing::skip(&format!("{name} is not installed"));
            continue;
        };
        // What is complained of, without the places.
        let complaints = |path: &Path| -> Vec<String> {
            let output = Command::new(command).args(arguments).arg(path).output().expect("it starts");
            let mut lines: Vec<String> = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
            let said = String::from_utf8_lossy(&output.stdout);
            let warns = |line: &&str| ["warning", "error"].iter().any(|word| line.to_lowercase().contains(word));
            // eu-elflint complains on its standard output, in every line but the last.
            let all = name == "eu-elflint";
            lines.extend(
                said.lines()
                    .filter(|line| if all { line.starts_with("section") } else { warns(line) })
                    .map(str::to_owned),
            );
            lines.iter().map(|line| line.chars().filter(|letter| !letter.is_ascii_digit()).collect()).collect()
        };
        for cell in cells() {
            for part in PARTS {
                let before = complaints(&cell.original.path(part));
                let mut after = complaints(&cell.packed.path(part));
                after.retain(|line| !before.contains(line));
                // eu-elflint takes no type but SHT_REL for the section, and wants the version entries of a library to
                // lie next to each other, which neither the loader nor the standard asks for. It looks for the segment
                // of .bss by offset in the file, and finds the one before where that takes more memory than file
                // (mold's RELRO).
                let bss = "'.bss' not fully contained in segment";
                let known = ["'.relr.dyn' has wrong type", "'.gnu.version_r'", "invalid version index", bss];
                after.retain(|line| name != "eu-elflint" || !known.iter().any(|known| line.contains(known)));
                assert!(after.is_empty(), "{name} of {part}, {}: {after:#?}", cell.name);
            }
        }
    }
    assert!(find("readelf").is_some() || cells().is_empty());
}
