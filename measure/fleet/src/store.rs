//! The store: one SQLite file that holds the pings of a fleet, what repeats in them once, and which segments they came
//! from. The view `pings` shows them flat, with the columns that the questions name.

use model::{Error, Exit, Result};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// "thfl": what tells a store from other SQLite files.
const APPLICATION: i64 = 0x7468_666c;
const VERSION: i64 = 1;

const TABLES: &str = "
create table segment (name text primary key, bytes integer not null, sha256 text not null) without rowid;
create table machine (machine integer primary key, token text not null unique);
create table setup (
    setup integer primary key, app text not null, version text not null, day text not null, state text not null,
    ready text not null, cpus text not null, memory text not null, disk text not null, kernel text not null,
    distribution text not null, preload integer not null, packed integer not null, ordered integer not null,
    archive integer not null,
    unique (app, version, day, state, ready, cpus, memory, disk, kernel, distribution, preload, packed, ordered,
            archive)
);
create table ping (
    ping integer primary key, id blob not null, setup integer not null, machine integer not null,
    wall_us integer not null, user_us integer not null, system_us integer not null, minor_faults integer not null,
    major_faults integer not null, read_bytes integer, max_rss_bytes integer not null
);
create index ping_id on ping (id);
create table milestone (ping integer not null, name text not null, us integer not null, primary key (ping, name))
    without rowid;
create view pings as
select lower(hex(p.id)) as id, m.token as machine, s.app as app, s.version as version, s.day as day, s.state as state,
    s.ready as ready, p.wall_us as wall_us, p.user_us as user_us, p.system_us as system_us,
    p.minor_faults as minor_faults, p.major_faults as major_faults, p.read_bytes as read_bytes,
    p.max_rss_bytes as max_rss_bytes, s.cpus as cpus, s.memory as memory, s.disk as disk, s.kernel as kernel,
    s.distribution as distribution, s.preload as preload, s.packed as packed, s.ordered as ordered, s.archive as archive
from ping p cross join setup s on s.setup = p.setup left join machine m on m.machine = p.machine;
";

/// Opens a store to write to it, and makes it where there is none.
///
/// # Errors
/// It cannot be written; it is another kind of file, or in use by another import.
pub fn open(path: &Path) -> Result<Connection> {
    if path.metadata().is_ok_and(|about| about.len() > 0) {
        let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let store = store.map_err(|cause| failed("cannot write to the store", path, cause))?;
        check(&store, path)?;
        return tuned(store, path);
    }
    let mut store = Connection::open(path).map_err(|cause| {
        failed("cannot make the store", path, cause).hint("its directory must exist and be yours to write to")
    })?;
    let make = |store: &mut Connection| {
        let transaction = store.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()
    };
    make(&mut store).map_err(|cause| failed("cannot make the store", path, cause))?;
    tuned(store, path)
}

/// Opens a store to ask it.
///
/// # Errors
/// There is none; it is another kind of file.
pub fn read(path: &Path) -> Result<Connection> {
    let about = path.metadata().map_err(|cause| {
        let error = Error::on(Exit::of_unreadable(&cause), "cannot open the store", path).because(cause);
        error.hint("make one with `thaw fleet import DIR -o fleet.db`")
    })?;
    if about.is_dir() {
        let error = Error::on(Exit::Usage, "the engine sqlite reads a store, and this is a folder", path);
        return Err(error.hint("make a store of it with `thaw fleet import DIR -o fleet.db`, or use --engine spark"));
    }
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let store = store.map_err(|cause| failed("cannot open the store", path, cause))?;
    take_killed_back(&store, path)?;
    check(&store, path)?;
    tuned(store, path)
}

/// A killed import left SQLite's journal: the store is not what it was before, until somebody who may write opens it.
fn take_killed_back(store: &Connection, path: &Path) -> Result<()> {
    let asked = store.pragma_query_value(None, "application_id", |_| Ok(()));
    let is_left = |error: &rusqlite::ffi::Error| error.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK;
    if asked.is_err_and(|cause| cause.sqlite_error().is_some_and(is_left)) {
        let writer = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let done = writer.and_then(|writer| writer.pragma_query_value(None, "application_id", |_| Ok(())));
        done.map_err(|cause| {
            failed("an import was killed, and what it left in the store cannot be taken back:", path, cause)
                .hint("ask once as a user who may write to the store and its directory")
        })?;
    }
    Ok(())
}

