//! Which file of a profile makes a start slow: halves of its files are taken away in turns, and each pair of halves is
//! measured until it is known.

use super::{Copies, Subject, template, variant};
use crate::plan::RecordPlan;
use crate::progress::Tell;
use crate::record;
use crate::recorded::Loaded;
use ablate::search::{Answer, Search};
use model::{CacheState, Error, Exit, Result, Warning};
use recording::Reader;
use serde::Serialize;
use stats::{Estimate, Pairing, Random};
use std::collections::BTreeMap;

/// Pairs of starts of the first look. Fewer could not decide: all eight on one side come by chance once in 128.
const FIRST: u32 = 8;
/// Looks at growing data until it is given up, each with half as many pairs more.
const LOOKS: u32 = 5;
/// Chance of a wrong turn, at each pair of halves.
const LEVEL: f64 = 0.05;

/// `thaw.ablate-bisect/1`: which file it is.
#[derive(Debug, Serialize)]
pub struct BisectDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The profile.
    pub profile: String,
    /// Files among which was searched.
    pub files: usize,
    /// Every measurement, the last one of the file that was found.
    pub measurements: Vec<Measurement>,
    /// The files that are still suspected: one if it was found.
    pub suspects: Vec<String>,
    /// By how many seconds a start takes longer with that file than without it; `None`: none was found.
    pub seconds: Option<Estimate>,
    /// Why it ended with more than one.
    pub because: Option<String>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// Two copies of the profile, measured against each other.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// How many files were suspected.
    pub among: usize,
    /// Pairs of starts.
    pub pairs: usize,
    /// By how many seconds a start without the first half takes longer than one without the second; of the last
    /// measurement: with the file than without it.
    pub seconds: Estimate,
    /// Chance of so large a difference where there is none.
    pub p: f64,
    /// Which half it is in.
    pub half: &'static str,
}

/// Searches. `plan` says how a pair is recorded; `progress` is made anew for each recording.
///
/// # Errors
/// As [`super::run`].
pub fn run(mut plan: RecordPlan, subject: &Subject, progress: &dyn Fn() -> Box<dyn Tell>) -> Result<BisectDocument> {
    let is_file = |path: &&String| !subject.profile.join(path).symlink_metadata().is_ok_and(|about| about.is_dir());
    let files: Vec<String> = subject.entries().iter().map(|it| &it.path).filter(is_file).cloned().collect();
    if files.len() < 2 {
        return Err(Error::on(Exit::Usage, "there are not two files to choose from in", &subject.profile));
    }
    let [state] = plan.schedule.states[..] else {
        return Err(Error::new(Exit::Usage, "one cache state is bisected at a time", "").hint("--state hot, or cold"));
    };
    let template = template(&plan)?;
    let copies = Copies::begin(subject, &plan)?;
    plan.schedule.variants = 2;
    super::own_copies(&mut plan, &copies);
    let mut search = Search::among(files.len());
    let mut measurements = Vec::new();
    let mut because = None;
    let mut pair = Pair { plan, subject, copies: &copies, template, state, number: 0, progress };
    while let Some(halves) = search.next() {
        let out = [&files[halves.first.clone()], &files[halves.second.clone()]];
        let told = pair.measure(["without the first half", "without the second half"], out)?;
        let answer = match told.p {
            p if p >= told.level => Answer::Neither,
            _ if told.seconds.value < 0.0 => Answer::First,
            _ => Answer::Second,
        };
        measurements.push(Measurement {
            among: search.left().len(),
            pairs: told.pairs,
            seconds: told.seconds,
            p: told.p,
            half: match answer {
                Answer::First => "first",
                Answer::Second => "second",
                Answer::Neither => "neither",
            },
        });
        if !search.take(answer) {
            because = Some(format!(
                "neither half of {} files is faster to leave out: nothing among them is slow, several in both halves \
                 are, or the starts are too noisy",
                search.left().len()
            ));
            break;
        }
    }
    let suspects = files[search.left()].to_vec();
    let mut seconds = None;
    if let [file] = &suspects[..] {
        let told = pair.measure(["with it", "without it"], [&[], std::slice::from_ref(file)])?;
        let is_guilty = told.p < told.level && told.seconds.value > 0.0;
        measurements.push(Measurement {
            among: 1,
            pairs: told.pairs,
            seconds: told.seconds,
            p: told.p,
            half: if is_guilty { "first" } else { "neither" },
        });
        seconds = is_guilty.then_some(told.seconds);
        if !is_guilty {
            because = Some("the last suspect is not slow by itself".to_owned());
        }
    }
    Ok(BisectDocument {
        schema: "thaw.ablate-bisect/1",
        profile: model::shown(&subject.profile),
        files: files.len(),
        measurements,
        suspects,
        seconds,
        because,
        warnings: copies.changed(subject)?.into_iter().collect(),
    })
}

