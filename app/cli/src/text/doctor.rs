//! `thaw doctor` as text.

use super::{GREEN, Page, RED, YELLOW, harmless, without_numbers};
use work::doctor::{Ability, DoctorDocument, Leftover};

/// What works, what does not, what is left.
pub fn page(document: &DoctorDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.heading("What this machine can measure");
    for ability in &document.abilities {
        line(&mut page, ability);
    }
    page.heading("What killed runs left");
    if document.leftovers.is_empty() {
        page.labelled(GREEN, "ok       ", "nothing");
    }
    for leftover in &document.leftovers {
        left(&mut page, leftover);
    }
    for refused in &document.refused {
        page.labelled(RED, "refused  ", &harmless(&format!("{}: {}", refused.path, refused.why)));
        page.labelled("", "           hint: ", &harmless(&refused.hint));
    }
    if let Some(kept) = document.kept.as_ref().filter(|kept| kept.files > 0) {
        page.heading("What is kept between runs");
        let text = format!("{}: {} in files: {}", harmless(&kept.directory), model::Bytes(kept.bytes), kept.files);
        page.labelled(GREEN, "ok       ", &text);
        page.labelled("", "           empty it: ", "thaw doctor --empty");
    }
    if !document.held.is_empty() {
        page.heading("What recordings hold just now");
    }
    for holder in &document.held {
        page.labelled(GREEN, "held     ", &harmless(&holder.to_string()));
    }
    if !document.installed.is_empty() || !document.unreadable.is_empty() {
        page.heading("What was installed");
    }
    for problem in &document.unreadable {
        page.labelled(RED, "unknown  ", &without_numbers(&harmless(problem)));
    }
    for installed in &document.installed {
        page.labelled(GREEN, "ok       ", &harmless(&installed.files.join(", ")));
        page.labelled("", "           undo: ", &harmless(&installed.undo));
    }
    if !document.packed.is_empty() {
        page.heading("What is packed in place");
        super::elf::installed(&mut page, &document.packed);
    }
    if !document.optimized.is_empty() {
        page.heading("What is optimised");
    }
    for applied in &document.optimized {
        page.labelled(GREEN, "ok       ", &harmless(&model::shown(&applied.root)));
        super::optimize::list(&mut page, applied);
        page.labelled(
            "",
            "           undo: ",
            &harmless(&format!("thaw optimize --undo {}", model::shown(&applied.directory))),
        );
    }
    page
}

fn line(page: &mut Page, ability: &Ability) {
    let (colour, word) = if ability.works { (GREEN, "ok       ") } else { (YELLOW, "missing  ") };
    let detail = if ability.detail.is_empty() {
        String::new()
    } else {
        format!(" ({})", without_numbers(&harmless(&ability.detail)))
    };
    page.labelled(colour, word, &format!("{}: {}{detail}", ability.name, ability.purpose));
    if let Some(hint) = &ability.hint {
        page.labelled("", "           hint: ", &harmless(hint));
    }
}

fn left(page: &mut Page, leftover: &Leftover) {
    let text = format!("{} (by process {})", harmless(&leftover.what), leftover.pid);
    match (&leftover.mended, &leftover.problem) {
        (true, _) => page.labelled(GREEN, "mended   ", &text),
        (false, Some(problem)) => {
            page.labelled(RED, "stays    ", &format!("{text}: {}", without_numbers(&harmless(problem))))
        }
        (false, None) => page.labelled(RED, "left     ", &text),
    }
    if !leftover.mended {
        page.labelled("", "           hint: ", "thaw doctor --mend");
    }
}
