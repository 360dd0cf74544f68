//! Fields of packets and events, by their types.

use super::bits::Bits;
use super::layout::{Field, Integer, Kind, Label, Reference, Type};
use std::fmt;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number { value: i128, bits: u32, base: u32 },
    Float(f64),
    Float32(f32),
    Text(String),
    Enum { value: i128, label: Option<Rc<str>> },
    List(Vec<Value>),
    Struct(Members),
}

/// Fields in their order.
pub type Members = Vec<(Rc<str>, Value)>;

impl Value {
    /// Of a number or an enumeration.
    pub fn number(&self) -> Option<i128> {
        match self {
            Self::Number { value, .. } | Self::Enum { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// A number that is no less than zero.
    pub fn count(&self) -> Option<u64> {
        u64::try_from(self.number()?).ok()
    }

    fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(members) => member(members, name),
            _ => None,
        }
    }
}

pub fn member<'a>(members: &'a [(Rc<str>, Value)], name: &str) -> Option<&'a Value> {
    members.iter().rev().find(|(of, _)| &**of == name).map(|(_, value)| value)
}

/// The name of a field as its program gave it: tracers put a `_` before it, so that it is no word of TSDL.
pub fn own_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { value, base: 10, .. } => write!(out, "{value}"),
            Self::Number { value, bits, base } => {
                let bare = *value & ((1 << bits) - 1);
                match base {
                    16 => write!(out, "{bare:#x}"),
                    8 => write!(out, "0{bare:o}"),
                    _ => write!(out, "{bare:#b}"),
                }
            }
            Self::Float(value) => write!(out, "{value}"),
            Self::Float32(value) => write!(out, "{value}"),
            Self::Text(text) => out.write_str(text),
            Self::Enum { value, label: Some(label) } => write!(out, "{label} ({value})"),
            Self::Enum { value, label: None } => write!(out, "{value}"),
            Self::List(all) => {
                out.write_str("[")?;
                for (place, value) in all.iter().enumerate() {
                    write!(out, "{}{value}", if place == 0 { "" } else { ", " })?;
                }
                out.write_str("]")
            }
            Self::Struct(members) => {
                out.write_str("{")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    write!(out, "{}{}={value}", if place == 0 { "" } else { ", " }, own_name(name))?;
                }
                out.write_str("}")
            }
        }
    }
}

/// Why a field was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The packet ends within it.
    Short,
    /// The packet is none of this type.
    Wrong(String),
}

/// Values of an event or a header. Those of LTTng fit into a part of its buffer, 512 KiB.
const MOST_VALUES: u32 = 1 << 22;
/// Values without bits that any packet may have.
const FEW_EMPTY: u64 = 1024;

