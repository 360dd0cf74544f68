//! What waits for what: events on objects, from inside a program, at the cost of one clock read.
//!
//! ```
//! # let (transaction, socket) = (1_u64, 2_u64);
//! thaw_events::name(transaction, "http://localhost/");
//! thaw_events::wait!(transaction, "net::http::transaction");
//! thaw_events::exec_posted!(transaction, "net::http::transaction");
//! thaw_events::link!(socket, transaction, "net::socket");
//! thaw_events::done!(transaction, "net::http::transaction");
//! thaw_events::free(transaction);
//! ```
//!
//! It is off, and costs a load and a branch, unless the environment variable `THAW_EVENTS` names a directory; the words
//! that may follow it, and all promises, are those of `include/thaw_events.h`, the same for C and C++. The format is
//! docs/events-format.md. A program with Rust and C parts has a file of each.
//!
//! Objects are addresses or numbers of up to 48 bits. Nothing here fails, blocks on the disk or allocates; where there
//! is no room, events are lost and counted.

mod form;
mod lane;
mod process;
mod writer;

pub use form::Type;
#[doc(hidden)]
pub use form::{DONE, EXEC, MARK, SHARED, WAIT};

use form::{ARG, FREE, LINK, MORE, NAME};
use std::ffi::CStr;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use thaw_clock::counter::{now, now_fenced};

/// Whether anything is written at all.
#[inline]
pub fn is_on() -> bool {
    match process::word() {
        0 => false,
        process::NOT_ASKED => process::ask(),
        _ => true,
    }
}

/// Writes the events of this process to a file of this name, which is made now, whatever the environment says; programs
/// that it starts are not asked to write any. To be called before the first event. `false`: the file cannot be made (it
/// is there already, among other reasons), or another is written to; there are no events then.
pub fn write_to(path: &CStr) -> bool {
    process::write_to(path)
}

#[inline]
fn passes(of: &Type) -> bool {
    match process::word() {
        0 => false,
        word => of.passes.load(Acquire) == word || process::ask_type(of, word),
    }
}

/// One event of the macros.
#[doc(hidden)]
#[inline]
pub fn one(phase: u8, object: u64, of: &'static Type) {
    if passes(of) {
        writer::with(1, 1, |lane| lane.put(now(), phase, object, of.id.load(Relaxed)));
    }
}

/// One event whose time is not before what another thread did to bring it about.
#[doc(hidden)]
#[inline]
pub fn one_fenced(phase: u8, object: u64, of: &'static Type) {
    if passes(of) {
        writer::with(1, 1, |lane| lane.put(now_fenced(), phase, object, of.id.load(Relaxed)));
    }
}

/// The end of one and the beginning of another at one time.
#[doc(hidden)]
#[inline]
pub fn both(done: u64, done_type: &'static Type, waiting: u64, waiting_type: &'static Type) {
    let (first, second) = (passes(done_type), passes(waiting_type));
    if !first && !second {
        return;
    }
    writer::with(2, u64::from(first) + u64::from(second), |lane| {
        let now = now();
        if first {
            lane.put(now, DONE, done, done_type.id.load(Relaxed));
        }
        if second {
            lane.put(now, WAIT, waiting, waiting_type.id.load(Relaxed));
        }
    });
}

/// A link of the macro.
#[doc(hidden)]
#[inline]
pub fn linked(from: u64, to: u64, of: &'static Type) {
    if passes(of) {
        writer::with(2, 1, |lane| {
            lane.behind(0, u64::from(MORE), to << 16);
            lane.put_with(now_fenced(), LINK, from, of.id.load(Relaxed), 1);
        });
    }
}

fn text(phase: u8, object: u64, parts: [&str; 3]) {
    if !is_on() {
        return;
    }
    let mut bytes = parts.iter().flat_map(|part| part.bytes()).take_while(|byte| *byte != 0).take(form::TEXT_MOST);
    let total = bytes.clone().count();
    if total == form::TEXT_MOST {
        process::text_cut();
    }
    let slots = total / 15 + 1;
    writer::with(1 + slots, 1, |lane| {
        for slot in 0..slots {
            let mut words = [0_u8; 16];
            words[0] = form::TEXT;
            words[1..].iter_mut().zip(&mut bytes).for_each(|(to, byte)| *to = byte);
            let [head, body] = [&words[..8], &words[8..]].map(|half| half.try_into().map_or(0, u64::from_ne_bytes));
            lane.behind(slot, head, body);
        }
        lane.put_with(now(), phase, object, 0, slots);
    });
}

