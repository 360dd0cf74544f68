//! What a recorded start would have cost on other disks: the room's public result, as JSON, the terminal and the viewer
//! show it. Pure.

use crate::model::Model;
use crate::simulate::{Outcome, Request, by_device, predict};
use model::{BlockRow, Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The disks of the talk that the presets are named after: a laptop's at 30 MB/s and a desktop's at 85 MB/s.
pub const TALK: [&str; 2] = ["laptop2010", "desktop2010"];

/// A start's requests on other disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "DiskReport"))]
pub struct Report {
    /// The recorded device that the requests were for, packed by `makedev`; the one with the most bytes.
    pub device: u64,
    /// Length of the recorded start.
    pub length_ns: Nanos,
    /// Requests of the program within it, also writes and flushes.
    pub requests: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Requests of the program for other devices; no disk below has them.
    pub elsewhere: u64,
    /// One line for each disk.
    pub disks: Vec<OnDisk>,
}

/// The requests on one disk, in both orders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OnDisk {
    /// The preset's name.
    pub disk: String,
    /// One line for people.
    pub title: String,
    /// How long the disk is busy with the requests as they came.
    pub as_is_ns: Nanos,
    /// How long with all reads in the order of the disk, each byte once; then the writes.
    pub sorted_ns: Nanos,
    /// `as_is_ns / sorted_ns`
    pub ratio: f64,
    /// The requests as they came.
    pub as_is: Order,
    /// The requests sorted.
    pub sorted: Order,
}

/// One order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Order {
    /// Length of the whole start: disk and program.
    pub start_ns: Nanos,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Requests that made the arm move.
    pub seeks: u64,
    /// How far the head jumped.
    pub travel: Bytes,
}

/// The requests of the program in its start of `length`, on these disks. `None`: it made no request.
pub fn report(blocks: &[BlockRow], length: Nanos, disks: &[&Model]) -> Option<Report> {
    let own: Vec<BlockRow> =
        blocks.iter().filter(|block| block.pid.is_some() && block.start_ns <= length).cloned().collect();
    let devices = by_device(&own);
    let (device, requests) = devices.first()?;
    Some(Report {
        device: *device,
        length_ns: length,
        requests: requests.len() as u64,
        bytes: requests.iter().map(|request| request.ask.len).sum(),
        elsewhere: devices[1..].iter().map(|(_, requests)| requests.len() as u64).sum(),
        disks: disks.iter().map(|model| on_disk(model, requests, length)).collect(),
    })
}

fn on_disk(model: &Model, requests: &[Request], length: Nanos) -> OnDisk {
    let prediction = predict(model, requests, length);
    OnDisk {
        disk: model.name.clone(),
        title: model.title.clone(),
        as_is_ns: prediction.as_came.disk_time,
        sorted_ns: prediction.sorted.disk_time,
        ratio: prediction.disk_ratio,
        as_is: order(&prediction.as_came),
        sorted: order(&prediction.sorted),
    }
}

fn order(outcome: &Outcome) -> Order {
    Order {
        start_ns: outcome.length,
        requests: outcome.served.len() as u64,
        bytes: outcome.bytes,
        seeks: outcome.seeks,
        travel: outcome.travel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;
    use crate::preset::Presets;
    use model::{DiskOffset, Served};

    /// A read of 64 KiB each 10 ms, done after 1 ms, at these places of device 7, in units of 64 KiB.
    fn reads(places: &[u64]) -> Vec<BlockRow> {
        let row = |(index, place): (usize, &u64)| BlockRow {
            start_ns: Nanos(index as u64 * 10_000_000),
            done_ns: Some(Nanos(index as u64 * 10_000_000 + 1_000_000)),
            pid: Some(1),
            dev: 7,
            disk: DiskOffset(place << 16),
            len: Bytes(1 << 16),
            write: false,
            served: Served::Unknown,
            flags: "R".into(),
        };
        places.iter().enumerate().map(row).collect()
    }

    /// A laptop's disk without a buffer, so that only order counts.
    fn laptop() -> Model {
        let mut model = Presets::builtin().get("laptop2010").unwrap().model.clone();
        if let Kind::Rotating(arm) = &mut model.kind {
            (arm.read_ahead, arm.segments) = (Bytes(0), 1);
        }
        model
    }

    #[test]
    fn order_is_worth_what_the_seeks_cost() {
        let report = report(&reads(&[0, 100_000, 1, 100_001, 2, 100_002]), Nanos(60_000_000), &[&laptop()]).unwrap();
        assert_eq!((report.device, report.requests, report.bytes, report.elsewhere), (7, 6, Bytes(6 << 16), 0));
        let disk = &report.disks[0];
        assert_eq!((disk.as_is.requests, disk.sorted.requests), (6, 2), "two pieces");
        assert_eq!(disk.sorted.seeks, 1);
        assert!(disk.as_is_ns > disk.sorted_ns && disk.ratio > 1.5, "{disk:?}");
        assert_eq!(disk.ratio, disk.as_is_ns.0 as f64 / disk.sorted_ns.0 as f64);
        assert_eq!(disk.sorted.start_ns, disk.sorted_ns + Nanos(54_000_000), "six pauses of 9 ms");
    }

    #[test]
    fn only_what_the_program_asked_of_one_device_within_its_start_counts() {
        let mut blocks = reads(&[0, 10, 20, 30, 40]);
        blocks[1].pid = None;
        blocks[2].dev = 8;
        let report = report(&blocks, Nanos(35_000_000), &[&laptop()]).unwrap();
        assert_eq!((report.device, report.requests, report.elsewhere), (7, 2, 1));
        blocks.iter_mut().for_each(|block| block.pid = None);
        assert_eq!(super::report(&blocks, Nanos(35_000_000), &[&laptop()]), None);
    }

    #[test]
    fn the_disks_of_the_talk_are_there() {
        let presets = Presets::builtin();
        TALK.iter().for_each(|name| assert!(presets.get(name).is_ok()));
    }
}
