//! Which moment of a trace a word means: a time, the name of an object, or a type. Pure.

use crate::explain::Model;
use model::{Error, Exit, Result};

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at: u64,
    /// The interval that it is an end of.
    pub interval: Option<u32>,
}

/// A time in nanoseconds from the beginning: `12.5ms`.
fn time(word: &str) -> Option<u64> {
    let (number, unit) = word.split_at(word.find(|letter: char| letter.is_ascii_alphabetic())?);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let value = number.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    Some((value * scale) as u64)
}

/// When the trace begins.
pub fn origin(model: &Model) -> u64 {
    model.trace.events.first().map_or(0, |event| event.at_ns)
}

/// The moment of a word: of what it names, the first beginning or (`is_end`) the last end.
///
/// # Errors
/// Nothing is called so.
pub fn moment(model: &Model, word: &str, is_end: bool) -> Result<Moment> {
    let (first, last) = (origin(model), model.end);
    if let Some(after) = time(word) {
        let at = first.saturating_add(after).min(last);
        return Ok(Moment { at, interval: at_work(model, at) });
    }
    let exact = |text: &str| text == word;
    let part = |text: &str| text.contains(word);
    let fits: [&dyn Fn(&str) -> bool; 2] = [&exact, &part];
    for fits in fits {
        if let Some(found) = named(model, fits, is_end) {
            return Ok(found);
        }
    }
    Err(Error::new(Exit::Usage, "no object and no type is called", word)
        .hint("`thaw timeline report FILE --all` lists the types; a time is written as 12.5ms"))
}

fn named(model: &Model, fits: &dyn Fn(&str) -> bool, is_end: bool) -> Option<Moment> {
    let types: Vec<bool> = model.type_names.iter().map(|name| fits(name)).collect();
    let objects: Vec<bool> = (0..model.folded.objects.len() as u32)
        .map(|index| fits(&model.called(crate::intervals::Object(index))))
        .collect();
    let own = model
        .all()
        .iter()
        .enumerate()
        .filter(|(index, one)| types[model.types[*index] as usize] || objects[one.object.0 as usize]);
    let ends = own.map(|(index, one)| {
        let at = if is_end { model.end_of(index as u32) } else { one.begin() };
        Moment { at, interval: Some(index as u32) }
    });
    let marks = model
        .folded
        .marks
        .iter()
        .filter(|mark| objects[mark.object.0 as usize] || fits(model.trace.type_name(mark.type_id)));
    let marks = marks.map(|mark| {
        let doing = model.doing(mark.object, mark.at_ns, mark.thread);
        Moment { at: mark.at_ns, interval: doing.map(|(index, ..)| index) }
    });
    let all = ends.chain(marks);
    if is_end { all.max_by_key(|moment| moment.at) } else { all.min_by_key(|moment| moment.at) }
}

/// What began last of all that had begun and not ended at a moment; else what ended last before.
fn at_work(model: &Model, at: u64) -> Option<u32> {
    let begun = model.all().partition_point(|one| one.begin() < at) as u32;
    let own = || (0..begun).filter(|index| !model.is_use[*index as usize]);
    own().rev().find(|index| model.end_of(*index) >= at).or_else(|| own().max_by_key(|index| model.end_of(*index)))
}

/// What the path leads to unless another is asked for: what ended last; in a trace where nothing has, what began last.
pub fn last(model: &Model) -> Option<Moment> {
    let own = || (0..model.all().len() as u32).filter(|index| !model.is_use[*index as usize]);
    let done = own().filter(|index| model.one(*index).done.is_some()).max_by_key(|index| {
        // Of those that end at one moment the outer one.
        (model.end_of(*index), std::cmp::Reverse(model.one(*index).begin()))
    });
    let found = done.or_else(|| own().next_back())?;
    Some(Moment { at: model.end_of(found), interval: Some(found) })
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_units() {
        assert_eq!((time("12.5ms"), time("3s"), time("7 us")), (Some(12_500_000), Some(3_000_000_000), Some(7000)));
        assert_eq!((time("12"), time("ms"), time("-1s"), time("3sockets"), time("")), (None, None, None, None, None));
    }
}
