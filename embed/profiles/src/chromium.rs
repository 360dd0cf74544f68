//! Chromium's profiles (the directory `Default`, or another of its kind): the session, in files of commands, and the
//! cookies, in SQLite, with their values encrypted.

use crate::oscrypt::decrypted;
use crate::snss;
use crate::sqlite::Copy;
use crate::values::{Cookies, Error, Row, Session, Unread};
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thaw_cookies::{Cookie, SameSite};

/// From this version of the table on, the hash of the host is before the value.
const WITH_HOST: i64 = 24;
/// Bytes of that hash.
const HASH: usize = 32;

/// Where session files are. Newer versions write both, or the second alone.
const FOLDERS: [&str; 2] = ["Sessions", "Sessions_Encrypted"];

/// The files of a kind, the newest first: their names end with the time in microseconds. Of two of the same second the
/// one that is not encrypted is first: then they are of the same session.
fn newest(profile: &Path, begin: &str) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for (plain, folder) in FOLDERS.iter().enumerate().map(|(at, name)| (at == 0, profile.join(name))) {
        let wrong = |error: std::io::Error| Error::new(&folder, error);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(wrong(error)),
        };
        for entry in entries {
            let name = entry.map_err(wrong)?.file_name();
            let time = name.to_str().and_then(|name| name.strip_prefix(begin)?.parse::<u64>().ok());
            found.extend(time.map(|time| (time / 1_000_000, plain, time, folder.join(&name))));
        }
    }
    found.sort();
    Ok(found.into_iter().rev().map(|file| file.3).collect())
}

/// The windows, of the newest session file that is complete and can be read; what was wrong with newer ones is in the
/// damage. Closed tabs are those of the newest file of them.
///
/// # Errors
/// There is no such file.
pub fn session(profile: &Path) -> Result<Session, Error> {
    let mut damage = Vec::new();
    let mut found = None;
    for file in newest(profile, "Session_")? {
        let bytes = std::fs::read(&file).map_err(|error| Error::new(&file, error))?;
        match snss::session(&bytes) {
            Ok(_) if !snss::is_complete(&bytes) => {
                damage.push(Error::new(&file, "its first state is not complete").to_string());
            }
            Ok(session) => {
                let wrong = session.damage.iter().map(|why| Error::new(&file, why).to_string());
                damage.extend(wrong);
                found = Some(Session { file, ..session });
                break;
            }
            Err(why) => damage.push(Error::new(&file, why).to_string()),
        }
    }
    let Some(mut session) = found else {
        let why = if damage.is_empty() { "there is no session file in it".into() } else { damage.join("; ") };
        return Err(Error::new(profile, why));
    };
    if let Some(file) = newest(profile, "Tabs_")?.first() {
        let bytes = std::fs::read(file).map_err(|error| Error::new(file, error))?;
        match snss::closed(&bytes) {
            Ok((tabs, wrong)) => {
                session.closed = tabs;
                damage.extend(wrong.map(|why| Error::new(file, why).to_string()));
            }
            Err(why) => damage.push(Error::new(file, why).to_string()),
        }
    }
    session.damage = damage;
    Ok(session)
}

/// The value inside an encrypted one.
fn value_of(encrypted: &[u8], host: &[u8], with_host: bool) -> Result<Vec<u8>, &'static str> {
    let plain = decrypted(encrypted)?;
    if !with_host {
        return Ok(plain);
    }
    let (hash, value) = plain.split_at_checked(HASH).ok_or("it is too short for the hash of its host")?;
    (hash == &Sha256::digest(host)[..]).then(|| value.to_vec()).ok_or("it is the value of another host's cookie")
}

/// Where the cookies are, in newer profiles and in older ones.
fn file(profile: &Path) -> PathBuf {
    let newer = profile.join("Network/Cookies");
    if newer.exists() { newer } else { profile.join("Cookies") }
}

