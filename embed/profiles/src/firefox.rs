//! Firefox's profiles: the session, in packed JSON, and the cookies, in SQLite.

use crate::mozlz4;
use crate::sqlite::Copy;
use crate::values::{Cookies, Entry, Error, Row, Session, Tab, Window};
use rusqlite::Row as Line;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;
use thaw_cookies::{Cookie, SameSite};

/// Where a session is, the newest first: the first exists only while no browser runs, the next two while one does, or
/// after it was killed; the last is the session before.
const SESSIONS: [&str; 4] = [
    "sessionstore.jsonlz4",
    "sessionstore-backups/recovery.jsonlz4",
    "sessionstore-backups/recovery.baklz4",
    "sessionstore-backups/previous.jsonlz4",
];
/// From this version of the table on, cookies end at a time in milliseconds, not seconds.
const MILLISECONDS: i64 = 16;

/// What a session file says.
struct Found {
    session: Session,
    cookies: Vec<Row>,
}

/// Reads the first session file that can be read; what was wrong with those before it is in the damage.
fn find(profile: &Path) -> Result<Found, Error> {
    let mut damage = Vec::new();
    for name in SESSIONS {
        let file = profile.join(name);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::new(&file, error)),
        };
        match read(&bytes) {
            Ok(mut found) => {
                found.session.file = file;
                damage.append(&mut found.session.damage);
                found.session.damage = damage;
                return Ok(found);
            }
            Err(why) => damage.push(Error::new(&file, why).to_string()),
        }
    }
    let why = if damage.is_empty() { "there is no session file in it".into() } else { damage.join("; ") };
    Err(Error::new(profile, why))
}

/// The windows, of the newest session file that can be read.
///
/// # Errors
/// There is none.
pub fn session(profile: &Path) -> Result<Session, Error> {
    find(profile).map(|found| found.session)
}

/// The windows in the bytes of a session file.
///
/// # Errors
/// What is wrong with it.
pub fn session_of(bytes: &[u8]) -> Result<Session, String> {
    read(bytes).map(|found| found.session)
}

