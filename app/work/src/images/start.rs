//! A program starts with an image over its directory. Root mounts it for this program alone; anybody else gets it where
//! it is mounted for all users. Whatever is in the way, the program starts from its directory.

use image::about::{About, Origin};
use image::check::{self, Of, Opened};
use image::covered::covers;
use image::install::not_mounted;
use image::mount::{self, Trust, Way};
use image::shared::{self, Identity, Shared};
use image::tree::{Detail, Tree};
use model::{Bytes, Error, Exit, FileOffset, Result, shown};
use os::covers::Covers;
use os::user::{Account, Choice, who_changes_but, who_else_changes};
use preload::exec::{NoProgram, Program};
use preload::manifest::{self, Entry, FileIndex, Kind, Manifest, Read};
use preload::plan::Order;
use preload::run::{Engine, Window};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::thread::set_no_new_privs;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    /// What its directory is.
    pub of: Of,
    /// Whether the user's variables are set already: the environment is left as it is.
    pub keeps_environment: bool,
    /// A manifest of what else is read before; what of it lies in the image's directory is read of the image.
    pub also: Option<&'a Path>,
    /// What lies over other files besides.
    pub besides: Besides,
}

/// Copies that lie over files for the program.
#[derive(Clone, Debug, Default)]
pub struct Besides {
    /// Where the image is used: over files outside of its directory.
    pub with_image: Covers,
    /// Where it is not: over all.
    pub without: Covers,
}

impl Besides {
    /// Puts all copies over the originals, for this process and what it becomes, without an image.
    ///
    /// # Errors
    /// The kernel does not allow it; nothing is covered then.
    pub fn without_image(&self) -> std::io::Result<()> {
        let covers = &self.without;
        match covers.is_empty() {
            true => Ok(()),
            false => covers.enter_as_caller().inspect_err(|_| covers.uncover()),
        }
    }
}

/// An image that may be put over its directory now.
enum Fit {
    /// By root, who mounts it.
    Own(Opened),
    /// By anybody, who gets it from where it is mounted.
    Shared(Shared, File),
}

/// As root it is mounted for this program alone, or comes from where it is mounted for all, if the program stays root:
/// what others have unpacked of it is in memory there, and that nothing in it has rights of its own changes nothing.
fn of_root(opened: Opened, account: Option<&Account>) -> Fit {
    let mounted = if account.is_none() { shared::of(&opened.path).ok().flatten() } else { None };
    match mounted.filter(|shared| Identity::of(&opened.file).is_ok_and(|identity| identity == shared.identity)) {
        Some(shared) => Fit::Shared(shared, opened.file),
        None => Fit::Own(opened),
    }
}

impl Fit {
    fn about(&self) -> &About {
        match self {
            Self::Own(opened) => &opened.about,
            Self::Shared(shared, _) => &shared.about,
        }
    }

    /// The image's file, open, and its path.
    fn file(&self) -> (&File, &Path) {
        match self {
            Self::Own(opened) => (&opened.file, &opened.path),
            Self::Shared(shared, file) => (file, &shared.image),
        }
    }

    fn cover(self, besides: &Covers) -> Result<()> {
        match self {
            Self::Own(opened) => cover(&opened, besides),
            Self::Shared(shared, _) => cover_from(&shared, besides),
        }
    }
}

/// Becomes the program, with the image over its directory where that is possible; else `complain` hears why, and it
/// starts with the directory as it is. Returns only if there is no program.
///
/// # Errors
/// The user cannot be had: the program must not run as another one.
pub fn start(asked: &Start<'_>, complain: &dyn Fn(&Error)) -> Result<NoProgram> {
    let account = asked.user.account()?;
    let fit = match rustix::process::geteuid().is_root() {
        true => {
            let account = account.as_ref();
            own(asked.image, asked.check_all, asked.of, account).map(|opened| of_root(opened, account))
        }
        false => shared(asked.image, asked.check_all, asked.of),
    };
    let mut manifest = fit.as_ref().map(reads).unwrap_or_default();
    if let Some(also) = asked.also {
        match also_read(also, fit.as_ref().ok()) {
            // Libraries, most of it: the loader wants them first.
            Ok(also) => manifest = behind(also, manifest),
            Err(error) => complain(&error),
        }
    }
    // Opened before anything lies over anything, and before the program's user may not open it.
    let mut prepared = preload::run::prepare(&manifest, Engine::ReadAhead, Window::usual(Order::FirstUse, true));
    let (has_image, is_asked) = (fit.is_ok(), asked.also.is_some());
    let covered = fit.and_then(|fit| fit.cover(&asked.besides.with_image));
    if let Err(error) = &covered {
        complain(error);
        if let Err(cause) = asked.besides.without_image() {
            let what = "cannot put the changed copies over the files of";
            complain(&Error::new(Exit::Machine, what, shown(Path::new(&asked.command[0]))).because(cause));
        }
    }
    if let Some(account) = &account {
        account.become_it()?;
    }
    let program = match Program::find(asked.command) {
        Ok(program) => program,
        Err(failed) => return Ok(failed),
    };
    let program = match &account {
        Some(account) if !asked.keeps_environment => program.with_changes(&account.environment()),
        _ => program,
    };
    Ok(program.start(|| {
        if covered.is_ok() || is_asked && !has_image {
            let _ = prepared.ask();
        }
    }))
}

