//! The functions of `include/thaw_session.h`, which says what each does. None unwinds into its caller.
#![expect(clippy::missing_safety_doc, reason = "the header says what callers owe: pointers are NULL or valid")]

use crate::error::Error;
use crate::item::Payload;
use crate::session::{Options, Session};
use crate::shared::Event;
use crate::tree::{Edit, New, Place};
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thaw_cglue::{EMPTY, INVALID, NULL, OK, guard, object, put, slice};

const PANIC: c_int = -8;

/// `thaw_session_text`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    bytes: *const c_char,
    length: usize,
}

const NO_TEXT: Text = Text { bytes: ptr::null(), length: 0 };

/// `thaw_session_item`.
#[repr(C)]
pub struct CItem {
    title: Text,
    origin: Text,
    payload: Text,
    parent: u64,
    changed_ms: u64,
    kind: u32,
    flags: u32,
    on_disk: u32,
    reserved: u32,
    owner: *mut c_void,
}

/// `thaw_session_event`.
#[repr(C)]
pub struct CEvent {
    kind: u32,
    failed: u32,
    id: u64,
    number: u64,
    text: Text,
    owner: *mut c_void,
}

/// `thaw_session_health`.
#[repr(C)]
pub struct CHealth {
    durable_ms: u64,
    unsaved_since_ms: u64,
    failing_since_ms: u64,
    all: [u64; 3],
    hour: [u64; 3],
}

/// `thaw_session`.
pub struct CSession {
    session: Session,
}

/// What an item's texts point to.
struct Texts(Arc<str>, Arc<str>, Arc<[u8]>);

fn code(error: Error) -> c_int {
    match error {
        Error::TooLong(..) | Error::Version(_) => INVALID,
        Error::NoItem(_) => -3,
        Error::Circle(..) => -4,
        Error::NotReady => -5,
        Error::System(_) => -6,
        Error::NotSaved(_) => -7,
    }
}

fn text(bytes: &[u8]) -> Text {
    Text { bytes: bytes.as_ptr().cast(), length: bytes.len() }
}

impl Text {
    /// # Safety
    /// It is of the caller's, who keeps it meanwhile.
    unsafe fn bytes<'a>(self) -> Result<&'a [u8], c_int> {
        // SAFETY: the caller has so many bytes there.
        unsafe { slice(self.bytes.cast(), self.length) }
    }

    /// # Safety
    /// As with [`Text::bytes`].
    unsafe fn str<'a>(self) -> Result<&'a str, c_int> {
        // SAFETY: as above.
        std::str::from_utf8(unsafe { self.bytes() }?).map_err(|_| INVALID)
    }
}

fn place(place: u32, after: u64) -> Result<Place, c_int> {
    match place {
        0 => Ok(Place::Last),
        1 => Ok(Place::First),
        2 => Ok(Place::After(after)),
        _ => Err(INVALID),
    }
}

