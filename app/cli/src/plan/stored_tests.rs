//! What is typed, as a recording keeps it and another process of thaw reads it.

use crate::args::{Args, Verb};
use clap::Parser;
use model::Result;
use recording::Replace;
use recording::plan::Plan;
use std::path::PathBuf;
use work::plan::stored::{Errand, Progress, stored};
use work::plan::{Asked, RecordPlan};

fn understood(plan: Plan, asked: Asked, output: PathBuf) -> Result<RecordPlan> {
    let plan = work::plan::stored::understood(plan, asked, output)?;
    Ok(RecordPlan { command_line: std::env::args_os().collect(), ..plan })
}

fn typed(words: &[&str]) -> RecordPlan {
    let args = Args::try_parse_from(["thaw", "record", "-o", "x.thaw"].iter().chain(words)).unwrap();
    let Verb::Record(args) = args.verb else { panic!("not record") };
    super::record(*args).unwrap()
}

#[test]
fn a_stored_plan_means_what_was_typed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("base.list");
    std::fs::write(&list, "/bin/sh\n").unwrap();
    let list = list.to_str().unwrap();
    let lines: [&[&str]; 8] = [
        &["--", "true"],
        &["--base", &format!("a={list}"), "--base", list, "--state", "cold,boot", "--", "true"],
        &["--app", "firefox-esr", "--ready", "beacon", "--", "https://example.org"],
        &["--state", "hot", "--variant", "other=sh -c 'exit 3'", "--ok-exit", "0-3", "--pty", "--", "sh", "-c", ":"],
        &["--disk", "quick:laptop2010", "--disk-include", "/opt/x", "--disk-image", "/var/tmp", "--", "true"],
        &["--disk", "throttle:iops=200,bps=30M", "--readahead", "64K", "--cpu", "steady", "--", "true"],
        &["--precision", "2%", "--max-runs", "40", "--budget", "90s", "--warmup", "3", "--seed", "5", "--", "true"],
        &[
            "--base",
            list,
            "--own",
            "/srv",
            "--restore",
            "/p",
            "--setup",
            "a",
            "--cleanup",
            "b",
            "--wait",
            "0",
            "--",
            "x",
        ],
    ];
    for line in lines {
        let plan = typed(line);
        let text = serde_json::to_string(&stored(&plan)).unwrap();
        let read = understood(serde_json::from_str(&text).unwrap(), plan.asked.clone(), plan.output.clone());
        assert_eq!(format!("{:#?}", read.unwrap()), format!("{plan:#?}"), "{line:?}");
    }
}

#[test]
fn words_of_a_later_thaw_are_refused() {
    let plan = typed(&["--", "true"]);
    let refused = |change: fn(&mut Plan)| {
        let mut stored = stored(&plan);
        change(&mut stored);
        understood(stored, Asked::default(), "x".into()).unwrap_err()
    };
    assert!(refused(|plan| plan.engine = "ebpf".into()).to_string().contains("ebpf"));
    assert!(refused(|plan| plan.needed = "twice".into()).to_string().contains("twice"));
    assert!(refused(|plan| plan.programs[0].ready = vec!["soon".into()]).to_string().contains("soon"));
}

#[test]
fn an_errand_replaces_the_recording_and_says_whether_to_speak() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errand.json");
    Errand::of(&typed(&["--", "true"]), Progress::Quiet).write(&file).unwrap();
    let errand = Errand::read(&file).unwrap();
    assert_eq!(errand.progress, Progress::Quiet);
    let plan = errand.plan().unwrap();
    assert_eq!((plan.replace, plan.output), (Replace::Recording, "x.thaw".into()));
    std::fs::write(&file, "{}").unwrap();
    assert!(Errand::read(&file).unwrap_err().to_string().contains("cannot read the plan"));
}
