//! Which commit made a start slower: `git bisect` in a worktree of its own, with a gate that measures until it knows.
//!
//! The good commit is built once and kept aside. Each commit that git proposes is built beside it, and both are
//! recorded as two variants in the same random blocks; blocks are added until the gate decides. So neither the
//! machine's mood nor the time of day is taken for a change. A commit that does not build, or that cannot be told from
//! the limit within the budget, is skipped as `git bisect run` does at exit code 125. The user's tree and an own
//! bisection in it are not touched.

use crate::gate::{self, Adding, Against, GateDocument, Rules, Undecided};
use crate::git::Repository;
use crate::plan::{Handed, Plans, Wanted};
use crate::progress::Tell;
use crate::shell::replaced;
use bench::gate::{FigureVerdict, Metric, Outcome};
use bench::record::Program;
use history::Commit;
use model::{CacheState, Error, Exit, Result, shown};
use os::journal::{Entry, Undo, hold};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is looked for, and how.
pub struct Search<'a> {
    /// A directory of the repository.
    pub repo: &'a Path,
    /// A commit that is fast.
    pub good: &'a str,
    /// A later one that is slow.
    pub bad: &'a str,
    /// Shell command that builds the tree that it is started in.
    pub build: Option<&'a OsStr>,
    /// Program and arguments; `{tree}` is the built tree, and a relative name with a slash is in it.
    pub program: &'a [OsString],
    /// What is judged, each with a limit of its own if need be.
    pub metrics: &'a [(Metric, Option<f64>)],
    /// How much a figure may grow; `None`: half of what it grew between the two ends.
    pub max_regression: Option<f64>,
    /// Cache state of the starts.
    pub state: CacheState,
    /// Blocks before the first look at each commit.
    pub runs: u32,
    /// Time for each commit, without its build.
    pub budget: Duration,
    /// What words mean.
    pub plans: &'a dyn Plans,
    /// Somebody who is told of the runs.
    pub told: &'a dyn Fn() -> Box<dyn Tell>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Within the limit.
    Good,
    /// Beyond it.
    Bad,
    /// It does not build or start, or the runs cannot tell.
    Skip,
}

impl Mark {
    /// As git calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skip => "skip",
        }
    }
}

/// A commit that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Looked {
    /// Which.
    pub commit: Commit,
    /// What became of it.
    pub mark: Mark,
    /// Why it was skipped.
    pub because: Option<String>,
    /// How often the gate looked.
    pub looks: u32,
    /// Its figures against those of the good commit; empty if it was never measured.
    pub figures: Vec<FigureVerdict>,
}

/// `thaw.bisect/1`
#[derive(Debug, Serialize)]
pub struct BisectDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The commit that all others are measured against.
    pub good: Commit,
    /// The slow end.
    pub bad: Looked,
    /// Metric and how much it may grow.
    pub limits: Vec<(Metric, f64)>,
    /// Commits between the ends, both not counted.
    pub between: u64,
    /// The commits that git proposed, in that order.
    pub looked: Vec<Looked>,
    /// The first bad commit; `None`: the ends do not differ, or skipped commits are in the way.
    pub first_bad: Option<Looked>,
    /// Where there is no single one: the commits that may be the first bad one.
    pub candidates: Vec<String>,
}

/// The two trees, removed with all that git knows of them when this is dropped.
struct Trees<'a> {
    repository: &'a Repository,
    folder: PathBuf,
    /// Removes the folder, also if thaw is killed: then `thaw doctor --mend` does.
    _entry: Entry,
}

impl<'a> Trees<'a> {
    fn make(repository: &'a Repository) -> Result<Self> {
        let parent = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let folder = parent.join(format!("thaw-bisect-{}", std::process::id()));
        let make = || {
            os::file::create_private_directory(&folder)
                .map_err(|cause| Error::on(Exit::Machine, "cannot make a directory:", &folder).because(cause))
        };
        let entry = hold(Undo::RemoveTree { path: folder.clone() }, make)?;
        Ok(Self { repository, folder, _entry: entry })
    }

    fn add(&self, name: &str, commit: &Commit) -> Result<Repository> {
        let top = self.folder.join(name);
        let words = [OsStr::new("worktree"), "add".as_ref(), "--quiet".as_ref(), "--detach".as_ref(), top.as_os_str()];
        self.repository.says(words.into_iter().chain([OsStr::new(&commit.id)]))?;
        Ok(Repository { top })
    }
}

impl Drop for Trees<'_> {
    fn drop(&mut self) {
        for name in ["good", "tree"] {
            let top = self.folder.join(name);
            let words = [OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref(), top.as_os_str()];
            // One that was never added is not there to be removed.
            let _ = self.repository.run(words);
        }
        let _ = self.repository.run(["worktree", "prune"]);
    }
}

