//! Runs a program, unmodified, with the kernel noting each hit of the wanted probes.

use super::{Chosen, Wanted, choose, decode};
use crate::own::now::now;
use crate::own::write::file_of;
use crate::trace::Trace;
use elf::Image;
use elf::usdt::{Probe, probes};
use model::{Error, Exit, Result, shown};
use os::perf::{Mappings, Point, Sampler, SamplerOptions, Scope};
use os::replace::{Existing, Rights, write_whole};
use os::spawn::{Ended, Launch, Stream};
use os::tracefs::{Format, Tracefs, Uprobes};
use os::user::Account;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is to be recorded.
#[derive(Debug)]
pub struct Plan {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Whom it runs as; `None`: as thaw.
    pub user: Option<Account>,
    /// Which probes.
    pub wanted: Vec<Wanted>,
    /// Programs and libraries that have them, beside the program itself.
    pub files: Vec<PathBuf>,
}

/// The probes of a program or library, in the order of its notes.
///
/// # Errors
/// It cannot be read, or is no ELF file.
pub fn probes_of(path: &Path) -> Result<Vec<Probe>> {
    let bytes = std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
    let image = Image::of(&bytes[..])
        .map_err(|miss| Error::on(Exit::Usage, "this has no probes:", path).because(miss.to_string()))?;
    Ok(probes(&image))
}

/// `thaw.probes/1`
#[derive(Debug, Serialize)]
pub struct ProbesDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// In the order in which they were asked for.
    pub files: Vec<FileProbes>,
}

/// The probes of a file.
#[derive(Debug, Serialize)]
pub struct FileProbes {
    /// Where it is.
    pub path: String,
    /// By provider and name.
    pub probes: Vec<ProbeRow>,
}

/// A probe.
#[derive(Debug, Serialize)]
pub struct ProbeRow {
    /// Whose it is.
    pub provider: String,
    /// Which it is.
    pub name: String,
    /// How many places the compiler made of it.
    pub places: u64,
    /// How many arguments it has.
    pub arguments: u64,
    /// How many of them can be read, at each of its places.
    pub readable: u64,
}

impl ProbesDocument {
    /// What these files offer.
    ///
    /// # Errors
    /// As [`probes_of`].
    pub fn of(paths: &[PathBuf]) -> Result<Self> {
        let files = paths.iter().map(|path| Ok(FileProbes { path: shown(path), probes: rows(&probes_of(path)?) }));
        Ok(Self { schema: "thaw.probes/1", files: files.collect::<Result<_>>()? })
    }
}

fn rows(probes: &[Probe]) -> Vec<ProbeRow> {
    let mut rows: BTreeMap<(&str, &str), ProbeRow> = BTreeMap::new();
    for probe in probes {
        let (provider, name) = (probe.provider.as_str(), probe.name.as_str());
        let arguments = probe.arguments.len() as u64;
        let readable = probe.arguments.iter().filter(|argument| argument.place.is_some()).count() as u64;
        let row = rows.entry((provider, name)).or_insert_with(|| {
            let (provider, name) = (provider.to_owned(), name.to_owned());
            ProbeRow { provider, name, places: 0, arguments, readable }
        });
        row.places += 1;
        row.readable = row.readable.min(readable);
    }
    rows.into_values().collect()
}

/// Runs it. The trace, and how the program ended. Ctrl-C is passed on to it.
///
/// # Errors
/// No wanted probe is in any of the files; the kernel has no uprobes, or only root may define them; the program cannot
/// be started.
pub fn record(plan: &Plan) -> Result<(Trace, Ended)> {
    let program = os::spawn::resolve_program(plan.command.first().map_or("".as_ref(), |name| name))?;
    let chosen = all_chosen(plan, &program)?;
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let tracefs = Tracefs::open()?;
    let places: Vec<_> = chosen.iter().map(|one| one.place.clone()).collect();
    let defined = Uprobes::define(&tracefs, &places)?;
    let mut launch = Launch::new(&plan.command);
    launch.stdin = Stream::Inherit;
    if let Some(user) = &plan.user {
        user.run(&mut launch);
    }
    let gated = os::spawn::spawn_gated(launch)?;
    let points =
        defined.formats().iter().map(|format| Point { id: format.id, scope: Scope::Tree, filter: None }).collect();
    let options = SamplerOptions { points, mappings: Mappings::Code, ..SamplerOptions::default() };
    let sampler = Sampler::start(gated.pid(), &options)?;
    let ended = gated.release()?.wait_passing_signals(|| ())?;
    // What it started may go on: until it ends, or Ctrl-C.
    os::spawn::wait_for_descendants(|_| ());
    let log = sampler.stop()?;
    let boot = now().map(|(boot, _)| boot).unwrap_or_default();
    let with_formats: Vec<(Chosen, &Format)> = chosen.into_iter().zip(defined.formats()).collect();
    let trace = decode(&log, &with_formats, &program.to_string_lossy(), boot);
    defined.remove()?;
    Ok((trace, ended))
}

fn all_chosen(plan: &Plan, program: &Path) -> Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    // The program may be a script; what is named is meant to have probes.
    let files = plan.files.iter().map(|path| (path.as_path(), true)).chain([(program, false)]);
    for (path, is_named) in files {
        let path = path.canonicalize().map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
        if seen.contains(&path) {
            continue;
        }
        match probes_of(&path) {
            Ok(probes) => chosen.extend(choose(&path, &probes, &plan.wanted)),
            Err(error) if is_named => return Err(error),
            Err(_) => {}
        }
        seen.push(path);
    }
    if chosen.is_empty() {
        let names: Vec<String> = seen.iter().map(|path| shown(path)).collect();
        return Err(Error::new(Exit::Usage, "no such probe is in", names.join(", ")).hint(
            "`thaw timeline probes FILE` lists those of a program or library; --file names one that the program loads",
        ));
    }
    Ok(chosen)
}

/// Writes one file for each process into a directory that is there, as `thaw_events.h` does: where a process of this
/// number has a file already that may not be replaced, `PID.NUMBER.events`. Their paths.
///
/// # Errors
/// The directory cannot be written.
pub fn write(trace: &Trace, directory: &Path, existing: Existing) -> Result<Vec<PathBuf>> {
    let one = |(place, process): (u32, &crate::trace::Process)| {
        let name = |number: u32| match number {
            0 => directory.join(format!("{}.events", process.pid)),
            _ => directory.join(format!("{}.{number}.events", process.pid)),
        };
        let is_free = |path: &PathBuf| existing == Existing::Replace || path.symlink_metadata().is_err();
        let path = (0..).map(name).find(is_free).ok_or_else(|| Error::bug("every number has a file"))?;
        write_whole(&path, &file_of(trace, place), Rights::Private, existing)?;
        Ok(path)
    };
    (0..).zip(&trace.processes).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Builder, Clock, Form, Phase};

    #[test]
    fn what_took_a_run_to_record_is_written_also_where_its_process_has_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = Builder::new(Form::Events, Clock::default());
        let process = builder.process(7, "/bin/a");
        let thread = builder.thread(process, 7, "");
        builder.says(Phase::Mark, 1, thread, 1, None);
        let trace = builder.build();
        let mut names = Vec::new();
        for existing in [Existing::Keep, Existing::Keep, Existing::Keep, Existing::Replace] {
            let [path] = <[PathBuf; 1]>::try_from(write(&trace, directory.path(), existing).unwrap()).unwrap();
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
        assert_eq!(names, ["7.events", "7.1.events", "7.2.events", "7.events"]);
    }
}
