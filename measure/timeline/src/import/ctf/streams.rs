//! Packets of streams and the events in them, with their times.

use super::layout::{Metadata, Stream};
use super::values::{
    EVENT_CONTEXT, EVENT_HEADER, FIELDS, PACKET_CONTEXT, PACKET_HEADER, Reader, STREAM_CONTEXT, Stop, Value, member,
    own_name,
};
use std::rc::Rc;

const MAGIC: u64 = 0xc1fc_1fc1;
/// Events that were read may take so much memory, in bytes.
const LARGEST: u64 = 4 << 30;
/// After so many faults it is enough.
const MOST_DAMAGE: usize = 100;

/// Who an event is of, as far as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub name: Option<Rc<str>>,
}

#[derive(Clone, Debug)]
pub struct Happened {
    /// On the trace's clock.
    pub at_ns: u64,
    /// Its place in [`Metadata::events`].
    pub class: usize,
    pub whose: Whose,
    pub cpu: u32,
    /// Contexts and fields, `key=value`.
    pub args: Vec<Box<str>>,
}

/// What streams held.
#[derive(Debug, Default)]
pub struct Held {
    pub events: Vec<Happened>,
    /// Events for which the tracer had no room.
    pub discarded: u64,
    pub damage: Vec<String>,
    /// Memory of the events.
    bytes: u64,
}

/// Sizes are in bits; what a packet does not tell is `None`.
struct Packet<'a> {
    stream: &'a Stream,
    stream_id: u64,
    content: u64,
    size: u64,
    begin: Option<u64>,
    discarded: Option<u64>,
    number: Option<u64>,
    cpu: u32,
}

/// Reads a stream as far as it goes.
///
/// # Errors
/// Its events are too many.
pub fn read(metadata: &Metadata, name: &str, bytes: &[u8], held: &mut Held) -> Result<(), String> {
    let mut stream = Reading { metadata, name, held, last: Rc::default(), ticks: 0, lost: (0, None) };
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.packet(rest, bytes.len() - rest.len())? {
            Some(size) => rest = rest.get(size..).unwrap_or_default(),
            None => break,
        }
    }
    Ok(())
}

/// A stream that is being read.
struct Reading<'a> {
    metadata: &'a Metadata,
    name: &'a str,
    held: &'a mut Held,
    /// The name of a thread that was told last, which many events have.
    last: Rc<str>,
    /// The clock, so far.
    ticks: u64,
    /// Events discarded so far, and the number of the last packet.
    lost: (u64, Option<u64>),
}

impl<'a> Reading<'a> {
    fn damage(&mut self, what: &str) {
        if self.held.damage.len() < MOST_DAMAGE {
            self.held.damage.push(format!("stream {}: {what}", self.name));
        }
    }

    /// How many bytes the packet takes; `None`: where the next one begins is not known.
    fn packet(&mut self, bytes: &[u8], at: usize) -> Result<Option<usize>, String> {
        let mut reader = Reader::new(bytes, self.metadata.is_big == Some(true));
        let packet = match self.head(&mut reader) {
            Ok(packet) => packet,
            Err(Stop::Short) => {
                self.damage(&format!("its last packet, at byte {at}, is cut in its header"));
                return Ok(None);
            }
            Err(Stop::Wrong(why)) => {
                self.damage(&format!("its packet at byte {at} {why}; it and what is behind it is left out"));
                return Ok(None);
            }
        };
        self.count_lost(&packet);
        let there = bytes.len() as u64 * 8;
        let is_cut = packet.content > there;
        if packet.size > there {
            let (size, part) = (packet.size / 8, bytes.len());
            self.damage(&format!("its last packet, at byte {at}, is cut: {part} of {size} bytes are there"));
        }
        reader.ends_at(packet.content);
        self.ticks = packet.begin.unwrap_or(self.ticks);
        while reader.bits.left() > 0 {
            let from = reader.bits.at();
            match self.event(&mut reader, &packet) {
                Ok(()) if reader.bits.at() > from => self.within_bounds()?,
                Ok(()) => {
                    self.damage(&format!("events of its packet at byte {at} have no size"));
                    break;
                }
                Err(Stop::Short) if is_cut => break,
                Err(Stop::Short) => {
                    self.damage(&format!("its packet at byte {at} ends within an event"));
                    break;
                }
                Err(Stop::Wrong(why)) => {
                    let byte = at as u64 + from / 8;
                    self.damage(&format!("the event at byte {byte} {why}; the rest of its packet is left out"));
                    break;
                }
            }
        }
        Ok(usize::try_from(packet.size / 8).ok())
    }

    fn within_bounds(&self) -> Result<(), String> {
        if self.held.bytes > LARGEST { Err("its events take more than 4 GiB".to_owned()) } else { Ok(()) }
    }

