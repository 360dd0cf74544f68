//! Finding the number that a line weighs: its last one.

use std::ops::Range;

/// The last run of digits with its sign: what `([+-]?\d+)\D*$` finds.
pub(crate) fn integral(line: &[u8]) -> Option<Range<usize>> {
    let digits = run_before(line, line.iter().rposition(u8::is_ascii_digit)? + 1);
    Some(signed(line, digits))
}

/// The same with the digits and the point before it, if there are both: what `([+-]?\d+(\.\d+)?)\D*$` finds.
pub(crate) fn fractional(line: &[u8]) -> Option<Range<usize>> {
    let digits = run_before(line, line.iter().rposition(u8::is_ascii_digit)? + 1);
    let point = digits.start.checked_sub(1).filter(|at| line[*at] == b'.');
    let whole = point.map(|at| run_before(line, at)).filter(|whole| !whole.is_empty());
    Some(signed(line, whole.map_or(digits.clone(), |whole| whole.start..digits.end)))
}

/// The digits that end at `end`.
fn run_before(line: &[u8], end: usize) -> Range<usize> {
    let start = line[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |before| before + 1);
    start..end
}

fn signed(line: &[u8], number: Range<usize>) -> Range<usize> {
    match number.start.checked_sub(1) {
        Some(sign) if matches!(line[sign], b'+' | b'-') => sign..number.end,
        _ => number,
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_last_number_is_found() {
        let integral = |line: &'static str| super::integral(line.as_bytes()).map(|found| &line[found]);
        assert_eq!(integral("small: 24 -> 32 (8)"), Some("8"));
        assert_eq!(integral("a-3b"), Some("-3"));
        assert_eq!(integral("a--3"), Some("-3"));
        assert_eq!(integral("1.25"), Some("25"));
        assert_eq!(integral("none"), None);
        let fractional = |line: &'static str| super::fractional(line.as_bytes()).map(|found| &line[found]);
        assert_eq!(fractional("x 1.25 s"), Some("1.25"));
        assert_eq!(fractional("1.2.3"), Some("2.3"));
        assert_eq!(fractional("x-1.5"), Some("-1.5"));
        assert_eq!(fractional(".5"), Some("5"));
        assert_eq!(fractional("1-.5"), Some("5"));
        assert_eq!(fractional("1. 5"), Some("5"));
    }
}
