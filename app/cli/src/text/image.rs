//! `thaw image` as text.

use super::table::{Align, Table};
use super::{GREEN, Page, RED, YELLOW, errors, harmless, units, without_numbers};
use image::shared::Shared;
use model::{Bytes, Error, shown};
use os::installed::Subject;
use os::installed::places::Scope;
use work::images::installing::{Installed, Status, StatusDocument};
use work::images::{ExtractDocument, ImageDocument, Kernel, OLDER, VerifyDocument};

/// Rows of a list of files.
const SHOWN: usize = 20;

/// An image that was made, or looked at.
pub fn image(document: &ImageDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let about = &document.about;
    let origin = &about.origin;
    page.paragraph(&format!(
        "{}: {}{}: {} in {}, {} in {} ({}).",
        harmless(&document.image),
        harmless(&origin.directory),
        and_of(&origin.trees),
        units::plural(about.files, "file", "files"),
        units::plural(about.directories, "directory", "directories"),
        units::bytes(about.content),
        units::bytes(about.image),
        about.compression,
    ));
    page.paragraph(&format!(
        "A start needs the first {} of it: {} of files in {}, in the order of first touch. It comes from {} of {}{}.",
        units::bytes(about.start),
        units::bytes(document.clusters.needed_content),
        units::plural(document.clusters.needed, "piece", "pieces"),
        units::plural(origin.starts, "start", "starts"),
        origin.recordings.iter().map(|path| harmless(path)).collect::<Vec<_>>().join(", "),
        if origin.source == OLDER { ", by an older image: a guess where files have other sizes now" } else { "" },
    ));
    let mut table = Table::new([("lies there", Align::Left), ("bytes", Align::Right)]);
    let rows = [
        ("metadata and small files", about.metadata),
        ("what all starts need", Bytes(about.by_all.0 - about.metadata.0)),
        ("what some need", Bytes(about.start.0 - about.by_all.0)),
        ("the rest", Bytes(about.image.0 - about.start.0)),
    ];
    rows.iter().for_each(|(name, bytes)| table.row([(*name).to_owned(), units::bytes(*bytes)]));
    page.gap();
    page.table(&table);
    page.remark(&format!(
        "Stored as it is, because it would not become smaller: {}. In it once, in files more often: {}.",
        units::bytes(about.stored),
        units::bytes(about.shared)
    ));
    let lost = document.lost.as_deref().unwrap_or_default();
    if !lost.is_empty() {
        let text = format!(
            "{} of the recorded starts are others now or gone; nothing is known of what starts need of them",
            units::plural(lost.len() as u64, "file", "files")
        );
        page.labelled(YELLOW, "warning: ", &text);
        lost.iter().take(SHOWN).for_each(|path| page.line(&format!("  {}", harmless(path))));
    }
    page
}

/// Of which other directories an image holds a part.
fn and_of(trees: &[String]) -> String {
    let trees: Vec<String> = trees.iter().map(|tree| harmless(tree)).collect();
    if trees.is_empty() { String::new() } else { format!(", and what starts need of {}", trees.join(", ")) }
}

/// Whether an image is whole, and what differs.
pub fn verify(document: &VerifyDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&format!(
        "{} is whole: all sums are right, and {} of {} can be read.",
        harmless(&document.image),
        units::plural(document.checked.files, "file", "files"),
        units::bytes(document.checked.content)
    ));
    match document.differences.is_empty() {
        true => page.paragraph(&format!(
            "It holds what {} holds{}.",
            harmless(&document.directory),
            and_of(&document.trees)
        )),
        false => {
            let count = units::plural(document.differences.len() as u64, "difference", "differences");
            page.paragraph(&format!("{count} to {}:", harmless(&document.directory)));
            differences(&mut page, &document.differences);
        }
    }
    if !document.replaced.is_empty() {
        let text =
            format!("In it are changed copies of {}, which is what it was made for:", files(document.replaced.len()));
        page.paragraph(&text);
        document.replaced.iter().take(SHOWN).for_each(|path| page.line(&format!("  {}", harmless(path))));
    }
    match &document.kernel {
        Kernel::Sees(different) if different.is_empty() => page.paragraph("The kernel sees the same in it."),
        Kernel::Sees(different) => {
            page.paragraph("The kernel sees something else in it:");
            differences(&mut page, different);
        }
        Kernel::NotAsked(why) => {
            page.remark(&format!("The kernel was not asked: {}.", without_numbers(&harmless(why))));
        }
    }
    page
}

