//! `thaw elf` as text, one file per verb.

mod file;
mod pack;
mod parts;
mod stat;

pub use pack::{fix_relr, installed, pack, restore, verify};
pub use stat::stat;

use super::table::{Align, Table};
use super::{Page, harmless, units, without_numbers};
use elfstat::report::LeftOut;
use model::shown;

/// `8.8 %`: shares here are often small and worth a digit.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}

/// Says that a table was cut.
fn more(page: &mut Page, all: usize, rows: usize) {
    if all > rows {
        page.remark(&format!("and {} more (--all lists them)", units::count((all - rows) as u64)));
    }
}

/// What was not looked at, and why.
fn left_out(page: &mut Page, left_out: &LeftOut, rows: usize) {
    let skipped = left_out.skipped;
    let parts: Vec<String> = [
        (skipped.not_elf, "file that is not ELF", "files that are not ELF"),
        (skipped.symlinks, "symbolic link", "symbolic links"),
        (skipped.hard_links, "further name of a file", "further names of files"),
        (skipped.special, "device, pipe or socket", "devices, pipes and sockets"),
        (skipped.mount_points, "directory with another file system", "directories with other file systems"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| units::plural(count, one, many))
    .collect();
    if !parts.is_empty() || !left_out.unreadable.is_empty() || left_out.interrupted {
        page.gap();
    }
    if !parts.is_empty() {
        page.remark(&format!("Not looked at: {}.", parts.join(", ")));
    }
    if !left_out.unreadable.is_empty() {
        let mut table = Table::new([("cannot be read", Align::Elastic), ("because", Align::Left)]);
        for unreadable in left_out.unreadable.iter().take(rows) {
            let reason = without_numbers(&harmless(&unreadable.reason));
            table.row([harmless(&shown(&unreadable.path)), reason]);
        }
        page.table(&table);
        more(page, left_out.unreadable.len(), rows);
    }
    if left_out.interrupted {
        page.line("Interrupted: the rest was not looked at.");
    }
}
