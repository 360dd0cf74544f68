//! Images of a program's directory: made of recordings, compared with the directory, put over it for one start.

use crate::needs::{self, OfStart, Source};
use image::about::{About, Origin};
use image::check::{self, Checked, Clusters, Difference, Opened};
use image::extract::Extracted;
use image::mount::{self, Trust, Way};
use image::order::Need;
use image::read::{Contents, Image};
use image::tree::{Detail, Node, Tree};
use image::write::{self, Compression};
use model::{Bytes, Error, Exit, FileOffset, PAGE, Result, shown};
use os::replace::{Existing, Fresh, Rights};
use os::user::{Account, Choice, who_changes_but, who_else_changes};
use preload::exec::{NoProgram, Program};
use preload::make::Recorded;
use preload::manifest::{self, Entry, FileIndex, Kind, Manifest, Read};
use preload::plan::Order;
use preload::run::{Engine, Window};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What an image is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The program's directory.
    pub directory: &'a Path,
    /// Recordings with cold, traced starts.
    pub recordings: &'a [PathBuf],
    /// Which of their programs; `None`: the first.
    pub variant: Option<&'a str>,
    /// How it is compressed.
    pub compression: Compression,
}

/// `thaw.image-make/1` and `thaw.image-stat/1`: an image.
#[derive(Debug, Serialize)]
pub struct ImageDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The image's file.
    pub image: String,
    /// What is known of it.
    pub about: About,
    /// How it is cut.
    pub clusters: Clusters,
    /// Files in the directory that the recorded starts read and that are others now; `None`: not asked.
    pub lost: Option<Vec<String>>,
}

/// `thaw.image-verify/1`: whether an image is whole, and what it holds differs from.
#[derive(Debug, Serialize)]
pub struct VerifyDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The image's file.
    pub image: String,
    /// What was found to be whole.
    pub checked: Checked,
    /// The directory that it was compared with.
    pub directory: String,
    /// What differs from the directory.
    pub differences: Vec<Difference>,
    /// What the kernel sees otherwise than thaw.
    pub kernel: Kernel,
}

impl VerifyDocument {
    /// Whether nothing differs, as far as it was asked.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty() && !matches!(&self.kernel, Kernel::Sees(different) if !different.is_empty())
    }
}

/// What the kernel says of an image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// It sees the same, but for this.
    Sees(Vec<Difference>),
    /// It was not asked, because of this.
    NotAsked(String),
}

/// `thaw.image-extract/1`: what was written.
#[derive(Debug, Serialize)]
pub struct ExtractDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The image's file.
    pub image: String,
    /// The new directory.
    pub directory: String,
    /// What is in it.
    pub extracted: Extracted,
}

/// Makes an image, reads it again and compares it with the directory before it gets its name.
///
/// # Errors
/// No directory; no recording that tells what is needed of it; something in it cannot be in an image.
pub fn make(wanted: &Wanted<'_>, output: &Path, existing: Existing) -> Result<ImageDocument> {
    os::replace::check(output, existing)?;
    let root = fs::canonicalize(wanted.directory).map_err(|cause| {
        Error::on(Exit::of_unreadable(&cause), "cannot look at the directory", wanted.directory).because(cause)
    })?;
    let directory = root.to_str().map(str::to_owned).ok_or_else(|| {
        Error::on(Exit::Usage, "the directory's name is no UTF-8:", &root).hint("give it another name")
    })?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let output_directory = fs::canonicalize(os::file::directory_of(&absolute(output))).unwrap_or_default();
    if output_directory.starts_with(&root) {
        return Err(
            Error::on(Exit::Usage, "an image cannot lie in its own directory:", output).hint("write it elsewhere")
        );
    }
    let starts = needs::by_start(wanted.recordings, wanted.variant)?;
    let tree = Tree::walk(&root, Detail::Whole)?;
    let (needs, lost) = needed(&starts, &root, &tree);
    if needs.is_empty() {
        return Err(Error::new(Exit::No, "the recorded starts read nothing of the directory as it is now:", directory)
            .hint("record a start of the program that lies in it; after an upgrade record it again"));
    }
    let whole: Vec<u32> = (0..).zip(&starts).filter(|(_, start)| start.tells_all).map(|(number, _)| number).collect();
    let source = starts.iter().map(|start| start.source).min().unwrap_or(Source::Cached);
    let origin = Origin {
        directory,
        recordings: wanted.recordings.iter().map(|path| shown(&absolute(path))).collect(),
        source: source.name().to_owned(),
        starts: starts.len() as u64,
    };
    let fresh = Fresh::beside(output, existing)?;
    let from = write::Source { root: &root, tree: &tree, needs: &needs, whole: &whole };
    write::write(&from, wanted.compression, origin, fresh.file())?;
    let made = Opened::open(fresh.path())?;
    made.check_data()?;
    let read = made.contents()?;
    let unused = check::unused(&made, (&read.0, &read.1))?;
    let (differences, clusters) = compared(&made, &read, &root, &tree)?;
    if let Some(first) = differences.first() {
        return Err(Error::bug(format!("the new image is wrong: {} {}", first.path, first.what)));
    }
    if unused.0 > 0 {
        return Err(Error::bug(format!("{unused} of the new image belong to nothing")));
    }
    // Who cannot read a file must not read it in the image.
    let is_open = |node: &Node| node.mode & 0o004 != 0 && (!node.is_directory() || node.mode & 0o001 != 0);
    let is_private = tree.nodes.iter().any(|node| node.kind() != S_IFLNK && !is_open(node));
    fresh.grant(if is_private { Rights::Private } else { Rights::Usual })?;
    let about = made.about.clone();
    fresh.place()?;
    Ok(ImageDocument { schema: "thaw.image-make/1", image: shown(output), about, clusters, lost: Some(lost) })
}

