//! Programs and libraries that apply their table themselves run as before: on this processor, natively as 32-bit x86,
//! and on AArch64 and ARM under qemu; from all linkers and with the options that change the layout.

use object::elf::{DT_RELR, DT_RELRENT, DT_RELRSZ};
use pack::{Backend, Copies, Options, Outcome, Reason, Rewritten, Space, Why, rewrite};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler, and how to run what it makes.
#[derive(Clone, Copy, Debug)]
struct Target {
    compiler: &'static str,
    /// qemu, and where the machine's libraries are.
    runner: Option<(&'static str, &'static str)>,
    flags: &'static [&'static str],
}

const X86_64: Target = Target { compiler: "x86_64-linux-gnu-g++", runner: None, flags: &[] };
const I386: Target = Target {
    compiler: "i686-linux-gnu-g++",
    runner: None,
    flags: &[
        "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2",
        "-Wl,-rpath,/usr/i686-linux-gnu/lib",
        "-Wl,--disable-new-dtags",
    ],
};
const AARCH64: Target =
    Target { compiler: "aarch64-linux-gnu-g++", runner: Some(("qemu-aarch64", "/usr/aarch64-linux-gnu")), flags: &[] };
const ARM: Target =
    Target { compiler: "arm-linux-gnueabihf-g++", runner: Some(("qemu-arm", "/usr/arm-linux-gnueabihf")), flags: &[] };

/// Object files; every layout is linked from the same.
struct Objects {
    target: Target,
    room: tempfile::TempDir,
}

/// A folder with `program`, `liblibrary.so` and `plugin.so`.
struct Built {
    target: Target,
    flags: Vec<&'static str>,
    room: tempfile::TempDir,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/init").join(name)
}

/// `None`, counted as skipped, where the compiler, the linker or one of its options is missing.
fn compile(target: Target, args: &[&str], files: &[&Path], output: &Path) -> Option<()> {
    let mut command = Command::new(target.compiler);
    command.args(["-O1", "-g1"]).args(args).args(target.flags).args(files).arg("-o").arg(output);
    let Ok(output) = command.output() else {
        testing::skip(&format!("needs {}", target.compiler));
        return None;
    };
    let told = String::from_utf8_lossy(&output.stderr);
    if ["cannot find 'ld'", "cannot find ld", "unrecognized"].iter().any(|lacks| told.contains(lacks)) {
        testing::skip(&format!("{} {args:?}: {told}", target.compiler));
        return None;
    }
    assert!(output.status.success(), "{} {args:?}: {told}", target.compiler);
    Some(())
}

impl Objects {
    fn of(target: Target, flags: &[&str]) -> Option<Self> {
        if let Some((qemu, _)) = target.runner
            && Command::new(qemu).arg("--version").output().is_err()
        {
            testing::skip(&format!("needs {qemu}"));
            return None;
        }
        let room = tempfile::tempdir().unwrap();
        for (source, kind) in [("library.cpp", "-fPIC"), ("program.cpp", "-fPIE")] {
            let object = room.path().join(source).with_extension("o");
            compile(target, &[&["-c", kind], flags].concat(), &[&fixture(source)], &object)?;
        }
        Some(Self { target, room })
    }

    fn link(&self, flags: &[&'static str]) -> Option<Built> {
        let room = tempfile::tempdir().unwrap();
        let path = |name: &str| room.path().join(name);
        let object = |name: &str| self.room.path().join(name);
        let library = path("liblibrary.so");
        for (output, init) in [(&library, "-Wl,-init=set_up"), (&path("plugin.so"), "-Wl,--as-needed")] {
            let soname = format!("-Wl,-soname,{}", output.file_name().unwrap().to_str().unwrap());
            let args = [&["-shared", init, &soname], flags].concat();
            compile(self.target, &args, &[&object("library.o")], output)?;
        }
        let args = [&["-pie", "-pthread", "-Wl,-rpath,$ORIGIN"], flags].concat();
        compile(self.target, &args, &[&object("program.o"), &library], &path("program"))?;
        Some(Built { target: self.target, flags: flags.to_vec(), room })
    }
}

impl Built {
    fn path(&self, name: &str) -> PathBuf {
        self.room.path().join(name)
    }

