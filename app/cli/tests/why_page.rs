//! Where the time went, for other eyes: the page, and exports that are opened in the tools that they are for.

use crate::heap_peers::{Profiler, peer, speedscope_opens};
use crate::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Exit code: the machine cannot do it.
const CANNOT: i32 = 3;

/// A start of a shell that sleeps, recorded; `false`: not here, and the calling test is counted as skipped.
fn recorded(scratch: &Scratch) -> bool {
    if !testing::root_or_skip() {
        return false;
    }
    let said = scratch.thaw(["why", "-o", "a.thaw", "--runs", "1", "--trace-runs", "1", "--", "sh", "-c", "sleep 0.1"]);
    if said.code() == Some(CANNOT) {
        testing::skip("the kernel lets nobody trace here");
        return false;
    }
    said.exits(0);
    true
}

/// The file of an export.
fn exported(scratch: &Scratch, format: &str, name: &str) -> Vec<u8> {
    let option = format!("--export-{format}");
    scratch.thaw(["why", "--from", "a.thaw", &option, name]).exits(0);
    fs::read(scratch.path(name)).unwrap()
}

fn document(scratch: &Scratch) -> Value {
    scratch.thaw(["why", "--from", "a.thaw", "--json"]).exits(0).json()
}

#[test]
fn the_page_holds_the_start_and_an_existing_file_is_kept() {
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    scratch.thaw(["why", "--from", "a.thaw", "--html", "a.html"]).exits(0);
    let html = fs::read_to_string(scratch.path("a.html")).unwrap();
    let (_, json) = html.split_once("id=\"thaw-why\">").unwrap();
    let value: Value = serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap();
    let (start, told) = (&value["starts"][0], &document(&scratch)["starts"][0]);
    assert_eq!(start["owners"], told["owners"]);
    assert!(start["path"]["count"].as_u64().unwrap() > 0 && start["pieces"]["count"].as_u64().unwrap() > 0);
    scratch.thaw(["why", "--from", "a.thaw", "--html", "a.html"]).exits(2).complains("a.html");
    scratch.thaw(["why", "--from", "a.thaw", "--html", "a.html", "--force"]).exits(0);
    let other = ["why", "--from", "a.thaw", "--export-folded", "f", "--export-run", "999"];
    scratch.thaw(other).exits(2).complains("999").hints("--export-run names one of");
}

#[test]
fn folded_stacks_are_lines_with_nanoseconds() {
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    for line in String::from_utf8(exported(&scratch, "folded", "a.folded")).unwrap().lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        assert!(!stack.is_empty() && ns.parse::<u64>().unwrap() > 0, "{line}");
    }
}

#[test]
fn pprof_reads_the_sums_of_the_flames() {
    let Some(pprof) = peer("pprof") else { return };
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    exported(&scratch, "pprof", "a.pb.gz");
    let flames = &document(&scratch)["starts"][0]["flames"];
    for (index, field) in [("cpu", "ran_ns"), ("path_wait", "path_waited_ns"), ("wait", "waited_ns")] {
        let mut command = Command::new(&pprof);
        command.args(["-raw", "-sample_index", index]).arg(scratch.path("a.pb.gz"));
        let output = command.env("PPROF_TMPDIR", scratch.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let raw = String::from_utf8(output.stdout).unwrap();
        let samples = raw.lines().skip_while(|line| !line.contains("cpu/nanoseconds")).skip(1);
        // Below each sample stands its label.
        let rows = samples.take_while(|line| !line.starts_with("Locations")).filter_map(|line| {
            let (values, _) = line.split_once(':')?;
            values.split_whitespace().map(|value| value.parse().ok()).collect::<Option<Vec<u64>>>()
        });
        let place = ["cpu", "path_cpu", "path_wait", "wait"].iter().position(|name| *name == index).unwrap();
        let sum: u64 = rows.map(|row| row[place]).sum();
        let told: u64 = flames[field].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).sum();
        assert_eq!(sum, told, "{index}: {raw}");
    }
}

#[test]
fn the_firefox_profiler_reads_the_waits() {
    if Command::new("node").arg("--version").output().is_err() {
        return testing::skip("needs node");
    }
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    exported(&scratch, "firefox", "profile.json");
    let Some(profiler) = Profiler::load(&scratch, &scratch.path("profile.json")) else { return };
    let threads = profiler.ask(&["profile", "info"]).to_string();
    assert!(threads.contains("the critical path"), "{threads}");
    let profile: Value = serde_json::from_slice(&fs::read(scratch.path("profile.json")).unwrap()).unwrap();
    assert!(profile.to_string().contains("sleeps") || profile.to_string().contains("waits for time to pass"));
}

#[test]
fn speedscope_reads_the_samples() {
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    let text = String::from_utf8(exported(&scratch, "speedscope", "a.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    if value["profiles"].as_array().unwrap().is_empty() {
        return testing::skip("no clock ticked in so short a start");
    }
    speedscope_opens(&scratch, &text);
}

#[test]
fn the_parser_of_perfetto_reads_switches_and_the_path() {
    let scratch = Scratch::new();
    if !recorded(&scratch) {
        return;
    }
    exported(&scratch, "perfetto", "x.pftrace");
    let script = "import sys\ntry:\n from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace\n\
                  except ImportError:\n sys.exit(77)\n\
                  t = trace.Trace(); t.ParseFromString(open('x.pftrace', 'rb').read())\n\
                  e = [p.track_event for p in t.packet if p.HasField('track_event')]\n\
                  d = {p.track_descriptor.uuid for p in t.packet if p.HasField('track_descriptor')}\n\
                  assert e and all(x.track_uuid in d for x in e)\n\
                  assert sum(x.type == 1 for x in e) == sum(x.type == 2 for x in e)\n\
                  f = [x for p in t.packet if p.HasField('ftrace_events') for x in p.ftrace_events.event]\n\
                  s = [x for x in f if x.HasField('sched_switch')]\n\
                  assert s and any(x.sched_switch.next_comm == 'sh' for x in s)\n\
                  assert any(x.HasField('sched_waking') for x in f)\n";
    let python = std::env::var_os("THAW_PERFETTO_PYTHON").unwrap_or_else(|| "python3".into());
    let Ok(said) = Command::new(python).args(["-c", script]).current_dir(scratch.path(".")).output() else {
        return testing::skip("needs python3");
    };
    if said.status.code() == Some(77) {
        return testing::skip("needs PyPI's perfetto: THAW_PERFETTO_PYTHON names a python that has it");
    }
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
