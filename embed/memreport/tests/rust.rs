//! The Rust interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use thaw_memreport::{Kind, Units};

/// Reporters are of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn reporters_come_and_go_and_cannot_ask_themselves() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let called = Arc::new(AtomicUsize::new(0));
    let data = vec![7u8; 10_000];
    let (address, count) = (data.as_ptr() as usize, called.clone());
    let id = thaw_memreport::register("rust", move |collection| {
        count.fetch_add(1, Ordering::Relaxed);
        assert!(thaw_memreport::collect("inner").is_none() && !thaw_memreport::minimize());
        let bytes = collection.measure_as(address as *const _, "explicit/rust");
        assert!(bytes >= 10_000);
        collection.report("explicit/rust", Kind::Heap, Units::Bytes, bytes as i64, "A vector.");
    });
    let report = thaw_memreport::collect("test").unwrap();
    assert_eq!(report.reason, "test");
    let mine = report.reporters.iter().find(|reporter| reporter.name == "rust").unwrap();
    assert_eq!(mine.measured_bytes as i64, mine.reported_heap_bytes);
    thaw_memreport::unregister(id);
    let after = thaw_memreport::collect("test").unwrap();
    assert!(after.reporters.iter().all(|reporter| reporter.name != "rust"));
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[test]
fn a_reporter_that_panics_does_not_end_reporting() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let ids =
        [thaw_memreport::on_minimize(|| panic!("planted")), thaw_memreport::register("panics", |_| panic!("planted"))];
    assert!(thaw_memreport::minimize());
    let report = thaw_memreport::collect("test").unwrap();
    assert!(report.broken_rules.contains(&"panics panicked".to_owned()), "{:?}", report.broken_rules);
    ids.into_iter().for_each(thaw_memreport::unregister);
}

#[test]
fn an_empty_vector_is_no_wrong_pointer() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let id = thaw_memreport::register("empty", |collection| {
        let bytes = collection.measure(Vec::<u64>::new().as_ptr().cast()) + collection.measure(std::ptr::null());
        collection.report("explicit/empty", Kind::Heap, Units::Bytes, bytes as i64, "Nothing.");
    });
    let report = thaw_memreport::collect("test").unwrap();
    thaw_memreport::unregister(id);
    assert!(report.wrong_pointers.is_empty(), "{:?}", report.wrong_pointers);
}
