//! Root directories of processes that live elsewhere: in a container, a sandbox, below `chroot`. They are held from
//! while those live, so that a file that such a process named can be opened when it has ended.

use model::Nanos;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// More are not held: each needs two descriptors.
const MOST: usize = 64;
/// So often a [`Watch`] looks. Most programs in containers live longer.
const EVERY: Duration = Duration::from_millis(20);

/// Root directories that are not thaw's own, each once.
#[derive(Debug, Default)]
pub struct Roots {
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    identity: Identity,
    root: OwnedFd,
    /// Without its mount namespace, what is mounted below a root is not there any more.
    _mounts: File,
}

/// A root directory as processes see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    /// Of its mount namespace.
    mounts: u64,
    dev: u64,
    ino: u64,
}

impl Identity {
    /// `None`: the process is gone, or not for us to look at.
    fn of(process: &str) -> Option<Self> {
        let root = fs::metadata(format!("/proc/{process}/root")).ok()?;
        let mounts = fs::metadata(format!("/proc/{process}/ns/mnt")).ok()?.ino();
        Some(Self { mounts, dev: root.dev(), ino: root.ino() })
    }
}

impl Roots {
    /// Holds where these processes live now, if they do not where thaw does.
    pub fn look(&mut self, pids: impl IntoIterator<Item = u32>) {
        let own = Identity::of("self");
        for pid in pids {
            let Some(identity) = Identity::of(&pid.to_string()) else { continue };
            let is_known = Some(identity) == own || self.held.iter().any(|held| held.identity == identity);
            if !is_known && self.held.len() < MOST {
                self.held.extend(Held::of(pid));
            }
        }
    }

    /// Regular files that have this path in one of the directories. Links lead to nowhere else.
    pub fn open(&self, path: &Path) -> impl Iterator<Item = File> {
        self.held.iter().filter_map(|held| crate::file::open_below(&held.root, path).ok())
    }
}

impl Held {
    fn of(pid: u32) -> Option<Self> {
        let process = openat(CWD, format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let root = openat(&process, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mounts = File::from(openat(&process, "ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
        let about = rustix::fs::fstat(&root).ok()?;
        let identity = Identity { mounts: mounts.metadata().ok()?.ino(), dev: about.st_dev, ino: about.st_ino };
        Some(Self { identity, root, _mounts: mounts })
    }
}

/// A thread that looks from time to time, so that also those are found that end. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<(Roots, Nanos)>,
}

impl Watch {
    /// Looks at those that `pids` tells.
    ///
    /// # Errors
    /// No thread is left.
    pub fn start<P: IntoIterator<Item = u32>>(pids: impl Fn() -> P + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("thaw-roots".to_owned()).spawn(move || {
            let mut roots = Roots::default();
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                roots.look(pids());
            }
            roots.look(pids());
            (roots, crate::threads::own_cpu_time())
        })?;
        Ok(Self { stop, thread })
    }

    /// Looks a last time, and ends: what was found, and the CPU time that all looks took.
    pub fn finish(self) -> (Roots, Nanos) {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// A process with another root directory, in which something is mounted; it says so, and waits until it is ended.
    fn elsewhere(root: &Path) -> Child {
        let script = format!(
            "cd {0} && mount --bind . . && cd {0} && mkdir -p below && mount -t tmpfs thaw below && \
             echo inner > below/file && ln -s /below/file link && mkfifo pipe && echo 1 && exec sleep 1000",
            root.display()
        );
        let mut child = Command::new("unshare");
        child.args(["--mount", "--", "sh", "-ec", &script]).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn what_a_process_saw_can_be_opened_when_it_has_ended() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let mut child = elsewhere(home.path());
        let mut roots = Roots::default();
        roots.look([child.id(), child.id(), std::process::id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(roots.held.len(), 1);
        let at = |name: &str| home.path().join(name);
        let read =
            |path: &Path| -> Vec<String> { roots.open(path).map(|file| io::read_to_string(file).unwrap()).collect() };
        assert_eq!(read(&at("below/file")), ["inner\n"], "on a file system that is mounted nowhere else");
        assert!(!at("below/file").exists());
        // A link is one in that root directory; what is no file is none.
        assert!(read(&at("link")).is_empty() && read(&at("pipe")).is_empty());
        assert!(read(Path::new("/dev/null")).is_empty());
    }

    #[test]
    fn who_ends_before_the_last_look_is_seen() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let mut child = elsewhere(home.path());
        let (pid, (looked, looks)) = (child.id(), std::sync::mpsc::channel());
        let watch = Watch::start(move || {
            let _ = looked.send(());
            [pid]
        });
        let watch = watch.unwrap();
        // It has looked once when it asks again.
        looks.recv().unwrap();
        looks.recv().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (roots, own) = watch.finish();
        assert_eq!(roots.held.len(), 1);
        assert!(own > Nanos(0));
    }
}
