//! What people type, in words and in files: quantities (times, sizes, shares), and patterns of names.
//! Each parser's message says what would be right.

use crate::Bytes;
use std::time::Duration;

/// `10m`, `30s`, `500ms`, `1.5h`; a bare number means seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write 30s, 10m, 500ms or 1.5h");
    let (number, unit) = split_number(text).ok_or_else(wrong)?;
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number * scale;
    if !(0.0..=1e7).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `5%` or `0.05`, as a share; `0%` is one. A number without `%` lies below 1, so that `5` is never taken for 500 %.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share; write 5% or 0.05");
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), true),
        None => (text, false),
    };
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(wrong)?;
    match percent {
        true if value < 1_000.0 => Ok(value / 100.0),
        false if value < 1.0 => Ok(value),
        false if value < 1_000.0 => {
            Err(format!("'{text}' would be {} %; write {text}% or a share below 1", value * 100.0))
        }
        _ => Err(wrong()),
    }
}

/// By how much a figure may grow: a [`share`]; `-20%`: by how much it must shrink, less than all of it.
pub fn growth(text: &str) -> Result<f64, String> {
    let Some(shrinks) = text.strip_prefix('-') else { return share(text) };
    match share(shrinks) {
        Ok(share) if share < 1.0 => Ok(-share),
        Ok(_) => Err(format!("nothing shrinks by '{shrinks}'; write -20% or -0.2")),
        Err(_) => Err(format!("'{text}' is not a share; write -20% or -0.2")),
    }
}

/// `128K`, `30M`, `1G` are powers of 1024; `30MB`, `30kB` are powers of 1000; a bare number means bytes.
pub fn size(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("'{text}' is not a size; write 128K, 30M (powers of 1024) or 30MB (powers of 1000)");
    let (number, unit) = split_number(text).ok_or_else(wrong)?;
    let scale: u64 = match unit {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let bytes = number * scale as f64;
    if !(0.0..9e15).contains(&bytes) {
        return Err(wrong());
    }
    Ok(Bytes(bytes.round() as u64))
}

/// Number and unit of `1.5h`; `None` where no number begins the text.
pub fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Whether all of a text is what a pattern says: `*` stands for anything, `?` for one character, all else for itself.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // The last star, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            // A letter of several bytes is one.
            Some(b'?') => {
                (at, from) = (at + 1, from + 1);
                from += text[from..].iter().take_while(|byte| *byte & 0xc0 == 0x80).count();
            }
            Some(one) if *one == text[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((place, end)) => {
                    star = Some((place, end + 1));
                    (at, from) = (place + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, is) in [
            ("malloc", "malloc", true),
            ("malloc", "malloc_usable_size", false),
            ("malloc*", "malloc_usable_size", true),
            ("*alloc", "malloc", true),
            ("nsJAR::*", "nsJAR::GetEntry", true),
            ("*::Get*y", "nsJAR::GetEntry", true),
            ("m?lloc", "malloc", true),
            ("?", "", false),
            ("*", "", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("operator[]", "operator[]", true),
            ("a?c", "a\u{e9}c", true),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10m").unwrap(), Duration::from_secs(600));
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("1.5h").unwrap(), Duration::from_secs(5400));
        assert_eq!(duration("7").unwrap(), Duration::from_secs(7));
        for wrong in ["", "m", "-1s", "5 parsecs", "1e99h", "..s", "99999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!(share("5%").unwrap(), 0.05);
        assert_eq!(share("0.01").unwrap(), 0.01);
        assert_eq!((share("0%"), share("0"), share("250 %")), (Ok(0.0), Ok(0.0), Ok(2.5)));
        for wrong in ["-3%", "NaN", "five", "", "%", "1e9", "1e9%"] {
            assert!(share(wrong).unwrap_err().contains("write 5% or 0.05"), "{wrong}");
        }
    }

    #[test]
    fn a_whole_number_is_never_taken_for_hundreds_of_percent() {
        assert_eq!(
            (growth("5%"), growth("-20%"), growth("-0.2"), growth("-0%")),
            (Ok(0.05), Ok(-0.2), Ok(-0.2), Ok(0.0))
        );
        assert!(["-100%", "-1", "--5%", "-", "-x"].iter().all(|wrong| growth(wrong).unwrap_err().contains("-20%")));
        assert_eq!(share("5").unwrap_err(), "'5' would be 500 %; write 5% or a share below 1");
        assert!(share("1").is_err() && share("2.5").unwrap_err().contains("2.5%"));
    }

    #[test]
    fn capital_letters_are_powers_of_1024_and_b_means_1000() {
        assert_eq!(size("128K").unwrap(), Bytes(131_072));
        assert_eq!(size("30M").unwrap(), Bytes(31_457_280));
        assert_eq!(size("30MB").unwrap(), Bytes(30_000_000));
        assert_eq!(size("512").unwrap(), Bytes(512));
        assert!(size("30 potatoes").unwrap_err().contains("write 128K"));
    }
}
