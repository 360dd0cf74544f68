//! The items in memory, and which of them have not been saved. No I/O.

use crate::error::Error;
use crate::item::{Id, Item, LONGEST_ORIGIN, LONGEST_PAYLOAD, LONGEST_TITLE, Payload, ROOT, flag, kind};
use crate::record::{Change, field};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Between the orders of two items that were put one behind the other.
const GAP: u64 = 1 << 32;

/// Where an item goes among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all that are known.
    First,
    /// Behind all, those too that have not been loaded yet.
    Last,
    /// Behind this one.
    After(Id),
}

/// An item that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New<'a> {
    /// What it is: [`kind`].
    pub kind: u8,
    /// What is true of it: [`flag`].
    pub flags: u32,
    /// Its title.
    pub title: &'a str,
    /// Whose it is.
    pub origin: &'a str,
    /// The application's bytes.
    pub payload: &'a [u8],
}

/// What is to be changed of an item: `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit<'a> {
    /// Its title.
    pub title: Option<&'a str>,
    /// Its flags, all of them.
    pub flags: Option<u32>,
    /// Whose it is.
    pub origin: Option<&'a str>,
    /// The application's bytes.
    pub payload: Option<&'a [u8]>,
}

/// The tree.
#[derive(Clone, Default)]
pub struct Tree {
    /// All items.
    pub items: HashMap<Id, Item>,
    below: HashMap<Id, BTreeSet<(u64, Id)>>,
    /// What has not been saved: fields of each item.
    pub marks: BTreeMap<Id, u8>,
    /// What was removed while there was more to load.
    gone: Option<HashSet<Id>>,
    /// The number of the next item.
    pub next: Id,
    /// The greatest order.
    pub top: u64,
    /// There is, or was, an item for crashes only.
    pub crash_only: bool,
}

fn check(what: &'static str, bytes: usize, most: usize) -> Result<(), Error> {
    if bytes > most { Err(Error::TooLong(what, bytes, most)) } else { Ok(()) }
}

fn payload(bytes: &[u8]) -> Payload {
    if bytes.is_empty() { Payload::None } else { Payload::Here(bytes.into()) }
}

impl Tree {
    /// An empty one. `partial`: more will be loaded into it.
    pub fn new(partial: bool) -> Tree {
        Tree { next: 1, gone: partial.then(HashSet::new), ..Tree::default() }
    }

    fn get(&self, id: Id) -> Result<&Item, Error> {
        self.items.get(&id).ok_or(Error::NoItem(id))
    }

    fn exists(&self, parent: Id) -> Result<(), Error> {
        if parent == ROOT { Ok(()) } else { self.get(parent).map(drop) }
    }

    /// The items in another one, in their order.
    pub fn children(&self, parent: Id) -> impl Iterator<Item = Id> {
        self.below.get(&parent).into_iter().flatten().map(|(_, id)| *id)
    }

    /// All below an item, it too, parents first.
    pub fn under(&self, start: Id) -> Vec<Id> {
        let mut all = vec![start];
        let mut at = 0;
        while let Some(id) = all.get(at) {
            // What is read of a damaged file may lie in itself.
            all.extend(self.children(*id).filter(|below| *below != start));
            at += 1;
        }
        all
    }

    fn link(&mut self, id: Id) {
        let Item { parent, order, .. } = self.items[&id];
        self.below.entry(parent).or_default().insert((order, id));
        self.top = self.top.max(order);
        self.next = self.next.max(id.saturating_add(1));
        self.crash_only |= self.items[&id].has(flag::CRASH_ONLY);
    }

    fn unlink(&mut self, id: Id) {
        let Item { parent, order, .. } = self.items[&id];
        if let Some(siblings) = self.below.get_mut(&parent) {
            siblings.remove(&(order, id));
            if siblings.is_empty() {
                self.below.remove(&parent);
            }
        }
    }

    fn mark(&mut self, id: Id, fields: u8) {
        *self.marks.entry(id).or_default() |= fields;
    }

