//! Dates as logs write them.

/// Nanoseconds of 1970 of `2026-11-25T02:40:27.134688+01:00`, or with a space in the place of the T.
pub fn unix_ns(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut fraction_ns = 0;
    if let Some(digits) = rest.strip_prefix(['.', ',']) {
        let length = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let nine: String = digits[..length].chars().chain("000000000".chars()).take(9).collect();
        fraction_ns = nine.parse::<i64>().ok()?;
        rest = &digits[length..];
    }
    let zone_minutes = match rest.trim() {
        "" | "Z" | "z" | "UTC" => 0,
        offset => {
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
            if !offset.starts_with(['+', '-']) || digits.len() != 4 {
                return None;
            }
            sign * (digits[..2].parse::<i64>().ok()? * 60 + digits[2..].parse::<i64>().ok()?)
        }
    };
    // Years that begin in March, so that the day that may be missing is the last one.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + hour * 3600 + (minute - zone_minutes) * 60 + second;
    u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_with_their_zones() {
        assert_eq!(unix_ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(unix_ns("2026-11-25 02:44:04.476264 UTC"), Some(1_795_574_644_476_264_000));
        assert_eq!(unix_ns("2024-02-29T12:00:00.5+01:00"), unix_ns("2024-02-29T11:00:00.500Z"));
        assert_eq!(
            unix_ns("2024-03-01T00:00:00Z").unwrap() - unix_ns("2024-02-29T00:00:00Z").unwrap(),
            86_400 * 1_000_000_000
        );
        for wrong in ["", "2024", "2024-13-01T00:00:00Z", "2024-02-29Tab:00:00Z", "2024-02-29T00:00:00 o'clock", "é"] {
            assert_eq!(unix_ns(wrong), None, "{wrong}");
        }
    }
}
