//! The changed copies of files, what each set of remedies starts with, and what stays of them.
//!
//! ```text
//! .DIR.thaw-PID/files/0          a copy of the first file that a remedy changes,
//!                    /0-pack     and what the remedy makes of it
//! .DIR.thaw-PID/pack+preload     of each set:
//!                    /thaw           the runner that reads ahead, on the same disk as the copies
//!                    /start.preload
//!                    /profile        a {profile} of its own
//!                    images/             see [`image`]
//! ```
//!
//! Every set starts the program as it was recorded, in a mount namespace in which its copies lie over the original
//! files. So the program finds everything where it belongs, wherever that is. Of each file, the original is measured as
//! a copy too: its place on the disk and its age are no part of the answer.

use super::plan::Plan;
use super::source::{Source, Wishes};
use super::{caches, folder, image};
use crate::needs::OfStart;
use crate::rundir::RunDir;
use crate::shell::command_line;
use crate::words::harmless;
use crate::{page, typed};
use bench::conduct::Host;
use bench::record::{Lab, LabOptions, Program};
use model::{CacheState, Error, Exit, Result, RunKind, shown};
use optimize::environment::{of_set, with_users};
use optimize::files::{self, Seen};
use optimize::manifest::{Built, Changed, Directory, Identity, Manifest, NAME};
use optimize::remedy::{Remedy, Set, name_of};
use os::covers::Pairs;
use os::journal::{Entry, Undo, hold};
use os::replace::{Existing, Rights, place_directory, write_whole};
use os::user::Choice;
use pack::{Options, Outcome, Target, pack_file};
use preload::manifest::Manifest as Reads;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The copies of files.
const FILES: &str = "files";
/// What `run` starts where files lie over others.
const THAW: &str = "thaw";
/// What mounts an image and becomes the program.
const STARTER: &str = "thaw-image";
/// The reader of the manifest.
const RUNNER: &str = "thaw-preload";
/// What it reads.
pub const PRELOAD: &str = "start.preload";
/// The image of the program's directory.
const IMAGE: &str = "start.image";
/// Where images lie while they are measured.
const IMAGES: &str = "images";

/// Whether what a set reads ahead is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// As a user starts it: also from the image, if there is one.
    Yes,
    /// The program alone, with changed copies over its files.
    No,
}

/// A file that a remedy changes, or a directory in which it builds a cache.
struct Original {
    path: PathBuf,
    by: Remedy,
    seen: Seen,
    /// What became of a directory.
    built: Vec<Built>,
}

/// All copies. Dropping it removes what did not become DIR.
pub struct Copies<'a> {
    /// The recorded program.
    pub source: &'a Source,
    /// What to do to it.
    pub plan: &'a Plan,
    /// The disk to measure on, as it is typed.
    pub disk: Option<String>,
    /// Read-ahead to measure with, KiB.
    pub read_ahead_kib: Option<u64>,
    /// Where they lie.
    pub work: PathBuf,
    originals: Vec<Original>,
    /// Sets that have a directory.
    sets: Vec<Set>,
    /// How often sets were measured.
    rounds: u32,
    rooms: Option<RunDir>,
    /// What is to be said of the copies.
    notes: Vec<String>,
    /// Whether images are tried.
    has_images: bool,
    _entry: Entry,
}

