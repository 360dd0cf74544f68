//! Which loader will run a packed file, and whether it applies DT_RELR. The loader that a file names decides, read in
//! the root of the system that the file is for; glibc says by itself what it knows, and locks other files out; musl has
//! no such lock, so that an older one runs the file with words that nobody relocated.

use crate::home::{GLIBC, Home, MUSL, Version};
use crate::image::{Image, Machine, part};
use crate::report::{Loader, Reason, VersionNeed};
use crate::stop::{Stop, refuse, refuse_with_hint};
use object::elf::PT_INTERP;
use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the file of a loader says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Glibc { version: Option<String>, applies: bool },
    Musl(Option<Version>),
    Unknown,
}

const INIT: &str = "`--backend init` packs for such loaders";

/// Refuses what the loader at its home could not start, or would start wrongly.
///
/// # Errors
/// A refusal: [`Reason::OldLoader`], [`Reason::UnknownLoader`].
pub fn judge(image: &Image<'_>, loader: Loader, need: VersionNeed, home: &Home) -> Result<(), Stop> {
    let foreign = |own: &str, other: &str| {
        Err(refuse(Reason::UnknownLoader, format!("its loader is {own}'s, and `--for` names {other}")))
    };
    match home {
        Home::Any => Ok(()),
        Home::Glibc(_) if loader == Loader::Musl => foreign("musl", "glibc"),
        Home::Musl(_) if loader == Loader::Glibc => foreign("glibc", "musl"),
        Home::Glibc(version) if *version < GLIBC => Err(too_old("glibc", version, GLIBC)),
        Home::Musl(version) if *version < MUSL => Err(too_old("musl", version, MUSL)),
        Home::Glibc(_) | Home::Musl(_) => Ok(()),
        Home::Root(root) => judge_in(root, image, loader, need),
    }
}

fn too_old(name: &str, version: &Version, first: Version) -> Stop {
    let sentence = format!("{name} {version} does not apply DT_RELR ({name} does from {first} on)");
    refuse_with_hint(Reason::OldLoader, sentence, INIT)
}

fn judge_in(root: &Path, image: &Image<'_>, loader: Loader, need: VersionNeed) -> Result<(), Stop> {
    let paths = paths(image, loader);
    let Some((path, bytes)) = paths.iter().find_map(|path| Some((path, read_in(root, path)?))) else {
        // An older glibc refuses the file by its version need; nothing keeps another loader from running it.
        if loader == Loader::Glibc && need != VersionNeed::NotNeeded {
            return Ok(());
        }
        let path = paths.first().map_or_else(String::new, |path| format!(" '{}'", path.display()));
        let sentence = format!("whether its loader{path} applies DT_RELR is unknown: it is not in {}", root.display());
        let hint = "`--root DIR` names the system that it is for, `--for musl:1.2.4` or `--for glibc:2.36` its loader; \
                    `--backend init` packs for any";
        return Err(refuse_with_hint(Reason::OldLoader, sentence, hint));
    };
    let shown = root.join(path.strip_prefix("/").unwrap_or(path));
    let shown = shown.display();
    match recognise(&bytes) {
        Found::Glibc { applies: true, .. } => Ok(()),
        Found::Musl(Some(version)) if version >= MUSL => Ok(()),
        Found::Glibc { version, .. } => {
            let version = version.map_or_else(|| "before 2.36".to_owned(), |version| version.to_string());
            let sentence = format!("its loader '{shown}' does not apply DT_RELR (glibc {version})");
            Err(refuse_with_hint(Reason::OldLoader, sentence, INIT))
        }
        Found::Musl(Some(version)) => {
            let sentence =
                format!("its loader '{shown}' does not apply DT_RELR (musl {version}; it does from 1.2.4 on)");
            Err(refuse_with_hint(Reason::OldLoader, sentence, INIT))
        }
        Found::Musl(None) => {
            let sentence =
                format!("whether its loader '{shown}' applies DT_RELR is unknown: it is a musl of no known version");
            Err(refuse_with_hint(Reason::OldLoader, sentence, format!("`--for musl:1.2.4` if it does; {INIT}")))
        }
        Found::Unknown => {
            let sentence = format!("its loader '{shown}' is neither glibc's nor musl's");
            Err(refuse_with_hint(Reason::UnknownLoader, sentence, "`--for any` if it applies DT_RELR"))
        }
    }
}

