//! Firefox, by WebDriver BiDi over a WebSocket on the loopback address.

use super::measured::{BEFORE, SCRIPT, not_answered, not_loaded};
use super::{Browser, Caching, Loaded, READY, Setup, Visit, close, environment};
use crate::program::{Program, last_line, log_file};
use crate::talk::{Talk, Trouble, Wire};
use crate::websocket::WebSocket;
use model::{Error, Exit, Result, shown};
use os::spawn::{Launch, Stream};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a browser does of its own accord, off.
const PREFERENCES: &str = r#"user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.contentblocking.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.search.update", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage", "about:blank");
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("network.prefetch-next", false);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.unified", false);
user_pref("trailhead.firstrun.didSeeAboutWelcome", true);
"#;

/// Keeps nothing from one load to the next, neither what came nor decoded images.
const KEEPS_NOTHING: &str = r#"user_pref("browser.cache.disk.enable", false);
user_pref("browser.cache.memory.enable", false);
user_pref("image.cache.size", 0);
user_pref("network.proxy.allow_hijacking_localhost", true);
"#;

/// How often is looked whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// The file of the profile that says where it listens.
const SERVER: &str = "WebDriverBiDiServer.json";

/// A running Firefox.
#[derive(Debug)]
pub struct Firefox {
    talk: Talk,
    program: Program,
    setup: Setup,
    /// The tab.
    context: String,
    /// What was opened beside it.
    tabs: Vec<String>,
}

impl Firefox {
    /// Starts it, with an empty page that is ready.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(setup: &Setup) -> Result<Self> {
        let file = setup.profile.join("user.js");
        std::fs::write(&file, preferences(&setup.caching)?)
            .map_err(|cause| Error::on(Exit::Machine, "cannot write", &file).because(cause))?;
        let server = setup.profile.join(SERVER);
        // One that a killed browser left would send us elsewhere.
        match std::fs::remove_file(&server) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(Error::on(Exit::Machine, "cannot remove", &server).because(cause));
            }
            _ => {}
        }
        let mut words: Vec<OsString> = vec![setup.program.clone().into()];
        words.extend(["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile"].map(OsString::from));
        words.push(setup.profile.clone().into());
        words.push("about:blank".into());
        let log = setup.profile.join("stderr.log");
        let mut launch = Launch::new(words);
        launch.env = environment(setup);
        launch.env.push(("MOZ_HEADLESS_WIDTH".into(), Some("1280".into())));
        launch.env.push(("MOZ_HEADLESS_HEIGHT".into(), Some("900".into())));
        launch.stdout = Stream::Null;
        launch.stderr = Stream::Fd(log_file(&log)?);
        let mut program = Program::start(&shown(&setup.program), launch)?;
        let until = Instant::now() + READY;
        let address = loop {
            if let Some(address) = address(&server) {
                break address;
            }
            if program.has_ended()? {
                return Err(Error::on(Exit::Target, "does not start:", &setup.program).because(last_line(&log)));
            }
            if Instant::now() >= until {
                return Err(not_answered(Trouble::Late, program.name(), "the first question"));
            }
            os::interrupt::check()?;
            std::thread::sleep(LOOK);
        };
        let socket = WebSocket::connect(address, "/session").map_err(Trouble::Gone);
        let opened = socket.and_then(|socket| {
            let mut talk = Talk::new(Wire::Socket(socket));
            let context = open(&mut talk, &setup.caching, until)?;
            Ok((talk, context))
        });
        let (talk, context) = opened.map_err(|trouble| not_answered(trouble, program.name(), "the first question"))?;
        Ok(Self { talk, program, setup: setup.clone(), context, tabs: Vec::new() })
    }

    fn load_it(&mut self, url: &str, visit: Visit) -> std::result::Result<String, Trouble> {
        let until = Instant::now() + self.setup.patience;
        let Self { talk, context, .. } = self;
        talk.forget();
        let go = |url: &str| json!({ "context": context, "url": url, "wait": "complete" });
        match visit {
            Visit::Reload => {
                talk.ask(None, "browsingContext.reload", json!({ "context": context, "wait": "complete" }), until)?;
            }
            Visit::Navigate => {
                talk.ask(None, "browsingContext.navigate", go("about:blank"), until)?;
                talk.ask(None, "browsingContext.navigate", go(url), until)?;
            }
        }
        let question = json!({ "expression": SCRIPT, "target": { "context": context }, "awaitPromise": true });
        let answer = talk.ask(None, "script.evaluate", question, until)?;
        answer["result"]["value"].as_str().map(str::to_owned).ok_or_else(|| Trouble::Refused(answer.to_string()))
    }
}

