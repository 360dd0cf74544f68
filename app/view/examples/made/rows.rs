//! A made-up traced start that looks like a real one: a browser's files on a disk, processes that read and fault, the
//! kernel's read-ahead, a page cache, and one disk that serves one request after the other. Same seed, same rows.

use model::*;
use stats::Random;
use std::collections::HashSet;
use std::path::PathBuf;

/// What kind of start to make.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Stop once there are this many fills, requests, reads and faults together.
    pub events: usize,
    /// Files beside the browser's own.
    pub more_files: usize,
    /// How much larger they are than a desktop's.
    pub larger: u64,
    /// Mean time from the issue of a request on a new place until it is done.
    pub seek_ns: u64,
    /// Mean time that a process computes between two touches.
    pub think_ns: u64,
    /// What the disk brings once its head stands right.
    pub bytes_per_s: u64,
    /// Largest page-cache folio in pages: 1 means one fill per page.
    pub folio: u64,
    /// Largest request and read-ahead window in pages.
    pub window: u64,
    /// Of all that is random: the same seed makes the same rows.
    pub seed: u64,
}

/// A laptop disk of 2010 and a browser.
pub const LAPTOP: Wish = Wish {
    events: 40_000,
    more_files: 180,
    larger: 1,
    seek_ns: 7_000_000,
    think_ns: 60_000,
    bytes_per_s: 30_000_000,
    folio: 4,
    window: 32,
    seed: 7,
};
/// A million events of all kinds: an environment of 4,000 files on a fast disk.
pub const MILLION: Wish = Wish {
    events: 1_000_000,
    more_files: 4_000,
    larger: 8,
    seek_ns: 90_000,
    think_ns: 15_000,
    bytes_per_s: 900_000_000,
    folio: 1,
    window: 32,
    seed: 7,
};
/// A million block requests: the same without read-ahead, so that each page is a request of its own.
pub const SMALL: Wish = Wish {
    events: 2_900_000,
    more_files: 6_000,
    larger: 10,
    seek_ns: 60_000,
    think_ns: 10_000,
    bytes_per_s: 900_000_000,
    folio: 1,
    window: 1,
    seed: 7,
};

const DISK: u64 = 254 << 8;
const MB: u64 = 1_000_000;

/// How a file is used.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    /// Mapped: faults here and there.
    Mapped,
    /// Read by calls, from the beginning on.
    Read,
    /// The block device, whose pages are the file system's metadata.
    Metadata,
}

struct Made {
    wish: Wish,
    random: Random,
    rows: TraceRows,
    uses: Vec<Use>,
    cached: HashSet<(u32, u64)>,
    disk_free_at: u64,
    head: u64,
    place: [u64; 4],
}

/// Rows as a tracer would have seen them.
pub fn rows(wish: Wish) -> TraceRows {
    let mut made = Made {
        wish,
        random: Random::from_seed(wish.seed),
        rows: TraceRows::default(),
        uses: Vec::new(),
        cached: HashSet::new(),
        disk_free_at: 0,
        head: 0,
        place: [1_200 * MB, 5_400 * MB, 14_800 * MB, 41_000 * MB],
    };
    made.files();
    made.processes();
    made.run();
    made.sorted()
}

