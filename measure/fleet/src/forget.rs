//! Takes a machine out of segments and of a store: all of its pings, and its token.

use crate::{segments, store};
use model::{Error, Exit, Result};
use os::replace::{self, Existing, Rights, Strictness};
use rusqlite::params;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Level of zstd for segments that are written anew: that of its command line.
const LEVEL: i32 = 3;

/// What was forgotten.
#[derive(Debug, Default, Serialize)]
pub struct Forgotten {
    /// `thaw.fleet-forget/1`.
    pub schema: &'static str,
    /// Segments that were looked through.
    pub segments: u64,
    /// Segments that were written anew without the machine, or removed because nothing else was in them.
    pub segments_changed: u64,
    /// Lines that were taken out of segments.
    pub lines: u64,
    /// Pings that were taken out of the store; `None`: no store was named.
    pub pings: Option<u64>,
    /// Segments that cannot be read to their end, and why: the machine may still be in them.
    pub unread: Vec<(String, String)>,
}

/// Forgets the machine with this token. A segment is replaced as a whole: after a kill it is the old or the new one.
///
/// # Errors
/// The token is none; the folder or the store cannot be used. Segments before the failed one are done.
pub fn forget(token: &str, folder: &Path, db: Option<&Path>) -> Result<Forgotten> {
    if !ping::is_allowed("machine", token) {
        let error = Error::new(Exit::Usage, "this is no token of a machine:", token.escape_default());
        return Err(error.hint("it has 32 hexadecimal digits: `thaw ping --show` prints it as \"machine\""));
    }
    let mut done = Forgotten { schema: "thaw.fleet-forget/1", ..Forgotten::default() };
    // A store that is mistyped is said before anything is changed.
    let db = db.map(|path| store::read(path).and_then(|_| Ok((path, store::open(path)?)))).transpose()?;
    for segment in segments::list(folder)? {
        os::interrupt::check()?;
        done.segments += 1;
        match held(&segment.path, token) {
            Err(cause) => done.unread.push((segment.name, cause.to_string())),
            Ok((0, _)) => {}
            Ok((lines, others)) => {
                rewrite(&segment.path, token, others)?;
                done.lines += lines;
                done.segments_changed += 1;
            }
        }
    }
    if let Some((path, mut store)) = db {
        let mut delete = || {
            let transaction = store.transaction()?;
            let of_it = "(select machine from machine where token = ?1)";
            let pings = format!("(select ping from ping where machine in {of_it})");
            transaction.execute(&format!("delete from milestone where ping in {pings}"), params![token])?;
            let gone = transaction.execute(&format!("delete from ping where machine in {of_it}"), params![token])?;
            transaction.execute("delete from machine where token = ?1", params![token])?;
            transaction.commit().map(|()| gone as u64)
        };
        done.pings = Some(delete().map_err(|cause| store::failed("cannot delete from the store", path, cause))?);
    }
    Ok(done)
}

/// Lines of the machine, and of others.
fn held(path: &Path, token: &str) -> io::Result<(u64, u64)> {
    let (mut lines, mut others) = (0, 0);
    segments::lines(path, |line| {
        *if is_of(line, token) { &mut lines } else { &mut others } += 1;
        Ok(())
    })?;
    Ok((lines, others))
}

/// A line that is no JSON is kept, unless the token is somewhere in it.
fn is_of(line: &[u8], token: &str) -> bool {
    line.len() >= token.len() && line.windows(token.len()).any(|part| part == token.as_bytes())
}

fn rewrite(path: &Path, token: &str, others: u64) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot write the segment anew:", path).because(cause);
    if others == 0 {
        return replace::remove(path).map_err(cannot);
    }
    let file = File::open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    let rights = Rights::Like { file: &file, about: &about, strictness: Strictness::AsAllowed };
    replace::write_by(path, rights, Existing::Replace, |out| {
        let mut encoder = zstd::stream::write::Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        segments::lines(path, |line| match is_of(line, token) {
            true => Ok(()),
            false => encoder.write_all(line).and_then(|()| encoder.write_all(b"\n")),
        })?;
        encoder.finish().map(drop)
    })
}
