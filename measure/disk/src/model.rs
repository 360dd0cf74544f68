//! A disk as a handful of figures, and how long it takes for each request.
//!
//! Pure: no clock, no files. [`Model`] holds the figures, [`Drive`] is such a disk at work: it remembers
//! where the head is and what the drive has read ahead. The same code predicts ([`crate::simulate`]) and
//! decides when the simulated disk answers ([`crate::simulated`]), so that the two cannot disagree.
//!
//! # A rotating disk
//!
//! One request at a time, in the order of arrival (no command queue). A request costs
//!
//! ```text
//! overhead + seek(d) + half a turn + length / rate
//! seek(d) = smallest + (largest - smallest) * sqrt(d / span)         for d > 0, and 0 for d = 0
//! ```
//!
//! where `d` is the distance in bytes from the end of the last request, and `span` the disk's size. The root
//! is the arm that speeds up for half of the way and brakes for the other half (C. Ruemmler, J. Wilkes, "An
//! introduction to disk drive modeling", IEEE Computer 27(3), 1994; they use a line for the longest seeks: give
//! a measured table for that, [`Seek::Table`]). The distance `x` of two random places, as a share of the span, has the
//! density `2(1-x)`, and the integral of `2(1-x) sqrt(x)` from 0 to 1 is 8/15: so the mean seek over all pairs of
//! places is `smallest + (largest - smallest) * 8/15`, which gives the largest one where a data sheet only has the
//! average. Rotation always counts as half a turn, its mean, so that the same requests always take the same time.
//!
//! After a read the drive goes on reading behind it, up to `read_ahead` bytes, until another request makes it
//! move; what it read stays in one of `segments` buffers, the least recently used of which is given up. A read that
//! lies in a buffer costs `overhead_hit + length / interface` and does not move the head. A read in front of the head
//! may also wait until its end has passed under the head; it does whenever that is sooner than seeking, so short
//! skips forward are read through.
//!
//! Writes go into the drive's write cache at the speed of the interface, and stay there until a flush comes or they do
//! not fit any more; then all of them are written in the order of the disk, each as above, those that touch as one.
//! Without a write cache a write goes to the medium at once; one that goes on where the last request ended does not
//! wait for a turn.
//!
//! # Flash
//!
//! ```text
//! overhead + latency + [unit switch] + length / rate
//! ```
//!
//! `channels` requests are worked on at the same time, at most `iops` are begun a second, and the transfer is shared by
//! all. Writes have a latency of their own, and a flush costs nothing more. Cards keep the page mapping of few erase
//! units (allocation units) at hand: a read in another one than the last `open_units` costs a switch (A. Bergmann's
//! flashbench measures it).

use model::{Bytes, DiskOffset, Nanos};
use serde::{Deserialize, Serialize};

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// What `--disk` calls it.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Its size.
    pub capacity: Bytes,
    /// From one request to the next at least this long, before anything moves.
    pub overhead: Nanos,
    /// Bytes a second from the medium, by zone; the first begins at 0.
    pub zones: Vec<Zone>,
    /// What makes it a disk or a chip.
    pub kind: Kind,
}

/// A part of the disk with its own rate: outer tracks hold more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// Where it begins, as a share of the capacity.
    pub from: f64,
    /// Bytes a second.
    pub rate: f64,
}

/// What makes it a disk or a chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// Platters and an arm.
    Rotating(Rotating),
    /// Flash chips.
    Flash(Flash),
}

/// Platters and an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rotating {
    /// How long the arm takes.
    pub seek: Seek,
    /// Half a turn: the mean wait for the sector.
    pub half_turn: Nanos,
    /// Overhead of a read that is in the drive's buffer.
    pub overhead_hit: Nanos,
    /// Bytes a second from the drive's buffer; never slower than the medium.
    pub interface: f64,
    /// How far the drive reads ahead; the size of one buffer segment.
    pub read_ahead: Bytes,
    /// How many segments the buffer has.
    pub segments: u32,
    /// What of it takes writes; 0: writes go to the medium at once.
    pub write_cache: Bytes,
}

/// How long the arm takes for a distance above 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seek {
    /// `smallest + (largest - smallest) * sqrt(distance / span)`.
    Root {
        /// To the next track.
        smallest: Nanos,
        /// Over the whole disk.
        largest: Nanos,
    },
    /// Measured points (share of the span, time), straight lines between them, level outside. By share, not empty.
    Table(Vec<(f64, Nanos)>),
}

