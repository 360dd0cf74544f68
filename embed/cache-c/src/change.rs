//! What becomes of the variants of a key: pure.

use bytes::Bytes;
use thaw_httpcache::Stored;
use thaw_httpcache::packed::Variant;

/// So many variants has a key at most: each look-up goes through all of them.
pub(crate) const MOST_VARIANTS: usize = 64;

/// A change of what is stored of a key. Variants are named by what they were when they were looked up: one that has
/// changed since is left as it is.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Variants that are superseded.
    pub remove: Vec<Stored>,
    /// Variants, and their new heads.
    pub update: Vec<(Stored, Stored)>,
    /// A new one.
    pub add: Option<Variant>,
}

/// What a change makes of the heads of a key.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// Which variants stay, in their order, and their heads.
    pub kept: Vec<(usize, Stored)>,
    /// Whether a head is another than before.
    pub updated: bool,
}

impl Change {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.update.is_empty() && self.add.is_none()
    }

    /// What it makes of these heads, besides what it adds; all bodies together have at most so many bytes.
    pub fn plan(&self, heads: &[Stored], bytes: u64) -> Plan {
        let mut updated = false;
        let mut kept = Vec::new();
        for (index, head) in heads.iter().enumerate() {
            let new = self.update.iter().find(|(old, _)| old == head).map(|(_, new)| new);
            let superseded = self.add.as_ref().is_some_and(|(added, _)| {
                head.selecting == added.selecting && head.response_time <= added.response_time
            });
            if superseded || self.remove.contains(head) {
                continue;
            }
            updated |= new.is_some();
            kept.push((index, new.unwrap_or(head).clone()));
        }
        // The oldest stand first.
        let most = MOST_VARIANTS - usize::from(self.add.is_some());
        kept.drain(..kept.len().saturating_sub(most));
        let length = |stored: &Stored| stored.length.unwrap_or(0);
        let mut sum = self.add.as_ref().map_or(0, |(added, _)| length(added));
        sum += kept.iter().map(|(_, stored)| length(stored)).sum::<u64>();
        let gone = kept.iter().take_while(|(_, stored)| {
            let over = sum > bytes;
            sum -= if over { length(stored) } else { 0 };
            over
        });
        let gone = gone.count();
        kept.drain(..gone);
        Plan { kept, updated }
    }

    /// The variants to be kept: those of the plan with the bytes that they had, and the new one.
    pub fn carry_out(self, plan: Plan, variants: Vec<Variant>) -> Vec<Variant> {
        let mut bodies: Vec<Vec<Bytes>> = variants.into_iter().map(|(_, pieces)| pieces).collect();
        let body = |(index, head): (usize, Stored)| Some((head, std::mem::take(bodies.get_mut(index)?)));
        plan.kept.into_iter().filter_map(body).chain(self.add).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderName, StatusCode};
    use std::time::{Duration, SystemTime};
    use thaw_httpcache::Key;

    fn head(language: &str, second: u64) -> Stored {
        Stored {
            key: Key::of(&"http://a/b".parse().unwrap(), &HeaderMap::new(), ""),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
            selecting: vec![(HeaderName::from_static("accept-language"), Some(language.into()))],
            request_time: SystemTime::UNIX_EPOCH,
            response_time: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            length: Some(1),
            held: std::iter::once(0..1).collect(),
        }
    }

    fn indices(plan: &Plan) -> Vec<usize> {
        plan.kept.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn a_new_variant_takes_the_place_of_its_like_and_of_no_other() {
        let heads = [head("de", 1), head("en", 1), head("en", 9)];
        let add = Some((head("en", 5), vec![Bytes::from_static(b"n")]));
        let change = Change { remove: Vec::new(), update: Vec::new(), add };
        let plan = change.plan(&heads, 99);
        assert_eq!((indices(&plan), plan.updated), (vec![0, 2], false));
        let variants = heads.map(|head| (head, vec![Bytes::from_static(b"o")])).to_vec();
        let all = change.carry_out(plan, variants);
        assert_eq!(all.iter().map(|(_, body)| body.concat()).collect::<Vec<_>>(), [b"o", b"o", b"n"]);
    }

    #[test]
    fn what_has_changed_since_it_was_looked_up_is_left_as_it_is() {
        let (old, other, new) = (head("de", 1), head("de", 2), head("de", 3));
        let change = Change { update: vec![(old.clone(), new.clone())], ..Change::default() };
        assert_eq!(change.plan(&[old], 99), Plan { kept: vec![(0, new)], updated: true });
        assert_eq!(
            change.plan(std::slice::from_ref(&other), 99),
            Plan { kept: vec![(0, other.clone())], updated: false }
        );
        let change = Change { remove: vec![head("de", 1)], ..Change::default() };
        assert_eq!((indices(&change.plan(&[other], 99)), change.is_empty()), (vec![0], false));
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let heads: Vec<Stored> = (0..MOST_VARIANTS).map(|at| head(&format!("l{at}"), 1)).collect();
        let change = Change { add: Some((head("new", 2), Vec::new())), ..Change::default() };
        assert_eq!(indices(&change.plan(&heads, 99)), (1..MOST_VARIANTS).collect::<Vec<_>>());
        assert_eq!(indices(&change.plan(&heads, 3)), [MOST_VARIANTS - 2, MOST_VARIANTS - 1]);
    }
}
