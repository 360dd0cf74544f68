//! A recording, read: everything but its traces as one value, and the report that is made of all of it.

use crate::plan::Asked;
use crate::report::{BinaryDocument, ReportDocument, Source, TraceDocument, VariantDocument};
use crate::words::units::plural;
use crate::{answer, next, rundir};
use bench::analyze::{Input, Options};
use bench::compare::{is_momentary, is_read_ahead};
use bench::gate::{Baseline, Identity};
use bench::growth::Swept;
use disk::report::Requests;
use model::{
    BlockRow, FaultRow, FillRow, Flow, Milestone, Nanos, ReadRow, Result, RunId, RunRow, TraceRows, Warning,
    WarningKind, shown,
};
use recording::{Binary, Fact, Reader, Starts};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use view::{PackedTrace, Packing};

/// Subject of the facts of a simulated disk. The number of its device says nothing.
pub const SIMULATED_DISK: &str = "disk:simulated";
/// Its fact with the number of its device, packed by `makedev`: that was its own for the recording only.
pub const USED_DEV: &str = "used_dev";
/// What its fact `answers` says where it has no delays.
pub const AT_ONCE: &str = "at once";

/// A recording, read once.
pub struct Loaded {
    /// Where it comes from.
    pub source: Source,
    /// What was asked for.
    pub asked: Asked,
    /// Names and words of the variants.
    pub variants: Vec<VariantDocument>,
    /// Names of the variants.
    pub names: Vec<String>,
    /// All runs.
    pub runs: Vec<(RunRow, Vec<Milestone>)>,
    /// Which of them tells what.
    pub starts: Starts,
    /// The machine.
    pub facts: Vec<Fact>,
    flat_facts: Vec<(String, String)>,
    binaries: Vec<Binary>,
    /// Relocations of the program of each variant, by index, where they are known.
    relocations: BTreeMap<u32, u64>,
    warnings: Vec<Warning>,
}

impl Loaded {
    /// Reads everything but the traces.
    ///
    /// # Errors
    /// What [`Reader`] says: no recording, a newer one, a damaged one.
    pub fn of(path: &Path, reader: &Reader) -> Result<Self> {
        let header = reader.header()?;
        let variants: Vec<VariantDocument> = reader.variants()?.into_iter().map(variant_document).collect();
        let facts = reader.facts()?;
        let flat_facts =
            facts.iter().map(|fact| (format!("{} {}", fact.subject, fact.key), fact.value.clone())).collect();
        // A plan of another version of thaw may lack fields: they have defaults.
        let asked: Asked = serde_json::from_value(header.plan).unwrap_or_default();
        let runs = reader.runs()?;
        Ok(Self {
            relocations: relocations(&runs, &reader.relocations()?),
            starts: Starts::among(runs.iter().map(|(row, _)| row.clone()), &reader.trace_runs()?),
            source: Source {
                file: shown(path),
                finished: reader.finished()?,
                created_unix_ns: header.created_unix_ns,
                thaw_version: header.thaw_version,
                command_line: header.command_line.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                cwd: shown(&header.cwd),
                seed: header.seed,
            },
            asked,
            names: variants.iter().map(|variant| variant.name.clone()).collect(),
            variants,
            runs,
            facts,
            flat_facts,
            binaries: reader.binaries()?,
            warnings: reader.warnings()?,
        })
    }

    /// What the gate knows of it.
    pub fn baseline(&self) -> Baseline {
        Baseline::of(&self.input(), self.identity()).with_relocations(&self.relocations)
    }

    fn identity(&self) -> Identity {
        let machine = self.flat_facts.iter().filter(|(name, _)| !is_momentary(name) && !is_read_ahead(name));
        let read_ahead = self.flat_facts.iter().filter(|(name, _)| is_read_ahead(name));
        let words = |variant: &VariantDocument| variant.argv.iter().map(|word| rundir::without_number(word)).collect();
        Identity {
            programs: (0..).zip(&self.variants).map(|(index, variant)| (index, words(variant))).collect(),
            setup: self.asked.setup().into_iter().chain(read_ahead.cloned()).collect(),
            machine: machine.cloned().collect(),
        }
    }

    /// As the analysis wants it.
    pub fn input(&self) -> Input<'_> {
        let options = Options {
            runs: self.asked.runs,
            precision: self.asked.precision,
            budget_s: self.asked.budget_s,
            same_program: self.asked.aa,
            restores: !self.asked.restore.is_empty(),
            user: self.asked.user.clone(),
            steady_cpu: self.asked.steady_cpu,
            throttled: self.asked.throttle_iops.is_some() || self.asked.throttle_bps.is_some(),
        };
        Input { variants: &self.names, runs: &self.runs, facts: &self.flat_facts, options }
    }
}

