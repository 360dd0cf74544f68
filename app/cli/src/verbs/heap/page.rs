//! The page of a heap recording, or of two: for `thaw heap report --html`, `thaw heap diff --html` and `thaw view`.

use super::look::Look;
use heap::growth;
use heap::modes::{Measure, Split, Window};
use heap::named::{Filter, Named};
use heap::slop;
use heap::stream::Reader;
use model::{Result, shown};
use std::path::Path;
use view::{HeapOf, Part};

/// Frames that tell places of slop and growth apart: a page has room for more than a terminal.
const FRAMES: usize = 8;
/// Places of slop and growth that a page lists for each process.
const PLACES: usize = 200;

/// A recording with its judgements.
struct Judged {
    name: String,
    reader: Reader,
    named: Named,
    slop: slop::Report,
    growth: growth::Report,
}

impl Judged {
    fn read(directory: &Path, look: &Look, quiet: bool) -> Result<Self> {
        let (reader, named) = look.read(directory, Split::Stack, quiet)?;
        let mut slop = slop::report(&reader, &slop::Options { model: None, frames: FRAMES, top: PLACES })?;
        let mut growth = growth::report(&reader, &growth::Options { frames: FRAMES, top: PLACES })?;
        let wanted = &look.filter.processes;
        slop.processes.retain(|process| wanted.is_empty() || wanted.contains(&process.pid));
        growth.processes.retain(|process| wanted.is_empty() || wanted.contains(&process.pid));
        Ok(Self { name: shown(directory), reader, named, slop, growth })
    }

    fn shown<'a>(&'a self, look: &Look) -> HeapOf<'a> {
        let all = Filter { processes: look.filter.processes.clone(), ..Filter::default() };
        let part = if look.filter == all && look.window == Window::default() { Part::All } else { Part::Filtered };
        HeapOf {
            name: &self.name,
            reader: &self.reader,
            named: &self.named,
            window: look.window,
            part,
            slop: &self.slop,
            growth: &self.growth,
        }
    }
}

/// The page; `before` is what the recording is compared with.
///
/// # Errors
/// No recording, or one that cannot be read.
pub(super) fn page(directory: &Path, before: Option<&Path>, look: &Look, quiet: bool) -> Result<String> {
    let mut read = vec![Judged::read(directory, look, quiet)?];
    if let Some(before) = before {
        read.push(Judged::read(before, look, quiet)?);
    }
    let recordings: Vec<HeapOf<'_>> = read.iter().map(|judged| judged.shown(look)).collect();
    view::heap_page(&recordings, look.measure)
}

/// The page of all of a recording.
///
/// # Errors
/// As [`page`].
pub fn whole(directory: &Path, before: Option<&Path>) -> Result<String> {
    let look = Look { measure: Measure::Peak, window: Window::default(), filter: Filter::default() };
    page(directory, before, &look, true)
}
