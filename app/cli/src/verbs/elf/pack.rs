//! `thaw elf pack`: one file, or every ELF file below some directories.

use super::{Written, written};
use crate::args::elf::PackArgs;
use crate::progress::Progress;
use crate::{output, text};
use elfstat::report::LeftOut;
use model::{Bytes, Error, Exit, Result, shown};
use pack::{Home, Options, Outcome, Packed, Reason, Setuid, Target, Why, pack_file};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use work::progress::Tell;

/// `thaw.elf-pack/1`
#[derive(Serialize)]
pub struct PackDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Nothing was written: this is what would be done.
    pub plan_only: bool,
    /// Choices.
    pub options: Options,
    /// One file was named; it has its plan.
    #[serde(skip)]
    pub single: bool,
    /// Sums over all files.
    pub summary: Summary,
    /// Every file, by path.
    pub files: Vec<FileOutcome>,
    /// What was not looked at.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

/// How one file ended.
#[derive(Serialize)]
pub struct FileOutcome {
    /// The file.
    pub path: String,
    /// Where the packed file is. `None`: nothing was written.
    pub written: Option<Written>,
    /// Packed, refused, or an error.
    #[serde(flatten)]
    pub end: End,
}

/// How packing ended.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// With an answer.
    Outcome(Outcome),
    /// With an error: what failed.
    Failed(String),
}

/// Sums over all files.
#[derive(Default, Serialize)]
pub struct Summary {
    /// ELF files.
    pub files: u64,
    /// Packed ones, and their bytes before and after.
    pub packed: u64,
    /// Bytes of the packed ones before.
    pub size_before: Bytes,
    /// Bytes of the packed ones after.
    pub size_after: Bytes,
    /// Bytes that became free inside of files that do not shrink.
    pub freed: Bytes,
    /// Relative relocations of the packed files before.
    pub relative: u64,
    /// Of these, packed.
    pub relocations_packed: u64,
    /// Of these, kept, by why.
    pub kept: BTreeMap<Why, u64>,
    /// Bytes of the tables before.
    pub tables_before: Bytes,
    /// Bytes of the tables after, packed ones included.
    pub tables_after: Bytes,
    /// Files that were refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Files that failed.
    pub failed: u64,
}

/// Packs; [`Exit::No`] if nothing was packed, [`Exit::Data`] if the one file that was named is damaged.
///
/// # Errors
/// A path that is not there; two files with one target; where one file was named, what [`pack_file`] says.
pub fn run(args: &PackArgs, quiet: bool) -> Result<Exit> {
    super::all_there(&args.paths)?;
    super::all_there(args.root.as_slice())?;
    os::interrupt::install()?;
    let options = options(args)?;
    let single = matches!(args.paths.as_slice(), [path] if !path.is_dir());
    if !single && args.debug_file.is_some() {
        return Err(Error::new(Exit::Usage, "--debug-file is for one file", "").hint("pack the files one by one"));
    }
    let (jobs, left_out) = jobs(args, single)?;
    let mut worst = Exit::Done;
    let mut files = Vec::new();
    if single {
        for (path, target) in jobs {
            let outcome = pack_file(&path, &target, &options)?;
            files.push(ended(&path, &target, Ok(outcome)));
        }
    } else {
        for (path, target, outcome) in all(jobs, &options, quiet) {
            if let Err(error) = &outcome
                && worst == Exit::Done
            {
                worst = error.exit;
            }
            files.push(ended(&path, &target, outcome));
        }
        if let Some(out) = &args.output {
            remove_empty(out);
        }
    }
    let document = PackDocument {
        schema: "thaw.elf-pack/1",
        plan_only: args.plan,
        options,
        single,
        summary: summary(&files),
        files,
        left_out,
    };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::elf::pack(&document, args.rows.most(), text::width::of_terminal()))?;
    }
    Ok(match worst {
        _ if document.left_out.interrupted || os::interrupt::requested() => Exit::Interrupted,
        Exit::Done if single && document.summary.refused.contains_key(&Reason::Damaged) => Exit::Data,
        Exit::Done if document.summary.packed == 0 => Exit::No,
        other => other,
    })
}

fn options(args: &PackArgs) -> Result<Options> {
    Ok(Options {
        setuid: if args.setuid { Setuid::Pack } else { Setuid::Refuse },
        debug_file: args.debug_file.clone(),
        home: match (&args.home, &args.root) {
            (Some(home), _) => home.clone(),
            (None, Some(root)) => Home::Root(root.clone()),
            (None, None) => Home::default(),
        },
        ..super::options(&args.rewrite)?
    })
}

