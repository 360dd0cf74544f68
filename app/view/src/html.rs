//! One HTML file out of the viewer, the document and the events.
//!
//! Paths, program names and command lines come from a machine that nobody vouches for. They travel as JSON inside
//! `<script type="application/json">`, where only `<` could end the element: it is written as `\u003c`. And should
//! that ever fail, the page's own policy runs no script but the viewer, by its hash, and lets nothing out.

use crate::{TouchOf, TraceOf, events, touched};
use model::{Error, Exit, Result};
use serde_json::Value;

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
    let _span = tracing::info_span!("write page").entered();
    let schema = document["schema"].as_str().unwrap_or_default();
    if schema != "thaw.report/1" {
        return Err(Error::new(Exit::Bug, "cannot show a document of this schema", schema)
            .hint("this is a bug in thaw: please report it with the command line"));
    }
    let known: Vec<TraceOf<'_>> = traces.iter().filter(|trace| has_run(document, trace)).copied().collect();
    let events = serde_json::to_value(events::pack(document, &known))
        .map_err(|error| Error::bug("cannot write the events of the page").because(error))?;
    let touched = serde_json::to_value(touched::pack(touched))
        .map_err(|error| Error::bug("cannot write what was touched into the page").because(error))?;
    let sentences = document["answer"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sentences: Vec<&str> = sentences.iter().filter_map(Value::as_str).collect();
    let mut html = head(&title(document));
    html.push_str(&body(&sentences, "thaw report"));
    html.push_str(&element("thaw-report", document));
    html.extend(comparison.map(|comparison| element("thaw-comparison", comparison)));
    html.push_str(&format!("<script>{}</script>\n", SCRIPT.trim_end()));
    // Behind the viewer, so that the page is there before its longest part is read.
    html.push_str(&element("thaw-events", &events));
    html.push_str(&element("thaw-touched", &touched));
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

/// A page whose document stands before the viewer, under the element `id`; `verb` prints the same as text.
pub(crate) fn single(title: &str, verb: &str, id: &str, document: &Value) -> String {
    let mut html = head(title);
    html.push_str(&body(&[], verb));
    html.push_str(&element(id, document));
    html.push_str(&format!("<script>{}</script>\n</body>\n</html>\n", SCRIPT.trim_end()));
    html
}

/// An element that holds a value.
fn element(id: &str, value: &Value) -> String {
    format!("<script type=\"application/json\" id=\"{id}\">{}</script>\n", embedded(value))
}

fn has_run(document: &Value, trace: &TraceOf<'_>) -> bool {
    let known = document["traces"].as_array().map(Vec::as_slice).unwrap_or_default();
    known.iter().any(|known| known["run"].as_i64() == Some(trace.run.0))
}

/// JSON that no text inside can end: neither as HTML nor as a script.
fn embedded(value: &Value) -> String {
    let json = value.to_string();
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

/// Text that stays text inside elements and attributes.
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
        let text = embedded(&value);
        assert!(!text.contains('<') && !text.contains('\u{2028}') && !text.contains('\u{2029}'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
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
