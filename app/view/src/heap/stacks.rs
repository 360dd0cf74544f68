//! The stacks of a process as one tree of frames, and small branches folded together. Pure.

use crate::columns::{Column, Texts};
use crate::events::Table;
use ::heap::modes::{Figures, Heap, Held};
use ::heap::symbols::{FrameId, Names};
use heapfile::stack::{Quick, StackId};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

/// What stands for folded branches.
const SMALLER: &str = "(smaller)";
/// What stands for blocks without a stack.
const NO_STACK: &str = "(no stack)";
/// Made, live at the peak, live at the end, temporary.
const MODES: usize = 4;

/// Different texts; each has the number of its place in `list`.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Distinct {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let fresh = self.list.len() as u32;
        self.numbers.insert(text.to_owned(), fresh);
        self.list.push(text.to_owned());
        fresh
    }

    pub(super) fn packed(&self) -> Texts {
        Texts::pack(self.list.iter().map(String::as_str))
    }
}

/// Whether a function only hands on what was asked for, as `operator new` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandsOn {
    No = 0,
    Yes = 1,
    /// It has no name to tell by.
    Unknown = 2,
}

/// A function of an object, whatever line or address.
#[derive(Debug)]
pub(super) struct FrameLine {
    pub name: String,
    pub object: u32,
    pub source: Option<u32>,
    /// Whether it says nothing about who wanted the memory.
    pub hands_on: HandsOn,
    /// The first line of the same description: compilers append `.isra.0`, `.cold` and the like.
    pub same: u32,
}

/// The frames of all processes.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub lines: Vec<FrameLine>,
    pub objects: Distinct,
    pub sources: Distinct,
    numbers: HashMap<(u32, String), u32>,
    by_id: HashMap<FrameId, u32>,
    by_description: HashMap<String, u32>,
}

impl Frames {
    /// Another recording has other [`FrameId`]s.
    pub(super) fn next_recording(&mut self) {
        self.by_id.clear();
    }

    fn number(&mut self, names: &Names, id: FrameId) -> u32 {
        if let Some(number) = self.by_id.get(&id) {
            return *number;
        }
        let frame = names.frame(id);
        let source = frame.file.as_deref().map(|file| self.sources.number(file));
        let object = self.objects.number(frame.object());
        let hands_on = match (&frame.function, frame.allocates()) {
            (_, true) => HandsOn::Yes,
            (None, false) => HandsOn::Unknown,
            (Some(_), false) => HandsOn::No,
        };
        let number = self.line(object, frame.label(), source, hands_on, frame.description());
        self.by_id.insert(id, number);
        number
    }

    fn made_up(&mut self, name: &str) -> u32 {
        let object = self.objects.number("");
        self.line(object, name.to_owned(), None, HandsOn::No, name.to_owned())
    }

    fn line(&mut self, object: u32, name: String, source: Option<u32>, hands_on: HandsOn, description: String) -> u32 {
        let fresh = self.lines.len() as u32;
        let number = *self.numbers.entry((object, name.clone())).or_insert(fresh);
        if number == fresh {
            let same = *self.by_description.entry(description).or_insert(fresh);
            self.lines.push(FrameLine { name, object, source, hands_on, same });
        }
        number
    }
}

/// A tree of frames from the outermost in; node 0 is the process. Parents stand before their children.
#[derive(Debug)]
pub(super) struct Trie {
    parent: Vec<u32>,
    frame: Vec<u32>,
    own: Vec<[Held; MODES]>,
    /// By node: the largest share of a mode, by bytes or blocks.
    weight: Vec<f64>,
    /// What all nodes hold together, by mode.
    all: [Held; MODES],
    sites: Vec<SiteOf>,
}

/// A site of the heap.
#[derive(Clone, Copy, Debug)]
struct SiteOf {
    node: u32,
    /// The function that wanted the memory.
    wanted_by: u32,
    held: [Held; MODES],
}

/// Nodes by parent and frame.
type Children = HashMap<(u32, u32), u32, BuildHasherDefault<Quick>>;

/// The function that wanted the memory; `None`: there is no stack.
fn wanting(heap: &Heap, names: &Names, stack: Option<StackId>) -> Option<FrameId> {
    let mut inner = Vec::new();
    for address in heap.stacks.frames(stack?) {
        for frame in names.at(heap.process, address) {
            inner.push(*frame);
            // What stands further out changes nothing.
            let function = names.frame(*frame);
            if function.function.is_some() && !function.allocates() {
                return names.wanting(&inner).first().copied();
            }
        }
    }
    names.wanting(&inner).first().copied()
}

fn modes(figures: &Figures) -> [Held; MODES] {
    [figures.made, figures.peak, figures.end, figures.temporary]
}

fn add(sum: &mut [Held; MODES], held: &[Held; MODES]) {
    sum.iter_mut().zip(held).for_each(|(sum, held)| sum.add(*held));
}

