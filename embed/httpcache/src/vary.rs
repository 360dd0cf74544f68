//! `Vary`: which stored response a request selects (RFC 9111 section 4.1), with values normalised where that changes no
//! meaning.

use crate::fields;
use http::{HeaderMap, HeaderName, header};

/// Names that a response varies by, sorted; `None` where it varies by what no cache sees (`*`, or a name that is none).
pub fn names(response: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut names = Vec::new();
    for member in fields::list(response, &header::VARY) {
        names.push(HeaderName::from_bytes(member).ok().filter(|name| name != "*")?);
    }
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    Some(names)
}

/// A request's value of a field in normal form: lines joined, no space around members; for the `Accept` fields in lower
/// case, with weights in one form and members sorted, since their order has no meaning. `None`: the field is not there,
/// which is another thing than an empty one.
pub fn normal(request: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    request.contains_key(name).then(|| {
        let members = fields::list(request, name);
        if [header::ACCEPT_LANGUAGE, header::ACCEPT_ENCODING, header::ACCEPT_CHARSET].contains(name) {
            let mut weighted: Vec<Vec<u8>> = members
                .iter()
                .map(|of| weighted(of))
                .map(|(of, weight)| [&*of, format!(";q={weight}").as_bytes()].concat())
                .collect();
            weighted.sort();
            weighted.dedup();
            weighted.join(&b","[..])
        } else {
            members.join(&b","[..])
        }
    })
}

/// Whether a request selects a stored response that varies by these fields and was asked for with these values.
pub(crate) fn selects(request: &HeaderMap, selecting: &[(HeaderName, Option<Vec<u8>>)], stored: &HeaderMap) -> bool {
    selecting.iter().all(|(name, value)| {
        normal(request, name) == *value || (name == header::ACCEPT_LANGUAGE && is_preferred(request, stored))
    })
}

/// Whether the stored response is in the one language that the request prefers to all others: no choice among languages
/// could serve it better.
fn is_preferred(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let [language] = fields::list(stored, &header::CONTENT_LANGUAGE)[..] else { return false };
    let ranges: Vec<(Vec<u8>, u32)> =
        fields::list(request, &header::ACCEPT_LANGUAGE).iter().map(|of| weighted(of)).collect();
    let best = ranges.iter().map(|(_, weight)| *weight).max().filter(|weight| *weight > 0);
    let mut preferred = ranges.iter().filter(|(_, weight)| Some(*weight) == best);
    preferred.next().is_some_and(|(of, _)| of.eq_ignore_ascii_case(language)) && preferred.next().is_none()
}

/// A member without its weight, in lower case and without spaces, and the weight in thousandths.
fn weighted(member: &[u8]) -> (Vec<u8>, u32) {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut plain = parts.next().unwrap_or_default().to_ascii_lowercase();
    let mut weight = 1000;
    for part in parts {
        let part = part.to_ascii_lowercase();
        let number = part.strip_prefix(b"q=").and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
        match number {
            Some(number) if (0.0..=1.0).contains(&number) => weight = (number * 1000.0).round() as u32,
            _ => plain.extend([b";", &*part].concat()),
        }
    }
    (plain, weight)
}
