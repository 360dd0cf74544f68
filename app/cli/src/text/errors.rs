//! Errors, warnings and hints as text. An error is printed once, by `main`.

use super::{Page, RED, RESET, YELLOW, harmless, without_numbers};
use model::{Error, Warning};
use std::sync::atomic::{AtomicBool, Ordering};

/// `thaw: <what> '<object>': <cause>`, then `hint: ...`.
pub fn error(error: &Error) -> String {
    let mut out = format!("{RED}thaw:{RESET} {}\n", multi_line(&error.to_string()));
    for hint in error.hint.iter().flat_map(|hint| hint.lines()) {
        out.push_str(&format!("{YELLOW}hint:{RESET} {}\n", harmless(hint)));
    }
    out
}

/// So many warnings are printed whole in any case.
const FEW: usize = 2;

/// How much of a warning is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One line each, where there are many.
    Folded,
    /// All of it, and what to do about it.
    Whole,
}

/// Chosen once for the process, as the colours are.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// Decides how warnings are printed.
pub fn set_detail(detail: Detail) {
    WHOLE.store(detail == Detail::Whole, Ordering::Relaxed);
}

/// Warnings one under the other, in as much detail as was chosen; the same text is said once.
pub fn warnings(page: &mut Page, warnings: &[Warning]) {
    let detail = if WHOLE.load(Ordering::Relaxed) { Detail::Whole } else { Detail::Folded };
    warnings_in(page, warnings, detail);
}

fn warnings_in(page: &mut Page, warnings: &[Warning], detail: Detail) {
    let mut distinct: Vec<&Warning> = Vec::new();
    for warning in warnings {
        if !distinct.iter().any(|said| said.text == warning.text) {
            distinct.push(warning);
        }
    }
    let detail = if distinct.len() > FEW { detail } else { Detail::Whole };
    let mut more = false;
    for warning in distinct {
        let text = without_numbers(&harmless(&warning.text));
        if detail == Detail::Folded {
            more |= page.folded(YELLOW, "warning: ", &text) || warning.hint.is_some();
            continue;
        }
        page.labelled(YELLOW, "warning: ", &text);
        for hint in warning.hint.iter().flat_map(|hint| hint.lines()) {
            page.labelled("", "   hint: ", &harmless(hint));
        }
    }
    if more {
        page.remark("--verbose says what to do about them");
    }
}

/// A panic: a bug of ours, said as one.
pub fn bug(panic: &str) -> String {
    format!(
        "{RED}thaw:{RESET} a bug: {}\n{YELLOW}hint:{RESET} please report it with the command line; {}\n",
        multi_line(panic),
        "`thaw doctor` says whether something must be put back"
    )
}

/// One warning for stderr, outside a report.
pub fn warning_line(text: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!("{YELLOW}hint:{RESET} {}\n", harmless(hint))).unwrap_or_default();
    format!("{YELLOW}warning:{RESET} {}\n{hint}", harmless(text))
}

/// A mistake on the command line, from the parser's own words: its tips become hints, its usage line stays. What we
/// know better goes in the place of its tips.
pub fn usage(rendered: &str, better: Option<&str>) -> String {
    let mut out = String::new();
    for line in rendered.lines().filter(|line| !line.trim().is_empty()) {
        let text = line.trim();
        match (text.strip_prefix("error: "), text.strip_prefix("tip: ")) {
            (Some(error), _) => out.push_str(&format!("{RED}thaw:{RESET} {error}\n")),
            (_, Some(_)) if better.is_some() => {}
            (_, Some(tip)) => out.push_str(&format!("{YELLOW}hint:{RESET} {tip}\n")),
            _ if text.starts_with("For more information") => {}
            _ => out.push_str(&format!("{}\n", line.trim_end())),
        }
    }
    let last = better.unwrap_or("--help explains every option");
    out.push_str(&format!("{YELLOW}hint:{RESET} {}\n", harmless(last)));
    out
}

/// A cause may have lines of its own (what a program printed last); each is kept harmless.
fn multi_line(text: &str) -> String {
    without_numbers(&text.lines().map(harmless).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Exit, WarningKind};

    fn plain(text: &str) -> String {
        [RED, YELLOW, RESET].iter().fold(text.to_owned(), |text, code| text.replace(code, ""))
    }

    #[test]
    fn an_error_is_one_line_and_its_hints() {
        let it = Error::new(Exit::Usage, "no preset of this name", "netscape").hint("there are a, b\nwrite your own");
        assert_eq!(
            plain(&error(&it)),
            "thaw: no preset of this name 'netscape'\nhint: there are a, b\nhint: write your own\n"
        );
    }

    #[test]
    fn a_warning_is_said_once() {
        let mut page = Page::new(80);
        let warning = Warning::new(WarningKind::Drift, "runs get slower").hint("--restore DIR");
        warnings_in(&mut page, &[warning.clone(), warning], Detail::Whole);
        assert_eq!(plain(page.text()), "warning: runs get slower\n   hint: --restore DIR\n");
    }

    #[test]
    fn many_warnings_are_one_line_each() {
        let text = |count: usize| {
            let warning = |number| {
                Warning::new(WarningKind::Drift, format!("{number} runs get slower and slower")).hint("--runs")
            };
            let mut page = Page::new(24);
            warnings_in(&mut page, &(0..count).map(warning).collect::<Vec<_>>(), Detail::Folded);
            plain(page.text()).replace("\x1b[2m", "")
        };
        assert_eq!(text(1), "warning: 0 runs get slower\n         and slower\n   hint: --runs\n");
        let folded = "warning: 0 runs get slower a…\nwarning: 1 runs get slower a…\nwarning: 2 runs get slower a…\n";
        assert_eq!(text(3), format!("{folded}--verbose says what to\ndo about them\n"));
    }
}
