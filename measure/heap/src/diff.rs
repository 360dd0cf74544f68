//! What changed between two recordings: stacks are the same if objects and functions are, whatever lines and addresses
//! are.

use crate::modes::{Held, Measure};
use crate::named::{Cut, Named};
use crate::symbols::{Frame, FrameId};
use model::shown;
use serde::Serialize;
use std::collections::HashMap;

/// A stack in both recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// In the first one.
    pub before: Held,
    /// In the second one.
    pub after: Held,
    /// Functions and objects, innermost first.
    pub frames: Vec<String>,
}

impl Change {
    /// Bytes more (or less, if negative) than before.
    pub fn bytes(&self) -> i128 {
        i128::from(self.after.bytes) - i128::from(self.before.bytes)
    }

    /// Blocks more than before.
    pub fn blocks(&self) -> i128 {
        i128::from(self.after.blocks) - i128::from(self.before.blocks)
    }
}

/// Two recordings beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// All of the first.
    pub before: Held,
    /// All of the second.
    pub after: Held,
    /// Stacks that are the same in both.
    pub same: u64,
    /// The others, largest change of bytes first.
    pub changes: Vec<Change>,
}

/// Compares by this part of the stacks; changes of fewer than `min_bytes` bytes are left out.
pub fn difference(before: &Named, after: &Named, measure: Measure, cut: Cut, min_bytes: u64) -> Difference {
    let mut stacks: HashMap<Vec<String>, (Held, Held)> = HashMap::new();
    let [mut total_before, mut total_after] = [Held::default(); 2];
    let [program_before, program_after] = [before, after].map(|named| named.processes.first().map(|it| shown(&it.exe)));
    for (stack, held) in described(before, measure, cut, None) {
        total_before.add(held);
        stacks.entry(stack).or_default().0.add(held);
    }
    for (stack, held) in described(after, measure, cut, program_after.as_deref().zip(program_before.as_deref())) {
        total_after.add(held);
        stacks.entry(stack).or_default().1.add(held);
    }
    let stacks = stacks.into_iter().filter(|(_, (before, after))| before.blocks + after.blocks > 0);
    let (same, different): (Vec<_>, Vec<_>) = stacks.partition(|(_, (before, after))| before == after);
    let mut changes: Vec<Change> = different
        .into_iter()
        .map(|(frames, (before, after))| Change { before, after, frames })
        .filter(|change| change.bytes().unsigned_abs() >= u128::from(min_bytes))
        .collect();
    changes.sort_by(|a, b| {
        let key = |change: &Change| (change.bytes().unsigned_abs(), change.blocks().unsigned_abs());
        key(b).cmp(&key(a)).then_with(|| a.frames.cmp(&b.frames))
    });
    Difference { before: total_before, after: total_after, same: same.len() as u64, changes }
}

/// Each site's stack by description. The program itself may have another name (`app.new`): its frames are described as
/// those of the first one's.
fn described<'a>(
    named: &'a Named,
    measure: Measure,
    cut: Cut,
    program: Option<(&str, &str)>,
) -> impl Iterator<Item = (Vec<String>, Held)> + use<'a> {
    let describe = |frame: &Frame| match program.filter(|(own, _)| *own == frame.module) {
        Some((_, other)) => Frame { module: other.to_owned(), ..frame.clone() }.description(),
        None => frame.description(),
    };
    let descriptions: Vec<String> = named.names.frames().iter().map(describe).collect();
    named.sites().map(move |(_, site, stack)| {
        let stack = cut.of(&named.names, &stack);
        let stack = stack.iter().map(|FrameId(frame)| descriptions[*frame as usize].clone()).collect();
        (stack, measure.of(&site.figures))
    })
}
