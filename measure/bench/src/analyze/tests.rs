//! Recordings with planted troubles, and what the report says about them.

use super::book::{Book, normal, times};
use super::*;
use crate::report::Method;
use model::{Bytes, CacheState::*, Nanos};
use proptest::prelude::*;

fn kinds(report: &Report) -> Vec<WarningKind> {
    report.warnings.iter().map(|warning| warning.kind).collect()
}

/// The only warning of a kind.
fn warning(report: &Report, kind: WarningKind) -> &Warning {
    let found: Vec<&Warning> = report.warnings.iter().filter(|warning| warning.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?} among {:#?}", report.warnings);
    found[0]
}

fn hint(warning: &Warning) -> &str {
    warning.hint.as_deref().expect("a warning says what to do")
}

/// 20 quiet runs without any trouble.
fn quiet(seed: u64) -> Vec<f64> {
    times(20, 1.0, 0.01, seed)
}

#[test]
fn a_cell_has_the_figures_of_its_runs() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &[1.0, 2.0, 4.0]);
    book.runs[0].0.instructions = Some(10);
    book.runs[2].0.instructions = Some(30);
    book.runs[1].0.max_rss = Bytes(5);
    let report = analyze(&book.input());
    let cell = &report.cells[0];
    assert_eq!((cell.runs, cell.rejected, cell.state), (3, 0, Cold));
    assert_eq!((cell.min_s, cell.max_s, cell.median_s.value), (1.0, 4.0, 2.0));
    assert!((cell.mean_s.value - 7.0 / 3.0).abs() < 1e-12);
    assert!((cell.user_s.value - 7.0 / 6.0).abs() < 1e-9);
    assert_eq!(cell.max_rss_bytes, 100e6);
    assert_eq!((cell.read_bytes, cell.read_requests), (Some(80e6), Some(900.0)));
    assert_eq!((cell.instructions, cell.cycles), (Some(20.0), None), "median over the runs that could be counted");
    assert_eq!(cell.milestones.len(), 1);
    assert_eq!((cell.milestones[0].name.as_str(), cell.milestones[0].runs), ("exit", 3));
    let samples: Vec<f64> = cell.samples.iter().map(|sample| sample.wall_s).collect();
    assert_eq!(samples, [1.0, 2.0, 4.0]);
}

#[test]
fn a_quiet_recording_has_no_doubts() {
    let book = Book::of(&["firefox"]).cell(0, Hot, &quiet(1)).cell(0, Cold, &times(20, 5.0, 0.01, 2));
    let report = analyze(&book.input());
    assert_eq!(report.warnings, []);
    assert_eq!(report.cells.iter().map(|cell| cell.state).collect::<Vec<_>>(), [Hot, Cold]);
}

#[test]
fn nothing_recorded_is_an_empty_report() {
    let report = analyze(&Book::of(&["firefox"]).input());
    assert!(report.cells.is_empty() && report.warnings.is_empty() && report.noise_floor.is_none());
}

#[test]
fn only_accepted_timed_runs_count() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &quiet(1));
    book.run(0, Cold, 0, 99.0).kind = RunKind::Trace;
    book.run(0, Cold, 0, 99.0).kind = RunKind::Warmup;
    for attempt in 1..=2 {
        let row = book.run(0, Cold, 3, 99.0);
        row.accepted = false;
        row.attempt = attempt;
        row.rejected_because = Some("not cold: libxul.so: 12.0 MB stay, mapped by 812 (firefox)".to_owned());
    }
    let failed = book.run(0, Cold, 4, 99.0);
    failed.accepted = false;
    failed.wall_ns = None;
    failed.rejected_because = Some("ended by signal 11".to_owned());
    let report = analyze(&book.input());
    let cell = &report.cells[0];
    assert_eq!((cell.runs, cell.rejected), (20, 3));
    assert!(cell.max_s < 2.0);
    assert_eq!(report.rejected.iter().map(|rejected| rejected.run.0).collect::<Vec<_>>(), [23, 24, 25]);

    let stays = warning(&report, WarningKind::NotInState);
    assert!(
        stays.text.contains("2 runs not counted (runs 23 and 24)") && stays.text.contains("812 (firefox)"),
        "{stays:?}"
    );
    let failed = warning(&report, WarningKind::FailedRun);
    assert!(failed.text.contains("signal 11"), "{failed:?}");
    assert_eq!(failed.run, Some(RunId(25)));
}

