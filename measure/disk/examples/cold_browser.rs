//! How long a cold start takes on a disk of one's choice, and how far that is from what the model says without one.
//!
//! ```text
//! cargo run --release -p disk --example cold_browser -- [DISK [RUNS [BROWSER]]]      as root; laptop2010, 3, firefox-esr
//! ```
//!
//! The program's directory and a fresh profile are copied onto the simulated disk; before every run it is put back bit
//! for bit, and cold. The system's libraries stay as they are on the machine. A first run on the same disk at full
//! speed says what is asked for; from that the model predicts the start on the chosen disk, before it is measured
//! there. Raw samples come first.

use disk::model::Direction;
use disk::preset::Presets;
use disk::simulate::{Prediction, predict};
use disk::simulated::{Image, Namespace, Options, Pace, Record, Simulated, requests};
use model::{Bytes, Error, Exit, Nanos, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Start {
    t0: Nanos,
    length: Nanos,
    log: Vec<Record>,
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        if let Some(hint) = &error.hint {
            eprintln!("{hint}");
        }
        std::process::exit(error.exit as i32);
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "laptop2010".into());
    let runs: usize = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    let program = arguments.next().unwrap_or_else(|| "firefox-esr".into());
    let model = Presets::builtin().get(&name)?.model.clone();
    let executable = os::spawn::resolve_program(program.as_ref())?;
    let app = installed(&executable)?;
    let home = std::env::temp_dir().join(format!("thaw-cold-{}", std::process::id()));
    let profile = home.join("profile");
    let result = (|| {
        std::fs::create_dir_all(&profile)
            .map_err(|cause| Error::on(Exit::Machine, "cannot create", &profile).because(cause))?;
        // The first starts of a profile do what later ones do not.
        for _ in 0..2 {
            start(&executable, &home, None)?;
        }
        println!("{}: {} and a profile on {}", program, app.display(), model.title);
        let options = Options {
            model: model.clone(),
            items: vec![app.clone(), profile.clone()],
            image: Image::Memory,
            read_ahead_kib: 128,
        };
        let (mut disk, warnings) = Simulated::create(&options)?;
        warnings.iter().for_each(|warning| println!("{}", warning.text));
        println!("{} in {} files copied to {}", disk.copied().bytes, disk.copied().files, disk.device().display());
        let fast = cold(&mut disk, &executable, &home, Pace::Recorded)?;
        let before = predict(&model, &requests(&fast.log, fast.t0), fast.length);
        line("on a disk that takes no time", &fast, None);
        println!("predicted from that: {} as it came, {} sorted", before.as_came.length, before.sorted.length);
        compare("disk time as came / sorted", &before);
        for run in 1..=runs {
            let slow = cold(&mut disk, &executable, &home, Pace::Model)?;
            let after = predict(&model, &requests(&slow.log, slow.t0), slow.length);
            line(&format!("run {run}"), &slow, Some((&before, &after)));
        }
        disk.finish()
    })();
    let _ = os::tree::remove(&home);
    result
}

/// The directory of the program behind links and scripts.
fn installed(executable: &Path) -> Result<PathBuf> {
    let real =
        executable.canonicalize().map_err(|cause| Error::on(Exit::Usage, "cannot find", executable).because(cause))?;
    let name = real.file_name().unwrap_or_default();
    let library = Path::new("/usr/lib").join(name);
    Ok(if library.is_dir() { library } else { real.parent().unwrap_or(Path::new("/")).to_path_buf() })
}

fn cold(disk: &mut Simulated, executable: &Path, home: &Path, pace: Pace) -> Result<Start> {
    // Helpers of the last run may still be dying.
    let mut tries = 0;
    while let Err(error) = disk.restore() {
        tries += 1;
        if tries == 200 {
            return Err(error);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    disk.forget_log()?;
    let namespace = disk.namespace()?;
    disk.pace(pace)?;
    let (t0, length) = start(executable, home, Some(namespace))?;
    disk.pace(Pace::Free)?;
    Ok(Start { t0, length, log: disk.log()? })
}

/// Starts the program for one page and waits for its end.
fn start(executable: &Path, home: &Path, namespace: Option<Namespace>) -> Result<(Nanos, Nanos)> {
    let mut command = Command::new(executable);
    let (profile, picture) = (home.join("profile"), home.join("page.png"));
    if executable.to_string_lossy().contains("chrom") {
        command.args(["--headless", "--no-sandbox", "--disable-gpu"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg(format!("--screenshot={}", picture.display()));
    } else {
        command.args(["--headless", "--no-remote", "--profile"]).arg(profile).arg("--screenshot").arg(picture);
    }
    command.arg("data:text/html,<title>thaw</title>a page");
    command.env("HOME", home).env_remove("DISPLAY").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(namespace) = namespace {
        // SAFETY: `enter` makes system calls on prepared memory only.
        unsafe { command.pre_exec(move || namespace.enter().map_err(std::io::Error::from_raw_os_error)) };
    }
    let failed = |cause: std::io::Error| Error::on(Exit::Target, "cannot start", executable).because(cause);
    command.process_group(0);
    let t0 = os::spawn::monotonic_ns();
    let mut child = command.spawn().map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    let length = os::spawn::monotonic_ns() - t0;
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    match status.success() {
        true => Ok((Nanos(t0), Nanos(length))),
        false => Err(Error::on(Exit::Target, format!("failed with {status}:"), executable)),
    }
}

fn line(what: &str, start: &Start, predictions: Option<(&Prediction, &Prediction)>) {
    let bytes: Bytes = start.log.iter().map(|record| record.ask.len).sum();
    let writes = start.log.iter().filter(|record| record.ask.direction != Direction::Read);
    let flushes = writes.clone().filter(|record| record.ask.direction == Direction::Flush).count();
    let writing: Nanos = writes.clone().filter_map(|record| record.service).map(|service| service.took()).sum();
    println!(
        "{what}: {} with {} requests for {bytes}, {} of them writes and {flushes} flushes ({writing})",
        start.length,
        start.log.len(),
        writes.count() - flushes,
    );
    let Some((before, after)) = predictions else { return };
    let off = |prediction: &Prediction| (start.length.seconds() / prediction.as_came.length.seconds() - 1.0) * 100.0;
    println!("  {:+.1} % off what was predicted before the run", off(before));
    println!(
        "  {:+.1} % off the model on its own requests ({}; disk {})",
        off(after),
        after.as_came.length,
        after.as_came.disk_time
    );
    let mut late: Vec<f64> = start.log.iter().map(|record| record.late().seconds() * 1e3).collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| stats::quantile(&late, share);
    println!(
        "  answers late by {:.3} ms (median), {:.3} ms (99 %), {:.1} ms in all",
        at(0.5),
        at(0.99),
        late.iter().sum::<f64>()
    );
    compare("  disk time as came / sorted", after);
}

fn compare(what: &str, prediction: &Prediction) {
    println!(
        "{what}: {} / {} = {:.2}; length {:.2}",
        prediction.as_came.disk_time, prediction.sorted.disk_time, prediction.disk_ratio, prediction.length_ratio
    );
}
