//! The areas that pages use, and who is told of their changes. The changes of one area come one after another, and
//! every page hears of them in that order; what a page asks for and what it hears next leaves nothing out in between.

use crate::wire::{Change, quoted, quoted_or_null, quoted_str};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_log::book;
use thaw_log::disk::{Disk, Folder};
use thaw_webstorage::place::Place;
use thaw_webstorage::{Area, Error, News, Options, Storage, Text, Urgency, record};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Messages that a page may be behind; one that is further behind asks anew, and gets all keys.
const BEHIND: usize = 1024;
/// Pages whose last change is known, so that one that is sent twice is made once; the oldest is forgotten.
const PAGES: usize = 4096;
/// Areas that are used at once.
const AREAS: usize = 1000;

/// Why changes were not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Changes before them did not come; the last that did.
    Gap(u64),
    /// No area, or none that can be read.
    Area(Error),
    /// Too many areas are used.
    Areas,
}

/// All areas.
pub struct Room {
    storage: Storage,
    folder: Option<PathBuf>,
    quota: u64,
    shelves: Mutex<BTreeMap<(String, String), Arc<Shelf>>>,
}

/// An area, and the pages that use it.
struct Shelf {
    area: Area,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: Vec<(String, Sender<Bytes>)>,
    /// Numbers of the last changes.
    last: HashMap<String, u64>,
    /// Whose they are, the oldest first.
    order: VecDeque<String>,
}

impl State {
    /// Tells all pages; one that is too far behind is let go, and asks anew.
    fn tell(&mut self, message: impl Fn(&str) -> Option<String>) {
        self.pages.retain(|(page, to)| match message(page) {
            None => true,
            Some(text) => to.try_send(Bytes::from(format!("data: {text}\n\n"))).is_ok(),
        });
    }

