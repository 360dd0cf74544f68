//! `thaw store`: files of web storage, sessions and cookies.

use crate::args::store::{Form, StoreArgs, StoreVerb};
use crate::{output, text};
use model::{Error, Exit, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;
use work::stores::{StoreFile, Stores};

/// Does what was asked.
///
/// # Errors
/// What is not there or no file of records; to repair, what is another user's or in use.
pub fn run(args: &StoreArgs) -> Result<Exit> {
    let width = text::width::of_terminal();
    match &args.verb {
        StoreVerb::Ls(args) => {
            let document = Stores::open(&args.path)?.look()?;
            output::answer(args.json, &document, || text::store::list(&document, width))?;
        }
        StoreVerb::Show(args) => {
            let documents = Stores::open(&args.path)?.contents()?;
            match args.json {
                true => documents.iter().try_for_each(output::json)?,
                false => output::page(&text::store::contents(&documents, args.rows.most(), width))?,
            }
        }
        StoreVerb::Export(args) => {
            let stores = Stores::open(&args.path)?;
            let (bytes, left) = match args.form {
                Form::Json => (output::json_text(&stores.contents()?)?, 0),
                Form::Netscape => stores.netscape()?,
            };
            match &args.output {
                Some(path) => output::file(path, &bytes, args.force.existing())?,
                None => output::bytes(&bytes)?,
            }
            if left > 0 {
                let cookies = text::units::plural(left as u64, "cookie", "cookies");
                output::complain(&format!("warning: {cookies} left out: the format has no place for what is in them"));
            }
        }
        StoreVerb::Import(args) => {
            let document = work::stores::import::import(&args.profile, &args.output)?;
            output::answer(args.json, &document, || text::store::imported(&document, width))?;
        }
        StoreVerb::Verify(args) => {
            let document = Stores::open(&args.path)?.look()?;
            output::answer(args.json, &document, || text::store::verify(&document, width))?;
            return Ok(if document.files.iter().all(StoreFile::is_whole) { Exit::Done } else { Exit::Data });
        }
        StoreVerb::Repair(args) => {
            let document = Stores::open(&args.path)?.repair()?;
            output::answer(args.json, &document, || text::store::repaired(&document, width))?;
        }
        StoreVerb::Bench(args) => {
            let document = work::stores::bench::bench(&args.directory)?;
            output::answer(args.json, &document, || text::store::bench(&document, width))?;
        }
        StoreVerb::Serve(args) => {
            // A program of its own, so that no other verb brings the code of HTTP along.
            let program = work::stores::serve_program()?;
            let mut command = Command::new(&program);
            command.args(["--port", &args.port.to_string()]);
            // What begins with a dash is a directory all the same.
            let cause = command.arg("--").args(&args.directory).exec();
            return Err(Error::on(Exit::Machine, "cannot start", &program).because(cause));
        }
    }
    Ok(Exit::Done)
}