/// What differs in how two recordings were made, and in the machine.
pub fn unlike(before: &Loaded, after: &Loaded) -> Vec<Warning> {
    let machine = bench::compare::unlike_machine(&before.input(), &after.input());
    unlike_setup(before, after).into_iter().chain(machine).collect()
}

/// What differs in how two recordings were made, but for the read-ahead.
pub fn unlike_setup(before: &Loaded, after: &Loaded) -> Vec<Warning> {
    let differences = bench::gate::differences(&before.baseline(), &after.baseline());
    let of_recording = differences.iter().filter(|it| it.kind != bench::gate::Kind::Machine);
    let unlike = of_recording.filter(|it| !is_read_ahead(&it.name)).map(|it| {
        let text = format!("the {} differs: {} before, {} after", it.name, it.before, it.after);
        Warning::new(WarningKind::Note, text).hint("record the same program in the same way")
    });
    unlike.collect()
}

/// By variant: what its last traced run that counts mapped.
fn relocations(runs: &[(RunRow, Vec<Milestone>)], of_runs: &[(RunId, Option<u64>)]) -> BTreeMap<u32, u64> {
    let mut by_variant = BTreeMap::new();
    for (run, entries) in of_runs {
        let Some((row, _)) = runs.iter().find(|(row, _)| row.id == *run && row.accepted) else { continue };
        match entries {
            Some(entries) => by_variant.insert(row.variant, *entries),
            None => by_variant.remove(&row.variant),
        };
    }
    by_variant
}

/// Reads a recording and says what it says.
///
/// # Errors
/// What [`Reader`] says.
pub fn report(path: &Path) -> Result<ReportDocument> {
    report_within(path, None)
}

/// The same, if reading takes no longer than this.
///
/// # Errors
/// As [`report`]; the time is over.
pub fn report_within(path: &Path, time: Option<Duration>) -> Result<ReportDocument> {
    let (reader, loaded) = opened(path, time)?;
    report_of(&reader, loaded, None)
}

/// Opens a recording, and reads everything but its traces.
///
/// # Errors
/// What [`Reader`] says; the time is over.
pub(crate) fn opened(path: &Path, time: Option<Duration>) -> Result<(Reader, Loaded)> {
    os::heap::return_large_blocks();
    let reader = Reader::open(path)?;
    reader.give_up_after(time);
    let loaded = Loaded::of(path, &reader)?;
    Ok((reader, loaded))
}

/// What a recording says; the events of its traces are packed for a page on the way, if there is to be one: a trace is
/// read once.
///
/// # Errors
/// What [`Reader`] says.
pub(crate) fn report_of(
    reader: &Reader,
    loaded: Loaded,
    packed: Option<&mut Vec<PackedTrace>>,
) -> Result<ReportDocument> {
    let _span = tracing::info_span!("report").entered();
    let statistics = bench::analyze::analyze(&loaded.input());
    let traces = traces(reader, &loaded, packed)?;
    let warnings = all_warnings(&loaded, &statistics, &traces);
    let facts = nested(&loaded.facts);
    let disk = simulated_disk(&facts);
    let answer = answer::sentences(&statistics, &traces, disk.as_deref());
    Ok(ReportDocument {
        schema: "thaw.report/1",
        next: next::after(&loaded.source.file, &statistics.cells),
        answer,
        growth: growth(&loaded, &statistics, &[]),
        statistics,
        traces,
        facts,
        binaries: loaded.binaries.iter().map(binary_document).collect(),
        warnings,
        recording: loaded.source,
        asked: loaded.asked,
        variants: loaded.variants,
        runs: loaded.runs,
    })
}

/// How the starts grow, with what was varied or with each of them, and what that foretells `at` other values.
pub(crate) fn growth(loaded: &Loaded, statistics: &bench::report::Report, at: &[f64]) -> Vec<Swept> {
    match loaded.asked.cycles {
        true => bench::growth::cycles(&statistics.cells, &loaded.runs, at),
        false => bench::growth::growths(&statistics.cells, at),
    }
}

/// `laptop2010 (laptop disk of 2010: ...)`, if the recording was made on a simulated disk.
fn simulated_disk(facts: &BTreeMap<String, BTreeMap<String, String>>) -> Option<String> {
    let disk = facts.get(SIMULATED_DISK)?;
    let fact = |key: &str| disk.get(key).map_or("?", String::as_str);
    let quick = if fact("answers") == AT_ONCE { " that answers at once" } else { "" };
    Some(format!("{} ({}){quick}", fact("name"), fact("title")))
}