impl<'a> Copies<'a> {
    /// Makes room, and the copies.
    ///
    /// # Errors
    /// There is no room; something cannot be read or written; interrupted.
    pub fn begin(source: &'a Source, plan: &'a Plan, out: &Path, wishes: &Wishes) -> Result<Self> {
        let original = |(by, path): (Remedy, &Path)| {
            Ok(Original { path: path.to_owned(), by, seen: Seen::of(path)?, built: Vec::new() })
        };
        let originals = plan.changed().map(original).collect::<Result<Vec<_>>>()?;
        let (Some(beside), Some(name)) = (out.parent(), out.file_name()) else {
            return Err(Error::on(Exit::Usage, "this is no place for a directory:", out));
        };
        // Each file twice, and a little for recordings and runners.
        let size = |original: &Original| match original.by {
            Remedy::Caches => caches::size(&original.path),
            _ => original.seen.size,
        };
        let bytes: u64 = originals.iter().map(|original| size(original).0).sum();
        // Two of them at most are usual: of the directory as it is, and with all changed files.
        let images = plan.image.as_ref().map_or(0, |found| found.most().0).saturating_mul(2);
        let room = bytes.saturating_mul(2).saturating_add(images).saturating_add(64 << 20);
        files::check_room(beside, model::Bytes(room))?;
        let work = beside.join(format!(".{}.thaw-{}", name.to_string_lossy(), std::process::id()));
        let make = || {
            fs::create_dir(&work).and_then(|()| fs::create_dir(work.join(FILES))).map_err(|cause| {
                Error::on(Exit::Machine, "cannot make the directory", &work)
                    .because(cause)
                    .hint("choose another place: -o DIR")
            })
        };
        let entry = hold(Undo::RemoveTree { path: work.clone() }, make)?;
        let rooms = source.plan.needs_run_dir.then(|| RunDir::create(source.plan.user.as_ref())).transpose()?;
        let recorded = source.loaded.asked.readahead_kib.filter(|kib| *kib > 0);
        let read_ahead_kib = wishes.readahead.map(|size| size.0 / 1024).or(recorded);
        let disk = source.disk(wishes);
        let (sets, rounds) = (Vec::new(), 0);
        let (notes, has_images) = (Vec::new(), false);
        let mut copies = Self {
            source,
            plan,
            disk,
            read_ahead_kib,
            work,
            originals,
            sets,
            rounds,
            rooms,
            notes,
            has_images,
            _entry: entry,
        };
        copies.try_images()?;
        copies.fill()?;
        copies.build_caches()?;
        Ok(copies)
    }

    /// Whether images can be had here: that is found out before one is built.
    fn try_images(&mut self) -> Result<()> {
        if self.plan.image.is_none() {
            return Ok(());
        }
        let directory = self.work.join(IMAGES);
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write in", &directory).because(cause);
        fs::create_dir(&directory).map_err(cannot)?;
        match image::try_out(&directory, &self.user()) {
            Ok(()) => {
                fs::copy(starter()?, directory.join(STARTER)).map_err(cannot)?;
                self.has_images = true;
                Ok(())
            }
            Err(error) if error.exit == Exit::Interrupted => Err(error),
            Err(error) => {
                self.notes.push(format!("no image is tried: {error}"));
                Ok(())
            }
        }
    }

    /// Whom the program runs as.
    pub(super) fn user(&self) -> Choice {
        let user = self.source.recorded.user.as_ref();
        user.map_or(Choice::Same, |user| Choice::Named(user.uid.to_string()))
    }

    /// The simulated disk, if it is one.
    pub(super) fn simulated(&self) -> Option<&str> {
        self.disk.as_deref().filter(|disk| !disk.starts_with("throttle:"))
    }

    /// The image for a set; `None`: it has none.
    pub(super) fn image(&self, set: &Set) -> Option<PathBuf> {
        let held = self.held(set).map(|(_, original)| original.by).collect::<Set>();
        let name = format!("{}.image", name_of(&held));
        set.contains(&Remedy::Image).then(|| self.work.join(IMAGES).join(name))
    }

    /// Changed files that the image for a set holds.
    fn held(&self, set: &Set) -> impl Iterator<Item = (usize, &Original)> {
        let set = set.clone();
        let is_held = move |original: &Original| set.contains(&original.by) && self.is_in_image(&original.path);
        self.originals.iter().enumerate().filter(move |(_, original)| is_held(original))
    }

    fn is_in_image(&self, path: &Path) -> bool {
        self.plan.image.as_ref().is_some_and(|found| found.has(path))
    }

    /// Builds the image for a set, of what its starts needed with copies over the files.
    ///
    /// # Errors
    /// The directory was changed meanwhile; no room.
    pub fn build_image(&self, set: &Set, starts: Vec<OfStart>) -> Result<()> {
        let (Some(found), Some(path)) = (&self.plan.image, self.image(set)) else { return Ok(()) };
        if path.exists() {
            return Ok(());
        }
        let copies: Vec<_> = self
            .held(set)
            .map(|(number, original)| (self.copy(number, Some(original.by)), original.path.clone()))
            .collect();
        found.write(starts, &self.source.recording, &copies, &self.covers(set, Ahead::No), &path)
    }

