//! Header fields as lists, and which of them belong to one connection only.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Fields of one hop (RFC 9110 section 7.6.1), and those of a proxy that no cache stores (RFC 9111 section 3.1).
const HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "warning",
];

/// Members of a comma-separated list over all lines of a field, trimmed, without empty ones. Commas in quoted strings
/// do not separate.
pub(crate) fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a [u8]> {
    headers.get_all(name).iter().flat_map(|value| split(value.as_bytes())).collect()
}

/// Members of one comma-separated list, trimmed, without empty ones.
pub(crate) fn split(text: &[u8]) -> Vec<&[u8]> {
    let (mut members, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&text[start..]);
    members.into_iter().map(<[u8]>::trim_ascii).filter(|member| !member.is_empty()).collect()
}

/// Whether a field's list has this word, whatever its case.
pub(crate) fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    list(headers, name).iter().any(|member| member.eq_ignore_ascii_case(word.as_bytes()))
}

/// Names that a list of names holds; what is no name is left out.
pub(crate) fn names(list: &[&[u8]]) -> Vec<HeaderName> {
    list.iter().filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// Takes out what is for one connection, also what `Connection` names, and the obsolete `Warning`. Credentials for and
/// challenges of a proxy are kept where `proxy` is set: on a request or response that is passed on, they are the
/// proxy's to judge; in what is stored they have no place.
pub(crate) fn strip_hop(headers: &mut HeaderMap, proxy: bool) {
    for name in names(&list(headers, &header::CONNECTION)) {
        // A message cannot take away what frames or keys it by naming it.
        if name != header::CACHE_CONTROL && name != header::HOST && name != header::CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    for name in HOP {
        if !(proxy && name.starts_with("proxy-auth")) {
            headers.remove(name);
        }
    }
}

/// The one value of a field; `None` where it has none, or lines that differ.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?;
    lines.all(|line| line == first).then_some(first)
}
