//! The copies: one of the original and one for each set of remedies, side by side in a directory that goes away, and the one that stays.
//!
//! ```text
//! .DIR.thaw-PID/original/tree            a copy of the program's directory
//! .DIR.thaw-PID/pack+preload/tree        one with both remedies,
//!                           /thaw        the runner that reads ahead, on the same disk as the program,
//!                           /start.preload
//!                           /profile     a {profile} of its own: programs remember where they were installed
//! ```
//!
//! Every copy is whole (files share blocks where the file system can): with hard links a file would have a name in each copy, the trace of
//! one copy would name it by another, and the state `app` would not evict it.

use super::folder;
use super::measure;
use super::plan::Plan;
use super::source::Source;
use crate::args::values;
use crate::document;
use crate::rundir::RunDir;
use crate::shell::command_line;
use crate::text;
use crate::verbs::preload::{needed, target};
use crate::verbs::view;
use bench::conduct::Host;
use bench::record::{Lab, LabOptions, Program};
use model::{CacheState, Error, Exit, Result, RunKind, shown};
use optimize::manifest::{Changed, Identity, Manifest, NAME};
use optimize::remedy::{Remedy, Set, name_of};
use optimize::tree::{self, Survey};
use os::journal::{Entry, Undo, hold};
use os::replace::{Existing, Rights, write_whole};
use pack::{Options, Outcome, Target, pack_file};
use preload::manifest::Manifest as Reads;
use preload::plan::Gap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The directory of the program inside of a copy.
pub const TREE: &str = "tree";
/// The reader of the manifest.
const RUNNER: &str = "thaw";
/// What it reads.
pub const PRELOAD: &str = "start.preload";

/// A copy.
pub struct Copy {
    /// What it has.
    pub set: Set,
    /// Where it lies.
    pub directory: PathBuf,
}

/// All of them. Dropping it removes what did not become DIR.
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
    all: Vec<Copy>,
    survey: Survey,
    /// How often copies were measured.
    rounds: u32,
    rooms: Option<RunDir>,
    _entry: Entry,
}

impl Copy {
    fn tree(&self) -> PathBuf {
        self.directory.join(TREE)
    }
}

impl<'a> Copies<'a> {
    /// Makes room, and the copy of the original.
    ///
    /// # Errors
    /// There is no room; something cannot be read or written; interrupted.
    pub fn begin(
        source: &'a Source,
        plan: &'a Plan,
        out: &Path,
        args: &crate::args::optimize::OptimizeArgs,
    ) -> Result<Self> {
        let survey = tree::survey(&source.root)?;
        let (Some(beside), Some(name)) = (out.parent(), out.file_name()) else {
            return Err(Error::on(Exit::Usage, "this is no place for a directory:", out));
        };
        // One for each set, one of the original, and a little for recordings and runners.
        let copies = 2 + optimize::choose::sets(&plan.remedies).len() as u64;
        tree::check_room(beside, model::Bytes(survey.bytes().0.saturating_mul(copies).saturating_add(64 << 20)))?;
        let work = beside.join(format!(".{}.thaw-{}", name.to_string_lossy(), std::process::id()));
        let make = || {
            fs::create_dir(&work).map_err(|cause| {
                Error::on(Exit::Machine, "cannot make the directory", &work)
                    .because(cause)
                    .hint("choose another place: -o DIR")
            })
        };
        let entry = hold(Undo::RemoveTree { path: work.clone() }, make)?;
        let rooms = source.plan.needs_run_dir.then(|| RunDir::create(source.plan.user.as_ref())).transpose()?;
        let recorded = source.loaded.asked.readahead_kib.filter(|kib| *kib > 0);
        let read_ahead_kib = args.readahead.map(|size| size.0 / 1024).or(recorded);
        let disk = source.disk(args);
        let mut copies =
            Self { source, plan, disk, read_ahead_kib, work, all: Vec::new(), survey, rounds: 0, rooms, _entry: entry };
        copies.add(&Set::new())?;
        Ok(copies)
    }

    /// All copies, the original first.
    pub fn all(&self) -> &[Copy] {
        &self.all
    }

    fn of(&self, set: &Set) -> Result<&Copy> {
        self.all
            .iter()
            .find(|copy| copy.set == *set)
            .ok_or_else(|| Error::bug(format!("there is no copy {}", name_of(set))))
    }

