//! Records of a made-up kernel whose fields lie in their own order, so that nothing depends on ours.

use super::*;
use crate::engine::points::Source;
use proptest::prelude::*;

/// Tracepoints as `name: field:size field:size ...`; fields follow the 8 common bytes.
const KERNEL: [(Role, &str, &str); 14] = [
    (Role::Fill, "fill", "index:8 order:1 s_dev:4 i_ino:8"),
    (Role::Read, "read", "last_index:8 index:8 i_ino:8 s_dev:4"),
    (Role::Fault, "fault", "s_dev:4 i_ino:8 index:8"),
    (Role::Around, "around", "i_ino:8 s_dev:4 index:8 last_index:8"),
    (Role::Start, "start", "sector:8 dev:4 comm:16"),
    (Role::Issue, "issue", "rwbs:10 dev:4 nr_sector:4 sector:8 comm:16"),
    (Role::Complete, "complete", "nr_sector:4 sector:8 dev:4"),
    (Role::SyncBegin, "sync_begin", "ino:8 dev:4"),
    (Role::SyncEnd, "sync_end", "dev:4"),
    (Role::Task, "task", "comm:16 pid:4 clone_flags:8"),
    (Role::Exec, "exec", "filename:16 old_pid:4"),
    (Role::Exit, "exit", "pid:4"),
    (Role::Name, "name", "pid:4 newcomm:16"),
    (Role::Wake, "waking", "comm:16 common_flags:1 pid:4"),
];

/// Kernel number of the disk 8:0, and of the file system's device.
const DISK: u32 = 8 << 20;
/// The attached process.
const ROOT: u32 = 100;

