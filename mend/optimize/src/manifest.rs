//! What was planned, predicted, measured, kept and changed: the file beside the copy, and the answer of `thaw optimize
//! --json`.
//!
//! It is read again by `--apply` and `--run`, so it is taken as hostile: its paths are whole and lead nowhere else by
//! `..`, and what it names in its own directory lies there. What is changed must be, besides, the file that was
//! measured.

use crate::choose::Verdict;
use crate::environment::Variable;
use crate::predict::{Limit, Prediction};
use crate::remedy::{Remedy, Set};
use model::{Bytes, CacheState, Error, Exit, Result};
use os::file::open_regular;
use serde::{Deserialize, Serialize};
use stats::Estimate;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The manifest's name in the directory of the copy.
pub const NAME: &str = "thaw-optimize.json";
/// Its version.
pub const SCHEMA: &str = "thaw.optimize/1";
/// Larger files are not manifests.
const LARGEST: u64 = 64 << 20;

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of thaw.
    pub thaw: String,
    /// When, nanoseconds since 1970.
    pub made_unix_ns: u64,
    /// [`this_machine`] of the machine that it was made on.
    pub machine: String,
    /// Its name, for people.
    pub host: String,
    /// The recording that it was planned from.
    pub recording: PathBuf,
    /// The program's directory; others may have theirs in it too.
    pub root: PathBuf,
    /// The executable, below it.
    pub program: PathBuf,
    /// What is typed to start it: the executable, or a script or link to it. `None` in results of before.
    #[serde(default)]
    pub start: Option<PathBuf>,
    /// The state that was measured in.
    pub state: CacheState,
    /// The disk that the gains were predicted for.
    pub disk: String,
    /// Why this disk.
    pub disk_because: String,
    /// Pairs of runs; 0: nothing was measured.
    pub runs: u32,
    /// What no remedy of reads can beat, on this disk. `None`: the recording has no requests, or is a result of before.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// Seconds of a measured start with what is kept, or of the original where nothing is: the median. `None`: nothing
    /// was measured.
    #[serde(default)]
    pub kept_s: Option<f64>,
    /// Each remedy and, where there are several, all together.
    pub tried: Vec<Tried>,
    /// What helped best.
    pub kept: Set,
    /// Files of which there is a changed copy.
    pub files: Vec<Changed>,
    /// Directories of which there is a copy with caches in it.
    #[serde(default)]
    pub directories: Vec<Directory>,
    /// What the program is started with.
    #[serde(default)]
    pub environment: Vec<Variable>,
    /// The image that was planned. `None`: none was, or is a result of before.
    #[serde(default)]
    pub image: Option<Imaged>,
    /// What could be done beside this.
    pub advice: Vec<Advice>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// A set of remedies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Which.
    pub set: Set,
    /// What was predicted. `None`: the recording has no requests.
    pub predicted: Option<Prediction>,
    /// What was measured: time over that of the original. `None`: it was not measured.
    pub measured: Option<Estimate>,
    /// What follows.
    pub verdict: Option<Verdict>,
    /// What it changes here, one sentence each.
    pub changes: Vec<String>,
    /// What it sets in the environment of the program.
    #[serde(default)]
    pub environment: Vec<Variable>,
    /// What is read before the start; of the set with nothing but that.
    #[serde(default)]
    pub reads: Option<ReadAhead>,
}

impl Tried {
    /// A set of which nothing is known.
    pub fn of(set: Set) -> Self {
        let environment = crate::environment::of_set(&set);
        Self { set, predicted: None, measured: None, verdict: None, changes: Vec::new(), environment, reads: None }
    }
}

/// What a preload plan reads: what any of several starts needed, each byte counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAhead {
    /// Bytes of all reads.
    pub bytes: Bytes,
    /// Of those, needed by any of the recorded starts; the rest are gaps.
    pub needed: Bytes,
    /// Files, and devices for metadata.
    pub files: usize,
    /// Reads.
    pub reads: usize,
    /// Recorded starts that tell what is needed.
    pub starts: usize,
}

/// A remedy that cannot be had in a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do.
    pub what: String,
    /// What to type.
    pub command: String,
    /// What it would gain, if that can be told.
    pub predicted: Option<Prediction>,
}

/// A file of which there is a changed copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Where the original is; in results of before, below the program's directory.
    pub path: PathBuf,
    /// Where the copy is, in the directory of the result. `None` in results of before.
    #[serde(default)]
    pub copy: Option<PathBuf>,
    /// By which remedy.
    pub by: Remedy,
    /// What it was.
    pub before: Identity,
    /// What it is in the copy.
    pub after: Identity,
    /// Date of the original's last change, nanoseconds since 1970: `--run` looks at no more, because it is done at
    /// every start.
    #[serde(default)]
    pub mtime_ns: Option<i64>,
}

