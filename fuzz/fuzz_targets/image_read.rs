//! Bytes as an image, and as what thaw writes behind one. Whatever is accepted can be walked and read to its end: each
//! file says as many bytes as it gives, or is refused.
#![no_main]

use image::about::About;
use image::crc32c;
use image::like;
use image::read::{Image, Source};
use libfuzzer_sys::fuzz_target;
use model::Bytes;

fuzz_target!(|input: &[u8]| {
    let _ = About::decode(input.len() as u64, &mut |at, bytes| input.read_into(at, bytes));
    // Files may be five hundred times as long as their index.
    let mut bytes = input[..input.len().min(64 << 10)].to_vec();
    if bytes.len() >= 4096 {
        // The checksum of the first block: a fuzzer does not guess it.
        bytes[1028..1032].fill(0);
        let sum = crc32c(&bytes[1024..4096]);
        bytes[1028..1032].copy_from_slice(&sum.to_le_bytes());
    }
    let source = &bytes[..];
    let Ok(image) = Image::open(&source) else { return };
    let Ok(contents) = image.contents() else { return };
    let _ = image.unused(&contents, 4096);
    // What it has in front lies in the files, whatever they are.
    let needs =
        like::needs((Bytes(8192), Bytes(u64::MAX)), &image, &contents, &contents.tree).unwrap_or_default().needs;
    for need in needs {
        assert!((need.page + need.pages - 1) * 4096 < contents.tree.nodes[need.file].size);
    }
    for (number, node) in contents.tree.nodes.iter().enumerate().filter(|(_, node)| node.is_file()) {
        let mut len = 0;
        let mut count = |piece: &[u8]| {
            len += piece.len() as u64;
            Ok(())
        };
        if image.read(&contents, number, &mut count).is_ok() {
            assert_eq!(len, node.size);
        }
    }
});
