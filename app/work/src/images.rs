//! Images of a program's directory: made of recordings, compared with the directory, put over it for one start
//! ([`start`]), installed ([`installing`]).

pub mod installing;
pub mod start;

use crate::needs::{self, OfStart, Source};
use image::about::{About, Origin};
use image::check::{self, Checked, Clusters, Difference, Opened, Sums};
use image::covered::Covered;
use image::extract::Extracted;
use image::like::{self, Older};
use image::mount::{self, Way};
use image::order::Need;
use image::sample::Sample;
use image::tree::{Detail, Node, Tree};
use image::write::{self, Compression};
use model::{Bytes, Error, Exit, PAGE, Result, joined, shown};
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
    /// Other directories, of which it holds what starts need.
    pub trees: &'a [PathBuf],
    /// Who tells what starts need.
    pub order: Order<'a>,
    /// How it is compressed.
    pub compression: Compression,
}

/// Who tells what starts need of a directory.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// Recordings with cold, traced starts.
    Recorded {
        /// Their files.
        recordings: &'a [PathBuf],
        /// Which of their programs; `None`: the first.
        variant: Option<&'a str>,
    },
    /// An older image of the directory.
    Like(&'a Path),
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
    /// Other directories of which it holds what starts need.
    pub trees: Vec<String>,
    /// What differs from the directory.
    pub differences: Vec<Difference>,
    /// Files of which it holds a changed copy, whose content was not compared with the directory.
    pub replaced: Vec<String>,
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
    let directory = root.to_str().ok_or_else(|| no_utf8(&root))?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let subject = match wanted.order {
        Order::Recorded { recordings, variant } => {
            let starts = needs::by_start(recordings, variant)?;
            let recordings = recordings.iter().map(|path| shown(&absolute(path))).collect();
            Subject::of(&root, wanted.trees, &starts, &[], recordings)?
        }
        Order::Like(older) => Subject::like(&root, older)?,
    };
    let output_directory = fs::canonicalize(os::file::directory_of(&absolute(output))).unwrap_or_default();
    if subject.covered.places().iter().any(|place| output_directory.starts_with(place)) {
        return Err(
            Error::on(Exit::Usage, "an image cannot lie in its own directory:", output).hint("write it elsewhere")
        );
    }
    if subject.needs.is_empty() {
        return Err(Error::new(Exit::No, "the recorded starts read nothing of the directory as it is now:", directory)
            .hint("record a start of the program that lies in it; after an upgrade record it again"));
    }
    subject.write(wanted.compression, output, existing)
}

/// A directory that is to become an image, or a set of them, and what starts need of it.
pub struct Subject {
    covered: Covered,
    tree: Tree,
    sum: [u8; 32],
    needs: Vec<Need>,
    /// The starts that tell all they needed.
    whole: Vec<u32>,
    /// Files that the starts read and that are others now.
    lost: Vec<String>,
    origin: Origin,
}

