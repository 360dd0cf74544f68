//! record: small programs in all states, probes, variants, presets, and a planted drift.

use crate::scratch::{Scratch, alone};
use serde_json::Value;

/// A program that reads 2 MB of its own, which lies on a disk.
fn reader(scratch: &Scratch) -> std::path::PathBuf {
    scratch.write("app/data", vec![b'x'; 2 << 20]);
    std::process::Command::new("sync").arg(scratch.path("app/data")).status().unwrap();
    let program = scratch.path("app/reader");
    testing::copy_program("/bin/cat", &program);
    program
}

fn cell<'a>(json: &'a Value, state: &str) -> &'a Value {
    let cells = json["statistics"]["cells"].as_array().unwrap();
    cells.iter().find(|cell| cell["state"] == state).unwrap_or_else(|| panic!("no {state} in {json:#}"))
}

/// Warnings of a kind.
fn warned(json: &Value, kind: &str) -> Vec<String> {
    let warnings = json["warnings"].as_array().unwrap();
    warnings
        .iter()
        .filter(|warning| warning["kind"] == kind)
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn four_states_of_a_small_program() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let program = reader(&scratch);
    let said = scratch.thaw([
        "record".as_ref(),
        "-o".as_ref(),
        "four.thaw".as_ref(),
        "--state".as_ref(),
        "cold,boot,app,hot".as_ref(),
        "--runs".as_ref(),
        "3".as_ref(),
        "--export-json".as_ref(),
        "four.json".as_ref(),
        "--".as_ref(),
        program.as_os_str(),
        "app/data".as_ref(),
    ]);
    let said = said.exits(0).says("reader starts in").says("cold").says("boot").says("app ").says("hot");
    said.says("app/data");
    let json = scratch.thaw(["report", "four.thaw", "--json"]).exits(0).json();
    for state in ["cold", "boot", "app", "hot"] {
        assert_eq!(cell(&json, state)["runs"], 3);
    }
    let read = |state: &str| cell(&json, state)["read_bytes"].as_f64();
    if let (Some(cold), Some(app), Some(hot)) = (read("cold"), read("app"), read("hot")) {
        assert!(cold >= 2_097_152.0 && app >= 2_097_152.0, "its own data comes from the disk: {cold} {app}");
        assert!(hot < 2_097_152.0, "a hot start reads nothing of it: {hot}");
    }
    assert_eq!(json["traces"][0]["state"], "cold");
    let files = json["traces"][0]["report"]["files"].as_array().unwrap();
    let data = files.iter().find(|file| file["path"].as_str().unwrap().ends_with("app/data")).unwrap();
    assert_eq!((&data["filled"], &data["owner"]), (&Value::from(2 << 20), &Value::from("app")));
    let exported: Value = serde_json::from_slice(&std::fs::read(scratch.path("four.json")).unwrap()).unwrap();
    assert_eq!(exported["results"].as_array().unwrap().len(), 4);
    scratch.nothing_left();
}

#[test]
fn each_of_several_base_lists_is_what_its_variants_boot_runs_find_in_memory() {
    if !testing::root_or_skip() {
        return;
    }
    // Files of the system that no other program reads meanwhile.
    let licences = ["GPL-3", "Apache-2.0"].map(|name| format!("/usr/share/common-licenses/{name}"));
    if licences.iter().any(|path| !std::path::Path::new(path).is_file()) {
        return testing::skip("needs Debian's /usr/share/common-licenses");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.write("gnome.list", format!("{}\n", licences[0]));
    scratch.write("other.list", format!("{}\n", licences[1]));
    let line = "record -o two.thaw --state cold,boot --runs 2 --trace-runs 1 --needed no --name app --base gnome.list \
        --base kde=other.list --env A=GPL-3 --env B=Apache-2.0 --cwd /usr/share/common-licenses -- sh -c";
    scratch.thaw(line.split_whitespace().chain(["cat \"$A\" \"$B\""])).exits(0);
    let sql = "select variant_name, state, path, min(resident_bytes = needed_bytes), max(resident_bytes > 0), count(*) \
        from residency join v_runs using (run) where accepted and path like '%licenses%' \
        group by 1, 2, 3 order by 1, 2, 3";
    let said = scratch.thaw(["query", "two.thaw", sql, "--csv"]).exits(0);
    let (gnu, apache) = (&licences[0], &licences[1]);
    let expected = format!(
        "app base=gnome,boot,{apache},0,0,2\napp base=gnome,boot,{gnu},1,1,2\n\
         app base=gnome,cold,{apache},0,0,2\napp base=gnome,cold,{gnu},0,0,2\n\
         app base=kde,boot,{apache},1,1,2\napp base=kde,boot,{gnu},0,0,2\n\
         app base=kde,cold,{apache},0,0,2\napp base=kde,cold,{gnu},0,0,2\n"
    );
    assert_eq!(said.out().split_once('\n').unwrap().1, expected);
    let words = ["record", "-o", "x.thaw", "--base", "gnome.list", "--base", "other.list", "--", "true"];
    scratch.thaw(words).exits(2).complains("no state in which they differ").hints("--state cold,boot");
}

#[test]
fn record_prints_the_same_document_as_report() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let printed =
        scratch.thaw(["record", "--state", "app,hot", "--runs", "2", "--json", "--", "/bin/true"]).exits(0).json();
    let read = scratch.thaw(["report", "thaw.thaw", "--json"]).exits(0).json();
    assert_eq!(printed["schema"], "thaw.report/1");
    assert_eq!(printed, read);
    let line = printed["recording"]["command_line"].as_array().unwrap();
    assert_eq!(line.last().unwrap(), "/bin/true");
}

