//! Really reading what a start read, from the same places of the same disk, in both orders.
//!
//! Everything is opened for reading only and read past the page cache, so nothing on the machine gets colder or warmer,
//! and no cache needs to be dropped. There are no pauses: it is the disk that is measured, not the program.
//!
//! The device itself may be closed to us, even to root (containers, virtual machines with a filter). Then the same
//! ranges are read through the files that they belong to, where those lie now; the file system's metadata belongs to
//! none and is left out.

use crate::model::{Ask, Direction};
use crate::ring::{self, Device};
use crate::simulate::Request;
use model::{Bytes, DiskOffset, Error, Exit, FileKind, FileOffset, Nanos, Result, Served, TraceRows};
use serde::{Deserialize, Serialize};
use stats::{Estimate, Random};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// In which order to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As the requests came.
    AsCame,
    /// In the order of the disk, what touches read at once.
    Sorted,
}

/// What the ranges are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// The block device.
    Device,
    /// The files that lie on it.
    Files,
}

/// Requests that are not read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Writes and flushes: never replayed.
    pub writes: u64,
    /// Of the file system's metadata, or of nobody knows what: no file has them.
    pub without_file: u64,
    /// Of files that are gone, have another size now, or cannot be read past the page cache.
    pub changed: u64,
}

/// The reads of a start, ready to be done.
pub struct Reads {
    /// What they go through.
    pub through: Through,
    /// What is missing.
    pub left_out: LeftOut,
    devices: Vec<Device>,
    reads: Vec<Place>,
}

/// Where a range is read, and where it lies on the disk.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: usize,
    ask: Ask,
    disk: u64,
}

/// One pass over all ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The order.
    pub order: Order,
    /// Reads in flight at the same time, at most.
    pub depth: u32,
    /// Reads.
    pub requests: u64,
    /// Bytes read, aligned to 4 KiB.
    pub bytes: Bytes,
    /// From the first issue to the last completion.
    pub took: Nanos,
    /// How long each read took, in the order of their issue.
    pub latencies: Vec<Nanos>,
}

/// Both orders, timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// What the ranges were read from.
    pub through: Through,
    /// Reads in flight at the same time, at most.
    pub depth: u32,
    /// Requests that were not read again.
    pub left_out: LeftOut,
    /// As the requests came.
    pub as_came: Passes,
    /// In the order of the disk.
    pub sorted: Passes,
    /// How many times as long the first order takes: pass by pass, geometric mean.
    pub ratio: Estimate,
}

/// The passes in one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Reads of one pass.
    pub requests: u64,
    /// Bytes of one pass, aligned to 4 KiB.
    pub bytes: Bytes,
    /// Median of a pass, seconds.
    pub median_s: Estimate,
    /// Each pass in the order taken, seconds.
    pub samples_s: Vec<f64>,
    /// Median of a single read over all passes, seconds.
    pub read_s: f64,
}

/// Reads everything `runs` times in each order, one pass of each in turn, in random order; `progress` gets the passes
/// that were done.
///
/// # Errors
/// As [`Reads::pass`]; interrupted.
pub fn time(reads: &Reads, runs: u32, depth: u32, seed: u64, progress: &mut dyn FnMut(u32)) -> Result<Timing> {
    let random = &mut Random::from_seed(seed);
    let mut passes = Vec::new();
    for run in 0..runs {
        let mut orders = [Order::AsCame, Order::Sorted];
        random.shuffle(&mut orders);
        for (index, order) in (0..).zip(orders) {
            progress(run * 2 + index);
            os::interrupt::check()?;
            passes.push(reads.pass(order, depth)?);
        }
    }
    let (as_came, sorted) = (of_order(&passes, Order::AsCame, random), of_order(&passes, Order::Sorted, random));
    let ratio = stats::paired_ratio(&as_came.samples_s, &sorted.samples_s);
    Ok(Timing { through: reads.through, depth, left_out: reads.left_out, as_came, sorted, ratio })
}

fn of_order(passes: &[Pass], order: Order, random: &mut Random) -> Passes {
    let passes: Vec<&Pass> = passes.iter().filter(|pass| pass.order == order).collect();
    let samples_s: Vec<f64> = passes.iter().map(|pass| pass.took.seconds()).collect();
    let latencies: Vec<f64> =
        passes.iter().flat_map(|pass| pass.latencies.iter().map(|latency| latency.seconds())).collect();
    Passes {
        requests: passes.first().map_or(0, |pass| pass.requests),
        bytes: passes.first().map_or(Bytes(0), |pass| pass.bytes),
        median_s: stats::median(&samples_s, random),
        read_s: if latencies.is_empty() { 0.0 } else { stats::quantile(&latencies, 0.5) },
        samples_s,
    }
}

