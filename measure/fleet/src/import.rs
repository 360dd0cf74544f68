//! Segments into a store. A segment counts as a whole or not at all, and once. An import is one transaction: after a
//! kill the store is as it was. Of a new store SQLite's journal holds next to nothing then, for what was not there
//! needs no copy; with commits on the way it would hold the index of the ids again and again.
//!
//! Ids come by chance, so that a new one changes any page of their index. Where much comes, the index goes, the rows
//! are only appended, and it is made at the end by sorting, in bounded memory; then pings that came twice lie side by
//! side.

use crate::segments::{self, Segment};
use crate::store::{self, failed};
use model::{Error, Exit, Result};
use ping::{Ping, Remedy};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// What the files of a program may have been changed by, in the order of the columns.
const REMEDIES: [Remedy; 4] = [Remedy::Preload, Remedy::Packed, Remedy::Ordered, Remedy::Archive];

/// Much is what is at least this part of what is there, in bytes of segments: 1 of 4. Sorting goes once over all ids;
/// entering new ones changes, and copies into the journal, nearly all pages of the index as soon as there are more of
/// them than pages, some 150 ids each.
const MUCH: u64 = 4;

/// What an import did.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    /// `thaw.fleet-import/1`.
    pub schema: &'static str,
    /// Segments whose pings are in the store now.
    pub segments: u64,
    /// Segments that had been imported before, unchanged.
    pub segments_known: u64,
    /// Pings that are new in the store.
    pub pings: u64,
    /// Pings whose `id` was there already.
    pub duplicates: u64,
    /// Lines of whole segments that are no pings.
    pub refused: u64,
    /// Where the first of them is, and why.
    pub first_refused: Option<String>,
    /// Segments that were left out.
    pub damaged: Vec<Damaged>,
}

/// A segment that cannot be read to its end. None of its pings is in the store.
#[derive(Debug, Serialize)]
pub struct Damaged {
    /// From the folder on.
    pub segment: String,
    /// Why.
    pub because: String,
}

/// Imports all segments of `folder` that `path` does not have yet. `told` hears how many of how many are done.
///
/// # Errors
/// The folder or the store cannot be used; the disk is full; Ctrl-C. The store is as it was, then.
pub fn import(folder: &Path, path: &Path, told: &mut dyn FnMut(usize, usize)) -> Result<Imported> {
    let all = segments::list(folder)?;
    if all.is_empty() {
        let error = Error::on(Exit::Data, "there is no segment in", folder);
        return Err(error.hint("their names are dt=YYYY-MM-DD/app=NAME/*.ndjson.zst; open ones are not read"));
    }
    let store = store::open(path)?;
    let cannot = |cause| failed("cannot write to the store", path, cause);
    let mut sum = Imported { schema: "thaw.fleet-import/1", ..Imported::default() };
    // Dropped without a commit, it is rolled back.
    store.execute_batch("begin immediate").map_err(cannot)?;
    let mut known = Known { is_much: is_much(&store, &all).map_err(cannot)?, ..Known::default() };
    if known.is_much {
        store::forget_ids(&store).map_err(cannot)?;
    }
    for (at, segment) in all.iter().enumerate() {
        told(at, all.len());
        os::interrupt::check()?;
        one(&store, segment, &mut known, &mut sum, path)?;
    }
    if known.is_much {
        let twice = store::index_ids(&store).map_err(cannot)?;
        sum.pings -= twice;
        sum.duplicates += twice;
        os::interrupt::check()?;
    }
    store.execute_batch("commit").map_err(cannot)?;
    told(all.len(), all.len());
    Ok(sum)
}

/// Whether what is probably new, by name and size, is much.
fn is_much(store: &Connection, all: &[Segment]) -> rusqlite::Result<bool> {
    let there: i64 = store.query_row("select coalesce(sum(bytes), 0) from segment", [], |row| row.get(0))?;
    let mut query = store.prepare("select 1 from segment where name = ?1 and bytes = ?2")?;
    let mut new = 0;
    for segment in all {
        // One that cannot be looked at is said to be damaged later.
        let bytes = segment.path.metadata().map_or(0, |about| about.len());
        if !query.exists(params![segment.name, bytes as i64])? {
            new += bytes;
        }
    }
    Ok(new > 0 && new.saturating_mul(MUCH) >= there as u64)
}

