//! `thaw elf`: looks into programs and libraries, and rewrites them.

use crate::args::elf::{
    Backend, ElfArgs, ElfVerb, FixRelrArgs, PackArgs, RestoreArgs, RewriteArgs, SectionType, SortKey as Key, StatArgs,
    VerifyArgs,
};
use crate::progress::Progress;
use crate::{output, text};
use ::pack::passes::{Later, Pass};
use ::pack::{BuildId, Copies, Fixed, Home, Options, Passes, Setuid, Space, Target};
use model::{Exit, Result};
use std::sync::Mutex;
use work::progress::Tell;
use work::rewrite::pack::Place;
use work::rewrite::restore::Which;
use work::rewrite::stat::SortKey;
use work::rewrite::verify::How;
use work::rewrite::{self, all_there, copy_to};

/// Does what was typed.
///
/// # Errors
/// See each verb.
pub fn run(args: &ElfArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        ElfVerb::Stat(args) => stat(args, quiet),
        ElfVerb::Pack(args) => pack(args, quiet),
        ElfVerb::Restore(args) => restore(args),
        ElfVerb::FixRelr(args) => fix_relr(args),
        ElfVerb::Verify(args) => verify(args),
    }
}

/// Shows how many files are done; told from several threads.
fn files(quiet: bool, what: &'static str) -> impl Fn(u64, u64) + Sync {
    let progress = Mutex::new(Progress::new(quiet));
    move |done, of| progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).files(done, of, what)
}

fn stat(args: &StatArgs, quiet: bool) -> Result<Exit> {
    let sort = match args.sort {
        Key::Saved => SortKey::Saved,
        Key::Size => SortKey::Size,
        Key::Relocations => SortKey::Relocations,
        Key::Tables => SortKey::Tables,
        Key::Internal => SortKey::Internal,
        Key::Initializers => SortKey::Initializers,
        Key::Name => SortKey::Name,
    };
    let document = rewrite::stat::run(&args.paths, sort, &files(quiet, "looked at"))?;
    output::answer(args.json, &document, || text::elf::stat(&document, args.rows.most(), text::width::of_terminal()))?;
    Ok(if document.left_out.interrupted { Exit::Interrupted } else { Exit::Done })
}

fn pack(args: &PackArgs, quiet: bool) -> Result<Exit> {
    all_there(&args.paths)?;
    all_there(args.root.as_slice())?;
    os::interrupt::install()?;
    let options = Options {
        setuid: if args.setuid { Setuid::Pack } else { Setuid::Refuse },
        debug_file: args.debug_file.clone(),
        home: match (&args.home, &args.root) {
            (Some(home), _) => home.clone(),
            (None, Some(root)) => Home::Root(root.clone()),
            (None, None) => Home::default(),
        },
        ..options(&args.rewrite)?
    };
    let place = match &args.output {
        Some(out) => Place::To(out, args.force.existing()),
        None if args.plan => Place::Nowhere,
        None => Place::InPlace,
    };
    let (document, exit) = rewrite::pack::run(&args.paths, place, options, &files(quiet, "packed or refused"))?;
    output::answer(args.json, &document, || text::elf::pack(&document, args.rows.most(), text::width::of_terminal()))?;
    Ok(exit)
}

fn restore(args: &RestoreArgs) -> Result<Exit> {
    let document = rewrite::restore::run(if args.all { Which::All } else { Which::These(&args.paths) })?;
    output::answer(args.json, &document, || text::elf::restore(&document, text::width::of_terminal()))?;
    Ok(if document.left.is_empty() && !document.restored.is_empty() { Exit::Done } else { Exit::No })
}

fn fix_relr(args: &FixRelrArgs) -> Result<Exit> {
    let target = args.output.clone().map_or(Target::InPlace, |path| copy_to(path, args.force.existing()));
    let document = rewrite::fix_relr::run(&args.path, &target)?;
    output::answer(args.json, &document, || text::elf::fix_relr(&document, text::width::of_terminal()))?;
    Ok(if matches!(document.outcome, Fixed::Refused(_)) { Exit::No } else { Exit::Done })
}

fn verify(args: &VerifyArgs) -> Result<Exit> {
    let how = if args.live { How::Live } else { How::Offline };
    let document = rewrite::verify::run(&args.original, &args.packed, &options(&args.rewrite)?, how)?;
    output::answer(args.json, &document, || text::elf::verify(&document, text::width::of_terminal()))?;
    Ok(if document.agrees { Exit::Done } else { Exit::No })
}

/// What is rewritten, and how.
fn options(args: &RewriteArgs) -> Result<Options> {
    all_there(&args.closed_set)?;
    let passes = [
        (args.align_bss, Pass::AlignBss),
        (args.dynamic_first, Pass::DynamicFirst),
        (args.ctors, Pass::Ctors),
        (args.pure_virtual, Pass::PureVirtual),
        (args.symbolic, Pass::Symbolic),
    ];
    Ok(Options {
        backend: match args.backend {
            Backend::Relr => ::pack::Backend::Relr,
            Backend::Init => ::pack::Backend::Init,
        },
        space: match (args.punch_holes, args.no_shrink) {
            (true, _) => Space::Punch,
            (false, true) => Space::Keep,
            (false, false) => Space::Shrink,
        },
        build_id: if args.new_build_id { BuildId::New } else { BuildId::Keep },
        section_type: match args.section_type {
            SectionType::Relr => ::pack::SectionType::Relr,
            SectionType::Progbits => ::pack::SectionType::Progbits,
        },
        copies: if args.no_copies { Copies::Never } else { Copies::MayHappen },
        passes: Passes {
            wanted: passes.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, pass)| pass).collect(),
            closed_set: elfstat::list(&args.closed_set).0,
            later: if args.nothing_later { Later::Nothing } else { Later::Anything },
        },
        ..Options::default()
    })
}
