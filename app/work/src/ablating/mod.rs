//! Which part of a profile makes a start slow: copies of it without some of its parts are started in random blocks, and
//! the effect of each part is told. The profile itself is only read.

pub mod bisect;
pub mod page;
pub mod profile;

use crate::plan::{Ablation, RecordPlan};
use crate::progress::Tell;
use crate::record::{self, Recorded};
use crate::recorded::Loaded;
use crate::report::{Next, Source};
use crate::rundir::RunDir;
use crate::shell::{command_line, replaced};
use ablate::design::{Cell, Design};
use ablate::effects::{Effects, effects};
use ablate::factor::{Entry, Factor, Part};
use bench::record::Program;
use model::{CacheState, Error, Exit, OwnerRule, Result, Warning, WarningKind, shown};
use profile::Contents;
use recording::Reader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where the copy of the profile goes in the program's words.
pub const PLACE: &str = "{profile}";

/// `thaw.ablate/1`: what the parts of a profile cost.
#[derive(Debug, Serialize)]
pub struct AblateDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where it comes from.
    pub recording: Source,
    /// How the factors were combined, and what is there in which variant.
    pub ablation: Ablation,
    /// The effects, in each cache state.
    pub states: Vec<OfState>,
    /// Doubts.
    pub warnings: Vec<Warning>,
    /// What to type next.
    pub next: Vec<Next>,
}

/// The effects in one cache state.
#[derive(Debug, Serialize)]
pub struct OfState {
    /// The state.
    pub state: CacheState,
    /// What was told.
    pub effects: Effects,
    /// Every start that counts, in the order taken: the variant's name, its block, seconds until ready.
    pub runs: Vec<(String, u32, f64)>,
}

/// A profile, and what may be taken out of it.
pub struct Subject {
    /// Its directory.
    pub profile: PathBuf,
    entries: Vec<Entry>,
}

impl Subject {
    /// Looks at a profile.
    ///
    /// # Errors
    /// It is no directory, or cannot be listed.
    pub fn look(profile: &Path) -> Result<Self> {
        if !profile.is_dir() {
            return Err(Error::on(Exit::Usage, "this is no directory:", profile)
                .hint("--profile names the directory in which the program keeps its state"));
        }
        Ok(Self { profile: profile.to_owned(), entries: profile::entries(profile)? })
    }

    /// What is in it.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The factors that it seems to have.
    pub fn proposed(&self) -> Vec<Factor> {
        ablate::propose::factors(&self.entries)
    }

