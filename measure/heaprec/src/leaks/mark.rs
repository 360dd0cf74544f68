//! Which blocks pointers lead to: a search through words, beginning with what the program has without any block.
//!
//! A word that is the address of a live block, or lies in one, is a pointer: numbers that look like addresses are
//! taken for some (a conservative search, as garbage collectors of C do). So a lost block may be called reachable, and
//! a block whose address the program keeps in another form (compressed, exclusive-or of two, in a file) lost. The four
//! answers, and which pointers to the middle of a block are as good as one to its beginning, are those of Valgrind's
//! memcheck (its manual, 4.2.8 and `--leak-check-heuristics`).

use heapfile::figures::Reach;
use std::ops::Range;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Its address.
    pub start: u64,
    /// Bytes that the program asked for.
    pub size: u64,
}

impl Block {
    /// The address after its last byte.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

/// The memory of a process that stands still.
pub trait Memory {
    /// Reads words from an address that is a multiple of eight on; returns how many: fewer where memory ends.
    fn read(&self, at: u64, words: &mut [u64]) -> usize;
    /// Whether the table of virtual functions of a C++ class may be there.
    fn is_vtable(&self, address: u64) -> bool;
}

/// What the program has without any block.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// Memory.
    pub ranges: Vec<Range<u64>>,
    /// Words of registers.
    pub words: Vec<u64>,
    /// Addresses of blocks that something of the C library keeps in its own way.
    pub begins: Vec<u64>,
}

/// Words that are read at a time.
const FEW: usize = 8192;

/// What each block is, in the order of the blocks, which is that of their addresses.
pub fn mark(blocks: &[Block], roots: &Roots, memory: &dyn Memory) -> Vec<Reach> {
    let mut search = Search { blocks, memory, found: vec![None; blocks.len()], words: vec![0; FEW] };
    let (mut open, mut possible) = (Vec::new(), Vec::new());
    for begin in &roots.begins {
        if let Ok(index) = blocks.binary_search_by_key(begin, |block| block.start) {
            search.reach(index, &mut open);
        }
    }
    for word in &roots.words {
        search.follow(*word, &mut open, &mut possible);
    }
    for range in &roots.ranges {
        search.each_word(range.clone(), |search, word| search.follow(word, &mut open, &mut possible));
    }
    while let Some(index) = open.pop() {
        search.each_word_of(index, |search, word| search.follow(word, &mut open, &mut possible));
    }
    while let Some(index) = possible.pop() {
        if search.found[index].is_none() {
            search.found[index] = Some(Reach::Possible);
            search.each_word_of(index, |search, word| {
                possible.extend(search.target(word).map(|(index, _)| index));
            });
        }
    }
    search.lost();
    search.found.into_iter().map(|found| found.unwrap_or(Reach::Lost)).collect()
}

struct Search<'a> {
    blocks: &'a [Block],
    memory: &'a dyn Memory,
    found: Vec<Option<Reach>>,
    words: Vec<u64>,
}