fn one(store: &Connection, segment: &Segment, known: &mut Known, sum: &mut Imported, path: &Path) -> Result<()> {
    let cannot = |cause| failed("cannot write to the store", path, cause);
    let damaged = |sum: &mut Imported, cause: &io::Error| {
        sum.damaged.push(Damaged { segment: segment.name.clone(), because: cause.to_string() });
    };
    let (bytes, hash) = match digest(&segment.path) {
        Ok(found) => found,
        Err(cause) => {
            damaged(sum, &cause);
            return Ok(());
        }
    };
    let query = "select sha256 from segment where name = ?1 and bytes = ?2";
    let before = store.query_row(query, params![segment.name, bytes], |row| row.get::<_, String>(0)).optional();
    if before.map_err(cannot)?.is_some_and(|before| before == hash) {
        sum.segments_known += 1;
        return Ok(());
    }
    let before = store::last(store).map_err(cannot)?;
    let mut found = Found::default();
    let mut broken = None;
    let today = ping::Day::today();
    let read = segments::lines(&segment.path, |bytes| {
        found.line += 1;
        match Ping::parse(bytes, today) {
            Ok(ping) => match add(store, &ping, known) {
                Ok(true) => found.pings += 1,
                Ok(false) => found.duplicates += 1,
                Err(cause) => {
                    broken = Some(cause);
                    return Err(io::Error::other("the store"));
                }
            },
            Err(why) => {
                found.refused += 1;
                found.first.get_or_insert_with(|| format!("{}, line {}: {why}", segment.name, found.line));
            }
        }
        Ok(())
    });
    if let Some(cause) = broken {
        return Err(cannot(cause));
    }
    if let Err(cause) = read {
        damaged(sum, &cause);
        // The dictionaries go back too: what they learned from this segment is not in the store.
        *known = Known { is_much: known.is_much, ..Known::default() };
        return store::take_back(store, before).map_err(cannot);
    }
    let note = "insert or replace into segment (name, bytes, sha256) values (?1, ?2, ?3)";
    store.execute(note, params![segment.name, bytes, hash]).map_err(cannot)?;
    sum.segments += 1;
    sum.pings += found.pings;
    sum.duplicates += found.duplicates;
    sum.refused += found.refused;
    sum.first_refused = sum.first_refused.take().or(found.first);
    Ok(())
}

#[derive(Default)]
struct Found {
    line: u64,
    pings: u64,
    duplicates: u64,
    refused: u64,
    first: Option<String>,
}

/// Numbers that the store has given, so that most lines need no look-up.
#[derive(Default)]
struct Known {
    /// The index of the ids is made at the end.
    is_much: bool,
    machines: HashMap<u128, i64>,
    setups: HashMap<String, i64>,
}

/// Machines, and setups, that are known at most: those of tens of millions of pings. Above it they are learned anew.
const MOST_KNOWN: usize = 1 << 20;

/// Whether the ping is new.
fn add(store: &Connection, ping: &Ping, known: &mut Known) -> rusqlite::Result<bool> {
    let setup = setup(store, ping, known)?;
    let machine = machine(store, &ping.machine, known)?;
    let mut insert = store.prepare_cached(
        "insert into ping (id, setup, machine, wall_us, user_us, system_us, minor_faults, major_faults,
             read_bytes, max_rss_bytes)
         select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
         where ?11 or not exists (select 1 from ping where id = ?1)",
    )?;
    let id = hex(&ping.id).to_be_bytes();
    let number = |value: u64| value as i64;
    let new = insert.execute(params![
        id.as_slice(),
        setup,
        machine,
        number(ping.wall_us),
        number(ping.user_us),
        number(ping.system_us),
        number(ping.minor_faults),
        number(ping.major_faults),
        ping.read_bytes.map(number),
        number(ping.max_rss_bytes),
        known.is_much,
    ])? == 1;
    if new && !ping.milestones.is_empty() {
        let row = store.last_insert_rowid();
        let mut insert = store.prepare_cached("insert into milestone (ping, name, us) values (?1, ?2, ?3)")?;
        for (name, us) in &ping.milestones {
            insert.execute(params![row, name, number(*us)])?;
        }
    }
    Ok(new)
}

