//! Differences that a rewriter means to make, so that the oracle can tell them from faults.

use crate::spec::*;

/// What may differ. Each allowance is also a claim: what it says must be so in the packed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Every allowance.
    pub allowed: Vec<Allowed>,
}

/// One allowance. Addresses are those of the file, before a base is added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowed {
    /// The symbolic relocation at `at` is gone, and the word there holds base + `value`. Where the symbol is defined in
    /// the object, `value` must be what the relocation meant; where it is not, it must lie in an [`Allowed::New`]
    /// range.
    Relative {
        /// Where the relocation was.
        at: u64,
        /// What it points to now.
        value: u64,
    },
    /// The word at `at` differs after relocation, and is now this.
    Word {
        /// Where it lies.
        at: u64,
        /// What it holds.
        value: Word,
    },
    /// Bytes that the original does not have there: injected code, a table for it.
    New {
        /// Where they begin.
        at: u64,
        /// How many there are.
        len: u64,
    },
    /// The dynamic table has this one value for the tag (`None`: no value), whatever it had before.
    Dynamic {
        /// DT_INIT, DT_PREINIT_ARRAY...
        tag: u64,
        /// Its value.
        value: Option<u64>,
    },
    /// An initialiser adds the base to the words that this table of RELR words names, after the loader is done.
    Initialiser {
        /// Where the table lies.
        table: u64,
        /// How many bytes it takes.
        len: u64,
    },
    /// The dynamic table may lie in memory that is not writable.
    ReadOnlyDynamic,
    /// The bytes of the build-id are others.
    BuildId,
    /// `.gnu_debuglink` names another debug file or checksum.
    DebugLink,
}

/// What a word holds after relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A number.
    Plain(u64),
    /// An address: the base is added to it.
    Address(u64),
}

impl Expected {
    pub(crate) fn allows(&self, allowance: &Allowed) -> bool {
        self.allowed.contains(allowance)
    }

    /// The dynamic tags that may differ, with the value that they must have.
    pub(crate) fn tag(&self, tag: u64) -> Option<Option<u64>> {
        self.allowed.iter().find_map(|allowed| match allowed {
            Allowed::Dynamic { tag: own, value } if *own == tag => Some(*value),
            _ => None,
        })
    }

    /// Start and length of new bytes, including the initialiser's table.
    pub(crate) fn new_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.allowed.iter().filter_map(|allowed| match allowed {
            Allowed::New { at, len } | Allowed::Initialiser { table: at, len } => Some((*at, *len)),
            _ => None,
        })
    }

    pub(crate) fn initialiser(&self) -> Option<(u64, u64)> {
        self.allowed.iter().find_map(|allowed| match allowed {
            Allowed::Initialiser { table, len } => Some((*table, *len)),
            _ => None,
        })
    }

    /// Words that the packed image must hold, and which the original need not.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, Word)> {
        self.allowed.iter().filter_map(|allowed| match allowed {
            Allowed::Relative { at, value } => Some((*at, Word::Address(*value))),
            Allowed::Word { at, value } => Some((*at, *value)),
            _ => None,
        })
    }

    /// Symbolic relocations that became relative, with what they point to.
    pub(crate) fn relatives(&self) -> impl Iterator<Item = (u64, u64)> {
        self.allowed.iter().filter_map(|allowed| match allowed {
            Allowed::Relative { at, value } => Some((*at, *value)),
            _ => None,
        })
    }
}

/// Tags whose values a rewriter may change freely, because what they lead to is compared instead.
pub(crate) fn is_followed(tag: u64) -> bool {
    matches!(
        tag,
        DT_HASH
            | DT_STRTAB
            | DT_SYMTAB
            | DT_RELA
            | DT_RELASZ
            | DT_STRSZ
            | DT_REL
            | DT_RELSZ
            | DT_JMPREL
            | DT_PLTRELSZ
            | DT_RELR
            | DT_RELRSZ
            | DT_RELRENT
            | DT_GNU_HASH
            | DT_VERSYM
            | DT_RELACOUNT
            | DT_RELCOUNT
            | DT_VERDEF
            | DT_VERNEED
            | DT_VERNEEDNUM
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        Expected {
            allowed: vec![
                Allowed::BuildId,
                Allowed::Relative { at: 8, value: 9 },
                Allowed::Word { at: 16, value: Word::Plain(7) },
                Allowed::New { at: 100, len: 10 },
                Allowed::Dynamic { tag: DT_INIT_ARRAY, value: Some(5) },
                Allowed::Dynamic { tag: DT_RELR, value: None },
                Allowed::Initialiser { table: 200, len: 20 },
            ],
        }
    }

    #[test]
    fn only_what_was_announced_is_allowed() {
        assert!(expected().allows(&Allowed::BuildId));
        assert!(!expected().allows(&Allowed::DebugLink) && !expected().allows(&Allowed::ReadOnlyDynamic));
        assert!(!Expected::default().allows(&Allowed::BuildId));
    }

    #[test]
    fn a_tag_may_have_just_the_value_that_was_announced_for_it() {
        assert_eq!(expected().tag(DT_INIT_ARRAY), Some(Some(5)));
        assert_eq!(expected().tag(DT_RELR), Some(None), "it must be gone");
        assert_eq!(expected().tag(DT_HASH), None, "nothing was said of it");
    }

    #[test]
    fn announced_bytes_and_words_are_found_again() {
        assert_eq!(expected().new_ranges().collect::<Vec<_>>(), [(100, 10), (200, 20)]);
        assert_eq!(expected().initialiser(), Some((200, 20)));
        assert_eq!(expected().words().collect::<Vec<_>>(), [(8, Word::Address(9)), (16, Word::Plain(7))]);
        assert_eq!(expected().relatives().collect::<Vec<_>>(), [(8, 9)]);
        assert_eq!(Expected::default().initialiser(), None);
    }

    #[test]
    fn tags_are_free_only_where_what_they_lead_to_is_compared() {
        assert!(is_followed(DT_SYMTAB) && is_followed(DT_RELRSZ) && is_followed(DT_VERNEEDNUM));
        assert!(!is_followed(DT_INIT_ARRAY) && !is_followed(0) && !is_followed(u64::MAX));
    }
}
