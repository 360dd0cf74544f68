//! HTTP dates (RFC 9110 section 5.6.7): all three forms are read, one is written.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Seconds since 1970 of a time; zero for times before.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// An HTTP date as seconds since 1970; `None` where it is not of one of the three forms. Case is forgiven, nothing
/// else: what a sloppy parser makes of an invalid date is a lifetime that nobody meant. `now` places two-digit years.
pub(crate) fn parse(text: &[u8], now: SystemTime) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']).to_ascii_lowercase();
    if let Some((day, rest)) = text.split_once(", ") {
        let parts: Vec<&str> = rest.split(' ').collect();
        if let [date, time, "gmt"] = parts[..] {
            // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
            let [date, month, year] = date.split('-').collect::<Vec<_>>()[..] else { return None };
            let year = digits(year, 2)?;
            let this = civil(seconds(now)).0;
            // RFC 9110: a year more than 50 years ahead is the latest past one with these digits.
            let century = this - this % 100;
            let year = if century + year > this + 50 { century + year - 100 } else { century + year };
            return DAYS.contains(&day).then(|| time_of(year, month, digits(date, 2)?, time)).flatten();
        }
        // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
        let [date, month, year, time, "gmt"] = parts[..] else { return None };
        return is_short_day(day).then(|| time_of(digits(year, 4)?, month, digits(date, 2)?, time)).flatten();
    }
    // asctime: Sun Nov  6 08:49:37 1994
    let [day, month, rest] = text.splitn(3, ' ').collect::<Vec<_>>()[..] else { return None };
    let (date, rest) = rest.split_at_checked(2)?;
    let [time, year] = rest.strip_prefix(' ')?.split(' ').collect::<Vec<_>>()[..] else { return None };
    let date = date.strip_prefix(' ').map_or_else(|| digits(date, 2), |one| digits(one, 1))?;
    is_short_day(day).then(|| time_of(digits(year, 4)?, month, date, time)).flatten()
}

/// Seconds since 1970 as IMF-fixdate.
pub(crate) fn format(at: u64) -> String {
    let (year, month, day) = civil(at);
    let weekday = &DAYS[((at / 86_400 + 4) % 7) as usize];
    let month = MONTHS[month as usize - 1];
    format!(
        "{}{}, {day:02} {}{} {year:04} {:02}:{:02}:{:02} GMT",
        weekday[..1].to_ascii_uppercase(),
        &weekday[1..3],
        month[..1].to_ascii_uppercase(),
        &month[1..],
        at / 3600 % 24,
        at / 60 % 60,
        at % 60
    )
}

fn is_short_day(day: &str) -> bool {
    DAYS.iter().any(|of| of[..3] == *day)
}

fn digits(text: &str, count: usize) -> Option<u64> {
    (text.len() == count && text.bytes().all(|of| of.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn time_of(year: u64, month: &str, day: u64, time: &str) -> Option<u64> {
    let month = MONTHS.iter().position(|of| *of == month)? as u64 + 1;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
    // Second 60 is a leap second.
    if day == 0 || day > last || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days by H. Hinnant's civil calendar, years beginning in March.
    let shifted = if month > 2 { year } else { year.checked_sub(1)? };
    let in_era = shifted % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted / 400 * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + of_year;
    // What is before 1970 is as old as can be.
    Some(days.saturating_sub(719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn civil(at: u64) -> (u64, u64, u64) {
    let days = at / 86_400 + 719_468;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = days / 146_097 * 400 + year_of_era + u64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}
