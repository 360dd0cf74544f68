//! Building and running the programs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// This room.
pub fn room() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of C, with the library in it. `None`: counted as skipped, there is no compiler.
pub fn compiled(folder: &TempDir, source: &str, more: &[&str]) -> Option<PathBuf> {
    let program = folder.path().join("program");
    let compiler = [&["cc", "-std=c11", "-O1"], more].concat();
    testing::linked(&compiler, room(), source, "libthaw_cache.a", &program).then_some(program)
}

/// A program that answers each line of its input with one.
pub struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

/// What it says of something fetched.
#[derive(Debug, PartialEq)]
pub struct Fetched {
    /// 200.
    pub status: u16,
    /// `store`, `origin`, `cache`, `nowhere`.
    pub from: String,
    /// All fields.
    pub fields: String,
    /// The body.
    pub body: String,
    /// `stored`, `dropped`, `aborted`, `-`.
    pub kept: String,
}

impl Fetched {
    /// Status, where it is from, its body, whether it was stored.
    pub fn brief(&self) -> (u16, &str, &str, &str) {
        (self.status, &self.from, &self.body, &self.kept)
    }
}

impl Client {
    /// Starts it.
    pub fn start(command: &mut Command) -> Client {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, to, from }
    }

    /// Hands a line over, and does not wait.
    pub fn send(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{line}\n").as_bytes()).and_then(|()| to.flush()).unwrap();
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it ended after: {line:?}");
        line.pop();
        line
    }

    /// What comes of a line.
    pub fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    /// What comes of a line that fetches.
    pub fn fetch(&mut self, line: &str) -> Fetched {
        let said = self.say(line);
        let parts: Vec<&str> = said.split('\t').collect();
        let [status, from, fields, body, kept] = parts[..] else { panic!("{line}: {said:?}") };
        let [from, fields, body, kept] = [from, fields, body, kept].map(str::to_owned);
        Fetched { status: status.parse().unwrap(), from, fields, body, kept }
    }

    /// Ends it in good order.
    pub fn end(mut self) {
        drop(self.to.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