/// Reads a packet, one root (`event.fields`) after the other.
pub struct Reader<'a> {
    pub bits: Bits<'a>,
    is_big: bool,
    /// What was read of the roots that come before.
    roots: Vec<(&'static str, Value)>,
    /// The root that is being read, and its structs whose fields are.
    current: &'static str,
    open: Vec<Members>,
    /// So many more values may come in the root.
    values: u32,
    /// So many more may come in the packet that have no bits: of those there could be any number.
    empty: u64,
    /// Times of clocks in the root: clock, width and value.
    pub times: Vec<(Rc<str>, u32, u64)>,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], is_big: bool) -> Self {
        Self {
            bits: Bits::of(bytes),
            is_big,
            roots: Vec::new(),
            current: "",
            open: Vec::new(),
            values: MOST_VALUES,
            empty: FEW_EMPTY,
            times: Vec::new(),
        }
    }

    /// There is nothing behind this bit.
    pub fn ends_at(&mut self, end: u64) {
        self.bits.ends_at(end);
        self.empty = self.bits.left().saturating_add(FEW_EMPTY);
    }

    /// Reads a root, where the metadata have it. References may name it until it is read again.
    pub fn root(&mut self, name: &'static str, of: Option<&Type>) -> Result<(), Stop> {
        self.roots.retain(|(root, _)| *root != name);
        self.times.clear();
        let Some(of) = of else { return Ok(()) };
        self.current = name;
        self.open.clear();
        self.values = MOST_VALUES;
        let value = self.value(of)?;
        self.roots.push((name, value));
        Ok(())
    }

    /// What was read of a root.
    pub fn members(&self, name: &str) -> &[(Rc<str>, Value)] {
        match self.roots.iter().find(|(root, _)| *root == name) {
            Some((_, Value::Struct(members))) => members,
            _ => &[],
        }
    }

    fn value(&mut self, of: &Type) -> Result<Value, Stop> {
        let endless = || Stop::Wrong("has too many fields".to_owned());
        self.values = self.values.checked_sub(1).ok_or_else(endless)?;
        self.bits.align(of.align);
        let from = self.bits.at();
        let value = self.aligned_value(of)?;
        if self.bits.at() == from {
            self.empty = self.empty.checked_sub(1).ok_or_else(endless)?;
        }
        Ok(value)
    }

    fn aligned_value(&mut self, of: &Type) -> Result<Value, Stop> {
        match &of.kind {
            Kind::Integer(integer) => {
                let value = self.integer(integer)?;
                Ok(Value::Number { value, bits: integer.bits, base: integer.base })
            }
            Kind::Float { bits, is_big } => {
                let raw = self.bits.take(*bits, is_big.unwrap_or(self.is_big)).ok_or(Stop::Short)?;
                Ok(if *bits == 32 {
                    Value::Float32(f32::from_bits(raw as u32))
                } else {
                    Value::Float(f64::from_bits(raw))
                })
            }
            Kind::Text => self.bits.text().map(text).ok_or(Stop::Short),
            Kind::Enum { of, labels } => {
                let value = self.integer(of)?;
                Ok(Value::Enum { value, label: label(labels, value) })
            }
            Kind::Struct(fields) => self.structure(fields),
            Kind::Variant { tag, choices } => self.chosen(tag.as_ref(), choices),
            Kind::Array { of, length } => self.list(of, *length),
            Kind::Sequence { of, length } => {
                let found = self.find(length).and_then(Value::count);
                let length = found.ok_or_else(|| Stop::Wrong(format!("has no length {}", length.join("."))))?;
                self.list(of, length)
            }
        }
    }

    fn integer(&mut self, of: &Integer) -> Result<i128, Stop> {
        let raw = self.bits.take(of.bits, of.is_big.unwrap_or(self.is_big)).ok_or(Stop::Short)?;
        if let Some(clock) = &of.clock {
            self.times.push((Rc::clone(clock), of.bits, raw));
        }
        let is_negative = of.is_signed && raw >> (of.bits - 1) == 1;
        Ok(i128::from(raw) - if is_negative { 1 << of.bits } else { 0 })
    }

    fn structure(&mut self, fields: &[Field]) -> Result<Value, Stop> {
        self.open.push(Members::with_capacity(fields.len()));
        let place = self.open.len() - 1;
        for field in fields {
            let value = self.value(&field.of)?;
            self.open[place].push((Rc::clone(&field.name), value));
        }
        Ok(Value::Struct(self.open.pop().unwrap_or_default()))
    }

    fn chosen(&mut self, tag: Option<&Reference>, choices: &[Field]) -> Result<Value, Stop> {
        let told = tag.and_then(|tag| self.find(tag));
        let choice = match told {
            Some(Value::Enum { label: Some(label), .. }) => choices.iter().find(|choice| choice.name == *label),
            _ => None,
        };
        let choice = choice.ok_or_else(|| Stop::Wrong("has a variant that nothing chooses".to_owned()))?;
        self.value(&choice.of)
    }

    fn list(&mut self, of: &Type, length: u64) -> Result<Value, Stop> {
        self.bits.align(of.align);
        if let Kind::Integer(Integer { is_text: true, .. }) = of.kind {
            return self.characters(length);
        }
        // What lies in it is counted one by one; nothing is set aside for a length that may be made up.
        let mut all = Vec::new();
        for _ in 0..length {
            all.push(self.value(of)?);
        }
        Ok(Value::List(all))
    }

    /// A text of so many bytes; what is behind a zero was there by chance.
    fn characters(&mut self, length: u64) -> Result<Value, Stop> {
        if length > self.bits.left() / 8 {
            return Err(Stop::Short);
        }
        let bytes: Option<Vec<u8>> = (0..length).map(|_| self.bits.take(8, false).map(|byte| byte as u8)).collect();
        let bytes = bytes.ok_or(Stop::Short)?;
        let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
        Ok(text(&bytes[..end]))
    }

    /// The field that a reference means: of an open struct, the inner one first; of a root by its name; of an earlier
    /// root.
    fn find(&self, path: &[Rc<str>]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let inside = |value, rest: &[Rc<str>]| rest.iter().try_fold(value, |value: &Value, name| value.member(name));
        if let Some(value) = self.open.iter().rev().find_map(|members| member(members, first)) {
            return inside(value, rest);
        }
        for (parts, root) in ROOTS {
            if path.len() > parts.len() && path.iter().zip(parts).all(|(a, b)| **a == **b) {
                let (name, below) = path[parts.len()..].split_first()?;
                let earlier = self.roots.iter().find(|(of, _)| *of == root).and_then(|(_, value)| value.member(name));
                let is_current = self.current == root;
                let found = if is_current { self.open.first().and_then(|it| member(it, name)) } else { earlier };
                return inside(found?, below);
            }
        }
        self.roots.iter().rev().find_map(|(_, value)| value.member(first)).and_then(|value| inside(value, rest))
    }
}

pub const PACKET_HEADER: &str = "trace.packet.header";
pub const PACKET_CONTEXT: &str = "stream.packet.context";
pub const EVENT_HEADER: &str = "stream.event.header";
pub const STREAM_CONTEXT: &str = "stream.event.context";
pub const EVENT_CONTEXT: &str = "event.context";
pub const FIELDS: &str = "event.fields";

/// How references begin that name their root.
const ROOTS: [(&[&str], &str); 6] = [
    (&["trace", "packet", "header"], PACKET_HEADER),
    (&["stream", "packet", "context"], PACKET_CONTEXT),
    (&["stream", "event", "header"], EVENT_HEADER),
    (&["stream", "event", "context"], STREAM_CONTEXT),
    (&["event", "context"], EVENT_CONTEXT),
    (&["event", "fields"], FIELDS),
];

fn label(labels: &[Label], value: i128) -> Option<Rc<str>> {
    labels.iter().find(|label| (label.from..=label.to).contains(&value)).map(|label| Rc::clone(&label.name))
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}
