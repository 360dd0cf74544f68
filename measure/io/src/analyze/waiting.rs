//! How long a program waited for the disk, and for what.
//!
//! A request is in flight from the moment its pages were put into the cache (or from its issue, if that
//! was not seen) until it is done: so the time in the queue of a throttled disk counts. At each moment
//! the requests in flight share the time equally: with n of them in flight during dt, each gets dt / n.
//! The shares of all requests therefore sum up to the time in which at least one was in flight.

use model::Nanos;

/// From when to when a request was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// When it was asked for.
    pub(super) from: Nanos,
    /// When it was done.
    pub(super) until: Nanos,
}

/// Each flight's fair share in nanoseconds, in the given order.
///
/// With `V(t) = integral of 1 / n(t) dt`, a share is `V(until) - V(from)`: one pass over the sorted ends.
pub(super) fn fair_shares(flights: &[Flight]) -> Vec<f64> {
    let flying = |index: &u32| flights[*index as usize].from < flights[*index as usize].until;
    let mut begins: Vec<u32> = (0..flights.len() as u32).filter(flying).collect();
    let mut ends = begins.clone();
    begins.sort_by_key(|index| flights[*index as usize].from);
    ends.sort_by_key(|index| flights[*index as usize].until);
    let mut shares = vec![0.0; flights.len()];
    let (mut value, mut in_flight, mut last) = (0.0_f64, 0_u32, Nanos(0));
    let mut begins = begins.into_iter().peekable();
    for ending in ends {
        let until = flights[ending as usize].until;
        // What ends at a moment ends before anything begins.
        while let Some(beginning) = begins.next_if(|index| flights[*index as usize].from < until) {
            let at = flights[beginning as usize].from;
            if in_flight > 0 {
                value += (at - last).0 as f64 / f64::from(in_flight);
            }
            last = at;
            shares[beginning as usize] = -value;
            in_flight += 1;
        }
        value += (until - last).0 as f64 / f64::from(in_flight);
        last = until;
        shares[ending as usize] += value;
        in_flight -= 1;
    }
    shares
}

/// Time in which at least one was in flight.
pub(super) fn union(flights: &[Flight]) -> Nanos {
    let ranges = flights.iter().filter(|flight| flight.from < flight.until);
    let ranges = ranges.map(|flight| (flight.from.0, flight.until.0)).collect();
    model::joined(ranges).into_iter().map(|(from, until)| Nanos(until - from)).sum()
}

/// A sum of shares as a duration.
pub(super) fn rounded(share: f64) -> Nanos {
    Nanos(share.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One line per request, one column per nanosecond, `#` in flight.
    fn drawn(picture: &str) -> Vec<Flight> {
        let lines = picture.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .map(|line| Flight {
                from: Nanos(line.find('#').expect("a flight has a beginning") as u64),
                until: Nanos(line.rfind('#').expect("a flight has an end") as u64 + 1),
            })
            .collect()
    }

    #[test]
    fn one_request_alone_gets_all_its_time() {
        let flights = drawn("..####..");
        assert_eq!(fair_shares(&flights), [4.0]);
        assert_eq!(union(&flights), Nanos(4));
    }

    #[test]
    fn overlapping_requests_share_equally() {
        let flights = drawn(
            "
            ####......
            ..####....
            ........##
            ",
        );
        assert_eq!(fair_shares(&flights), [3.0, 3.0, 2.0]);
        assert_eq!(union(&flights), Nanos(8));
    }

    #[test]
    fn a_short_request_below_a_long_one() {
        let flights = drawn(
            "
            #########
            ...###...
            ",
        );
        assert_eq!(fair_shares(&flights), [7.5, 1.5]);
    }

    #[test]
    fn requests_that_follow_each_other_do_not_share() {
        let flights = drawn(
            "
            ###...
            ...###
            ",
        );
        assert_eq!(fair_shares(&flights), [3.0, 3.0]);
    }

    #[test]
    fn a_request_without_duration_gets_nothing() {
        let flights = [Flight { from: Nanos(5), until: Nanos(5) }, Flight { from: Nanos(9), until: Nanos(2) }];
        assert_eq!(fair_shares(&flights), [0.0, 0.0]);
        assert_eq!(union(&flights), Nanos(0));
    }

    proptest! {
        #[test]
        fn shares_sum_up_to_the_union(ends in prop::collection::vec((0_u64..1_000_000, 0_u64..50_000), 0..200)) {
            let flights: Vec<Flight> =
                ends.iter().map(|(from, len)| Flight { from: Nanos(*from), until: Nanos(from + len) }).collect();
            let sum: f64 = fair_shares(&flights).iter().sum();
            prop_assert!((sum - union(&flights).0 as f64).abs() < 1e-3, "{sum} against {}", union(&flights).0);
        }
    }
}