/// The kind of a symbolic link, whose mode says nothing.
const S_IFLNK: u32 = 0o120_000;

/// What differs from the directory, every byte of it read; how the image is cut.
fn compared(
    opened: &Opened,
    (image, contents): &(Image<'_>, Contents),
    root: &Path,
    tree: &Tree,
) -> Result<(Vec<Difference>, Clusters)> {
    let mut own = check::in_image(opened, image, contents);
    let differences = check::differences((tree, &mut check::on_disk(root, tree)), (&contents.tree, &mut own))?;
    Ok((differences, check::clusters(opened, image, contents)?))
}

/// What each start needed of the directory's files, and files that are others now.
fn needed(starts: &[OfStart], root: &Path, tree: &Tree) -> (Vec<Need>, Vec<String>) {
    let names = tree.by_name();
    let mut needs = Vec::new();
    let mut lost = BTreeSet::new();
    for (number, start) in (0..).zip(starts) {
        let mut own = Vec::new();
        for file in start.files.iter().filter(|file| file.kind != Kind::Device) {
            let Ok(below) = file.path.strip_prefix(root) else { continue };
            match names.get(below).filter(|node| is_as_recorded(&tree.nodes[**node], file)) {
                Some(node) => own.extend(file.pieces.iter().map(|piece| (*node, *piece))),
                None => {
                    lost.insert(shown(&file.path));
                }
            }
        }
        // Starts are told apart by time or by count: what they have in common is the order.
        let firsts: BTreeSet<u64> = own.iter().map(|(_, piece)| piece.first.0).collect();
        let ranks: BTreeMap<u64, u64> = firsts.into_iter().zip(0..).collect();
        needs.extend(own.into_iter().map(|(file, piece)| Need {
            start: number,
            file,
            page: piece.offset.0 / PAGE,
            pages: piece.len.0.div_ceil(PAGE),
            first: ranks[&piece.first.0],
        }));
    }
    (needs, lost.into_iter().collect())
}

fn is_as_recorded(node: &Node, file: &Recorded) -> bool {
    node.is_file() && (file.kind == Kind::Changing || node.size == file.size.0)
}

/// What an image is.
///
/// # Errors
/// It is damaged, or none of thaw's.
pub fn stat(path: &Path) -> Result<ImageDocument> {
    let opened = Opened::open(path)?;
    let (image, contents) = opened.contents()?;
    let clusters = check::clusters(&opened, &image, &contents)?;
    let about = opened.about.clone();
    Ok(ImageDocument { schema: "thaw.image-stat/1", image: shown(path), about, clusters, lost: None })
}

/// Reads all of an image, compares it with its directory (or another one), and with what the kernel sees in it.
///
/// # Errors
/// It is damaged; the directory cannot be read.
pub fn verify(path: &Path, against: Option<&Path>) -> Result<VerifyDocument> {
    let opened = Opened::open(path)?;
    let checked = check::whole(&opened)?;
    let own = PathBuf::from(&opened.about.origin.directory);
    let directory = against.map_or_else(|| own.clone(), Path::to_path_buf);
    let tree = Tree::walk(&directory, Detail::Whole)?;
    let (differences, _) = compared(&opened, &opened.contents()?, &directory, &tree)?;
    let kernel = match rustix::process::geteuid().is_root() {
        false => Kernel::NotAsked("only root can mount it".to_owned()),
        true => match kernel(&opened, &directory) {
            Ok(differences) => Kernel::Sees(differences),
            Err(error) if error.exit == Exit::Machine => Kernel::NotAsked(error.to_string()),
            Err(error) => return Err(error),
        },
    };
    let (image, directory) = (shown(path), shown(&directory));
    Ok(VerifyDocument { schema: "thaw.image-verify/1", image, checked, directory, differences, kernel })
}

/// What the kernel sees otherwise: from the file itself, or from a loop device where it cannot do that.
fn kernel(opened: &Opened, directory: &Path) -> Result<Vec<Difference>> {
    mount::differences_to_kernel(opened, directory, Way::File)
        .or_else(|_| mount::differences_to_kernel(opened, directory, Way::Loop))
}

/// Writes the directory of an image again.
///
/// # Errors
/// It is damaged; the directory is there already, or cannot be written.
pub fn extract(path: &Path, directory: &Path) -> Result<ExtractDocument> {
    let extracted = image::extract::extract(&Opened::open(path)?, directory)?;
    let (image, directory) = (shown(path), shown(directory));
    Ok(ExtractDocument { schema: "thaw.image-extract/1", image, directory, extracted })
}

/// How a program is started with an image over its directory.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The image.
    pub image: &'a Path,
    /// Program and arguments.
    pub command: &'a [OsString],
    /// Whom it runs as.
    pub user: Choice,
    /// All of the image is read and checked before, not only what the kernel interprets.
    pub check_all: bool,
}

