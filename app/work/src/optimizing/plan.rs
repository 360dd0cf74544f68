//! What may help a program, and what it would gain: the rooms are asked, `optimize::predict` does the sums.

use super::archives::{self, Found};
use super::source::{Source, Wishes};
use super::{caches, environment, image, owners};
use crate::shell::command_line;
use crate::words::units;
use crate::{needs, target};
use disk::model::Model;
use disk::simulate;
use layout::frag::FileLayout;
use model::{Bytes, CacheState, FileId, Nanos, Owner, Result, Served, TouchEngine, shown};
use optimize::caches::Lacking;
use optimize::choose::Measured;
use optimize::environment::{LEAST_CALLS, LEAST_FAULTS, candidates, of_remedy, of_set};
use optimize::files::{Candidate, Seen};
use optimize::manifest::{Advice, Imaged, ReadAhead, Tried};
use optimize::predict::{Change, Limit, Prediction, Preloaded, Start, predict};
use optimize::remedy::{Remedy, Set};
use pack::{Options, Outcome, Target, pack_file};
use preload::make::Recorded;
use preload::manifest::{About, Kind};
use preload::plan::{Gap, Piece, Wanted};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A smaller gain of putting files together is not worth a word.
const WORTH_A_WORD: f64 = 0.01;
/// A smaller gain is not worth linking a program again for.
const WORTH_A_LINK: f64 = 0.02;
/// Files that are named where there are more.
const NAMED: usize = 3;
/// A file that other programs may use too is changed only if it becomes this much smaller.
const WORTH: u64 = 64 << 10;

/// What to try.
pub struct Plan {
    /// The disk of the predictions.
    pub disk: Model,
    /// Remedies that change something.
    pub remedies: Vec<Remedy>,
    /// Files to pack.
    pub pack: Vec<PathBuf>,
    /// Archives to reorder.
    pub archives: Vec<Found>,
    /// Caches to build.
    pub caches: Vec<Lacking>,
    /// The image to build.
    pub image: Option<Box<image::Found>>,
    /// What is known of one that is not built.
    unbuilt: Option<Imaged>,
    /// What could be done beside these.
    pub advice: Vec<Advice>,
    /// What the user should know.
    pub notes: Vec<String>,
    start: Start,
    cut: BTreeMap<FileId, Vec<Range<u64>>>,
    /// What the recorded starts needed, of files that are still as recorded.
    wanted: Vec<Wanted>,
    reads: Option<ReadAhead>,
    changes: BTreeMap<Remedy, Vec<String>>,
    /// What the owners of the start say, where they were recorded.
    gains: Option<owners::Gains>,
    /// What no remedy of reads can beat.
    pub limit: Option<Limit>,
}

impl Plan {
    /// Looks at what the recorded start read.
    ///
    /// # Errors
    /// The disk is unknown; a file cannot be read.
    pub fn of(source: &Source, wishes: &Wishes) -> Result<Self> {
        let needed = needs::of(std::slice::from_ref(&source.recording), Some(&source.variant))?;
        let files = needed.files.iter().map(|file| &*file.path);
        let disk = target::disk(source.disk(wishes).as_deref(), &needed, files)?;
        let start = Start::of(&source.rows, source.length, source.state);
        let starts = needed.starts;
        let (wanted, _) = preload::make::look(in_state(source, needed.files));
        let mut plan = Self {
            disk,
            remedies: Vec::new(),
            pack: Vec::new(),
            archives: Vec::new(),
            caches: Vec::new(),
            image: None,
            unbuilt: None,
            advice: Vec::new(),
            notes: Vec::new(),
            start,
            cut: BTreeMap::new(),
            wanted,
            reads: None,
            changes: BTreeMap::new(),
            gains: owners::gains(source)?,
            limit: None,
        };
        if source.rows.blocks.is_empty() {
            plan.notes.push(
                "the recording has no requests, so that nothing can be predicted; as root, thaw traces them".into(),
            );
        }
        plan.packable(source)?;
        plan.archives(source)?;
        plan.lacking(source);
        plan.environment(source)?;
        plan.image(source)?;
        plan.read_ahead(starts);
        plan.relinking(source);
        plan.scattered(source)?;
        plan.name_packages();
        Ok(plan)
    }

