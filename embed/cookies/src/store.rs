//! The cookies of one site, and the rules of RFC 6265bis by which they are stored (section 5.7), sent (5.8) and given
//! up. Pure: no time of its own, no disk.

use crate::cookie::{Context, Cookie, Key, Place, SameSite, domain_match, path_match};
use crate::error::Wrong;
use crate::parse::{self, Parsed};

/// How many cookies there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one domain (in one partition).
    pub per_domain: usize,
    /// Of all together.
    pub total: usize,
}

impl Default for Limits {
    /// The least that the RFC asks for.
    fn default() -> Limits {
        Limits { per_domain: 50, total: 3000 }
    }
}

/// A cookie of the jar, and what the file knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub cookie: Cookie,
    /// The last access that is in the file, or about to be, in microseconds since 1970.
    pub recorded_us: u64,
}

impl Kept {
    pub fn new(cookie: Cookie) -> Kept {
        Kept { recorded_us: cookie.accessed_us, cookie }
    }
}

impl std::ops::Deref for Kept {
    type Target = Cookie;

    fn deref(&self) -> &Cookie {
        &self.cookie
    }
}

/// What a name may begin with that promises something of its cookie.
const PREFIXES: [&str; 3] = ["__Secure-", "__Host-", "__Http-"];

