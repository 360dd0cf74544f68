//! What a report of a large recording needs: bytes are counted by the allocator, not time.

use model::{
    BlockRow, Bytes, CacheState, Cause, DiskOffset, FaultRow, FileId, FileKind, FileOffset, FileRow, FillRow, Nanos,
    Owner, PAGE, ReadRow, RunId, RunKind, RunRow, Served, TraceRows,
};
use recording::{Header, Replace, Variant, Writer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that are in use, and the most that ever were.
struct Counting;
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is the system's allocator; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's layout goes on as it is.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: so do the caller's place and layout.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The most that was in use at once while `work` ran, beyond what was in use before.
fn most(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

fn run(variant: u32) -> RunRow {
    RunRow {
        id: RunId(0),
        variant,
        state: CacheState::Cold,
        kind: RunKind::Trace,
        block: 0,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns: 0,
        wall_ns: Some(Nanos(60_000_000_000)),
        exit_ns: None,
        user_ns: Nanos(1),
        system_ns: Nanos(1),
        max_rss: Bytes(1),
        minor_faults: 0,
        major_faults: 0,
        read_bytes: None,
        read_requests: None,
        written_bytes: None,
        instructions: None,
        cycles: None,
        exit_code: Some(0),
        exit_signal: None,
        others_cpu_share: None,
        others_io_pressure: None,
        own_resident_share: None,
        system_resident_share: None,
    }
}

/// So many requests, each of a page that came in, and as many reads and faults.
fn trace(requests: u64) -> TraceRows {
    let mut rows = TraceRows::default();
    for number in 0..20 {
        rows.files.push(FileRow {
            path: format!("/usr/lib/lib{number}.so").into(),
            kind: FileKind::Regular,
            owner: Owner::App,
            dev: 0xfe00,
            ino: number,
            size: Bytes(requests * PAGE),
            extents: Some(1),
            build_id: None,
        });
    }
    for number in 0..requests {
        let (file, offset, len) = (FileId((number % 20) as u32), FileOffset(number * PAGE), Bytes(PAGE));
        let (at_ns, pid, tid) = (Nanos(number * 50_000), 7000, 7000);
        rows.fills.push(FillRow { at_ns, pid, tid, file, offset, len, cause: Cause::Read });
        rows.reads.push(ReadRow { at_ns, pid, tid, file, offset, len });
        rows.faults.push(FaultRow { at_ns, pid, tid, file, offset, len, missed: true });
        rows.blocks.push(BlockRow {
            start_ns: Nanos(at_ns.0 + 10),
            done_ns: Some(Nanos(at_ns.0 + 40_000)),
            pid: Some(7000),
            dev: 0xfe00,
            disk: DiskOffset(number * PAGE * 7 % (1 << 36)),
            len,
            write: false,
            served: Served::File(file, offset),
            flags: "R".into(),
        });
    }
    rows
}

/// A recording of so many programs, each with a traced start.
fn recorded(path: &Path, programs: u32, requests: u64) {
    let header = Header {
        thaw_version: "0".into(),
        created_unix_ns: 0,
        command_line: vec![],
        cwd: "/".into(),
        environment: vec![],
        plan: serde_json::Value::Null,
        seed: 0,
    };
    let mut writer = Writer::create(path, &header, Replace::Never).unwrap();
    for index in 0..programs {
        writer.add_variant(&Variant { index, name: format!("program{index}"), argv: vec!["program".into()] }).unwrap();
        let id = writer.add_run(&run(index), &[], &[]).unwrap();
        writer.add_trace(id, &trace(requests)).unwrap();
    }
    writer.finish().unwrap();
}

/// One test: the allocator counts for the whole process.
#[test]
fn a_report_keeps_no_trace_and_a_page_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    recorded(&path("less"), 1, 20_000);
    recorded(&path("more"), 1, 60_000);
    recorded(&path("three"), 3, 60_000);
    let report = |name: &str| most(|| drop(work::recorded::report(&path(name)).unwrap()));
    let page = |name: &str| most(|| drop(work::page::of_recording(&path(name), None, None).unwrap()));
    // What is known once is read and forgotten.
    report("less");
    let by_row = |less: usize, more: usize| more.saturating_sub(less) / (4 * 40_000);
    let (less, more, three) = (report("less"), report("more"), report("three"));
    eprintln!("a report: {less} and {more} bytes, {} by row; of three programs {three}", by_row(less, more));
    assert!(by_row(less, more) <= 48, "a row is 40 to 96 bytes, and none is kept");
    assert!(three < more + more / 4, "one trace after the other");
    let (less, more, three) = (page("less"), page("more"), page("three"));
    eprintln!("a page: {less} and {more} bytes, {} by row; of three programs {three}", by_row(less, more));
    assert!(by_row(less, more) <= 64, "beside the sums there are columns, and reads and faults until they are sorted");
    assert!(three < more + more / 2, "of the others there are packed columns alone");
}
