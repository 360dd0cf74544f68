//! A process that is traced, stopped before its own code runs, and killed afterwards. Linux on x86-64 only.

use crate::bytes::Format;
use crate::file::Elf;
use crate::tables::Tables;
use model::{Error, Exit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where x86-64's `struct user` holds the instruction pointer, also that of an i386 process.
const INSTRUCTION_POINTER: usize = 16 * 8;
/// The one-byte instruction that raises SIGTRAP on both.
const BREAKPOINT: [u8; 1] = [0xcc];

/// A start that ended in a stop, or with the process.
pub(crate) enum Started<T> {
    Stopped(T),
    /// It ended before, with this message.
    Ended(String),
}

impl<T> Started<T> {
    pub(crate) fn or_else(self, error: impl FnOnce(String) -> Error) -> model::Result<T> {
        match self {
            Self::Stopped(value) => Ok(value),
            Self::Ended(message) => Err(error(message)),
        }
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// `rwx`, with `-` for what is missing.
    pub(crate) access: [u8; 3],
    /// Empty for memory without a file.
    pub(crate) path: OsString,
}

/// A stopped process of ours. Dropped, it is killed and reaped.
pub(crate) struct Tracee {
    pid: libc::pid_t,
    memory: File,
    errors: File,
    format: Format,
    ended: bool,
}

/// How a wait ended.
enum Event {
    Stopped(i32),
    Ended(String),
}

impl Tracee {
    /// Starts a program without address randomization, stopped right after exec.
    ///
    /// Errors: it cannot be traced or started.
    pub(crate) fn start(mut command: Command, format: Format) -> model::Result<Self> {
        let program = command.get_program().to_owned();
        let cannot = |error: io::Error| {
            Error::on(Exit::Machine, "cannot start under ptrace", Path::new(&program)).because(error).hint(
                "ptrace needs to be allowed (containers often forbid it), and the file to be executable; the offline \
                     oracle needs neither",
            )
        };
        let errors = rustix::fs::memfd_create("errors", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| cannot(error.into()))?;
        let errors = File::from(errors);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(errors.try_clone().map_err(cannot)?);
        let prepare = || {
            let failed = |result: i64| if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
            // SAFETY: three system calls on the child itself, which take no memory of ours.
            unsafe {
                failed(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
                failed(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
                failed(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))
            }
        };
        // SAFETY: between fork and exec it makes system calls only: no lock, no memory.
        let child = unsafe { command.pre_exec(prepare) }.spawn().map_err(cannot)?;
        let pid = child.id() as libc::pid_t;
        // From here on the process is killed whatever happens.
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let mut tracee = match memory {
            Ok(memory) => Self { pid, memory, errors, format, ended: false },
            Err(error) => {
                let (mut child, error) = (child, cannot(error));
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        match tracee.wait()? {
            Event::Stopped(libc::SIGTRAP) => {}
            Event::Stopped(signal) => return Err(cannot(io::Error::other(format!("stopped by signal {signal}")))),
            Event::Ended(message) => return Err(cannot(io::Error::other(message))),
        }
        tracee.request(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_EXITKILL as usize)?;
        // The memory file of before exec is that of the program that we were.
        tracee.memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map_err(cannot)?;
        Ok(tracee)
    }

    /// Runs until the loader tells debuggers that all objects are there and relocated. `Some`: the process ended
    /// before, and this is why.
    pub(crate) fn run_until_relocated(&mut self, loader: &Path) -> model::Result<Option<String>> {
        let unknown = |cause: &str| {
            Error::on(Exit::Machine, "cannot stop the loader", loader)
                .because(cause.to_owned())
                .hint("only glibc's loader is known here")
        };
        let bytes =
            std::fs::read(loader).map_err(|error| Error::on(Exit::Machine, "cannot read", loader).because(error))?;
        let elf = Elf::parse(&bytes).map_err(|reason| unknown(&reason))?;
        let tables = Tables::read(&elf).map_err(|reason| unknown(&reason))?;
        let find =
            |name: &[u8]| tables.symbols.iter().find(|symbol| symbol.is_defined() && tables.name(symbol) == name);
        let (Some(notice), Some(state)) = (find(b"_dl_debug_state"), find(b"_r_debug")) else {
            return Err(unknown("it has no _dl_debug_state or _r_debug"));
        };
        let maps = self.maps()?;
        let own = maps.iter().find(|mapping| mapping.path == loader.as_os_str());
        let own = own.ok_or_else(|| unknown("it is not in the process"))?;
        let base = own.start.wrapping_sub(elf.loads().next().map_or(0, |load| load.at / 4096 * 4096));
        // struct r_debug: version, map, address of the notice, state; 0 is RT_CONSISTENT.
        let state = base.wrapping_add(state.value).wrapping_add(3 * self.format.word_len());
        let notice = base.wrapping_add(notice.value);
        loop {
            if let Some(message) = self.run_to(notice)? {
                return Ok(Some(message));
            }
            let mut raw = [0xff; 4];
            self.read(state, &mut raw).map_err(|error| unknown(&error.to_string()))?;
            if raw == [0; 4] {
                return Ok(None);
            }
        }
    }

    /// Runs until the program's entry.
    pub(crate) fn run_until_entry(&mut self) -> model::Result<Option<String>> {
        const AT_ENTRY: u64 = 9;
        let path = format!("/proc/{}/auxv", self.pid);
        let failed =
            |cause: io::Error| Error::new(Exit::Machine, "cannot find the entry of a process in", &path).because(cause);
        let auxv = std::fs::read(&path).map_err(failed)?;
        let word = self.format.word_len() as usize;
        let entry = auxv
            .chunks_exact(2 * word)
            .find(|raw| self.format.word(raw, 0) == Some(AT_ENTRY))
            .and_then(|raw| self.format.word(raw, word));
        let entry = entry.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        self.run_to(entry)
    }

    /// Runs until an instruction, which is executed next. If it stands there already, one instruction is run first.
    fn run_to(&mut self, address: u64) -> model::Result<Option<String>> {
        let failed = |error: io::Error| {
            Error::new(Exit::Machine, "cannot set a breakpoint in a traced process", "").because(error)
        };
        if self.next_instruction()? == address {
            self.request(libc::PTRACE_SINGLESTEP, 0)?;
            if let Event::Ended(message) = self.wait()? {
                return Ok(Some(message));
            }
        }
        let mut instruction = [0];
        self.read(address, &mut instruction).map_err(failed)?;
        self.memory.write_all_at(&BREAKPOINT, address).map_err(failed)?;
        let mut signal = 0;
        loop {
            self.request(libc::PTRACE_CONT, signal as usize)?;
            match self.wait()? {
                Event::Ended(message) => return Ok(Some(message)),
                Event::Stopped(libc::SIGTRAP) => {
                    if self.next_instruction()? == address.wrapping_add(1) {
                        self.go_on_at(address)?;
                        self.memory.write_all_at(&instruction, address).map_err(failed)?;
                        return Ok(None);
                    }
                    signal = 0;
                }
                Event::Stopped(other) => signal = other,
            }
        }
    }

    /// Reads memory of the process.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, at)
    }

    /// What is mapped, by address.
    pub(crate) fn maps(&self) -> model::Result<Vec<Mapping>> {
        let path = format!("/proc/{}/maps", self.pid);
        let text =
            std::fs::read(&path).map_err(|error| Error::new(Exit::Machine, "cannot read", &path).because(error))?;
        Ok(text.split(|byte| *byte == b'\n').filter_map(mapping).collect())
    }

    /// What it wrote to its standard error, shortened.
    pub(crate) fn errors(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.errors.rewind();
        let _ = (&self.errors).take(4096).read_to_end(&mut text);
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    fn wait(&mut self) -> model::Result<Event> {
        let mut status = 0;
        loop {
            // SAFETY: `status` is a place for the answer; the process is our child and not reaped yet.
            let result = unsafe { libc::waitpid(self.pid, &mut status, libc::__WALL) };
            if result == self.pid {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::new(Exit::Machine, "cannot wait for a traced process", "").because(error));
            }
        }
        if libc::WIFSTOPPED(status) {
            return Ok(Event::Stopped(libc::WSTOPSIG(status)));
        }
        self.ended = true;
        let how = if libc::WIFSIGNALED(status) {
            format!("ended by signal {}", libc::WTERMSIG(status))
        } else {
            format!("ended with exit code {}", libc::WEXITSTATUS(status))
        };
        let errors = self.errors();
        Ok(Event::Ended(if errors.is_empty() { how } else { format!("{how}: {errors}") }))
    }

    fn request(&self, request: libc::c_uint, data: usize) -> model::Result<()> {
        // SAFETY: these requests take a number, and touch no memory of ours.
        let result = unsafe { libc::ptrace(request, self.pid, 0_usize, data) };
        if result == -1 { Err(refused()) } else { Ok(()) }
    }

    /// The address of the next instruction.
    fn next_instruction(&self) -> model::Result<u64> {
        // SAFETY: answers with a word of the process's registers, and touches no memory of ours.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, self.pid, INSTRUCTION_POINTER, 0_usize) };
        if word == -1 { Err(refused()) } else { Ok(word as u64) }
    }

    fn go_on_at(&self, address: u64) -> model::Result<()> {
        // SAFETY: changes a register of the process, and touches no memory of ours.
        let done = unsafe { libc::ptrace(libc::PTRACE_POKEUSER, self.pid, INSTRUCTION_POINTER, address as usize) };
        if done == -1 { Err(refused()) } else { Ok(()) }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // SAFETY: the process is our child and not reaped, so that the number is still its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

fn refused() -> Error {
    Error::new(Exit::Machine, "the kernel refuses to trace a process", "").because(io::Error::last_os_error())
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let access = fields.next()?.get(..3)?.try_into().ok()?;
    let path = fields.nth(3).unwrap_or(b"").trim_ascii();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        access,
        path: OsStr::from_bytes(path).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn lines_of_maps() {
        let line = mapping(b"7f00-8000 r-xp 00001000 fe:00 1234                     /usr/lib/a b.so").unwrap();
        assert_eq!((line.start, line.end, &line.access), (0x7f00, 0x8000, b"r-x"));
        assert_eq!(line.path, "/usr/lib/a b.so");
        assert_eq!(mapping(b"7f00-8000 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert!(mapping(b"nothing").is_none());
    }
}