impl Search<'_> {
    /// The block that a word points to, and whether to its beginning.
    fn target(&self, word: u64) -> Option<(usize, bool)> {
        let (first, last) = (self.blocks.first()?, self.blocks.last()?);
        if word < first.start || word >= last.end().max(last.start + 1) {
            return None;
        }
        let index = self.blocks.partition_point(|block| block.start <= word).checked_sub(1)?;
        let block = self.blocks[index];
        (word == block.start || word < block.end()).then(|| (index, word == block.start || self.begins(block, word)))
    }

    /// Whether a pointer to the middle of a block is one that programs keep in the place of its beginning.
    fn begins(&self, block: Block, word: u64) -> bool {
        let offset = word - block.start;
        let mut head = [0; 3];
        if !block.start.is_multiple_of(8) || self.memory.read(block.start, &mut head) < 3 {
            return false;
        }
        let [first, second, _] = head;
        match offset {
            // `new[]` of a class with a destructor: the number of elements, then they; blocks that begin with their
            // own length (SQLite's, for one).
            8 if first > 0 && (block.size - 8).is_multiple_of(first) => true,
            // `std::string` before C++11: length, capacity, number of owners, text, zero.
            24 if first <= second && second.checked_add(25) == Some(block.size) => true,
            // A class with several bases, by a pointer to one that is not the first: both begin with a table.
            _ if offset.is_multiple_of(8) && self.memory.is_vtable(first) => {
                let mut inner = [0];
                self.memory.read(word, &mut inner) == 1 && self.memory.is_vtable(inner[0])
            }
            _ => false,
        }
    }

    fn reach(&mut self, index: usize, open: &mut Vec<usize>) {
        if self.found[index].is_none() {
            self.found[index] = Some(Reach::Reachable);
            open.push(index);
        }
    }

    /// A word of what can be reached.
    fn follow(&mut self, word: u64, open: &mut Vec<usize>, possible: &mut Vec<usize>) {
        match self.target(word) {
            Some((index, true)) => self.reach(index, open),
            Some((index, false)) if self.found[index].is_none() => possible.push(index),
            _ => {}
        }
    }

    /// What nothing points to from outside: who leads to others, and those others. Of blocks that point at each other
    /// in a circle, one leads.
    ///
    /// Whoever is met first in an order leads to all that is met from there. Only one that comes later can lead to it
    /// in turn: so among those who lead, in the opposite order, each that is met from another does not.
    fn lost(&mut self) {
        let unknown = (0..self.blocks.len()).filter(|index| self.found[*index].is_none());
        let mut leaders: Vec<usize> = unknown.collect();
        for _ in 0..2 {
            self.found.iter_mut().filter(|found| **found == Some(Reach::Indirect)).for_each(|found| *found = None);
            let met = std::mem::take(&mut leaders);
            leaders = met.into_iter().filter(|index| self.leads(*index)).collect();
            leaders.reverse();
        }
        leaders.into_iter().for_each(|leader| self.found[leader] = Some(Reach::Lost));
    }

    /// Whether a block was not met before; then all that it leads to is, and it.
    fn leads(&mut self, leader: usize) -> bool {
        let is_first = self.found[leader].is_none();
        let mut open = Vec::new();
        if is_first {
            self.found[leader] = Some(Reach::Indirect);
            open.push(leader);
        }
        while let Some(index) = open.pop() {
            self.each_word_of(index, |search, word| {
                let Some((to, _)) = search.target(word).filter(|(to, _)| search.found[*to].is_none()) else { return };
                search.found[to] = Some(Reach::Indirect);
                open.push(to);
            });
        }
        is_first
    }

    fn each_word_of(&mut self, index: usize, each: impl FnMut(&mut Self, u64)) {
        let block = self.blocks[index];
        self.each_word(block.start..block.end(), each);
    }

    /// The words of a range that lie in it with all their bytes.
    fn each_word(&mut self, range: Range<u64>, mut each: impl FnMut(&mut Self, u64)) {
        let mut at = range.start.next_multiple_of(8);
        let mut words = std::mem::take(&mut self.words);
        while at < range.end {
            let left = usize::try_from((range.end - at) / 8).unwrap_or(usize::MAX).min(FEW);
            let read = self.memory.read(at, &mut words[..left]);
            words[..read].iter().filter(|word| **word != 0).for_each(|word| each(self, *word));
            if read == 0 {
                break;
            }
            at += 8 * read as u64;
        }
        self.words = words;
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "ranges are what is searched")]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Words by address; tables of virtual functions are from `1 << 40` on.
    struct Words(HashMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, at: u64, words: &mut [u64]) -> usize {
            for (place, word) in (at..).step_by(8).zip(words.iter_mut()) {
                *word = self.0.get(&place).copied().unwrap_or(0);
            }
            words.len()
        }
        fn is_vtable(&self, address: u64) -> bool {
            address >= 1 << 40
        }
    }

    const GLOBALS: u64 = 0x1000;

    /// What blocks of 64 bytes at 0x10000, 0x10100, ... are, with these words in memory.
    fn marked(count: u64, words: &[(u64, u64)]) -> Vec<Reach> {
        let blocks: Vec<Block> = (0..count).map(|index| Block { start: at(index), size: 64 }).collect();
        let roots = Roots { ranges: vec![GLOBALS..GLOBALS + 64], ..Roots::default() };
        mark(&blocks, &roots, &Words(words.iter().copied().collect()))
    }

    fn at(index: u64) -> u64 {
        0x1_0000 + index * 0x100
    }

    #[test]
    fn chains_from_globals_are_reachable_and_others_lost() {
        use Reach::*;
        let words = [(GLOBALS, at(0)), (at(0) + 8, at(1)), (at(2), at(3)), (at(3) + 56, at(4))];
        assert_eq!(marked(6, &words), [Reachable, Reachable, Lost, Indirect, Indirect, Lost]);
        assert_eq!(marked(1, &[(GLOBALS, at(0) + 64)]), [Lost], "behind its end");
        assert_eq!(marked(1, &[(at(0), at(0))]), [Lost], "it points at itself");
    }

    #[test]
    fn pointers_to_the_middle_are_doubtful_and_so_is_what_they_lead_to() {
        use Reach::*;
        let words = [(GLOBALS, at(0) + 16), (at(0), at(1)), (at(1), at(2) + 3)];
        assert_eq!(marked(3, &words), [Possible, Possible, Possible]);
        // Known for certain by another way.
        let words = [(GLOBALS, at(0) + 16), (at(0), at(1)), (GLOBALS + 8, at(1))];
        assert_eq!(marked(2, &words), [Possible, Reachable]);
    }

    #[test]
    fn pointers_that_programs_keep_in_the_place_of_the_beginning_are_as_good() {
        use Reach::*;
        assert_eq!(marked(1, &[(GLOBALS, at(0) + 8), (at(0), 7)]), [Reachable], "new[] of seven");
        assert_eq!(marked(1, &[(GLOBALS, at(0) + 8), (at(0), 5)]), [Possible]);
        assert_eq!(marked(1, &[(GLOBALS, at(0) + 8)]), [Possible], "none");
        let string = [(GLOBALS, at(0) + 24), (at(0), 30), (at(0) + 8, 39)];
        assert_eq!(marked(1, &string), [Reachable], "a string of the old kind");
        let bases = [(GLOBALS, at(0) + 32), (at(0), 1 << 40), (at(0) + 32, (1 << 40) + 64)];
        assert_eq!(marked(1, &bases), [Reachable], "a second base");
        assert_eq!(marked(1, &bases[..2]), [Possible], "no second table");
    }

    #[test]
    fn of_a_circle_one_block_leads() {
        use Reach::*;
        assert_eq!(marked(3, &[(at(0), at(1)), (at(1), at(2)), (at(2), at(0))]), [Lost, Indirect, Indirect]);
        // What leads to a circle leads to all of it, wherever it lies.
        let words = [(at(0), at(1)), (at(1), at(0)), (at(2), at(1))];
        assert_eq!(marked(3, &words), [Indirect, Indirect, Lost]);
        let words = [(at(1), at(0)), (at(0), at(1)), (at(3), at(2)), (at(2), at(1))];
        assert_eq!(marked(4, &words), [Indirect, Indirect, Indirect, Lost]);
    }

    #[test]
    fn registers_and_what_the_library_keeps_are_roots() {
        let blocks =
            [Block { start: at(0), size: 0 }, Block { start: at(1), size: 64 }, Block { start: at(2), size: 9 }];
        let roots = Roots { words: vec![at(0)], begins: vec![at(1), at(2) + 1], ..Roots::default() };
        let found = mark(&blocks, &roots, &Words(HashMap::new()));
        assert_eq!(found, [Reach::Reachable, Reach::Reachable, Reach::Lost]);
    }
}