#[test]
fn a_cell_whose_runs_all_failed_is_not_forgotten() {
    let mut book = Book::of(&["firefox"]).cell(0, Hot, &quiet(1));
    for _ in 0..3 {
        let row = book.run(0, Cold, 0, 1.0);
        row.accepted = false;
        row.rejected_because = Some("not cold".to_owned());
    }
    let report = analyze(&book.input());
    assert_eq!(report.cells.len(), 1);
    let empty = warning(&report, WarningKind::TooFewRuns);
    assert!(empty.text.contains("cold has no figures") && empty.text.contains("3 runs"), "{empty:?}");
}

/// A program that leaves one more file each run: 2 % slower each time, 1 % of noise.
fn leaking(restores: bool) -> Book {
    let mut x = quiet(3);
    x.iter_mut().enumerate().for_each(|(run, time)| *time *= 1.0 + 0.02 * run as f64);
    Book::of(&["firefox"]).cell(0, Cold, &x).cell(0, Hot, &quiet(4)).asked(|options| options.restores = restores)
}

#[test]
fn a_planted_drift_is_warned_about() {
    let report = analyze(&leaking(false).input());
    let drift = warning(&report, WarningKind::Drift);
    assert!(drift.text.starts_with("cold: the runs get slower"), "{drift:?}");
    assert!(drift.text.contains("per run") && drift.text.contains("p < 0.0001"), "{drift:?}");
    assert!(hint(drift).contains("--restore DIR"));
    let found = report.cells[1].drift.unwrap();
    assert!((0.016..0.020).contains(&found.share_per_run), "{found:?}: 2 % of the first run, less of the median");
    assert_eq!(kinds(&report), [WarningKind::Drift], "and the drift alone is no autocorrelation");
}

#[test]
fn whoever_restores_already_is_told_to_look_elsewhere() {
    let report = analyze(&leaking(true).input());
    let said = hint(warning(&report, WarningKind::Drift));
    assert!(said.contains("the profile is restored") && said.contains("--cpu steady"), "{said}");
    let steady = leaking(true).asked(|options| options.steady_cpu = true);
    let report = analyze(&steady.input());
    assert!(!hint(warning(&report, WarningKind::Drift)).contains("--cpu steady"));
}

#[test]
fn a_drift_too_small_to_matter_is_not_warned_about() {
    // Perfectly ordered, but 0.5 % in all.
    let x: Vec<f64> = (0..20).map(|run| 1.0 + 0.005 * f64::from(run) / 19.0).collect();
    let report = analyze(&Book::of(&["firefox"]).cell(0, Hot, &x).input());
    assert!(report.cells[0].drift.unwrap().p < 1e-6);
    assert!(!kinds(&report).contains(&WarningKind::Drift));
}

