//! In which section an address is, asked a million times.

use elf::Image;
use object::ReadRef;

/// Loaded sections by address; segments where a file has no sections.
pub(super) struct Places {
    /// Start, end, name.
    spans: Vec<(u64, u64, String)>,
}

impl Places {
    pub(super) fn of<'data, R: ReadRef<'data>>(image: &Image<R>) -> Self {
        let sections = image.loaded_sections().filter(|section| section.len > 0);
        let mut spans: Vec<_> = sections
            .map(|section| (section.address, section.address.saturating_add(section.len), section.name.clone()))
            .collect();
        if spans.is_empty() {
            spans = image
                .loads()
                .map(|segment| {
                    let (start, end) = (segment.address, segment.address.saturating_add(segment.memory_len));
                    (start, end, format!("segment at {start:#x}"))
                })
                .collect();
        }
        spans.sort();
        Self { spans }
    }

    /// Which span; `None` outside of all.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let index = self.spans.partition_point(|(start, ..)| *start <= address).checked_sub(1)?;
        (address < self.spans[index].1).then_some(index)
    }

    pub(super) fn name(&self, place: Option<usize>) -> String {
        place.map_or_else(|| "outside of all sections".to_owned(), |index| self.spans[index].2.clone())
    }
}
