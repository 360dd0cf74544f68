//! A disk that can be chosen: the program under test runs from a file system whose disk takes as long as a [`Model`]
//! says.
//!
//! From the program down:
//!
//! ```text
//! the program        in a mount namespace of its own, where copies cover the original files  (Namespace)
//! ext4, page cache   the real kernel, with its own read-ahead
//! loop device        direct I/O, so that nothing is cached below it; read-ahead as chosen
//! FUSE file          on /dev/fuse, mounted nowhere
//! server process     answers when the model's disk would have (server.rs)
//! image              sparse, in memory or in a file without a name
//! ```
//!
//! # What is left after a crash
//!
//! Nothing that the kernel would not clean up: file systems are held by descriptors and namespaces, the loop device
//! detaches itself, the image has no name, and the server ends when nobody has its disk any more. Two things are
//! journalled ([`os::journal`]): settings of the loop device, which outlive it, and the server itself, in case that a
//! program which survived thaw keeps it busy.
//!
//! # What it does not do
//!
//! Requests are served in the order of their arrival; a kernel of 2010 would have sorted those that wait, and
//! preferred reads. The file system is fresh: real ones are more fragmented. What was not copied (the system's
//! libraries, unless asked for) comes from the machine's own disk.

mod copy;
mod fidelity;
mod mounts;
mod protocol;
mod server;

pub use copy::Copied;
pub use fidelity::Fidelity;
pub use mounts::Namespace;

use crate::model::{Ask, Direction, Drive, Kind, Model, Service};
use crate::simulate::Request;
use model::{Bytes, DiskOffset, Error, Exit, Nanos, Result, Warning, WarningKind};
use os::journal::{Entry, Undo};
use os::loopdev::{Below, LoopDevice};
use serde::{Deserialize, Serialize};
use server::{Mode, Order, Parts, RECORD};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the disk's bytes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// In memory: never slower than the model, and cold starts cannot evict it.
    Memory,
    /// In a nameless file in this directory: the machine's own disk may be slower than the model then.
    File(PathBuf),
}

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The disk.
    pub model: Model,
    /// Directories and files to copy onto it: the program's and its profile's.
    pub items: Vec<PathBuf>,
    /// Where its bytes are kept.
    pub image: Image,
    /// The kernel's read-ahead on it.
    pub read_ahead_kib: u64,
}

/// How the disk treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once and unrecorded, as while it is being set up.
    Free,
    /// At once, but recorded: to learn what a start asks for.
    Recorded,
    /// As the model says, recorded.
    Model,
}

/// A request that the disk served. Times are CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When it came.
    pub arrival: Nanos,
    /// When the answer was given; not before `service.done`.
    pub replied: Nanos,
    /// What was asked.
    pub ask: Ask,
    /// What the model says that it costs. `None`: the disk was not paced.
    pub service: Option<Service>,
}

impl Record {
    /// How much later than the model says it was answered: the machine was busy.
    pub fn late(&self) -> Nanos {
        self.service.map_or(Nanos(0), |service| self.replied - service.done)
    }
}

/// The served requests as a recording for [`crate::simulate`], times since `t0`; what came before is left out.
pub fn requests(records: &[Record], t0: Nanos) -> Vec<Request> {
    let since = records.iter().filter(|record| record.arrival >= t0);
    since.map(|record| Request { issue: record.arrival - t0, done: record.replied - t0, ask: record.ask }).collect()
}

/// A simulated disk with its file system and the copied files. Dropping it takes everything away.
#[derive(Debug)]
pub struct Simulated {
    // In the order in which it must go: first the file system, then what it lies on.
    /// thaw itself is where the copies cover the originals.
    entered: Option<Namespace>,
    mount: Option<OwnedFd>,
    device: Option<LoopDevice>,
    settings: Vec<Entry>,
    server: Server,
    model: Model,
    items: Vec<PathBuf>,
    copied: Copied,
}

/// The server process as thaw sees it.
#[derive(Debug)]
struct Server {
    pid: u32,
    pidfd: OwnedFd,
    control: Option<UnixStream>,
    log: File,
    /// Where the log of interest begins.
    from: u64,
    entry: Option<Entry>,
}

fn machine(what: &str, cause: impl Into<io::Error>) -> Error {
    Error::new(Exit::Machine, what, "").because(cause.into())
}

