//! An area and its file: reading, appending, what other processes did, writing anew. Only the I/O thread comes here,
//! and no lock that a caller takes is held while the disk works.

use crate::cell::{Cell, State};
use crate::feed::News;
use crate::map::{Bytes, Map};
use crate::pending::Pending;
use crate::place::Place;
use crate::record::{self, Change, KIND};
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thaw_log::book::{self, Book, Loaded};
use thaw_log::frame::Head;

/// Files that one name is looked for in.
const MOST_FILES: usize = 16;
/// The longest record; a batch that is longer becomes several.
const MOST_RECORD: usize = 160 << 20;
/// About how long the records of a snapshot are.
const SNAPSHOT: usize = 1 << 20;
/// Changes that are made to an area at once.
const AT_ONCE: usize = 128;
/// A log is never compacted below this length.
const SMALL: u64 = 64 << 10;

/// What a write has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There was nothing to write.
    Nothing,
    /// The kernel has it.
    Kernel,
    /// It is on the medium, with all before it.
    Medium,
}

/// An area with its file.
pub struct Sheet {
    /// The area.
    pub cell: Arc<Cell>,
    /// The file's name.
    pub name: String,
    book: Book,
    generation: u64,
    /// What was taken from the area and is not in the file.
    pub inflight: Pending,
    /// The file has to be written anew.
    pub rewrite: bool,
    /// The file was taken away, perhaps with its directory.
    pub gone: bool,
    /// It holds what another process has written and perhaps not synced: that process may be dead.
    pub of_others: bool,
    /// It holds what was appended here and not synced.
    appended: bool,
    /// When to append.
    pub write_at: Option<Instant>,
    /// When to sync.
    pub sync_at: Option<Instant>,
    /// How long to wait after the next failure.
    pub wait: Duration,
    /// The program knows that it does not work.
    pub troubled: bool,
    /// Flushes that wait for the next append and sync.
    pub flushing: Vec<u64>,
    /// Flushes that wait for a sync.
    pub to_sync: Vec<u64>,
    /// Since when nobody holds it: a number that only grows.
    pub loose: Option<u64>,
}

struct File {
    name: String,
    book: Book,
    generation: u64,
    map: Map<Bytes>,
    rewrite: bool,
    /// Somebody has written it, and it can be written here.
    of_others: bool,
}

/// Finds and reads the file of a place.
fn find(shared: &Shared, place: &Arc<Place>) -> io::Result<File> {
    let disk = &*shared.disk;
    // Without a turn (a read-only directory) the file is read as it is.
    let turn = disk.turn();
    let label = place.label();
    for number in 0..MOST_FILES {
        let name = place.file(number);
        let Some((book, loaded)) = Book::load(disk, &name, turn.is_ok())? else {
            let (book, map) = (Book::new(&name), Map::default());
            return Ok(File { name, book, generation: 0, map, rewrite: false, of_others: false });
        };
        if loaded.head.as_ref().is_some_and(|head| head.kind != KIND || head.label != label) {
            disk.forget(&name);
            continue;
        }
        if let Some(aside) = &loaded.aside {
            shared.feed.ring([News::Damaged(place.clone(), aside.clone())]);
        }
        let (map, right) = replay(&loaded, place.table);
        if !right && turn.is_ok() {
            set_aside(shared, place, &name, &loaded)?;
        }
        let generation = loaded.head.as_ref().map_or(0, |head| head.generation);
        return Ok(File { name, book, generation, map, rewrite: !right, of_others: turn.is_ok() });
    }
    Err(io::Error::other(format!("{MOST_FILES} files of its name are of others")))
}

/// What the records of a whole file come to, up to the first that says nothing: `false`, there is one.
fn replay(loaded: &Loaded, table: bool) -> (Map<Bytes>, bool) {
    let mut map = Map::default();
    for content in loaded.contents() {
        let Some(changes) = record::parse(content, table) else { return (map, false) };
        changes.into_iter().for_each(|change| record::apply(&mut map, change));
    }
    (map, true)
}

/// Keeps bytes in which there is a record that says nothing to this version.
fn set_aside(shared: &Shared, place: &Arc<Place>, name: &str, loaded: &Loaded) -> io::Result<()> {
    let aside = book::set_aside(&*shared.disk, name, &loaded.bytes)?;
    shared.feed.ring([News::Damaged(place.clone(), aside)]);
    Ok(())
}

