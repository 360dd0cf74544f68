//! Pages of heap recordings, memory reports and watches: what they hold is what the same verb prints. How they look is
//! tested in a browser (`viewer/test/e2e`).

use crate::heap_look::recorded;
use crate::memory::firefox;
use crate::scratch::{Mortal, Scratch};
use ::heap::modes::{Held, Split, Window};
use ::heap::named::{Filter, Named};
use ::heap::{growth, slop, whole};
use heapfile::event::What;
use heapfile::reader::Reader;
use model::Nanos;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// What a page holds under an id.
pub fn embedded(html: &str, id: &str) -> Value {
    let begin = format!("<script type=\"application/json\" id=\"{id}\">");
    let text = &html[html.find(&begin).unwrap_or_else(|| panic!("no {id}")) + begin.len()..];
    serde_json::from_str(&text[..text.find("</script>").unwrap()]).unwrap()
}

pub fn page(scratch: &Scratch, name: &str) -> String {
    let html = std::fs::read_to_string(scratch.path(name)).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("default-src 'none'"));
    html
}

#[test]
fn a_heap_page_holds_what_the_report_says() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    scratch.thaw(["heap", "report", "modes.heap", "--mode", "live", "--html", "heap.html"]).exits(0);
    let shown = embedded(&page(&scratch, "heap.html"), "thaw-heap");
    let report = scratch.thaw(["heap", "report", "modes.heap", "--mode", "live", "--json"]).exits(0).json();
    assert_eq!((&shown["schema"], &shown["measure"]), (&"thaw.heap-view/1".into(), &report["measure"]));
    let [recording] = shown["recordings"].as_array().unwrap().as_slice() else { panic!("one recording: {shown}") };
    let [process] = recording["processes"].as_array().unwrap().as_slice() else { panic!("one process: {recording}") };
    let said = &report["processes"][0];
    assert_eq!((&process["pid"], &process["figures"]), (&said["pid"], &said["figures"]));
    assert_eq!(process["peak_bytes"], said["peak"]["bytes"]);
    assert_eq!(process["timeline"]["count"].as_u64(), said["timeline"]["points"].as_array().map(|it| it.len() as u64));
    // Nothing had to be folded, and nothing was filtered out.
    assert_eq!(recording["pruned"]["nodes"], recording["pruned"]["kept"]);
    assert_eq!(recording["pruned"]["kept"], process["stacks"]["count"]);
    assert_eq!((&recording["pruned"]["share"], &recording["part"]), (&0.0.into(), &"all".into()));
    assert!(process["changes"]["count"].as_u64().unwrap() > 0);

    scratch.thaw(["heap", "report", "modes.heap", "--function", "leak", "--html", "part.html"]).exits(0);
    let part = embedded(&page(&scratch, "part.html"), "thaw-heap");
    assert_eq!((&part["measure"], &part["recordings"][0]["part"]), (&"made".into(), &"filtered".into()));
    assert_eq!(part["recordings"][0]["processes"][0]["figures"]["made"]["blocks"], 10);
    scratch.thaw(["heap", "report", "modes.heap", "--html", "x.html", "--json"]).exits(2);
    scratch.thaw(["heap", "report", "modes.heap", "--html", "no/such/folder.html"]).exits(2);
}

/// A page reads the events once: slop, growth, sites, and what these held at any step, are what each verb says that
/// reads them for itself.
#[test]
fn one_reading_says_what_several_say() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let reader = Reader::open(&scratch.path("modes.heap")).unwrap();
    let process = &reader.processes()[0];
    // The first thread has the number of its process.
    let by_thread = Filter { threads: vec![process.pid.to_string()], ..Filter::default() };
    // From one allocation of this thread to a later one: by the clock, all might be in one quarter on a busy machine.
    let mut events = reader.events(process.id).unwrap();
    let mut made = Vec::new();
    while let Some(event) = events.next().unwrap() {
        if event.thread.0 == process.pid && matches!(event.what, What::Alloc { .. }) {
            made.push(process.start + event.at);
        }
    }
    let part = Window { since_ns: made[made.len() / 4], until_ns: Some(made[made.len() * 3 / 4]) };
    for (window, filter) in [(Window::default(), Filter::default()), (part, Filter::default()), (part, by_thread)] {
        let all = whole::read(&reader, window, &filter, &whole::Options { frames: 8, top: 200 }).unwrap();
        let slop = slop::report(&reader, &slop::Options { model: None, frames: 8, top: 200 }).unwrap();
        let growth = growth::report(&reader, &growth::Options { frames: 8, top: 200 }).unwrap();
        assert_eq!(serde_json::to_value(&all.slop).unwrap(), serde_json::to_value(&slop).unwrap());
        assert_eq!(serde_json::to_value(&all.growth).unwrap(), serde_json::to_value(&growth).unwrap());
        let named = Named::read(&reader, window, Split::Stack, &filter).unwrap();
        assert_eq!(all.named.total(), named.total());
        assert!(all.named.total().made.blocks > 0);
        assert_eq!(all.named.warnings, named.warnings);
        for (one, other) in all.named.heaps.iter().zip(&named.heaps) {
            assert_eq!((&one.sites, &one.timeline, one.totals), (&other.sites, &other.timeline, other.totals));
            assert_eq!((one.peak, one.peak_at, one.last), (other.peak, other.peak_at, other.last));
        }
        for (index, (heap, moments)) in all.named.heaps.iter().zip(&all.moments).enumerate() {
            let steps = heap.last.0 / moments.step_ns().0 + 1;
            assert!((1..=4096).contains(&steps));
            for step in [steps / 3, steps / 2, steps] {
                let last = Nanos((moments.step_ns().0 * step).saturating_sub(1).min(heap.last.0));
                let until_ns = Some(all.named.processes[index].start + last);
                let then = Named::read(&reader, Window { until_ns, ..window }, Split::Stack, &filter).unwrap();
                for site in &heap.sites {
                    let mut held = Held::default();
                    for one in moments.of(site.stack, site.part).filter(|one| one.step < step) {
                        held.bytes = held.bytes.wrapping_add_signed(one.bytes);
                        held.blocks = held.blocks.wrapping_add_signed(one.blocks);
                    }
                    let same = then.heaps[index].sites.iter().find(|it| (it.stack, it.part) == (site.stack, site.part));
                    assert_eq!(held, same.map_or_else(Held::default, |same| same.figures.end));
                }
            }
        }
    }
}

