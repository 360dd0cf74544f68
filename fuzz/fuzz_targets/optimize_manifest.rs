//! Bytes to the reader of what `thaw optimize --apply` acts on: no path that it accepts leads out of where it belongs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optimize::manifest::Manifest;
use std::path::Component;

fuzz_target!(|bytes: &[u8]| {
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    assert!(manifest.root.is_absolute());
    let copies = manifest.files.iter().filter_map(|file| file.copy.as_ref());
    for path in copies.chain([&manifest.program]) {
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
    }
    for path in manifest.files.iter().map(|file| &file.path).chain(&manifest.start) {
        assert!(path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))));
    }
    let again = Manifest::parse(&manifest.to_bytes().expect("JSON is UTF-8")).expect("what was read can be written \
        and read");
    assert_eq!(again.files, manifest.files);
});