impl Sheet {
    /// Reads an area; its content is returned.
    ///
    /// # Errors
    /// The disk.
    pub fn load(shared: &Shared, cell: Arc<Cell>) -> io::Result<(Sheet, Map<Bytes>)> {
        let File { name, book, generation, map, rewrite, of_others } = find(shared, &cell.place)?;
        let sheet = Sheet {
            cell,
            name,
            book,
            generation,
            inflight: Pending::default(),
            rewrite,
            gone: false,
            of_others,
            appended: false,
            write_at: None,
            sync_at: None,
            wait: Duration::ZERO,
            troubled: false,
            flushing: Vec::new(),
            to_sync: Vec::new(),
            loose: None,
        };
        Ok((sheet, map))
    }

    /// Nothing of it has to be written or synced.
    pub fn is_clean(&self) -> bool {
        self.inflight.is_empty()
            && !self.rewrite
            && self.write_at.is_none()
            && self.sync_at.is_none()
            && self.cell.lock().pending.is_empty()
    }

    /// Its log is more than twice as long as what it comes to, and longer than a little.
    pub fn is_long(&self) -> bool {
        let live = self.cell.lock().live;
        self.book.len().saturating_sub(live) > SMALL.max(2 * live)
    }

    /// Says how much was taken from the area and is not in the file.
    fn note(&self) {
        #[cfg(feature = "memreport")]
        self.cell.taken.store(self.inflight.bytes(), std::sync::atomic::Ordering::Relaxed);
    }

    /// Takes the changes out of the area that is locked: whoever counts them under that lock finds them here or there.
    fn pull(&self, state: &mut State) -> Pending {
        state.told = false;
        #[cfg(feature = "memreport")]
        self.cell.taken.fetch_add(state.pending.bytes(), std::sync::atomic::Ordering::Relaxed);
        std::mem::take(&mut state.pending)
    }

    /// Takes the changes of the area.
    pub fn take(&mut self) {
        let pending = self.pull(&mut self.cell.lock());
        self.inflight.merge(pending);
        self.note();
    }

    /// Puts what has changed into the file.
    ///
    /// # Errors
    /// The disk; what has changed waits here.
    pub fn write(&mut self, shared: &Shared) -> io::Result<Written> {
        self.take();
        let _turn = shared.disk.turn()?;
        self.others(shared)?;
        if self.inflight.is_empty() && !self.rewrite {
            return Ok(Written::Nothing);
        }
        if self.rewrite || !self.book.is_sound() {
            self.write_anew(shared)?;
            return Ok(Written::Medium);
        }
        let records = self.inflight.records(MOST_RECORD);
        let contents: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
        let bytes = self.book.append(&*shared.disk, &contents)?;
        shared.count(|counts| &counts.written, bytes);
        shared.count(|counts| &counts.batches, 1);
        (self.inflight, self.appended) = (Pending::default(), true);
        self.note();
        Ok(Written::Kernel)
    }

    /// Writes all that is in memory. The one place where a caller may have to wait for more than a little: all keys are
    /// noted at once, so that no batch is torn. It comes with a file's first change, and after a failure.
    fn write_anew(&mut self, shared: &Shared) -> io::Result<()> {
        let (pending, all) = {
            let mut state = self.cell.lock();
            let all: Vec<(Bytes, Bytes)> = state.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            (self.pull(&mut state), all)
        };
        self.inflight.merge(pending);
        self.note();
        self.replace(shared, record::snapshot(all.iter().map(|(key, value)| (key, value)), SNAPSHOT))?;
        shared.count(|counts| &counts.batches, 1);
        (self.inflight, self.rewrite) = (Pending::default(), false);
        self.note();
        Ok(())
    }

    fn replace(&mut self, shared: &Shared, records: Vec<Vec<u8>>) -> io::Result<()> {
        let contents: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
        let label = self.cell.place.label();
        let head = Head { kind: KIND, generation: self.generation + 1, made_ms: 0, salt: 0, label };
        let bytes = self.book.replace(&*shared.disk, head, &contents)?;
        self.generation += 1;
        (self.of_others, self.appended) = (false, false);
        shared.count(|counts| &counts.written, bytes);
        shared.count(|counts| &counts.syncs, 1);
        shared.count(|counts| &counts.rewritten, 1);
        Ok(())
    }

