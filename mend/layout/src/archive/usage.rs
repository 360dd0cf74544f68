//! Which entries a start uses, and in which order: from the pages of the archive that it touched, or from names. Pure.

use super::zip::{EntryId, Zip};
use model::{Bytes, FileOffset, PAGE};
use std::collections::HashMap;

/// A piece of the archive that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where it begins in the archive.
    pub offset: FileOffset,
    /// Bytes that were touched from there on.
    pub len: Bytes,
    /// When, in whatever unit: only the order counts.
    pub order: u64,
}

/// Entries that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// In the order of their first use, each once.
    pub order: Vec<EntryId>,
    /// Names that were used and are not in the archive.
    pub unknown: Vec<String>,
}

/// The entries that can have been used, from touched pages.
///
/// Who reads an entry touches every page of its header and data. So an entry with a page that nobody touched was not
/// used; and the use came no earlier than the last first touch of its pages, which is the place that it gets. An entry
/// that shares all of its pages with used ones counts as used although nobody may have read it: pages do not tell.
/// Directories hold nothing and are never used.
pub fn used_by_pages(zip: &Zip<'_>, touched: &[Touched]) -> Uses {
    let last_page = (zip.bytes.len() as u64).div_ceil(PAGE);
    let mut first: HashMap<u64, u64> = HashMap::new();
    for piece in touched.iter().filter(|piece| piece.len.0 > 0) {
        let end = piece.offset.0.saturating_add(piece.len.0).div_ceil(PAGE).min(last_page);
        for page in piece.offset.0 / PAGE..end {
            let order = first.entry(page).or_insert(piece.order);
            *order = (*order).min(piece.order);
        }
    }
    let use_of = |id: EntryId| {
        let entry = zip.entry(id);
        if entry.is_directory() || entry.span.is_empty() {
            return None;
        }
        let end = entry.data.end.max(entry.span.start + 1);
        let mut pages = entry.span.start / PAGE..end.div_ceil(PAGE);
        pages.try_fold(0, |last, page| first.get(&page).map(|order| last.max(*order)))
    };
    let mut used: Vec<(u64, u64, EntryId)> =
        zip.ids().filter_map(|id| Some((use_of(id)?, zip.entry(id).span.start, id))).collect();
    used.sort_unstable();
    Uses { order: used.into_iter().map(|(.., id)| id).collect(), unknown: Vec::new() }
}

/// The entries with these names, in this order; a name counts where it stands first.
pub fn used_by_names<'n>(zip: &Zip<'_>, names: impl IntoIterator<Item = &'n str>) -> Uses {
    let by_name: HashMap<&[u8], EntryId> = zip.ids().map(|id| (zip.entry(id).name, id)).collect();
    let mut seen = vec![false; zip.entries.len()];
    let mut uses = Uses::default();
    for name in names {
        match by_name.get(name.as_bytes()) {
            Some(id) if !std::mem::replace(&mut seen[id.0], true) => uses.order.push(*id),
            Some(_) => {}
            None => uses.unknown.push(name.to_owned()),
        }
    }
    uses
}