    /// Files that a remedy changes, directories in which it builds caches, and which remedy.
    pub fn changed(&self) -> impl Iterator<Item = (Remedy, &Path)> {
        let packed = self.pack.iter().map(|path| (Remedy::Pack, &**path));
        let archives = self.archives.iter().map(|archive| (Remedy::Archive, &*archive.path));
        packed.chain(archives).chain(self.caches.iter().map(|one| (Remedy::Caches, &*one.directory)))
    }

    /// What is known of an image of the program's directory.
    pub fn imaged(&self) -> Option<Imaged> {
        self.image.as_ref().map(|found| found.about.clone()).or_else(|| self.unbuilt.clone())
    }

    /// Leaves only remedies that change no file.
    pub fn without_changed_files(&mut self, why: &str) {
        if self.changed().next().is_none() && self.image.is_none() {
            return;
        }
        self.notes.push(format!("not tried, because {why}: {}", named_remedies(&self.remedies)));
        self.remedies.retain(|remedy| !remedy.changes_files());
        self.pack.clear();
        self.archives.clear();
        self.caches.clear();
        self.unbuilt = self.image.take().map(|found| found.about);
    }

    /// Says what becomes of changes when packages are upgraded.
    fn name_packages(&mut self) {
        let paths: Vec<&Path> = self.changed().map(|(_, path)| path).collect();
        let packages: Vec<String> = optimize::packages::of(&paths).into_iter().collect();
        if !packages.is_empty() {
            let named = named(&packages);
            self.notes.push(format!(
                "some of the files belong to packages ({named}): --apply changes them for every program that uses \
                 them, and an upgrade replaces what it changed"
            ));
        }
    }

    /// ELF files that the start read and that can be packed.
    fn packable(&mut self, source: &Source) -> Result<()> {
        let options = Options::default();
        let (mut changes, mut refused) = (Vec::new(), BTreeMap::<pack::Reason, Vec<String>>::new());
        for Candidate { id, path, is_own } in &source.candidates {
            os::interrupt::check()?;
            let is_elf = source.rows.sections.iter().any(|section| section.file == *id) || *path == source.program;
            if !is_elf || Seen::of(path)?.is_privileged(path) {
                continue;
            }
            match pack_file(path, &Target::PlanOnly, &options)? {
                // A copy could be packed, but --apply could not put it in their place.
                Outcome::Packed(_) if path.symlink_metadata().is_ok_and(|about| pack::has_other_names(&about)) => {
                    if *is_own || *path == source.program {
                        refused.entry(pack::Reason::HardLinks).or_default().push(source.shown(path));
                    }
                }
                Outcome::Packed(packed) => {
                    let gone = packed.size_before.0.saturating_sub(packed.size_after.0);
                    if !is_own && gone < WORTH {
                        continue;
                    }
                    changes.push(format!(
                        "{}: {} -> {}",
                        source.shown(path),
                        units::bytes(packed.size_before),
                        units::bytes(packed.size_after)
                    ));
                    self.cut.insert(*id, tables(path, gone));
                    self.pack.push(path.clone());
                }
                // What others use too is not asked about.
                Outcome::Refused(_) if !is_own && *path != source.program => {}
                Outcome::Refused(refusal) => refused.entry(refusal.reason).or_default().push(source.shown(path)),
            }
        }
        // What holds nothing that could be packed is no news.
        let is_news = |reason: &pack::Reason| !matches!(reason, pack::Reason::NothingToPack | pack::Reason::NoGain);
        for (reason, files) in refused.into_iter().filter(|(reason, _)| is_news(reason)) {
            let named = named(&files);
            self.notes.push(format!("not packed ({}; `thaw elf pack --plan` says more): {named}", reason.name()));
        }
        if !self.pack.is_empty() {
            self.remedies.push(Remedy::Pack);
            self.changes.insert(Remedy::Pack, changes);
        }
        Ok(())
    }

