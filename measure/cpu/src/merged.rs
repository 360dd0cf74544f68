//! Few enough pieces to draw, of many that lie side by side. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A piece of a line: from when to when, what is done, and what goes with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<K, T> {
    /// From then on, in nanoseconds.
    pub from: u64,
    /// Until then.
    pub to: u64,
    /// What is done.
    pub kind: K,
    /// Of a merged piece that of the longest one in it.
    pub with: T,
}

/// At most so many pieces: of each of as many equal parts of the time the kind that lasts longest in it; at equal times
/// the lesser. Neighbours that are alike are one.
pub fn merged<K: Copy + Ord, T: Copy + Default + PartialEq>(all: &[Span<K, T>], most: usize) -> Vec<Span<K, T>> {
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    if all.len() <= most {
        return all.to_vec();
    }
    let (begin, span, parts) = (first.from, last.to - first.from, most.max(1) as u64);
    // In 128 bits, for a long span of many parts.
    let edge = |part: u64| begin + (u128::from(span) * u128::from(part) / u128::from(parts)) as u64;
    let (mut found, mut at) = (Vec::new(), 0);
    for part in 0..parts {
        let (from, to) = (edge(part), edge(part + 1));
        // By kind: how long, the longest piece, and what goes with it.
        let mut lasts: BTreeMap<K, (u64, u64, T)> = BTreeMap::new();
        while let Some(piece) = all.get(at).filter(|piece| piece.from < to) {
            let ns = piece.to.min(to) - piece.from.max(from);
            let (sum, longest, with) = lasts.entry(piece.kind).or_default();
            *sum += ns;
            if ns > *longest {
                (*longest, *with) = (ns, piece.with);
            }
            if piece.to > to {
                break;
            }
            at += 1;
        }
        let longest = lasts.into_iter().min_by_key(|(kind, (sum, ..))| (Reverse(*sum), *kind));
        if let Some((kind, (_, _, with))) = longest {
            found.push(Span { from, to, kind, with });
        }
    }
    joined(found)
}

/// Neighbours that are alike are one.
pub fn joined<K: PartialEq, T: PartialEq>(all: Vec<Span<K, T>>) -> Vec<Span<K, T>> {
    let mut found: Vec<Span<K, T>> = Vec::with_capacity(all.len());
    for piece in all {
        match found.last_mut() {
            Some(last) if last.kind == piece.kind && last.with == piece.with && last.to == piece.from => {
                last.to = piece.to;
            }
            _ => found.push(piece),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(spans: &[(u64, u8)]) -> Vec<Span<u8, ()>> {
        let mut now = 7;
        let mut all = Vec::new();
        for (ns, kind) in spans {
            all.push(Span { from: now, to: now + ns, kind: *kind, with: () });
            now += ns;
        }
        all
    }

    #[test]
    fn what_lasts_longest_stands_for_its_part() {
        let all = pieces(&[(3, 0), (7, 1), (6, 2), (4, 0)]);
        let kinds: Vec<u8> = merged(&all, 2).iter().map(|piece| piece.kind).collect();
        assert_eq!(kinds, [1, 2]);
        assert_eq!(merged(&all, 4), all);
    }

    proptest! {
        #[test]
        fn merged_pieces_are_short_and_have_no_gap(
            spans in prop::collection::vec((1u64..50, 0u8..3), 1..60),
            most in 1usize..40,
        ) {
            let all = pieces(&spans);
            let merged = merged(&all, most);
            prop_assert!(merged.len() <= most);
            prop_assert_eq!(merged[0].from, all[0].from);
            prop_assert_eq!(merged.last().unwrap().to, all.last().unwrap().to);
            prop_assert!(merged.windows(2).all(|two| two[0].to == two[1].from));
            prop_assert!(merged.iter().all(|piece| piece.from < piece.to));
        }
    }
}
