//! Who may send: whoever shows one of the tokens of a file (RFC 6750, section 2.1).

use http::{HeaderMap, header};
use std::fmt;

/// Letters of a token at least: 96 bits, if each is drawn by chance from 64.
const LEAST: usize = 16;

/// Tokens that are taken. They are shown nowhere.
pub struct Tokens(Vec<String>);

impl fmt::Debug for Tokens {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} tokens", self.0.len())
    }
}

impl Tokens {
    /// Of a file's bytes: one a line, empty lines are none.
    ///
    /// # Errors
    /// There is none, or one cannot be a token or can be guessed: which line, and why.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() {
                continue;
            }
            // The form of b64token.
            if !line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)) {
                return Err(format!("line {at} is no token: letters, digits and -._~+/= alone"));
            }
            if line.len() < LEAST {
                return Err(format!("line {at} has fewer than {LEAST} letters: it can be guessed"));
            }
            tokens.push(line.to_owned());
        }
        match tokens.is_empty() {
            true => Err("there is no token in it; to make one: openssl rand -hex 32".to_owned()),
            false => Ok(Self(tokens)),
        }
    }

    /// Whether a request shows one of them.
    pub fn admit(&self, fields: &HeaderMap) -> bool {
        let mut shown = fields.get_all(header::AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else { return false };
        let Some((scheme, token)) = shown.to_str().ok().and_then(|shown| shown.split_once(' ')) else { return false };
        // All of them, whichever it is: time tells nothing.
        let same = self.0.iter().filter(|known| os::secret::is_same(known.as_bytes(), token.trim().as_bytes()));
        same.count() > 0 && scheme.eq_ignore_ascii_case("bearer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn tokens_are_lines_and_bad_ones_are_named() {
        assert_eq!(Tokens::parse(b"0123456789abcdef\n\n  abcdefghijklmnop=\r\n").unwrap().0.len(), 2);
        for (text, why) in
            [("", "no token"), ("\n0123456789abcde\n", "line 2 has fewer"), ("0123456789 abcdef", "line 1")]
        {
            assert!(Tokens::parse(text.as_bytes()).unwrap_err().contains(why), "{text}");
        }
        let shown = format!("{:?}", Tokens::parse(b"0123456789abcdef").unwrap());
        assert!(!shown.contains("abc"), "{shown}");
    }

    #[test]
    fn one_that_is_shown_once_and_whole_is_taken() {
        let tokens = Tokens::parse(b"0123456789abcdef\nfedcba9876543210\n").unwrap();
        let admits = |values: &[&'static str]| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            tokens.admit(&fields)
        };
        assert!(admits(&["Bearer 0123456789abcdef"]) && admits(&["bearer  fedcba9876543210"]));
        for values in [
            &[][..],
            &["Bearer 0123456789abcdeF"],
            &["Bearer 0123456789abcde"],
            &["Bearer "],
            &["0123456789abcdef"],
            &["Basic 0123456789abcdef"],
            &["Bearer 0123456789abcdef", "Bearer fedcba9876543210"],
        ] {
            assert!(!admits(values), "{values:?}");
        }
    }
}
