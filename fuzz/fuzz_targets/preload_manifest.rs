//! Bytes to the reader of preload manifests, as they are and as lines behind a good head with a good sum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use preload::manifest::Manifest;

/// FNV-1a: with another sum no line would ever be looked at.
fn summed(lines: &[u8]) -> Vec<u8> {
    let mut bytes = b"thaw preload manifest 1\n".to_vec();
    bytes.extend_from_slice(lines);
    bytes.push(b'\n');
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    bytes.extend_from_slice(format!("sum {sum:016x}\n").as_bytes());
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    for input in [bytes.to_vec(), summed(bytes)] {
        let Ok(manifest) = Manifest::parse(&input) else { continue };
        // What is read can be used without a look at its numbers, and written again.
        for read in &manifest.reads {
            assert!(read.len.0 > 0 && read.offset.0.checked_add(read.len.0).is_some());
            assert!(manifest.file(read).path.is_absolute());
        }
        manifest.bytes();
        assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest));
    }
});
