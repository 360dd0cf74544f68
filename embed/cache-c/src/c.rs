//! The functions of `include/thaw_cache.h`, which says what each does. None unwinds into its caller.

use crate::shelf::{Action, Event, Exchange, Misuse, Options, Shelf};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, request};
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thaw_cglue::{EMPTY, INVALID, NULL, OK, guard, object, put, slice};
use thaw_httpcache::Options as Rules;

const STATE: c_int = -3;
const CLOSED: c_int = -4;
const LARGE: c_int = -5;
const SYSTEM: c_int = -6;
const SIZE: c_int = -7;
const PANIC: c_int = -8;

const SHARED: u32 = 1;

/// No struct of any version is longer.
const MOST_STRUCT: usize = 4096;

/// Bytes of the caller's, or of an object of ours.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    bytes: *const c_char,
    length: usize,
}

/// A name and a value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Field {
    name: Text,
    value: Text,
}

/// A struct of the header: it begins with its size, and is sound with all its bytes 0.
///
/// # Safety
/// That has to be true, and the type has to be `repr(C)` without padding.
unsafe trait Versioned: Copy {}

macro_rules! versioned {
    ($(#[$about:meta] $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        #[$about]
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            size: usize,
            $($field: $type),*
        }

        // SAFETY: numbers and raw pointers alone; the assertion below is about padding.
        unsafe impl Versioned for $name {}

        const _: () = assert!(size_of::<$name>() == size_of::<usize>() $(+ size_of::<$type>())*);
    )*};
}

versioned! {
    /// `thaw_cache_options`.
    COptions {
        directory: Text, budget: u64, memory: u64, most_body: u64, name: Text, flags: u32, reserved: u32,
    }
    /// `thaw_cache_request`.
    CRequest { method: Text, url: Text, partition: Text, fields: *const Field, field_count: usize, tag: u64 }
    /// `thaw_cache_response`.
    CResponse { fields: *const Field, field_count: usize, sent_ms: i64, status: u32, reserved: u32 }
    /// `thaw_cache_message`.
    CMessage {
        method: Text, url: Text, fields: *const Field, field_count: usize, reason: Text, status: u32, refresh: u32,
    }
    /// `thaw_cache_event`.
    CEvent {
        tag: u64, data: Text, length: u64, kind: u32, action: i32, done: i32, reserved: u32, owner: *mut c_void,
    }
    /// `thaw_cache_stats`.
    CStats {
        entries: u64, disk: u64, memory: u64, served: u64, validated: u64, forwarded: u64, stored: u64, dropped: u64,
        evicted: u64, broken: u64, dead: u32, reserved: u32,
    }
}

/// `thaw_cache`.
pub struct CCache {
    shelf: Arc<Shelf>,
}

/// `thaw_exchange`.
pub struct CExchange {
    exchange: Exchange,
    told: Mutex<Option<Told>>,
}

/// What the last message points to.
struct Told {
    /// They live where they lie: behind the pointers of a map that is not touched any more.
    _headers: HeaderMap,
    _line: (String, String),
    fields: Vec<Field>,
}

// SAFETY: the pointers of `told` are into what is beside them, and only whoever calls reads them.
unsafe impl Send for CExchange {}

fn misuse(of: Misuse) -> c_int {
    match of {
        Misuse::State => STATE,
        Misuse::Closed => CLOSED,
        Misuse::TooLarge => LARGE,
    }
}

fn number(action: Action) -> c_int {
    match action {
        Action::Wait => 0,
        Action::Serve => 1,
        Action::Forward => 2,
        Action::Answer => 3,
        Action::Store => 4,
        Action::Pass => 5,
        Action::Fail => 6,
    }
}

/// The size that a struct says of itself.
///
/// # Safety
/// NULL, or a struct of the header that says its size.
unsafe fn size<T: Versioned>(from: *const T) -> Result<usize, c_int> {
    if from.is_null() {
        return Err(NULL);
    }
    // SAFETY: all structs begin with it.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if (size_of::<T>()..=MOST_STRUCT).contains(&size) { Ok(size) } else { Err(SIZE) }
}

