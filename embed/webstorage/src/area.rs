//! Areas and tables, as programs use them: memory alone.

use crate::cell::{Cell, Stage};
use crate::error::Error;
use crate::handle::Handle;
use crate::map::Map;
use crate::place::Place;
use crate::text::{self, Text};
use std::sync::Arc;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The storage of one origin. Cloned, it is the same one.
#[derive(Clone)]
pub struct Area(pub(crate) Handle);

impl Area {
    /// Session storage: in memory, of this area and its clones alone, within so many bytes (two for each unit).
    ///
    /// # Errors
    /// It is no origin.
    pub fn session(partition: &str, origin: &str, quota: u64) -> Result<Area, Error> {
        let place = Place::area(partition, origin).ok_or_else(|| Error::NoOrigin(format!("{partition} {origin}")))?;
        Ok(Area(Handle { cell: Arc::new(Cell::new(Arc::new(place), 0, quota, true)), owner: None }))
    }

    /// A session storage with the same content, as a child context gets: what changes in one is not seen in the other.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn copied(&self) -> Result<Area, Error> {
        let state = self.0.cell.ready()?;
        let cell = Cell::new(self.0.cell.place.clone(), 0, self.0.cell.quota, true);
        let mut map = Map::default();
        state.map.iter().for_each(|(key, value)| drop(map.set(key, value.clone())));
        cell.fill(map);
        Ok(Area(Handle { cell: Arc::new(cell), owner: None }))
    }

    /// Whose it is.
    pub fn place(&self) -> &Place {
        &self.0.cell.place
    }

    /// It can be used.
    pub fn is_loaded(&self) -> bool {
        self.0.cell.lock().stage == Stage::Ready
    }

    /// Waits until it can be used, and has it read before others.
    ///
    /// # Errors
    /// It cannot be read; the storage is closed.
    pub fn wait(&self) -> Result<(), Error> {
        self.0.wait()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn get(&self, key: &[u16]) -> Result<Option<Text>, Error> {
        text::with_scratch(|one, _| {
            text::encode(key, one);
            self.0.get(one)
        })
    }

    /// Gives a key a value. A key that is there keeps its place in the order, a new one is the last.
    ///
    /// # Errors
    /// It is not loaded, the quota (then the old value stays), a length.
    pub fn set(&self, key: &[u16], value: &[u16]) -> Result<(), Error> {
        let tell = text::with_scratch(|one, two| {
            text::encode(key, one);
            text::encode(value, two);
            self.0.cell.set(one, two)
        })?;
        self.0.tell(tell);
        Ok(())
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn remove(&self, key: &[u16]) -> Result<(), Error> {
        let tell = text::with_scratch(|one, _| {
            text::encode(key, one);
            self.0.cell.remove(one)
        })?;
        self.0.tell(tell);
        Ok(())
    }

    /// The key at a place in the order of insertion.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn key(&self, at: usize) -> Result<Option<Text>, Error> {
        self.0.key(at)
    }

    /// How many keys there are.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn len(&self) -> Result<usize, Error> {
        Ok(self.0.cell.ready()?.map.len())
    }

    /// There are none.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn clear(&self) -> Result<(), Error> {
        self.0.clear()
    }

    /// Bytes that are used of the quota.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn used(&self) -> Result<u64, Error> {
        Ok(self.0.cell.ready()?.used)
    }
}

/// A small store of keys and values that are bytes: settings, tokens. Cloned, it is the same one.
#[derive(Clone)]
pub struct Table(pub(crate) Handle);

impl Table {
    /// It can be used.
    pub fn is_loaded(&self) -> bool {
        self.0.cell.lock().stage == Stage::Ready
    }

    /// Waits until it can be used, and has it read before others.
    ///
    /// # Errors
    /// It cannot be read; the storage is closed.
    pub fn wait(&self) -> Result<(), Error> {
        self.0.wait()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        text::with_scratch(|one, _| {
            text::encode_bytes(key, one);
            Ok(self.0.get(one)?.map(|value| value.bytes().to_vec()))
        })
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// It is not loaded, the quota (then the old value stays), a length.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let tell = text::with_scratch(|one, two| {
            text::encode_bytes(key, one);
            text::encode_bytes(value, two);
            self.0.cell.set(one, two)
        })?;
        self.0.tell(tell);
        Ok(())
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn remove(&self, key: &[u8]) -> Result<(), Error> {
        let tell = text::with_scratch(|one, _| {
            text::encode_bytes(key, one);
            self.0.cell.remove(one)
        })?;
        self.0.tell(tell);
        Ok(())
    }

    /// The key at a place in the order of insertion.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn key(&self, at: usize) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.key(at)?.map(|key| key.bytes().to_vec()))
    }

    /// How many keys there are.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn len(&self) -> Result<usize, Error> {
        Ok(self.0.cell.ready()?.map.len())
    }

    /// There are none.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn clear(&self) -> Result<(), Error> {
        self.0.clear()
    }

    /// Bytes that are used of the quota.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn used(&self) -> Result<u64, Error> {
        Ok(self.0.cell.ready()?.used)
    }

    /// All keys and values in order, as they are now.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn all(&self) -> Result<Vec<Pair>, Error> {
        let all: Vec<(Text, Text)> =
            self.0.cell.ready()?.map.iter().map(|(key, value)| (Text(key.clone()), Text(value.clone()))).collect();
        Ok(all.iter().map(|(key, value)| (key.bytes().to_vec(), value.bytes().to_vec())).collect())
    }
}
