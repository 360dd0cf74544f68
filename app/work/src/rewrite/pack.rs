//! Packing of one file, or of every ELF file below some directories.

use super::{Written, copy_to, written};
use elfstat::report::LeftOut;
use model::{Bytes, Error, Exit, Result, shown};
use os::replace::Existing;
use pack::{Options, Outcome, Packed, Reason, Target, Why, pack_file};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Where packed files go.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Nowhere: it is only said what would be done.
    Nowhere,
    /// In the place of each file.
    InPlace,
    /// This file or directory.
    To(&'a Path, Existing),
}

/// Packs; the exit code is [`Exit::No`] if nothing was packed, [`Exit::Data`] if the one file that was named is
/// damaged. Of many files `progress` is told how many are done, from several threads.
///
/// # Errors
/// A path that is not there; two files with one target; where one file was named, what [`pack_file`] says.
pub fn run(
    paths: &[PathBuf],
    place: Place<'_>,
    options: Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(PackDocument, Exit)> {
    let single = matches!(paths, [path] if !path.is_dir());
    if !single && options.debug_file.is_some() {
        return Err(Error::new(Exit::Usage, "--debug-file is for one file", "").hint("pack the files one by one"));
    }
    let (jobs, left_out) = jobs(paths, place, single)?;
    let mut worst = Exit::Done;
    let mut files = Vec::new();
    if single {
        for (path, target) in jobs {
            let outcome = pack_file(&path, &target, &options)?;
            files.push(ended(&path, &target, Ok(outcome)));
        }
    } else {
        for (path, target, outcome) in all(jobs, &options, progress) {
            if let Err(error) = &outcome
                && worst == Exit::Done
            {
                worst = error.exit;
            }
            files.push(ended(&path, &target, outcome));
        }
        if let Place::To(out, _) = place {
            remove_empty(out);
        }
    }
    let document = PackDocument {
        schema: "thaw.elf-pack/1",
        plan_only: matches!(place, Place::Nowhere),
        options,
        single,
        summary: summary(&files),
        files,
        left_out,
    };
    let exit = match worst {
        _ if document.left_out.interrupted || os::interrupt::requested() => Exit::Interrupted,
        Exit::Done if single && document.summary.refused.contains_key(&Reason::Damaged) => Exit::Data,
        Exit::Done if document.summary.packed == 0 => Exit::No,
        other => other,
    };
    Ok((document, exit))
}

type Job = (PathBuf, Target);

/// Which files there are, and where each one goes.
fn jobs(paths: &[PathBuf], place: Place<'_>, single: bool) -> Result<(Vec<Job>, LeftOut)> {
    let fixed = |file: &Path| match place {
        Place::Nowhere => Target::PlanOnly,
        Place::InPlace => Target::InPlace,
        // A single file may go into a directory, under its own name.
        Place::To(out, existing) if out.is_dir() => copy_to(out.join(file.file_name().unwrap_or_default()), existing),
        Place::To(out, existing) => copy_to(out.to_owned(), existing),
    };
    if single {
        return Ok((paths.iter().map(|path| (path.clone(), fixed(path))).collect(), LeftOut::default()));
    }
    let (files, left_out) = elfstat::list(paths);
    let Place::To(out, existing) = place else {
        return Ok((files.iter().map(|file| (file.clone(), fixed(file))).collect(), left_out));
    };
    if out.exists() && !out.is_dir() {
        return Err(Error::on(Exit::Usage, "several files need a directory, and this is none:", out));
    }
    let mut jobs = Vec::new();
    let mut taken = BTreeSet::new();
    for file in files {
        // The place below the directory that was named; a file that was named itself goes to the top.
        let below = paths.iter().filter(|path| path.is_dir()).find_map(|path| file.strip_prefix(path).ok());
        let target = out.join(below.unwrap_or(Path::new(file.file_name().unwrap_or_default())));
        if !taken.insert(target.clone()) {
            let error = Error::on(Exit::Usage, "two files would become", &target);
            return Err(error.hint("pack each directory into an output directory of its own"));
        }
        jobs.push((file, copy_to(target, existing)));
    }
    Ok((jobs, left_out))
}

/// Packs with several threads; the files come back in their order.
fn all(
    jobs: Vec<Job>,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<(PathBuf, Target, Result<Outcome>)> {
    let (done, of) = (AtomicU64::new(0), jobs.len() as u64);
    let pack = |(path, target): Job| {
        // What is not begun by now is left as it is.
        if os::interrupt::requested() {
            return (path, target, Err(Error::interrupted()));
        }
        let outcome = make_way(&target).and_then(|()| pack_file(&path, &target, options));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(done, of);
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