impl Simulated {
    /// Makes the disk, its file system and the copies, and leaves it cold and at [`Pace::Free`].
    ///
    /// # Errors
    /// Not root; no FUSE, loop devices or mkfs.ext4; not enough room; something could not be copied. Nothing is left
    /// then.
    pub fn create(options: &Options) -> Result<(Self, Vec<Warning>)> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new(Exit::Machine, "a simulated disk needs root", &options.model.name)
                .hint("run thaw with sudo, or ask `thaw io model` what the start would cost on that disk"));
        }
        let items = check_items(&options.items)?;
        let mut warnings = Vec::new();
        let need = copy::size(&items)?;
        check_room(options, need)?;
        let image = image(options)?;
        make_file_system(&image)?;
        let (server, file) = Server::start(options, &image)?;
        let label = format!("thaw:{}", options.model.name);
        let device = LoopDevice::attach(file.as_fd(), &label, Below::Direct)?;
        drop(file);
        let settings = settings(&device, options);
        let mut disk = Self {
            entered: None,
            mount: None,
            device: Some(device),
            settings: Vec::new(),
            server,
            model: options.model.clone(),
            items,
            copied: Copied::default(),
        };
        disk.settings = settings?;
        disk.mount = Some(mounts::disk(disk.device())?);
        disk.copied = copy::copy(&disk.items, &disk.root())?;
        if let Some(first) = disk.copied.left_out.first() {
            let text = format!(
                "{} device nodes and sockets were not copied, e.g. {}",
                disk.copied.left_out.len(),
                first.display()
            );
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        disk.reopen(Some(Order::Keep))?;
        warnings.extend(disk.too_quick()?);
        Ok((disk, warnings))
    }

    /// A warning if the way to the disk takes longer here than the disk itself would.
    fn too_quick(&self) -> Result<Option<Warning>> {
        let random = &mut stats::Random::from_seed(1);
        let blocks = (self.model.capacity.0 / 4096).max(1) as usize;
        let asks: Vec<Ask> = (0..64)
            .map(|_| Ask {
                disk: DiskOffset(random.below(blocks) as u64 * 4096),
                len: Bytes(4096),
                direction: Direction::Read,
            })
            .collect();
        let way: Vec<f64> = match crate::ring::Device::open(self.device())?.read(&asks, 1) {
            Ok(timed) => timed.iter().map(|read| (read.done - read.issue).seconds()).collect(),
            // Without io_uring nothing can be said, but nothing is wrong with the disk either.
            Err(_) => return Ok(None),
        };
        let mut drive = Drive::new(self.model.clone(), Bytes(0));
        let mut now = Nanos(0);
        let model = asks.iter().map(|ask| {
            let service = drive.serve(now, ask);
            now = service.done;
            service.took().seconds()
        });
        let median = |times: &[f64]| Nanos::from_seconds(stats::quantile(times, 0.5));
        Ok(slow_way(&self.model.name, median(&way), median(&model.collect::<Vec<_>>())))
    }

    /// The disk.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was copied.
    pub fn copied(&self) -> &Copied {
        &self.copied
    }

    /// Its block device, e.g. `/dev/loop0`.
    pub fn device(&self) -> &Path {
        self.device.as_ref().map_or(Path::new(""), |device| &device.path)
    }

    /// Number of the block device, packed by `makedev`.
    pub fn dev(&self) -> u64 {
        self.device.as_ref().map_or(0, |device| device.dev)
    }

    /// Process id of the server.
    pub fn server_pid(&self) -> u32 {
        self.server.pid
    }

    /// Directory through which this process sees the file system; below it every copy lies under its original path.
    /// It is a name of this process alone (`/proc/self/fd/N`) and changes with [`Simulated::cool`].
    pub fn root(&self) -> PathBuf {
        self.mount.as_ref().map_or_else(PathBuf::new, |mount| format!("/proc/self/fd/{}", mount.as_raw_fd()).into())
    }

    /// The namespace for programs that shall see the copies in place of the originals.
    ///
    /// # Errors
    /// thaw's state directory cannot be made.
    pub fn namespace(&self) -> Result<Namespace> {
        // A directory that is there in any case; what is mounted on it is seen in the namespace only.
        let staging = os::journal::state_dir()?.join("disk");
        std::fs::create_dir_all(&staging)
            .map_err(|cause| Error::on(Exit::Machine, "cannot create the directory", &staging).because(cause))?;
        let staging = staging
            .canonicalize()
            .map_err(|cause| Error::on(Exit::Machine, "cannot look at", &staging).because(cause))?;
        Namespace::new(self.device(), &staging, &self.items)
    }

    /// Moves thaw itself, with all programs that it starts from now on, to where the copies cover the originals. Then
    /// paths mean the same for thaw and for the program under test: caches are warmed, evicted and looked at,
    /// profiles are put back, and inodes get their names on the simulated disk.
    ///
    /// # Errors
    /// thaw has other threads already, which would stay behind; or something cannot be mounted (then end thaw).
    pub fn enter(&mut self) -> Result<()> {
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, |threads| threads.count());
        if threads != 1 {
            return Err(Error::bug(format!("thaw has {threads} threads where it must have one to enter a namespace")));
        }
        let namespace = self.namespace()?;
        let here = std::env::current_dir();
        let entered = namespace.enter();
        self.entered = Some(namespace);
        entered.map_err(|cause| {
            machine("cannot cover the files with their copies", io::Error::from_raw_os_error(cause))
        })?;
        // The same directory again, which may be a copy now.
        let _ = here.and_then(std::env::set_current_dir);
        Ok(())
    }

    /// Sets the pace from now on; the disk's head goes back to 0 and its buffer is empty.
    ///
    /// # Errors
    /// The server is gone.
    pub fn pace(&mut self, pace: Pace) -> Result<()> {
        self.server.order(Order::Mode(match pace {
            Pace::Free => Mode::Free,
            Pace::Recorded => Mode::Logged,
            Pace::Model => Mode::Timed,
        }))
    }

    /// The items as they are covered: absolute, without links, none inside another.
    pub fn items(&self) -> &[PathBuf] {
        &self.items
    }

    /// Everything that the disk served since the last [`Simulated::forget_log`], in the order of the answers.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> Result<Vec<Record>> {
        self.server.records()
    }

    /// Begins a new log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn forget_log(&mut self) -> Result<()> {
        self.server.from =
            self.server.log.metadata().map_err(|cause| machine("cannot read the disk's log", cause))?.len();
        Ok(())
    }

    /// Makes every file on the disk cold, with its metadata, and nothing else on the machine: the file system is closed
    /// and opened again. At [`Pace::Free`] whatever the pace was.
    ///
    /// # Errors
    /// Somebody still has it and keeps it warm, or it cannot be mounted again.
    pub fn cool(&mut self) -> Result<()> {
        self.reopen(None)
    }

    /// Puts the whole disk back as it was when it was made, bit for bit, and makes it cold: what programs wrote since
    /// is gone, also where it lay. So every run finds the same disk. At [`Pace::Free`] whatever the pace was.
    ///
    /// # Errors
    /// As [`Simulated::cool`].
    pub fn restore(&mut self) -> Result<()> {
        self.reopen(Some(Order::Restore))
    }

    /// Closes the file system, has the server do something meanwhile, and opens it again.
    fn reopen(&mut self, meanwhile: Option<Order>) -> Result<()> {
        self.pace(Pace::Free)?;
        let here = self.leave();
        if let Some(mount) = self.mount.take() {
            // What the kernel still holds for later would be written when it is measured.
            let _ = rustix::fs::syncfs(&mount);
        }
        let closed = self.closed();
        if closed.is_ok()
            && let Some(order) = meanwhile
        {
            self.server.order(order)?;
        }
        self.mount()?;
        if let Some(here) = here {
            // What programs made is gone when everything is put back, perhaps also where we were.
            let _ = std::env::set_current_dir(here);
        }
        closed
    }

    /// Takes the covers away. thaw itself steps out of the file system that it may stand in; where it was is returned.
    fn leave(&self) -> Option<PathBuf> {
        let namespace = self.entered.as_ref()?;
        let here = std::env::current_dir().ok();
        // There is always a root.
        let _ = std::env::set_current_dir("/");
        namespace.uncover();
        here
    }

    /// Waits until nobody has the file system any more, and empties the device's own cache.
    fn closed(&self) -> Result<()> {
        let Some(device) = &self.device else { return Err(Error::bug("a simulated disk without a device")) };
        // Processes that are being killed may still hold files of it; then it is not closed, and not cold.
        let until = Instant::now() + PATIENCE;
        while device.in_use() {
            let holder = holder(device.dev);
            if holder.is_some() || Instant::now() > until {
                let holder = holder.unwrap_or_else(|| "a process that nobody sees".to_owned());
                let what = "the simulated disk cannot be made cold: it is in use by";
                return Err(Error::new(Exit::Machine, what, holder).hint("end what still runs from it"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        device.flush().map_err(|cause| machine("cannot empty the cache of the simulated disk", cause))
    }

    /// Opens the file system again, and covers what it covered.
    fn mount(&mut self) -> Result<()> {
        self.mount = Some(mounts::disk(self.device())?);
        let covered = self.entered.as_ref().map_or(Ok(()), Namespace::cover);
        covered
            .map_err(|cause| machine("cannot cover the files with their copies", io::Error::from_raw_os_error(cause)))
    }

    /// Takes everything away and says whether that worked (dropping cannot).
    ///
    /// # Errors
    /// A program still uses the disk. It gets I/O errors from now on.
    pub fn finish(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        // A slow farewell would serve nobody.
        let _ = self.pace(Pace::Free);
        let here = self.leave();
        self.entered = None;
        if let Some(here) = here {
            // The original directory is there again.
            let _ = std::env::set_current_dir(here);
        }
        drop(self.mount.take());
        // While the device is still ours: nobody else may find his settings changed.
        while let Some(setting) = self.settings.pop() {
            drop(setting);
        }
        drop(self.device.take());
        self.server.close()
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// A way that adds less than a tenth does not matter.
fn slow_way(name: &str, way: Nanos, disk: Nanos) -> Option<Warning> {
    let text = format!("a read of 4 KiB takes {disk} on {name}, and {way} more for the way to it on this machine");
    let hint = "trust `thaw io model` rather than a simulated disk that is as quick as this";
    (way.0.saturating_mul(10) > disk.0).then(|| Warning::new(WarningKind::Note, text).hint(hint))
}

/// A process that has the file system of this device mounted, by number and name.
fn holder(dev: u64) -> Option<String> {
    let holds = |pid: &u32| os::mounts::Mounts::of_process(*pid).is_some_and(|table| table.of_dev(dev).is_some());
    let pid = os::process::all().into_iter().find(holds)?;
    Some(format!("{pid} ({})", os::process::comm(pid).unwrap_or_default()))
}

/// The items without links, without those that lie in others.
fn check_items(items: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let state = os::journal::state_dir()?;
    let state = state.canonicalize().unwrap_or(state);
    let mut real = Vec::new();
    for item in items {
        let path = item
            .canonicalize()
            .map_err(|cause| Error::on(Exit::Usage, "cannot copy to the disk", item).because(cause))?;
        if path == Path::new("/") || state.starts_with(&path) {
            return Err(Error::on(Exit::Usage, "cannot cover with a copy", &path)
                .hint("copy the program's own directories and its profile, not the whole system"));
        }
        real.push(path);
    }
    real.sort();
    real.dedup_by(|inner, outer| inner.starts_with(outer));
    Ok(real)
}

/// The kernel would kill somebody for memory, or the copy fail half-way.
fn check_room(options: &Options, need: Bytes) -> Result<()> {
    let small = |room: Bytes, hint: &str| {
        Err(Error::new(Exit::Machine, format!("{need} do not fit on the simulated disk, there is room for"), room)
            .hint(hint))
    };
    let capacity = Bytes(options.model.capacity.0 / 10 * 9);
    if need > capacity {
        return small(capacity, "copy less, or choose a larger disk");
    }
    if options.image == Image::Memory {
        let memory = available_memory();
        let room = Bytes(memory.0 / 10 * 8);
        if need > room {
            return small(room, "keep the disk in a file instead of memory, or copy less");
        }
    }
    Ok(())
}

fn available_memory() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    // A kernel that does not tell is not one that has no memory.
    kib.map_or(Bytes(u64::MAX), |kib| Bytes(kib * 1024))
}

fn image(options: &Options) -> Result<File> {
    let file = match &options.image {
        Image::Memory => {
            rustix::fs::memfd_create(c"thaw-disk", rustix::fs::MemfdFlags::CLOEXEC).map(File::from).map_err(Into::into)
        }
        Image::File(directory) => OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
            .mode(0o600)
            .open(directory),
    };
    let size = options.model.capacity.0 / 4096 * 4096;
    file.and_then(|file| file.set_len(size).map(|()| file)).map_err(|cause| {
        Error::new(Exit::Machine, "cannot make the image of the simulated disk", &options.model.name).because(cause)
    })
}

/// Not everybody has the directories of the administrator in PATH.
const MKFS: [&str; 3] = ["mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];

/// Whether a file system can be made here.
pub fn has_mkfs() -> bool {
    MKFS.iter().any(|program| os::spawn::resolve_program(program.as_ref()).is_ok())
}

/// ext4 as usual, but the same for the same files: names are hashed with a fixed seed, which decides where directories
/// go.
fn make_file_system(image: &File) -> Result<()> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0,hash_seed=74686177-2d64-4973-8b20-6f6e65736565";
    let arguments = ["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=64", "-E", extended, &path];
    let missing = |cause: io::Error| {
        Error::new(Exit::Machine, "cannot run", "mkfs.ext4")
            .because(cause)
            .hint("install it: apt-get install e2fsprogs")
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for program in MKFS {
        match Command::new(program).args(arguments).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Error::new(Exit::Machine, "mkfs.ext4 failed on the simulated disk", "").because(said));
            }
            Err(cause) => last = cause,
        }
    }
    Err(missing(last))
}

/// Settings of the loop device; they outlive it, so they are put back as they were before it was configured.
fn settings(device: &LoopDevice, options: &Options) -> Result<Vec<Entry>> {
    let mut held = Vec::new();
    // The kernel computes the read-ahead anew whenever another setting changes, so it is the last to be put back:
    // entries are undone in the opposite order, here and by `thaw doctor`.
    for (name, before) in device.before.iter().rev() {
        let path = device.setting_file(name);
        if !before.is_empty() {
            held.push(os::journal::hold(Undo::WriteFile { path, text: before.clone() }, || Ok(()))?);
        }
    }
    let rotates = matches!(options.model.kind, Kind::Rotating(_));
    let wanted = [
        ("rotational", u8::from(rotates).to_string()),
        // The model is the scheduler: requests reach it in the order in which they are made.
        ("scheduler", "none".to_owned()),
        ("read_ahead_kb", options.read_ahead_kib.to_string()),
    ];
    for (name, value) in wanted {
        if device.setting(name) != value {
            let path = device.setting_file(name);
            std::fs::write(&path, &value)
                .map_err(|cause| Error::on(Exit::Machine, "cannot set", &path).because(cause))?;
        }
    }
    Ok(held)
}

impl Server {
    /// Starts the server and opens the file that it serves.
    fn start(options: &Options, image: &File) -> Result<(Self, OwnedFd)> {
        let (control, theirs) = UnixStream::pair().map_err(|cause| machine("cannot make a socket", cause))?;
        let open = |path: &str, flags| {
            let file = OpenOptions::new().read(true).write(true).custom_flags(flags | libc::O_CLOEXEC).open(path);
            let hint = "a disk to choose needs FUSE in the kernel: modprobe fuse";
            file.map_err(|cause| Error::new(Exit::Machine, "cannot open", path).because(cause).hint(hint))
        };
        let conversation = open("/dev/fuse", libc::O_NONBLOCK)?;
        let null = open("/dev/null", 0)?;
        let memory = |name| {
            rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)
                .map_err(|cause| machine("cannot get memory for the simulated disk", cause))
        };
        let log = memory(c"thaw-disk-log")?;
        let undo = memory(c"thaw-disk-undo")?;
        let pid = server::fork(Parts {
            fuse: conversation.as_fd(),
            image: image.as_fd(),
            undo: undo.as_fd(),
            log: log.as_fd(),
            control: theirs.as_fd(),
            null: null.as_fd(),
            size: image.metadata().map_err(|cause| machine("cannot look at the image", cause))?.len(),
            drive: Drive::new(options.model.clone(), Bytes(0)),
        })
        .map_err(|cause| machine("cannot start the simulated disk", cause))?;
        // Not before the fork: the server must notice when ours is closed.
        drop(theirs);
        // Nobody has waited for this child yet, so the number is still its own.
        let number = rustix::process::Pid::from_raw(pid).ok_or_else(|| Error::bug("fork gave no process id"))?;
        let pidfd = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty())
            .map_err(|cause| machine("cannot watch the simulated disk", cause))?;
        let mut server = Self { pid: pid as u32, pidfd, control: Some(control), log: log.into(), from: 0, entry: None };
        // It waits for its first order, so nothing has been changed yet.
        server.entry = hold_process(server.pid)?;
        let mount = mounts::fuse(conversation.as_fd())?;
        drop(conversation);
        // Only now: before there is a mount, the kernel does not speak to a server. Its first request waits.
        server.order(Order::Mode(Mode::Free))?;
        // The mount may go: the open file holds what it needs.
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::openat(&mount, protocol::NAME, flags, rustix::fs::Mode::empty())
            .map_err(|cause| machine("cannot open the simulated disk", cause))?;
        Ok((server, file))
    }

    /// Gives an order; when this returns, it has been carried out.
    fn order(&mut self, order: Order) -> Result<()> {
        let mut answer = [0];
        let said = match &mut self.control {
            Some(control) => control.write_all(&[order.byte()]).and_then(|()| control.read_exact(&mut answer)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        said.map_err(|cause| machine("the simulated disk is gone", cause))?;
        match answer[0] == order.byte() {
            true => Ok(()),
            false => Err(machine("the simulated disk cannot get memory", io::ErrorKind::OutOfMemory)),
        }
    }

    fn records(&self) -> Result<Vec<Record>> {
        let failed = |cause| machine("cannot read the disk's log", cause);
        let end = self.log.metadata().map_err(failed)?.len();
        let mut bytes = vec![0; (end.saturating_sub(self.from)) as usize / RECORD * RECORD];
        self.log.read_exact_at(&mut bytes, self.from).map_err(failed)?;
        Ok(bytes.as_chunks::<RECORD>().0.iter().map(server::noted).collect())
    }

    /// Lets it end. It does when nobody has the disk any more.
    fn close(&mut self) -> Result<()> {
        drop(self.control.take());
        let used = !self.ended(PATIENCE);
        if used {
            let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
            self.ended(PATIENCE);
        }
        // Its end is known: what the journal would do is done.
        drop(self.entry.take());
        match used {
            false => Ok(()),
            true => Err(Error::new(
                Exit::Machine,
                "a program still used the simulated disk; it gets errors from now on",
                "",
            )
            .hint("end the programs that were started from it")),
        }
    }

    /// Whether it has ended within this time; it is reaped then.
    fn ended(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut polled = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut polled, Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return false,
                Ok(_) => {
                    let wait = rustix::process::WaitId::PidFd(self.pidfd.as_fd());
                    // Somebody who reaps orphans may have been quicker.
                    let _ = rustix::process::waitid(wait, rustix::process::WaitIdOptions::EXITED);
                    return true;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// How long the kernel may take to close what it still has open of the disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server as an entry of the journal.
fn hold_process(pid: u32) -> Result<Option<Entry>> {
    let Some(start_ticks) = os::process::start_ticks(pid) else {
        return Err(Error::new(Exit::Machine, "the simulated disk ended at once, process", pid));
    };
    let undo = Undo::EndProcess { pid, start_ticks, what: "the simulated disk".to_owned() };
    os::journal::hold(undo, || Ok(())).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_quicker_than_the_way_to_it_is_reported() {
        assert_eq!(slow_way("laptop2010", Nanos(100_000), Nanos(15_000_000)), None);
        let warning = slow_way("nvme", Nanos(100_000), Nanos(66_700)).unwrap();
        assert!(warning.text.contains("66.7 µs on nvme, and 100.0 µs more"), "{}", warning.text);
    }

    #[test]
    fn what_came_before_the_start_is_left_out() {
        let ask = Ask { disk: DiskOffset(0), len: Bytes(1), direction: Direction::Read };
        let record = |arrival, replied| Record { arrival: Nanos(arrival), replied: Nanos(replied), ask, service: None };
        let requests = requests(&[record(5, 12), record(10, 20), record(15, 30)], Nanos(10));
        let times: Vec<_> = requests.iter().map(|request| (request.issue.0, request.done.0)).collect();
        assert_eq!(times, [(0, 10), (5, 20)]);
    }
}