#[test]
fn noise_alone_is_called_a_drift_at_most_once_in_a_hundred() {
    let book = Book::of(&["firefox"]).cell(0, Cold, &quiet(1));
    let (input, mut report) = (book.input(), analyze(&book.input()));
    let mut random = Random::from_seed(77);
    let (mut drifts, mut resembles) = (0, 0);
    let trials = 2_000;
    for _ in 0..trials {
        // Only what the two doubts look at is made anew; the bootstrap is left out.
        let x: Vec<f64> = (0..20).map(|_| (0.03 * normal(&mut random)).exp()).collect();
        let cell = &mut report.cells[0];
        cell.samples.iter_mut().zip(&x).for_each(|(sample, time)| sample.wall_s = *time);
        cell.drift = stats::drift(&x);
        let found = kinds(&Report { warnings: doubts::doubts(&input, &report), ..report.clone() });
        drifts += usize::from(found.contains(&WarningKind::Drift));
        resembles += usize::from(found.contains(&WarningKind::Autocorrelation));
    }
    let rate = |count: usize| count as f64 / f64::from(trials);
    // At p < 0.01 for 2,000 cells: 20 expected, 30 is 2.2 standard errors above.
    assert!((0.004..=0.015).contains(&rate(drifts)), "drift: {}", rate(drifts));
    assert!((0.003..=0.015).contains(&rate(resembles)), "autocorrelation: {}", rate(resembles));
}

#[test]
fn a_planted_drift_is_found_in_small_steps() {
    // 0.3 % per run among 1 % of noise: the power at 20 runs.
    let mut random = Random::from_seed(78);
    let trials = 500;
    let found = (0..trials)
        .filter(|_| {
            let x: Vec<f64> = (0..20).map(|run| 1.0 + 0.003 * f64::from(run) + 0.01 * normal(&mut random)).collect();
            stats::drift(&x).is_some_and(|drift| drift.p < 0.01)
        })
        .count();
    assert!(found * 100 >= trials * 90, "{found} of {trials}");
}

#[test]
fn runs_that_resemble_their_neighbours_are_warned_about() {
    // The machine changes between a slow and a fast hour.
    let mut x = quiet(5);
    x.iter_mut().enumerate().for_each(|(run, time)| *time *= if run / 5 % 2 == 0 { 1.0 } else { 1.1 });
    let book = Book::of(&["firefox"]).cell(0, Cold, &x);
    let report = analyze(&book.input());
    let resembles = warning(&report, WarningKind::Autocorrelation);
    assert!(resembles.text.contains("lag-1 autocorrelation 0."), "{resembles:?}");
    assert!(resembles.text.contains("too narrow, by a factor of about"), "{resembles:?}");
    assert!(hint(resembles).contains("--restore"));
    let restores = book.asked(|options| options.restores = true);
    let report = analyze(&restores.input());
    assert!(hint(warning(&report, WarningKind::Autocorrelation)).contains("--cpu steady"));
}

#[test]
fn outliers_are_named_and_kept() {
    let mut x = quiet(6);
    x[7] = 3.0;
    let report = analyze(&Book::of(&["firefox"]).cell(0, Cold, &x).input());
    let cell = &report.cells[0];
    assert_eq!((cell.runs, cell.max_s), (20, 3.0), "it is in all figures");
    assert!(cell.mean_s.value > 1.09);
    assert_eq!(cell.outliers, [RunId(8)]);
    let far = warning(&report, WarningKind::Outlier);
    assert!(far.text.contains("1 of 20 runs lies far") && far.text.contains("run 8: 3.000 s"), "{far:?}");
    assert_eq!(far.run, Some(RunId(8)));
}

#[test]
fn the_hint_about_outliers_depends_on_what_they_are() {
    let said = |at: &[usize], busy: bool| {
        let mut x = quiet(6);
        at.iter().for_each(|&run| x[run] = 3.0);
        let mut book = Book::of(&["firefox"]).cell(0, Cold, &x);
        if busy {
            at.iter().for_each(|&run| book.runs[run].0.others_cpu_share = Some(0.5));
        }
        let report = analyze(&book.input());
        hint(warning(&report, WarningKind::Outlier)).to_owned()
    };
    assert!(said(&[0], false).contains("the first run"));
    assert!(said(&[9], true).contains("busy just then"));
    assert!(said(&[3, 6, 9, 12, 15], false).contains("start in two ways"));
    assert!(said(&[9], false).contains("thaw query"));
}

