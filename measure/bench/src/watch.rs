//! The settings of the machine that runs are measured under, and who changed something meanwhile: read before each run
//! and after it.

use os::disk::Disk;
use os::settings::Hold;
use std::path::PathBuf;

/// A setting and the value that every run shall be made under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// `read-ahead of vda`
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The value.
    pub value: String,
}

/// The machine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Values that differ from what they shall be: (name, wanted, found).
    wrong: Vec<(String, String, String)>,
    /// How often the machine's caches were dropped so far.
    drops: Option<u64>,
}

/// What is watched.
#[derive(Debug, Default)]
pub(crate) struct Watched(Vec<Setting>);

impl Watched {
    /// Of disks: read-ahead and scheduler, as they are between others' runs. Of CPUs: the governors that are held.
    pub fn new(disks: &[Disk], governors: &[Hold]) -> Self {
        let mut settings = Vec::new();
        let mut add = |name: String, path: PathBuf| {
            let value = os::settings::lasting(&path);
            settings.extend(value.map(|value| Setting { name, path, value }));
        };
        for disk in disks {
            add(format!("the read-ahead of {}", disk.name), disk.read_ahead_file.clone());
            add(format!("the I/O scheduler of {}", disk.name), disk.scheduler_file());
        }
        for governor in governors {
            add("a CPU's governor".to_owned(), governor.path().to_owned());
        }
        Self(settings)
    }

    /// From now on a setting shall have this value.
    pub fn expect(&mut self, path: &std::path::Path, value: &str) {
        for setting in self.0.iter_mut().filter(|setting| setting.path == path) {
            value.clone_into(&mut setting.value);
        }
    }

    /// Looks at everything.
    pub fn look(&self) -> Moment {
        let wrong = self.0.iter().filter_map(|setting| {
            let found = value_of(&setting.path).unwrap_or_else(|| "gone".to_owned());
            (found != setting.value).then(|| (setting.name.clone(), setting.value.clone(), found))
        });
        Moment { wrong: wrong.collect(), drops: os::cache::drops() }
    }
}

fn value_of(path: &std::path::Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

impl Moment {
    /// Why a run that begins now would not be made under what the recording says.
    pub fn objection(&self) -> Option<String> {
        let (name, wanted, found) = self.wrong.first()?;
        Some(format!("somebody set {name} to '{found}'; the recording is made at '{wanted}'"))
    }

    /// Why a run between two moments was not.
    pub fn disturbed_since(&self, before: &Self) -> Option<String> {
        if let Some(why) = self.objection() {
            return Some(why);
        }
        let times = self.drops?.checked_sub(before.drops?).filter(|times| *times > 0)?;
        Some(format!("somebody dropped the machine's caches during the run (by {times} in /proc/vmstat)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_and_foreign_drops_are_found() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("read_ahead_kb");
        std::fs::write(&path, "64\n").unwrap();
        let setting = Setting { name: "the read-ahead of vda".to_owned(), path: path.clone(), value: "64".to_owned() };
        let mut watched = Watched(vec![setting]);
        let before = watched.look();
        assert_eq!(before.objection(), None);
        std::fs::write(&path, "256\n").unwrap();
        let why = watched.look().disturbed_since(&before).unwrap();
        assert!(why.contains("read-ahead of vda to '256'") && why.contains("at '64'"), "{why}");
        watched.expect(&path, "256");
        assert_eq!(watched.look().objection(), None);
        std::fs::remove_file(&path).unwrap();
        assert!(watched.look().objection().unwrap().contains("gone"));

        let moment = |drops| Moment { wrong: Vec::new(), drops };
        assert_eq!(moment(Some(7)).disturbed_since(&moment(Some(7))), None);
        assert!(moment(Some(9)).disturbed_since(&moment(Some(7))).unwrap().contains("dropped"));
        assert_eq!(moment(None).disturbed_since(&moment(Some(7))), None, "a kernel that does not count");
    }
}