impl Subject {
    /// Looks at a directory, and at what starts need of other ones. `copies` are changed files, each with the original
    /// whose place it takes in the image: a start that read the copy needs it there.
    ///
    /// # Errors
    /// It cannot be looked at, or its name is no UTF-8; see [`Covered::needed`].
    pub fn of(
        whole: &Path,
        trees: &[PathBuf],
        starts: &[OfStart],
        copies: &[(PathBuf, PathBuf)],
        recordings: Vec<String>,
    ) -> Result<Self> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| no_utf8(path));
        let directory = text(whole)?;
        let (covered, trees) = match trees {
            [] => (Covered::directory(whole), Vec::new()),
            trees => {
                // What changes as the program runs would make the image an old one.
                let files = starts.iter().flat_map(|start| &start.files).filter(|file| file.kind == Kind::Regular);
                Covered::needed(whole, trees, files.map(|file| &*file.path))?
            }
        };
        let trees = trees.iter().map(|tree| text(tree)).collect::<Result<_>>()?;
        let mut tree = Tree::of(&covered, Detail::Whole)?;
        let sum = tree.sum();
        let mut replaced = Vec::new();
        for (copy, original) in copies {
            let Ok(name) = original.strip_prefix(covered.root()) else { continue };
            tree.replace(name, copy)?;
            replaced.push(shown(name));
        }
        let (needs, lost) = needed(starts, &covered, &tree);
        let whole = (0..).zip(starts).filter(|(_, start)| start.tells_all).map(|(number, _)| number).collect();
        let source = starts.iter().map(|start| start.source).min().unwrap_or(Source::Cached);
        let (source, starts) = (source.name().to_owned(), starts.len() as u64);
        let origin = Origin { directory, trees, recordings, source, starts, replaced };
        Ok(Self { covered, tree, sum, needs, whole, lost, origin })
    }

    /// Looks at a directory of which there is an older image, and takes over its order.
    ///
    /// # Errors
    /// The directory cannot be looked at; the image is damaged, or holds changed copies, which nobody knows any more.
    pub fn like(root: &Path, older: &Path) -> Result<Self> {
        let opened = Opened::open(older)?;
        let origin = opened.about.origin.clone();
        if let Some(copy) = origin.replaced.first() {
            return Err(Error::on(Exit::Data, "the older image holds changed copies of files:", older)
                .because(format!("{copy}, and {} in all", origin.replaced.len()))
                .hint("record the program again, then `thaw optimize`"));
        }
        let (image, contents) = opened.contents()?;
        let covered = match origin.trees.is_empty() {
            true => Covered::directory(root),
            false if root == Path::new(&origin.directory) => contents.tree.covered(&origin),
            false => {
                return Err(Error::on(Exit::Usage, "the older image holds files of other directories, too:", older)
                    .because(format!("it is of {}", origin.directory))
                    .hint("its order is taken over for that directory alone"));
            }
        };
        let tree = Tree::of(&covered, Detail::Whole)?;
        let sum = tree.sum();
        let in_front = (opened.about.by_all, opened.about.start);
        let Older { needs, lost } = like::needs(in_front, &image, &contents, &tree)
            .map_err(|why| Error::on(Exit::Data, "cannot read the older image", older).because(why))?;
        let directory = root.to_str().map(str::to_owned).ok_or_else(|| no_utf8(root))?;
        let origin = Origin { directory, source: OLDER.to_owned(), ..origin };
        let lost = lost.iter().map(|name| shown(&covered.root().join(name))).collect();
        Ok(Self { covered, tree, sum, needs, whole: like::STARTS.to_vec(), lost, origin })
    }

    /// Names in it, which are looked at before each start.
    pub fn names(&self) -> usize {
        self.tree.names().count()
    }

    /// Bytes of its files.
    pub fn content(&self) -> Bytes {
        self.tree.nodes.iter().filter(|node| node.is_file()).map(|node| Bytes(node.size)).sum()
    }

    /// Bytes that any of the starts needs, in whole pages; what several need counts once.
    pub fn needed(&self) -> Bytes {
        let spans = self.needs.iter().map(|need| {
            // Files one behind the other.
            let at = (need.file as u64) << 40;
            (at + need.page, at + need.page + need.pages)
        });
        Bytes(joined(spans.collect()).iter().map(|(from, to)| (to - from) * PAGE).sum())
    }

    /// What its image would be.
    ///
    /// # Errors
    /// Something in it cannot be read or cannot be in an image.
    pub fn sample(&self, compression: Compression) -> Result<Sample> {
        image::sample::sample(&self.source(), compression)
    }

    fn source(&self) -> write::Source<'_> {
        write::Source {
            covered: &self.covered,
            tree: &self.tree,
            sum: self.sum,
            needs: &self.needs,
            whole: &self.whole,
        }
    }

    /// Writes the image, reads it again and compares it before it gets its name.
    ///
    /// # Errors
    /// Something in the directory cannot be in an image, or was changed meanwhile; the file cannot be written.
    pub fn write(self, compression: Compression, output: &Path, existing: Existing) -> Result<ImageDocument> {
        let fresh = Fresh::beside(output, existing)?;
        write::write(&self.source(), compression, self.origin.clone(), fresh.file())?;
        let made = Opened::open(fresh.path())?;
        let (image, contents) = made.contents()?;
        let (Checked { unused, .. }, sums) = check::whole(&made, (&image, &contents))?;
        let differences = compared((&contents.tree, &sums), self.covered.root(), &self.tree)?;
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
        let is_private = self.tree.nodes.iter().any(|node| node.kind() != S_IFLNK && !is_open(node))
            || !self.covered.places().iter().all(|place| place.ancestors().skip(1).all(is_reached));
        fresh.grant(if is_private { Rights::Private } else { Rights::Usual })?;
        let about = made.about.clone();
        fresh.place()?;
        let lost = Some(self.lost);
        Ok(ImageDocument { schema: "thaw.image-make/1", image: shown(output), about, clusters, lost })
    }
}

fn no_utf8(root: &Path) -> Error {
    Error::on(Exit::Usage, "the directory's name is no UTF-8:", root).hint("give it another name")
}

/// [`Origin::source`] of an image in the order of an older one.
pub const OLDER: &str = "older image";

/// The kind of a symbolic link, whose mode says nothing.
const S_IFLNK: u32 = 0o120_000;

/// What differs between an image, of which everything was read, and a directory.
fn compared(image: (&Tree, &Sums), root: &Path, tree: &Tree) -> Result<Vec<Difference>> {
    check::differences((tree, &mut check::on_disk(root, tree)), (image.0, &mut check::in_image(image.1)))
}

/// What each start needed of the files, and files that are others now.
fn needed(starts: &[OfStart], covered: &Covered, tree: &Tree) -> (Vec<Need>, Vec<String>) {
    let places = covered.places();
    let names = tree.by_name();
    let mut needs = Vec::new();
    let mut lost = BTreeSet::new();
    for (number, start) in (0..).zip(starts) {
        let mut own = Vec::new();
        for file in start.files.iter().filter(|file| file.kind != Kind::Device) {
            let is_covered = places.iter().any(|place| file.path.starts_with(place));
            let Some(below) = file.path.strip_prefix(covered.root()).ok().filter(|_| is_covered) else { continue };
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
    let Origin { trees, replaced, directory, .. } = opened.about.origin.clone();
    let covered = contents.tree.covered(&opened.about.origin);
    let covered = match against {
        Some(root) => covered.below(root),
        None => covered,
    };
    let tree = Tree::of(&covered, Detail::Whole)?;
    let read = (&contents.tree, &sums);
    let differences = check::beside_copies(&opened.about, compared(read, covered.root(), &tree)?);
    let kernel = match rustix::process::geteuid().is_root() {
        false => Kernel::NotAsked("only root can mount it".to_owned()),
        true => match kernel(&opened, read, Path::new(&directory)) {
            Ok(differences) => Kernel::Sees(differences),
            Err(error) if error.exit == Exit::Machine => Kernel::NotAsked(error.to_string()),
            Err(error) => return Err(error),
        },
    };
    let (image, directory) = (shown(path), shown(&covered.whole()));
    Ok(VerifyDocument {
        schema: "thaw.image-verify/1",
        image,
        checked,
        directory,
        trees,
        differences,
        replaced,
        kernel,
    })
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
