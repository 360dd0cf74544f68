//! Which pages of which files are compressed together, and in which order these clusters lie. Pure.
//!
//! A cluster never mixes pages that all recorded starts need, pages that some need and pages that none needs: what lies
//! in the stretch that is read ahead of a start is what starts need. Needed clusters lie in the order of their first
//! touch, across files; what only some starts need comes behind, neighbours together; what none needs lies in the order
//! of the files, and large files of which nothing is needed come last, in larger clusters.

use crate::format::{BLOCK, LONGEST};
use std::collections::BTreeMap;

/// Of one that starts do not need.
const OTHER_PAGES: u64 = 32;
/// Of a file of which nothing is needed, if it is [`LARGE`].
const LARGE_PAGES: u64 = LONGEST / BLOCK;
/// Pages of a file that counts as large.
const LARGE: u64 = 1024;
/// So many pages between needed ones are taken along: cutting a cluster wastes half a block on either side.
const GAP: u64 = 1;

/// A range of pages that a start needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which start, of those that are told apart.
    pub start: u32,
    /// The file's number.
    pub file: usize,
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: u64,
    /// When the start first touched it: only the order counts.
    pub first: u64,
}

/// Who needs a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Every recorded start.
    All,
    /// At least one.
    Some,
    /// None.
    None,
}

/// Pages of a file that are compressed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The file's number.
    pub file: usize,
    /// Its first page.
    pub page: u64,
    /// How many.
    pub pages: u64,
    /// Who needs it.
    pub class: Class,
}

/// A file that is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Its number, by which files without needs are ordered.
    pub file: usize,
    /// How many pages it has.
    pub pages: u64,
}

/// Cuts files into clusters and puts these in order. `whole` are the starts of which everything that they needed is
/// known: what each of these needs, all need. Clusters that starts need have at most `most` pages.
pub fn clusters(files: &[Pages], needs: &[Need], whole: &[u32], most: u64) -> Vec<Cluster> {
    let mut by_file: BTreeMap<usize, Vec<Need>> = BTreeMap::new();
    for need in needs {
        by_file.entry(need.file).or_default().push(*need);
    }
    let mut needed: Vec<(Class, u64, Cluster)> = Vec::new();
    let mut others: Vec<(bool, Cluster)> = Vec::new();
    for file in files {
        let runs = runs(file.pages, by_file.get(&file.file).map_or(&[], Vec::as_slice), whole);
        let is_large = file.pages >= LARGE && runs.iter().all(|run| run.class == Class::None);
        for run in runs {
            let most = match (run.class, is_large) {
                (Class::None, true) => LARGE_PAGES,
                (Class::None, false) => OTHER_PAGES,
                _ => most,
            };
            for (at, pages) in parts(run.firsts.len() as u64, most) {
                let cluster = Cluster { file: file.file, page: run.page + at, pages, class: run.class };
                let firsts = match run.class {
                    Class::All => &run.firsts[at as usize..(at + pages) as usize],
                    // Neighbours stay together.
                    Class::Some => &run.firsts[..],
                    Class::None => {
                        others.push((is_large, cluster));
                        continue;
                    }
                };
                needed.push((run.class, firsts.iter().copied().min().unwrap_or_default(), cluster));
            }
        }
    }
    needed.sort_by_key(|(class, first, cluster)| (*class, *first, cluster.file, cluster.page));
    others.sort_by_key(|(is_large, cluster)| (*is_large, cluster.file, cluster.page));
    needed.into_iter().map(|(.., cluster)| cluster).chain(others.into_iter().map(|(_, cluster)| cluster)).collect()
}

/// Pages in sequence that the same starts need.
struct Run {
    page: u64,
    class: Class,
    /// When each page was first touched.
    firsts: Vec<u64>,
}

fn runs(pages: u64, needs: &[Need], whole: &[u32]) -> Vec<Run> {
    // By page: who needs it, and when it was first touched.
    let mut firsts: Vec<u64> = vec![u64::MAX; pages as usize];
    let mut counts: Vec<u32> = vec![0; pages as usize];
    for start in whole {
        let mut seen = vec![false; if needs.is_empty() { 0 } else { pages as usize }];
        for need in needs.iter().filter(|need| need.start == *start) {
            seen[range(need, pages)].fill(true);
        }
        seen.iter().zip(&mut counts).for_each(|(seen, count)| *count += u32::from(*seen));
    }
    for need in needs {
        firsts[range(need, pages)].iter_mut().for_each(|first| *first = (*first).min(need.first));
    }
    let class = |page: usize| match firsts[page] {
        u64::MAX => Class::None,
        _ if counts[page] as usize == whole.len() && !whole.is_empty() => Class::All,
        _ => Class::Some,
    };
    let mut runs: Vec<Run> = Vec::new();
    for (page, first) in firsts.iter().enumerate() {
        match (runs.last_mut(), class(page)) {
            (Some(run), is) if run.class == is => run.firsts.push(*first),
            (_, class) => runs.push(Run { page: page as u64, class, firsts: vec![*first] }),
        }
    }
    joined(runs)
}