#[test]
fn too_few_runs_say_what_they_can_carry() {
    let text = |n: usize| {
        let report = analyze(&Book::of(&["firefox"]).cell(0, Cold, &times(n, 1.0, 0.01, 9)).input());
        report.warnings.first().map(|warning| (warning.kind, warning.text.clone()))
    };
    assert_eq!(text(1).unwrap().1, "cold has a single run: how much it varies is not known");
    assert!(text(3).unwrap().1.contains("with 75.0 % confidence only"));
    assert!(text(5).unwrap().1.contains("with 93.8 % confidence only"));
    assert_eq!(text(6), None, "six can: 96.9 %");
}

#[test]
fn the_hint_about_too_few_runs_depends_on_what_was_asked() {
    let said = |rejected: usize, set: &dyn Fn(&mut Options)| {
        let mut book = Book::of(&["firefox"]).cell(0, Cold, &times(4, 1.0, 0.01, 9)).asked(|options| set(options));
        for _ in 0..rejected {
            book.run(0, Cold, 9, 1.0).accepted = false;
        }
        let report = analyze(&book.input());
        hint(warning(&report, WarningKind::TooFewRuns)).to_owned()
    };
    assert!(said(0, &|options| options.runs = 4).contains("--runs 10"));
    assert!(said(0, &|options| options.runs = 20).contains("ended early"));
    let budget = |options: &mut Options| (options.runs, options.budget_s) = (20, Some(60.0));
    assert!(said(0, &budget).contains("raise --budget above 60s"));
    assert!(said(6, &|options| options.runs = 10).contains("6 runs of it did not count"));
}

#[test]
fn runs_on_a_busy_machine_are_flagged_with_their_effect() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &quiet(10));
    for run in [2, 5, 11, 17] {
        let row = &mut book.runs[run].0;
        row.others_cpu_share = Some(0.40 + 0.01 * run as f64);
        row.wall_ns = row.wall_ns.map(|wall| Nanos(wall.0 * 5 / 4));
    }
    let report = analyze(&book.input());
    assert_eq!(report.cells[0].busy, [RunId(3), RunId(6), RunId(12), RunId(18)]);
    let busy = warning(&report, WarningKind::BusyMachine);
    assert!(busy.text.starts_with("4 of 20 runs were taken while others used more than 10 % of the CPUs"), "{busy:?}");
    assert!(busy.text.contains("at most 57.0 % in run 18"), "{busy:?}");
    assert!(busy.text.contains("% longer than the others'"), "{busy:?}");
    assert!(hint(busy).contains("more runs make up"));

    book.runs.iter_mut().for_each(|(row, _)| row.others_io_pressure = Some(0.2));
    let report = analyze(&book.input());
    let both: Vec<&Warning> =
        report.warnings.iter().filter(|warning| warning.kind == WarningKind::BusyMachine).collect();
    assert!(both[1].text.contains("20 of 20 runs were taken while others waited for the disk"), "{both:?}");
    assert!(hint(both[1]).contains("end other programs"));
}

#[test]
fn a_machine_that_cannot_tell_is_not_called_busy() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &quiet(1));
    book.runs.iter_mut().for_each(|(row, _)| (row.others_cpu_share, row.others_io_pressure) = (None, None));
    assert_eq!(analyze(&book.input()).warnings, []);
}

#[test]
fn a_precision_that_was_not_reached_says_how_many_runs_it_takes() {
    let book = Book::of(&["firefox"]).cell(0, Cold, &times(20, 1.0, 0.05, 12));
    let asked = |precision: f64| {
        let book = Book { runs: book.runs.clone(), ..Book::of(&["firefox"]) };
        let book = book.asked(|options| (options.precision, options.budget_s) = (Some(precision), Some(600.0)));
        analyze(&book.input())
    };
    assert!(!kinds(&asked(0.1)).contains(&WarningKind::Precision));
    let report = asked(0.005);
    let wide = warning(&report, WarningKind::Precision);
    assert!(wide.text.contains("after 20 runs; ±0.5 % was asked"), "{wide:?}");
    assert!(hint(wide).contains("raise --budget to about"), "{wide:?}");
}