/// Reads a struct. One of a newer header has to be 0 where this library knows nothing.
///
/// # Safety
/// As with [`size`].
unsafe fn read<T: Versioned>(from: *const T) -> Result<T, c_int> {
    // SAFETY: as above.
    let size = unsafe { size(from) }?;
    // SAFETY: the caller has so many bytes there.
    let all = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    if all[size_of::<T>()..].iter().any(|byte| *byte != 0) {
        return Err(SIZE);
    }
    // SAFETY: its bytes are all there, and any bytes are sound.
    Ok(unsafe { from.read_unaligned() })
}

/// Writes a struct, all but its size; behind what this library knows zeros.
///
/// # Safety
/// As with [`size`], and nobody else reads it meanwhile.
unsafe fn write<T: Versioned>(to: *mut T, value: &T) -> Result<(), c_int> {
    // SAFETY: as above.
    let size = unsafe { size(to.cast_const()) }?;
    let (head, to) = (size_of::<usize>(), to.cast::<u8>());
    // SAFETY: the caller has `size` bytes there, at least those of `T`; all of them are initialised, as `Versioned`
    // says.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>().add(head), to.add(head), size_of::<T>() - head);
        ptr::write_bytes(to.add(size_of::<T>()), 0, size - size_of::<T>());
    }
    Ok(())
}

impl Text {
    /// # Safety
    /// As many bytes as it says.
    unsafe fn get<'a>(self) -> Result<&'a [u8], c_int> {
        // SAFETY: as above.
        unsafe { slice(self.bytes.cast(), self.length) }
    }

    fn of(bytes: &[u8]) -> Text {
        Text { bytes: bytes.as_ptr().cast(), length: bytes.len() }
    }
}

/// # Safety
/// As many fields as it says, with as many bytes as they say.
unsafe fn fields(from: *const Field, count: usize) -> Result<HeaderMap, c_int> {
    if from.is_null() && count > 0 {
        return Err(NULL);
    }
    let mut fields = HeaderMap::new();
    for at in 0..count {
        // SAFETY: as above.
        let (name, value) = unsafe {
            let field = from.add(at).read_unaligned();
            (field.name.get()?, field.value.get()?)
        };
        let name = HeaderName::from_bytes(name).map_err(|_| INVALID)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| INVALID)?;
        fields.try_append(name, value).map_err(|_| INVALID)?;
    }
    Ok(fields)
}

/// # Safety
/// As with [`Text::get`].
unsafe fn url(text: Text) -> Result<Uri, c_int> {
    // SAFETY: as above.
    let uri = Uri::try_from(unsafe { text.get() }?).map_err(|_| INVALID)?;
    if uri.scheme().is_some() && uri.authority().is_some() { Ok(uri) } else { Err(INVALID) }
}

