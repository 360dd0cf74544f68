//! Which directories have a cache of the files in them or elsewhere, what builds it, and whether a start that read
//! such files one by one lacks it. Looks at directories; builds nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a cache is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Fonts, by fontconfig.
    Fonts,
    /// Modules of GIO.
    Modules,
    /// A theme of icons, by GTK.
    Icons,
    /// File types, of shared-mime-info.
    Types,
    /// Desktop entries by file type.
    Entries,
    /// Locales, by glibc.
    Locales,
}

/// A cache that a start lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// What of.
    pub kind: Kind,
    /// The directory in which it is built.
    pub directory: PathBuf,
    /// How many files the start read in its place.
    pub read: usize,
    /// What builds it: a program and its arguments.
    pub command: Vec<OsString>,
}

impl Kind {
    /// In answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fonts => "fonts",
            Self::Modules => "GIO modules",
            Self::Icons => "icons",
            Self::Types => "file types",
            Self::Entries => "desktop entries",
            Self::Locales => "locales",
        }
    }

    /// What reads files one by one has read at least so many of them.
    fn least(self) -> usize {
        match self {
            Self::Fonts | Self::Entries | Self::Locales => 8,
            Self::Modules => 2,
            // Their directories are read, not their files.
            Self::Icons | Self::Types => 1,
        }
    }

    /// The file that is as new as its directory where the cache is fresh; `None`: others than its tool cannot say.
    fn file(self) -> Option<&'static str> {
        match self {
            Self::Fonts | Self::Locales => None,
            Self::Modules => Some("giomodule.cache"),
            Self::Icons => Some("icon-theme.cache"),
            Self::Types => Some("mime.cache"),
            Self::Entries => Some("mimeinfo.cache"),
        }
    }

    fn is_fresh(self, directory: &Path) -> bool {
        let changed = |path: &Path| path.metadata().ok().map(|about| about.mtime());
        let Some(file) = self.file() else { return false };
        changed(&directory.join(file)).is_some_and(|cache| Some(cache) >= changed(directory))
    }

    fn command(self, directory: &Path, locales: &[&Path]) -> Vec<OsString> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let of_directory = |program: &[&str]| words(program).into_iter().chain([directory.into()]).collect();
        match self {
            // It goes by its configuration.
            Self::Fonts => words(&["fc-cache"]),
            Self::Modules => of_directory(&["gio-querymodules"]),
            Self::Icons => of_directory(&["gtk-update-icon-cache", "--quiet", "--ignore-theme-index"]),
            Self::Types => of_directory(&["update-mime-database"]),
            Self::Entries => of_directory(&["update-desktop-database", "--quiet"]),
            Self::Locales => {
                let all = locales.iter().map(|locale| locale.as_os_str().to_owned());
                words(&["localedef", "--quiet", "--add-to-archive"]).into_iter().chain(all).collect()
            }
        }
    }
}

/// What a file says of a cache that is not there: of what, and the directory of that.
fn sign(path: &Path) -> Option<(Kind, PathBuf)> {
    const FONTS: [&str; 7] = ["ttf", "otf", "ttc", "pfb", "pcf", "gz", "woff"];
    let (parent, name) = (path.parent()?, path.file_name()?.to_str()?);
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let below = |name: &str| path.ancestors().skip(1).find(|above| above.file_name() == Some(OsStr::new(name)));
    if ending == "so" && parent.ends_with("gio/modules") {
        return Some((Kind::Modules, parent.to_owned()));
    }
    if parent.ends_with("mime") && matches!(name, "globs2" | "globs" | "magic" | "aliases" | "subclasses") {
        return Some((Kind::Types, parent.to_owned()));
    }
    if ending == "desktop" && parent.ends_with("applications") {
        return Some((Kind::Entries, parent.to_owned()));
    }
    if matches!(ending, "png" | "svg" | "xpm" | "theme") && below("icons").is_some() {
        let icons = below("icons")?;
        let theme = icons.join(path.strip_prefix(icons).ok()?.components().next()?);
        return (theme != path).then_some((Kind::Icons, theme));
    }
    if name.starts_with("LC_") || name == "SYS_LC_MESSAGES" {
        let locale = if name == "SYS_LC_MESSAGES" { parent.parent()? } else { parent };
        return locale
            .parent()
            .filter(|above| above.ends_with("lib/locale"))
            .map(|_| (Kind::Locales, locale.to_owned()));
    }
    (FONTS.contains(&ending) && (ending != "gz" || name.ends_with(".pcf.gz"))).then(|| (Kind::Fonts, PathBuf::new()))
}

/// The caches that a start lacks which read these files. `fonts`: where fontconfig keeps its caches.
pub fn lacking<'a>(read: impl IntoIterator<Item = &'a Path>, fonts: Option<&Path>) -> Vec<Lacking> {
    let mut signs: BTreeMap<(Kind, PathBuf), usize> = BTreeMap::new();
    for sign in read.into_iter().filter_map(sign) {
        *signs.entry(sign).or_default() += 1;
    }
    // All locales go into one archive beside them.
    let is_whole = |((kind, _), count): &(&(Kind, PathBuf), &usize)| **count >= kind.least();
    let whole: Vec<_> = signs.iter().filter(is_whole).collect();
    let mut found: Vec<Lacking> = Vec::new();
    for ((kind, directory), count) in &whole {
        let place = match kind {
            Kind::Fonts => fonts,
            Kind::Locales => directory.parent(),
            _ => Some(&**directory),
        };
        let Some(place) = place.filter(|place| place.is_dir() && !kind.is_fresh(place)) else { continue };
        let locales = || {
            let below = whole.iter().filter(|((other, at), _)| *other == Kind::Locales && at.parent() == Some(place));
            below.map(|((_, at), _)| &**at).collect::<Vec<_>>()
        };
        match found.iter_mut().find(|one| one.kind == *kind && one.directory == place) {
            Some(same) => same.read += **count,
            None => found.push(Lacking {
                kind: *kind,
                directory: place.to_owned(),
                read: **count,
                command: kind.command(place, &locales()),
            }),
        }
    }
    found
}