#[unsafe(no_mangle)]
/// `thaw_session_open`.
pub unsafe extern "C" fn thaw_session_open(
    directory: Text,
    version: Text,
    delay_ms: u32,
    session: *mut *mut CSession,
) -> c_int {
    guard(PANIC, || {
        // SAFETY: texts of the caller's; NULL or room for a pointer.
        let (path, version) = unsafe { (directory.bytes()?, version.str()?) };
        if session.is_null() {
            return Err(NULL);
        }
        if path.is_empty() || path.contains(&0) {
            return Err(INVALID);
        }
        let delay = Duration::from_millis(if delay_ms == 0 { 1000 } else { delay_ms.into() });
        let options = Options { version: version.into(), delay };
        let opened = Session::open(Path::new(OsStr::from_bytes(path)), &options).map_err(code)?;
        let opened = Box::new(CSession { session: opened });
        // SAFETY: as above.
        unsafe { put(session, Box::into_raw(opened)) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_close`.
pub unsafe extern "C" fn thaw_session_close(session: *mut CSession, clean: c_int) -> c_int {
    guard(PANIC, || {
        if session.is_null() {
            return Err(NULL);
        }
        // SAFETY: it is from `thaw_session_open`, and the caller gives it back.
        let session = unsafe { Box::from_raw(session) };
        session.session.close(clean != 0).map_err(code)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_fd`.
pub unsafe extern "C" fn thaw_session_fd(session: *const CSession) -> c_int {
    // SAFETY: NULL or a session.
    guard(PANIC, || Ok(unsafe { object(session) }?.session.as_fd().as_raw_fd()))
}

/// What an event says: kind, failed, id, number, text.
type Told = (u32, bool, u64, u64, Vec<u8>);

fn told(event: Event) -> Told {
    let result = |done: Result<Arc<[u8]>, String>| match done {
        Ok(bytes) => (false, bytes.to_vec()),
        Err(why) => (true, why.into_bytes()),
    };
    match event {
        Event::Ready { from, count } => (1, false, 0, count.into(), from.unwrap_or_default().into_bytes()),
        Event::More(ids) => (2, false, 0, ids.len() as u64, Vec::new()),
        Event::Loaded(missing) => (3, false, 0, missing.bytes, Vec::new()),
        Event::Payload(id, bytes) => {
            let (failed, bytes) = result(bytes);
            (4, failed, id, 0, bytes)
        }
        Event::Done(ticket, done) => {
            let (failed, why) = result(done.map(|()| Vec::new().into()));
            (5, failed, ticket, 0, why)
        }
        Event::Failing(why) => (6, false, 0, 0, why.into_bytes()),
        Event::Resumed => (7, false, 0, 0, Vec::new()),
        Event::Refused(why) => (8, false, 0, 0, why.into_bytes()),
    }
}

#[unsafe(no_mangle)]
/// `thaw_session_next`.
pub unsafe extern "C" fn thaw_session_next(session: *mut CSession, event: *mut CEvent) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        let session = unsafe { object(session) }?;
        if event.is_null() {
            return Err(NULL);
        }
        let Some(first) = session.session.next_event() else { return Ok(EMPTY) };
        let (kind, failed, id, number, bytes) = told(first);
        let bytes = Box::new(bytes);
        let text = text(&bytes);
        let owner = Box::into_raw(bytes).cast();
        // SAFETY: not NULL, and the caller has room there.
        unsafe { put(event, CEvent { kind, failed: failed.into(), id, number, text, owner }) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_event_free`.
pub unsafe extern "C" fn thaw_session_event_free(event: *mut CEvent) {
    guard(PANIC, || {
        // SAFETY: NULL or an event that this library filled, or one of zeros.
        let Some(event) = (unsafe { event.as_mut() }) else { return Ok(OK) };
        let owner = std::mem::replace(&mut event.owner, ptr::null_mut());
        event.text = NO_TEXT;
        if !owner.is_null() {
            // SAFETY: it is from `thaw_session_next`, and nobody has it any more.
            drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
/// `thaw_session_insert`.
pub unsafe extern "C" fn thaw_session_insert(
    session: *mut CSession,
    item: *const CItem,
    at: u32,
    after: u64,
    id: *mut u64,
) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL, or the caller's.
        let (session, item) = unsafe { (object(session)?, object(item)?) };
        if id.is_null() {
            return Err(NULL);
        }
        // SAFETY: texts of the caller's.
        let (title, origin, payload) = unsafe { (item.title.str()?, item.origin.str()?, item.payload.bytes()?) };
        let kind = u8::try_from(item.kind).map_err(|_| INVALID)?;
        let new = New { kind, flags: item.flags, title, origin, payload };
        let made = session.session.insert(item.parent, place(at, after)?, &new).map_err(code)?;
        // SAFETY: not NULL, and the caller has room there.
        unsafe { put(id, made) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_change`.
pub unsafe extern "C" fn thaw_session_change(
    session: *mut CSession,
    id: u64,
    item: *const CItem,
    fields: u32,
) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL, or the caller's.
        let (session, item) = unsafe { (object(session)?, object(item)?) };
        if fields > 15 {
            return Err(INVALID);
        }
        let has = |field: u32| fields & field != 0;
        // SAFETY: texts of the caller's; those that do not count are not looked at.
        let edit = unsafe {
            Edit {
                title: has(1).then(|| item.title.str()).transpose()?,
                flags: has(2).then_some(item.flags),
                origin: has(4).then(|| item.origin.str()).transpose()?,
                payload: has(8).then(|| item.payload.bytes()).transpose()?,
            }
        };
        let changed = session.session.change(id, &edit).map_err(code)?;
        Ok(if changed { OK } else { EMPTY })
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_move`.
pub unsafe extern "C" fn thaw_session_move(session: *mut CSession, id: u64, parent: u64, at: u32, after: u64) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        let session = unsafe { object(session) }?;
        session.session.move_to(id, parent, place(at, after)?).map_err(code)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_remove`.
pub unsafe extern "C" fn thaw_session_remove(session: *mut CSession, id: u64) -> c_int {
    // SAFETY: NULL or a session.
    guard(PANIC, || unsafe { object(session) }?.session.remove(id).map(|_| OK).map_err(code))
}

#[unsafe(no_mangle)]
/// `thaw_session_get`.
pub unsafe extern "C" fn thaw_session_get(session: *const CSession, id: u64, item: *mut CItem) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        let session = unsafe { object(session) }?;
        if item.is_null() {
            return Err(NULL);
        }
        let found = session.session.get(id).ok_or_else(|| code(Error::NoItem(id)))?;
        let on_disk = u32::from(matches!(found.payload, Payload::There(_)));
        let payload = if let Payload::Here(bytes) = found.payload { bytes } else { Vec::new().into() };
        let texts = Box::new(Texts(found.title, found.origin, payload));
        let told = CItem {
            title: text(texts.0.as_bytes()),
            origin: text(texts.1.as_bytes()),
            payload: text(&texts.2),
            parent: found.parent,
            changed_ms: found.changed_ms,
            kind: found.kind.into(),
            flags: found.flags,
            on_disk,
            reserved: 0,
            owner: Box::into_raw(texts).cast(),
        };
        // SAFETY: not NULL, and the caller has room there.
        unsafe { put(item, told) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_item_free`.
pub unsafe extern "C" fn thaw_session_item_free(item: *mut CItem) {
    guard(PANIC, || {
        // SAFETY: NULL or an item that this library filled, or one of zeros.
        let Some(item) = (unsafe { item.as_mut() }) else { return Ok(OK) };
        let owner = std::mem::replace(&mut item.owner, ptr::null_mut());
        (item.title, item.origin, item.payload) = (NO_TEXT, NO_TEXT, NO_TEXT);
        if !owner.is_null() {
            // SAFETY: it is from `thaw_session_get`, and nobody has it any more.
            drop(unsafe { Box::from_raw(owner.cast::<Texts>()) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
/// `thaw_session_children`.
pub unsafe extern "C" fn thaw_session_children(
    session: *const CSession,
    parent: u64,
    ids: *mut u64,
    room: usize,
    count: *mut usize,
) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        let session = unsafe { object(session) }?;
        if ids.is_null() && room > 0 {
            return Err(NULL);
        }
        let all = session.session.children(parent);
        // SAFETY: NULL or room for a number.
        unsafe { put(count, all.len()) }?;
        for (at, id) in all.iter().take(room).enumerate() {
            // SAFETY: not NULL, and the caller has room for so many.
            unsafe { ids.add(at).write(*id) };
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_want`.
pub unsafe extern "C" fn thaw_session_want(session: *mut CSession, id: u64, urgent: c_int) -> c_int {
    // SAFETY: NULL or a session.
    guard(PANIC, || unsafe { object(session) }?.session.want(id, urgent != 0).map(|()| OK).map_err(code))
}

/// # Safety
/// Both are NULL, or the caller's.
unsafe fn ticket(session: *mut CSession, ticket: *mut u64, ask: impl FnOnce(&Session) -> Result<u64, c_int>) -> c_int {
    guard(PANIC, || {
        // SAFETY: as above.
        let session = unsafe { object(session) }?;
        if ticket.is_null() {
            return Err(NULL);
        }
        let told = ask(&session.session)?;
        // SAFETY: not NULL, and the caller has room there.
        unsafe { put(ticket, told) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_flush`.
pub unsafe extern "C" fn thaw_session_flush(session: *mut CSession, to: *mut u64) -> c_int {
    // SAFETY: NULL, or the caller's.
    unsafe { ticket(session, to, |session| Ok(session.flush())) }
}

#[unsafe(no_mangle)]
/// `thaw_session_forget`.
pub unsafe extern "C" fn thaw_session_forget(session: *mut CSession, origin: Text, to: *mut u64) -> c_int {
    // SAFETY: NULL, or the caller's.
    unsafe { ticket(session, to, |session| Ok(session.forget(origin.str()?))) }
}

#[unsafe(no_mangle)]
/// `thaw_session_forget_since`.
pub unsafe extern "C" fn thaw_session_forget_since(session: *mut CSession, since_ms: u64, to: *mut u64) -> c_int {
    // SAFETY: NULL, or the caller's.
    unsafe { ticket(session, to, |session| Ok(session.forget_since(since_ms))) }
}

#[unsafe(no_mangle)]
/// `thaw_session_on_battery`.
pub unsafe extern "C" fn thaw_session_on_battery(session: *mut CSession, battery: c_int) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        unsafe { object(session) }?.session.on_battery(battery != 0);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
/// `thaw_session_last_durable`.
pub unsafe extern "C" fn thaw_session_last_durable(session: *const CSession, to: *mut CHealth) -> c_int {
    guard(PANIC, || {
        // SAFETY: NULL or a session.
        let session = &unsafe { object(session) }?.session;
        let (health, (all, hour)) = (session.last_durable(), session.counts());
        let ms = |at: Option<SystemTime>| {
            at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_millis() as u64)
        };
        let told = CHealth {
            durable_ms: ms(health.durable),
            unsaved_since_ms: ms(health.unsaved_since),
            failing_since_ms: ms(health.failing_since),
            all: [all.written, all.writes, all.syncs],
            hour: [hour.written, hour.writes, hour.syncs],
        };
        // SAFETY: NULL or room for it.
        unsafe { put(to, told) }?;
        Ok(OK)
    })
}
