//! `this`: a model of a disk that is here, from measuring it.
//!
//! [`measure`] reads past the page cache: pairs of 4 KiB reads at several distances, random ones with several in
//! flight, small ones in a row, and long stretches. [`fit`] (pure) turns the medians into a [`Model`] and says how far
//! that is from what was measured, so that nobody has to believe in it.
//!
//! The fit: the time of the second read of a pair against the root of its distance is a straight line (Theil and Sen's,
//! which a few disturbed points do not move). Where the line rises by more than [`RISE`] and by more than a third of
//! its beginning, there is an arm. What a pair of reads costs at no distance is overhead + smallest seek + half a turn;
//! these three cannot be told apart from outside, and need not be: the overhead is what a read from the drive's buffer
//! costs, a seek to the next track counts as 1 ms at most, and the turn is the rest. Without an arm the disk is flash,
//! or somebody else's machine: its channels are as many as make its rate of random reads out of its latency.

use crate::model::{Ask, Direction, Drive, Flash, Kind, Model, Rotating, Seek, Zone};
use crate::ring::{Device, Timed};
use model::{Bytes, DiskOffset, Error, Exit, Nanos, Result};
use serde::{Deserialize, Serialize};
use stats::Random;
use std::path::Path;

/// A disk whose reads cost this much more over its whole width than over none has an arm.
pub const RISE: Nanos = Nanos(1_000_000);

/// Shares of the disk's size between the two reads of a pair.
const DISTANCES: [f64; 7] = [0.0005, 0.005, 0.03, 0.1, 0.25, 0.5, 0.9];
const PAIRS: usize = 24;
const DEPTHS: [u32; 4] = [1, 4, 16, 32];
const RANDOM_READS: usize = 256;
const BLOCK: u64 = 4096;
const ROW: usize = 64;
const STRETCHES: [f64; 3] = [0.02, 0.5, 0.95];
const STRETCH: u64 = 32 << 20;

/// What was measured. Medians, because other programs use the disk as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Distance between two 4 KiB reads, and how long the second one took.
    pub distances: Vec<(Bytes, Nanos)>,
    /// Random 4 KiB reads in flight, and how many were done a second.
    pub depths: Vec<(u32, f64)>,
    /// A 4 KiB read that goes on where the last one ended.
    pub in_a_row: Nanos,
    /// Where a long read lies, and its bytes a second.
    pub stretches: Vec<(DiskOffset, f64)>,
}

/// A fitted model and how good it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Named `this`.
    pub model: Model,
    /// Each measurement beside what the model says.
    pub cells: Vec<Cell>,
    /// Root of the mean squared relative error over all cells.
    pub error: f64,
    /// Largest relative error.
    pub worst: f64,
}

/// A measurement beside what the model says, in seconds for one read, or for 32 MiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it is.
    pub what: String,
    /// As measured.
    pub measured_s: f64,
    /// As the model says.
    pub model_s: f64,
}

/// Measures a block device or a large file: about 800 small reads and 96 MiB. It only reads.
///
/// # Errors
/// It may not be read, is smaller than 64 MiB, or knows no O_DIRECT.
pub fn measure(path: &Path, seed: u64) -> Result<Measurement> {
    let device = Device::open(path)?;
    if device.size.0 < 2 * STRETCH {
        return Err(Error::on(Exit::Usage, "too small to be measured (less than 64 MiB):", path)
            .hint("name a block device, or a file of a few GiB on the disk"));
    }
    let random = &mut Random::from_seed(seed);
    let mut distances = Vec::new();
    for share in DISTANCES {
        let distance = (device.size.0 as f64 * share) as u64 / BLOCK * BLOCK;
        distances.push((Bytes(distance), pairs(&device, distance, random)?));
    }
    let mut depths = Vec::new();
    for depth in DEPTHS {
        let asks: Vec<Ask> = (0..RANDOM_READS).map(|_| read(place(random, device.size.0), BLOCK)).collect();
        depths.push((depth, RANDOM_READS as f64 / total(&device.read(&asks, depth)?).seconds()));
    }
    let mut stretches = Vec::new();
    for share in STRETCHES {
        let at = (device.size.0 - STRETCH) as f64 * share;
        let ask = read(at as u64 / BLOCK * BLOCK, STRETCH);
        // The first of them also looks for the place.
        let timed = device.read(&[ask], 1)?;
        let rest = total(&timed) - timed[0].done;
        stretches.push((ask.disk, (STRETCH - timed[0].ask.len.0) as f64 / rest.seconds()));
    }
    let start = place(random, device.size.0 - ROW as u64 * BLOCK);
    let row: Vec<Ask> = (0..ROW as u64).map(|index| read(start + index * BLOCK, BLOCK)).collect();
    let in_a_row = median(device.read(&row, 1)?.iter().skip(1).map(|timed| timed.done - timed.issue).collect());
    let name = path.display().to_string();
    Ok(Measurement { name, size: device.size, distances, depths, in_a_row, stretches })
}

