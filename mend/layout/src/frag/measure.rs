//! Looks where files lie, with several threads, and says what lies between their pieces.

use super::report::{FileLayout, LeftOut, Lying, Neighbour, Survey, Unreadable};
use model::{Bytes, DiskOffset, Nanos};
use os::extents::{Extent, ExtentKind, extents};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a survey is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many files were looked at so far.
    pub done: u64,
    /// Files to look at.
    pub of: u64,
}

/// How an open file lies. `Unsupported`: its file system does not tell.
///
/// # Errors
/// What the kernel says.
pub fn look(file: &File) -> io::Result<Lying> {
    Ok(lying(&extents(file)?))
}

fn lying(extents: &[Extent]) -> Lying {
    let mut lying = Lying { extents: extents.len() as u64, ..Lying::default() };
    for extent in extents {
        lying.shared |= extent.shared;
        match (extent.kind, extent.disk) {
            (ExtentKind::Data, Some(disk)) => match lying.pieces.last_mut() {
                Some((start, len)) if start.0.saturating_add(len.0) == disk.0 => *len += extent.len,
                _ => lying.pieces.push((disk, extent.len)),
            },
            (ExtentKind::Unwritten, _) => lying.unwritten += extent.len,
            (ExtentKind::Delayed, _) => lying.delayed += extent.len,
            _ => lying.elsewhere += extent.len,
        }
    }
    lying
}

/// A file that was looked at.
struct Looked {
    path: PathBuf,
    dev: u64,
    size: Bytes,
    lying: Lying,
}

/// Looks at every regular file at and below the paths; of a directory on its own file system only. Symbolic links are
/// followed where they are named in `paths`, not inside of directories. `jump` says what it costs to go on at another
/// place of the disk, so many bytes away. Ends early when [`os::interrupt`] says so.
pub fn measure(paths: &[PathBuf], jump: &dyn Fn(Bytes) -> Nanos, progress: &(dyn Fn(Progress) + Sync)) -> Survey {
    let os::walk::Walked { files, unreadable, symlinks, hard_links, special, mount_points, .. } =
        os::walk::files(paths);
    let unreadable =
        unreadable.into_iter().map(|(path, error)| Unreadable { path, reason: error.to_string() }).collect();
    let mut left_out = LeftOut { unreadable, symlinks, special, hard_links, mount_points, ..LeftOut::default() };
    let (done, of) = (AtomicU64::new(0), files.len() as u64);
    let looked = files.into_par_iter().map(|path| {
        let looked = if os::interrupt::requested() { Ok(None) } else { look_at(&path).map(Some) };
        progress(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, of });
        (path, looked)
    });
    let looked: Vec<(PathBuf, io::Result<Option<Looked>>)> = os::threads::with_threads(|| looked.collect());
    let mut known = Vec::new();
    for (path, outcome) in looked {
        match outcome {
            Ok(file) => known.extend(file),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => left_out.untold += 1,
            Err(error) => left_out.unreadable.push(Unreadable { path, reason: error.to_string() }),
        }
    }
    left_out.interrupted = os::interrupt::requested();
    let files = known.into_iter().map(|it| (it.path, it.dev, it.size, it.lying)).collect();
    let survey = analyze(files, jump);
    left_out.nowhere = survey.left_out.nowhere;
    Survey { left_out, ..survey }
}

fn look_at(path: &Path) -> io::Result<Looked> {
    // What became a pipe since it was listed must not make us wait.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOATIME).open(path);
    // Only its owner may leave the access time alone.
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?
        }
        other => other?,
    };
    let about = file.metadata()?;
    let (dev, size) = (about.dev(), Bytes(about.len()));
    Ok(Looked { path: path.to_owned(), dev, size, lying: look(&file)? })
}

/// What the places of files say about each other: (path, device, size, how it lies). Pure.
pub fn analyze(files: Vec<(PathBuf, u64, Bytes, Lying)>, jump: &dyn Fn(Bytes) -> Nanos) -> Survey {
    /// Named neighbours of a file.
    const NAMED: usize = 3;
    /// A file that is spread over a whole disk has more pieces between than anybody reads about.
    const LOOKED_AT: usize = 4096;
    // All pieces by place: (device, start, end, file), and how many bytes lie before each.
    let mut all: Vec<(u64, u64, u64, usize)> = Vec::new();
    for (number, (_, dev, _, lying)) in files.iter().enumerate() {
        all.extend(lying.pieces.iter().map(|(start, len)| (*dev, start.0, start.0.saturating_add(len.0), number)));
    }
    all.sort_unstable();
    let mut before = Vec::with_capacity(all.len() + 1);
    before.push(0_u64);
    for (_, start, end, _) in &all {
        before.push(before.last().copied().unwrap_or(0).saturating_add(end - start));
    }
    let mut survey = Survey::default();
    for (number, (path, dev, size, lying)) in files.iter().enumerate() {
        let Some(low) = lying.pieces.iter().map(|(start, _)| start.0).min() else {
            survey.left_out.nowhere += 1;
            continue;
        };
        let high = lying.pieces.iter().map(|(start, len)| start.0.saturating_add(len.0)).max().unwrap_or(low);
        let first = all.partition_point(|(at, start, ..)| (*at, *start) < (*dev, low));
        let last = all.partition_point(|(at, start, ..)| (*at, *start) < (*dev, high)).max(first);
        let own: u64 = lying.pieces.iter().map(|(_, len)| len.0).sum();
        let pieces = lying.pieces.len() as u64;
        let mut file = FileLayout {
            path: path.clone(),
            size: *size,
            pieces,
            extents: lying.extents,
            span: Bytes(high - low),
            jumps_cost: jumps(&lying.pieces).map(jump).sum(),
            between: Bytes((before[last] - before[first]).saturating_sub(own)),
            pieces_between: ((last - first) as u64).saturating_sub(pieces),
            neighbours: Vec::new(),
            shared: lying.shared,
            delayed: lying.delayed,
        };
        if file.pieces_between > 0 {
            let mut others: HashMap<usize, u64> = HashMap::new();
            for (_, start, end, other) in all[first..last].iter().take(LOOKED_AT).filter(|(.., other)| *other != number)
            {
                *others.entry(*other).or_default() += end - start;
            }
            let mut others: Vec<(u64, usize)> = others.into_iter().map(|(other, bytes)| (bytes, other)).collect();
            others.sort_unstable_by(|left, right| right.cmp(left));
            let named = others.iter().take(NAMED);
            file.neighbours =
                named.map(|(bytes, other)| Neighbour { path: files[*other].0.clone(), bytes: Bytes(*bytes) }).collect();
        }
        let summary = &mut survey.summary;
        summary.files += 1;
        summary.size += file.size;
        summary.pieces += pieces;
        summary.scattered += u64::from(pieces > 1);
        summary.interleaved += u64::from(file.pieces_between > 0);
        summary.jumps_cost += file.jumps_cost;
        survey.files.push(file);
    }
    survey.files.sort_by(|left, right| {
        let key = |file: &FileLayout| (file.jumps_cost, file.pieces, file.size);
        key(right).cmp(&key(left)).then_with(|| left.path.cmp(&right.path))
    });
    survey
}