    /// Makes both copies of every file that a remedy changes.
    fn fill(&self) -> Result<()> {
        for (number, original) in self.originals.iter().enumerate() {
            os::interrupt::check()?;
            let path = &original.path;
            os::tree::copy(path, &self.copy(number, None))?;
            if original.by == Remedy::Caches {
                os::tree::copy(path, &self.copy(number, Some(original.by)))?;
                continue;
            }
            let changed = self.copy(number, Some(original.by));
            let archive = self.plan.archives.iter().find(|archive| archive.path == *path);
            match archive.filter(|_| original.by == Remedy::Archive) {
                Some(archive) => {
                    os::tree::copy(path, &changed)?;
                    archive.write(&changed)?;
                }
                None => match pack_file(path, &Target::Copy(changed), &Options::default())? {
                    Outcome::Packed(_) => {}
                    Outcome::Refused(refusal) => {
                        return Err(Error::on(Exit::Data, "cannot pack the copy of", path).because(refusal.to_string()));
                    }
                },
            }
        }
        let directory = self.work.join(FILES);
        let synced = fs::File::open(&directory).and_then(|open| Ok(rustix::fs::syncfs(open)?));
        synced.map_err(|cause| Error::on(Exit::Machine, "cannot write", &directory).because(cause))
    }

    /// Builds caches in the copies of their directories. Where that brings no other file, or goes wrong, the original
    /// stays.
    fn build_caches(&mut self) -> Result<()> {
        let mut originals = std::mem::take(&mut self.originals);
        let mut left = Vec::new();
        for (number, original) in originals.iter_mut().enumerate().filter(|(_, it)| it.by == Remedy::Caches) {
            os::interrupt::check()?;
            let of_it = self.plan.caches.iter().find(|one| one.directory == original.path);
            let one = of_it.ok_or_else(|| Error::bug("a directory without a cache"))?;
            let (plain, changed) = (self.copy(number, None), self.copy(number, Some(original.by)));
            let why = match caches::build(self.source, one, &plain, &changed) {
                Ok(built) if !built.is_empty() => {
                    original.built = built;
                    continue;
                }
                Ok(_) => "it is fresh".to_owned(),
                Err(error) if error.exit == Exit::Interrupted => return Err(error),
                Err(error) => error.cause.as_ref().map_or_else(|| error.what.clone(), ToString::to_string),
            };
            let place = self.source.shown(&original.path);
            self.notes.push(format!("no cache of {} is built in {place} ({why})", one.kind.name()));
            left.push(number);
        }
        // Copies have the numbers of what stays.
        for number in left.into_iter().rev() {
            originals.remove(number);
            for by in [None, Some(Remedy::Caches)] {
                os::tree::remove(&self.copy(number, by))?;
                for (later, moves) in originals.iter().enumerate().skip(number) {
                    let by = by.map(|_| moves.by);
                    let moved = fs::rename(self.copy(later + 1, by), self.copy(later, by));
                    moved.map_err(|cause| Error::on(Exit::Machine, "cannot write in", &self.work).because(cause))?;
                }
            }
        }
        self.originals = originals;
        Ok(())
    }

    /// What was planned and can be measured.
    pub fn remedies(&self) -> Vec<Remedy> {
        let has_copy = |remedy: &Remedy| self.originals.iter().any(|original| original.by == *remedy);
        let planned = self.plan.remedies.iter().copied();
        let is_there = |remedy: &Remedy| match remedy {
            Remedy::Caches => has_copy(remedy),
            Remedy::Image => self.has_images,
            _ => true,
        };
        planned.filter(is_there).collect()
    }

    /// What is to be said of the copies.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The copy of a file, as it is or as a remedy makes it.
    fn copy(&self, number: usize, by: Option<Remedy>) -> PathBuf {
        self.work.join(copy_name(number, by))
    }

    /// What lies over the originals for a set, and where. What is in an image is not covered again.
    pub(super) fn covers(&self, set: &Set, ahead: Ahead) -> Pairs {
        let has_image = ahead == Ahead::Yes && set.contains(&Remedy::Image);
        let cover = |(number, original): (usize, &Original)| {
            let by = Some(original.by).filter(|by| set.contains(by));
            (self.copy(number, by), original.path.clone())
        };
        let is_covered = |(_, original): &(usize, &Original)| !has_image || !self.is_in_image(&original.path);
        self.originals.iter().enumerate().filter(is_covered).map(cover).collect()
    }

    /// What belongs to a set alone.
    pub(super) fn directory(&self, set: &Set) -> PathBuf {
        self.work.join(folder(set))
    }

    /// Where files of the measured programs lie.
    pub fn directories(&self) -> Vec<PathBuf> {
        let images = self.has_images.then(|| self.work.join(IMAGES));
        self.sets.iter().map(|set| self.directory(set)).chain([self.work.join(FILES)]).chain(images).collect()
    }