/// A manifest, without what the image has.
fn also_read(path: &Path, fit: Option<&Fit>) -> Result<Manifest> {
    let mut also = Manifest::read(path)?;
    if let Some(fit) = fit {
        let origin = &fit.about().origin;
        let directory = Path::new(&origin.directory);
        also.retain(|entry| entry.kind == Kind::Device || !entry.path.starts_with(directory));
        if !origin.trees.is_empty() {
            let known = Opened::open(fit.file().1)?.contents()?.1.tree.by_name();
            let below = |path: &Path| path.strip_prefix("/").is_ok_and(|name| known.contains_key(name));
            also.retain(|entry| entry.kind == Kind::Device || !below(&entry.path));
        }
    }
    Ok(also)
}

/// One manifest behind another.
fn behind(mut first: Manifest, then: Manifest) -> Manifest {
    let (files, ranks) = (first.files.len() as u32, first.reads.iter().map(|read| read.rank + 1).max().unwrap_or(0));
    let moved = |read: Read| Read { file: FileIndex(read.file.0 + files), rank: read.rank + ranks, ..read };
    first.reads.extend(then.reads.into_iter().map(moved));
    first.files.extend(then.files);
    first
}

/// Whether root could put the image over its directory now, for a program of this user: done where nobody sees it.
///
/// # Errors
/// Why not.
pub fn try_out(path: &Path, user: &Choice) -> Result<()> {
    let account = user.account()?;
    let opened = own(path, false, Of::Directory, account.as_ref())?;
    let tried = || mount::over(&opened, trust(path), &[Way::File, Way::Loop]).map(drop);
    // The namespace is that thread's, and ends with it.
    let thread = std::thread::scope(|scope| scope.spawn(tried).join());
    thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whom the files of an image are trusted as.
pub fn trust(image: &Path) -> Trust {
    if who_else_changes(image).is_none() { Trust::Root } else { Trust::Other }
}

/// The image as it is mounted for all users. What the kernel interprets was checked before that; what is left to see is
/// that the directory is as it was.
fn shared(path: &Path, check_all: bool, of: Of) -> Result<Fit> {
    let shared = shared::of(path)?.ok_or_else(|| not_mounted(path))?;
    let unreadable = |cause| Error::on(Exit::of_unreadable(&cause), "cannot open the image", path).because(cause);
    let file = os::file::open_regular(&shared.image).map_err(unreadable)?;
    if Identity::of(&file).map_err(unreadable)? != shared.identity {
        return Err(Error::on(Exit::Data, "the image was changed since it was mounted for all users:", path)
            .hint(format!("sudo thaw image unmount {0}; sudo thaw image mount {0}", shown(path))));
    }
    if check_all {
        Opened::open(path)?.check_data()?;
    }
    let origin = &shared.about.origin;
    let directory = Path::new(&origin.directory);
    // Of one directory the note tells enough.
    let is_as_it_was = of == Of::Unchanged
        || origin.trees.is_empty() && Tree::walk(directory, Detail::Names)?.sum() == shared.about.tree_sum.0;
    if !is_as_it_was {
        let opened = Opened::open(path)?;
        let known = opened.contents()?.1.tree;
        if let Some(what) = check::changed_since(&opened, &known, of)? {
            return Err(changed(directory, what));
        }
    }
    Ok(Fit::Shared(shared, file))
}

/// Why nobody but root starts from an image that is mounted for all users; `None`: anybody may.
pub(super) fn refused(image: &Path) -> Option<Error> {
    shared(image, false, Of::Directory).err()
}

/// As [`cover`], from where it is mounted: an ordinary user in a namespace of users of this process's own. Nothing is
/// read around faults on it anyway.
fn cover_from(shared: &Shared, besides: &Covers) -> Result<()> {
    let origin = &shared.about.origin;
    let here = below_covered(origin);
    let covers = covers(origin, &shared.place())?;
    let others = || besides.cover().map_err(std::io::Error::from_raw_os_error);
    let covered =
        covers.enter_as_caller().and_then(|()| others()).and_then(|()| here.map_or(Ok(()), std::env::set_current_dir));
    covered.map_err(|cause| {
        besides.uncover();
        covers.uncover();
        Error::on(Exit::Machine, "this user cannot put the image over its directory:", Path::new(&origin.directory))
            .because(cause)
            .hint("this needs namespaces of users, which some systems forbid (docs/image.md)")
    })
}

/// Where this process is, if that is covered by an image of this origin and so another directory afterwards.
fn below_covered(origin: &Origin) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    origin.places().any(|place| here.starts_with(place)).then_some(here)
}

