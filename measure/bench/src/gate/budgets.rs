//! Budgets: what the figures of a start may be, in a file that lies in the program's repository.
//!
//! ```toml
//! schema = "thaw.budgets/1"
//!
//! [[budget]]
//! state = "hot"              # this state alone
//! variant = "new"            # this variant alone
//! time = "400ms"             # the median start takes no longer
//! memory = "200MiB"
//! requests = 150
//! "milestone:x11" = "300ms"
//! cpu = "+5%"                # so much more than what the gate compares with; "-20%": so much less
//! ```

use super::{Bound, Metric, Rule};
use model::CacheState;
use model::typed::{duration, growth, size};
use serde::Deserialize;

/// What a file with budgets says of itself.
pub const SCHEMA: &str = "thaw.budgets/1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    #[serde(default, rename = "budget")]
    budgets: Vec<toml::Table>,
}

/// Reads a file of budgets: one rule for each figure that it names.
///
/// # Errors
/// Why it is none: no TOML, another schema, a word that is no metric, a value that the metric cannot have.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.schema != SCHEMA {
        return Err(format!("it says that it is '{}', and this thaw reads {SCHEMA}", file.schema));
    }
    let mut rules = Vec::new();
    for (index, budget) in file.budgets.iter().enumerate() {
        let told = |why: String| format!("budget {}: {why}", index + 1);
        let before = rules.len();
        let word = |key: &str| match budget.get(key) {
            None => Ok(None),
            Some(toml::Value::String(word)) => Ok(Some(word.as_str())),
            Some(other) => Err(told(format!("{key} = {other} is no text"))),
        };
        let state: Option<CacheState> = word("state")?.map(str::parse).transpose().map_err(told)?;
        let variant = word("variant")?;
        for (key, value) in budget.iter().filter(|(key, _)| *key != "state" && *key != "variant") {
            let metric: Metric = key.parse().map_err(|why| told(format!("{why}, state or variant")))?;
            let bound = bound(&metric, value).map_err(|why| told(format!("{key}: {why}")))?;
            rules.push(Rule { metric, bound, state, variant: variant.map(str::to_owned) });
        }
        if rules.len() == before {
            return Err(told("it names no figure".to_owned()));
        }
    }
    if rules.is_empty() { Err("it has no [[budget]]".to_owned()) } else { Ok(rules) }
}

fn bound(metric: &Metric, value: &toml::Value) -> Result<Bound, String> {
    if let Some(text) = value.as_str().filter(|text| text.starts_with(['+', '-'])) {
        return growth(text.strip_prefix('+').unwrap_or(text)).map(Bound::Growth);
    }
    let value = match (metric, value) {
        (Metric::Time | Metric::Cpu | Metric::Milestone(_), toml::Value::String(text)) => duration(text)?.as_secs_f64(),
        (Metric::Time | Metric::Cpu | Metric::Milestone(_), other) => {
            return Err(format!("{other} has no unit; write \"400ms\" or \"1.5s\""));
        }
        (Metric::Bytes | Metric::Memory, toml::Value::String(text)) => size(text)?.0 as f64,
        (Metric::Bytes | Metric::Memory, other) => {
            return Err(format!("{other} has no unit; write \"128K\" or \"30M\""));
        }
        (_, toml::Value::Integer(count)) if *count >= 0 => *count as f64,
        (_, other) => return Err(format!("{other} is no count; write 150, or \"+5%\"")),
    };
    Ok(Bound::AtMost(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(lines: &str) -> Result<Vec<Rule>, String> {
        parse(&format!("schema = \"{SCHEMA}\"\n[[budget]]\n{lines}"))
    }

    #[test]
    fn each_figure_is_a_rule_in_its_metrics_unit() {
        let text = "state = 'hot'\nvariant = 'new'\ntime = '400ms'\nmemory = '2MiB'\nrequests = 150\ncpu = '+5%'\n\
                    'milestone:x11' = '1.5s'";
        let rules = budget(text).unwrap();
        let found = |metric: Metric| rules.iter().find(|rule| rule.metric == metric).unwrap().bound;
        assert_eq!(found(Metric::Time), Bound::AtMost(0.4));
        assert_eq!(found(Metric::Memory), Bound::AtMost(2_097_152.0));
        assert_eq!(found(Metric::Requests), Bound::AtMost(150.0));
        assert_eq!(found(Metric::Cpu), Bound::Growth(0.05));
        assert_eq!(found(Metric::Milestone("x11".to_owned())), Bound::AtMost(1.5));
        let all = |rule: &Rule| (rule.state, rule.variant.as_deref()) == (Some(CacheState::Hot), Some("new"));
        assert!(rules.len() == 5 && rules.iter().all(all));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |lines: &str, why: &str| {
            let said = budget(lines).unwrap_err();
            assert!(said.contains(why), "{lines}: {said}");
        };
        wrong("", "budget 1: it names no figure");
        wrong("state = 'warm'\ntime = '1s'", "budget 1: 'warm' is not a cache state");
        wrong("state = 3\ntime = '1s'", "state = 3 is no text");
        wrong("speed = 3", "'speed' is no metric; they are time, cpu");
        wrong("time = 400", "time: 400 has no unit; write \"400ms\"");
        wrong("memory = 4.5", "memory: 4.5 has no unit");
        wrong("requests = -1", "requests: -1 is no count");
        wrong("requests = '30M'", "is no count");
        wrong("time = '+5'", "'5' would be 500 %");
        wrong("time = '3 parsecs'", "is not a duration");
        wrong("time = '1s'\ntime = '2s'", "duplicate key");
        assert!(parse("schema = 'thaw.budgets/9'").unwrap_err().contains("'thaw.budgets/9'"));
        assert!(parse("schema = 'thaw.budgets/1'").unwrap_err().contains("no [[budget]]"));
        assert!(parse("schema = 'thaw.budgets/1'\nbudgets = 3").unwrap_err().contains("unknown field"));
    }

    proptest! {
        #[test]
        fn no_text_is_more_than_refused(text in "(state|time|\\[\\[budget|'|=| |\\+|%|[0-9]|\n|.){0,60}") {
            let _ = budget(&text);
            let _ = parse(&text);
        }
    }
}
