//! Aligned tables: numbers to the right, words to the left, one elastic column that is shortened where the page is
//! narrow. Where that is not enough, a row goes on in further lines.

use super::width::{columns, cut, shorten};
use super::{DIM, RESET};
use std::ops::Range;

/// Between two columns.
const GAP: &str = "  ";

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
    /// Words that may be shortened in their middle: paths. One elastic column per table.
    Elastic,
    /// A sentence that may be cut at its end; elastic too.
    Sentence,
}

/// A table on its way to a page.
#[derive(Debug)]
pub struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these column heads.
    pub fn new<'a>(head: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        Self { head: head.into_iter().map(|(name, align)| (name.to_owned(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(row.len(), self.head.len());
        self.rows.push(row);
    }

    /// No row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves out the columns that are empty in every row.
    pub fn without_empty_columns(mut self) -> Self {
        let used: Vec<bool> =
            (0..self.head.len()).map(|column| self.rows.iter().any(|row| !row[column].is_empty())).collect();
        let keep = |index: usize| used.get(index).copied().unwrap_or(true);
        let mut index = 0..;
        self.head.retain(|_| index.next().is_none_or(keep));
        for row in &mut self.rows {
            let mut index = 0..;
            row.retain(|_| index.next().is_none_or(keep));
        }
        self
    }

    /// The lines, not wider than the page if the elastic column gives way.
    pub fn text(&self, page: usize) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|(name, _)| columns(name)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(cell));
            }
        }
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        if let Some(elastic) = self.head.iter().position(|(_, align)| matches!(align, Align::Elastic | Align::Sentence))
        {
            let excess = total.saturating_sub(page);
            widths[elastic] = widths[elastic].saturating_sub(excess).max(12).min(widths[elastic]);
        }
        let head: Vec<String> = self.head.iter().map(|(name, _)| name.clone()).collect();
        let parts = parts(&widths, page);
        let mut out = String::new();
        if head.iter().any(|name| !name.is_empty()) {
            for part in &parts {
                out.push_str(&format!("{DIM}{}{RESET}\n", self.line(&head, &widths, part)));
            }
        }
        for row in &self.rows {
            for part in &parts {
                out.push_str(&self.line(row, &widths, part));
                out.push('\n');
            }
        }
        out
    }

    /// A part of a row; those behind the first are indented.
    fn line(&self, cells: &[String], widths: &[usize], part: &Range<usize>) -> String {
        let mut line = String::new();
        for (index, ((cell, width), (_, align))) in cells.iter().zip(widths).zip(&self.head).enumerate() {
            if !part.contains(&index) {
                continue;
            }
            if index > 0 {
                line.push_str(GAP);
            }
            let cell = match align {
                Align::Elastic => shorten(cell, *width),
                Align::Sentence => cut(cell, *width),
                Align::Left | Align::Right => cell.clone(),
            };
            let fill = " ".repeat(width.saturating_sub(columns(&cell)));
            match align {
                Align::Right => line.push_str(&format!("{fill}{cell}")),
                Align::Left | Align::Elastic | Align::Sentence => line.push_str(&format!("{cell}{fill}")),
            }
        }
        line.trim_end().to_owned()
    }
}

/// The columns of each line of a row: all, if they fit; else as many as do, at least one.
fn parts(widths: &[usize], page: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for (index, width) in widths.iter().enumerate() {
        let wanted = width + if index == 0 { 0 } else { GAP.len() };
        match parts.last_mut() {
            Some(part) if used + wanted <= page => part.end = index + 1,
            _ => {
                parts.push(index..index + 1);
                used = 0;
            }
        }
        used += wanted;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(DIM, "").replace(RESET, "")
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let mut table = Table::new([("file", Align::Left), ("requests", Align::Right)]);
        table.row(["a", "7"]);
        table.row(["libxul.so", "1,894"]);
        assert_eq!(plain(&table.text(80)), "file       requests\na                 7\nlibxul.so     1,894\n");
    }

    #[test]
    fn the_elastic_column_gives_way() {
        let mut table = Table::new([("n", Align::Right), ("path", Align::Elastic)]);
        table.row(["1", "/usr/lib/firefox-esr/libxul.so"]);
        assert_eq!(plain(&table.text(19)), "n  path\n1  /usr/…/libxul.so\n");
    }

    #[test]
    fn a_row_that_is_too_wide_goes_on_below() {
        let mut table = Table::new([("bytes", Align::Right), ("blocks", Align::Right), ("program", Align::Elastic)]);
        table.row(["1", "123,456", "/usr/lib/firefox-esr/firefox-esr"]);
        let text = plain(&table.text(16));
        assert_eq!(text, "bytes   blocks\n  program\n    1  123,456\n  /usr…fox-esr\n");
        assert!(text.lines().all(|line| columns(line) <= 16));
        assert_eq!(table.text(60).lines().count(), 2);
    }

    #[test]
    fn columns_without_content_are_left_out() {
        let mut table = Table::new([("a", Align::Left), ("b", Align::Left), ("c", Align::Left)]);
        table.row(["1", "", "3"]);
        assert_eq!(plain(&table.without_empty_columns().text(80)), "a  c\n1  3\n");
    }
}
