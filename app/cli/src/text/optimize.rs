//! `thaw optimize` as text.

use super::table::{Align, Table};
use super::{GREEN, Page, YELLOW, harmless, units, without_numbers};
use model::{Bytes, shown};
use optimize::applied::Applied;
use optimize::choose::Verdict;
use optimize::manifest::{Manifest, Tried};
use optimize::remedy::{Remedy, name_of};
use std::path::Path;
use work::optimizing::apply::AppliedDocument;
use work::shell::command_line;

/// What would be done.
pub fn plan(manifest: &Manifest, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&format!(
        "{}, from the state {} on the disk {} ({}).",
        harmless(&shown(&manifest.root.join(&manifest.program))),
        manifest.state,
        harmless(&manifest.disk),
        manifest.disk_because
    ));
    page.heading("What may help");
    if manifest.tried.is_empty() {
        page.line("nothing that thaw can do");
    }
    let mut table = Table::new([
        ("remedy", Align::Left),
        ("predicted start", Align::Right),
        ("saves", Align::Right),
        ("what it changes", Align::Sentence),
    ]);
    for tried in &manifest.tried {
        let what = match tried.set.first() {
            Some(remedy) if tried.set.len() == 1 => remedy.changes(),
            _ => "all of them",
        };
        let (after, gain) =
            tried.predicted.map_or_else(Default::default, |it| (units::seconds(it.after_s), saves(it.ratio)));
        table.row([name_of(&tried.set), after, gain, what.to_owned()]);
    }
    if !table.is_empty() {
        page.table(&table.without_empty_columns());
        if let Some(predicted) = manifest.tried.iter().find_map(|tried| tried.predicted) {
            let before = units::seconds(predicted.before_s);
            page.remark(&format!("as it is: {before} on this disk, by the disk model"));
        }
    }
    limit(&mut page, manifest);
    for tried in manifest.tried.iter().filter(|tried| !tried.changes.is_empty()) {
        page.heading(&format!("What {} would change", name_of(&tried.set)));
        tried.changes.iter().for_each(|change| page.line(&harmless(change)));
    }
    rest(&mut page, manifest);
    page
}

/// The same, and how to go on.
pub fn plan_alone(manifest: &Manifest, width: usize) -> Page {
    let mut page = plan(manifest, width);
    if !manifest.tried.is_empty() {
        let recording = command_line(&[manifest.recording.clone().into()]);
        page.gap();
        page.line(&format!("Build and measure it: thaw optimize {} -o DIR", harmless(&recording)));
    }
    page
}

/// What was measured and kept.
pub fn result(manifest: &Manifest, out: &Path, width: usize) -> Page {
    let mut page = Page::new(width);
    page.heading("Predicted and measured");
    let mut table = Table::new([
        ("remedy", Align::Left),
        ("predicted", Align::Right),
        ("measured", Align::Right),
        ("95 %", Align::Left),
        ("verdict", Align::Left),
    ]);
    for tried in &manifest.tried {
        let (value, interval) = tried.measured.as_ref().map(units::ratio).unwrap_or_default();
        table.row([
            name_of(&tried.set),
            tried.predicted.map_or_else(String::new, |it| format!("{:.2}", it.ratio)),
            value,
            interval,
            verdict(manifest, tried).to_owned(),
        ]);
    }
    page.table(&table.without_empty_columns());
    page.remark(&format!(
        "time over that of the original: below 1 is faster; {} in a round, from the state {}, on the disk {}",
        units::plural(manifest.runs.into(), "run of each", "runs of each"),
        manifest.state,
        harmless(&manifest.disk)
    ));
    limit(&mut page, manifest);
    image(&mut page, manifest);
    page.gap();
    let place = harmless(&shown(out));
    match manifest.kept.is_empty() {
        true => {
            page.labelled(YELLOW, "nothing helped: ", &format!("{place} holds the report alone."));
        }
        false => {
            let kept = format!("{place} has {}; {place}/run starts it.", name_of(&manifest.kept));
            page.labelled(GREEN, "kept: ", &kept);
            if has_image(manifest) {
                let image = harmless(&command_line(&[out.join("start.image").into()]));
                page.line(
                    "As root. Another user starts without the image, and is told so, until it is mounted for all:",
                );
                page.line(&format!("  sudo thaw image install {image} --system"));
            }
            if !has_image(manifest) || manifest.kept.len() > 1 {
                page.line(&format!("For the program itself: thaw optimize --apply {place}"));
            }
        }
    }
    page.line(&format!("Every start: {place}/report.html"));
    rest(&mut page, manifest);
    page
}

fn has_image(manifest: &Manifest) -> bool {
    manifest.kept.contains(&Remedy::Image)
}

/// What an image costs.
fn image(page: &mut Page, manifest: &Manifest) {
    let Some(cost) = manifest.image.as_ref().and_then(|image| image.cost.as_ref()) else { return };
    page.heading("What an image costs");
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(|| "unknown".to_owned(), units::bytes);
    let seconds = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), units::seconds);
    page.line(&format!(
        "on the disk {}, of which a start needs the first {}",
        units::bytes(cost.size),
        units::bytes(cost.stretch)
    ));
    page.line(&format!(
        "a hot start {}, and {} without it: it is mounted and unpacked anew for each start",
        seconds(cost.hot_with_s),
        seconds(cost.hot_without_s)
    ));
    page.line(&format!(
        "page cache after a start {} of its files and {} of the image, and {} of the directory without it",
        bytes(cost.memory_files),
        bytes(cost.memory_image),
        bytes(cost.memory_without)
    ));
}

