//! Web storage beside the stores that others take for it: sets and gets of 100 bytes under 1,000 keys on one thread, and
//! the longest set.
//!
//! `webstorage-peers rates FOLDER SECONDS [KEYS ROUNDS]`: SECONDS of sets and of gets for each store in turns; 1,000 keys
//! and five rounds unless said.
//! `webstorage-peers first FOLDER`: the first access of 2 MB in thaw, loaded and cold.
//! `webstorage-peers kill FOLDER ROUNDS`: what thaw has lost when it is killed while it sets a key each 100 ms.

mod leveldb;
mod thaw;

use leveldb::LevelDb;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: usize = 1000;
const VALUE: usize = 100;
const ROUNDS: usize = 5;

type Anything<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A store of values by key.
trait Kv {
    /// Sets a value as a call of the program would: what the store promises of it then is in its name.
    fn set(&mut self, key: usize, value: &[u8]) -> Anything;
    /// Reads a value, and says how long it is.
    fn get(&mut self, key: usize) -> Anything<usize>;
}

fn key(number: usize) -> String {
    format!("key number {number}")
}

struct Sqlite(rusqlite::Connection, Vec<String>);

impl Sqlite {
    fn open(path: &Path, sync: &str) -> Anything<Box<dyn Kv>> {
        let base = rusqlite::Connection::open(path)?;
        base.pragma_update(None, "journal_mode", "WAL")?;
        base.pragma_update(None, "synchronous", sync)?;
        base.execute_batch("CREATE TABLE data (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")?;
        Ok(Box::new(Sqlite(base, (0..KEYS).map(key).collect())))
    }
}

impl Kv for Sqlite {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        let mut insert = self.0.prepare_cached("INSERT OR REPLACE INTO data VALUES (?1, ?2)")?;
        insert.execute((&self.1[key], value))?;
        Ok(())
    }
    fn get(&mut self, key: usize) -> Anything<usize> {
        let mut select = self.0.prepare_cached("SELECT value FROM data WHERE key = ?1")?;
        Ok(select
            .query_row([&self.1[key]], |row| row.get_ref(0).map(|value| value.as_blob().map_or(0, <[u8]>::len)))?)
    }
}

struct Redb(redb::Database, redb::Durability, Vec<String>);
const TABLE: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("data");

impl Kv for Redb {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        let mut write = self.0.begin_write()?;
        write.set_durability(self.1)?;
        write.open_table(TABLE)?.insert(&self.2[key][..], value)?;
        Ok(write.commit()?)
    }
    fn get(&mut self, key: usize) -> Anything<usize> {
        use redb::ReadableDatabase;
        let table = self.0.begin_read()?.open_table(TABLE)?;
        Ok(table.get(&self.2[key][..])?.ok_or("a key is gone")?.value().len())
    }
}

struct Lmdb(heed::Env, heed::Database<heed::types::Str, heed::types::Bytes>, Vec<String>);

impl Lmdb {
    fn open(path: &Path, flags: heed::EnvFlags) -> Anything<Box<dyn Kv>> {
        std::fs::create_dir(path)?;
        // SAFETY: nobody else has these files.
        let env = unsafe { heed::EnvOpenOptions::new().map_size(64 << 20).flags(flags).open(path)? };
        let mut write = env.write_txn()?;
        let base = env.create_database(&mut write, None)?;
        write.commit()?;
        Ok(Box::new(Lmdb(env, base, (0..KEYS).map(key).collect())))
    }
}

impl Kv for Lmdb {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        let mut write = self.0.write_txn()?;
        self.1.put(&mut write, &self.2[key], value)?;
        Ok(write.commit()?)
    }
    fn get(&mut self, key: usize) -> Anything<usize> {
        let read = self.0.read_txn()?;
        Ok(self.1.get(&read, &self.2[key])?.ok_or("a key is gone")?.len())
    }
}

struct Fjall {
    partition: fjall::PartitionHandle,
    /// Kept open.
    _keyspace: fjall::Keyspace,
    keys: Vec<String>,
}

impl Kv for Fjall {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        Ok(self.partition.insert(&self.keys[key], value)?)
    }
    fn get(&mut self, key: usize) -> Anything<usize> {
        Ok(self.partition.get(&self.keys[key])?.ok_or("a key is gone")?.len())
    }
}

struct Level(LevelDb, Vec<String>);

impl Kv for Level {
    fn set(&mut self, key: usize, value: &[u8]) -> Anything {
        self.0.set(self.1[key].as_bytes(), value);
        Ok(())
    }
    fn get(&mut self, key: usize) -> Anything<usize> {
        Ok(self.0.get(self.1[key].as_bytes()))
    }
}

