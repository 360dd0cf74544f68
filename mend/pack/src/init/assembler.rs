//! What the assemblers of all machines share: blocks of instructions, labels, places outside, and two passes.
//!
//! An instruction has the same length wherever it and its target lie, so the first pass can measure before any label
//! has its address. Not a general assembler: there is no relaxation, no section, no expression.

use super::Layout;
use model::{Error, Exit, Result};
use std::collections::HashMap;
use std::fmt;

/// What an instruction can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A block of the code.
    Label(&'static str),
    /// Address 0 of the object as linked: at run time, the base.
    Image,
    /// First byte of the table.
    Table,
    /// First byte after it.
    TableEnd,
    /// First byte of PT_GNU_RELRO, rounded where the page size is known.
    Relro,
    /// First byte after it, likewise.
    RelroEnd,
    /// The initialiser that stood here before.
    Original,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Label(label) => label,
            Self::Image => "image",
            Self::Table => "table",
            Self::TableEnd => "table_end",
            Self::Relro => "relro",
            Self::RelroEnd => "relro_end",
            Self::Original => "original",
        })
    }
}

/// Tells the address of a place.
pub(super) type Resolve<'a> = dyn Fn(Place) -> Result<u64> + 'a;

/// An instruction of one machine. `Display` is its text for the GNU assembler.
pub(super) trait Instruction: fmt::Display {
    /// Its bytes at address `at`.
    fn encode(&self, at: u64, resolve: &Resolve<'_>) -> Result<Vec<u8>>;
}

/// Code whose instruction type is out of sight.
pub(super) trait Assembled {
    fn bytes(&self) -> Result<Vec<u8>>;
    fn listing(&self) -> String;
}

/// Labelled blocks of instructions, in the order of their addresses.
pub(super) struct Code<I> {
    /// What the GNU assembler must be told first.
    preamble: &'static str,
    layout: Layout,
    blocks: Vec<(&'static str, Vec<I>)>,
}

impl<I: Instruction> Code<I> {
    pub(super) fn new(preamble: &'static str, layout: Layout) -> Self {
        Self { preamble, layout, blocks: Vec::new() }
    }

    /// Adds a block under a label; `Place::Label(label)` refers to it.
    pub(super) fn block(&mut self, label: &'static str, instructions: Vec<I>) {
        self.blocks.push((label, instructions));
    }

    /// `resolve` is told where the asking instruction lies, `enter` where each label does.
    fn encode(
        &self,
        resolve: impl Fn(u64, Place) -> Result<u64>,
        mut enter: impl FnMut(&'static str, u64),
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (label, instructions) in &self.blocks {
            enter(label, self.layout.code + bytes.len() as u64);
            for instruction in instructions {
                let at = self.layout.code + bytes.len() as u64;
                bytes.extend(instruction.encode(at, &|place| resolve(at, place))?);
            }
        }
        Ok(bytes)
    }

    fn outside(&self, place: Place) -> Option<u64> {
        let relro = self.layout.relro.as_ref();
        match place {
            Place::Label(_) => None,
            Place::Image => Some(0),
            Place::Table => Some(self.layout.table.start),
            Place::TableEnd => Some(self.layout.table.end),
            Place::Relro => relro.map(|relro| relro.start),
            Place::RelroEnd => relro.map(|relro| relro.end),
            Place::Original => self.layout.original,
        }
    }
}

impl<I: Instruction> Assembled for Code<I> {
    fn bytes(&self) -> Result<Vec<u8>> {
        let mut labels = HashMap::new();
        // Measuring: every place is taken to be here.
        self.encode(
            |at, _| Ok(at),
            |label, at| {
                labels.insert(label, at);
            },
        )?;
        let resolve = |_, place| {
            let found = match place {
                Place::Label(label) => labels.get(label).copied(),
                _ => self.outside(place),
            };
            found.ok_or_else(|| Error::bug(format!("the initialiser speaks of `{place}`, which is nowhere")))
        };
        self.encode(resolve, |_, _| ())
    }

    fn listing(&self) -> String {
        let mut text = self.preamble.to_owned();
        for (label, instructions) in &self.blocks {
            text += &format!("{label}:\n");
            for instruction in instructions {
                text += &format!("\t{instruction}\n");
            }
        }
        text
    }
}

/// The way from `from` to `to`, for a field of `bits` bits, two's complement.
pub(super) fn distance(from: u64, to: u64, bits: u32) -> Result<i64> {
    let way = to.wrapping_sub(from).cast_signed();
    let reach = 1_i64 << (bits - 1);
    if (-reach..reach).contains(&way) {
        Ok(way)
    } else {
        Err(Error::new(Exit::Data, "the object is too large for an initialiser", format!("{from:#x} to {to:#x}")))
    }
}
