//! fleet: segments into a store, questions, and a machine that is forgotten, as typed.

use crate::scratch::Scratch;

fn fill(scratch: &Scratch) {
    let folder = scratch.path("pings/dt=2026-11-26/app=demo");
    std::fs::create_dir_all(&folder).unwrap();
    let line = |at: u32| {
        format!(r#"{{"schema":"thaw.ping/1","id":"{at:032x}","machine":"{:032x}","app":"demo","version":"1","#, at % 25)
            + r#""day":"2026-11-26","state":"cold","ready":"exit","wall_us":1500000,"user_us":1,"system_us":1,"#
            + r#""minor_faults":1,"major_faults":1,"read_bytes":1,"max_rss_bytes":1,"milestones":{},"cpus":"2","#
            + r#""memory":"4-8G","disk":"ssd","kernel":"6.18","distribution":"debian","remedies":[]}"#
            + "\n"
    };
    let text: String = (0..100).map(line).collect();
    std::fs::write(folder.join("1.ndjson.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
}

#[test]
fn a_fleet_is_imported_asked_and_made_to_forget() {
    let scratch = Scratch::new();
    fill(&scratch);
    let import = ["fleet", "import", "pings"];
    scratch.thaw(import).exits(0).says("100 new pings of 1 segment in fleet.db");
    scratch.thaw(import).exits(0).says("1 segment had been imported before");
    let answer = scratch.thaw(["fleet", "query", "versions", "--json"]).exits(0).json();
    let cell = &answer["cells"][0];
    assert_eq!((answer["schema"].as_str(), cell["machines"].as_u64()), (Some("thaw.fleet/1"), Some(25)));
    assert_eq!(cell["percentiles"][0]["wall_us"].as_u64(), Some(1_500_000));
    scratch.thaw(["fleet", "query", "versions"]).exits(0).says("1.500 s").says("25");
    let few = scratch.thaw(["fleet", "query", "cold", "--k", "26"]).exits(0);
    few.says("There is nothing to show.").says("suppressed: 1 cell of fewer than 26 machines").says_not("ssd");
    let token = format!("{:032x}", 3);
    let forgotten = scratch.thaw(["fleet", "forget", &token, "pings", "--db", "fleet.db"]).exits(0);
    forgotten.says("4 pings taken out of 1 segment of 1").says("4 pings deleted from the store");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let scratch = Scratch::new();
    fill(&scratch);
    scratch.thaw(["fleet", "query", "versions"]).exits(2).complains("thaw fleet import");
    scratch
        .thaw(["fleet", "query", "versions", "--app", "a'b", "--sql"])
        .exits(2)
        .complains("no ping can have the app");
    scratch.thaw(["fleet", "query", "regressions", "pings"]).exits(2).complains("which versions are compared");
    scratch.thaw(["fleet", "query", "versions", "--sql"]).exits(0).says("row_number()").says_not("{app}");
    let none = ["fleet", "query", "versions", "pings", "--engine", "spark", "--python", "/nonexistent/python"];
    scratch.thaw(none).exits(3).complains("pip install pyspark");
    let torn = scratch.path("pings/dt=2026-11-26/app=demo/2.ndjson.zst");
    std::fs::write(&torn, b"no zstd").unwrap();
    scratch.thaw(["fleet", "import", "pings"]).exits(5).says("2.ndjson.zst").says("100 new pings");
}