/// Flash chips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flash {
    /// Until the first byte of a read somewhere else.
    pub latency: Nanos,
    /// Until the first byte of a read that goes on where the last one ended.
    pub next_latency: Nanos,
    /// Of a write.
    pub write_latency: Nanos,
    /// Requests that are worked on at the same time.
    pub channels: u32,
    /// Requests begun a second, at most.
    pub iops: Option<f64>,
    /// Erase units, for cards.
    pub units: Option<Units>,
}

/// Erase units of a card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// Size of one.
    pub size: Bytes,
    /// Cost of a read in a unit that is not open.
    pub switch: Nanos,
    /// How many are open at the same time.
    pub open: u32,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
    /// To the disk (perhaps no bytes at all), and all that was written must be on the medium in the end.
    Flush,
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// Where it begins.
    pub disk: DiskOffset,
    /// How much.
    pub len: Bytes,
    /// Which way.
    pub direction: Direction,
}

impl Ask {
    /// First byte behind it.
    pub fn end(&self) -> u64 {
        self.disk.0.saturating_add(self.len.0)
    }
}

/// How a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The arm moved, or waited for a turn.
    Seek,
    /// It passed under the head.
    ReadThrough,
    /// It was in the drive's buffer.
    Buffer,
    /// From flash.
    Flash,
}

/// What a request cost. `done - start` is the sum of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// When the disk began with it.
    pub start: Nanos,
    /// When it was done.
    pub done: Nanos,
    /// Command overhead.
    pub overhead: Nanos,
    /// Arm movement, or switch of the erase unit.
    pub seek: Nanos,
    /// Wait for the sector, or for the chip.
    pub latency: Nanos,
    /// Transfer, with what was read through and the wait for a shared bus.
    pub transfer: Nanos,
    /// How.
    pub how: How,
    /// Distance in bytes that the head had to jump.
    pub travel: Bytes,
}

impl Service {
    /// How long the disk was busy with it.
    pub fn took(&self) -> Nanos {
        self.done - self.start
    }
}

impl Seek {
    /// Time for `distance` bytes on a disk of `span` bytes.
    pub fn time(&self, distance: u64, span: u64) -> Nanos {
        if distance == 0 {
            return Nanos(0);
        }
        let share = (distance as f64 / span.max(1) as f64).min(1.0);
        match self {
            Self::Root { smallest, largest } => {
                let more = largest.0.saturating_sub(smallest.0) as f64;
                Nanos(smallest.0 + (more * share.sqrt()).round() as u64)
            }
            Self::Table(points) => between(points, share),
        }
    }

    /// The largest seek of a root curve with this smallest and this mean over all pairs of places.
    pub fn largest_for_average(smallest: Nanos, average: Nanos) -> Nanos {
        Nanos(smallest.0 + (average.0.saturating_sub(smallest.0) as f64 * 15.0 / 8.0).round() as u64)
    }
}

/// The value at `x` of straight lines through `points`.
fn between(points: &[(f64, Nanos)], x: f64) -> Nanos {
    let after = points.partition_point(|(share, _)| *share < x);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => {
            let part = (x - x0) / (x1 - x0);
            Nanos((y0.0 as f64 + (y1.0 as f64 - y0.0 as f64) * part).round() as u64)
        }
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => Nanos(0),
    }
}

impl Model {
    /// Bytes a second from the medium at a place.
    pub fn rate_at(&self, disk: DiskOffset) -> f64 {
        let share = disk.0 as f64 / self.capacity.0.max(1) as f64;
        let after = self.zones.partition_point(|zone| zone.from <= share);
        self.zones.get(after.saturating_sub(1)).map_or(f64::INFINITY, |zone| zone.rate)
    }

    /// What makes no sense in it, in words; `Ok` for a disk that can be.
    pub fn check(&self) -> Result<(), String> {
        if self.capacity.0 == 0 {
            return Err("the capacity is 0".into());
        }
        if self.zones.first().is_none_or(|zone| zone.from != 0.0) {
            return Err("the first zone does not begin at 0".into());
        }
        let rising = self.zones.windows(2).all(|pair| pair[0].from < pair[1].from);
        if !rising || self.zones.iter().any(|zone| !(zone.rate > 0.0 && zone.rate.is_finite() && zone.from < 1.0)) {
            return Err("zones must begin one behind the other, below 1, with a rate above 0".into());
        }
        match &self.kind {
            Kind::Rotating(arm) => {
                if self.zones.iter().any(|zone| zone.rate > arm.interface) {
                    return Err("the interface is slower than the medium".into());
                }
                arm.seek.check()
            }
            Kind::Flash(chips) => {
                if chips.channels == 0 {
                    return Err("it has no channels".into());
                }
                if chips.iops.is_some_and(|iops| !(iops > 0.0 && iops.is_finite())) {
                    return Err("iops must be above 0".into());
                }
                if chips.units.is_some_and(|units| units.size.0 == 0) {
                    return Err("the erase unit's size is 0".into());
                }
                Ok(())
            }
        }
    }
}