/// The stores by name, in a folder of their own.
fn open(which: &str, folder: &Path) -> Anything<Box<dyn Kv>> {
    let (keys, path) = (|| (0..KEYS).map(key).collect(), folder.join("store"));
    Ok(match which {
        "thaw, written within 50 ms, synced within 1 s" => thaw::open(&path)?,
        "the same through C" => thaw::open_through_c(&path)?,
        "SQLite, WAL, NORMAL" => Sqlite::open(&path, "NORMAL")?,
        "SQLite, WAL, FULL" => Sqlite::open(&path, "FULL")?,
        "redb, Durability::None" => {
            Box::new(Redb(redb::Database::create(path)?, redb::Durability::None, keys())) as Box<dyn Kv>
        }
        "redb, Immediate" => Box::new(Redb(redb::Database::create(path)?, redb::Durability::Immediate, keys())),
        "LMDB, NOSYNC" => Lmdb::open(&path, heed::EnvFlags::NO_SYNC)?,
        "LMDB, synced" => Lmdb::open(&path, heed::EnvFlags::empty())?,
        "fjall" => {
            let keyspace = fjall::Config::new(path).open()?;
            let partition = keyspace.open_partition("data", fjall::PartitionCreateOptions::default())?;
            Box::new(Fjall { partition, _keyspace: keyspace, keys: keys() })
        }
        "LevelDB" => Box::new(Level(LevelDb::open(&path, false)?, keys())),
        "LevelDB, synced" => Box::new(Level(LevelDb::open(&path, true)?, keys())),
        other => return Err(other.into()),
    })
}

const ALL: [&str; 11] = [
    "thaw, written within 50 ms, synced within 1 s",
    "the same through C",
    "SQLite, WAL, NORMAL",
    "SQLite, WAL, FULL",
    "redb, Durability::None",
    "redb, Immediate",
    "LMDB, NOSYNC",
    "LMDB, synced",
    "fjall",
    "LevelDB",
    "LevelDB, synced",
];

#[derive(Default)]
struct Sums {
    sets: Vec<f64>,
    gets: Vec<f64>,
    worst: Vec<f64>,
    over: Vec<f64>,
}

fn rates(folder: &Path, seconds: Duration, keys: usize, rounds: usize) -> Anything {
    let mut all: BTreeMap<usize, Sums> = BTreeMap::new();
    for round in 0..rounds {
        for (at, which) in ALL.iter().enumerate() {
            let place = folder.join(format!("{round}-{at}"));
            std::fs::create_dir_all(&place)?;
            let mut store = open(which, &place)?;
            let mut value = [b'v'; VALUE];
            for key in 0..keys {
                store.set(key, &value)?;
            }
            let (mut sets, mut worst, mut over, since) = (0_usize, Duration::ZERO, 0_usize, Instant::now());
            let mut before = since;
            while before - since < seconds {
                value[..8].copy_from_slice(&(sets as u64).to_le_bytes());
                store.set(sets * 7 % keys, &value)?;
                let now = Instant::now();
                (worst, over) =
                    (worst.max(now - before), over + usize::from(now - before > Duration::from_micros(100)));
                (sets, before) = (sets + 1, now);
            }
            let set = sets as f64 / since.elapsed().as_secs_f64();
            let (mut gets, since) = (0_usize, Instant::now());
            while since.elapsed() < seconds {
                for _ in 0..100 {
                    if store.get(gets * 7 % keys)? != VALUE {
                        return Err("a value of another length".into());
                    }
                    gets += 1;
                }
            }
            let sums = all.entry(at).or_default();
            sums.gets.push(gets as f64 / since.elapsed().as_secs_f64());
            sums.sets.push(set);
            sums.worst.push(worst.as_secs_f64() * 1e3);
            sums.over.push(over as f64 * 1e6 / sets as f64);
        }
    }
    println!("one thread, {keys} keys, {VALUE} bytes; medians of {rounds} rounds of {seconds:?} (all)");
    println!("{:46} sets a second / gets a second / longest set in ms / sets over 0.1 ms in a million", "");
    for (at, sums) in all {
        let text = |values: &[f64], digits: usize| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let all = values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(" ");
            format!("{:.digits$} ({all})", sorted[sorted.len() / 2])
        };
        let (sets, gets, worst) = (text(&sums.sets, 0), text(&sums.gets, 0), text(&sums.worst, 3));
        println!("{}\n  set {sets}\n  get {gets}\n  longest {worst}\n  over {}", ALL[at], text(&sums.over, 1));
    }
    Ok(())
}

fn main() -> Anything {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rates", folder, seconds] => rates(Path::new(folder), Duration::from_secs_f64(seconds.parse()?), KEYS, ROUNDS),
        ["rates", folder, seconds, keys, rounds] => {
            let keys = keys.parse::<usize>()?.clamp(1, KEYS);
            rates(Path::new(folder), Duration::from_secs_f64(seconds.parse()?), keys, rounds.parse()?)
        }
        ["first", folder] => thaw::first(Path::new(folder)),
        ["kill", folder, rounds] => thaw::kill(Path::new(folder), rounds.parse()?),
        ["writes", folder] => thaw::writes(Path::new(folder)),
        _ => {
            Err("usage: webstorage-peers rates FOLDER SECONDS [KEYS ROUNDS] | first FOLDER | kill FOLDER ROUNDS".into())
        }
    }
}
