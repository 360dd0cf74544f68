//! What would help a start, as text.

use super::units::ns as time;
use super::{GREEN, Page, harmless};
use work::why::helps::HelpRow;

/// So wide are a gain and the blank behind it.
const WIDTH: usize = 10;

/// The section, with so many of them; nothing where nothing would.
pub fn of(page: &mut Page, helps: &[HelpRow], most: usize) {
    if helps.is_empty() {
        return;
    }
    page.heading("What would help, and how much earlier it would be ready");
    let beside = " ".repeat(WIDTH);
    for HelpRow { help, command } in helps.iter().take(most) {
        let bound = if help.is_at_most { "at most: " } else { "" };
        let gain = format!("{:>1$} ", time(help.gain_ns), WIDTH - 1);
        page.labelled(GREEN, &gain, &harmless(&format!("{bound}{}", help.what)));
        let interval = match (help.low_ns, help.high_ns) {
            (Some(low), Some(high)) => format!("[{}, {}] ", time(low), time(high)),
            _ => String::new(),
        };
        page.labelled("", &beside, &harmless(&format!("{interval}{} ({})", help.owner, help.how)));
        if let Some(command) = command {
            page.labelled("", &beside, &harmless(command));
        }
    }
    if helps.len() > most {
        page.remark(&format!("{} more would help less", helps.len() - most));
    }
    page.remark("gains do not add up: two of them may be about the same time");
}