/// The device file of a device number (packed by `makedev`).
///
/// # Errors
/// The kernel knows no such block device.
pub fn device_file(dev: u64) -> Result<PathBuf> {
    let number = format!("{}:{}", libc::major(dev), libc::minor(dev));
    let link = Path::new("/sys/dev/block").join(&number);
    std::fs::read_link(&link).ok().and_then(|target| Some(Path::new("/dev").join(target.file_name()?))).ok_or_else(
        || {
            Error::new(Exit::Machine, "there is no block device", number)
                .hint("the recording was made on another machine, or the disk is gone")
        },
    )
}

/// [`device_file`], or the name that udev gives every device, for one that is not here.
pub fn device_name(dev: u64) -> PathBuf {
    device_file(dev).unwrap_or_else(|_| format!("/dev/block/{}:{}", libc::major(dev), libc::minor(dev)).into())
}

impl Reads {
    /// The requests' reads from the device that they were for.
    ///
    /// # Errors
    /// The device may not be read; the hint says what is missing.
    pub fn through_device(device: &Path, requests: &[Request]) -> Result<Self> {
        let device = Device::open(device)?;
        let asks = requests.iter().map(|request| request.ask).filter(|ask| ask.direction == Direction::Read);
        let reads: Vec<Place> = asks
            .clone()
            .filter_map(|ask| device.aligned(&ask))
            .map(|ask| Place { device: 0, ask, disk: ask.disk.0 })
            .collect();
        let left_out = LeftOut { writes: (requests.len() - asks.count()) as u64, ..LeftOut::default() };
        Ok(Self { through: Through::Device, left_out, devices: vec![device], reads })
    }

    /// The program's reads from one device, through the files that they were for.
    ///
    /// # Errors
    /// More files than this process may open.
    pub fn through_files(rows: &TraceRows, dev: u64, length: Nanos) -> Result<Self> {
        let mut reads =
            Self { through: Through::Files, left_out: LeftOut::default(), devices: Vec::new(), reads: Vec::new() };
        let mut opened: HashMap<u32, Option<OpenFile>> = HashMap::new();
        let own = |block: &&model::BlockRow| block.pid.is_some() && block.dev == dev && block.start_ns <= length;
        for block in rows.blocks.iter().filter(own) {
            let (file, offset) = match block.served {
                _ if block.write || block.len.0 == 0 => {
                    reads.left_out.writes += 1;
                    continue;
                }
                Served::File(file, offset) => (file.0, offset),
                Served::Metadata | Served::Unknown => {
                    reads.left_out.without_file += 1;
                    continue;
                }
            };
            if let std::collections::hash_map::Entry::Vacant(place) = opened.entry(file) {
                place.insert(reads.open(rows, file)?);
            }
            let place = opened[&file].as_ref().and_then(|open| {
                let ask = Ask { disk: DiskOffset(offset.0), len: block.len, direction: Direction::Read };
                let ask = reads.devices[open.device].aligned(&ask)?;
                Some(Place { device: open.device, ask, disk: open.place(ask.disk.0).unwrap_or(block.disk.0) })
            });
            match place {
                Some(place) => reads.reads.push(place),
                None => reads.left_out.changed += 1,
            }
        }
        Ok(reads)
    }

    /// Opens a file of the trace, if it is still the same.
    fn open(&mut self, rows: &TraceRows, file: u32) -> Result<Option<OpenFile>> {
        let Some(row) = rows.files.get(file as usize).filter(|row| row.kind == FileKind::Regular) else {
            return Ok(None);
        };
        match std::fs::metadata(&row.path) {
            Ok(meta) if meta.is_file() && meta.len() == row.size.0 => {}
            _ => return Ok(None),
        }
        let device = match Device::open(&row.path) {
            Ok(device) => device,
            Err(error) if error.to_string().contains("Too many open files") => {
                return Err(error.hint("allow more open files: ulimit -n 65536"));
            }
            Err(_) => return Ok(None),
        };
        // Where it lies now: not where it did, if it was written anew or the recording is of another disk.
        let extents = File::open(&row.path).and_then(|file| os::extents::extents(&file)).unwrap_or_default();
        self.devices.push(device);
        Ok(Some(OpenFile { device: self.devices.len() - 1, extents }))
    }