fn read(at: u64, len: u64) -> Ask {
    Ask { disk: DiskOffset(at), len: Bytes(len), direction: Direction::Read }
}

fn place(random: &mut Random, size: u64) -> u64 {
    random.below((size / BLOCK) as usize) as u64 * BLOCK
}

fn total(timed: &[Timed]) -> Nanos {
    timed.iter().map(|timed| timed.done).max().unwrap_or_default()
}

fn median(mut times: Vec<Nanos>) -> Nanos {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Median time of the second of two reads at this distance, in both directions.
fn pairs(device: &Device, distance: u64, random: &mut Random) -> Result<Nanos> {
    let mut times = Vec::new();
    for pair in 0..PAIRS {
        let low = place(random, device.size.0 - distance - BLOCK);
        let mut asks = [read(low, BLOCK), read(low + BLOCK + distance, BLOCK)];
        if pair % 2 == 1 {
            asks.reverse();
        }
        let timed = device.read(&asks, 1)?;
        times.extend(timed.last().filter(|_| timed.len() == 2).map(|second| second.done - second.issue));
    }
    Ok(median(times))
}

/// The model that comes nearest to what was measured.
///
/// # Errors
/// The measurement is empty or makes no sense (a rate of 0).
pub fn fit(measurement: &Measurement) -> Result<Fitted> {
    let bad = |what: &str| Error::new(Exit::Data, format!("cannot fit a model: {what} of"), &measurement.name);
    let (mut rates, mut zones) = (Vec::new(), Vec::new());
    for (at, rate) in &measurement.stretches {
        rates.push(*rate);
        zones.push(Zone { from: at.0 as f64 / measurement.size.0.max(1) as f64, rate: *rate });
    }
    let rate = stats::quantile(&rates, 0.5);
    if rates.is_empty() || !rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()) {
        return Err(bad("the rates"));
    }
    if measurement.distances.len() < 3 || measurement.depths.is_empty() {
        return Err(bad("too few random reads"));
    }
    let (begin, rise) = seek_line(measurement);
    let block = BLOCK as f64 / rate * 1e9;
    let has_arm = rise > RISE.0 as f64 && rise > begin / 3.0;
    let (overhead, kind) = if has_arm {
        zones[0].from = 0.0;
        arm(measurement, begin - block, rise, rates.iter().copied().fold(rate, f64::max))
    } else {
        // Flash has no zones: what differs is chance.
        zones = vec![Zone { from: 0.0, rate }];
        chips(measurement, block)
    };
    let title = format!("{} as measured here", measurement.name);
    let model = Model { name: "this".into(), title, capacity: measurement.size, overhead, zones, kind };
    model.check().map_err(|cause| bad("the figures").because(cause))?;
    Ok(judge(model, measurement))
}

/// Time of a read at no distance, and what it costs more over the whole width: a line through (root of the share,
/// time).
fn seek_line(measurement: &Measurement) -> (f64, f64) {
    let points: Vec<(f64, f64)> = measurement
        .distances
        .iter()
        .map(|(distance, time)| ((distance.0 as f64 / measurement.size.0.max(1) as f64).sqrt(), time.0 as f64))
        .collect();
    let mut slopes = Vec::new();
    for (index, (x0, y0)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().filter(|(x, _)| x > x0).map(|(x, y)| (y - y0) / (x - x0)));
    }
    let slope = if slopes.is_empty() { 0.0 } else { stats::quantile(&slopes, 0.5) };
    let beginnings: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    (stats::quantile(&beginnings, 0.5).max(0.0), slope)
}

fn nanos(value: f64) -> Nanos {
    Nanos(value.max(0.0).round() as u64)
}