fn machine(store: &Connection, token: &str, known: &mut Known) -> rusqlite::Result<i64> {
    if let Some(number) = known.machines.get(&hex(token)) {
        return Ok(*number);
    }
    store.prepare_cached("insert or ignore into machine (token) values (?1)")?.execute([token])?;
    let mut query = store.prepare_cached("select machine from machine where token = ?1")?;
    let number = query.query_row([token], |row| row.get(0))?;
    if known.machines.len() >= MOST_KNOWN {
        known.machines.clear();
    }
    known.machines.insert(hex(token), number);
    Ok(number)
}

/// The reader has seen that it is 32 hexadecimal digits.
fn hex(text: &str) -> u128 {
    u128::from_str_radix(text, 16).expect("32 hexadecimal digits")
}

fn setup(store: &Connection, ping: &Ping, known: &mut Known) -> rusqlite::Result<i64> {
    let has = REMEDIES.map(|remedy| ping.remedies.contains(&remedy));
    let words = [
        ping.app.as_str(),
        ping.version.as_str(),
        ping.day.as_str(),
        ping.state.as_str(),
        ping.ready.as_str(),
        ping.cpus.as_str(),
        ping.memory.as_str(),
        ping.disk.as_str(),
        ping.kernel.as_str(),
        ping.distribution.as_str(),
    ];
    // No word holds a blank.
    let key = format!("{} {has:?}", words.join(" "));
    if let Some(number) = known.setups.get(&key) {
        return Ok(*number);
    }
    const COLUMNS: &str = "app, version, day, state, ready, cpus, memory, disk, kernel, distribution, \
                           preload, packed, ordered, archive";
    const VALUES: &str = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14";
    let values = || {
        let words = words.iter().map(|word| word as &dyn rusqlite::ToSql);
        rusqlite::params_from_iter(words.chain(has.iter().map(|has| has as &dyn rusqlite::ToSql)))
    };
    let insert = format!("insert or ignore into setup ({COLUMNS}) values ({VALUES})");
    store.prepare_cached(&insert)?.execute(values())?;
    let query = format!("select setup from setup where ({COLUMNS}) = ({VALUES})");
    let number = store.prepare_cached(&query)?.query_row(values(), |row| row.get(0))?;
    if known.setups.len() >= MOST_KNOWN {
        known.setups.clear();
    }
    known.setups.insert(key, number);
    Ok(number)
}

/// Size and SHA-256 of a file.
fn digest(path: &Path) -> io::Result<(i64, String)> {
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut std::fs::File::open(path)?, &mut Hashed(&mut hash))?;
    Ok((bytes as i64, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

struct Hashed<'a>(&'a mut Sha256);

impl io::Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        format!(
            r#"{{"schema":"thaw.ping/1","id":"{0}","machine":"{0}","app":"a","version":"1","day":"2026-11-26",
            "state":"cold","ready":"exit","wall_us":1,"user_us":1,"system_us":1,"minor_faults":1,"major_faults":1,
            "read_bytes":null,"max_rss_bytes":1,"milestones":{{}},"cpus":"1","memory":"<4G","disk":"ssd",
            "kernel":"6.18","distribution":"debian","remedies":["preload"]}}"#,
            "0123456789abcdef".repeat(2)
        )
    }

    #[test]
    fn what_is_no_ping_is_refused_with_the_reason() {
        let today = ping::Day::parse("2026-11-27").unwrap();
        assert_eq!(Ping::parse(text().as_bytes(), today).unwrap().remedies, [Remedy::Preload]);
        for (old, new) in [
            ("ping/1", "ping/2"),
            ("cold", "tepid"),
            ("debian", "de'bian"),
            ("2026-11-26", "2026-11-2x"),
            ("2026-11-26", "2036-11-26"),
            ("\"ready\"", "\"host\":\"me\",\"ready\""),
            ("\"preload\"", "\"magic\""),
            ("0123", "012X"),
        ] {
            let refused = Ping::parse(text().replacen(old, new, 1).as_bytes(), today);
            assert!(!refused.expect_err(&format!("{new} was read")).why.is_empty());
        }
    }
}
