//! A power cut at any moment while what helped a copy is applied to a program, or undone: the program's files are old
//! or new as a whole, and `--undo` and `thaw doctor --mend`, in either order, make all of them what they were, byte for
//! byte, with owner, mode and times, and leave nothing.
//!
//! The disk is a model (`testing::power`): every cut between two steps of the writers, in each of them all combinations
//! of the changes of names that are not synced, and of content that is not, all, half or nothing. After each cut the
//! directories are really made so, and the real `--undo` and `--mend` are called.

use model::{CacheState, Exit};
use optimize::applied::Applied;
use optimize::manifest::{Built, Changed, Directory, Identity, Manifest, NAME, SCHEMA, this_machine};
use optimize::remedy::{Remedy, Set};
use os::replace::Existing;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::power::{Content, Disk, State, Syncs, needless_syncs};
use work::optimizing::apply::{Since, apply, undo};

/// The launcher.
const DESKTOP: &str = "app.desktop";

/// What a file is: bytes, mode, owner, time of the last write.
type Whole = (Vec<u8>, u32, u32, i64, i64);

/// A program of a library and an archive, with a launcher, and a result of `thaw optimize` that keeps all remedies.
struct Ground {
    home: tempfile::TempDir,
    originals: BTreeMap<PathBuf, Whole>,
    manifest: Manifest,
}

impl Ground {
    /// `None`, counted as skipped: there is no compiler.
    fn new() -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let home = tempfile::tempdir_in(if memory.is_dir() { memory } else { Path::new("/var/tmp") }).unwrap();
        let at = |name: &str| home.path().join(name);
        for name in ["system", "share/applications", "home", "state", "machine", "fast/files", "content"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let variables = [
            ("HOME", "home"),
            ("XDG_DATA_HOME", "home/data"),
            ("XDG_CONFIG_HOME", "home/config"),
            ("XDG_DATA_DIRS", "share"),
            ("THAW_STATE_DIR", "state"),
            ("THAW_MACHINE_DIR", "machine"),
        ];
        for (variable, name) in variables {
            // SAFETY: this process has one test, and no other thread that looks at the environment.
            unsafe { std::env::set_var(variable, at(name)) };
        }
        let (library, archive) = (at("system/lib.so"), at("system/app.jar"));
        let words: String = (0..600).map(|number| format!("\"word {number}\",")).collect();
        fs::write(at("content/words.c"), format!("const char *words[] = {{{words}}};\n")).unwrap();
        let mut gcc = Command::new("gcc");
        if !testing::compiled(gcc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(at("content/words.c"))) {
            return None;
        }
        for name in ["a", "b", "c", "d"] {
            fs::write(at("content").join(name), name.repeat(900)).unwrap();
        }
        use layout::archive::{self, DirectoryPlace, Options, Target};
        let both = Options { directory: DirectoryPlace::Both, ..Options::default() };
        archive::pack(&at("content"), &[], &both, Target::New(&archive)).unwrap();
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&archive, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(at("system/other"), "not changed").unwrap();
        let entry = format!("[Desktop Entry]\nType=Application\nName=App\nExec={} %u\n", library.display());
        fs::write(at("share/applications").join(DESKTOP), entry).unwrap();

        // What `thaw optimize` has measured.
        let (packed, reordered) = (at("fast/files/0-pack"), at("fast/files/1-archive"));
        pack::pack_file(&library, &pack::Target::Copy(packed.clone()), &pack::Options::default()).unwrap();
        let bytes = fs::read(&archive).unwrap();
        let zip = archive::parse(&bytes).unwrap();
        let plan = archive::plan(&zip, &archive::used_by_names(&zip, ["d", "b"]), &both).unwrap();
        archive::apply(&zip, &plan, &archive, Target::New(&reordered)).unwrap();
        preload::manifest::Manifest::default().write(&at("fast/start.preload"), Existing::Keep).unwrap();
        let changed = |path: &Path, copy: &Path, by: Remedy| Changed {
            path: path.to_owned(),
            copy: Some(copy.strip_prefix(at("fast")).unwrap().to_owned()),
            by,
            before: Identity::of(path).unwrap(),
            after: Identity::of(copy).unwrap(),
            mtime_ns: None,
        };
        let manifest = Manifest {
            schema: SCHEMA.into(),
            thaw: "0.0.1".into(),
            made_unix_ns: 1,
            machine: this_machine(),
            host: os::machine::host(),
            recording: at("a.thaw"),
            root: at("system"),
            program: "lib.so".into(),
            start: None,
            state: CacheState::Cold,
            disk: "none".into(),
            disk_because: "a test".into(),
            runs: 1,
            tried: Vec::new(),
            kept: Set::from(Remedy::ALL),
            files: vec![changed(&library, &packed, Remedy::Pack), changed(&archive, &reordered, Remedy::Archive)],
            directories: Vec::new(),
            environment: Vec::new(),
            image: None,
            limit: None,
            kept_s: None,
            advice: Vec::new(),
            notes: Vec::new(),
        };
        assert!(manifest.files.iter().all(|file| file.before != file.after), "{manifest:?}");
        fs::write(at("fast").join(NAME), manifest.to_bytes().unwrap()).unwrap();
        // The journal's directory is there on a machine that has seen thaw before, and has no part in this.
        fs::remove_dir_all(at("state")).unwrap();
        fs::create_dir(at("state")).unwrap();
        let mut ground = Self { home, originals: BTreeMap::new(), manifest };
        ground.originals = ground.all();
        Some(ground)
    }

