//! What was rewritten, put back or compared, as text.

use super::{left_out, more, share};
use crate::text::table::{Align, Table};
use crate::text::{GREEN, Page, RED, YELLOW, harmless, units, without_numbers};
use model::Bytes;
use pack::passes::{Outcome as PassOutcome, Report};
use pack::{Fixed, Installed, Outcome, Packed, Plan, Refusal, Space, Standing, Why};
use std::cmp::Ordering;
use verify::Verdict;
use work::rewrite::Written;
use work::rewrite::fix_relr::FixRelrDocument;
use work::rewrite::pack::{End, FileOutcome, PackDocument};
use work::rewrite::restore::RestoreDocument;
use work::rewrite::verify::VerifyDocument;

/// `thaw elf pack`; `rows` of each table.
pub fn pack(document: &PackDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    match document.files.as_slice() {
        [file] if document.single => one(&mut page, file, document.plan_only),
        files => many(&mut page, document, files, rows),
    }
    page
}

fn one(page: &mut Page, file: &FileOutcome, plan_only: bool) {
    match &file.end {
        End::Outcome(Outcome::Packed(packed)) => {
            let would = if plan_only { "would be packed" } else { "is packed" };
            page.paragraph(&format!("{} {would}: {}.", harmless(&file.path), sizes(packed)));
            page.paragraph(&format!(
                "{} of {} relative relocations are in the packed table; the tables take {} instead of {}.",
                units::count(packed.relocations.packed),
                units::count(packed.relocations.relative),
                units::bytes(packed.relocations.table_after + packed.relocations.relr),
                units::bytes(packed.relocations.table_before),
            ));
            for kept in &packed.relocations.kept {
                page.paragraph(&format!("{} stay as they were: {}.", units::count(kept.count), why(kept.why)));
            }
            packed.passes.iter().for_each(|report| pass(page, report));
            match &file.written {
                Some(Written::To(path)) => {
                    page.paragraph(&format!("It is in {}, compared with the original.", harmless(path)))
                }
                Some(Written::InPlace) => page.paragraph(&format!(
                    "It is compared with the original, which is kept: thaw elf restore {}",
                    harmless(&file.path)
                )),
                None => plan(page, &packed.plan),
            }
            packed.notes.iter().for_each(|note| page.labelled(YELLOW, "note: ", &harmless(note)));
        }
        End::Outcome(Outcome::Refused(refusal)) => refused(page, refusal),
        End::Failed(problem) => page.labelled(RED, "failed: ", &without_numbers(&harmless(problem))),
    }
}

/// What a further pass did, and what it left.
fn pass(page: &mut Page, report: &Report) {
    let name = format!("--{}: ", name_of(&report.pass));
    match &report.outcome {
        PassOutcome::Done { sentence, .. } => page.labelled(GREEN, &name, &harmless(sentence)),
        PassOutcome::CostsMore { sentence, .. } => {
            page.labelled(YELLOW, &name, &format!("costs more than it saves here: {}", harmless(sentence)));
        }
        PassOutcome::NotDone { sentence } => page.labelled(YELLOW, &name, &format!("not done: {}", harmless(sentence))),
    }
    for withheld in &report.withheld {
        let because = withheld.example.file.as_ref().map_or_else(String::new, |file| format!(", because of {file}"));
        page.labelled(
            "",
            "   left: ",
            &harmless(&format!(
                "{} ({}), first {}{because}",
                units::count(withheld.count),
                name_of(&withheld.why),
                withheld.example.symbol
            )),
        );
    }
}

