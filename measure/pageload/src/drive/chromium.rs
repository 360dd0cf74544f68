//! Chromium, by the Chrome DevTools Protocol over two pipes: no port is open that others could come in by.

use super::measured::{BEFORE, SCRIPT, not_answered, not_loaded};
use super::{Browser, Caching, Loaded, READY, Setup, Visit, close, environment};
use crate::program::{Program, last_line, log_file};
use crate::talk::{Talk, Trouble, Wire};
use model::{Error, Exit, Result, shown};
use os::spawn::{Launch, Stream};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

/// What a browser does of its own accord, off; and no window.
const OPTIONS: [&str; 14] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-features=OptimizationHints,MediaRouter,Translate,InterestFeedContentSuggestions",
    "--password-store=basic",
    "--mute-audio",
    "--window-size=1280,900",
];

/// Pages on this machine through the proxy, too.
const THROUGH_LOOPBACK: &str = "--proxy-bypass-list=<-loopback>";

/// A running Chromium.
#[derive(Debug)]
pub struct Chromium {
    talk: Talk,
    program: Program,
    setup: Setup,
    page: Page,
    /// What was opened beside it.
    tabs: Vec<Page>,
}

/// A page that is open.
#[derive(Debug)]
struct Page {
    session: String,
    /// Of its own, where nothing is to be kept: neither on disk nor, when it is gone, in memory.
    context: Option<String>,
}

impl Chromium {
    /// Starts it, with an empty page that is ready.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(setup: &Setup) -> Result<Self> {
        let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot start", &setup.program).because(cause);
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| cannot(error.into()));
        let ((its_end, to), (from, its_other)) = (pipe()?, pipe()?);
        let mut words: Vec<OsString> = vec![setup.program.clone().into()];
        words.extend(OPTIONS.map(OsString::from));
        let mut profile = OsString::from("--user-data-dir=");
        profile.push(&setup.profile);
        words.push(profile);
        match &setup.caching {
            Caching::Own => words.push("--no-proxy-server".into()),
            Caching::Proxy(address) => {
                words.push(format!("--proxy-server=http://{address}").into());
                words.push(THROUGH_LOOPBACK.into());
            }
            Caching::TlsProxy { address, pin } => {
                words.push(format!("--proxy-server=https://{address}").into());
                words.push(format!("--ignore-certificate-errors-spki-list={pin}").into());
                words.push(THROUGH_LOOPBACK.into());
            }
        }
        if rustix::process::geteuid().is_root() {
            // Its sandbox refuses root.
            words.push("--no-sandbox".into());
        }
        words.push("about:blank".into());
        let log = setup.profile.join("stderr.log");
        let mut launch = Launch::new(words);
        launch.env = environment(setup);
        launch.stdout = Stream::Null;
        launch.stderr = Stream::Fd(log_file(&log)?);
        launch.extra_fds = vec![(its_end, 3), (its_other, 4)];
        let program = Program::start(&shown(&setup.program), launch)?;
        let mut talk = Talk::new(Wire::Pipes { to: to.into(), from: from.into(), buffer: Vec::new() });
        let page = open(&mut talk, &setup.caching).map_err(|trouble| match trouble {
            Trouble::Gone(_) => Error::on(Exit::Target, "does not start:", &setup.program).because(last_line(&log)),
            other => not_answered(other, program.name(), "the first question"),
        })?;
        Ok(Self { talk, program, setup: setup.clone(), page, tabs: Vec::new() })
    }

    fn load_it(&mut self, url: &str, visit: Visit) -> std::result::Result<String, Trouble> {
        let mut until = Instant::now() + self.setup.patience;
        let keeps_nothing = self.setup.caching != Caching::Own;
        if keeps_nothing {
            if let Some(context) = self.page.context.take() {
                self.talk.ask(None, "Target.disposeBrowserContext", json!({ "browserContextId": context }), until)?;
            }
            self.page = open(&mut self.talk, &self.setup.caching)?;
            // The new page is no part of the load.
            until = Instant::now() + self.setup.patience;
        }
        let Self { talk, page: Page { session, .. }, .. } = self;
        match visit {
            Visit::Reload if !keeps_nothing => {
                talk.forget();
                talk.ask(Some(session), "Page.reload", json!({}), until)?;
            }
            _ => {
                if visit == Visit::Reload {
                    talk.ask(Some(session), "Network.enable", json!({}), until)?;
                    let headers = json!({ "headers": { "Cache-Control": "max-age=0" } });
                    talk.ask(Some(session), "Network.setExtraHTTPHeaders", headers, until)?;
                }
                navigate(talk, session, "about:blank", until)?;
                talk.event(session, "Page.loadEventFired", until)?;
                navigate(talk, session, url, until)?;
            }
        }
        talk.event(session, "Page.loadEventFired", until)?;
        let question = json!({ "expression": SCRIPT, "awaitPromise": true, "returnByValue": true });
        let answer = talk.ask(Some(session), "Runtime.evaluate", question, until)?;
        answer["result"]["value"].as_str().map(str::to_owned).ok_or_else(|| Trouble::Refused(answer.to_string()))
    }
}

