//! What is read of a ping, by anybody's bytes: the schema and nothing else.

use ping::{Cpus, Day, Disk, Memory, Ping, Ready, Reason, Remedy, SCHEMA, State};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

fn today() -> Day {
    Day::parse("2026-06-15").unwrap()
}

fn sample() -> Ping {
    Ping {
        schema: SCHEMA.into(),
        id: "0123456789abcdef0123456789abcdef".into(),
        machine: "fedcba9876543210fedcba9876543210".into(),
        app: "firefox".into(),
        version: "128.0.1+build2".into(),
        day: "2026-06-15".into(),
        state: State::Hot,
        ready: Ready::Exit,
        wall_us: 1_234_567,
        user_us: 900_000,
        system_us: 300_000,
        minor_faults: 40_000,
        major_faults: 2,
        read_bytes: Some(4096),
        max_rss_bytes: 300 << 20,
        milestones: [("first_paint".to_owned(), 600_000)].into(),
        cpus: Cpus::of(2),
        memory: Memory::From8,
        disk: Disk::Nvme,
        kernel: "6.18".into(),
        distribution: "debian".into(),
        remedies: vec![Remedy::Archive, Remedy::Preload],
    }
}

fn with(field: &str, value: Value) -> Result<Ping, ping::Refused> {
    let mut ping = serde_json::to_value(sample()).unwrap();
    ping[field] = value;
    Ping::parse(ping.to_string().as_bytes(), today())
}

