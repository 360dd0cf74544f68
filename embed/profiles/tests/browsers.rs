//! Profiles that the real browsers have made, while they run and afterwards: each tab and each cookie is what the
//! browser itself shows, and nothing in the profile has changed.

mod drive;

use drive::{Chromium, Firefox, has, look, origin};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thaw_cookies::SameSite;
use thaw_profiles::{Cookies, Session, chromium, export, firefox};

/// Address and title of each tab's page.
type Pages = BTreeSet<(String, String)>;

fn pages(session: &Session) -> Pages {
    let tabs = session.windows.iter().flat_map(|window| &window.tabs);
    tabs.filter_map(|tab| tab.current()).map(|page| (page.url.clone(), page.title.clone())).collect()
}

/// Name, value, domain, path, secure, for HTTP only, SameSite; and when it ends, in seconds.
type Short = (String, String, String, String, bool, bool, String, Option<u64>);

fn short(cookies: &Cookies, unsaid: &str) -> Vec<Short> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let one = |row: &thaw_profiles::Row| {
        let it = &row.cookie;
        assert!(it.host_only && row.attributes.is_empty());
        let site = match it.same_site {
            SameSite::Default => unsaid,
            SameSite::None => "None",
            SameSite::Lax => "Lax",
            SameSite::Strict => "Strict",
        };
        let ends = it.expires_us.map(|at| at / 1_000_000);
        let (name, value, path) = (text(&it.name), text(&it.value), text(&it.path));
        (name, value, it.domain.clone(), path, it.secure, it.http_only, site.to_owned(), ends)
    };
    let mut all: Vec<Short> = cookies.rows.iter().map(one).filter(lasts).collect();
    all.sort();
    all
}

/// It has not expired: in the second in which a cookie ends Firefox still has it.
fn lasts(cookie: &Short) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    cookie.7.is_none_or(|ends| ends > now)
}

/// A cookie as a browser tells of it.
fn told(cookie: &Value, ends: &str, unsaid: &str) -> Short {
    let text = |key: &str| cookie[key].as_str().unwrap().to_owned();
    let site = cookie["sameSite"].as_str().unwrap_or(unsaid).to_owned();
    let ends = cookie[ends].as_f64().filter(|at| *at > 0.0).map(|at| at as u64);
    let flag = |key: &str| cookie[key].as_bool().unwrap();
    (text("name"), text("value"), text("domain"), text("path"), flag("secure"), flag("httpOnly"), site, ends)
}

/// The same cookies; they end at the same second, but for how it is rounded.
fn assert_same(ours: &[Short], theirs: &BTreeSet<Short>) {
    assert_eq!(ours.len(), theirs.len(), "{ours:#?}\n{theirs:#?}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let endless = |short: &Short| {
            let mut short = short.clone();
            short.7 = None;
            short
        };
        assert_eq!(endless(ours), endless(theirs));
        let (ours, theirs) = (ours.7, theirs.7);
        assert!(ours == theirs || ours.unwrap().abs_diff(theirs.unwrap()) <= 1, "{ours:?} {theirs:?}");
    }
}

/// All files, with their times and bytes.
fn listing(folder: &Path) -> Vec<(PathBuf, i64, i64, Vec<u8>)> {
    let (mut folders, mut all) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = std::fs::symlink_metadata(&path).unwrap();
            let bytes = if about.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if about.is_dir() {
                folders.push(path.clone());
            }
            all.push((path, about.mtime(), about.mtime_nsec(), bytes));
        }
    }
    all.sort();
    all
}

/// What is read of a profile that nobody uses, which does not change by that.
fn at_rest(profile: &Path, read: impl Fn() -> (Session, Cookies)) -> (Session, Cookies) {
    let before = listing(profile);
    let found = read();
    assert!(before == listing(profile), "the profile has changed");
    let json = export(&found.0, &found.1);
    assert_eq!(json["cookies"].as_array().unwrap().len(), found.1.rows.len());
    assert!(found.0.damage.is_empty() && found.1.unread.is_empty(), "{:?} {:?}", found.0.damage, found.1.unread);
    found
}

fn partition(cookies: &Cookies) -> Option<&str> {
    cookies.rows.iter().find(|row| row.cookie.name == b"apart").unwrap().cookie.partition.as_deref()
}