    /// The order of a new place, `moved` not counted; siblings are spread when there is no room between two.
    fn order(&mut self, parent: Id, place: Place, moved: Id, now: u64) -> Result<u64, Error> {
        let after = match place {
            Place::Last => return Ok(self.top.saturating_add(GAP)),
            Place::First => None,
            Place::After(id) if self.get(id)?.parent == parent && id != moved => Some(id),
            Place::After(id) => return Err(Error::NoItem(id)),
        };
        for _ in 0..2 {
            let siblings: Vec<(u64, Id)> = match after {
                None => {
                    self.below.get(&parent).into_iter().flatten().copied().filter(|at| at.1 != moved).take(1).collect()
                }
                Some(id) => {
                    let from = (self.items[&id].order, id);
                    let all = self.below[&parent].range(from..).copied();
                    all.filter(|at| at.1 != moved).take(2).collect()
                }
            };
            let low = after.map_or(0, |_| siblings[0].0);
            let high = match siblings.get(usize::from(after.is_some())) {
                Some(next) => next.0,
                None => low.saturating_add(2 * GAP),
            };
            if high > low + 1 {
                return Ok(low + (high - low) / 2);
            }
            let spread: Vec<Id> = self.children(parent).filter(|id| *id != moved).collect();
            for id in spread {
                let order = self.top.saturating_add(GAP);
                self.put(id, parent, order, now);
            }
        }
        Ok(self.top)
    }

    fn put(&mut self, id: Id, parent: Id, order: u64, now: u64) {
        self.unlink(id);
        if let Some(item) = self.items.get_mut(&id) {
            (item.parent, item.order, item.changed_ms) = (parent, order, now);
        }
        self.link(id);
        self.mark(id, field::PLACE);
    }

    /// Makes an item.
    pub fn insert(&mut self, parent: Id, place: Place, new: &New, now: u64) -> Result<Id, Error> {
        self.exists(parent)?;
        check("title", new.title.len(), LONGEST_TITLE)?;
        check("origin", new.origin.len(), LONGEST_ORIGIN)?;
        check("payload", new.payload.len(), LONGEST_PAYLOAD)?;
        let order = self.order(parent, place, ROOT, now)?;
        let id = self.next;
        let item = Item {
            parent,
            order,
            kind: new.kind,
            flags: new.flags,
            title: new.title.into(),
            origin: new.origin.into(),
            changed_ms: now,
            payload: payload(new.payload),
        };
        self.items.insert(id, item);
        self.link(id);
        self.mark(id, field::ALL | field::PAYLOAD);
        Ok(id)
    }

    /// Changes an item. `false`: it is so already.
    pub fn change(&mut self, id: Id, edit: &Edit, now: u64) -> Result<bool, Error> {
        check("title", edit.title.map_or(0, str::len), LONGEST_TITLE)?;
        check("origin", edit.origin.map_or(0, str::len), LONGEST_ORIGIN)?;
        check("payload", edit.payload.map_or(0, <[u8]>::len), LONGEST_PAYLOAD)?;
        let item = self.items.get_mut(&id).ok_or(Error::NoItem(id))?;
        let mut fields = 0;
        if let Some(title) = edit.title.filter(|title| **title != *item.title) {
            item.title = title.into();
            fields |= field::TITLE;
        }
        if let Some(flags) = edit.flags.filter(|flags| *flags != item.flags) {
            item.flags = flags;
            self.crash_only |= flags & flag::CRASH_ONLY != 0;
            fields |= field::FLAGS;
        }
        if let Some(origin) = edit.origin.filter(|origin| **origin != *item.origin) {
            item.origin = origin.into();
            fields |= field::ORIGIN;
        }
        if let Some(new) = edit.payload.map(payload).filter(|new| *new != item.payload) {
            item.payload = new;
            fields |= field::PAYLOAD;
        }
        if fields != 0 {
            item.changed_ms = now;
            self.mark(id, fields);
        }
        Ok(fields != 0)
    }

    /// Moves an item.
    pub fn move_to(&mut self, id: Id, parent: Id, place: Place, now: u64) -> Result<(), Error> {
        self.get(id)?;
        self.exists(parent)?;
        let mut above = parent;
        while above != ROOT {
            if above == id {
                return Err(Error::Circle(id, parent));
            }
            above = self.get(above)?.parent;
        }
        let order = self.order(parent, place, id, now)?;
        self.put(id, parent, order, now);
        Ok(())
    }