/// Searches. Where the two ends do not differ, or skipped commits are in the way, there is no first bad commit.
///
/// # Errors
/// No repository, no such commits, ends that do not build or start; [`Exit::Interrupted`]. All is as it was found.
pub fn run(search: &Search<'_>) -> Result<BisectDocument> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let repository = Repository::of(search.repo)?;
    let (good, bad) = (repository.commit(search.good)?, repository.commit(search.bad)?);
    let is_ancestor = repository.run(["merge-base", "--is-ancestor", &good.id, &bad.id])?.status.success();
    if !is_ancestor || good.id == bad.id {
        return Err(Error::new(Exit::Usage, "the good commit is no ancestor of the bad one:", search.good)
            .because(format!("{} does not come before {}", good.id, bad.id))
            .hint("name an older commit with --good, and one that came of it with --bad"));
    }
    let between = repository.says(["rev-list", "--count", &bad.id, &format!("^{}", good.id)])?;
    let trees = Trees::make(&repository)?;
    let (aside, tree) = (trees.add("good", &good)?, trees.add("tree", &bad)?);
    let mut bench = Bench { search, folder: &trees.folder, aside: &aside, tree: &tree, recordings: 0 };
    for (end, commit) in [(&aside, &good), (&tree, &bad)] {
        if let Some(said) = bench.build(end)? {
            return Err(Error::new(Exit::Target, "this end of the bisection does not build:", &commit.id)
                .because(said)
                .hint("name a commit that builds with --good or --bad, or another --build"));
        }
    }
    // What the ends differ by says what a bad commit looks like.
    let own = search.max_regression;
    let asked: Vec<(Metric, Option<f64>)> =
        search.metrics.iter().map(|(metric, limit)| (metric.clone(), limit.or(own))).collect();
    let ends = bench.measure(&asked, 0.0)?;
    let bad = Looked { looks: ends.looks, figures: ends.verdict.figures, ..Looked::of(bad, Mark::Bad) };
    let mut document = BisectDocument {
        schema: "thaw.bisect/1",
        good,
        bad,
        limits: Vec::new(),
        between: between.parse::<u64>().unwrap_or_default().saturating_sub(1),
        looked: Vec::new(),
        first_bad: None,
        candidates: Vec::new(),
    };
    document.limits = limits(&document.bad.figures, &asked);
    if document.limits.is_empty() {
        document.bad.mark = if ends.verdict.outcome == Outcome::Pass { Mark::Good } else { Mark::Skip };
        return Ok(document);
    }
    bench.bisect(&mut document)?;
    Ok(document)
}

/// The metrics in which the ends differ, each with its limit.
fn limits(figures: &[FigureVerdict], asked: &[(Metric, Option<f64>)]) -> Vec<(Metric, f64)> {
    let failed = figures.iter().filter(|figure| figure.outcome == Outcome::Fail);
    failed
        .map(|figure| {
            let own = asked.iter().find(|(metric, _)| *metric == figure.metric).and_then(|(_, limit)| *limit);
            // Half of the way up, in the logarithm, is as far from the one end as from the other. From nothing to
            // something has no ratio: any growth is too much then.
            let half = figure.ratio.map_or(0.0, |ratio| ratio.value.sqrt() - 1.0);
            (figure.metric.clone(), own.unwrap_or(half))
        })
        .collect()
}

impl Looked {
    fn of(commit: Commit, mark: Mark) -> Self {
        Self { commit, mark, because: None, looks: 0, figures: Vec::new() }
    }
}

struct Bench<'a> {
    search: &'a Search<'a>,
    folder: &'a Path,
    aside: &'a Repository,
    tree: &'a Repository,
    recordings: u32,
}

