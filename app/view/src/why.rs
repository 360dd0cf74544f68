//! The page of where the time of starts went: lanes of threads with the path over them, owners, stacks. What the
//! document holds is in `docs/view-format.md`; `viewer/src/logic/why.ts` reads it.
//!
//! All figures are those of the report of `measure/cpu`; this packs them.

use crate::columns::{Column, Texts};
use crate::events::Table;
use crate::html;
use cpu::{DrawnPiece, Flames, PathPiece, Picture, Report, Seen, Shared};
use model::{CacheState, Milestone, Result, RunId, Warning};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of what a page holds of where time went.
pub const WHY_SCHEMA: &str = "thaw.why-view/1";

/// What is shown.
#[derive(Clone, Debug)]
pub struct WhyOf<'a> {
    /// The recording's file.
    pub file: &'a str,
    /// The traced starts of each program in each state.
    pub starts: Vec<WhyStartOf<'a>>,
    /// What makes the figures less certain.
    pub warnings: &'a [Warning],
}

/// The traced starts of a program in a state, and one of them drawn.
#[derive(Clone, Debug)]
pub struct WhyStartOf<'a> {
    /// The program's name.
    pub variant_name: &'a str,
    /// Cache state.
    pub state: CacheState,
    /// The runs.
    pub runs: &'a [RunId],
    /// Their mean time until ready, in nanoseconds.
    pub ready_ns: u64,
    /// The share of it that has an owner who is known, 0 to 1.
    pub explained_share: f64,
    /// Who owns it, over all of them.
    pub owners: &'a [Shared],
    /// The run that is drawn.
    pub run: RunId,
    /// What that run did.
    pub report: &'a Report,
    /// The same as it is drawn.
    pub picture: &'a Picture,
    /// Its milestones.
    pub milestones: &'a [Milestone],
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    file: &'a str,
    starts: Vec<Start<'a>>,
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize)]
struct Start<'a> {
    variant_name: &'a str,
    state: CacheState,
    runs: &'a [RunId],
    ready_ns: u64,
    explained_share: f64,
    owners: &'a [Shared],
    /// For each owner of the report: its number among `owners`.
    shared: Vec<Option<usize>>,
    run: RunId,
    /// The report without steps and pieces, which the tables have.
    report: Report,
    milestones: &'a [Milestone],
    /// What is done in a piece, by number.
    seen: Vec<Kind>,
    pieces: Table,
    path: Table,
    flames: Stacks<'a>,
}

/// What is done in a piece.
#[derive(Debug, Serialize)]
struct Kind {
    seen: Seen,
    /// For people.
    text: String,
}

#[derive(Debug, Serialize)]
struct Stacks<'a> {
    /// Functions, and their objects and sources, each once.
    names: Texts,
    objects: Texts,
    sources: Texts,
    frames: Table,
    threads: &'a [String],
    nodes: Table,
}

/// The page of where the time went.
///
/// # Errors
/// It cannot be written as JSON.
pub fn why_page(of: &WhyOf<'_>) -> Result<String> {
    let _span = tracing::info_span!("write page").entered();
    let document = Document {
        schema: WHY_SCHEMA,
        file: of.file,
        starts: of.starts.iter().map(start).collect(),
        warnings: of.warnings,
    };
    let mut names: Vec<&str> = of.starts.iter().map(|start| start.variant_name).collect();
    names.dedup();
    let title = format!("Where the time of {} went · thaw", names.join(", "));
    html::single(&title, "thaw why --from FILE", "thaw-why", &document)
}

