//! Images of a program's directory: made of recordings, compared with the directory, put over it for one start
//! ([`start`]), installed ([`installing`]).

pub mod installing;
pub mod start;

use crate::needs::{self, OfStart, Source};
use image::about::{About, Origin};
use image::check::{self, Checked, Clusters, Difference, Opened, Sums};
use image::extract::Extracted;
use image::mount::{self, Way};
use image::order::Need;
use image::tree::{Detail, Node, Tree};
use image::write::{self, Compression};
use model::{Error, Exit, PAGE, Result, shown};
use os::replace::{Existing, Fresh, Rights};
use preload::make::Recorded;
use preload::manifest::Kind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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
    let (image, contents) = made.contents()?;
    let (Checked { unused, .. }, sums) = check::whole(&made, (&image, &contents))?;
    let differences = compared((&contents.tree, &sums), &root, &tree)?;
    let clusters = check::clusters(&made, &image, &contents)?;
    if let Some(first) = differences.first() {
        return Err(Error::bug(format!("the new image is wrong: {} {}", first.path, first.what)));
    }
    if unused.0 > 0 {
        return Err(Error::bug(format!("{unused} of the new image belong to nothing")));
    }
    // Who cannot read a file must not read it in the image.
    let is_open = |node: &Node| node.mode & 0o004 != 0 && (!node.is_directory() || node.mode & 0o001 != 0);
    let is_reached = |above: &Path| fs::metadata(above).is_ok_and(|about| about.mode() & 0o001 != 0);
    let is_private = tree.nodes.iter().any(|node| node.kind() != S_IFLNK && !is_open(node))
        || !root.ancestors().skip(1).all(is_reached);
    fresh.grant(if is_private { Rights::Private } else { Rights::Usual })?;
    let about = made.about.clone();
    fresh.place()?;
    Ok(ImageDocument { schema: "thaw.image-make/1", image: shown(output), about, clusters, lost: Some(lost) })
}

/// The kind of a symbolic link, whose mode says nothing.
const S_IFLNK: u32 = 0o120_000;

/// What differs between an image, of which everything was read, and a directory.
fn compared(image: (&Tree, &Sums), root: &Path, tree: &Tree) -> Result<Vec<Difference>> {
    check::differences((tree, &mut check::on_disk(root, tree)), (image.0, &mut check::in_image(image.1)))
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

/// Reads all of an image, once, compares it with its directory (or another one), and with what the kernel sees in it.
///
/// # Errors
/// It is damaged; the directory cannot be read.
pub fn verify(path: &Path, against: Option<&Path>) -> Result<VerifyDocument> {
    let opened = Opened::open(path)?;
    let (image, contents) = opened.contents()?;
    let (checked, sums) = check::whole(&opened, (&image, &contents))?;
    let own = PathBuf::from(&opened.about.origin.directory);
    let directory = against.map_or_else(|| own.clone(), Path::to_path_buf);
    let tree = Tree::walk(&directory, Detail::Whole)?;
    let read = (&contents.tree, &sums);
    let differences = compared(read, &directory, &tree)?;
    let kernel = match rustix::process::geteuid().is_root() {
        false => Kernel::NotAsked("only root can mount it".to_owned()),
        true => match kernel(&opened, read, &directory) {
            Ok(differences) => Kernel::Sees(differences),
            Err(error) if error.exit == Exit::Machine => Kernel::NotAsked(error.to_string()),
            Err(error) => return Err(error),
        },
    };
    let (image, directory) = (shown(path), shown(&directory));
    Ok(VerifyDocument { schema: "thaw.image-verify/1", image, checked, directory, differences, kernel })
}

/// What the kernel sees otherwise: from the file itself, or from a loop device where it cannot do that.
fn kernel(opened: &Opened, read: (&Tree, &Sums), directory: &Path) -> Result<Vec<Difference>> {
    mount::differences_to_kernel(opened, read, directory, Way::File)
        .or_else(|_| mount::differences_to_kernel(opened, read, directory, Way::Loop))
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