/// # Safety
/// As with [`Text::get`].
unsafe fn partition<'a>(text: Text) -> Result<&'a str, c_int> {
    // SAFETY: as above.
    let text = std::str::from_utf8(unsafe { text.get() }?).map_err(|_| INVALID)?;
    if text.contains('\0') { Err(INVALID) } else { Ok(text) }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_open(options: *const COptions, cache: *mut *mut CCache) -> c_int {
    guard(PANIC, || {
        if cache.is_null() {
            return Err(NULL);
        }
        let mut all = Options::new(None);
        if !options.is_null() {
            // SAFETY: see the header.
            let (of, directory, name) = unsafe {
                let of = read(options)?;
                (of, of.directory.get()?, of.name.get()?)
            };
            if !directory.is_empty() {
                if directory.contains(&0) {
                    return Err(INVALID);
                }
                all = Options::new(Some(PathBuf::from(OsStr::from_bytes(directory))));
            }
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
            if of.flags & !SHARED != 0 || of.reserved != 0 || !name.iter().all(plain) {
                return Err(INVALID);
            }
            let name = if name.is_empty() { "thaw" } else { std::str::from_utf8(name).map_err(|_| INVALID)? };
            all.rules = if of.flags & SHARED != 0 { Rules::shared(name) } else { Rules::private(name) };
            let or = |given: u64, usual: u64| if given == 0 { usual } else { given };
            all.budget = or(of.budget, all.budget);
            all.most_body = or(of.most_body, all.most_body);
            all.memory = usize::try_from(or(of.memory, all.memory as u64)).map_err(|_| INVALID)?;
        }
        let shelf = Shelf::open(all).map_err(|_| SYSTEM)?;
        // SAFETY: see the header.
        unsafe { put(cache, Box::into_raw(Box::new(CCache { shelf }))) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_close(cache: *mut CCache) -> c_int {
    guard(PANIC, || {
        if cache.is_null() {
            return Err(NULL);
        }
        // SAFETY: it came from `thaw_cache_open`, and its owner gives it back.
        let cache = unsafe { Box::from_raw(cache) };
        cache.shelf.close();
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_fd(cache: *const CCache) -> c_int {
    // SAFETY: see the header.
    guard(PANIC, || Ok(unsafe { object(cache) }?.shelf.fd().as_raw_fd()))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_next(cache: *mut CCache, event: *mut CEvent) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header. No event is taken for which there is no place.
        let cache = unsafe {
            size(event.cast_const())?;
            object(cache)?
        };
        let Some((tag, came)) = cache.shelf.next() else { return Ok(EMPTY) };
        let mut told = CEvent {
            size: 0,
            tag,
            data: Text { bytes: ptr::null(), length: 0 },
            length: 0,
            kind: 0,
            action: 0,
            done: 0,
            reserved: 0,
            owner: ptr::null_mut(),
        };
        told.kind = match came {
            Event::Decided(action, length) => {
                (told.action, told.length) = (number(action), length);
                1
            }
            Event::Body(bytes) => {
                let bytes = Box::new(bytes);
                (told.data, told.length) = (Text::of(&bytes), bytes.len() as u64);
                told.owner = Box::into_raw(bytes).cast();
                2
            }
            Event::End => 3,
            Event::Broken => 4,
            Event::Stored => 5,
            Event::Dropped => 6,
            Event::Done(done) => {
                told.done = done.into();
                7
            }
        };
        // SAFETY: see the header.
        unsafe { write(event, &told) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_event_free(event: *mut CEvent) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header. The owner is what `thaw_cache_next` wrote, or 0.
        unsafe {
            size(event.cast_const())?;
            let owner = ptr::addr_of_mut!((*event).owner);
            let held = owner.read_unaligned().cast::<Bytes>();
            if !held.is_null() {
                drop(Box::from_raw(held));
            }
            owner.write_unaligned(ptr::null_mut());
            ptr::addr_of_mut!((*event).data).write_unaligned(Text { bytes: ptr::null(), length: 0 });
        }
        Ok(OK)
    })
}

fn exchange(exchange: Exchange) -> *mut CExchange {
    Box::into_raw(Box::new(CExchange { exchange, told: Mutex::new(None) }))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_ask(
    cache: *mut CCache,
    request: *const CRequest,
    asked: *mut *mut CExchange,
) -> c_int {
    guard(PANIC, || {
        if asked.is_null() {
            return Err(NULL);
        }
        // SAFETY: see the header.
        let (cache, of, method, uri, partition, headers) = unsafe {
            let (cache, of) = (object(cache)?, read(request)?);
            (cache, of, of.method.get()?, url(of.url)?, partition(of.partition)?, fields(of.fields, of.field_count)?)
        };
        let (mut parts, ()) = http::Request::new(()).into_parts();
        (parts.method, parts.uri, parts.headers) = (Method::from_bytes(method).map_err(|_| INVALID)?, uri, headers);
        let new = cache.shelf.ask(parts, partition, of.tag).map_err(misuse)?;
        // SAFETY: see the header.
        unsafe { put(asked, exchange(new)) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_action(exchange: *const CExchange, action: *mut c_int) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        unsafe { put(action, number(object(exchange)?.exchange.action())) }?;
        Ok(OK)
    })
}

impl CExchange {
    /// A message that points into what is kept until the next one.
    fn tell(&self, mut message: CMessage, headers: HeaderMap, line: (String, String)) -> CMessage {
        (message.method, message.url) = (Text::of(line.0.as_bytes()), Text::of(line.1.as_bytes()));
        let field = |(name, value): (&HeaderName, &HeaderValue)| Field {
            name: Text::of(name.as_str().as_bytes()),
            value: Text::of(value.as_bytes()),
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // What is pointed to does not move when the map does: names and values lie on the heap, or are constants.
        let told = told.insert(Told { _headers: headers, _line: line, fields: Vec::new() });
        told.fields = told._headers.iter().map(field).collect();
        (message.fields, message.field_count) = (told.fields.as_ptr(), told.fields.len());
        message
    }
}

fn message() -> CMessage {
    let none = Text { bytes: ptr::null(), length: 0 };
    let (fields, field_count) = (ptr::null(), 0);
    CMessage { size: 0, method: none, url: none, fields, field_count, reason: none, status: 0, refresh: 0 }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_head(exchange: *mut CExchange, head: *mut CMessage) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let of = unsafe {
            size(head.cast_const())?;
            object(exchange)?
        };
        let told = matches!(of.exchange.action(), Action::Serve | Action::Answer | Action::Store | Action::Pass);
        let parts = of.exchange.head().filter(|_| told).ok_or(STATE)?;
        let refresh = of.exchange.wants_refresh().into();
        let answer = CMessage { status: parts.status.as_u16().into(), refresh, ..message() };
        let answer = of.tell(answer, parts.headers, Default::default());
        // SAFETY: see the header.
        unsafe { write(head, &answer) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_forward(exchange: *mut CExchange, request: *mut CMessage) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let of = unsafe {
            size(request.cast_const())?;
            object(exchange)?
        };
        let parts: request::Parts = of.exchange.request().ok_or(STATE)?;
        let reason = of.exchange.reason().ok_or(STATE)?;
        let sent = CMessage { reason: Text::of(reason.as_bytes()), ..message() };
        let line = (parts.method.as_str().to_owned(), parts.uri.to_string());
        let sent = of.tell(sent, parts.headers, line);
        // SAFETY: see the header.
        unsafe { write(request, &sent) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_refresh(of: *mut CExchange, tag: u64, refresh: *mut *mut CExchange) -> c_int {
    guard(PANIC, || {
        if refresh.is_null() {
            return Err(NULL);
        }
        // SAFETY: see the header.
        let Some(new) = unsafe { object(of) }?.exchange.refresh(tag) else { return Ok(EMPTY) };
        // SAFETY: see the header.
        unsafe { put(refresh, exchange(new)) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_respond(
    exchange: *mut CExchange,
    response: *const CResponse,
    action: *mut c_int,
) -> c_int {
    guard(PANIC, || {
        if action.is_null() {
            return Err(NULL);
        }
        // SAFETY: see the header.
        let (exchange, of, headers) = unsafe {
            let of = read(response)?;
            (object(exchange)?, of, fields(of.fields, of.field_count)?)
        };
        let status = u16::try_from(of.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.filter(|status| !status.is_informational()).ok_or(INVALID)?;
        let sent = match of.sent_ms {
            0 => SystemTime::now(),
            ms => {
                let since = Duration::from_millis(u64::try_from(ms).map_err(|_| INVALID)?);
                UNIX_EPOCH.checked_add(since).ok_or(INVALID)?
            }
        };
        let (mut head, ()) = Response::new(()).into_parts();
        (head.status, head.headers) = (status, headers);
        let next = exchange.exchange.response(head, sent).map_err(misuse)?;
        // SAFETY: see the header.
        unsafe { put(action, number(next)) }?;
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_failed(exchange: *mut CExchange, action: *mut c_int) -> c_int {
    guard(PANIC, || {
        if action.is_null() {
            return Err(NULL);
        }
        // SAFETY: see the header.
        unsafe {
            let next = object(exchange)?.exchange.failed().map_err(misuse)?;
            put(action, number(next))?;
        }
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_read(exchange: *mut CExchange, count: u64) -> c_int {
    // SAFETY: see the header.
    guard(PANIC, || unsafe { object(exchange) }?.exchange.read(count).map_err(misuse).map(|()| OK))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_write(exchange: *mut CExchange, from: *const c_void, length: usize) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let (exchange, bytes) = unsafe { (object(exchange)?, slice(from.cast(), length)?) };
        exchange.exchange.write(bytes).map_err(misuse).map(|()| OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_finish(exchange: *mut CExchange, trailers: *const Field, count: usize) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let (exchange, trailers) = unsafe { (object(exchange)?, fields(trailers, count)?) };
        exchange.exchange.finish(trailers).map_err(misuse).map(|()| OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_abort(exchange: *mut CExchange) -> c_int {
    // SAFETY: see the header.
    guard(PANIC, || unsafe { object(exchange) }?.exchange.abort().map_err(misuse).map(|()| OK))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_free(exchange: *mut CExchange) -> c_int {
    guard(PANIC, || {
        if !exchange.is_null() {
            // SAFETY: it is ours, and its owner gives it back.
            drop(unsafe { Box::from_raw(exchange) });
        }
        Ok(OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_invalidate(cache: *mut CCache, of: Text, within: Text, tag: u64) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let (cache, uri, partition) = unsafe { (object(cache)?, url(of)?, partition(within)?) };
        cache.shelf.invalidate(&uri, partition, tag).map_err(misuse).map(|()| OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_clear(cache: *mut CCache, tag: u64) -> c_int {
    // SAFETY: see the header.
    guard(PANIC, || unsafe { object(cache) }?.shelf.clear(None, tag).map_err(misuse).map(|()| OK))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_clear_prefix(cache: *mut CCache, within: Text, prefix: Text, tag: u64) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header. A prefix has no NUL either.
        let (cache, within, prefix) = unsafe { (object(cache)?, partition(within)?, partition(prefix)?) };
        cache.shelf.clear(Some((within, prefix)), tag).map_err(misuse).map(|()| OK)
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_flush(cache: *mut CCache, tag: u64) -> c_int {
    // SAFETY: see the header.
    guard(PANIC, || unsafe { object(cache) }?.shelf.flush(tag).map_err(misuse).map(|()| OK))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_cache_get_stats(cache: *const CCache, stats: *mut CStats) -> c_int {
    guard(PANIC, || {
        // SAFETY: see the header.
        let of = unsafe { object(cache) }?.shelf.stats();
        let told = CStats {
            size: 0,
            entries: of.entries,
            disk: of.disk,
            memory: of.memory,
            served: of.served,
            validated: of.validated,
            forwarded: of.forwarded,
            stored: of.stored,
            dropped: of.dropped,
            evicted: of.evicted,
            broken: of.broken,
            dead: of.dead.into(),
            reserved: 0,
        };
        // SAFETY: see the header.
        unsafe { write(stats, &told) }?;
        Ok(OK)
    })
}

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn thaw_cache_explain(code: c_int) -> *const c_char {
    let text = match code {
        OK => c"it is done",
        EMPTY => c"there is none",
        NULL => c"a pointer is NULL that must not be",
        INVALID => c"a text or a number is none that can be here",
        STATE => c"the exchange does not stand where this can be called",
        CLOSED => c"the cache is closed",
        LARGE => c"the body is too large to be kept",
        SYSTEM => c"the process has no descriptor or no thread left",
        SIZE => c"the size of a struct is of no version of it",
        PANIC => c"a defect of the library",
        _ => c"no code of this library",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_code() {
        assert_eq!(guard(PANIC, || panic!("a defect")), PANIC);
        assert_eq!((guard(PANIC, || Ok(EMPTY)), guard(PANIC, || Err(STATE))), (EMPTY, STATE));
    }
}
