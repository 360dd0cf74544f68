//! The functions of `include/thaw_webstorage.h`, which says what each does. None unwinds into its caller.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use storage::place::Place;
use storage::{Area, Error, News, Options, Storage, Table, Text, Urgency};
use thaw_cglue::{Done, EMPTY, INVALID, NULL, OK, guard, object, put, slice};

const SHORT: c_int = 2;
const NOT_LOADED: c_int = -3;
const UNREADABLE: c_int = -4;
const QUOTA: c_int = -5;
const LONG: c_int = -6;
const CLOSED: c_int = -7;
const SYSTEM: c_int = -8;
const UNSAVED: c_int = -9;
const KIND: c_int = -10;
const SIZE: c_int = -11;
const PANIC: c_int = -12;

/// `thaw_webstorage_options`.
#[repr(C)]
pub struct COptions {
    size: usize,
    directory: *const c_char,
    write_ms: u64,
    sync_ms: u64,
    quota: u64,
    table_quota: u64,
    memory: u64,
    changes: u64,
    change_bytes: u64,
}

/// `thaw_webstorage_stats`.
#[repr(C)]
pub struct CStats {
    size: usize,
    areas: u64,
    bytes: u64,
    syncs: u64,
    batches: u64,
    written: u64,
    rewritten: u64,
    loaded: u64,
    unloaded: u64,
    changes: u64,
    change_bytes: u64,
}

/// `thaw_webstorage`.
pub struct CStorage {
    storage: Storage,
}

/// `thaw_area`: a table too.
pub enum CArea {
    /// Of text.
    Area(Area),
    /// Of bytes.
    Table(Table),
}

/// `thaw_webstorage_event`, with what its pointers lead to.
pub struct CEvent {
    kind: c_int,
    ticket: u64,
    partition: String,
    origin: String,
    text: String,
    table: bool,
    /// Key, old, new.
    parts: [Option<(Text, Vec<u16>)>; 3],
}

fn code(error: Error) -> c_int {
    match error {
        Error::NotLoaded(_) => NOT_LOADED,
        Error::Unreadable(..) => UNREADABLE,
        Error::Quota { .. } => QUOTA,
        Error::TooLong(_) => LONG,
        Error::Closed(_) => CLOSED,
        Error::NoOrigin(_) => INVALID,
        Error::System(_) => SYSTEM,
    }
}

/// # Safety
/// NULL, or a text that ends with NUL.
unsafe fn text<'a>(from: *const c_char) -> Result<&'a str, c_int> {
    if from.is_null() {
        return Err(NULL);
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| INVALID)
}

/// # Safety
/// As with [`text`]; NULL is empty.
unsafe fn partition<'a>(from: *const c_char) -> Result<&'a str, c_int> {
    // SAFETY: as above.
    if from.is_null() { Ok("") } else { unsafe { text(from) } }
}

/// # Safety
/// A place for so many of them (NULL for none), and one for the length.
unsafe fn copy<T: Copy>(from: &[T], to: *mut T, room: usize, length: *mut usize) -> Done {
    if to.is_null() && room > 0 {
        return Err(NULL);
    }
    // SAFETY: as above.
    unsafe { put(length, from.len()) }?;
    let some = from.len().min(room);
    if some > 0 {
        // SAFETY: the caller has room for that, and it is no memory of ours.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, some) };
    }
    Ok(if some < from.len() { SHORT } else { OK })
}

/// The units of a text, straight into the caller's memory.
///
/// # Safety
/// As with [`copy`].
unsafe fn copy_units(from: &Text, to: *mut u16, room: usize, length: *mut usize) -> Done {
    if to.is_null() && room > 0 {
        return Err(NULL);
    }
    // SAFETY: as above.
    unsafe { put(length, from.len()) }?;
    // SAFETY: there is room for each of the first `room`.
    from.each(room, |at, unit| unsafe { to.add(at).write(unit) });
    Ok(if room < from.len() { SHORT } else { OK })
}

impl CArea {
    fn area(&self) -> Result<&Area, c_int> {
        if let CArea::Area(area) = self { Ok(area) } else { Err(KIND) }
    }

    fn table(&self) -> Result<&Table, c_int> {
        if let CArea::Table(table) = self { Ok(table) } else { Err(KIND) }
    }
}