    /// # Errors
    /// A factor that fits nothing here.
    pub fn check(&self, factors: &[Factor], program: &Program) -> Result<()> {
        for factor in factors {
            let none = |what: String| {
                let top: Vec<&str> = self
                    .entries
                    .iter()
                    .map(|it| it.path.as_str())
                    .filter(|path| !path.contains('/'))
                    .take(20)
                    .collect();
                Error::new(Exit::Usage, "there is nothing to take away for the factor", &factor.name)
                    .because(what)
                    .hint(format!("in the profile there are {}", top.join(", ")))
            };
            if let Some(pattern) = factor.idle(&self.entries).first() {
                return Err(none(format!("nothing in the profile is called '{pattern}'")));
            }
            for part in &factor.parts {
                match part {
                    Part::Arg(word) if !program.argv.iter().any(|other| other == OsStr::new(word)) => {
                        return Err(none(format!("the program has no word '{word}'")));
                    }
                    Part::Env(name) if !has_variable(program, name) => {
                        return Err(none(format!("there is no variable '{name}'")));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn has_variable(program: &Program, name: &str) -> bool {
    let set = program.env.iter().rev().find(|(other, _)| other == name);
    set.map_or_else(|| std::env::var_os(name).is_some(), |(_, value)| value.is_some())
}

/// What a variant without these factors is called.
fn name_of(factors: &[Factor], cell: &Cell) -> String {
    let out: Vec<&str> =
        factors.iter().zip(cell).filter(|(_, there)| !**there).map(|(it, _)| it.name.as_str()).collect();
    let left: Vec<&str> =
        factors.iter().zip(cell).filter(|(_, there)| **there).map(|(it, _)| it.name.as_str()).collect();
    match (out.len(), left.len()) {
        (0, _) => "dirty".to_owned(),
        (_, 0) => "clean".to_owned(),
        (1, _) => format!("without {}", out[0]),
        (_, 1) => format!("only {}", left[0]),
        _ => format!("with {}", left.join(" + ")),
    }
}

/// The program in a copy of the profile, without these factors.
fn variant(template: &Program, name: &str, copy: &Path, out: &[&Factor]) -> Program {
    let fill = |word: &OsString| replaced(word, PLACE, copy.as_os_str());
    let parts = || out.iter().flat_map(|factor| &factor.parts);
    let is_out = |word: &OsString| parts().any(|part| matches!(part, Part::Arg(other) if word == OsStr::new(other)));
    let mut env: Vec<(OsString, Option<OsString>)> =
        template.env.iter().map(|(name, value)| (name.clone(), value.as_ref().map(fill))).collect();
    for part in parts() {
        if let Part::Env(name) = part {
            env.retain(|(other, _)| other != name.as_str());
            env.push((name.into(), None));
        }
    }
    let mut restore: Vec<PathBuf> = template.restore.iter().filter(|path| path.as_os_str() != PLACE).cloned().collect();
    restore.push(copy.to_owned());
    let mut around = template.around.clone();
    around.lines().for_each(|line| *line = fill(line));
    Program {
        name: name.to_owned(),
        argv: template.argv.iter().filter(|word| !is_out(word)).map(fill).collect(),
        env,
        restore,
        around,
        ..template.clone()
    }
}

/// The copies of a profile, removed when dropped.
struct Copies {
    room: RunDir,
    whole: Contents,
}

impl Copies {
    fn begin(subject: &Subject, plan: &RecordPlan) -> Result<Self> {
        let whole = profile::contents(&subject.profile)?;
        Ok(Self { room: RunDir::with(&["copies"], plan.user.as_ref())?, whole })
    }

    /// A copy without these factors.
    fn without(&self, subject: &Subject, name: &str, out: &[&Factor]) -> Result<PathBuf> {
        let place = self.room.path().join("copies").join(name);
        profile::copy(&subject.profile, &self.whole, &place)?;
        profile::take_out(&place, &subject.entries, out)?;
        Ok(place)
    }

    /// A copy without these files.
    fn without_files(&self, subject: &Subject, name: &str, files: &[String]) -> Result<PathBuf> {
        let place = self.without(subject, name, &[])?;
        files.iter().try_for_each(|file| os::tree::remove(&place.join(file)))?;
        Ok(place)
    }

    /// A doubt, if the profile is not any more what it was.
    fn changed(&self, subject: &Subject) -> Result<Option<Warning>> {
        let now = profile::contents(&subject.profile)?;
        Ok(profile::difference(&self.whole, &now).map(|path| {
            let text =
                format!("the profile was changed meanwhile, and not by thaw: {}", shown(&subject.profile.join(path)));
            Warning::new(WarningKind::Note, text).hint("the copies are of before; its program may be running")
        }))
    }
}

/// The one program of a plan.
fn template(plan: &RecordPlan) -> Result<Program> {
    let [program] = &plan.programs[..] else {
        return Err(Error::new(Exit::Usage, "one program is ablated, not several variants of it", ""));
    };
    let has_place = program.argv.iter().any(|word| replaced(word, PLACE, OsStr::new("")) != *word)
        || program
            .env
            .iter()
            .any(|(_, value)| value.as_ref().is_some_and(|value| replaced(value, PLACE, OsStr::new("")) != *value));
    match has_place {
        true => Ok(program.clone()),
        false => Err(Error::new(Exit::Usage, "no word of the program says where the copy of the profile goes", "")
            .hint(format!("write {PLACE} there: -- ./app --profile {PLACE}"))),
    }
}

/// Starts the variants in random blocks, and says what each factor costs.
///
/// # Errors
/// A factor that fits nothing; a profile that changes while it is copied; everything that [`record::run`] says.
pub fn run(
    mut plan: RecordPlan,
    subject: &Subject,
    design: Design,
    factors: &[Factor],
    progress: Box<dyn Tell>,
) -> Result<(AblateDocument, Recorded)> {
    let template = template(&plan)?;
    subject.check(factors, &template)?;
    let cells = design.cells(factors.len()).map_err(|cause| {
        Error::new(Exit::Usage, "these factors cannot be combined so", "")
            .because(cause)
            .hint("name fewer with --factor, or choose --design fractional")
    })?;
    let copies = Copies::begin(subject, &plan)?;
    plan.programs.clear();
    for (index, cell) in cells.iter().enumerate() {
        let out: Vec<&Factor> = factors.iter().zip(cell).filter(|(_, there)| !**there).map(|(it, _)| it).collect();
        let copy = copies.without(subject, &index.to_string(), &out)?;
        plan.programs.push(variant(&template, &name_of(factors, cell), &copy, &out));
    }
    own_copies(&mut plan, &copies);
    plan.schedule.variants = cells.len() as u32;
    plan.asked.restore = vec![PLACE.to_owned()];
    plan.asked.ablation = Some(Ablation { design, factors: factors.to_vec(), cells });
    let recorded = record::run(&plan, progress)?;
    let mut document = read(&plan.output)?;
    document.warnings.extend(copies.changed(subject)?);
    Ok((document, recorded))
}

/// The copies are the program's own, and the profile of the preset is in none of its words any more.
fn own_copies(plan: &mut RecordPlan, copies: &Copies) {
    plan.own.push((copies.room.path().into(), OwnerRule::Restored));
    plan.needs_run_dir = crate::plan::needs_run_dir(&plan.programs);
}

/// What a recording of an ablation says.
///
/// # Errors
/// No recording, or none of an ablation.
pub fn read(path: &Path) -> Result<AblateDocument> {
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let Some(ablation) = loaded.asked.ablation.clone() else {
        return Err(Error::on(Exit::Data, "nothing was taken away in the recording", path)
            .hint("thaw ablate --profile DIR -- PROGRAM {profile}"));
    };
    let names: Vec<String> = ablation.factors.iter().map(|factor| factor.name.clone()).collect();
    let states = loaded.starts.timed_states().into_iter().map(|state| {
        let mut times = vec![BTreeMap::new(); ablation.cells.len()];
        let mut runs = Vec::new();
        for row in loaded.starts.timed().filter(|row| row.state == state) {
            let (Some(wall), Some(of)) = (row.wall_ns, times.get_mut(row.variant as usize)) else { continue };
            of.insert(row.block, wall.seconds());
            runs.push((loaded.names[row.variant as usize].clone(), row.block, wall.seconds()));
        }
        OfState { state, effects: effects(ablation.design, &names, &ablation.cells, &times), runs }
    });
    let states: Vec<OfState> = states.collect();
    let statistics = bench::analyze::analyze(&loaded.input());
    let file: OsString = loaded.source.file.clone().into();
    Ok(AblateDocument {
        schema: "thaw.ablate/1",
        states,
        ablation,
        warnings: statistics.warnings,
        next: vec![Next {
            command: command_line(&["thaw".into(), "report".into(), file]),
            why: "shows every variant, and what the starts read".to_owned(),
        }],
        recording: loaded.source,
    })
}