impl Seek {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Root { smallest, largest } if largest < smallest => {
                Err("the largest seek is shorter than the smallest".into())
            }
            Self::Root { .. } => Ok(()),
            Self::Table(points) => {
                let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                match points.is_empty() || !rising {
                    true => Err("the seek table must hold rising distances with times that do not fall".into()),
                    false => Ok(()),
                }
            }
        }
    }
}

/// A disk at work. Requests must come in the order in which they arrive.
///
/// Nothing in here allocates after [`Drive::new`], so that a forked server process can use it.
#[derive(Clone, Debug)]
pub struct Drive {
    model: Model,
    span: u64,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Arm(Arm),
    Chips(Chips),
}

/// A buffer segment: these bytes are in the drive.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    filled: u64,
}

/// Bytes in the write cache.
#[derive(Clone, Copy, Debug)]
struct Written {
    start: u64,
    end: u64,
}

/// More small writes than this are flushed in any case.
const WRITES: usize = 1024;

/// The drive goes on reading since its last read.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: u64,
    from: u64,
    since: u64,
    limit: u64,
    rate: f64,
}

impl Stream {
    /// How far it has read at a moment.
    fn reached(&self, at: u64) -> u64 {
        let read = (at.saturating_sub(self.since) as f64 * self.rate / 1e9) as u64;
        self.from.saturating_add(read).min(self.limit)
    }
}

#[derive(Clone, Debug)]
struct Arm {
    free: u64,
    head: u64,
    stream: Option<Stream>,
    kept: Vec<Segment>,
    written: Vec<Written>,
}

#[derive(Clone, Debug)]
struct Chips {
    channels: Vec<u64>,
    bus: u64,
    begun: Option<u64>,
    last_end: Option<u64>,
    open: Vec<u64>,
}

fn duration(bytes: u64, rate: f64) -> u64 {
    (bytes as f64 / rate * 1e9).round() as u64
}

impl Drive {
    /// A disk at rest with its head at 0 and nothing read ahead.
    ///
    /// `span` is what a seek over the whole disk is: the model's capacity, or more when the requests come from a larger
    /// disk, whose layout is then kept in proportion.
    pub fn new(model: Model, span: Bytes) -> Self {
        let work = match &model.kind {
            Kind::Rotating(arm) => Work::Arm(Arm {
                free: 0,
                head: 0,
                stream: None,
                kept: Vec::with_capacity(arm.segments.max(1) as usize),
                written: Vec::with_capacity(WRITES + 1),
            }),
            Kind::Flash(chips) => Work::Chips(Chips {
                channels: vec![0; chips.channels.max(1) as usize],
                bus: 0,
                begun: None,
                last_end: None,
                open: Vec::with_capacity(chips.units.map_or(0, |units| units.open as usize) + 1),
            }),
        };
        let span = span.0.max(model.capacity.0);
        Self { model, span, work }
    }

    /// At rest again, head at 0, nothing read ahead. Times may begin anew.
    pub fn reset(&mut self) {
        match &mut self.work {
            Work::Arm(arm) => {
                (arm.free, arm.head, arm.stream) = (0, 0, None);
                arm.kept.clear();
                arm.written.clear();
            }
            Work::Chips(chips) => {
                chips.channels.fill(0);
                (chips.bus, chips.begun, chips.last_end) = (0, None, None);
                chips.open.clear();
            }
        }
    }

    /// The figures that it works with.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Serves a request that arrives at `at`, after all that came before.
    pub fn serve(&mut self, at: Nanos, ask: &Ask) -> Service {
        match (&mut self.work, &self.model.kind) {
            (Work::Arm(arm), Kind::Rotating(figures)) => arm.serve(&self.model, figures, self.span, at.0, ask),
            (Work::Chips(chips), Kind::Flash(figures)) => chips.serve(&self.model, figures, at.0, ask),
            _ => unreachable!("Drive::new makes the work of the model's kind"),
        }
    }
}

