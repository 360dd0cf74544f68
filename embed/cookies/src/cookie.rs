//! What a cookie is, who asks for it, and where: the nouns of the crate. Pure.

use crate::error::Wrong;

/// When a cookie goes along with requests that another site caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SameSite {
    /// Nothing was said, or nothing known: as [`SameSite::Lax`].
    #[default]
    Default,
    /// Always.
    None,
    /// With navigations of the top level by a safe method.
    Lax,
    /// Never.
    Strict,
}

/// A cookie. All times are in microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie {
    /// Its name; may be empty.
    pub name: Vec<u8>,
    /// Its value: octets.
    pub value: Vec<u8>,
    /// The host that it goes to, or the domain, without a dot before it, in lower case.
    pub domain: String,
    /// It goes to that host alone, not to those below.
    pub host_only: bool,
    /// It goes to this path and those below.
    pub path: Vec<u8>,
    /// By secure connections alone.
    pub secure: bool,
    /// Not for scripts.
    pub http_only: bool,
    /// With which requests.
    pub same_site: SameSite,
    /// When it ends; `None`: with the session.
    pub expires_us: Option<u64>,
    /// When it was made first: a newer value does not change it.
    pub created_us: u64,
    /// When it was asked for, or set, last.
    pub accessed_us: u64,
    /// The top-level site that it is kept for alone (CHIPS); `None`: for all.
    pub partition: Option<String>,
}

/// What tells a cookie from all others of a jar.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// As in [`Cookie`].
    pub domain: String,
    /// As in [`Cookie`].
    pub host_only: bool,
    /// As in [`Cookie`].
    pub path: Vec<u8>,
    /// As in [`Cookie`].
    pub name: Vec<u8>,
    /// As in [`Cookie`].
    pub partition: Option<String>,
}

impl Cookie {
    /// What tells it from all others.
    pub fn key(&self) -> Key {
        let (domain, path, name) = (self.domain.clone(), self.path.clone(), self.name.clone());
        Key { domain, host_only: self.host_only, path, name, partition: self.partition.clone() }
    }

    /// Whether this is its key.
    pub fn is(&self, key: &Key) -> bool {
        self.name == key.name
            && self.domain == key.domain
            && self.host_only == key.host_only
            && self.path == key.path
            && self.partition == key.partition
    }

    /// It has ended by then.
    pub fn is_expired(&self, now_us: u64) -> bool {
        self.expires_us.is_some_and(|at| at <= now_us)
    }
}

/// Who asks, and why: what a URL does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// By HTTP, not by a script.
    pub http: bool,
    /// The site that caused the request is the one that gets it.
    pub same_site: bool,
    /// It navigates a window or tab, not a frame, nor for a part of a page.
    pub top_level: bool,
    /// Its method is safe: GET, HEAD, OPTIONS, TRACE.
    pub safe_method: bool,
    /// The connection is trusted, though its scheme does not say so: the loopback address, to browsers.
    pub trusted: bool,
    /// The top-level site, if cookies are to be kept apart by it: those that say `Partitioned` are then seen there
    /// alone.
    pub partition: Option<String>,
}

impl Default for Context {
    /// A request by HTTP that the site itself caused.
    fn default() -> Context {
        Context { http: true, same_site: true, top_level: true, safe_method: true, trusted: false, partition: None }
    }
}

/// What of a URL matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub secure: bool,
    pub host: String,
    pub path: Vec<u8>,
}

impl Place {
    pub fn of(url: &str, context: &Context) -> Result<Place, Wrong> {
        let wrong = |why| Wrong::Url { url: url.into(), why };
        let (scheme, rest) = url.split_once("://").ok_or(wrong("it has no scheme"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" | "wss" => true,
            "http" | "ws" => context.trusted,
            _ => return Err(wrong("cookies go by http, https, ws and wss alone")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, behind)| behind);
        let host = match authority.strip_prefix('[') {
            Some(inside) => &authority[..inside.find(']').ok_or(wrong("its address has no end"))? + 2],
            None => authority.split_once(':').map_or(authority, |(host, _)| host),
        };
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("its host is none: an international name has to be in its ASCII form"));
        }
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        Ok(Place { secure, host: host.to_ascii_lowercase(), path: path.into() })
    }

    /// The path of a cookie that names none.
    pub fn default_path(&self) -> Vec<u8> {
        match self.path.iter().rposition(|byte| *byte == b'/') {
            None | Some(0) => b"/".to_vec(),
            Some(at) => self.path[..at].to_vec(),
        }
    }
}

/// Whether a host is a number.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Whether a host is this domain or below it.
pub fn domain_match(host: &str, domain: &str) -> bool {
    if host == domain {
        return true;
    }
    let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    below && !domain.is_empty() && !is_address(host)
}

/// Whether a path is this one or below it.
pub fn path_match(path: &[u8], of_cookie: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(of_cookie) else { return false };
    rest.is_empty() || of_cookie.ends_with(b"/") || rest.starts_with(b"/")
}

/// The site of a host: the shortest domain above it, or itself, that is no public suffix. All cookies that can go to a
/// host have the same one.
pub(crate) fn site<'h>(host: &'h str, is_suffix: &dyn Fn(&str) -> bool) -> &'h str {
    if is_address(host) {
        return host;
    }
    let starts = host.rmatch_indices('.').map(|(at, _)| at + 1);
    { starts }.map(|at| &host[at..]).find(|domain| !domain.is_empty() && !is_suffix(domain)).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_and_what_is_none_is_named() {
        let of = |url| Place::of(url, &Context::default());
        let place = of("HTTPS://me:pw@WWW.Example.com:8443/a/b?c#d").unwrap();
        assert_eq!((place.secure, place.host.as_str(), &place.path[..]), (true, "www.example.com", &b"/a/b"[..]));
        assert_eq!(place.default_path(), b"/a");
        let place = of("http://[::1]:80?x=/y/z").unwrap();
        assert_eq!((place.secure, place.host.as_str(), &place.path[..]), (false, "[::1]", &b"/"[..]));
        assert_eq!(place.default_path(), b"/");
        for wrong in ["example.com", "ftp://a/", "http:///a", "http://b\u{fc}cher.example/", "http://[::1/"] {
            assert!(of(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn hosts_and_paths_match_those_above_them_at_whole_steps() {
        assert!(domain_match("a.b.c", "b.c") && domain_match("b.c", "b.c"));
        assert!(!domain_match("ab.c", "b.c") && !domain_match("b.c", "a.b.c") && !domain_match("1.2.3.4", "3.4"));
        assert!(path_match(b"/a/b", b"/a") && path_match(b"/a/b", b"/a/") && path_match(b"/a", b"/a"));
        assert!(!path_match(b"/ab", b"/a") && !path_match(b"/", b"/a"));
    }

    #[test]
    fn a_site_is_the_shortest_domain_that_is_no_suffix() {
        let plain = |domain: &str| !domain.contains('.');
        assert_eq!(site("a.b.example.com", &plain), "example.com");
        assert_eq!(site("localhost", &plain), "localhost");
        assert_eq!(site("10.0.0.1", &plain), "10.0.0.1");
        let listed = |domain: &str| ["uk", "co.uk"].contains(&domain);
        assert_eq!(site("a.b.co.uk", &listed), "b.co.uk");
        assert_eq!(site("co.uk", &listed), "co.uk");
    }
}
