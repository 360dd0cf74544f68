//! `--user`, `--as-root` and sudo: root measures, and the program runs as a user, with the user's rights and none of
//! root's session.

use crate::scratch::{Said, Scratch, alone};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use testing::SECOND_USER;

/// A scratch folder that every user reaches, with a folder `theirs` of the second user; `None`, counted as skipped: not
/// root.
fn shared() -> Option<Scratch> {
    if !testing::root_or_skip() {
        return None;
    }
    let scratch = Scratch::new();
    for name in ["", "run"] {
        std::fs::set_permissions(scratch.path(name), Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(scratch.path("theirs")).unwrap();
    std::os::unix::fs::chown(scratch.path("theirs"), Some(SECOND_USER), Some(SECOND_USER)).unwrap();
    Some(scratch)
}

/// A script that writes down as whom it runs.
fn witness(scratch: &Scratch) -> PathBuf {
    scratch.script(
        "witness",
        "{ grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff):' /proc/self/status; echo HOME=$HOME; echo USER=$USER; \
         echo CONFIG=$XDG_CONFIG_HOME; echo SUDO=$SUDO_UID; pwd; } > theirs/seen.new\n\
         echo opened > /dev/stdout && echo opened > /dev/stderr && echo streams opened >> theirs/seen.new\n\
         mv theirs/seen.new theirs/seen",
    )
}

fn seen(scratch: &Scratch) -> String {
    let seen = std::fs::read_to_string(scratch.path("theirs/seen")).unwrap();
    std::fs::remove_file(scratch.path("theirs/seen")).unwrap();
    seen.replace('\t', " ")
}

fn is_the_second_users(seen: &str) {
    for line in [
        "Uid: 65534 65534 65534 65534",
        "Gid: 65534 65534 65534 65534",
        "Groups: 65534",
        "NoNewPrivs: 0",
        "CapEff: 0000000000000000",
        "HOME=/nonexistent",
        "USER=nobody",
        "CONFIG=\n",
        "SUDO=\n",
    ] {
        assert!(seen.contains(line), "no {line:?} in\n{seen}");
    }
}

/// thaw as sudo would start it for the second user.
fn sudo(scratch: &Scratch, words: &[&str]) -> Said {
    let mut command = scratch.command();
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody").args(words);
    Said::of(command)
}

const HOT: [&str; 9] = ["record", "--state", "hot", "--runs", "1", "--needed", "no", "--engine", "probe"];

#[test]
fn under_sudo_a_program_runs_as_who_called_and_so_are_its_files() {
    let Some(scratch) = shared() else { return };
    let _machine = alone();
    let witness = witness(&scratch);
    let witness = witness.to_str().unwrap();
    sudo(&scratch, &[&HOT[..], &["-o", "a.thaw", "--", witness]].concat()).exits(0);
    let said = seen(&scratch);
    is_the_second_users(&said);
    assert!(said.contains("streams opened"), "{said}");
    assert_eq!(scratch.path("a.thaw").metadata().unwrap().uid(), SECOND_USER, "the recording is the caller's");

    let asked = &[&HOT[..], &["-o", "b.thaw", "--as-root", "--", witness]].concat();
    sudo(&scratch, asked).exits(0);
    let said = seen(&scratch);
    assert!(said.contains("Uid: 0 0 0 0") && said.contains(scratch.path("config").to_str().unwrap()), "{said}");
    let notes = scratch.thaw(["compare", "a.thaw", "b.thaw"]);
    let notes = format!("{}{}", notes.out(), notes.err()).replace('\n', " ");
    assert!(notes.contains("the user differs: nobody before, root after"), "{notes}");
}

#[test]
fn every_verb_that_starts_a_program_starts_it_as_the_user() {
    let Some(scratch) = shared() else { return };
    let _machine = alone();
    let witness = witness(&scratch);
    let witness = witness.to_str().unwrap();
    let user = ["--user", "nobody", "--", witness];
    scratch.thaw([&HOT[..], &["-o", "a.thaw"], &user].concat()).exits(0);
    is_the_second_users(&seen(&scratch));
    scratch.thaw([&["memory", "watch", "-o", "a.memory"][..], &user].concat()).exits(0);
    is_the_second_users(&seen(&scratch));
    scratch.thaw([&["preload", "run", "none.preload"][..], &user].concat()).exits(0);
    is_the_second_users(&seen(&scratch));
    scratch.thaw([&["touch", "--engine", "probe", "-o", "b.thaw"][..], &user].concat()).exits(0);
    is_the_second_users(&seen(&scratch));
}

#[test]
fn users_that_cannot_be_are_refused() {
    let Some(scratch) = shared() else { return };
    let wrong = |words: &[&str]| scratch.thaw([&HOT[..], words, &["--", "true"]].concat());
    wrong(&["--user", "no such user"]).exits(2).complains("there is no user").hints("getent passwd");
    wrong(&["--user", "nobody", "--as-root"]).exits(2);
    wrong(&["--user", "nobody", "--restore", "config"]).exits(2).complains("it belongs to user 0");
    let lies = |name: &str, value: &str| {
        let mut command = scratch.command();
        command.env("SUDO_UID", "65534").env("SUDO_USER", "nobody").env(name, value).args(HOT).args(["--", "true"]);
        Said::of(command)
    };
    lies("SUDO_USER", "root").exits(2).complains("SUDO_USER says root").hints("--as-root");
    lies("SUDO_UID", "54321").exits(2).complains("has no user 54321");
    lies("SUDO_UID", "x").exits(2).complains("no number");
    let Some(said) = scratch.thaw_as_nobody(["record", "--state", "hot", "--user", "root", "--", "true"]) else {
        return;
    };
    said.exits(3).complains("only root").hints("sudo");
}

#[test]
fn directories_that_thaw_makes_are_the_users() {
    let Some(scratch) = shared() else { return };
    let _machine = alone();
    let program = scratch.script(
        "program",
        "stat -c '%u %a' \"$1\" > theirs/seen.new; touch \"$1/mine\"; mv theirs/seen.new theirs/seen",
    );
    let words = ["-o", "a.thaw", "--user", "nobody", "--", program.to_str().unwrap(), "{profile}"];
    scratch.thaw([&HOT[..], &words].concat()).exits(0);
    assert_eq!(seen(&scratch).trim(), "65534 755");
    scratch.nothing_left();
}

/// Processes of the second user in a seccomp sandbox and in namespaces of their own: whether there are some.
fn sandboxed() -> bool {
    let is_one = |status: &str| {
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        value("Uid:").split_whitespace().next() == Some("65534")
            && value("Seccomp:").trim() == "2"
            && value("NSpid:").split_whitespace().count() > 1
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .any(|status| is_one(&status))
}

#[test]
fn a_browser_has_its_sandbox_as_a_user() {
    let Some(scratch) = shared() else { return };
    if !Path::new("/usr/bin/chromium").exists() {
        return testing::skip("needs chromium");
    }
    let namespaces =
        Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "unshare", "-Ur", "true"]).status();
    if !namespaces.is_ok_and(|status| status.success()) {
        return testing::skip("needs user namespaces for ordinary users");
    }
    let _machine = alone();
    let over = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut found = false;
            while !over.load(Ordering::Relaxed) {
                found |= sandboxed();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            found
        });
        let said = scratch.thaw([&HOT[..], &["-o", "a.thaw", "--user", "nobody", "--app", "chromium"]].concat());
        over.store(true, Ordering::Relaxed);
        said.exits(0);
        looks.join().unwrap()
    });
    assert!(found, "no process of the browser was in a sandbox");
    let words = scratch.thaw(["query", "a.thaw", "select * from arguments"]).exits(0).out();
    assert!(words.contains("--user-data-dir") && !words.contains("--no-sandbox"), "{words}");
}
