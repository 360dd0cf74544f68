//! The disk that a manifest is planned for.

use crate::needs::{Needed, Source};
use crate::typed::{self, DiskLimit};
use disk::model::{Ask, Direction, Drive, Flash, Kind, Model, Zone};
use disk::preset::Presets;
use model::{Bytes, DiskOffset, Error, Exit, Nanos, Result};
use preload::manifest::About;
use preload::plan::{DiskRead, Gap, Order, Plan, Wanted};
use std::path::Path;

/// What was typed; else the disk or the limit that was chosen for the recording; else a disk that is as fast as the one
/// of the recording; else one of the kind that the kernel tells of the first of these files that is on a disk.
///
/// # Errors
/// There is no such disk, or `this` cannot be measured.
pub fn disk<'a>(typed: Option<&str>, needed: &Needed, files: impl Iterator<Item = &'a Path>) -> Result<Model> {
    let asked = &needed.asked;
    let simulated = asked.disk.as_deref().map(|name| name.strip_prefix("quick:").unwrap_or(name));
    let mut below = files.filter_map(|file| os::disk::Disk::of_path(file).ok());
    match typed.or(simulated) {
        Some("this") => {
            let disk =
                below.next().ok_or_else(|| Error::new(Exit::Machine, "no file is on a disk of", "this machine"))?;
            let device = Path::new("/dev").join(&disk.name);
            Ok(disk::fit::fit(&disk::fit::measure(&device, 1)?)?.model)
        }
        Some(word) if word.starts_with("throttle:") => {
            let limit = typed::disk_limit(word).map_err(|why| Error::new(Exit::Usage, why, ""))?;
            Ok(limited(limit))
        }
        Some(name) => Ok(Presets::builtin().get(name)?.model.clone()),
        None if asked.throttle_iops.is_some() || asked.throttle_bps.is_some() => {
            Ok(limited(DiskLimit { iops: asked.throttle_iops, bps: asked.throttle_bps.map(Bytes) }))
        }
        None => Ok(Presets::builtin().get(kind(needed.small_read, below.next().as_ref()))?.model.clone()),
    }
}

/// The disk that is most like this one. How long small reads took says more than what the kernel believes.
fn kind(small_read: Option<Nanos>, disk: Option<&os::disk::Disk>) -> &'static str {
    /// No arm moves in this time.
    const ARM: Nanos = Nanos(2_000_000);
    /// No SATA disk answers in this time.
    const SATA: Nanos = Nanos(150_000);
    match (small_read, disk) {
        (Some(time), _) if time < SATA => "nvme",
        (Some(time), _) if time < ARM => "sata-ssd",
        (Some(_), _) => "desktop2010",
        // Virtual disks (virtio, Xen) claim to rotate whatever is behind them.
        (None, Some(disk)) if disk.name.starts_with("vd") || disk.name.starts_with("xvd") => "sata-ssd",
        (None, Some(disk)) if disk.rotational => "desktop2010",
        (None, Some(disk)) if disk.name.starts_with("nvme") => "nvme",
        (None, _) => "sata-ssd",
    }
}

/// A disk that is as slow as a limit, and has no arm.
fn limited(limit: DiskLimit) -> Model {
    /// Bytes a second where there is no limit: more than any disk has.
    const NO_LIMIT: f64 = 1e11;
    let parts = [limit.iops.map(|iops| format!("iops={iops}")), limit.bps.map(|bps| format!("bps={}", bps.0))];
    let none = Nanos(0);
    Model {
        name: format!("throttle:{}", parts.into_iter().flatten().collect::<Vec<_>>().join(",")),
        title: "the disk limit of a recording".into(),
        capacity: Bytes(1 << 40),
        overhead: none,
        zones: vec![Zone { from: 0.0, rate: limit.bps.map_or(NO_LIMIT, |bps| bps.0 as f64) }],
        kind: Kind::Flash(Flash {
            latency: none,
            next_latency: none,
            write_latency: none,
            channels: 1 << 10,
            iops: limit.iops.map(|iops| iops as f64),
            units: None,
        }),
    }
}

