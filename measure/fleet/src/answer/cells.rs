//! Percentiles and shares of cold starts, cell by cell.

use crate::engine::{Row, Rows};
use crate::hidden::{Counted, Hidden, hide};
use crate::questions::Question;
use model::Result;
use serde::Serialize;
use stats::{Estimate, Interval};

/// A class of hardware.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Class {
    /// Number of CPUs: `1`, `2`, `3-4`, `5-8`, `9-16`, `17+`.
    pub cpus: String,
    /// `<4G`, `4-8G`, `8-16G`, `16-32G`, `>=32G`.
    pub memory: String,
    /// `nvme`, `ssd`, `hdd`, `virtual`, `network`, `unknown`.
    pub disk: String,
}

impl Class {
    pub(super) fn of(row: Row<'_>) -> Result<Self> {
        Ok(Self { cpus: row.text("cpus")?, memory: row.text("memory")?, disk: row.text("disk")? })
    }
}

/// A percentile of the times until ready.
#[derive(Clone, Debug, Serialize)]
pub struct Percentile {
    /// 50: the median.
    pub percent: f64,
    /// In µs: the smallest time that so many starts do not exceed.
    pub wall_us: i64,
    /// Lower end of its interval, in µs; `None`: too few machines to tell.
    pub low_us: Option<i64>,
    /// Upper end of its interval, in µs; `None`: too few machines to tell.
    pub high_us: Option<i64>,
}

impl Percentile {
    /// Of a row of `n` starts on `machines` machines.
    pub(super) fn of(row: Row<'_>, permille: i64) -> Result<Self> {
        let name = match permille {
            999 => "p999".to_owned(),
            _ => format!("p{}", permille / 10),
        };
        let (n, machines) = (row.whole("n")?, row.whole("machines")?);
        Ok(Self {
            percent: permille as f64 / 10.0,
            wall_us: row.whole(&name)?,
            low_us: row.known(&format!("{name}_low"))?.filter(|_| !reaches(0, n, machines, permille)),
            high_us: row.known(&format!("{name}_high"))?.filter(|_| !reaches(n + 1, n, machines, permille)),
        })
    }

    pub(super) fn estimate(&self) -> Estimate {
        let ends = self.low_us.zip(self.high_us);
        let interval = ends.map(|(low, high)| Interval { low: low as f64, high: high as f64 });
        Estimate { value: self.wall_us as f64, interval }
    }
}

/// Whether an interval reaches to this place, by the rule of the questions' SQL: then its end is beyond all values.
fn reaches(place: i64, n: i64, machines: i64, permille: i64) -> bool {
    let distance = (1000 * place - permille * n) as f64;
    let beyond = distance.abs() - 1e3;
    let n = n as f64;
    beyond <= 0.0 || beyond * beyond * machines as f64 <= 3.8416 * (permille * (1000 - permille)) as f64 * n * n
}

/// How much there is of an application, in versions that may be shown: nothing of the others is in these figures, so
/// that they are the sums of what `versions` shows.
#[derive(Clone, Debug, Serialize)]
pub struct AppCell {
    /// Which application.
    pub app: String,
    /// Number of versions.
    pub versions: i64,
    /// Number of starts.
    pub starts: i64,
    /// Distinct machines.
    pub machines: i64,
    /// Day of the first start, `YYYY-MM-DD`.
    pub first_day: String,
    /// Day of the last start, `YYYY-MM-DD`.
    pub last_day: String,
}

impl Counted for AppCell {
    fn machines(&self) -> u64 {
        self.machines as u64
    }

    fn total(&self) -> Option<String> {
        None
    }
}

pub(super) fn apps(rows: &Rows, k: u64) -> Result<(Vec<AppCell>, Hidden)> {
    let cell = |row: Row<'_>| {
        Ok(AppCell {
            app: row.text("app")?,
            versions: row.whole("versions")?,
            starts: row.whole("n")?,
            machines: row.whole("machines")?,
            first_day: row.text("first_day")?,
            last_day: row.text("last_day")?,
        })
    };
    Ok(hide(rows.iter().map(cell).collect::<Result<_>>()?, k))
}