/// Small gaps between needed pages go along with them.
fn joined(runs: Vec<Run>) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    let mut runs = runs.into_iter().peekable();
    while let Some(run) = runs.next() {
        let is_gap = run.class == Class::None && run.firsts.len() as u64 <= GAP;
        let after = runs.peek().map(|next| next.class);
        match joined.last_mut() {
            Some(last) if is_gap && last.class != Class::None && after == Some(last.class) => {
                last.firsts.extend(run.firsts);
            }
            Some(last) if last.class == run.class => last.firsts.extend(run.firsts),
            _ => joined.push(run),
        }
    }
    joined
}

fn range(need: &Need, pages: u64) -> std::ops::Range<usize> {
    let end = need.page.saturating_add(need.pages).min(pages);
    need.page.min(end) as usize..end as usize
}

/// Cuts a run into parts of nearly the same length: a short last one would hardly become smaller.
fn parts(pages: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = pages.div_ceil(most);
    (0..count).map(move |part| (part * pages / count, (part + 1) * pages / count - part * pages / count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn need(start: u32, file: usize, page: u64, pages: u64, first: u64) -> Need {
        Need { start, file, page, pages, first }
    }

    #[test]
    fn what_is_needed_lies_first_in_the_order_of_first_touch() {
        let files = [Pages { file: 1, pages: 40 }, Pages { file: 2, pages: 8 }];
        let needs = [need(0, 1, 30, 2, 5), need(0, 2, 4, 2, 7), need(0, 1, 0, 1, 9), need(0, 1, 31, 1, 1)];
        let order: Vec<(usize, u64, u64, Class)> = clusters(&files, &needs, &[0], 16)
            .into_iter()
            .map(|cluster| (cluster.file, cluster.page, cluster.pages, cluster.class))
            .collect();
        let expected = [
            (1, 30, 2, Class::All),
            (2, 4, 2, Class::All),
            (1, 0, 1, Class::All),
            (1, 1, 29, Class::None),
            (1, 32, 8, Class::None),
            (2, 0, 4, Class::None),
            (2, 6, 2, Class::None),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_some_starts_need_comes_behind_and_large_files_that_none_needs_come_last() {
        let files = [Pages { file: 1, pages: LARGE }, Pages { file: 2, pages: 8 }, Pages { file: 3, pages: 40 }];
        let needs =
            [need(0, 2, 0, 2, 5), need(1, 2, 0, 4, 1), need(1, 3, 0, 40, 0), need(2, 2, 6, 1, 0), need(0, 3, 39, 1, 9)];
        let order = clusters(&files, &needs, &[0, 1], 16);
        let classes: Vec<Class> = order.iter().map(|cluster| cluster.class).collect();
        assert!(classes.is_sorted(), "{classes:?}");
        let first: Vec<(usize, u64)> = order.iter().map(|cluster| (cluster.file, cluster.page)).collect();
        // Needed by both: page 39 of file 3, pages 0 and 1 of file 2. By one of them, at their first touch: a page of
        // file 2, the rest of file 3 in one piece.
        assert_eq!(first[..2], [(3, 39), (2, 0)]);
        assert_eq!(first[2..5], [(2, 6), (3, 0), (3, 13)]);
        assert_eq!(order.last().map(|cluster| (cluster.file, cluster.pages)), Some((1, LARGE_PAGES)));
    }

    #[test]
    fn a_page_between_needed_ones_goes_along() {
        let files = [Pages { file: 0, pages: 5 }];
        let order = clusters(&files, &[need(0, 0, 0, 1, 1), need(0, 0, 2, 1, 2)], &[0], 16);
        let cut: Vec<(u64, u64)> = order.iter().map(|cluster| (cluster.page, cluster.pages)).collect();
        assert_eq!(cut, [(0, 3), (3, 2)]);
    }

    proptest! {
        #[test]
        fn every_page_is_in_one_cluster(
            pages in prop::collection::vec(0_u64..3000, 1..4),
            needs in prop::collection::vec((0_u32..3, 0_usize..4, 0_u64..4000, 1_u64..80, 0_u64..50), 0..30),
        ) {
            let files: Vec<Pages> =
                pages.iter().enumerate().map(|(file, pages)| Pages { file, pages: *pages }).collect();
            let needs: Vec<Need> = needs
                .iter()
                .map(|(start, file, at, pages, first)| need(*start, *file, *at, *pages, *first))
                .collect();
            let clusters = clusters(&files, &needs, &[0, 1], 16);
            prop_assert!(clusters.is_sorted_by_key(|cluster| cluster.class));
            for file in files {
                let own = clusters.iter().filter(|cluster| cluster.file == file.file);
                let mut own: Vec<(u64, u64)> = own.map(|cluster| (cluster.page, cluster.pages)).collect();
                own.sort_unstable();
                let mut at = 0;
                for (page, pages) in own {
                    prop_assert_eq!(page, at);
                    prop_assert!(pages > 0 && pages <= LARGE_PAGES);
                    at += pages;
                }
                prop_assert_eq!(at, file.pages);
            }
        }
    }
}
