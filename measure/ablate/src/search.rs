//! Which one of many makes it slow: halves are taken away in turns until one is left.

/// A search among so many, numbered from 0.
#[derive(Clone, Debug)]
pub struct Search {
    /// Those that are still suspected: from, to (without).
    from: usize,
    to: usize,
    measured: u32,
}

/// What is known of two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is faster without the first half.
    First,
    /// It is faster without the second half.
    Second,
    /// No difference is seen.
    Neither,
}

/// What is to be measured next: without the one against without the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The first half.
    pub first: std::ops::Range<usize>,
    /// The second.
    pub second: std::ops::Range<usize>,
}

impl Search {
    /// Begins with all of them.
    pub fn among(count: usize) -> Self {
        Self { from: 0, to: count, measured: 0 }
    }

    /// The halves to be measured; `None`: at most one is left.
    pub fn next(&self) -> Option<Halves> {
        let middle = self.from + (self.to - self.from).div_ceil(2);
        (self.to - self.from > 1).then_some(Halves { first: self.from..middle, second: middle..self.to })
    }

    /// Takes what was found; `false`: it cannot go on, because nothing tells the halves apart.
    pub fn take(&mut self, answer: Answer) -> bool {
        let Some(halves) = self.next() else { return false };
        self.measured += 1;
        match answer {
            Answer::First => self.to = halves.first.end,
            Answer::Second => self.from = halves.second.start,
            Answer::Neither => return false,
        }
        true
    }

    /// Those that are still suspected.
    pub fn left(&self) -> std::ops::Range<usize> {
        self.from..self.to
    }

    /// How often halves were measured.
    pub fn measured(&self) -> u32 {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_three_thousand_is_found_in_twelve_measurements() {
        for guilty in (0..3000).step_by(7).chain([0, 1, 2998, 2999]) {
            let mut search = Search::among(3000);
            while let Some(halves) = search.next() {
                let answer = if halves.first.contains(&guilty) { Answer::First } else { Answer::Second };
                assert!(search.take(answer));
            }
            assert_eq!((search.left(), search.measured() <= 12), (guilty..guilty + 1, true));
        }
    }

    #[test]
    fn where_nothing_is_told_it_ends_with_what_was_known() {
        let mut search = Search::among(10);
        assert!(search.take(Answer::Second));
        assert!(!search.take(Answer::Neither));
        assert_eq!((search.left(), search.measured()), (5..10, 2));
        assert!(Search::among(1).next().is_none() && Search::among(0).next().is_none());
    }
}
