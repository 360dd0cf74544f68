//! A `Set-Cookie` header: what it says, by the algorithm of RFC 6265bis (section 5.6). Pure; fuzzed.

use crate::cookie::SameSite;
use crate::date;
use crate::error::Wrong;

/// The longest name and value together, in bytes.
pub const LONGEST_PAIR: usize = 4096;
/// The longest value of an attribute, in bytes: a longer one is ignored.
pub const LONGEST_ATTRIBUTE: usize = 1024;
/// How long a cookie may last, whatever it says: 400 days.
pub const LONGEST_AGE_US: u64 = 400 * 86_400 * 1_000_000;

/// What a header says. The domain and path are not judged yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// May be empty; then the value is not.
    pub name: Vec<u8>,
    /// May be empty.
    pub value: Vec<u8>,
    /// When it ends, in microseconds since 1970, at most 400 days from now.
    pub expires_us: Option<u64>,
    /// Without a dot before it, in lower case; empty: none was given.
    pub domain: Vec<u8>,
    /// A path that begins with a slash; `None`: the default.
    pub path: Option<Vec<u8>>,
    /// `Secure` is there.
    pub secure: bool,
    /// `HttpOnly` is.
    pub http_only: bool,
    /// What of it is known.
    pub same_site: SameSite,
    /// `Partitioned` is there.
    pub partitioned: bool,
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let from = bytes.iter().position(|byte| !is_blank(byte)).unwrap_or(bytes.len());
    let to = bytes.iter().rposition(|byte| !is_blank(byte)).map_or(from, |last| last + 1);
    &bytes[from..to]
}

fn split(bytes: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|byte| *byte == at) {
        Some(place) => (&bytes[..place], Some(&bytes[place + 1..])),
        None => (bytes, None),
    }
}

/// `Max-Age`, as the moment when it is over; `None`: to be ignored.
fn max_age(value: &[u8], now_us: u64) -> Option<u64> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    if value.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds =
        digits.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    let left = if negative { 0 } else { seconds.saturating_mul(1_000_000).min(LONGEST_AGE_US) };
    Some(if left == 0 { 0 } else { now_us.saturating_add(left) })
}

/// Whether bytes hold what no header may: control characters but for tabs.
pub(crate) fn has_controls(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127))
}