/// Opens an empty page; outside the profile, if nothing is to be kept.
fn open(talk: &mut Talk, caching: &Caching) -> std::result::Result<Page, Trouble> {
    let until = Instant::now() + READY;
    let text = |answer: Value, key: &str| match answer[key].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Trouble::Refused(format!("no {key} in {answer}"))),
    };
    let context = match caching {
        Caching::Own => None,
        Caching::Proxy(_) | Caching::TlsProxy { .. } => {
            Some(text(talk.ask(None, "Target.createBrowserContext", json!({}), until)?, "browserContextId")?)
        }
    };
    let mut target = json!({ "url": "about:blank" });
    if let Some(context) = &context {
        target["browserContextId"] = context.as_str().into();
    }
    let target = text(talk.ask(None, "Target.createTarget", target, until)?, "targetId")?;
    let attach = json!({ "targetId": target, "flatten": true });
    let session = text(talk.ask(None, "Target.attachToTarget", attach, until)?, "sessionId")?;
    talk.ask(Some(&session), "Page.enable", json!({}), until)?;
    let before = json!({ "source": BEFORE });
    talk.ask(Some(&session), "Page.addScriptToEvaluateOnNewDocument", before, until)?;
    Ok(Page { session, context })
}

fn navigate(talk: &mut Talk, session: &str, url: &str, until: Instant) -> std::result::Result<(), Trouble> {
    talk.forget();
    let answer = talk.ask(Some(session), "Page.navigate", json!({ "url": url }), until)?;
    match answer["errorText"].as_str() {
        Some(error) if !error.is_empty() => Err(Trouble::Refused(error.to_owned())),
        _ => Ok(()),
    }
}

impl Browser for Chromium {
    fn load(&mut self, url: &str, visit: Visit) -> Result<Loaded> {
        let told = self.load_it(url, visit).map_err(|trouble| not_loaded(trouble, url, self.setup.patience))?;
        Loaded::from_json(&told, url)
    }

    fn open_tab(&mut self, url: &str) -> Result<()> {
        let mut opened = || {
            let page = open(&mut self.talk, &self.setup.caching)?;
            let until = Instant::now() + self.setup.patience;
            navigate(&mut self.talk, &page.session, url, until)?;
            self.talk.event(&page.session, "Page.loadEventFired", until)?;
            Ok(page)
        };
        let page = opened().map_err(|trouble| not_loaded(trouble, url, self.setup.patience))?;
        self.tabs.push(page);
        Ok(())
    }

    fn close_tabs(&mut self) -> Result<()> {
        for page in std::mem::take(&mut self.tabs) {
            let until = Instant::now() + READY;
            match self.talk.ask(Some(&page.session), "Page.close", json!({}), until) {
                Ok(_) => {}
                Err(trouble) => return Err(not_answered(trouble, self.program.name(), "Page.close")),
            }
        }
        Ok(())
    }

    fn minimise(&mut self) -> Result<()> {
        let pages = self.tabs.iter().chain([&self.page]).map(|page| page.session.clone()).collect::<Vec<_>>();
        let mut questions = vec![(pages[pages.len() - 1].clone(), "Memory.simulatePressureNotification")];
        questions.extend(pages.into_iter().map(|page| (page, "HeapProfiler.collectGarbage")));
        for (page, method) in questions {
            let until = Instant::now() + READY;
            let told = self.talk.ask(Some(&page), method, json!({ "level": "critical" }), until);
            told.map_err(|trouble| not_answered(trouble, self.program.name(), method))?;
        }
        Ok(())
    }

    fn memory_report(&mut self) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        close(&mut self.talk, self.program, "Browser.close")
    }
}