/// All cookies, those of the session too.
///
/// # Errors
/// The database cannot be read. Values that cannot be decrypted are named one by one.
pub fn cookies(profile: &Path) -> Result<Cookies, Error> {
    let file = file(profile);
    let wrong = |error: rusqlite::Error| Error::new(&file, error);
    let copy = Copy::of(&file)?;
    let base = copy.connection();
    // It is a text in some.
    let version = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'version'";
    let version: i64 = base.query_row(version, [], |line| line.get(0)).map_err(wrong)?;
    let mut statement = base.prepare("SELECT * FROM cookies ORDER BY creation_utc, rowid").map_err(wrong)?;
    let knows_partition = statement.column_names().any(|name| name == "top_frame_site_key");
    let mut found = Cookies::default();
    let mut lines = statement.query([]).map_err(wrong)?;
    while let Some(line) = lines.next().map_err(wrong)? {
        let bytes = |column: &str| -> rusqlite::Result<Vec<u8>> {
            let value = line.get_ref(column)?;
            Ok(value.as_bytes_or_null()?.unwrap_or_default().to_vec())
        };
        let number = |column: &str| line.get::<_, i64>(column).map_err(wrong);
        let (host, name) = (bytes("host_key").map_err(wrong)?, bytes("name").map_err(wrong)?);
        let (mut value, encrypted) = (bytes("value").map_err(wrong)?, bytes("encrypted_value").map_err(wrong)?);
        let shown = String::from_utf8_lossy(&host).into_owned();
        if value.is_empty() && !encrypted.is_empty() {
            match value_of(&encrypted, &host, version >= WITH_HOST) {
                Ok(plain) => value = plain,
                Err(why) => {
                    let name = String::from_utf8_lossy(&name).into();
                    found.unread.push(Unread { host: shown, name, why: why.into() });
                    continue;
                }
            }
        }
        let time = |column: &str| number(column).map(|at| snss::time_us(at).unwrap_or(0));
        let partition = if knows_partition { bytes("top_frame_site_key").map_err(wrong)? } else { Vec::new() };
        let cookie = Cookie {
            name,
            value,
            domain: shown.strip_prefix('.').unwrap_or(&shown).into(),
            host_only: !shown.starts_with('.'),
            path: bytes("path").map_err(wrong)?,
            secure: number("is_secure")? != 0,
            http_only: number("is_httponly")? != 0,
            same_site: match number("samesite")? {
                0 => SameSite::None,
                1 => SameSite::Lax,
                2 => SameSite::Strict,
                _ => SameSite::Default,
            },
            expires_us: if number("has_expires")? != 0 { Some(time("expires_utc")?) } else { None },
            created_us: time("creation_utc")?,
            accessed_us: time("last_access_utc")?,
            partition: (!partition.is_empty()).then(|| String::from_utf8_lossy(&partition).into()),
        };
        found.rows.push(Row { cookie, attributes: String::new() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oscrypt::tests::encrypted;

    #[test]
    fn the_key_is_the_one_that_chromium_uses() {
        // A value that Chromium wrote for the host 127.0.0.1: 1.
        let hex =
            "7631302BB01EEBE40CCFF8B9D3B700273158B01EEE6BEDEECAB4DE6DBA0816A56B00389B53C84CAB90099AA36B7AD36FDAD733";
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..][..2], 16).unwrap()).collect();
        assert_eq!(value_of(&bytes, b"127.0.0.1", true), Ok(b"1".to_vec()));
        assert!(value_of(&bytes, b"127.0.0.2", true).unwrap_err().contains("another host"));
        assert!(value_of(&bytes[..bytes.len() - 1], b"127.0.0.1", true).is_err());
        assert_eq!(value_of(&encrypted(b"old"), b"h", false), Ok(b"old".to_vec()));
        assert!(value_of(b"v11abc", b"h", true).unwrap_err().contains("keyring"));
        assert!(value_of(b"v1", b"h", true).is_err() && value_of(b"v10", b"h", false).is_err());
    }

    #[test]
    fn what_the_keyring_hides_is_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let base = rusqlite::Connection::open(folder.path().join("Cookies")).unwrap();
        base.execute_batch(
            "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('version', '18');
            CREATE TABLE cookies (creation_utc INTEGER, host_key TEXT, top_frame_site_key TEXT, name TEXT, value TEXT,
            encrypted_value BLOB, path TEXT, expires_utc INTEGER, is_secure INTEGER, is_httponly INTEGER,
            last_access_utc INTEGER, has_expires INTEGER, samesite INTEGER)",
        )
        .unwrap();
        let insert =
            "INSERT INTO cookies VALUES (?1, '.h.example', '', ?2, ?3, ?4, '/', 11644473600000007, 1, 0, 0, 1, -1)";
        for (at, (value, encrypted)) in
            [("plain", vec![]), ("", encrypted(b"old")), ("", b"v11xyz".to_vec())].iter().enumerate()
        {
            base.execute(insert, rusqlite::params![at as i64, format!("n{at}"), value, encrypted]).unwrap();
        }
        let found = cookies(folder.path()).unwrap();
        let values: Vec<&[u8]> = found.rows.iter().map(|row| &row.cookie.value[..]).collect();
        assert_eq!(values, [&b"plain"[..], b"old"]);
        assert_eq!((found.rows[0].cookie.expires_us, found.rows[0].cookie.host_only), (Some(7), false));
        let [unread] = &found.unread[..] else { panic!("{:?}", found.unread) };
        assert_eq!((unread.name.as_str(), unread.why.as_str()), ("n2", "unknown: the keyring has its key"));
    }

    #[test]
    fn the_newest_complete_session_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert!(session(folder.path()).unwrap_err().to_string().contains("no session file"));
        let sessions = folder.path().join("Sessions");
        std::fs::create_dir(&sessions).unwrap();
        let file = |more: &[u8]| [b"SNSS\x03\0\0\0", more].concat();
        // By number, not by letters.
        std::fs::write(sessions.join("Session_9"), file(&[1, 0, 255])).unwrap();
        std::fs::write(sessions.join("Session_10"), file(&[1, 0, 255, 9])).unwrap();
        std::fs::write(sessions.join("Session_11"), file(&[])).unwrap();
        std::fs::write(sessions.join("Session_12"), b"SNSS\x05\0\0\0\x04\0\0\0v11x").unwrap();
        let found = session(folder.path()).unwrap();
        assert!(found.file.ends_with("Session_10"), "{found:?}");
        let told = found.damage.join("\n");
        for part in [
            "Session_12: its commands are encrypted: unknown: the keyring has its key",
            "Session_11: its first state",
            "Session_10: at byte 11",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn of_two_files_of_one_session_the_one_in_the_clear_is_taken_and_a_newer_encrypted_one_before_an_older() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        FOLDERS.iter().for_each(|name| std::fs::create_dir(file(name)).unwrap());
        let marker = encrypted(&[255]);
        let hidden = [b"SNSS\x05\0\0\0", &(marker.len() as u32).to_le_bytes()[..], &marker].concat();
        std::fs::write(file("Sessions/Session_5000100"), b"SNSS\x03\0\0\0\x01\0\xFF").unwrap();
        std::fs::write(file("Sessions_Encrypted/Session_5000200"), &hidden).unwrap();
        let taken = |name: &str| {
            let found = session(folder.path()).unwrap();
            assert!(found.file.ends_with(name) && found.damage.is_empty(), "{found:?}");
        };
        taken("Sessions/Session_5000100");
        std::fs::write(file("Sessions_Encrypted/Session_7000000"), &hidden).unwrap();
        taken("Sessions_Encrypted/Session_7000000");
    }
}
