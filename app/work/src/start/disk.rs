//! The simulated disk of a recording: made and entered before anything else runs, lent to `bench`, and asked in the end
//! how well it kept to its model.

use super::stage::Stage;
use crate::plan::DiskPlan;
use crate::recorded::{AT_ONCE, SIMULATED_DISK, USED_DEV};
use bench::ground::Ground;
use disk::simulated::{Fidelity, Namespace, Options, Pace, Simulated};
use model::loader::LoaderRun;
use model::{Bytes, Cause, Error, Exit, FileKind, Owner, Result, TraceRows, Warning, WarningKind};
use os::mounts::{Backing, Mounts};
use recording::Fact;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long processes that were killed may take to let go of the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Less of the program's own files beside the disk is not worth a warning.
const WORTH_SAYING: Bytes = Bytes(1_000_000);

/// The disk, shared with the lab that runs on it.
#[derive(Clone, Debug)]
pub struct RunDisk(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    disk: Simulated,
    pace: Pace,
    fidelity: Fidelity,
}

impl RunDisk {
    /// Copies the programs' own files onto a new disk and moves thaw to where the copies cover the originals. thaw has
    /// one thread still.
    ///
    /// # Errors
    /// Not root, no FUSE or loop devices, no room; the recording would lie on it.
    pub fn enter(plan: &DiskPlan, stage: &Stage, recording: &Path) -> Result<(Self, Vec<Warning>)> {
        let items = items(plan, stage)?;
        refuse_recording(&items, recording)?;
        let options = Options {
            model: plan.preset.model.clone(),
            items,
            image: plan.image.clone(),
            read_ahead_kib: plan.read_ahead_kib,
        };
        let (mut disk, warnings) = Simulated::create(&options)?;
        disk.enter()?;
        Ok((Self(Rc::new(RefCell::new(Inner { disk, pace: plan.pace, fidelity: Fidelity::default() }))), warnings))
    }

    /// What a trace needs to know of it.
    ///
    /// # Errors
    /// thaw's state directory is gone.
    pub fn files(&self) -> Result<DiskFiles> {
        let inner = self.0.borrow();
        Ok(DiskFiles { names: inner.disk.namespace()?, dev: inner.disk.dev(), told: false })
    }

    /// What it is, for the recording.
    pub fn facts(&self, plan: &DiskPlan) -> Vec<Fact> {
        let inner = self.0.borrow();
        let model = &plan.preset.model;
        let fact = |key: &str, value: String| Fact { subject: SIMULATED_DISK.into(), key: key.into(), value };
        let pace = if plan.pace == Pace::Model { "as the model says" } else { AT_ONCE };
        let mut facts = vec![
            fact("name", model.name.clone()),
            fact("title", model.title.clone()),
            fact("answers", pace.into()),
            fact("read_ahead_kb", plan.read_ahead_kib.to_string()),
            fact(USED_DEV, inner.disk.dev().to_string()),
            fact("used_files", inner.disk.copied().files.to_string()),
            fact("used_bytes", inner.disk.copied().bytes.0.to_string()),
        ];
        for figure in &plan.preset.figures {
            facts.push(fact(&format!("model {}", figure.figure), figure.value.clone()));
            facts.push(fact(&format!("source {}", figure.figure), figure.source.clone()));
        }
        facts
    }

    /// Takes the disk away, and says how well it kept to its model.
    pub fn leave(self) -> (Vec<Fact>, Vec<Warning>) {
        let fidelity = self.0.borrow().fidelity;
        let fact = |key: &str, value: String| Fact { subject: SIMULATED_DISK.into(), key: key.into(), value };
        let mut facts = Vec::new();
        if fidelity.requests > 0 {
            facts.push(fact("late_requests", fidelity.late.to_string()));
            facts.push(fact("late_share", fidelity.share().to_string()));
            facts.push(fact("late_latest_ns", fidelity.latest.0.to_string()));
        }
        let mut warnings: Vec<Warning> = fidelity.warning().into_iter().collect();
        let disk = Rc::try_unwrap(self.0).map_err(|_| Error::bug("somebody still has the simulated disk"));
        if let Err(error) = disk.and_then(|inner| inner.into_inner().disk.finish()) {
            warnings.push(Warning::new(WarningKind::Leftover, error.to_string()).hint("run `thaw doctor`"));
        }
        (facts, warnings)
    }
}