impl Arm {
    fn serve(&mut self, model: &Model, figures: &Rotating, span: u64, at: u64, ask: &Ask) -> Service {
        let start = at.max(self.free);
        let hit_ready = start + figures.overhead_hit.0;
        if ask.direction == Direction::Read && self.in_buffer(hit_ready, ask) {
            let transfer = duration(ask.len.0, figures.interface);
            self.free = hit_ready + transfer;
            return service(start, figures.overhead_hit.0, 0, 0, transfer, How::Buffer, 0);
        }
        if ask.direction == Direction::Flush || (ask.direction == Direction::Write && figures.write_cache.0 > 0) {
            return self.cache(model, figures, span, start, ask);
        }
        let ready = start + model.overhead.0;
        let rate = model.rate_at(ask.disk);
        let travel = self.head.abs_diff(ask.disk.0);
        let seek = figures.seek.time(travel, span).0;
        // A write that goes on where the last request ended needs no turn: drives collect such writes.
        let goes_on = travel == 0 && ask.direction == Direction::Write;
        let turn = if goes_on { 0 } else { figures.half_turn.0 };
        let by_arm = seek + turn + duration(ask.len.0, rate);
        let through = self.read_through(figures, ready, ask, rate).filter(|wait| *wait <= by_arm);
        let result = match through {
            Some(wait) => service(start, model.overhead.0, 0, 0, wait, How::ReadThrough, travel),
            None => {
                let transfer = duration(ask.len.0, rate);
                service(start, model.overhead.0, seek, turn, transfer, How::Seek, travel)
            }
        };
        self.moved(model, figures, start, result.done.0, ask, rate);
        result
    }

    /// A write that the cache takes, or a flush of what is in it.
    fn cache(&mut self, model: &Model, figures: &Rotating, span: u64, start: u64, ask: &Ask) -> Service {
        let inside: u64 = self.written.iter().map(|written| written.end - written.start).sum();
        let fits = inside + ask.len.0 <= figures.write_cache.0 && self.written.len() < WRITES;
        let overhead = figures.overhead_hit.0;
        let enter = duration(ask.len.0, figures.interface);
        if ask.len.0 > 0 {
            self.written.push(Written { start: ask.disk.0, end: ask.end() });
        }
        let result = match ask.direction == Direction::Write && fits {
            true => service(start, overhead, 0, 0, enter, How::Buffer, 0),
            false => {
                let (seek, turns, transfer, travel) = self.write_out(model, figures, span, start);
                service(start, overhead, seek, turns, enter + transfer, How::Seek, travel)
            }
        };
        self.free = result.done.0;
        result
    }

    /// Everything that is in the write cache, in the order of the disk: seeks, turns, transfer and the way of the head.
    fn write_out(&mut self, model: &Model, figures: &Rotating, span: u64, start: u64) -> (u64, u64, u64, u64) {
        self.written.sort_unstable_by_key(|written| (written.start, written.end));
        let (mut seeks, mut turns, mut transfer, mut travel) = (0, 0, 0, 0);
        for (index, written) in self.written.iter().enumerate() {
            // What touches or was written twice goes on.
            let from = if index > 0 && written.start <= self.head { self.head } else { written.start };
            if index == 0 || from > self.head {
                let distance = self.head.abs_diff(from);
                seeks += figures.seek.time(distance, span).0;
                turns += figures.half_turn.0;
                travel += distance;
            }
            transfer += duration(written.end.saturating_sub(from), model.rate_at(DiskOffset(from)));
            self.head = written.end.max(from);
        }
        if !self.written.is_empty() {
            self.written.clear();
            if let Some(stream) = self.stream.take() {
                self.keep(figures, Segment { start: stream.start, filled: stream.reached(start) });
            }
        }
        (seeks, turns, transfer, travel)
    }

    /// Whether all of it is in the drive's buffer; the segment that it is in becomes the most recently used.
    fn in_buffer(&mut self, at: u64, ask: &Ask) -> bool {
        if let Some(stream) = self.stream
            && stream.start <= ask.disk.0
            && ask.end() <= stream.reached(at)
        {
            return true;
        }
        let found = self.kept.iter().position(|kept| kept.start <= ask.disk.0 && ask.end() <= kept.filled);
        if let Some(index) = found {
            self.kept[..=index].rotate_right(1);
        }
        found.is_some()
    }

