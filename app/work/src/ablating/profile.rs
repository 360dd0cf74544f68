//! A profile that is ablated: what is in it, whether it stays as it was, and copies without some of its parts.

use ablate::factor::{Entry, Factor, Part};
use model::{Error, Exit, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What everything below a directory is, by its path: mode, size, and a hash of what is in it or where it points.
pub type Contents = BTreeMap<String, (u32, u64, [u8; 32])>;

/// A file of Firefox in which preferences are set at each start.
const USER_JS: &str = "user.js";

/// Names and sizes of all that is in a profile; links are not followed.
///
/// # Errors
/// It cannot be listed; a name that is no UTF-8, for which no factor could be written.
pub fn entries(profile: &Path) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    visit(profile, profile, &mut |path, meta| {
        let size = if meta.is_dir() { 0 } else { meta.len() };
        found.push(Entry { path: path.to_owned(), size });
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

/// What a profile holds now.
///
/// # Errors
/// Something in it cannot be read, or went away meanwhile.
pub fn contents(profile: &Path) -> Result<Contents> {
    let mut found = Contents::new();
    visit(profile, profile, &mut |path, meta| {
        let whole = profile.join(path);
        let cannot = |cause| Error::on(Exit::Machine, "cannot read", &whole).because(cause);
        let mut hash = Sha256::new();
        if meta.is_file() {
            let mut file = File::open(&whole).map_err(cannot)?;
            let mut buffer = vec![0; 1 << 16];
            loop {
                match file.read(&mut buffer).map_err(cannot)? {
                    0 => break,
                    read => hash.update(&buffer[..read]),
                }
            }
        } else if meta.is_symlink() {
            hash.update(std::fs::read_link(&whole).map_err(cannot)?.as_os_str().as_encoded_bytes());
        }
        let size = if meta.is_dir() { 0 } else { meta.len() };
        found.insert(path.to_owned(), (meta.mode(), size, hash.finalize().into()));
        Ok(())
    })?;
    Ok(found)
}

/// The first path at which two differ.
pub fn difference<'a>(one: &'a Contents, two: &'a Contents) -> Option<&'a str> {
    let missing = one.iter().find(|(path, what)| two.get(*path) != Some(what));
    missing.or_else(|| two.iter().find(|(path, _)| !one.contains_key(*path))).map(|(path, _)| path.as_str())
}

/// Copies a profile, and proves that the copy is what it was at first: `whole`.
///
/// # Errors
/// It changes while it is copied; no room.
pub fn copy(profile: &Path, whole: &Contents, to: &Path) -> Result<()> {
    os::tree::copy(profile, to)?;
    match difference(whole, &contents(to)?) {
        None => Ok(()),
        Some(path) => Err(Error::on(Exit::Data, "the profile changes while it is copied:", &profile.join(path))
            .hint("end the program that uses it, or ablate a copy: cp -a PROFILE COPY")),
    }
}

/// Takes factors out of a copy.
///
/// # Errors
/// Something cannot be removed or written.
pub fn take_out(copy: &Path, entries: &[Entry], factors: &[&Factor]) -> Result<()> {
    for factor in factors {
        for entry in factor.taken(entries) {
            os::tree::remove(&copy.join(&entry.path))?;
        }
    }
    // After the files: `user.js` may be one of them.
    let preferences: String = factors
        .iter()
        .flat_map(|factor| &factor.parts)
        .filter_map(|part| match part {
            Part::Pref(name, value) => Some(format!("user_pref(\"{name}\", {value});\n")),
            _ => None,
        })
        .collect();
    if preferences.is_empty() {
        return Ok(());
    }
    let path = copy.join(USER_JS);
    let add = || {
        let mut file = File::options().create(true).append(true).open(&path)?;
        file.write_all(preferences.as_bytes())
    };
    add().map_err(|cause| Error::on(Exit::Machine, "cannot write", &path).because(cause))
}

fn visit(root: &Path, directory: &Path, each: &mut dyn FnMut(&str, &std::fs::Metadata) -> Result<()>) -> Result<()> {
    let cannot = |path: &Path, cause: std::io::Error| Error::on(Exit::Machine, "cannot list", path).because(cause);
    let listed = std::fs::read_dir(directory).map_err(|cause| cannot(directory, cause))?;
    let mut paths: Vec<PathBuf> = listed
        .map(|entry| entry.map(|it| it.path()))
        .collect::<std::io::Result<_>>()
        .map_err(|cause| cannot(directory, cause))?;
    paths.sort();
    for path in paths {
        os::interrupt::check()?;
        let meta = path.symlink_metadata().map_err(|cause| cannot(&path, cause))?;
        let below = path.strip_prefix(root).ok().and_then(Path::to_str);
        let below =
            below.ok_or_else(|| Error::on(Exit::Usage, "this name is no UTF-8, and no factor can name it:", &path))?;
        each(below, &meta)?;
        if meta.is_dir() {
            visit(root, &path, each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lacks_what_was_taken_out_and_the_original_nothing() {
        let room = tempfile::tempdir().unwrap();
        let (profile, to) = (room.path().join("p"), room.path().join("c"));
        std::fs::create_dir_all(profile.join("cache/deep")).unwrap();
        for name in ["cache/deep/a", "cookies", "user.js"] {
            std::fs::write(profile.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", profile.join("lock")).unwrap();
        let whole = contents(&profile).unwrap();
        copy(&profile, &whole, &to).unwrap();
        let factors = ["c=cache,cookies", "p=pref:a.b=true,user.js"].map(|text| Factor::parse(text).unwrap());
        take_out(&to, &entries(&profile).unwrap(), &factors.iter().collect::<Vec<_>>()).unwrap();
        let names: Vec<String> = entries(&to).unwrap().into_iter().map(|entry| entry.path).collect();
        assert_eq!(names, ["lock", "user.js"]);
        assert_eq!(std::fs::read_to_string(to.join("user.js")).unwrap(), "user_pref(\"a.b\", true);\n");
        assert_eq!(difference(&whole, &contents(&profile).unwrap()), None);
    }

    #[test]
    fn what_changed_is_named() {
        let room = tempfile::tempdir().unwrap();
        let profile = room.path().join("p");
        std::fs::create_dir(&profile).unwrap();
        std::fs::write(profile.join("a"), "1").unwrap();
        let whole = contents(&profile).unwrap();
        std::fs::write(profile.join("a"), "2").unwrap();
        let error = copy(&profile, &whole, &room.path().join("c")).unwrap_err();
        assert!(error.to_string().contains("p/a") && error.to_string().contains("changes"), "{error}");
        std::fs::write(profile.join("a"), "1").unwrap();
        std::fs::write(profile.join("b"), "").unwrap();
        assert_eq!(difference(&whole, &contents(&profile).unwrap()), Some("b"));
    }
}