/// Which files of a trace are on the disk, and what they are called.
pub struct DiskFiles {
    names: Namespace,
    dev: u64,
    told: bool,
}

impl DiskFiles {
    /// The kernel names them by where the whole disk is mounted; everybody else by their originals.
    pub fn name_originals(&self, rows: &mut TraceRows) {
        let files = rows.files.iter_mut().map(|file| &mut file.path);
        let executed = rows.processes.iter_mut().filter_map(|process| process.exe.as_mut());
        let opened = rows.opens.iter_mut().map(|open| &mut open.path);
        files.chain(executed).chain(opened).for_each(|path| *path = self.names.original(path));
    }

    /// The same for what the loader was seen to load.
    pub fn name_originals_of_loader(&self, rows: &mut LoaderRun) {
        for start in &mut rows.starts {
            let objects = start.objects.iter_mut().map(|row| &mut row.path);
            let of_initialisers = start.initialisers.iter_mut().map(|row| &mut row.object);
            let all = objects.chain(of_initialisers).chain([&mut start.program]);
            all.for_each(|path| *path = self.names.original(path));
        }
    }

    /// Says, once, what the program read of its own that is not on the disk: it came from the machine's own.
    pub fn missing(&mut self, rows: &TraceRows) -> Option<Warning> {
        let mut directories: BTreeMap<&Path, Bytes> = BTreeMap::new();
        for fill in rows.fills.iter().filter(|fill| fill.cause != Cause::Write) {
            let file = rows.files.get(fill.file.0 as usize)?;
            if file.kind == FileKind::Regular && file.owner == Owner::App && file.dev != self.dev {
                *directories.entry(file.path.parent().unwrap_or(&file.path)).or_default() += fill.len;
            }
        }
        let all: Bytes = directories.values().copied().sum();
        let (most, _) = directories.iter().max_by_key(|(_, bytes)| **bytes)?;
        let text = format!(
            "{all} of the program's own files came from the machine's own disk, at its speed, most of them from {}",
            most.display()
        );
        let hint = "have them on the simulated disk, too: --disk-include PATH";
        let tell = all >= WORTH_SAYING && !std::mem::replace(&mut self.told, true);
        tell.then(|| Warning::new(WarningKind::Note, text).hint(hint))
    }
}

impl Ground for RunDisk {
    fn put_back(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.0.borrow_mut().disk.restore() {
                Err(_) if Instant::now() < until => os::interrupt::check()?,
                done => return done,
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn begin(&mut self) -> Result<()> {
        let Inner { disk, pace, .. } = &mut *self.0.borrow_mut();
        disk.forget_log()?;
        disk.pace(*pace)
    }

    fn end(&mut self) -> Result<()> {
        let Inner { disk, fidelity, .. } = &mut *self.0.borrow_mut();
        disk.pace(Pace::Free)?;
        fidelity.add(&disk.log()?);
        Ok(())
    }
}

/// What is copied: the programs, their directories, the run directory, what was asked for. What lies in memory stays
/// there.
fn items(plan: &DiskPlan, stage: &Stage) -> Result<Vec<PathBuf>> {
    let mounts = Mounts::load()?;
    let on_a_disk = |path: &PathBuf| {
        let backing = mounts.of_path(path).map(|mount| mount.backing());
        path.exists() && !matches!(backing, Some(Backing::Memory | Backing::Kernel))
    };
    let run_dir = stage.run_dir.iter().map(|directory| directory.path().to_owned());
    let own = stage.app_dirs().into_iter().chain(run_dir).filter(on_a_disk);
    let items: Vec<PathBuf> = own.chain(plan.include.iter().cloned()).collect();
    if items.is_empty() {
        return Err(Error::new(Exit::Usage, "nothing of the program would lie on the simulated disk", "")
            .hint("name its files with --disk-include PATH"));
    }
    Ok(items)
}

/// A recording on the simulated disk would be gone with it.
fn refuse_recording(items: &[PathBuf], recording: &Path) -> Result<()> {
    let absolute = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
    let directory = absolute.parent().and_then(|above| above.canonicalize().ok()).unwrap_or(absolute);
    let covers = |item: &&PathBuf| item.canonicalize().is_ok_and(|item| directory.starts_with(item));
    match items.iter().find(covers) {
        None => Ok(()),
        Some(item) => {
            Err(Error::on(Exit::Usage, "the recording would lie on the simulated disk, with everything in", item)
                .hint("write it elsewhere: -o FILE"))
        }
    }
}
