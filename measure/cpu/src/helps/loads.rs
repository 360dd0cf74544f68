//! Rules on the loader's figures. Pure.

use super::Help;
use super::bound::Bound;
use model::loader::{Cost, InitialiserRow, LoaderObject, LoaderStart, PhaseKind};
use model::{Nanos, shown};
use std::path::Path;

/// What is shorter is not told from what watching costs.
const LEAST: Nanos = Nanos(20_000);
/// With so many relative relocations for each symbol that is looked up, they are what relocation is about.
const MOSTLY: u64 = 10;

/// What would help against what the loader does.
pub(super) fn helps(starts: &[LoaderStart], cost: Cost, bound: &Bound<'_>) -> Vec<Help> {
    let mut helps = Vec::new();
    for (place, start) in starts.iter().enumerate() {
        let mut of_start = of_start(start, cost, bound);
        // What was executed before may have made others, who are not earlier.
        of_start.iter_mut().for_each(|help| help.is_at_most |= place > 0);
        helps.extend(of_start);
    }
    helps
}

fn of_start(start: &LoaderStart, cost: Cost, bound: &Bound<'_>) -> Vec<Help> {
    let mut helps: Vec<Help> = start.objects.iter().filter_map(|object| relocations(object, start)).collect();
    helps.extend(mapping(start));
    for (place, row) in (0..).zip(&start.initialisers) {
        helps.extend(initialiser(place, row, start, cost));
    }
    for help in &mut helps {
        let arrives = bound.of_beginning(help.gain_ns);
        if arrives.ns < help.gain_ns {
            help.how += ", cut: more would uncover another wait";
        }
        help.is_at_most |= arrives.is_cut;
        help.gain_ns = arrives.ns;
        help.low_ns = help.low_ns.map(|low| low.min(arrives.ns));
        help.high_ns = help.high_ns.map(|high| if arrives.is_cut { high.min(arrives.ns) } else { high });
    }
    helps
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| shown(path), |name| name.to_string_lossy().into_owned())
}

/// Protection stays whatever is done about relocations.
fn relocations(object: &LoaderObject, start: &LoaderStart) -> Option<Help> {
    let took = Nanos(object.relocated?.0.saturating_sub(object.protected.unwrap_or_default().0));
    // The loader relocates itself before all else, and what the kernel maps is not the program's to change.
    let is_mapped = object.mapped.is_some() || object.path == start.program;
    if took < LEAST || !is_mapped {
        return None;
    }
    let calls = if object.bound_at_once { object.calls } else { 0 };
    let looked_up = object.symbolic + object.thread_local + object.copies + calls;
    let name = file_name(&object.path);
    let (what, verb) = if object.relative > MOSTLY * looked_up {
        (format!("give {name} fewer relative relocations, or packed ones (DT_RELR)"), "pack")
    } else if calls > object.symbolic + object.thread_local + object.copies {
        (format!("bind the calls of {name} when they are first made (-z lazy in place of -z now)"), "stat")
    } else {
        (format!("let {name} look up fewer symbols (-Bsymbolic, -fvisibility=hidden)"), "stat")
    };
    let mut command: Vec<String> = ["thaw", "elf", verb].map(str::to_owned).to_vec();
    command.push(shown(&object.path));
    if verb == "pack" {
        command.extend(["-o".to_owned(), format!("{name}.packed")]);
    }
    Some(Help {
        what,
        owner: format!(
            "the loader relocates {name} for {took}: {} relative, {looked_up} looked up, {} IFUNC",
            object.relative, object.irelative
        ),
        gain_ns: took.0,
        low_ns: None,
        high_ns: None,
        is_at_most: true,
        how: "all of its relocation in a hot start, without protection; which part each kind has is not known".into(),
        eases: None,
        command,
    })
}

fn mapping(start: &LoaderStart) -> Option<Help> {
    let phase = start.phases.iter().find(|phase| phase.phase == PhaseKind::Map)?;
    let mapped = start.objects.iter().filter(|object| object.is_object && object.mapped.is_some());
    let took: Nanos = mapped.clone().filter_map(|object| object.mapped).sum();
    let count = mapped.count();
    if count < 2 || took < LEAST {
        return None;
    }
    let gain = took.min(phase.took);
    Some(Help {
        what: format!("link fewer than these {count} libraries: leave out what is not used, or link statically"),
        owner: format!("the loader of {} finds and maps {count} libraries for {gain}", file_name(&start.program)),
        gain_ns: gain.0,
        low_ns: None,
        high_ns: None,
        is_at_most: true,
        how: "finding and mapping all of them, in a hot start".to_owned(),
        eases: None,
        command: Vec::new(),
    })
}

/// Its own time: others that ran within it are rows of their own.
fn initialiser(place: u32, row: &InitialiserRow, start: &LoaderStart, cost: Cost) -> Option<Help> {
    let within: Nanos =
        start.initialisers.iter().filter(|other| other.within == Some(place)).map(|other| other.took).sum();
    let own = Nanos(row.took.0.saturating_sub(within.0));
    if !row.returned || own < LEAST {
        return None;
    }
    let object = file_name(&row.object);
    let name = row.function.clone().unwrap_or_else(|| format!("the function at {:#x}", row.address));
    let source = row.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
    // One breakpoint before and one behind it: each may have cost nothing, or twice as much.
    let doubt = 2 * cost.breakpoint.0;
    Some(Help {
        what: format!("let {name} of {object} run when it is first needed, not when {object} is loaded"),
        owner: format!("initialiser {name} of {object}{source} takes {own}"),
        gain_ns: own.0,
        low_ns: Some(own.0.saturating_sub(doubt)),
        high_ns: Some(own.0 + doubt),
        // Of a library that is loaded later nobody knows whether it is waited for.
        is_at_most: start.before_main.is_none_or(|main| row.began > main),
        how: "how long it took in a hot start whose loader was watched".to_owned(),
        eases: None,
        command: Vec::new(),
    })
}