fn changed(directory: &Path, what: String) -> Error {
    Error::on(Exit::Data, "its directory was changed since the image was made:", directory)
        .because(what)
        .hint("record the program again, then `thaw image make`; until then --like takes over the old order")
}

/// The image, if root may put it over its directory now.
fn own(path: &Path, check_all: bool, of: Of, account: Option<&Account>) -> Result<Opened> {
    if let Some((part, who)) = who_changes_but(path, account) {
        return Err(Error::on(Exit::Data, "somebody else can change the image", path)
            .because(format!("{}: {who}", shown(&part)))
            .hint("keep it where only root, or who starts the program, can write"));
    }
    let opened = Opened::open(path)?;
    if check_all {
        opened.check_data()?;
    }
    check_now(&opened, of)?;
    Ok(opened)
}

/// Sees that an image may be mounted now.
///
/// # Errors
/// What the kernel would interpret of it is damaged; its directory is not as it was.
pub(super) fn check_now(opened: &Opened, of: Of) -> Result<()> {
    if of == Of::Directory && !opened.about.places.is_empty() {
        // Asked for at once; looking at the directory waits for each as it needs it.
        preload::run::prepare(&directories(&opened.about), Engine::ReadAhead, Window::All);
    }
    let (image, contents) = opened.contents()?;
    // The kernel gets nothing that thaw's own reader refuses.
    check::unused(opened, (&image, &contents))?;
    let directory = Path::new(&opened.about.origin.directory);
    if let Some(what) = check::changed_since(opened, &contents.tree, of)? {
        return Err(changed(directory, what));
    }
    Ok(())
}

/// Puts the image over its directory, and copies over other files, for this process and what it becomes, and has
/// nothing read around faults on the image until the start is over.
fn cover(opened: &Opened, besides: &Covers) -> Result<()> {
    let origin = &opened.about.origin;
    let here = below_covered(origin);
    let trust = trust(&opened.path);
    let mut read_around = mount::over(opened, trust, &[Way::File, Way::Loop])?;
    let settled = || {
        besides.cover().map_err(std::io::Error::from_raw_os_error)?;
        read_around.off()?;
        let program = pidfd_open(getpid(), PidfdFlags::empty())?;
        here.map_or(Ok(()), std::env::set_current_dir)?;
        let mut read_around = Some(read_around);
        let beside = os::aside::aside(|| read_around.take().into_iter().for_each(|it| it.back_after(program.as_fd())));
        if beside.is_ok() {
            // It is the other process's to put back.
            std::mem::forget(read_around);
        }
        beside.map_err(std::io::Error::other)?;
        if trust == Trust::Other {
            // A program with rights of its own would go by what somebody put there: libraries, lists of users.
            set_no_new_privs(true)?;
        }
        Ok(())
    };
    settled().map_err(|cause: std::io::Error| {
        besides.uncover();
        mount::uncover_all(origin);
        Error::on(Exit::Machine, "cannot set up a start with the image", &opened.path).because(cause)
    })
}

/// The stretch of an image that a start needs, as reads.
fn reads(fit: &Fit) -> Manifest {
    let ((file, path), image) = (fit.file(), fit.about());
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Its sums were compared: there is nothing else to compare.
    reads_of(Kind::Changing, file.metadata(), path, [(0, image.start.0)])
}

/// The blocks of the image's directory on its disk, as reads.
fn directories(image: &About) -> Manifest {
    let path = Path::new(&image.origin.directory);
    let places = image.places.iter().map(|(at, len)| (at.0, len.0));
    reads_of(Kind::Device, path.metadata(), path.to_owned(), places)
}

/// Stretches of a file, or of the device under it, in this order.
fn reads_of(
    kind: Kind,
    about: std::io::Result<std::fs::Metadata>,
    path: PathBuf,
    stretches: impl IntoIterator<Item = (u64, u64)>,
) -> Manifest {
    let (dev, ino, size) = about.map_or((0, 0, 0), |about| (about.dev(), about.ino(), about.len()));
    let entry = Entry { kind, dev, ino, size: Bytes(size), mtime_ns: 0, identity: None, path };
    let longest = manifest::LONGEST.0;
    let pieces = stretches.into_iter().flat_map(|(from, len)| {
        let ends = from.saturating_add(len);
        (from..ends).step_by(longest as usize).map(move |at| (at, longest.min(ends - at)))
    });
    let reads = pieces.zip(0..).map(|((at, len), rank)| Read {
        file: FileIndex(0),
        offset: FileOffset(at),
        len: Bytes(len),
        rank,
    });
    let about = manifest::About { order: Order::FirstUse, ..manifest::About::default() };
    Manifest { about, files: vec![entry], reads: reads.collect() }
}
