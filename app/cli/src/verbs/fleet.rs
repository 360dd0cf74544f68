//! `thaw fleet`: the starts of many machines.

use crate::args::collect::{CollectArgs, SendArgs};
use crate::args::fleet::{AskArgs, Engine, FleetArgs, FleetVerb, ForgetArgs, ImportArgs, QueryArgs, ReportArgs};
use crate::progress::Progress;
use crate::{output, text};
use fleet::engine::{self, Python, Rows};
use fleet::questions::About;
use fleet::report::Versions;
use model::{Error, Exit, Result};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use work::progress::Tell;

/// Does what was typed.
///
/// # Errors
/// A folder, a store or an engine that cannot be used.
pub fn run(args: &FleetArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        FleetVerb::Collect(args) => collect(args),
        FleetVerb::Send(args) => send(args),
        FleetVerb::Import(args) => import(args, quiet),
        FleetVerb::Query(args) => query(args),
        FleetVerb::Report(args) => report(args),
        FleetVerb::Forget(args) => forget(args),
    }
}

/// Becomes the collector.
fn collect(args: &CollectArgs) -> Result<Exit> {
    let program = work::collecting::program()?;
    let mut command = Command::new(&program);
    command.args(["--listen", &args.listen.to_string()]);
    for (option, file) in
        [("--tls-cert", &args.tls_cert), ("--tls-key", &args.tls_key), ("--token-file", &args.token_file)]
    {
        command.args(file.iter().flat_map(|file| [OsStr::new(option), file.as_os_str()]));
    }
    command.args(&args.options);
    // What begins with a dash is a directory all the same.
    let cause = command.arg("--").arg(&args.directory).exec();
    Err(Error::on(Exit::Machine, "cannot start", &program).because(cause))
}

/// Becomes what sends.
fn send(args: &SendArgs) -> Result<Exit> {
    let spool = args.spool.clone().map_or_else(::ping::spool::usual_root, Ok)?;
    if !spool.is_dir() {
        return Err(Error::on(Exit::Usage, "there is no spool of pings:", &spool)
            .hint("thaw ping --app NAME --enable makes one; --spool names another"));
    }
    let program = work::collecting::program()?;
    let mut command = Command::new(&program);
    command.args(["--send", &args.to]);
    if let Some(file) = &args.token_file {
        command.arg("--token-file").arg(file);
    }
    let cause = command.arg("--").arg(&spool).exec();
    Err(Error::on(Exit::Machine, "cannot start", &program).because(cause))
}

fn import(args: &ImportArgs, quiet: bool) -> Result<Exit> {
    let mut progress = Progress::new(quiet);
    let mut told = |done: usize, of: usize| progress.files(done as u64, of as u64, "imported");
    let document = fleet::import::import(&args.folder, &args.output, &mut told)?;
    progress.done();
    output::answer(args.json, &document, || {
        text::fleet::imported(&document, &args.output, text::width::of_terminal())
    })?;
    Ok(if document.damaged.is_empty() { Exit::Done } else { Exit::Data })
}

fn query(args: &QueryArgs) -> Result<Exit> {
    let question = args.name.question();
    let (old, new) = (args.version_old.clone(), args.version_new.clone());
    let about = About { app: args.ask.app.clone(), old, new, k: args.ask.k };
    let sql = about.sql(question)?;
    if args.sql {
        output::bytes(sql.as_bytes())?;
        return Ok(Exit::Done);
    }
    let document = fleet::answer::answer(question, &about, &ask(&args.ask, &sql)?)?;
    output::answer(args.json, &document, || text::fleet::answer(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn ask(args: &AskArgs, sql: &str) -> Result<Rows> {
    let python = Python { program: args.python.clone() };
    let [rows] = match args.engine {
        Engine::Sqlite => [engine::sqlite(&args.from, sql)?],
        Engine::Spark => engine::spark(&python, &args.from, [sql], args.master.as_deref())?,
        Engine::Clickhouse => engine::clickhouse(&python, &args.from, [sql])?,
    };
    Ok(rows)
}

/// What a report is written as.
#[derive(Clone, Copy)]
enum Form {
    Page,
    Metrics,
    Json,
    Text,
}

impl Form {
    /// By the ending of its name.
    fn of(target: &Path) -> Result<Self> {
        let forms = [
            ("html", Self::Page),
            ("htm", Self::Page),
            // The textfile collector reads no other.
            ("prom", Self::Metrics),
            ("json", Self::Json),
            ("txt", Self::Text),
        ];
        output::by_ending(target, &forms, "name it .html for the page, .prom for metrics, .json or .txt")
    }
}

fn report(args: &ReportArgs) -> Result<Exit> {
    let target = args.output.as_deref().map(|target| Ok((Form::of(target)?, target))).transpose()?;
    // Found out before everything is asked, not after.
    if let Some((_, target)) = target {
        os::replace::check(target, args.force.existing())?;
    }
    let versions = match args.versions.as_slice() {
        [] => Versions::Newest(args.newest.into()),
        these => Versions::These(these.to_vec()),
    };
    let mut asked = |sql: &str| ask(&args.ask, sql);
    let document = fleet::report::report(args.ask.app.as_deref(), args.ask.k, &versions, &mut asked)?;
    let Some((form, target)) = target else {
        output::answer(args.json, &document, || text::fleet::report(&document, text::width::of_terminal()))?;
        return Ok(Exit::Done);
    };
    let bytes = match form {
        Form::Page => text::fleet_page::html(&document).into_bytes(),
        Form::Metrics => text::fleet_metrics::text(&document).into_bytes(),
        Form::Json => output::json_text(&document)?,
        Form::Text => output::plain(&text::fleet::report(&document, text::width::of_file())).into_bytes(),
    };
    output::file(target, &bytes, args.force.existing())?;
    Ok(Exit::Done)
}

fn forget(args: &ForgetArgs) -> Result<Exit> {
    let document = fleet::forget::forget(&args.token, &args.folder, args.db.as_deref())?;
    output::answer(args.json, &document, || text::fleet::forgotten(&document, text::width::of_terminal()))?;
    Ok(if document.unread.is_empty() { Exit::Done } else { Exit::Data })
}
