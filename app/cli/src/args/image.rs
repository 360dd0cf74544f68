//! `thaw image`: what was typed, for each of its verbs.

use super::ForceArg;
use super::preload::Place;
use super::user::UserArgs;
use clap::{Args, Subcommand, ValueHint};
use image::write::Compression;
use os::installed::Subject;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `thaw image`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct ImageArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ImageVerb,
}

/// The verbs of `thaw image`.
#[derive(Debug, Subcommand)]
pub enum ImageVerb {
    /// How does a directory become an image in the order of a start?
    #[command(long_about = MAKE_ABOUT)]
    Make(MakeArgs),
    /// How much of an image does a start read, and how small is it?
    #[command(long_about = STAT_ABOUT)]
    Stat(FileArgs),
    /// Is an image whole, and does it hold what its directory holds?
    #[command(long_about = VERIFY_ABOUT)]
    Verify(VerifyArgs),
    /// What is in an image? (writes its files below a new directory)
    #[command(long_about = EXTRACT_ABOUT)]
    Extract(ExtractArgs),
    /// Does the program start faster from the image? (mounts it for this program alone)
    #[command(long_about = RUN_ABOUT)]
    Run(RunArgs),
    /// How does the program start from the image from now on? (a launcher, or a service of systemd)
    #[command(long_about = INSTALL_ABOUT)]
    Install(InstallArgs),
    /// How do I get rid of it again?
    #[command(long_about = UNINSTALL_ABOUT)]
    Uninstall(UninstallArgs),
    /// What starts from an image, and does it still?
    #[command(long_about = STATUS_ABOUT)]
    Status(StatusArgs),
    /// How do ordinary users start from an image? (mounts it for all, until the machine ends)
    #[command(long_about = MOUNT_ABOUT)]
    Mount(MountArgs),
    /// How is an image that is mounted for all users unmounted?
    #[command(long_about = UNMOUNT_ABOUT)]
    Unmount(UnmountArgs),
}

/// Arguments of `thaw image make`.
#[derive(Debug, Args)]
#[command(after_help = MAKE_EXAMPLES)]
pub struct MakeArgs {
    /// The program's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Recordings with cold, traced starts; what all of them needed lies first, then what some needed
    #[arg(long, required_unless_present = "like", num_args = 1.., value_name = "RECORDING",
        value_hint = ValueHint::FilePath)]
    pub from: Vec<PathBuf>,
    /// Other directories, such as those of its libraries: what the recorded starts need of them is in the image, too,
    /// and laid over them
    #[arg(long, num_args = 1.., conflicts_with = "like", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tree: Vec<PathBuf>,
    /// An older image of the directory, whose order is taken over by the names of files: after an upgrade, until the
    /// program is recorded again
    #[arg(long, conflicts_with_all = ["from", "variant"], value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub like: Option<PathBuf>,
    /// Where the image goes
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// zstd (Linux 6.10), with a level from 1 to 22, or lz4, which older kernels read too
    #[arg(long, value_name = "lz4|zstd|zstd:LEVEL", default_value = "zstd:15", value_parser = compression)]
    pub compression: Compression,
    /// Which of the recorded programs [default: the first]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

fn compression(text: &str) -> Result<Compression, String> {
    let level = match text {
        "lz4" => return Ok(Compression::Lz4),
        "zstd" => Some(15),
        _ => text.strip_prefix("zstd:").and_then(|level| level.parse().ok()).filter(|level| (1..=22).contains(level)),
    };
    level.map(Compression::Zstd).ok_or_else(|| "write lz4, zstd, or zstd:1 to zstd:22".to_owned())
}

/// Arguments of `thaw image stat`.
#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct FileArgs {
    /// The image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw image verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArgs {
    /// The image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// The directory to compare it with [default: the one that it was made of]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub against: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw image extract`.