fn arm(measurement: &Measurement, begin: f64, rise: f64, fastest: f64) -> (Nanos, Kind) {
    // From the drive's buffer: what is left of the command.
    let interface = fastest.max(300e6);
    let hit = (measurement.in_a_row.0 as f64 - BLOCK as f64 / interface * 1e9).clamp(0.0, begin / 2.0);
    let smallest = ((begin - hit) / 2.0).min(1e6);
    let seek = Seek::Root { smallest: nanos(smallest), largest: nanos(smallest + rise) };
    let kind = Kind::Rotating(Rotating {
        seek,
        half_turn: nanos(begin - hit - smallest),
        overhead_hit: nanos(hit),
        interface,
        read_ahead: Bytes(512 << 10),
        segments: 16,
        write_cache: Bytes(8 << 20),
    });
    (nanos(hit), kind)
}

fn chips(measurement: &Measurement, block: f64) -> (Nanos, Kind) {
    let times: Vec<f64> = measurement.distances.iter().map(|(_, time)| time.0 as f64).collect();
    let single = stats::quantile(&times, 0.5);
    let iops = measurement.depths.iter().map(|(_, iops)| *iops).fold(0.0, f64::max);
    let latency = (single - block).max(1.0);
    // As many as are at work when the disk does its best.
    let channels = (iops * single / 1e9).round().clamp(1.0, 1024.0) as u32;
    let next = (measurement.in_a_row.0 as f64 - block).clamp(0.0, latency);
    let kind = Flash {
        latency: nanos(latency),
        next_latency: nanos(next),
        // Only reading was measured.
        write_latency: nanos(latency),
        channels,
        iops: (iops > 0.0 && iops.is_finite()).then_some(iops),
        units: None,
    };
    (Nanos(0), Kind::Flash(kind))
}

/// Does to the model what was done to the disk.
fn judge(model: Model, measurement: &Measurement) -> Fitted {
    let drive = || Drive::new(model.clone(), measurement.size);
    let mut cells = Vec::new();
    for (distance, time) in &measurement.distances {
        let mut drive = drive();
        let first = drive.serve(Nanos(0), &read(0, BLOCK));
        let second = drive.serve(first.done, &read(BLOCK + distance.0, BLOCK));
        cells.push(cell(format!("4 KiB, {distance} away"), time.seconds(), second.took().seconds()));
    }
    for (depth, iops) in &measurement.depths {
        cells.push(cell(format!("random 4 KiB, {depth} in flight"), 1.0 / iops, random_reads(drive(), *depth)));
    }
    for (at, rate) in &measurement.stretches {
        let mut drive = drive();
        let first = drive.serve(Nanos(0), &read(at.0, 1 << 20));
        let mut done = first.done;
        for index in 1..STRETCH >> 20 {
            done = drive.serve(done, &read(at.0 + (index << 20), 1 << 20)).done;
        }
        let model_s = (done - first.done).seconds();
        cells.push(cell(format!("32 MiB at {}", Bytes(at.0)), (STRETCH - (1 << 20)) as f64 / rate, model_s));
    }
    let mut drive = drive();
    let first = drive.serve(Nanos(0), &read(0, BLOCK));
    let row = drive.serve(first.done + Nanos(1_000_000), &read(BLOCK, BLOCK));
    cells.push(cell("4 KiB in a row".to_owned(), measurement.in_a_row.seconds(), row.took().seconds()));
    let errors: Vec<f64> = cells.iter().map(|cell| (cell.model_s / cell.measured_s - 1.0).abs()).collect();
    let error = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
    Fitted { model, cells, error, worst: errors.into_iter().fold(0.0, f64::max) }
}

fn cell(what: String, measured_s: f64, model_s: f64) -> Cell {
    Cell { what, measured_s, model_s }
}

