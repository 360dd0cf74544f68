//! A real program, compiled and stopped: its registers, its stack, what is mapped.
#![allow(dead_code, reason = "each test uses a part")]

use cpu::{Given, Raw, RawMapping, RawSample, Tick, Trace, UserState, resolve};
use model::Nanos;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// More than any of the programs uses.
const STACK: usize = 1 << 20;

/// What a stopped process looked like.
pub struct Stopped {
    pub pid: u32,
    pub mappings: Vec<RawMapping>,
    /// Of the thread with the highest number.
    pub state: UserState,
    pub stack: Vec<u8>,
    child: Child,
}

impl Stopped {
    /// Ends the process; what it looked like stays.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program of `tests/programs`, built in a directory; `None`: counted as skipped.
pub fn built(compiler: &[&str], source: &str, directory: &Path) -> Option<PathBuf> {
    let program = directory.join(source.replace('.', "-"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(source).arg("-o").arg(&program);
    testing::compiled(&mut command).then_some(program)
}

/// Starts a program, waits until it says that it is ready, and looks at it; `None`: counted as skipped.
pub fn stopped(program: &Path, arguments: &[&Path]) -> Option<Stopped> {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = child.id();
    let seen = os::ptrace::apart(|| {
        let threads = match os::ptrace::stop(pid, &[], Duration::from_secs(100_000)) {
            Err(os::ptrace::NotStopped::Refused(_)) => return None,
            threads => threads.unwrap(),
        };
        let registers = threads.iter().max_by_key(|thread| thread.tid).unwrap().registers().unwrap();
        let mut stack = vec![0; STACK];
        let len = os::ptrace::Memory::of(pid).unwrap().read_mapped(registers.rsp, &mut stack);
        stack.truncate(len);
        let (ip, sp, bp, bx) = (registers.rip, registers.rsp, registers.rbp, registers.rbx);
        Some((UserState { ip, sp, bp, bx, stack: 0..len }, stack))
    });
    let mut stopped = Stopped { pid, mappings: mappings(pid), state: UserState::default(), stack: Vec::new(), child };
    let Some((state, stack)) = seen else {
        testing::skip("needs to be allowed to stop a process (ptrace)");
        return None;
    };
    (stopped.state, stopped.stack) = (state, stack);
    Some(stopped)
}

/// The code that is mapped into a process, as a recorder would have told it.
fn mappings(pid: u32) -> Vec<RawMapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap();
    let code = os::process::regions(&text).filter(|region| region.permissions.contains('x'));
    code.map(|region| RawMapping {
        at: Nanos(0),
        pid,
        addresses: region.start..region.end,
        offset: region.offset,
        dev: region.dev,
        ino: region.ino,
        path: String::from_utf8(region.name.to_owned()).unwrap().into(),
    })
    .collect()
}

impl Stopped {
    /// As a recording of one tick.
    pub fn raw(&self) -> Raw {
        let user = Some(self.state.clone());
        let (pid, tid) = (self.pid, self.pid);
        let at = Nanos(1000);
        let sample = RawSample { at, pid, tid, cpu: 0, tick: Tick::Clock, kernel: Vec::new(), user };
        Raw {
            root: pid,
            mappings: self.mappings.clone(),
            samples: vec![sample],
            stacks: self.stack.clone(),
            ..Raw::default()
        }
    }

    /// The same with names.
    pub fn trace(&self) -> Trace {
        named(&self.raw())
    }
}

/// With names, of processes that see the same files as we do.
pub fn named(raw: &Raw) -> Trace {
    let (kernel, made) = (Err("not asked".to_owned()), HashMap::new());
    let root = Path::new("/");
    resolve(raw, &Given { ready: Nanos(2000), ready_by: None, cpus: 1, root, kernel: &kernel, made: &made })
}

/// The functions of the only tick that are in these objects, innermost first.
pub fn functions_in(trace: &Trace, objects: &[&Path]) -> Vec<String> {
    let stack = trace.samples[0].stack;
    let of_object =
        trace.stacks.walk(stack).filter(|frame| objects.iter().any(|path| Path::new(&frame.object) == *path));
    of_object.map(|frame| frame.label()).collect()
}

/// A mapping of the first executable segment of a program, at an address.
pub fn code_of(program: &Path, pid: u32, start: u64) -> (RawMapping, u64) {
    let bytes = std::fs::read(program).unwrap();
    let image = elf::Image::of(&bytes[..]).unwrap();
    let segment = image.segments.iter().find(|it| it.is_load() && it.is_executable()).unwrap();
    let about = std::fs::metadata(program).unwrap();
    let len = segment.memory_len.next_multiple_of(4096);
    let mapping = RawMapping {
        at: Nanos(0),
        pid,
        addresses: start..start + len,
        offset: segment.offset & !0xfff,
        dev: about.dev(),
        ino: about.ino(),
        path: program.to_owned(),
    };
    (mapping, start - (segment.address & !0xfff))
}
