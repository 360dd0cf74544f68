//! `thaw flush` as text.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use model::shown;
use os::cache::{FlushReport, Grip, Kept, Mapper, Why};

/// What was evicted, what stayed and why.
pub fn flush(report: &FlushReport, width: usize) -> Page {
    /// Reasons shown; a desktop has thousands of mapped files.
    const SHOWN: usize = 40;
    let mut page = Page::new(width);
    page.line(&format!(
        "{}: {} left the page cache, {} stayed.",
        units::plural(report.files, "file", "files"),
        units::bytes(report.evicted()),
        units::bytes(report.after)
    ));
    if !report.kept.is_empty() {
        let mut table = Table::new([("stays", Align::Right), ("file", Align::Elastic), ("because", Align::Left)]);
        for kept in report.kept.iter().take(SHOWN) {
            table.row([
                kept.resident.map(units::bytes).unwrap_or_else(|| "?".into()),
                harmless(&shown(&kept.path)),
                why(kept),
            ]);
        }
        page.gap();
        page.table(&table);
        if report.kept.len() > SHOWN {
            page.remark(&format!("and {} more (--json lists all)", units::count((report.kept.len() - SHOWN) as u64)));
        }
    }
    skipped(&mut page, report);
    errors::warnings(&mut page, &report.warnings);
    page
}

fn skipped(page: &mut Page, report: &FlushReport) {
    let skipped = &report.skipped;
    let counts = [
        (skipped.symlinks, "symbolic link", "symbolic links"),
        (skipped.special, "device, pipe or socket", "devices, pipes and sockets"),
        (skipped.hard_links, "further name of a file", "further names of files"),
    ];
    let mut parts: Vec<String> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| units::plural(count, one, many))
        .collect();
    parts
        .extend(skipped.mount_points.iter().map(|point| format!("another file system on {}", harmless(&shown(point)))));
    if !parts.is_empty() {
        page.remark(&format!("Not looked at: {}.", parts.join(", ")));
    }
    if report.interrupted {
        page.line("Interrupted: the rest was not looked at.");
    }
}

/// Why a file stays, in a few words.
fn why(kept: &Kept) -> String {
    match &kept.why {
        Why::Mapped { holders } => mapped(holders),
        Why::Dirty { bytes } => format!("{} not yet on disk", units::bytes(*bytes)),
        Why::MemoryFileSystem { kind } => format!("it lives in memory ({kind})"),
        Why::Unverified => "asked to leave; this user may not look whether it did".into(),
        Why::NoPermission => "this user may not open it".into(),
        Why::Vanished => "it is not there (any more)".into(),
        Why::NotAFile { kind } => format!("it is a {kind}"),
        Why::InUse { unseen_processes: 0 } => "the kernel holds it".into(),
        Why::InUse { unseen_processes } => {
            format!(
                "somebody holds it; {} may not be looked into",
                units::plural(*unseen_processes, "process", "processes")
            )
        }
        Why::Failed { error } => harmless(error),
    }
}

fn mapped(holders: &[Mapper]) -> String {
    const NAMED: usize = 3;
    let named: Vec<String> = holders
        .iter()
        .take(NAMED)
        .map(|holder| {
            let how = if holder.how == Grip::Locked { " (locked)" } else { "" };
            format!("{} {}{how}", harmless(&holder.comm), holder.pid)
        })
        .collect();
    let more = holders.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("mapped by {}{rest}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Bytes;

    #[test]
    fn a_mapped_file_names_who_maps_it() {
        let holder = |pid, how| Mapper { pid, comm: "bash".into(), how };
        let holders =
            vec![holder(1, Grip::Locked), holder(2, Grip::Mapped), holder(3, Grip::Mapped), holder(4, Grip::Mapped)];
        let kept = Kept { path: "/lib/libc.so.6".into(), resident: Some(Bytes(1)), why: Why::Mapped { holders } };
        assert_eq!(why(&kept), "mapped by bash 1 (locked), bash 2, bash 3 and 1 more");
    }
}
