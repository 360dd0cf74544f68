//! Any bytes as the file of a leak check, and any text as what is packed in one, with a checksum that fits; any text as
//! suppressions: readers end with what they read or an error.
#![no_main]

use heap::suppressions::Suppressions;
use heapfile::check::Check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let _ = Suppressions::parse(&String::from_utf8_lossy(bytes));
    let home = tempfile::tempdir().expect("a directory");
    let stream = home.path().join("1-0.stream");
    let file = if choice & 1 == 0 { bytes.to_vec() } else { packed(bytes) };
    std::fs::write(stream.with_extension("reach"), file).expect("a check");
    if let Ok(Some(check)) = Check::read(&stream)
        && let Some(blocks) = check.blocks()
    {
        let _ = (blocks.reach(0), blocks.reach(u64::MAX));
    }
});

/// A file whose packed part are these bytes.
fn packed(text: &[u8]) -> Vec<u8> {
    let packed = zstd::encode_all(text, 1).expect("memory is enough");
    let mut file = b"THAWREAC\x01\0\0\0".to_vec();
    file.extend(crc32fast::hash(&packed).to_le_bytes());
    file.extend(packed);
    file
}
