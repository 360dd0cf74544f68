//! `thaw ablate`: which part of a profile makes the start slow?

use super::record::ready;
use crate::args::ablate::{AblateArgs, Design};
use crate::progress::Progress;
use crate::{export, output, plan, text};
use ::ablate::design::Design as Combined;
use ::ablate::factor::Factor;
use model::{Error, Exit, Result};
use os::replace::Existing;
use std::path::Path;
use work::ablating::{self, AblateDocument, Subject, bisect};
use work::progress::Tell;

/// Starts the variants, or reads what was recorded, and prints what each part costs.
///
/// # Errors
/// As `thaw record`; factors that fit nothing.
pub fn run(mut args: AblateArgs, quiet: bool) -> Result<Exit> {
    args.record.verb = "ablate";
    let existing = Existing::forced(args.record.force);
    if let Some(path) = &args.from {
        let how = Answer { json: args.record.json, html: args.html.as_deref(), existing };
        return how.say(&ablating::read(path)?).map(|()| Exit::Done);
    }
    let profile = args.profile.as_deref().ok_or_else(|| Error::bug("neither --profile nor --from"))?;
    let subject = Subject::look(profile)?;
    let factors = factors(&args, &subject)?;
    if args.list {
        output::page(&text::ablate::factors(&factors, subject.entries(), text::width::of_terminal()))?;
        return Ok(Exit::Done);
    }
    let combined = match args.design {
        Design::OneOut => Combined::OneOut,
        Design::OneIn => Combined::OneIn,
        Design::Full => Combined::Full,
        Design::Fractional => Combined::Fractional,
        Design::Bisect => return search(args, &subject, quiet),
    };
    let how = Answer { json: args.record.json, html: args.html.as_deref(), existing };
    let exported = args.record.export.clone();
    let wanted = plan::record(args.record)?;
    let wanted = ready(wanted, &exported, quiet)?;
    let progress = Box::new(Progress::new(quiet));
    let (document, recorded) = ablating::run(wanted, &subject, combined, &factors, progress)?;
    how.say(&document)?;
    export::write(&recorded.document, &exported, existing)?;
    Ok(recorded.exit)
}

/// Those that were named, and those that are proposed.
fn factors(args: &AblateArgs, subject: &Subject) -> Result<Vec<Factor>> {
    let mut factors = args.factor.clone();
    if factors.is_empty() || args.propose {
        let proposed = subject.proposed().into_iter();
        let named = factors.clone();
        factors.extend(proposed.filter(|factor| named.iter().all(|other| other.name != factor.name)));
    }
    for name in &args.without {
        let names: Vec<String> = factors.iter().map(|factor| factor.name.clone()).collect();
        if !names.contains(name) {
            return Err(Error::new(Exit::Usage, "there is no factor", name)
                .hint(format!("the factors are {}", names.join(", "))));
        }
        factors.retain(|factor| factor.name != *name);
    }
    for (index, factor) in factors.iter().enumerate() {
        if factors[..index].iter().any(|other| other.name == factor.name) {
            return Err(Error::new(Exit::Usage, "two factors have the same name:", &factor.name));
        }
    }
    match factors.is_empty() {
        false => Ok(factors),
        true => Err(Error::on(Exit::Usage, "no factor is named, and none is seen in", &subject.profile)
            .hint("--factor NAME=FILE")),
    }
}

fn search(args: AblateArgs, subject: &Subject, quiet: bool) -> Result<Exit> {
    if args.html.is_some() || !args.factor.is_empty() {
        return Err(Error::new(
            Exit::Usage,
            "--design bisect searches among all files: it has no --factor and no --html",
            "",
        ));
    }
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let json = args.record.json;
    let wanted = plan::record(args.record)?;
    let progress = || Box::new(Progress::new(quiet)) as Box<dyn Tell>;
    let document = bisect::run(wanted, subject, &progress)?;
    output::answer(json, &document, || text::ablate::bisected(&document, text::width::of_terminal()))?;
    Ok(if document.seconds.is_some() { Exit::Done } else { Exit::No })
}

/// How the answer is given.
struct Answer<'a> {
    json: bool,
    html: Option<&'a Path>,
    existing: Existing,
}

impl Answer<'_> {
    fn say(&self, document: &AblateDocument) -> Result<()> {
        if let Some(page) = self.html {
            output::file(page, ablating::page::of(document).as_bytes(), self.existing)?;
        }
        match self.json {
            true => output::json(document),
            false => output::page(&text::ablate::page(document, text::width::of_terminal())),
        }
    }
}