#[test]
fn firefox_shows_what_is_read() {
    if !has("firefox") {
        return;
    }
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let profile = folder.path();
    let mut browser = Firefox::start(profile);
    for paths in [&["/a/one"][..], &["/a/two", "/b/later"], &["/b/three"]] {
        let tab = browser.ask("WebDriver:NewWindow", json!({ "type": "tab" }));
        browser.ask("WebDriver:SwitchToWindow", json!({ "handle": tab["handle"] }));
        for path in paths {
            browser.ask("WebDriver:Navigate", json!({ "url": format!("{origin}{path}") }));
        }
    }
    browser.ask("Marionette:SetContext", json!({ "value": "chrome" }));
    // The second of four becomes the first.
    let script = "gBrowser.pinTab(gBrowser.tabs[1]); return gBrowser.tabs.length";
    let count = browser.ask("WebDriver:ExecuteScript", json!({ "script": script, "args": [] }));
    assert_eq!(count, 4);
    browser.ask("Marionette:SetContext", json!({ "value": "content" }));
    let (mut shown, mut cookies) = (Pages::new(), BTreeSet::new());
    let handles = browser.ask("WebDriver:GetWindowHandles", json!({}));
    for handle in handles.as_array().unwrap() {
        browser.ask("WebDriver:SwitchToWindow", json!({ "handle": handle }));
        let text = |value: Value| value.as_str().unwrap().to_owned();
        let url = text(browser.ask("WebDriver:GetCurrentURL", json!({})));
        if url != "about:blank" {
            shown.insert((url, text(browser.ask("WebDriver:GetTitle", json!({})))));
            let all = browser.ask("WebDriver:GetCookies", json!({}));
            let all = all.as_array().unwrap().iter().map(|cookie| told(cookie, "expiry", "None"));
            cookies.extend(all.filter(lasts));
        }
    }
    assert_eq!((shown.len(), cookies.len()), (3, 6), "{cookies:#?}");
    let without_empty = |session: &Session| {
        let mut pages = pages(session);
        pages.retain(|page| page.0 != "about:blank");
        pages
    };
    // While it runs.
    look("Firefox's session", || {
        let found = without_empty(&firefox::session(profile).map_err(|error| error.to_string())?);
        if found == shown { Ok(()) } else { Err(format!("{found:?}")) }
    });
    look("Firefox's cookies", || {
        let found = firefox::cookies(profile).map_err(|error| error.to_string())?;
        let found = short(&found, "None");
        if found.len() == cookies.len() { Ok(()) } else { Err(format!("{found:?}")) }
    });
    assert_same(&short(&firefox::cookies(profile).unwrap(), "None"), &cookies);
    browser.quit();
    let (session, found) =
        at_rest(profile, || (firefox::session(profile).unwrap(), firefox::cookies(profile).unwrap()));
    assert!(session.file.ends_with("sessionstore.jsonlz4"), "{:?}", session.file);
    assert_eq!(without_empty(&session), shown);
    assert_same(&short(&found, "None"), &cookies);
    assert_eq!(partition(&found), Some("http://127.0.0.1"));
    let tabs = &session.windows[0].tabs;
    let pinned: Vec<bool> = tabs.iter().map(|tab| tab.pinned).collect();
    assert_eq!(pinned, [true, false, false, false]);
    assert_eq!(tabs[0].current().unwrap().url, format!("{origin}/a/one"));
    let two = tabs.iter().find(|tab| tab.entries.len() == 2).unwrap();
    assert_eq!((two.selected, two.entries[0].url.as_str()), (Some(1), format!("{origin}/a/two").as_str()));
}

