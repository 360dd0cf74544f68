//! Who waits for an answer: what a request says of it, as the store on disk wants to know it.
//!
//! Browsers say it in `Priority` (RFC 9218). Where they do not, what the answer is for (`Sec-Fetch-Dest`) tells it.

use http::header::{HeaderMap, HeaderName};
use thaw_entrystore::Urgency;
use thaw_httpcache::dictionary::{self, Item};

/// The last urgency of RFC 9218 (0 comes first, 3 is what nothing says) that a first paint waits for: Chromium gives 0
/// to 2 to documents, styles, fonts and scripts; Firefox too.
const LAST_URGENT: u8 = 2;

/// The urgency of a request. One that says nothing is urgent: somebody waits for it, and nobody knows for what.
pub fn of(fields: &HeaderMap) -> Urgency {
    let text = |name| {
        let values: Vec<&str> =
            fields.get_all(HeaderName::from_static(name)).iter().filter_map(|value| value.to_str().ok()).collect();
        values.join(",")
    };
    if let Some(urgency) = told(fields) {
        return if urgency <= LAST_URGENT { Urgency::Urgent } else { Urgency::Normal };
    }
    let guessed_ahead = text("sec-purpose").starts_with("prefetch") || text("purpose") == "prefetch";
    match (text("sec-fetch-dest").as_str(), text("sec-fetch-mode").as_str()) {
        _ if guessed_ahead => Urgency::Normal,
        (_, "navigate") => Urgency::Urgent,
        ("audio" | "embed" | "image" | "manifest" | "object" | "report" | "track" | "video", _) => Urgency::Normal,
        _ => Urgency::Urgent,
    }
}

/// `u` of a Priority field; `None` where it is not there or no number of 0 to 7, or the field no Dictionary.
fn told(fields: &HeaderMap) -> Option<u8> {
    match dictionary::of(fields, &HeaderName::from_static("priority"))?.get("u") {
        Some(Item::Integer(urgency)) => u8::try_from(*urgency).ok().filter(|urgency| *urgency <= 7),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of_fields(fields: &[(&'static str, &'static str)]) -> Urgency {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        of(&map)
    }

    #[test]
    fn what_priority_says_counts_before_all_else() {
        for (value, urgency) in [
            ("u=0, i", Urgency::Urgent),
            ("u=2", Urgency::Urgent),
            ("u=3", Urgency::Normal),
            ("i, u=5;x=1", Urgency::Normal),
            ("u=1, u=6", Urgency::Normal),
            ("u=6, u=1", Urgency::Urgent),
            // Zeros in front change nothing.
            ("u=03", Urgency::Normal),
            ("u=02", Urgency::Urgent),
            ("x=(a \"b\";c), u=1;x=\"u=6, \"", Urgency::Urgent),
            ("u=7, x=\"u=0, u=0\"", Urgency::Normal),
        ] {
            for dest in ["image", "document"] {
                let fields = [("priority", value), ("sec-fetch-dest", dest), ("sec-purpose", "prefetch")];
                assert_eq!(of_fields(&fields), urgency, "{value}, {dest}");
            }
        }
        assert_eq!(of_fields(&[("priority", "i"), ("priority", "u=4")]), Urgency::Normal);
        let broken = [("priority", "u=4"), ("priority", "I")];
        assert_eq!(of_fields(&broken), Urgency::Urgent, "all lines are one field");
    }

    #[test]
    fn a_priority_that_says_no_number_says_nothing() {
        let no_number =
            ["i", "", "u", "u=8", "u=-1", "u=08", "u=256", "u=3.0", "u=?1", "u=\"0\"", "u=(0)", "urgent=0", "u=0, u"];
        // What is no Dictionary is ignored as a whole.
        let none = ["U=0", "u =0", "u= 0", "u=0,", "u=0, I", "u=6;X", "u=6, =", "u=0 i", "u=3.", "u=0, a=%\"%e4\""];
        for value in no_number.into_iter().chain(none) {
            let with = |dest| of_fields(&[("priority", value), ("sec-fetch-dest", dest)]);
            assert_eq!([with("image"), with("style")], [Urgency::Normal, Urgency::Urgent], "{value}");
        }
    }

    #[test]
    fn what_an_answer_is_for_tells_who_waits() {
        for dest in ["document", "style", "script", "font", "empty", "iframe", "worker", "what-is-to-come"] {
            assert_eq!(of_fields(&[("sec-fetch-dest", dest)]), Urgency::Urgent, "{dest}");
        }
        for dest in ["image", "video", "audio", "track", "manifest", "report"] {
            assert_eq!(of_fields(&[("sec-fetch-dest", dest)]), Urgency::Normal, "{dest}");
            // Somebody looks at an image alone.
            assert_eq!(of_fields(&[("sec-fetch-dest", dest), ("sec-fetch-mode", "navigate")]), Urgency::Urgent);
        }
        for ahead in [("sec-purpose", "prefetch"), ("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch")] {
            assert_eq!(of_fields(&[ahead, ("sec-fetch-dest", "document")]), Urgency::Normal);
        }
        assert_eq!(of_fields(&[]), Urgency::Urgent);
    }
}
