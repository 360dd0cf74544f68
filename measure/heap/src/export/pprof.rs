//! pprof's protocol buffer (`perftools.profiles.Profile`), gzipped: all blocks made, and those live at the moment that
//! was asked for.

use super::Export;
use crate::modes::{Heap, Measure};
use crate::symbols::Frame;
use flate2::Compression;
use flate2::write::GzEncoder;
use heapfile::event::Process;
use model::shown;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// Field numbers of the messages.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const TIME_NS: u64 = 9;
    pub const DURATION_NS: u64 = 10;
    pub const DEFAULT_TYPE: u64 = 14;
}

/// A message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; zero is what a missing one means.
    fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn packed(self, field: u64, values: impl IntoIterator<Item = u64>) -> Self {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed)
    }

    /// Writes a field of the outermost message.
    fn put(&self, field: u64, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&Self::default().message(field, self).0)
    }
}

/// Texts by number; number 0 is empty.
struct Texts {
    numbers: HashMap<String, u64>,
    texts: Vec<String>,
}

impl Texts {
    fn new() -> Self {
        Self { numbers: HashMap::from([(String::new(), 0)]), texts: vec![String::new()] }
    }

    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }
}

pub fn write(export: &Export, (main, _): (&Process, &Heap), out: &mut dyn Write) -> io::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut texts = Texts::new();
    let types =
        [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];
    for (name, unit) in types {
        let (name, unit) = (texts.number(name), texts.number(unit));
        Message::default().number(1, name).number(2, unit).put(field::SAMPLE_TYPE, &mut out)?;
    }
    let live = if export.measure == Measure::Peak { Measure::Peak } else { Measure::End };
    for (_, site, stack) in export.named.sites() {
        let (made, live) = (site.figures.made, live.of(&site.figures));
        let sample = Message::default()
            .packed(1, stack.iter().map(|frame| u64::from(frame.0) + 1))
            .packed(2, [made.blocks, made.bytes, live.blocks, live.bytes]);
        sample.put(field::SAMPLE, &mut out)?;
    }
    let frames = export.named.names.frames();
    // pprof takes the first object for the program.
    let exe = shown(&main.exe);
    let modules: BTreeSet<(bool, &str)> =
        frames.iter().map(|frame| (frame.module != exe, frame.module.as_str())).collect();
    let modules: HashMap<&str, u64> = modules.into_iter().map(|(_, module)| module).zip(1..).collect();
    let mut by_number: Vec<_> = modules.iter().collect();
    by_number.sort_by_key(|(_, number)| **number);
    for (module, number) in by_number {
        // Addresses are those of files, so that all mappings begin at 0; pprof must not look functions up again.
        let name = texts.number(module);
        let mut mapping = Message::default().number(1, *number).number(5, name);
        mapping = [7, 8, 9, 10].into_iter().fold(mapping, |mapping, has| mapping.number(has, 1));
        mapping.put(field::MAPPING, &mut out)?;
    }
    for (frame, number) in frames.iter().zip(1..) {
        let module = modules.get(frame.module.as_str()).copied().unwrap_or(0);
        let line = Message::default().number(1, number).number(2, u64::from(frame.line.unwrap_or(0)));
        let location = Message::default().number(1, number).number(2, module).number(3, frame.address);
        location.message(4, &line).put(field::LOCATION, &mut out)?;
        function(frame, number, &mut texts).put(field::FUNCTION, &mut out)?;
    }
    let default = texts.number(match export.measure {
        Measure::Made | Measure::Temporary => "alloc_space",
        Measure::End | Measure::Peak => "inuse_space",
    });
    for text in &texts.texts {
        out.write_all(&Message::default().bytes(field::STRING, text.as_bytes()).0)?;
    }
    let last = export.named.heaps.iter().map(|heap| heap.last.0).max().unwrap_or(0);
    let created = export.reader.recording().created_unix_ns;
    let end = Message::default()
        .number(field::TIME_NS, created)
        .number(field::DURATION_NS, last)
        .number(field::DEFAULT_TYPE, default);
    out.write_all(&end.0)?;
    out.finish()?;
    Ok(())
}

fn function(frame: &Frame, number: u64, texts: &mut Texts) -> Message {
    let name = texts.number(&frame.label());
    let file = texts.number(frame.file.as_deref().unwrap_or_default());
    Message::default().number(1, number).number(2, name).number(3, name).number(4, file)
}