#[derive(Debug, Args)]
#[command(after_help = EXTRACT_EXAMPLES)]
pub struct ExtractArgs {
    /// The image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// The new directory
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw image run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// The image; without a good one the program starts from its directory
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// Read and check all of the image before; without it, only what the kernel interprets as it mounts and looks for
    /// files
    #[arg(long)]
    pub check: bool,
    /// The directory is a copy of the one that the image was made of (another machine, a container's layer): compare
    /// its files by name, kind, mode, owner, size and date, not by when they were last changed
    #[arg(long)]
    pub copied: bool,
    /// The directory never changes (an image of a container, an appliance): do not look whether it is as it was, which
    /// costs a request for each directory with directories in it
    #[arg(long, conflicts_with = "copied")]
    pub unchanged: bool,
    /// Read this manifest of `thaw preload make` before, too; what it names in the image's directory is read of the
    /// image
    #[arg(long, value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub preload: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run_as: UserArgs,
}

/// Arguments of `thaw image install`.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub struct InstallArgs {
    /// The image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// A launcher: the desktop entry of this name, such as firefox-esr.desktop
    #[arg(long, value_name = "NAME.desktop", conflicts_with = "unit")]
    pub desktop: Option<String>,
    /// A service of systemd: its name without .service
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// For all users: a copy of the image is mounted now and at each boot; needs root
    #[arg(long)]
    pub system: bool,
}

/// Arguments of `thaw image uninstall`.
#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_EXAMPLES)]
pub struct UninstallArgs {
    /// The launcher
    #[arg(long, value_name = "NAME.desktop", conflicts_with_all = ["unit", "image"])]
    pub desktop: Option<String>,
    /// The service of systemd
    #[arg(long, value_name = "NAME", conflicts_with = "image")]
    pub unit: Option<String>,
    /// The image that is mounted at each boot: the name of its file without the ending
    #[arg(long, value_name = "NAME", requires = "system", required_unless_present_any = ["desktop", "unit"])]
    pub image: Option<String>,
    /// What was installed for all users; needs root
    #[arg(long)]
    pub system: bool,
}

impl InstallArgs {
    /// The launcher or service; `None`: the image alone.
    pub fn subject(&self) -> Option<Subject> {
        Place { desktop: self.desktop.clone(), unit: self.unit.clone() }.subject()
    }
}

impl UninstallArgs {
    /// What is named.
    pub fn subject(&self) -> Option<Subject> {
        let place = Place { desktop: self.desktop.clone(), unit: self.unit.clone() };
        place.subject().or_else(|| self.image.clone().map(Subject::Image))
    }
}

/// Arguments of `thaw image status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw image mount`.
#[derive(Debug, Args)]
#[command(after_help = MOUNT_EXAMPLES)]
pub struct MountArgs {
    /// The image, which only root can change
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
    /// Where its directory was changed (an upgrade), make the image anew in the order of the old one, and mount that
    #[arg(long)]
    pub remake: bool,
}

/// Arguments of `thaw image unmount`.
#[derive(Debug, Args)]
#[command(after_help = UNMOUNT_EXAMPLES)]
pub struct UnmountArgs {
    /// The image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
}

pub(super) const LONG_ABOUT: &str = "\
Can a program start from one small image of its directory, in the order of its start?

On a slow disk a start waits for requests and for bytes. An image holds the program's directory compressed, what a \
recorded start needs first and in the order of its first touch, so that one sequential read brings it. It is mounted \
over the directory for the program alone; the directory itself stays as it is.";

const EXAMPLES: &str = "\
Examples:
  thaw image make /usr/lib/firefox-esr --from ff.thaw -o ff.img
  thaw image verify ff.img
  sudo thaw image run ff.img -- firefox-esr";

const MAKE_ABOUT: &str = "\
How does a directory become an image in the order of a start?

Writes an EROFS image: metadata in front, then what all recorded starts need in the order of first touch, what some \
need, and the rest. It is read again and compared with the directory before it gets its name. Equal input gives equal \
bytes. Best from `thaw touch --engine page` or a recording with `--readahead 0`, and from several starts. With --tree \
it holds what starts need of other directories, too, and whatever else lies there is seen as ever.";

const MAKE_EXAMPLES: &str = "\
Examples:
  thaw image make /usr/lib/firefox-esr --from ff.thaw -o ff.img
  thaw image make /opt/app --tree /usr/lib /usr/share/fonts --from one.thaw two.thaw -o set.img
  thaw image make /opt/app --like app.img -o app.img --force";

const STAT_ABOUT: &str = "\
How much of an image does a start read, and how small is it?