/// Where the loader lies: as the file says, else where the C library that it is for puts it.
fn paths(image: &Image<'_>, loader: Loader) -> Vec<PathBuf> {
    if let Some(interpreter) = image.segment(PT_INTERP) {
        let path = part(image.bytes, interpreter.offset, interpreter.filesz).unwrap_or_default();
        let path = path.strip_suffix(b"\0").unwrap_or(path);
        return vec![PathBuf::from(std::ffi::OsStr::from_bytes(path))];
    }
    let (glibc, musl): (&[&str], &[&str]) = match image.machine {
        Machine::X86_64 => (&["/lib64/ld-linux-x86-64.so.2"], &["/lib/ld-musl-x86_64.so.1"]),
        Machine::I386 => (&["/lib/ld-linux.so.2"], &["/lib/ld-musl-i386.so.1"]),
        Machine::Aarch64 => (&["/lib/ld-linux-aarch64.so.1"], &["/lib/ld-musl-aarch64.so.1"]),
        Machine::Arm => {
            (&["/lib/ld-linux-armhf.so.3", "/lib/ld-linux.so.3"], &["/lib/ld-musl-armhf.so.1", "/lib/ld-musl-arm.so.1"])
        }
    };
    let both = [glibc, musl];
    let own: &[&[&str]] = match loader {
        Loader::Glibc => &both[..1],
        Loader::Musl => &both[1..],
        // The system's own comes first: a library that needs no C library does not say whose it is.
        Loader::Either => &both,
    };
    own.iter().flat_map(|paths| paths.iter().map(PathBuf::from)).collect()
}

/// Longest loader that is read; musl's, which is all of its C library, has less than a megabyte.
const MOST: u64 = 64 << 20;

/// A file of the system below a root, whose absolute links stay below it.
fn read_in(root: &Path, path: &Path) -> Option<Vec<u8>> {
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let file = os::file::open_below(root, path).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn recognise(loader: &[u8]) -> Found {
    let has = |text: &[u8]| memchr::memmem::find(loader, text);
    if has(b"musl libc (").is_some() {
        let texts = loader.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        // A build from its repository calls itself 1.2.3-git-12-gabcdef: that is after 1.2.3, and may have it or not.
        let mut versions: Vec<Version> = texts
            .map(|text| text.split_once("-git-").map_or(text, |(release, _)| release))
            .filter(|text| text.split('.').count() == 3)
            .filter_map(|text| text.parse().ok())
            .collect();
        versions.sort_unstable();
        versions.dedup();
        return Found::Musl(if let [version] = versions[..] { Some(version) } else { None });
    }
    // It names the version need in its error message, if it knows it; distributions have it in older versions, too.
    let applies = has(crate::versions::NAME).is_some();
    let version = [&b"stable release version "[..], b"development release version "].iter().find_map(|mark| {
        let after = &loader[has(mark)? + mark.len()..];
        let end = after.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        std::str::from_utf8(&after[..end]).ok().map(|text| text.trim_end_matches('.').to_owned())
    });
    match version {
        None if has(b"GLIBC_").is_none() => Found::Unknown,
        version => Found::Glibc { version, applies },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_say_who_they_are() {
        let musl = |version: &str| recognise(format!("\0x\0musl libc (x86_64)\nVersion %s\0{version}\0y\0").as_bytes());
        assert_eq!(musl("1.2.3"), Found::Musl(Some(Version(1, 2, 3))));
        assert_eq!(musl("1.2.3-git-20-gabcdef0"), Found::Musl(Some(Version(1, 2, 3))));
        assert_eq!(musl("1.2.5"), Found::Musl(Some(Version(1, 2, 5))));
        assert_eq!(musl("1.2.3\x001.2.5"), Found::Musl(None));
        assert_eq!(musl("none"), Found::Musl(None));
        let glibc = |text: &str| recognise(format!("GLIBC_2.2.5\0{text}").as_bytes());
        let old = glibc("ld.so (GNU libc) stable release version 2.31.\n");
        assert_eq!(old, Found::Glibc { version: Some("2.31".to_owned()), applies: false });
        let backported = glibc("stable release version 2.34.\0GLIBC_ABI_DT_RELR\0");
        assert_eq!(backported, Found::Glibc { version: Some("2.34".to_owned()), applies: true });
        assert_eq!(recognise(b"something else"), Found::Unknown);
    }
}