impl Changed {
    /// The original.
    pub fn original(&self, manifest: &Manifest) -> PathBuf {
        manifest.root.join(&self.path)
    }

    /// The copy in the directory of a result. Before there were copies of single files, it held the whole tree.
    pub fn copy(&self, directory: &Path) -> PathBuf {
        let in_tree = || Path::new("tree").join(self.path.strip_prefix("/").unwrap_or(&self.path));
        directory.join(self.copy.clone().unwrap_or_else(in_tree))
    }

    /// Whether the original is, by size and date, still the one that was measured. `false` too where that was not
    /// noted.
    pub fn is_as_seen(&self, manifest: &Manifest) -> bool {
        let seen = |meta: fs::Metadata| {
            let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
            meta.is_file() && meta.len() == self.before.size && Some(mtime_ns) == self.mtime_ns
        };
        fs::symlink_metadata(self.original(manifest)).is_ok_and(seen)
    }
}

/// A directory of which there is a copy with caches in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Where the original is.
    pub path: PathBuf,
    /// Where the copy is, in the directory of the result.
    pub copy: PathBuf,
    /// Date of the original's last change, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The files that are others in the copy.
    pub files: Vec<Built>,
}

/// A file of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// Its place below the directory.
    pub name: PathBuf,
    /// What it was; `None`: it was not there.
    pub before: Option<Identity>,
    /// What it is in the copy.
    pub after: Identity,
}

impl Directory {
    /// Whether nothing came into the original or went since it was copied.
    pub fn is_as_seen(&self) -> bool {
        crate::files::Seen::of(&self.path).is_ok_and(|seen| seen.is_directory() && seen.mtime_ns == self.mtime_ns)
    }
}

/// An image of the program's directory: what it would be, and what it was measured to cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imaged {
    /// Of which directory.
    pub directory: PathBuf,
    /// How it is compressed.
    pub compression: String,
    /// Bytes of files in it that starts need.
    pub needed: Bytes,
    /// What these take in it, with what stands in front: from a sample that was compressed.
    pub stretch: Bytes,
    /// Names in the directory, which are looked at before each start.
    pub names: u64,
    /// Bytes of files that one processor of this machine unpacks in a second; `None`: nothing becomes smaller.
    pub unpacked_in_a_second: Option<f64>,
    /// Seconds that the disk takes for the stretch.
    pub reading_s: f64,
    /// Seconds that unpacking takes.
    pub unpacking_s: f64,
    /// What it was measured to cost; `None`: it was not made.
    pub cost: Option<Cost>,
    /// Where it is in the directory of the result; `None`: it was not kept.
    pub kept: Option<PathBuf>,
}

/// What an image costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Bytes that it takes on the disk.
    pub size: Bytes,
    /// Bytes that a start needs of it in fact.
    pub stretch: Bytes,
    /// Seconds of a hot start without any remedy: the median. `None`: none counted.
    pub hot_without_s: Option<f64>,
    /// Seconds of a hot start with the image alone.
    pub hot_with_s: Option<f64>,
    /// Page cache after a start without it: of the directory's files. `None`: nobody knows, a note says why.
    pub memory_without: Option<Bytes>,
    /// Page cache after a start with it: of the files in it,
    pub memory_files: Option<Bytes>,
    /// and of itself.
    pub memory_image: Option<Bytes>,
}

/// What tells a file from a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its length.
    pub size: u64,
    /// Checksum of its bytes.
    pub crc32: u32,
}

impl Identity {
    /// Of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, crc32: crc32fast::hash(bytes) }
    }

    /// Of a regular file as it is now.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = open_regular(path)?;
        let mut sum = crc32fast::Hasher::new();
        let mut size = 0;
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(Self { size, crc32: sum.finalize() }),
                len => {
                    sum.update(&piece[..len]);
                    size += len as u64;
                }
            }
        }
    }
}

/// A name for this machine that stays the same over boots, and tells nothing else.
pub fn this_machine() -> String {
    let id = fs::read("/etc/machine-id").ok().filter(|id| !id.trim_ascii().is_empty());
    let id = id.unwrap_or_else(|| rustix::system::uname().nodename().to_bytes().to_vec());
    format!("{:08x}", crc32fast::hash(&[b"thaw optimize ", id.trim_ascii()].concat()))
}

