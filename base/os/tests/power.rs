//! What a power cut at any moment leaves of what `os::replace` writes: a file system that notes all calls, and every
//! state that a disk may be in after each of them, when what was not synced is there, or is not, in any combination.

use os::filesystem::{self, FileSystem, Kernel, NameIn};
use os::journal::{self, Undo};
use os::records::Records;
use os::replace::{self, Existing, Rights};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a file is: content and mode.
type Content = (Vec<u8>, u32);

/// A change of names, or the promise that those of a directory last.
#[derive(Clone, Debug)]
enum Call {
    Directory(PathBuf),
    Name(PathBuf, u64),
    /// Within one directory.
    Rename(PathBuf, PathBuf, u64),
    /// The old name goes, of what was moved to another directory: never without the new one being there.
    Leave(PathBuf, PathBuf, u64),
    Remove(PathBuf),
    SyncFile,
    SyncDirectory(PathBuf),
    SyncEverything,
}

/// A call, and what all files are after it: as programs see them, and as the disk has them for sure.
#[derive(Clone, Debug)]
struct Moment {
    call: Call,
    seen: BTreeMap<u64, Content>,
    synced: BTreeMap<u64, Content>,
    /// Which of the watched files are there and whole.
    whole: Vec<PathBuf>,
}

/// The kernel's file system, with notes. The files stay open, so that no inode number comes to mean another one.
#[derive(Default)]
struct Notes {
    files: RefCell<Vec<File>>,
    synced: RefCell<BTreeMap<u64, Content>>,
    moments: RefCell<Vec<Moment>>,
    watched: RefCell<Vec<PathBuf>>,
}

/// What is in a watched file that is whole.
const WHOLE: &[u8] = b"precious";

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

fn content(file: &File) -> Content {
    let about = file.metadata().unwrap();
    let mut bytes = vec![0; about.len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    (bytes, about.mode() & 0o7777)
}

fn path_of(at: NameIn<'_>) -> PathBuf {
    directory(at.directory).join(at.name)
}

fn directory(opened: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).unwrap()
}

impl Notes {
    fn note(&self, call: Call) {
        let seen = self.files.borrow().iter().map(|file| (file.metadata().unwrap().ino(), content(file))).collect();
        let is_whole = |path: &&PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes == WHOLE);
        let whole = self.watched.borrow().iter().filter(is_whole).cloned().collect();
        self.moments.borrow_mut().push(Moment { call, seen, synced: self.synced.borrow().clone(), whole });
    }

    /// A file that was there, and is on the disk.
    fn know(&self, path: &Path) {
        let file = File::open(path).unwrap();
        self.synced.borrow_mut().insert(inode(path), content(&file));
        self.files.borrow_mut().push(file);
    }
}

impl FileSystem for Notes {
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        Kernel.make_directory(path, mode)?;
        self.note(Call::Directory(path.canonicalize()?));
        Ok(())
    }
    fn create(&self, at: NameIn<'_>) -> io::Result<File> {
        let file = Kernel.create(at)?;
        self.files.borrow_mut().push(file.try_clone()?);
        self.note(Call::Name(path_of(at), file.metadata()?.ino()));
        Ok(file)
    }
    fn make_link(&self, at: NameIn<'_>, target: &Path) -> io::Result<()> {
        Kernel.make_link(at, target)?;
        let number = inode(&path_of(at));
        self.synced.borrow_mut().insert(number, (target.as_os_str().as_encoded_bytes().to_vec(), 0o777));
        self.note(Call::Name(path_of(at), number));
        Ok(())
    }
    fn add_name(&self, file: &File, at: NameIn<'_>) -> io::Result<()> {
        Kernel.add_name(file, at)?;
        self.note(Call::Name(path_of(at), file.metadata()?.ino()));
        Ok(())
    }
    fn sync_file(&self, file: &File) -> io::Result<()> {
        Kernel.sync_file(file)?;
        self.synced.borrow_mut().insert(file.metadata()?.ino(), content(file));
        self.note(Call::SyncFile);
        Ok(())
    }
    fn sync_directory(&self, opened: &File) -> io::Result<()> {
        Kernel.sync_directory(opened)?;
        self.note(Call::SyncDirectory(directory(opened)));
        Ok(())
    }
    fn sync_everything(&self, on: &File) -> io::Result<()> {
        Kernel.sync_everything(on)?;
        self.note(Call::SyncEverything);
        Ok(())
    }
    fn rename(&self, from: NameIn<'_>, to: NameIn<'_>, existing: Existing) -> io::Result<()> {
        let number = inode(&path_of(from));
        Kernel.rename(from, to, existing)?;
        let (old, new) = (path_of(from), path_of(to));
        if old.parent() == new.parent() {
            self.note(Call::Rename(old, new, number));
        } else {
            self.note(Call::Name(new.clone(), number));
            self.note(Call::Leave(old, new, number));
        }
        Ok(())
    }
    fn remove(&self, at: NameIn<'_>) -> io::Result<()> {
        Kernel.remove(at)?;
        self.note(Call::Remove(path_of(at)));
        Ok(())
    }
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        Kernel.set_mode(file, mode)
    }
    fn set_owner(&self, file: &File, user: u32, group: u32) -> io::Result<()> {
        Kernel.set_owner(file, user, group)
    }
}

