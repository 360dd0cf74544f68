//! `thaw pageload`: what is refused, and a table of a real browser through `thaw proxy`.

use crate::scratch::{Mortal, Scratch};
use pageload::drive::Kind;
use rustix::process::{Pid, Signal};
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

/// Whether there is a browser; else the test is counted as skipped.
fn chromium() -> bool {
    Kind::Chromium.find().inspect_err(|_| testing::skip("no chromium in PATH")).is_ok()
}

/// Processes whose command lines name this directory.
fn who_names(directory: &Path) -> Vec<u32> {
    let name = directory.display().to_string();
    let names = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&name))
    };
    os::process::all().into_iter().filter(names).collect()
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let scratch = Scratch::new();
    scratch.thaw(["pageload"]).exits(2).complains("--site");
    scratch.thaw(["pageload", "http://a/", "--site"]).exits(2);
    scratch.thaw(["pageload", "http://a/", "--images", "5"]).exits(2).complains("--images");
    scratch.thaw(["pageload", "ftp://a/"]).exits(2).complains("https://HOST/PATH");
    scratch.thaw(["pageload", "--site", "--via", "squid"]).exits(2).complains("thaw-h2 or http://HOST:PORT");
    scratch.thaw(["pageload", "--site", "--via", "thaw", "--via", "thaw"]).exits(2).complains("'thaw'");
    scratch.thaw(["pageload", "--site", "--browser", "netscape"]).exits(2).complains("chromium, firefox");
    scratch.thaw(["pageload", "--site", "--restart", "true"]).exits(2).complains("'true'");
    scratch.thaw(["pageload", "--site", "--disk", "none2010"]).exits(2).complains("none2010");
    let said = scratch.thaw(["pageload", "--site", "--browser", "firefox=/no/firefox"]);
    assert!(said.exits(2).err().contains("/no/firefox"));
}

#[test]
fn the_proxy_is_asked_for_before_a_browser_starts() {
    if !chromium() {
        return;
    }
    let scratch = Scratch::new();
    let thaw = scratch.path("thaw");
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    let mut command = scratch.command_of(&thaw);
    command.args(["pageload", "--site", "--via", "thaw"]);
    crate::scratch::Said::of(command).exits(3).complains("the proxy is not beside thaw");
}

/// As JSON and in a recording: through the browser's own cache, and through `thaw proxy`, whose is used then.
#[test]
fn a_table_of_two_caches_is_a_recording_too() {
    let proxy = Path::new(env!("CARGO_BIN_EXE_thaw")).with_file_name("thaw-proxy");
    if !proxy.exists() {
        return testing::skip("thaw-proxy is not built beside thaw: cargo build -p thawlab-proxy");
    }
    if !chromium() {
        return;
    }
    let scratch = Scratch::new();
    let words =
        "pageload --site --images 20 --latency 1ms -n 1 --via direct --via thaw --timeout 600s --json -o a.thaw";
    // Not all of the machine's cache for a test: warm is enough to see whose cache it is.
    let document = scratch.thaw(words.split(' ').chain(["--state", "first,warm"])).exits(0).json();
    assert_eq!(document["schema"], "thaw.pageload/1");
    let rows = document["rows"].as_array().unwrap();
    let seen: Vec<(&str, &str, f64)> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap();
            (text("via"), text("state"), row["origin_requests"].as_f64().unwrap())
        })
        .collect();
    let all = [("direct", "first", 25.0), ("direct", "warm", 0.0), ("thaw", "first", 25.0), ("thaw", "warm", 0.0)];
    assert_eq!(seen, all);
    scratch.nothing_left();
    let again = scratch.thaw(["report", "a.thaw", "--json"]).exits(0).json();
    assert_eq!((&again["page"], again["rows"].as_array().map(Vec::len)), (&document["page"], Some(4)));
    scratch.thaw(["report", "a.thaw"]).exits(0).says("25 answers").says("largest paint");
    scratch.thaw(["report", "a.thaw", "-o", "a.html"]).exits(2).hints(".json");
    scratch.thaw(["view", "a.thaw", "--no-browser"]).exits(2).hints("thaw report a.thaw");
    scratch.thaw(["compare", "a.thaw", "a.thaw"]).exits(0).says("chromium, direct, warm");
    let query = "select count(*) from milestones where name = 'first paint'";
    scratch.thaw(["query", "a.thaw", query]).exits(0).says("4");
    scratch.thaw(["pageload", "--site", "-o", "a.thaw"]).exits(2).complains("already there");
}

