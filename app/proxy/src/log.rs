//! The access log: Common Log Format, then two times and what the cache did. A thread writes it; nobody waits for the
//! disk: lines that do not fit into its queue are lost and counted.

use crate::metrics::{Metrics, count};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, SystemTime};

/// Lines that wait for the disk.
const QUEUE: usize = 8192;

/// What is told of a request.
#[derive(Debug)]
pub struct Line {
    /// Address of the client.
    pub client: std::net::IpAddr,
    /// When the request came.
    pub at: SystemTime,
    /// The request line, as it was understood.
    pub request: String,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    /// Until the head of the answer was there.
    pub first: Duration,
    /// Until the last byte was handed to the connection.
    pub whole: Duration,
    /// Whether all of the body was.
    pub complete: bool,
    /// What the cache did; `-`: it was not asked.
    pub cache: &'static str,
}

impl Line {
    fn text(&self) -> String {
        let safe: String = self.request.chars().map(|letter| if letter == '"' { '\'' } else { letter }).collect();
        format!(
            "{} - - [{}] \"{safe}\" {} {} {:.6} {:.6} {}{}\n",
            self.client,
            date(self.at),
            self.status,
            self.bytes,
            self.first.as_secs_f64(),
            self.whole.as_secs_f64(),
            self.cache,
            if self.complete { "" } else { " cut" }
        )
    }
}

/// `25/Nov/2026:15:00:00 +0000`: days of the proleptic Gregorian calendar from days since 1970.
fn date(at: SystemTime) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0000", days + 1, MONTHS[month])
}

/// The log.
pub struct Log {
    lines: Option<SyncSender<String>>,
    metrics: Arc<Metrics>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Log {
    /// Appends to a file that its owner alone may read, made when it is missing.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let (lines, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("access-log".into()).spawn(move || write(file, &receiver))?;
        Ok(Self { lines: Some(lines), metrics, thread: Some(thread) })
    }

    /// Tells of a request.
    pub fn tell(&self, line: &Line) {
        if let Some(lines) = &self.lines
            && lines.try_send(line.text()).is_err()
        {
            count(&self.metrics.lost_lines);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(file: File, lines: &Receiver<String>) {
    let mut out = BufWriter::new(file);
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // A full disk loses lines, and no request.
                let _ = out.flush();
                match lines.recv() {
                    Ok(line) => line,
                    Err(_) => break,
                }
            }
        };
        let _ = out.write_all(line.as_bytes());
    }
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(at(951_827_696), "29/Feb/2000:12:34:56 +0000");
        assert_eq!(at(1_798_761_599), "31/Dec/2026:23:59:59 +0000");
    }
}