    fn head(&self, reader: &mut Reader<'_>) -> Result<Packet<'a>, Stop> {
        let wrong = |why: String| Err(Stop::Wrong(why));
        reader.root(PACKET_HEADER, self.metadata.packet_header.as_deref())?;
        let header = reader.members(PACKET_HEADER);
        if member(header, "magic").is_some_and(|magic| magic.count() != Some(MAGIC)) {
            return wrong("has no magic number".to_owned());
        }
        if let (Some(Value::List(found)), Some(wanted)) = (member(header, "uuid"), self.metadata.uuid)
            && !found.iter().map(Value::number).eq(wanted.iter().map(|byte| Some(i128::from(*byte))))
        {
            return wrong("is of another trace".to_owned());
        }
        let stream_id = member(header, "stream_id").and_then(Value::count).unwrap_or(0);
        let Some(stream) = self.metadata.streams.get(&stream_id) else {
            return wrong(format!("is of stream {stream_id}, which the metadata do not describe"));
        };
        reader.root(PACKET_CONTEXT, stream.packet_context.as_deref())?;
        let context = reader.members(PACKET_CONTEXT);
        let told = |name| member(context, name).and_then(Value::count);
        let all = reader.bits.end();
        let size = told("packet_size").or(told("content_size")).unwrap_or(all);
        let content = told("content_size").unwrap_or(size);
        if size == 0 || !size.is_multiple_of(8) || content > size || content < reader.bits.at() {
            return wrong(format!("has {content} bits of content in {size}"));
        }
        Ok(Packet {
            stream,
            stream_id,
            content,
            size,
            begin: told("timestamp_begin"),
            discarded: told("events_discarded"),
            number: told("packet_seq_num"),
            cpu: told("cpu_id").and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0),
        })
    }

    /// The tracer counts what it discarded from the stream's beginning, and its packets.
    fn count_lost(&mut self, packet: &Packet<'_>) {
        if let Some(discarded) = packet.discarded {
            self.held.discarded = self.held.discarded.saturating_add(discarded.saturating_sub(self.lost.0));
            self.lost.0 = discarded;
        }
        let expected = self.lost.1.and_then(|number: u64| number.checked_add(1));
        if let (Some(number), Some(expected)) = (packet.number, expected)
            && number > expected
        {
            self.damage(&format!("{} packets before its packet {number} are not there", number - expected));
        }
        self.lost.1 = packet.number;
    }

    fn event(&mut self, reader: &mut Reader<'_>, packet: &Packet<'_>) -> Result<(), Stop> {
        let metadata = self.metadata;
        reader.root(EVENT_HEADER, packet.stream.event_header.as_deref())?;
        let at_ns = self.time(&reader.times);
        let id = number_of(reader.members(EVENT_HEADER)).unwrap_or(0);
        let class = metadata.by_id.get(&(packet.stream_id, id)).copied();
        let of = class.and_then(|place| Some((place, metadata.events.get(place)?)));
        let (class, of) = of.ok_or_else(|| Stop::Wrong(format!("has the number {id}, which is not described")))?;
        reader.root(STREAM_CONTEXT, packet.stream.event_context.as_deref())?;
        reader.root(EVENT_CONTEXT, of.context.as_deref())?;
        reader.root(FIELDS, of.fields.as_deref())?;
        let (mut whose, mut args) = (Whose::default(), Vec::new());
        for context in [STREAM_CONTEXT, EVENT_CONTEXT] {
            for (name, value) in reader.members(context) {
                if !self.tells_whose(own_name(name), value, &mut whose) {
                    args.push(argument(name, value));
                }
            }
        }
        args.extend(reader.members(FIELDS).iter().map(|(name, value)| argument(name, value)));
        let texts: usize = args.iter().map(|arg| arg.len() + size_of::<Box<str>>()).sum();
        self.held.bytes += (texts + size_of::<Happened>()) as u64;
        self.held.events.push(Happened { at_ns, class, whose, cpu: packet.cpu, args });
        Ok(())
    }

    /// The time of an event. One of fewer bits than the clock has goes on from the last one.
    fn time(&mut self, times: &[(Rc<str>, u32, u64)]) -> u64 {
        let mut clock = None;
        for (name, bits, value) in times {
            clock = self.metadata.clock(name);
            self.ticks = match 1_u64.checked_shl(*bits) {
                None => *value,
                Some(turn) => {
                    let now = self.ticks & !(turn - 1) | value;
                    if now < self.ticks { now.saturating_add(turn) } else { now }
                }
            };
        }
        let Some(clock) = clock.or(self.metadata.clocks.first()) else { return self.ticks };
        // Clocks have zeros of their own; times are on the first one.
        let apart = self.metadata.clocks.first().map_or(0, |first| clock.offset_ns() - first.offset_ns());
        u64::try_from(clock.ns(i128::from(self.ticks)) + apart).unwrap_or(0)
    }

    /// Whether a context says whose the event is.
    fn tells_whose(&mut self, name: &str, value: &Value, whose: &mut Whose) -> bool {
        let number = || value.number().and_then(|number| u32::try_from(number).ok());
        match (name, value) {
            ("vtid", _) => whose.tid = number(),
            ("vpid", _) => whose.pid = number(),
            ("tid", _) => whose.tid = whose.tid.or_else(number),
            ("pid", _) => whose.pid = whose.pid.or_else(number),
            ("procname", Value::Text(name)) => {
                if *self.last != **name {
                    self.last = name.as_str().into();
                }
                whose.name = Some(Rc::clone(&self.last));
            }
            _ => return false,
        }
        true
    }
}

fn argument(name: &str, value: &Value) -> Box<str> {
    format!("{}={value}", own_name(name)).into()
}

/// The number of an event's class: `id` of its header, or of what that chooses.
fn number_of(header: &[(Rc<str>, Value)]) -> Option<u64> {
    let chosen = header.iter().find_map(|(_, value)| match value {
        Value::Struct(members) => number_of(members),
        _ => None,
    });
    chosen.or_else(|| member(header, "id").and_then(Value::count))
}
