//! The questions: SQL that all engines read alike (the rules are in docs/fleet-sql.md), and what is filled into it.

use model::{Error, Exit, Result};

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// How much there is of each application.
    Apps,
    /// Percentiles by version.
    Versions,
    /// Percentiles by version and class of hardware.
    Classes,
    /// Which class became slower with a version.
    Regressions,
    /// The worst percentiles by version and cache state.
    Worst,
    /// The share of cold starts by version and class.
    Cold,
    /// What remedies do in the field.
    Remedies,
}

impl Question {
    /// All.
    pub const ALL: [Self; 7] =
        [Self::Apps, Self::Versions, Self::Classes, Self::Regressions, Self::Worst, Self::Cold, Self::Remedies];

    /// What a user types.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apps => "apps",
            Self::Versions => "versions",
            Self::Classes => "classes",
            Self::Regressions => "regressions",
            Self::Worst => "worst",
            Self::Cold => "cold",
            Self::Remedies => "remedies",
        }
    }

    /// Its text, with places for the names and for the columns of percentiles.
    pub fn text(self) -> &'static str {
        match self {
            Self::Apps => include_str!("../queries/apps.sql"),
            Self::Versions => include_str!("../queries/versions.sql"),
            Self::Classes => include_str!("../queries/classes.sql"),
            Self::Regressions => include_str!("../queries/regressions.sql"),
            Self::Worst => include_str!("../queries/worst.sql"),
            Self::Cold => include_str!("../queries/cold.sql"),
            Self::Remedies => include_str!("../queries/remedies.sql"),
        }
    }
}

/// Percentiles that questions name, in thousandths.
const PERCENTILES: [(&str, i64); 6] =
    [("p50", 500), ("p75", 750), ("p90", 900), ("p95", 950), ("p99", 990), ("p999", 999)];

/// The columns of a percentile: the value at its rank, and the ends of its interval (docs/fleet-sql.md).
fn percentile(name: &str, permille: i64) -> String {
    let distance = format!("abs(cast(1000 * r.place - {permille} * r.n as double))");
    let inside = format!(
        "case when {distance} <= 1e3
              or ({distance} - 1e3)
               * ({distance} - 1e3) * cast(r.machines as double)
              <= 3.8416e0 * {}e0 * cast(r.n as double) * cast(r.n as double)
        then r.wall_us end",
        permille * (1000 - permille)
    );
    format!(
        "min(case when 1000 * r.place >= {permille} * r.n then r.wall_us end) as {name},
    min({inside}) as {name}_low,
    max({inside}) as {name}_high"
    )
}

/// What a question is about.
#[derive(Clone, Debug)]
pub struct About {
    /// One application; `None`: each.
    pub app: Option<String>,
    /// The version that is compared with, for [`Question::Regressions`].
    pub old: Option<String>,
    /// The version that is judged, for [`Question::Regressions`].
    pub new: Option<String>,
    /// Fewest distinct machines of a cell that is shown.
    pub k: u64,
}

/// Machines that a cell must have to be shown, if nothing else is said.
pub const MACHINES: u64 = 20;

impl Default for About {
    fn default() -> Self {
        Self { app: None, old: None, new: None, k: MACHINES }
    }
}

impl About {
    /// The SQL of a question.
    ///
    /// # Errors
    /// A name that no ping can have, which might be SQL; a comparison without its versions.
    pub fn sql(&self, question: Question) -> Result<String> {
        let names = [("app", &self.app), ("version", &self.old), ("version", &self.new)];
        for (what, name) in names {
            if let Some(name) = name.as_ref().filter(|name| !is_word(name)) {
                let error = Error::new(Exit::Usage, format!("no ping can have the {what}"), name.escape_default());
                return Err(error.hint("names are 1 to 64 letters of a-z, A-Z, 0-9 and ._+~:-"));
            }
        }
        if question == Question::Regressions && (self.old.is_none() || self.new.is_none()) {
            let error = Error::new(Exit::Usage, "which versions are compared?", "");
            return Err(error.hint("say --version-old V --version-new W; `thaw fleet query versions` lists them"));
        }
        if question == Question::Regressions && self.old == self.new {
            return Err(Error::new(Exit::Usage, "both versions are", self.old.as_deref().unwrap_or_default()));
        }
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let text = PERCENTILES.iter().fold(question.text().to_owned(), |text, (name, permille)| {
            text.replace(&format!("{{{name}}}"), &percentile(name, *permille))
        });
        let text = text.replace("{app}", &name(&self.app)).replace("{k}", &self.k.to_string());
        Ok(text.replace("{old}", &name(&self.old)).replace("{new}", &name(&self.new)))
    }
}

/// What may stand in an answer and in SQL as it is: no quotes, no backslash, no blank.
fn is_word(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || b"._+~:-".contains(&letter);
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_might_be_sql_is_no_name() {
        for name in ["a'b", "a\\", "", "a b", "a;b", "{new}"] {
            let about = About { app: Some(name.into()), ..About::default() };
            assert_eq!(about.sql(Question::Versions).unwrap_err().exit, Exit::Usage, "{name}");
        }
        let about = About { app: Some("x".into()), old: Some("1".into()), new: Some("2".into()), ..About::default() };
        for question in Question::ALL {
            assert!(!about.sql(question).unwrap().contains('{'), "{}", question.name());
        }
    }

    /// What engines read in different ways: docs/fleet-sql.md.
    #[test]
    fn questions_use_portable_sql_alone() {
        let about = About { app: Some("x".into()), old: Some("1".into()), new: Some("2".into()), ..About::default() };
        for question in Question::ALL {
            let text = about.sql(question).unwrap();
            let code: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
            let code = code.join("\n").to_lowercase();
            for word in
                ["/", "median(", "percentile", "quantile", "stddev", "avg(", "ifnull", "\"", "`", "||", " filter"]
            {
                assert!(!code.contains(word), "{} uses {word}", question.name());
            }
        }
    }
}
