//! Who may ask: only by this machine's own name, only with the token of the address, and no page from elsewhere. A page
//! that makes its own name point at 127.0.0.1 sends another `Host`; one that sends a form here sends another `Origin`.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName};
use std::fs::File;
use std::io::{self, Read};

/// Bytes of the token: too many to guess.
const TOKEN_BYTES: usize = 16;

/// What has to be right.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where clients come.
    pub port: u16,
    /// The first part of every path.
    pub token: String,
}

impl Door {
    /// With a token that nobody knows yet.
    ///
    /// # Errors
    /// The kernel gives no randomness.
    pub fn new(port: u16) -> io::Result<Door> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Door { port, token: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// What is asked for, behind the token.
    ///
    /// # Errors
    /// Why it is not to be had.
    pub fn pass<'a>(&self, path: &'a str, fields: &HeaderMap) -> Result<&'a str, &'static str> {
        let only = |name: HeaderName| {
            let mut all = fields.get_all(name).iter();
            let first = all.next().map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase());
            // Two are one too many: somebody else may have read the other.
            if all.next().is_some() { Some(String::new()) } else { first }
        };
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let Some(host) = only(HOST).filter(|host| names.contains(host)) else {
            return Err("ask for this by its address on 127.0.0.1\n");
        };
        if only(ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(&host)) {
            return Err("another site's page may not ask for this\n");
        }
        let (token, rest) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        if !self.is_token(token) {
            return Err("ask for this by the whole address that thaw store serve printed\n");
        }
        Ok(rest)
    }

    /// Takes as long whichever byte differs.
    fn is_token(&self, text: &str) -> bool {
        let pairs = text.bytes().zip(self.token.bytes());
        text.len() == self.token.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(path: &str, fields: &[(HeaderName, &'static str)]) -> Result<String, &'static str> {
        let door = Door { port: 8080, token: "0123456789abcdef0123456789abcdef".into() };
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, http::HeaderValue::from_static(value));
        }
        door.pass(path, &map).map(str::to_owned)
    }

    const PAGE: &str = "/0123456789abcdef0123456789abcdef/api/areas";

    #[test]
    fn the_own_page_passes() {
        assert_eq!(pass(PAGE, &[(HOST, "127.0.0.1:8080")]).unwrap(), "api/areas");
        assert_eq!(pass(PAGE, &[(HOST, "LOCALHOST:8080"), (ORIGIN, "http://localhost:8080")]).unwrap(), "api/areas");
    }

    #[test]
    fn another_name_for_this_machine_is_refused() {
        for host in ["evil.example:8080", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8080.evil.example", ""] {
            assert!(pass(PAGE, &[(HOST, host)]).is_err(), "{host}");
        }
        assert!(pass(PAGE, &[]).is_err());
        assert!(pass(PAGE, &[(HOST, "127.0.0.1:8080"), (HOST, "127.0.0.1:8080")]).is_err());
    }

    #[test]
    fn another_sites_page_is_refused() {
        let origins = ["https://evil.example", "null", "http://127.0.0.1:8081", "https://127.0.0.1:8080", ""];
        for origin in origins.into_iter().chain(["http://localhost:8080"]) {
            assert!(pass(PAGE, &[(HOST, "127.0.0.1:8080"), (ORIGIN, origin)]).is_err(), "{origin}");
        }
    }

    #[test]
    fn who_does_not_know_the_token_gets_nothing() {
        for path in ["/", "", "/api/areas", "//api/areas", "/0123456789abcdef0123456789abcdee/", &PAGE[..33]] {
            assert!(pass(path, &[(HOST, "127.0.0.1:8080")]).is_err(), "{path}");
        }
    }
}