/// Whether this is a prefix of a name, in letters of any case.
fn begins(name: &[u8], prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Makes a cookie of a header that came from a place, without a look at other cookies.
pub(crate) fn make(
    parsed: Parsed,
    place: &Place,
    context: &Context,
    is_suffix: &dyn Fn(&str) -> bool,
    now_us: u64,
) -> Result<Cookie, Wrong> {
    let shown: String = String::from_utf8_lossy(&parsed.name[..parsed.name.len().min(64)]).into();
    let wrong = |why| Err(Wrong::Cookie { name: shown.clone(), why });
    let Ok(mut domain) = String::from_utf8(parsed.domain) else { return wrong("its domain is no ASCII") };
    if !domain.is_ascii() {
        return wrong("its domain is no ASCII");
    }
    if !domain.is_empty() && is_suffix(&domain) {
        if domain != place.host {
            return wrong("its domain is a public suffix");
        }
        domain.clear();
    }
    let host_only = domain.is_empty();
    if !host_only && !domain_match(&place.host, &domain) {
        return wrong("its domain is not the host's");
    }
    if parsed.secure && !place.secure {
        return wrong("it is secure, the connection is not");
    }
    if parsed.http_only && !context.http {
        return wrong("a script may not set what is for HTTP only");
    }
    if parsed.same_site != SameSite::None && !context.same_site && !(context.http && context.top_level) {
        return wrong("another site caused the request");
    }
    if parsed.same_site == SameSite::None && !parsed.secure {
        return wrong("SameSite=None has to be secure");
    }
    if parsed.partitioned && !parsed.secure {
        return wrong("Partitioned has to be secure");
    }
    if begins(&parsed.name, "__Secure-") && !parsed.secure {
        return wrong("its name begins with __Secure-, and it is not secure");
    }
    let root = parsed.path.as_deref() == Some(b"/");
    if begins(&parsed.name, "__Host-") && !(parsed.secure && host_only && root) {
        return wrong("its name begins with __Host-: it has to be secure, without a domain, of the path /");
    }
    // Of the draft of layered cookies, which goes on from RFC 6265bis. `__Host-` above holds for `__Host-Http-` too.
    let for_http = begins(&parsed.name, "__Http-") || begins(&parsed.name, "__Host-Http-");
    if for_http && !(parsed.secure && parsed.http_only) {
        return wrong("its name begins with __Http- or __Host-Http-: it has to be secure, and for HTTP only");
    }
    if parsed.name.is_empty() && PREFIXES.iter().any(|prefix| begins(&parsed.value, prefix)) {
        return wrong("it has no name, and a value that would be taken for one");
    }
    Ok(Cookie {
        name: parsed.name,
        value: parsed.value,
        domain: if host_only { place.host.clone() } else { domain },
        host_only,
        path: parsed.path.unwrap_or_else(|| place.default_path()),
        secure: parsed.secure,
        http_only: parsed.http_only,
        same_site: parsed.same_site,
        expires_us: parsed.expires_us,
        created_us: now_us,
        accessed_us: now_us,
        partition: context.partition.clone().filter(|_| parsed.partitioned),
    })
}

/// Stores a cookie among those of its site, as far as the older ones let it: which ones are not as they were.
pub(crate) fn insert(
    cookies: &mut Vec<Kept>,
    mut new: Cookie,
    place: &Place,
    context: &Context,
    limits: Limits,
) -> Result<Vec<Key>, Wrong> {
    let wrong = |why| {
        let name = String::from_utf8_lossy(&new.name[..new.name.len().min(64)]).into();
        Err(Wrong::Cookie { name, why })
    };
    let (now, key) = (new.accessed_us, new.key());
    let live = || cookies.iter().filter(|old| !old.is_expired(now));
    let shadows = |old: &Kept| {
        old.secure
            && old.name == new.name
            && (domain_match(&old.domain, &new.domain) || domain_match(&new.domain, &old.domain))
            && path_match(&new.path, &old.path)
    };
    if !new.secure && !place.secure && live().any(shadows) {
        return wrong("it would hide a secure one, and the connection is not secure");
    }
    if !context.http && live().any(|old| old.http_only && old.is(&key)) {
        return wrong("a script may not change what is for HTTP only");
    }
    if let Some(old) = live().find(|old| old.is(&key)) {
        new.created_us = old.created_us;
    }
    Ok(replace(cookies, new, now, limits))
}

/// Puts a cookie in the place of the one of its key, or behind the others: which ones are not as they were.
pub(crate) fn replace(cookies: &mut Vec<Kept>, new: Cookie, now_us: u64, limits: Limits) -> Vec<Key> {
    cookies.retain(|cookie| !cookie.is_expired(now_us));
    let key = new.key();
    match cookies.iter().position(|old| old.is(&key)) {
        Some(at) if new.is_expired(now_us) => drop(cookies.remove(at)),
        Some(at) => cookies[at] = Kept::new(new),
        // The file may have one that has expired.
        None if new.is_expired(now_us) => {}
        None => {
            let same = |old: &Cookie| old.domain == key.domain && old.partition == key.partition;
            cookies.push(Kept::new(new));
            let of_domain: Vec<&Cookie> = cookies.iter().map(|kept| &kept.cookie).filter(|old| same(old)).collect();
            let gone = excess(&of_domain, limits.per_domain, limits.per_domain, now_us);
            cookies.retain(|old| !gone.iter().any(|gone| old.is(gone)));
            return [key].into_iter().chain(gone).collect();
        }
    }
    vec![key]
}

/// Which of these have to go so that `limit` are left, in the order of the RFC: expired ones, insecure ones of domains
/// with more than `per_domain`, others of such domains, any; of each those first that were used longest ago.
pub(crate) fn excess(cookies: &[&Cookie], limit: usize, per_domain: usize, now_us: u64) -> Vec<Key> {
    let much = cookies.len().saturating_sub(limit);
    if much == 0 {
        return Vec::new();
    }
    let mut counts = std::collections::HashMap::new();
    for cookie in cookies {
        *counts.entry((&cookie.domain, &cookie.partition)).or_insert(0) += 1;
    }
    let mut order: Vec<(u8, u64, u64, &Cookie)> = { cookies.iter() }
        .map(|cookie| {
            let many = counts[&(&cookie.domain, &cookie.partition)] > per_domain;
            let rank = match (cookie.is_expired(now_us), many, cookie.secure) {
                (true, _, _) => 0,
                (_, true, false) => 1,
                (_, true, true) => 2,
                _ => 3,
            };
            (rank, cookie.accessed_us, cookie.created_us, *cookie)
        })
        .collect();
    order.sort_by_key(|entry| (entry.0, entry.1, entry.2));
    order[..much].iter().map(|entry| entry.3.key()).collect()
}

/// Whether a cookie goes along.
pub(crate) fn goes(cookie: &Cookie, place: &Place, context: &Context, now_us: u64) -> bool {
    let host = if cookie.host_only { place.host == cookie.domain } else { domain_match(&place.host, &cookie.domain) };
    let site = match cookie.same_site {
        SameSite::None => true,
        _ if context.same_site => true,
        SameSite::Strict => false,
        SameSite::Lax | SameSite::Default => context.http && context.safe_method && context.top_level,
    };
    host && site
        && path_match(&place.path, &cookie.path)
        && (!cookie.secure || place.secure)
        && (!cookie.http_only || context.http)
        && (cookie.partition.is_none() || cookie.partition == context.partition)
        && !cookie.is_expired(now_us)
}

/// Puts cookies into the order in which they are sent: longer paths first, then older ones.
pub(crate) fn sort(cookies: &mut [Cookie]) {
    cookies.sort_by(|a, b| b.path.len().cmp(&a.path.len()).then(a.created_us.cmp(&b.created_us)));
}

/// The value of the header `Cookie`.
pub fn header(cookies: &[Cookie]) -> Vec<u8> {
    let mut out = Vec::new();
    for cookie in cookies {
        if !out.is_empty() {
            out.extend(b"; ");
        }
        if !cookie.name.is_empty() {
            out.extend(&cookie.name);
            out.push(b'=');
        }
        out.extend(&cookie.value);
    }
    out
}

/// Reads a header and makes a cookie of it.
pub(crate) fn read(
    header: &[u8],
    place: &Place,
    context: &Context,
    is_suffix: &dyn Fn(&str) -> bool,
    now_us: u64,
) -> Result<Cookie, Wrong> {
    make(parse::set_cookie(header, now_us)?, place, context, is_suffix, now_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { per_domain: 3, total: 10 };

    fn plain(domain: &str) -> bool {
        !domain.contains('.')
    }

    fn set(cookies: &mut Vec<Kept>, header: &str, url: &str, now: u64, context: &Context) -> Result<Vec<Key>, Wrong> {
        let place = Place::of(url, context)?;
        let cookie = read(header.as_bytes(), &place, context, &plain, now)?;
        insert(cookies, cookie, &place, context, LIMITS)
    }

    fn sent(cookies: &[Kept], url: &str, now: u64, context: &Context) -> String {
        let place = Place::of(url, context).unwrap();
        let going = { cookies.iter() }.filter(|it| goes(it, &place, context, now));
        let mut all: Vec<Cookie> = going.map(|it| it.cookie.clone()).collect();
        sort(&mut all);
        String::from_utf8(header(&all)).unwrap()
    }

    fn refused(header: &str, url: &str, context: &Context) -> bool {
        set(&mut Vec::new(), header, url, 1, context).is_err()
    }

    #[test]
    fn each_rule_of_storing_refuses_what_it_is_for() {
        let (http, https, mine) = ("http://www.example.com/a/b", "https://www.example.com/a/b", Context::default());
        let script = Context { http: false, ..mine.clone() };
        let framed = Context { same_site: false, top_level: false, ..mine.clone() };
        let linked = Context { same_site: false, ..mine.clone() };
        let cases = [
            ("a=b; Domain=com", https, &mine),
            ("a=b; Domain=other.com", https, &mine),
            ("a=b; Domain=x.www.example.com", https, &mine),
            ("a=b; Domain=ex\u{e4}mple.com", https, &mine),
            ("a=b; Secure", http, &mine),
            ("a=b; HttpOnly", https, &script),
            ("a=b; SameSite=Lax", https, &framed),
            ("a=b", https, &framed),
            ("a=b; SameSite=None", https, &mine),
            ("a=b; Partitioned", https, &mine),
            ("__Secure-a=b", https, &mine),
            ("__secure-a=b", https, &mine),
            ("__Host-a=b; Secure", https, &mine),
            ("__Host-a=b; Secure; Path=/; Domain=www.example.com", https, &mine),
            ("__host-a=b; Path=/", https, &mine),
            ("=__Host-a=b", https, &mine),
            ("__Secure-b; Path=/", https, &mine),
        ];
        for (header, url, context) in cases {
            assert!(refused(header, url, context), "{header}");
        }
        let cases = [
            ("a=b; Domain=example.com", http, &mine),
            ("a=b; Domain=.www.example.com", http, &mine),
            ("a=b; Domain=", http, &mine),
            ("a=b; SameSite=Strict", https, &linked),
            ("a=b; SameSite=None; Secure", https, &framed),
            ("__Secure-a=b; Secure", https, &mine),
            ("__Host-a=b; Secure; Path=/", https, &mine),
            ("a=b; Domain=localhost", "http://localhost/", &mine),
        ];
        for (header, url, context) in cases {
            assert!(!refused(header, url, context), "{header}");
        }
        let trusted = Context { trusted: true, ..mine };
        assert!(!refused("a=b; Secure", "http://127.0.0.1/", &trusted));
    }

    #[test]
    fn a_cookie_is_sent_where_it_belongs_in_the_order_of_the_rfc() {
        let (mut all, mine) = (Vec::new(), Context::default());
        let (https, http) = ("https://www.example.com/a/b", "http://www.example.com/a/b");
        for (at, header) in [
            "host=1; Path=/",
            "domain=2; Path=/; Domain=example.com",
            "deep=3",
            "safe=4; Path=/; Secure; HttpOnly; SameSite=Strict",
            "=5; Path=/a",
        ]
        .iter()
        .enumerate()
        {
            let limits = Limits { per_domain: 50, total: 50 };
            let place = Place::of(https, &mine).unwrap();
            let cookie = read(header.as_bytes(), &place, &mine, &plain, at as u64).unwrap();
            insert(&mut all, cookie, &place, &mine, limits).unwrap();
        }
        assert_eq!(sent(&all, https, 9, &mine), "deep=3; 5; host=1; domain=2; safe=4");
        assert_eq!(sent(&all, http, 9, &mine), "deep=3; 5; host=1; domain=2");
        assert_eq!(sent(&all, "https://example.com/", 9, &mine), "domain=2");
        assert_eq!(sent(&all, "https://x.www.example.com/ab", 9, &mine), "domain=2");
        let script = Context { http: false, ..mine.clone() };
        assert_eq!(sent(&all, "https://www.example.com/", 9, &script), "host=1; domain=2");
        let linked = Context { same_site: false, ..mine.clone() };
        assert_eq!(sent(&all, "https://www.example.com/", 9, &linked), "host=1; domain=2");
        let posted = Context { safe_method: false, ..linked.clone() };
        let framed = Context { top_level: false, ..linked };
        assert_eq!(sent(&all, https, 9, &posted) + &sent(&all, https, 9, &framed), "");
    }

    #[test]
    fn a_newer_value_keeps_the_time_and_a_past_one_takes_it_away() {
        let (mut all, mine, url) = (Vec::new(), Context::default(), "https://example.com/");
        set(&mut all, "a=1", url, 5, &mine).unwrap();
        set(&mut all, "b=1", url, 6, &mine).unwrap();
        let changed = set(&mut all, "a=2", url, 7, &mine).unwrap();
        assert_eq!((all.len(), changed.len()), (2, 1));
        assert_eq!(sent(&all, url, 8, &mine), "a=2; b=1");
        assert_eq!((all[0].created_us, all[0].accessed_us), (5, 7));
        let changed = set(&mut all, "a=; Max-Age=0", url, 8, &mine).unwrap();
        assert_eq!((all.len(), changed.len()), (1, 1));
        assert_eq!(sent(&all, url, 9, &mine), "b=1");
        set(&mut all, "c=1; Max-Age=1", url, 10, &mine).unwrap();
        assert_eq!(sent(&all, url, 1_000_009, &mine), "b=1; c=1");
        assert_eq!(sent(&all, url, 1_000_010, &mine), "b=1");
    }

    #[test]
    fn what_is_secure_or_for_http_is_not_changed_by_others() {
        let (mut all, mine) = (Vec::new(), Context::default());
        let script = Context { http: false, ..mine.clone() };
        set(&mut all, "a=1; Secure; Path=/x", "https://www.example.com/", 1, &mine).unwrap();
        set(&mut all, "h=1; HttpOnly", "https://www.example.com/", 2, &mine).unwrap();
        for header in ["a=2; Path=/x", "a=2; Path=/x/y", "a=2; Path=/x; Domain=example.com"] {
            assert!(set(&mut all, header, "http://www.example.com/", 3, &mine).is_err(), "{header}");
        }
        assert!(set(&mut all, "h=2", "https://www.example.com/", 4, &script).is_err());
        assert!(set(&mut all, "a=2; Path=/", "http://www.example.com/", 5, &mine).is_ok(), "it hides none");
        assert_eq!(sent(&all, "https://www.example.com/x", 6, &mine), "a=1; h=1; a=2");
    }

    #[test]
    fn partitions_are_apart() {
        let (mut all, mine, url) = (Vec::new(), Context::default(), "https://w.example/");
        let within = |site: &str| Context { partition: Some(site.into()), same_site: false, ..mine.clone() };
        let header = |value: &str| format!("a={value}; Secure; SameSite=None; Partitioned");
        set(&mut all, &header("1"), url, 1, &within("https://one.example")).unwrap();
        set(&mut all, &header("2"), url, 2, &within("https://two.example")).unwrap();
        assert_eq!(sent(&all, url, 3, &within("https://one.example")), "a=1");
        assert_eq!(sent(&all, url, 3, &within("https://two.example")), "a=2");
        assert_eq!(sent(&all, url, 3, &mine), "");
    }

    #[test]
    fn excess_goes_by_the_order_of_the_rfc() {
        let (mut all, mine, url) = (Vec::new(), Context::default(), "https://example.com/");
        for (at, header) in ["s1=1; Secure", "p1=1", "s2=1; Secure", "p2=1", "s3=1; Secure"].iter().enumerate() {
            set(&mut all, header, url, at as u64, &mine).unwrap();
        }
        // p1 went for p2, p2 for s3.
        assert_eq!(sent(&all, url, 9, &mine), "s1=1; s2=1; s3=1");
        all[0].cookie.accessed_us = 9;
        let changed = set(&mut all, "s4=1; Secure", url, 10, &mine).unwrap();
        assert_eq!((all.len(), changed.len()), (3, 2));
        assert_eq!(sent(&all, url, 11, &mine), "s1=1; s3=1; s4=1");
        let cookie = |domain: &str, accessed_us, secure, expires_us| Cookie {
            domain: domain.into(),
            accessed_us,
            secure,
            expires_us,
            ..Cookie::default()
        };
        let all = [
            cookie("few", 1, false, None),
            cookie("many", 2, true, None),
            cookie("many", 4, false, None),
            cookie("many", 3, false, None),
            cookie("few", 9, true, Some(5)),
        ];
        let of: Vec<&Cookie> = all.iter().collect();
        let order: Vec<Key> = [4, 3, 2, 1].map(|at: usize| all[at].key()).into();
        assert_eq!(excess(&of, 1, 2, 10), order);
    }
}
