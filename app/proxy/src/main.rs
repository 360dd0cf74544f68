//! `thaw-proxy`: what `thaw proxy` starts. Reads the arguments, opens sockets, and serves.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use http::HeaderName;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thaw_proxy::authority::{self, Authority};
use thaw_proxy::caching::Caching;
use thaw_proxy::disk::Disk;
use thaw_proxy::guard::Clocks;
use thaw_proxy::head::Limits;
use thaw_proxy::listen;
use thaw_proxy::log::Log;
use thaw_proxy::metrics::Metrics;
use thaw_proxy::origins::Origins;
use thaw_proxy::server::{Proxy, Settings};
use thaw_proxy::store::Memory;
use thaw_proxy::tls::{Intercept, Tls};
use thaw_proxy::upstream::{self, Origin, Upstream};
use tokio::net::TcpListener;

/// How do my HTTP clients reach their origins through one strict place?
///
/// A forward proxy, or with --reverse the front of one origin. To clients it speaks HTTP/1.1 and HTTP/2: without TLS by
/// prior knowledge, at the address of --tls-listen as browsers do; CONNECT makes a tunnel. The first line on stdout is
/// the address. SIGTERM or SIGINT ends it when the answers under way have ended. It keeps answers by the rules of RFC
/// 9111, in memory and with --store on disk.
#[derive(Debug, Parser)]
#[command(
    name = "thaw-proxy",
    bin_name = "thaw proxy",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  thaw proxy --listen 127.0.0.1:3128
  thaw proxy --reverse http://127.0.0.1:8000 --size 1G --access-log access.log
  thaw proxy --admin 127.0.0.1:9100 --connections 200
  thaw proxy -- --make-ca ~/.config/thaw/ca
  thaw proxy --tls-listen 127.0.0.1:3129 --tls-ca ~/.config/thaw/ca --intercept --no-intercept bank.example"
)]
struct Args {
    /// Where clients come; port 0: any that is free. Sockets of systemd (LISTEN_FDS) take its place
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The one origin: http://HOST[:PORT] or https://HOST[:PORT]; without it this is a forward proxy
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    reverse: Option<Origin>,
    /// Where clients come that speak TLS, by which browsers get HTTP/2; port 0: any that is free. Needs --tls-ca or
    /// --tls-cert
    #[arg(long, value_name = "ADDRESS")]
    tls_listen: Option<SocketAddr>,
    /// The directory of an authority that --make-ca has made: certificates of it are made in memory, for the names that
    /// clients ask for
    #[arg(long, value_name = "DIR")]
    tls_ca: Option<PathBuf>,
    /// A certificate for the address of --tls-listen, with those up to its authority, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_listen"])]
    tls_cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Answers what comes through tunnels to port 443 from the cache too, with certificates of --tls-ca, which clients
    /// have to believe. Only a forward proxy
    #[arg(long, conflicts_with = "reverse")]
    intercept: bool,
    /// A port whose tunnels are answered, in the place of 443; may be given more than once
    #[arg(long, value_name = "PORT", requires = "intercept", default_values_t = [443])]
    intercept_port: Vec<u16>,
    /// A host whose tunnels stay tunnels, with all below it; may be given more than once
    #[arg(long, value_name = "HOST", requires = "intercept")]
    no_intercept: Vec<String>,
    /// Makes an authority for --tls-ca in a directory, which is made when it is missing; says what to do with it, and
    /// ends
    #[arg(long, value_name = "DIR", exclusive = true)]
    make_ca: Option<PathBuf>,
    /// Loopback address of the metrics: http://ADDRESS/metrics, OpenMetrics
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    admin: Option<SocketAddr>,
    /// Common Log Format, then the seconds to the head and to the end of the answer, and what the cache did
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Where answers are kept: in memory, until the end of the process, or nowhere
    #[arg(long, value_name = "off|memory", default_value = "memory")]
    cache: Kept,
    /// Bytes of the answers that are kept, what they cost beside included: 64M, 1G (powers of 1024), 30MB (of 1000). No
    /// body above an eighth of it is kept
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = size)]
    size: u64,
    /// A directory, made when it is missing, where answers are kept too: they outlive the process. One proxy at a time
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Bytes of files in the directory of --store
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size, requires = "store")]
    store_size: u64,
    /// A field of requests that is part of the key, such as X-Forwarded-Proto where something in front of this proxy
    /// sets it; may be given more than once
    #[arg(long, value_name = "FIELD")]
    key: Vec<HeaderName>,
    /// Authorities, a PEM file, that certificates of origins may be of, beside the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Connections of clients at once; more get 503
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Bytes of a head; larger ones get 431
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1024..))]
    head_bytes: u32,
    /// Fields of a head; more get 431
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    fields: u32,
    /// Bytes of a request's body; larger ones get 413
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    body_bytes: u64,
    /// Seconds for a head, from its first byte to its last
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    head_time: u64,
    /// Seconds between two requests of a connection
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    idle_time: u64,
    /// Seconds between two bytes of a body, either way
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    stall_time: u64,
    /// Seconds until an origin has answered a request
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    answer_time: u64,
    /// Seconds that answers under way have to end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
}

