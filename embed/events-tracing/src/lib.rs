//! Spans and events of the crate `tracing`, as events of thaw: what a program tells any subscriber, `thaw timeline`
//! shows, and it survives SIGKILL.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//! let subscriber = tracing_subscriber::registry().with(thaw_events_tracing::Events);
//! # tracing::subscriber::with_default(subscriber, || {
//! let request = tracing::info_span!("request", url = "http://localhost/");
//! request.in_scope(|| tracing::info!("sent"));
//! # });
//! ```
//!
//! | `tracing` | becomes |
//! |---|---|
//! | a new span | an object with the span's name and fields that waits |
//! | it is entered, it is left | it is worked on, it is done; each time, so a future has an interval for each poll |
//! | its parent, what it follows from | a link from that one to it |
//! | an event | a mark on the current span, with its message and fields as arguments |
//! | it is closed | the object is gone |
//!
//! A type is the span's target and name: `server::net::request`. Off, as it is unless `THAW_EVENTS` names a directory,
//! a span costs a load and a branch beside what `tracing` costs itself.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{OnceLock, PoisonError, RwLock};
use thaw_events::{DONE, EXEC, MARK, Type, WAIT};
use tracing_core::callsite::Identifier;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events;

/// An event outside of all spans is on this object.
const NO_SPAN: u64 = 0;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !thaw_events::is_on() {
            return;
        }
        let metadata = attributes.metadata();
        let mut called = Called(metadata.name().to_owned());
        attributes.values().record(&mut called);
        thaw_events::name(object(id), &called.0);
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.clone()),
            None if attributes.is_contextual() => context.current_span().id().cloned(),
            None => None,
        };
        let of = type_of(metadata);
        if let Some(parent) = parent {
            thaw_events::linked(object(&parent), object(id), of);
        }
        thaw_events::one(WAIT, object(id), of);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_type(id, &context, |of| thaw_events::one(EXEC, object(id), of));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_type(id, &context, |of| thaw_events::one(DONE, object(id), of));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        with_type(id, &context, |of| thaw_events::linked(object(follows), object(id), of));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        if thaw_events::is_on() {
            values.record(&mut Arguments(object(id)));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !thaw_events::is_on() {
            return;
        }
        let parent = event.parent().cloned().or_else(|| context.current_span().id().cloned());
        let on = parent.as_ref().map_or(NO_SPAN, object);
        thaw_events::one(MARK, on, type_of(event.metadata()));
        event.record(&mut Arguments(on));
    }

    fn on_close(&self, id: Id, _context: Context<'_, S>) {
        thaw_events::free(object(&id));
    }
}

/// The number of a span in its process, in 48 bits: what is cut off tells those of one place apart, and each of them is
/// gone before the next comes.
fn object(id: &Id) -> u64 {
    id.into_u64() & ((1 << 48) - 1)
}

fn with_type<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &Id,
    context: &Context<'_, S>,
    say: impl FnOnce(&'static Type),
) {
    if thaw_events::is_on()
        && let Some(metadata) = context.metadata(id)
    {
        say(type_of(metadata));
    }
}

/// One for each place of the source, for ever: there are as many as the program has of them.
fn type_of(metadata: &'static Metadata<'static>) -> &'static Type {
    static TYPES: OnceLock<RwLock<HashMap<Identifier, &'static Type>>> = OnceLock::new();
    let types = TYPES.get_or_init(RwLock::default);
    let known = types.read().unwrap_or_else(PoisonError::into_inner).get(&metadata.callsite()).copied();
    known.unwrap_or_else(|| {
        let mut types = types.write().unwrap_or_else(PoisonError::into_inner);
        types.entry(metadata.callsite()).or_insert_with(|| {
            // An event is called "event src/main.rs:7" by `tracing`; its place is told apart from its name here.
            let own = if metadata.is_event() { "event" } else { metadata.name() };
            let name: &'static str = Box::leak(format!("{}::{own}", metadata.target()).into_boxed_str());
            let (file, line) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
            Box::leak(Box::new(Type::new(name, file, line)))
        })
    })
}

/// Name and fields of a span.
struct Called(String);

impl Visit for Called {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text does not fail.
        let _ = write!(self.0, " {}={value:?}", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {}={value}", field.name());
    }
}

/// Fields as arguments of an object.
struct Arguments(u64);

impl Visit for Arguments {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        thaw_events::arg(self.0, field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        thaw_events::arg(self.0, field.name(), value);
    }
}
