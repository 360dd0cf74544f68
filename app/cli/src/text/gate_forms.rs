//! The gate's verdict for other programs: JUnit for CI servers, GitHub's annotations, and the figures for Bencher,
//! github-action-benchmark and Perfherder. Where each form is described: docs/gates.md.

use super::gate::sentence;
use super::harmless;
use bench::gate::{FigureVerdict, Metric, Outcome};
use serde_json::{Value, json};
use work::gate::GateDocument;

/// JUnit: one test case for each figure; what fails is a failure, what is undecided and does not pass is one, too.
pub fn junit(document: &GateDocument) -> String {
    let figures = &document.verdict.figures;
    let fails = |figure: &&FigureVerdict| match figure.outcome {
        Outcome::Pass => false,
        Outcome::Fail => true,
        Outcome::Undecided => !document.passes,
    };
    let (tests, failures) = (figures.len(), figures.iter().filter(fails).count());
    let skipped = figures.iter().filter(|figure| figure.outcome == Outcome::Undecided && !fails(figure)).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{tests}\" failures=\"{failures}\">\n  \
         <testsuite name=\"thaw gate\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n"
    );
    for figure in figures {
        let (class, name) = (xml(&figure.variant_name), xml(&format!("{} {}", figure.state, figure.metric)));
        let text = xml(&sentence(document, figure));
        let inside = match figure.outcome {
            Outcome::Pass => format!("<system-out>{text}</system-out>"),
            Outcome::Fail => format!("<failure type=\"regression\" message=\"{text}\">{text}</failure>"),
            Outcome::Undecided if fails(&figure) => {
                format!("<failure type=\"undecided\" message=\"{text}\">{text}</failure>")
            }
            Outcome::Undecided => format!("<skipped message=\"{text}\"/>"),
        };
        out.push_str(&format!("    <testcase classname=\"{class}\" name=\"{name}\">{inside}</testcase>\n"));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// GitHub's workflow commands: an error for each figure that fails, a warning for each that is undecided.
pub fn annotations(document: &GateDocument) -> String {
    let line = |figure: &FigureVerdict| {
        let kind = match figure.outcome {
            Outcome::Pass => return None,
            Outcome::Fail => "error",
            Outcome::Undecided if document.passes => "warning",
            Outcome::Undecided => "error",
        };
        let title = format!("{} {} {}", figure.variant_name, figure.state, figure.metric);
        let (file, title) = (property(&document.after), property(&harmless(&title)));
        Some(format!("::{kind} file={file},title={title}::{}\n", message(&harmless(&sentence(document, figure)))))
    };
    document.verdict.figures.iter().filter_map(line).collect()
}

/// Bencher Metric Format: benchmark, measure, value. The interval is that of the change, so it is left out.
pub fn bencher(document: &GateDocument) -> Value {
    let mut all = serde_json::Map::new();
    for (figure, value) in known(document) {
        let measures = all.entry(benchmark(figure)).or_insert_with(|| json!({}));
        measures[format!("{}{}", figure.metric, unit(&figure.metric).1)] = json!({ "value": value });
    }
    Value::Object(all)
}

/// github-action-benchmark, `tool: customSmallerIsBetter`.
pub fn github_benchmark(document: &GateDocument) -> Value {
    let entry = |(figure, value): (&FigureVerdict, f64)| {
        json!({
            "name": format!("{}/{}", benchmark(figure), figure.metric),
            "unit": unit(&figure.metric).0,
            "value": value,
            "extra": sentence(document, figure),
        })
    };
    known(document).map(entry).collect()
}

/// The artifact of Perfherder: a suite for each variant and state, a subtest for each metric.
pub fn perfherder(document: &GateDocument) -> Value {
    let mut suites: Vec<Value> = Vec::new();
    for (figure, value) in known(document) {
        let name = benchmark(figure);
        let subtest = json!({
            "name": figure.metric.to_string(),
            "value": value,
            "unit": unit(&figure.metric).0,
            "lowerIsBetter": true,
        });
        let suite = match suites.iter_mut().position(|suite| suite["name"] == name.as_str()) {
            Some(at) => &mut suites[at],
            None => {
                suites.push(json!({ "name": name, "lowerIsBetter": true, "subtests": [] }));
                suites.last_mut().unwrap_or_else(|| unreachable!("one was pushed"))
            }
        };
        if let Some(subtests) = suite["subtests"].as_array_mut() {
            subtests.push(subtest);
        }
    }
    json!({ "framework": { "name": "thaw" }, "suites": suites })
}

/// The line that Treeherder looks for in a log.
pub fn perfherder_line(document: &GateDocument) -> String {
    format!("PERFHERDER_DATA: {}\n", perfherder(document))
}

/// Figures of the judged side that are known, each with its median in base units.
fn known(document: &GateDocument) -> impl Iterator<Item = (&FigureVerdict, f64)> {
    document.verdict.figures.iter().filter_map(|figure| Some((figure, figure.after?)))
}

fn benchmark(figure: &FigureVerdict) -> String {
    format!("{}/{}", harmless(&figure.variant_name), figure.state)
}

/// The unit, and how a name that has no other place for it says it.
fn unit(metric: &Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Time | Metric::Cpu | Metric::Milestone(_) => ("s", "-seconds"),
        Metric::Bytes | Metric::Memory => ("bytes", "-bytes"),
        _ => ("count", "-count"),
    }
}

/// XML knows no control letters but tab and line end, not even escaped.
fn xml(text: &str) -> String {
    let text = harmless(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
