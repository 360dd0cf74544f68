//! Every live block of the moment of a report, with its reports: for exports. [`super::analyze`] puts them into
//! sections.

use super::{Marks, ReportedAs, read};
use crate::modes::Heap;
use crate::symbols::{self, FrameId, Names};
use heapfile::reader::Reader;
use model::{Result, Warning};
use std::collections::BTreeMap;

/// Blocks that were made by the same stack, of the same size, and reported in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reported {
    /// All frames of the stack, innermost first; none: it is not known.
    pub stack: Vec<FrameId>,
    /// Bytes asked for, of one block.
    pub requested: u64,
    /// Bytes that the allocator gave, of one block.
    pub usable: u64,
    /// Each report; nothing for blocks that were not reported.
    pub reports: Vec<ReportedAs>,
}

/// The blocks of all processes of a report.
#[derive(Debug)]
pub struct Blocks {
    /// How many there are of each.
    pub blocks: BTreeMap<Reported, u64>,
    /// The names of their frames.
    pub names: Names,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Joins what was measured in processes with the recording.
///
/// # Errors
/// A process is not in the recording; a file cannot be read.
pub fn blocks(reader: &Reader, marks: &[Marks]) -> Result<Blocks> {
    let (mut heaps, mut joined, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for marks in marks {
        let mut read = read(reader, marks)?;
        warnings.append(&mut read.warnings);
        let stacks = read.joined.blocks.iter().map(|block| block.stack);
        heaps.push(Heap::of_stacks(read.process.id, read.stacks, read.modules, stacks));
        joined.push((marks, read.joined.blocks));
    }
    let mut names = Names::of(&heaps, &symbols::recall(reader.directory())?);
    warnings.append(&mut names.warnings);
    let mut blocks = BTreeMap::new();
    for (heap, (marks, judged)) in heaps.iter().zip(joined) {
        for block in judged {
            let reported = Reported {
                stack: names.stack(heap, block.stack),
                requested: block.size,
                usable: block.sum.usable_bytes / block.sum.blocks.max(1),
                reports: block.set.map_or_else(Vec::new, |set| marks.sets[set].clone()),
            };
            *blocks.entry(reported).or_default() += block.sum.blocks;
        }
    }
    Ok(Blocks { blocks, names, warnings })
}