fn check(store: &Connection, path: &Path) -> Result<()> {
    let number = |name: &str| {
        let value = store.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.map_err(|cause| failed("this is no store of a fleet:", path, cause))
    };
    if number("application_id")? != APPLICATION {
        let error = Error::on(Exit::Data, "this is no store of a fleet:", path);
        return Err(error.hint("make one with `thaw fleet import DIR -o fleet.db`"));
    }
    match number("user_version")? {
        VERSION => Ok(()),
        other => Err(Error::on(Exit::Data, format!("this store has version {other}, and {VERSION} is read:"), path)
            .hint("import the segments into a new one")),
    }
}

fn tuned(store: Connection, path: &Path) -> Result<Connection> {
    let tune = || {
        store.busy_timeout(Duration::from_secs(5))?;
        // In KiB: the index of the ids of ten million pings, so that a new one is looked up without the disk.
        store.pragma_update(None, "cache_size", -400_000)?;
        // What is deleted is overwritten: a machine that is forgotten is not in the file any more.
        store.pragma_update(None, "secure_delete", "on")
    };
    tune().map_err(|cause| failed("cannot use the store", path, cause))?;
    Ok(store)
}

/// KiB of pages in memory while rows are only appended, and ids are sorted by so many.
const CACHE_OF_MUCH: i64 = -64_000;

/// Takes the index of the ids away, for rows that are only appended until [`index_ids`].
///
/// # Errors
/// Those of SQLite.
pub fn forget_ids(store: &Connection) -> rusqlite::Result<()> {
    store.pragma_update(None, "cache_size", CACHE_OF_MUCH)?;
    store.execute_batch("drop index ping_id")
}

/// Makes the index of the ids. Of pings with the same one the first stays; returns how many went.
///
/// # Errors
/// Those of SQLite.
pub fn index_ids(store: &Connection) -> rusqlite::Result<u64> {
    store.execute_batch("create index ping_id on ping (id); create temp table twice (ping integer primary key)")?;
    let mut twice = store.prepare("insert into temp.twice values (?1)")?;
    // The index has them in this order.
    let mut query = store.prepare("select id, ping from ping order by id, ping")?;
    let (mut rows, mut before) = (query.query([])?, None);
    while let Some(row) = rows.next()? {
        let id: [u8; 16] = row.get(0)?;
        if before == Some(id) {
            twice.execute([row.get::<_, i64>(1)?])?;
        }
        before = Some(id);
    }
    drop(rows);
    store.execute("delete from milestone where ping in (select ping from temp.twice)", [])?;
    let gone = store.execute("delete from ping where ping in (select ping from temp.twice)", [])?;
    store.execute_batch("drop table temp.twice")?;
    Ok(gone as u64)
}

/// The greatest numbers that a store has given: of pings, machines and setups.
#[derive(Clone, Copy, Debug)]
pub struct Last([i64; 3]);

/// Those of now.
///
/// # Errors
/// Those of SQLite.
pub fn last(store: &Connection) -> rusqlite::Result<Last> {
    let query = "select coalesce((select max(ping) from ping), 0), coalesce((select max(machine) from machine), 0), \
                 coalesce((select max(setup) from setup), 0)";
    store.query_row(query, [], |row| Ok(Last([row.get(0)?, row.get(1)?, row.get(2)?])))
}

/// Takes out all that was entered after those. A savepoint would do it too, with a copy of each page before a change.
///
/// # Errors
/// Those of SQLite.
pub fn take_back(store: &Connection, last: Last) -> rusqlite::Result<()> {
    let [ping, machine, setup] = last.0;
    store.execute("delete from milestone where ping > ?1", [ping])?;
    store.execute("delete from ping where ping > ?1", [ping])?;
    store.execute("delete from machine where machine > ?1", [machine])?;
    store.execute("delete from setup where setup > ?1", [setup]).map(drop)
}

/// An error of SQLite on a store.
pub fn failed(what: &str, path: &Path, cause: rusqlite::Error) -> Error {
    let exit = match cause.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => Exit::Data,
        _ => Exit::Machine,
    };
    Error::on(exit, what, path).because(cause)
}
