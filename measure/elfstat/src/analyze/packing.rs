//! What relative relocations would take in other forms: RELR, and the runs of offset and count of 2010.

use super::{Depth, Facts};
use crate::report::Packing;
use elf::{Relocations, relr};
use model::Bytes;
use object::ReadRef;

/// Bytes of one run: an offset and a count of 32 bits each.
const RUN_LEN: u64 = 8;

pub(super) fn packing<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Packing {
    let image = facts.image;
    let word = image.class.word();
    let mut all: Vec<u64> =
        facts.tables.iter().flat_map(Relocations::iter).map(|relocation| relocation.offset).collect();
    all.sort_unstable();
    // Too near to another one: both would change some of the same bytes.
    let crowded = |address: u64| {
        let index = all.partition_point(|other| *other < address);
        let near = |other: Option<&u64>| other.is_some_and(|other| other.abs_diff(address) < word.bytes());
        near(index.checked_sub(1).and_then(|before| all.get(before))) || near(all.get(index + 1))
    };
    let writable: Vec<_> = image.loads().filter(|segment| segment.is_writable()).collect();
    let (mut found, mut packable) = (Packing::default(), Vec::new());
    for address in facts.relative_addresses() {
        if address % 2 != 0 {
            found.odd += 1;
        } else if !writable.iter().any(|segment| segment.backs(address, word.bytes())) {
            found.not_in_writable_data += 1;
        } else if crowded(address) {
            found.overlapping += 1;
        } else {
            packable.push(address);
        }
    }
    let is_packable = |address: u64| packable.binary_search(&address).is_ok();
    let mut in_place = 0;
    for table in &facts.tables {
        for relocation in table.iter().filter(|relocation| facts.is_relative(relocation)) {
            if !is_packable(relocation.offset) {
                continue;
            }
            found.now += Bytes(table.entry_len());
            if facts.depth == Depth::Detail {
                let addend = relocation.addend as u64 & word_mask(word.bytes());
                in_place += u64::from(!table.with_addends || facts.content(relocation.offset) == Some(addend));
            }
        }
    }
    found.packable = packable.len() as u64;
    found.relr = Bytes(relr::encode(&packable, word).len() as u64 * word.bytes());
    found.runs = Bytes(runs(&packable, word.bytes()).0 * RUN_LEN);
    found.addend_in_place = (facts.depth == Depth::Detail).then_some(in_place);
    found
}

const fn word_mask(len: u64) -> u64 {
    if len == 4 { u32::MAX as u64 } else { u64::MAX }
}

/// How many runs of consecutive words sorted addresses make, and how long the longest one is.
pub(super) fn runs(addresses: &[u64], word: u64) -> (u64, u64) {
    let runs = addresses.chunk_by(|one, next| one.checked_add(word) == Some(*next));
    runs.fold((0, 0), |(count, longest), run| (count + 1, longest.max(run.len() as u64)))
}
