//! What an image would be, before it is made: how long the stretch of a start, from a sample of its clusters that are
//! compressed as they would be, and how fast this machine unpacks them.

use crate::format::BLOCK;
use crate::order::{Class, Cluster, clusters};
use crate::write::{Compression, Layout, Packer, Source, pack};
use model::{Bytes, Error, Exit, Result};
use rayon::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Clusters that are compressed at most: 16 MiB of zstd's.
const MOST: usize = 256;
/// How long the sample is unpacked at least: a clock sees no less.
const LONG: Duration = Duration::from_millis(100);

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Bytes of files that starts need, in whole pages.
    pub needed: Bytes,
    /// What these take in the image, with its metadata, which lie in front: the stretch that a start reads.
    pub stretch: Bytes,
    /// Of these, metadata and small files.
    pub metadata: Bytes,
    /// Bytes of files that were compressed to learn that.
    pub compressed: Bytes,
    /// Bytes of files that one processor unpacks in a second; `None`: none of them became smaller.
    pub unpacked_in_a_second: Option<f64>,
}

impl Sample {
    /// How long the unpacking of what starts need takes.
    pub fn unpacking(&self) -> Duration {
        let seconds = self.unpacked_in_a_second.filter(|speed| *speed > 0.0).map(|speed| self.needed.0 as f64 / speed);
        Duration::from_secs_f64(seconds.unwrap_or_default())
    }
}

/// Compresses and unpacks some of the clusters that starts need, evenly over all of them.
///
/// # Errors
/// Something in the directory cannot be read or cannot be in an image.
pub fn sample(source: &Source<'_>, compression: Compression) -> Result<Sample> {
    let layout = Layout::of(source)?;
    let files = layout.indexed(source.tree);
    let mut needed = clusters(&files, source.needs, source.whole, compression.needed_pages());
    needed.retain(|cluster| cluster.class != Class::None);
    let pages: u64 = needed.iter().map(|cluster| cluster.pages).sum();
    let some: Vec<&Cluster> = needed.iter().step_by(needed.len().div_ceil(MOST).max(1)).collect();
    let packed = some
        .par_iter()
        .map_init(|| Packer::new(compression), |packer, cluster| pack(source, packer.as_mut(), cluster))
        .collect::<Result<Vec<_>>>()?;
    os::interrupt::check()?;
    let sampled: u64 = some.iter().map(|cluster| cluster.pages).sum();
    let in_image = |(cluster, packed): (&&Cluster, &crate::write::Packed)| {
        packed.packed.as_ref().map_or(cluster.pages, |packed| packed.len() as u64 / BLOCK)
    };
    let taken: u64 = some.iter().zip(&packed).map(in_image).sum();
    let share = if sampled > 0 { taken as f64 / sampled as f64 } else { 1.0 };
    let metadata = layout.end * BLOCK;
    let smaller = some.iter().zip(&packed).filter_map(|(_, packed)| {
        let bytes = packed.packed.as_deref()?;
        Some((&bytes[bytes.iter().position(|byte| *byte != 0)?..], packed.raw.len()))
    });
    Ok(Sample {
        needed: Bytes(pages * BLOCK),
        stretch: Bytes(metadata + (pages as f64 * share) as u64 * BLOCK),
        metadata: Bytes(metadata),
        compressed: Bytes(sampled * BLOCK),
        unpacked_in_a_second: speed(compression, &smaller.collect::<Vec<_>>(), sampled * BLOCK)?,
    })
}

/// Unpacks them as often as it takes to tell; what would be stored costs nothing. `all`: bytes with what is stored.
fn speed(compression: Compression, clusters: &[(&[u8], usize)], all: u64) -> Result<Option<f64>> {
    if clusters.is_empty() {
        return Ok(None);
    }
    let failed = |cause: String| Error::new(Exit::Machine, "cannot unpack what was compressed", "").because(cause);
    let mut zstd = zstd::bulk::Decompressor::new().map_err(|cause| failed(cause.to_string()))?;
    let longest = clusters.iter().map(|(_, len)| *len).max().unwrap_or_default();
    let mut room = vec![0; longest];
    let begun = worked();
    let mut rounds = 0;
    while worked() - begun < LONG {
        os::interrupt::check()?;
        for (bytes, _) in clusters {
            match compression {
                Compression::Lz4 => {
                    lz4_flex::block::decompress_into(bytes, &mut room).map_err(|cause| failed(cause.to_string()))?
                }
                Compression::Zstd(_) => {
                    zstd.decompress_to_buffer(bytes, &mut room[..]).map_err(|cause| failed(cause.to_string()))?
                }
            };
        }
        rounds += 1;
    }
    Ok(Some((all * rounds) as f64 / (worked() - begun).as_secs_f64()))
}

/// How long this thread has had a processor: others that want it too do not make the machine slower.
fn worked() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
