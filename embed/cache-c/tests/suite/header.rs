//! The header and the library say the same.

use crate::programs::room;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = std::fs::read_to_string(room().join("include/thaw_cache.h")).unwrap();
    let declared = testing::declared(&header, &["thaw_cache_"]);
    let library = std::fs::read(testing::library("libthaw_cache.so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let exported: BTreeSet<String> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.starts_with("thaw_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(declared, exported);
    assert!(declared.len() > 20);
}