fn preferences(caching: &Caching) -> Result<String> {
    let mut text = PREFERENCES.to_owned();
    match caching {
        Caching::Own => text.push_str("user_pref(\"network.proxy.type\", 0);\n"),
        Caching::Proxy(address) => {
            let wrong = || Error::new(Exit::Usage, "not HOST:PORT of a proxy:", address);
            let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
            let port: u16 = port.parse().map_err(|_| wrong())?;
            let host = json!(host.trim_matches(['[', ']']));
            text.push_str(KEEPS_NOTHING);
            text.push_str("user_pref(\"network.proxy.type\", 1);\n");
            for scheme in ["http", "ssl"] {
                text.push_str(&format!("user_pref(\"network.proxy.{scheme}\", {host});\n"));
                text.push_str(&format!("user_pref(\"network.proxy.{scheme}_port\", {port});\n"));
            }
        }
        Caching::TlsProxy { address, .. } => {
            // Its settings know no proxy by TLS, a script for them does.
            let script = format!("function FindProxyForURL() {{ return 'HTTPS {address}' }}");
            let script = json!(format!("data:application/x-ns-proxy-autoconfig,{}", script.replace(' ', "%20")));
            text.push_str(KEEPS_NOTHING);
            text.push_str("user_pref(\"network.proxy.type\", 2);\n");
            text.push_str(&format!("user_pref(\"network.proxy.autoconfig_url\", {script});\n"));
        }
    }
    Ok(text)
}

/// Where it listens, once it has written that down whole.
fn address(file: &Path) -> Option<SocketAddr> {
    let server: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let port = u16::try_from(server["ws_port"].as_u64()?).ok()?;
    Some(SocketAddr::new(server["ws_host"].as_str()?.parse().ok()?, port))
}

/// Begins a session; the tab.
fn open(talk: &mut Talk, caching: &Caching, until: Instant) -> std::result::Result<String, Trouble> {
    // It can be told to believe any certificate, and not which one.
    let any = matches!(caching, Caching::TlsProxy { .. });
    let capabilities = json!({ "alwaysMatch": { "acceptInsecureCerts": any } });
    talk.ask(None, "session.new", json!({ "capabilities": capabilities }), until)?;
    let before = json!({ "functionDeclaration": format!("() => {{ {BEFORE} }}") });
    talk.ask(None, "script.addPreloadScript", before, until)?;
    let tree = talk.ask(None, "browsingContext.getTree", json!({}), until)?;
    let tab = tree["contexts"][0]["context"].as_str();
    tab.map(str::to_owned).ok_or_else(|| Trouble::Refused(format!("no tab in {tree}")))
}

/// Signals of nsMemoryInfoDumper.cpp: SIGRTMIN of the C library, and the next one.
const REPORT: i32 = 34;
const MINIMISE_AND_REPORT: i32 = 35;

