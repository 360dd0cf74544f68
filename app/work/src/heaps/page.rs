//! The page of a heap recording, or of two: for `thaw heap report --html`, `thaw heap diff --html` and `thaw view`.

use super::look::Look;
use crate::progress::Telling;
use heap::modes::{Measure, Window};
use heap::named::Filter;
use heap::whole::{self, Whole};
use heapfile::reader::Reader;
use model::{Error, Exit, Result, shown};
use std::path::Path;
use view::{HeapOf, Part};

/// What tells places of slop and growth apart, and how many of them are listed for each process: a page has room for
/// more than a terminal.
const OPTIONS: whole::Options = whole::Options { frames: 8, top: 200 };

/// A recording that was read.
struct Read {
    name: String,
    reader: Reader,
    whole: Whole,
}

impl Read {
    fn of(directory: &Path, look: &Look, told: &Telling<'_>) -> Result<Self> {
        let (reader, whole) =
            look.reading(directory, told, |reader| whole::read(reader, look.window, &look.filter, &OPTIONS))?;
        Ok(Self { name: shown(directory), reader, whole })
    }

    fn shown<'a>(&'a self, look: &Look) -> HeapOf<'a> {
        let all = Filter { processes: look.filter.processes.clone(), ..Filter::default() };
        let part = if look.filter == all && look.window == Window::default() { Part::All } else { Part::Filtered };
        HeapOf { name: &self.name, reader: &self.reader, whole: &self.whole, window: look.window, part }
    }
}

/// The page; `before` is what the recording is compared with.
///
/// # Errors
/// No recording, or one that cannot be read.
pub fn page(directory: &Path, before: Option<&Path>, look: &Look, told: &Telling<'_>) -> Result<String> {
    if matches!(look.measure, Measure::Reached(_)) {
        return Err(Error::new(Exit::Usage, "a page does not tell leaks apart", "--mode")
            .hint("--mode leaks shows all of them; without --html they are told apart"));
    }
    let mut read = vec![Read::of(directory, look, told)?];
    if let Some(before) = before {
        read.push(Read::of(before, look, told)?);
    }
    let recordings: Vec<HeapOf<'_>> = read.iter().map(|read| read.shown(look)).collect();
    view::heap_page(&recordings, look.measure)
}

/// The page of all of a recording.
///
/// # Errors
/// As [`page`].
pub fn whole(directory: &Path, before: Option<&Path>, told: &Telling<'_>) -> Result<String> {
    let look = Look { measure: Measure::Peak, window: Window::default(), filter: Filter::default() };
    page(directory, before, &look, told)
}
