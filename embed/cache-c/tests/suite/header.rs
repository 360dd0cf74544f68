//! The header and the library say the same.

use crate::programs::{libraries, room};
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = std::fs::read_to_string(room().join("include/thaw_cache.h")).unwrap();
    // Comments name functions as well.
    let code: String = header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let declared: BTreeSet<&str> = code
        .split('(')
        .filter_map(|before| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("thaw_cache_"))
        .collect();
    let library = std::fs::read(libraries().join("libthaw_cache.so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let exported: BTreeSet<&str> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.starts_with("thaw_"))
        .collect();
    assert_eq!(declared, exported);
    assert!(declared.len() > 20);
}
