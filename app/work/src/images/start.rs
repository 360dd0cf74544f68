//! A program starts with an image over its directory. Root mounts it for this program alone; anybody else gets it where
//! it is mounted for all users. Whatever is in the way, the program starts from its directory.

use image::about::About;
use image::check::{self, Of, Opened};
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
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
}

/// An image that may be put over its directory now.
enum Fit {
    /// By root, who mounts it.
    Own(Opened),
    /// By anybody, who gets it from where it is mounted.
    Shared(Shared, File),
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

    fn cover(self) -> Result<()> {
        match self {
            Self::Own(opened) => cover(&opened),
            Self::Shared(shared, _) => cover_from(&shared),
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
        true => own(asked, account.as_ref()).map(Fit::Own),
        false => shared(asked.image, asked.check_all, asked.of),
    };
    let manifest = fit.as_ref().map(reads).unwrap_or_default();
    // Opened before anything lies over anything, and before the program's user may not open it.
    let mut prepared = preload::run::prepare(&manifest, Engine::ReadAhead, Window::usual(Order::FirstUse, true));
    let covered = fit.and_then(Fit::cover);
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
    let directory = Path::new(&shared.about.origin.directory);
    if Tree::walk(directory, Detail::Names)?.sum() != shared.about.tree_sum.0 {
        // What exactly, only the image knows.
        if let Some(what) = check::changed_since(&Opened::open(path)?, directory, of)? {
            return Err(changed(directory, what));
        }
    }
    Ok(Fit::Shared(shared, file))
}

/// Why nobody but root starts from an image that is mounted for all users; `None`: anybody may.
pub(super) fn refused(image: &Path) -> Option<Error> {
    shared(image, false, Of::Directory).err()
}

/// As [`cover`], from where it is mounted: in a namespace of users of this process's own. Nothing is read around faults
/// on it anyway.
fn cover_from(shared: &Shared) -> Result<()> {
    let directory = Path::new(&shared.about.origin.directory);
    let here = std::env::current_dir().ok().filter(|here| here.starts_with(directory));
    let covers = Covers::new([(&*shared.place(), directory)])?;
    let covered = covers.enter_as_user().and_then(|()| here.map_or(Ok(()), std::env::set_current_dir));
    covered.map_err(|cause| {
        covers.uncover();
        Error::on(Exit::Machine, "this user cannot put the image over its directory:", directory)
            .because(cause)
            .hint("this needs namespaces of users, which some systems forbid (docs/image.md)")
    })
}

fn changed(directory: &Path, what: String) -> Error {
    Error::on(Exit::Data, "its directory was changed since the image was made:", directory)
        .because(what)
        .hint("record the program again, then `thaw image make`")
}

/// The image, if root may put it over its directory now.
fn own(asked: &Start<'_>, account: Option<&Account>) -> Result<Opened> {
    let path = asked.image;
    if let Some((part, who)) = who_changes_but(path, account) {
        return Err(Error::on(Exit::Data, "somebody else can change the image", path)
            .because(format!("{}: {who}", shown(&part)))
            .hint("keep it where only root, or who starts the program, can write"));
    }
    let opened = Opened::open(path)?;
    if asked.check_all {
        opened.check_data()?;
    }
    check_now(&opened, asked.of)?;
    Ok(opened)
}

/// Sees that an image may be mounted now.
///
/// # Errors
/// What the kernel would interpret of it is damaged; its directory is not as it was.
pub(super) fn check_now(opened: &Opened, of: Of) -> Result<()> {
    let (image, contents) = opened.contents()?;
    // The kernel gets nothing that thaw's own reader refuses.
    check::unused(opened, (&image, &contents))?;
    let directory = Path::new(&opened.about.origin.directory);
    if let Some(what) = check::changed_since(opened, directory, of)? {
        return Err(changed(directory, what));
    }
    Ok(())
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
fn reads(fit: &Fit) -> Manifest {
    let ((file, path), image) = (fit.file(), fit.about());
    let about = file.metadata();
    let (dev, ino) = about.map_or((0, 0), |about| (about.dev(), about.ino()));
    let entry = Entry {
        // Its sums were compared: there is nothing else to compare.
        kind: Kind::Changing,
        dev,
        ino,
        size: Bytes(image.image.0),
        mtime_ns: 0,
        identity: None,
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    };
    let end = image.start.0;
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
