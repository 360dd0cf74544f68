//! Whether a process can be attached to, before anything of it is touched: every refusal names its reason.

use super::objects::Objects;
use model::{Error, Exit, Result, shown};
use object::{Object, ObjectSection};
use os::mapped::Mapped;
use os::process::status_value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process that may be attached to.
#[derive(Debug)]
pub struct Target {
    /// The number of the process, in thaw's namespace.
    pub pid: u32,
    /// When it began: together with the number it names the process for good.
    pub start_ticks: u64,
    /// The words that it was started with.
    pub command: Vec<String>,
    /// Its working directory.
    pub cwd: String,
    /// The program and the libraries that it has loaded.
    pub objects: Objects,
    /// The C library, by its path.
    pub library: PathBuf,
    /// The dynamic linker, by its path.
    pub loader: PathBuf,
}

/// What cannot be helped.
pub fn cannot(pid: u32, cause: impl Into<String>) -> Error {
    Error::new(Exit::Machine, "cannot attach to process", pid).because(cause.into())
}

/// Who traces one of its threads.
fn tracer(pid: u32) -> Option<u32> {
    let tracer =
        |tid: i32| status_value(tid.cast_unsigned(), "TracerPid")?.parse::<u32>().ok().filter(|tracer| *tracer != 0);
    os::ptrace::threads(pid).ok()?.into_iter().find_map(tracer)
}

fn traced(pid: u32, tracer: u32) -> Error {
    let who = os::process::comm(tracer).unwrap_or_default();
    cannot(pid, format!("it is traced already, by process {tracer} ({who})"))
        .hint("a process has one tracer: end that first, or try again when it has ended")
}

/// The kernel said no.
pub fn refused(pid: u32, cause: &std::io::Error) -> Error {
    if cause.raw_os_error() == Some(libc::ESRCH) {
        return cannot(pid, "it has ended");
    }
    if cause.raw_os_error().is_none() {
        return cannot(pid, cause.to_string());
    }
    // What a thread of ours traces is refused for another reason.
    let is_ours = |tracer: &u32| Path::new(&format!("/proc/self/task/{tracer}")).exists();
    if let Some(tracer) = tracer(pid).filter(|tracer| !is_ours(tracer)) {
        return traced(pid, tracer);
    }
    let error = cannot(pid, format!("the kernel does not allow it ({cause})"));
    // Real, effective, saved, of the file system.
    let users = |pid| status_value(pid, "Uid").unwrap_or_default();
    let (theirs, ours) = (users(pid), users(std::process::id()));
    let effective = |users: &str| users.split_ascii_whitespace().nth(1).unwrap_or("?").to_owned();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if effective(&ours) == "0" && scope.trim() != "3" {
        return error.hint(
            "thaw is root, and something stronger forbids it: no CAP_SYS_PTRACE (a container), a security module, or \
            another process that traced it at that moment: then try again",
        );
    }
    if effective(&ours) != "0" && effective(&theirs) != effective(&ours) {
        return error.hint(format!(
            "the process is user {}'s, thaw is user {}'s: run thaw as root",
            effective(&theirs),
            effective(&ours)
        ));
    }
    match scope.trim() {
        "3" => {
            error.hint("/proc/sys/kernel/yama/ptrace_scope is 3: nobody may attach until the machine is started again")
        }
        "2" => error.hint("/proc/sys/kernel/yama/ptrace_scope is 2: only root may attach"),
        "1" => error.hint("/proc/sys/kernel/yama/ptrace_scope is 1: run thaw as root, or write 0 into it"),
        _ => error.hint(
            "run thaw as root: the process is setuid, has more rights than thaw, or forbids it (PR_SET_DUMPABLE)",
        ),
    }
}