/// Reads a header.
///
/// # Errors
/// It is to be ignored: control characters, neither name nor value, or both too long.
pub fn set_cookie(header: &[u8], now_us: u64) -> Result<Parsed, Wrong> {
    let (pair, mut rest) = split(header, b';');
    let (name, value) = match split(pair, b'=') {
        (name, Some(value)) => (trimmed(name), trimmed(value)),
        (value, None) => (&[][..], trimmed(value)),
    };
    let wrong = |why| Wrong::Cookie { name: String::from_utf8_lossy(&name[..name.len().min(64)]).into(), why };
    if has_controls(header) {
        return Err(wrong("it has control characters"));
    }
    if name.is_empty() && value.is_empty() {
        return Err(wrong("it has neither name nor value"));
    }
    if name.len() + value.len() > LONGEST_PAIR {
        return Err(wrong("name and value are longer than 4096 bytes"));
    }
    let mut parsed = Parsed { name: name.into(), value: value.into(), ..Parsed::default() };
    let (mut expires, mut age) = (None, None);
    while let Some(from) = rest {
        let (attribute, behind) = split(from, b';');
        rest = behind;
        let (name, value) = split(attribute, b'=');
        let (name, value) = (trimmed(name).to_ascii_lowercase(), trimmed(value.unwrap_or_default()));
        if value.len() > LONGEST_ATTRIBUTE {
            continue;
        }
        match &name[..] {
            b"expires" => {
                let limit = now_us.saturating_add(LONGEST_AGE_US);
                expires = date::read(value).map(|at| at.min(limit)).or(expires);
            }
            b"max-age" => age = max_age(value, now_us).or(age),
            b"domain" => parsed.domain = value.strip_prefix(b".").unwrap_or(value).to_ascii_lowercase(),
            b"path" => parsed.path = value.starts_with(b"/").then(|| value.into()),
            b"secure" => parsed.secure = true,
            b"httponly" => parsed.http_only = true,
            b"partitioned" => parsed.partitioned = true,
            b"samesite" => {
                parsed.same_site = match &value.to_ascii_lowercase()[..] {
                    b"none" => SameSite::None,
                    b"lax" => SameSite::Lax,
                    b"strict" => SameSite::Strict,
                    _ => SameSite::Default,
                };
            }
            _ => {}
        }
    }
    parsed.expires_us = age.or(expires);
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn parsed(header: &str) -> Parsed {
        set_cookie(header.as_bytes(), NOW).unwrap()
    }

    #[test]
    fn name_value_and_attributes_are_read() {
        let all = parsed(" SID = 31 d4 ; Path=/x; Domain=.Example.COM;secure ; HttpOnly; sAmesite=Strict; Partitioned");
        let expected = Parsed {
            name: b"SID".to_vec(),
            value: b"31 d4".to_vec(),
            expires_us: None,
            domain: b"example.com".to_vec(),
            path: Some(b"/x".to_vec()),
            secure: true,
            http_only: true,
            same_site: SameSite::Strict,
            partitioned: true,
        };
        assert_eq!(all, expected);
        let pair = |header| (parsed(header).name, parsed(header).value);
        assert_eq!(pair("token"), (vec![], b"token".to_vec()));
        assert_eq!(pair("=token"), (vec![], b"token".to_vec()));
        assert_eq!(pair("a=b=c"), (b"a".to_vec(), b"b=c".to_vec()));
        assert_eq!(pair("a=\"q\"; x"), (b"a".to_vec(), b"\"q\"".to_vec()));
        assert_eq!(pair("a="), (b"a".to_vec(), vec![]));
    }

    #[test]
    fn the_last_attribute_counts_and_max_age_before_expires() {
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(parsed(&format!("a=b; Max-Age=10; {past}")).expires_us, Some(NOW + 10_000_000));
        assert_eq!(parsed("a=b; Max-Age=10; Max-Age=20").expires_us, Some(NOW + 20_000_000));
        assert_eq!(parsed("a=b; Max-Age=0").expires_us, Some(0));
        assert_eq!(parsed("a=b; Max-Age=-7").expires_us, Some(0));
        assert_eq!(parsed(&format!("a=b; Max-Age=1x; {past}")).expires_us, Some(0), "what is no number is ignored");
        assert_eq!(parsed("a=b; Max-Age=; Expires=never").expires_us, None);
        assert_eq!(parsed("a=b; Path=/x; Path=y").path, None);
        assert_eq!(parsed("a=b; SameSite=Lax; SameSite=odd").same_site, SameSite::Default);
    }

    #[test]
    fn nothing_lasts_longer_than_400_days() {
        let limit = Some(NOW + 400 * 86_400 * 1_000_000);
        assert_eq!(parsed("a=b; Max-Age=99999999999999999999999").expires_us, limit);
        assert_eq!(parsed("a=b; Expires=Fri, 31 Dec 9999 23:59:59 GMT").expires_us, limit);
    }

    #[test]
    fn what_is_too_long_or_no_header_is_ignored() {
        let of = |len: usize| set_cookie(format!("ab={}", "x".repeat(len)).as_bytes(), NOW);
        assert!(of(4094).is_ok() && of(4095).unwrap_err().to_string().contains("\"ab\""));
        for header in ["", "=", " = ; Path=/", "a=b\0", "a=b; Path=/\r\n", "a\u{7f}=b"] {
            assert!(set_cookie(header.as_bytes(), NOW).is_err(), "{header:?}");
        }
        assert!(set_cookie(b"a=b\tc", NOW).is_ok(), "a tab is no control character here");
        let path = |len: usize| parsed(&format!("a=b; Path=/{}", "x".repeat(len))).path;
        assert!(path(1023).is_some() && path(1024).is_none(), "an attribute that is too long is none");
    }
}