impl Firefox {
    /// Has it write a memory report for this signal; the file, once it is whole.
    fn dump(&mut self, signal: i32) -> Result<PathBuf> {
        let name = self.program.name().to_owned();
        let cannot = |cause: String| Error::new(Exit::Target, "no memory report comes from", &name).because(cause);
        // The first process may be the script that starts it; the others are its content's.
        let is_main = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_content = String::from_utf8_lossy(&words).split('\0').any(|word| word == "-contentproc");
            os::process::comm(*pid).is_some_and(|comm| comm.starts_with("firefox")) && !is_content
        };
        let main = self.program.processes().into_iter().find(is_main);
        let main = main.ok_or_else(|| cannot("its main process is not found".to_owned()))?;
        // Two of one second would have the same name.
        for earlier in reports(&self.setup.temporary) {
            std::fs::remove_file(&earlier)
                .map_err(|cause| Error::on(Exit::Machine, "cannot remove", &earlier).because(cause))?;
        }
        // SAFETY: kill takes two numbers and touches no memory. (rustix has no real-time signals.)
        if unsafe { libc::kill(main as i32, signal) } != 0 {
            return Err(cannot(io::Error::last_os_error().to_string()));
        }
        let until = Instant::now() + READY;
        loop {
            if let Some(report) = reports(&self.setup.temporary).into_iter().next() {
                return Ok(report);
            }
            if self.program.has_ended()? {
                return Err(cannot("it has ended".to_owned()));
            }
            if Instant::now() >= until {
                return Err(cannot(format!("none was written to {} in time", shown(&self.setup.temporary))));
            }
            os::interrupt::check()?;
            std::thread::sleep(LOOK);
        }
    }
}

/// Reports that are whole: below a directory for temporary files, or in a directory `memory-reports` there.
fn reports(temporary: &Path) -> Vec<PathBuf> {
    let directories = [temporary.to_owned(), temporary.join("memory-reports")];
    let entries = directories.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let whole = |name: &str| name.contains("memory-report") && name.ends_with(".json.gz");
    let of_entry = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // An empty file has the name first; the written one replaces it.
        let is_written = || entry.metadata().is_ok_and(|about| about.len() > 0);
        (whole(&name) && !name.starts_with("incomplete") && is_written()).then(|| entry.path())
    };
    entries.filter_map(of_entry).collect()
}

impl Browser for Firefox {
    fn load(&mut self, url: &str, visit: Visit) -> Result<Loaded> {
        let told = self.load_it(url, visit).map_err(|trouble| not_loaded(trouble, url, self.setup.patience))?;
        Loaded::from_json(&told, url)
    }

    fn open_tab(&mut self, url: &str) -> Result<()> {
        let mut opened = || {
            let until = Instant::now() + self.setup.patience;
            let made = self.talk.ask(None, "browsingContext.create", json!({ "type": "tab" }), until)?;
            let context = made["context"].as_str().map(str::to_owned);
            let context = context.ok_or_else(|| Trouble::Refused(format!("no tab in {made}")))?;
            let go = json!({ "context": context, "url": url, "wait": "complete" });
            self.talk.ask(None, "browsingContext.navigate", go, until)?;
            Ok(context)
        };
        let context = opened().map_err(|trouble| not_loaded(trouble, url, self.setup.patience))?;
        self.tabs.push(context);
        Ok(())
    }

    fn close_tabs(&mut self) -> Result<()> {
        for context in std::mem::take(&mut self.tabs) {
            let until = Instant::now() + READY;
            let closed = self.talk.ask(None, "browsingContext.close", json!({ "context": context }), until);
            closed.map_err(|trouble| not_answered(trouble, self.program.name(), "browsingContext.close"))?;
        }
        Ok(())
    }

    fn minimise(&mut self) -> Result<()> {
        // What the button of about:memory does. That it is done is known by the report that follows.
        self.dump(MINIMISE_AND_REPORT).map(|_| ())
    }

    fn memory_report(&mut self) -> Result<Option<PathBuf>> {
        self.dump(REPORT).map(Some)
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        close(&mut self.talk, self.program, "browser.close")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_when_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        std::fs::create_dir(path("memory-reports")).unwrap();
        std::fs::write(path("incomplete-unified-memory-report-7-8.json.gz"), "a part").unwrap();
        std::fs::write(path("unified-memory-report-7-8.json.gz"), "").unwrap();
        assert_eq!(reports(home.path()), [] as [PathBuf; 0]);
        let whole = [path("unified-memory-report-7-8.json.gz"), path("memory-reports/memory-report-9.json.gz")];
        whole.iter().for_each(|report| std::fs::write(report, "all").unwrap());
        assert_eq!(reports(home.path()), whole);
    }
}
