//! Figures as people read them. JSON never uses these: it has seconds and bytes.

use model::{Bytes, Nanos};
use stats::Estimate;

/// `1.234 s`, `56.70 ms`, `890.1 µs`: four digits; whole nanoseconds below a microsecond.
pub fn seconds(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.9995e-6 {
        return format!("{:.0} ns", value * 1e9);
    }
    let (scale, unit) = scale_of(value);
    format!("{} {unit}", digits(value * scale))
}

/// [`seconds`] of a duration.
pub fn nanos(value: Nanos) -> String {
    seconds(value.seconds())
}

/// The same of a number of nanoseconds.
pub fn ns(ns: u64) -> String {
    nanos(Nanos(ns))
}

/// `1.234 s [1.210, 1.261]`: the interval has the unit of the value.
pub fn estimate_s(estimate: &Estimate) -> String {
    match interval_s(estimate) {
        Some(interval) => format!("{} {interval}", seconds(estimate.value)),
        None => seconds(estimate.value),
    }
}

/// `[1.210, 1.261]` in the unit that [`seconds`] gives the value.
pub fn interval_s(estimate: &Estimate) -> Option<String> {
    let (scale, _) = scale_of(estimate.value);
    estimate.interval.map(|interval| format!("[{}, {}]", digits(interval.low * scale), digits(interval.high * scale)))
}

/// `2.71`, `[2.64, 2.80]`
pub fn ratio(estimate: &Estimate) -> (String, String) {
    let interval = estimate.interval.map(|interval| format!("[{}, {}]", two(interval.low), two(interval.high)));
    (two(estimate.value), interval.unwrap_or_default())
}

/// `2.71 times [2.64, 2.80]`
pub fn times(estimate: &Estimate) -> String {
    match ratio(estimate) {
        (value, interval) if interval.is_empty() => format!("{value} times"),
        (value, interval) => format!("{value} times {interval}"),
    }
}

/// `+3.4 %` for 1.034.
pub fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// `+3.4 % [+1.0 %, +5.8 %]`
pub fn change_estimate(ratio: &Estimate) -> String {
    match ratio.interval {
        Some(interval) => format!("{} [{}, {}]", change(ratio.value), change(interval.low), change(interval.high)),
        None => change(ratio.value),
    }
}

/// `+0.123 s [+0.100, +0.150]`, for differences.
pub fn difference_s(estimate: &Estimate) -> String {
    let widest = estimate.interval.map_or(estimate.value.abs(), |it| it.low.abs().max(it.high.abs()));
    let (scale, unit) = scale_of(widest);
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, digits(value.abs() * scale));
    match estimate.interval {
        Some(interval) => {
            format!("{} {unit} [{}, {}]", signed(estimate.value), signed(interval.low), signed(interval.high))
        }
        None => format!("{} {unit}", signed(estimate.value)),
    }
}

/// `37 %`; `0.4 %` below one.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `1,894`
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A median of counts, rounded.
pub fn count_f(value: f64) -> String {
    count(value.max(0.0).round() as u64)
}

/// `135.2 MB`
pub fn bytes(value: Bytes) -> String {
    const TERA: u64 = 1_000_000_000_000;
    if value.0 >= TERA { format!("{:.2} TB", value.0 as f64 / TERA as f64) } else { value.to_string() }
}

/// A median of bytes, rounded.
pub fn bytes_f(value: f64) -> String {
    bytes(Bytes(value.max(0.0).round() as u64))
}

/// `1 file`, `7 files`
pub fn plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// p values below what was tried are shown as such.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

fn scale_of(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        value if value >= 0.9995 || value == 0.0 => (1.0, "s"),
        value if value >= 0.9995e-3 => (1e3, "ms"),
        _ => (1e6, "µs"),
    }
}

fn digits(value: f64) -> String {
    match value.abs() {
        small if small < 9.9995 => format!("{value:.3}"),
        medium if medium < 99.995 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

fn two(value: f64) -> String {
    if value.abs() < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Interval;

    #[test]
    fn times_have_four_digits_and_a_unit() {
        assert_eq!(seconds(1.2341), "1.234 s");
        assert_eq!(seconds(17.3), "17.30 s");
        assert_eq!(seconds(0.0567), "56.70 ms");
        assert_eq!(seconds(0.00099949), "999.5 µs");
        assert_eq!(seconds(0.0), "0.000 s");
    }

    #[test]
    fn an_interval_has_the_unit_of_its_value() {
        let estimate = Estimate { value: 0.95, interval: Some(Interval { low: 0.9, high: 1.1 }) };
        assert_eq!(estimate_s(&estimate), "950.0 ms [900.0, 1100.0]");
        assert_eq!(estimate_s(&Estimate { value: 2.0, interval: None }), "2.000 s");
    }

    #[test]
    fn differences_have_signs() {
        let estimate = Estimate { value: -0.002, interval: Some(Interval { low: -0.03, high: 0.01 }) };
        assert_eq!(difference_s(&estimate), "-2.000 ms [-30.00, +10.00]");
        assert_eq!(change(1.034), "+3.4 %");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(1_894), "1,894");
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000_000), "1,000,000");
    }
}
