//! Imports and asks as `thaw fleet` does, without the rest of thaw, for the claim about large fleets:
//! `ask_fleet import DIR DB` and `ask_fleet query NAME FROM ENGINE K PYTHON [MASTER]`. `regressions` compares version 5
//! with version 4, as `made_fleet` makes them. Prints the JSON document.

use fleet::engine::{self, Python};
use fleet::questions::{About, Question};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    match typed.as_slice() {
        ["import", folder, db] => {
            let done = fleet::import::import(Path::new(folder), Path::new(db), &mut |_, _| ())?;
            println!("{}", serde_json::to_string_pretty(&done)?);
        }
        ["query", name, from, engine, k, python, master @ ..] => {
            let question =
                Question::ALL.into_iter().find(|question| question.name() == *name).ok_or("which question?")?;
            let about = About { app: None, old: Some("4".into()), new: Some("5".into()), k: k.parse()? };
            let sql = about.sql(question)?;
            let (from, python) = (Path::new(from), Python { program: python.into() });
            let [rows] = match *engine {
                "sqlite" => [engine::sqlite(from, &sql)?],
                "spark" => engine::spark(&python, from, [&sql], master.first().copied())?,
                "clickhouse" => engine::clickhouse(&python, from, [&sql])?,
                _ => return Err("which engine?".into()),
            };
            println!("{}", serde_json::to_string_pretty(&fleet::answer::answer(question, &about, &rows)?)?);
        }
        _ => return Err("import DIR DB, or query NAME FROM ENGINE K PYTHON [MASTER]".into()),
    }
    Ok(())
}