#[test]
fn more_runs_are_no_cure_for_a_drift() {
    let report = analyze(&leaking(false).asked(|options| options.precision = Some(0.001)).input());
    let of_cold = |warning: &&Warning| warning.kind == WarningKind::Precision && warning.text.starts_with("cold");
    assert!(hint(report.warnings.iter().find(of_cold).unwrap()).contains("as long as they drift"));
}

/// Timed runs with as many traced ones in the first blocks, whose times are `factor` longer.
fn traced(runs: usize, factor: f64) -> Report {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &times(20, 1.0, 0.01, 13));
    for (block, time) in times(runs, factor, 0.01, 14).into_iter().enumerate() {
        book.run(0, Cold, block as u32, time).kind = RunKind::Trace;
    }
    analyze(&book.input())
}

#[test]
fn the_tracers_cost_is_measured_against_the_timed_runs() {
    let report = traced(10, 1.02);
    let overhead = &report.overhead[0];
    assert_eq!((overhead.traced_runs, overhead.timed_runs, overhead.method), (10, 20, Method::PairedLogRatio));
    let cpu = overhead.cpu_ratio.unwrap();
    assert!((1.01..1.03).contains(&cpu.value) && cpu.interval.unwrap().contains(1.02), "{cpu:?}");
    assert!(!kinds(&report).contains(&WarningKind::Overhead), "2 % are fine");
}

#[test]
fn a_costly_trace_is_warned_about_unless_it_may_be_chance() {
    let report = traced(10, 1.10);
    let costly = warning(&report, WarningKind::Overhead);
    assert!(costly.text.contains("CPU time to a cold start") && costly.text.contains("10 traced against 20 timed"));
    let report = traced(2, 1.10);
    assert_eq!(report.overhead[0].method, Method::RatioOfMedians);
    assert_eq!(report.overhead[0].cpu_ratio.unwrap().interval, None);
    assert!(!kinds(&report).contains(&WarningKind::Overhead), "two runs prove nothing");
}

#[test]
fn traced_runs_of_a_state_without_timed_ones_have_nothing_to_be_compared_with() {
    let mut book = Book::of(&["firefox"]).cell(0, Hot, &quiet(1));
    book.run(0, Cold, 0, 1.0).kind = RunKind::Trace;
    assert!(analyze(&book.input()).overhead.is_empty());
}

/// Two variants in two states; some blocks are slow for all.
fn two_variants(blocks: usize) -> Book {
    let mut book = Book::of(&["old", "new"]);
    let weather = times(blocks, 1.0, 0.3, 15);
    for (block, weather) in weather.iter().enumerate() {
        for (variant, state, time) in [(0, Hot, 1.0), (0, Cold, 4.0), (1, Hot, 1.0), (1, Cold, 3.0)] {
            let noise = times(1, 1.0, 0.005, (block * 10 + variant as usize * 2) as u64 + u64::from(state == Cold))[0];
            book.run(variant, state, block as u32, time * weather * noise);
        }
    }
    book
}

