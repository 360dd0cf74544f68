//! `thaw-fleet`: what `thaw fleet collect` starts. Reads the arguments, takes the directory, and serves until a signal.

use clap::Parser;
use ping::Day;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use thaw_fleet::counters::Counters;
use thaw_fleet::programs::Programs;
use thaw_fleet::segment::Store;
use thaw_fleet::send::{self, Target, Unsent};
use thaw_fleet::server::{self, Hall, ROOM};
use thaw_fleet::tokens::Tokens;
use thaw_fleet::writer::{Limits, Writer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// How do the pings of many machines come into one directory, and none is lost?
///
/// Takes pings by POST /v1/pings, answers when they are on the medium, and seals them into
/// DIR/dt=DAY/app=NAME/*.ndjson.zst. Other machines come by TLS, and with a token. The first line on stdout is the
/// address. Ctrl-C or SIGTERM ends it, when all is sealed.
#[derive(Debug, Parser)]
#[command(
    name = "thaw-fleet",
    bin_name = "thaw fleet collect",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  thaw fleet collect pings
  thaw fleet collect pings --listen 127.0.0.1:8400 --seal-seconds 600
  thaw fleet collect pings --listen 0.0.0.0:443 --tls-cert c.pem --tls-key k.pem --token-file tokens"
)]
struct Args {
    /// Where pings are kept; made when it is missing. With --send: the spool
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Collect nothing: send the pings of the spool DIR to this collector, and end
    #[arg(long, value_name = "URL", value_parser = Target::parse, conflicts_with_all = ["listen", "seal_bytes"])]
    send: Option<Target>,
    /// Tokens, one a line: who shows none of them as `Authorization: Bearer TOKEN` gets 401. With --send: its first
    /// line is shown
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where clients come; port 0: any that is free. An address that is not on the loopback needs --tls-cert, --tls-key
    /// and --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The collector's certificate, with those up to its authority, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "send")]
    tls_cert: Option<PathBuf>,
    /// Its key, PEM; nobody else may read it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A segment is sealed at so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    seal_bytes: u64,
    /// A segment is sealed after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    seal_seconds: u64,
    /// Connections at once; more are closed
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How long a client may take for the handshake, for the head of a request or until there is one, and for its body
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    client_seconds: u64,
    /// Programs of a day; pings of further ones are refused
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    apps: u32,
    /// Only pings of this program are taken; may be given more than once
    #[arg(long, value_name = "NAME", conflicts_with = "apps", value_parser = program)]
    app: Vec<String>,
}

/// How long an id is remembered, seconds.
const WINDOW: u64 = 43_200;
/// How long answers under way may take at the end.
const DRAIN: Duration = Duration::from_secs(15);
/// The command line makes no sense, this machine cannot, bad data: of the table in the README.
const USAGE: u8 = 2;
const MACHINE: u8 = 3;
const DATA: u8 = 5;

