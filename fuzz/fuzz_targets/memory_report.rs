//! Any bytes as a memory report, a watch, a process's smaps or a scenario: an error or what it says, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::file::{self, Packed};
use memory::tree::{self, Detail, Meaning, Options};
use memory::watch;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(watched) = watch::parse(bytes, "fuzz") {
        let checkpoints = watched.checkpoints();
        let _ = watch::pairs(&checkpoints, &checkpoints);
    }
    let _ = watch::rollup(bytes);
    assert!(memory::maps::reports(bytes, "fuzz").iter().all(|report| report.path.starts_with("pss/")));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = memory::scenario::Scenario::parse(text, std::path::Path::new("fuzz"));
    }
    let Ok(report) = file::parse(bytes, "fuzz") else { return };
    for (detail, meaning) in [(Detail::Significant, Meaning::State), (Detail::All, Meaning::Difference)] {
        let _ = tree::build(&report, &Options { detail, meaning, process: &|_| true, path: &|_| true });
    }
    assert!(memory::diff::diff(&report, &report).reports.is_empty());
    let written = file::write(&report, Packed::Gzip).expect("what was read can be written");
    assert_eq!(file::parse(&written, "fuzz").expect("what was written can be read").reports, report.reports);
});
