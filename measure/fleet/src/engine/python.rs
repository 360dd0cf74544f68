//! Spark and ClickHouse: a Python program that is part of this one gets the question on stdin and prints the rows.

use super::rows::{Cell, Rows};
use crate::segments::{self, Segment};
use model::{Error, Exit, Result, shown};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const SPARK: &str = include_str!("../engines/spark.py");
const CLICKHOUSE: &str = include_str!("../engines/clickhouse.py");
/// Exit code of both programs: what they need is not installed.
const MISSING: i32 = 3;
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How Python is started.
#[derive(Clone, Debug)]
pub struct Python {
    /// The interpreter that has the module of the engine, or `spark-submit`.
    pub program: PathBuf,
}

/// Asks Apache Spark about a folder of segments: an answer to each question, all in one start of it. `master`:
/// `spark://HOST:PORT`; `None`: all CPUs of this machine.
///
/// # Errors
/// Spark or Java is missing (exit code 3); a segment is damaged; Spark says no.
pub fn spark<const N: usize>(
    python: &Python,
    folder: &Path,
    questions: [&str; N],
    master: Option<&str>,
) -> Result<[Rows; N]> {
    ask(python, "Spark", SPARK, folder, questions, master, "python3 -m pip install pyspark; it needs Java 17 or newer")
}

/// Asks ClickHouse, in a Python process with the module chdb, about a folder of segments: an answer to each question.
///
/// # Errors
/// chdb is missing (exit code 3); a segment is damaged; ClickHouse says no.
pub fn clickhouse<const N: usize>(python: &Python, folder: &Path, questions: [&str; N]) -> Result<[Rows; N]> {
    ask(python, "ClickHouse", CLICKHOUSE, folder, questions, None, "python3 -m pip install chdb")
}

fn ask<const N: usize>(
    python: &Python,
    engine: &str,
    script: &str,
    folder: &Path,
    questions: [&str; N],
    master: Option<&str>,
    install: &str,
) -> Result<[Rows; N]> {
    let how = format!("{install}; another Python is named by --python");
    let folder = folder.canonicalize().map_err(|cause| {
        Error::on(Exit::of_unreadable(&cause), "cannot read the folder of segments", folder).because(cause)
    })?;
    let files: Vec<Segment> = segments::list(&folder)?;
    if files.is_empty() {
        return Err(Error::on(Exit::Data, "there is no segment in", &folder));
    }
    let files: Vec<&Path> = files.iter().map(|segment| segment.path.as_path()).collect();
    let question = json!({ "files": files, "questions": &questions[..], "master": master }).to_string();
    let mut command = Command::new(&python.program);
    command.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = std::process::id();
    // SAFETY: prctl and getppid touch no memory and may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // The engine ends when this process does, however that ends.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            match libc::getppid() as u32 == parent {
                true => Ok(()),
                false => Err(std::io::Error::other("its parent is gone")),
            }
        });
    }
    let child = command.spawn().map_err(|cause| {
        let error = Error::on(Exit::Machine, format!("cannot start Python for {engine}:"), &python.program);
        error.because(cause).hint(how.clone())
    })?;
    let (output, complaints, status) = talk(child, question)?;
    let last = last_words(&complaints);
    if status.code() == Some(MISSING) {
        let error = Error::new(Exit::Machine, format!("{engine} is not here for"), shown(&python.program));
        return Err(error.because(last).hint(how));
    }
    if !status.success() {
        let ended = match status.signal() {
            Some(signal) => format!("ended by signal {signal}: {last}"),
            None => last,
        };
        let error = Error::new(Exit::Machine, format!("{engine} cannot answer about"), shown(&folder)).because(ended);
        return Err(error.hint("`thaw fleet import` names damaged segments; move them out of the folder"));
    }
    answers(&output).map_err(|why| Error::new(Exit::Bug, format!("{engine} printed what is no row:"), why))
}

/// Gives the question, takes the answer, and looks for Ctrl-C meanwhile.
fn talk(mut child: Child, question: String) -> Result<(Vec<u8>, Vec<u8>, std::process::ExitStatus)> {
    let pipe = || Error::bug("a child has no pipe");
    let mut stdin = child.stdin.take().ok_or_else(pipe)?;
    let stdout = child.stdout.take().ok_or_else(pipe)?;
    let stderr = child.stderr.take().ok_or_else(pipe)?;
    // It may end before it has read all: its exit code says why.
    let writer = thread::spawn(move || drop(stdin.write_all(question.as_bytes())));
    let read = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let output = read(Box::new(stdout));
    let complaints = read(Box::new(stderr));
    let cannot = |cause| Error::new(Exit::Machine, "cannot wait for the engine", "").because(cause);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if let Err(interrupted) = os::interrupt::check() {
            // What is left of it is gone before this returns.
            child.kill().and_then(|()| child.wait()).map_err(cannot)?;
            return Err(interrupted);
        }
        thread::sleep(LOOK);
    };
    let _ = writer.join();
    let all = |reader: thread::JoinHandle<std::io::Result<Vec<u8>>>| match reader.join() {
        Ok(bytes) => bytes.map_err(cannot),
        Err(_) => Err(Error::bug("a reader of the engine's answer panicked")),
    };
    Ok((all(output)?, all(complaints)?, status))
}

/// The last line that says something: of a Python error the error itself.
fn last_words(complaints: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaints);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it says nothing").trim().chars().take(400).collect()
}

fn answers<const N: usize>(output: &[u8]) -> std::result::Result<[Rows; N], String> {
    let text = std::str::from_utf8(output).map_err(|cause| cause.to_string())?;
    let mut lines = text.lines();
    let answers = (0..N).map(|_| rows(lines.by_ref().take_while(|line| !line.is_empty())));
    let answers: Vec<Rows> = answers.collect::<std::result::Result<_, _>>()?;
    answers.try_into().map_err(|_| "another number of answers".to_owned())
}

fn rows<'a>(mut lines: impl Iterator<Item = &'a str>) -> std::result::Result<Rows, String> {
    let columns = lines.next().ok_or("nothing")?;
    let columns: Vec<String> = serde_json::from_str(columns).map_err(|cause| cause.to_string())?;
    let cell = |value: Value| match value {
        Value::Null => Ok(Cell::Null),
        Value::String(text) => Ok(Cell::Text(text)),
        Value::Number(number) => number.as_i64().map(Cell::Whole).ok_or_else(|| number.to_string()),
        other => Err(other.to_string()),
    };
    let row = |line: &str| {
        let values: Vec<Value> = serde_json::from_str(line).map_err(|cause| cause.to_string())?;
        match values.len() == columns.len() {
            true => values.into_iter().map(cell).collect::<std::result::Result<Vec<_>, _>>(),
            false => Err(line.to_owned()),
        }
    };
    let rows = lines.map(row).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Rows::new(columns, rows))
}