    /// Archives that the start read and whose entries are not in the order of use.
    fn archives(&mut self, source: &Source) -> Result<()> {
        let gain = |change: &Change| self.gain(source, change).map(|predicted| predicted.ratio);
        let survey = archives::survey(source, &self.disk, &gain)?;
        for (reason, files) in &survey.left_alone {
            self.notes.push(format!("not reordered ({reason}): {}", named(files)));
        }
        self.notes.extend(survey.doubts.iter().map(|doubt| format!("archives: {doubt}")));
        self.archives = survey.found;
        if !self.archives.is_empty() {
            self.remedies.push(Remedy::Archive);
            self.changes.insert(Remedy::Archive, survey.changes);
        }
        Ok(())
    }

    /// Caches that the start lacks: it read many files in their place.
    fn lacking(&mut self, source: &Source) {
        let (found, notes) = caches::survey(source);
        self.notes.extend(notes);
        let change = |one: &Lacking| {
            let read = units::plural(one.read as u64, "file", "files");
            let (name, directory) = (one.kind.name(), source.shown(&one.directory));
            format!(
                "{name}: a cache in {directory} by {}; the start read {read} of them",
                shown(Path::new(&one.command[0]))
            )
        };
        if !found.is_empty() {
            self.remedies.push(Remedy::Caches);
            self.changes.insert(Remedy::Caches, found.iter().map(change).collect());
        }
        self.caches = found;
    }

    /// Variables of the environment that can do something for this program.
    fn environment(&mut self, source: &Source) -> Result<()> {
        let mut about = environment::about(source)?;
        if self.gains.is_some() {
            // What is worth a try is then for the owners to say.
            about.faults = about.faults.max(LEAST_FAULTS);
            about.lazy_calls = if about.lazy_calls > 0 { about.lazy_calls.max(LEAST_CALLS) } else { 0 };
        }
        let (found, notes) = candidates(&about);
        self.notes.extend(notes);
        for remedy in found {
            let gain = self.gains.as_ref().map(|gains| gains.of(remedy));
            if gain == Some(Nanos(0)) {
                self.notes.push(format!("not tried (the owners of the start say that it gains nothing): {remedy}"));
                continue;
            }
            let why = match remedy {
                _ if let Some(gain) = gain => format!("the owners of the start say that it gains at most {gain}"),
                Remedy::BindNow => format!("its files bind {} at first calls", units::count(about.lazy_calls)),
                _ => format!("a start is given {} pages of memory", units::count(about.faults)),
            };
            let sets = of_remedy(remedy).map(|it| format!("sets {}={}; {why}", it.name, it.value));
            self.remedies.push(remedy);
            self.changes.insert(remedy, sets.into_iter().collect());
        }
        Ok(())
    }

    /// An image of the program's directory.
    fn image(&mut self, source: &Source) -> Result<()> {
        let gain = |change: &Change| self.gain(source, change);
        let caches: Vec<&Path> = self.caches.iter().map(|one| &*one.directory).collect();
        match image::survey(source, &self.disk, &caches, &gain)? {
            image::Survey::Nothing => {}
            image::Survey::Not(why, about) => {
                self.notes.push(format!("no image is tried: {why}"));
                self.unbuilt = about.map(|about| *about);
            }
            image::Survey::Found(found, change) => {
                self.image = Some(found);
                self.remedies.push(Remedy::Image);
                self.changes.insert(Remedy::Image, vec![change]);
            }
        }
        Ok(())
    }

