//! Parameter scans: one variant of a program for each value, or for each combination of values, of what `--parameter`
//! names.

use crate::args::values::Parameter;
use bench::around::Around;
use bench::base::BaseList;
use model::{Error, Exit, Result};
use std::ffi::OsString;
use work::shell::replaced;

/// A program as it was named.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name in the report.
    pub name: String,
    /// Its words.
    pub argv: Vec<OsString>,
    /// The commands around its starts.
    pub around: Around,
    /// What the state `boot` warms before them.
    pub base_list: Option<BaseList>,
}

/// Names that stand for something else in a program's words.
const TAKEN: [&str; 4] = ["profile", "tmp", "home", "beacon"];

/// Every program with every combination of values, the last parameter changing fastest. A program without any
/// placeholder stays one variant: it may be the reference of a scan.
///
/// # Errors
/// Usage: a parameter that no program has, one that is named twice, or one with a name that thaw uses itself.
pub fn expanded(programs: Vec<Named>, parameters: &[Parameter]) -> Result<Vec<Named>> {
    for (index, parameter) in parameters.iter().enumerate() {
        check(parameter, &parameters[..index], &programs)?;
    }
    Ok(parameters.iter().fold(programs, |programs, parameter| {
        programs.into_iter().flat_map(|program| variants(program, parameter)).collect()
    }))
}

fn check(parameter: &Parameter, earlier: &[Parameter], programs: &[Named]) -> Result<()> {
    let usage = |what: &str| Error::new(Exit::Usage, what, &parameter.name);
    if TAKEN.contains(&parameter.name.as_str()) {
        return Err(usage("thaw itself fills in this placeholder:").hint("give the parameter another name"));
    }
    if earlier.iter().any(|other| other.name == parameter.name) {
        return Err(usage("this parameter is given twice:").hint("name all values at once: NAME=a,b,c"));
    }
    match programs.iter().any(|program| has(program, parameter)) {
        true => Ok(()),
        false => Err(usage("no program has a place for the parameter")
            .hint(format!("write {{{}}} where the value goes: -- ./app --jobs {{{0}}}", parameter.name))),
    }
}

fn placeholder(parameter: &Parameter) -> String {
    format!("{{{}}}", parameter.name)
}

fn has(program: &Named, parameter: &Parameter) -> bool {
    let filled = with(program, parameter, "");
    filled.argv != program.argv || filled.around != program.around
}

/// The program with a value in the parameter's places.
fn with(program: &Named, parameter: &Parameter, value: &str) -> Named {
    let mut filled = program.clone();
    for word in filled.argv.iter_mut().chain(filled.around.lines()) {
        *word = replaced(word, &placeholder(parameter), value.as_ref());
    }
    filled
}

fn variants(program: Named, parameter: &Parameter) -> Vec<Named> {
    if !has(&program, parameter) {
        return vec![program];
    }
    let of = |value: &String| {
        let name = format!("{} {}={value}", program.name, parameter.name);
        Named { name, ..with(&program, parameter, value) }
    };
    parameter.values.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::parameter;

    fn expand(line: &str, parameters: &[&str]) -> Result<Vec<String>> {
        let argv = line.split(' ').map(OsString::from).collect();
        let parameters: Vec<Parameter> = parameters.iter().map(|text| parameter(text).unwrap()).collect();
        let named =
            |name: &str, argv| Named { name: name.to_owned(), argv, around: Around::default(), base_list: None };
        let programs = vec![named("app", argv), named("plain", vec!["plain".into()])];
        let shown = |program: Named| format!("{}: {}", program.name, program.argv.join(" ".as_ref()).to_string_lossy());
        Ok(expanded(programs, &parameters)?.into_iter().map(shown).collect())
    }

    #[test]
    fn each_combination_is_a_variant() {
        assert_eq!(
            expand("app -j{n} --theme {t}", &["n=1..2", "t=dark,light"]).unwrap(),
            [
                "app n=1 t=dark: app -j1 --theme dark",
                "app n=1 t=light: app -j1 --theme light",
                "app n=2 t=dark: app -j2 --theme dark",
                "app n=2 t=light: app -j2 --theme light",
                "plain: plain"
            ]
        );
    }

    #[test]
    fn parameters_that_cannot_be_filled_in_are_refused() {
        for (parameters, why) in
            [(&["m=1"][..], "no program has a place"), (&["tmp=1"], "thaw itself"), (&["n=1", "n=2"], "twice")]
        {
            assert!(expand("app {n} {tmp}", parameters).unwrap_err().to_string().contains(why), "{parameters:?}");
        }
    }
}