/// How far the head jumps between the pieces.
fn jumps(pieces: &[(DiskOffset, Bytes)]) -> impl Iterator<Item = Bytes> {
    pieces.windows(2).map(|pair| Bytes(pair[1].0.0.abs_diff(pair[0].0.0.saturating_add(pair[0].1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files drawn as they lie on the disk: each letter a megabyte of that file, in the file's order; dots are
    /// nobody's.
    fn drawn(picture: &str) -> Survey {
        let letters: Vec<char> = picture.chars().collect();
        let mut names: Vec<char> = letters.iter().copied().filter(|letter| *letter != '.').collect();
        names.sort_unstable();
        names.dedup();
        let file = |name: char| {
            let mut pieces: Vec<(DiskOffset, Bytes)> = Vec::new();
            for (at, _) in letters.iter().enumerate().filter(|(_, letter)| **letter == name) {
                match pieces.last_mut() {
                    Some((start, len)) if start.0 + len.0 == at as u64 * 1_000_000 => len.0 += 1_000_000,
                    _ => pieces.push((DiskOffset(at as u64 * 1_000_000), Bytes(1_000_000))),
                }
            }
            let size = pieces.iter().map(|(_, len)| *len).sum();
            let lying = Lying { extents: pieces.len() as u64, pieces, ..Lying::default() };
            (PathBuf::from(name.to_string()), 1, size, lying)
        };
        analyze(names.into_iter().map(file).collect(), &|distance| Nanos(distance.0))
    }

    #[test]
    fn interleaved_files_are_told_from_scattered_ones() {
        let survey = drawn("aabbaa..cc...c.d");
        let of = |name: &str| survey.files.iter().find(|file| file.path == Path::new(name)).unwrap();
        assert_eq!((of("a").pieces, of("a").pieces_between, of("a").between), (2, 1, Bytes(2_000_000)));
        assert_eq!(of("a").neighbours, [Neighbour { path: "b".into(), bytes: Bytes(2_000_000) }]);
        assert_eq!((of("b").pieces, of("b").pieces_between), (1, 0));
        assert_eq!((of("c").pieces, of("c").pieces_between, of("c").span), (2, 0, Bytes(6_000_000)));
        assert_eq!((survey.summary.scattered, survey.summary.interleaved), (2, 1));
        assert_eq!((survey.summary.files, survey.summary.pieces), (4, 6));
    }

    #[test]
    fn the_dearest_jumps_come_first() {
        let survey = drawn("a.ab.......bc");
        let order: Vec<&Path> = survey.files.iter().map(|file| file.path.as_path()).collect();
        assert_eq!(order, [Path::new("b"), Path::new("a"), Path::new("c")]);
        assert_eq!(survey.files[0].jumps_cost, Nanos(7_000_000));
        assert_eq!(survey.summary.jumps_cost, Nanos(8_000_000));
    }

    #[test]
    fn one_file_of_two_devices_is_no_neighbour() {
        let at = |start: u64| (DiskOffset(start), Bytes(10));
        let lying = |pieces: Vec<(DiskOffset, Bytes)>| Lying { pieces, ..Lying::default() };
        let files = vec![
            ("x".into(), 1, Bytes(20), lying(vec![at(0), at(100)])),
            ("y".into(), 2, Bytes(10), lying(vec![at(50)])),
        ];
        assert_eq!(analyze(files, &|_| Nanos(1)).summary.interleaved, 0);
    }

    #[test]
    fn a_file_without_a_place_is_counted_as_such() {
        let delayed = Lying { delayed: Bytes(4096), ..Lying::default() };
        let survey = analyze(vec![("x".into(), 1, Bytes(4096), delayed)], &|_| Nanos(1));
        assert_eq!((survey.summary.files, survey.left_out.nowhere), (0, 1));
    }
}