    /// Own files that the start read and that lie in pieces: a copy would lie elsewhere, so that it could not show what
    /// is gained.
    fn scattered(&mut self, source: &Source) -> Result<()> {
        let is_read = |id: FileId| {
            let serves = |block: &model::BlockRow| matches!(block.served, Served::File(file, _) if file == id);
            source.rows.blocks.is_empty() || self.start.blocks.iter().any(serves)
        };
        let files: Vec<(FileId, PathBuf)> =
            source.own().filter(|it| is_read(it.id)).map(|it| (it.id, it.path.clone())).collect();
        let paths: Vec<PathBuf> = files.iter().map(|(_, path)| path.clone()).collect();
        let survey = layout::frag::measure(&paths, &|_| Nanos(0), &|_| ());
        os::interrupt::check()?;
        let scattered: Vec<&FileLayout> = survey.files.iter().filter(|file| file.pieces > 1).collect();
        let looked_at = units::plural(survey.summary.files, "file", "files");
        if scattered.is_empty() {
            if survey.summary.files > 0 {
                self.notes.push(format!("in one piece each: {looked_at} of its own that the start reads"));
            }
            return Ok(());
        }
        let joined = files.iter().filter(|(_, path)| scattered.iter().any(|file| file.path == *path));
        let change = Change { joined: joined.map(|(id, _)| *id).collect(), ..Change::default() };
        let predicted = self.gain(source, &change);
        let below = |file: &&FileLayout| format!("{} in {}", source.shown(&file.path), file.pieces);
        let named = named(&scattered.iter().map(below).collect::<Vec<_>>());
        let what = format!("in pieces: {} of {looked_at} of its own that the start reads ({named})", scattered.len());
        if predicted.is_some_and(|gain| gain.ratio > 1.0 - WORTH_A_WORD) {
            self.notes.push(format!("{what}; no gain predicted from putting them together"));
            return Ok(());
        }
        let mut words: Vec<OsString> = ["thaw", "frag", "--fix"].map(Into::into).into();
        match &source.root {
            Some(root) if scattered.len() > NAMED => words.push(root.clone().into_os_string()),
            _ => words.extend(scattered.iter().map(|file| file.path.clone().into_os_string())),
        }
        self.advice.push(Advice { what, command: command_line(&words), predicted });
        Ok(())
    }

    /// What would be read before the start, as `thaw preload make` of the recording has it.
    fn read_ahead(&mut self, starts: usize) {
        let plan = self.reads_of(self.wanted.clone());
        self.limit = (!self.start.blocks.is_empty()).then(|| Limit {
            needed: plan.needed,
            reading_s: target::time(&self.disk, &target::in_one_piece(plan.needed.0)).seconds(),
            computing_s: self.length(&self.start.without_reads()).seconds(),
        });
        let reads = ReadAhead {
            bytes: plan.manifest.bytes(),
            needed: plan.needed,
            files: plan.manifest.files.len(),
            reads: plan.manifest.reads.len(),
            starts,
        };
        if reads.reads == 0 {
            return;
        }
        let what = format!(
            "{} of {} are read before the start, in {}: what {} needed",
            units::bytes(reads.bytes),
            units::plural(reads.files as u64, "file", "files"),
            units::plural(reads.reads as u64, "read", "reads"),
            units::plural(starts as u64, "recorded start", "recorded starts")
        );
        self.reads = Some(reads);
        self.remedies.push(Remedy::Preload);
        self.changes.insert(Remedy::Preload, vec![what]);
    }

    fn reads_of(&self, wanted: Vec<Wanted>) -> preload::plan::Plan {
        target::plan(wanted, Gap::Fastest, target::order(&self.disk), &self.disk, About::default())
    }

