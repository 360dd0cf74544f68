//! `thaw-storage`: what `thaw store serve` starts. Reads the arguments, opens the directory, and serves until a signal.

use clap::Parser;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thaw_log::book;
use thaw_log::disk::{Disk, Folder};
use thaw_storage::door::Door;
use thaw_storage::room::Room;
use thaw_storage::server;
use thaw_webstorage::{Options, record};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

/// How does a page's storage feel that never waits for the disk?
///
/// Serves a page on 127.0.0.1 whose storage goes through thaw_webstorage into DIR: what DIR holds, changes as they
/// come, and what set and get cost beside the browser's own localStorage. The first line on stdout is the address.
/// Ctrl-C or SIGTERM ends it, when all is on the medium.
#[derive(Debug, Parser)]
#[command(
    name = "thaw-storage",
    bin_name = "thaw store serve",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  thaw store serve profile/storage
  thaw store serve --port 8080"
)]
struct Args {
    /// A directory of web storage, which is made when it is missing; without it, all stays in memory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The port on 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Bytes of each area, two for each UTF-16 unit of its keys and values
    #[arg(long, value_name = "BYTES", default_value_t = QUOTA)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=QUOTA))]
    quota: u64,
}

/// Bytes of an area that browsers allow, and that fit into one request.
const QUOTA: u64 = 10 << 20;
/// Clients at once: each page has one that stays, and some that come and go.
const CLIENTS: u32 = 256;
/// How long answers under way may take at the end.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the end waits for a disk.
const CLOSING: Duration = Duration::from_secs(30);

/// Of the table in the README: the request is wrong, and this machine cannot.
const USAGE: u8 = 2;
const MACHINE: u8 = 3;

type Outcome = Result<(), (u8, String)>;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            let _ = writeln!(io::stderr(), "thaw store serve: {why}");
            ExitCode::from(code)
        }
    }
}

/// Another program's directory gets no files of ours.
fn look(path: &Path) -> Outcome {
    let wrong = |code: u8, why: String| Err((code, format!("cannot serve {}: {why}", path.display())));
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return wrong(MACHINE, error.to_string()),
        Ok(about) if !about.is_dir() => return wrong(USAGE, "it is no directory".into()),
        Ok(_) => {}
    }
    let disk = Folder::new(path);
    let names = match disk.list() {
        Ok(all) => all.into_iter().map(|(name, _)| name).filter(|name| name != "turn").collect::<Vec<_>>(),
        Err(error) => return wrong(MACHINE, error.to_string()),
    };
    let is_ours = |name: &String| matches!(book::head(&disk, name), Ok(Some(head)) if head.kind == record::KIND);
    if names.is_empty() || names.iter().any(is_ours) {
        return Ok(());
    }
    wrong(USAGE, "there are files in it, and none is of web storage; name an empty directory or a new one".into())
}

fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.directory {
        look(path)?;
    }
    let cannot = |why: String| (MACHINE, why);
    let starting = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = starting.map_err(|error| cannot(format!("cannot start: {error}")))?;
    let room = Room::open(args.directory.as_deref(), Options { quota: args.quota, ..Options::default() });
    let room = room.map_err(|error| cannot(error.to_string()))?;
    let done = runtime.block_on(serve(args, &room));
    let (say, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || say.send(room.close()));
    let closed = said.recv_timeout(CLOSING);
    runtime.shutdown_background();
    done?;
    match closed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(unsaved)) => Err(cannot(unsaved.to_string())),
        Err(_) => Err(cannot("the disk took too long: what came last may not be kept".into())),
    }
}

async fn serve(args: &Args, room: &Arc<Room>) -> Outcome {
    let cannot = |error: io::Error| (MACHINE, format!("cannot listen on 127.0.0.1:{}: {error}", args.port));
    let (mut term, mut interrupt) = signal(SignalKind::terminate())
        .and_then(|term| Ok((term, signal(SignalKind::interrupt())?)))
        .map_err(|error| (MACHINE, format!("cannot catch signals: {error}")))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let door = Arc::new(Door::new(address.port()).map_err(cannot)?);
    // Whoever waits for the line may be gone already; that is no reason not to serve.
    let _ = writeln!(io::stdout(), "http://{address}/{}/", door.token);
    let news = tokio::spawn(Arc::clone(room).pass_news_on());
    let places = Arc::new(Semaphore::new(CLIENTS as usize));
    let (stop, stopped) = watch::channel(false);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            accepted = listener.accept() => match (accepted, Arc::clone(&places).try_acquire_owned()) {
                (Ok((socket, _)), Ok(place)) => {
                    let for_all = (Arc::clone(room), Arc::clone(&door));
                    tokio::spawn(server::serve(for_all, socket, place, stopped.clone()));
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
    room.hang_up();
    let _ = tokio::time::timeout(DRAIN, places.acquire_many(CLIENTS)).await;
    news.abort();
    Ok(())
}
