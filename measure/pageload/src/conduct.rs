//! Loads the page in rounds: in each, every browser goes through every cache once, in an order of its own, so that what
//! the machine does meanwhile falls on all of them alike. Within a turn the states follow each other: a page must be
//! loaded for the first time before it can be warm.

use crate::drive::{self, Browser, Caching, Kind, Loaded, Setup, Visit};
use crate::ground::Ground;
use crate::origin::{Counts, Origin};
use crate::pin;
use crate::plan::{Page, Plan, State, Via};
use crate::program::{Program, Reads, last_line, log_file};
use crate::site::Site;
use crate::talk::{Trouble, wait};
use model::{Bytes, Error, Exit, Result};
use os::disk::Disk;
use os::spawn::{Launch, Stream};
use stats::Random;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a proxy to start.
const READY: Duration = Duration::from_secs(120);

/// Time for a proxy that was told to end.
const GRACE: Duration = Duration::from_secs(10);

/// One load that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In which browser.
    pub browser: Kind,
    /// Through which cache.
    pub via: Via,
    /// How that was.
    pub state: State,
    /// In which round, from 0.
    pub round: u32,
    /// When it began, nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// What the browser said.
    pub loaded: Loaded,
    /// What our origin did for it; `None`: it is not our origin.
    pub origin: Option<Counts>,
    /// What the owner of the cache read from the disk that the cache lies on; `None`: nobody tells.
    pub reads: Option<Reads>,
}

/// What was measured.
#[derive(Debug)]
pub struct Done {
    /// All loads, in the order in which they were made.
    pub samples: Vec<Sample>,
    /// What our page holds: answers, and bytes of their bodies. `None`: it is not ours.
    pub page: Option<(u64, u64)>,
    /// Ctrl-C came before the last round was over.
    pub interrupted: bool,
}

/// Measures. `told` hears of each load before it begins.
///
/// # Errors
/// A browser or proxy that does not start; a page that does not load. Ctrl-C is no error if something was measured.
pub fn run(plan: &Plan, ground: &mut dyn Ground, told: &mut dyn FnMut(&str)) -> Result<Done> {
    let (origin, page) = match &plan.page {
        Page::Url(_) => (None, None),
        Page::Site { options, latency } => {
            let site = Site::new(*options);
            let page = (site.resources().len() as u64, site.bytes());
            (Some(Origin::start(site, *latency)?), Some(page))
        }
    };
    let mut conductor =
        Conductor { plan, ground, told, origin, visit: visits_begin(), programs: BTreeSet::new(), samples: Vec::new() };
    let mut turns: Vec<(&(Kind, PathBuf), &Via)> =
        plan.browsers.iter().flat_map(|browser| plan.vias.iter().map(move |via| (browser, via))).collect();
    let mut random = Random::from_seed(plan.seed);
    for round in 0..plan.runs {
        random.shuffle(&mut turns);
        for ((kind, program), via) in &turns {
            match conductor.turn(*kind, program, via, round) {
                Err(error) if error.exit == Exit::Interrupted && !conductor.samples.is_empty() => {
                    return Ok(Done { samples: conductor.samples, page, interrupted: true });
                }
                done => done?,
            }
        }
    }
    Ok(Done { samples: conductor.samples, page, interrupted: false })
}

/// Another one at each start of thaw, so that a proxy that kept the page of an earlier one has never seen ours.
fn visits_begin() -> u64 {
    os::machine::now_unix_ns() / 1_000_000
}

struct Conductor<'a> {
    plan: &'a Plan,
    ground: &'a mut dyn Ground,
    told: &'a mut dyn FnMut(&str),
    origin: Option<Origin>,
    visit: u64,
    /// Files that browsers and proxies were seen to map.
    programs: BTreeSet<PathBuf>,
    samples: Vec<Sample>,
}

/// What a load is told and counted as.
#[derive(Clone, Copy)]
struct Turn<'a> {
    kind: Kind,
    via: &'a Via,
    round: u32,
    url: &'a str,
}