#[test]
fn chromium_shows_what_is_read() {
    if !has("chromium") {
        return;
    }
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let profile = folder.path().join("Default");
    let mut browser = Chromium::start(folder.path());
    for path in ["/a/one", "/a/two", "/b/three"] {
        browser.ask(None, "Target.createTarget", json!({ "url": format!("{origin}{path}") }));
    }
    let closes = browser.ask(None, "Target.createTarget", json!({ "url": format!("{origin}/b/closed") }));
    let later = browser.ask(None, "Target.createTarget", json!({ "url": format!("{origin}/b/first") }));
    let shows = |browser: &mut Chromium| -> Pages {
        let targets = browser.ask(None, "Target.getTargets", json!({}));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        { targets["targetInfos"].as_array().unwrap().iter() }
            .filter(|target| target["type"] == "page")
            .map(|target| (text(&target["url"]), text(&target["title"])))
            .filter(|page| page.0 != "about:blank")
            .collect()
    };
    let all_loaded = |browser: &mut Chromium, count: usize| {
        look("Chromium's pages", || {
            let pages = shows(browser);
            let loaded = pages.len() == count && pages.iter().all(|page| page.1.starts_with("Page "));
            if loaded { Ok(pages) } else { Err(format!("{pages:?}")) }
        })
    };
    all_loaded(&mut browser, 5);
    // One has a second page, one goes.
    let attach = json!({ "targetId": later["targetId"], "flatten": true });
    let tab = browser.ask(None, "Target.attachToTarget", attach);
    let tab = tab["sessionId"].as_str().unwrap().to_owned();
    browser.ask(Some(&tab), "Page.navigate", json!({ "url": format!("{origin}/b/second") }));
    browser.ask(None, "Target.closeTarget", json!({ "targetId": closes["targetId"] }));
    let shown = look("Chromium's tabs", || {
        let pages = all_loaded(&mut browser, 4);
        if pages.iter().any(|page| page.0.ends_with("/b/second")) { Ok(pages) } else { Err(format!("{pages:?}")) }
    });
    // It writes a page when it begins, before it has a title, and again when something but the title changes.
    let targets = browser.ask(None, "Target.getTargets", json!({}));
    for target in targets["targetInfos"].as_array().unwrap().iter().filter(|target| target["type"] == "page") {
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let tab = browser.ask(None, "Target.attachToTarget", attach);
        let script = json!({ "expression": "history.replaceState(1, '', location.href)" });
        browser.ask(tab["sessionId"].as_str(), "Runtime.evaluate", script);
    }
    let without_empty = |session: &Session| {
        let mut pages = pages(session);
        pages.retain(|page| page.0 != "about:blank");
        pages
    };
    look("Chromium's session", || {
        let found = without_empty(&chromium::session(&profile).map_err(|error| error.to_string())?);
        if found == shown { Ok(()) } else { Err(format!("{found:?}\n{shown:?}")) }
    });
    // Not all may be written yet, but it can be read.
    look("Chromium's cookies", || chromium::cookies(&profile).map_err(|error| error.to_string()));
    let all = browser.ask(None, "Storage.getCookies", json!({}));
    let cookies: BTreeSet<Short> =
        { all["cookies"].as_array().unwrap().iter() }.map(|cookie| told(cookie, "expires", "Default")).collect();
    assert_eq!(cookies.len(), 6, "{cookies:#?}");
    browser.quit();
    let (session, found) =
        at_rest(folder.path(), || (chromium::session(&profile).unwrap(), chromium::cookies(&profile).unwrap()));
    assert_eq!(without_empty(&session), shown);
    assert_same(&short(&found, "Default"), &cookies);
    assert_eq!(partition(&found), Some("http://127.0.0.1"));
    // The same from the files that newer versions encrypt.
    if profile.join("Sessions_Encrypted").exists() {
        std::fs::remove_dir_all(profile.join("Sessions")).unwrap();
        let encrypted = chromium::session(&profile).unwrap();
        assert!(encrypted.file.parent().unwrap().ends_with("Sessions_Encrypted"));
        assert_eq!(Session { file: session.file.clone(), ..encrypted }, session);
    }
    let tabs: Vec<_> = session.windows.iter().flat_map(|window| &window.tabs).collect();
    let two = tabs.iter().find(|tab| tab.entries.len() == 2).unwrap();
    assert_eq!((two.selected, two.entries[0].url.as_str()), (Some(1), format!("{origin}/b/first").as_str()));
    let closed: Vec<&str> = session.closed.iter().map(|tab| tab.current().unwrap().url.as_str()).collect();
    assert!(closed.contains(&format!("{origin}/b/closed").as_str()), "{closed:?}");
}
