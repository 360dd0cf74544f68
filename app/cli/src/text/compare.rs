//! `thaw compare` as text.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use bench::report::{Comparison, StateComparison};
use model::Warning;
use work::compare::CompareDocument;

/// A ratio whose interval contains 1 and stays this close to it is called no difference.
const CLOSE: f64 = 0.1;

/// The comparison of two recordings.
pub fn page(document: &CompareDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let (comparison, why) = (&document.comparison, document.why.as_ref());
    for state in &comparison.states {
        page.paragraph(&sentence(state));
    }
    page.heading("Medians until ready");
    let mut table = Table::new([
        ("", Align::Elastic),
        ("before", Align::Right),
        ("[95 %]", Align::Left),
        ("after", Align::Right),
        ("[95 %]", Align::Left),
        ("ratio", Align::Right),
        ("[95 %]", Align::Left),
        ("", Align::Left),
        ("runs", Align::Right),
    ]);
    for state in &comparison.states {
        let (ratio, interval) = units::ratio(&state.ratio);
        table.row([
            state_name(state),
            units::seconds(state.before_s.value),
            units::interval_s(&state.before_s).unwrap_or_default(),
            units::seconds(state.after_s.value),
            units::interval_s(&state.after_s).unwrap_or_default(),
            ratio,
            interval,
            units::p_value(state.p),
            format!("{}/{}", state.before_runs, state.after_runs),
        ]);
    }
    page.table(&table.without_empty_columns());
    metrics(&mut page, comparison);
    if !comparison.differences.is_empty() {
        page.heading("What the change did to the cost of a cold cache");
        for difference in &comparison.differences {
            page.paragraph(&format!(
                "{}: {}",
                harmless(&difference.what),
                units::difference_s(&difference.difference_s)
            ));
        }
    }
    if let Some(why) = why {
        super::why::explained(&mut page, why);
    }
    changed(&mut page, comparison);
    let doubts = why.map_or(&[][..], |why| &why.warnings);
    let warnings: Vec<Warning> = comparison.warnings.iter().chain(doubts).cloned().collect();
    if !warnings.is_empty() {
        page.gap();
        errors::warnings(&mut page, &warnings);
    }
    page
}

/// `cold: faster after, -12.3 % [-14.9 %, -9.8 %].`
fn sentence(state: &StateComparison) -> String {
    let name = state_name(state);
    let change = units::change_estimate(&state.ratio);
    let Some(interval) = state.ratio.interval else { return format!("{name}: too few runs to say.") };
    if interval.high < 1.0 {
        format!("{name}: faster after, {change}.")
    } else if interval.low > 1.0 {
        format!("{name}: slower after, {change}.")
    } else if interval.high < 1.0 + CLOSE && interval.low > 1.0 / (1.0 + CLOSE) {
        format!("{name}: no difference, {change}.")
    } else {
        format!("{name}: these runs cannot tell, {change}.")
    }
}

fn state_name(state: &StateComparison) -> String {
    if state.before_name == state.after_name {
        format!("{} {}", harmless(&state.after_name), state.state)
    } else {
        format!("{} -> {} {}", harmless(&state.before_name), harmless(&state.after_name), state.state)
    }
}

fn metrics(page: &mut Page, comparison: &Comparison) {
    let mut table = Table::new([
        ("", Align::Elastic),
        ("figure", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
    ]);
    for state in &comparison.states {
        for metric in &state.metrics {
            table.row([
                state_name(state),
                metric_name(&metric.metric),
                metric_value(&metric.metric, metric.before),
                metric_value(&metric.metric, metric.after),
                metric.ratio.map(units::change).unwrap_or_default(),
            ]);
        }
    }
    if !table.is_empty() {
        page.heading("Beside the time (medians)");
        page.table(&table);
    }
}

/// `read_bytes` as people say it.
fn metric_name(metric: &str) -> String {
    metric.trim_end_matches("_s").trim_end_matches("_bytes").replace('_', " ")
}

fn metric_value(metric: &str, value: f64) -> String {
    if metric.ends_with("_s") {
        units::seconds(value)
    } else if metric.ends_with("_bytes") {
        units::bytes_f(value)
    } else {
        units::count_f(value)
    }
}

fn changed(page: &mut Page, comparison: &Comparison) {
    if comparison.changed.is_empty() {
        return;
    }
    page.heading("What differs between the machines");
    let mut table = Table::new([("", Align::Left), ("before", Align::Left), ("after", Align::Elastic)]);
    for fact in &comparison.changed {
        let shown = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), harmless);
        table.row([harmless(&fact.name), shown(&fact.before), shown(&fact.after)]);
    }
    page.table(&table);
}

/// Text that does not end its cell.
pub fn markdown_cell(text: &str) -> String {
    harmless(text).replace('\\', "\\\\").replace('|', "\\|")
}
