//! A folder of segments: which are there, in one order everywhere, and what is in one.

use model::{Error, Exit, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// How the name of a sealed segment ends. An open one has another name and is not read.
pub const SUFFIX: &str = ".ndjson.zst";

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// From the folder on: `dt=2026-11-26/app=NAME/1.ndjson.zst`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// All segments of a folder, by name.
///
/// # Errors
/// The folder or one inside of it cannot be read; a name is not UTF-8.
pub fn list(folder: &Path) -> Result<Vec<Segment>> {
    let mut all = Vec::new();
    let is_part = |name: &str, head: &str| name.starts_with(head) && name.len() > head.len();
    for (day, path) in inside(folder)?.into_iter().filter(|(name, path)| is_part(name, "dt=") && path.is_dir()) {
        for (app, path) in inside(&path)?.into_iter().filter(|(name, path)| is_part(name, "app=") && path.is_dir()) {
            let files = inside(&path)?.into_iter().filter(|(name, path)| name.ends_with(SUFFIX) && path.is_file());
            all.extend(files.map(|(name, path)| Segment { name: format!("{day}/{app}/{name}"), path }));
        }
    }
    all.sort();
    Ok(all)
}

fn inside(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let cannot = |cause: io::Error| {
        Error::on(Exit::of_unreadable(&cause), "cannot read the folder of segments", folder)
            .because(cause)
            .hint("its form is DIR/dt=YYYY-MM-DD/app=NAME/*.ndjson.zst, as `thaw fleet collect` writes it")
    };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| Error::on(Exit::Data, "a name is not UTF-8", &folder.join(name)))?;
        all.push((name, entry.path()));
    }
    all.sort();
    Ok(all)
}

/// Gives each line of a segment to `line`, without its end, until it says no more.
///
/// # Errors
/// The file cannot be read, is torn or no zstd, or has a line that is longer than a ping; what `line` says.
pub fn lines(path: &Path, mut line: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Err(torn("it is empty"));
    }
    let mut reader = BufReader::with_capacity(1 << 18, zstd::stream::read::Decoder::new(file)?);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // What is decompressed is bounded line by line, whatever the file says that it holds.
        reader.by_ref().take(ping::MOST_BYTES as u64 + 2).read_until(b'\n', &mut bytes)?;
        match bytes.last() {
            None => return Ok(()),
            Some(b'\n') => bytes.truncate(bytes.len() - 1),
            Some(_) if bytes.len() > ping::MOST_BYTES => return Err(torn("a line is too long")),
            Some(_) => return Err(torn("its last line has no end")),
        }
        line(&bytes)?;
    }
}

fn torn(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
