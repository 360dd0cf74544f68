//! io: what another disk, or another order, would make of a recorded start.

use crate::made;
use crate::scratch::Scratch;
use model::{FileRow, Nanos, TraceRows};
use std::io::Write;

/// With a recording whose start reads 40 MB in order, in 40 requests 20 ms apart, done after 10 ms each.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    made::recording(&scratch.path("app.thaw"), &[900, 910], &[300, 310]);
    scratch
}

#[test]
fn every_known_disk_is_compared_and_any_can_be_chosen() {
    let scratch = scratch();
    let said = scratch.thaw(["io", "model", "app.thaw"]).exits(0);
    let said = said.says("The traced cold start of app (run 1)").says("40 requests for 41.9 MB in the 910.0 ms");
    for disk in ["desktop2010", "laptop2010", "microsd", "nvme", "sata-ssd"] {
        assert!(said.out().lines().any(|line| line.starts_with(disk)), "{}", said.framed());
    }
    let json = scratch.thaw(["io", "model", "app.thaw", "--disk", "laptop2010", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.io-model/1");
    let start = &json["starts"][0];
    assert_eq!((&start["run"], &start["variant"], &start["state"]), (&1.into(), &"app".into(), &"cold".into()));
    let disks = start["model"]["disks"].as_array().unwrap();
    assert_eq!(disks.len(), 1);
    // The same value as in the report.
    let report = scratch.thaw(["report", "app.thaw", "--json"]).exits(0).json();
    assert_eq!(disks[0], report["traces"][0]["disks"]["disks"][0]);
    // 41.9 MB at 30 MB/s, and what is left of the 910 ms without 40 times 10 ms.
    let length = disks[0]["sorted"]["start_ns"].as_u64().unwrap();
    assert!((1_908_000_000..1_930_000_000).contains(&length), "{length}");
}

#[test]
fn the_list_of_disks_is_a_file_of_disks() {
    let scratch = scratch();
    let list = scratch.thaw(["io", "model", "--list"]).exits(0).says("FOSDEM 2011").out();
    // A disk that takes twice as long for everything that is transferred.
    let slower =
        list.replace("[laptop2010]", "[slower]").replace("rate_mb_s = { value = 30.0", "rate_mb_s = { value = 15.0");
    scratch.write("mine.toml", &slower);
    let words =
        ["io", "model", "app.thaw", "--disks-file", "mine.toml", "--disk", "slower", "--disk", "laptop2010", "--json"];
    let json = scratch.thaw(words).exits(0).json();
    let sorted = |disk: usize| json["starts"][0]["model"]["disks"][disk]["sorted_ns"].as_f64().unwrap();
    let ratio = sorted(0) / sorted(1);
    assert!((1.9..2.01).contains(&ratio), "{ratio}");
    let json = scratch.thaw(["io", "model", "--list", "--disk", "nvme", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["disks"][0]["model"]["name"]), (&"thaw.disks/1".into(), &"nvme".into()));
    assert!(json["disks"][0]["figures"][0]["source"].as_str().unwrap().len() > 10);
    scratch.write("bad.toml", "[x]\ntitle = 3");
    scratch.thaw(["io", "model", "app.thaw", "--disks-file", "bad.toml"]).exits(5).complains("bad.toml");
    scratch.thaw(["io", "model", "app.thaw", "--disk", "floppy"]).exits(2).complains("floppy").hints("laptop2010");
}

#[test]
fn a_recording_without_requests_says_what_is_missing() {
    let scratch = Scratch::new();
    made::with_trace(&scratch.path("none.thaw"), &[900, 910], &[300, 310], None);
    for verb in ["model", "replay"] {
        let said = scratch.thaw(["io", verb, "none.thaw"]).exits(5);
        said.complains("there is no traced start in the recording 'none.thaw'").hints("thaw doctor");
    }
    made::with_trace(&scratch.path("empty.thaw"), &[900, 910], &[300, 310], Some(&TraceRows::default()));
    scratch.thaw(["io", "model", "empty.thaw"]).exits(0).says("It made no request to a disk");
    let json = scratch.thaw(["io", "model", "empty.thaw", "--json"]).exits(0).json();
    assert!(json["starts"][0]["model"].is_null());
    scratch.thaw(["io", "replay", "empty.thaw"]).exits(5).complains("made no request");
    scratch.thaw(["io", "model", "empty.thaw", "--run", "7"]).exits(2).complains("7").hints("the traced runs are 1");
    scratch.thaw(["io", "model"]).exits(2).complains("RECORDING");
}

#[test]
fn the_disk_this_is_measured_where_it_may_be() {
    let scratch = scratch();
    let said = scratch.thaw(["io", "model", "app.thaw", "--disk", "this"]).exits(3);
    said.complains("there is no block device").hints("--this");
    let mut file = std::fs::File::create(scratch.path("large")).unwrap();
    (0..65).for_each(|_| file.write_all(&vec![7; 1 << 20]).unwrap());
    file.sync_all().unwrap();
    let said = scratch.thaw(["io", "model", "app.thaw", "--this", "large", "--disk", "nvme", "--json"]);
    if said.err().contains("O_DIRECT") || said.err().contains("io_uring") {
        return testing::skip("no direct reading here");
    }
    let json = said.exits(0).json();
    let names: Vec<&str> = json["starts"][0]["model"]["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|disk| disk["disk"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["nvme", "this"]);
    assert!(json["this"]["error"].as_f64().unwrap() >= 0.0);
    scratch.write("small", "x");
    scratch.thaw(["io", "model", "app.thaw", "--this", "small"]).exits(2).complains("64 MiB");
}

/// A trace whose files are really there, on a device that is not.
fn of_files(scratch: &Scratch) -> TraceRows {
    let mut rows = made::trace();
    let library = scratch.write("libbig.so", vec![1; 40 << 20]);
    let size = model::Bytes(40 << 20);
    rows.files[0] = FileRow { path: library, size, ..rows.files[0].clone() };
    rows.blocks.iter_mut().for_each(|block| block.dev = 0xfff_0003);
    rows
}

#[test]
fn the_same_ranges_are_read_again_through_their_files() {
    let scratch = Scratch::new();
    let rows = of_files(&scratch);
    made::with_trace(&scratch.path("here.thaw"), &[900, 910], &[300, 310], Some(&rows));
    let said = scratch.thaw(["io", "replay", "here.thaw", "--runs", "2", "--depth", "4", "--json"]);
    if said.err().contains("O_DIRECT") || said.err().contains("io_uring") {
        return testing::skip("no direct reading here");
    }
    let json = said.exits(0).json();
    assert_eq!((&json["schema"], &json["timing"]["through"]), (&"thaw.io-replay/1".into(), &"files".into()));
    for order in ["as_came", "sorted"] {
        let passes = &json["timing"][order];
        assert_eq!((&passes["bytes"], passes["samples_s"].as_array().unwrap().len()), (&(40_u64 << 20).into(), 2));
        assert!(passes["median_s"]["value"].as_f64().unwrap() > 0.0);
    }
    assert!(json["warnings"][0]["text"].as_str().unwrap().contains("the device was not read"));
    let text = scratch.thaw(["io", "replay", "here.thaw", "--runs", "1", "--through", "files"]).exits(0);
    text.says("as it came").says("sorted").says("through the files").says_not("was not read");
    scratch.thaw(["io", "replay", "here.thaw", "--through", "device"]).exits(3).complains("no block device");
    std::fs::remove_file(scratch.path("libbig.so")).unwrap();
    scratch.thaw(["io", "replay", "here.thaw"]).exits(3).complains("nothing of the start can be read again");
}

#[test]
fn fio_gets_a_log_of_the_requests() {
    let scratch = scratch();
    let said = scratch.thaw(["io", "replay", "app.thaw", "--fio", "app.iolog"]).exits(0);
    said.says("fio --name=start --read_iolog=app.iolog").says("/dev/block/0:1").says("--replay_redirect");
    let log = std::fs::read_to_string(scratch.path("app.iolog")).unwrap();
    assert!(log.starts_with("fio version 3 iolog\n"), "{log}");
    let parsed = disk::fio::parse(&log).unwrap();
    assert_eq!(parsed[0].1.len(), 40);
    assert_eq!(parsed[0].1[1].issue, Nanos(20_000_000));
    scratch.thaw(["io", "replay", "app.thaw", "--fio", "old.iolog", "--fio-version", "2"]).exits(0);
    assert!(std::fs::read_to_string(scratch.path("old.iolog")).unwrap().contains(" wait 20 0\n"));
    scratch.thaw(["io", "replay", "app.thaw", "--fio", "missing/x"]).exits(2).complains("missing/x");
    scratch.thaw(["io", "replay", "app.thaw", "--fio-version", "2"]).exits(2).complains("--fio");
}