impl Target {
    /// Looks at a process.
    ///
    /// # Errors
    /// It cannot be attached to, and why.
    pub fn of(pid: u32) -> Result<Self> {
        let gone =
            || Error::new(Exit::Usage, "there is no process", pid).hint("its number, by its name: pgrep -a NAME");
        let stat = os::process::stat(pid).ok_or_else(gone)?;
        if pid == std::process::id() {
            return Err(
                Error::new(Exit::Usage, "cannot attach to process", pid).because("it is thaw itself".to_owned())
            );
        }
        let value = |key| status_value(pid, key).unwrap_or_default();
        let leader: u32 = value("Tgid").parse().map_err(|_| gone())?;
        if leader != pid {
            return Err(Error::new(Exit::Usage, "cannot attach to a thread", pid)
                .hint(format!("it is one of process {leader}: thaw heap attach {leader}")));
        }
        if matches!(stat.state, 'Z' | 'X') {
            return Err(cannot(pid, "it has ended, and its parent does not ask for its exit code (a zombie)"));
        }
        if stat.state == 'T' {
            return Err(cannot(pid, "it is stopped").hint(format!("let it go on first: kill -CONT {pid}")));
        }
        if let Some(tracer) = tracer(pid) {
            return Err(traced(pid, tracer));
        }
        // Kernel threads have no memory.
        if status_value(pid, "VmSize").is_none() {
            return Err(cannot(pid, "it is a thread of the kernel").hint("only programs can be recorded"));
        }
        for tid in os::ptrace::threads(pid).map_err(|_| gone())? {
            let mode = status_value(tid.cast_unsigned(), "Seccomp").unwrap_or_default();
            if mode == "1" {
                return Err(cannot(
                    pid,
                    "it is in strict seccomp mode, in which the kernel kills it for any system call but read, write \
                    and _exit",
                )
                .hint("record it from its start: thaw heap run"));
            }
            if !matches!(mode.as_str(), "" | "0") {
                return Err(cannot(
                    pid,
                    "it is in a sandbox (seccomp): the guest could not open its files, or the \
                process would be killed for it",
                )
                .hint("record it from its start: thaw heap run"));
            }
        }
        if value("x86_Thread_features").contains("shstk") {
            return Err(cannot(pid, "it has a shadow stack, which a call from outside would break"));
        }
        check_program(pid)?;
        let objects = Objects::of(pid).map_err(|cause| refused(pid, &cause))?;
        // The file behind this name may have any other.
        if let Some(musl) = interpreter(pid).filter(|name| name.contains("/ld-musl")) {
            return Err(cannot(pid, format!("its C library is musl ({musl}); only glibc is known"))
                .hint("build it for glibc to record it"));
        }
        let library = objects.named(|name| name == "libc.so.6" || name.starts_with("libc-2."));
        let loader = objects.named(|name| name.starts_with("ld-linux-x86-64") || name.starts_with("ld-2."));
        let (Some(library), Some(loader)) = (library, loader) else {
            if is_go(pid) {
                return Err(cannot(pid, "it is a Go program without a C library: its heap is that of the Go runtime")
                    .hint("Go has a heap profile of its own: go tool pprof"));
            }
            return Err(cannot(pid, "it is statically linked, or its C library is not glibc")
                .hint("only programs with a dynamic linker can be attached to"));
        };
        let (library, loader) = (library.path.clone(), loader.path.clone());
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = words.strip_suffix(b"\0").unwrap_or(&words);
        Ok(Self {
            pid,
            start_ticks: stat.start_ticks,
            command: words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            cwd: fs::read_link(format!("/proc/{pid}/cwd")).map(|cwd| shown(&cwd)).unwrap_or_default(),
            objects,
            library,
            loader,
        })
    }

    /// Whether the process sees the very same file or directory under this name.
    ///
    /// # Errors
    /// It does not: a container, a chroot.
    pub fn sees(&self, path: &Path) -> Result<()> {
        let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let mut there = OsString::from(format!("/proc/{}/root", self.pid));
        there.push(path);
        if identity(path) == identity(Path::new(&there)) {
            return Ok(());
        }
        Err(cannot(
            self.pid,
            format!("it has another root directory (a container), in which {} is not the same", shown(path)),
        )
        .hint(
            "run thaw in the container, or put its library and the recording (-o) where both see them: THAW_HEAP_AGENT",
        ))
    }

    /// Whether the user of the process may open a file that others may open.
    ///
    /// # Errors
    /// A directory above it is closed to that user.
    pub fn reaches(&self, path: &Path) -> Result<()> {
        let ids = |key| -> Vec<u32> {
            let text = status_value(self.pid, key).unwrap_or_default();
            text.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
        };
        // Effective ones are the second.
        let (user, groups) = (ids("Uid"), [ids("Gid"), ids("Groups")].concat());
        let Some(user) = user.get(1).copied().filter(|user| *user != 0) else { return Ok(()) };
        for above in path.ancestors().skip(1) {
            let Ok(meta) = fs::metadata(above) else { continue };
            let bit = match () {
                () if meta.uid() == user => 0o100,
                () if groups.contains(&meta.gid()) => 0o010,
                () => 0o001,
            };
            if meta.mode() & bit == 0 {
                return Err(cannot(
                    self.pid,
                    format!("its user ({user}) cannot reach {}: {} is closed to it", shown(path), shown(above)),
                )
                .hint("record into a directory that it reaches: -o /tmp/thaw.heap"));
            }
        }
        Ok(())
    }
}

/// The program's ELF header.
fn check_program(pid: u32) -> Result<()> {
    let bytes = fs::File::open(format!("/proc/{pid}/exe"))
        .and_then(|file| {
            let mut head = vec![0; 64];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0).map(|()| head)
        })
        .map_err(|cause| refused(pid, &cause))?;
    if bytes.get(4) != Some(&2) || bytes.get(18..20) != Some(&[62, 0]) {
        return Err(cannot(pid, "it is no x86-64 program; the guest is one"));
    }
    Ok(())
}

/// The program's file.
fn program(pid: u32) -> Option<Mapped> {
    fs::File::open(format!("/proc/{pid}/exe")).ok().and_then(|file| Mapped::of(&file))
}

/// The dynamic linker that it names.
fn interpreter(pid: u32) -> Option<String> {
    elf::interpreter(&program(pid)?).map(|path| shown(&path))
}

/// Whether the Go tools have left their note in the program.
fn is_go(pid: u32) -> bool {
    let Some(bytes) = program(pid) else { return false };
    let file: &[u8] = &bytes;
    object::File::parse(file).is_ok_and(|file| {
        file.sections().any(|section| matches!(section.name(), Ok(".note.go.buildid" | ".go.buildinfo")))
    })
}

/// A path as a zero-terminated string.
pub fn terminated(path: &Path) -> Vec<u8> {
    let mut bytes = OsString::from(path).into_vec();
    debug_assert!(!path.as_os_str().as_bytes().contains(&0));
    bytes.push(0);
    bytes
}
