//! Which programs pings are taken of. Each makes a directory and a file with every seal: who could invent names without
//! end would fill the disk with them, and keep the thread that writes from its work.

use ping::{Day, Reason, Refused};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The programs of a day.
#[derive(Debug)]
pub struct Programs {
    /// Names of one day at most; `None`: those that were given, and no others.
    most: Option<usize>,
    known: Mutex<(Day, HashSet<String>)>,
}

impl Programs {
    /// These and no others.
    pub fn fixed(names: &[String]) -> Self {
        Self { most: None, known: Mutex::new((Day::FIRST, names.iter().cloned().collect())) }
    }

    /// The first `most` that come on a day. `known`: those that came on the day `today` already.
    pub fn first(most: usize, today: Day, known: Vec<String>) -> Self {
        Self { most: Some(most), known: Mutex::new((today, known.into_iter().collect())) }
    }

    /// Whether a ping of this program is taken today.
    ///
    /// # Errors
    /// It is not.
    pub fn admit(&self, app: &str, today: Day) -> Result<(), Refused> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (day, names) = &mut *known;
        if self.most.is_some() && *day != today {
            *day = today;
            names.clear();
        }
        if names.contains(app) {
            return Ok(());
        }
        let why = match self.most {
            Some(most) if names.len() < most => {
                names.insert(app.to_owned());
                return Ok(());
            }
            Some(most) => format!("pings of {most} programs came today, and {app} is one too many"),
            None => format!("app {app} is none that is collected here"),
        };
        Err(Refused { reason: Reason::App, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_programs_come_on_a_day_and_no_more() {
        let day = Day::FIRST;
        let programs = Programs::first(3, day, vec!["a".into()]);
        assert!(["b", "c", "a"].iter().all(|name| programs.admit(name, day).is_ok()));
        assert!(programs.admit("d", day).unwrap_err().why.contains("3 programs"));
        assert!(programs.admit("d", day.plus(1)).is_ok(), "another day, another chance");
        for number in 0..1000 {
            let _ = programs.admit(&number.to_string(), day.plus(1));
        }
        assert_eq!(programs.known.lock().unwrap().1.len(), 3);
        let fixed = Programs::fixed(&["a".into()]);
        assert!(fixed.admit("a", day.plus(9)).is_ok() && fixed.admit("b", day.plus(9)).is_err());
    }
}