    /// How many reads there are.
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    /// Nothing can be read.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Reads everything once, with at most `depth` reads in flight.
    ///
    /// # Errors
    /// io_uring is not to be had, or a read failed.
    pub fn pass(&self, order: Order, depth: u32) -> Result<Pass> {
        let places = match order {
            Order::AsCame => self.reads.clone(),
            Order::Sorted => in_order(self.reads.clone()),
        };
        let asks: Vec<(usize, Ask)> = places.iter().map(|place| (place.device, place.ask)).collect();
        let timed = ring::read(&self.devices, &asks, depth)?;
        Ok(Pass {
            order,
            depth,
            requests: timed.len() as u64,
            bytes: timed.iter().map(|read| read.ask.len).sum(),
            took: timed.iter().map(|read| read.done).max().unwrap_or_default(),
            latencies: timed.iter().map(|read| read.done - read.issue).collect(),
        })
    }
}

/// A file of the trace that can be read again.
struct OpenFile {
    device: usize,
    extents: Vec<os::extents::Extent>,
}

impl OpenFile {
    /// Where on its file system's device an offset lies.
    fn place(&self, offset: u64) -> Option<u64> {
        let disk = self.extents.iter().find_map(|extent| extent.disk_of(FileOffset(offset)))?;
        Some(disk.0)
    }
}