/// Also after the proxy was started anew.
fn thaw_h2_is_http2(browser: Kind) {
    let proxy = Path::new(env!("CARGO_BIN_EXE_thaw")).with_file_name("thaw-proxy");
    if !proxy.exists() {
        return testing::skip("thaw-proxy is not built beside thaw: cargo build -p thawlab-proxy");
    }
    // A simulated disk is cold alone, without all of the machine's cache.
    if browser.find().is_err() {
        return testing::skip(&format!("no {browser} in PATH"));
    }
    if !testing::root_or_skip() {
        return;
    }
    if let Some(lacks) = ["/dev/fuse", "/dev/loop-control"].iter().find(|it| !Path::new(it).exists()) {
        return testing::skip(&format!("no {lacks}"));
    }
    let scratch = Scratch::new();
    let words = "pageload --site --images 20 --latency 1ms -n 1 --via thaw --via thaw-h2 --timeout 600s --json";
    let browser = browser.to_string();
    let more = ["--browser", &browser, "--disk", "quick:laptop2010"];
    let document = scratch.thaw(words.split(' ').chain(more)).exits(0).json();
    let loads = document["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 8);
    for load in loads {
        let text = |key: &str| load[key].as_str().unwrap();
        let (is_first, requests) = (text("state") == "first", load["origin"]["requests"].as_u64());
        assert_eq!(text("protocol"), if text("via") == "thaw" { "http/1.1" } else { "h2" }, "{load}");
        assert!(text("state") == "reload" || requests == Some(if is_first { 25 } else { 0 }), "{load}");
    }
    scratch.nothing_left();
}

#[test]
fn chromium_speaks_http2_to_thaw_h2_in_each_state() {
    thaw_h2_is_http2(Kind::Chromium);
}

#[test]
fn firefox_speaks_http2_to_thaw_h2_in_each_state() {
    thaw_h2_is_http2(Kind::Firefox);
}

#[test]
fn ctrl_c_leaves_no_browser_behind() {
    if !chromium() {
        return;
    }
    let scratch = Scratch::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let mut command = scratch.command();
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    command.args(["pageload", &url, "--timeout", "600s"]).stderr(Stdio::piped()).env("TMPDIR", scratch.path("tmp"));
    let mut thaw = Mortal(command.spawn().unwrap());
    // The browser asks: the load is under way.
    let (_asked, _) = silent.accept().unwrap();
    assert!(!who_names(&scratch.path("run")).is_empty());
    rustix::process::kill_process(Pid::from_child(&thaw.0), Signal::INT).unwrap();
    let mut said = String::new();
    thaw.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(who_names(&scratch.path("run")), [0; 0]);
    assert_eq!(scratch.names("tmp"), Vec::<String>::new(), "temporary files of the browser are left");
    scratch.nothing_left();
}

/// Without a control group processes are found by their session, and the kernel tells bytes but no requests.
#[test]
fn without_root_the_table_says_what_it_lacks() {
    if Kind::Firefox.find().is_err() {
        return testing::skip("no firefox in PATH");
    }
    let scratch = Scratch::new();
    let words = "pageload --site --images 5 --latency 1ms -n 1 --browser firefox --timeout 600s --json";
    let Some(said) = scratch.thaw_as_nobody(words.split(' ')) else { return };
    let document = said.exits(0).json();
    let cold = document["rows"].as_array().unwrap().iter().find(|row| row["state"] == "cold").unwrap();
    assert_eq!((&cold["origin_requests"], &cold["from_cache"]), (&0.0.into(), &10.0.into()));
    assert!(cold["reads"].is_null() && cold["read_bytes"].is_number());
    assert!(cold["reads_unknown"].as_str().unwrap().contains("control group"));
    assert_eq!(document["warnings"][0]["kind"], "stays-resident");
    assert_eq!(who_names(&scratch.path("run")), [0; 0]);
    assert_eq!(scratch.names("run"), Vec::<String>::new());
}
