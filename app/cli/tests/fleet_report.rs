//! fleet report: all answers as a page, metrics, JSON and text, and that none tells what the answers hide.

use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use testing::openmetrics::{Sample, parse};

/// Starts of one kind.
#[derive(Clone, Copy)]
struct Starts {
    version: &'static str,
    disk: &'static str,
    machines: u128,
    /// Of each machine.
    each: u64,
    wall_us: u64,
    read_bytes: u64,
}

/// A segment of them. Times are spread by a few per cent, so that nothing is sure that is not; tokens are as if by
/// chance, in random groups; every second machine has a remedy, every second start is cold.
fn segment(scratch: &Scratch, all: &[Starts]) {
    let (mut text, mut id) = (String::new(), 0);
    for of in all {
        let Starts { version, disk, each, read_bytes, .. } = *of;
        for (machine, start) in (0..of.machines).flat_map(|machine| (0..each).map(move |start| (machine, start))) {
            id += 1;
            let token = (machine + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let wall_us = of.wall_us + (token >> 100) as u64 % 977 * 31 + start;
            let (state, remedies) =
                (["hot", "cold"][start as usize % 2], [r#"["preload"]"#, "[]"][machine as usize % 2]);
            text += &(format!(r#"{{"schema":"thaw.ping/1","id":"{id:032x}","machine":"{token:032x}","app":"demo","#)
                + &format!(r#""version":"{version}","day":"2026-11-26","state":"{state}","ready":"exit","#)
                + &format!(r#""wall_us":{wall_us},"user_us":10,"system_us":10,"minor_faults":1,"major_faults":1,"#)
                + &format!(r#""read_bytes":{read_bytes},"max_rss_bytes":1,"milestones":{{}},"cpus":"2","#)
                + &format!(r#""memory":"4-8G","disk":"{disk}","kernel":"6.18","distribution":"debian","#)
                + &format!(r#""remedies":{remedies}}}"#)
                + "\n");
        }
    }
    let folder = scratch.path("pings/dt=2026-11-26/app=demo");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("1.ndjson.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
}

/// A fleet of two classes that are shown, one that is hidden because it is small, one that is hidden beside it, and a
/// version that is hidden as a whole. Version 1.10 starts 30 % slower on hard disks, where it reads twice as much.
fn fill(scratch: &Scratch) {
    let of =
        |version, disk, machines, each, wall_us| Starts { version, disk, machines, each, wall_us, read_bytes: 1000 };
    let mut all = vec![of("0.8", "ssd", 11, 53, 8_810_000)];
    for version in ["1.9", "1.10"] {
        all.push(of(version, "ssd", 90, 20, 1_000_000));
        // Fast and few: no percentile of a total is a start of theirs.
        all.push(of(version, "virtual", 37, 13, 610_000));
        all.push(of(version, "network", 3, 19, 410_000));
    }
    all.push(of("1.9", "hdd", 80, 20, 2_000_000));
    all.push(Starts { read_bytes: 2000, ..of("1.10", "hdd", 80, 20, 2_600_000) });
    segment(scratch, &all);
}

/// Words and numbers of what is shown, without the style and the markup of a page.
fn words(text: &str) -> BTreeSet<String> {
    let body = text.split_once("</style>").map_or(text, |(_, body)| body);
    let mut plain = String::new();
    for part in body.split('<') {
        plain.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        plain.push(' ');
    }
    let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '.' || letter == ',');
    plain.split(word).map(|word| word.trim_matches(['.', ',']).to_owned()).collect()
}

#[test]
fn no_form_of_the_report_tells_what_the_answers_hide() {
    let scratch = Scratch::new();
    fill(&scratch);
    scratch.thaw(["fleet", "import", "pings"]).exits(0);
    // Names, machines and starts of hidden cells, and all their times in all the ways in which times are written.
    let mut secret: BTreeSet<String> = ["network", "virtual", "0.8", "481", "583"].map(str::to_owned).into();
    let everything = scratch.thaw(["fleet", "query", "classes", "--k", "1", "--json"]).exits(0).json();
    for cell in everything["cells"].as_array().unwrap() {
        let is_shown = cell["version"] != "0.8" && ["ssd", "hdd"].contains(&cell["class"]["disk"].as_str().unwrap());
        let percentiles = cell["percentiles"].as_array().unwrap().iter().filter(|_| !is_shown);
        for us in percentiles.flat_map(|one| ["wall_us", "low_us", "high_us"].map(|name| one[name].as_u64())).flatten()
        {
            let seconds = us as f64 / 1e6;
            secret.extend([
                us.to_string(),
                seconds.to_string(),
                format!("{seconds:.3}"),
                format!("{:.1}", seconds * 1e3),
            ]);
        }
    }
    for (form, k) in ["html", "prom", "json", "txt"].into_iter().flat_map(|form| [(form, "20"), (form, "1")]) {
        let name = format!("{k}.{form}");
        scratch.thaw(["fleet", "report", "--k", k, "-o", &name]).exits(0);
        let text = std::fs::read_to_string(scratch.path(&name)).unwrap();
        let told: Vec<String> = words(&text).intersection(&secret).cloned().collect();
        match k {
            // That they would be found if they were there.
            "1" => assert!(told.len() >= 8 && told.iter().any(|word| word == "network"), "{name}: {told:?}"),
            _ => assert!(told.is_empty(), "{name} tells {told:?}"),
        }
    }
    let page = std::fs::read_to_string(scratch.path("20.html")).unwrap();
    for said in [
        "Fleet: demo",
        "1.9 to 1.10",
        "read_bytes +100.0 %",
        "class=\"w4 sure\"",
        "2026-11-26 to 2026-11-26",
        "Worst starts: cold",
        "Hidden, of all versions:",
        "5 cells of classes (2 for the sake of others)",
        "preload",
    ] {
        assert!(page.contains(said), "the page lacks {said}: {page}");
    }
    assert!(!page.contains("<script") && !page.contains("://"), "the page runs or loads something");
}

#[test]
fn a_class_that_is_hidden_in_one_version_is_said_to_be() {
    let scratch = Scratch::new();
    let of = |version, disk, machines| Starts { version, disk, machines, each: 1, wall_us: 1_500_000, read_bytes: 1 };
    let older = [of("1", "hdd", 30), of("1", "ssd", 3), of("1", "nvme", 19)];
    segment(&scratch, &[&older[..], &[of("2", "hdd", 30), of("2", "ssd", 40), of("3", "hdd", 30)]].concat());
    scratch.thaw(["fleet", "import", "pings"]).exits(0);
    scratch.thaw(["fleet", "report", "-o", "fleet.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("fleet.html")).unwrap();
    let row = |disk: &str| page.lines().find(|line| line.starts_with("<tr><th>") && line.contains(disk)).unwrap();
    assert_eq!(row("ssd").matches("class=\"hidden\">hidden<").count(), 2, "{}", row("ssd"));
    assert!(row("ssd").contains("<small>1 is hidden</small>"), "{}", row("ssd"));
    assert!(!row("hdd").contains("hidden"), "{}", row("hdd"));
}

#[test]
fn what_cannot_be_reported_is_said() {
    let scratch = Scratch::new();
    fill(&scratch);
    scratch.thaw(["fleet", "report"]).exits(2).complains("thaw fleet import");
    scratch.thaw(["fleet", "import", "pings"]).exits(0);
    scratch.thaw(["fleet", "report", "-o", "fleet.png"]).exits(2).complains("fleet.png").hints(".prom");
    scratch.thaw(["fleet", "report", "--versions", "1.9,0.8"]).exits(2).complains("0.8").hints("20 machines");
    scratch.thaw(["fleet", "report", "--k", "1000"]).exits(0).says("There is nothing to show");
    scratch.thaw(["fleet", "report", "--k", "1000", "-o", "none.html"]).exits(0);
    scratch.write("there.prom", "mine");
    scratch.thaw(["fleet", "report", "-o", "there.prom"]).exits(2).hints("--force");
    assert_eq!(std::fs::read_to_string(scratch.path("there.prom")).unwrap(), "mine");
    scratch.thaw(["fleet", "report", "-o", "there.prom", "--force"]).exits(0);
    assert!(std::fs::read_to_string(scratch.path("there.prom")).unwrap().ends_with("# EOF\n"));
}

/// The metrics of a fleet with all there is.
fn samples(scratch: &Scratch) -> Vec<Sample> {
    fill(scratch);
    scratch.thaw(["fleet", "import", "pings"]).exits(0);
    scratch.thaw(["fleet", "report", "-o", "fleet.prom"]).exits(0);
    let text = std::fs::read_to_string(scratch.path("fleet.prom")).unwrap();
    parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn metrics_have_the_figures_of_the_answers() {
    let scratch = Scratch::new();
    let samples = samples(&scratch);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|is| is == value))
        };
        let found: Vec<f64> = samples.iter().filter(has).map(|sample| sample.value).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0]
    };
    let answer = |words: &[&str]| {
        let words = ["fleet", "query"].iter().chain(words).chain(&["--json"]);
        scratch.thaw(words).exits(0).json()["cells"].as_array().unwrap().clone()
    };
    let seconds = |value: &Value| value.as_f64().unwrap() / 1e6;
    for cell in answer(&["classes"]) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (version, disk) = (text(&cell["version"]), text(&cell["class"]["disk"]));
        let labels = [("version", version.as_str()), ("disk", disk.as_str()), ("percentile", "95")];
        assert_eq!(value("thaw_fleet_class_start_seconds", &labels), seconds(&cell["percentiles"][2]["wall_us"]));
        assert_eq!(value("thaw_fleet_class_starts", &labels[..2]), cell["starts"].as_f64().unwrap());
    }
    for cell in answer(&["regressions", "--version-old", "1.9", "--version-new", "1.10"]) {
        let labels = [("version", "1.10"), ("version_old", "1.9"), ("disk", cell["class"]["disk"].as_str().unwrap())];
        // serde_json reads a fraction to the last digit but one.
        let is = |name: &str, is: &Value| (value(name, &labels) - is.as_f64().unwrap()).abs() < 1e-12;
        assert!(is("thaw_fleet_change_ratio", &cell["ratio"]), "{cell}");
        assert!(is("thaw_fleet_change_low_ratio", &cell["interval"]["low"]), "{cell}");
        let is_slower = cell["verdict"] == "slower";
        assert_eq!(value("thaw_fleet_change_verdict", &labels), f64::from(u8::from(is_slower)));
    }
    assert_eq!(value("thaw_fleet_moved_most_ratio", &[("disk", "hdd"), ("figure", "read_bytes")]), 2.0);
    // 2026-11-26, by `date -ud 2026-11-26 +%s`.
    assert_eq!(value("thaw_fleet_last_day_timestamp_seconds", &[("app", "demo")]), 1_795_651_200.0);
}

/// Names in an expression of PromQL: metrics, and labels by the metric that they are asked of.
fn names(expression: &str) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let (mut metrics, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut rest = expression;
    while let Some(at) = rest.find("thaw_") {
        rest = &rest[at..];
        let (name, after) = rest.split_at(rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len()));
        metrics.insert(name.to_owned());
        rest = after;
        let Some((selector, after)) = after.strip_prefix('{').and_then(|list| list.split_once('}')) else { continue };
        // Commas do not stand in the values of the dashboard.
        for matcher in selector.split(',') {
            let label = matcher.split(['=', '!', '~']).next().unwrap().trim();
            labels.insert((name.to_owned(), label.to_owned()));
        }
        rest = after;
    }
    (metrics, labels)
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_there_are() {
    let scratch = Scratch::new();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sample in samples(&scratch) {
        known.entry(sample.name).or_default().extend(sample.labels.into_keys());
    }
    let text = std::fs::read_to_string(root().join("docs/fleet-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let check = |expression: &str, more: &[String]| {
        let (metrics, labels) = names(expression);
        assert!(!metrics.is_empty(), "{expression} asks for nothing of thaw's");
        for metric in &metrics {
            let labels_of = known.get(metric).unwrap_or_else(|| panic!("there is no {metric}: {expression}"));
            let of_metric = labels.iter().filter(|(of, _)| of == metric).map(|(_, label)| label).chain(more);
            for label in of_metric {
                assert!(labels_of.contains(label), "{metric} has no label {label}: {expression}");
            }
        }
    };
    let mut checked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let mut more: Vec<String> =
                legend.split("{{").skip(1).map(|part| part.split("}}").next().unwrap().to_owned()).collect();
            if let Some((_, grouped)) = expression.split_once(" by (") {
                more.extend(grouped.split(')').next().unwrap().split(',').map(|label| label.trim().to_owned()));
            }
            let columns = panel["transformations"][0]["options"]["indexByName"].as_object();
            more.extend(columns.into_iter().flat_map(|all| all.keys().cloned()).filter(|name| name != "Value"));
            check(expression, &more);
            checked += 1;
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap().iter().filter(|one| one["type"] == "query") {
        let query = variable["query"].as_str().unwrap();
        let label = query.trim_end_matches(')').rsplit_once(", ").unwrap().1;
        check(query, &[label.to_owned()]);
        checked += 1;
    }
    assert!(checked > 12, "only {checked} expressions were found");
}
