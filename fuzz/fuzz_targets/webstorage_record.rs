//! Any bytes as the content of a record of web storage: changes that are written as the same bytes, or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_webstorage::record::{VERSION, parse, write};

fuzz_target!(|input: &[u8]| {
    for table in [false, true] {
        let Some(changes) = parse(input, table) else { continue };
        let mut again = vec![VERSION];
        changes.into_iter().for_each(|change| write(&mut again, change));
        assert_eq!(again, input);
    }
});