/// What no remedy of reads can beat, and how near to it is what was measured.
fn limit(page: &mut Page, manifest: &Manifest) {
    let Some(limit) = manifest.limit else { return };
    let seconds = units::seconds(limit.seconds());
    let why = match limit.reading_s > limit.computing_s {
        true => format!("the disk takes that long for the {} that a start needs, in one stretch", limit.needed),
        false => "that is left when nothing has to be read".to_owned(),
    };
    let near = manifest.kept_s.filter(|_| limit.seconds() > 0.0).map_or_else(String::new, |kept| {
        let what = if manifest.kept.is_empty() { "the original" } else { "what is kept" };
        format!("; {what} was measured at {}, {:.2} times that", units::seconds(kept), kept / limit.seconds())
    });
    page.remark(&format!("limit of what reading can gain: {seconds}, by the disk model: {why}{near}"));
}

fn verdict(manifest: &Manifest, tried: &Tried) -> &'static str {
    match tried.verdict {
        _ if tried.set == manifest.kept => "helps: kept",
        Some(Verdict::Helps) if tried.set.len() > manifest.kept.len() => "helps, but is not proven better: dropped",
        Some(Verdict::Helps) => "helps less: dropped",
        Some(Verdict::NoProvenGain) => "no proven gain: dropped",
        Some(Verdict::Harms) => "harms: dropped",
        None => "not measured",
    }
}

/// `31 %`; below 0 it is slower.
fn saves(ratio: f64) -> String {
    units::percent((1.0 - ratio).max(-9.99))
}

/// Advice and notes.
fn rest(page: &mut Page, manifest: &Manifest) {
    if !manifest.advice.is_empty() {
        page.heading("What else could be done");
    }
    for advice in &manifest.advice {
        let gain = advice
            .predicted
            .as_ref()
            .map_or_else(String::new, |gain| format!("; that should save {} of the start", saves(gain.ratio)));
        page.paragraph(&harmless(&format!("{}{gain}", advice.what)));
        page.labelled("", "   hint: ", &harmless(&advice.command));
    }
    if !manifest.notes.is_empty() {
        page.heading("Notes");
        manifest.notes.iter().for_each(|note| page.paragraph(&without_numbers(&harmless(note))));
    }
}

/// What was applied or undone.
pub fn applied(document: &AppliedDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line(if document.applied { "Applied:" } else { "Undone:" });
    list(&mut page, &document.what);
    for path in &document.kept {
        page.labelled(YELLOW, "warning: ", &format!("{} was changed by others since, and stays", harmless(path)));
    }
    if let Some(image) = &document.image {
        let file = harmless(&command_line(&[image.clone().into()]));
        let text = format!("the image {file} is not applied: it changes no file of the program");
        page.labelled(YELLOW, "warning: ", &text);
        match document.what.packed.is_empty() && document.what.reordered.is_empty() {
            true => page.line(&format!("  sudo thaw image install {file} --system")),
            false => {
                let root = harmless(&command_line(&[document.what.root.clone().into()]));
                page.line("  It does not fit its directory, where files were changed now. Record the program again:");
                page.line(&format!("  thaw image make {root} --from RECORDING -o FILE"));
            }
        }
    }
    if let Some(preload) =
        document.what.preload.as_ref().filter(|preload| document.applied && preload.desktop.is_none())
    {
        page.line("Start it with what it reads ahead:");
        page.line(&format!("  thaw-preload {} -- PROGRAM", harmless(&shown(&preload.manifest))));
    }
    if let Some(environment) = document.what.environment.as_ref().filter(|_| document.applied) {
        let sets = environment.variables.iter().map(|it| format!("{}={}", it.name, it.value));
        let sets = sets.collect::<Vec<_>>().join(" ");
        page.line("Start it with what it is to be started with:");
        page.line(&format!("  env {} PROGRAM", harmless(&sets)));
        page.line(&format!("  in a unit of systemd: EnvironmentFile={}", harmless(&shown(&environment.file))));
        if document.what.preload.as_ref().is_some_and(|preload| preload.desktop.is_some()) {
            page.line("  the desktop entry does not set it");
        }
    }
    if document.applied {
        page.line(&format!("Undo: thaw optimize --undo {}", harmless(&shown(&document.what.directory))));
    }
    page
}

/// The files of what is applied.
pub fn list(page: &mut Page, applied: &Applied) {
    for file in &applied.packed {
        page.line(&format!("  {} is packed", harmless(&shown(&file.path))));
    }
    for archive in &applied.reordered {
        page.line(&format!("  {} is in the order of its use", harmless(&shown(&archive.file.path))));
    }
    for cache in &applied.caches {
        page.line(&format!("  {} is a cache that was built", harmless(&shown(&cache.path))));
    }
    if let Some(environment) = &applied.environment {
        page.line(&format!("  {} is what the program is to be started with", harmless(&shown(&environment.file))));
    }
    if let Some(preload) = &applied.preload {
        page.line(&format!("  {} is what the start reads ahead", harmless(&shown(&preload.manifest))));
        if let Some(name) = &preload.desktop {
            page.line(&format!("  the desktop entry {} starts the program with it", harmless(name)));
        }
    }
}
