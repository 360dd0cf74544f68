//! The program of docs/memory.md in Rust: a cache that reports itself.

use std::sync::{Arc, Mutex};
use thaw_memreport::{Kind, Units};

fn main() -> Result<(), thaw_memreport::StartError> {
    let pages: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let reported = pages.clone();
    // Called by a thread of the library when somebody asks.
    thaw_memreport::register("cache", move |collection| {
        let Ok(pages) = reported.lock() else { return };
        let mut bytes = collection.measure(pages.as_ptr().cast());
        for page in pages.iter() {
            bytes += collection.measure(page.as_ptr().cast());
        }
        let count = pages.len() as i64;
        collection.report("explicit/cache/pages", Kind::Heap, Units::Bytes, bytes as i64, "Pages that were read.");
        collection.report("cache-pages", Kind::Other, Units::Count, count, "Pages in the cache.");
    });
    thaw_memreport::start("socket")?;
    if let Ok(mut pages) = pages.lock() {
        pages.extend((0..1000).map(|_| vec![0; 4096]));
    }
    println!("reporting");
    loop {
        std::thread::park();
    }
}