fn origin(text: &str) -> Result<Origin, String> {
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err("http://HOST[:PORT] or https://HOST[:PORT]".to_owned()),
    };
    Origin::new(tls, rest.strip_suffix('/').unwrap_or(rest)).map_err(|why| why.to_string())
}

/// Where answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kept {
    Off,
    Memory,
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write 128K, 30M (powers of 1024) or 30MB (powers of 1000), 64K at least".to_owned();
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    bytes.filter(|bytes| (1 << 16..1 << 53).contains(bytes)).ok_or_else(wrong)
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}"))?;
    address.ip().is_loopback().then_some(address).ok_or_else(|| "not a loopback address".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(why) = lacks(&args) {
        Args::command().error(ErrorKind::MissingRequiredArgument, why).exit();
    }
    match args.make_ca.as_ref().map_or_else(|| run(&args), |directory| make_ca(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err((what, error)) => {
            let _ = writeln!(io::stderr(), "thaw proxy: {what}: {error}");
            // The table of exit codes in the README: this machine cannot.
            ExitCode::from(3)
        }
    }
}

/// What options need and do not have: with how to get it, which clap does not say.
fn lacks(args: &Args) -> Option<&'static str> {
    if args.tls_ca.is_some() {
        return match args.intercept || args.tls_listen.is_some() {
            true => None,
            false => Some("--tls-ca DIR is for --tls-listen ADDRESS or --intercept, and there is neither"),
        };
    }
    if args.intercept {
        return Some(
            "--intercept needs --tls-ca DIR, an authority that the clients believe. To make one: \
             thaw proxy -- --make-ca DIR",
        );
    }
    (args.tls_listen.is_some() && args.tls_cert.is_none()).then_some(
        "--tls-listen needs a certificate: --tls-ca DIR (to make it: thaw proxy -- --make-ca DIR), or your own with \
         --tls-cert FILE --tls-key FILE",
    )
}

fn make_ca(directory: &Path) -> Outcome<()> {
    let failed = |error| (format!("cannot make an authority in {}", directory.display()), error);
    let file = authority::make(directory).map_err(failed)?;
    let (directory, file) = (directory.display(), file.display());
    let _ = writeln!(
        io::stdout(),
        "An authority is in {directory}: ca.pem, which clients may believe, and ca-key.pem, which nobody else may have.
Whoever has the key can be every site to whoever believes ca.pem. Nothing believes it yet; it is good for two years.

To use it:
  thaw proxy --tls-listen 127.0.0.1:3129 --tls-ca {directory}
  curl --proxy https://127.0.0.1:3129 --proxy-cacert {file} http://example.org/
To keep https answers too, add --intercept, and:
  curl --proxy https://127.0.0.1:3129 --proxy-cacert {file} --cacert {file} https://example.org/
For browsers, see docs/proxy.md: in a profile of its own, so that no other one believes it.
To undo it: take it out of what was told to believe it, and
  rm {directory}/ca.pem {directory}/ca-key.pem"
    );
    Ok(())
}

/// How long the end waits for a disk: it has the changes of a few seconds and an index to write. One that takes longer
/// is in trouble, and whoever sent the signal waits.
const CLOSING: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, (String, io::Error)>;

fn run(args: &Args) -> Outcome<()> {
    let inherited = listen::inherited().map_err(|error| ("the sockets handed over".to_owned(), error))?;
    let starting = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = starting.map_err(|error| ("cannot start".to_owned(), error))?;
    let done = runtime.block_on(serve(args, inherited));
    // Tunnels and answers that did not end in time are cut.
    runtime.shutdown_background();
    done
}

