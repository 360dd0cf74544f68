//! All questions at once, for a page or for what collects metrics: which versions are shown, in which order, and each
//! of them against the one before. Everything in here is out of published answers: a cell that they hide is nowhere.

use crate::answer::{AppCell, Cells, ColdCell, Document, PercentileCell, Regression, RemedyEffect, answer};
use crate::engine::Rows;
use crate::questions::{About, Question};
use model::{Error, Exit, Result};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Which versions of each application are shown.
#[derive(Clone, Debug)]
pub enum Versions {
    /// So many, the newest by their numbers.
    Newest(usize),
    /// These, in this order.
    These(Vec<String>),
}

/// An application, and its versions that are shown.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    /// Which application.
    pub app: String,
    /// Its versions, the oldest first; each is compared with the one before.
    pub versions: Vec<String>,
}

/// All answers, `thaw.fleet-report/1`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `thaw.fleet-report/1`.
    pub schema: &'static str,
    /// Fewest distinct machines of a cell that is shown.
    pub k: u64,
    /// What is shown of each application.
    pub courses: Vec<Course>,
    /// The answers, `regressions` once for each two versions. Cells of versions that are not shown are left out.
    pub answers: Vec<Document>,
}

/// Asks everything. `ask` gets the SQL of one question after the other.
///
/// # Errors
/// A name that no ping can have; a version that no answer shows; what `ask` says.
pub fn report(
    app: Option<&str>,
    k: u64,
    versions: &Versions,
    ask: &mut dyn FnMut(&str) -> Result<Rows>,
) -> Result<Report> {
    let mut asked = |question: Question, about: &About| answer(question, about, &ask(&about.sql(question)?)?);
    let about = About { app: app.map(str::to_owned), k, ..About::default() };
    let one_answer = Question::ALL.into_iter().filter(|question| *question != Question::Regressions);
    let mut answers = one_answer.map(|question| asked(question, &about)).collect::<Result<Vec<_>>>()?;
    let courses = courses(&answers, versions, k)?;
    for document in &mut answers {
        document.cells.keep(&|app, version| {
            courses.iter().any(|course| course.app == app && course.versions.iter().any(|shown| shown == version))
        });
    }
    for course in &courses {
        for pair in course.versions.windows(2) {
            let (old, new) = (Some(pair[0].clone()), Some(pair[1].clone()));
            answers.push(asked(Question::Regressions, &About { app: Some(course.app.clone()), old, new, k })?);
        }
    }
    Ok(Report { schema: "thaw.fleet-report/1", k, courses, answers })
}

fn courses(answers: &[Document], versions: &Versions, k: u64) -> Result<Vec<Course>> {
    let mut shown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cell in percentiles(answers, Question::Versions) {
        shown.entry(&cell.app).or_default().push(&cell.version);
    }
    if let Versions::These(these) = versions {
        let missing = these.iter().find(|version| !shown.values().flatten().any(|shown| shown == version));
        if let Some(version) = missing {
            let error = Error::new(Exit::Usage, "no answer shows the version", version.escape_default());
            return Err(error.hint(format!("`thaw fleet query versions` lists those of at least {k} machines")));
        }
    }
    let course = |(app, mut of_app): (&str, Vec<&str>)| {
        let versions: Vec<String> = match versions {
            Versions::These(these) => {
                these.iter().filter(|version| of_app.contains(&version.as_str())).cloned().collect()
            }
            Versions::Newest(number) => {
                of_app.sort_by(|a, b| by_number(a.as_bytes(), b.as_bytes()).then(a.cmp(b)));
                of_app[of_app.len().saturating_sub(*number)..].iter().map(|version| (*version).to_owned()).collect()
            }
        };
        Course { app: app.to_owned(), versions }
    };
    Ok(shown.into_iter().map(course).filter(|course| !course.versions.is_empty()).collect())
}

/// Which version is newer: numbers by their value, `~` before everything, as Debian orders versions (Policy 5.6.12).
fn by_number(mut a: &[u8], mut b: &[u8]) -> Ordering {
    let word = |text: &[u8]| text.first().copied().filter(|letter| !letter.is_ascii_digit());
    let weight = |letter: Option<u8>| match letter {
        Some(b'~') => -1,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(letter),
        Some(other) => i32::from(other) + 256,
    };
    loop {
        while word(a).is_some() || word(b).is_some() {
            match weight(word(a)).cmp(&weight(word(b))) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                other => return other,
            }
        }
        let number = |text: &[u8]| text.iter().take_while(|letter| letter.is_ascii_digit()).count();
        let ((of_a, rest_a), (of_b, rest_b)) = (a.split_at(number(a)), b.split_at(number(b)));
        let value = |digits: &[u8]| digits[digits.iter().take_while(|digit| **digit == b'0').count()..].to_vec();
        let (value_a, value_b) = (value(of_a), value(of_b));
        let order = value_a.len().cmp(&value_b.len()).then_with(|| value_a.cmp(&value_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

fn percentiles(answers: &[Document], question: Question) -> impl Iterator<Item = &PercentileCell> {
    let of = answers.iter().filter(move |document| document.question == question.name());
    of.flat_map(|document| match &document.cells {
        Cells::Percentiles(cells) => cells.as_slice(),
        _ => &[],
    })
}

impl Report {
    /// Cells of `apps`.
    pub fn apps(&self) -> impl Iterator<Item = &AppCell> {
        self.answers.iter().flat_map(|document| match &document.cells {
            Cells::Apps(cells) => cells.as_slice(),
            _ => &[],
        })
    }

    /// Cells of `versions`, `classes` or `worst`.
    pub fn percentiles(&self, question: Question) -> impl Iterator<Item = &PercentileCell> {
        percentiles(&self.answers, question)
    }

    /// Cells of `cold`.
    pub fn cold(&self) -> impl Iterator<Item = &ColdCell> {
        self.answers.iter().flat_map(|document| match &document.cells {
            Cells::Cold(cells) => cells.as_slice(),
            _ => &[],
        })
    }

    /// Cells of `remedies`.
    pub fn remedies(&self) -> impl Iterator<Item = &RemedyEffect> {
        self.answers.iter().flat_map(|document| match &document.cells {
            Cells::Remedies(cells) => cells.as_slice(),
            _ => &[],
        })
    }

    /// Cells of `regressions`, each with the version that it is compared with and the one that is judged.
    pub fn regressions(&self) -> impl Iterator<Item = (&str, &str, &Regression)> {
        self.answers.iter().flat_map(|document| {
            let cells = match &document.cells {
                Cells::Regressions(cells) => cells.as_slice(),
                _ => &[],
            };
            let old = document.version_old.as_deref().unwrap_or_default();
            let new = document.version_new.as_deref().unwrap_or_default();
            cells.iter().map(move |cell| (old, new, cell))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let mut versions = ["1.10", "1.9", "2.0", "2.0~rc2", "1.9.1", "2.0~rc10", "2.0b", "2.0-1", "2.00"];
        versions.sort_by(|a, b| by_number(a.as_bytes(), b.as_bytes()).then(a.cmp(b)));
        assert_eq!(versions, ["1.9", "1.9.1", "1.10", "2.0~rc2", "2.0~rc10", "2.0", "2.00", "2.0b", "2.0-1"]);
    }
}
