//! A thread of a profile: which of its markers are its own work, when it slept, and what its samples say of the rest.

use crate::lanes::{Lane, Part};

/// A marker with a beginning and an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: u64,
    pub to: u64,
    pub type_id: u32,
    /// Whether its kind says that it lies on the thread's stack.
    pub is_stack: bool,
}

/// A time that a sample speaks for. `type_id`: what it shows; `None`: the thread used no processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    pub from: u64,
    pub to: u64,
    pub type_id: Option<u32>,
}

/// Types of what no marker tells.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    /// The thread waits for events.
    pub asleep: u32,
    /// It used no processor.
    pub off: u32,
    /// Nothing tells what it did.
    pub untold: u32,
}

/// What of a thread is told, and by whom.
#[derive(Debug, Default)]
pub struct Row {
    pub thread: u32,
    pub object: u64,
    pub process: u32,
    pub pid: u32,
    pub name: String,
    /// Whether it is its process's first one.
    pub is_main: bool,
    /// Whether the whole began with it.
    pub is_trunk: bool,
    /// When its process began, where that is known.
    pub started: Option<u64>,
    pub spans: Vec<Span>,
    /// Markers of one moment.
    pub marks: Vec<(u64, u32)>,
    /// Markers that have not ended.
    pub open: Vec<(u64, u32, bool)>,
    /// When it woke (`true`) and fell asleep.
    pub edges: Vec<(u64, bool)>,
    pub samples: Vec<Sampled>,
    /// The first marker of any kind.
    pub first: Option<u64>,
}

/// A thread put together. All of them lie in one another, as on a stack.
#[derive(Debug, Default)]
pub struct Settled {
    /// What its markers tell.
    pub works: Vec<Span>,
    /// What else is known, or not known, of the time between them.
    pub fills: Vec<Span>,
    /// When it waited.
    pub waits: Vec<Span>,
    /// Markers that tell how long something took that the thread did not do all the time.
    pub measures: Vec<Span>,
}

impl Row {
    /// The end of the marker that began last of this type. `false`: none did.
    pub fn ends(&mut self, to: u64, type_id: u32) -> bool {
        let Some(place) = self.open.iter().rposition(|(_, of, _)| *of == type_id) else { return false };
        let (from, type_id, is_stack) = self.open.remove(place);
        self.spans.push(Span { from, to: to.max(from), type_id, is_stack });
        true
    }

    /// When it slept: from each end of being awake to the next beginning.
    fn sleeps(&mut self, asleep: u32) -> Vec<Span> {
        self.edges.sort_unstable();
        let pairs = self.edges.windows(2).filter(|pair| !pair[0].1 && pair[1].1 && pair[0].0 < pair[1].0);
        pairs.map(|pair| Span { from: pair[0].0, to: pair[1].0, type_id: asleep, is_stack: true }).collect()
    }

    /// When anything was first and last known of it.
    pub fn known(&self) -> Option<(u64, u64)> {
        // What is no work may have begun before the thread did.
        let spans = self.spans.iter().filter(|span| span.is_stack).flat_map(|span| [span.from, span.to]);
        let edges = self.edges.iter().map(|(at, _)| *at);
        let samples = self.samples.iter().flat_map(|sample| [sample.from, sample.to]);
        let all = spans.chain(edges).chain(samples).chain(self.first);
        Some((all.clone().min()?, all.max()?))
    }

    /// Puts it together. `is_measure`: types that are never a thread's work.
    pub fn settle(&mut self, types: &Types, is_measure: impl Fn(u32) -> bool) -> Settled {
        let waits = self.sleeps(types.asleep);
        let (stack, loose): (Vec<Span>, Vec<Span>) =
            self.spans.drain(..).partition(|span| span.is_stack && !is_measure(span.type_id));
        let solid: Vec<Span> = stack.iter().chain(&waits).copied().collect();
        let lane = lane(&solid);
        let is_own = |span: &Span| !is_measure(span.type_id) && !sleeps_in(&waits, span) && fits(&lane, &solid, span);
        let (own, measures) = loose.into_iter().partition(is_own);
        Settled { works: [stack, own].concat(), fills: Vec::new(), waits, measures }
    }

    /// Gives the time that no marker tells of to what its samples show. Without samples and sleep nothing says when
    /// such a thread was there.
    pub fn fill(&self, of: &mut Settled, types: &Types, from: u64, to: u64) {
        let all: Vec<Span> = of.works.iter().chain(&of.waits).copied().collect();
        let mut at = from;
        for part in lane(&all).parts() {
            if part.from > at {
                self.gap(of, types, at, part.from);
            }
            at = at.max(part.to);
        }
        if at < to {
            self.gap(of, types, at, to);
        }
    }

    fn gap(&self, of: &mut Settled, types: &Types, from: u64, to: u64) {
        let first = self.samples.partition_point(|sample| sample.to <= from);
        let (mut at, mut last) = (from, None::<Sampled>);
        let mut pieces = Vec::new();
        let untold = |from, to| Sampled { from, to, type_id: Some(types.untold) };
        for sample in self.samples[first..].iter().take_while(|sample| sample.from < to) {
            let piece = Sampled { from: sample.from.max(at), to: sample.to.min(to), ..*sample };
            pieces.extend((piece.from > at).then(|| untold(at, piece.from)));
            pieces.push(piece);
            at = piece.to;
        }
        pieces.extend((at < to).then(|| untold(at, to)));
        for piece in pieces {
            match &mut last {
                Some(last) if last.type_id == piece.type_id => last.to = piece.to,
                _ => {
                    last.replace(piece).into_iter().for_each(|piece| keep(of, types, piece));
                }
            }
        }
        last.into_iter().for_each(|piece| keep(of, types, piece));
    }
}

fn keep(of: &mut Settled, types: &Types, piece: Sampled) {
    let span = |type_id| Span { from: piece.from, to: piece.to, type_id, is_stack: true };
    match piece.type_id {
        Some(type_id) => of.fills.push(span(type_id)),
        None => of.waits.push(span(types.off)),
    }
}

/// What is innermost at each moment.
fn lane(spans: &[Span]) -> Lane {
    let part = |(place, span): (usize, &Span)| Part { from: span.from, to: span.to, interval: place as u32 };
    Lane::of(spans.iter().enumerate().map(part).collect())
}

/// Whether a thread slept in a time.
fn sleeps_in(sleeps: &[Span], span: &Span) -> bool {
    let next = sleeps.partition_point(|sleep| sleep.to <= span.from);
    sleeps.get(next).is_some_and(|sleep| sleep.from < span.to)
}

/// Whether a time lies across none of those on the stack: what is innermost at its ends is around it, or in it.
fn fits(lane: &Lane, solid: &[Span], span: &Span) -> bool {
    let around = |part: Option<Part>| part.map(|part| solid[part.interval as usize]);
    let at_begin = around(lane.before(span.from + 1, 0));
    let at_end = around(lane.before(span.to, 0));
    let begins_across = at_begin.is_some_and(|of| of.from < span.from && of.to < span.to && of.to > span.from);
    let ends_across = at_end.is_some_and(|of| of.from > span.from && of.to > span.to && of.from < span.to);
    !begins_across && !ends_across
}
