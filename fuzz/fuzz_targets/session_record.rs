//! Bytes as the content of a session's record: what is read comes back from what is written of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_session::record::{self, Record};
use thaw_session::tree::Tree;

fuzz_target!(|bytes: &[u8]| {
    let Some(record) = record::parse(bytes) else { return };
    if let Record::Payloads(all) = &record {
        assert!(all.iter().all(|(_, from, len)| (*from as usize + *len as usize) <= bytes.len()));
        return;
    }
    assert_eq!(record::parse(&record.write()).as_ref(), Some(&record));
    // Whatever it says, it makes a tree in which all hangs together.
    let mut tree = Tree::new(false);
    if let Record::Items(changes) | Record::Changes(_, changes) = &record {
        changes.iter().for_each(|change| tree.replay(change));
    }
    tree.adopt_orphans(0);
    assert_eq!(tree.under(0).len(), tree.items.len() + 1);
});
