//! `thaw sweep` as text: how the starts grow.

use super::{Page, growth, harmless};
use work::sweep::SweepDocument;

/// The answer.
pub fn page(document: &SweepDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for sentence in &document.answer {
        page.paragraph(&harmless(sentence));
    }
    for swept in &document.growth {
        growth::table(&mut page, swept);
        growth::levels(&mut page, swept);
    }
    page.end(&document.warnings, &document.next);
    page
}
