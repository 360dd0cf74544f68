//! Proves that two archives hold the same: the same entries with the same content, times, attributes and comments, in
//! whatever order. Pure.

use super::entry::content;
use super::zip::{CENTRAL_LEN, Entry, Zip};
use model::{Bytes, Error, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many entries both archives hold.
    pub entries: u64,
    /// Bytes of content, all of which were inflated and have the right checksum.
    pub content: Bytes,
}

/// Compares.
///
/// # Errors
/// [`model::Exit::Data`]: an entry of the original is damaged. [`model::Exit::Bug`]: they differ.
pub fn verify(original: &Zip<'_>, fresh: &Zip<'_>) -> Result<Verified> {
    let differs = |what: String| Error::bug(format!("the new archive would not be equivalent: {what}"));
    if fresh.obstacles.iter().any(|it| !original.obstacles.contains(it)) {
        return Err(differs(fresh.obstacles[0].to_string()));
    }
    if original.entries.len() != fresh.entries.len() || original.comment != fresh.comment {
        return Err(differs("it has other entries or another comment".into()));
    }
    let by_name: HashMap<&[u8], &Entry<'_>> = fresh.entries.iter().map(|entry| (entry.name, entry)).collect();
    let mut verified = Verified::default();
    for entry in &original.entries {
        os::interrupt::check()?;
        let of_entry = |what: &str| differs(format!("the entry '{}' {what}", entry.shown()));
        let twin = by_name.get(entry.name).ok_or_else(|| of_entry("is missing"))?;
        if (twin.crc, twin.size) != (entry.crc, entry.size) {
            return Err(of_entry("has another content"));
        }
        if metadata(entry) != metadata(twin) {
            return Err(of_entry("has other metadata"));
        }
        // The same bytes inflate to the same.
        let same = entry.method == twin.method && raw(original, entry) == raw(fresh, twin);
        if !same {
            content(original, entry, |_| ())?;
        }
        content(fresh, twin, |_| ()).map_err(|error| match same {
            true => error.hint("this is so in the original too: `unzip -t` says the same"),
            false => differs(error.to_string()),
        })?;
        verified.entries += 1;
        verified.content += Bytes(u64::from(entry.size));
    }
    Ok(verified)
}

fn raw<'a>(zip: &Zip<'a>, entry: &Entry<'_>) -> &'a [u8] {
    super::zip::slice(zip.bytes, &entry.data).unwrap_or_default()
}

/// What rewriting must not change: who made it, times, attributes, name, extra fields and comment. Not: flags and
/// version that belong to the compression, sizes, offset.
fn metadata(entry: &Entry<'_>) -> Vec<u8> {
    const KEPT: [Range<usize>; 3] = [4..6, 12..16, 36..42];
    let record = entry.central;
    let fixed = KEPT.into_iter().flat_map(|range| record.get(range).unwrap_or_default());
    fixed.chain(record.get(CENTRAL_LEN..).unwrap_or_default()).copied().collect()
}
