//! An image of the program's directory as a remedy: what it would gain is predicted before it is built, one is built
//! for each set of changed copies that it would hold, and what it costs is measured.
//!
//! ```text
//! .DIR.thaw-PID/images/original.image   the directory as it is
//!                     /pack.image       with packed files in the place of theirs
//!                     /thaw-image       what starts the program from it, on the same disk
//! ```

use super::source::Source;
use crate::images::Subject;
use crate::images::start::{trust, try_out as mounted};
use crate::needs::{self, OfStart};
use crate::target;
use crate::words::units;
use disk::model::Model;
use image::check::Opened;
use image::mount::{self, Way};
use image::tree::{Detail, Tree};
use image::write::Compression;
use model::{Bytes, Error, Exit, FileId, FileOffset, Nanos, Result, shown};
use optimize::files::moved;
use optimize::manifest::Imaged;
use optimize::predict::{self, Change, Prediction, files_at};
use os::replace::Existing;
use preload::manifest::Kind;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How images are compressed: as `thaw image make` does unasked.
const COMPRESSION: Compression = Compression::Zstd(15);
/// Of a directory of which a start needs less, none is made: mounting it and looking at its names cost something too.
const LEAST: u64 = 4 << 20;
/// It is not tried for less.
const WORTH: f64 = 0.02;

/// What is known of an image that is not made yet.
pub struct Found {
    /// For people and for the manifest.
    pub about: Imaged,
    /// All bytes of the directory's files.
    content: Bytes,
    change: predict::Imaged,
    /// What starts need, by file.
    needed: BTreeMap<FileId, Vec<(u64, u64)>>,
}

/// What became of the question.
pub enum Survey {
    /// The start reads too little of a directory of its own.
    Nothing,
    /// It is not tried, because of this; what is known of it, if something is.
    Not(String, Option<Box<Imaged>>),
    /// It is worth a try; what it would change, in a sentence.
    Found(Box<Found>, String),
}

/// Looks whether an image could gain. `gain` is the start's time with a change, if that can be told. `caches`:
/// directories in which caches are built.
///
/// # Errors
/// The recording is damaged; interrupted.
pub fn survey(
    source: &Source,
    disk: &Model,
    caches: &[&Path],
    gain: &dyn Fn(&Change) -> Option<Prediction>,
) -> Result<Survey> {
    let Some(root) = source.root.as_deref() else { return Ok(Survey::Nothing) };
    let starts = needs::by_start(std::slice::from_ref(&source.recording), Some(&source.variant))?;
    let needs_of_it = |start: &OfStart| {
        let own = start.files.iter().filter(|file| file.kind != Kind::Device && file.path.starts_with(root));
        own.flat_map(|file| &file.pieces).map(|piece| piece.len.0).sum::<u64>()
    };
    if starts.iter().map(needs_of_it).max().unwrap_or_default() < LEAST {
        return Ok(Survey::Nothing);
    }
    let not = |why: String| Ok(Survey::Not(why, None));
    if let Some(cache) = caches.iter().find(|cache| cache.starts_with(root)) {
        return not(format!("caches are built in the same directory, {}; they cannot be had together", shown(cache)));
    }
    if mount::is_in_kernel() == Some(false) {
        return not("this kernel has no EROFS".into());
    }
    let refused = |error: Error| match error.exit {
        Exit::Interrupted => Err(error),
        _ => not(error.to_string()),
    };
    let subject = match Subject::of(root, &[], &starts, &[], vec![shown(&source.recording)]) {
        Ok(subject) => subject,
        Err(error) => return refused(error),
    };
    if subject.needed().0 < LEAST {
        return Ok(Survey::Nothing);
    }
    let sample = match subject.sample(COMPRESSION) {
        Ok(sample) => sample,
        Err(error) => return refused(error),
    };
    let unpacking = Nanos(u64::try_from(sample.unpacking().as_nanos()).unwrap_or(u64::MAX));
    let change = predict::Imaged {
        files: files_at(&source.rows, |path| path.starts_with(root)).collect(),
        reading: target::time(disk, &target::in_one_piece(sample.stretch.0)),
        unpacking,
    };
    let about = Imaged {
        directory: root.to_owned(),
        compression: COMPRESSION.name(),
        needed: sample.needed,
        stretch: sample.stretch,
        names: subject.names() as u64,
        unpacked_in_a_second: sample.unpacked_in_a_second,
        reading_s: change.reading.seconds(),
        unpacking_s: change.unpacking.seconds(),
        cost: None,
        kept: None,
    };
    let figures = figures(&about);
    let Some(predicted) = gain(&Change { image: Some(change.clone()), ..Change::default() }) else {
        return Ok(Survey::Not("the recording has no requests, so that nobody can tell".into(), Some(about.into())));
    };
    if predicted.ratio > 1.0 - WORTH {
        let times = [predicted.after_s, predicted.before_s].map(units::seconds);
        let why =
            format!("it does not help: a start would take {} with it, and {} as it is; {figures}", times[0], times[1]);
        return Ok(Survey::Not(why, Some(about.into())));
    }
    let needed = needed_of(source, root, &starts);
    let content = subject.content();
    Ok(Survey::Found(Box::new(Found { about, content, change, needed }), figures))
}

/// What it would be, in a sentence.
fn figures(about: &Imaged) -> String {
    let unpacked = about.unpacked_in_a_second.map_or_else(
        || "nothing of it becomes smaller".to_owned(),
        |speed| {
            let speed = units::bytes(Bytes(speed as u64));
            format!("unpacking takes {} ({speed} in a second, measured)", units::seconds(about.unpacking_s))
        },
    );
    format!(
        "the {} that starts need of {} take {} in it, read in {}; {unpacked}",
        units::bytes(about.needed),
        shown(&about.directory),
        units::bytes(about.stretch),
        units::seconds(about.reading_s)
    )
}