fn read(bytes: &[u8]) -> Result<Found, String> {
    let json = mozlz4::unpack(bytes)?;
    let json: Value = serde_json::from_slice(&json).map_err(|error| format!("its JSON is damaged: {error}"))?;
    let windows = json["windows"].as_array().ok_or("its JSON has no windows: it is no session")?;
    let mut session = Session::default();
    for (number, window) in windows.iter().enumerate() {
        let tabs = list(&window["tabs"]);
        if !window["tabs"].is_array() {
            session.damage.push(format!("window {} has no tabs", number + 1));
        }
        let tabs: Vec<Tab> = tabs.iter().map(tab).collect();
        let selected = one_based(&window["selected"], tabs.len());
        session.windows.push(Window { tabs, selected });
        let closed = list(&window["_closedTabs"]).iter().map(|closed| tab(&closed["state"]));
        session.closed.extend(closed);
    }
    session.selected = one_based(&json["selectedWindow"], session.windows.len());
    for window in list(&json["_closedWindows"]) {
        session.closed.extend(list(&window["tabs"]).iter().map(tab));
    }
    let cookies = list(&json["cookies"]).iter().map(cookie).collect();
    Ok(Found { session, cookies })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

/// A place that is counted from 1.
fn one_based(value: &Value, len: usize) -> Option<usize> {
    let place = usize::try_from(value.as_u64()?).ok()?.checked_sub(1)?;
    (place < len).then_some(place)
}

fn tab(value: &Value) -> Tab {
    let entry = |entry: &Value| Entry { url: text(&entry["url"]), title: text(&entry["title"]) };
    let entries: Vec<Entry> = list(&value["entries"]).iter().map(entry).collect();
    // Without a place it is the last one.
    let selected = one_based(&value["index"], entries.len()).or(entries.len().checked_sub(1));
    let last_active_us = value["lastAccessed"].as_u64().and_then(|ms| ms.checked_mul(1000));
    Tab { entries, selected, pinned: value["pinned"] == true, last_active_us }
}

fn same_site(number: i64) -> SameSite {
    match number {
        0 => SameSite::None,
        1 => SameSite::Lax,
        2 => SameSite::Strict,
        _ => SameSite::Default,
    }
}

fn host(text: &str) -> (String, bool) {
    match text.strip_prefix('.') {
        Some(domain) => (domain.into(), false),
        None => (text.into(), true),
    }
}

/// A cookie of the session, which is not in the database.
fn cookie(value: &Value) -> Row {
    let (domain, host_only) = host(&text(&value["host"]));
    let attributes = &value["originAttributes"];
    let mut others = Vec::new();
    for (name, value) in attributes.as_object().into_iter().flatten().filter(|(name, _)| *name != "partitionKey") {
        match value {
            Value::String(text) if !text.is_empty() => others.push(format!("{name}={text}")),
            Value::Number(number) if number.as_u64() != Some(0) => others.push(format!("{name}={number}")),
            _ => {}
        }
    }
    let cookie = Cookie {
        name: text(&value["name"]).into(),
        value: text(&value["value"]).into(),
        domain,
        host_only,
        path: text(&value["path"]).into(),
        secure: value["secure"] == true,
        http_only: value["httponly"] == true,
        same_site: value["sameSite"].as_i64().map_or(SameSite::None, same_site),
        partition: partition(attributes["partitionKey"].as_str().unwrap_or_default()),
        ..Cookie::default()
    };
    Row { cookie, attributes: if others.is_empty() { String::new() } else { format!("^{}", others.join("&")) } }
}

/// `(https,example.com)` as `https://example.com`.
fn partition(key: &str) -> Option<String> {
    let inside = key.strip_prefix('(').and_then(|key| key.strip_suffix(')'));
    let mut parts = match inside {
        Some(inside) => inside.split(','),
        None => return (!key.is_empty()).then(|| key.into()),
    };
    let (scheme, site) = (parts.next()?, parts.next()?);
    // A port, and whether another site is between, may follow.
    let port = parts.next().filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    Some(port.map_or_else(|| format!("{scheme}://{site}"), |port| format!("{scheme}://{site}:{port}")))
}

fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                out.push(escaped);
                rest = &behind[2..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into()
}

/// The partition in origin attributes, and the rest of them.
fn attributes(text: &str) -> (Option<String>, String) {
    let (mut found, mut others) = (None, Vec::new());
    for part in text.trim_start_matches('^').split('&').filter(|part| !part.is_empty()) {
        match part.strip_prefix("partitionKey=") {
            Some(key) => found = partition(&unescaped(key)),
            None => others.push(part),
        }
    }
    (found, if others.is_empty() { String::new() } else { format!("^{}", others.join("&")) })
}

/// Bytes of a column, whatever SQLite holds them as.
fn bytes(line: &Line<'_>, column: &str) -> rusqlite::Result<Vec<u8>> {
    use rusqlite::types::ValueRef;
    Ok(match line.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Null => Vec::new(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
    })
}

/// All cookies: those of the database, and those of the session.
///
/// # Errors
/// The database cannot be read. A session that cannot be read has no cookies, and [`session`] says why.
pub fn cookies(profile: &Path) -> Result<Cookies, Error> {
    let file = profile.join("cookies.sqlite");
    let wrong = |error: rusqlite::Error| Error::new(&file, error);
    let copy = Copy::of(&file)?;
    let base = copy.connection();
    let version: i64 = base.query_row("PRAGMA user_version", [], |line| line.get(0)).map_err(wrong)?;
    let mut statement = base.prepare("SELECT * FROM moz_cookies ORDER BY id").map_err(wrong)?;
    let has = |statement: &rusqlite::Statement<'_>, name: &str| statement.column_names().any(|column| column == name);
    let (knows_site, knows_raw) = (has(&statement, "sameSite"), has(&statement, "rawSameSite"));
    let unit = if version >= MILLISECONDS { 1000 } else { 1_000_000 };
    let row = |line: &Line<'_>| -> rusqlite::Result<Row> {
        let number = |column: &str| line.get::<_, i64>(column);
        let time = |column: &str| number(column).map(|at| u64::try_from(at).unwrap_or(0));
        let (partition, attributes) = attributes(&String::from_utf8_lossy(&bytes(line, "originAttributes")?));
        let (domain, host_only) = host(&String::from_utf8_lossy(&bytes(line, "host")?));
        let site = if knows_site { same_site(number("sameSite")?) } else { SameSite::Default };
        // Before version 15 this was how it said that the server had said nothing.
        let unsaid = knows_raw && site == SameSite::Lax && number("rawSameSite")? == 0;
        let cookie = Cookie {
            name: bytes(line, "name")?,
            value: bytes(line, "value")?,
            domain,
            host_only,
            path: bytes(line, "path")?,
            secure: number("isSecure")? != 0,
            http_only: number("isHttpOnly")? != 0,
            same_site: if unsaid { SameSite::Default } else { site },
            expires_us: Some(time("expiry")?.saturating_mul(unit)),
            created_us: time("creationTime")?,
            accessed_us: time("lastAccessed")?,
            partition,
        };
        Ok(Row { cookie, attributes })
    };
    let rows: rusqlite::Result<Vec<Row>> = statement.query_map([], row).map_err(wrong)?.collect();
    let mut rows = rows.map_err(wrong)?;
    rows.extend(find(profile).map(|found| found.cookies).unwrap_or_default());
    Ok(Cookies { rows, unread: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(json: &str) -> Vec<u8> {
        let block = lz4_flex::block::compress(json.as_bytes());
        [&mozlz4::MAGIC[..], &(json.len() as u32).to_le_bytes(), &block].concat()
    }

    const SESSION: &str = r#"{"windows":[{"tabs":[{"entries":[{"url":"a","title":"A"},{"url":"b"}],"index":1,
        "pinned":true,"lastAccessed":5},{"entries":[{"url":"c"}],"index":9},{"entries":[]}],"selected":2,
        "_closedTabs":[{"state":{"entries":[{"url":"x"}]}}]},{}],"selectedWindow":1,"_closedWindows":[{"tabs":[{}]}],
        "cookies":[{"host":".d","name":"n","value":"v","path":"/","originAttributes":{"userContextId":2,
        "partitionKey":"(https,e.example,8443)"}}]}"#;

    #[test]
    fn windows_tabs_and_session_cookies_are_read() {
        let found = read(&packed(SESSION)).unwrap();
        let window = &found.session.windows[0];
        assert_eq!((window.tabs.len(), window.selected, found.session.selected), (3, Some(1), Some(0)));
        let first = &window.tabs[0];
        assert_eq!(
            (first.current().unwrap().title.as_str(), first.pinned, first.last_active_us),
            ("A", true, Some(5000))
        );
        assert_eq!(window.tabs[1].current().unwrap().url, "c");
        assert_eq!((window.tabs[2].current(), found.session.closed.len()), (None, 2));
        assert_eq!(found.session.damage, ["window 2 has no tabs"]);
        let row = &found.cookies[0];
        assert_eq!((row.cookie.domain.as_str(), row.cookie.host_only, row.cookie.expires_us), ("d", false, None));
        assert_eq!(row.cookie.partition.as_deref(), Some("https://e.example:8443"));
        assert_eq!(row.attributes, "^userContextId=2");
    }

    #[test]
    fn the_newest_session_that_can_be_read_is_taken_and_the_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = session(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no session file") && error.contains(folder.path().to_str().unwrap()), "{error}");
        let backups = folder.path().join("sessionstore-backups");
        std::fs::create_dir(&backups).unwrap();
        let whole = packed(SESSION);
        std::fs::write(backups.join("recovery.jsonlz4"), &whole[..whole.len() / 2]).unwrap();
        let error = session(folder.path()).unwrap_err().to_string();
        assert!(error.contains("recovery.jsonlz4: its block of LZ4 is damaged"), "{error}");
        std::fs::write(backups.join("recovery.baklz4"), &whole).unwrap();
        let found = session(folder.path()).unwrap();
        assert!(found.file.ends_with("recovery.baklz4") && found.damage[0].contains("recovery.jsonlz4: "));
        std::fs::write(folder.path().join("sessionstore.jsonlz4"), packed("{\"windows\":[]}")).unwrap();
        assert!(session(folder.path()).unwrap().file.ends_with("sessionstore.jsonlz4"));
    }

    #[test]
    fn origin_attributes_are_taken_apart() {
        let (partition, rest) = attributes("^partitionKey=%28http%2C127.0.0.1%29&userContextId=3");
        assert_eq!((partition.as_deref(), rest.as_str()), (Some("http://127.0.0.1"), "^userContextId=3"));
        assert_eq!(attributes(""), (None, String::new()));
        assert_eq!(attributes("^partitionKey=%28https%2Ca.example%2Cf%29").0.as_deref(), Some("https://a.example"));
        assert_eq!([unescaped("a%2"), unescaped("%+2%C3%A4")], ["a%2", "%+2\u{e4}"]);
    }

    #[test]
    fn old_tables_say_times_in_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let base = rusqlite::Connection::open(folder.path().join("cookies.sqlite")).unwrap();
        let table = "CREATE TABLE moz_cookies (id INTEGER PRIMARY KEY, originAttributes TEXT NOT NULL DEFAULT '', \
            name, value, host, path, expiry INTEGER, lastAccessed INTEGER, creationTime INTEGER, isSecure INTEGER, \
            isHttpOnly INTEGER, inBrowserElement INTEGER, sameSite INTEGER, rawSameSite INTEGER);
            PRAGMA user_version=12;
            INSERT INTO moz_cookies VALUES (1, '', 'a', 'b', '.h', '/', 7, 8, 9, 1, 0, 0, 1, 0);
            INSERT INTO moz_cookies VALUES (2, '', 'c', 5, 'h', '/', 7, 8, 9, 1, 0, 0, 1, 1);";
        base.execute_batch(table).unwrap();
        let rows = cookies(folder.path()).unwrap().rows;
        assert_eq!((rows[0].cookie.expires_us, rows[0].cookie.same_site), (Some(7_000_000), SameSite::Default));
        assert_eq!((rows[1].cookie.value.as_slice(), rows[1].cookie.same_site), (&b"5"[..], SameSite::Lax));
        assert!(!rows[0].cookie.host_only && rows[1].cookie.host_only);
        base.execute_batch("PRAGMA user_version=16").unwrap();
        assert_eq!(cookies(folder.path()).unwrap().rows[0].cookie.expires_us, Some(7000));
    }
}