fn start<'a>(of: &WhyStartOf<'a>) -> Start<'a> {
    let mut kinds = Kinds::default();
    let lanes: Vec<(u64, &DrawnPiece)> =
        of.picture.lanes.iter().zip(0..).flat_map(|(pieces, lane)| pieces.iter().map(move |it| (lane, it))).collect();
    let (pieces, path) = (packed_pieces(&lanes, &mut kinds), packed_path(&of.picture.path, &mut kinds));
    let mut report = of.report.clone();
    report.steps.clear();
    report.threads.iter_mut().for_each(|lane| lane.pieces.clear());
    Start {
        variant_name: of.variant_name,
        state: of.state,
        runs: of.runs,
        ready_ns: of.ready_ns,
        explained_share: of.explained_share,
        owners: of.owners,
        shared: of.report.owners.iter().map(|owner| of.owners.iter().position(|one| one.is_of(owner))).collect(),
        run: of.run,
        report,
        milestones: of.milestones,
        seen: kinds.all.into_iter().map(|seen| Kind { seen, text: words(seen) }).collect(),
        pieces,
        path,
        flames: packed_flames(&of.picture.flames),
    }
}

fn words(seen: Seen) -> String {
    match seen {
        Seen::User => "runs the program".to_owned(),
        Seen::Kernel => "runs in the kernel".to_owned(),
        Seen::Runs => "runs, and no sample says where".to_owned(),
        Seen::LacksCpu => "is ready and has no CPU".to_owned(),
        Seen::Waits(cpu::Kind::Sleep) => "sleeps".to_owned(),
        Seen::Waits(kind) => format!("waits {}", kind.phrase()),
        Seen::Unknown => "is not known".to_owned(),
    }
}

/// What is done, by the numbers of a page.
#[derive(Default)]
struct Kinds {
    all: Vec<Seen>,
}

impl Kinds {
    fn number(&mut self, seen: Seen) -> u64 {
        let known = self.all.iter().position(|other| *other == seen);
        known.unwrap_or_else(|| {
            self.all.push(seen);
            self.all.len() - 1
        }) as u64
    }
}

/// A number plus 1; 0: there is none.
fn plus_one(number: Option<u32>) -> u64 {
    number.map_or(0, |number| u64::from(number) + 1)
}

fn packed_pieces(all: &[(u64, &DrawnPiece)], kinds: &mut Kinds) -> Table {
    let column = |of: &dyn Fn(&(u64, &DrawnPiece)) -> u64| all.iter().map(of).collect::<Vec<u64>>();
    let seen: Vec<u64> = all.iter().map(|(_, piece)| kinds.number(piece.seen)).collect();
    let columns = BTreeMap::from([
        ("lane", Column::delta(&column(&|(lane, _)| *lane))),
        ("from", Column::delta(&column(&|(_, piece)| piece.from_ns))),
        ("took", Column::plain(&column(&|(_, piece)| piece.to_ns - piece.from_ns))),
        ("seen", Column::plain(&seen)),
        ("node", Column::delta(&column(&|(_, piece)| plus_one(piece.node)))),
    ]);
    Table { count: all.len(), columns }
}

fn packed_path(all: &[PathPiece], kinds: &mut Kinds) -> Table {
    let column = |of: &dyn Fn(&PathPiece) -> u64| all.iter().map(of).collect::<Vec<u64>>();
    let seen: Vec<u64> = all.iter().map(|piece| kinds.number(piece.seen)).collect();
    let link: Vec<u64> =
        all.iter().map(|piece| piece.link.map_or(0, |kind| kinds.number(Seen::Waits(kind)) + 1)).collect();
    let columns = BTreeMap::from([
        ("from", Column::delta(&column(&|piece| piece.from_ns))),
        ("took", Column::plain(&column(&|piece| piece.to_ns - piece.from_ns))),
        ("lane", Column::delta(&column(&|piece| plus_one(piece.lane)))),
        ("seen", Column::plain(&seen)),
        ("node", Column::delta(&column(&|piece| plus_one(piece.node)))),
        ("owner", Column::plain(&column(&|piece| plus_one(piece.owner)))),
        ("link", Column::plain(&link)),
    ]);
    Table { count: all.len(), columns }
}

/// Texts, each once.
#[derive(Default)]
struct Numbers<'a> {
    all: Vec<&'a str>,
    known: std::collections::HashMap<&'a str, u64>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, text: &'a str) -> u64 {
        let next = self.all.len() as u64;
        let number = *self.known.entry(text).or_insert(next);
        if number == next {
            self.all.push(text);
        }
        number
    }
}

