//! All text that people read is made in here, from the same values that the JSON documents are made of.
//!
//! Each file turns one kind of value into a [`Page`]. Nothing in here measures, decides or opens files.

pub mod ablate;
pub mod archive;
pub mod bisect;
pub mod cache;
pub mod calls;
pub mod compare;
pub mod doctor;
pub mod elf;
pub mod errors;
pub mod files;
pub mod fleet;
pub mod fleet_metrics;
pub mod fleet_page;
pub mod frag;
pub mod gate;
pub mod gate_forms;
pub mod growth;
pub mod heap;
pub mod heap_growth;
pub mod heap_slop;
pub mod history;
pub mod image;
pub mod io;
pub mod memory;
pub mod optimize;
pub mod order;
pub mod pageload;
pub mod preload;
pub mod presets;
pub mod progress;
pub mod query;
pub mod report;
pub mod store;
pub mod sweep;
pub mod table;
pub mod timeline;
pub mod timeline_path;
pub mod touch;
pub mod trace;
pub mod version;
pub mod why;
pub mod why_helps;
pub mod why_loader;
pub mod width;

use model::Warning;
use table::Table;
use work::report::Next;
pub use work::words::{harmless, units};

/// Bold, for headings.
const BOLD: &str = "\x1b[1m";
/// Dim, for explanations.
const DIM: &str = "\x1b[2m";
/// Yellow, for warnings.
const YELLOW: &str = "\x1b[33m";
/// Red, for bad answers.
const RED: &str = "\x1b[31m";
/// Green, for good answers.
const GREEN: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// Text on its way to a terminal. Escape codes are taken out again where they are not wanted (see `output.rs`).
#[derive(Debug)]
pub struct Page {
    out: String,
    width: usize,
}

impl Page {
    /// An empty page this many columns wide.
    pub fn new(width: usize) -> Self {
        Self { out: String::new(), width }
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.out
    }

    /// A heading, with an empty line above unless it is the first.
    pub fn heading(&mut self, text: &str) {
        self.gap();
        self.out.push_str(&format!("{BOLD}{text}{RESET}\n"));
    }

    /// An empty line, unless the page is empty or has one.
    pub fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A line as it is.
    pub fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A paragraph, broken at blanks.
    pub fn paragraph(&mut self, text: &str) {
        self.labelled("", "", text);
    }

    /// A remark, broken at blanks, less visible.
    pub fn remark(&mut self, text: &str) {
        for line in wrap(text, self.width) {
            self.out.push_str(&format!("{DIM}{line}{RESET}\n"));
        }
    }

    /// A label in a colour and a paragraph beside it; further lines are indented.
    pub fn labelled(&mut self, colour: &str, label: &str, text: &str) {
        let indent = width::columns(label);
        let room = self.width.saturating_sub(indent).max(20);
        for (number, line) in wrap(text, room).into_iter().enumerate() {
            if number == 0 && !label.is_empty() {
                self.out.push_str(&format!("{colour}{label}{RESET}{line}\n"));
            } else {
                self.out.push_str(&format!("{:indent$}{line}\n", ""));
            }
        }
    }

    /// What to type next, and why: on one line if there is room.
    pub fn next(&mut self, command: &str, why: &str) {
        let line = format!("{command}   # {why}");
        let (label, indent) = ("next: ", 6);
        if indent + width::columns(&line) <= self.width {
            return self.out.push_str(&format!("{GREEN}{label}{RESET}{line}\n"));
        }
        self.out.push_str(&format!("{GREEN}{label}{RESET}{command}\n"));
        for line in wrap(&format!("# {why}"), self.width.saturating_sub(indent).max(20)) {
            self.out.push_str(&format!("{:indent$}{DIM}{line}{RESET}\n", ""));
        }
    }

    /// What ends an answer: doubts, and what to type next.
    pub fn end(&mut self, warnings: &[Warning], next: &[Next]) {
        if !warnings.is_empty() {
            self.gap();
            errors::warnings(self, warnings);
        }
        self.gap();
        for next in next {
            self.next(&harmless(&next.command), &next.why);
        }
    }

    /// A label in a colour and as much of a text as one line holds; says whether something had to be left out.
    pub fn folded(&mut self, colour: &str, label: &str, text: &str) -> bool {
        let room = self.width.saturating_sub(width::columns(label)).max(20);
        let (mut shown, mut columns) = (String::new(), 0);
        let cut = width::columns(text) > room || text.contains('\n');
        let room = if cut { room - 1 } else { room };
        for letter in text.chars().take_while(|letter| *letter != '\n') {
            columns += width::columns(letter.encode_utf8(&mut [0; 4]));
            if columns > room {
                break;
            }
            shown.push(letter);
        }
        let end = if cut { "…" } else { "" };
        self.out.push_str(&format!("{colour}{label}{RESET}{shown}{end}\n"));
        cut
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.out.push_str(&table.text(self.width));
    }
}

/// Breaks a text at blanks into lines of at most `width` columns; a longer word stands alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ').filter(|word| !word.is_empty()) {
            if !line.is_empty() && width::columns(&line) + 1 + width::columns(word) > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// A text without the kernel's error numbers: `Permission denied (os error 13)` says it twice.
pub fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" (os error ") {
        let end = rest[at..].find(')').map_or(rest.len(), |length| at + length + 1);
        out.push_str(&rest[..at]);
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities a", 5), ["incomprehensibilities", "a"]);
        assert_eq!(wrap("a\nb", 80), ["a", "b"]);
    }

    #[test]
    fn a_label_is_followed_by_an_indented_paragraph() {
        let mut page = Page::new(26);
        page.labelled(YELLOW, "hint: ", "one two three four five");
        assert_eq!(page.text(), format!("{YELLOW}hint: {RESET}one two three four\n      five\n"));
    }

    #[test]
    fn error_numbers_are_left_out() {
        assert_eq!(without_numbers("a: denied (os error 13), b (os error 2)"), "a: denied, b");
        assert_eq!(without_numbers("cut (os error 1"), "cut");
    }
}