    /// Removes an item with all below. How many they were.
    pub fn remove(&mut self, id: Id) -> Result<usize, Error> {
        self.get(id)?;
        let all = self.under(id);
        for one in &all {
            let moved = self.marks.remove(one);
            // What lies below on the disk too goes with it; what was moved there lies elsewhere on the disk.
            if moved
                .map_or(*one == id, |fields| fields & field::WHOLE == 0 && (*one == id || fields & field::PLACE != 0))
            {
                self.mark(*one, field::GONE);
            }
        }
        self.drop_items(&all);
        Ok(all.len())
    }

    fn drop_items(&mut self, all: &[Id]) {
        for id in all {
            self.unlink(*id);
            self.items.remove(id);
            if let Some(gone) = &mut self.gone {
                gone.insert(*id);
            }
        }
    }

    /// Does what a record says, which comes of a file: parents may come later.
    pub fn replay(&mut self, change: &Change) {
        let id = change.id;
        self.next = self.next.max(id.saturating_add(1));
        if change.fields & field::PLACE != 0 {
            self.top = self.top.max(change.place.1);
        }
        if change.fields & field::GONE != 0 {
            if self.items.contains_key(&id) {
                let all = self.under(id);
                self.drop_items(&all);
            }
            return;
        }
        let mut item = match self.items.get(&id) {
            Some(item) if change.fields & field::WHOLE == 0 => item.clone(),
            // Part of something that is not known.
            None if change.fields & field::WHOLE == 0 => return,
            _ => Item::default(),
        };
        if self.items.contains_key(&id) {
            self.unlink(id);
        }
        change.apply(&mut item);
        self.items.insert(id, item);
        self.link(id);
    }

    /// Takes items out whose parents are not there, with all below: what was loaded first has no more of them.
    pub fn drop_orphans(&mut self) {
        let known: HashSet<Id> = self.under(ROOT).into_iter().collect();
        let lost: Vec<Id> = self.items.keys().copied().filter(|id| !known.contains(id)).collect();
        self.drop_items(&lost);
        if let Some(gone) = &mut self.gone {
            gone.clear();
        }
    }

    /// Puts items whose parents are not there into a window of their own. How many they were.
    pub fn adopt_orphans(&mut self, now: u64) -> usize {
        let mut adopted = 0;
        let mut window = None;
        loop {
            let known: HashSet<Id> = self.under(ROOT).into_iter().collect();
            let mut lost: Vec<Id> = self.items.keys().copied().filter(|id| !known.contains(id)).collect();
            if lost.is_empty() {
                return adopted;
            }
            lost.sort_unstable();
            let heads: Vec<Id> =
                lost.iter().copied().filter(|id| !self.items.contains_key(&self.items[id].parent)).collect();
            let heads = if heads.is_empty() { vec![lost[0]] } else { heads };
            let new = New { kind: kind::WINDOW, flags: flag::RECOVERED, title: "Recovered", ..New::default() };
            let window = *window.get_or_insert_with(|| self.insert(ROOT, Place::Last, &new, now).unwrap_or(ROOT));
            for id in heads {
                let order = self.top.saturating_add(GAP);
                self.put(id, window, order, now);
                adopted += 1;
            }
        }
    }

    /// Windows, what is visible in them, and entries of those, parents first.
    pub fn first(&self) -> Vec<Id> {
        self.shown_under(self.children(ROOT).collect())
    }

