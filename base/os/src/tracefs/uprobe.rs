//! Tracepoints of our own at places of programs' code (uprobes). They belong to the machine: the journal says which
//! are ours, so that what a killed thaw leaves is removed.

use super::{Format, Tracefs};
use crate::hold::journal::{Entry, Journal, Undo};
use model::{Error, Exit, Result};
use rustix::fs::OFlags;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Begins the names of our groups.
const PREFIX: &str = "thaw_";
const FILE: &str = "uprobe_events";

/// A place that is to be a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The program or library, by its absolute path.
    pub path: PathBuf,
    /// Where the instruction is in it, in bytes.
    pub offset: u64,
    /// Where the counter of those who listen is in it, in bytes, if it has one.
    pub semaphore: Option<u64>,
    /// Names and what the kernel is to fetch for each: `("arg0", "%di:u64")`, `("arg1", "+0(%si):ustring")`.
    pub fetch: Vec<(String, String)>,
}

/// Tracepoints of ours; they are gone when this is dropped.
#[derive(Debug)]
pub struct Uprobes {
    formats: Vec<Format>,
    entry: Entry,
}

impl Uprobes {
    /// Defines them; nothing is hit before somebody opens them. At least one.
    ///
    /// # Errors
    /// Only root may; this kernel has none; a path with a space; what is fetched is not understood.
    pub fn define(tracefs: &Tracefs, places: &[Place]) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let group = format!("{PREFIX}{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let lines = places.iter().enumerate().map(|(number, place)| line(&group, number, place));
        let lines = lines.collect::<Result<Vec<_>>>()?;
        let entry = Journal::own()?.hold(Undo::RemoveUprobes { group: group.clone() }, undo, || {
            lines.iter().try_for_each(|line| write(tracefs, line))
        })?;
        let format = |number: usize| tracefs.tracepoint(&group, &format!("p{number}"));
        let formats = (0..places.len()).map(format).collect::<Result<_>>()?;
        Ok(Self { formats, entry })
    }

    /// How their records look, in the order of the places.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// Removes them. Whoever opened them has closed them.
    ///
    /// # Errors
    /// Somebody still uses one.
    pub fn remove(self) -> Result<()> {
        self.entry.undo()
    }
}

fn line(group: &str, number: usize, place: &Place) -> Result<String> {
    let text = place.path.to_str().filter(|text| !text.contains(char::is_whitespace)).ok_or_else(|| {
        Error::on(Exit::Usage, "the kernel takes no probes of a path with spaces:", &place.path)
            .hint("name it by a link without: --file LINK")
    })?;
    let mut line = format!("p:{group}/p{number} {text}:{:#x}", place.offset);
    if let Some(semaphore) = place.semaphore {
        line += &format!("({semaphore:#x})");
    }
    for (name, fetch) in &place.fetch {
        line += &format!(" {name}={fetch}");
    }
    Ok(line)
}

/// Appends: a file that is opened for writing alone loses the probes of everybody.
fn write(tracefs: &Tracefs, line: &str) -> Result<()> {
    let written =
        tracefs.open_file(FILE, OFlags::WRONLY | OFlags::APPEND).and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|cause| {
        let error = Error::new(Exit::Machine, "the kernel does not take the probe", line);
        let hint = match cause.kind() {
            io::ErrorKind::NotFound => "this kernel is built without uprobes (CONFIG_UPROBE_EVENTS)",
            io::ErrorKind::PermissionDenied => "run thaw as root",
            _ => "the kernel says more in tracing/error_log",
        };
        error.because(cause).hint(hint)
    })
}

/// Removes what an entry of the journal names.
pub(crate) fn undo(undo: &Undo, _entry: &std::path::Path) -> Result<()> {
    match undo {
        Undo::RemoveUprobes { group } => remove(group),
        other => Err(other.is_of_another_hand()),
    }
}

fn remove(group: &str) -> Result<()> {
    let is_ours =
        group.strip_prefix(PREFIX).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'));
    if !is_ours {
        return Err(Error::new(Exit::Machine, "these are not probes of thaw's:", group));
    }
    let tracefs = Tracefs::open()?;
    let listed = tracefs.read(FILE).map_err(|cause| {
        Error::new(Exit::Machine, "cannot read the list of probes", FILE).because(cause).hint("run thaw as root")
    })?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("p:"));
    names
        .filter(|name| name.split('/').next() == Some(group))
        .try_for_each(|name| write(&tracefs, &format!("-:{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{Body, Point, Sampler, SamplerOptions, Scope};
    use crate::spawn::{Launch, spawn_gated};
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn other_peoples_probes_are_refused() {
        assert!(remove("thaw_x").is_err() && remove("perf_probe").is_err() && remove("").is_err());
        let place = Place { path: "/a b".into(), offset: 0, semaphore: None, fetch: Vec::new() };
        assert_eq!(line("g", 0, &place).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_place_in_a_program_is_hit_with_what_was_asked_for_and_gone_afterwards() {
        if !testing::root_or_skip() {
            return;
        }
        let Ok(tracefs) = Tracefs::open() else { return testing::skip("no tracefs") };
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("a.c");
        std::fs::write(
            &source,
            "int asked(int x, const char *t) { return x + t[0]; }\n\
             int main(int n, char **w) { return asked(n, w[0]) == 0; }",
        )
        .unwrap();
        let program = home.path().join("a");
        if !testing::compiled(std::process::Command::new("cc").args(["-O0", "-o"]).arg(&program).arg(&source)) {
            return;
        }
        let offset = place_of(&program, "asked");
        let fetch = [("number", "%di:s32"), ("text", "+0(%si):ustring")];
        let fetch = fetch.iter().map(|(name, how)| ((*name).to_owned(), (*how).to_owned())).collect();
        let place = Place { path: program.canonicalize().unwrap(), offset, semaphore: None, fetch };
        let probes = match Uprobes::define(&tracefs, &[place]) {
            Ok(probes) => probes,
            Err(error) => return testing::skip(&format!("no uprobes: {error}")),
        };
        let format = &probes.formats()[0];
        let gated = spawn_gated(Launch::new([program.as_os_str()])).unwrap();
        let points = vec![Point { id: format.id, scope: Scope::Tree, filter: None }];
        let sampler = Sampler::start(gated.pid(), &SamplerOptions { points, ..SamplerOptions::default() }).unwrap();
        gated.release().unwrap().wait().unwrap();
        let log = sampler.stop().unwrap();
        let hits: Vec<_> = log
            .records()
            .iter()
            .filter_map(|record| match record.body {
                Body::Sample { raw, .. } => Some((
                    format.field("number").unwrap().get(raw).unwrap(),
                    format.field("text").unwrap().text(raw).unwrap().to_vec(),
                )),
                _ => None,
            })
            .collect();
        assert_eq!(hits, [(1, program.as_os_str().as_bytes().to_vec())]);
        let group = format.system.clone();
        assert!(tracefs.read(FILE).unwrap().contains(&group));
        probes.remove().unwrap();
        assert!(!tracefs.read(FILE).unwrap().contains(&group));
    }

    /// Where a function is in a program whose code lies in the file as in memory.
    fn place_of(program: &std::path::Path, name: &str) -> u64 {
        let said = std::process::Command::new("nm").arg(program).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let line = said.lines().find(|line| line.split_whitespace().nth(2) == Some(name)).unwrap();
        u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
    }
}