/// Percentiles of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct PercentileCell {
    /// Which application.
    pub app: String,
    /// Which version.
    pub version: String,
    /// Of `classes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Of `worst`: state of the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Number of starts.
    pub starts: i64,
    /// Distinct machines.
    pub machines: i64,
    /// The percentiles, lowest first.
    pub percentiles: Vec<Percentile>,
}

impl Counted for PercentileCell {
    fn machines(&self) -> u64 {
        self.machines as u64
    }

    fn total(&self) -> Option<String> {
        // `versions` shows the totals of what has a class or a state.
        (self.class.is_some() || self.state.is_some()).then(|| format!("{} {}", self.app, self.version))
    }
}

pub(super) fn percentiles(question: Question, rows: &Rows, k: u64) -> Result<(Vec<PercentileCell>, Hidden)> {
    let permilles: &[i64] = if question == Question::Worst { &[900, 950, 990, 999] } else { &[500, 750, 950] };
    let cell = |row: Row<'_>| {
        Ok(PercentileCell {
            app: row.text("app")?,
            version: row.text("version")?,
            class: (question == Question::Classes).then(|| Class::of(row)).transpose()?,
            state: (question == Question::Worst).then(|| row.text("state")).transpose()?,
            starts: row.whole("n")?,
            machines: row.whole("machines")?,
            percentiles: permilles.iter().map(|permille| Percentile::of(row, *permille)).collect::<Result<_>>()?,
        })
    };
    Ok(hide(rows.iter().map(cell).collect::<Result<_>>()?, k))
}

/// Which share of the starts of a cell is cold.
#[derive(Clone, Debug, Serialize)]
pub struct ColdCell {
    /// Which application.
    pub app: String,
    /// Which version.
    pub version: String,
    /// Class of hardware.
    pub class: Class,
    /// Number of starts.
    pub starts: i64,
    /// Distinct machines.
    pub machines: i64,
    /// Starts whose state the kernel did not tell. The share is of the others.
    pub unknown: i64,
    /// Cold starts among those whose state is known: 0 to 1; `None`: of none it is.
    pub share: Option<f64>,
    /// Interval of the share.
    pub interval: Option<Interval>,
}

impl Counted for ColdCell {
    fn machines(&self) -> u64 {
        self.machines as u64
    }

    fn total(&self) -> Option<String> {
        Some(format!("{} {}", self.app, self.version))
    }
}

pub(super) fn cold(rows: &Rows, k: u64) -> Result<(Vec<ColdCell>, Hidden)> {
    let cell = |row: Row<'_>| {
        let (starts, machines, unknown) = (row.whole("n")?, row.whole("machines")?, row.whole("untold")?);
        let told = starts - unknown;
        let share = stats::share(row.whole("cold")? as f64, told as f64, machines.min(told) as f64);
        Ok(ColdCell {
            app: row.text("app")?,
            version: row.text("version")?,
            class: Class::of(row)?,
            starts,
            machines,
            unknown,
            share: (told > 0).then_some(share.value),
            interval: share.interval,
        })
    };
    Ok(hide(rows.iter().map(cell).collect::<Result<_>>()?, k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_reaches_beyond_the_values_has_no_end() {
        // 20 machines tell where the median is, but not how high the 95th percentile can be.
        assert!(!reaches(0, 20, 20, 500) && !reaches(21, 20, 20, 500));
        assert!(!reaches(0, 20, 20, 950) && reaches(21, 20, 20, 950));
        // A thousand starts on 20 machines tell no more.
        assert!(reaches(1001, 1000, 20, 950) && !reaches(1001, 1000, 1000, 950));
    }
}
