//! The C functions behind `include/thaw_memreport.h`. Texts are copied; bytes that are not UTF-8 become U+FFFD.

use crate::{Collection, Id, Kind, Units};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

type CollectFn = unsafe extern "C" fn(*mut Collection<'_>, *mut c_void);
type MinimizeFn = unsafe extern "C" fn(*mut c_void);

/// A pointer of the program that goes with its function.
#[derive(Clone, Copy)]
struct Context(*mut c_void);
// SAFETY: never dereferenced by us; the header says that the function is called on another thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// Null, or a text that ends in a zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn id_of(number: c_int) -> Option<Id> {
    u32::try_from(number).ok().filter(|number| *number > 0).map(Id)
}

fn number_of(id: Id) -> c_int {
    c_int::try_from(id.0).unwrap_or(0)
}

/// Where a function lies, by the start and the name of its program or library; `None`: in neither (made at run time).
///
/// A library that is unloaded takes its functions with it, and another one may come to lie there.
fn home(function: *const c_void) -> Option<(usize, Vec<u8>)> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is valid for writes, and zeroed bytes are a valid Dl_info; the name is read at once.
    unsafe {
        if libc::dladdr(function, info.as_mut_ptr()) == 0 {
            return None;
        }
        let info = info.assume_init();
        let name = if info.dli_fname.is_null() { &[] } else { CStr::from_ptr(info.dli_fname).to_bytes() };
        Some((info.dli_fbase as usize, name.to_vec()))
    }
}

/// # Safety
/// `name` ends in a zero; `collect` may be called with `context` until it is unregistered.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_register(
    name: *const c_char,
    collect: Option<CollectFn>,
    context: *mut c_void,
) -> c_int {
    let Some(collect) = collect else { return 0 };
    let context = Context(context);
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let loaded = home(collect as *const c_void);
    number_of(crate::register(&name, move |collection| {
        if home(collect as *const c_void) != loaded {
            collection.broken("is in a library that was unloaded: unregister it before".into());
            return;
        }
        // SAFETY: the caller's promise; the collection lives until the function returns.
        unsafe { collect(collection, context.get()) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn thaw_memreport_unregister(id: c_int) {
    if let Some(id) = id_of(id) {
        crate::unregister(id);
    }
}

/// # Safety
/// `minimize` may be called with `context` until it is unregistered.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_minimize_register(minimize: Option<MinimizeFn>, context: *mut c_void) -> c_int {
    let Some(minimize) = minimize else { return 0 };
    let context = Context(context);
    let loaded = home(minimize as *const c_void);
    number_of(crate::on_minimize(move || {
        if home(minimize as *const c_void) == loaded {
            // SAFETY: the caller's promise.
            unsafe { minimize(context.get()) }
        }
    }))
}

/// # Safety
/// `collection` is the one that the running collect function was given.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_measure(collection: *mut Collection<'_>, block: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { collection.as_mut() }.map_or(0, |collection| collection.measure(block))
}

/// # Safety
/// As [`thaw_memreport_measure`]; `path` ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_measure_as(
    collection: *mut Collection<'_>,
    block: *const c_void,
    path: *const c_char,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { collection.as_mut().map_or(0, |collection| collection.measure_as(block, &text(path))) }
}

/// # Safety
/// As [`thaw_memreport_measure`]; `path` ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_report_block(
    collection: *mut Collection<'_>,
    block: *const c_void,
    path: *const c_char,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(collection) = collection.as_mut() {
            collection.report_block(block, &text(path));
        }
    }
}

/// # Safety
/// As [`thaw_memreport_measure`]; the texts end in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_report(
    collection: *mut Collection<'_>,
    path: *const c_char,
    kind: c_int,
    units: c_int,
    amount: i64,
    description: *const c_char,
) {
    // SAFETY: the caller's promise.
    let (collection, path, description) = unsafe { (collection.as_mut(), text(path), text(description)) };
    let Some(collection) = collection else { return };
    let kinds = [Kind::NonHeap, Kind::Heap, Kind::Other].into_iter().find(|known| *known as c_int == kind);
    let all = [Units::Bytes, Units::Count, Units::CountCumulative, Units::Percentage];
    match (kinds, all.into_iter().find(|known| *known as c_int == units)) {
        (Some(kind), Some(units)) => collection.report(&path, kind, units, amount, &description),
        _ => collection.broken(format!("reports {path} with unknown kind {kind} or units {units}")),
    }
}

/// # Safety
/// `path` ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_on_alloc(block: *const c_void, path: *const c_char) {
    // SAFETY: the caller's promise.
    crate::report_on_alloc(block, &unsafe { text(path) });
}

#[unsafe(no_mangle)]
extern "C" fn thaw_memreport_on_free(block: *const c_void) {
    crate::report_on_free(block);
}

#[unsafe(no_mangle)]
extern "C" fn thaw_memreport_minimize() -> c_int {
    if crate::minimize() { 0 } else { -1 }
}

/// # Safety
/// `options` is null or ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_start_with(options: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    match crate::start(&unsafe { text(options) }) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("thaw_memreport: {error}");
            -1
        }
    }
}

/// # Safety
/// `path` ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn thaw_memreport_dump_to(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    match crate::dump(Path::new(&unsafe { text(path) })) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}