    /// One with caches, of which one takes the place of another and one is new, and with an environment.
    fn with_caches() -> Option<Self> {
        let mut ground = Self::new()?;
        for directory in ["system/modules", "fast/caches"] {
            fs::create_dir(ground.at(directory)).unwrap();
        }
        fs::write(ground.at("system/modules/old.cache"), "old").unwrap();
        fs::write(ground.at("fast/caches/old.cache"), "newer").unwrap();
        fs::write(ground.at("fast/caches/new.cache"), "new").unwrap();
        let built = |name: &str, before: Option<Identity>| Built {
            name: name.into(),
            before,
            after: Identity::of(&ground.at("fast/caches").join(name)).unwrap(),
        };
        let files = vec![built("old.cache", Some(Identity::of_bytes(b"old"))), built("new.cache", None)];
        let (path, copy) = (ground.at("system/modules"), "caches".into());
        ground.manifest.directories = vec![Directory { path, copy, mtime_ns: 0, files }];
        ground.manifest.environment = optimize::environment::of_set(&ground.manifest.kept);
        fs::write(ground.at("fast").join(NAME), ground.manifest.to_bytes().unwrap()).unwrap();
        ground.originals = ground.all();
        Some(ground)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn changed(&self) -> [PathBuf; 2] {
        ["system/lib.so", "system/app.jar"].map(|name| self.at(name))
    }

    /// All files there are, the result of `thaw optimize` apart.
    fn all(&self) -> BTreeMap<PathBuf, Whole> {
        let (mut all, mut todo) = (BTreeMap::new(), vec![self.home.path().to_owned()]);
        while let Some(directory) = todo.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let about = path.symlink_metadata().unwrap();
                if about.is_dir() {
                    todo.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    all.insert(path, (bytes, about.mode(), about.uid(), about.mtime(), about.mtime_nsec()));
                }
            }
        }
        all
    }

    fn apply(&self) {
        apply(&self.at("fast"), Some(DESKTOP), os::installed::places::Scope::User).unwrap();
    }

    /// Undoes what a killed thaw, or the power cut, left in the journal.
    fn mend(&self) {
        for leftover in os::journal::leftovers().unwrap() {
            os::journal::mend(&leftover).unwrap();
        }
    }

    /// As who types `thaw optimize --undo`, if anything was applied.
    fn undo(&self) -> Result<(), String> {
        match undo(&self.at("fast"), Since::Refuse) {
            Ok(document) if document.kept.is_empty() => Ok(()),
            Ok(document) => Err(format!("it left {:?}", document.kept)),
            Err(error) if error.exit == Exit::Usage && error.to_string().contains("has not applied") => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes the directories as they are after a cut, and everything what it was.
    fn comes_back(&self, disk: &Disk, state: &State, variant: usize) -> Result<(), String> {
        for is_mended_first in [true, false] {
            disk.lay_out(state, variant);
            if is_mended_first {
                self.mend();
            }
            self.undo().map_err(|why| format!("{why}, after {state:?}"))?;
            self.mend();
            let now = self.all();
            let differs = |path: &&PathBuf| now.get(*path) != self.originals.get(*path);
            if let Some(path) = self.originals.keys().chain(now.keys()).find(differs) {
                let was = (now.contains_key(path), self.originals.contains_key(path));
                return Err(format!("{} is another file: {was:?}, after {state:?}", path.display()));
            }
        }
        Ok(())
    }

    /// Whether the record of the whole is there, for sure, if anything is changed; and old and new files are whole.
    fn judge(&self, disk: &Disk, record: &Path) -> Result<usize, String> {
        let [library, archive] = self.changed();
        let recorded = disk.each(|state| {
            let is_touched = |path: &PathBuf| {
                let original = |held: Option<&Content>| {
                    held.is_some_and(|held| self.originals.get(path).is_some_and(|was| *was.0 == *held.bytes))
                };
                !state.held(path).into_iter().all(original)
            };
            let is_recorded = |held: Option<&Content>| held.is_some_and(|held| held.bytes.ends_with(b"}\n"));
            let is_known = state.held(record).into_iter().all(is_recorded);
            match self.changed().iter().any(is_touched) && !is_known {
                true => Err(format!("a file is changed and nobody knows in {state:?}")),
                false => Ok(()),
            }
        })?;
        // Of an installation is written down that it is begun, and that it is done.
        let installed = self.at("state/installed");
        let is_begun = |path: &Path, held: &Content| path.starts_with(&installed) && held.bytes.ends_with(b"}\n");
        disk.survives_but(&[&library, &archive], &is_begun).map(|_| recorded)
    }

    /// Where it is written down what is applied.
    fn record(&self) -> PathBuf {
        let mut found = fs::read_dir(self.at("state/optimized")).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.extension().is_some_and(|ending| ending == "json")).expect("a record")
    }
}

