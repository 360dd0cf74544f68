//! A line as `Vary`, the others as values of a field that may be normalised. The normal form is its own normal form.
#![no_main]

use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use thaw_httpcache::{vary_names, vary_normal};

fuzz_target!(|input: &[u8]| {
    let mut headers = HeaderMap::new();
    let mut lines = input.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok());
    headers.extend(lines.next().map(|line| (header::VARY, line)));
    for line in lines {
        headers.append(header::ACCEPT_LANGUAGE, line.clone());
        headers.append(header::USER_AGENT, line);
    }
    assert!(vary_names(&headers).is_none_or(|names| names.is_sorted_by(|one, other| one.as_str() < other.as_str())));
    // A quoted string without an end swallows what follows it, so that another reading of the joined lines is fair.
    if input.contains(&b'"') {
        return;
    }
    for name in [header::ACCEPT_LANGUAGE, header::USER_AGENT] {
        let Some(normal) = vary_normal(&headers, &name) else { continue };
        let again = HeaderMap::from_iter([(name.clone(), HeaderValue::from_bytes(&normal).expect("bytes of a field"))]);
        if name == header::USER_AGENT {
            assert_eq!(vary_normal(&again, &name), Some(normal));
        }
    }
});