impl CEvent {
    fn new(news: News) -> CEvent {
        let part = |text: Text| (text.clone(), text.to_units());
        let (kind, place, text, parts) = match news {
            News::Loaded(place) => (1, Some(place), String::new(), [None, None, None]),
            News::Unreadable(place, why) => (2, Some(place), why, [None, None, None]),
            News::Changed { place, key, old, new } => {
                (3, Some(place), String::new(), [Some(part(key)), old.map(part), new.map(part)])
            }
            News::Flushed(ticket) => return CEvent { ticket, ..CEvent::of(4, None, String::new()) },
            News::Damaged(place, aside) => (5, Some(place), aside, [None, None, None]),
            News::Trouble(place, why) => (6, Some(place), why, [None, None, None]),
            News::Missed(place) => (8, Some(place), String::new(), [None, None, None]),
            News::Recovered(place) => (7, Some(place), String::new(), [None, None, None]),
        };
        CEvent { parts, ..CEvent::of(kind, place.as_deref(), text) }
    }

    fn of(kind: c_int, place: Option<&Place>, text: String) -> CEvent {
        let (partition, origin) =
            place.map(|place| (place.partition.clone(), place.origin.clone())).unwrap_or_default();
        let table = place.is_some_and(|place| place.table);
        CEvent { kind, ticket: 0, partition, origin, text, table, parts: [None, None, None] }
    }

    fn part(&self, part: c_int) -> Result<&(Text, Vec<u16>), c_int> {
        let part = self.parts.get(usize::try_from(part).map_err(|_| INVALID)?).ok_or(INVALID)?;
        part.as_ref().ok_or(EMPTY)
    }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) $body:block)*) => {$(
        /// As the header says.
        ///
        /// # Safety
        /// Pointers are NULL or as the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the caller has read the header.
            guard(PANIC, || unsafe { $body })
        }
    )*};
}

