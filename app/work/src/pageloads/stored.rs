//! Page loads in a recording, so that `compare`, `gate` and `query` read them as they read starts: each browser through
//! each cache in each state is a program of it, each load a run of this program, and paints are its milestones. The
//! whole document lies beside them, for `report`.

use crate::facts;
use crate::recorded::SIMULATED_DISK;
use model::{Bytes, CacheState, Error, Exit, Milestone, Nanos, Result, RunId, RunKind, RunRow};
use pageload::plan::State;
use pageload::report::{Load, PageLoads, Row};
use recording::{Fact, Header, Reader, Replace, Variant, Writer};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the whole document lies in the recording's plan.
const KEY: &str = "pageload";

/// Subject of the facts of what was loaded.
const PAGE: &str = "page";

/// What is known before the first load.
#[derive(Debug)]
pub struct Head {
    header: Header,
    facts: Vec<Fact>,
}

impl Head {
    /// Of this machine, now. `cache`: where the cache will lie, seen from the machine's own disk.
    pub fn gather(command_line: Vec<OsString>, cache: &Path, seed: u64) -> Self {
        let header = Header {
            thaw_version: env!("CARGO_PKG_VERSION").to_owned(),
            created_unix_ns: os::machine::now_unix_ns(),
            command_line,
            cwd: std::env::current_dir().unwrap_or_default(),
            environment: facts::environment(&[]),
            plan: serde_json::Value::Null,
            seed,
        };
        Self { header, facts: facts::gather(&[PathBuf::from(cache)]) }
    }

    /// Writes the recording.
    ///
    /// # Errors
    /// See [`Writer`].
    pub fn write(mut self, path: &Path, replace: Replace, document: &PageLoads) -> Result<()> {
        let page = &document.page;
        let fact = |subject: &str, key: &str, value: String| Fact { subject: subject.into(), key: key.into(), value };
        self.facts.extend(page.url.clone().map(|url| fact(PAGE, "url", url)));
        let numbers =
            [("answers", page.answers), ("bytes", page.bytes), ("latency_ns", page.latency_ns.map(|it| it.0))];
        self.facts.extend(numbers.into_iter().filter_map(|(key, value)| Some(fact(PAGE, key, value?.to_string()))));
        self.facts.extend(document.disk.clone().map(|name| fact(SIMULATED_DISK, "name", name)));
        let kept = serde_json::to_value(document)
            .map_err(|error| Error::bug(format!("cannot store the page loads: {error}")))?;
        self.header.plan = serde_json::json!({ KEY: kept });
        let mut writer = Writer::create(path, &self.header, replace)?;
        let rows: Vec<&Row> = document.rows.iter().filter(|row| row.loads > 0).collect();
        for (index, row) in (0..).zip(&rows) {
            let name = name(row.browser, &row.via, row.state);
            let argv = [row.browser.to_string(), row.via.clone(), row.state.name().to_owned()];
            writer.add_variant(&Variant { index, name, argv: argv.map(OsString::from).into() })?;
        }
        writer.add_facts(&self.facts)?;
        document.warnings.iter().try_for_each(|warning| writer.add_warning(warning))?;
        for load in &document.loads {
            let is_its = |row: &&Row| row.browser == load.browser && row.via == load.via && row.state == load.state;
            let Some(variant) = rows.iter().position(is_its) else { continue };
            writer.add_run(&run(load, variant as u32), &milestones(load), &[])?;
        }
        if document.interrupted { Ok(()) } else { writer.finish() }
    }
}

/// The page loads that a recording holds; `None`: it is of starts.
///
/// # Errors
/// It is no recording, or what it holds of page loads is none.
pub fn read(path: &Path) -> Result<Option<PageLoads>> {
    let mut plan = Reader::open(path)?.header()?.plan;
    let Some(kept) = plan.get_mut(KEY).map(serde_json::Value::take) else { return Ok(None) };
    let damaged = |cause| Error::on(Exit::Data, "cannot read the page loads of", path).because(cause);
    serde_json::from_value(kept).map(Some).map_err(damaged)
}

/// What a program of the recording is called: `chromium, direct, cold`.
fn name(browser: pageload::drive::Kind, via: &str, state: State) -> String {
    format!("{browser}, {via}, {}", state.name())
}

/// What a load has no figure for is 0, as of a program that did not use it.
fn run(load: &Load, variant: u32) -> RunRow {
    RunRow {
        id: RunId(0),
        variant,
        state: if load.state == State::Cold { CacheState::Cold } else { CacheState::Hot },
        kind: RunKind::Timed,
        block: load.round,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns: load.started_unix_ns,
        wall_ns: Some(load.load_ns),
        exit_ns: None,
        user_ns: Nanos(0),
        system_ns: Nanos(0),
        max_rss: Bytes(0),
        minor_faults: 0,
        major_faults: 0,
        read_bytes: load.reads.map(|reads| reads.bytes),
        read_requests: load.reads.and_then(|reads| reads.requests),
        written_bytes: None,
        instructions: None,
        cycles: None,
        exit_code: None,
        exit_signal: None,
        others_cpu_share: None,
        others_io_pressure: None,
        own_resident_share: None,
        system_resident_share: None,
    }
}

fn milestones(load: &Load) -> Vec<Milestone> {
    let paints = [
        ("first paint", load.first_paint_ns),
        ("largest paint", load.largest_paint_ns),
        ("loaded", Some(load.load_ns)),
    ];
    let told = paints.into_iter().filter_map(|(name, at)| Some(Milestone { name: name.to_owned(), at_ns: at? }));
    let mut milestones: Vec<Milestone> = told.collect();
    milestones.sort_by_key(|milestone| milestone.at_ns);
    milestones
}
