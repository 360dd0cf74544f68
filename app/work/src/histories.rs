//! Recordings and memory courses into a history, and what the history says: series by commit, and which commit changed
//! them.

mod courses;

use crate::compare::load;
use crate::git::Repository;
use crate::recorded::Loaded;
use bench::gate::{Baseline, Difference, Identity, Series as Cell};
use history::{Access, Added, Commit, Entry, Figure, Row, Series, Step, Store};
use model::{Error, Exit, Result, Warning, WarningKind, shown};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Where a history is, if nothing is said.
pub const DEFAULT_FILE: &str = "history.thawdb";

/// `thaw.history-add/1`
#[derive(Debug, Serialize)]
pub struct AddDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// File of the history.
    pub history: String,
    /// The tree has changes that are in no commit: the recordings are kept, and are points of no series.
    pub dirty: bool,
    /// Each recording, and each version of a course, and what became of it.
    pub recordings: Vec<AddedDocument>,
}

/// A recording that was added.
#[derive(Debug, Serialize)]
pub struct AddedDocument {
    /// Its file.
    pub file: String,
    /// Of which commit.
    pub commit: Commit,
    /// What adding did.
    pub added: Added,
    /// Figures in it: one for each variant, state and metric.
    pub figures: usize,
}

/// Which commit recordings are of.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// What lies in the tree.
    Head,
    /// A revision.
    Commit(&'a str),
    /// Each version of a course is of the revision that it is named by.
    Versions,
}

/// Adds recordings, and courses by their directories.
///
/// # Errors
/// No recording, one without runs, or one of another commit; no repository or commit; a file that cannot be written.
pub fn add(files: &[impl AsRef<Path>], of: Of<'_>, repo: &Path, history: &Path) -> Result<AddDocument> {
    let repository = Repository::of(repo)?;
    // Who names a commit knows what was measured; else it is what lies in the tree.
    let dirty = matches!(of, Of::Head) && repository.is_dirty()?;
    let commit = match of {
        Of::Head => Some(repository.commit("HEAD")?),
        Of::Commit(name) => Some(repository.commit(name)?),
        Of::Versions => None,
    };
    let mut entries = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        if file.is_dir() {
            entries.extend(courses::entries(file, commit.as_ref(), &repository, dirty)?);
            continue;
        }
        let Some(commit) = &commit else {
            return Err(Error::on(Exit::Usage, "this is no course, so it has no versions that name commits:", file)
                .hint("name its commit: --commit REV"));
        };
        let loaded = load(file)?;
        let baseline = loaded.baseline();
        entries.push((entry(&loaded, &baseline, commit, dirty)?, baseline));
    }
    let mut store = Store::open(history, Access::Append)?;
    let mut recordings = Vec::new();
    for (entry, baseline) in entries {
        let added = store.add(&entry, &|identity| is_same(identity, &baseline))?;
        let Entry { file, commit, figures, .. } = entry;
        recordings.push(AddedDocument { file, commit, added, figures: figures.len() });
    }
    Ok(AddDocument { schema: "thaw.history-add/1", history: shown(history), dirty, recordings })
}

/// A figure as it is typed: one of the gate, or a size of memory at all checkpoints of courses (`pss`) or at one
/// (`pss:loaded`).
///
/// # Errors
/// What can be typed.
pub fn metric(word: &str) -> std::result::Result<String, String> {
    let (size, checkpoint) = word.split_once(':').map_or((word, None), |(size, name)| (size, Some(name)));
    if memory::course::SIZES.contains(&size) && checkpoint != Some("") {
        return Ok(word.to_owned());
    }
    let metric: std::result::Result<bench::gate::Metric, String> = word.parse();
    metric.map(|it| it.to_string()).map_err(|why| {
        format!(
            "{why}; of memory courses {}, or one of them at a checkpoint (pss:NAME)",
            memory::course::SIZES.join(", ")
        )
    })
}

/// Whether the gate would compare figures of the two.
fn is_same(identity: &str, baseline: &Baseline) -> bool {
    let Ok(identity) = serde_json::from_str::<Identity>(identity) else { return false };
    bench::gate::differences(&Baseline { identity, ..baseline.clone() }, baseline).is_empty()
}

fn source(loaded: &Loaded) -> String {
    format!("{}-{:016x}", loaded.source.created_unix_ns, loaded.source.seed)
}

fn entry(loaded: &Loaded, baseline: &Baseline, commit: &Commit, dirty: bool) -> Result<Entry> {
    let figures: Vec<Figure> = baseline.series.iter().flat_map(figures).collect();
    if figures.is_empty() {
        return Err(Error::new(Exit::Data, "there is no timed run in", &loaded.source.file).hint("record some runs"));
    }
    Ok(Entry {
        source: source(loaded),
        content: digest(&text(baseline)?),
        file: loaded.source.file.clone(),
        created_unix_ns: loaded.source.created_unix_ns,
        added_unix_ns: os::machine::now_unix_ns(),
        thaw_version: loaded.source.thaw_version.clone(),
        commit: commit.clone(),
        dirty,
        identity: text(&baseline.identity)?,
        figures,
    })
}

