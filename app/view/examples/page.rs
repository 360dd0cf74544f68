//! The page of a recording from its JSON document, for trying the viewer without the whole program:
//! `thaw report ff.thaw --json > ff.json && cargo run -p view --example page -- ff.thaw ff.json ff.html`

use recording::Reader;
use view::TraceOf;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [recording, json, html] = words.as_slice() else { panic!("three words: RECORDING JSON HTML") };
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("the document is there")).expect("it is JSON");
    let reader = Reader::open(std::path::Path::new(recording)).expect("the recording opens");
    let shown: Vec<i64> =
        document["traces"].as_array().into_iter().flatten().filter_map(|it| it["run"].as_i64()).collect();
    let runs = reader.trace_runs().expect("the recording names its traces");
    let traces: Vec<_> = runs
        .into_iter()
        .filter(|run| shown.contains(&run.0))
        .map(|run| (run, reader.trace(run).expect("the trace is there")))
        .collect();
    let traces: Vec<TraceOf<'_>> = traces.iter().map(|(run, rows)| TraceOf { run: *run, rows }).collect();
    std::fs::write(html, view::page(&document, &traces, &[], None).expect("the page is made"))
        .expect("the page is written");
}