impl Conductor<'_> {
    fn turn(&mut self, kind: Kind, program: &Path, via: &Via, round: u32) -> Result<()> {
        let plan = self.plan;
        for directory in [&plan.cache, &plan.other] {
            empty(directory)?;
        }
        self.visit += 1;
        let url = match (&plan.page, &self.origin) {
            (Page::Url(url), _) => url.clone(),
            (_, Some(origin)) => origin.page(self.visit),
            _ => return Err(Error::bug("our page has no origin")),
        };
        let turn = Turn { kind, via, round, url: &url };
        let mut proxy = match via {
            Via::Thaw | Via::ThawH2 => Some(Proxy::start(plan, via, None, &plan.cache.join("store"))?),
            _ => None,
        };
        let caching = match (via, &proxy) {
            (Via::Direct, _) => Caching::Own,
            (Via::Proxy(address), _) => Caching::Proxy(address.clone()),
            (_, Some(Proxy { address, pin: Some(pin), .. })) => {
                Caching::TlsProxy { address: address.to_string(), pin: pin.clone() }
            }
            (_, Some(proxy)) => Caching::Proxy(proxy.address.to_string()),
            (Via::Thaw | Via::ThawH2, None) => return Err(Error::bug("thaw proxy was not started")),
        };
        // The owner of the cache has its files on the disk that is meant, everybody else elsewhere.
        let home = if *via == Via::Direct { &plan.cache } else { &plan.other };
        let setup = Setup {
            program: program.to_owned(),
            profile: home.join("profile"),
            temporary: plan.other.clone(),
            caching,
            patience: plan.patience,
        };
        let mut browser = drive::start(kind, &setup)?;
        self.settle(&*browser, proxy.as_ref())?;
        for state in [State::First, State::Warm, State::Reload] {
            if state == State::First || plan.states.contains(&state) {
                self.load(turn, state, &mut *browser, proxy.as_ref())?;
            }
        }
        let can_be_cold = plan.restart.is_some() || !matches!(via, Via::Proxy(_));
        if plan.states.contains(&State::Cold) && can_be_cold {
            self.programs.extend(browser.program().maps());
            match (via, proxy.take()) {
                (Via::Direct, _) => {
                    browser.close()?;
                    self.ground.cool(&plan.cache)?;
                    browser = drive::start(kind, &setup)?;
                }
                (_, Some(before)) => {
                    let address = before.address;
                    before.program.stop(GRACE)?;
                    self.ground.cool(&plan.cache)?;
                    // What it is made of, and what else it reads at each start, is no part of what it reads of the
                    // cache: one with another store has read that.
                    self.warm()?;
                    Proxy::start(plan, via, None, &plan.other.join("store"))?.program.stop(GRACE)?;
                    proxy = Some(Proxy::start(plan, via, Some(address), &plan.cache.join("store"))?);
                }
                (_, None) => {
                    restart(plan.restart.as_deref().unwrap_or_default(), via)?;
                    self.ground.cool(&plan.cache)?;
                }
            }
            self.settle(&*browser, proxy.as_ref())?;
            self.load(turn, State::Cold, &mut *browser, proxy.as_ref())?;
        }
        browser.close()?;
        proxy.map_or(Ok(()), |proxy| proxy.program.stop(GRACE))
    }

    /// Reads what all programs so far consist of, so that a cache alone is cold in a load, never a browser: neither
    /// this one nor another whose files went with the cache's.
    fn settle(&mut self, browser: &dyn Browser, proxy: Option<&Proxy>) -> Result<()> {
        self.programs.extend(browser.program().maps());
        self.programs.extend(proxy.map(|proxy| proxy.program.maps()).unwrap_or_default());
        self.warm()
    }

    fn warm(&self) -> Result<()> {
        let Plan { cache, other, .. } = self.plan;
        for file in self.programs.iter().filter(|file| !file.starts_with(cache) && !file.starts_with(other)) {
            // Files in memory alone, and such that went away, need no warming.
            let _ = os::cache::warm(file, None);
            os::interrupt::check()?;
        }
        Ok(())
    }

    fn load(&mut self, turn: Turn<'_>, state: State, browser: &mut dyn Browser, proxy: Option<&Proxy>) -> Result<()> {
        os::interrupt::check()?;
        let Turn { kind, via, round, url } = turn;
        (self.told)(&format!("{} of {}: {kind}, {via}, {}", round + 1, self.plan.runs, state.name()));
        let visit = if state == State::Reload { Visit::Reload } else { Visit::Navigate };
        let dev = Disk::of_path(&self.plan.cache).ok().map(|disk| disk.dev);
        let counts = |origin: &Option<Origin>| origin.as_ref().map(Origin::counts);
        let reads = |browser: &dyn Browser| match via {
            Via::Direct => browser.program().reads(dev),
            _ => proxy.and_then(|proxy| proxy.program.reads(dev)),
        };
        let before = match (state, via) {
            // What a proxy reads of its cache when it starts is read for the loads to come.
            (State::Cold, Via::Thaw | Via::ThawH2) => Some(Reads { bytes: Bytes(0), requests: Some(0) }),
            _ => reads(browser),
        };
        let before = (counts(&self.origin), before);
        self.throttle(via, browser, proxy, dev, true)?;
        self.ground.loading(true)?;
        let started_unix_ns = os::machine::now_unix_ns();
        let loaded = browser.load(url, visit);
        self.ground.loading(false)?;
        self.throttle(via, browser, proxy, dev, false)?;
        let loaded = loaded?;
        is_as_meant(kind, via, &loaded)?;
        let after = (counts(&self.origin), reads(browser));
        if state == State::First && !self.plan.states.contains(&state) {
            return Ok(());
        }
        self.samples.push(Sample {
            browser: kind,
            via: via.clone(),
            state,
            round,
            started_unix_ns,
            loaded,
            origin: after.0.zip(before.0).map(|(after, before)| after.since(before)),
            reads: after.1.zip(before.1).map(|(after, before)| after.since(before)),
        });
        Ok(())
    }

    /// The limit is the load's alone: a browser that starts behind it would take minutes.
    fn throttle(
        &self,
        via: &Via,
        browser: &dyn Browser,
        proxy: Option<&Proxy>,
        dev: Option<u64>,
        begins: bool,
    ) -> Result<()> {
        let owner = if *via == Via::Direct { Some(browser.program()) } else { proxy.map(|proxy| &proxy.program) };
        let (Some(limits), Some(owner)) = (&self.plan.throttle, owner) else { return Ok(()) };
        let dev = dev.ok_or_else(|| Error::on(Exit::Machine, "cannot find the disk of", &self.plan.cache))?;
        owner.throttle(dev, begins.then_some(limits))
    }
}

