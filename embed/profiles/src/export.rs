//! What was read, as JSON that any program can take in.

use crate::values::{Cookies, Session, Tab};
use serde_json::{Value, json};
use thaw_cookies::SameSite;

/// Windows, tabs, their pages, and cookies as one document, `thaw.profile/1`. Places are counted from 0, times are in
/// microseconds since 1970. Octets of cookies that are no UTF-8 are replaced, and the cookie says so (`lossy`).
pub fn export(session: &Session, cookies: &Cookies) -> Value {
    let windows: Vec<Value> = { session.windows.iter() }
        .map(|window| json!({ "tabs": tabs(&window.tabs), "selected": window.selected }))
        .collect();
    json!({
        "format": "thaw.profile/1",
        "windows": windows,
        "selected": session.selected,
        "closed": tabs(&session.closed),
        "damage": session.damage,
        "cookies": cookies.rows.iter().map(cookie).collect::<Vec<_>>(),
        "unread": cookies.unread.iter().map(|it| json!({ "host": it.host, "name": it.name, "why": it.why }))
            .collect::<Vec<_>>(),
    })
}

fn tabs(tabs: &[Tab]) -> Vec<Value> {
    let of = |tab: &Tab| {
        let entries: Vec<Value> =
            { tab.entries.iter() }.map(|entry| json!({ "url": entry.url, "title": entry.title })).collect();
        let (selected, pinned) = (tab.selected, tab.pinned);
        json!({ "entries": entries, "selected": selected, "pinned": pinned, "last_active_us": tab.last_active_us })
    };
    tabs.iter().map(of).collect()
}

fn cookie(row: &crate::values::Row) -> Value {
    let it = &row.cookie;
    let lossy = [&it.name, &it.value, &it.path].iter().any(|part| std::str::from_utf8(part).is_err());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "name": text(&it.name),
        "value": text(&it.value),
        "lossy": lossy,
        "domain": it.domain,
        "host_only": it.host_only,
        "path": text(&it.path),
        "secure": it.secure,
        "http_only": it.http_only,
        "same_site": match it.same_site {
            SameSite::Default => "default",
            SameSite::None => "none",
            SameSite::Lax => "lax",
            SameSite::Strict => "strict",
        },
        "expires_us": it.expires_us,
        "created_us": it.created_us,
        "accessed_us": it.accessed_us,
        "partition": it.partition,
        "attributes": row.attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Entry, Row, Window};
    use thaw_cookies::Cookie;

    #[test]
    fn all_that_was_read_is_in_it() {
        let entries = vec![Entry { url: "http://a/".into(), title: "A".into() }];
        let tab = Tab { entries, selected: Some(0), pinned: true, last_active_us: Some(7) };
        let window = Window { tabs: vec![tab.clone()], selected: Some(0) };
        let session = Session { windows: vec![window], selected: Some(0), closed: vec![tab], ..Session::default() };
        let cookie = Cookie { name: b"n".to_vec(), value: vec![0xFF], expires_us: Some(9), ..Cookie::default() };
        let rows = vec![Row { cookie, attributes: "^x".into() }];
        let json = export(&session, &Cookies { rows, unread: vec![] });
        assert_eq!(json["windows"][0]["tabs"][0]["entries"][0]["title"], "A");
        assert_eq!(json["closed"][0]["pinned"], true);
        let cookie = &json["cookies"][0];
        assert_eq!(
            (&cookie["lossy"], &cookie["expires_us"], &cookie["attributes"]),
            (&true.into(), &9.into(), &"^x".into())
        );
    }
}
