//! How wide the terminal is.

use std::os::fd::AsFd;
pub use work::words::width::{columns, cut, shorten};

/// Width where it cannot be asked: a file or a pipe.
const WITHOUT_TERMINAL: usize = 110;

/// Columns of a text that goes to a file.
pub fn of_file() -> usize {
    WITHOUT_TERMINAL
}

/// Columns of the terminal that the answer goes to.
pub fn of_terminal() -> usize {
    let asked = rustix::termios::tcgetwinsize(std::io::stdout().as_fd()).ok().map(|size| usize::from(size.ws_col));
    let told = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    asked.filter(|columns| *columns > 0).or_else(told).unwrap_or(WITHOUT_TERMINAL).clamp(60, 200)
}
