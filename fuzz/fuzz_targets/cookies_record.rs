//! Bytes as the content of a record of a cookie jar. What is accepted is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_cookies::record::Record;

fuzz_target!(|input: &[u8]| {
    let Some(record) = Record::read(input) else { return };
    assert_eq!(record.bytes(), input);
    if let Record::Index(index) = &record {
        for (number, page) in index.pages.iter().enumerate() {
            assert_eq!(index.find(page.first), Some(number));
        }
    }
});