    /// How often sets were measured.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Makes what belongs to a set alone. What it reads ahead is learnt later.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn add(&mut self, set: &Set) -> Result<()> {
        if self.sets.contains(set) {
            return Ok(());
        }
        let directory = self.directory(set);
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write in", &directory).because(cause);
        fs::create_dir(&directory).and_then(|()| fs::create_dir(directory.join("profile"))).map_err(cannot)?;
        if set.contains(&Remedy::Preload) {
            fs::copy(preload::exec::runner()?, directory.join(RUNNER)).map_err(cannot)?;
        }
        self.sets.push(set.clone());
        Ok(())
    }

    /// A word of the recorded command line for a set: its own profile, the directories of this run.
    fn word(&self, set: &Set, word: &OsStr) -> OsString {
        let profile = replaced(word, b"{profile}", self.directory(set).join("profile").as_os_str().as_bytes());
        self.rooms.as_ref().map_or_else(|| profile.clone(), |rooms| rooms.fill(&profile))
    }

    /// The recorded program with the files of a set over its own.
    pub fn program(&self, set: &Set, ahead: Ahead) -> Program {
        let recorded = &self.source.recorded;
        let word = |word: &OsString| self.word(set, word);
        let mut argv = self.runner(set, ahead);
        // What mounts the image becomes the user's by itself.
        let has_image = ahead == Ahead::Yes && set.contains(&Remedy::Image);
        let user = recorded.user.clone().filter(|_| !has_image);
        argv.push(self.source.start.clone().into_os_string());
        argv.extend(recorded.argv.iter().skip(1).map(word));
        let mut env: Vec<(OsString, Option<OsString>)> =
            recorded.env.iter().map(|(name, value)| (name.clone(), value.as_ref().map(word))).collect();
        let users = |name: &str| match env.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => value.clone(),
            None => std::env::var_os(name),
        };
        let set_by_it = with_users(&of_set(set), users);
        env.extend(set_by_it.into_iter().map(|(name, value)| (name, Some(value))));
        Program {
            name: name_of(set),
            argv,
            env,
            restore: recorded.restore.iter().map(|path| self.word(set, path.as_os_str()).into()).collect(),
            covers: self.covers(set, ahead),
            user,
            ..recorded.clone()
        }
    }

    /// What a set starts the program with.
    fn runner(&self, set: &Set, ahead: Ahead) -> Vec<OsString> {
        let reads = (ahead == Ahead::Yes && set.contains(&Remedy::Preload)).then(|| self.directory(set).join(PRELOAD));
        let image = self.image(set).filter(|_| ahead == Ahead::Yes);
        let mut words: Vec<OsString> = match (image, reads) {
            (None, None) => return Vec::new(),
            (None, Some(reads)) => vec![self.directory(set).join(RUNNER).into(), reads.into()],
            (Some(image), reads) => {
                let mut words = vec![self.work.join(IMAGES).join(STARTER).into(), image.into()];
                // On a simulated disk the directory is a copy.
                words.extend(self.simulated().map(|_| "--copied".into()));
                words.extend(reads.into_iter().flat_map(|reads| ["--preload".into(), reads.into_os_string()]));
                let user = self.source.recorded.user.as_ref().map_or(0, |user| user.uid);
                words.extend(["--as".into(), user.to_string().into()]);
                words
            }
        };
        words.push("--".into());
        words
    }

    /// Starts the program with each set twice, which fills fresh profiles, and compares how it ends and, where that is
    /// always the same for the original, what it prints.
    ///
    /// # Errors
    /// With a set it does not do what it does without.
    pub fn check(&self, sets: &[Set], typed: Option<&str>, ahead: Ahead) -> Result<()> {
        let programs = sets.iter().map(|set| self.checked(set, typed, ahead)).collect::<Result<Vec<_>>>()?;
        let (mut lab, _) = Lab::open(
            programs.clone(),
            LabOptions { snapshot_dir: Some(os::journal::state_dir()?), ..LabOptions::default() },
        )?;
        let mut printed: Vec<[String; 2]> = Vec::new();
        for (index, set) in (0..).zip(sets) {
            let mut once = || {
                let outcome = lab.start(index, CacheState::Hot, RunKind::Warmup, None, &mut |_| {})?;
                match outcome.row.accepted {
                    true => Ok(outcome.output_tail.replace(&*shown(&self.directory(set)), "")),
                    false => {
                        let what = format!("with '{}' it does not start:", name_of(set));
                        let because = outcome.row.rejected_because.unwrap_or_else(|| "it failed".into());
                        let because = bench::conduct::with_tail(because, &outcome.output_tail);
                        Err(Error::new(Exit::Target, what, command_line(&programs[index as usize].argv))
                            .because(because))
                    }
                }
            };
            printed.push([once()?, once()?]);
        }
        lab.close();
        let Some([first, again]) = printed.first() else { return Ok(()) };
        let differs = |words: &&[String; 2]| words[1] != *again;
        match printed.iter().position(|words| first == again && differs(&words)) {
            None => Ok(()),
            Some(index) => {
                let what = format!("with '{}' it prints something else than without:", name_of(&sets[index]));
                Err(Error::new(Exit::Target, what, command_line(&programs[index].argv))
                    .because(printed[index][1].trim_end().to_owned()))
            }
        }
    }

    /// The program for a check of how it ends and what it prints, or what a command line says in its place.
    pub(super) fn checked(&self, set: &Set, typed: Option<&str>, ahead: Ahead) -> Result<Program> {
        let mut program = self.program(set, ahead);
        // What is put back would be as empty as it is.
        let of_user = self.source.recorded.restore.iter().filter(|path| !crate::rundir::is_needed_by(path.as_os_str()));
        program.restore = of_user.cloned().collect();
        if let Some(line) = typed {
            let words = typed::words(line).map_err(|why| Error::new(Exit::Usage, why, ""))?;
            let root = self.source.directory().as_os_str().as_bytes();
            let words = words.iter().map(|word| replaced(OsStr::new(word), b"{root}", root));
            program.argv = self.runner(set, ahead).into_iter().chain(words).collect();
            program.ready = vec![bench::ready::Ready::Exit];
        }
        Ok(program)
    }

    /// Nobody, we least of all, has changed the originals.
    ///
    /// # Errors
    /// One is another than before.
    pub fn check_untouched(&self) -> Result<()> {
        let is_changed = |original: &&Original| !Seen::of(&original.path).is_ok_and(|now| now == original.seen);
        let Some(original) = self.originals.iter().find(is_changed) else { return Ok(()) };
        Err(Error::on(Exit::Data, "the program was changed while its copies were measured:", &original.path)
            .hint("wait until it is installed, and begin again"))
    }

    /// The number of the next comparison, from 1, and where its recording goes.
    pub fn next_comparison(&mut self) -> (u32, PathBuf) {
        let (recording, _) = self.next_files();
        self.rounds += 1;
        (self.rounds, self.work.join(recording))
    }

    /// Names of the recording and the page of the next comparison.
    pub fn next_files(&self) -> (String, String) {
        files_of(self.rounds + 1)
    }

    /// Makes DIR of the set that is kept: with a script that starts the program so, the report, the recording and the
    /// manifest.
    ///
    /// # Errors
    /// Something cannot be written. DIR is as it was then.
    pub fn finish(&self, manifest: &mut Manifest, out: &Path) -> Result<()> {
        let last = self.work.join("result");
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write", out).because(cause);
        fs::create_dir(&last).map_err(cannot)?;
        if !manifest.kept.is_empty() {
            self.keep(manifest, &last, out)?;
        }
        for (recording, page) in (1..=self.rounds).map(files_of) {
            let comparison = self.work.join(&recording);
            let (html, _) = page::of_recording(&comparison, None, None)?;
            write_whole(&last.join(page), html.as_bytes(), Rights::Usual, Existing::Keep)?;
            fs::rename(&comparison, last.join(recording)).map_err(cannot)?;
        }
        write_whole(&last.join(NAME), &manifest.to_bytes()?, Rights::Usual, Existing::Keep)?;
        // An earlier result goes where the rest goes.
        place_directory(&last, out).map_err(cannot)
    }

    /// What starts the program with the kept set, in the directory that becomes DIR.
    fn keep(&self, manifest: &mut Manifest, last: &Path, out: &Path) -> Result<()> {
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write", last).because(cause);
        fs::create_dir(last.join(FILES)).map_err(cannot)?;
        for (number, original) in self.originals.iter().enumerate() {
            if !manifest.kept.contains(&original.by) {
                continue;
            }
            let identity = |path: &Path| {
                Identity::of(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))
            };
            let copy = copy_name(number, Some(original.by));
            if original.by == Remedy::Caches {
                fs::rename(self.work.join(&copy), last.join(&copy)).map_err(cannot)?;
                let (path, mtime_ns, files) = (original.path.clone(), original.seen.mtime_ns, original.built.clone());
                manifest.directories.push(Directory { path, copy, mtime_ns, files });
                continue;
            }
            let (before, after) = (identity(&original.path)?, identity(&self.work.join(&copy))?);
            fs::rename(self.work.join(&copy), last.join(&copy)).map_err(cannot)?;
            let (path, mtime_ns) = (original.path.clone(), Some(original.seen.mtime_ns));
            manifest.files.push(Changed { path, copy: Some(copy), by: original.by, before, after, mtime_ns });
        }
        if let (Some(image), Some(about)) = (self.image(&manifest.kept), &mut manifest.image) {
            fs::rename(image, last.join(IMAGE)).map_err(cannot)?;
            about.kept = Some(IMAGE.into());
        }
        // On the disk of what it reads.
        let own = std::env::current_exe().map_err(cannot)?;
        fs::copy(own, last.join(THAW)).map_err(cannot)?;
        if manifest.kept.contains(&Remedy::Preload) {
            let mut reads = Reads::read(&self.directory(&manifest.kept).join(PRELOAD))?;
            // Files of the profiles and homes that the sets were measured with are not there later.
            let of_measurement = |path: &Path| {
                path.starts_with(&self.work) || self.rooms.iter().any(|rooms| path.starts_with(rooms.path()))
            };
            reads.retain(|entry| entry.path.exists() && !of_measurement(&entry.path));
            reads.write(&last.join(PRELOAD), Existing::Keep)?;
            fs::copy(preload::exec::runner()?, last.join(RUNNER)).map_err(cannot)?;
        }
        // What is measured is the small programs, which know reads and images, but no copies and no variables.
        let has = |remedy: Remedy| manifest.kept.contains(&remedy);
        let is_small = manifest.kept.iter().all(|remedy| matches!(remedy, Remedy::Preload | Remedy::Image));
        let start = self.source.start.clone().into_os_string();
        let words: Vec<OsString> = match is_small {
            true if has(Remedy::Image) => {
                fs::copy(starter()?, last.join(STARTER)).map_err(cannot)?;
                let reads = has(Remedy::Preload).then(|| ["--preload".into(), out.join(PRELOAD).into_os_string()]);
                let mut words = vec![out.join(STARTER).into(), out.join(IMAGE).into()];
                words.extend(reads.into_iter().flatten());
                words.extend(["--".into(), start]);
                words
            }
            true => vec![out.join(RUNNER).into(), out.join(PRELOAD).into(), "--".into(), start],
            false => vec![out.join(THAW).into(), "optimize".into(), "--run".into(), out.into(), "--".into()],
        };
        let run = last.join("run");
        let text = format!(
            "#!/bin/sh\n# Starts {} with what `thaw optimize` found to help.\nexec {} \"$@\"\n",
            harmless(&shown(&self.source.start)),
            command_line(&words)
        );
        write_whole(&run, text.as_bytes(), Rights::Program, Existing::Keep)
    }
}

