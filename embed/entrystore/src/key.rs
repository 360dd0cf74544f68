//! Keys: a partition and a name in it.

use std::sync::Arc;
use twox_hash::XxHash3_64;

/// The key of an entry: a partition (a top-level site, a profile, nothing) and a name (a URL with what varies).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The most bytes of partition and name together.
    pub const MOST: usize = (64 << 10) - 1;

    /// A key. `None`: both together are longer than 65,533 bytes.
    pub fn new(partition: &[u8], name: &[u8]) -> Option<Key> {
        if partition.len() + name.len() + 2 > Key::MOST {
            return None;
        }
        let mut bytes = Vec::with_capacity(2 + partition.len() + name.len());
        bytes.extend((partition.len() as u16).to_le_bytes());
        bytes.extend(partition);
        bytes.extend(name);
        Some(Key(bytes.into()))
    }

    /// A key from [`Key::bytes`].
    pub(crate) fn parse(bytes: &[u8]) -> Option<Key> {
        let partition = usize::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?));
        (bytes.len() >= 2 + partition && bytes.len() <= Key::MOST).then(|| Key(bytes.into()))
    }

    /// The key as it lies on disk: the length of the partition (two bytes, little endian), the partition, the name.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn split(&self) -> usize {
        2 + usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    /// The partition.
    pub fn partition(&self) -> &[u8] {
        &self.0[2..self.split()]
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.0[self.split()..]
    }

    /// The hash by which the index knows it.
    pub fn hash(&self, seed: u64) -> u64 {
        XxHash3_64::oneshot_with_seed(seed, &self.0)
    }

    /// The tag of its partition in the index: two partitions may share one.
    pub fn tag(&self) -> u16 {
        XxHash3_64::oneshot(self.partition()) as u16
    }
}
