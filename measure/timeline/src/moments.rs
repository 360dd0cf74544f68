//! What happened to objects at single moments: marks, links, names, arguments, ends. Pure.

use crate::intervals::{Object, Objects};
use crate::trace::{Phase, Trace};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// It was marked.
    Mark,
    /// It is called so from here on.
    Name(&'a str),
    /// Something to know of it, `key=value`.
    Arg(&'a str),
    /// It released, or caused, this one.
    Link(Object),
    /// It is gone.
    Free,
}

/// Something that takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment<'a> {
    /// In nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// The thread that it happened on: its place in [`Trace::threads`].
    pub thread: u32,
    /// To which object.
    pub object: Object,
    /// Of which type, if it has one.
    pub type_id: Option<u32>,
    /// What it is.
    pub what: What<'a>,
}

/// All moments of a trace in the order of time. Objects have the numbers that [`crate::intervals()`] gives them.
pub fn moments(trace: &Trace) -> (Objects, Vec<Moment<'_>>) {
    let mut objects = Objects::default();
    let mut all = Vec::new();
    for event in &trace.events {
        let object = objects.at(event.object);
        let text = event.text.as_deref();
        let what = match event.phase {
            Phase::Wait | Phase::Exec | Phase::Done => continue,
            Phase::Mark => What::Mark,
            Phase::Name => {
                objects.call(object, text);
                What::Name(text.unwrap_or_default())
            }
            Phase::Arg => What::Arg(text.unwrap_or_default()),
            Phase::Free => {
                objects.free(event.object);
                What::Free
            }
            Phase::Link => {
                // One that names no other object says nothing.
                let Some(other) = event.other else { continue };
                What::Link(objects.at(other))
            }
        };
        all.push(Moment { at_ns: event.at_ns, thread: event.thread, object, type_id: event.type_id, what });
    }
    (objects, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::intervals;
    use crate::trace::{Builder, Clock, Form};
    use proptest::prelude::*;

    fn built(say: impl FnOnce(&mut Builder)) -> Trace {
        let mut builder = Builder::new(Form::Events, Clock::default());
        let process = builder.process(1, "a");
        builder.thread(process, 1, "main");
        say(&mut builder);
        builder.build()
    }

    #[test]
    fn a_link_means_the_object_that_lives_then_or_the_next_one_at_its_address() {
        let trace = built(|builder| {
            builder.link(1, 0, 5, 6, None);
            builder.says(Phase::Mark, 2, 0, 6, None);
            builder.link(3, 0, 5, 6, None);
            builder.says(Phase::Free, 4, 0, 6, None);
            builder.link(5, 0, 5, 6, None);
            builder.says(Phase::Mark, 6, 0, 6, None);
            builder.link(7, 0, 5, 9, None);
        });
        let (objects, all) = moments(&trace);
        let links: Vec<_> =
            all.iter().filter_map(|one| if let What::Link(to) = one.what { Some(to.0) } else { None }).collect();
        assert_eq!(links, [1, 1, 2, 3]);
        assert_eq!((objects.len(), objects.address(Object(2)), objects.address(Object(3))), (4, 6, 9));
    }

    #[test]
    fn names_and_arguments_keep_their_words_and_the_last_name_stays() {
        let trace = built(|builder| {
            builder.name(1, 0, 5, "first");
            builder.arg(2, 0, 5, "size", "3");
            builder.name(3, 0, 5, "second");
        });
        let (objects, all) = moments(&trace);
        let what: Vec<_> = all.iter().map(|one| one.what).collect();
        assert_eq!(what, [What::Name("first"), What::Arg("size=3"), What::Name("second")]);
        assert_eq!(objects.name(Object(0)), Some("second"));
    }

    proptest! {
        #[test]
        fn objects_are_those_of_the_intervals(
            events in proptest::collection::vec((0..8_u8, 0..4_u64, 0..4_u64), 0..60)
        ) {
            let trace = built(|builder| {
                for (at, (phase, object, other)) in (1..).zip(events) {
                    match phase {
                        0 => builder.name(at, 0, object, "n"),
                        1 => builder.link(at, 0, object, other, None),
                        2 => builder.arg(at, 0, object, "a", "b"),
                        3 => builder.says(Phase::Wait, at, 0, object, None),
                        4 => builder.says(Phase::Exec, at, 0, object, None),
                        5 => builder.says(Phase::Done, at, 0, object, None),
                        6 => builder.says(Phase::Mark, at, 0, object, None),
                        _ => builder.says(Phase::Free, at, 0, object, None),
                    }
                }
            });
            let (known, _) = intervals(&trace);
            let (objects, _) = moments(&trace);
            prop_assert!(objects.len() >= known.len());
            for number in 0..known.len() as u32 {
                prop_assert_eq!(objects.address(Object(number)), known.address(Object(number)));
                prop_assert_eq!(objects.name(Object(number)), known.name(Object(number)));
            }
        }
    }
}
