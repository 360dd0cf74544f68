//! The files: an open segment that grows by whole synced pieces, and sealed ones by day of receipt and program.

use os::replace::{Existing, Rights, write_whole};
use ping::{Day, Ping};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a collector's directory is: locked, while this lives.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    _lock: File,
}

/// A segment that is written to.
#[derive(Debug)]
pub struct Open {
    path: PathBuf,
    file: File,
    /// Bytes that are on the medium and acknowledged; what lies behind them is to be cut.
    good: u64,
    /// Something may lie behind `good`.
    is_torn: bool,
    /// When it was begun, seconds since 1970.
    pub since: u64,
}

impl Store {
    /// Takes a directory, which is made when it is missing.
    ///
    /// # Errors
    /// It cannot be made, or another collector has it.
    pub fn take(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory.join("open"))?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(directory.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory: directory.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(io::Error::other("another collector has it")),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Open segments that a collector left: killed, or without space to seal them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn left(&self) -> io::Result<Vec<PathBuf>> {
        let mut left = Vec::new();
        for entry in std::fs::read_dir(self.directory.join("open"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "ndjson") {
                left.push(path);
            }
        }
        left.sort();
        Ok(left)
    }

    /// The programs that have sealed segments of a day.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn programs(&self, day: Day) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.directory.join(format!("dt={day}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names: io::Result<Vec<String>> =
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
        Ok(names?.iter().filter_map(|name| name.strip_prefix("app=")).map(str::to_owned).collect())
    }

    /// Begins a segment whose name says when.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn begin(&self, seconds: u64) -> io::Result<Open> {
        let folder = self.directory.join("open");
        // By chance: the name of one that has been sealed already, in this second or before a clock was set back, would
        // replace it.
        let chance = u64::from_ne_bytes(os::machine::by_chance()?);
        let path = folder.join(format!("{seconds:012}-{chance:016x}.ndjson"));
        let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        File::open(&folder)?.sync_all()?;
        Ok(Open { path, file, good: 0, is_torn: false, since: seconds })
    }

    /// Seals a segment that nobody writes to: a file for each program, by the day on which the segment was begun; then
    /// it goes. Done again after a kill, it makes the same files. Returns the ids of its pings.
    ///
    /// # Errors
    /// The disk does not take it; the open segment is still there then, whole.
    pub fn seal(&self, path: &Path) -> io::Result<Vec<u128>> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let seconds = name.split('-').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let day = Day::of_seconds(seconds);
        let mut programs: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut ids = Vec::new();
        // What was acknowledged ends with its end of line; a torn tail does not, or is no ping.
        for line in std::fs::read(path)?.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            // The day was judged when it came: the clock may have been set back since.
            let Ok(ping) = Ping::parse(line, day.plus(36_500)) else { continue };
            ids.push(crate::batch::id(&ping));
            programs.entry(ping.app).or_default().extend_from_slice(line);
        }
        for (app, lines) in programs {
            let folder = self.directory.join(format!("dt={day}")).join(format!("app={app}"));
            std::fs::create_dir_all(&folder)?;
            let packed = zstd::stream::encode_all(&lines[..], 3)?;
            let target = folder.join(format!("{name}.ndjson.zst"));
            write_whole(&target, &packed, Rights::Private, Existing::Replace)
                .map_err(|error| io::Error::other(error.to_string()))?;
            // The names above the file's own directory.
            for above in [folder.parent(), Some(&*self.directory)].into_iter().flatten() {
                File::open(above)?.sync_all()?;
            }
        }
        std::fs::remove_file(path)?;
        File::open(self.directory.join("open"))?.sync_all()?;
        Ok(ids)
    }
}

impl Open {
    /// Appends, and returns when all is on the medium. On an error nothing of it is there.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.cut()?;
        }
        self.is_torn = true;
        let done = self.file.write_all_at(bytes, self.good).and_then(|()| self.file.sync_data());
        match done {
            Ok(()) => {
                self.good += bytes.len() as u64;
                self.is_torn = false;
                Ok(())
            }
            Err(error) => {
                // If this fails too, the next append does it first.
                let _ = self.cut();
                Err(error)
            }
        }
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.good)?;
        self.file.sync_data()?;
        self.is_torn = false;
        Ok(())
    }

    /// Bytes that are in it for good.
    pub fn bytes(&self) -> u64 {
        self.good
    }

    /// Ends writing.
    ///
    /// # Errors
    /// What was not acknowledged cannot be cut off.
    pub fn close(&mut self) -> io::Result<PathBuf> {
        if self.is_torn {
            self.cut()?;
        }
        Ok(self.path.clone())
    }
}