    /// What the program says with the files of this folder.
    fn run(&self, program: &str) -> String {
        let program = self.path(program);
        let mut command = match self.target.runner {
            Some((qemu, root)) => {
                let mut command = Command::new(qemu);
                command.args(["-L", root]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg(self.path("plugin.so"));
        let output = loop {
            match command.output() {
                // Another thread was about to start a program while this one's was still open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                output => break output.unwrap(),
            }
        };
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{:?}: {:?}\n{told}{}",
            self.target,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        told
    }

    fn pack(&self, name: &str, options: &Options) -> (Outcome, Option<Rewritten>) {
        let original = std::fs::read(self.path(name)).unwrap();
        let (outcome, rewritten) = rewrite(&original, options).unwrap();
        if let Some(Rewritten { bytes, expected }) = &rewritten {
            let verdict = verify::offline_expecting(&original, bytes, expected).unwrap();
            assert!(verdict.agrees(), "{:?} {name} {options:?}: {:#?}", self.target, verdict.differences);
        }
        (outcome, rewritten)
    }

    fn replace(&self, name: &str, bytes: &[u8]) {
        // A new file: what ran may still be mapped.
        let path = self.path(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn options(space: Space) -> Options {
    Options { backend: Backend::Init, space, ..Options::default() }
}

/// Nothing in the file asks for a loader that knows DT_RELR.
fn needs_no_new_loader(bytes: &[u8]) {
    let image = elf::Image::of(bytes).unwrap();
    let dynamic = image.dynamic.as_ref().unwrap();
    for tag in [DT_RELR, DT_RELRSZ, DT_RELRENT] {
        assert_eq!(dynamic.value(tag), None);
    }
    assert!(image.needed_versions().iter().all(|(_, version)| version != b"GLIBC_ABI_DT_RELR"));
}

/// Packs each file for itself and all together, and runs every combination. `refusals` are files that may be refused,
/// and why.
fn every_combination(built: &Built, space: Space, refusals: &[Reason]) {
    let expected = built.run("program");
    assert!(expected.contains("caught square") && expected.matches("plugin").count() == 3, "{expected}");
    let names = ["program", "liblibrary.so", "plugin.so"];
    let originals = names.map(|name| std::fs::read(built.path(name)).unwrap());
    let packed = names.map(|name| {
        let (outcome, rewritten) = built.pack(name, &options(space));
        match outcome {
            Outcome::Packed(report) => {
                assert!(report.relocations.packed > 10_000, "{report:?}");
                needs_no_new_loader(&rewritten.as_ref().unwrap().bytes);
            }
            Outcome::Refused(refusal) => {
                let told = format!("{:?} {:?} {name} {space:?}: {refusal:?}", built.target, built.flags);
                assert!(refusals.contains(&refusal.reason), "{told}");
                eprintln!("{told}");
            }
        }
        rewritten.map(|rewritten| rewritten.bytes)
    });
    // Each alone, and all together.
    for choice in [0b001, 0b010, 0b100, 0b111] {
        for (index, name) in names.iter().enumerate() {
            let chosen = packed[index].as_ref().filter(|_| choice >> index & 1 == 1);
            built.replace(name, chosen.unwrap_or(&originals[index]));
        }
        assert_eq!(built.run("program"), expected, "{:?} {:?} {space:?} {choice:#b}", built.target, built.flags);
    }
    for (name, original) in names.iter().zip(&originals) {
        built.replace(name, original);
    }
}

/// Links one layout after the other and checks it in place and shrunk.
fn matrix(target: Target, compiled: &[&str], layouts: &[Vec<&'static str>], refusals: &[Reason]) {
    let Some(objects) = Objects::of(target, compiled) else { return };
    for flags in layouts {
        let Some(built) = objects.link(flags) else { continue };
        for space in [Space::Keep, Space::Shrink] {
            every_combination(&built, space, refusals);
        }
    }
}

/// What changes the layout, for GNU ld and those that take its options.
const LAYOUTS: [&[&str]; 8] = [
    &[],
    &["-Wl,-z,now"],
    &["-Wl,-z,norelro"],
    &["-Wl,-z,noseparate-code"],
    &["-Wl,--hash-style=sysv"],
    &["-s"],
    &["-Wl,-z,max-page-size=65536"],
    &["-Wl,-z,max-page-size=2097152"],
];

fn with_linker(linker: &'static str, layouts: &[&[&'static str]]) -> Vec<Vec<&'static str>> {
    layouts.iter().map(|layout| [&[linker], *layout].concat()).collect()
}

#[test]
fn x86_64_from_gnu_ld() {
    matrix(X86_64, &[], &with_linker("-fuse-ld=bfd", &LAYOUTS), &[]);
}

#[test]
fn x86_64_from_gold() {
    // It knows no -z noseparate-code: it never separates.
    let layouts = [&LAYOUTS[..3], &LAYOUTS[4..]].concat();
    matrix(X86_64, &[], &with_linker("-fuse-ld=gold", &layouts), &[]);
}

#[test]
fn x86_64_from_lld() {
    // Nothing is free behind its code, and nothing may move: that takes a segment, which takes a program header.
    matrix(X86_64, &[], &with_linker("-fuse-ld=lld", &LAYOUTS), &[Reason::NoHeaderSlot]);
}

#[test]
fn x86_64_from_mold() {
    matrix(X86_64, &[], &with_linker("-fuse-ld=mold", &LAYOUTS), &[Reason::NoHeaderSlot]);
}

#[test]
fn i386_natively() {
    matrix(I386, &[], &with_linker("-fuse-ld=bfd", &LAYOUTS), &[]);
}

#[test]
fn aarch64_under_qemu() {
    matrix(AARCH64, &[], &with_linker("-fuse-ld=bfd", &LAYOUTS[..7]), &[]);
    // With pages of 2 MiB, nothing of that size becomes free.
    matrix(AARCH64, &["-mbranch-protection=standard"], &[vec![], LAYOUTS[7].to_vec()], &[Reason::NoGain]);
}

#[test]
fn arm_under_qemu() {
    matrix(ARM, &["-mthumb"], &with_linker("-fuse-ld=bfd", &LAYOUTS[..6]), &[]);
    matrix(ARM, &["-marm"], &with_linker("-fuse-ld=bfd", &LAYOUTS[6..]), &[Reason::NoGain]);
}

/// Links `library.cpp` with further flags, from bfd.
fn library(flags: &[&'static str]) -> Option<Built> {
    Objects::of(X86_64, &[])?.link(&[&["-fuse-ld=bfd"], flags].concat())
}

fn refusal(built: &Built, name: &str) -> Reason {
    match built.pack(name, &options(Space::Shrink)).0 {
        Outcome::Refused(refusal) => refusal.reason,
        Outcome::Packed(_) => panic!("{name} is packed"),
    }
}

#[test]
fn what_is_needed_before_any_initialiser_is_kept() {
    let Some(built) = library(&[]) else { return };
    let kept = |name: &str, copies: Copies| {
        let outcome = built.pack(name, &Options { copies, ..options(Space::Shrink) }).0;
        let Outcome::Packed(packed) = outcome else { panic!("{outcome:?}") };
        packed.relocations.kept.iter().map(|kept| (kept.why, kept.count)).collect::<Vec<_>>()
    };
    // `here` and `mine`; `exported` has three words.
    let both = vec![(Why::ThreadLocal, 2), (Why::MayBeCopied, 3)];
    assert_eq!(kept("liblibrary.so", Copies::MayHappen), both);
    assert_eq!(kept("liblibrary.so", Copies::Never), both[..1]);
    // Nothing copies from a program.
    assert_eq!(kept("program", Copies::MayHappen), [(Why::ThreadLocal, 1)]);
}

#[test]
fn a_program_that_copies_from_a_library_gets_whole_words() {
    let Some(built) = library(&[]) else { return };
    let args = ["-no-pie", "-fno-pie", "-fuse-ld=bfd", "-pthread", "-Wl,-rpath,$ORIGIN"];
    let files = [&fixture("program.cpp"), &built.path("liblibrary.so")];
    if compile(X86_64, &args, &files.map(PathBuf::as_path), &built.path("program")).is_none() {
        return;
    }
    let expected = built.run("program");
    assert!(expected.contains("exported copied-0 copied-2"), "{expected}");
    let bytes = built.pack("liblibrary.so", &options(Space::Shrink)).1.unwrap().bytes;
    built.replace("liblibrary.so", &bytes);
    assert_eq!(built.run("program"), expected);
}

#[test]
fn what_cannot_wait_is_refused() {
    let Some(built) = library(&[]) else { return };
    let extra = |name: &str, source: &str, args: &[&str]| {
        let file = built.path(name).with_extension("extra.cpp");
        std::fs::write(&file, source).unwrap();
        let args = [&["-fuse-ld=bfd", "-pthread"], args].concat();
        compile(X86_64, &args, &[&file, &fixture("library.cpp")], &built.path(name)).unwrap();
        refusal(&built, name)
    };
    let shared: [&str; 2] = ["-shared", "-fPIC"];
    let chooses = "extern \"C\" int one() { return 1; }\n\
        extern \"C\" int (*choose())() { return one; }\n\
        extern \"C\" int chosen() __attribute__((ifunc(\"choose\")));\n";
    assert_eq!(extra("chooses.so", chooses, &shared), Reason::Indirect);
    let hidden = chooses.replace("ifunc(", "visibility(\"hidden\"), ifunc(") + "int use_it() { return chosen(); }\n";
    assert_eq!(extra("chooses-inside.so", &hidden, &shared), Reason::Indirect);
    let allocator = "extern \"C\" void *malloc(unsigned long) { return nullptr; }\n";
    assert_eq!(extra("allocator.so", allocator, &shared), Reason::Allocator);
    let both = [&shared[..], &["-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2"]].concat();
    let interpreter =
        "extern const char path[] __attribute__((section(\".interp\"))) = \"/lib64/ld-linux-x86-64.so.2\";\n";
    assert_eq!(extra("both.so", interpreter, &both), Reason::ProgramAndLibrary);
    let main = "int main() { return 0; }\n";
    let before = main.to_owned()
        + "static void before() {}\n__attribute__((section(\".preinit_array\"), used)) void (*entry)() = before;\n";
    assert_eq!(extra("before", &before, &["-pie"]), Reason::PreinitArray);
    assert_eq!(extra("musl", main, &["-pie", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]), Reason::UnknownLoader);
    let bytes = built.pack("liblibrary.so", &options(Space::Shrink)).1.unwrap().bytes;
    built.replace("liblibrary.so", &bytes);
    assert_eq!(refusal(&built, "liblibrary.so"), Reason::AlreadyPacked);
}

/// Tools that rewrite files leave packed ones working.
#[test]
fn tools_work_on_packed_files() {
    let Some(built) = library(&[]) else { return };
    let expected = built.run("program");
    let names = ["program", "liblibrary.so", "plugin.so"];
    for name in names {
        let bytes = built.pack(name, &options(Space::Shrink)).1.unwrap().bytes;
        built.replace(name, &bytes);
    }
    let packed = names.map(|name| std::fs::read(built.path(name)).unwrap());
    let tools: [(&str, &[&str]); 7] = [
        ("strip", &[]),
        ("strip", &["-g"]),
        ("eu-strip", &[]),
        ("llvm-strip-14", &[]),
        ("objcopy", &[]),
        ("patchelf", &["--set-rpath", "$ORIGIN:/somewhere/else/that/is/long"]),
        ("patchelf", &["--add-needed", "libm.so.6"]),
    ];
    for (tool, args) in tools {
        let mut missing = false;
        for name in names {
            match Command::new(tool).args(args).arg(built.path(name)).output() {
                Ok(output) => assert!(output.status.success(), "{tool} {args:?} {name}: {output:?}"),
                Err(_) => missing = true,
            }
        }
        if missing {
            testing::skip(&format!("needs {tool}"));
            continue;
        }
        assert_eq!(built.run("program"), expected, "{tool} {args:?}");
        for (name, bytes) in names.iter().zip(&packed) {
            built.replace(name, bytes);
        }
    }
    let readelf = Command::new("readelf").args(["-aW"]).args(names.map(|name| built.path(name))).output();
    match readelf {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), ""),
        Err(_) => testing::skip("needs readelf"),
    }
}
