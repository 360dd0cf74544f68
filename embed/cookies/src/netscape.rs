//! The file cookies.txt of Netscape, as curl reads and writes it. Pure; fuzzed.
//!
//! A line for each cookie, seven fields with tabs between them: domain, whether hosts below it have it too, path,
//! whether it is secure, when it ends (seconds since 1970; 0: with the session), name, value. `#HttpOnly_` before the
//! domain is the flag of that name. The format knows no SameSite, no partition, no times of making and access.

use crate::cookie::{Cookie, Key};
use crate::error::Wrong;
use crate::parse::has_controls;

/// What a file begins with.
const BEGIN: &[u8] = b"# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n\n";
const HTTP_ONLY: &[u8] = b"#HttpOnly_";

/// Reads a file. All cookies get `now_us` as the time when they were made and used, one microsecond apart, so that
/// their order stays. Lines that are none are returned beside them; expired cookies are read like others.
pub fn read(text: &[u8], now_us: u64) -> (Vec<Cookie>, Vec<Wrong>) {
    let (mut cookies, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (http_only, line) = match line.strip_prefix(HTTP_ONLY) {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if line.iter().all(u8::is_ascii_whitespace) || (line.starts_with(b"#") && !http_only) {
            continue;
        }
        match cookie(line) {
            Ok(cookie) => {
                let at = now_us + cookies.len() as u64;
                cookies.push(Cookie { http_only, created_us: at, accessed_us: at, ..cookie });
            }
            Err(why) => wrong.push(Wrong::Line { number, why }),
        }
    }
    (cookies, wrong)
}

fn flag(field: &[u8]) -> bool {
    field.eq_ignore_ascii_case(b"TRUE")
}

fn cookie(line: &[u8]) -> Result<Cookie, &'static str> {
    let mut fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    // Old files may lack the path.
    if fields.get(2).is_some_and(|field| flag(field) || field.eq_ignore_ascii_case(b"FALSE")) {
        fields.insert(2, b"/");
    }
    if fields.len() == 6 {
        fields.push(b"");
    }
    let [domain, below, path, secure, expires, name, value] = fields[..] else {
        return Err("it has not seven fields with tabs between them");
    };
    if has_controls(line) {
        return Err("it has control characters");
    }
    let domain = std::str::from_utf8(domain).map(|domain| domain.trim_start_matches('.').to_ascii_lowercase());
    // Written without the flag, one that begins so would be a note.
    let is_one = |domain: &String| domain.is_ascii() && !domain.is_empty() && !domain.starts_with('#');
    let domain = domain.ok().filter(is_one).ok_or("it has no domain")?;
    if name.is_empty() {
        return Err("it has no name");
    }
    let expires: u64 =
        { std::str::from_utf8(expires).ok() }.and_then(|text| text.parse().ok()).ok_or("its fifth field is no time")?;
    Ok(Cookie {
        name: name.into(),
        value: value.into(),
        domain,
        host_only: !flag(below),
        path: if path.starts_with(b"/") { path.into() } else { b"/".to_vec() },
        secure: flag(secure),
        expires_us: (expires > 0).then_some(expires.saturating_mul(1_000_000)),
        ..Cookie::default()
    })
}

/// Writes a file. What it cannot hold is not in it, and returned: cookies of a partition, without a name, a domain or
/// a path, and with a tab in one of their parts.
pub fn write(cookies: &[Cookie]) -> (Vec<u8>, Vec<Key>) {
    let (mut out, mut left_out) = (BEGIN.to_vec(), Vec::new());
    for cookie in cookies {
        let parts = [&cookie.name[..], &cookie.value, &cookie.path, cookie.domain.as_bytes()];
        let named = !cookie.name.is_empty() && !cookie.domain.is_empty() && !cookie.domain.starts_with(['.', '#']);
        let fits = cookie.partition.is_none() && named && cookie.path.starts_with(b"/");
        if !fits || parts.iter().any(|part| part.contains(&b'\t') || has_controls(part)) {
            left_out.push(cookie.key());
            continue;
        }
        let word = |set: bool| if set { &b"TRUE"[..] } else { b"FALSE" };
        if cookie.http_only {
            out.extend(HTTP_ONLY);
        }
        if !cookie.host_only {
            out.push(b'.');
        }
        // A cookie that ends within the first second of 1970 has an end.
        let expires = cookie.expires_us.map_or(0, |at| (at / 1_000_000).max(1)).to_string();
        let below = word(!cookie.host_only);
        let (domain, secure) = (cookie.domain.as_bytes(), word(cookie.secure));
        let fields = [domain, below, &cookie.path, secure, expires.as_bytes(), &cookie.name, &cookie.value];
        out.extend(fields.join(&b'\t'));
        out.push(b'\n');
    }
    (out, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_the_rest_is_named() {
        let one = Cookie {
            name: b"a".to_vec(),
            value: b"1; x".to_vec(),
            domain: "example.com".into(),
            path: b"/p".to_vec(),
            secure: true,
            http_only: true,
            expires_us: Some(5_000_000),
            created_us: 7,
            accessed_us: 7,
            ..Cookie::default()
        };
        let two = Cookie { host_only: true, value: vec![], http_only: false, expires_us: None, ..one.clone() };
        let two = Cookie { created_us: 8, accessed_us: 8, ..two };
        let bad = [
            Cookie { name: vec![], ..one.clone() },
            Cookie { value: b"a\tb".to_vec(), ..one.clone() },
            Cookie { partition: Some("https://top.example".into()), ..one.clone() },
        ];
        let (text, left_out) = write(&[&[one.clone(), two.clone()][..], &bad].concat());
        assert_eq!(left_out, bad.each_ref().map(Cookie::key));
        assert!(text.starts_with(b"# Netscape HTTP Cookie File\n"));
        let line = b"#HttpOnly_.example.com\tTRUE\t/p\tTRUE\t5\ta\t1; x\n";
        assert!(text.windows(line.len()).any(|part| part == line));
        assert_eq!(read(&text, 7), (vec![one, two], vec![]));
    }

    #[test]
    fn other_lines_are_passed_over_or_named() {
        let text = b"# a note\n\r\n.Example.com\tTRUE\tFALSE\t0\ta\n#HttpOnly_b.example\tFALSE\t/\tfalse\t9\tn\tv\r\n\
            nothing\nc.example\tFALSE\t/\tTRUE\tsoon\tn\tv\nd.example\tFALSE\t/\tTRUE\t0\t\tv\n\
            \x09FALSE\t/\tTRUE\t0\tn\tv\n#HttpOnly_#e.example\tFALSE\t/\tTRUE\t0\tn\tv";
        let (cookies, wrong) = read(text, 1);
        let short: Vec<_> = cookies.iter().map(|it| (it.domain.as_str(), it.http_only, it.host_only)).collect();
        assert_eq!(short, [("example.com", false, false), ("b.example", true, true)]);
        assert_eq!(cookies[0].path, b"/");
        let numbers: Vec<usize> =
            { wrong.iter() }.map(|wrong| if let Wrong::Line { number, .. } = wrong { *number } else { 0 }).collect();
        assert_eq!(numbers, [5, 6, 7, 8, 9]);
    }
}
