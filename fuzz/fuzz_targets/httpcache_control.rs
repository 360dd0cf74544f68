//! Bytes as `Cache-Control` and as a targeted field, a line each. Seconds stay within 2^31, names are names.
#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use thaw_httpcache::{Directives, Seconds};

fuzz_target!(|input: &[u8]| {
    let targeted = HeaderName::from_static("cdn-cache-control");
    let mut headers = HeaderMap::new();
    for value in input.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()) {
        headers.append(header::CACHE_CONTROL, value.clone());
        headers.append(targeted.clone(), value);
    }
    let plain = Directives::of(&headers);
    for directives in [Some(plain), Directives::targeted(&headers, &targeted)].into_iter().flatten() {
        for name in ["max-age", "s-maxage", "no-cache", "private"] {
            assert!(!matches!(directives.seconds(name), Seconds::Of(seconds) if seconds > 1 << 31));
            assert!(directives.has(name) || (directives.names(name).is_empty() && !directives.unqualified(name)));
        }
    }
});
