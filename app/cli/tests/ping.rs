//! `thaw ping`: the program is as without it, and its start is told of only where its user has agreed.

use crate::scratch::{Mortal, Said, Scratch};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program that says who it is, is ready after its file is there, and ends when its input does.
fn program(scratch: &Scratch) -> String {
    let ready = scratch.path("ready");
    let body = format!("echo \"$$ $PPID\"\n: > {0}\ncat\nwait\nrm -f {0}\nexit 7", ready.display());
    scratch.script("app", &body);
    format!("file:{}", ready.display())
}

/// Starts it; its input stays open until a ping is there, or for `patience`.
fn start(scratch: &Scratch, ready: &str, more: &[&str], patience: Option<Duration>) -> (u32, Output) {
    let mut command = scratch.command();
    command.env("THAW_PINGS", scratch.path("pings"));
    command.args(["ping", "--app", "app", "--app-version", "1.2", "--ready", ready]).args(more).args(["--", "./app"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let until = patience.map(|patience| Instant::now() + patience);
    while pings(scratch).is_empty() && until.is_none_or(|until| Instant::now() < until) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A program that has ended reads nothing.
    let _ = child.stdin.take().unwrap().write_all(b"hello\n");
    (pid, child.wait_with_output().unwrap())
}

fn pings(scratch: &Scratch) -> Vec<Value> {
    let mut command = scratch.command();
    command.env("THAW_PINGS", scratch.path("pings")).args(["ping", "--app", "app", "--show"]);
    let said = command.output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let lines = String::from_utf8(said.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn agree(scratch: &Scratch, how: &str) {
    let mut command = scratch.command();
    command.env("THAW_PINGS", scratch.path("pings")).args(["ping", "--app", "app", how]);
    assert!(command.status().unwrap().success());
}

/// What it printed, and how it ended.
fn is_as_without(pid: u32, said: &Output) {
    let text = String::from_utf8_lossy(&said.stdout);
    // It has the number that thaw had, and thaw's parent.
    assert_eq!(text, format!("{pid} {}\nhello\n", std::process::id()), "{said:?}");
    assert_eq!((said.status.code(), &said.stderr[..]), (Some(7), &b""[..]), "{said:?}");
}

#[test]
fn without_agreement_a_program_is_only_started() {
    let scratch = Scratch::new();
    let ready = program(&scratch);
    let (pid, said) = start(&scratch, &ready, &[], Some(Duration::from_millis(200)));
    is_as_without(pid, &said);
    assert!(!scratch.path("pings").exists(), "nothing was written");
}

#[test]
fn with_agreement_one_line_is_kept_that_tells_of_the_start_and_of_nobody() {
    let scratch = Scratch::new();
    let ready = program(&scratch);
    agree(&scratch, "--enable");
    let (pid, said) = start(&scratch, &ready, &["--remedy", "preload,packed,preload"], None);
    is_as_without(pid, &said);
    let [ping] = &pings(&scratch)[..] else { panic!("{:?}", pings(&scratch)) };
    assert_eq!(
        (&ping["schema"], &ping["app"], &ping["version"]),
        (&"thaw.ping/1".into(), &"app".into(), &"1.2".into())
    );
    assert_eq!(ping["remedies"], serde_json::json!(["packed", "preload"]));
    assert_eq!((&ping["ready"], &ping["milestones"]), (&"file".into(), &serde_json::json!({})));
    assert!(ping["wall_us"].as_u64().unwrap() > 0 && ping["max_rss_bytes"].as_u64().unwrap() > 100_000);
    // A shell with a line to say, not the thaw that it was before.
    assert!(ping["minor_faults"].as_u64().unwrap() < 700, "{ping}");
    let text = ping.to_string().replace("thaw.ping/1", "");
    assert!(!text.contains('/'), "a path in {text}");
    agree(&scratch, "--forget");
    assert!(pings(&scratch).is_empty() && !scratch.path("pings/app").exists());
}

#[test]
fn whatever_is_wrong_the_program_starts() {
    let scratch = Scratch::new();
    program(&scratch);
    agree(&scratch, "--enable");
    let patience = Some(Duration::from_millis(200));
    for (ready, why) in [("line:x", "natural start"), ("nonsense", "nonsense")] {
        let (_, said) = start(&scratch, ready, &[], patience);
        assert_eq!(said.status.code(), Some(7), "{said:?}");
        assert!(String::from_utf8_lossy(&said.stderr).contains(why), "{said:?}");
    }
    let spool = scratch.path("app");
    let (_, said) = start(&scratch, "notify", &["--spool", spool.to_str().unwrap()], patience);
    assert_eq!(said.status.code(), Some(7), "{said:?}");
    scratch.thaw(["ping", "--app", "Wrong", "--enable"]).exits(2).complains("Wrong");
    scratch.thaw(["ping", "--app", "app"]).exits(2);
    let missing = Command::new(scratch.command().get_program())
        .args(["ping", "--app", "app", "--ready", "notify", "--", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

#[test]
fn nobody_is_left_behind_when_a_program_ends_before_it_is_ready() {
    let scratch = Scratch::new();
    scratch.script("app", "echo started");
    agree(&scratch, "--enable");
    let never = format!("file:{}", scratch.path("never").display());
    let (_, said) = start(&scratch, &never, &[], Some(Duration::from_millis(100)));
    assert!(said.status.success(), "{said:?}");
    let word = scratch.path("never").display().to_string();
    let looks = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&word)).count()
    };
    // It sees the end of the program when the kernel has told it.
    while looks() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(pings(&scratch).is_empty());
}

fn send(scratch: &Scratch, to: &str) -> Said {
    let spool = scratch.path("pings");
    scratch.thaw(["fleet", "send", "--to", to, "--spool", spool.to_str().unwrap()])
}

#[test]
fn a_ping_comes_from_the_start_to_a_sealed_segment() {
    let scratch = Scratch::new();
    let beside = Command::new(scratch.command().get_program()).get_program().to_owned();
    if !std::path::Path::new(&beside).with_file_name("thaw-fleet").exists() {
        return testing::skip("thaw-fleet is not built beside thaw: cargo build -p thawlab-fleet");
    }
    let ready = program(&scratch);
    agree(&scratch, "--enable");
    start(&scratch, &ready, &[], None);
    let ping = pings(&scratch).remove(0);
    // Nobody is there: it stays.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    send(&scratch, &format!("http://{free}")).exits(3).complains("sent later");
    // Another server, whose 200 means nothing: it stays.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = other.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        });
        send(&scratch, &format!("http://{address}")).exits(5);
    });
    assert_eq!(pings(&scratch), std::slice::from_ref(&ping));
    send(&scratch, "http://pings.example").exits(2).complains("https only");
    // The collector.
    let mut command = scratch.command();
    command.args(["fleet", "collect", "collected"]).stdout(Stdio::piped());
    let mut collector = Mortal(command.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(collector.0.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    send(&scratch, url.trim()).exits(0).says("1 sent, 0 of them refused");
    assert!(pings(&scratch).is_empty(), "what is acknowledged is removed");
    send(&scratch, url.trim()).exits(0).says("0 sent");
    assert!(Command::new("kill").arg(collector.0.id().to_string()).status().unwrap().success());
    assert!(collector.0.wait().unwrap().success());
    scratch.thaw(["fleet", "import", "collected", "-o", "fleet.db"]).exits(0);
    let document = scratch.thaw(["fleet", "query", "versions", "fleet.db", "--k", "1", "--json"]).exits(0).json();
    assert!(document.to_string().contains("\"1.2\""), "{document}");
}