Says of which directory it is, from which recordings its order comes, and which part of it starts need.";

const STAT_EXAMPLES: &str = "\
Examples:
  thaw image stat ff.img
  thaw image stat ff.img --json";

const VERIFY_ABOUT: &str = "\
Is an image whole, and does it hold what its directory holds?

Compares all sums, reads every file with thaw's own reader, and compares names, modes, owners, times, extended \
attributes, links, devices and content with the directory; as root also with what the kernel sees, mounted where \
nobody else sees it. Exit code 1: something differs. 5: the image is damaged.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  thaw image verify ff.img
  sudo thaw image verify ff.img
  thaw image verify ff.img --against /mnt/backup/firefox-esr";

const EXTRACT_ABOUT: &str = "\
What is in an image? (writes its files below a new directory)

With modes, times, links and extended attributes; as root with owners and devices. The directory appears whole or not \
at all.";

const EXTRACT_EXAMPLES: &str = "\
Examples:
  thaw image extract ff.img -o ff";

const RUN_ABOUT: &str = "\
Does the program start faster from the image? (mounts it for this program alone)

Needs root, by sudo (the program runs as who called it), or an image that is mounted for all users. Checks the image \
and that its directory is as it was, mounts \
it over the directory in a mount namespace of the program's own, has what the start needs read in one go beside it, \
and becomes the program: same process, arguments, environment and exit code. Whatever goes wrong, or was changed, the \
program starts from its directory, and a warning says why.";

const RUN_EXAMPLES: &str = "\
Examples:
  sudo thaw image run ff.img -- firefox-esr
  thaw image run ff.img --check -- firefox-esr --headless";

const INSTALL_ABOUT: &str = "\
How does the program start from the image from now on?

With --system a copy of the image is kept and mounted for all users at /run/thaw/images, now and by a unit of systemd \
at each boot; nothing is covered there. A launcher (a copy of the desktop entry) or a service (a drop-in of its unit) \
starts the program through `thaw-image`, which puts the image over the directory for that program alone: as an \
ordinary user in a namespace of users. Where the directory was changed, the program starts from it, and a warning \
says so. Without --system the launcher is this user's, of an image that is mounted for all. `thaw doctor` and `thaw \
image status` list what is installed.";

const INSTALL_EXAMPLES: &str = "\
Examples:
  sudo thaw image install ff.img --desktop firefox-esr.desktop --system
  sudo thaw image install lo.img --system
  thaw image install lo.img --desktop libreoffice-writer.desktop";

const UNINSTALL_ABOUT: &str = "\
How do I get rid of it again?

Removes what `install` wrote and puts back what was there before. A file that was changed since is kept and named. \
With the last launcher for all users its image goes too, unless that was installed by itself. What runs from an image \
keeps it until it ends.";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  sudo thaw image uninstall --desktop firefox-esr.desktop --system
  thaw image uninstall --desktop libreoffice-writer.desktop
  sudo thaw image uninstall --image lo --system";

const STATUS_ABOUT: &str = "\
What starts from an image, and does it still?

Lists images that are mounted for all users, or installed: whether the directory is as it was, what starts from them, \
which processes do so now. Exit code 1: something starts from its directory instead.";

const STATUS_EXAMPLES: &str = "\
Examples:
  thaw image status
  thaw image status --json | jq '.images[].problem'";

const MOUNT_ABOUT: &str = "\
How do ordinary users start from an image?

Checks the image and that its directory is as it was, and mounts it at /run/thaw/images, where nothing is covered, \
until the machine ends or it is unmounted. From then on `thaw image run` and `thaw-image` work without root. `thaw \
image install --system` has it mounted at each boot. Nothing in it has rights of its own (setuid, devices).";

const MOUNT_EXAMPLES: &str = "\
Examples:
  sudo thaw image mount /var/lib/images/ff.img
  thaw image run /var/lib/images/ff.img -- firefox-esr";

const UNMOUNT_ABOUT: &str = "\
How is an image that is mounted for all users unmounted?

Programs that run from it keep it until they end.";

const UNMOUNT_EXAMPLES: &str = "\
Examples:
  sudo thaw image unmount /var/lib/images/ff.img";
