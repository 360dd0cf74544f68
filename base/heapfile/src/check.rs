//! Files of leak checks: which live blocks a process could still reach when thaw looked at its memory, and why others
//! are not known. One beside each stream, `PID-N.reach` (`measure/heaprec` makes them).
//!
//! As all of `packed`: "THAWREAC", and Check as JSON.

use crate::figures::Reach;
use crate::form::REACH;
use crate::packed::{Kind, LEVEL};
use model::{Bytes, Error, Exit, Nanos, Result};
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::BufReader;
use std::path::Path;

const KIND: Kind = Kind { magic: *b"THAWREAC", version: 1, of: "a leak check" };

/// What a look at the memory of a process found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Time stamp counter of the look: blocks that were made later are not known.
    pub ticks: u64,
    /// Blocks that it had made until then, as [`crate::live::LiveId::serial`] counts them.
    pub serial: u64,
    /// How long the process stood still for it.
    pub stopped_ns: Nanos,
    /// Bytes that were searched for pointers outside of blocks: data of objects, stacks, registers, mappings.
    pub roots: Bytes,
    /// What may make a lost block look reachable, or the other way round: sentences.
    pub doubts: Vec<String>,
    /// Addresses of lost blocks, as differences to the one before.
    lost: Vec<u64>,
    /// The same of blocks that only lost ones point to.
    indirect: Vec<u64>,
    /// The same of blocks whose middle something points to.
    possible: Vec<u64>,
    /// Why nothing is known; then there are no blocks.
    pub unknown: Option<String>,
}

impl Check {
    /// What was found: blocks that are not listed are reachable.
    pub fn found(ticks: u64, found: impl Iterator<Item = (u64, Reach)>) -> Self {
        let mut lists = [Vec::new(), Vec::new(), Vec::new()];
        for (address, reach) in found {
            match reach {
                Reach::Lost => lists[0].push(address),
                Reach::Indirect => lists[1].push(address),
                Reach::Possible => lists[2].push(address),
                Reach::Reachable => {}
            }
        }
        let [lost, indirect, possible] = lists.map(differences);
        let doubts = Vec::new();
        let serial = u64::MAX;
        Self { ticks, serial, stopped_ns: Nanos(0), roots: Bytes(0), doubts, lost, indirect, possible, unknown: None }
    }

    /// Nothing could be found.
    pub fn unknown(why: String) -> Self {
        Self { unknown: Some(why), ..Self::found(0, std::iter::empty()) }
    }

    /// What is known of blocks by address; `None`: nothing, see [`Check::unknown`].
    pub fn blocks(&self) -> Option<Blocks> {
        let lists = [(Reach::Lost, &self.lost), (Reach::Indirect, &self.indirect), (Reach::Possible, &self.possible)];
        let each = lists.into_iter().flat_map(|(kind, list)| addresses(list).map(move |address| (address, kind)));
        let mut blocks: Vec<(u64, Reach)> = each.collect();
        blocks.sort_unstable();
        self.unknown.is_none().then_some(Blocks(blocks))
    }

    /// Whether somebody looked at a process, by the path of its stream, or of what became of it.
    pub fn is_there(stream: &Path) -> bool {
        stream.with_extension(REACH).exists()
    }

    /// Reads what is known of a process by the path of its stream, or of what became of it. `None`: nobody looked.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or of another version.
    pub fn read(stream: &Path) -> Result<Option<Self>> {
        let path = stream.with_extension(REACH);
        let bytes = match fs::read(&path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|cause| Error::on(Exit::Data, "cannot read", &path).because(cause))?,
        };
        let unpacked = BufReader::new(KIND.open(&bytes, &path)?);
        let check = serde_json::from_reader(unpacked).map_err(|cause| KIND.damaged(&path, cause))?;
        Ok(Some(check))
    }

    /// Writes it beside a stream, over an earlier one.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, stream: &Path) -> Result<()> {
        let path = stream.with_extension(REACH);
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write", &path).because(cause);
        let text = serde_json::to_vec(self).map_err(|error| Error::bug(format!("cannot make JSON: {error}")))?;
        let packed = zstd::encode_all(&text[..], LEVEL).map_err(cannot)?;
        os::replace::write_whole(&path, &KIND.seal(&packed), Rights::Private, Existing::Replace)
    }
}

/// What is known of blocks, by address.
#[derive(Debug)]
pub struct Blocks(Vec<(u64, Reach)>);

impl Blocks {
    /// What a block is that was live then.
    pub fn reach(&self, address: u64) -> Reach {
        let found = self.0.binary_search_by_key(&address, |(address, _)| *address);
        found.map_or(Reach::Reachable, |index| self.0[index].1)
    }
}

fn differences(mut addresses: Vec<u64>) -> Vec<u64> {
    addresses.sort_unstable();
    let mut last = 0;
    addresses.into_iter().map(|address| address - std::mem::replace(&mut last, address)).collect()
}

fn addresses(differences: &[u64]) -> impl Iterator<Item = u64> {
    differences.iter().scan(0u64, |last, difference| {
        *last = last.wrapping_add(*difference);
        Some(*last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let stream = folder.path().join("7-0.stream");
        assert_eq!(Check::read(&stream).unwrap(), None, "nobody looked");
        let kinds = [(64, Reach::Possible), (16, Reach::Lost), (48, Reach::Reachable), (1 << 46, Reach::Lost)];
        let check = Check::found(9, kinds.into_iter().chain([(32, Reach::Indirect)]));
        check.write(&stream).unwrap();
        let read = Check::read(&stream.with_extension("events")).unwrap().unwrap();
        assert_eq!(read, check);
        let blocks = read.blocks().unwrap();
        let kind = [16, 32, 48, 64, 1 << 46].map(|address| blocks.reach(address));
        assert_eq!(kind, [Reach::Lost, Reach::Indirect, Reach::Reachable, Reach::Possible, Reach::Lost]);
        assert_eq!(read.ticks, 9);
        assert!(Check::unknown("it is gone".into()).blocks().is_none());
        let path = stream.with_extension(REACH);
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(Check::read(&stream).unwrap_err().exit, Exit::Data, "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert_eq!(Check::read(&stream).unwrap_err().exit, Exit::Data, "cut at {place}");
        }
    }
}
