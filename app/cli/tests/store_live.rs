//! store: what `bench` measures and leaves behind, and how `serve` becomes the program beside thaw. What that does is
//! tested in its own crate.

use crate::scratch::{Said, Scratch};
use std::path::Path;

#[test]
fn the_server_beside_thaw_gets_the_directory_and_the_port() {
    let scratch = Scratch::new();
    let thaw = scratch.path("thaw");
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    let said = |words: &[&str]| {
        let mut command = scratch.command_of(&thaw);
        command.args(["store", "serve"]).args(words);
        Said::of(command)
    };
    said(&[]).exits(3).complains("is not beside thaw").hints("install both programs");
    scratch.script("thaw-storage", "printf '[%s]' \"$@\"; exit 7");
    assert_eq!(said(&["a b", "--port", "80"]).exits(7).out(), "[--port][80][--][a b]");
    assert_eq!(said(&[]).exits(7).out(), "[--port][0][--]");
    said(&["--port", "70000"]).exits(2).complains("70000");
}

#[test]
fn the_collector_beside_thaw_gets_the_directory_and_the_options() {
    let scratch = Scratch::new();
    let thaw = scratch.path("thaw");
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    let said = |words: &[&str]| {
        let mut command = scratch.command_of(&thaw);
        command.args(["fleet", "collect"]).args(words);
        Said::of(command)
    };
    said(&["d"]).exits(3).complains("is not beside thaw").hints("install both programs");
    scratch.script("thaw-fleet", "printf '[%s]' \"$@\"; exit 7");
    let given = said(&["a b", "--", "--seal-bytes", "9"]).exits(7).out();
    assert_eq!(given, "[--listen][127.0.0.1:0][--seal-bytes][9][--][a b]");
    let words = ["d", "--listen", "0.0.0.0:1", "--tls-cert", "c", "--tls-key", "k", "--token-file", "t"];
    let given = said(&words).exits(7).out();
    assert_eq!(given, "[--listen][0.0.0.0:1][--tls-cert][c][--tls-key][k][--token-file][t][--][d]");
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn what_calls_cost_is_measured_and_nothing_stays() {
    let scratch = Scratch::new();
    let folder = scratch.path("disk");
    std::fs::create_dir(&folder).unwrap();
    let json = scratch.thaw(["store", "bench", "disk", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.store-bench/1");
    let rows = json["rows"].as_array().unwrap();
    let calls: Vec<&str> = rows.iter().map(|row| row["call"].as_str().unwrap()).collect();
    assert_eq!(calls[..6], ["set", "longest_set", "get", "flush", "first_access_preloaded", "first_access_cached"]);
    assert_eq!(json["not_cold"].is_null(), calls.contains(&"first_access_cold"), "a figure or the reason");
    for row in rows {
        let [low, middle, high] = ["lowest_s", "median_s", "highest_s"].map(|name| row[name].as_f64().unwrap());
        assert!(0.0 < low && low <= middle && middle <= high, "{row}");
    }
    let of = |call: &str| rows.iter().find(|row| row["call"] == call).unwrap()["median_s"].as_f64().unwrap();
    assert!(of("longest_set") > of("set"));
    assert!(names(&folder).is_empty());
    let said = scratch.thaw(["store", "bench", "disk"]).exits(0);
    said.says("flush of one change").says("After a power cut there is").says("7 rounds");
    assert!(names(&folder).is_empty());
}

#[test]
fn a_file_system_in_memory_is_told_and_has_no_cold_access() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        return testing::skip("needs /dev/shm");
    }
    let folder = tempfile::tempdir_in(shared).unwrap();
    let path = folder.path().to_str().unwrap();
    let json = Scratch::new().thaw(["store", "bench", path, "--json"]).exits(0).json();
    assert_eq!((&json["filesystem"], &json["not_cold"]), (&"tmpfs".into(), &"the file system is in memory".into()));
    assert!(json["durable"].as_str().unwrap().starts_with("nothing"));
    assert!(json["rows"].as_array().unwrap().iter().all(|row| row["call"] != "first_access_cold"));
}

#[test]
fn where_nothing_can_be_measured_it_is_said() {
    let scratch = Scratch::new();
    scratch.thaw(["store", "bench", "nowhere"]).exits(2).complains("nowhere");
    scratch.write("file", "text");
    scratch.thaw(["store", "bench", "file"]).exits(2).complains("it is no directory");
    scratch.thaw(["store", "bench", "/proc"]).exits(3).complains("/proc");
}

#[test]
fn a_signal_ends_a_measurement_and_nothing_stays() {
    let scratch = Scratch::new();
    let folder = scratch.path("disk");
    std::fs::create_dir(&folder).unwrap();
    let mut command = scratch.command_of(Path::new(env!("CARGO_BIN_EXE_thaw")));
    let mut child = command.args(["store", "bench", "disk"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    while names(&folder).is_empty() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it began");
        std::thread::yield_now();
    }
    // SAFETY: a plain call on the number of a child that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(names(&folder).is_empty());
}