/// An arm wants its reads by place; everything else wants first what is needed first.
pub fn order(disk: &Model) -> Order {
    match disk.kind {
        Kind::Rotating(_) => Order::Disk,
        Kind::Flash(_) => Order::FirstUse,
    }
}

/// What a manifest of these recordings says of itself.
pub fn about(recording: String, source: Source, disk: &Model) -> About {
    About {
        made_unix_ns: os::machine::now_unix_ns(),
        thaw: env!("CARGO_PKG_VERSION").into(),
        host: os::machine::host(),
        recording,
        source: source.name().into(),
        disk: disk.name.clone(),
        ..About::default()
    }
}

/// The reads of these files that are fastest on a disk.
pub fn plan(wanted: Vec<Wanted>, gap: Gap, order: Order, disk: &Model, about: About) -> Plan {
    preload::plan::plan(wanted, gap, order, &|reads| time(disk, reads), about)
}

/// How long a disk takes for reads that are all asked for at once.
pub fn time(disk: &Model, reads: &[DiskRead]) -> Nanos {
    let mut drive = Drive::new(disk.clone(), disk.capacity);
    let ask = |read: &DiskRead| Ask { disk: read.disk, len: read.len, direction: Direction::Read };
    reads.iter().map(|read| drive.serve(Nanos(0), &ask(read)).done).max().unwrap_or_default()
}

/// Reads of 1 MiB that follow each other.
pub fn in_one_piece(bytes: u64) -> Vec<DiskRead> {
    const LARGEST: u64 = 1 << 20;
    let starts = (0..bytes).step_by(LARGEST as usize);
    starts.map(|at| DiskRead { disk: DiskOffset(at), len: Bytes((bytes - at).min(LARGEST)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload::plan::DiskRead;

    fn reads(count: u64, len: u64) -> Vec<DiskRead> {
        (0..count).map(|at| DiskRead { disk: model::DiskOffset(at << 30), len: Bytes(len) }).collect()
    }

    #[test]
    fn a_limit_costs_requests_or_bytes_whichever_is_more() {
        let disk = limited(DiskLimit { iops: Some(200), bps: Some(Bytes(30 << 20)) });
        assert_eq!(order(&disk), Order::FirstUse);
        let seconds = |reads: &[DiskRead]| time(&disk, reads).seconds();
        assert!((seconds(&reads(1000, 4096)) - 5.0).abs() < 0.02, "{}", seconds(&reads(1000, 4096)));
        assert!((seconds(&reads(100, 3 << 20)) - 10.0).abs() < 0.02, "{}", seconds(&reads(100, 3 << 20)));
        let free = limited(DiskLimit { iops: None, bps: Some(Bytes(1 << 20)) });
        assert!((time(&free, &reads(1024, 1024)).seconds() - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_disk_is_known_by_its_speed_before_its_name() {
        let disk = |name: &str, rotational| os::disk::Disk {
            name: name.into(),
            dev: 0,
            model: None,
            rotational,
            read_ahead_kb: 128,
            scheduler: String::new(),
            logical_block: Bytes(512),
            max_sectors_kb: 1280,
            size: Bytes(1 << 40),
            read_ahead_file: "/dev/null".into(),
        };
        assert_eq!(kind(Some(Nanos(90_000)), Some(&disk("sda", true))), "nvme");
        assert_eq!(kind(Some(Nanos(500_000)), None), "sata-ssd");
        assert_eq!(kind(Some(Nanos(12_000_000)), Some(&disk("nvme0n1", false))), "desktop2010");
        assert_eq!(kind(None, Some(&disk("sda", true))), "desktop2010");
        assert_eq!(kind(None, Some(&disk("vda", true))), "sata-ssd");
        assert_eq!(kind(None, Some(&disk("nvme0n1", false))), "nvme");
        assert_eq!(kind(None, None), "sata-ssd");
    }
}
