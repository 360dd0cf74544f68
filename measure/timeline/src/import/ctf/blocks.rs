//! What the blocks of a text say: of integers, of the trace, its clocks, its streams and its events. Pure.

use super::layout::{Clock, EventClass, Integer, Kind, Metadata, Stream, Type};
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    Number(i128),
    Text(String),
    /// Names with dots between them.
    Name(String),
}

/// Values and types by the names that they are given.
#[derive(Debug, Default)]
pub struct Block {
    pub values: HashMap<String, Literal>,
    pub types: HashMap<String, Rc<Type>>,
}

/// An alignment in bits: a power of two.
pub fn aligned(number: i128) -> Option<u64> {
    u32::try_from(number).ok().filter(|bits| bits.is_power_of_two()).map(u64::from)
}

impl Block {
    fn number(&self, name: &str) -> Result<Option<i128>, String> {
        match self.values.get(name) {
            None => Ok(None),
            Some(Literal::Number(number)) => Ok(Some(*number)),
            Some(_) => Err(format!("{name} is no number")),
        }
    }

    /// A number that is no less than zero; 0 where none is given.
    fn id(&self, name: &str) -> Result<u64, String> {
        let number = self.number(name)?.unwrap_or(0);
        u64::try_from(number).map_err(|_| format!("{name} is {number}"))
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            Literal::Text(text) | Literal::Name(text) => Some(text),
            Literal::Number(_) => None,
        }
    }

    fn order(&self) -> Result<Option<bool>, String> {
        match self.text("byte_order") {
            None | Some("native") => Ok(None),
            Some("le") => Ok(Some(false)),
            Some("be" | "network") => Ok(Some(true)),
            Some(other) => Err(format!("{other} is no byte order")),
        }
    }

    fn align(&self, usual: u64) -> Result<u64, String> {
        match self.number("align")? {
            None => Ok(usual),
            Some(number) => aligned(number).ok_or_else(|| format!("{number} is no alignment")),
        }
    }

    /// `integer {…}`
    pub fn integer(&self) -> Result<Type, String> {
        let bits = match self.number("size")? {
            Some(bits @ 1..=64) => bits as u32,
            Some(bits) => return Err(format!("integers of {bits} bits are not read")),
            None => return Err("an integer has no size".to_owned()),
        };
        let is_signed = match self.values.get("signed") {
            None => false,
            Some(Literal::Number(number)) => *number != 0,
            Some(Literal::Name(name) | Literal::Text(name)) => name.eq_ignore_ascii_case("true"),
        };
        let base = match self.values.get("base") {
            Some(Literal::Number(number @ (2 | 8 | 16))) => *number as u32,
            Some(Literal::Name(name)) => match name.as_str() {
                "hexadecimal" | "hex" | "x" | "X" | "p" => 16,
                "octal" | "oct" | "o" => 8,
                "binary" | "b" => 2,
                _ => 10,
            },
            _ => 10,
        };
        let align = self.align(if bits.is_multiple_of(8) { 8 } else { 1 })?;
        let encoding = self.text("encoding").unwrap_or("none").to_ascii_lowercase();
        let is_text = bits == 8 && align == 8 && matches!(encoding.as_str(), "utf8" | "ascii");
        let map = self.text("map").unwrap_or_default();
        let clock = map.strip_prefix("clock.").and_then(|map| map.strip_suffix(".value")).map(Rc::from);
        let integer = Integer { bits, is_signed, is_big: self.order()?, base, is_text, clock };
        Ok(Type::new(Kind::Integer(integer), align))
    }

    /// `floating_point {…}`
    pub fn float(&self) -> Result<Type, String> {
        let bits = match (self.number("exp_dig")?, self.number("mant_dig")?) {
            (Some(8), Some(24)) => 32,
            (Some(11), Some(53)) => 64,
            _ => return Err("floating-point numbers have 32 or 64 bits; others are not read".to_owned()),
        };
        Ok(Type::new(Kind::Float { bits, is_big: self.order()? }, self.align(1)?))
    }

    /// Puts what a block at the top says into the metadata. Blocks of other kinds say nothing that is needed.
    pub fn tells(self, kind: &str, metadata: &mut Metadata) -> Result<(), String> {
        match kind {
            "trace" => self.trace(metadata),
            "env" => {
                metadata.env.extend(self.values.iter().map(|(name, value)| (Rc::from(name.as_str()), value.shown())));
                Ok(())
            }
            "clock" => self.clock().map(|clock| metadata.clocks.push(clock)),
            "stream" => self.stream(metadata),
            "event" => self.event(metadata),
            _ => Ok(()),
        }
    }

    fn structure(&self, name: &str) -> Result<Option<Rc<Type>>, String> {
        match self.types.get(name) {
            Some(of) if !matches!(of.kind, Kind::Struct(_)) => Err(format!("{name} is no struct")),
            of => Ok(of.cloned()),
        }
    }

    fn trace(&self, metadata: &mut Metadata) -> Result<(), String> {
        if self.number("major")?.is_some_and(|major| major != 1) {
            return Err("versions of CTF other than 1.8 are not read".to_owned());
        }
        metadata.is_big = Some(self.order()?.ok_or("the trace has no byte order")?);
        metadata.uuid = self.text("uuid").map(|text| uuid(text).ok_or("its UUID is none")).transpose()?;
        metadata.packet_header = self.structure("packet.header")?;
        Ok(())
    }

    fn clock(&self) -> Result<Clock, String> {
        let frequency = self.number("freq")?.unwrap_or(1_000_000_000);
        let frequency = u64::try_from(frequency).ok().filter(|freq| *freq > 0);
        Ok(Clock {
            name: self.text("name").unwrap_or_default().into(),
            uuid: self.text("uuid").unwrap_or_default().to_owned(),
            frequency: frequency.ok_or("the clock has no frequency")?,
            offset_s: self.number("offset_s")?.unwrap_or(0),
            offset_ticks: self.number("offset")?.unwrap_or(0),
        })
    }

    fn stream(&self, metadata: &mut Metadata) -> Result<(), String> {
        let stream = Stream {
            packet_context: self.structure("packet.context")?,
            event_header: self.structure("event.header")?,
            event_context: self.structure("event.context")?,
        };
        metadata.streams.insert(self.id("id")?, stream);
        Ok(())
    }

    fn event(&self, metadata: &mut Metadata) -> Result<(), String> {
        let class = EventClass {
            name: self.text("name").unwrap_or("(event without a name)").into(),
            context: self.structure("context")?,
            fields: self.structure("fields")?,
        };
        metadata.by_id.insert((self.id("stream_id")?, self.id("id")?), metadata.events.len());
        metadata.events.push(class);
        Ok(())
    }
}

impl Literal {
    fn shown(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) | Self::Name(text) => text.clone(),
        }
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then_some(number.to_be_bytes())
}
