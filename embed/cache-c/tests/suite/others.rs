//! The cache from Python and Node: `example/client.py`, `example/addon.c` and `example/client.js`.

use crate::origin::{Origin, Request, response};
use crate::programs::room;
use std::path::Path;
use std::process::Command;

fn answer(request: &Request, before: usize) -> Vec<u8> {
    match request.path.as_str() {
        "/tagged" if request.field("if-none-match") == "\"t\"" => {
            response("304 Not Modified", "ETag: \"t\"\r\nConnection: close\r\n", "")
        }
        "/tagged" => response("200 OK", "ETag: \"t\"\r\nCache-Control: no-cache\r\nConnection: close\r\n", "tag"),
        "/private" => response("200 OK", "Cache-Control: no-store\r\nConnection: close\r\n", "mine"),
        _ => response("200 OK", "Cache-Control: max-age=60\r\nConnection: close\r\n", &format!("fresh {before}")),
    }
}

/// What a program says of the same fetches, twice; the second time in a new process.
fn holds(start: impl Fn(&Path) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(answer);
    let say = |paths: &[&str]| -> String {
        let mut command = start(&folder.path().join("cache"));
        let said = command.args(paths.iter().map(|path| origin.url(path))).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    let first = say(&["/fresh", "/fresh", "/tagged", "/tagged", "/private"]);
    assert_eq!(first, "200 stored fresh 0\n200 store fresh 0\n200 stored tag\n200 store tag\n200 origin mine\n");
    let second = say(&["/fresh", "/tagged"]);
    assert_eq!(second, "200 store fresh 0\n200 store tag\n");
    let asked: Vec<bool> = origin.log().iter().map(|request| !request.field("if-none-match").is_empty()).collect();
    assert_eq!(asked, [false, false, true, false, true]);
}

#[test]
fn python_calls_it_through_ctypes() {
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return testing::skip("needs /usr/bin/python3");
    }
    holds(|cache| {
        let mut command = Command::new(python);
        command.arg(room().join("example/client.py")).arg(testing::library("libthaw_cache.so")).arg(cache);
        command
    });
}

#[test]
fn node_calls_it_through_an_addon() {
    let Ok(node) = Command::new("node").args(["-p", "process.execPath"]).output() else {
        return testing::skip("needs node");
    };
    let node = String::from_utf8(node.stdout).unwrap();
    let include = Path::new(node.trim()).parent().unwrap().join("../include/node");
    if !include.join("node_api.h").exists() {
        return testing::skip(&format!("needs Node's headers in {}", include.display()));
    }
    let folder = tempfile::tempdir().unwrap();
    let addon = folder.path().join("thaw_cache.node");
    let mut cc = Command::new("cc");
    // Node's own headers are not C11 without extensions.
    cc.args(["-Wall", "-Wextra", "-Werror", "-std=gnu11", "-shared", "-fPIC", "-I"]).arg(room().join("include"));
    cc.arg("-isystem").arg(include).arg(room().join("example/addon.c"));
    cc.arg(testing::library("libthaw_cache.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&addon);
    if !testing::compiled(&mut cc) {
        return;
    }
    holds(|cache| {
        let mut command = Command::new("node");
        command.arg(room().join("example/client.js")).arg(&addon).arg(cache);
        command
    });
}
