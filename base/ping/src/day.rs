//! Days of the calendar in UTC. No finer time is in a ping.

use std::fmt;

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    /// The first day that a ping may name: 2020-01-01.
    pub const FIRST: Self = Self(18_262);

    /// The day of seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(i64::try_from(seconds / 86_400).unwrap_or(i64::MAX))
    }

    /// The day by this machine's clock; before 1970 it is 1970-01-01.
    pub fn today() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self::of_seconds(since.map_or(0, |since| since.as_secs()))
    }

    /// So many days later; earlier if negative.
    pub fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }

    /// Days from another one to this.
    pub fn since(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }

    /// Reads "YYYY-MM-DD". `None`: it is no day of the calendar.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |part: &[u8]| {
            part.iter().try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
        };
        let (year, month, day) = (number(&bytes[..4])?, number(&bytes[5..7])?, number(&bytes[8..])?);
        let parsed = Self(days_of(year, month, day));
        ((1..=12).contains(&month) && day >= 1 && parsed.to_string() == text).then_some(parsed)
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar, by years that begin in March.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.saturating_add(719_468);
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        write!(out, "{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(Day::FIRST.to_string(), "2020-01-01");
        assert_eq!(Day::parse("1970-01-01"), Some(Day(0)));
        assert_eq!(Day::parse("2024-02-29").unwrap().plus(1).to_string(), "2024-03-01");
        for wrong in ["2023-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-1-1", "2024-01-32", "+024-01-01"] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
        for days in 0..60_000 {
            assert_eq!(Day::parse(&Day(days).to_string()), Some(Day(days)));
        }
    }
}