/// The directories of caches that a configuration of fontconfig names, in its order. `xdg`: where users have caches.
pub fn font_caches(configuration: &str, xdg: &Path) -> Vec<PathBuf> {
    let mut rest = configuration;
    let mut found = Vec::new();
    // What is commented out is not meant.
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("<!--") {
        text.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    for element in text.split("<cachedir").skip(1) {
        let Some((attributes, after)) = element.split_once('>') else { continue };
        let Some((directory, _)) = after.split_once("</cachedir>") else { continue };
        let directory = directory.trim();
        found.push(match (attributes.contains("\"xdg\""), directory.strip_prefix('~')) {
            (true, _) => xdg.join(directory),
            (false, Some(_)) => continue,
            (false, None) => directory.into(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn caches_that_are_not_there_or_older_than_their_directory_are_lacking() {
        let home = tempfile::tempdir().unwrap();
        let modules = home.path().join("lib/gio/modules");
        fs::create_dir_all(&modules).unwrap();
        let files = [modules.join("liba.so"), modules.join("libb.so")];
        let read = |files: &[PathBuf]| lacking(files.iter().map(|file| &**file), None);
        let found = read(&files);
        assert_eq!((found.len(), found[0].kind, found[0].read), (1, Kind::Modules, 2));
        assert_eq!(found[0].command, ["gio-querymodules".into(), modules.clone().into_os_string()]);
        assert_eq!(read(&files[..1]), [], "one module is what a program with a cache reads too");
        fs::write(modules.join("giomodule.cache"), "").unwrap();
        assert_eq!(read(&files), [], "it is fresh");
        let old = fs::File::open(modules.join("giomodule.cache")).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(read(&files).len(), 1, "it is stale");
    }

    #[test]
    fn files_tell_what_they_are_of() {
        let sign = |path: &str| sign(Path::new(path)).map(|(kind, at)| (kind, at.to_string_lossy().into_owned()));
        let is = |kind, at: &str| Some((kind, at.to_owned()));
        assert_eq!(sign("/usr/share/fonts/truetype/a.ttf"), is(Kind::Fonts, ""));
        assert_eq!(sign("/usr/share/fonts/X11/misc/6x13.pcf.gz"), is(Kind::Fonts, ""));
        assert_eq!(sign("/usr/share/doc/a.gz"), None);
        assert_eq!(sign("/usr/share/icons/Adwaita/16x16/a.png"), is(Kind::Icons, "/usr/share/icons/Adwaita"));
        assert_eq!(sign("/usr/share/icons/a.png"), None);
        assert_eq!(sign("/opt/app/a.png"), None);
        assert_eq!(sign("/usr/share/mime/globs2"), is(Kind::Types, "/usr/share/mime"));
        assert_eq!(sign("/usr/share/applications/a.desktop"), is(Kind::Entries, "/usr/share/applications"));
        let locale = is(Kind::Locales, "/usr/lib/locale/C.utf8");
        assert_eq!(sign("/usr/lib/locale/C.utf8/LC_CTYPE"), locale);
        assert_eq!(sign("/usr/lib/locale/C.utf8/LC_MESSAGES/SYS_LC_MESSAGES"), locale);
        assert_eq!(sign("/home/u/LC_NOTES"), None);
    }

    #[test]
    fn all_locales_that_were_read_go_into_one_archive() {
        let home = tempfile::tempdir().unwrap();
        let locales = home.path().join("lib/locale");
        fs::create_dir_all(&locales).unwrap();
        let of = |name: &str| (0..8).map(|number| locales.join(name).join(format!("LC_{number}"))).collect::<Vec<_>>();
        let files = [of("de_DE.utf8"), of("C.utf8")].concat();
        let found = lacking(files.iter().map(|file| &**file), None);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.kind, &one.directory, one.read), (Kind::Locales, &locales, 16));
        assert_eq!(one.command[3..], [locales.join("C.utf8"), locales.join("de_DE.utf8")]);
    }

    #[test]
    fn fontconfig_says_where_its_caches_are() {
        let text = "<fontconfig><!-- <cachedir>/no</cachedir> -->\n<cachedir>/var/cache/fontconfig</cachedir>\n\
                    <cachedir prefix=\"xdg\">fontconfig</cachedir><cachedir>~/.fontconfig</cachedir></fontconfig>";
        let found = font_caches(text, Path::new("/home/u/.cache"));
        assert_eq!(found, [Path::new("/var/cache/fontconfig"), Path::new("/home/u/.cache/fontconfig")]);
        assert_eq!(font_caches("<cachedir>", Path::new("/x")), Vec::<PathBuf>::new());
        let home = tempfile::tempdir().unwrap();
        let fonts: Vec<PathBuf> = (0..8).map(|number| format!("/f/{number}.ttf").into()).collect();
        let found = lacking(fonts.iter().map(|font| &**font), Some(home.path()));
        assert_eq!((found.len(), &found[0].directory), (1, &home.path().to_owned()));
        assert_eq!(lacking(fonts.iter().map(|font| &**font), None), [], "there is no place for it");
    }
}