fn program(name: &str) -> Result<String, String> {
    let why = "small letters, digits and ._-, 32 at most";
    if ping::is_allowed("app", name) { Ok(name.to_owned()) } else { Err(why.to_owned()) }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (verb, done) = match &args.send {
        Some(target) => ("send", deliver(&args, target)),
        None => ("collect", run(&args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((why, code)) => {
            let _ = writeln!(io::stderr(), "thaw fleet {verb}: {why}");
            ExitCode::from(code)
        }
    }
}

/// Sends what the spool holds; why not, and with which exit code: that of [`MACHINE`] where it may work later.
fn deliver(args: &Args, target: &Target) -> Result<(), (String, u8)> {
    let token = args.token_file.as_ref().map(|file| {
        let text = std::fs::read_to_string(file);
        text.map_err(|error| (format!("cannot read {}: {error}", file.display()), USAGE))
    });
    let token = token.transpose()?.and_then(|text| text.lines().next().map(|line| line.trim().to_owned()));
    let starting = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = starting.map_err(|error| (format!("cannot start: {error}"), MACHINE))?;
    let (sent, unsent) = match runtime.block_on(send::send(&args.directory, target, token.as_deref())) {
        Ok(sent) => (sent, None),
        Err((sent, unsent)) => (sent, Some(unsent)),
    };
    let _ = writeln!(io::stdout(), "{} sent, {} of them refused", sent.done, sent.refused);
    match unsent {
        None => Ok(()),
        Some(Unsent::Later(why)) => Err((format!("{why}; the rest stays and can be sent later"), MACHINE)),
        Some(Unsent::Never(why)) => Err((why, DATA)),
    }
}

/// Who may send, and what is shown to them: of the files that were named.
fn secured(args: &Args) -> Result<(Option<Tokens>, Option<TlsAcceptor>), String> {
    let is_safe = args.tls_cert.is_some() && args.token_file.is_some();
    if !args.listen.ip().is_loopback() && !is_safe {
        return Err(format!(
            "{} is no loopback address: other machines come by TLS and with a token alone, so that nobody reads along \
             and nobody else sends: --tls-cert FILE --tls-key FILE --token-file FILE",
            args.listen
        ));
    }
    let tokens = args.token_file.as_ref().map(|file| {
        let bytes = os::secret::read(file).map_err(|error| error.to_string())?;
        Tokens::parse(&bytes).map_err(|why| format!("{}: {why}", file.display()))
    });
    let tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref()).map(|(certificate, key)| {
        let mut config = tls::server(certificate, key).map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok::<_, String>(TlsAcceptor::from(Arc::new(config)))
    });
    Ok((tokens.transpose()?, tls.transpose()?))
}

fn run(args: &Args) -> Result<(), (String, u8)> {
    let (tokens, tls) = secured(args).map_err(|why| (why, USAGE))?;
    collect(args, tokens, tls).map_err(|why| (why, MACHINE))
}

fn collect(args: &Args, tokens: Option<Tokens>, tls: Option<TlsAcceptor>) -> Result<(), String> {
    let place = args.directory.display();
    let counters = Arc::new(Counters::default());
    let limits = Limits { bytes: args.seal_bytes, seconds: args.seal_seconds, window: WINDOW };
    let today = Day::today();
    let (known, writer) = Store::take(&args.directory)
        .and_then(|store| Writer::new(store, limits, Arc::clone(&counters)))
        .and_then(|writer| Ok((writer.programs(today)?, writer)))
        .map_err(|error| format!("cannot use {place}: {error}"))?;
    let programs = match args.app.is_empty() {
        true => Programs::first(args.apps as usize, today, known),
        false => Programs::fixed(&args.app),
    };
    let (jobs, waiting) = mpsc::channel();
    let writing = std::thread::spawn(move || writer.run(&waiting));
    let starting = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = starting.map_err(|error| format!("cannot start: {error}"))?;
    let (room, patience) = (Semaphore::new(ROOM), Duration::from_secs(args.client_seconds));
    let hall = Arc::new(Hall { jobs, counters, room, programs, tokens, tls, patience });
    let done = runtime.block_on(serve(args, hall));
    // With the last connection goes the last sender: the writer seals and ends.
    runtime.shutdown_timeout(DRAIN);
    writing.join().map_err(|_| "the thread that writes has panicked".to_owned())?;
    done
}

async fn serve(args: &Args, hall: Arc<Hall>) -> Result<(), String> {
    let signals = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let (mut term, mut interrupt) = signals.map_err(|error| format!("cannot catch signals: {error}"))?;
    let cannot = |error: io::Error| format!("cannot listen on {}: {error}", args.listen);
    let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    // Whoever waits for the line may be gone already; that is no reason not to serve.
    let scheme = if hall.tls.is_some() { "https" } else { "http" };
    let _ = writeln!(io::stdout(), "{scheme}://{address}");
    let places = Arc::new(Semaphore::new(args.connections as usize));
    let (stop, stopped) = watch::channel(false);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            accepted = listener.accept() => match (accepted, Arc::clone(&places).try_acquire_owned()) {
                (Ok((socket, _)), Ok(place)) => {
                    tokio::spawn(server::serve(Arc::clone(&hall), socket, place, stopped.clone()));
                }
                // A client that is gone already, or one too many: its socket closes.
                (Ok(_), Err(_)) => {}
                // Descriptors have run out: some may be free in a while.
                (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
    drop(listener);
    let _ = stop.send(true);
    let _ = tokio::time::timeout(DRAIN, places.acquire_many(args.connections)).await;
    Ok(())
}