/// One trace of each variant: of its slowest timed state, of which the answer speaks, or else of the coldest traced
/// one.
fn traces(reader: &Reader, loaded: &Loaded, mut packed: Option<&mut Vec<PackedTrace>>) -> Result<Vec<TraceDocument>> {
    let starts = &loaded.starts;
    let mut traces = Vec::new();
    for (index, variant) in (0..).zip(&loaded.names) {
        let Some(row) = starts.of_answer(index) else { continue };
        let head = reader.trace_head(row.id)?;
        let sums = io::Sums::of(&head, starts.needed_pages(reader, index)?.as_ref());
        let packing = packed.is_some().then(|| Packing::of(&head));
        let mut start = StartSeen { sums, requests: Requests::default(), last: None, packing };
        reader.flow(row.id, &head, &mut start)?;
        let length = row.wall_ns.or(start.last).unwrap_or_default();
        let report = start.sums.finish();
        if let (Some(packing), Some(packed)) = (start.packing, packed.as_deref_mut()) {
            let lines: Vec<&str> = report.files.iter().map(|file| file.path.as_str()).collect();
            packed.push(packing.finish(row.id, &lines));
        }
        traces.push(TraceDocument {
            run: row.id,
            variant: variant.clone(),
            state: row.state,
            wall_s: row.wall_ns.map(|wall| wall.seconds()),
            traced_runs: starts.traced(index).count(),
            report,
            disks: disks_of_the_talk(start.requests, length)?,
        });
    }
    Ok(traces)
}

/// All that is made of a traced start while it is read, so that its rows need no room.
struct StartSeen<'a> {
    sums: io::Sums<'a>,
    requests: Requests,
    /// When the last request was done.
    last: Option<Nanos>,
    packing: Option<Packing<'a>>,
}

impl Flow for StartSeen<'_> {
    fn fill(&mut self, fill: &FillRow) {
        self.sums.fill(fill);
        self.packing.iter_mut().for_each(|packing| packing.fill(fill));
    }

    fn read(&mut self, read: &ReadRow) {
        self.sums.read(read);
        self.packing.iter_mut().for_each(|packing| packing.read(read));
    }

    fn fault(&mut self, fault: &FaultRow) {
        self.sums.fault(fault);
        self.packing.iter_mut().for_each(|packing| packing.fault(fault));
    }

    fn block(&mut self, block: &BlockRow) {
        self.sums.block(block);
        self.requests.add(block);
        self.last = self.last.max(Some(block.done_ns.unwrap_or(block.start_ns)));
        self.packing.iter_mut().for_each(|packing| packing.block(block));
    }
}

/// The start as its requests came and sorted, on the disks that the seed of all this showed.
fn disks_of_the_talk(requests: Requests, length: Nanos) -> Result<Option<disk::report::Report>> {
    let presets = disk::preset::Presets::builtin();
    let mut models = Vec::new();
    for name in disk::report::TALK {
        models.push(&presets.get(name)?.model);
    }
    Ok(requests.report(length, &models))
}

/// How long a traced start took; until its last request if it was never ready.
pub fn length(trace: &TraceRows, row: &RunRow) -> Nanos {
    let last = || trace.blocks.iter().map(|block| block.done_ns.unwrap_or(block.start_ns)).max();
    row.wall_ns.or_else(last).unwrap_or_default()
}

fn all_warnings(loaded: &Loaded, statistics: &bench::report::Report, traces: &[TraceDocument]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !loaded.source.finished {
        let timed = loaded.starts.timed().count();
        let text =
            format!("the recording was interrupted; it holds {}", plural(timed as u64, "timed run", "timed runs"));
        warnings.push(
            Warning::new(WarningKind::Note, text).hint("record again for the whole plan: see `thaw record --force`"),
        );
    }
    // A run that does not count is in `statistics.rejected`, with its reason, and each state has a warning that sums
    // them up.
    let told = |warning: &&Warning| {
        let rejected = |run| statistics.rejected.iter().any(|rejected| Some(rejected.run) == run);
        matches!(warning.kind, WarningKind::NotInState | WarningKind::FailedRun | WarningKind::StaysResident)
            && warning.run.is_some()
            && rejected(warning.run)
    };
    warnings.extend(loaded.warnings.iter().filter(|warning| !told(warning)).cloned());
    warnings.extend(statistics.warnings.iter().cloned());
    warnings.extend(traces.iter().flat_map(|trace| trace.report.warnings.iter().cloned()));
    let mut unique: Vec<Warning> = Vec::new();
    for warning in warnings {
        if !unique.iter().any(|said| said.text == warning.text) {
            unique.push(warning);
        }
    }
    unique
}

fn variant_document(variant: recording::Variant) -> VariantDocument {
    let argv = variant.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    VariantDocument { name: variant.name, argv }
}

fn binary_document(binary: &Binary) -> BinaryDocument {
    BinaryDocument { path: shown(&binary.path), size: binary.size.0, build_id: binary.build_id.clone() }
}

fn nested(facts: &[Fact]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut nested: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for fact in facts {
        nested.entry(fact.subject.clone()).or_default().insert(fact.key.clone(), fact.value.clone());
    }
    nested
}
