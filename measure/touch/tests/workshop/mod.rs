//! What tests of the function engine share: a tracing process, programs, and a place to compile them in.

#![allow(dead_code, reason = "each test uses a part of it")]

use model::TraceRows;
use os::spawn::{Ended, Launch, Stream, spawn_gated};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use touch::Trace;
use touch::function::{Counts, Functions, Helper};

/// Set where this test plays the tracing process.
const TRACER: &str = "THAW_TOUCH_TEST_TRACER";

/// The tracing process of the others, if this one is to be that.
pub fn serve_if_asked() {
    if std::env::var_os(TRACER).is_some() {
        use std::os::fd::AsFd;
        let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        touch::function::serve(socket.into()).unwrap();
    }
}

/// This test again, as the tracing process.
pub fn helper() -> Helper {
    Helper {
        program: std::env::current_exe().unwrap(),
        arguments: ["--exact", "tracer", "--nocapture", "--test-threads=1"].map(OsString::from).into(),
        environment: vec![(TRACER.into(), "1".into()), ("THAW_CACHE_DIR".into(), env!("CARGO_TARGET_TMPDIR").into())],
    }
}

/// One run under the tracer.
pub struct Watched {
    pub rows: TraceRows,
    pub ended: Ended,
    pub printed: String,
    pub counts: Option<Counts>,
}

/// One test at a time: who may trace is one setting of the process.
pub static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a program under the tracer.
pub fn watch<I: IntoIterator<Item = S>, S: Into<OsString>>(argv: I) -> Watched {
    watch_prepared(argv, Vec::new())
}

/// The same, and the calls of functions are counted.
pub fn count<I: IntoIterator<Item = S>, S: Into<OsString>>(patterns: &[&str], argv: I) -> Watched {
    watch_as(argv, |engine| engine.count(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()).unwrap())
}

/// The same, with files made ready before.
pub fn watch_prepared<I: IntoIterator<Item = S>, S: Into<OsString>>(argv: I, files: Vec<PathBuf>) -> Watched {
    watch_as(argv, |engine| engine.prepare(files).unwrap())
}

fn watch_as<I: IntoIterator<Item = S>, S: Into<OsString>>(argv: I, make_ready: impl FnOnce(&mut Functions)) -> Watched {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut engine = Functions::new(&helper()).unwrap();
    make_ready(&mut engine);
    let (mut read, write) = std::io::pipe().unwrap();
    let mut launch = Launch::new(argv);
    // What it leaves behind, as a program with -pg does, it leaves beside itself.
    launch.cwd = Path::new(&launch.argv[0]).parent().filter(|folder| folder.is_absolute()).map(Path::to_owned);
    launch.stderr = Stream::Fd(write.try_clone().unwrap().into());
    launch.stdout = Stream::Fd(write.into());
    let gated = spawn_gated(launch).unwrap();
    engine.attach(gated.pid()).unwrap();
    let mut running = gated.release().unwrap();
    let mut printed = String::new();
    read.read_to_string(&mut printed).unwrap();
    let ended = running.wait().unwrap();
    let rows = engine.stop(running.t0_ns()).unwrap();
    Watched { rows, ended, printed, counts: engine.counts() }
}

impl Watched {
    /// Functions of a file in the order of their first call: offset and name.
    pub fn calls(&self, path: &Path) -> Vec<(u64, Option<&str>)> {
        let path = path.canonicalize().unwrap();
        let of_file = |touch: &&model::TouchRow| self.rows.files[touch.file.0 as usize].path == path;
        self.rows.touches.iter().filter(of_file).map(|touch| (touch.offset.0, touch.name.as_deref())).collect()
    }

    /// Names of a file's functions that begin with a letter and a number, in the order of their first call.
    pub fn numbered(&self, path: &Path) -> Vec<&str> {
        let numbered = |name: &&str| name.len() > 3 && name[1..3].bytes().all(|byte| byte.is_ascii_digit());
        self.calls(path).into_iter().filter_map(|(_, name)| name).filter(numbered).collect()
    }

    pub fn cannot(&self) -> String {
        self.rows.info.cannot.join("\n")
    }
}

/// A folder with compiled programs.
pub struct Workshop {
    pub folder: tempfile::TempDir,
}

impl Workshop {
    pub fn new() -> Option<Self> {
        if cfg!(not(target_arch = "x86_64")) {
            testing::skip("the function engine is for x86-64");
            return None;
        }
        if Command::new("cc").arg("--version").output().is_err() {
            testing::skip("needs a C compiler");
            return None;
        }
        Some(Self { folder: tempfile::tempdir().unwrap() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of `tests/programs`; `None`: the compiler cannot do that here.
    pub fn compile(&self, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
        self.compile_with(&[&["cc"]], source, name, flags)
    }

    /// The same for 32 bits: by the compiler with its multilib, or by a cross compiler, since Debian has not both.
    pub fn compile_32(&self, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
        self.compile_with(&[&["i686-linux-gnu-gcc"], &["cc", "-m32"]], source, name, flags)
    }

    /// Compiles with the first of these compilers that can.
    pub fn compile_with(&self, compilers: &[&[&str]], source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let output = self.path(name);
        let mut why = String::new();
        for compiler in compilers {
            let mut command = Command::new(compiler[0]);
            command.args(&compiler[1..]).arg(&source).arg("-o").arg(&output).args(["-O0", "-pthread"]).args(flags);
            match command.output() {
                Ok(said) if said.status.success() => return Some(output),
                Ok(said) => why = String::from_utf8_lossy(&said.stderr).lines().next().unwrap_or("").to_owned(),
                Err(error) => why = error.to_string(),
            }
        }
        testing::skip(&format!("{compilers:?} {flags:?}: {why}"));
        None
    }

    pub fn strip(&self, file: &Path, name: &str) -> PathBuf {
        let stripped = self.path(name);
        assert!(Command::new("strip").arg("-o").arg(&stripped).arg(file).status().unwrap().success());
        stripped
    }
}
