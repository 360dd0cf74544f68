//! `thaw sweep`: how a start grows with a parameter, and with each start. Programs that sleep, so that how busy the
//! machine is matters little.

use crate::scratch::Scratch;
use serde_json::{Value, json};

fn wall(document: &Value) -> &Value {
    document["growth"][0]["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == "wall_s").unwrap()
}

#[test]
fn planted_orders_are_told_and_what_lies_beyond_is_called_extrapolated() {
    let scratch = Scratch::new();
    // Milliseconds at 1, 4, 16, 64.
    for (order, times) in [
        ("constant", ["50", "50", "50", "50"]),
        ("linear", ["60", "90", "210", "690"]),
        ("quadratic", ["50", "53", "101", "869"]),
    ] {
        for (n, time) in [1, 4, 16, 64].into_iter().zip(times) {
            let seconds = time.parse::<f64>().unwrap() / 1000.0;
            scratch.script(&format!("at{n}"), &format!("exec sleep {seconds}"));
        }
        let line = "sweep -o a.thaw --force --name nap --sweep n=1,4,16,64 --runs 4 --at 32,128 -- ./at{n}";
        let said = scratch.thaw(line.split(' ')).exits(0);
        let document = scratch.thaw(["sweep", "--from", "a.thaw", "--at", "32,128", "--json"]).exits(0).json();
        assert_eq!(document["schema"], "thaw.sweep/1");
        assert_eq!(document["growth"][0]["values"], json!([1.0, 4.0, 16.0, 64.0]));
        let wall = wall(&document);
        assert_eq!(wall["growth"]["order"], order, "{wall:#}");
        let foretold = wall["foretold"].as_array().unwrap();
        assert_eq!((&foretold[0]["extrapolated"], &foretold[1]["extrapolated"]), (&json!(false), &json!(true)));
        let beyond = foretold[1]["value"]["value"].as_f64().unwrap();
        let truth = [("constant", 0.05), ("linear", 1.33), ("quadratic", 3.33)];
        let truth = truth.iter().find(|(name, _)| *name == order).unwrap().1;
        assert!((beyond / truth - 1.0).abs() < 0.25, "{order}: {beyond} s foretold, {truth} s is true");
        let said = said.says("extrapolated: nothing was measured there");
        match order {
            "constant" => said.says("does not grow with n"),
            _ => said.says("grows with n as O(n"),
        };
    }
}

#[test]
fn starts_in_a_row_are_counted_and_nothing_is_put_back() {
    let scratch = Scratch::new();
    scratch.script("grows", "echo x >> log; exec sleep $(awk 'END { print NR / 100 }' log)");
    let line = "sweep -o a.thaw --cycles 24 --warmup 2 --name app -- ./grows";
    scratch.thaw(line.split(' ')).exits(0).says("grows with each start");
    let starts = std::fs::read_to_string(scratch.path("log")).unwrap().lines().count();
    assert!(starts >= 26, "{starts} starts: those that count and those before them");
    let document = scratch.thaw(["sweep", "--from", "a.thaw", "--json"]).exits(0).json();
    let swept = &document["growth"][0];
    assert_eq!((&swept["parameter"], &swept["of"]), (&"cycle".into(), &"app".into()));
    let values = swept["values"].as_array().unwrap();
    // The last six that count are one level. If those before the first that counts were left out it would be at 21.5.
    let last = values.last().unwrap().as_f64().unwrap();
    assert!(last >= 23.5 && last <= starts as f64 - 2.5, "{last} of {starts}");
    let report = scratch.thaw(["report", "a.thaw", "--json"]).exits(0).json();
    assert_eq!(report["growth"][0]["parameter"], "cycle");
    assert_eq!(report["asked"]["restore"], json!([]), "nothing is put back");
    let ratio = wall(&document)["growth"]["ratio"]["value"].as_f64().unwrap();
    assert!(ratio > 2.0, "{ratio}");
}

#[test]
fn a_sweep_fills_a_fresh_profile_before_each_start() {
    let scratch = Scratch::new();
    scratch.script("app", "exec sleep $(awk 'END { print 0.05 * NR }' $1/tabs)");
    let line = ["sweep", "-o", "a.thaw", "--sweep", "tabs=1,2,4,8", "--runs", "3", "--restore", "{profile}"];
    let words = ["--prepare", "seq {tabs} >> {profile}/tabs", "--", "./app", "{profile}"];
    scratch.thaw(line.into_iter().chain(words)).exits(0).says("grows with tabs as O(n)");
}

#[test]
fn a_sweep_of_nothing_and_a_file_without_one_are_refused() {
    let scratch = Scratch::new();
    scratch.thaw(["sweep", "--", "true"]).exits(2).complains("nothing is varied").hints("--cycles");
    scratch.thaw(["sweep", "--cycles", "3", "--", "true"]).exits(2);
    scratch.thaw(["sweep", "--at", "-1", "--sweep", "n=1,2", "--", "true", "{n}"]).exits(2);
    scratch.thaw(["sweep", "--from", "none.thaw"]).exits(2).complains("none.thaw");
    let plain = "record -o plain.thaw --state hot --runs 1 --needed no -- true";
    scratch.thaw(plain.split(' ')).exits(0);
    scratch.thaw(["sweep", "--from", "plain.thaw"]).exits(5).complains("plain.thaw").hints("--sweep");
}
