//! Words that people type and that names of things are made of too: limits of a disk, command lines.
//! Each parser's message says what would be right.

use model::Bytes;
use model::typed::size;

/// A limit on the run's disk: `throttle:iops=200,bps=30M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimit {
    /// Requests per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bps: Option<Bytes>,
}

/// Parses a [`DiskLimit`].
pub fn disk_limit(text: &str) -> Result<DiskLimit, String> {
    let wrong = |why: &str| {
        format!(
            "{why}; write the name of a disk (see `thaw io model --list`), or throttle:iops=200,bps=30M (either part \
             may be left out)"
        )
    };
    let parts = text.strip_prefix("throttle:").ok_or_else(|| wrong("this is neither a disk's name nor a limit"))?;
    let mut limit = DiskLimit { iops: None, bps: None };
    for part in parts.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("iops", number)) => {
                let iops = number.parse().ok().filter(|iops| *iops > 0);
                limit.iops = Some(iops.ok_or_else(|| wrong(&format!("'{number}' is not a number of requests")))?);
            }
            Some(("bps", number)) => {
                let bps = size(number).map_err(|error| wrong(&error))?;
                limit.bps = Some(Some(bps).filter(|bps| bps.0 > 0).ok_or_else(|| wrong("bps must be above 0"))?);
            }
            _ => return Err(wrong(&format!("'{part}' is neither iops=N nor bps=N"))),
        }
    }
    if limit.iops.is_none() && limit.bps.is_none() { Err(wrong("no limit is given")) } else { Ok(limit) }
}

/// Splits a command line as a shell does: blanks, '…', "…" and backslash. No variables, no globs.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => {
                let escaped = letters.next().ok_or_else(|| format!("'{line}' ends in a backslash"))?;
                word.get_or_insert_default().push(escaped);
            }
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("'{line}' lacks its closing {open}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_limit_has_at_least_one_part() {
        let limit = disk_limit("throttle:iops=200,bps=30M").unwrap();
        assert_eq!(limit, DiskLimit { iops: Some(200), bps: Some(Bytes(31_457_280)) });
        assert_eq!(disk_limit("throttle:bps=1M").unwrap().iops, None);
        for wrong in ["", "throttle:", "iops=200", "throttle:iops=0", "throttle:seek=3", "throttle:iops"] {
            assert!(disk_limit(wrong).unwrap_err().contains("throttle:iops=200"), "{wrong}");
        }
    }

    #[test]
    fn command_lines_are_split_as_a_shell_does() {
        assert_eq!(words(r#"sh -c 'a b' "c \"d" e\ f ''"#).unwrap(), ["sh", "-c", "a b", "c \"d", "e f", ""]);
        assert_eq!(words("'back\\slash'").unwrap(), ["back\\slash"]);
        assert!(words("it's").unwrap_err().contains("closing"));
    }
}
