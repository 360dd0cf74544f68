//! What was seen, as the recording keeps it: one row for each file, mapped and relocated. Pure.

use super::{Loaded, Start, Watched};
use model::loader::{InitialiserRow, LoaderObject, LoaderPhase, LoaderRun, LoaderStart};

impl Watched {
    /// As rows; initialisers have no names yet.
    pub fn kept(&self) -> LoaderRun {
        let starts = self.starts.iter().map(|start| match start {
            Start::Loaded(loaded) => of(loaded),
            Start::Unknown { program, because } => {
                LoaderStart { program: program.clone(), because: Some(because.clone()), ..LoaderStart::default() }
            }
        });
        LoaderRun { starts: starts.collect(), cost: self.cost }
    }
}

fn of(loaded: &Loaded) -> LoaderStart {
    let phase = |phase: &super::Phase| LoaderPhase { phase: phase.kind, from: phase.began, took: phase.took };
    let initialiser = |it: &super::Initialiser| InitialiserRow {
        object: it.object.clone(),
        address: it.address,
        table: it.table,
        place: it.place,
        function: None,
        source: None,
        tid: it.tid,
        began: it.began,
        took: it.took,
        cpu: it.cpu,
        within: it.within,
        returned: it.returned,
    };
    LoaderStart {
        program: loaded.program.clone(),
        because: None,
        exec: loaded.exec,
        before_main: loaded.before_main,
        phases: loaded.phases.iter().map(phase).collect(),
        objects: objects(loaded),
        initialisers: loaded.initialisers.iter().map(initialiser).collect(),
        cannot: loaded.cannot.clone(),
    }
}

fn objects(loaded: &Loaded) -> Vec<LoaderObject> {
    let mut rows: Vec<LoaderObject> = Vec::new();
    for mapped in &loaded.mapped {
        rows.push(LoaderObject {
            path: mapped.path.clone(),
            is_object: mapped.is_object,
            mapped: Some(mapped.took),
            ..LoaderObject::default()
        });
    }
    for relocated in &loaded.relocated {
        let known = rows.iter().position(|row| row.is_object && row.path == relocated.path);
        let place = known.unwrap_or_else(|| {
            rows.push(LoaderObject { path: relocated.path.clone(), is_object: true, ..LoaderObject::default() });
            rows.len() - 1
        });
        let (row, counts) = (&mut rows[place], &relocated.relocations);
        (row.relocated, row.protected) = (Some(relocated.took), Some(relocated.protecting));
        (row.relative, row.symbolic, row.calls) = (counts.relative, counts.symbolic, counts.calls);
        (row.irelative, row.thread_local, row.copies) = (counts.indirect, counts.thread_local, counts.copies);
        row.bound_at_once = counts.bound_at_once;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{Mapped, Relocated, Relocations};
    use super::*;
    use model::Nanos;

    #[test]
    fn a_file_is_one_row_whether_it_was_mapped_or_relocated_or_both() {
        let mapped = |path: &str, took, is_object| Mapped { path: path.into(), took: Nanos(took), is_object };
        let relocated = |path: &str, took, relative| Relocated {
            path: path.into(),
            took: Nanos(took),
            protecting: Nanos(1),
            relocations: Relocations { relative, bound_at_once: true, ..Relocations::default() },
        };
        let loaded = Loaded {
            mapped: vec![mapped("/etc/ld.so.cache", 5, false), mapped("/lib/a.so", 7, true)],
            relocated: vec![relocated("/lib/a.so", 11, 3), relocated("/bin/x", 13, 4)],
            ..Loaded::default()
        };
        let unknown = Start::Unknown { program: "/bin/static".into(), because: "it is static".into() };
        let watched = Watched { starts: vec![unknown, Start::Loaded(Box::new(loaded))], ..Watched::default() };
        let kept = watched.kept();
        assert_eq!(kept.starts[0].because.as_deref(), Some("it is static"));
        assert!(kept.starts[0].objects.is_empty() && kept.starts[0].phases.is_empty());
        let rows: Vec<_> = kept.starts[1]
            .objects
            .iter()
            .map(|row| (row.path.to_str().unwrap(), row.is_object, row.mapped, row.relocated, row.relative))
            .collect();
        let (some, none) = (|ns| Some(Nanos(ns)), None);
        assert_eq!(
            rows,
            [
                ("/etc/ld.so.cache", false, some(5), none, 0),
                ("/lib/a.so", true, some(7), some(11), 3),
                ("/bin/x", true, none, some(13), 4)
            ]
        );
    }
}