/// The `format` file of a tracepoint.
fn format(id: usize, name: &str, fields: &str) -> Format {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    text += "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n";
    let mut offset = 8;
    for field in fields.split(' ') {
        let (field, size) = field.split_once(':').unwrap();
        text += &format!("\tfield:char {field}[{size}];\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        offset += size.parse::<usize>().unwrap();
    }
    Format::parse("made-up", &text).unwrap()
}

/// The tracepoints of the made-up kernel; `without` leaves some out.
fn points(without: &[Role]) -> Points {
    let known = KERNEL.iter().enumerate().filter(|(_, (role, ..))| !without.contains(role));
    let sources =
        known.map(|(index, (role, name, fields))| Source { role: *role, format: format(index + 1, name, fields) });
    Points { sources: sources.collect(), cannot: Vec::new() }
}

/// A decoder and what is fed to it.
struct Feed {
    points: Points,
    decoder: Decoder,
    clock: u64,
}

impl Feed {
    fn new(without: &[Role]) -> Self {
        let points = points(without);
        let decoder = Decoder::new(&points, ROOT, 1000).unwrap();
        Self { points, decoder, clock: 1000 }
    }

    /// A hit of a tracepoint by a thread (process 0: unknown), with these field values.
    fn hit(&mut self, role: Role, (pid, tid): (u32, u32), fields: &[(&str, Value<'_>)]) -> &mut Self {
        self.clock += 10;
        let format = &self.points.sources.iter().find(|source| source.role == role).unwrap().format;
        let mut raw = vec![0; 128];
        for (name, value) in fields {
            let field = format.field(name).unwrap();
            let into = &mut raw[field.offset..field.offset + field.size];
            match value {
                Value::Number(number) => into.copy_from_slice(&number.to_ne_bytes()[..field.size]),
                Value::Text(text) => into[..text.len()].copy_from_slice(text.as_bytes()),
            }
        }
        let stamp = Stamp { time_ns: self.clock, pid, tid, cpu: 0 };
        let point = format.id as u16;
        self.decoder.tracepoint(stamp, point, &raw);
        self
    }

    fn start(&mut self, who: (u32, u32), comm: &str, sector: u64) -> &mut Self {
        self.hit(Role::Start, who, &[("dev", N(DISK.into())), ("sector", N(sector)), ("comm", Value::Text(comm))])
    }

    fn issue(&mut self, who: (u32, u32), flags: &str, sector: u64, sectors: u64) -> &mut Self {
        let place = [("dev", N(DISK.into())), ("sector", N(sector)), ("nr_sector", N(sectors))];
        let fields = [&place[..], &[("rwbs", Value::Text(flags)), ("comm", Value::Text("issuer"))]].concat();
        self.hit(Role::Issue, who, &fields)
    }

    fn complete(&mut self, sector: u64, sectors: u64) -> &mut Self {
        let fields = [("dev", N(DISK.into())), ("sector", N(sector)), ("nr_sector", N(sectors))];
        self.hit(Role::Complete, (0, 0), &fields)
    }

    fn finish(self) -> RawTrace {
        self.decoder.finish()
    }
}

/// A field's value.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}
use Value::Number as N;

/// The attached process.
const US: (u32, u32) = (ROOT, ROOT);
/// Somebody else.
const OTHER: (u32, u32) = (7, 7);

#[test]
fn pages_are_read_by_field_name() {
    let mut feed = Feed::new(&[]);
    let inode = [("s_dev", N(DISK.into())), ("i_ino", N(12))];
    let with = |fields: &[(&'static str, Value<'static>)]| [&inode[..], fields].concat();
    feed.hit(Role::Fault, US, &with(&[("index", N(5))]))
        .hit(Role::Fill, US, &with(&[("index", N(4)), ("order", N(2))]))
        .hit(Role::Around, US, &with(&[("index", N(0)), ("last_index", N(15))]))
        .hit(Role::Read, US, &with(&[("index", N(7)), ("last_index", N(8))]))
        .hit(Role::Fill, OTHER, &with(&[("index", N(9))]));
    let trace = feed.finish();
    let inode = Inode { dev: libc::makedev(8, 0), ino: 12 };
    assert_eq!(trace.fills.len(), 1, "others' fills do not count");
    assert_eq!((trace.fills[0].inode, trace.fills[0].span), (inode, Span { first: 4, pages: 4 }));
    assert_eq!(trace.fills[0].at, Nanos(20));
    assert_eq!(trace.reads[0].span, Span { first: 7, pages: 2 });
    let faults: Vec<_> = trace.faults.iter().map(|fault| (fault.span.first, fault.span.pages, fault.around)).collect();
    assert_eq!(faults, [(5, 1, false), (0, 16, true)]);
    assert_eq!(trace.info.records, 5);
}

#[test]
fn a_kernel_with_single_pages_only_has_no_order() {
    let mut points = points(&[]);
    points.sources[0].format.fields.remove("order");
    let mut decoder = Decoder::new(&points, ROOT, 0).unwrap();
    let stamp = Stamp { time_ns: 1, pid: ROOT, tid: ROOT, cpu: 0 };
    decoder.tracepoint(stamp, points.sources[0].format.id as u16, &[0; 64]);
    assert_eq!(decoder.finish().fills[0].span, Span { first: 0, pages: 1 });
}

#[test]
fn what_came_before_the_start_is_dropped() {
    let mut feed = Feed::new(&[]);
    feed.clock = 900;
    feed.hit(Role::Fill, US, &[]).start(US, "us", 0).issue(US, "R", 0, 8);
    let trace = feed.finish();
    assert_eq!((trace.blocks, trace.fills), (vec![], vec![]));
}

#[test]
fn a_request_belongs_to_who_made_it_not_to_who_issued_it() {
    let mut feed = Feed::new(&[]);
    feed.start(US, "us", 800).start(OTHER, "other", 80).issue(US, "RA", 80, 8).issue(OTHER, "RA", 800, 8);
    let trace = feed.finish();
    let who: Vec<_> = trace.blocks.iter().map(|block| (block.disk.0 / 512, block.pid, block.comm.as_str())).collect();
    assert_eq!(who, [(80, None, "other"), (800, Some(ROOT), "us")]);
}

#[test]
fn an_old_kernel_says_only_who_issued() {
    let mut feed = Feed::new(&[Role::Start]);
    feed.issue(US, "R", 80, 8);
    assert_eq!(feed.finish().blocks[0].pid, Some(ROOT));
}

#[test]
fn merged_requests_are_one() {
    let mut feed = Feed::new(&[]);
    feed.start(US, "us", 80).start(OTHER, "other", 88).issue(OTHER, "R", 80, 16).complete(80, 16);
    let trace = feed.finish();
    assert_eq!(trace.blocks.len(), 1);
    assert_eq!((trace.blocks[0].pid, trace.blocks[0].len), (Some(ROOT), Bytes(16 * 512)));
    assert_eq!(trace.blocks[0].done, Some(Nanos(40)));
}

#[test]
fn a_request_may_be_issued_twice_and_done_in_parts() {
    let mut feed = Feed::new(&[]);
    feed.start(US, "us", 80).issue(US, "R", 80, 16).issue(OTHER, "R", 80, 24);
    feed.complete(80, 8).complete(200, 8).complete(88, 16);
    let trace = feed.finish();
    assert_eq!(trace.blocks.len(), 1);
    let block = &trace.blocks[0];
    assert_eq!((block.start, block.done, block.len), (Nanos(20), Some(Nanos(60)), Bytes(24 * 512)));
}

#[test]
fn a_request_is_done_when_its_last_sector_came_and_no_other_ones() {
    let done = |parts: &[(u64, u64)]| {
        let mut feed = Feed::new(&[]);
        feed.start(US, "us", 96).issue(US, "R", 96, 8);
        for (sector, sectors) in parts {
            feed.complete(*sector, *sectors);
        }
        feed.finish().blocks[0].done.is_some()
    };
    assert!(done(&[(96, 8)]) && done(&[(96, 7), (103, 1)]) && done(&[(103, 1), (96, 7)]));
    assert!(!done(&[(96, 7)]), "a sector is still to come");
    assert!(!done(&[(104, 8)]), "what begins at its end is another request");
    assert!(!done(&[(88, 8)]), "what ends at its begin, too");
    assert!(!done(&[(96, 7), (104, 8)]));
    // The same place of another disk.
    let mut feed = Feed::new(&[]);
    feed.start(US, "us", 96).issue(US, "R", 96, 8);
    let other = [("dev", N(9 << 20)), ("sector", N(96)), ("nr_sector", N(8))];
    feed.hit(Role::Complete, (0, 0), &other);
    assert_eq!(feed.finish().blocks[0].done, None);
}

#[test]
fn flushes_and_discards_move_no_data() {
    let mut feed = Feed::new(&[]);
    feed.issue(US, "FF", 0, 0).issue(US, "D", 80, 800).issue(US, "N", 0, 0).issue(US, "FWFS", 8, 8);
    let flags: Vec<_> = feed.finish().blocks.into_iter().map(|block| (block.is_read(), block.flags)).collect();
    assert_eq!(flags, [(false, "FWFS".to_owned())]);
}

#[test]
fn processes_and_threads_from_tracepoints() {
    let mut feed = Feed::new(&[]);
    let text = Value::Text;
    // The root makes a thread, the thread makes a process, which executes; a trace buffer knows threads only.
    feed.hit(Role::Task, (0, ROOT), &[("pid", N(101)), ("clone_flags", N(CLONE_THREAD)), ("comm", text("worker"))])
        .hit(Role::Task, (0, 101), &[("pid", N(200)), ("clone_flags", N(0)), ("comm", text("worker"))])
        .hit(Role::Exec, (0, 200), &[("filename", text("/bin/cat")), ("old_pid", N(200))])
        .hit(Role::Name, (0, 200), &[("pid", N(200)), ("newcomm", text("cat"))])
        .hit(Role::Fill, (0, 200), &[])
        .hit(Role::Fill, (0, 101), &[])
        .hit(Role::Fill, (0, 555), &[])
        .hit(Role::Exit, (0, 200), &[])
        .hit(Role::Exit, (0, 101), &[]);
    let trace = feed.finish();
    assert_eq!(trace.fills.iter().map(|fill| (fill.pid, fill.tid)).collect::<Vec<_>>(), [(200, 200), (ROOT, 101)]);
    let cat = &trace.processes[1];
    assert_eq!((cat.pid, cat.parent, cat.comm.as_str()), (200, ROOT, "cat"));
    assert_eq!((cat.exe.as_deref(), cat.start, cat.end), (Some("/bin/cat".as_ref()), Nanos(20), Some(Nanos(80))));
    assert_eq!(trace.processes.len(), 2);
    assert_eq!(trace.processes[0].end, None, "its first thread still runs");
}

#[test]
fn threads_that_io_uring_makes_are_noticed() {
    let makes = |flags| {
        let mut feed = Feed::new(&[]);
        feed.hit(Role::Task, (0, ROOT), &[("pid", N(101)), ("clone_flags", N(flags)), ("comm", Value::Text("app"))]);
        feed
    };
    assert!(!makes(CLONE_THREAD).decoder.workers && !makes(CLONE_IO).decoder.workers);
    assert!(makes(CLONE_THREAD | CLONE_IO).decoder.workers);
    // perf says no flags, but names.
    let mut feed = makes(CLONE_THREAD);
    feed.decoder.name(ROOT, 101, b"iou-wrk-100");
    assert!(feed.decoder.workers);
}

#[test]
fn a_thread_is_woken_by_a_thread_or_by_an_interrupt_that_came_to_one() {
    let mut feed = Feed::new(&[]);
    let woken = |tid: u32, flags: u64| [("pid", N(tid.into())), ("common_flags", N(flags))];
    // Interrupts off and a wish to be rescheduled are no interrupt; the processor's idle thread wakes nobody itself.
    feed.hit(Role::Wake, OTHER, &woken(ROOT, 0x05))
        .hit(Role::Wake, US, &woken(ROOT, 0x09))
        .hit(Role::Wake, US, &woken(ROOT, 0x11))
        .hit(Role::Wake, (0, 0), &woken(ROOT, 0))
        .hit(Role::Wake, US, &woken(OTHER.1, 0));
    let wakes = feed.finish().wakes;
    assert_eq!(wakes.iter().map(|wake| wake.by).collect::<Vec<_>>(), [Some(7), None, None, None]);
    assert!(wakes.iter().all(|wake| (wake.pid, wake.tid) == US));
    assert_eq!(wakes[0].at, Nanos(10));
}

#[test]
fn a_thread_that_executes_becomes_its_process() {
    let mut feed = Feed::new(&[]);
    feed.hit(Role::Task, (0, ROOT), &[("pid", N(101)), ("clone_flags", N(CLONE_THREAD))])
        .hit(Role::Exit, (0, ROOT), &[])
        .hit(Role::Exec, (0, ROOT), &[("filename", Value::Text("/bin/cat")), ("old_pid", N(101))])
        .hit(Role::Fill, (0, ROOT), &[])
        .hit(Role::Exec, (0, 7), &[("filename", Value::Text("/bin/other")), ("old_pid", N(7))])
        .hit(Role::Exit, (0, ROOT), &[]);
    let trace = feed.finish();
    assert_eq!(trace.fills.len(), 1);
    assert_eq!(trace.processes[0].exe.as_deref(), Some("/bin/cat".as_ref()));
    assert_eq!(trace.processes[0].end, Some(Nanos(60)));
}

#[test]
fn a_sync_is_paired_by_its_thread() {
    let mut feed = Feed::new(&[]);
    feed.hit(Role::SyncBegin, US, &[("dev", N(DISK.into())), ("ino", N(12))])
        .hit(Role::SyncBegin, (ROOT, 101), &[("dev", N(DISK.into())), ("ino", N(13))])
        .hit(Role::SyncEnd, US, &[])
        .hit(Role::SyncBegin, OTHER, &[]);
    let syncs: Vec<_> =
        feed.finish().syncs.iter().map(|sync| (sync.inode.map(|inode| inode.ino), sync.at, sync.done)).collect();
    assert_eq!(syncs, [(Some(12), Nanos(10), Some(Nanos(30))), (Some(13), Nanos(20), None)]);
}

proptest! {
    #[test]
    fn no_record_makes_it_panic(records in prop::collection::vec(
        (0_u16..15, 98_u32..103, prop::collection::vec(prop::sample::select(b"RWF\0\x01\xff".to_vec()), 0..80)), 0..60))
    {
        let mut feed = Feed::new(&[]);
        for (point, tid, raw) in records {
            feed.clock += 1;
            feed.decoder.tracepoint(Stamp { time_ns: feed.clock, pid: tid / 2 * 2, tid, cpu: 0 }, point, &raw);
        }
        feed.finish();
    }
}