    fn done(&mut self, page: &str, number: u64) {
        if self.last.insert(page.into(), number).is_none() {
            self.order.push_back(page.into());
            if self.order.len() > PAGES
                && let Some(oldest) = self.order.pop_front()
            {
                self.last.remove(&oldest);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn units(text: Option<Text>) -> Option<Vec<u16>> {
    text.map(|text| text.to_units())
}

impl Room {
    /// With the areas of this directory; without one, in memory.
    ///
    /// # Errors
    /// The process has too many threads or descriptors.
    pub fn open(folder: Option<&Path>, options: Options) -> Result<Arc<Room>, Error> {
        let quota = options.quota;
        let storage = match folder {
            Some(folder) => Storage::open(folder, options)?,
            None => Storage::private(options)?,
        };
        let folder = folder.map(Path::to_owned);
        Ok(Arc::new(Room { storage, folder, quota, shelves: Mutex::default() }))
    }

    /// The area, read if need be: it waits for the disk.
    fn shelf(&self, partition: &str, origin: &str) -> Result<Arc<Shelf>, Refused> {
        let area = self.storage.area(partition, origin, Urgency::Urgent).map_err(Refused::Area)?;
        area.wait().map_err(Refused::Area)?;
        let mut shelves = locked(&self.shelves);
        let name = (partition.to_owned(), origin.to_owned());
        if shelves.len() >= AREAS && !shelves.contains_key(&name) {
            return Err(Refused::Areas);
        }
        Ok(Arc::clone(shelves.entry(name).or_insert_with(|| Arc::new(Shelf { area, state: Mutex::default() }))))
    }

    /// All keys, then every change. It waits for the disk.
    ///
    /// # Errors
    /// As [`Refused`] says.
    pub fn listen(&self, partition: &str, origin: &str, page: &str) -> Result<Receiver<Bytes>, Refused> {
        let shelf = self.shelf(partition, origin)?;
        let (to, from) = channel(BEHIND);
        let mut state = locked(&shelf.state);
        let first = self.all(&shelf.area, state.last.get(page).copied().unwrap_or(0)).map_err(Refused::Area)?;
        // An empty channel has room for one.
        let _ = to.try_send(Bytes::from(format!("data: {first}\n\n")));
        state.pages.retain(|(_, to)| !to.is_closed());
        state.pages.push((page.into(), to));
        Ok(from)
    }

    fn all(&self, area: &Area, last: u64) -> Result<String, Error> {
        let mut pairs = Vec::new();
        for at in 0..area.len()? {
            let Some(key) = area.key(at)?.map(|key| key.to_units()) else { continue };
            // Another process may have taken it away since.
            let Some(value) = area.get(&key)? else { continue };
            pairs.push(format!("[{},{}]", quoted(&key), quoted(&value.to_units())));
        }
        let quota = self.quota;
        Ok(format!(r#"{{"say":"all","last":{last},"quota":{quota},"pairs":[{}]}}"#, pairs.join(",")))
    }

    /// Makes changes of a page, the first of them with this number; those that were made before are left out. It waits
    /// for the disk if the area is not in memory. Returns the number of the last.
    ///
    /// # Errors
    /// As [`Refused`] says; then none was made.
    pub fn change(
        &self,
        (partition, origin): (&str, &str),
        (page, url): (&str, &str),
        first: u64,
        changes: Vec<Change>,
    ) -> Result<u64, Refused> {
        let shelf = self.shelf(partition, origin)?;
        let mut state = locked(&shelf.state);
        let last = state.last.get(page).copied().unwrap_or(0);
        if first > last + 1 {
            return Err(Refused::Gap(last));
        }
        let mut number = last;
        for (at, change) in (first..).zip(changes) {
            if at > last {
                make(&shelf.area, &mut state, page, url, at, &change).map_err(Refused::Area)?;
                number = at;
                state.done(page, number);
            }
        }
        state.tell(|other| (other == page).then(|| format!(r#"{{"say":"made","last":{number}}}"#)));
        Ok(number)
    }

    /// Waits until all that was changed is on the medium. `false`: the storage is closed.
    pub fn flush(&self) -> bool {
        self.storage.flush_and_wait()
    }

    /// Which areas there are, as JSON: those that are used with what is in them, the others with the size of their
    /// file. It waits for the disk.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn areas(&self) -> io::Result<String> {
        let mut all = BTreeMap::new();
        if let Some(folder) = &self.folder {
            let disk = Folder::new(folder);
            let files = match disk.list() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                files => files?,
            };
            for (name, bytes) in files.into_iter().filter(|(name, _)| name.ends_with(".web")) {
                let head = book::head(&disk, &name)?.filter(|head| head.kind == record::KIND);
                if let Some(place) = head.and_then(|head| Place::of_label(&head.label)).filter(|place| !place.table) {
                    all.insert((place.partition, place.origin), (Some(bytes), None));
                }
            }
        }
        for (name, shelf) in &*locked(&self.shelves) {
            let held = shelf.area.len().ok().zip(shelf.area.used().ok());
            all.entry(name.clone()).or_insert((None, None)).1 = held;
        }
        let number = |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
        let rows = all.into_iter().map(|((partition, origin), (file, held))| {
            format!(
                r#"{{"partition":{},"origin":{},"file_bytes":{},"keys":{},"used":{}}}"#,
                quoted_str(&partition),
                quoted_str(&origin),
                number(file),
                number(held.map(|(keys, _)| keys as u64)),
                number(held.map(|(_, used)| used)),
            )
        });
        let folder = self.folder.as_ref().map_or("null".into(), |folder| quoted_str(&folder.to_string_lossy()));
        let rows: Vec<String> = rows.collect();
        Ok(format!(r#"{{"directory":{folder},"quota":{},"areas":[{}]}}"#, self.quota, rows.join(",")))
    }

    /// Tells pages what other processes changed and how the disk is, for as long as the process lives.
    ///
    /// # Errors
    /// The descriptor cannot be waited for.
    pub async fn pass_news_on(self: Arc<Self>) -> io::Result<()> {
        let bell = self.storage.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is ours, has one number all its life, and is open until `bell` goes.
        let bell = unsafe { AsyncFd::register(bell) }?;
        loop {
            bell.readable().await?.clear_ready();
            self.storage.news().into_iter().for_each(|news| self.pass_on(news));
        }
    }

    fn pass_on(&self, news: News) {
        let (place, message) = match news {
            News::Loaded(_) | News::Flushed(_) => return,
            News::Changed { place, key, old, new } => return self.pass_change_on(&place, &key, old, new),
            News::Missed(place) => return self.begin_anew(&place),
            News::Unreadable(place, why) => (place, format!("cannot be read, and is tried again: {why}")),
            News::Damaged(place, aside) => (place, format!("a part could not be read and is kept as {aside}")),
            News::Trouble(place, why) => (place, format!("cannot be written, and is tried again: {why}")),
            News::Recovered(place) => (place, String::new()),
        };
        let message = format!(r#"{{"say":"trouble","why":{}}}"#, quoted_str(&message));
        if let Some(shelf) = self.used(&place) {
            locked(&shelf.state).tell(|_| Some(message.clone()));
        }
    }

    /// A page may have changed the key since: what it has now is told beside.
    fn pass_change_on(&self, place: &Place, key: &Text, old: Option<Text>, new: Option<Text>) {
        let Some(shelf) = self.used(place) else { return };
        let mut state = locked(&shelf.state);
        let key = key.to_units();
        let Ok(now) = shelf.area.get(&key) else { return };
        let message = told("", &key, units(old), units(new), units(now).as_deref());
        state.tell(|_| Some(message.clone()));
    }

    /// Pages are let go: they ask anew, and get all keys.
    fn begin_anew(&self, place: &Place) {
        if let Some(shelf) = self.used(place) {
            locked(&shelf.state).pages.clear();
        }
    }

    fn used(&self, place: &Place) -> Option<Arc<Shelf>> {
        locked(&self.shelves).get(&(place.partition.clone(), place.origin.clone())).cloned()
    }

    /// Ends what pages hear.
    pub fn hang_up(&self) {
        locked(&self.shelves).values().for_each(|shelf| locked(&shelf.state).pages.clear());
    }

    /// Writes and syncs what is to be written: it waits for the disk.
    ///
    /// # Errors
    /// What could not be written.
    pub fn close(&self) -> Result<(), thaw_webstorage::Unsaved> {
        self.storage.close()
    }
}

/// A change, as pages are told it. `now`: what the key has.
fn told(url: &str, key: &[u16], old: Option<Vec<u16>>, new: Option<Vec<u16>>, now: Option<&[u16]>) -> String {
    format!(
        r#"{{"say":"changed","url":{},"key":{},"old":{},"new":{},"now":{}}}"#,
        quoted_str(url),
        quoted(key),
        quoted_or_null(old.as_deref()),
        quoted_or_null(new.as_deref()),
        quoted_or_null(now)
    )
}

/// Makes one change, and tells the other pages; the page itself only where there was no room.
fn make(area: &Area, state: &mut State, page: &str, url: &str, number: u64, change: &Change) -> Result<(), Error> {
    let message = match change {
        Change::Set(key, value) => {
            let old = units(area.get(key)?);
            match area.set(key, value) {
                Ok(()) => {}
                Err(error @ (Error::Quota { .. } | Error::TooLong(_))) => {
                    let (key, now) = (quoted(key), quoted_or_null(old.as_deref()));
                    let why = quoted_str(&error.to_string());
                    let message =
                        format!(r#"{{"say":"refused","number":{number},"key":{key},"now":{now},"why":{why}}}"#);
                    state.tell(|other| (other == page).then(|| message.clone()));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            if old.as_deref() == Some(value) {
                return Ok(());
            }
            told(url, key, old, Some(value.clone()), Some(value))
        }
        Change::Remove(key) => {
            let Some(old) = units(area.get(key)?) else { return Ok(()) };
            area.remove(key)?;
            told(url, key, Some(old), None, None)
        }
        Change::Clear => {
            if area.is_empty()? {
                return Ok(());
            }
            area.clear()?;
            format!(r#"{{"say":"cleared","url":{}}}"#, quoted_str(url))
        }
    };
    state.tell(|other| (other != page).then(|| message.clone()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (&str, &str) = ("", "https://a.example");

    fn text(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn set(key: &str, value: &str) -> Change {
        Change::Set(text(key), text(value))
    }

    fn heard(from: &mut Receiver<Bytes>) -> Vec<serde_json::Value> {
        std::iter::from_fn(|| from.try_recv().ok())
            .map(|bytes| serde_json::from_slice(bytes.strip_prefix(b"data: ").unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn what_comes_twice_is_made_once_and_what_is_missing_is_asked_for() {
        let room = Room::open(None, Options::default()).unwrap();
        let page = ("one", "http://one/");
        assert_eq!(room.change(PLACE, page, 1, vec![set("a", "1"), set("a", "2")]), Ok(2));
        assert_eq!(room.change(PLACE, ("two", ""), 1, vec![set("a", "3")]), Ok(1));
        assert_eq!(room.change(PLACE, page, 1, vec![set("a", "1"), set("a", "2"), set("b", "4")]), Ok(3));
        assert_eq!(room.change(PLACE, page, 5, vec![Change::Clear]), Err(Refused::Gap(3)));
        let all = heard(&mut room.listen(PLACE.0, PLACE.1, "one").unwrap());
        assert_eq!(all[0]["pairs"], serde_json::json!([["a", "3"], ["b", "4"]]));
        assert_eq!(all[0]["last"], 3);
    }

    #[test]
    fn changes_are_told_to_others_and_what_changes_nothing_to_nobody() {
        let room = Room::open(None, Options::default()).unwrap();
        let mut one = room.listen(PLACE.0, PLACE.1, "one").unwrap();
        let mut two = room.listen(PLACE.0, PLACE.1, "two").unwrap();
        let mut elsewhere = room.listen("", "https://b.example", "three").unwrap();
        for page in [&mut one, &mut two, &mut elsewhere] {
            assert_eq!(heard(page)[0]["say"], "all");
        }
        let changes =
            vec![set("a", "1"), set("a", "1"), Change::Remove(text("b")), Change::Clear, Change::Clear, set("a", "2")];
        room.change(PLACE, ("one", "http://one/"), 1, changes).unwrap();
        assert_eq!(heard(&mut one), [serde_json::json!({"say": "made", "last": 6})]);
        let said = heard(&mut two);
        let says: Vec<_> = said.iter().map(|message| message["say"].as_str().unwrap()).collect();
        assert_eq!(says, ["changed", "cleared", "changed"]);
        assert_eq!(
            (&said[0]["url"], &said[0]["old"], &said[0]["new"]),
            (&"http://one/".into(), &().into(), &"1".into())
        );
        assert!(heard(&mut elsewhere).is_empty());
    }

    #[test]
    fn who_finds_no_room_is_told_what_the_key_has() {
        let room = Room::open(None, Options { quota: 10, ..Options::default() }).unwrap();
        let mut one = room.listen(PLACE.0, PLACE.1, "one").unwrap();
        let mut two = room.listen(PLACE.0, PLACE.1, "two").unwrap();
        room.change(PLACE, ("one", ""), 1, vec![set("a", "1"), set("a", "12345"), set("b", "2")]).unwrap();
        let said = heard(&mut one);
        assert_eq!((&said[1]["say"], &said[1]["now"], &said[1]["number"]), (&"refused".into(), &"1".into(), &2.into()));
        assert_eq!(said[2]["last"], 3);
        assert_eq!(heard(&mut two).len(), 3, "all keys, and two changes");
    }

    #[test]
    fn pages_ask_anew_where_changes_were_missed() {
        let room = Room::open(None, Options::default()).unwrap();
        let mut page = room.listen(PLACE.0, PLACE.1, "one").unwrap();
        let mut elsewhere = room.listen("", "https://b.example", "two").unwrap();
        let place = Place { table: false, partition: PLACE.0.into(), origin: PLACE.1.into() };
        room.pass_on(News::Missed(Arc::new(place)));
        assert_eq!((heard(&mut page).len(), heard(&mut elsewhere).len()), (1, 1));
        assert!(page.is_closed() && !elsewhere.is_closed());
    }

    #[test]
    fn a_page_that_does_not_listen_is_let_go() {
        let room = Room::open(None, Options::default()).unwrap();
        let mut slow = room.listen(PLACE.0, PLACE.1, "slow").unwrap();
        let changes = (0..2 * BEHIND).map(|number| set("a", &number.to_string())).collect();
        room.change(PLACE, ("one", ""), 1, changes).unwrap();
        assert_eq!(heard(&mut slow).len(), BEHIND);
        assert_eq!(slow.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected));
    }
}