#[test]
fn runs_of_the_same_block_are_pairs() {
    let report = analyze(&two_variants(12).input());
    let what: Vec<&str> = report.contrasts.iter().map(|contrast| contrast.what.as_str()).collect();
    assert_eq!(what, ["cold / hot (old)", "cold / hot (new)", "new / old (hot)", "new / old (cold)"]);
    let cold = &report.contrasts[3];
    assert_eq!((cold.method, cold.pairs), (Method::RatioOfMedians, 12));
    // The weather of 30 % is gone: the ratio is known to better than 1 %.
    let in_pairs = cold.in_pairs.unwrap();
    assert!((in_pairs.value - 0.75).abs() < 0.005, "{cold:?}");
    assert!(stats::relative_half_width(&in_pairs).unwrap() < 0.01);
    assert!(cold.p < 0.001);
    // The other one is that of the medians in the table.
    let median = |variant, state| {
        let cell = report.cells.iter().find(|cell| (cell.variant, cell.state) == (variant, state));
        cell.unwrap().median_s.value
    };
    assert_eq!(cold.ratio.value, median(1, Cold) / median(0, Cold));
    let hot = &report.contrasts[2];
    assert!(hot.in_pairs.unwrap().interval.unwrap().contains(1.0) && hot.p > 0.01, "{hot:?}");
    let difference = &report.differences[0];
    assert_eq!(difference.what, "(cold-hot) of new minus (cold-hot) of old");
    assert!((-1.4..-0.6).contains(&difference.difference_s.value), "{difference:?}");
}

#[test]
fn one_variant_needs_no_name_in_its_contrasts() {
    let report = analyze(&Book::of(&["firefox"]).cell(0, Hot, &quiet(1)).cell(0, Cold, &quiet(2)).input());
    assert_eq!(report.contrasts[0].what, "cold / hot");
}

#[test]
fn runs_without_common_blocks_are_compared_by_their_medians() {
    let mut book = Book::of(&["firefox"]).cell(0, Hot, &times(10, 1.0, 0.01, 16));
    for (at, time) in times(10, 2.0, 0.01, 17).into_iter().enumerate() {
        book.run(0, Cold, 100 + at as u32, time);
    }
    let contrast = &analyze(&book.input()).contrasts[0];
    assert_eq!((contrast.in_pairs, contrast.pairs), (None, 0));
    assert!((contrast.ratio.value - 2.0).abs() < 0.05 && contrast.ratio.interval.is_some());
    assert!(contrast.p < 0.001);
}

#[test]
fn a_program_against_itself_shows_the_noise_floor() {
    let aa = |factor: f64| {
        let mut book = Book::of(&["firefox", "firefox again"]).asked(|options| options.same_program = true);
        for (block, (a, b)) in quiet(18).into_iter().zip(quiet(19)).enumerate() {
            book.run(0, Cold, block as u32, a);
            book.run(1, Cold, block as u32, b * factor);
        }
        analyze(&book.input())
    };
    let report = aa(1.0);
    let floor = &report.noise_floor.as_ref().unwrap().states[0];
    assert!(floor.ratio.interval.unwrap().contains(1.0), "{floor:?}");
    let smallest = floor.smallest_change.unwrap();
    assert!((0.004..0.02).contains(&smallest), "1 % of noise, 20 pairs: about 0.9 %, got {smallest}");
    assert!(report.contrasts.is_empty() && report.differences.is_empty() && report.warnings.is_empty());

    let biased = aa(1.05);
    let note = warning(&biased, WarningKind::Note);
    assert!(note.text.contains("differs from itself by") && note.text.contains("20 pairs"), "{note:?}");
}

#[test]
fn the_same_recording_always_gives_the_same_report() {
    let book = two_variants(8);
    assert_eq!(analyze(&book.input()), analyze(&book.input()));
    // A further state changes no figure of the others.
    let before = analyze(&book.input());
    let after = analyze(&book.cell(0, App, &quiet(1)).input());
    assert_eq!(after.cells.iter().find(|cell| cell.state == Cold), before.cells.iter().find(|cell| cell.state == Cold));
}

