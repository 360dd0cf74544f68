//! `thaw gate` as text and as Markdown.

use super::compare::markdown_cell;
use super::{GREEN, Page, RED, RESET, YELLOW, errors, harmless, units, why};
use bench::gate::{Bound, FigureVerdict, Metric, Outcome};
use work::gate::{GateDocument, Undecided};

/// The verdict.
pub fn page(document: &GateDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for figure in &document.verdict.figures {
        let (colour, word) = match figure.outcome {
            Outcome::Pass => (GREEN, "pass"),
            Outcome::Fail => (RED, "FAIL"),
            Outcome::Undecided => (YELLOW, "undecided"),
        };
        page.labelled(colour, &format!("{word:<9}  "), &harmless(&figure.text));
    }
    let limits = limits(&document.verdict.figures);
    page.line(&match document.verdict.outcome {
        Outcome::Pass => format!("{GREEN}The gate is passed{RESET} ({limits})."),
        Outcome::Fail => format!("{RED}The gate is not passed{RESET} ({limits})."),
        Outcome::Undecided => {
            format!("{YELLOW}The gate is undecided{RESET} ({limits}): {}", meaning(document.undecided))
        }
    });
    if document.looks > 1 {
        page.remark(&format!("{} looks while runs were added share the error of 5 %.", document.looks));
    }
    let mut warnings = document.warnings.clone();
    if let Some(explained) = &document.why {
        why::explained(&mut page, explained);
        page.gap();
        warnings.extend(explained.warnings.iter().cloned());
    }
    errors::warnings(&mut page, &warnings);
    page
}

/// A figure in words, and why it fails where that is known.
pub fn sentence(document: &GateDocument, figure: &FigureVerdict) -> String {
    let why = document.why_of(figure).map(|starts| format!("; traced starts: {}", starts.difference.text));
    figure.text.clone() + &why.unwrap_or_default()
}

fn meaning(undecided: Undecided) -> &'static str {
    match undecided {
        Undecided::Fail => "exit code 1; --undecided pass would let it through.",
        Undecided::Warn | Undecided::Pass => "exit code 0, as --undecided asks.",
    }
}

/// `limit +5.0 %`, or each metric's own.
fn limits(figures: &[FigureVerdict]) -> String {
    let mut all: Vec<(String, String)> = Vec::new();
    for figure in figures {
        let one = (figure.metric.to_string(), limit(figure));
        if !all.contains(&one) {
            all.push(one);
        }
    }
    match all.as_slice() {
        [] => "no limit".to_owned(),
        [(_, limit), rest @ ..] if rest.iter().all(|(_, other)| other == limit) => format!("limit {limit}"),
        several => {
            let each = several.iter().map(|(metric, limit)| format!("{metric} {limit}"));
            format!("limits: {}", harmless(&each.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// `+5.0 %`, `400 ms`
fn limit(figure: &FigureVerdict) -> String {
    match figure.limit {
        Bound::Growth(share) => units::change(1.0 + share),
        Bound::AtMost(value) => shown(figure, value),
    }
}

/// The verdict as a Markdown table, for the summary of a CI job.
pub fn markdown(document: &GateDocument) -> String {
    let verdict = match document.verdict.outcome {
        Outcome::Pass => "passed",
        Outcome::Fail => "NOT passed",
        Outcome::Undecided => "undecided",
    };
    let mut out = format!("### Start-up: {verdict} ({})\n\n", limits(&document.verdict.figures));
    out.push_str(
        "| | state | figure | before | after | change [95 %] | p | verdict |\n|---|---|---|---:|---:|---:|---:|---|\n",
    );
    for figure in &document.verdict.figures {
        let value = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| shown(figure, value));
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            markdown_cell(&figure.variant_name),
            figure.state,
            markdown_cell(&figure.metric.to_string()),
            match figure.limit {
                Bound::Growth(_) => value(figure.before),
                Bound::AtMost(_) => format!("at most {}", limit(figure)),
            },
            value(figure.after),
            figure.ratio.as_ref().map(units::change_estimate).unwrap_or_default(),
            units::p_value(figure.p_above_of_all),
            match figure.outcome {
                Outcome::Pass => "pass".to_owned(),
                Outcome::Fail => "**FAIL**".to_owned(),
                Outcome::Undecided => format!(
                    "undecided{}",
                    figure.runs_needed.map(|runs| format!(": about {runs} runs needed")).unwrap_or_default()
                ),
            }
        ));
    }
    let explained = document.verdict.figures.iter().filter(|figure| document.why_of(figure).is_some());
    for figure in explained {
        out.push_str(&format!("\n{}\n", markdown_cell(&sentence(document, figure))));
    }
    let (unknown, doubts) =
        document.why.as_ref().map_or((None, &[][..]), |why| (why.unknown.as_ref(), &why.warnings[..]));
    for text in document.warnings.iter().chain(doubts).map(|warning| &warning.text).chain(unknown) {
        out.push_str(&format!("\n> {}\n", markdown_cell(text)));
    }
    out
}

fn shown(figure: &FigureVerdict, value: f64) -> String {
    match figure.metric {
        Metric::Time | Metric::Cpu | Metric::Milestone(_) => units::seconds(value),
        Metric::Bytes | Metric::Memory => units::bytes_f(value),
        _ => units::count_f(value),
    }
}
