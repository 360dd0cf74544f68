//! The corpus, built for a machine, by a linker, in a variant. Compilers that are not installed cost a skip with a
//! reason.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty directory for what a test builds, below cargo's own: statics are never dropped, so that a temporary one
/// would stay behind.
pub fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pack").join(name);
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a directory below cargo's");
    place
}

/// A machine that programs are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    I386,
    AArch64,
    Arm,
}

impl Machine {
    pub const ALL: [Self; 4] = [Self::X86_64, Self::I386, Self::AArch64, Self::Arm];

    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::I386 => "i386",
            Self::AArch64 => "AArch64",
            Self::Arm => "ARM",
        }
    }

    /// The name that its tools begin with.
    pub fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-linux-gnu",
            Self::I386 => "i686-linux-gnu",
            Self::AArch64 => "aarch64-linux-gnu",
            Self::Arm => "arm-linux-gnueabihf",
        }
    }

    /// What runs its programs, where this machine's processor does not.
    fn emulator(self) -> Option<&'static str> {
        match self {
            Self::X86_64 | Self::I386 => None,
            Self::AArch64 => Some("qemu-aarch64"),
            Self::Arm => Some("qemu-arm"),
        }
    }

    /// Whether the machine's own loader loads its files here.
    pub fn is_native(self) -> bool {
        cfg!(target_arch = "x86_64") && self.emulator().is_none()
    }
}

/// Who links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    Bfd,
    Gold,
    Lld,
    Mold,
}

impl Linker {
    pub const ALL: [Self; 4] = [Self::Bfd, Self::Gold, Self::Lld, Self::Mold];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bfd => "bfd",
            Self::Gold => "gold",
            Self::Lld => "lld",
            Self::Mold => "mold",
        }
    }

    /// Linkers that serve every machine go by one name, which cross compilers do not look for.
    fn common(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bfd | Self::Gold => None,
            Self::Lld => Some(("ld.lld", "ld.lld")),
            Self::Mold => Some(("ld.mold", "mold")),
        }
    }
}

/// A way to link.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub name: &'static str,
    /// For the compiler that links.
    pub flags: &'static [&'static str],
    pub linkers: &'static [Linker],
}

use Linker::{Bfd, Gold, Lld, Mold};

/// Every variant.
pub const VARIANTS: &[Variant] = &[
    Variant { name: "plain", flags: &[], linkers: &Linker::ALL },
    Variant { name: "lazy", flags: &["-Wl,-z,lazy"], linkers: &Linker::ALL },
    Variant { name: "now", flags: &["-Wl,-z,now"], linkers: &Linker::ALL },
    Variant { name: "norelro", flags: &["-Wl,-z,norelro"], linkers: &Linker::ALL },
    Variant { name: "stripped", flags: &["-s"], linkers: &Linker::ALL },
    Variant { name: "sysv-hash", flags: &["-Wl,--hash-style=sysv"], linkers: &Linker::ALL },
    Variant { name: "both-hashes", flags: &["-Wl,--hash-style=both"], linkers: &Linker::ALL },
    Variant { name: "64k-pages", flags: &["-Wl,-z,max-page-size=65536"], linkers: &Linker::ALL },
    Variant { name: "2m-pages", flags: &["-Wl,-z,max-page-size=2097152"], linkers: &[Bfd, Gold, Lld] },
    Variant { name: "noseparate-code", flags: &["-Wl,-z,noseparate-code"], linkers: &[Bfd, Lld, Mold] },
    Variant { name: "separate-segments", flags: &["-Wl,-z,separate-loadable-segments"], linkers: &[Lld] },
    Variant { name: "no-rosegment", flags: &["-Wl,--no-rosegment"], linkers: &[Lld] },
    Variant { name: "rosegment", flags: &["-Wl,--rosegment"], linkers: &[Gold] },
    Variant { name: "emit-relocs", flags: &["-Wl,--emit-relocs"], linkers: &[Bfd, Gold, Lld] },
    Variant { name: "no-build-id", flags: &["-Wl,--build-id=none"], linkers: &Linker::ALL },
    Variant { name: "build-id", flags: &["-Wl,--build-id=sha1"], linkers: &Linker::ALL },
    Variant { name: "old-dtags", flags: &["-Wl,--disable-new-dtags"], linkers: &Linker::ALL },
    Variant { name: "symbolic", flags: &["-Wl,-Bsymbolic-functions"], linkers: &Linker::ALL },
    Variant { name: "gc-sections", flags: &["-Wl,--gc-sections"], linkers: &Linker::ALL },
    Variant { name: "debug-compressed", flags: &["-Wl,--compress-debug-sections=zlib"], linkers: &Linker::ALL },
];

/// What was linked, in a directory of its own.
pub struct Programs {
    machine: Machine,
    directory: PathBuf,
    /// Directories of libraries that the machine's loader does not find by itself.
    libraries: Option<PathBuf>,
}