functions! {
    thaw_webstorage_open(options: *const COptions, storage: *mut *mut CStorage) {
        if options.is_null() || storage.is_null() {
            return Err(NULL);
        }
        // It may be shorter than ours.
        if options.cast::<usize>().read_unaligned() != size_of::<COptions>() {
            return Err(SIZE);
        }
        let options = options.read_unaligned();
        let mut own = Options::default();
        let or = |given: u64, own: u64| if given == 0 { own } else { given };
        own.write = Duration::from_millis(or(options.write_ms, own.write.as_millis() as u64));
        own.sync = Duration::from_millis(or(options.sync_ms, own.sync.as_millis() as u64));
        own.quota = or(options.quota, own.quota);
        own.table_quota = or(options.table_quota, own.table_quota);
        own.memory = or(options.memory, own.memory);
        own.changes = usize::try_from(or(options.changes, own.changes as u64)).map_err(|_| INVALID)?;
        own.change_bytes = or(options.change_bytes, own.change_bytes);
        let longest = Duration::from_secs(24 * 3600);
        if own.write > longest || own.sync > longest {
            return Err(INVALID);
        }
        let opened = if options.directory.is_null() {
            Storage::private(own)
        } else {
            let path = Path::new(OsStr::from_bytes(CStr::from_ptr(options.directory).to_bytes()));
            Storage::open(path, own)
        };
        let opened = CStorage { storage: opened.map_err(code)? };
        put(storage, Box::into_raw(Box::new(opened)))?;
        Ok(OK)
    }

    thaw_webstorage_close(storage: *mut CStorage) {
        object(storage)?;
        let storage = Box::from_raw(storage);
        storage.storage.close().map_or(Err(UNSAVED), |()| Ok(OK))
    }

    thaw_webstorage_fd(storage: *const CStorage) {
        Ok(object(storage)?.storage.as_fd().as_raw_fd())
    }

    thaw_webstorage_next(storage: *mut CStorage, event: *mut *mut CEvent) {
        let storage = object(storage)?;
        if event.is_null() {
            return Err(NULL);
        }
        let Some(next) = storage.storage.next_news() else { return Ok(EMPTY) };
        put(event, Box::into_raw(Box::new(CEvent::new(next))))?;
        Ok(OK)
    }

    thaw_webstorage_event_free(event: *mut CEvent) {
        if !event.is_null() {
            drop(Box::from_raw(event));
        }
        Ok(OK)
    }

    thaw_webstorage_event_kind(event: *const CEvent, ticket: *mut u64) {
        let event = object(event)?;
        if !ticket.is_null() {
            put(ticket, event.ticket)?;
        }
        Ok(event.kind)
    }

    thaw_webstorage_event_text(
        event: *const CEvent, origin: *mut *const c_char, origin_length: *mut usize, partition: *mut *const c_char,
        partition_length: *mut usize, text: *mut *const c_char, text_length: *mut usize
    ) {
        let event = object(event)?;
        for (what, to, length) in [
            (&event.origin, origin, origin_length),
            (&event.partition, partition, partition_length),
            (&event.text, text, text_length),
        ] {
            if !to.is_null() {
                put(to, what.as_ptr().cast())?;
            }
            if !length.is_null() {
                put(length, what.len())?;
            }
        }
        Ok(OK)
    }

    thaw_webstorage_event_units(event: *const CEvent, part: c_int, units: *mut *const u16, length: *mut usize) {
        let event = object(event)?;
        if units.is_null() || length.is_null() {
            return Err(NULL);
        }
        let (_, of) = event.part(part)?;
        if event.table {
            return Err(KIND);
        }
        put(units, of.as_ptr())?;
        put(length, of.len())?;
        Ok(OK)
    }

    thaw_webstorage_event_bytes(event: *const CEvent, part: c_int, bytes: *mut *const u8, length: *mut usize) {
        let event = object(event)?;
        if bytes.is_null() || length.is_null() {
            return Err(NULL);
        }
        let (of, _) = event.part(part)?;
        if !event.table {
            return Err(KIND);
        }
        put(bytes, of.bytes().as_ptr())?;
        put(length, of.bytes().len())?;
        Ok(OK)
    }

    thaw_webstorage_flush(storage: *mut CStorage, ticket: *mut u64) {
        let storage = object(storage)?;
        if ticket.is_null() {
            return Err(NULL);
        }
        put(ticket, storage.storage.flush())?;
        Ok(OK)
    }

    thaw_webstorage_get_stats(storage: *const CStorage, stats: *mut CStats) {
        let storage = object(storage)?;
        if stats.is_null() {
            return Err(NULL);
        }
        if stats.cast::<usize>().read_unaligned() != size_of::<CStats>() {
            return Err(SIZE);
        }
        let had = storage.storage.stats();
        stats.write_unaligned(CStats {
            size: size_of::<CStats>(),
            areas: had.areas,
            bytes: had.bytes,
            syncs: had.syncs,
            batches: had.batches,
            written: had.written,
            rewritten: had.rewritten,
            loaded: had.loaded,
            unloaded: had.unloaded,
            changes: had.changes,
            change_bytes: had.change_bytes,
        });
        Ok(OK)
    }

    thaw_webstorage_area(
        storage: *mut CStorage, of: *const c_char, origin: *const c_char, urgent: c_int, area: *mut *mut CArea
    ) {
        let storage = object(storage)?;
        if area.is_null() {
            return Err(NULL);
        }
        let urgency = if urgent == 0 { Urgency::Ahead } else { Urgency::Urgent };
        let had = storage.storage.area(partition(of)?, text(origin)?, urgency).map_err(code)?;
        put(area, Box::into_raw(Box::new(CArea::Area(had))))?;
        Ok(OK)
    }

    thaw_webstorage_table(
        storage: *mut CStorage, of: *const c_char, name: *const c_char, urgent: c_int, table: *mut *mut CArea
    ) {
        let storage = object(storage)?;
        if table.is_null() {
            return Err(NULL);
        }
        let urgency = if urgent == 0 { Urgency::Ahead } else { Urgency::Urgent };
        let had = storage.storage.table(partition(of)?, text(name)?, urgency).map_err(code)?;
        put(table, Box::into_raw(Box::new(CArea::Table(had))))?;
        Ok(OK)
    }

    thaw_area_session(of: *const c_char, origin: *const c_char, quota: u64, area: *mut *mut CArea) {
        if area.is_null() {
            return Err(NULL);
        }
        let quota = if quota == 0 { Options::default().quota } else { quota };
        let had = Area::session(partition(of)?, text(origin)?, quota).map_err(code)?;
        put(area, Box::into_raw(Box::new(CArea::Area(had))))?;
        Ok(OK)
    }

    thaw_area_copy(area: *const CArea, copy: *mut *mut CArea) {
        let area = object(area)?;
        if copy.is_null() {
            return Err(NULL);
        }
        let had = area.area()?.copied().map_err(code)?;
        put(copy, Box::into_raw(Box::new(CArea::Area(had))))?;
        Ok(OK)
    }

    thaw_area_free(area: *mut CArea) {
        if !area.is_null() {
            drop(Box::from_raw(area));
        }
        Ok(OK)
    }

    thaw_area_loaded(area: *const CArea) {
        let loaded = match object(area)? {
            CArea::Area(area) => area.is_loaded(),
            CArea::Table(table) => table.is_loaded(),
        };
        Ok(if loaded { OK } else { EMPTY })
    }

    thaw_area_wait(area: *const CArea) {
        match object(area)? {
            CArea::Area(area) => area.wait(),
            CArea::Table(table) => table.wait(),
        }.map_err(code)?;
        Ok(OK)
    }

    thaw_area_count(area: *const CArea, count: *mut usize) {
        let had = match object(area)? {
            CArea::Area(area) => area.len(),
            CArea::Table(table) => table.len(),
        };
        put(count, had.map_err(code)?)?;
        Ok(OK)
    }

    thaw_area_used(area: *const CArea, bytes: *mut u64) {
        let had = match object(area)? {
            CArea::Area(area) => area.used(),
            CArea::Table(table) => table.used(),
        };
        put(bytes, had.map_err(code)?)?;
        Ok(OK)
    }

    thaw_area_clear(area: *const CArea) {
        match object(area)? {
            CArea::Area(area) => area.clear(),
            CArea::Table(table) => table.clear(),
        }.map_err(code)?;
        Ok(OK)
    }

    thaw_area_get(
        area: *const CArea, key: *const u16, key_length: usize, to: *mut u16, room: usize, length: *mut usize
    ) {
        let value = object(area)?.area()?.get(slice(key, key_length)?).map_err(code)?.ok_or(EMPTY)?;
        copy_units(&value, to, room, length)
    }

    thaw_area_key(area: *const CArea, at: usize, to: *mut u16, room: usize, length: *mut usize) {
        let key = object(area)?.area()?.key(at).map_err(code)?.ok_or(EMPTY)?;
        copy_units(&key, to, room, length)
    }

    thaw_area_set(
        area: *const CArea, key: *const u16, key_length: usize, value: *const u16, value_length: usize
    ) {
        object(area)?.area()?.set(slice(key, key_length)?, slice(value, value_length)?).map_err(code)?;
        Ok(OK)
    }

    thaw_area_remove(area: *const CArea, key: *const u16, key_length: usize) {
        object(area)?.area()?.remove(slice(key, key_length)?).map_err(code)?;
        Ok(OK)
    }

    thaw_table_get(
        table: *const CArea, key: *const u8, key_length: usize, to: *mut u8, room: usize, length: *mut usize
    ) {
        let value = object(table)?.table()?.get(slice(key, key_length)?).map_err(code)?.ok_or(EMPTY)?;
        copy(&value, to, room, length)
    }

    thaw_table_key(table: *const CArea, at: usize, to: *mut u8, room: usize, length: *mut usize) {
        let key = object(table)?.table()?.key(at).map_err(code)?.ok_or(EMPTY)?;
        copy(&key, to, room, length)
    }

    thaw_table_set(
        table: *const CArea, key: *const u8, key_length: usize, value: *const u8, value_length: usize
    ) {
        object(table)?.table()?.set(slice(key, key_length)?, slice(value, value_length)?).map_err(code)?;
        Ok(OK)
    }

    thaw_table_remove(table: *const CArea, key: *const u8, key_length: usize) {
        object(table)?.table()?.remove(slice(key, key_length)?).map_err(code)?;
        Ok(OK)
    }
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn thaw_webstorage_explain(code: c_int) -> *const c_char {
    let words = match code {
        OK => c"it was done",
        EMPTY => c"there is none",
        SHORT => c"there is more than there was room for",
        NULL => c"a pointer is NULL that must not be",
        INVALID => c"no origin, partition, name or number for this",
        NOT_LOADED => c"the area is not loaded yet",
        UNREADABLE => c"the area cannot be read",
        QUOTA => c"the area is full",
        LONG => c"a key or value is longer than 64 MiB",
        CLOSED => c"the storage is closed",
        SYSTEM => c"the process has no descriptor or thread left",
        UNSAVED => c"not all could be written",
        KIND => c"an area is no table, and a table no area",
        SIZE => c"the size of a struct is of no version of it",
        PANIC => c"a defect of the library",
        _ => c"no code of this library",
    };
    words.as_ptr()
}
