//! Sees through overlays: a file of an overlay is a file of one of its layers, and it is the layer's pages that come
//! into memory.
//!
//! The trace names the layer's inode where pages come in, and the overlay's where a program maps the file. Both are
//! made one file, which is called as the program sees it.

use crate::raw::{Inode, RawTrace};
use model::{FileKind, FileRow, Nanos};
use os::mounts::{Mount, Mounts};
use std::{
    collections::{BTreeSet, HashMap},
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The overlays that are mounted.
pub(super) struct Overlays(Vec<Overlay>);

/// One mount of an overlay.
struct Overlay {
    point: PathBuf,
    /// Directory of the overlay that is mounted there.
    root: PathBuf,
    /// Directories that lie over each other, the uppermost first.
    layers: Vec<PathBuf>,
}

/// What was found out about the files of a trace that lie in layers.
#[derive(Default)]
pub(super) struct Layered {
    /// Inodes of overlays, with the layers' inodes that they stand for.
    pub(super) stands_for: HashMap<Inode, Inode>,
    /// The layers' files by their own names.
    pub(super) beneath: Vec<(Inode, PathBuf)>,
    /// The same files as the program sees them.
    over: HashMap<Inode, PathBuf>,
    /// Overlays that the program was seen to use, by number.
    used: BTreeSet<usize>,
}

impl Overlays {
    /// Of this mount table.
    pub(super) fn of(mounts: &Mounts) -> Self {
        let of = |mount: &Mount| Overlay {
            point: mount.point.clone(),
            root: mount.root.clone(),
            layers: layers(&mount.options),
        };
        Self(mounts.0.iter().filter(|mount| mount.fstype == "overlay").map(of).collect())
    }

    /// Finds the layers' files of everything in the trace that lies on an overlay and whose name was heard; each touch
    /// of the one is a touch of the other.
    pub(super) fn see_through(&self, raw: &RawTrace, touched: &mut HashMap<Inode, Nanos>, mounts: &Mounts) -> Layered {
        let mut layered = Layered::default();
        if self.0.is_empty() {
            return layered;
        }
        // An engine that hears of no mappings still hears of what is executed.
        let executed = raw.processes.iter().filter_map(|process| Some((None, process.exe.as_ref()?)));
        let heard = raw.names.iter().filter(|(inode, _)| touched.contains_key(inode));
        let heard: Vec<(Option<Inode>, &PathBuf)> =
            heard.map(|(inode, path)| (Some(*inode), path)).chain(executed).collect();
        for (inode, path) in heard {
            let Some((number, beneath)) = self.beneath(path) else { continue };
            let Ok(found) = beneath.symlink_metadata() else { continue };
            let real = Inode { dev: found.dev(), ino: found.ino() };
            if mounts.of_dev(real.dev).is_none() {
                continue;
            }
            layered.used.insert(number);
            layered.over.insert(real, path.clone());
            layered.beneath.push((real, beneath));
            if let Some(inode) = inode.filter(|inode| *inode != real)
                && let Some(at) = touched.remove(&inode)
            {
                let known = touched.entry(real).or_insert(at);
                *known = at.max(*known);
                layered.stands_for.insert(inode, real);
            }
        }
        layered
    }

    /// The layer's file behind a file of an overlay, and the number of the overlay.
    fn beneath(&self, path: &Path) -> Option<(usize, PathBuf)> {
        let above = self.0.iter().enumerate().filter(|(_, overlay)| path.starts_with(&overlay.point));
        let (number, overlay) = above.max_by_key(|(_, overlay)| overlay.point.components().count())?;
        let inside = overlay.root.join(path.strip_prefix(&overlay.point).ok()?);
        let inside = inside.strip_prefix("/").ok()?;
        let seen = path.symlink_metadata().ok()?;
        let fits = |file: &PathBuf| file.symlink_metadata().is_ok_and(|found| is_same(&seen, &found));
        let file = overlay.layers.iter().map(|layer| layer.join(inside)).find(fits)?;
        Some((number, file))
    }
}

impl Layered {
    /// How the program sees a file of a layer, if it uses an overlay of that.
    pub(super) fn seen_as(&self, overlays: &Overlays, inode: Inode, row: &FileRow) -> Option<PathBuf> {
        if let Some(path) = self.over.get(&inode) {
            return Some(path.clone());
        }
        if row.kind != FileKind::Regular {
            return None;
        }
        self.used.iter().find_map(|number| {
            let overlay = &overlays.0[*number];
            let inside = overlay.layers.iter().find_map(|layer| row.path.strip_prefix(layer).ok())?;
            let below_root = Path::new("/").join(inside);
            let seen = overlay.point.join(below_root.strip_prefix(&overlay.root).ok()?);
            let same = is_same(&seen.symlink_metadata().ok()?, &row.path.symlink_metadata().ok()?);
            same.then_some(seen)
        })
    }
}

/// An overlay shows everything of the file beneath but its numbers.
fn is_same(over: &Metadata, beneath: &Metadata) -> bool {
    let what = |file: &Metadata| (file.mode(), file.len(), file.mtime(), file.mtime_nsec());
    over.is_file() && what(over) == what(beneath)
}

/// The directories that the options of an overlay name, the uppermost first.
fn layers(options: &str) -> Vec<PathBuf> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for (name, value) in options.split(',').filter_map(|option| option.split_once('=')) {
        match name {
            "upperdir" => upper.push(value.to_owned()),
            "lowerdir" => lower.extend(split(value)),
            "lowerdir+" | "datadir+" => lower.push(value.to_owned()),
            _ => {}
        }
    }
    upper.into_iter().chain(lower).map(PathBuf::from).filter(|path| path.is_absolute()).collect()
}

/// Splits at colons; one that belongs to a name has a backslash before it.
fn split(paths: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut letters = paths.chars();
    while let Some(letter) = letters.next() {
        match (letter, all.last_mut()) {
            (':', Some(last)) if !last.is_empty() => all.push(String::new()),
            ('\\', Some(last)) => last.extend(letters.next()),
            (':', _) | (_, None) => {}
            (letter, Some(last)) => last.push(letter),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_listed_from_the_uppermost_down() {
        let text = |options| layers(options).into_iter().map(|path| model::shown(&path)).collect::<Vec<_>>();
        assert_eq!(text("rw,lowerdir=/a:/b\\:c,upperdir=/u,workdir=/w"), ["/u", "/a", "/b:c"]);
        assert_eq!(text("ro,lowerdir=/a::/data,xino=off"), ["/a", "/data"]);
        assert_eq!(text("ro,lowerdir+=/a,lowerdir+=/b,datadir+=/d"), ["/a", "/b", "/d"]);
        assert_eq!(text("rw,lowerdir=a:b"), [""; 0], "nobody knows from where");
    }
}
