//! Which lines of a log mean what: a rule has a module, how a line begins, and what that says of which objects.

use crate::trace::Phase;
use model::{Error, Exit, Result};
use serde::Deserialize;
use std::collections::HashMap;

/// What placeholders of a line stand for.
pub type Values = HashMap<String, String>;

/// Rules by module.
#[derive(Clone, Debug, Default)]
pub struct Rules(HashMap<String, Vec<Rule>>);

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    acts: Vec<Act>,
}

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A later line of the thread may name this value.
    Keep(String, Slot),
    /// A phase of an object, and its type.
    Says(Phase, Slot, Option<String>),
    /// From, to, type.
    Link(Slot, Slot, String),
    /// The object's name.
    Name(Slot, Slot),
    /// The object is called as the other one.
    Called(Slot, Slot),
    /// The object, a key and its value.
    Arg(Slot, String, Slot),
}

/// Text with placeholders: `{this}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

impl Slot {
    fn parse(text: &str) -> Option<Self> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            if name.is_empty() || name.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
                return None;
            }
            parts.push(Part::Value(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Some(Self(parts))
    }

    /// The text with its values; `None`: one is not known.
    pub fn fill<'a>(&self, value: impl Fn(&str) -> Option<&'a String>) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Value(name) => text.push_str(value(name)?),
            }
        }
        Some(text)
    }
}

/// How a line begins. A placeholder reaches to the next place where what follows it stands; the last one, with nothing
/// behind it, to the end of the line.
#[derive(Clone, Debug)]
struct Pattern(Vec<Part>);

impl Pattern {
    fn fits(&self, line: &str) -> Option<Values> {
        let (mut values, mut rest, mut open) = (Values::new(), line, None);
        for part in &self.0 {
            match (part, open.take()) {
                (Part::Value(name), None) => open = Some(name),
                // Two placeholders with nothing in between are refused when rules are read.
                (Part::Value(_), Some(_)) => return None,
                (Part::Text(text), None) => rest = rest.strip_prefix(text.as_str())?,
                (Part::Text(text), Some(name)) => {
                    let (value, after) = rest.split_once(text.as_str())?;
                    keep(&mut values, name, value);
                    rest = after;
                }
            }
        }
        if let Some(name) = open {
            keep(&mut values, name, rest);
        }
        Some(values)
    }
}

fn keep(values: &mut Values, name: &str, value: &str) {
    if name != "_" {
        values.insert(name.to_owned(), value.to_owned());
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    module: String,
    line: String,
    says: Vec<String>,
}

impl Rules {
    /// Those for Firefox's own HTTP: `nsHttp:5`.
    ///
    /// # Errors
    /// They are wrong: a bug.
    pub fn built_in() -> Result<Self> {
        Self::parse(include_str!("http.toml"))
    }

    /// Reads rules.
    ///
    /// # Errors
    /// They are none; the message has the rule.
    pub fn parse(text: &str) -> Result<Self> {
        let cannot = |what: String| Error::new(Exit::Data, "cannot read the rules", what);
        let file: File = toml::from_str(text).map_err(|error| cannot(error.to_string()))?;
        let mut rules = Self::default();
        for (number, written) in file.rule.into_iter().enumerate() {
            let wrong = |what: &str| cannot(format!("rule {}, {:?}: {what}", number + 1, written.line));
            let pattern = Slot::parse(&written.line).ok_or_else(|| wrong("a placeholder is a name in braces"))?;
            let is_adjacent = |pair: &[Part]| matches!(pair, [Part::Value(_), Part::Value(_)]);
            if pattern.0.is_empty() || pattern.0.windows(2).any(is_adjacent) {
                return Err(wrong("two placeholders have text between them, and a line is not empty"));
            }
            let acts =
                written.says.iter().map(|said| act(said).ok_or_else(|| wrong(&format!("{said:?} says nothing"))));
            let acts = acts.collect::<Result<_>>()?;
            rules.0.entry(written.module).or_default().push(Rule { pattern: Pattern(pattern.0), acts });
        }
        Ok(rules)
    }

    /// These, and others behind them.
    pub fn and(mut self, others: Self) -> Self {
        for (module, rules) in others.0 {
            self.0.entry(module).or_default().extend(rules);
        }
        self
    }

    /// What all rules that fit a line say.
    pub fn of<'a>(&'a self, module: &str, line: &'a str) -> impl Iterator<Item = (&'a [Act], Values)> {
        let rules = self.0.get(module).map_or(&[][..], Vec::as_slice);
        rules.iter().filter_map(move |rule| Some((rule.acts.as_slice(), rule.pattern.fits(line)?)))
    }
}

/// `exec {this} net::http::channel`
fn act(said: &str) -> Option<Act> {
    let (word, rest) = said.split_once(' ')?;
    let (first, second) = rest.split_once(' ').map_or((rest, None), |(first, second)| (first, Some(second)));
    let slot = Slot::parse(first)?;
    let phase = match word {
        "keep" => return Some(Act::Keep(first.to_owned(), Slot::parse(second?)?)),
        "name" => return Some(Act::Name(slot, Slot::parse(second?)?)),
        "called" => return Some(Act::Called(slot, Slot::parse(second?)?)),
        "arg" => {
            let (key, value) = second?.split_once(' ')?;
            return Some(Act::Arg(slot, key.to_owned(), Slot::parse(value)?));
        }
        "link" => {
            let (to, name) = second?.split_once(' ')?;
            return Some(Act::Link(slot, Slot::parse(to)?, name.to_owned()));
        }
        "free" => return second.is_none().then_some(Act::Says(Phase::Free, slot, None)),
        "mark" => Phase::Mark,
        "wait" => Phase::Wait,
        "exec" => Phase::Exec,
        "done" => Phase::Done,
        _ => return None,
    };
    Some(Act::Says(phase, slot, Some(second?.to_owned())))
}
