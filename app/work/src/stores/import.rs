//! The session and the cookies of a browser's profile, as stores.

use model::{Error, Exit, Result, shown};
use serde::Serialize;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;
use thaw_cookies::{Jar, Limits, News, Options as JarOptions};
use thaw_profiles::{Cookies, Session as Windows, Tab, chromium, firefox};
use thaw_session::{Event, Id, New, Options, Place, ROOT, Session, flag, kind};

/// The flag of a pinned tab: the first of an application's own.
pub const PINNED: u32 = flag::OWN;

/// What `thaw store import` tells.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    /// `thaw.store-import/1`.
    pub schema: &'static str,
    /// `firefox` or `chromium`.
    pub browser: &'static str,
    /// How many there were.
    pub windows: u64,
    /// In all windows.
    pub tabs: u64,
    /// In the histories of all tabs.
    pub entries: u64,
    /// Taken over.
    pub cookies: u64,
    /// What was not taken over, and why: parts of the profile, single cookies, damage.
    pub left_out: Vec<String>,
}

/// Reads a profile, and makes the directories `session` and `cookies` in `target`, which is made and must not be there
/// yet. The profile stays as it is, also while its browser runs.
///
/// # Errors
/// It is no profile, or nothing in it can be read; `target` is there; the disk.
pub fn import(profile: &Path, target: &Path) -> Result<Imported> {
    let (browser, session, cookies) = read(profile)?;
    let mut imported = Imported { schema: "thaw.store-import/1", browser, ..Imported::default() };
    let (session, cookies) = (part(session, &mut imported), part(cookies, &mut imported));
    if session.is_none() && cookies.is_none() {
        let why = imported.left_out.join("; ");
        return Err(Error::on(Exit::Data, "cannot import", profile).because(why));
    }
    let cannot = |cause: std::io::Error| {
        let error = Error::on(Exit::Usage, "cannot make", target).because(cause);
        error.hint("name a directory that is not there yet")
    };
    // What a browser keeps of its user is nobody else's business.
    std::fs::DirBuilder::new().mode(0o700).create(target).map_err(cannot)?;
    let write = || {
        if let Some(session) = session {
            windows(session, &target.join("session"), &mut imported)?;
        }
        cookies.map_or(Ok(()), |cookies| jar(cookies, &target.join("cookies"), &mut imported))
    };
    if let Err(why) = write() {
        // Half of a profile is of no use to anybody.
        let _ = std::fs::remove_dir_all(target);
        return Err(Error::on(Exit::Machine, "cannot write", target).because(why));
    }
    Ok(imported)
}

type Read<T> = std::result::Result<T, thaw_profiles::Error>;

fn read(profile: &Path) -> Result<(&'static str, Read<Windows>, Read<Cookies>)> {
    let unread =
        |cause: std::io::Error| Error::on(Exit::of_unreadable(&cause), "cannot import", profile).because(cause);
    profile.read_dir().map_err(unread)?;
    let has = |names: &[&str]| names.iter().any(|name| profile.join(name).exists());
    if has(&["cookies.sqlite", "sessionstore.jsonlz4", "sessionstore-backups"]) {
        return Ok(("firefox", firefox::session(profile), firefox::cookies(profile)));
    }
    if has(&["Sessions", "Cookies", "Network/Cookies"]) {
        return Ok(("chromium", chromium::session(profile), chromium::cookies(profile)));
    }
    let error = Error::on(Exit::Usage, "cannot import", profile).because("it is no profile of Firefox or Chromium");
    Err(error.hint(match profile.join("Default").is_dir() {
        true => format!("name the profile inside it: {}", shown(&profile.join("Default"))),
        false => "about:support (Firefox) and chrome://version (Chromium) tell where the profile is".into(),
    }))
}

fn part<T>(read: Read<T>, imported: &mut Imported) -> Option<T> {
    read.map_err(|error| imported.left_out.push(error.to_string())).ok()
}

/// Waits until the descriptor is readable.
fn wait(fd: &impl std::os::fd::AsFd) {
    // Interrupted, the caller looks, and waits again.
    let _ = rustix::event::poll(&mut [rustix::event::PollFd::new(fd, rustix::event::PollFlags::IN)], None);
}