    /// Own code whose needed pages lie apart: an order file brings them together, for those who can link the program
    /// again.
    fn relinking(&mut self, source: &Source) {
        let Some(touched) = &source.touched else { return };
        let rows = &source.rows;
        for Candidate { id, path, .. } in source.own() {
            let id = *id;
            let Some(text) = rows.sections.iter().find(|section| section.file == id && section.name == ".text") else {
                continue;
            };
            let code = text.offset.0..text.offset.0.saturating_add(text.len.0);
            let inside =
                |at: u64, len: Bytes| at.saturating_add(len.0).min(code.end).saturating_sub(at.max(code.start));
            let other = touched.files.iter().position(|file| file.path == *path);
            let pages = touched
                .touches
                .iter()
                .filter(|touch| touch.engine == TouchEngine::Page && Some(touch.file.0 as usize) == other);
            let need: u64 = pages.map(|touch| inside(touch.offset.0, touch.len)).sum();
            let read: u64 = self
                .start
                .blocks
                .iter()
                .map(|block| match block.served {
                    Served::File(file, offset) if file == id => inside(offset.0, block.len),
                    _ => 0,
                })
                .sum();
            if need == 0 || read < 2 * need || read - need < 1 << 20 {
                continue;
            }
            let cut = BTreeMap::from([(id, vec![code])]);
            let time = target::time(&self.disk, &target::in_one_piece(need));
            // Read in one piece, before anything else.
            let change = Change { cut, read: time, ..Change::default() };
            let predicted = predict(&self.start, &change, &|start| self.length(start));
            if predicted.ratio > 1.0 - WORTH_A_LINK {
                continue;
            }
            let what = format!(
                "{}: {} of code are read and {} needed; if you can link it, an order file brings these together",
                source.shown(path),
                units::bytes(Bytes(read)),
                units::bytes(Bytes(need))
            );
            self.advice.push(Advice {
                what,
                command: format!(
                    "thaw touch --engine function -o calls.thaw -- PROGRAM; thaw order calls.thaw --file \
                 {} -o app.order",
                    shown(path)
                ),
                predicted: Some(predicted),
            });
        }
    }

    /// The length of a start on the disk: of the device that it read most from.
    fn length(&self, start: &Start) -> Nanos {
        let devices = simulate::by_device(&start.blocks);
        devices
            .first()
            .map_or(start.length, |(_, requests)| simulate::predict(&self.disk, requests, start.length).as_came.length)
    }

    /// What a set of remedies would gain. Nobody knows without requests, nor of remedies that are for something else
    /// than requests.
    pub fn predict(&self, source: &Source, set: &Set) -> Option<Prediction> {
        let others: Vec<Remedy> = set.iter().copied().filter(|remedy| of_remedy(*remedy).is_some()).collect();
        if set.contains(&Remedy::Caches) {
            return None;
        }
        if !others.is_empty() {
            let gains = self.gains.as_ref()?;
            let files = set.iter().copied().filter(|remedy| !others.contains(remedy)).collect::<Set>();
            let by_requests = if files.is_empty() { None } else { Some(self.predict(source, &files)?) };
            return Some(gains.predict(&others, by_requests));
        }
        let mut cut = if set.contains(&Remedy::Pack) { self.cut.clone() } else { BTreeMap::new() };
        let imaged = self.image.as_ref().filter(|_| set.contains(&Remedy::Image));
        let image = imaged.map(|found| found.change(&cut));
        let archives = if set.contains(&Remedy::Archive) { &self.archives[..] } else { &[] };
        // What the image has is read of it.
        let is_elsewhere = |path: &Path| !imaged.is_some_and(|image| image.has(path));
        let preload = set.contains(&Remedy::Preload).then(|| self.preloaded(source, &cut, archives, &is_elsewhere));
        let is_ahead = |id: FileId| {
            let in_image = !is_elsewhere(&source.rows.files[id.0 as usize].path);
            in_image || preload.as_ref().is_some_and(|preload| preload.files.contains(&id))
        };
        let read = archives.iter().filter(|archive| !is_ahead(archive.id)).map(|archive| archive.time).sum();
        cut.extend(archives.iter().map(|archive| (archive.id, archives::every_byte())));
        self.gain(source, &Change { cut, read, preload, image, ..Change::default() })
    }