fn packed_flames(flames: &Flames) -> Stacks<'_> {
    let (mut objects, mut sources) = (Numbers::default(), Numbers::default());
    let object: Vec<u64> = flames.frames.iter().map(|frame| objects.of(&frame.object)).collect();
    let source: Vec<u64> =
        flames.frames.iter().map(|frame| frame.source.as_deref().map_or(0, |source| sources.of(source) + 1)).collect();
    let numbers = |all: &[u32]| all.iter().map(|number| u64::from(*number)).collect::<Vec<u64>>();
    Stacks {
        names: Texts::pack(flames.frames.iter().map(|frame| frame.function.as_str())),
        objects: Texts::pack(objects.all.iter().copied()),
        sources: Texts::pack(sources.all.iter().copied()),
        frames: Table {
            count: flames.frames.len(),
            columns: BTreeMap::from([("object", Column::plain(&object)), ("source", Column::plain(&source))]),
        },
        threads: &flames.threads,
        nodes: Table {
            count: flames.callers.len(),
            columns: BTreeMap::from([
                ("caller", Column::delta(&numbers(&flames.callers))),
                ("what", Column::plain(&numbers(&flames.what))),
                ("path_ran", Column::plain(&flames.path_ran_ns)),
                ("ran", Column::plain(&flames.ran_ns)),
                ("path_waited", Column::plain(&flames.path_waited_ns)),
                ("waited", Column::plain(&flames.waited_ns)),
            ]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_why as made;
    use cpu::{Does, Ran};
    use serde_json::Value;

    fn page(trace: &cpu::Trace) -> String {
        let report = cpu::analyze(trace, 2_000);
        let picture = cpu::picture(trace, &report, 2_000);
        let owners = cpu::together(std::slice::from_ref(&report));
        let start = WhyStartOf {
            variant_name: "made",
            state: CacheState::Hot,
            runs: &[RunId(1)],
            ready_ns: report.ready_ns,
            explained_share: report.explained_share,
            owners: &owners,
            run: RunId(1),
            report: &report,
            picture: &picture,
            milestones: &[],
        };
        why_page(&WhyOf { file: "made.thaw", starts: vec![start], warnings: &[] }).unwrap()
    }

    fn embedded(html: &str) -> Value {
        let (_, json) = html.split_once("id=\"thaw-why\">").unwrap();
        serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn each_owner_of_the_drawn_start_is_one_of_the_table() {
        let value = embedded(&page(&made::start()));
        assert_eq!(value["schema"], WHY_SCHEMA);
        let start = &value["starts"][0];
        let count = start["report"]["owners"].as_array().unwrap().len();
        let shared: Vec<u64> = start["shared"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
        assert_eq!(shared.len(), count);
        for (number, owner) in shared.iter().zip(start["report"]["owners"].as_array().unwrap()) {
            assert_eq!(start["owners"][*number as usize]["thread"], owner["thread"]["name"]);
        }
        assert_eq!(start["report"]["steps"].as_array().unwrap().len(), 0, "the table has them");
        assert!(start["path"]["count"].as_u64().unwrap() > 3 && start["pieces"]["count"].as_u64().unwrap() > 5);
    }

    #[test]
    fn numbers_of_threads_tell_no_owners_apart() {
        let trace = made::start();
        let report = cpu::analyze(&trace, 10);
        let mut other = report.clone();
        for owner in &mut other.owners {
            if let Does::Cpu { ran: Ran::Thread(tid), .. } = &mut owner.what {
                *tid += 1000;
            }
        }
        let owners = cpu::together(&[report, other.clone()]);
        assert!(other.owners.iter().any(|owner| matches!(owner.what, Does::Cpu { ran: Ran::Thread(_), .. })));
        assert!(other.owners.iter().all(|owner| owners.iter().any(|one| one.is_of(owner))));
    }

    #[test]
    fn nothing_makes_a_page() {
        let value = embedded(&page(&cpu::Trace::default()));
        assert_eq!(value["starts"][0]["path"]["count"], 0);
    }
}
