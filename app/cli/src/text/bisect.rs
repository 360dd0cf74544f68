//! `thaw bisect` as text.

use super::history::short;
use super::{BOLD, GREEN, Page, RED, RESET, YELLOW, harmless, units};
use work::bisect::{BisectDocument, Looked, Mark};

/// What was looked at, and the answer.
pub fn page(document: &BisectDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let ends = format!("the slow end, {}", name(&document.bad));
    line(&mut page, &document.bad, &ends);
    for looked in &document.looked {
        line(&mut page, looked, &name(looked));
    }
    page.gap();
    let Some(first) = &document.first_bad else {
        match document.candidates.len() {
            0 => {
                page.line(&format!("{YELLOW}The two ends do not differ for certain.{RESET}"));
                page.paragraph("Name ends that lie further apart, another --metric, or a larger --budget.");
            }
            count => {
                let count = units::plural(count as u64, "commit", "commits");
                page.line(&format!(
                    "{YELLOW}One of {count} is the first bad one; the others could not be judged:{RESET}"
                ));
                document.candidates.iter().for_each(|id| page.line(&format!("  {}", harmless(id))));
            }
        }
        return page;
    };
    let commit = &first.commit;
    page.line(&format!("{BOLD}{}{RESET} is the first bad commit of {}:", commit.id, document.between + 1));
    page.paragraph(&harmless(&commit.subject));
    for figure in &first.figures {
        page.paragraph(&format!("Against {}: {}.", short(&document.good.id), harmless(&figure.text)));
    }
    page
}

fn line(page: &mut Page, looked: &Looked, name: &str) {
    let (colour, word) = match looked.mark {
        Mark::Good => (GREEN, "good"),
        Mark::Bad => (RED, "bad"),
        Mark::Skip => (YELLOW, "skipped"),
    };
    let why = match (&looked.because, looked.figures.first()) {
        (Some(because), _) => harmless(because),
        (None, Some(_)) => looked.figures.iter().map(|figure| harmless(&figure.text)).collect::<Vec<_>>().join("; "),
        (None, None) => String::new(),
    };
    page.labelled(colour, &format!("{word:<7}  "), &format!("{name}: {why}"));
}

fn name(looked: &Looked) -> String {
    format!("{} {}", short(&looked.commit.id), harmless(&looked.commit.subject))
}