/// Seconds for each of the random reads, with `depth` of them in flight.
fn random_reads(mut drive: Drive, depth: u32) -> f64 {
    let random = &mut Random::from_seed(1);
    let size = drive.model().capacity.0;
    let mut done = vec![Nanos(0); depth.max(1) as usize];
    for index in 0..RANDOM_READS {
        let slot = index % done.len();
        // The oldest of those in flight makes room for the next.
        done[slot] = drive.serve(done[slot], &read(place(random, size), BLOCK)).done;
    }
    done.into_iter().max().unwrap_or_default().seconds() / RANDOM_READS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Presets;

    /// A measurement of a disk that is exactly as its model.
    fn measured(model: &Model) -> Measurement {
        let size = model.capacity;
        let mut measurement = Measurement {
            name: model.name.clone(),
            size,
            distances: DISTANCES.map(|share| (Bytes((size.0 as f64 * share) as u64 / BLOCK * BLOCK), Nanos(0))).into(),
            depths: DEPTHS.map(|depth| (depth, random_reads(Drive::new(model.clone(), size), depth).recip())).into(),
            in_a_row: Nanos(0),
            stretches: STRETCHES.map(|share| (DiskOffset((size.0 as f64 * share) as u64), 0.0)).into(),
        };
        let cells = judge(model.clone(), &measurement).cells;
        let model_s = |what: &str| {
            cells.iter().filter(|cell| cell.what.contains(what)).map(|cell| cell.model_s).collect::<Vec<_>>()
        };
        for (point, time) in measurement.distances.iter_mut().zip(model_s("away")) {
            point.1 = Nanos::from_seconds(time);
        }
        for (point, time) in measurement.stretches.iter_mut().zip(model_s("32 MiB")) {
            point.1 = (STRETCH - (1 << 20)) as f64 / time;
        }
        measurement.in_a_row = Nanos::from_seconds(model_s("in a row")[0]);
        measurement
    }

    #[test]
    fn a_disk_that_is_as_a_model_is_fitted_by_it() {
        for (name, at_most) in [("laptop2010", 0.05), ("desktop2010", 0.05), ("sata-ssd", 0.1), ("nvme", 0.1)] {
            let model = Presets::builtin().get(name).unwrap().model.clone();
            let fitted = fit(&measured(&model)).unwrap();
            let kinds = (&fitted.model.kind, &model.kind);
            assert!(
                matches!(kinds, (Kind::Rotating(_), Kind::Rotating(_)) | (Kind::Flash(_), Kind::Flash(_))),
                "{name}"
            );
            assert!(fitted.error < at_most, "{name}: {:#?}", fitted);
            assert_eq!((fitted.model.name.as_str(), fitted.model.capacity), ("this", model.capacity));
        }
    }

    #[test]
    fn an_arm_is_found_with_its_curve() {
        let laptop = Presets::builtin().get("laptop2010").unwrap().model.clone();
        let fitted = fit(&measured(&laptop)).unwrap();
        let Kind::Rotating(Rotating { seek: Seek::Root { smallest, largest }, .. }) = fitted.model.kind else {
            panic!("it has an arm")
        };
        assert!((largest - smallest).0.abs_diff(19_000_000) < 200_000, "{}", largest - smallest);
    }

    #[test]
    fn a_few_disturbed_points_do_not_move_it() {
        let laptop = Presets::builtin().get("laptop2010").unwrap().model.clone();
        let mut measurement = measured(&laptop);
        measurement.distances[2].1 = Nanos(90_000_000);
        let fitted = fit(&measurement).unwrap();
        assert!(matches!(fitted.model.kind, Kind::Rotating(_)));
        let calm = fitted.cells.iter().filter(|cell| (cell.model_s / cell.measured_s - 1.0).abs() < 0.15).count();
        assert_eq!(calm, fitted.cells.len() - 1);
        assert!(fitted.worst > 0.5, "the disturbed point is reported");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut measurement = measured(&Presets::builtin().get("nvme").unwrap().model);
        measurement.stretches[1].1 = 0.0;
        assert_eq!(fit(&measurement).unwrap_err().exit, Exit::Data);
        measurement.stretches.clear();
        assert_eq!(fit(&measurement).unwrap_err().exit, Exit::Data);
    }

    #[test]
    fn a_file_on_this_disk_is_measured() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let block = vec![1; 1 << 20];
        for _ in 0..80 {
            std::io::Write::write_all(&mut file, &block).unwrap();
        }
        file.as_file().sync_all().unwrap();
        let measurement = match measure(file.path(), 1) {
            Err(error) if error.what.contains("io_uring") || error.to_string().contains("Invalid argument") => {
                return testing::skip("no io_uring or no O_DIRECT here");
            }
            measurement => measurement.unwrap(),
        };
        assert_eq!(measurement.distances.len(), DISTANCES.len());
        let fitted = fit(&measurement).unwrap();
        assert_eq!(fitted.cells.len(), DISTANCES.len() + DEPTHS.len() + STRETCHES.len() + 1);
        assert!(fitted.error.is_finite());
        let small = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(measure(small.path(), 1).unwrap_err().exit, Exit::Usage);
    }
}
