//! Places that wanted a power of two and ask for a little more: the allocator gives nearly twice, or a page more.

use super::{Model, Row, Rows, sum};
use crate::site::SiteId;
use crate::symbols::Frame;
use model::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A place with such requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Clownshoes {
    /// What makes the request too large, probably.
    pub cause: Cause,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// The requests, most waste first.
    pub shoes: Vec<Shoe>,
    /// What the requests waste under each allocator where they waste much.
    pub waste: Vec<Waste>,
    /// Blocks of the place that are no such requests, of 1024 bytes and more.
    pub other_blocks: u64,
    /// Where, innermost first.
    pub site: Vec<Frame>,
}

/// Requests of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Shoe {
    /// Bytes that the program asks for.
    pub request: u64,
    /// Bytes to ask for instead, all in all: a power of two.
    pub ask: u64,
    /// The part of these for what the place keeps there, if the rest is as large as now: `ask` less `over`.
    pub payload: u64,
    /// Bytes by which the request is larger than a power of two.
    pub over: u64,
    /// Blocks made.
    pub blocks: u64,
    /// Most of them live at a time.
    pub most_live: u64,
}

/// What is wasted under an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Waste {
    /// The allocator that is modelled.
    pub model: Model,
    /// Given and not asked for, all blocks.
    pub bytes: Bytes,
    /// The same of the most blocks of each size that were live at a time.
    pub most_live_bytes: Bytes,
}

/// What makes a request a little too large, told by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "ClownshoesCause"))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// 1 or 2 bytes, 4 for wide characters: the end of a string, added after rounding.
    Terminator,
    /// 8 or 16: the size, or another word, stored before the block.
    StoredWord,
    /// Up to 64: the header of an arena's chunk or of a buffer.
    Header,
    /// Something else, or several of these.
    Unclear,
}

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The same excess over several powers of two.
    Strong,
    /// One size only: it may be a structure that just is so large.
    Probable,
}

/// Below, natural sizes of structures are too frequent.
const LEAST: u64 = 1024;
/// A place must waste so much to be worth a line.
const WORTH: u64 = 4096;

/// The power of two below a request and what it is over it, if that is little: at most 64 bytes or a 32nd.
fn excess(request: u64) -> Option<(u64, u64)> {
    let power = 1 << request.checked_sub(1)?.checked_ilog2()?;
    let over = request - power;
    (power >= LEAST && over <= (power / 32).max(64)).then_some((power, over))
}

/// Whether a request wastes a tenth of its block or more.
fn wastes(request: u64, usable: u64) -> bool {
    usable - request >= usable / 10
}

impl Cause {
    fn of(over: u64) -> Self {
        match over {
            1 | 2 | 4 => Self::Terminator,
            8 | 16 => Self::StoredWord,
            3..=64 => Self::Header,
            _ => Self::Unclear,
        }
    }
}

/// The places of a process, most waste under the worst allocator first; without their frames.
pub(super) fn find(rows: &Rows) -> Vec<(SiteId, Clownshoes)> {
    let mut sites: BTreeMap<SiteId, Vec<(u64, &Row)>> = BTreeMap::new();
    for ((site, size), row) in rows.iter().filter(|((_, size), _)| *size >= LEAST) {
        sites.entry(*site).or_default().push((*size, row));
    }
    let worst = |shoes: &Clownshoes| shoes.waste.iter().map(|waste| waste.bytes).max();
    let mut found: Vec<(SiteId, Clownshoes)> =
        sites.into_iter().filter_map(|(site, rows)| Some((site, at(rows)?))).collect();
    found.sort_by_key(|(site, shoes)| (std::cmp::Reverse(worst(shoes)), *site));
    found
}

