//! `thaw flush` as text, and the base list of `thaw resident`, which is read back by `record --base`.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use model::shown;
use os::cache::{FlushReport, Grip, Kept, Mapper, ResidentReport, Why};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// First line of a base list.
const BASE_LIST: &str = "# thaw base list 1: resident bytes, size, path";

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

/// The list of resident files: `RESIDENT<TAB>SIZE<TAB>PATH`, with `\n`, `\t` and `\\` for these bytes of a path.
pub fn base_list(report: &ResidentReport) -> Vec<u8> {
    let mut out = format!("{BASE_LIST}\n").into_bytes();
    for file in &report.files {
        out.extend_from_slice(format!("{}\t{}\t", file.resident.0, file.size.0).as_bytes());
        for byte in file.path.as_os_str().as_bytes() {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                other => out.push(*other),
            }
        }
        out.push(b'\n');
    }
    out
}

/// Paths of a base list. A line that is only an absolute path is fine too, so that `find` can make one.
///
/// # Errors
/// The number of the first line that is neither.
pub fn parse_base_list(text: &[u8]) -> Result<Vec<PathBuf>, usize> {
    let mut paths = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let path = match line.splitn(3, |byte| *byte == b'\t').collect::<Vec<_>>().as_slice() {
            [resident, size, path] if is_number(resident) && is_number(size) => unescape(path),
            _ => line.to_vec(),
        };
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        if !Path::is_absolute(&path) {
            return Err(index + 1);
        }
        paths.push(path);
    }
    Ok(paths)
}

fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match (byte, rest.as_slice().first()) {
            (b'\\', Some(escaped)) => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest.next();
            }
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Bytes;
    use os::cache::ResidentFile;
    use std::ffi::OsString;

    fn listed(paths: &[&[u8]]) -> ResidentReport {
        let file = |path: &&[u8]| ResidentFile {
            path: OsString::from_vec(path.to_vec()).into(),
            size: Bytes(8192),
            resident: Bytes(4096),
        };
        ResidentReport { files: paths.iter().map(file).collect(), ..ResidentReport::default() }
    }

    #[test]
    fn a_base_list_is_read_back_whatever_the_names() {
        let names: [&[u8]; 4] = [b"/usr/lib/libc.so.6", b"/a\nb", b"/tab\there\\n", b"/not \xff utf-8"];
        let list = base_list(&listed(&names));
        let back = parse_base_list(&list).unwrap();
        assert_eq!(back.iter().map(|path| path.as_os_str().as_bytes()).collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_list_of_paths_is_a_base_list_and_other_text_is_not() {
        assert_eq!(parse_base_list(b"/a\n\n# why\n/b").unwrap(), [Path::new("/a"), Path::new("/b")]);
        assert_eq!(parse_base_list(b"/a\nrelative\n"), Err(2));
    }

    #[test]
    fn a_mapped_file_names_who_maps_it() {
        let holder = |pid, how| Mapper { pid, comm: "bash".into(), how };
        let holders =
            vec![holder(1, Grip::Locked), holder(2, Grip::Mapped), holder(3, Grip::Mapped), holder(4, Grip::Mapped)];
        let kept = Kept { path: "/lib/libc.so.6".into(), resident: Some(Bytes(1)), why: Why::Mapped { holders } };
        assert_eq!(why(&kept), "mapped by bash 1 (locked), bash 2, bash 3 and 1 more");
    }
}