impl Made {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit.max(1) as usize) as u64
    }

    /// Mostly small, sometimes large: mean about `mean`.
    fn exponential(&mut self, mean: u64) -> u64 {
        let share = (self.below(1 << 20) + 1) as f64 / (1_u64 << 20) as f64;
        (-share.ln() * mean as f64) as u64
    }

    fn file(&mut self, path: &str, size: u64, owner: Owner, used: Use) {
        let region = match path {
            path if path.starts_with("/etc") => 0,
            path if path.starts_with("/usr/lib") => 1,
            path if path.starts_with("/usr") => 2,
            _ => 3,
        };
        let id = FileId(self.rows.files.len() as u32);
        let pages = size.div_ceil(PAGE);
        let pieces = if size > 4 * MB { 1 + self.below(4) } else { 1 };
        for piece in 0..pieces {
            let (first, behind) = (pages * piece / pieces, pages * (piece + 1) / pieces);
            self.place[region] += self.below(24 * MB) / PAGE * PAGE;
            let disk = self.place[region] / PAGE * PAGE;
            self.place[region] = disk + (behind - first) * PAGE;
            self.rows.extents.push(ExtentRow {
                file: id,
                offset: FileOffset(first * PAGE),
                disk: DiskOffset(disk),
                len: Bytes((behind - first) * PAGE),
            });
        }
        if path.ends_with(".so") || path.contains(".so.") {
            self.sections(id, size);
        }
        self.uses.push(used);
        self.rows.files.push(FileRow {
            path: PathBuf::from(path),
            kind: FileKind::Regular,
            owner,
            dev: DISK + 1,
            ino: 100_000 + u64::from(id.0) * 7,
            size: Bytes(size),
            extents: Some(pieces as u32),
            build_id: None,
        });
    }

    fn sections(&mut self, file: FileId, size: u64) {
        let parts = [
            (".dynsym", 2),
            (".dynstr", 3),
            (".rela.dyn", 6),
            (".rodata", 18),
            (".eh_frame_hdr", 2),
            (".eh_frame", 8),
            (".text", 52),
            (".data.rel.ro", 7),
            (".data", 2),
        ];
        let mut offset = 4096;
        for (name, percent) in parts {
            let len = (size.saturating_sub(8192)) * percent / 100;
            self.rows.sections.push(SectionRow {
                file,
                name: name.into(),
                offset: FileOffset(offset),
                len: Bytes(len),
            });
            offset += len;
        }
    }

    fn files(&mut self) {
        let app = "/usr/lib/firefox-esr";
        for (name, size, used) in [
            ("firefox-esr", 1, Use::Mapped),
            ("libxul.so", 165, Use::Mapped),
            ("omni.ja", 41, Use::Read),
            ("browser/omni.ja", 37, Use::Read),
            ("libmozsandbox.so", 1, Use::Mapped),
            ("libgkcodecs.so", 4, Use::Mapped),
            ("libmozavcodec.so", 3, Use::Mapped),
            ("browser/features/formautofill@mozilla.org.xpi", 1, Use::Read),
            ("distribution/distribution.ini", 0, Use::Read),
        ] {
            self.file(&format!("{app}/{name}"), size * MB + 3_210, Owner::App, used);
        }
        let lib = "/usr/lib/x86_64-linux-gnu";
        for (name, size) in [
            ("libc.so.6", 2),
            ("libgtk-3.so.0", 8),
            ("libLLVM-15.so.1", 118),
            ("libstdc++.so.6", 2),
            ("libgallium_dri.so", 33),
            ("libicudata.so.72", 31),
            ("libcairo.so.2", 1),
            ("libpango-1.0.so.0", 1),
            ("libglib-2.0.so.0", 1),
            ("libnss3.so", 1),
            ("libX11.so.6", 1),
            ("libfreetype.so.6", 1),
        ] {
            self.file(&format!("{lib}/{name}"), size * MB + 917, Owner::System, Use::Mapped);
        }
        let profile = "/home/me/.mozilla/firefox/k3v1x.default-esr";
        for (name, kilobytes) in [
            ("places.sqlite", 5_242),
            ("cookies.sqlite", 524),
            ("favicons.sqlite", 1_310),
            ("prefs.js", 14),
            ("startupCache/startupCache.8.little", 4_310),
            ("startupCache/scriptCache.bin", 9_870),
            ("extensions.json", 61),
            ("sessionstore.jsonlz4", 120),
            ("cert9.db", 229),
            ("storage/default/a b \u{fffd}.sqlite", 48),
        ] {
            self.file(&format!("{profile}/{name}"), kilobytes * 1000 + 11, Owner::App, Use::Read);
        }
        for number in 0..self.wish.more_files {
            let size = 900 + self.exponential(self.wish.larger * if number % 3 == 0 { 300_000 } else { 20_000 });
            let path = match number % 5 {
                0 => format!("/etc/fonts/conf.d/{number:02}-aliases.conf"),
                1 => format!("/usr/share/fonts/truetype/set{}/Face-{number}.ttf", number % 13),
                2 => format!("/usr/share/icons/hicolor/{}x{0}/apps/icon-{number}.png", 16 << (number % 4)),
                3 => format!("/usr/lib/x86_64-linux-gnu/gio/modules/part{}/lib{number}.so", number % 17),
                _ => {
                    format!("/usr/share/locale/{}/LC_MESSAGES/gtk{number}.mo", ["de", "en_GB", "fr", "pt"][number % 4])
                }
            };
            self.file(&path, size, Owner::System, if number % 5 == 3 { Use::Mapped } else { Use::Read });
        }
        let id = FileId(self.rows.files.len() as u32);
        self.rows.extents.push(ExtentRow {
            file: id,
            offset: FileOffset(0),
            disk: DiskOffset(0),
            len: Bytes(64_000 * MB),
        });
        self.uses.push(Use::Metadata);
        self.rows.files.push(FileRow {
            path: "/dev/vda".into(),
            kind: FileKind::Metadata,
            owner: Owner::System,
            dev: DISK,
            ino: 0,
            size: Bytes(64_000 * MB),
            extents: None,
            build_id: None,
        });
    }

    fn processes(&mut self) {
        let names = [
            (4100, 1, "firefox-esr", 0),
            (4123, 4100, "glxtest", 120),
            (4131, 4100, "Socket Process", 700),
            (4144, 4100, "Privileged Cont", 1_400),
            (4158, 4100, "WebExtensions", 1_900),
            (4171, 4100, "RDD Process", 2_100),
            (4180, 4100, "Web Content", 2_600),
            (4188, 4100, "Web Content", 2_900),
            (4193, 4123, "sh", 140),
            (4197, 4100, "Utility Process", 3_000),
        ];
        for (pid, parent, comm, ms) in names {
            self.rows.processes.push(ProcessRow {
                pid,
                parent,
                comm: comm.into(),
                exe: Some(if comm == "sh" {
                    "/usr/bin/dash".into()
                } else {
                    "/usr/lib/firefox-esr/firefox-esr".into()
                }),
                start_ns: Nanos(ms * MB),
                end_ns: None,
            });
        }
    }

    fn events(&self) -> usize {
        self.rows.fills.len() + self.rows.reads.len() + self.rows.faults.len() + self.rows.blocks.len()
    }

    /// Processes take turns: the one whose clock is behind goes on.
    fn run(&mut self) {
        let mut clocks: Vec<u64> = self.rows.processes.iter().map(|process| process.start_ns.0).collect();
        let mut reading: Vec<Option<(u32, u64)>> = vec![None; clocks.len()];
        let count = self.rows.files.len() as u64;
        let mut fresh = 0;
        while self.events() < self.wish.events {
            let who = (0..clocks.len()).min_by_key(|index| clocks[*index]).expect("there are processes");
            let pid = self.rows.processes[who].pid;
            // The main process does most of the work; the others come, read what they need, and wait for it.
            let busy = who == 0 || clocks[who] < self.rows.processes[who].start_ns.0 + self.wish.seek_ns * 60;
            let think = self.exponential(self.wish.think_ns * if busy { 1 } else { 60 });
            let at = clocks[who] + think;
            clocks[who] = match reading[who].take() {
                Some((file, offset)) => self.read_on(who, &mut reading, pid, file, offset, at),
                None => {
                    let file = match self.below(10) {
                        0..4 => self.below(21) as u32,
                        4..6 => self.below(32) as u32,
                        _ => {
                            fresh = (fresh + 1) % count;
                            if self.below(9) == 0 { count as u32 - 1 } else { fresh as u32 }
                        }
                    };
                    self.touch(who, &mut reading, pid, file, at)
                }
            };
        }
        let end = self.rows.blocks.iter().filter_map(|block| block.done_ns).max().unwrap_or_default();
        for (index, life) in [(1, 5), (8, 3)] {
            let process = &mut self.rows.processes[index];
            process.end_ns = Some(Nanos(process.start_ns.0 + end.0 / 30 * life));
        }
        self.rows.info = TraceInfo {
            engine: "perf".into(),
            records: self.events() as u64,
            lost: 0,
            bytes: Bytes(self.events() as u64 * 64),
            cannot: vec!["opens of files that were not read".into()],
        };
    }

    fn touch(&mut self, who: usize, reading: &mut [Option<(u32, u64)>], pid: u32, file: u32, at: u64) -> u64 {
        let pages = self.rows.files[file as usize].size.0.div_ceil(PAGE).max(1);
        match self.uses[file as usize] {
            Use::Read => {
                let from = if pages > 200 { self.below(pages / 64) * 64 } else { 0 };
                self.read_on(who, reading, pid, file, from, at)
            }
            Use::Mapped => {
                // Code is touched in clusters.
                let (area, within) = (self.below(7), self.below(pages));
                self.fault(pid, file, (pages * area / 7 + within / 7).min(pages - 1), at)
            }
            Use::Metadata => {
                let page = (self.place[1] / PAGE + self.below(4_000)) / 2 + self.below(64) * 32_768;
                self.fill(pid, file, page, 1, Cause::Metadata, at);
                self.request(pid, file, page, 1, at, "RM")
            }
        }
    }

    /// Reads 32 KiB; the kernel reads ahead of it.
    fn read_on(
        &mut self,
        who: usize,
        reading: &mut [Option<(u32, u64)>],
        pid: u32,
        file: u32,
        page: u64,
        at: u64,
    ) -> u64 {
        let pages = self.rows.files[file as usize].size.0.div_ceil(PAGE).max(1);
        let many = 8.min(pages - page);
        let mut now = at;
        if (page..page + many).any(|page| !self.cached.contains(&(file, page))) {
            let window = self.wish.window.max(8).min(pages - page).max(many);
            now = self.bring(pid, file, page, window, page..page + many, Cause::Read, at);
        }
        self.rows.reads.push(ReadRow {
            at_ns: Nanos(now + 900),
            pid,
            tid: pid,
            file: FileId(file),
            offset: FileOffset(page * PAGE),
            len: Bytes(many * PAGE),
        });
        if page + many < pages && self.below(12) > 0 {
            reading[who] = Some((file, page + many));
        }
        now + 1_500
    }

    fn fault(&mut self, pid: u32, file: u32, page: u64, at: u64) -> u64 {
        let pages = self.rows.files[file as usize].size.0.div_ceil(PAGE).max(1);
        let missed = !self.cached.contains(&(file, page));
        let around = page / 16 * 16;
        let (first, len) = if missed { (page, 1) } else { (around, 16.min(pages - around)) };
        self.rows.faults.push(FaultRow {
            at_ns: Nanos(at),
            pid,
            tid: pid,
            file: FileId(file),
            offset: FileOffset(first * PAGE),
            len: Bytes(len * PAGE),
            missed,
        });
        if !missed {
            return at + 700;
        }
        let first = page.saturating_sub(self.wish.window / 2);
        let window = self.wish.window.min(pages - first);
        self.bring(pid, file, first, window, page..page + 1, Cause::Fault, at + 300)
    }

    /// Fills what is not cached of a window, and asks the disk for it.
    #[allow(clippy::too_many_arguments, reason = "a made-up kernel, not a public door")]
    fn bring(
        &mut self,
        pid: u32,
        file: u32,
        first: u64,
        window: u64,
        asked: std::ops::Range<u64>,
        cause: Cause,
        at: u64,
    ) -> u64 {
        let mut done = at;
        let mut page = first;
        while page < first + window {
            if self.cached.contains(&(file, page)) {
                page += 1;
                continue;
            }
            let mut behind = page;
            while behind < first + window && behind - page < self.wish.window && !self.cached.contains(&(file, behind))
            {
                behind += 1;
            }
            let mut now = at;
            let mut from = page;
            while from < behind {
                let len = self.wish.folio.min(behind - from).min(if asked.contains(&from) {
                    asked.end - from
                } else {
                    u64::MAX
                });
                let why = if asked.contains(&from) { cause } else { Cause::ReadAhead };
                self.fill(pid, file, from, len, why, now);
                now += 150 + self.below(400);
                from += len;
            }
            done = done.max(self.request(
                pid,
                file,
                page,
                behind - page,
                now + 2_000,
                if asked.contains(&page) { "R" } else { "RA" },
            ));
            page = behind;
        }
        done
    }

    fn fill(&mut self, pid: u32, file: u32, page: u64, pages: u64, cause: Cause, at: u64) {
        self.cached.extend((page..page + pages).map(|page| (file, page)));
        self.rows.fills.push(FillRow {
            at_ns: Nanos(at),
            pid,
            tid: pid,
            file: FileId(file),
            offset: FileOffset(page * PAGE),
            len: Bytes(pages * PAGE),
            cause,
        });
    }

    /// One request per piece of the range on disk; returns when the last is done.
    fn request(&mut self, pid: u32, file: u32, page: u64, pages: u64, at: u64, flags: &str) -> u64 {
        let (mut from, end) = (page * PAGE, (page + pages) * PAGE);
        let extents: Vec<(u64, u64, u64)> = self
            .rows
            .extents
            .iter()
            .skip(self.rows.extents.partition_point(|extent| extent.file.0 < file))
            .take_while(|extent| extent.file.0 == file)
            .map(|extent| (extent.offset.0, extent.disk.0, extent.len.0))
            .collect();
        let mut done = at;
        for (offset, disk, len) in extents {
            if from >= end || from < offset || from >= offset + len {
                continue;
            }
            let (bytes, disk) = ((end - from).min(offset + len - from), disk + from - offset);
            let begins = self.disk_free_at.max(at);
            let seek = if disk == self.head {
                15_000
            } else {
                self.wish.seek_ns / 3 + self.exponential(self.wish.seek_ns * 2 / 3)
            };
            done = begins + seek + (bytes as f64 / self.wish.bytes_per_s as f64 * 1e9) as u64;
            (self.disk_free_at, self.head) = (done, disk + bytes);
            let served = match self.uses[file as usize] {
                Use::Metadata => Served::Metadata,
                _ => Served::File(FileId(file), FileOffset(from)),
            };
            self.rows.blocks.push(BlockRow {
                start_ns: Nanos(at),
                done_ns: Some(Nanos(done)),
                pid: Some(pid),
                dev: DISK,
                disk: DiskOffset(disk),
                len: Bytes(bytes),
                write: false,
                served,
                flags: flags.into(),
            });
            from += bytes;
        }
        done
    }

    /// Rows by time, some of other programs and some writes between them; files in the order of their first touch.
    fn sorted(mut self) -> TraceRows {
        let mut others = Vec::new();
        for index in (0..self.rows.blocks.len()).step_by(97) {
            let near = self.rows.blocks[index].clone();
            let disk = DiskOffset(30_000 * MB / PAGE * PAGE + self.below(2_000 * MB) / PAGE * PAGE);
            let (pid, write, dev, flags) = match index / 97 % 4 {
                0 => (Some(4100), true, DISK, "WS"),
                1 => (None, false, DISK, "R"),
                // The program's, but nobody knows of what; also on a disk of its own.
                2 => (Some(4100), false, DISK, "R"),
                _ => (Some(4100), false, DISK + 256, "R"),
            };
            others.push(BlockRow { disk, pid, write, dev, served: Served::Unknown, flags: flags.into(), ..near });
        }
        let mut rows = self.rows;
        rows.blocks.extend(others);
        rows.blocks.sort_by_key(|row| row.start_ns);
        rows.fills.sort_by_key(|row| row.at_ns);
        rows.reads.sort_by_key(|row| row.at_ns);
        rows.faults.sort_by_key(|row| row.at_ns);
        rows.processes.sort_by_key(|row| row.start_ns);
        for (file, took) in [(23_u32, 31_000_000_u64), (22, 12_500_000), (23, 8_000_000)] {
            rows.syncs.push(SyncRow {
                at_ns: Nanos(900 * MB),
                pid: 4100,
                file: FileId(file),
                took_ns: Some(Nanos(took)),
            });
        }
        rows.opens.push(OpenRow { path: "/usr/lib/x86_64-linux-gnu/libc.so.6".into(), count: 14 });
        rows
    }
}