    /// Makes a copy with these remedies. What it reads ahead is learnt later.
    ///
    /// # Errors
    /// Something cannot be written; interrupted.
    pub fn add(&mut self, set: &Set) -> Result<()> {
        if self.all.iter().any(|copy| copy.set == *set) {
            return Ok(());
        }
        let copy = Copy { set: set.clone(), directory: self.work.join(folder(set)) };
        let cannot =
            |cause: std::io::Error| Error::on(Exit::Machine, "cannot write in", &copy.directory).because(cause);
        fs::create_dir(&copy.directory)
            .and_then(|()| fs::create_dir(copy.directory.join("profile")))
            .map_err(cannot)?;
        tree::copy(&self.source.root, &self.survey, &copy.tree())?;
        if set.contains(&Remedy::Pack) {
            for path in &self.plan.pack {
                os::interrupt::check()?;
                let file = copy.tree().join(path);
                match pack_file(&self.source.root.join(path), &Target::CopyOver(file), &Options::default())? {
                    Outcome::Packed(_) => {}
                    Outcome::Refused(refusal) => {
                        return Err(Error::on(Exit::Data, "cannot pack the copy of", path).because(refusal.to_string()));
                    }
                }
            }
        }
        if set.contains(&Remedy::Archive) {
            for archive in &self.plan.archives {
                os::interrupt::check()?;
                archive.write(&self.source.root, &copy.tree().join(&archive.path))?;
            }
        }
        if set.contains(&Remedy::Preload) {
            let thaw = std::env::current_exe().map_err(cannot)?;
            fs::copy(thaw, copy.directory.join(RUNNER)).map_err(cannot)?;
        }
        self.all.push(copy);
        Ok(())
    }

    /// A word of the recorded command line for a copy: its own profile, the directories of this run, paths of the tree in the copy.
    fn word(&self, copy: &Copy, word: &OsStr) -> OsString {
        let profile = replaced(word, b"{profile}", copy.directory.join("profile").as_os_str().as_bytes());
        let filled = self.rooms.as_ref().map_or_else(|| profile.clone(), |rooms| rooms.fill(&profile));
        tree::moved(Path::new(&filled), &self.source.root, &copy.tree()).into_os_string()
    }

    /// The program of a copy and its arguments, without what reads ahead.
    fn plain(&self, copy: &Copy) -> Vec<OsString> {
        let program = copy.tree().join(&self.source.program).into_os_string();
        let arguments = self.source.recorded.argv.iter().skip(1).map(|word| self.word(copy, word));
        std::iter::once(program).chain(arguments).collect()
    }

    /// The command line that starts a copy as a user will.
    pub fn command(&self, copy: &Copy) -> Vec<OsString> {
        let mut words = Vec::new();
        if copy.set.contains(&Remedy::Preload) {
            words.push(copy.directory.join(RUNNER).into_os_string());
            words.extend(["preload".into(), "run".into(), copy.directory.join(PRELOAD).into_os_string(), "--".into()]);
        }
        words.extend(self.plain(copy));
        words
    }

    /// The options of `thaw record` for all copies: the recorded world with the directories of this run in it.
    pub fn world(&self) -> Vec<OsString> {
        let fill = |word: &OsStr| self.rooms.as_ref().map_or_else(|| word.to_owned(), |rooms| rooms.fill(word));
        let mut words: Vec<OsString> = self.source.world().iter().map(|word| fill(word)).collect();
        for directory in self.restored() {
            words.extend(["--restore".into(), directory.into_os_string()]);
        }
        words
    }