fn files(count: usize) -> String {
    units::plural(count as u64, "file", "files")
}

fn differences(page: &mut Page, all: &[image::check::Difference]) {
    let mut table = Table::new([("name", Align::Elastic), ("it", Align::Left)]);
    all.iter().take(SHOWN).for_each(|one| table.row([harmless(&one.path), one.what.clone()]));
    page.table(&table);
    if all.len() > SHOWN {
        page.remark(&format!("and {} more (--json lists all)", units::count((all.len() - SHOWN) as u64)));
    }
}

/// What was written.
pub fn extract(document: &ExtractDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let extracted = &document.extracted;
    page.paragraph(&format!(
        "{}: {} of {}.",
        harmless(&document.directory),
        units::plural(extracted.files, "file", "files"),
        units::bytes(extracted.content)
    ));
    if extracted.owned_otherwise > 0 {
        let text = format!(
            "{} belong to you now and have no rights of their own: only root can give them their owners",
            units::plural(extracted.owned_otherwise, "name", "names")
        );
        page.labelled(YELLOW, "warning: ", &text);
    }
    page
}

/// It is mounted for all users now.
pub fn mounted(shared: &Shared, width: usize) -> Page {
    let mut page = Page::new(width);
    let (image, place) = (harmless(&shown(&shared.image)), harmless(&shown(&shared.place())));
    page.paragraph(&format!("{image} is mounted for all users at {place}."));
    page.next(&format!("thaw image run {image} -- PROGRAM"), "starts a program from it, as an ordinary user too");
    page
}

/// It is not any more.
pub fn unmounted(shared: &Shared, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&format!(
        "{} is mounted for all users no more. What runs from it keeps it until it ends.",
        harmless(&shown(&shared.image))
    ));
    page
}

/// Images, and what starts from them.
pub fn status(document: &StatusDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    if document.images.is_empty() {
        page.paragraph("No image is mounted for all users, and nothing that this user knows of starts from one.");
    }
    for (number, status) in document.images.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        one(&mut page, status);
    }
    for problem in &document.unreadable {
        page.labelled(RED, "unknown  ", &without_numbers(&harmless(problem)));
    }
    page
}

fn one(page: &mut Page, status: &Status) {
    let directory = status.directory.as_deref().map_or("an unknown directory".to_owned(), harmless);
    page.line(&format!("{}: {directory}", harmless(&status.image)));
    match &status.problem {
        None => page.labelled(GREEN, "ok       ", "the directory is as it was, and programs start from the image"),
        Some(problem) => page.labelled(RED, "not used ", &without_numbers(&harmless(problem))),
    }
    match &status.mounted {
        Some(place) => page.labelled("", "         ", &format!("mounted for all users at {}", harmless(place))),
        None => page.labelled("", "         ", "not mounted for all users"),
    }
    for installed in &status.installed {
        let (colour, label) = if installed.problem.is_some() { (RED, "wrong    ") } else { (GREEN, "ok       ") };
        let problem = installed.problem.as_deref().map(|problem| format!(": {}", harmless(problem)));
        page.labelled(colour, label, &format!("{}{}", who(installed), problem.unwrap_or_default()));
        page.labelled("", "           undo: ", &harmless(&installed.undo));
    }
    let processes = status.processes.iter().map(|process| format!("{} ({})", harmless(&process.name), process.pid));
    let processes: Vec<String> = processes.collect();
    if !processes.is_empty() {
        page.labelled("", "in use   ", &processes.join(", "));
    }
}

fn who(installed: &Installed) -> String {
    let scope = if installed.scope == Scope::System { "all users" } else { "this user" };
    match &installed.subject {
        Subject::Launcher(name) => format!("launcher {}, for {scope}", harmless(name)),
        Subject::Unit(name) => format!("service {}, for {scope}", harmless(name)),
        Subject::Image(name) => format!("mounted at each boot by {}", image::install::unit_name(name)),
    }
}

/// The image is no good; the program starts all the same.
pub fn started_without(error: &Error) -> String {
    let text = format!("the program starts from its directory, not from the image: {error}");
    errors::warning_line(&without_numbers(&text), error.hint.as_deref())
}