/// What starts need of the directory's files, as spans of each.
fn needed_of(source: &Source, root: &Path, starts: &[OfStart]) -> BTreeMap<FileId, Vec<(u64, u64)>> {
    let mut needed: BTreeMap<FileId, Vec<(u64, u64)>> = BTreeMap::new();
    for file in starts.iter().flat_map(|start| &start.files).filter(|file| file.path.starts_with(root)) {
        for id in files_at(&source.rows, |path| path == file.path) {
            let spans = file.pieces.iter().map(|piece| (piece.offset.0, piece.offset.0.saturating_add(piece.len.0)));
            needed.entry(id).or_default().extend(spans);
        }
    }
    needed.into_iter().map(|(id, spans)| (id, model::joined(spans))).collect()
}

impl Found {
    /// It takes no more room.
    pub fn most(&self) -> Bytes {
        self.content
    }

    /// Whether a file is read from it.
    pub fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.about.directory)
    }

    /// What it changes in a log; of files these ranges are gone.
    pub fn change(&self, cut: &BTreeMap<FileId, Vec<Range<u64>>>) -> predict::Imaged {
        let of_file = |(id, spans): (&FileId, &Vec<(u64, u64)>)| {
            let gone = cut.get(id).into_iter().flatten();
            let both = |cut: &Range<u64>| {
                spans.iter().map(|(from, to)| (*to).min(cut.end).saturating_sub((*from).max(cut.start))).sum::<u64>()
            };
            gone.map(both).sum::<u64>()
        };
        let gone: u64 = self.needed.iter().map(of_file).sum();
        let left = 1.0 - (gone as f64 / self.about.needed.0.max(1) as f64).min(1.0);
        let part = |time: Nanos| Nanos((time.0 as f64 * left) as u64);
        let (reading, unpacking) = (part(self.change.reading), part(self.change.unpacking));
        predict::Imaged { reading, unpacking, ..self.change.clone() }
    }

    /// Writes the image. `copies`: changed files that it is to hold, and the originals; `covers`: copies as which
    /// files were recorded, and theirs.
    ///
    /// # Errors
    /// The directory was changed, or cannot be an image; no room.
    pub fn write(
        &self,
        mut starts: Vec<OfStart>,
        recording: &Path,
        copies: &[(PathBuf, PathBuf)],
        covers: &[(PathBuf, PathBuf)],
        output: &Path,
    ) -> Result<()> {
        for file in starts.iter_mut().flat_map(|start| &mut start.files) {
            if let Some((copy, original)) = covers.iter().find(|(copy, _)| file.path.starts_with(copy)) {
                file.path = moved(&file.path, copy, original);
            }
        }
        let subject = Subject::of(&self.about.directory, &[], &starts, copies, vec![shown(recording)])?;
        subject.write(COMPRESSION, output, Existing::Keep).map(drop)
    }
}

/// What a start leaves in the page cache: of the directory's files, and of the image.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Of the files in the directory, or in the image over it.
    pub files: Bytes,
    /// Of the image itself.
    pub image: Bytes,
}

/// What is in the page cache of the directory after a start, with the image over it or without one. Nobody else sees
/// the image.
///
/// # Errors
/// It cannot be mounted; the program does not start.
pub fn memory(root: &Path, image: Option<&Path>, start: &(dyn Fn() -> Result<()> + Sync)) -> Result<Memory> {
    let measured = || -> Result<Memory> {
        let opened = image.map(Opened::open).transpose()?;
        let _around = match &opened {
            Some(opened) => {
                os::cache::flush(std::slice::from_ref(&opened.path));
                let mut around = mount::over(opened, trust(&opened.path), &[Way::File, Way::Loop])?;
                let cannot = |cause| Error::on(Exit::Machine, "cannot mount the image", &opened.path).because(cause);
                around.off().map_err(cannot)?;
                let stretch = [(FileOffset(0), opened.about.start)];
                os::cache::warm(&opened.path, Some(&stretch)).map_err(cannot)?;
                Some(around)
            }
            None => {
                os::cache::flush(&[root.to_owned()]);
                None
            }
        };
        start()?;
        let files = Tree::walk(root, Detail::Names)?.nodes.into_iter().filter(image::tree::Node::is_file);
        let files = files.map(|node| resident(&root.join(node.path))).sum();
        Ok(Memory { files, image: image.map(resident).unwrap_or_default() })
    };
    // The namespace is that thread's, and ends with it.
    let thread = std::thread::scope(|scope| scope.spawn(measured).join());
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What of a file is in memory; of one that cannot be opened nothing is.
fn resident(path: &Path) -> Bytes {
    let looked = os::cache::open_quietly(path).and_then(|file| {
        let len = file.metadata()?.len();
        os::cache::residency(&file, FileOffset(0), Bytes(len))
    });
    looked.map(|it| it.resident_bytes()).unwrap_or_default()
}

/// Whether an image at this place could be put over a directory for this user: with a small one of its own.
///
/// # Errors
/// Why not.
pub fn try_out(place: &Path, user: &os::user::Choice) -> Result<()> {
    let (directory, image) = (place.join("trial"), place.join("trial.image"));
    let cannot = |cause: std::io::Error| Error::on(Exit::Machine, "cannot write in", place).because(cause);
    std::fs::create_dir(&directory).map_err(cannot)?;
    std::fs::write(directory.join("file"), [b'x'; 9000]).map_err(cannot)?;
    let subject = Subject::of(&directory, &[], &[], &[], Vec::new())?;
    subject.write(COMPRESSION, &image, Existing::Keep)?;
    let tried = mounted(&image, user);
    os::tree::remove(&directory)?;
    os::tree::remove(&image)?;
    tried
}