/// By place on the disk; what touches or overlaps, there and in its file, is one piece.
fn in_order(mut places: Vec<Place>) -> Vec<Place> {
    places.sort_by_key(|place| (place.disk, place.ask.len));
    let mut pieces: Vec<Place> = Vec::new();
    for place in places {
        let goes_on = |last: &Place| {
            let (on_disk, in_file) = (place.disk - last.disk, place.ask.disk.0.checked_sub(last.ask.disk.0));
            last.device == place.device && in_file == Some(on_disk) && on_disk <= last.ask.len.0
        };
        match pieces.last_mut().filter(|last| goes_on(last)) {
            Some(last) => last.ask.len.0 = last.ask.end().max(place.ask.end()) - last.ask.disk.0,
            None => pieces.push(place),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BlockRow, FileId, FileRow, Owner};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    /// A file on a real file system: /tmp may be memory, which need not know O_DIRECT.
    fn file(mib: usize) -> Option<tempfile::NamedTempFile> {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; mib << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        match Device::open(file.path()) {
            Err(error) if error.to_string().contains("Invalid argument") => {
                testing::skip("no O_DIRECT here");
                None
            }
            _ => Some(file),
        }
    }

    fn request(disk: u64, len: u64, direction: Direction) -> Request {
        let ask = Ask { disk: DiskOffset(disk), len: Bytes(len), direction };
        Request { issue: Nanos(0), done: Nanos(0), ask }
    }

    fn ring_or_skip<T>(result: Result<T>) -> Option<T> {
        match result {
            Err(error) if error.what.contains("io_uring") => {
                testing::skip("no io_uring here");
                None
            }
            result => Some(result.unwrap()),
        }
    }

    fn pass(device: &Path, requests: &[Request], order: Order, depth: u32) -> Result<Pass> {
        Reads::through_device(device, requests)?.pass(order, depth)
    }

    fn block(file: u32, offset: u64, disk: u64, len: u64) -> BlockRow {
        BlockRow {
            start_ns: Nanos(1),
            done_ns: None,
            pid: Some(1),
            dev: 7,
            disk: DiskOffset(disk),
            len: Bytes(len),
            write: false,
            served: Served::File(FileId(file), FileOffset(offset)),
            flags: "R".into(),
        }
    }

    fn row(path: &Path, size: u64) -> FileRow {
        FileRow {
            path: path.into(),
            kind: FileKind::Regular,
            owner: Owner::App,
            dev: 7,
            ino: 1,
            size: Bytes(size),
            extents: None,
            build_id: None,
        }
    }

    #[test]
    fn a_closed_device_is_read_through_its_files_as_they_lie_now() {
        let (Some(large), Some(mut small)) = (file(2), file(0)) else { return };
        small.write_all(b"a file of one block, not all of it").unwrap();
        small.as_file().sync_all().unwrap();
        let mut rows =
            TraceRows { files: vec![row(large.path(), 2 << 20), row(small.path(), 34)], ..TraceRows::default() };
        rows.files.push(row(Path::new("/no/such/file"), 1));
        rows.files.push(row(large.path(), 1));
        // The recorded places say the opposite of how the large file lies.
        rows.blocks = vec![block(0, 1 << 20, 0, 65536), block(0, 0, 1 << 20, 65536), block(0, 65536, 4096, 4096)];
        rows.blocks.extend([block(1, 0, 9 << 20, 4096), block(2, 0, 0, 4096), block(3, 0, 0, 4096)]);
        rows.blocks.push(BlockRow { served: Served::Metadata, ..block(0, 0, 0, 4096) });
        rows.blocks.push(BlockRow { write: true, ..block(0, 0, 0, 4096) });
        rows.blocks.push(BlockRow { dev: 8, ..block(0, 0, 0, 4096) });
        rows.blocks.push(BlockRow { pid: None, ..block(0, 0, 0, 4096) });
        let reads = Reads::through_files(&rows, 7, Nanos(9)).unwrap();
        assert_eq!(reads.left_out, LeftOut { writes: 1, without_file: 1, changed: 2 });
        assert_eq!(reads.len(), 4);
        let Some(came) = ring_or_skip(reads.pass(Order::AsCame, 2)) else { return };
        assert_eq!((came.requests, came.bytes), (4, Bytes(65536 * 2 + 8192)));
        let extents = os::extents::extents(large.as_file()).unwrap();
        if os::extents::pieces(&extents) == 1 {
            let sorted = reads.pass(Order::Sorted, 1).unwrap();
            assert_eq!(sorted.requests, 3, "the first two blocks of the large file are one piece");
            assert_eq!(sorted.bytes, came.bytes);
        }
    }

    #[test]
    fn the_same_ranges_are_read_in_both_orders() {
        let Some(file) = file(4) else { return };
        let requests = [
            request(3 << 20, 4096, Direction::Read),
            request(0, 2 << 20, Direction::Read),
            request(2 << 20, 512, Direction::Read),
            request(1 << 20, 4096, Direction::Write),
            request(4 << 20, 4096, Direction::Read),
        ];
        let Some(came) = ring_or_skip(pass(file.path(), &requests, Order::AsCame, 1)) else { return };
        assert_eq!((came.requests, came.bytes), (4, Bytes((2 << 20) + 8192)));
        let reads = Reads::through_device(file.path(), &requests).unwrap();
        assert_eq!((reads.len(), reads.left_out.writes), (3, 1), "one lies behind the end");
        let sorted = pass(file.path(), &requests, Order::Sorted, 8).unwrap();
        // 2 MiB and the block behind them are one piece, which is cut after each MiB.
        assert_eq!((sorted.requests, sorted.bytes), (4, Bytes((2 << 20) + 8192)));
        let timing = time(&reads, 3, 1, 5, &mut |_| {}).unwrap();
        assert_eq!((timing.as_came.samples_s.len(), timing.sorted.samples_s.len()), (3, 3));
        assert_eq!((timing.through, timing.as_came.requests), (Through::Device, 4));
        assert!(timing.ratio.value > 0.0 && timing.as_came.median_s.value >= timing.as_came.read_s);
        assert!(sorted.took > Nanos(0) && sorted.latencies.iter().all(|latency| *latency <= sorted.took));
    }

    #[test]
    fn a_device_that_is_not_there_or_may_not_be_read_says_so() {
        let error = pass(Path::new("/dev/no-such-disk"), &[], Order::AsCame, 1).unwrap_err();
        assert_eq!(error.exit, Exit::Machine);
        assert!(device_file(libc::makedev(999, 3)).unwrap_err().to_string().contains("999:3"));
        assert_eq!(device_name(libc::makedev(999, 3)), Path::new("/dev/block/999:3"));
        let Some(file) = file(1) else { return };
        std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o000)).unwrap();
        // Root may read everything: ask as nobody, in a thread of its own.
        let path = file.path().to_path_buf();
        let refused = std::thread::spawn(move || {
            // SAFETY: changes the user of this thread alone (the raw call, not glibc's for the whole process); takes
            // plain numbers.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, -1) };
            (changed == 0).then(|| pass(&path, &[], Order::AsCame, 1).unwrap_err())
        });
        let Some(error) = refused.join().unwrap() else { return testing::skip("cannot become nobody") };
        assert!(error.hint.unwrap().contains("needs root"));
    }

    #[test]
    fn a_device_number_names_its_file() {
        let Some(disk) = std::fs::read_dir("/sys/block").ok().and_then(|mut disks| disks.next()) else {
            return testing::skip("no block devices here");
        };
        let disk = disk.unwrap();
        let number = std::fs::read_to_string(disk.path().join("dev")).unwrap();
        let (major, minor) = number.trim().split_once(':').unwrap();
        let dev = libc::makedev(major.parse().unwrap(), minor.parse().unwrap());
        assert_eq!(device_file(dev).unwrap(), Path::new("/dev").join(disk.file_name()));
    }
}