/// The small program that starts from an image.
fn starter() -> Result<PathBuf> {
    crate::own::beside(STARTER, "what starts from an image", "thawlab")
}

/// The name of a copy, as it is or as a remedy makes it.
fn copy_name(number: usize, by: Option<Remedy>) -> PathBuf {
    let suffix = by.map_or_else(String::new, |by| format!("-{by}"));
    Path::new(FILES).join(format!("{number}{suffix}"))
}

/// Names of the recording and the page of a round.
fn files_of(round: u32) -> (String, String) {
    let suffix = if round > 1 { format!("-{round}") } else { String::new() };
    (format!("comparison{suffix}.thaw"), format!("report{suffix}.html"))
}

/// A preload manifest whose files have moved with their directory.
pub fn moved(mut reads: Reads, from: &Path, to: &Path) -> Reads {
    for entry in &mut reads.files {
        entry.path = files::moved(&entry.path, from, to);
    }
    reads
}

/// A text with every occurrence of a placeholder replaced.
fn replaced(text: &OsStr, placeholder: &[u8], by: &[u8]) -> OsString {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(at) = rest.windows(placeholder.len()).position(|window| window == placeholder) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by);
        rest = &rest[at + placeholder.len()..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        let word = |text: &str| replaced(OsStr::new(text), b"{profile}", b"/p");
        assert_eq!(word("--user-data-dir={profile}"), "--user-data-dir=/p");
        assert_eq!(word("{profile}/a:{profile}"), "/p/a:/p");
        assert_eq!(word("{home}"), "{home}");
        assert_eq!(word(""), "");
    }
}