/// Tells texts apart.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::bug(error.to_string()))
}

fn figures(cell: &Cell) -> Vec<Figure> {
    cell.figures
        .iter()
        .map(|(metric, values)| Figure {
            variant: cell.variant_name.clone(),
            state: cell.state.to_string(),
            metric: metric.to_string(),
            values: values.iter().flatten().copied().collect(),
        })
        .filter(|figure| !figure.values.is_empty())
        .collect()
}

/// Which series are looked at.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// This metric, or all of which this is the part before a colon.
    pub metric: Option<String>,
    /// This cache state.
    pub state: Option<String>,
    /// This variant.
    pub variant: Option<String>,
    /// This machine and set-up.
    pub setup: Option<i64>,
}

impl Wanted {
    fn holds(&self, figure: &Figure) -> bool {
        let is = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let of_metric = |wanted: &String| {
            figure.metric.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        self.metric.as_ref().is_none_or(of_metric)
            && is(&self.state, &figure.state)
            && is(&self.variant, &figure.variant)
    }
}

/// A machine and set-up in a history.
#[derive(Debug, Serialize)]
pub struct SetupDocument {
    /// Its number.
    pub setup: i64,
    /// The words of its programs, by the index of the variant.
    pub programs: BTreeMap<u32, Vec<String>>,
    /// Where it differs from the first one that has the same program, else from the first: why its series stands alone.
    pub differences: Vec<Difference>,
}

/// `thaw.history-list/1`
#[derive(Debug, Serialize)]
pub struct ListDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// File of the history.
    pub history: String,
    /// Its recordings.
    pub recordings: Vec<Row>,
    /// Its machines and set-ups.
    pub setups: Vec<SetupDocument>,
}

/// `thaw.history/1`
#[derive(Debug, Serialize)]
pub struct ShowDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// File of the history.
    pub history: String,
    /// Series, with their steps.
    pub series: Vec<Series>,
    /// The machines and set-ups.
    pub setups: Vec<SetupDocument>,
    /// Doubts about the series.
    pub warnings: Vec<Warning>,
}

/// What is in a history.
///
/// # Errors
/// It is none.
pub fn list(history: &Path) -> Result<ListDocument> {
    let store = Store::open(history, Access::Read)?;
    Ok(ListDocument {
        schema: "thaw.history-list/1",
        history: shown(history),
        recordings: store.rows()?,
        setups: setups(&store)?,
    })
}

/// Series by commit, and where they changed.
///
/// # Errors
/// It is no history; it has no such series.
pub fn show(history: &Path, wanted: &Wanted) -> Result<ShowDocument> {
    let store = Store::open(history, Access::Read)?;
    let (rows, figures) = (store.rows()?, store.figures()?);
    let mut series = history::series(&rows, &figures, |figure| wanted.holds(figure));
    series.retain(|series| wanted.setup.is_none_or(|setup| setup == series.setup));
    if series.is_empty() {
        return Err(no_series(history, &figures));
    }
    let mut warnings = Vec::new();
    for series in &series {
        let name = format!("{}, {}, {}, set-up {}", series.variant, series.state, series.metric, series.setup);
        if series.drifts {
            let text =
                format!("{name}: commits resemble their neighbours more than chance explains; the machine may drift");
            let hint = "a step may be the machine's: measure both commits in one recording (thaw bisect does)";
            warnings.push(Warning::new(WarningKind::Note, text).hint(hint));
        }
        if series.dirty > 0 {
            let text = format!("{name}: {} recordings of trees with changes are left out", series.dirty);
            warnings.push(Warning::new(WarningKind::Note, text).hint("commit first, then record"));
        }
    }
    Ok(ShowDocument { schema: "thaw.history/1", history: shown(history), series, setups: setups(&store)?, warnings })
}

fn no_series(history: &Path, figures: &[(i64, Figure)]) -> Error {
    let error = Error::on(Exit::Usage, "there is no such series in the history", history);
    let known = |of: fn(&Figure) -> &String| {
        let names: std::collections::BTreeSet<&String> = figures.iter().map(|(_, figure)| of(figure)).collect();
        names.into_iter().cloned().collect::<Vec<_>>().join(", ")
    };
    error.hint(format!(
        "it has the metrics {}; the states {}; the variants {}",
        known(|it| &it.metric),
        known(|it| &it.state),
        known(|it| &it.variant)
    ))
}