/// What a disk may have after a power cut: names, and what the file of each may hold.
type Disk = BTreeMap<PathBuf, Vec<Content>>;

/// Directory whose sync makes a call last; `None`: it changes no names.
fn lasts_with(call: &Call) -> Option<&Path> {
    match call {
        Call::Directory(path)
        | Call::Name(path, _)
        | Call::Remove(path)
        | Call::Rename(_, path, _)
        | Call::Leave(path, _, _) => path.parent(),
        Call::SyncFile | Call::SyncDirectory(_) | Call::SyncEverything => None,
    }
}

/// Calls `check` with every state after each of the moments, and whether it is the last moment.
fn cut(before: &BTreeMap<PathBuf, u64>, moments: &[Moment], mut check: impl FnMut(&Disk, bool)) -> usize {
    let mut states = 0;
    for end in 1..=moments.len() {
        let done = &moments[..end];
        let is_synced = |index: usize, above: &Path| {
            done[index..].iter().any(|moment| matches!(&moment.call, Call::SyncDirectory(path) if path == above))
        };
        let open: Vec<usize> = (0..end)
            .filter(|index| lasts_with(&done[*index].call).is_some_and(|above| !is_synced(*index, above)))
            .collect();
        assert!(open.len() <= 12, "too many calls are not synced to try all of their subsets: {open:?}");
        for subset in 0..1_usize << open.len() {
            let is_lost = |index: &usize| {
                open.iter().position(|other| other == index).is_some_and(|place| subset & 1 << place == 0)
            };
            // Writing one directory promises nothing of the other: it may be all of the move that is on the disk.
            let lasting = |index: usize| match &done[index].call {
                Call::Leave(from, _, _) if !open.contains(&index) => Call::Remove(from.clone()),
                call => call.clone(),
            };
            let kept = (0..end).filter(|index| !is_lost(index)).map(lasting);
            check(&disk(before, kept, done), end == moments.len());
            states += 1;
        }
    }
    states
}

fn disk(before: &BTreeMap<PathBuf, u64>, calls: impl Iterator<Item = Call>, done: &[Moment]) -> Disk {
    let made = |call: &Call| if let Call::Directory(path) = call { Some(path.clone()) } else { None };
    let mut missing: BTreeSet<PathBuf> = done.iter().filter_map(|moment| made(&moment.call)).collect();
    let mut names = before.clone();
    for call in calls {
        match call {
            Call::Directory(path) => drop(missing.remove(&path)),
            Call::Name(path, number) => drop(names.insert(path, number)),
            Call::Rename(from, to, number) | Call::Leave(from, to, number) => {
                names.remove(&from);
                names.insert(to, number);
            }
            Call::Remove(path) => drop(names.remove(&path)),
            Call::SyncFile | Call::SyncDirectory(_) | Call::SyncEverything => {}
        }
    }
    names.retain(|path, _| !path.ancestors().any(|above| missing.contains(above)));
    let last = &done[done.len() - 1];
    names.into_iter().map(|(path, number)| (path, may_hold(last, number))).collect()
}

/// What is synced is certain; what was written since may be there in part.
fn may_hold(now: &Moment, number: u64) -> Vec<Content> {
    let (synced, seen) = (now.synced.get(&number), now.seen.get(&number));
    let mut may: Vec<Content> = synced.cloned().into_iter().collect();
    if let Some((bytes, mode)) = seen.filter(|seen| synced != Some(seen)) {
        may.push((bytes.clone(), *mode));
        may.push((bytes[..bytes.len() / 2].to_vec(), *mode));
        may.push((Vec::new(), 0o600));
    }
    may
}

/// A directory for what is written, and one for thaw's state.
struct Ground {
    home: tempfile::TempDir,
    notes: Rc<Notes>,
    before: BTreeMap<PathBuf, u64>,
}

