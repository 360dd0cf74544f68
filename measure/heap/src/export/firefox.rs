//! A processed profile of the Firefox Profiler: a memory track for each process, and its sites as native allocations.
//!
//! A site is told in at most three samples: what is live at the end, and what was freed as an allocation and a
//! deallocation of the same address. So the profiler's views of all and of retained memory are right in their sums; the
//! times of single blocks are not told. All that is made comes before all that is freed: the profiler cuts columns at a
//! time by halving, so that one out of order hides others.

use super::{Export, command, described};
use fxprof_processed_profile::{
    CategoryHandle, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp, WeightType,
};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

pub fn write(export: &Export, out: &mut dyn Write) -> io::Result<()> {
    let recording = export.reader.recording();
    let created = UNIX_EPOCH + Duration::from_nanos(recording.created_unix_ns);
    let name = format!("thaw heap: {}", recording.command.join(" "));
    let mut profile = Profile::new(&name, created.into(), SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    let labels: Vec<_> =
        export.named.names.frames().iter().map(|frame| profile.intern_string(&described(frame))).collect();
    let mut address = 0;
    for (process, heap) in export.named.processes.iter().zip(&export.named.heaps) {
        let at = |ns: u64| Timestamp::from_nanos_since_reference(process.start.0.saturating_add(ns));
        let handle = profile.add_process(&command(process), process.pid, at(0));
        profile.set_process_end_time(handle, at(heap.last.0));
        let thread = profile.add_thread(handle, process.pid, at(0), true);
        profile.set_thread_name(thread, "heap");
        profile.set_thread_samples_weight_type(thread, WeightType::Bytes);
        let mut freed = Vec::new();
        for site in heap.sites.iter().filter(|site| site.figures.made.blocks > 0) {
            let frames = export.named.names.stack(heap, site.stack);
            let frames = frames.iter().rev().map(|frame| FrameInfo {
                frame: Frame::Label(labels[frame.0 as usize]),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            });
            let stack = profile.intern_stack_frames(thread, frames);
            let (made, live) = (signed(site.figures.made.bytes), signed(site.figures.end.bytes));
            address += 32;
            if live > 0 {
                profile.add_allocation_sample(thread, at(0), stack, address, live);
            }
            if made > live {
                profile.add_allocation_sample(thread, at(0), stack, address + 16, made - live);
                freed.push((stack, address + 16, live - made));
            }
        }
        for (stack, address, bytes) in freed {
            profile.add_allocation_sample(thread, at(heap.last.0), stack, address, bytes);
        }
        let counter = profile.add_counter(handle, "malloc", "Memory", "Bytes that the program requested and holds");
        let mut live = 0.0;
        let mut told = |ns: u64, bytes: u64, operations: u64| {
            let change = bytes as f64 - live;
            live = bytes as f64;
            profile.add_counter_sample(counter, at(ns), change, u32::try_from(operations).unwrap_or(u32::MAX));
        };
        // The timeline has what was live when each step ended; the peak lies within one.
        let (mut allocations, mut peak) = (0, Some(heap.peak_at.0));
        for (step, point) in heap.timeline.points.iter().enumerate() {
            let ended = heap.timeline.end_of(step).0.min(heap.last.0);
            if let Some(peak_at) = peak.take_if(|at| *at <= ended) {
                told(peak_at, heap.peak.bytes, 0);
            }
            told(ended, point.live.bytes, point.allocations.saturating_sub(allocations));
            allocations = point.allocations;
        }
    }
    serde_json::to_writer(out, &profile).map_err(io::Error::from)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