    /// Directories to put back before each run.
    fn restored(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::new();
        for copy in &self.all {
            for word in &self.source.recorded.restore {
                let path = PathBuf::from(self.word(copy, word.as_os_str()));
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
        all
    }

    /// Starts each copy twice, which fills fresh profiles, and compares how it ends and, where that is always the same for the original, what it prints.
    ///
    /// # Errors
    /// A copy does not do what the original does.
    pub fn check(&self, typed: Option<&str>) -> Result<()> {
        let mut programs = Vec::new();
        for copy in &self.all {
            programs.push(self.checked(copy, typed)?);
        }
        let (mut lab, _) = Lab::open(
            programs.clone(),
            LabOptions { snapshot_dir: Some(os::journal::state_dir()?), ..LabOptions::default() },
        )?;
        let mut printed: Vec<[String; 2]> = Vec::new();
        for (index, copy) in (0..).zip(&self.all) {
            let mut once = || {
                let outcome = lab.start(index, CacheState::Hot, RunKind::Warmup, None, &mut |_| {})?;
                match outcome.row.accepted {
                    true => Ok(outcome.output_tail.replace(&*shown(&copy.directory), "")),
                    false => {
                        let what = format!("the copy '{}' does not start:", name_of(&copy.set));
                        let because = outcome.row.rejected_because.unwrap_or_else(|| "it failed".into());
                        let because = crate::verbs::record::with_tail(because, &outcome.output_tail);
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
                let what =
                    format!("the copy '{}' prints something else than the original:", name_of(&self.all[index].set));
                Err(Error::new(Exit::Target, what, command_line(&programs[index].argv))
                    .because(printed[index][1].trim_end().to_owned()))
            }
        }
    }

    fn checked(&self, copy: &Copy, typed: Option<&str>) -> Result<Program> {
        let recorded = &self.source.recorded;
        let argv = match typed {
            None => self.plain(copy),
            Some(line) => {
                let words = values::words(line).map_err(|why| Error::new(Exit::Usage, why, ""))?;
                let root = copy.tree();
                words.iter().map(|word| replaced(OsStr::new(word), b"{root}", root.as_os_str().as_bytes())).collect()
            }
        };
        // What is put back would be as empty as it is.
        let of_user = recorded.restore.iter().filter(|path| !crate::rundir::is_needed_by(path.as_os_str()));
        let mut program =
            Program { argv, restore: of_user.cloned().collect(), name: name_of(&copy.set), ..recorded.clone() };
        if typed.is_some() {
            program.ready = vec![bench::ready::Ready::Exit];
        }
        for (_, value) in &mut program.env {
            *value = value.take().map(|value| self.word(copy, &value));
        }
        Ok(program)
    }

    /// Learns what the starts of copies need, and writes what they read ahead.
    ///
    /// # Errors
    /// A start fails, or starts another program than the copy.
    pub fn learn(&self, sets: &[&Set], quiet: bool) -> Result<()> {
        if sets.is_empty() {
            return Ok(());
        }
        let recording = self.work.join("needed.thaw");
        let copies = sets.iter().map(|set| self.of(set)).collect::<Result<Vec<_>>>()?;
        let commands: Vec<_> = copies.iter().map(|copy| (name_of(&copy.set), self.plain(copy))).collect();
        measure::learn(self, &recording, &commands, quiet)?;
        for copy in copies {
            let needed = needed::of(std::slice::from_ref(&recording), Some(&name_of(&copy.set)))?;
            let (wanted, _) = preload::make::look(needed.files);
            let tree = copy.tree();
            if !wanted.iter().any(|file| file.entry.path.starts_with(&tree)) {
                return Err(Error::on(Exit::Target, "a start of the copy reads nothing of it:", &tree)
                    .because("it starts a program elsewhere")
                    .hint("--root DIR names the directory of the program itself, not that of its launch script"));
            }
            let disk = &self.plan.disk;
            let about = target::about(shown(&self.source.recording), needed.source, disk);
            let plan = target::plan(wanted, Gap::Fastest, target::order(disk), disk, about);
            plan.manifest.write(&copy.directory.join(PRELOAD), Existing::Keep)?;
        }
        Ok(())
    }

    /// Nobody, we least of all, has changed the original.
    ///
    /// # Errors
    /// It is another one than before.
    pub fn check_untouched(&self) -> Result<()> {
        if tree::survey(&self.source.root)? == self.survey {
            return Ok(());
        }
        Err(Error::on(Exit::Data, "the program was changed while its copies were measured:", &self.source.root)
            .hint("wait until it is installed, and begin again"))
    }

    /// Where the recording of the next comparison goes.
    pub fn next_comparison(&mut self) -> PathBuf {
        let (recording, _) = self.next_files();
        self.rounds += 1;
        self.work.join(recording)
    }

    /// Names of the recording and the page of the next comparison.
    pub fn next_files(&self) -> (String, String) {
        files(self.rounds + 1)
    }

    /// Makes DIR of the copy that is kept: with a script that starts it, the report, the recording and the manifest.
    ///
    /// # Errors
    /// Something cannot be written. DIR is as it was then.
    pub fn finish(&self, manifest: &mut Manifest, out: &Path) -> Result<()> {
        let privileged = self.survey.privileged();
        for path in &privileged {
            manifest.notes.push(format!("{} was copied without the right to run as its owner", shown(path)));
        }
        let last = match manifest.kept.is_empty() {
            // Nothing to start, but something to read.
            true => {
                let directory = self.work.join("nothing");
                fs::create_dir(&directory)
                    .map_err(|cause| Error::on(Exit::Machine, "cannot write in", &self.work).because(cause))?;
                directory
            }
            false => self.keep(manifest, out)?,
        };
        let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write", out).because(cause);
        for (recording, page) in (1..=self.rounds).map(files) {
            let comparison = self.work.join(&recording);
            view::write(&comparison, &document::report(&comparison)?, None, &last.join(page), Existing::Keep)?;
            fs::rename(&comparison, last.join(recording)).map_err(cannot)?;
        }
        write_whole(&last.join(NAME), &manifest.to_bytes()?, Rights::Usual, Existing::Keep)?;
        let directory = fs::File::open(&last).map_err(cannot)?;
        rustix::fs::syncfs(&directory).map_err(|cause| cannot(cause.into()))?;
        let is_full = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
        // An earlier result goes where the rest goes.
        let placed = if is_full {
            rustix::fs::renameat_with(here, &last, here, out, flags).map_err(Into::into)
        } else {
            fs::rename(&last, out)
        };
        placed.and_then(|()| fs::File::open(out.parent().unwrap_or(Path::new("/")))?.sync_all()).map_err(cannot)
    }

    /// The kept copy, ready to be moved to DIR.
    fn keep(&self, manifest: &mut Manifest, out: &Path) -> Result<PathBuf> {
        let copy = self.of(&manifest.kept)?;
        let cannot = |path: &Path, cause: std::io::Error| Error::on(Exit::Machine, "cannot write", path).because(cause);
        let profile = copy.directory.join("profile");
        fs::remove_dir_all(&profile).map_err(|cause| cannot(&profile, cause))?;
        let packed = self.plan.pack.iter().map(|path| (Remedy::Pack, path));
        let reordered = self.plan.archives.iter().map(|archive| (Remedy::Archive, &archive.path));
        for (by, path) in packed.chain(reordered).filter(|(by, _)| manifest.kept.contains(by)) {
            let identity = |path: PathBuf| {
                Identity::of(&path).map_err(|cause| Error::on(Exit::Machine, "cannot read", &path).because(cause))
            };
            let (before, after) = (identity(self.source.root.join(path))?, identity(copy.tree().join(path))?);
            manifest.files.push(Changed { path: path.clone(), by, before, after });
        }
        let mut words = vec![out.join(TREE).join(&self.source.program).into_os_string()];
        if manifest.kept.contains(&Remedy::Preload) {
            let place = copy.directory.join(PRELOAD);
            let mut reads = Reads::read(&place)?;
            // Files of the profiles and homes that the copies were measured with are not there later.
            let of_measurement = |path: &Path| self.rooms.iter().any(|rooms| path.starts_with(rooms.path()));
            reads.retain(|entry| entry.path.exists() && !of_measurement(&entry.path));
            moved(reads, &copy.directory, out).write(&place, Existing::Replace)?;
            let reader = [
                out.join(RUNNER).into_os_string(),
                "preload".into(),
                "run".into(),
                out.join(PRELOAD).into_os_string(),
                "--".into(),
            ];
            words.splice(0..0, reader);
        }
        let run = copy.directory.join("run");
        let text = format!(
            "#!/bin/sh\n# Starts the copy that `thaw optimize` made of {}.\nexec {} \"$@\"\n",
            text::harmless(&shown(&self.source.root)),
            command_line(&words)
        );
        write_whole(&run, text.as_bytes(), Rights::Program, Existing::Keep)?;
        Ok(copy.directory.clone())
    }
}

/// Names of the recording and the page of a round.
fn files(round: u32) -> (String, String) {
    let suffix = if round > 1 { format!("-{round}") } else { String::new() };
    (format!("comparison{suffix}.thaw"), format!("report{suffix}.html"))
}

/// A preload manifest whose files have moved with their directory.
pub fn moved(mut reads: Reads, from: &Path, to: &Path) -> Reads {
    for entry in &mut reads.files {
        entry.path = tree::moved(&entry.path, from, to);
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
