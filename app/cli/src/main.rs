//! The only `thaw` binary: it listens, introduces the rooms to each other, and speaks for all of them.
//!
//! The story of every verb: `args` is what was typed, `plan` what it means, `verbs` asks a room, or `work` for what
//! rooms do together; the answer is a document, `text` and `export` put it into words. Nothing is measured and nothing
//! is computed in here.

mod args;
mod around;
mod bases;
mod export;
mod meant;
mod output;
mod parameters;
mod plan;
mod preset;
mod progress;
mod text;
mod verbs;

use args::{Args, Verb};
use clap::Parser;
use clap::error::ErrorKind;
use model::{Exit, Result};
use std::process::ExitCode;
use text::errors::Detail;

fn main() -> ExitCode {
    // Another thaw starts it; it is no verb that anybody types.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == args::TRACER) {
        return verdict(verbs::touch::trace());
    }
    os::interrupt::catch_file_limit();
    let mut words = std::env::args_os().skip(1);
    if let (Some(verb), Some(plan)) = (words.next(), words.next())
        && verb == work::plan::stored::RECORDER
    {
        return guarded(|| verbs::record::run_errand(plan.as_ref()));
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return wrong_arguments(&error),
    };
    output::set_color(args.color);
    text::errors::set_detail(if args.verbose { Detail::Whole } else { Detail::Folded });
    guarded(|| {
        if let Some(file) = &args.timeline {
            work::itself::write_to(file)?;
        }
        run(args)
    })
}

fn guarded(work: impl FnOnce() -> Result<Exit>) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| output::complain(&text::errors::bug(&panic.to_string()))));
    // Unwinding lets the guards give the machine back before the end.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(outcome) => verdict(outcome),
        Err(_) => ExitCode::from(Exit::Bug as u8),
    }
}

/// Says what went wrong.
fn verdict(outcome: Result<Exit>) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        let typed: Vec<_> = std::env::args_os().collect();
        let error = meant::said(error, &typed);
        output::complain(&text::errors::error(&error));
        error.exit
    });
    ExitCode::from(exit as u8)
}

fn run(args: Args) -> Result<Exit> {
    // The words are put together only if somebody listens.
    let line = || work::shell::command_line(&std::env::args_os().collect::<Vec<_>>());
    let _verb = tracing::info_span!("verb", line = line()).entered();
    match args.verb {
        Verb::Record(typed) => verbs::record::run(*typed, args.quiet),
        Verb::Ablate(typed) => verbs::ablate::run(*typed, args.quiet),
        Verb::Why(typed) => verbs::why::run(*typed, args.quiet),
        Verb::Sweep(typed) => verbs::sweep::run(*typed, args.quiet),
        Verb::Report(typed) => verbs::report::run(&typed),
        Verb::View(typed) => verbs::view::run(&typed),
        Verb::Compare(typed) => verbs::compare::run(&typed),
        Verb::Gate(typed) => verbs::gate::run(&typed, args.quiet),
        Verb::History(typed) => verbs::history::run(&typed),
        Verb::Bisect(typed) => verbs::history::bisect(&typed, args.quiet),
        Verb::Touch(typed) => verbs::touch::run(*typed, args.quiet),
        Verb::Order(typed) => verbs::order::run(&typed),
        Verb::Heap(typed) => verbs::heap::run(&typed, args.quiet),
        Verb::Timeline(typed) => verbs::timeline::run(&typed),
        Verb::Pageload(typed) => verbs::pageload::run(&typed, args.quiet),
        Verb::Counts(typed) => verbs::counts::run(&typed),
        Verb::Memory(typed) => verbs::memory::run(&typed, args.quiet),
        Verb::Io(typed) => verbs::io::run(&typed, args.quiet),
        Verb::Query(typed) => verbs::query::run(&typed),
        Verb::Preload(typed) => verbs::preload::run(&typed),
        Verb::Optimize(typed) => verbs::optimize::optimize_or_apply(&typed, args.quiet),
        Verb::Flush(typed) => verbs::files::flush(&typed),
        Verb::Resident(typed) => verbs::files::resident(&typed),
        Verb::Archive(typed) => verbs::archive::run(&typed),
        Verb::Image(typed) => verbs::image::run(&typed),
        Verb::Cache(typed) => verbs::cache::run(&typed),
        Verb::Store(typed) => verbs::store::run(&typed),
        Verb::Ping(typed) => verbs::ping::run(&typed),
        Verb::Fleet(typed) => verbs::fleet::run(&typed, args.quiet),
        Verb::Frag(typed) => verbs::frag::run(&typed, args.quiet),
        Verb::Elf(typed) => verbs::elf::run(&typed, args.quiet),
        Verb::Doctor(typed) => verbs::doctor::run(&typed),
        Verb::Proxy(typed) => verbs::proxy::run(&typed),
        Verb::Presets(typed) => verbs::presets::run(&typed),
        Verb::Docs(typed) => verbs::docs::run(&typed),
        Verb::Completions(typed) => verbs::packaging::completions(&typed),
        Verb::Man(typed) => verbs::packaging::man(&typed),
    }
}

/// Help and version are answers; everything else is said as every other error is.
fn wrong_arguments(error: &clap::Error) -> ExitCode {
    // If help cannot be printed its reader went away (`thaw --help | head`).
    let exit = match error.kind() {
        ErrorKind::DisplayVersion if is_verbose() => return guarded(verbs::packaging::version),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.print().map_or(Exit::Done, |()| Exit::Done),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.print().map_or(Exit::Usage, |()| Exit::Usage),
        _ => {
            let typed: Vec<_> = std::env::args_os().collect();
            let hint = args::mistakes::hint(error, &typed);
            output::complain(&text::errors::usage(&error.render().to_string(), hint.as_deref()));
            Exit::Usage
        }
    };
    ExitCode::from(exit as u8)
}

/// Whether `--verbose` was typed: clap stops reading at `--version`.
fn is_verbose() -> bool {
    let typed =
        |word: String| word == "--verbose" || !word.starts_with("--") && word.starts_with('-') && word.contains('v');
    std::env::args_os().skip(1).filter_map(|word| word.into_string().ok()).any(typed)
}
