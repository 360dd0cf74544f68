//! Dates in cookies: read by the algorithm of the RFC (section 5.1.1), which takes what servers send. Pure.

/// Letters that stand between the parts of a date.
fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2F | 0x3B..=0x40 | 0x5B..=0x60 | 0x7B..=0x7E)
}

/// The digits at the start of a part: at least `least`, at most `most`, with no digit behind them.
fn number(part: &[u8], least: usize, most: usize) -> Option<u64> {
    let len = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (least..=most).contains(&len).then(|| part[..len].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Hours, minutes and seconds.
fn time(part: &[u8]) -> Option<(u64, u64, u64)> {
    let mut fields = part.splitn(3, |byte| *byte == b':');
    let exact = |field: &[u8]| number(field, 1, 2).filter(|_| field.iter().all(u8::is_ascii_digit));
    let (hour, minute) = (exact(fields.next()?)?, exact(fields.next()?)?);
    // Anything may follow the seconds, but for a digit.
    Some((hour, minute, number(fields.next()?, 1, 2)?))
}

fn month(part: &[u8]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let begin = part.get(..3)?.to_ascii_lowercase();
    MONTHS.chunks(3).position(|month| month == begin).map(|at| at as u64 + 1)
}

/// Days from 1970 to a day of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> i64 {
    // Years begin in March, so that a leap day is a year's last.
    let shifted = (year - u64::from(month <= 2)) as i64;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year as i64 - 719_468
}

/// The moment, in microseconds since 1970; 0 for one before that. `None`: it is no date.
pub fn read(text: &[u8]) -> Option<u64> {
    let (mut clock, mut day, mut of_year, mut year) = (None, None, None, None);
    for part in text.split(|byte| is_delimiter(*byte)).filter(|part| !part.is_empty()) {
        if clock.is_none() && time(part).is_some() {
            clock = time(part);
        } else if day.is_none() && number(part, 1, 2).is_some() {
            day = number(part, 1, 2);
        } else if of_year.is_none() && month(part).is_some() {
            of_year = month(part);
        } else if year.is_none() && number(part, 2, 4).is_some() {
            year = number(part, 2, 4);
        }
    }
    let ((hour, minute, second), day, month, year) = (clock?, day?, of_year?, year?);
    let year = match year {
        70..=99 => year + 1900,
        0..=69 => year + 2000,
        _ => year,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=longest).contains(&day) || year < 1601 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + (hour * 3600 + minute * 60 + second) as i64;
    Some(u64::try_from(seconds).unwrap_or(0) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_servers_are_read_and_others_refused() {
        let secs = |text: &str| read(text.as_bytes()).map(|us| us / 1_000_000);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "6 november 94 8:49:37x",
        ] {
            assert_eq!(secs(text), Some(784_111_777), "{text}");
        }
        assert_eq!(secs("29 Feb 2024 00:00:00"), Some(1_709_164_800));
        assert_eq!(secs("1 Mar 2000 00:00:00"), Some(951_868_800));
        assert_eq!(secs("31 Dec 1969 23:59:59"), Some(0));
        assert_eq!(secs("31 Dec 69 23:59:59"), Some(3_155_759_999), "two digits below 70 are of this century");
        for text in [
            "",
            "30 Feb 2024 00:00:00",
            "29 Feb 2023 00:00:00",
            "1 Jan 1600 00:00:00",
            "1 Jan 2024 24:00:00",
            "1 Jan 2024 00:60:00",
            "1 Jan 2024",
            "1 Jan 20245 00:00:00",
            "1 Xan 2024 00:00:00",
        ] {
            assert_eq!(secs(text), None, "{text}");
        }
    }
}