/// What is told as HTTP/2 was. What comes through a tunnel comes as its server speaks.
fn is_as_meant(browser: Kind, via: &Via, loaded: &Loaded) -> Result<()> {
    if *via != Via::ThawH2 || !loaded.url.starts_with("http://") || loaded.protocol == "h2" {
        return Ok(());
    }
    let cause = format!("it says that the page came by '{}'", loaded.protocol);
    Err(Error::new(Exit::Target, "does not speak HTTP/2 to the proxy:", browser).because(cause))
}

/// A `thaw proxy` of ours.
#[derive(Debug)]
struct Proxy {
    program: Program,
    /// Where the browser is to come.
    address: SocketAddr,
    /// Of its authority, if browsers come by TLS.
    pin: Option<String>,
    /// The other end of what it writes to.
    _said: File,
}

impl Proxy {
    /// Starts it, at the address of an earlier one or at any that is free.
    fn start(plan: &Plan, via: &Via, address: Option<SocketAddr>, store: &Path) -> Result<Self> {
        let path = plan.thaw_proxy.as_ref().ok_or_else(|| Error::bug("nobody said where thaw-proxy is"))?;
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot start", path).because(cause);
        let (ours, its) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|it| cannot(it.into()))?;
        const ANY: &str = "127.0.0.1:0";
        let listen = address.map_or_else(|| ANY.to_owned(), |address| address.to_string());
        let mut words: Vec<OsString> = vec![path.clone().into(), "--listen".into()];
        let mut pin = None;
        if *via == Via::ThawH2 {
            let directory = plan.other.join("authority");
            pin = Some(authority(path, &directory)?);
            // It listens for clients without TLS in any case.
            words.extend([ANY, "--tls-listen", &listen, "--tls-ca"].map(OsString::from));
            words.push(directory.into());
        } else {
            words.push(listen.into());
        }
        // What it keeps has to outlive it: cold is a new process.
        words.extend(["--store".into(), store.into()]);
        let mut launch = Launch::new(words);
        launch.cwd = Some(plan.cache.clone());
        let log = plan.other.join("proxy.log");
        launch.stdout = Stream::Fd(its);
        launch.stderr = Stream::Fd(log_file(&log)?);
        let program = Program::start("thaw proxy", launch)?;
        let mut said = File::from(ours);
        let until = Instant::now() + READY;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            wait(said.as_fd(), until).map_err(|trouble| match trouble {
                Trouble::Interrupted => Error::interrupted(),
                _ => Error::on(Exit::Machine, "does not say its address in time:", path),
            })?;
            let mut byte = [0];
            if said.read(&mut byte).map_err(cannot)? == 0 {
                return Err(Error::on(Exit::Machine, "cannot start", path).because(last_line(&log)));
            }
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line);
        // The last one is that for TLS, where there is any.
        let address = text.rsplit(' ').next().unwrap_or_default().trim().parse();
        let address = address.map_err(|_| Error::on(Exit::Machine, "says no address:", path).because(text.trim()))?;
        Ok(Self { program, address, pin, _said: said })
    }
}