#[test]
fn every_field_has_to_be_there_and_no_other() {
    let whole = serde_json::to_value(sample()).unwrap();
    let names: Vec<&String> = whole.as_object().unwrap().keys().collect();
    assert_eq!(names.len(), ping::fields().len());
    for name in names {
        let mut less = whole.clone();
        less.as_object_mut().unwrap().remove(name);
        let refused = Ping::parse(less.to_string().as_bytes(), today()).unwrap_err();
        assert_eq!(refused.reason, Reason::Form, "{name}");
        assert!(refused.why.contains(name.as_str()), "{refused}");
    }
    assert_eq!(with("hostname", json!("x")).unwrap_err().reason, Reason::Form);
    let twice = sample().to_line().replacen('{', r#"{"app":"x","#, 1);
    assert_eq!(Ping::parse(twice.as_bytes(), today()).unwrap_err().reason, Reason::Form);
    let array = Value::Array(whole.as_object().unwrap().values().cloned().collect());
    assert_eq!(Ping::parse(array.to_string().as_bytes(), today()).unwrap_err().reason, Reason::Form);
}

#[test]
fn other_versions_are_told_which_one_is_read() {
    for old in ["thaw.ping/0", "thaw.ping/2", "other"] {
        let whole = with("schema", json!(old)).unwrap_err();
        let refused = Ping::parse(format!(r#"{{"schema":"{old}","new":1}}"#).as_bytes(), today()).unwrap_err();
        for refused in [whole, refused] {
            assert_eq!(refused.reason, Reason::Schema);
            assert!(refused.why.contains(old) && refused.why.contains("thaw.ping/1 is"), "{refused}");
        }
    }
}

#[test]
fn a_clock_that_is_off_is_named() {
    for (day, years) in [("2016-06-15", true), ("2019-12-31", true), ("2029-01-01", true), ("2026-06-18", false)] {
        let refused = with("day", json!(day)).unwrap_err();
        assert_eq!(refused.reason, Reason::Day);
        assert_eq!(refused.why.contains("its clock is off by years"), years, "{refused}");
    }
    for day in ["2020-01-01", "2026-06-17"] {
        assert_eq!(with("day", json!(day)).unwrap().day, day);
    }
    assert_eq!(with("day", json!("2026-02-30")).unwrap_err().reason, Reason::Day);
}

#[test]
fn every_bound_holds() {
    for (field, value) in [
        ("id", json!("0123456789ABCDEF0123456789abcdef")),
        ("id", json!("0123")),
        ("machine", json!("")),
        ("app", json!("../etc")),
        ("app", json!(".x")),
        ("app", json!("a/b")),
        ("app", json!("a".repeat(33))),
        ("version", json!("/home/me")),
        ("version", json!("")),
        ("kernel", json!("6.18.1-me")),
        ("kernel", json!("06.1")),
        ("distribution", json!("My Linux")),
        ("wall_us", json!(86_400_000_001_u64)),
        ("user_us", json!(u64::MAX)),
        ("system_us", json!(u64::MAX)),
        ("minor_faults", json!((1_u64 << 40) + 1)),
        ("major_faults", json!((1_u64 << 40) + 1)),
        ("read_bytes", json!((1_u64 << 50) + 1)),
        ("max_rss_bytes", json!((1_u64 << 50) + 1)),
        ("milestones", json!({ "a b": 1 })),
        ("milestones", json!({ "late": 86_400_000_001_u64 })),
        ("milestones", json!({ "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1 })),
        ("remedies", json!(["preload", "archive"])),
        ("remedies", json!(["preload", "preload"])),
    ] {
        let refused = with(field, value.clone()).expect_err(&format!("{field}: {value}"));
        assert_eq!(refused.reason, Reason::Bounds, "{field}: {refused}");
    }
    for (field, value) in [
        ("state", json!("lukewarm")),
        ("state", json!({ "cold": null })),
        ("wall_us", json!(-1)),
        ("wall_us", json!(1.5)),
        ("wall_us", json!("1")),
        ("milestones", json!({ "a": null })),
        ("remedies", json!(["magic"])),
        ("cpus", json!(2)),
    ] {
        assert_eq!(with(field, value).unwrap_err().reason, Reason::Form, "{field}");
    }
    assert_eq!(with("read_bytes", Value::Null).unwrap().read_bytes, None);
    let long = format!("{}{}", sample().to_line().trim_end(), " ".repeat(4096));
    assert_eq!(Ping::parse(long.as_bytes(), today()).unwrap_err().reason, Reason::Length);
}

#[test]
fn the_schema_that_is_handed_out_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ping.schema.json");
    if std::env::var_os("THAW_WRITE").is_some() {
        std::fs::write(&path, ping::document()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept == ping::document(), "docs/ping.schema.json is another one: THAW_WRITE=1 cargo test -p ping");
    let schema: Value = serde_json::from_str(&kept).unwrap();
    for (name, field) in schema["properties"].as_object().unwrap() {
        assert!(field["description"].as_str().is_some_and(|why| why.ends_with('.')), "{name}: why is it there?");
    }
}

/// Small changes of a line: bytes that are changed, taken out, put in, moved.
fn mutate(line: &mut Vec<u8>, mut random: impl FnMut() -> u64) {
    const TOKENS: [&[u8]; 8] = [b"\"", b"{", b"}", b"null", b"-1", b"1e9", b"\\u0000", b"\xff"];
    for _ in 0..=random() % 4 {
        let at = random() as usize % line.len().max(1);
        match random() % 5 {
            0 if !line.is_empty() => line[at] = random() as u8,
            1 if !line.is_empty() => drop(line.remove(at)),
            2 => drop(line.splice(at..at, TOKENS[random() as usize % TOKENS.len()].iter().copied())),
            3 => line.truncate(at),
            _ => {
                let to = (at + random() as usize % 40).min(line.len());
                let part = line[at.min(to)..to].to_vec();
                line.extend(part);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_hostile_lines_are_refused_or_good() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let (mut good, mut bad) = (0_u32, 0_u32);
    for _ in 0..100_000 {
        let mut line = sample().to_line().into_bytes();
        mutate(&mut line, &mut random);
        match Ping::parse(&line, today()) {
            Ok(ping) => {
                good += 1;
                assert_eq!(Ping::parse(ping.to_line().as_bytes(), today()), Ok(ping));
            }
            Err(refused) => {
                bad += 1;
                assert!(refused.why.len() <= 1000 && !refused.why.contains('\n'), "{refused}");
            }
        }
    }
    assert!(good > 100 && bad > 50_000, "{good} good, {bad} bad: the changes test nothing");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        id in "[0-9a-f]{32}", app in "[a-z0-9][a-z0-9._-]{0,31}", version in "[A-Za-z0-9][A-Za-z0-9._+~-]{0,31}",
        wall_us in 0..=86_400_000_000_u64, read_bytes in proptest::option::of(0..=1_u64 << 50), days in 0..2_000_i64,
        milestones in proptest::collection::btree_map("[a-z0-9_-]{1,32}", 0..=86_400_000_000_u64, 0..=8),
        remedies in proptest::sample::subsequence(Remedy::ALL.to_vec(), 0..=Remedy::ALL.len()),
        state in proptest::sample::select(State::ALL), ready in proptest::sample::select(Ready::ALL),
    ) {
        let day = today().plus(-days).to_string();
        let ping = Ping { id, app, version, wall_us, read_bytes, day, milestones, remedies, state, ready, ..sample() };
        let line = ping.to_line();
        prop_assert!(line.len() <= ping::MOST_BYTES && line.ends_with('\n') && line.matches('\n').count() == 1);
        prop_assert_eq!(Ping::parse(line.as_bytes(), today()), Ok(ping));
    }
}
