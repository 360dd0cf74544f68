//! The key of what is stored: partition and target, in one form (RFC 9110 section 4.2.3).

use http::{HeaderMap, Uri, header};
use std::fmt;

/// Partition and absolute URI in normal form: scheme and host in lower case, no default port, no empty path, no
/// fragment, no user information; path and query as they are, with their percent-encoding. Stored responses are those
/// to GET alone, so that the method is no part of it. Two equal keys have the same candidates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub(crate) partition: String,
    pub(crate) scheme: String,
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Key {
    /// The key of a request's target. The host is the URI's, else that of the field `Host`; the scheme is the URI's,
    /// else `http`. `partition` keeps apart what must not be shared (top-level sites, users); empty for one for all.
    pub fn of(uri: &Uri, headers: &HeaderMap, partition: &str) -> Key {
        let scheme = uri.scheme_str().unwrap_or("http").to_ascii_lowercase();
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let authority = uri.authority().map_or_else(host, |authority| authority.as_str());
        let authority = normal_authority(&scheme, authority);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Key { partition: partition.into(), scheme, authority, path: normal_path(path) }
    }

    /// The bytes that a store looks up: partition, NUL, URI. Unequal keys have unequal bytes as long as no partition
    /// has a NUL.
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{}\0{self}", self.partition).into_bytes()
    }

    /// The key of what a reference in a field of this target's response names (RFC 3986 section 5.2); `None` where it
    /// is of another origin or no reference: such a one invalidates nothing (RFC 9111 section 4.4).
    pub(crate) fn same_origin(&self, reference: &str) -> Option<Key> {
        let reference = reference.trim().split('#').next()?;
        let colon = reference.find(':').filter(|at| !reference[..*at].contains(['/', '?']));
        let (scheme, rest) = match colon {
            Some(at) => (reference[..at].to_ascii_lowercase(), &reference[at + 1..]),
            None => (self.scheme.clone(), reference),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                (normal_authority(&scheme, &rest[..end]), normal_path(&rest[end..]))
            }
            None if colon.is_some() => return None,
            None => (self.authority.clone(), self.resolve(rest)),
        };
        let same = scheme == self.scheme && authority == self.authority;
        same.then(|| Key { partition: self.partition.clone(), scheme, authority, path })
    }

    fn resolve(&self, reference: &str) -> String {
        let base = self.path.split('?').next().unwrap_or_default();
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (reference, String::new()),
        };
        let path = match path.as_bytes() {
            [] if query.is_empty() => return self.path.clone(),
            [] => return format!("{base}{query}"),
            [b'/', ..] => path.to_string(),
            _ => format!("{}/{path}", base.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        let mut folders: Vec<&str> = Vec::new();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        for (at, segment) in segments.iter().enumerate() {
            let last = at + 1 == segments.len();
            match *segment {
                "." | ".." => {
                    if *segment == ".." {
                        folders.pop();
                    }
                    if last {
                        folders.push("");
                    }
                }
                segment => folders.push(segment),
            }
        }
        format!("/{}{query}", folders.join("/"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

fn normal_authority(scheme: &str, authority: &str) -> String {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let default = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(default).or_else(|| host.strip_suffix(':')).unwrap_or(&host).to_string()
}

fn normal_path(path: &str) -> String {
    if path.starts_with('/') || path == "*" { path.to_string() } else { format!("/{path}") }
}