    /// Returns when all that was appended is on the medium, by other processes too: one that was killed may have put
    /// the file in its place, and not synced its name.
    ///
    /// # Errors
    /// The disk: the file has to be written anew.
    pub fn sync(&mut self, shared: &Shared) -> io::Result<()> {
        shared.count(|counts| &counts.syncs, 1);
        let names = || if self.of_others { shared.disk.sync_names() } else { Ok(()) };
        match self.book.sync(&*shared.disk).and_then(|()| names()) {
            // Somebody has taken the file away, and nothing of it was ours.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.appended => {}
            Err(error) => {
                self.rewrite = true;
                return Err(error);
            }
            Ok(()) => {}
        }
        (self.of_others, self.appended) = (false, false);
        Ok(())
    }

    /// Writes the file anew from what is in it: shorter.
    ///
    /// # Errors
    /// The disk: the old one is there.
    pub fn compact(&mut self, shared: &Shared) -> io::Result<()> {
        let _turn = shared.disk.turn()?;
        self.others(shared)?;
        if self.rewrite || !self.book.is_sound() || !self.is_long() {
            return Ok(());
        }
        let Some((_, loaded)) = Book::load(&*shared.disk, &self.name, false)? else { return Ok(()) };
        let (map, right) = replay(&loaded, self.cell.place.table);
        if !right || loaded.found.len as u64 != self.book.len() {
            return Err(io::Error::other(format!("{} has become unreadable", self.name)));
        }
        self.replace(shared, record::snapshot(map.iter(), SNAPSHOT))
    }

    /// Takes over what other processes have put into the file.
    ///
    /// # Errors
    /// The disk.
    pub fn others(&mut self, shared: &Shared) -> io::Result<()> {
        let had = !self.book.is_empty();
        while let Some(loaded) = self.book.others(&*shared.disk)? {
            let place = self.cell.place.clone();
            self.of_others = true;
            let mut changed = Vec::new();
            let right = match &loaded.head {
                Some(head) if head.kind != KIND || head.label != place.label() => {
                    self.move_on(shared)?;
                    continue;
                }
                Some(head) => {
                    self.generation = head.generation;
                    let (map, right) = replay(&loaded, place.table);
                    self.compare(&map, &mut changed);
                    right
                }
                None => loaded.contents().all(|content| match record::parse(content, place.table) {
                    Some(changes) => {
                        self.take_over(&changes, &mut changed);
                        true
                    }
                    None => false,
                }),
            };
            shared.feed.tell(&place, changed);
            if !right {
                set_aside(shared, &place, &self.name, &loaded)?;
                self.rewrite = true;
            }
        }
        self.gone |= had && self.book.is_empty();
        Ok(())
    }

    /// Another place's file has come to bear our name.
    fn move_on(&mut self, shared: &Shared) -> io::Result<()> {
        let file = find(shared, &self.cell.place)?;
        (self.name, self.book, self.generation, self.rewrite) = (file.name, file.book, file.generation, true);
        Ok(())
    }

    fn take_over(&mut self, changes: &[Change<'_>], changed: &mut Vec<crate::cell::Changed>) {
        for some in changes.chunks(AT_ONCE) {
            let mut state = self.cell.lock();
            some.iter().for_each(|change| state.take_over(&mut self.inflight, *change, changed));
            state.settle(&self.inflight);
        }
    }

    /// The file was written anew by another process: what of it is new here becomes changes.
    fn compare(&mut self, map: &Map<Bytes>, changed: &mut Vec<crate::cell::Changed>) {
        let held: Vec<Bytes> = {
            let state = self.cell.lock();
            let pending = state.pending.ops.iter().chain(self.inflight.ops.iter()).map(|(key, _)| key);
            state.map.iter().map(|(key, _)| key).chain(pending).filter(|key| !map.contains(key)).cloned().collect()
        };
        let gone: Vec<Change<'_>> = held.iter().map(|key| Change::Remove(key)).collect();
        self.take_over(&gone, changed);
        let there: Vec<Change<'_>> = map.iter().map(|(key, value)| Change::Set(key, value)).collect();
        self.take_over(&there, changed);
        // Keys that were removed and came back in between have other places.
        let mut state = self.cell.lock();
        let of_others = |key: &&Bytes| !state.is_own(&self.inflight, key);
        let here = state.map.iter().map(|(key, _)| key).filter(of_others);
        if !here.eq(map.iter().map(|(key, _)| key).filter(of_others)) {
            map.iter().for_each(|(key, _)| state.map.move_to_end(key));
            state.settle(&self.inflight);
        }
    }
}
