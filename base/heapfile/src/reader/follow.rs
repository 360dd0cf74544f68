//! Reading a stream while it is written: events up to a moment, each once; what was read may be freed on the disk.

use super::{Events, nanos, process, read_head};
use crate::event::{Process, ProcessId};
use crate::form::Form;
use crate::stream::{AfterRead, Lane, read_at};
use crate::wire;
use heap_wire::PAGE;
use model::Result;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is known of a stream that grows.
#[derive(Debug)]
pub(super) struct Growing {
    file: Arc<File>,
    path: PathBuf,
    after: AfterRead,
    /// All chunks before this place are known.
    known: u64,
    /// Where the last chunk that is known ends.
    reached: u64,
    /// Chunks behind it, by place: their bytes. Before them is one whose header was not there yet.
    beyond: BTreeMap<u64, u64>,
    /// Lanes by their numbers.
    numbers: HashMap<u32, usize>,
    /// Lanes without a record that could be read.
    idle: Vec<usize>,
    /// Records that were written after later ones had been taken.
    late: u64,
}

/// The process of a stream that is being written; `None`: it is being set up. `first` are the ticks at which the
/// recording began.
pub fn process_of(path: &Path, first: u64, rate: f64) -> Result<Option<Process>> {
    let Ok(head) = read_head(path, Form::Stream)? else { return Ok(None) };
    let start = nanos(head.start_ticks.saturating_sub(first), rate);
    Ok(Some(process(ProcessId(0), path.to_owned(), head, None, start)))
}

impl Events {
    /// Events of a stream that is being written. There are none before [`Events::advance`].
    pub fn follow(process: &Process, file: Arc<File>, rate: f64, after: AfterRead) -> Self {
        let (path, known) = (process.file.clone(), PAGE as u64);
        let growing = Growing {
            file,
            path,
            after,
            known,
            reached: known,
            beyond: BTreeMap::new(),
            numbers: HashMap::new(),
            idle: Vec::new(),
            late: 0,
        };
        Self { growing: Some(growing), ..Self::empty(process, rate) }
    }

    /// Lets [`Events::next`] go on to the events of this moment, as far as they are written now.
    pub fn advance(&mut self, limit: u64) -> Result<()> {
        self.limit = limit;
        let Some(growing) = &mut self.growing else { return Ok(()) };
        let (mut offset, mut gap) = (growing.known, false);
        let mut header = [0; size_of::<heap_wire::ChunkHeader>()];
        while read_at(&growing.file, &growing.path, &mut header, offset)? == header.len() {
            let bytes = match (growing.beyond.get(&offset), wire::chunk(&header)) {
                (Some(bytes), _) => *bytes,
                (None, Some(chunk)) => {
                    let lanes = &mut self.lanes;
                    let lane = *growing.numbers.entry(chunk.lane).or_insert_with(|| {
                        let (file, path) = (Arc::clone(&growing.file), growing.path.clone());
                        lanes.push(Lane::growing(file, path, chunk.lane, growing.after));
                        growing.idle.push(lanes.len() - 1);
                        lanes.len() - 1
                    });
                    lanes[lane].add(chunk, offset);
                    growing.beyond.insert(offset, chunk.bytes.into());
                    chunk.bytes.into()
                }
                // It may still come; the next one is at some later page.
                (None, None) => {
                    gap = true;
                    offset += PAGE as u64;
                    continue;
                }
            };
            if !gap {
                growing.beyond.remove(&offset);
                growing.known = offset + bytes;
            }
            offset += bytes;
            growing.reached = growing.reached.max(offset);
        }
        for index in std::mem::take(&mut growing.idle) {
            match self.lanes[index].peek()? {
                Some(ticks) => {
                    let number = self.lanes[index].number;
                    growing.late += u64::from((ticks, number) < self.reached);
                    self.order.push(Reverse((ticks, number, index)));
                }
                None => growing.idle.push(index),
            }
        }
        Ok(())
    }

    /// How often a record was written only after [`Events::fill`] had gone past its time: then events came in another
    /// order than they were.
    pub fn late(&self) -> u64 {
        self.growing.as_ref().map_or(0, |growing| growing.late)
    }

    /// Bytes of the stream that the reader has behind it: all that are known but the chunks that wait for the one
    /// before them in their lane.
    pub fn consumed(&self) -> u64 {
        let waiting: u64 = self.lanes.iter().map(Lane::waiting).sum();
        self.growing.as_ref().map_or(0, |growing| growing.reached.saturating_sub(waiting))
    }

    /// A lane has no further record, or none so far.
    pub(super) fn ended(&mut self, index: usize) {
        match (self.lanes[index].damage(), &mut self.growing) {
            (None, Some(growing)) => growing.idle.push(index),
            (damage, _) => self.warnings.extend(damage),
        }
    }

    /// Tells times by another rate: it is known better when the recording has ended.
    pub fn retime(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// After the last event of a stream that was followed: what could not be read becomes a warning.
    pub fn close(&mut self) {
        if self.growing.take().is_some() {
            let missing = self.lanes.iter().filter(|lane| !lane.is_read()).map(Lane::missing);
            self.warnings.extend(missing);
        }
    }
}
