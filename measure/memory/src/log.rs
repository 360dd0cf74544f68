//! The file of a watch while it grows: the watch and `thaw memory mark` add lines to it at once. Reading it is
//! `watch`'s.
//!
//! Whoever is killed or finds the disk full may have written half a line. The next one to write takes it out first, so
//! that only the last line of a file can be cut, and a reader leaves that one out.

use crate::watch::{Head, Sample};
use model::{Error, Exit, Result, shown};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A watch's file, open to add samples.
#[derive(Debug)]
pub struct Log {
    file: File,
    name: String,
}

impl Log {
    /// Begins a file, which is there with its whole head or not at all. Replaces one that is there.
    ///
    /// # Errors
    /// The directory cannot be written, or is full.
    pub fn create(path: &Path, head: &Head) -> Result<Self> {
        os::replace::write_whole(path, &line(head)?, os::replace::Rights::Private, os::replace::Existing::Replace)?;
        Self::open(path)
    }

    /// To go on with a file that is there.
    ///
    /// # Errors
    /// It is not there, or cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path);
        let file = file.map_err(|cause| Error::on(Exit::Machine, "cannot write", path).because(cause))?;
        Ok(Self { file, name: shown(path) })
    }

    /// Adds a line, whole or not at all.
    ///
    /// # Errors
    /// The disk is full.
    pub fn add(&self, sample: &Sample) -> Result<()> {
        let line = line(sample)?;
        let cannot = |cause: io::Error| Error::new(Exit::Machine, "cannot write", &self.name).because(cause);
        self.file.lock().map_err(cannot)?;
        let added = self.add_locked(&line);
        self.file.unlock().map_err(cannot)?;
        added.map_err(cannot)
    }

    fn add_locked(&self, line: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let end = self.end_of_last_line(length)?;
        if end < length {
            self.file.set_len(end)?;
        }
        (&self.file).write_all(line).inspect_err(|_| {
            // If this fails too, the next one to write does it.
            let _ = self.file.set_len(end);
        })
    }

    /// Behind the last newline.
    fn end_of_last_line(&self, length: u64) -> io::Result<u64> {
        let mut end = length;
        let mut last = [0];
        while end > 0 {
            self.file.read_exact_at(&mut last, end - 1)?;
            if last == *b"\n" {
                break;
            }
            end -= 1;
        }
        Ok(end)
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec(value).map_err(|cause| Error::bug(format!("cannot make a line of JSON: {cause}")))?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{self, BEGINNING, Whose};

    fn head() -> Head {
        Head {
            schema: watch::SCHEMA.into(),
            thaw_version: String::new(),
            command: Vec::new(),
            whose: Whose::Program(1),
            start_ticks: 0,
            began_ns: 0,
            created_unix_ns: 0,
        }
    }

    fn sample(mark: &str) -> Sample {
        Sample { mark: Some(mark.into()), ..Sample::default() }
    }

    #[test]
    fn a_killed_watch_is_read_as_far_as_it_goes_and_can_go_on() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("watch");
        Log::create(&path, &head()).unwrap().add(&sample("a")).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let head_length = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        assert!(whole.starts_with(BEGINNING));
        assert_eq!(watch::parse(&whole[..], "watch").unwrap().samples, [sample("a")]);
        for length in 0..whole.len() {
            let read = watch::parse(&whole[..length], "watch");
            assert!(length < head_length || read.unwrap().samples.is_empty(), "{length}");
        }
        for length in head_length..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            Log::open(&path).unwrap().add(&sample("b")).unwrap();
            let text = std::fs::read(&path).unwrap();
            assert_eq!(watch::parse(&text[..], "watch").unwrap().samples, [sample("b")], "{length}");
        }
        let mut damaged = whole.clone();
        damaged.extend_from_slice(b"x\n{}");
        assert_eq!(watch::parse(&damaged[..], "watch").unwrap_err().exit, Exit::Data);
    }

    #[test]
    fn many_write_at_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("watch");
        Log::create(&path, &head()).unwrap();
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let log = Log::open(&path).unwrap();
                scope.spawn(move || (0..200).for_each(|_| log.add(&sample(name)).unwrap()));
            }
        });
        assert_eq!(watch::parse(&std::fs::read(&path).unwrap()[..], "watch").unwrap().samples.len(), 800);
    }
}