fn windows(from: Windows, path: &Path, imported: &mut Imported) -> std::result::Result<(), String> {
    let options = Options { delay: Duration::from_secs(3600), ..Options::default() };
    let session = Session::open(path, &options).map_err(|error| error.to_string())?;
    'ready: loop {
        wait(&session);
        for event in session.events() {
            match event {
                Event::Ready { .. } => break 'ready,
                Event::Failing(why) | Event::Refused(why) => return Err(why),
                _ => {}
            }
        }
    }
    let seen = |selected: Option<usize>, at: usize| if selected == Some(at) { flag::VISIBLE } else { 0 };
    let put = |parent: Id, new: &New, imported: &mut Imported| match session.insert(parent, Place::Last, new) {
        Ok(id) => Some(id),
        Err(error) => {
            imported.left_out.push(format!("'{}': {error}", new.title));
            None
        }
    };
    for (at, window) in from.windows.iter().enumerate() {
        let new = New { kind: kind::WINDOW, flags: seen(from.selected, at), ..New::default() };
        let Some(id) = put(ROOT, &new, imported) else { continue };
        imported.windows += 1;
        for (at, tab) in window.tabs.iter().enumerate() {
            let pinned = if tab.pinned { PINNED } else { 0 };
            let title = tab.current().map_or("", |entry| &entry.title);
            let flags = seen(window.selected, at) | pinned;
            let Some(id) = put(id, &New { kind: kind::TAB, flags, title, ..New::default() }, imported) else {
                continue;
            };
            imported.tabs += 1;
            imported.entries += entries(tab, |at, entry| {
                let (flags, origin) = (seen(tab.selected, at), origin(&entry.url));
                let payload = entry.url.as_bytes();
                let new = New { kind: kind::ENTRY, flags, title: &entry.title, origin, payload };
                put(id, &new, imported).is_some()
            });
        }
    }
    imported.left_out.extend(from.damage);
    session.close(true).map_err(|error| error.to_string())
}

fn entries(tab: &Tab, mut put: impl FnMut(usize, &thaw_profiles::Entry) -> bool) -> u64 {
    tab.entries.iter().enumerate().map(|(at, entry)| u64::from(put(at, entry))).sum()
}

/// Scheme, host and port, by which a session forgets.
fn origin(url: &str) -> &str {
    let Some((scheme, rest)) = url.split_once("://") else { return "" };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    &url[..scheme.len() + 3 + host]
}

/// A jar that keeps what there is, however many there are.
fn whole_jar(path: &Path) -> std::result::Result<Jar, String> {
    let limits = Limits { per_domain: usize::MAX, total: usize::MAX };
    let options = JarOptions { limits, keep_session: true, ..JarOptions::new(path) };
    let jar = Jar::open(options).map_err(|error| error.to_string())?;
    jar.wait_whole();
    Ok(jar)
}

/// Has a damaged jar made anew, as the program that opens it does: where the damaged part is kept. `None`: nobody may
/// write it now, or nothing of it was set aside.
pub(super) fn jar_made_anew(path: &Path) -> std::result::Result<Option<String>, String> {
    let jar = whole_jar(path)?;
    let mut aside = None;
    for news in jar.news() {
        match news {
            News::Damaged(name) => aside = Some(name),
            News::Trouble(_) => return Ok(None),
            _ => {}
        }
    }
    jar.wait_for(jar.flush())?;
    Ok(aside)
}

fn jar(from: Cookies, path: &Path, imported: &mut Imported) -> std::result::Result<(), String> {
    let jar = whole_jar(path)?;
    for row in from.rows {
        if row.attributes.is_empty() {
            jar.put(row.cookie);
            imported.cookies += 1;
        } else {
            let name = String::from_utf8_lossy(&row.cookie.name).into_owned();
            let why = format!("cookie '{name}' of {}: it is one container's ({})", row.cookie.domain, row.attributes);
            imported.left_out.push(why);
        }
    }
    let unread = from.unread.into_iter().map(|it| format!("cookie '{}' of {}: {}", it.name, it.host, it.why));
    imported.left_out.extend(unread);
    jar.wait_for(jar.flush())
}