    fn gain(&self, source: &Source, change: &Change) -> Option<Prediction> {
        let is_known = !source.rows.blocks.is_empty();
        is_known.then(|| predict(&self.start, change, &|start| self.length(start)))
    }

    fn preloaded(
        &self,
        source: &Source,
        cut: &BTreeMap<FileId, Vec<Range<u64>>>,
        archives: &[Found],
        is_read: &dyn Fn(&Path) -> bool,
    ) -> Preloaded {
        let mut wanted = self.wanted.clone();
        wanted.retain(|file| file.entry.kind == Kind::Device || is_read(&file.entry.path));
        let of_file = |wanted: &mut Vec<Wanted>, id: FileId, change: &dyn Fn(&mut Vec<Piece>)| {
            let path = &source.rows.files[id.0 as usize].path;
            let is = |file: &&mut Wanted| file.entry.kind != Kind::Device && file.entry.path == *path;
            wanted.iter_mut().filter(is).for_each(|file| change(&mut file.pieces));
        };
        for archive in archives {
            of_file(&mut wanted, archive.id, &|pieces| *pieces = archive.pieces(pieces));
        }
        for (id, ranges) in cut {
            let is_gone = |piece: &Piece| ranges.iter().any(|range| range.contains(&piece.offset.0));
            of_file(&mut wanted, *id, &|pieces| pieces.retain(|piece| !is_gone(piece)));
        }
        let paths: BTreeSet<&Path> =
            wanted.iter().filter(|file| file.entry.kind != Kind::Device).map(|file| &*file.entry.path).collect();
        let ids = optimize::predict::files_at(&source.rows, |path| paths.contains(path)).collect();
        let metadata =
            wanted.iter().filter(|file| file.entry.kind == Kind::Device).map(|file| file.entry.dev).collect();
        Preloaded { files: ids, metadata, time: self.reads_of(wanted.clone()).time }
    }

    /// Each set that will be measured, with what is predicted.
    pub fn tried(&self, source: &Source) -> Vec<Tried> {
        let sets = Measured::default().next(&self.remedies);
        let changes = |set: &Set| {
            set.iter()
                .filter(|_| set.len() == 1)
                .filter_map(|remedy| self.changes.get(remedy))
                .flatten()
                .cloned()
                .collect()
        };
        let tried = |set: Set| Tried {
            predicted: self.predict(source, &set),
            measured: None,
            verdict: None,
            changes: changes(&set),
            environment: of_set(&set),
            reads: self.reads.filter(|_| set == Set::from([Remedy::Preload])),
            set,
        };
        sets.into_iter().map(tried).collect()
    }
}

fn named_remedies(remedies: &[Remedy]) -> String {
    let changing = remedies.iter().filter(|remedy| remedy.changes_files());
    changing.map(|remedy| remedy.name()).collect::<Vec<_>>().join(", ")
}

/// The first of them, and how many more there are.
fn named(files: &[String]) -> String {
    let named = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = files.len().saturating_sub(NAMED);
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// What is needed and not in memory in this state.
fn in_state(source: &Source, files: Vec<Recorded>) -> Vec<Recorded> {
    let system = |path: &Path| source.rows.files.iter().any(|file| file.path == path && file.owner == Owner::System);
    let mut files = files;
    files.retain(|file| source.state == CacheState::Cold || file.kind == Kind::Device || !system(&file.path));
    files
}

/// Where the tables lie that packing makes shorter by this much.
fn tables(path: &Path, gone: u64) -> Vec<Range<u64>> {
    let bytes = std::fs::File::open(path).ok().and_then(|file| os::mapped::Mapped::of(&file));
    let sections = bytes.as_ref().and_then(|bytes| elf::sections(bytes).ok()).unwrap_or_default();
    let table = sections.iter().find(|section| section.name == ".rela.dyn" || section.name == ".rel.dyn");
    table.map(|table| table.offset.0..table.offset.0 + gone.min(table.len.0)).into_iter().collect()
}