impl Ground {
    fn new(old: Option<&[u8]>) -> Self {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        // SAFETY: this process has one test, and no other thread that looks at the environment.
        unsafe { std::env::set_var("THAW_STATE_DIR", home.path().join("state")) };
        let ground = Self { home, notes: Rc::default(), before: BTreeMap::new() };
        let Some(old) = old else { return ground };
        std::fs::write(ground.target(), old).unwrap();
        std::fs::set_permissions(ground.target(), std::fs::Permissions::from_mode(0o640)).unwrap();
        ground.notes.know(&ground.target());
        let before = BTreeMap::from([(ground.target(), inode(&ground.target()))]);
        Self { before, ..ground }
    }

    fn target(&self) -> PathBuf {
        self.home.path().join("target")
    }

    /// Lets `work` write, and holds every state after every cut against what may be there: nothing but `may` under the
    /// target's name, in the end only `must`, and no hidden name without its journal entry.
    fn survives(&self, target: &Path, may: &[Option<Content>], must: Option<&Content>, work: impl FnOnce()) {
        filesystem::with(self.notes.clone(), work);
        let moments = self.notes.moments.borrow();
        // A directory that was made in another way may be lost with all that is in it, and the notes would not know.
        let is_noted = |above: &Path| {
            let makes = |moment: &Moment| matches!(&moment.call, Call::Directory(path) if path == above);
            above == self.home.path() || moments.iter().any(makes)
        };
        let mut above = moments.iter().filter_map(|moment| lasts_with(&moment.call));
        assert!(above.all(is_noted), "a directory was made past the file system");
        let states = cut(&self.before, &moments, |disk, is_end| {
            let held: Vec<Option<&Content>> = match disk.get(target) {
                Some(contents) => contents.iter().map(Some).collect(),
                None => vec![None],
            };
            for content in held {
                assert!(may.iter().any(|may| may.as_ref() == content), "{content:?} of {disk:?}");
                assert!(!is_end || content == must, "in the end {content:?}");
            }
            let is_hidden = |path: &&PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            for hidden in disk.keys().filter(is_hidden) {
                assert!(is_in_journal(disk, hidden), "no entry for {hidden:?} in {disk:#?}");
            }
        });
        assert!(states > 10, "{states} states");
        assert_eq!(std::fs::read_dir(self.home.path().join("state/journal")).unwrap().count(), 0);
    }
}

/// Whether an entry, whole for sure, names a path.
fn is_in_journal(disk: &Disk, hidden: &Path) -> bool {
    disk.iter().any(|(path, contents)| {
        let is_entry = path.extension().is_some_and(|ending| ending == "json");
        let tells = |(text, _): &Content| {
            let entry: Result<serde_json::Value, _> = serde_json::from_slice(text);
            entry.is_ok_and(|entry| entry["undo"]["path"].as_str() == hidden.to_str())
        };
        is_entry && !contents.is_empty() && contents.iter().all(tells)
    })
}

/// A file that is moved to another directory has one of its names at every moment, and only the new one in the end.
fn what_is_moved_has_a_name() {
    let ground = Ground::new(Some(b"moved"));
    let (old, new) = (ground.target(), ground.home.path().join("elsewhere/target"));
    std::fs::create_dir(ground.home.path().join("elsewhere")).unwrap();
    filesystem::with(ground.notes.clone(), || replace::move_to(&old, &new).unwrap());
    let states = cut(&ground.before, &ground.notes.moments.borrow(), |disk, is_end| {
        let has = |path| disk.contains_key(path);
        assert!(has(&old) || has(&new), "{disk:?}");
        assert!(!is_end || (has(&new) && !has(&old)), "in the end {disk:?}");
    });
    assert!(states > 4, "{states} states");
}