impl Bench<'_> {
    fn bisect(&mut self, document: &mut BisectDocument) -> Result<()> {
        self.tree.says(["bisect", "start"])?;
        self.tree.says(["bisect", "bad", &document.bad.commit.id])?;
        let mut said = self.tree.says(["bisect", "good", &document.good.id])?;
        loop {
            if let Some(line) = said.lines().find(|line| line.ends_with(" is the first bad commit")) {
                let id = line.split(' ').next().unwrap_or_default();
                let known = document.looked.iter().chain([&document.bad]);
                document.first_bad = known.into_iter().find(|looked| looked.commit.id == id).cloned();
                return Ok(());
            }
            if said.contains("only 'skip'ped commits left") {
                let is_id = |line: &&str| line.len() >= 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
                document.candidates = said.lines().filter(is_id).map(str::to_owned).collect();
                return Ok(());
            }
            let looked = self.look(&document.limits)?;
            // A build may have changed files that git knows.
            self.tree.says(["reset", "--quiet", "--hard"])?;
            said = self.mark(looked.mark)?;
            document.looked.push(looked);
        }
    }

    /// What git says to it. That only skipped commits are left is an answer, too, with an exit code of its own.
    fn mark(&self, mark: Mark) -> Result<String> {
        let output = self.tree.run(["bisect", mark.word()])?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() || said.contains("only 'skip'ped commits left") {
            return Ok(said);
        }
        let complained = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::new(Exit::Usage, "git cannot go on with the bisection in", shown(&self.tree.top))
            .because(complained))
    }

    /// Builds and measures what git proposes.
    fn look(&mut self, limits: &[(Metric, f64)]) -> Result<Looked> {
        os::interrupt::check()?;
        let commit = self.tree.commit("HEAD")?;
        let skipped = |why: String| Looked { because: Some(why), ..Looked::of(commit.clone(), Mark::Skip) };
        if let Some(said) = self.build(self.tree)? {
            return Ok(skipped(format!("it does not build: {said}")));
        }
        let metrics: Vec<(Metric, Option<f64>)> = limits.iter().map(|(m, limit)| (m.clone(), Some(*limit))).collect();
        let found = match self.measure(&metrics, 0.0) {
            Ok(found) => found,
            Err(error) if error.exit == Exit::Target => {
                let cause = error.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                return Ok(skipped(format!("it does not start: {} {}{cause}", error.what, error.object)));
            }
            Err(error) => return Err(error),
        };
        let mark = match found.verdict.outcome {
            Outcome::Pass => Mark::Good,
            Outcome::Fail => Mark::Bad,
            Outcome::Undecided => Mark::Skip,
        };
        let because = (mark == Mark::Skip).then(|| "the runs cannot tell within --budget".to_owned());
        Ok(Looked { because, looks: found.looks, figures: found.verdict.figures, ..Looked::of(commit, mark) })
    }

    /// Builds a tree; what a failed build said last.
    fn build(&self, tree: &Repository) -> Result<Option<String>> {
        let Some(command) = self.search.build else { return Ok(None) };
        let wrong = |cause: std::io::Error| Error::on(Exit::Machine, "cannot build in", &tree.top).because(cause);
        let log = self.folder.join("build.log");
        let file = std::fs::File::create(&log).map_err(wrong)?;
        let mut builder = Command::new("sh");
        builder.arg("-c").arg(command).current_dir(&tree.top).stdin(Stdio::null());
        builder.stdout(file.try_clone().map_err(wrong)?).stderr(file);
        // A group of its own ends as one, whoever is told to stop.
        let mut child = builder.process_group(0).spawn().map_err(wrong)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(wrong)? {
                break status;
            }
            if os::interrupt::requested() {
                if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                child.wait().map_err(wrong)?;
                return Err(Error::interrupted());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        if status.success() {
            return Ok(None);
        }
        let said = std::fs::read(&log).map_err(wrong)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        Ok(Some(format!("{last} ({status})")))
    }

    /// Records both trees in the same blocks, until the gate decides or the budget ends.
    fn measure(&mut self, metrics: &[(Metric, Option<f64>)], max_regression: f64) -> Result<GateDocument> {
        self.recordings += 1;
        let recording = self.folder.join(format!("{}.thaw", self.recordings));
        let programs = [("good", self.aside), ("here", self.tree)].map(|(name, tree)| self.program(name, tree));
        let wanted = Wanted {
            output: recording.clone(),
            states: vec![self.search.state],
            runs: self.search.runs,
            trace_runs: 0,
            read_ahead: None,
            disk: None,
            include: Vec::new(),
            user: None,
            handed: Handed { programs: programs.into(), own: vec![self.aside.top.clone(), self.tree.top.clone()] },
        };
        let plan = self.search.plans.of_copies(wanted)?;
        if crate::record::run(&plan, (self.search.told)())?.exit == Exit::Interrupted {
            return Err(Error::interrupted());
        }
        let rules = Rules {
            against: Against::Variants("good", "here"),
            judged: &gate::growing(metrics, max_regression),
            undecided: Undecided::Fail,
            allowed: &[],
        };
        let adding = Adding { budget: self.search.budget, plans: self.search.plans, told: self.search.told };
        match gate::until_decided(&recording, &rules, &adding)? {
            (_, true) => Err(Error::interrupted()),
            (document, false) => Ok(document),
        }
    }

    fn program(&self, name: &str, tree: &Repository) -> Program {
        let words = self.search.program.iter().enumerate().map(|(index, word)| {
            let word = replaced(word, "{tree}", tree.top.as_os_str());
            let path = Path::new(&word);
            match index == 0 && path.is_relative() && word.as_bytes().contains(&b'/') {
                true => tree.top.join(path.strip_prefix(".").unwrap_or(path)).into_os_string(),
                false => word,
            }
        });
        Program { cwd: Some(tree.top.clone()), ..Program::new(name, words.collect::<Vec<_>>()) }
    }
}