impl Manifest {
    /// As a file.
    ///
    /// # Errors
    /// A path is no UTF-8.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|cause| {
            Error::on(Exit::Usage, "the manifest cannot name what lies in", &self.root)
                .because(cause)
                .hint("its files must have names in UTF-8")
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// From the bytes of a file; in words what is wrong with them.
    ///
    /// # Errors
    /// It is no manifest, of another version, or has paths that lead out of the program's directory.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head =
            serde_json::from_slice(bytes).map_err(|cause| format!("it is no manifest of `thaw optimize`: {cause}"))?;
        if head.schema != SCHEMA {
            return Err(format!("it is of the version {:?}, and this thaw reads {SCHEMA}", head.schema));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|cause| cause.to_string())?;
        let below = |path: &Path| {
            path.components().all(|part| matches!(part, Component::Normal(_))) && path.components().next().is_some()
        };
        let whole = |path: &Path| path.strip_prefix("/").is_ok_and(below);
        let root_is_whole = manifest.root == Path::new("/") || whole(&manifest.root);
        if !root_is_whole {
            return Err(format!("{} is no directory of a program", model::shown(&manifest.root)));
        }
        let out = |path: &Path, fits: bool| match fits {
            true => Ok(()),
            false => Err(format!("{} leads out of where it belongs", model::shown(path))),
        };
        out(&manifest.program, below(&manifest.program))?;
        manifest.start.iter().try_for_each(|start| out(start, whole(start)))?;
        for file in &manifest.files {
            // Only results that say where the copy is name files everywhere.
            out(&file.path, below(&file.path) || file.copy.is_some() && whole(&file.path))?;
            file.copy.iter().try_for_each(|copy| out(copy, below(copy)))?;
        }
        for directory in &manifest.directories {
            out(&directory.path, whole(&directory.path))?;
            out(&directory.copy, below(&directory.copy))?;
            directory.files.iter().try_for_each(|file| out(&file.name, below(&file.name)))?;
        }
        if let Some(image) = &manifest.image {
            out(&image.directory, whole(&image.directory))?;
            image.kept.iter().try_for_each(|kept| out(kept, below(kept)))?;
        }
        if let Some(variable) = manifest.environment.iter().find(|variable| !variable.is_sound()) {
            return Err(format!("it sets {:?}, which no remedy does", variable.name));
        }
        Ok(manifest)
    }

    /// Reads the manifest of a copy.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        let wrong = || {
            Error::on(Exit::Data, "cannot read the manifest", &path)
                .hint("`thaw optimize RECORDING -o DIR` makes a directory with one")
        };
        let mut bytes = Vec::new();
        let read = open_regular(&path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        read.map_err(|cause| wrong().because(cause))?;
        if bytes.len() as u64 > LARGEST {
            return Err(wrong().because("it is too large to be one"));
        }
        Self::parse(&bytes).map_err(|cause| wrong().because(cause))
    }

    /// It was made on this machine.
    ///
    /// # Errors
    /// It was not.
    pub fn check_machine(&self) -> Result<()> {
        if self.machine == this_machine() {
            return Ok(());
        }
        Err(Error::new(Exit::Data, "this was measured on another machine:", &self.host)
            .because(format!("this is {}", os::machine::host()))
            .hint(
                "what helps there need not help here: record the program here, then `thaw optimize RECORDING -o DIR`",
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let identity = Identity { size: 1, crc32: 2 };
        Manifest {
            schema: SCHEMA.into(),
            thaw: "0.1.0".into(),
            made_unix_ns: 1,
            machine: this_machine(),
            host: os::machine::host(),
            recording: "/tmp/a.thaw".into(),
            root: "/opt/app".into(),
            program: "bin/app".into(),
            start: Some("/usr/bin/app".into()),
            state: CacheState::Cold,
            disk: "laptop2010".into(),
            disk_because: "--disk".into(),
            runs: 8,
            tried: Vec::new(),
            kept: Set::from([Remedy::Pack]),
            files: vec![Changed {
                path: "/usr/lib/app.so".into(),
                copy: Some("files/0-pack".into()),
                by: Remedy::Pack,
                before: identity,
                after: identity,
                mtime_ns: Some(5),
            }],
            directories: vec![Directory {
                path: "/usr/lib/gio/modules".into(),
                copy: "files/1-caches".into(),
                mtime_ns: 6,
                files: vec![Built { name: "giomodule.cache".into(), before: None, after: identity }],
            }],
            environment: crate::environment::of_set(&Set::from([Remedy::BindNow])),
            image: Some(Imaged {
                directory: "/opt/app".into(),
                compression: "zstd 15".into(),
                needed: Bytes(8 << 20),
                stretch: Bytes(4 << 20),
                names: 3,
                unpacked_in_a_second: Some(5e8),
                reading_s: 0.1,
                unpacking_s: 0.01,
                cost: None,
                kept: Some("start.image".into()),
            }),
            limit: None,
            kept_s: None,
            advice: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let written = manifest();
        assert_eq!(Manifest::parse(&written.to_bytes().unwrap()).unwrap(), written);
        written.check_machine().unwrap();
    }

    #[test]
    fn a_result_of_before_has_its_copies_in_a_tree() {
        let mut old = manifest();
        (old.files[0].path, old.files[0].copy, old.files[0].mtime_ns) = ("bin/app".into(), None, None);
        let old = Manifest::parse(&old.to_bytes().unwrap()).unwrap();
        assert_eq!(old.files[0].original(&old), Path::new("/opt/app/bin/app"));
        assert_eq!(old.files[0].copy(Path::new("/d")), Path::new("/d/tree/bin/app"));
        let new = manifest();
        assert_eq!(new.files[0].original(&new), Path::new("/usr/lib/app.so"));
        assert_eq!(new.files[0].copy(Path::new("/d")), Path::new("/d/files/0-pack"));
        assert!(!new.files[0].is_as_seen(&new), "it is not there");
    }

    #[test]
    fn what_leads_out_or_is_no_manifest_is_refused() {
        let wrong = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Manifest::parse(&manifest.to_bytes().unwrap()).unwrap_err()
        };
        assert!(wrong(&|it| it.files[0].path = "../../etc/passwd".into()).contains("leads out"));
        assert!(wrong(&|it| (it.files[0].path, it.files[0].copy) = ("/etc/passwd".into(), None)).contains("leads out"));
        assert!(wrong(&|it| it.files[0].path = "/usr/../etc/passwd".into()).contains("leads out"));
        assert!(wrong(&|it| it.files[0].copy = Some("../x".into())).contains("leads out"));
        assert!(wrong(&|it| it.files[0].copy = Some("/etc/passwd".into())).contains("leads out"));
        assert!(wrong(&|it| it.directories[0].path = "usr".into()).contains("leads out"));
        assert!(wrong(&|it| it.directories[0].copy = "/etc".into()).contains("leads out"));
        assert!(wrong(&|it| it.directories[0].files[0].name = "../x".into()).contains("leads out"));
        assert!(wrong(&|it| it.image.as_mut().unwrap().kept = Some("../x".into())).contains("leads out"));
        assert!(wrong(&|it| it.image.as_mut().unwrap().directory = "/usr/../etc".into()).contains("leads out"));
        assert!(wrong(&|it| it.environment[0].name = "LD_PRELOAD".into()).contains("LD_PRELOAD"));
        assert!(wrong(&|it| it.start = Some("bin/app".into())).contains("leads out"));
        assert!(wrong(&|it| it.program = "".into()).contains("leads out"));
        assert!(wrong(&|it| it.root = "opt".into()).contains("no directory"));
        assert!(wrong(&|it| it.root = "/opt/../etc".into()).contains("no directory"));
        assert!(wrong(&|it| it.schema = "thaw.optimize/9".into()).contains("thaw.optimize/9"));
        for bytes in [&b""[..], b"{}", b"dear diary", b"{\"schema\": \"thaw.optimize/1\"}"] {
            assert!(Manifest::parse(bytes).is_err());
        }
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(home.path()).unwrap_err().exit, Exit::Data);
        let pipe = home.path().join(NAME);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Manifest::read(home.path()).unwrap_err().to_string().contains("no regular file"));
        assert!(Identity::of(&pipe).is_err());
    }

    #[test]
    fn a_directory_that_was_changed_since_is_told() {
        let home = tempfile::tempdir().unwrap();
        let mut seen = manifest().directories.remove(0);
        seen.path = home.path().into();
        seen.mtime_ns = crate::files::Seen::of(home.path()).unwrap().mtime_ns;
        assert!(seen.is_as_seen());
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(home.path().join("new"), "").unwrap();
        assert!(!seen.is_as_seen());
        seen.path = home.path().join("new");
        seen.mtime_ns = crate::files::Seen::of(&seen.path).unwrap().mtime_ns;
        assert!(!seen.is_as_seen(), "it is a file");
    }

    #[test]
    fn another_machine_is_told() {
        let mut other = manifest();
        other.machine = "0".into();
        other.host = "elsewhere".into();
        let error = other.check_machine().unwrap_err();
        assert_eq!(error.exit, Exit::Data);
        assert!(error.to_string().contains("elsewhere") && error.hint.is_some());
    }
}
