//! Questions to a browser and its answers, as JSON: CDP and WebDriver BiDi number them in the same way, and tell of
//! events in between. Which words they use is for `drive` to know.

use crate::websocket::WebSocket;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Events that are kept if nobody takes them; older ones go.
const KEPT: usize = 10_000;

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// The time is over.
    Late,
    /// Ctrl-C.
    Interrupted,
    /// The connection is.
    Gone(io::Error),
    /// The browser says no, in its words.
    Refused(String),
}

/// Where messages go.
#[derive(Debug)]
pub enum Wire {
    /// Two pipes, messages end with a zero byte: `--remote-debugging-pipe`. Nobody else can come in there.
    Pipes {
        /// What the browser reads.
        to: File,
        /// What it writes.
        from: File,
        /// What came and is no whole message yet.
        buffer: Vec<u8>,
    },
    /// A WebSocket.
    Socket(WebSocket),
}

impl Wire {
    fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Pipes { to, .. } => to.write_all(format!("{text}\0").as_bytes()),
            Self::Socket(socket) => socket.send(text),
        }
    }

    fn take(&mut self) -> io::Result<Option<String>> {
        match self {
            Self::Pipes { buffer, .. } => {
                let Some(end) = buffer.iter().position(|byte| *byte == 0) else { return Ok(None) };
                let message = String::from_utf8_lossy(&buffer[..end]).into_owned();
                buffer.drain(..=end);
                Ok(Some(message))
            }
            Self::Socket(socket) => socket.take(),
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        match self {
            Self::Pipes { from, buffer, .. } => {
                let mut piece = [0; 65_536];
                match from.read(&mut piece)? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    read => {
                        buffer.extend_from_slice(&piece[..read]);
                        Ok(())
                    }
                }
            }
            Self::Socket(socket) => socket.fill(),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipes { from, .. } => from.as_fd(),
            Self::Socket(socket) => socket.fd(),
        }
    }
}

/// A conversation.
#[derive(Debug)]
pub struct Talk {
    wire: Wire,
    next: u64,
    events: VecDeque<Value>,
}

impl Talk {
    /// Begins one.
    pub fn new(wire: Wire) -> Self {
        Self { wire, next: 1, events: VecDeque::new() }
    }

    /// Asks and waits for the answer. `session`: of which page, where one connection serves several (CDP).
    ///
    /// # Errors
    /// No answer until then, or a refusal.
    pub fn ask(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
        until: Instant,
    ) -> Result<Value, Trouble> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.wire.send(&message.to_string()).map_err(Trouble::Gone)?;
        loop {
            let mut answer = self.receive(until)?;
            if answer["id"] == id {
                // CDP: {"error": {"message"}}; BiDi: {"type": "error", "error": KIND, "message"}.
                return match (&answer["error"], &answer["message"]) {
                    (Value::Null, _) => Ok(answer["result"].take()),
                    (_, Value::String(message)) => Err(Trouble::Refused(message.clone())),
                    (error, _) => {
                        let text = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
                        Err(Trouble::Refused(text))
                    }
                };
            }
            // Answers to questions that nobody waits for any more are no events.
            if answer["method"].is_string() {
                self.events.push_back(answer);
                if self.events.len() > KEPT {
                    self.events.pop_front();
                }
            }
        }
    }

    /// Forgets the events that came until now.
    pub fn forget(&mut self) {
        self.events.clear();
    }

    /// Waits for an event of this page.
    ///
    /// # Errors
    /// It did not come until then.
    pub fn event(&mut self, session: &str, method: &str, until: Instant) -> Result<(), Trouble> {
        let is_it = |event: &Value| event["method"] == method && event["sessionId"] == session;
        if let Some(place) = self.events.iter().position(is_it) {
            self.events.drain(..=place);
            return Ok(());
        }
        loop {
            if is_it(&self.receive(until)?) {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, until: Instant) -> Result<Value, Trouble> {
        loop {
            if let Some(text) = self.wire.take().map_err(Trouble::Gone)? {
                return serde_json::from_str(&text).map_err(|error| Trouble::Gone(error.into()));
            }
            wait(self.wire.fd(), until)?;
            self.wire.fill().map_err(Trouble::Gone)?;
        }
    }
}

/// Waits until there is something to read.
///
/// # Errors
/// The time is over, or Ctrl-C.
pub fn wait(fd: BorrowedFd<'_>, until: Instant) -> Result<(), Trouble> {
    loop {
        let left = until.checked_duration_since(Instant::now()).ok_or(Trouble::Late)?;
        let mut fds = vec![PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        fds.extend(os::interrupt::fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = Timespec::try_from(left.min(Duration::from_secs(3600))).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::Gone(error.into())),
        }
        if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            return Err(Trouble::Interrupted);
        }
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(answers: &[&str]) -> Talk {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let to = File::options().write(true).open("/dev/null").unwrap();
        File::from(theirs).write_all(answers.iter().flat_map(|it| [it, "\0"]).collect::<String>().as_bytes()).unwrap();
        Talk::new(Wire::Pipes { to, from: ours.into(), buffer: Vec::new() })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn an_answer_is_found_between_events() {
        let mut talk = talk(&[
            r#"{"method":"a","sessionId":"s"}"#,
            r#"{"id":1,"result":{"x":7}}"#,
            r#"{"id":2,"error":{"message":"no such thing"}}"#,
            r#"{"id":3,"type":"error","error":"kind","message":"not so"}"#,
            r#"{"method":"b","sessionId":"other"}"#,
            r#"{"method":"b","sessionId":"s"}"#,
        ]);
        assert_eq!(talk.ask(None, "m", json!({}), soon()).unwrap()["x"], 7);
        let refused = |answer| matches!(answer, Err(Trouble::Refused(text)) if text == "no such thing");
        assert!(refused(talk.ask(None, "m", json!({}), soon())));
        assert!(matches!(talk.ask(None, "m", json!({}), soon()), Err(Trouble::Refused(text)) if text == "not so"));
        talk.event("s", "a", soon()).unwrap();
        talk.event("s", "b", soon()).unwrap();
        assert!(matches!(talk.event("s", "b", soon()), Err(Trouble::Gone(_))), "the other end is closed");
    }

    #[test]
    fn silence_has_an_end() {
        let (ours, _theirs) = rustix::pipe::pipe().unwrap();
        let to = File::options().write(true).open("/dev/null").unwrap();
        let mut talk = Talk::new(Wire::Pipes { to, from: ours.into(), buffer: Vec::new() });
        assert!(matches!(talk.ask(None, "m", json!({}), Instant::now()), Err(Trouble::Late)));
    }
}