async fn serve(args: &Args, inherited: Vec<std::net::TcpListener>) -> Outcome<()> {
    let cannot = |address: SocketAddr| move |error| (format!("cannot listen on {address}"), error);
    let mut listeners = Vec::new();
    for listener in inherited {
        listeners.push((TcpListener::from_std(listener).map_err(cannot(args.listen))?, false));
    }
    if listeners.is_empty() {
        listeners.push((TcpListener::bind(args.listen).await.map_err(cannot(args.listen))?, false));
    }
    let tls = tls(args)?;
    if let Some(address) = args.tls_listen {
        listeners.push((TcpListener::bind(address).await.map_err(cannot(address))?, true));
    }
    let admin = match args.admin {
        Some(address) => Some(TcpListener::bind(address).await.map_err(cannot(address))?),
        None => None,
    };
    let metrics = Arc::new(Metrics::default());
    let log = args.access_log.as_ref().map(|path| {
        Log::new(path, Arc::clone(&metrics)).map_err(|error| (format!("cannot open {}", path.display()), error))
    });
    let limits = Limits { bytes: args.head_bytes as usize, fields: args.fields as usize };
    let seconds = Duration::from_secs;
    let clocks =
        Clocks { idle: seconds(args.idle_time), head: seconds(args.head_time), stall: seconds(args.stall_time) };
    let upstream = Upstream::new(upstream::Settings {
        limits,
        clocks: Clocks { idle: seconds(15), ..clocks },
        connect: seconds(10),
        answer: seconds(args.answer_time),
        kept: 64,
        authorities: args.ca.clone(),
    });
    // A file of authorities that cannot be read is told now, and not to the first client.
    let upstream = upstream.map_err(|error| ("cannot read the authorities".to_owned(), error))?;
    let all = listeners.iter().map(|(listener, _)| listener).chain(&admin);
    let addresses = all.map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let addresses = addresses.map_err(cannot(args.listen))?;
    let line: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let disk = match args.store.as_ref().filter(|_| args.cache == Kept::Memory) {
        None => None,
        Some(path) => {
            let disk = Disk::open(path, args.store_size, Arc::clone(&metrics))
                .map_err(|error| (format!("cannot open {}", path.display()), error))?;
            tokio::spawn(look(Arc::clone(&disk), path.clone()));
            Some(disk)
        }
    };
    let caching = (args.cache == Kept::Memory).then(|| {
        let store = Memory::new(args.size, disk, Arc::clone(&metrics));
        Caching::new(store, args.key.clone(), seconds(args.answer_time))
    });
    let kept = caching.clone();
    let origins = Arc::new(Origins { upstream, metrics: Arc::clone(&metrics), pseudonym: pseudonym() });
    let proxy = Proxy {
        settings: Settings { reverse: args.reverse.clone(), limits, clocks, body: args.body_bytes },
        origins,
        caching,
        tls,
        metrics,
        log: log.transpose()?,
    };
    // Whoever waits for the line may be gone already; that is no reason not to serve.
    let _ = writeln!(io::stdout(), "{}", line.join(" "));
    let drain = seconds(args.drain);
    let done = listen::run(Arc::new(proxy), listeners, admin, args.connections, drain).await;
    if let (Some(caching), Some(path)) = (kept, &args.store)
        && !caching.close(CLOSING).await
    {
        let path = path.display();
        let _ = writeln!(io::stderr(), "thaw proxy: {path} took too long: what came last may not be kept in it");
    }
    done.map_err(|error| ("cannot catch signals".to_owned(), error))
}

/// TLS towards clients, where it was asked for.
fn tls(args: &Args) -> Outcome<Option<Arc<Tls>>> {
    let authority = match &args.tls_ca {
        None => None,
        Some(directory) => {
            let failed = |error| (format!("cannot use the authority in {}", directory.display()), error);
            Some(Authority::open(directory).map_err(failed)?)
        }
    };
    let own = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    if authority.is_none() && own.is_none() {
        return Ok(None);
    }
    let intercept =
        args.intercept.then(|| Intercept { ports: args.intercept_port.clone(), except: args.no_intercept.clone() });
    let made = Tls::new(authority, own, intercept);
    made.map(|tls| Some(Arc::new(tls))).map_err(|error| ("cannot use the certificate".to_owned(), error))
}

/// Says so where a directory cannot be used: nobody would notice, for clients get their answers all the same.
async fn look(disk: Arc<Disk>, path: PathBuf) {
    if !disk.flush().await && disk.is_dead() {
        let path = path.display();
        let _ = writeln!(
            io::stderr(),
            "thaw proxy: nothing is kept in {path}: it cannot be written, or another proxy uses it"
        );
    }
}

/// Another one in each process, so that a proxy behind a proxy is no circle.
fn pseudonym() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("thaw-{:08x}", RandomState::new().hash_one(std::process::id()) as u32)
}