#[test]
fn two_heap_recordings_share_a_page() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "before.heap", &[]) || !recorded(&scratch, "after.heap", &["-g3"]) {
        return;
    }
    scratch.thaw(["heap", "diff", "before.heap", "after.heap", "--html", "diff.html"]).exits(0);
    let shown = embedded(&page(&scratch, "diff.html"), "thaw-heap");
    let names: Vec<&str> =
        shown["recordings"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["after.heap", "before.heap"]);
}

#[test]
fn memory_pages_hold_trees_and_watches() {
    let scratch = Scratch::new();
    let (start, later) = (firefox("start.json.gz"), firefox("later.json.gz"));
    let trees = |page: &Value| -> Vec<(String, bool)> {
        let each = page["trees"].as_array().unwrap().iter();
        each.map(|it| (it["name"].as_str().unwrap().to_owned(), it["difference"].as_bool().unwrap())).collect()
    };
    scratch.thaw(["memory", "show", &start, "--html", "one.html"]).exits(0);
    let one = embedded(&page(&scratch, "one.html"), "thaw-memory");
    assert_eq!((&one["schema"], trees(&one)), (&"thaw.memory-view/1".into(), vec![(start.clone(), false)]));
    scratch.thaw(["memory", "diff", &start, &later, "--html", "two.html"]).exits(0);
    let two = embedded(&page(&scratch, "two.html"), "thaw-memory");
    assert_eq!(trees(&two), [("difference".into(), true), (start.clone(), false), (later.clone(), false)]);

    let program = scratch.script("program", "sleep 0.6");
    let watch = |name: &str| {
        let words = ["memory", "watch", "-o", name, "--interval", "100ms", "--", program.to_str().unwrap()];
        scratch.thaw(words).exits(0);
    };
    watch("a.memory");
    watch("b.memory");
    scratch.thaw(["memory", "show", "a.memory", "--html", "watch.html"]).exits(0);
    let watched = embedded(&page(&scratch, "watch.html"), "thaw-memory");
    let said = scratch.thaw(["memory", "show", "a.memory", "--json"]).exits(0).json();
    assert_eq!(watched["watches"][0]["checkpoints"], said["checkpoints"]);
    assert_eq!(watched["watches"][0]["samples"]["count"], said["samples"]);
    scratch.thaw(["memory", "diff", "a.memory", "b.memory", "--html", "watches.html"]).exits(0);
    let both = embedded(&page(&scratch, "watches.html"), "thaw-memory");
    assert_eq!((both["watches"].as_array().unwrap().len(), both["pairs"].as_array().unwrap().len()), (2, 2));
    scratch.thaw(["memory", "diff", "a.memory", &start, "--html", "none.html"]).exits(2);
    assert!(!scratch.path("none.html").exists());
}

/// What `thaw view` serves.
fn served(scratch: &Scratch, words: &[&str]) -> String {
    let mut command = scratch.command();
    command.arg("view").args(words).arg("--no-browser");
    served_by(command)
}

/// The same of a `thaw view` that is about to be run.
pub fn served_by(mut command: Command) -> String {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Mortal(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_once("http://").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
    let (address, target) = url.and_then(|url| url.split_once('/')).expect("an address");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{target} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn view_takes_whatever_was_recorded() {
    let scratch = Scratch::new();
    let (start, later) = (firefox("start.json.gz"), firefox("later.json.gz"));
    let trees = |html: &str| embedded(html, "thaw-memory")["trees"].as_array().unwrap().len();
    assert_eq!(trees(&served(&scratch, &[&start])), 1);
    assert_eq!(trees(&served(&scratch, &[&later, "--since", &start])), 3);
    if recorded(&scratch, "modes.heap", &[]) {
        let html = served(&scratch, &["modes.heap"]);
        assert_eq!(embedded(&html, "thaw-heap")["recordings"][0]["name"], "modes.heap");
    }
    scratch.thaw(["view", "nothing.here", "--no-browser"]).exits(2).complains("nothing.here");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.thaw(["view", "empty", "--no-browser"]).exits(5);
}