/// What an object is called, up to 16 KiB: a URL, a host.
pub fn name(object: u64, name: &str) {
    text(NAME, object, [name, "", ""]);
}

/// A name of two parts, which need not be put together first.
pub fn compound_name(object: u64, first: &str, second: &str) {
    text(NAME, object, [first, second, ""]);
}

/// Something to know of an object.
pub fn arg(object: u64, key: &str, value: &str) {
    text(ARG, object, [key, "=", value]);
}

/// The object is gone: its address may come to mean another one.
pub fn free(object: u64) {
    if is_on() {
        writer::with(1, 1, |lane| lane.put(now(), FREE, object, 0));
    }
}

/// What this thread is called.
pub fn thread_name(name: &str) {
    if is_on() {
        process::tell_thread(name);
    }
}

/// An object that is its own address.
pub fn object<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<()>().addr() as u64
}

/// What [`scope!`] gives: the work is done when it is dropped.
#[doc(hidden)]
pub struct Scope(u64, &'static Type);

impl Scope {
    #[doc(hidden)]
    #[inline]
    pub fn begin(object: u64, of: &'static Type) -> Self {
        one(EXEC, object, of);
        Self(object, of)
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        one(DONE, self.0, self.1);
    }
}

/// The type of a place of the source.
#[doc(hidden)]
#[macro_export]
macro_rules! type_here {
    ($name:literal) => {{
        static HERE: $crate::Type = $crate::Type::new($name, file!(), line!());
        &HERE
    }};
}

/// `mark!(object, "type")`: something happened.
#[macro_export]
macro_rules! mark {
    ($object:expr, $name:literal) => {
        $crate::one($crate::MARK, $object, $crate::type_here!($name))
    };
}

/// `wait!(object, "type")`: it begins to wait; `wait!(shared object, "type")` for an object of several threads at once.
#[macro_export]
macro_rules! wait {
    (shared $object:expr, $name:literal) => {
        $crate::one($crate::WAIT | $crate::SHARED, $object, $crate::type_here!($name))
    };
    ($object:expr, $name:literal) => {
        $crate::one($crate::WAIT, $object, $crate::type_here!($name))
    };
}

/// `exec!(object, "type")`: it is worked on.
#[macro_export]
macro_rules! exec {
    (shared $object:expr, $name:literal) => {
        $crate::one($crate::EXEC | $crate::SHARED, $object, $crate::type_here!($name))
    };
    ($object:expr, $name:literal) => {
        $crate::one($crate::EXEC, $object, $crate::type_here!($name))
    };
}

/// `exec_posted!(object, "type")`: what another thread handed to this one is worked on; its time is not before that.
#[macro_export]
macro_rules! exec_posted {
    ($object:expr, $name:literal) => {
        $crate::one_fenced($crate::EXEC, $object, $crate::type_here!($name))
    };
}

/// `done!(object, "type")`: it is done.
#[macro_export]
macro_rules! done {
    (shared $object:expr, $name:literal) => {
        $crate::one($crate::DONE | $crate::SHARED, $object, $crate::type_here!($name))
    };
    ($object:expr, $name:literal) => {
        $crate::one($crate::DONE, $object, $crate::type_here!($name))
    };
}

/// `done_wait!(done, "type", waiting, "type")`: the end of one and the beginning of another, at one time.
#[macro_export]
macro_rules! done_wait {
    ($done:expr, $done_name:literal, $waiting:expr, $waiting_name:literal) => {
        $crate::both($done, $crate::type_here!($done_name), $waiting, $crate::type_here!($waiting_name))
    };
}

/// `link!(from, to, "type")`: `from` released, or caused, `to`.
#[macro_export]
macro_rules! link {
    ($from:expr, $to:expr, $name:literal) => {
        $crate::linked($from, $to, $crate::type_here!($name))
    };
}

/// `scope!(object, "type")`: worked on from here to the end of the block.
#[macro_export]
macro_rules! scope {
    ($object:expr, $name:literal) => {
        let _scope = $crate::Scope::begin($object, $crate::type_here!($name));
    };
}