/// A directory that a program changes: its copy is on the disk, by its name, before the program may; and goes only when
/// what was put back is.
fn a_held_directory_or_its_copy_is_whole() {
    let ground = Ground::new(None);
    let home = ground.home.path();
    let at = |name: &str| home.join(name);
    let names = ["live", "pristine.partial", "pristine"];
    std::fs::create_dir(at("live")).unwrap();
    std::fs::write(at("live/file"), WHOLE).unwrap();
    ground.notes.watched.replace(names.map(|name| at(name).join("file")).to_vec());
    let with = |work: &mut dyn FnMut()| {
        ground.notes.moments.take();
        filesystem::with(ground.notes.clone(), work);
        ground.notes.moments.take()
    };
    let find = |moments: &[Moment], from: usize, wanted: &dyn Fn(&Moment) -> bool| {
        moments[from..].iter().position(wanted).map(|index| from + index)
    };
    let renamed = |moments: &[Moment], old: &str, new: &str| {
        let (old, new) = (at(old), at(new));
        find(moments, 0, &|moment| matches!(&moment.call, Call::Rename(from, to, _) if (from, to) == (&old, &new)))
            .unwrap_or_else(|| panic!("{old:?} is not renamed: {moments:#?}"))
    };
    let synced = |moments: &[Moment], whole: &str| {
        let whole = at(whole).join("file");
        find(moments, 0, &|moment| matches!(moment.call, Call::SyncEverything) && moment.whole.contains(&whole))
    };
    let name_lasts = |moments: &[Moment], from: usize| {
        find(moments, from, &|moment| matches!(&moment.call, Call::SyncDirectory(path) if path == home))
    };

    let mut entry = None;
    let moments = with(&mut || entry = Some(journal::hold_directory(&at("pristine"), &at("live")).unwrap()));
    let named = renamed(&moments, "pristine.partial", "pristine");
    assert!(synced(&moments, "pristine.partial").is_some_and(|synced| synced < named), "the copy was not on the disk");
    assert!(name_lasts(&moments, named).is_some(), "the copy has no name that lasts when the program may begin");

    std::fs::write(at("live/file"), "changed by the program").unwrap();
    let moments = with(&mut || entry.take().unwrap().undo().unwrap());
    let spent = renamed(&moments, "pristine", "pristine.partial");
    assert!(synced(&moments, "live").is_some_and(|synced| synced < spent), "what was put back was not on the disk");
    let lasts = name_lasts(&moments, spent).expect("the copy lost its content before its name");
    assert!(moments[lasts].whole.contains(&at("pristine.partial/file")), "the copy lost its content before its name");
    assert_eq!(std::fs::read(at("live/file")).unwrap(), WHOLE);
}

#[test]
fn after_a_power_cut_there_is_the_old_file_or_the_new_one() {
    let (old, new) = ((b"the old one".to_vec(), 0o640), (b"the new one, longer".to_vec(), 0o600));
    let write = |target: &Path, existing| replace::write_whole(target, &new.0, Rights::Private, existing).unwrap();

    let ground = Ground::new(Some(&old.0));
    let target = ground.target();
    let may = [Some(old.clone()), Some(new.clone())];
    ground.survives(&target, &may, Some(&new), || write(&target, Existing::Replace));

    let ground = Ground::new(None);
    let target = ground.target();
    ground.survives(&target, &[None, Some(new.clone())], Some(&new), || write(&target, Existing::Keep));

    // What fails half-way leaves the old one.
    let ground = Ground::new(Some(&old.0));
    let target = ground.target();
    ground.survives(&target, &[Some(old.clone())], Some(&old), || {
        let full = |out: &mut dyn Write| out.write_all(b"half").and(Err(io::ErrorKind::StorageFull.into()));
        assert!(replace::write_by(&target, Rights::Private, Existing::Replace, full).is_err());
    });

    let ground = Ground::new(None);
    let target = ground.target();
    let link = (b"elsewhere".to_vec(), 0o777);
    ground.survives(&target, &[None, Some(link.clone())], Some(&link), || {
        replace::write_link(&target, Path::new("elsewhere")).unwrap();
    });

    // A record of changes; its directory is new too.
    let ground = Ground::new(None);
    let target = ground.home.path().join("state/kind/name.json");
    let record = (b"\"what was changed\"\n".to_vec(), 0o600);
    ground.survives(&target, &[None, Some(record.clone())], Some(&record), || {
        Records::of("kind").unwrap().write("name", &"what was changed").unwrap();
    });

    // One that is forgotten does not come back.
    let ground = Ground::new(None);
    let target = ground.home.path().join("state/kind/name.json");
    ground.survives(&target, &[None, Some(record.clone())], None, || {
        let records = Records::of("kind").unwrap();
        records.write("name", &"what was changed").unwrap();
        records.forget("name").unwrap();
    });

    what_is_moved_has_a_name();
    a_held_directory_or_its_copy_is_whole();

    // Whatever is changed behind a guard, its entry is on the disk first. The hidden name stands for the change.
    let ground = Ground::new(None);
    let target = ground.target();
    ground.survives(&target, &[None], None, || {
        let change = ground.home.path().join(".change");
        let entry = journal::hold(Undo::RemoveFile { path: change.clone() }, || {
            let opened = replace::open_directory(ground.home.path()).unwrap();
            filesystem::current().create(NameIn { directory: &opened, name: ".change".as_ref() }).unwrap();
            Ok(())
        });
        entry.unwrap().undo().unwrap();
    });
}