/// The largest share of a mode, by bytes or blocks.
fn weight(held: &[Held; MODES], all: &[Held; MODES]) -> f64 {
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let each = held.iter().zip(all);
    each.map(|(it, all)| share(it.bytes, all.bytes).max(share(it.blocks, all.blocks))).fold(0.0, f64::max)
}

impl Trie {
    pub(super) fn of(heap: &Heap, names: &Names, frames: &mut Frames) -> Self {
        let mut trie = Self {
            parent: vec![0],
            frame: vec![0],
            own: vec![Default::default()],
            weight: Vec::new(),
            all: Default::default(),
            sites: Vec::with_capacity(heap.sites.len()),
        };
        let mut children: Children = HashMap::default();
        // By number of a stack: where its frames end. Stacks share their outer parts.
        let mut places: Vec<Option<u32>> = vec![None; heap.stacks.len()];
        for site in &heap.sites {
            let wanted_by = wanting(heap, names, site.stack).map(|frame| frames.number(names, frame));
            let wanted_by = wanted_by.unwrap_or_else(|| frames.made_up(NO_STACK));
            let mut at = trie.place(heap, names, site.stack, &mut places, &mut children, frames);
            if at == 0 {
                at = trie.below(0, wanted_by, &mut children);
            }
            let held = modes(&site.figures);
            add(&mut trie.own[at as usize], &held);
            trie.sites.push(SiteOf { node: at, wanted_by, held });
        }
        trie.weigh();
        trie
    }

    /// The node of a stack: 0 for one without frames.
    fn place(
        &mut self,
        heap: &Heap,
        names: &Names,
        stack: Option<StackId>,
        places: &mut [Option<u32>],
        children: &mut Children,
        frames: &mut Frames,
    ) -> u32 {
        // Inward from the innermost caller that has a place already.
        let (mut path, mut outer, mut node) = (Vec::new(), stack, 0);
        while let Some(stack) = outer {
            if let Some(known) = places.get(stack.0 as usize).copied().flatten() {
                node = known;
                break;
            }
            path.push(stack);
            outer = heap.stacks.caller(stack);
        }
        for stack in path.into_iter().rev() {
            let address = heap.stacks.innermost(stack);
            for frame in address.map_or(&[][..], |address| names.at(heap.process, address)).iter().rev() {
                node = self.below(node, frames.number(names, *frame), children);
            }
            if let Some(place) = places.get_mut(stack.0 as usize) {
                *place = Some(node);
            }
        }
        node
    }

    /// The node of a frame below another one.
    fn below(&mut self, parent: u32, frame: u32, children: &mut Children) -> u32 {
        let fresh = self.parent.len() as u32;
        let node = *children.entry((parent, frame)).or_insert(fresh);
        if node == fresh {
            self.parent.push(parent);
            self.frame.push(frame);
            self.own.push(Default::default());
        }
        node
    }

    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    fn weigh(&mut self) {
        let mut total = self.own.clone();
        for node in (1..total.len()).rev() {
            let (before, rest) = total.split_at_mut(node);
            add(&mut before[self.parent[node] as usize], &rest[0]);
        }
        self.weight = total.iter().map(|held| weight(held, &total[0])).collect();
        self.all = total[0];
    }

    pub(super) fn sites(&self) -> usize {
        self.sites.len()
    }

    /// The tree without nodes of less than `share`. What they had stands in one node beside their kept siblings, and
    /// below that by the function that wanted it: for the `most` largest of these, so that trees from the allocating
    /// function out stay nearly whole.
    pub(super) fn fold(&self, share: f64, most: usize, frames: &mut Frames) -> Folded {
        let mut folded =
            Folded { parent: vec![0], frame: vec![0], own: vec![Default::default()], node_of_site: Vec::new() };
        let mut place = vec![0u32; self.len()];
        // By kept node: the node of its smaller branches.
        let mut smaller: HashMap<u32, u32> = HashMap::new();
        let mut is_smaller = vec![false];
        for node in 1..self.len() {
            let parent = place[self.parent[node] as usize];
            place[node] = if is_smaller[parent as usize] {
                parent
            } else if self.weight[node] >= share {
                is_smaller.push(false);
                folded.push(parent, self.frame[node])
            } else {
                *smaller.entry(parent).or_insert_with(|| {
                    is_smaller.push(true);
                    folded.push(parent, frames.made_up(SMALLER))
                })
            };
        }
        let mut wanted: BTreeMap<(u32, u32), [Held; MODES]> = BTreeMap::new();
        for site in &self.sites {
            let at = place[site.node as usize];
            if is_smaller[at as usize] {
                add(wanted.entry((at, site.wanted_by)).or_default(), &site.held);
            }
        }
        let mut largest: Vec<((u32, u32), f64)> =
            wanted.iter().map(|(key, held)| (*key, weight(held, &self.all))).collect();
        largest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        largest.truncate(most);
        let told: HashMap<(u32, u32), u32> =
            largest.into_iter().map(|(key, _)| (key, folded.push(key.0, key.1))).collect();
        for site in &self.sites {
            let at = place[site.node as usize];
            let at = told.get(&(at, site.wanted_by)).copied().unwrap_or(at);
            add(&mut folded.own[at as usize], &site.held);
            folded.node_of_site.push(at);
        }
        folded
    }
}