#[test]
fn milestones_come_in_their_order_with_the_runs_that_had_them() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &[1.0, 1.1, 1.2, 1.3]);
    for (row, milestones) in &mut book.runs {
        let half = Nanos(row.wall_ns.unwrap().0 / 2);
        milestones.push(Milestone { name: "line:painted".to_owned(), at_ns: half });
    }
    book.runs[0].1.pop();
    let cell = &analyze(&book.input()).cells[0];
    let shown: Vec<(&str, u32)> = cell.milestones.iter().map(|m| (m.name.as_str(), m.runs)).collect();
    assert_eq!(shown, [("line:painted", 3), ("exit", 4)]);
    assert_eq!(cell.milestones[0].median_s.value, 0.6);
}

#[test]
fn each_doubt_is_said_once() {
    let mut book = Book::of(&["firefox"]).cell(0, Cold, &quiet(1));
    let row = book.run(0, Cold, 3, 1.0);
    row.accepted = false;
    row.rejected_because = Some("not cold: libc stays".to_owned());
    let report = analyze(&book.input());
    let recorded = [
        Warning::new(WarningKind::NotInState, "a run of firefox was not cold: libc stays").run(RunId(21)),
        Warning::new(WarningKind::Precision, "the median of firefox has ±2 %"),
        Warning::new(WarningKind::NoControl, "no governor here"),
        Warning::new(WarningKind::NotInState, "a warm-up was needed").run(RunId(1)),
    ];
    let all = all_warnings(&recorded, &report);
    let texts: Vec<&str> = all.iter().map(|warning| warning.text.as_str()).collect();
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert_eq!(&texts[..2], ["no governor here", "a warm-up was needed"]);
    assert!(texts[2].starts_with("cold: 1 run not counted (run 21)"));
}

/// Any run at all, also such as no machine makes.
fn any_run() -> impl Strategy<Value = Run> {
    let place = (0..3_u32, prop::sample::select(CacheState::ALL.to_vec()), 0..5_u32, any::<bool>());
    let kind = prop::sample::select(vec![RunKind::Timed, RunKind::Timed, RunKind::Trace, RunKind::Warmup]);
    let figures = (prop::option::of(0..10_000_000_000_u64), 0..10_000_000_000_u64, prop::option::of(0.0..1.0_f64));
    (place, kind, figures).prop_map(|((variant, state, block, accepted), kind, (wall, cpu, others))| {
        let mut book = Book::of(&[]);
        let row = book.run(variant, state, block, 1.0);
        (row.kind, row.accepted, row.wall_ns) = (kind, accepted, wall.map(Nanos));
        (row.user_ns, row.system_ns) = (Nanos(cpu), Nanos(cpu / 3));
        (row.others_cpu_share, row.others_io_pressure) = (others, others);
        book.runs.remove(0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_recording_gives_a_report_that_survives_json(
        runs in prop::collection::vec(any_run(), 0..40),
        precision in prop::option::of(0.001..0.5_f64),
        same_program in any::<bool>(),
    ) {
        let mut book = Book::of(&["a", "b"]).asked(|options| {
            (options.precision, options.same_program) = (precision, same_program);
        });
        book.runs = runs;
        book.runs.iter_mut().enumerate().for_each(|(at, (row, _))| row.id = RunId(at as i64 + 1));
        let report = analyze(&book.input());
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&text).expect("no figure is NaN or infinite");
        prop_assert_eq!(read.cells.len(), report.cells.len());
        let counted: u32 = report.cells.iter().map(|cell| cell.runs).sum();
        let is_timed = |row: &RunRow| row.kind == RunKind::Timed && row.accepted && row.wall_ns.is_some();
        let timed = book.runs.iter().filter(|(row, _)| is_timed(row));
        prop_assert_eq!(counted as usize, timed.count());
        let comparison = crate::compare::compare(&book.input(), &book.input());
        let text = serde_json::to_string(&comparison).unwrap();
        serde_json::from_str::<crate::report::Comparison>(&text).expect("no figure is NaN or infinite");
        for warning in report.warnings.iter().chain(&comparison.warnings) {
            prop_assert!(warning.hint.is_some() && !warning.text.contains("NaN"), "{:?}", warning);
        }
    }
}
