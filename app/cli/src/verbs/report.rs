//! `thaw report`: what does a recording say?

use crate::args::report::ReportArgs;
use crate::{export, output, text};
use model::{Error, Exit, Result};
use pageload::report::PageLoads;
use std::path::Path;
use work::report::ReportDocument;
use work::{page, recorded};

/// Prints the answer and writes the exports.
///
/// # Errors
/// A file that is no recording, or an export that cannot be written.
pub fn run(args: &ReportArgs) -> Result<Exit> {
    let target = args.output.as_deref().map(|target| Ok((Form::of(target)?, target))).transpose()?;
    let existing = args.force.existing();
    export::check(&args.export, existing)?;
    if let Some((_, target)) = target {
        os::replace::check(target, existing)?;
    }
    if let Some(loads) = work::pageloads::read(&args.recording)? {
        return page_loads(args, &loads, target);
    }
    let document = match target {
        Some((Form::Page, target)) => {
            let (page, document) = page::of_recording(&args.recording, args.time_limit, args.since.as_deref())?;
            output::file(target, page.as_bytes(), existing)?;
            document
        }
        _ => recorded::report_within(&args.recording, args.time_limit)?,
    };
    match target {
        Some((Form::Page, _)) => {}
        Some((form, target)) => write(args, &document, form, target)?,
        None if args.json => output::json(&document)?,
        None => output::page(&text::report::page(&document, args.top, text::width::of_terminal()))?,
    }
    export::write(&document, &args.export, existing)?;
    Ok(Exit::Done)
}

/// Page loads have a table of their own.
fn page_loads(args: &ReportArgs, loads: &PageLoads, target: Option<(Form, &Path)>) -> Result<Exit> {
    let text = |width| text::pageload::page(loads, width);
    match target {
        Some((Form::Page, target)) => {
            return Err(Error::on(Exit::Usage, "page loads are text or JSON, and no HTML page:", target)
                .hint("name it .txt or .json"));
        }
        Some((Form::Json, target)) => output::file(target, &output::json_text(loads)?, args.force.existing())?,
        Some((Form::Text, target)) => {
            output::file(target, output::plain(&text(text::width::of_file())).as_bytes(), args.force.existing())?;
        }
        None if args.json => output::json(loads)?,
        None => output::page(&text(text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

/// What a file is written as.
#[derive(Clone, Copy)]
enum Form {
    Page,
    Json,
    Text,
}

impl Form {
    /// By the ending of its name.
    fn of(target: &Path) -> Result<Self> {
        let forms = [("html", Self::Page), ("htm", Self::Page), ("json", Self::Json), ("txt", Self::Text)];
        let hint = "name it .html for the page, .json or .txt; tables in Markdown and CSV: --export-markdown, \
                    --export-csv";
        output::by_ending(target, &forms, hint)
    }
}

fn write(args: &ReportArgs, document: &ReportDocument, form: Form, target: &Path) -> Result<()> {
    match form {
        _ if args.since.is_some() => {
            Err(Error::new(Exit::Usage, "only the page shows what changed:", "--since")
                .hint("thaw compare BEFORE AFTER"))
        }
        Form::Json => output::file(target, &output::json_text(document)?, args.force.existing()),
        _ => {
            let page = text::report::page(document, args.top, text::width::of_file());
            output::file(target, output::plain(&page).as_bytes(), args.force.existing())
        }
    }
}