/// Judges a place by its requests of [`LEAST`] bytes and more.
fn at(rows: Vec<(u64, &Row)>) -> Option<Clownshoes> {
    let suspicious =
        |size: u64, row: &Row| excess(size).filter(|_| row.usable.iter().any(|usable| wastes(size, *usable)));
    let (shoes, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(size, row)| suspicious(*size, row).is_some());
    let other_blocks = others.iter().map(|(_, row)| row.blocks).sum();
    // Sizes from everywhere hit these too: then most of them are others.
    if shoes.iter().map(|(_, row)| row.blocks).sum::<u64>() < other_blocks {
        return None;
    }
    let waste: Vec<Waste> = Model::ALL
        .into_iter()
        .enumerate()
        .map(|(index, model)| {
            let wasting = || shoes.iter().filter(|(size, row)| wastes(*size, row.usable[index]));
            let times = |count: fn(&Row) -> u64| {
                sum(wasting().map(|(size, row)| (row.usable[index] - size).saturating_mul(count(row))))
            };
            Waste { model, bytes: times(|row| row.blocks), most_live_bytes: times(|row| row.most_live) }
        })
        .filter(|waste| waste.bytes.0 >= WORTH)
        .collect();
    if waste.is_empty() {
        return None;
    }
    let shoe = |(request, row): (u64, &Row)| {
        let (power, over) = excess(request)?;
        let (blocks, most_live) = (row.blocks, row.most_live);
        Some(Shoe { request, ask: power, payload: power - over, over, blocks, most_live })
    };
    let mut shoes: Vec<Shoe> = shoes.into_iter().filter_map(shoe).collect();
    shoes.sort_by_key(|shoe| (std::cmp::Reverse(shoe.ask.saturating_mul(shoe.blocks)), shoe.request));
    let mut causes: Vec<Cause> = shoes.iter().map(|shoe| Cause::of(shoe.over)).collect();
    causes.dedup();
    let overs: BTreeSet<u64> = shoes.iter().map(|shoe| shoe.over).collect();
    let strong = shoes.len() > overs.len();
    Some(Clownshoes {
        cause: if let [cause] = causes[..] { cause } else { Cause::Unclear },
        certainty: if strong { Certainty::Strong } else { Certainty::Probable },
        shoes,
        waste,
        other_blocks,
        site: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sizes: &[(u64, u64)]) -> Option<Clownshoes> {
        let rows: Vec<(u64, Row)> = sizes
            .iter()
            .map(|(size, blocks)| (*size, Row { blocks: *blocks, most_live: *blocks, ..Row::new(*size) }))
            .collect();
        at(rows.iter().map(|(size, row)| (*size, row)).collect())
    }

    fn of(found: &Clownshoes, model: Model) -> Option<u64> {
        found.waste.iter().find(|waste| waste.model == model).map(|waste| waste.bytes.0)
    }

    /// The requests that were found in Firefox in 2011, and what they waste in its allocator of that time.
    #[test]
    fn clownshoes_of_2011() {
        for (request, ask, over, wasted, cause) in [
            (1025, 1024, 1, 1023, Cause::Terminator),
            (1032, 1024, 8, 1016, Cause::StoredWord),
            (1056, 1024, 32, 992, Cause::Header),
            (2087, 2048, 39, 2009, Cause::Header),
            (4135, 4096, 39, 4057, Cause::Header),
            (32776, 32768, 8, 4088, Cause::StoredWord),
            (1048578, 1048576, 2, 1048574, Cause::Terminator),
        ] {
            let found = place(&[(request, 24)]).unwrap_or_else(|| panic!("{request} is not found"));
            assert_eq!(found.cause, cause, "{request}");
            assert_eq!(found.certainty, Certainty::Probable);
            let shoe = &found.shoes[0];
            assert_eq!((shoe.ask, shoe.over, shoe.payload), (ask, over, ask - over));
            assert_eq!(of(&found, Model::Moz2011), Some(24 * wasted), "{request}");
            assert_eq!(of(&found, Model::Glibc), None, "{request} wastes nothing there");
        }
        assert_eq!(of(&place(&[(1032, 100)]).unwrap(), Model::Jemalloc5), Some(24800));
    }

    #[test]
    fn the_same_excess_over_several_powers_is_a_header() {
        let found = place(&[(2087, 10), (4135, 10), (8231, 10)]).unwrap();
        assert_eq!((found.cause, found.certainty), (Cause::Header, Certainty::Strong));
        let found = place(&[(1025, 10), (2056, 10)]).unwrap();
        assert_eq!((found.cause, found.certainty), (Cause::Unclear, Certainty::Probable));
    }

    #[test]
    fn other_sizes_are_none() {
        for size in [24, 72, 680, 1024, 4095, 4096, 1 << 20, 1500, 520, 1 << 40, u64::MAX, 0] {
            assert_eq!(place(&[(size, 1000)]), None, "{size}");
        }
        // Sizes from everywhere.
        let spread: Vec<(u64, u64)> = (1000..4000).map(|size| (size, 3)).collect();
        assert_eq!(place(&spread), None);
        // Too little to be worth a line.
        assert_eq!(place(&[(1032, 4)]), None);
    }
}
