//! Bytes as `Range` and `Content-Range`. What is asked for lies within what there is.
#![no_main]

use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use thaw_httpcache::{asked, content_range};

fuzz_target!(|input: &[u8]| {
    let Ok(value) = HeaderValue::from_bytes(input) else { return };
    let headers = HeaderMap::from_iter([(header::RANGE, value.clone()), (header::CONTENT_RANGE, value)]);
    for of in asked(&headers).unwrap_or_default() {
        for length in [0, 1, 10, u64::MAX] {
            assert!(of.within(length).is_none_or(|range| range.start < range.end && range.end <= length));
        }
    }
    if let Some((range, length)) = content_range(&headers) {
        assert!(range.start < range.end && length.is_none_or(|length| range.end <= length));
    }
});