/// Calls `check` with every state that differs from all before it, in each variant of it; how many these were.
fn each_once(
    disk: &Disk,
    mut check: impl FnMut(&State, usize) -> Result<(), String>,
) -> Result<(usize, usize), String> {
    let mut seen = HashSet::new();
    let states = disk.each(|state| {
        for variant in 0..state.variants() {
            let mut hasher = DefaultHasher::new();
            for (path, content) in state.variant(variant) {
                (path, &content.bytes, content.mode, content.owner, content.modified).hash(&mut hasher);
            }
            if seen.insert(hasher.finish()) {
                check(state, variant)?;
            }
        }
        Ok(())
    });
    Ok((states?, seen.len()))
}

/// A result that is applied on a disk, and where that is written down.
fn applied(syncs: Syncs) -> Option<(Ground, Disk, PathBuf)> {
    let ground = Ground::new()?;
    let disk = Disk::of(&[ground.home.path()], syncs);
    disk.run(|| ground.apply());
    let record = ground.record();
    Some((ground, disk, record))
}

/// One that is undone again.
fn undone(syncs: Syncs) -> Option<(Ground, Disk, PathBuf)> {
    let ground = Ground::new()?;
    ground.apply();
    let record = ground.record();
    let disk = Disk::of(&[ground.home.path()], syncs);
    disk.run(|| ground.undo().unwrap());
    Some((ground, disk, record))
}

fn assert_survives() {
    let Some((ground, disk, record)) = applied(Syncs::Kept) else { return };
    for file in &ground.manifest.files {
        assert_eq!(Identity::of(&file.path).unwrap(), file.after, "{:?}", file.path);
    }
    let written = Applied::read(&ground.at("fast")).unwrap().expect("it is written down");
    assert!(written.preload.is_some() && ground.at("home/data/applications").join(DESKTOP).exists());
    ground.judge(&disk, &record).unwrap();
    let (states, different) = each_once(&disk, |state, variant| ground.comes_back(&disk, state, variant)).unwrap();
    assert!(states > 200 && different > 100, "{states} states, {different} different ones");

    let (ground, disk, record) = undone(Syncs::Kept).unwrap();
    assert!(ground.all() == ground.originals, "it is not undone");
    ground.judge(&disk, &record).unwrap();
    let (states, different) = each_once(&disk, |state, variant| ground.comes_back(&disk, state, variant)).unwrap();
    assert!(states > 200 && different > 8, "{states} states, {different} different ones");

    // The state directory is synced for the record, and again for the journal's before anything is written; what is
    // kept of a packed file, by name and again with its manifest; the home, for two directories. Of what goes back, the
    // directories that it comes from are synced again when the rest of what was in them goes.
    assert_eq!(needless(applied), [0, 10, 32]);
    assert_eq!(needless(undone), [8, 10]);
}

/// The same of caches: whatever a cut leaves, all comes back.
fn assert_caches_survive() {
    let Some(ground) = Ground::with_caches() else { return };
    let disk = Disk::of(&[ground.home.path()], Syncs::Kept);
    disk.run(|| ground.apply());
    assert_eq!(fs::read(ground.at("system/modules/old.cache")).unwrap(), b"newer");
    assert_eq!(fs::read(ground.at("system/modules/new.cache")).unwrap(), b"new");
    let written = Applied::read(&ground.at("fast")).unwrap().expect("it is written down");
    assert!(fs::read_to_string(written.environment.unwrap().file).unwrap().contains("LD_BIND_NOW=1\n"));
    each_once(&disk, |state, variant| ground.comes_back(&disk, state, variant)).unwrap();

    let ground = Ground::with_caches().unwrap();
    ground.apply();
    let disk = Disk::of(&[ground.home.path()], Syncs::Kept);
    disk.run(|| ground.undo().unwrap());
    assert!(ground.all() == ground.originals, "it is not undone");
    each_once(&disk, |state, variant| ground.comes_back(&disk, state, variant)).unwrap();
}

/// The syncs that nobody misses, neither who looks at the disk nor who undoes.
fn needless(act: impl Fn(Syncs) -> Option<(Ground, Disk, PathBuf)>) -> Vec<usize> {
    let (mut needless, _) = needless_syncs(|syncs| {
        let (ground, disk, record) = act(syncs).unwrap();
        (disk.syncs(), ground.judge(&disk, &record))
    });
    needless.retain(|number| {
        let (ground, disk, _) = act(Syncs::Without(*number)).unwrap();
        each_once(&disk, |state, variant| ground.comes_back(&disk, state, variant)).is_ok()
    });
    needless
}

#[test]
fn a_power_cut_while_caches_are_applied_or_undone_loses_nothing() {
    testing::beside_a_runner("a_power_cut_while_caches_are_applied_or_undone_loses_nothing", assert_caches_survive);
}

#[test]
fn a_power_cut_while_a_result_is_applied_or_undone_loses_nothing() {
    testing::beside_a_runner("a_power_cut_while_a_result_is_applied_or_undone_loses_nothing", assert_survives);
}