#[test]
fn the_first_probe_stops_the_clock_and_the_others_are_milestones() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("server", "echo loading; echo Ready; echo done > world/flag; sleep 600");
    let ready = ["--ready", "line:^Ready", "--ready", "file:world/flag", "--restore", "world"];
    let words = ["record", "--state", "hot", "--runs", "3", "--grace", "1s"];
    let mut words: Vec<&str> = words.iter().chain(&ready).copied().collect();
    words.extend(["--", program.to_str().unwrap()]);
    std::fs::create_dir(scratch.path("world")).unwrap();
    let said = scratch.thaw(words).exits(0);
    said.says("Milestones").says("line:^Ready").says("file:world/flag");
    scratch.nothing_left();
}

#[test]
fn variants_are_measured_in_the_same_blocks() {
    let _machine = alone();
    let scratch = Scratch::new();
    let words = ["record", "--state", "hot", "--runs", "6", "--variant", "slow=sh -c 'sleep 0.2'", "--", "/bin/true"];
    let said = scratch.thaw(words).exits(0).says("slow");
    let json = scratch.thaw(["report", "thaw.thaw", "--json"]).exits(0).json();
    let contrast = &json["statistics"]["contrasts"][0];
    assert_eq!(contrast["pairs"], 6, "{}", said.framed());
    assert!(contrast["ratio"]["interval"]["low"].as_f64().unwrap() > 1.0, "a fifth of a second shows on any machine");
    assert_eq!(json["variants"][1]["argv"], serde_json::json!(["sh", "-c", "sleep 0.2"]));
}

#[test]
fn the_program_against_itself_shows_the_noise_floor() {
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.thaw(["record", "--aa", "--state", "hot", "--runs", "6", "--", "/bin/true"]).exits(0).says("Noise floor");
    let json = scratch.thaw(["report", "thaw.thaw", "--json"]).exits(0).json();
    assert_eq!(json["statistics"]["noise_floor"]["states"][0]["pairs"], 6);
}

/// A preset whose program fills its profile when it is fresh and fails if it is not the one it made.
fn preset(scratch: &Scratch) {
    let body = "[ \"$HOME\" = \"$2\" ] || exit 9\nif [ -e \"$1/made\" ]; then [ ! -e \"$1/used\" ] || exit 8; : \
        > \"$1/used\"; else : > \"$1/made\"; fi";
    let program = scratch.script("opt/tool", body);
    let text = format!(
        "program = {:?}\nargs = [\"{{profile}}\", \"{{home}}\"]\nrestore = [\"{{profile}}\"]\npackages = \
            []\n[env]\nHOME = \"{{home}}\"\n",
        program.to_str().unwrap()
    );
    scratch.write("config/thaw/apps/tool.toml", text);
}

#[test]
fn a_preset_starts_in_an_existing_but_fresh_profile_every_time() {
    let _machine = alone();
    let scratch = Scratch::new();
    preset(&scratch);
    let said = scratch.thaw(["record", "--app", "tool", "--state", "hot", "--runs", "3"]).exits(0);
    said.says("tool starts in");
    scratch.nothing_left();
}

#[test]
fn another_user_can_record_hot_starts_without_any_rights() {
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(said) = scratch.thaw_as_nobody(["record", "--state", "hot", "--runs", "3", "--", "/bin/true"]) else {
        return;
    };
    let said = said.exits(0).says("true starts in");
    assert!(said.out().contains("probe"), "it says what it traced with: {}", said.framed());
    scratch.nothing_left();
}

/// A program that leaves one more file each run and reads them all, each from a disk that takes 50 ms for it: so much
/// that no load on the machine hides the trend. Told to be `fresh` it fails where it finds what an earlier run left.
fn leaky(scratch: &Scratch) -> String {
    let body = "set -- $1 profile/*; [ $1 != fresh ] || [ $# = 2 ] || exit 9; shift\n\
                for file; do cat $file; sleep 0.05; done; echo 1 > profile/$$";
    scratch.script("leaky", body).to_str().unwrap().to_owned()
}