/// The three parts by name.
pub const PARTS: [&str; 3] = ["program", "libcorpus.so", "libplugin.so"];

impl Programs {
    pub fn path(&self, part: &str) -> PathBuf {
        self.directory.join(part)
    }

    /// Where libraries lie that the loader does not find by itself.
    pub fn libraries(&self) -> Option<&Path> {
        self.libraries.as_deref()
    }

    /// The same programs in another directory, empty so far.
    pub fn beside(&self, name: &str) -> Self {
        let directory = self
            .directory
            .with_file_name(format!("{}.{name}", self.directory.file_name().expect("it has a name").to_string_lossy()));
        std::fs::create_dir_all(&directory).expect("a directory for the packed programs");
        Self { machine: self.machine, directory, libraries: self.libraries.clone() }
    }

    /// Writes a part; programs may be executed.
    pub fn write(&self, part: &str, bytes: &[u8]) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(part);
        // Never into a file that may be mapped or linked.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).expect("a place for a part");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode 755");
    }

    /// The command that runs the program.
    pub fn command(&self) -> Command {
        let program = self.path("program");
        let mut command = match self.machine.emulator() {
            None => Command::new(program),
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.args(["-L", &format!("/usr/{}", self.machine.triple())]).arg(program);
                command
            }
        };
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    /// The line that the program prints, or what went wrong.
    pub fn line(&self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && text.lines().count() == 1 {
            Ok(text)
        } else {
            Err(format!("{} '{text}' {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Whether the program and its library have code that runs before all initialisers: IFUNC resolvers, a preinit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    With,
    Without,
}

/// The compiled corpus of a machine, ready for linking.
pub struct Workshop {
    pub machine: Machine,
    root: PathBuf,
    libraries: Option<PathBuf>,
}

impl Workshop {
    /// Compiles the corpus below a directory. Errors: what is missing here, as a reason for a skip.
    pub fn new(machine: Machine, root: &Path) -> Result<Self, String> {
        let root = root.join(machine.triple());
        std::fs::create_dir_all(&root).expect("a directory for the machine");
        let mut workshop = Self { machine, root, libraries: None };
        if let Some(emulator) = machine.emulator()
            && !is_there(emulator)
        {
            return Err(format!("{emulator} is not installed"));
        }
        for (part, flags) in [
            ("library", &["-fPIC"][..]),
            ("plugin", &["-fPIC"]),
            ("program", &["-fPIE"]),
            ("library", &["-fPIC", "-DWITHOUT_EARLY"]),
            ("program", &["-fPIE", "-DWITHOUT_EARLY"]),
        ] {
            let source = corpus(&format!("{part}.cpp"));
            let object = workshop.object(part, if flags.len() > 1 { Early::Without } else { Early::With });
            let mut compile = workshop.compiler();
            // Frame pointers, so that backtrace(3) has no excuse on any machine.
            compile.args(["-O1", "-g", "-fno-omit-frame-pointer", "-funwind-tables", "-c"]).args(flags);
            let output = run(compile.arg(source).arg("-o").arg(object));
            output.map_err(|reason| format!("cannot compile for {}: {reason}", machine.name()))?;
        }
        for linker in Linker::ALL {
            if let Some((name, command)) = linker.common()
                && let Some(path) = find(command)
            {
                let tools = workshop.root.join("tools");
                std::fs::create_dir_all(&tools).expect("a directory for linkers");
                std::os::unix::fs::symlink(path, tools.join(name)).expect("a link to a linker");
            }
        }
        // Debian's i386 loader does not look where its cross compiler's libraries lie, and must not take its libc.
        if machine == Machine::I386 {
            let libraries = workshop.root.join("libraries");
            std::fs::create_dir_all(&libraries).expect("a directory for libraries");
            for name in ["libstdc++.so.6", "libgcc_s.so.1"] {
                let output = run(workshop.compiler().arg(format!("-print-file-name={name}")))?;
                let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                std::os::unix::fs::symlink(path, libraries.join(name)).expect("a link to a library");
            }
            workshop.libraries = Some(libraries);
        }
        let probe = workshop.link(Bfd, &VARIANTS[0])?;
        probe.line().map_err(|reason| format!("programs for {} do not run here: {reason}", machine.name()))?;
        Ok(workshop)
    }

    /// Whether a linker is installed that links for this machine.
    pub fn has(&self, linker: Linker) -> bool {
        match linker.common() {
            Some((_, command)) => is_there(command),
            None => is_there(&format!("{}-ld.{}", self.machine.triple(), linker.name())),
        }
    }

    fn compiler(&self) -> Command {
        Command::new(format!("{}-g++", self.machine.triple()))
    }

    fn linking(&self, linker: Linker, variant: &Variant) -> Command {
        let mut command = self.compiler();
        let mut tools = OsString::from("-B");
        tools.push(self.root.join("tools"));
        command.arg(tools).arg(format!("-fuse-ld={}", linker.name()));
        command.args(variant.flags);
        command
    }

    fn object(&self, part: &str, early: Early) -> PathBuf {
        self.root.join(match early {
            Early::Without if part != "plugin" => format!("{part}.without.o"),
            _ => format!("{part}.o"),
        })
    }

    /// Links the three parts. Errors: what the linker says.
    pub fn link(&self, linker: Linker, variant: &Variant) -> Result<Programs, String> {
        self.link_with(linker, variant, Early::With)
    }

    /// [`Workshop::link`], with a choice.
    pub fn link_with(&self, linker: Linker, variant: &Variant, early: Early) -> Result<Programs, String> {
        let directory = self.root.join(format!("{}-{}-{early:?}", linker.name(), variant.name));
        std::fs::create_dir_all(&directory).expect("a directory for programs");
        let programs = Programs { machine: self.machine, directory, libraries: self.libraries.clone() };
        let object = |part: &str| self.object(part, early);
        let mut link = self.linking(linker, variant);
        link.args(["-shared", "-Wl,-soname,libcorpus.so"]).arg(object("library"));
        run(link.arg("-o").arg(programs.path("libcorpus.so")))?;
        let mut link = self.linking(linker, variant);
        run(link.arg("-shared").arg(object("plugin")).arg("-o").arg(programs.path("libplugin.so")))?;
        let mut link = self.linking(linker, variant);
        link.args(["-pie", "-rdynamic", "-Wl,-rpath,$ORIGIN", "-L"]).arg(&programs.directory).arg(object("program"));
        run(link.arg("-o").arg(programs.path("program")).args(["-lcorpus", "-pthread", "-ldl"]))?;
        Ok(programs)
    }

    /// Compiles and links `plain.c`.
    pub fn plain(&self, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        let mut compile = Command::new(format!("{}-gcc", self.machine.triple()));
        run(compile.arg("-O1").arg(corpus("plain.c")).args(flags).arg("-o").arg(&path))?;
        Ok(path)
    }
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

/// Runs a command that must succeed. Errors: the first line that it said.
pub fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [&output.stderr[..], &output.stdout].concat();
    let said = String::from_utf8_lossy(&said).lines().take(3).collect::<Vec<_>>().join("; ");
    Err(format!("{name}: {}: {said}", output.status))
}

/// Where a command lies.
pub fn find(command: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|path| path.join(command)).find(|path| path.is_file())
}

/// Whether a command is installed.
pub fn is_there(command: &str) -> bool {
    find(command).is_some()
}

/// What the corpus prints, whoever built it: see `tests/corpus`.
pub const LINE: &str = "made early=1 table=193834 library=199852 data=42 text=two ifunc=26 weak=2 same=1 absent=1 \
    triangle corners=7 caught=90 back=6 unwound=46 threads=24324 tls=18 plugin=53 thrown=7 plugin=53 thrown=7 \
    trace=101 dladdr=known_function order=abc12PQPQ";

/// Everything, not only what represents it: `THAW_MATRIX=all`.
pub fn whole_matrix() -> bool {
    std::env::var_os("THAW_MATRIX").is_some_and(|value| value == "all")
}

/// What became of a part.
pub struct Part {
    /// By how many bytes it grew (less than 0: shrank), or why it stays as it is.
    pub word: String,
    /// What the packer changed beside the form of relocations.
    pub expected: verify::Expected,
}

/// Packs the parts into another directory. A part that is refused for one of the reasons stays as it is.
///
/// Errors: another refusal, or what the oracle finds.
pub fn pack_parts(
    programs: &Programs,
    packed: &Programs,
    options: &pack::Options,
    may_refuse: &[pack::Reason],
) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for part in PARTS {
        let original = std::fs::read(programs.path(part)).map_err(|error| error.to_string())?;
        let (outcome, rewritten) = pack::rewrite(&original, options).map_err(|error| format!("{part}: {error}"))?;
        parts.push(match (outcome, rewritten) {
            (pack::Outcome::Packed(_), Some(new)) => {
                let verdict = verify::offline_expecting(&original, &new.bytes, &new.expected);
                let verdict = verdict.map_err(|error| format!("{part}: {error}"))?;
                if let Some(first) = verdict.differences.first() {
                    return Err(format!("{part}: {} differences: {first}", verdict.total));
                }
                let (again, none) =
                    pack::pack_bytes(&new.bytes, options).map_err(|error| format!("{part}: {error}"))?;
                if none.is_some() {
                    return Err(format!("{part}: packed twice: {again:?}"));
                }
                packed.write(part, &new.bytes);
                let word = format!("{:+}", new.bytes.len() as i64 - original.len() as i64);
                Part { word, expected: new.expected }
            }
            (pack::Outcome::Refused(refusal), None) if may_refuse.contains(&refusal.reason) => {
                packed.write(part, &original);
                Part { word: refusal.reason.name(), expected: Default::default() }
            }
            (outcome, _) => return Err(format!("{part}: {outcome:?}")),
        });
    }
    Ok(parts)
}