/// Has the proxy make its authority, if there is none yet; what Chromium knows it by.
fn authority(program: &Path, directory: &Path) -> Result<String> {
    let file = directory.join("ca.pem");
    if !file.exists() {
        let made = Command::new(program).arg("--make-ca").arg(directory).stdin(Stdio::null()).output();
        let made = made.map_err(|cause| Error::on(Exit::Machine, "cannot start", program).because(cause))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(Error::on(Exit::Machine, "makes no authority:", program).because(said));
        }
    }
    let pem = std::fs::read_to_string(&file);
    let pem = pem.map_err(|cause| Error::on(Exit::Machine, "cannot read", &file).because(cause))?;
    pin::of_pem(&pem).ok_or_else(|| Error::on(Exit::Machine, "is no certificate:", &file))
}

fn restart(command: &str, via: &Via) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("THAW_VIA", via.to_string()).stdin(Stdio::null());
    let ended = shell.status();
    let ended = ended.map_err(|cause| Error::new(Exit::Machine, "cannot run", command).because(cause))?;
    if ended.success() { Ok(()) } else { Err(Error::new(Exit::Target, format!("{ended} from"), command)) }
}

/// Makes a directory, or empties it.
fn empty(directory: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return std::fs::create_dir_all(directory)
                .map_err(|cause| Error::on(Exit::Machine, "cannot make", directory).because(cause));
        }
        entries => entries.map_err(|cause| Error::on(Exit::Machine, "cannot list", directory).because(cause))?,
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory {
            os::tree::remove(&path)?;
        } else {
            std::fs::remove_file(&path)
                .map_err(|cause| Error::on(Exit::Machine, "cannot remove", &path).because(cause))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_did_not_come_by_http2_is_no_sample_of_it() {
        let loaded = |url: &str, protocol: &str| {
            let text = serde_json::json!({
                "url": url, "status": 200, "load_ms": 1.0, "first_paint_ms": null, "largest_paint_ms": null,
                "requests": 1, "from_cache": 0, "untold": 0, "bytes": 1, "protocol": protocol,
            });
            Loaded::from_json(&text.to_string(), url).unwrap()
        };
        let is_right = |via: &Via, loaded: &Loaded| is_as_meant(Kind::Chromium, via, loaded).is_ok();
        assert!(is_right(&Via::ThawH2, &loaded("http://a/", "h2")));
        assert!(!is_right(&Via::ThawH2, &loaded("http://a/", "http/1.1")));
        assert!(!is_right(&Via::ThawH2, &loaded("http://a/", "")));
        assert!(is_right(&Via::ThawH2, &loaded("https://a/", "http/1.1")), "a tunnel's end is not the proxy");
        assert!(is_right(&Via::Thaw, &loaded("http://a/", "http/1.1")));
    }
}