/// Records the leaky program in a profile of one file; the trend of its hot starts in seconds per run, and the
/// warnings.
fn trend(scratch: &Scratch, options: &[&str], how: &str) -> (f64, Vec<String>) {
    let _ = std::fs::remove_dir_all(scratch.path("profile"));
    scratch.write("profile/first", "1");
    let program = leaky(scratch);
    let words = ["record", "--state", "hot", "--runs", "14", "--json", "--force"];
    let said = scratch.thaw(words.iter().chain(options).copied().chain(["--", program.as_str(), how])).exits(0);
    let json = said.json();
    let slope = cell(&json, "hot")["drift"]["slope_per_run"].as_f64();
    (slope.unwrap_or(0.0), warned(&json, "drift"))
}

#[test]
fn a_program_that_leaves_something_each_run_is_found_out_and_cured_by_restore() {
    let _machine = alone();
    let scratch = Scratch::new();
    let (planted, warnings) = trend(&scratch, &[], "any");
    assert!(warnings.iter().any(|text| text.contains("hot")), "a drift is warned about: {warnings:?}");
    scratch.thaw(["report", "thaw.thaw", "--verbose"]).exits(0).says("--restore");

    let (left, _) = trend(&scratch, &["--restore", "profile"], "fresh");
    assert!(left.abs() < planted / 4.0, "--restore removes it: {planted} s per run before, {left} after");
    assert_eq!(scratch.names("profile"), ["first"]);
}

#[test]
fn progress_is_plain_lines_where_there_is_no_terminal() {
    let _machine = alone();
    let scratch = Scratch::new();
    let words = ["record", "--state", "hot", "--runs", "3", "--", "/bin/true"];
    let said = scratch.thaw(words).exits(0).complains("[3/3] ");
    assert!(!said.err().contains('\x1b') && !said.err().contains('\r'), "{}", said.framed());
    let words = ["record", "--quiet", "--force", "--state", "hot", "--runs", "3", "--", "/bin/true"];
    assert_eq!(scratch.thaw(words).exits(0).err(), "");
}

#[test]
fn a_start_without_read_ahead_tells_what_is_needed() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let data = scratch.write("app/data", vec![b'x'; 8 << 20]);
    std::process::Command::new("sync").arg(&data).status().unwrap();
    let program = scratch.path("app/part");
    testing::copy_program("/bin/dd", &program);
    let read_ahead = || {
        let disk = os::disk::Disk::of_path(&scratch.path("app")).unwrap();
        std::fs::read_to_string(disk.read_ahead_file).unwrap()
    };
    let before = read_ahead();
    let words = ["record", "--state", "cold", "--runs", "2", "--needed", "yes", "--readahead", "256K", "--"];
    let part = ["if=app/data", "of=/dev/null", "bs=4096", "skip=100", "count=3"];
    let mut words: Vec<&str> = words.to_vec();
    words.push(program.to_str().unwrap());
    words.extend(part);
    let said = scratch.thaw(words).exits(0);
    said.says("it needs ").says("needed");
    assert_eq!(read_ahead(), before, "the disk's read-ahead is not as it was");
    let json = scratch.thaw(["report", "thaw.thaw", "--json"]).exits(0).json();
    let report = &json["traces"][0]["report"];
    let files = report["files"].as_array().unwrap();
    let data = files.iter().find(|file| file["path"].as_str().unwrap().ends_with("app/data")).unwrap();
    assert_eq!(data["needed"], 3 * 4096, "exactly the pages that it asked for: {data}");
    assert!(data["filled"].as_u64().unwrap() > 3 * 4096, "more came in with read-ahead: {data}");
    let binary = files.iter().find(|file| file["path"].as_str().unwrap().ends_with("app/part")).unwrap();
    let of_sections: u64 = binary["sections"].as_array().unwrap().iter().map(|it| it["needed"].as_u64().unwrap()).sum();
    assert!(of_sections > 0 && of_sections <= binary["needed"].as_u64().unwrap(), "{binary}");
    assert!(report["totals"]["needed"].as_u64() >= data["needed"].as_u64());
    assert_eq!(json["statistics"]["cells"].as_array().unwrap().len(), 1, "it is no timed run");
    let rows = scratch.thaw(["query", "thaw.thaw", "select count(*), min(position) from touch where engine = 'page'"]);
    rows.exits(0).says("0");
    let without = scratch.thaw(["record", "--force", "--state", "cold", "--runs", "1", "--needed", "no", "--", "true"]);
    without.exits(0);
    let json = scratch.thaw(["report", "thaw.thaw", "--json"]).exits(0).json();
    assert!(json["traces"][0]["report"]["totals"]["needed"].is_null());
    scratch.nothing_left();
}
