//! OpenMetrics text, for Prometheus and what reads the same: what each process holds and has made, and the same of the
//! places that hold most.
//!
//! `counter`s end in `_total` and never go back while the process runs; a place that has left the list has no sample
//! any more. The format: <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>.

use super::command;
use crate::modes::{Figures, Heap};
use crate::named::{Cut, Named, Wrappers};
use heapfile::event::Process;
use model::shown;
use std::collections::HashMap;
use std::io::{self, Write};

/// Places of a process that have samples of their own: each is a time series in who reads them.
const PLACES: usize = 20;
/// Frames of a place.
const CUT: Cut = Cut { frames: 4, wrappers: Wrappers::Skipped };

/// A family of samples: name, type, unit, help.
type Family = (&'static str, &'static str, &'static str, &'static str);

const LIVE_BYTES: Family = ("thaw_heap_live_bytes", "gauge", "bytes", "Bytes of live blocks, as they were requested.");
const LIVE_BLOCKS: Family = ("thaw_heap_live_blocks", "gauge", "", "Live blocks.");
const PEAK_BYTES: Family = ("thaw_heap_peak_bytes", "gauge", "bytes", "Most bytes of live blocks at a time so far.");
const MADE_BYTES: Family = ("thaw_heap_allocated_bytes", "counter", "bytes", "Bytes of all blocks that were made.");
const MADE: Family = ("thaw_heap_allocations", "counter", "", "Blocks that were made.");
const FREED: Family = ("thaw_heap_frees", "counter", "", "Blocks that were given back.");
const LOST: Family = ("thaw_heap_lost_events", "counter", "", "Events that are not in the recording.");
const SAMPLED: Family = (
    "thaw_heap_sample_bytes",
    "gauge",
    "bytes",
    "Mean bytes between recorded blocks: sums are estimates. 0: all were.",
);
const PLACE_LIVE: Family =
    ("thaw_heap_place_live_bytes", "gauge", "bytes", "Bytes of live blocks of the places that hold most.");
const PLACE_MADE: Family =
    ("thaw_heap_place_allocated_bytes", "counter", "bytes", "Bytes of all blocks made of the places that hold most.");

/// All samples, and the line that says that there are no more.
pub fn write(named: &Named, out: &mut dyn Write) -> io::Result<()> {
    let each: Vec<(&Process, &Heap, String)> = named
        .processes
        .iter()
        .zip(&named.heaps)
        .map(|(process, heap)| {
            let exe = shown(&process.exe);
            let labels = [("pid", process.pid.to_string()), ("program", exe), ("command", command(process))]
                .map(label)
                .join(",");
            (process, heap, labels)
        })
        .collect();
    let mut family = |family: Family, value: fn(&Process, &Heap) -> u64| {
        begin(out, family)?;
        each.iter().try_for_each(|(process, heap, labels)| sample(out, family, labels, value(process, heap)))
    };
    family(LIVE_BYTES, |_, heap| heap.totals.live.0)?;
    family(LIVE_BLOCKS, |_, heap| heap.totals.live_blocks)?;
    family(PEAK_BYTES, |_, heap| heap.totals.peak.0)?;
    family(MADE_BYTES, |_, heap| heap.totals.allocated.0)?;
    family(MADE, |_, heap| heap.totals.allocations)?;
    family(FREED, |_, heap| heap.totals.frees)?;
    family(LOST, |process, _| process.lost)?;
    family(SAMPLED, |process, _| process.sample_bytes)?;
    let places: Vec<Vec<(String, Figures)>> = named.heaps.iter().map(|heap| places(named, heap)).collect();
    for (of, value) in [(PLACE_LIVE, (|it| it.end.bytes) as fn(&Figures) -> u64), (PLACE_MADE, |it| it.made.bytes)] {
        begin(out, of)?;
        for ((_, _, labels), places) in each.iter().zip(&places) {
            for (place, figures) in places {
                sample(out, of, &format!("{labels},{}", label(("place", place.clone()))), value(figures))?;
            }
        }
    }
    writeln!(out, "# EOF")
}

/// The places of a process that hold most, by their names: those of one name are one.
fn places(named: &Named, heap: &Heap) -> Vec<(String, Figures)> {
    let mut places: HashMap<String, Figures> = HashMap::new();
    for site in &heap.sites {
        let stack = named.names.stack(heap, site.stack);
        let frames = CUT.of(&named.names, &stack).iter();
        let names: Vec<String> = frames.map(|frame| named.names.frame(*frame).label()).collect();
        let name = if names.is_empty() { "(no stack)".to_owned() } else { names.join(" < ") };
        places.entry(name).or_default().add(&site.figures);
    }
    let mut places: Vec<_> = places.into_iter().filter(|(_, figures)| figures.end.blocks > 0).collect();
    places.sort_unstable_by(|(name, a), (other, b)| b.end.bytes.cmp(&a.end.bytes).then_with(|| name.cmp(other)));
    places.truncate(PLACES);
    places
}

fn begin(out: &mut dyn Write, (name, kind, unit, help): Family) -> io::Result<()> {
    writeln!(out, "# TYPE {name} {kind}")?;
    if !unit.is_empty() {
        writeln!(out, "# UNIT {name} {unit}")?;
    }
    writeln!(out, "# HELP {name} {help}")
}

fn sample(out: &mut dyn Write, (name, kind, ..): Family, labels: &str, value: u64) -> io::Result<()> {
    let total = if kind == "counter" { "_total" } else { "" };
    writeln!(out, "{name}{total}{{{labels}}} {value}")
}

/// `name="value"`, with what the format escapes.
fn label((name, value): (&str, String)) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_label_is_escaped() {
        assert_eq!(label(("place", "a\"b\\c\nd".into())), r#"place="a\"b\\c\nd""#);
    }

    #[test]
    fn a_counter_has_its_suffix_in_samples_only() {
        let mut out = Vec::new();
        begin(&mut out, MADE_BYTES).unwrap();
        sample(&mut out, MADE_BYTES, "pid=\"1\"", 7).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("# TYPE thaw_heap_allocated_bytes counter\n# UNIT thaw_heap_allocated_bytes bytes\n"));
        assert!(text.ends_with("\nthaw_heap_allocated_bytes_total{pid=\"1\"} 7\n"));
    }
}
