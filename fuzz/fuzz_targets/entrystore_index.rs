//! Bytes as the snapshot of an index: it comes back from what is written of it, and its table is a map.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_entrystore::format::Snapshot;
use thaw_entrystore::index::{Index, Slot};

fuzz_target!(|bytes: &[u8]| {
    // The checksum is ours to make right: what lies behind it is to be reached.
    let mut whole = bytes.to_vec();
    whole.extend(thaw_entrystore::format::checksum(bytes).to_le_bytes());
    if let Some(snapshot) = Snapshot::parse(&whole) {
        let mut index = Index::of(snapshot.slots.iter().map(Slot::parse));
        for slot in snapshot.slots.iter().map(Slot::parse).filter(|slot| slot.segment != 0) {
            assert!(index.get(slot.hash).is_some());
        }
        for slot in snapshot.slots.iter().map(Slot::parse) {
            index.remove(slot.hash);
        }
        assert!(index.is_empty());
    }
});
