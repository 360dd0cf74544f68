//! Bytes as the metadata and the body of all variants of a key, and the other way round. What is read is written so that
//! it is read the same; the body's own number and no other goes with it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use thaw_httpcache::packed::{Variant, heads, meta, number, pack, unpack};

fn whole(variants: &[Variant]) -> Vec<(thaw_httpcache::Stored, Vec<u8>)> {
    variants.iter().map(|(stored, pieces)| (stored.clone(), pieces.concat())).collect()
}

// Two bytes: how long the metadata are; one: how long the pieces of the body.
fuzz_target!(|input: &[u8]| {
    let Some((&[low, high, step], rest)) = input.split_first_chunk() else { return };
    let at = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (first, second) = (Bytes::copy_from_slice(&rest[..at]), &rest[at..]);
    let pieces: Vec<Bytes> = second.chunks(8 + usize::from(step)).map(Bytes::copy_from_slice).collect();
    let Some(variants) = unpack(first.clone(), pieces) else { return };
    let read = heads(first.clone()).unwrap();
    assert!(read.iter().eq(variants.iter().map(|(stored, _)| stored)));
    let held: u64 = read.iter().map(|stored| stored.length.unwrap()).sum();
    assert_eq!((held + 8, number(&first)), (second.len() as u64, number(second)));
    let its = number(&first).unwrap();
    let again = meta(its, &read).unwrap();
    let (packed, body) = pack(its, &variants);
    assert_eq!(again, packed);
    assert_eq!(body, second);
    let same = unpack(packed, vec![body.clone()]).unwrap();
    assert_eq!(whole(&same), whole(&variants));
    assert!(unpack(meta(its.wrapping_add(1), &read).unwrap(), vec![body]).is_none());
});
