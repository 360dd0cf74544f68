//! Parameter scans: one variant of a program for each value, or for each combination of values, of what `--parameter` names.

use crate::args::values::Parameter;
use crate::shell::replaced;
use model::{Error, Exit, Result};
use std::ffi::OsString;

/// A program as it was named: its name in the report and its words.
pub type Named = (String, Vec<OsString>);

/// Names that stand for something else in a program's words.
const TAKEN: [&str; 4] = ["profile", "tmp", "home", "beacon"];

/// Every program with every combination of values, the last parameter changing fastest. A program without any placeholder stays
/// one variant: it may be the reference of a scan.
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
    match programs.iter().any(|(_, argv)| has(argv, parameter)) {
        true => Ok(()),
        false => Err(usage("no program has a place for the parameter")
            .hint(format!("write {{{}}} where the value goes: -- ./app --jobs {{{0}}}", parameter.name))),
    }
}

fn placeholder(parameter: &Parameter) -> String {
    format!("{{{}}}", parameter.name)
}

fn has(argv: &[OsString], parameter: &Parameter) -> bool {
    argv.iter().any(|word| replaced(word, &placeholder(parameter), "".as_ref()) != *word)
}

fn variants((name, argv): Named, parameter: &Parameter) -> Vec<Named> {
    if !has(&argv, parameter) {
        return vec![(name, argv)];
    }
    let of = |value: &String| {
        let words = argv.iter().map(|word| replaced(word, &placeholder(parameter), value.as_ref()));
        (format!("{name} {}={value}", parameter.name), words.collect())
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
        let programs = vec![("app".to_owned(), argv), ("plain".to_owned(), vec!["plain".into()])];
        let shown = |(name, argv): Named| format!("{name}: {}", argv.join(" ".as_ref()).to_string_lossy());
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
