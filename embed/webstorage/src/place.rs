//! Whose an area is: partition and origin; and the file that it is in. Pure.

use std::fmt;

/// Whose an area or table is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The site at the top: each has areas of its own. May be empty.
    pub partition: String,
    /// The origin, as `https://example.org`; of a table, its name.
    pub origin: String,
    /// It is a table of bytes.
    pub table: bool,
}

/// What ends the label of a table.
const TABLE: &str = "\0table";
/// The longest partition, and the longest origin, in bytes.
pub const LONGEST: usize = 4096;

impl Place {
    /// Of an area. `None`: no origin, one that is too long (4,096 bytes), or a NUL in it.
    pub fn area(partition: &str, origin: &str) -> Option<Place> {
        let right = |text: &str| text.len() <= LONGEST && !text.contains('\0');
        (right(partition) && right(origin) && !origin.is_empty()).then(|| Place {
            partition: partition.into(),
            origin: origin.into(),
            table: false,
        })
    }

    /// Of a table, by the same rules.
    pub fn table(partition: &str, name: &str) -> Option<Place> {
        Place::area(partition, name).map(|place| Place { table: true, ..place })
    }

    /// What the head of its file says.
    pub fn label(&self) -> Vec<u8> {
        let end = if self.table { TABLE } else { "" };
        [&self.partition, "\0", &self.origin, end].concat().into_bytes()
    }

    /// Read back from that.
    pub fn of_label(label: &[u8]) -> Option<Place> {
        let (partition, rest) = std::str::from_utf8(label).ok()?.split_once('\0')?;
        match rest.strip_suffix(TABLE) {
            Some(name) => Place::table(partition, name),
            None => Place::area(partition, rest),
        }
    }

    /// The name of its file; others, where that is another's.
    pub fn file(&self, number: usize) -> String {
        let hash = twox_hash::XxHash3_64::oneshot(&self.label());
        if number == 0 { format!("{hash:016x}.web") } else { format!("{hash:016x}-{number}.web") }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.origin)?;
        if self.partition.is_empty() { Ok(()) } else { write!(out, " in {}", self.partition) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_have_one_label() {
        let all = [
            Place::area("", "a"),
            Place::area("a", "a"),
            Place::area("a", "b"),
            Place::table("a", "b"),
            Place::area("a", "table"),
            Place::table("", "a"),
        ];
        let labels: std::collections::HashSet<_> = all.iter().flatten().map(Place::label).collect();
        let files: std::collections::HashSet<_> = all.iter().flatten().map(|place| place.file(0)).collect();
        assert_eq!((labels.len(), files.len()), (6, 6));
        assert!(all.iter().all(|place| Place::of_label(&place.as_ref().unwrap().label()) == *place));
        assert_ne!(all[0].as_ref().unwrap().file(0), all[0].as_ref().unwrap().file(1));
    }

    #[test]
    fn what_would_be_taken_for_another_is_refused() {
        assert!(Place::area("", "").is_none() && Place::area("a\0b", "c").is_none());
        assert!(Place::area("a", "b\0table").is_none() && Place::table("", "\0").is_none());
        assert!(Place::area(&"a".repeat(4097), "b").is_none() && Place::area(&"a".repeat(4096), "b").is_some());
    }
}
