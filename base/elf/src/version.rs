//! Which versions of other files' symbols a file asks for (DT_VERNEED).

use crate::Image;
use object::ReadRef;
use object::elf::DT_VERNEED;

/// Records that are read at most: the lists are linked, and a damaged one may lead in a circle.
const RECORDS_LIMIT: usize = 1 << 16;

impl<'data, R: ReadRef<'data>> Image<R> {
    /// The versions that the file needs: library, version. Empty where it needs none; cut off where the list is
    /// damaged.
    pub fn needed_versions(&self) -> Vec<(&'data [u8], &'data [u8])> {
        let mut found = Vec::new();
        let Some(first) = self.dynamic.as_ref().and_then(|dynamic| dynamic.value(DT_VERNEED)) else { return found };
        let step = |address: u64, by: u64| if by == 0 { None } else { address.checked_add(by) };
        // Verneed: version and count (16 bits each), file, aux, next. Vernaux: hash, flags and index, name, next.
        let mut library = Some(first);
        let mut records = 0;
        while let Some(address) = library {
            let Some([file, aux, next]) = self.words(address, 4) else { break };
            let name = self.string(file).unwrap_or_default();
            let mut version = step(address, aux);
            while let Some(address) = version {
                records += 1;
                if records > RECORDS_LIMIT {
                    return found;
                }
                let Some([name_at, next]) = self.words(address, 8) else { break };
                found.push((name, self.string(name_at).unwrap_or_default()));
                version = step(address, next);
            }
            records += 1;
            library = step(address, next).filter(|_| records < RECORDS_LIMIT);
        }
        found
    }

    /// Consecutive numbers of 32 bits, this far after an address.
    fn words<const COUNT: usize>(&self, address: u64, skip: u64) -> Option<[u64; COUNT]> {
        let bytes = self.at(address.checked_add(skip)?, 4 * COUNT as u64)?;
        let mut words = [0; COUNT];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = self.order.address(bytes)?;
        }
        Some(words)
    }
}