/// The name of a choice as JSON has it.
fn name_of(choice: &impl serde::Serialize) -> String {
    serde_json::to_value(choice).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn refused(page: &mut Page, refusal: &Refusal) {
    page.labelled(YELLOW, "refused: ", &format!("{} ({})", harmless(&refusal.sentence), refusal.reason.name()));
    if let Some(hint) = &refusal.hint {
        page.labelled("", "   hint: ", &harmless(hint));
    }
}

/// `296.7 MB before, 270.6 MB after (-8.8 %)`
fn sizes(packed: &Packed) -> String {
    let (before, after) = (packed.size_before, packed.size_after);
    let freed = match packed.space {
        Space::Shrink => String::new(),
        Space::Keep => format!("; {} inside are zero now", units::bytes(packed.freed)),
        Space::Punch => format!("; {} inside are given back to the file system", units::bytes(packed.freed)),
    };
    format!("{} before, {} after ({}){freed}", units::bytes(before), units::bytes(after), change(before, after))
}

/// What became of a size, in bytes and as a share.
fn change(before: Bytes, after: Bytes) -> String {
    let of = |sign: char, by: Bytes| format!("{sign}{} bytes, {sign}{}", units::count(by.0), share(by.0, before.0));
    match before.cmp(&after) {
        Ordering::Greater => of('-', before - after),
        Ordering::Equal => "the same size".to_owned(),
        Ordering::Less => of('+', after - before),
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::OddAddress => "at an odd address, for which the packed form has no place",
        Why::NotInFile => "for a word that is not in the file",
        Why::ReadOnly => "for a word that cannot be written while loading",
        Why::Overlap => "for a word that another relocation touches too",
        Why::Symbol => "with a symbol",
        Why::ThreadLocal => "in the template of thread-local data, which is copied before any initialiser runs",
        Why::MayBeCopied => "in objects that programs may copy before any initialiser runs",
    }
}

fn plan(page: &mut Page, plan: &Plan) {
    let address = |address: Option<u64>| address.map_or_else(String::new, |address| format!("{address:#x}"));
    page.heading("Tables of the loader");
    let mut table = Table::new([
        ("table", Align::Left),
        ("address", Align::Right),
        ("new", Align::Right),
        ("bytes", Align::Right),
        ("new", Align::Right),
    ]);
    for blob in &plan.blobs {
        table.row([
            harmless(&blob.name),
            address(blob.from),
            address(Some(blob.to)),
            units::count(blob.len_before.0),
            units::count(blob.len_after.0),
        ]);
    }
    page.table(&table);
    page.heading("Segments");
    let mut table = Table::new([
        ("address", Align::Right),
        ("offset in the file", Align::Right),
        ("new", Align::Right),
        ("bytes", Align::Right),
    ]);
    for segment in &plan.segments {
        table.row([
            address(Some(segment.address)),
            address(segment.from.map(|offset| offset.0)),
            address(Some(segment.to.0)),
            units::count(segment.len.0),
        ]);
    }
    page.table(&table);
    page.heading("Dynamic table");
    let mut table = Table::new([("entry", Align::Left), ("value", Align::Right), ("new", Align::Right)]);
    for edit in &plan.dynamic {
        table.row([harmless(&edit.name), address(edit.from), address(edit.to)]);
    }
    page.table(&table);
}

fn many(page: &mut Page, document: &PackDocument, files: &[FileOutcome], rows: usize) {
    let sum = &document.summary;
    let mut packed: Vec<(&FileOutcome, &Packed)> = Vec::new();
    for file in files {
        if let End::Outcome(Outcome::Packed(done)) = &file.end {
            packed.push((file, done));
        }
    }
    packed.sort_by_key(|(_, done)| std::cmp::Reverse(done.size_before - done.size_after + done.freed));
    if !packed.is_empty() {
        let mut table = Table::new([
            ("saved", Align::Right),
            ("of file", Align::Right),
            ("relocations", Align::Right),
            ("tables", Align::Right),
            ("new", Align::Right),
            ("file", Align::Elastic),
        ]);
        for (file, done) in packed.iter().take(rows) {
            let saved = done.size_before - done.size_after + done.freed;
            table.row([
                units::bytes(saved),
                share(saved.0, done.size_before.0),
                units::count(done.relocations.packed),
                units::bytes(done.relocations.table_before),
                units::bytes(done.relocations.table_after + done.relocations.relr),
                harmless(&file.path),
            ]);
        }
        page.table(&table);
        more(page, packed.len(), rows);
        page.gap();
    }
    let would = match (document.plan_only, sum.files) {
        (true, _) => "would be packed",
        (false, 1) => "is packed",
        (false, _) => "are packed",
    };
    page.paragraph(&format!(
        "{} of {} {would}: {} before, {} after{}.",
        units::count(sum.packed),
        units::plural(sum.files, "ELF file", "ELF files"),
        units::bytes(sum.size_before),
        units::bytes(sum.size_after),
        if sum.freed > Bytes(0) { format!("; {} are free inside", units::bytes(sum.freed)) } else { String::new() },
    ));
    if sum.relative > 0 {
        page.paragraph(&format!(
            "{} of {} relative relocations of these files are in packed tables ({:.2} %); the tables take {} instead \
             of {}.",
            units::count(sum.relocations_packed),
            units::count(sum.relative),
            sum.relocations_packed as f64 / sum.relative as f64 * 100.0,
            units::bytes(sum.tables_after),
            units::bytes(sum.tables_before),
        ));
    }
    if sum.packed > 0 && !document.plan_only {
        match document.files.iter().any(|file| matches!(file.written, Some(Written::InPlace))) {
            true => page.paragraph("Each was compared with its original, which is kept: thaw elf restore --all"),
            false => page.paragraph("Each was compared with its original."),
        }
    }
    if !sum.refused.is_empty() {
        page.heading("Refused");
        let mut reasons: Vec<_> = sum.refused.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut table =
            Table::new([("files", Align::Right), ("reason", Align::Left), ("for example", Align::Sentence)]);
        for (reason, count) in reasons {
            let example = files.iter().find_map(|file| match &file.end {
                End::Outcome(Outcome::Refused(refusal)) if refusal.reason == *reason => Some(refusal.sentence.clone()),
                _ => None,
            });
            table.row([units::count(*count), reason.name(), harmless(&example.unwrap_or_default())]);
        }
        page.table(&table);
    }
    if sum.failed > 0 {
        page.heading("Failed");
        for file in files {
            if let End::Failed(problem) = &file.end {
                page.labelled(RED, "failed: ", &without_numbers(&harmless(problem)));
            }
        }
    }
    left_out(page, &document.left_out, rows);
}

/// `thaw elf restore`
pub fn restore(document: &RestoreDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for restored in &document.restored {
        let path = harmless(&model::shown(&restored.path));
        page.labelled(
            GREEN,
            "restored  ",
            &format!("{path}: {} (packed: {})", units::bytes(restored.size), units::bytes(restored.size_packed)),
        );
    }
    for left in &document.left {
        page.labelled(RED, "stays     ", &without_numbers(&harmless(&left.problem)));
        if let Some(hint) = &left.hint {
            page.labelled("", "    hint: ", &harmless(hint));
        }
    }
    if document.restored.is_empty() && document.left.is_empty() {
        page.line("No file is packed in place.");
    }
    page
}

/// `thaw elf fix-relr`
pub fn fix_relr(document: &FixRelrDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let path = harmless(&document.path);
    match &document.outcome {
        Fixed::Added { size_before, size_after, .. } => {
            page.paragraph(&format!(
                "{path} asks for GLIBC_ABI_DT_RELR now: {} before, {} after.",
                units::bytes(*size_before),
                units::bytes(*size_after)
            ));
            match &document.written {
                Some(Written::To(to)) => page.paragraph(&format!("It is in {}.", harmless(to))),
                _ => page.paragraph(&format!("The original is kept: thaw elf restore {path}")),
            }
        }
        Fixed::Sound { sentence } => page.paragraph(&format!("{path}: {}. Nothing was written.", harmless(sentence))),
        Fixed::Refused(refusal) => refused(&mut page, refusal),
    }
    page
}

/// `thaw elf verify`
pub fn verify(document: &VerifyDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let (original, packed) = (harmless(&document.original), harmless(&document.packed));
    let checked = document.offline.checked;
    match document.agrees {
        true => page.labelled(GREEN, "same: ", &format!("{packed} means what {original} means.")),
        false => page.labelled(RED, "differs: ", &format!("{packed} does not mean what {original} means.")),
    }
    page.paragraph(&format!(
        "Compared at every address: {} of memory and sections, {} relative relocations, {} others, {} symbols.",
        units::bytes(checked.bytes),
        units::count(checked.relative),
        units::count(checked.relocations),
        units::count(checked.symbols)
    ));
    differences(&mut page, "In memory", &document.offline);
    if let Some(live) = &document.live {
        page.paragraph(&format!(
            "Loaded by this machine's loader: {} of memory compared.",
            units::bytes(live.checked.bytes)
        ));
        differences(&mut page, "Loaded", live);
    }
    if let Some(hint) = &document.hint {
        page.labelled("", "hint: ", hint);
    }
    page
}

fn differences(page: &mut Page, heading: &str, verdict: &Verdict) {
    if verdict.agrees() {
        return;
    }
    page.heading(&format!("{heading}: {}", units::plural(verdict.total, "difference", "differences")));
    for difference in &verdict.differences {
        page.line(&harmless(&difference.to_string()));
    }
    let rest = verdict.total - verdict.differences.len() as u64;
    if rest > 0 {
        page.remark(&format!("and {} more", units::count(rest)));
    }
}

/// Files that were packed in place, for `thaw doctor`.
pub fn installed(page: &mut Page, installed: &[Installed]) {
    for file in installed {
        let path = harmless(&model::shown(&file.path));
        let (colour, what) = match file.standing {
            Standing::Packed => (GREEN, "is packed; its original is kept"),
            Standing::Original => (YELLOW, "is its original again; a copy of that is still kept"),
            Standing::Changed => (YELLOW, "was changed since it was packed; its original is still kept"),
            Standing::Gone => (YELLOW, "is gone; its original is still kept"),
        };
        let (before, after) = (units::bytes(file.size_before), units::bytes(file.size_after));
        page.labelled(colour, "packed   ", &format!("{path} {what} ({before} before, {after} after)"));
        let hint = match file.standing {
            Standing::Packed | Standing::Original => format!("thaw elf restore {path}"),
            // Restoring would undo what others did since, and refuses.
            Standing::Changed | Standing::Gone => {
                format!("the original is kept as {}", harmless(&model::shown(&file.original)))
            }
        };
        page.labelled("", "           hint: ", &hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_smaller_larger_or_the_same() {
        assert_eq!(change(Bytes(1000), Bytes(900)), "-100 bytes, -10.0 %");
        assert_eq!(change(Bytes(1000), Bytes(1070)), "+70 bytes, +7.0 %");
        assert_eq!(change(Bytes(1000), Bytes(1000)), "the same size");
    }
}