fn setups(store: &Store) -> Result<Vec<SetupDocument>> {
    let known: Vec<(i64, Identity)> = store
        .setups()?
        .into_iter()
        .map(|(setup, text)| (setup, serde_json::from_str(&text).unwrap_or_default()))
        .collect();
    let document = |(index, (setup, identity)): (usize, &(i64, Identity))| {
        let first = known[..index].iter().min_by_key(|(_, other)| other.programs != identity.programs);
        SetupDocument {
            setup: *setup,
            programs: identity.programs.clone(),
            differences: first.map_or_else(Vec::new, |(_, it)| bench::gate::differences(&bare(it), &bare(identity))),
        }
    };
    Ok(known.iter().enumerate().map(document).collect())
}

/// What is compared of an identity whose figures do not matter.
fn bare(identity: &Identity) -> Baseline {
    let cells = identity.programs.keys().map(|variant| Cell {
        variant: *variant,
        variant_name: variant.to_string(),
        state: model::CacheState::Hot,
        blocks: Vec::new(),
        figures: BTreeMap::new(),
    });
    Baseline { schema: String::new(), identity: identity.clone(), series: cells.collect() }
}

/// `thaw.blame/1`
#[derive(Debug, Serialize)]
pub struct BlameDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// File of the history.
    pub history: String,
    /// The steps of all series, the largest first.
    pub steps: Vec<BlamedStep>,
    /// Series that were looked at.
    pub series: usize,
    /// Doubts about the series.
    pub warnings: Vec<Warning>,
}

/// A step, and who made it.
#[derive(Debug, Serialize)]
pub struct BlamedStep {
    /// Name of the variant.
    pub variant: String,
    /// Cache state.
    pub state: String,
    /// Which figure.
    pub metric: String,
    /// Number of the machine and set-up.
    pub setup: i64,
    /// The step.
    pub step: Step,
    /// The last measured commit that has the old level for certain (95 %); `None`: none is certain.
    pub after: Option<String>,
    /// The first measured commit that has the new level for certain: the step is in `after..until`.
    pub until: String,
    /// Commits that this range has, with those that were never measured; `None`: `after` is not known.
    pub commits: Option<u64>,
}

/// Which commits most probably changed the series.
///
/// # Errors
/// As [`show`].
pub fn blame(history: &Path, wanted: &Wanted) -> Result<BlameDocument> {
    let shown = show(history, wanted)?;
    let count = shown.series.len();
    let mut steps: Vec<BlamedStep> = shown.series.into_iter().flat_map(blamed).collect();
    let size = |step: &BlamedStep| step.step.ratio.map_or(f64::INFINITY, |ratio| ratio.value.ln().abs());
    steps.sort_by(|one, two| size(two).total_cmp(&size(one)));
    Ok(BlameDocument { schema: "thaw.blame/1", history: shown.history, steps, series: count, warnings: shown.warnings })
}

fn blamed(series: Series) -> Vec<BlamedStep> {
    let one = |step: &Step| {
        let after = step.between.0.checked_sub(1).map(|at| &series.points[at].commit);
        let until = &series.points[step.between.1].commit;
        BlamedStep {
            variant: series.variant.clone(),
            state: series.state.clone(),
            metric: series.metric.clone(),
            setup: series.setup,
            step: step.clone(),
            after: after.map(|commit| commit.id.clone()),
            until: until.id.clone(),
            commits: after.map(|commit| until.ancestors.saturating_sub(commit.ancestors)),
        }
    };
    series.steps.iter().map(one).collect()
}

/// The runs since the last step of each series, as the gate wants what was before.
///
/// # Errors
/// It is no history, or has nothing of the judged program, machine and set-up.
pub fn baseline(history: &Path, judged: &Loaded) -> Result<Baseline> {
    let after = judged.baseline();
    let store = Store::open(history, Access::Read)?;
    let known = store.setups()?;
    let setup = known.iter().find(|(_, identity)| is_same(identity, &after)).map(|(setup, _)| *setup);
    let setup = setup.ok_or_else(|| {
        Error::on(Exit::Usage, "nothing comparable is in the history", history)
            .because(format!("no recording in it is of the machine, program and set-up of {}", judged.source.file))
            .hint("see which there are: thaw history list")
    })?;
    // What is judged is no part of what it is judged against.
    let own = source(judged);
    let rows: Vec<Row> = store.rows()?.into_iter().filter(|row| row.setup == setup && row.source != own).collect();
    let series = history::series(&rows, &store.figures()?, |_| true);
    let runs = |cell: &Cell, metric: &bench::gate::Metric| -> Vec<Option<f64>> {
        let (state, metric) = (cell.state.to_string(), metric.to_string());
        let same = |it: &&Series| it.variant == cell.variant_name && it.state == state && it.metric == metric;
        let points = series.iter().filter(same).flat_map(history::since);
        points.flat_map(|point| point.values.iter().copied().map(Some)).collect()
    };
    let cells = after.series.iter().map(|cell| Cell {
        blocks: Vec::new(),
        figures: cell.figures.keys().map(|metric| (metric.clone(), runs(cell, metric))).collect(),
        ..cell.clone()
    });
    Ok(Baseline { series: cells.collect(), ..after.clone() })
}