    /// What has not been saved, as changes, and the marks of that, which are taken away. What became visible is written
    /// whole, with its entries: whoever loads it first knows nothing else of it.
    pub fn take_changes(&mut self) -> (Vec<Change>, BTreeMap<Id, u8>) {
        let marks = std::mem::take(&mut self.marks);
        let mut whole = BTreeSet::new();
        for (id, fields) in &marks {
            let shown = self.items.get(id).is_some_and(|item| item.has(flag::VISIBLE) || item.kind == kind::ENTRY);
            if shown && fields & (field::FLAGS | field::PLACE) != 0 {
                whole.extend(self.shown_under(vec![*id]));
            }
        }
        let mut changes = Vec::new();
        let all: BTreeSet<Id> = marks.keys().copied().chain(whole.iter().copied()).collect();
        let (gone, there): (Vec<Id>, Vec<Id>) = all.into_iter().partition(|id| !self.items.contains_key(id));
        for id in there {
            let fields = if whole.contains(&id) { field::ALL | field::PAYLOAD } else { marks[&id] & !field::GONE };
            changes.push(Change::of(id, &self.items[&id], fields));
        }
        changes.extend(gone.into_iter().map(Change::gone));
        (changes, marks)
    }

    fn shown_under(&self, mut all: Vec<Id>) -> Vec<Id> {
        let mut at = 0;
        while let Some(id) = all.get(at) {
            let more = self.children(*id).filter(|id| {
                let item = &self.items[id];
                item.has(flag::VISIBLE) || item.kind == kind::ENTRY
            });
            all.extend(more.collect::<Vec<_>>());
            at += 1;
        }
        all
    }

    /// Marks that were taken are there again: what they stand for could not be written.
    pub fn give_back(&mut self, marks: BTreeMap<Id, u8>) {
        for (id, fields) in marks {
            if self.items.contains_key(&id) {
                self.mark(id, fields);
            } else {
                self.marks.insert(id, field::GONE);
            }
        }
    }

    /// Puts in what was loaded behind the first: not what is known, nor what was removed meanwhile. Which they were.
    pub fn merge(&mut self, mut rest: Tree) -> Vec<Id> {
        let gone = self.gone.take().unwrap_or_default();
        self.crash_only |= rest.crash_only;
        (self.next, self.top) = (self.next.max(rest.next), self.top.max(rest.top));
        let mut new = Vec::new();
        let mut all = rest.children(ROOT).collect::<Vec<_>>();
        let mut at = 0;
        while let Some(id) = all.get(at).copied() {
            at += 1;
            if gone.contains(&id) {
                continue;
            }
            all.extend(rest.children(id));
            if !self.items.contains_key(&id)
                && let Some(item) = rest.items.remove(&id)
            {
                self.items.insert(id, item);
                self.link(id);
                new.push(id);
            }
        }
        for id in rest.marks.keys().filter(|id| self.items.contains_key(id)) {
            *self.marks.entry(*id).or_default() |= rest.marks[id];
        }
        new
    }

    /// Removes all that is so, with all below. How many they were.
    pub fn remove_all(&mut self, is_so: impl Fn(&Item) -> bool) -> usize {
        let all: Vec<Id> = self.items.iter().filter(|(_, item)| is_so(item)).map(|(id, _)| *id).collect();
        all.into_iter().map(|id| self.remove(id).unwrap_or(0)).sum()
    }

