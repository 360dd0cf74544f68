//! What was planned, predicted, measured, kept and changed: the file beside the copy, and the answer of `thaw optimize --json`.
//!
//! It is read again by `--apply`, so it is taken as hostile: a path in it never leads out of the program's directory.

use crate::choose::Verdict;
use crate::predict::Prediction;
use crate::remedy::{Remedy, Set};
use model::{Bytes, CacheState, Error, Exit, Result};
use os::file::open_regular;
use serde::{Deserialize, Serialize};
use stats::Estimate;
use std::fs;
use std::io::{self, Read};
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
    /// The program's directory.
    pub root: PathBuf,
    /// What is started, below it.
    pub program: PathBuf,
    /// The state that was measured in.
    pub state: CacheState,
    /// The disk that the gains were predicted for.
    pub disk: String,
    /// Why this disk.
    pub disk_because: String,
    /// Pairs of runs; 0: nothing was measured.
    pub runs: u32,
    /// Each remedy and, where there are several, all together.
    pub tried: Vec<Tried>,
    /// What the copy has.
    pub kept: Set,
    /// Files that differ from the original's.
    pub files: Vec<Changed>,
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
    /// What is read before the start; of the set with nothing but that.
    #[serde(default)]
    pub reads: Option<ReadAhead>,
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

/// A file that differs from the original's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Below the program's directory.
    pub path: PathBuf,
    /// By which remedy.
    pub by: Remedy,
    /// What it was.
    pub before: Identity,
    /// What it is in the copy.
    pub after: Identity,
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
        let normal = |path: &Path| {
            path.components().all(|part| matches!(part, Component::Normal(_))) && path.components().next().is_some()
        };
        let absolute = manifest.root.is_absolute()
            && manifest.root.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let outside =
            manifest.files.iter().map(|file| &file.path).chain([&manifest.program]).find(|path| !normal(path));
        match outside {
            _ if !absolute => Err(format!("{} is no directory of a program", model::shown(&manifest.root))),
            Some(path) => Err(format!("{} leads out of the program's directory", model::shown(path))),
            None => Ok(manifest),
        }
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
            state: CacheState::Cold,
            disk: "laptop2010".into(),
            disk_because: "--disk".into(),
            runs: 8,
            tried: Vec::new(),
            kept: Set::from([Remedy::Pack]),
            files: vec![Changed { path: "bin/app".into(), by: Remedy::Pack, before: identity, after: identity }],
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
    fn what_leads_out_or_is_no_manifest_is_refused() {
        let wrong = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Manifest::parse(&manifest.to_bytes().unwrap()).unwrap_err()
        };
        assert!(wrong(&|it| it.files[0].path = "../../etc/passwd".into()).contains("leads out"));
        assert!(wrong(&|it| it.files[0].path = "/etc/passwd".into()).contains("leads out"));
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
    fn another_machine_is_told() {
        let mut other = manifest();
        other.machine = "0".into();
        other.host = "elsewhere".into();
        let error = other.check_machine().unwrap_err();
        assert_eq!(error.exit, Exit::Data);
        assert!(error.to_string().contains("elsewhere") && error.hint.is_some());
    }
}