/// Becomes the program, with the image over its directory where that is possible; else `complain` hears why, and it
/// starts with the directory as it is. Returns only if there is no program.
///
/// # Errors
/// The user cannot be had: the program must not run as another one.
pub fn start(asked: &Start<'_>, complain: &dyn Fn(&Error)) -> Result<NoProgram> {
    let account = asked.user.account()?;
    let opened = fit(asked, account.as_ref());
    let manifest = opened.as_ref().map(reads).unwrap_or_default();
    // Opened before anything lies over anything, and before the program's user may not open it.
    let mut prepared = preload::run::prepare(&manifest, Engine::ReadAhead, Window::usual(Order::FirstUse, true));
    let covered = opened.and_then(|opened| cover(&opened));
    if let Err(error) = &covered {
        complain(error);
    }
    if let Some(account) = &account {
        account.become_it()?;
    }
    let program = match Program::find(asked.command) {
        Ok(program) => program,
        Err(failed) => return Ok(failed),
    };
    let program = match &account {
        Some(account) => program.with_changes(&account.environment()),
        None => program,
    };
    Ok(program.start(|| {
        if covered.is_ok() {
            let _ = prepared.ask();
        }
    }))
}

/// The image, if it may be put over its directory now.
fn fit(asked: &Start<'_>, account: Option<&Account>) -> Result<Opened> {
    let path = asked.image;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::on(Exit::Machine, "only root can mount the image", path)
            .hint("run it with sudo: the program still runs as you"));
    }
    if let Some((part, who)) = who_changes_but(path, account) {
        return Err(Error::on(Exit::Data, "somebody else can change the image", path)
            .because(format!("{}: {who}", shown(&part)))
            .hint("keep it where only root, or who starts the program, can write"));
    }
    let opened = Opened::open(path)?;
    if asked.check_all {
        opened.check_data()?;
    }
    let (image, contents) = opened.contents()?;
    // The kernel gets nothing that thaw's own reader refuses.
    check::unused(&opened, (&image, &contents))?;
    let directory = Path::new(&opened.about.origin.directory);
    if let Some(what) = check::changed_since(&opened, &Tree::walk(directory, Detail::Names)?)? {
        return Err(Error::on(Exit::Data, "its directory was changed since the image was made:", directory)
            .because(what)
            .hint("record the program again, then `thaw image make`"));
    }
    Ok(opened)
}

/// Puts the image over its directory, for this process and what it becomes, and has nothing read around faults on it
/// until the start is over.
fn cover(opened: &Opened) -> Result<()> {
    let directory = Path::new(&opened.about.origin.directory);
    // Where we are is below the image afterwards.
    let here = std::env::current_dir().ok().filter(|here| here.starts_with(directory));
    let trust = if who_else_changes(&opened.path).is_none() { Trust::Root } else { Trust::Other };
    let mut read_around = mount::over(opened, directory, trust, &[Way::File, Way::Loop])?;
    let settled = || {
        read_around.off()?;
        let program = pidfd_open(getpid(), PidfdFlags::empty())?;
        here.map_or(Ok(()), std::env::set_current_dir)?;
        let mut read_around = Some(read_around);
        let beside = os::aside::aside(|| read_around.take().into_iter().for_each(|it| it.back_after(program.as_fd())));
        if beside.is_ok() {
            // It is the other process's to put back.
            std::mem::forget(read_around);
        }
        beside.map_err(std::io::Error::other)
    };
    settled().map_err(|cause: std::io::Error| {
        mount::uncover(directory);
        Error::on(Exit::Machine, "cannot set what is read around faults on the image", &opened.path).because(cause)
    })
}

/// The stretch of an image that a start needs, as reads.
fn reads(opened: &Opened) -> Manifest {
    let about = opened.file.metadata();
    let (dev, ino) = about.map_or((0, 0), |about| (about.dev(), about.ino()));
    let entry = Entry {
        // Its sums were compared: there is nothing else to compare.
        kind: Kind::Changing,
        dev,
        ino,
        size: Bytes(opened.about.image.0),
        mtime_ns: 0,
        identity: None,
        path: std::path::absolute(&opened.path).unwrap_or_else(|_| opened.path.clone()),
    };
    let end = opened.about.start.0;
    let pieces = (0..end).step_by(manifest::LONGEST.0 as usize).zip(0..);
    let reads = pieces.map(|(at, rank)| Read {
        file: FileIndex(0),
        offset: FileOffset(at),
        len: Bytes(manifest::LONGEST.0.min(end - at)),
        rank,
    });
    let about = manifest::About { order: Order::FirstUse, ..manifest::About::default() };
    Manifest { about, files: vec![entry], reads: reads.collect() }
}
