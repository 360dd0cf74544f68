//! What a recorded start would have cost on other disks: the room's public result, as JSON, the terminal and the viewer
//! show it. Pure.

use crate::model::{Ask, Drive, Model};
use crate::simulate::{Cost, Devices, Outcome, Request, Served, Waits, cut, disk_ratio, merged, prefetched, replay};
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
    let mut requests = Requests::default();
    blocks.iter().for_each(|block| requests.add(block));
    requests.report(length, disks)
}

/// The requests of a program as they come.
#[derive(Clone, Debug, Default)]
pub struct Requests(Devices);

impl Requests {
    /// Adds a request; those of other programs do not count.
    pub fn add(&mut self, block: &BlockRow) {
        if block.pid.is_some() {
            self.0.add(block);
        }
    }

    /// Those of a start of `length`, on these disks. `None`: it made none.
    pub fn report(mut self, length: Nanos, disks: &[&Model]) -> Option<Report> {
        self.0.until(length);
        let mut devices = self.0.by_bytes().into_iter();
        let (device, mut requests) = devices.next()?;
        let elsewhere = devices.map(|(_, requests)| requests.len() as u64).sum();
        requests.sort_by_key(|request| request.issue);
        let pieces = cut(&merged(requests.iter().map(|request| request.ask)));
        let waits = Waits::of(&requests, length);
        let start = Start { requests: &requests, pieces: &pieces, waits: &waits, length };
        Some(Report {
            device,
            length_ns: length,
            requests: requests.len() as u64,
            bytes: requests.iter().map(|request| request.ask.len).sum(),
            elsewhere,
            disks: disks.iter().map(|model| start.on_disk(model)).collect(),
        })
    }
}

/// A start on one device, with all that is the same on every disk.
struct Start<'a> {
    /// By issue.
    requests: &'a [Request],
    /// All reads in the order of the disk.
    pieces: &'a [Ask],
    waits: &'a Waits,
    length: Nanos,
}

impl Start<'_> {
    /// What [`simulate::predict`](crate::simulate::predict) says, without every single request.
    fn on_disk(&self, model: &Model) -> OnDisk {
        let span = Bytes(self.requests.iter().map(|request| request.ask.end()).max().unwrap_or(0));
        let drive = || Drive::new(model.clone(), span);
        let replayed =
            |cost, each: &mut dyn FnMut(Served)| replay(drive(), self.requests, self.waits, self.length, cost, each);
        let (mut came, mut in_order) = (0, 0);
        let as_came = replayed(Cost::All, &mut |_| came += 1);
        // Only what costs time comes behind the reads: writes.
        let mut writes = Vec::new();
        let rest = replayed(Cost::Writes, &mut |served| writes.extend(served.service.is_some().then_some(served)));
        let sorted = prefetched(drive(), self.pieces, (rest.length, &writes), &mut |_| in_order += 1);
        OnDisk {
            disk: model.name.clone(),
            title: model.title.clone(),
            as_is_ns: as_came.disk_time,
            sorted_ns: sorted.disk_time,
            ratio: disk_ratio(&as_came, &sorted),
            as_is: order(&as_came, came),
            sorted: order(&sorted, in_order),
        }
    }
}

fn order(outcome: &Outcome, requests: u64) -> Order {
    Order { start_ns: outcome.length, requests, bytes: outcome.bytes, seeks: outcome.seeks, travel: outcome.travel }
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

    proptest::proptest! {
        /// The report keeps no single request, and says what the prediction says that keeps all.
        #[test]
        fn sums_are_those_of_the_prediction(
            asked in proptest::collection::vec((0_u64..50, 0_u64..3, 0_u64..5_000, proptest::bool::ANY), 1..60),
            length in 0_u64..50,
        ) {
            let row = |(start, took, place, write): &(u64, u64, u64, bool)| BlockRow {
                start_ns: Nanos(start * 1_000_000),
                done_ns: Some(Nanos((start + took) * 1_000_000)),
                write: *write,
                flags: if *write { "W".into() } else { "R".into() },
                ..reads(&[*place])[0].clone()
            };
            let rows: Vec<BlockRow> = asked.iter().map(row).collect();
            let length = Nanos(length * 1_000_000);
            let within: Vec<BlockRow> = rows.iter().filter(|row| row.start_ns <= length).cloned().collect();
            let presets = Presets::builtin();
            for model in TALK.map(|name| &presets.get(name).unwrap().model) {
                let report = report(&rows, length, &[model]);
                let Some((_, requests)) = crate::simulate::by_device(&within).into_iter().next() else {
                    proptest::prop_assert_eq!(report, None);
                    continue;
                };
                let told = crate::simulate::predict(model, &requests, length);
                let disk = &report.unwrap().disks[0];
                let sums = |outcome: &Outcome| order(outcome, outcome.served.len() as u64);
                proptest::prop_assert_eq!(disk.as_is, sums(&told.as_came));
                proptest::prop_assert_eq!(disk.sorted, sums(&told.sorted));
                proptest::prop_assert_eq!(disk.as_is_ns, told.as_came.disk_time);
                proptest::prop_assert_eq!(disk.ratio, told.disk_ratio);
            }
        }
    }
}
