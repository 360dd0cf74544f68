//! From the system calls of the loader to phases and shares of objects. Pure.

use super::objects::Object;
use super::{Mapped, Phase, PhaseKind, Relocated};
use model::Nanos;
use std::path::PathBuf;

/// A system call of the loader, on the program's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// What it was.
    pub what: Kind,
    /// When it began.
    pub began: Nanos,
    /// When it ended.
    pub ended: Nanos,
}

/// System calls that are boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// close, of this file.
    Close(PathBuf),
    /// mprotect, from this address on.
    Protect(u64),
    /// Any other.
    #[default]
    Other,
}

/// Moments of a start, on the program's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moments {
    /// The first instruction of the loader.
    pub loader: Nanos,
    /// It begins to map.
    pub mapping: Option<Nanos>,
    /// It has mapped and relocated everything.
    pub consistent: Option<Nanos>,
    /// The program's entry.
    pub entry: Option<Nanos>,
    /// Main.
    pub main: Option<Nanos>,
}

/// What the system calls tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub phases: Vec<Phase>,
    pub mapped: Vec<Mapped>,
    pub relocated: Vec<Relocated>,
    pub cannot: Vec<String>,
}

/// Objects are all that were mapped when the loader was done.
pub(super) fn tell(calls: &[Call], objects: &[Object], moments: &Moments) -> Told {
    let mut told = Told::default();
    let (Some(mapping), Some(consistent)) = (moments.mapping, moments.consistent) else {
        told.cannot.push("what the loader did: it ended before it had loaded everything".into());
        return told;
    };
    let relro = |call: &Call| match call.what {
        Kind::Protect(address) => objects.iter().find(|object| object.relro == Some(address)),
        _ => None,
    };
    let first = calls.iter().position(|call| relro(call).is_some());
    let before = &calls[..first.unwrap_or(calls.len())];
    let mapped = map(before, objects, mapping, &mut told);
    // Between the last call that prepares and the first that protects, nothing but relocation is done.
    let prepared = match first {
        Some(_) => before.last().map_or(mapped, |call| call.ended.max(mapped)),
        None => consistent,
    };
    let mut last = prepared;
    for (call, object) in calls[first.unwrap_or(calls.len())..].iter().filter_map(|call| Some((call, relro(call)?))) {
        told.relocated.push(Relocated {
            path: object.path.clone(),
            took: since(call.ended, last),
            protecting: since(call.ended, call.began),
            relocations: object.relocations,
        });
        last = call.ended;
    }
    for object in objects.iter().filter(|object| object.relro.is_none()) {
        told.cannot.push(format!(
            "how long the relocation of {} took: it is not protected afterwards, so it counts to the object after it",
            model::shown(&object.path)
        ));
    }
    let never = |object: &&Object| object.relro.is_some() && !told.relocated.iter().any(|it| it.path == object.path);
    let missing: Vec<String> = objects.iter().filter(never).map(|it| model::shown(&it.path).to_string()).collect();
    if !missing.is_empty() {
        told.cannot.push(format!("how long relocation took of what was not seen protected: {}", missing.join(", ")));
    }
    let ends = [
        (PhaseKind::Bootstrap, Some(mapping)),
        (PhaseKind::Map, Some(mapped)),
        (PhaseKind::Prepare, Some(prepared)),
        (PhaseKind::Relocate, Some(last)),
        (PhaseKind::Finish, Some(consistent)),
        (PhaseKind::Initialise, moments.entry),
        (PhaseKind::Enter, moments.main),
    ];
    let mut began = moments.loader;
    for (kind, end) in ends {
        let Some(end) = end else { break };
        told.phases.push(Phase { kind, began, took: since(end, began) });
        began = end;
    }
    told
}

/// The files that were closed while libraries were mapped; when the last of the objects was.
fn map(calls: &[Call], objects: &[Object], mapping: Nanos, told: &mut Told) -> Nanos {
    let mut last = mapping;
    let mut done = mapping;
    for call in calls.iter().filter(|call| call.ended >= mapping) {
        let Kind::Close(path) = &call.what else { continue };
        let is_object = objects.iter().any(|object| object.path == *path);
        told.mapped.push(Mapped { path: path.clone(), took: since(call.ended, last), is_object });
        last = call.ended;
        if is_object {
            done = last;
        }
    }
    done
}

fn since(end: Nanos, began: Nanos) -> Nanos {
    Nanos(end.0.saturating_sub(began.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(what: Kind, began: u64, ended: u64) -> Call {
        Call { what, began: Nanos(began), ended: Nanos(ended) }
    }

    fn object(path: &str, relro: Option<u64>) -> Object {
        Object { path: path.into(), relro, ..Object::default() }
    }

    #[test]
    fn each_object_has_the_time_between_two_boundaries() {
        let calls = [
            call(Kind::Other, 5, 6),
            call(Kind::Close("/etc/ld.so.cache".into()), 12, 13),
            call(Kind::Other, 15, 16),
            call(Kind::Close("/lib/a".into()), 20, 22),
            // A hole between segments.
            call(Kind::Protect(0x9000), 24, 25),
            call(Kind::Close("/lib/b".into()), 30, 31),
            call(Kind::Other, 35, 36),
            call(Kind::Protect(0x1000), 50, 52),
            call(Kind::Other, 53, 54),
            call(Kind::Protect(0x2000), 60, 61),
            call(Kind::Other, 64, 65),
        ];
        let objects = [object("/bin/p", Some(0x2000)), object("/lib/a", Some(0x1000)), object("/lib/b", None)];
        let at = |ns| Some(Nanos(ns));
        let moments = Moments { loader: Nanos(2), mapping: at(10), consistent: at(70), entry: at(90), main: at(95) };
        let told = tell(&calls, &objects, &moments);
        let mapped: Vec<_> = told.mapped.iter().map(|it| (it.took.0, it.is_object)).collect();
        assert_eq!(mapped, [(3, false), (9, true), (9, true)]);
        let relocated: Vec<_> = told.relocated.iter().map(|it| (it.took.0, it.protecting.0)).collect();
        assert_eq!(relocated, [(16, 2), (9, 1)]);
        let phases: Vec<_> = told.phases.iter().map(|it| (it.began.0, it.took.0)).collect();
        assert_eq!(phases, [(2, 8), (10, 21), (31, 5), (36, 25), (61, 9), (70, 20), (90, 5)]);
        assert_eq!(told.cannot.len(), 1, "{:?}", told.cannot);
        assert!(told.cannot[0].contains("/lib/b"));
    }

    #[test]
    fn an_end_on_the_way_is_said() {
        let told = tell(&[], &[], &Moments { loader: Nanos(2), mapping: Some(Nanos(3)), ..Moments::default() });
        assert_eq!((told.phases.len(), told.cannot.len()), (0, 1));
        let moments = Moments { mapping: Some(Nanos(3)), consistent: Some(Nanos(9)), ..Moments::default() };
        let told = tell(&[], &[object("/bin/p", Some(1))], &moments);
        assert_eq!(told.phases.last().map(|phase| phase.kind), Some(PhaseKind::Finish));
        assert!(told.cannot[0].contains("/bin/p"));
    }
}
