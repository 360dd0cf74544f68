//! What metadata describe: types of fields, and what packets and events consist of.

use std::collections::HashMap;
use std::rc::Rc;

/// Types may lie this deep in each other.
pub const DEEPEST: u32 = 64;

#[derive(Clone, Debug)]
pub struct Integer {
    pub bits: u32,
    pub is_signed: bool,
    /// Most significant byte first; `None`: as the trace has it.
    pub is_big: Option<bool>,
    pub base: u32,
    /// A byte of a text.
    pub is_text: bool,
    /// The clock whose time it is.
    pub clock: Option<Rc<str>>,
}

/// A range of an enumeration, both ends in it.
#[derive(Clone, Debug)]
pub struct Label {
    pub name: Rc<str>,
    pub from: i128,
    pub to: i128,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Rc<str>,
    pub of: Rc<Type>,
}

/// The names that lead to an earlier field.
pub type Reference = Vec<Rc<str>>;

#[derive(Clone, Debug)]
pub enum Kind {
    Integer(Integer),
    /// Of 32 or 64 bits.
    Float {
        bits: u32,
        is_big: Option<bool>,
    },
    /// Ends with a zero byte.
    Text,
    Enum {
        of: Integer,
        labels: Vec<Label>,
    },
    Struct(Vec<Field>),
    /// The choice that is called as the label of the tag; without one it is only a part of another type.
    Variant {
        tag: Option<Reference>,
        choices: Rc<[Field]>,
    },
    Array {
        of: Rc<Type>,
        length: u64,
    },
    Sequence {
        of: Rc<Type>,
        length: Reference,
    },
}

#[derive(Clone, Debug)]
pub struct Type {
    pub kind: Kind,
    /// In bits, a power of two.
    pub align: u64,
    /// How many types lie in each other, this one with them.
    pub depth: u32,
}

impl Type {
    /// Aligned as it and what lies in it need.
    pub fn new(kind: Kind, align: u64) -> Self {
        let inner: &mut dyn Iterator<Item = &Rc<Self>> = match &kind {
            Kind::Struct(fields) => &mut fields.iter().map(|field| &field.of),
            Kind::Variant { choices, .. } => &mut choices.iter().map(|field| &field.of),
            Kind::Array { of, .. } | Kind::Sequence { of, .. } => &mut std::iter::once(of),
            Kind::Integer(_) | Kind::Float { .. } | Kind::Text | Kind::Enum { .. } => &mut std::iter::empty(),
        };
        let (mut widest, mut depth) = (align, 0);
        for of in inner {
            (widest, depth) = (widest.max(of.align), depth.max(of.depth));
        }
        // What is chosen aligns itself.
        let align = if matches!(kind, Kind::Variant { .. }) { 1 } else { widest };
        Self { kind, align, depth: depth + 1 }
    }
}

#[derive(Clone, Debug)]
pub struct Clock {
    pub name: Rc<str>,
    pub uuid: String,
    /// Ticks a second.
    pub frequency: u64,
    /// What its zero is on the wall clock.
    pub offset_s: i128,
    pub offset_ticks: i128,
}

impl Clock {
    /// Nanoseconds of so many ticks.
    pub fn ns(&self, ticks: i128) -> i128 {
        let frequency = i128::from(self.frequency);
        let (seconds, rest) = (ticks.div_euclid(frequency), ticks.rem_euclid(frequency));
        seconds * 1_000_000_000 + rest * 1_000_000_000 / frequency
    }

    /// Nanoseconds of the wall clock at its zero.
    pub fn offset_ns(&self) -> i128 {
        self.offset_s * 1_000_000_000 + self.ns(self.offset_ticks)
    }
}

/// What every packet and event of a class of streams has.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub packet_context: Option<Rc<Type>>,
    pub event_header: Option<Rc<Type>>,
    pub event_context: Option<Rc<Type>>,
}

#[derive(Clone, Debug)]
pub struct EventClass {
    pub name: Rc<str>,
    pub context: Option<Rc<Type>>,
    pub fields: Option<Rc<Type>>,
}

#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Most significant byte first; `None`: no trace was described.
    pub is_big: Option<bool>,
    pub uuid: Option<[u8; 16]>,
    pub packet_header: Option<Rc<Type>>,
    pub env: HashMap<Rc<str>, String>,
    pub clocks: Vec<Clock>,
    pub streams: HashMap<u64, Stream>,
    pub events: Vec<EventClass>,
    /// Place in `events` by stream and number.
    pub by_id: HashMap<(u64, u64), usize>,
    /// The line in which the text ends too early.
    pub cut_at: Option<u32>,
}

impl Metadata {
    pub fn clock(&self, name: &str) -> Option<&Clock> {
        self.clocks.iter().find(|clock| &*clock.name == name)
    }
}