    /// The text of a title for tests and tools: an item's title, or nothing.
    pub fn title(&self, id: Id) -> Arc<str> {
        self.items.get(&id).map_or_else(|| "".into(), |item| item.title.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tree: &mut Tree, parent: Id, kind: u8, flags: u32) -> Id {
        tree.insert(parent, Place::Last, &New { kind, flags, ..New::default() }, 1).unwrap()
    }

    /// A window with two tabs, the first of which is visible and has two entries; the other has one.
    fn small() -> Tree {
        let mut tree = Tree::new(false);
        let window = add(&mut tree, ROOT, kind::WINDOW, 0);
        let (one, two) = (add(&mut tree, window, kind::TAB, flag::VISIBLE), add(&mut tree, window, kind::TAB, 0));
        for tab in [one, one, two] {
            add(&mut tree, tab, kind::ENTRY, 0);
        }
        tree
    }

    fn on_disk(tree: &mut Tree, disk: &mut Tree) {
        for change in tree.take_changes().0 {
            disk.replay(&change);
        }
        assert_eq!(tree.items, disk.items);
    }

    #[test]
    fn the_first_are_windows_visible_tabs_and_their_entries() {
        assert_eq!(small().first(), [1, 2, 4, 5]);
    }

    #[test]
    fn places_are_kept_when_there_is_no_room_between_two() {
        let mut tree = small();
        let mut expected: Vec<Id> = vec![2, 3];
        for _ in 0..200 {
            let id = tree.insert(1, Place::After(2), &New::default(), 1).unwrap();
            expected.insert(expected.iter().position(|at| *at == 2).unwrap() + 1, id);
            let id = tree.insert(1, Place::First, &New::default(), 1).unwrap();
            expected.insert(0, id);
        }
        assert_eq!(tree.children(1).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let mut tree = small();
        let before = tree.items.clone();
        assert_eq!(tree.move_to(1, 4, Place::Last, 2), Err(Error::Circle(1, 4)));
        assert_eq!(tree.move_to(1, 9, Place::Last, 2), Err(Error::NoItem(9)));
        assert_eq!(tree.insert(1, Place::After(4), &New::default(), 2), Err(Error::NoItem(4)));
        let long = "x".repeat(LONGEST_TITLE + 1);
        let edit = Edit { title: Some(&long), flags: Some(9), ..Edit::default() };
        assert!(matches!(tree.change(1, &edit, 2), Err(Error::TooLong("title", _, LONGEST_TITLE))));
        assert!(tree.remove(9).is_err());
        assert_eq!(tree.items, before);
    }

    #[test]
    fn what_was_moved_into_what_is_removed_is_removed_on_the_disk_too() {
        let (mut tree, mut disk) = (small(), Tree::new(false));
        on_disk(&mut tree, &mut disk);
        let other = add(&mut tree, ROOT, kind::WINDOW, 0);
        on_disk(&mut tree, &mut disk);
        tree.move_to(2, other, Place::First, 2).unwrap();
        tree.remove(other).unwrap();
        on_disk(&mut tree, &mut disk);
        tree.move_to(3, ROOT, Place::First, 2).unwrap();
        tree.remove(1).unwrap();
        on_disk(&mut tree, &mut disk);
        assert_eq!(tree.children(ROOT).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn what_becomes_visible_is_written_whole_with_its_entries() {
        let mut tree = small();
        tree.take_changes();
        tree.change(3, &Edit { flags: Some(flag::VISIBLE), ..Edit::default() }, 2).unwrap();
        let (changes, _) = tree.take_changes();
        let whole: Vec<Id> = changes.iter().filter(|c| c.fields & field::WHOLE != 0).map(|c| c.id).collect();
        assert_eq!(whole, [3, 6]);
        tree.change(3, &Edit { title: Some("new"), ..Edit::default() }, 2).unwrap();
        assert_eq!(tree.take_changes().0[0].fields, field::TITLE);
    }

    #[test]
    fn what_was_removed_or_changed_while_more_was_loaded_stays_so() {
        let all = small();
        let mut tree = Tree::new(true);
        for id in all.first() {
            tree.replay(&Change::of(id, &all.items[&id], field::ALL | field::PAYLOAD));
        }
        tree.change(2, &Edit { title: Some("mine"), ..Edit::default() }, 2).unwrap();
        tree.remove(5).unwrap();
        assert_eq!(tree.merge(all), [3, 6]);
        assert_eq!((&*tree.title(2), tree.items.len(), tree.next), ("mine", 5, 7));
    }

    #[test]
    fn orphans_and_circles_come_into_a_window_of_their_own() {
        let mut tree = small();
        let all = tree.clone();
        tree.items.clear();
        tree.below.clear();
        for id in [1, 3, 4, 6] {
            tree.replay(&Change::of(id, &all.items[&id], field::ALL));
        }
        let circle = Item { parent: 8, kind: kind::TAB, ..Item::default() };
        tree.replay(&Change::of(7, &circle, field::ALL));
        tree.replay(&Change::of(8, &Item { parent: 7, ..circle }, field::ALL));
        assert_eq!(tree.adopt_orphans(3), 2);
        let window = tree.children(ROOT).last().unwrap();
        assert!(tree.items[&window].has(flag::RECOVERED));
        assert_eq!(tree.children(window).collect::<Vec<_>>(), [4, 7]);
        assert_eq!(tree.under(ROOT).len() - 1, tree.items.len());
    }
}