type Job = (PathBuf, Target);

/// Which files there are, and where each one goes.
fn jobs(args: &PackArgs, single: bool) -> Result<(Vec<Job>, LeftOut)> {
    let copy = |path| super::copy_to(path, args.force);
    let fixed = |file: &Path| match &args.output {
        None if args.plan => Target::PlanOnly,
        None => Target::InPlace,
        // A single file may go into a directory, under its own name.
        Some(out) if out.is_dir() => copy(out.join(file.file_name().unwrap_or_default())),
        Some(out) => copy(out.clone()),
    };
    if single {
        return Ok((args.paths.iter().map(|path| (path.clone(), fixed(path))).collect(), LeftOut::default()));
    }
    let (files, left_out) = elfstat::list(&args.paths);
    let Some(out) = &args.output else {
        return Ok((files.iter().map(|file| (file.clone(), fixed(file))).collect(), left_out));
    };
    if out.exists() && !out.is_dir() {
        return Err(Error::on(Exit::Usage, "several files need a directory, and this is none:", out));
    }
    let mut jobs = Vec::new();
    let mut taken = BTreeSet::new();
    for file in files {
        // The place below the directory that was named; a file that was named itself goes to the top.
        let below = args.paths.iter().filter(|path| path.is_dir()).find_map(|path| file.strip_prefix(path).ok());
        let target = out.join(below.unwrap_or(Path::new(file.file_name().unwrap_or_default())));
        if !taken.insert(target.clone()) {
            let error = Error::on(Exit::Usage, "two files would become", &target);
            return Err(error.hint("pack each directory into an output directory of its own"));
        }
        jobs.push((file, copy(target)));
    }
    Ok((jobs, left_out))
}

/// Packs with several threads; the files come back in their order.
fn all(jobs: Vec<Job>, options: &Options, quiet: bool) -> Vec<(PathBuf, Target, Result<Outcome>)> {
    let (done, of) = (AtomicU64::new(0), jobs.len() as u64);
    let progress = Mutex::new(Progress::new(quiet));
    let pack = |(path, target): Job| {
        // What is not begun by now is left as it is.
        if os::interrupt::requested() {
            return (path, target, Err(Error::interrupted()));
        }
        let outcome = make_way(&target).and_then(|()| pack_file(&path, &target, options));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).files(done, of, "packed or refused");
        (path, target, outcome)
    };
    os::threads::with_threads(|| jobs.into_par_iter().map(pack).collect())
}

/// The directory of a copy must be there.
fn make_way(target: &Target) -> Result<()> {
    let (Target::Copy(path) | Target::CopyOver(path)) = target else { return Ok(()) };
    let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .map_err(|error| Error::on(Exit::Machine, "cannot create the directory", directory).because(error))
}

/// Takes away directories in which nothing was written, because all of their files were refused.
fn remove_empty(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // Fails for those that are not empty, which is what is wanted.
    let _ = std::fs::remove_dir(directory);
}

fn ended(path: &Path, target: &Target, outcome: Result<Outcome>) -> FileOutcome {
    let packed = matches!(outcome, Ok(Outcome::Packed(_)));
    FileOutcome {
        path: shown(path),
        written: packed.then(|| written(target)).flatten(),
        end: match outcome {
            Ok(outcome) => End::Outcome(outcome),
            Err(error) => End::Failed(error.to_string()),
        },
    }
}

fn summary(files: &[FileOutcome]) -> Summary {
    let mut sum = Summary { files: files.len() as u64, ..Summary::default() };
    for file in files {
        match &file.end {
            End::Outcome(Outcome::Packed(packed)) => add(&mut sum, packed),
            End::Outcome(Outcome::Refused(refusal)) => *sum.refused.entry(refusal.reason).or_default() += 1,
            End::Failed(_) => sum.failed += 1,
        }
    }
    sum
}

fn add(sum: &mut Summary, packed: &Packed) {
    let relocations = &packed.relocations;
    sum.packed += 1;
    sum.size_before += packed.size_before;
    sum.size_after += packed.size_after;
    sum.freed += packed.freed;
    sum.relative += relocations.relative;
    sum.relocations_packed += relocations.packed;
    relocations.kept.iter().for_each(|kept| *sum.kept.entry(kept.why).or_default() += kept.count);
    sum.tables_before += relocations.table_before;
    sum.tables_after += relocations.table_after + relocations.relr;
}
