//! One HTML file out of the viewer, the document and the events.
//!
//! Paths, program names and command lines come from a machine that nobody vouches for. They travel as JSON inside
//! `<script type="application/json">`, where only `<` could end the element: it is written as `\u003c`. And should
//! that ever fail, the page's own policy runs no script but the viewer, by its hash, and lets nothing out.

use crate::{PackedTouch, PackedTrace, TouchOf, TraceOf, events, touched};
use model::{Error, Exit, Result, RunId};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io;

const SCRIPT: &str = include_str!("../../../viewer/dist/viewer.js");
const STYLE: &str = include_str!("../../../viewer/dist/viewer.css");
/// `sha256-…` of the script and of the style, one a line; written by the viewer's build.
const HASHES: &str = include_str!("../../../viewer/dist/hashes.txt");

/// The page of a recording of starts, as one HTML file.
///
/// `document` is a `thaw.report/1`, `traces` are the rows of its traced runs (those that it does not know are left
/// out), `touched` is what watched starts touched, `comparison` is a `bench::report::Comparison` with another
/// recording.
///
/// # Errors
/// `document` is another one: [`Exit::Bug`], for the app makes it.
pub fn page(
    document: &Value,
    traces: &[TraceOf<'_>],
    touched: &[TouchOf<'_>],
    comparison: Option<&Value>,
) -> Result<String> {
    let known = traces.iter().filter(|trace| has_run(document, trace.run));
    let traces: Vec<PackedTrace> = known.map(|trace| events::pack(document, trace)).collect();
    let touched: Vec<PackedTouch> = touched.iter().map(touched::pack).collect();
    packed_page(document, &traces, &touched, comparison)
}

/// The same of events and touches that are packed already, one program after the other: so nobody needs room for the
/// rows of all.
///
/// # Errors
/// As [`page`].
pub fn packed_page(
    document: &Value,
    traces: &[PackedTrace],
    touched: &[PackedTouch],
    comparison: Option<&Value>,
) -> Result<String> {
    let _span = tracing::info_span!("write page").entered();
    let schema = document["schema"].as_str().unwrap_or_default();
    if schema != "thaw.report/1" {
        return Err(Error::new(Exit::Bug, "cannot show a document of this schema", schema)
            .hint("this is a bug in thaw: please report it with the command line"));
    }
    let sentences = document["answer"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sentences: Vec<&str> = sentences.iter().filter_map(Value::as_str).collect();
    let mut html = head(&title(document));
    html.push_str(&body(&sentences, "thaw report"));
    element(&mut html, "thaw-report", document)?;
    comparison.map_or(Ok(()), |comparison| element(&mut html, "thaw-comparison", comparison))?;
    html.push_str(&format!("<script>{}</script>\n", SCRIPT.trim_end()));
    // Behind the viewer, so that the page is there before its longest part is read.
    let known = traces.iter().filter(|trace| has_run(document, trace.run));
    element(&mut html, "thaw-events", &events::Events::of(known.collect()))?;
    element(&mut html, "thaw-touched", &touched::Touched::of(touched))?;
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

/// A page whose document stands before the viewer, under the element `id`; `verb` prints the same as text.
///
/// # Errors
/// The document is no JSON: [`Exit::Bug`].
pub(crate) fn single(title: &str, verb: &str, id: &str, document: &impl Serialize) -> Result<String> {
    let mut html = head(title);
    html.push_str(&body(&[], verb));
    element(&mut html, id, document)?;
    html.push_str(&format!("<script>{}</script>\n</body>\n</html>\n", SCRIPT.trim_end()));
    Ok(html)
}

/// An element that holds a value. It is written as it is turned into JSON: a page has millions of numbers, and no room
/// for a second copy of them.
fn element(html: &mut String, id: &str, value: &impl Serialize) -> Result<()> {
    html.push_str(&format!("<script type=\"application/json\" id=\"{id}\">"));
    let mut bytes = std::mem::take(html).into_bytes();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, Embedded))
        .map_err(|error| Error::bug("cannot write a part of the page").because(error))?;
    *html = String::from_utf8(bytes).map_err(|error| Error::bug("JSON is not UTF-8").because(error))?;
    html.push_str("</script>\n");
    Ok(())
}

fn has_run(document: &Value, run: RunId) -> bool {
    let known = document["traces"].as_array().map(Vec::as_slice).unwrap_or_default();
    known.iter().any(|known| known["run"].as_i64() == Some(run.0))
}

/// JSON that no text inside can end: neither as HTML nor as a script.
struct Embedded;

impl Formatter for Embedded {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut written = 0;
        // All three begin with bytes that hardly any text has, so that most is copied at once.
        for (at, byte) in fragment.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'<' | 0xe2)) {
            let (escape, len) = match &fragment.as_bytes()[at..] {
                _ if byte == b'<' => ("\\u003c", 1),
                [0xe2, 0x80, 0xa8, ..] => ("\\u2028", 3),
                [0xe2, 0x80, 0xa9, ..] => ("\\u2029", 3),
                _ => continue,
            };
            out.write_all(&fragment.as_bytes()[written..at])?;
            out.write_all(escape.as_bytes())?;
            written = at + len;
        }
        out.write_all(&fragment.as_bytes()[written..])
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

fn title(document: &Value) -> String {
    let variants = document["variants"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = variants.iter().filter_map(|variant| variant["name"].as_str()).collect();
    if names.is_empty() { "thaw".into() } else { format!("How {} starts · thaw", names.join(", ")) }
}

/// What the page may do: run the viewer, and nothing else. Also the server says so.
pub(crate) fn policy() -> String {
    let mut hashes = HASHES.lines();
    let (script, style) = (hashes.next().unwrap_or_default(), hashes.next().unwrap_or_default());
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; worker-src blob:; \
         base-uri 'none'; form-action 'none'"
    )
}

/// The same page, which asks for itself again after so many seconds: what it shows goes on.
pub fn again_after(page: &str, seconds: u64) -> String {
    page.replacen(HEAD, &format!("{HEAD}<meta name=\"thaw-again\" content=\"{seconds}\">\n"), 1)
}

/// How each page begins.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n";

fn head(title: &str) -> String {
    format!(
        "{HEAD}<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n",
        policy(),
        escaped(title),
        STYLE.trim_end()
    )
}

/// What is there before, or without, the script; `verb` prints the same as text.
fn body(sentences: &[&str], verb: &str) -> String {
    let answer: String = sentences.iter().map(|text| format!("<p>{}</p>", escaped(text))).collect();
    format!(
        "<body>\n<div id=\"thaw\"><noscript>{answer}<p>The rest of this report needs JavaScript. \
         <code>{verb}</code> prints the same figures as text.</p></noscript></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn embedded_json_stays_json_and_cannot_end_its_element() {
        let value = json!({ "path": "</script><script>alert(1)</script><!--\u{2028}\u{2029}\u{fffd}\"\n" });
        let mut text = String::new();
        element(&mut text, "x", &value).unwrap();
        let text = text.strip_prefix("<script type=\"application/json\" id=\"x\">").unwrap();
        let text = text.strip_suffix("</script>\n").unwrap();
        assert!(!text.contains('<') && !text.contains('\u{2028}') && !text.contains('\u{2029}'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
    }

    #[test]
    fn the_viewer_does_not_end_its_own_element() {
        for end in ["</script", "<!--"] {
            assert!(!SCRIPT.to_lowercase().contains(end), "viewer.js holds {end}: the page would break there");
        }
        assert!(!STYLE.to_lowercase().contains("</style"));
    }

    #[test]
    fn nothing_is_loaded() {
        assert!(policy().starts_with("default-src 'none'; script-src 'sha256-"));
        for network in ["url(http", "url(//", "@import"] {
            assert!(!STYLE.contains(network), "viewer.css loads something: {network}");
        }
    }

    #[test]
    fn names_are_text_in_the_title() {
        let document =
            json!({ "schema": "thaw.report/1", "variants": [{ "name": "</title><script>alert(1)</script>" }] });
        let html = page(&document, &[], &[], None).unwrap();
        assert!(html.contains("<title>How &lt;/title&gt;&lt;script&gt;alert(1)"));
        assert!(!html.contains("<script>alert"));
    }

    #[test]
    fn another_document_is_refused() {
        assert_eq!(page(&json!({ "schema": "thaw.report/2" }), &[], &[], None).unwrap_err().exit, Exit::Bug);
        assert_eq!(page(&json!([]), &[], &[], None).unwrap_err().exit, Exit::Bug);
    }
}
