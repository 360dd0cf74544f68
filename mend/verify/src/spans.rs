//! Sets of addresses.

/// Disjoint, non-adjacent, sorted ranges `start..end`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// The union of ranges in any order, given as start and length; empty ones do not count.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> =
            ranges.into_iter().filter(|(_, len)| *len > 0).map(|(at, len)| (at, at.saturating_add(len))).collect();
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    /// The ranges, as start and end.
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The range that holds an address.
    pub(crate) fn at(&self, at: u64) -> Option<(u64, u64)> {
        let next = self.0.partition_point(|range| range.0 <= at);
        self.0[..next].last().copied().filter(|range| at < range.1)
    }

    pub(crate) fn holds(&self, at: u64) -> bool {
        self.at(at).is_some()
    }

    /// Whether every byte of a range is in the set.
    pub(crate) fn covers(&self, at: u64, len: u64) -> bool {
        len == 0 || self.at(at).is_some_and(|range| at.checked_add(len).is_some_and(|end| end <= range.1))
    }

    /// The parts of `start..end` that are not in the set.
    pub(crate) fn outside(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|range| range.1 <= start);
        let mut at = start;
        let mut rest = self.0[first..].iter();
        std::iter::from_fn(move || {
            while at < end {
                let (from, to) = rest.next().map_or((end, end), |range| (range.0.min(end), range.1.min(end)));
                let part = (at, from);
                at = at.max(to);
                if part.0 < part.1 {
                    return Some(part);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    #[test]
    fn ranges_that_touch_become_one() {
        let spans = Spans::new([(8, 2), (0, 4), (4, 4), (20, 5), (21, 1), (3, 0)]);
        assert_eq!(spans.ranges(), [(0, 10), (20, 25)]);
        assert!(spans.holds(9) && !spans.holds(10) && spans.covers(20, 5) && !spans.covers(20, 6));
    }

    #[test]
    fn what_is_outside() {
        let spans = Spans::new([(2, 2), (6, 2)]);
        assert_eq!(spans.outside(0, 10).collect::<Vec<_>>(), [(0, 2), (4, 6), (8, 10)]);
        assert_eq!(spans.outside(3, 7).collect::<Vec<_>>(), [(4, 6)]);
        assert_eq!(spans.outside(2, 4).count(), 0);
        assert_eq!(spans.outside(8, 9).collect::<Vec<_>>(), [(8, 9)]);
    }
}
