//! Reads OpenMetrics 1.0 text as strictly as a collector that trusts nobody: gauges and counters, without time stamps.

use std::collections::{BTreeMap, BTreeSet};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its name, of a counter with `_total`.
    pub name: String,
    /// Its labels, with nothing escaped.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

/// What is said of a family before its samples.
#[derive(Default)]
struct Family {
    name: String,
    kind: Option<String>,
    unit: Option<String>,
    help: Option<String>,
    has_samples: bool,
}

/// All samples of a text.
///
/// # Errors
/// What is wrong with it, and in which line.
pub fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let lines = text.strip_suffix("# EOF\n").ok_or("the last line is not `# EOF`")?;
    if !lines.is_empty() && !lines.ends_with('\n') {
        return Err("`# EOF` stands in no line of its own".into());
    }
    let (mut samples, mut seen, mut series) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut family = Family::default();
    for line in lines.split_terminator('\n') {
        let wrong = |why: &str| format!("{why}: {line}");
        let Some(said) = line.strip_prefix("# ") else {
            let sample = sample(line).map_err(|why| wrong(&why))?;
            let of_family = match family.kind.as_deref() {
                Some("gauge") => sample.name == family.name,
                Some("counter") => sample.name.strip_suffix("_total") == Some(&family.name),
                _ => return Err(wrong("no TYPE of gauge or counter stands before it")),
            };
            if !of_family {
                return Err(wrong("it is not of the family above"));
            }
            if family.help.is_none() {
                return Err(wrong("its family has no HELP"));
            }
            if !series.insert(format!("{} {:?}", sample.name, sample.labels)) {
                return Err(wrong("this series was there before"));
            }
            family.has_samples = true;
            samples.push(sample);
            continue;
        };
        let mut words = said.splitn(3, ' ');
        let (what, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let value = words.next().ok_or_else(|| wrong("it says nothing"))?;
        if name != family.name {
            if !is_name(name, ":") || !seen.insert(name.to_owned()) {
                return Err(wrong("no name, or a family that was there before"));
            }
            family = Family { name: name.to_owned(), ..Family::default() };
        }
        if family.has_samples {
            return Err(wrong("it stands behind the samples of its family"));
        }
        let place = match what {
            "TYPE" if matches!(value, "gauge" | "counter") => &mut family.kind,
            "UNIT" if name.ends_with(&format!("_{value}")) => &mut family.unit,
            "HELP" if unescaped(value).is_some() => &mut family.help,
            _ => return Err(wrong("neither TYPE, UNIT nor HELP, or one that cannot be")),
        };
        if place.replace(value.to_owned()).is_some() {
            return Err(wrong("it is said twice"));
        }
    }
    Ok(samples)
}

fn is_name(name: &str, more: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || more.contains(letter);
    name.starts_with(|letter: char| fits(letter) && !letter.is_ascii_digit()) && name.chars().all(fits)
}

/// `None`: a quote that is not escaped, or an escape that there is not.
fn unescaped(text: &str) -> Option<String> {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '"' | '\n' => return None,
            '\\' => match letters.next()? {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

/// `name{label="value",…} 1.5`
fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("it has no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, ":") {
        return Err("it has no name".into());
    }
    let mut labels = BTreeMap::new();
    if let Some(list) = rest.strip_prefix('{') {
        rest = list;
        loop {
            let (label, quoted) = rest.split_once("=\"").ok_or("a label without a value")?;
            let mut is_escaped = false;
            let end = quoted.find(|letter| {
                let ends = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                ends
            });
            let (value, after) = quoted.split_at(end.ok_or("a label's value does not end")?);
            let value = unescaped(value).ok_or("a label's value is not escaped as it must be")?;
            if !is_name(label, "") || labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("no name of a label, or one that is there twice: {label}"));
            }
            match after[1..].split_at_checked(1) {
                Some((",", more)) => rest = more,
                Some(("}", more)) => break rest = more,
                _ => return Err("the labels do not end".into()),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no blank stands before the value")?;
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value = value.parse().ok().filter(|_| is_number).ok_or("its value is no number")?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds What.\n";

    #[test]
    fn what_is_right_is_read() {
        let text = format!("{HEAD}a_seconds{{x=\"1\",y=\"q\\\"\\\\\\n,}}\"}} 1.5e-3\na_seconds 2\n# EOF\n");
        let samples = parse(&text).unwrap();
        assert_eq!((samples.len(), samples[0].value), (2, 0.0015));
        assert_eq!(samples[0].labels["y"], "q\"\\\n,}");
        assert!(parse("# EOF\n").unwrap().is_empty());
        assert_eq!(parse("# TYPE b counter\n# HELP b B.\nb_total 1\n# EOF\n").unwrap()[0].name, "b_total");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (wrong, why) in [
            ("a_seconds 1\n", "EOF"),
            ("a_seconds 1 # EOF\n", "line of its own"),
            ("a_seconds 1\n# EOF\n\n", "EOF"),
            ("a_seconds 1\na_seconds 2\n# EOF\n", "there before"),
            ("a_seconds 1\n# HELP a_seconds Again.\n# EOF\n", "behind"),
            ("# HELP a_seconds Again.\n# EOF\n", "twice"),
            ("b 1\n# EOF\n", "family above"),
            ("\n# EOF\n", "no value"),
            ("a_seconds{x=\"\"\"} 1\n# EOF\n", "do not end"),
            ("a_seconds{x=\"\\t\"} 1\n# EOF\n", "escaped"),
            ("a_seconds{x=\"1\",x=\"2\"} 1\n# EOF\n", "twice"),
            ("a_seconds{1=\"1\"} 1\n# EOF\n", "label"),
            ("a_seconds one\n# EOF\n", "number"),
            ("a_seconds 1 12345\n# EOF\n", "number"),
            ("# TYPE b gauge\n# HELP b B.\nb 1\n# TYPE a_seconds gauge\n# EOF\n", "there before"),
            ("# TYPE b gauge\nb 1\n# EOF\n", "HELP"),
            ("# TYPE b gauge\n# UNIT b seconds\n# EOF\n", "UNIT"),
        ] {
            let error = parse(&format!("{HEAD}{wrong}")).unwrap_err();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }
}