/// What a pair said.
struct Told {
    /// The first variant's seconds without the second's, by pairs: their median.
    seconds: Estimate,
    p: f64,
    /// What p had to be below.
    level: f64,
    pairs: usize,
}

/// Measures pairs of copies.
struct Pair<'a> {
    plan: RecordPlan,
    subject: &'a Subject,
    copies: &'a Copies,
    template: bench::record::Program,
    state: CacheState,
    number: u32,
    progress: &'a dyn Fn() -> Box<dyn Tell>,
}

impl Pair<'_> {
    /// Two copies, each without some files, started in turns until their difference is known.
    fn measure(&mut self, names: [&str; 2], out: [&[String]; 2]) -> Result<Told> {
        let mut made = Vec::new();
        self.plan.programs.clear();
        for (name, files) in names.into_iter().zip(out) {
            let place = format!("{}-{}", self.number, made.len());
            let copy = self.copies.without_files(self.subject, &place, files)?;
            self.plan.programs.push(variant(&self.template, name, &copy, &[]));
            made.push(copy);
        }
        let told = self.until_known();
        for copy in made {
            os::tree::remove(&copy)?;
        }
        told
    }

    fn until_known(&mut self) -> Result<Told> {
        let mut differences: Vec<f64> = Vec::new();
        let mut pairs = FIRST;
        for look in 1..=LOOKS {
            self.number += 1;
            self.plan.output = self.copies.room.path().join(format!("{}.thaw", self.number));
            self.plan.schedule.blocks = pairs;
            self.plan.schedule.seed = self.plan.schedule.seed.wrapping_add(1);
            let recorded = record::run(&self.plan, (self.progress)())?;
            if recorded.exit == Exit::Interrupted {
                return Err(Error::interrupted());
            }
            differences.extend(self.differences()?);
            let level = stats::spend(LEVEL, look);
            let nothing = vec![0.0; differences.len()];
            let mut random = Random::of_values(&[&differences]);
            let p = stats::permutation_p(&differences, &nothing, Pairing::Paired, &mut random);
            if p < level || look == LOOKS {
                let seconds = stats::median(&differences, &mut random);
                return Ok(Told { seconds, p, level, pairs: differences.len() });
            }
            pairs = (differences.len() as u32 / 2).max(4);
        }
        Err(Error::bug("no look was taken"))
    }

    /// By how much the first took longer, in each block that has both.
    fn differences(&self) -> Result<Vec<f64>> {
        let reader = Reader::open(&self.plan.output)?;
        let loaded = Loaded::of(&self.plan.output, &reader)?;
        let mut blocks: BTreeMap<u32, [Option<f64>; 2]> = BTreeMap::new();
        for row in loaded.starts.timed().filter(|row| row.state == self.state) {
            if let Some(of) = blocks.entry(row.block).or_default().get_mut(row.variant as usize) {
                *of = row.wall_ns.map(|wall| wall.seconds());
            }
        }
        Ok(blocks.into_values().filter_map(|[first, second]| Some(first? - second?)).collect())
    }
}