    /// How long after `ready` the end of the request has passed under the head, if the head is on its way there.
    fn read_through(&self, figures: &Rotating, ready: u64, ask: &Ask, rate: f64) -> Option<u64> {
        let stream = self.stream.filter(|stream| ask.direction == Direction::Read && stream.start <= ask.disk.0)?;
        let missing = ask.end().saturating_sub(stream.reached(ready));
        Some(duration(missing, rate).max(duration(ask.len.0, figures.interface)))
    }

    /// The head is behind the request now; what the drive has read so far stays in its buffer.
    fn moved(&mut self, model: &Model, figures: &Rotating, start: u64, done: u64, ask: &Ask, rate: f64) {
        self.free = done;
        self.head = ask.end();
        let mut first = ask.disk.0;
        if let Some(stream) = self.stream.take() {
            // Where it goes on is decided by place alone, so that a faster disk never forgets more than a slower one.
            if ask.direction == Direction::Read && stream.start <= ask.disk.0 && ask.disk.0 <= stream.limit {
                first = stream.start.max(ask.end().saturating_sub(figures.read_ahead.0));
            } else {
                self.keep(figures, Segment { start: stream.start, filled: stream.reached(start) });
            }
        }
        if ask.direction == Direction::Write {
            self.kept.retain(|kept| kept.filled <= ask.disk.0 || ask.end() <= kept.start);
            return;
        }
        let limit = ask.end().saturating_add(figures.read_ahead.0).min(model.capacity.0.max(ask.end()));
        self.stream = Some(Stream { start: first, from: ask.end(), since: done, limit, rate });
    }

    fn keep(&mut self, figures: &Rotating, segment: Segment) {
        // One segment belongs to the running read-ahead.
        let room = figures.segments.saturating_sub(1) as usize;
        self.kept.truncate(room.saturating_sub(1));
        if room > 0 {
            self.kept.insert(0, segment);
        }
    }
}

impl Chips {
    fn serve(&mut self, model: &Model, figures: &Flash, at: u64, ask: &Ask) -> Service {
        let channel = (0..self.channels.len()).min_by_key(|&index| self.channels[index]).unwrap_or(0);
        let gap = figures.iops.map_or(0, |iops| (1e9 / iops).round() as u64);
        let gate = self.begun.map_or(0, |begun| begun + gap);
        let start = at.max(self.channels[channel]).max(gate);
        self.begun = Some(start);
        if ask.direction == Direction::Flush && ask.len.0 == 0 {
            // What was written is done when it is acknowledged.
            let done = start.max(self.bus).max(self.channels.iter().copied().max().unwrap_or(0));
            return service(start, 0, 0, 0, done - start, How::Flash, 0);
        }
        let goes_on = self.last_end == Some(ask.disk.0);
        self.last_end = Some(ask.end());
        let latency = match ask.direction {
            Direction::Read if goes_on => figures.next_latency.0,
            Direction::Read => figures.latency.0,
            Direction::Write | Direction::Flush => figures.write_latency.0,
        };
        let switch = figures.units.map_or(0, |units| self.switch(units, ask));
        let fetched = start + model.overhead.0 + switch + latency;
        let done = fetched.max(self.bus) + duration(ask.len.0, model.rate_at(ask.disk));
        self.bus = done;
        self.channels[channel] = done;
        service(start, model.overhead.0, switch, latency, done - fetched, How::Flash, 0)
    }

    /// Cost of the erase units that the request lies in and that are not open.
    fn switch(&mut self, units: Units, ask: &Ask) -> u64 {
        let last = ask.end().saturating_sub(1).max(ask.disk.0) / units.size.0;
        let mut cost = 0;
        for unit in ask.disk.0 / units.size.0..=last {
            match self.open.iter().position(|&open| open == unit) {
                Some(index) => self.open[..=index].rotate_right(1),
                None => {
                    cost += units.switch.0;
                    self.open.insert(0, unit);
                    self.open.truncate(units.open.max(1) as usize);
                }
            }
        }
        cost
    }
}

fn service(start: u64, overhead: u64, seek: u64, latency: u64, transfer: u64, how: How, travel: u64) -> Service {
    Service {
        start: Nanos(start),
        done: Nanos(start + overhead + seek + latency + transfer),
        overhead: Nanos(overhead),
        seek: Nanos(seek),
        latency: Nanos(latency),
        transfer: Nanos(transfer),
        how,
        travel: Bytes(travel),
    }
}
