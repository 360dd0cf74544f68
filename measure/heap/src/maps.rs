//! Mappings that are live at a moment, with the stacks that made them: memory that is no heap.

use heapfile::event::{Event, MapFlags, What};
use heapfile::stack::StackId;
use std::collections::BTreeMap;
use std::ops::Range;

/// A mapping, or what is left of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address behind it.
    end: u64,
    /// The stack that mapped it; `None`: none was taken.
    pub stack: Option<StackId>,
    /// Of which kind.
    pub flags: MapFlags,
}

/// The mappings of a process, by first address; they do not overlap.
#[derive(Debug, Default)]
pub struct Maps {
    live: BTreeMap<u64, Mapping>,
}

impl Maps {
    /// Enters an event.
    pub fn enter(&mut self, event: &Event) {
        match event.what {
            // A mapping may be put over others.
            What::Map { at, size, flags } => {
                let end = at.0.saturating_add(size);
                self.clear(at.0, end);
                if end > at.0 {
                    self.live.insert(at.0, Mapping { end, stack: event.stack, flags });
                }
            }
            What::Unmap { at, size } => self.clear(at.0, at.0.saturating_add(size)),
            _ => {}
        }
    }

    /// Takes out what lies between two addresses.
    fn clear(&mut self, start: u64, end: u64) {
        if let Some((before, mapping)) = self.live.range(..start).next_back().map(|(at, mapping)| (*at, *mapping))
            && mapping.end > start
        {
            self.live.insert(before, Mapping { end: start, ..mapping });
            if mapping.end > end {
                self.live.insert(end, mapping);
            }
        }
        while let Some((at, mapping)) = self.live.range(start..end).next().map(|(at, mapping)| (*at, *mapping)) {
            self.live.remove(&at);
            if mapping.end > end {
                self.live.insert(end, mapping);
            }
        }
    }

    /// What is mapped now, with its addresses.
    pub fn ranges(&self) -> impl Iterator<Item = (Range<u64>, Mapping)> {
        self.live.iter().map(|(start, mapping)| (*start..mapping.end, *mapping))
    }

    /// What is mapped now, with its bytes.
    pub fn live(&self) -> impl Iterator<Item = (u64, Mapping)> {
        self.live.iter().map(|(start, mapping)| (mapping.end - start, *mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapfile::event::{Pointer, ThreadId};
    use model::Nanos;
    use proptest::prelude::*;

    fn event(what: What) -> Event {
        Event { at: Nanos(0), ticks: 0, thread: ThreadId(1), stack: None, what }
    }

    proptest! {
        /// Beside an array of pages that does the same.
        #[test]
        fn parts_can_go_and_be_covered(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..20), 0..40)) {
            let (mut maps, mut pages) = (Maps::default(), [None; 64]);
            for (number, (is_map, at, size)) in (1u8..).zip(steps) {
                let range = at as usize..(at + size) as usize;
                let at = Pointer(at);
                if is_map {
                    maps.enter(&event(What::Map { at, size, flags: MapFlags(number) }));
                    pages[range].fill(Some(number));
                } else {
                    maps.enter(&event(What::Unmap { at, size }));
                    pages[range].fill(None);
                }
            }
            let mut found = [None; 64];
            for (start, mapping) in &maps.live {
                prop_assert!(*start < mapping.end);
                for page in &mut found[*start as usize..mapping.end as usize] {
                    prop_assert_eq!(page.replace(mapping.flags.0), None);
                }
            }
            prop_assert_eq!(found, pages);
        }
    }
}