/// The least share with which the trees together have at most `most` nodes; 0: they have no more.
pub(super) fn share(tries: &[Trie], most: usize) -> f64 {
    let mut weights: Vec<f64> = tries.iter().flat_map(|trie| &trie.weight).copied().collect();
    if weights.len() <= most {
        return 0.0;
    }
    // Each kept node may get one that stands for its smaller children, and some below that.
    let (_, least, _) = weights.select_nth_unstable_by(most / 3, |a, b| b.total_cmp(a));
    least.next_up()
}

/// A tree for a page.
#[derive(Debug)]
pub(super) struct Folded {
    parent: Vec<u32>,
    frame: Vec<u32>,
    own: Vec<[Held; MODES]>,
    /// By site of the heap: its node.
    pub node_of_site: Vec<u32>,
}

impl Folded {
    fn push(&mut self, parent: u32, frame: u32) -> u32 {
        self.parent.push(parent);
        self.frame.push(frame);
        self.own.push(Default::default());
        (self.parent.len() - 1) as u32
    }

    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    pub(super) fn table(&self) -> Table {
        let numbers = |list: &[u32]| list.iter().copied().map(u64::from).collect::<Vec<u64>>();
        let mut columns = BTreeMap::from([
            ("parent", Column::delta(&numbers(&self.parent))),
            ("frame", Column::plain(&numbers(&self.frame))),
        ]);
        let names = [
            ("made_bytes", "made_blocks"),
            ("peak_bytes", "peak_blocks"),
            ("end_bytes", "end_blocks"),
            ("temporary_bytes", "temporary_blocks"),
        ];
        for (mode, (bytes, blocks)) in names.into_iter().enumerate() {
            let column = |of: fn(&Held) -> u64| self.own.iter().map(|own| of(&own[mode])).collect::<Vec<u64>>();
            columns.insert(bytes, Column::plain(&column(|held| held.bytes)));
            columns.insert(blocks, Column::plain(&column(|held| held.blocks)));
        }
        Table { count: self.len(), columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree whose nodes have these parents (each before its child) and bytes.
    fn trie(nodes: &[(u32, u64)]) -> Trie {
        let held = |bytes: u64| [Held { bytes, blocks: bytes }; MODES];
        let mut trie = Trie {
            parent: vec![0],
            frame: vec![0],
            own: vec![held(0)],
            weight: Vec::new(),
            all: Default::default(),
            sites: Vec::new(),
        };
        for (number, (parent, bytes)) in (1..).zip(nodes) {
            trie.parent.push(parent % number);
            trie.frame.push(number);
            trie.own.push(held(*bytes));
            trie.sites.push(SiteOf { node: number, wanted_by: number, held: held(*bytes) });
        }
        trie.weigh();
        trie
    }

    #[test]
    fn small_branches_become_one_node_beside_their_siblings() {
        // 1 ─ 2 (90), 3 (5) ─ 4 (4), 5 (1)
        let trie = trie(&[(0, 0), (1, 90), (1, 5), (3, 4), (1, 1)]);
        let mut frames = Frames::default();
        let folded = trie.fold(0.2, 0, &mut frames);
        assert_eq!(folded.parent, [0, 0, 1, 1]);
        assert_eq!(folded.own.iter().map(|own| own[0].bytes).collect::<Vec<_>>(), [0, 0, 90, 10]);
        assert_eq!(frames.lines[folded.frame[3] as usize].name, SMALLER);
        assert_eq!(folded.node_of_site, [1, 2, 3, 3, 3]);
        // Of the small ones the largest are told by the function that wanted them.
        let told = trie.fold(0.2, 1, &mut frames);
        assert_eq!(
            (&told.parent[4..], &told.frame[4..], told.own[3][0].bytes, told.own[4][0].bytes),
            (&[3][..], &[3][..], 5, 5)
        );
        assert_eq!(told.node_of_site, [1, 2, 4, 3, 3]);
        assert_eq!(trie.fold(0.0, 9, &mut frames).len(), trie.len());
    }

    proptest! {
        /// However small a page must be: it is, and nothing is lost.
        #[test]
        fn folding_keeps_the_sums(nodes in prop::collection::vec((0u32..50, 0u64..1000), 0..120), most in 1usize..80) {
            let tries = [trie(&nodes)];
            let share = share(&tries, most);
            let folded = tries[0].fold(share, most / 3, &mut Frames::default());
            let sum = |own: &[[Held; MODES]]| own.iter().map(|own| own[0].bytes).sum::<u64>();
            prop_assert_eq!(sum(&folded.own), sum(&tries[0].own));
            prop_assert!(folded.len() <= most.max(1) + 1, "{} nodes of {most}", folded.len());
            prop_assert!(folded.parent.iter().enumerate().skip(1).all(|(node, parent)| (*parent as usize) < node));
        }
    }
}
